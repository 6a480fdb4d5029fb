//! Qualities of service, for clusters where they decide about preemption.

use std::{collections::BTreeSet, time::Duration};

use crate::{ParseError, nodes::time_limit};

/// The arguments of `sacctmgr` whose answer [`parse_qualities`] reads.
pub const QUALITIES: &[&str] =
    &["--noheader", "--parsable2", "show", "qos", "format=Name,GraceTime,Preempt,PreemptMode"];

/// A quality of service, as far as it says who makes room.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Quality {
    pub name: String,
    /// Its jobs take the place of jobs of these, as far as those make room.
    pub preempts: BTreeSet<String>,
    /// Its jobs make room, and have so long for it (`GraceTime`); none where they do not.
    pub grace: Option<Duration>,
}

/// The default preemption mode of a quality of service (`REQUEUE`), from the output of `scontrol show config`. `None`
/// if qualities of service do not decide about preemption.
pub fn preempt_mode(config: &str) -> Option<&str> {
    value(config, "PreemptType").filter(|kind| *kind == "preempt/qos").and_then(|_| value(config, "PreemptMode"))
}

fn value<'c>(config: &'c str, name: &str) -> Option<&'c str> {
    let mut lines = config.lines().filter_map(|line| line.split_once('='));
    lines.find(|(key, _)| key.trim() == name).map(|(_, value)| value.trim())
}

/// Whether a preemption mode ends jobs, so that they start again or resume elsewhere.
pub(crate) fn makes_room(modes: &str) -> bool {
    modes.split(',').any(|mode| ["CANCEL", "REQUEUE"].iter().any(|known| mode.eq_ignore_ascii_case(known)))
}

/// Parses the output of `sacctmgr` with [`QUALITIES`]. `otherwise` is [`preempt_mode`].
///
/// # Errors
/// A line has another form.
pub fn parse_qualities(text: &str, otherwise: &str) -> Result<Vec<Quality>, ParseError> {
    let quality = |line: &str| {
        let fields: [&str; 4] = line.split('|').collect::<Vec<_>>().try_into().ok()?;
        let [name, grace, preempts, mode] = fields;
        let grace = if grace.is_empty() { Duration::ZERO } else { time_limit(grace)?? };
        let mode = if mode.is_empty() || mode.eq_ignore_ascii_case("cluster") { otherwise } else { mode };
        Some(Quality {
            name: name.to_owned(),
            preempts: preempts.split(',').filter(|name| !name.is_empty()).map(str::to_owned).collect(),
            grace: makes_room(mode).then_some(grace),
        })
    };
    let bad = |line| move || ParseError::new("sacctmgr show qos", "NAME|GRACETIME|PREEMPT|PREEMPTMODE", line);
    let lines = text.lines().map(str::trim).filter(|line| !line.is_empty());
    lines.map(|line| quality(line).ok_or_else(bad(line))).collect()
}

/// The fields of an association that [`parse_defaults`] reads.
const DEFAULTS: &str = "format=DefaultAccount,Account,Partition,DefaultQOS,QOS";

/// The arguments of `sacctmgr` whose answer [`parse_defaults`] reads. `config` is the output of `scontrol show config`.
/// It names the cluster, because several may share an accounting database.
pub fn defaults(user: &str, config: &str) -> Vec<String> {
    let user = format!("name={user}");
    let cluster = value(config, "ClusterName").map(|name| format!("cluster={name}"));
    let args = ["--noheader", "--parsable2", "show", "user", &user, "withassoc", DEFAULTS].map(str::to_owned);
    args.into_iter().chain(cluster).collect()
}

/// The default qualities of service of a user's jobs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Defaults {
    account: String,
    associations: Vec<Association>,
}

/// An association of the user: an account and, if it matters, a partition.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Association {
    account: String,
    partition: String,
    quality: Option<String>,
}

impl Defaults {
    /// The quality of jobs in this account and partition. `None` means the user's defaults.
    pub fn quality(&self, account: Option<&str>, partition: Option<&str>) -> &str {
        let account = account.unwrap_or(&self.account);
        let own =
            |partition: &str| self.associations.iter().find(|one| one.account == account && one.partition == partition);
        let here = partition.and_then(own).or_else(|| own(""));
        here.and_then(|one| one.quality.as_deref()).unwrap_or("normal")
    }
}

