//! Observations of earlier attempts, by step and point. Other modules draw conclusions from them.

use std::{
    cell::OnceCell,
    collections::{BTreeMap, BTreeSet},
    ops::Range,
    sync::Arc,
};

use indexmap::{IndexMap, IndexSet};
use serde_json::Value;

use super::{
    lazy::LazyValue,
    observation::Observation,
    surface::{Programs, Scale, Surface, model_of},
};
use crate::{
    Digest, Expansion, GpuSharing, Instance, InstanceId, Outcome, StepId, StepResult,
    sched::{Estimate, Event, contention::coefficient},
};

/// Observations of the steps of a workflow, as far as they were made with the parameters in force. Steps that do the same have
/// theirs in common.
#[derive(Clone, Debug)]
pub struct History<'a> {
    pub(super) expansion: &'a Expansion,
    pub(super) steps: Vec<OfStep>,
    /// Steps that do the same, by the first of them, with the position from which they are updated next.
    same_work: BTreeMap<StepId, (Vec<StepId>, usize)>,
    /// By GPU model: coefficients as they were seen, oldest first.
    pub(super) devices: BTreeMap<String, Vec<f64>>,
    /// The instances of the workflow by label, once there is an observation.
    labels: OnceCell<BTreeMap<Arc<str>, InstanceId>>,
    /// Core-seconds per epoch, summed over attempts, and the number of attempts. The key is the first step that does
    /// the same, and its inputs.
    work: BTreeMap<(usize, Vec<InstanceId>), (f64, u32)>,
}

/// Observations of one step.
#[derive(Clone, Debug, Default)]
pub(super) struct OfStep {
    /// Oldest first.
    pub(super) seen: Vec<Observation>,
    /// By the axes of its instances.
    pub(super) on: Vec<OnAxes>,
    /// What it is now.
    pub(super) now: Programs,
    /// Its current program never ran.
    pub(super) is_new: bool,
    /// What they all say.
    pub(super) whole: LazyValue<Estimate>,
    /// The last that had other parameters than those in force: of those, the name and what it was. Nothing follows from it.
    pub(super) otherwise: Option<(String, Value)>,
    /// The next waiting instance in turn for an update of its estimate.
    turn: InstanceId,
}

/// Observations that have the axes of an instance.
#[derive(Clone, Debug, Default)]
pub(super) struct OnAxes {
    pub(super) axes: Vec<String>,
    by_point: IndexMap<Vec<Value>, Vec<usize>>,
    /// Those that ended well.
    pub(super) ended: Vec<usize>,
    /// The values that these had, by axis.
    values: Vec<IndexSet<Value>>,
    /// The surfaces through all of these, and through the undisturbed ones.
    pub(super) surfaces: [LazyValue<Surface>; 2],
}

/// Max instances of a step whose estimates are updated after a result: the first ones, and as many of the others in
/// turn. If a sweep updated all waiting instances after each result, it would take quadratic time.
const MAX_UPDATES: usize = 64;

impl<'a> History<'a> {
    /// Nothing yet of these instances of a workflow, or of points that it does not have.
    pub fn new(expansion: &'a Expansion, instances: &'a [Instance]) -> Self {
        let mut steps = vec![OfStep::default(); expansion.steps.len()];
        let mut same_work: BTreeMap<StepId, (Vec<StepId>, usize)> = BTreeMap::new();
        for (step, facts) in (0..).map(StepId).zip(&expansion.steps) {
            if let Some(first) = facts.work_of {
                same_work.entry(first).or_insert_with(|| (vec![first], 0)).0.push(step);
            }
        }
        for instance in instances {
            let on = &mut steps[expansion.work_of(instance.step).index()].on;
            if !on.iter().any(|on| on.axes.iter().eq(instance.axes.keys())) {
                on.push(OnAxes {
                    axes: instance.axes.keys().cloned().collect(),
                    values: vec![IndexSet::new(); instance.axes.len()],
                    ..OnAxes::default()
                });
            }
        }
        let (devices, work) = (BTreeMap::new(), BTreeMap::new());
        History { expansion, steps, same_work, devices, labels: OnceCell::new(), work }
    }

