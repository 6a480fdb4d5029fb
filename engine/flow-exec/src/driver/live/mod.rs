//! The live loop: carries events to the scheduler and performs its actions. It does no slow work itself and holds no
//! scheduling rule. Slow work is a job on another thread, which answers with an event.
//!
//! One turn: all events of an instant, one `Tick`, the actions, one write of the journal, and a background commit to
//! the database if results are recorded. The scheduler is told only after that commit.

pub(super) mod background;
mod events;
mod forecast;
mod tidy;
mod wait;
pub(super) mod waiting;

use std::{collections::BTreeMap, sync::Arc};

use flow_core::{
    AttemptId, GpuId, InstanceId, JournalLine, RunEvent, Span, StepResult, Time,
    learn::History,
    plan::Decision,
    sched::{Action, Capacity, Event, Placement, Scheduler},
};
use flow_runs::{EndRequest, Journal, Status};
use flow_supervisor::clock::{self, RunClock};
use tokio::task::JoinError;

use crate::{
    ExecError,
    driver::{
        attempts::{Attempts, polling::LISTEN},
        begin::{context::RunContext, fill},
        cancel::{Cancel, SignalGuard},
        decide::{
            deferred::DeferredGangs,
            outcomes::Outcomes,
            recorder::{AppliedLines, CommittedBatch, Recorder, RunLoad},
        },
        executor::{self, Executor},
        machine::{peers::PeerRuns, run_gpus::RunGpus},
        updates::{Update, outbox::Outbox, screen::Screen},
    },
};
pub(super) use background::THREADS;
use background::{BackgroundJobs, JobAnswer, ToRecord};

/// How long a step may take to end when it is asked to.
pub(crate) const GRACE: Span = Span::from_millis(10_000);
/// How long after its programs an interrupted run may collect their outputs, at most.
const LAST: Span = Span::from_millis(500);

/// The parts of the loop. Each part owns what it changes, and reports through the outbox.
pub(crate) struct EventLoop<'a, X> {
    context: Arc<RunContext>,
    scheduler: Scheduler,
    clock: RunClock,
    out: Outbox,
    pub(crate) outcomes: Outcomes,
    attempts: Attempts<X>,
    gpus: RunGpus,
    peers: PeerRuns,
    recorder: Recorder,
    screen: Screen<'a>,
    history: History<'a>,
    deferred: DeferredGangs,
    background: BackgroundJobs,
    cancel: Cancel,
    pub(crate) interrupted: bool,
    /// From then on nobody waits for filling or collecting.
    gives_up_at: Option<Time>,
    listened_at: Time,
    /// Ended attempts that are not collected yet: their program is being listened to, or one of their GPUs may be lost.
    ended: Vec<(AttemptId, Box<executor::AttemptEnd>)>,
    finished: bool,
}

pub(crate) struct LoopStart<'a, X> {
    pub(crate) context: Arc<RunContext>,
    pub(crate) journal: Journal,
    pub(crate) history: History<'a>,
    pub(crate) scheduler: Scheduler,
    pub(crate) capacity: Capacity,
    pub(crate) executor: X,
    pub(crate) status: Status,
    pub(crate) cancel: Cancel,
    pub(crate) observe: &'a mut dyn FnMut(Update),
}

enum LoopEvent {
    Executor(executor::Event),
    Committed(Result<AppliedLines, JoinError>),
    Job(JobAnswer),
    Interrupt(EndRequest),
    /// Something is due, or GPUs were checked.
    Time,
}

impl<'a, X: Executor> EventLoop<'a, X> {
    pub(crate) fn new(from: LoopStart<'a, X>) -> Self {
        let context = from.context;
        let clock = RunClock::start();
        let (workflow, shared) = (&context.session.expansion.workflow, from.executor.shares_this_machine());
        EventLoop {
            scheduler: from.scheduler,
            peers: PeerRuns::new(
                &context.run.0,
                workflow,
                &context.session.expansion.machine.gpus,
                shared,
                clock.now(),
            ),
            clock,
            out: Outbox::new(context.secrets.clone()),
            outcomes: Outcomes::new(Arc::clone(&context)),
            attempts: Attempts::new(Arc::clone(&context), from.executor),
            gpus: RunGpus::new(&context.session.expansion.machine, from.capacity),
            recorder: Recorder::new(Arc::clone(&context), from.journal),
            screen: Screen::new(from.observe, context.run_dir.clone(), from.status),
            history: from.history,
            deferred: DeferredGangs::default(),
            background: BackgroundJobs::new(Arc::clone(&context)),
            cancel: from.cancel,
            interrupted: false,
            gives_up_at: None,
            listened_at: Time(0),
            ended: Vec::new(),
            finished: false,
            context,
        }
    }

