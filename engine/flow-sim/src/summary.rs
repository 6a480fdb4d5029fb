//! A schedule in a few numbers: job completion times, waiting times, and GPU use.

use std::collections::BTreeMap;

use flow_core::sched::contention::{self, Host, Load};
use flow_core::{GpuId, Span, Time};
use serde::Serialize;

use crate::{QueueStats, Schedule, SimTask};

/// The figures of a policy on a workload. Times are seconds; the workload begins at 0.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Summary {
    pub policy: String,
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
    /// What the jobs met on Slurm, if they went through it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub slurm: Option<QueueStats>,
}

impl Summary {
    /// Summarises a schedule of these tasks on so many GPUs.
    pub fn of(policy: &str, tasks: &[SimTask], schedule: &Schedule, gpus: u32) -> Summary {
        let ends = schedule.settled.iter().map(|settled| settled.map_or(Time(0), |(_, at)| at));
        let mut in_system: Vec<u64> = tasks.iter().zip(ends).map(|(task, end)| (end - task.task.submitted).0).collect();
        let alone: u128 = tasks.iter().map(|task| u128::from(work(task).0)).sum();
        let total: u128 = in_system.iter().map(|&span| u128::from(span)).sum();
        in_system.sort_unstable();
        let mean = |micros: u128| micros as f64 / 1e6 / tasks.len().max(1) as f64;
        let held = held(schedule);
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
            slurm: schedule.met.clone(),
        }
    }
}

/// How many cores were in use from when on: (seconds, cores), a value each time that something began or ended.
pub fn cpu_over_time(tasks: &[SimTask], schedule: &Schedule, host: &Host) -> Vec<(f64, f64)> {
    let mut changes: BTreeMap<Time, (Vec<usize>, Vec<usize>)> = BTreeMap::new();
    for (i, ran) in schedule.ran.iter().enumerate().filter(|(_, ran)| ran.start < ran.end) {
        changes.entry(ran.start).or_default().0.push(i);
        changes.entry(ran.end).or_default().1.push(i);
    }
    let mut running: BTreeMap<usize, Load> = BTreeMap::new();
    let mut used = Vec::new();
    for (at, (begin, end)) in changes {
        end.iter().for_each(|i| _ = running.remove(i));
        for i in begin {
            let ran = &schedule.ran[i];
            let Some(attempt) = tasks[ran.instance.index()].attempts.first() else { continue };
            let gpus = ran.placement.gpus.iter().map(|gpu| gpu.index()).collect();
            running.insert(i, Load { cores: attempt.cores, gpu_busy: attempt.gpu_busy, gpus });
        }
        let loads: Vec<Load> = running.values().cloned().collect();
        let cores: f64 = contention::speeds(&loads, host).iter().zip(&loads).map(|(s, load)| s * load.cores).sum();
        used.push((at.as_secs_f64(), cores));
    }
    used
}

/// How many had arrived and neither ran nor were done, from when on: (seconds, tasks), a value each time that it changed.
pub fn waiting_over_time(tasks: &[SimTask], schedule: &Schedule) -> Vec<(f64, f64)> {
    let mut changes: BTreeMap<Time, i32> = BTreeMap::new();
    let mut change = |at: Time, by: i32| *changes.entry(at).or_default() += by;
    tasks.iter().for_each(|task| change(task.task.submitted, 1));
    for ran in &schedule.ran {
        change(ran.start, -1);
        change(ran.end, 1);
    }
    schedule.settled.iter().flatten().for_each(|(_, at)| change(*at, -1));
    let mut waiting = 0;
    let changed = changes.into_iter().filter(|(_, by)| *by != 0);
    let count = |(at, by): (Time, i32)| {
        waiting += by;
        (at.as_secs_f64(), f64::from(waiting))
    };
    changed.map(count).collect()
}

/// How busy a schedule kept the machine, as shares of all there was until its end.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Use {
    /// GPUs: work done, not only held.
    pub gpu: f64,
    /// Cores; 0 where they do not count.
    pub cpu: f64,
}

impl Use {
    /// Computes the use of GPUs and cores by a schedule. A task's work is what it keeps busy when alone.
    pub fn of(tasks: &[SimTask], schedule: &Schedule, gpus: u32, cores: f64) -> Use {
        let (mut gpu, mut cpu) = (0.0, 0.0);
        for attempt in tasks.iter().filter_map(|task| Some((task.task.request.gpus, task.attempts.first()?))) {
            let seconds = attempt.1.work.as_secs_f64();
            gpu += seconds * attempt.1.gpu_busy * f64::from(attempt.0);
            cpu += seconds * attempt.1.cores;
        }
        let time = schedule.makespan().as_secs_f64();
        let share = |work: f64, all: f64| if all * time > 0.0 { work / (all * time) } else { 0.0 };
        Use { gpu: share(gpu, f64::from(gpus)), cpu: share(cpu, cores) }
    }
}

/// GPU time in which somebody held the GPU; several at once count once.
fn held(schedule: &Schedule) -> u128 {
    let mut until: BTreeMap<GpuId, Time> = BTreeMap::new();
    let mut held = 0;
    // Attempts are in the order of their start.
    for ran in &schedule.ran {
        for gpu in &ran.placement.gpus {
            let until = until.entry(*gpu).or_default();
            held += u128::from((ran.end - ran.start.max(*until)).0);
            *until = ran.end.max(*until);
        }
    }
    held
}

/// The time of a task alone: that of its first attempt.
fn work(task: &SimTask) -> Span {
    task.attempts.first().map_or(Span(0), |attempt| attempt.work)
}

/// The value below which this share of all lies.
fn percentile(sorted: &[u64], percent: usize) -> f64 {
    let at = (sorted.len() * percent / 100).min(sorted.len().saturating_sub(1));
    sorted.get(at).map_or(0.0, |&micros| micros as f64 / 1e6)
}