/// Parses the output of `sacctmgr` with [`defaults`].
///
/// # Errors
/// A line has another form.
pub fn parse_defaults(text: &str) -> Result<Defaults, ParseError> {
    let mut defaults = Defaults::default();
    for line in text.lines().map(str::trim).filter(|line| !line.is_empty()) {
        let fields = line.split('|').collect::<Vec<_>>().try_into();
        let [of_user, account, partition, default, all]: [&str; 5] =
            fields.map_err(|_| ParseError::new("sacctmgr show user", "ACCOUNT|ACCOUNT|PARTITION|QOS|QOS,…", line))?;
        // Who may have one alone has that.
        let quality = if default.is_empty() && !all.contains(',') { all } else { default };
        defaults.account = of_user.to_owned();
        defaults.associations.push(Association {
            account: account.to_owned(),
            partition: partition.to_owned(),
            quality: Some(quality.to_owned()).filter(|quality| !quality.is_empty()),
        });
    }
    Ok(defaults)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_quality_of_who_names_none() {
        // As sacctmgr 22.05.8 printed them; the partition's was added.
        let text = "\
            lab|other||low|low,normal\n\
            lab|lab|||low,normal,urgent\n\
            lab|lab|gpu|urgent|urgent\n\
            lab|root|||low\n";
        let defaults = parse_defaults(text).unwrap();
        assert_eq!(defaults.quality(None, None), "normal");
        assert_eq!(defaults.quality(None, Some("gpu")), "urgent");
        assert_eq!(defaults.quality(Some("other"), Some("gpu")), "low");
        assert_eq!(defaults.quality(Some("root"), None), "low", "the only one");
        assert_eq!(defaults.quality(Some("nobody's"), None), "normal");
        let asked = super::defaults("ada", "ClusterName             = east\nPreemptMode = OFF\n");
        assert_eq!(asked.last().map(String::as_str), Some("cluster=east"));
        assert_eq!(parse_defaults("").unwrap().quality(None, None), "normal", "a user that has no account");
        assert_eq!(
            parse_defaults("lab|x").unwrap_err().to_string(),
            "sacctmgr show user: ACCOUNT|ACCOUNT|PARTITION|QOS|QOS,… was expected, not `lab|x`"
        );
    }

    #[test]
    fn the_qualities_of_22_05() {
        // As sacctmgr 22.05.8 printed them.
        let text = "\
            normal|00:00:00||cluster\n\
            low|00:00:30||cancel\n\
            urgent|1-00:00:00|low|cluster\n\
            top|00:00:00|low,normal,urgent|cluster\n";
        let of = |name: &str, preempts: &[&str], grace: Option<u64>| Quality {
            name: name.to_owned(),
            preempts: preempts.iter().map(|name| (*name).to_owned()).collect(),
            grace: grace.map(Duration::from_secs),
        };
        let requeue = [
            of("normal", &[], Some(0)),
            of("low", &[], Some(30)),
            of("urgent", &["low"], Some(86_400)),
            of("top", &["low", "normal", "urgent"], Some(0)),
        ];
        assert_eq!(parse_qualities(text, "REQUEUE"), Ok(requeue.to_vec()));
        // Where the cluster only suspends, who says nothing else keeps its place.
        let suspend = parse_qualities(text, "GANG,SUSPEND").unwrap();
        assert_eq!(
            suspend.iter().map(|quality| quality.grace.is_some()).collect::<Vec<_>>(),
            [false, true, false, false]
        );
        assert_eq!(
            parse_qualities("normal|x||cluster", "OFF").unwrap_err().to_string(),
            "sacctmgr show qos: NAME|GRACETIME|PREEMPT|PREEMPTMODE was expected, not `normal|x||cluster`"
        );
    }

    #[test]
    fn the_configuration_says_whether_they_decide() {
        let config =
            "PreemptMode             = REQUEUE\nPreemptType             = preempt/qos\nPreemptExemptTime = 00:00:00\n";
        assert_eq!(preempt_mode(config), Some("REQUEUE"));
        assert_eq!(preempt_mode(&config.replace("preempt/qos", "preempt/partition_prio")), None);
        assert_eq!(preempt_mode(""), None);
    }
}
