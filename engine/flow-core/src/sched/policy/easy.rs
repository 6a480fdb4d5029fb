//! `easy`: in order of arrival with backfill. The first gang that does not fit gets a reservation for the time when
//! enough is expected to have ended. A later gang may pass only if it is expected to end before that, or fits into the
//! remaining room. Policies with another order share this rule.

use super::{Policy, Propose, View};

/// In order of arrival; a later gang passes only without delaying the first.
#[derive(Clone, Debug)]
pub(super) struct Easy;

impl Policy for Easy {
    fn name(&self) -> &'static str {
        "easy"
    }

    fn propose(&mut self, view: &View<'_>) -> Propose {
        backfill(view)
    }
}

/// Starts the first gang in order, or reserves it while others pass without delaying it. If the order makes every
/// waiting gang the first at some time, none starves.
pub(super) fn backfill(view: &View<'_>) -> Propose {
    let Some(head) = view.waiting().next() else { return Propose::Stop };
    if view.reserved().is_none() {
        if view.fits(head) {
            return Propose::Start(head);
        }
        let mut ends: Vec<_> = view.running().map(|ran| (ran.expected_end, ran.attempt)).collect();
        ends.sort_by_key(|&(end, attempt)| (end.is_none(), end, attempt));
        let mut trial = view.hypothesis();
        for (at, attempt) in ends {
            trial.end(attempt);
            if trial.fits(head) {
                return Propose::Reserve { gang: head, at };
            }
        }
    }
    view.first_that_fits().map_or(Propose::Stop, Propose::Start)
}
