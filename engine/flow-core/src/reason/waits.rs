//! What keeps an instance that could run from running, as a value. Times are milliseconds since 1970, GPUs are numbered as people
//! count them.

use serde::{Deserialize, Serialize};

use crate::RunId;

/// What something waits for.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(remote = "Self", tag = "kind", rename_all = "snake_case")]
pub enum Waits {
    /// There is less than it asks for.
    Resources { short: Vec<Scarce> },
    /// It wants the machine for itself, and these run.
    Others { running: Labels },
    /// These have the machine for themselves.
    Exclusive { running: Labels },
    /// Other runs of the machine keep it from starting.
    OtherRuns {
        how: Rivalry,
        /// Which.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        runs: Option<Labels>,
    },
    /// There is room, and it is kept for this one.
    Reserved { label: String },
    /// There is room, and this one goes first.
    Turn { label: String },
    /// Another run of the store does the same, and shares what comes of it.
    Elsewhere {
        /// Which run; `None` where only its process is known.
        run: Option<RunId>,
        user: String,
        /// Its process; `None` where that is of another container.
        pid: Option<u32>,
    },
    /// A job does the same, of a run of somebody else that does not live any more.
    Job { run: RunId, user: String },
    /// It failed, and is tried again.
    Retry {
        at: u64,
        /// How often it has failed.
        failures: u32,
    },
    /// It is ready, and these of its group are not.
    Barrier { missing: Labels },
}

crate::compiled_once::compiled_once!(Waits);

/// How other runs of the machine keep something from starting, whatever room there is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Rivalry {
    /// A step of theirs has the machine for itself.
    Exclusive,
    /// It wants the machine for itself, and steps of theirs run.
    Running,
    /// What of theirs waits is served before it.
    Ahead,
}

/// Some instances: the first, and how many there are beside it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Labels {
    pub first: String,
    pub more: u32,
}

impl Labels {
    /// `None` of nobody.
    pub fn of(labels: impl IntoIterator<Item = String>) -> Option<Self> {
        let mut labels = labels.into_iter();
        Some(Labels { first: labels.next()?, more: labels.count() as u32 })
    }
}

/// Less of a resource than something asks for.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Scarce {
    pub resource: Resource<u32>,
    pub requested: u64,
    pub available: u64,
    /// Who of ours holds it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub held_by: Option<Labels>,
    /// When the first of them is expected to end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub until: Option<u64>,
    /// Bytes of a GPU that others hold.
    #[serde(default, skip_serializing_if = "is_none")]
    pub strangers: u64,
    /// Who they are, where that is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub occupant: Option<Occupant>,
    /// What other runs of the machine hold of it.
    #[serde(default, skip_serializing_if = "is_none")]
    pub elsewhere: u64,
    /// What is kept for other runs of the machine, which are served before.
    #[serde(default, skip_serializing_if = "is_none")]
    pub ahead: u64,
    /// Which runs these are.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub runs: Option<Labels>,
}

fn is_none(amount: &u64) -> bool {
    *amount == 0
}

/// What can be short.
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
    /// GPUs with room for it. Followed by one entry for each GPU without.
    Gpus,
    /// Memory of this GPU, bytes. If that would suffice, the GPU is wanted alone, by it or by its holder.
    GpuMemory(Gpu),
    /// This GPU's time, thousandths: sharing it would slow somebody down too much, or gain too little.
    GpuBusy(Gpu),
    /// The same as it was measured: what the slower of both took on this GPU, in thousandths of what it takes alone.
    GpuMeasured(Gpu),
    /// This GPU does not answer.
    GpuLost(Gpu),
    /// This GPU, which is kept for what another run of the machine waits with.
    GpuKept(Gpu),
}

impl<Gpu> Resource<Gpu> {
    /// With its GPU called otherwise.
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
            Resource::GpuKept(gpu) => Resource::GpuKept(name(gpu)),
        }
    }
}

/// Who else is on a GPU.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Occupant {
    /// Another flow has its lock.
    Flow {
        /// Which one; empty where its lock does not tell.
        holder: String,
    },
    /// Its driver does not answer.
    Silent,
    /// Processes of somebody else.
    Processes {
        /// The one with the most memory.
        pid: u32,
        name: String,
        more: u32,
    },
}
