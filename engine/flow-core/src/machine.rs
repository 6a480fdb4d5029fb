//! A machine as facts. The caller detects them; the core only reads them.

use serde::{Deserialize, Serialize};

use crate::reason::Fault;

/// The machine that steps run on: the value of `machine` in expressions, and the hardware part of circumstances.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Machine {
    /// The GPUs that flow may use, in NVML's order.
    pub gpus: Vec<GpuFacts>,
    /// CPUs that flow may use, within the affinity mask and any cgroup quota.
    pub cpus: u32,
    /// `AMD EPYC 7571`.
    pub cpu_model: String,
    /// Host memory in bytes, within any cgroup limit.
    pub memory: u64,
    /// NVIDIA's driver, if there is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub driver: Option<String>,
    /// Why GPUs that may exist cannot be used: a driver that does not respond, a lost GPU.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub gpu_troubles: Vec<Fault>,
    /// The GPUs were declared by `FLOW_FAKE_GPUS` and do not exist; every report made with them says so.
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
