//! Student's t, Fisher's F, and counts of independent events: tails and quantiles. Numbers in, numbers out.

/// How likely an F of these degrees of freedom is to be larger: the p-value of a comparison of variances.
pub fn f_tail(f: f64, numerator: f64, denominator: f64) -> f64 {
    if f <= 0.0 || !f.is_finite() {
        return if f > 0.0 { 0.0 } else { 1.0 };
    }
    incomplete_beta(denominator / (denominator + numerator * f), denominator / 2.0, numerator / 2.0)
}

/// How likely a t of so many degrees of freedom is to be farther from zero, on either side.
pub fn t_tail(t: f64, freedom: f64) -> f64 {
    f_tail(t * t, 1.0, freedom)
}

/// The t that one of that share is beyond, on either side: 2.228 for 0.05 and ten degrees of freedom.
pub fn t_quantile(tail: f64, freedom: f64) -> f64 {
    let (mut low, mut high) = (0.0, 1.0);
    while t_tail(high, freedom) > tail && high < 1e12 {
        (low, high) = (high, 2.0 * high);
    }
    for _ in 0..100 {
        let middle = (low + high) / 2.0;
        (low, high) = if t_tail(middle, freedom) > tail { (middle, high) } else { (low, middle) };
    }
    (low + high) / 2.0
}

/// How likely so many or more of these independent events are to happen, each with its own chance.
pub fn count_tail(chances: &[f64], at_least: usize) -> f64 {
    // How likely each count is, taking in one event after the other.
    let mut counts = vec![1.0];
    for chance in chances {
        let with = |n: usize| counts.get(n).copied().unwrap_or(0.0);
        counts = (0..=counts.len())
            .map(|n| with(n) * (1.0 - chance) + n.checked_sub(1).map_or(0.0, with) * chance)
            .collect();
    }
    counts.iter().skip(at_least).sum::<f64>().min(1.0)
}

/// The regularised incomplete beta function, by the continued fraction of W. H. Press et al., "Numerical Recipes", 3rd edition
/// (2007), section 6.4.
fn incomplete_beta(x: f64, a: f64, b: f64) -> f64 {
    if x <= 0.0 || x >= 1.0 {
        return x.clamp(0.0, 1.0);
    }
    // The fraction converges quickly on one side; the other follows by symmetry.
    if x > (a + 1.0) / (a + b + 2.0) {
        return 1.0 - incomplete_beta(1.0 - x, b, a);
    }
    let front = (ln_gamma(a + b) - ln_gamma(a) - ln_gamma(b) + a * x.ln() + b * (1.0 - x).ln()).exp();
    let away_from_zero = |v: f64| if v.abs() < 1e-300 { 1e-300 } else { v };
    let mut c = 1.0;
    let mut d = 1.0 / away_from_zero(1.0 - (a + b) * x / (a + 1.0));
    let mut fraction = d;
    for m in 1..500 {
        let m = f64::from(m);
        let even = m * (b - m) * x / ((a + 2.0 * m - 1.0) * (a + 2.0 * m));
        let odd = -(a + m) * (a + b + m) * x / ((a + 2.0 * m) * (a + 2.0 * m + 1.0));
        let mut factor = 1.0;
        for term in [even, odd] {
            d = 1.0 / away_from_zero(1.0 + term * d);
            c = away_from_zero(1.0 + term / c);
            factor = d * c;
            fraction *= factor;
        }
        if (factor - 1.0).abs() < 1e-15 {
            break;
        }
    }
    front * fraction / a
}

/// The logarithm of the gamma function above zero: C. Lanczos, "A Precision Approximation of the Gamma Function", SIAM Journal on
/// Numerical Analysis B 1 (1964), 86–96.
fn ln_gamma(x: f64) -> f64 {
    const COEFFICIENTS: [f64; 6] = [
        76.180_091_729_471_46,
        -86.505_320_329_416_77,
        24.014_098_240_830_91,
        -1.231_739_572_450_155,
        0.001_208_650_973_866_179,
        -0.000_005_395_239_384_953,
    ];
    let sum: f64 = (1..).zip(COEFFICIENTS).map(|(n, c)| c / (x + f64::from(n))).sum();
    (x + 0.5) * (x + 5.5).ln() - (x + 5.5) + (2.506_628_274_631_000_5 * (1.000_000_000_190_015 + sum) / x).ln()
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
    }

    #[test]
    fn tails_are_those_of_the_tables() {
        for (f, a, b, p) in
            [(4.965, 1.0, 10.0, 0.05), (3.098, 3.0, 20.0, 0.05), (10.04, 1.0, 10.0, 0.01), (0.0, 1.0, 1.0, 1.0)]
        {
            assert!((f_tail(f, a, b) - p).abs() < 1e-4, "F({a}, {b}) = {f}: {}", f_tail(f, a, b));
        }
        assert!(f_tail(1e9, 2.0, 60.0) < 1e-100 && f_tail(f64::INFINITY, 1.0, 1.0) == 0.0);
    }
}
