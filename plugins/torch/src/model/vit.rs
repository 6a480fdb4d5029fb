//! ViT-B/16, a transformer over squares of 16×16 pixels.

use tch::Tensor;
use tch::nn::{self, Init, Module};

use super::layers::{Activation, Conv, Layer, ZERO, dense, linear, normal, plain, residual, sequence, uniform};

/// Width and height of a square.
pub(super) const PATCH: i64 = 16;
const WIDTH: i64 = 768;
const HEADS: i64 = 12;
const BLOCKS: i64 = 12;

/// For images of `size`×`size`, on which the number of its positions depends.
pub(super) fn b16(path: &nn::Path<'_>, size: i64, classes: i64) -> Layer {
    let conv = Conv::new(3, WIDTH, PATCH, PATCH).padded(0);
    let fan_in = 3 * PATCH * PATCH;
    let patches = conv.layer(path / "conv_proj", normal((1.0 / fan_in as f64).sqrt()), Some(ZERO));
    let class_token = path.var("class_token", &[1, 1, WIDTH], ZERO);
    let encoder = path / "encoder";
    let places = (size / PATCH).pow(2) + 1;
    let positions = encoder.var("pos_embedding", &[1, places, WIDTH], normal(0.02));
    let blocks = (0..BLOCKS).map(|index| block(&encoder / "layers" / format!("encoder_layer_{index}"))).collect();
    let (blocks, norm) = (sequence(blocks), layer_norm(&encoder / "ln"));
    let head = linear(path / "heads" / "head", WIDTH, classes, ZERO, ZERO);
    Box::new(move |xs, pass| {
        let squares = patches(xs, pass).flatten(2, -1).transpose(1, 2);
        let token = class_token.expand([xs.size()[0], -1, -1], false);
        let ys = Tensor::cat(&[token, squares], 1) + &positions;
        let ys = norm(&blocks(&ys, pass), pass);
        head(&ys.select(1, 0), pass)
    })
}

fn block(path: nn::Path<'_>) -> Layer {
    let mlp = &path / "mlp";
    let layer = |index: i64, from: i64, to: i64| {
        let xavier = uniform((6.0 / (from + to) as f64).sqrt());
        linear(&mlp / index, from, to, xavier, normal(1e-6))
    };
    let attention = sequence(vec![layer_norm(&path / "ln_1"), attention(&path / "self_attention")]);
    let wide = dense(layer(0, WIDTH, 4 * WIDTH), Activation::Gelu);
    let mlp = sequence(vec![layer_norm(&path / "ln_2"), wide, layer(3, 4 * WIDTH, WIDTH)]);
    sequence(vec![residual(attention, true), residual(mlp, true)])
}

/// Attention of all places to all.
fn attention(path: nn::Path<'_>) -> Layer {
    let weights = path.var("in_proj_weight", &[3 * WIDTH, WIDTH], uniform((6.0 / (4 * WIDTH) as f64).sqrt()));
    let bias = path.var("in_proj_bias", &[3 * WIDTH], ZERO);
    let out = linear(&path / "out_proj", WIDTH, WIDTH, plain(WIDTH), ZERO);
    Box::new(move |xs, pass| {
        let all = xs.linear(&weights, Some(&bias));
        pass.work.layer(&weights, &all);
        let parts = all.unflatten(-1, [3, HEADS, WIDTH / HEADS]).permute([2, 0, 3, 1, 4]);
        let [query, key, value] = [0, 1, 2].map(|part| parts.select(0, part));
        let seen = Tensor::scaled_dot_product_attention(&query, &key, &value, None::<Tensor>, 0.0, false, None, false);
        // Each place is compared with all, and takes its part of each.
        pass.work.macs += 2 * xs.numel() as i64 * xs.size()[1];
        out(&seen.transpose(1, 2).flatten(2, -1), pass)
    })
}

fn layer_norm(path: nn::Path<'_>) -> Layer {
    let config = nn::LayerNormConfig { eps: 1e-6, ws_init: Init::Const(1.0), ..Default::default() };
    let layer = nn::layer_norm(path, vec![WIDTH], config);
    Box::new(move |xs, pass| {
        let ys = layer.forward(xs);
        pass.work.normalised += ys.numel() as i64;
        ys
    })
}
