//! `flow schema`.

use std::process::ExitCode;

use clap::Args;
use flow_core::Builtins;
use flow_exec::{
    ExecError,
    plugins::{Plugins, cache_folder},
};

use super::CommandResult;
use crate::args::{About, Global};
use crate::output::{BAD, Output, styled};
use crate::place;

/// Arguments of `flow schema`.
#[derive(Debug, Args)]
#[command(after_help = "\
With the schema, editors complete and check workflow files, including `with:` of all plugins found here. For an editor \
with the YAML language server:
  flow schema > workflow.schema.json
  # yaml-language-server: $schema=workflow.schema.json      as the first line of a workflow")]
pub(crate) struct Schema {
    #[command(flatten)]
    about: About,
}

impl Schema {
    pub(crate) fn execute(self, global: &Global, output: &mut Output) -> CommandResult {
        let workspace = place::workspace(global, self.about.workflow.as_deref())?;
        let cache = cache_folder(&workspace.store.join("cache"));
        let own = workspace.own_plugins.as_deref();
        let plugins = Plugins::discover(&workspace.plugins, own, &cache).map_err(ExecError::from)?;
        for broken in plugins.broken() {
            output.error(format!("{} {broken}", styled(BAD, "left out:")))?;
        }
        let own = crate::builtins::Steps::new().provided();
        let own = own.iter().map(|(step, provided)| (format!("flow/{step}"), provided));
        let of_plugins = plugins.iter().flat_map(|plugin| {
            let steps = plugin.manifest.steps.iter();
            steps.map(|(step, provided)| (format!("{}/{step}", plugin.name()), provided))
        });
        let schema = flow_core::schema_with(own.chain(of_plugins));
        output.text(serde_json::to_string_pretty(&schema).map_err(std::io::Error::from)?)?;
        Ok(ExitCode::SUCCESS)
    }
}
