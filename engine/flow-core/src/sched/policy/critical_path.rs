//! `critical-path`: the highest priority goes first, of equal ones the longest chain of work still to come, skipping what does
//! not fit; what is passed over for too long is reserved. The default inside one workflow, where the end of the last step is what people wait for.

use super::{Patience, Policy, Propose, View};
use crate::{InstanceId, Span};

/// A level of priority is worth more than any chain: over a century, microseconds.
const LEVEL: i64 = 1 << 52;

/// Longest remaining chain first.
#[derive(Clone, Debug, Default)]
pub(super) struct CriticalPath {
    patience: Patience,
    /// By instance: its own time and that of the longest chain that waits for it, microseconds.
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
        // Without any history every step counts alike, so that the chain with most steps goes first.
        let unknown = known.get(known.len() / 2).copied().unwrap_or(Span::from_millis(1_000));
        let own = |id: InstanceId| view.task(id).estimate.duration.unwrap_or(unknown).0;
        self.chain.extend(new().map(own));
        // Needs have smaller ids, so each chain is final before what it waits for is lengthened by it.
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
    }

    fn rank(&mut self, view: &View<'_>, unit: InstanceId) -> i64 {
        let longest = view.members(unit).iter().map(|m| self.chain[m.index()]).max().unwrap_or(0);
        let highest = view.members(unit).iter().map(|&m| view.task(m).priority).max().unwrap_or(0);
        let chain = i64::try_from(longest).unwrap_or(i64::MAX).min(LEVEL - 1);
        highest.saturating_neg().saturating_mul(LEVEL).saturating_sub(chain)
    }

    fn propose(&mut self, view: &View<'_>) -> Propose {
        self.patience.propose(view)
    }
}
