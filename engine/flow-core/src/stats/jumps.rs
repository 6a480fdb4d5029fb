//! Where a curve jumps: changes of its level from one point to the next that neither a bend, nor an outlier, nor noise that grows or
//! is correlated explains.
//!
//! Models with jumps are set against models without. Each is a curve (a polynomial, a hyperbola, a logarithm, a wave, a spline) with bends,
//! outliers and jumps, chosen one after the other by what they explain, from the bare curve on and from what stands out at once; the model with
//! the highest likelihood, less a price for each part, says which jumps there are. So a jump is only found where no smooth curve
//! does as well. Sources of the parts: levels and outliers told apart by likelihood, C. Chen and L.-M. Liu, "Joint Estimation of
//! Model Parameters and Outlier Effects in Time Series", Journal of the American Statistical Association 88 (1993), 284–297;
//! several breaks priced as parameters, Y.-C. Yao, "Estimating the Number of Change-Points via Schwarz' Criterion", Statistics &
//! Probability Letters 6 (1988), 181–189, with prices set by simulation, as the tests here repeat it: of 1,000 sweeps without a
//! jump at most ten have one found, of others about ten, and about twenty where noise correlates by 0.5. Noise is weighed by its
//! size along the axis (R. J. Carroll and D. Ruppert, "Transformation and Weighting in Regression", Chapman and Hall 1988), and
//! its correlation from point to point (an autoregression of first order) counts as an explanation like others.

mod curves;

use serde::{Deserialize, Serialize};

use self::curves::{Smooth, curves};
use super::{
    distributions::{f_tail, t_quantile},
    least_squares::{dot, least_squares, norm, subtract},
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
    /// Its position.
    pub at: usize,
    /// How much higher it is.
    pub off: f64,
    /// Half the width of the 95 % confidence interval of that.
    pub half: f64,
}

/// What is found in a sweep.
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

impl Jumps {
    /// No height may as well be 0, at 95 % confidence in all of them at once (Bonferroni): a staircase is no way to call many steps jumps
    /// of which hardly any is told by itself.
    fn are_told(&self) -> bool {
        let jumps = self.jumps.len() as f64;
        let freedom = self.curve.len() as f64 - jumps - LINE as f64;
        let wider = t_quantile(0.05 / jumps, freedom) / t_quantile(0.05, freedom);
        self.jumps.iter().all(|jump| jump.height.abs() > wider * jump.half)
    }
}

/// Fewer points show no jump that is none of noise.
const FEWEST: usize = 12;
/// So many points a level must last: fewer are outliers.
const LASTS: usize = 3;
/// So many points a level may last that is searched for as a whole; the two ends of a longer one are found one by one.
const LONGEST: usize = 8;
/// So many points apart are bends: two next to each other are a jump.
const BENDS: usize = 3;
/// An outlier is told of where chance makes one so far off, in a sweep without any, no oftener than this.
const BY_CHANCE: f64 = 0.002;
/// So many points apart are the multiples at which a staircase has its jumps.
const STAIRS: usize = 3;
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
/// A line has so many coefficients, and costs nothing.
const LINE: usize = 2;
/// How much the noise of a point may say of the next.
const CORRELATIONS: [f64; 3] = [0.0, 0.4, 0.8];

/// Penalties, in units of the logarithm of the likelihood. That of a coefficient is half of Schwarz' criterion; the rest were set by simulation.
#[derive(Clone, Copy)]
struct Penalties {
    coefficient: f64,
    /// Of noise that says nothing of the next: a curve that follows noise makes it look so.
    independent: f64,
    bend: f64,
    outlier: f64,
    jump: f64,
    level: f64,
    staircase: f64,
    /// Of a staircase with two places: numbers with just two multiples in a sweep are many.
    pair: f64,
    /// Of jumps on what is no line, for each coefficient and bend of it: what is steep somewhere is easily taken for a jump there.
    uneven: f64,
    /// And at most so much.
    most_uneven: f64,
}

impl Penalties {
    fn of(n: usize) -> Penalties {
        let log = (n as f64).ln();
        Penalties {
            coefficient: 0.5 * log,
            independent: 1.5,
            bend: 1.5 + log,
            outlier: 1.5 + log,
            jump: 5.8 + log,
            level: 6.5 + 2.0 * log,
            staircase: 3.3 + log,
            pair: 4.8 + log,
            uneven: 0.4,
            most_uneven: 1.5,
        }
    }
}

