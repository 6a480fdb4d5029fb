//! `flow init`.

use std::fs::File;
use std::io::{ErrorKind, Write};
use std::os::unix::fs::DirBuilderExt;
use std::path::PathBuf;

use clap::Args;

use super::CommandResult;
use crate::error::CliError;
use crate::output::Output;

/// A workflow that runs anywhere.
const TEXT: &str = include_str!("hello.yaml");

/// Arguments of `flow init`.
#[derive(Debug, Args)]
#[command(after_help = "\
Example:
  flow init && flow run workflows/hello.yaml")]
pub(crate) struct Init {
    /// The file to write
    #[arg(default_value = "workflows/hello.yaml", value_name = "FILE")]
    file: PathBuf,
}

impl Init {
    pub(crate) fn execute(self, output: &mut Output) -> CommandResult {
        let shown = self.file.display();
        // The store belongs to the current folder, like all workflows in it.
        std::fs::DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(".flow")
            .map_err(|e| CliError::failed(format!("flow cannot create the folder `.flow`: {e}")))?;
        if let Some(folder) = self.file.parent() {
            let cannot = |e| CliError::failed(format!("flow cannot create the folder `{}`: {e}", folder.display()));
            std::fs::create_dir_all(folder).map_err(cannot)?;
        }
        let written = File::create_new(&self.file).and_then(|mut file| file.write_all(TEXT.as_bytes()));
        written.map_err(|e| match e.kind() {
            ErrorKind::AlreadyExists => CliError::usage(format!("`{shown}` exists already"))
                .hint("choose another name: flow init workflows/mine.yaml"),
            _ => CliError::failed(format!("`{shown}` cannot be written: {e}")),
        })?;
        output.line(format!("wrote {shown}"))?;
        output.note(format!("next: flow run {shown}     takes seconds, needs no GPU"))?;
        output.note(format!("      flow plan {shown}    after an edit: what would run again, and why"))?;
        Ok(output.note("for your own script: `run:` is its command, `inputs:` its files, `metrics:` its numbers")?)
    }
}
