//! `flow plugins`.

use clap::Args;
use flow_exec::ExecError;
use flow_exec::plugins::{Plugin, Plugins as OnDisk, cache_folder};
use serde_json::Value;

use super::CommandResult;
use crate::args::{About, Global};
use crate::error::CliError;
use crate::output::{BAD, FAINT, Output, STRONG, styled};
use crate::{place, words};

/// Arguments of `flow plugins`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  flow plugins                           all plugins and their steps, with flow's own
  flow plugins torch                     one plugin, with the parameters of its steps")]
pub(crate) struct Plugins {
    /// Show the parameters of this plugin's steps
    plugin: Option<String>,
    #[command(flatten)]
    about: About,
}

impl Plugins {
    pub(crate) fn execute(self, global: &Global, output: &mut Output) -> CommandResult {
        let on_disk = discover(global, &self.about, "broken:", output)?;
        let of = |plugin: &Plugin| {
            let manifest = &plugin.manifest;
            (
                manifest.name.clone(),
                format!("{} in {}", manifest.version, place::near(&plugin.folder)),
                manifest.steps.clone(),
            )
        };
        let mut found: Vec<_> = on_disk.iter().map(of).collect();
        let own = flow_core::Builtins::provided(&crate::builtins::Steps::default());
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
                rows.push(vec![format!("{name}/{step}"), format!("{}{measured}", one_line(&provided.about))]);
                if self.plugin.is_some() {
                    properties(&provided.with, 1, &mut rows);
                }
            }
            output.lines(words::columns(&rows).iter().map(|line| format!("  {line}")))?;
        }
        Ok(())
    }
}

/// The plugins that workflows find. Prints each one that cannot be used, after this word.
pub(super) fn discover(global: &Global, about: &About, word: &str, output: &mut Output) -> Result<OnDisk, CliError> {
    let workspace = place::workspace(global, about.workflow.as_deref())?;
    let cache = cache_folder(&workspace.store.join("cache"));
    let own = workspace.own_plugins.as_deref();
    let plugins = OnDisk::discover(&workspace.plugins, own, &cache).map_err(ExecError::from)?;
    for broken in plugins.broken() {
        output.error(format!("{} {broken}", styled(BAD, word)))?;
    }
    Ok(plugins)
}

/// The parameters of a step: the keys of a mapping, each followed by the keys of its value.
fn properties(schema: &Value, depth: usize, rows: &mut Vec<Vec<String>>) {
    const DEEP: usize = 4;
    let Some(properties) = schema.get("properties").and_then(Value::as_object).filter(|_| depth <= DEEP) else {
        return;
    };
    let required: Vec<&str> = schema
        .get("required")
        .and_then(Value::as_array)
        .map(|names| names.iter().filter_map(Value::as_str).collect())
        .unwrap_or_default();
    for (name, schema) in properties {
        let mut words = Vec::new();
        if let Some(choices) = choices(schema) {
            words.push(choices.join(" | "));
        } else if let Some(kind) = schema.get("type").and_then(Value::as_str) {
            words.push(kind.to_owned());
        }
        match schema.get("default").filter(|default| !default.is_null()) {
            Some(default) => words.push(format!("default {default}")),
            None if required.contains(&&**name) => words.push("required".to_owned()),
            None => {}
        }
        let about = schema.get("description").and_then(Value::as_str).unwrap_or_default();
        let about = one_line(about);
        let more = if words.is_empty() { String::new() } else { format!(" [{}]", words.join("; ")) };
        rows.push(vec![format!("{}{name}", "  ".repeat(depth)), format!("{about}{more}")]);
        below(schema, depth + 1, rows);
    }
}

/// Joins a paragraph into one line.
fn one_line(about: &str) -> String {
    about.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// The items of a list, and each of several forms.
fn below(schema: &Value, depth: usize, rows: &mut Vec<Vec<String>>) {
    properties(schema, depth, rows);
    let forms = ["anyOf", "oneOf"].into_iter().filter_map(|word| schema.get(word)?.as_array()).flatten();
    for schema in schema.get("items").into_iter().chain(forms) {
        // Text in either language is short enough to show.
        let texts = schema.get("properties").and_then(Value::as_object).is_some_and(|p| p.keys().all(|k| k.len() == 2));
        if !texts {
            below(schema, depth, rows);
        }
    }
}

/// The allowed words: of an enumeration, or with a description each.
fn choices(schema: &Value) -> Option<Vec<String>> {
    let word = |choice: &Value| choice.as_str().map_or_else(|| choice.to_string(), str::to_owned);
    if let Some(choices) = schema.get("enum").and_then(Value::as_array) {
        return Some(choices.iter().map(word).collect());
    }
    schema.get("oneOf")?.as_array()?.iter().map(|one| one.get("const").map(word)).collect()
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
        let mut rows = Vec::new();
        properties(&with, 1, &mut rows);
        assert_eq!(
            rows,
            [["  data", "the dataset [string; required]"], ["  model", " [resnet18 | vgg16; default \"resnet18\"]"]]
        );
    }
}
