//! The step `profile`: the work of a network, and the speed and memory of its training on random images. They are on
//! the device already, or are copied there for each step. Knows no dataset and no loader; compared with `train` it
//! shows their cost.

use std::time::Instant;

use bytesize::ByteSize;
use flow_plugin::{Attempt, Error, Summary, now};
use serde::Deserialize;
use tch::{Device, Kind, Tensor};

use crate::device::{Devices, Threads};
use crate::loader::Batch;
use crate::model::{Cost, Form, Model};
use crate::options::{self, Precision};
use crate::replica::Recipe;
use crate::trainer::Trainer;
use crate::{native, trouble};

/// `with:` of the step.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct Options {
    model: Model,
    /// One after the other, each with a network of its own; none, to count alone.
    batches: Vec<usize>,
    size: u32,
    classes: usize,
    precision: Precision,
    channels_last: bool,
    seconds: f64,
    /// Each step begins with the copying of its images.
    copied: bool,
    #[serde(deserialize_with = "options::byte_size")]
    memory_limit: Option<ByteSize>,
}

impl Default for Options {
    fn default() -> Self {
        let options::Options { model, precision, channels_last, memory_limit, .. } = options::Options::default();
        let (batches, size, classes, seconds, copied) = (vec![32], 224, 1000, 2.0, false);
        Options { model, batches, size, classes, precision, channels_last, seconds, copied, memory_limit }
    }
}

impl Options {
    fn form(&self) -> Form {
        let Options { model, classes, size, .. } = *self;
        Form { model, classes, size, dropout: None }
    }

    /// With the optimizer that a training has by default.
    fn recipe(&self) -> Recipe {
        let Options { model, precision, channels_last, .. } = *self;
        let options = options::Options { model, precision, channels_last, ..options::Options::default() };
        Recipe { form: self.form(), options, mean: [0.5; 3], std: [0.25; 3] }
    }
}

pub(crate) fn profile(options: Options, attempt: &Attempt) -> Result<(), Error> {
    let gpus = attempt.request().placement.gpus.len();
    trouble::caught(|| run(&options, attempt)).map_err(|error| trouble::explained(error, gpus))
}

fn run(options: &Options, attempt: &Attempt) -> Result<(), Error> {
    let request = attempt.request();
    options.precision.check(!request.placement.gpus.is_empty())?;
    let devices = Devices::choose(&request.placement, options.memory_limit)?;
    let threads = Threads::divide(attempt.cpus(), devices.are_gpus(), 1);
    tch::set_num_threads(i32::try_from(threads.compute)?);
    native::allow_tf32(options.precision == Precision::Tf32)?;
    attempt.hello(devices.facts(&request.placement, options.precision));
    let form = options.form();
    form.check_size(!options.batches.is_empty()).map_err(|error| {
        let counts = if form.check_size(false).is_ok() { "; `batches: []` only counts" } else { "" };
        Error::failed(format!("{error}: take another `size` or another `model`{counts}"))
    })?;
    count(&form, attempt);
    let recipe = options.recipe();
    tch::manual_seed(request.seed as i64);
    attempt.wait_for_go();
    for (number, &batch) in (1..).zip(&options.batches) {
        let started = now();
        let mut trainer = Trainer::new(recipe.clone(), &devices.list, batch)?;
        trainer.start(None)?;
        let step_time = step_time(trainer, options, batch)?;
        let rate = batch as f64 / step_time;
        attempt.epoch_metric("step_time", step_time, "s", number, Summary::Last);
        attempt.epoch_metric("images_per_s", rate, "images/s", number, Summary::Last);
        devices.report_memory(attempt, Some(number))?;
        attempt.epoch(number, started, now());
        attempt
            .progress(f64::from(number) / options.batches.len() as f64, format!("batch {batch}: {rate:.0} images/s"));
    }
    Ok(())
}

/// Tells what the network computes of one image, by two conventions, and how large it is.
fn count(form: &Form, attempt: &Attempt) {
    let Cost { work, parameters, auxiliary } = form.cost();
    for (name, value) in [
        ("gmac", work.macs as f64 / 1e9),
        ("gmac_norm_act", work.operations() as f64 / 1e9),
        ("parameters", parameters as f64),
        ("auxiliary_parameters", auxiliary as f64),
        ("layers", work.layers as f64),
    ] {
        attempt.metric(name, value, "");
    }
}

/// Into how many stretches the time given is divided.
const STRETCHES: usize = 9;

/// Seconds of one step: the median over stretches, so that a moment in which the machine did something else is in none of it.
fn step_time(mut trainer: Trainer, options: &Options, batch: usize) -> Result<f64, Error> {
    let (count, side) = (batch as i64, i64::from(options.size));
    let pixels = Tensor::randint(256, [count, side, side, 3], (Kind::Uint8, Device::Cpu));
    let labels = Tensor::randint(options.classes as i64, [count], (Kind::Int64, Device::Cpu));
    let pixels = match options.copied && trainer.takes_whole_batches() {
        // As from a loader, which a GPU copies from by itself.
        true => {
            let mut pinned = native::pinned(&pixels.size())?;
            pinned.f_copy_(&pixels)?;
            pinned
        }
        false => pixels,
    };
    let batch = Batch { pixels, labels };
    trainer.load(&batch)?;
    let steps = |trainer: &mut Trainer, count: usize| {
        let clock = Instant::now();
        (0..count).try_for_each(|_| {
            if options.copied {
                trainer.load(&batch)?;
            }
            trainer.step(1e-3)
        })?;
        trainer.take_sums()?;
        Ok::<f64, Error>(clock.elapsed().as_secs_f64() / count as f64)
    };
    steps(&mut trainer, 3)?;
    trainer.record()?;
    let roughly = steps(&mut trainer, 3)?;
    let all = (options.seconds / roughly).clamp(1.0, 1e5) as usize;
    let stretches = STRETCHES.min(all);
    let mut times = (0..stretches).map(|_| steps(&mut trainer, all / stretches)).collect::<Result<Vec<f64>, _>>()?;
    times.sort_by(f64::total_cmp);
    Ok(times[stretches / 2])
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    #[test]
    fn plugin_yaml_says_the_same() {
        let manifest: Value = serde_yaml::from_str(include_str!("../plugin.yaml")).unwrap();
        let mut all = json!({});
        for (name, property) in manifest["steps"]["profile"]["with"]["properties"].as_object().unwrap() {
            all[name] = property.get("default").cloned().unwrap_or(json!("8GiB"));
        }
        let options: Options = serde_json::from_value(all).unwrap();
        let without_limit = Options { memory_limit: None, ..options };
        assert_eq!(without_limit, serde_json::from_value(json!({})).unwrap());
    }
}
