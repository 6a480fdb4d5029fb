//! The plan: decisions for everything that can be decided before anything runs. Knows no files.

use std::collections::{BTreeMap, BTreeSet};

use super::{Context, Decision, Force, Lookup, decide, without_attempt};
use crate::reason::Cause;
use crate::why::{Reason, Why};
use crate::{Expansion, Instance, InstanceId, Outcome, Planned, RunId, Settled, StepResult};

/// What would happen.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Plan {
    /// Every instance that was asked for or is needed, in order of id.
    pub items: Vec<Item>,
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
        /// How it had ended.
        outcome: Outcome,
        /// The run that produced it.
        from: RunId,
        /// Its metrics are read again from what that run kept.
        read_again: bool,
    },
    /// It is to run.
    Run(Vec<Reason>),
    /// Decided when these have run: labels, or a step's name where several of its instances are meant.
    After(Vec<String>),
    /// It will not run.
    Refused {
        /// `skipped`, `does_not_fit`, or `failed` for what cannot be read or resolved.
        outcome: Outcome,
        /// Why.
        cause: Cause,
    },
}

impl Plan {
    /// Is there anything to run?
    pub fn has_work(&self) -> bool {
        self.items.iter().any(|item| matches!(item.state, State::Run(_) | State::After(_)))
    }
}

impl From<&State> for Planned {
    fn from(state: &State) -> Self {
        match state {
            State::Cached { .. } => Planned::Cached,
            State::Run(reasons) => Planned::Run { why: Why::of(reasons) },
            State::After(steps) => Planned::After { steps: steps.clone() },
            State::Refused { cause, .. } => Planned::Skipped { cause: cause.clone() },
        }
    }
}

/// Plans `wanted`, which is ascending and closed under needs.
pub fn plan(context: &Context<'_>, wanted: &[InstanceId], lookup: &mut dyn Lookup, force: &Force) -> Plan {
    fold(context, wanted, lookup, force, &mut |_, _, decision| decision).0
}

/// The same for a run that follows at once: `found` is given what is reused, which need not be looked up again.
pub fn plan_of_run(
    context: &Context<'_>,
    wanted: &[InstanceId],
    lookup: &mut dyn Lookup,
    force: &Force,
    found: &mut BTreeMap<InstanceId, Decision>,
) -> Plan {
    let mut find = |_: &mut dyn Lookup, instance: &Instance, decision: Decision| {
        if matches!(decision, Decision::Reuse { .. }) {
            found.insert(instance.id, decision.clone());
        }
        decision
    };
    fold(context, wanted, lookup, force, &mut find).0
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
    let expansion = context.expansion;
    let mut known = Known::new(expansion, wanted);
    let mut states: Vec<Option<State>> = vec![None; expansion.instances.len()];
    for &id in wanted {
        let instance = &expansion.instances[id.index()];
        if states[id.index()].is_some() {
            continue; // Decided together with the first of its group.
        }
        let together = together(expansion, instance);
        let needs = || together.iter().flat_map(|id| &expansion.instances[id.index()].needs);
        if let Some(blocked) = needs().find_map(|need| blocked(expansion, &states, need.on)) {
            for id in &together {
                states[id.index()] = Some(blocked.clone());
            }
            continue;
        }
        let pending: BTreeSet<InstanceId> = needs().map(|need| need.on).filter(|on| pending(&states, *on)).collect();
        if !pending.is_empty() {
            let after = State::After(names(expansion, &pending));
            for id in &together {
                states[id.index()] = Some(after.clone());
            }
            continue;
        }
        let decisions = decide(context, &together, &known, lookup, force);
        for (id, decision) in together.iter().zip(decisions) {
            let decision = adjust(lookup, &expansion.instances[id.index()], decision);
            states[id.index()] = Some(known.take(expansion, *id, decision));
        }
    }
    let items = wanted.iter().filter_map(|id| states[id.index()].take().map(|state| Item { id: *id, state }));
    (Plan { items: items.collect() }, known)
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
    matches!(states[on.index()], Some(State::Run(_) | State::After(_)))
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
    results: Vec<Option<StepResult>>,
}

impl Known {
    fn new(expansion: &Expansion, wanted: &[InstanceId]) -> Self {
        let mut read = vec![false; expansion.instances.len()];
        for id in wanted {
            for need in &expansion.instances[id.index()].needs {
                read[need.on.index()] = true;
            }
        }
        Known { read, results: vec![None; expansion.instances.len()] }
    }

    fn take(&mut self, expansion: &Expansion, id: InstanceId, decision: Decision) -> State {
        match decision {
            Decision::Reuse { result, read_again, .. } => {
                let read_again = read_again.is_some();
                let state = State::Cached { outcome: result.outcome, from: result.run.clone(), read_again };
                if self.read[id.index()] {
                    self.results[id.index()] = Some(*result);
                }
                state
            }
            Decision::Run { reasons, .. } => State::Run(reasons),
            Decision::Refused { outcome, cause } => {
                // As a run would have it, so that a table that shows it has the same fingerprint.
                let run = RunId(String::new());
                self.results[id.index()] = self.read[id.index()]
                    .then(|| without_attempt(expansion, id, outcome, Some(cause.clone()), &run, 0));
                State::Refused { outcome, cause }
            }
        }
    }
}

impl Settled for Known {
    fn result(&self, id: InstanceId) -> Option<&StepResult> {
        self.results[id.index()].as_ref()
    }
}
