//! Chooses a curve through points: a line through zero, a line, a hyperbola, a curve that saturates, a line with one
//! break, a parabola or a cubic. Numbers in, a choice with its reasons out.
//!
//! The criterion is the corrected one of Akaike (C. M. Hurvich and C.-L. Tsai, "Regression and Time Series Model
//! Selection in Small Samples", Biometrika 76 (1989), 297–307). Among the models within two of the minimum, flow
//! chooses the one with the fewest parameters. A difference of two hardly supports the richer model (K. P. Burnham and
//! D. R. Anderson, "Model Selection and Multimodel Inference", 2nd ed., Springer 2002, section 2.6).

use serde::{Deserialize, Serialize};

use super::distributions::f_tail;
use super::least_squares::{Coefficient, LeastSquares, least_squares};

/// A curve, the simplest first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Model {
    /// y = b x.
    Proportional,
    /// y = a + b x.
    Affine,
    /// y = a + b / x: a fixed part and one that `x` shares out. An epoch's time over the batch size is what each image takes and what
    /// each iteration takes besides, of which there are the fewer the larger the batch is.
    Inverse,
    /// y = a + b x / (x + k): it begins at a and goes towards a + b, half of the way at k. So a GPU's power or load over the batch
    /// size, which fills the GPU more and more.
    Saturating,
    /// Two straight pieces that meet: y = a + b min(x, k) + c max(0, x − k).
    Broken,
    /// y = a + b x + c x².
    Quadratic,
    /// y = a + b x + c x² + d x³.
    Cubic,
}

impl Model {
    /// All, the simplest first.
    pub const ALL: [Model; 7] = [
        Model::Proportional,
        Model::Affine,
        Model::Inverse,
        Model::Saturating,
        Model::Broken,
        Model::Quadratic,
        Model::Cubic,
    ];

    /// How many coefficients it has, the place `k` counted.
    pub fn parameters(self) -> usize {
        match self {
            Model::Proportional => 1,
            Model::Affine | Model::Inverse => 2,
            Model::Saturating | Model::Quadratic => 3,
            Model::Broken | Model::Cubic => 4,
        }
    }

    fn columns(self, x: &[f64], knot: f64) -> Vec<Vec<f64>> {
        let power = |p: i32| x.iter().map(|x| x.powi(p)).collect::<Vec<f64>>();
        match self {
            Model::Proportional => vec![power(1)],
            Model::Affine => vec![power(0), power(1)],
            Model::Inverse => vec![power(0), power(-1)],
            Model::Saturating => vec![power(0), x.iter().map(|x| x / (x + knot)).collect()],
            Model::Broken => {
                let piece = |f: fn(f64, f64) -> f64| x.iter().map(|x| f(*x, knot)).collect();
                vec![power(0), piece(f64::min), piece(|x, knot| (x - knot).max(0.0))]
            }
            Model::Quadratic => vec![power(0), power(1), power(2)],
            Model::Cubic => vec![power(0), power(1), power(2), power(3)],
        }
    }
}

/// One model through the points.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct FittedModel {
    pub model: Model,
    /// The constant first, then by power; of [`Model::Broken`] the constant and the slopes before and after the break. Intervals
    /// are as if `knot` were known.
    pub coefficients: Vec<Coefficient>,
    /// The place of the break, or the half-way place of a curve that saturates.
    pub knot: Option<f64>,
    /// The share of the variance about the mean that it explains; of a line through zero too, where it can be below 0.
    pub r2: f64,
    /// The same for as many points less parameters.
    pub adjusted_r2: f64,
    /// The corrected criterion of Akaike, less is better; only differences mean something.
    pub aicc: f64,
    rss: f64,
}

impl FittedModel {
    /// Its value at `x`.
    pub fn at(&self, x: f64) -> f64 {
        let columns = self.model.columns(&[x], self.knot.unwrap_or(0.0));
        columns.iter().zip(&self.coefficients).map(|(column, c)| column[0] * c.value).sum()
    }
}

/// What models come to.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Choice {
    /// Those that there are points enough for, the simplest first.
    pub fits: Vec<FittedModel>,
    /// The position of the one that suffices.
    pub chosen: usize,
    /// Errors count relative to what was measured: it scatters in proportion, as times over many batch sizes do.
    #[serde(default)]
    pub relative: bool,
    points: usize,
}

