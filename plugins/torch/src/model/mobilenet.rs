//! MobileNet, MobileNetV2 and MobileNetV3-Large.

use tch::Kind;
use tch::nn;
use tch::nn::init::FanInOut;

use super::layers::{
    Activation, Conv, Layer, Norm, ZERO, conv_norm, conv_norm_pair, dense, dropout, kaiming, linear, normal, pooled,
    residual, sequence,
};

/// MobileNet at width 1. torchvision has none; layers and normalisation are those of Keras, names as in MobileNetV2.
pub(super) fn v1(path: &nn::Path<'_>, classes: i64, part: f64) -> Layer {
    // Channels and stride of each pair of convolutions, depthwise and pointwise.
    const PAIRS: [(i64, i64); 13] = [
        (64, 1),
        (128, 2),
        (128, 1),
        (256, 2),
        (256, 1),
        (512, 2),
        (512, 1),
        (512, 1),
        (512, 1),
        (512, 1),
        (512, 1),
        (1024, 2),
        (1024, 1),
    ];
    use Activation::Relu6;
    let features = path / "features";
    let mut layers = vec![conv_norm_pair(&features / 0, Conv::new(3, 32, 3, 2), KERAS_NORM, Relu6)];
    let mut channels = 32;
    for (index, (to, stride)) in (1..).zip(PAIRS) {
        let at = &features / index;
        layers.push(conv_norm_pair(&at / 0, Conv::depthwise(channels, 3, stride), KERAS_NORM, Relu6));
        layers.push(conv_norm_pair(&at / 1, Conv::new(channels, to, 1, 1), KERAS_NORM, Relu6));
        channels = to;
    }
    layers.extend([pooled(), dropout(part), linear(path / "classifier" / 1, channels, classes, normal(0.01), ZERO)]);
    sequence(layers)
}

/// MobileNetV2 at width 1.
pub(super) fn v2(path: &nn::Path<'_>, classes: i64, part: f64) -> Layer {
    // Expansion, channels, blocks, stride of the first.
    const STAGES: [(i64, i64, i64, i64); 7] =
        [(1, 16, 1, 1), (6, 24, 2, 2), (6, 32, 3, 2), (6, 64, 4, 2), (6, 96, 3, 1), (6, 160, 3, 2), (6, 320, 1, 1)];
    let features = path / "features";
    let norm = Norm::default();
    let mut layers = vec![conv_norm_pair(&features / 0, Conv::new(3, 32, 3, 2), norm, Activation::Relu6)];
    let (mut channels, mut index) = (32, 1);
    for (expansion, to, blocks, stride) in STAGES {
        for block in 0..blocks {
            let stride = if block == 0 { stride } else { 1 };
            layers.push(inverted_residual(&features / index / "conv", channels, to, stride, expansion));
            (channels, index) = (to, index + 1);
        }
    }
    layers.push(conv_norm_pair(&features / index, Conv::new(channels, 1280, 1, 1), norm, Activation::Relu6));
    layers.extend([pooled(), dropout(part), linear(path / "classifier" / 1, 1280, classes, normal(0.01), ZERO)]);
    sequence(layers)
}

fn inverted_residual(path: nn::Path<'_>, from: i64, to: i64, stride: i64, expansion: i64) -> Layer {
    let (hidden, norm) = (from * expansion, Norm::default());
    let mut block = Vec::new();
    if expansion != 1 {
        block.push(conv_norm_pair(&path / 0, Conv::new(from, hidden, 1, 1), norm, Activation::Relu6));
    }
    let index = block.len() as i64;
    block.push(conv_norm_pair(&path / index, Conv::depthwise(hidden, 3, stride), norm, Activation::Relu6));
    let (conv, normalised) = (&path / (index + 1), &path / (index + 2));
    let narrow = Conv::new(hidden, to, 1, 1);
    block.push(conv_norm(conv, normalised, narrow, kaiming(FanInOut::FanOut), norm, Activation::None));
    residual(sequence(block), stride == 1 && from == to)
}

/// One row of MobileNetV3's table.
struct Bottleneck(i64, i64, i64, i64, bool, Activation, i64);

