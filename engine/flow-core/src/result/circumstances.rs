//! Conditions under which an attempt ran.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::{Digest, Span, reason::ClosedBy};

/// The state of a repository: its commit, and whether a tracked file differs.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Revision {
    /// The hash of the commit.
    pub commit: String,
    /// There were uncommitted changes.
    pub dirty: bool,
    /// An input or the workflow is ignored by Git, or outside the repository.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub outside: bool,
}

impl Revision {
    /// The first seven characters of the hash.
    pub fn short(&self) -> &str {
        self.commit.get(..7).unwrap_or(&self.commit)
    }
}

/// Conditions under which an attempt ran. Numbers from different conditions are never averaged. JSON omits unknown
/// fields.
#[serde_with::skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Circumstances {
    /// Its declared mode.
    pub mode: Mode,
    /// GPU models of the placement, in order; empty without GPUs.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub gpu_models: Vec<String>,
    /// UUIDs of the placement's GPUs.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub gpus: Vec<String>,
    /// Total memory of each GPU of the placement, bytes.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub gpu_memory_total: Vec<u64>,
    /// GPU memory limit that the step declared, bytes.
    pub gpu_memory: Option<u64>,
    /// Host memory limit that the step declared, bytes.
    pub memory: Option<u64>,
    /// Wall-clock limit: the declared one, or that of its Slurm job if shorter. A recorded time-out is reused only under
    /// a limit that is not longer.
    pub timeout: Option<Span>,
    /// CPUs of the placement; 0 without one.
    #[serde(default, skip_serializing_if = "super::is_zero")]
    pub cpus: u32,
    /// CPUs of the host; 0 if nothing ran.
    #[serde(default, skip_serializing_if = "super::is_zero")]
    pub host_cpus: u32,
    /// CPUs of the host that flow could use, if fewer: by an affinity mask or the limit of a container.
    pub allowed_cpus: Option<u32>,
    /// CPU model of the host.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub cpu_model: String,
    /// Host memory, bytes; 0 if unknown.
    #[serde(default, skip_serializing_if = "super::is_zero")]
    pub host_memory: u64,
    /// The commit of the repository at the run's root. For information only: the fingerprint covers what a step reads.
    pub revision: Option<Revision>,
    /// Workflow parameters that it depends on, without paths and collections. With other values, its time and memory do
    /// not apply.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub params: BTreeMap<String, Value>,
    /// The version of its step's program ([`Parts::program`](crate::fingerprint::Parts::program)).
    pub program: Option<Digest>,
    /// The object with the software environment of a plain program ([`Environment`](crate::Environment)). For
    /// information only.
    pub environment: Option<Digest>,
    /// Interpreters that it was seen to run and that this environment does not have, by their paths.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub also_ran: Vec<String>,
    /// Version of NVIDIA's driver.
    pub driver: Option<String>,
    /// Versions and devices reported by the program: `torch`, `device`, `precision`.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub facts: BTreeMap<String, String>,
    /// Labels of this run's instances that ran at the same time, in the co-run group or not.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub corunners: Vec<String>,
    /// Those of them that used a GPU of its placement.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub neighbours: Vec<String>,
    /// Maximum number of attempts of other runs on the machine at one time.
    #[serde(default, skip_serializing_if = "super::is_zero")]
    pub other_attempts: u32,
    /// Of a measured step: it is unknown whether other runs on the machine ran anything at the time.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub unwatched: bool,
    /// For a member of a co-run group: placement and window.
    pub corun: Option<CorunWindow>,
    /// Foreign compute processes on the GPUs of the placement.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub foreign_processes: Vec<ForeignProcess>,
    /// Mean share of the multiprocessors that others used on a GPU of the placement, in their own time slices:
    /// co-runners and foreign processes. Absent if there were none, or the driver does not report it.
    pub gpu_shared: Option<f64>,
    /// Mean CPU use of foreign processes, as a share of the host.
    pub foreign_cpu: Option<f64>,
    /// Share of samples in which the host's CPUs were at least 95% busy.
    pub cpu_saturated: Option<f64>,
    /// The GPUs were declared, not real.
    #[serde(default)]
    pub fake_gpus: bool,
    /// The kernel killed it because host memory ran out, to which everything on the host contributes.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub oom_killed: bool,
    /// The interference that it measured on its GPU, if all sharers also ran alone.
    pub sharing: Option<GpuSharing>,
}

impl Circumstances {
    /// The CPUs of the host that flow could use.
    pub fn usable_cpus(&self) -> u32 {
        self.allowed_cpus.unwrap_or(self.host_cpus)
    }

    /// By this, a share of the host's CPUs becomes a share of those that flow could use.
    pub fn cpus_per_usable(&self) -> f64 {
        f64::from(self.host_cpus.max(1)) / f64::from(self.usable_cpus().max(1))
    }

    /// Whether the host's CPUs were exhausted in more than a tenth of the samples.
    pub(crate) fn short_of_cpu(&self) -> bool {
        self.cpu_saturated.is_some_and(|share| share > 0.1)
    }
}

/// Measured sharing of a GPU.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct GpuSharing {
    /// Sum of the shares of time in which each keeps the GPU busy alone.
    pub busy: f64,
    /// Slowdown: the mean of a co-run group's members, else this attempt's own.
    pub slowdown: f64,
    /// Outside co-run groups: the attempts on its GPUs in the compared epochs.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub corunners: Vec<String>,
    /// Number of these epochs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub epochs: Option<u32>,
}

/// A step's declared mode. Part of a measured step's fingerprint.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Mode {
    /// Next to whatever else runs.
    #[default]
    Plain,
    /// `exclusive`: alone on the machine, or on its GPUs.
    Alone,
    /// Member of a co-run group.
    Corun,
}

/// The window of a co-run group, from the release to the first member's end. Only what is inside counts.
#[serde_with::skip_serializing_none]
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct CorunWindow {
    /// The group's name within its step, `v7`.
    pub group: String,
    /// `own`: disjoint GPUs; `shared`: all members on one set.
    pub gpus: CorunGpus,
    /// Members of the group, this one included.
    pub members: u32,
    /// Seconds from this attempt's start to the release of the barrier.
    pub released_at: f64,
    /// Seconds from this attempt's start to the end of the window.
    pub closed_at: f64,
    /// This member's epochs that lie wholly inside. Zero: not enough overlap.
    pub epochs: u32,
    /// How the window ended, unless by the first member's ordinary end.
    pub closed_by: Option<ClosedBy>,
    /// The interference coefficient of the shared GPU model, as measured before this group.
    pub interference: Option<f64>,
}

/// GPUs of the members of a co-run group.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum CorunGpus {
    /// Each member on separate GPUs.
    #[default]
    Own,
    /// All on the same GPUs.
    Shared,
}

/// A foreign compute process on a GPU of the placement.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ForeignProcess {
    /// Its process id, from NVML.
    pub pid: u32,
    /// Its name, if readable.
    pub name: String,
    /// UUID of the GPU.
    pub gpu: String,
    /// Peak memory there, bytes.
    pub memory: u64,
}
