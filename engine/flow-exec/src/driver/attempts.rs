//! What starts and follows attempts: from a placement to a filled folder, a running program, its messages, its end. What takes
//! its time, filling and collecting, are jobs aside; between them an attempt still holds its placement. Decides nothing.

use std::{
    collections::{BTreeMap, BTreeSet},
    io,
    sync::Arc,
    time::Duration,
};

use super::{
    Update,
    cards::Cards,
    collect::{Builtin, Collect, Collected},
    context::RunContext,
    corunners,
    executor::{Ended, Executor, RecordedCoRunners, Work},
    fill::{Fill, Filled, Prepared},
    listener::{Listener, News},
    outbox::Outbox,
    outcomes::Outcomes,
    polling::{LISTEN, LISTEN_AFAR, PollSchedule},
    running::Running,
};
use crate::{ExecError, clock, hardware::ledger::Jobs, keeper, node::NodeFacts};
use flow_core::{
    AttemptId, Body, CorunWindow, GpuId, GroupId, Instance, InstanceId, Outcome, RunEvent, Span, Stranger,
    learn::History,
    measure::CoRunners,
    reason::{Cause, ClosedBy, Fault, Refusal},
    sched::{Event, Placement},
};

/// An attempt that is filled before its program runs, or collected after it.
struct Held {
    instance: InstanceId,
    placement: Placement,
    /// It is to be ended with this outcome before it has begun.
    killed: Option<Outcome>,
    /// For the status, where its program ran.
    running: Option<flow_store::Running>,
}

/// What a program has said since the last time, and who listened to it.
pub(super) struct Heard {
    attempt: AttemptId,
    listener: Listener,
    news: News,
}

/// The window of a co-run group, seconds since 1970.
#[derive(Default)]
struct Window {
    released: Option<f64>,
    closed: Option<f64>,
    /// The member that closed it.
    closer: Option<AttemptId>,
    closed_by: Option<ClosedBy>,
}

/// The attempts of a run.
pub(super) struct Attempts<X> {
    context: Arc<RunContext>,
    pub(super) executor: X,
    held: BTreeMap<AttemptId, Held>,
    running: BTreeMap<AttemptId, Running>,
    due: PollSchedule,
    windows: BTreeMap<GroupId, Window>,
    /// Who runs beside whom.
    corunners: CoRunners,
    /// Attempts of other runs of this machine, as last seen.
    elsewhere: u32,
    /// Others may be there whom nobody sees.
    unwatched: bool,
    /// Other runs that have a part of GPUs, as last seen.
    sharers: BTreeMap<GpuId, Vec<Stranger>>,
}

