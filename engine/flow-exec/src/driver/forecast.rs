//! What a run would take, from what the store knows. Reads; simulates nothing and decides nothing.

use std::collections::{BTreeMap, BTreeSet, btree_map::Entry};

use flow_core::{
    Expansion, GpuSharing, Instance, InstanceId, StepId,
    learn::{self, Checked, Forecast, History, Interference, Length, Observation, OnModel, Prediction},
    machine_of,
    plan::Plan,
    sched::OtherParameter,
};
use flow_store::{HISTORY, Results, StoreError, device_shape, shapes};

use super::{Knowledge, Session, imports};
use crate::ExecError;

/// What a run of these instances would hand to the scheduler if this is its plan.
///
/// # Errors
/// The store cannot be read.
pub fn forecast(
    session: &Session,
    knowledge: &Knowledge,
    wanted: &[InstanceId],
    plan: &Plan,
) -> Result<Forecast, ExecError> {
    let expansion = &session.expansion;
    let (results, settled) = (knowledge.results(), learn::settled(plan));
    let may_run = |id| !settled.contains_key(&id);
    let observed = results.map(|results| observed(expansion, wanted, may_run, results)).transpose()?;
    let history = observed.unwrap_or_default().history(expansion, &expansion.instances);
    Ok(learn::forecast(wanted, plan, &history))
}

/// What is expected of a step's instances, or of points that it does not have: `solo`, `solo[batch=16]`, `solo/batch=48`. With
/// it the interference coefficient of each GPU model of this machine.
///
/// # Errors
/// There is no such step or axis; the store cannot be read.
pub fn predict(
    session: &Session,
    knowledge: &Knowledge,
    point: &str,
) -> Result<(Vec<Prediction>, Vec<Interference>), ExecError> {
    let expansion = &session.expansion;
    let points = learn::points(expansion, point).map_err(ExecError::Usage)?;
    let all: Vec<InstanceId> = expansion.instances.iter().map(|instance| instance.id).collect();
    let history = history(expansion, &points, &all, knowledge.results())?;
    Ok((points.iter().map(|point| history.predict(point)).collect(), history.devices()))
}

/// What points of a step would take if they trained so long, on each GPU model that they ran on, by label.
///
/// # Errors
/// There is no such step or axis, or too little has run; the store cannot be read.
pub fn on_each_model(
    session: &Session,
    knowledge: &Knowledge,
    point: &str,
    length: Length,
) -> Result<Vec<(String, Vec<OnModel>)>, ExecError> {
    let expansion = &session.expansion;
    let points = learn::points(expansion, point).map_err(ExecError::Usage)?;
    let all: Vec<InstanceId> = expansion.instances.iter().map(|instance| instance.id).collect();
    let mut history = history(expansion, &points, &all, knowledge.results())?;
    if let (Some(dir), Some(first)) = (knowledge.dir(), points.first()) {
        let step = &expansion.steps[first.step.index()].name;
        let imported = imports::of_workflow(dir, &expansion.workflow)?.into_iter().filter(|of| of.result.step == *step);
        // A machine of its own, also where one's own GPUs are of that model.
        let there = imported.map(|of| Observation {
            gpu_model: Some(machine_of(&of.result, Some(&of.host))),
            ..Observation::of(&of.result)
        });
        history.remember(first.step, there.collect());
    }
    let one = |point: &Instance| Ok((point.label.to_string(), history.on_each_model(point, length)?));
    points.iter().map(one).collect::<Result<_, String>>().map_err(ExecError::Usage)
}

/// How far predictions are off, by step.
#[derive(Debug, Default)]
pub struct CheckedSteps {
    /// What was measured and what the others of the step say, of steps with three points at least.
    pub steps: Vec<(String, Vec<Checked>)>,
    /// Steps that ran with other parameters, and with which.
    pub otherwise: Vec<(String, OtherParameter)>,
}

/// How good predictions are: of each step, or of one, every point that was measured, predicted from all others of it.
///
/// # Errors
/// There is no such step; the store cannot be read.
pub fn check(session: &Session, knowledge: &Knowledge, step: Option<&str>) -> Result<CheckedSteps, ExecError> {
    let expansion = &session.expansion;
    let step = step.map(|step| step.split(['/', '[']).next().unwrap_or(step));
    if let Some(step) = step {
        learn::points(expansion, step).map_err(ExecError::Usage)?;
    }
    let all: Vec<InstanceId> = expansion.instances.iter().map(|instance| instance.id).collect();
    let history = history(expansion, &expansion.instances, &all, knowledge.results())?;
    let steps = (0..).map(StepId).zip(&expansion.steps).filter(|(_, of)| step.is_none_or(|name| name == of.name));
    // What steps that do the same have in common is told once, unless one of them is asked for.
    let steps = steps.filter(|(_, of)| of.work_of.is_none() || step.is_some());
    let mut checked = CheckedSteps::default();
    for (id, of) in steps {
        let points = history.check(id);
        if !points.is_empty() {
            checked.steps.push((of.name.clone(), points));
        } else if let Some(otherwise) = history.otherwise(id) {
            checked.otherwise.push((of.name.clone(), otherwise));
        }
    }
    Ok(checked)
}

