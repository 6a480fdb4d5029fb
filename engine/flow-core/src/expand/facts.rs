//! What expansion takes and gives.

use std::{
    collections::{BTreeMap, BTreeSet},
    ops::Range,
    sync::Arc,
};

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::{Catalogue, CorunGpus, Digest, GroupId, InstanceId, Machine, Metrics, Place, StepId, reason::Cause};

/// Everything besides the file that decides what a workflow expands to.
#[derive(Clone, Copy, Debug)]
pub struct ExpandRequest<'a> {
    /// What can be used.
    pub catalogue: &'a Catalogue,
    /// Where steps will run.
    pub machine: &'a Machine,
    /// `--profile NAME`; without it the first whose `when` holds.
    pub profile: Option<&'a str>,
    /// `--set`, each as given: `key=value`; before these what files of `--params` say.
    pub set: &'a [String],
    /// In which file each of the first of these stands.
    pub files: &'a [String],
    /// The folder of the workflow file, absolute: relative paths of plugin parameters are below it.
    pub folder: &'a str,
    /// The shell's folder, absolute: `--set` values that begin with `./` or `../` are relative to it.
    pub shell_folder: &'a str,
    /// Where what a batch system runs will run.
    pub batch: Batch<'a>,
}

/// What is known of a batch system.
#[derive(Clone, Copy, Debug, Default)]
pub struct Batch<'a> {
    /// `--on`, before what the workflow says.
    pub on: Option<Place>,
    /// The largest of the nodes on which its jobs run.
    pub node: Option<&'a Machine>,
    /// Where instances run that a killed run left running, by label: they stay there.
    pub left: Option<&'a BTreeMap<String, Place>>,
}

/// Something about an expansion that is worth a line to people.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(remote = "Self", tag = "kind", rename_all = "snake_case")]
pub enum Remark {
    /// There are profiles, and the condition of none holds.
    NoProfile {
        /// Their names and conditions.
        profiles: Vec<(String, String)>,
    },
    /// A step has no instances.
    NoInstances { step: String, because: Cause },
}

crate::compiled_once::compiled_once!(Remark);

/// A step, as expanded.
#[derive(Clone, Debug)]
pub struct StepFacts {
    pub name: String,
    pub uses: Uses,
    /// The step it is a copy of.
    pub like: Option<String>,
    /// The step whose work it does again, at another time, beside others or more often: what one takes tells what the other takes.
    pub work_of: Option<StepId>,
    /// `with:` as written, the copied keys included.
    pub with: Arc<Map<String, Value>>,
    /// Where its numbers are.
    pub metrics: Option<Arc<Metrics>>,
    /// Names of environment variables whose values are never stored, hashed or printed.
    pub secrets: Vec<String>,
    /// Why it has no instances.
    pub absent: Option<Arc<Cause>>,
    /// Its instances: the ids are contiguous.
    pub instances: Range<u32>,
    /// What it does, as written.
    pub definition: Definition,
    /// Of a co-run step: repetitions of its groups, and of their runs alone, that are made only where a verdict needs them.
    pub again: Vec<InstanceId>,
    /// Axes that nothing of what it does names: they only tell its instances apart, as repetitions are.
    pub unread: Vec<String>,
    /// Parameters of the workflow that what it does depends on: those that it names, and those of the steps that it needs.
    pub params: Vec<String>,
    /// What it does is told its seed, so that a repetition is its seed and no more.
    pub reads_seed: bool,
    /// Results may tell what is an input of it: [`Resolved::inputs`](crate::Resolved).
    pub has_late_inputs: bool,
    /// For a built-in: the steps that it sees, in the order in which it names them.
    pub sees: Vec<StepId>,
}

/// What a step does as it is written, and so the same at all its points.
#[derive(Clone, Debug)]
pub struct Definition {
    /// Of its action, its parameters, its environment and its inputs, expressions as they stand.
    pub(crate) written: Digest,
    /// Paths in it that no expression is in.
    pub(crate) paths: BTreeSet<String>,
}

/// A step that was kept although one ran anew that it comes after and reads nothing of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unfollowed {
    pub step: String,
    pub ran: String,
    /// How an expression names what that one makes, `out` or `outputs.NAME`, if it makes anything.
    pub output: Option<String>,
}

/// What a step does.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Uses {
    /// A plugin's step, `torch/train`.
    Plugin {
        plugin: String,
        step: String,
    },
    /// A step of flow's own, by its name behind `flow/`.
    Builtin(String),
    Command,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Group {
    pub id: GroupId,
    /// The step whose instances are its members.
    pub step: StepId,
    /// Its name within the step: `v7`; `v7#0` in repetition 0.
    pub name: String,
    /// Where its members run.
    pub gpus: CorunGpus,
    /// Its members, in ascending order.
    pub members: Vec<InstanceId>,
}

/// An entry of `publish:`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Publish {
    /// The step whose only output is published.
    pub from: StepId,
    pub to: PublishTo,
}

/// Where a report is published: paths relative to the workflow file, as written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PublishTo {
    /// The whole report, to this file.
    Report(String),
    /// An entry into this file.
    WhatsNew(String),
}
