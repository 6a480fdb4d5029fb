//! The seam between the loop and what executes attempts: processes on this machine, jobs of a batch system, a fake in tests.
//! Above it nobody knows where a program runs; below it nobody knows a workflow.
//!
//! What comes from below may come late, twice, or out of order, and a start may go untold; only an end is told for every
//! attempt that was started, sooner or later. The loop takes each event for what it still says.

use std::{collections::BTreeSet, io, os::fd::OwnedFd, time::Duration};

use flow_core::{
    AttemptId, Exclusive, Outcome, SlurmJob, Span,
    measure::{GpuSamples, HostSamples, Known, Looks},
    reason::{BatchEnd, Cause, Fault},
    sched::Holding,
};
use flow_protocol::Exit;

use flow_store::Queued;

use super::intents::Intent;
use crate::{ExecError, keeper, node::NodeFacts};

/// An attempt to execute.
pub(crate) struct Work {
    pub(crate) program: keeper::Start,
    /// What a batch system is asked for; without it the attempt runs on this machine.
    pub(crate) job: Option<BatchWork>,
    /// It is on this machine, and goes on when this run dies, or does so since an earlier one did.
    pub(crate) stays: Option<DetachedAttempt>,
}

/// An attempt on this machine that outlives its run.
pub(crate) struct DetachedAttempt {
    /// The record to write for its unit if this run dies; for an adopted attempt, the one that the earlier run wrote.
    pub(crate) intent: Intent,
    /// It was begun by an earlier run.
    pub(crate) joined: bool,
    /// Its GPUs, by their number among the machine's.
    pub(crate) cards: Vec<usize>,
    pub(crate) timeout: Option<Span>,
    pub(crate) holds: Holding,
}

/// What a batch system is asked for, for one attempt.
pub(crate) struct BatchWork {
    pub(crate) label: String,
    pub(crate) gpus: u32,
    pub(crate) cpus: u32,
    pub(crate) memory: Option<u64>,
    pub(crate) timeout: Option<Span>,
    /// The longest that it may ask for where it goes, as far as that is known.
    pub(crate) longest: Option<Duration>,
    pub(crate) exclusive: Exclusive,
    /// By how much its `priority` is below the highest in the workflow.
    pub(crate) nice: u32,
    /// All of a group have the same GPUs.
    pub(crate) shares_gpus: bool,
    pub(crate) slurm: SlurmJob,
    /// The model of its GPUs, as declared or as all of the cluster's are, for where a node cannot tell.
    pub(crate) gpu_model: Option<String>,
    /// What is written down before it is asked for anything; of an attempt that goes on since an earlier run, what that one wrote.
    pub(crate) intent: Intent,
    /// It was begun by an earlier run.
    pub(crate) joined: bool,
}

/// What an executor tells of an attempt.
#[derive(Debug)]
pub(crate) enum Event {
    /// The program runs: here, or on a node.
    Started { attempt: AttemptId, node: Option<Box<NodeFacts>> },
    /// The program could not be started. No [`Event::Ended`] follows.
    SpawnFailed { attempt: AttemptId, reason: Fault },
    /// Nothing of the attempt is alive any more.
    Ended { attempt: AttemptId, end: Box<Ended> },
    /// It waits in a queue elsewhere; or does not any more.
    Waits { attempt: AttemptId, queued: Option<Queued> },
    /// Something that people should know, of no attempt.
    Notice(String),
}

/// How an attempt ended, and what was seen of it.
#[derive(Debug)]
pub(crate) struct Ended {
    pub(crate) exit: Exit,
    /// Of the machine that it ran on, where that is who executes.
    pub(crate) seen: Observed,
    /// What was seen where it ran, by the clock of that machine.
    pub(crate) there: Option<RemoteObservation>,
    /// What it came to, where the program itself has nothing to say.
    pub(crate) instead: Option<OutcomeOverride>,
    /// Who ran beside it, where only who kept it knows.
    pub(crate) beside: Option<RecordedCoRunners>,
}

/// Who ran beside an attempt that outlived its run.
#[derive(Debug)]
pub(crate) struct RecordedCoRunners {
    /// Attempts of its run.
    pub(crate) attempts: BTreeSet<AttemptId>,
    /// Those of them that were on its GPUs.
    pub(crate) near: BTreeSet<AttemptId>,
    /// So many of other runs, or some that nobody could see.
    pub(crate) elsewhere: u32,
    pub(crate) unwatched: bool,
}