/// An AICc that is less by this much counts.
const NOTABLE: f64 = 2.0;
/// One that is less by this much leaves the other without support.
const DECISIVE: f64 = 10.0;
/// A constant that chance makes as large less often than this is one.
const BY_CHANCE: f64 = 0.05;

/// Fits every model that has at least two points more than parameters. `None`: fewer than four points, one that is not finite, or all
/// at one place.
pub fn choose(points: &[(f64, f64)]) -> Option<Choice> {
    let usable = points.iter().all(|(x, y)| x.is_finite() && y.is_finite());
    if points.len() < 4 || !usable {
        return None;
    }
    let mut points = points.to_vec();
    points.sort_by(|a, b| a.0.total_cmp(&b.0));
    let equal = Choice::through(&points, false);
    let in_proportion = points.iter().all(|(_, y)| *y > 0.0).then(|| Choice::through(&points, true)).flatten();
    let choice = match (equal, in_proportion) {
        (Some(equal), Some(other)) if other.scatters_in_proportion(&equal) => other,
        (equal, other) => equal.or(other)?,
    };
    choice.of(Model::Affine).is_some().then_some(choice)
}

impl Choice {
    /// Of all curves whose criterion is within two of the least, the one with the fewest parameters.
    fn through(points: &[(f64, f64)], relative: bool) -> Option<Choice> {
        let weigh: fn(f64) -> f64 = if relative { |y| 1.0 / y } else { |_| 1.0 };
        let fits = Model::ALL.into_iter().filter_map(|model| fit(model, points, weigh)).collect();
        let mut choice = Choice { fits, chosen: 0, relative, points: points.len() };
        let least = choice.min_criterion();
        let close = choice.possible().filter(|(_, fit)| fit.aicc <= least + NOTABLE);
        let order = |a: &FittedModel, b: &FittedModel| {
            a.model.parameters().cmp(&b.model.parameters()).then(a.aicc.total_cmp(&b.aicc))
        };
        choice.chosen = close.min_by(|(_, a), (_, b)| order(a, b)).map(|(at, _)| at)?;
        Some(choice)
    }

    /// The models that may be chosen, with their positions. With few points a constant has a high price. Then a line
    /// through zero would win even if it is worse than the mean, or if there clearly is a constant.
    fn possible(&self) -> impl Iterator<Item = (usize, &FittedModel)> {
        let through_zero = self.adds(Model::Proportional, Model::Affine).is_none_or(|p| p >= BY_CHANCE);
        let may = move |fit: &FittedModel| fit.model != Model::Proportional || fit.r2 >= 0.0 && through_zero;
        self.fits.iter().enumerate().filter(move |(_, fit)| may(fit))
    }

    fn min_criterion(&self) -> f64 {
        self.possible().map(|(_, fit)| fit.aicc).fold(f64::INFINITY, f64::min)
    }

    /// Its relative errors fit better than absolute ones: by a clear margin, or as well with a simpler curve. Otherwise
    /// the scatter of the largest values would look like a curve, because a parabola bends to a last point that is far
    /// from the others.
    fn scatters_in_proportion(&self, equal: &Choice) -> bool {
        self.min_criterion() < equal.min_criterion() - NOTABLE
            || self.best().model.parameters() < equal.best().model.parameters()
                && self.best().aicc < equal.best().aicc + DECISIVE
    }

    /// By how much the criterion of a curve is above the least of all that may be chosen; `None` of one that may not.
    pub fn above_min(&self, fit: &FittedModel) -> Option<f64> {
        let possible = self.possible().any(|(_, one)| one.model == fit.model);
        possible.then(|| fit.aicc - self.min_criterion())
    }

    /// The model that suffices.
    pub fn best(&self) -> &FittedModel {
        &self.fits[self.chosen]
    }

    /// The fit of a model.
    pub fn of(&self, model: Model) -> Option<&FittedModel> {
        self.fits.iter().find(|fit| fit.model == model)
    }

