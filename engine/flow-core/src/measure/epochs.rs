//! From what a program said to its numbers: which epochs count, and what a series comes to.

use std::{
    borrow::Cow,
    collections::{BTreeMap, BTreeSet},
};

use super::{
    corunners::Epoch,
    numbers::{Numbers, all_parts, summed},
    windows::Window,
};
use crate::{
    Metric, Series,
    metrics::{Columns, Metrics, NotRead, Summary, Unread, convert},
    result::Phases,
};

/// One number, as a message or a line of output told it.
#[derive(Clone, Debug, PartialEq)]
pub struct Row {
    pub name: String,
    pub value: f64,
    pub unit: String,
    /// Epoch it belongs to.
    pub epoch: Option<u32>,
    /// The series comes to its mean over the epochs that count, else to its last value.
    pub mean: bool,
}

/// Everything that a program said. Of each metric one value an epoch is kept, the last: a program may print as often as it likes.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Reported {
    metrics: BTreeMap<String, Numbers>,
    /// What was told by the attempts from whose checkpoint it goes on, times and rates aside, which are theirs.
    earlier: BTreeMap<String, Numbers>,
    /// Epochs with begin and end, seconds since 1970, in the order in which they were told.
    pub epochs: Vec<(u32, f64, f64)>,
    /// There were more of them.
    pub too_many: bool,
    /// Lines of several epochs came at once: their times are those of a buffer, not of the epochs.
    pub at_once: bool,
    /// Which of its values a metric comes to, where that is said.
    summary: BTreeMap<String, Summary>,
    /// By file, what is to be told of the columns of tables.
    pub(super) columns: BTreeMap<String, Columns>,
    /// What was printed and is not read.
    pub(super) unread: Unread,
}

/// So many epochs are kept, the first: who counts millions of iterations as epochs does not fill the memory.
pub const MOST_EPOCHS: usize = 100_000;

impl Reported {
    /// Nothing yet; what its metrics will come to stands there.
    pub fn of(metrics: Option<&Metrics>) -> Reported {
        let summary = metrics.map(|metrics| metrics.summary.clone()).unwrap_or_default();
        Reported { summary, ..Reported::default() }
    }

    /// One epoch more, with begin and end; false if there are too many to keep it.
    pub fn epoch(&mut self, epoch: u32, began: f64, ended: f64) -> bool {
        self.too_many |= self.epochs.len() == MOST_EPOCHS;
        if !self.too_many {
            self.epochs.push((epoch, began, ended));
        }
        !self.too_many
    }

    pub fn number(&mut self, row: Row) {
        let Row { name, mut value, mut unit, epoch, mean } = row;
        // A metric keeps the unit that it had first.
        let before = self.metrics.get(&name).or_else(|| self.earlier.get(&name));
        if let Some(first) = before.map(|numbers| &numbers.unit).filter(|first| **first != unit) {
            let Some(converted) = convert(value, &unit, first) else {
                let text = format!("{value} {unit}");
                return self.unread.note(&format!("`{name}`"), &text, &NotRead::OtherUnit);
            };
            (value, unit) = (converted, first.clone());
        }
        let numbers = self.metrics.entry(name).or_insert_with(|| Numbers {
            epochs: BTreeMap::new(),
            last: value,
            range: (value, value),
            unit: String::new(),
            mean,
        });
        numbers.range = (numbers.range.0.min(value), numbers.range.1.max(value));
        (numbers.last, numbers.unit, numbers.mean) = (value, unit, mean);
        if let Some(epoch) =
            epoch.filter(|epoch| numbers.epochs.len() < MOST_EPOCHS || numbers.epochs.contains_key(epoch))
        {
            numbers.epochs.insert(epoch, value);
        }
    }

    /// It goes on from the checkpoint of an attempt that told this, after those that are known already.
    pub(super) fn goes_on_from(&mut self, part: Reported) {
        let values = part.metrics.into_iter().filter(|(_, numbers)| !numbers.mean).collect();
        self.earlier = all_parts(&self.earlier, &values).into_owned();
    }

