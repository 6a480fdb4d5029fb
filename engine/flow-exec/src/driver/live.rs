//! The live loop: carries events to the scheduler and performs its actions. It does no work itself and holds no scheduling
//! rule: what takes its time is a job on another thread, which answers with an event.
//!
//! One turn: all events of an instant, one `Tick`, the actions, one write of the journal and, where something is recorded, of the
//! database behind it, aside; only after that is the scheduler told that it is.

use std::{
    collections::BTreeMap,
    path::PathBuf,
    pin::pin,
    sync::Arc,
    task::{Context as TaskContext, Poll, Waker},
    time::Duration,
};

use flow_core::{
    AttemptId, CorunGpus, GpuId, InstanceId, JournalLine, Outcome, RunEvent, Span, StepResult, Time,
    learn::{History, Refit},
    reason::{Cause, ClosedBy},
    sched::{Action, Capacity, Event, Placement, Scheduler},
};
use flow_store::{End, Journal, Status, StoreError};
use tokio::{
    signal::unix::{Signal, SignalKind, signal},
    task::{JoinError, JoinSet},
};

use super::{
    Update,
    attempts::Attempts,
    cancel::Cancel,
    cards::Cards,
    cleanup::FolderRemover,
    collect::{self, Collect, Collected},
    context::RunContext,
    decisions::{self, LookedUp},
    deferred::DeferredUnits,
    executor::{self, Executor, RetryAdvice},
    fill::{self, Filled},
    hearing::{self, Heard},
    outbox::Outbox,
    outcomes::Outcomes,
    peers::{Opened, PeerRuns},
    polling::LISTEN,
    recorder::{Applied, Recorder, Written},
    screen::Screen,
    waiting,
};
use crate::{
    ExecError,
    clock::{self, RunClock},
};

/// How long a step may take to end when it is asked to.
pub(crate) const GRACE: Span = Span::from_millis(10_000);
/// How often it is looked whether what runs aside waits for somebody else.
const SILENT: Duration = Duration::from_secs(1);
/// How often GPUs are looked at for which a step waits.
const WATCH: Duration = Duration::from_millis(500);

/// What the loop works with. Each part owns what it changes; what they have to tell goes through the outbox.
pub(super) struct EventLoop<'a, X> {
    context: Arc<RunContext>,
    scheduler: Scheduler,
    clock: RunClock,
    out: Outbox,
    outcomes: Outcomes,
    attempts: Attempts<X>,
    cards: Cards,
    rivals: PeerRuns,
    recorder: Recorder,
    screen: Screen<'a>,
    history: History<'a>,
    elsewhere: DeferredUnits,
    leftovers: FolderRemover,
    /// Instances that are being recorded, and the attempts that made what is.
    to_settle: BTreeMap<InstanceId, AttemptId>,
    /// Work folders that another run would need, had this one to die before that.
    needed: BTreeMap<AttemptId, PathBuf>,
    jobs: JoinSet<Done>,
    /// Units to be looked up, by the next job: one at a time, for they ask the same disk.
    to_look_up: Vec<Vec<InstanceId>>,
    looking_up: bool,
    cancel: Cancel,
    capacity: Capacity,
    interrupted: bool,
    listened_at: Time,
    /// Somebody listens to programs, aside.
    listening: bool,
    /// What has ended meanwhile: nothing is collected of a program that is being listened to.
    ended_meanwhile: Vec<(AttemptId, Box<executor::Ended>)>,
    finished: bool,
}

/// What a loop starts with.
pub(super) struct LoopStart<'a, X> {
    pub(super) context: Arc<RunContext>,
    pub(super) journal: Journal,
    pub(super) history: History<'a>,
    pub(super) scheduler: Scheduler,
    pub(super) capacity: Capacity,
    pub(super) executor: X,
    pub(super) status: Status,
    pub(super) cancel: Cancel,
    pub(super) observe: &'a mut dyn FnMut(Update),
}

