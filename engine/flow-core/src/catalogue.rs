//! What steps there are to use: plugins as found by somebody else, and flow's own built-in steps. Plain data.

use std::collections::BTreeMap;

use indexmap::IndexMap;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::Digest;

/// Every plugin and built-in that a workflow can name in `uses`.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Catalogue {
    /// `flow/table`, by the part behind the slash.
    pub builtins: BTreeMap<String, Provided>,
    /// Plugins by name.
    pub plugins: BTreeMap<String, PluginFacts>,
}

/// One plugin, as its `plugin.yaml` and its content tell.
#[derive(Clone, Debug, PartialEq)]
pub struct PluginFacts {
    /// Its version.
    pub version: String,
    /// The digest of its declared content. Part of every fingerprint of its steps.
    pub digest: Digest,
    /// The protocol that the engine speaks with it. Part of the fingerprint as well.
    pub protocol: u32,
    /// Its steps.
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
    /// edge; `"x-flow": "path"` takes a file or folder, relative to the workflow, whose content becomes an input.
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
    /// For a built-in: a version that changes whenever its output would. Absent for plugins, whose digest counts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
}
