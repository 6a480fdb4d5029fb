//! Why a measurement is not to be trusted. No words.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{
    Fault,
    texts::{Texts, texts},
};

/// Why a measurement is not to be trusted.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(remote = "Self", tag = "kind", rename_all = "snake_case")]
pub enum Spoiled {
    /// A process of somebody else computed on a GPU of its placement.
    Stranger {
        /// The process that used the GPU as well.
        pid: u32,
        name: String,
        /// The GPU, as people count.
        gpu: String,
    },
    /// A GPU of its placement did not answer for a while.
    GpuSilent {
        /// The GPU, as people count.
        gpu: String,
        /// For how long, seconds.
        seconds: u32,
    },
    /// Steps of other runs of this machine ran meanwhile, and it wanted that for itself.
    OtherRuns {
        /// How many at once, at most.
        attempts: u32,
    },
    /// An input changed while it ran.
    InputChanged { path: String },
    /// An artifact that it read where it lies is not as it was.
    ArtifactChanged {
        /// Where it was in the work folder.
        path: String,
        /// What is wrong with it.
        damage: Damage,
    },
    /// Whether an artifact that it read where it lies is as it was cannot be told.
    ArtifactUnseen {
        /// Where it was in the work folder.
        path: String,
        /// What looking at it said.
        error: Fault,
    },
    /// It ran on other hardware than the one that was declared.
    OtherHardware {
        /// The hardware that was declared.
        declared: String,
        /// On what it ran.
        found: String,
    },
    /// In words that have no form of their own here: an earlier flow's.
    Said { text: String },
}

/// What is wrong with an artifact.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Damage {
    /// It is not there.
    Missing,
    /// It is not as it was.
    Changed {
        /// What of it; absent where it is the artifact itself.
        path: Option<String>,
    },
    /// It looks as it did, and holds something else.
    Content,
}

crate::compiled_once::compiled_once!(Spoiled);

texts! {
    Spoiled {
        Stranger { pid, name, gpu }, GpuSilent { gpu, seconds }, OtherRuns { attempts }, InputChanged { path },
        ArtifactChanged { path, damage }, ArtifactUnseen { path, error },
        OtherHardware { declared, found }, Said { text },
    }
    Damage { Missing {}, Changed { path }, Content {} }
}
