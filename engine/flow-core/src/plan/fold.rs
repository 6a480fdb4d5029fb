//! The plan: decisions for everything that can be decided before anything runs. Knows no files.

use std::{
    cell::OnceCell,
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use super::{
    Context, Decision, Force, Lookup, ReusableResult,
    decide::{FingerprintedGang, MissingFingerprint},
    without_attempt,
};
use crate::fingerprint::Parts;
use crate::reason::Cause;
use crate::why::{Reason, RunReasons};
use crate::{
    Digest, Expansion, Instance, InstanceId, LateResult, Need, Outcome, PlannedAction, RequestedResults, RunId,
    SettledResults, StepId, StepResult, Uses,
};

#[derive(Clone, Debug, Default, PartialEq)]
pub struct Plan {
    /// Every requested or needed instance, in order of id.
    pub items: Vec<Item>,
    /// The present program of each step ([`Parts::program`](crate::fingerprint::Parts::program)), if it was looked up.
    pub programs: BTreeMap<StepId, Digest>,
}

/// One instance of a plan.
#[derive(Clone, Debug, PartialEq)]
pub struct Item {
    pub id: InstanceId,
    /// Its planned state.
    pub state: State,
}

/// The planned state of an instance.
#[derive(Clone, Debug, PartialEq)]
pub enum State {
    /// It has a result.
    Cached {
        fingerprint: Digest,
        /// The outcome of that result.
        outcome: Outcome,
        /// The run that produced it.
        from: RunId,
        /// Its metrics are read again from that run's stored output.
        read_again: bool,
        /// The object with the software environment in which it was made, if that is known.
        environment: Option<Digest>,
    },
    /// It will run.
    Run(Vec<Reason>),
    /// Its attempt of that run, which is dead, still runs or has ended. This run collects it.
    Orphaned { reasons: Vec<Reason>, since: RunId },
    /// It runs if the preceding runs leave the verdict on its group undecided.
    MayRepeat {
        /// The step and its group.
        group: String,
        /// Maximum number of repetitions.
        at_most: u32,
    },
    /// Decided once these have run: labels, or a step's name for several of its instances.
    After(Vec<String>),
    /// It was planned for a verdict that was reached without it.
    NotNeeded {
        /// The verdict.
        cause: Cause,
    },
    /// It will not run.
    Refused {
        /// `skipped`, `does_not_fit`, or `failed` if something cannot be read or resolved.
        outcome: Outcome,
        cause: Cause,
    },
}

impl From<&ReusableResult> for State {
    fn from(reusable: &ReusableResult) -> Self {
        State::Cached {
            fingerprint: reusable.fingerprint,
            outcome: reusable.outcome,
            from: reusable.from.clone(),
            read_again: false,
            environment: None,
        }
    }
}

impl Plan {
    /// Whether anything is to run.
    pub fn has_work(&self) -> bool {
        self.items.iter().any(|item| item.state.may_run())
    }
}

impl State {
    /// Whether it may lead to an attempt.
    pub fn may_run(&self) -> bool {
        matches!(self, State::Run(_) | State::Orphaned { .. } | State::After(_) | State::MayRepeat { .. })
    }
}

impl From<&State> for PlannedAction {
    fn from(state: &State) -> Self {
        match state {
            State::Cached { .. } => PlannedAction::Cached,
            State::Run(reasons) => PlannedAction::Run { why: RunReasons::of(reasons), running_in: None },
            State::Orphaned { reasons, since } => {
                PlannedAction::Run { why: RunReasons::of(reasons), running_in: Some(since.clone()) }
            }
            State::After(steps) => PlannedAction::After { steps: steps.clone() },
            State::MayRepeat { .. } => PlannedAction::MayRepeat,
            State::NotNeeded { cause } => PlannedAction::NotNeeded { cause: cause.clone() },
            State::Refused { cause, .. } => PlannedAction::Skipped { cause: cause.clone() },
        }
    }
}

/// Plans `wanted`, which is ascending and closed under needs.
pub fn plan(context: &Context<'_>, wanted: &[InstanceId], lookup: &mut dyn Lookup, force: &Force) -> Plan {
    fold(context, wanted, lookup, force, &mut |_, _, decision| decision)
}

/// The parts of the present fingerprints of `wanted`, as far as they are known before anything runs.
pub fn parts(context: &Context<'_>, wanted: &[InstanceId], lookup: &mut dyn Lookup) -> BTreeMap<InstanceId, Parts> {
    let mut found = BTreeMap::new();
    fold(context, wanted, lookup, &Force::Nothing, &mut |_, instance, decision| {
        if let Decision::Run { parts, .. } | Decision::Reuse { parts, .. } = &decision {
            found.insert(instance.id, parts.clone());
        }
        decision
    });
    found
}

/// The same for a run that follows at once: `found` receives the reused results, so that they need no second lookup.
/// [Unchanged results](Lookup::unchanged_result) are not even looked up once, unless an instance that is not unchanged reads them.
pub fn plan_of_run(
    context: &Context<'_>,
    wanted: &[InstanceId],
    lookup: &mut dyn Lookup,
    force: &Force,
    found: &mut BTreeMap<InstanceId, Decision>,
) -> Plan {
    // Members of a group read results about their GPUs that no expression names.
    for trusting in [context.expansion.groups.is_empty(), false] {
        found.clear();
        let mut find = |_: &mut dyn Lookup, instance: &Instance, decision: Decision| {
            if matches!(decision, Decision::Reuse { .. }) {
                found.insert(instance.id, decision.clone());
            }
            decision
        };
        let mut fold = Fold::new(context, wanted, force, trusting);
        if wanted.iter().all(|&id| fold.decide(id, lookup, &mut find)) {
            fold.look_up(lookup, &mut find);
            found.append(&mut fold.known.unchanged());
            return fold.end(wanted);
        }
    }
    Plan::default()
}

/// Called with each decided instance; its return value replaces the decision.
pub(super) type Adjust<'a> = dyn FnMut(&mut dyn Lookup, &Instance, Decision) -> Decision + 'a;

/// Implementation of [`plan`].
pub(super) fn fold(
    context: &Context<'_>,
    wanted: &[InstanceId],
    lookup: &mut dyn Lookup,
    force: &Force,
    adjust: &mut Adjust<'_>,
) -> Plan {
    let mut fold = Fold::new(context, wanted, force, false);
    wanted.iter().for_each(|&id| _ = fold.decide(id, lookup, adjust));
    fold.look_up(lookup, adjust);
    fold.end(wanted)
}

/// Approximate number of instances per lookup, whose answers are held in memory. The store may belong to another
/// process; on a busy machine each query waits for that process and then for this one.
const AT_ONCE: usize = 4096;

struct Fold<'a> {
    context: &'a Context<'a>,
    force: &'a Force,
    /// Whether to trust unchanged results.
    trusting: bool,
    known: PlanResults,
    states: Vec<Option<State>>,
    programs: BTreeMap<StepId, Digest>,
    /// The next gangs to look up. None of them needs another.
    next: Vec<FingerprintedGang<'a>>,
    /// Their instances.
    is_next: BTreeSet<InstanceId>,
}