    /// The p-value of the F-test of what a model adds to one that is a case of it.
    pub fn adds(&self, to: Model, model: Model) -> Option<f64> {
        let (small, large) = (self.of(to)?, self.of(model)?);
        let more = model.parameters().checked_sub(to.parameters()).filter(|more| *more > 0)? as f64;
        let freedom = self.points.checked_sub(model.parameters()).filter(|freedom| *freedom > 0)? as f64;
        let f = (small.rss - large.rss).max(0.0) / more / (large.rss / freedom);
        Some(if f.is_nan() { 1.0 } else { f_tail(f, more, freedom) })
    }
}

/// Through the points, each of which counts with a weight that goes with its value.
fn fit(model: Model, points: &[(f64, f64)], weigh: fn(f64) -> f64) -> Option<FittedModel> {
    let (n, k) = (points.len(), model.parameters());
    let shares = matches!(model, Model::Inverse | Model::Saturating);
    if n < k + 2 || shares && points.iter().any(|(x, _)| *x <= 0.0) {
        return None;
    }
    // Powers of numbers far from 1 would lose digits.
    let (x, y): (Vec<f64>, Vec<f64>) = points.iter().copied().unzip();
    let unit = x.iter().map(|x| x.abs()).fold(0.0, f64::max);
    let scaled: Vec<f64> = x.iter().map(|x| x / unit).collect();
    let weights: Vec<f64> = y.iter().map(|y| weigh(*y)).collect();
    let weighted = |values: &[f64]| values.iter().zip(&weights).map(|(v, w)| v * w).collect::<Vec<f64>>();
    let target = weighted(&y);
    let through = |knot: f64| {
        let columns: Vec<Vec<f64>> = model.columns(&scaled, knot).iter().map(|column| weighted(column)).collect();
        least_squares(&columns, &target)
    };
    let (knot, fitted) = match model {
        Model::Broken => best_knot(&breaks(&scaled)?, through)?,
        Model::Saturating => best_knot(&halves(&scaled)?, through)?,
        _ => (0.0, through(0.0)?),
    };
    let mean = y.iter().sum::<f64>() / n as f64;
    let tss: f64 = y.iter().map(|y| (y - mean).powi(2)).sum();
    // What is left of points that lie on the curve is rounding.
    let scale = |of: &[f64]| 1e-24 * of.iter().map(|y| y.powi(2)).sum::<f64>();
    let rss = fitted.rss.max(scale(&target));
    let plain: f64 = fitted.residuals.iter().zip(&weights).map(|(left, w)| (left / w).powi(2)).sum();
    let r2 = 1.0 - plain.max(scale(&y)) / tss;
    if !r2.is_finite() {
        return None;
    }
    let (points, parameters) = (n as f64, k as f64 + 1.0);
    let powers: &[i32] = match model {
        Model::Proportional => &[1],
        Model::Inverse => &[0, -1],
        Model::Saturating => &[0, 0],
        Model::Broken => &[0, 1, 1],
        _ => &[0, 1, 2, 3],
    };
    let back = |(c, power): (&Coefficient, &i32)| {
        let by = unit.powi(*power);
        Coefficient { value: c.value / by, half: c.half / by }
    };
    Some(FittedModel {
        model,
        coefficients: fitted.coefficients().iter().zip(powers).map(back).collect(),
        knot: matches!(model, Model::Saturating | Model::Broken).then_some(knot * unit),
        r2,
        adjusted_r2: 1.0 - (1.0 - r2) * (points - 1.0) / (points - k as f64),
        aicc: points * (rss / points).ln() + 2.0 * parameters * points / (points - parameters - 1.0).max(0.5)
            - 2.0 * weights.iter().map(|w| w.ln()).sum::<f64>(),
        rss,
    })
}

/// Possible places of a break. At least two points are on either side, because a piece to a single point would follow
/// that point's noise.
fn breaks(x: &[f64]) -> Option<Vec<f64>> {
    let mut places: Vec<f64> = x.to_vec();
    places.dedup();
    Some(places.get(2..places.len().checked_sub(2)?)?.to_vec())
}

