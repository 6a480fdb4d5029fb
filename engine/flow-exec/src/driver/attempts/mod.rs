//! Starts attempts and follows them: placement, filled folder, running program, messages, end. Filling and collecting
//! are slow and run as background jobs. An attempt holds its placement until its program has ended. `beginning` has the
//! start of an attempt. Decides nothing.

mod beginning;
pub(super) mod collect;
pub(super) mod corunners;
pub(super) mod ends;
pub(super) mod output;
pub(super) mod polling;
pub(super) mod running;
pub(super) mod state;
pub(super) mod windows;

use std::{io, sync::Arc, time::Duration};

use flow_core::{
    AttemptId, InstanceId, Outcome, RunEvent, Span,
    measure::CoRunners,
    reason::{Cause, ClosedBy, Refusal},
    sched::Event,
};
use flow_supervisor::{clock, hardware::ledger::Jobs, intents::Intent, node::NodeFacts};

use crate::driver::{
    begin::context::RunContext,
    decide::outcomes::Outcomes,
    executor::{AttemptEnd, Executor},
    machine::{peers::OtherRuns, run_gpus::RunGpus},
    results::{cleanup::FolderRemover, listener::Listener},
    updates::outbox::Outbox,
};
use {
    collect::Collect,
    output::AttemptOutput,
    polling::{LISTEN, LISTEN_AFAR, PollSchedule},
    running::LiveAttempt,
    state::{AttemptState, AttemptStates, EndedProgram, gpus_of},
    windows::CorunWindows,
};

pub(crate) struct Attempts<X> {
    context: Arc<RunContext>,
    pub(crate) executor: X,
    states: AttemptStates,
    due: PollSchedule,
    windows: CorunWindows,
    /// Records which attempts ran at the same time.
    corunners: CoRunners,
    others: OtherRuns,
    /// Removes the files of attempts that nobody needs any more.
    pub(crate) leftovers: FolderRemover,
    /// Jobs of earlier runs whose attempts here will not start after all.
    pub(crate) unjoined: Vec<Intent>,
}

