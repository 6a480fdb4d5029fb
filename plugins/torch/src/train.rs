//! The step `train`: sets up, warms up, waits for its group, and trains for the epochs asked for.

use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::time::Instant;

use fastrand::Rng;
use flow_plugin::{Attempt, Error, Summary, now};
use tch::nn::{self, ModuleT, OptimizerConfig};
use tch::{Device, Kind, Tensor};

use crate::dataset::{Dataset, Split};
use crate::device::{self, Threads};
use crate::loader::Loader;
use crate::options::{Optimizer, Options};
use crate::random;
use crate::transform::{Layout, Transform};

/// Of the libtorch that the program was built for.
const TORCH: &str = "2.11.0";

/// Trains a classifier. libtorch tells its errors as panics of its binding; this is where they become outcomes.
pub(crate) fn train(options: Options, attempt: &Attempt) -> Result<(), Error> {
    catch_unwind(AssertUnwindSafe(|| run(&options, attempt))).unwrap_or_else(|payload| {
        let words = payload.downcast_ref::<String>().map(String::as_str);
        let words = words.or_else(|| payload.downcast_ref::<&str>().copied()).unwrap_or("no message");
        Err(from_torch(words))
    })
}

/// An error of libtorch in one line; the log has the rest.
fn from_torch(words: &str) -> Error {
    let line = words.split("\\n").next().unwrap_or(words).lines().next().unwrap_or(words);
    let out_of_memory = ["out of memory", "can't allocate memory"].iter().any(|mark| words.contains(mark));
    if out_of_memory { Error::out_of_memory(line) } else { Error::failed(format!("libtorch: {line}")) }
}

