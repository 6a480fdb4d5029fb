//! What the preemptive policies share: at every decision all unfinished work, in the policy's order, is placed on the machine
//! as if it were empty, skipping what does not fit; running work that finds no room is taken off. Knows no order.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use super::{Key, Propose, Running, View};
use crate::InstanceId;

/// The proposals of one decision, one after the other.
#[derive(Clone, Debug, Default)]
pub(super) struct Reorder {
    proposals: VecDeque<Propose>,
}

/// What a decision comes to, each in order.
#[derive(Clone, Debug, Default)]
pub(super) struct Outcome {
    /// Runs from now on, or still.
    pub run: Vec<InstanceId>,
    /// Ran, and is taken off.
    pub preempted: Vec<InstanceId>,
}

impl Reorder {
    /// Decides anew. `rank` is that of what runs; what waits has its own.
    pub(super) fn decide(&mut self, view: &View<'_>, rank: impl Fn(&Running<'_>) -> i64) -> Outcome {
        let mut trial = view.hypothesis();
        let mut running = BTreeMap::new();
        for ran in view.running().filter(|ran| ran.preemptible) {
            trial.end(ran.attempt);
            running.insert((rank(&ran), view.task(ran.unit).submitted, ran.unit), ran.unit);
        }
        let ran: BTreeSet<InstanceId> = running.values().copied().collect();
        let mut running = running.into_keys().peekable();
        let mut waiting: Vec<_> = view.waiting_alike().map(Iterator::peekable).collect();
        let mut outcome = Outcome::default();
        loop {
            let heads = waiting.iter_mut().enumerate().filter_map(|(i, alike)| Some((*alike.peek()?, Some(i))));
            let next: Option<(Key, Option<usize>)> = heads.chain(running.peek().map(|&key| (key, None))).min();
            let Some(((.., unit), class)) = next else { break };
            let fits = trial.start(unit);
            match class {
                // The machine only fills: what has no room now has none later, nor have those that are like it.
                Some(i) if !fits => _ = waiting.swap_remove(i),
                Some(i) => _ = waiting[i].next(),
                None => _ = running.next(),
            }
            match (fits, class) {
                (true, _) => outcome.run.push(unit),
                (false, None) => outcome.preempted.push(unit),
                (false, Some(_)) => {}
            }
        }
        self.proposals = outcome.preempted.iter().map(|&unit| Propose::Preempt(unit)).collect();
        let starts = outcome.run.iter().filter(|unit| !ran.contains(unit));
        self.proposals.extend(starts.map(|&unit| Propose::Start(unit)));
        outcome
    }

    /// The next proposal of the decision.
    pub(super) fn next(&mut self, view: &View<'_>) -> Propose {
        while let Some(next) = self.proposals.pop_front() {
            // What stays where it is may leave less room than it would elsewhere.
            if !matches!(next, Propose::Start(unit) if !view.fits(unit)) {
                return next;
            }
        }
        Propose::Stop
    }
}
