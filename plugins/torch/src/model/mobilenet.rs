//! MobileNetV2 and MobileNetV3-Large.

use tch::Kind;
use tch::nn::{self, Init, ModuleT};

use super::layers::{Activation, Conv, Norm, conv_norm, conv_norm_pair, linear};

const DENSE: Init = Init::Randn { mean: 0.0, stdev: 0.01 };

/// MobileNetV2 at width 1.
pub(super) fn v2(path: &nn::Path<'_>, classes: i64, dropout: f64) -> impl ModuleT + use<> {
    // Expansion, channels, blocks, stride of the first.
    const STAGES: [(i64, i64, i64, i64); 7] =
        [(1, 16, 1, 1), (6, 24, 2, 2), (6, 32, 3, 2), (6, 64, 4, 2), (6, 96, 3, 1), (6, 160, 3, 2), (6, 320, 1, 1)];
    let features = path / "features";
    let norm = Norm::default();
    let mut network = nn::seq_t().add(conv_norm_pair(&features / 0, Conv::new(3, 32, 3, 2), norm, Activation::Relu6));
    let (mut channels, mut index) = (32, 1);
    for (expansion, to, blocks, stride) in STAGES {
        for block in 0..blocks {
            let stride = if block == 0 { stride } else { 1 };
            network = network.add(inverted_residual(&features / index / "conv", channels, to, stride, expansion));
            (channels, index) = (to, index + 1);
        }
    }
    network = network.add(conv_norm_pair(&features / index, Conv::new(channels, 1280, 1, 1), norm, Activation::Relu6));
    let classifier = linear(path / "classifier" / 1, 1280, classes, DENSE, Init::Const(0.0));
    nn::func_t(move |xs, train| {
        let pooled = xs.apply_t(&network, train).mean_dim([2i64, 3].as_slice(), false, None::<Kind>);
        pooled.dropout(dropout, train).apply(&classifier)
    })
}

fn inverted_residual(path: nn::Path<'_>, from: i64, to: i64, stride: i64, expansion: i64) -> impl ModuleT + use<> {
    let (hidden, norm) = (from * expansion, Norm::default());
    let (mut block, mut index) = (nn::seq_t(), 0);
    if expansion != 1 {
        block = block.add(conv_norm_pair(&path / index, Conv::new(from, hidden, 1, 1), norm, Activation::Relu6));
        index += 1;
    }
    block = block
        .add(conv_norm_pair(&path / index, Conv::depthwise(hidden, 3, stride), norm, Activation::Relu6))
        .add(conv_norm(&path / (index + 1), &path / (index + 2), Conv::new(hidden, to, 1, 1), norm, Activation::None));
    residual(block, stride == 1 && from == to)
}

fn residual(block: nn::SequentialT, shortcut: bool) -> impl ModuleT {
    nn::func_t(move |xs, train| {
        let ys = xs.apply_t(&block, train);
        if shortcut { xs + ys } else { ys }
    })
}

/// One row of MobileNetV3's table.
struct Bottleneck(i64, i64, i64, i64, bool, Activation, i64);

/// MobileNetV3-Large at width 1.
pub(super) fn v3_large(path: &nn::Path<'_>, classes: i64, dropout: f64) -> impl ModuleT + use<> {
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
    let mut network = nn::seq_t().add(conv_norm_pair(&features / 0, Conv::new(3, 16, 3, 2), V3_NORM, Hardswish));
    let mut index = 1;
    for block in BLOCKS {
        network = network.add(bottleneck(&features / index / "block", &block));
        index += 1;
    }
    network = network.add(conv_norm_pair(&features / index, Conv::new(160, 960, 1, 1), V3_NORM, Hardswish));
    let classifier = path / "classifier";
    let wide = linear(&classifier / 0, 960, 1280, DENSE, Init::Const(0.0));
    let last = linear(&classifier / 3, 1280, classes, DENSE, Init::Const(0.0));
    nn::func_t(move |xs, train| {
        let pooled = xs.apply_t(&network, train).mean_dim([2i64, 3].as_slice(), false, None::<Kind>);
        pooled.apply(&wide).hardswish_().dropout(dropout, train).apply(&last)
    })
}

const V3_NORM: Norm = Norm { eps: 1e-3, momentum: 0.01 };

fn bottleneck(path: nn::Path<'_>, row: &Bottleneck) -> impl ModuleT + use<> {
    let &Bottleneck(from, kernel, hidden, to, squeeze, activation, stride) = row;
    let (mut block, mut index) = (nn::seq_t(), 0);
    if hidden != from {
        block = block.add(conv_norm_pair(&path / index, Conv::new(from, hidden, 1, 1), V3_NORM, activation));
        index += 1;
    }
    block = block.add(conv_norm_pair(&path / index, Conv::depthwise(hidden, kernel, stride), V3_NORM, activation));
    index += 1;
    if squeeze {
        block = block.add(squeeze_excite(&path / index, hidden));
        index += 1;
    }
    block = block.add(conv_norm_pair(&path / index, Conv::new(hidden, to, 1, 1), V3_NORM, Activation::None));
    residual(block, stride == 1 && from == to)
}

/// Weighs the channels by what the whole image says of each.
fn squeeze_excite(path: nn::Path<'_>, channels: i64) -> impl ModuleT + use<> {
    let few = multiple_of_8(channels / 4);
    let squeeze = Conv::new(channels, few, 1, 1).layer(&path / "fc1", true);
    let excite = Conv::new(few, channels, 1, 1).layer(&path / "fc2", true);
    nn::func(move |xs| {
        let pooled = xs.mean_dim([2i64, 3].as_slice(), true, None::<Kind>);
        xs * pooled.apply(&squeeze).relu_().apply(&excite).hardsigmoid_()
    })
}

/// The nearest multiple of 8, but never more than a tenth below.
fn multiple_of_8(channels: i64) -> i64 {
    let near = ((channels + 4) / 8 * 8).max(8);
    if near * 10 < channels * 9 { near + 8 } else { near }
}
