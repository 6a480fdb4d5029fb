//! Equal jumps at the multiples of a number.

/// So many points apart are the multiples at which a staircase has its jumps.
pub(super) const STAIRS: usize = 3;

pub(super) struct Staircase {
    pub(super) multiple: f64,
    /// Positions of the first points after each.
    pub(super) places: Vec<usize>,
}

/// Equal steps right after, or right at, the multiples of each number that has two of them at least within the sweep.
pub(super) fn staircases(points: &[(f64, f64)]) -> Vec<Staircase> {
    let n = points.len();
    let spacing = points[1].0 - points[0].0;
    let even = points.windows(2).all(|w| ((w[1].0 - w[0].0) / spacing - 1.0).abs() < 1e-6);
    let (first, last) = (points[0].0, points[n - 1].0);
    if !even || points.iter().any(|p| p.0.fract() != 0.0 || p.0 < 0.0) {
        return Vec::new();
    }
    let mut all = Vec::new();
    let mut multiple = (STAIRS as f64 * spacing).ceil();
    while 2.0 * multiple <= last && all.len() < 2 * n {
        for after in [true, false] {
            let multiples =
                (1..).map(|k| f64::from(k) * multiple).take_while(|at| *at <= last).filter(|at| *at >= first);
            let place = |at: f64| points.partition_point(|p| if after { p.0 <= at } else { p.0 < at });
            let places: Vec<usize> =
                multiples.map(place).filter(|place| *place >= STAIRS && place + STAIRS <= n).collect();
            if places.len() >= 2 {
                all.push(Staircase { multiple, places });
            }
        }
        multiple += 1.0;
    }
    all
}

/// The number whose multiples are exactly at the jumps, given the positions after each jump. `None` if there is none.
/// Two places are not enough, because any two are at the multiples of some number.
pub(super) fn multiple(points: &[(f64, f64)], places: &[usize]) -> Option<f64> {
    let told = if places.len() > 2 { staircases(points) } else { Vec::new() };
    told.into_iter().filter(|stairs| stairs.places == places).map(|stairs| stairs.multiple).reduce(f64::max)
}
