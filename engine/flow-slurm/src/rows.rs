//! The output of `squeue` and `sacct`: one row per job, flow's own jobs only.

use crate::{JobId, KEY_PREFIX, ParseError};

/// The arguments of `squeue`: all jobs of this user, tasks of arrays one by one, those that ended lately too.
pub const QUEUE: &[&str] = &[
    "--noheader",
    "--me",
    "--array",
    "--states=all",
    "--Format=JobArrayID:|,Name:|,State:|,exit_code:|,NodeList:|,Reason:",
];

/// The arguments of `sacct`, less `--name=KEY,…` and `--starttime`. It answers only where there is an accounting database.
pub const ACCOUNTING: &[&str] =
    &["--noheader", "--allocations", "--parsable2", "--format=JobID,JobName,State,ExitCode,NodeList"];

/// The row of one job, or of one task of an array.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Row {
    pub id: JobId,
    /// Its name, [`crate::Job::key`].
    pub key: String,
    /// Slurm's word for its state, `RUNNING`.
    pub state: String,
    /// Slurm's word for why it waits or how it ended, `Resources`; empty where nothing is said.
    pub reason: String,
    pub exit: Exit,
    /// The node that it runs or ran on; empty before.
    pub node: String,
}

impl Row {
    /// It has a node and was cancelled, and nothing of it ended with a code or by a signal. So it is where the node's prolog fails; and
    /// where a program ended well when it was told to.
    pub fn may_not_have_begun(&self) -> bool {
        self.state == "CANCELLED" && !self.node.is_empty() && self.exit == Exit::default()
    }
}

/// How the batch script's process ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Exit {
    pub code: u8,
    /// Above those of the system are numbers of Slurm's own: 53 says that the script could not even begin.
    pub signal: u8,
}

impl Exit {
    /// `3:0`, or what `wait` returns as one number, `768`: of old, `squeue` tells that.
    fn parse(text: &str) -> Option<Exit> {
        match text.split_once(':') {
            // sacct has codes above 255 for what Slurm itself means by them.
            Some((code, signal)) => {
                let (code, signal) = (code.parse::<u32>().ok()?, signal.parse::<u32>().ok()?);
                Some(Exit { code: code.min(255) as u8, signal: signal.min(255) as u8 })
            }
            None => {
                let status = text.parse::<u32>().ok()?;
                Some(Exit { code: (status >> 8 & 0xff) as u8, signal: (status & 0x7f) as u8 })
            }
        }
    }
}

/// Reads what [`QUEUE`] printed. Jobs that are not flow's are left out, whatever their names and comments do to their lines.
///
/// # Errors
/// A line of flow's has another form: then nothing is known of any job.
pub fn parse_queue(text: &str) -> Result<Vec<Row>, ParseError> {
    let mut rows = Vec::new();
    for line in text.lines() {
        let mut fields = line.splitn(6, '|');
        let (id, Some(key)) = (fields.next().unwrap_or_default(), fields.next()) else { continue };
        if !key.starts_with(KEY_PREFIX) {
            continue;
        }
        let bad = || ParseError::new("squeue", "ID|NAME|STATE|EXIT|NODES|REASON", line);
        let id = JobId::parse(id).ok_or_else(bad)?;
        let rest: Option<[&str; 4]> = fields.collect::<Vec<_>>().try_into().ok();
        let [state, exit, node, reason] = rest.ok_or_else(bad)?;
        rows.push(row(id, key, state, exit, node, reason).ok_or_else(bad)?);
    }
    Ok(rows)
}

/// Reads what [`ACCOUNTING`] printed. Tasks of an array that wait are one line there, and left to `squeue`.
///
/// # Errors
/// A line of flow's has another form.
pub fn parse_accounting(text: &str) -> Result<Vec<Row>, ParseError> {
    let mut rows = Vec::new();
    for line in text.lines() {
        let mut fields = line.split('|');
        let (id, Some(key)) = (fields.next().unwrap_or_default(), fields.next()) else { continue };
        if !key.starts_with(KEY_PREFIX) || id.contains('[') {
            continue;
        }
        let bad = || ParseError::new("sacct", "ID|NAME|STATE|EXIT|NODES", line);
        let id = JobId::parse(id).ok_or_else(bad)?;
        let rest: Option<[&str; 3]> = fields.collect::<Vec<_>>().try_into().ok();
        let [state, exit, node] = rest.ok_or_else(bad)?;
        let node = if node == "None assigned" { "" } else { node };
        // `CANCELLED by 1000`.
        let (state, reason) = state.split_once(' ').unwrap_or((state, ""));
        rows.push(row(id, key, state, exit, node, reason).ok_or_else(bad)?);
    }
    Ok(rows)
}

