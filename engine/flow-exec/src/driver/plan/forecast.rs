//! Forecasts a run from the store's observations. Only reads; does not simulate or decide.

use std::collections::{BTreeMap, BTreeSet, btree_map::Entry};

use flow_core::{
    Digest, Expansion, GpuSharing, Instance, InstanceId, StepId, Uses,
    learn::{self, Forecast, HeldOutPoint, History, Interference, Length, Observation, OnModel, Prediction},
    machine_of,
    plan::{Force, Plan, State},
    sched::OtherParameter,
};
use flow_runs::StoreError;
use flow_store::{HISTORY, Store, device_shape, shapes};

use super::{Knowledge, plan};
use crate::{
    ExecError,
    driver::session::{Session, imports},
};

/// The estimates that a run of these instances would give to the scheduler under this plan.
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
    let observed = results.map(|results| observed(expansion, wanted, may_run, plan, results)).transpose()?;
    let history = observed.unwrap_or_default().history(expansion, &expansion.instances);
    Ok(learn::forecast(wanted, plan, &history))
}

/// The estimates of a step's instances or of new points (`solo`, `solo[batch=16]`, `solo/batch=48`), and the
/// interference coefficient of each GPU model of this machine.
///
/// # Errors
/// Unknown step or axis; the store cannot be read.
pub fn predict(
    session: &Session,
    knowledge: &Knowledge,
    point: &str,
) -> Result<(Vec<Prediction>, Vec<Interference>), ExecError> {
    let expansion = &session.expansion;
    let points = learn::points(expansion, point).map_err(ExecError::Usage)?;
    let history = history(session, knowledge, &points)?;
    Ok((points.iter().map(|point| history.predict(point)).collect(), history.devices()))
}

/// The expected time of points of a step for this training length, on each GPU model that they ran on, by label.
///
/// # Errors
/// Unknown step or axis, or too few results; the store cannot be read.
pub fn on_each_model(
    session: &Session,
    knowledge: &Knowledge,
    point: &str,
    length: Length,
) -> Result<Vec<(String, Vec<OnModel>)>, ExecError> {
    let expansion = &session.expansion;
    let points = learn::points(expansion, point).map_err(ExecError::Usage)?;
    let mut history = history(session, knowledge, &points)?;
    if let (Some(dir), Some(first)) = (knowledge.dir(), points.first()) {
        let step = &expansion.steps[first.step.index()].name;
        let imported = imports::of_workflow(dir, &expansion.workflow)?.into_iter().filter(|of| of.result.step == *step);
        // Another machine, even if this machine has the same GPU model.
        let there = imported.map(|of| Observation {
            gpu_model: Some(machine_of(&of.result, Some(&of.host))),
            ..Observation::of(&of.result)
        });
        history.remember(first.step, there.collect());
    }
    let one = |point: &Instance| Ok((point.label.to_string(), history.on_each_model(point, length)?));
    points.iter().map(one).collect::<Result<_, String>>().map_err(ExecError::Usage)
}

/// Prediction errors, by step.
#[derive(Debug, Default)]
pub struct CheckedSteps {
    /// Measured values and their predictions from the other points, for steps with at least three points.
    pub steps: Vec<(String, Vec<HeldOutPoint>)>,
    /// Steps that ran with other parameters, and those parameters.
    pub otherwise: Vec<(String, OtherParameter)>,
}

/// Prediction errors of one step or of all: each measured point is predicted from the other points.
///
/// # Errors
/// Unknown step; the store cannot be read.
pub fn check(session: &Session, knowledge: &Knowledge, step: Option<&str>) -> Result<CheckedSteps, ExecError> {
    let expansion = &session.expansion;
    let step = step.map(|step| step.split(['/', '[']).next().unwrap_or(step));
    if let Some(step) = step {
        learn::points(expansion, step).map_err(ExecError::Usage)?;
    }
    let history = history(session, knowledge, &expansion.instances)?;
    let steps = (0..).map(StepId).zip(&expansion.steps).filter(|(_, of)| step.is_none_or(|name| name == of.name));
    // Steps that do the same work are checked once, unless one of them is named.
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

/// The observations of all instances of the workflow and of the GPUs, as a history of these instances.
fn history<'a>(
    session: &'a Session,
    knowledge: &Knowledge,
    instances: &'a [Instance],
) -> Result<History<'a>, ExecError> {
    let expansion = &session.expansion;
    let Some(results) = knowledge.results() else { return Ok(History::new(expansion, instances)) };
    let all: Vec<InstanceId> = expansion.instances.iter().map(|instance| instance.id).collect();
    let mut observed = observed(expansion, &all, |_| true, &Plan::default(), results)?;
    // Only a plan, which looks at inputs, knows results under another name and the current version of a step. If
    // planning fails because an input is missing, the history does without.
    let steps: BTreeSet<StepId> = instances.iter().map(|instance| instance.step).collect();
    let steps = steps.into_iter().map(|step| &expansion.steps[step.index()]);
    let steps = steps.filter(|step| !matches!(step.uses, Uses::Builtin(_))).map(|step| step.name.clone());
    let steps: Vec<String> = steps.collect();
    let plan = || plan(session, knowledge, &session.wanted(&steps)?, &Force::Nothing);
    if !steps.is_empty()
        && let Ok(plan) = plan()
    {
        observed.add_answers(expansion, &plan, results)?;
    }
    Ok(observed.history(expansion, instances))
}

