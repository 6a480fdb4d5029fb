//! How a Slurm job ended. No words.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::texts::{Texts, texts, without};

/// How a Slurm job ended, if the attempt itself does not show it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum BatchEnd {
    /// Its node was lost.
    NodeLost {
        /// The node, if known.
        node: Option<String>,
    },
    /// It exceeded Slurm's time limit.
    TimeLimit {
        /// Why no other job resumes it. Absent if one does.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        stopped: Option<NoResumeReason>,
    },
    /// It used more memory than it requested.
    Memory,
    /// Someone other than flow cancelled it.
    Cancelled,
    /// Slurm preempted it.
    Preempted,
    /// Slurm could not launch it on its node.
    NotLaunched,
    /// It ended without a report from flow on its node.
    Failed {
        /// Its exit code, as reported by Slurm.
        code: Option<i32>,
        /// flow had started there.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        begun: bool,
        /// The last line of the job's own log; empty if the log is.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        last_line: Option<String>,
    },
    /// Slurm holds it until someone releases it.
    Held {
        /// Slurm's reason.
        reason: String,
    },
    /// It waits for something impossible.
    Unsatisfiable {
        /// Slurm's reason.
        reason: String,
    },
    Refused {
        error: String,
    },
    /// Slurm no longer knows it, and it left no result.
    Vanished,
}

/// Why no other job resumes a step that exceeded Slurm's time limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum NoResumeReason {
    /// It left no checkpoint.
    NoCheckpoint,
    /// Its checkpoint did not advance: another job would get no further.
    NoProgress,
    /// `resume: false`.
    Unwanted,
    /// A co-run group is measured together, from beginning to end.
    Group,
}

without!(NoResumeReason);
texts! {
    BatchEnd {
        NodeLost { node }, TimeLimit { stopped }, Memory {}, Cancelled {}, Preempted {}, NotLaunched {},
        Failed { code, begun, last_line }, Held { reason }, Unsatisfiable { reason }, Refused { error }, Vanished {},
    }
}
