//! The resources that an attempt used, stored for later estimates.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::{Digest, GpuSharing, Mode, Outcome, RunId, StepResult, result::Phases};

/// The resources that one attempt used. Estimates are made of these.
#[serde_with::skip_serializing_none]
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Observation {
    /// The instance, `solo[version=v7,batch=16]`.
    pub label: String,
    pub run: RunId,
    /// When it ended, milliseconds since 1970.
    pub at: u64,
    pub outcome: Outcome,
    /// How it was declared to run.
    pub mode: Mode,
    /// Wall time, seconds.
    pub wall_s: f64,
    /// Mean CPU use in cores.
    pub cpu_cores: Option<f64>,
    /// Peak resident memory, bytes.
    pub rss_peak: Option<u64>,
    /// Peak memory of the busiest GPU, bytes; 0 without GPUs.
    pub gpu_memory: u64,
    /// Mean load of the busiest GPU over the epochs that count, or where these are too short to tell, from start to end, 0 to 1.
    pub gpu_load: f64,
    /// The same from start to end, whatever counts.
    pub gpu_load_whole: Option<f64>,
    /// Model of its first GPU.
    pub gpu_model: Option<String>,
    /// How many GPUs it had.
    pub gpus: Option<u32>,
    /// The point: axes and parameters, scalars only.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub point: BTreeMap<String, Value>,
    /// The program that its step was at the time.
    pub program: Option<Digest>,
    /// Mean time of the epochs that count, seconds.
    pub epoch_s: Option<f64>,
    /// The parts of its wall time.
    pub phases: Option<Phases>,
    /// Images that went through its model in a second, where it told that.
    pub images_per_s: Option<f64>,
    /// Energy of its GPUs, joules.
    pub energy_j: Option<f64>,
    /// It resumed from a checkpoint of an attempt that was killed together with flow. Its wall time lacks the time of
    /// that attempt.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub lacks_a_part: bool,
    /// Others of flow's own ran meanwhile, or anybody on its GPUs.
    #[serde(default)]
    pub others_ran: bool,
    /// Nobody else was on its GPUs, and the CPUs of the host sufficed.
    #[serde(default)]
    pub undisturbed: bool,
    /// The interference that it measured on its GPU.
    pub sharing: Option<GpuSharing>,
}

/// A quantity of an attempt, if it was measured.
pub(super) type Measured = fn(&Observation) -> Option<f64>;

impl Observation {
    /// The observation of an attempt, from its result.
    pub fn of(result: &StepResult) -> Observation {
        let (gpus, seen) = (&result.usage.gpus, &result.circumstances);
        let whole = gpus.iter().filter_map(|gpu| gpu.load_whole).reduce(f64::max);
        let over_epochs = gpus.iter().filter_map(|gpu| gpu.load_mean).reduce(f64::max);
        let metric = |name: &str| result.metrics.get(name).map(|metric| metric.value).filter(|value| value.is_finite());
        Observation {
            label: result.label.clone(),
            run: result.run.clone(),
            at: result.ended_at,
            outcome: result.outcome,
            mode: seen.mode,
            wall_s: result.usage.wall_s.unwrap_or(0.0),
            cpu_cores: result.usage.cores(),
            rss_peak: result.usage.rss_peak,
            gpu_memory: gpus.iter().filter_map(|gpu| gpu.memory_peak).max().unwrap_or(0),
            gpu_load: over_epochs.or(whole).unwrap_or(0.0),
            gpu_load_whole: whole,
            gpu_model: seen.gpu_models.first().cloned(),
            gpus: Some(seen.gpu_models.len() as u32),
            // A parameter of the workflow counts as that, also where a plugin's has its name.
            point: result
                .params
                .iter()
                .chain(&seen.params)
                .chain(&result.axes)
                .map(|(name, value)| (name.clone(), value.clone()))
                .collect(),
            program: seen.program,
            epoch_s: metric("epoch_time"),
            phases: result.usage.phases,
            images_per_s: metric("images_per_s"),
            energy_j: result.usage.energy_j,
            lacks_a_part: result.usage.lacks_a_part(),
            others_ran: !seen.corunners.is_empty() || !seen.foreign_processes.is_empty(),
            undisturbed: seen.neighbours.is_empty() && seen.foreign_processes.is_empty() && !seen.short_of_cpu(),
            sharing: seen.sharing.clone(),
        }
    }

    /// Wall time, seconds, where it is that of all that was done.
    pub(super) fn whole_s(&self) -> Option<f64> {
        (!self.lacks_a_part).then_some(self.wall_s)
    }

    /// It ran alone or undisturbed, so its time and load are its own.
    pub(super) fn is_calm(&self) -> bool {
        !self.others_ran || self.undisturbed
    }

    /// How busy its epochs keep its GPUs, of a program without any the whole of it; none where they were too short to tell.
    pub(super) fn busy_in_epochs(&self) -> Option<f64> {
        let too_short = self.epoch_s.is_some() && self.gpu_load_whole == Some(self.gpu_load);
        (!too_short).then_some(self.gpu_load)
    }

    /// How busy it kept its GPUs from start to end: while it starts, others have them.
    pub(super) fn busy(&self) -> f64 {
        self.gpu_load_whole.unwrap_or(self.gpu_load)
    }
}

/// The attempts of an instance that ran alone. If there are none, those that ran undisturbed, else all.
pub(super) fn quietest<'o>(own: &[&'o Observation]) -> Vec<&'o Observation> {
    let only = |quiet: fn(&Observation) -> bool| own.iter().copied().filter(|seen| quiet(seen)).collect();
    let sets: [Vec<&Observation>; 2] = [only(|seen| !seen.others_ran), only(Observation::is_calm)];
    sets.into_iter().find(|set| !set.is_empty()).unwrap_or_else(|| own.to_vec())
}
