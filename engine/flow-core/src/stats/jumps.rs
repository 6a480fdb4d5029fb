//! Finds jumps of a curve: changes of its level from one point to the next that no bend, outlier or noise explains.
//!
//! Models with jumps compete with models without. Each is a curve (polynomial, hyperbola, logarithm, wave or spline)
//! with bends, outliers and jumps. They are added one after the other by how much they explain, and all that are
//! visible at once are added together. The model with the highest likelihood, less a price for each part, wins. So a
//! jump is only found if no smooth curve does as well.
//!
//! Sources: C. Chen and L.-M. Liu, "Joint Estimation of Model Parameters and Outlier Effects in Time Series", Journal
//! of the American Statistical Association 88 (1993), 284–297, distinguish levels and outliers by likelihood. Y.-C.
//! Yao, "Estimating the Number of Change-Points via Schwarz' Criterion", Statistics & Probability Letters 6 (1988),
//! 181–189, prices breaks as parameters. Noise is weighted by its size along the axis (R. J. Carroll and D. Ruppert,
//! "Transformation and Weighting in Regression", Chapman and Hall 1988). Its correlation from point to point, an
//! autoregression of first order, counts as an explanation like others.
//!
//! The prices were set by simulation, and the tests here repeat a part of it. With independent noise, at most 10 of 1,000 sweeps
//! without a jump have one found. Of 4,000 other sweeps, 1 to 6 in 1,000 have. With noise that correlates by 0.5 it is
//! 10 in 1,000, and 18 to 23 with 0.7 and 0.9. Of 6,000 sweeps with jumps of three noise widths at the multiples of 16,
//! flow finds the jumps in 95.8%. These sweeps have 70 points. With fewer points everything has a higher price
//! (`Sweep::dear`): there are no more false jumps, and only larger jumps are found.

mod curves;
mod growing_model;
mod model;
mod scatter;
mod staircases;

use serde::{Deserialize, Serialize};

use self::{
    growing_model::{GrowingModel, Sums},
    model::{LINE, MIN_LEVEL, Model, Noise, Part, Sweep},
    staircases::multiple,
};
use super::{
    distributions::{f_tail, t_quantile},
    least_squares::{LeastSquares, dot, least_squares, norm},
    median,
};

/// A change of level between two neighbouring points.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Jump {
    /// The position of the point before it.
    pub at: usize,
    /// How much higher the level is after it.
    pub height: f64,
    /// Half the width of the height's 95 % confidence interval, the place taken as known.
    pub half: f64,
}

/// A point off the curve through those about it.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Outlier {
    pub at: usize,
    /// How much higher it is.
    pub off: f64,
    /// Half the width of the 95 % confidence interval of that.
    pub half: f64,
}

/// The jumps and outliers of a sweep.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Jumps {
    pub jumps: Vec<Jump>,
    /// Points of their own, which are neither on the curve nor a level.
    #[serde(default)]
    pub outliers: Vec<Outlier>,
    /// The number at whose multiples the jumps are, where they are at nothing else and at no fewer.
    pub multiple: Option<f64>,
    /// The curve with its jumps, at each point.
    pub curve: Vec<f64>,
    /// The standard deviation of the points about that curve.
    pub fluctuation: f64,
}

/// Min points of a sweep in which 90% of single jumps are found, with the height of the jump as a multiple of the
/// fluctuation. By simulation.
const FOUND: [(usize, u32); 5] = [(65, 5), (55, 6), (40, 7), (30, 8), (20, 10)];
/// And in all sweeps.
const FOUND_IN_ALL: u32 = 12;

impl Jumps {
    /// A single jump of fewer times the fluctuation may not be told.
    pub fn min_significant(&self) -> u32 {
        let has = |(points, _): &&(usize, u32)| self.curve.len() >= *points;
        FOUND.iter().find(has).map_or(FOUND_IN_ALL, |(_, times)| *times)
    }

    /// No jump may have the height 0, at a level for all of them together (Bonferroni). A staircase must not turn many
    /// steps that are not significant into jumps.
    fn are_significant(&self) -> bool {
        let jumps = self.jumps.len() as f64;
        let freedom = self.curve.len() as f64 - jumps - LINE as f64;
        let wider = t_quantile(AT_ONCE / jumps, freedom) / t_quantile(0.05, freedom);
        self.jumps.iter().all(|jump| jump.height.abs() > wider * jump.half)
    }
}

