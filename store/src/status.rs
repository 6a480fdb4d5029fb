//! The status file of a run: how it stands, for `flow status`, `flow runs` and whoever else only looks.

use std::collections::BTreeMap;

use flow_core::{AttemptId, InstanceId, RunId, reason::Waits};
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::Value;

/// A run as it stands. Whether one without end is alive, [`crate::RunDir::lives`] tells.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Status {
    pub run: RunId,
    pub workflow: String,
    /// Its file, relative to the root where it is below it.
    pub file: String,
    pub pid: u32,
    /// When it began, milliseconds since 1970.
    pub started_at: u64,
    /// When this was written.
    pub updated_at: u64,
    /// The exit code, once it has ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ended: Option<i32>,
    /// How many instances there are.
    pub instances: u32,
    /// Settled instances by how: `cached`, `ok`, `failed`, …
    pub counts: BTreeMap<String, u32>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub running: Vec<Running>,
    /// What waits, and for what; without what only another version of flow understands.
    #[serde(default, deserialize_with = "known", skip_serializing_if = "Vec::is_empty")]
    pub waiting: Vec<Waiting>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Running {
    pub instance: InstanceId,
    pub label: String,
    pub attempt: AttemptId,
    /// When it began, milliseconds since 1970.
    pub started_at: u64,
    /// Between 0 and 1, where it tells.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fraction: Option<f64>,
    /// A few words of its own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub text: Option<String>,
    /// It does not run yet: its job waits in Slurm's queue.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub queued: Option<Queued>,
    /// UUIDs of its GPUs.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub gpus: Vec<String>,
    /// How many its job asks Slurm for: which it gets is known later.
    #[serde(default)]
    pub gpus_asked: u32,
    pub cpus: u32,
}

/// A job in Slurm's queue.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Queued {
    /// Its number there, once it is submitted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub job: Option<String>,
    /// Slurm's word for why it waits; empty where it says none.
    pub reason: String,
    /// Since when it waits, milliseconds since 1970.
    pub since: u64,
    /// What is to be done, where it will not go away by itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub advice: Option<String>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Waiting {
    pub label: String,
    pub reason: Waits,
}

fn known<'de, D: Deserializer<'de>>(waiting: D) -> std::result::Result<Vec<Waiting>, D::Error> {
    let all = Vec::<Value>::deserialize(waiting)?;
    Ok(all.into_iter().filter_map(|one| serde_json::from_value(one).ok()).collect())
}
