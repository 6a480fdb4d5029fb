//! The scheduler's vocabulary: tasks and events in, actions out. The live driver performs actions, the simulator predicts
//! them, tests compare them. Nothing here decides.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::others::PeerLoad;
use crate::{AttemptId, CorunGpus, Exclusive, GpuId, GroupId, InstanceId, Need, Outcome, ResourceRequest, Span, Time};

/// What the scheduler knows of an instance. By default it needs nothing, asks for nothing, and was there from the start.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Task {
    /// The instance. Tasks are submitted in order of id, without gaps.
    pub instance: InstanceId,
    /// What must be settled before.
    pub needs: Vec<Need>,
    /// What it holds while it runs.
    pub request: ResourceRequest,
    /// Alone on the machine or on its GPUs.
    pub exclusive: Exclusive,
    /// Its co-run group and where that runs.
    pub corun: Option<(GroupId, CorunGpus)>,
    /// As a member of a group it goes on until told to stop.
    pub continues: bool,
    /// Never packed with others on a GPU; repeated once when spoiled.
    pub measured: bool,
    /// A batch system runs it: it holds nothing here but a place in that system's queue, and its time counts from its start there.
    pub batch: bool,
    /// Outcomes that are results, not failures.
    pub record: Vec<Outcome>,
    /// Wall-clock limit of an attempt.
    pub timeout: Option<Span>,
    /// How often a failed attempt is tried again.
    pub retries: u32,
    /// Larger goes first, where the policy asks for it.
    pub priority: i64,
    /// Already settled before the run begins: `when` is false, it does not fit, or it is outside of the targets.
    pub settled: Option<Outcome>,
    pub estimate: Estimate,
    /// When it arrived; the start of the run for a workflow.
    pub submitted: Time,
}

/// What history says of a task, with where that comes from.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Estimate {
    /// Wall time.
    pub duration: Option<Span>,
    /// Nine of ten are expected between these.
    pub range: Option<(Span, Span)>,
    /// Of the wall time what is start-up and end: others on its GPUs do not slow it down.
    #[serde(default)]
    pub startup: Option<Span>,
    /// Peak memory on one GPU, bytes.
    pub gpu_memory: Option<u64>,
    /// CPU demand in thousandths of a core.
    pub cpu_milli: Option<u32>,
    /// Share of time in which it keeps its GPUs busy when alone, in thousandths.
    pub gpu_busy_milli: Option<u32>,
    /// Its epochs were timed while nothing disturbed it: beside others it shows what sharing a GPU costs.
    #[serde(default)]
    pub timed_alone: bool,
    /// Earlier attempts that this rests on; 0 for an unknown step.
    pub samples: u32,
    /// What it rests on.
    pub source: EstimateSource,
}

/// What an estimate rests on.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum EstimateSource {
    /// No attempt of its step ended well.
    #[default]
    NeverRan,
    /// Its step ran with another value of a parameter that it depends on, and that tells nothing.
    Otherwise(OtherParameter),
    /// Attempts of the instance, and of steps that do the same work; of another version of it than it is now.
    Instance {
        own: bool,
        steps: Vec<String>,
        #[serde(default)]
        changed: bool,
    },
    /// Attempts at other points of its step, which vary along these axes; some of another version of the step than it is now. So many more
    /// do not count, for others disturbed them.
    Points {
        axes: Vec<String>,
        distance: Distance,
        #[serde(default)]
        changed: bool,
        #[serde(default)]
        disturbed: u32,
    },
    /// Attempts of its step, whatever they were; too few of them give no interval. With the first axis on which none had its value.
    Step {
        interval: bool,
        #[serde(default)]
        never: Option<(String, serde_json::Value)>,
    },
    /// Nobody ran it: it is a job of a trace or of a mix.
    Given,
}

/// A parameter with the value that a step ran with, and the one that it has now.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct OtherParameter {
    pub name: String,
    pub was: serde_json::Value,
    pub is: serde_json::Value,
}

/// How far a point is from those that were measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Distance {
    Among,
    Beyond,
    FarBeyond,
}

/// What there is to give out.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Capacity {
    /// GPUs that flow may use.
    pub gpus: Vec<GpuState>,
    pub cpus: u32,
    /// Host memory, bytes.
    pub memory: u64,
    /// At most this many attempts at once (`-j`), if given.
    pub jobs: Option<u32>,
    /// At most this many attempts at once in the queue of a batch system.
    #[serde(default)]
    pub batch: u32,
}