    /// Attempts of a step in earlier runs, in any order and some of them twice.
    pub fn remember(&mut self, step: StepId, mut earlier: Vec<Observation>) {
        earlier.sort_by(|a, b| (a.at, &a.label, &a.run).cmp(&(b.at, &b.label, &b.run)));
        earlier.dedup_by(|a, b| (a.at, &a.label, &a.run) == (b.at, &b.label, &b.run));
        earlier.into_iter().for_each(|seen| self.insert(step, seen));
    }

    /// Sets the current program of a step, if it ran. Otherwise the program that ran last counts as current.
    pub fn set_program(&mut self, step: StepId, program: Digest) {
        let of = self.of_mut(step);
        let ended = || of.seen.iter().filter(|seen| seen.outcome == Outcome::Ok);
        let ran = ended().filter(|seen| seen.program == Some(program));
        let ran: Programs = ran.map(|seen| (model_of(seen).to_owned(), seen.program)).collect();
        of.is_new = ran.is_empty() && ended().all(|seen| seen.program.is_some());
        of.now.extend(ran);
        of.forget();
    }

    /// Adds a slowdown from sharing a GPU of this model. Call it with the oldest first.
    pub fn remember_sharing(&mut self, model: &str, seen: &GpuSharing) {
        let coefficients = self.devices.entry(model.to_owned()).or_default();
        coefficients.extend(coefficient(seen.busy, seen.slowdown));
    }

    /// One attempt more; what the scheduler is to know of what sharing a GPU costs.
    pub fn observe(&mut self, of: InstanceId, result: &StepResult) -> Option<Event> {
        let seen = Observation::of(result);
        let priced = seen.sharing.as_ref().zip(seen.gpu_model.as_ref()).map(|(sharing, model)| {
            self.remember_sharing(model, sharing);
            let (devices, trial) = self.coefficients();
            Event::InterferenceLearned { devices, trial }
        });
        self.insert(self.expansion.instances[of.index()].step, seen);
        priced
    }

    /// New estimates for waiting instances of this step and of steps that do the same: for the first 64 at once, for
    /// the others in turn. Makes the surfaces that are not made yet ([`History::refits`]).
    pub fn update(&mut self, of: InstanceId, waiting: &BTreeSet<InstanceId>) -> Vec<Event> {
        let expansion = self.expansion;
        let id = expansion.instances[of.index()].step;
        let told = self.next_updates(id, waiting).into_iter().chain(self.other_updates(id, waiting));
        let told: Vec<InstanceId> = told.collect();
        let learned = |instance: InstanceId| Event::Learned {
            instance,
            estimate: self.estimate(&expansion.instances[instance.index()]),
        };
        told.into_iter().map(learned).collect()
    }

    /// The steps that do the same as this one, which is the first of them.
    pub(super) fn same_work(&self, first: StepId) -> Vec<StepId> {
        self.same_work.get(&first).map_or_else(|| vec![first], |(steps, _)| steps.clone())
    }

    /// Instances to update now in other steps that do the same. The number of steps is limited, so thousands of steps
    /// cost no more.
    fn other_updates(&mut self, id: StepId, waiting: &BTreeSet<InstanceId>) -> Vec<InstanceId> {
        let work = self.expansion.work_of(id);
        let Some((steps, turn)) = self.same_work.get(&work) else { return Vec::new() };
        let next: Vec<StepId> = steps.iter().cycle().skip(*turn).take(steps.len().min(MAX_UPDATES)).copied().collect();
        let (mut told, mut asked) = (Vec::new(), 0);
        while asked < next.len() && told.len() < MAX_UPDATES {
            if next[asked] != id {
                told.extend(self.next_updates(next[asked], waiting));
            }
            asked += 1;
        }
        if let Some((steps, turn)) = self.same_work.get_mut(&work) {
            *turn = (*turn + asked) % steps.len();
        }
        told
    }

