//! `flow store`.

use std::path::PathBuf;

use clap::{Args, Subcommand};

use super::CommandResult;
use crate::args::Global;
use crate::error::CliError;
use crate::output::Output;

/// Arguments of `flow store`.
#[derive(Debug, Args)]
pub(crate) struct Store {
    #[command(subcommand)]
    what: StoreCommand,
}

#[derive(Debug, Subcommand)]
enum StoreCommand {
    /// Create a store that a group of people shares
    Init(Init),
}

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  flow store init --group lab /data/flow         once, by a member of the group
  flow run train.yaml --store /data/flow         by each of them, or with FLOW_STORE=/data/flow

Everyone in the group reads and reuses the results of all runs. Logs and attempts stay private.")]
struct Init {
    /// The group that shares it
    #[arg(long)]
    group: String,
    /// The folder, on a local disk [default: --store]
    path: Option<PathBuf>,
}

impl Store {
    pub(crate) fn execute(self, global: &Global, output: &mut Output) -> CommandResult {
        let StoreCommand::Init(Init { group, path }) = self.what;
        let path = path.or_else(|| global.store.clone()).ok_or_else(|| {
            CliError::usage("no folder for the store was given").hint("flow store init --group lab /data/flow")
        })?;
        let made = flow_store::init_for_group(&path, &group)?;
        let path = made.dir.path().display();
        output.line(format!("made the store {path} for the group {group}: --store {path}, or FLOW_STORE={path}"))?;
        if made.needs_umask {
            output
                .note("this file system has no access lists: members must run `umask 002` before they use the store")?;
        }
        Ok(())
    }
}
