//! From a decision to a settled instance: lookups, records, and settling without an attempt. The scheduler determines
//! the order; the recorder stores.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use flow_core::{
    AttemptId, CorunGpus, Digest, GpuSharing, InstanceId, Outcome, Repeat, RunEvent, SettledResults, StepResult,
    fingerprint::Parts,
    learn::{self, History},
    plan::{Decision, ReusableResult, without_attempt},
    reason::{Cause, ClosedBy, Disturbance},
    sched::{Answer, Event},
    verdict::FOREIGN_CPU,
    why::RunReasons,
};
use flow_supervisor::clock;
use serde_json::Value;

use super::{decisions::LookedUp, recorder::Recorder};
use crate::{
    ExecError,
    driver::{begin::context::RunContext, recover::follow, updates::outbox::Outbox},
};

/// The key that counts instances whose verdict did not need them.
pub(crate) const NOT_NEEDED: &str = "not_needed";

/// A decision to run, until the result is recorded.
pub(crate) struct RunDecision {
    pub(crate) fingerprint: Digest,
    /// The fingerprint of its attempt.
    pub(crate) attempt: Digest,
    parts: Parts,
    pub(crate) why: RunReasons,
}

/// An ended attempt that the scheduler has not decided about yet.
enum UndecidedEnd {
    /// With this result. `continues`: another attempt may continue from its checkpoint.
    As { result: Box<StepResult>, continues: bool },
    /// It was never started.
    Unstarted(Outcome, Option<Cause>),
}

/// Instances on their way to being settled.
pub(crate) struct Outcomes {
    context: Arc<RunContext>,
    decided: BTreeMap<InstanceId, RunDecision>,
    refused: BTreeSet<InstanceId>,
    /// Instances that request GPUs and have no result yet.
    want_gpus: BTreeSet<InstanceId>,
    /// Those of them that are to run.
    waiting_for_gpus: BTreeSet<InstanceId>,
    ended: BTreeMap<AttemptId, UndecidedEnd>,
    /// Whether the run has warned that other programs use the CPU.
    warned_of_others: bool,
    /// Number of settled instances by outcome.
    pub(crate) counts: BTreeMap<String, u32>,
    /// True if an outcome was a failure, or a result is not kept because its inputs changed.
    pub(crate) failed: bool,
}

impl Outcomes {
    pub(crate) fn new(context: Arc<RunContext>) -> Outcomes {
        let instances = context.session.expansion.instances.iter();
        let want_gpus = instances
            .filter(|instance| instance.request.gpus > 0 && !instance.is_batch())
            .map(|instance| instance.id)
            .collect();
        Outcomes {
            context,
            decided: BTreeMap::new(),
            refused: BTreeSet::new(),
            want_gpus,
            waiting_for_gpus: BTreeSet::new(),
            ended: BTreeMap::new(),
            warned_of_others: false,
            counts: BTreeMap::new(),
            failed: false,
        }
    }

    /// Why an instance runs, and the fingerprint for its result.
    pub(crate) fn decided(&self, instance: InstanceId) -> Option<&RunDecision> {
        self.decided.get(&instance)
    }

    /// Instances that request GPUs of this machine and have no result yet.
    pub(crate) fn want_gpus(&self) -> &BTreeSet<InstanceId> {
        &self.want_gpus
    }

    /// Instances that request GPUs and are to run.
    pub(crate) fn waiting_for_gpus(&self) -> impl Iterator<Item = InstanceId> {
        self.waiting_for_gpus.iter().copied()
    }

    /// Converts the answers of a lookup to those for the scheduler.
    ///
    /// # Errors
    /// The store could not be read.
    pub(crate) fn looked_up(
        &mut self,
        answers: LookedUp,
        recorder: &mut Recorder,
        out: &mut Outbox,
    ) -> Result<(), ExecError> {
        if let Some(error) = answers.error {
            return Err(error.into());
        }
        follow::notice(&answers.useless).into_iter().for_each(|text| out.notice(None, text));
        for (instance, fingerprint, damage) in answers.damaged {
            recorder.batch.forget(&fingerprint);
            out.notice(Some(instance), format!("a stored result cannot be used: {damage}"));
        }
        out.lines.reserve(answers.gangs.len());
        for (ids, decisions) in answers.gangs {
            let is_orphaned = ids.first().is_some_and(|first| answers.running_orphans.contains(first));
            for (instance, decision) in ids.into_iter().zip(decisions) {
                let answer = self.answer(instance, decision, out);
                let answer = if is_orphaned && answer == Answer::Miss { Answer::Orphaned } else { answer };
                out.push(Event::Answered { instance, answer });
            }
        }
        Ok(())
    }