/// How a run is to be scheduled, whatever the policy.
#[derive(Clone, Debug, PartialEq)]
pub struct Limits {
    /// `-k`: after a failure everything that does not depend on it goes on.
    pub keep_going: bool,
    /// How long an attempt may take to end when its time is up, or its group has failed.
    pub grace: Span,
    /// How long a task may be passed over before the resources it needs are held back for it; `None`: for ever.
    pub patience: Option<Span>,
    /// Running tasks may be taken off their GPUs and go on later. Nothing live can do that.
    pub preemption: bool,
    /// Which of the GPUs with room a task gets.
    pub placer: Placer,
    /// When several share a GPU, and the host's CPUs.
    pub sharing: Sharing,
}

/// When tasks that history knows share a GPU. A measured step never does.
#[derive(Clone, Debug, PartialEq)]
pub struct Sharing {
    /// Nobody may be predicted to take longer than this, alone taking 1.
    pub slowdown: f64,
    /// What is done at once must grow by this, a task alone counting 1.
    pub gain: f64,
    /// How far the CPU demand that history knows may go beyond the host's cores: a hard bound of 1 is worse than none.
    pub cpu: f64,
    /// The interference coefficient of each GPU ([`super::contention::Host::devices`]).
    pub devices: Vec<f64>,
    /// What that coefficient may yet turn out to be (`contention::hoped`), by GPU. Where it is given, one more task may join
    /// another on trial: if that would gain enough at this coefficient, and nobody were slowed down too much at the other one. A
    /// trial ends this; what is learned ([`Event::InterferenceLearned`]) may begin it anew. Empty: nothing is tried.
    pub trial: Vec<Option<f64>>,
    /// What the first took for what it does alone in 1, where it had a GPU with the second and nobody else: it counts instead
    /// of what is predicted. Either both of a pair are there or neither.
    pub pairs: BTreeMap<(InstanceId, InstanceId), f64>,
}

impl Default for Sharing {
    fn default() -> Self {
        let (devices, trial, pairs) = (Vec::new(), Vec::new(), BTreeMap::new());
        Sharing { slowdown: 2.0, gain: 0.25, cpu: 1.3, devices, trial, pairs }
    }
}

/// Which of the GPUs with room a task gets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Placer {
    /// The emptiest, wherever they are.
    #[default]
    Emptiest,
    /// Those of the first node, in order, that has enough; a task wider than a node gets whole free nodes, and the rest of
    /// its GPUs from the first that has enough.
    First {
        /// GPUs of a node.
        node: u32,
    },
    /// The same, but of the node that has least to spare.
    Best {
        /// GPUs of a node.
        node: u32,
    },
}

impl Limits {
    /// For a simulation: nothing is held back for the passed over, and preemption is possible.
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
            placer: Placer::Emptiest,
            sharing: Sharing::default(),
        }
    }
}

/// One GPU as it stands.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct GpuState {
    /// Total memory, bytes.
    pub memory: u64,
    /// Memory of processes that are not ours, bytes. All of it while another user's flow holds the lock of the GPU.
    pub strangers: u64,
    /// It answers. What was once seen dead may come back, but what then fits nowhere any more is given up at once.
    pub alive: bool,
}

/// What the world tells the scheduler. Events of one instant are delivered completions first, then arrivals.
#[derive(Clone, Debug, PartialEq)]
pub enum Event {
    /// Tasks arrived. The first call of a run; in simulations more follow. The members of a co-run group arrive together.
    Submitted(Vec<Task>),
    /// The answer to [`Action::LookUp`], for each of its instances. A group that does not hit as a whole runs as a whole.
    Answered { instance: InstanceId, answer: Answer },
    /// The process of an attempt exists.
    Started { attempt: AttemptId },
    /// It could not be started; counts as a failed attempt.
    SpawnFailed { attempt: AttemptId },
    /// Nothing was started: another run has taken up the same, or has done it since the store was asked. The whole unit gives its
    /// placement back and is looked up again; that answer may take until the other run is done.
    Elsewhere { attempt: AttemptId },
    /// It waits at the barrier.
    Ready { attempt: AttemptId },
    /// It has done all of its own work and goes on only for the others of its group.
    Sufficed { attempt: AttemptId },
    /// GPU memory of an attempt, as measured, bytes on each GPU of its placement.
    Sampled {
        attempt: AttemptId,
        /// In the placement's order.
        gpu_memory: Vec<u64>,
    },
    /// Its process tree is gone: its time limit counts no more, and nothing ends it from here on. It still holds its placement. A step
    /// that runs inside flow is in this state from its start.
    Collecting { attempt: AttemptId },
    /// Its placement is free. Its outputs may take long to collect, and nobody waits for that but the steps that read them. After
    /// [`Event::Collecting`].
    Freed { attempt: AttemptId },
    /// What it ran on was lost under it, which is no failure of its own: it is tried again at once, a few times. Before
    /// [`Event::Exited`].
    Lost { attempt: AttemptId },
    /// It was ended in the middle of its work and left what another attempt goes on from, which follows at once, however often. Before
    /// [`Event::Exited`].
    Continues { attempt: AttemptId },
    /// It failed in a way in which it would fail again: it is not tried again. Before [`Event::Exited`].
    Hopeless { attempt: AttemptId },
    /// Its process tree is gone and its outputs are collected.
    Exited {
        attempt: AttemptId,
        /// How it ended, outputs checked.
        outcome: Outcome,
        /// The measurement is not to be trusted.
        spoiled: bool,
    },
    /// The result of an instance is in the store, flushed: the answer to [`Action::Record`].
    Recorded { instance: InstanceId },
    /// More is known of an instance than when it arrived: what others of its kind took meanwhile.
    Learned {
        instance: InstanceId,
        /// What is known now.
        estimate: Estimate,
    },
    /// More is known of what it costs to share a GPU: these replace what [`Sharing`] had.
    InterferenceLearned {
        /// [`Sharing::devices`].
        devices: Vec<f64>,
        /// [`Sharing::trial`].
        trial: Vec<Option<f64>>,
    },
    /// GPUs came, went, or others took memory on them.
    Capacity(Capacity),
    /// What other runs of the machine hold and wait for changed.
    Others(PeerLoad),
    /// No new starts; running attempts get `grace` to end, and are killed then. A second one with no grace kills at once.
    Cancel {
        /// How long running attempts may take to end.
        grace: Span,
    },
    /// All events of this instant are in: due timers fire, then the policy decides, once. The only event that starts
    /// anything; due whenever [`super::Scheduler::next_wake`] is not later than now.
    Tick,
}

