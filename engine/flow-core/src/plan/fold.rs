//! The plan: decisions for everything that can be decided before anything runs. Knows no files.

use std::{
    cell::OnceCell,
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use super::{
    Context, Decision, Force, Lookup, Standing,
    decide::{Fingerprinted, Undecided},
    without_attempt,
};
use crate::fingerprint::Parts;
use crate::reason::Cause;
use crate::why::{Reason, Why};
use crate::{
    AskedResults, Digest, Expansion, Instance, InstanceId, LateResult, Need, Outcome, Planned, RunId, Settled, StepId,
    StepResult, Uses,
};

#[derive(Clone, Debug, Default, PartialEq)]
pub struct Plan {
    /// Every instance that was asked for or is needed, in order of id.
    pub items: Vec<Item>,
    /// Which program a step is now ([`Parts::program`](crate::fingerprint::Parts::program)), as far as an instance of it was looked up.
    pub programs: BTreeMap<StepId, Digest>,
}

/// One instance of a plan.
#[derive(Clone, Debug, PartialEq)]
pub struct Item {
    pub id: InstanceId,
    /// What would become of it.
    pub state: State,
}

/// What would become of an instance.
#[derive(Clone, Debug, PartialEq)]
pub enum State {
    /// A result is there.
    Cached {
        fingerprint: Digest,
        /// How it had ended.
        outcome: Outcome,
        /// The run that produced it.
        from: RunId,
        /// Its metrics are read again from what that run kept.
        read_again: bool,
    },
    /// It is to run.
    Run(Vec<Reason>),
    /// It is to run for these reasons, and goes on since that run, which does not live any more.
    GoesOn { reasons: Vec<Reason>, since: RunId },
    /// It runs when what is to run before leaves the verdict on its group undecided.
    MayRepeat {
        /// The step and its group.
        group: String,
        /// How often that runs at most.
        at_most: u32,
    },
    /// Decided when these have run: labels, or a step's name where several of its instances are meant.
    After(Vec<String>),
    /// It was planned for a verdict that is decided without it.
    NotNeeded {
        /// What that came to.
        cause: Cause,
    },
    /// It will not run.
    Refused {
        /// `skipped`, `does_not_fit`, or `failed` for what cannot be read or resolved.
        outcome: Outcome,
        cause: Cause,
    },
}

impl From<&Standing> for State {
    fn from(standing: &Standing) -> Self {
        State::Cached {
            fingerprint: standing.fingerprint,
            outcome: standing.outcome,
            from: standing.from.clone(),
            read_again: false,
        }
    }
}

impl Plan {
    /// Is there anything to run?
    pub fn has_work(&self) -> bool {
        self.items.iter().any(|item| item.state.may_run())
    }
}

impl State {
    /// An attempt may come of it.
    pub fn may_run(&self) -> bool {
        matches!(self, State::Run(_) | State::GoesOn { .. } | State::After(_) | State::MayRepeat { .. })
    }
}

impl From<&State> for Planned {
    fn from(state: &State) -> Self {
        match state {
            State::Cached { .. } => Planned::Cached,
            State::Run(reasons) => Planned::Run { why: Why::of(reasons), goes_on: None },
            State::GoesOn { reasons, since } => Planned::Run { why: Why::of(reasons), goes_on: Some(since.clone()) },
            State::After(steps) => Planned::After { steps: steps.clone() },
            State::MayRepeat { .. } => Planned::MayRepeat,
            State::NotNeeded { cause } => Planned::NotNeeded { cause: cause.clone() },
            State::Refused { cause, .. } => Planned::Skipped { cause: cause.clone() },
        }
    }
}

/// Plans `wanted`, which is ascending and closed under needs.
pub fn plan(context: &Context<'_>, wanted: &[InstanceId], lookup: &mut dyn Lookup, force: &Force) -> Plan {
    fold(context, wanted, lookup, force, &mut |_, _, decision| decision).0
}

/// The parts of the fingerprints that `wanted` have now, as far as they are known before anything runs.
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

/// The same for a run that follows at once: `found` is given what is reused, which need not be looked up again. What
/// [stands as it stood](Lookup::stands) is not even looked up once, unless something reads it that does not.
pub fn plan_of_run(
    context: &Context<'_>,
    wanted: &[InstanceId],
    lookup: &mut dyn Lookup,
    force: &Force,
    found: &mut BTreeMap<InstanceId, Decision>,
) -> Plan {
    // What members of a group learn of their GPUs they learn from results that nobody reads by name.
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
            found.append(&mut fold.known.standing());
            return fold.end(wanted).0;
        }
    }
    Plan::default()
}