impl<'a> Fold<'a> {
    fn new(context: &'a Context<'a>, wanted: &[InstanceId], force: &'a Force, trusting: bool) -> Self {
        let states = vec![None; context.expansion.instances.len()];
        let known = PlanResults::new(context.expansion, wanted);
        let (programs, next, is_next) = (BTreeMap::new(), Vec::new(), BTreeSet::new());
        Fold { context, force, trusting, known, states, programs, next, is_next }
    }

    fn end(mut self, wanted: &[InstanceId]) -> Plan {
        let items = wanted.iter().filter_map(|id| self.states[id.index()].take().map(|state| Item { id: *id, state }));
        Plan { items: items.collect(), programs: self.programs }
    }

    /// The environment of one of these instances, if it has yet to be made.
    fn unmade(&self, together: &[InstanceId], lookup: &mut dyn Lookup) -> Option<&'a str> {
        let expansion = self.context.expansion;
        let runs =
            together.iter().map(|id| &expansion.instances[id.index()]).filter(|instance| instance.settled().is_none());
        let mut declared = runs.filter_map(|instance| expansion.environment_of(instance));
        declared.find(|declared| lookup.environment(declared) == Ok(None)).map(|declared| &*declared.name)
    }

    /// Decides the next instance, except for its lookup. False if a trusted result is read now and is missing; then
    /// nothing counts.
    fn decide(&mut self, id: InstanceId, lookup: &mut dyn Lookup, adjust: &mut Adjust<'_>) -> bool {
        let expansion = self.context.expansion;
        let instance = &expansion.instances[id.index()];
        if self.states[id.index()].is_some() || self.is_next.contains(&id) {
            return true; // Decided together with the first of its group.
        }
        if let Some(stands) = self.unchanged_result(instance, lookup) {
            self.states[id.index()] = Some(State::from(&stands));
            self.known.reusable[id.index()] = Some(stands);
            return true;
        }
        let together = together(expansion, instance);
        let needs = || together.iter().flat_map(|id| &expansion.instances[id.index()].needs);
        if self.is_next.len() >= AT_ONCE || needs().any(|need| self.is_next.contains(&need.on)) {
            self.look_up(lookup, adjust);
        }
        if let Some(blocked) = needs().find_map(|need| blocked(expansion, &self.states, need.on)) {
            return self.decided(&together, &blocked);
        }
        let may_run = |on: &InstanceId| self.states[on.index()].as_ref().is_some_and(State::may_run);
        let pending: BTreeSet<InstanceId> = needs().map(|need| need.on).filter(may_run).collect();
        if !pending.is_empty() {
            let after = match &instance.again {
                Some(again) => State::MayRepeat { group: again.group.clone(), at_most: again.at_most },
                None => State::After(names(expansion, &pending)),
            };
            return self.decided(&together, &after);
        }
        if let Some(name) = self.unmade(&together, lookup) {
            return self.decided(&together, &State::After(vec![format!("environment {name}")]));
        }
        match FingerprintedGang::of(self.context, &together, &self.known, lookup, self.force) {
            Ok(gang) => {
                self.is_next.extend(together);
                self.next.push(gang);
            }
            Err(MissingFingerprint::As(decisions)) => self.take(&together, decisions, lookup, adjust),
            Err(MissingFingerprint::Gone(_)) => return false,
        }
        true
    }

    /// Notes the state of instances that are decided together, and returns true.
    fn decided(&mut self, together: &[InstanceId], state: &State) -> bool {
        together.iter().for_each(|id| self.states[id.index()] = Some(state.clone()));
        true
    }

    /// Looks up the collected gangs.
    fn look_up(&mut self, lookup: &mut dyn Lookup, adjust: &mut Adjust<'_>) {
        let next = std::mem::take(&mut self.next);
        lookup.ahead(&next.iter().flat_map(FingerprintedGang::lookups).collect::<Vec<_>>());
        for gang in next {
            let ids: Vec<InstanceId> = gang.ids().collect();
            let decisions = gang.decide(lookup);
            self.take(&ids, decisions, lookup, adjust);
        }
        self.is_next.clear();
    }

    fn take(&mut self, ids: &[InstanceId], decisions: Vec<Decision>, lookup: &mut dyn Lookup, adjust: &mut Adjust<'_>) {
        let expansion = self.context.expansion;
        for (id, decision) in ids.iter().zip(decisions) {
            let instance = &expansion.instances[id.index()];
            if let Decision::Reuse { parts, .. } | Decision::Run { parts, .. } = &decision {
                let definition = &expansion.steps[instance.step.index()].definition;
                self.programs.entry(instance.step).or_insert_with(|| parts.program(definition));
            }
            let decision = adjust(lookup, instance, decision);
            let since = match &decision {
                Decision::Run { reasons, .. } => reasons.iter().find_map(|reason| match reason {
                    Reason::Collects(since) => Some(since.clone()),
                    _ => None,
                }),
                _ => None,
            };
            let state = self.known.take(expansion, *id, decision);
            self.states[id.index()] = Some(match (state, since) {
                (State::Run(reasons), Some(since)) => State::Orphaned { reasons, since },
                (state, _) => state,
            });
        }
    }

    /// The unchanged result of an instance: each of its needs is also unchanged, or settled by the workflow itself.
    fn unchanged_result(&self, instance: &Instance, lookup: &mut dyn Lookup) -> Option<ReusableResult> {
        let expansion = self.context.expansion;
        // Built-in results are published, and quickly made.
        let step = &expansion.steps[instance.step.index()];
        let is_own = matches!(step.uses, Uses::Builtin(_));
        if !self.trusting
            || is_own
            || step.has_late_inputs
            || instance.settled().is_some()
            || self.force.covers(instance.id)
        {
            return None;
        }
        let as_before = |need: &Need| {
            let on = need.on.index();
            self.known.reusable[on].is_some() || expansion.instances[on].settled().is_some()
        };
        if instance.needs.iter().all(as_before) { lookup.unchanged_result(instance) } else { None }
    }
}

