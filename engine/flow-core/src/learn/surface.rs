//! Predicts a point from attempts of its step at other points: along all axes at once, and on the GPU models that were
//! seen.

use std::{
    cell::OnceCell,
    collections::{BTreeMap, BTreeSet},
};

use serde_json::Value;

use super::observation::{Measured, Observation};
use crate::{
    Digest, Span,
    predict::{Coordinate, Fit, MOST, PredictedValue, key},
    sched::{Distance, Estimate, EstimateSource},
    stats::median,
};

/// Seconds; less than this of start-up or end is none.
pub(super) const NOTICED: f64 = 1e-3;

/// A surface through attempts at several points.
#[derive(Clone, Debug)]
pub(super) struct Surface {
    pub(super) scale: Scale,
    /// Axes on which they differ.
    varied: Vec<String>,
    pub(super) points: usize,
    /// GPU models, the one seen last behind.
    pub(super) models: Vec<String>,
    /// How many GPUs of each model they had, where that is known.
    pub(super) gpus: BTreeMap<String, u32>,
    /// Most of them say what their wall time is made of.
    phased: bool,
    /// The quantities that do not depend on the point.
    common: Estimate,
    placed: Vec<Vec<Coordinate>>,
    /// By [`SurfaceQuantity`].
    measured: [QuantityValues; QUANTITIES.len()],
}

/// One quantity, by place in the list of points, and what is made of it when it is asked for.
#[derive(Clone, Debug)]
struct QuantityValues {
    values: Vec<Option<f64>>,
    fit: OnceCell<Option<Fit>>,
}

/// A measured quantity of an attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SurfaceQuantity {
    Wall,
    Before,
    Epochs,
    Period,
    After,
    Epoch,
    GpuMemory,
    GpuBusy,
    GpuBusyWhole,
    ImagesPerSecond,
    Power,
}

/// All, in their order, and the value of each in an attempt.
const QUANTITIES: [(SurfaceQuantity, Measured); 11] = [
    (SurfaceQuantity::Wall, Observation::whole_s),
    (SurfaceQuantity::Before, |seen| seen.phases.map(|phases| phases.before_s).filter(|before| *before > NOTICED)),
    (SurfaceQuantity::Epochs, |seen| seen.phases.map(|phases| f64::from(phases.epochs))),
    (SurfaceQuantity::Period, |seen| seen.phases.map(|phases| phases.period_s)),
    (SurfaceQuantity::After, |seen| seen.phases.map(|phases| phases.after_s).filter(|after| *after > NOTICED)),
    (SurfaceQuantity::Epoch, |seen| seen.epoch_s),
    (SurfaceQuantity::GpuMemory, |seen| Some(seen.gpu_memory as f64)),
    (SurfaceQuantity::GpuBusy, Observation::busy_in_epochs),
    (SurfaceQuantity::GpuBusyWhole, |seen| Some(seen.busy())),
    (SurfaceQuantity::ImagesPerSecond, |seen| seen.images_per_s),
    (SurfaceQuantity::Power, |seen| seen.energy_j.zip(seen.whole_s()).map(|(energy, wall)| energy / wall)),
];

/// An attempt, and where it was.
pub(super) type PlacedObservation<'o> = (Vec<Coordinate>, &'o Observation);

/// None is a model of its own.
pub(super) fn model_of(seen: &Observation) -> &str {
    seen.gpu_model.as_deref().unwrap_or_default()
}

/// The prediction for a point.
#[derive(Clone, Copy, Debug, Default)]
pub struct PointPrediction {
    /// Seconds from start to exit.
    pub wall: Option<PredictedValue>,
    /// Seconds before the epochs begin, with the extra time of the first epoch. Part of `wall`.
    pub startup: Option<PredictedValue>,
    pub epochs: Option<u32>,
    /// Seconds an epoch.
    pub epoch: Option<PredictedValue>,
    /// Seconds after the last epoch.
    pub end: Option<PredictedValue>,
    /// Peak memory on each GPU, bytes.
    pub gpu_memory: Option<PredictedValue>,
    /// Share of time in which its epochs keep its GPUs busy.
    pub gpu_busy: Option<PredictedValue>,
    /// The same from start to end.
    pub gpu_busy_whole: Option<PredictedValue>,
}

impl PointPrediction {
    /// Seconds from start to exit with so many epochs of so many seconds.
    pub(super) fn whole(&self, epoch: PredictedValue, epochs: f64) -> Option<PredictedValue> {
        let once = |part: Option<PredictedValue>| part.map(|part| (part, 1.0));
        PredictedValue::sum([Some((epoch, epochs)), once(self.startup), once(self.end)].into_iter().flatten())
    }
}

/// The axes of points, and the offset that makes the numbers of each axis positive. If an axis has a 0, as in `workers:
/// [0, 2, 4, 8]`, the offset is its min above 0. The programs of a step are names on one more axis.
#[derive(Clone, Debug)]
pub(super) struct Scale {
    pub(super) axes: Vec<String>,
    moved: Vec<f64>,
    now: Programs,
    /// Not all were one program.
    changed: bool,
}

