//! What a policy may look at: waiting and running units, estimates, capacity, and books to try things out on.

use super::super::api::{Capacity, Limits, Placement, Task};
use super::super::resources::Allocations;
use super::super::state::{Core, RunningAttempt, TaskState};
use crate::{AttemptId, InstanceId, Span, Time};

pub use super::super::state::Key;

/// The scheduler as a policy sees it. Units are named by their first instance.
#[derive(Clone, Copy, Debug)]
pub struct View<'a> {
    core: &'a Core,
    proposals: u32,
}

#[derive(Clone, Copy, Debug)]
pub struct Running<'a> {
    /// The unit it belongs to.
    pub unit: InstanceId,
    pub instance: InstanceId,
    pub attempt: AttemptId,
    pub since: Time,
    /// When it will end, as far as its estimate goes. One that has outlived its estimate is expected to take a quarter
    /// longer than it has taken.
    pub expected_end: Option<Time>,
    /// It may be preempted: it is no member of a co-run group, and was not told to end.
    pub preemptible: bool,
    pub placement: &'a Placement,
}

impl<'a> View<'a> {
    pub(in super::super) fn new(core: &'a Core, proposals: u32) -> Self {
        View { core, proposals }
    }

    /// The instant of the decision.
    pub fn now(&self) -> Time {
        self.core.now
    }

    /// How many proposals were made before at this instant: 0 in the first.
    pub fn proposals(&self) -> u32 {
        self.proposals
    }

    /// Patience, and whether running tasks may be preempted.
    pub fn limits(&self) -> &'a Limits {
        &self.core.limits
    }

    /// What there is, with strangers.
    pub fn capacity(&self) -> &'a Capacity {
        &self.core.capacity
    }

    /// How many instances have arrived so far; their ids are below.
    pub fn arrived(&self) -> u32 {
        self.core.nodes.len() as u32
    }

    /// An instance: needs, request, estimate, priority, time of arrival.
    pub fn task(&self, instance: InstanceId) -> &'a Task {
        &self.core.node(instance).task
    }

    /// The instances of a unit, in order of id.
    pub fn members(&self, unit: InstanceId) -> &'a [InstanceId] {
        self.core.members(unit)
    }

    /// Units that may start, in order of rank, arrival and id.
    pub fn waiting(&self) -> impl Iterator<Item = InstanceId> + 'a {
        self.core.queue.order.iter().map(|&(_, _, unit)| unit)
    }

    /// The same, apart for each kind of demand: units of a kind have room alike.
    pub fn waiting_alike(&self) -> impl Iterator<Item = impl Iterator<Item = Key> + 'a> + 'a {
        self.core.queue.classes.values().map(|alike| alike.iter().copied())
    }

    /// Whether a unit may start.
    pub fn is_waiting(&self, unit: InstanceId) -> bool {
        self.core.node(unit).key.is_some()
    }

    /// Running attempts in the order of their start.
    pub fn running(&self) -> impl Iterator<Item = Running<'a>> + 'a {
        let core = self.core;
        core.feasibility.now.holders.iter().map(move |(&attempt, held)| {
            let live = &core.live[&attempt];
            Running {
                unit: core.node(held.instance).unit,
                instance: held.instance,
                attempt,
                since: live.since,
                expected_end: core.expected_end(live),
                preemptible: core.preemptible(live),
                placement: &held.placement,
            }
        })
    }

    /// How long an instance has run so far, over all that was not lost by a failure.
    pub fn attained(&self, instance: InstanceId) -> Span {
        let node = self.core.node(instance);
        match node.state {
            TaskState::Running { attempt } => Span(node.attained.0 + (self.now() - self.core.live[&attempt].since).0),
            _ => node.attained,
        }
    }

    /// The estimated time that a unit takes from its start, without what it has attained; of a group, the longest.
    pub fn expected_span(&self, unit: InstanceId) -> Option<Span> {
        self.core.expected_span(unit)
    }

    /// Whether admission would start a unit now.
    pub fn fits(&self, unit: InstanceId) -> bool {
        self.core.admit(unit).is_some()
    }

    /// Whether a unit would have room if everything of ours ended.
    pub fn fits_once_ours_end(&self, unit: InstanceId) -> bool {
        self.core.class_fits(&self.core.feasibility.drained, self.core.class(unit))
    }

    /// The first unit in order that admission would start now. Cheap however many wait, if few differ in what they ask for.
    pub fn first_that_fits(&self) -> Option<InstanceId> {
        let (core, mut best) = (self.core, None);
        for (&class, alike) in &core.queue.classes {
            let first = alike.first();
            if first.is_none() || best.is_some() && best < first || !core.class_fits(&core.feasibility.now, class) {
                continue;
            }
            // All of a class fit alike. Only a reservation tells them apart, by who has it and how long they are expected
            // to take; those that are not over by then leave room for it, or do not, alike.
            let beside = first.filter(|(_, _, unit)| core.admit(*unit).is_some());
            let found = beside.or_else(|| alike.iter().find(|(_, _, unit)| core.is_in_time(*unit)));
            if found.is_some() && (best.is_none() || found < best) {
                best = found;
            }
        }
        best.map(|&(_, _, unit)| unit)
    }

    /// The first unit in order that has no room now, and would have if everything of ours ended.
    pub fn first_passed_over(&self) -> Option<InstanceId> {
        let core = self.core;
        let passed = core.queue.classes.iter().filter(|&(&class, _)| {
            !core.class_fits(&core.feasibility.now, class) && core.class_fits(&core.feasibility.drained, class)
        });
        passed.filter_map(|(_, alike)| alike.first()).min().map(|&(_, _, unit)| unit)
    }

    /// The unit that holds a reservation.
    pub fn reserved(&self) -> Option<InstanceId> {
        self.core.reservation.as_ref().map(|r| r.unit)
    }

    /// Books to try things out on: as they are now.
    pub fn hypothesis(&self) -> Hypothesis<'a> {
        Hypothesis::new(self.core)
    }
}

