//! What was true while an attempt ran.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::{Digest, Span, reason::ClosedBy};

/// What a repository stood at: a commit, and whether a file that it tracks was another one.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Revision {
    /// The hash of the commit.
    pub commit: String,
    /// There were changes that were not committed.
    pub dirty: bool,
}

impl Revision {
    /// The first seven characters of the hash.
    pub fn short(&self) -> &str {
        self.commit.get(..7).unwrap_or(&self.commit)
    }
}

/// What was true while an attempt ran. Numbers taken under unlike circumstances are never averaged. JSON leaves out what is not known.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Circumstances {
    /// How it was declared to run.
    pub mode: Mode,
    /// GPU models of the placement, in order; empty without GPUs.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub gpu_models: Vec<String>,
    /// UUIDs of the placement.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub gpus: Vec<String>,
    /// Total memory of each GPU of the placement, bytes.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub gpu_memory_total: Vec<u64>,
    /// GPU memory limit that the step declared, bytes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gpu_memory: Option<u64>,
    /// Host memory limit that the step declared, bytes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory: Option<u64>,
    /// Wall-clock limit that it had: the one that the step declared, or that of its job on Slurm where this is shorter. A recorded time-out is reused only under a limit that is no longer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeout: Option<Span>,
    /// CPUs of the placement; 0 without one.
    #[serde(default, skip_serializing_if = "super::is_zero")]
    pub cpus: u32,
    /// CPUs of the host; 0 where nothing ran.
    #[serde(default, skip_serializing_if = "super::is_zero")]
    pub host_cpus: u32,
    /// CPU model of the host.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub cpu_model: String,
    /// Host memory, bytes; 0 where it is not known.
    #[serde(default, skip_serializing_if = "super::is_zero")]
    pub host_memory: u64,
    /// The commit that the repository of the run's root stood at. A fact for people: what a step reads is in its fingerprint.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub revision: Option<Revision>,
    /// Parameters of the workflow that it depends on, scalars that are no paths: what it took says little of what it takes with others.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub params: BTreeMap<String, Value>,
    /// Which of the programs that its step has been this one was ([`Parts::program`](crate::fingerprint::Parts::program)).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub program: Option<Digest>,
    /// Version of NVIDIA's driver.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub driver: Option<String>,
    /// Versions and devices that the program told: `torch`, `device`, `precision`.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub facts: BTreeMap<String, String>,
    /// Labels of flow's own instances that ran at the same time: members of the co-run group, or others.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub corunners: Vec<String>,
    /// Of these, those that were on a GPU of its placement.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub neighbours: Vec<String>,
    /// Attempts of other runs of this machine that ran meanwhile: so many at once, at most.
    #[serde(default, skip_serializing_if = "super::is_zero")]
    pub elsewhere: u32,
    /// Of what is measured: whether other runs of this machine ran anything meanwhile, nobody could see.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub unwatched: bool,
    /// For a member of a co-run group: placement and window.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub corun: Option<CorunWindow>,
    /// Compute processes of others on the GPUs of the placement.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub strangers: Vec<Stranger>,
    /// Mean share of the multiprocessors that others used on a GPU of the placement, in time slices of their own: co-runners and
    /// strangers. Absent where nobody else was there, or the driver does not tell.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gpu_shared: Option<f64>,
    /// Mean CPU use of processes that are not flow's, as a share of the host.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub foreign_cpu: Option<f64>,
    /// Share of samples in which the host's CPUs were at least 95 % busy.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cpu_saturated: Option<f64>,
    /// The GPUs were declared, not real.
    #[serde(default)]
    pub fake_gpus: bool,
    /// The kernel killed it for want of host memory, in which everything that runs on the host has a part.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub oom_killed: bool,
    /// What this says of the interference on its GPU, where all who shared it ran alone as well.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sharing: Option<GpuSharing>,
}

impl Circumstances {
    /// The CPUs of the host ran out, in more than a tenth of the samples.
    pub(crate) fn short_of_cpu(&self) -> bool {
        self.cpu_saturated.is_some_and(|share| share > 0.1)
    }
}

/// What was seen of a GPU that was shared.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct GpuSharing {
    /// Sum of the shares of time in which each keeps it busy alone.
    pub busy: f64,
    /// Slowdown: of a co-run group that of its members in the mean, else this attempt's own.
    pub slowdown: f64,
    /// Outside of co-run groups: with whom it had its GPUs in the epochs that were compared.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub beside: Vec<String>,
    /// How many epochs these were.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub epochs: Option<u32>,
}

/// How a step was declared to run. Part of a measured step's fingerprint.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Mode {
    /// Beside whatever else is running.
    #[default]
    Plain,
    /// `exclusive`: alone on the machine, or on its GPUs.
    Alone,
    /// Member of a co-run group.
    Corun,
}

/// The window of a co-run group: what counts lies between release and the first member's end.
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
    /// Epochs of this member that lie wholly inside. Zero: not enough overlap.
    pub epochs: u32,
    /// How the window ended, where it was not the first member's ordinary end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub closed_by: Option<ClosedBy>,
    /// The interference coefficient of the GPU model that the members shared, as far as it had been measured before this group.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub interference: Option<f64>,
}

/// Where the members of a co-run group run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum CorunGpus {
    /// Each on GPUs of its own.
    #[default]
    Own,
    /// All on the same GPUs.
    Shared,
}

/// A compute process on one of our GPUs that is not ours.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Stranger {
    /// Its process id, as NVML tells it.
    pub pid: u32,
    /// Its name, where it can be read.
    pub name: String,
    /// UUID of the GPU.
    pub gpu: String,
    /// Peak memory there, bytes.
    pub memory: u64,
}
