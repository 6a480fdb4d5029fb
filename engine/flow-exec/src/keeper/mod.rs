//! The keeper: one single-threaded process of the same binary (`flow __keeper RECORD`) that starts every attempt and sweeps up
//! after it. Knows nothing of workflows, plugins or GPUs.
//!
//! Whatever a step forks, into other sessions, twice, as a daemon, nothing of it survives the step's own end or the
//! engine's. Three things make that so:
//!
//! - The keeper is a *sub-reaper*: a process whose parent is gone becomes its child and cannot leave its tree.
//! - Each attempt carries a *mark* that it cannot shed by accident (see `tree`), so that an orphan finds its attempt.
//! - Engine and keeper hold the ends of one *socket*. When the engine dies, however it dies, the keeper's end breaks: it
//!   sweeps everything and exits. When the keeper is killed, the kernel kills the attempts' main processes with it and
//!   the engine finds what they left by the mark. When both are killed at once, whoever holds the store next does, by a
//!   record that stands in the run's folder before anything is started (see `record`, `stray`).
//!
//! Of a detached run the engine is not flow itself but who outlives it (see `node`).
//!
//! Requests and events are JSON objects, one a line, many in one write.

mod client;
mod command;
mod engine;
mod oom;
mod output;
pub(crate) mod record;
mod serve;
mod spawn;
mod stray;
pub(crate) mod tree;
mod unsettled;

use std::{path::PathBuf, time::Duration};

use flow_core::{AttemptId, reason::Fault};
use flow_protocol::Exit;
use serde::{Deserialize, Serialize};
use serde_json::Value;

pub use client::{Keeper, KeeperGone};
pub use command::command_argv;
pub use serve::serve;
pub use stray::kill_strays;
pub(crate) use stray::may_be_left;

/// The argument that makes the binary a keeper.
pub const KEEPER_ARG: &str = "__keeper";

/// What the engine asks of the keeper. It holds secrets: nothing prints it.
#[derive(Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "request", rename_all = "snake_case")]
pub enum Request {
    Start(Start),
    /// End an attempt: ask every process of it, wait, kill. Sent again with less grace it hurries. For an attempt that
    /// has ended it does nothing.
    Kill {
        attempt: AttemptId,
        /// How long it may take; zero kills at once.
        grace: Duration,
    },
    /// Signals to end are for the engine, which hears them as well and says what is to be done. First of all, where that is so.
    Stay,
    /// What came of it is safe, or dropped.
    Settled {
        attempt: AttemptId,
    },
    /// Its time is about to be up: the processes of an attempt that listen to SIGUSR1 get it. Where none does it is ended instead.
    Warn {
        attempt: AttemptId,
        /// How long it may take then.
        grace: Duration,
    },
}

/// Why a program could not be started, as its exit record has it.
pub(crate) fn written(fault: &Fault) -> Value {
    serde_json::to_value(fault).unwrap_or_else(|_| fault.to_string().into())
}

/// Why a program could not be started, out of its exit record.
pub(crate) fn told(written: &Value) -> Fault {
    serde_json::from_value(written.clone()).unwrap_or_else(|_| written.to_string().into())
}

/// An attempt to start. It holds secrets: nothing prints it.
#[derive(Clone, PartialEq, Serialize, Deserialize)]
pub struct Start {
    /// The attempt, unique for the life of the keeper.
    pub attempt: AttemptId,
    /// Program and arguments. A program without a slash is looked for on the `PATH` of `env`.
    pub argv: Vec<String>,
    /// The whole environment; nothing is inherited.
    pub env: Vec<(String, String)>,
    pub cwd: PathBuf,
    /// The attempt's folder, which exists: `log` and `exit.json` are written here.
    pub folder: PathBuf,
    /// Values to hide in what it writes, which goes through pipes then; without any it writes its files itself.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub secrets: Vec<String>,
    /// What is written down if it has ended well and the engine is gone before that is settled.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unsettled: Option<Unsettled>,
}

/// What whoever comes after the engine is to find of an attempt that has ended.
#[derive(Clone, PartialEq, Serialize, Deserialize)]
pub struct Unsettled {
    pub path: PathBuf,
    /// What, which nobody but its reader understands.
    pub text: String,
    /// Whose readers that live are told that there is news.
    pub store: PathBuf,
    /// So many attempts are in it, and it is worth nothing unless all of them have ended so.
    #[serde(default)]
    pub members: usize,
}

/// What the keeper tells the engine.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "event", rename_all = "snake_case")]
pub enum Event {
    Started {
        attempt: AttemptId,
        /// Its main process, the leader of its session.
        pid: u32,
    },
    /// The program could not be started. `exit.json` says so too; no [`Event::Exited`] follows.
    SpawnFailed {
        attempt: AttemptId,
        /// What could not be done and why.
        reason: Fault,
    },
    /// Nothing of the attempt is alive any more, and `exit.json` is in its folder.
    Exited {
        attempt: AttemptId,
        /// How its main process ended.
        exit: Exit,
    },
}
