//! The layers that the networks share, with torchvision's initialisation.

use tch::nn::init::{FanInOut, NonLinearity, NormalOrUniform};
use tch::nn::{self, Init, ModuleT};

/// What follows a normalised convolution. All work in place: the memory that a network takes is part of what is measured.
#[derive(Clone, Copy, Debug)]
pub(super) enum Activation {
    None,
    Relu,
    Relu6,
    Hardswish,
}

/// The shape of a convolution; the padding keeps the size of the image at stride 1.
#[derive(Clone, Copy, Debug)]
pub(super) struct Conv {
    pub(super) from: i64,
    pub(super) to: i64,
    pub(super) kernel: i64,
    pub(super) stride: i64,
    pub(super) groups: i64,
}

impl Conv {
    /// A plain convolution.
    pub(super) fn new(from: i64, to: i64, kernel: i64, stride: i64) -> Self {
        Self { from, to, kernel, stride, groups: 1 }
    }

    /// One filter for each channel.
    pub(super) fn depthwise(channels: i64, kernel: i64, stride: i64) -> Self {
        Self { from: channels, to: channels, kernel, stride, groups: channels }
    }

    /// The layer, with Kaiming's normal initialisation for ReLU by fan-out.
    pub(super) fn layer(self, path: nn::Path<'_>, bias: bool) -> nn::Conv2D {
        let config = nn::ConvConfig {
            stride: self.stride,
            padding: (self.kernel - 1) / 2,
            groups: self.groups,
            bias,
            ws_init: Init::Kaiming {
                dist: NormalOrUniform::Normal,
                fan: FanInOut::FanOut,
                non_linearity: NonLinearity::ReLU,
            },
            ..Default::default()
        };
        nn::conv2d(path, self.from, self.to, self.kernel, config)
    }
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
    pub(super) fn layer(self, path: nn::Path<'_>, channels: i64) -> nn::BatchNorm {
        let Norm { eps, momentum } = self;
        nn::batch_norm2d(
            path,
            channels,
            nn::BatchNormConfig { eps, momentum, ws_init: Init::Const(1.0), ..Default::default() },
        )
    }
}

/// A convolution without bias, its normalisation and its activation, at the given paths.
pub(super) fn conv_norm(
    conv: nn::Path<'_>,
    norm: nn::Path<'_>,
    shape: Conv,
    normalise: Norm,
    activation: Activation,
) -> impl ModuleT + use<> {
    let layer = shape.layer(conv, false);
    let norm = normalise.layer(norm, shape.to);
    nn::func_t(move |xs, train| {
        let mut ys = xs.apply(&layer).apply_t(&norm, train);
        match activation {
            Activation::None => ys,
            Activation::Relu => ys.relu_(),
            Activation::Relu6 => ys.relu6_(),
            Activation::Hardswish => ys.hardswish_(),
        }
    })
}

/// The same as one entry of a sequence: `path.0` is the convolution, `path.1` the normalisation.
pub(super) fn conv_norm_pair(
    path: nn::Path<'_>,
    shape: Conv,
    normalise: Norm,
    activation: Activation,
) -> impl ModuleT + use<> {
    conv_norm(&path / 0, &path / 1, shape, normalise, activation)
}

/// A linear layer.
pub(super) fn linear(path: nn::Path<'_>, from: i64, to: i64, weights: Init, bias: Init) -> nn::Linear {
    nn::linear(path, from, to, nn::LinearConfig { ws_init: weights, bs_init: Some(bias), bias: true })
}
