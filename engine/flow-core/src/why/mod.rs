//! Why an instance runs: typed reasons, and how two fingerprints result in them. Knows no store, and no words.
//!
//! [`compare`] uses exactly the parts that were hashed, so a difference that it cannot see cannot change a fingerprint.

mod brief;
mod compare;
mod written;

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::fingerprint::PartKind;
use crate::{Difference, Digest, Outcome, Python, RunId, Span, reason::Disturbance};

pub use brief::RunReasons;
pub(crate) use compare::name_accepted;
pub use compare::{as_run, compare};
pub use written::{WrittenChange, WrittenSteps, written_changes};

/// The digest of each file of a folder, by path.
pub type Files = BTreeMap<String, Digest>;

/// A list that a fingerprint has only the digest of.
#[derive(Clone, Debug, PartialEq)]
pub enum ListContent {
    /// Of an input folder.
    Files(Files),
    /// Of a declared environment.
    Packages(Python),
}

/// One reason for running an instance.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(remote = "Self", tag = "kind", content = "of", rename_all = "snake_case")]
pub enum Reason {
    /// It never ran, as far as is known.
    NeverRan,
    /// It has no result, but a checkpoint from which the next attempt resumes.
    Continues,
    Forced,
    /// It does not start again: its job or attempt of this killed run is collected.
    Collects(RunId),
    /// Nothing about it changed, but `flow forget` dropped its result.
    Forgotten,
    /// Nothing about it changed, but there is no result: it was removed, or never stored.
    NoResult,
    /// There was a result, but its artifacts have changed: a sentence.
    Damaged(String),
    /// There is a result, but it may not be reused.
    NotReusable(UnfitReason),
    /// The verdict on its co-run group is undecided, for which it was planned.
    Undecided {
        /// The step and its group.
        group: String,
        /// Number of runs so far.
        looks: u32,
        /// Maximum number of runs.
        at_most: u32,
        /// The gain so far and half its interval, if known.
        gain: Option<(f64, f64)>,
    },
    /// Its co-run group is looked up as one, and this other member must run.
    GroupMember(String),
    /// Its co-run group has other members, or it had none.
    Group,
    /// The value then and now; absent if there was or is none.
    Value {
        /// Kind of the value.
        kind: PartKind,
        /// Its name, `batch`; empty if it is the only one of its kind.
        name: String,
        was: Option<Value>,
        is: Option<Value>,
    },
    /// The content of this plugin.
    PluginRebuilt(String),
    /// Another step's output, by its path in the work folder.
    Artifact(String, FileChange),
    /// A declared input, by its path.
    Input(String, InputChange),
    /// Its declared environment.
    Environment {
        /// The name of the environment then and now; absent if there was or is none.
        was: Option<String>,
        is: Option<String>,
        /// Some of the differences, if both lists are stored.
        differences: Vec<Difference>,
        #[serde(default)]
        more: u32,
    },
    /// Whether it is a measurement now (true), or was one before (false).
    Measurement(bool),
    /// Results of one step that a built-in sees and that differ in the same way.
    Results {
        /// The label if there is one, else the step.
        of: String,
        change: FileChange,
        /// Number of results.
        count: u32,
    },
    /// A report sees the parameters that differ from the file: they were added, changed or removed.
    Set(FileChange),
    /// Something else that a built-in sees, [`PartKind::Sees`]: `title.en`, `step.solo`, `profile`.
    Seen(PartKind, String),
    /// Parts of this kind; too many to compare one by one.
    Many(PartKind),
    /// The format of fingerprints.
    Format,
    /// In words, for reasons without a variant here.
    Text(String),
}

crate::compiled_once::compiled_once!(Reason);

/// How an input differs.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", content = "of", rename_all = "snake_case")]
pub enum InputChange {
    /// It was added or removed as a declaration, or its content differs and its files are unknown.
    Whole(FileChange),
    /// Its names or sizes differ (`by: listing`).
    Listing,
    /// It was hashed by listing and is now hashed by content, or vice versa.
    By,
    /// These files below it differ.
    Files {
        /// Some of them, and how they differ.
        named: Vec<(String, FileChange)>,
        more: u32,
    },
}

/// How a file differs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FileChange {
    /// Its content differs.
    Changed,
    Added,
    Removed,
}

/// Why an existing result may not be reused.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", content = "of", rename_all = "snake_case")]
pub enum UnfitReason {
    /// Its outcome is never reused.
    Outcome(Outcome),
    /// The step does not record its outcome.
    NotRecorded(Outcome),
    /// The measurement is unreliable, for these reasons.
    Disturbed(Vec<Disturbance>),
    /// It timed out, and the limit is now longer.
    LongerLimit {
        /// The old limit; absent if unknown.
        was: Option<Span>,
        /// The new limit, if any.
        is: Option<Span>,
    },
    /// It ran out of memory while others ran next to it: labels, or names of processes.
    NotAlone(Vec<String>),
    /// It ran out of host memory, which others use too.
    HostMemory,
    /// It ran out of memory under another memory limit.
    MemoryLimit,
}