    /// The metrics of all parts of a training.
    fn of_all_parts(&self) -> Cow<'_, BTreeMap<String, Numbers>> {
        all_parts(&self.earlier, &self.metrics)
    }

    /// No number at all.
    pub fn is_empty(&self) -> bool {
        self.metrics.is_empty()
    }

    /// Whether this metric was already reported for an earlier epoch. Also true while there are fewer than two epochs.
    pub(crate) fn is_usual(&self, name: &str, epoch: u32) -> bool {
        let before = self.metrics.get(name).and_then(|numbers| numbers.epochs.keys().next());
        self.epochs.len() < 2 || before.is_some_and(|first| *first < epoch)
    }

    /// The last number of each metric.
    pub fn latest(&self) -> BTreeMap<String, f64> {
        self.metrics.iter().map(|(name, numbers)| (name.clone(), numbers.last)).collect()
    }

    /// What `summary:` names and is not there.
    fn not_summed(&self) -> Vec<String> {
        let all = self.of_all_parts();
        let unknown = |name: &String| {
            let known: Vec<String> = all.keys().map(|name| format!("`{name}`")).collect();
            format!("`summary` names `{name}`, which was not found; there is {}", known.join(", "))
        };
        let why = |(name, summary): (&String, &Summary)| {
            let Some(numbers) = all.get(name) else { return Some(unknown(name)) };
            match summary {
                Summary::At { of, .. } if !all.contains_key(of) => Some(unknown(of)),
                Summary::At { best, of } if summed(&all, numbers, summary).is_none() => {
                    Some(format!("`{name}` has no value, for none is of the epoch with the {best} of `{of}`"))
                }
                _ => None,
            }
        };
        if all.is_empty() { Vec::new() } else { self.summary.iter().filter_map(why).collect() }
    }

    /// What people are told of it besides the numbers.
    pub fn remarks(&self) -> Vec<String> {
        let not_a_number = |(name, numbers): (&String, &Numbers)| {
            let last_ones = || numbers.epochs.iter().rev().take_while(|(_, value)| value.is_nan());
            let since = last_ones().last().map(|(epoch, _)| format!(" from epoch {epoch} on")).unwrap_or_default();
            numbers.last.is_nan().then(|| format!("`{name}` is NaN or infinite{since}"))
        };
        // How long they took its program may have told.
        let unknown =
            if self.metrics.contains_key("epoch_time") { "when its epochs ran" } else { "how long its epochs took" };
        let untimed = self
            .at_once
            .then(|| format!("{unknown} is not known: the lines of several came at once, from a buffer or too fast"));
        let numbers = self.of_all_parts();
        let of_numbers = numbers.iter().filter_map(not_a_number).chain(untimed).chain(self.not_summed());
        let of_files = self.columns.iter().flat_map(|(file, columns)| columns.remarks(file));
        of_numbers.chain(self.unread.remarks()).chain(of_files).collect()
    }

    /// The numbers of an epoch, by metric.
    pub fn of_epoch(&self, epoch: u32) -> BTreeMap<String, f64> {
        let value = |(name, numbers): (&String, &Numbers)| Some((name.clone(), *numbers.epochs.get(&epoch)?));
        self.metrics.iter().filter_map(value).collect()
    }

    /// The units of these metrics, where they have one.
    pub fn units<'a>(&self, metrics: impl Iterator<Item = &'a String>) -> BTreeMap<String, String> {
        let unit = |name: &String| Some((name.clone(), self.metrics.get(name)?.unit.clone()));
        metrics.filter_map(unit).filter(|(_, unit)| !unit.is_empty()).collect()
    }

    /// Its epochs with their times, where these are known; how long each took is as the program counts, if it does.
    pub fn timed(&self) -> Vec<Epoch> {
        let took = |epoch| self.metrics.get("epoch_time")?.epochs.get(&epoch).copied();
        let epoch = |&(epoch, began, ended): &(u32, f64, f64)| {
            let took = took(epoch).filter(|took| took.is_finite() && *took > 0.0);
            Epoch { began, ended, took: took.unwrap_or(ended - began) }
        };
        if self.at_once { Vec::new() } else { self.epochs.iter().map(epoch).collect() }
    }

    /// When it does what it is known for, as far as it told: from the end of its first epoch, which warms up, to the end of its
    /// last; still, if it has not `ended`.
    pub fn at_work(&self, ended: bool) -> Option<Window> {
        match (&*self.epochs, ended) {
            _ if self.at_once => None,
            ([], _) => None,
            (&[(_, begin, end)], true) => Some((begin, end)),
            ([first, ..], false) => Some((first.2, f64::INFINITY)),
            ([first, .., last], true) => Some((first.2, last.2)),
        }
    }

    /// The epoch that warms up: the first that was told, whatever its number.
    fn first_epoch(&self) -> Option<u32> {
        let of_numbers = || self.metrics.values().filter_map(|numbers| numbers.epochs.keys().next().copied()).min();
        self.epochs.first().map(|(epoch, ..)| *epoch).or_else(of_numbers)
    }
}

