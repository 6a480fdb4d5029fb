//! The available steps: those of plugins, which the caller found, and the built-in ones. Plain data.

use std::collections::BTreeMap;

use indexmap::IndexMap;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::{Diagnostic, Digest};

/// Every plugin and built-in that a workflow can name in `uses`.
#[derive(Clone, Debug, Default)]
pub struct Catalogue {
    /// `flow/table`, by the part after the slash.
    pub builtins: BTreeMap<String, CatalogueStep>,
    pub plugins: BTreeMap<String, PluginFacts>,
}

/// A plugin, from its `plugin.yaml` and its content.
#[derive(Clone, Debug)]
pub struct PluginFacts {
    pub version: String,
    /// The digest of its declared content. Part of every fingerprint of its steps.
    pub digest: Digest,
    /// The protocol version between engine and plugin. Also part of the fingerprint.
    pub protocol: u32,
    pub steps: BTreeMap<String, CatalogueStep>,
}

/// A step provided by a plugin or by flow itself.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CatalogueStep {
    /// One line of description.
    #[serde(default)]
    pub about: String,
    /// JSON Schema of `with:`. A string property with `"x-flow": "step"` takes the bare name of a step, which makes an
    /// edge. With `"x-flow": "path"` it takes a file or folder, relative to the workflow, whose content becomes an
    /// input. A number with `"x-flow-most": "data.images"` is at most the metric `images` of the step whose artifact the
    /// parameter `data` is; this is checked once the metric is known. With `data.images less valid`, the share in the
    /// parameter `valid` is reserved. `"x-flow-help"` next to several forms is advice for a value that has none of them.
    pub with: Value,
    /// Whether its circumstances matter: it is a measurement.
    #[serde(default)]
    pub measured: bool,
    /// Whether it runs until told to stop in a co-run group.
    #[serde(default)]
    pub continues: bool,
    /// Outputs: name and path in the work folder.
    #[serde(default)]
    pub outputs: IndexMap<String, String>,
    /// For a built-in: changes whenever its output would change. Absent for plugins, whose digest counts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
    /// For a built-in: checks at planning time a `with:` that its schema accepts.
    #[serde(skip)]
    pub check: Option<WithCheck>,
    /// For a built-in: the co-run steps that it judges.
    #[serde(skip)]
    pub verdicts: Option<WithVerdicts>,
}

/// Finds the co-run steps that a `with:` requests a verdict on, with their tolerances ([`crate::verdict::TOLERANCE`]).
pub type WithVerdicts = fn(&Map<String, Value>) -> Vec<(String, f64)>;

/// Checks a `with:` and the steps that it names, before anything runs.
pub type WithCheck = fn(&PlannedWith) -> Vec<WrongWith>;

/// A built-in's information at planning time.
#[derive(Clone, Debug, Default)]
pub struct PlannedWith {
    /// Its parameters, all known.
    pub with: Map<String, Value>,
    /// The steps that it sees, by name.
    pub steps: BTreeMap<String, PlannedStep>,
}

/// A step at planning time.
#[derive(Clone, Debug, Default)]
pub struct PlannedStep {
    /// `torch/train`, `flow/table`, or absent for a command.
    pub uses: Option<String>,
    /// Its `with:` as written.
    pub with: Map<String, Value>,
    /// The step it is a copy of.
    pub like: Option<String>,
    /// Whether its instances are members of co-run groups.
    pub corun: bool,
    pub repeats: bool,
    /// Its axes and values, flattened; absent if it has no instances.
    pub axes: Option<IndexMap<String, Vec<Value>>>,
    /// Its metrics, if the workflow alone determines them.
    pub metrics: Option<Vec<String>>,
    /// The workflow parameters that it depends on.
    pub params: Vec<String>,
}

/// A mistake in a `with:`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WrongWith {
    /// Its place, as a JSON pointer into it: `/columns/2`.
    pub at: String,
    /// The mistake, with advice.
    pub what: Diagnostic,
}
