//! What a run reports: to the journal, the scheduler and the screen.

pub(super) mod outbox;
pub(super) mod screen;

use flow_core::{AttemptId, JournalLine};
use flow_runs::Status;

/// Updates of a running run. The screen and `--json` are folds over these.
#[derive(Clone, Debug)]
pub enum Update {
    /// A line that was written to the journal.
    Event(JournalLine),
    /// Progress of an attempt.
    Progress {
        attempt: AttemptId,
        /// Between 0 and 1, if the program reports it.
        fraction: Option<f64>,
        /// A short text of the program.
        text: String,
    },
    /// A line of the set-up of a plugin or an environment.
    Setup {
        /// `plugin`, `environment`.
        kind: &'static str,
        name: String,
        /// Output of a set-up.
        line: String,
    },
    /// The state of the run, a few times per second.
    Status(Box<Status>),
    /// Progress of hashing or copying before the run begins.
    Doing(String),
    /// Waits for another process that has the store alone.
    Held(String),
}
