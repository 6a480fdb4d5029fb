//! The step `train`: checks its parameters, sets up, warms up, and waits for its group. Then `epochs` takes over.

use std::thread::{self, JoinHandle};

use flow_plugin::{Attempt, Error};

use crate::checkpoint::{Checkpoints, Score};
use crate::dataset::{Dataset, Split};
use crate::deadline;
use crate::device::{Devices, Threads};
use crate::epochs::Epochs;
use crate::loader::Loader;
use crate::model::Form;
use crate::options::{Options, Precision};
use crate::replica::{Recipe, Weights};
use crate::trainer::Trainer;
use crate::transform::Transform;
use crate::{native, trouble, weights};

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
    native::allow_tf32(options.precision == Precision::Tf32)?;
    let own = [("compute_threads", threads.compute), ("loader_threads", threads.loader)];
    let own = own.into_iter().map(|(name, count)| (name, count.to_string()));
    attempt.hello(devices.facts(&request.placement, options.precision).into_iter().chain(own));

    let data = Dataset::open(&attempt.path(&options.data))?;
    attempt.hello([("classes", data.classes.len().to_string())]);
    let recipe = Recipe::of(options, &data);
    let split = data.split(options.valid, request.seed);
    let own =
        [("size", recipe.form.size as usize), ("train_images", split.train.len()), ("valid_images", split.valid.len())];
    attempt.hello(own.map(|(name, count)| (name, count.to_string())));
    check(options, &recipe, &split, devices.list.len())?;
    // Members of a group are measured together, from the beginning to the end.
    if request.corun.is_none() {
        deadline::listen();
    }
    let checkpoints = request.corun.is_none().then(|| Checkpoints::new(&attempt.checkpoint()));
    let begin = TrainingStart::of(&recipe, checkpoints.as_ref(), options, attempt)?;
    let transform = Transform::new(&data, options.flip);
    let loader = Loader::new(data, transform, threads.loader, threads.ahead, devices.are_gpus())?;
    let (trainer, scores) = warm_up(recipe, begin, &devices, &loader, &split, options)?;
    attempt.wait_for_go();
    Epochs { trainer, loader: &loader, split: &split, options, attempt, scores, checkpoints }.run()?;
    devices.report_memory(attempt, None)
}

/// Refuses what would fail in the middle of the first epoch, or not at all and for nothing.
fn check(options: &Options, recipe: &Recipe, split: &Split, devices: usize) -> Result<(), Error> {
    let Form { model, size, .. } = recipe.form;
    recipe.form.check_size(true).map_err(|error| {
        Error::failed(format!("{error}: prepare the photographs with another `size`, or take another `model`"))
    })?;
    if options.batch > split.train.len() {
        return Err(Error::failed(format!(
            "batch {} is more than the {} training images: take a smaller `batch` or more photographs",
            options.batch,
            split.train.len()
        )));
    }
    let largest = model.one_value_up_to();
    if size <= largest && options.batch / devices == 1 {
        return Err(Error::failed(format!(
            "batch {} gives a device 1 picture of {size}×{size}, and its last layers 1 value per channel, where training expects \
             more than 1: take `batch: {}`, or pictures of more than {largest}×{largest}",
            options.batch,
            2 * devices
        )));
    }
    Ok(())
}

/// Where a training begins.
struct TrainingStart {
    weights: FirstWeights,
    /// Scores of the epochs of an earlier attempt. The weights are those after these epochs.
    scores: Vec<Score>,
}

/// The weights of the first step.
enum FirstWeights {
    Given(Weights),
    /// New ones, from the CPU's generator, which for the largest networks takes a second.
    Drawn(JoinHandle<Weights>),
}

impl FirstWeights {
    fn draw(recipe: &Recipe) -> Result<FirstWeights, Error> {
        let recipe = recipe.clone();
        let draw = thread::Builder::new().name("weights".to_owned()).spawn(move || Weights::of(recipe.weights()))?;
        Ok(FirstWeights::Drawn(draw))
    }

    fn get(self) -> Result<Weights, Error> {
        match self {
            FirstWeights::Given(weights) => Ok(weights),
            FirstWeights::Drawn(draw) => draw.join().map_err(|_| Error::failed("the first weights could not be drawn")),
        }
    }
}

impl TrainingStart {
    /// After the epochs that a checkpoint has, or with the weights asked for.
    fn of(
        recipe: &Recipe,
        checkpoints: Option<&Checkpoints>,
        options: &Options,
        attempt: &Attempt,
    ) -> Result<TrainingStart, Error> {
        let left = |scores: &[Score]| (scores.len() as u32) < options.all_epochs();
        tch::manual_seed(attempt.request().seed as i64);
        // Read also where a checkpoint has the weights: what is wrong with the file is told either way.
        let given = options.weights.as_ref().map(|file| {
            // A new last layer is drawn like all new weights.
            weights::read(&attempt.path(file), &recipe.form, options.new_head, recipe.weights()).map(Weights::of)
        });
        let given = given.transpose()?;
        let found = checkpoints.map_or(Ok(None), Checkpoints::read).unwrap_or_else(|why| {
            attempt.log(format!("begins anew: the checkpoint of an earlier attempt cannot be read, {why}"));
            None
        });
        if let Some(checkpoint) = found.filter(|found| left(&found.scores)) {
            attempt.hello([("resumed_after_epoch", checkpoint.scores.len().to_string())]);
            let weights = FirstWeights::Given(Weights::of(checkpoint.state));
            return Ok(TrainingStart { weights, scores: checkpoint.scores });
        }
        let weights = given.map_or_else(|| FirstWeights::draw(recipe), |weights| Ok(FirstWeights::Given(weights)))?;
        Ok(TrainingStart { weights, scores: Vec::new() })
    }
}

/// A trainer about to make its first step, and the scores of the epochs that are done. The warm-up has a network of its own, so
/// that it leaves no trace in the one that counts.
fn warm_up(
    recipe: Recipe,
    TrainingStart { weights, scores }: TrainingStart,
    devices: &Devices,
    loader: &Loader,
    split: &Split,
    options: &Options,
) -> Result<(Trainer, Vec<Score>), Error> {
    let batch: Vec<usize> = split.train.iter().copied().take(options.batch).collect();
    let mut trainer = Trainer::new(recipe, &devices.list, options.batch)?;
    let mut pass = loader.pass(batch, options.batch, Some(0));
    let Some(batch) = pass.next()? else { return Ok((trainer, scores)) };
    let done = scores.len() as u32;
    let frozen = done < options.freeze_epochs;
    let steps = |trainer: &mut Trainer| {
        (0..if devices.are_gpus() { 3 } else { 1 }).try_for_each(|_| {
            trainer.load(&batch)?;
            trainer.step(0.0)
        })
    };
    // On the CPU the network of the warm-up would be drawn from the same generator at the same time.
    let weights = if devices.are_gpus() { weights } else { FirstWeights::Given(weights.get()?) };
    trainer.start(None)?;
    if frozen {
        trainer.freeze(true)?;
    }
    steps(&mut trainer)?;
    if devices.are_gpus() && frozen {
        // What is recorded in the middle of the training has to be warm too.
        trainer.freeze(false)?;
        steps(&mut trainer)?;
    }
    let weights = weights.get()?;
    trainer.start(Some(&weights))?;
    if frozen {
        trainer.freeze(true)?;
    }
    if done > 0 {
        trainer.restore(&weights)?;
    }
    if devices.are_gpus() {
        trainer.load(&batch)?;
        trainer.record()?;
    }
    Ok((trainer, scores))
}
