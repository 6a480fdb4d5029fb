//! The decision for one instance, or one co-run group. It does not depend on the order of decisions.

use std::{collections::BTreeSet, sync::Arc};

use serde_json::Value;

use super::{Context, Force, Lookup, LookupKeys, ReusableResult, again::again, reused_as, unfit};
use crate::fingerprint::{Parts, Provider, Subject, walk};
use crate::reason::{Cause, Fault};
use crate::why::{Reason, compare, name_accepted};
use crate::{
    Body, BuiltinInput, Digest, Instance, InstanceId, Metrics, Outcome, Render, ResolvedInstance, SettledResults,
    StepResult, Uses,
};

/// Decision for an instance whose needs are settled.
#[derive(Clone, Debug, PartialEq)]
pub enum Decision {
    /// Reuse this result, with the present label and axes of the instance.
    Reuse {
        result: Arc<StepResult>,
        /// The parts of its fingerprint.
        parts: Parts,
        /// Set if its numbers were read again, so that it must be recorded; warnings for the user.
        read_again: Option<Vec<String>>,
    },
    /// An earlier run of the workflow used this result, and it is still valid.
    Unchanged {
        reusable: ReusableResult,
        /// Its result, if something reads it.
        result: Option<Arc<StepResult>>,
    },
    /// Run it.
    Run {
        /// The key for its result.
        fingerprint: Digest,
        /// The fingerprint of its attempt: the same without `metrics:`.
        attempt: Digest,
        /// The parts of the fingerprint.
        parts: Parts,
        /// Why, the most telling first; never empty.
        reasons: Vec<Reason>,
    },
    /// It was planned for a verdict that was reached without it.
    NotNeeded {
        /// The verdict.
        cause: Cause,
    },
    Refused {
        /// Its outcome: `skipped`, `does_not_fit`, `failed`.
        outcome: Outcome,
        cause: Cause,
    },
}

impl Decision {
    /// The outcome of the reused result, if one is reused.
    pub fn reused(&self) -> Option<Outcome> {
        match self {
            Decision::Reuse { result, .. } => Some(result.outcome),
            Decision::Unchanged { reusable, .. } => Some(reusable.outcome),
            Decision::Run { .. } | Decision::NotNeeded { .. } | Decision::Refused { .. } => None,
        }
    }
}

/// Decides for instances whose needs are all settled: one, or all members of a co-run group, ascending. A group is
/// reused as a whole or not at all. The answers are in the order of `ids`.
pub fn decide(
    context: &Context<'_>,
    ids: &[InstanceId],
    settled: &dyn SettledResults,
    lookup: &mut dyn Lookup,
    force: &Force,
) -> Vec<Decision> {
    match FingerprintedGang::of(context, ids, settled, lookup, force) {
        Ok(gang) => {
            lookup.ahead(&gang.lookups().collect::<Vec<_>>());
            gang.decide(lookup)
        }
        Err(MissingFingerprint::As(decisions)) => decisions,
        Err(MissingFingerprint::Gone(label)) => {
            let error = Fault::from(format!(
                "the store no longer has the result of {label}, which was cached before; run it again"
            ));
            let cause = Cause::ResultUnseen { error };
            ids.iter().map(|_| Decision::Refused { outcome: Outcome::Failed, cause: cause.clone() }).collect()
        }
    }
}

/// Why instances have no fingerprints.
pub(super) enum MissingFingerprint {
    /// These decisions need no fingerprint.
    As(Vec<Decision>),
    /// They read the result of the instance with this label, which was valid before and is missing.
    Gone(String),
}

/// One instance, or one co-run group, whose fingerprints are known, and nothing else yet.
pub(super) struct FingerprintedGang<'a> {
    context: &'a Context<'a>,
    members: Vec<Member<'a>>,
    forced: bool,
    /// Set for a repetition: why.
    undecided: Option<Reason>,
}

struct Member<'a> {
    instance: &'a Instance,
    fingerprint: Digest,
    attempt: Digest,
    parts: Parts,
    /// Labels of the results it sees that `flow accept` kept.
    accepted: BTreeSet<String>,
}

