//! ResNet-18, 34 and 50.

use tch::nn;
use tch::nn::init::FanInOut;

use super::layers::{
    Activation, Conv, Layer, Norm, conv_norm, conv_norm_pair, kaiming, linear, max_pool, plain, pooled, sequence,
};

/// A ResNet of basic blocks: two convolutions of 3×3.
pub(super) fn basic(path: &nn::Path<'_>, blocks: [i64; 4], classes: i64) -> Layer {
    resnet(path, blocks, classes, 1, |from, width, stride| {
        vec![Conv::new(from, width, 3, stride), Conv::new(width, width, 3, 1)]
    })
}

/// A ResNet of bottleneck blocks: 1×1, 3×3, 1×1, the stride in the middle.
pub(super) fn bottleneck(path: &nn::Path<'_>, blocks: [i64; 4], classes: i64) -> Layer {
    resnet(path, blocks, classes, 4, |from, width, stride| {
        vec![Conv::new(from, width, 1, 1), Conv::new(width, width, 3, stride), Conv::new(width, 4 * width, 1, 1)]
    })
}

fn resnet(
    path: &nn::Path<'_>,
    blocks: [i64; 4],
    classes: i64,
    expansion: i64,
    convolutions: fn(i64, i64, i64) -> Vec<Conv>,
) -> Layer {
    let stem = Conv::new(3, 64, 7, 2);
    let mut layers = vec![normalised(path / "conv1", path / "bn1", stem, Activation::Relu), max_pool(3, 2, 1, false)];
    let (mut channels, mut width) = (64, 64);
    for (stage, blocks) in (1..).zip(blocks) {
        for index in 0..blocks {
            let stride = if stage > 1 && index == 0 { 2 } else { 1 };
            let at = path / format!("layer{stage}") / index;
            layers.push(block(at, &convolutions(channels, width, stride), channels, stride));
            channels = width * expansion;
        }
        width *= 2;
    }
    layers.extend([pooled(), linear(path / "fc", channels, classes, plain(channels), plain(channels))]);
    sequence(layers)
}

fn normalised(conv: nn::Path<'_>, norm: nn::Path<'_>, shape: Conv, activation: Activation) -> Layer {
    conv_norm(conv, norm, shape, kaiming(FanInOut::FanOut), Norm::default(), activation)
}

fn block(path: nn::Path<'_>, convolutions: &[Conv], from: i64, stride: i64) -> Layer {
    let (mut body, mut to) = (Vec::new(), from);
    for (number, &shape) in (1..).zip(convolutions) {
        let activation = if number == convolutions.len() { Activation::None } else { Activation::Relu };
        body.push(normalised(&path / format!("conv{number}"), &path / format!("bn{number}"), shape, activation));
        to = shape.to;
    }
    let body = sequence(body);
    let shortcut = (stride != 1 || from != to).then(|| {
        conv_norm_pair(path / "downsample", Conv::new(from, to, 1, stride), Norm::default(), Activation::None)
    });
    Box::new(move |xs, pass| {
        let mut ys = body(xs, pass);
        ys += match &shortcut {
            Some(shortcut) => shortcut(xs, pass),
            None => xs.shallow_clone(),
        };
        Activation::Relu.of(ys, pass)
    })
}
