//! Estimates how long a run still takes, from ended attempts and the progress of running ones.

/// Progress below this says nothing about speed.
const TOO_EARLY: f64 = 0.05;

/// The times of a step's attempts, and how many of its instances wait.
#[derive(Clone, Debug, Default)]
pub struct StepTimes {
    pub waiting: usize,
    /// Attempts that have ended, and their total seconds.
    pub ended: usize,
    pub took_s: f64,
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
    fn mean(&self) -> Option<f64> {
        (self.ended > 0).then(|| self.took_s / self.ended as f64)
    }
}

/// Seconds until the end of the run. The second value is true if some steps are unknown, so that it can only be longer.
/// `None` if nothing is known.
pub fn remaining<'a>(
    steps: impl IntoIterator<Item = &'a StepTimes>,
    running: impl IntoIterator<Item = RunningTime<'a>>,
) -> Option<(f64, bool)> {
    let (mut count, mut longest, mut sum, mut at_least) = (0_u32, 0.0_f64, 0.0, false);
    for RunningTime { of, so_far_s, fraction, left_s } in running {
        count += 1;
        let by_progress = fraction.and_then(|fraction| left_by_progress(so_far_s, fraction));
        let by_others = || Some((of?.mean()? - so_far_s).max(0.0));
        let Some(left) = by_progress.or(left_s).or_else(by_others) else {
            at_least = true;
            continue;
        };
        longest = longest.max(left);
        sum += left;
    }
    for of in steps.into_iter().filter(|of| of.waiting > 0) {
        match of.mean() {
            Some(mean) => sum += mean * of.waiting as f64,
            None => at_least = true,
        }
    }
    // As many run at once as now; the end is never before that of the longest.
    let left = longest.max(sum / f64::from(count.max(1)));
    (left > 0.0).then_some((left, at_least))
}
