//! What earlier attempts say of the next ones: estimates with their source and the number of attempts that they rest on, the
//! price of sharing a GPU. Reads observations and does arithmetic; decides nothing.

use std::collections::{BTreeMap, BTreeSet};

use flow_core::{
    Expansion, Instance, InstanceId, Machine, Outcome, Span, StepResult,
    predict::{Curve, Predicted, along},
    sched::{
        Estimate,
        contention::{UNKNOWN_DEVICE, coefficient, hoped, learned},
    },
};
use flow_store::{Observation, Results, StoreError, device_shape, shapes};
use serde_json::Value;

/// Observations of the steps of a workflow.
#[derive(Clone, Debug, Default)]
pub(crate) struct History {
    /// By step, oldest first.
    steps: BTreeMap<String, Vec<Observation>>,
    /// By instance: what it needs, which for a training is its dataset.
    needs: BTreeMap<String, Vec<InstanceId>>,
    /// By GPU model: coefficients as they were seen, oldest first.
    devices: BTreeMap<String, Vec<f64>>,
}

/// A GPU model and its price of sharing.
#[derive(Clone, Debug, PartialEq)]
pub struct Device {
    /// The model.
    pub model: String,
    /// Slowdown is 1 + this × (Σ busy − 1).
    pub coefficient: f64,
    /// Measurements that it rests on; without any it is 1.
    pub samples: u32,
}

impl Device {
    /// What the coefficient may yet turn out to be, if it is not known well.
    pub fn hoped(&self) -> Option<f64> {
        hoped(self.coefficient, self.samples)
    }
}

/// What an instance does while nothing disturbs it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Alone {
    /// Seconds an epoch; 0 where it has none.
    pub(crate) epoch_s: f64,
    /// Share of time in which its epochs keep its GPUs busy.
    pub(crate) busy: f64,
    /// Share of its life that its epochs take: before and after them its GPUs are idle.
    pub(crate) epochs: f64,
    /// Cores that it keeps busy.
    pub(crate) cores: f64,
}

/// What is expected of a point, as `flow predict` tells it.
#[derive(Clone, Debug)]
pub struct Prediction {
    /// The instance that it would be.
    pub label: String,
    /// As the scheduler would have it.
    pub estimate: Estimate,
    /// Seconds an epoch, where epochs are told.
    pub epoch: Option<Predicted>,
    /// Core-seconds an epoch of its dataset, and attempts that this is pooled over.
    pub cpu_work: Option<(f64, u32)>,
}

impl History {
    /// Reads what there is about these instances.
    ///
    /// # Errors
    /// The store cannot be read.
    pub(crate) fn load(
        expansion: &Expansion,
        wanted: &[InstanceId],
        results: &dyn Results,
    ) -> Result<History, StoreError> {
        let mut history = History::default();
        let mut seen = BTreeSet::new();
        for instance in &expansion.instances {
            history.needs.insert(instance.label.to_string(), instance.needs.iter().map(|need| need.on).collect());
        }
        for id in wanted {
            let instance = &expansion.instances[id.index()];
            let step = &expansion.steps[instance.step.index()].name;
            for shape in shapes(&expansion.workflow, step, &instance.label) {
                if seen.insert(shape.clone()) {
                    history.steps.entry(step.clone()).or_default().extend(results.history(&shape)?);
                }
            }
        }
        for observations in history.steps.values_mut() {
            observations.sort_by(|a, b| (a.at, &a.label, &a.run).cmp(&(b.at, &b.label, &b.run)));
            observations.dedup_by(|a, b| (a.at, &a.label, &a.run) == (b.at, &b.label, &b.run));
        }
        for gpu in &expansion.machine.gpus {
            if !history.devices.contains_key(&gpu.name) {
                let told = results.history(&device_shape(&gpu.name))?.into_iter().filter_map(|seen| seen.sharing);
                let coefficients = told.filter_map(|seen| coefficient(seen.busy, seen.slowdown)).collect();
                history.devices.insert(gpu.name.clone(), coefficients);
            }
        }
        Ok(history)
    }

    /// One attempt more.
    pub(crate) fn add(&mut self, result: &StepResult) {
        let seen = Observation::of(result);
        if let (Some(sharing), Some(model)) = (&seen.sharing, &seen.gpu_model) {
            let coefficients = self.devices.entry(model.clone()).or_default();
            coefficients.extend(coefficient(sharing.busy, sharing.slowdown));
        }
        self.steps.entry(result.step.clone()).or_default().push(seen);
    }

    /// The price of sharing each GPU of a machine.
    pub(crate) fn devices(&self, machine: &Machine) -> Vec<Device> {
        let device = |gpu: &flow_core::GpuFacts| {
            let seen = self.devices.get(&gpu.name).map_or(&[][..], Vec::as_slice);
            let coefficient = if seen.is_empty() { UNKNOWN_DEVICE } else { learned(seen.iter().copied()) };
            Device { model: gpu.name.clone(), coefficient, samples: seen.len() as u32 }
        };
        machine.gpus.iter().map(device).collect()
    }

