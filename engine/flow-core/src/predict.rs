//! What a point that has not run will take, from points that have: a curve along one number with an interval. Pure; knows
//! nothing of steps, and never fits more than the points say.

/// Relative error (as the deviation of a logarithm) of a point between two that were measured, and of one beyond them, before
/// anything is known of this curve: medians of published trainings, 10 and 21 % on average.
const PRIOR: (f64, f64) = (0.13, 0.26);
/// How many residuals the prior counts for.
const PRIOR_WEIGHT: f64 = 2.0;
/// Nine of ten lie within so many deviations.
const NINE_IN_TEN: f64 = 1.645;

/// How a quantity goes with the number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Curve {
    /// Straight between points.
    Any,
    /// The same, and it only grows: memory by batch.
    Grows,
    /// Time for each item, by batch: the time of an iteration is max(t0, α + β·b′), b′ the batch rounded up to 1, 8 or 16.
    PerItem,
}

/// A prediction. Nine of ten are expected between `low` and `high`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Predicted {
    /// The most likely value.
    pub value: f64,
    /// Lower end.
    pub low: f64,
    /// Upper end.
    pub high: f64,
    /// Points that it rests on.
    pub points: u32,
    /// It lies beyond them.
    pub beyond: bool,
    /// It lies more than twice as far as the farthest: not to be relied on.
    pub far: bool,
}

/// A curve through what was measured.
#[derive(Clone, Debug)]
pub struct Fit {
    curve: Curve,
    /// In order, one of each number; of [`Curve::PerItem`] the time of an iteration.
    points: Vec<(f64, f64)>,
    /// A batch is rounded up to this.
    step: f64,
    /// The least of their values.
    least: f64,
    /// Through all of them.
    line: Line,
    /// Of the logarithms of what each point is to what the others say of it: the sum of squares, and how many.
    residuals: (f64, usize),
}

impl Fit {
    /// `None` without a point: two numbers, finite and above 0.
    pub fn of(curve: Curve, measured: &[(f64, f64)]) -> Option<Fit> {
        let usable = |&&(x, y): &&(f64, f64)| x.is_finite() && y.is_finite() && x > 0.0 && y > 0.0;
        let per_iteration = |x: f64| if curve == Curve::PerItem { x } else { 1.0 };
        let points = merge(measured.iter().filter(usable).map(|&(x, y)| (x, y * per_iteration(x))).collect());
        let steps: &[f64] = if curve == Curve::PerItem { &[1.0, 8.0, 16.0] } else { &[0.0] };
        let fits = steps.iter().map(|&step| (step, leave_one_out(curve, &points, step)));
        let (step, residuals) = fits.min_by(|(_, a), (_, b)| a.0.total_cmp(&b.0))?;
        let (least, line) = (least(&points), Line::through(&points, step));
        (!points.is_empty()).then_some(Fit { curve, points, step, least, line, residuals })
    }

    /// The value at a number; `None` from a single other one. Asked of every instance of a sweep, it does not look at every point.
    pub fn at(&self, at: f64) -> Option<Predicted> {
        let Fit { curve, points, step, least, line, residuals: (squares, residuals) } = self;
        let (first, last) = (points[0].0, points[points.len() - 1].0);
        let known = points.binary_search_by(|(x, _)| x.total_cmp(&at)).is_ok();
        if !(at.is_finite() && at > 0.0) || points.len() == 1 && !known {
            return None;
        }
        let beyond = at < first || at > last;
        let value =
            at_point(*curve, points, *least, *step, || *line, at) / if *curve == Curve::PerItem { at } else { 1.0 };
        let prior = if beyond { PRIOR.1 } else { PRIOR.0 };
        let variance = (PRIOR_WEIGHT * prior * prior + squares) / (PRIOR_WEIGHT + *residuals as f64);
        // What was measured itself is known as well as it repeats.
        let deviation = if known { variance.sqrt() / 4.0 } else { variance.sqrt() };
        let factor = (NINE_IN_TEN * deviation).exp();
        let far = at > 2.0 * last || at < first / 2.0;
        Some(Predicted { value, low: value / factor, high: value * factor, points: points.len() as u32, beyond, far })
    }
}

/// Points of one number become their mean; in order.
fn merge(mut points: Vec<(f64, f64)>) -> Vec<(f64, f64)> {
    points.sort_by(|a, b| a.0.total_cmp(&b.0));
    let mean = |same: &[(f64, f64)]| (same[0].0, same.iter().map(|p| p.1).sum::<f64>() / same.len() as f64);
    points.chunk_by(|a, b| a.0 == b.0).map(mean).collect()
}

/// The sum of squares of the logarithms of what each point is to what the others say of it, and how many these are.
fn leave_one_out(curve: Curve, points: &[(f64, f64)], step: f64) -> (f64, usize) {
    if points.len() < 3 {
        return (0.0, 0);
    }
    let mut values: Vec<f64> = points.iter().map(|point| point.1).collect();
    values.sort_by(f64::total_cmp);
    let error = |i: usize| {
        let (x, y) = points[i];
        let least = if y == values[0] { values[1] } else { values[0] };
        let said = |others: &[_]| at_point(curve, others, least, step, || Line::through(others, step), x);
        // Between its neighbours the others do not matter.
        let said = match points.get(i.wrapping_sub(1)..i + 2) {
            Some(&[before, _, after]) => said(&[before, after]),
            _ => said(if i == 0 { &points[1..] } else { &points[..i] }),
        };
        (y / said).ln()
    };
    ((0..points.len()).map(|i| error(i).powi(2)).sum(), points.len())
}

