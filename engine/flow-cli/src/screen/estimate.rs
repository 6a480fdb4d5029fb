//! Estimates the end of a run, from ended attempts and the progress of running ones. Reads no
//! clock.

use super::view::View;

/// Progress below this says nothing about speed.
const TOO_EARLY: f64 = 0.05;

/// Seconds until the end. The second value is true if some steps are unknown, so that it can only
/// be longer. `None` if nothing is known.
pub(crate) fn remaining(view: &View) -> Option<(f64, bool)> {
    // Mean wall time of the attempts of a step that ended.
    let mean = |step: &str| {
        let of = view.steps.get(step).filter(|of| of.ended > 0)?;
        Some(of.took_s / of.ended as f64)
    };
    let mut at_least = false;
    let mut longest: f64 = 0.0;
    let mut running = 0;
    let mut sum = 0.0;
    for (_, attempt) in view.running() {
        running += 1;
        let so_far = view.now.saturating_sub(attempt.began) as f64 / 1e3;
        let step = view.instances.get(&attempt.instance).map(|shown| &*shown.step).unwrap_or_default();
        let left = match (attempt.fraction, mean(step)) {
            (Some(fraction), _) if fraction >= TOO_EARLY => so_far * (1.0 - fraction.min(1.0)) / fraction,
            (_, Some(mean)) => (mean - so_far).max(0.0),
            _ => {
                at_least = true;
                continue;
            }
        };
        longest = longest.max(left);
        sum += left;
    }
    for (step, of) in view.steps.iter().filter(|(_, of)| of.waiting > 0) {
        match mean(step) {
            Some(mean) => sum += mean * of.waiting as f64,
            None => at_least = true,
        }
    }
    // As many run at once as now; the end is never before that of the longest.
    let left = longest.max(sum / f64::from(running.max(1)));
    (left > 0.0).then_some((left, at_least))
}
