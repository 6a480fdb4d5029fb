//! Two policies that use all of the seam, in as few lines as it allows: backfill behind a reservation, and preemption.

use std::collections::{BTreeSet, VecDeque};

use flow_core::InstanceId;
use flow_core::sched::policy::{Policy, Propose, View};

/// The head waits for what is expected to end first; others pass if they do not delay it.
#[derive(Clone, Debug)]
pub(crate) struct Easy;

impl Policy for Easy {
    fn name(&self) -> &'static str {
        "easy"
    }

    fn propose(&mut self, view: &View<'_>) -> Propose {
        let Some(head) = view.waiting().next() else { return Propose::Stop };
        if view.reserved().is_none() {
            if view.fits(head) {
                return Propose::Start(head);
            }
            let mut ends: Vec<_> = view.running().map(|ran| (ran.expected_end, ran.attempt)).collect();
            ends.sort_by_key(|&(end, attempt)| (end.is_none(), end, attempt));
            let mut trial = view.trial();
            for (at, attempt) in ends {
                trial.end(attempt);
                if trial.fits(head) {
                    return Propose::Reserve { unit: head, at };
                }
            }
        }
        view.first_that_fits().map_or(Propose::Stop, Propose::Start)
    }
}

/// At every event the units with least time left run, whatever ran before.
#[derive(Clone, Debug, Default)]
pub(crate) struct Srtf {
    proposals: VecDeque<Propose>,
}

impl Policy for Srtf {
    fn name(&self) -> &'static str {
        "srtf"
    }

    fn preemptive(&self) -> bool {
        true
    }

    fn propose(&mut self, view: &View<'_>) -> Propose {
        if view.proposals() == 0 {
            self.plan(view);
        }
        while let Some(next) = self.proposals.pop_front() {
            // What stays where it is may leave less room than it would elsewhere.
            if !matches!(next, Propose::Start(unit) if !view.fits(unit)) {
                return next;
            }
        }
        Propose::Stop
    }
}

impl Srtf {
    fn plan(&mut self, view: &View<'_>) {
        let movable: BTreeSet<_> = view.running().filter(|ran| ran.preemptible).map(|ran| ran.unit).collect();
        let left = |unit: InstanceId| {
            let total = view.task(unit).estimate.duration.map_or(u64::MAX, |span| span.0);
            (total.saturating_sub(view.attained(unit).0), view.task(unit).submitted, unit)
        };
        let mut all: Vec<_> = movable.iter().copied().chain(view.waiting()).map(left).collect();
        all.sort();
        let mut trial = view.trial();
        view.running().filter(|ran| ran.preemptible).for_each(|ran| trial.end(ran.attempt));
        let chosen: BTreeSet<_> = all.iter().map(|&(.., unit)| unit).filter(|&unit| trial.start(unit)).collect();
        self.proposals = movable.difference(&chosen).map(|&unit| Propose::Preempt(unit)).collect();
        let starts =
            all.into_iter().map(|(.., unit)| unit).filter(|unit| chosen.contains(unit) && !movable.contains(unit));
        self.proposals.extend(starts.map(Propose::Start));
    }
}
