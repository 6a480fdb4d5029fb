//! A number measured several times: its mean and its uncertainty.

use serde::Serialize;

/// A mean with its 95% confidence interval.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Interval {
    pub mean: f64,
    /// Half the width of its confidence interval, by Student's t; `None` for a single value, which shows no spread.
    pub half: Option<f64>,
}

impl Interval {
    /// For independent values.
    pub fn over(values: impl IntoIterator<Item = f64>) -> Interval {
        Self::of_many(values, 1)
    }

    /// The same as one of several intervals: wider, so that all of them hold together with at least 95% (Bonferroni).
    pub fn of_many(values: impl IntoIterator<Item = f64>, many: usize) -> Interval {
        let values: Vec<f64> = values.into_iter().collect();
        let n = values.len() as f64;
        let mean = values.iter().sum::<f64>() / n.max(1.0);
        if values.len() < 2 {
            return Interval { mean, half: None };
        }
        let variance = values.iter().map(|v| (v - mean).powi(2)).sum::<f64>() / (n - 1.0);
        Interval {
            mean,
            half: Some(student(0.05 / many.max(1) as f64, values.len() as u32 - 1) * (variance / n).sqrt()),
        }
    }
}

/// The two-sided quantile of Student's t, exceeded in absolute value with probability `alpha`. `freedom` is at least 1.
/// By bisection of the sums for whole degrees: Abramowitz and Stegun, Handbook of Mathematical Functions, 26.7.3 and
/// 26.7.4.
pub(crate) fn student(alpha: f64, freedom: u32) -> f64 {
    let within = |angle: f64| {
        let (sin, cos) = angle.sin_cos();
        let odd = freedom % 2 == 1;
        let (mut term, mut sum) = (if odd { cos } else { 1.0 }, 0.0);
        for n in (if odd { 3..freedom + 2 } else { 2..freedom + 2 }).step_by(2) {
            sum += term;
            term *= f64::from(n - 1) / f64::from(n) * cos * cos;
        }
        if odd { (angle + sin * sum) * std::f64::consts::FRAC_2_PI } else { sin * sum }
    };
    let (mut low, mut high) = (0.0, std::f64::consts::FRAC_PI_2);
    for _ in 0..60 {
        let middle = f64::midpoint(low, high);
        if within(middle) < 1.0 - alpha { low = middle } else { high = middle }
    }
    f64::from(freedom).sqrt() * low.tan()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn students_t_is_that_of_the_tables() {
        let known = [(0.05, 1, 12.706), (0.05, 2, 4.303), (0.05, 9, 2.262), (0.01, 4, 4.604), (0.01, 3, 5.841)];
        for (alpha, freedom, t) in known {
            assert!((student(alpha, freedom) - t).abs() < 1e-3, "{alpha}, {freedom}: {}", student(alpha, freedom));
        }
        assert!((student(0.05, 100_000) - 1.960).abs() < 1e-3);
    }

    #[test]
    fn more_values_say_more() {
        let five = Interval::over([1.0, 2.0, 3.0, 4.0, 5.0]);
        assert_eq!(five.mean, 3.0);
        assert!(five.half.is_some_and(|half| (half - 1.963).abs() < 1e-3), "{five:?}");
        assert_eq!(Interval::over([7.0]), Interval { mean: 7.0, half: None });
        assert_eq!(Interval::over([]), Interval::default());
    }
}
