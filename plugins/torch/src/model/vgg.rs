//! AlexNet, VGG-16 and VGG-19: convolutions without normalisation, and three wide linear layers.

use tch::nn;
use tch::nn::init::FanInOut;

use super::layers::{
    Activation, Conv, Layer, ZERO, dense, dropout, flattened, kaiming, linear, max_pool, normal, plain, resized,
    sequence,
};

/// AlexNet, as in "One weird trick for parallelizing convolutional neural networks".
pub(super) fn alexnet(path: &nn::Path<'_>, classes: i64, part: f64) -> Layer {
    let features = path / "features";
    let conv = |index: i64, shape: Conv| {
        dense(shape.layer(&features / index, shape.plain(), Some(shape.plain())), Activation::Relu)
    };
    let classifier = path / "classifier";
    let wide = |index: i64, from, to| linear(&classifier / index, from, to, plain(from), plain(from));
    sequence(vec![
        conv(0, Conv::new(3, 64, 11, 4).padded(2)),
        max_pool(3, 2, 0, false),
        conv(3, Conv::new(64, 192, 5, 1)),
        max_pool(3, 2, 0, false),
        conv(6, Conv::new(192, 384, 3, 1)),
        conv(8, Conv::new(384, 256, 3, 1)),
        conv(10, Conv::new(256, 256, 3, 1)),
        max_pool(3, 2, 0, false),
        resized(6),
        flattened(),
        dropout(part),
        dense(wide(1, 256 * 6 * 6, 4096), Activation::Relu),
        dropout(part),
        dense(wide(4, 4096, 4096), Activation::Relu),
        wide(6, 4096, classes),
    ])
}

/// A VGG with so many convolutions in each of its five stages.
pub(super) fn vgg(path: &nn::Path<'_>, stages: [i64; 5], classes: i64, part: f64) -> Layer {
    let features = path / "features";
    let (mut layers, mut channels, mut index) = (Vec::new(), 3, 0);
    for (width, convolutions) in [64, 128, 256, 512, 512].into_iter().zip(stages) {
        for _ in 0..convolutions {
            let conv = Conv::new(channels, width, 3, 1);
            let conv = conv.layer(&features / index, kaiming(FanInOut::FanOut), Some(ZERO));
            layers.push(dense(conv, Activation::Relu));
            // torchvision counts the activation too, and the pooling below.
            (channels, index) = (width, index + 2);
        }
        layers.push(max_pool(2, 2, 0, false));
        index += 1;
    }
    let classifier = path / "classifier";
    let wide = |index: i64, from, to| linear(&classifier / index, from, to, normal(0.01), ZERO);
    layers.extend([
        resized(7),
        flattened(),
        dense(wide(0, 512 * 7 * 7, 4096), Activation::Relu),
        dropout(part),
        dense(wide(3, 4096, 4096), Activation::Relu),
        dropout(part),
        wide(6, 4096, classes),
    ]);
    sequence(layers)
}
