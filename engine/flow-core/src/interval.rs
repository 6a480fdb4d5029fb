//! A number measured several times: its mean, and how sure that is.

use serde::Serialize;

/// A mean with its 95 % confidence interval.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Interval {
    pub mean: f64,
    /// Half the width of its confidence interval, by Student's t; none of one value, which says nothing of it.
    pub half: Option<f64>,
}

/// Student's t for 95 %, by degrees of freedom from 1.
const T: [f64; 15] =
    [12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.160, 2.145, 2.131];
/// And beyond.
const T_MANY: f64 = 2.04;

impl Interval {
    /// Over values that are independent of each other.
    pub fn over(values: impl IntoIterator<Item = f64>) -> Interval {
        let values: Vec<f64> = values.into_iter().collect();
        let n = values.len() as f64;
        let mean = values.iter().sum::<f64>() / n.max(1.0);
        let Some(freedom) = values.len().checked_sub(2) else { return Interval { mean, half: None } };
        let variance = values.iter().map(|v| (v - mean).powi(2)).sum::<f64>() / (n - 1.0);
        Interval { mean, half: Some(T.get(freedom).copied().unwrap_or(T_MANY) * (variance / n).sqrt()) }
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
