//! The result of a simulation: all attempts with time and place, the outcome of each instance, and every action in
//! order.

use flow_core::sched::{Action, Placement};
use flow_core::{AttemptId, InstanceId, Outcome, Time};

use crate::QueueStats;

#[derive(Clone, Debug, Default, PartialEq)]
pub struct Schedule {
    /// Attempts in the order of their start. A preempted attempt ends, and its instance continues as another attempt.
    pub ran: Vec<ScheduledAttempt>,
    /// How each instance was settled, and when.
    pub settled: Vec<Option<(Outcome, Time)>>,
    /// Every action of the scheduler, in order.
    pub actions: Vec<(Time, Action)>,
    /// What the jobs met on Slurm, if they went through it.
    pub met: Option<QueueStats>,
}

#[derive(Clone, Debug, PartialEq)]
pub struct ScheduledAttempt {
    pub instance: InstanceId,
    pub attempt: AttemptId,
    pub placement: Placement,
    /// From here …
    pub start: Time,
    /// … to here.
    pub end: Time,
}

impl Schedule {
    /// When the last attempt ended.
    pub fn makespan(&self) -> Time {
        self.ran.iter().map(|ran| ran.end).max().unwrap_or_default()
    }
}

/// A simulation that does not come to its end.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SimError {
    /// The tasks are not in order.
    #[error("task {} is out of order: ids count up from 0, and arrivals must not decrease", .0.0)]
    OutOfOrder(InstanceId),
    /// A policy that gives each task one GPU got one that asks for more.
    #[error("instance {} asks for {gpus} GPUs, and policy `{policy}` runs one GPU a task", .instance.0)]
    TooWide {
        instance: InstanceId,
        /// GPUs that it asks for.
        gpus: u32,
        policy: &'static str,
    },
    /// A job of Slurm has one node, and none has so many.
    #[error("instance {} asks for {gpus} GPUs, with its group, but nodes have {node}: a job of flow has one node", .instance.0)]
    TooWideForNode {
        instance: InstanceId,
        /// GPUs that its job asks for.
        gpus: u32,
        /// GPUs of a node.
        node: u32,
    },
    /// Nothing takes a job of Slurm's off its GPUs.
    #[error("policy `{0}` takes jobs off their GPUs, which flow cannot do on Slurm")]
    Preemptive(&'static str),
    /// Nothing happens any more, and these are not settled.
    #[error("nothing happens after {} s, and {} instances are not settled, the first is {}", .at.as_secs_f64(), .waiting.len(), .waiting[0].0)]
    Stuck {
        /// When the last thing happened.
        at: Time,
        waiting: Vec<InstanceId>,
    },
    /// It goes on and on.
    #[error("no end after {rounds} decisions, at {} s: a livelock", .at.as_secs_f64())]
    Livelock {
        /// When it was given up.
        at: Time,
        rounds: u64,
    },
}
