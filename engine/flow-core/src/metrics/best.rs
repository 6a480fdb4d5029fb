//! What is better, and what the name of a metric says of that.

use std::fmt;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Best {
    /// Less is better.
    Min,
    /// More is better.
    Max,
}

/// Words in names of what is to be little, and of what is to be much.
const LITTLE: &[&str] = &[
    "loss",
    "error",
    "err",
    "mse",
    "rmse",
    "mae",
    "mape",
    "nll",
    "bce",
    "perplexity",
    "ppl",
    "wer",
    "cer",
    "fid",
    "eer",
    "time",
    "wall",
    "latency",
    "duration",
    "seconds",
    "ms",
    "memory",
    "energy",
];
const MUCH: &[&str] = &[
    "accuracy",
    "acc",
    "top1",
    "top5",
    "f1",
    "precision",
    "recall",
    "auc",
    "auroc",
    "map",
    "iou",
    "miou",
    "dice",
    "bleu",
    "rouge",
    "psnr",
    "ssim",
    "r2",
    "mcc",
    "score",
    "reward",
    "throughput",
];
/// How names of rates end.
const RATE: &str = "_per_s";

impl Best {
    /// What is better of a metric by its name, where that says so: `val_loss`, `top1`. One that says both, `accuracy_loss`, says nothing.
    pub fn by_name(metric: &str) -> Option<Best> {
        let name = metric.to_ascii_lowercase();
        let says = |known: &[&str]| name.split(|c: char| !c.is_ascii_alphanumeric()).any(|word| known.contains(&word));
        match (says(LITTLE), says(MUCH) || name.ends_with(RATE)) {
            (true, false) => Some(Best::Min),
            (false, true) => Some(Best::Max),
            _ => None,
        }
    }

    /// The first of the best; what is not a number is none.
    pub(crate) fn of<K>(self, values: impl Iterator<Item = (K, f64)>) -> Option<(K, f64)> {
        values.filter(|(_, value)| !value.is_nan()).reduce(|best, next| {
            let better = match self {
                Best::Min => next.1 < best.1,
                Best::Max => next.1 > best.1,
            };
            if better { next } else { best }
        })
    }
}

impl fmt::Display for Best {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Best::Min => "min",
            Best::Max => "max",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_say_what_is_better_or_nothing() {
        for name in ["loss", "val_loss", "Error", "epoch_time", "wall", "gpu_memory", "rmse", "val_ppl"] {
            assert_eq!(Best::by_name(name), Some(Best::Min), "{name}");
        }
        for name in ["accuracy", "val_acc", "top1", "f1", "images_per_s", "mean_reward"] {
            assert_eq!(Best::by_name(name), Some(Best::Max), "{name}");
        }
        for name in ["", "epochs", "x", "glossy", "accuracy_loss", "top1_error", "lr"] {
            assert_eq!(Best::by_name(name), None, "{name}");
        }
    }
}
