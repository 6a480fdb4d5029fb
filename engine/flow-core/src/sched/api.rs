//! The scheduler's vocabulary: tasks and events in, actions out. The live driver performs actions, the simulator
//! predicts them, tests compare them. This module decides nothing.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::others::PeerLoad;
use crate::{
    AttemptId, CorunGpus, Exclusive, GpuId, GroupId, InstanceId, Need, Outcome, ResourceRequest, Span, StepId, Time,
};

/// An instance as the scheduler sees it. By default it needs nothing, requests nothing, and arrived at time 0.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Task {
    /// The instance. Tasks are submitted in order of id, without gaps.
    pub instance: InstanceId,
    /// Instances that must be settled first.
    pub needs: Vec<Need>,
    /// Resources that it holds while it runs.
    pub request: ResourceRequest,
    /// Whether it runs alone on the machine or on its GPUs.
    pub exclusive: Exclusive,
    /// Its co-run group and the GPUs of that group.
    pub corun: Option<(GroupId, CorunGpus)>,
    /// As a member of a group it keeps running until told to stop.
    pub continues: bool,
    /// Never packed with others on a GPU; repeated once if its measurement was disturbed.
    pub measured: bool,
    /// A batch system runs it. It holds only a place in that system's queue, and its time counts from its start there.
    pub batch: bool,
    /// Outcomes that are results, not failures.
    pub record: Vec<Outcome>,
    /// Wall-clock limit of an attempt.
    pub timeout: Option<Span>,
    /// Maximum number of retries after a failed attempt.
    pub retries: u32,
    /// Larger goes first, if the policy uses it.
    pub priority: i64,
    /// Its step and its round: its repetition, if the step is repeated.
    pub repetition: Option<(StepId, u32)>,
    /// Its outcome if it is settled before the run begins: `when` is false, it does not fit, or it is not a target.
    pub settled: Option<Outcome>,
    pub estimate: Estimate,
    /// When it arrived; the start of the run for a workflow.
    pub submitted: Time,
}

/// Predictions for a task from history, and their source.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Estimate {
    /// Wall time.
    pub duration: Option<Span>,
    /// 90% prediction interval of the wall time.
    pub range: Option<(Span, Span)>,
    /// The part of the wall time that is start-up and end. Others on its GPUs do not slow it down.
    pub startup: Option<Span>,
    /// Peak memory on one GPU, bytes.
    pub gpu_memory: Option<u64>,
    /// CPU demand in thousandths of a core.
    pub cpu_milli: Option<u32>,
    /// Share of time in which it keeps its GPUs busy when alone, in thousandths.
    pub gpu_busy_milli: Option<u32>,
    /// Its epochs were timed while nothing disturbed it, so it can show the cost of sharing a GPU.
    pub timed_alone: bool,
    /// Number of earlier attempts that the estimate uses; 0 for an unknown step.
    pub samples: u32,
    /// The attempts that the estimate uses.
    pub source: EstimateSource,
}

/// The attempts that an estimate uses.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum EstimateSource {
    /// No attempt of its step ended successfully.
    #[default]
    NeverRan,
    /// Its step ran with another value of a parameter that it depends on, which allows no prediction.
    Otherwise(OtherParameter),
    /// Attempts of the instance (`own`) and of `steps` that do the same work. `changed`: another version of its step.
    Instance { own: bool, steps: Vec<String>, changed: bool },
    /// Attempts at other points of its step, which vary along these axes. `changed`: some are of another version of the
    /// step. `outdated`: all are. `disturbed`: the number of attempts that do not count because others disturbed them.
    Points { axes: Vec<String>, distance: Distance, changed: bool, outdated: bool, disturbed: u32 },
    /// All attempts of its step; if too few, without an interval. `unseen`: the first axis on which its value never ran.
    Step { interval: bool, unseen: Option<(String, serde_json::Value)> },
    /// Not from attempts: it is a job of a trace or of a mix.
    Given,
}

/// A parameter, the value that a step ran with, and its present value.
#[derive(Clone, Debug, PartialEq)]
pub struct OtherParameter {
    pub name: String,
    pub was: serde_json::Value,
    pub is: serde_json::Value,
}

/// Distance of a point from the measured points.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Distance {
    Among,
    Beyond,
    FarBeyond,
}

/// The resources of a run.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Capacity {
    /// GPUs that flow may use.
    pub gpus: Vec<GpuState>,
    pub cpus: u32,
    /// Host memory, bytes.
    pub memory: u64,
    /// At most this many attempts at once (`-j`), if given.
    pub jobs: Option<u32>,
    /// At most this many attempts at once in the queue of a batch system.
    pub batch: u32,
}

