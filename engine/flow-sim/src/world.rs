//! The driver: delivers due events, performs the scheduler's actions, jumps to the next instant.

mod progress;

use std::collections::BTreeMap;

use flow_core::sched::contention::Host;
use flow_core::sched::{Action, Answer, Capacity, Event, Limits, Scheduler, policy, policy::Policy};
use flow_core::{AttemptId, InstanceId, Outcome, Span, Time};

use crate::agenda::{Agenda, Order, WorldEvent};
use crate::queue::Queue;
use crate::work_in_progress::RunningTask;
use crate::{Cluster, End, Fault, Schedule, ScheduledAttempt, SimError, SimTask, Slurm};

/// A run to be simulated.
#[derive(Clone, Debug)]
pub struct Simulation {
    tasks: Vec<SimTask>,
    scheduler: Scheduler,
    agenda: Agenda,
    now: Time,
    live: BTreeMap<AttemptId, RunningTask>,
    /// How attempts ended that are not recorded yet.
    outcomes: BTreeMap<AttemptId, Outcome>,
    /// By instance: attempts so far, and work done before it was preempted.
    history: Vec<(usize, Span)>,
    schedule: Schedule,
    /// The host that running work shares. Without it everything runs as fast as alone.
    host: Option<Host>,
    /// An attempt began or ended since speeds were computed.
    stale: bool,
    /// The queue in which attempts wait for GPUs, if the scheduler does not start them directly.
    queue: Option<Box<Queue>>,
}

impl Simulation {
    /// Tasks arrive when they say they were submitted.
    ///
    /// # Errors
    /// If the tasks are out of order, or the policy cannot take one.
    pub fn new(
        tasks: Vec<SimTask>,
        capacity: Capacity,
        policy: Box<dyn Policy>,
        limits: Limits,
    ) -> Result<Self, SimError> {
        if let Some(wide) = tasks.iter().find(|task| policy.one_gpu_only() && task.task.request.gpus > 1) {
            let (instance, gpus) = (wide.task.instance, wide.task.request.gpus);
            return Err(SimError::TooWide { instance, gpus, policy: policy.name() });
        }
        let mut simulation = Simulation {
            scheduler: Scheduler::new(capacity, policy, limits),
            agenda: Agenda::default(),
            now: Time(0),
            live: BTreeMap::new(),
            outcomes: BTreeMap::new(),
            history: vec![(0, Span(0)); tasks.len()],
            schedule: Schedule { settled: vec![None; tasks.len()], ..Schedule::default() },
            host: None,
            stale: false,
            queue: None,
            tasks,
        };
        let mut from = 0;
        while let Some(first) = simulation.tasks.get(from) {
            let at = first.task.submitted;
            let batch = simulation.tasks[from..].iter().take_while(|task| task.task.submitted == at).count();
            for (i, task) in simulation.tasks[from..from + batch].iter().enumerate() {
                let early = from.checked_sub(1).is_some_and(|before| simulation.tasks[before].task.submitted > at);
                if task.task.instance.index() != from + i || early {
                    return Err(SimError::OutOfOrder(task.task.instance));
                }
            }
            simulation.agenda.plan(at, Order::Arrival, WorldEvent::Arrive(from, from + batch));
            from += batch;
        }
        Ok(simulation)
    }

    /// Running work shares this host: it slows down as [`contention`](flow_core::sched::contention) predicts. Without one everything is
    /// as fast as alone.
    pub fn on(mut self, host: Host) -> Self {
        self.host = Some(host);
        self
    }

