//! From a program's output to its numbers: which epochs count, and the value of each series.

use std::{
    borrow::Cow,
    cmp::Ordering,
    collections::{BTreeMap, BTreeSet},
};

use super::{
    corunners::Epoch,
    numbers::{MOST_POINTS, Numbers, all_attempts, summed},
    windows::Window,
};
use crate::{
    Metric, Point, Series, TimedEpoch,
    metrics::{Columns, Key, MetricRow, Metrics, NotRead, Summary, UnreadTexts, convert},
    reason::Caveat,
    result::Phases,
};

/// One number from a message or a line of output.
#[derive(Clone, Debug, PartialEq)]
pub struct Row {
    pub of: MetricRow,
    /// As in [`Point::part`].
    pub part: u32,
    /// The metric's value is its mean over the epochs that count, else its last value.
    pub mean: bool,
}

/// Everything that a program reported: the values of each metric in printed order.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ReportedNumbers {
    pub(super) metrics: BTreeMap<String, Numbers>,
    /// Values printed by the attempts from whose checkpoint it resumes, without times and rates.
    earlier: BTreeMap<String, Numbers>,
    /// Epochs with their times, in the order in which they were reported.
    pub epochs: Vec<TimedEpoch>,
    /// Number of further epochs that were not kept.
    untimed: u64,
    /// Lines of several epochs arrived at once: their times are those of a buffer, not of the epochs.
    pub at_once: bool,
    /// The begin of the first epoch is unknown: the time before its line includes start-up.
    pub(super) start_up: bool,
    /// The value that a metric is summarised to, where declared.
    summary: BTreeMap<String, Summary>,
    /// By file, warnings about the columns of tables.
    pub(super) columns: BTreeMap<String, Columns>,
    /// Printed values that could not be read.
    pub(super) unread: UnreadTexts,
    /// Metrics found in two places: name, place before, place that counts.
    twice: Vec<(String, String, String)>,
    /// Number of output bytes that were not read.
    pub skipped: u64,
    /// By place, how often a new part began.
    pub(super) parts: BTreeMap<String, u32>,
}

/// The place of numbers that a program printed.
pub(super) const PRINTED: &str = "what it printed";

/// Only this many epochs are timed. A program that counts millions of iterations as epochs must not fill the memory.
pub const MOST_EPOCHS: usize = 100_000;

/// Seconds of all epochs together, below which nobody needs their times.
const SHORT: f64 = 1.0;
/// Seconds of an epoch, below which lines come at once although the program flushes its output.
const BRIEF: f64 = 0.5;

impl ReportedNumbers {
    /// Empty, with the summaries that the metrics declare.
    pub fn of(metrics: Option<&Metrics>) -> ReportedNumbers {
        let summary = metrics.map(|metrics| metrics.summary.clone()).unwrap_or_default();
        ReportedNumbers { summary, ..ReportedNumbers::default() }
    }

    /// Adds an epoch; false if there are too many to keep it.
    pub fn epoch(&mut self, epoch: TimedEpoch) -> bool {
        let room = self.epochs.len() < MOST_EPOCHS;
        if room {
            self.epochs.push(epoch);
        } else {
            self.untimed += 1;
        }
        room
    }

    pub fn number(&mut self, row: Row) {
        self.take(row, false);
    }

    /// As [`ReportedNumbers::number`]. A value on a `redrawable` line is replaced if a progress bar redraws that line.
    pub(super) fn take(&mut self, row: Row, redrawable: bool) {
        let Row { of: MetricRow { key, name, mut value, mut unit }, part, mean } = row;
        // A metric keeps its first unit.
        let before = self.metrics.get(&name).or_else(|| self.earlier.get(&name));
        if let Some(first) = before.map(|numbers| &numbers.unit).filter(|first| **first != unit) {
            let Some(converted) = convert(value, &unit, first) else {
                let text = format!("{value} {unit}");
                return self.unread.note(&format!("`{name}`"), &text, &NotRead::OtherUnit);
            };
            (value, unit) = (converted, first.clone());
        }
        let numbers = self.metrics.entry(name).or_insert_with(|| Numbers::new(mean));
        (numbers.unit, numbers.mean) = (unit, mean);
        numbers.push(Point { part, key, value }, redrawable);
    }

    /// The line that last held these metrics was not redrawn.
    pub(super) fn finish_line(&mut self, names: impl Iterator<Item = String>) {
        for name in names {
            self.metrics.get_mut(&name).into_iter().for_each(Numbers::count_pending);
        }
    }

