//! Why a command of the engine could not be carried out. A step that fails is no error: it is an outcome.

use std::{io, path::PathBuf};

use flow_core::{Diagnostic, Source};
use flow_store::{LIMIT, StoreError};

use crate::{driver::NoAnswer, keeper::KeeperGone, plugins::PluginError};

/// Why a command could not be carried out.
#[derive(Debug, thiserror::Error)]
pub enum ExecError {
    /// The workflow, or what was asked of it, is wrong. Nothing was run or written.
    #[error("the workflow `{}` is not valid", source_text.path)]
    Workflow {
        /// The text, for showing lines.
        source_text: Box<Source>,
        /// Everything that is wrong.
        diagnostics: Vec<Diagnostic>,
    },
    /// Something on the command line or in the environment is wrong.
    #[error("{0}")]
    Usage(String),
    /// Others could have put it there, or could change it, and nobody named it.
    #[error("{why}")]
    Untrusted {
        /// Whose it is, or who may write it.
        why: String,
        way_out: String,
    },
    /// A step is to begin on Slurm.
    #[error(
        "a step is to run on Slurm, which does not answer: {0}; `scontrol ping` says whether its controller is up, `--on local` runs it here"
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
    /// The workflow file, or its folder, is not there or is closed to us.
    #[error("cannot {what} `{}`: {source}", path.display())]
    NoFile { what: &'static str, path: PathBuf, source: io::Error },
    /// The system refused something.
    #[error("cannot {what} `{}`: {source}{}", path.display(), limit(source))]
    Io {
        /// `create`, `start`.
        what: &'static str,
        path: PathBuf,
        source: io::Error,
    },
    /// The scheduler found itself in a state that must not be. A fault of flow; the journal is whole.
    #[error("a fault of flow, please report it: {0}")]
    Fault(String),
}

fn limit(error: &io::Error) -> &'static str {
    if error.kind() == io::ErrorKind::WouldBlock { LIMIT } else { "" }
}

impl ExecError {
    /// For `map_err`: the system refused `what` for `path`.
    pub(crate) fn io(what: &'static str, path: impl Into<PathBuf>) -> impl FnOnce(io::Error) -> ExecError {
        let path = path.into();
        move |source| ExecError::Io { what, path, source }
    }
}
