//! How much trainings differ that are the same but for chance, as far as somebody repeated them for anything: what lets a table of
//! one training a row be judged.

use std::collections::BTreeMap;

use flow_core::{Outcome, StepResult, StepView};
use serde_json::Value;

use crate::columns::{Datum, datum};

/// Steps some of whose instances may have been run more than once.
#[derive(Default)]
pub(crate) struct Trainings<'a>(Vec<&'a StepResult>);

impl<'a> Trainings<'a> {
    pub(crate) fn of(steps: [Option<&'a StepView>; 2]) -> Self {
        let all = steps.into_iter().flatten().flat_map(|step| step.results.iter().chain(&step.again));
        Trainings(all.filter(|result| result.outcome == Outcome::Ok && result.spoiled.is_empty()).collect())
    }

    /// The standard deviation of a column from one training to the next, relative to their mean if that is asked, with its degrees
    /// of freedom; none where nothing was repeated, or where chance has no part in it.
    pub(crate) fn spread(&self, column: &str, relative: bool) -> Option<(f64, u32)> {
        let mut same: BTreeMap<(&str, String), Vec<f64>> = BTreeMap::new();
        for result in &self.0 {
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
