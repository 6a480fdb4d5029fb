//! Shared by the preemptive policies. Every decision places all unfinished work, in the policy's order, as if the
//! machine were empty, and skips what does not fit. Running work without room is preempted. This module knows no order.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use super::{Key, Propose, RunningWork, View};
use crate::InstanceId;

/// The remaining proposals of one decision.
#[derive(Clone, Debug, Default)]
pub(super) struct Reorder {
    proposals: VecDeque<Propose>,
}

/// The result of a decision, each list in order.
#[derive(Clone, Debug, Default)]
pub(super) struct Outcome {
    /// Gangs that run from now on, or still.
    pub run: Vec<InstanceId>,
    /// Gangs that ran and are preempted.
    pub preempted: Vec<InstanceId>,
}

impl Reorder {
    /// Makes a new decision. `rank` ranks running gangs; waiting gangs already have a rank.
    pub(super) fn decide(&mut self, view: &View<'_>, rank: impl Fn(&RunningWork) -> i64) -> Outcome {
        let mut trial = view.hypothesis();
        let mut running = BTreeMap::new();
        for ran in view.running().filter(|ran| ran.preemptible) {
            trial.end(ran.attempt);
            running.insert((rank(&ran), view.task(ran.gang).submitted, ran.gang), ran.gang);
        }
        let ran: BTreeSet<InstanceId> = running.values().copied().collect();
        let mut running = running.into_keys().peekable();
        let mut waiting: Vec<_> = view.waiting_alike().map(Iterator::peekable).collect();
        let mut outcome = Outcome::default();
        loop {
            let heads = waiting.iter_mut().enumerate().filter_map(|(i, alike)| Some((*alike.peek()?, Some(i))));
            let next: Option<(Key, Option<usize>)> = heads.chain(running.peek().map(|&key| (key, None))).min();
            let Some(((.., gang), class)) = next else { break };
            let fits = trial.start(gang);
            match class {
                // The machine only fills: a gang without room has none later either, nor do others of its class.
                Some(i) if !fits => _ = waiting.swap_remove(i),
                Some(i) => _ = waiting[i].next(),
                None => _ = running.next(),
            }
            match (fits, class) {
                (true, _) => outcome.run.push(gang),
                (false, None) => outcome.preempted.push(gang),
                (false, Some(_)) => {}
            }
        }
        self.proposals = outcome.preempted.iter().map(|&gang| Propose::Preempt(gang)).collect();
        let starts = outcome.run.iter().filter(|gang| !ran.contains(gang));
        self.proposals.extend(starts.map(|&gang| Propose::Start(gang)));
        outcome
    }

    /// The next proposal of the decision.
    pub(super) fn next(&mut self, view: &View<'_>) -> Propose {
        while let Some(next) = self.proposals.pop_front() {
            // Gangs that stay where they are may leave less room than elsewhere.
            if !matches!(next, Propose::Start(gang) if !view.fits(gang)) {
                return next;
            }
        }
        Propose::Stop
    }
}
