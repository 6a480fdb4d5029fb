//! The little statistics that findings need. Numbers in, numbers out.

/// The middle value; the mean of the two in the middle.
pub(crate) fn median(values: &[f64]) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    match sorted.len() {
        0 => f64::NAN,
        n if n % 2 == 1 => sorted[n / 2],
        n => (sorted[n / 2 - 1] + sorted[n / 2]) / 2.0,
    }
}

/// Standard deviation as the median tells it: outliers do not count.
pub(crate) fn robust_sd(values: &[f64]) -> f64 {
    let middle = median(values);
    1.4826 * median(&values.iter().map(|v| (v - middle).abs()).collect::<Vec<_>>())
}

/// The two-sided p-value of the sign test: how likely chance alone is to share out `rises + falls` changes as unevenly, or more so.
/// Exact, by the binomial distribution; pairs without a change are left out. W. J. Dixon and A. M. Mood, "The Statistical Sign Test",
/// Journal of the American Statistical Association 41 (1946), 557–566.
pub(crate) fn sign_test(rises: usize, falls: usize) -> f64 {
    let n = (rises + falls) as f64;
    // The logarithm of the share of all orders that have exactly k of the rarer sign.
    let mut share = -n * std::f64::consts::LN_2;
    let mut tail = 0.0;
    for k in 0..=rises.min(falls) {
        tail += share.exp();
        share += ((n - k as f64) / (k as f64 + 1.0)).ln();
    }
    (2.0 * tail).min(1.0)
}

/// A straight line through points.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct LinearFit {
    pub(crate) intercept: f64,
    pub(crate) slope: f64,
    /// The share of the variance that it explains.
    pub(crate) r2: f64,
}

/// Least squares; `None` for fewer than three points, or if all stand at one place.
pub(crate) fn line(points: &[(f64, f64)]) -> Option<LinearFit> {
    let n = points.len() as f64;
    if points.len() < 3 {
        return None;
    }
    let (mx, my) = (points.iter().map(|p| p.0).sum::<f64>() / n, points.iter().map(|p| p.1).sum::<f64>() / n);
    let sxx: f64 = points.iter().map(|p| (p.0 - mx).powi(2)).sum();
    let sxy: f64 = points.iter().map(|p| (p.0 - mx) * (p.1 - my)).sum();
    let syy: f64 = points.iter().map(|p| (p.1 - my).powi(2)).sum();
    (sxx > 0.0 && syy > 0.0).then(|| {
        let slope = sxy / sxx;
        LinearFit { intercept: my - slope * mx, slope, r2: sxy * sxy / (sxx * syy) }
    })
}

/// A jump between two neighbours of an evenly spaced series.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Jump {
    /// The position before it.
    pub(crate) at: usize,
    /// How much the level rises there, beyond the slope.
    pub(crate) height: f64,
}

/// Rises that stand out of the noise and last. A single outlier is none: it does not last. A rise must exceed six robust
/// standard deviations of all steps, which in noise alone happens once in some hundred million steps.
pub(crate) fn jumps(points: &[(f64, f64)]) -> Vec<Jump> {
    if points.len() < 12 {
        return Vec::new();
    }
    let spacing = points[1].0 - points[0].0;
    let even = points.windows(2).all(|w| ((w[1].0 - w[0].0) / spacing - 1.0).abs() < 1e-6);
    if !even || spacing <= 0.0 {
        return Vec::new();
    }
    let steps: Vec<f64> = points.windows(2).map(|w| w[1].1 - w[0].1).collect();
    let slope = median(&steps);
    let scale = points.iter().map(|p| p.1.abs()).fold(0.0, f64::max);
    let noise = robust_sd(&steps).max(1e-9 * scale);
    let level = |from: usize, to: usize, at: usize| {
        let flat: Vec<f64> = (from..to).map(|j| points[j].1 - slope * (j as f64 - at as f64)).collect();
        median(&flat)
    };
    let mut found = Vec::new();
    for (at, step) in steps.iter().enumerate() {
        if step - slope <= 6.0 * noise || step - slope <= 0.02 * points[at].1.abs() {
            continue;
        }
        let before = level(at.saturating_sub(4), at + 1, at);
        let after = level(at + 1, (at + 6).min(points.len()), at);
        // Fewer than two points behind it cannot tell a jump from an outlier.
        if at + 2 < points.len() && at >= 1 && after - before > 4.0 * noise {
            found.push(Jump { at, height: after - before });
        }
    }
    found
}

