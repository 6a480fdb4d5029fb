//! Results that are valid but weak evidence: very short epochs, too few epochs to show their scatter, models that
//! learned nothing, a GPU memory limit that was set.

use std::collections::{BTreeMap, BTreeSet};

use flow_core::{Outcome, StepResult};
use serde::{Deserialize, Serialize};

use crate::columns::{Datum, datum};
use crate::format::Format;
use crate::safe;
use crate::table::{inline, name};
use crate::words::{Args, Locale};

/// An epoch of fewer seconds is very short.
const SHORT: f64 = 5.0;
/// Minimum epochs that show their scatter.
const EPOCHS: u32 = 3;
/// A score within this share of the score by guessing means that nothing was learned.
const CHANCE: f64 = 0.1;
/// Metrics that are shares of correct answers.
const RIGHT: [&str; 2] = ["top1", "accuracy"];

/// Results that are weak evidence, by label.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Doubts {
    /// Seconds of an epoch, if that is short.
    short: BTreeMap<String, f64>,
    /// Number of epochs that count, if they are few.
    few: BTreeMap<String, u32>,
    /// Metric, share of correct answers and number of classes, if guessing does as well.
    chance: BTreeMap<String, (String, f64, u32)>,
    /// The limit of GPU memory in bytes, if something ran out of it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    limit: Option<f64>,
}

impl Doubts {
    /// Doubts about results. Times are judged if the report shows any (`is_timed`). Epochs of the results in `otherwise`,
    /// given by label, are not epochs of a training and are not judged.
    pub(super) fn of(results: &[&StepResult], is_timed: bool, otherwise: &BTreeSet<&str>) -> Doubts {
        let mut doubts = Doubts { limit: limit(results.iter().copied()), ..Doubts::default() };
        for result in results.iter().filter(|result| result.outcome == Outcome::Ok) {
            let label = || result.label.clone();
            let epochs = is_timed && !otherwise.contains(result.label.as_str());
            if let Some(time) = result.metrics.get("epoch_time").filter(|time| epochs && time.unit == "s") {
                doubts.short.extend((time.value < SHORT).then(|| (label(), time.value)));
                doubts.few.extend(time.epochs.filter(|n| *n < EPOCHS).map(|n| (label(), n)));
            }
            doubts.chance.extend(chance(result).map(|found| (label(), found)));
        }
        doubts
    }

    /// One sentence per kind, about the weakest result.
    pub(super) fn worded(&self, words: Locale<'_>) -> Vec<String> {
        let args = |label: &str, count: usize| Args::new().with("label", safe::code(label)).count("count", count);
        let seconds = |value: f64| words.figure(&Format::for_unit("s", [value].into_iter()), value);
        let mut out = Vec::new();
        if let Some(limit) = self.limit {
            let limit = words.figure(&Format::for_unit("bytes", [limit].into_iter()), limit);
            out.push(words.text("remark-limit", &Args::new().with("limit", limit)));
        }
        if let Some((label, least)) = self.short.iter().min_by(|a, b| a.1.total_cmp(b.1)) {
            let args = args(label, self.short.len()).with("min", seconds(*least)).with("bound", format!("{SHORT} s"));
            out.push(words.text("remark-short-epochs", &args));
        }
        if let Some((label, least)) = self.few.iter().min_by_key(|(_, n)| **n) {
            let args = args(label, self.few.len()).count("min", *least as usize).with("bound", EPOCHS.to_string());
            out.push(words.text("remark-few-epochs", &args));
        }
        if let Some((label, (metric, share, classes))) = self.chance.iter().min_by(|a, b| a.1.1.total_cmp(&b.1.1)) {
            let share = words.figure(&Format::for_unit("ratio", [*share].into_iter()), *share);
            let args = args(label, self.chance.len()).with("column", inline(&name(metric, words), words));
            let args = args.with("value", share).with("classes", classes.to_string());
            out.push(words.text("remark-chance", &args));
        }
        out
    }
}

/// The limit of GPU memory that results had, in bytes, if something ran out of memory.
pub(super) fn limit<'a>(results: impl Iterator<Item = &'a StepResult> + Clone) -> Option<f64> {
    let ran_out = results.clone().any(|result| result.outcome == Outcome::OutOfMemory);
    let limits = results.filter_map(|result| Some(result.metrics.get("memory_limit")?.value));
    limits.reduce(f64::min).filter(|_| ran_out)
}

/// The metric, its share and the number of classes, if guessing among that many classes does as well.
fn chance(result: &StepResult) -> Option<(String, f64, u32)> {
    let (Datum::Declared { number: Some(classes), .. } | Datum::Measured { value: classes, .. }) =
        datum(result, "classes")?
    else {
        return None;
    };
    let metric = RIGHT.into_iter().find(|name| result.metrics.contains_key(*name))?;
    let share = result.metrics.get(metric)?.value;
    (classes >= 2.0 && share * classes <= 1.0 + CHANCE).then(|| (metric.to_owned(), share, classes as u32))
}
