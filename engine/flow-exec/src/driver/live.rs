//! The live loop: carries events to the scheduler and performs its actions. Holds no scheduling rule.
//!
//! One turn: all events of an instant, one `Tick`, the actions, one write of the journal and, where something is recorded, of the
//! database behind it, aside; only after that is the scheduler told that it is.

use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    path::PathBuf,
    pin::pin,
    task::{Context as TaskContext, Poll, Waker},
    time::Duration,
};

use flow_core::{
    Artifact, AttemptId, Builtins, Circumstances, Digest, GroupId, InstanceId, JournalLine, Outcome, Resolved,
    RunEvent, RunId, Settled, Span, StepResult, Time,
    fingerprint::Parts,
    learn::History,
    measure::Company,
    plan::Force,
    sched::{Action, Capacity, Event, Placement, Scheduler},
};
use flow_store::{Batch, Commit, End, Inputs, Journal, Objects, RunDir, Running, Status, Store};
use tokio::{
    signal::unix::{Signal, SignalKind, signal},
    task::JoinError,
};

use super::{
    Session, Update,
    cancel::Cancel,
    cards::Cards,
    leftovers::Leftovers,
    start,
    told::Listener,
    waiting,
    write::{Applied, Committing},
};
use crate::{
    ExecError,
    attempt::{Folder, Growths},
    clock::{self, RunClock},
    keeper::{self, Keeper, record},
    sampler::Sampler,
    secrets::Secrets,
};

/// How long a step may take to end when it is asked to.
pub(crate) const GRACE: Span = Span::from_millis(10_000);
/// How often programs are listened to.
const LISTEN: Span = Span::from_millis(50);
/// How often GPUs are looked at for which a step waits.
const WATCH: Duration = Duration::from_millis(500);
/// How often the status file and the display are brought up to date.
pub(super) const STATUS: Span = Span::from_millis(200);

/// Results by instance.
pub(crate) struct Known(pub(crate) Vec<Option<StepResult>>);

impl Settled for Known {
    fn result(&self, id: InstanceId) -> Option<&StepResult> {
        self.0.get(id.index())?.as_ref()
    }
}

/// A decision to run, until the result is recorded.
pub(super) struct Decided {
    pub(super) fingerprint: Digest,
    pub(super) parts: Parts,
    pub(super) reason: String,
}

/// A running attempt.
pub(super) struct Attempt {
    pub(super) instance: InstanceId,
    pub(super) folder: Folder,
    pub(super) resolved: Resolved,
    pub(super) placement: Placement,
    /// A built-in runs inside the engine: no process, nothing to sample.
    pub(super) process: bool,
    /// What its program writes goes through pipes, in which secrets are hidden.
    pub(super) piped: bool,
    /// Its program says by itself when it is ready.
    pub(super) announces: bool,
    /// Artifacts that it reads in the store itself, by their place in its work folder.
    pub(super) linked: Vec<(String, Artifact)>,
    pub(super) listener: Listener,
    pub(super) circumstances: Circumstances,
    pub(super) began: f64,
    pub(super) killed: Option<Outcome>,
    pub(super) fraction: Option<f64>,
    pub(super) text: String,
}

/// What starts processes, and what watches them.
pub(super) struct Hands {
    pub(super) keeper: Keeper,
    pub(super) sampler: Sampler,
    pub(super) growths: Growths,
}

/// The window of a co-run group, seconds since 1970.
#[derive(Clone, Default)]
pub(super) struct Window {
    pub(super) released: Option<f64>,
    pub(super) closed: Option<f64>,
    pub(super) closed_by: Option<String>,
}

