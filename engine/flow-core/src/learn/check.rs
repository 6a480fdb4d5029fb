//! How good predictions are: each point that was measured, predicted from all others.

use super::{
    history::History,
    observation::Observation,
    surface::{Expected, Surface, place},
};
use crate::{
    StepId,
    predict::{Coordinate, Predicted, key},
    stats::median,
};

/// What is predicted of a point.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Quantity {
    Wall,
    Startup,
    Epoch,
    GpuMemory,
    GpuBusy,
}

impl Quantity {
    /// All, in the order in which they are told.
    pub const ALL: [Quantity; 5] =
        [Quantity::Wall, Quantity::Startup, Quantity::Epoch, Quantity::GpuMemory, Quantity::GpuBusy];

    fn measured(self, seen: &Observation) -> Option<f64> {
        let value = match self {
            Quantity::Wall => Some(seen.wall_s),
            Quantity::Startup => seen.phases.map(|phases| phases.before_s),
            Quantity::Epoch => seen.epoch_s,
            Quantity::GpuMemory => Some(seen.gpu_memory as f64),
            Quantity::GpuBusy => seen.busy_in_epochs(),
        };
        value.filter(|value| *value > 0.0)
    }

    fn expected(self, expected: &Expected) -> Option<Predicted> {
        match self {
            Quantity::Wall => expected.wall,
            Quantity::Startup => expected.startup,
            Quantity::Epoch => expected.epoch,
            Quantity::GpuMemory => expected.gpu_memory,
            Quantity::GpuBusy => expected.gpu_busy,
        }
    }
}

/// A point as it was measured, and as the others predict it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Checked {
    pub quantity: Quantity,
    /// The median of what was measured there.
    pub measured: f64,
    pub predicted: Predicted,
}

impl History<'_> {
    /// Predicts each point of a step that was measured from the others of it. What lies more than twice as far as all of these
    /// is left out.
    pub fn check(&self, step: StepId) -> Vec<Checked> {
        self.on_axes(step).flat_map(|(axes, seen)| leave_one_out(axes, &seen)).collect()
    }
}

fn leave_one_out(axes: &[String], seen: &[&Observation]) -> Vec<Checked> {
    let mut placed: Vec<(Vec<Coordinate>, &Observation)> =
        seen.iter().filter_map(|seen| Some((place(axes, seen)?, *seen))).collect();
    placed.sort_by(|a, b| key(&a.0).cmp(key(&b.0)));
    let points: Vec<&[(Vec<Coordinate>, &Observation)]> = placed.chunk_by(|a, b| a.0 == b.0).collect();
    let of_point = |point: &&[(Vec<Coordinate>, &Observation)]| {
        let at = &point[0].0;
        let others: Vec<&Observation> = placed.iter().filter(|(other, _)| other != at).map(|(_, seen)| *seen).collect();
        let expected = Surface::through(axes, &others).expect(at);
        let checked = |quantity: Quantity| {
            let measured = median(point.iter().filter_map(|(_, seen)| quantity.measured(seen)).collect())?;
            let predicted = quantity.expected(&expected).filter(|predicted| !predicted.far)?;
            Some(Checked { quantity, measured, predicted })
        };
        Quantity::ALL.into_iter().filter_map(checked).collect::<Vec<_>>()
    };
    // One of two says of the other what it likes.
    if points.len() > 2 { points.iter().flat_map(of_point).collect() } else { Vec::new() }
}
