//! `critical-path`: highest priority first, then the longest remaining chain of work, skipping gangs that do not fit; a
//! gang that is passed over for too long is reserved. The default inside one workflow, where people wait for the end of
//! the last step. Repetitions take turns: every point of a step runs once before any runs again, so that a machine that
//! becomes slower with time makes all points slower, not the last one.

use std::collections::BTreeMap;

use super::{Patience, Policy, Propose, View};
use crate::{InstanceId, Span, StepId};

/// Microseconds for one level of priority: over a century, so it outweighs any chain.
const LEVEL: i64 = 1 << 52;

/// Longest remaining chain first.
#[derive(Clone, Debug, Default)]
pub(super) struct CriticalPath {
    patience: Patience,
    /// By instance: its own time plus the longest chain that waits for it, microseconds.
    chain: Vec<u64>,
}

impl Policy for CriticalPath {
    fn name(&self) -> &'static str {
        "critical-path"
    }

    fn arrived(&mut self, view: &View<'_>, first: InstanceId) {
        let new = || (first.0..view.arrived()).map(InstanceId);
        let mut known: Vec<Span> = new().filter_map(|id| view.task(id).estimate.duration).collect();
        known.sort();
        // Without history every step counts alike, so the chain with the most steps goes first.
        let unknown = known.get(known.len() / 2).copied().unwrap_or(Span::from_millis(1_000));
        let own = |id: InstanceId| view.task(id).estimate.duration.unwrap_or(unknown).0;
        self.chain.extend(new().map(own));
        // Needs have smaller ids, so a chain is final before it lengthens the chains of its needs.
        let mut lengthened: Vec<InstanceId> = new().collect();
        while let Some(id) = lengthened.pop() {
            for need in &view.task(id).needs {
                let chain = self.chain[id.index()].saturating_add(own(need.on));
                if chain > self.chain[need.on.index()] {
                    self.chain[need.on.index()] = chain;
                    if need.on < first {
                        lengthened.push(need.on);
                    }
                }
            }
        }
        self.take_turns(view, new());
    }

    fn rank(&mut self, view: &View<'_>, gang: InstanceId) -> i64 {
        let longest = view.members(gang).iter().map(|m| self.chain[m.index()]).max().unwrap_or(0);
        let highest = view.members(gang).iter().map(|&m| view.task(m).priority).max().unwrap_or(0);
        let chain = i64::try_from(longest).unwrap_or(i64::MAX).min(LEVEL - 1);
        highest.saturating_neg().saturating_mul(LEVEL).saturating_sub(chain)
    }

    fn propose(&mut self, view: &View<'_>) -> Propose {
        self.patience.propose(view)
    }
}

impl CriticalPath {
    /// Lengthens the chains of each repetition of a step to more than those of the next one.
    fn take_turns(&mut self, view: &View<'_>, new: impl Iterator<Item = InstanceId> + Clone) {
        let repeated = || new.clone().filter_map(|id| Some((view.task(id).repetition?, id.index())));
        let mut rounds: BTreeMap<(StepId, u32), u64> = BTreeMap::new();
        for (round, at) in repeated() {
            let longest = rounds.entry(round).or_default();
            *longest = self.chain[at].max(*longest);
        }
        let mut later: Option<(StepId, u64)> = None;
        for ((step, _), least) in rounds.iter_mut().rev() {
            let above = later.filter(|(of, _)| of == step).map_or(0, |(_, longest)| longest.saturating_add(1));
            later = Some((*step, above.max(*least)));
            *least = above;
        }
        for (round, at) in repeated() {
            self.chain[at] = self.chain[at].max(rounds[&round]);
        }
    }
}