/// A part of a model besides its curve, by the position of its first point.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Part {
    Jump(usize),
    Bend(usize),
    Outlier(usize),
    /// A jump, and one back before the second position.
    Level(usize, usize),
    /// As many equal jumps as a member of the family has places.
    Staircase(usize),
}

/// Equal jumps at the multiples of a number.
struct Staircase {
    multiple: f64,
    /// Positions of the first points after each.
    places: Vec<usize>,
}

/// What all models are made of.
struct Sweep {
    /// Where the points are, from −1 to 1.
    x: Vec<f64>,
    y: Vec<f64>,
    curves: Vec<Smooth>,
    /// One over the size of the noise, relative.
    weights: Vec<f64>,
    staircases: Vec<Staircase>,
    noises: Vec<Noise>,
    prices: Penalties,
    /// Residuals are never taken for smaller, as a sum of squares: numbers have so many digits.
    floor: f64,
}

/// Noise of some correlation, and how long the column of each part is once that is taken from it.
struct Noise {
    correlation: f64,
    parts: Vec<(Part, f64)>,
}

/// A model.
#[derive(Clone)]
struct Model {
    correlation: f64,
    /// The position of its curve.
    curve: usize,
    parts: Vec<Part>,
    score: f64,
}

/// A model that grows, with what each part would add.
struct Growing<'a> {
    noise: &'a Noise,
    /// Unit vectors that span it.
    q: Vec<Vec<f64>>,
    residuals: Vec<f64>,
    price: f64,
    /// For each part its product with the residuals, and the square of the length of what is not yet in the model.
    adds: Vec<(f64, f64)>,
}

/// Looks for jumps along points in order of their places. `None`: there are too few points, or not all are finite and at places of
/// their own.
pub fn find_jumps(points: &[(f64, f64)]) -> Option<Jumps> {
    let usable = points.iter().all(|(x, y)| x.is_finite() && y.is_finite());
    if points.len() < FEWEST || !usable || points.windows(2).any(|w| w[1].0 <= w[0].0) {
        return None;
    }
    let mut sweep = Sweep::new(points);
    let mut model = sweep.find()?;
    if sweep.is_uneven(&model) || sweep.has_stairs(&model) && !sweep.explain(&model, points)?.are_told() {
        sweep.forget_staircases();
        model = sweep.find()?;
    }
    let smooth = || sweep.explain(&sweep.best(false)?, points);
    // A height of its own for each jump may be more than the points can tell.
    let mut found = sweep.explain(&model, points).or_else(smooth)?;
    while !found.are_told() {
        let Some(parts) = sweep.without_least(&model, &found) else { return smooth() };
        model.parts = parts;
        found = sweep.explain(&model, points).or_else(smooth)?;
    }
    Some(found)
}

