//! How finely numbers are resolved, and how the size of their noise changes along the axis.

use crate::stats::{least_squares::least_squares, median};

/// The unit that all numbers are multiples of, if rounding lost half the digits; else 0. Points that do not scatter are
/// rounded only if their steps are one in the last decimal place.
pub(super) fn resolution(x: &[f64], y: &[f64]) -> f64 {
    let mut sorted = y.to_vec();
    sorted.sort_by(f64::total_cmp);
    let least = 1e-9 * sorted[0].abs().max(sorted[sorted.len() - 1].abs());
    let gaps: Vec<f64> = sorted.windows(2).map(|w| w[1] - w[0]).filter(|gap| *gap > least).collect();
    let unit = gaps.iter().copied().fold(f64::INFINITY, f64::min);
    let whole = |unit: f64, of: &[f64]| of.iter().all(|v| (v / unit - (v / unit).round()).abs() < 1e-3);
    if !unit.is_finite() || !whole(unit, &gaps) {
        return 0.0;
    }
    let scatter: Vec<f64> = (1..y.len() - 1).map(|i| pseudo_residual(x, y, i).abs()).collect();
    if median(scatter).is_some_and(|usual| usual > least) {
        return unit;
    }
    let last = 10_f64.powf((unit + least).log10().floor());
    let mut places = std::iter::successors(Some(last), |place| Some(place / 10.0)).take_while(|place| *place > least);
    places.find(|place| whole(*place, y)).unwrap_or(0.0)
}

/// One over the size of the noise along the axis: a line through the sizes of second differences. A difference counts
/// as at most three times the usual one, because the largest come from jumps and outliers.
pub(super) fn weights(x: &[f64], y: &[f64]) -> Vec<f64> {
    let sizes: Vec<f64> = (1..y.len() - 1).map(|i| pseudo_residual(x, y, i).abs()).collect();
    let usual = median(sizes.clone()).unwrap_or(0.0);
    if usual <= 0.0 {
        return vec![1.0; x.len()];
    }
    let sizes: Vec<f64> = sizes.iter().map(|size| size.min(3.0 * usual)).collect();
    let inner = &x[1..x.len() - 1];
    let Some(line) = least_squares(&[vec![1.0; inner.len()], inner.to_vec()], &sizes) else {
        return vec![1.0; x.len()];
    };
    let [at_middle, slope] = line.coefficients()[..] else { return vec![1.0; x.len()] };
    let mean = sizes.iter().sum::<f64>() / sizes.len() as f64;
    let size = |x: f64| (at_middle.value + slope.value * x).max(0.2 * mean) / mean;
    x.iter().map(|x| 1.0 / size(*x)).collect()
}

/// How far a point is from the line between its neighbours, in units of the noise: T. Gasser, L. Sroka and C. Jennen-Steinmetz,
/// "Residual Variance and Residual Pattern in Nonlinear Regression", Biometrika 73 (1986), 625–633.
pub(super) fn pseudo_residual(x: &[f64], y: &[f64], i: usize) -> f64 {
    let a = (x[i + 1] - x[i]) / (x[i + 1] - x[i - 1]);
    let b = 1.0 - a;
    (a * y[i - 1] + b * y[i + 1] - y[i]) / (a * a + b * b + 1.0).sqrt()
}
