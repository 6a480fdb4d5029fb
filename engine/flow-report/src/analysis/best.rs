//! The best point of a table, and the points that noise does not distinguish from it: the step `flow/best`.
//!
//! If points are repeated, the best one is compared with every other one by the test of `significance`, with
//! Bonferroni's correction for all comparisons.

use std::collections::BTreeMap;

use flow_core::reason::BuiltinFault;
use flow_core::{Best, Metric, StepView};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{TextTable, metric};
use crate::bounds::SIGNIFICANT;
use crate::findings::Lead;
use crate::format::Format;
use crate::safe;
use crate::significance::{more_in_words, repeats_itself, test, tied_with};
use crate::table::{
    Cell, Center, Content, GridColumns, Names, Reading, Spread, Table, dash, enough, unit_of, unknown_column,
    with_spread,
};
use crate::words::{Args, Locale, kind};

/// Maximum points shown.
const SHOWN: usize = 12;
/// With at most so many repetitions, a test misses even large differences.
const FEW: usize = 4;

/// Parameters (`with:`) of a `flow/best` step.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct BestWith {
    /// The `flow/table` step whose points are ranked.
    #[schemars(extend("x-flow" = "step"))]
    pub(crate) table: String,
    /// The column to rank by.
    pub(crate) column: String,
    /// Whether the min or the max is best. By default the column's name decides: the min of a loss, the max of an
    /// accuracy.
    #[serde(default)]
    pub(crate) goal: Option<Best>,
}

impl BestWith {
    /// The goal, or the one that follows from the column's name.
    pub(super) fn goal(&self) -> Option<Best> {
        self.goal.or_else(|| Best::by_name(&self.column))
    }
}

/// Points with a number, best first.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Ranking {
    pub(super) column: String,
    goal: Best,
    /// What the numbers are.
    #[serde(default)]
    center: Center,
    points: Vec<Point>,
    /// The format of the numbers.
    show: Format,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
struct Point {
    /// Its name: `lr=0.1, v7`.
    name: String,
    /// Its axis values that are numbers.
    axes: BTreeMap<String, f64>,
    cell: Cell,
    /// The p-value of its difference from the best, corrected for all comparisons, if both are repeated.
    p: Option<f64>,
    /// Whether the test was paired.
    #[serde(default)]
    paired: bool,
    /// How many more runs of each would distinguish it from the best, if their difference and scatter stay the same.
    #[serde(default)]
    more: Option<u32>,
}

pub(super) fn rank(with: &BestWith, table: &Table) -> Result<Ranking, BuiltinFault> {
    let goal = with.goal().ok_or_else(|| BuiltinFault::GoalUnknown { column: with.column.clone() })?;
    let mut points = Vec::new();
    let mut show = None;
    for part in table.parts().into_iter().filter(|_| table.absent.is_none()) {
        let column = table.find(&with.column, None, part).ok_or_else(|| unknown_column(table, &with.column))?;
        show.get_or_insert_with(|| table.columns[column].show.clone());
        for row in &table.body {
            let cell = &row.cells[column];
            let Content::Number { .. } = cell.content else { continue };
            let keys = table.rows.iter().zip(&row.cells);
            let mut axes: BTreeMap<String, f64> =
                keys.filter_map(|(axis, key)| Some((axis.clone(), key.number()?))).collect();
            if let (Some(part), Some((split, _))) = (part, &table.split) {
                axes.extend(part.parse().ok().map(|number| (split.clone(), number)));
            }
            let name = table.place(row, part);
            points.push(Point { name, axes, cell: cell.clone(), p: None, paired: false, more: None });
        }
    }
    let value = |point: &Point| point.cell.number().unwrap_or(f64::NAN);
    points.sort_by(|a, b| match goal {
        Best::Min => value(a).total_cmp(&value(b)),
        Best::Max => value(b).total_cmp(&value(a)),
    });
    if let Some((best, others)) = points.split_first_mut() {
        let comparisons = others.len();
        for other in others {
            let tested = test(&best.cell, &other.cell);
            other.p = tested.as_ref().map(|tested| tested.of_many(comparisons));
            other.more = tested.as_ref().and_then(|tested| tested.more(comparisons));
            other.paired = tested.is_some_and(|tested| tested.paired);
        }
    }
    let center = table.center();
    Ok(Ranking { column: with.column.clone(), goal, center, points, show: show.unwrap_or_default() })
}