    /// Runs attempts as jobs of a Slurm with these nodes: those of tasks that ask for a batch system, or all if none
    /// does. The scheduler chooses which are submitted, as many as fit into the queue. Slurm allocates their GPUs.
    ///
    /// # Errors
    /// If no node has what a task asks for, or the policy would take jobs off their GPUs.
    pub fn on_slurm(mut self, slurm: Slurm, cluster: Cluster) -> Result<Self, SimError> {
        let policy = self.scheduler.policy();
        if policy::named(policy).is_some_and(|policy| policy.preemptive()) {
            return Err(SimError::Preemptive(policy));
        }
        if !self.tasks.iter().any(|task| task.task.batch) {
            self.tasks.iter_mut().for_each(|task| task.task.batch = true);
        }
        self.queue = Some(Box::new(Queue::new(slurm, cluster, &self.tasks)?));
        let places = Capacity { batch: slurm.queue, ..cluster.capacity() };
        self.agenda.plan(Time(0), Order::Completion, WorldEvent::Befall(Fault::Capacity(places)));
        Ok(self)
    }

    /// Something will befall the run.
    pub fn befall(&mut self, at: Time, fault: Fault) {
        self.agenda.plan(at, Order::Arrival, WorldEvent::Befall(fault));
    }

    /// Runs it to its end. `watch` sees the scheduler after every event it was told.
    ///
    /// # Errors
    /// If it does not come to an end.
    pub fn run(mut self, mut watch: impl FnMut(&Scheduler, &Event)) -> Result<Schedule, SimError> {
        // Every task costs a handful of decisions an attempt; retries and faults are few. Far beyond is never.
        let bound = 10_000 + 200 * self.tasks.len() as u64;
        for rounds in 0.. {
            let queue = self.queue.as_ref().and_then(|queue| queue.next());
            let Some(next) = self.agenda.next().into_iter().chain(self.scheduler.next_wake()).chain(queue).min() else {
                break;
            };
            if rounds > bound {
                return Err(SimError::Livelock { at: self.now, rounds });
            }
            self.now = self.now.max(next);
            while let Some(happening) = self.agenda.due(self.now) {
                self.happen(happening, &mut watch);
            }
            if self.scheduler.next_wake().is_some_and(|wake| wake <= self.now) {
                self.apply(Event::Tick, &mut watch);
            }
            self.contend();
            self.dispatch(&mut watch);
        }
        if let Some(queue) = &self.queue {
            self.schedule.met = Some(queue.met());
            self.schedule.ran.sort_by_key(|ran| (ran.start, ran.attempt));
        }
        let unsettled = |(i, settled): (usize, &Option<_>)| settled.is_none().then_some(InstanceId(i as u32));
        let waiting: Vec<_> = self.schedule.settled.iter().enumerate().filter_map(unsettled).collect();
        if waiting.is_empty() { Ok(self.schedule) } else { Err(SimError::Stuck { at: self.now, waiting }) }
    }