    /// Applies the decision about an instance, and returns the answer for the scheduler.
    pub(crate) fn answer(&mut self, instance: InstanceId, decision: Decision, out: &mut Outbox) -> Answer {
        match decision {
            Decision::Reuse { result, parts, read_again: Some(remarks) } => {
                self.read_again(instance, result, &parts, remarks, out)
            }
            Decision::Reuse { result, parts, read_again: None } => {
                let outcome = result.outcome;
                let workflow = &self.context.session.expansion.workflow;
                if result.workflow != *workflow {
                    // It is also the latest try of this workflow, with which the next change is compared.
                    let parts = serde_json::to_value(&parts).unwrap_or_default();
                    out.report(self.tried(&result, parts));
                }
                self.reuse(instance, result, out);
                Answer::Hit(outcome)
            }
            Decision::Unchanged { reusable, result } => {
                let outcome = reusable.outcome;
                match result {
                    Some(result) => self.reuse(instance, result, out),
                    None => self.reuse_unread(instance, reusable, out),
                }
                Answer::Hit(outcome)
            }
            Decision::Run { fingerprint, attempt, parts, reasons } => {
                if self.want_gpus.contains(&instance) {
                    self.waiting_for_gpus.insert(instance);
                }
                self.decided
                    .insert(instance, RunDecision { fingerprint, attempt, parts, why: RunReasons::of(&reasons) });
                Answer::Miss
            }
            Decision::NotNeeded { cause } => {
                // It is not shown as run.
                self.count(NOT_NEEDED);
                self.settled_as(instance, Outcome::Skipped, Some(cause), out);
                Answer::NotNeeded
            }
            Decision::Refused { outcome, cause } => {
                self.refused.insert(instance);
                self.settle_as(instance, outcome, Some(cause), out);
                Answer::Refused(outcome)
            }
        }
    }

    /// Keeps the result of an ended attempt.
    pub(crate) fn ended(&mut self, attempt: AttemptId, result: StepResult, continues: bool) {
        self.ended.insert(attempt, UndecidedEnd::As { result: Box::new(result), continues });
    }

    /// Keeps the outcome of an attempt that never started.
    pub(crate) fn unstarted(&mut self, attempt: AttemptId, outcome: Outcome, cause: Option<Cause>) {
        self.ended.insert(attempt, UndecidedEnd::Unstarted(outcome, cause));
    }

    fn results(&self) -> impl Iterator<Item = &StepResult> {
        self.ended.values().filter_map(|ended| match ended {
            UndecidedEnd::As { result, .. } => Some(&**result),
            UndecidedEnd::Unstarted(..) => None,
        })
    }

    /// The event that this workflow's instance was tried under the fingerprint of a result.
    fn tried(&self, result: &StepResult, parts: Value) -> RunEvent {
        RunEvent::Tried {
            workflow: self.context.session.expansion.workflow.clone(),
            label: result.label.clone(),
            run: self.context.run.clone(),
            fingerprint: result.fingerprint,
            parts,
        }
    }

    fn reuse(&mut self, instance: InstanceId, result: Arc<StepResult>, out: &mut Outbox) {
        let (fingerprint, outcome, from) = (result.fingerprint, result.outcome, result.run.clone());
        out.report(RunEvent::Cached { instance, fingerprint, outcome, from });
        self.count("cached");
        self.know(instance, result);
    }

    fn reuse_unread(&mut self, instance: InstanceId, reusable: ReusableResult, out: &mut Outbox) {
        let ReusableResult { fingerprint, outcome, from } = reusable;
        out.report(RunEvent::Cached { instance, fingerprint, outcome, from });
        self.count("cached");
        self.want_gpus.remove(&instance);
        self.context.known.set_unchanged(instance, fingerprint);
    }