/// What the loop works on.
pub(crate) struct Live<'a> {
    pub(crate) session: &'a Session,
    pub(crate) builtins: &'a dyn Builtins,
    pub(crate) store: &'a Store,
    pub(crate) run: &'a RunId,
    pub(crate) run_dir: RunDir,
    pub(crate) force: &'a Force,
    pub(crate) inputs: &'a mut Inputs,
    pub(crate) known: Known,
    pub(super) history: History<'a>,
    pub(super) company: Company,
    pub(crate) counts: BTreeMap<String, u32>,
    /// Outcomes that are failures have happened.
    pub(crate) failed: bool,
    pub(crate) interrupted: bool,
    pub(super) scheduler: Scheduler,
    pub(super) clock: RunClock,
    pub(super) objects: Objects,
    pub(super) journal: Journal,
    pub(super) lines: Vec<JournalLine>,
    pub(super) batch: Batch,
    pub(super) recorded: Vec<InstanceId>,
    pub(super) committing: Option<Committing>,
    /// What the journal had no room for. It goes before everything else.
    pub(super) unwritten: Option<Commit>,
    pub(super) committed_at: Time,
    pub(super) queue: VecDeque<Event>,
    pub(super) decided: BTreeMap<InstanceId, Decided>,
    /// Instances that ask for GPUs and have no result yet.
    pub(super) want_gpus: BTreeSet<InstanceId>,
    pub(super) refused: BTreeMap<InstanceId, String>,
    /// Why an attempt could not be started.
    pub(super) unstarted: BTreeMap<AttemptId, String>,
    pub(super) secrets: Secrets,
    /// Instances that may tell a secret: their steps have one, or they read what such a step made.
    pub(super) tellers: BTreeSet<InstanceId>,
    pub(super) attempts: BTreeMap<AttemptId, Attempt>,
    pub(super) ended: BTreeMap<AttemptId, StepResult>,
    /// Good results of the store that stand where this run's are spoiled, until these would be recorded.
    pub(super) earlier: BTreeMap<InstanceId, StepResult>,
    pub(super) windows: BTreeMap<GroupId, Window>,
    /// Made when the first process is to be started: a run that reuses everything has none.
    pub(super) hands: Option<Hands>,
    pub(super) cards: Cards,
    /// What there is to give out besides GPUs.
    pub(super) capacity: Capacity,
    pub(super) observe: &'a mut dyn FnMut(Update),
    pub(super) exe: PathBuf,
    pub(super) environment: start::Environment,
    pub(super) status: Status,
    pub(super) status_at: Option<Time>,
    cancel: Cancel,
    pub(super) said_unwritten: bool,
    listened_at: Time,
    pub(super) finished: bool,
    pub(crate) leftovers: Leftovers,
}

/// What a loop starts with.
pub(crate) struct Beginning<'a> {
    pub(crate) session: &'a Session,
    pub(crate) builtins: &'a dyn Builtins,
    pub(crate) store: &'a Store,
    pub(crate) run: &'a RunId,
    pub(crate) journal: Journal,
    pub(crate) force: &'a Force,
    pub(crate) inputs: &'a mut Inputs,
    pub(crate) known: Known,
    pub(crate) history: History<'a>,
    pub(crate) scheduler: Scheduler,
    pub(crate) capacity: Capacity,
    pub(crate) status: Status,
    pub(crate) secrets: Secrets,
    pub(super) cancel: Cancel,
    pub(crate) observe: &'a mut dyn FnMut(Update),
}

enum Happened {
    Keeper(keeper::Event),
    Committed(Result<Applied, JoinError>),
    Interrupt(End),
    Time,
}

impl<'a> Live<'a> {
    pub(crate) fn new(from: Beginning<'a>) -> Result<Self, ExecError> {
        let run_dir = from.store.dir().run(from.run);
        let instances = from.session.expansion.instances.iter();
        let want_gpus = instances.filter(|instance| instance.request.gpus > 0);
        Ok(Live {
            session: from.session,
            builtins: from.builtins,
            store: from.store,
            run: from.run,
            run_dir,
            force: from.force,
            inputs: from.inputs,
            known: from.known,
            history: from.history,
            company: Company::default(),
            counts: BTreeMap::new(),
            failed: false,
            interrupted: false,
            scheduler: from.scheduler,
            clock: RunClock::start(),
            objects: from.store.objects().clone(),
            journal: from.journal,
            lines: Vec::new(),
            batch: Batch::new(),
            recorded: Vec::new(),
            committing: None,
            unwritten: None,
            committed_at: Time(0),
            queue: VecDeque::new(),
            decided: BTreeMap::new(),
            want_gpus: want_gpus.map(|instance| instance.id).collect(),
            refused: BTreeMap::new(),
            unstarted: BTreeMap::new(),
            secrets: from.secrets,
            tellers: from.session.tellers(),
            attempts: BTreeMap::new(),
            ended: BTreeMap::new(),
            earlier: BTreeMap::new(),
            windows: BTreeMap::new(),
            hands: None,
            cards: Cards::new(&from.session.expansion.machine),
            capacity: from.capacity,
            observe: from.observe,
            exe: start::exe()?,
            environment: start::Environment::of(from.session),
            status: from.status,
            status_at: None,
            cancel: from.cancel,
            said_unwritten: false,
            listened_at: Time(0),
            finished: false,
            leftovers: Leftovers::default(),
        })
    }

