//! Why an instance runs: typed reasons, and how two fingerprints give them. Knows no store, and no words.
//!
//! [`compare`] looks at the very parts that were hashed, so a difference it cannot see cannot change a fingerprint.

mod brief;
mod compare;
mod written;

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::fingerprint::PartKind;
use crate::{Digest, Outcome, Span, reason::Spoiled};

pub use brief::Why;
pub(crate) use compare::name_accepted;
pub use compare::{as_run, compare};
pub use written::{WrittenChange, WrittenSteps, written_changes};

/// The digest of each file of a folder, by path.
pub type Files = BTreeMap<String, Digest>;

/// One reason for which an instance is to run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(remote = "Self", tag = "kind", content = "of", rename_all = "snake_case")]
pub enum Reason {
    /// Nothing is known of it.
    NeverRan,
    /// There is no result, but a checkpoint from which the next attempt goes on.
    Continues,
    Forced,
    /// Nothing about it changed, and yet there is no result: it was removed, or none was kept.
    NoResult,
    /// There was a result, and what it produced is not as it was: a sentence.
    Damaged(String),
    /// There is a result, and it may not stand for it.
    NotReusable(Unfit),
    /// The verdict on its co-run group is undecided: it was planned for that.
    Undecided {
        /// The step and its group.
        group: String,
        /// How often that ran.
        looks: u32,
        /// How often it runs at most.
        at_most: u32,
        /// The gain by now with half its interval, where it is known.
        gain: Option<(f64, f64)>,
    },
    /// Its co-run group is looked up as one, and this other member must run.
    GroupMember(String),
    /// Its co-run group has other members, or it was in none.
    Group,
    /// A value that is known then and now; absent where there was or is none.
    Value {
        /// What the value is of.
        kind: PartKind,
        /// Its name, `batch`; empty where there is only one of its kind.
        name: String,
        was: Option<Value>,
        is: Option<Value>,
    },
    /// The content of the plugin of this name.
    PluginRebuilt(String),
    /// What another step produced, by its path below `in/`.
    Artifact(String, FileChange),
    /// The order of the outputs that it reads of this step.
    Order(String),
    /// A declared input, by its path.
    Input(String, InputChange),
    /// It is a measurement now (true), or is none any more (false).
    Measurement(bool),
    /// Results that a built-in sees, of one step, which differ in one way.
    Results {
        /// The label where it is one, else the step.
        of: String,
        change: FileChange,
        /// How many they are.
        count: u32,
    },
    /// A report sees which values of parameters are not the file's: there are some now, other ones, or none any more.
    Set(FileChange),
    /// What else a built-in sees, [`PartKind::Sees`]: `title.en`, `step.solo`, `profile`. An earlier flow has [`PartKind::Result`] by label and
    /// `set` as well.
    Seen(PartKind, String),
    /// Parts of this kind, too many to tell apart.
    Many(PartKind),
    /// The way in which fingerprints are made.
    Format,
    /// In words that have no form of their own here.
    Said(String),
}

crate::compiled_once::compiled_once!(Reason);

/// How an input differs.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", content = "of", rename_all = "snake_case")]
pub enum InputChange {
    /// It was not declared then, or is not now; or its content differs and its files are not known.
    Whole(FileChange),
    /// Its names or sizes differ (`by: listing`).
    Listing,
    /// It was hashed by listing and is by content now, or the other way round.
    By,
    /// These files below it differ.
    Files {
        /// Which, and how; not always all.
        named: Vec<(String, FileChange)>,
        more: u32,
    },
}

/// How a file differs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FileChange {
    /// Its content is another.
    Changed,
    Added,
    Removed,
}

/// Why a result that is there may not be reused.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", content = "of", rename_all = "snake_case")]
pub enum Unfit {
    /// It ended in a way that is never reused.
    Outcome(Outcome),
    /// It ended in a way that the step does not record.
    NotRecorded(Outcome),
    /// The measurement is not to be trusted, for these reasons.
    Spoiled(Vec<Spoiled>),
    /// It timed out, and the limit is longer now.
    LongerLimit {
        /// Then; absent where it is not known.
        was: Option<Span>,
        /// Now; absent for none.
        is: Option<Span>,
    },
    /// It ran out of memory while others ran beside it: labels, or names of processes.
    NotAlone(Vec<String>),
    /// It ran out of the host's memory, of which others have a part.
    HostMemory,
    /// It ran out of memory under another memory limit.
    MemoryLimit,
}