fn row(id: JobId, key: &str, state: &str, exit: &str, node: &str, reason: &str) -> Option<Row> {
    let word = |text: &str| !text.is_empty() && text.bytes().all(|b| b.is_ascii_uppercase() || b == b'_');
    if !word(state) {
        return None;
    }
    let absent = |text: &str| if matches!(text, "None" | "(null)" | "N/A") { String::new() } else { text.to_owned() };
    Some(Row {
        id,
        key: key.to_owned(),
        state: state.to_owned(),
        reason: absent(reason.trim()),
        exit: Exit::parse(exit)?,
        node: absent(node),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(rows: Result<Vec<Row>, ParseError>) -> Vec<String> {
        let show = |r: Row| {
            format!("{} {} {} {}:{} {} ({})", r.id, r.key, r.state, r.exit.code, r.exit.signal, r.node, r.reason)
        };
        rows.map_or_else(|e| vec![e.to_string()], |rows| rows.into_iter().map(show).collect())
    }

    #[test]
    fn the_queue_of_22_05() {
        // As Slurm 22.05.8 printed it.
        let text = "\
            23|flow-trap|CANCELLED|1792|node2|None\n\
            36|flow-pend|CANCELLED|0||JobHeldUser\n\
            1|wrap|COMPLETED|0|node1|None\n\
            3_8|flow-arr|COMPLETED|0|node1|None\n\
            16|flow-nofolder|FAILED|4021|node1|JobLaunchFailure\n\
            17|flow-127|FAILED|32512|node1|NonZeroExitCode\n\
            40|flow-drain|PENDING|0||ReqNodeNotAvail, UnavailableNodes:node3\n\
            18|flow-time|TIMEOUT|15|node1|TimeLimit\n";
        assert_eq!(
            shown(parse_queue(text)),
            [
                "23 flow-trap CANCELLED 7:0 node2 ()",
                "36 flow-pend CANCELLED 0:0  (JobHeldUser)",
                "3_8 flow-arr COMPLETED 0:0 node1 ()",
                "16 flow-nofolder FAILED 15:53 node1 (JobLaunchFailure)",
                "17 flow-127 FAILED 127:0 node1 (NonZeroExitCode)",
                "40 flow-drain PENDING 0:0  (ReqNodeNotAvail, UnavailableNodes:node3)",
                "18 flow-time TIMEOUT 0:15 node1 (TimeLimit)",
            ]
        );
        assert_eq!(parse_queue(""), Ok(Vec::new()));
    }

    #[test]
    fn the_queue_of_24_11() {
        // As Slurm 24.11.5 printed it.
        let text = "\
            1|flow-sig|FAILED|0:9|node1|RaisedSignal:9(Killed)\n\
            2|flow-three|FAILED|3:0|node1|NonZeroExitCode\n\
            8|flow-imp|FAILED|0:1||BadConstraints\n\
            7_2|flow-arr|PENDING|0:0||JobArrayTaskLimit\n\
            16|flow-gpu|RUNNING|0:0|node1|None\n";
        assert_eq!(
            shown(parse_queue(text)),
            [
                "1 flow-sig FAILED 0:9 node1 (RaisedSignal:9(Killed))",
                "2 flow-three FAILED 3:0 node1 (NonZeroExitCode)",
                "8 flow-imp FAILED 0:1  (BadConstraints)",
                "7_2 flow-arr PENDING 0:0  (JobArrayTaskLimit)",
                "16 flow-gpu RUNNING 0:0 node1 ()",
            ]
        );
    }

    #[test]
    fn jobs_of_others_do_no_harm_and_strange_lines_of_ours_tell_nothing() {
        let others =
            "7|a|b|c|d|e|f|g\n50+1|het|RUNNING|0|node1|None\n3_[4-9%4]|x|PENDING|0||x\n\nslurm_load_jobs: hm\n";
        assert_eq!(parse_queue(others), Ok(Vec::new()));
        for strange in [
            "3_[4-9%4]|flow-arr|PENDING|0||JobArrayTaskLimit",
            "3|flow-arr|PENDING|0",
            "3|flow-arr||0|node1|None",
            "3|flow-arr|RUNNING|x|node1|None",
            "x|flow-arr|RUNNING|0|node1|None",
        ] {
            let told = shown(parse_queue(strange));
            assert_eq!(told, [format!("squeue: ID|NAME|STATE|EXIT|NODES|REASON was expected, not `{strange}`")]);
        }
    }

    #[test]
    fn accounting() {
        // Forms that sacct 22.05.8 was seen to print with an accounting database.
        let text = "\
            2|flow-abc|FAILED|3:0|node1\n\
            22|flow-cancel|CANCELLED by 0|0:15|node1\n\
            3_[4-9%4]|flow-arr|PENDING|0:0|None assigned\n\
            3_1|flow-arr|COMPLETED|0:0|node1\n\
            30|flow-wait|PENDING|0:0|None assigned\n\
            9|wrap|COMPLETED|0:0|node1\n";
        assert_eq!(
            shown(parse_accounting(text)),
            [
                "2 flow-abc FAILED 3:0 node1 ()",
                "22 flow-cancel CANCELLED 0:15 node1 (by 0)",
                "3_1 flow-arr COMPLETED 0:0 node1 ()",
                "30 flow-wait PENDING 0:0  ()",
            ]
        );
        let strange = shown(parse_accounting("2|flow-abc|FAILED"));
        assert_eq!(strange, ["sacct: ID|NAME|STATE|EXIT|NODES was expected, not `2|flow-abc|FAILED`"]);
    }
}
