//! Other queries of an expansion: the instances that targets reach, and what a built-in step sees.

use std::collections::{BTreeMap, BTreeSet};

use indexmap::IndexSet;

use super::{Expansion, StepFacts, Uses, fit, resolve};
use crate::{
    Body, BuiltinInput, Circumstances, Diagnostic, Instance, InstanceId, Outcome, Render, RunId, SettledResults,
    StepId, StepResult, StepView,
    plan::without_attempt,
    reason::{Cause, Fault, Lack},
    selects,
    spec::at::{PlacePart, Problem},
};

/// A built-in's parameter that requests other machines' results.
const MACHINES: &str = "machines";

impl Expansion {
    /// Whether any step shows results of other machines.
    pub fn shows_machines(&self) -> bool {
        self.steps.iter().any(|step| matches!(step.uses, Uses::Builtin(_)) && step.with.contains_key(MACHINES))
    }

    /// The instances that targets name and all that they need, ascending. A target is a step or a label. A step means
    /// all of its instances, and a member of a co-run group means the group. No targets mean everything.
    ///
    /// # Errors
    /// An unknown name, with the nearest one; or instances that can never run on the machine.
    pub fn targets(&self, names: &[String]) -> Result<Vec<InstanceId>, Vec<Diagnostic>> {
        let wanted = self.reached(names)?;
        let refused: Vec<Problem> = self.unfit(&wanted).map(|(instance, lack)| self.refused(instance, lack)).collect();
        if refused.is_empty() { Ok(wanted) } else { Err(self.late.workflow.locate(refused)) }
    }

    /// Those of these instances that can never run on the machine, and why: of each step the first three that differ.
    pub fn unfit<'a>(&'a self, wanted: &[InstanceId]) -> impl Iterator<Item = (&'a Instance, &'a Lack)> {
        const SHOWN: usize = 3;
        let mut said: BTreeMap<StepId, BTreeSet<&Lack>> = BTreeMap::new();
        let unrunnable = wanted.iter().filter_map(|id| Some((&self.instances[id.index()], self.unrunnable.get(id)?)));
        unrunnable.filter(move |(instance, lack)| {
            let said = said.entry(instance.step).or_default();
            said.len() < SHOWN && said.insert(lack)
        })
    }

    fn refused(&self, instance: &Instance, lack: &Lack) -> Problem {
        let step = &self.late.workflow.steps[instance.step.index()];
        let key = fit::key(lack);
        let at = step.parts.value(key).map_or_else(|| step.at.clone(), |written| written.at.clone());
        let cap = if matches!(key, "gpus" | "corun") { ", cap it in a profile (`gpus:`)" } else { "" };
        let share = match lack {
            Lack::GroupGpus { .. } => "`gpus: shared` under `corun:` runs the group on the same GPUs; or ",
            _ => "",
        };
        let help = format!("{share}ask for less{cap}, or `record: [does_not_fit]` to have it as a result");
        let what = Diagnostic::new(format!("`{}` can never run here", instance.label));
        let what = Diagnostic { lack: Some(Box::new(lack.clone())), ..what.help(help) };
        Problem { at, on: PlacePart::Key, what }
    }

    fn reached(&self, names: &[String]) -> Result<Vec<InstanceId>, Vec<Diagnostic>> {
        if names.is_empty() {
            return Ok(self.instances.iter().map(|i| i.id).collect());
        }
        let mut wrong = Vec::new();
        let mut queue: Vec<InstanceId> = Vec::new();
        for name in names {
            match self.named(name) {
                Ok(ids) => queue.extend(ids),
                Err(what) => wrong.push(what),
            }
        }
        if !wrong.is_empty() {
            return Err(wrong);
        }
        let mut reached = vec![false; self.instances.len()];
        while let Some(id) = queue.pop() {
            if std::mem::replace(&mut reached[id.index()], true) {
                continue;
            }
            let instance = &self.instances[id.index()];
            queue.extend(instance.needs.iter().map(|n| n.on));
            if let Some(group) = &instance.corun {
                queue.extend(&self.groups[group.group.index()].members);
            }
        }
        Ok(self.instances.iter().map(|i| i.id).filter(|id| reached[id.index()]).collect())
    }

    /// The instances that a name refers to, without their needs: a step, an instance, or `solo[batch=16]` for all that
    /// have this batch.
    ///
    /// # Errors
    /// The name is unknown; with the nearest one.
    pub fn named(&self, name: &str) -> Result<Vec<InstanceId>, Diagnostic> {
        if let Some(step) = self.steps.iter().find(|s| s.name == name) {
            return Ok(step.ids().chain(step.again.iter().copied()).collect());
        }
        let found: Vec<InstanceId> = self.instances.iter().filter(|i| selects(name, &i.label)).map(|i| i.id).collect();
        if !found.is_empty() {
            return Ok(found);
        }
        let step = name.split('[').next().unwrap_or(name);
        Err(match self.steps.iter().find(|s| s.name == step) {
            Some(step) => {
                let labels: Vec<&str> = step.ids().map(|id| &*self.instances[id.index()].label).collect();
                no_instance(&step.name, name, &labels)
            }
            None => Diagnostic::new(format!("there is no step `{step}`"))
                .nearest(step, self.steps.iter().map(|s| s.name.as_str())),
        })
    }

    /// What a built-in step sees, as far as results show it. The caller fills in `series` and `files`. `None` for an
    /// instance of any other kind.
    ///
    /// # Errors
    /// As [`Expansion::resolve`].
    pub fn builtin_input(&self, id: InstanceId, settled: &dyn SettledResults) -> Result<Option<BuiltinInput>, Fault> {
        let instance = self.instances.get(id.index()).ok_or_else(|| resolve::no_instance(id))?;
        let Uses::Builtin(name) = &self.steps[instance.step.index()].uses else { return Ok(None) };
        let Body::Builtin { with, .. } = self.resolve(id, settled, Render::Paths)?.body else { return Ok(None) };
        let at = instance.step.index();
        let plan = &self.late.plans[at];
        let place = plan.place(id);
        let shows_machines = with.get(MACHINES) == Some(&true.into());
        let steps = self.steps[at]
            .sees
            .iter()
            .map(|on| {
                let facts = &self.steps[on.index()];
                let members = self.members(at, on.index(), place);
                let results: Vec<StepResult> = members.iter().map(|id| self.result(*id, settled)).collect();
                let again = plan.judges.iter().flat_map(|judged| &self.late.plans[*judged].again);
                let again = again.filter(|id| self.instances[id.index()].step == *on);
                let again = again.filter_map(|id| settled.result(*id)).filter(|result| result.was_tried());
                let imported = self.imported.iter().filter(|of| shows_machines && of.result.step == facts.name);
                let view = StepView {
                    uses: facts.uses.name(),
                    with: (*facts.with).clone(),
                    like: facts.like.clone(),
                    absent: facts.absent.as_deref().cloned(),
                    series: vec![None; results.len()],
                    files: vec![BTreeMap::new(); results.len()],
                    again: again.cloned().collect(),
                    imported: imported.cloned().collect(),
                    results,
                };
                (facts.name.clone(), view)
            })
            .collect();
        Ok(Some(BuiltinInput {
            workflow: self.workflow.clone(),
            title: self.title.clone(),
            with,
            behind: if name == "report" { self.behind(at, settled) } else { Vec::new() },
            steps,
            environments: BTreeMap::new(),
            files: BTreeMap::new(),
            profile: self.profile.clone(),
            // A table or a simulation shows only the parameters that it reads.
            set: if name == "report" { self.set.clone() } else { BTreeMap::new() },
            machine: self.machine.clone(),
        }))
    }

    /// Circumstances of GPU measurements that the seen steps need, but that are not seen themselves. For a table of
    /// values computed from training runs, these are the training runs.
    fn behind(&self, at: usize, settled: &dyn SettledResults) -> Vec<Circumstances> {
        let seen: BTreeSet<StepId> = self.steps[at].sees.iter().copied().collect();
        let mut above = vec![false; self.instances.len()];
        let mut next: Vec<InstanceId> = seen.iter().flat_map(|step| self.steps[step.index()].ids()).collect();
        while let Some(id) = next.pop() {
            for need in &self.instances[id.index()].needs {
                if !std::mem::replace(&mut above[need.on.index()], true) {
                    next.push(need.on);
                }
            }
        }
        let above = self.instances.iter().filter(|i| above[i.id.index()] && !seen.contains(&i.step));
        let results = above.filter_map(|instance| settled.result(instance.id));
        let on_gpus = results.filter(|result| result.was_tried() && !result.circumstances.gpu_models.is_empty());
        on_gpus.map(|result| result.circumstances.clone()).collect()
    }

    /// The result of an instance; a placeholder if it never ran.
    fn result(&self, id: InstanceId, settled: &dyn SettledResults) -> StepResult {
        settled.result(id).cloned().unwrap_or_else(|| {
            let settled = self.instances[id.index()].settled();
            let (outcome, cause) = settled.unwrap_or((Outcome::Skipped, Cause::NotRun));
            without_attempt(self, id, outcome, Some(cause), &RunId(String::new()), 0)
        })
    }
}

