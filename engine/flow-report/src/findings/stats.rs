//! Statistics for findings. Numbers in, numbers out.

/// The two-sided p-value of the sign test: the probability that chance splits `rises + falls` changes at least as
/// unevenly. It is exact, by the binomial distribution; pairs without a change are left out. W. J. Dixon and A. M.
/// Mood, "The Statistical Sign Test", Journal of the American Statistical Association 41 (1946), 557–566.
pub(crate) fn sign_test(rises: usize, falls: usize) -> f64 {
    let n = (rises + falls) as f64;
    // The logarithm of the share of orders that have exactly k of the rarer sign.
    let mut share = -n * std::f64::consts::LN_2;
    let mut tail = 0.0;
    for k in 0..=rises.min(falls) {
        tail += share.exp();
        share += ((n - k as f64) / (k as f64 + 1.0)).ln();
    }
    (2.0 * tail).min(1.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn six_of_one_sign_are_no_chance_and_five_may_be() {
        let known = [((0, 0), 1.0), ((5, 0), 0.0625), ((0, 6), 0.03125), ((13, 1), 0.0018310546875), ((3, 4), 1.0)];
        for ((rises, falls), p) in known {
            assert!((sign_test(rises, falls) - p).abs() < 1e-12, "{rises} and {falls}: {}", sign_test(rises, falls));
        }
        assert!((sign_test(1000, 1000) - 1.0).abs() < 1e-9 && sign_test(2000, 0) < 1e-300);
    }
}
