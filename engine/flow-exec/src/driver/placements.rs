//! Which attempts hold a placement, from the decision until what they left is collected, and those of them of which no program
//! runs: their folders are being filled, or their outputs collected. Decides nothing.

use std::collections::BTreeMap;

use flow_core::{AttemptId, Instance, InstanceId, Outcome, sched::Placement};

/// An attempt that is filled before its program runs, or collected after it.
pub(super) struct Held {
    pub(super) instance: InstanceId,
    /// It is to be ended with this outcome before it has begun.
    pub(super) killed: Option<Outcome>,
    /// For the status, where its program ran.
    running: Option<flow_store::Running>,
}

#[derive(Default)]
pub(super) struct Placements {
    held: BTreeMap<AttemptId, Held>,
    /// By number among the machine's.
    gpus: BTreeMap<AttemptId, Vec<usize>>,
}

impl Placements {
    pub(super) fn is_empty(&self) -> bool {
        self.held.is_empty()
    }

    /// Its folder is to be filled.
    pub(super) fn fill(&mut self, attempt: AttemptId, instance: InstanceId, placement: &Placement) {
        if !placement.gpus.is_empty() {
            self.gpus.insert(attempt, placement.gpus.iter().map(|gpu| gpu.index()).collect());
        }
        self.held.insert(attempt, Held { instance, killed: None, running: None });
    }

    /// Its folder is filled, or cannot be.
    pub(super) fn filled(&mut self, attempt: AttemptId) -> Option<Held> {
        self.held.remove(&attempt)
    }

    /// Nothing of it runs any more, and what it left is to be collected.
    pub(super) fn collect(&mut self, attempt: AttemptId, running: flow_store::Running) {
        self.held.insert(attempt, Held { instance: running.instance, killed: None, running: Some(running) });
    }

    /// It holds nothing any more.
    pub(super) fn is_over(&mut self, attempt: AttemptId) -> Option<Held> {
        self.gpus.remove(&attempt);
        self.held.remove(&attempt)
    }

    /// One that has not begun is to end with this outcome.
    pub(super) fn kill(&mut self, attempt: AttemptId, outcome: Outcome) {
        if let Some(held) = self.held.get_mut(&attempt) {
            held.killed.get_or_insert(outcome);
        }
    }

    /// GPUs that are given out, by their number among the machine's.
    pub(super) fn gpus(&self) -> impl Iterator<Item = usize> {
        self.gpus.values().flatten().copied()
    }

    /// An attempt of this instance is filled or collected.
    pub(super) fn is_held(&self, instance: InstanceId) -> bool {
        self.held.values().any(|held| held.instance == instance)
    }

    /// What the status tells of those that are collected.
    pub(super) fn status(&self) -> impl Iterator<Item = flow_store::Running> {
        self.held.values().filter_map(|held| held.running.clone())
    }
}

/// What an attempt has where it runs: the scheduler knows of a batch system no more than its queue.
pub(super) fn given(instance: &Instance, placement: Placement) -> Placement {
    if instance.slurm.is_none() {
        return placement;
    }
    let (cpus, memory) = (instance.request.cpus, instance.request.memory.unwrap_or(0));
    Placement { cpus, memory, gpu_memory: instance.request.gpu_memory.unwrap_or(0), ..placement }
}

/// The GPUs of a placement, by their number among the machine's.
pub(super) fn cards_of(placement: &Placement) -> impl Iterator<Item = usize> {
    placement.gpus.iter().map(|gpu| gpu.index())
}
