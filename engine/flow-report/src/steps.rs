//! The jumps of a sweep, as a reader of its table sees them: neighbours whose difference stands out from those around
//! it. flow-core decides whether a sweep jumps at all. Height and place come from the table.

use flow_core::stats::{Jumps, choose, median};

use crate::bounds::{JUMP, SAME};

/// A jump from one point to the next.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Step {
    /// The position of the point before it.
    pub(crate) at: usize,
    /// The difference of the two points.
    pub(crate) by: f64,
    /// The same as a share of the point before it.
    pub(crate) share: f64,
}

/// Minimum share of a change of level that must lie between two points for them to be its place.
const SEEN: f64 = 0.5;
/// The scatter of differences is measured over this many points on each side.
const ABOUT: usize = 10;
/// Factor from the median of absolute values to the standard deviation of normal noise.
const DEVIATION: f64 = 1.4826;

/// The jumps of these points. None if flow-core finds neither a change of level nor an outlier.
pub(crate) fn steps(points: &[(f64, f64)], found: &Jumps) -> Vec<Step> {
    if found.jumps.is_empty() && found.outliers.is_empty() {
        return Vec::new();
    }
    let by: Vec<f64> = points.windows(2).map(|w| w[1].1 - w[0].1).collect();
    // The change of a smooth curve from one point to the next is not a jump.
    let curve = choose(points);
    let smooth = points.windows(2).map(|w| match &curve {
        Some(curve) => curve.best().at(w[1].0) - curve.best().at(w[0].0),
        None => 0.0,
    });
    let off: Vec<f64> = by.iter().zip(smooth).map(|(by, smooth)| by - smooth).collect();
    let sizes: Vec<f64> = off.iter().map(|off| off.abs()).collect();
    let scatter = |sizes: &[f64]| DEVIATION * median(sizes.to_vec()).unwrap_or(0.0);
    let of_all = scatter(&sizes);
    // Noise may grow along the sweep.
    let about = |at: usize| scatter(&sizes[at.saturating_sub(ABOUT)..(at + ABOUT + 1).min(sizes.len())]).max(of_all);
    let is_step = |at: &usize| {
        let (by, off) = (by[*at], off[*at]);
        let stands_out = off.abs() >= JUMP * about(*at) && off.abs() > SAME * points[*at].1.abs();
        let level = found.jumps.iter().any(|jump| jump.at == *at && off / jump.height >= SEEN);
        (stands_out || level) && by * off > 0.0
    };
    let step = |at: usize| Step { at, by: by[at], share: by[at] / points[at].1.abs() };
    (0..by.len()).filter(is_step).map(step).collect()
}

#[cfg(test)]
mod tests {
    use flow_core::stats::find_jumps;

    use super::*;

    fn found(y: impl Fn(f64) -> f64) -> Vec<(usize, f64)> {
        let noise = |n: u32| f64::from(n * 7919 % 101) / 101.0 - 0.5;
        let points: Vec<(f64, f64)> = (1..=60).map(|n| (f64::from(n), y(f64::from(n)) + 0.2 * noise(n))).collect();
        let steps = steps(&points, &find_jumps(&points).expect("enough points"));
        steps.iter().map(|step| (step.at + 1, step.by.round())).collect()
    }

    #[test]
    fn a_jump_is_where_the_table_has_it() {
        assert_eq!(found(|x| 10.0 + x + if x > 20.0 { 9.0 } else { 0.0 }), [(20, 10.0)]);
        // A single outlier is a fall and a rise.
        assert_eq!(found(|x| 10.0 + x - if x == 32.0 { 12.0 } else { 0.0 }), [(31, -11.0), (32, 13.0)]);
        assert_eq!(found(|x| 10.0 + x), []);
        assert_eq!(found(|x| 3.0 + 200.0 / x), [], "what falls ever less does not jump");
        let both = |x: f64| 3.0 + 200.0 / x + if x > 40.0 { 6.0 } else { 0.0 };
        assert_eq!(found(both), [(40, 6.0)]);
    }
}