/// Earlier attempts by step, and the cost of sharing a GPU by model.
#[derive(Default)]
pub(crate) struct EarlierObservations {
    steps: BTreeMap<StepId, Vec<Observation>>,
    sharing: Vec<(String, GpuSharing)>,
    /// The current program of each step, as far as a plan knows it.
    programs: BTreeMap<StepId, Digest>,
}

/// The observations that help to estimate instances that `may_run`. On CPUs, an instance with observations of its own
/// needs no others.
///
/// # Errors
/// The store cannot be read.
pub(crate) fn observed(
    expansion: &Expansion,
    wanted: &[InstanceId],
    may_run: impl Fn(InstanceId) -> bool,
    plan: &Plan,
    results: &Store,
) -> Result<EarlierObservations, StoreError> {
    let mut observed = EarlierObservations::default();
    let (runs, others): (Vec<InstanceId>, Vec<InstanceId>) = wanted.iter().partition(|id| may_run(**id));
    let unseen = observed.read(expansion, &runs, results)?;
    let is_measured_by_others = |id: &InstanceId| {
        let instance = &expansion.instances[id.index()];
        instance.request.gpus > 0 || instance.repetition.is_some()
    };
    let needs_all = runs.iter().any(is_measured_by_others);
    let kin = |id: &InstanceId| {
        let step = expansion.instances[id.index()].step;
        let is_unseen = unseen.contains(&step) || unseen.contains(&expansion.work_of(step));
        needs_all || is_unseen || observed.is_of_several(step)
    };
    let kin: Vec<InstanceId> = others.into_iter().filter(kin).collect();
    observed.read(expansion, &kin, results)?;
    observed.add_answers(expansion, plan, results)?;
    let models: BTreeSet<&String> = expansion.machine.gpus.iter().map(|gpu| &gpu.name).collect();
    for model in models {
        let told = results.history(&device_shape(model))?.into_iter().filter_map(|seen| seen.sharing);
        observed.sharing.extend(told.map(|sharing| (model.clone(), sharing)));
    }
    Ok(observed)
}

impl EarlierObservations {
    /// Loads observations. Returns the steps that have an instance without any.
    fn read(
        &mut self,
        expansion: &Expansion,
        ids: &[InstanceId],
        results: &Store,
    ) -> Result<BTreeSet<StepId>, StoreError> {
        let mut instances: BTreeMap<StepId, Vec<String>> = BTreeMap::new();
        for id in ids {
            let instance = &expansion.instances[id.index()];
            let own = &*expansion.steps[instance.step.index()].name;
            // Includes the step that does the same work, wanted or not.
            for step in BTreeSet::from([instance.step, expansion.work_of(instance.step)]) {
                let name = &*expansion.steps[step.index()].name;
                let label = instance.label.replacen(own, name, 1);
                let [of_instance, of_step] = shapes(&expansion.workflow, name, &label);
                let seen = match self.steps.entry(step) {
                    Entry::Occupied(seen) => &*seen.into_mut(),
                    Entry::Vacant(first) => first.insert(results.history(&of_step)?),
                };
                // A step with fewer observations than the limit has those of all its instances loaded.
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

    /// Its observations come from several versions of the step.
    fn is_of_several(&self, step: StepId) -> bool {
        let seen = self.steps.get(&step).map_or(&[][..], Vec::as_slice);
        seen.iter().any(|other| other.program != seen[0].program)
    }

    /// For steps with fewer attempts than a history holds: adds the results of a plan that were made under another
    /// name.
    fn add_answers(&mut self, expansion: &Expansion, plan: &Plan, results: &Store) -> Result<(), StoreError> {
        self.programs.extend(&plan.programs);
        for (step, seen) in self.steps.iter_mut().filter(|(_, seen)| seen.len() < HISTORY) {
            let known: BTreeSet<&str> = seen.iter().map(|seen| &*seen.label).collect();
            let answer = |id: InstanceId| {
                let at = plan.items.binary_search_by_key(&id, |item| item.id).ok()?;
                let instance = &expansion.instances[id.index()];
                match plan.items[at].state {
                    State::Cached { fingerprint, .. } if !known.contains(&*instance.label) => {
                        Some((instance, fingerprint))
                    }
                    _ => None,
                }
            };
            let answers = expansion.steps[step.index()].ids().filter_map(answer).take(HISTORY - seen.len());
            let (instances, fingerprints): (Vec<&Instance>, Vec<Digest>) = answers.unzip();
            let found = results.results_of(&fingerprints)?.into_iter().zip(instances);
            seen.extend(found.filter_map(|(result, instance)| {
                let observed = Observation::of(&result?);
                let axes = instance.axes.iter().map(|(name, value)| (name.clone(), value.clone()));
                let point = observed.point.into_iter().chain(axes).collect();
                Some(Observation { label: instance.label.to_string(), point, ..observed })
            }));
        }
        Ok(())
    }

    /// Makes it a history of these instances.
    pub(crate) fn history<'a>(self, expansion: &'a Expansion, instances: &'a [Instance]) -> History<'a> {
        let mut history = History::new(expansion, instances);
        let mut by_work: BTreeMap<StepId, Vec<Observation>> = BTreeMap::new();
        for (step, seen) in self.steps {
            by_work.entry(expansion.work_of(step)).or_default().extend(seen);
        }
        by_work.into_iter().for_each(|(step, earlier)| history.remember(step, earlier));
        self.programs.iter().for_each(|(step, program)| history.set_program(*step, *program));
        self.sharing.iter().for_each(|(model, sharing)| history.remember_sharing(model, sharing));
        history
    }
}
