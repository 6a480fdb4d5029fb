//! The step `train`: sets up, warms up, waits for its group, and trains for the epochs asked for.

use std::time::Instant;

use fastrand::Rng;
use flow_plugin::{Attempt, Error, Summary, now};
use tch::Tensor;

use crate::dataset::{Dataset, Split};
use crate::device::{Devices, Threads};
use crate::loader::Loader;
use crate::options::Options;
use crate::random;
use crate::replica::{Recipe, Weights};
use crate::trainer::Trainer;
use crate::transform::Transform;
use crate::{native, trouble};

/// Of a picture up to this size all models leave one value per channel; of one alone its variance is not a number.
const ONE_VALUE: u32 = 32;

/// Trains a classifier.
pub(crate) fn train(options: Options, attempt: &Attempt) -> Result<(), Error> {
    let gpus = attempt.request().placement.gpus.len();
    trouble::caught(|| run(&options, attempt)).map_err(|error| trouble::explained(error, gpus))
}

fn run(options: &Options, attempt: &Attempt) -> Result<(), Error> {
    let request = attempt.request();
    options.check(!request.placement.gpus.is_empty())?;
    let devices = Devices::choose(&request.placement, options.memory_limit)?;
    let threads = Threads::divide(attempt.cpus(), devices.are_gpus(), options.batch);
    tch::set_num_threads(i32::try_from(threads.compute)?);
    native::allow_tf32(options.precision.is_tf32())?;
    let own = [("compute_threads", threads.compute), ("loader_threads", threads.loader)];
    let own = own.into_iter().map(|(name, count)| (name, count.to_string()));
    attempt.hello(devices.facts(&request.placement, options.precision).into_iter().chain(own));

    let data = Dataset::open(&attempt.path(&options.data))?;
    let split = data.split(options.valid, request.seed);
    if split.train.is_empty() {
        return Err(Error::failed(format!("{}: no sample to train on", options.data)));
    }
    if options.batch > split.train.len() {
        return Err(Error::failed(format!(
            "batch {} is more than the {} training images: take a smaller `batch` or more photographs",
            options.batch,
            split.train.len()
        )));
    }
    if data.size <= ONE_VALUE && options.batch / devices.list.len() == 1 {
        return Err(Error::failed(format!(
            "batch {} gives a device 1 picture of {size}×{size}, and its last layers 1 value per channel, where training expects \
             more than 1: take `batch: {}`, or pictures of more than {ONE_VALUE}×{ONE_VALUE}",
            options.batch,
            2 * devices.list.len(),
            size = data.size
        )));
    }
    let recipe = Recipe::of(options, &data);
    let weights = options.weights.as_ref().map(|file| Tensor::read_safetensors(attempt.path(file))).transpose()?;
    let weights = weights.map(|values| Weights::of(values.into_iter()));
    let transform = Transform::new(&data, options.flip);
    let loader = Loader::new(data, transform, threads.loader, threads.ahead, devices.are_gpus())?;
    let trainer = warm_up(recipe, weights.as_ref(), &devices, &loader, &split, options, request.seed as i64)?;
    attempt.wait_for_go();
    epochs(trainer, &loader, &split, options, attempt)?;
    devices.report_memory(attempt, None)
}

/// A trainer about to make its first step. The warm-up has a network of its own, so that it leaves no trace in the one that
/// counts.
fn warm_up(
    recipe: Recipe,
    weights: Option<&Weights>,
    devices: &Devices,
    loader: &Loader,
    split: &Split,
    options: &Options,
    seed: i64,
) -> Result<Trainer, Error> {
    let batch: Vec<usize> = split.train.iter().copied().take(options.batch).collect();
    let mut trainer = Trainer::new(recipe, &devices.list, options.batch)?;
    let mut pass = loader.pass(batch, options.batch, Some(0));
    let Some(batch) = pass.next()? else { return Ok(trainer) };
    trainer.start(weights, seed)?;
    for _ in 0..if devices.are_gpus() { 3 } else { 1 } {
        trainer.load(&batch)?;
        trainer.step(0.0)?;
    }
    trainer.start(weights, seed)?;
    if devices.are_gpus() {
        trainer.load(&batch)?;
        trainer.record()?;
    }
    Ok(trainer)
}

