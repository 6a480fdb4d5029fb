//! The meaning of a column's name for one result: an axis, a measured column, a metric, a parameter or a fact. This
//! module does not know tables.

use flow_core::{
    GpuUsage, Mode, StepResult,
    reason::{Cause, Memory},
};
pub(crate) use flow_core::{hardware, likeness, unlike};
use indexmap::IndexMap;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// A value of a result, before it is shown.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Datum {
    /// A measured number, in the unit of its metric.
    Measured { value: f64, unit: String },
    /// A declared or reported value: an axis, a parameter, the name of a model. Also as a number, if it is one.
    Declared { text: String, number: Option<f64> },
    /// The program reported NaN or an infinite number.
    NotFinite(NotFinite),
    /// The value was not measured here, for example a figure of a GPU without a GPU.
    NotMeasured,
}

/// What a program reported instead of a finite number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum NotFinite {
    Nan,
    Infinity,
    MinusInfinity,
}

impl NotFinite {
    fn of(value: f64) -> NotFinite {
        match value {
            f64::INFINITY => NotFinite::Infinity,
            f64::NEG_INFINITY => NotFinite::MinusInfinity,
            _ => NotFinite::Nan,
        }
    }

    /// The text in a CSV file.
    pub(crate) fn text(self) -> &'static str {
        match self {
            NotFinite::Nan => "NaN",
            NotFinite::Infinity => "Infinity",
            NotFinite::MinusInfinity => "-Infinity",
        }
    }

    /// The text for a reader.
    pub(crate) fn symbol(self) -> &'static str {
        match self {
            NotFinite::Nan => "NaN",
            NotFinite::Infinity => "∞",
            NotFinite::MinusInfinity => "−∞",
        }
    }
}

/// A measured column of flow: its name, its unit, and its value in a result.
pub(crate) struct Measure {
    pub(crate) name: &'static str,
    pub(crate) unit: &'static str,
    value: Figure,
}

enum Figure {
    Number(fn(&StepResult) -> Option<f64>),
    /// A value that was given, not measured.
    Text(fn(&StepResult) -> Option<String>),
}

/// All measured columns, in the order of the documentation.
pub(crate) const USAGE: [Measure; 28] = [
    number("wall", "s", |r| r.usage.wall_s),
    number("cpu_time", "s", |r| r.usage.cpu_s),
    number("cpu_util", "ratio", |r| r.usage.cpu_util),
    number("cpu_util_peak", "ratio", |r| r.usage.cpu_util_peak),
    number("cpu_cores", "", |r| r.usage.cpu_cores),
    number("memory", "bytes", |r| Some(r.usage.rss_peak? as f64)),
    number("disk_read", "bytes", |r| Some(r.usage.disk_read? as f64)),
    number("disk_written", "bytes", |r| Some(r.usage.disk_written? as f64)),
    number("gpu_memory", "bytes", |r| busiest(r, |gpu| Some(gpu.memory_peak? as f64))),
    number("gpu_memory_mean", "bytes", |r| busiest(r, |gpu| Some(gpu.memory_mean? as f64))),
    number("gpu_memory_share", "ratio", gpu_memory_share),
    number("gpu_load", "ratio", |r| busiest(r, |gpu| gpu.load_mean)),
    number("gpu_load_peak", "ratio", |r| busiest(r, |gpu| gpu.load_peak)),
    number("gpu_load_above_90", "ratio", |r| busiest(r, |gpu| gpu.load_above_90)),
    number("gpu_memory_load", "ratio", |r| busiest(r, |gpu| gpu.memory_load_mean)),
    number("gpu_memory_load_peak", "ratio", |r| busiest(r, |gpu| gpu.memory_load_peak)),
    number("gpu_memory_load_above_90", "ratio", |r| busiest(r, |gpu| gpu.memory_load_above_90)),
    number("gpu_power", "W", gpu_power),
    number("energy", "J", |r| r.usage.energy_j),
    number("foreign_cpu", "ratio", |r| r.circumstances.foreign_cpu),
    number("cpu_saturated", "ratio", |r| r.circumstances.cpu_saturated),
    number("gpu_shared", "ratio", |r| r.circumstances.gpu_shared),
    number("sampler_cpu", "ratio", |r| r.usage.sampler_cpu),
    text("gpus", |r| gpus(r).filter(|n| *n > 0).map(|n| n.to_string())),
    text("cpus", |r| Some(r.circumstances.cpus).filter(|n| *n > 0).map(|n| n.to_string())),
    text("gpu_model", |r| r.circumstances.gpu_models.first().cloned()),
    text("cpu_model", |r| Some(r.circumstances.cpu_model.clone()).filter(|model| !model.is_empty())),
    text("pcie", |r| {
        let (generation, width) = r.usage.gpus.iter().find_map(|gpu| gpu.pcie)?;
        Some(format!("{generation}.0 x{width}"))
    }),
];

