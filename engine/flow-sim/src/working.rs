//! Work that goes on at a speed that changes.

use flow_core::{Span, Time};

/// Work that goes on.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Working {
    /// From then on at this speed …
    pub(crate) since: Time,
    pub(crate) speed: f64,
    /// … with so much left at that time, as time alone.
    pub(crate) left: Span,
}

impl Working {
    /// What is left at a later time.
    pub(crate) fn left_at(&self, now: Time) -> Span {
        let done = (now - self.since).0 as f64 * self.speed;
        Span(self.left.0.saturating_sub(done.round() as u64))
    }

    /// When it is done if nothing changes.
    pub(crate) fn done_at(&self) -> Time {
        self.since + Span((self.left.0 as f64 / self.speed.max(1e-9)).round() as u64)
    }
}
