//! `plugin.yaml` as types, with errors that name the file and the key.

use std::{
    collections::BTreeMap,
    path::{Component, Path},
};

use flow_core::CatalogueStep;
use serde::Deserialize;
use serde_json::Value;

use super::PluginError;
use crate::text;

/// The version of the format.
const VERSION: u64 = 1;
/// Larger than any manifest.
const LONGEST: u64 = 1 << 20;

/// The content of a `plugin.yaml`.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Manifest {
    /// The version of the format.
    pub plugin: u64,
    /// Its name, the part of `uses` before the slash.
    pub name: String,
    pub version: String,
    /// Globs relative to its folder: the files in its digest.
    pub content: Vec<String>,
    /// Commands that set it up, run in its folder.
    #[serde(default)]
    pub setup: Vec<String>,
    pub start: Vec<String>,
    /// Variables for `start`.
    #[serde(default)]
    pub env: BTreeMap<String, String>,
    pub steps: BTreeMap<String, CatalogueStep>,
}

impl Manifest {
    pub(super) fn read(path: &Path) -> Result<Manifest, PluginError> {
        let error = |what: String| PluginError { file: path.to_owned(), what };
        let text = text::read(path, LONGEST).map_err(|e| error(e.to_string()))?;
        Manifest::parse(&text).map_err(error)
    }

    fn parse(text: &str) -> Result<Manifest, String> {
        // Check the version first, because a newer format may have unknown keys.
        #[derive(Deserialize)]
        struct VersionOnly {
            plugin: Option<serde_yaml::Value>,
        }
        let yaml = |e: serde_yaml::Error| e.to_string();
        match serde_yaml::from_str::<VersionOnly>(text).map_err(yaml)?.plugin {
            None => return Err(format!("it begins with `plugin: {VERSION}`, the version of its format")),
            Some(version) => match version.as_u64() {
                Some(VERSION) => {}
                Some(newer) if newer > VERSION => {
                    return Err(format!("plugin: it has format {newer}, this flow reads {VERSION}; use a newer flow"));
                }
                _ => return Err(format!("plugin: the version of the format is {VERSION}")),
            },
        }
        let manifest: Manifest = serde_yaml::from_str(text).map_err(yaml)?;
        manifest.check()?;
        Ok(manifest)
    }

    fn check(&self) -> Result<(), String> {
        name_of("name", &self.name)?;
        if self.name == "flow" {
            return Err("name: `flow` is for flow's own steps".into());
        }
        if self.content.is_empty() {
            return Err("content: list the files of the plugin's program, for example `[plugin.yaml, \"src/**\"]`; \
                        a result is reused only while these are unchanged"
                .into());
        }
        if self.start.first().is_none_or(String::is_empty) {
            return Err("start: give the program to start, for example `[./main.py]`".into());
        }
        for (key, text) in self
            .start
            .iter()
            .map(|word| ("start".to_owned(), word.clone()))
            .chain(self.env.iter().map(|(k, v)| (format!("env.{k}"), v.replace(&format!("${{{k}}}"), ""))))
        {
            if text.replace("${FLOW_CACHE}", "").contains("${") {
                return Err(format!(
                    "{key}: `{text}`: only ${{FLOW_CACHE}} can be filled in, and in a variable its own inherited value"
                ));
            }
        }
        if self.steps.is_empty() {
            return Err("steps: the list is empty".into());
        }
        for (name, step) in &self.steps {
            name_of("steps", name)?;
            check_step(step).map_err(|what| format!("steps.{name}.{what}"))?;
        }
        Ok(())
    }
}

fn check_step(step: &CatalogueStep) -> Result<(), String> {
    if step.version.is_some() {
        return Err("version: a plugin's steps have none; its content's digest counts".into());
    }
    for (output, path) in &step.outputs {
        name_of("outputs", output)?;
        let inside = Path::new(path).components().all(|c| matches!(c, Component::Normal(_) | Component::CurDir));
        if path.is_empty() || !inside {
            return Err(format!("outputs.{output}: `{path}` is not a path in the work folder"));
        }
    }
    let object = |key: &str| format!("{key}: expected a JSON Schema with `type: object`");
    let Value::Object(schema) = &step.with else { return Err(object("with")) };
    if schema.get("type").and_then(Value::as_str) != Some("object") {
        return Err(object("with"));
    }
    match schema.get("properties") {
        None | Some(Value::Object(_)) => {}
        Some(_) => return Err("with.properties: expected a mapping from names to schemas".into()),
    }
    jsonschema::meta::validate(&step.with).map_err(|e| {
        let at = e.instance_path().to_string().replace('/', ".");
        format!("with{at}: {e}")
    })
}

fn name_of(key: &str, name: &str) -> Result<(), String> {
    let well = name.starts_with(|c: char| c.is_ascii_lowercase())
        && name.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'_');
    if well {
        Ok(())
    } else {
        Err(format!("{key}: `{name}` is not a valid name: use small letters, digits and `_`, a letter first"))
    }
}
