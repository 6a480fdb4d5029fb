//! `flow store`.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Args, Subcommand};

use super::Done;
use crate::args::Global;
use crate::error::CliError;
use crate::output::Output;

/// Arguments of `flow store`.
#[derive(Debug, Args)]
pub(crate) struct Store {
    #[command(subcommand)]
    what: What,
}

#[derive(Debug, Subcommand)]
enum What {
    /// Make a store that a group of people shares
    Init(Init),
}

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  flow store init --group lab /data/flow         made once, by a member of the group
  flow run train.yaml --store /data/flow         each of them, or with FLOW_STORE=/data/flow

Everybody in the group reads and reuses what anybody's runs came to. Logs and attempts stay their owner's.")]
struct Init {
    /// The group that shares it
    #[arg(long)]
    group: String,
    /// Its folder, on a local disk [default: --store]
    path: Option<PathBuf>,
}

impl Store {
    pub(crate) fn execute(self, global: &Global, output: &mut Output) -> Done {
        let What::Init(Init { group, path }) = self.what;
        let path = path.or_else(|| global.store.clone()).ok_or_else(|| {
            CliError::usage("which folder is the store to be in?").hint("flow store init --group lab /data/flow")
        })?;
        let made = flow_store::init_for_group(&path, &group)?;
        let path = made.dir.path().display();
        output.line(format!("made the store {path} for the group {group}: --store {path}, or FLOW_STORE={path}"))?;
        if made.needs_umask {
            output.note("this file system keeps no access lists: members run `umask 002` before they use the store")?;
        }
        Ok(ExitCode::SUCCESS)
    }
}
