//! The live driver: opens a workflow, plans it, runs it, publishes. Holds no scheduling rule and prints nothing.

mod adopted;
mod aside;
mod attempts;
mod batch;
mod builtin;
mod cancel;
mod capture;
mod cards;
mod checkpoint;
mod cleanup;
mod collect;
mod composite;
mod context;
mod continued;
mod corunners;
mod daemon;
mod decisions;
mod deferred;
mod ends;
mod environments;
mod executor;
mod exports;
mod fill;
mod finish;
mod forecast;
mod hearing;
mod identity;
mod imports;
mod intents;
mod keep;
mod left;
mod listener;
mod live;
mod local;
mod lookup;
mod numbers;
mod orphans;
mod outbox;
mod outcomes;
mod params_file;
mod peers;
mod placements;
mod plan;
mod polling;
mod present;
mod publish;
mod reading;
mod recorder;
mod remake;
mod request;
mod revision;
mod run;
mod run_claims;
mod running;
mod screen;
mod session;
mod setups;
mod slurm;
mod start;
#[cfg(test)]
mod tests;
mod unchanged;
mod waiting;
mod windows;

use flow_core::{AttemptId, JournalLine};
use flow_store::Status;

pub use continued::open;
pub use environments::{PresentEnvironment, Since, load as environment};
pub use exports::{Private, carry, plugin_digests};
pub use forecast::{CheckedSteps, check, forecast, on_each_model, predict};
pub use imports::{import, named};
pub(crate) use intents::Intent;
pub use left::{end_strays, ended_since, going_on, jobs_going_on};
pub use placements::progress;
pub use plan::{Forgotten, Knowledge, accept, done_by_others, forget, ignored, parts, plan, plan_elsewhere};
pub use present::{PresentInputs, present_inputs};
pub use publish::{PublishRequest, PublishedFile, WithheldFile};
pub use remake::{Made, Remade, remake};
pub use request::{ForceRequest, RunEnd, RunOptions};
pub use run::run;
pub use session::{Session, SessionRequest};
pub use slurm::{NoAnswer, Qualities, Rules, Unasked, cancel_jobs, jobs_left, overview, rules};

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
    /// A line of a plugin's set-up.
    Setup {
        plugin: String,
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