    /// What attempts of an instance did on GPUs of this model while nothing disturbed them.
    pub(crate) fn alone(&self, expansion: &Expansion, instance: &Instance, model: &str) -> Option<Alone> {
        let step = &expansion.steps[instance.step.index()].name;
        let own = |seen: &&Observation| {
            let ended = seen.outcome == Outcome::Ok && seen.gpu_model.as_deref() == Some(model);
            ended && is_calm(seen) && agrees(expansion, instance, seen) && is_own(instance, seen)
        };
        let own: Vec<&Observation> = self.steps.get(step).into_iter().flatten().filter(own).collect();
        let own = quietest(&own);
        let of = |value: fn(&Observation) -> f64| median(own.iter().map(|seen| value(seen)).collect());
        Some(Alone {
            epoch_s: of(|seen| seen.epoch_s.unwrap_or(0.0))?,
            busy: of(|seen| seen.gpu_load)?,
            epochs: of(|seen| if seen.gpu_load > 0.0 { (busy(seen) / seen.gpu_load).min(1.0) } else { 1.0 })?,
            cores: of(|seen| seen.cpu_cores)?,
        })
    }

    /// What instances took for what they do alone in 1, where they had a GPU as it is in this machine with another, both ways.
    pub(crate) fn pairs(&self, expansion: &Expansion) -> BTreeMap<(InstanceId, InstanceId), f64> {
        let shared = |seen: &&Observation| {
            let gpus = &expansion.machine.gpus;
            let pair = seen.sharing.as_ref().is_some_and(|sharing| sharing.beside.len() == 1);
            pair && gpus.iter().all(|gpu| seen.gpu_model.as_ref() == Some(&gpu.name))
        };
        let shared: Vec<&Observation> = self.steps.values().flatten().filter(shared).collect();
        if shared.is_empty() {
            return BTreeMap::new();
        }
        let instances: BTreeMap<&str, &Instance> =
            expansion.instances.iter().map(|instance| (&*instance.label, instance)).collect();
        let mut pairs: BTreeMap<_, Vec<f64>> = BTreeMap::new();
        for seen in shared {
            let Some(sharing) = &seen.sharing else { continue };
            let found = (instances.get(&*seen.label), instances.get(&*sharing.beside[0]));
            if let (Some(one), Some(other)) = found
                && agrees(expansion, one, seen)
            {
                // Epochs were slowed down; the rest of its life was not.
                let model = seen.gpu_model.as_deref().unwrap_or_default();
                let epochs = self.alone(expansion, one, model).map_or(1.0, |alone| alone.epochs);
                pairs.entry((one.id, other.id)).or_default().push(1.0 + epochs * (sharing.slowdown - 1.0));
            }
        }
        let both = |&(one, other): &(InstanceId, InstanceId)| pairs.contains_key(&(other, one));
        let known = pairs.iter().filter(|(pair, _)| both(pair));
        known.filter_map(|(&pair, seen)| Some((pair, median(seen.clone())?))).collect()
    }

    /// What is known of an instance before it runs.
    pub(crate) fn estimate(&self, expansion: &Expansion, instance: &Instance) -> Estimate {
        self.predict(expansion, instance).estimate
    }

    /// The same, with what it rests on.
    pub(crate) fn predict(&self, expansion: &Expansion, instance: &Instance) -> Prediction {
        let step = &expansion.steps[instance.step.index()];
        let kin: Vec<&Observation> =
            self.steps.get(&step.name).into_iter().flatten().filter(|seen| agrees(expansion, instance, seen)).collect();
        let own: Vec<&Observation> = kin.iter().copied().filter(|seen| is_own(instance, seen)).collect();
        let ended: Vec<&Observation> = own.iter().copied().filter(|seen| seen.outcome == Outcome::Ok).collect();
        let calm: Vec<&Observation> = kin.iter().copied().filter(|seen| is_calm(seen)).collect();
        let (mut estimate, epoch) = if !ended.is_empty() {
            of_own(&ended)
        } else if let Some(others) = Others::of(instance, &calm).or_else(|| Others::of(instance, &kin)) {
            others.estimate()
        } else {
            of_step(&kin)
        };
        // Peaks, not medians: memory that does not suffice costs the attempt. However it ended, that is what it held.
        let peak = own.iter().map(|seen| seen.gpu_memory).max().filter(|peak| *peak > 0);
        estimate.gpu_memory = if ended.is_empty() { estimate.gpu_memory.max(peak) } else { peak };
        let here =
            |seen: &Observation| expansion.machine.gpus.iter().any(|gpu| seen.gpu_model.as_ref() == Some(&gpu.name));
        estimate.timed_alone = ended.iter().any(|seen| is_calm(seen) && seen.epoch_s.is_some() && here(seen));
        let cpu_work = self.cpu_work(expansion, instance);
        if let (Some((work, _)), Some(epoch)) = (cpu_work, epoch.filter(|epoch| epoch.value > 0.0)) {
            estimate.cpu_milli = Some((work / epoch.value * 1e3).round() as u32);
        }
        Prediction { label: instance.label.to_string(), estimate, epoch, cpu_work }
    }

