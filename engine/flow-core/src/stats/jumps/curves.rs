//! Curves without jumps, against which jumps are held.

use crate::stats::least_squares::least_squares;

/// Degrees of the curves that are polynomials,
const POWERS: [i32; 3] = [1, 2, 3];
/// and of how many pieces those are that are cubic splines: as many as the sweep has points for.
const PIECES: [usize; 4] = [4, 8, 12, 16];
/// The cycle of a wave has so many points at least.
const CYCLE: f64 = 5.0;

/// A curve without jumps.
pub(super) struct Smooth {
    pub(super) columns: Vec<Vec<f64>>,
    /// How often a number was looked for, of which the columns are made.
    pub(super) searches: usize,
}

/// The curves. Polynomials of the places from −1 to 1. If all places are above 0, a hyperbola and a logarithm, each
/// with a line. Splines whose pieces have more points than `least`, and a wave.
pub(super) fn curves(points: &[(f64, f64)], x: &[f64], least: usize) -> Vec<Smooth> {
    let n = x.len();
    let power = |power: i32| x.iter().map(|x| x.powi(power)).collect::<Vec<f64>>();
    let mut all: Vec<Vec<Vec<f64>>> = POWERS.iter().map(|degree| (0..=*degree).map(power).collect()).collect();
    let positive = points.iter().all(|(x, _)| *x > 0.0);
    for bent in [|x: f64| 1.0 / x, f64::ln].into_iter().filter(|_| positive) {
        all.push(vec![power(0), power(1), points.iter().map(|(x, _)| bent(*x)).collect()]);
    }
    for pieces in PIECES.into_iter().filter(|pieces| pieces * (least + 1) <= n) {
        let at = |i: usize| (i * pieces) as f64 / (n - 1) as f64;
        let column = |first: usize| (0..n).map(|i| b_spline(at(i) + 3.0 - first as f64)).collect();
        all.push((0..pieces + 3).map(column).collect());
    }
    let mut all: Vec<Smooth> = all.into_iter().map(|columns| Smooth { columns, searches: 0 }).collect();
    all.extend(wave(points, x));
    all
}

/// The cubic B-spline whose knots are 0, 1, 2, 3 and 4.
fn b_spline(at: f64) -> f64 {
    let over = |knot: f64| (at - knot).max(0.0).powi(3);
    if at >= 4.0 { 0.0 } else { (over(0.0) - 4.0 * over(1.0) + 6.0 * over(2.0) - 4.0 * over(3.0)) / 6.0 }
}

/// A line, and of all waves the one that with it says most: M. Zechmeister and M. Kürster, "The Generalised Lomb–Scargle Periodogram",
/// Astronomy & Astrophysics 496 (2009), 577–584.
fn wave(points: &[(f64, f64)], x: &[f64]) -> Option<Smooth> {
    let y: Vec<f64> = points.iter().map(|p| p.1).collect();
    let columns = |cycles: f64| {
        let of = |part: fn(f64) -> f64| x.iter().map(|x| part(std::f64::consts::PI * cycles * x)).collect();
        vec![vec![1.0; x.len()], x.to_vec(), of(f64::cos), of(f64::sin)]
    };
    let best = |cycles: &mut dyn Iterator<Item = f64>| {
        let left = cycles.filter_map(|cycles| Some((least_squares(&columns(cycles), &y)?.rss, cycles)));
        left.min_by(|a, b| a.0.total_cmp(&b.0)).map(|(_, cycles)| cycles)
    };
    let most = x.len() as f64 / CYCLE;
    let near = best(&mut (5..).map(|tenths| f64::from(tenths) / 10.0).take_while(|cycles| *cycles <= most))?;
    let cycles = best(&mut (-5..=5).map(|fiftieths| near + f64::from(fiftieths) / 50.0))?;
    Some(Smooth { columns: columns(cycles), searches: 1 })
}
