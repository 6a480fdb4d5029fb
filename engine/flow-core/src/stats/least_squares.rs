//! Linear least squares over columns of regressors, with intervals of the coefficients. It does not know their meaning.

use serde::{Deserialize, Serialize};

use super::distributions::t_quantile;

/// A coefficient with its 95 % confidence interval.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Coefficient {
    pub value: f64,
    /// Half the width of the interval. Infinite if there are no more points than coefficients.
    pub half: f64,
}

/// What least squares come to.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct LeastSquares {
    /// Each coefficient with its standard error.
    values: Vec<(f64, f64)>,
    /// How much larger the sum of squares is without each column.
    pub(super) losses: Vec<f64>,
    /// The sum of squares of the residuals.
    pub(super) rss: f64,
    pub(super) residuals: Vec<f64>,
}

/// Least squares by the modified Gram–Schmidt process (Å. Björck, "Numerical Methods for Least Squares Problems", SIAM 1996, section
/// 2.4). `None`: there are fewer points than columns, or a column is a combination of others.
pub(crate) fn least_squares(columns: &[Vec<f64>], y: &[f64]) -> Option<LeastSquares> {
    let (n, k) = (y.len(), columns.len());
    if n < k || columns.iter().any(|column| column.len() != n) {
        return None;
    }
    let mut q: Vec<Vec<f64>> = Vec::with_capacity(k);
    // Upper triangle: how each column is made of those before it.
    let mut r = vec![vec![0.0; k]; k];
    for (at, column) in columns.iter().enumerate() {
        let length = norm(column);
        let mut rest = column.clone();
        // Twice is enough.
        for _ in 0..2 {
            for (before, unit) in q.iter().enumerate() {
                let part = dot(unit, &rest);
                r[before][at] += part;
                subtract(&mut rest, unit, part);
            }
        }
        let own = norm(&rest);
        if own.is_nan() || own <= 1e-10 * length || length == 0.0 {
            return None;
        }
        r[at][at] = own;
        rest.iter_mut().for_each(|v| *v /= own);
        q.push(rest);
    }
    let mut residuals = y.to_vec();
    let mut along = vec![0.0; k];
    for (unit, along) in q.iter().zip(&mut along) {
        *along = dot(unit, &residuals);
        subtract(&mut residuals, unit, *along);
    }
    let rss = dot(&residuals, &residuals);
    let inverse = inverse(&r);
    let losses = inverse.iter().map(|row| dot(row, &along).powi(2) / dot(row, row)).collect();
    let freedom = (n - k) as f64;
    let values = inverse.iter().map(|row| {
        let variance = if n > k { rss / freedom * dot(row, row) } else { f64::INFINITY };
        (dot(row, &along), variance.sqrt())
    });
    Some(LeastSquares { values: values.collect(), losses, rss, residuals })
}

impl LeastSquares {
    /// The coefficients, in the order of the columns.
    pub(super) fn coefficients(&self) -> Vec<Coefficient> {
        let freedom = self.residuals.len() - self.values.len();
        let t = if freedom > 0 { t_quantile(0.05, freedom as f64) } else { f64::INFINITY };
        self.values.iter().map(|(value, error)| Coefficient { value: *value, half: t * error }).collect()
    }
}

/// Of an upper triangle.
fn inverse(r: &[Vec<f64>]) -> Vec<Vec<f64>> {
    let k = r.len();
    let column = |column: usize| {
        let mut x = vec![0.0; k];
        for row in (0..=column).rev() {
            let one = if row == column { 1.0 } else { 0.0 };
            let known: f64 = (row + 1..=column).map(|n| r[row][n] * x[n]).sum();
            x[row] = (one - known) / r[row][row];
        }
        x
    };
    let columns: Vec<Vec<f64>> = (0..k).map(column).collect();
    (0..k).map(|row| columns.iter().map(|column| column[row]).collect()).collect()
}

pub(super) fn dot(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(a, b)| a * b).sum()
}

pub(super) fn norm(a: &[f64]) -> f64 {
    dot(a, a).sqrt()
}

pub(super) fn subtract(from: &mut [f64], unit: &[f64], part: f64) {
    from.iter_mut().zip(unit).for_each(|(v, u)| *v -= part * u);
}

#[cfg(test)]
mod tests {
    use super::*;

    /// "Norris" of NIST's Statistical Reference Datasets, certified: slope 1.00211681802045 ± 0.000429796848199937 (standard
    /// deviation), intercept −0.262323073774029 ± 0.232818234301152, residual standard deviation 0.884796396144373.
    const NORRIS: [(f64, f64); 36] = [
        (0.2, 0.1),
        (337.4, 338.8),
        (118.2, 118.1),
        (884.6, 888.0),
        (10.1, 9.2),
        (226.5, 228.1),
        (666.3, 668.5),
        (996.3, 998.5),
        (448.6, 449.1),
        (777.0, 778.9),
        (558.2, 559.2),
        (0.4, 0.3),
        (0.6, 0.1),
        (775.5, 778.1),
        (666.9, 668.8),
        (338.0, 339.3),
        (447.5, 448.9),
        (11.6, 10.8),
        (556.0, 557.7),
        (228.1, 228.3),
        (995.8, 998.0),
        (887.6, 888.8),
        (120.2, 119.6),
        (0.3, 0.3),
        (0.3, 0.6),
        (556.8, 557.6),
        (339.1, 339.3),
        (887.2, 888.0),
        (999.0, 998.5),
        (779.0, 778.9),
        (11.1, 10.2),
        (118.3, 117.6),
        (229.2, 228.9),
        (669.1, 668.4),
        (448.9, 449.2),
        (0.5, 0.2),
    ];

    #[test]
    fn a_certified_line_comes_out_to_nine_digits() {
        let (x, y): (Vec<f64>, Vec<f64>) = NORRIS.into_iter().unzip();
        let fit = least_squares(&[vec![1.0; 36], x], &y).expect("a line");
        let near = |a: f64, b: f64| assert!((a / b - 1.0).abs() < 1e-9, "{a} for {b}");
        near(fit.coefficients()[1].value, 1.002_116_818_020_45);
        near(fit.coefficients()[0].value, -0.262_323_073_774_029);
        near((fit.rss / 34.0).sqrt(), 0.884_796_396_144_373);
        near(fit.coefficients()[1].half / t_quantile(0.05, 34.0), 0.000_429_796_848_199_937);
        near(fit.coefficients()[0].half / t_quantile(0.05, 34.0), 0.232_818_234_301_152);
    }

    #[test]
    fn what_no_points_can_tell_is_not_told() {
        let ones = vec![1.0; 3];
        assert_eq!(least_squares(&[ones.clone(), vec![2.0; 3]], &[1.0, 2.0, 3.0]), None);
        assert_eq!(least_squares(&[ones.clone(), vec![f64::NAN; 3]], &[1.0, 2.0, 3.0]), None);
        assert_eq!(least_squares(&[vec![1.0], vec![2.0]], &[1.0]), None);
        let through = least_squares(&[vec![1.0, 1.0], vec![0.0, 1.0]], &[1.0, 3.0]).expect("a line");
        assert!(through.coefficients().iter().all(|c| c.half.is_infinite() || c.half.is_nan()));
    }
}
