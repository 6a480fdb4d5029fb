//! The demand of a task on admission, from declarations and history. It does not know what is available.

use super::api::{Sharing, Task};
use crate::{Exclusive, InstanceId};

const GIB: u64 = 1 << 30;

/// What a task requests from admission; nothing by default. Tasks with equal demands fit or do not fit alike.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Demand {
    pub(super) gpus: u32,
    pub(super) gpu_memory: GpuMemory,
    pub(super) cpus: u32,
    pub(super) alone_load: AloneLoad,
    pub(super) memory: u64,
    /// Nothing else of this run on its GPUs.
    pub(super) gpus_alone: bool,
    /// Nothing else of this run on the machine.
    pub(super) machine_alone: bool,
    /// Its instance, if it was measured next to another; its demand then equals no other.
    pub(super) paired: Option<InstanceId>,
    /// It requests a place in a batch system's queue, and no local resources.
    pub(super) batch: bool,
}

/// What a task keeps busy while it runs alone.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct AloneLoad {
    /// Thousandths of a core.
    pub(super) cpu_milli: u64,
    /// Measured in earlier attempts; otherwise the CPUs that it holds.
    pub(super) cpu_learned: bool,
    /// Thousandths of each of its GPUs; 1000 while unknown.
    pub(super) gpu_milli: u32,
    /// Running it next to others shows the cost of sharing.
    pub(super) informative: bool,
}

/// Known memory use of a task on each of its GPUs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum GpuMemory {
    /// Declared by the author: it fits exactly if that much is free.
    Declared(u64),
    /// The peak from history; never a reason to refuse a task for good.
    Learned(u64),
    Unknown,
}

impl Default for GpuMemory {
    fn default() -> Self {
        GpuMemory::Declared(0)
    }
}

impl Demand {
    pub(super) fn of(task: &Task, sharing: &Sharing) -> Self {
        if task.batch {
            return Demand { batch: true, ..Demand::default() };
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
        // Declared CPUs are reserved for it. For a step that uses GPUs, the CPU demand from history only decides when
        // it starts.
        let held = u64::from(request.cpus) * 1_000;
        let seen = task.estimate.cpu_milli.filter(|_| request.gpus > 0 && !alone && task.estimate.samples > 0);
        let alone_load = AloneLoad {
            cpu_milli: seen.map_or(held, |milli| held.min(milli.into())),
            cpu_learned: seen.is_some(),
            gpu_milli: if request.gpus == 0 { 0 } else { task.estimate.gpu_busy_milli.unwrap_or(1_000).min(1_000) },
            informative: request.gpus > 0
                && !alone
                && task.estimate.timed_alone
                && task.estimate.gpu_busy_milli.is_some(),
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

    /// Memory reserved on a GPU of this size. It must be free if others of this run are on the GPU.
    pub(super) fn on_gpu(&self, total: u64) -> u64 {
        match self.gpu_memory {
            GpuMemory::Declared(bytes) => bytes,
            GpuMemory::Learned(bytes) => bytes.saturating_add(margin(total)).min(total),
            GpuMemory::Unknown => margin(total),
        }
    }

    /// Memory that must be free on a GPU without others of this run. A learned peak only avoids GPUs that foreign
    /// processes fill: a peak that fits needs no margin here, and one from a larger GPU is ignored.
    pub(super) fn on_empty_gpu(&self, total: u64) -> u64 {
        match self.gpu_memory {
            GpuMemory::Learned(bytes) if bytes <= total => bytes,
            GpuMemory::Learned(_) => margin(total),
            GpuMemory::Declared(_) | GpuMemory::Unknown => self.on_gpu(total),
        }
    }

    /// What a member of a co-run group reserves: only its declared memory. A learned peak or a margin could forbid the
    /// very experiment.
    pub(super) fn declared(&self) -> u64 {
        match self.gpu_memory {
            GpuMemory::Declared(bytes) => bytes,
            GpuMemory::Learned(_) | GpuMemory::Unknown => 0,
        }
    }
}

/// Safety margin over a learned peak: 1 GiB or 5% of the GPU, whichever is more; at most half of the GPU.
fn margin(total: u64) -> u64 {
    GIB.max(total / 20).min(total / 2)
}
