//! Epochs or steps as rows: a result with a series becomes one result for each epoch, or each step.

use std::collections::BTreeMap;

use flow_core::{GPU_LOAD_SPAN, GpuUsage, Metric, Outcome, Point, Series, StepResult, Usage};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::with::{OneOrMany, TableWith, parse_column};

/// Names of the row axes for epochs and steps. An axis of the step with the same name takes precedence.
pub(crate) const EPOCH: &str = "epoch";
pub(crate) const STEP: &str = "step";
/// Name of the row axis above epochs or steps, if their numbers start again within a result.
pub(crate) const PART: &str = "part";

/// The time of an epoch.
pub(super) const EPOCH_TIME: &str = "epoch_time";

/// The unit of a series: what its rows in a table are, and the x axis of its chart.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[schemars(extend("x-flow-help" = "if the program counts with another word, write its placeholder as `{epoch}`: 'pass {epoch}: loss {loss}'"))]
pub(crate) enum SeriesUnit {
    /// The epochs of each instance.
    Epoch,
    /// The steps of each instance.
    Step,
}

impl SeriesUnit {
    /// Whether rows are epochs or steps, for a step with these axes. `None` if all rows are axes.
    pub(super) fn of(with: &TableWith, axes: &[&str]) -> Option<SeriesUnit> {
        let named = |name: &str| with.rows.list().iter().any(|axis| axis == name) && !axes.contains(&name);
        if named(EPOCH) { Some(SeriesUnit::Epoch) } else { named(STEP).then_some(SeriesUnit::Step) }
    }

    pub(crate) fn name(self) -> &'static str {
        match self {
            SeriesUnit::Epoch => EPOCH,
            SeriesUnit::Step => STEP,
        }
    }

    /// The row of a point. A point at epoch 0.5 is in row 1, the epoch that was running.
    fn row(self, point: &Point) -> Option<i64> {
        let place = match self {
            SeriesUnit::Epoch => point.key.epoch?.ceil(),
            SeriesUnit::Step => point.key.step?,
        };
        Some(place as i64)
    }
}

/// Whether `epoch_time` lacks the only epoch of a result, or the first row of its epochs, because that includes
/// start-up.
pub(super) fn lacks_start_up<'a>(
    with: &TableWith,
    mut results: impl Iterator<Item = (usize, &'a StepResult)>,
    series: &[Option<Series>],
) -> bool {
    let is_shown =
        with.columns.iter().any(|column| parse_column(column.text()).is_ok_and(|(_, name)| name == EPOCH_TIME));
    let by_epoch = with.rows.list().iter().any(|axis| axis == EPOCH);
    let lacks_first = |at: usize| {
        let Some(Some(series)) = series.get(at) else { return false };
        let timed = series.metrics.get(EPOCH_TIME).map_or(0, Vec::len);
        timed > 0 && timed + 1 == series.epoch_times.len()
    };
    let lacks_only = |result: &StepResult| {
        let has_one = result.usage.phases.is_some_and(|phases| phases.epochs == 1);
        has_one && result.circumstances.corun.is_none() && !result.metrics.contains_key(EPOCH_TIME)
    };
    is_shown && results.any(|(at, result)| lacks_only(result) || by_epoch && lacks_first(at))
}

/// A copy of `with` that has a row for each part of a series, above its epochs or steps.
pub(super) fn with_parts(with: &TableWith) -> TableWith {
    let mut rows = with.rows.list().to_vec();
    let at = rows.iter().position(|row| [EPOCH, STEP].contains(&row.as_str())).unwrap_or(rows.len());
    rows.insert(at, PART.to_owned());
    TableWith { rows: OneOrMany::Many(rows), ..with.clone() }
}

/// Splits a result into one per row. A result without such rows stays whole, for example one that ran out of memory.
pub(super) fn each(result: &StepResult, series: Option<&Series>, along: SeriesUnit, parts: bool) -> Vec<StepResult> {
    let mut rows: BTreeMap<(u32, i64), BTreeMap<&str, f64>> = BTreeMap::new();
    let known = series.filter(|_| result.outcome == Outcome::Ok);
    for (name, points) in known.into_iter().flat_map(|series| &series.metrics) {
        for point in points {
            if let Some(row) = along.row(point) {
                rows.entry((point.part, row)).or_default().insert(name, point.value);
            }
        }
    }
    let with_axes = |mut result: StepResult, part: Value, row: Value| {
        if parts {
            result.axes.insert(PART.to_owned(), part);
        }
        result.axes.insert(along.name().to_owned(), row);
        result
    };
    let Some(series) = known.filter(|_| !rows.is_empty()) else {
        return vec![with_axes(result.clone(), Value::from("—"), Value::from("—"))];
    };
    let one = |((part, row), values)| {
        let mut of_row = StepResult {
            metrics: metrics(result, values),
            usage: usage(result, series, along, (part, row)),
            ..result.clone()
        };
        // Figures that are only known for the whole run are a gap.
        let seen = &mut of_row.circumstances;
        (seen.foreign_cpu, seen.cpu_saturated, seen.gpu_shared) = (None, None, None);
        with_axes(of_row, part.into(), row.into())
    };
    rows.into_iter().map(one).collect()
}

