//! DenseNet-121: each layer reads what all layers of its block before it have made.

use tch::Tensor;
use tch::nn;
use tch::nn::init::FanInOut;

use super::layers::{
    Activation, Conv, Layer, Norm, ZERO, conv_norm, kaiming, linear, max_pool, mean_pool, plain, pooled, sequence,
};

/// Channels that each layer adds.
const GROWTH: i64 = 32;

/// A DenseNet with so many layers in each of its blocks.
pub(super) fn densenet(path: &nn::Path<'_>, blocks: [i64; 4], classes: i64) -> Layer {
    let features = path / "features";
    let (norm, mut channels) = (Norm::default(), 64);
    let stem = Conv::new(3, channels, 7, 2);
    let mut layers = vec![
        conv_norm(&features / "conv0", &features / "norm0", stem, kaiming(FanInOut::FanIn), norm, Activation::Relu),
        max_pool(3, 2, 1, false),
    ];
    for (number, count) in (1..).zip(blocks) {
        if number > 1 {
            let at = &features / format!("transition{}", number - 1);
            layers.extend([normalised_conv(&at, "", Conv::new(channels, channels / 2, 1, 1)), mean_pool(2, 2, 0)]);
            channels /= 2;
        }
        layers.push(block(&features / format!("denseblock{number}"), count, channels));
        channels += count * GROWTH;
    }
    let classifier = linear(path / "classifier", channels, classes, plain(channels), ZERO);
    layers.extend([norm.layer(&features / "norm5", channels, Activation::Relu), pooled(), classifier]);
    sequence(layers)
}

fn block(path: nn::Path<'_>, count: i64, from: i64) -> Layer {
    let layer = |index: i64| {
        let at = &path / format!("denselayer{}", index + 1);
        let wide = normalised_conv(&at, "1", Conv::new(from + index * GROWTH, 4 * GROWTH, 1, 1));
        sequence(vec![wide, normalised_conv(&at, "2", Conv::new(4 * GROWTH, GROWTH, 3, 1))])
    };
    let layers: Vec<Layer> = (0..count).map(layer).collect();
    Box::new(move |xs, pass| {
        let mut made = vec![xs.shallow_clone()];
        for layer in &layers {
            let new = layer(&Tensor::cat(&made, 1), pass);
            made.push(new);
        }
        Tensor::cat(&made, 1)
    })
}

/// A convolution of what was normalised and rectified before.
fn normalised_conv(path: &nn::Path<'_>, number: &str, shape: Conv) -> Layer {
    let norm = Norm::default().layer(path / format!("norm{number}"), shape.from, Activation::Relu);
    sequence(vec![norm, shape.layer(path / format!("conv{number}"), kaiming(FanInOut::FanIn), None)])
}
