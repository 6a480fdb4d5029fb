//! The messages of `sbatch` when it submits nothing, or when the result is unknown.

/// A submission that did not go through.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SubmitRefusal {
    pub why: RefusalKind,
    /// Slurm's own words, less `sbatch: error:`.
    pub text: String,
}

/// The kind of refusal, which decides the next action.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RefusalKind {
    /// Such a job is not possible or not allowed here, or its arguments are wrong: it stays refused.
    Refused,
    /// The queue takes no more jobs for now: try again later.
    SubmitLimit,
    /// The controller did not answer, or too late. The job may be there: to be looked up by its name first.
    Unreachable,
    /// The array has too many tasks.
    Array,
    /// Nothing that is known. The job may be there: to be looked up by its name first.
    Unknown,
}

/// The controller is there, and had no time to answer, by what a command said.
pub fn is_busy(said: &str) -> bool {
    said.contains("Socket timed out")
}

/// The prefix of the controller's answer.
const ANSWER: &str = "Batch job submission failed: ";

/// Parts of Slurm's messages that are no refusal for good, or that come without the controller's answer. The first match
/// counts.
const PHRASES: &[(&str, RefusalKind)] = &[
    ("SubmitJob", RefusalKind::SubmitLimit),
    ("temporarily unable to accept job", RefusalKind::SubmitLimit),
    ("Unable to contact slurm controller", RefusalKind::Unreachable),
    ("Socket timed out", RefusalKind::Unreachable),
    ("Zero Bytes were transmitted", RefusalKind::Unreachable),
    ("Connection refused", RefusalKind::Unreachable),
    ("Communication connection failure", RefusalKind::Unreachable),
    ("Unexpected message received", RefusalKind::Unreachable),
    ("Insane message length", RefusalKind::Unreachable),
    ("standby mode", RefusalKind::Unreachable),
    ("Unable to establish configuration source", RefusalKind::Unreachable),
    ("Unable to resolve", RefusalKind::Unreachable),
    ("timed out", RefusalKind::Unreachable),
    ("No route to host", RefusalKind::Unreachable),
    ("etwork is unreachable", RefusalKind::Unreachable),
    ("Connection reset", RefusalKind::Unreachable),
    ("Broken pipe", RefusalKind::Unreachable),
    ("Invalid authentication credential", RefusalKind::Unreachable),
    ("Protocol authentication error", RefusalKind::Unreachable),
    ("Invalid job array specification", RefusalKind::Array),
    ("unrecognized option", RefusalKind::Refused),
    ("ambiguous", RefusalKind::Refused),
    ("requires an argument", RefusalKind::Refused),
    ("Unable to open file", RefusalKind::Refused),
    ("cli_filter plugin terminated with error", RefusalKind::Refused),
];

/// Makes sense of what `sbatch` printed on standard error, with its exit code; none where it was ended because it took too
/// long.
pub fn refused(stderr: &str, code: Option<i32>) -> SubmitRefusal {
    let said = PHRASES.iter().find(|(words, _)| stderr.contains(words)).map(|&(_, why)| why);
    let why = match said {
        Some(why) => why,
        // The arguments are wrong, or the controller has answered, in whatever words of this site and release.
        None if code == Some(255) || stderr.contains(ANSWER) => RefusalKind::Refused,
        None if code.is_none() => RefusalKind::Unreachable,
        None => RefusalKind::Unknown,
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
    SubmitRefusal { why, text: lines.join("; ") }
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
        let table: &[(&[&str], RefusalKind)] = &[
            (&[NODES], RefusalKind::Refused),
            (&["Memory specification can not be satisfied", NODES], RefusalKind::Refused),
            (&["invalid partition specified: nosuch", "Invalid partition name specified"], RefusalKind::Refused),
            (&["Invalid job array specification"], RefusalKind::Array),
            (&["Invalid feature specification"], RefusalKind::Refused),
            (&["Invalid node name specified"], RefusalKind::Refused),
            (&["You must give --account (site policy)", "Unspecified error"], RefusalKind::Refused),
            (&["Unable to contact slurm controller (connect failure)"], RefusalKind::Unreachable),
            (&["AssocMaxSubmitJobLimit", POLICY], RefusalKind::SubmitLimit),
            (&["QOSMaxSubmitJobPerUserLimit", POLICY], RefusalKind::SubmitLimit),
            (&["Invalid qos specification"], RefusalKind::Refused),
            // As Slurm 24.11.5 printed it; the others of it are as above.
            (&["CPU count per node can not be satisfied", NODES], RefusalKind::Refused),
        ];
        for (errors, why) in table {
            assert_eq!(refused(&printed(errors), Some(1)), SubmitRefusal { why: *why, text: errors.join("; ") });
        }
        let option = "sbatch: unrecognized option '--nosuch'\nTry \"sbatch --help\" for more information\n";
        let text = "unrecognized option '--nosuch'".to_owned();
        assert_eq!(refused(option, Some(255)), SubmitRefusal { why: RefusalKind::Refused, text });
        let filter = "sbatch: error: give --account\nsbatch: error: cli_filter plugin terminated with error\n";
        assert_eq!(refused(filter, Some(1)).why, RefusalKind::Refused);
        // sbatch waits for two minutes with this, unless it is ended sooner.
        let full = "sbatch: error: Slurm temporarily unable to accept job, sleeping and retrying\n";
        assert_eq!(refused(full, None).why, RefusalKind::SubmitLimit);
    }

    #[test]
    fn what_may_have_submitted_is_unreachable_or_unknown() {
        // Not produced here: words of Slurm's sources and of reports of its users.
        let timeout = "sbatch: error: Batch job submission failed: Socket timed out on send/recv operation\n";
        assert_eq!(refused(timeout, Some(1)).why, RefusalKind::Unreachable);
        assert_eq!(refused("", None).why, RefusalKind::Unreachable);
        assert_eq!(refused("sbatch: error: something new\n", Some(1)).why, RefusalKind::Unknown);
        assert_eq!(refused("", Some(1)), SubmitRefusal { why: RefusalKind::Unknown, text: String::new() });
    }

    #[test]
    fn a_limit_on_each_job_is_no_limit_on_submitting() {
        // Not produced here, as above.
        let text = printed(&["QOSMaxWallDurationPerJobLimit", POLICY]);
        assert_eq!(refused(&text, Some(1)).why, RefusalKind::Refused);
    }
}