impl Ranking {
    /// Whether a point was tested against the best.
    pub(super) fn is_tested(&self) -> bool {
        self.points.iter().any(|point| point.p.is_some())
    }

    /// Metrics for other steps: the value, the axes that have numbers, and the index of the first result behind it.
    pub(super) fn metrics(&self, source: &StepView) -> BTreeMap<String, Metric> {
        let Some(best) = self.points.first() else { return BTreeMap::new() };
        let mut metrics: BTreeMap<String, Metric> =
            best.axes.iter().map(|(axis, value)| (axis.clone(), metric(*value, ""))).collect();
        let instance = source.results.iter().position(|result| best.cell.of.contains(&result.label));
        metrics.extend(instance.map(|at| ("instance".to_owned(), metric(at as f64, ""))));
        // A share is shown in per cent.
        let unit = if self.show.unit == "%" && self.show.factor > 1.0 { "ratio" } else { "" };
        metrics.extend(best.cell.number().map(|value| ("value".to_owned(), metric(value, unit))));
        metrics.insert("tied".into(), metric(self.tied().count() as f64, ""));
        metrics
    }

    /// Points that are not distinguished from the best: by a test, or because they have the same number.
    fn tied(&self) -> impl Iterator<Item = &Point> {
        let best = self.points.first().and_then(|best| best.cell.number());
        self.points.iter().skip(1).filter(move |point| match point.p {
            Some(p) => p > SIGNIFICANT,
            None => point.cell.number() == best,
        })
    }

    pub(super) fn sentences(&self, names: &Names<'_>) -> Vec<String> {
        let say = |key: &str, args: Args| names.words.text(key, &args);
        let about = || Args::new().with("column", names.inline(&self.column));
        let Some(best) = self.points.first() else { return vec![say("best-nothing", about())] };
        let goal = if self.goal == Best::Min { "min" } else { "max" };
        let args = about().with("point", safe::text(&best.name)).with("goal", goal).with("center", kind(&self.center));
        let told = say("best-point", self.ahead(args, names.words));
        let tied: Vec<&Point> = self.tied().collect();
        let tested = self.points.iter().skip(1).filter(|point| point.p.is_some()).count();
        let others = self.points.len() - 1;
        let more = match (tied.is_empty(), tested) {
            _ if others == 0 => None,
            (false, 0) => {
                let tied: Vec<String> = tied.iter().map(|point| safe::text(&point.name)).collect();
                Some(say("best-same", Args::new().with("points", names.words.points(&tied))))
            }
            (false, _) => {
                let next = match self.points.get(1).map(|next| is_worse(next)) {
                    Some("yes") => "worse",
                    Some("no") => "tied",
                    _ => "unknown",
                };
                let tied_next = self.points.get(1).filter(|_| next == "tied");
                let p = tied_next
                    .and_then(|next| next.p)
                    .map_or_else(|| "none".to_owned(), |p| Format::p_value(p).relation(p));
                let tied: Vec<String> = tied.iter().map(|point| point.name.clone()).collect();
                let worse = self.points.iter().skip(1).filter(|point| is_worse(point) == "yes");
                let worse: Vec<String> = worse.map(|point| point.name.clone()).collect();
                let args = Args::new().with("paired", self.pairing()).with("p", p);
                let told = say("best-tied", args.with("tied_with", tied_with(&tied, &worse, names.words)));
                let runs = best.cell.of.len();
                // A reader could take all points for equal.
                let few = (worse.is_empty() && tied.len() > 1 && runs <= FEW)
                    .then(|| say("best-few", Args::new().count("runs", runs)));
                let more = tied_next.map(|next| more_in_words(&next.name, next.more, names.words));
                Some(names.words.sentences(&[told].into_iter().chain(few).chain(more).collect::<Vec<_>>()))
            }
            (true, _) if tested == others => Some(say("best-clear", Args::new().with("paired", self.pairing()))),
            (true, _) => None,
        };
        let identical = self.points.iter().any(|point| repeats_itself(&point.cell));
        let key = if identical { "spread-identical" } else { "best-unknown" };
        let unknown = (tested < others).then(|| say(key, Args::new()));
        let told: Vec<String> = [told].into_iter().chain(more).chain(unknown).collect();
        vec![names.words.sentences(&told)]
    }

