//! Parts of a fingerprint as values that can be stored, hashed and compared. Does not know how they come about.

use std::fmt;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::encode::{Encoder, LONG_TEXT};
use crate::{Definition, Digest};

/// Approximate byte limit of one instance's parts; the database keeps values below 64 KB.
pub(crate) const PARTS_LIMIT: usize = 40 * 1024;

/// Name of the [`PartKind::Command`] part with the shell or interpreter of a command. It is absent for commands that
/// start directly.
pub const RUNNER: &str = "shell";

/// All parts that a fingerprint is made from.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Parts {
    /// The parts of the instance by itself.
    pub base: Vec<Part>,
    /// Its co-run group.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub group: Option<Group>,
}

/// A co-run group's contribution to its members' fingerprints.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Group {
    /// Digest of the sorted bases of its members.
    pub digest: Digest,
    /// Number of members.
    pub members: usize,
    /// The member's index among those with the same base.
    pub ordinal: usize,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Part {
    pub kind: PartKind,
    /// Distinguishes parts of one kind; empty if there is only one.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub name: String,
    pub value: PartValue,
}

/// The kind of a part. Parts are hashed in this order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PartKind {
    /// `command`, `torch/train` or `flow/table`.
    Uses,
    /// The plugin's digest.
    Plugin,
    /// The protocol version between engine and plugin.
    Protocol,
    /// The version of a built-in step.
    Version,
    Command,
    /// A leaf of `with:`.
    Parameter,
    /// A variable of `env:`.
    Variable,
    /// An artifact of another step.
    Artifact,
    /// A declared input, by its place in the work folder; one that is read in place, by its name, `with.folder`.
    Input,
    /// The packages of the declared environment.
    Environment,
    Output,
    /// A leaf of `metrics:`.
    Metrics,
    /// The seed, with the repetition added.
    Seed,
    Repetition,
    /// The value of an axis that the step does not read.
    Axis,
    /// A declared circumstance of a measured step.
    Measured,
    /// What a built-in sees in addition to its parameters.
    Sees,
    /// A result that a built-in sees.
    Result,
}

/// Its name in the encoding, as in JSON.
impl fmt::Display for PartKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.serialize(f)
    }
}

/// The value of a part.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PartValue {
    /// A scalar, or an empty list or map.
    Is(Value),
    /// A text that is too long to store.
    Long {
        /// Length in bytes.
        length: usize,
        digest: Digest,
    },
    /// A value known by its digest.
    Digest(Digest),
    /// An input. Only its digest is hashed; the rest is for messages.
    Tree {
        /// Its path as declared.
        path: String,
        /// The digest of its content, or of its listing.
        digest: Digest,
        /// Only names and sizes count.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        listing: bool,
        /// For a folder: key under which its files' digests can be looked up.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        manifest: Option<Digest>,
    },
    /// All parts of a kind, if they are too many to store.
    Many {
        /// Number of parts.
        count: usize,
        /// The digest of their encodings.
        digest: Digest,
    },
}

impl PartValue {
    /// A value as a leaf; a long text becomes its digest.
    pub(super) fn of(value: Value) -> Self {
        match value {
            Value::String(s) if s.len() > LONG_TEXT => {
                PartValue::Long { length: s.len(), digest: Digest::of(s.as_bytes()) }
            }
            value => PartValue::Is(value),
        }
    }

    /// Approximate stored size in bytes.
    fn weight(&self) -> usize {
        match self {
            PartValue::Is(Value::String(s)) => s.len(),
            PartValue::Is(_) => 8,
            PartValue::Tree { path, manifest, .. } => path.len() + if manifest.is_some() { 200 } else { 110 },
            _ => 90,
        }
    }
}

impl Part {
    /// The part of its name that counts. The folders of an artifact below `in/` are named after steps and axes, which do
    /// not count; its file name does, because programs go by it.
    pub(crate) fn counted_name(&self) -> &str {
        match self.name.rsplit_once('/') {
            Some((_, file)) if self.kind == PartKind::Artifact && self.name.starts_with("in/") => file,
            _ => &self.name,
        }
    }

    fn encode(&self, bytes: &mut Encoder) {
        bytes.text(&self.kind.to_string());
        bytes.text(self.counted_name());
        match &self.value {
            PartValue::Is(value) => bytes.leaf(value),
            PartValue::Long { length, digest } => bytes.long(*length, digest),
            PartValue::Digest(digest) => {
                bytes.tag(b'h');
                bytes.digest(digest);
            }
            PartValue::Tree { digest, listing, .. } => {
                bytes.tag(if *listing { b'q' } else { b'c' });
                bytes.digest(digest);
            }
            PartValue::Many { count, digest } => {
                bytes.tag(b'k');
                bytes.number(*count);
                bytes.digest(digest);
            }
        }
    }