/// Fewer points show no jump that is none of noise, nor how much they fluctuate.
const FEWEST: usize = 16;
/// So many points apart are bends: two next to each other are a jump.
const BENDS: usize = 3;
/// The max probability that chance puts a point this far off in a sweep without outliers.
const BY_CHANCE: f64 = 0.002;
/// The chance that one of a model's jumps is none, at most; set by simulation.
const AT_ONCE: f64 = 0.07;
/// The usual difference between neighbours is the median of so many to each side,
const AROUND: usize = 5;
/// and so many median deviations from it, three of normal noise's standard deviations, are seen at once.
const FAR: f64 = 4.5;
/// Models have at most so many parts besides their curve, and no more than one for six points.
const PARTS: usize = 16;
/// The jumps of a staircase differ where chance would make them differ so much no oftener than this.
const UNEVEN: f64 = 0.01;
/// A model that is so much worse than the best on its way leads no further.
const GIVE_UP: f64 = 10.0;
/// A curve of more columns than these that without parts is so much worse than the best is not tried with parts.
const HOPELESS: f64 = 15.0;
const SIMPLE: usize = 4;

/// Looks for jumps along points in order of their places. `None`: there are too few points, or not all are finite and at places of
/// their own.
pub fn find_jumps(points: &[(f64, f64)]) -> Option<Jumps> {
    let usable = points.iter().all(|(x, y)| x.is_finite() && y.is_finite());
    if points.len() < FEWEST || !usable || points.windows(2).any(|w| w[1].0 <= w[0].0) {
        return None;
    }
    let mut sweep = Sweep::new(points);
    let mut model = sweep.find()?;
    if sweep.is_uneven(&model) || sweep.has_stairs(&model) && !sweep.explain(&model, points)?.are_significant() {
        sweep.forget_staircases();
        model = sweep.find()?;
    }
    let smooth = || sweep.settled(sweep.best(false)?, points);
    // A height of its own for each jump may be more than the points can tell.
    loop {
        let Some(found) = sweep.explain(&model, points) else { return smooth() };
        if found.are_significant() {
            return sweep.settled(model, points);
        }
        let Some(parts) = sweep.without_weakest(&model, &found) else { return smooth() };
        model.parts = parts;
    }
}

impl Sweep {
    /// The best model, with jumps only where no smooth curve does as well.
    fn find(&self) -> Option<Model> {
        let model = self.best(true)?;
        if self.places(&model.parts).is_empty() {
            return Some(model);
        }
        // Chosen with jumps at hand, a smooth curve may not have got as far as it could.
        let smooth = self.best(false)?;
        let bends = model.parts.iter().filter(|part| matches!(part, Part::Bend(_))).count();
        let uneven = (self.curves[model.curve].columns.len() - LINE + bends) as f64 * self.prices.uneven;
        let uneven = uneven.min(self.prices.most_uneven);
        Some(if model.score - uneven > smooth.score { model } else { smooth })
    }

    fn best(&self, jumps: bool) -> Option<Model> {
        let seen = self.seen();
        let starts: &[&[Part]] = if jumps && !seen.is_empty() { &[&[], &seen] } else { &[&[]] };
        let noises = self.noises.iter().flat_map(|noise| (0..self.curves.len()).map(move |curve| (noise, curve)));
        let bare: Vec<(f64, &Noise, usize)> =
            noises.filter_map(|(noise, curve)| Some((self.bare(noise, curve)?, noise, curve))).collect();
        let best = bare.iter().map(|(score, ..)| *score).fold(f64::NEG_INFINITY, f64::max);
        let is_simple = |curve: usize| self.curves[curve].columns.len() <= SIMPLE;
        let hopeful = bare.iter().filter(|(score, _, curve)| *score > best - HOPELESS || is_simple(*curve));
        let models = hopeful.flat_map(|(_, noise, curve)| starts.iter().map(move |start| (*noise, *curve, *start)));
        let models = models.map(|(noise, curve, start)| self.prune(self.grow(noise, curve, start, jumps)));
        models.max_by(|a, b| a.score.total_cmp(&b.score))
    }

    /// The score of a curve without parts.
    fn bare(&self, noise: &Noise, curve: usize) -> Option<f64> {
        let fit = self.fit(std::iter::empty(), curve, noise.correlation)?;
        let columns = self.curves[curve].columns.len();
        Some(self.score(noise, fit.rss, self.price_of(noise.correlation, curve), columns))
    }