    /// Runs until everything is settled.
    pub(crate) async fn run(&mut self, first: Event) -> Result<(), ExecError> {
        let cannot = |e| ExecError::Fault(format!("signals cannot be received: {e}"));
        let mut signals = [SignalKind::interrupt(), SignalKind::terminate(), SignalKind::hangup()]
            .into_iter()
            .map(signal)
            .collect::<Result<Vec<Signal>, _>>()
            .map_err(cannot)?;
        self.cancel.listen();
        self.queue.push_back(first);
        while !self.finished {
            self.turn()?;
            if self.finished {
                break;
            }
            if self.queue.is_empty() {
                match self.wait(&mut signals).await? {
                    Happened::Keeper(event) => {
                        self.on_keeper(event)?;
                        // Whatever else is already there belongs to this turn.
                        while let Some(event) = self.keeper_event_now()? {
                            self.on_keeper(event)?;
                        }
                    }
                    Happened::Committed(done) => self.committed(done)?,
                    Happened::Interrupt(end) => self.interrupt(end),
                    Happened::Time => {}
                }
                let now = self.clock.now();
                if now - self.listened_at >= LISTEN {
                    self.listened_at = now;
                    self.listen();
                }
            }
        }
        while let Some(committing) = &mut self.committing {
            let done = (&mut committing.done).await;
            self.committed(done)?;
        }
        self.write_status(None);
        Ok(())
    }

    /// All events of this instant, one decision, the actions, and what is to be written.
    fn turn(&mut self) -> Result<(), ExecError> {
        let now = self.clock.now();
        let mut actions = Vec::new();
        self.open_gpus();
        while let Some(event) = self.queue.pop_front() {
            self.scheduler.handle(now, event, &mut actions);
        }
        self.scheduler.handle(now, Event::Tick, &mut actions);
        let (starts, others): (Vec<_>, Vec<_>) =
            actions.into_iter().partition(|action| matches!(action, Action::Start { .. }));
        for action in others {
            self.perform(action)?;
        }
        if let Some(fault) = self.scheduler.fault() {
            return Err(ExecError::Fault(fault.to_owned()));
        }
        self.start_all(starts)?;
        self.close_gpus();
        self.commit()?;
        if self.status_at.is_none_or(|at| now - at >= STATUS) {
            self.status_at = Some(now);
            self.tell_gpu_memory();
            self.cards.keep();
            self.write_status(None);
        }
        Ok(())
    }

    fn perform(&mut self, action: Action) -> Result<(), ExecError> {
        match action {
            Action::LookUp { instances } => self.look_up(&instances)?,
            Action::Start { .. } => {}
            Action::Release { attempts } => self.release(attempts),
            Action::Stop { attempts } => self.stop(&attempts),
            Action::Kill { attempt, grace, outcome } => self.kill(attempt, grace, outcome),
            Action::Record { instance, attempt } => self.record(instance, attempt)?,
            Action::Discard { instance, attempt, .. } => self.discard(instance, attempt),
            Action::Settle { instance, outcome, because } => self.settle(instance, outcome, because),
            Action::Preempt { .. } => return Err(ExecError::Fault("a live run cannot preempt".to_owned())),
            Action::Finish => self.finished = true,
        }
        Ok(())
    }

