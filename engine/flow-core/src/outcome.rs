//! How a step or an attempt ended.

use std::fmt;

use serde::{Deserialize, Serialize};

/// How an instance, or one attempt of it, ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    /// Done, with all its outputs.
    Ok,
    /// GPU or host memory ran out.
    OutOfMemory,
    /// It exceeded the step's `timeout`.
    TimedOut,
    /// It requests more than this machine has; never started.
    DoesNotFit,
    /// It ended in any other way.
    Failed,
    /// It was cancelled: by a signal, or by `flow cancel`.
    Cancelled,
    /// Its `when` is false, or something it needs did not succeed.
    Skipped,
}

/// As in JSON: `out_of_memory`.
impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.serialize(f)
    }
}
