//! Predicts points that have not run from points that have, along any number of axes at once, with an interval. Pure;
//! knows nothing of steps.
//!
//! The logarithm of a quantity is a law along each axis of numbers plus a remainder. A law is a usual relation of cost
//! and size, with a knee somewhere: a fixed cost and one that grows (an iteration by batch, memory by batch), a fixed
//! cost and one that is shared (an epoch over the images, by batch), or saturation (the load of a GPU). The remainder
//! is a Gaussian process: smooth along numbers, different from name to name, and as noisy as measurements are. Flow
//! does not choose one law, one smoothness and one noise. It weights all by how well they explain the measurements. A
//! prediction is their mean, and its interval covers their disagreement. So the points alone show whether time depends
//! on images or on iterations.

mod calibrate;

use crate::stats::t_quantile;

/// Nine of ten lie within so many deviations.
const NINE_IN_TEN: f64 = 1.645;
/// How a measurement repeats before anything is known of it, and for how many that counts.
const REPEATED: (f64, f64) = (2.0, 0.03);
/// Nothing is known better than this, as the deviation of a logarithm.
const REPEATS: f64 = 0.01;
/// The share of a whole below which a part does not matter.
const LITTLE: f64 = 0.05;
/// The deviation of a level of which nothing is known: ten times as much is nothing special.
const LEVEL: f64 = 5.0;
/// By how much what has one name differs from what has another.
const NAMES: f64 = 1.0;
/// How far what is true along an axis of one name is true of another.
const ALIKE: f64 = 0.8;
/// How far axes of numbers act on one another: the change of a slope along one by the logarithm along another.
const MIXED: f64 = 0.1;
/// From this many points on, intervals are calibrated by the leave-one-out errors; with fewer, the prior on noise
/// decides.
const CALIBRATED_FROM: usize = 16;
/// More points are thinned out: what is made of them takes time by their cube.
pub(crate) const MOST: usize = 48;

/// The place of a point on an axis.
#[derive(Clone, Debug, PartialEq)]
pub enum Coordinate {
    /// On a scale; above 0.
    Number(f64),
    /// One of several, of which none lies between two others.
    Name(String),
}

/// A prediction. Nine of ten are expected between `low` and `high`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PredictedValue {
    /// The most likely value.
    pub value: f64,
    pub low: f64,
    pub high: f64,
    /// Points that it rests on.
    pub points: u32,
    /// It lies beyond them.
    pub beyond: bool,
    /// It lies more than twice as far as the farthest: not to be relied on.
    pub far: bool,
}

impl PredictedValue {
    /// The sum of parts, each with how often it occurs; their errors are independent. A part that is at most a
    /// twentieth of the whole, by its upper end, does not put the sum beyond the measurements.
    pub fn sum(parts: impl IntoIterator<Item = (PredictedValue, f64)>) -> Option<PredictedValue> {
        let parts: Vec<PredictedValue> = parts.into_iter().map(|(part, times)| part.scaled(times)).collect();
        let value = parts.iter().map(|part| part.value).sum::<f64>();
        let off = |of: fn(&PredictedValue) -> f64| parts.iter().map(|part| of(part).powi(2)).sum::<f64>().sqrt();
        let matters = |part: &&PredictedValue| part.high > LITTLE * value;
        Some(PredictedValue {
            value,
            low: (value - off(|part| part.value - part.low)).max(0.0),
            high: value + off(|part| part.high - part.value),
            points: parts.iter().map(|part| part.points).max()?,
            beyond: parts.iter().filter(matters).any(|part| part.beyond),
            far: parts.iter().filter(matters).any(|part| part.far),
        })
    }

    /// So many times as much.
    pub fn scaled(self, by: f64) -> PredictedValue {
        PredictedValue { value: self.value * by, low: self.low * by, high: self.high * by, ..self }
    }

    /// How long so much takes where this is how much is done in a second.
    pub fn takes(self, much: f64) -> PredictedValue {
        PredictedValue { value: much / self.value, low: much / self.high, high: much / self.low, ..self }
    }

    /// A product; errors of the two have nothing to do with each other.
    pub fn times(self, other: &PredictedValue) -> PredictedValue {
        let value = self.value * other.value;
        let off = |own: f64, others: f64| own.ln().hypot(others.ln()).exp();
        let low = value / off(self.value / self.low, other.value / other.low);
        let high = value * off(self.high / self.value, other.high / other.value);
        let (beyond, far) = (self.beyond || other.beyond, self.far || other.far);
        PredictedValue { value, low, high, points: self.points.min(other.points), beyond, far }
    }

