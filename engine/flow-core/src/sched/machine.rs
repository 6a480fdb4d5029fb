//! The scheduler: events in, actions out, time as an argument. One arm an event, one function each. Knows no clock, no
//! process and no file, and of policies only the seam.

use super::api::{Action, Answer, Capacity, Estimate, Event, Limits, Task};
use super::demand::Demand;
use super::policy::{Policy, Propose, View};
use super::state::{Core, Ending, Node, TaskState, Timer};
use crate::{AttemptId, InstanceId, Outcome, Span, Time};

/// How often a unit starts again because it lost a GPU, for one that comes and goes would make it start for ever.
const MOST_LOSSES: u32 = 3;

/// The state machine that live runs and simulations share.
///
/// Give it every event of an instant, completions before arrivals, then [`Event::Tick`] whenever [`Self::next_wake`] is not
/// later than now: only a tick starts anything, so that an instant has one decision however many events it has.
#[derive(Clone, Debug)]
pub struct Scheduler {
    core: Core,
    policy: Box<dyn Policy>,
    /// Instances below are known to the policy.
    announced: u32,
}

impl Scheduler {
    /// A scheduler without tasks.
    pub fn new(capacity: Capacity, policy: Box<dyn Policy>, limits: Limits) -> Self {
        Scheduler { core: Core::new(capacity, limits), policy, announced: 0 }
    }

    /// Takes an event in and says what is to be done about it. Time never goes back; an earlier `now` counts as the latest.
    /// Events about attempts that have ended are dropped.
    pub fn handle(&mut self, now: Time, event: Event, out: &mut Vec<Action>) {
        let core = &mut self.core;
        core.now = core.now.max(now);
        match event {
            Event::Submitted(tasks) => core.submitted(tasks, out),
            Event::Answered { instance, answer } => core.answered(instance, answer, out),
            Event::Started { attempt } => core.started(attempt),
            Event::SpawnFailed { attempt } => core.ended(attempt, Outcome::Failed, false, out),
            Event::Elsewhere { attempt } => core.elsewhere(attempt, out),
            Event::Ready { attempt } => core.ready(attempt, out),
            Event::Sufficed { attempt } => core.sufficed(attempt, out),
            Event::Sampled { attempt, gpu_memory } => core.sampled(attempt, &gpu_memory),
            Event::Collecting { attempt } => core.collecting(attempt),
            Event::Lost { attempt } => core.lost(attempt),
            Event::Continues { attempt } => core.continues(attempt),
            Event::Hopeless { attempt } => core.hopeless(attempt),
            Event::Exited { attempt, outcome, spoiled } => core.ended(attempt, outcome, spoiled, out),
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

    /// The unit that resources are held back for, and when it is expected to start.
    pub fn reservation(&self) -> Option<(InstanceId, Option<Time>)> {
        self.core.reservation.as_ref().map(|reserved| (reserved.unit, reserved.at))
    }

    /// Nothing new starts any more: something failed, or the run was cancelled.
    pub fn is_ending(&self) -> bool {
        self.core.ending != Ending::No
    }

    pub fn policy(&self) -> &'static str {
        self.policy.name()
    }

    pub(super) fn core(&self) -> &Core {
        &self.core
    }

    /// One decision: the policy proposes until it stops, admission verifies.
    fn decide(&mut self, out: &mut Vec<Action>) {
        self.core.dirty = false;
        self.introduce();
        if self.core.ending != Ending::No {
            self.core.held_up = None;
            return;
        }
        self.core.join(out);
        let before = self.core.reservation.take();
        // Each unit can be preempted, reserved and started, once each.
        let bound = 3 * (self.core.queue.order.len() + self.core.live.len()) + 3;
        for proposals in 0.. {
            let proposal = self.policy.propose(&View::new(&self.core, proposals));
            let done = match proposal {
                _ if proposals as usize >= bound => false,
                Propose::Stop => break,
                Propose::Start(unit) => self.core.start(unit, out),
                Propose::Preempt(unit) => self.core.preempt(unit, out),
                Propose::Reserve { unit, at } => self.core.reserve(unit, at, before.as_ref()),
            };
            if !done {
                self.core.faults.push(format!("policy {} proposed {proposal:?}, which is refused", self.policy.name()));
                break;
            }
            self.introduce();
        }
        self.core.stake();
        // What was preempted at this instant waits for the next event, not for another decision.
        self.core.dirty = false;
    }

    /// Tells the policy what has arrived, and has it rank what began to wait.
    fn introduce(&mut self) {
        let arrived = self.core.nodes.len() as u32;
        if self.announced < arrived {
            self.policy.arrived(&View::new(&self.core, 0), InstanceId(self.announced));
            self.announced = arrived;
        }
        for unit in std::mem::take(&mut self.core.fresh) {
            if matches!(self.core.node(unit).state, TaskState::Waiting { .. }) && self.core.node(unit).key.is_none() {
                let rank = self.policy.rank(&View::new(&self.core, 0), unit);
                self.core.enqueue(unit, rank);
            }
        }
    }
}

impl Core {
    fn submitted(&mut self, tasks: Vec<Task>, out: &mut Vec<Action>) {
        let first = self.nodes.len();
        for task in tasks {
            let id = InstanceId(self.nodes.len() as u32);
            if task.instance != id || task.needs.iter().any(|need| need.on >= id) {
                self.faults.push(format!("task {} is out of order", task.instance.0));
                break;
            }
            let unit = self.join_group(&task);
            self.unsettled += 1;
            self.nodes.push(Node {
                demand: Demand::of(&task, &self.limits.sharing),
                task,
                state: TaskState::Pending,
                unit,
                unmet: 0,
                dependents: Vec::new(),
                attained: Span(0),
                open: 0,
                failures: 0,
                lost: false,
                losses: 0,
                continues: false,
                repeated: false,
                alone_since: false,
                retry_alone: false,
                goes_on: false,
                key: None,
            });
        }
        self.finished = false;
        let new: Vec<InstanceId> = (first..self.nodes.len()).map(|i| InstanceId(i as u32)).collect();
        for &id in &new {
            if let Some(outcome) = self.node(id).task.settled {
                let fine = self.node(id).is_fine(outcome);
                self.set(id, TaskState::Settled { outcome, fine, blame: None });
            }
        }
        let mut blocked = Vec::new();
        for &id in &new {
            if self.node(id).state == TaskState::Pending {
                blocked.extend(self.link(id).map(|blame| (id, blame)));
            }
        }
        for &id in &new {
            let node = self.node(id);
            if node.state == TaskState::Pending && node.unit == id && node.open == 0 {
                self.to_ask.push(id);
            }
        }
        for (id, blame) in blocked {
            if self.node(id).state == TaskState::Pending {
                let skipped = self.block(id, blame, out);
                skipped.into_iter().for_each(|id| self.tell_dependents(id, out));
            }
        }
        self.give_up_broken_groups(first, out);
        for &id in &new {
            self.end_after_failure(id, out);
        }
        if self.ending != Ending::No {
            self.end_all(out);
        }
    }