    /// The best value, and its distance from the next one.
    fn ahead(&self, args: Args, words: Locale<'_>) -> Args {
        let Some(best) = self.points.first().and_then(|best| best.cell.number()) else { return args };
        let show = self.refined();
        let next = self.points.get(1).and_then(|next| Some((next, next.cell.number()?)));
        let Some((next, second)) = next else {
            return args.with("value", words.figure(&show, best)).with("order", "none");
        };
        if second == best {
            // Without a test, another sentence names all such points.
            let order = if next.p.is_some() { "same" } else { "none" };
            let args = args.with("value", words.figure(&show, best)).with("order", order);
            return args.with("next", safe::text(&next.name));
        }
        let [value, second, by] = Lead::of(&show, best, second).texts(best, second, words);
        let order = match self.goal {
            _ if value == second => "rounded",
            Best::Min => "below",
            Best::Max => "above",
        };
        let args = args.with("value", value).with("second", second).with("by", by).with("order", order);
        args.with("next", safe::text(&next.name))
    }

    /// With enough digits for the differences from the best.
    fn refined(&self) -> Format {
        let best = self.points.first().and_then(|best| best.cell.number());
        let pairs = self.points.iter().skip(1).filter_map(|point| Some((point.cell.number()?, best?))).collect();
        enough(&self.show, &[&Reading { show: self.show.difference(), pairs, of: |value, best| value - best }])
    }

    /// Whether its points were tested in pairs, as a word for messages.
    fn pairing(&self) -> &'static str {
        let mut tested = self.points.iter().filter(|point| point.p.is_some());
        if tested.all(|point| point.paired) { "yes" } else { "no" }
    }

    pub(super) fn tables(&self, names: &Names<'_>) -> Vec<TextTable> {
        let words = names.words;
        let Some(best) = self.points.first().and_then(|best| best.cell.number()) else { return Vec::new() };
        let (difference, show) = (self.show.difference(), self.refined());
        let mut columns = GridColumns::<(usize, &Point)>::new();
        columns.text(words.word("best-place"), |(_, point)| safe::text(&point.name));
        columns.number(names.head(&self.column) + &unit_of(&self.show, words), |(_, point)| {
            with_spread(point.cell.number().unwrap_or_default(), point.cell.spread().as_ref(), &show)
        });
        // The difference of the values that the table shows, so that it has no more digits than these.
        let apart = |(at, point): (usize, &Point)| {
            point.cell.number().filter(|_| at > 0).map(|value| show.as_read(value) - show.as_read(best))
        };
        columns.figure(words.word("best-difference") + &unit_of(&difference, words), &difference, apart);
        let p = |(_, point): (usize, &Point)| point.p.map_or_else(dash, |p| Format::p_value(p).number(p));
        columns.number(words.word("best-p"), p);
        columns.text(words.word("best-distinguished"), |(at, point)| match at {
            0 => String::new(),
            _ => words.word(&format!("best-distinguished-{}", is_worse(point))),
        });
        let grid = columns.grid(self.points.iter().take(SHOWN).enumerate());
        let title = words.text("best-title", &Args::new().with("column", names.inline(&self.column)));
        let tested = self.is_tested();
        let mut notes = Vec::new();
        if tested {
            let args = Args::new().count("comparisons", self.points.len() - 1);
            notes.push(words.text("best-note", &args.with("paired", self.pairing())));
        }
        let is_median = |point: &Point| matches!(point.cell.spread(), Some(Spread::Range(..)));
        if tested && self.points.iter().any(is_median) {
            notes.push(words.word("best-note-medians"));
        }
        let count = |told: &&str| self.points.iter().skip(SHOWN).filter(|point| is_worse(point) == *told).count();
        let left_out = ["yes", "no", "unknown"].into_iter().map(|told| (told, count(&told))).filter(|(_, n)| *n > 0);
        let left_out = left_out.map(|(told, n)| words.text(&format!("best-more-{told}"), &Args::new().count("n", n)));
        let left_out: Vec<String> = left_out.collect();
        if !left_out.is_empty() {
            notes.push(words.text("best-more", &Args::new().with("points", words.list(&left_out))));
        }
        vec![TextTable { title, grid, notes }]
    }
}

/// Whether a point is shown to be worse than the best, as a word for messages.
fn is_worse(point: &Point) -> &'static str {
    match point.p {
        None => "unknown",
        Some(p) if p > SIGNIFICANT => "no",
        Some(_) => "yes",
    }
}
