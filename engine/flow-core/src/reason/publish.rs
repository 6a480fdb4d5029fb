//! Why what a run has to say leaves what is published as it is.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Why a published report or entry was not replaced. What the run has to say is written elsewhere.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(remote = "Self", tag = "kind", rename_all = "snake_case")]
pub enum Withheld {
    /// Nothing was to be published.
    Asked,
    /// The run has values of parameters that are not the file's.
    Set {
        /// The parameters that are not those of the file.
        params: Vec<String>,
    },
    /// The run was of some of the steps.
    Part,
    /// What is published is of another profile.
    Profile {
        /// Of that; empty where none was in force.
        published: String,
        /// The profile of this run.
        own: String,
    },
    /// What is published is from other GPU models.
    Gpus {
        /// From these; empty where there was none.
        published: String,
        /// The GPU models of this run.
        own: String,
    },
    /// Somebody edited what is published.
    Edited,
}

crate::compiled_once::compiled_once!(Withheld);
