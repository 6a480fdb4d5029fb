//! Whether less or more of a metric is better, judged by its name.

use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Best {
    /// The smallest number is best.
    Min,
    /// The largest number is best.
    Max,
}

/// Words in names of metrics of which less, or more, is better.
const LITTLE: &[&str] = &[
    "loss",
    "logloss",
    "mlogloss",
    "l1",
    "l2",
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
    "bpc",
    "bpb",
    "bits",
    "kl",
    "regret",
    "wer",
    "cer",
    "fid",
    "eer",
    "time",
    "runtime",
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
    "prec",
    "recall",
    "auc",
    "auroc",
    "map",
    "ap",
    "ndcg",
    "elbo",
    "iou",
    "miou",
    "dice",
    "bleu",
    "chrf",
    "rouge",
    "psnr",
    "ssim",
    "r2",
    "mcc",
    "score",
    "reward",
    "return",
    "hits",
    "throughput",
];
/// Words in names of changes and spreads. They may reverse the other words: less of an `acc_drop` is better, and more of
/// a `loss_reduction`.
const TURNS: &[&str] = &[
    "drop",
    "gap",
    "reduction",
    "decrease",
    "degradation",
    "decline",
    "difference",
    "diff",
    "delta",
    "change",
    "improvement",
    "gain",
    "increase",
    "growth",
    "saving",
    "savings",
    "saved",
    "speedup",
    "std",
    "sd",
    "var",
    "variance",
];
/// Suffixes of rates.
const RATES: [&str; 3] = ["_per_s", "_per_sec", "_per_second"];

impl Best {
    /// What is better, judged by the metric's name: `val_loss`, `top1`. `None` if the name has words of both kinds, such
    /// as `accuracy_loss`, or names a change, such as `acc_drop`.
    pub fn by_name(metric: &str) -> Option<Best> {
        let name = metric.to_ascii_lowercase();
        let says = |known: &[&str]| name.split(|c: char| !c.is_ascii_alphanumeric()).any(|word| known.contains(&word));
        if says(TURNS) {
            return None;
        }
        match (says(LITTLE), says(MUCH) || RATES.iter().any(|end| name.ends_with(end))) {
            (true, false) => Some(Best::Min),
            (false, true) => Some(Best::Max),
            _ => None,
        }
    }

    /// The first of the best values. NaN never counts.
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
        for name in [
            "loss",
            "val_loss",
            "Error",
            "epoch_time",
            "wall",
            "gpu_memory",
            "rmse",
            "val_ppl",
            "bits_per_byte",
            "kl",
            "regret",
        ] {
            assert_eq!(Best::by_name(name), Some(Best::Min), "{name}");
        }
        for name in [
            "accuracy",
            "val_acc",
            "top1",
            "f1",
            "images_per_s",
            "mean_reward",
            "avg_prec",
            "hits_at_1",
            "chrf",
            "return",
        ] {
            assert_eq!(Best::by_name(name), Some(Best::Max), "{name}");
        }
        for name in ["", "epochs", "x", "glossy", "accuracy_loss", "top1_error", "lr"] {
            assert_eq!(Best::by_name(name), None, "{name}");
        }
    }

    #[test]
    fn changes_and_spreads_of_what_is_good_or_bad_tell_nothing() {
        let names = [
            "accuracy_drop",
            "acc_gap",
            "acc_gap_pct",
            "loss_reduction",
            "loss-decrease",
            "score_degradation",
            "top1.difference",
            "val_acc_diff",
            "delta_loss",
            "Error_Change",
            "error_improvement",
            "loss_gain",
            "latency_increase",
            "memory_saved",
            "acc_std",
        ];
        for name in names {
            assert_eq!(Best::by_name(name), None, "{name}");
        }
        for (name, best) in [("dropout_acc", Best::Max), ("gapped_loss", Best::Min), ("time_overhead", Best::Min)] {
            assert_eq!(Best::by_name(name), Some(best), "{name}");
        }
    }
}
