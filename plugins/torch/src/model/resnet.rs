//! ResNet-18, 34 and 50.

use tch::Kind;
use tch::nn::{self, Init, ModuleT};

use super::layers::{Activation, Conv, Norm, conv_norm, conv_norm_pair, linear};

/// A ResNet of basic blocks: two convolutions of 3×3.
pub(super) fn basic(path: &nn::Path<'_>, blocks: [i64; 4], classes: i64) -> impl ModuleT + use<> {
    resnet(path, blocks, classes, 1, |from, width, stride| {
        vec![Conv::new(from, width, 3, stride), Conv::new(width, width, 3, 1)]
    })
}

/// A ResNet of bottleneck blocks: 1×1, 3×3, 1×1, the stride in the middle.
pub(super) fn bottleneck(path: &nn::Path<'_>, blocks: [i64; 4], classes: i64) -> impl ModuleT + use<> {
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
) -> impl ModuleT + use<> {
    let stem = conv_norm(path / "conv1", path / "bn1", Conv::new(3, 64, 7, 2), Norm::default(), Activation::Relu);
    let (mut stages, mut channels, mut width) = (nn::seq_t(), 64, 64);
    for (stage, blocks) in (1..).zip(blocks) {
        for index in 0..blocks {
            let stride = if stage > 1 && index == 0 { 2 } else { 1 };
            let at = path / format!("layer{stage}") / index;
            stages = stages.add(block(at, &convolutions(channels, width, stride), channels, stride));
            channels = width * expansion;
        }
        width *= 2;
    }
    let bound = 1.0 / (channels as f64).sqrt();
    let uniform = Init::Uniform { lo: -bound, up: bound };
    let classifier = linear(path / "fc", channels, classes, uniform, uniform);
    nn::func_t(move |xs, train| {
        let ys = xs.apply_t(&stem, train).max_pool2d([3, 3], [2, 2], [1, 1], [1, 1], false);
        ys.apply_t(&stages, train).mean_dim([2i64, 3].as_slice(), false, None::<Kind>).apply(&classifier)
    })
}

fn block(path: nn::Path<'_>, convolutions: &[Conv], from: i64, stride: i64) -> impl ModuleT + use<> {
    let (mut body, mut to) = (nn::seq_t(), from);
    for (number, shape) in (1..).zip(convolutions) {
        let activation = if number == convolutions.len() { Activation::None } else { Activation::Relu };
        let (conv, norm) = (&path / format!("conv{number}"), &path / format!("bn{number}"));
        body = body.add(conv_norm(conv, norm, *shape, Norm::default(), activation));
        to = shape.to;
    }
    let shortcut = (stride != 1 || from != to).then(|| {
        conv_norm_pair(path / "downsample", Conv::new(from, to, 1, stride), Norm::default(), Activation::None)
    });
    nn::func_t(move |xs, train| {
        let mut ys = xs.apply_t(&body, train);
        ys += match &shortcut {
            Some(shortcut) => xs.apply_t(shortcut, train),
            None => xs.shallow_clone(),
        };
        ys.relu_()
    })
}