/// A copy of the books: what would fit if this ended and that started?
#[derive(Clone, Debug)]
pub struct Hypothesis<'a> {
    core: &'a Core,
    ledger: Allocations,
    /// Invented attempts count down from the last, which no run reaches.
    next: u32,
}

impl<'a> Hypothesis<'a> {
    pub(in super::super) fn new(core: &'a Core) -> Self {
        let mut ledger = core.feasibility.now.clone();
        // Nothing is promised on the chance that sharing turns out cheap.
        ledger.try_nothing();
        Hypothesis { core, ledger, next: u32::MAX }
    }

    pub fn end(&mut self, attempt: AttemptId) {
        self.ledger.release(attempt);
    }

    /// Everything of ours ends.
    pub fn end_all(&mut self) {
        self.ledger = self.core.feasibility.drained.clone();
    }

    /// Whether a unit would have room. Reservations do not count here.
    pub fn fits(&self, unit: InstanceId) -> bool {
        self.core.class_fits(&self.ledger, self.core.class(unit))
    }

    /// A unit starts, if it has room.
    pub fn start(&mut self, unit: InstanceId) -> bool {
        let Some(placements) = self.core.place_on(&self.ledger, unit) else { return false };
        self.take(unit, &placements);
        true
    }

    pub(in super::super) fn take(&mut self, unit: InstanceId, placements: &[Placement]) {
        for (&member, placement) in self.core.members(unit).iter().zip(placements) {
            let alone_load = self.core.node(member).demand.alone_load;
            self.ledger.take(AttemptId(self.next), member, placement, self.core.exclusivity(member), alone_load);
            self.next -= 1;
        }
    }
}

impl Core {
    pub(in super::super) fn expected_span(&self, unit: InstanceId) -> Option<Span> {
        let spans = self.members(unit).iter().map(|&m| {
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