    /// Records a finished attempt's metrics after a new reading, as if they had always been read that way.
    fn read_again(
        &mut self,
        instance: InstanceId,
        result: Arc<StepResult>,
        parts: &Parts,
        remarks: Vec<String>,
        out: &mut Outbox,
    ) -> Answer {
        let mut result = Box::new(Arc::unwrap_or_clone(result));
        let expansion = &self.context.session.expansion;
        result.workflow.clone_from(&expansion.workflow);
        // Another step that does the same work may have made it.
        result.step.clone_from(&expansion.steps[expansion.instances[instance.index()].step.index()].name);
        self.context.secrets.hide_in(&mut result.cause);
        remarks.into_iter().for_each(|text| out.notice(Some(instance), text));
        self.count("cached");
        self.know(instance, (*result).clone());
        let (outcome, parts) = (result.outcome, serde_json::to_value(parts).unwrap_or_default());
        out.report(RunEvent::Recorded { instance, result, parts, read_again: true });
        Answer::Hit(outcome)
    }

    /// Records the last attempt of an instance, with the reason if the window closed early, and with the earlier result
    /// that replaces a disturbed one.
    ///
    /// # Errors
    /// The attempt never ended.
    pub(crate) fn record(
        &mut self,
        instance: InstanceId,
        attempt: AttemptId,
        (closed_by, earlier): (Option<ClosedBy>, Option<Box<StepResult>>),
        history: &mut History<'_>,
        recorder: &mut Recorder,
        out: &mut Outbox,
    ) -> Result<(), ExecError> {
        recorder.record(instance);
        let mut result = match self.ended.remove(&attempt) {
            Some(UndecidedEnd::As { result, .. }) => result,
            Some(UndecidedEnd::Unstarted(outcome, cause)) => {
                self.settle_as(instance, outcome, cause, out);
                return Ok(());
            }
            None => return Err(ExecError::Fault(format!("attempt {} is to be recorded and never ended", attempt.0))),
        };
        self.waiting_for_gpus.remove(&instance);
        let Some(decided) = self.decided.remove(&instance) else { return Ok(()) };
        let expansion = &self.context.session.expansion;
        let step = &expansion.steps[expansion.instances[instance.index()].step.index()];
        result.circumstances.program = Some(decided.parts.program(&step.definition));
        if let Some(window) = &mut result.circumstances.corun {
            window.closed_by = closed_by;
        }
        if let Some(seen) = self.group_sharing(instance, &result) {
            result.circumstances.sharing = Some(seen);
        }
        out.events.extend(history.observe(instance, &result));
        let parts = serde_json::to_value(&decided.parts).unwrap_or_default();
        let recorded = self.context.instance(instance).record.contains(&result.outcome);
        let kept = result.outcome == Outcome::Ok || recorded;
        self.failed |= kept && result.disturbances.iter().any(Disturbance::is_of_content);
        if let Some(earlier) = earlier.filter(|_| kept) {
            out.report(RunEvent::Observed { result: result.clone() });
            let whose = if result.disturbances.is_empty() { "a measurement of its group" } else { "this measurement" };
            let text = format!("{whose} was disturbed and is dropped; the earlier one, of run {}, stays", earlier.run);
            out.notice(Some(instance), text);
            self.reuse(instance, Arc::from(earlier), out);
        } else if kept {
            self.warn_of_others(instance, &result, out);
            self.count(&result.outcome.to_string());
            self.know(instance, (*result).clone());
            out.report(RunEvent::Recorded { instance, result, parts, read_again: false });
        } else {
            // A cancelled attempt does not count as tried: the next run compares with the one before.
            if result.outcome != Outcome::Cancelled {
                out.report(self.tried(&result, parts.clone()));
            }
            let done = unread(&result, decided.attempt).or_else(|| uncollected(&result, &decided.parts));
            match done.map(Box::new) {
                Some(done) => {
                    // The attempt has the outputs, not the failure.
                    result.outputs.clear();
                    out.report(RunEvent::Recorded { instance, result: done, parts, read_again: false });
                }
                None => out.report(RunEvent::Observed { result: result.clone() }),
            }
            let inherited = || {
                let cancelled = result.outcome == Outcome::Cancelled;
                cancelled.then(|| self.cause_in_group(instance).unwrap_or(Cause::RunCancelled))
            };
            let (outcome, cause) = (result.outcome, result.cause.clone().or_else(inherited));
            self.know(instance, *result);
            self.settle_as(instance, outcome, cause, out);
        }
        Ok(())
    }