/// What a job has to say.
enum Done {
    LookedUp(LookedUp),
    Filled(Vec<Filled>),
    /// These attempts do not start: another run does the same.
    Elsewhere(Vec<AttemptId>),
    NotClaimed(StoreError),
    /// What was seen of an attempt, for whoever comes after this process. The rest of what it left is still to be collected.
    ToTell {
        ended: Box<Collect>,
        path: PathBuf,
        text: String,
    },
    Collected(Box<Collected>),
    Heard(Vec<Heard>),
    /// What is known of the step of an instance was made anew.
    Learned(InstanceId, Vec<Refit>),
    /// The earlier result that stands where this one is spoiled, if there is one.
    Earlier(ToRecord, Result<Option<Box<StepResult>>, StoreError>),
}

/// An attempt that is the last of its instance, and what closed the window of its group out of turn.
struct ToRecord {
    instance: InstanceId,
    attempt: AttemptId,
    closed_by: Option<ClosedBy>,
}

enum LoopEvent {
    Executor(executor::Event),
    Committed(Result<Applied, JoinError>),
    Job(Result<Done, JoinError>),
    Interrupt(End),
    Time,
}

impl<'a, X: Executor> EventLoop<'a, X> {
    pub(super) fn new(from: LoopStart<'a, X>) -> Self {
        let context = from.context;
        let clock = RunClock::start();
        let (workflow, shared) = (&context.session.expansion.workflow, from.executor.shares_this_machine());
        EventLoop {
            scheduler: from.scheduler,
            rivals: PeerRuns::new(
                &context.run.0,
                workflow,
                &context.session.expansion.machine.gpus,
                shared,
                clock.now(),
            ),
            clock,
            out: Outbox::new(context.secrets.clone()),
            outcomes: Outcomes::new(Arc::clone(&context)),
            capacity: from.capacity,
            attempts: Attempts::new(Arc::clone(&context), from.executor),
            cards: Cards::new(&context.session.expansion.machine),
            recorder: Recorder::new(Arc::clone(&context), from.journal),
            screen: Screen::new(from.observe, context.run_dir.clone(), from.status),
            history: from.history,
            elsewhere: DeferredUnits::default(),
            leftovers: FolderRemover::default(),
            to_settle: BTreeMap::new(),
            needed: BTreeMap::new(),
            jobs: JoinSet::new(),
            to_look_up: Vec::new(),
            looking_up: false,
            cancel: from.cancel,
            interrupted: false,
            listened_at: Time(0),
            listening: false,
            ended_meanwhile: Vec::new(),
            finished: false,
            context,
        }
    }

    /// Settled before anything ran: told to tables, not to the scheduler, which knows it from the task.
    pub(super) fn settle_before(&mut self, instance: InstanceId, outcome: Outcome, cause: Cause) {
        self.outcomes.settle_as(instance, outcome, Some(cause), &mut self.out);
    }

    /// Runs until everything is settled.
    ///
    /// # Errors
    /// The store cannot be written, the keeper is gone, something happened that cannot be.
    pub(super) async fn run(&mut self, first: Event) -> Result<(), ExecError> {
        let cannot = |e| ExecError::Fault(format!("signals cannot be received: {e}"));
        // What is in the background, with jobs elsewhere, leaves them to the run that comes after it, however it ends.
        let kinds: &[SignalKind] = if self.context.leaves_jobs {
            &[]
        } else {
            &[SignalKind::interrupt(), SignalKind::terminate(), SignalKind::hangup()]
        };
        let mut signals = kinds.iter().copied().map(signal).collect::<Result<Vec<Signal>, _>>().map_err(cannot)?;
        self.cancel.listen();
        if self.context.outlives && !self.outcomes.want_gpus().is_empty() {
            let locks = self.cards.lent();
            self.attempts.executor.lend_locks(locks);
        }
        self.out.tell(first);
        while !self.finished {
            self.turn()?;
            if self.finished {
                break;
            }
            if self.out.events.is_empty() {
                match self.wait(&mut signals).await? {
                    LoopEvent::Executor(event) => {
                        self.on_event(event);
                        // Whatever else is already there belongs to this turn.
                        while let Some(event) = self.event_now()? {
                            self.on_event(event);
                        }
                    }
                    LoopEvent::Job(done) => {
                        self.on_done(done)?;
                        while let Some(done) = self.jobs.try_join_next() {
                            self.on_done(done)?;
                        }
                    }
                    LoopEvent::Committed(done) => {
                        let written = self.recorder.done(done, self.attempts.is_empty())?;
                        self.written(written)?;
                    }
                    LoopEvent::Interrupt(end) => self.interrupt(end),
                    LoopEvent::Time => {}
                }
                let now = self.clock.now();
                if !self.listening && now - self.listened_at >= LISTEN {
                    self.listened_at = now;
                    self.listen();
                }
            }
        }
        while self.recorder.is_committing() {
            let done = self.recorder.committed().await;
            let written = self.recorder.done(done, true)?;
            self.written(written)?;
        }
        self.show_status(None);
        Ok(())
    }