    /// Ties an arriving instance to what it needs. Returns who is to blame if that can never be had.
    fn link(&mut self, id: InstanceId) -> Option<InstanceId> {
        let mut blame = None;
        for need in self.node(id).task.needs.clone() {
            match self.node(need.on).state {
                TaskState::Settled { fine: false, blame: root, .. } if !(need.list && self.limits.keep_going) => {
                    blame = blame.or(root).or(Some(need.on));
                }
                TaskState::Settled { .. } => {}
                _ => {
                    self.node_mut(need.on).dependents.push((id, need.list));
                    self.node_mut(id).unmet += 1;
                }
            }
        }
        if self.node(id).unmet > 0 {
            let unit = self.node(id).unit;
            self.node_mut(unit).open += 1;
        }
        blame
    }

    fn answered(&mut self, instance: InstanceId, answer: Answer, out: &mut Vec<Action>) {
        if self.nodes.get(instance.index()).is_none_or(|node| node.state != TaskState::Asked) {
            return;
        }
        let unit = self.node(instance).unit;
        if self.group(unit).is_some() {
            return self.group_answered(unit, instance, answer, out);
        }
        match answer {
            Answer::Hit(outcome) | Answer::Refused(outcome) => self.settle(&[instance], outcome, None, out),
            Answer::NotNeeded => self.leave_out(instance, out),
            Answer::Miss => self.wait(unit, out),
            Answer::GoesOn => self.go_on(unit, out),
        }
    }

    /// An attempt of the unit goes on since an earlier run: it is joined with the next decision, whatever else waits.
    pub(super) fn go_on(&mut self, unit: InstanceId, out: &mut Vec<Action>) {
        for member in self.members(unit).to_vec() {
            self.node_mut(member).goes_on = true;
        }
        self.to_join.push(unit);
        self.wait(unit, out);
    }

    fn started(&mut self, attempt: AttemptId) {
        let Some(instance) = self.live.get(&attempt).map(|live| live.instance) else { return };
        let (timeout, batch) = (self.node(instance).task.timeout, self.node(instance).task.batch);
        if let Some(live) = self.live.get_mut(&attempt).filter(|_| batch) {
            live.since = self.now;
        }
        self.arm(attempt, timeout);
    }

