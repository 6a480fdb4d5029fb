//! Arguments and scripts for Slurm's commands, and their output as values. Starts no command, reads no file, and knows
//! nothing of workflows.
//!
//! It reads the text output of Slurm 22.05 and 24.11. The form of `--json` differs from release to release.
#![forbid(unsafe_code)]

mod cancel;
mod job;
mod job_state;
mod limits;
mod load;
mod nodes;
mod refusal;
mod rows;
mod script;

use std::fmt;

pub use cancel::scancel;
pub use job::{Job, OptionFault, misused, sbatch};
pub use job_state::{JobResult, JobState, advice, job_state, result_in_log};
pub use limits::{CONFIG, Limits, PARTITIONS, chunks, parse_config, parse_partitions, poll_interval};
pub use load::{LOAD, Load, parse_load};
pub use nodes::{Gpus, NODES, Node, parse_nodes};
pub use refusal::{RefusalKind, SubmitRefusal, is_busy, refused};
pub use rows::{ACCOUNTING, Exit, QUEUE, Row, parse_accounting, parse_queue};
pub use script::{array_script, is_usable, manifest, script};

/// Prefix of the names of flow's jobs. flow ignores all other jobs in the queue.
pub const KEY_PREFIX: &str = "flow-";

/// The variable with which a user sets the default partition of jobs.
pub const PARTITION_VAR: &str = "SBATCH_PARTITION";

/// Whether the variable changes what Slurm's commands list, end or submit. flow removes such variables from its
/// commands. It keeps those for accounts and qualities of service, which sites set for their users.
pub fn misleads(variable: &str) -> bool {
    let prefixes = ["SQUEUE_", "SINFO_", "SACCT_", "SCANCEL_", "SBATCH_GPUS", "SBATCH_MEM_PER_"];
    let names = [
        PARTITION_VAR,
        "SBATCH_ARRAY_INX",
        "SBATCH_CLUSTERS",
        "SBATCH_CPUS_PER_GPU",
        "SBATCH_ERROR",
        "SBATCH_EXCLUSIVE",
        "SBATCH_GET_USER_ENV",
        "SBATCH_GRES",
        "SBATCH_INPUT",
        "SBATCH_NO_REQUEUE",
        "SBATCH_REQUEUE",
        "SBATCH_SIGNAL",
        "SBATCH_TIMELIMIT",
        "SBATCH_WAIT",
        "SLURM_CLUSTERS",
    ];
    prefixes.iter().any(|prefix| variable.starts_with(prefix)) || names.contains(&variable)
}

/// A job, or one task of an array, as Slurm names it: `12`, `12_3`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize, serde::Deserialize)]
pub struct JobId {
    /// The number of the job; for a task, that of its array.
    pub job: u32,
    /// The index in the array.
    pub task: Option<u32>,
}

impl JobId {
    /// Parses the form of `squeue` and `sacct`. `None` for several tasks at once (`12_[4-9]`) and for parts of a job
    /// (`12+1`).
    pub fn parse(text: &str) -> Option<JobId> {
        match text.split_once('_') {
            Some((job, task)) => Some(JobId { job: number(job)?, task: Some(number(task)?) }),
            None => Some(JobId { job: number(text)?, task: None }),
        }
    }
}

impl fmt::Display for JobId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.task {
            Some(task) => write!(f, "{}_{task}", self.job),
            None => write!(f, "{}", self.job),
        }
    }
}

/// Digits and nothing else: no sign, no blank.
fn number(text: &str) -> Option<u32> {
    if text.bytes().all(|b| b.is_ascii_digit()) { text.parse().ok() } else { None }
}

/// The output of a Slurm command does not have its known form.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{command}: {expected} was expected, not `{found}`")]
pub struct ParseError {
    /// The command that printed the text.
    pub command: &'static str,
    /// The expected form.
    pub expected: &'static str,
    /// The line, or its beginning.
    pub found: String,
}

impl ParseError {
    fn new(command: &'static str, expected: &'static str, found: &str) -> ParseError {
        ParseError { command, expected, found: found.chars().take(200).collect() }
    }
}

/// Parses the output of `sbatch --parsable`: `12`, or `12;CLUSTER`.
///
/// # Errors
/// There is no number.
pub fn parse_submitted(stdout: &str) -> Result<JobId, ParseError> {
    let line = stdout.lines().rev().map(str::trim).find(|line| !line.is_empty()).unwrap_or_default();
    let id = line.split(';').next().unwrap_or_default();
    let job = number(id).ok_or_else(|| ParseError::new("sbatch", "the number of a job", line))?;
    Ok(JobId { job, task: None })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn what_was_submitted_has_a_number() {
        let id = |text| parse_submitted(text).map(|id| id.to_string()).map_err(|e| e.to_string());
        assert_eq!(id("14\n"), Ok("14".to_owned()));
        assert_eq!(id("14;gpu-cluster\n"), Ok("14".to_owned()));
        // A plugin of the site may greet on standard output.
        assert_eq!(id("Welcome to the lab's cluster\n14\n"), Ok("14".to_owned()));
        assert_eq!(id(""), Err("sbatch: the number of a job was expected, not ``".to_owned()));
        let human = "Submitted batch job 14";
        assert_eq!(id(human), Err(format!("sbatch: the number of a job was expected, not `{human}`")));
    }

    #[test]
    fn an_id_is_of_a_job_or_of_a_task() {
        for text in ["12", "12_3", "0_0", "4294967295_4294967295"] {
            assert_eq!(JobId::parse(text).unwrap().to_string(), text);
        }
        for text in ["", "_", "12_", "12_[4-9%4]", "12_[4-9,11]", "50+1", "+12", "-1", "4294967296", "12 "] {
            assert_eq!(JobId::parse(text), None, "{text}");
        }
    }

    proptest! {
        /// Lines that look like Slurm's, and any others.
        #[test]
        fn no_text_is_too_strange(text in r"(\PC|[|;:=,()\[\]_+*%0-9\n]|flow-|gpu:|PENDING|infinite|MaxArraySize){0,60}") {
            let _ = parse_submitted(&text);
            let _ = parse_nodes(&text);
            let _ = parse_load(&text, "x");
            let _ = parse_config(&text);
            let _ = parse_partitions(&text);
            let _ = refused(&text, Some(1));
            let _ = result_in_log(&text);
            let _ = misused(&text);
            for rows in [parse_queue(&text), parse_accounting(&text)].into_iter().flatten() {
                rows.iter().for_each(|row| {
                    job_state(row);
                    advice(row);
                });
            }
        }

        #[test]
        fn no_bytes_are_too_strange(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            let text = String::from_utf8_lossy(&bytes);
            let _ = (parse_submitted(&text), parse_nodes(&text), parse_config(&text), parse_queue(&text));
            let _ = (parse_accounting(&text), refused(&text, None), result_in_log(&text), misused(&text));
        }
    }
}