    /// The values of these metrics in this `file` replace earlier ones. `places` has the place of the earlier values.
    pub(super) fn replace<'a>(
        &mut self,
        names: impl Iterator<Item = &'a str>,
        file: &str,
        places: &mut BTreeMap<String, String>,
    ) {
        for name in names {
            if let Some(before) = places.insert(name.to_owned(), file.to_owned()) {
                self.metrics.remove(name);
                self.twice.push((name.to_owned(), before, file.to_owned()));
            }
        }
    }

    /// It resumes from the checkpoint of an attempt that printed this, after the attempts already known.
    pub(super) fn resume_from(&mut self, attempt: ReportedNumbers) {
        let values = attempt.metrics.into_iter().filter(|(_, numbers)| !numbers.mean).collect();
        self.earlier = all_attempts(&self.earlier, &values).into_owned();
    }

    /// The metrics of all attempts of a training run.
    fn of_all_attempts(&self) -> Cow<'_, BTreeMap<String, Numbers>> {
        all_attempts(&self.earlier, &self.metrics)
    }

    /// Whether there are no numbers.
    pub fn is_empty(&self) -> bool {
        self.metrics.is_empty()
    }

    /// Whether this metric was reported for an earlier epoch. Also true while there are fewer than two epochs.
    pub(crate) fn is_usual(&self, name: &str, part: u32, epoch: u32) -> bool {
        let first =
            self.metrics.get(name).and_then(|numbers| numbers.points.iter().find_map(|p| Some((p.part, p.key.epoch?))));
        self.epochs.len() < 2 || first.is_some_and(|first| first < (part, f64::from(epoch)))
    }

    /// The last number of each metric.
    pub fn latest(&self) -> BTreeMap<String, f64> {
        self.metrics.iter().map(|(name, numbers)| (name.clone(), numbers.last)).collect()
    }

    /// Warnings on `summary:` names without a value.
    fn not_summed(&self) -> Vec<String> {
        let all = self.of_all_attempts();
        let unknown = |name: &String| {
            let known: Vec<String> = all.keys().map(|name| format!("`{name}`")).collect();
            format!("`summary` names `{name}`, which was not found; there is {}", known.join(", "))
        };
        let why = |(name, summary): (&String, &Summary)| {
            let Some(numbers) = all.get(name) else { return Some(unknown(name)) };
            match summary {
                Summary::At { of, .. } if !all.contains_key(of) => Some(unknown(of)),
                Summary::At { best, of } if summed(&all, numbers, summary).is_none() => Some(format!(
                    "`{name}` has no value: none {} at the epoch with the {best} of `{of}`",
                    if numbers.not_kept > 0 { "is kept" } else { "was printed" }
                )),
                _ => None,
            }
        };
        if all.is_empty() { Vec::new() } else { self.summary.iter().filter_map(why).collect() }
    }

    /// Warnings for the user.
    pub fn remarks(&self) -> Vec<String> {
        let not_finite = |(name, numbers): (&String, &Numbers)| {
            let last_ones = || numbers.points.iter().rev().take_while(|point| !point.value.is_finite());
            let since = last_ones().last().and_then(|point| point.key.epoch);
            let since = since.map(|epoch| format!(" from epoch {epoch} on")).unwrap_or_default();
            let what = if numbers.last.is_nan() { "NaN" } else { "infinite" };
            (!numbers.last.is_finite()).then(|| format!("`{name}` is {what}{since}"))
        };
        // The program may have reported their durations.
        let (unknown, remedy) = match self.metrics.contains_key("epoch_time") {
            true => ("when its epochs ran", None),
            false => ("how long its epochs took", Some("print the seconds and read them as `{epoch_time:s}`")),
        };
        let remedy = |before: &str| remedy.map(|remedy| format!("{before}{remedy}")).unwrap_or_default();
        let span = self.epochs.first().zip(self.epochs.last()).map(|(first, last)| last.ended - first.began);
        let untimed = (self.at_once && span.is_none_or(|span| span >= SHORT)).then(|| {
            // They are shorter on average than the time between two looks.
            if span.is_some_and(|span| span < BRIEF * self.epochs.len() as f64) {
                return format!("{unknown} is unknown, because one takes less than {BRIEF} s{}", remedy(": "));
            }
            let why = "several of their lines came at once";
            format!("{unknown} is unknown, because {why}: flush the output after each epoch{}", remedy("; or "))
        });
        let twice = self
            .twice
            .iter()
            .map(|(name, one, other)| format!("`{name}` is in {one} and in {other}: the values of {other} count"));
        let first = self.caveats().into_iter().find_map(|caveat| match caveat {
            Caveat::FirstValues { kept, printed } => Some(format!(
                "its series keep the first {kept} of {printed} values; last, min and max cover all of them"
            )),
            Caveat::OutputUnread { .. } | Caveat::OtherEnvironment { .. } => None,
        });
        let parts = self.parts.iter().filter(|(_, more)| **more > 0).map(|(place, more)| {
            let times = if *more == 1 { "once".to_owned() } else { format!("{more} times") };
            let hint = match place == PRINTED {
                true => "if several processes print, put a prefix such as `[rank0]` into the pattern",
                false => "if it should hold one run only, let the program write a new file",
            };
            format!("the epoch or step decreases {times} in {place}, so its series have {} parts; {hint}", more + 1)
        });
        let numbers = self.of_all_attempts();
        let of_numbers = numbers
            .iter()
            .filter_map(not_finite)
            .chain(untimed)
            .chain(first)
            .chain(parts)
            .chain(twice)
            .chain(self.not_summed());
        let of_files = self.columns.iter().flat_map(|(file, columns)| columns.remarks(file));
        of_numbers.chain(self.unread.remarks()).chain(of_files).collect()
    }

    /// The numbers of an epoch, by metric.
    pub fn of_epoch(&self, part: u32, epoch: u32) -> BTreeMap<String, f64> {
        let value = |(name, numbers): (&String, &Numbers)| Some((name.clone(), numbers.at_epoch(part, epoch)?));
        self.metrics.iter().filter_map(value).collect()
    }

    /// The units of these metrics, where they have one.
    pub fn units<'a>(&self, metrics: impl Iterator<Item = &'a String>) -> BTreeMap<String, String> {
        let unit = |name: &String| Some((name.clone(), self.metrics.get(name)?.unit.clone()));
        metrics.filter_map(unit).filter(|(_, unit)| !unit.is_empty()).collect()
    }

    /// Its epochs, if their times are known. An epoch's duration is the program's own, if reported.
    pub fn timed(&self) -> Vec<Epoch> {
        let took = |of: &TimedEpoch| self.metrics.get("epoch_time")?.at_epoch(of.part, of.epoch);
        let epoch = |of: &TimedEpoch| {
            let took = took(of).filter(|took| took.is_finite() && *took > 0.0);
            Epoch { began: of.began, ended: of.ended, took: took.unwrap_or(of.ended - of.began) }
        };
        if self.at_once { Vec::new() } else { self.epochs.iter().map(epoch).collect() }
    }

    /// The span of its measured work, if known: from the end of the first epoch, which is warm-up, to the end of the
    /// last. Without an end if it has not `ended`.
    pub fn at_work(&self, ended: bool) -> Option<Window> {
        match (&*self.epochs, ended) {
            _ if self.at_once => None,
            ([], _) => None,
            ([only], true) => Some(only.span()),
            ([first, ..], false) => Some((first.ended, f64::INFINITY)),
            ([first, .., last], true) => Some((first.ended, last.ended)),
        }
    }

    /// Why its numbers may not be those of the whole attempt.
    pub fn caveats(&self) -> Vec<Caveat> {
        let kept = MOST_POINTS as u64;
        let not_kept =
            self.of_all_attempts().values().map(|numbers| numbers.not_kept).max().unwrap_or(0).max(self.untimed);
        let first = (not_kept > 0).then(|| Caveat::FirstValues { kept, printed: kept + not_kept });
        first.into_iter().chain((self.skipped > 0).then_some(Caveat::OutputUnread { bytes: self.skipped })).collect()
    }
}

