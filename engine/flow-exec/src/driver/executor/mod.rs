//! The interface between the loop and whatever executes attempts: processes on this machine, jobs of a batch system, a
//! fake in tests. The loop does not know where a program runs; an executor knows no workflow.
//!
//! Events may come late, twice or out of order, and a start may not be reported. Only the end of every started attempt
//! is reported eventually. The loop ignores what is out of date.

pub(super) mod batch;
pub(super) mod composite;
pub(super) mod daemon;
pub(super) mod detached;
pub(super) mod local;
pub(super) mod slurm;

use std::{collections::BTreeSet, io, os::fd::OwnedFd, time::Duration};

use flow_core::{
    AttemptId, Exclusive, Outcome, SlurmJob, Span,
    measure::{GpuSamples, HostSamples, Looks},
    reason::{BatchEnd, Cause, Fault},
    sched::MachineShare,
};
use flow_protocol::Exit;

use flow_runs::QueuedJob;
use flow_supervisor::{intents::Intent, keeper, node::NodeFacts};

use crate::ExecError;

/// An attempt to execute.
pub(crate) struct Work {
    pub(crate) program: keeper::Start,
    /// The request to a batch system. Without it the attempt runs on this machine.
    pub(crate) job: Option<BatchWork>,
    /// For an attempt on this machine that survives its run, or has survived an earlier one.
    pub(crate) detached: Option<DetachedAttempt>,
}

/// An attempt on this machine that survives its run.
pub(crate) struct DetachedAttempt {
    /// The record of its gang, written before it starts; for an adopted attempt, the one that the earlier run wrote.
    pub(crate) intent: Intent,
    /// An earlier run started it.
    pub(crate) joined: bool,
    /// Its GPUs, as indices among the machine's.
    pub(crate) gpus: Vec<usize>,
    pub(crate) timeout: Option<Span>,
    pub(crate) holds: MachineShare,
}

/// The request to a batch system for one attempt.
pub(crate) struct BatchWork {
    pub(crate) label: String,
    pub(crate) gpus: u32,
    pub(crate) cpus: u32,
    pub(crate) memory: Option<u64>,
    pub(crate) timeout: Option<Span>,
    /// The longest time limit that its partition allows, as far as known.
    pub(crate) longest: Option<Duration>,
    pub(crate) exclusive: Exclusive,
    /// How far its `priority` is below the highest in the workflow.
    pub(crate) nice: u32,
    /// All members of its group use the same GPUs.
    pub(crate) shares_gpus: bool,
    pub(crate) slurm: SlurmJob,
    /// The GPU model, declared or common to the whole cluster, in case a node cannot report it.
    pub(crate) gpu_model: Option<String>,
    /// Written to disk before the batch system is asked. For a joined attempt, the record of the earlier run.
    pub(crate) intent: Intent,
    /// An earlier run started it.
    pub(crate) joined: bool,
}

/// An event of an attempt.
#[derive(Debug)]
pub(crate) enum Event {
    /// The program runs: here, or on a node.
    Started { attempt: AttemptId, node: Option<Box<NodeFacts>> },
    /// The program could not be started. No [`Event::Ended`] follows.
    SpawnFailed { attempt: AttemptId, reason: Fault },
    /// No process of the attempt is alive any more.
    Ended { attempt: AttemptId, end: Box<AttemptEnd> },
    /// It waits in a batch queue, or, with `None`, no longer does.
    Waits { attempt: AttemptId, queued: Option<QueuedJob> },
    /// A notice for the user that concerns no single attempt.
    Notice(String),
}

/// How an attempt ended, and its observations.
#[derive(Debug)]
pub(crate) struct AttemptEnd {
    pub(crate) exit: Exit,
    /// Observations of the host, if the executor runs on that host.
    pub(crate) seen: LocalObservation,
    /// Observations made where it ran, by the clock of that machine.
    pub(crate) there: Option<RemoteObservation>,
    /// An outcome that replaces the program's own.
    pub(crate) instead: Option<OutcomeOverride>,
    /// The attempts beside it, if only its supervisor knows them.
    pub(crate) corunners: Option<RecordedCoRunners>,
}

