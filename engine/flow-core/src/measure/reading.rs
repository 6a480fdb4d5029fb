//! Sums up an attempt in its result: numbers and series from its reports, usage and circumstances over the counted
//! epochs. Runs when the attempt has ended, and again from the stored data.

use std::collections::BTreeMap;

use super::{EpochPosition, GpuSamples, HostSamples, Record, ReportedNumbers, gather, read_numbers};
use crate::{
    GpuUsage, Metric, Outcome,
    metrics::{Metrics, NumberFiles},
    reason::{Cause, Caveat},
    result::{Series, StepResult},
};

/// Outside observations of an attempt, from its start to its end in seconds since 1970.
#[derive(Clone, Copy, Debug)]
pub struct AttemptSamples<'a> {
    pub started_at: f64,
    pub ended_at: f64,
    pub host: &'a HostSamples,
    pub gpus: &'a GpuSamples,
}

impl Record {
    /// The outside observations.
    pub fn seen(&self) -> AttemptSamples<'_> {
        AttemptSamples { started_at: self.started_at, ended_at: self.ended_at, host: &self.host, gpus: &self.gpus }
    }
}

/// Fills in a result's numbers, usage and circumstances, and returns its series. Totals of its usage, and the release
/// and close of its window, must already be set.
pub fn sum_up(reported: &ReportedNumbers, seen: AttemptSamples<'_>, result: &mut StepResult) -> Series {
    let AttemptSamples { started_at, ended_at, host, gpus } = seen;
    let circumstances = &mut result.circumstances;
    let window = circumstances.corun.as_ref().map(|w| (started_at + w.released_at, started_at + w.closed_at));
    let gathered = gather(reported, started_at, ended_at, window);
    if let Some(window) = &mut circumstances.corun {
        window.epochs = gathered.in_window;
    }
    result.metrics = gathered.metrics;
    // Another reading does not change how the work was done.
    result.caveats.retain(|caveat| matches!(caveat, Caveat::OtherEnvironment { .. }));
    result.caveats.extend(reported.caveats());
    result.usage.phases = gathered.phases;
    let load = host.load(&gathered.spans);
    (circumstances.foreign_cpu, circumstances.cpu_saturated) = (load.foreign_cpu, load.cpu_saturated);
    let figures = gpus.figures(&gathered.spans);
    (circumstances.foreign_processes, circumstances.gpu_shared) = (figures.foreign, figures.shared);
    let host_cpus = circumstances.host_cpus;
    result.usage = host.usage(std::mem::take(&mut result.usage), &gathered.spans, host_cpus);
    (result.usage.gpus, result.usage.energy_j) = (figures.gpus, figures.energy_j);
    if !result.has_gpu_load() {
        result.usage.gpus.iter_mut().for_each(GpuUsage::forget_loads);
    }
    let usage = &mut result.usage;
    if let Some(earlier) = &usage.earlier {
        // Its own epochs do not show the times of the earlier attempts.
        usage.phases = None;
        usage.energy_j = usage.energy_j.zip(earlier.energy_j).map(|(own, before)| own + before);
        for (gpu, before) in usage.gpus.iter_mut().zip(&earlier.gpu_memory_peak) {
            gpu.memory_peak = gpu.memory_peak.max(*before);
        }
    }
    let mut series = gathered.series;
    series.samples = host.series(started_at, host_cpus);
    series.samples.extend(gpus.series(started_at));
    series
}

/// Reads a result's numbers again from its log and stored files. In the log, the output of earlier attempts follows its
/// own. Returns its series, and warnings for the user.
pub fn read_again(
    result: &mut StepResult,
    metrics: Option<&Metrics>,
    record: &Record,
    log: &[u8],
    files: &mut dyn NumberFiles,
) -> (Series, Vec<String>) {
    let before = result.metrics.clone();
    let mut reported = ReportedNumbers::of(metrics);
    let mut problem = None;
    if let Some(metrics) = metrics {
        let mut printed = EpochPosition::default();
        printed.begins(record.began);
        let own = record.earlier.and_then(|earlier| log.len().checked_sub(usize::try_from(earlier).ok()?));
        let (log, earlier) = log.split_at(own.unwrap_or(log.len()));
        printed.resume_from(&metrics.stdout, earlier, &mut reported);
        let mut released = record.released;
        for (at, lines) in record.lines(log).filter(|_| !metrics.stdout.is_empty()) {
            // Output read at the moment of the release was printed before it.
            if let Some(release) = released.take_if(|release| *release < at) {
                printed.is_released(release);
            }
            printed.read_lines(&metrics.stdout, lines.into_iter(), at, &mut reported);
        }
        if !metrics.stdout.is_empty() {
            reported.skipped = record.unread();
        }
        let ended = result.outcome == Outcome::Ok;
        problem = read_numbers(metrics, &printed, files, ended, |name| name, &mut reported);
    }
    if result.outcome == Outcome::Ok {
        result.cause = problem.map(|problem| Cause::NoMetrics { problem });
    }
    let series = sum_up(&reported, record.seen(), result);
    let mut remarks = reported.remarks();
    remarks.extend(changed(&before, &result.metrics));
    (series, remarks)
}

