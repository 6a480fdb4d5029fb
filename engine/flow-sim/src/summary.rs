//! A schedule in a few numbers: how long jobs were in the system, what of that they waited, how busy the GPUs were.

use flow_core::{Span, Time};
use serde::Serialize;

use crate::{Schedule, SimTask};

/// What a policy made of a workload. Times are seconds; the workload begins at 0.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Summary {
    /// The policy.
    pub policy: String,
    /// Jobs.
    pub jobs: usize,
    /// When the last one ended.
    pub makespan_s: f64,
    /// From arrival to end.
    pub mean_time_in_system_s: f64,
    /// Time in the system less the time that the job takes alone.
    pub mean_waiting_s: f64,
    /// Median time in the system.
    pub p50_time_in_system_s: f64,
    /// 99th percentile.
    pub p99_time_in_system_s: f64,
    /// Share of all GPU time until the last end in which a job held the GPU.
    pub gpu_utilisation: f64,
}

impl Summary {
    /// Of a schedule of these tasks on so many GPUs.
    pub fn of(policy: &str, tasks: &[SimTask], schedule: &Schedule, gpus: u32) -> Summary {
        let ends = schedule.settled.iter().map(|settled| settled.map_or(Time(0), |(_, at)| at));
        let mut in_system: Vec<u64> = tasks.iter().zip(ends).map(|(task, end)| (end - task.task.submitted).0).collect();
        let alone: u128 = tasks.iter().map(|task| u128::from(work(task).0)).sum();
        let total: u128 = in_system.iter().map(|&span| u128::from(span)).sum();
        in_system.sort_unstable();
        let mean = |micros: u128| micros as f64 / 1e6 / tasks.len().max(1) as f64;
        let held: u128 =
            schedule.ran.iter().map(|ran| u128::from((ran.end - ran.start).0) * ran.placement.gpus.len() as u128).sum();
        let makespan = schedule.makespan();
        let gpu_time = u128::from(makespan.0) * u128::from(gpus);
        Summary {
            policy: policy.to_owned(),
            jobs: tasks.len(),
            makespan_s: makespan.as_secs_f64(),
            mean_time_in_system_s: mean(total),
            mean_waiting_s: mean(total.saturating_sub(alone)),
            p50_time_in_system_s: percentile(&in_system, 50),
            p99_time_in_system_s: percentile(&in_system, 99),
            gpu_utilisation: if gpu_time == 0 { 0.0 } else { held as f64 / gpu_time as f64 },
        }
    }
}

/// What a task takes alone: its first attempt.
fn work(task: &SimTask) -> Span {
    task.attempts.first().map_or(Span(0), |attempt| attempt.work)
}

/// The value below which this share of all lies.
fn percentile(sorted: &[u64], percent: usize) -> f64 {
    let at = (sorted.len() * percent / 100).min(sorted.len().saturating_sub(1));
    sorted.get(at).map_or(0.0, |&micros| micros as f64 / 1e6)
}
