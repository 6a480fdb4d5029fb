//! `flow plugins`.

use std::process::ExitCode;

use clap::Args;
use flow_core::Provided;
use flow_exec::ExecError;
use flow_exec::plugins::{Plugin, cache_folder};
use serde_json::Value;

use super::Done;
use crate::args::{About, Global};
use crate::error::CliError;
use crate::output::{BAD, FAINT, Output, STRONG, styled};
use crate::{place, words};

/// Arguments of `flow plugins`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  flow plugins                           the plugins and their steps, flow's own among them
  flow plugins torch                     one of them, with the parameters of its steps")]
pub(crate) struct Plugins {
    /// Show the parameters of this plugin's steps
    plugin: Option<String>,
    #[command(flatten)]
    about: About,
}

impl Plugins {
    pub(crate) fn execute(self, global: &Global, output: &mut Output) -> Done {
        let workspace = place::workspace(global, self.about.workflow.as_deref())?;
        let cache = cache_folder(&workspace.store.join("cache"));
        let on_disk = flow_exec::plugins::Plugins::discover(&workspace.plugins, &cache).map_err(ExecError::from)?;
        let of = |plugin: &Plugin| {
            let manifest = &plugin.manifest;
            (
                manifest.name.clone(),
                format!("{} in {}", manifest.version, place::near(&plugin.folder)),
                manifest.steps.clone(),
            )
        };
        let mut found: Vec<_> = on_disk.iter().map(of).collect();
        for broken in on_disk.broken() {
            output.error(format!("{} {broken}", styled(BAD, "broken:")))?;
        }
        let own = flow_core::Builtins::provided(&crate::builtins::Steps::new());
        found.push(("flow".to_owned(), format!("{}, built in", env!("CARGO_PKG_VERSION")), own));
        let known: Vec<String> = found.iter().map(|(name, ..)| name.clone()).collect();
        if let Some(asked) = &self.plugin {
            found.retain(|(name, ..)| name == asked);
            if found.is_empty() {
                return Err(CliError::usage(format!("there is no plugin `{asked}`"))
                    .hint(format!("there is {}", known.join(", "))));
            }
        }
        for (name, version, steps) in &found {
            output.line(format!("{} {}", styled(STRONG, name), styled(FAINT, version)))?;
            let mut rows = Vec::new();
            for (step, provided) in steps {
                let measured = if provided.measured { " (measured)" } else { "" };
                rows.push(vec![format!("{name}/{step}"), format!("{}{measured}", provided.about)]);
                if self.plugin.is_some() {
                    rows.extend(parameters(provided));
                }
            }
            for line in words::columns(&rows) {
                output.line(format!("  {line}"))?;
            }
        }
        Ok(ExitCode::SUCCESS)
    }
}

/// The parameters of a step, as its schema tells them.
fn parameters(provided: &Provided) -> Vec<Vec<String>> {
    let Some(properties) = provided.with.get("properties").and_then(Value::as_object) else { return Vec::new() };
    let required: Vec<&str> = provided
        .with
        .get("required")
        .and_then(Value::as_array)
        .map(|names| names.iter().filter_map(Value::as_str).collect())
        .unwrap_or_default();
    let row = |(name, schema): (&String, &Value)| {
        let mut words = Vec::new();
        if let Some(choices) = schema.get("enum").and_then(Value::as_array) {
            let choices: Vec<String> = choices
                .iter()
                .map(|choice| choice.as_str().map_or_else(|| choice.to_string(), str::to_owned))
                .collect();
            words.push(choices.join(" | "));
        } else if let Some(kind) = schema.get("type").and_then(Value::as_str) {
            words.push(kind.to_owned());
        }
        match schema.get("default") {
            Some(default) => words.push(format!("default {default}")),
            None if required.contains(&&**name) => words.push("required".to_owned()),
            None => {}
        }
        let about = schema.get("description").and_then(Value::as_str).unwrap_or_default();
        vec![
            format!("  {name}"),
            format!("{about}{}", if words.is_empty() { String::new() } else { format!(" [{}]", words.join("; ")) }),
        ]
    };
    properties.iter().map(row).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn parameters_are_read_from_the_schema() {
        let with = json!({
            "type": "object",
            "required": ["data"],
            "properties": {
                "data": {"type": "string", "description": "the dataset"},
                "model": {"enum": ["resnet18", "vgg16"], "default": "resnet18"},
            },
        });
        let rows = parameters(&Provided { with, ..Provided::default() });
        assert_eq!(
            rows,
            [["  data", "the dataset [string; required]"], ["  model", " [resnet18 | vgg16; default \"resnet18\"]"]]
        );
    }
}
