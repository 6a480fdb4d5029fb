//! The load over time of one result, as much of it as a picture can show.

use flow_core::Series;
use serde::{Deserialize, Serialize};

use crate::chart::thinned;

/// Shares over time.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Load {
    /// The result.
    pub(crate) label: String,
    /// Columns, with seconds since the start and the share in per cent.
    pub(crate) lines: Vec<(String, Vec<(f64, f64)>)>,
    /// Every second epoch, so that neighbours can be told apart.
    pub(crate) odd_epochs: Vec<(f64, f64)>,
}

impl Load {
    /// Of a result with its series.
    pub(super) fn of(label: &str, series: &Series) -> Load {
        let gpu = busiest(series);
        let wanted = [
            ("cpu_util", "cpu".to_owned()),
            ("gpu_load", format!("gpu{gpu}_load")),
            ("gpu_memory_load", format!("gpu{gpu}_memory_load")),
        ];
        let line = |(column, sample): (&str, String)| {
            let points: Vec<(f64, f64)> = series.samples.get(&sample)?.iter().map(|(t, v)| (*t, v * 100.0)).collect();
            Some((column.to_owned(), thinned(&points).into_iter().map(|(t, v)| (round(t), round(v))).collect()))
        };
        let odd = series.epoch_times.iter().filter(|(epoch, ..)| epoch % 2 == 1);
        Load {
            label: label.to_owned(),
            lines: wanted.into_iter().filter_map(line).collect(),
            odd_epochs: odd.map(|(_, begin, end)| (round(*begin), round(*end))).collect(),
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