impl<'a> FingerprintedGang<'a> {
    /// Computes the fingerprints of instances as for [`decide`]. Results are read lazily: the first request for one
    /// loads all that the instances need, at once.
    pub(super) fn of(
        context: &'a Context<'a>,
        ids: &[InstanceId],
        settled: &dyn SettledResults,
        lookup: &mut dyn Lookup,
        force: &Force,
    ) -> Result<FingerprintedGang<'a>, MissingFingerprint> {
        let instances = &context.expansion.instances;
        loop {
            let gang = FingerprintedGang::of_read(context, ids, settled, lookup, force);
            let asked = settled.requested();
            if asked.is_empty() {
                return gang.map_err(MissingFingerprint::As);
            }
            let needs = ids.iter().flat_map(|id| &instances[id.index()].needs).map(|need| need.on);
            let unread: BTreeSet<InstanceId> = asked.into_iter().chain(needs).collect();
            let unread = unread.into_iter().filter_map(|id| Some((&instances[id.index()], settled.unread(id)?)));
            let (unread, fingerprints): (Vec<&Instance>, Vec<Digest>) = unread.unzip();
            for (instance, result) in unread.into_iter().zip(lookup.previous_results(&fingerprints)) {
                match result.filter(|result| unfit(result, instance).is_none()) {
                    Some(result) => settled.read(instance.id, reused_as(result, instance)),
                    None => return Err(MissingFingerprint::Gone(instance.label.to_string())),
                }
            }
        }
    }

    /// The same, with the results read so far.
    fn of_read(
        context: &'a Context<'a>,
        ids: &[InstanceId],
        settled: &dyn SettledResults,
        lookup: &mut dyn Lookup,
        force: &Force,
    ) -> Result<FingerprintedGang<'a>, Vec<Decision>> {
        let instances: Vec<&Instance> = ids.iter().map(|id| &context.expansion.instances[id.index()]).collect();
        let mut undecided = None;
        if let Some(planned) = instances.iter().find_map(|instance| instance.again.as_deref()) {
            match again(planned, settled) {
                Ok(reason) => undecided = Some(reason),
                Err(cause) => return Err(ids.iter().map(|_| Decision::NotNeeded { cause: cause.clone() }).collect()),
            }
        }
        let mut members = Vec::with_capacity(ids.len());
        for instance in &instances {
            let parts = parts(context, instance, settled, lookup);
            members.push(parts.map_err(|refusal| refuse(&instances, instance, &refusal))?);
        }
        let mut attempts: Vec<Parts> = members.iter().map(Parts::without_metrics).collect();
        if instances.iter().any(|instance| instance.corun.is_some()) {
            Parts::join(&mut members);
            Parts::join(&mut attempts);
        }
        let forced = ids.iter().any(|id| force.covers(*id));
        let members = instances.into_iter().zip(members).zip(&attempts).map(|((instance, parts), attempt)| Member {
            instance,
            fingerprint: parts.digest(),
            attempt: attempt.digest(),
            parts,
            accepted: accepted(context, instance, settled),
        });
        Ok(FingerprintedGang { context, members: members.collect(), forced, undecided })
    }

    pub(super) fn ids(&self) -> impl Iterator<Item = InstanceId> {
        self.members.iter().map(|member| member.instance.id)
    }

    /// The lookups that it needs; none if it is forced.
    pub(super) fn lookups(&self) -> impl Iterator<Item = LookupKeys<'_>> {
        self.members.iter().filter(|_| !self.forced).map(|Member { instance, fingerprint, attempt, .. }| LookupKeys {
            fingerprint: *fingerprint,
            attempt: *attempt,
            label: &instance.label,
        })
    }

    /// Looks for results and decides. The answers are in the order of the instances.
    pub(super) fn decide(self, lookup: &mut dyn Lookup) -> Vec<Decision> {
        let FingerprintedGang { context, members, forced, undecided } = self;
        let instances: Vec<&Instance> = members.iter().map(|member| member.instance).collect();
        let mut found = Vec::with_capacity(members.len());
        for member in members {
            let instance = member.instance;
            let metrics = context.expansion.steps[instance.step.index()].metrics.as_deref();
            match find(member, metrics, lookup, forced) {
                Ok(mut one) => {
                    if let Some(why) = undecided.as_ref().filter(|_| !one.reasons.is_empty()) {
                        one.reasons.retain(|reason| *reason != Reason::NeverRan);
                        one.reasons.insert(0, why.clone());
                    }
                    found.push(one);
                }
                Err(refusal) => return refuse(&instances, instance, &refusal),
            }
        }
        // If one member of a group changed, only that member has its own reason.
        let is_changed = |found: &Candidate<'_>| {
            let is_other_group = |reason: &Reason| matches!(reason, Reason::Group | Reason::NeverRan);
            !found.reasons.is_empty() && !found.reasons.iter().any(is_other_group)
        };
        if let Some((changed, _)) = instances.iter().zip(&found).find(|(_, found)| is_changed(found)) {
            let because = Reason::GroupMember(changed.label.to_string());
            let only_group = found.iter_mut().filter(|found| found.reasons == [Reason::Group]);
            only_group.for_each(|found| found.reasons = vec![because.clone()]);
        }
        match instances.iter().zip(&found).find(|(_, found)| !found.reasons.is_empty()) {
            None => found.into_iter().filter_map(Candidate::reuse).collect(),
            Some((first, _)) => {
                let first = first.label.to_string();
                found.into_iter().map(|found| found.run(&first)).collect()
            }
        }
    }
}

