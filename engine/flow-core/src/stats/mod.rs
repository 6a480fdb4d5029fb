//! Statistics of measurements: which curve they are of, where they jump. Numbers in, numbers out; it knows no results and no
//! workflow.

mod distributions;
mod jumps;
mod least_squares;
mod models;
mod spread;

pub use distributions::{count_tail, f_tail, t_quantile, t_tail};
pub use jumps::{Jump, Jumps, Outlier, find_jumps};
pub use least_squares::Coefficient;
pub use models::{Choice, FittedModel, Model, choose};
pub use spread::spread_tail;

/// The mean of the middle two of an even number.
pub fn median(mut values: Vec<f64>) -> Option<f64> {
    values.sort_by(f64::total_cmp);
    let (low, high) = (values.get(values.len().saturating_sub(1) / 2)?, values.get(values.len() / 2)?);
    Some((low + high) / 2.0)
}

/// Normal noise of deviation 1, the same for the same seed.
#[cfg(test)]
fn noise(seed: u64, n: usize) -> Vec<f64> {
    let mut state = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1;
    let mut uniform = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 11) as f64 / (1_u64 << 53) as f64
    };
    // Small seeds have small numbers first.
    for _ in 0..8 {
        uniform();
    }
    (0..n)
        .map(|_| {
            let (a, b) = (1.0 - uniform(), uniform());
            (-2.0 * a.ln()).sqrt() * (std::f64::consts::TAU * b).cos()
        })
        .collect()
}
