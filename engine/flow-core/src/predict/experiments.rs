//! Trainings and networks, read from the results of any workflow. A training has a model, a batch and images per
//! second. A count has multiply-accumulates.

use serde_json::Value;

use crate::{Outcome, StepResult, machine_of};

/// The parts of a training, which are predicted one by one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Part {
    /// Seconds an image that is trained on.
    Pace,
    /// How much longer an epoch is than its training alone: with the images that validate.
    Epoch,
    /// Seconds before the epochs.
    Startup,
    /// Seconds behind them.
    End,
    /// Bytes on each GPU.
    Memory,
    /// Watts of all GPUs.
    Power,
}

impl Part {
    /// All, in their order.
    pub const ALL: [Part; 6] = [Part::Pace, Part::Epoch, Part::Startup, Part::End, Part::Memory, Part::Power];
}

/// Where a training is.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Point {
    /// Images a step, of all GPUs together.
    pub batch: u32,
    pub gpus: u32,
    /// Width and height of the images, where that is known.
    pub size: Option<u32>,
}

/// A training that was measured.
#[derive(Clone, Debug, PartialEq)]
pub struct Experiment {
    /// The hardware, with the host if that is another one.
    pub machine: String,
    pub model: String,
    pub point: Point,
    pub precision: String,
    /// By [`Part`].
    pub parts: [Option<f64>; 6],
    /// The part of an epoch in which it waited for data.
    pub waited: Option<f64>,
    /// The part of the host's CPUs that others used meanwhile.
    pub foreign: Option<f64>,
    /// Memory of each of its GPUs.
    pub card: Option<u64>,
    /// To run another one like it.
    pub workflow: String,
    pub step: String,
    pub wall_s: f64,
}

impl Experiment {
    /// It waited for data, or others used the CPUs: how long it took says little of the network.
    pub(super) fn is_disturbed(&self) -> bool {
        self.foreign.is_some_and(|share| share > FOREIGN) || self.waited.is_some_and(|waited| waited > WAITS)
    }
}

/// The computation of a network for one image.
#[derive(Clone, Debug, PartialEq)]
pub struct Count {
    pub model: String,
    pub size: u32,
    /// Multiply-accumulates of convolutions and linear layers.
    pub macs: f64,
    /// Values that normalisations and activations give, the former twice: these are read and written, and hardly computed.
    pub traffic: f64,
    pub parameters: f64,
}

/// All that a store tells.
#[derive(Clone, Debug, Default)]
pub struct Known {
    pub experiments: Vec<Experiment>,
    pub counts: Vec<Count>,
}

impl Known {
    /// From results, those of other machines with their hosts.
    pub fn of<'r>(results: impl IntoIterator<Item = (Option<&'r str>, &'r StepResult)>) -> Known {
        let mut known = Known::default();
        for (host, result) in results {
            known.experiments.extend(experiment(host, result));
            known.counts.extend(count(result));
        }
        // Where some trainings of a network were left in peace, those that were not say nothing of it.
        let (waiting, mut quick): (Vec<_>, Vec<_>) = known.experiments.into_iter().partition(Experiment::is_disturbed);
        let alone =
            |of: &Experiment| !quick.iter().any(|other| (&other.machine, &other.model) == (&of.machine, &of.model));
        let kept: Vec<Experiment> = waiting.into_iter().filter(|of| alone(of)).collect();
        quick.extend(kept);
        known.experiments = quick;
        let order = |of: &Experiment| {
            (of.machine.clone(), of.model.clone(), of.point.gpus, of.point.batch, of.wall_s.to_bits())
        };
        known.experiments.sort_by_key(order);
        known.counts.sort_by(|a, b| (&a.model, a.size).cmp(&(&b.model, b.size)));
        known.counts.dedup_by(|a, b| (&a.model, a.size) == (&b.model, b.size));
        known
    }
}