impl Sweep {
    fn new(points: &[(f64, f64)]) -> Sweep {
        let n = points.len();
        let (first, last) = (points[0].0, points[n - 1].0);
        let x: Vec<f64> = points.iter().map(|p| (2.0 * p.0 - first - last) / (last - first)).collect();
        let y: Vec<f64> = points.iter().map(|p| p.1).collect();
        let digit = resolution(&y);
        let scale = y.iter().map(|y| y.abs()).fold(0.0, f64::max);
        let floor = n as f64 * digit.max(1e-9 * scale).powi(2);
        let weights = weights(&x, &y);
        let curves = curves(points, &x, LASTS);
        let (staircases, noises, prices) = (staircases(points), Vec::new(), Penalties::of(n));
        let mut sweep = Sweep { curves, staircases, noises, prices, floor, x, y, weights };
        let lasts = |place: &usize| *place >= LASTS && place + LASTS <= n;
        let parts: Vec<Part> = (0..n)
            .map(Part::Outlier)
            .chain((1..n - 1).map(Part::Bend))
            .chain((0..n).filter(lasts).map(Part::Jump))
            .chain((0..n).filter(lasts).flat_map(|from| {
                let ends = (from + LASTS..=from + LONGEST).filter(lasts);
                ends.map(move |to| Part::Level(from, to))
            }))
            .chain((0..sweep.staircases.len()).map(Part::Staircase))
            .collect();
        let noise = |correlation| {
            let length = |part: &Part| {
                let column = sweep.white(sweep.column(*part), correlation);
                (*part, dot(&column, &column))
            };
            Noise { correlation, parts: parts.iter().map(length).collect() }
        };
        sweep.noises = CORRELATIONS.map(noise).into();
        sweep
    }

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
        let smooth = &self.curves[curve];
        let white = |column: &Vec<f64>| self.white(column.clone(), noise.correlation);
        let fit = least_squares(&smooth.columns.iter().map(white).collect::<Vec<_>>(), &white(&self.y))?;
        Some(self.score(noise, fit.rss, self.price_of(noise, curve)))
    }

    /// What a curve costs with noise of that correlation.
    fn price_of(&self, noise: &Noise, curve: usize) -> f64 {
        let smooth = &self.curves[curve];
        (smooth.columns.len() - LINE) as f64 * self.prices.coefficient
            + smooth.sought as f64 * self.prices.bend
            + if noise.correlation > 0.0 { 0.0 } else { self.prices.independent }
    }

    /// The jumps of a model's staircase are not of one height: they have nothing to do with each other, and its places may be wrong.
    fn is_uneven(&self, model: &Model) -> bool {
        let stairs = model.parts.iter().find_map(|part| match part {
            Part::Staircase(at) => Some(*at),
            _ => None,
        });
        let Some(stairs) = stairs else { return false };
        let places = &self.staircases[stairs].places;
        let smooth = &self.curves[model.curve].columns;
        let rest: Vec<Part> = model.parts.iter().copied().filter(|part| *part != Part::Staircase(stairs)).collect();
        let fit = |parts: &[Part]| {
            let columns = parts.iter().chain(&rest).map(|part| self.column(*part)).chain(smooth.iter().cloned());
            let columns: Vec<Vec<f64>> = columns.map(|column| self.white(column, model.correlation)).collect();
            let fitted = least_squares(&columns, &self.white(self.y.clone(), model.correlation))?;
            Some((fitted.rss, columns.len()))
        };
        let own: Vec<Part> = places.iter().map(|place| Part::Jump(*place)).collect();
        let (Some((even, _)), Some((uneven, parameters))) = (fit(&[Part::Staircase(stairs)]), fit(&own)) else {
            return false;
        };
        let (more, freedom) = ((places.len() - 1) as f64, self.x.len().saturating_sub(parameters) as f64);
        freedom > 0.0 && f_tail((even - uneven) / more / ((uneven + self.floor) / freedom), more, freedom) < UNEVEN
    }

    fn has_stairs(&self, model: &Model) -> bool {
        model.parts.iter().any(|part| matches!(part, Part::Staircase(_)))
    }

    /// The parts of a model less the jump that is told least of all.
    fn without_least(&self, model: &Model, found: &Jumps) -> Option<Vec<Part>> {
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

    fn forget_staircases(&mut self) {
        for noise in &mut self.noises {
            noise.parts.retain(|(part, _)| !matches!(part, Part::Staircase(_)));
        }
    }

    /// A column by the size of the noise, less what its correlation says of each from the one before.
    fn white(&self, mut column: Vec<f64>, correlation: f64) -> Vec<f64> {
        column.iter_mut().zip(&self.weights).for_each(|(v, w)| *v *= w);
        for i in (1..column.len()).rev() {
            column[i] -= correlation * column[i - 1];
        }
        column[0] *= (1.0 - correlation * correlation).sqrt();
        column
    }

    /// From the curve with some parts on, the part that explains most for its price, and so on; the best model on the way.
    fn grow(&self, noise: &Noise, curve: usize, start: &[Part], jumps: bool) -> Model {
        let white = |column: Vec<f64>| self.white(column, noise.correlation);
        let smooth = &self.curves[curve];
        let residuals = white(self.y.clone());
        let sums = Sums::of(&residuals, self, noise);
        let mut growing = Growing {
            noise,
            q: Vec::new(),
            adds: noise.parts.iter().map(|(part, length)| (sums.along(*part, self), *length)).collect(),
            residuals,
            price: self.price_of(noise, curve),
        };
        for column in &smooth.columns {
            growing.add(white(column.clone()), self);
        }
        for part in start {
            growing.add(white(self.column(*part)), self);
            growing.price += self.price(*part);
        }
        let mut model = Model {
            correlation: noise.correlation,
            curve,
            parts: start.to_vec(),
            score: self.score(noise, dot(&growing.residuals, &growing.residuals), growing.price),
        };
        let mut best = model.clone();
        while model.parts.len() < PARTS.min(self.x.len() / 6) {
            let Some(part) = self.most(&growing, &model.parts, jumps) else { break };
            growing.add(white(self.column(part)), self);
            growing.price += self.price(part);
            model.parts.push(part);
            model.score = self.score(noise, dot(&growing.residuals, &growing.residuals), growing.price);
            if model.score > best.score {
                best = model.clone();
            } else if model.score < best.score - GIVE_UP {
                break;
            }
        }
        best
    }

    /// What a reader sees in a chart at once: jumps and outliers where a difference between neighbours is far from those around.
    /// Several of them close together hide each other from a search that takes one at a time.
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
            let back = places.get(at + 1).filter(|next| **next < place + LASTS && !has(Part::Outlier(place - 1)));
            let is_apart = (1..LASTS).all(|by| !has(Part::Jump(place.saturating_sub(by))));
            if let Some(back) = back {
                parts.extend((*place..*back).map(Part::Outlier));
            } else if *place >= LASTS && place + LASTS <= n && is_apart {
                parts.push(Part::Jump(*place));
            }
        }
        parts
    }

    /// Without the parts that, given the others, are not worth their price.
    fn prune(&self, mut model: Model) -> Model {
        let n = self.x.len();
        let smooth = &self.curves[model.curve].columns;
        let y = self.white(self.y.clone(), model.correlation);
        while !model.parts.is_empty() {
            let columns = model.parts.iter().map(|part| self.column(*part)).chain(smooth.iter().cloned());
            let columns: Vec<Vec<f64>> = columns.map(|column| self.white(column, model.correlation)).collect();
            let Some(fit) = least_squares(&columns, &y) else { break };
            let gains = model
                .parts
                .iter()
                .zip(&fit.losses)
                .map(|(part, loss)| self.price(*part) - 0.5 * n as f64 * (loss / (fit.rss + self.floor)).ln_1p());
            let Some((at, gain)) = gains.enumerate().max_by(|a, b| a.1.total_cmp(&b.1)) else { break };
            if gain <= 0.0 {
                break;
            }
            model.parts.remove(at);
            model.score += gain;
        }
        model
    }

    fn price(&self, part: Part) -> f64 {
        match part {
            Part::Jump(_) => self.prices.jump,
            Part::Level(..) => self.prices.level,
            Part::Bend(_) => self.prices.bend,
            Part::Outlier(_) => self.prices.outlier,
            Part::Staircase(at) if self.staircases[at].places.len() == 2 => self.prices.pair,
            Part::Staircase(_) => self.prices.staircase,
        }
    }

    /// The part that adds most to the likelihood, less its price.
    fn most(&self, growing: &Growing<'_>, parts: &[Part], jumps: bool) -> Option<Part> {
        let n = self.x.len() as f64;
        let taken = self.places(parts);
        let free = |place: &usize| taken.iter().all(|other| place.abs_diff(*other) >= LASTS);
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
            (*part, -0.5 * n * (1.0 - explained / rss).max(1e-300).ln() - self.price(*part))
        });
        gains.max_by(|a, b| a.1.total_cmp(&b.1)).map(|(part, _)| part)
    }

    /// The logarithm of the likelihood, less the price.
    fn score(&self, noise: &Noise, rss: f64, price: f64) -> f64 {
        let n = self.x.len() as f64;
        -0.5 * n * ((rss + self.floor) / n).ln() + 0.5 * (1.0 - noise.correlation.powi(2)).ln() - price
    }

    /// The positions of all jumps.
    fn places(&self, parts: &[Part]) -> Vec<usize> {
        let mut places: Vec<usize> = Vec::new();
        for part in parts {
            match part {
                Part::Jump(place) => places.push(*place),
                Part::Level(from, to) => places.extend([*from, *to]),
                Part::Staircase(at) => places.extend(&self.staircases[*at].places),
                Part::Bend(_) | Part::Outlier(_) => {}
            }
        }
        places.sort_unstable();
        places.dedup();
        places
    }

    fn column(&self, part: Part) -> Vec<f64> {
        let n = self.x.len();
        match part {
            Part::Jump(place) => (0..n).map(|i| if i >= place { 1.0 } else { 0.0 }).collect(),
            Part::Level(from, to) => (0..n).map(|i| if i >= from && i < to { 1.0 } else { 0.0 }).collect(),
            Part::Bend(place) => self.x.iter().map(|x| (x - self.x[place]).max(0.0)).collect(),
            Part::Outlier(place) => (0..n).map(|i| if i == place { 1.0 } else { 0.0 }).collect(),
            Part::Staircase(at) => {
                let places = &self.staircases[at].places;
                (0..n).map(|i| places.partition_point(|place| *place <= i) as f64).collect()
            }
        }
    }

    /// The jumps of a model, each with a height of its own.
    fn explain(&self, model: &Model, points: &[(f64, f64)]) -> Option<Jumps> {
        let n = self.x.len();
        let has_staircase = self.has_stairs(model);
        let mut places = self.places(&model.parts);
        let others: Vec<Part> =
            model.parts.iter().copied().filter(|p| matches!(p, Part::Bend(_) | Part::Outlier(_))).collect();
        let smooth = &self.curves[model.curve].columns;
        let fit = |places: &[usize]| {
            let jumps = places.iter().map(|place| Part::Jump(*place));
            let parts = jumps.chain(others.iter().copied()).map(|part| self.column(part));
            let columns: Vec<Vec<f64>> = parts.chain(smooth.iter().cloned()).collect();
            let white: Vec<Vec<f64>> = columns.iter().map(|c| self.white(c.clone(), model.correlation)).collect();
            Some((least_squares(&white, &self.white(self.y.clone(), model.correlation))?, columns))
        };
        // Each was placed before the later ones were known.
        if !has_staircase {
            for at in 0..places.len() {
                let near = (-2..=2).filter_map(|by| places[at].checked_add_signed(by));
                let moved = near.filter_map(|place| {
                    let mut moved = places.clone();
                    moved[at] = place;
                    let apart = moved.windows(2).all(|w| w[1] >= w[0] + LASTS) && place >= LASTS && place + LASTS <= n;
                    Some((fit(&moved).filter(|_| apart)?.0.rss, moved))
                });
                places = moved.min_by(|a, b| a.0.total_cmp(&b.0)).map_or(places.clone(), |(_, moved)| moved);
            }
        }
        // Where the point right after a jump is an outlier, the jump may as well be behind it, and there it is seen.
        for at in 0..places.len() {
            let behind = places[at] + 1;
            let is_free = behind + LASTS <= n && places.get(at + 1).is_none_or(|next| *next >= behind + LASTS);
            if is_free && others.contains(&Part::Outlier(places[at])) {
                places[at] = behind;
            }
        }
        let (fitted, columns) = fit(&places)?;
        let coefficients = fitted.coefficients();
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
        let at = |i: usize| columns.iter().zip(&coefficients).map(|(column, c)| column[i] * c.value).sum();
        let curve: Vec<f64> = (0..n).map(at).collect();
        let squares: f64 = self.y.iter().zip(&curve).map(|(y, c)| (y - c).powi(2)).sum();
        Some(Jumps {
            multiple: multiple(points, &jumps),
            jumps,
            outliers,
            curve,
            fluctuation: (squares / freedom).sqrt(),
        })
    }
}