    /// Settles what is settled before anything runs, for tables, and reuses results that the plan found. The scheduler knows
    /// them from its tasks.
    pub(crate) fn settle_before(&mut self, reused: BTreeMap<InstanceId, Decision>) {
        let context = Arc::clone(&self.context);
        for id in &context.wanted {
            if let Some((outcome, cause)) = context.instance(*id).settled() {
                self.outcomes.settle_as(*id, outcome, Some(cause), &mut self.out);
            }
        }
        for (id, decision) in reused {
            self.outcomes.answer(id, decision, &mut self.out);
        }
    }

    /// Runs until everything is settled.
    ///
    /// # Errors
    /// The store cannot be written, the keeper is gone, or a state is impossible.
    pub(crate) async fn run(&mut self, first: Event) -> Result<(), ExecError> {
        self.cancel.listen(self.context.leaves_jobs)?;
        if self.context.detached && !self.outcomes.want_gpus().is_empty() {
            let locks = self.gpus.lent();
            self.attempts.executor.lend_locks(locks);
        }
        self.out.push(first);
        while !self.finished {
            self.turn()?;
            if self.finished {
                break;
            }
            if self.out.events.is_empty() {
                match self.wait().await? {
                    LoopEvent::Executor(event) => {
                        self.on_event(event);
                        // Other events that are available now belong to the same turn.
                        while let Some(event) = self.event_now()? {
                            self.on_event(event);
                        }
                    }
                    LoopEvent::Job(done) => {
                        self.on_done(done)?;
                        while let Some(done) = self.background.next_now() {
                            self.on_done(done?)?;
                        }
                    }
                    LoopEvent::Committed(done) => {
                        let written = self.recorder.done(done, self.load(), self.clock.now())?;
                        self.written(written)?;
                    }
                    LoopEvent::Interrupt(end) => self.interrupt(end),
                    LoopEvent::Time => {}
                }
                self.see_to_ends();
                let now = self.clock.now();
                self.give_up(now);
                if !self.background.is_listening() && now - self.listened_at >= LISTEN {
                    self.listened_at = now;
                    self.background.listen(self.attempts.lend_listeners(clock::unix_seconds()));
                }
            }
        }
        while self.recorder.is_committing() {
            let done = self.recorder.committed().await;
            let written = self.recorder.done(done, RunLoad::Idle, self.clock.now())?;
            self.written(written)?;
        }
        while self.end_unjoined() {
            if let done @ JobAnswer::Unjoined(_) = self.background.next().await? {
                self.on_done(done)?;
            }
        }
        self.show_status(None);
        Ok(())
    }

    /// Ends jobs of earlier runs that this run was about to join when it was told to end. All together, because each
    /// call to Slurm is slow. Returns whether this is still in progress.
    fn end_unjoined(&mut self) -> bool {
        if !self.background.is_ending_jobs() && !self.attempts.unjoined.is_empty() {
            self.background.end_jobs(Some(std::mem::take(&mut self.attempts.unjoined)));
        }
        self.background.is_ending_jobs()
    }

    /// Everything is settled and recorded.
    pub(crate) fn is_over(&mut self) -> SignalGuard {
        self.cancel.loop_is_over()
    }

    /// When an interrupted run's time is up, stops hashing, copying and reading.
    fn give_up(&mut self, now: Time) {
        if self.gives_up_at.is_none_or(|at| now < at) {
            return;
        }
        self.context.activity.end();
        for (attempt, end) in std::mem::take(&mut self.ended) {
            let (outcomes, gpus, out) = (&self.outcomes, &mut self.gpus, &mut self.out);
            if let Some(mut ended) = self.attempts.on_exited(attempt, *end, outcomes, gpus, out) {
                ended.note(self.context.store.dir());
            }
        }
        self.background.note_now();
        self.attempts.give_up(&mut self.outcomes, &mut self.out);
    }

