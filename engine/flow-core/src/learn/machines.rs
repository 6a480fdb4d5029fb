//! Predicts a training on each GPU model that its step ran on, to help choose a machine to rent.

use serde_json::Value;

use super::{history::History, surface::SurfaceQuantity};
use crate::{Instance, predict::PredictedValue};

/// How long a training is to be, where that is not how long it was.
#[derive(Clone, Copy, Debug, Default)]
pub struct Length {
    pub epochs: Option<u32>,
    /// Images of an epoch.
    pub images: Option<u64>,
}

/// A training on GPUs of a model.
#[derive(Clone, Debug)]
pub struct OnModel {
    pub model: String,
    /// GPUs that it takes.
    pub gpus: u32,
    pub epochs: u32,
    /// Seconds from start to exit.
    pub wall: PredictedValue,
    /// Seconds an epoch.
    pub epoch: PredictedValue,
    /// Bytes on each GPU.
    pub gpu_memory: Option<PredictedValue>,
    /// Joules of all its GPUs, at the power that they drew in its runs.
    pub energy: Option<PredictedValue>,
}

impl History<'_> {
    /// An instance, so long, on each GPU model that was seen; in their order.
    ///
    /// # Errors
    /// A sentence: what would have to be measured.
    pub fn on_each_model(&self, instance: &Instance, length: Length) -> Result<Vec<OnModel>, String> {
        let label = &instance.label;
        let (surface, _) =
            self.others(instance).ok_or_else(|| format!("`{label}`: its step has not run at two points yet"))?;
        // What ran there had as many as it had; the request is this machine's.
        let asked = instance.axes.get("gpus").and_then(Value::as_u64).map(|gpus| gpus as u32);
        let gpus_of = |model: &String| surface.gpus.get(model).copied().unwrap_or(instance.request.gpus);
        let on = |model: &String| -> Result<OnModel, String> {
            let unknown = |what: &str| match &**model {
                "" => format!("`{label}` without a GPU: {what}"),
                model => format!("`{label}` on {model}: {what}"),
            };
            let at = surface.scale.coordinates(model, |axis| instance.axes.get(axis)).unwrap_or_default();
            let expected = surface.expect(&at);
            let epoch = match (length.images, surface.at(SurfaceQuantity::ImagesPerSecond, &at)) {
                (Some(images), Some(rate)) => rate.takes(images as f64),
                (Some(_), None) => return Err(unknown("no result has `images_per_s`; leave --images out")),
                (None, _) => expected.epoch.ok_or_else(|| unknown("the time of an epoch is unknown"))?,
            };
            let epochs = length.epochs.or(expected.epochs).ok_or_else(|| unknown("give --epochs"))?;
            let wall = expected.whole(epoch, f64::from(epochs)).unwrap_or(epoch);
            let energy = surface.at(SurfaceQuantity::Power, &at).map(|power| power.times(&wall));
            let gpus = asked.unwrap_or_else(|| gpus_of(model));
            Ok(OnModel { model: model.clone(), gpus, epochs, wall, epoch, gpu_memory: expected.gpu_memory, energy })
        };
        let mut models = surface.models.clone();
        models.sort();
        models.iter().map(on).collect()
    }
}
