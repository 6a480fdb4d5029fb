//! Decisions and settlements: what is looked up, what is recorded, what is settled without an attempt. Stores through the turn's
//! batch; the order of things is the scheduler's.

use std::collections::BTreeMap;

use flow_core::{
    AttemptId, CorunGpus, GpuSharing, InstanceId, Outcome, RunEvent, Settled, StepResult, learn,
    plan::{Decision, decide, standing_for, unfit, without_attempt},
    sched::{Answer, Event},
    why::sentence,
};
use flow_store::Results;

use super::{
    live::{Decided, Live},
    lookup::World,
};
use crate::{ExecError, clock};

impl Live<'_> {
    pub(super) fn look_up(&mut self, ids: &[InstanceId]) -> Result<(), ExecError> {
        let mut world = World {
            workflow: &self.session.expansion.workflow,
            folder: self.session.workspace.folder.clone(),
            results: Some(self.store),
            objects: Some(self.objects.clone()),
            inputs: self.inputs,
            damaged: BTreeMap::new(),
            error: None,
        };
        let decisions = decide(&self.session.context(), ids, &self.known, &mut world, self.force);
        let World { damaged, error, .. } = world;
        if let Some(error) = error {
            return Err(error.into());
        }
        for (fingerprint, damage) in damaged {
            self.batch.forget(&fingerprint);
            self.say(RunEvent::Notice {
                instance: ids.first().copied(),
                text: format!("a result is of no use: {damage}"),
            });
        }
        for (&instance, decision) in ids.iter().zip(decisions) {
            let answer = match decision {
                Decision::Reuse { result, parts } => {
                    let outcome = result.outcome;
                    if result.workflow != self.session.expansion.workflow {
                        // It is this workflow's last too: what changes next is told against it.
                        let parts = serde_json::to_value(&parts).unwrap_or_default();
                        let workflow = &self.session.expansion.workflow;
                        self.batch.tried(workflow, &result.label, result.fingerprint, &parts, self.run);
                    }
                    self.reuse(instance, *result);
                    Answer::Hit(outcome)
                }
                Decision::Run { fingerprint, parts, reasons } => {
                    self.decided.insert(instance, Decided { fingerprint, parts, reason: sentence(&reasons) });
                    Answer::Miss
                }
                Decision::Refused { outcome, reason } => {
                    self.refused.insert(instance, reason.clone());
                    self.settle_as(instance, outcome, reason);
                    Answer::Refused(outcome)
                }
            };
            self.queue.push_back(Event::Answered { instance, answer });
        }
        Ok(())
    }

    fn reuse(&mut self, instance: InstanceId, result: StepResult) {
        let (fingerprint, outcome, from) = (result.fingerprint, result.outcome, result.run.clone());
        self.say(RunEvent::Cached { instance, fingerprint, outcome, from });
        self.count("cached");
        self.know(instance, result);
    }

    /// The attempt is the instance's last.
    pub(super) fn record(&mut self, instance: InstanceId, attempt: AttemptId) -> Result<(), ExecError> {
        self.find_earlier(instance, attempt)?;
        let earlier = self.earlier.remove(&instance);
        self.recorded.push(instance);
        let Some(mut result) = self.ended.remove(&attempt) else {
            // It could not even be started.
            let reason = self.unstarted.remove(&attempt).unwrap_or_else(|| "it could not be started".to_owned());
            self.settle_as(instance, Outcome::Failed, reason);
            return Ok(());
        };
        let Some(decided) = self.decided.remove(&instance) else { return Ok(()) };
        if let Some(seen) = self.group_sharing(instance, &result) {
            result.circumstances.sharing = Some(seen);
        }
        self.learn(instance, &result);
        let parts = serde_json::to_value(&decided.parts).unwrap_or_default();
        let recorded = self.session.expansion.instances[instance.index()].record.contains(&result.outcome);
        let kept = result.outcome == Outcome::Ok || recorded;
        if let Some(earlier) = earlier.filter(|_| kept) {
            self.batch.observe(&result);
            let whose = if result.spoiled.is_empty() { "a measurement of its group" } else { "this measurement" };
            let text = format!("{whose} is spoiled and not kept; the earlier one, of run {}, stands", earlier.run);
            self.say(RunEvent::Notice { instance: Some(instance), text });
            self.reuse(instance, earlier);
        } else if kept {
            self.count(word(result.outcome));
            self.know(instance, result.clone());
            self.say(RunEvent::Recorded { instance, result: Box::new(result), parts });
        } else {
            // What was cancelled was not tried: the next run compares with what was there before.
            if result.outcome != Outcome::Cancelled {
                self.batch.tried(&result.workflow, &result.label, result.fingerprint, &parts, self.run);
            }
            self.batch.observe(&result);
            let blame = || self.blame_in_group(instance).filter(|_| result.outcome == Outcome::Cancelled);
            let reason = result.message.clone().or_else(blame);
            let reason = reason.unwrap_or_else(|| word(result.outcome).replace('_', " "));
            let outcome = result.outcome;
            self.settle_as(instance, outcome, reason);
            self.know(instance, result);
        }
        Ok(())
    }

    /// Before the first of a unit is recorded: where a measurement is spoiled, and the store has good ones of the whole unit,
    /// those stand. A group's results belong to one run.
    fn find_earlier(&mut self, instance: InstanceId, attempt: AttemptId) -> Result<(), ExecError> {
        let expansion = &self.session.expansion;
        let unit = match &expansion.instances[instance.index()].corun {
            Some(corun) => expansion.groups[corun.group.0 as usize].members.clone(),
            None => vec![instance],
        };
        let of_unit =
            |result: &StepResult| unit.iter().any(|id| *expansion.instances[id.index()].label == *result.label);
        let own = self.ended.get(&attempt).into_iter();
        let all = own.chain(self.ended.values().filter(|_| unit.len() > 1).filter(|result| of_unit(result)));
        if all.into_iter().all(|result| result.spoiled.is_empty()) {
            return Ok(());
        }
        let mut found = BTreeMap::new();
        for id in unit {
            let (Some(decided), instance) = (self.decided.get(&id), &expansion.instances[id.index()]) else {
                return Ok(());
            };
            // One that cannot be looked at for the moment stands as well.
            let whole = |result: &StepResult| !matches!(self.objects.missing(result), Ok(Some(_)));
            let good = |result: &StepResult| unfit(result, instance).is_none() && whole(result);
            let Some(result) = self.store.result(&decided.fingerprint)?.filter(good) else { return Ok(()) };
            found.insert(id, standing_for(result, instance));
        }
        self.earlier.append(&mut found);
        Ok(())
    }

    /// What ended a member of a group that did nothing wrong itself.
    fn blame_in_group(&self, instance: InstanceId) -> Option<String> {
        let expansion = &self.session.expansion;
        let corun = expansion.instances[instance.index()].corun.as_ref()?;
        let members =
            expansion.groups[corun.group.0 as usize].members.iter().map(|id| &expansion.instances[id.index()]);
        let failed = |result: &StepResult| !matches!(result.outcome, Outcome::Ok | Outcome::Cancelled);
        let mut failed = members.filter(|member| {
            let ended = self.ended.values().find(|result| *result.label == *member.label);
            self.known.result(member.id).or(ended).is_some_and(failed)
        });
        failed.next().map(|member| format!("{} of its group did not succeed", member.label))
    }

    fn know(&mut self, instance: InstanceId, result: StepResult) {
        self.want_gpus.remove(&instance);
        self.known.0[instance.index()] = Some(result);
    }

    /// What it took is known to those of its step that still wait for a GPU, and what sharing one costs to all.
    fn learn(&mut self, instance: InstanceId, result: &StepResult) {
        self.queue.extend(self.history.learn(instance, result, &self.want_gpus));
    }

    /// What a member of a group that shared its GPUs says of the price of that.
    fn group_sharing(&self, instance: InstanceId, result: &StepResult) -> Option<GpuSharing> {
        let expansion = &self.session.expansion;
        let corun = expansion.instances[instance.index()].corun.as_ref().filter(|c| c.gpus == CorunGpus::Shared)?;
        let members = &expansion.groups[corun.group.0 as usize].members;
        let result_of = |id: InstanceId| {
            let ended = || self.ended.values().find(|other| *other.label == *expansion.instances[id.index()].label);
            if id == instance { Some(result) } else { self.known.result(id).or_else(ended) }
        };
        let together: Option<Vec<&StepResult>> = members.iter().map(|&member| result_of(member)).collect();
        learn::of_group(&together?, self.known.0.iter().flatten())
    }

    pub(super) fn discard(&mut self, instance: InstanceId, attempt: AttemptId) {
        let ended = self.ended.remove(&attempt);
        let text = match ended {
            Some(result) if result.outcome != Outcome::Failed && !result.spoiled.is_empty() => {
                "its measurement is not to be trusted; it is measured once more".to_owned()
            }
            ended => {
                let message = ended.and_then(|result| result.message);
                format!("{}; it is tried again", message.unwrap_or_else(|| "it failed".to_owned()))
            }
        };
        self.say(RunEvent::Notice { instance: Some(instance), text });
    }

    /// Settled without a result in the store.
    pub(super) fn settle(&mut self, instance: InstanceId, outcome: Outcome, because: Option<InstanceId>) {
        if self.refused.contains_key(&instance) {
            return;
        }
        let label = |id: InstanceId| self.session.expansion.instances[id.index()].label.to_string();
        let reason = match (outcome, because) {
            (Outcome::Skipped, Some(id)) => format!("{} did not succeed", label(id)),
            (Outcome::Cancelled, Some(id)) => format!("{} failed, and -k was not given", label(id)),
            (Outcome::Cancelled, None) => "the run was cancelled".to_owned(),
            (Outcome::DoesNotFit, _) => "it asks for more than there is".to_owned(),
            (Outcome::Failed, _) => "a GPU that it needs was lost".to_owned(),
            (outcome, _) => word(outcome).replace('_', " "),
        };
        self.settle_as(instance, outcome, reason);
    }

    pub(super) fn count(&mut self, how: &str) {
        *self.counts.entry(how.to_owned()).or_default() += 1;
    }

    pub(super) fn settle_as(&mut self, instance: InstanceId, outcome: Outcome, reason: String) {
        let reason = self.secrets.hide(reason);
        self.count(word(outcome));
        let recorded = self.session.expansion.instances[instance.index()].record.contains(&outcome);
        self.failed |= !recorded && !matches!(outcome, Outcome::Ok | Outcome::Skipped | Outcome::Cancelled);
        if self.known.0[instance.index()].is_none() {
            let (expansion, now) = (&self.session.expansion, clock::unix_millis());
            self.know(instance, without_attempt(expansion, instance, outcome, &reason, self.run, now));
        }
        self.say(RunEvent::Settled { instance, outcome, reason });
    }

    /// Settled before anything ran: told to tables, not to the scheduler, which knows it from the task.
    pub(crate) fn settled_before(&mut self, instance: InstanceId, outcome: Outcome, reason: &str) {
        self.settle_as(instance, outcome, reason.to_owned());
    }
}

/// An outcome as the journal counts it.
pub(crate) fn word(outcome: Outcome) -> &'static str {
    match outcome {
        Outcome::Ok => "ok",
        Outcome::OutOfMemory => "out_of_memory",
        Outcome::TimedOut => "timed_out",
        Outcome::DoesNotFit => "does_not_fit",
        Outcome::Failed => "failed",
        Outcome::Cancelled => "cancelled",
        Outcome::Skipped => "skipped",
    }
}
