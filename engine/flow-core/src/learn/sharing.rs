//! The measured interference coefficient of each GPU model.

use std::collections::BTreeMap;

use super::{
    history::History,
    observation::{Observation, quietest},
};
use crate::{
    AttemptId, GpuFacts, GpuId, GpuSharing, GpuUsage, Instance, InstanceId, Outcome, StepResult,
    measure::{CoRunner, ReportedNumbers, largest_overlap},
    sched::contention::{UNKNOWN_DEVICE, hoped, learned},
    stats::median,
};

/// A program that keeps less of a core busy does not wait for the CPU, even if others compete for it.
const HARDLY_ANY_CPU: f64 = 0.1;

/// A GPU model and its interference coefficient.
#[derive(Clone, Debug, PartialEq)]
pub struct Interference {
    pub model: String,
    /// Slowdown is 1 + this × (Σ busy − 1).
    pub coefficient: f64,
    /// Measurements that it rests on; without any it is 1.
    pub samples: u32,
}

/// The load of an undisturbed instance.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SoloLoad {
    /// Seconds an epoch; 0 where it has none.
    pub epoch_s: f64,
    /// Share of time in which its epochs keep its GPUs busy.
    pub busy: f64,
    /// Share of its life that its epochs take: before and after them its GPUs are idle.
    pub epochs: f64,
    /// Cores that it keeps busy.
    pub cores: f64,
}

/// The interference that members of a co-run group measured on shared GPUs. Each member must also have run alone: its
/// run is among the results of the step that it is `like`. `None` if the CPU limited them.
pub fn of_group<'r>(
    together: &[&StepResult],
    solo: impl Iterator<Item = &'r StepResult> + Clone,
) -> Option<GpuSharing> {
    let epoch = |result: &StepResult| {
        result.metrics.get("epoch_time").map(|metric| metric.value).filter(|time| time.is_finite() && *time > 0.0)
    };
    let (mut busy, mut slowdown, mut cores) = (0.0, 0.0, 0.0);
    if together.iter().any(|result| result.outcome != Outcome::Ok) {
        return None;
    }
    for together in together {
        let comparable = |alone: &&StepResult| {
            alone.outcome == Outcome::Ok
                && alone.circumstances.corunners.is_empty()
                && alone.params == together.params
                && alone.circumstances.gpu_models == together.circumstances.gpu_models
        };
        let alone = together.run_alone(solo.clone()).filter(comparable)?;
        busy += alone.usage.gpus.iter().filter_map(GpuUsage::load).reduce(f64::max)?;
        slowdown += epoch(together)? / epoch(alone)?;
        cores += alone.usage.cores()?;
    }
    let members = together.len() as f64;
    (cores < f64::from(together.first()?.circumstances.usable_cpus())).then_some(GpuSharing {
        busy,
        slowdown: slowdown / members,
        corunners: Vec::new(),
        epochs: None,
    })
}

