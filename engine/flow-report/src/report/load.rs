//! Load and memory of one result over time, thinned to what a chart can show, and the earlier figures for them.

use flow_core::reason::BuiltinFault;
use flow_core::{Outcome, Series, StepResult};
use serde::{Deserialize, Serialize};

use super::with::LoadWith;
use crate::chart::thinned;
use crate::columns::{is_at, written};
use crate::table::Table;

#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Load {
    pub(crate) label: String,
    /// Whether its time begins with the first epoch instead of the program's start.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(crate) of_epochs: bool,
    /// Columns, with seconds since the start and the share in per cent.
    pub(crate) lines: Vec<(String, Vec<(f64, f64)>)>,
    /// Every second epoch, so that adjacent epochs can be distinguished. Empty if there are many.
    pub(crate) odd_epochs: Vec<(f64, f64)>,
    /// Columns, with the earlier share in per cent.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) earlier: Vec<(String, f64)>,
}

/// Maximum epochs that are shaded.
const SHADED: usize = 20;
/// Minimum samples of a chart.
const FEWEST: usize = 4;

impl Load {
    /// The loads of the instances that the author of a section names.
    pub(super) fn all(
        requested: &[&LoadWith],
        table: &Table,
        results: &[(&StepResult, Option<&Series>)],
    ) -> Result<Vec<Load>, BuiltinFault> {
        let seen = |(result, series): &(&StepResult, Option<&Series>)| {
            let series = series.filter(|s| s.samples.get("cpu").is_some_and(|samples| samples.len() >= FEWEST))?;
            // A run that neither trains nor has a GPU has no load worth showing.
            let tells = !series.epoch_times.is_empty() || !result.usage.gpus.is_empty();
            (tells && result.outcome == Outcome::Ok).then(|| Load::of(result, series, table))
        };
        let mut loads = Vec::new();
        for LoadWith { load } in requested {
            let mut meant = results.iter().filter(|(result, _)| is_at(result, load)).peekable();
            if meant.peek().is_none() {
                let point = load.iter().map(|(axis, value)| format!("{axis}: {}", written(value)));
                let point = format!("{{{}}}", point.collect::<Vec<_>>().join(", "));
                return Err(BuiltinFault::ChartOfNoInstance { step: table.from.clone(), point });
            }
            loads.extend(meant.find_map(seen));
        }
        Ok(loads)
    }

    /// The load of a result with its series. The time before the first epoch is left out, if that is known.
    fn of(result: &StepResult, series: &Series, table: &Table) -> Load {
        let gpu = busiest(series);
        let circumstances = &result.circumstances;
        let total = circumstances.gpu_memory_total.get(gpu).copied().unwrap_or(0);
        let mut wanted = vec![
            ("cpu_util", "cpu".to_owned(), 1.0),
            ("gpu_load", format!("gpu{gpu}_load"), 1.0),
            ("gpu_memory_load", format!("gpu{gpu}_memory_load"), 1.0),
        ];
        match (total, circumstances.host_memory) {
            (0, 0) => {}
            (0, host) => wanted.push(("memory_share", "rss".to_owned(), host as f64)),
            (total, _) => wanted.push(("gpu_memory_share", format!("gpu{gpu}_memory"), total as f64)),
        }
        let epochs = series.epoch_times.iter().map(|epoch| epoch.began);
        let first = epochs.reduce(f64::min);
        // There may be too few samples after the first epoch.
        let shown = |since: &f64| {
            series.samples.get("cpu").is_some_and(|of| of.iter().filter(|(t, _)| t >= since).count() >= FEWEST)
        };
        let first = first.filter(shown);
        let start = first.unwrap_or(0.0);
        let line = |(column, sample, of): (&str, String, f64)| {
            let since = series.samples.get(&sample)?.iter().filter(|(t, _)| *t >= start);
            let points: Vec<(f64, f64)> = since.map(|(t, v)| (t - start, v / of * 100.0)).collect();
            Some((column.to_owned(), thinned(&points).into_iter().map(|(t, v)| (round(t), round(v))).collect()))
        };
        // Many stripes hide the lines.
        let few = series.epoch_times.len() <= SHADED;
        let odd = series.epoch_times.iter().filter(|of| few && of.epoch % 2 == 1);
        Load {
            label: result.label.clone(),
            of_epochs: first.is_some(),
            lines: wanted.into_iter().filter_map(line).collect(),
            odd_epochs: odd.map(|of| (round(of.began - start), round(of.ended - start))).collect(),
            earlier: earlier(result, table),
        }
    }
}

/// The earlier figures of the drawn shares.
fn earlier(result: &StepResult, table: &Table) -> Vec<(String, f64)> {
    let Some(of) = table.reference.as_ref().map(|reference| &reference.table) else { return Vec::new() };
    let is_at = |axis: &String, text: &str| result.axes.get(axis).is_some_and(|own| written(own) == text);
    let row = of.body.iter().find(|row| {
        of.rows.iter().zip(&row.cells).all(|(axis, cell)| cell.text().is_some_and(|text| is_at(axis, text)))
    });
    let part = of.split.as_ref().and_then(|(axis, _)| result.axes.get(axis)).map(written);
    let share = |name: &str| {
        let value = row?.cells[of.find(name, None, part.as_deref())?].number()?;
        Some((name.to_owned(), 100.0 * value))
    };
    ["cpu_util", "gpu_load", "gpu_memory_load", "gpu_memory_share"].into_iter().filter_map(share).collect()
}

/// The index of the busiest GPU of a placement; the first one if none was sampled.
fn busiest(series: &Series) -> usize {
    let mean = |n: usize| {
        let points = series.samples.get(&format!("gpu{n}_load"))?;
        Some(points.iter().map(|(_, load)| load).sum::<f64>() / points.len().max(1) as f64)
    };
    let loads = (0..).map_while(mean).enumerate();
    loads.fold((0, f64::MIN), |most, (n, load)| if load > most.1 { (n, load) } else { most }).0
}

/// Rounds to what a chart can show.
fn round(value: f64) -> f64 {
    (value * 1_000.0).round() / 1_000.0
}