/// Scheduling rules that hold for every policy.
#[derive(Clone, Debug, PartialEq)]
pub struct Limits {
    /// `-k`: after a failure, everything that does not depend on it continues.
    pub keep_going: bool,
    /// How long an attempt may take to end after its time limit, or after a failure in its group.
    pub grace: Span,
    /// How long a task may be passed over before its resources are held back for it. `None`: forever.
    pub patience: Option<Span>,
    /// Whether running tasks may be preempted and resumed later. No live run can do that.
    pub preemption: bool,
    /// When tasks share a GPU, and how far they may overcommit the host's CPUs.
    pub sharing: Sharing,
}

/// When tasks with a known history share a GPU. A measured step never does.
#[derive(Clone, Debug, PartialEq)]
pub struct Sharing {
    /// Maximum predicted slowdown of any task, relative to its time alone.
    pub slowdown: f64,
    /// Minimum gain in total throughput, in units of one task that runs alone.
    pub gain: f64,
    /// CPU demand known from history may reach this multiple of the host's cores. A hard bound of 1 is worse than no
    /// bound.
    pub cpu: f64,
    /// The interference coefficient of each GPU ([`super::contention::Host::devices`]).
    pub devices: Vec<f64>,
    /// Optimistic interference coefficient (`contention::hoped`), by GPU. If present, one task may join another on
    /// trial: it must gain enough at this coefficient, and slow down no task too much at the one in `devices`. A trial
    /// clears this; [`Event::InterferenceLearned`] may set it again. Empty: no trials.
    pub trial: Vec<Option<f64>>,
    /// Measured slowdown of the first while only the second shared its GPU. It replaces the prediction. Both orders of
    /// a pair are present, or neither.
    pub pairs: BTreeMap<(InstanceId, InstanceId), f64>,
}

impl Default for Sharing {
    fn default() -> Self {
        let (devices, trial, pairs) = (Vec::new(), Vec::new(), BTreeMap::new());
        Sharing { slowdown: 2.0, gain: 0.25, cpu: 1.3, devices, trial, pairs }
    }
}

impl Limits {
    /// For a simulation: nothing is held back for passed-over tasks, and preemption is possible.
    pub fn simulated() -> Self {
        Limits { patience: None, preemption: true, ..Limits::default() }
    }
}

impl Default for Limits {
    /// For a live run.
    fn default() -> Self {
        Limits {
            keep_going: false,
            grace: Span::from_millis(10_000),
            patience: Some(Span::from_millis(120_000)),
            preemption: false,
            sharing: Sharing::default(),
        }
    }
}

/// Present state of one GPU.
#[derive(Clone, Debug, PartialEq)]
pub struct GpuState {
    /// Total memory, bytes.
    pub memory: u64,
    /// Memory of foreign processes, bytes. All of it while another user's flow holds the GPU's lock.
    pub foreign: u64,
    /// It responds. A dead GPU may come back, but flow gives up at once on tasks that can no longer fit.
    pub alive: bool,
}

/// Input of the scheduler. Within an instant, completions are delivered before arrivals.
#[derive(Clone, Debug, PartialEq)]
pub enum Event {
    /// Tasks arrived. The first call of a run; only simulations send more. Members of a co-run group arrive together.
    Submitted(Vec<Task>),
    /// The answer to [`Action::LookUp`], for each of its instances. If one member of a group misses, all of them run.
    Answered { instance: InstanceId, answer: Answer },
    /// The process of an attempt exists.
    Started { attempt: AttemptId },
    /// It could not be started; counts as a failed attempt.
    SpawnFailed { attempt: AttemptId },
    /// Nothing was started: another run does the same work, or finished it after the lookup. The gang frees its
    /// placement and is looked up again; that answer may take until the other run is done.
    Deferred { attempt: AttemptId },
    /// It waits at the barrier.
    Ready { attempt: AttemptId },
    /// It has done its own work and keeps running only for the others of its group.
    Sufficed { attempt: AttemptId },
    /// Measured GPU memory of an attempt, bytes on each GPU of its placement.
    Sampled {
        attempt: AttemptId,
        /// In the placement's order.
        gpu_memory: Vec<u64>,
    },
    /// Its process tree is gone: its time limit no longer applies and it is never killed. It still holds its placement.
    /// A step that runs inside flow is in this state from its start.
    Collecting { attempt: AttemptId },
    /// Its placement is free. Collecting its outputs may take long; only steps that read them wait for it. After
    /// [`Event::Collecting`].
    Freed { attempt: AttemptId },
    /// Its node or batch job was lost, which is not the step's own failure. It is retried at once, a few times. Before
    /// [`Event::Exited`].
    Lost { attempt: AttemptId },
    /// It was interrupted and left a checkpoint. Another attempt resumes from it at once, without a limit. Before
    /// [`Event::Exited`].
    Continues { attempt: AttemptId },
    /// It would fail again in the same way, so it is not retried. Before [`Event::Exited`].
    Hopeless { attempt: AttemptId },
    /// Its process tree is gone and its outputs are collected.
    Exited {
        attempt: AttemptId,
        /// Its outcome, after the check of its outputs.
        outcome: Outcome,
        /// The measurement was disturbed.
        disturbed: bool,
    },
    /// The instance's result is in the store and flushed: the answer to [`Action::Record`].
    Recorded { instance: InstanceId },
    /// A new estimate for an instance, from attempts that ended after it arrived.
    Learned {
        instance: InstanceId,
        /// The new estimate.
        estimate: Estimate,
    },
    /// New interference coefficients. They replace those in [`Sharing`].
    InterferenceLearned {
        /// [`Sharing::devices`].
        devices: Vec<f64>,
        /// [`Sharing::trial`].
        trial: Vec<Option<f64>>,
    },
    /// GPUs came or went, or foreign processes took memory on them.
    Capacity(Capacity),
    /// The holdings or requests of other runs on the machine changed.
    Others(PeerLoad),
    /// No new starts. Running attempts are killed after `grace`. A second one without grace kills at once.
    Cancel {
        /// How long running attempts may take to end.
        grace: Span,
    },
    /// All events of this instant are in: due timers fire, then the policy decides, once. No other event starts
    /// anything. Due whenever [`super::Scheduler::next_wake`] is not later than now.
    Tick,
}

