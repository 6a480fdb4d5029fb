//! Settles instances and updates their dependents. The only place with the rule of what blocks what.

use super::api::Action;
use super::state::{Core, EndReason, Node, TaskState};
use crate::{InstanceId, Outcome};

impl Node {
    /// Whether dependents may continue: it succeeded, its outcome counts as a result, or it was never to run. If a
    /// dependent then reads a missing output, its lookup refuses it, not this rule.
    pub(super) fn is_fine(&self, outcome: Outcome) -> bool {
        let left_out = outcome == Outcome::Skipped && self.task.settled == Some(outcome);
        outcome == Outcome::Ok || left_out || self.task.record.contains(&outcome)
    }
}

impl Core {
    /// Settles instances that end as one. Emits no action: the driver already knows, or the caller reports it.
    pub(super) fn settle(
        &mut self,
        ids: &[InstanceId],
        outcome: Outcome,
        because: Option<InstanceId>,
        out: &mut Vec<Action>,
    ) {
        for &id in ids {
            let fine = self.node(id).is_fine(outcome);
            self.set(id, TaskState::Settled { outcome, fine, because });
        }
        for &id in ids {
            self.notify_dependents(id, out);
        }
        for &id in ids {
            self.end_after_failure(id, out);
        }
    }

    /// Settles an instance that is not needed, as if it had never been to run. Emits no action.
    pub(super) fn leave_out(&mut self, id: InstanceId, out: &mut Vec<Action>) {
        self.node_mut(id).task.settled = Some(Outcome::Skipped);
        self.settle(&[id], Outcome::Skipped, None, out);
    }

    /// Settles instances without an attempt, and reports it to the driver.
    pub(super) fn give_up(
        &mut self,
        ids: &[InstanceId],
        outcome: Outcome,
        because: Option<InstanceId>,
        out: &mut Vec<Action>,
    ) {
        out.extend(ids.iter().map(|&instance| Action::Settle { instance, outcome, because }));
        self.settle(ids, outcome, because, out);
    }

    /// A failure ends the run, unless it keeps going: running attempts continue to their end, nothing new starts.
    pub(super) fn end_after_failure(&mut self, id: InstanceId, out: &mut Vec<Action>) {
        let TaskState::Settled { outcome, fine: false, .. } = self.node(id).state else { return };
        self.fail(id, outcome);
        if self.ending == EndReason::Failed(id) {
            self.end_all(false, out);
        }
    }

    /// Stops new starts as soon as a failed gang is being recorded, without waiting for the store. Dependents are
    /// handled when the gang itself settles.
    pub(super) fn fail_gang(&mut self, gang: InstanceId) {
        for id in self.members(gang).to_vec() {
            if let TaskState::Recording { outcome } = self.node(id).state
                && !self.node(id).is_fine(outcome)
            {
                self.fail(id, outcome);
            }
        }
    }

    fn fail(&mut self, id: InstanceId, outcome: Outcome) {
        let failed = !matches!(outcome, Outcome::Ok | Outcome::Skipped | Outcome::Cancelled);
        if failed && !self.limits.keep_going && self.ending == EndReason::No {
            self.ending = EndReason::Failed(id);
        }
    }

    /// Ends the run: cancels everything that neither runs nor is being stored. `at_once`: also pending lookups.
    pub(super) fn end_all(&mut self, at_once: bool, out: &mut Vec<Action>) {
        let (outcome, because) = (Outcome::Cancelled, self.cause_of_ending());
        for index in 0..self.nodes.len() {
            let instance = InstanceId(index as u32);
            let ends = match self.node(instance).state {
                TaskState::Pending | TaskState::Waiting { .. } | TaskState::Paused { .. } => true,
                TaskState::LookingUp => at_once,
                _ => false,
            };
            if ends {
                out.push(Action::Settle { instance, outcome, because });
                self.set(instance, TaskState::Settled { outcome, fine: false, because });
            }
        }
    }

    /// The failure that ended the run, if one did.
    pub(super) fn cause_of_ending(&self) -> Option<InstanceId> {
        match self.ending {
            EndReason::Failed(instance) => Some(instance),
            EndReason::No | EndReason::Cancelled => None,
        }
    }

    /// Walks from a settled instance to its dependents: each has one need less, or is skipped in turn. Not recursive,
    /// because chains can be long.
    pub(super) fn notify_dependents(&mut self, id: InstanceId, out: &mut Vec<Action>) {
        let mut settled = vec![id];
        while let Some(id) = settled.pop() {
            let TaskState::Settled { fine, because, .. } = self.node(id).state else { continue };
            for (dependent, list) in std::mem::take(&mut self.node_mut(id).dependents) {
                if self.node(dependent).state != TaskState::Pending {
                    continue;
                }
                if fine || list && self.limits.keep_going {
                    self.met(dependent);
                } else {
                    settled.extend(self.block(dependent, because.unwrap_or(id), out));
                }
            }
        }
    }

    /// One need less. The gang is looked up when none is left.
    fn met(&mut self, id: InstanceId) {
        let node = self.node_mut(id);
        node.unmet -= 1;
        if node.unmet == 0 {
            let gang = node.gang;
            self.node_mut(gang).open -= 1;
            if self.node(gang).open == 0 {
                self.to_look_up.push(gang);
            }
        }
    }

    /// Skips an instance and its group because one of its needs did not succeed. Returns the skipped instances.
    pub(super) fn block(&mut self, id: InstanceId, because: InstanceId, out: &mut Vec<Action>) -> Vec<InstanceId> {
        let skipped = self.members(self.node(id).gang).to_vec();
        for &instance in &skipped {
            let (outcome, because) = (Outcome::Skipped, Some(because));
            out.push(Action::Settle { instance, outcome, because });
            self.set(instance, TaskState::Settled { outcome, fine: false, because });
        }
        skipped
    }
}