    /// CPU work of an epoch beside a GPU belongs to the dataset and what is done to it: pooled over all that do the same with
    /// the same. Without a GPU the CPU does the rest as well, which differs from point to point.
    fn cpu_work(&self, expansion: &Expansion, instance: &Instance) -> Option<(f64, u32)> {
        let own = self.needs.get(&*instance.label).cloned();
        let needs = own.unwrap_or_else(|| instance.needs.iter().map(|need| need.on).collect());
        let uses = &expansion.steps[instance.step.index()].uses;
        let alike = expansion.steps.iter().filter(|step| step.uses == *uses);
        let seen = alike.filter_map(|step| self.steps.get(&step.name)).flatten().filter(|seen| {
            instance.request.gpus > 0
                && !needs.is_empty()
                && self.needs.get(&seen.label) == Some(&needs)
                && agrees(expansion, instance, seen)
        });
        let works: Vec<f64> = seen.filter_map(|seen| Some(seen.cpu_cores * seen.epoch_s?)).collect();
        (!works.is_empty()).then(|| (works.iter().sum::<f64>() / works.len() as f64, works.len() as u32))
    }
}

/// Whether an attempt had the parameters that are in force; axes are looked at elsewhere.
fn agrees(expansion: &Expansion, instance: &Instance, seen: &Observation) -> bool {
    seen.point.iter().all(|(name, value)| {
        instance.axes.contains_key(name)
            || expansion.params.get(name).is_none_or(|now| is_structure(now) || now == value)
    })
}

fn is_structure(value: &Value) -> bool {
    value.is_array() || value.is_object() || value.is_null()
}

fn is_own(instance: &Instance, seen: &Observation) -> bool {
    if seen.point.is_empty() {
        return seen.label == *instance.label;
    }
    instance.axes.iter().all(|(name, value)| seen.point.get(name) == Some(value))
}

/// It was alone, or nobody disturbed it: what it took and kept busy is its own.
fn is_calm(seen: &Observation) -> bool {
    !seen.beside || seen.undisturbed
}

/// Of attempts of one instance those that were alone; if none was, those that nobody disturbed; else all.
fn quietest<'a>(own: &[&'a Observation]) -> Vec<&'a Observation> {
    let only = |quiet: fn(&Observation) -> bool| own.iter().copied().filter(|seen| quiet(seen)).collect();
    let sets: [Vec<&Observation>; 2] = [only(|seen| !seen.beside), only(is_calm)];
    sets.into_iter().find(|set| !set.is_empty()).unwrap_or_else(|| own.to_vec())
}

/// From attempts of the instance itself that ended well: best from those that nothing disturbed.
fn of_own(own: &[&Observation]) -> (Estimate, Option<Predicted>) {
    let best = quietest(own);
    let walls: Vec<f64> = best.iter().map(|seen| seen.wall_s).collect();
    let duration = median(walls.clone());
    let mut estimate = common(&best);
    estimate.duration = duration.map(Span::from_secs_f64);
    estimate.range = (walls.len() > 1).then(|| {
        let (low, high) =
            walls.iter().fold((f64::INFINITY, 0.0f64), |(low, high), wall| (low.min(*wall), high.max(*wall)));
        (Span::from_secs_f64(low), Span::from_secs_f64(high))
    });
    estimate.samples = own.len() as u32;
    estimate.source = format!("{} of this instance", runs(own.len()));
    let epochs: Vec<(f64, f64)> = best.iter().filter_map(|seen| Some((1.0, seen.epoch_s?))).collect();
    (estimate, along(Curve::Any, &epochs, 1.0))
}

/// From attempts of other instances of its step, of which nothing better is known than that they are its step's.
fn of_step(kin: &[&Observation]) -> (Estimate, Option<Predicted>) {
    let ended: Vec<&Observation> = kin.iter().copied().filter(|seen| seen.outcome == Outcome::Ok).collect();
    if ended.is_empty() {
        return (Estimate { source: "never ran".to_owned(), ..Estimate::default() }, None);
    }
    let mut estimate = common(&ended);
    estimate.duration = median(ended.iter().map(|seen| seen.wall_s).collect()).map(Span::from_secs_f64);
    // Another instance's memory says nothing of this one's.
    estimate.samples = ended.len() as u32;
    estimate.source = format!("{} of its step", runs(ended.len()));
    (estimate, None)
}