    /// All events of this instant, one decision, the actions, and the writes.
    fn turn(&mut self) -> Result<(), ExecError> {
        let now = self.clock.now();
        let mut actions = Vec::new();
        self.open_gpus();
        while let Some(event) = self.out.events.pop_front() {
            self.scheduler.handle(now, event, &mut actions);
        }
        self.decide(now, &mut actions);
        let mut starts = Vec::new();
        for action in actions {
            self.perform(action, &mut starts)?;
        }
        #[cfg(test)]
        self.attempts.check().map_err(ExecError::Fault)?;
        if let Some(fault) = self.scheduler.fault().or(self.attempts.fault()) {
            return Err(ExecError::Fault(fault.to_owned()));
        }
        self.fill(starts)?;
        if self.scheduler.is_ending() {
            self.deferred.give_up(&mut self.out);
        }
        self.end_unjoined();
        self.background.look_up(self.deferred.free(&self.context, now, &mut self.out)?);
        self.background.begin_look_up();
        self.gpus.close(self.attempts.gpus().collect());
        let load = self.load();
        let written = self.recorder.commit(&mut self.out.lines, load, now)?;
        self.written(written)?;
        for update in std::mem::take(&mut self.out.updates) {
            self.screen.show(update);
        }
        if self.screen.is_due(now) {
            self.report_gpu_memory();
            self.gpus.keep();
            self.peers.keep();
            self.watch(false);
            self.show_status(None);
        }
        Ok(())
    }

    /// One decision, if it is due: reads what other runs hold before it, and publishes what this run holds after it.
    fn decide(&mut self, now: Time, actions: &mut Vec<Action>) {
        let due = self.scheduler.next_wake().is_some_and(|at| at <= now) || self.peers.is_due(now, &self.scheduler);
        if !due {
            return;
        }
        let ours = self.attempts.gpus().map(|gpu| GpuId(gpu as u32)).collect();
        let (opened, say) = self.peers.open(now, &self.scheduler, &self.gpus.holders(ours));
        say.into_iter().for_each(|text| self.out.notice(None, text));
        let Some(others) = opened else { return };
        self.attempts.note_other_runs(self.peers.others());
        self.scheduler.handle(now, Event::Others(others), actions);
        self.scheduler.handle(now, Event::Tick, actions);
        let context = &self.context;
        let instances = &context.session.expansion.instances;
        let label = |id: InstanceId| context.secrets.hide(instances[id.index()].label.to_string());
        let started = actions.iter().any(|action| matches!(action, Action::Start { .. }));
        if let Some((life, place)) = self.peers.close(now, &self.scheduler, started, label) {
            self.attempts.executor.lend(life, place);
        }
    }

    /// Checks that measured attempts are as alone as they should be.
    fn watch(&mut self, at_once: bool) {
        if self.attempts.are_measured() {
            self.peers.watch(self.clock.now(), at_once);
            self.attempts.note_other_runs(self.peers.others());
        }
    }

    /// `starts` gets what is to start, because a gang is filled as a whole.
    fn perform(
        &mut self,
        action: Action,
        starts: &mut Vec<(AttemptId, InstanceId, Placement)>,
    ) -> Result<(), ExecError> {
        let out = &mut self.out;
        match action {
            Action::LookUp { instances } => self.background.look_up([instances]),
            Action::Start { attempt, instance, placement } => starts.push((attempt, instance, placement)),
            Action::Release { attempts } => self.attempts.release(attempts, out),
            Action::Stop { attempts } => self.attempts.stop(&attempts),
            Action::Kill { attempt, grace, outcome } => self.attempts.kill(attempt, grace, outcome),
            Action::Record { instance, attempt } => {
                let to_record = ToRecord { instance, attempt, closed_by: self.attempts.closed_by(instance) };
                match self.outcomes.disturbed_gang(instance, attempt) {
                    Some(gang) => self.background.look_for_earlier(gang, to_record),
                    None => self.record(to_record, None)?,
                }
            }
            Action::Discard { instance, attempt, .. } => {
                self.attempts.settled(attempt);
                self.outcomes.discard(instance, attempt, out);
            }
            Action::Settle { instance, outcome, because } => {
                self.outcomes.settle(instance, outcome, because, out);
                self.deferred.settled(&self.context.claimed, instance)?;
            }
            Action::Preempt { .. } => return Err(ExecError::Fault("a live run cannot preempt".to_owned())),
            Action::Finish => self.finished = true,
        }
        Ok(())
    }

    fn load(&self) -> RunLoad {
        match () {
            () if self.attempts.is_empty() => RunLoad::Idle,
            () if self.scheduler.has_queue() => RunLoad::Queued,
            () => RunLoad::Running,
        }
    }