/// What counts of an attempt.
#[derive(Clone, Debug, PartialEq)]
pub struct Gathered {
    pub metrics: BTreeMap<String, Metric>,
    /// Series of epochs, times in seconds since the attempt began.
    pub series: Series,
    /// The spans that count, seconds since 1970: the counted epochs, else the window; empty for the whole attempt.
    pub spans: Vec<(f64, f64)>,
    /// Epochs that lie wholly inside the window of the co-run group.
    pub in_window: u32,
    /// What its wall time is made of.
    pub phases: Option<Phases>,
}

impl Phases {
    fn of(epochs: &[(u32, f64, f64)], began: f64, ended: f64) -> Option<Phases> {
        let (&(_, first_began, first_ended), &(.., last_ended)) = epochs.first().zip(epochs.last())?;
        let told = epochs.len() as u32;
        let period_s = match told {
            1 => first_ended - first_began,
            n => (last_ended - first_ended) / f64::from(n - 1),
        };
        let before_s = (first_ended - period_s - began).max(0.0);
        Some(Phases { before_s, epochs: told, period_s, after_s: (ended - last_ended).max(0.0) })
    }
}

/// Sums up an attempt that began and ended at these seconds since 1970. `window` is release and close of its co-run group.
///
/// The first epoch that was told warms up and does not count, unless it is the only one. In a group, an epoch counts that lies wholly
/// inside the window; if none does, times and rates are absent rather than wrong.
pub fn gather(reported: &Reported, began: f64, ended: f64, window: Option<(f64, f64)>) -> Gathered {
    let first = reported.first_epoch();
    let epochs: &[(u32, f64, f64)] = if reported.at_once { &[] } else { &reported.epochs };
    let inside: Vec<_> = epochs
        .iter()
        .filter(|(_, start, end)| window.is_none_or(|(release, close)| *start >= release && *end <= close))
        .collect();
    let without_first: Vec<_> = inside.iter().copied().filter(|(epoch, ..)| Some(*epoch) != first).collect();
    let counted = if without_first.is_empty() { inside.clone() } else { without_first };
    let counts: BTreeSet<u32> = counted.iter().map(|(epoch, ..)| *epoch).collect();

    let mut metrics = BTreeMap::new();
    let mut series = Series {
        epoch_times: epochs.iter().map(|(e, start, end)| (*e, start - began, end - began)).collect(),
        ..Series::default()
    };
    let all = reported.of_all_parts();
    for (name, numbers) in &*all {
        let one = |value: f64| Metric { value, unit: numbers.unit.clone(), epochs: None, sd: None, values: Vec::new() };
        let metric = if let Some(summary) = reported.summary.get(name) {
            summed(&all, numbers, summary).map(one)
        } else if numbers.epochs.is_empty() || !numbers.mean {
            Some(one(numbers.last))
        } else {
            // A program that tells no epochs' times has no window to be inside of: all but the first count.
            let timed = !epochs.is_empty() || window.is_some();
            let several = numbers.epochs.len() > 1;
            let used = |e: u32| if timed { counts.contains(&e) } else { Some(e) != first || !several };
            mean(numbers.epochs.iter().filter(|(e, _)| used(**e)).map(|(_, value)| *value), &numbers.unit)
        };
        if let Some(metric) = metric {
            metrics.insert(name.clone(), metric);
        }
        if !numbers.epochs.is_empty() {
            series.epochs.insert(name.clone(), numbers.epochs.iter().map(|(e, value)| (*e, *value)).collect());
        }
    }
    // Measured from outside where the program does not say: the time between the lines that end its epochs.
    if !epochs.is_empty() && !reported.metrics.contains_key("epoch_time") {
        let times = epochs.iter().map(|(e, start, end)| (*e, end - start));
        series.epochs.insert("epoch_time".to_owned(), times.collect());
        if let Some(metric) = mean(counted.iter().map(|(_, start, end)| end - start), "s") {
            metrics.insert("epoch_time".to_owned(), metric);
        }
    }
    let spans = if counted.is_empty() {
        window.map(|(release, close)| (release.max(began), close.min(ended))).into_iter().collect()
    } else {
        counted.iter().map(|(_, start, end)| (*start, *end)).collect()
    };
    let phases = Phases::of(epochs, began, ended);
    Gathered { metrics, series, spans, in_window: inside.len() as u32, phases }
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
mod tests {
    use super::*;

    fn reported(times: &[(u32, f64, f64)]) -> Reported {
        let mut reported = Reported { epochs: times.to_vec(), ..Reported::default() };
        for (e, start, end) in times {
            reported.number(row("epoch_time", end - start, Some(*e), true));
            reported.number(row("loss", 1.0 / f64::from(*e), Some(*e), false));
        }
        reported
    }

    fn row(name: &str, value: f64, epoch: Option<u32>, mean: bool) -> Row {
        Row { name: name.to_owned(), value, unit: "s".to_owned(), epoch, mean }
    }

    #[test]
    fn the_first_epoch_warms_up() {
        let g = gather(&reported(&[(1, 0.0, 5.0), (2, 5.0, 7.0), (3, 7.0, 11.0)]), 0.0, 12.0, None);
        assert_eq!(g.metrics["epoch_time"].value, 3.0);
        assert_eq!(g.metrics["epoch_time"].epochs, Some(2));
        assert_eq!(g.metrics["loss"].value, 1.0 / 3.0);
        assert_eq!(g.spans, [(5.0, 7.0), (7.0, 11.0)]);
    }

    #[test]
    fn the_first_epoch_is_the_first_that_was_told() {
        for from in [0, 5] {
            let g =
                gather(&reported(&[(from, 0.0, 5.0), (from + 1, 5.0, 7.0), (from + 2, 7.0, 11.0)]), 0.0, 12.0, None);
            assert_eq!(g.metrics["epoch_time"].value, 3.0, "from {from}");
            assert_eq!(g.spans, [(5.0, 7.0), (7.0, 11.0)], "from {from}");
            let mut untimed = Reported::default();
            for (n, value) in [(from, 100.0), (from + 1, 2.0), (from + 2, 4.0)] {
                untimed.number(row("step_time", value, Some(n), true));
            }
            assert_eq!(gather(&untimed, 0.0, 12.0, None).metrics["step_time"].value, 3.0, "from {from}");
        }
    }

    #[test]
    fn of_epochs_whose_lines_came_at_once_only_what_is_not_known_is_said() {
        let mut reported = Reported { at_once: true, ..Reported::default() };
        assert!(reported.remarks()[0].starts_with("how long its epochs took is not known: the lines of several"));
        reported.number(row("epoch_time", 0.2, Some(1), true));
        assert!(reported.remarks()[0].starts_with("when its epochs ran is not known: the lines of several"));
    }

    #[test]
    fn a_metric_comes_to_the_value_that_is_said() {
        let mut reported = Reported::default();
        for (epoch, acc, loss) in [(1, 0.6, 0.9), (2, 0.9, 0.3), (3, f64::NAN, 0.2), (4, 0.9, 0.5), (5, 0.7, 0.4)] {
            // What a bar shows within an epoch does not count.
            reported.number(row("acc", 1.0, Some(epoch), false));
            reported.number(row("acc", acc, Some(epoch), false));
            reported.number(row("loss", loss, Some(epoch), false));
            reported.number(row("step", loss * 10.0, None, false));
        }
        reported.number(row("lr", 0.1, Some(1), false));
        let mut value = |metric: &str, summary: &str| {
            reported.summary = [(metric.to_owned(), Summary::parse(metric, summary).unwrap())].into();
            let value = gather(&reported, 0.0, 9.0, None).metrics.get(metric).map(|metric| metric.value);
            (value, reported.remarks())
        };
        for (metric, summary, expected) in [
            ("acc", "last", 0.7),
            ("acc", "max", 0.9),
            ("acc", "min", 0.6),
            ("loss", "min", 0.2),
            ("loss", "at max acc", 0.3),
            ("acc", "at min loss", f64::NAN),
            ("step", "max", 9.0),
            ("step", "min", 2.0),
        ] {
            let (found, remarks) = value(metric, summary);
            assert_eq!(found.map(f64::to_bits), Some(expected.to_bits()), "{metric} {summary}");
            assert_eq!(remarks, Vec::<String>::new());
        }
        assert_eq!(value("lr", "at max acc").1, ["`lr` has no value, for none is of the epoch with the max of `acc`"]);
        let known = "there is `acc`, `loss`, `lr`, `step`";
        assert_eq!(value("ac", "max").1, [format!("`summary` names `ac`, which was not found; {known}")]);
        assert_eq!(value("loss", "at max ac").1, [format!("`summary` names `ac`, which was not found; {known}")]);
    }

    #[test]
    fn of_an_epoch_the_last_number_counts() {
        let mut reported = Reported::default();
        for (epoch, value) in [(1, 9.0), (2, 5.0), (2, 1.0), (3, 3.0)] {
            reported.number(row("step_time", value, Some(epoch), true));
        }
        let g = gather(&reported, 0.0, 6.0, None);
        assert_eq!((g.metrics["step_time"].value, g.metrics["step_time"].epochs), (2.0, Some(2)));
        assert_eq!(g.series.epochs["step_time"], [(1, 9.0), (2, 1.0), (3, 3.0)]);
    }

    #[test]
    fn epochs_without_end_are_not_kept() {
        let mut reported = Reported::default();
        for epoch in 0..=MOST_EPOCHS as u32 {
            let at = f64::from(epoch);
            assert_eq!(reported.epoch(epoch, at, at + 1.0), epoch < MOST_EPOCHS as u32);
            reported.number(row("loss", at, Some(epoch), false));
        }
        let g = gather(&reported, 0.0, 1e6, None);
        assert_eq!((g.series.epoch_times.len(), g.series.epochs["loss"].len()), (MOST_EPOCHS, MOST_EPOCHS));
        assert_eq!(g.metrics["loss"].value, MOST_EPOCHS as f64, "the last is the last");
    }

    #[test]
    fn work_is_between_the_first_epoch_and_the_last() {
        let all = reported(&[(1, 1.0, 3.0), (2, 3.0, 4.0), (3, 4.0, 5.0)]);
        assert_eq!((all.at_work(true), all.at_work(false)), (Some((3.0, 5.0)), Some((3.0, f64::INFINITY))));
        assert_eq!(reported(&[(1, 1.0, 3.0)]).at_work(true), Some((1.0, 3.0)));
        assert_eq!((Reported::default().at_work(true), Reported { at_once: true, ..all }.at_work(true)), (None, None));
    }

    #[test]
    fn an_only_epoch_counts() {
        let g = gather(&reported(&[(1, 0.0, 5.0)]), 0.0, 6.0, None);
        assert_eq!((g.metrics["epoch_time"].value, g.metrics["epoch_time"].sd), (5.0, None));
    }

    #[test]
    fn wall_time_is_start_up_epochs_and_end() {
        let phases = |times: &[_]| gather(&reported(times), 1.0, 15.0, None).phases;
        let is = |before_s, epochs, period_s, after_s| Some(Phases { before_s, epochs, period_s, after_s });
        assert_eq!(phases(&[(1, 1.0, 5.0), (2, 5.5, 7.5), (3, 8.0, 10.0)]), is(1.5, 3, 2.5, 5.0));
        assert_eq!(phases(&[(1, 4.0, 5.0)]), is(3.0, 1, 1.0, 10.0));
        assert_eq!(phases(&[]), None);
    }

    #[test]
    fn only_epochs_wholly_inside_the_window_count() {
        let times = [(1, 0.0, 5.0), (2, 5.0, 7.0), (3, 7.0, 11.0), (4, 11.0, 12.0)];
        let g = gather(&reported(&times), 0.0, 12.0, Some((4.0, 11.5)));
        assert_eq!((g.metrics["epoch_time"].value, g.in_window), (3.0, 2));
        let g = gather(&reported(&times), 0.0, 12.0, Some((8.0, 10.0)));
        assert_eq!((g.metrics.get("epoch_time"), g.in_window), (None, 0));
        assert_eq!(g.metrics["loss"].value, 0.25, "what the model learned does not depend on the window");
        assert_eq!(g.spans, [(8.0, 10.0)]);
    }

    #[test]
    fn epochs_are_timed_from_outside_where_the_program_is_silent() {
        let reported = Reported { epochs: vec![(1, 0.0, 3.0), (2, 3.0, 4.0), (3, 4.0, 6.0)], ..Reported::default() };
        let g = gather(&reported, 0.0, 6.0, None);
        assert_eq!((g.metrics["epoch_time"].value, &*g.metrics["epoch_time"].unit), (1.5, "s"));
        assert_eq!(g.series.epochs["epoch_time"], [(1, 3.0), (2, 1.0), (3, 2.0)]);
    }

    #[test]
    fn a_program_without_times_of_its_epochs_still_has_means() {
        let gathered = |rows: &[(f64, Option<u32>)]| {
            let mut reported = Reported::default();
            rows.iter().for_each(|(value, epoch)| reported.number(row("images_per_s", *value, *epoch, true)));
            gather(&reported, 0.0, 9.0, None).metrics["images_per_s"].value
        };
        assert_eq!(gathered(&[(10.0, Some(1)), (20.0, Some(2)), (40.0, Some(3))]), 30.0);
        assert_eq!(gathered(&[(7.0, None)]), 7.0);
    }

    #[test]
    fn times_of_epochs_that_a_buffer_held_back_are_left_out() {
        let epochs = vec![(1, 0.0, 9.0), (2, 9.0, 9.0), (3, 9.0, 9.0)];
        let mut reported = Reported { epochs, at_once: true, ..Reported::default() };
        reported.number(row("loss", 0.5, Some(3), false));
        let g = gather(&reported, 0.0, 9.0, None);
        assert_eq!((g.metrics.get("epoch_time"), g.spans.len(), g.series.epoch_times.len()), (None, 0, 0));
        assert_eq!((g.metrics["loss"].value, reported.remarks().len()), (0.5, 1));
    }

    #[test]
    fn a_loss_that_diverged_is_told() {
        let mut reported = Reported::default();
        for (epoch, value) in [(1, 0.7), (2, f64::NAN), (3, 0.5)] {
            reported.number(row("loss", value, Some(epoch), false));
        }
        assert_eq!(reported.remarks(), Vec::<String>::new(), "it recovered");
        reported.number(row("loss", f64::NAN, Some(4), false));
        reported.number(row("loss", f64::NAN, Some(5), false));
        assert!(gather(&reported, 0.0, 9.0, None).metrics["loss"].value.is_nan());
        assert_eq!(reported.remarks(), ["`loss` is NaN or infinite from epoch 4 on"]);
    }
}