fn common(seen: &[&Observation]) -> Estimate {
    let milli = |value: fn(&Observation) -> f64| {
        median(seen.iter().map(|seen| value(seen)).collect()).map(|value| (value * 1e3).round() as u32)
    };
    Estimate {
        cpu_milli: milli(|seen| seen.cpu_cores),
        gpu_busy_milli: milli(busy).filter(|_| seen.iter().any(|seen| seen.gpu_memory > 0)),
        ..Estimate::default()
    }
}

/// How busy an attempt kept its GPUs from start to end: while it starts, others have them.
fn busy(seen: &Observation) -> f64 {
    seen.gpu_load_whole.unwrap_or(seen.gpu_load)
}

fn runs(n: usize) -> String {
    if n == 1 { "1 run".to_owned() } else { format!("{n} runs") }
}

fn median(mut values: Vec<f64>) -> Option<f64> {
    values.sort_by(f64::total_cmp);
    let (low, high) = (values.get(values.len().saturating_sub(1) / 2)?, values.get(values.len() / 2)?);
    Some((low + high) / 2.0)
}

/// Other points of its step that differ in one number.
struct Others<'a> {
    axis: &'a str,
    at: f64,
    points: Vec<(f64, &'a Observation)>,
}

impl<'a> Others<'a> {
    /// The axis along which there are most different points, at least two.
    fn of(instance: &'a Instance, kin: &[&'a Observation]) -> Option<Self> {
        let along = |(axis, value): (&'a String, &Value)| {
            let agrees = |seen: &&&Observation| {
                let mut rest = instance.axes.iter().filter(|(name, _)| *name != axis);
                seen.outcome == Outcome::Ok && rest.all(|(name, value)| seen.point.get(name) == Some(value))
            };
            let point = |seen: &&'a Observation| Some((seen.point.get(axis)?.as_f64()?, *seen));
            let points = kin.iter().filter(agrees).filter_map(point).collect();
            Some(Others { axis, at: value.as_f64()?, points })
        };
        let found: Vec<Self> = instance.axes.iter().filter_map(along).filter(|others| others.different() > 1).collect();
        found.into_iter().rev().max_by_key(Others::different)
    }

    fn different(&self) -> usize {
        self.points.iter().map(|(at, _)| at.to_bits()).collect::<BTreeSet<_>>().len()
    }

    fn along(&self, curve: Curve, value: impl Fn(&Observation) -> Option<f64>) -> Option<Predicted> {
        let points: Vec<_> = self.points.iter().filter_map(|&(at, seen)| Some((at, value(seen)?))).collect();
        along(curve, &points, self.at)
    }

    fn estimate(&self) -> (Estimate, Option<Predicted>) {
        let last = self.axis.rsplit('.').next().unwrap_or(self.axis);
        let curve = if matches!(last, "batch" | "batch_size" | "bs") { Curve::PerItem } else { Curve::Any };
        let seen: Vec<&Observation> = self.points.iter().map(|(_, seen)| *seen).collect();
        let epoch = self.along(curve, |seen| seen.epoch_s);
        // Start and end take as long at every point: the share of epochs in the whole tells how much that is.
        let whole = median(seen.iter().filter_map(|seen| Some(seen.wall_s / seen.epoch_s?)).collect());
        let wall = match (epoch, whole) {
            (Some(epoch), Some(whole)) => Some(Predicted {
                value: epoch.value * whole,
                low: epoch.low * whole,
                high: epoch.high * whole,
                ..epoch
            }),
            _ => self.along(Curve::Any, |seen| Some(seen.wall_s)),
        };
        let mut estimate = common(&seen);
        estimate.duration = wall.map(|wall| Span::from_secs_f64(wall.value));
        estimate.range = wall.map(|wall| (Span::from_secs_f64(wall.low), Span::from_secs_f64(wall.high)));
        // The upper end, and nothing where it is too far from what was seen: then it has its GPU alone.
        let memory = self.along(Curve::Grows, |seen| Some(seen.gpu_memory as f64)).filter(|memory| !memory.far);
        estimate.gpu_memory = memory.map(|memory| memory.high as u64);
        let busy = self.along(Curve::Any, |seen| Some(busy(seen)));
        estimate.gpu_busy_milli = busy.map(|busy| (busy.value.min(1.0) * 1e3).round() as u32);
        estimate.samples = seen.len() as u32;
        let beyond = match wall {
            Some(wall) if wall.far => ", far beyond them",
            Some(wall) if wall.beyond => ", beyond them",
            _ => "",
        };
        estimate.source = format!("{} of its step at other points of `{}`{beyond}", runs(seen.len()), self.axis);
        (estimate, epoch)
    }
}
