//! One network on one device, and its training there. Knows no files, no epochs and no other device.
//!
//! On a GPU, a step is recorded once as a CUDA graph and then launched as one. At small batch sizes, single launches
//! would take longer than the work. A batch is copied to the GPU during the step before.

use std::sync::{Arc, Mutex, PoisonError};

use flow_plugin::Error;
use tch::nn;
use tch::{Device, IndexOp, Kind, Reduction, TchError, Tensor};

use crate::dataset::Dataset;
use crate::model::{Form, Layer, Pass};
use crate::native::{self, Autocast, Feed, Graph};
use crate::options::{Optimizer, Options, Precision};

/// The network and the parameters of its training.
#[derive(Clone, Debug)]
pub(crate) struct Recipe {
    pub(crate) form: Form,
    pub(crate) options: Options,
    /// Mean of each channel, between 0 and 1.
    pub(crate) mean: [f32; 3],
    pub(crate) std: [f32; 3],
}

impl Recipe {
    /// The recipe of a training on a dataset.
    pub(crate) fn of(options: &Options, data: &Dataset) -> Recipe {
        Recipe {
            form: Form { model: options.model, classes: data.classes.len(), size: data.size, dropout: options.dropout },
            options: options.clone(),
            mean: data.mean,
            std: data.std,
        }
    }

    /// The first weights, by name: from the CPU's generator, so that a seed gives the same on every device.
    pub(crate) fn weights(&self) -> Vec<(String, Tensor)> {
        let store = nn::VarStore::new(Device::Cpu);
        let _network = self.form.build(&store.root());
        store.variables().into_iter().collect()
    }
}

/// The values of a network by name, to be copied into networks in other threads.
#[derive(Clone)]
pub(crate) struct Weights(Arc<Mutex<Vec<(String, Tensor)>>>);

impl Weights {
    pub(crate) fn of(values: impl IntoIterator<Item = (String, Tensor)>) -> Self {
        Self(Arc::new(Mutex::new(values.into_iter().collect())))
    }

    /// Puts the values into those of the same names.
    fn copy_into(&self, mut variables: Vec<(String, Tensor)>) -> Result<(), Error> {
        let values = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        for (name, variable) in &mut variables {
            let value = values.iter().find(|(other, _)| other == name).map(|(_, value)| value);
            let value = value.filter(|value| value.size() == variable.size()).ok_or_else(|| {
                Error::failed(format!("there is no value for `{name}` of shape {:?}", variable.size()))
            })?;
            tch::no_grad(|| variable.f_copy_(value))?;
        }
        Ok(())
    }
}

/// The class of a picture that only fills a batch up.
pub(crate) const COUNTS_NOT: i64 = -100;

/// Sums over the samples since they were last taken.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Sums {
    pub(crate) loss: f64,
    pub(crate) right: f64,
}

/// A network on one device.
pub(crate) struct Replica {
    device: Device,
    store: nn::VarStore,
    network: Layer,
    /// All that can be trained, in the order of their making: the store's map has none.
    leaves: Vec<Tensor>,
    optimizer: native::Optimizer,
    recipe: Recipe,
    /// Bytes to normalised values: times this, plus that.
    scale: Tensor,
    shift: Tensor,
    /// Pictures of a whole batch that are its own, and their share of it, between 0 and 1.
    own: usize,
    share: f64,
    /// The input of the next step. On a GPU it is always at the same address.
    input: Option<(Tensor, Tensor)>,
    feed: Option<Feed>,
    graph: Option<Graph>,
    loss: Tensor,
    right: Tensor,
}

impl Replica {
    /// A network on `device` that is to see `own` pictures of each batch, which are `share` of it. To be used by the calling thread alone.
    pub(crate) fn new(
        recipe: Recipe,
        weights: Option<&Weights>,
        device: Device,
        own: usize,
        share: f64,
    ) -> Result<Self, Error> {
        native::use_device(device)?;
        let store = nn::VarStore::new(device);
        let network = recipe.form.build(&store.root());
        if let Some(weights) = weights {
            weights.copy_into(store.variables().into_iter().collect())?;
        }
        let mut leaves = store.trainable_variables();
        if recipe.options.channels_last {
            tch::no_grad(|| leaves.iter_mut().for_each(channels_last));
        }
        let optimizer = optimizer(&recipe, &leaves)?;
        let channel = |value: fn(f32, f32) -> f32| {
            let values: [f32; 3] = std::array::from_fn(|c| value(recipe.mean[c], recipe.std[c]));
            Tensor::from_slice(&values).view([1, 3, 1, 1]).to_device(device)
        };
        let zero = || Tensor::zeros([], (Kind::Float, device));
        Ok(Self {
            scale: channel(|_, std| 1.0 / (255.0 * std)),
            shift: channel(|mean, std| -mean / std),
            loss: zero(),
            right: zero(),
            feed: native::index(device).map(Feed::new).transpose()?,
            device,
            store,
            network,
            leaves,
            optimizer,
            recipe,
            own,
            share,
            input: None,
            graph: None,
        })
    }

