//! Reports the results of collected attempts, and removes their work folders when nobody can need them any more.
//! Decides nothing.

use flow_core::{
    AttemptId, CorunGpus, Instance, InstanceId, Outcome, RunEvent, StepResult, learn::History, reason::Cause,
    sched::Event,
};
use flow_supervisor::node::NodeFiles;

use super::{
    Attempts,
    collect::CollectedAttempt,
    output,
    running::LiveAttempt,
    state::{AttemptState, UnrecordedAttempt},
};
use crate::driver::{
    executor::{Executor, RetryAdvice},
    results::cleanup::Leftover,
    updates::outbox::Outbox,
};

/// The files and folders of an attempt that another run would need until its result is recorded. If it is not `good`, its work
/// folder stays for inspection.
fn needed(running: &LiveAttempt, good: bool, is_noted: bool) -> Vec<Leftover> {
    /// From so many on, artifacts are removed by their places.
    const MANY: usize = 64;
    // A job's stay until the batch system is asked no more.
    let has_files = is_noted || running.rejoined || running.is_detached();
    let files = has_files.then(|| NodeFiles::of(running.folder.path()).all()).into_iter().flatten();
    let work = if good {
        running.folder.all_of_work()
    } else {
        // Without the link, the message still names the folder, and without the variables a shell opens it.
        let _ = running.folder.link_work();
        if !running.joinable && running.process {
            let _ = running.folder.write_variables(&running.variables.clone().into_own());
        }
        Vec::new()
    };
    // The work folder holds the same files.
    let inputs = Some(running.folder.inputs());
    let inputs = inputs.filter(|inputs| !work.iter().any(|work| inputs.starts_with(work)) && inputs.exists());
    let mut all: Vec<Leftover> = work.into_iter().chain(files).chain(inputs).map(Leftover::from).collect();
    let links = &running.resolved.links;
    if let Some(work) = all.first_mut().filter(|_| good && links.len() >= MANY) {
        work.has_artifacts(running.folder.work(), links);
    }
    all
}

impl<X: Executor> Attempts<X> {
    /// The outputs of an attempt are collected: reports its end to the scheduler. Returns its result, and whether another
    /// attempt continues from its checkpoint, which none does when the run is `ending`. None if nobody waits for it any
    /// more.
    pub(in crate::driver) fn collected(
        &mut self,
        collected: CollectedAttempt,
        ending: bool,
        history: &mut History<'_>,
        out: &mut Outbox,
    ) -> Option<(StepResult, bool)> {
        let CollectedAttempt { attempt, running, is_noted, corunners, output: changes, .. } = collected;
        let CollectedAttempt { notices, again, mut result, .. } = collected;
        let instance = running.instance;
        if !matches!(self.states.get(attempt), Some(AttemptState::Collecting(_))) {
            return None;
        }
        let Instance { corun, label, .. } = self.context.instance(instance);
        if let Some(corun) = corun.as_ref().filter(|_| result.outcome != Outcome::Ok) {
            self.windows.attribute(corun.group, attempt, label, result.outcome);
        }
        let (gpus, told) = (&running.placement.gpus, &running.listener.reported);
        result.circumstances.sharing = history.sharing(instance, gpus, told, &corunners, &result);
        let known = result.circumstances.gpu_models.first().and_then(|model| history.interference(model));
        if let Some(window) = result.circumstances.corun.as_mut().filter(|window| window.gpus == CorunGpus::Shared) {
            window.interference = known;
        }
        if again == RetryAdvice::Continues && ending {
            // Nothing starts any more; the next run continues.
            (result.outcome, result.cause) = (Outcome::Cancelled, None);
        }
        output::forward(attempt, instance, changes, &running.listener, out);
        notices.into_iter().for_each(|text| out.notice(Some(instance), text));
        let (outcome, cause, disturbances) = (result.outcome, result.cause.clone(), result.disturbances.clone());
        let missed = matches!(cause, Some(Cause::NoMetrics { .. }));
        out.report(RunEvent::Ended { instance, attempt, outcome, cause, disturbances });
        // The outputs of a good attempt are in the store.
        let needed = needed(&running, outcome == Outcome::Ok && !missed, is_noted);
        let is_written = is_noted || running.is_detached();
        let mut unrecorded = UnrecordedAttempt { needed, intent: running.intent.filter(|_| is_written) };
        if !running.joinable && !is_noted {
            unrecorded.needed.drain(..).for_each(|path| self.leftovers.add(path));
        }
        self.states.set(attempt, AttemptState::Recording(unrecorded));
        match again {
            RetryAdvice::Continues => out.push(Event::Continues { attempt }),
            RetryAdvice::Lost => out.push(Event::Lost { attempt }),
            // The same log and the same pattern give the same numbers.
            RetryAdvice::AsConfigured if missed => out.push(Event::Hopeless { attempt }),
            RetryAdvice::AsConfigured => {}
            RetryAdvice::Hopeless => out.push(Event::Hopeless { attempt }),
        }
        out.push(Event::Exited { attempt, outcome, disturbed: !result.disturbances.is_empty() });
        Some((result, again == RetryAdvice::Continues))
    }

    /// The result of an instance is recorded.
    pub(in crate::driver) fn recorded(&mut self, instance: InstanceId) {
        if let Some((attempt, _)) = self.states.last_of(instance) {
            self.settled(attempt);
        }
    }

    /// The result of an attempt is recorded or dropped: later runs need nothing of it. Those that were given up are not
    /// settled.
    pub(in crate::driver) fn settled(&mut self, attempt: AttemptId) {
        if !matches!(self.states.get(attempt), Some(AttemptState::Recording(_))) {
            return;
        }
        let Some((_, AttemptState::Recording(unrecorded))) = self.states.remove(attempt) else { return };
        self.executor.settled(attempt);
        let UnrecordedAttempt { needed, intent } = unrecorded;
        if let Some(intent) = intent {
            let is_given_up = |attempt| matches!(self.states.get(attempt), Some(AttemptState::GivenUp));
            if intent.members.iter().any(|member| is_given_up(member.attempt)) {
                // The next run collects the whole group.
                return;
            }
            if let Some(other) = self.states.same_gang(&intent) {
                other.needed.extend(needed);
                return;
            }
            intent.remove(self.context.store.dir());
        }
        needed.into_iter().for_each(|path| self.leftovers.add(path));
    }
}