    /// Where more cannot be.
    pub fn at_most(self, most: f64) -> PredictedValue {
        PredictedValue { value: self.value.min(most), low: self.low.min(most), high: self.high.min(most), ..self }
    }
}

/// Measured points, and the predictions that they support.
#[derive(Clone, Debug)]
pub struct Fit {
    points: Vec<Point>,
    axes: Axes,
    /// Of all their logarithms.
    mean: f64,
    rooted: Vec<FactoredKernel>,
    /// Possible models with their weights, which sum to 1.
    beliefs: Vec<(f64, Belief)>,
    /// How many times as wide as beliefs have it an interval is, for nine of ten points to be where the others say.
    wider: f64,
}

#[derive(Clone, Debug)]
struct Point {
    at: Vec<Coordinate>,
    /// The mean of the logarithms that were measured here, and how many.
    value: f64,
    repeats: f64,
    /// The sum of the squares by which these are off their mean.
    squares: f64,
}

/// ± ln(1 + (x / knee)^±p) / p: flat on one side of the knee, in proportion on the other.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Law {
    axis: usize,
    sign: f64,
    knee: f64,
    /// Above 0 where it bends beyond the knee; 1 is a sum of two costs, 4 nearly the larger of them.
    sharpness: f64,
}

/// How what no law says goes with the axes.
#[derive(Clone, Copy, Debug)]
struct Kernel {
    slope: f64,
    bend: f64,
    scatter: f64,
}

/// A smoothness with the root L of its covariance of all points, and L⁻¹·values.
#[derive(Clone, Debug)]
struct FactoredKernel {
    smooth: Kernel,
    /// How much it is believed whatever the values, as a logarithm.
    prior: f64,
    root: CholeskyFactor,
    known: Vec<f64>,
}

/// Laws with a smoothness, and L⁻¹·(values − laws).
#[derive(Clone, Debug)]
struct Belief {
    laws: Vec<Law>,
    /// The mean of what they say at all points.
    level: f64,
    smooth: usize,
    residuals: Vec<f64>,
}

/// Slope and bend by logarithm of what no law says: nothing at all, a little, a power, a curve.
const SHAPES: [(f64, f64); 4] = [(0.0, 0.0), (0.05, 0.03), (0.5, 0.05), (0.5, 0.3)];
/// Scatter, and how much it is believed beforehand.
const SCATTERS: [(f64, f64); 5] = [(0.01, 1.0), (0.02, 2.0), (0.04, 2.0), (0.08, 1.0), (0.2, 0.5)];
/// Knees lie so far apart, and so far beyond the points at most.
const KNEES: (f64, f64) = (0.5 * std::f64::consts::LN_2, 2.0 * std::f64::consts::LN_2);
/// A model is dropped if its weight is less than this share of the highest weight.
const BELIEVED: f64 = 3e-3;

impl Law {
    fn at(&self, at: &[Coordinate]) -> f64 {
        let Some(Coordinate::Number(x)) = at.get(self.axis) else { return 0.0 };
        let bent = self.sharpness * (x.ln() - self.knee);
        // ln(1 + e^bent), and no overflow.
        self.sign * (bent.max(0.0) + (-bent.abs()).exp().ln_1p()) / self.sharpness.abs()
    }

    /// All that are tried along an axis of numbers between these, which are logarithms.
    fn along(axis: usize, first: f64, last: f64) -> impl Iterator<Item = Law> {
        let (apart, beyond) = KNEES;
        let knees = ((last - first + 2.0 * beyond) / apart).ceil() as usize;
        let ways =
            [(1.0, 1.0), (1.0, -1.0), (-1.0, 1.0), (-1.0, -1.0), (1.0, 4.0), (1.0, -4.0), (-1.0, 4.0), (-1.0, -4.0)];
        (0..=knees).flat_map(move |n| {
            let knee = first - beyond + apart * n as f64;
            ways.map(|(sign, sharpness)| Law { axis, sign, knee, sharpness })
        })
    }
}

/// The constants of covariances: for each axis of numbers the min, max and mean of the logarithms.
#[derive(Clone, Debug)]
struct Axes(Vec<Option<(f64, f64, f64)>>);

impl Axes {
    fn of(points: &[Point]) -> Axes {
        let axis = |n: usize| {
            let numbers: Option<Vec<f64>> = points.iter().map(|point| number(&point.at, n)).collect();
            let numbers = numbers?;
            let least = numbers.iter().copied().reduce(f64::min)?;
            let most = numbers.iter().copied().fold(least, f64::max);
            Some((least, most, numbers.iter().sum::<f64>() / numbers.len() as f64))
        };
        Axes((0..points[0].at.len()).map(axis).collect())
    }

