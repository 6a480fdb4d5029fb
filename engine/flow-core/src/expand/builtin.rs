//! Lets built-in steps check their `with:` at planning time, given the steps that they see.

use std::collections::{BTreeMap, BTreeSet};

use indexmap::{IndexMap, IndexSet};
use serde_json::Value as Json;

use super::{
    Uses,
    prepare::{StepPlan, metrics},
    with::{known, object},
};
use crate::{
    Catalogue, PlannedStep, PlannedWith,
    spec::{
        at::{Problems, YamlPath},
        step::Step,
    },
};

/// Checks every built-in whose parameters are already known and the same for all of its instances. `named` are the
/// workflow parameters that each step depends on.
pub(super) fn check(
    steps: &[Step],
    plans: &[StepPlan],
    named: &[BTreeSet<String>],
    catalogue: &Catalogue,
    problems: &mut Problems,
) {
    for plan in plans.iter().filter(|plan| plan.sound && plan.uniform) {
        let Uses::Builtin(name) = &plan.uses else { continue };
        let Some(check) = catalogue.builtins.get(name).and_then(|provided| provided.check) else { continue };
        let Ok((with, unknown)) = known(&plan.with) else { continue };
        if !unknown.is_empty() || plan.sees.iter().any(|seen| !plans[*seen].sound) {
            continue;
        }
        let seen = plan.sees.iter().map(|n| (plans[*n].name.to_string(), seen(&steps[*n], &plans[*n], &named[*n])));
        let planned = PlannedWith { with: object(with.clone()), steps: seen.collect::<BTreeMap<_, _>>() };
        for wrong in check(&planned) {
            problems.value(&place(&plan.with.at, &with, &wrong.at), wrong.what);
        }
    }
}

fn seen(step: &Step, plan: &StepPlan, params: &BTreeSet<String>) -> PlannedStep {
    let axes = || {
        let mut axes: IndexMap<String, IndexSet<&Json>> = IndexMap::new();
        for (name, value) in plan.matrix.axes.iter().flat_map(|axis| &axis.values).flat_map(|value| &value.flat) {
            axes.entry(name.clone()).or_default().insert(value);
        }
        axes.into_iter().map(|(name, values)| (name, values.into_iter().cloned().collect())).collect()
    };
    PlannedStep {
        uses: plan.uses.name(),
        with: (*step.written).clone(),
        like: step.like.clone(),
        corun: step.parts.has("corun"),
        repeats: plan.repeats,
        axes: plan.absent.is_none().then(axes),
        metrics: metrics(step),
        params: params.iter().cloned().collect(),
    }
}

/// The place that a JSON pointer in the whole refers to.
fn place(at: &YamlPath, json: &Json, pointer: &str) -> YamlPath {
    let mut here = Some(json);
    pointer.split('/').skip(1).fold(at.clone(), |at, part| match (here, part.parse()) {
        (Some(Json::Array(list)), Ok(index)) => {
            here = list.get(index);
            at.index(index)
        }
        _ => {
            here = here.and_then(|json| json.get(part));
            at.key(part)
        }
    })
}
