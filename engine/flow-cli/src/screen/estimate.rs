//! Estimates the end of a run from what is on the screen.

use flow_core::RunningTime;

use super::view::View;
use crate::words;

/// Seconds until the end, and whether it can only be longer. `None` if nothing is known.
pub(crate) fn remaining(view: &View) -> Option<(f64, bool)> {
    let running = view.running().map(|(_, attempt)| RunningTime {
        of: view.instances.get(&attempt.instance).and_then(|shown| view.steps.get(&*shown.step)).map(|of| &of.times),
        so_far_s: view.now.saturating_sub(attempt.began) as f64 / 1e3,
        fraction: attempt.fraction,
        left_s: attempt.ends_at.map(|end| end.saturating_sub(view.now) as f64 / 1e3),
    });
    let left = flow_core::remaining(view.steps.values().map(|of| &of.times), running)?;
    Some((left.seconds, left.at_least))
}

/// The share of an attempt's work that is done by its expected end. It is never all: only an ended attempt is done.
pub(crate) fn share(began: u64, ends_at: Option<u64>, now: u64) -> Option<f64> {
    let whole = ends_at?.saturating_sub(began).max(1) as f64;
    Some((now.saturating_sub(began) as f64 / whole).min(0.99))
}

/// `≈ 2 min 05 s left`; empty if the end is unknown or passed.
pub(crate) fn left(ends_at: Option<u64>, now: u64) -> String {
    let left = ends_at.unwrap_or(0).saturating_sub(now);
    // Below a second the number changes faster than anyone reads.
    if left < 1_000 { String::new() } else { format!("≈ {} left", words::duration((left as f64 / 1e3).round())) }
}
