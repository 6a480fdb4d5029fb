//! Data-parallel training: one replica per device, whose gradients are added up. All but the first have a thread of
//! their own. With one device there is one replica. Knows no epochs, and no files but the weights.
//!
//! Each device normalises its part of a batch by that part's own statistics, as usual in data-parallel training.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::{self, JoinHandle};

use flow_plugin::Error;
use tch::{Device, Tensor};

use crate::loader::Batch;
use crate::native;
use crate::replica::{self, Recipe, Replica, Sums, Weights, add_up};
use crate::trouble;

type Task = Box<dyn FnOnce(&mut Option<Replica>) -> Result<(), Error> + Send>;

/// Replicas on all devices of a placement.
pub(crate) struct Trainer {
    recipe: Recipe,
    devices: Vec<Device>,
    /// How many pictures of a batch each device gets.
    parts: Vec<usize>,
    first: Option<Replica>,
    others: Vec<Worker>,
    /// The gradients of each device, to be added up; empty with one device.
    gradients: Vec<Tensor>,
}

/// A thread with its replica. libtorch keeps plans and handles by thread, so the threads outlive the replicas.
struct Worker {
    tasks: Option<Sender<Task>>,
    answers: Receiver<Result<(), Error>>,
    thread: Option<JoinHandle<()>>,
}

impl Trainer {
    /// For batches of `batch` pictures in all. [`Trainer::start`] builds the networks.
    pub(crate) fn new(recipe: Recipe, devices: &[Device], batch: usize) -> Result<Self, Error> {
        let count = devices.len();
        if batch < count {
            return Err(Error::failed(format!(
                "a batch of {batch} cannot be divided over {count} GPUs: take a larger `batch` or fewer `gpus`"
            )));
        }
        let parts = (0..count).map(|i| (i + 1) * batch / count - i * batch / count).collect();
        let others = devices.iter().skip(1).map(|_| Worker::start()).collect::<Result<_, _>>()?;
        Ok(Self { recipe, devices: devices.to_vec(), parts, first: None, others, gradients: Vec::new() })
    }

    /// Begins with these weights; without them, with those that each device draws by itself, which is the quickest.
    pub(crate) fn start(&mut self, weights: Option<&Weights>) -> Result<(), Error> {
        self.gradients.clear();
        self.each(|_| {
            Box::new(|replica| {
                *replica = None;
                Ok(())
            })
        })?;
        for gpu in self.devices.iter().filter_map(|device| native::index(*device)) {
            native::forget_memory(gpu)?;
        }
        let batch: usize = self.parts.iter().sum();
        let (recipe, devices, parts) = (self.recipe.clone(), self.devices.clone(), self.parts.clone());
        self.each(|i| {
            let (recipe, weights, device) = (recipe.clone(), weights.cloned(), devices[i]);
            let (own, share) = (parts[i], parts[i] as f64 / batch as f64);
            Box::new(move |replica| {
                *replica = Some(Replica::new(recipe, weights.as_ref(), device, own, share)?);
                Ok(())
            })
        })?;
        self.find_gradients()
    }

    /// From now on, trains only the classifier layers, or all. The optimizer starts without state.
    pub(crate) fn freeze(&mut self, frozen: bool) -> Result<(), Error> {
        self.gradients.clear();
        self.each(|_| each(move |replica| Ok(replica.freeze(frozen)?)))?;
        self.find_gradients()
    }

    /// Finds the tensors in which the optimizers gather their gradients, if there are several devices.
    fn find_gradients(&mut self) -> Result<(), Error> {
        if self.devices.len() > 1 {
            let (sender, gradients) = channel();
            self.each(|i| {
                let sender = sender.clone();
                each(move |replica| Ok(sender.send((i, replica.gradient()?))?))
            })?;
            let mut sorted: Vec<(usize, Tensor)> = gradients.try_iter().collect();
            sorted.sort_by_key(|(i, _)| *i);
            self.gradients = sorted.into_iter().map(|(_, gradient)| gradient).collect();
        }
        Ok(())
    }

    /// Restores an optimizer's state.
    pub(crate) fn restore(&mut self, from: &Weights) -> Result<(), Error> {
        self.each(|_| {
            let from = from.clone();
            each(move |replica| replica.restore(&from))
        })
    }

