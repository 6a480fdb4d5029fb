//! The scheduler: events in, actions out, time as an argument. One match arm and one function for each event. It knows
//! no clock, process or file, and of policies only the interface.

use super::api::{Action, Answer, Capacity, Estimate, Event, Limits};
use super::demand::Demand;
use super::policy::{Policy, Propose, View};
use super::state::{Core, EndReason, TaskState, Timer};
use crate::{AttemptId, InstanceId, Outcome, Span, Time};

/// The state machine that live runs and simulations share.
///
/// Give it every event of an instant, completions before arrivals. Then send [`Event::Tick`] whenever
/// [`Self::next_wake`] is not later than now. Only a tick starts anything, so an instant has one decision, however many
/// events it has.
#[derive(Clone, Debug)]
pub struct Scheduler {
    core: Core,
    policy: Box<dyn Policy>,
    /// Instances with smaller ids are known to the policy.
    announced: u32,
}

impl Scheduler {
    /// A scheduler without tasks.
    pub fn new(capacity: Capacity, policy: Box<dyn Policy>, limits: Limits) -> Self {
        Scheduler { core: Core::new(capacity, limits), policy, announced: 0 }
    }

    /// Handles an event and appends the resulting actions. Time never goes back: an earlier `now` counts as the latest.
    /// Events about attempts that have ended are dropped.
    pub fn handle(&mut self, now: Time, event: Event, out: &mut Vec<Action>) {
        let core = &mut self.core;
        core.now = core.now.max(now);
        match event {
            Event::Submitted(tasks) => core.submitted(tasks, out),
            Event::Answered { instance, answer } => core.answered(instance, answer, out),
            Event::Started { attempt } => core.started(attempt),
            Event::SpawnFailed { attempt } => core.ended(attempt, Outcome::Failed, false, out),
            Event::Deferred { attempt } => core.defer(attempt, out),
            Event::Ready { attempt } => core.ready(attempt, out),
            Event::Sufficed { attempt } => core.sufficed(attempt, out),
            Event::Sampled { attempt, gpu_memory } => core.sampled(attempt, &gpu_memory),
            Event::Collecting { attempt } => core.collecting(attempt),
            Event::Freed { attempt } => core.freed(attempt),
            // A restart after a loss does not use up a retry.
            Event::Lost { attempt } => core.note(attempt, |gang| gang.lost = true),
            // It resumes the same attempt.
            Event::Continues { attempt } => core.note(attempt, |gang| gang.continues = true),
            // It is never retried.
            Event::Hopeless { attempt } => core.note(attempt, |gang| gang.failures = u32::MAX),
            Event::Exited { attempt, outcome, disturbed } => core.ended(attempt, outcome, disturbed, out),
            Event::Recorded { instance } => core.recorded(instance, out),
            Event::Learned { instance, estimate } => core.learned(instance, estimate),
            Event::InterferenceLearned { devices, trial } => core.interference_learned(devices, trial),
            Event::Capacity(capacity) => core.capacity_changed(capacity, out),
            Event::Others(others) => core.others_changed(others),
            Event::Cancel { grace } => core.cancelled(grace, out),
            Event::Tick => {
                core.fire_timers(out);
                self.decide(out);
            }
        }
        self.core.look_up(out);
        self.core.finish(out);
    }

    /// When the next [`Event::Tick`] is due; not later than now if a decision is.
    pub fn next_wake(&self) -> Option<Time> {
        if self.core.dirty {
            return Some(self.core.now);
        }
        let timer = self.core.timers.first().map(|&(at, _)| at);
        let policy = self.policy.wake(&View::new(&self.core, 0)).filter(|&at| at > self.core.now);
        timer.into_iter().chain(policy).min()
    }

    /// The gang that resources are held back for, and its expected start.
    pub fn reservation(&self) -> Option<(InstanceId, Option<Time>)> {
        self.core.reservation.as_ref().map(|reserved| (reserved.gang, reserved.at))
    }

    /// Whether gangs wait for resources.
    pub fn has_queue(&self) -> bool {
        !self.core.queue.classes.is_empty()
    }

    /// Whether nothing new starts: something failed, or the run was cancelled.
    pub fn is_ending(&self) -> bool {
        self.core.ending != EndReason::No
    }

