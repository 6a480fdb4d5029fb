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

    #[test]
    fn refusals_of_22_05() {
        // As Slurm 22.05.8 printed them, with its exit codes.
        let table: &[(&str, i32, Why, &str)] = &[
            (
                "sbatch: error: Batch job submission failed: Requested node configuration is not available\n",
                1,
                Why::Impossible,
                "Requested node configuration is not available",
            ),
            (
                "sbatch: error: Memory specification can not be satisfied\n\
                 sbatch: error: Batch job submission failed: Requested node configuration is not available\n",
                1,
                Why::Impossible,
                "Memory specification can not be satisfied; Requested node configuration is not available",
            ),
            (
                "sbatch: error: invalid partition specified: nosuch\n\
                 sbatch: error: Batch job submission failed: Invalid partition name specified\n",
                1,
                Why::NotAllowed,
                "invalid partition specified: nosuch; Invalid partition name specified",
            ),
            (
                "sbatch: error: Batch job submission failed: Invalid job array specification\n",
                1,
                Why::Array,
                "Invalid job array specification",
            ),
            (
                "sbatch: error: Batch job submission failed: Invalid feature specification\n",
                1,
                Why::NotAllowed,
                "Invalid feature specification",
            ),
            (
                "sbatch: error: Batch job submission failed: Invalid node name specified\n",
                1,
                Why::NotAllowed,
                "Invalid node name specified",
            ),
            (
                "sbatch: error: You must give --account (site policy)\n\
                 sbatch: error: Batch job submission failed: Unspecified error\n",
                1,
                Why::NotAllowed,
                "You must give --account (site policy); Unspecified error",
            ),
            (
                "sbatch: unrecognized option '--nosuch-option'\nTry \"sbatch --help\" for more information\n",
                255,
                Why::Usage,
                "unrecognized option '--nosuch-option'",
            ),
            (
                "sbatch: error: Batch job submission failed: Unable to contact slurm controller (connect failure)\n",
                1,
                Why::Unreachable,
                "Unable to contact slurm controller (connect failure)",
            ),
            (
                "sbatch: error: AssocMaxSubmitJobLimit\n\
                 sbatch: error: Batch job submission failed: Job violates accounting/QOS policy (job submit limit, user's \
                 size and/or time limits)\n",
                1,
                Why::SubmitLimit,
                "AssocMaxSubmitJobLimit; Job violates accounting/QOS policy (job submit limit, user's size and/or time \
                 limits)",
            ),
            (
                "sbatch: error: QOSMaxSubmitJobPerUserLimit\n\
                 sbatch: error: Batch job submission failed: Job violates accounting/QOS policy (job submit limit, user's \
                 size and/or time limits)\n",
                1,
                Why::SubmitLimit,
                "QOSMaxSubmitJobPerUserLimit; Job violates accounting/QOS policy (job submit limit, user's size and/or time \
                 limits)",
            ),
            (
                "sbatch: error: Batch job submission failed: Invalid qos specification\n",
                1,
                Why::NotAllowed,
                "Invalid qos specification",
            ),
        ];
        for (stderr, code, why, text) in table {
            assert_eq!(refused(stderr, Some(*code)), Refused { why: *why, text: (*text).to_owned() });
        }
        // sbatch waits for two minutes with this, unless it is ended sooner.
        let full = "sbatch: error: Slurm temporarily unable to accept job, sleeping and retrying\n";
        assert_eq!(refused(full, None).why, Why::SubmitLimit);
    }

    #[test]
    fn refusals_of_24_11() {
        // As Slurm 24.11.5 printed it; the others are as above.
        let text = "sbatch: error: CPU count per node can not be satisfied\n\
            sbatch: error: Batch job submission failed: Requested node configuration is not available\n";
        assert_eq!(refused(text, Some(1)).why, Why::Impossible);
        let text = "sbatch: error: invalid partition specified: nosuch\n\
            sbatch: error: Batch job submission failed: Invalid partition name specified\n";
        assert_eq!(refused(text, Some(1)).why, Why::NotAllowed);
        let text = "sbatch: error: Batch job submission failed: Invalid job array specification\n";
        assert_eq!(refused(text, Some(1)).why, Why::Array);
        let text = "sbatch: unrecognized option '--nosuch'\nTry \"sbatch --help\" for more information\n";
        assert_eq!(refused(text, Some(255)).why, Why::Usage);
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
        let text = "sbatch: error: QOSMaxWallDurationPerJobLimit\n\
            sbatch: error: Batch job submission failed: Job violates accounting/QOS policy (job submit limit, user's size \
            and/or time limits)\n";
        assert_eq!(refused(text, Some(1)).why, Why::Impossible);
    }
}
