//! Input and output of expansion.

use std::{
    collections::{BTreeMap, BTreeSet},
    ops::Range,
    sync::Arc,
};

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::{
    Catalogue, CorunGpus, Digest, GroupId, InstanceId, Machine, Metrics, Place, PublishWhat, StepId, reason::Cause,
};

/// Everything besides the file that determines the expansion.
#[derive(Clone, Copy, Debug)]
pub struct ExpandRequest<'a> {
    /// Plugins and built-ins.
    pub catalogue: &'a Catalogue,
    /// The machine on which steps run.
    pub machine: &'a Machine,
    /// `--profile NAME`. By default, the first profile whose `when` is true.
    pub profile: Option<&'a str>,
    /// `--set` values as given, `key=value`; the values from `--params` files come first.
    pub set: &'a [String],
    /// The file of each of the first of these values.
    pub files: &'a [String],
    /// The absolute folder of the workflow file. Relative paths in plugin parameters start there.
    pub folder: &'a str,
    /// The shell's absolute folder. `--set` values that begin with `./` or `../` are relative to it.
    pub shell_folder: &'a str,
    /// Facts about the batch system.
    pub batch: Batch<'a>,
}

/// Facts about a batch system.
#[derive(Clone, Copy, Debug, Default)]
pub struct Batch<'a> {
    /// `--on`; it overrides the workflow.
    pub on: Option<Place>,
    /// The largest node that runs its jobs.
    pub node: Option<&'a Machine>,
    /// Places of instances that a killed run left running, by label. They stay there.
    pub orphan_places: Option<&'a BTreeMap<String, Place>>,
}

/// A warning about an expansion.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(remote = "Self", tag = "kind", rename_all = "snake_case")]
pub enum Remark {
    /// There are profiles, but no condition is true.
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
    /// The step whose work it repeats: at another time, next to others, or more often. Their estimates are shared.
    pub work_of: Option<StepId>,
    /// `with:` as written, including copied keys.
    pub with: Arc<Map<String, Value>>,
    /// The places of its numbers.
    pub metrics: Option<Arc<Metrics>>,
    /// Names of environment variables whose values are never stored, hashed or printed.
    pub secrets: Vec<String>,
    /// Why it has no instances.
    pub absent: Option<Arc<Cause>>,
    /// Its instances, with contiguous ids.
    pub instances: Range<u32>,
    /// Its work, as written.
    pub definition: Definition,
    /// For a co-run step: repetitions of its groups and of their solo runs, which run only if a verdict needs them.
    pub again: Vec<InstanceId>,
    /// Axes that its work does not read. They only distinguish instances, like repetitions.
    pub unread: Vec<String>,
    /// Workflow parameters that its work depends on: those that it names, and those of the steps that it needs.
    pub params: Vec<String>,
    /// Whether it reads its seed, so that the seed alone identifies a repetition.
    pub reads_seed: bool,
    /// Whether results may determine some of its inputs: [`ResolvedInstance::inputs`](crate::ResolvedInstance).
    pub has_late_inputs: bool,
    /// For a built-in: the steps that it sees, in the order of their names in `with:`.
    pub sees: Vec<StepId>,
}

/// A step's work as written, the same at all of its points.
#[derive(Clone, Debug)]
pub struct Definition {
    /// Digest of its action, parameters, environment and inputs, with expressions as text.
    pub(crate) written: Digest,
    /// Paths in it without an expression.
    pub(crate) paths: BTreeSet<String>,
}

/// A step that was kept although a step ran again that it comes after but does not read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnreadDependency {
    pub step: String,
    pub ran: String,
    /// How an expression names the other step's output, `out` or `outputs.NAME`, if it has one.
    pub output: Option<String>,
}

/// An output whose path a step's command has, although the step does not get the file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnmappedOutput {
    pub step: String,
    /// The step that makes it.
    pub of: String,
    pub path: String,
    /// How an expression names it, `out` or `outputs.NAME`.
    pub output: String,
}

/// Kind of a step.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Uses {
    /// A plugin's step, `torch/train`.
    Plugin {
        plugin: String,
        step: String,
    },
    /// A built-in step, by its name after `flow/`.
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
    /// The GPUs of its members.
    pub gpus: CorunGpus,
    /// Its members, in ascending order.
    pub members: Vec<InstanceId>,
}

/// An entry of `publish:`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Publish {
    /// The step whose only output is published.
    pub from: StepId,
    pub what: PublishWhat,
    /// The file, relative to the workflow file, as written.
    pub to: String,
}
