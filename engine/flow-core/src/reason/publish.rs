//! Why a run leaves published files as they are.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Why a published report or entry was not replaced. The run's version is written elsewhere.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(remote = "Self", tag = "kind", rename_all = "snake_case")]
pub enum WithheldReason {
    /// Publishing was turned off.
    Requested,
    /// The run has parameter values that differ from the file.
    Set {
        /// The parameters that differ.
        params: Vec<String>,
    },
    /// The run covered only some of the steps.
    Part,
    /// The published version is from another profile.
    Profile {
        /// Its profile; empty if none was active.
        published: String,
        /// The profile of this run.
        own: String,
    },
    /// The published version is from other GPU models.
    Gpus {
        /// Its GPU models; empty without GPUs.
        published: String,
        /// The GPU models of this run.
        own: String,
    },
    /// The published file was edited.
    Edited,
}

crate::compiled_once::compiled_once!(WithheldReason);