/// The instances that are decided together with this one: the members of its co-run group that can run at all.
fn together(expansion: &Expansion, instance: &Instance) -> Vec<InstanceId> {
    let can_run = |id: &InstanceId| {
        let member = &expansion.instances[id.index()];
        member.skip.is_none() && member.does_not_fit.is_none()
    };
    match &instance.corun {
        Some(member) if can_run(&instance.id) => {
            expansion.groups[member.group.index()].members.iter().copied().filter(can_run).collect()
        }
        _ => vec![instance.id],
    }
}

/// A need that cannot run although it should blocks its dependents. One that its own `when` skips, or that records that
/// it does not fit, does not: a reader of its output is refused later.
fn blocked(expansion: &Expansion, states: &[Option<State>], on: InstanceId) -> Option<State> {
    let need = &expansion.instances[on.index()];
    let Some(State::Refused { .. }) = states[on.index()] else { return None };
    if need.skip.is_some() || need.does_not_fit.is_some() {
        return None;
    }
    let cause = Cause::NeedCannotRun { label: need.label.to_string() };
    Some(State::Refused { outcome: Outcome::Skipped, cause })
}

/// Labels; for several instances of a step, the step's name.
fn names(expansion: &Expansion, ids: &BTreeSet<InstanceId>) -> Vec<String> {
    let step = |id: &InstanceId| expansion.instances[id.index()].step;
    let ids: Vec<InstanceId> = ids.iter().copied().collect();
    ids.chunk_by(|a, b| step(a) == step(b))
        .map(|of_step| match of_step {
            [one] => expansion.instances[one.index()].label.to_string(),
            several => expansion.steps[step(&several[0]).index()].name.clone(),
        })
        .collect()
}

