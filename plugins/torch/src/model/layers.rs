//! The layers that the networks share, and how a batch goes through them. Each layer reports its work, so the cost of a
//! network is counted where it is built.

use tch::nn::init::{FanInOut, NonLinearity, NormalOrUniform};
use tch::nn::{self, Init, Module, ModuleT};
use tch::{Kind, Tensor};

/// A part of a network.
pub(crate) type Layer = Box<dyn Fn(&Tensor, &mut Pass) -> Tensor + Send>;

/// The way of one batch through a network.
#[derive(Debug, Default)]
pub(crate) struct Pass {
    /// Normalise by the batch's own statistics, drop features out, and ask the auxiliary heads.
    pub(super) train: bool,
    /// Outputs of the auxiliary heads, with the weight of their loss.
    pub(crate) auxiliary: Vec<(f64, Tensor)>,
    /// The work so far.
    pub(super) work: Work,
}

impl Pass {
    pub(crate) fn training() -> Self {
        Self { train: true, ..Self::default() }
    }

    /// The work so far.
    pub(crate) fn work(&self) -> Work {
        self.work
    }
}

/// The work of a network for a batch.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Work {
    /// Multiply-accumulates of convolutions, linear layers and attention.
    pub(crate) macs: i64,
    /// Values that normalisations give.
    pub(crate) normalised: i64,
    /// Values that activations give.
    pub(crate) activated: i64,
    /// Convolutions and linear layers.
    pub(crate) layers: i64,
}

impl Work {
    /// The multiply-accumulates, 2 for each normalised value and 1 for each activated one.
    pub(crate) fn operations(&self) -> i64 {
        self.macs + 2 * self.normalised + self.activated
    }

    /// A layer of which each value comes from one filter of `weights`.
    pub(super) fn layer(&mut self, weights: &Tensor, out: &Tensor) {
        self.layers += 1;
        self.macs += out.numel() as i64 * (weights.numel() as i64 / weights.size()[0]);
    }
}

/// One layer after the other.
pub(super) fn sequence(layers: Vec<Layer>) -> Layer {
    Box::new(move |xs, pass| layers.iter().fold(xs.shallow_clone(), |xs, layer| layer(&xs, pass)))
}

/// Parallel branches, with their channels concatenated.
pub(super) fn branches(layers: Vec<Layer>) -> Layer {
    Box::new(move |xs, pass| {
        let parts: Vec<Tensor> = layers.iter().map(|layer| layer(xs, pass)).collect();
        Tensor::cat(&parts, 1)
    })
}

/// A head that is used in training only, with the weight of its loss. Returns its input.
pub(super) fn auxiliary(part: f64, head: Layer) -> Layer {
    Box::new(move |xs, pass| {
        if pass.train {
            let answer = head(xs, pass);
            pass.auxiliary.push((part, answer));
        }
        xs.shallow_clone()
    })
}

/// Adds the input of a block to its output, if both have the same shape.
pub(super) fn residual(block: Layer, shortcut: bool) -> Layer {
    Box::new(move |xs, pass| {
        let ys = block(xs, pass);
        if shortcut { xs + ys } else { ys }
    })
}

/// The activation after a convolution or a linear layer. All but GELU work in place, because flow also measures the
/// memory of a network.
#[derive(Clone, Copy, Debug)]
pub(super) enum Activation {
    None,
    Relu,
    Relu6,
    Hardswish,
    Hardsigmoid,
    Gelu,
}

impl Activation {
    /// Applies the activation. It may overwrite `xs`.
    pub(super) fn of(self, mut xs: Tensor, pass: &mut Pass) -> Tensor {
        if !matches!(self, Activation::None) {
            pass.work.activated += xs.numel() as i64;
        }
        match self {
            Activation::None => xs,
            Activation::Relu => xs.relu_(),
            Activation::Relu6 => xs.relu6_(),
            Activation::Hardswish => xs.hardswish_(),
            Activation::Hardsigmoid => xs.hardsigmoid_(),
            Activation::Gelu => xs.gelu("none"),
        }
    }
}

/// The shape of a convolution; unless it is `unpadded`, the padding keeps the size of the image at stride 1.
#[derive(Clone, Copy, Debug)]
pub(super) struct Conv {
    pub(super) from: i64,
    pub(super) to: i64,
    pub(super) kernel: [i64; 2],
    pub(super) stride: i64,
    pub(super) padding: [i64; 2],
    pub(super) groups: i64,
}

impl Conv {
    pub(super) fn new(from: i64, to: i64, kernel: i64, stride: i64) -> Self {
        Self { stride, ..Self::wide(from, to, [kernel; 2]) }
    }

    /// A convolution with a kernel of this height and width.
    pub(super) fn wide(from: i64, to: i64, kernel: [i64; 2]) -> Self {
        Self { from, to, kernel, stride: 1, padding: kernel.map(|side| (side - 1) / 2), groups: 1 }
    }

    /// One filter for each channel.
    pub(super) fn depthwise(channels: i64, kernel: i64, stride: i64) -> Self {
        Self { groups: channels, ..Self::new(channels, channels, kernel, stride) }
    }

    /// The same with another padding on all sides.
    pub(super) fn padded(self, padding: i64) -> Self {
        Self { padding: [padding; 2], ..self }
    }