/// Trains the epochs asked for, writes the weights, and in a co-run group goes on so that the others have company.
fn epochs(
    mut trainer: Trainer,
    loader: &Loader,
    split: &Split,
    options: &Options,
    attempt: &Attempt,
) -> Result<(), Error> {
    let request = attempt.request();
    let mut said = String::new();
    for epoch in 1.. {
        let asked_for = epoch <= options.epochs;
        if !asked_for && (request.corun.is_none() || attempt.stopped()) {
            break;
        }
        let (started, clock) = (now(), Instant::now());
        let mut order = split.train.clone();
        Rng::with_seed(random::seed([request.seed, random::ORDER, u64::from(epoch)])).shuffle(&mut order);
        // An incomplete last batch would weigh its pictures more than the others.
        let steps = order.len() / options.batch;
        order.truncate(steps * options.batch);
        let images = order.len();

        let augment = random::seed([request.seed, random::AUGMENT, u64::from(epoch)]);
        let (mut pass, mut step) = (loader.pass(order, options.batch, Some(augment)), 0);
        while let Some(batch) = pass.next()? {
            if !asked_for && attempt.stopped() {
                // Half an epoch more is of no use to anybody.
                return Ok(());
            }
            let done = f64::from(epoch - 1) + f64::from(step) / steps as f64;
            trainer.load(&batch)?;
            trainer.step(options.lr(done / f64::from(options.epochs)))?;
            step += 1;
            let rate = f64::from(step) * options.batch as f64 / clock.elapsed().as_secs_f64();
            let text = format!("epoch {epoch}/{}{said}, {rate:.0} images/s", options.epochs);
            attempt.progress((done / f64::from(options.epochs)).min(1.0), text);
        }
        let train_loss = trainer.take_sums()?.loss / images as f64;
        let (rate, mut waited) = (images as f64 / clock.elapsed().as_secs_f64(), pass.waited());
        drop(pass);

        trainer.agree()?;
        let mut pass = loader.pass(split.valid.clone(), options.batch, None);
        while let Some(batch) = pass.next()? {
            trainer.validate(&batch)?;
        }
        let sums = trainer.take_sums()?;
        waited += pass.waited();

        let metric =
            |name: &str, value: f64, unit: &str, summary| attempt.epoch_metric(name, value, unit, epoch, summary);
        metric("epoch_time", clock.elapsed().as_secs_f64(), "s", Summary::Mean);
        metric("images_per_s", rate, "images/s", Summary::Mean);
        metric("data_wait", waited.as_secs_f64(), "s", Summary::Mean);
        let valid = (!split.valid.is_empty()).then_some(split.valid.len() as f64);
        let top1 = valid.map(|count| sums.right / count);
        if asked_for {
            metric("train_loss", train_loss, "", Summary::Last);
            if let (Some(count), Some(top1)) = (valid, top1) {
                metric("valid_loss", sums.loss / count, "", Summary::Last);
                metric("error_rate", 1.0 - top1, "ratio", Summary::Last);
                metric("top1", top1, "ratio", Summary::Last);
            }
        }
        attempt.epoch(epoch, started, now());
        said = match top1 {
            Some(top1) => format!(", loss {train_loss:.2}, top1 {:.1} %", 100.0 * top1),
            None => format!(", loss {train_loss:.2}"),
        };
        attempt.log(format!("epoch {epoch}/{}{said}, {rate:.0} images/s", options.epochs));
        if epoch == options.epochs {
            trainer.save(&attempt.output("model")?)?;
            if request.corun.is_some() {
                attempt.sufficed();
            }
        }
    }
    Ok(())
}
