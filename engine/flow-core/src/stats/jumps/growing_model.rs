//! The gain of each part that a model lacks, updated while the model grows.

use super::model::{Noise, Part, Sweep};
use crate::stats::least_squares::{dot, norm, subtract};

/// A model that grows, with what each part would add.
pub(super) struct GrowingModel<'a> {
    pub(super) noise: &'a Noise,
    /// Unit vectors that span it.
    pub(super) q: Vec<Vec<f64>>,
    pub(super) residuals: Vec<f64>,
    pub(super) price: f64,
    /// For each part its product with the residuals, and the square of the length of what is not yet in the model.
    pub(super) adds: Vec<(f64, f64)>,
}

impl GrowingModel<'_> {
    /// Takes a column in; one that adds nothing changes nothing.
    pub(super) fn add(&mut self, mut column: Vec<f64>, sweep: &Sweep) {
        let length = norm(&column);
        for _ in 0..2 {
            for unit in &self.q {
                let part = dot(unit, &column);
                subtract(&mut column, unit, part);
            }
        }
        let own = norm(&column);
        if own <= 1e-10 * length {
            return;
        }
        column.iter_mut().for_each(|v| *v /= own);
        let explained = dot(&column, &self.residuals);
        subtract(&mut self.residuals, &column, explained);
        let sums = Sums::of(&column, sweep, self.noise);
        for ((part, _), (along, own)) in self.noise.parts.iter().zip(&mut self.adds) {
            let of_part = sums.along(*part, sweep);
            *along -= explained * of_part;
            *own -= of_part * of_part;
        }
        self.q.push(column);
    }
}

/// Sums of a vector from each point to the end, of which its products with the columns of all parts are made.
pub(super) struct Sums {
    pub(super) own: Vec<f64>,
    pub(super) ones: Vec<f64>,
    pub(super) places: Vec<f64>,
}

impl Sums {
    pub(super) fn of(v: &[f64], sweep: &Sweep, noise: &Noise) -> Sums {
        let phi = noise.correlation;
        let mut own: Vec<f64> = v.to_vec();
        own[0] *= (1.0 - phi * phi).sqrt();
        (0..own.len() - 1).for_each(|i| own[i] -= phi * v[i + 1]);
        own.iter_mut().zip(&sweep.weights).for_each(|(v, w)| *v *= w);
        let to_end = |mut sums: Vec<f64>| {
            (0..sums.len() - 1).rev().for_each(|i| sums[i] += sums[i + 1]);
            sums
        };
        let places = to_end(own.iter().zip(&sweep.x).map(|(u, x)| u * x).collect());
        Sums { ones: to_end(own.clone()), places, own }
    }

    /// The product with the column of a part.
    pub(super) fn along(&self, part: Part, sweep: &Sweep) -> f64 {
        match part {
            Part::Jump(place) => self.ones[place],
            Part::Level(from, to) => self.ones[from] - self.ones[to],
            Part::Bend(place) => self.places[place] - sweep.x[place] * self.ones[place],
            Part::Outlier(place) => self.own[place],
            Part::Staircase(at) => sweep.staircases[at].places.iter().map(|place| self.ones[*place]).sum(),
        }
    }
}
