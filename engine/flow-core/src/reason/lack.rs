//! What a machine has too little of. No words.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{
    Fault,
    texts::{Texts, texts},
};

/// What a machine has too little of for a request, or for the members of a co-run group together.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(remote = "Self", tag = "kind", rename_all = "snake_case")]
pub enum Lack {
    Gpus {
        needs: u32,
        /// How many there are.
        has: u32,
        /// Why a GPU may not have been found.
        trouble: Option<Fault>,
    },
    /// GPUs with so much memory.
    GpuMemory {
        /// GPUs asked for.
        needs: u32,
        /// Bytes on each.
        memory: u64,
        /// How many have that.
        has: u32,
        /// Bytes of the largest.
        largest: u64,
    },
    Cpus {
        needs: u32,
        /// How many there are.
        has: u32,
    },
    /// Host memory, bytes.
    Memory {
        /// What is asked for, bytes.
        needs: u64,
        /// What there is, bytes.
        has: u64,
    },
    /// GPUs, one or more for each member of a group.
    GroupGpus {
        members: u32,
        /// GPUs that they ask for together.
        needs: u32,
        /// How many there are.
        has: u32,
    },
    /// GPUs with room for all members of a group.
    GroupGpuMemory {
        members: u32,
        /// GPUs asked for.
        needs: u32,
        /// Bytes on each.
        memory: u64,
        /// How many have that.
        has: u32,
    },
    /// Host memory for all members of a group, bytes.
    GroupMemory {
        members: u32,
        /// What its members ask for together, bytes.
        needs: u64,
        /// What there is, bytes.
        has: u64,
    },
    /// Another member of its group lacks something alone.
    Member {
        /// The member that lacks something.
        label: String,
        lack: Box<Lack>,
    },
}

crate::compiled_once::compiled_once!(Lack);

texts! {
    Lack {
        Gpus { needs, has, trouble }, GpuMemory { needs, memory, has, largest }, Cpus { needs, has },
        Memory { needs, has }, GroupGpus { members, needs, has }, GroupGpuMemory { members, needs, memory, has },
        GroupMemory { members, needs, has }, Member { label, lack },
    }
}
