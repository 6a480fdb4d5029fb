//! Estimates how long a run still takes, from ended attempts and the progress of running ones.

use std::collections::BTreeMap;

use serde::Serialize;

use crate::{AttemptId, InstanceId, JournalLine, Outcome, RunEvent, stats::t_quantile};

/// Progress below this says nothing about speed.
const TOO_EARLY: f64 = 0.05;
/// Fewer attempts do not show how much they scatter.
const FEWEST: usize = 3;
/// The share of ends outside the range.
const OUTSIDE: f64 = 0.05;

/// The times of a run's steps, and its attempts that run: a fold over its journal.
#[derive(Debug, Default)]
pub struct RunTimes {
    steps: BTreeMap<String, StepTimes>,
    /// The step of each instance, and whether it waits.
    instances: BTreeMap<InstanceId, (String, bool)>,
    /// Attempts that have not ended, and when they began: milliseconds since 1970.
    running: BTreeMap<AttemptId, (InstanceId, u64)>,
}

/// The times of a step's attempts, and how many of its instances wait.
#[derive(Clone, Debug, Default)]
struct StepTimes {
    waiting: usize,
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
struct RunningTime<'a> {
    /// The times of its step. `None` if the step is unknown.
    of: Option<&'a StepTimes>,
    so_far_s: f64,
    known: RunningProgress,
}

/// What is known of a running attempt's end.
#[derive(Clone, Copy, Debug, Default)]
pub struct RunningProgress {
    /// The share of its work that is done, if it reports that.
    pub fraction: Option<f64>,
    /// Seconds until its expected end, if that is known.
    pub left_s: Option<f64>,
}

/// Seconds until an attempt ends that has done this share of its work. `None` if that is too early to say.
pub fn left_by_progress(so_far_s: f64, fraction: f64) -> Option<f64> {
    (fraction >= TOO_EARLY).then(|| so_far_s * (1.0 - fraction.min(1.0)) / fraction)
}

impl RunTimes {
    pub fn add(&mut self, line: &JournalLine) {
        match &line.event {
            RunEvent::Instance { instance, step, .. } if !self.instances.contains_key(instance) => {
                self.steps.entry(step.clone()).or_default().waiting += 1;
                self.instances.insert(*instance, (step.clone(), true));
            }
            RunEvent::Started { instance, attempt, .. } => {
                self.running.insert(*attempt, (*instance, line.at));
                self.waits(*instance, false);
            }
            RunEvent::Ended { instance, attempt, outcome, .. } => {
                if let Some((_, began)) = self.running.remove(attempt)
                    && let Some((step, _)) = self.instances.get(instance)
                    && let Some(of) = self.steps.get_mut(step)
                {
                    of.add(line.at.saturating_sub(began) as f64 / 1e3);
                }
                // Perhaps for the next attempt; otherwise it is settled at once.
                self.waits(*instance, *outcome == Outcome::Failed);
            }
            RunEvent::Again { instance, .. } => self.waits(*instance, true),
            RunEvent::Cached { instance, .. }
            | RunEvent::Recorded { instance, .. }
            | RunEvent::Settled { instance, .. } => self.waits(*instance, false),
            _ => {}
        }
    }

    fn waits(&mut self, instance: InstanceId, now: bool) {
        if let Some((step, waits)) = self.instances.get_mut(&instance)
            && let Some(of) = self.steps.get_mut(step)
        {
            of.waiting = of.waiting + usize::from(now) - usize::from(*waits);
            *waits = now;
        }
    }

    /// Attempts that have not ended.
    pub fn running(&self) -> impl Iterator<Item = &AttemptId> {
        self.running.keys()
    }

    /// Corrects when a running attempt began: it may have been in a queue before.
    pub fn began(&mut self, attempt: AttemptId, at: u64) {
        if let Some((_, began)) = self.running.get_mut(&attempt) {
            *began = at;
        }
    }

    /// The time until the end. `None` if nothing is known.
    pub fn remaining(&self, now: u64, known: impl Fn(AttemptId) -> RunningProgress) -> Option<RemainingTime> {
        let running = self.running.iter().map(|(attempt, (instance, began))| RunningTime {
            of: self.instances.get(instance).and_then(|(step, _)| self.steps.get(step)),
            so_far_s: now.saturating_sub(*began) as f64 / 1e3,
            known: known(*attempt),
        });
        remaining(self.steps.values(), running)
    }
}

impl StepTimes {
    /// Adds an ended attempt.
    fn add(&mut self, seconds: f64) {
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
fn remaining<'a>(
    steps: impl IntoIterator<Item = &'a StepTimes>,
    running: impl IntoIterator<Item = RunningTime<'a>>,
) -> Option<RemainingTime> {
    let (mut count, mut longest, mut sum, mut at_least) = (0_u32, 0.0_f64, 0.0, false);
    // The variance of the sum, and that of the longest attempt; the fewest attempts behind one of them.
    let (mut variance, mut of_longest, mut fewest) = (Some(0.0), Some(0.0), usize::MAX);
    for RunningTime { of, so_far_s, known: RunningProgress { fraction, left_s } } in running {
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
    use serde_json::json;

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
        let known = |fraction| RunningProgress { fraction, left_s: None };
        let one = |fraction| RunningTime { of: Some(&of), so_far_s: 4.0, known: known(fraction) };
        assert_eq!(remaining([&of], [one(Some(0.5))]).map(|left| left.range), Some(None));
        assert!(remaining([&of], [one(None)]).unwrap().range.is_some_and(|(low, high)| low < 6.0 && high > 6.0));
    }

    #[test]
    fn the_rest_takes_as_long_as_its_like() {
        let mut times = RunTimes::default();
        let mut add = |at: u64, mut event: serde_json::Value| {
            event["at"] = json!(at);
            times.add(&serde_json::from_value(event).unwrap());
            times.remaining(at, |_| RunningProgress::default()).map(|left| (left.seconds, left.at_least))
        };
        let why = json!({"first": [{"kind": "never_ran"}]});
        for n in 0..4 {
            let plan = json!({"state": "run", "why": why});
            add(0, json!({"event": "instance", "instance": n, "label": "a", "step": "a", "plan": plan}));
        }
        let start = |n: u32| json!({"event": "started", "instance": n, "attempt": n, "folder": "f", "why": why, "gpus": [], "cpus": 1});
        assert_eq!(add(0, start(0)), None, "nothing is known");
        assert_eq!(
            add(8_000, json!({"event": "ended", "instance": 0, "attempt": 0, "outcome": "ok"})),
            Some((24.0, false))
        );
        add(8_000, start(1));
        assert_eq!(add(10_000, start(2)), Some((11.0, false)), "6 s, 8 s, and 8 s by two at once");
        let ended = json!({"event": "ended", "instance": 1, "attempt": 1, "outcome": "ok"});
        assert_eq!(add(12_000, ended), Some((10.0, false)), "4 s, and 6 s as the mean is now");
        let again = json!({"event": "again", "instance": 1, "because": {"kind": "disturbed"}});
        assert_eq!(add(12_000, again), Some((16.0, false)), "it waits again: 6 s more");
    }
}