    /// Trains only the classifier layers, or all. The optimizer starts without state.
    pub(crate) fn freeze(&mut self, frozen: bool) -> Result<(), TchError> {
        let model = self.recipe.form.model;
        let heads: Vec<Tensor> =
            self.store.variables().into_iter().filter(|(name, _)| model.is_head(name)).map(|(_, head)| head).collect();
        let is_trained = |leaf: &Tensor| !frozen || heads.iter().any(|head| head.data_ptr() == leaf.data_ptr());
        for leaf in &self.leaves {
            leaf.f_set_requires_grad(is_trained(leaf)).map(drop)?;
        }
        let trained: Vec<Tensor> =
            self.leaves.iter().filter(|leaf| is_trained(leaf)).map(Tensor::shallow_clone).collect();
        self.optimizer = optimizer(&self.recipe, &trained)?;
        self.graph = None;
        Ok(())
    }

    /// Makes this part of a batch, bytes N×H×W×3 and their classes, the next to be worked on.
    pub(crate) fn load(&mut self, pixels: &Tensor, labels: &Tensor) -> Result<(), TchError> {
        let Some(feed) = &mut self.feed else {
            self.input = Some((pixels.shallow_clone(), labels.shallow_clone()));
            return Ok(());
        };
        // A graph works on what lies where it was recorded.
        let place = |from: &Tensor| Tensor::f_empty(from.size(), (from.kind(), self.device));
        let fits = self.input.as_ref().is_some_and(|(to, _)| to.size() == pixels.size());
        if !fits {
            (self.graph, *feed) = (None, Feed::new(native::index(self.device).unwrap_or_default())?);
            self.input = Some((place(pixels)?, place(labels)?));
        }
        let Some((to, to_labels)) = &self.input else { return Ok(()) };
        feed.put(&[pixels, labels], &[to, to_labels])
    }

    /// Records the work of a step on what is loaded, on a GPU; [`Replica::step`] then launches it as one.
    pub(crate) fn record(&mut self) -> Result<(), Error> {
        if let Some(index) = native::index(self.device) {
            self.graph = Some(Graph::record(index, || self.work())?);
        }
        Ok(())
    }

    /// One step on what is loaded: its gradient, and the update too if the batch is all here.
    pub(crate) fn step(&mut self, rate: f64) -> Result<(), Error> {
        self.optimizer.set_rate(rate)?;
        match &mut self.graph {
            Some(graph) => Ok(graph.replay()?),
            None => self.work(),
        }
    }

    fn work(&mut self) -> Result<(), Error> {
        let Some((pixels, labels)) = &self.input else { return Err(Error::failed("a step before its batch")) };
        let mut pass = Pass::training();
        // By the size of a whole batch, so that no picture of an incomplete one weighs more than others.
        let own = self.own as f64;
        let loss_of = |logits: Tensor| {
            let likely = logits.log_softmax(-1, Kind::Float);
            likely.g_nll_loss::<Tensor>(labels, None, Reduction::Sum, COUNTS_NOT) / own
        };
        let mut loss = loss_of(self.forward(pixels, &mut pass)?);
        for (part, logits) in pass.auxiliary {
            loss += loss_of(logits) * part;
        }
        tch::no_grad(|| self.loss += loss.detach() * own);
        let own = if self.share < 1.0 { loss * self.share } else { loss };
        own.f_backward()?;
        self.optimizer.gather()?;
        if self.share >= 1.0 {
            self.optimizer.update()?;
        }
        Ok(())
    }

    /// The gradient of its part of the batch, weighted so that the sum over the parts is that of the whole.
    pub(crate) fn gradient(&self) -> Result<Tensor, TchError> {
        self.optimizer.gradient()
    }

    /// Changes the weights by the gradient.
    pub(crate) fn update(&mut self) -> Result<(), TchError> {
        self.optimizer.update()
    }

