//! Why a command of the engine failed. A failed step is not an error: it is an outcome.

use std::{io, path::PathBuf};

use flow_core::{Diagnostic, Source};
use flow_runs::{LIMIT, StoreError};
use flow_supervisor::keeper::KeeperGone;

use crate::{driver::NoAnswer, plugins::PluginError};

/// Why a command failed.
#[derive(Debug, thiserror::Error)]
pub enum ExecError {
    /// The workflow or the request is wrong. Nothing was run or written.
    #[error("the workflow `{}` is not valid", source_text.path)]
    Workflow {
        /// The text, for showing lines.
        source_text: Box<Source>,
        /// All errors.
        diagnostics: Vec<Diagnostic>,
    },
    /// Something on the command line or in the environment is wrong.
    #[error("{0}")]
    Usage(String),
    /// It belongs to another user and nobody named it, or it is closed to this user.
    #[error("{why}")]
    Untrusted { why: String, way_out: String },
    /// A step must start on Slurm.
    #[error(
        "a step should run on Slurm, which does not answer: {0}; `scontrol ping` shows whether its controller is up, `--on local` runs it here"
    )]
    SlurmSilent(NoAnswer),
    /// A plugin cannot be used.
    #[error(transparent)]
    Plugin(#[from] PluginError),
    /// The store cannot be used.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The keeper is gone.
    #[error(transparent)]
    Keeper(#[from] KeeperGone),
    /// The workflow file, or its folder, does not exist or is not accessible.
    #[error("cannot {what} `{}`: {source}", path.display())]
    NoFile { what: &'static str, path: PathBuf, source: io::Error },
    /// The system reported an error.
    #[error("cannot {what} `{}`: {source}{}", path.display(), limit(source))]
    Io {
        /// `create`, `start`.
        what: &'static str,
        path: PathBuf,
        source: io::Error,
    },
    /// The scheduler is in an impossible state. A bug in flow; the journal is complete.
    #[error("a bug in flow, please report it: {0}")]
    Fault(String),
}

fn limit(error: &io::Error) -> &'static str {
    if error.kind() == io::ErrorKind::WouldBlock { LIMIT } else { "" }
}

impl ExecError {
    /// For `map_err`: the system failed to `what` the `path`.
    pub(crate) fn io(what: &'static str, path: impl Into<PathBuf>) -> impl FnOnce(io::Error) -> ExecError {
        let path = path.into();
        move |source| ExecError::Io { what, path, source }
    }
}
