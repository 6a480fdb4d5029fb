//! What starts and follows attempts: from a placement to a filled folder, a running program, its messages, its end. What takes
//! its time, filling and collecting, are jobs aside; it holds its placement until its program has ended. How one begins stands in
//! `beginning`. Decides nothing.

mod beginning;

use std::{
    collections::{BTreeMap, BTreeSet},
    io,
    sync::Arc,
    time::Duration,
};

use super::{
    cards::Cards,
    collect::{Collect, Collected},
    context::RunContext,
    corunners::{self, Others},
    executor::{Ended, Executor},
    hearing::{self, Heard},
    intents::Intent,
    listener::Listener,
    outbox::Outbox,
    outcomes::Outcomes,
    placements::{EndedProgram, Placements, cards_of},
    polling::{LISTEN, LISTEN_AFAR, PollSchedule},
    running::Running,
    windows::CorunWindows,
};
use crate::{
    clock,
    hardware::ledger::Jobs,
    node::{NewSamples, NodeFacts},
};
use flow_core::{
    AttemptId, InstanceId, Outcome, RunEvent, Span,
    measure::CoRunners,
    reason::{Cause, ClosedBy, Refusal},
    sched::Event,
};

/// The attempts of a run.
pub(super) struct Attempts<X> {
    context: Arc<RunContext>,
    pub(super) executor: X,
    placements: Placements,
    running: BTreeMap<AttemptId, Running>,
    due: PollSchedule,
    windows: CorunWindows,
    /// Who runs beside whom.
    corunners: CoRunners,
    others: Others,
    /// Attempts that were [given up](Self::give_up).
    pub(super) given_up: BTreeSet<AttemptId>,
    /// Jobs of earlier runs that were to be joined by attempts which do not begin after all.
    pub(super) unjoined: Vec<Intent>,
}