/// The store's answer to a lookup.
#[derive(Clone, Debug, PartialEq)]
pub enum Answer {
    /// A reusable result, with its outcome.
    Hit(Outcome),
    /// No reusable result.
    Miss,
    /// No reusable result, but an attempt from an earlier run still runs, or ended without being collected. It is
    /// joined at once. The earlier run already holds its resources, so this run accounts for none.
    Orphaned,
    /// It was planned but is no longer needed. Its dependents continue without it.
    NotNeeded,
    /// It cannot run: an expression reads a missing output, or an input is missing. Settled with this outcome.
    Refused(Outcome),
}

/// A request of the scheduler to its driver.
#[derive(Clone, Debug, PartialEq)]
pub enum Action {
    /// All needs of these instances are settled: compute their fingerprints and look for results. Several instances are
    /// a co-run group, looked up as one.
    LookUp { instances: Vec<InstanceId> },
    /// Start an attempt. All starts of one `handle` belong to one instant.
    Start {
        /// Its id from now on.
        attempt: AttemptId,
        instance: InstanceId,
        placement: Placement,
    },
    /// Every member of a group is ready: write `go` for all.
    Release { attempts: Vec<AttemptId> },
    /// Every member has its epochs: write `stop` for those that still run.
    Stop { attempts: Vec<AttemptId> },
    /// The attempt loses its placement at once and keeps its progress; a later start of the instance resumes from
    /// there. Only with [`Limits::preemption`], in simulations.
    Preempt {
        /// Further events about this attempt are ignored.
        attempt: AttemptId,
    },
    /// End it: ask, wait, kill. A repeated kill with a shorter grace replaces the earlier one.
    Kill {
        attempt: AttemptId,
        /// Time to end before it is killed.
        grace: Span,
        /// The outcome that it will have.
        outcome: Outcome,
    },
    /// The attempt that just ended is the instance's last: store its result, flush, answer [`Event::Recorded`].
    Record { instance: InstanceId, attempt: AttemptId },
    /// Another attempt will follow the one that just ended: drop its outputs.
    Discard {
        instance: InstanceId,
        attempt: AttemptId,
        /// When the next one may start.
        retry_at: Time,
    },
    /// The instance is settled, and none of its attempts runs.
    Settle {
        instance: InstanceId,
        /// `Skipped`: an instance that it needs did not succeed. `Cancelled`: the run was cancelled, or ends because of
        /// another failure. `DoesNotFit`: it requests more than exists. `Failed`: it did fit, until a GPU was lost.
        outcome: Outcome,
        /// The instance that caused it, if any: the failed one, not a skipped one in between.
        because: Option<InstanceId>,
    },
    /// Everything is settled. The last action, unless more tasks arrive.
    Finish,
}

/// Resources that an attempt holds from its start until its exit.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Placement {
    /// GPUs, ascending.
    pub gpus: Vec<GpuId>,
    pub cpus: u32,
    /// GPU memory reserved on each of them, bytes.
    pub gpu_memory: u64,
    /// Host memory reserved, bytes.
    pub memory: u64,
    /// It shares its GPUs to measure the cost, not because sharing is known to pay.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub trial: bool,
}
