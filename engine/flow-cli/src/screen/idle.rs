//! Prints what the run waits for if nothing runs for a while. On a terminal the bars show it; a
//! pipe would show nothing.

use super::lines::event_text;
use super::view::View;
use crate::output::NOTE;

/// How long nothing must run before this: milliseconds.
const SILENCE: u64 = 5_000;
/// The same reason is printed again after this: milliseconds. Two runs that take turns wait for each other at every step.
const AGAIN: u64 = 60_000;

/// Since when nothing runs and whether that was looked at, and the last reason that was printed, with its time.
#[derive(Debug, Default)]
pub(crate) struct IdleNotice {
    since: Option<u64>,
    seen: bool,
    shown: Option<(String, u64)>,
}

impl IdleNotice {
    /// The line, at most once per period without a running step and once per reason in a while.
    pub(crate) fn line(&mut self, view: &View) -> Option<String> {
        let waiting = view.waiting.first().filter(|_| view.running().next().is_none());
        let Some((label, reason)) = waiting else {
            (self.since, self.seen) = (None, false);
            return None;
        };
        let since = *self.since.get_or_insert(view.now);
        if self.seen || view.now.saturating_sub(since) < SILENCE {
            return None;
        }
        self.seen = true;
        let is_known = |(of, at): &(String, u64)| of == reason && view.now.saturating_sub(*at) < AGAIN;
        if self.shown.as_ref().is_some_and(is_known) {
            return None;
        }
        self.shown = Some((reason.clone(), view.now));
        Some(event_text(view, view.now, NOTE, "waits", &format!("{label}: {reason}")))
    }
}