const fn number(name: &'static str, unit: &'static str, value: fn(&StepResult) -> Option<f64>) -> Measure {
    Measure { name, unit, value: Figure::Number(value) }
}

const fn text(name: &'static str, value: fn(&StepResult) -> Option<String>) -> Measure {
    Measure { name, unit: "", value: Figure::Text(value) }
}

/// The highest value of several GPUs, because that GPU is the limit. `None` if the value of any GPU is not known.
fn busiest(result: &StepResult, of: fn(&GpuUsage) -> Option<f64>) -> Option<f64> {
    let all: Option<Vec<f64>> = result.usage.gpus.iter().map(of).collect();
    all?.into_iter().reduce(f64::max)
}

fn gpu_memory_share(result: &StepResult) -> Option<f64> {
    let gpus = result.usage.gpus.iter().zip(&result.circumstances.gpu_memory_total);
    let shares = gpus.filter(|(_, total)| **total > 0);
    shares.filter_map(|(gpu, total)| Some(gpu.memory_peak? as f64 / *total as f64)).reduce(f64::max)
}

/// The power of all GPUs together.
fn gpu_power(result: &StepResult) -> Option<f64> {
    let gpus = &result.usage.gpus;
    gpus.iter().map(|gpu| gpu.power_mean).sum::<Option<f64>>().filter(|_| !gpus.is_empty())
}

/// A number that flow measured, by the name of its column; `None` if it was not measured. All displays use this
/// function.
pub fn measured(result: &StepResult, name: &str) -> Option<f64> {
    match USAGE.iter().find(|known| known.name == name)?.value {
        Figure::Number(value) => value(result).filter(|value| value.is_finite()),
        Figure::Text(_) => None,
    }
}

/// Whether flow has a measured column of this name.
pub(crate) fn is_usage(name: &str) -> bool {
    USAGE.iter().any(|known| known.name == name)
}

/// Whether flow measured this column of this result. An earlier figure that somebody else measured has no machine.
pub(crate) fn measures(result: &StepResult, name: &str) -> bool {
    is_usage(name) && (result.circumstances.host_cpus > 0 || name == "gpus" || !result.metrics.contains_key(name))
}

/// Whether the value of a column depends on other load: usage, times, rates.
pub(crate) fn is_timing(name: &str, results: &[&StepResult]) -> bool {
    let unit = results.iter().find_map(|result| result.metrics.get(name)).map_or("", |metric| &metric.unit);
    let of_time = matches!(unit, "s" | "ms" | "us" | "ns" | "min" | "h") || unit.ends_with("/s");
    is_usage(name) || of_time || name == "wall" || name.ends_with("_time") || name.ends_with("_per_s")
}