/// What was seen of an attempt from outside.
#[derive(Debug, Default)]
pub(crate) struct Observed {
    pub(crate) samples: HostSamples,
    pub(crate) gpus: GpuSamples,
    /// Share of one core that seeing it took.
    pub(crate) cost: f64,
}

/// What only the machine can see on which an attempt runs.
#[derive(Debug)]
pub(crate) struct RemoteObservation {
    pub(crate) looks: Looks,
    /// When the barrier of its group was seen to be open.
    pub(crate) released: Option<f64>,
    /// When the window of its group was closed, where that was before its end and is known.
    pub(crate) closed: Option<f64>,
}

/// The outcome that the executor determined because the program could not report one: a lost node, a time limit, a
/// cancelled job.
#[derive(Clone, Debug)]
pub(crate) struct OutcomeOverride {
    pub(crate) outcome: Outcome,
    /// Where the outcome does not say it.
    pub(crate) cause: Option<Cause>,
    pub(crate) again: RetryAdvice,
}

/// Whether an attempt that ended like this should be retried.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RetryAdvice {
    /// As the step's `retries` says.
    AsAsked,
    /// What it ran on was lost.
    Lost,
    /// It was ended in the middle, and left what another goes on from.
    Continues,
    /// It would end so again.
    Hopeless,
}

impl OutcomeOverride {
    pub(crate) fn is_time_limit(&self) -> bool {
        matches!(self.cause, Some(Cause::Batch { end: BatchEnd::TimeLimit { .. }, .. }))
    }
}

impl Ended {
    /// Of a program of this machine.
    pub(crate) fn here(exit: Exit, seen: Observed) -> Ended {
        Ended { exit, seen, there: None, instead: None, beside: None }
    }
}

pub(crate) trait Executor {
    /// Starts the attempts of a unit, which begin together, in their folders, which are filled. [`Event::Started`] or
    /// [`Event::SpawnFailed`] answers for each, and [`Event::Ended`] follows.
    ///
    /// # Errors
    /// Nothing can be started here any more.
    fn start(&mut self, unit: Vec<Work>) -> Result<(), ExecError>;

    /// Releases the barrier for an attempt; `at` in seconds since 1970.
    ///
    /// # Errors
    /// It cannot be told, and would wait for ever.
    fn release(&mut self, attempt: AttemptId, at: f64) -> io::Result<()>;

    /// Asks an attempt that goes on for others to end by itself.
    ///
    /// # Errors
    /// It cannot be told, and would go on for ever.
    fn stop(&mut self, attempt: AttemptId) -> io::Result<()>;

    /// Ends an attempt: asks, waits, kills. Said again with less grace it hurries; of one that has ended it means nothing.
    fn kill(&mut self, attempt: AttemptId, grace: Duration);

    /// The run is to end, and somebody waits for that: what cannot be reached is left to the run that comes after it. The kills follow.
    fn hurry(&mut self) {}

    /// What is new of an attempt that runs here, and the share of one core that seeing it takes.
    fn new_samples(&self, _attempt: AttemptId, _known: &mut Known) -> (Option<(usize, HostSamples)>, f64) {
        (None, 0.0)
    }

    /// What came of an attempt is safe, or dropped: nothing of it is needed any more by whoever comes after this run.
    fn settled(&mut self, _attempt: AttemptId) {}

    /// The process whose children the attempts are, where they run on this machine: for who measures them from outside.
    fn root(&self) -> Option<u32>;

    /// What it executes takes CPUs and memory of this machine, beside those of other runs.
    fn shares_this_machine(&self) -> bool {
        false
    }

    /// A descriptor that is to stay open as long as anything of what is started from here on can be alive.
    /// `place` tells this run's part of it.
    fn lend(&mut self, _life: OwnedFd, _place: u32) {}

    /// The open files of the locks of the machine's GPUs, which are held by whoever has them open.
    fn lend_locks(&mut self, _locks: Vec<Option<OwnedFd>>) {}

    /// The next event. Nothing is lost when the future is dropped.
    fn next_event(&mut self) -> impl Future<Output = Result<Event, ExecError>>;
}
