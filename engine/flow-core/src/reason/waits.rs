//! Why an instance that could run does not run yet, as a value. Times are milliseconds since 1970; GPUs are numbered as
//! users count them.

use serde::{Deserialize, Serialize};

use crate::RunId;

/// What something waits for.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(remote = "Self", tag = "kind", rename_all = "snake_case")]
pub enum Waits {
    /// Less is available than it requests.
    Resources { short: Vec<ResourceShortage> },
    /// It wants the machine for itself, and these run.
    Others { running: Labels },
    /// These have the machine to themselves.
    Exclusive { running: Labels },
    /// Other runs on the machine keep it from starting.
    OtherRuns {
        how: PeerConflict,
        /// These runs.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        runs: Option<Labels>,
    },
    /// There is room, but it is held for this one.
    Reserved { label: String },
    /// There is room, but this one goes first.
    Turn { label: String },
    /// Another run of the store does the same work and shares the result.
    SharedWork {
        /// The run; `None` if only its process is known.
        run: Option<RunId>,
        user: String,
        /// Its process; `None` if it belongs to another container.
        pid: Option<u32>,
    },
    /// It failed and will be retried.
    Retry {
        at: u64,
        /// Number of failures.
        failures: u32,
    },
    /// It is ready, and these of its group are not.
    Barrier { missing: Labels },
}

crate::compiled_once::compiled_once!(Waits);

/// How other runs on the machine keep an instance from starting, whatever room there is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PeerConflict {
    /// One of their steps has the machine to itself.
    Exclusive,
    /// It wants the machine for itself, and their steps run.
    Running,
    /// One of their waiting units is served first.
    Ahead,
}

/// A group of instances: the first, and the number of others.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Labels {
    pub first: String,
    pub more: u32,
}

impl Labels {
    /// `None` if empty.
    pub fn of(labels: impl IntoIterator<Item = String>) -> Option<Self> {
        let mut labels = labels.into_iter();
        Some(Labels { first: labels.next()?, more: labels.count() as u32 })
    }
}

/// A resource of which less is available than requested.
#[serde_with::skip_serializing_none]
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ResourceShortage {
    pub resource: Resource<u32>,
    pub requested: u64,
    pub available: u64,
    /// Holders in this run.
    pub held_by: Option<Labels>,
    /// When the first of them is expected to end.
    pub until: Option<u64>,
    /// Bytes of a GPU held by foreign processes.
    #[serde(default, skip_serializing_if = "crate::result::is_zero")]
    pub foreign: u64,
    /// The foreign holders, if known.
    pub occupant: Option<Occupant>,
    /// Amount that other runs on the machine hold.
    #[serde(default, skip_serializing_if = "crate::result::is_zero")]
    pub other_runs: u64,
    /// Amount held back for other runs that are served first.
    #[serde(default, skip_serializing_if = "crate::result::is_zero")]
    pub ahead: u64,
    /// These runs.
    pub runs: Option<Labels>,
}

/// A resource that can run short.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Resource<Gpu> {
    /// Attempts at once (`-j`).
    Jobs,
    /// Places in the queue of a batch system.
    Queue,
    Cpus,
    /// Host memory, bytes.
    Memory,
    /// GPUs with enough room. Followed by one entry for each GPU without.
    Gpus,
    /// Memory of this GPU, bytes. If there is enough, it or the GPU's holder wants the GPU alone.
    GpuMemory(Gpu),
    /// Time of this GPU, thousandths: sharing it would slow a step down too much, or gain too little.
    GpuBusy(Gpu),
    /// The same, as measured: the larger slowdown of both on this GPU, in thousandths of the time alone.
    GpuMeasured(Gpu),
    /// This GPU does not respond.
    GpuLost(Gpu),
    /// This GPU is held for another run on the machine.
    GpuReserved(Gpu),
}

impl<Gpu> Resource<Gpu> {
    /// Renames the GPU.
    pub fn map<Other>(self, name: impl FnOnce(Gpu) -> Other) -> Resource<Other> {
        match self {
            Resource::Jobs => Resource::Jobs,
            Resource::Queue => Resource::Queue,
            Resource::Cpus => Resource::Cpus,
            Resource::Memory => Resource::Memory,
            Resource::Gpus => Resource::Gpus,
            Resource::GpuMemory(gpu) => Resource::GpuMemory(name(gpu)),
            Resource::GpuBusy(gpu) => Resource::GpuBusy(name(gpu)),
            Resource::GpuMeasured(gpu) => Resource::GpuMeasured(name(gpu)),
            Resource::GpuLost(gpu) => Resource::GpuLost(name(gpu)),
            Resource::GpuReserved(gpu) => Resource::GpuReserved(name(gpu)),
        }
    }
}

/// Other users of a GPU.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Occupant {
    /// Another flow run holds its lock.
    Flow {
        /// The holder; empty if the lock does not show it.
        holder: String,
    },
    /// Its driver does not respond.
    Silent,
    /// Foreign processes.
    Processes {
        /// The one with the most memory.
        pid: u32,
        name: String,
        more: u32,
    },
}
