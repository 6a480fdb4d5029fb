//! The start of attempts: from placements to the filled folders of a gang, then to its programs.

use std::collections::BTreeMap;

use flow_core::{
    AttemptId, GroupId, InstanceId, Outcome, RunEvent,
    learn::History,
    reason::{Cause, Fault},
    sched::{Event, Placement},
};
use flow_protocol::Exit;
use flow_supervisor::clock;

use super::Attempts;
use crate::{
    ExecError,
    driver::{
        attempts::{
            collect::Collect,
            corunners,
            running::{self, LiveAttempt},
            state::{AttemptState, UnrecordedAttempt, given, gpus_of},
        },
        begin::fill::{Fill, FilledAttempt, PreparedAttempt},
        decide::outcomes::Outcomes,
        executor::{AttemptEnd, Executor, LocalObservation, Work},
        machine::run_gpus::RunGpus,
        updates::outbox::Outbox,
    },
};

impl<X: Executor> Attempts<X> {
    /// Prepares attempts. The folders of a gang are filled together, so that a group's members start together.
    ///
    /// # Errors
    /// Nobody decided to run one of them.
    pub(in crate::driver) fn fill(
        &mut self,
        starts: Vec<(AttemptId, InstanceId, Placement)>,
        outcomes: &Outcomes,
    ) -> Result<Vec<Vec<Fill>>, ExecError> {
        let mut gangs: BTreeMap<(Option<GroupId>, AttemptId), Vec<Fill>> = BTreeMap::new();
        for (attempt, instance, placement) in starts {
            let corun = self.context.instance(instance).corun.as_ref().map(|corun| corun.group);
            if let Some(group) = corun {
                self.windows.begin(group);
            }
            let undecided = || ExecError::Fault(format!("attempt {} starts, and nobody decided to run it", attempt.0));
            let decided = outcomes.decided(instance).ok_or_else(undecided)?;
            let placement = given(self.context.instance(instance), placement);
            self.states.begin(attempt, instance, &placement);
            let (fingerprint, claim) = (decided.fingerprint, decided.attempt);
            let gang = (corun, if corun.is_some() { AttemptId(0) } else { attempt });
            gangs.entry(gang).or_default().push(Fill { attempt, instance, fingerprint, claim, placement });
        }
        Ok(gangs.into_values().collect())
    }

    /// Drops an attempt that will not start, because another run executes its gang.
    pub(in crate::driver) fn take_back(&mut self, attempt: AttemptId) -> Option<InstanceId> {
        self.states.filling(attempt)?;
        self.states.remove(attempt).map(|(instance, _)| instance)
    }

    /// Starts the programs of a gang whose folders are filled. Returns its built-in steps.
    ///
    /// # Errors
    /// Nothing can be started here any more.
    pub(in crate::driver) fn start(
        &mut self,
        filled: Vec<FilledAttempt>,
        outcomes: &mut Outcomes,
        run_gpus: &mut RunGpus,
        history: &History<'_>,
        out: &mut Outbox,
    ) -> Result<Vec<Collect>, ExecError> {
        let mut ready = Vec::new();
        for FilledAttempt { attempt, prepared } in filled {
            let Some((instance, killed)) = self.states.filling(attempt) else { continue };
            if prepared.is_err() || killed.is_some() {
                self.states.set(attempt, AttemptState::Recording(UnrecordedAttempt::default()));
            }
            match (prepared, killed) {
                (prepared, Some(outcome)) => {
                    let job = prepared.ok().and_then(|prepared| prepared.job).filter(|job| job.joined);
                    // A group has one job for all its members.
                    if let Some(job) = job.filter(|job| !self.unjoined.contains(&job.intent)) {
                        self.unjoined.push(job.intent);
                    }
                    outcomes.unstarted(attempt, outcome, Some(Cause::RunCancelled));
                    out.push(Event::Exited { attempt, outcome, disturbed: false });
                }
                (Ok(prepared), None) => ready.push(self.begin(attempt, instance, *prepared, outcomes, history, out)),
                (Err(cause), None) => not_started(instance, attempt, cause, outcomes, out),
            }
        }
        let (mut builtins, mut gang) = (Vec::new(), Vec::new());
        for work in ready {
            let attempt = work.program.attempt;
            match self.states.running(attempt) {
                Some(running) if running.process => gang.push(work),
                Some(_) => builtins.extend(self.builtin(attempt, outcomes, out)),
                None => {}
            }
        }
        if gang.is_empty() {
            return Ok(builtins);
        }
        let started: Vec<AttemptId> = gang.iter().map(|work| work.program.attempt).collect();
        self.executor.start(gang)?;
        // Before they can use a GPU: programs start only when the executor reads the request.
        if let Some(root) = self.executor.root() {
            for attempt in started {
                let Some(running) = self.states.running(attempt).filter(|running| !running.batch) else { continue };
                let gpus: Vec<usize> = gpus_of(&running.placement).collect();
                run_gpus.track(attempt, root, &gpus);
            }
        }
        Ok(builtins)
    }