impl<X: Executor> Attempts<X> {
    pub(super) fn new(context: Arc<RunContext>, executor: X) -> Attempts<X> {
        Attempts {
            context,
            executor,
            held: BTreeMap::new(),
            running: BTreeMap::new(),
            due: PollSchedule::default(),
            windows: BTreeMap::new(),
            corunners: CoRunners::default(),
            elsewhere: 0,
            unwatched: false,
            sharers: BTreeMap::new(),
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.held.is_empty() && self.running.is_empty()
    }

    /// How soon programs are to be listened to again, if there are any.
    pub(super) fn listen_in(&self) -> Option<Span> {
        let pause = if self.due.here().is_empty() { LISTEN_AFAR } else { LISTEN };
        (!self.running.is_empty()).then_some(pause)
    }

    pub(super) fn ids(&self) -> impl Iterator<Item = AttemptId> {
        self.running.keys().copied()
    }

    /// An attempt of this instance holds its placement.
    pub(super) fn is_placed(&self, instance: InstanceId) -> bool {
        self.held.values().any(|held| held.instance == instance)
            || self.running.values().any(|running| running.instance == instance)
    }

    /// Something is measured that others would disturb.
    pub(super) fn are_measured(&self) -> bool {
        let mut here = self.due.here().iter().filter_map(|attempt| self.running.get(attempt));
        here.any(|running| self.instance(running.instance).measured)
    }

    /// So many attempts of other runs of this machine run beside all of these, or nobody can tell (`unwatched`).
    pub(super) fn beside(&mut self, elsewhere: u32, unwatched: bool) {
        (self.elsewhere, self.unwatched) = (elsewhere, unwatched);
        for attempt in self.due.here() {
            let Some(running) = self.running.get_mut(attempt) else { continue };
            let measured = self.context.session.expansion.instances[running.instance.index()].measured;
            running.circumstances.elsewhere = running.circumstances.elsewhere.max(elsewhere);
            running.circumstances.unwatched |= unwatched && measured;
        }
    }

    /// Steps of other runs have a part of these GPUs.
    pub(super) fn share(&mut self, sharers: BTreeMap<GpuId, Vec<Stranger>>, out: &mut Outbox) {
        self.sharers = sharers;
        for attempt in self.due.here() {
            let Some(running) = self.running.get_mut(attempt) else { continue };
            note_sharers(&self.sharers, running, out);
        }
    }

    /// GPUs that are given out, by their number among the machine's.
    pub(super) fn gpus(&self) -> impl Iterator<Item = usize> {
        self.due.gpus()
    }

    /// What the status tells of them.
    pub(super) fn status(&self) -> Vec<flow_store::Running> {
        let held = self.held.values().filter_map(|held| held.running.clone());
        let mut all: Vec<_> = held.chain(self.running.iter().map(|(id, running)| self.shown(*id, running))).collect();
        all.sort_by_key(|running| running.attempt);
        all
    }

    /// How many a batch system has.
    pub(super) fn jobs(&self) -> Jobs {
        let mut jobs = Jobs::default();
        for running in self.running.values().filter(|running| self.instance(running.instance).slurm.is_some()) {
            *(if running.queued.is_some() { &mut jobs.queued } else { &mut jobs.running }) += 1;
        }
        jobs
    }

    fn shown(&self, attempt: AttemptId, running: &Running) -> flow_store::Running {
        flow_store::Running {
            instance: running.instance,
            label: self.instance(running.instance).label.to_string(),
            attempt,
            started_at: (running.began * 1e3) as u64,
            fraction: running.fraction,
            text: Some(running.text.clone()).filter(|text| !text.is_empty()),
            queued: running.queued.clone(),
            gpus: running.circumstances.gpus.clone(),
            gpus_asked: gpus_asked(self.instance(running.instance)),
            cpus: running.placement.cpus,
        }
    }

    /// Attempts are to start: the folders of a unit are filled together, so that the members of a group begin together.
    pub(super) fn fill(
        &mut self,
        starts: Vec<(AttemptId, InstanceId, Placement)>,
        outcomes: &Outcomes,
    ) -> Vec<Vec<Fill>> {
        let mut units: BTreeMap<(Option<GroupId>, AttemptId), Vec<Fill>> = BTreeMap::new();
        for (attempt, instance, placement) in starts {
            let corun = self.instance(instance).corun.as_ref().map(|corun| corun.group);
            if let Some(group) = corun {
                self.windows.insert(group, Window::default());
            }
            let placement = self.given(instance, placement);
            self.due.placed(attempt, &placement);
            let held = Held { instance, placement: placement.clone(), killed: None, running: None };
            self.held.insert(attempt, held);
            let decided = outcomes.decided(instance);
            let (fingerprint, claim) = decided.map(|decided| (decided.fingerprint, decided.attempt)).unzip();
            let unit = (corun, if corun.is_some() { AttemptId(0) } else { attempt });
            units.entry(unit).or_default().push(Fill { attempt, instance, fingerprint, claim, placement });
        }
        units.into_values().collect()
    }

    /// What an attempt has where it runs: the scheduler knows of a batch system no more than its queue.
    fn given(&self, instance: InstanceId, placement: Placement) -> Placement {
        let instance = self.instance(instance);
        match instance.slurm {
            Some(_) => Placement {
                cpus: instance.request.cpus,
                memory: instance.request.memory.unwrap_or(0),
                gpu_memory: instance.request.gpu_memory.unwrap_or(0),
                ..placement
            },
            None => placement,
        }
    }

    /// Attempts of a unit that another run does do not start after all.
    pub(super) fn take_back(&mut self, attempt: AttemptId) -> Option<InstanceId> {
        self.due.is_over(attempt);
        Some(self.held.remove(&attempt)?.instance)
    }

    /// The folders of a unit are filled: its programs are started. Returns the built-ins among them.
    ///
    /// # Errors
    /// Nothing can be started here any more.
    pub(super) fn start(
        &mut self,
        filled: Vec<Filled>,
        outcomes: &mut Outcomes,
        cards: &mut Cards,
        history: &History<'_>,
        out: &mut Outbox,
    ) -> Result<Vec<Builtin>, ExecError> {
        let mut ready = Vec::new();
        for Filled { attempt, prepared } in filled {
            let Some(held) = self.held.remove(&attempt) else { continue };
            if prepared.is_err() || held.killed.is_some() {
                self.due.is_over(attempt);
            }
            match (prepared, held.killed) {
                (_, Some(outcome)) => {
                    // It was to be ended before it began.
                    outcomes.unstarted(attempt, outcome, Some(Cause::RunCancelled));
                    out.tell(Event::Exited { attempt, outcome, spoiled: false });
                }
                (Ok(prepared), None) => ready.push(self.prepared(attempt, held, *prepared, outcomes, history, out)),
                (Err(cause), None) => not_started(held.instance, attempt, cause, outcomes, out),
            }
        }
        let (mut builtins, mut unit) = (Vec::new(), Vec::new());
        for work in ready {
            let attempt = work.program.attempt;
            match self.running.get(&attempt) {
                Some(running) if running.process => unit.push(work),
                Some(_) => builtins.extend(self.builtin(attempt, outcomes, out)),
                None => {}
            }
        }
        if unit.is_empty() {
            return Ok(builtins);
        }
        let started: Vec<AttemptId> = unit.iter().map(|work| work.program.attempt).collect();
        self.executor.start(unit)?;
        // Looked at before they can have taken anything: they are started when their request is read.
        if let Some(root) = self.executor.root() {
            for attempt in started {
                let Some(running) = self.running.get(&attempt).filter(|running| !running.batch) else { continue };
                let gpus: Vec<usize> = cards_of(&running.placement).collect();
                cards.track(attempt, root, &gpus);
            }
        }
        Ok(builtins)
    }

    /// A built-in runs aside, in the engine; nothing ends it.
    fn builtin(&mut self, attempt: AttemptId, outcomes: &Outcomes, out: &mut Outbox) -> Option<Builtin> {
        let running = self.running.remove(&attempt)?;
        out.tell(Event::Started { attempt });
        if self.instance(running.instance).corun.is_some() {
            out.tell(Event::Ready { attempt });
        }
        self.hold(attempt, &running, out);
        let fingerprint = outcomes.decided(running.instance).map(|decided| decided.fingerprint);
        Some(Builtin { attempt, running, fingerprint })
    }

    /// Nothing of it runs, and what it leaves is being collected.
    fn hold(&mut self, attempt: AttemptId, running: &Running, out: &mut Outbox) {
        out.tell(Event::Collecting { attempt });
        let held = Held {
            instance: running.instance,
            placement: running.placement.clone(),
            killed: None,
            running: Some(self.shown(attempt, running)),
        };
        self.held.insert(attempt, held);
    }

    fn prepared(
        &mut self,
        attempt: AttemptId,
        held: Held,
        prepared: Prepared,
        outcomes: &Outcomes,
        history: &History<'_>,
        out: &mut Outbox,
    ) -> Work {
        let (id, placement) = (held.instance, held.placement);
        let Prepared {
            launch,
            folder,
            resolved,
            listener,
            mut circumstances,
            began,
            piped,
            job,
            stays,
            unsettled,
            place,
            ..
        } = prepared;
        let joined = stays.as_ref().filter(|stays| stays.joined);
        if job.is_none() && joined.is_none() {
            circumstances.elsewhere = self.elsewhere;
            circumstances.unwatched = self.unwatched && self.instance(id).measured;
        }
        out.say(RunEvent::Started {
            instance: id,
            attempt,
            folder: place,
            why: outcomes.decided(id).map(|decided| decided.why.clone()).unwrap_or_default(),
            gpus: circumstances.gpus.clone(),
            gpus_asked: gpus_asked(self.instance(id)),
            cpus: circumstances.cpus,
            queued: job.as_ref().is_some_and(|job| !job.joined),
        });
        if let Some(text) = launch.barrier {
            out.notice(Some(id), text);
        }
        if let Some(job) = job.as_ref().filter(|job| job.joined) {
            // The same words for all of a sweep, which are then shown once.
            out.notice(Some(id), format!("goes on since run {}: its job is not asked for again", job.intent.run));
        }
        if let Some(stays) = joined {
            out.notice(Some(id), format!("goes on since run {}: it is not started again", stays.intent.run));
        }
        // Until it is submitted, which may take its time, Slurm's thread does not speak of it.
        let queued = job.as_ref().filter(|job| !job.joined).map(|_| flow_store::Queued {
            job: None,
            reason: String::new(),
            since: (began * 1e3) as u64,
            advice: None,
        });
        let program = keeper::Start {
            attempt,
            argv: launch.argv,
            env: launch.env,
            cwd: folder.work(),
            folder: folder.path().to_owned(),
            secrets: if piped { self.context.secrets.values().to_vec() } else { Vec::new() },
            unsettled,
        };
        let mut running = Running {
            instance: id,
            process: !matches!(resolved.body, Body::Builtin { .. }),
            batch: job.is_some() || joined.is_some(),
            joinable: job.is_some() || stays.is_some(),
            unsettled: program.unsettled.is_some(),
            watched: program.unsettled.as_ref().is_some_and(|unsettled| unsettled.is_watched),
            known: joined.map(|stays| self.context.left.labels(&stays.intent.run)).unwrap_or_default(),
            began_there: false,
            rejoined: joined.is_some() || job.as_ref().is_some_and(|job| job.joined),
            folder,
            resolved,
            placement: if joined.is_some() { Placement { cpus: circumstances.cpus, ..placement } } else { placement },
            announces: launch.announces,
            linked: launch.linked,
            captured: launch.captured,
            listener,
            circumstances,
            began,
            killed: None,
            fraction: None,
            text: String::new(),
            queued,
        };
        if running.process && !running.batch {
            note_sharers(&self.sharers, &mut running, out);
            self.due.runs_here(attempt);
            self.corunners.join(attempt, id, &running.placement.gpus, running.began);
        }
        if running.placement.trial {
            let (_, others) = corunners::labels(&self.context.session.expansion, self.corunners.of(attempt));
            out.notice(Some(id), corunners::trial(history, &running, &others));
        }
        self.running.insert(attempt, running);
        Work { program, job, stays }
    }

    /// What the executor tells of an attempt, but for its end. What is said of an attempt that is not running any more is late, and
    /// says nothing.
    pub(super) fn on_started(&mut self, attempt: AttemptId, node: Option<Box<NodeFacts>>, out: &mut Outbox) {
        let Some(running) = self.running.get_mut(&attempt) else { return };
        if let Some(node) = node {
            running.text = format!("on {}", node.host);
            running.is_on(*node);
        }
        if running.batch && !running.began_there {
            let now = clock::unix_seconds();
            self.due.began_afar(attempt, now);
            // One that an earlier run began was not seen to begin.
            if !running.rejoined {
                running.began = now;
            }
        }
        (running.began_there, running.queued) = (true, None);
        let (instance, announces) = (running.instance, running.announces);
        let grouped = self.instance(instance).corun.is_some();
        out.tell(Event::Started { attempt });
        if grouped && !announces {
            ready(attempt, out);
        }
    }

    /// It waits for a place to run.
    pub(super) fn waits(&mut self, attempt: AttemptId, queued: Option<flow_store::Queued>) {
        if let Some(running) = self.running.get_mut(&attempt) {
            running.queued = queued;
        }
    }

    /// The program could not be started.
    pub(super) fn on_spawn_failed(
        &mut self,
        attempt: AttemptId,
        reason: Fault,
        outcomes: &mut Outcomes,
        out: &mut Outbox,
    ) {
        if let Some(running) = self.running.remove(&attempt) {
            self.due.ended(attempt);
            self.due.is_over(attempt);
            self.corunners.leave(attempt, clock::unix_seconds(), None);
            not_started(running.instance, attempt, Cause::NotStarted { error: Some(reason) }, outcomes, out);
        }
    }

    /// The program and all that it started is gone: what it left is to be collected.
    pub(super) fn on_exited(
        &mut self,
        attempt: AttemptId,
        end: Ended,
        outcomes: &Outcomes,
        cards: &mut Cards,
        out: &mut Outbox,
    ) -> Option<Collect> {
        let Ended { exit, mut seen, there, instead, beside } = end;
        let mut running = self.running.remove(&attempt)?;
        self.due.ended(attempt);
        let corun = self.instance(running.instance).corun.clone();
        let group = corun.as_ref().map(|corun| corun.group);
        if let Some(window) = group.and_then(|group| self.windows.get_mut(&group)) {
            // By the clock of the node, as all that its members say.
            window.released = there.as_ref().and_then(|there| there.released).or(window.released);
        }
        self.close(group, exit.ended_at, Some(attempt));
        let window = corun.and_then(|corun| {
            let window = self.windows.get(&corun.group)?;
            Some(CorunWindow {
                group: corun.name.to_string(),
                gpus: corun.gpus,
                members: self.context.session.expansion.groups[corun.group.0 as usize].members.len() as u32,
                released_at: window.released? - exit.started_at,
                closed_at: window.closed? - exit.started_at,
                epochs: 0,
                closed_by: None,
                interference: None,
            })
        });
        let mut corunners = self.corunners.leave(attempt, exit.ended_at, running.listener.reported.at_work(true));
        for (other, corunner) in &mut corunners {
            corunner.at_work =
                self.running.get(other).map_or(corunner.at_work, |runs| runs.listener.reported.at_work(false));
        }
        (running.circumstances.corunners, running.circumstances.neighbours) =
            corunners::labels(&self.context.session.expansion, corunners.values());
        if running.batch {
            (running.circumstances.corunners, running.circumstances.neighbours) =
                corunners::of_group(&self.context.session.expansion, running.instance);
            if let Some(beside) = beside {
                let measured = self.instance(running.instance).measured;
                was_beside(&mut running, &beside, measured);
            }
        } else {
            let (gpus, cost) = cards.untrack(attempt);
            seen.gpus = gpus;
            seen.cost += cost;
        }
        let gpu_ids: Vec<usize> = cards_of(&running.placement).collect();
        // The scheduler is to know of a lost card before it hears of the end.
        let lost = if exit.code == Some(0) { None } else { cards.lost(&gpu_ids).cloned() };
        self.hold(attempt, &running, out);
        let decided = outcomes.decided(running.instance);
        // What nobody watched to its end is not read again: when its lines came is not known.
        let unwatched = running.rejoined && there.is_none() && self.instance(running.instance).slurm.is_none();
        Some(Collect {
            attempt,
            fingerprint: decided.map(|decided| decided.fingerprint),
            attempt_fingerprint: decided.map(|decided| decided.attempt).filter(|_| !unwatched),
            running,
            exit,
            window,
            corunners,
            lost,
            there,
            instead,
            seen,
            news: None,
        })
    }

    /// What an attempt left is collected: it holds nothing any more, and its group knows what closed its window.
    pub(super) fn collected(&mut self, collected: &Collected) {
        self.held.remove(&collected.attempt);
        self.due.is_over(collected.attempt);
        if collected.result.outcome == Outcome::Ok {
            return;
        }
        let instance = self.instance(collected.instance);
        let (group, label) = (instance.corun.as_ref().map(|corun| corun.group), instance.label.to_string());
        if let Some(window) = group.and_then(|group| self.windows.get_mut(&group))
            && window.closer == Some(collected.attempt)
        {
            window.closed_by = Some(ClosedBy { label, outcome: collected.result.outcome });
        }
    }

    /// What closed the window of an instance's group, where it was not the first member's ordinary end.
    pub(super) fn closed_by(&self, instance: InstanceId) -> Option<ClosedBy> {
        let group = self.instance(instance).corun.as_ref()?.group;
        self.windows.get(&group)?.closed_by.clone()
    }

    /// Every member of a group is ready.
    pub(super) fn release(&mut self, attempts: Vec<AttemptId>, out: &mut Outbox) {
        let at = clock::unix_seconds();
        let mut gpus = flow_core::CorunGpus::Own;
        for &attempt in &attempts {
            let told = self.executor.release(attempt, at);
            self.check_told(attempt, told);
            let Some(running) = self.running.get_mut(&attempt) else { continue };
            running.listener.released(at);
            let instance = running.instance;
            if let Some(corun) = &self.instance(instance).corun {
                let group = corun.group;
                gpus = corun.gpus;
                self.windows.entry(group).or_default().released = Some(at);
            }
        }
        out.say(RunEvent::Released { attempts, gpus });
    }

    /// Members of a group go on for nobody.
    pub(super) fn stop(&mut self, attempts: &[AttemptId]) {
        for &attempt in attempts {
            let told = self.executor.stop(attempt);
            self.check_told(attempt, told);
            let Some(running) = self.running.get(&attempt) else { continue };
            let group = self.instance(running.instance).corun.as_ref().map(|corun| corun.group);
            self.close(group, clock::unix_seconds(), None);
        }
    }

    /// A program that cannot be told something that it waits for would wait for ever.
    fn check_told(&mut self, attempt: AttemptId, told: io::Result<()>) {
        if let (Err(e), Some(running)) = (told, self.running.get_mut(&attempt)) {
            let folder = running.folder.path().display().to_string();
            running.listener.refused = Some(Refusal::NotReached { folder, error: e.into() });
            self.kill(attempt, Span(0), Outcome::Failed);
        }
    }

    /// The window of a group ends, unless it has ended before.
    fn close(&mut self, group: Option<GroupId>, at: f64, closer: Option<AttemptId>) {
        if let Some(window) = group.and_then(|group| self.windows.get_mut(&group))
            && window.released.is_some()
            && window.closed.is_none()
        {
            (window.closed, window.closer) = (Some(at), closer);
        }
    }

    /// An attempt is to end, with this outcome.
    pub(super) fn kill(&mut self, attempt: AttemptId, grace: Span, outcome: Outcome) {
        if let Some(running) = self.running.get_mut(&attempt) {
            running.killed.get_or_insert(outcome);
            self.executor.kill(attempt, Duration::from_micros(grace.0));
        } else if let Some(held) = self.held.get_mut(&attempt) {
            held.killed.get_or_insert(outcome);
        }
    }

    /// Who is to be listened to now, aside: a program may write much.
    pub(super) fn lend_listeners(&mut self, now: f64) -> Vec<(AttemptId, Listener)> {
        let due = self.due.hear_now(now, |attempt| self.running.contains_key(&attempt));
        due.into_iter().filter_map(|id| Some((id, self.running.get_mut(&id)?.listener.lend()))).collect()
    }

    /// What programs have said since the last time.
    pub(super) fn heard(&mut self, heard: Vec<Heard>, out: &mut Outbox) {
        let mut refused = Vec::new();
        for Heard { attempt, listener, news } in heard {
            // One that could not be started after all says nothing.
            let Some(running) = self.running.get_mut(&attempt) else { continue };
            running.listener.take_back(listener);
            let grouped = self.context.session.expansion.instances[running.instance.index()].corun.is_some();
            if news.ready && grouped {
                ready(attempt, out);
            }
            if news.sufficed && grouped {
                out.tell(Event::Sufficed { attempt });
            }
            if news.refused.is_some() {
                refused.push(attempt);
            }
            if let Some((fraction, text)) = &news.progress {
                (running.fraction, running.text) = (fraction.or(running.fraction), text.clone());
            }
            tell(attempt, running.instance, news, &running.listener, out);
        }
        refused.into_iter().for_each(|attempt| self.kill(attempt, Span(0), Outcome::Failed));
    }

    fn instance(&self, id: InstanceId) -> &Instance {
        &self.context.session.expansion.instances[id.index()]
    }
}

/// Listens to programs, which takes as long as they have written much.
pub(super) fn listen(listeners: Vec<(AttemptId, Listener)>, now: f64) -> Vec<Heard> {
    let hear = |(attempt, mut listener): (AttemptId, Listener)| {
        let news = listener.listen(now);
        Heard { attempt, listener, news }
    };
    listeners.into_iter().map(hear).collect()
}

/// What a program said, for journal and screen.
pub(super) fn tell(attempt: AttemptId, instance: InstanceId, news: News, listener: &Listener, out: &mut Outbox) {
    if let Some((fraction, text)) = news.progress {
        out.updates.push(Update::Progress { attempt, fraction, text });
    }
    for (epoch, metrics) in news.epochs {
        let units = listener.reported.units(metrics.keys());
        out.say(RunEvent::Epoch { attempt, epoch, metrics, units });
    }
    for text in news.notices {
        out.notice(Some(instance), text);
    }
}

/// What other runs have of an attempt's GPUs is a circumstance of it, and told when it begins.
fn note_sharers(sharers: &BTreeMap<GpuId, Vec<Stranger>>, running: &mut Running, out: &mut Outbox) {
    let Running { placement, circumstances, .. } = running;
    for (gpu, uuid) in placement.gpus.iter().zip(&circumstances.gpus) {
        for sharer in sharers.get(gpu).into_iter().flatten() {
            let mut there = circumstances.strangers.iter_mut();
            match there.find(|other| (other.pid, &other.gpu) == (sharer.pid, uuid)) {
                Some(known) => known.memory = known.memory.max(sharer.memory),
                None => {
                    circumstances.strangers.push(Stranger { gpu: uuid.clone(), ..sharer.clone() });
                    out.notice(Some(running.instance), format!("shares its GPU with {}", sharer.name));
                }
            }
        }
    }
}

/// Who ran beside an attempt that goes on since an earlier run: only who kept it knows.
fn was_beside(running: &mut Running, beside: &RecordedCoRunners, measured: bool) {
    let labels = |attempts: &BTreeSet<AttemptId>| -> Vec<String> {
        let labels: BTreeSet<&String> = attempts.iter().filter_map(|attempt| running.known.get(attempt)).collect();
        labels.into_iter().cloned().collect()
    };
    let (corunners, neighbours) = (labels(&beside.attempts), labels(&beside.near));
    let circumstances = &mut running.circumstances;
    (circumstances.corunners, circumstances.neighbours) = (corunners, neighbours);
    circumstances.elsewhere = circumstances.elsewhere.max(beside.elsewhere);
    circumstances.unwatched |= beside.unwatched && measured;
}

fn ready(attempt: AttemptId, out: &mut Outbox) {
    out.say(RunEvent::Ready { attempt });
    out.tell(Event::Ready { attempt });
}

fn not_started(instance: InstanceId, attempt: AttemptId, cause: Cause, outcomes: &mut Outcomes, out: &mut Outbox) {
    let (outcome, cause) = (Outcome::Failed, Some(cause));
    outcomes.unstarted(attempt, outcome, cause.clone());
    out.say(RunEvent::Ended { instance, attempt, outcome, cause, spoiled: Vec::new() });
    out.tell(Event::SpawnFailed { attempt });
}

/// How many GPUs its job asks for, if a batch system runs it.
fn gpus_asked(instance: &Instance) -> u32 {
    instance.slurm.as_ref().map_or(0, |_| instance.request.gpus)
}

fn cards_of(placement: &Placement) -> impl Iterator<Item = usize> {
    placement.gpus.iter().map(|gpu| gpu.index())
}
