//! What of an attempt is kept to be read again, by digest.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use crate::Digest;

/// What of an attempt is kept to be read again, wherever `metrics:` say that its numbers are. The objects are its owner's alone, as
/// the attempt's folder is.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Kept {
    /// The fingerprint of the attempt: that of the result, less `metrics:`.
    pub attempt: Digest,
    /// The object that holds its log, when which part of it was read, and what it used meanwhile
    /// ([`Record`](crate::measure::Record)); absent where it printed nothing and was over before anybody looked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub record: Option<Digest>,
    /// Files that may hold numbers and are no outputs, by their paths in the work folder.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub files: BTreeMap<String, Digest>,
    /// Files that were to hold numbers and were not there.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub absent: BTreeSet<String>,
    /// Its input files as it was given them, small ones, by their paths as declared.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub inputs: BTreeMap<String, KeptInput>,
    /// So many bytes of its log were given back while it wrote, and are not kept.
    #[serde(default, skip_serializing_if = "super::is_zero")]
    pub cut: u64,
}

/// An input file, so that two runs can be compared.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct KeptInput {
    pub digest: Digest,
    pub bytes: u64,
    /// It is a text, which is kept as an object.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub text: bool,
}

impl Kept {
    /// Every object of the store that it names.
    pub fn objects(&self) -> impl Iterator<Item = Digest> {
        let texts = self.inputs.values().filter(|input| input.text).map(|input| &input.digest);
        self.record.iter().chain(self.files.values()).chain(texts).copied()
    }
}
