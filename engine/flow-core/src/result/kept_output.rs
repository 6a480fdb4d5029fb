//! Stored data of an attempt, for reading it again, by digest.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use crate::Digest;

/// Stored data of an attempt for reading its numbers again, wherever `metrics:` places them. Only the owner can read the
/// objects, as with the attempt's folder.
#[serde_with::skip_serializing_none]
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct KeptOutput {
    /// The fingerprint of the attempt: that of the result without `metrics:`.
    pub attempt: Digest,
    /// The object with its log, the times at which parts of it were read, and its usage
    /// ([`Record`](crate::measure::Record)). Absent if it printed nothing and ended before the first sample.
    pub record: Option<Digest>,
    /// A large log, as an object of its own.
    pub log: Option<Digest>,
    /// Files that may hold numbers but are no outputs, by their paths in the work folder.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub files: BTreeMap<String, Digest>,
    /// Files with expected numbers that were missing.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub absent: BTreeSet<String>,
    /// Its small input files as they were, by declared path.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub inputs: BTreeMap<String, KeptInput>,
    /// Number of log bytes that were freed while it wrote, and are not stored.
    #[serde(default, skip_serializing_if = "super::is_zero")]
    pub cut: u64,
}

/// An input file, so that two runs can be compared.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct KeptInput {
    pub digest: Digest,
    pub bytes: u64,
    /// Whether it is text, which is stored as an object.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub text: bool,
}

impl KeptOutput {
    /// Every object of the store that it names.
    pub fn objects(&self) -> impl Iterator<Item = Digest> {
        let texts = self.inputs.values().filter(|input| input.text).map(|input| &input.digest);
        self.record.iter().chain(&self.log).chain(self.files.values()).chain(texts).copied()
    }
}