/// What the store has of earlier attempts of what is wanted and of the GPUs, to be asked about these instances.
fn history<'a>(
    expansion: &'a Expansion,
    instances: &'a [Instance],
    wanted: &[InstanceId],
    results: Option<&dyn Results>,
) -> Result<History<'a>, StoreError> {
    let observed = results.map(|results| observed(expansion, wanted, |_| true, results)).transpose()?;
    Ok(observed.unwrap_or_default().history(expansion, instances))
}

/// Earlier attempts, by step, and what it cost to share GPUs, by model.
#[derive(Default)]
pub(super) struct Observed {
    steps: BTreeMap<StepId, Vec<Observation>>,
    sharing: Vec<(String, GpuSharing)>,
}

/// What the store has of earlier attempts of what is wanted and of the GPUs, as far as that tells something of what `may_run`: on CPUs
/// an instance that was seen itself is expected by that alone.
///
/// # Errors
/// The store cannot be read.
pub(super) fn observed(
    expansion: &Expansion,
    wanted: &[InstanceId],
    may_run: impl Fn(InstanceId) -> bool,
    results: &dyn Results,
) -> Result<Observed, StoreError> {
    let mut observed = Observed::default();
    let (runs, others): (Vec<InstanceId>, Vec<InstanceId>) = wanted.iter().partition(|id| may_run(**id));
    let unseen = observed.read(expansion, &runs, results)?;
    let is_measured_by_others = |id: &InstanceId| {
        let instance = &expansion.instances[id.index()];
        instance.request.gpus > 0 || instance.repetition.is_some()
    };
    let needs_all = runs.iter().any(is_measured_by_others);
    let kin = |id: &InstanceId| {
        let step = expansion.instances[id.index()].step;
        needs_all || unseen.contains(&step) || unseen.contains(&expansion.work_of(step))
    };
    observed.read(expansion, &others.into_iter().filter(kin).collect::<Vec<_>>(), results)?;
    let models: BTreeSet<&String> = expansion.machine.gpus.iter().map(|gpu| &gpu.name).collect();
    for model in models {
        let told = results.history(&device_shape(model))?.into_iter().filter_map(|seen| seen.sharing);
        observed.sharing.extend(told.map(|sharing| (model.clone(), sharing)));
    }
    Ok(observed)
}

impl Observed {
    /// Reads what was seen of these instances, and says of which steps there is one of which nothing was.
    fn read(
        &mut self,
        expansion: &Expansion,
        ids: &[InstanceId],
        results: &dyn Results,
    ) -> Result<BTreeSet<StepId>, StoreError> {
        let mut instances: BTreeMap<StepId, Vec<String>> = BTreeMap::new();
        for id in ids {
            let instance = &expansion.instances[id.index()];
            let own = &*expansion.steps[instance.step.index()].name;
            // With it the step that does the same, whether or not that is wanted.
            for step in BTreeSet::from([instance.step, expansion.work_of(instance.step)]) {
                let name = &*expansion.steps[step.index()].name;
                let label = instance.label.replacen(own, name, 1);
                let [of_instance, of_step] = shapes(&expansion.workflow, name, &label);
                let seen = match self.steps.entry(step) {
                    Entry::Occupied(seen) => &*seen.into_mut(),
                    Entry::Vacant(first) => first.insert(results.history(&of_step)?),
                };
                // A step that nobody observed so often has all that was seen of its instances.
                if seen.len() >= HISTORY {
                    instances.entry(step).or_default().push(of_instance);
                }
            }
        }
        let mut unseen = BTreeSet::new();
        for (step, shapes) in instances {
            let seen = results.histories(&shapes)?;
            if seen.iter().any(Vec::is_empty) {
                unseen.insert(step);
            }
            self.steps.entry(step).or_default().extend(seen.into_iter().flatten());
        }
        Ok(unseen)
    }

    /// To be asked about these instances.
    pub(super) fn history<'a>(self, expansion: &'a Expansion, instances: &'a [Instance]) -> History<'a> {
        let mut history = History::new(expansion, instances);
        let mut by_work: BTreeMap<StepId, Vec<Observation>> = BTreeMap::new();
        for (step, seen) in self.steps {
            by_work.entry(expansion.work_of(step)).or_default().extend(seen);
        }
        by_work.into_iter().for_each(|(step, earlier)| history.remember(step, earlier));
        self.sharing.iter().for_each(|(model, sharing)| history.remember_sharing(model, sharing));
        history
    }
}
