//! The parts of a model of a sweep, and the price of each.

use super::{
    curves::{Smooth, curves},
    scatter::{resolution, weights},
    staircases::{Staircase, multiple, staircases},
};
use crate::stats::least_squares::dot;

/// So many points a level must last: fewer are outliers.
pub(super) const MIN_LEVEL: usize = 3;
/// So many points a level may last that is searched for as a whole; the two ends of a longer one are found one by one.
pub(super) const LONGEST: usize = 8;
/// A line has so many coefficients, and costs nothing.
pub(super) const LINE: usize = 2;
/// Sweeps for which prices were set have so many points.
const PRICED: f64 = 70.0;
/// How much the noise of a point may say of the next.
pub(super) const CORRELATIONS: [f64; 3] = [0.0, 0.4, 0.8];

/// A part of a model besides its curve, by the position of its first point.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Part {
    Jump(usize),
    Bend(usize),
    Outlier(usize),
    /// A jump, and one back before the second position.
    Level(usize, usize),
    /// One equal jump at each place of a member of the family.
    Staircase(usize),
}

/// The data that all models share.
pub(super) struct Sweep {
    /// The places of the points, from −1 to 1.
    pub(super) x: Vec<f64>,
    pub(super) y: Vec<f64>,
    pub(super) curves: Vec<Smooth>,
    /// One over the size of the noise, relative.
    pub(super) weights: Vec<f64>,
    pub(super) staircases: Vec<Staircase>,
    pub(super) noises: Vec<Noise>,
    pub(super) prices: Penalties,
    /// Residuals are never taken for smaller, as a sum of squares: numbers have so many digits.
    pub(super) floor: f64,
}

/// Noise of some correlation, and how long the column of each part is once that is taken from it.
pub(super) struct Noise {
    pub(super) correlation: f64,
    pub(super) parts: Vec<(Part, f64)>,
}

#[derive(Clone)]
pub(super) struct Model {
    pub(super) correlation: f64,
    /// The position of its curve.
    pub(super) curve: usize,
    pub(super) parts: Vec<Part>,
    pub(super) score: f64,
}

/// Prices, in units of the logarithm of the likelihood. That of a coefficient is half of Schwarz' criterion. The others
/// were set by simulation.
#[derive(Clone, Copy)]
pub(super) struct Penalties {
    pub(super) coefficient: f64,
    /// The price of independent noise. A curve that follows the noise makes it look independent.
    pub(super) independent: f64,
    pub(super) bend: f64,
    pub(super) outlier: f64,
    pub(super) jump: f64,
    pub(super) level: f64,
    pub(super) staircase: f64,
    /// The price of a staircase with two places, because many numbers have just two multiples in a sweep.
    pub(super) pair: f64,
    /// The price of jumps on a curve, for each of its coefficients and bends, because a steep part of a curve looks
    /// like a jump.
    pub(super) uneven: f64,
    /// And at most so much.
    pub(super) most_uneven: f64,
}

impl Penalties {
    pub(super) fn of(n: usize) -> Penalties {
        let log = (n as f64).ln();
        Penalties {
            coefficient: 0.5 * log,
            independent: 1.5,
            bend: 1.5 + log,
            outlier: 1.5 + log,
            jump: 5.8 + log,
            level: 6.5 + 2.0 * log,
            staircase: 3.3 + log,
            pair: 4.8 + log,
            uneven: 0.4,
            most_uneven: 1.5,
        }
    }
}

impl Sweep {
    pub(super) fn new(points: &[(f64, f64)]) -> Sweep {
        let n = points.len();
        let (first, last) = (points[0].0, points[n - 1].0);
        let x: Vec<f64> = points.iter().map(|p| (2.0 * p.0 - first - last) / (last - first)).collect();
        let y: Vec<f64> = points.iter().map(|p| p.1).collect();
        // Steps at the multiples of a number, and nowhere else, are none of rounding either.
        let steps: Vec<usize> = (1..n).filter(|i| y[*i] != y[i - 1]).collect();
        let digit = if multiple(points, &steps).is_some() { 0.0 } else { resolution(&x, &y) };
        let scale = y.iter().map(|y| y.abs()).fold(0.0, f64::max);
        let floor = n as f64 * digit.max(1e-9 * scale).powi(2);
        let weights = weights(&x, &y);
        let curves = curves(points, &x, MIN_LEVEL);
        let (staircases, noises, prices) = (staircases(points), Vec::new(), Penalties::of(n));
        let mut sweep = Sweep { curves, staircases, noises, prices, floor, x, y, weights };
        let lasts = |place: &usize| *place >= MIN_LEVEL && place + MIN_LEVEL <= n;
        let parts: Vec<Part> = (0..n)
            .map(Part::Outlier)
            .chain((2..n - 2).map(Part::Bend))
            .chain((0..n).filter(lasts).map(Part::Jump))
            .chain((0..n).filter(lasts).flat_map(|from| {
                let ends = (from + MIN_LEVEL..=from + LONGEST).filter(lasts);
                ends.map(move |to| Part::Level(from, to))
            }))
            .chain((0..sweep.staircases.len()).map(Part::Staircase))
            .collect();
        let noise = |correlation| {
            let length = |part: &Part| {
                let column = sweep.white(sweep.column(*part), correlation);
                (*part, dot(&column, &column))
            };
            Noise { correlation, parts: parts.iter().map(length).collect() }
        };
        sweep.noises = CORRELATIONS.map(noise).into();
        sweep
    }