/// The attempts that ran beside one that survived its run.
#[derive(Debug)]
pub(crate) struct RecordedCoRunners {
    /// Attempts of the same run.
    pub(crate) attempts: BTreeSet<AttemptId>,
    /// Those of them on the same GPUs.
    pub(crate) near: BTreeSet<AttemptId>,
    /// The number of attempts of other runs; `unwatched` if some could not be seen.
    pub(crate) other_runs: u32,
    pub(crate) unwatched: bool,
}

/// Observations of an attempt from outside.
#[derive(Debug, Default)]
pub(crate) struct LocalObservation {
    pub(crate) samples: HostSamples,
    pub(crate) gpus: GpuSamples,
    /// Share of one CPU core that sampling took.
    pub(crate) cost: f64,
}

/// Observations that only the machine of an attempt can make.
#[derive(Debug)]
pub(crate) struct RemoteObservation {
    pub(crate) looks: Looks,
    /// When the node saw the barrier of its group open.
    pub(crate) released: Option<f64>,
    /// When the window of its group closed, if before its end and known.
    pub(crate) closed: Option<f64>,
}

/// The outcome that the executor determined because the program could not report one: a lost node, a time limit, a
/// cancelled job.
#[derive(Clone, Debug)]
pub(crate) struct OutcomeOverride {
    pub(crate) outcome: Outcome,
    /// Present if the outcome alone does not say it.
    pub(crate) cause: Option<Cause>,
    pub(crate) again: RetryAdvice,
}

/// Whether an attempt that ended like this should be retried.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RetryAdvice {
    /// As the step's `retries` says.
    AsConfigured,
    /// Its machine, GPU or job was lost.
    Lost,
    /// It was interrupted, and another attempt can continue from its checkpoint.
    Continues,
    /// It would end the same way again.
    Hopeless,
}

impl OutcomeOverride {
    pub(crate) fn is_time_limit(&self) -> bool {
        matches!(self.cause, Some(Cause::Batch { end: BatchEnd::TimeLimit { .. }, .. }))
    }
}

impl AttemptEnd {
    /// The end of a program on this machine.
    pub(crate) fn here(exit: Exit, seen: LocalObservation) -> AttemptEnd {
        AttemptEnd { exit, seen, there: None, instead: None, corunners: None }
    }
}

pub(crate) trait Executor {
    /// Starts the attempts of a gang together, in their filled folders. [`Event::Started`] or [`Event::SpawnFailed`]
    /// answers for each, and [`Event::Ended`] follows a start.
    ///
    /// # Errors
    /// Nothing can be started here any more.
    fn start(&mut self, gang: Vec<Work>) -> Result<(), ExecError>;

    /// Releases the barrier for an attempt; `at` in seconds since 1970.
    ///
    /// # Errors
    /// The attempt cannot be told, and would wait forever.
    fn release(&mut self, attempt: AttemptId, at: f64) -> io::Result<()>;

    /// Asks an attempt that runs only for its group to end by itself.
    ///
    /// # Errors
    /// The attempt cannot be told, and would run forever.
    fn stop(&mut self, attempt: AttemptId) -> io::Result<()>;

    /// Ends an attempt: asks, waits, kills. A second call with less grace shortens the wait; after the end it does
    /// nothing.
    fn kill(&mut self, attempt: AttemptId, grace: Duration);

    /// The run must end and a user waits: what cannot be reached is left to the next run. The kills follow.
    fn hurry(&mut self) {}

    /// The result of an attempt is recorded or dropped: later runs need nothing of it.
    fn settled(&mut self, _attempt: AttemptId) {}

    /// The process whose children the attempts are, if they run on this machine, for samplers outside of it.
    fn root(&self) -> Option<u32> {
        None
    }

    /// Its attempts use CPUs and memory of this machine, like those of other runs.
    fn shares_this_machine(&self) -> bool {
        false
    }

    /// Lends a descriptor that must stay open while any attempt started from now on may be alive. `place` is this run's
    /// slot in it.
    fn lend(&mut self, _life: OwnedFd, _place: u32) {}

    /// Lends the open lock files of the machine's GPUs. A lock is held as long as its file is open.
    fn lend_locks(&mut self, _locks: Vec<Option<OwnedFd>>) {}

    /// The next event. Dropping the future loses nothing.
    fn next_event(&mut self) -> impl Future<Output = Result<Event, ExecError>>;
}