/// The counted numbers of an attempt.
#[derive(Clone, Debug, PartialEq)]
pub struct CountedMetrics {
    pub metrics: BTreeMap<String, Metric>,
    /// Series of epochs, times in seconds since the attempt began.
    pub series: Series,
    /// The spans that count, seconds since 1970: the counted epochs, else the window. Empty: the whole attempt.
    pub spans: Vec<(f64, f64)>,
    /// Epochs that lie wholly inside the window of the co-run group.
    pub in_window: u32,
    /// The parts of its wall time.
    pub phases: Option<Phases>,
}

impl Phases {
    fn of(epochs: &[TimedEpoch], began: f64, ended: f64) -> Option<Phases> {
        let (first, last) = epochs.first().zip(epochs.last())?;
        let told = epochs.len() as u32;
        let period_s = match told {
            1 => first.ended - first.began,
            n => (last.ended - first.ended) / f64::from(n - 1),
        };
        let before_s = (first.ended - period_s - began).max(0.0);
        Some(Phases { before_s, epochs: told, period_s, after_s: (ended - last.ended).max(0.0) })
    }
}

/// Sums up an attempt that began and ended at these seconds since 1970. `window`: release and close of its co-run group.
///
/// The first reported epoch is warm-up and does not count, unless it is the only one. In a group, an epoch counts only
/// if it lies wholly inside the window. If none does, times and rates are absent rather than wrong.
pub fn gather(reported: &ReportedNumbers, began: f64, ended: f64, window: Option<(f64, f64)>) -> CountedMetrics {
    let epochs: &[TimedEpoch] = if reported.at_once { &[] } else { &reported.epochs };
    let first = epochs.first().map(|of| (of.part, of.epoch));
    let is_inside = |of: &&TimedEpoch| window.is_none_or(|(release, close)| of.began >= release && of.ended <= close);
    let inside: Vec<TimedEpoch> = epochs.iter().filter(is_inside).copied().collect();
    let without_first: Vec<_> = inside.iter().copied().filter(|of| Some((of.part, of.epoch)) != first).collect();
    let counted = if without_first.is_empty() { inside.clone() } else { without_first };
    let counts: BTreeSet<(u32, u32)> = counted.iter().map(|of| (of.part, of.epoch)).collect();
    // A program without epoch times has no epochs to place in a window.
    let timed = !epochs.is_empty() || window.is_some();

    let since = |of: &TimedEpoch| TimedEpoch { began: of.began - began, ended: of.ended - began, ..*of };
    let mut metrics = BTreeMap::new();
    let mut series = Series { epoch_times: epochs.iter().map(since).collect(), ..Series::default() };
    let all = reported.of_all_attempts();
    let first_epoch = |numbers: &Numbers| numbers.points.iter().find_map(|point| Some((point.part, point.key.epoch?)));
    let warm_up = all.values().filter_map(first_epoch).min_by(|a, b| a.partial_cmp(b).unwrap_or(Ordering::Equal));
    for (name, numbers) in &*all {
        let one = |value: f64| Metric { value, unit: numbers.unit.clone(), epochs: None, sd: None, values: Vec::new() };
        let has_keys = numbers.points.iter().any(|point| point.key != Key::default());
        let metric = if let Some(summary) = reported.summary.get(name) {
            summed(&all, numbers, summary).map(one)
        } else if !has_keys || !numbers.mean {
            Some(one(numbers.last))
        } else {
            mean(counted_values(numbers, &counts, timed, warm_up).into_iter(), &numbers.unit)
        };
        if let Some(metric) = metric {
            metrics.insert(name.clone(), metric);
        }
        // A single number is no series.
        if has_keys || numbers.points.len() > 1 {
            series.metrics.insert(name.clone(), numbers.points.clone());
        }
    }
    // If the program reports no epoch time, use the time between the lines that end its epochs. The time before the
    // first line is start-up too, so it is not the time of an epoch.
    if !epochs.is_empty() && !reported.metrics.contains_key("epoch_time") {
        let time = |of: &TimedEpoch| Point { part: of.part, key: Key::of_epoch(of.epoch), value: of.ended - of.began };
        let known: Vec<Point> = epochs.iter().skip(usize::from(reported.start_up)).map(time).collect();
        if !known.is_empty() {
            series.metrics.insert("epoch_time".to_owned(), known);
        }
        let measured = counted.iter().filter(|of| !reported.start_up || Some((of.part, of.epoch)) != first);
        if let Some(metric) = mean(measured.map(|of| of.ended - of.began), "s") {
            metrics.insert("epoch_time".to_owned(), metric);
        }
    }
    let spans = if counted.is_empty() {
        window.map(|(release, close)| (release.max(began), close.min(ended))).into_iter().collect()
    } else {
        counted.iter().map(TimedEpoch::span).collect()
    };
    let phases = Phases::of(epochs, began, ended);
    CountedMetrics { metrics, series, spans, in_window: inside.len() as u32, phases }
}

