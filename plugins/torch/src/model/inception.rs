//! Inception v3, with its auxiliary head.

use tch::nn;

use super::layers::{
    Activation, Conv, Layer, Norm, auxiliary, branches, conv_norm, dropout, linear, max_pool, mean_pool, normal, plain,
    pooled, sequence,
};

/// How much of the loss of the auxiliary head counts.
const AUXILIARY: f64 = 0.4;

pub(super) fn v3(path: &nn::Path<'_>, classes: i64, part: f64) -> Layer {
    let at = |name: &str| ModulePath(path / name);
    let stem = |name: &str, shape| conv(path / name, shape);
    let fc = linear(path / "fc", 2048, classes, normal(0.1), plain(2048));
    sequence(vec![
        stem("Conv2d_1a_3x3", Conv::new(3, 32, 3, 2).padded(0)),
        stem("Conv2d_2a_3x3", Conv::new(32, 32, 3, 1).padded(0)),
        stem("Conv2d_2b_3x3", Conv::new(32, 64, 3, 1)),
        max_pool(3, 2, 0, false),
        stem("Conv2d_3b_1x1", Conv::new(64, 80, 1, 1)),
        stem("Conv2d_4a_3x3", Conv::new(80, 192, 3, 1).padded(0)),
        max_pool(3, 2, 0, false),
        at("Mixed_5b").a(192, 32),
        at("Mixed_5c").a(256, 64),
        at("Mixed_5d").a(288, 64),
        at("Mixed_6a").b(288),
        at("Mixed_6b").c(128),
        at("Mixed_6c").c(160),
        at("Mixed_6d").c(160),
        at("Mixed_6e").c(192),
        head(&(path / "AuxLogits"), classes),
        at("Mixed_7a").d(),
        at("Mixed_7b").e(1280),
        at("Mixed_7c").e(2048),
        pooled(),
        dropout(part),
        fc,
    ])
}

fn conv(path: nn::Path<'_>, shape: Conv) -> Layer {
    conv_as(path, shape, 0.1)
}

fn conv_as(path: nn::Path<'_>, shape: Conv, stdev: f64) -> Layer {
    let norm = Norm { eps: 1e-3, ..Norm::default() };
    conv_norm(&path / "conv", &path / "bn", shape, normal(stdev), norm, Activation::Relu)
}

/// Where a module's weights are.
struct ModulePath<'a>(nn::Path<'a>);

impl ModulePath<'_> {
    /// Convolutions one after the other, by their names in this module.
    fn chain<const N: usize>(&self, shapes: [(&str, Conv); N]) -> Layer {
        sequence(shapes.into_iter().map(|(name, shape)| conv(&self.0 / name, shape)).collect())
    }

    /// The means of 3×3 neighbours, in fewer channels.
    fn pool(&self, from: i64, to: i64) -> Layer {
        sequence(vec![mean_pool(3, 1, 1), self.chain([("branch_pool", Conv::new(from, to, 1, 1))])])
    }

    /// 35×35 of 299×299.
    fn a(&self, from: i64, pool: i64) -> Layer {
        branches(vec![
            self.chain([("branch1x1", Conv::new(from, 64, 1, 1))]),
            self.chain([("branch5x5_1", Conv::new(from, 48, 1, 1)), ("branch5x5_2", Conv::new(48, 64, 5, 1))]),
            self.chain([
                ("branch3x3dbl_1", Conv::new(from, 64, 1, 1)),
                ("branch3x3dbl_2", Conv::new(64, 96, 3, 1)),
                ("branch3x3dbl_3", Conv::new(96, 96, 3, 1)),
            ]),
            self.pool(from, pool),
        ])
    }

    /// From 35×35 to 17×17.
    fn b(&self, from: i64) -> Layer {
        branches(vec![
            self.chain([("branch3x3", Conv::new(from, 384, 3, 2).padded(0))]),
            self.chain([
                ("branch3x3dbl_1", Conv::new(from, 64, 1, 1)),
                ("branch3x3dbl_2", Conv::new(64, 96, 3, 1)),
                ("branch3x3dbl_3", Conv::new(96, 96, 3, 2).padded(0)),
            ]),
            max_pool(3, 2, 0, false),
        ])
    }

    /// 17×17, each 7×7 as a row and a column.
    fn c(&self, few: i64) -> Layer {
        let (row, column) = ([1, 7], [7, 1]);
        branches(vec![
            self.chain([("branch1x1", Conv::new(768, 192, 1, 1))]),
            self.chain([
                ("branch7x7_1", Conv::new(768, few, 1, 1)),
                ("branch7x7_2", Conv::wide(few, few, row)),
                ("branch7x7_3", Conv::wide(few, 192, column)),
            ]),
            self.chain([
                ("branch7x7dbl_1", Conv::new(768, few, 1, 1)),
                ("branch7x7dbl_2", Conv::wide(few, few, column)),
                ("branch7x7dbl_3", Conv::wide(few, few, row)),
                ("branch7x7dbl_4", Conv::wide(few, few, column)),
                ("branch7x7dbl_5", Conv::wide(few, 192, row)),
            ]),
            self.pool(768, 192),
        ])
    }

    /// From 17×17 to 8×8.
    fn d(&self) -> Layer {
        branches(vec![
            self.chain([
                ("branch3x3_1", Conv::new(768, 192, 1, 1)),
                ("branch3x3_2", Conv::new(192, 320, 3, 2).padded(0)),
            ]),
            self.chain([
                ("branch7x7x3_1", Conv::new(768, 192, 1, 1)),
                ("branch7x7x3_2", Conv::wide(192, 192, [1, 7])),
                ("branch7x7x3_3", Conv::wide(192, 192, [7, 1])),
                ("branch7x7x3_4", Conv::new(192, 192, 3, 2).padded(0)),
            ]),
            max_pool(3, 2, 0, false),
        ])
    }

    /// 8×8.
    fn e(&self, from: i64) -> Layer {
        // A row and a column beside each other.
        let cross = |row: &str, column: &str| {
            branches(vec![
                self.chain([(row, Conv::wide(384, 384, [1, 3]))]),
                self.chain([(column, Conv::wide(384, 384, [3, 1]))]),
            ])
        };
        branches(vec![
            self.chain([("branch1x1", Conv::new(from, 320, 1, 1))]),
            sequence(vec![
                self.chain([("branch3x3_1", Conv::new(from, 384, 1, 1))]),
                cross("branch3x3_2a", "branch3x3_2b"),
            ]),
            sequence(vec![
                self.chain([
                    ("branch3x3dbl_1", Conv::new(from, 448, 1, 1)),
                    ("branch3x3dbl_2", Conv::new(448, 384, 3, 1)),
                ]),
                cross("branch3x3dbl_3a", "branch3x3dbl_3b"),
            ]),
            self.pool(from, 192),
        ])
    }
}

/// Answers in training, and passes on what it was given.
fn head(path: &nn::Path<'_>, classes: i64) -> Layer {
    let answer = vec![
        mean_pool(5, 3, 0),
        conv(path / "conv0", Conv::new(768, 128, 1, 1)),
        conv_as(path / "conv1", Conv::new(128, 768, 5, 1).padded(0), 0.01),
        pooled(),
        linear(path / "fc", 768, classes, normal(0.001), plain(768)),
    ];
    auxiliary(AUXILIARY, sequence(answer))
}
