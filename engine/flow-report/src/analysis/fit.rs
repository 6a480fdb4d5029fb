//! Which curve describes one column over another: the step `flow/fit`. The numbers come from flow-core, the words from
//! the catalogues.

use std::collections::BTreeMap;

use flow_core::Metric;
use flow_core::reason::BuiltinFault;
use flow_core::stats::{Choice, Coefficient, FittedModel, Model, choose};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::jumps::Sweeps;
use super::{Points, TextTable, behind, behind_difference, curves, give_or_take, metric, unit, within};
use crate::bounds::{FIT, FIT_OFF, SIGNIFICANT};
use crate::chart::Cloud;
use crate::format::{Format, term};
use crate::safe;
use crate::table::{Grid, Names, Table, dash};
use crate::words::{Args, Locale, kind};

/// An intercept below this share of the smallest measured value does not matter.
const NEGLIGIBLE: f64 = 0.05;
/// Points of a drawn curve.
const DRAWN: u32 = 100;

/// Parameters (`with:`) of a `flow/fit` step.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct FitWith {
    /// The `flow/table` step that has the columns.
    #[schemars(extend("x-flow" = "step"))]
    pub(crate) table: String,
    /// The column to explain.
    pub(crate) y: String,
    /// The column that explains it. By default the last axis of the rows.
    #[serde(default)]
    pub(crate) x: Option<String>,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Fits {
    pub(super) y: String,
    pub(super) x: String,
    /// The factors that convert a `y` and an `x` to the units shown.
    factors: (f64, f64),
    /// The unit in which `y` is shown.
    unit: String,
    pub(super) curves: Vec<Fit>,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Fit {
    /// Name of the curve, if there are several.
    pub(super) scope: Option<String>,
    /// In the units shown.
    points: Vec<(f64, f64)>,
    /// The row of each point, if the rows differ by something other than the explaining column.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    rows: Vec<String>,
    /// `None` if there are too few points.
    choice: Option<Choice>,
}

pub(super) fn fits(with: &FitWith, table: &Table) -> Result<Fits, BuiltinFault> {
    let x = with.x.clone().or_else(|| table.rows.last().cloned());
    let x = x.ok_or_else(|| BuiltinFault::FitOverNothing { table: with.table.clone() })?;
    let curves = curves(table, &with.y, &x)?;
    let fit = |(scope, Points { points, rows, .. })| Fit { scope, choice: choose(&points), points, rows };
    let curves = curves.into_iter().map(fit);
    let factor = |name: &str| table.columns.iter().find(|c| c.name == name).map_or(1.0, |c| c.show.factor);
    let factors = (factor(&with.y), factor(&x));
    Ok(Fits { y: with.y.clone(), x, factors, unit: unit(table, &with.y), curves: curves.collect() })
}

impl Fit {
    /// Whether the column does not depend on `x`: neither the slope of the line nor that of the chosen curve differs
    /// from 0, and the points go up and down. It then does not matter which curve is nearest to the points.
    fn is_flat(&self) -> bool {
        let Some(choice) = &self.choice else { return false };
        let is_none = |fit: &FittedModel| fit.coefficients.get(1).is_some_and(|c| c.value.abs() <= c.half);
        choice.of(Model::Affine).is_some_and(is_none)
            && course(&self.points) == "both"
            && matches!(choice.best().model, Model::Affine | Model::Inverse)
            && is_none(choice.best())
    }
}

impl Fits {
    /// Metrics for other steps: the smallest R² of the chosen curves and, if there is one set of points, the straight
    /// line through it, in the units of the metrics.
    pub(super) fn metrics(&self) -> BTreeMap<String, Metric> {
        let chosen = self.curves.iter().filter_map(|curve| curve.choice.as_ref());
        let least = chosen.map(|choice| choice.best().r2).reduce(f64::min);
        let mut metrics: BTreeMap<String, Metric> =
            least.map(|r2| ("r2".to_owned(), metric(r2, ""))).into_iter().collect();
        if let [Fit { choice: Some(choice), .. }] = &self.curves[..]
            && let Some(line) = choice.of(Model::Affine)
            && let [intercept, slope] = line.coefficients[..]
        {
            let (y, x) = self.factors;
            metrics.insert("intercept".into(), metric(intercept.value / y, ""));
            metrics.insert("slope".into(), metric(slope.value * x / y, ""));
            metrics.insert("line_r2".into(), metric(line.r2, ""));
        }
        metrics
    }

    /// `jumps` holds the jump analyses of the same table.
    pub(super) fn sentences(&self, jumps: &[&Sweeps], names: &Names<'_>) -> Vec<String> {
        let sentence = |curve: &Fit| {
            self.sentence_without_jumps(curve, jumps, names).unwrap_or_else(|| self.sentence(curve, names))
        };
        let scoped = |curve: &Fit| names.scoped(&curve.scope, names.capital(sentence(curve)));
        self.curves.iter().map(scoped).collect()
    }

    pub(super) fn in_short(&self, jumps: &[&Sweeps], names: &Names<'_>) -> Vec<String> {
        let told = |curve: &Fit| {
            let told = self.shape_sentences(curve, names);
            // If no curve describes the points, their distance from one says nothing.
            let best = curve.choice.as_ref().map(Choice::best).filter(|_| told.len() > 1);
            let off = best.and_then(|best| off(best, &curve.points, |show, off| names.words.figure(show, off)));
            let off = off.map(|off| {
                let args = Args::new().with("points", curve.points.len().to_string()).with("off", off);
                names.words.text("fit-furthest", &args)
            });
            names.words.sentences(&told.into_iter().take(1).chain(off).collect::<Vec<_>>())
        };
        let shape = |curve: &Fit| self.sentence_without_jumps(curve, jumps, names).unwrap_or_else(|| told(curve));
        self.curves.iter().map(|curve| names.scoped(&curve.scope, names.capital(shape(curve)))).collect()
    }

    /// The sentence for a curve whose shape is different without its jumps: an apparent bend is one of them.
    fn sentence_without_jumps(&self, curve: &Fit, jumps: &[&Sweeps], names: &Names<'_>) -> Option<String> {
        let (choice, _) = self.without_jumps(curve, jumps)?;
        let args = names.over(&self.y, &self.x);
        Some(names.words.text("fit-without-jumps", &args.with("curve", kind(&choice.best().model))))
    }

    /// The curve through its points without its jumps, if that is another one than with them.
    fn without_jumps(&self, curve: &Fit, jumps: &[&Sweeps]) -> Option<(Choice, Vec<(f64, f64)>)> {
        let leveled = jumps.iter().find_map(|jumps| jumps.leveled(&self.y, &self.x, curve.scope.as_deref()))?;
        let choice = choose(&leveled)?;
        let is_another = curve.choice.as_ref()?.best().model != choice.best().model;
        (is_another && choice.best().r2 >= FIT).then_some((choice, leveled))
    }

    fn sentence(&self, curve: &Fit, names: &Names<'_>) -> String {
        names.words.sentences(&self.shape_sentences(curve, names))
    }

    /// Its shape, and how well that fits.
    fn shape_sentences(&self, curve: &Fit, names: &Names<'_>) -> Vec<String> {
        let say = |key: &str, args: Args| names.words.text(key, &args);
        let about = || names.over(&self.y, &self.x);
        let Some(choice) = &curve.choice else {
            let same = curve.points.windows(2).all(|w| w[0].1 == w[1].1) && curve.points.len() > 1;
            return vec![say(
                if same { "fit-constant" } else { "fit-few" },
                about().count("points", curve.points.len()),
            )];
        };
        let best = choice.best();
        let unit = behind_difference(&self.unit, names.words);
        let figure = |c: Coefficient, unit: &str| give_or_take(c.value, c.half) + unit;
        let level = |at: usize| figure(best.coefficients[at], &behind(&self.unit));
        let change = |at: usize| figure(best.coefficients[at], &unit);
        let slope = |at: usize| {
            let c = best.coefficients[at];
            figure(Coefficient { value: c.value.abs(), ..c }, &unit)
        };
        let line = choice.of(Model::Affine);
        let flat = curve.is_flat();
        if best.r2 < FIT && !flat {
            let args = about().with("r2", r2(best.r2)).with("points", curve.points.len().to_string());
            return vec![say("fit-none", args.with("course", course(&curve.points)))];
        }
        // If values span decades, R² depends only on the largest points.
        let furthest = furthest(best, &curve.points);
        if furthest.is_finite() && furthest > FIT_OFF && !flat {
            let curve_name = names.words.word(&format!("fit-curve-{}", kind(&best.model)));
            let off = off(best, &curve.points, |show, off| names.words.figure(show, off)).unwrap_or_default();
            return vec![say("fit-far", about().with("curve", curve_name).with("off", off))];
        }
        let up = |at: usize| best.coefficients[at].value >= 0.0;
        let mut told = vec![match best.model {
            _ if flat => {
                let slope = line.map_or_else(String::new, |line| figure(line.coefficients[1], &unit));
                return vec![say("fit-no-slope", about().with("slope", slope))];
            }
            Model::Proportional => {
                let args = about().with("slope", change(0));
                match possible_intercept(choice, &curve.points) {
                    Some(intercept) => {
                        let intercept = figure(*intercept, &behind(&self.unit));
                        let args = args.with("points", curve.points.len().to_string()).with("intercept", intercept);
                        say("fit-proportional-so-far", args)
                    }
                    None => say("fit-proportional", args),
                }
            }
            Model::Affine => {
                let args = about().with("slope", slope(1)).flag("rises", up(1)).with("intercept", level(0));
                say("fit-affine", args)
            }
            Model::Inverse => {
                let (sign, shared) = term(change(1));
                let stays = best.coefficients[0].value.abs() > best.coefficients[0].half;
                let args = about().with("fixed", level(0)).with("sign", sign).with("shared", shared);
                say("fit-inverse", args.flag("constant", stays))
            }
            Model::Saturating => {
                let args = about().with("from", level(0)).flag("rises", up(1)).with("by", slope(1));
                say("fit-saturating", args.with("knot", knot(best)))
            }
            Model::Broken => {
                let args = about().with("before", change(1)).with("after", change(2));
                say("fit-broken", args.with("knot", knot(best)))
            }
            Model::Quadratic => say("fit-quadratic", about()),
            Model::Cubic => say("fit-cubic", about()),
        }];
        let args = Args::new().with("r2", r2(best.r2)).with("points", curve.points.len().to_string());
        told.push(match off(best, &curve.points, |show, off| names.words.figure(show, off)) {
            Some(off) => say("fit-explains", args.with("off", off)),
            None => say("fit-explains-of-zero", args),
        });
        let adds = |to, model| choice.adds(to, model).filter(|p| *p > SIGNIFICANT);
        match best.model {
            Model::Proportional | Model::Affine => {
                if let Some(p) = adds(Model::Affine, Model::Quadratic) {
                    told.push(say("fit-parabola-adds-nothing", Args::new().with("p", Format::p_value(p).relation(p))));
                }
            }
            Model::Inverse | Model::Saturating | Model::Broken | Model::Quadratic | Model::Cubic => {
                let line = choice.of(Model::Affine).and_then(|line| more(line, choice));
                told.extend(line.map(|more| say("fit-line-is-not-enough", Args::new().with("more", more))));
            }
        }
        told
    }

    /// `jumps` holds the jump analyses of the same table.
    pub(super) fn tables(&self, jumps: &[&Sweeps], names: &Names<'_>) -> Vec<TextTable> {
        let words = names.words;
        let scoped = self.curves.iter().any(|curve| curve.scope.is_some());
        let heads = [
            ("analysis-points", true),
            ("fit-curve", false),
            ("fit-coefficients", false),
            ("fit-r2", true),
            ("fit-adjusted-r2", true),
            ("fit-off", true),
        ];
        let heads = heads.into_iter().chain([("fit-aicc", true), ("fit-p", true), ("fit-chosen", false)]);
        let mut grid = Grid::default();
        if scoped {
            grid.heads.push((words.word("analysis-of"), false));
        }
        grid.heads.extend(heads.map(|(key, right)| (words.word(key), right)));
        for curve in &self.curves {
            let scope = || scoped.then(|| curve.scope.as_deref().map_or_else(String::new, safe::text));
            if curve.choice.is_none() {
                let nothing = std::iter::repeat_n(dash(), 8);
                grid.rows.push(scope().into_iter().chain([curve.points.len().to_string()]).chain(nothing).collect());
            }
            let cells = |fit: &FittedModel, points: &[(f64, f64)], title: String| {
                let own = [points.len().to_string(), title, coefficients(fit), r2(fit.r2), r2(fit.adjusted_r2)];
                scope().into_iter().chain(own).chain([off(fit, points, Format::cell).unwrap_or_else(dash)])
            };
            for (at, fit) in curve.choice.iter().flat_map(|choice| choice.fits.iter().enumerate()) {
                let Some(choice) = &curve.choice else { continue };
                let p = match fit.model {
                    Model::Proportional => choice.adds(Model::Proportional, Model::Affine),
                    model => choice.adds(Model::Affine, model),
                };
                let title = words.word(&format!("fit-curve-{}", kind(&fit.model)));
                let chosen = if at == choice.chosen && !curve.is_flat() { "✓".into() } else { String::new() };
                let compared = [more(fit, choice).unwrap_or_else(dash), p.map_or_else(dash, p_value)];
                grid.rows.push(cells(fit, &curve.points, title).chain(compared).chain([chosen]).collect());
            }
            if let Some((choice, points)) = self.without_jumps(curve, jumps) {
                let fit = choice.best();
                let curve = words.word(&format!("fit-curve-{}", kind(&fit.model)));
                let title = words.text("fit-curve-without-jumps", &Args::new().with("curve", curve));
                // This curve describes other points than the rows above, so its probability cannot be compared with
                // theirs.
                let compared = [dash(), dash(), String::new()];
                grid.rows.push(cells(fit, &points, title).chain(compared).collect());
            }
        }
        if grid.rows.is_empty() {
            return Vec::new();
        }
        let args = Args::new().with("column", names.head(&self.y)).with("axis", names.inline(&self.x));
        let title = words.text("fit-title", &args);
        let mut notes = vec![words.word("fit-note")];
        if self.curves.iter().any(Fit::is_flat) {
            notes.push(words.word("fit-none-chosen"));
        }
        if self.curves.iter().any(|curve| curve.choice.as_ref().is_some_and(|choice| choice.relative)) {
            notes.push(self.in_proportion(words));
        }
        vec![TextTable { title, grid, notes }]
    }

    /// Names the curves whose errors count relative to the measured values.
    fn in_proportion(&self, words: Locale<'_>) -> String {
        let relative = |curve: &&Fit| curve.choice.as_ref().is_some_and(|choice| choice.relative);
        let scopes = self.curves.iter().filter(relative).filter_map(|curve| curve.scope.as_deref().map(safe::text));
        let scopes: Vec<String> = scopes.collect();
        let args = Args::new().flag("all", scopes.is_empty()).with("curves", words.points(&scopes));
        words.text("fit-relative", &args)
    }

    pub(super) fn clouds(&self) -> (Vec<Cloud>, &str, &str) {
        let cloud = |curve: &Fit| Cloud {
            name: curve.scope.clone().unwrap_or_default(),
            points: curve.points.clone(),
            of: curve.rows.clone(),
            curve: match &curve.choice {
                Some(choice) if !curve.is_flat() => drawn(choice.best(), &curve.points),
                _ => Vec::new(),
            },
        };
        (self.curves.iter().map(cloud).collect(), &self.x, &self.y)
    }
}

fn drawn(fit: &FittedModel, points: &[(f64, f64)]) -> Vec<(f64, f64)> {
    let ends = (points.first(), points.last());
    let (Some((first, _)), Some((last, _))) = ends else { return Vec::new() };
    // Where a hyperbola is steep, its points are close together.
    let x = |n: u32| {
        let part = f64::from(n) / f64::from(DRAWN);
        if *first > 0.0 { first * (last / first).powf(part) } else { first + (last - first) * part }
    };
    (0..=DRAWN).map(|n| (x(n), fit.at(x(n)))).collect()
}

/// The intercept that the points do not distinguish from 0, if it may matter.
fn possible_intercept<'a>(choice: &'a Choice, points: &[(f64, f64)]) -> Option<&'a Coefficient> {
    let intercept = choice.of(Model::Affine)?.coefficients.first()?;
    let least = points.iter().map(|(_, y)| y.abs()).filter(|y| *y > 0.0).fold(f64::INFINITY, f64::min);
    Some(intercept).filter(|intercept| intercept.value.abs() + intercept.half > NEGLIGIBLE * least)
}

