//! The status file of a run, for `flow status`, `flow runs` and other readers.

use std::collections::BTreeMap;

use flow_core::{AttemptId, InstanceId, RunId, reason::Waits};
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::Value;

/// The state of a run. [`crate::RunDir::lives`] tells whether a run without an end is alive.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Status {
    pub run: RunId,
    pub workflow: String,
    /// Its file, relative to the root if it is below it.
    pub file: String,
    pub pid: u32,
    /// Start time, milliseconds since 1970.
    pub started_at: u64,
    /// When this was written.
    pub updated_at: u64,
    /// The exit code, once it has ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ended: Option<i32>,
    /// Number of instances.
    pub instances: u32,
    /// Number of settled instances by outcome: `cached`, `ok`, `failed`, …
    pub counts: BTreeMap<String, u32>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub running: Vec<RunningStep>,
    /// Waiting instances with their reasons, without reasons that only another version of flow knows.
    #[serde(default, deserialize_with = "known", skip_serializing_if = "Vec::is_empty")]
    pub waiting: Vec<WaitingStep>,
}

#[serde_with::skip_serializing_none]
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RunningStep {
    pub instance: InstanceId,
    pub label: String,
    pub attempt: AttemptId,
    /// Start time, milliseconds since 1970.
    pub started_at: u64,
    /// Between 0 and 1, if the program reports it.
    pub fraction: Option<f64>,
    /// Its expected end, milliseconds since 1970.
    pub ends_at: Option<u64>,
    /// A short text of the program.
    pub text: Option<String>,
    /// It does not run yet: its job waits in Slurm's queue.
    pub queued: Option<QueuedJob>,
    /// Its job, if Slurm runs it.
    pub job: Option<String>,
    /// The node of that job.
    pub node: Option<String>,
    /// UUIDs of its GPUs.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub gpus: Vec<String>,
    /// Number of GPUs that its job requests from Slurm. Which ones is known later.
    #[serde(default)]
    pub gpus_requested: u32,
    pub cpus: u32,
}

/// A job in Slurm's queue.
#[serde_with::skip_serializing_none]
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct QueuedJob {
    /// Its id there, once it is submitted.
    pub job: Option<String>,
    /// Slurm's pending reason; empty if there is none.
    pub reason: String,
    /// Start of the wait, milliseconds since 1970.
    pub since: u64,
    /// Advice if the reason does not pass by itself.
    pub advice: Option<String>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct WaitingStep {
    pub label: String,
    pub reason: Waits,
}

fn known<'de, D: Deserializer<'de>>(waiting: D) -> std::result::Result<Vec<WaitingStep>, D::Error> {
    let all = Vec::<Value>::deserialize(waiting)?;
    Ok(all.into_iter().filter_map(|one| serde_json::from_value(one).ok()).collect())
}
