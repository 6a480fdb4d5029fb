//! Decides after the attempts of a gang have ended: retry, or record the results. A gang is decided as a whole.

use super::api::Action;
use super::demand::Demand;
use super::state::{Core, EndReason, Node, TaskState};
use crate::{AttemptId, InstanceId, Outcome, Span, Time};

/// Maximum restarts of a gang after lost GPUs. A GPU that comes and goes would otherwise restart it forever.
const MOST_LOSSES: u32 = 3;

impl Core {
    /// Handles the end of an attempt. Its gang is decided as a whole.
    pub(super) fn ended(&mut self, attempt: AttemptId, outcome: Outcome, disturbed: bool, out: &mut Vec<Action>) {
        let Some(live) = self.live.get(&attempt) else { return };
        let (instance, outcome, shared) = (live.instance, live.killed.unwrap_or(outcome), live.shared);
        let held = live.freed.unwrap_or_else(|| self.feasibility.now.held(attempt));
        let gang = self.node(instance).gang;
        self.node_mut(gang).lost |= outcome == Outcome::Failed && held.lost;
        if outcome == Outcome::OutOfMemory && shared {
            self.retry_without_corunners(held.peak, instance);
        }
        self.set(instance, TaskState::Ended { attempt, outcome, disturbed });
        if self.group(gang).is_some() {
            self.member_ended(gang, outcome, out);
        } else {
            self.conclude(gang, out);
        }
    }

    /// Marks the gang of a running attempt; read when the attempt is over.
    pub(super) fn note(&mut self, attempt: AttemptId, note: impl FnOnce(&mut Node)) {
        if let Some(live) = self.live.get(&attempt) {
            let gang = self.node(live.instance).gang;
            note(self.node_mut(gang));
        }
    }

    /// The attempt ran out of memory next to others although it was expected to fit. Its estimate is raised, and it is
    /// retried once with its GPUs to itself, because only that shows its real need.
    fn retry_without_corunners(&mut self, peak: u64, instance: InstanceId) {
        let node = &mut self.nodes[instance.index()];
        if node.alone_since || node.task.corun.is_some() {
            return;
        }
        (node.alone_since, node.retry_alone) = (true, true);
        node.task.estimate.gpu_memory = node.task.estimate.gpu_memory.max(Some(peak));
        node.demand = Demand { gpus_alone: true, ..Demand::of(&node.task, &self.limits.sharing) };
    }

    /// All attempts of a gang are over: retries or records it.
    pub(super) fn conclude(&mut self, gang: InstanceId, out: &mut Vec<Action>) {
        let ends: Vec<_> = self.members(gang).iter().map(|&m| (m, self.node(m).state)).collect();
        let again = self.again(gang);
        for (instance, state) in ends {
            let TaskState::Ended { attempt, outcome, .. } = state else { continue };
            match again {
                Some(retry_at) => {
                    out.push(Action::Discard { instance, attempt, retry_at });
                    self.node_mut(instance).attained = Span(0);
                    // This run starts the next attempt itself.
                    self.node_mut(instance).is_joined = false;
                    if retry_at > self.now {
                        self.set(instance, TaskState::Paused { until: retry_at });
                    }
                }
                None => {
                    out.push(Action::Record { instance, attempt });
                    self.set(instance, TaskState::Recording { outcome });
                }
            }
        }
        match again {
            Some(at) if at == self.now => self.wait(gang, out),
            Some(_) => {}
            None => self.fail_gang(gang),
        }
    }

    /// When a gang is retried, if at all. At once if it left a checkpoint, or if it lost a GPU. With growing pauses
    /// after a failure. At once, but only once, after a disturbed measurement or after running out of memory on a shared
    /// GPU.
    fn again(&mut self, gang: InstanceId) -> Option<Time> {
        if self.ending != EndReason::No {
            return None;
        }
        let lost = std::mem::take(&mut self.node_mut(gang).lost);
        if std::mem::take(&mut self.node_mut(gang).continues) {
            return Some(self.now);
        }
        if lost && self.node(gang).losses < MOST_LOSSES && self.never_fits(self.class(gang)).is_none() {
            self.node_mut(gang).losses += 1;
            return Some(self.now);
        }
        let (mut failed, mut disturbed) = (false, false);
        for &m in self.members(gang) {
            let node = self.node(m);
            if let TaskState::Ended { outcome, disturbed: bad, .. } = node.state {
                failed |= outcome == Outcome::Failed;
                let measurement = matches!(outcome, Outcome::Ok | Outcome::OutOfMemory | Outcome::TimedOut);
                disturbed |= bad && measurement && node.task.measured;
            }
        }
        let retry = failed && self.retries_left(gang);
        let node = self.node_mut(gang);
        if retry {
            node.failures += 1;
            Some(self.now + pause_after(self.node(gang).failures))
        } else if disturbed && !failed && !node.repeated {
            node.repeated = true;
            Some(self.now)
        } else if node.retry_alone {
            node.retry_alone = false;
            Some(self.now)
        } else {
            None
        }
    }

    /// Whether retries are left. A gang has the largest retry count of its members.
    pub(super) fn retries_left(&self, gang: InstanceId) -> bool {
        let retries = self.members(gang).iter().map(|&m| self.node(m).task.retries).max().unwrap_or(0);
        self.node(gang).failures < retries
    }

    pub(super) fn recorded(&mut self, instance: InstanceId, out: &mut Vec<Action>) {
        if let Some(TaskState::Recording { outcome }) = self.nodes.get(instance.index()).map(|node| node.state) {
            self.settle(&[instance], outcome, None, out);
        }
    }
}

/// Pause before a retry: 1 s, 2 s, 4 s, … up to a minute.
fn pause_after(failures: u32) -> Span {
    Span::from_millis(1_000 * (1u64 << (failures - 1).min(6)).min(60))
}
