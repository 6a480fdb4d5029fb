//! The values of one metric in printed order, and the value that the metric is summarised to.

use std::{borrow::Cow, collections::BTreeMap};

use crate::{
    Point,
    metrics::{Best, Key, Summary},
};

/// Maximum kept values per metric. Further ones are only counted, so that a program cannot fill the memory.
pub(super) const MOST_POINTS: usize = 100_000;

/// Everything that was printed for one metric.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Numbers {
    /// In printed order, at most [`MOST_POINTS`]. Of consecutive values with the same key, only the last is kept.
    pub(super) points: Vec<Point>,
    /// Number of further values that were not kept.
    pub(super) not_kept: u64,
    /// Min and max of all printed values, including those not kept. NaN does not count.
    extremes: Option<(Point, Point)>,
    /// The last value, if its line may have been redrawn by a progress bar since.
    redrawable: Option<Point>,
    /// The last printed value.
    pub(super) last: f64,
    pub(super) unit: String,
    /// The metric's value is its mean over the rows that count, else its last value.
    pub(super) mean: bool,
}

impl Numbers {
    pub(super) fn new(mean: bool) -> Numbers {
        Numbers {
            points: Vec::new(),
            not_kept: 0,
            extremes: None,
            redrawable: None,
            last: f64::NAN,
            unit: String::new(),
            mean,
        }
    }

    /// Adds a value. One on a `redrawable` line counts for min and max only if [`Numbers::stays`] follows.
    pub(super) fn push(&mut self, point: Point, redrawable: bool) {
        self.last = point.value;
        let drawn_over = self.redrawable.take().is_some();
        let is_same_row = |last: &&mut Point| {
            (last.part, last.key) == (point.part, point.key) && (drawn_over || point.key != Key::default())
        };
        let has_room = self.points.len() < MOST_POINTS;
        match self.points.last_mut().filter(is_same_row).filter(|_| self.not_kept == 0) {
            Some(last) => *last = point,
            None if has_room => self.points.push(point),
            None => self.not_kept += 1,
        }
        match redrawable {
            true => self.redrawable = Some(point),
            false => self.count(point),
        }
    }

    /// The last value's line was not redrawn.
    pub(super) fn count_pending(&mut self) {
        if let Some(point) = self.redrawable.take() {
            self.count(point);
        }
    }

    /// Counts a value for min and max.
    fn count(&mut self, point: Point) {
        if point.value.is_nan() {
            return;
        }
        let (least, most) = self.extremes.get_or_insert((point, point));
        if point.value < least.value {
            *least = point;
        }
        if point.value > most.value {
            *most = point;
        }
    }

    /// The first point with the best of all printed values.
    fn best(&self, best: Best) -> Option<Point> {
        let printed = self.extremes.iter().flat_map(|(least, most)| [*least, *most]);
        let all = printed.chain(self.points.iter().chain(&self.redrawable).copied());
        best.of(all.map(|point| (point, point.value))).map(|(point, _)| point)
    }

    /// The last value in this part and whole epoch.
    pub(super) fn at_epoch(&self, part: u32, epoch: u32) -> Option<f64> {
        let epoch = f64::from(epoch);
        // Within a part, the epochs of a metric do not decrease.
        let near = self
            .points
            .iter()
            .rev()
            .take_while(|p| p.part >= part && p.key.epoch.is_none_or(|at| p.part > part || at >= epoch));
        near.filter(|point| point.part == part && point.key.epoch == Some(epoch)).map(|point| point.value).next()
    }

    /// The last value in a point's row: same part, epoch and step; or same part and epoch if one has no step.
    fn at_row_of(&self, point: &Point) -> Option<f64> {
        let is_in_row = |other: &&Point| {
            let same = |a: Option<f64>, b: Option<f64>| a.is_none() || b.is_none() || a == b;
            let keyed = point.key.epoch.is_some() && other.key.epoch.is_some()
                || point.key.step.is_some() && other.key.step.is_some();
            keyed
                && other.part == point.part
                && same(other.key.epoch, point.key.epoch)
                && same(other.key.step, point.key.step)
        };
        self.points.iter().rev().find(is_in_row).map(|other| other.value)
    }

    /// Appends the values of a later attempt that resumed from a checkpoint of this one. Values from its first epoch on
    /// are undone.
    fn append_resumed(&mut self, next: &Numbers, part: u32) {
        let first = next.points.iter().find(|point| point.key != Key::default()).map(|point| point.key);
        let is_undone = |point: &Point| {
            let Some(first) = first else { return false };
            let later = |own: Option<f64>, first: Option<f64>| own.zip(first).map(|(own, first)| own >= first);
            let undone = later(point.key.epoch, first.epoch).or(later(point.key.step, first.step));
            point.part > part || point.part == part && undone == Some(true)
        };
        self.points.retain(|point| !is_undone(point));
        if self.extremes.as_ref().is_some_and(|(least, most)| is_undone(least) || is_undone(most)) {
            self.extremes = None;
            self.points.clone().into_iter().for_each(|point| self.count(point));
        }
        let moved = |point: &Point| Point { part: point.part + part, ..*point };
        let room = MOST_POINTS.saturating_sub(self.points.len());
        self.not_kept += next.not_kept + next.points.len().saturating_sub(room) as u64;
        self.points.extend(next.points.iter().take(room).map(moved));
        let (next_least, next_most) = next.extremes.as_ref().map(|(least, most)| (moved(least), moved(most))).unzip();
        next_least.into_iter().chain(next_most).for_each(|point| self.count(point));
        self.last = next.last;
        self.unit.clone_from(&next.unit);
    }
}