/// Results so far, if something reads them.
struct PlanResults {
    read: Vec<bool>,
    results: Vec<OnceCell<Arc<StepResult>>>,
    reusable: Vec<Option<ReusableResult>>,
    requested: RequestedResults,
}

impl PlanResults {
    fn new(expansion: &Expansion, wanted: &[InstanceId]) -> Self {
        let mut read = vec![false; expansion.instances.len()];
        for id in wanted {
            for need in &expansion.instances[id.index()].needs {
                read[need.on.index()] = true;
            }
        }
        let count = expansion.instances.len();
        PlanResults {
            read,
            results: vec![OnceCell::new(); count],
            reusable: vec![None; count],
            requested: RequestedResults::default(),
        }
    }

    /// The unchanged results, with those that were read.
    fn unchanged(&mut self) -> BTreeMap<InstanceId, Decision> {
        let results = self.results.iter_mut().zip(&self.reusable).enumerate();
        let decisions = results.filter_map(|(id, (result, reusable))| {
            let (reusable, result) = (reusable.clone()?, result.take());
            Some((InstanceId(id as u32), Decision::Unchanged { reusable, result }))
        });
        decisions.collect()
    }

    fn take(&mut self, expansion: &Expansion, id: InstanceId, decision: Decision) -> State {
        match decision {
            Decision::Reuse { result, read_again, .. } => {
                let read_again = read_again.is_some();
                let (fingerprint, outcome, from) = (result.fingerprint, result.outcome, result.run.clone());
                let environment = result.circumstances.environment;
                let state = State::Cached { fingerprint, outcome, from, read_again, environment };
                if self.read[id.index()] {
                    self.results[id.index()] = result.into();
                }
                state
            }
            Decision::Unchanged { reusable, .. } => State::from(&reusable),
            Decision::Run { reasons, .. } => State::Run(reasons),
            Decision::NotNeeded { cause } => State::NotNeeded { cause },
            Decision::Refused { outcome, cause } => {
                // The same as in a run, so that a table that shows it has the same fingerprint.
                let run = RunId(String::new());
                if self.read[id.index()] {
                    let made_up = without_attempt(expansion, id, outcome, Some(cause.clone()), &run, 0);
                    self.results[id.index()] = Arc::new(made_up).into();
                }
                State::Refused { outcome, cause }
            }
        }
    }
}

impl SettledResults for PlanResults {
    fn result(&self, id: InstanceId) -> Option<&StepResult> {
        if self.unread(id).is_some() {
            self.requested.request(id);
        }
        self.results[id.index()].get().map(|result| &**result)
    }

    fn late(&self, id: InstanceId) -> LateResult {
        match self.unread(id) {
            Some(_) => LateResult::Unread(id, self.requested.clone()),
            None => LateResult::Read(self.results[id.index()].get().cloned()),
        }
    }

    fn unread(&self, id: InstanceId) -> Option<Digest> {
        let reusable = self.reusable[id.index()].as_ref().filter(|_| self.results[id.index()].get().is_none());
        reusable.map(|reusable| reusable.fingerprint)
    }

    fn requested(&self) -> BTreeSet<InstanceId> {
        self.requested.take()
    }

    fn read(&self, id: InstanceId, result: StepResult) {
        let _ = self.results[id.index()].set(Arc::new(result));
    }
}
