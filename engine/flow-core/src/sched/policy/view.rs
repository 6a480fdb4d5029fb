//! A policy's view: waiting and running gangs, estimates, capacity, and ledgers for hypothetical changes.

use super::super::api::{Limits, Placement, Task};
use super::super::resources::Allocations;
use super::super::state::{Core, RunningAttempt, TaskState};
use crate::{AttemptId, InstanceId, Span, Time};

pub use super::super::state::Key;

/// The scheduler as a policy sees it. Gangs are named by their first instance.
#[derive(Clone, Copy, Debug)]
pub struct View<'a> {
    core: &'a Core,
    proposals: u32,
}

#[derive(Clone, Copy, Debug)]
pub struct RunningWork {
    /// The gang it belongs to.
    pub gang: InstanceId,
    pub attempt: AttemptId,
    /// Its expected end, if it has an estimate. An attempt that has exceeded its estimate is expected to take a quarter
    /// longer than its time so far.
    pub expected_end: Option<Time>,
    /// Whether it may be preempted: it is not in a co-run group, and was not told to end.
    pub preemptible: bool,
}

impl<'a> View<'a> {
    pub(in super::super) fn new(core: &'a Core, proposals: u32) -> Self {
        View { core, proposals }
    }

    /// The instant of the decision.
    pub fn now(&self) -> Time {
        self.core.now
    }

    /// Number of earlier proposals at this instant; 0 in the first call.
    pub fn proposals(&self) -> u32 {
        self.proposals
    }

    /// Patience, and whether running tasks may be preempted.
    pub fn limits(&self) -> &'a Limits {
        &self.core.limits
    }

    /// Number of instances that have arrived; all ids are smaller.
    pub fn arrived(&self) -> u32 {
        self.core.nodes.len() as u32
    }

    /// An instance: needs, request, estimate, priority, time of arrival.
    pub fn task(&self, instance: InstanceId) -> &'a Task {
        &self.core.node(instance).task
    }

    /// The instances of a gang, in order of id.
    pub fn members(&self, gang: InstanceId) -> &'a [InstanceId] {
        self.core.members(gang)
    }

    /// Gangs that may start, in order of rank, arrival and id.
    pub fn waiting(&self) -> impl Iterator<Item = InstanceId> + 'a {
        self.core.queue.order.iter().map(|&(_, _, gang)| gang)
    }

    /// The same, grouped by class of demand. The gangs of a class fit alike.
    pub fn waiting_alike(&self) -> impl Iterator<Item = impl Iterator<Item = Key> + 'a> + 'a {
        self.core.queue.classes.values().map(|alike| alike.iter().copied())
    }

    /// Whether a gang may start.
    pub fn is_waiting(&self, gang: InstanceId) -> bool {
        self.core.node(gang).key.is_some()
    }

    /// Running attempts in the order of their start.
    pub fn running(&self) -> impl Iterator<Item = RunningWork> + 'a {
        let core = self.core;
        core.feasibility.now.holders.iter().map(move |(&attempt, held)| {
            let live = &core.live[&attempt];
            RunningWork {
                gang: core.node(held.instance).gang,
                attempt,
                expected_end: core.expected_end(live),
                preemptible: core.preemptible(live),
            }
        })
    }

    /// Run time of an instance so far, without attempts that failed.
    pub fn attained(&self, instance: InstanceId) -> Span {
        let node = self.core.node(instance);
        match node.state {
            TaskState::Running { attempt } => Span(node.attained.0 + (self.now() - self.core.live[&attempt].since).0),
            _ => node.attained,
        }
    }

    /// Estimated time of a gang from its start, minus what it has attained; for a group, the longest.
    pub fn expected_span(&self, gang: InstanceId) -> Option<Span> {
        self.core.expected_span(gang)
    }

    /// Whether admission would start a gang now.
    pub fn fits(&self, gang: InstanceId) -> bool {
        self.core.admit(gang).is_some()
    }

    /// Whether a gang would fit if everything of this run ended.
    pub fn fits_once_ours_end(&self, gang: InstanceId) -> bool {
        self.core.class_fits(&self.core.feasibility.drained, self.core.class(gang))
    }

    /// The first gang in order that admission would start now. Cheap even for a long queue, if it has few classes of
    /// demand.
    pub fn first_that_fits(&self) -> Option<InstanceId> {
        let (core, mut best) = (self.core, None);
        for (&class, alike) in &core.queue.classes {
            let first = alike.first();
            if first.is_none() || best.is_some() && best < first || !core.class_fits(&core.feasibility.now, class) {
                continue;
            }
            // A class fits alike; only a reservation distinguishes its gangs, by its holder and their expected
            // durations. Gangs that outlast its start leave room for it, or do not, alike.
            let beside = first.filter(|(_, _, gang)| core.admit(*gang).is_some());
            let found = beside.or_else(|| alike.iter().find(|(_, _, gang)| core.is_in_time(*gang)));
            if found.is_some() && (best.is_none() || found < best) {
                best = found;
            }
        }
        best.map(|&(_, _, gang)| gang)
    }

    /// The first gang in order that has no room now, but would if everything of this run ended.
    pub fn first_passed_over(&self) -> Option<InstanceId> {
        let core = self.core;
        let passed = core.queue.classes.iter().filter(|&(&class, _)| {
            !core.class_fits(&core.feasibility.now, class) && core.class_fits(&core.feasibility.drained, class)
        });
        passed.filter_map(|(_, alike)| alike.first()).min().map(|&(_, _, gang)| gang)
    }

    /// The gang that holds a reservation.
    pub fn reserved(&self) -> Option<InstanceId> {
        self.core.reservation.as_ref().map(|r| r.gang)
    }

    /// A copy of the present ledger for hypothetical changes.
    pub fn hypothesis(&self) -> Hypothesis<'a> {
        Hypothesis::new(self.core)
    }
}