impl History<'_> {
    /// The interference coefficient of each GPU of the machine.
    pub fn devices(&self) -> Vec<Interference> {
        let device = |gpu: &GpuFacts| {
            let samples = self.devices.get(&gpu.name).map_or(0, Vec::len) as u32;
            let coefficient = self.interference(&gpu.name).unwrap_or(UNKNOWN_DEVICE);
            Interference { model: gpu.name.clone(), coefficient, samples }
        };
        self.expansion.machine.gpus.iter().map(device).collect()
    }

    /// The interference coefficient of a GPU model, where anything was measured.
    pub fn interference(&self, model: &str) -> Option<f64> {
        let seen = self.devices.get(model).filter(|seen| !seen.is_empty())?;
        Some(learned(seen.iter().copied()))
    }

    /// The interference coefficient of each GPU of the machine, and the one from the measurements alone while these are
    /// few; no interference before the first.
    pub fn coefficients(&self) -> (Vec<f64>, Vec<Option<f64>>) {
        self.devices().iter().map(|of| (of.coefficient, hoped(of.coefficient, of.samples))).unzip()
    }

    /// The load of undisturbed attempts of an instance on GPUs of this model.
    pub fn alone(&self, instance: &Instance, model: &str) -> Option<SoloLoad> {
        let mut own = self.own(instance);
        own.retain(|seen| seen.outcome == Outcome::Ok && seen.gpu_model.as_deref() == Some(model) && seen.is_calm());
        let own = quietest(&own);
        let of = |value: fn(&Observation) -> f64| median(own.iter().map(|seen| value(seen)).collect());
        Some(SoloLoad {
            epoch_s: of(|seen| seen.epoch_s.unwrap_or(0.0))?,
            busy: of(|seen| seen.gpu_load)?,
            epochs: of(|seen| if seen.gpu_load > 0.0 { (seen.busy() / seen.gpu_load).min(1.0) } else { 1.0 })?,
            cores: median(own.iter().filter_map(|seen| seen.cpu_cores).collect())?,
        })
    }

    /// The interference that an attempt measured when it shared its GPUs outside of a co-run group: the time of its
    /// epochs next to unchanging peers, divided by the time of its epochs alone.
    pub fn sharing(
        &self,
        of: InstanceId,
        gpus: &[GpuId],
        reported: &ReportedNumbers,
        corunners: &BTreeMap<AttemptId, CoRunner>,
        result: &StepResult,
    ) -> Option<GpuSharing> {
        let (seen, instances) = (&result.circumstances, &self.expansion.instances);
        let instance = &instances[of.index()];
        let shared = corunners.values().any(|other| !other.gpus.is_empty());
        if !shared || instance.corun.is_some() || result.outcome != Outcome::Ok {
            return None;
        }
        let model = seen.gpu_models.first()?;
        let alone = |id: InstanceId| self.alone(&instances[id.index()], model);
        let own = alone(of).filter(|own| own.epoch_s > 0.0)?;
        // Others than flow's may have been in the way as well.
        if !seen.foreign_processes.is_empty() || seen.short_of_cpu() && own.cores > HARDLY_ANY_CPU {
            return None;
        }
        let requested = |other: &CoRunner| f64::from(instances[other.instance.index()].request.cpus);
        let cores = |other: &CoRunner| alone(other.instance).map_or_else(|| requested(other), |alone| alone.cores);
        let cores = corunners.iter().map(|(id, other)| (*id, cores(other))).collect();
        let room = f64::from(seen.usable_cpus()) - own.cores;
        let found = largest_overlap(&reported.timed(), corunners, &cores, room)?;
        let corunners: Option<Vec<(&CoRunner, SoloLoad)>> =
            found.who.iter().map(|id| Some((&corunners[id], alone(corunners[id].instance)?))).collect();
        let corunners = corunners?;
        let busy_on = |gpu: &GpuId| {
            let there = corunners.iter().filter(|(other, _)| other.gpus.contains(gpu));
            own.busy + there.map(|(_, alone)| alone.busy).sum::<f64>()
        };
        Some(GpuSharing {
            busy: gpus.iter().map(busy_on).fold(0.0, f64::max),
            slowdown: found.took / own.epoch_s,
            corunners: corunners.iter().map(|(other, _)| instances[other.instance.index()].label.to_string()).collect(),
            epochs: Some(found.epochs),
        })
    }

    /// Slowdowns of pairs of instances that shared a GPU like those of this machine, relative to running alone. Both
    /// directions must be known.
    pub fn pairs(&self) -> BTreeMap<(InstanceId, InstanceId), f64> {
        let mut pairs: BTreeMap<_, Vec<f64>> = BTreeMap::new();
        for seen in self.steps.iter().flat_map(|step| &step.seen) {
            let Some((sharing, model)) = seen.sharing.as_ref().zip(seen.gpu_model.as_ref()) else { continue };
            let here = self.expansion.machine.gpus.iter().all(|gpu| *model == gpu.name);
            if let (true, [beside]) = (here, &*sharing.corunners)
                && let Some((one, other)) = self.instance(&seen.label).zip(self.instance(beside))
            {
                // Epochs were slowed down; the rest of its life was not.
                let epochs = self.alone(one, model).map_or(1.0, |alone| alone.epochs);
                pairs.entry((one.id, other.id)).or_default().push(1.0 + epochs * (sharing.slowdown - 1.0));
            }
        }
        let both = |&(one, other): &(InstanceId, InstanceId)| pairs.contains_key(&(other, one));
        let known = pairs.iter().filter(|(pair, _)| both(pair));
        known.filter_map(|(&pair, seen)| Some((pair, median(seen.clone())?))).collect()
    }
}
