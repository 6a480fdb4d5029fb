//! What a task asks of admission. Knows what is declared and what history says of it, not what there is.

use super::api::{Sharing, Task};
use crate::{Exclusive, InstanceId};

const GIB: u64 = 1 << 30;

/// What a task asks of admission. Tasks with equal demands fit or do not fit alike.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Demand {
    pub(super) gpus: u32,
    pub(super) gpu_memory: GpuMemory,
    pub(super) cpus: u32,
    pub(super) alone_load: AloneLoad,
    pub(super) memory: u64,
    /// Nothing else of ours on its GPUs.
    pub(super) gpus_alone: bool,
    /// Nothing else of ours on the machine.
    pub(super) machine_alone: bool,
    /// Its instance, where that was measured beside another: then it is like no other.
    pub(super) paired: Option<InstanceId>,
    /// It asks for a place in the queue of a batch system, and for nothing here.
    pub(super) batch: bool,
}

/// What a task keeps busy while it runs alone.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct AloneLoad {
    /// Thousandths of a core.
    pub(super) cpu_milli: u64,
    /// History saw it; else it is the CPUs that it holds.
    pub(super) cpu_learned: bool,
    /// Thousandths of each of its GPUs; all of it while nobody knows.
    pub(super) gpu_milli: u32,
    /// Exclusivity others it shows what sharing costs.
    pub(super) telling: bool,
}

/// What is known of the memory that a task takes on each of its GPUs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum GpuMemory {
    /// The author's word: it fits exactly where that much is free.
    Declared(u64),
    /// The peak that history saw: never a reason to refuse a task for good.
    Learned(u64),
    Unknown,
}

impl Demand {
    pub(super) fn of(task: &Task, sharing: &Sharing) -> Self {
        if task.batch {
            return Demand::of_batch();
        }
        let request = &task.request;
        let learned = task.estimate.gpu_memory.filter(|_| task.estimate.samples > 0);
        let gpu_memory = match (request.gpus, request.gpu_memory, learned) {
            (0, ..) => GpuMemory::Declared(0),
            (_, Some(bytes), _) => GpuMemory::Declared(bytes),
            (_, None, Some(bytes)) => GpuMemory::Learned(bytes),
            (_, None, None) => GpuMemory::Unknown,
        };
        let unknown = task.estimate.samples == 0 || gpu_memory == GpuMemory::Unknown;
        let alone = unknown || task.measured || task.exclusive != Exclusive::No;
        // CPUs that are declared are kept free for it; what history says of a step that keeps GPUs busy only decides when.
        let held = u64::from(request.cpus) * 1_000;
        let seen = task.estimate.cpu_milli.filter(|_| request.gpus > 0 && !alone && task.estimate.samples > 0);
        let alone_load = AloneLoad {
            cpu_milli: seen.map_or(held, |milli| held.min(milli.into())),
            cpu_learned: seen.is_some(),
            gpu_milli: if request.gpus == 0 { 0 } else { task.estimate.gpu_busy_milli.unwrap_or(1_000).min(1_000) },
            telling: request.gpus > 0 && !alone && task.estimate.timed_alone && task.estimate.gpu_busy_milli.is_some(),
        };
        let id = task.instance;
        let measured = sharing.pairs.range((id, InstanceId(0))..).next().is_some_and(|((first, _), _)| *first == id);
        Demand {
            gpus: request.gpus,
            gpu_memory,
            cpus: request.cpus,
            alone_load,
            memory: request.memory.unwrap_or(0),
            gpus_alone: request.gpus > 0 && alone,
            machine_alone: task.exclusive == Exclusive::Machine,
            paired: (measured && !alone).then_some(id),
            batch: false,
        }
    }

    fn of_batch() -> Self {
        Demand {
            gpus: 0,
            gpu_memory: GpuMemory::Declared(0),
            cpus: 0,
            alone_load: AloneLoad::default(),
            memory: 0,
            gpus_alone: false,
            machine_alone: false,
            paired: None,
            batch: true,
        }
    }

    /// What is reserved on a card of this size: room that must be free beside others of ours.
    pub(super) fn on_card(&self, total: u64) -> u64 {
        match self.gpu_memory {
            GpuMemory::Declared(bytes) => bytes,
            GpuMemory::Learned(bytes) => bytes.saturating_add(margin(total)).min(total),
            GpuMemory::Unknown => margin(total),
        }
    }

    /// Room that must be free on a card without others of ours. History only keeps it off cards that strangers fill: a peak
    /// that fits needs no margin here, and one that was seen on a larger card says nothing.
    pub(super) fn on_empty_card(&self, total: u64) -> u64 {
        match self.gpu_memory {
            GpuMemory::Learned(bytes) if bytes <= total => bytes,
            GpuMemory::Learned(_) => margin(total),
            GpuMemory::Declared(_) | GpuMemory::Unknown => self.on_card(total),
        }
    }

    /// What a member of a co-run group reserves: only what its author declared, since a learned peak or a margin would
    /// forbid the very experiment.
    pub(super) fn declared(&self) -> u64 {
        match self.gpu_memory {
            GpuMemory::Declared(bytes) => bytes,
            GpuMemory::Learned(_) | GpuMemory::Unknown => 0,
        }
    }
}

/// What a learned peak may be exceeded by: 1 GiB, or a twentieth of the card if that is more; half of a tiny card.
fn margin(total: u64) -> u64 {
    GIB.max(total / 20).min(total / 2)
}
