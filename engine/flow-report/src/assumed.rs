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
