//! What steps there are to use: plugins as found by somebody else, and flow's own built-in steps. Plain data.

use std::collections::BTreeMap;

use indexmap::IndexMap;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::{Diagnostic, Digest};

/// Every plugin and built-in that a workflow can name in `uses`.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Catalogue {
    /// `flow/table`, by the part behind the slash.
    pub builtins: BTreeMap<String, Provided>,
    pub plugins: BTreeMap<String, PluginFacts>,
}

/// One plugin, as its `plugin.yaml` and its content tell.
#[derive(Clone, Debug, PartialEq)]
pub struct PluginFacts {
    pub version: String,
    /// The digest of its declared content. Part of every fingerprint of its steps.
    pub digest: Digest,
    /// The protocol that the engine speaks with it. Part of the fingerprint as well.
    pub protocol: u32,
    pub steps: BTreeMap<String, Provided>,
}

/// A step that a plugin or flow itself provides.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Provided {
    /// One line for people.
    #[serde(default)]
    pub about: String,
    /// JSON Schema of `with:`. A string property annotated `"x-flow": "step"` takes the bare name of a step, which makes an
    /// edge; `"x-flow": "path"` takes a file or folder, relative to the workflow, whose content becomes an input. A number annotated
    /// `"x-flow-most": "data.images"` is at most the metric `images` of the step whose artifact the parameter `data` is, which is told
    /// once that is known; `data.images less valid`, where the parameter `valid` says which part of these is for something else.
    pub with: Value,
    /// The step is a measurement: its circumstances matter.
    #[serde(default)]
    pub measured: bool,
    /// In a co-run group it goes on until it is told to stop.
    #[serde(default)]
    pub continues: bool,
    /// Outputs: name and path in the work folder.
    #[serde(default)]
    pub outputs: IndexMap<String, String>,
    /// For a built-in: changes whenever its output would. Absent for plugins, whose digest counts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
    /// For a built-in: what it says at planning of a `with:` that its schema lets pass.
    #[serde(skip)]
    pub check: Option<WithCheck>,
    /// For a built-in: the co-run steps that it gives verdicts on.
    #[serde(skip)]
    pub verdicts: Option<WithVerdicts>,
}

/// Co-run steps, each with what is still parallel ([`crate::verdict::TOLERANCE`]).
pub type Tolerances = Vec<(String, f64)>;

/// Which co-run steps a `with:` wants a verdict on.
#[derive(Clone, Copy, Debug)]
pub struct WithVerdicts(pub fn(&Map<String, Value>) -> Tolerances);

impl PartialEq for WithVerdicts {
    fn eq(&self, other: &Self) -> bool {
        std::ptr::fn_addr_eq(self.0, other.0)
    }
}

/// Looks at a `with:` and the steps that it names, before anything runs.
#[derive(Clone, Copy, Debug)]
pub struct WithCheck(pub fn(&PlannedWith) -> Vec<WrongWith>);

impl PartialEq for WithCheck {
    fn eq(&self, other: &Self) -> bool {
        std::ptr::fn_addr_eq(self.0, other.0)
    }
}

/// What a built-in knows at planning.
#[derive(Clone, Debug, Default)]
pub struct PlannedWith {
    /// Its parameters, all of them known.
    pub with: Map<String, Value>,
    /// The steps that it sees, by name.
    pub steps: BTreeMap<String, PlannedStep>,
}

/// A step as planning knows it.
#[derive(Clone, Debug, Default)]
pub struct PlannedStep {
    /// `torch/train`, `flow/table`, or absent for a command.
    pub uses: Option<String>,
    /// Its `with:` as written.
    pub with: Map<String, Value>,
    /// The step it is a copy of.
    pub like: Option<String>,
    /// Its instances are members of co-run groups.
    pub corun: bool,
    pub repeats: bool,
    /// Its axes with their values, flattened; absent where it has no instances.
    pub axes: Option<IndexMap<String, Vec<Value>>>,
    /// The metrics that it will have, where the workflow alone tells.
    pub metrics: Option<Vec<String>>,
}

/// What is wrong with a `with:`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WrongWith {
    /// Where, as a JSON pointer into it: `/columns/2`.
    pub at: String,
    /// What, with something to do.
    pub what: Diagnostic,
}
