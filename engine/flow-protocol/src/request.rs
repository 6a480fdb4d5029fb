//! The engine's request to a program, and how the program ended.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// `request.json`: one attempt of one step of a plugin.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Request {
    /// [`crate::PROTOCOL`] of the engine.
    pub protocol: u32,
    /// The plugin's step, `train` of `torch/train`.
    pub step: String,
    /// The instance, for messages to people: `solo[version=v7,batch=16]`.
    pub instance: String,
    /// The step's parameters, checked against its schema. Artifacts of other steps are paths such as `in/dataset`.
    pub with: Map<String, Value>,
    /// The path to write each declared output to, by name. Its parent folders exist.
    pub outputs: BTreeMap<String, String>,
    /// A folder that outlives the attempt until there is a result. The next attempt with the same fingerprint finds its
    /// content, in this run or a later one.
    pub checkpoint: String,
    /// What the attempt may use.
    pub placement: Placement,
    /// The seed of every random choice; repetition i has the step's seed + i.
    pub seed: u64,
    /// Present in a co-run group: say `ready`, wait for `go`, and if the step can, train on until `stop`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub corun: Option<Corun>,
}

/// The resources that an attempt holds while it runs.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Placement {
    /// The GPUs, in the order of `CUDA_VISIBLE_DEVICES`.
    pub gpus: Vec<Gpu>,
    /// Threads and workers together stay within this number of CPUs.
    pub cpus: u32,
    /// A limit on GPU memory for each GPU, in bytes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gpu_memory: Option<u64>,
    /// Host memory, in bytes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory: Option<u64>,
}

/// One GPU of a placement.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Gpu {
    /// NVML's UUID, the form that `CUDA_VISIBLE_DEVICES` takes.
    pub uuid: String,
    /// NVML's index on this host.
    pub index: u32,
    /// The model, `NVIDIA H200`.
    pub name: String,
}

/// Membership of a co-run group.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Corun {
    /// How many start together, this one included.
    pub members: u32,
}

/// How a program ended.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Exit {
    /// The exit code, if the program ended by itself.
    pub code: Option<i32>,
    /// The signal that ended it.
    pub signal: Option<i32>,
    /// Seconds since 1970 when the program was started.
    pub started_at: f64,
    /// Seconds since 1970 when it was reaped.
    pub ended_at: f64,
    /// CPU time of the program and of its descendants, in seconds. This and the three below are absent where they are not known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cpu_s: Option<f64>,
    /// Largest resident set of one process, in bytes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_rss: Option<u64>,
    /// Bytes that the program and its descendants read from storage.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub disk_read: Option<u64>,
    /// Bytes that they wrote to storage.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub disk_written: Option<u64>,
    /// The kernel killed it for want of memory.
    #[serde(default)]
    pub oom_killed: bool,
    /// Processes that outlived the program and were swept away.
    #[serde(default)]
    pub swept: u32,
    /// The program could not be started at all: why, in words or as an object with a `kind`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub spawn_error: Option<Value>,
}
