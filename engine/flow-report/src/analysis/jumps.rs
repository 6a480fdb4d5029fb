//! Where a column jumps along the rows, and how much it fluctuates: the step `flow/jumps`. The numbers come from
//! flow-core.

use std::collections::BTreeMap;
use std::sync::OnceLock;

use flow_core::Metric;
use flow_core::reason::BuiltinFault;
use flow_core::stats::{Jumps, find_jumps, spread_tail};
use indexmap::{IndexMap, IndexSet};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::multiples::AtMultiples;
use super::{TextTable, behind_difference, curves, metric, share, within};
use crate::bounds::SIGNIFICANT;
use crate::chart::Cloud;
use crate::format::Format;
use crate::safe;
use crate::steps::{Step, steps};
use crate::table::{Grid, GridColumns, Names, Table, dash};
use crate::words::Args;

/// Parameters (`with:`) of a `flow/jumps` step.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct JumpsWith {
    /// The `flow/table` step that has the column. flow looks for jumps along the last axis of its rows.
    #[schemars(extend("x-flow" = "step"))]
    pub(crate) table: String,
    /// The column in which to look for jumps.
    pub(crate) y: String,
    /// If set, flow also tests whether jumps are at the multiples of this number more often than by chance.
    #[schemars(range(min = 2))]
    pub(crate) multiple: Option<u32>,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Sweeps {
    pub(super) y: String,
    x: String,
    /// The format of a difference of `y`.
    #[serde(default)]
    show: Format,
    /// The number at whose multiples jumps are expected.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    expected: Option<u32>,
    pub(super) curves: Vec<Sweep>,
    /// Differences between curves, searched once.
    #[serde(skip)]
    differences: OnceLock<Vec<Sweep>>,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Sweep {
    /// Name of the curve, if there are several.
    pub(super) scope: Option<String>,
    /// The part of the split, and the point of the other axes.
    #[serde(default)]
    part: Option<String>,
    #[serde(default)]
    of: Vec<String>,
    /// In the units shown.
    points: Vec<(f64, f64)>,
    /// The `x` of each point as written.
    names: Vec<String>,
    /// `None` if there are too few points.
    found: Option<Jumps>,
}

pub(super) fn sweeps(with: &JumpsWith, table: &Table) -> Result<Sweeps, BuiltinFault> {
    let x = table.rows.last().cloned();
    let x = x.ok_or_else(|| BuiltinFault::JumpsOverNothing { table: with.table.clone() })?;
    let curves = curves(table, &with.y, &x)?.into_iter().map(|(scope, points)| Sweep {
        scope,
        part: points.part,
        of: points.of,
        found: find_jumps(&points.points),
        points: points.points,
        names: points.names,
    });
    Ok(Sweeps {
        y: with.y.clone(),
        show: difference(table, &with.y),
        expected: with.multiple,
        curves: curves.collect(),
        x,
        differences: OnceLock::new(),
    })
}

/// The format of a difference of two numbers of a column.
fn difference(table: &Table, column: &str) -> Format {
    let shown = table.columns.iter().find(|c| c.name == column && c.derived.is_none());
    let show = shown.map(|column| column.show.clone()).unwrap_or_default();
    // Points are already in the unit of the column.
    Format { factor: 1.0, signed: true, unit: show.unit.clone(), ..show.difference() }
}

impl Sweep {
    /// Its jumps.
    fn steps(&self) -> Vec<Step> {
        self.found.as_ref().map(|found| steps(&self.points, found)).unwrap_or_default()
    }

    /// The number at whose multiples all its jumps are.
    fn multiple(&self) -> Option<f64> {
        let found = self.found.as_ref()?;
        let same = self.steps().iter().map(|step| step.at).eq(found.jumps.iter().map(|jump| jump.at));
        found.multiple.filter(|_| same)
    }

    /// The places where it falls, or those where it rises.
    fn places(&self, falls: bool) -> Vec<&str> {
        let there = self.steps().into_iter().filter(|step| (step.by < 0.0) == falls);
        there.map(|step| self.names[step.at + 1].as_str()).collect()
    }

    fn level(&self) -> f64 {
        self.points.iter().map(|p| p.1.abs()).sum::<f64>() / self.points.len() as f64
    }

    /// The fluctuation about its curve, as a share of its level.
    fn fluctuation(&self) -> Option<f64> {
        let level = self.level();
        self.found.as_ref().map(|found| found.fluctuation / level).filter(|share| share.is_finite())
    }

    /// Deviations of its points from the curve, as shares of its level. They are scaled up to the fluctuation, because
    /// the curve follows some of the noise. Outliers, through which the curve goes, are left out.
    fn scatter(&self) -> Option<Vec<f64>> {
        let (found, level) = (self.found.as_ref()?, self.level());
        let off: Vec<f64> = self.points.iter().zip(&found.curve).map(|(point, curve)| point.1 - curve).collect();
        let mean = (off.iter().map(|v| v * v).sum::<f64>() / off.len() as f64).sqrt();
        let off = off.into_iter().filter(|off| off.abs() > 1e-9 * level);
        Some(off.map(|off| off * found.fluctuation / mean / level).collect())
    }
}

/// Compares the fluctuation of curves: the lowest and the highest share of the level, and the probability that chance
/// makes them differ as much.
struct FluctuationTest<'a> {
    low: (f64, &'a str),
    high: (f64, &'a str),
    p: f64,
}

/// Differences of curves between the two parts of a split: second minus first. A jump that both have is in none of
/// them.
struct Difference<'a> {
    parts: [&'a str; 2],
    curves: &'a [Sweep],
}

/// The number of jumps of these curves.
fn jumps(curves: &[Sweep]) -> usize {
    curves.iter().map(|curve| curve.steps().len()).sum()
}

impl Sweeps {
    fn difference(&self) -> Option<Difference<'_>> {
        let parts: IndexSet<&str> = self.curves.iter().filter_map(|curve| curve.part.as_deref()).collect();
        let [a, b] = Vec::from_iter(parts)[..] else { return None };
        let curves = self.differences.get_or_init(|| self.differences_of(a, b));
        (!curves.is_empty()).then_some(Difference { parts: [a, b], curves })
    }

    fn differences_of(&self, a: &str, b: &str) -> Vec<Sweep> {
        let of = |part| self.curves.iter().filter(move |curve| curve.part.as_deref() == Some(part));
        let pairs = of(a).filter_map(|first| Some((first, of(b).find(|second| second.of == first.of)?)));
        let curves = pairs.filter(|(first, second)| first.names == second.names).map(|(first, second)| {
            let points = first.points.iter().zip(&second.points).map(|((x, first), (_, second))| (*x, second - first));
            let points: Vec<(f64, f64)> = points.collect();
            Sweep {
                scope: Some([&*first.of.join(", "), &format!("{b} − {a}")].join(if first.of.is_empty() {
                    ""
                } else {
                    ", "
                })),
                part: None,
                of: first.of.clone(),
                found: find_jumps(&points),
                names: first.names.clone(),
                points,
            }
        });
        curves.filter(|curve| curve.found.is_some()).collect()
    }

    fn alike(&self) -> Option<FluctuationTest<'_>> {
        let told: Vec<&Sweep> = self.curves.iter().filter(|curve| curve.fluctuation().is_some()).collect();
        let mut all: Vec<(f64, &str)> =
            told.iter().filter_map(|curve| Some((curve.fluctuation()?, curve.scope.as_deref()?))).collect();
        all.sort_by(|a, b| a.0.total_cmp(&b.0));
        let [low, .., high] = all[..] else { return None };
        let scatter: Option<Vec<Vec<f64>>> = told.into_iter().map(Sweep::scatter).collect();
        Some(FluctuationTest { low, high, p: spread_tail(&scatter?)? })
    }

    /// Metrics for other steps.
    pub(super) fn metrics(&self) -> BTreeMap<String, Metric> {
        let mut metrics = BTreeMap::from([("jumps".to_owned(), metric(jumps(&self.curves) as f64, ""))]);
        if let [Sweep { found: Some(Jumps { multiple: Some(multiple), .. }), .. }] = &self.curves[..] {
            metrics.insert("multiple".into(), metric(*multiple, ""));
        }
        let difference = self.difference().map(|difference| metric(jumps(difference.curves) as f64, ""));
        metrics.extend(difference.map(|jumps| ("difference_jumps".to_owned(), jumps)));
        let most = self.curves.iter().filter_map(Sweep::fluctuation).reduce(f64::max);
        metrics.extend(most.map(|most| ("fluctuation".to_owned(), metric(most, "ratio"))));
        metrics
    }

    pub(super) fn sentences(&self, names: &Names<'_>) -> Vec<String> {
        let of = |curve: &Sweep| names.scoped(&curve.scope, names.capital(self.sentence(curve, names)));
        let mut told: Vec<String> = self.curves.iter().map(of).collect();
        told.extend(self.at_multiples(names));
        told.extend(self.differs(names));
        if let Some(FluctuationTest { low, high, p }) = self.alike() {
            let figure = |value: f64| names.words.figure(&share(value), value);
            let args = Args::new().with("column", names.inline(&self.y));
            let args = args.with("p", Format::p_value(p).relation(p));
            let args = args.with("low", figure(low.0)).with("min", safe::text(low.1));
            let args = args.with("high", figure(high.0)).with("max", safe::text(high.1));
            let key = if p < SIGNIFICANT { "jumps-fluctuate" } else { "jumps-fluctuate-alike" };
            told.push(names.capital(names.words.text(key, &args)));
        }
        told
    }

    /// Where the curves jump, in one sentence for all curves that jump at the same places. If a split distinguishes the
    /// curves, whether their difference jumps.
    pub(super) fn in_short(&self, names: &Names<'_>) -> Vec<String> {
        if let Some(differs) = self.differs(names) {
            return [differs].into_iter().chain(self.at_multiples(names)).collect();
        }
        let of = self.groups();
        let of = of.iter().map(|curves| {
            let scopes: Vec<String> =
                curves.iter().filter_map(|curve| curve.scope.as_deref().map(safe::text)).collect();
            let said = names.capital(self.jumped(curves, names));
            match scopes.is_empty() {
                true => said,
                false => {
                    names.words.text("scoped", &Args::new().with("scope", names.words.list(&scopes)).with("text", said))
                }
            }
        });
        // The sentence about multiples comes second.
        let mut all: Vec<String> = of.collect();
        let multiples = self.at_multiples(names);
        all.splice(1.min(all.len())..1.min(all.len()), multiples);
        all
    }

    /// Groups of curves that jump at the same places.
    fn groups(&self) -> Vec<Vec<&Sweep>> {
        let mut groups: IndexMap<[Vec<&str>; 2], Vec<&Sweep>> = IndexMap::new();
        for curve in self.curves.iter().filter(|curve| curve.found.is_some()) {
            groups.entry([true, false].map(|falls| curve.places(falls))).or_default().push(curve);
        }
        groups.into_values().collect()
    }

    /// The number of sentences of `in_short`.
    pub(super) fn sentences_in_short(&self) -> usize {
        let of = if self.difference().is_some() { 1 } else { self.groups().len() };
        of + self.expected().len()
    }

    /// The falls and the rises of all curves, counted at the multiples of the expected number.
    fn expected(&self) -> Vec<AtMultiples> {
        let Some(multiple) = self.expected else { return Vec::new() };
        let (mut falls, mut rises) = (AtMultiples::new("falls"), AtMultiples::new("rises"));
        for curve in &self.curves {
            let at: Vec<bool> = curve.points.iter().map(|(x, _)| x % f64::from(multiple) == 0.0).collect();
            // A jump is between two points: a fall leads to a multiple, and a rise leads away from one.
            let to: Vec<bool> = at.windows(2).map(|ends| ends[1]).collect();
            let from: Vec<bool> = at.windows(2).map(|ends| ends[0]).collect();
            let (down, up): (Vec<Step>, Vec<Step>) = curve.steps().into_iter().partition(|step| step.by < 0.0);
            falls.add(down.iter().map(|step| step.at), &to);
            rises.add(up.iter().map(|step| step.at), &from);
        }
        [falls, rises].into_iter().filter(|found| !found.chances.is_empty()).collect()
    }

    /// Whether falls and rises are at multiples of the expected number more often than by chance.
    fn at_multiples(&self, names: &Names<'_>) -> Vec<String> {
        let multiple = self.expected.unwrap_or_default().to_string();
        let say = |found: AtMultiples| {
            let p = found.p();
            let args = Args::new().with("what", found.what).flag("more", p < SIGNIFICANT);
            let args = args.with("there", found.there.to_string()).with("of", found.chances.len().to_string());
            let args = args.with("chance", found.by_chance()).with("p", Format::p_value(p).relation(p));
            names.words.text("jumps-at-multiples", &args.with("multiple", multiple.clone()))
        };
        self.expected().into_iter().map(say).collect()
    }

    fn differs(&self, names: &Names<'_>) -> Option<String> {
        let difference = self.difference()?;
        let args = names.over(&self.y, &self.x);
        let point = |part: &str| safe::text(&names.table.point(part).unwrap_or_else(|| part.to_owned()));
        let [a, b] = difference.parts.map(point);
        let args = args.with("a", a).with("b", b).count("jumps", jumps(difference.curves));
        Some(names.capital(names.words.text("jumps-difference", &args)))
    }

    fn sentence(&self, curve: &Sweep, names: &Names<'_>) -> String {
        let about = || names.over(&self.y, &self.x);
        if curve.fluctuation().is_none() {
            return names.words.text("jumps-few", &about().count("points", curve.points.len()));
        }
        self.jumped(&[curve], names)
    }

    /// Where curves with the same jumps jump. For a single curve, also how far.
    fn jumped(&self, curves: &[&Sweep], names: &Names<'_>) -> String {
        let say = |key: &str, args: Args| names.words.text(key, &args);
        let about = || names.over(&self.y, &self.x);
        let [first, ..] = curves else { return String::new() };
        let all: Vec<Step> = curves.iter().flat_map(|curve| curve.steps()).collect();
        if all.is_empty() {
            let most = curves.iter().filter_map(|curve| curve.fluctuation()).fold(0.0, f64::max);
            let times = first.found.as_ref().map_or(0, Jumps::min_significant).to_string();
            let fluctuation = names.words.figure(&share(most), most);
            return say("jumps-none", about().with("fluctuation", fluctuation).with("times", times));
        }
        let unit = behind_difference(&self.show.unit, names.words);
        let side = |falls: bool| {
            let places = first.places(falls);
            let steps: Vec<&Step> = all.iter().filter(|step| (step.by < 0.0) == falls).collect();
            let [one] = curves else {
                let places: Vec<String> = places.iter().map(|place| safe::text(place)).collect();
                let sizes = || steps.iter().map(|step| step.share.abs());
                let show = share(1.0);
                let [least, most] = [sizes().fold(f64::INFINITY, f64::min), sizes().fold(0.0, f64::max)]
                    .map(|size| names.words.figure(&show, size));
                let range = match least == most {
                    true => least,
                    false => say("range", Args::new().with("from", least).with("to", most)),
                };
                let args = Args::new().with("places", names.words.list(&places)).with("by", range);
                return (!places.is_empty()).then(|| say("jumps-places", args));
            };
            let each = one.places(falls).into_iter().zip(steps).map(|(place, step)| {
                let args = Args::new().with("name", safe::text(place));
                say("side", args.with("value", self.show.number(step.by) + &unit))
            });
            let each: Vec<String> = each.collect();
            (!each.is_empty()).then(|| names.words.list(&each))
        };
        let (falls, rises) = (side(true), side(false));
        let key = match (&falls, &rises) {
            (Some(_), Some(_)) => "jumps-both",
            (Some(_), None) => "jumps-falls",
            _ => "jumps-rises",
        };
        let args = about().with("falls", falls.unwrap_or_default()).with("rises", rises.unwrap_or_default());
        let multiples: Option<Vec<f64>> = curves.iter().map(|curve| curve.multiple()).collect();
        let multiple = multiples.filter(|all| all.iter().all(|of| *of == all[0])).map(|all| {
            let args = Args::new().with("multiple", all[0].to_string());
            say("jumps-of-multiple", args)
        });
        names.words.sentences(&std::iter::once(say(key, args)).chain(multiple).collect::<Vec<_>>())
    }

    /// The points of a curve without its jumps; `None` if it has none, or belongs to another column or axis.
    pub(super) fn leveled(&self, y: &str, x: &str, scope: Option<&str>) -> Option<Vec<(f64, f64)>> {
        let curve = self.curves.iter().find(|curve| curve.scope.as_deref() == scope)?;
        let found = curve.found.as_ref().filter(|found| self.y == y && self.x == x && !found.jumps.is_empty())?;
        let risen = |at: usize| found.jumps.iter().filter(|jump| jump.at < at).map(|jump| jump.height).sum::<f64>();
        Some(curve.points.iter().enumerate().map(|(at, (x, y))| (*x, y - risen(at))).collect())
    }

    pub(super) fn tables(&self, names: &Names<'_>) -> Vec<TextTable> {
        let words = names.words;
        let scoped = self.curves.iter().any(|curve| curve.scope.is_some());
        let name = |curve: &Sweep| curve.scope.as_deref().map_or_else(String::new, safe::text);
        let differences = self.difference().map(|difference| difference.curves).unwrap_or_default();
        let all = || self.curves.iter().chain(differences);
        let unit = behind_difference(&self.show.unit, words);
        let mut columns = GridColumns::<&Sweep>::new();
        if scoped {
            columns.text(words.word("analysis-of"), name);
        }
        columns.number(words.word("analysis-points"), |curve| curve.points.len().to_string());
        for (head, falls) in [("jumps-falls-at", true), ("jumps-rises-at", false)] {
            columns.text(words.word(head), move |curve| {
                let places: Vec<String> = curve.places(falls).into_iter().map(safe::text).collect();
                if places.is_empty() { dash() } else { places.join(", ") }
            });
        }
        columns.number(words.word("jumps-fluctuation"), |curve| {
            curve.found.as_ref().map_or_else(dash, |found| within(found.fluctuation, found.fluctuation).0 + &unit)
        });
        columns.number(words.word("jumps-fluctuation-share"), |curve| {
            curve.fluctuation().map_or_else(dash, |value| share(value).cell(value))
        });
        let sweeps = columns.grid(all());
        let mut columns = GridColumns::<(&Sweep, Step)>::new();
        if scoped {
            columns.text(words.word("analysis-of"), |(curve, _)| name(curve));
        }
        columns.text(words.word("jumps-between"), |(curve, step)| {
            format!("{} → {}", safe::text(&curve.names[step.at]), safe::text(&curve.names[step.at + 1]))
        });
        columns.number(words.word("jumps-height"), |(_, step)| self.show.number(step.by) + &unit);
        let signed = Format { signed: true, ..share(1.0) };
        columns.figure(words.word("jumps-height-share"), &signed, |(_, step)| Some(step.share));
        let jumps = columns.grid(all().flat_map(|curve| curve.steps().into_iter().map(move |step| (curve, step))));
        let mut columns = GridColumns::<&AtMultiples>::new();
        columns.text(words.word("jumps-what"), |found| words.word(&format!("jumps-what-{}", found.what)));
        columns.number(words.word("jumps-multiple"), |_| self.expected.unwrap_or_default().to_string());
        columns.number(words.word("jumps-there"), |found| found.there.to_string());
        columns.number(words.word("jumps-of"), |found| found.chances.len().to_string());
        columns.number(words.word("jumps-by-chance"), AtMultiples::by_chance);
        columns.number(words.word("jumps-p-chance"), |found| Format::p_value(found.p()).number(found.p()));
        let expected = columns.grid(&self.expected());
        let mut columns = GridColumns::<&FluctuationTest<'_>>::new();
        let side = |(value, of): (f64, &str)| format!("{} ({})", safe::text(of), share(value).cell(value));
        columns.text(words.word("jumps-lowest"), move |of| side(of.low));
        columns.text(words.word("jumps-highest"), move |of| side(of.high));
        columns.number(words.word("jumps-p"), |of| Format::p_value(of.p).number(of.p));
        let alike = columns.grid(&self.alike());
        let all = [
            ("jumps-title", sweeps, Some("jumps-note")),
            ("jumps-each", jumps, None),
            ("jumps-expected", expected, None),
            ("jumps-alike", alike, Some("jumps-level")),
        ];
        let shown = all.into_iter().filter(|(_, grid, _)| !grid.rows.is_empty());
        let table = |(title, grid, note): (&str, Grid, Option<&str>)| TextTable {
            title: words.text(title, &names.over(&self.y, &self.x)),
            grid,
            notes: note.map(|note| words.word(note)).into_iter().collect(),
        };
        shown.map(table).collect()
    }

    pub(super) fn clouds(&self) -> (Vec<Cloud>, &str, &str) {
        let cloud = |curve: &Sweep| {
            let x = curve.points.iter().map(|p| p.0);
            let along = curve.found.iter().flat_map(|found| x.clone().zip(found.curve.iter().copied()));
            Cloud {
                of: Vec::new(),
                name: curve.scope.clone().unwrap_or_default(),
                points: curve.points.clone(),
                curve: along.collect(),
            }
        };
        (self.curves.iter().map(cloud).collect(), &self.x, &self.y)
    }
}