    /// Warns once per run that other programs used much of the CPU during a measurement.
    fn warn_of_others(&mut self, instance: InstanceId, result: &StepResult, out: &mut Outbox) {
        let used = result.circumstances.foreign_cpu.filter(|used| *used > FOREIGN_CPU);
        if let Some(used) = used.filter(|_| self.context.instance(instance).measured && !self.warned_of_others) {
            self.warned_of_others = true;
            let text = format!(
                "other programs used {:.0}% of the CPU; while they run, they disturb every measurement",
                used * 100.0
            );
            out.notice(Some(instance), text);
        }
    }

    /// If a measurement of a gang is disturbed, returns the whole gang. Stored good results replace it if there is one
    /// for each member, because a group's results belong to one run.
    pub(crate) fn disturbed_gang(&self, instance: InstanceId, attempt: AttemptId) -> Option<Vec<(InstanceId, Digest)>> {
        let expansion = &self.context.session.expansion;
        let gang = match &expansion.instances[instance.index()].corun {
            Some(corun) => expansion.groups[corun.group.0 as usize].members.clone(),
            None => vec![instance],
        };
        let of_gang =
            |result: &StepResult| gang.iter().any(|id| *expansion.instances[id.index()].label == *result.label);
        let own = |id: AttemptId| id == attempt;
        let disturbed = |(&id, ended): (&AttemptId, &UndecidedEnd)| match ended {
            UndecidedEnd::As { result, .. } => {
                (own(id) || gang.len() > 1 && of_gang(result)) && !result.disturbances.is_empty()
            }
            UndecidedEnd::Unstarted(..) => false,
        };
        let decided = |id: &InstanceId| Some((*id, self.decided.get(id)?.fingerprint));
        self.ended.iter().any(disturbed).then(|| gang.iter().map(decided).collect())?
    }

    /// The member that ended the group of an instance that did nothing wrong itself.
    fn cause_in_group(&self, instance: InstanceId) -> Option<Cause> {
        let expansion = &self.context.session.expansion;
        let corun = expansion.instances[instance.index()].corun.as_ref()?;
        let members =
            expansion.groups[corun.group.0 as usize].members.iter().map(|id| &expansion.instances[id.index()]);
        let failed = |result: &StepResult| !matches!(result.outcome, Outcome::Ok | Outcome::Cancelled);
        let mut failed = members.filter(|member| {
            let ended = self.results().find(|result| *result.label == *member.label);
            self.context.known.result(member.id).or(ended).is_some_and(failed)
        });
        failed.next().map(|member| Cause::MemberFailed { label: member.label.to_string() })
    }

    fn know(&mut self, instance: InstanceId, result: impl Into<Arc<StepResult>>) {
        self.want_gpus.remove(&instance);
        self.waiting_for_gpus.remove(&instance);
        self.context.known.set(instance, result.into());
    }

    /// The interference that a member of a group with shared GPUs measured.
    fn group_sharing(&self, instance: InstanceId, result: &StepResult) -> Option<GpuSharing> {
        let expansion = &self.context.session.expansion;
        let corun = expansion.instances[instance.index()].corun.as_ref().filter(|c| c.gpus == CorunGpus::Shared)?;
        let members = &expansion.groups[corun.group.0 as usize].members;
        let like = expansion.steps[expansion.instances[instance.index()].step.index()].like.as_deref()?;
        let result_of = |id: InstanceId| {
            let ended = || self.results().find(|other| *other.label == *expansion.instances[id.index()].label);
            if id == instance { Some(result) } else { self.context.known.result(id).or_else(ended) }
        };
        let together: Option<Vec<&StepResult>> = members.iter().map(|&member| result_of(member)).collect();
        learn::of_group(&together?, self.context.known.all().filter(|result| result.step == like))
    }