/// Called with each instance that can be decided; what it returns counts.
pub(super) type Adjust<'a> = dyn FnMut(&mut dyn Lookup, &Instance, Decision) -> Decision + 'a;

/// The fold behind [`plan`].
pub(super) fn fold(
    context: &Context<'_>,
    wanted: &[InstanceId],
    lookup: &mut dyn Lookup,
    force: &Force,
    adjust: &mut Adjust<'_>,
) -> (Plan, Known) {
    let mut fold = Fold::new(context, wanted, force, false);
    wanted.iter().for_each(|&id| _ = fold.decide(id, lookup, adjust));
    fold.look_up(lookup, adjust);
    fold.end(wanted)
}

/// So many instances are looked up at once, about, and what is found of them is held. The store may be another process's, and where a
/// machine is busy each question waits until that one has a CPU, and this one again.
const AT_ONCE: usize = 4096;

struct Fold<'a> {
    context: &'a Context<'a>,
    force: &'a Force,
    /// What is said to stand as it stood does so.
    trusting: bool,
    known: Known,
    states: Vec<Option<State>>,
    programs: BTreeMap<StepId, Digest>,
    /// What is to be looked up next, none of which needs another of them.
    next: Vec<Fingerprinted<'a>>,
    /// The instances of that.
    is_next: BTreeSet<InstanceId>,
}

impl<'a> Fold<'a> {
    fn new(context: &'a Context<'a>, wanted: &[InstanceId], force: &'a Force, trusting: bool) -> Self {
        let states = vec![None; context.expansion.instances.len()];
        let known = Known::new(context.expansion, wanted);
        let (programs, next, is_next) = (BTreeMap::new(), Vec::new(), BTreeSet::new());
        Fold { context, force, trusting, known, states, programs, next, is_next }
    }

    fn end(mut self, wanted: &[InstanceId]) -> (Plan, Known) {
        let items = wanted.iter().filter_map(|id| self.states[id.index()].take().map(|state| Item { id: *id, state }));
        (Plan { items: items.collect(), programs: self.programs }, self.known)
    }

    /// Decides the next instance, or all but what is looked up for it. False where something was trusted to be there, is read now and
    /// is not: nothing counts then.
    fn decide(&mut self, id: InstanceId, lookup: &mut dyn Lookup, adjust: &mut Adjust<'_>) -> bool {
        let expansion = self.context.expansion;
        let instance = &expansion.instances[id.index()];
        if self.states[id.index()].is_some() || self.is_next.contains(&id) {
            return true; // Decided together with the first of its group.
        }
        if let Some(stands) = self.stands(instance, lookup) {
            self.states[id.index()] = Some(State::from(&stands));
            self.known.standing[id.index()] = Some(stands);
            return true;
        }
        let together = together(expansion, instance);
        let needs = || together.iter().flat_map(|id| &expansion.instances[id.index()].needs);
        if self.is_next.len() >= AT_ONCE || needs().any(|need| self.is_next.contains(&need.on)) {
            self.look_up(lookup, adjust);
        }
        if let Some(blocked) = needs().find_map(|need| blocked(expansion, &self.states, need.on)) {
            for id in &together {
                self.states[id.index()] = Some(blocked.clone());
            }
            return true;
        }
        let pending: BTreeSet<InstanceId> =
            needs().map(|need| need.on).filter(|on| pending(&self.states, *on)).collect();
        if !pending.is_empty() {
            let after = match &instance.again {
                Some(again) => State::MayRepeat { group: again.group.clone(), at_most: again.at_most },
                None => State::After(names(expansion, &pending)),
            };
            for id in &together {
                self.states[id.index()] = Some(after.clone());
            }
            return true;
        }
        match Fingerprinted::of(self.context, &together, &self.known, lookup, self.force) {
            Ok(unit) => {
                self.is_next.extend(together);
                self.next.push(unit);
            }
            Err(Undecided::As(decisions)) => self.take(&together, decisions, lookup, adjust),
            Err(Undecided::Gone(_)) => return false,
        }
        true
    }

