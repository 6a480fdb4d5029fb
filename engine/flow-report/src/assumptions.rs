//! Assumptions of a simulation, as values: the simulator fills them in, and every report about it lists them. This
//! module does not know any simulator.

use serde::{Deserialize, Serialize};

/// The assumptions of a simulation.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Assumptions {
    /// The cluster, such as `1x4`.
    pub cluster: String,
    /// Cores that all jobs share; `None` if the CPU is not simulated.
    pub cores: Option<f64>,
    pub policy: String,
    /// Whether the policy gives each job one GPU.
    pub one_gpu: bool,
    /// The parameter of the policy `lyapunov`.
    pub v: Option<f64>,
    /// Whether jobs may share GPUs.
    pub share: bool,
    pub jobs: usize,
    /// The source of the jobs.
    pub load: AssumedLoad,
    /// The number of repetitions.
    pub seeds: usize,
    /// For the policy `priority`: the number of equally likely levels; `None` if the trace has levels.
    pub priorities: Option<u32>,
    /// The error of estimated durations: the standard deviation of its logarithm.
    pub estimate_error: f64,
    /// Limits and times of Slurm, if jobs go through it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub slurm: Option<AssumedSlurm>,
}

/// Limits and times of a simulated Slurm.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct AssumedSlurm {
    /// Maximum jobs of flow in the queue.
    pub queue: u32,
    /// `MaxArraySize`.
    pub array: u32,
    /// `MaxJobCount`.
    pub jobs: u32,
    /// `MinJobAge`.
    pub remembered_s: f64,
    /// How long each job waits for other users' jobs.
    pub delay_s: f64,
    /// Interval in which Slurm starts jobs.
    pub tick_s: f64,
    /// Maximum jobs started per second.
    pub rate: f64,
    /// Duration of a call of `sbatch`.
    pub submit_s: f64,
    /// Delay until flow sees that a job has ended.
    pub notice_s: f64,
}

/// The source of the jobs of a simulation.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AssumedLoad {
    /// Generated jobs of these kinds.
    Mix(Vec<AssumedKind>),
    /// Jobs from this trace file.
    Trace(String),
}

/// A kind of generated jobs.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct AssumedKind {
    pub name: String,
    /// Share of all jobs that have this kind.
    pub share: f64,
    pub gpus: u32,
    /// Median duration alone, in seconds.
    pub duration_s: f64,
    /// The standard deviation of the logarithm of its duration.
    pub spread: f64,
    /// Cores that it uses alone.
    pub cores: f64,
    /// Share of time in which it keeps each GPU busy alone.
    pub gpu_busy: f64,
    /// GPU memory on each GPU, in GiB.
    pub gpu_memory_gib: f64,
}
