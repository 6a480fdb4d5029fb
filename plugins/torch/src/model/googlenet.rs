//! GoogLeNet, with its two auxiliary heads.

use tch::nn;

use super::layers::{
    Activation, Conv, Layer, Norm, auxiliary, branches, conv_norm, dense, dropout, flattened, linear, max_pool, normal,
    plain, pooled, resized, sequence,
};

/// How much of the loss of each auxiliary head counts.
const AUXILIARY: f64 = 0.3;

/// Dropout of the classifier and of the auxiliary heads.
pub(super) fn googlenet(path: &nn::Path<'_>, classes: i64, part: f64, auxiliary_part: f64) -> Layer {
    let module = |name: &str, from, widths| inception(&(path / format!("inception{name}")), from, widths);
    let fc = linear(path / "fc", 1024, classes, normal(0.01), plain(1024));
    sequence(vec![
        conv(path / "conv1", Conv::new(3, 64, 7, 2)),
        max_pool(3, 2, 0, true),
        conv(path / "conv2", Conv::new(64, 64, 1, 1)),
        conv(path / "conv3", Conv::new(64, 192, 3, 1)),
        max_pool(3, 2, 0, true),
        module("3a", 192, [64, 96, 128, 16, 32, 32]),
        module("3b", 256, [128, 128, 192, 32, 96, 64]),
        max_pool(3, 2, 0, true),
        module("4a", 480, [192, 96, 208, 16, 48, 64]),
        head(&(path / "aux1"), 512, classes, auxiliary_part),
        module("4b", 512, [160, 112, 224, 24, 64, 64]),
        module("4c", 512, [128, 128, 256, 24, 64, 64]),
        module("4d", 512, [112, 144, 288, 32, 64, 64]),
        head(&(path / "aux2"), 528, classes, auxiliary_part),
        module("4e", 528, [256, 160, 320, 32, 128, 128]),
        max_pool(2, 2, 0, true),
        module("5a", 832, [256, 160, 320, 32, 128, 128]),
        module("5b", 832, [384, 192, 384, 48, 128, 128]),
        pooled(),
        dropout(part),
        fc,
    ])
}

fn conv(path: nn::Path<'_>, shape: Conv) -> Layer {
    let norm = Norm { eps: 1e-3, ..Norm::default() };
    conv_norm(&path / "conv", &path / "bn", shape, normal(0.01), norm, Activation::Relu)
}

/// Channels of the branch of 1×1, of the two of 3×3 before and after, and of the pooled one.
fn inception(path: &nn::Path<'_>, from: i64, [one, few3, to3, few5, to5, pool]: [i64; 6]) -> Layer {
    // The second branch of 3×3 is of 5×5 in the paper; torchvision keeps what the published weights were trained with.
    let narrow_wide = |name: &str, few, to| {
        let at = path / name;
        sequence(vec![conv(&at / 0, Conv::new(from, few, 1, 1)), conv(&at / 1, Conv::new(few, to, 3, 1))])
    };
    branches(vec![
        conv(path / "branch1", Conv::new(from, one, 1, 1)),
        narrow_wide("branch2", few3, to3),
        narrow_wide("branch3", few5, to5),
        sequence(vec![max_pool(3, 1, 1, true), conv(path / "branch4" / 1, Conv::new(from, pool, 1, 1))]),
    ])
}

/// Answers in training, and passes on what it was given.
fn head(path: &nn::Path<'_>, from: i64, classes: i64, part: f64) -> Layer {
    let answer = vec![
        resized(4),
        conv(path / "conv", Conv::new(from, 128, 1, 1)),
        flattened(),
        dense(linear(path / "fc1", 2048, 1024, normal(0.01), plain(2048)), Activation::Relu),
        dropout(part),
        linear(path / "fc2", 1024, classes, normal(0.01), plain(1024)),
    ];
    auxiliary(AUXILIARY, sequence(answer))
}
