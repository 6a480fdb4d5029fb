//! A number measured several times: its mean and its uncertainty.

use serde::Serialize;

use crate::stats::t_quantile;

/// A mean with its 95% confidence interval.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Interval {
    pub mean: f64,
    /// Half the width of its confidence interval, by Student's t. `None` for one value.
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
        let t = t_quantile(0.05 / many.max(1) as f64, n - 1.0);
        Interval { mean, half: Some(t * (variance / n).sqrt()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn more_values_say_more() {
        let five = Interval::over([1.0, 2.0, 3.0, 4.0, 5.0]);
        assert_eq!(five.mean, 3.0);
        assert!(five.half.is_some_and(|half| (half - 1.963).abs() < 1e-3), "{five:?}");
        assert_eq!(Interval::over([7.0]), Interval { mean: 7.0, half: None });
        assert_eq!(Interval::over([]), Interval::default());
    }
}
