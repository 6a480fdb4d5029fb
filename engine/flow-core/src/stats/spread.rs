//! Whether groups of numbers scatter alike.

use super::{distributions::f_tail, median};

/// How likely groups that scatter alike are to look as unlike as these: the p-value of the test of M. B. Brown and A. B. Forsythe,
/// "Robust Tests for the Equality of Variances", Journal of the American Statistical Association 69 (1974), 364–367. `None` for fewer
/// than two groups of two numbers, or where nothing scatters.
pub fn spread_tail(groups: &[Vec<f64>]) -> Option<f64> {
    let from_median = |group: &Vec<f64>| {
        let middle = median(group.clone())?;
        (group.len() > 1).then(|| group.iter().map(|v| (v - middle).abs()).collect::<Vec<f64>>())
    };
    let groups = groups.iter().map(from_median).collect::<Option<Vec<_>>>().filter(|groups| groups.len() > 1)?;
    let mean = |group: &[f64]| group.iter().sum::<f64>() / group.len() as f64;
    let all = groups.concat();
    let (count, of_all) = (all.len() as f64, mean(&all));
    let between: f64 = groups.iter().map(|group| group.len() as f64 * (mean(group) - of_all).powi(2)).sum();
    let within: f64 = groups.iter().map(|group| group.iter().map(|v| (v - mean(group)).powi(2)).sum::<f64>()).sum();
    let (numerator, denominator) = (groups.len() as f64 - 1.0, count - groups.len() as f64);
    let f = (between / numerator) / (within / denominator);
    (!f.is_nan()).then(|| f_tail(f, numerator, denominator))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stats::noise;

    /// As SciPy's `levene(…, center='median')` has it.
    #[test]
    fn it_is_the_test_that_others_have() {
        let groups = [
            vec![8.88, 9.12, 9.04, 8.98, 9.00, 9.08, 9.01, 8.85, 9.06, 8.99],
            vec![8.88, 8.95, 9.29, 9.44, 9.15, 9.58, 8.36, 9.18, 8.67, 9.05],
            vec![8.95, 9.12, 8.95, 8.85, 9.03, 8.84, 9.07, 8.98, 8.86, 8.98],
        ];
        let p = spread_tail(&groups).unwrap();
        assert!((p - 0.002_431_505_967_249_681).abs() < 1e-9, "{p}");
        assert_eq!(spread_tail(&groups[..1]), None);
        assert_eq!(spread_tail(&[vec![1.0, 1.0], vec![2.0, 2.0]]), None);
    }

    #[test]
    fn groups_that_scatter_alike_differ_by_chance_alone() {
        let alarms = (0..1_000).filter(|seed| {
            let groups: Vec<Vec<f64>> = (0..4).map(|of| noise(4 * seed + of + 1, 70)).collect();
            spread_tail(&groups).is_some_and(|p| p < 0.05)
        });
        let alarms = alarms.count();
        assert!(alarms <= 60, "{alarms}");
        let told = (0..100).filter(|seed| {
            let wide = noise(2 * seed + 1, 70).iter().map(|v| 2.0 * v).collect();
            spread_tail(&[noise(2 * seed + 2, 70), wide]).is_some_and(|p| p < 0.05)
        });
        let told = told.count();
        assert!(told >= 95, "{told}");
    }
}
