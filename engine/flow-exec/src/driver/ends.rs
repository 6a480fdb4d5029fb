//! What becomes of attempts that were collected: what they came to is told, and their work folders go when nobody can need them any
//! more. Decides nothing.

use std::{collections::BTreeMap, path::PathBuf};

use flow_core::{
    AttemptId, CorunGpus, InstanceId, Outcome, RunEvent, StepResult, learn::History, reason::Cause, sched::Event,
};

use super::{
    cleanup::FolderRemover, collect::Collected, executor::RetryAdvice, hearing, outbox::Outbox, running::Running,
};
use crate::node::observations;

#[derive(Default)]
pub(super) struct Ends {
    /// Instances that are being recorded, and the attempts that made what is.
    to_settle: BTreeMap<InstanceId, AttemptId>,
    /// What another run would need, had this one to die before that: work folders, and what was written down of attempts.
    needed: BTreeMap<AttemptId, Vec<PathBuf>>,
    leftovers: FolderRemover,
}

/// What another run would need of an attempt, and nobody once what it came to is safe. One that is not `good` keeps its work folder for
/// whoever looks for the reason.
fn needed(running: &Running, good: bool) -> Vec<PathBuf> {
    // Of what an earlier run began that one may have written some.
    let observed = running.observations.is_some() || running.rejoined;
    let observations = observed.then(|| observations::path(running.folder.path()));
    good.then(|| running.folder.work()).into_iter().chain(observations).collect()
}

impl Ends {
    /// An attempt came to this, which the scheduler is told. Returns its result, and whether another attempt goes on from what it left;
    /// of a run that is `ending` none does.
    pub(super) fn tell(
        &mut self,
        collected: Collected,
        ending: bool,
        history: &mut History<'_>,
        out: &mut Outbox,
    ) -> (StepResult, bool) {
        let Collected { attempt, instance, running, corunners, news, notices, again, mut result } = collected;
        let (gpus, told) = (&running.placement.gpus, &running.listener.reported);
        result.circumstances.sharing = history.sharing(instance, gpus, told, &corunners, &result);
        let known = result.circumstances.gpu_models.first().and_then(|model| history.interference(model));
        if let Some(window) = result.circumstances.corun.as_mut().filter(|window| window.gpus == CorunGpus::Shared) {
            window.interference = known;
        }
        if again == RetryAdvice::Continues && ending {
            // Nothing is begun any more; the next run goes on.
            (result.outcome, result.cause) = (Outcome::Cancelled, None);
        }
        hearing::tell(attempt, instance, news, &running.listener, out);
        notices.into_iter().for_each(|text| out.notice(Some(instance), text));
        let (outcome, cause, spoiled) = (result.outcome, result.cause.clone(), result.spoiled.clone());
        let missed = matches!(cause, Some(Cause::NoMetrics { .. }));
        out.say(RunEvent::Ended { instance, attempt, outcome, cause, spoiled });
        // The outputs of a good one are in the store.
        let needed = needed(&running, outcome == Outcome::Ok && !missed);
        match running.joinable || running.unsettled {
            true => drop(self.needed.insert(attempt, needed)),
            false => needed.into_iter().for_each(|path| self.leftovers.add(path)),
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
        (result, again == RetryAdvice::Continues)
    }

    /// What an instance came to is being recorded: it is of this attempt.
    pub(super) fn record(&mut self, instance: InstanceId, attempt: AttemptId) {
        self.to_settle.insert(instance, attempt);
    }

    /// What an instance came to is safe. Returns the attempt that it is of, if it had one.
    pub(super) fn recorded(&mut self, instance: InstanceId) -> Option<AttemptId> {
        let attempt = self.to_settle.remove(&instance)?;
        self.settled(attempt);
        Some(attempt)
    }

    /// Nobody needs what an attempt left: it is safe, or dropped.
    pub(super) fn settled(&mut self, attempt: AttemptId) {
        self.needed.remove(&attempt).into_iter().flatten().for_each(|path| self.leftovers.add(path));
    }

    /// Removes what attempts left in their folders.
    pub(super) fn clear(&mut self) {
        self.leftovers.clear();
    }
}