    /// The instances of a step to update now.
    fn next_updates(&mut self, step: StepId, waiting: &BTreeSet<InstanceId>) -> Vec<InstanceId> {
        let Range { start, end } = self.expansion.steps[step.index()].instances.clone();
        let kin = |from: InstanceId| waiting.range(from..InstanceId(end.max(from.0))).copied().take(MAX_UPDATES);
        let mut told: Vec<InstanceId> = kin(InstanceId(start)).collect();
        let Some(behind) = told.last().map(|last| InstanceId(last.0 + 1)) else { return told };
        let turn = &mut self.steps[step.index()].turn;
        let others: Vec<InstanceId> = kin(behind.max(*turn)).collect();
        // After the last one it is the first one's turn again.
        *turn = others.get(MAX_UPDATES - 1).map_or(InstanceId(0), |last| InstanceId(last.0 + 1));
        told.extend(others);
        told
    }

    fn insert(&mut self, step: StepId, seen: Observation) {
        // It had other parameters than those in force. No axis has the name of one.
        let differs = |(name, value): (&String, &Value)| {
            self.expansion.params.get(name).is_some_and(|now| !is_structure(now) && now != value)
        };
        if let Some((name, value)) = seen.point.iter().find(|pair| differs(*pair)) {
            if seen.outcome == Outcome::Ok {
                self.of_mut(step).otherwise = Some((name.clone(), value.clone()));
            }
            return;
        }
        if let (Some(cores), Some(epoch_s), Some(of)) = (seen.cpu_cores, seen.epoch_s, self.instance(&seen.label)) {
            let (sum, attempts) = self.work.entry(self.dataset(of)).or_default();
            (*sum, *attempts) = (*sum + cores * epoch_s, *attempts + 1);
        }
        self.of_mut(step).insert(seen);
    }

    /// The observations of a step and of those that do the same.
    pub(super) fn of(&self, step: StepId) -> &OfStep {
        &self.steps[self.expansion.work_of(step).index()]
    }

    pub(super) fn of_mut(&mut self, step: StepId) -> &mut OfStep {
        &mut self.steps[self.expansion.work_of(step).index()]
    }

    /// The instance that has this label.
    pub(super) fn instance(&self, label: &str) -> Option<&'a Instance> {
        let instances = &self.expansion.instances;
        let labels = || instances.iter().map(|instance| (Arc::clone(&instance.label), instance.id)).collect();
        self.labels.get_or_init(labels).get(label).map(|id| &instances[id.index()])
    }

    /// The first step with the same program, and the inputs of the instance.
    fn dataset(&self, instance: &Instance) -> (usize, Vec<InstanceId>) {
        let steps = &self.expansion.steps;
        let uses = &steps[instance.step.index()].uses;
        let first = steps.iter().position(|step| step.uses == *uses).unwrap_or_default();
        (first, instance.needs.iter().map(|need| need.on).collect())
    }

    /// Core-seconds that an epoch takes, and of how many attempts this is the mean. CPU work of an epoch beside a GPU belongs to
    /// the dataset and what is done to it: pooled over all that do the same with the same. Without a GPU the CPU does the rest
    /// as well, which differs from point to point.
    pub(super) fn cpu_work(&self, instance: &Instance) -> Option<(f64, u32)> {
        if instance.request.gpus == 0 || instance.needs.is_empty() {
            return None;
        }
        let (sum, attempts) = self.work.get(&self.dataset(instance))?;
        Some((sum / f64::from(*attempts), *attempts))
    }

    /// Attempts of an instance, and of those that do the same.
    pub(super) fn own(&self, instance: &Instance) -> Vec<&Observation> {
        let of = self.of(instance.step);
        let point: Vec<Value> = instance.axes.values().cloned().collect();
        let seen = of.on(instance).and_then(|on| on.by_point.get(&point)).into_iter().flatten().map(|&n| &of.seen[n]);
        let point_of = |label: &str| label.split_once('[').map(|(_, point)| point.to_owned());
        seen.filter(|seen| !seen.point.is_empty() || point_of(&seen.label) == point_of(&instance.label)).collect()
    }

    /// The surface through all points of its step, if there are at least two. It prefers undisturbed attempts. Also
    /// returns the number of attempts that it does not use for that reason.
    pub(super) fn others(&self, instance: &Instance) -> Option<(&Surface, u32)> {
        let of = self.of(instance.step);
        let on = of.on(instance)?;
        let [all, calm] = [false, true].map(|calm| on.surface(calm, of));
        let [all_there, calm_there] = [false, true].map(|calm| on.surfaces[usize::from(calm)].there);
        let disturbed = all_there.saturating_sub(calm_there) as u32;
        let best = if calm.suffices(all, &of.now) { (calm, disturbed) } else { (all, 0) };
        Some(best).filter(|(surface, _)| surface.points > 1)
    }

    /// The first axis of an instance on which no attempt with its axes that ended well had its value, where there are such attempts.
    pub(super) fn unseen(&self, instance: &Instance) -> Option<(String, Value)> {
        let on = self.of(instance.step).on(instance).filter(|on| !on.ended.is_empty())?;
        let mut axes = instance.axes.iter().zip(&on.values);
        let ((axis, value), _) = axes.find(|((_, value), values)| !values.contains(*value))?;
        Some((axis.clone(), value.clone()))
    }

    /// By the axes that observations have: those that ended well, and best that nothing disturbed.
    pub(super) fn on_axes(&self, step: StepId) -> impl Iterator<Item = (&[String], Vec<&Observation>)> {
        let of = self.of(step);
        of.on.iter().map(move |on| {
            let ended: Vec<&Observation> = on.ended.iter().map(|&n| &of.seen[n]).collect();
            let calm: Vec<&Observation> = ended.iter().copied().filter(|seen| seen.is_calm()).collect();
            (&*on.axes, if calm.len() > 2 && 2 * calm.len() >= ended.len() { calm } else { ended })
        })
    }
}

