//! Why a measurement is unreliable. No words.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{
    Fault,
    texts::{Texts, texts},
};
use crate::Difference;

/// Why a measurement is unreliable.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(remote = "Self", tag = "kind", rename_all = "snake_case")]
pub enum Disturbance {
    /// A foreign process computed on a GPU of its placement.
    ForeignProcess {
        /// The foreign process.
        pid: u32,
        name: String,
        /// The GPU, counted as users do.
        gpu: String,
    },
    /// A GPU of its placement did not respond for a while.
    GpuSilent {
        /// The GPU, counted as users do.
        gpu: String,
        /// Duration in seconds.
        seconds: u32,
    },
    /// Steps of other runs ran on the machine, which it wanted for itself.
    OtherRuns {
        /// Maximum number at once.
        attempts: u32,
    },
    /// An input, or the packages of its declared environment, changed while it ran.
    InputChanged {
        path: String,
        /// The first differences of packages.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        differences: Vec<Difference>,
    },
    /// An input was written while it ran, and has its old content again.
    InputRewritten {
        /// The file.
        path: String,
        /// How long after the start, in seconds.
        seconds: u32,
    },
    /// A step wrote into the read-only copy of an input.
    InputWritten {
        /// The file.
        path: String,
        /// The folder under `inputs:`; absent if it cannot have `copy: true`.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        folder: Option<String>,
        /// Its copy was its own, so it wrote into it itself.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        itself: bool,
    },
    /// An artifact that it read in place has changed.
    ArtifactChanged {
        /// Its place in the work folder.
        path: String,
        /// The damage.
        damage: Damage,
    },
    /// An artifact that it read in place cannot be checked for changes.
    ArtifactUnseen {
        /// Its place in the work folder.
        path: String,
        /// The error of the check.
        error: Fault,
    },
    /// It ran on hardware other than declared.
    OtherHardware {
        /// The declared hardware.
        declared: String,
        /// The actual hardware.
        found: String,
    },
}

impl Disturbance {
    /// True if the step may have read other content than its fingerprint says. Then its result is not kept, and the run
    /// ends with exit code 1. Otherwise only its times are unreliable.
    pub fn is_of_content(&self) -> bool {
        match self {
            Disturbance::InputChanged { .. }
            | Disturbance::InputRewritten { .. }
            | Disturbance::InputWritten { .. }
            | Disturbance::ArtifactChanged { .. }
            | Disturbance::ArtifactUnseen { .. } => true,
            Disturbance::ForeignProcess { .. }
            | Disturbance::GpuSilent { .. }
            | Disturbance::OtherRuns { .. }
            | Disturbance::OtherHardware { .. } => false,
        }
    }
}

/// Damage to an artifact.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Damage {
    /// It is missing.
    Missing,
    /// It has changed.
    Changed {
        /// The changed part; absent if it is the artifact itself.
        path: Option<String>,
    },
    /// It looks unchanged, but has other content.
    Content,
}

crate::compiled_once::compiled_once!(Disturbance);

texts! {
    Disturbance {
        ForeignProcess { pid, name, gpu }, GpuSilent { gpu, seconds }, OtherRuns { attempts }, InputChanged { path, differences },
        InputRewritten { path, seconds }, InputWritten { path, folder, itself },
        ArtifactChanged { path, damage }, ArtifactUnseen { path, error },
        OtherHardware { declared, found },
    }
    Damage { Missing {}, Changed { path }, Content {} }
    Difference {
        Python { was, is }, Package { name, was, is }, Program { name, was, is }, Variable { name },
    }
}
