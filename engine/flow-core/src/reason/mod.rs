//! Reasons as values: why an instance ended as it did or did not run, why a measurement is unreliable, whose memory ran
//! out, what something waits for. No words: catalogues make them, in every language. A text in a reason comes from
//! elsewhere: a message of a program or the system, a name, a path. An error that led to it is also a value ([`Fault`]).

mod batch;
mod builtin_fault;
mod cause;
mod caveat;
mod disturbance;
mod fault;
mod files;
mod lack;
mod publish;
mod store_action;
mod texts;
mod waits;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::Outcome;

pub use batch::{BatchEnd, NoResumeReason};
pub use builtin_fault::{AxesHint, BuiltinFault, Expected, Hint, TraceFault, Unit};
pub use cause::{Cause, ExitHint, Memory, ProcessEnd};
pub use caveat::Caveat;
pub use disturbance::{Damage, Disturbance};
pub use fault::{
    BodyFault, ExprFault, Fault, FileFault, FileKind, FoundValue, GpuFault, NameList, ParameterFault, Several,
    StartFault, StoreFault, VariableFault,
};
pub use files::{FolderFault, NoMetrics, Refusal, UnmatchedPattern};
pub use lack::Lack;
pub use publish::WithheldReason;
pub use store_action::StoreAction;
pub use texts::Texts;
pub use waits::{Labels, Occupant, PeerConflict, Resource, ResourceShortage, Waits};

/// The member of a co-run group that closed its window without succeeding.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClosedBy {
    pub label: String,
    pub outcome: Outcome,
}

/// Why a profile is active.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(remote = "Self", tag = "kind", rename_all = "snake_case")]
pub enum ProfileReason {
    /// `--profile`.
    Requested,
    /// The first profile whose `when` is true.
    Holds { expression: String },
}

crate::compiled_once::compiled_once!(ProfileReason);