impl Growing<'_> {
    /// Takes a column in; one that adds nothing changes nothing.
    fn add(&mut self, mut column: Vec<f64>, sweep: &Sweep) {
        let length = norm(&column);
        for _ in 0..2 {
            for unit in &self.q {
                let part = dot(unit, &column);
                subtract(&mut column, unit, part);
            }
        }
        let own = norm(&column);
        if own <= 1e-10 * length {
            return;
        }
        column.iter_mut().for_each(|v| *v /= own);
        let explained = dot(&column, &self.residuals);
        subtract(&mut self.residuals, &column, explained);
        let sums = Sums::of(&column, sweep, self.noise);
        for ((part, _), (along, own)) in self.noise.parts.iter().zip(&mut self.adds) {
            let of_part = sums.along(*part, sweep);
            *along -= explained * of_part;
            *own -= of_part * of_part;
        }
        self.q.push(column);
    }
}

/// Sums of a vector from each point to the end, of which its products with the columns of all parts are made.
struct Sums {
    own: Vec<f64>,
    ones: Vec<f64>,
    places: Vec<f64>,
}

impl Sums {
    fn of(v: &[f64], sweep: &Sweep, noise: &Noise) -> Sums {
        let phi = noise.correlation;
        let mut own: Vec<f64> = v.to_vec();
        own[0] *= (1.0 - phi * phi).sqrt();
        (0..own.len() - 1).for_each(|i| own[i] -= phi * v[i + 1]);
        own.iter_mut().zip(&sweep.weights).for_each(|(v, w)| *v *= w);
        let to_end = |mut sums: Vec<f64>| {
            (0..sums.len() - 1).rev().for_each(|i| sums[i] += sums[i + 1]);
            sums
        };
        let places = to_end(own.iter().zip(&sweep.x).map(|(u, x)| u * x).collect());
        Sums { ones: to_end(own.clone()), places, own }
    }

