//! `flow schema`.

use clap::Args;
use flow_core::Builtins;

use super::{CommandResult, plugins};
use crate::args::{About, Global};
use crate::output::Output;

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
        let plugins = plugins::discover(global, &self.about, "left out:", output)?;
        let own = crate::builtins::Steps::default().provided();
        let own = own.iter().map(|(step, provided)| (format!("flow/{step}"), provided));
        let of_plugins = plugins.iter().flat_map(|plugin| {
            let steps = plugin.manifest.steps.iter();
            steps.map(|(step, provided)| (format!("{}/{step}", plugin.name()), provided))
        });
        let schema = flow_core::schema_with(own.chain(of_plugins));
        Ok(output.text(serde_json::to_string_pretty(&schema).map_err(std::io::Error::from)?)?)
    }
}