    fn covariance(&self, a: &[Coordinate], b: &[Coordinate], smooth: Kernel) -> f64 {
        let (mut level, mut alike, mut along, mut mixed) = (LEVEL * LEVEL, 1.0, 0.0, 0.0);
        for (n, axis) in self.0.iter().enumerate() {
            let Some((least, _, mean)) = axis else {
                let same = a[n] == b[n];
                level += if same { NAMES * NAMES } else { 0.0 };
                alike *= if same { 1.0 } else { ALIKE };
                continue;
            };
            let (Some(u), Some(v)) = (number(a, n), number(b, n)) else { continue };
            let straight = (u - mean) * (v - mean);
            mixed += smooth.slope.powi(2) * MIXED.powi(2) * along * straight;
            along += smooth.slope.powi(2) * straight + smooth.bend.powi(2) * spline(u - least + 1.0, v - least + 1.0);
        }
        level + alike * (along + mixed)
    }
}

/// The covariance of what has a slope that goes its own way from 0 on: its mean is the smoothest curve through all points.
fn spline(u: f64, v: f64) -> f64 {
    let less = u.min(v).max(0.0);
    less.powi(3) / 3.0 + less.powi(2) * (u - v).abs() / 2.0
}

fn number(at: &[Coordinate], axis: usize) -> Option<f64> {
    match at.get(axis) {
        Some(Coordinate::Number(x)) => Some(x.ln()),
        _ => None,
    }
}

/// A lower triangle L with L·Lᵀ a covariance.
#[derive(Clone, Debug)]
struct CholeskyFactor(Vec<Vec<f64>>);

impl CholeskyFactor {
    /// `None` where it is none.
    fn of(covariance: &[Vec<f64>]) -> Option<CholeskyFactor> {
        let mut root: Vec<Vec<f64>> = Vec::with_capacity(covariance.len());
        for (i, row) in covariance.iter().enumerate() {
            let mut new: Vec<f64> = Vec::with_capacity(i + 1);
            for j in 0..=i {
                let above = if j == i { &new } else { &root[j] };
                let left = row[j] - new.iter().zip(above).take(j).map(|(a, b)| a * b).sum::<f64>();
                new.push(if j < i {
                    left / root[j][j]
                } else if left > 0.0 {
                    left.sqrt()
                } else {
                    return None;
                });
            }
            root.push(new);
        }
        Some(CholeskyFactor(root))
    }

    /// x with L·x = b.
    fn solve(&self, b: &[f64]) -> Vec<f64> {
        let mut x: Vec<f64> = Vec::with_capacity(b.len());
        for (row, b) in self.0.iter().zip(b) {
            let known: f64 = row.iter().zip(&x).map(|(l, x)| l * x).sum();
            x.push((b - known) / row[x.len()]);
        }
        x
    }

    /// The logarithm of the root of the determinant.
    fn ln_determinant(&self) -> f64 {
        self.0.iter().enumerate().map(|(i, row)| row[i].ln()).sum()
    }
}

impl Fit {
    /// `None` without a point: numbers that are finite and above 0.
    pub fn of(measured: &[(Vec<Coordinate>, f64)]) -> Option<Fit> {
        let merged = merge(measured);
        // Measurements scatter as much as they do where the same was measured, at least.
        let repeated = merged.iter().map(|point| (point.squares, point.repeats - 1.0));
        let (squares, freedom) = repeated.fold((0.0, 0.0), |all, one| (all.0 + one.0, all.1 + one.1));
        let seen = deviation(squares, freedom).unwrap_or(0.0);
        let points = thin(merged);
        let axes = Axes::of(points.first().map(|_| &*points)?);
        let mean = points.iter().map(|point| point.value).sum::<f64>() / points.len() as f64;
        let rooted = |(smooth, prior): (Kernel, f64)| {
            let row = |(i, a): (usize, &Point)| {
                let row = points.iter().enumerate().map(|(j, b)| {
                    let scatter = if i == j { smooth.scatter.powi(2) / a.repeats + REPEATS.powi(2) / 4.0 } else { 0.0 };
                    axes.covariance(&a.at, &b.at, smooth) + scatter
                });
                row.collect::<Vec<f64>>()
            };
            let root = CholeskyFactor::of(&points.iter().enumerate().map(row).collect::<Vec<_>>())?;
            let all: Vec<f64> = points.iter().map(|point| point.value - mean).collect();
            Some(FactoredKernel { smooth, prior: prior.ln() - root.ln_determinant(), known: root.solve(&all), root })
        };
        let smooths = SHAPES.iter().flat_map(|&(slope, bend)| {
            SCATTERS.map(|(scatter, prior)| (Kernel { slope, bend, scatter: scatter.max(seen) }, prior))
        });
        let rooted: Vec<FactoredKernel> = smooths.filter_map(rooted).collect();
        let mut fit = Fit { points, axes, mean, rooted, beliefs: Vec::new(), wider: 1.0 };
        fit.believe();
        if fit.points.len() >= CALIBRATED_FROM {
            fit.wider = calibrate::wider(&fit.off());
        }
        Some(fit)
    }

