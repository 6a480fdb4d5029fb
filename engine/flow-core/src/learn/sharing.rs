//! The price of sharing a GPU, as far as it was measured.

use std::collections::BTreeMap;

use super::{
    History, Observation,
    observation::{median, quietest},
};
use crate::{
    GpuFacts, Instance, InstanceId, Outcome,
    sched::contention::{UNKNOWN_DEVICE, hoped, learned},
};

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
pub struct Alone {
    /// Seconds an epoch; 0 where it has none.
    pub epoch_s: f64,
    /// Share of time in which its epochs keep its GPUs busy.
    pub busy: f64,
    /// Share of its life that its epochs take: before and after them its GPUs are idle.
    pub epochs: f64,
    /// Cores that it keeps busy.
    pub cores: f64,
}

impl History<'_> {
    /// The price of sharing each GPU of the machine.
    pub fn devices(&self) -> Vec<Device> {
        let device = |gpu: &GpuFacts| {
            let seen = self.devices.get(&gpu.name).map_or(&[][..], Vec::as_slice);
            let coefficient = if seen.is_empty() { UNKNOWN_DEVICE } else { learned(seen.iter().copied()) };
            Device { model: gpu.name.clone(), coefficient, samples: seen.len() as u32 }
        };
        self.expansion.machine.gpus.iter().map(device).collect()
    }

    /// What sharing each GPU of the machine costs, and what that may yet turn out to be.
    pub fn prices(&self) -> (Vec<f64>, Vec<Option<f64>>) {
        self.devices().iter().map(|device| (device.coefficient, device.hoped())).unzip()
    }

    /// What attempts of an instance did on GPUs of this model while nothing disturbed them.
    pub fn alone(&self, instance: &Instance, model: &str) -> Option<Alone> {
        let mut own = self.own(instance);
        own.retain(|seen| seen.outcome == Outcome::Ok && seen.gpu_model.as_deref() == Some(model) && seen.is_calm());
        let own = quietest(&own);
        let of = |value: fn(&Observation) -> f64| median(own.iter().map(|seen| value(seen)).collect());
        Some(Alone {
            epoch_s: of(|seen| seen.epoch_s.unwrap_or(0.0))?,
            busy: of(|seen| seen.gpu_load)?,
            epochs: of(|seen| if seen.gpu_load > 0.0 { (seen.busy() / seen.gpu_load).min(1.0) } else { 1.0 })?,
            cores: of(|seen| seen.cpu_cores)?,
        })
    }

    /// What instances took for what they do alone in 1, where they had a GPU as it is in this machine with another, both ways.
    pub fn pairs(&self) -> BTreeMap<(InstanceId, InstanceId), f64> {
        let mut pairs: BTreeMap<_, Vec<f64>> = BTreeMap::new();
        for seen in self.steps.iter().flat_map(|step| &step.seen) {
            let Some((sharing, model)) = seen.sharing.as_ref().zip(seen.gpu_model.as_ref()) else { continue };
            let here = self.expansion.machine.gpus.iter().all(|gpu| *model == gpu.name);
            if let (true, [beside]) = (here, &*sharing.beside)
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