/// The values whose mean is the metric: those of the counted epochs, or all but the first row if epochs have no times.
fn counted_values(
    numbers: &Numbers,
    counts: &BTreeSet<(u32, u32)>,
    timed: bool,
    warm_up: Option<(u32, f64)>,
) -> Vec<f64> {
    let points = &numbers.points;
    let by_time = timed && points.iter().any(|point| point.key.whole_epoch().is_some());
    let several = points.len() > 1;
    let is_counted = |(n, point): &(usize, &Point)| match point.key.epoch {
        _ if by_time => point.key.whole_epoch().is_some_and(|epoch| counts.contains(&(point.part, epoch))),
        Some(epoch) => !several || Some((point.part, epoch)) != warm_up,
        None => !several || *n > 0,
    };
    points.iter().enumerate().filter(is_counted).map(|(_, point)| point.value).collect()
}

fn mean(values: impl Iterator<Item = f64>, unit: &str) -> Option<Metric> {
    let values: Vec<f64> = values.collect();
    if values.is_empty() {
        return None;
    }
    let n = values.len() as f64;
    let value = values.iter().sum::<f64>() / n;
    let sd = (values.len() > 1).then(|| (values.iter().map(|v| (v - value).powi(2)).sum::<f64>() / (n - 1.0)).sqrt());
    Some(Metric { value, unit: unit.to_owned(), epochs: Some(values.len() as u32), sd, values: vec![] })
}

#[cfg(test)]
mod tests;