    /// Whether an incomplete batch must be filled up, because a step on a GPU is recorded for a whole batch.
    pub(crate) fn takes_whole_batches(&self) -> bool {
        self.devices.iter().any(|device| device.is_cuda())
    }

    /// Makes this batch the next to be trained on.
    pub(crate) fn load(&mut self, batch: &Batch) -> Result<(), Error> {
        let mut parts = divide(batch, &self.shares(batch)).into_iter();
        self.each(|_| match parts.next() {
            Some(Batch { pixels, labels }) => each(move |replica| Ok(replica.load(&pixels, &labels)?)),
            None => Box::new(|_| Ok(())),
        })
    }

    /// Records the step on what is loaded, one device after the other.
    pub(crate) fn record(&mut self) -> Result<(), Error> {
        if let Some(first) = &mut self.first {
            first.record()?;
        }
        self.others.iter_mut().try_for_each(|worker| worker.run(each(Replica::record)))
    }

    /// One step on what is loaded.
    pub(crate) fn step(&mut self, rate: f64) -> Result<(), Error> {
        self.each(|_| each(move |replica| replica.step(rate)))?;
        if self.gradients.len() > 1 {
            add_up(&self.gradients)?;
            self.each(|_| each(|replica| Ok(replica.update()?)))?;
        }
        Ok(())
    }

    /// Takes the statistics of the first replica for all, before a validation.
    pub(crate) fn agree(&mut self) -> Result<(), Error> {
        let Some(statistics) = self.first.as_ref().map(Replica::statistics) else { return Ok(()) };
        self.others.iter_mut().try_for_each(|worker| {
            let statistics = statistics.clone();
            worker.run(each(move |replica| replica.take_statistics(&statistics)))
        })
    }

    /// Adds loss and hits of a batch that is not trained on to the sums.
    pub(crate) fn validate(&mut self, batch: &Batch) -> Result<(), Error> {
        let (mut parts, usual) = (divide(batch, &self.shares(batch)).into_iter(), self.parts.clone());
        self.each(|i| match parts.next() {
            Some(Batch { pixels, labels }) if labels.numel() > 0 => {
                let usual = usual[i] as i64;
                each(move |replica| replica.validate(&pixels, &labels, usual))
            }
            _ => Box::new(|_| Ok(())),
        })
    }

    /// How many pictures of a batch are whose.
    fn shares(&self, batch: &Batch) -> Vec<usize> {
        let (count, total) = (batch.labels.size()[0] as usize, self.parts.len());
        (0..total).map(|i| (i + 1) * count / total - i * count / total).collect()
    }

    /// Waits for all devices, and gives the sums over the samples since they were last taken.
    pub(crate) fn take_sums(&mut self) -> Result<Sums, Error> {
        let (sender, sums) = channel();
        self.each(|_| {
            let sender = sender.clone();
            each(move |replica| Ok(sender.send(replica.take_sums()?)?))
        })?;
        Ok(sums.try_iter().fold(Sums::default(), |a, b| Sums { loss: a.loss + b.loss, right: a.right + b.right }))
    }

    /// Writes the weights as safetensors, sorted by name: the same weights are the same bytes.
    pub(crate) fn save(&self, file: &Path) -> Result<(), Error> {
        Ok(Tensor::write_safetensors(&on_cpu(self.first.iter().flat_map(Replica::variables)), file)?)
    }

    /// Weights, statistics and what the optimizer remembers: all that the next step depends on.
    pub(crate) fn state(&self) -> Result<Vec<(String, Tensor)>, Error> {
        let Some(first) = &self.first else { return Ok(Vec::new()) };
        Ok(on_cpu(first.variables().chain(first.optimizer_state()?)))
    }

    /// Runs a task for every replica in its thread, and waits for all. `task` makes it from the replica's number.
    fn each(&mut self, mut task: impl FnMut(usize) -> Task) -> Result<(), Error> {
        let own = task(0);
        for (number, worker) in (1..).zip(&mut self.others) {
            worker.send(task(number))?;
        }
        let mut result = own(&mut self.first);
        for worker in &mut self.others {
            let answer = worker.answer();
            result = result.and(answer);
        }
        result
    }
}