/// The value of a column; `None` if this result has nothing with that name.
pub(crate) fn datum(result: &StepResult, name: &str) -> Option<Datum> {
    if let Some(value) = result.axes.get(name) {
        return Some(declared(value));
    }
    if let Some(known) = USAGE.iter().find(|known| known.name == name).filter(|_| measures(result, name)) {
        return Some(usage(result, known));
    }
    if let Some(metric) = result.metrics.get(name) {
        let unit = metric.unit.clone();
        return Some(match metric.value.is_finite() {
            true => Datum::Measured { value: metric.value, unit },
            false => Datum::NotFinite(NotFinite::of(metric.value)),
        });
    }
    if let Some(value) = result.params.get(name).or_else(|| result.circumstances.params.get(name)) {
        return Some(declared(value));
    }
    result.circumstances.facts.get(name).map(|text| Datum::Declared { text: text.clone(), number: text.parse().ok() })
}

/// All names that a column of this result may have.
pub(crate) fn names(result: &StepResult) -> impl Iterator<Item = &str> {
    let usage = USAGE.iter().map(|known| known.name);
    let metrics = result.metrics.keys().map(String::as_str);
    let params = result.params.keys().chain(result.circumstances.params.keys());
    let params = params.chain(result.circumstances.facts.keys()).map(String::as_str);
    result.axes.keys().map(String::as_str).chain(metrics).chain(usage).chain(params)
}

/// A scalar as its author wrote it.
pub(crate) fn written(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

/// Whether two values are the same for the author, as `16` and `"16"` are.
pub(crate) fn same(a: &Value, b: &Value) -> bool {
    a == b || written(a) == written(b)
}

/// Whether a result has these axis values.
pub(crate) fn is_at(result: &StepResult, at: &IndexMap<String, Value>) -> bool {
    at.iter().all(|(axis, value)| result.axes.get(axis).is_some_and(|own| same(own, value)))
}

/// An axis value for places that do not show its axis: `v7` stays, a number becomes `lr=0.01`.
pub(crate) fn point(axis: &str, value: &str) -> String {
    match value.parse::<f64>().is_ok() || matches!(value, "" | "true" | "false" | "null") {
        true => format!("{axis}={value}"),
        false => value.to_owned(),
    }
}

pub(crate) fn declared(value: &Value) -> Datum {
    Datum::Declared { text: written(value), number: value.as_f64() }
}

/// Whether it was a GPU that ran out of memory.
pub(crate) fn gpu_memory_ran_out(result: &StepResult) -> bool {
    matches!(result.cause, Some(Cause::OutOfMemory { memory: Memory::Gpu, .. }))
}

/// The number of GPUs of an attempt; `None` if it never started.
pub(crate) fn gpus(result: &StepResult) -> Option<u32> {
    // A result without a host is an instance that was never placed, or an earlier figure. The latter may state the
    // number.
    match result.circumstances.host_cpus > 0 {
        true => Some(result.circumstances.gpu_models.len() as u32),
        false => result.metrics.get("gpus").map(|gpus| gpus.value as u32),
    }
}

/// Minimum share of a GPU's time slices that matters.
const GPU_SHARED: f64 = 0.01;

/// The share of its time in which other steps of flow used its GPU, if that was not requested and is not negligible.
pub(crate) fn gpu_shared(result: &StepResult) -> Option<f64> {
    let circumstances = &result.circumstances;
    circumstances.gpu_shared.filter(|share| circumstances.mode != Mode::Corun && *share > GPU_SHARED)
}

fn usage(result: &StepResult, of: &Measure) -> Datum {
    let datum = match of.value {
        Figure::Number(_) => measured(result, of.name).map(|value| Datum::Measured { value, unit: of.unit.to_owned() }),
        Figure::Text(value) => value(result).map(|text| Datum::Declared { number: text.parse().ok(), text }),
    };
    datum.unwrap_or(Datum::NotMeasured)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_documentation_has_every_measure_with_its_unit() {
        let page = include_str!("../../../docs/language.md");
        let rows = page.split("### Measured columns").nth(1).expect("the table");
        for Measure { name, unit, .. } in &USAGE {
            let row = rows.lines().find(|row| row.starts_with("| ") && row.contains(&format!("`{name}`")));
            let row = row.unwrap_or_else(|| panic!("docs/language.md has no row for {name}"));
            assert!(unit.is_empty() || row.contains(&format!("| {unit} |")), "{name} is in {unit}: {row}");
        }
    }
}
