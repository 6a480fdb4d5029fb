//! What a machine is, as facts. Somebody else looks; the core only reads.

use serde::{Deserialize, Serialize};

use crate::reason::Fault;

/// The place where steps run: what `machine` means in expressions, and the hardware part of circumstances.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Machine {
    /// The GPUs that flow may use, in NVML's order.
    pub gpus: Vec<GpuFacts>,
    /// CPUs that flow may use: the affinity mask and any cgroup quota count.
    pub cpus: u32,
    /// `AMD EPYC 7571`.
    pub cpu_model: String,
    /// Host memory in bytes; a cgroup limit counts.
    pub memory: u64,
    /// NVIDIA's driver, if there is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub driver: Option<String>,
    /// What stands in the way of using GPUs that may be there: a driver that does not answer, a lost card.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub gpu_troubles: Vec<Fault>,
    /// The GPUs were declared by `FLOW_FAKE_GPUS` and are not there; every report made so says it.
    #[serde(default)]
    pub fake_gpus: bool,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct GpuFacts {
    pub uuid: String,
    /// NVML's index.
    pub index: u32,
    /// The model: `NVIDIA H200`.
    pub name: String,
    /// Total memory in bytes.
    pub memory: u64,
}