/// Copies to be written, sorted by name.
fn on_cpu(values: impl Iterator<Item = (String, Tensor)>) -> Vec<(String, Tensor)> {
    let sorted: BTreeMap<String, Tensor> =
        values.map(|(name, tensor)| (name, tensor.to_device(Device::Cpu).contiguous())).collect();
    sorted.into_iter().collect()
}

/// A task for a replica that has been started.
fn each(work: impl FnOnce(&mut Replica) -> Result<(), Error> + Send + 'static) -> Task {
    Box::new(|replica| replica.as_mut().map_or(Ok(()), work))
}

/// In a batch that was filled up, only the first `counting` pictures count.
pub(crate) fn count_only(batch: &Batch, counting: usize) {
    let rest = batch.labels.size()[0] - counting as i64;
    let _ = batch.labels.narrow(0, counting as i64, rest).fill_(replica::COUNTS_NOT);
}

/// Neighbouring pictures of a batch.
fn divide(batch: &Batch, parts: &[usize]) -> Vec<Batch> {
    let mut start = 0;
    let part = |&count: &usize| {
        let of = |tensor: &Tensor| tensor.narrow(0, start, count as i64);
        let part = Batch { pixels: of(&batch.pixels), labels: of(&batch.labels) };
        start += count as i64;
        part
    };
    parts.iter().map(part).collect()
}

impl Worker {
    fn start() -> Result<Self, Error> {
        let (tasks, inbox) = channel::<Task>();
        let (outbox, answers) = channel();
        let work = move || {
            let mut replica = None;
            for task in inbox {
                let done = trouble::caught(|| task(&mut replica));
                if outbox.send(done).is_err() {
                    break;
                }
            }
        };
        let thread = thread::Builder::new().name("replica".to_owned()).spawn(work)?;
        Ok(Self { tasks: Some(tasks), answers, thread: Some(thread) })
    }

    fn send(&mut self, task: Task) -> Result<(), Error> {
        let sent = self.tasks.as_ref().is_some_and(|tasks| tasks.send(task).is_ok());
        if sent { Ok(()) } else { Err(Error::failed("the thread of a GPU has ended")) }
    }

    fn answer(&mut self) -> Result<(), Error> {
        self.answers.recv()?
    }

    fn run(&mut self, task: Task) -> Result<(), Error> {
        self.send(task)?;
        self.answer()
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        self.tasks = None;
        if let Some(thread) = self.thread.take() {
            // Its work is caught, so there is nothing that it could have died of.
            let _ = thread.join();
        }
    }
}

#[cfg(test)]
mod tests {
    use tch::Kind;

    use super::*;
    use crate::model::{Form, Model};
    use crate::options::{Optimizer, Options};

    fn recipe(optimizer: Optimizer) -> Recipe {
        Recipe {
            form: Form { model: Model::Resnet18, classes: 3, size: 64, dropout: None },
            options: Options { optimizer, ..Options::default() },
            mean: [0.5; 3],
            std: [0.25; 3],
        }
    }

    fn losses(devices: usize, batch: &Batch, optimizer: Optimizer, weights: &Weights) -> Vec<f64> {
        let count = batch.labels.size()[0] as usize;
        let mut trainer = Trainer::new(recipe(optimizer), &vec![Device::Cpu; devices], count).unwrap();
        trainer.start(Some(weights)).unwrap();
        let mut losses = Vec::new();
        for _ in 0..3 {
            trainer.load(batch).unwrap();
            trainer.step(1e-3).unwrap();
            losses.push(trainer.take_sums().unwrap().loss / count as f64);
        }
        trainer.agree().unwrap();
        trainer.validate(batch).unwrap();
        let sums = trainer.take_sums().unwrap();
        assert_eq!(sums.right.fract(), 0.0);
        losses
    }

    #[test]
    fn several_devices_train_as_one() {
        tch::set_num_threads(1);
        let pixels = Tensor::randint(256, [3, 64, 64, 3], (Kind::Uint8, Device::Cpu));
        let labels = Tensor::from_slice(&[0i64, 1, 2]);
        // The same pictures for each device: then the statistics of a part are those of the whole.
        let batch = Batch { pixels: pixels.repeat([3, 1, 1, 1]), labels: labels.repeat([3]) };
        let weights = Weights::of(recipe(Optimizer::Sgd).weights());
        let [one, three] = [1, 3].map(|devices| losses(devices, &batch, Optimizer::Sgd, &weights));
        // A sum that is no mean, or a device left out, would be tenths away; rounding is a few ten-thousandths.
        let close = one.iter().zip(&three).all(|(a, b)| (a - b).abs() < 1e-2);
        assert!(close && one[2] < one[0], "{one:?} {three:?}");
    }

