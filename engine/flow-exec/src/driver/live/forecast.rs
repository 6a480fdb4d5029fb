//! The forecast of the scheduler as values for its file. Decides nothing.

use std::collections::BTreeMap;

use flow_core::{
    AttemptId, Span, Time, left_by_progress,
    sched::{Scheduler, StartForecast},
};
use flow_runs::{ExpectedStart, RunningStep};

/// Limit of instances in a forecast.
const MOST: usize = 200;

/// Sets the expected ends of running attempts: by their progress, else by their estimates. `unix`: now, in milliseconds
/// since 1970.
pub(crate) fn set_ends(scheduler: &Scheduler, running: &mut [RunningStep], unix: u64) {
    for one in running.iter_mut().filter(|one| one.queued.is_none()) {
        let so_far = unix.saturating_sub(one.started_at) as f64 / 1e3;
        let left = one.fraction.and_then(|fraction| left_by_progress(so_far, fraction));
        let by_progress = left.map(|left| unix.saturating_add_signed((left * 1e3) as i64));
        // An attempt that this run joined began before.
        let by_estimate = || Some(one.started_at + scheduler.expected_duration(one.attempt)?.0 / 1_000);
        one.ends_at = by_progress.or_else(by_estimate);
    }
}

/// The next starts. `unix` is the same time as `now`, in milliseconds since 1970.
pub(crate) fn of(scheduler: &Scheduler, now: Time, running: &[RunningStep], unix: u64) -> Vec<ExpectedStart> {
    // The scheduler has its own rule for an attempt that takes longer than its estimate.
    let end = |one: &RunningStep| Some((one.attempt, now + Span::from_millis(one.ends_at?.checked_sub(unix)?)));
    let ends: BTreeMap<AttemptId, Time> = running.iter().filter_map(end).collect();
    let after = |at: Time| (at - now).0 / 1_000;
    let line = |one: StartForecast| {
        let gpus = one.gpus.iter().map(|gpu| gpu.0).collect();
        ExpectedStart(one.instance, after(one.from), after(one.to), gpus)
    };
    scheduler.forecast(now, &ends, MOST).into_iter().map(line).collect()
}

#[cfg(test)]
mod tests {
    use flow_core::{
        InstanceId, ResourceRequest,
        sched::{Action, Answer, Capacity, Estimate, Event, GpuState, Limits, Task, policy},
    };

    use super::*;

    #[test]
    fn times_count_from_the_forecast_and_progress_counts_more_than_an_estimate() {
        let gpus = vec![GpuState { memory: 1 << 30, foreign: 0, alive: true }];
        let capacity = Capacity { gpus, cpus: 4, memory: 1 << 40, ..Capacity::default() };
        let mut scheduler = Scheduler::new(capacity, policy::named("fifo").unwrap(), Limits::default());
        let task = |n: u32| Task {
            instance: InstanceId(n),
            request: ResourceRequest { cpus: 1, gpus: 1, ..ResourceRequest::default() },
            estimate: Estimate { duration: Some(Span::from_millis(10_000)), ..Estimate::default() },
            ..Task::default()
        };
        let mut out = Vec::new();
        scheduler.handle(Time(0), Event::Submitted(vec![task(0), task(1)]), &mut out);
        for n in 0..2 {
            scheduler.handle(Time(0), Event::Answered { instance: InstanceId(n), answer: Answer::Miss }, &mut out);
        }
        scheduler.handle(Time(0), Event::Tick, &mut out);
        assert!(matches!(out.last(), Some(Action::Start { instance: InstanceId(0), .. })), "{out:?}");
        let now = Time(2_000_000);
        let running = |fraction| RunningStep {
            instance: InstanceId(0),
            label: String::new(),
            attempt: AttemptId(0),
            started_at: 1_000_000,
            fraction,
            ends_at: None,
            text: None,
            queued: None,
            job: None,
            node: None,
            gpus: Vec::new(),
            gpus_requested: 0,
            cpus: 1,
        };
        let told = |fraction| {
            let mut running = [running(fraction)];
            set_ends(&scheduler, &mut running, 1_002_000);
            (running[0].ends_at, of(&scheduler, now, &running, 1_002_000))
        };
        assert_eq!(told(None), (Some(1_010_000), vec![ExpectedStart(InstanceId(1), 8_000, 18_000, vec![0])]));
        assert_eq!(told(Some(0.5)), (Some(1_004_000), vec![ExpectedStart(InstanceId(1), 2_000, 12_000, vec![0])]));
    }
}