/// Why an instance cannot even be fingerprinted.
struct Refusal {
    outcome: Outcome,
    cause: Cause,
}

impl Refusal {
    fn failed(cause: Cause) -> Refusal {
        Refusal { outcome: Outcome::Failed, cause }
    }
}

/// A member that cannot run stops its whole group.
fn refuse(members: &[&Instance], first: &Instance, refusal: &Refusal) -> Vec<Decision> {
    let decision = |member: &&Instance| {
        if member.id == first.id {
            return Decision::Refused { outcome: refusal.outcome, cause: refusal.cause.clone() };
        }
        let (label, because) = (first.label.to_string(), Box::new(refusal.cause.clone()));
        Decision::Refused { outcome: Outcome::Skipped, cause: Cause::MemberCannotRun { label, because } }
    };
    members.iter().map(decision).collect()
}

struct Candidate<'a> {
    member: Member<'a>,
    result: Option<StepResult>,
    read_again: Option<Vec<String>>,
    /// Why the result, if there is one, is not reused.
    reasons: Vec<Reason>,
}

impl Candidate<'_> {
    fn reuse(self) -> Option<Decision> {
        let Candidate { member: Member { instance, parts, .. }, result, read_again, .. } = self;
        let stands = |result| Arc::new(reused_as(result, instance));
        result.map(|result| Decision::Reuse { result: stands(result), parts, read_again })
    }

    fn run(self, first: &str) -> Decision {
        let Candidate { member: Member { fingerprint, attempt, parts, .. }, mut reasons, .. } = self;
        if reasons.is_empty() {
            reasons.push(Reason::GroupMember(first.to_owned()));
        }
        Decision::Run { fingerprint, attempt, parts, reasons }
    }
}

fn find<'a>(
    member: Member<'a>,
    metrics: Option<&Metrics>,
    lookup: &mut dyn Lookup,
    forced: bool,
) -> Result<Candidate<'a>, Refusal> {
    let Member { instance, fingerprint, attempt, ref parts, ref accepted } = member;
    let since = lookup.running_in(instance, &fingerprint, &attempt);
    if forced {
        let reasons = vec![since.map_or(Reason::Forced, Reason::Collects)];
        return Ok(Candidate { member, result: None, read_again: None, reasons });
    }
    let unseen = |error| Refusal::failed(Cause::ResultUnseen { error });
    let is_collected = since.is_some();
    let mut result = if is_collected { None } else { lookup.result(&fingerprint).map_err(unseen)? };
    let mut read_again = None;
    if !is_collected
        && result.is_none()
        && let Some(reading) = lookup.read_again(&attempt, metrics, instance).map_err(unseen)?
    {
        // If another run recorded this very result between the two lookups, nothing was read differently.
        read_again = (reading.result.fingerprint != fingerprint).then_some(reading.remarks);
        result = Some(StepResult { fingerprint, ..reading.result });
    }
    let last = if result.is_none() { lookup.last(&instance.label) } else { None };
    if !is_collected
        && last.is_some()
        && let Some(uncollected) = parts.uncollected().filter(|_| !instance.outputs.is_empty())
        && let Some(reading) = lookup.collect_again(&uncollected, metrics, instance).map_err(unseen)?
    {
        read_again = Some(reading.remarks);
        result = Some(StepResult { fingerprint, ..reading.result });
    }
    let mut reasons = match &result {
        Some(result) => match (unfit(result, instance), &result.cause) {
            (Some(unfit), _) => vec![Reason::NotReusable(unfit)],
            // Another run would give no better result.
            (None, Some(cause @ Cause::NoMetrics { .. })) if metrics.is_some_and(|metrics| metrics.required) => {
                return Err(Refusal::failed(cause.clone()));
            }
            (None, _) => Vec::new(),
        },
        None => match (lookup.damage(&fingerprint), last) {
            (Some(damage), _) => vec![Reason::Damaged(damage)],
            (None, None) => vec![Reason::NeverRan],
            (None, Some(last)) => {
                let nearest = nearest(last, parts, &mut || lookup.recorded(&instance.label));
                let mut differences = compare(&nearest, parts, &mut |digest| lookup.listed(digest));
                name_accepted(&mut differences, &nearest, parts, accepted);
                match differences.is_empty() {
                    true if lookup.is_forgotten(&instance.label, &fingerprint) => vec![Reason::Forgotten],
                    true => vec![Reason::NoResult],
                    false => differences,
                }
            }
        },
    };
    let continues = || (!reasons.is_empty() && lookup.continues(instance, &attempt)).then_some(Reason::Continues);
    if let Some(first) = since.map(Reason::Collects).or_else(continues) {
        reasons.retain(|reason| !matches!(reason, Reason::NeverRan | Reason::Forgotten | Reason::NoResult));
        reasons.insert(0, first);
    }
    Ok(Candidate { member, result, read_again, reasons })
}

