//! What is expected at a number of an axis, from attempts at other numbers of it.

use super::observation::{Observation, median};
use crate::{
    Span,
    predict::{Curve, Fit, Predicted},
    sched::Estimate,
};

/// What attempts at several numbers of an axis come to, the rest being equal.
#[derive(Clone, Debug)]
pub(super) struct Curves {
    /// Different numbers.
    pub(super) points: usize,
    /// What does not go with the number.
    common: Estimate,
    /// Start and end take as long at every point: the share of epochs in the whole tells how much that is.
    whole: Option<f64>,
    epoch: Option<Fit>,
    wall: Option<Fit>,
    memory: Option<Fit>,
    busy: Option<Fit>,
}

impl Curves {
    pub(super) fn along(axis: &str, seen: &[&Observation]) -> Curves {
        let last = axis.rsplit('.').next().unwrap_or(axis);
        let by_epoch = if matches!(last, "batch" | "batch_size" | "bs") { Curve::PerItem } else { Curve::Any };
        let fit = |curve: Curve, value: fn(&Observation) -> Option<f64>| {
            let point = |seen: &&Observation| Some((seen.point.get(axis)?.as_f64()?, value(seen)?));
            Fit::of(curve, &seen.iter().filter_map(point).collect::<Vec<_>>())
        };
        let mut numbers: Vec<u64> = seen.iter().filter_map(|s| Some(s.point.get(axis)?.as_f64()?.to_bits())).collect();
        numbers.sort_unstable();
        numbers.dedup();
        Curves {
            points: numbers.len(),
            common: Estimate { samples: seen.len() as u32, ..common(seen) },
            whole: median(seen.iter().filter_map(|seen| Some(seen.wall_s / seen.epoch_s?)).collect()),
            epoch: fit(by_epoch, |seen| seen.epoch_s),
            wall: fit(Curve::Any, |seen| Some(seen.wall_s)),
            memory: fit(Curve::Grows, |seen| Some(seen.gpu_memory as f64)),
            busy: fit(Curve::Any, |seen| Some(seen.busy())),
        }
    }

    pub(super) fn estimate(&self, axis: &str, at: f64) -> (Estimate, Option<Predicted>) {
        let point = |fit: &Option<Fit>| fit.as_ref()?.at(at);
        let epoch = point(&self.epoch);
        let wall = match (epoch, self.whole) {
            (Some(epoch), Some(whole)) => Some(Predicted {
                value: epoch.value * whole,
                low: epoch.low * whole,
                high: epoch.high * whole,
                ..epoch
            }),
            _ => point(&self.wall),
        };
        let beyond = match wall {
            Some(wall) if wall.far => ", far beyond them",
            Some(wall) if wall.beyond => ", beyond them",
            _ => "",
        };
        let seen = runs(self.common.samples as usize);
        let estimate = Estimate {
            duration: wall.map(|wall| Span::from_secs_f64(wall.value)),
            range: wall.map(|wall| (Span::from_secs_f64(wall.low), Span::from_secs_f64(wall.high))),
            // The upper end, and nothing where it is too far from what was seen: then it has its GPU alone.
            gpu_memory: point(&self.memory).filter(|memory| !memory.far).map(|memory| memory.high as u64),
            gpu_busy_milli: point(&self.busy).map(|busy| (busy.value.min(1.0) * 1e3).round() as u32),
            source: format!("{seen} of its step at other points of `{axis}`{beyond}"),
            ..self.common.clone()
        };
        (estimate, epoch)
    }
}

/// What goes with no number: medians.
pub(super) fn common(seen: &[&Observation]) -> Estimate {
    let milli = |value: fn(&Observation) -> f64| {
        median(seen.iter().map(|seen| value(seen)).collect()).map(|value| (value * 1e3).round() as u32)
    };
    Estimate {
        cpu_milli: milli(|seen| seen.cpu_cores),
        gpu_busy_milli: milli(Observation::busy).filter(|_| seen.iter().any(|seen| seen.gpu_memory > 0)),
        ..Estimate::default()
    }
}

pub(super) fn runs(n: usize) -> String {
    if n == 1 { "1 run".to_owned() } else { format!("{n} runs") }
}