    /// Weighs all laws: along one axis after the other, those of the others being the best.
    fn believe(&mut self) {
        let mut best: Vec<Law> = Vec::new();
        let mut beliefs: Vec<(f64, Belief)> = self.weigh(&best);
        let varied = |(n, axis): (usize, &Option<(f64, f64, f64)>)| {
            axis.filter(|(first, last, _)| first != last).map(|(first, last, _)| (n, first, last))
        };
        let axes: Vec<(usize, f64, f64)> = self.axes.0.iter().enumerate().filter_map(varied).collect();
        for &(axis, first, last) in &axes {
            for law in Law::along(axis, first, last) {
                beliefs.extend(self.weigh(&[&best[..], &[law]].concat()));
            }
            let most = beliefs.iter().max_by(|(a, _), (b, _)| a.total_cmp(b));
            best = most.map(|(_, belief)| belief.laws.clone()).unwrap_or_default();
        }
        // Once more with the best that was found after them: else nothing of what is unsure along the first axes would be left.
        for &(axis, first, last) in axes.iter().rev().skip(1) {
            let others: Vec<Law> = best.iter().copied().filter(|law| law.axis != axis).collect();
            for law in Law::along(axis, first, last).filter(|law| !best.contains(law)) {
                beliefs.extend(self.weigh(&[&others[..], &[law]].concat()));
            }
        }
        let most = beliefs.iter().map(|(ln, _)| *ln).fold(f64::NEG_INFINITY, f64::max);
        let mut of_smooth = vec![0.0; self.rooted.len()];
        beliefs.iter().for_each(|(ln, belief)| of_smooth[belief.smooth] += (ln - most).exp());
        let whole: f64 = of_smooth.iter().sum();
        beliefs.retain(|(ln, belief)| *ln > most + BELIEVED.ln() && of_smooth[belief.smooth] > whole * BELIEVED);
        let sum: f64 = beliefs.iter().map(|(ln, _)| (ln - most).exp()).sum();
        self.beliefs = beliefs.into_iter().map(|(ln, belief)| ((ln - most).exp() / sum, belief)).collect();
    }

    /// The logarithm of how well these laws say what was measured, for each smoothness.
    fn weigh(&self, laws: &[Law]) -> Vec<(f64, Belief)> {
        let says = |at: &[Coordinate]| laws.iter().map(|law| law.at(at)).sum::<f64>();
        let mut said: Vec<f64> = self.points.iter().map(|point| says(&point.at)).collect();
        let level = said.iter().sum::<f64>() / said.len() as f64;
        said.iter_mut().for_each(|said| *said -= level);
        let weigh = |(smooth, rooted): (usize, &FactoredKernel)| {
            let residuals: Vec<f64> = rooted.known.iter().zip(rooted.root.solve(&said)).map(|(y, m)| y - m).collect();
            let ln = rooted.prior - residuals.iter().map(|residual| residual * residual).sum::<f64>() / 2.0;
            (ln, Belief { laws: laws.to_vec(), level, smooth, residuals })
        };
        self.rooted.iter().enumerate().map(weigh).collect()
    }

