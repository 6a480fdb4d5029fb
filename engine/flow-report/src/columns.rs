//! What a column's name means for one result: an axis, something flow measured, a metric, a parameter, a fact. It knows no
//! table.

use flow_core::{
    GpuUsage, Mode, StepResult,
    reason::{Cause, Memory},
};
pub(crate) use flow_core::{hardware, likeness, unlike};
use serde_json::Value;

/// A value of a result, before it is shown.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Datum {
    /// A number that somebody measured, in a metric's unit, and whether a longer series stands behind it.
    Measured { value: f64, unit: String },
    /// Something that was declared or told: an axis, a parameter, a model's name. The number, where it is one.
    Declared { text: String, number: Option<f64> },
    /// The program reported NaN or infinity.
    NotANumber,
    /// Not measured here: a GPU's figure without a GPU.
    NotMeasured,
}

/// The measurements of flow itself, `(name, unit)`, in the order in which they are documented.
pub(crate) const USAGE: [(&str, &str); 28] = [
    ("wall", "s"),
    ("cpu_time", "s"),
    ("cpu_util", "ratio"),
    ("cpu_util_peak", "ratio"),
    ("cpu_cores", ""),
    ("memory", "bytes"),
    ("disk_read", "bytes"),
    ("disk_written", "bytes"),
    ("gpu_memory", "bytes"),
    ("gpu_memory_mean", "bytes"),
    ("gpu_memory_share", "ratio"),
    ("gpu_load", "ratio"),
    ("gpu_load_peak", "ratio"),
    ("gpu_load_above_90", "ratio"),
    ("gpu_memory_load", "ratio"),
    ("gpu_memory_load_peak", "ratio"),
    ("gpu_memory_load_above_90", "ratio"),
    ("gpu_power", "W"),
    ("energy", "J"),
    ("foreign_cpu", "ratio"),
    ("cpu_saturated", "ratio"),
    ("gpu_shared", "ratio"),
    ("sampler_cpu", "ratio"),
    ("gpus", ""),
    ("cpus", ""),
    ("gpu_model", ""),
    ("cpu_model", ""),
    ("pcie", ""),
];

/// flow measures something of that name.
pub(crate) fn is_usage(name: &str) -> bool {
    USAGE.iter().any(|(known, _)| *known == name)
}

/// Of this result flow measured what has that name: an earlier figure that somebody else measured has no machine.
pub(crate) fn measures(result: &StepResult, name: &str) -> bool {
    is_usage(name) && (result.circumstances.host_cpus > 0 || name == "gpus" || !result.metrics.contains_key(name))
}

/// What is shown under that name depends on what else was going on: usage, times, rates.
pub(crate) fn is_timing(name: &str, results: &[&StepResult]) -> bool {
    let unit = results.iter().find_map(|result| result.metrics.get(name)).map_or("", |metric| &metric.unit);
    let of_time = matches!(unit, "s" | "ms" | "us" | "ns" | "min" | "h") || unit.ends_with("/s");
    is_usage(name) || of_time || name == "wall" || name.ends_with("_time") || name.ends_with("_per_s")
}

/// The value of a column's name; `None` if this result has nothing of that name.
pub(crate) fn datum(result: &StepResult, name: &str) -> Option<Datum> {
    if let Some(value) = result.axes.get(name) {
        return Some(declared(value));
    }
    if let Some((_, unit)) = USAGE.iter().find(|(known, _)| *known == name).filter(|_| measures(result, name)) {
        return Some(usage(result, name, unit));
    }
    if let Some(metric) = result.metrics.get(name) {
        let unit = metric.unit.clone();
        return Some(match metric.value.is_finite() {
            true => Datum::Measured { value: metric.value, unit },
            false => Datum::NotANumber,
        });
    }
    if let Some(value) = result.params.get(name) {
        return Some(declared(value));
    }
    result.circumstances.facts.get(name).map(|text| Datum::Declared { text: text.clone(), number: text.parse().ok() })
}

/// Every name that some column of this result could have.
pub(crate) fn names(result: &StepResult) -> impl Iterator<Item = &str> {
    let usage = USAGE.iter().map(|(name, _)| *name);
    let metrics = result.metrics.keys().map(String::as_str);
    let params = result.params.keys().chain(result.circumstances.facts.keys()).map(String::as_str);
    result.axes.keys().map(String::as_str).chain(metrics).chain(usage).chain(params)
}

/// Declared things are known of a result whatever became of it.
pub(crate) fn is_declared(datum: &Datum) -> bool {
    matches!(datum, Datum::Declared { .. })
}

