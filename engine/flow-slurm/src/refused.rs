//! The messages of `sbatch` when it submits nothing, or when the result is unknown.

/// A submission that did not go through.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refused {
    pub why: Why,
    /// Slurm's own words, less `sbatch: error:`.
    pub text: String,
}

/// The kind of refusal, which decides the next action.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Why {
    /// No node of the partition could ever give this, or a limit on each job forbids it.
    Impossible,
    /// The partition, account, quality of service or feature does not exist or is not allowed for this user. Also a
    /// refusal in the site's own words.
    NotAllowed,
    /// The queue takes no more jobs for now: try again later.
    SubmitLimit,
    /// The controller did not answer, or too late. The job may be there: to be looked up by its name first.
    Unreachable,
    /// The array has too many tasks.
    Array,
    /// The arguments themselves are wrong.
    Usage,
    /// Nothing that is known. The job may be there: to be looked up by its name first.
    Unknown,
}

/// The controller is there, and had no time to answer, by what a command said.
pub fn is_busy(said: &str) -> bool {
    said.contains("Socket timed out")
}

/// The prefix of the controller's answer.
const ANSWER: &str = "Batch job submission failed: ";

/// Parts of Slurm's messages and their meaning. The first match counts.
const SAID: &[(&str, Why)] = &[
    ("SubmitJob", Why::SubmitLimit),
    ("temporarily unable to accept job", Why::SubmitLimit),
    ("PerJob", Why::Impossible),
    ("QOSMin", Why::Impossible),
    ("Job violates accounting/QOS policy", Why::NotAllowed),
    ("Unable to contact slurm controller", Why::Unreachable),
    ("Socket timed out", Why::Unreachable),
    ("Zero Bytes were transmitted", Why::Unreachable),
    ("Connection refused", Why::Unreachable),
    ("Communication connection failure", Why::Unreachable),
    ("Unexpected message received", Why::Unreachable),
    ("Insane message length", Why::Unreachable),
    ("standby mode", Why::Unreachable),
    ("Unable to establish configuration source", Why::Unreachable),
    ("Unable to resolve", Why::Unreachable),
    ("timed out", Why::Unreachable),
    ("No route to host", Why::Unreachable),
    ("etwork is unreachable", Why::Unreachable),
    ("Connection reset", Why::Unreachable),
    ("Broken pipe", Why::Unreachable),
    ("Invalid authentication credential", Why::Unreachable),
    ("Protocol authentication error", Why::Unreachable),
    ("Invalid job array specification", Why::Array),
    ("Requested node configuration is not available", Why::Impossible),
    ("Memory specification can not be satisfied", Why::Impossible),
    ("CPU count", Why::Impossible),
    ("More processors requested than permitted", Why::Impossible),
    ("Node count specification invalid", Why::Impossible),
    ("Requested time limit is invalid", Why::Impossible),
    ("Requested partition configuration not available", Why::Impossible),
    ("Invalid generic resource", Why::Impossible),
    ("Invalid Trackable RESource", Why::Impossible),
    ("Invalid partition", Why::NotAllowed),
    ("invalid partition", Why::NotAllowed),
    ("Invalid account", Why::NotAllowed),
    ("Invalid qos", Why::NotAllowed),
    ("Invalid feature", Why::NotAllowed),
    ("Requested reservation", Why::NotAllowed),
    ("not permitted to use this partition", Why::NotAllowed),
    ("Access/permission denied", Why::NotAllowed),
    ("unrecognized option", Why::Usage),
    ("ambiguous", Why::Usage),
    ("requires an argument", Why::Usage),
    ("Unable to open file", Why::Usage),
];