/// By GPU model, the program that a step is now: of those that ran there.
pub(super) type Programs = BTreeMap<String, Option<Digest>>;

impl Scale {
    /// The scale of points on these axes. If the current program of the step, `now`, is not among them, the one that
    /// ran last counts as current.
    pub(super) fn of(axes: &[String], seen: &[&Observation], now: &Programs) -> Scale {
        let moved = |axis: &String| {
            let values = seen.iter().filter_map(|seen| seen.point.get(axis)?.as_f64());
            let (mut zero, mut least) = (false, f64::INFINITY);
            values.for_each(|x| (zero, least) = (zero || x == 0.0, if x > 0.0 { least.min(x) } else { least }));
            if zero && least.is_finite() { least } else { 0.0 }
        };
        let mut there: Programs = seen.iter().map(|seen| (model_of(seen).to_owned(), seen.program)).collect();
        let is_now = |seen: &&&Observation| now.get(model_of(seen)) == Some(&seen.program);
        there.extend(seen.iter().filter(is_now).map(|seen| (model_of(seen).to_owned(), seen.program)));
        Scale {
            axes: axes.to_vec(),
            moved: axes.iter().map(moved).collect(),
            now: there,
            changed: seen.iter().any(|other| other.program != seen[0].program),
        }
    }

    /// The place of a point of the current program on a GPU model. `None` if it lacks one of the axes.
    pub(super) fn coordinates<'v>(
        &self,
        model: &str,
        value: impl Fn(&str) -> Option<&'v Value>,
    ) -> Option<Vec<Coordinate>> {
        self.of_program(model, self.now.get(model).copied().flatten(), value)
    }

    fn of_program<'v>(
        &self,
        model: &str,
        program: Option<Digest>,
        value: impl Fn(&str) -> Option<&'v Value>,
    ) -> Option<Vec<Coordinate>> {
        let on = |(axis, moved): (&String, &f64)| {
            let value = value(axis)?;
            // Nothing grows or falls with a seed.
            if axis == "seed" {
                return Some(Coordinate::Name(String::new()));
            }
            let number = value.as_f64().map(|x| x + moved).filter(|x| *x > 0.0);
            Some(number.map_or_else(|| Coordinate::Name(value.to_string()), Coordinate::Number))
        };
        let name = |program: Option<Digest>| program.map(|program| program.to_string()).unwrap_or_default();
        let program = self.changed.then(|| Some(Coordinate::Name(name(program))));
        let model = Some(Coordinate::Name(model.to_owned()));
        self.axes.iter().zip(&self.moved).map(on).chain([model]).chain(program).collect()
    }

    /// Where an attempt was.
    pub(super) fn place(&self, seen: &Observation) -> Option<Vec<Coordinate>> {
        self.of_program(model_of(seen), seen.program, |axis| seen.point.get(axis))
    }

    /// With all that its step is now, and so many of the others that these are not lost among them.
    fn thinned<'o>(&self, placed: Vec<PlacedObservation<'o>>) -> Vec<PlacedObservation<'o>> {
        if !self.changed {
            return placed;
        }
        let is_of_now = |seen: &Observation| self.now.get(model_of(seen)) == Some(&seen.program);
        let points = |now: bool| {
            let placed = placed.iter().filter(|(_, seen)| is_of_now(seen) == now);
            placed.map(|(at, _)| key(at).collect::<Vec<_>>()).collect::<BTreeSet<_>>()
        };
        let earlier = points(false);
        let room = MOST.saturating_sub(points(true).len()).max(MOST / 4);
        let kept: BTreeSet<_> = earlier.iter().step_by(earlier.len().div_ceil(room).max(1)).collect();
        let stays: Vec<bool> =
            placed.iter().map(|(at, seen)| is_of_now(seen) || kept.contains(&key(at).collect::<Vec<_>>())).collect();
        placed.into_iter().zip(stays).filter(|(_, stays)| *stays).map(|(placed, _)| placed).collect()
    }
}

impl Surface {
    pub(super) fn through(scale: &Scale, seen: &[&Observation]) -> Surface {
        let placed = seen.iter().filter_map(|seen| Some((scale.place(seen)?, *seen))).collect();
        let (placed, seen): (Vec<Vec<Coordinate>>, Vec<&Observation>) = scale.thinned(placed).into_iter().unzip();
        let distinct = |of: usize| placed.iter().map(|at| key(&at[of..=of]).next()).collect::<BTreeSet<_>>().len();
        let (mut models, mut gpus): (Vec<String>, _) = (Vec::new(), BTreeMap::new());
        for seen in &seen {
            let model = model_of(seen).to_owned();
            models.retain(|other| *other != model);
            gpus.extend(seen.gpus.map(|gpus| (model.clone(), gpus)));
            models.push(model);
        }
        Surface {
            varied: scale
                .axes
                .iter()
                .enumerate()
                .filter(|(n, _)| distinct(*n) > 1)
                .map(|(_, axis)| axis.clone())
                .collect(),
            points: placed.iter().map(|at| key(at).collect::<Vec<_>>()).collect::<BTreeSet<_>>().len(),
            models,
            gpus,
            phased: 2 * seen.iter().filter(|seen| seen.phases.is_some()).count() > seen.len(),
            common: Estimate { samples: seen.len() as u32, ..common(&seen) },
            measured: QUANTITIES.map(|(_, measured)| QuantityValues {
                values: seen.iter().map(|seen| measured(seen)).collect(),
                fit: OnceCell::new(),
            }),
            placed,
            scale: scale.clone(),
        }
    }