fn run(options: &Options, attempt: &Attempt) -> Result<(), Error> {
    let request = attempt.request();
    let device = device::choose(&request.placement)?;
    let threads = Threads::divide(attempt.cpus(), device);
    tch::set_num_threads(i32::try_from(threads.compute)?);
    attempt.hello([
        ("torch", TORCH.to_owned()),
        ("device", request.placement.gpus.first().map_or("cpu".to_owned(), |gpu| gpu.name.clone())),
        ("precision", options.precision.name().to_owned()),
        ("compute_threads", threads.compute.to_string()),
        ("loader_threads", threads.loader.to_string()),
    ]);
    options.check(device)?;

    let data = Dataset::open(&attempt.path(&options.data))?;
    let split = data.split(options.valid, request.seed);
    if split.train.is_empty() {
        return Err(Error::failed(format!("{}: no sample to train on", options.data)));
    }
    let classes = data.classes.len();
    let layout = if options.channels_last { Layout::ChannelsLast } else { Layout::ChannelsFirst };
    let transform = Transform::new(&data, options.flip, layout);
    let loader = Loader::new(data, transform, threads.loader, threads.ahead)?;

    // The warm-up has a network of its own, so that it leaves no trace in the one that counts.
    let batch = split.train.iter().copied().take(options.batch).collect();
    if let Some(batch) = loader.pass(batch, options.batch, Some(0)).next()? {
        let _loss = Trainer::new(options, classes, device)?.step(&batch.pixels, &batch.labels);
    }
    tch::manual_seed(request.seed as i64);
    let trainer = Trainer::new(options, classes, device)?;
    attempt.wait_for_go();
    epochs(trainer, &loader, &split, options, attempt)
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
        let steps = (order.len() / options.batch).max(1);
        order.truncate(steps * options.batch);
        let images = order.len();

        let augment = random::seed([request.seed, random::AUGMENT, u64::from(epoch)]);
        let mut pass = loader.pass(order, options.batch, Some(augment));
        let (mut loss, mut step) = (Tensor::zeros([], (Kind::Float, trainer.device)), 0);
        while let Some(batch) = pass.next()? {
            if !asked_for && attempt.stopped() {
                // Half an epoch more is of no use to anybody.
                return Ok(());
            }
            let done = f64::from(epoch - 1) + f64::from(step) / steps as f64;
            trainer.optimizer.set_lr(options.lr(done / f64::from(options.epochs)));
            loss += trainer.step(&batch.pixels, &batch.labels) * batch.labels.size()[0];
            step += 1;
            let rate = f64::from(step) * options.batch as f64 / clock.elapsed().as_secs_f64();
            let text = format!("epoch {epoch}/{}{said}, {rate:.0} images/s", options.epochs);
            attempt.progress((done / f64::from(options.epochs)).min(1.0), text);
        }
        let train_loss = loss.double_value(&[]) / images as f64;
        let (rate, mut waited) = (images as f64 / clock.elapsed().as_secs_f64(), pass.waited());
        drop(pass);

        let mut pass = loader.pass(split.valid.clone(), options.batch, None);
        let valid = trainer.validate(&mut pass, split.valid.len())?;
        waited += pass.waited();

        let metric =
            |name: &str, value: f64, unit: &str, summary| attempt.epoch_metric(name, value, unit, epoch, summary);
        metric("epoch_time", clock.elapsed().as_secs_f64(), "s", Summary::Mean);
        metric("images_per_s", rate, "images/s", Summary::Mean);
        metric("data_wait", waited.as_secs_f64(), "s", Summary::Mean);
        if asked_for {
            metric("train_loss", train_loss, "", Summary::Last);
            if let Some(valid) = &valid {
                metric("valid_loss", valid.loss, "", Summary::Last);
                metric("error_rate", 1.0 - valid.top1, "ratio", Summary::Last);
                metric("top1", valid.top1, "ratio", Summary::Last);
            }
        }
        attempt.epoch(epoch, started, now());
        said = match valid {
            Some(valid) => format!(", loss {train_loss:.2}, top1 {:.1} %", 100.0 * valid.top1),
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

/// How good the network is on what it was not trained on.
struct Validation {
    loss: f64,
    top1: f64,
}

/// A network and what trains it.
struct Trainer {
    device: Device,
    store: nn::VarStore,
    network: Box<dyn ModuleT>,
    optimizer: nn::Optimizer,
}

impl Trainer {
    fn new(options: &Options, classes: usize, device: Device) -> Result<Self, Error> {
        let store = nn::VarStore::new(device);
        let network = options.model.build(&store.root(), classes as i64);
        if options.channels_last {
            tch::no_grad(|| store.trainable_variables().iter_mut().for_each(channels_last));
        }
        let (lr, decay) = (options.peak_lr(), options.weight_decay);
        let optimizer = match options.optimizer {
            Optimizer::Sgd => nn::sgd(options.momentum, 0.0, decay, false).build(&store, lr),
            Optimizer::Adam => nn::adam(options.momentum, 0.999, decay).build(&store, lr),
        }?;
        Ok(Self { device, store, network, optimizer })
    }

    /// One step on one batch; its mean loss, still on the device.
    fn step(&mut self, pixels: &Tensor, labels: &Tensor) -> Tensor {
        let (pixels, labels) = (pixels.to_device(self.device), labels.to_device(self.device));
        let loss = self.network.forward_t(&pixels, true).cross_entropy_for_logits(&labels);
        self.optimizer.zero_grad();
        loss.backward();
        self.optimizer.step();
        loss.detach()
    }

    /// Loss and accuracy over `count` samples; nothing if there are none.
    fn validate(&self, pass: &mut crate::loader::Pass<'_>, count: usize) -> Result<Option<Validation>, Error> {
        let zero = || Tensor::zeros([], (Kind::Float, self.device));
        let (mut loss, mut right) = (zero(), zero());
        while let Some(batch) = pass.next()? {
            let (pixels, labels) = (batch.pixels.to_device(self.device), batch.labels.to_device(self.device));
            tch::no_grad(|| {
                let logits = self.network.forward_t(&pixels, false);
                loss += logits.cross_entropy_for_logits(&labels) * labels.size()[0];
                right += logits.argmax(-1, false).eq_tensor(&labels).sum(Kind::Float);
            });
        }
        let mean = |sum: Tensor| sum.double_value(&[]) / count as f64;
        Ok((count > 0).then(|| Validation { loss: mean(loss), top1: mean(right) }))
    }

    /// Writes the weights as safetensors, sorted by name: the same weights are the same bytes.
    fn save(&self, file: &Path) -> Result<(), Error> {
        let weights =
            self.store.variables().into_iter().map(|(name, tensor)| (name, tensor.to_device(Device::Cpu).contiguous()));
        let weights: BTreeMap<String, Tensor> = weights.collect();
        Ok(Tensor::write_safetensors(&weights.into_iter().collect::<Vec<_>>(), file)?)
    }
}

/// Puts the weights of a convolution into the order in which its pictures come.
fn channels_last(weights: &mut Tensor) {
    if weights.dim() == 4 {
        let reordered = weights.permute([0, 2, 3, 1]).contiguous().permute([0, 3, 1, 2]);
        weights.set_data(&reordered);
    }
}
