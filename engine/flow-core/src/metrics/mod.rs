//! `metrics:`: the places with the numbers of an unmodified program, and which of several values counts. Opens no files.

mod best;
mod columns;
mod events;
mod files;
mod json;
mod nearest;
mod number;
mod pattern;
mod table;
mod units;
mod unread;

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value, json};

pub use best::Best;
pub(crate) use columns::Columns;
pub use events::EventFile;
pub use files::{LineReader, MetricsFile, MetricsForm, NumberFiles, event_file};
pub(crate) use nearest::Nearest;
pub(crate) use number::NotRead;
pub use pattern::Pattern;
pub(crate) use units::convert;
pub(crate) use unread::UnreadTexts;

/// Version of the number reader. Increase it when a change reads another number from the same text.
const READER: u32 = 1;

/// `metrics:` of a step.
#[derive(Clone, Debug, Default)]
pub struct Metrics {
    /// Patterns for numbers in the program's standard output and error.
    pub stdout: Vec<Pattern>,
    /// Files and folders that hold numbers. If a metric is in several places, the last one counts.
    pub files: Vec<MetricsFile>,
    /// Which value of a metric counts, unless it is the last.
    pub summary: BTreeMap<String, Summary>,
    /// Whether the step fails if one of the places has no number.
    pub required: bool,
}

/// The value that a metric is summarised to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Summary {
    Last,
    Best(Best),
    /// Its value at the epoch at which another metric is best.
    At {
        /// What is best of `of`.
        best: Best,
        of: String,
    },
}

/// The position of a number in a training run, as printed by the program. Absent if not printed.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Key {
    /// The epoch, finite; a fraction such as 0.5 is allowed.
    pub epoch: Option<f64>,
    /// The step, iteration or batch, finite and whole.
    pub step: Option<f64>,
}

impl Key {
    /// The key of an epoch without a step.
    pub fn of_epoch(epoch: u32) -> Key {
        Key { epoch: Some(f64::from(epoch)), step: None }
    }

    /// Sets the epoch, or else the step. False if it cannot be one.
    fn set(&mut self, is_epoch: bool, value: f64) -> bool {
        if is_epoch && value.is_finite() {
            self.epoch = Some(value);
        } else if !is_epoch && value.is_finite() && value.fract() == 0.0 {
            self.step = Some(value);
        } else {
            return false;
        }
        true
    }

    /// The epoch, if it is whole.
    pub fn whole_epoch(self) -> Option<u32> {
        let is_whole = |epoch: &f64| *epoch >= 0.0 && epoch.fract() == 0.0 && *epoch <= f64::from(u32::MAX);
        self.epoch.filter(is_whole).map(|epoch| epoch as u32)
    }
}

/// A number that was read.
#[derive(Clone, Debug, PartialEq)]
pub struct MetricRow {
    /// The epoch and step it belongs to.
    pub key: Key,
    /// Its name in the protocol's form, `[a-z][a-z0-9_]*`.
    pub name: String,
    /// The number; NaN and infinity are allowed, because a diverged loss is useful to know.
    pub value: f64,
    /// `ratio`, `s`, or empty.
    pub unit: String,
}

impl Metrics {
    /// The metrics that there will be, if all of them are declared here and none come from a file.
    pub fn names(&self) -> Option<Vec<String>> {
        let timed = self.stdout.iter().any(Pattern::has_epochs).then_some("epoch_time");
        let names: BTreeSet<&str> = self.stdout.iter().flat_map(Pattern::names).chain(timed).collect();
        self.files.is_empty().then(|| names.into_iter().map(str::to_owned).collect())
    }

    /// The hashed form: the places by kind, a single one as itself and several as a list, and the reader's version.
    /// After a new version, flow reads the stored output again.
    pub(crate) fn value(&self) -> Value {
        let of_form =
            |form: MetricsForm| self.files.iter().filter(move |file| file.form == form).map(|file| &*file.path);
        let mut kinds: BTreeMap<&str, Vec<&str>> =
            MetricsForm::KEYS.map(|(key, form)| (key, of_form(form).collect())).into();
        kinds.insert("stdout", self.stdout.iter().map(Pattern::text).collect());
        let one_or_all = |places: Vec<&str>| match places[..] {
            [one] => json!(one),
            _ => json!(places),
        };
        let places = kinds.into_iter().filter(|(_, places)| !places.is_empty());
        let mut all: Map<String, Value> = places.map(|(kind, at)| (kind.to_owned(), one_or_all(at))).collect();
        all.insert("reader".to_owned(), json!(READER));
        if !self.summary.is_empty() {
            let summary = self.summary.iter().map(|(name, summary)| (name.clone(), json!(summary.to_string())));
            all.insert("summary".to_owned(), summary.collect());
        }
        Value::Object(all)
    }
}