impl OfStep {
    fn insert(&mut self, seen: Observation) {
        if seen.outcome == Outcome::Ok {
            self.is_new = false;
            let before = self.now.insert(model_of(&seen).to_owned(), seen.program);
            if before.is_some_and(|before| before != seen.program) {
                self.forget();
            }
        }
        for on in &mut self.on {
            let point: Option<Vec<Value>> = on.axes.iter().map(|name| seen.point.get(name).cloned()).collect();
            let Some(point) = point else { continue };
            if seen.outcome == Outcome::Ok {
                on.ended.push(self.seen.len());
                on.values.iter_mut().zip(&point).for_each(|(values, value)| _ = values.insert(value.clone()));
                let [all, calm] = &mut on.surfaces;
                all.one_more();
                if seen.is_calm() {
                    calm.one_more();
                }
            }
            on.by_point.entry(point).or_default().push(self.seen.len());
        }
        self.seen.push(seen);
        self.whole.one_more();
    }

    /// Discards what was derived from observations.
    fn forget(&mut self) {
        self.whole.forget();
        self.on.iter_mut().flat_map(|on| &mut on.surfaces).for_each(LazyValue::forget);
    }

    /// It was made by what the step is now, as far as that ran.
    pub(super) fn is_of_now(&self, seen: &Observation) -> bool {
        self.now.get(model_of(seen)).is_none_or(|now| *now == seen.program)
    }

    fn on(&self, instance: &Instance) -> Option<&OnAxes> {
        self.on.iter().find(|on| on.axes.iter().eq(instance.axes.keys()))
    }
}

impl OnAxes {
    fn surface(&self, calm: bool, of: &OfStep) -> &Surface {
        let seen = || self.ended.iter().map(|&n| &of.seen[n]).filter(|seen| !calm || seen.is_calm());
        self.surfaces[usize::from(calm)].get(|| {
            let seen: Vec<&Observation> = seen().collect();
            Surface::through(&Scale::of(&self.axes, &seen, &of.now), &seen)
        })
    }
}

fn is_structure(value: &Value) -> bool {
    value.is_array() || value.is_object() || value.is_null()
}