    /// Least squares of these parts and a curve.
    fn fit(&self, parts: impl Iterator<Item = Part>, curve: usize, correlation: f64) -> Option<LeastSquares> {
        let columns = parts.map(|part| self.column(part)).chain(self.curves[curve].columns.iter().cloned());
        let columns: Vec<Vec<f64>> = columns.map(|column| self.white(column, correlation)).collect();
        least_squares(&columns, &self.white(self.y.clone(), correlation))
    }

    /// The jumps of a model's staircase are not of one height: they have nothing to do with each other, and its places may be wrong.
    fn is_uneven(&self, model: &Model) -> bool {
        let stairs = model.parts.iter().find_map(|part| match part {
            Part::Staircase(at) => Some(*at),
            _ => None,
        });
        let Some(stairs) = stairs else { return false };
        let places = &self.staircases[stairs].places;
        let rest: Vec<Part> = model.parts.iter().copied().filter(|part| *part != Part::Staircase(stairs)).collect();
        let fit =
            |parts: &[Part]| Some(self.fit(parts.iter().chain(&rest).copied(), model.curve, model.correlation)?.rss);
        let own: Vec<Part> = places.iter().map(|place| Part::Jump(*place)).collect();
        let (Some(even), Some(uneven)) = (fit(&[Part::Staircase(stairs)]), fit(&own)) else { return false };
        let parameters = own.len() + rest.len() + self.curves[model.curve].columns.len();
        let (more, freedom) = ((places.len() - 1) as f64, self.x.len().saturating_sub(parameters) as f64);
        freedom > 0.0 && f_tail((even - uneven) / more / ((uneven + self.floor) / freedom), more, freedom) < UNEVEN
    }

    /// The result of a model, without the outliers that are not significant. The curve goes through an outlier, and the
    /// fluctuation comes from the other points. An outlier stays if the jumps next to it are significant only with it.
    fn settled(&self, mut model: Model, points: &[(f64, f64)]) -> Option<Jumps> {
        let mut found = self.explain(&model, points)?;
        loop {
            let before = model.parts.len();
            let is_told = |part: &Part| match part {
                Part::Outlier(at) => found.outliers.iter().any(|outlier| outlier.at == *at),
                _ => true,
            };
            model.parts.retain(is_told);
            let all_told = model.parts.len() == before;
            match self.explain(&model, points).filter(|next| !all_told && next.are_significant()) {
                Some(next) => found = next,
                None => return Some(found),
            }
        }
    }

    /// The parts of a model without its least significant jump.
    fn without_weakest(&self, model: &Model, found: &Jumps) -> Option<Vec<Part>> {
        let told = |jump: &Jump| jump.height.abs() / jump.half;
        let least = found.jumps.iter().min_by(|a, b| told(a).total_cmp(&told(b)))?.at + 1;
        let near = |place: usize| place.abs_diff(least);
        let distance = |part: &Part| match part {
            Part::Jump(place) => Some(near(*place)),
            Part::Level(from, to) => Some(near(*from).min(near(*to))),
            Part::Bend(_) | Part::Outlier(_) | Part::Staircase(_) => None,
        };
        let (_, at) = model.parts.iter().enumerate().filter_map(|(at, part)| Some((distance(part)?, at))).min()?;
        let mut parts = model.parts.clone();
        // Of a level one end goes.
        if let Part::Level(from, to) = parts.remove(at) {
            parts.push(Part::Jump(if near(from) < near(to) { to } else { from }));
        }
        Some(parts)
    }