/// The numbers that were printed in a row. A number of the whole attempt belongs to no row.
fn metrics(result: &StepResult, values: BTreeMap<&str, f64>) -> BTreeMap<String, Metric> {
    let metric = |(name, value): (&str, f64)| {
        let unit = result.metrics.get(name).map(|whole| whole.unit.clone()).unwrap_or_default();
        (name.to_owned(), Metric { value, unit, epochs: None, sd: None, values: Vec::new() })
    };
    values.into_iter().map(metric).collect()
}

fn usage(result: &StepResult, series: &Series, along: SeriesUnit, (part, row): (u32, i64)) -> Usage {
    let is_row =
        |of: &&flow_core::TimedEpoch| along == SeriesUnit::Epoch && (of.part, i64::from(of.epoch)) == (part, row);
    let epoch = series.epoch_times.iter().find(is_row);
    let mut usage = epoch.map_or_else(Usage::default, |epoch| used(result, series, epoch.span()));
    // The first row has no `epoch_time` if it includes start-up, nor has the only one.
    let times = series.metrics.get(EPOCH_TIME);
    let is_timed = |times: &Vec<Point>| times.iter().any(|point| (point.part, along.row(point)) == (part, Some(row)));
    usage.wall_s = usage.wall_s.filter(|_| times.is_some_and(is_timed));
    usage
}

/// The usage within a window, computed from its samples.
fn used(result: &StepResult, series: &Series, (from, to): (f64, f64)) -> Usage {
    let within = |name: &str| -> Vec<f64> {
        let samples = series.samples.get(name).into_iter().flatten();
        samples.filter(|(at, _)| (from..=to).contains(at)).map(|(_, value)| *value).collect()
    };
    let mean = |values: &[f64]| (!values.is_empty()).then(|| values.iter().sum::<f64>() / values.len() as f64);
    let most = |values: &[f64]| values.iter().copied().reduce(f64::max);
    let cpu = within("cpu");
    let of_gpu = |(n, gpu): (usize, &GpuUsage)| {
        let of = |name: &str| within(&format!("gpu{n}_{name}"));
        let (memory, load, memory_load) = (of("memory"), of("load"), of("memory_load"));
        let told = |mean: Option<f64>| mean.filter(|_| to - from >= GPU_LOAD_SPAN);
        GpuUsage {
            uuid: gpu.uuid.clone(),
            memory_peak: most(&memory).map(|bytes| bytes as u64),
            memory_mean: mean(&memory).map(|bytes| bytes as u64),
            load_mean: told(mean(&load)),
            load_peak: most(&load),
            memory_load_mean: told(mean(&memory_load)),
            memory_load_peak: most(&memory_load),
            pcie: gpu.pcie,
            ..GpuUsage::default()
        }
    };
    Usage {
        wall_s: Some(to - from),
        cpu_util: mean(&cpu),
        cpu_util_peak: most(&cpu),
        cpu_cores: mean(&within("cpu_cores")),
        rss_peak: most(&within("rss")).filter(|bytes| *bytes > 0.0).map(|bytes| bytes as u64),
        samples: cpu.len() as u32,
        gpus: result.usage.gpus.iter().enumerate().map(of_gpu).collect(),
        ..Usage::default()
    }
}

#[cfg(test)]
mod tests {
    use flow_core::{Key, TimedEpoch};
    use serde_json::json;

    use super::*;

    #[test]
    fn the_wall_time_of_an_epoch_never_includes_start_up() {
        let result: StepResult = serde_json::from_value(json!({
            "fingerprint": "0".repeat(64), "workflow": "w", "step": "s", "label": "s", "axes": {}, "outcome": "ok",
            "run": "1", "started_at": 0, "ended_at": 1,
        }))
        .unwrap();
        let walls = |epochs: u32, timed: std::ops::RangeInclusive<u32>| {
            let span = |epoch: u32| (f64::from(epoch) - 1.0, f64::from(epoch));
            let epoch = |epoch| TimedEpoch { part: 0, epoch, began: span(epoch).0, ended: span(epoch).1 };
            let point = |epoch| Point { part: 0, key: Key::of_epoch(epoch), value: 1.0 };
            let mut series = Series { epoch_times: (1..=epochs).map(epoch).collect(), ..Series::default() };
            if !timed.is_empty() {
                series.metrics.insert(EPOCH_TIME.to_owned(), timed.map(point).collect());
            }
            let wall = |epoch: u32| usage(&result, &series, SeriesUnit::Epoch, (0, i64::from(epoch))).wall_s;
            (1..=epochs).map(wall).collect::<Vec<_>>()
        };
        assert_eq!(walls(3, 2..=3), [None, Some(1.0), Some(1.0)]);
        assert_eq!(walls(2, 1..=2), [Some(1.0), Some(1.0)], "it said when it was ready");
        #[expect(clippy::reversed_empty_ranges, reason = "no epoch counts")]
        let none = 2..=1;
        assert_eq!(walls(1, none), [None]);
    }
}