/// The value of a metric under a `summary`, if there is one.
pub(super) fn summed(all: &BTreeMap<String, Numbers>, numbers: &Numbers, summary: &Summary) -> Option<f64> {
    match summary {
        Summary::Last => Some(numbers.last),
        Summary::Best(best) => Some(numbers.best(*best).map_or(numbers.last, |point| point.value)),
        Summary::At { best, of } => numbers.at_row_of(&all.get(of)?.best(*best)?),
    }
}

/// The metrics of a training run in parts: the `earlier` ones, and those of its `last` attempt.
pub(super) fn all_attempts<'a>(
    earlier: &BTreeMap<String, Numbers>,
    last: &'a BTreeMap<String, Numbers>,
) -> Cow<'a, BTreeMap<String, Numbers>> {
    if earlier.is_empty() {
        return Cow::Borrowed(last);
    }
    let part = earlier.values().flat_map(|numbers| &numbers.points).map(|point| point.part).max().unwrap_or(0);
    let mut all = earlier.clone();
    for (name, numbers) in last {
        match all.get_mut(name).filter(|_| !numbers.mean) {
            Some(before) => before.append_resumed(numbers, part),
            None => _ = all.insert(name.clone(), numbers.clone()),
        }
    }
    Cow::Owned(all)
}

/// Counts the parts of the output in one place. A part begins when a metric's epoch decreases, or its step if it has no
/// epochs.
#[derive(Clone, Debug, Default)]
pub(super) struct Parts {
    part: u32,
    /// The last key of each metric in this part.
    last: BTreeMap<String, Key>,
}

impl Parts {
    /// Number of parts after the first.
    pub(super) fn count(&self) -> u32 {
        self.part
    }

    /// The part of these metrics, which were printed together.
    pub(super) fn of<'a>(&mut self, names: impl Iterator<Item = &'a str> + Clone, key: Key) -> u32 {
        let decreases = |last: &Key| match (last.epoch.zip(key.epoch), last.step.zip(key.step)) {
            (Some((before, now)), _) => now < before,
            (None, Some((before, now))) => now < before,
            (None, None) => false,
        };
        if names.clone().filter_map(|name| self.last.get(name)).any(decreases) {
            self.part += 1;
            self.last.clear();
        }
        for name in names.filter(|_| key != Key::default()) {
            self.last.insert(name.to_owned(), key);
        }
        self.part
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(epoch: Option<f64>, step: Option<f64>) -> Key {
        Key { epoch, step }
    }

    fn parts(printed: &[(&str, Key)]) -> Vec<u32> {
        let mut parts = Parts::default();
        printed.iter().map(|(names, key)| parts.of(names.split(' '), *key)).collect()
    }

    #[test]
    fn a_part_begins_when_the_epoch_of_a_metric_decreases() {
        let epochs = |of: &[(&'static str, f64)]| -> Vec<u32> {
            parts(&of.iter().map(|(name, epoch)| (*name, key(Some(*epoch), None))).collect::<Vec<_>>())
        };
        assert_eq!(
            epochs(&[("loss", 0.0), ("loss", 1.0), ("loss", 0.0), ("loss", 1.0), ("loss", 0.0)]),
            [0, 0, 1, 1, 2]
        );
        assert_eq!(epochs(&[("loss", 1.0), ("val", 1.0), ("loss", 1.0), ("loss", 2.0)]), [0, 0, 0, 0]);
        // A second fit also prints another metric.
        assert_eq!(epochs(&[("loss", 0.0), ("loss", 1.0), ("acc loss", 0.0), ("acc", 1.0)]), [0, 0, 1, 1]);
        // A delayed validation is not a new part.
        assert_eq!(epochs(&[("loss", 1.0), ("loss", 2.0), ("val", 1.0), ("loss", 3.0), ("val", 2.0)]), [0, 0, 0, 0, 0]);
        assert_eq!(
            epochs(&[("loss", 0.5), ("loss", 0.99), ("eval", 1.0), ("loss", 1.49), ("loss", 0.5)]),
            [0, 0, 0, 0, 1]
        );
    }

    #[test]
    fn steps_count_where_there_are_no_epochs() {
        let step = |n| key(None, Some(n));
        assert_eq!(parts(&[("lr", step(0.0)), ("lr", step(50.0)), ("lr", step(0.0))]), [0, 0, 1]);
        // A step that counts batches starts again with each epoch.
        let batch = |epoch, n| key(Some(epoch), Some(n));
        assert_eq!(parts(&[("loss", batch(1.0, 90.0)), ("loss", batch(2.0, 0.0)), ("lr", Key::default())]), [0, 0, 0]);
        assert_eq!(
            parts(&[("loss", step(900.0)), ("val", step(1.0)), ("loss", step(910.0)), ("val", step(2.0))]),
            [0, 0, 0, 0]
        );
    }
}