/// The answer of the store to a look-up.
#[derive(Clone, Debug, PartialEq)]
pub enum Answer {
    /// A result that may be reused, and how it had ended.
    Hit(Outcome),
    /// Nothing to reuse.
    Miss,
    /// Nothing to reuse, but an attempt of it goes on since an earlier run, or has ended and was not taken in. It is joined at once: what
    /// it holds of the machine it holds already, in that run's name, and nothing of it is in this one's books.
    GoesOn,
    /// It was planned, and is not needed any more: who needs it goes on without.
    NotNeeded,
    /// It cannot run: an expression reads an output that is not there, an input is missing. Settled with this outcome.
    Refused(Outcome),
}

/// What the scheduler wants done.
#[derive(Clone, Debug, PartialEq)]
pub enum Action {
    /// Everything that these instances need is settled: fingerprint them and look for results. More than one: a co-run
    /// group, looked up as one.
    LookUp { instances: Vec<InstanceId> },
    /// Start an attempt. All starts of one `handle` belong to one instant.
    Start {
        /// Its identity from now on.
        attempt: AttemptId,
        instance: InstanceId,
        placement: Placement,
    },
    /// Every member of a group is ready: write `go` for all.
    Release { attempts: Vec<AttemptId> },
    /// Every member has its epochs: write `stop` for those that go on.
    Stop { attempts: Vec<AttemptId> },
    /// It loses its placement at once and keeps its progress; a later start of the same instance goes on from there.
    /// Only where [`Limits::preemption`] allows it: in simulations.
    Preempt {
        /// The attempt. No event about it counts any more.
        attempt: AttemptId,
    },
    /// End it: ask, wait, kill. Said again with less grace when patience ends; the latest counts.
    Kill {
        attempt: AttemptId,
        /// How long it may take.
        grace: Span,
        /// Why: the outcome it will have.
        outcome: Outcome,
    },
    /// The attempt just ended is the instance's last: store its result, flush, answer [`Event::Recorded`].
    Record { instance: InstanceId, attempt: AttemptId },
    /// The attempt just ended will be followed by another: drop what it left.
    Discard {
        instance: InstanceId,
        attempt: AttemptId,
        /// When the next one may start.
        retry_at: Time,
    },
    /// The instance is settled, and no attempt of it goes on.
    Settle {
        instance: InstanceId,
        /// `Skipped`: something it needs did not succeed. `Cancelled`: the run was, or it ends because of a failure
        /// elsewhere. `DoesNotFit`: it asks for more than there is. `Failed`: it did fit, until a GPU was lost.
        outcome: Outcome,
        /// The instance that is to blame, if one is: the failure itself, not what was skipped between.
        because: Option<InstanceId>,
    },
    /// Everything is settled. The last action, unless more tasks arrive.
    Finish,
}

/// What an attempt holds from its start until its exit.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Placement {
    /// GPUs, ascending.
    pub gpus: Vec<GpuId>,
    pub cpus: u32,
    /// GPU memory reserved on each of them, bytes.
    pub gpu_memory: u64,
    /// Host memory reserved, bytes.
    pub memory: u64,
    /// It shares its GPUs to show what that costs, not because it is known to pay.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub trial: bool,
}