    /// Another attempt follows: drops the result of this one.
    pub(crate) fn discard(&mut self, instance: InstanceId, attempt: AttemptId, out: &mut Outbox) {
        let because = match self.ended.remove(&attempt) {
            Some(UndecidedEnd::As { result, .. })
                if result.outcome != Outcome::Failed && !result.disturbances.is_empty() =>
            {
                Repeat::Disturbed
            }
            Some(UndecidedEnd::As { result, continues: resumes }) => Repeat::Failed { cause: result.cause, resumes },
            Some(UndecidedEnd::Unstarted(_, cause)) => Repeat::Failed { cause, resumes: false },
            None => Repeat::Failed { cause: None, resumes: false },
        };
        out.report(RunEvent::Again { instance, because });
    }

    /// Settles an instance without a stored result.
    pub(crate) fn settle(
        &mut self,
        instance: InstanceId,
        outcome: Outcome,
        because: Option<InstanceId>,
        out: &mut Outbox,
    ) {
        if self.refused.contains(&instance) {
            return;
        }
        let label = |id: InstanceId| self.context.instance(id).label.to_string();
        let cause = match (outcome, because) {
            (Outcome::Skipped, Some(id)) => Some(Cause::NeedFailed { label: label(id) }),
            (Outcome::Cancelled, Some(id)) => Some(Cause::OtherFailed { label: label(id) }),
            (Outcome::Cancelled, None) => Some(Cause::RunCancelled),
            (Outcome::DoesNotFit, _) => Some(Cause::RequestTooLarge),
            (Outcome::Failed, _) => Some(Cause::GpuGone),
            (Outcome::Ok | Outcome::OutOfMemory | Outcome::TimedOut | Outcome::Skipped, _) => None,
        };
        self.settle_as(instance, outcome, cause, out);
    }

    fn count(&mut self, how: &str) {
        *self.counts.entry(how.to_owned()).or_default() += 1;
    }

    /// Settles for this reason, and creates a result that says so if there is none. The caller tells the scheduler,
    /// unless it already knows.
    pub(crate) fn settle_as(&mut self, instance: InstanceId, outcome: Outcome, cause: Option<Cause>, out: &mut Outbox) {
        let expansion = &self.context.session.expansion;
        let recorded = expansion.instances[instance.index()].record.contains(&outcome);
        self.count(&outcome.to_string());
        self.failed |= !recorded && !matches!(outcome, Outcome::Ok | Outcome::Skipped | Outcome::Cancelled);
        self.settled_as(instance, outcome, cause, out);
    }

    fn settled_as(&mut self, instance: InstanceId, outcome: Outcome, mut cause: Option<Cause>, out: &mut Outbox) {
        let context = Arc::clone(&self.context);
        let expansion = &context.session.expansion;
        context.secrets.hide_in(&mut cause);
        if !context.known.is_settled(instance) {
            let now = clock::unix_millis();
            self.know(instance, without_attempt(expansion, instance, outcome, cause.clone(), &context.run, now));
        }
        out.report(RunEvent::Settled { instance, outcome, cause });
    }
}

/// The result without metrics of an attempt that ended well but lacked required metrics. They can be read from it after
/// a new declaration.
fn unread(result: &StepResult, attempt: Digest) -> Option<StepResult> {
    let missed = matches!(result.cause, Some(Cause::NoMetrics { .. })) && result.kept.is_some();
    let done = || StepResult { fingerprint: attempt, outcome: Outcome::Ok, cause: None, ..result.clone() };
    missed.then(done)
}

/// The result of an attempt that ended well but did not write a declared output. Outputs can be collected from its work
/// folder after a new declaration. The cause stays, because it names the folder.
fn uncollected(result: &StepResult, parts: &Parts) -> Option<StepResult> {
    let lacks = matches!(result.cause, Some(Cause::NoOutput { .. })) && result.kept.is_some();
    let fingerprint = parts.uncollected().filter(|_| lacks)?;
    Some(StepResult { fingerprint, outcome: Outcome::Ok, ..result.clone() })
}