    pub fn policy(&self) -> &'static str {
        self.policy.name()
    }

    pub(super) fn core(&self) -> &Core {
        &self.core
    }

    /// One decision: the policy proposes until it stops, and admission verifies.
    fn decide(&mut self, out: &mut Vec<Action>) {
        self.core.dirty = false;
        self.introduce();
        if self.core.ending != EndReason::No {
            self.core.held_up = None;
            return;
        }
        self.core.join(out);
        let before = self.core.reservation.take();
        // Each gang can be preempted, reserved and started once.
        let bound = 3 * (self.core.queue.order.len() + self.core.live.len()) + 3;
        for proposals in 0.. {
            let proposal = self.policy.propose(&View::new(&self.core, proposals));
            let done = match proposal {
                _ if proposals as usize >= bound => false,
                Propose::Stop => break,
                Propose::Start(gang) => self.core.start(gang, out),
                Propose::Preempt(gang) => self.core.preempt(gang, out),
                Propose::Reserve { gang, at } => self.core.reserve(gang, at, before.as_ref()),
            };
            if !done {
                self.core.faults.push(format!("policy {} proposed {proposal:?}, which is refused", self.policy.name()));
                break;
            }
            self.introduce();
        }
        self.core.stake();
        // Gangs preempted at this instant wait for the next event, not for another decision.
        self.core.dirty = false;
    }

    /// Announces new arrivals to the policy, and lets it rank the gangs that began to wait.
    fn introduce(&mut self) {
        let arrived = self.core.nodes.len() as u32;
        if self.announced < arrived {
            self.policy.arrived(&View::new(&self.core, 0), InstanceId(self.announced));
            self.announced = arrived;
        }
        for gang in std::mem::take(&mut self.core.fresh) {
            if matches!(self.core.node(gang).state, TaskState::Waiting { .. }) && self.core.node(gang).key.is_none() {
                let rank = self.policy.rank(&View::new(&self.core, 0), gang);
                self.core.enqueue(gang, rank);
            }
        }
    }
}

impl Core {
    fn answered(&mut self, instance: InstanceId, answer: Answer, out: &mut Vec<Action>) {
        if self.nodes.get(instance.index()).is_none_or(|node| node.state != TaskState::LookingUp) {
            return;
        }
        let gang = self.node(instance).gang;
        if self.group(gang).is_some() {
            return self.group_answered(gang, instance, answer, out);
        }
        match answer {
            Answer::Hit(outcome) | Answer::Refused(outcome) => self.settle(&[instance], outcome, None, out),
            Answer::NotNeeded => self.leave_out(instance, out),
            Answer::Miss => self.wait(gang, out),
            Answer::Orphaned => self.adopt(gang, out),
        }
    }

    /// An attempt of the gang from an earlier run still runs. The next decision joins it, whatever else waits.
    pub(super) fn adopt(&mut self, gang: InstanceId, out: &mut Vec<Action>) {
        for member in self.members(gang).to_vec() {
            self.node_mut(member).is_joined = true;
        }
        self.to_join.push(gang);
        self.wait(gang, out);
    }

    fn started(&mut self, attempt: AttemptId) {
        let Some(instance) = self.live.get(&attempt).map(|live| live.instance) else { return };
        let (timeout, batch) = (self.node(instance).task.timeout, self.node(instance).task.batch);
        if let Some(live) = self.live.get_mut(&attempt).filter(|_| batch) {
            live.since = self.now;
        }
        self.arm(attempt, timeout);
    }

    /// Another run does this gang, so this run started nothing and no exit will follow. The gang is looked up again.
    fn defer(&mut self, attempt: AttemptId, out: &mut Vec<Action>) {
        let Some(live) = self.live.get(&attempt) else { return };
        let instances = self.members(self.node(live.instance).gang).to_vec();
        for &member in &instances {
            self.set(member, TaskState::LookingUp);
            self.node_mut(member).is_joined = false;
        }
        out.push(Action::LookUp { instances });
    }

    fn sampled(&mut self, attempt: AttemptId, gpu_memory: &[u64]) {
        self.dirty |= self.feasibility.now.sample(attempt, gpu_memory);
    }

    fn collecting(&mut self, attempt: AttemptId) {
        self.arm(attempt, None);
        if let Some(live) = self.live.get_mut(&attempt) {
            live.collecting = true;
        }
    }

    fn freed(&mut self, attempt: AttemptId) {
        let Some(live) = self.live.get_mut(&attempt).filter(|live| live.freed.is_none()) else { return };
        let now = &mut self.feasibility.now;
        live.freed = Some(now.held(attempt));
        now.release(attempt);
        self.dirty = true;
    }

