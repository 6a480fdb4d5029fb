//! How good predictions are: each point that was measured, predicted from all others.

use std::collections::BTreeMap;

use serde_json::Value;

use super::{
    history::History,
    observation::{Measured, Observation},
    surface::{PlacedObservation, PointPrediction, Programs, Scale, Surface},
};
use crate::{
    StepId,
    predict::{Coordinate, PredictedValue, key},
    stats::median,
};

/// A predicted quantity.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Quantity {
    Wall,
    Startup,
    Epoch,
    GpuMemory,
    GpuBusy,
}

impl Quantity {
    /// All, in the order of the output.
    pub const ALL: [Quantity; 5] =
        [Quantity::Wall, Quantity::Startup, Quantity::Epoch, Quantity::GpuMemory, Quantity::GpuBusy];

    /// Its value in an attempt, and in a prediction.
    fn values(self) -> (Measured, Expected) {
        match self {
            Quantity::Wall => (Observation::whole_s, |expected| expected.wall),
            Quantity::Startup => (|seen| Some(seen.phases?.before_s), |expected| expected.startup),
            Quantity::Epoch => (|seen| seen.epoch_s, |expected| expected.epoch),
            Quantity::GpuMemory => (|seen| Some(seen.gpu_memory as f64), |expected| expected.gpu_memory),
            Quantity::GpuBusy => (Observation::busy_in_epochs, |expected| expected.gpu_busy),
        }
    }
}

type Expected = fn(&PointPrediction) -> Option<PredictedValue>;

/// The measurement at a point, and its prediction from the other points.
#[derive(Clone, Debug, PartialEq)]
pub struct HeldOutPoint {
    /// Where that is, by axis.
    pub point: BTreeMap<String, Value>,
    pub quantity: Quantity,
    /// The median of what was measured there.
    pub measured: f64,
    pub predicted: PredictedValue,
}

/// For each point that is left out all others are looked at.
const MOST_CHECKED: usize = 100;

impl History<'_> {
    /// Predicts each measured point of a step from the other points. It also predicts the points at either end of an
    /// axis that crosses other axes, from all points that are not at that end. Of more than a hundred points it checks
    /// at most a hundred, evenly spaced. It leaves out a point that lies more than twice as far as all others.
    pub fn check(&self, step: StepId) -> Vec<HeldOutPoint> {
        self.on_axes(step).flat_map(|(axes, seen)| left_out(axes, &seen, &self.of(step).now)).collect()
    }
}

fn left_out(axes: &[String], seen: &[&Observation], now: &Programs) -> Vec<HeldOutPoint> {
    let scale = Scale::of(axes, seen, now);
    let mut placed: Vec<PlacedObservation<'_>> =
        seen.iter().filter_map(|seen| Some((scale.place(seen)?, *seen))).collect();
    placed.sort_by(|a, b| key(&a.0).cmp(key(&b.0)));
    let points: Vec<&[PlacedObservation<'_>]> = placed.chunk_by(|a, b| a.0 == b.0).collect();
    let told_without = |left_out: &dyn Fn(&[Coordinate]) -> bool| {
        let others = placed.iter().filter(|(at, _)| !left_out(at)).map(|(_, seen)| *seen);
        let surface = Surface::through(&scale, &others.collect::<Vec<_>>());
        points
            .iter()
            .filter(|point| left_out(&point[0].0))
            .flat_map(|point| held_out_points(point, &surface))
            .collect::<Vec<_>>()
    };
    // One of two says of the other what it likes.
    if points.len() <= 2 {
        return Vec::new();
    }
    let tried = points.iter().step_by(points.len().div_ceil(MOST_CHECKED));
    let mut checked: Vec<HeldOutPoint> = tried.flat_map(|point| told_without(&|at| at == point[0].0)).collect();
    for (axis, end) in (0..axes.len()).flat_map(|axis| ends(axis, &points).map(move |end| (axis, end))) {
        let beyond = told_without(&|at| at[axis] == Coordinate::Number(end));
        checked.extend(beyond.into_iter().filter(|checked| checked.predicted.beyond));
    }
    checked
}

/// The ends of an axis of numbers with several points each. If such points were left out one by one, each would still
/// have its neighbours.
fn ends(axis: usize, points: &[&[PlacedObservation<'_>]]) -> impl Iterator<Item = f64> {
    let value = |point: &&[PlacedObservation<'_>]| match point[0].0[axis] {
        Coordinate::Number(value) => Some(value),
        _ => None,
    };
    let values: Option<Vec<f64>> = points.iter().map(value).collect();
    let values = values.unwrap_or_default();
    let least = values.iter().copied().fold(f64::INFINITY, f64::min);
    let most = values.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let several = move |end: &f64| least < most && values.iter().filter(|value| *value == end).count() > 1;
    [least, most].into_iter().filter(several)
}

fn held_out_points(point: &[PlacedObservation<'_>], surface: &Surface) -> Vec<HeldOutPoint> {
    let expected = surface.expect(&point[0].0);
    let checked = |quantity: Quantity| {
        let (measured, predicted) = quantity.values();
        let seen = point.iter().filter_map(|(_, seen)| measured(seen)).filter(|value| *value > 0.0);
        let measured = median(seen.collect())?;
        let predicted = predicted(&expected).filter(|predicted| !predicted.far)?;
        let at = |axis: &String| Some((axis.clone(), point[0].1.point.get(axis)?.clone()));
        Some(HeldOutPoint { point: surface.scale.axes.iter().filter_map(at).collect(), quantity, measured, predicted })
    };
    Quantity::ALL.into_iter().filter_map(checked).collect()
}