    fn weight(&self) -> usize {
        self.name.len() + self.value.weight() + 48
    }
}

impl Parts {
    pub fn digest(&self) -> Digest {
        let base = self.base_digest();
        let Some(group) = &self.group else { return base };
        let mut bytes = Encoder::new("flow member 1\n");
        bytes.digest(&base);
        bytes.digest(&group.digest);
        bytes.number(group.ordinal);
        bytes.finish()
    }

    /// The digest of the instance by itself, without its group.
    pub(crate) fn base_digest(&self) -> Digest {
        let mut bytes = Encoder::new("flow fingerprint 1\n");
        bytes.number(self.base.len());
        for part in &self.base {
            part.encode(&mut bytes);
        }
        bytes.finish()
    }

    /// The same without `metrics:`: the parts of the attempt, without its group.
    pub(crate) fn without_metrics(&self) -> Parts {
        let base = self.base.iter().filter(|part| part.kind != PartKind::Metrics).cloned().collect();
        Parts { base, group: None }
    }

    /// The digest without outputs and `metrics:`: the key for the files of a program that succeeded but did not write a
    /// declared output. `None` in a co-run group, because a group is measured as a whole.
    pub fn uncollected(&self) -> Option<Digest> {
        let is_of_program = |part: &&Part| !matches!(part.kind, PartKind::Metrics | PartKind::Output);
        let mut bytes = Encoder::new("flow uncollected 1\n");
        self.base.iter().filter(is_of_program).for_each(|part| part.encode(&mut bytes));
        self.group.is_none().then(|| bytes.finish())
    }

    /// Identifies the version of the step's program: the step as written, its plugin, and the content of the inputs that
    /// all its points share.
    pub fn program(&self, step: &Definition) -> Digest {
        let is_of_all_points = |part: &&Part| match &part.value {
            PartValue::Tree { path, .. } => step.paths.contains(path),
            _ => matches!(part.kind, PartKind::Plugin | PartKind::Version),
        };
        let mut bytes = Encoder::new("flow program 1\n");
        bytes.digest(&step.written);
        self.base.iter().filter(is_of_all_points).for_each(|part| part.encode(&mut bytes));
        bytes.finish()
    }

    /// Adds the group to its members' parts, which are given in order of instance.
    pub fn join(members: &mut [Parts]) {
        let bases: Vec<Digest> = members.iter().map(Parts::base_digest).collect();
        let mut sorted = bases.clone();
        sorted.sort_unstable();
        let mut bytes = Encoder::new("flow group 1\n");
        bytes.number(sorted.len());
        sorted.iter().for_each(|base| bytes.digest(base));
        let digest = bytes.finish();
        for (i, parts) in members.iter_mut().enumerate() {
            let ordinal = bases[..i].iter().filter(|b| **b == bases[i]).count();
            parts.group = Some(Group { digest, members: bases.len(), ordinal });
        }
    }

    /// Sorts the parts into encoding order, and folds the largest kinds until the rest is small.
    pub(super) fn new(mut base: Vec<Part>) -> Self {
        base.sort_by(|a, b| {
            a.kind.cmp(&b.kind).then_with(|| match (&a.value, &b.value) {
                (PartValue::Digest(x), PartValue::Digest(y)) if a.kind == PartKind::Artifact => {
                    (x, a.counted_name()).cmp(&(y, b.counted_name()))
                }
                _ => a.name.cmp(&b.name),
            })
        });
        while base.iter().map(Part::weight).sum::<usize>() > PARTS_LIMIT {
            let heaviest = base
                .chunk_by(|a, b| a.kind == b.kind)
                .filter(|parts| parts.len() > 1)
                .max_by_key(|parts| parts.iter().map(Part::weight).sum::<usize>());
            let Some(parts) = heaviest else { break };
            let kind = parts[0].kind;
            let many = PartValue::Many { count: parts.len(), digest: digest_of(parts) };
            let first = base.partition_point(|p| p.kind < kind);
            let last = base.partition_point(|p| p.kind <= kind);
            base.splice(first..last, [Part { kind, name: String::new(), value: many }]);
        }
        Parts { base, group: None }
    }
}

fn digest_of(parts: &[Part]) -> Digest {
    let mut bytes = Encoder::new("");
    parts.iter().for_each(|part| part.encode(&mut bytes));
    bytes.finish()
}
