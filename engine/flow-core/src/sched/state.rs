//! The states of an instance, the one function that changes them, and all derived data: the queue, the running
//! attempts, the timers, the count of unsettled instances. Knows no event and no policy.

use std::collections::{BTreeMap, BTreeSet};

use super::api::{Answer, Capacity, Limits, Task};
use super::demand::Demand;
use super::resources::{Feasibility, PlacementFacts};
use crate::{AttemptId, CorunGpus, GroupId, InstanceId, Outcome, Span, Time};

/// Resources held back for a gang that could not start.
#[derive(Clone, Debug)]
pub(super) struct Reservation {
    pub(super) gang: InstanceId,
    /// Its expected start. `None`: when everything that ran before the reservation has ended.
    pub(super) at: Option<Time>,
    /// The first attempt that started after the reservation was made.
    pub(super) since: AttemptId,
}

/// State of an instance.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum TaskState {
    /// One of its needs is unsettled.
    #[default]
    Pending,
    /// The store was asked for a result.
    LookingUp,
    /// It may start.
    Waiting {
        since: Time,
    },
    /// It failed and is retried later.
    Paused {
        until: Time,
    },
    Running {
        attempt: AttemptId,
    },
    /// Its attempt ended; others of its group still run.
    Ended {
        attempt: AttemptId,
        outcome: Outcome,
        disturbed: bool,
    },
    /// Its last attempt ended and is being stored.
    Recording {
        outcome: Outcome,
    },
    /// Final.
    Settled {
        outcome: Outcome,
        fine: bool,
        because: Option<InstanceId>,
    },
}

impl TaskState {
    fn may_become(self, next: TaskState) -> bool {
        use TaskState::*;
        match (self, next) {
            (Pending, LookingUp | Settled { .. })
            | (LookingUp, Waiting { .. } | Settled { .. })
            | (Waiting { .. }, Running { .. } | Settled { .. })
            | (Paused { .. }, Waiting { .. } | Settled { .. })
            | (Recording { .. }, Settled { .. }) => true,
            // It was not started after all: another run does the same work.
            (Running { .. }, LookingUp) => true,
            // Back to waiting, without a retry: a disturbed measurement, an attempt that resumes, a lost GPU.
            (Running { .. }, Ended { .. } | Recording { .. } | Paused { .. } | Waiting { .. })
            | (Ended { .. }, Recording { .. } | Paused { .. } | Waiting { .. }) => true,
            _ => false,
        }
    }
}

/// An instance and its bookkeeping.
#[derive(Clone, Debug, Default)]
pub(super) struct Node {
    pub(super) task: Task,
    pub(super) demand: Demand,
    pub(super) state: TaskState,
    /// The first instance of its group, or itself. A gang is started, retried and settled as one.
    pub(super) gang: InstanceId,
    /// Needs that are not settled yet.
    pub(super) unmet: u32,
    /// Its dependents, and whether each needs it as a member of a list. Emptied when it settles.
    pub(super) dependents: Vec<(InstanceId, bool)>,
    /// Time run before it was last preempted.
    pub(super) attained: Span,
    // Fields of a gang, kept at its first instance:
    /// Members with unmet needs.
    pub(super) open: u32,
    pub(super) failures: u32,
    /// A GPU was lost during the attempts that end now.
    pub(super) lost: bool,
    /// Restarts because of lost GPUs.
    pub(super) losses: u32,
    /// It left a checkpoint for its next attempt, in the attempts that end now.
    pub(super) continues: bool,
    /// It was repeated because a measurement was disturbed.
    pub(super) repeated: bool,
    /// It ran out of memory next to others, and has had its GPUs alone since.
    pub(super) alone_since: bool,
    pub(super) retry_alone: bool,
    /// Its attempt from an earlier run still runs, and is joined.
    pub(super) is_joined: bool,
    /// Its place in the queue, if it is queued.
    pub(super) key: Option<Key>,
}

/// Members that start, are retried and are settled as one.
#[derive(Clone, Debug)]
pub(super) struct Group {
    pub(super) mode: CorunGpus,
    /// In order of id; the first is the gang.
    pub(super) members: Vec<InstanceId>,
    /// Answers of the store, until all have arrived.
    pub(super) answers: BTreeMap<InstanceId, Answer>,
    pub(super) window: Window,
}

/// The co-run window of a group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Window {
    /// Not all members are ready.
    Ahead,
    /// Released, and no member has ended.
    Open,
    /// A member ended.
    Over,
}

#[derive(Clone, Debug, Default)]
pub(super) struct RunningAttempt {
    pub(super) instance: InstanceId,
    pub(super) since: Time,
    /// Another attempt shared its GPUs at some time.
    pub(super) shared: bool,
    pub(super) deadline: Option<Time>,
    pub(super) ready: bool,
    pub(super) sufficed: bool,
    /// Told to stop running for the other members.
    pub(super) stopped: bool,
    /// Told to end, with this outcome.
    pub(super) killed: Option<Outcome>,
    /// Its processes are gone; its outputs are being collected.
    pub(super) collecting: bool,
    /// It has released its placement; facts about it.
    pub(super) freed: Option<PlacementFacts>,
}

impl RunningAttempt {
    /// It was not told to end, and has not ended.
    pub(super) fn is_running(&self) -> bool {
        self.killed.is_none() && !self.collecting
    }

    pub(super) fn is_at_barrier(&self) -> bool {
        self.ready && self.is_running()
    }
}

/// Why nothing new starts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum EndReason {
    #[default]
    No,
    Failed(InstanceId),
    Cancelled,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Timer {
    Deadline(AttemptId),
    Retry(InstanceId),
}