/// Possible half-way places of a curve that saturates: among the points. Before them the curve would be a hyperbola
/// that begins outside of the measurements, and behind them a line.
fn halves(x: &[f64]) -> Option<Vec<f64>> {
    let (first, last) = (*x.first()?, *x.last()?);
    let octaves = (last / first).log2().floor();
    Some((0..=octaves as i32).map(|octave| first * f64::from(octave).exp2()).collect())
}

/// The `k` with which a curve fits best: at the given places, at most so many of them, and then between the neighbours of the best.
/// D. J. Hudson, "Fitting Segmented Curves Whose Join Points Have to Be Estimated", Journal of the American Statistical Association
/// 61 (1966), 1097–1129.
fn best_knot(places: &[f64], through: impl Fn(f64) -> Option<LeastSquares>) -> Option<(f64, LeastSquares)> {
    const TRIED: usize = 32;
    let places: Vec<f64> = places.iter().copied().step_by(places.len().div_ceil(TRIED).max(1)).collect();
    let tried = |knots: &mut dyn Iterator<Item = f64>| {
        let fits = knots.filter_map(|knot| Some((knot, through(knot)?)));
        fits.min_by(|a, b| a.1.rss.total_cmp(&b.1.rss))
    };
    let best = tried(&mut places.iter().copied())?;
    let at = places.iter().position(|place| *place == best.0)?;
    let (from, to) = (places[at.saturating_sub(1)], places[(at + 1).min(places.len() - 1)]);
    let step = (to - from) / TRIED as f64;
    let nearer = tried(&mut (1..TRIED).map(|n| from + step * n as f64))?;
    Some(if nearer.1.rss < best.1.rss { nearer } else { best })
}

#[cfg(test)]
mod tests {
    use super::super::noise;
    use super::*;

    fn along(n: usize, seed: u64, sd: f64, y: fn(f64) -> f64) -> Vec<(f64, f64)> {
        let noise = noise(seed, n);
        (0..n).map(|i| (i as f64 + 1.0, y(i as f64 + 1.0) + sd * noise[i])).collect()
    }

    #[test]
    fn a_line_through_zero_that_is_worse_than_the_mean_is_not_chosen() {
        let accuracy = [(0.01, 0.6185), (0.03, 0.8756), (0.1, 0.94), (0.4, 0.9637)];
        let choice = choose(&accuracy).unwrap();
        assert!(choice.of(Model::Proportional).unwrap().r2 < 0.0);
        assert_eq!(choice.best().model, Model::Inverse);
    }

    #[test]
    fn a_constant_that_is_no_chance_is_not_left_out_for_the_points_are_few() {
        // MiB of alexnet, resnet18 and resnet50 at batch sizes 4, 16, 64 and 256, as measured on an H200.
        let memory =
            [[1950.0, 2112.0, 2982.0, 5850.0], [1332.0, 1848.0, 3728.0, 11856.0], [1784.0, 3176.0, 8596.0, 30574.0]];
        for of in memory {
            let points: Vec<(f64, f64)> = [4.0, 16.0, 64.0, 256.0].into_iter().zip(of).collect();
            let best = choose(&points).expect("a fit").best().clone();
            assert!(best.model == Model::Affine && best.r2 > 0.999, "{best:?}");
        }
    }

    #[test]
    fn the_curve_that_made_the_points_is_chosen() {
        type Curve = fn(f64) -> f64;
        let cases: [(Model, Curve); 7] = [
            (Model::Proportional, |x| 0.5 * x),
            (Model::Affine, |x| 20.0 + 0.5 * x),
            (Model::Inverse, |x| 5.0 + 100.0 / x),
            (Model::Saturating, |x| 20.0 + 60.0 * x / (x + 5.0)),
            (Model::Broken, |x| 20.0 + 1.5 * (x - 15.0).max(0.0)),
            (Model::Quadratic, |x| 20.0 + 0.1 * x * x),
            (Model::Cubic, |x| 20.0 + 0.02 * (x - 20.0).powi(3)),
        ];
        for (model, y) in cases {
            let right =
                (0..100).filter(|seed| choose(&along(40, *seed, 1.0, y)).is_some_and(|c| c.best().model == model));
            // A richer one seems notably better by chance now and then, as the criterion has it.
            let right = right.count();
            assert!(right >= 85, "{model:?}: {right} of 100");
        }
    }