/// How much earlier and present parts differ: in the author's values, and in total.
pub(super) fn difference(earlier: &Parts, now: &Parts) -> (usize, usize) {
    let changed = compare(earlier, now, &mut |_| None);
    let set = changed.iter().filter(|reason| matches!(reason, Reason::Value { .. }));
    (set.count(), changed.len())
}

/// Labels of results that a built-in step sees and that `flow accept` kept.
fn accepted(context: &Context<'_>, instance: &Instance, settled: &dyn SettledResults) -> BTreeSet<String> {
    let step = &context.expansion.steps[instance.step.index()];
    let needs = instance.needs.iter().filter(|_| matches!(step.uses, Uses::Builtin(_)));
    let results = needs.filter_map(|need| settled.result(need.on)).filter(|result| result.accepted.is_some());
    results.map(|result| result.label.clone()).collect()
}

/// The parts to compare an instance with: its last ones. If the author had set other values then: those that differ
/// least, and of several the newest. A trial with other parameters says little about a later edit.
fn nearest(last: Parts, now: &Parts, recorded: &mut dyn FnMut() -> Vec<Parts>) -> Parts {
    let differs = difference(&last, now);
    if differs.0 == 0 {
        return last;
    }
    let mut nearest = (differs, last);
    for earlier in recorded().into_iter().rev() {
        let differs = difference(&earlier, now);
        if differs < nearest.0 {
            nearest = (differs, earlier);
        }
    }
    nearest.1
}

/// The parts of an instance's fingerprint, without its group.
fn parts(
    context: &Context<'_>,
    instance: &Instance,
    settled: &dyn SettledResults,
    lookup: &mut dyn Lookup,
) -> Result<Parts, Refusal> {
    if let Some((outcome, cause)) = instance.settled() {
        return Err(Refusal { outcome, cause });
    }
    let unresolved = |error: Fault| {
        // If an expression reads a result that did not succeed, its author made no mistake.
        let succeeded = |id: InstanceId| settled.result(id).is_some_and(|result| result.outcome == Outcome::Ok);
        let blocked = instance.needs.iter().any(|need| !succeeded(need.on));
        let cause = Cause::Unresolved { error };
        Refusal { outcome: if blocked { Outcome::Skipped } else { Outcome::Failed }, cause }
    };
    let expansion = context.expansion;
    let resolved = expansion.resolve(instance.id, settled, Render::Digests).map_err(unresolved)?;
    let input = expansion.builtin_input(instance.id, settled).map_err(unresolved)?;
    let provider = provider(context, &resolved, input.as_ref())?;
    let inputs = instance
        .inputs
        .iter()
        .chain(&resolved.inputs)
        .map(|input| lookup.input(input))
        .collect::<Result<Vec<_>, _>>()
        .map_err(|error| Refusal::failed(Cause::NoInput { error }))?;
    let environment = match expansion.environment_of(instance) {
        None => None,
        Some(declared) => {
            let not_made = || Fault::from(format!("uv has not made it from `{}`", declared.written));
            let digest = lookup.environment(declared).and_then(|digest| digest.ok_or_else(not_made));
            let unknown = |error| Refusal::failed(Cause::NoEnvironment { name: declared.name.clone(), error });
            Some((&*declared.name, digest.map_err(unknown)?))
        }
    };
    let step = &expansion.steps[instance.step.index()];
    let metrics = step.metrics.as_deref().map_or(Value::Null, Metrics::value);
    Ok(walk(&Subject {
        instance,
        resolved: &resolved,
        provider,
        metrics: &metrics,
        inputs: &inputs,
        environment,
        unread: &step.unread,
        reads_seed: step.reads_seed,
        machine: expansion.machine_of(instance),
    }))
}

fn provider<'a>(
    context: &Context<'a>,
    resolved: &ResolvedInstance,
    input: Option<&'a BuiltinInput>,
) -> Result<Provider<'a>, Refusal> {
    let missing = |uses: String| Refusal::failed(Cause::NotProvided { uses });
    match &resolved.body {
        Body::Command { .. } => Ok(Provider::Command),
        Body::Plugin { plugin, step, .. } => {
            let facts = context.catalogue.plugins.get(plugin);
            let facts = facts.ok_or_else(|| missing(format!("{plugin}/{step}")))?;
            Ok(Provider::Plugin { digest: facts.digest, protocol: facts.protocol })
        }
        Body::Builtin { name, .. } => {
            let step = context.catalogue.builtins.get(name);
            let version = step.and_then(|step| step.version.as_deref()).unwrap_or_default();
            let input = input.ok_or_else(|| missing(format!("flow/{name}")))?;
            Ok(Provider::Builtin { version, input })
        }
    }
}