    /// The layer, its weights and its bias begun in these ways.
    pub(super) fn layer(self, path: nn::Path<'_>, weights: Init, bias: Option<Init>) -> Layer {
        let config = nn::ConvConfigND::<[i64; 2]> {
            stride: [self.stride; 2],
            padding: self.padding,
            groups: self.groups,
            bias: bias.is_some(),
            ws_init: weights,
            bs_init: bias.unwrap_or(ZERO),
            ..Default::default()
        };
        let layer = nn::conv(path, self.from, self.to, self.kernel, config);
        Box::new(move |xs, pass| {
            let ys = layer.forward(xs);
            pass.work.layer(&layer.ws, &ys);
            ys
        })
    }

    /// PyTorch's own bound for weights and bias.
    pub(super) fn plain(self) -> Init {
        plain(self.from / self.groups * self.kernel[0] * self.kernel[1])
    }
}

pub(super) const ZERO: Init = Init::Const(0.0);

/// Kaiming's normal initialisation for ReLU.
pub(super) fn kaiming(fan: FanInOut) -> Init {
    Init::Kaiming { dist: NormalOrUniform::Normal, fan, non_linearity: NonLinearity::ReLU }
}

/// A normal distribution around 0.
pub(super) fn normal(stdev: f64) -> Init {
    Init::Randn { mean: 0.0, stdev }
}

/// PyTorch's own initialisation of a layer in which so many values come together.
pub(super) fn plain(fan_in: i64) -> Init {
    uniform(1.0 / (fan_in as f64).sqrt())
}

/// Evenly between two bounds.
pub(super) fn uniform(bound: f64) -> Init {
    Init::Uniform { lo: -bound, up: bound }
}

/// How a network normalises its batches.
#[derive(Clone, Copy, Debug)]
pub(super) struct Norm {
    pub(super) eps: f64,
    pub(super) momentum: f64,
}

impl Default for Norm {
    fn default() -> Self {
        Self { eps: 1e-5, momentum: 0.1 }
    }
}

impl Norm {
    /// Batch normalisation that starts as the identity.
    pub(super) fn layer(self, path: nn::Path<'_>, channels: i64, activation: Activation) -> Layer {
        let Norm { eps, momentum } = self;
        let config = nn::BatchNormConfig { eps, momentum, ws_init: Init::Const(1.0), ..Default::default() };
        let layer = nn::batch_norm2d(path, channels, config);
        Box::new(move |xs, pass| {
            let ys = layer.forward_t(xs, pass.train);
            pass.work.normalised += ys.numel() as i64;
            activation.of(ys, pass)
        })
    }
}

/// A convolution without bias, its normalisation and its activation, at the given paths.
pub(super) fn conv_norm(
    conv: nn::Path<'_>,
    norm: nn::Path<'_>,
    shape: Conv,
    weights: Init,
    normalise: Norm,
    activation: Activation,
) -> Layer {
    let conv = shape.layer(conv, weights, None);
    sequence(vec![conv, normalise.layer(norm, shape.to, activation)])
}

/// The same as one entry of a sequence: `path.0` is the convolution, `path.1` the normalisation.
pub(super) fn conv_norm_pair(path: nn::Path<'_>, shape: Conv, normalise: Norm, activation: Activation) -> Layer {
    conv_norm(&path / 0, &path / 1, shape, kaiming(FanInOut::FanOut), normalise, activation)
}

pub(super) fn linear(path: nn::Path<'_>, from: i64, to: i64, weights: Init, bias: Init) -> Layer {
    let layer = nn::linear(path, from, to, nn::LinearConfig { ws_init: weights, bs_init: Some(bias), bias: true });
    Box::new(move |xs, pass| {
        let ys = layer.forward(xs);
        pass.work.layer(&layer.ws, &ys);
        ys
    })
}

/// A linear layer and what follows it.
pub(super) fn dense(layer: Layer, activation: Activation) -> Layer {
    Box::new(move |xs, pass| {
        let ys = layer(xs, pass);
        activation.of(ys, pass)
    })
}

/// Does without this part of the features in each step.
pub(super) fn dropout(part: f64) -> Layer {
    Box::new(move |xs, pass| xs.dropout(part, pass.train))
}

/// The largest of each square.
pub(super) fn max_pool(kernel: i64, stride: i64, padding: i64, ceil: bool) -> Layer {
    Box::new(move |xs, _| xs.max_pool2d([kernel; 2], [stride; 2], [padding; 2], [1, 1], ceil))
}

/// The mean of each square; the padding counts as zeros.
pub(super) fn mean_pool(kernel: i64, stride: i64, padding: i64) -> Layer {
    Box::new(move |xs, _| xs.avg_pool2d([kernel; 2], [stride; 2], [padding; 2], false, true, None))
}

/// The mean of each channel.
pub(super) fn pooled() -> Layer {
    Box::new(|xs, _| xs.mean_dim([2i64, 3].as_slice(), false, None::<Kind>))
}

/// An image of this width and height, whatever came in: the means of its parts.
pub(super) fn resized(side: i64) -> Layer {
    Box::new(move |xs, _| xs.adaptive_avg_pool2d([side; 2]))
}

/// One row of values.
pub(super) fn flattened() -> Layer {
    Box::new(|xs, _| xs.flatten(1, -1))
}