    #[test]
    fn intervals_hold_what_is_true_in_nineteen_of_twenty() {
        let held = (0..1000).filter(|seed| {
            let choice = choose(&along(20, *seed, 3.0, |x| 100.0 + 0.12 * x)).expect("a fit");
            let slope = choice.of(Model::Affine).expect("a line").coefficients[1];
            (slope.value - 0.12).abs() <= slope.half
        });
        let held = held.count();
        assert!((930..=970).contains(&held), "{held} of 1000");
    }

    #[test]
    fn published_iteration_times_are_flat_and_then_rise() {
        // Seconds an epoch of 60,000 images by batch, published: resnet18.
        let epochs = [718.9, 359.0, 179.8, 92.0, 46.4, 29.5, 21.9, 18.2, 16.3, 15.5].into_iter().enumerate();
        let points: Vec<(f64, f64)> =
            epochs.map(|(n, s)| (f64::from(1 << n), 1000.0 * s * f64::from(1 << n) / 60_000.0)).collect();
        let choice = choose(&points).expect("a fit");
        let best = choice.best();
        assert_eq!(best.model, Model::Broken);
        let knot = best.knot.expect("a break");
        assert!((10.0..24.0).contains(&knot) && best.r2 > 0.9999, "{best:?}");
        // Twelve milliseconds whatever the batch, then a quarter of one more for each image.
        assert!((best.coefficients[0].value - 12.0).abs() < 0.6, "{best:?}");
        let slope = best.coefficients[2].value;
        assert!((slope - 0.243).abs() < 0.01, "{best:?}");
    }

    #[test]
    fn published_epoch_times_are_a_cost_of_images_and_one_of_iterations() {
        // Seconds an epoch by batch, published: alexnet, resnet18 and vgg16.
        let times: [&[f64]; 3] = [
            &[507.7, 259.6, 133.4, 73.4, 40.0, 25.8, 20.8, 17.7, 16.7, 15.5],
            &[718.9, 359.0, 179.8, 92.0, 46.4, 29.5, 21.9, 18.2, 16.3, 15.5],
            &[635.7, 348.2, 193.1, 125.7, 83.8, 58.0, 46.2, 42.3],
        ];
        // What numpy's least squares make of them.
        let expected = [(12.24, 494.57), (8.568, 706.6), (42.86, 597.38)];
        for (times, (floor, shared)) in times.into_iter().zip(expected) {
            let epochs: Vec<(f64, f64)> = times.iter().enumerate().map(|(n, s)| (f64::from(1 << n), *s)).collect();
            let best = choose(&epochs).expect("a fit").best().clone();
            assert!(best.model == Model::Inverse && best.r2 > 0.999, "{best:?}");
            let found = (best.coefficients[0].value / floor, best.coefficients[1].value / shared);
            assert!((found.0 - 1.0).abs() < 1e-3 && (found.1 - 1.0).abs() < 1e-3, "{best:?}");
        }
    }

    #[test]
    fn a_gpus_power_saturates_with_the_batch_size() {
        // W, of resnet18 by batch, from 1 to 512, as measured on an H200.
        let power = [242.0, 293.0, 372.0, 430.0, 483.0, 530.0, 561.0, 596.0, 604.0, 614.0];
        let points: Vec<(f64, f64)> = power.iter().enumerate().map(|(n, w)| (f64::from(1 << n), *w)).collect();
        let best = choose(&points).expect("a fit").best().clone();
        assert!(best.model == Model::Saturating && best.r2 > 0.99, "{best:?}");
        let limit = best.coefficients[0].value + best.coefficients[1].value;
        assert!((limit - 612.0).abs() < 12.0, "{best:?}");
    }

    #[test]
    fn many_points_take_time_in_proportion_to_their_number() {
        let points: Vec<(f64, f64)> =
            (1..=10_000).map(|n| (f64::from(n), if n < 3_000 { 5.0 } else { f64::from(n) - 2_995.0 })).collect();
        let best = choose(&points).expect("a fit").best().clone();
        let knot = best.knot.expect("a break");
        assert!(best.model == Model::Broken && (knot / 3_000.0 - 1.0).abs() < 0.01, "{best:?}");
    }

