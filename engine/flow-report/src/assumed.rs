//! What a simulation takes for granted, as values: who makes one fills it in, and every report of it says it. Knows no simulator.

use serde::{Deserialize, Serialize};

/// What a simulation takes for granted.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Assumed {
    /// `1x4`.
    pub cluster: String,
    /// Cores that all jobs share; none where the CPU does not count.
    pub cores: Option<f64>,
    pub policy: String,
    /// The policy gives each job one GPU.
    pub one_gpu: bool,
    /// Of `lyapunov`.
    pub v: Option<f64>,
    /// Jobs may share GPUs.
    pub share: bool,
    pub jobs: usize,
    /// Where they come from.
    pub load: AssumedLoad,
    /// How often it was repeated.
    pub seeds: usize,
    /// Of `priority`: how many levels there are, each as likely; none where they are the trace's.
    pub priorities: Option<u32>,
    /// How far estimates of durations are off: the deviation of the logarithm of their error.
    pub estimate_error: f64,
    /// Jobs go through Slurm, with these limits and times.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub slurm: Option<AssumedSlurm>,
}

/// Limits and times of a Slurm that is not there.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct AssumedSlurm {
    /// Most jobs of flow's in the queue.
    pub queue: u32,
    /// `MaxArraySize`.
    pub array: u32,
    /// `MaxJobCount`.
    pub jobs: u32,
    /// `MinJobAge`.
    pub remembered_s: f64,
    /// How long every job waits for those of others.
    pub delay_s: f64,
    /// Jobs are started every so many seconds.
    pub tick_s: f64,
    /// Jobs that can be started in a second.
    pub rate: f64,
    /// What a call of `sbatch` takes.
    pub submit_s: f64,
    /// Until flow sees that a job has ended.
    pub notice_s: f64,
    /// Jobs make room for those of a higher tier, and have so long for it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub grace_s: Option<f64>,
    /// Such a job goes on from a checkpoint as old as this at most; with 0 from none.
    #[serde(default)]
    pub checkpoint_s: f64,
}

/// Where the jobs of a simulation come from.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AssumedLoad {
    /// Generated: kinds of jobs.
    Mix(Vec<AssumedKind>),
    /// Replayed: the trace's file.
    Trace(String),
}

/// A kind of generated jobs.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct AssumedKind {
    pub name: String,
    /// How many of all jobs are of it, as a share.
    pub share: f64,
    pub gpus: u32,
    /// Median of its duration alone, seconds.
    pub duration_s: f64,
    /// The deviation of the logarithm of its duration.
    pub spread: f64,
    /// Cores that it keeps busy alone.
    pub cores: f64,
    /// Share of time in which it keeps each GPU busy alone.
    pub gpu_busy: f64,
    /// On each GPU, GiB.
    pub gpu_memory_gib: f64,
}
