//! Reports the results of collected attempts, and removes their work folders when nobody can need them any more.
//! Decides nothing.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use flow_core::{
    AttemptId, CorunGpus, InstanceId, Outcome, RunEvent, StepResult, learn::History, reason::Cause, sched::Event,
};
use flow_store::StoreDir;

use super::{collect::Collected, hearing, running::Running};
use crate::{
    driver::{
        executor::{RetryAdvice, intents::Intent},
        results::cleanup::{FolderRemover, Leftover},
        updates::outbox::Outbox,
    },
    node::NodeFiles,
};

#[derive(Default)]
pub(crate) struct Ends {
    /// Instances whose results are being recorded, and the attempts that made these.
    to_settle: BTreeMap<InstanceId, AttemptId>,
    /// Work folders and records that another run would need if this one died before the result is recorded.
    needed: BTreeMap<AttemptId, Vec<Leftover>>,
    /// The intents of those whose ends are written down.
    noted: BTreeMap<AttemptId, Arc<Intent>>,
    leftovers: FolderRemover,
}

/// The files and folders of an attempt that another run would need until its result is recorded. If it is not `good`, its work
/// folder stays for inspection.
fn needed(running: &Running, good: bool, is_noted: bool) -> Vec<Leftover> {
    /// From so many on, artifacts are removed by their places.
    const MANY: usize = 64;
    // An earlier run may have written the record of an attempt that it started.
    let record = (is_noted || running.rejoined).then(|| NodeFiles::of(running.folder.path()).ended());
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
    let inputs = inputs.filter(|inputs| inputs.exists() && !work.iter().any(|work| inputs.starts_with(work)));
    let mut all: Vec<Leftover> = work.into_iter().chain(record).chain(inputs).map(Leftover::from).collect();
    let links = &running.resolved.links;
    if let Some(work) = all.first_mut().filter(|_| good && links.len() >= MANY) {
        work.has_artifacts(running.folder.work(), links);
    }
    all
}

impl Ends {
    /// Reports the end of an attempt to the scheduler. Returns its result, and whether another attempt continues from
    /// its checkpoint, which none does when the run is `ending`.
    pub(crate) fn tell(
        &mut self,
        collected: Collected,
        ending: bool,
        history: &mut History<'_>,
        out: &mut Outbox,
    ) -> (StepResult, bool) {
        let Collected { attempt, instance, running, is_noted, corunners, news, notices, again, mut result } = collected;
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
        hearing::tell(attempt, instance, news, &running.listener, out);
        notices.into_iter().for_each(|text| out.notice(Some(instance), text));
        let (outcome, cause, spoiled) = (result.outcome, result.cause.clone(), result.spoiled.clone());
        let missed = matches!(cause, Some(Cause::NoMetrics { .. }));
        out.say(RunEvent::Ended { instance, attempt, outcome, cause, spoiled });
        // The outputs of a good attempt are in the store.
        let needed = needed(&running, outcome == Outcome::Ok && !missed, is_noted);
        self.noted.extend(running.intent.filter(|_| is_noted).map(|intent| (attempt, intent)));
        match running.joinable || is_noted {
            true => drop(self.needed.insert(attempt, needed)),
            false => needed.into_iter().for_each(|path| self.leftovers.add(path)),
        }
        match again {
            RetryAdvice::Continues => out.tell(Event::Continues { attempt }),
            RetryAdvice::Lost => out.tell(Event::Lost { attempt }),
            // The same log and the same pattern give the same numbers.
            RetryAdvice::AsAsked if missed => out.tell(Event::Hopeless { attempt }),
            RetryAdvice::AsAsked => {}
            RetryAdvice::Hopeless => out.tell(Event::Hopeless { attempt }),
        }
        out.tell(Event::Exited { attempt, outcome, spoiled: !result.spoiled.is_empty() });
        (result, again == RetryAdvice::Continues)
    }

    /// Remembers which attempt made the result that is being recorded.
    pub(crate) fn record(&mut self, instance: InstanceId, attempt: AttemptId) {
        self.to_settle.insert(instance, attempt);
    }

    /// The result of an instance is recorded. Returns the attempt that made it, if there was one.
    pub(crate) fn recorded(
        &mut self,
        instance: InstanceId,
        dir: &StoreDir,
        given_up: &BTreeSet<AttemptId>,
    ) -> Option<AttemptId> {
        let attempt = self.to_settle.remove(&instance)?;
        self.settled(attempt, dir, given_up);
        Some(attempt)
    }

    /// The result of an attempt is recorded or dropped: removes its files. The next run collects those that were given up.
    pub(crate) fn settled(&mut self, attempt: AttemptId, dir: &StoreDir, given_up: &BTreeSet<AttemptId>) {
        let intent = self.noted.remove(&attempt);
        // A group has one for all its members.
        let is_needed = |of: &Arc<Intent>| {
            self.noted.values().any(|other| Arc::ptr_eq(other, of))
                || of.members.iter().any(|member| given_up.contains(&member.attempt))
        };
        if let Some(intent) = intent.filter(|of| !is_needed(of)) {
            intent.remove(dir);
        }
        self.needed.remove(&attempt).into_iter().flatten().for_each(|path| self.leftovers.add(path));
    }

    /// Removes the files that are no longer needed.
    pub(crate) fn clear(&mut self) {
        self.leftovers.clear();
    }
}
