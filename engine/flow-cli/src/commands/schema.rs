//! `flow schema`.

use std::process::ExitCode;

use clap::Args;

use super::Done;
use crate::output::Output;

/// Arguments of `flow schema`.
#[derive(Debug, Args)]
#[command(after_help = "\
Editors complete and check workflow files with it. For one that speaks the YAML language server:
  flow schema > workflow.schema.json
  # yaml-language-server: $schema=workflow.schema.json      as the first line of a workflow")]
pub(crate) struct Schema {}

impl Schema {
    pub(crate) fn execute(self, output: &mut Output) -> Done {
        let text = serde_json::to_string_pretty(&flow_core::schema()).map_err(std::io::Error::from)?;
        output.text(text)?;
        Ok(ExitCode::SUCCESS)
    }
}