    /// The price of a curve, given the correlation of the noise.
    pub(super) fn price_of(&self, correlation: f64, curve: usize) -> f64 {
        let smooth = &self.curves[curve];
        (smooth.columns.len() - LINE) as f64 * self.prices.coefficient
            + smooth.searches as f64 * self.prices.bend
            + if correlation > 0.0 { 0.0 } else { self.prices.independent }
    }

    pub(super) fn forget_staircases(&mut self) {
        for noise in &mut self.noises {
            noise.parts.retain(|(part, _)| !matches!(part, Part::Staircase(_)));
        }
    }

    /// A column by the size of the noise, less what its correlation says of each from the one before.
    pub(super) fn white(&self, mut column: Vec<f64>, correlation: f64) -> Vec<f64> {
        column.iter_mut().zip(&self.weights).for_each(|(v, w)| *v *= w);
        for i in (1..column.len()).rev() {
            column[i] -= correlation * column[i - 1];
        }
        column[0] *= (1.0 - correlation * correlation).sqrt();
        column
    }

    pub(super) fn price(&self, part: Part) -> f64 {
        match part {
            Part::Jump(_) => self.prices.jump,
            Part::Level(..) => self.prices.level,
            Part::Bend(_) => self.prices.bend,
            Part::Outlier(_) => self.prices.outlier,
            Part::Staircase(at) if self.staircases[at].places.len() == 2 => self.prices.pair,
            Part::Staircase(_) => self.prices.staircase,
        }
    }

    /// The factor by which prices are higher than in the sweep for which they were set. The fewer points there are for
    /// each column, the better it follows noise. C. M. Hurvich and C.-L. Tsai, "Regression and Time Series Model
    /// Selection in Small Samples", Biometrika 76 (1989), 297–307.
    pub(super) fn dear(&self, columns: usize) -> f64 {
        let freedom = |n: f64| (n - columns as f64 - 2.0).max(1.0) / n;
        (freedom(PRICED) / freedom(self.x.len() as f64)).max(1.0)
    }

    /// The logarithm of the likelihood, less the price, of a model of so many columns.
    pub(super) fn score(&self, noise: &Noise, rss: f64, price: f64, columns: usize) -> f64 {
        let n = self.x.len() as f64;
        let likelihood = -0.5 * n * ((rss + self.floor) / n).ln() + 0.5 * (1.0 - noise.correlation.powi(2)).ln();
        likelihood - self.dear(columns) * price
    }

    /// The positions of all jumps.
    pub(super) fn places(&self, parts: &[Part]) -> Vec<usize> {
        let mut places: Vec<usize> = Vec::new();
        for part in parts {
            match part {
                Part::Jump(place) => places.push(*place),
                Part::Level(from, to) => places.extend([*from, *to]),
                Part::Staircase(at) => places.extend(&self.staircases[*at].places),
                Part::Bend(_) | Part::Outlier(_) => {}
            }
        }
        places.sort_unstable();
        places.dedup();
        places
    }

    pub(super) fn column(&self, part: Part) -> Vec<f64> {
        let n = self.x.len();
        match part {
            Part::Jump(place) => (0..n).map(|i| if i >= place { 1.0 } else { 0.0 }).collect(),
            Part::Level(from, to) => (0..n).map(|i| if i >= from && i < to { 1.0 } else { 0.0 }).collect(),
            Part::Bend(place) => self.x.iter().map(|x| (x - self.x[place]).max(0.0)).collect(),
            Part::Outlier(place) => (0..n).map(|i| if i == place { 1.0 } else { 0.0 }).collect(),
            Part::Staircase(at) => {
                let places = &self.staircases[at].places;
                (0..n).map(|i| places.partition_point(|place| *place <= i) as f64).collect()
            }
        }
    }

    pub(super) fn has_stairs(&self, model: &Model) -> bool {
        model.parts.iter().any(|part| matches!(part, Part::Staircase(_)))
    }
}