/// A copy of the ledger: what would fit if one attempt ended and another started?
#[derive(Clone, Debug)]
pub struct Hypothesis<'a> {
    core: &'a Core,
    ledger: Allocations,
    /// Id of the next hypothetical attempt. Ids count down from the maximum, which no run reaches.
    next: u32,
}

impl<'a> Hypothesis<'a> {
    pub(in super::super) fn new(core: &'a Core) -> Self {
        let mut ledger = core.feasibility.now.clone();
        // No promise relies on sharing turning out cheap.
        ledger.try_nothing();
        Hypothesis { core, ledger, next: u32::MAX }
    }

    pub fn end(&mut self, attempt: AttemptId) {
        self.ledger.release(attempt);
    }

    /// Whether a gang would fit. Reservations do not count here.
    pub fn fits(&self, gang: InstanceId) -> bool {
        self.core.class_fits(&self.ledger, self.core.class(gang))
    }

    /// Starts a gang, if it fits.
    pub fn start(&mut self, gang: InstanceId) -> bool {
        let Some(placements) = self.core.place_on(&self.ledger, gang) else { return false };
        self.take(gang, &placements);
        true
    }

    pub(in super::super) fn take(&mut self, gang: InstanceId, placements: &[Placement]) {
        for (&member, placement) in self.core.members(gang).iter().zip(placements) {
            let alone_load = self.core.node(member).demand.alone_load;
            self.ledger.take(AttemptId(self.next), member, placement, self.core.exclusivity(member), alone_load);
            self.next -= 1;
        }
    }
}

impl Core {
    pub(in super::super) fn expected_span(&self, gang: InstanceId) -> Option<Span> {
        let spans = self.members(gang).iter().map(|&m| {
            let node = self.node(m);
            node.task.estimate.duration.map(|total| Span(total.0.saturating_sub(node.attained.0)))
        });
        spans.reduce(|a, b| Some(a?.max(b?))).flatten()
    }

    pub(in super::super) fn expected_end(&self, live: &RunningAttempt) -> Option<Time> {
        self.expected_end_at(live, self.now)
    }

    pub(in super::super) fn expected_end_at(&self, live: &RunningAttempt, now: Time) -> Option<Time> {
        let node = self.node(live.instance);
        let left = Span(node.task.estimate.duration?.0.saturating_sub(node.attained.0));
        let so_far = now - live.since;
        let span = if left > so_far { left } else { Span(so_far.0 / 4 * 5) };
        Some(live.since + span)
    }
}
