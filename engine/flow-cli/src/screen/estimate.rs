//! When a run will end, from the attempts that have ended and the progress of those that run. Asks no clock.

use std::collections::BTreeMap;

use super::view::{InstanceState, View};

/// Progress below this says nothing about speed.
const TOO_EARLY: f64 = 0.05;

/// Seconds until the end; the second value is true where some steps are unknown, so that it can only be longer. `None`
/// where nothing is known.
pub(crate) fn remaining(view: &View) -> Option<(f64, bool)> {
    let known = durations(view);
    let mut at_least = false;
    let mut longest: f64 = 0.0;
    let mut running = 0;
    let mut sum = 0.0;
    for (_, attempt) in view.running() {
        running += 1;
        let so_far = view.now.saturating_sub(attempt.began) as f64 / 1e3;
        let step = view.instances.get(&attempt.instance).map(|shown| &*shown.step).unwrap_or_default();
        let left = match (attempt.fraction, known.get(step)) {
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
    for shown in view.instances.values().filter(|shown| shown.state == InstanceState::Waiting) {
        match known.get(&*shown.step) {
            Some(mean) => sum += mean,
            None => at_least = true,
        }
    }
    // As many at once as now; what runs longest ends no sooner.
    let left = longest.max(sum / f64::from(running.max(1)));
    (left > 0.0).then_some((left, at_least))
}

/// Mean wall time of the attempts of each step that ended by themselves.
fn durations(view: &View) -> BTreeMap<&str, f64> {
    let mut sums: BTreeMap<&str, (f64, u32)> = BTreeMap::new();
    for attempt in view.attempts.values() {
        let (Some((ended, _)), Some(shown)) = (attempt.ended, view.instances.get(&attempt.instance)) else { continue };
        let sum = sums.entry(&shown.step).or_default();
        *sum = (sum.0 + ended.saturating_sub(attempt.began) as f64 / 1e3, sum.1 + 1);
    }
    sums.into_iter().map(|(step, (sum, count))| (step, sum / f64::from(count))).collect()
}
