//! How many jobs run and wait on a cluster, of everybody.

use std::collections::BTreeMap;

use crate::ParseError;

/// The arguments of `squeue`: everybody's jobs that run or wait, tasks of arrays one by one.
pub const LOAD: &[&str] = &["--noheader", "--array", "--Format=State:|,UserName:|,Partition:"];

/// The jobs of one partition.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize)]
pub struct Load {
    /// They have their nodes.
    pub running: u32,
    /// They wait for whatever it is; one that may run in several partitions waits in each.
    pub waiting: u32,
    /// The user's own jobs among `running`.
    pub yours_running: u32,
    /// The user's own jobs among `waiting`.
    pub yours_waiting: u32,
}

/// Parses the output of [`LOAD`]. `me` is the user's name.
///
/// # Errors
/// A line has another form.
pub fn parse_load(text: &str, me: &str) -> Result<BTreeMap<String, Load>, ParseError> {
    let mut loads: BTreeMap<String, Load> = BTreeMap::new();
    for line in text.lines().filter(|line| !line.trim().is_empty()) {
        let fields: Option<[&str; 3]> = line.split('|').collect::<Vec<_>>().try_into().ok();
        let bad = || ParseError::new("squeue", "STATE|USER|PARTITION", line);
        let [state, user, partitions] = fields.ok_or_else(bad)?.map(str::trim);
        let yours = u32::from(user == me);
        for partition in partitions.split(',') {
            let load = loads.entry(partition.to_owned()).or_default();
            if matches!(state, "PENDING" | "REQUEUED" | "REQUEUE_HOLD" | "SPECIAL_EXIT") {
                load.waiting += 1;
                load.yours_waiting += yours;
            } else {
                load.running += 1;
                load.yours_running += yours;
            }
        }
    }
    Ok(loads)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn jobs_are_counted_by_partition() {
        let text = "PENDING|ada|gpu,long\nRUNNING|bob|gpu\nRUNNING|ada|gpu\nCOMPLETING|bob|cpu \n\n";
        let loads = parse_load(text, "ada").unwrap();
        let load =
            |running, waiting, yours_running, yours_waiting| Load { running, waiting, yours_running, yours_waiting };
        let expected = [("cpu", load(1, 0, 0, 0)), ("gpu", load(2, 1, 1, 1)), ("long", load(0, 1, 0, 1))];
        assert_eq!(loads, expected.map(|(name, load)| (name.to_owned(), load)).into());
        assert_eq!(
            parse_load("PENDING|ada\n", "ada").unwrap_err().to_string(),
            "squeue: STATE|USER|PARTITION was expected, not `PENDING|ada`"
        );
    }
}