    #[test]
    fn what_scatters_in_proportion_is_fitted_in_proportion() {
        // Seconds an epoch of mobilenet_v2 by batch, from 1 to 512, as measured on an H200.
        let times = [10.70, 6.27, 3.16, 1.72, 0.93, 0.54, 0.33, 0.21, 0.15, 0.13];
        let epochs: Vec<(f64, f64)> = times.iter().enumerate().map(|(n, s)| (f64::from(1 << n), *s)).collect();
        let choice = choose(&epochs).expect("a fit");
        let best = choice.best();
        assert!(choice.relative && best.model == Model::Inverse, "{choice:?}");
        // As numpy's weighted least squares have it.
        let found = (best.coefficients[0].value, best.coefficients[1].value);
        assert!((found.0 - 0.1099).abs() < 1e-4 && (found.1 - 12.2768).abs() < 1e-3, "{found:?}");
        let off = epochs.iter().map(|(x, y)| (best.at(*x) / y - 1.0).abs()).fold(0.0, f64::max);
        assert!(off < 0.17, "{off}");
        // Equal noise is no reason to.
        let equal =
            (0..100).filter(|seed| choose(&along(40, *seed, 1.0, |x| 20.0 + 10.0 * x)).is_some_and(|c| !c.relative));
        let equal = equal.count();
        assert!(equal >= 95, "{equal} of 100");
    }

    #[test]
    fn a_line_whose_noise_grows_with_it_stays_a_line() {
        let octaves: Vec<f64> = (0..9).map(|n| f64::from(1 << n)).collect();
        let even: Vec<f64> = (0..22).map(|n| f64::from(2 + 3 * n)).collect();
        for (places, size) in [(&octaves, 0.01), (&even, 0.01), (&octaves, 0.03), (&even, 0.03)] {
            let is_line = |seed: &u64| {
                let noise = noise(*seed, places.len());
                let along = places.iter().zip(noise).map(|(x, e)| (*x, (20.0 + 3.0 * x) * (1.0 + size * e)));
                choose(&along.collect::<Vec<_>>()).expect("a fit").best().model == Model::Affine
            };
            let lines = (0..200).filter(is_line).count();
            assert!(lines >= 188, "{lines} of 200 at {} points", places.len());
        }
    }

    #[test]
    fn nothing_is_shared_out_by_zero_or_less() {
        let from = |first: i32| (0..9).map(|n| (f64::from(first + n), f64::from(n * n))).collect::<Vec<_>>();
        let tried = |first: i32| choose(&from(first)).expect("a fit").of(Model::Inverse).is_some();
        assert!(tried(1) && !tried(0) && !tried(-3));
    }

    #[test]
    fn published_compute_does_not_explain_parameters() {
        let models =
            [(0.71, 61.1), (15.5, 138.36), (2.88, 7.98), (4.12, 25.56), (1.82, 11.69), (2.85, 27.16), (1.51, 6.6)];
        let choice = choose(&models).expect("a fit");
        assert!(matches!(choice.best().model, Model::Proportional | Model::Affine), "{:?}", choice.best());
        assert!(choice.best().r2 < 0.85 && choice.adds(Model::Affine, Model::Quadratic).is_some_and(|p| p > 0.05));
    }

    #[test]
    fn points_without_noise_and_too_few_are_no_trouble() {
        assert_eq!(choose(&[(1.0, 2.0), (2.0, 4.0), (3.0, 6.0)]), None);
        assert_eq!(choose(&[(1.0, 2.0); 8]), None);
        assert_eq!(choose(&[(1.0, 2.0), (2.0, f64::NAN), (3.0, 6.0), (4.0, 8.0)]), None);
        let line: Vec<(f64, f64)> = (1..=10).map(|x| (f64::from(x), 3.0 * f64::from(x))).collect();
        let choice = choose(&line).expect("a fit");
        assert_eq!(choice.best().model, Model::Proportional);
        assert!((choice.best().coefficients[0].value - 3.0).abs() < 1e-12);
        let flat: Vec<(f64, f64)> = (1..=10).map(|x| (f64::from(x), 3.0)).collect();
        assert_eq!(choose(&flat), None);
    }
}