impl<X: Executor> Attempts<X> {
    pub(crate) fn new(context: Arc<RunContext>, executor: X) -> Attempts<X> {
        Attempts {
            context,
            executor,
            states: AttemptStates::default(),
            due: PollSchedule::default(),
            windows: CorunWindows::default(),
            corunners: CoRunners::default(),
            others: OtherRuns::default(),
            leftovers: FolderRemover::default(),
            unjoined: Vec::new(),
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.states.are_over()
    }

    /// Time until programs are listened to again, if any run.
    pub(crate) fn listen_in(&self) -> Option<Span> {
        let pause = if self.due.here().is_empty() { LISTEN_AFAR } else { LISTEN };
        self.states.all_running().next().map(|_| pause)
    }

    pub(crate) fn ids(&self) -> impl Iterator<Item = AttemptId> {
        self.states.all_running().map(|(attempt, _)| attempt)
    }

    /// True if an attempt of this instance holds a placement.
    pub(crate) fn is_placed(&self, instance: InstanceId) -> bool {
        self.states.is_open(instance)
    }

    /// True if a measured attempt runs here that others would disturb.
    pub(crate) fn are_measured(&self) -> bool {
        let mut here = self.due.here().iter().filter_map(|attempt| self.states.running(*attempt));
        here.any(|running| self.context.instance(running.instance).measured)
    }

    /// Notes the other runs of this machine in all attempts that run here.
    pub(crate) fn note_other_runs(&mut self, others: OtherRuns) {
        self.others = others;
        for attempt in self.due.here() {
            let Some(running) = self.states.running_mut(*attempt) else { continue };
            let measured = self.context.instance(running.instance).measured;
            self.others.note(&mut running.circumstances, measured);
        }
    }

    /// Indices of the allocated GPUs among the machine's.
    pub(crate) fn gpus(&self) -> impl Iterator<Item = usize> {
        self.states.gpus()
    }

    /// The attempts as the status file shows them.
    pub(crate) fn status(&self) -> Vec<flow_runs::RunningStep> {
        let shown = |(id, running): (_, &LiveAttempt)| running.shown(id, self.context.instance(running.instance));
        let collecting = self.states.all_collecting(clock::unix_seconds());
        let mut all: Vec<_> = collecting.chain(self.states.all_running().map(shown)).collect();
        all.sort_by_key(|running| running.attempt);
        all
    }

    /// Number of queued and running jobs in the batch system.
    pub(crate) fn jobs(&self) -> Jobs {
        let mut jobs = Jobs::default();
        let is_batch = |running: &&LiveAttempt| self.context.instance(running.instance).is_batch();
        for running in self.states.all_running().map(|(_, running)| running).filter(is_batch) {
            *(if running.queued.is_some() { &mut jobs.queued } else { &mut jobs.running }) += 1;
        }
        jobs
    }

    /// A running attempt begins to be collected. Its placement is held meanwhile.
    fn begin_to_collect(&mut self, attempt: AttemptId) -> Option<LiveAttempt> {
        let running = self.states.running(attempt)?;
        let ended = EndedProgram {
            shown: running.shown(attempt, self.context.instance(running.instance)),
            activity: running.activity.clone(),
            since: clock::unix_seconds(),
            is_collectable: running.joinable && running.killed.is_none(),
            intent: running.intent.clone().filter(|_| !running.joinable),
            is_reported: false,
        };
        match self.states.set(attempt, AttemptState::Collecting(Box::new(ended)))? {
            AttemptState::Running(running) => Some(*running),
            _ => None,
        }
    }

    /// The first illegal change of an attempt's state, if any.
    pub(crate) fn fault(&self) -> Option<&str> {
        self.states.fault()
    }

    /// Checks the states of the attempts, and that those whose programs run here are listened to.
    ///
    /// # Errors
    /// The first disagreement.
    #[cfg(test)]
    pub(crate) fn check(&self) -> Result<(), String> {
        let here = self.states.all_running().filter(|(_, running)| running.process && !running.batch);
        let running: Vec<AttemptId> = here.map(|(attempt, _)| attempt).collect();
        if !self.due.here().iter().eq(&running) {
            return Err(format!("{running:?} run here, but {:?} are listened to", self.due.here()));
        }
        self.states.check()
    }

    /// Notices about attempts whose collection takes long.
    pub(crate) fn slow(&mut self) -> Vec<String> {
        let slow = self.states.slow(clock::unix_seconds()).into_iter();
        let tell = |(instance, text)| format!("{}: {text}", self.context.instance(instance).label);
        slow.map(tell).map(|text| self.context.secrets.hide(text)).collect()
    }

    /// Gives up on what is being filled or collected: these attempts count as cancelled and their results are dropped.
    pub(crate) fn give_up(&mut self, outcomes: &mut Outcomes, out: &mut Outbox) {
        for (attempt, instance, state) in self.states.give_up() {
            let outcome = Outcome::Cancelled;
            if let AttemptState::Collecting(ended) = state {
                let is_noted = || ended.intent.as_ref().is_some_and(|of| of.is_there(self.context.store.dir()));
                if ended.is_collectable || is_noted() {
                    let text =
                        "its program has ended; the next `flow run` collects its outputs and does not run it again";
                    out.notice(Some(instance), text.to_owned());
                }
                out.report(RunEvent::Ended { instance, attempt, outcome, cause: None, disturbances: Vec::new() });
            }
            outcomes.unstarted(attempt, outcome, Some(Cause::RunCancelled));
            out.push(Event::Exited { attempt, outcome, disturbed: false });
        }
    }

    /// The program of an attempt runs. This and other reports about an attempt that has ended came late and are
    /// ignored.
    pub(crate) fn on_started(&mut self, attempt: AttemptId, node: Option<Box<NodeFacts>>, out: &mut Outbox) {
        let Some(running) = self.states.running_mut(attempt) else { return };
        if let Some(node) = node {
            running.is_on(*node, &self.context.objects);
        }
        if running.batch && !running.began_there {
            let now = clock::unix_seconds();
            self.due.began_afar(attempt, now);
            // An attempt of an earlier run: this run did not see it start.
            if !running.rejoined {
                running.began = now;
            }
        }
        (running.began_there, running.queued) = (true, None);
        let (instance, announces) = (running.instance, running.announces);
        let grouped = self.context.instance(instance).corun.is_some();
        out.push(Event::Started { attempt });
        if grouped && !announces {
            ready(attempt, out);
        }
    }

    /// It waits in the batch queue, or no longer does.
    pub(crate) fn waits(&mut self, attempt: AttemptId, queued: Option<flow_runs::QueuedJob>) {
        if let Some(running) = self.states.running_mut(attempt) {
            running.queued = queued;
        }
    }

    /// An attempt has ended. The first end in a group closes the group's window.
    pub(crate) fn closes(&mut self, attempt: AttemptId, end: &AttemptEnd, gpus: &mut RunGpus, out: &mut Outbox) {
        let Some(running) = self.states.running_mut(attempt) else { return };
        out.push(Event::Collecting { attempt });
        // An end may be reported twice, but its GPUs are released once.
        let untracked = || if running.batch { Default::default() } else { gpus.untrack(attempt) };
        running.seen_of_gpus = Some(running.seen_of_gpus.take().unwrap_or_else(untracked));
        if let Some(corun) = &self.context.instance(running.instance).corun {
            // By the clock of the node, like all messages of its members.
            let there = end.there.as_ref();
            if let Some(at) = there.and_then(|there| there.released) {
                self.windows.released(corun.group, at);
            }
            let before = there.and_then(|there| there.closed).filter(|at| *at < end.exit.ended_at);
            let closer = before.is_none().then_some(attempt);
            self.windows.close(corun.group, before.unwrap_or(end.exit.ended_at), closer);
        }
    }

    /// The GPUs of this machine that an attempt holds.
    pub(crate) fn gpus_of(&self, attempt: AttemptId) -> Vec<usize> {
        let running = self.states.running(attempt).filter(|running| !running.batch);
        running.map(|running| gpus_of(&running.placement).collect()).unwrap_or_default()
    }

    /// The program and all its descendants are gone: its outputs can be collected.
    pub(crate) fn on_exited(
        &mut self,
        attempt: AttemptId,
        mut end: AttemptEnd,
        outcomes: &Outcomes,
        gpus: &mut RunGpus,
        out: &mut Outbox,
    ) -> Option<Collect> {
        let (is_good, started_at, ended_at) = (end.exit.code == Some(0), end.exit.started_at, end.exit.ended_at);
        let mut running = self.begin_to_collect(attempt)?;
        self.due.ended(attempt);
        let corun = self.context.instance(running.instance).corun.as_ref();
        let window = corun.and_then(|corun| {
            let members = self.context.session.expansion.groups[corun.group.0 as usize].members.len();
            self.windows.of(corun, members, started_at)
        });
        let closed = corun.and_then(|corun| self.windows.closed(corun.group));
        let mut corunners = self.corunners.leave(attempt, ended_at, running.listener.reported.at_work(true));
        for (other, corunner) in &mut corunners {
            corunner.at_work =
                self.states.running(*other).map_or(corunner.at_work, |runs| runs.listener.reported.at_work(false));
        }
        corunners::note_end(&self.context.session.expansion, &mut running, corunners.values(), end.corunners.as_ref());
        if let Some((gpus, cost)) = running.seen_of_gpus.take().filter(|_| !running.batch) {
            end.seen.gpus = gpus;
            end.seen.cost += cost;
        }
        let gpu_ids: Vec<usize> = gpus_of(&running.placement).collect();
        // The scheduler must know of a lost GPU before it hears of the end.
        let lost = if is_good { None } else { gpus.lost(&gpu_ids).cloned() };
        // A failure is collected at once, and nothing starts in its place before its cause is known.
        if is_good {
            self.states.free_gpus(attempt);
            out.push(Event::Freed { attempt });
        }
        let decided = outcomes.decided(running.instance);
        Some(Collect {
            attempt,
            fingerprint: decided.map(|decided| decided.fingerprint),
            attempt_fingerprint: decided.map(|decided| decided.attempt),
            running,
            end,
            window,
            corunners,
            lost,
            closed,
            output: None,
        })
    }

    /// The reason why the window of an instance's group closed, unless it was the normal end of the first member.
    pub(crate) fn closed_by(&self, instance: InstanceId) -> Option<ClosedBy> {
        self.windows.closed_by(self.context.instance(instance).corun.as_ref()?.group)
    }

    /// Releases a group from its barrier, because every member is ready.
    pub(crate) fn release(&mut self, attempts: Vec<AttemptId>, out: &mut Outbox) {
        let at = clock::unix_seconds();
        let mut gpus = flow_core::CorunGpus::Own;
        for &attempt in &attempts {
            let told = self.executor.release(attempt, at);
            self.check_written(attempt, told);
            let Some(running) = self.states.running_mut(attempt) else { continue };
            running.listener.released(at);
            if let Some(corun) = &self.context.instance(running.instance).corun {
                gpus = corun.gpus;
                self.windows.released(corun.group, at);
            }
        }
        out.report(RunEvent::Released { attempts, gpus });
    }

    /// Stops members of a group that nobody needs any more.
    pub(crate) fn stop(&mut self, attempts: &[AttemptId]) {
        for &attempt in attempts {
            let told = self.executor.stop(attempt);
            self.check_written(attempt, told);
            let Some(running) = self.states.running(attempt) else { continue };
            if let Some(corun) = &self.context.instance(running.instance).corun {
                self.windows.close(corun.group, clock::unix_seconds(), None);
            }
        }
    }

    /// Kills a program that could not be told something, because it would wait forever.
    fn check_written(&mut self, attempt: AttemptId, told: io::Result<()>) {
        if let (Err(e), Some(running)) = (told, self.states.running_mut(attempt)) {
            let folder = running.folder.path().display().to_string();
            running.listener.refused = Some(Refusal::NotReached { folder, error: e.into() });
            self.kill(attempt, Span(0), Outcome::Failed);
        }
    }

    /// Ends an attempt, with this outcome.
    pub(crate) fn kill(&mut self, attempt: AttemptId, grace: Span, outcome: Outcome) {
        if let Some(running) = self.states.running_mut(attempt) {
            // Its program has already ended; only the check of its GPUs delays the collection.
            if running.seen_of_gpus.is_some() {
                return;
            }
            running.killed.get_or_insert(outcome);
            self.executor.kill(attempt, Duration::from_micros(grace.0));
        } else if let Some((_, None)) = self.states.filling(attempt) {
            self.states.set(attempt, AttemptState::Filling { killed: Some(outcome) });
        }
    }

    /// Lends the listeners that are due to a background job, because a program may print much.
    pub(crate) fn lend_listeners(&mut self, now: f64) -> Vec<(AttemptId, Listener)> {
        let due = self.due.due(now, |attempt| self.states.running(attempt).is_some());
        due.into_iter().filter_map(|id| Some((id, self.states.running_mut(id)?.listener.lend()))).collect()
    }

    /// Applies what programs have printed since the last time.
    pub(crate) fn apply_output(&mut self, heard: Vec<AttemptOutput>, out: &mut Outbox) {
        let mut refused = Vec::new();
        for AttemptOutput { attempt, listener, output: changes } in heard {
            // An attempt that could not be started has no output.
            let Some(running) = self.states.running_mut(attempt) else { continue };
            running.listener.take_back(listener);
            let grouped = self.context.instance(running.instance).corun.is_some();
            if changes.ready && grouped {
                ready(attempt, out);
            }
            if changes.sufficed && grouped {
                out.push(Event::Sufficed { attempt });
            }
            if changes.refused.is_some() {
                refused.push(attempt);
            }
            if let Some((fraction, text)) = &changes.progress {
                (running.fraction, running.text) = (fraction.or(running.fraction), text.clone());
            }
            output::forward(attempt, running.instance, changes, &running.listener, out);
        }
        refused.into_iter().for_each(|attempt| self.kill(attempt, Span(0), Outcome::Failed));
    }
}

fn ready(attempt: AttemptId, out: &mut Outbox) {
    out.report(RunEvent::Ready { attempt });
    out.push(Event::Ready { attempt });
}