    /// Updates an estimate, for waiting and future gangs. A running attempt keeps the one that it started with.
    fn learned(&mut self, instance: InstanceId, estimate: Estimate) {
        let Some(node) = self.nodes.get(instance.index()).filter(|node| !node.alone_since) else { return };
        if matches!(node.state, TaskState::Running { .. } | TaskState::Ended { .. } | TaskState::Settled { .. }) {
            return;
        }
        let gang = node.gang;
        let queued = self.leave_queue(gang);
        let node = &mut self.nodes[instance.index()];
        node.task.estimate = estimate;
        node.demand = Demand::of(&node.task, &self.limits.sharing);
        if queued {
            self.fresh.push(gang);
            self.dirty = true;
        }
    }

    fn interference_learned(&mut self, devices: Vec<f64>, trial: Vec<Option<f64>>) {
        self.feasibility.set_interference(&devices, &trial);
        (self.limits.sharing.devices, self.limits.sharing.trial) = (devices, trial);
        self.dirty = true;
    }

    fn capacity_changed(&mut self, capacity: Capacity, out: &mut Vec<Action>) {
        self.feasibility.set_capacity(&capacity);
        self.capacity = capacity;
        self.dirty = true;
        // Nothing useful can come from attempts on a lost GPU.
        let lost = self.live.iter().filter(|(attempt, _)| self.feasibility.now.lost_under(**attempt));
        let lost: Vec<InstanceId> = lost.map(|(_, live)| self.node(live.instance).gang).collect();
        lost.into_iter().for_each(|gang| self.kill_gang(gang, Outcome::Failed, out));
        let queued = self.queue.classes.iter().map(|(&class, alike)| (class, alike.iter().map(|key| key.2).collect()));
        let fresh = self.fresh.iter().map(|&gang| (self.class(gang), vec![gang]));
        let waiting: Vec<(_, Vec<InstanceId>)> = queued.chain(fresh).collect();
        for (class, gangs) in waiting {
            let Some(outcome) = self.never_fits(class) else { continue };
            for gang in gangs {
                if matches!(self.node(gang).state, TaskState::Waiting { .. }) && !self.node(gang).is_joined {
                    let members = self.members(gang).to_vec();
                    self.give_up(&members, outcome, None, out);
                }
            }
        }
    }

    fn cancelled(&mut self, grace: Span, out: &mut Vec<Action>) {
        self.ending = EndReason::Cancelled;
        // Nothing of this run waits for other runs any more; the next tick publishes that.
        self.dirty = true;
        self.end_all(grace == Span(0), out);
        let live: Vec<AttemptId> = self.live.keys().copied().collect();
        for attempt in live {
            self.kill(attempt, grace, Outcome::Cancelled, out);
        }
    }

    fn fire_timers(&mut self, out: &mut Vec<Action>) {
        while let Some(&(at, timer)) = self.timers.first() {
            if at > self.now {
                break;
            }
            match timer {
                Timer::Deadline(attempt) => {
                    let gang = self.node(self.live[&attempt].instance).gang;
                    self.kill_gang(gang, Outcome::TimedOut, out);
                }
                Timer::Retry(gang) => self.wait(gang, out),
            }
            // Handling it may already have removed the timer. A deadline fires once.
            self.timers.remove(&(at, timer));
        }
    }

    /// Looks up every gang whose needs are settled.
    fn look_up(&mut self, out: &mut Vec<Action>) {
        for gang in std::mem::take(&mut self.to_look_up) {
            let instances = self.members(gang).to_vec();
            if self.node(gang).state == TaskState::Pending {
                for &member in &instances {
                    self.set(member, TaskState::LookingUp);
                }
                out.push(Action::LookUp { instances });
            }
        }
    }

    fn finish(&mut self, out: &mut Vec<Action>) {
        if self.unsettled == 0 && !self.finished {
            self.finished = true;
            out.push(Action::Finish);
        }
    }

    /// The store has no result: the gang may start, unless the run ends or the gang can never fit.
    pub(super) fn wait(&mut self, gang: InstanceId, out: &mut Vec<Action>) {
        let members = self.members(gang).to_vec();
        let since = self.now;
        for &member in &members {
            self.set(member, TaskState::Waiting { since });
        }
        if self.ending != EndReason::No {
            self.give_up(&members, Outcome::Cancelled, self.cause_of_ending(), out);
        } else if let Some(outcome) = self.never_fits(self.class(gang)).filter(|_| !self.node(gang).is_joined) {
            self.give_up(&members, outcome, None, out);
        }
    }
}