    #[test]
    fn pictures_that_only_fill_a_batch_up_teach_nothing() {
        let pixels = Tensor::randint(256, [4, 64, 64, 3], (Kind::Uint8, Device::Cpu));
        // Without normalisation, which sees all pictures.
        let form = Form { model: Model::Alexnet, classes: 3, size: 64, dropout: Some(0.0) };
        let recipe = || Recipe { form, ..recipe(Optimizer::Sgd) };
        let weights = Weights::of(recipe().weights());
        let losses = |devices: usize, filled: bool| {
            let mut trainer = Trainer::new(recipe(), &vec![Device::Cpu; devices], 4).unwrap();
            trainer.start(Some(&weights)).unwrap();
            let step = |_| {
                let size = if filled { 4 } else { 3 };
                let labels = Tensor::from_slice(&[0i64, 1, 2, 0]).narrow(0, 0, size).copy();
                let batch = Batch { pixels: pixels.narrow(0, 0, size), labels };
                if filled {
                    count_only(&batch, 3);
                }
                trainer.load(&batch).unwrap();
                trainer.step(1e-2).unwrap();
                trainer.take_sums().unwrap().loss / 3.0
            };
            (0..3).map(step).collect::<Vec<f64>>()
        };
        let three = losses(1, false);
        assert!(three[2] < three[0], "{three:?}");
        for other in [losses(1, true), losses(2, true), losses(2, false)] {
            assert!(three.iter().zip(&other).all(|(a, b)| (a - b).abs() < 1e-3), "{three:?} {other:?}");
        }
    }

    #[test]
    fn of_a_frozen_trunk_only_the_last_layer_learns() {
        let pixels = Tensor::randint(256, [4, 64, 64, 3], (Kind::Uint8, Device::Cpu));
        let batch = Batch { pixels, labels: Tensor::from_slice(&[0i64, 1, 2, 0]) };
        for devices in [1, 2] {
            let mut trainer = Trainer::new(recipe(Optimizer::Sgd), &vec![Device::Cpu; devices], 4).unwrap();
            trainer.start(None).unwrap();
            trainer.freeze(true).unwrap();
            let step = |trainer: &mut Trainer| {
                let before: Vec<(String, Tensor)> = on_cpu(trainer.first.iter().flat_map(Replica::variables));
                let before: Vec<(String, Tensor)> =
                    before.into_iter().map(|(name, value)| (name, value.copy())).collect();
                trainer.load(&batch).unwrap();
                trainer.step(1e-2).unwrap();
                let after = on_cpu(trainer.first.iter().flat_map(Replica::variables));
                let changed = before.into_iter().zip(after).filter(|((_, was), (_, is))| was != is);
                let changed = changed.map(|((name, _), _)| name).filter(|name| !name.contains(".running_"));
                changed.collect::<Vec<String>>()
            };
            assert_eq!(step(&mut trainer), ["fc.bias", "fc.weight"]);
            trainer.freeze(false).unwrap();
            assert!(step(&mut trainer).len() > 50, "all learn");
        }
    }

    #[test]
    fn gradients_add_up_on_each_device() {
        let gradients: Vec<Tensor> = (1..=3).map(|i| Tensor::arange(7, (Kind::Float, Device::Cpu)) * i).collect();
        add_up(&gradients).unwrap();
        for gradient in gradients {
            assert_eq!(Vec::<f32>::try_from(gradient).unwrap(), [0.0, 6.0, 12.0, 18.0, 24.0, 30.0, 36.0]);
        }
    }

    #[test]
    fn a_batch_smaller_than_the_gpus_is_refused() {
        let refused = Trainer::new(recipe(Optimizer::Sgd), &[Device::Cpu; 2], 1).err().unwrap().to_string();
        assert!(refused.contains("a batch of 1 cannot be divided over 2 GPUs"), "{refused}");
    }
}