    /// All events of this instant, one decision, the actions, and what is to be written.
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
            match action {
                Action::Start { attempt, instance, placement } => starts.push((attempt, instance, placement)),
                other => self.perform(other)?,
            }
        }
        if let Some(fault) = self.scheduler.fault() {
            return Err(ExecError::Fault(fault.to_owned()));
        }
        self.fill(starts);
        if self.scheduler.is_ending() {
            self.elsewhere.give_up(&mut self.out);
        }
        self.to_look_up.extend(self.elsewhere.free(&self.context, now, &mut self.out)?);
        self.look_up();
        self.cards.close(self.attempts.gpus().collect(), self.rivals.shared());
        let written = self.recorder.commit(&mut self.out.lines, self.attempts.is_empty(), now)?;
        self.written(written)?;
        for update in std::mem::take(&mut self.out.updates) {
            self.screen.show(update);
        }
        if self.screen.is_due(now) {
            self.tell_gpu_memory();
            self.cards.keep();
            self.rivals.keep();
            self.watch(false);
            self.show_status(None);
        }
        Ok(())
    }

    /// One decision, if one is due: with what other runs of the machine hold before it, and what we hold told to them after it.
    fn decide(&mut self, now: Time, actions: &mut Vec<Action>) {
        let due = self.scheduler.next_wake().is_some_and(|at| at <= now) || self.rivals.is_due(now, &self.scheduler);
        if !due {
            return;
        }
        let ours = self.attempts.gpus().map(|card| GpuId(card as u32)).collect();
        let (opened, say) = self.rivals.open(now, &self.scheduler, &self.cards.holders(ours));
        say.into_iter().for_each(|text| self.out.notice(None, text));
        let Opened::Decide(others) = opened else { return };
        self.attempts.beside(self.rivals.others(), &mut self.out);
        self.scheduler.handle(now, Event::Others(others), actions);
        self.scheduler.handle(now, Event::Tick, actions);
        let context = &self.context;
        let instances = &context.session.expansion.instances;
        let label = |id: InstanceId| context.secrets.hide(instances[id.index()].label.to_string());
        let started = actions.iter().any(|action| matches!(action, Action::Start { .. }));
        if let Some((life, place)) = self.rivals.close(now, &self.scheduler, started, label) {
            self.attempts.executor.lend(life, place);
        }
    }

    /// Whether what is measured is as alone as it should be.
    fn watch(&mut self, at_once: bool) {
        if self.attempts.are_measured() || !self.rivals.shared().is_empty() {
            self.rivals.watch(self.clock.now(), at_once);
            self.attempts.beside(self.rivals.others(), &mut self.out);
        }
    }

    fn perform(&mut self, action: Action) -> Result<(), ExecError> {
        let out = &mut self.out;
        match action {
            Action::LookUp { instances } => self.to_look_up.push(instances),
            Action::Start { attempt, instance, placement } => self.fill(vec![(attempt, instance, placement)]),
            Action::Release { attempts } => self.attempts.release(attempts, out),
            Action::Stop { attempts } => self.attempts.stop(&attempts),
            Action::Kill { attempt, grace, outcome } => self.attempts.kill(attempt, grace, outcome),
            Action::Record { instance, attempt } => {
                self.to_settle.insert(instance, attempt);
                let to_record = ToRecord { instance, attempt, closed_by: self.attempts.closed_by(instance) };
                match self.outcomes.spoiled_unit(instance, attempt) {
                    Some(unit) => {
                        let context = Arc::clone(&self.context);
                        self.jobs.spawn_blocking(move || {
                            let earlier = decisions::earlier(&context, &unit, instance);
                            Done::Earlier(to_record, earlier)
                        });
                    }
                    None => self.record(to_record, None)?,
                }
            }
            Action::Discard { instance, attempt, .. } => {
                self.attempts.executor.settled(attempt);
                self.needed.remove(&attempt).into_iter().for_each(|folder| self.leftovers.add(folder));
                self.outcomes.discard(instance, attempt, out);
            }
            Action::Settle { instance, outcome, because } => {
                self.outcomes.settle(instance, outcome, because, out);
                self.elsewhere.settled(&self.context.claimed, instance)?;
            }
            Action::Preempt { .. } => return Err(ExecError::Fault("a live run cannot preempt".to_owned())),
            Action::Finish => self.finished = true,
        }
        Ok(())
    }

    fn record(&mut self, what: ToRecord, earlier: Option<Box<StepResult>>) -> Result<(), ExecError> {
        let ToRecord { instance, attempt, closed_by } = what;
        let (history, recorder) = (&mut self.history, &mut self.recorder);
        self.outcomes.record(instance, attempt, (closed_by, earlier), history, recorder, &mut self.out)?;
        // What it took is known to those of its step that still wait for a GPU.
        let refits = self.history.refits(instance, self.outcomes.want_gpus());
        if refits.is_empty() {
            self.out.events.extend(self.history.tell(instance, self.outcomes.want_gpus()));
        } else {
            self.jobs.spawn_blocking(move || Done::Learned(instance, refits.into_iter().map(Refit::make).collect()));
        }
        Ok(())
    }

    fn listen(&mut self) {
        let now = clock::unix_seconds();
        let listeners = self.attempts.lend_listeners(now);
        if !listeners.is_empty() {
            self.listening = true;
            self.jobs.spawn_blocking(move || Done::Heard(hearing::listen(listeners, now)));
        }
    }

    fn fill(&mut self, starts: Vec<(AttemptId, InstanceId, Placement)>) {
        for unit in self.attempts.fill(starts, &self.outcomes) {
            let (context, to_claim) = (Arc::clone(&self.context), self.elsewhere.starts(&unit));
            self.jobs.spawn_blocking(move || {
                let intents: Vec<_> = unit.iter().filter_map(|fill| fill.intent(&context.force)).collect();
                let attempts: Vec<_> = intents.iter().map(|intent| intent.attempt).collect();
                // Claimed first: whose claim this was may have died a moment ago.
                let claim = || {
                    if to_claim && !context.claimed.claim(&context.store, &context.run, &intents)? {
                        return Ok(None);
                    }
                    context.left.look_for_deaths();
                    let joined = fill::joins(&context, &unit);
                    // It goes on since its run died, and cannot be joined as it is.
                    if to_claim && joined.is_none() && context.claimed.kept(&attempts)?.is_some() {
                        context.claimed.give_back(&attempts)?;
                        return Ok(None);
                    }
                    Ok(Some(joined))
                };
                match claim() {
                    Ok(Some(joined)) => Done::Filled(fill::fill(&context, unit, joined)),
                    Ok(None) => Done::Elsewhere(unit.iter().map(|fill| fill.attempt).collect()),
                    Err(error) => Done::NotClaimed(error),
                }
            });
        }
    }

    fn look_up(&mut self) {
        if self.looking_up || self.to_look_up.is_empty() {
            return;
        }
        self.looking_up = true;
        let (context, units) = (Arc::clone(&self.context), std::mem::take(&mut self.to_look_up));
        self.jobs.spawn_blocking(move || Done::LookedUp(decisions::look_up(&context, units)));
    }

    fn on_event(&mut self, event: executor::Event) {
        if matches!(event, executor::Event::Ended { .. }) {
            self.watch(true);
        }
        let (attempts, outcomes, out) = (&mut self.attempts, &mut self.outcomes, &mut self.out);
        match event {
            executor::Event::Started { attempt, node } => attempts.on_started(attempt, node, out),
            executor::Event::SpawnFailed { attempt, reason } => {
                attempts.on_spawn_failed(attempt, reason, outcomes, out);
            }
            executor::Event::Waits { attempt, queued } => attempts.waits(attempt, queued),
            executor::Event::Notice(text) => out.notice(None, text),
            executor::Event::Ended { attempt, end } if self.listening => self.ended_meanwhile.push((attempt, end)),
            executor::Event::Ended { attempt, end } => self.on_ended(attempt, *end),
        }
    }

    fn on_ended(&mut self, attempt: AttemptId, end: executor::Ended) {
        let ended = self.attempts.on_exited(attempt, end, &self.outcomes, &mut self.cards, &mut self.out);
        if let Some(ended) = ended {
            self.tell_gpus();
            self.collect(Box::new(ended));
        }
    }

    fn collect(&mut self, mut ended: Box<Collect>) {
        let context = Arc::clone(&self.context);
        self.jobs.spawn_blocking(move || {
            if ended.is_to_be_told() {
                let (path, text) = collect::tell(&mut ended);
                return Done::ToTell { ended, path, text };
            }
            Done::Collected(Box::new(collect::collect(&context, *ended)))
        });
    }

    fn on_done(&mut self, done: Result<Done, JoinError>) -> Result<(), ExecError> {
        match done.map_err(|e| ExecError::Fault(format!("a job ended without an answer: {e}")))? {
            Done::LookedUp(mut answers) => {
                self.looking_up = false;
                self.elsewhere.wait_for(std::mem::take(&mut answers.elsewhere), &mut self.out);
                self.outcomes.looked_up(answers, &mut self.recorder, &mut self.out)
            }
            Done::Filled(filled) => {
                let (outcomes, history) = (&mut self.outcomes, &self.history);
                for builtin in self.attempts.start(filled, outcomes, &mut self.cards, history, &mut self.out)? {
                    let context = Arc::clone(&self.context);
                    self.jobs
                        .spawn_blocking(move || Done::Collected(Box::new(collect::run_builtin(&context, builtin))));
                }
                Ok(())
            }
            Done::Elsewhere(attempts) => {
                let instances = attempts.iter().filter_map(|attempt| self.attempts.take_back(*attempt));
                instances.for_each(|instance| self.elsewhere.taken_back(instance));
                // The first stands for its unit.
                self.out.events.extend(attempts.first().map(|&attempt| Event::Elsewhere { attempt }));
                Ok(())
            }
            Done::NotClaimed(error) => Err(error.into()),
            Done::ToTell { ended, path, text } => {
                self.attempts.executor.observed(ended.attempt, path, text);
                self.collect(ended);
                Ok(())
            }
            Done::Collected(collected) => {
                self.collected(*collected);
                Ok(())
            }
            Done::Heard(heard) => {
                self.listening = false;
                self.attempts.heard(heard, &mut self.out);
                for (attempt, end) in std::mem::take(&mut self.ended_meanwhile) {
                    self.on_ended(attempt, *end);
                }
                Ok(())
            }
            Done::Learned(of, refits) => {
                refits.into_iter().for_each(|refit| self.history.take_in(refit));
                self.out.events.extend(self.history.tell(of, self.outcomes.want_gpus()));
                Ok(())
            }
            Done::Earlier(to_record, earlier) => self.record(to_record, earlier?),
        }
    }

    /// An attempt has come to something: the scheduler says what becomes of it.
    fn collected(&mut self, collected: Collected) {
        self.attempts.collected(&collected);
        let Collected { attempt, instance, running, corunners, news, notices, again, mut result } = collected;
        let (gpus, told) = (&running.placement.gpus, &running.listener.reported);
        result.circumstances.sharing = self.history.sharing(instance, gpus, told, &corunners, &result);
        let known = result.circumstances.gpu_models.first().and_then(|model| self.history.interference(model));
        if let Some(window) = result.circumstances.corun.as_mut().filter(|window| window.gpus == CorunGpus::Shared) {
            window.interference = known;
        }
        if again == RetryAdvice::Continues && self.scheduler.is_ending() {
            // Nothing is begun any more; the next run goes on.
            (result.outcome, result.cause) = (Outcome::Cancelled, None);
        }
        let out = &mut self.out;
        hearing::tell(attempt, instance, news, &running.listener, out);
        notices.into_iter().for_each(|text| out.notice(Some(instance), text));
        let (outcome, cause, spoiled) = (result.outcome, result.cause.clone(), result.spoiled.clone());
        let missed = matches!(cause, Some(Cause::NoMetrics { .. }));
        out.say(RunEvent::Ended { instance, attempt, outcome, cause, spoiled });
        if outcome == Outcome::Ok && !missed {
            // Its outputs are in the store. One that failed, or has no metrics, keeps its work folder for whoever looks for the reason.
            match running.joinable || running.unsettled {
                true => drop(self.needed.insert(attempt, running.folder.work())),
                false => self.leftovers.add(running.folder.work()),
            }
        }
        match again {
            RetryAdvice::Continues => out.tell(Event::Continues { attempt }),
            RetryAdvice::Lost => out.tell(Event::Lost { attempt }),
            // The same log and the same pattern give the same.
            RetryAdvice::AsAsked if missed => out.tell(Event::Hopeless { attempt }),
            RetryAdvice::AsAsked => {}
            RetryAdvice::Hopeless => out.tell(Event::Hopeless { attempt }),
        }
        out.tell(Event::Exited { attempt, outcome, spoiled: !result.spoiled.is_empty() });
        self.outcomes.ended(attempt, result, again == RetryAdvice::Continues);
    }

    async fn wait(&mut self, signals: &mut [Signal]) -> Result<LoopEvent, ExecError> {
        let now = self.clock.now();
        let span = |at: Time| Duration::from_micros((at - now).0);
        let until_wake = self.scheduler.next_wake().filter(|_| !self.rivals.is_busy()).map(span);
        let until_room = self.rivals.sleep(now, &self.scheduler);
        let listening =
            self.attempts.listen_in().filter(|_| !self.listening).map(|pause| span(self.listened_at + pause));
        let watching = (self.cards.is_watching() && self.wants_gpus()).then_some(WATCH);
        // What is on its way wakes the loop by itself; that it waits for who holds the store is to be said meanwhile.
        let aside = (self.recorder.is_committing() || !self.jobs.is_empty()).then_some(SILENT);
        let alone = self.attempts.is_empty();
        let gathering = self.recorder.gather_until(alone).filter(|_| !self.recorder.is_committing()).map(span);
        let theirs = self.elsewhere.due().map(span);
        let dues = [until_wake, until_room, gathering, listening, watching, aside, theirs];
        let Some(pause) = dues.into_iter().flatten().min() else {
            return Err(ExecError::Fault("nothing runs, nothing is due, and yet not every step is settled".to_owned()));
        };
        let no_jobs = self.jobs.is_empty();
        tokio::select! {
            biased;
            () = any(signals) => Ok(LoopEvent::Interrupt(End::Soon)),
            end = self.cancel.asked() => Ok(LoopEvent::Interrupt(end)),
            done = self.recorder.committed() => Ok(LoopEvent::Committed(done)),
            event = self.attempts.executor.next_event() => Ok(LoopEvent::Executor(event?)),
            Some(done) = self.jobs.join_next(), if !no_jobs => Ok(LoopEvent::Job(done)),
            () = tokio::time::sleep(pause) => Ok(LoopEvent::Time),
        }
    }

    /// An event that needs no waiting.
    fn event_now(&mut self) -> Result<Option<executor::Event>, ExecError> {
        let next = pin!(self.attempts.executor.next_event());
        match next.poll(&mut TaskContext::from_waker(Waker::noop())) {
            Poll::Ready(event) => Ok(Some(event?)),
            Poll::Pending => Ok(None),
        }
    }

    /// The first Ctrl-C or `flow cancel`: no new starts, and running steps get the grace. The second: they are killed.
    fn interrupt(&mut self, end: End) {
        let again = std::mem::replace(&mut self.interrupted, true);
        let grace = if again || end == End::Now { Span(0) } else { GRACE };
        // What is recorded by nobody yet stands in the journal, and is taken in by whoever has the store next.
        self.context.silence.give_up();
        self.attempts.executor.hurry();
        self.out.say(RunEvent::Interrupted { grace: Some(grace).filter(|grace| grace.0 > 0), again });
        self.out.tell(Event::Cancel { grace });
    }

    /// What is safe is told: to the screen, and to the scheduler, in the order in which it happened.
    fn written(&mut self, written: Written) -> Result<(), ExecError> {
        written.lines.into_iter().for_each(|line: JournalLine| self.screen.show(Update::Event(line)));
        for instance in written.recorded {
            if let Some(attempt) = self.to_settle.remove(&instance) {
                self.attempts.executor.settled(attempt);
                self.needed.remove(&attempt).into_iter().for_each(|folder| self.leftovers.add(folder));
            }
            self.elsewhere.settled(&self.context.claimed, instance)?;
            self.out.tell(Event::Recorded { instance });
        }
        if let Some(trouble) = written.trouble {
            self.screen.notice(trouble);
        }
        Ok(())
    }

    /// The status, for who looks from outside; where it cannot be written the run goes on without it.
    pub(super) fn show_status(&mut self, ended: Option<i32>) {
        if let Some(silence) = self.context.silence.take() {
            self.screen.notice(silence);
        }
        let (session, known) = (&self.context.session, &self.context.known);
        let others = (&self.cards, &self.rivals, &self.elsewhere);
        let waiting = waiting::of(&self.scheduler, self.clock.now(), session, known, others);
        let (running, counts) = (self.attempts.status(), self.outcomes.counts.clone());
        self.rivals.tell(self.attempts.jobs());
        let written = self.screen.status(|status| {
            (status.running, status.waiting, status.counts, status.ended) = (running, waiting, counts, ended);
        });
        if let Err(error) = written
            && let Some(trouble) = self.recorder.trouble(&error)
        {
            self.screen.notice(trouble);
        }
    }

    /// Says something after the loop has ended, and how it ended.
    ///
    /// # Errors
    /// The journal cannot be written.
    pub(super) fn say_last(&mut self, events: Vec<RunEvent>) -> Result<(), ExecError> {
        events.into_iter().for_each(|event| self.out.say(event));
        let written = self.recorder.commit_last(&mut self.out.lines)?;
        self.written(written)?;
        Ok(())
    }

    /// Settled instances by how.
    pub(super) fn counts(&self) -> &BTreeMap<String, u32> {
        &self.outcomes.counts
    }

    /// Outcomes that are failures have happened.
    pub(super) fn has_failed(&self) -> bool {
        self.outcomes.failed
    }

    pub(super) fn was_interrupted(&self) -> bool {
        self.interrupted
    }

    /// Removes what attempts left in their folders.
    pub(super) fn clear(&mut self) {
        self.leftovers.clear();
    }

    /// Before a decision: tells the scheduler how the GPUs stand, before what else happened.
    fn open_gpus(&mut self) {
        let wanted = self.wants_gpus();
        for text in self.cards.open(wanted, self.rivals.may_share()) {
            self.out.notice(None, text);
        }
        self.tell_gpus();
    }

    fn tell_gpus(&mut self) {
        if let Some(gpus) = self.cards.changed() {
            self.out.events.push_front(Event::Capacity(Capacity { gpus, ..self.capacity.clone() }));
        }
    }

    /// Tells the scheduler what running attempts hold on their GPUs.
    fn tell_gpu_memory(&mut self) {
        for (attempt, gpu_memory) in self.cards.used_now(self.attempts.ids()) {
            self.out.tell(Event::Sampled { attempt, gpu_memory });
        }
    }

    /// A step that asks for GPUs is to run, and does not yet.
    fn wants_gpus(&self) -> bool {
        self.outcomes.waiting_for_gpus().any(|id| !self.attempts.is_placed(id))
    }
}

/// The next of these signals.
async fn any(signals: &mut [Signal]) {
    std::future::poll_fn(|task| {
        let came = signals.iter_mut().any(|signal| matches!(signal.poll_recv(task), Poll::Ready(Some(()))));
        if came { Poll::Ready(()) } else { Poll::Pending }
    })
    .await;
}
