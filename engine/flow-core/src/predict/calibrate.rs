//! Calibrates intervals with leave-one-out errors: each point is predicted from the others, without a new fit for each.
//!
//! For a Gaussian process, the inverse of the covariance of all points gives the error at a point that is left out, and
//! its variance (C. E. Rasmussen and C. K. I. Williams, "Gaussian Processes for Machine Learning", MIT Press 2006,
//! section 5.4.2). The weight of a model without that point is its weight with it, less the likelihood of that point.
//! The width of an interval is the quantile of the errors that it is to cover (V. Vovk, A. Gammerman and G. Shafer,
//! "Algorithmic Learning in a Random World", Springer 2005).

use super::{CholeskyFactor, Fit, NINE_IN_TEN};

impl CholeskyFactor {
    /// The inverse of the triangle, by its columns.
    fn inverse(&self) -> Vec<Vec<f64>> {
        let n = self.0.len();
        let unit = |of: usize| (0..n).map(|at| f64::from(u8::from(at == of))).collect::<Vec<f64>>();
        (0..n).map(|of| self.solve(&unit(of))).collect()
    }
}

impl Fit {
    /// By how many deviations each point is off what all others say of it.
    pub(super) fn off(&self) -> Vec<f64> {
        let n = self.points.len();
        let used = |smooth: usize| self.beliefs.iter().any(|(_, belief)| belief.smooth == smooth);
        let columns: Vec<Option<Vec<Vec<f64>>>> =
            (0..self.rooted.len()).map(|smooth| used(smooth).then(|| self.rooted[smooth].root.inverse())).collect();
        // Of each point: the sum of beliefs without it, of their errors and of squares.
        let mut sums = vec![(0.0, 0.0, 0.0); n];
        for (weight, belief) in &self.beliefs {
            let Some(columns) = &columns[belief.smooth] else { continue };
            for (sum, column) in sums.iter_mut().zip(columns) {
                let precision: f64 = column.iter().map(|c| c * c).sum();
                let error =
                    column.iter().zip(&belief.residuals).map(|(c, residual)| c * residual).sum::<f64>() / precision;
                // The weight, over how likely the belief has the point from the others.
                let without = weight / precision.sqrt() * (error * error * precision / 2.0).min(UNLIKELY).exp();
                sum.0 += without;
                sum.1 += without * error;
                sum.2 += without * (error * error + 1.0 / precision);
            }
        }
        let deviations = |(all, errors, squares): (f64, f64, f64)| {
            let (mean, square) = (errors / all, squares / all);
            mean.abs() / (square - mean * mean).max(f64::MIN_POSITIVE).sqrt()
        };
        sums.into_iter().map(deviations).collect()
    }
}

/// Logarithms of likelihoods are cut off at this value.
const UNLIKELY: f64 = 300.0;

/// The factor by which intervals must be widened so that nine of ten leave-one-out errors (`off`, in standard
/// deviations) lie inside; at least 1.
pub(super) fn wider(off: &[f64]) -> f64 {
    let mut off = off.to_vec();
    off.sort_by(f64::total_cmp);
    let at = (0.9 * (off.len() + 1) as f64).ceil() as usize;
    let quantile = off.get(at.min(off.len()).saturating_sub(1)).copied().filter(|off| off.is_finite());
    quantile.map_or(1.0, |off| (off / NINE_IN_TEN).max(1.0))
}