/// The number whose multiples are exactly where the jumps are; `None` if there is no such number.
pub(crate) fn multiple_of(jumps: &[u64], range: (u64, u64)) -> Option<u64> {
    let gcd = |mut a: u64, mut b: u64| {
        while b > 0 {
            (a, b) = (b, a % b);
        }
        a
    };
    let common = jumps.iter().copied().reduce(gcd)?;
    // The first and last points have too few neighbours for a jump to be seen there.
    let all = (1..).map(|k| k * common).take_while(|x| x + 2 <= range.1).filter(|x| *x > range.0);
    let expected = all.count();
    (jumps.len() >= 2 && common > 1 && jumps.len() >= expected).then_some(common)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn noise(seed: u64, n: usize) -> Vec<f64> {
        // Sums of uniform numbers are near enough to normal ones: the test needs no more.
        let mut state = seed | 1;
        let mut uniform = || {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            (state >> 11) as f64 / (1_u64 << 53) as f64
        };
        (0..n).map(|_| (0..12).map(|_| uniform()).sum::<f64>() - 6.0).collect()
    }

    #[test]
    fn jumps_of_sixteen_are_found() {
        for seed in 1..20 {
            let noise = noise(seed * 7919, 70);
            let time = |x: usize| 20.0 + 1.5 * x as f64 + 12.0 * ((x - 1) / 16) as f64 + 0.5 * noise[x - 1];
            let points: Vec<_> = (1..=70).map(|x| (x as f64, time(x))).collect();
            let at: Vec<u64> = jumps(&points).iter().map(|j| points[j.at].0 as u64).collect();
            assert_eq!(at, [16, 32, 48, 64]);
            assert_eq!(multiple_of(&at, (1, 70)), Some(16));
        }
    }

    proptest! {
        #[test]
        fn noise_has_no_jumps(seed: u64, slope in 0.0..2.0, amount in 0.01..5.0) {
            let noise = noise(seed, 70);
            let points: Vec<_> = (0..70).map(|x| (x as f64 + 1.0, 30.0 + slope * x as f64 + amount * noise[x])).collect();
            prop_assert_eq!(jumps(&points), vec![]);
        }

        #[test]
        fn an_outlier_is_no_jump(seed: u64, at in 3_usize..66) {
            let noise = noise(seed, 70);
            let mut points: Vec<_> = (0..70).map(|x| (x as f64, 30.0 + x as f64 + noise[x])).collect();
            points[at].1 += 40.0;
            prop_assert_eq!(jumps(&points), vec![]);
        }
    }

    #[test]
    fn six_of_one_sign_are_no_chance_and_five_may_be() {
        let known = [((0, 0), 1.0), ((5, 0), 0.0625), ((0, 6), 0.03125), ((13, 1), 0.0018310546875), ((3, 4), 1.0)];
        for ((rises, falls), p) in known {
            assert!((sign_test(rises, falls) - p).abs() < 1e-12, "{rises} and {falls}: {}", sign_test(rises, falls));
        }
        assert!((sign_test(1000, 1000) - 1.0).abs() < 1e-9 && sign_test(2000, 0) < 1e-300);
    }

    #[test]
    fn a_line_is_fitted() {
        let fit = line(&[(1.0, 3.0), (2.0, 5.0), (3.0, 7.0)]).expect("a line");
        assert!((fit.slope - 2.0).abs() < 1e-9 && (fit.intercept - 1.0).abs() < 1e-9 && (fit.r2 - 1.0).abs() < 1e-9);
        assert_eq!(line(&[(1.0, 2.0), (1.0, 3.0), (1.0, 4.0)]), None);
    }
}
