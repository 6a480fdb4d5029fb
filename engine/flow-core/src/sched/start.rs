//! Starts, preempts and ends the attempts of a gang. The decision is made elsewhere.

use super::api::{Action, Placement};
use super::state::{Core, Reservation, RunningAttempt, TaskState, Timer, Window};
use crate::{AttemptId, InstanceId, Outcome, Span, Time};

impl Core {
    pub(super) fn start(&mut self, gang: InstanceId, out: &mut Vec<Action>) -> bool {
        if self.node(gang).key.is_none() {
            return false;
        }
        let Some(placements) = self.admit(gang) else { return false };
        if self.reservation.as_ref().is_some_and(|r| r.gang == gang) {
            self.reservation = None;
        }
        let members = self.members(gang).to_vec();
        if let Some(group) = self.groups.get_mut(&gang) {
            group.window = Window::Ahead;
        }
        for (instance, placement) in members.into_iter().zip(placements) {
            self.start_attempt(instance, placement, out);
        }
        true
    }

    /// Joins attempts of an earlier run that still run. They request no limited resource, so no policy has to propose
    /// them.
    pub(super) fn join(&mut self, out: &mut Vec<Action>) {
        for gang in std::mem::take(&mut self.to_join) {
            if !matches!(self.node(gang).state, TaskState::Waiting { .. }) {
                continue;
            }
            if let Some(group) = self.groups.get_mut(&gang) {
                group.window = Window::Ahead;
            }
            for instance in self.members(gang).to_vec() {
                self.start_attempt(instance, Placement::default(), out);
            }
        }
    }

    fn start_attempt(&mut self, instance: InstanceId, placement: Placement, out: &mut Vec<Action>) {
        let attempt = AttemptId(self.next_attempt);
        self.next_attempt += 1;
        self.set(instance, TaskState::Running { attempt });
        let alone_load = self.node(instance).demand.alone_load;
        self.feasibility.now.take(attempt, instance, &placement, self.exclusivity(instance), alone_load);
        let beside = self.feasibility.now.sharers(&placement);
        for other in beside.iter().filter(|&&other| other != attempt) {
            self.live.entry(*other).and_modify(|live| live.shared = true);
        }
        let shared = beside.len() > 1;
        self.live.insert(attempt, RunningAttempt { instance, since: self.now, shared, ..RunningAttempt::default() });
        out.push(Action::Start { attempt, instance, placement });
    }

    pub(super) fn arm(&mut self, attempt: AttemptId, timeout: Option<Span>) {
        let deadline = timeout.map(|timeout| self.now + timeout);
        let Some(live) = self.live.get_mut(&attempt) else { return };
        if let Some(old) = std::mem::replace(&mut live.deadline, deadline) {
            self.timers.remove(&(old, Timer::Deadline(attempt)));
        }
        self.timers.extend(deadline.map(|at| (at, Timer::Deadline(attempt))));
    }

    pub(super) fn preempt(&mut self, gang: InstanceId, out: &mut Vec<Action>) -> bool {
        let TaskState::Running { attempt } = self.node(gang).state else { return false };
        if !self.preemptible(&self.live[&attempt]) {
            return false;
        }
        let ran = self.now - self.live[&attempt].since;
        self.node_mut(gang).attained.0 += ran.0;
        out.push(Action::Preempt { attempt });
        let since = self.now;
        self.set(gang, TaskState::Waiting { since })
    }

    pub(super) fn preemptible(&self, live: &RunningAttempt) -> bool {
        self.limits.preemption && live.killed.is_none() && self.node(live.instance).task.corun.is_none()
    }

    pub(super) fn reserve(&mut self, gang: InstanceId, at: Option<Time>, before: Option<&Reservation>) -> bool {
        if self.node(gang).key.is_none() {
            return false;
        }
        let kept = before.filter(|old| old.gang == gang && old.at.is_none());
        let since = kept.map_or(AttemptId(self.next_attempt), |old| old.since);
        self.reservation = Some(Reservation { gang, at, since });
        true
    }

    /// Tells an attempt to end. The first reason counts; a cancel may shorten its grace. An attempt that ended by
    /// itself keeps its own outcome.
    pub(super) fn kill(&mut self, attempt: AttemptId, grace: Span, outcome: Outcome, out: &mut Vec<Action>) {
        let Some(live) = self.live.get_mut(&attempt).filter(|live| !live.collecting) else { return };
        let outcome = *live.killed.get_or_insert(outcome);
        out.push(Action::Kill { attempt, grace, outcome });
    }

    /// Tells all running attempts of a gang to end, except those already told.
    pub(super) fn kill_gang(&mut self, gang: InstanceId, outcome: Outcome, out: &mut Vec<Action>) {
        for member in self.members(gang).to_vec() {
            if let TaskState::Running { attempt } = self.node(member).state
                && self.live[&attempt].killed.is_none()
            {
                self.kill(attempt, self.limits.grace, outcome, out);
            }
        }
    }
}