/// The error for an unknown instance. If one axis value does not exist, the values of that axis help more than instance
/// names.
fn no_instance(step: &str, name: &str, labels: &[&str]) -> Diagnostic {
    const SHOWN: usize = 12;
    let what = Diagnostic::new(format!("`{step}` has no instance `{name}`"));
    let pairs = |label: &str| {
        let inside = label.split_once('[').map_or("", |(_, pairs)| pairs.strip_suffix(']').unwrap_or(pairs)).to_owned();
        let pairs = inside.split(',').filter_map(|pair| pair.split_once('='));
        pairs.map(|(axis, value)| (axis.trim().to_owned(), value.trim().to_owned())).collect::<Vec<_>>()
    };
    let there: IndexSet<(String, String)> = labels.iter().flat_map(|label| pairs(label)).collect();
    let Some((axis, _)) = pairs(name).into_iter().find(|pair| !there.contains(pair)) else {
        return what.nearest(name, labels.iter().copied());
    };
    let values: Vec<String> = there.iter().filter(|pair| pair.0 == axis).map(|pair| format!("`{}`", pair.1)).collect();
    if values.is_empty() {
        let axes: IndexSet<&str> = there.iter().map(|pair| &*pair.0).collect();
        return what.label(format!("it has no axis `{axis}`")).nearest(&axis, axes);
    }
    let more = match values.len().saturating_sub(SHOWN) {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    let shown = values.iter().take(SHOWN).map(String::as_str).collect::<Vec<_>>().join(", ");
    what.help(format!("`{axis}` is {shown}{more} here; give a run's `--set` again"))
}

impl StepFacts {
    /// The ids of its instances, in the order of the matrix.
    pub fn ids(&self) -> impl Iterator<Item = InstanceId> + use<> {
        self.instances.clone().map(InstanceId)
    }
}

impl Uses {
    /// `torch/train`, `flow/table`; `None` for a command.
    pub fn name(&self) -> Option<String> {
        match self {
            Uses::Plugin { plugin, step } => Some(format!("{plugin}/{step}")),
            Uses::Builtin(name) => Some(format!("flow/{name}")),
            Uses::Command => None,
        }
    }
}