    async fn wait(&mut self, signals: &mut [Signal]) -> Result<Happened, ExecError> {
        let now = self.clock.now();
        let span = |at: Time| Duration::from_micros((at - now).0);
        let until_wake = self.scheduler.next_wake().map(span);
        let due = self.listened_at + LISTEN;
        let listening = self.attempts.values().any(|a| a.process).then(|| span(due));
        let watching = (self.cards.is_watching() && self.wants_gpus()).then_some(WATCH);
        let committing = self.committing.as_ref().map(|_| Duration::from_secs(60));
        let gathering = self.gather_until().filter(|_| self.committing.is_none()).map(span);
        let Some(pause) =
            until_wake.into_iter().chain(gathering).chain(listening).chain(watching).chain(committing).min()
        else {
            return Err(ExecError::Fault("nothing runs, nothing is due, and yet not every step is settled".to_owned()));
        };
        let keeper = async {
            match &mut self.hands {
                Some(hands) => hands.keeper.next_event().await,
                None => std::future::pending().await,
            }
        };
        let committed = async {
            match &mut self.committing {
                Some(committing) => (&mut committing.done).await,
                None => std::future::pending().await,
            }
        };
        let [interrupt, terminate, hangup] = signals else {
            return Err(ExecError::Fault("three signals were expected".to_owned()));
        };
        tokio::select! {
            biased;
            done = committed => Ok(Happened::Committed(done)),
            event = keeper => Ok(Happened::Keeper(event?)),
            _ = interrupt.recv() => Ok(Happened::Interrupt(End::Soon)),
            _ = terminate.recv() => Ok(Happened::Interrupt(End::Soon)),
            _ = hangup.recv() => Ok(Happened::Interrupt(End::Soon)),
            end = self.cancel.asked() => Ok(Happened::Interrupt(end)),
            () = tokio::time::sleep(pause) => Ok(Happened::Time),
        }
    }

    pub(super) fn hands(&mut self) -> Result<&mut Hands, ExecError> {
        match &mut self.hands {
            Some(hands) => Ok(hands),
            none => {
                let record = record::of_run(self.run_dir.path());
                let keeper = Keeper::spawn(&self.exe, &record).map_err(ExecError::io("start the keeper", &self.exe))?;
                let sampler = Sampler::start(keeper.pid()).map_err(ExecError::io("start", "the sampler"))?;
                let growths = Growths::start().map_err(ExecError::io("start", "the reading of logs"))?;
                Ok(none.insert(Hands { keeper, sampler, growths }))
            }
        }
    }

    /// An event that needs no waiting.
    fn keeper_event_now(&mut self) -> Result<Option<keeper::Event>, ExecError> {
        let Some(Hands { keeper, .. }) = &mut self.hands else { return Ok(None) };
        let next = pin!(keeper.next_event());
        match next.poll(&mut TaskContext::from_waker(Waker::noop())) {
            Poll::Ready(event) => Ok(Some(event?)),
            Poll::Pending => Ok(None),
        }
    }

    /// The first Ctrl-C or `flow cancel`: no new starts, and running steps get the grace. The second: they are killed.
    fn interrupt(&mut self, end: End) {
        let again = std::mem::replace(&mut self.interrupted, true);
        let grace = if again || end == End::Now { Span(0) } else { GRACE };
        let text = if grace.0 > 0 {
            format!("interrupted: running steps have {} s to end; once more kills them", GRACE.as_secs_f64())
        } else {
            format!("interrupted{}: running steps are killed", if again { " again" } else { "" })
        };
        self.say(RunEvent::Notice { instance: None, text });
        self.queue.push_back(Event::Cancel { grace });
    }

    /// The status file, for who looks from outside; without it the run goes on.
    pub(crate) fn write_status(&mut self, ended: Option<i32>) {
        let running = |(attempt, a): (&AttemptId, &Attempt)| Running {
            instance: a.instance,
            label: self.session.expansion.instances[a.instance.index()].label.to_string(),
            attempt: *attempt,
            started_at: (a.began * 1e3) as u64,
            fraction: a.fraction,
            text: Some(a.text.clone()).filter(|text| !text.is_empty()),
            gpus: a.circumstances.gpus.clone(),
            cpus: a.placement.cpus,
        };
        self.status.running = self.attempts.iter().map(running).collect();
        self.status.waiting = waiting::of(&self.scheduler, self.clock.now(), self.session, &self.known, &self.cards);
        self.status.counts = self.counts.clone();
        self.status.updated_at = clock::unix_millis();
        self.status.ended = ended;
        if let Err(error) = self.run_dir.write_status(&self.status) {
            self.say_unwritten(&error);
        }
        (self.observe)(Update::Status(Box::new(self.status.clone())));
    }
}