fn least(points: &[(f64, f64)]) -> f64 {
    points.iter().map(|p| p.1).fold(f64::INFINITY, f64::min)
}

/// Straight between the neighbours, else along the line through all; never below the least where it only grows.
fn at_point(curve: Curve, points: &[(f64, f64)], least: f64, step: f64, line: impl FnOnce() -> Line, at: f64) -> f64 {
    let x = round(at, step);
    let after = points.partition_point(|point| point.0 < at).max(1);
    let value = match points.get(after - 1..=after) {
        Some(&[a, b]) if a.0 <= at => {
            let (from, to) = (round(a.0, step), round(b.0, step));
            if to > from { a.1 + (b.1 - a.1) * (x - from) / (to - from) } else { (a.1 + b.1) / 2.0 }
        }
        _ => line().at(x),
    };
    if curve == Curve::Any { value.max(least / 10.0) } else { value.max(least) }
}

fn round(x: f64, step: f64) -> f64 {
    if step > 0.0 { (x / step).ceil() * step } else { x }
}

/// Least squares.
#[derive(Clone, Copy, Debug)]
struct Line {
    mean: (f64, f64),
    slope: f64,
}

impl Line {
    fn through(points: &[(f64, f64)], step: f64) -> Line {
        let n = points.len() as f64;
        let mean = points.iter().fold((0.0, 0.0), |(x, y), p| (x + round(p.0, step) / n, y + p.1 / n));
        let (mut xx, mut xy) = (0.0, 0.0);
        for point in points {
            xx += (round(point.0, step) - mean.0).powi(2);
            xy += (round(point.0, step) - mean.0) * (point.1 - mean.1);
        }
        Line { mean, slope: if xx > 0.0 { xy / xx } else { 0.0 } }
    }

    fn at(self, at: f64) -> f64 {
        self.mean.1 + self.slope * (at - self.mean.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn along(curve: Curve, measured: &[(f64, f64)], at: f64) -> Option<Predicted> {
        Fit::of(curve, measured)?.at(at)
    }

    /// Seconds an epoch by batch, published: resnet18.
    const EPOCHS: [(f64, f64); 6] =
        [(512.0, 15.5), (256.0, 16.3), (128.0, 18.2), (64.0, 21.9), (32.0, 29.5), (16.0, 46.4)];

    #[test]
    fn published_epochs_are_predicted_from_their_neighbours() {
        for (left_out, error) in [(32.0, 0.05), (64.0, 0.05), (128.0, 0.05), (256.0, 0.05)] {
            let others: Vec<_> = EPOCHS.into_iter().filter(|point| point.0 != left_out).collect();
            let is = EPOCHS.iter().find(|point| point.0 == left_out).unwrap().1;
            let predicted = along(Curve::PerItem, &others, left_out).unwrap();
            assert!((predicted.value / is - 1.0).abs() < error, "{left_out}: {predicted:?} for {is}");
            assert!(predicted.low < is && is < predicted.high && !predicted.beyond);
        }
        // Double the batch is beyond what was measured, four times is too far to say.
        let small = &EPOCHS[3..];
        let [double, four] = [128.0, 256.0].map(|at| along(Curve::PerItem, small, at).unwrap());
        assert!((double.value / 18.2 - 1.0).abs() < 0.1 && double.beyond && !double.far, "{double:?}");
        assert!(four.far && four.high / four.low > 1.5);
    }

    #[test]
    fn little_is_said_of_little() {
        assert_eq!(along(Curve::Any, &[(16.0, 2.0)], 32.0), None);
        assert_eq!(along(Curve::Any, &[], 32.0), None);
        assert_eq!(along(Curve::Any, &[(16.0, 2.0), (32.0, f64::NAN)], 32.0), None);
        let known = along(Curve::Any, &[(16.0, 2.0), (16.0, 4.0)], 16.0).unwrap();
        assert_eq!((known.value, known.points), (3.0, 1));
        let memory = along(Curve::Grows, &[(16.0, 3.0), (32.0, 4.0)], 1.0).unwrap();
        assert_eq!((memory.value, memory.beyond, memory.far), (3.0, true, true));
    }

    #[test]
    fn a_batch_that_is_rounded_up_costs_as_much_as_the_next() {
        // 0.01 s for each begun eight.
        let time = |b: f64| (b / 8.0_f64).ceil() * 0.01 / b;
        let seen: Vec<_> = [8.0, 12.0, 20.0, 32.0, 48.0, 60.0].map(|b| (b, time(b))).to_vec();
        let predicted = along(Curve::PerItem, &seen, 33.0).unwrap();
        assert!((predicted.value / time(33.0) - 1.0).abs() < 1e-6, "{predicted:?}");
    }
}