    /// It needs no others: it has several points, half of `all` at least, and what the step is now.
    pub(super) fn suffices(&self, all: &Surface, now: &Programs) -> bool {
        let has_now = self.scale.now.iter().all(|(model, program)| now.get(model) == Some(program));
        self.points > 1 && 2 * self.points >= all.points && has_now
    }

    /// Makes all that is asked for when something is expected of a point.
    pub(super) fn make(&self) {
        self.placed.first().into_iter().for_each(|at| _ = self.expect(at));
    }

    /// The prediction of one quantity at a point.
    pub(super) fn at(&self, of: SurfaceQuantity, at: &[Coordinate]) -> Option<PredictedValue> {
        let QuantityValues { values, fit } = &self.measured[of as usize];
        let make = || {
            let points = self.placed.iter().zip(values);
            Fit::of(&points.filter_map(|(at, value)| Some((at.clone(), (*value)?))).collect::<Vec<_>>())
        };
        fit.get_or_init(make).as_ref()?.at(at)
    }

    /// The place of an instance on a GPU model. An unknown model counts as the one that was seen last.
    pub(super) fn locate<'v>(
        &self,
        model: Option<&str>,
        value: impl Fn(&str) -> Option<&'v Value>,
    ) -> Option<Vec<Coordinate>> {
        let seen = |model: &&str| self.models.iter().any(|seen| seen == model);
        let model = model.filter(seen).or(self.models.last().map(String::as_str))?;
        self.scale.coordinates(model, value)
    }

    /// The prediction for a point.
    pub(super) fn expect(&self, at: &[Coordinate]) -> PointPrediction {
        let share = |of: SurfaceQuantity| self.at(of, at).map(|busy| busy.at_most(1.0));
        let mut expected = PointPrediction {
            epoch: self.at(SurfaceQuantity::Epoch, at),
            gpu_memory: self.at(SurfaceQuantity::GpuMemory, at),
            gpu_busy: share(SurfaceQuantity::GpuBusy),
            gpu_busy_whole: share(SurfaceQuantity::GpuBusyWhole),
            ..PointPrediction::default()
        };
        let epochs =
            self.at(SurfaceQuantity::Epochs, at).filter(|_| self.phased).map(|epochs| epochs.value.round().max(1.0));
        if let Some((period, epochs)) = self.at(SurfaceQuantity::Period, at).zip(epochs) {
            (expected.startup, expected.end) =
                (self.at(SurfaceQuantity::Before, at), self.at(SurfaceQuantity::After, at));
            expected.epochs = Some(epochs as u32);
            expected.wall = expected.whole(period, epochs);
        } else {
            expected.wall = self.at(SurfaceQuantity::Wall, at);
        }
        expected
    }

    /// The same as the scheduler is to know it, where so many more attempts were `disturbed` and do not count.
    pub(super) fn estimate(&self, expected: &PointPrediction, disturbed: u32) -> Estimate {
        let distance = match expected.wall {
            Some(wall) if wall.far => Distance::FarBeyond,
            Some(wall) if wall.beyond => Distance::Beyond,
            _ => Distance::Among,
        };
        let span = |of: Option<PredictedValue>| of.map_or(0.0, |of| of.value);
        let startup = span(expected.startup) + span(expected.end);
        Estimate {
            duration: expected.wall.map(|wall| Span::from_secs_f64(wall.value)),
            range: expected.wall.map(|wall| (Span::from_secs_f64(wall.low), Span::from_secs_f64(wall.high))),
            startup: (startup > 0.0).then(|| Span::from_secs_f64(startup)),
            // The upper end, and nothing where it is too far from what was seen: then it has its GPU alone.
            gpu_memory: expected.gpu_memory.filter(|memory| !memory.far).map(|memory| memory.high as u64),
            gpu_busy_milli: expected.gpu_busy_whole.map(|busy| (busy.value * 1e3).round() as u32),
            source: EstimateSource::Points {
                axes: self.varied.clone(),
                distance,
                changed: self.scale.changed,
                outdated: false,
                disturbed,
            },
            ..self.common.clone()
        }
    }
}

/// Medians of the quantities that do not depend on the point.
pub(super) fn common(seen: &[&Observation]) -> Estimate {
    let milli = |value: fn(&Observation) -> Option<f64>| {
        median(seen.iter().filter_map(|seen| value(seen)).collect()).map(|value| (value * 1e3).round() as u32)
    };
    Estimate {
        cpu_milli: milli(|seen| seen.cpu_cores),
        gpu_busy_milli: milli(|seen| Some(seen.busy())).filter(|_| seen.iter().any(|seen| seen.gpu_memory > 0)),
        ..Estimate::default()
    }
}