    fn happen(&mut self, happening: WorldEvent, watch: &mut impl FnMut(&Scheduler, &Event)) {
        match happening {
            WorldEvent::Arrive(from, to) => {
                let tasks: Vec<_> = self.tasks[from..to].iter().map(|task| task.task.clone()).collect();
                for task in &tasks {
                    self.schedule.settled[task.instance.index()] = task.settled.map(|outcome| (outcome, self.now));
                }
                self.apply(Event::Submitted(tasks), watch);
            }
            WorldEvent::Befall(Fault::Capacity(capacity)) => self.apply(Event::Capacity(capacity), watch),
            WorldEvent::Befall(Fault::Cancel { grace }) => self.apply(Event::Cancel { grace }, watch),
            WorldEvent::Befall(Fault::Echo) => {
                let ended = |ran: &ScheduledAttempt| !self.live.contains_key(&ran.attempt);
                let ended: Vec<_> = self.schedule.ran.iter().filter(|ran| ended(ran)).map(|ran| ran.attempt).collect();
                for attempt in ended {
                    self.apply(Event::Ready { attempt }, watch);
                    self.apply(Event::Exited { attempt, outcome: Outcome::Ok, disturbed: false }, watch);
                    self.apply(Event::SpawnFailed { attempt }, watch);
                }
            }
            WorldEvent::Ready(attempt) => {
                let Some(instance) = self.live.get(&attempt).map(|live| live.instance) else { return };
                match self.tasks[instance.index()].task.corun {
                    Some(_) => self.apply(Event::Ready { attempt }, watch),
                    None => self.begin(attempt),
                }
            }
            WorldEvent::Worked(attempt) => {
                let Some(live) = self.live.get_mut(&attempt) else { return };
                live.ending = None;
                let task = &self.tasks[live.instance.index()].task;
                match live.conduct.end {
                    End::Exits { outcome: Outcome::Ok, .. } if task.continues && task.corun.is_some() => {
                        self.apply(Event::Sufficed { attempt }, watch);
                    }
                    End::Exits { outcome, disturbed } => {
                        self.end(attempt, self.now, outcome, disturbed);
                    }
                    End::BeforeReady(outcome) => self.end(attempt, self.now, outcome, false),
                    End::SpawnFails | End::Hangs => {}
                }
            }
            WorldEvent::Gone(attempt, outcome, disturbed) => {
                let Some(queue) = &mut self.queue else { return self.gone(attempt, outcome, disturbed, watch) };
                let noticed = queue.end(attempt, self.now);
                let Some(live) = self.live.get_mut(&attempt).filter(|live| !live.ended) else { return };
                let Some(noticed) = noticed else { return self.gone(attempt, outcome, disturbed, watch) };
                self.schedule.ran[live.ran].end = self.now;
                live.ended = true;
                self.agenda.cancel(live.ending.take());
                self.agenda.plan(noticed, Order::Completion, WorldEvent::Noticed(attempt, outcome, disturbed));
            }
            WorldEvent::Noticed(attempt, outcome, disturbed) => {
                self.queue.iter_mut().for_each(|queue| queue.noticed(attempt, self.now));
                self.gone(attempt, outcome, disturbed, watch);
            }
        }
    }

    /// The scheduler hears that nothing is left of an attempt.
    fn gone(
        &mut self,
        attempt: AttemptId,
        outcome: Outcome,
        disturbed: bool,
        watch: &mut impl FnMut(&Scheduler, &Event),
    ) {
        let Some(live) = self.live.remove(&attempt) else { return };
        self.stale = true;
        if !live.ended {
            self.schedule.ran[live.ran].end = self.now;
        }
        let recorded = live.killed.unwrap_or(outcome);
        self.outcomes.insert(attempt, recorded);
        let event = match live.conduct.end {
            End::SpawnFails => Event::SpawnFailed { attempt },
            _ => Event::Exited { attempt, outcome, disturbed },
        };
        self.apply(event, watch);
    }

    /// Tells the scheduler, and does what it wants done; the store answers at once.
    fn apply(&mut self, event: Event, watch: &mut impl FnMut(&Scheduler, &Event)) {
        let mut out = Vec::new();
        self.scheduler.handle(self.now, event.clone(), &mut out);
        watch(&self.scheduler, &event);
        for action in out {
            self.schedule.actions.push((self.now, action.clone()));
            self.perform(action, watch);
        }
    }