/// Order in the queue: the policy's rank, then time of arrival, then id.
pub type Key = (i64, Time, InstanceId);

/// Gangs that fit or do not fit alike.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Class {
    Alike(Demand),
    Group(InstanceId),
}

/// Gangs that may start, in order, and by class, so that checking one of each class is enough.
#[derive(Clone, Debug, Default)]
pub(super) struct Queue {
    pub(super) order: BTreeSet<Key>,
    pub(super) classes: BTreeMap<Class, BTreeSet<Key>>,
}

impl Queue {
    fn insert(&mut self, class: Class, key: Key) {
        self.order.insert(key);
        self.classes.entry(class).or_default().insert(key);
    }

    fn remove(&mut self, class: Class, key: Key) {
        self.order.remove(&key);
        if let Some(alike) = self.classes.get_mut(&class) {
            alike.remove(&key);
            if alike.is_empty() {
                self.classes.remove(&class);
            }
        }
    }
}

/// Everything the scheduler knows, without the policy.
#[derive(Clone, Debug, Default)]
pub(super) struct Core {
    pub(super) now: Time,
    pub(super) limits: Limits,
    pub(super) capacity: Capacity,
    pub(super) nodes: Vec<Node>,
    pub(super) groups: BTreeMap<InstanceId, Group>,
    pub(super) group_gangs: BTreeMap<GroupId, InstanceId>,
    pub(super) queue: Queue,
    /// Gangs that began to wait since the last decision. The policy ranks them in the next one.
    pub(super) fresh: Vec<InstanceId>,
    /// Gangs whose needs are settled, to be looked up.
    pub(super) to_look_up: Vec<InstanceId>,
    pub(super) live: BTreeMap<AttemptId, RunningAttempt>,
    pub(super) next_attempt: u32,
    pub(super) timers: BTreeSet<(Time, Timer)>,
    pub(super) feasibility: Feasibility,
    pub(super) reservation: Option<Reservation>,
    /// Gangs to be joined with the next decision.
    pub(super) to_join: Vec<InstanceId>,
    /// The first gang that other runs on the machine keep from starting, and since when.
    pub(super) held_up: Option<(InstanceId, Time)>,
    pub(super) unsettled: usize,
    pub(super) ending: EndReason,
    /// Something changed that requires a decision.
    pub(super) dirty: bool,
    pub(super) finished: bool,
    /// Internal errors.
    pub(super) faults: Vec<String>,
}

impl Core {
    pub(super) fn new(capacity: Capacity, limits: Limits) -> Self {
        Core {
            feasibility: Feasibility::new(&capacity, &limits),
            limits,
            capacity,
            // Nothing has arrived yet that could finish.
            finished: true,
            ..Core::default()
        }
    }

    pub(super) fn node(&self, id: InstanceId) -> &Node {
        &self.nodes[id.index()]
    }

    pub(super) fn node_mut(&mut self, id: InstanceId) -> &mut Node {
        &mut self.nodes[id.index()]
    }

    /// The group of a gang, if it is one.
    pub(super) fn group(&self, gang: InstanceId) -> Option<&Group> {
        self.node(gang).task.corun.and_then(|_| self.groups.get(&gang))
    }

    /// All instances that start together with this gang, itself first.
    pub(super) fn members(&self, gang: InstanceId) -> &[InstanceId] {
        match self.group(gang) {
            Some(group) => &group.members,
            None => std::slice::from_ref(&self.node(gang).task.instance),
        }
    }

    pub(super) fn class(&self, gang: InstanceId) -> Class {
        match self.group(gang) {
            Some(_) => Class::Group(gang),
            None => Class::Alike(self.node(gang).demand),
        }
    }

    /// Puts a gang that began to wait into the queue, with the policy's rank.
    pub(super) fn enqueue(&mut self, gang: InstanceId, rank: i64) {
        let class = self.class(gang);
        let node = self.node_mut(gang);
        let key = (rank, node.task.submitted, gang);
        node.key = Some(key);
        self.queue.insert(class, key);
    }

    /// Removes a gang from the queue. Returns whether it was queued.
    pub(super) fn leave_queue(&mut self, gang: InstanceId) -> bool {
        let Some(key) = self.node_mut(gang).key.take() else { return false };
        let class = self.class(gang);
        self.queue.remove(class, key);
        true
    }

    /// The one function that changes a state, with everything derived from it.
    pub(super) fn set(&mut self, id: InstanceId, to: TaskState) -> bool {
        let from = self.node(id).state;
        if !from.may_become(to) {
            self.faults.push(format!("instance {} cannot go from {from:?} to {to:?}", id.0));
            return false;
        }
        let gang = self.node(id).gang;
        match from {
            TaskState::Waiting { .. } => {
                self.leave_queue(id);
            }
            TaskState::Paused { until } => {
                self.timers.remove(&(until, Timer::Retry(gang)));
            }
            TaskState::Running { attempt } => {
                self.feasibility.now.release(attempt);
                if let Some(deadline) = self.live.remove(&attempt).and_then(|live| live.deadline) {
                    self.timers.remove(&(deadline, Timer::Deadline(attempt)));
                }
                self.dirty = true;
            }
            _ => {}
        }
        match to {
            TaskState::Waiting { .. } => {
                if id == gang {
                    self.fresh.push(gang);
                }
                self.dirty = true;
            }
            TaskState::Paused { until } => {
                self.timers.insert((until, Timer::Retry(gang)));
            }
            TaskState::Settled { .. } => self.unsettled -= 1,
            _ => {}
        }
        self.node_mut(id).state = to;
        true
    }
}
