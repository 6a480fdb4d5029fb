//! The scatter of trainings that differ only by chance, from trainings that were repeated for any purpose. With it,
//! flow can judge a table with one training per row.

use std::collections::BTreeMap;

use flow_core::{Key, Metric, Outcome, StepResult, StepView};
use serde_json::Value;

use crate::columns::{Datum, datum};

/// The time per epoch, which a program has if it reports its epochs.
const EPOCH_TIME: &str = "epoch_time";

/// Words in the names of metrics that a model learns and that differ between trainings.
const LEARNED: [&str; 6] = ["top1", "top5", "accuracy", "acc", "f1", "auc"];
/// Words that also name other things, such as the loss of a cable.
const OF_EPOCHS: [&str; 3] = ["error", "loss", "map"];

/// Results of steps, with the repetitions of their instances.
pub(crate) struct Trainings<'a> {
    results: Vec<&'a StepResult>,
    have_epochs: bool,
}

impl<'a> Trainings<'a> {
    pub(crate) fn of(steps: [Option<&'a StepView>; 2]) -> Self {
        let steps = || steps.into_iter().flatten();
        let all = steps().flat_map(|step| step.results.iter().chain(&step.again));
        let results = all.filter(|result| result.outcome == Outcome::Ok && result.disturbances.is_empty()).collect();
        let by_epoch = |metric: (&String, &Metric)| metric.0 == EPOCH_TIME || metric.1.epochs.is_some();
        let series = |step: &StepView| {
            step.series
                .iter()
                .flatten()
                .any(|series| series.metrics.values().flatten().any(|point| point.key != Key::default()))
        };
        let tells = |step: &StepView| series(step) || step.results.iter().any(|r| r.metrics.iter().any(by_epoch));
        Trainings { results, have_epochs: steps().any(tells) }
    }

    /// The same without any repeated training.
    pub(crate) fn once(&self) -> Trainings<'static> {
        Trainings { results: Vec::new(), have_epochs: self.have_epochs }
    }

    /// Whether a model learns this column, judged by a word of its name: `valid_loss`.
    pub(crate) fn teach(&self, column: &str) -> bool {
        let told = |word: &str| LEARNED.contains(&word) || self.have_epochs && OF_EPOCHS.contains(&word);
        column.split('_').any(told)
    }

    /// The standard deviation of a column between trainings and its degrees of freedom. With `relative`, the deviation
    /// is relative to the mean. `None` if nothing was repeated, or if chance plays no role.
    pub(crate) fn spread(&self, column: &str, relative: bool) -> Option<(f64, u32)> {
        let mut same: BTreeMap<(&str, String), Vec<f64>> = BTreeMap::new();
        for result in &self.results {
            let Some(Datum::Measured { value, .. }) = datum(result, column) else { continue };
            let place = (result.step.as_str(), Value::from_iter(result.axes.clone()).to_string());
            same.entry(place).or_default().push(if relative { value.ln() } else { value });
        }
        let (mut squares, mut freedom) = (0.0, 0);
        for values in same.values() {
            let mean = values.iter().sum::<f64>() / values.len() as f64;
            squares += values.iter().map(|value| (value - mean).powi(2)).sum::<f64>();
            freedom += values.len() as u32 - 1;
        }
        let sd = (squares / f64::from(freedom.max(1))).sqrt();
        (sd > 0.0 && sd.is_finite()).then_some((sd, freedom))
    }
}
