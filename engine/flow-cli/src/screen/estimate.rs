//! Estimates the end of a run from what is on the screen.

use flow_core::RunningTime;

use super::view::View;

/// Seconds until the end, and whether it can only be longer. `None` if nothing is known.
pub(crate) fn remaining(view: &View) -> Option<(f64, bool)> {
    let running = view.running().map(|(_, attempt)| RunningTime {
        of: view.instances.get(&attempt.instance).and_then(|shown| view.steps.get(&*shown.step)).map(|of| &of.times),
        so_far_s: view.now.saturating_sub(attempt.began) as f64 / 1e3,
        fraction: attempt.fraction,
    });
    flow_core::remaining(view.steps.values().map(|of| &of.times), running)
}
