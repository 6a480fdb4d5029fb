//! What became of a job of Slurm. No words.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::texts::{Texts, texts, without};

/// What became of a job of Slurm of which the attempt itself has nothing to say.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum BatchEnd {
    /// Its node was lost.
    NodeLost {
        /// Which, where that is known.
        node: Option<String>,
    },
    /// It ran longer than Slurm lets it.
    TimeLimit {
        /// Why it does not go on in another job. Absent where it does.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        stopped: Option<Stopped>,
    },
    /// It took more memory than it asked for.
    Memory,
    /// Somebody cancelled it, and that was not flow.
    Cancelled,
    /// Slurm gave its place to another.
    Preempted,
    /// Slurm could not start it on its node.
    NotLaunched,
    /// It ended without a word of flow's on its node.
    Failed {
        /// Its exit code, as Slurm tells.
        code: Option<i32>,
        /// flow had begun there.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        begun: bool,
        /// The last line of the job's own log; empty where nothing stands there.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        said: Option<String>,
    },
    /// Slurm holds it back until somebody lets it go.
    Held {
        /// As Slurm calls the reason.
        reason: String,
    },
    /// It waits for what will never be.
    Never {
        /// As Slurm calls the reason.
        reason: String,
    },
    Refused {
        error: String,
    },
    /// Slurm does not know it any more, and it left no result.
    Vanished,
    /// It is a run's of somebody else that does not live any more, and only they can read what it came to.
    Theirs {
        run: String,
        user: String,
        /// What became of the job, as Slurm calls it; empty where it does not say.
        state: String,
    },
}

/// Why a step that Slurm's time limit ended does not go on in another job.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Stopped {
    /// It left nothing to go on from.
    NoCheckpoint,
    /// What it left is what it began from: another job would get no further.
    NoProgress,
    /// `resume: false`.
    Unwanted,
    /// Members of a co-run group are measured together, from the beginning to the end.
    Group,
}

without!(Stopped);
texts! {
    BatchEnd {
        NodeLost { node }, TimeLimit { stopped }, Memory {}, Cancelled {}, Preempted {}, NotLaunched {},
        Failed { code, begun, said }, Held { reason }, Never { reason }, Refused { error }, Vanished {},
        Theirs { run, user, state },
    }
}