    /// The product with the column of a part.
    fn along(&self, part: Part, sweep: &Sweep) -> f64 {
        match part {
            Part::Jump(place) => self.ones[place],
            Part::Level(from, to) => self.ones[from] - self.ones[to],
            Part::Bend(place) => self.places[place] - sweep.x[place] * self.ones[place],
            Part::Outlier(place) => self.own[place],
            Part::Staircase(at) => sweep.staircases[at].places.iter().map(|place| self.ones[*place]).sum(),
        }
    }
}

/// The unit that all numbers are multiples of, half the digits being lost by rounding; 0 where they have no such unit.
fn resolution(y: &[f64]) -> f64 {
    let mut sorted = y.to_vec();
    sorted.sort_by(f64::total_cmp);
    let scale = sorted[0].abs().max(sorted[sorted.len() - 1].abs());
    let gaps: Vec<f64> = sorted.windows(2).map(|w| w[1] - w[0]).filter(|gap| *gap > 1e-9 * scale).collect();
    let unit = gaps.iter().copied().fold(f64::INFINITY, f64::min);
    let whole = |gap: &f64| (gap / unit - (gap / unit).round()).abs() < 1e-3;
    if unit.is_finite() && gaps.iter().all(whole) { unit } else { 0.0 }
}

/// One over the size of the noise along the axis: a line through the sizes of second differences, of which the largest, jumps and
/// outliers, count as no more than three times the usual one.
fn weights(x: &[f64], y: &[f64]) -> Vec<f64> {
    let sizes: Vec<f64> = (1..y.len() - 1).map(|i| pseudo_residual(x, y, i).abs()).collect();
    let usual = median(sizes.clone()).unwrap_or(0.0);
    if usual <= 0.0 {
        return vec![1.0; x.len()];
    }
    let sizes: Vec<f64> = sizes.iter().map(|size| size.min(3.0 * usual)).collect();
    let inner = &x[1..x.len() - 1];
    let Some(line) = least_squares(&[vec![1.0; inner.len()], inner.to_vec()], &sizes) else {
        return vec![1.0; x.len()];
    };
    let [at_middle, slope] = line.coefficients()[..] else { return vec![1.0; x.len()] };
    let mean = sizes.iter().sum::<f64>() / sizes.len() as f64;
    let size = |x: f64| (at_middle.value + slope.value * x).max(0.2 * mean) / mean;
    x.iter().map(|x| 1.0 / size(*x)).collect()
}

/// How far a point is from the line between its neighbours, in units of the noise: T. Gasser, L. Sroka and C. Jennen-Steinmetz,
/// "Residual Variance and Residual Pattern in Nonlinear Regression", Biometrika 73 (1986), 625–633.
fn pseudo_residual(x: &[f64], y: &[f64], i: usize) -> f64 {
    let a = (x[i + 1] - x[i]) / (x[i + 1] - x[i - 1]);
    let b = 1.0 - a;
    (a * y[i - 1] + b * y[i + 1] - y[i]) / (a * a + b * b + 1.0).sqrt()
}

/// Equal steps right after, or right at, the multiples of each number that has two of them at least within the sweep.
fn staircases(points: &[(f64, f64)]) -> Vec<Staircase> {
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

/// The number whose multiples are exactly where the jumps are; `None` if there is no such number.
fn multiple(points: &[(f64, f64)], jumps: &[Jump]) -> Option<f64> {
    let at: Vec<usize> = jumps.iter().map(|jump| jump.at + 1).collect();
    staircases(points).into_iter().filter(|stairs| stairs.places == at).map(|stairs| stairs.multiple).reduce(f64::max)
}

#[cfg(test)]
mod tests;