    fn perform(&mut self, action: Action, watch: &mut impl FnMut(&Scheduler, &Event)) {
        match action {
            Action::LookUp { instances } => {
                for instance in instances {
                    let answer = self.tasks[instance.index()].answer.clone();
                    let outcome = match answer {
                        Answer::Hit(outcome) | Answer::Refused(outcome) => Some(outcome),
                        Answer::NotNeeded => Some(Outcome::Skipped),
                        Answer::Miss | Answer::Orphaned => None,
                    };
                    if let Some(outcome) = outcome {
                        self.schedule.settled[instance.index()] = Some((outcome, self.now));
                    }
                    self.apply(Event::Answered { instance, answer }, watch);
                }
            }
            Action::Start { attempt, instance, placement } => {
                let (tries, _) = &self.history[instance.index()];
                let attempts = &self.tasks[instance.index()].attempts;
                let conduct = attempts[(*tries).min(attempts.len() - 1)].clone();
                let ran = self.schedule.ran.len();
                self.schedule.ran.push(ScheduledAttempt {
                    instance,
                    attempt,
                    placement,
                    start: self.now,
                    end: self.now,
                });
                self.schedule.settled[instance.index()] = None;
                self.live.insert(attempt, RunningTask::new(instance, ran, conduct));
                match &mut self.queue {
                    Some(queue) if self.tasks[instance.index()].task.batch => {
                        queue.submit(attempt, &self.tasks[instance.index()], self.now)
                    }
                    _ => self.set_off(attempt, watch),
                }
            }
            Action::Release { attempts } => {
                for attempt in attempts {
                    let work = self.live[&attempt].conduct.work;
                    self.work(attempt, work);
                }
            }
            Action::Stop { attempts } => {
                for attempt in attempts {
                    if let End::Exits { outcome, disturbed } = self.live[&attempt].conduct.end {
                        self.end(attempt, self.now, outcome, disturbed);
                    }
                }
            }
            Action::Preempt { attempt } => {
                if let Some(live) = self.live.remove(&attempt) {
                    self.stale = true;
                    self.schedule.ran[live.ran].end = self.now;
                    if live.working.is_some() {
                        self.history[live.instance.index()].1 = live.done_by(self.now);
                    }
                    self.agenda.cancel(live.ending);
                }
            }
            Action::Kill { attempt, grace, outcome } => {
                if let Some(live) = self.live.get_mut(&attempt) {
                    live.killed = Some(outcome);
                    let at = if live.conduct.obstinate { self.now + grace } else { self.now };
                    self.end(attempt, at, outcome, false);
                }
            }
            Action::Record { instance, attempt } => {
                let outcome = self.outcomes.remove(&attempt);
                self.schedule.settled[instance.index()] = outcome.map(|outcome| (outcome, self.now));
                self.apply(Event::Recorded { instance }, watch);
            }
            Action::Discard { instance, attempt, .. } => {
                self.outcomes.remove(&attempt);
                self.history[instance.index()].0 += 1;
                self.history[instance.index()].1 = Span(0);
            }
            Action::Settle { instance, outcome, .. } => {
                self.schedule.settled[instance.index()] = Some((outcome, self.now));
            }
            Action::Finish => {}
        }
    }

    /// What Slurm starts now.
    fn dispatch(&mut self, watch: &mut impl FnMut(&Scheduler, &Event)) {
        let started = self.queue.as_mut().map(|queue| queue.step(self.now)).unwrap_or_default();
        for (attempt, gpus) in started {
            let Some(live) = self.live.get(&attempt) else { continue };
            let ran = &mut self.schedule.ran[live.ran];
            (ran.start, ran.end, ran.placement.gpus) = (self.now, self.now, gpus);
            self.set_off(attempt, watch);
        }
    }

    /// Its processes are started.
    fn set_off(&mut self, attempt: AttemptId, watch: &mut impl FnMut(&Scheduler, &Event)) {
        let Some(live) = self.live.get(&attempt) else { return };
        let (warm, end) = (self.now + live.conduct.warm_up, live.conduct.end);
        let grouped = self.tasks[live.instance.index()].task.corun.is_some();
        if end == End::SpawnFails {
            return self.end(attempt, self.now, Outcome::Failed, false);
        }
        self.apply(Event::Started { attempt }, watch);
        match end {
            End::BeforeReady(outcome) if grouped => self.end(attempt, warm, outcome, false),
            _ if !grouped && warm == self.now => self.begin(attempt),
            _ => _ = self.agenda.plan(warm, Order::Completion, WorldEvent::Ready(attempt)),
        }
    }

    /// It will be gone at that time, unless it is gone before.
    fn end(&mut self, attempt: AttemptId, at: Time, outcome: Outcome, disturbed: bool) {
        self.agenda.plan(at, Order::Completion, WorldEvent::Gone(attempt, outcome, disturbed));
    }
}