/// Makes sense of what `sbatch` printed on standard error, with its exit code; none where it was ended because it took too
/// long.
pub fn refused(stderr: &str, code: Option<i32>) -> Refused {
    let said = SAID.iter().find(|(words, _)| stderr.contains(words)).map(|&(_, why)| why);
    let why = match said {
        Some(why) => why,
        None if code.is_none() => Why::Unreachable,
        None if code == Some(255) => Why::Usage,
        // The controller's answer, in words of this site or of a later Slurm.
        None if stderr.contains(ANSWER) => Why::NotAllowed,
        None => Why::Unknown,
    };
    let mut lines: Vec<&str> = Vec::new();
    for line in stderr.lines() {
        let line = line.trim();
        let line = line.strip_prefix("sbatch: ").unwrap_or(line);
        let line = line.strip_prefix("error: ").unwrap_or(line);
        let line = line.strip_prefix(ANSWER).unwrap_or(line);
        if !line.is_empty() && !line.starts_with("Try \"") && !lines.contains(&line) {
            lines.push(line);
        }
    }
    Refused { why, text: lines.join("; ") }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What sbatch prints of these errors, of which the last one says why nothing was submitted.
    fn printed(errors: &[&str]) -> String {
        let (last, before) = errors.split_last().unwrap();
        let before: String = before.iter().map(|error| format!("sbatch: error: {error}\n")).collect();
        format!("{before}sbatch: error: Batch job submission failed: {last}\n")
    }

    const POLICY: &str = "Job violates accounting/QOS policy (job submit limit, user's size and/or time limits)";
    const NODES: &str = "Requested node configuration is not available";

    #[test]
    fn refusals_of_22_05_and_24_11() {
        // As Slurm 22.05.8 printed them, with its exit code.
        let table: &[(&[&str], Why)] = &[
            (&[NODES], Why::Impossible),
            (&["Memory specification can not be satisfied", NODES], Why::Impossible),
            (&["invalid partition specified: nosuch", "Invalid partition name specified"], Why::NotAllowed),
            (&["Invalid job array specification"], Why::Array),
            (&["Invalid feature specification"], Why::NotAllowed),
            (&["Invalid node name specified"], Why::NotAllowed),
            (&["You must give --account (site policy)", "Unspecified error"], Why::NotAllowed),
            (&["Unable to contact slurm controller (connect failure)"], Why::Unreachable),
            (&["AssocMaxSubmitJobLimit", POLICY], Why::SubmitLimit),
            (&["QOSMaxSubmitJobPerUserLimit", POLICY], Why::SubmitLimit),
            (&["Invalid qos specification"], Why::NotAllowed),
            // As Slurm 24.11.5 printed it; the others of it are as above.
            (&["CPU count per node can not be satisfied", NODES], Why::Impossible),
        ];
        for (errors, why) in table {
            assert_eq!(refused(&printed(errors), Some(1)), Refused { why: *why, text: errors.join("; ") });
        }
        let option = "sbatch: unrecognized option '--nosuch'\nTry \"sbatch --help\" for more information\n";
        let text = "unrecognized option '--nosuch'".to_owned();
        assert_eq!(refused(option, Some(255)), Refused { why: Why::Usage, text });
        // sbatch waits for two minutes with this, unless it is ended sooner.
        let full = "sbatch: error: Slurm temporarily unable to accept job, sleeping and retrying\n";
        assert_eq!(refused(full, None).why, Why::SubmitLimit);
    }

    #[test]
    fn what_may_have_submitted_is_unreachable_or_unknown() {
        // Not produced here: words of Slurm's sources and of reports of its users.
        let timeout = "sbatch: error: Batch job submission failed: Socket timed out on send/recv operation\n";
        assert_eq!(refused(timeout, Some(1)).why, Why::Unreachable);
        assert_eq!(refused("", None).why, Why::Unreachable);
        assert_eq!(refused("sbatch: error: something new\n", Some(1)).why, Why::Unknown);
        assert_eq!(refused("", Some(1)), Refused { why: Why::Unknown, text: String::new() });
    }

    #[test]
    fn a_limit_on_each_job_is_no_limit_on_submitting() {
        // Not produced here, as above.
        let text = printed(&["QOSMaxWallDurationPerJobLimit", POLICY]);
        assert_eq!(refused(&text, Some(1)).why, Why::Impossible);
    }
}
