//! Estimates how long a run still takes, from ended attempts and the progress of running ones.

use serde::Serialize;

use crate::stats::t_quantile;

/// Progress below this says nothing about speed.
const TOO_EARLY: f64 = 0.05;
/// Fewer attempts do not show how much they scatter.
const FEWEST: usize = 3;
/// The share of ends outside the range.
const OUTSIDE: f64 = 0.05;

/// The times of a step's attempts, and how many of its instances wait.
#[derive(Clone, Debug, Default)]
pub struct StepTimes {
    pub waiting: usize,
    /// Attempts that have ended, the sum of their seconds and the sum of the squares.
    ended: usize,
    sum_s: f64,
    squares_s2: f64,
}

/// How long a run still takes.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct RemainingTime {
    pub seconds: f64,
    /// Some steps are unknown, so that it can only be longer.
    pub at_least: bool,
    /// A 95% interval from the scatter of ended attempts. `None` if a step is unknown, or has fewer than three of them.
    pub range: Option<(f64, f64)>,
}

/// A running attempt.
#[derive(Clone, Debug)]
pub struct RunningTime<'a> {
    /// The times of its step. `None` if the step is unknown.
    pub of: Option<&'a StepTimes>,
    pub so_far_s: f64,
    /// The share of its work that is done, if it reports that.
    pub fraction: Option<f64>,
    /// Seconds until its expected end, if that is known.
    pub left_s: Option<f64>,
}

/// Seconds until an attempt ends that has done this share of its work. `None` if that is too early to say.
pub fn left_by_progress(so_far_s: f64, fraction: f64) -> Option<f64> {
    (fraction >= TOO_EARLY).then(|| so_far_s * (1.0 - fraction.min(1.0)) / fraction)
}

impl StepTimes {
    /// Adds an ended attempt.
    pub fn add(&mut self, seconds: f64) {
        self.ended += 1;
        self.sum_s += seconds;
        self.squares_s2 += seconds * seconds;
    }

    fn mean(&self) -> Option<f64> {
        (self.ended > 0).then(|| self.sum_s / self.ended as f64)
    }

    /// The variance of one attempt, in square seconds.
    fn variance(&self) -> Option<f64> {
        let n = self.ended as f64;
        (self.ended >= FEWEST).then(|| ((self.squares_s2 - self.sum_s * self.sum_s / n) / (n - 1.0)).max(0.0))
    }
}

/// The time until the end of the run. `None` if nothing is known.
pub fn remaining<'a>(
    steps: impl IntoIterator<Item = &'a StepTimes>,
    running: impl IntoIterator<Item = RunningTime<'a>>,
) -> Option<RemainingTime> {
    let (mut count, mut longest, mut sum, mut at_least) = (0_u32, 0.0_f64, 0.0, false);
    // The variance of the sum, and that of the longest attempt; the fewest attempts behind one of them.
    let (mut variance, mut of_longest, mut fewest) = (Some(0.0), Some(0.0), usize::MAX);
    for RunningTime { of, so_far_s, fraction, left_s } in running {
        count += 1;
        let by_progress = fraction.and_then(|fraction| left_by_progress(so_far_s, fraction));
        let by_others = || Some((of?.mean()? - so_far_s).max(0.0));
        let Some(left) = by_progress.or(left_s).or_else(by_others) else {
            at_least = true;
            continue;
        };
        // Progress shows how fast this attempt is.
        let own = if by_progress.is_some() { Some(0.0) } else { of.and_then(StepTimes::variance) };
        if by_progress.is_none() {
            fewest = fewest.min(of.map_or(0, |of| of.ended));
        }
        if left > longest {
            (longest, of_longest) = (left, own);
        }
        sum += left;
        variance = variance.zip(own).map(|(all, own)| all + own);
    }
    for of in steps.into_iter().filter(|of| of.waiting > 0) {
        let Some(mean) = of.mean() else {
            at_least = true;
            continue;
        };
        let waiting = of.waiting as f64;
        fewest = fewest.min(of.ended);
        sum += mean * waiting;
        // The mean itself is known from few attempts only.
        let own = of.variance().map(|one| one * waiting * (1.0 + waiting / of.ended as f64));
        variance = variance.zip(own).map(|(all, own)| all + own);
    }
    // As many run at once as now; the end is never before that of the longest.
    let at_once = f64::from(count.max(1));
    let (seconds, variance) = match sum / at_once {
        shared if shared > longest => (shared, variance.map(|all| all / (at_once * at_once))),
        _ => (longest, of_longest),
    };
    let quantile = || t_quantile(OUTSIDE, fewest.saturating_sub(1) as f64);
    let half = variance.filter(|variance| *variance > 0.0 && !at_least).map(|variance| quantile() * variance.sqrt());
    let range = half.map(|half| ((seconds - half).max(0.0), seconds + half));
    (seconds > 0.0).then_some(RemainingTime { seconds, at_least, range })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_range_is_that_of_the_rest() {
        let times = |seconds: &[f64], waiting| {
            let mut of = StepTimes { waiting, ..StepTimes::default() };
            seconds.iter().for_each(|one| of.add(*one));
            of
        };
        let range = |of: &StepTimes| remaining([of], []).map(|left| (left.seconds, left.range));
        // One more: its own scatter, and that of the mean of four. 3.182 is the t quantile of three degrees.
        let four = range(&times(&[8.0, 8.0, 12.0, 12.0], 1)).unwrap();
        assert_eq!(four.0, 10.0);
        let half = 3.182 * (16.0f64 / 3.0 * 1.25).sqrt();
        assert!(
            four.1.is_some_and(|(low, high)| (low - (10.0 - half)).abs() < 0.01 && (high - 10.0 - half).abs() < 0.01)
        );
        assert_eq!(range(&times(&[8.0], 3)), Some((24.0, None)), "one attempt has no scatter");
        assert_eq!(range(&times(&[8.0, 9.0], 2)), Some((17.0, None)), "two attempts do not show it");
        assert_eq!(range(&times(&[8.0, 8.0, 8.0], 3)), Some((24.0, None)), "no scatter to show");
        let unknown = times(&[], 1);
        let left = remaining([&times(&[8.0, 8.0, 12.0], 1), &unknown], []).unwrap();
        assert_eq!((left.at_least, left.range), (true, None), "the end may be much later");
    }

    #[test]
    fn progress_tells_the_end_better_than_the_others_do() {
        let mut of = StepTimes::default();
        [8.0, 10.0, 12.0].into_iter().for_each(|one| of.add(one));
        let one = |fraction| RunningTime { of: Some(&of), so_far_s: 4.0, fraction, left_s: None };
        assert_eq!(remaining([&of], [one(Some(0.5))]).map(|left| left.range), Some(None));
        assert!(remaining([&of], [one(None)]).unwrap().range.is_some_and(|(low, high)| low < 6.0 && high > 6.0));
    }
}