    /// Looks up what is next.
    fn look_up(&mut self, lookup: &mut dyn Lookup, adjust: &mut Adjust<'_>) {
        let next = std::mem::take(&mut self.next);
        lookup.ahead(&next.iter().flat_map(Fingerprinted::sought).collect::<Vec<_>>());
        for unit in next {
            let ids: Vec<InstanceId> = unit.ids().collect();
            let decisions = unit.decide(lookup);
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
                Decision::Run { fingerprint, attempt, .. } if !self.force.covers(*id) => {
                    lookup.goes_on(instance, fingerprint, attempt)
                }
                _ => None,
            };
            let state = self.known.take(expansion, *id, decision);
            self.states[id.index()] = Some(match (state, since) {
                (State::Run(reasons), Some(since)) => State::GoesOn { reasons, since },
                (state, _) => state,
            });
        }
    }

    /// What stood for an instance and stands still: what it needs does so too, or is left out by the workflow itself.
    fn stands(&self, instance: &Instance, lookup: &mut dyn Lookup) -> Option<Standing> {
        let expansion = self.context.expansion;
        // What flow makes itself is published, and soon made.
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
            self.known.standing[on].is_some() || expansion.instances[on].settled().is_some()
        };
        if instance.needs.iter().all(as_before) { lookup.stands(instance) } else { None }
    }
}

/// The instances that are decided with this one: the members of its co-run group that can run at all.
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

fn pending(states: &[Option<State>], on: InstanceId) -> bool {
    states[on.index()].as_ref().is_some_and(State::may_run)
}

/// Something that cannot run although it should blocks whatever needs it. What was skipped by its own `when`, or recorded
/// that it does not fit, does not: whoever reads its output finds out.
fn blocked(expansion: &Expansion, states: &[Option<State>], on: InstanceId) -> Option<State> {
    let need = &expansion.instances[on.index()];
    let Some(State::Refused { .. }) = states[on.index()] else { return None };
    if need.skip.is_some() || need.does_not_fit.is_some() {
        return None;
    }
    let cause = Cause::NeedCannotRun { label: need.label.to_string() };
    Some(State::Refused { outcome: Outcome::Skipped, cause })
}

/// Labels; for several instances of a step the step's name.
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

/// Results found so far, as far as something reads them.
pub(super) struct Known {
    read: Vec<bool>,
    results: Vec<OnceCell<Arc<StepResult>>>,
    standing: Vec<Option<Standing>>,
    asked: AskedResults,
}

impl Known {
    fn new(expansion: &Expansion, wanted: &[InstanceId]) -> Self {
        let mut read = vec![false; expansion.instances.len()];
        for id in wanted {
            for need in &expansion.instances[id.index()].needs {
                read[need.on.index()] = true;
            }
        }
        let count = expansion.instances.len();
        Known {
            read,
            results: vec![OnceCell::new(); count],
            standing: vec![None; count],
            asked: AskedResults::default(),
        }
    }

    /// What stands as it stood, with the results that were read.
    fn standing(&mut self) -> BTreeMap<InstanceId, Decision> {
        let results = self.results.iter_mut().zip(&self.standing).enumerate();
        let decisions = results.filter_map(|(id, (result, standing))| {
            let (standing, result) = (standing.clone()?, result.take());
            Some((InstanceId(id as u32), Decision::Stands { standing, result }))
        });
        decisions.collect()
    }

    fn take(&mut self, expansion: &Expansion, id: InstanceId, decision: Decision) -> State {
        match decision {
            Decision::Reuse { result, read_again, .. } => {
                let read_again = read_again.is_some();
                let (fingerprint, outcome, from) = (result.fingerprint, result.outcome, result.run.clone());
                let state = State::Cached { fingerprint, outcome, from, read_again };
                if self.read[id.index()] {
                    self.results[id.index()] = result.into();
                }
                state
            }
            Decision::Stands { standing, .. } => State::from(&standing),
            Decision::Run { reasons, .. } => State::Run(reasons),
            Decision::NotNeeded { cause } => State::NotNeeded { cause },
            Decision::Refused { outcome, cause } => {
                // As a run would have it, so that a table that shows it has the same fingerprint.
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

impl Settled for Known {
    fn result(&self, id: InstanceId) -> Option<&StepResult> {
        if self.unread(id).is_some() {
            self.asked.ask(id);
        }
        self.results[id.index()].get().map(|result| &**result)
    }

    fn late(&self, id: InstanceId) -> LateResult {
        match self.unread(id) {
            Some(_) => LateResult::Unread(id, self.asked.clone()),
            None => LateResult::Read(self.results[id.index()].get().cloned()),
        }
    }

    fn unread(&self, id: InstanceId) -> Option<Digest> {
        let standing = self.standing[id.index()].as_ref().filter(|_| self.results[id.index()].get().is_none());
        standing.map(|standing| standing.fingerprint)
    }

    fn asked(&self) -> BTreeSet<InstanceId> {
        self.asked.take()
    }

    fn read(&self, id: InstanceId, result: StepResult) {
        let _ = self.results[id.index()].set(Arc::new(result));
    }
}