/// Whether each point is above the one before, or each below it.
fn course(points: &[(f64, f64)]) -> &'static str {
    if points.is_sorted_by(|a, b| a.1 < b.1) {
        "up"
    } else if points.is_sorted_by(|a, b| a.1 > b.1) {
        "down"
    } else {
        "both"
    }
}

fn coefficients(fit: &FittedModel) -> String {
    let named: &[&str] = match fit.model {
        Model::Proportional => &["b"],
        _ => &["a", "b", "c", "d"],
    };
    let each =
        named.iter().zip(&fit.coefficients).map(|(name, c)| format!("{name} = {}", give_or_take(c.value, c.half)));
    let at = fit.knot.map(|_| format!("k = {}", knot(fit)));
    each.chain(at).collect::<Vec<_>>().join(", ")
}

fn knot(fit: &FittedModel) -> String {
    let knot = fit.knot.unwrap_or_default();
    within(knot, 0.5 * knot.abs()).0
}

fn r2(value: f64) -> String {
    // 0.99996 must not read as 1.
    let decimals =
        if value < 1.0 && value > 0.9 { (2.0 - (1.0 - value).log10().floor()).clamp(3.0, 6.0) as u8 } else { 3 };
    let shown = Format { decimals, factor: 1.0, ..Format::default() };
    shown.number(value)
}

/// The largest deviation of a point from a curve, as a share of the measured value.
fn furthest(fit: &FittedModel, points: &[(f64, f64)]) -> f64 {
    points.iter().map(|(x, y)| (fit.at(*x) / y - 1.0).abs()).fold(0.0, f64::max)
}

/// The largest deviation as text; `None` if a measured value is 0, because it has no share.
fn off(fit: &FittedModel, points: &[(f64, f64)], shown: impl Fn(&Format, f64) -> String) -> Option<String> {
    let off = furthest(fit, points);
    off.is_finite().then(|| shown(&Format::for_unit("ratio", [off].into_iter()), off))
}

fn p_value(p: f64) -> String {
    Format::p_value(p).number(p)
}

/// How far its AICc is above the smallest one of the curves that may be chosen.
fn more(fit: &FittedModel, choice: &Choice) -> Option<String> {
    let show = Format { decimals: 1, factor: 1.0, unit: "AICc".into(), ..Format::default() };
    choice.above_min(fit).map(|more| show.number(more))
}
