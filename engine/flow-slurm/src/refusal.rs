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
const PHRASES: &[(&str, RefusalKind)] = &[
    ("SubmitJob", RefusalKind::SubmitLimit),
    ("temporarily unable to accept job", RefusalKind::SubmitLimit),
    ("PerJob", RefusalKind::Impossible),
    ("QOSMin", RefusalKind::Impossible),
    ("Job violates accounting/QOS policy", RefusalKind::NotAllowed),
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
    ("Requested node configuration is not available", RefusalKind::Impossible),
    ("Memory specification can not be satisfied", RefusalKind::Impossible),
    ("CPU count", RefusalKind::Impossible),
    ("More processors requested than permitted", RefusalKind::Impossible),
    ("Node count specification invalid", RefusalKind::Impossible),
    ("Requested time limit is invalid", RefusalKind::Impossible),
    ("Requested partition configuration not available", RefusalKind::Impossible),
    ("Invalid generic resource", RefusalKind::Impossible),
    ("Invalid Trackable RESource", RefusalKind::Impossible),
    ("Invalid partition", RefusalKind::NotAllowed),
    ("invalid partition", RefusalKind::NotAllowed),
    ("Invalid account", RefusalKind::NotAllowed),
    ("Invalid qos", RefusalKind::NotAllowed),
    ("Invalid feature", RefusalKind::NotAllowed),
    ("Requested reservation", RefusalKind::NotAllowed),
    ("not permitted to use this partition", RefusalKind::NotAllowed),
    ("Access/permission denied", RefusalKind::NotAllowed),
    ("unrecognized option", RefusalKind::Usage),
    ("ambiguous", RefusalKind::Usage),
    ("requires an argument", RefusalKind::Usage),
    ("Unable to open file", RefusalKind::Usage),
];

/// Makes sense of what `sbatch` printed on standard error, with its exit code; none where it was ended because it took too
/// long.
pub fn refused(stderr: &str, code: Option<i32>) -> SubmitRefusal {
    let said = PHRASES.iter().find(|(words, _)| stderr.contains(words)).map(|&(_, why)| why);
    let why = match said {
        Some(why) => why,
        None if code.is_none() => RefusalKind::Unreachable,
        None if code == Some(255) => RefusalKind::Usage,
        // The controller's answer, in words of this site or of a later Slurm.
        None if stderr.contains(ANSWER) => RefusalKind::NotAllowed,
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
            (&[NODES], RefusalKind::Impossible),
            (&["Memory specification can not be satisfied", NODES], RefusalKind::Impossible),
            (&["invalid partition specified: nosuch", "Invalid partition name specified"], RefusalKind::NotAllowed),
            (&["Invalid job array specification"], RefusalKind::Array),
            (&["Invalid feature specification"], RefusalKind::NotAllowed),
            (&["Invalid node name specified"], RefusalKind::NotAllowed),
            (&["You must give --account (site policy)", "Unspecified error"], RefusalKind::NotAllowed),
            (&["Unable to contact slurm controller (connect failure)"], RefusalKind::Unreachable),
            (&["AssocMaxSubmitJobLimit", POLICY], RefusalKind::SubmitLimit),
            (&["QOSMaxSubmitJobPerUserLimit", POLICY], RefusalKind::SubmitLimit),
            (&["Invalid qos specification"], RefusalKind::NotAllowed),
            // As Slurm 24.11.5 printed it; the others of it are as above.
            (&["CPU count per node can not be satisfied", NODES], RefusalKind::Impossible),
        ];
        for (errors, why) in table {
            assert_eq!(refused(&printed(errors), Some(1)), SubmitRefusal { why: *why, text: errors.join("; ") });
        }
        let option = "sbatch: unrecognized option '--nosuch'\nTry \"sbatch --help\" for more information\n";
        let text = "unrecognized option '--nosuch'".to_owned();
        assert_eq!(refused(option, Some(255)), SubmitRefusal { why: RefusalKind::Usage, text });
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
        assert_eq!(refused(&text, Some(1)).why, RefusalKind::Impossible);
    }
}