    fn record(&mut self, what: ToRecord, earlier: Option<Box<StepResult>>) -> Result<(), ExecError> {
        let ToRecord { instance, attempt, closed_by } = what;
        let (history, recorder) = (&mut self.history, &mut self.recorder);
        self.outcomes.record(instance, attempt, (closed_by, earlier), history, recorder, &mut self.out)?;
        // Its usage is known to those of its step that still wait for a GPU.
        let refits = self.history.refits(instance, self.outcomes.want_gpus());
        if refits.is_empty() {
            self.out.events.extend(self.history.update(instance, self.outcomes.want_gpus()));
        } else {
            self.background.learn(instance, refits);
        }
        Ok(())
    }

    fn fill(&mut self, starts: Vec<(AttemptId, InstanceId, Placement)>) -> Result<(), ExecError> {
        for gang in self.attempts.fill(starts, &self.outcomes)? {
            let copies = fill::large_copies(&self.context, &gang);
            copies.into_iter().for_each(|(instance, text)| self.out.notice(Some(instance), text));
            let to_claim = self.deferred.starts(&gang);
            self.background.fill(gang, to_claim);
        }
        Ok(())
    }

    /// Reports what is safely written, in the order in which it happened: to the screen and to the scheduler.
    fn written(&mut self, written: CommittedBatch) -> Result<(), ExecError> {
        written.lines.into_iter().for_each(|line: JournalLine| self.screen.show(Update::Event(line)));
        for instance in written.recorded {
            self.attempts.recorded(instance);
            self.deferred.settled(&self.context.claimed, instance)?;
            self.out.push(Event::Recorded { instance });
        }
        if let Some(trouble) = written.trouble {
            self.screen.notice(trouble);
        }
        Ok(())
    }

    /// Writes the status file. If that fails, the run continues without it.
    fn show_status(&mut self, ended: Option<i32>) {
        for text in self.attempts.slow() {
            self.screen.notice(text);
        }
        let (session, known) = (&self.context.session, &self.context.known);
        let others = (&self.gpus, &self.peers, &self.deferred);
        let waiting = waiting::of(&self.scheduler, self.clock.now(), session, known, others);
        let (mut running, counts) = (self.attempts.status(), self.outcomes.counts.clone());
        forecast::set_ends(&self.scheduler, &mut running, clock::unix_millis());
        self.peers.publish(self.attempts.jobs(), self.deferred.follows(&self.context));
        let written = self.screen.status(|status| {
            (status.running, status.waiting, status.counts, status.ended) = (running, waiting, counts, ended);
        });
        let (scheduler, now) = (&self.scheduler, self.clock.now());
        let written = written.and(self.screen.forecast(|running, unix| forecast::of(scheduler, now, running, unix)));
        if let Err(error) = written
            && let Some(trouble) = self.recorder.trouble(&error)
        {
            self.screen.notice(trouble);
        }
    }

    /// Writes the last events and the exit code after the loop has ended, and removes the files of attempts.
    /// # Errors
    /// The journal cannot be written.
    pub(crate) fn end(mut self, events: Vec<RunEvent>, exit: i32) -> Result<(), ExecError> {
        events.into_iter().for_each(|event| self.out.report(event));
        let written = self.recorder.commit_last(&mut self.out.lines)?;
        self.written(written)?;
        self.show_status(Some(exit));
        self.attempts.leftovers.clear();
        Ok(())
    }

    /// Before a decision, and before other events: reports the state of the GPUs to the scheduler.
    fn open_gpus(&mut self) {
        let wanted = self.wants_gpus();
        for text in self.gpus.open(wanted) {
            self.out.notice(None, text);
        }
        self.report_gpus();
    }

    fn report_gpus(&mut self) {
        if let Some(capacity) = self.gpus.changed() {
            self.out.events.push_front(Event::Capacity(capacity));
        }
    }

    /// Reports the GPU memory of running attempts to the scheduler.
    fn report_gpu_memory(&mut self) {
        for (attempt, gpu_memory) in self.gpus.used_now(self.attempts.ids()) {
            self.out.push(Event::Sampled { attempt, gpu_memory });
        }
    }

    /// True if a step that requests GPUs is to run and has no placement yet.
    fn wants_gpus(&self) -> bool {
        self.outcomes.waiting_for_gpus().any(|id| !self.attempts.is_placed(id))
    }
}