    /// From the curve with some parts on, the part that explains most for its price, and so on; the best model on the way.
    fn grow(&self, noise: &Noise, curve: usize, start: &[Part], jumps: bool) -> Model {
        let white = |column: Vec<f64>| self.white(column, noise.correlation);
        let smooth = &self.curves[curve];
        let residuals = white(self.y.clone());
        let sums = Sums::of(&residuals, self, noise);
        let mut growing = GrowingModel {
            noise,
            q: Vec::new(),
            adds: noise.parts.iter().map(|(part, length)| (sums.along(*part, self), *length)).collect(),
            residuals,
            price: self.price_of(noise.correlation, curve),
        };
        for column in &smooth.columns {
            growing.add(white(column.clone()), self);
        }
        for part in start {
            growing.add(white(self.column(*part)), self);
            growing.price += self.price(*part);
        }
        let score = |growing: &GrowingModel<'_>| {
            self.score(noise, dot(&growing.residuals, &growing.residuals), growing.price, growing.q.len())
        };
        let parts = start.to_vec();
        let mut model = Model { correlation: noise.correlation, curve, parts, score: score(&growing) };
        let mut best = model.clone();
        while model.parts.len() < PARTS.min(self.x.len() / 6) {
            let Some(part) = self.most(&growing, &model.parts, jumps) else { break };
            growing.add(white(self.column(part)), self);
            growing.price += self.price(part);
            model.parts.push(part);
            model.score = score(&growing);
            if model.score > best.score {
                best = model.clone();
            } else if model.score < best.score - GIVE_UP {
                break;
            }
        }
        best
    }

    /// Jumps and outliers that a reader of a chart sees at once: the difference between neighbours is far from those
    /// around it. If several are close together, a search that adds one at a time misses them.
    fn seen(&self) -> Vec<Part> {
        let n = self.y.len();
        let slope: Vec<f64> = (1..n).map(|i| (self.y[i] - self.y[i - 1]) / (self.x[i] - self.x[i - 1])).collect();
        let off = |i: usize| {
            let around = &slope[i.saturating_sub(AROUND + 1)..(i + AROUND).min(n - 1)];
            (slope[i - 1] - median(around.to_vec()).unwrap_or(0.0)).abs()
                * (self.x[i] - self.x[i - 1])
                * self.weights[i]
        };
        let offs: Vec<f64> = (1..n).map(off).collect();
        let far = FAR * median(offs.clone()).unwrap_or(0.0);
        let mut places: Vec<usize> = (1..n).filter(|i| offs[i - 1] > far).collect();
        places.sort_by(|a, b| offs[b - 1].total_cmp(&offs[a - 1]));
        places.truncate(PARTS.min(n / 6));
        places.sort_unstable();
        // What is back after a point or two may be outliers, and the second difference a jump as well.
        let mut parts: Vec<Part> = Vec::new();
        for (at, place) in places.iter().enumerate() {
            let has = |part: Part| parts.contains(&part);
            let back = places.get(at + 1).filter(|next| **next < place + MIN_LEVEL && !has(Part::Outlier(place - 1)));
            let is_apart = (1..MIN_LEVEL).all(|by| !has(Part::Jump(place.saturating_sub(by))));
            if let Some(back) = back {
                parts.extend((*place..*back).map(Part::Outlier));
            } else if *place >= MIN_LEVEL && place + MIN_LEVEL <= n && is_apart {
                parts.push(Part::Jump(*place));
            }
        }
        parts
    }

    /// Without the parts that, given the others, are not worth their price.
    fn prune(&self, mut model: Model) -> Model {
        let n = self.x.len();
        while !model.parts.is_empty() {
            let Some(fit) = self.fit(model.parts.iter().copied(), model.curve, model.correlation) else { break };
            let columns = model.parts.len() + self.curves[model.curve].columns.len();
            let parts: f64 = model.parts.iter().map(|part| self.price(*part)).sum();
            let price = parts + self.price_of(model.correlation, model.curve);
            let gains = model.parts.iter().zip(&fit.losses).map(|(part, loss)| {
                let cheaper = self.dear(columns) * price - self.dear(columns - 1) * (price - self.price(*part));
                cheaper - 0.5 * n as f64 * (loss / (fit.rss + self.floor)).ln_1p()
            });
            let Some((at, gain)) = gains.enumerate().max_by(|a, b| a.1.total_cmp(&b.1)) else { break };
            if gain <= 0.0 {
                break;
            }
            model.parts.remove(at);
            model.score += gain;
        }
        model
    }

    /// The part that adds most to the likelihood, less its price.
    fn most(&self, growing: &GrowingModel<'_>, parts: &[Part], jumps: bool) -> Option<Part> {
        let n = self.x.len() as f64;
        let taken = self.places(parts);
        let free = |place: &usize| taken.iter().all(|other| place.abs_diff(*other) >= MIN_LEVEL);
        let may = |part: &Part| match part {
            Part::Jump(place) => jumps && free(place),
            Part::Level(from, to) => jumps && free(from) && free(to),
            Part::Staircase(at) => jumps && self.staircases[*at].places.iter().all(free),
            Part::Bend(place) => {
                parts.iter().all(|other| !matches!(other, Part::Bend(at) if at.abs_diff(*place) < BENDS))
            }
            Part::Outlier(_) => !parts.contains(part),
        };
        let rss = dot(&growing.residuals, &growing.residuals) + self.floor;
        let candidates = growing.noise.parts.iter().zip(&growing.adds).filter(|((part, _), _)| may(part));
        let gains = candidates.map(|((part, length), (along, own))| {
            let explained = if *own > 1e-6 * length { along * along / own } else { 0.0 };
            (
                *part,
                -0.5 * n * (1.0 - explained / rss).max(1e-300).ln()
                    - self.dear(growing.q.len() + 1) * self.price(*part),
            )
        });
        gains.max_by(|a, b| a.1.total_cmp(&b.1)).map(|(part, _)| part)
    }

    /// The jumps of a model, each with a height of its own.
    fn explain(&self, model: &Model, points: &[(f64, f64)]) -> Option<Jumps> {
        let n = self.x.len();
        let has_staircase = self.has_stairs(model);
        let mut places = self.places(&model.parts);
        let others: Vec<Part> =
            model.parts.iter().copied().filter(|p| matches!(p, Part::Bend(_) | Part::Outlier(_))).collect();
        let parts = |places: &[usize]| -> Vec<Part> {
            places.iter().map(|place| Part::Jump(*place)).chain(others.iter().copied()).collect()
        };
        let fit = |places: &[usize]| self.fit(parts(places).into_iter(), model.curve, model.correlation);
        // Each was placed before the later ones were known.
        if !has_staircase {
            for at in 0..places.len() {
                let near = (-2..=2).filter_map(|by| places[at].checked_add_signed(by));
                let moved = near.filter_map(|place| {
                    let mut moved = places.clone();
                    moved[at] = place;
                    let apart = moved.windows(2).all(|w| w[1] >= w[0] + MIN_LEVEL)
                        && place >= MIN_LEVEL
                        && place + MIN_LEVEL <= n;
                    Some((fit(&moved).filter(|_| apart)?.rss, moved))
                });
                places = moved.min_by(|a, b| a.0.total_cmp(&b.0)).map_or(places.clone(), |(_, moved)| moved);
            }
        }
        // Where the point right after a jump is an outlier, the jump may as well be behind it, and there it is seen.
        for at in 0..places.len() {
            let behind = places[at] + 1;
            let is_free = behind + MIN_LEVEL <= n && places.get(at + 1).is_none_or(|next| *next >= behind + MIN_LEVEL);
            if is_free && others.contains(&Part::Outlier(places[at])) {
                places[at] = behind;
            }
        }
        let mut coefficients = fit(&places)?.coefficients();
        let own = parts(&places).into_iter().map(|part| self.column(part));
        let columns: Vec<Vec<f64>> = own.chain(self.curves[model.curve].columns.iter().cloned()).collect();
        let at = |i: usize| columns.iter().zip(&coefficients).map(|(column, c)| column[i] * c.value).sum();
        let curve: Vec<f64> = (0..n).map(at).collect();
        let mut squares: f64 = self.y.iter().zip(&curve).map(|(y, c)| (y - c).powi(2)).sum();
        // What binary fractions lose is no noise.
        if squares.sqrt() <= 1e-12 * norm(&self.y) {
            squares = 0.0;
            coefficients.iter_mut().for_each(|coefficient| coefficient.half = 0.0);
        }
        let jumps = places.iter().zip(&coefficients);
        let jumps = jumps.map(|(place, height)| Jump { at: place - 1, height: height.value, half: height.half });
        let jumps: Vec<Jump> = jumps.collect();
        let freedom = n.saturating_sub(coefficients.len()).max(1) as f64;
        // Where t is as far off as chance takes one of all points, against where it is for an interval of 95 %.
        let far = t_quantile(BY_CHANCE / n as f64, freedom) / t_quantile(0.05, freedom);
        let outliers = others.iter().zip(&coefficients[places.len()..]).filter_map(|(part, off)| match part {
            Part::Outlier(at) if off.value.abs() > far * off.half => {
                Some(Outlier { at: *at, off: off.value, half: off.half })
            }
            _ => None,
        });
        let mut outliers: Vec<Outlier> = outliers.collect();
        outliers.sort_by_key(|outlier| outlier.at);
        Some(Jumps {
            multiple: multiple(points, &places),
            jumps,
            outliers,
            curve,
            fluctuation: (squares / freedom).sqrt(),
        })
    }
}

#[cfg(test)]
mod tests;