/// A parameter or an axis, by its name or as a part of a mapping: `model`, `run.model`.
fn given<'r>(result: &'r StepResult, name: &str) -> Option<&'r Value> {
    let part = |axis: &str| axis.rsplit('.').next() == Some(name);
    result.params.get(name).or_else(|| result.axes.iter().find(|(axis, _)| part(axis)).map(|(_, value)| value))
}

fn whole(value: &Value) -> Option<u32> {
    value.as_u64().and_then(|n| u32::try_from(n).ok()).filter(|n| *n > 0)
}

fn metric(result: &StepResult, name: &str) -> Option<f64> {
    result.metrics.get(name).map(|metric| metric.value).filter(|value| value.is_finite() && *value > 0.0)
}

/// A training that ended well and undisturbed on real hardware.
fn experiment(host: Option<&str>, result: &StepResult) -> Option<Experiment> {
    let (seen, usage) = (&result.circumstances, &result.usage);
    let wall_s = usage.wall_s.filter(|wall_s| *wall_s > 0.0)?;
    let sound = result.outcome == Outcome::Ok && result.spoiled.is_empty() && !seen.fake_gpus;
    let undisturbed = seen.neighbours.is_empty() && !seen.short_of_cpu();
    let calm = seen.strangers.is_empty() && (seen.corunners.is_empty() || undisturbed);
    // A trunk that is not trained is another training.
    let frozen = given(result, "freeze_epochs").and_then(Value::as_u64).is_some_and(|epochs| epochs > 0);
    if !sound || !calm || frozen || metric(result, "gmac").is_some() {
        return None;
    }
    let pace = 1.0 / metric(result, "images_per_s")?;
    let point = Point {
        batch: whole(given(result, "batch")?)?,
        gpus: seen.gpu_models.len() as u32,
        size: seen.facts.get("size").and_then(|size| size.parse().ok()).or_else(|| whole(given(result, "size")?)),
    };
    let images = seen.facts.get("train_images").and_then(|images| images.parse::<u32>().ok());
    let trained = images.map(|images| f64::from(images / point.batch * point.batch)).filter(|images| *images > 0.0);
    let phases = usage.phases;
    let memory = usage.gpus.iter().filter_map(|gpu| gpu.memory_peak).max().filter(|memory| *memory > 0);
    let above_none = |seconds: f64| Some(seconds).filter(|seconds| *seconds > NOTICED);
    let parts = [
        Some(pace),
        phases.zip(trained).map(|(phases, images)| phases.period_s / (images * pace)).filter(|longer| *longer > 0.0),
        phases.and_then(|phases| above_none(phases.before_s)),
        phases.and_then(|phases| above_none(phases.after_s)),
        memory.map(|memory| memory as f64),
        usage.energy_j.map(|energy| energy / wall_s).filter(|power| *power > 0.0),
    ];
    Some(Experiment {
        machine: machine_of(result, host),
        model: given(result, "model")?.as_str()?.to_owned(),
        point,
        precision: seen.facts.get("precision").cloned().unwrap_or_default(),
        parts,
        foreign: seen.foreign_cpu,
        waited: metric(result, "data_wait").zip(metric(result, "epoch_time")).map(|(waited, epoch)| waited / epoch),
        card: seen.gpu_memory.or_else(|| seen.gpu_memory_total.iter().min().copied()),
        workflow: result.workflow.clone(),
        step: result.step.clone(),
        wall_s,
    })
}

/// A training waits for data that does so for this part of an epoch.
const WAITS: f64 = 0.2;
/// Others disturb it that use this part of the host's CPUs.
const FOREIGN: f64 = 0.2;
/// Less than this of start-up or end is none.
const NOTICED: f64 = 1e-3;

fn count(result: &StepResult) -> Option<Count> {
    const GIGA: f64 = 1e9;
    let macs = metric(result, "gmac")?;
    Some(Count {
        model: given(result, "model")?.as_str()?.to_owned(),
        size: whole(given(result, "size")?)?,
        macs: macs * GIGA,
        traffic: (metric(result, "gmac_norm_act").unwrap_or(macs) - macs).max(0.0) * GIGA,
        parameters: metric(result, "parameters")?,
    })
}