    /// A built-in runs in a background job of the engine and cannot be killed.
    fn builtin(&mut self, attempt: AttemptId, outcomes: &Outcomes, out: &mut Outbox) -> Option<Collect> {
        let running = self.begin_to_collect(attempt)?;
        out.push(Event::Started { attempt });
        if self.context.instance(running.instance).corun.is_some() {
            out.push(Event::Ready { attempt });
        }
        out.push(Event::Collecting { attempt });
        let fingerprint = outcomes.decided(running.instance).map(|decided| decided.fingerprint);
        Some(Collect {
            attempt,
            running,
            end: AttemptEnd::here(Exit::default(), LocalObservation::default()),
            fingerprint,
            attempt_fingerprint: None,
            window: None,
            corunners: BTreeMap::new(),
            lost: None,
            closed: None,
            output: None,
        })
    }

    /// Starts an attempt, and builds the request for its executor.
    fn begin(
        &mut self,
        attempt: AttemptId,
        id: InstanceId,
        mut prepared: PreparedAttempt,
        outcomes: &Outcomes,
        history: &History<'_>,
        out: &mut Outbox,
    ) -> Work {
        let measured = self.context.instance(id).measured;
        let (place, barrier) = (std::mem::take(&mut prepared.place), prepared.launch.barrier.take());
        let (mut running, work) = LiveAttempt::new(attempt, id, prepared, &self.context);
        out.report(RunEvent::Started {
            instance: id,
            attempt,
            folder: place,
            why: outcomes.decided(id).map(|decided| decided.why.clone()).unwrap_or_default(),
            gpus: running.circumstances.gpus.clone(),
            gpus_requested: running::gpus_requested(self.context.instance(id)),
            cpus: running.circumstances.cpus,
            queued: running.queued.is_some(),
        });
        if let Some(text) = barrier {
            out.notice(Some(id), text);
        }
        let job = work.job.as_ref().filter(|job| job.joined).map(|job| &job.intent);
        let stays = work.detached.as_ref().filter(|stays| stays.joined).map(|stays| &stays.intent);
        if let Some(intent) = job.or(stays) {
            // The same words for every step of a sweep, so that they are shown once.
            let run = &intent.run;
            let text = match running.queued {
                _ if intent.has_ended() => format!("ended since run {run} was killed: flow collects its result"),
                Some(_) => format!("queued since run {run}: its job is not submitted again"),
                None if job.is_some() => format!("running since run {run}: its job is not submitted again"),
                None => format!("running since run {run}: it is not started again"),
            };
            out.notice(Some(id), text);
        }
        if !running.batch {
            self.others.note(&mut running.circumstances, measured);
        }
        if running.process && !running.batch {
            self.due.runs_here(attempt);
            self.corunners.join(attempt, id, &running.placement.gpus, running.began);
        }
        if running.placement.trial {
            let (_, others) = corunners::labels(&self.context.session.expansion, self.corunners.of(attempt));
            out.notice(Some(id), corunners::trial(history, &running, &others));
        }
        self.states.set(attempt, AttemptState::Running(Box::new(running)));
        work
    }

    pub(in crate::driver) fn on_spawn_failed(
        &mut self,
        attempt: AttemptId,
        reason: Fault,
        outcomes: &mut Outcomes,
        out: &mut Outbox,
    ) {
        let Some(instance) = self.states.running(attempt).map(|running| running.instance) else { return };
        if self.states.set(attempt, AttemptState::Recording(UnrecordedAttempt::default())).is_some() {
            self.due.ended(attempt);
            self.corunners.leave(attempt, clock::unix_seconds(), None);
            not_started(instance, attempt, Cause::NotStarted { error: Some(reason) }, outcomes, out);
        }
    }
}

fn not_started(instance: InstanceId, attempt: AttemptId, cause: Cause, outcomes: &mut Outcomes, out: &mut Outbox) {
    let (outcome, cause) = (Outcome::Failed, Some(cause));
    outcomes.unstarted(attempt, outcome, cause.clone());
    out.report(RunEvent::Ended { instance, attempt, outcome, cause, disturbances: Vec::new() });
    out.push(Event::SpawnFailed { attempt });
}
