//! Student's t, Fisher's F, and counts of independent events: tails and quantiles. Numbers in, numbers out.

use statrs::function::beta::checked_beta_reg;

/// The probability that F with these degrees of freedom exceeds `f`: the p-value of a comparison of variances. 1 if the degrees of
/// freedom are not positive.
pub fn f_tail(f: f64, numerator: f64, denominator: f64) -> f64 {
    if f <= 0.0 || !f.is_finite() {
        return if f > 0.0 { 0.0 } else { 1.0 };
    }
    let share = denominator / (denominator + numerator * f);
    checked_beta_reg(denominator / 2.0, numerator / 2.0, share).unwrap_or(1.0)
}

/// The probability that Student's t is farther from zero than `t`, on either side.
pub fn t_tail(t: f64, freedom: f64) -> f64 {
    f_tail(t * t, 1.0, freedom)
}

/// The t that Student's t exceeds, on either side, with this probability: 2.228 for 0.05 and ten degrees of freedom. By bisection,
/// because the inverse that `statrs` has is wrong by a factor of two for one degree of freedom and a probability of 1e-8.
pub fn t_quantile(tail: f64, freedom: f64) -> f64 {
    let (mut low, mut high) = (0.0, 1.0);
    while t_tail(high, freedom) > tail && high < 1e12 {
        (low, high) = (high, 2.0 * high);
    }
    for _ in 0..100 {
        let middle = f64::midpoint(low, high);
        if middle <= low || middle >= high {
            break;
        }
        (low, high) = if t_tail(middle, freedom) > tail { (middle, high) } else { (low, middle) };
    }
    f64::midpoint(low, high)
}

/// The probability that at least so many of these independent events happen, each with its own chance.
pub fn count_tail(chances: &[f64], at_least: usize) -> f64 {
    // The probability of each count, with one more event in each turn.
    let mut counts = vec![1.0];
    for chance in chances {
        let with = |n: usize| counts.get(n).copied().unwrap_or(0.0);
        counts = (0..=counts.len())
            .map(|n| with(n) * (1.0 - chance) + n.checked_sub(1).map_or(0.0, with) * chance)
            .collect();
    }
    counts.iter().skip(at_least).sum::<f64>().min(1.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_those_of_the_tables() {
        let known = [(1.0, 12.706), (2.0, 4.303), (10.0, 2.228), (15.0, 2.131), (30.0, 2.042), (1e6, 1.960)];
        for (freedom, t) in known {
            assert!((t_quantile(0.05, freedom) - t).abs() < 6e-4, "{freedom}: {}", t_quantile(0.05, freedom));
        }
        assert!((t_quantile(0.01, 5.0) - 4.032).abs() < 6e-4);
        // One degree of freedom has a closed form, also far out.
        for tail in [0.5, 0.05, 1e-8] {
            let t = 1.0 / (std::f64::consts::FRAC_PI_2 * tail).tan();
            assert!((t_quantile(tail, 1.0) / t - 1.0).abs() < 1e-9, "{tail}: {}", t_quantile(tail, 1.0));
        }
        assert!(t_quantile(0.05, 0.0) > 1e11);
    }

    #[test]
    fn tails_are_those_of_the_tables() {
        for (f, a, b, p) in
            [(4.965, 1.0, 10.0, 0.05), (3.098, 3.0, 20.0, 0.05), (10.04, 1.0, 10.0, 0.01), (0.0, 1.0, 1.0, 1.0)]
        {
            assert!((f_tail(f, a, b) - p).abs() < 1e-4, "F({a}, {b}) = {f}: {}", f_tail(f, a, b));
        }
        assert!(f_tail(1e9, 2.0, 60.0) < 1e-100 && f_tail(f64::INFINITY, 1.0, 1.0) == 0.0);
        assert_eq!((f_tail(f64::NAN, 1.0, 1.0), f_tail(2.0, 1.0, 0.0)), (1.0, 1.0));
    }
}