/// A scalar as its author wrote it.
pub(crate) fn written(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

/// `16` and `"16"` are the same to the author.
pub(crate) fn same(a: &Value, b: &Value) -> bool {
    a == b || written(a) == written(b)
}

/// A value of an axis where its axis is not beside it: `v7` speaks for itself, `lr=0.01` has to say what it is.
pub(crate) fn point(axis: &str, value: &str) -> String {
    match value.parse::<f64>().is_ok() || matches!(value, "" | "true" | "false" | "null") {
        true => format!("{axis}={value}"),
        false => value.to_owned(),
    }
}

pub(crate) fn declared(value: &Value) -> Datum {
    Datum::Declared { text: written(value), number: value.as_f64() }
}

/// The memory that did not suffice was a GPU's.
pub(crate) fn gpu_memory_ran_out(result: &StepResult) -> bool {
    matches!(result.cause, Some(Cause::OutOfMemory { memory: Memory::Gpu, .. }))
}

/// How many GPUs an attempt held; `None` if it never started.
pub(crate) fn gpus(result: &StepResult) -> Option<u32> {
    // A result without a host is one of an instance that was never placed, or an earlier figure, which may say it.
    match result.circumstances.host_cpus > 0 {
        true => Some(result.circumstances.gpu_models.len() as u32),
        false => result.metrics.get("gpus").map(|gpus| gpus.value as u32),
    }
}

/// A share of a GPU's time slices that counts.
const GPU_SHARED: f64 = 0.01;

/// The share of its time in which others of flow's own computed on its GPU, where that was neither asked for nor next to nothing.
pub(crate) fn gpu_shared(result: &StepResult) -> Option<f64> {
    let circumstances = &result.circumstances;
    circumstances.gpu_shared.filter(|share| circumstances.mode != Mode::Corun && *share > GPU_SHARED)
}

fn usage(result: &StepResult, name: &str, unit: &str) -> Datum {
    let (usage, circumstances) = (&result.usage, &result.circumstances);
    let most = |of: fn(&GpuUsage) -> f64| usage.gpus.iter().map(of).reduce(f64::max);
    let told = |of: fn(&GpuUsage) -> f64| most(of).filter(|_| result.tells_gpu_load());
    let text = |text: Option<String>| match text {
        Some(text) => Datum::Declared { number: text.parse().ok(), text },
        None => Datum::NotMeasured,
    };
    let placed = circumstances.host_cpus > 0;
    let value = match name {
        // Of a result that was never placed, or an earlier figure, these are zeros that nobody measured.
        "wall" => Some(usage.wall_s).filter(|wall| placed || *wall > 0.0),
        "cpu_time" => placed.then_some(usage.cpu_s),
        "disk_read" => placed.then_some(usage.disk_read as f64),
        "disk_written" => placed.then_some(usage.disk_written as f64),
        // So are these without a sample of `/proc`.
        "cpu_util" => (usage.samples > 0).then_some(usage.cpu_util),
        "cpu_util_peak" => (usage.samples > 0).then_some(usage.cpu_util_peak),
        "cpu_cores" => (usage.samples > 0).then_some(usage.cpu_cores),
        "memory" => (usage.samples > 0).then_some(usage.rss_peak as f64),
        "foreign_cpu" => (usage.samples > 0).then_some(circumstances.foreign_cpu),
        "cpu_saturated" => (usage.samples > 0).then_some(circumstances.cpu_saturated),
        "sampler_cpu" => (usage.samples > 0).then_some(usage.sampler_cpu),
        "gpu_shared" => circumstances.gpu_shared,
        // Of several GPUs the busiest: it is the one that limits.
        "gpu_memory" => most(|g| g.memory_peak as f64),
        "gpu_memory_mean" => most(|g| g.memory_mean as f64),
        "gpu_memory_share" => {
            let shares = usage.gpus.iter().zip(&circumstances.gpu_memory_total).filter(|(_, total)| **total > 0);
            shares.map(|(gpu, total)| gpu.memory_peak as f64 / *total as f64).reduce(f64::max)
        }
        "gpu_load" => told(|g| g.load_mean),
        "gpu_load_peak" => most(|g| g.load_peak),
        "gpu_load_above_90" => told(|g| g.load_above_90),
        "gpu_memory_load" => told(|g| g.memory_load_mean),
        "gpu_memory_load_peak" => most(|g| g.memory_load_peak),
        "gpu_memory_load_above_90" => told(|g| g.memory_load_above_90),
        // All of them together.
        "gpu_power" => usage.gpus.iter().map(|g| g.power_mean).sum::<Option<f64>>().filter(|_| !usage.gpus.is_empty()),
        "energy" => usage.energy_j,
        "gpus" => return text(gpus(result).filter(|n| *n > 0).map(|n| n.to_string())),
        "cpus" => return text(placed.then(|| circumstances.cpus.to_string())),
        "gpu_model" => return text(circumstances.gpu_models.first().cloned()),
        "cpu_model" => return text(placed.then(|| circumstances.cpu_model.clone())),
        "pcie" => {
            let link = usage.gpus.iter().find_map(|g| g.pcie);
            return text(link.map(|(generation, width)| format!("{generation}.0 x{width}")));
        }
        _ => None,
    };
    match value.filter(|v| v.is_finite()) {
        Some(value) => Datum::Measured { value, unit: unit.to_owned() },
        None => Datum::NotMeasured,
    }
}
