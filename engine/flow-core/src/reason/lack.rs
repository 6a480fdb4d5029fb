//! A resource of which a machine has too little. No words.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{
    Fault,
    texts::{Texts, texts},
};

/// A resource of which a machine has too little, for a request or for all members of a co-run group together.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(remote = "Self", tag = "kind", rename_all = "snake_case")]
pub enum Lack {
    Gpus {
        needs: u32,
        /// Number present.
        has: u32,
        /// Why a GPU may not have been found.
        trouble: Option<Fault>,
    },
    /// GPUs with this much memory.
    GpuMemory {
        /// GPUs requested.
        needs: u32,
        /// Bytes on each.
        memory: u64,
        /// Number of GPUs with that much.
        has: u32,
        /// Bytes of the largest GPU.
        largest: u64,
    },
    Cpus {
        needs: u32,
        /// Number present.
        has: u32,
    },
    /// Host memory, bytes.
    Memory {
        /// Requested bytes.
        needs: u64,
        /// Present bytes.
        has: u64,
    },
    /// GPUs, one or more for each member of a group.
    GroupGpus {
        members: u32,
        /// GPUs requested in total.
        needs: u32,
        /// Number present.
        has: u32,
    },
    /// GPUs with room for all members of a group.
    GroupGpuMemory {
        members: u32,
        /// GPUs requested.
        needs: u32,
        /// Bytes on each.
        memory: u64,
        /// Number of GPUs with that much.
        has: u32,
    },
    /// Host memory for all members of a group, bytes.
    GroupMemory {
        members: u32,
        /// Bytes requested in total.
        needs: u64,
        /// Present bytes.
        has: u64,
    },
    /// A member of its group lacks something by itself.
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