/// Why a text is not a summary.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SummaryError {
    /// Its form is unknown.
    Unknown,
    /// It is unknown whether less or more of this metric is better.
    NoDirection { metric: String },
}

impl Summary {
    /// Parses a metric's summary: `last`, `min`, `max`, `best`, `at min NAME`, `at max NAME` or `at best NAME`.
    ///
    /// # Errors
    /// It is none of these, or it is unknown what is best.
    pub fn parse(metric: &str, text: &str) -> Result<Summary, SummaryError> {
        let best = |word: &str, of: &str| match word {
            "min" => Ok(Best::Min),
            "max" => Ok(Best::Max),
            "best" => Best::by_name(of).ok_or_else(|| SummaryError::NoDirection { metric: of.to_owned() }),
            _ => Err(SummaryError::Unknown),
        };
        match text.split_whitespace().collect::<Vec<_>>()[..] {
            ["last"] => Ok(Summary::Last),
            ["at", word, of] => {
                let of = metric_name(of).ok_or(SummaryError::Unknown)?;
                Ok(Summary::At { best: best(word, &of)?, of })
            }
            [word] => best(word, metric).map(Summary::Best),
            _ => Err(SummaryError::Unknown),
        }
    }
}

impl std::fmt::Display for Summary {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Summary::Last => f.write_str("last"),
            Summary::Best(best) => best.fmt(f),
            Summary::At { best, of } => write!(f, "at {best} {of}"),
        }
    }
}

/// A text in the letters of metric names: `val/Acc` becomes `val_acc`.
pub fn metric_letters(text: &str) -> String {
    text.to_lowercase().chars().map(|c| if c.is_alphanumeric() { c } else { '_' }).collect()
}

/// The metric's name for this text. `None` if it does not begin with a letter.
pub(crate) fn metric_name(name: &str) -> Option<String> {
    let clean = metric_letters(name.trim());
    let clean = clean.trim_matches('_');
    clean.starts_with(char::is_alphabetic).then(|| clean.to_owned())
}

/// The metric's name for a name in a file. A name that begins with a digit gets the prefix `n_`.
pub(crate) fn readable_name(name: &str) -> Option<String> {
    let clean = metric_letters(name.trim());
    let clean = clean.trim_matches('_');
    let number = if clean.starts_with(char::is_alphabetic) { "" } else { "n_" };
    (!clean.is_empty()).then(|| format!("{number}{clean}"))
}

/// The start of a text, for messages.
fn cut(text: &str) -> String {
    const LONGEST: usize = 60;
    let line = text.trim().lines().next().unwrap_or_default();
    match line.char_indices().nth(LONGEST) {
        Some((end, _)) => format!("{}…", &line[..end]),
        None => line.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    pub(super) fn shown(rows: Vec<MetricRow>) -> Vec<String> {
        let row = |r: MetricRow| {
            let epoch = r.key.epoch.map_or(String::new(), |e| format!("{e}:"));
            let step = r.key.step.map_or(String::new(), |s| format!("{s}@"));
            let unit = if r.unit.is_empty() { String::new() } else { format!(" {}", r.unit) };
            format!("{epoch}{step}{}={}{unit}", r.name, r.value)
        };
        rows.into_iter().map(row).collect()
    }

    #[test]
    fn a_summary_is_read_as_it_is_written() {
        for text in ["last", "min", "max", "at min val_loss", "at max val_acc"] {
            assert_eq!(Summary::parse("x", text).map(|summary| summary.to_string()).as_deref(), Ok(text));
        }
        assert_eq!(Summary::parse("x", " at  max val/Acc "), Summary::parse("x", "at max val_acc"));
        for text in ["", "at", "at max", "at last loss", "max val_acc", "at max a b", "at max 1"] {
            assert_eq!(Summary::parse("x", text), Err(SummaryError::Unknown), "{text}");
        }
        // The name may show what is best.
        assert_eq!(Summary::parse("val_loss", "best"), Ok(Summary::Best(Best::Min)));
        assert_eq!(Summary::parse("x", "at best val/Acc"), Summary::parse("x", "at max val_acc"));
        assert_eq!(Summary::parse("x", "best"), Err(SummaryError::NoDirection { metric: "x".to_owned() }));
        assert_eq!(Summary::parse("loss", "at best x"), Err(SummaryError::NoDirection { metric: "x".to_owned() }));
    }
}