    /// Adds loss and hits of a validation batch to the sums. On a GPU, a smaller batch is padded to `usual` pictures:
    /// for each new batch size, cuDNN prepares again, which takes more than a second for a MobileNet.
    pub(crate) fn validate(&mut self, pixels: &Tensor, labels: &Tensor, usual: i64) -> Result<(), Error> {
        let there = |tensor: &Tensor| tensor.f_to_device_(self.device, tensor.kind(), true, false);
        let (mut pixels, labels, count) = (there(pixels)?, there(labels)?, labels.size()[0]);
        if self.device.is_cuda() && count < usual {
            pixels = pixels.f_constant_pad_nd([0, 0, 0, 0, 0, 0, 0, usual - count])?;
        }
        tch::no_grad(|| {
            let logits = self.forward(&pixels, &mut Pass::default())?.f_narrow(0, 0, count)?;
            self.loss += logits.cross_entropy_for_logits(&labels) * count;
            self.right += logits.argmax(-1, false).eq_tensor(&labels).sum(Kind::Float);
            Ok(())
        })
    }

    /// Waits for the device, and gives the sums up to here.
    pub(crate) fn take_sums(&mut self) -> Result<Sums, TchError> {
        let take = |sum: &mut Tensor| -> Result<f64, TchError> {
            let value = sum.f_double_value(&[])?;
            let _ = sum.f_zero_()?;
            Ok(value)
        };
        Ok(Sums { loss: take(&mut self.loss)?, right: take(&mut self.right)? })
    }

    fn forward(&self, pixels: &Tensor, pass: &mut Pass) -> Result<Tensor, TchError> {
        // Pixel after pixel is what channels-last means.
        let pixels = pixels.f_permute([0, 3, 1, 2])?;
        let pixels = if self.recipe.options.channels_last { pixels } else { pixels.f_contiguous()? };
        let pixels = self.shift.f_addcmul(&pixels, &self.scale)?;
        let _bf16 = (self.recipe.options.precision == Precision::Bf16).then(Autocast::bf16).transpose()?;
        Ok((self.network)(&pixels, pass))
    }

    /// The running statistics of its normalisations.
    pub(crate) fn statistics(&self) -> Weights {
        Weights::of(self.store.variables().into_iter().filter(|(name, _)| name.contains(".running_")))
    }

    /// Takes over another replica's statistics.
    pub(crate) fn take_statistics(&mut self, from: &Weights) -> Result<(), Error> {
        let own = self.store.variables().into_iter().filter(|(name, _)| name.contains(".running_"));
        from.copy_into(own.collect())
    }

    /// Weights and statistics by name.
    pub(crate) fn variables(&self) -> impl Iterator<Item = (String, Tensor)> {
        self.store.variables().into_iter()
    }

    /// The optimizer's state, by name.
    pub(crate) fn optimizer_state(&self) -> Result<Vec<(String, Tensor)>, TchError> {
        let named = |(number, value)| (format!("optimizer.{number}"), value);
        Ok(self.optimizer.state()?.into_iter().enumerate().map(named).collect())
    }

    /// Restores an optimizer's state.
    pub(crate) fn restore(&mut self, from: &Weights) -> Result<(), Error> {
        from.copy_into(self.optimizer_state()?)
    }
}

fn optimizer(recipe: &Recipe, trained: &[Tensor]) -> Result<native::Optimizer, TchError> {
    let Options { optimizer, momentum, weight_decay, .. } = recipe.options;
    native::Optimizer::new(&trained.iter().collect::<Vec<_>>(), optimizer == Optimizer::Adam, momentum, weight_decay)
}

/// Puts the weights of a convolution into the order in which its pictures come.
fn channels_last(weights: &mut Tensor) {
    if weights.dim() == 4 {
        let reordered = weights.permute([0, 2, 3, 1]).contiguous().permute([0, 3, 1, 2]);
        weights.set_data(&reordered);
    }
}

/// Adds the gradients of all devices up, on each. Each device sums one stretch and gives the others the result, so that all
/// links carry an equal part.
pub(crate) fn add_up(gradients: &[Tensor]) -> Result<(), TchError> {
    let devices = gradients.len() as i64;
    let Some(all) = gradients.first().map(|gradient| gradient.size()[0]) else { return Ok(()) };
    let stretch = |part: i64| (part * all / devices)..((part + 1) * all / devices);
    tch::no_grad(|| {
        for (part, own) in (0..).zip(gradients) {
            let mut sum = own.i(stretch(part));
            for other in gradients.iter().filter(|other| other.data_ptr() != own.data_ptr()) {
                let there = other.i(stretch(part)).f_to_device_(own.device(), Kind::Float, true, false)?;
                sum.f_add_(&there).map(drop)?;
            }
        }
        for (part, own) in (0..).zip(gradients) {
            let sum = own.i(stretch(part));
            for other in gradients.iter().filter(|other| other.data_ptr() != own.data_ptr()) {
                other.i(stretch(part)).f_copy_(&sum).map(drop)?;
            }
        }
        Ok(())
    })
}
