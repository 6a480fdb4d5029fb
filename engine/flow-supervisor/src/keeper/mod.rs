//! The keeper: one single-threaded process of the same binary (`flow __keeper RECORD`) that starts every attempt and
//! cleans up after it. Knows nothing of workflows, plugins or GPUs.
//!
//! Whatever a step forks, even as a daemon in another session, is killed when the step or the engine ends. Three things
//! ensure this:
//!
//! - The keeper is a *sub-reaper*: a process whose parent is gone becomes its child and cannot leave its tree.
//! - Each attempt carries a *mark* that it cannot lose by accident (see `tree`), which assigns an orphan to its
//!   attempt.
//! - Engine and keeper hold the ends of one *socket*. When the engine dies for any reason, the socket closes: the
//!   keeper kills everything and exits. When the keeper is killed, the kernel kills the attempts' main processes with
//!   it, and the engine finds the rest by the mark. When both are killed at once, the next holder of the store does
//!   this, from a record written into the run's folder before anything starts (see `record`, `stray`).
//!
//! In a detached run the supervisor takes the place of the engine (see `node`).
//!
//! Requests and events are JSON objects, one per line, many in one write.

mod client;
mod command;
mod engine;
mod oom;
mod output;
pub mod record;
mod serve;
mod spawn;
mod stray;
pub(crate) mod tree;

use std::{path::PathBuf, time::Duration};

use flow_core::{AttemptId, reason::Fault};
use flow_protocol::Exit;
use serde::{Deserialize, Serialize};
use serde_json::Value;

pub use client::{Keeper, KeeperGone};
pub use command::command_argv;
pub use serve::serve;
pub use stray::kill_strays;
pub use stray::may_have_strays;
pub use tree::{below, kill_below};

/// The argument that makes the binary a keeper.
pub const KEEPER_ARG: &str = "__keeper";

/// A request of the engine. It holds secrets: nothing prints it.
#[derive(Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Request {
    Start(Start),
    /// Ends an attempt: asks every process of it, waits, kills. A second request with less grace shortens the wait;
    /// after the end it does nothing.
    Kill {
        attempt: AttemptId,
        /// The grace period; zero kills at once.
        grace: Duration,
    },
    /// Ignore signals to end: the engine receives them as well and decides. Sent first, if at all.
    IgnoreSignals,
    /// Time is almost up: sends SIGUSR1 to the attempt's processes that handle it. If none does, ends the attempt
    /// instead.
    Warn {
        attempt: AttemptId,
        /// The grace period in that case.
        grace: Duration,
    },
}

/// A start error as JSON for the exit record.
pub(crate) fn written(fault: &Fault) -> Value {
    serde_json::to_value(fault).unwrap_or_else(|_| fault.to_string().into())
}

/// A start error from the JSON of an exit record.
pub fn start_fault(written: &Value) -> Fault {
    serde_json::from_value(written.clone()).unwrap_or_else(|_| written.to_string().into())
}

/// An attempt to start. It holds secrets: nothing prints it.
#[derive(Clone, PartialEq, Serialize, Deserialize)]
pub struct Start {
    /// Unique for the life of the keeper.
    pub attempt: AttemptId,
    /// Program and arguments. A program without a slash is searched on the `PATH` of `env`.
    pub argv: Vec<String>,
    /// The whole environment; nothing is inherited.
    pub env: Vec<(String, String)>,
    pub cwd: PathBuf,
    /// The attempt's existing folder: `log` is written here.
    pub folder: PathBuf,
    /// Values to hide in its output, which then goes through pipes. Without any, the program writes its files itself.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub secrets: Vec<String>,
}

/// An event for the engine.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Event {
    Started {
        attempt: AttemptId,
        /// Its main process, the leader of its session.
        pid: u32,
    },
    /// The program could not be started. No [`Event::Exited`] follows.
    SpawnFailed {
        attempt: AttemptId,
        /// The failed action, and the reason.
        reason: Fault,
    },
    /// No process of the attempt is alive any more.
    Exited {
        attempt: AttemptId,
        /// How its main process ended.
        exit: Exit,
    },
}
