//! Epochs as rows: a result with values of each epoch becomes a result of each epoch.

use std::collections::BTreeSet;

use flow_core::{GpuUsage, Metric, Outcome, Series, StepResult, Usage};
use serde_json::Value;

use super::with::TableWith;

/// What the rows are called; an axis of that name goes before.
pub(crate) const EPOCH: &str = "epoch";

/// Whether the rows of a step with these axes are to be epochs.
pub(super) fn are_rows(with: &TableWith, axes: &[&str]) -> bool {
    with.rows.list().iter().any(|axis| axis == EPOCH) && !axes.contains(&EPOCH)
}

/// The results of each epoch. One without epochs, which ran out of memory perhaps, stays one.
pub(super) fn each(result: &StepResult, series: Option<&Series>) -> Vec<StepResult> {
    let numbers: BTreeSet<u32> = match series.filter(|_| result.outcome == Outcome::Ok) {
        Some(series) => series.epochs.values().flatten().map(|(epoch, _)| *epoch).collect(),
        None => BTreeSet::new(),
    };
    let Some(series) = series.filter(|_| !numbers.is_empty()) else {
        let mut whole = result.clone();
        whole.axes.insert(EPOCH.to_owned(), Value::from("—"));
        return vec![whole];
    };
    numbers.into_iter().map(|epoch| one(result, series, epoch)).collect()
}

fn one(result: &StepResult, series: &Series, epoch: u32) -> StepResult {
    let mut of_epoch = result.clone();
    of_epoch.axes.insert(EPOCH.to_owned(), epoch.into());
    for (name, values) in &series.epochs {
        let value = values.iter().find(|(of, _)| *of == epoch).map(|(_, value)| *value);
        match (value, result.metrics.get(name)) {
            (Some(value), Some(whole)) => {
                let metric = Metric { value, unit: whole.unit.clone(), epochs: None, sd: None, values: Vec::new() };
                of_epoch.metrics.insert(name.clone(), metric);
            }
            _ => {
                of_epoch.metrics.remove(name);
            }
        }
    }
    let window = series.epoch_times.iter().find(|(of, ..)| *of == epoch);
    of_epoch.usage = window.map_or_else(Usage::default, |(_, from, to)| used(result, series, (*from, *to)));
    of_epoch
}

/// What was used in a window, from the samples in it.
fn used(result: &StepResult, series: &Series, (from, to): (f64, f64)) -> Usage {
    let within = |name: &str| -> Vec<f64> {
        let samples = series.samples.get(name).into_iter().flatten();
        samples.filter(|(at, _)| (from..=to).contains(at)).map(|(_, value)| *value).collect()
    };
    let mean = |values: &[f64]| values.iter().sum::<f64>() / values.len() as f64;
    let most = |values: &[f64]| values.iter().copied().fold(0.0, f64::max);
    let mut usage = Usage { wall_s: to - from, ..Usage::default() };
    let cpu = within("cpu");
    if !cpu.is_empty() {
        usage.samples = cpu.len() as u32;
        (usage.cpu_util, usage.cpu_util_peak) = (mean(&cpu), most(&cpu));
        usage.cpu_cores = mean(&within("cpu_cores"));
        usage.rss_peak = most(&within("rss")) as u64;
    }
    for (n, gpu) in result.usage.gpus.iter().enumerate() {
        let load = within(&format!("gpu{n}_load"));
        if load.is_empty() {
            return Usage { gpus: Vec::new(), ..usage };
        }
        let (memory, memory_load) = (within(&format!("gpu{n}_memory")), within(&format!("gpu{n}_memory_load")));
        usage.gpus.push(GpuUsage {
            uuid: gpu.uuid.clone(),
            memory_peak: most(&memory) as u64,
            memory_mean: mean(&memory) as u64,
            load_mean: mean(&load),
            load_peak: most(&load),
            memory_load_mean: mean(&memory_load),
            memory_load_peak: most(&memory_load),
            pcie: gpu.pcie,
            ..GpuUsage::default()
        });
    }
    usage
}