    /// The value at a point; `None` where nothing was measured at one of its names, or only one number elsewhere.
    pub fn at(&self, at: &[Coordinate]) -> Option<PredictedValue> {
        let (mut beyond, mut far) = (false, false);
        for (n, axis) in self.axes.0.iter().enumerate() {
            match (axis, at.get(n)?) {
                (Some((first, last, _)), Coordinate::Number(x)) if *x > 0.0 && x.is_finite() => {
                    let out = (first - x.ln()).max(x.ln() - last);
                    if first == last && out > 1e-9 {
                        return None;
                    }
                    (beyond, far) = (beyond || out > 1e-9, far || out > std::f64::consts::LN_2 + 1e-9);
                }
                (None, name) if self.points.iter().any(|point| point.at[n] == *name) => {}
                _ => return None,
            }
        }
        let seen: Vec<Option<(Vec<f64>, f64)>> = (0..self.rooted.len())
            .map(|n| {
                self.beliefs.iter().any(|(_, b)| b.smooth == n).then(|| {
                    let FactoredKernel { smooth, root, .. } = &self.rooted[n];
                    let beside: Vec<f64> =
                        self.points.iter().map(|p| self.axes.covariance(&p.at, at, *smooth)).collect();
                    let beside = root.solve(&beside);
                    let own = self.axes.covariance(at, at, *smooth) - beside.iter().map(|b| b * b).sum::<f64>();
                    (beside, own.max(0.0) + smooth.scatter.powi(2) + REPEATS.powi(2))
                })
            })
            .collect();
        let (mut mean, mut square) = (0.0, 0.0);
        for (weight, Belief { laws, level, smooth, residuals }) in &self.beliefs {
            let Some((beside, variance)) = &seen[*smooth] else { continue };
            let law = laws.iter().map(|law| law.at(at)).sum::<f64>() - level;
            let value = law + beside.iter().zip(residuals).map(|(b, l)| b * l).sum::<f64>();
            mean += weight * value;
            square += weight * (value * value + variance);
        }
        let deviation = self.wider * (square - mean * mean).max(0.0).sqrt();
        let (value, factor) = ((self.mean + mean).exp(), (NINE_IN_TEN * deviation).exp());
        let points = self.points.len() as u32;
        Some(PredictedValue { value, low: value / factor, high: value * factor, points, beyond, far })
    }
}

/// Points where the same was measured become one; in order.
fn merge(measured: &[(Vec<Coordinate>, f64)]) -> Vec<Point> {
    let usable = |at: &Coordinate| !matches!(at, Coordinate::Number(x) if !x.is_finite() || *x <= 0.0);
    let mut usable: Vec<&(Vec<Coordinate>, f64)> =
        measured.iter().filter(|(at, value)| value.is_finite() && *value > 0.0 && at.iter().all(usable)).collect();
    usable.sort_by(|a, b| key(&a.0).cmp(key(&b.0)));
    let point = |same: &[&(Vec<Coordinate>, f64)]| {
        let repeats = same.len() as f64;
        let value = same.iter().map(|(_, value)| value.ln()).sum::<f64>() / repeats;
        let squares = same.iter().map(|(_, measured)| (measured.ln() - value).powi(2)).sum();
        Point { at: same[0].0.clone(), value, repeats, squares }
    };
    usable.chunk_by(|a, b| a.0 == b.0).map(point).collect()
}

/// An order of points; numbers above 0 are in the order of their bits.
pub fn key(at: &[Coordinate]) -> impl Iterator<Item = (&str, u64)> {
    at.iter().map(|at| match at {
        Coordinate::Name(name) => (name.as_str(), 0),
        Coordinate::Number(x) => ("", x.to_bits()),
    })
}

/// The first, the last, and evenly what is between them.
fn thin(points: Vec<Point>) -> Vec<Point> {
    if points.len() <= MOST {
        return points;
    }
    let step = (points.len() - 1) as f64 / (MOST - 1) as f64;
    (0..MOST).map(|n| points[(n as f64 * step).round() as usize].clone()).collect()
}

/// The scatter of measurements, as a deviation that covers nine of ten within [`NINE_IN_TEN`] (Student's t). `squares`
/// is the sum of their squared deviations from their means. `freedom` is how many more measurements there are than
/// means; 1 is not enough.
fn deviation(squares: f64, freedom: f64) -> Option<f64> {
    (freedom > 1.0).then(|| t_quantile(0.1, freedom) / NINE_IN_TEN * (squares / freedom).sqrt())
}

/// The value at a point that was measured, as certain as its repetitions.
pub fn repeated(measured: &[f64]) -> Option<PredictedValue> {
    let logarithms: Vec<f64> =
        measured.iter().filter(|value| **value > 0.0 && value.is_finite()).map(|v| v.ln()).collect();
    let n = logarithms.len() as f64;
    let mean = logarithms.iter().sum::<f64>() / n;
    let (weight, prior) = REPEATED;
    let squares: f64 = logarithms.iter().map(|value| (value - mean).powi(2)).sum();
    let believed = ((weight * prior * prior + squares) / (weight + n - 1.0)).sqrt();
    // One more is off their mean as well as that is off the truth.
    let seen = deviation(squares, n - 1.0).map_or(0.0, |seen| seen * (1.0 + 1.0 / n).sqrt());
    let factor = (NINE_IN_TEN * believed.max(seen)).exp();
    let value = mean.exp();
    (n > 0.0).then_some(PredictedValue {
        value,
        low: value / factor,
        high: value * factor,
        points: 1,
        beyond: false,
        far: false,
    })
}

#[cfg(test)]
mod tests;
