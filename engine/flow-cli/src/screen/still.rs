//! Prints what the run waits for if nothing runs for a while. On a terminal the bars show it; a
//! pipe would show nothing.

use super::lines::said;
use super::view::View;
use crate::output::NOTE;

/// How long nothing must run before this: milliseconds.
const SILENCE: u64 = 5_000;

/// Since when nothing runs, and whether that was printed.
#[derive(Debug, Default)]
pub(crate) struct Still {
    since: Option<u64>,
    told: bool,
}

impl Still {
    /// The line, once per period without a running step.
    pub(crate) fn tells(&mut self, view: &View) -> Option<String> {
        let waiting = view.waiting.first().filter(|_| view.running().next().is_none());
        let Some((label, reason)) = waiting else {
            *self = Still::default();
            return None;
        };
        let since = *self.since.get_or_insert(view.now);
        let tells = !self.told && view.now.saturating_sub(since) >= SILENCE;
        self.told |= tells;
        tells.then(|| said(view, view.now, NOTE, "waits", &format!("{label}: {reason}")))
    }
}
