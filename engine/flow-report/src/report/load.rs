//! The load over time of one result, as much of it as a picture can show.

use flow_core::Series;
use serde::{Deserialize, Serialize};

use crate::chart::thinned;

/// Shares over time.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Load {
    /// The result.
    pub(crate) label: String,
    /// Its time begins with the first epoch, not with the program.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(crate) of_epochs: bool,
    /// Columns, with seconds since then and the share in per cent.
    pub(crate) lines: Vec<(String, Vec<(f64, f64)>)>,
    /// Every second epoch, so that neighbours can be told apart.
    pub(crate) odd_epochs: Vec<(f64, f64)>,
}

impl Load {
    /// Of a result with its series: without what a program does before its first epoch, where that is known.
    pub(super) fn of(label: &str, series: &Series) -> Load {
        let gpu = busiest(series);
        let wanted = [
            ("cpu_util", "cpu".to_owned()),
            ("gpu_load", format!("gpu{gpu}_load")),
            ("gpu_memory_load", format!("gpu{gpu}_memory_load")),
        ];
        let epochs = series.epoch_times.iter().map(|(_, begin, _)| *begin);
        let first = epochs.reduce(f64::min);
        // Too little of the load may be known since then to show it.
        let shown = |since: &f64| {
            series.samples.get("cpu").is_some_and(|of| of.iter().filter(|(t, _)| t >= since).count() >= 4)
        };
        let first = first.filter(shown);
        let start = first.unwrap_or(0.0);
        let line = |(column, sample): (&str, String)| {
            let since = series.samples.get(&sample)?.iter().filter(|(t, _)| *t >= start);
            let points: Vec<(f64, f64)> = since.map(|(t, v)| (t - start, v * 100.0)).collect();
            Some((column.to_owned(), thinned(&points).into_iter().map(|(t, v)| (round(t), round(v))).collect()))
        };
        let odd = series.epoch_times.iter().filter(|(epoch, ..)| epoch % 2 == 1);
        Load {
            label: label.to_owned(),
            of_epochs: first.is_some(),
            lines: wanted.into_iter().filter_map(line).collect(),
            odd_epochs: odd.map(|(_, begin, end)| (round(begin - start), round(end - start))).collect(),
        }
    }
}

/// The GPU of a placement, by its place, that was busy most; the first where none was sampled.
fn busiest(series: &Series) -> usize {
    let mean = |n: usize| {
        let points = series.samples.get(&format!("gpu{n}_load"))?;
        Some(points.iter().map(|(_, load)| load).sum::<f64>() / points.len().max(1) as f64)
    };
    let loads = (0..).map_while(mean).enumerate();
    loads.fold((0, f64::MIN), |most, (n, load)| if load > most.1 { (n, load) } else { most }).0
}

/// To what a picture can show of it.
fn round(value: f64) -> f64 {
    (value * 1_000.0).round() / 1_000.0
}