impl<X: Executor> Attempts<X> {
    pub(super) fn new(context: Arc<RunContext>, executor: X) -> Attempts<X> {
        Attempts {
            context,
            executor,
            placements: Placements::default(),
            running: BTreeMap::new(),
            due: PollSchedule::default(),
            windows: CorunWindows::default(),
            corunners: CoRunners::default(),
            others: Others::default(),
            given_up: BTreeSet::new(),
            unjoined: Vec::new(),
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.placements.is_empty() && self.running.is_empty()
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
        self.placements.is_held(instance) || self.running.values().any(|running| running.instance == instance)
    }

    /// Something is measured that others would disturb.
    pub(super) fn are_measured(&self) -> bool {
        let mut here = self.due.here().iter().filter_map(|attempt| self.running.get(attempt));
        here.any(|running| self.context.instance(running.instance).measured)
    }

    /// What other runs of this machine have beside all of these.
    pub(super) fn beside(&mut self, others: Others, out: &mut Outbox) {
        self.others = others;
        for attempt in self.due.here() {
            let Some(running) = self.running.get_mut(attempt) else { continue };
            let measured = self.context.instance(running.instance).measured;
            self.others.note(running, measured, out);
        }
    }

    /// GPUs that are given out, by their number among the machine's.
    pub(super) fn gpus(&self) -> impl Iterator<Item = usize> {
        self.placements.gpus()
    }

    /// What the status tells of them.
    pub(super) fn status(&self) -> Vec<flow_store::Running> {
        let held = self.placements.status(clock::unix_seconds());
        let mut all: Vec<_> = held
            .chain(self.running.iter().map(|(id, running)| running.shown(*id, self.context.instance(running.instance))))
            .collect();
        all.sort_by_key(|running| running.attempt);
        all
    }

    /// How many a batch system has.
    pub(super) fn jobs(&self) -> Jobs {
        let mut jobs = Jobs::default();
        for running in self.running.values().filter(|running| self.context.instance(running.instance).slurm.is_some()) {
            *(if running.queued.is_some() { &mut jobs.queued } else { &mut jobs.running }) += 1;
        }
        jobs
    }

    /// What it leaves is being collected, or it is a step of flow's own.
    fn hold(&mut self, attempt: AttemptId, running: &Running) {
        let shown = running.shown(attempt, self.context.instance(running.instance));
        let (activity, since) = (running.activity.clone(), clock::unix_seconds());
        let is_kept = (running.joinable || running.unsettled) && running.killed.is_none();
        self.placements.collect(attempt, EndedProgram { shown, activity, since, is_kept, is_told: false });
    }

    /// What people are told of collecting that takes long.
    pub(super) fn slow(&mut self) -> Vec<String> {
        let slow = self.placements.slow(clock::unix_seconds()).into_iter();
        let tell = |(instance, text)| format!("{}: {text}", self.context.instance(instance).label);
        slow.map(tell).map(|text| self.context.secrets.hide(text)).collect()
    }

    /// Nobody waits any more for what is being filled or collected: it counts as cancelled, and what is done there comes to nothing.
    pub(super) fn give_up(&mut self, outcomes: &mut Outcomes, out: &mut Outbox) {
        for (attempt, held) in self.placements.give_up() {
            self.given_up.insert(attempt);
            let (instance, outcome) = (held.instance, Outcome::Cancelled);
            if let Some(ended) = held.ended {
                if ended.is_kept {
                    let text =
                        "its program has ended; the next `flow run` collects its outputs and does not run it again";
                    out.notice(Some(instance), text.to_owned());
                }
                out.say(RunEvent::Ended { instance, attempt, outcome, cause: None, spoiled: Vec::new() });
            }
            outcomes.unstarted(attempt, outcome, Some(Cause::RunCancelled));
            out.tell(Event::Exited { attempt, outcome, spoiled: false });
        }
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
        let grouped = self.context.instance(instance).corun.is_some();
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

    /// An attempt has ended: with the first of them the window of its group is over.
    pub(super) fn closes(&mut self, attempt: AttemptId, end: &Ended, cards: &mut Cards, out: &mut Outbox) {
        let Some(running) = self.running.get_mut(&attempt) else { return };
        out.tell(Event::Collecting { attempt });
        // An end may be told twice, and its GPUs are let go of once.
        let untracked = || if running.batch { Default::default() } else { cards.untrack(attempt) };
        running.seen_of_gpus = Some(running.seen_of_gpus.take().unwrap_or_else(untracked));
        if let Some(corun) = &self.context.instance(running.instance).corun {
            // By the clock of the node, as all that its members say.
            let there = end.there.as_ref();
            if let Some(at) = there.and_then(|there| there.released) {
                self.windows.released(corun.group, at);
            }
            let before = there.and_then(|there| there.closed).filter(|at| *at < end.exit.ended_at);
            let closer = before.is_none().then_some(attempt);
            self.windows.close(corun.group, before.unwrap_or(end.exit.ended_at), closer);
        }
    }

    /// The GPUs of this machine that an attempt has.
    pub(super) fn gpus_of(&self, attempt: AttemptId) -> Vec<usize> {
        let running = self.running.get(&attempt).filter(|running| !running.batch);
        running.map(|running| cards_of(&running.placement).collect()).unwrap_or_default()
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
        let corun = self.context.instance(running.instance).corun.as_ref();
        let window = corun.and_then(|corun| {
            let members = self.context.session.expansion.groups[corun.group.0 as usize].members.len();
            self.windows.of(corun, members, exit.started_at)
        });
        let closed = corun.and_then(|corun| self.windows.closed(corun.group));
        let mut corunners = self.corunners.leave(attempt, exit.ended_at, running.listener.reported.at_work(true));
        for (other, corunner) in &mut corunners {
            corunner.at_work =
                self.running.get(other).map_or(corunner.at_work, |runs| runs.listener.reported.at_work(false));
        }
        corunners::note_end(&self.context.session.expansion, &mut running, corunners.values(), beside.as_ref());
        if let Some((gpus, cost)) = running.seen_of_gpus.take().filter(|_| !running.batch) {
            seen.gpus = gpus;
            seen.cost += cost;
        }
        let gpu_ids: Vec<usize> = cards_of(&running.placement).collect();
        // The scheduler is to know of a lost card before it hears of the end.
        let lost = if exit.code == Some(0) { None } else { cards.lost(&gpu_ids).cloned() };
        self.hold(attempt, &running);
        // A failure is collected at once, and nothing is to start before it is known.
        if exit.code == Some(0) {
            self.placements.free(attempt);
            out.tell(Event::Freed { attempt });
        }
        let decided = outcomes.decided(running.instance);
        let is_unwatched =
            running.rejoined && there.is_none() && self.context.instance(running.instance).slurm.is_none();
        Some(Collect {
            attempt,
            fingerprint: decided.map(|decided| decided.fingerprint),
            attempt_fingerprint: decided.map(|decided| decided.attempt),
            is_unwatched,
            running,
            exit,
            window,
            corunners,
            lost,
            there,
            instead,
            seen,
            closed,
        })
    }

    /// What an attempt left is collected, unless nobody waits for that any more: it holds nothing, and its group knows what closed its
    /// window.
    pub(super) fn collected(&mut self, collected: &Collected) -> bool {
        if self.placements.is_over(collected.attempt).is_none() {
            return false;
        }
        if collected.result.outcome == Outcome::Ok {
            return true;
        }
        let instance = self.context.instance(collected.instance);
        if let Some(corun) = &instance.corun {
            let label = instance.label.to_string();
            self.windows.blame(corun.group, collected.attempt, &label, collected.result.outcome);
        }
        true
    }

    /// What closed the window of an instance's group, where it was not the first member's ordinary end.
    pub(super) fn closed_by(&self, instance: InstanceId) -> Option<ClosedBy> {
        self.windows.closed_by(self.context.instance(instance).corun.as_ref()?.group)
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
            if let Some(corun) = &self.context.instance(running.instance).corun {
                gpus = corun.gpus;
                self.windows.released(corun.group, at);
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
            if let Some(corun) = &self.context.instance(running.instance).corun {
                self.windows.close(corun.group, clock::unix_seconds(), None);
            }
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

    /// An attempt is to end, with this outcome.
    pub(super) fn kill(&mut self, attempt: AttemptId, grace: Span, outcome: Outcome) {
        if let Some(running) = self.running.get_mut(&attempt) {
            // Its GPUs are looked at before it is collected, which may take a while: how it ended is known.
            if running.seen_of_gpus.is_some() {
                return;
            }
            running.killed.get_or_insert(outcome);
            self.executor.kill(attempt, Duration::from_micros(grace.0));
        } else {
            self.placements.kill(attempt, outcome);
        }
    }

    /// Who is to be listened to now, aside: a program may write much.
    pub(super) fn lend_listeners(&mut self, now: f64) -> Vec<(AttemptId, Listener)> {
        let due = self.due.hear_now(now, |attempt| self.running.contains_key(&attempt));
        due.into_iter().filter_map(|id| Some((id, self.running.get_mut(&id)?.listener.lend()))).collect()
    }

    /// What programs have said since the last time; what is to be kept of it, and of what else was seen, is written down.
    pub(super) fn heard(&mut self, heard: Vec<Heard>, cards: &Cards, out: &mut Outbox) {
        let mut refused = Vec::new();
        for Heard { attempt, listener, news, at } in heard {
            // One that could not be started after all says nothing.
            let Some(running) = self.running.get_mut(&attempt) else { continue };
            running.listener.take_back(listener);
            let corun = self.context.instance(running.instance).corun.as_ref();
            let (grouped, closed) = (corun.is_some(), corun.and_then(|corun| self.windows.closed(corun.group)));
            let executor = &self.executor;
            running.note(at, closed, |written| {
                let (host, cost) = executor.new_samples(attempt, &mut written.host);
                let (gpus, cost_of_gpus) = cards.new_samples(attempt, &mut written.gpus);
                NewSamples { host, gpus, cost: cost + cost_of_gpus }
            });
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
            hearing::tell(attempt, running.instance, news, &running.listener, out);
        }
        refused.into_iter().for_each(|attempt| self.kill(attempt, Span(0), Outcome::Failed));
    }
}

fn ready(attempt: AttemptId, out: &mut Outbox) {
    out.say(RunEvent::Ready { attempt });
    out.tell(Event::Ready { attempt });
}
