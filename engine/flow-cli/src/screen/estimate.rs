//! Estimates the end of a run from what is on the screen.

use flow_core::{AttemptId, RunningProgress};

use super::view::View;
use crate::words;

/// Seconds until the end, and whether it can only be longer. `None` if nothing is known.
pub(crate) fn remaining(view: &View) -> Option<(f64, bool)> {
    let known = |attempt: AttemptId| {
        let attempt = view.attempts.get(&attempt);
        let ends_at = attempt.and_then(|attempt| attempt.ends_at);
        RunningProgress {
            fraction: attempt.and_then(|attempt| attempt.fraction),
            left_s: ends_at.map(|end| end.saturating_sub(view.now) as f64 / 1e3),
        }
    };
    let left = view.times.remaining(view.now, known)?;
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