/// The changed numbers, as a sentence.
fn changed(before: &BTreeMap<String, Metric>, after: &BTreeMap<String, Metric>) -> Option<String> {
    const NAMED: usize = 5;
    let shown = |metric: &Metric| format!("{} {}", metric.value, metric.unit).trim().to_owned();
    let change = |(name, was): (&String, &Metric)| match after.get(name) {
        Some(is) if shown(is) == shown(was) => None,
        Some(is) => Some(format!("`{name}` was {}, is {}", shown(was), shown(is))),
        None => Some(format!("`{name}` was {} and is no longer read", shown(was))),
    };
    let all: Vec<String> = before.iter().filter_map(change).collect();
    let more = all.len().saturating_sub(NAMED);
    let more = if more > 0 { format!("; and {more} more") } else { String::new() };
    let first = all.iter().take(NAMED).cloned().collect::<Vec<_>>().join("; ");
    (!all.is_empty()).then(|| format!("its numbers were read again and changed: {first}{more}"))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::{Digest, measure::GpuLook};

    /// Four epochs of this length, with a GPU that is busy throughout.
    fn loads(length: f64) -> GpuUsage {
        let mut result: StepResult = serde_json::from_value(json!({
            "fingerprint": Digest::of(b"a"), "workflow": "w", "step": "a", "label": "a", "axes": {}, "outcome": "ok", "run": "1",
            "started_at": 0, "ended_at": 1,
        }))
        .unwrap();
        let mut gpus = GpuSamples::since(100.0, ["GPU-a".to_owned()]);
        for n in 1..=100 {
            let (load, memory_load) = (Some(1.0), Some(0.25));
            gpus.push(0, GpuLook { at: 100.0 + f64::from(n) / 10.0, load, memory_load, ..GpuLook::default() });
        }
        let mut reported = ReportedNumbers::of(None);
        for epoch in 1..=4 {
            let begin = 100.0 + length * f64::from(epoch - 1);
            reported.epoch(crate::TimedEpoch { part: 0, epoch, began: begin, ended: begin + length });
        }
        let host = HostSamples::default();
        sum_up(&reported, AttemptSamples { started_at: 100.0, ended_at: 110.0, host: &host, gpus: &gpus }, &mut result);
        result.usage.gpus.remove(0)
    }

    #[test]
    fn the_load_of_epochs_that_are_over_at_once_is_not_known() {
        let (long, short) = (loads(1.0), loads(0.2));
        assert_eq!((long.load_mean, long.load_above_90, long.memory_load_mean), (Some(1.0), Some(1.0), Some(0.25)));
        assert_eq!((short.load_mean, short.load_above_90, short.memory_load_mean), (None, None, None));
        assert_eq!((short.load_whole, short.load_peak, short.load()), (Some(1.0), Some(1.0), Some(1.0)));
    }

    #[test]
    fn numbers_that_are_read_otherwise_than_before_are_named() {
        let metric =
            |value, unit: &str| Metric { value, unit: unit.to_owned(), epochs: None, sd: None, values: vec![] };
        let numbers = |all: &[(&str, f64, &str)]| -> BTreeMap<String, Metric> {
            all.iter().map(|(name, value, unit)| ((*name).to_owned(), metric(*value, unit))).collect()
        };
        let before = numbers(&[("acc", 0.5, "ratio"), ("n", 1.13, ""), ("peak", 1.3, "MiB")]);
        assert_eq!(changed(&before, &before), None);
        let after = numbers(&[("acc", 0.5, "ratio"), ("new", 1.0, ""), ("peak", 1240.0, "MiB")]);
        let expected = "its numbers were read again and changed: `n` was 1.13 and is no longer read; `peak` was 1.3 MiB, is 1240 MiB";
        assert_eq!(changed(&before, &after).as_deref(), Some(expected));
    }
}