    /// Another run does this unit, so nothing of it was started here and no end will follow. The unit is looked up
    /// again.
    fn elsewhere(&mut self, attempt: AttemptId, out: &mut Vec<Action>) {
        let Some(live) = self.live.get(&attempt) else { return };
        let instances = self.members(self.node(live.instance).unit).to_vec();
        for &member in &instances {
            self.set(member, TaskState::Asked);
            self.node_mut(member).goes_on = false;
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

    /// An attempt is over. What follows is decided for its unit as a whole.
    pub(super) fn ended(&mut self, attempt: AttemptId, outcome: Outcome, spoiled: bool, out: &mut Vec<Action>) {
        let Some(live) = self.live.get(&attempt) else { return };
        let (instance, outcome, shared) = (live.instance, live.killed.unwrap_or(outcome), live.shared);
        let unit = self.node(instance).unit;
        self.node_mut(unit).lost |= outcome == Outcome::Failed && self.feasibility.now.lost_under(attempt);
        if outcome == Outcome::OutOfMemory && shared {
            self.out_of_memory_beside_others(attempt, instance);
        }
        self.set(instance, TaskState::Ended { attempt, outcome, spoiled });
        if self.group(unit).is_some() {
            self.member_ended(unit, outcome, out);
        } else {
            self.conclude(unit, out);
        }
    }

    /// What follows is no retry, as where a GPU is lost.
    fn lost(&mut self, attempt: AttemptId) {
        if let Some(live) = self.live.get(&attempt) {
            let unit = self.node(live.instance).unit;
            self.node_mut(unit).lost = true;
        }
    }

    /// What follows is a part of the same.
    fn continues(&mut self, attempt: AttemptId) {
        if let Some(live) = self.live.get(&attempt) {
            let unit = self.node(live.instance).unit;
            self.node_mut(unit).continues = true;
        }
    }

    /// There are no retries left.
    fn hopeless(&mut self, attempt: AttemptId) {
        if let Some(live) = self.live.get(&attempt) {
            let unit = self.node(live.instance).unit;
            self.node_mut(unit).failures = u32::MAX;
        }
    }

    /// What waits or will is placed and ranked by what is known now; what runs, by what was known when it started.
    fn learned(&mut self, instance: InstanceId, estimate: Estimate) {
        let Some(node) = self.nodes.get(instance.index()).filter(|node| !node.alone_since) else { return };
        if matches!(node.state, TaskState::Running { .. } | TaskState::Ended { .. } | TaskState::Settled { .. }) {
            return;
        }
        let unit = node.unit;
        let queued = self.leave_queue(unit);
        let node = &mut self.nodes[instance.index()];
        node.task.estimate = estimate;
        node.demand = Demand::of(&node.task, &self.limits.sharing);
        if queued {
            self.fresh.push(unit);
            self.dirty = true;
        }
    }

    /// It ran out of memory beside others although it was expected to fit: the estimate is raised, and it is tried once more
    /// with its GPUs to itself, for only that says what it needs.
    fn out_of_memory_beside_others(&mut self, attempt: AttemptId, instance: InstanceId) {
        let peak = self.feasibility.now.peak(attempt);
        let node = &mut self.nodes[instance.index()];
        if node.alone_since || node.task.corun.is_some() {
            return;
        }
        (node.alone_since, node.retry_alone) = (true, true);
        node.task.estimate.gpu_memory = node.task.estimate.gpu_memory.max(Some(peak));
        node.demand = Demand { gpus_alone: true, ..Demand::of(&node.task, &self.limits.sharing) };
    }

    /// All attempts of a unit are over: once more, or for good.
    pub(super) fn conclude(&mut self, unit: InstanceId, out: &mut Vec<Action>) {
        let ends: Vec<_> = self.members(unit).iter().map(|&m| (m, self.node(m).state)).collect();
        let again = self.again(unit);
        for (instance, state) in ends {
            let TaskState::Ended { attempt, outcome, .. } = state else { continue };
            match again {
                Some(retry_at) => {
                    out.push(Action::Discard { instance, attempt, retry_at });
                    self.node_mut(instance).attained = Span(0);
                    // The next one is this run's own.
                    self.node_mut(instance).goes_on = false;
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
            Some(at) if at == self.now => self.wait(unit, out),
            Some(_) => {}
            None => self.fail_unit(unit),
        }
    }

    /// Whether a unit is tried again, and when: at once where it goes on from what it has done; after failures with growing pauses; at once on other GPUs if it lost one, which is
    /// no failure of its own; at once, but once only, where a measurement was spoiled.
    fn again(&mut self, unit: InstanceId) -> Option<Time> {
        if self.ending != Ending::No {
            return None;
        }
        let lost = std::mem::take(&mut self.node_mut(unit).lost);
        if std::mem::take(&mut self.node_mut(unit).continues) {
            return Some(self.now);
        }
        if lost && self.node(unit).losses < MOST_LOSSES && self.never_fits(self.class(unit)).is_none() {
            self.node_mut(unit).losses += 1;
            return Some(self.now);
        }
        let (mut failed, mut spoiled) = (false, false);
        for &m in self.members(unit) {
            let node = self.node(m);
            if let TaskState::Ended { outcome, spoiled: bad, .. } = node.state {
                failed |= outcome == Outcome::Failed;
                let measurement = matches!(outcome, Outcome::Ok | Outcome::OutOfMemory | Outcome::TimedOut);
                spoiled |= bad && measurement && node.task.measured;
            }
        }
        let retry = failed && self.retries_left(unit);
        let node = self.node_mut(unit);
        if retry {
            node.failures += 1;
            Some(self.now + pause_after(self.node(unit).failures))
        } else if spoiled && !failed && !node.repeated {
            node.repeated = true;
            Some(self.now)
        } else if node.retry_alone {
            node.retry_alone = false;
            Some(self.now)
        } else {
            None
        }
    }

    /// A unit has as many retries as the most patient of its members.
    pub(super) fn retries_left(&self, unit: InstanceId) -> bool {
        let retries = self.members(unit).iter().map(|&m| self.node(m).task.retries).max().unwrap_or(0);
        self.node(unit).failures < retries
    }

    fn recorded(&mut self, instance: InstanceId, out: &mut Vec<Action>) {
        if let Some(TaskState::Recording { outcome }) = self.nodes.get(instance.index()).map(|node| node.state) {
            self.settle(&[instance], outcome, None, out);
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
        // Nothing comes of what runs on a lost GPU.
        let lost = self.live.iter().filter(|(attempt, _)| self.feasibility.now.lost_under(**attempt));
        let lost: Vec<InstanceId> = lost.map(|(_, live)| self.node(live.instance).unit).collect();
        lost.into_iter().for_each(|unit| self.kill_unit(unit, Outcome::Failed, out));
        let queued = self.queue.classes.iter().map(|(&class, alike)| (class, alike.iter().map(|key| key.2).collect()));
        let fresh = self.fresh.iter().map(|&unit| (self.class(unit), vec![unit]));
        let waiting: Vec<(_, Vec<InstanceId>)> = queued.chain(fresh).collect();
        for (class, units) in waiting {
            let Some(outcome) = self.never_fits(class) else { continue };
            for unit in units {
                if matches!(self.node(unit).state, TaskState::Waiting { .. }) && !self.node(unit).goes_on {
                    let members = self.members(unit).to_vec();
                    self.give_up(&members, outcome, None, out);
                }
            }
        }
    }

    fn cancelled(&mut self, grace: Span, out: &mut Vec<Action>) {
        self.ending = Ending::Cancelled;
        // Nothing of ours waits for other runs any more, and they are to hear of it.
        self.dirty = true;
        self.end_all(out);
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
                    let unit = self.node(self.live[&attempt].instance).unit;
                    self.kill_unit(unit, Outcome::TimedOut, out);
                }
                Timer::Retry(unit) => self.wait(unit, out),
            }
            // Either may have been removed by what it led to; a deadline fires once.
            self.timers.remove(&(at, timer));
        }
    }

    /// Asks the store about every unit whose needs are settled.
    fn look_up(&mut self, out: &mut Vec<Action>) {
        for unit in std::mem::take(&mut self.to_ask) {
            let instances = self.members(unit).to_vec();
            if self.node(unit).state == TaskState::Pending {
                for &member in &instances {
                    self.set(member, TaskState::Asked);
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

    /// The store has no result: the unit may start, unless nothing may or it never can.
    pub(super) fn wait(&mut self, unit: InstanceId, out: &mut Vec<Action>) {
        let members = self.members(unit).to_vec();
        let since = self.now;
        for &member in &members {
            self.set(member, TaskState::Waiting { since });
        }
        if self.ending != Ending::No {
            self.give_up(&members, Outcome::Cancelled, self.blame_for_ending(), out);
        } else if let Some(outcome) = self.never_fits(self.class(unit)).filter(|_| !self.node(unit).goes_on) {
            self.give_up(&members, outcome, None, out);
        }
    }
}

/// 1 s, 2 s, 4 s, … up to a minute.
fn pause_after(failures: u32) -> Span {
    Span::from_millis(1_000 * (1u64 << (failures - 1).min(6)).min(60))
}