/// MobileNetV3-Large at width 1.
pub(super) fn v3_large(path: &nn::Path<'_>, classes: i64, part: f64) -> Layer {
    use Activation::{Hardswish, Relu};
    // Channels before, kernel, hidden channels, channels after, squeeze and excite, activation, stride.
    const BLOCKS: [Bottleneck; 15] = [
        Bottleneck(16, 3, 16, 16, false, Relu, 1),
        Bottleneck(16, 3, 64, 24, false, Relu, 2),
        Bottleneck(24, 3, 72, 24, false, Relu, 1),
        Bottleneck(24, 5, 72, 40, true, Relu, 2),
        Bottleneck(40, 5, 120, 40, true, Relu, 1),
        Bottleneck(40, 5, 120, 40, true, Relu, 1),
        Bottleneck(40, 3, 240, 80, false, Hardswish, 2),
        Bottleneck(80, 3, 200, 80, false, Hardswish, 1),
        Bottleneck(80, 3, 184, 80, false, Hardswish, 1),
        Bottleneck(80, 3, 184, 80, false, Hardswish, 1),
        Bottleneck(80, 3, 480, 112, true, Hardswish, 1),
        Bottleneck(112, 3, 672, 112, true, Hardswish, 1),
        Bottleneck(112, 5, 672, 160, true, Hardswish, 2),
        Bottleneck(160, 5, 960, 160, true, Hardswish, 1),
        Bottleneck(160, 5, 960, 160, true, Hardswish, 1),
    ];
    let features = path / "features";
    let mut layers = vec![conv_norm_pair(&features / 0, Conv::new(3, 16, 3, 2), KERAS_NORM, Hardswish)];
    let mut index = 1;
    for block in BLOCKS {
        layers.push(bottleneck(&features / index / "block", &block));
        index += 1;
    }
    layers.push(conv_norm_pair(&features / index, Conv::new(160, 960, 1, 1), KERAS_NORM, Hardswish));
    let classifier = path / "classifier";
    let wide = linear(&classifier / 0, 960, 1280, normal(0.01), ZERO);
    let last = linear(&classifier / 3, 1280, classes, normal(0.01), ZERO);
    layers.extend([pooled(), dense(wide, Hardswish), dropout(part), last]);
    sequence(layers)
}

const KERAS_NORM: Norm = Norm { eps: 1e-3, momentum: 0.01 };

fn bottleneck(path: nn::Path<'_>, row: &Bottleneck) -> Layer {
    let &Bottleneck(from, kernel, hidden, to, squeeze, activation, stride) = row;
    let mut block: Vec<Layer> = Vec::new();
    if hidden != from {
        block.push(conv_norm_pair(&path / 0, Conv::new(from, hidden, 1, 1), KERAS_NORM, activation));
    }
    let index = block.len() as i64;
    block.push(conv_norm_pair(&path / index, Conv::depthwise(hidden, kernel, stride), KERAS_NORM, activation));
    if squeeze {
        block.push(squeeze_excite(&path / (index + 1), hidden));
    }
    let index = block.len() as i64;
    block.push(conv_norm_pair(&path / index, Conv::new(hidden, to, 1, 1), KERAS_NORM, Activation::None));
    residual(sequence(block), stride == 1 && from == to)
}

/// Weighs the channels by what the whole image says of each.
fn squeeze_excite(path: nn::Path<'_>, channels: i64) -> Layer {
    let few = multiple_of_8(channels / 4);
    let conv = |name, from, to| Conv::new(from, to, 1, 1).layer(&path / name, kaiming(FanInOut::FanOut), Some(ZERO));
    let squeeze = dense(conv("fc1", channels, few), Activation::Relu);
    let excite = dense(conv("fc2", few, channels), Activation::Hardsigmoid);
    Box::new(move |xs, pass| {
        let whole = xs.mean_dim([2i64, 3].as_slice(), true, None::<Kind>);
        xs * excite(&squeeze(&whole, pass), pass)
    })
}

/// The nearest multiple of 8, but never more than a tenth below.
fn multiple_of_8(channels: i64) -> i64 {
    let near = ((channels + 4) / 8 * 8).max(8);
    if near * 10 < channels * 9 { near + 8 } else { near }
}
