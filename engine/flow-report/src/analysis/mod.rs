//! Analyses of a table: flow's own steps `flow/fit`, `flow/jumps` and `flow/best`. Each reads one table and makes typed figures, which
//! it shows and which a section of a report shows with that table.

mod best;
mod check;
mod fit;
mod jumps;
mod multiples;

use std::collections::BTreeMap;

use flow_core::reason::BuiltinFault;
use flow_core::{BuiltinInput, BuiltinOutput, Metric, StepView};
use serde::{Deserialize, Serialize};

use crate::chart::Cloud;
use crate::columns::point;
use crate::format::Format;
use crate::safe;
use crate::table::{Content, Curve, Grid, Names, Row, Table, by_gpus, unknown_column};
use crate::words::{LANGUAGES, Words};

pub(crate) use best::BestWith;
pub(crate) use check::{check_best, check_fit, check_jumps};
pub(crate) use fit::FitWith;
pub(crate) use jumps::JumpsWith;

/// The file that a report reads.
const FILE: &str = "analysis.json";

/// What an analysis found.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Analysis {
    /// The table that it is of.
    pub(crate) table: String,
    #[serde(flatten)]
    found: Analysed,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "analysis")]
enum Analysed {
    Fit(fit::Fits),
    Jumps(jumps::Sweeps),
    Best(best::Ranking),
}

/// A table of an analysis, worded.
pub(crate) struct Shown {
    pub(crate) title: String,
    pub(crate) grid: Grid,
    pub(crate) notes: Vec<String>,
}

pub(crate) fn fit(with: &FitWith, input: &BuiltinInput, words: &Words) -> Result<BuiltinOutput, BuiltinFault> {
    let (table, _) = table(&with.table, input)?;
    let fits = fit::fits(with, &table)?;
    let metrics = fits.metrics();
    written(Analysis { table: with.table.clone(), found: Analysed::Fit(fits) }, &table, metrics, words)
}

pub(crate) fn jumps(with: &JumpsWith, input: &BuiltinInput, words: &Words) -> Result<BuiltinOutput, BuiltinFault> {
    let (table, _) = table(&with.table, input)?;
    let sweeps = jumps::sweeps(with, &table)?;
    let metrics = sweeps.metrics();
    written(Analysis { table: with.table.clone(), found: Analysed::Jumps(sweeps) }, &table, metrics, words)
}

pub(crate) fn best(with: &BestWith, input: &BuiltinInput, words: &Words) -> Result<BuiltinOutput, BuiltinFault> {
    let (table, source) = table(&with.table, input)?;
    let ranking = best::rank(with, &table)?;
    let metrics = ranking.metrics(source);
    written(Analysis { table: with.table.clone(), found: Analysed::Best(ranking) }, &table, metrics, words)
}

/// The table of a step, and the step that it is from.
fn table<'a>(name: &str, input: &'a BuiltinInput) -> Result<(Table, &'a StepView), BuiltinFault> {
    let no_step = |step: &str| BuiltinFault::NoSuchStep { step: step.to_owned() };
    let step = |name: &str| input.steps.get(name).ok_or_else(|| no_step(name));
    let view = step(name)?;
    if view.uses.as_deref() != Some("flow/table") {
        return Err(BuiltinFault::NotATable { step: name.to_owned() });
    }
    let json = view.files.iter().find_map(|files| files.get("table.json"));
    let json = json.ok_or_else(|| BuiltinFault::NoTable { step: name.to_owned() })?;
    let table: Table = serde_json::from_slice(json)
        .map_err(|e| BuiltinFault::TableUnread { step: name.to_owned(), said: e.to_string() })?;
    let source = step(&table.from)?;
    Ok((table, source))
}

fn written(
    analysis: Analysis,
    table: &Table,
    metrics: BTreeMap<String, Metric>,
    words: &Words,
) -> Result<BuiltinOutput, BuiltinFault> {
    let json = serde_json::to_string_pretty(&analysis).map_err(|e| BuiltinFault::NotWritten { said: e.to_string() })?;
    let mut files = BTreeMap::from([(FILE.to_owned(), (json + "\n").into_bytes())]);
    for (lang, _) in LANGUAGES {
        let tables =
            analysis.tables(&[], table, words, &[lang]).into_iter().map(|shown| shown.markdown(words, &[lang]));
        let sentences = analysis.sentences(&[], table, words, lang).into_iter().map(|text| format!("- {text}\n"));
        let text = tables.chain([sentences.collect::<String>()]).collect::<Vec<_>>().join("\n");
        files.insert(format!("analysis.{lang}.md"), text.into_bytes());
    }
    Ok(BuiltinOutput { files, metrics, ..BuiltinOutput::default() })
}

fn jumps_of(analyses: &[(String, Analysis)]) -> Vec<&jumps::Sweeps> {
    let jumps = analyses.iter().filter_map(|(_, analysis)| match &analysis.found {
        Analysed::Jumps(sweeps) => Some(sweeps),
        Analysed::Fit(_) | Analysed::Best(_) => None,
    });
    jumps.collect()
}

impl Analysis {
    /// That of a step's files.
    pub(crate) fn of(name: &str, view: &StepView) -> Result<Option<Analysis>, BuiltinFault> {
        let Some(json) = view.files.iter().find_map(|files| files.get(FILE)) else { return Ok(None) };
        let read = serde_json::from_slice(json);
        read.map(Some).map_err(|e| BuiltinFault::AnalysisUnread { step: name.to_owned(), said: e.to_string() })
    }

    /// What it found, a sentence each; `beside` are all analyses of the table.
    pub(crate) fn sentences(
        &self,
        beside: &[(String, Analysis)],
        table: &Table,
        words: &Words,
        lang: &str,
    ) -> Vec<String> {
        let names = Names { table, words };
        match &self.found {
            Analysed::Fit(fits) => fits.sentences(&jumps_of(beside), &names, lang),
            Analysed::Jumps(sweeps) => sweeps.sentences(&names, lang),
            Analysed::Best(ranking) => ranking.sentences(&names, lang),
        }
    }

    /// The same as short as notes are: what shape, which jumps, and not how well that fits or what is off it.
    pub(crate) fn in_short(
        &self,
        beside: &[(String, Analysis)],
        table: &Table,
        words: &Words,
        lang: &str,
    ) -> Vec<String> {
        let names = Names { table, words };
        match &self.found {
            Analysed::Fit(fits) => fits.in_short(&jumps_of(beside), &names, lang),
            Analysed::Jumps(sweeps) => sweeps.in_short(&names, lang),
            Analysed::Best(ranking) => ranking.sentences(&names, lang),
        }
    }

    /// Its figures; `beside` are all analyses of the table.
    pub(crate) fn tables(
        &self,
        beside: &[(String, Analysis)],
        table: &Table,
        words: &Words,
        langs: &[&str],
    ) -> Vec<Shown> {
        let names = Names { table, words };
        match &self.found {
            Analysed::Fit(fits) => fits.tables(&jumps_of(beside), &names, langs),
            Analysed::Jumps(sweeps) => sweeps.tables(&names, langs),
            Analysed::Best(ranking) => ranking.tables(&names, langs),
        }
    }

    /// How many sentences it is in short.
    pub(crate) fn sentences_in_short(&self) -> usize {
        match &self.found {
            Analysed::Fit(fits) => fits.scopes().len(),
            Analysed::Jumps(sweeps) => sweeps.sentences_in_short(),
            Analysed::Best(_) => 1,
        }
    }

    /// The column among whose points it tells the best.
    pub(crate) fn ranks(&self) -> Option<&str> {
        match &self.found {
            Analysed::Best(ranking) => Some(ranking.column()),
            Analysed::Fit(_) | Analysed::Jumps(_) => None,
        }
    }

    /// The column of which it tells the curve over this axis.
    pub(crate) fn fits(&self, axis: &str) -> Option<&str> {
        match &self.found {
            Analysed::Fit(fits) => fits.along(axis),
            Analysed::Jumps(_) | Analysed::Best(_) => None,
        }
    }

    /// The column that it is of.
    pub(crate) fn column(&self) -> &str {
        match &self.found {
            Analysed::Fit(fits) => fits.column(),
            Analysed::Jumps(sweeps) => sweeps.column(),
            Analysed::Best(ranking) => ranking.column(),
        }
    }

    /// What its first sentences are of, in their order: a curve each, or all of the table.
    pub(crate) fn scopes(&self) -> Vec<Option<&str>> {
        match &self.found {
            Analysed::Fit(fits) => fits.scopes(),
            Analysed::Jumps(sweeps) => sweeps.scopes(),
            Analysed::Best(_) => vec![None],
        }
    }

    /// The column of which it tells the jumps.
    pub(crate) fn searches(&self) -> Option<&str> {
        match &self.found {
            Analysed::Jumps(sweeps) => Some(sweeps.column()),
            Analysed::Fit(_) | Analysed::Best(_) => None,
        }
    }

    /// Its points with their curves, and the columns along and upright, where that can be drawn.
    pub(crate) fn clouds(&self) -> Option<(Vec<Cloud>, &str, &str)> {
        match &self.found {
            Analysed::Fit(fits) => Some(fits.clouds()),
            Analysed::Jumps(sweeps) => Some(sweeps.clouds()),
            Analysed::Best(_) => None,
        }
    }
}

impl Shown {
    /// As Markdown, title and notes included.
    pub(crate) fn markdown(&self, words: &Words, langs: &[&str]) -> String {
        format!("{}\n\n{}", self.title, self.body(words, langs))
    }

    pub(crate) fn body(&self, words: &Words, langs: &[&str]) -> String {
        let notes = if self.notes.is_empty() { String::new() } else { format!("\n{}\n", self.notes.join("  \n")) };
        self.grid.clone().typeset(words, langs).markdown() + &notes
    }
}

/// The points of a curve as the table shows them: where, how much, and the name of each place.
struct Points {
    /// The part of the split, and what the curve is of besides.
    part: Option<String>,
    of: Vec<String>,
    points: Vec<(f64, f64)>,
    names: Vec<String>,
    /// Where all rows are one curve: what each is of, by the first axis of the rows.
    rows: Vec<String>,
}

/// Points of each curve of the column `y` over the column `x`. Over the last axis of the rows each of the other rows' values is a curve of
/// its own; over a measured column all rows are. What was measured on unlike numbers of GPUs is on no one curve.
fn curves(table: &Table, y: &str, x: &str) -> Result<Vec<(Option<String>, Points)>, BuiltinFault> {
    if table.absent.is_some() {
        return Ok(Vec::new());
    }
    let missing = |name: &str| unknown_column(table, name);
    let along = table.rows.last().is_some_and(|last| last == x);
    let of = if along { Curve::all(table) } else { Curve::whole(table) };
    let row_of = |row: &Row| match row.cells.first().map(|cell| &cell.content) {
        Some(Content::Text { text, .. }) if !along && table.columns[0].key => point(&table.columns[0].name, text),
        _ => String::new(),
    };
    let curve = |curve: Curve| -> Result<Vec<(Option<String>, Points)>, BuiltinFault> {
        let part = curve.part.as_deref();
        let along = table.find(x, None, part).ok_or_else(|| missing(x))?;
        let up = table.find(y, None, part).ok_or_else(|| missing(y))?;
        let factor = |column: usize| table.columns[column].show.factor;
        let place = |row: &&Row| {
            let cells = &row.cells;
            let Content::Number { value, .. } = cells[up].content else { return None };
            let at = cells[along].number()?;
            let name = match &cells[along].content {
                Content::Text { text, .. } => text.clone(),
                _ => table.columns[along].show.number(at),
            };
            Some(((at * factor(along), value * factor(up)), (name, row_of(row))))
        };
        let rows: Vec<&Row> = curve.rows.iter().map(|row| &table.body[*row]).collect();
        let of = by_gpus(&rows, up).into_iter().map(|(gpus, rows)| {
            let mut points: Vec<((f64, f64), (String, String))> = rows.iter().filter_map(place).collect();
            points.sort_by(|a, b| a.0.0.total_cmp(&b.0.0));
            let (points, named): (_, Vec<(String, String)>) = points.into_iter().unzip();
            let (names, rows) = named.into_iter().unzip();
            let with_gpus = |of: &mut dyn Iterator<Item = &String>| -> Vec<String> {
                of.cloned().chain(gpus.map(|gpus| format!("gpus={gpus}"))).collect()
            };
            let scope = with_gpus(&mut curve.scope.iter());
            let (part, of) = (curve.part.clone(), with_gpus(&mut curve.of.iter()));
            ((!scope.is_empty()).then(|| scope.join(", ")), Points { part, of, points, names, rows })
        });
        Ok(of.collect())
    };
    let curves: Result<Vec<_>, BuiltinFault> = of.into_iter().map(curve).collect();
    Ok(curves?.into_iter().flatten().collect())
}

/// The unit in which a column is shown.
fn unit(table: &Table, column: &str) -> String {
    let shown = table.columns.iter().find(|c| c.name == column && c.derived.is_none());
    shown.map(|c| c.show.unit.clone()).unwrap_or_default()
}

/// Behind a number of a column that is shown in this unit.
fn behind(unit: &str) -> String {
    match unit {
        "" | "%" => unit.to_owned(),
        unit => format!(" {}", safe::text(unit)),
    }
}

/// Behind a difference of two such numbers: of percentages it is in percentage points.
fn behind_difference(unit: &str, words: &Words, langs: &[&str]) -> String {
    if unit == "%" { format!(" {}", words.joined(langs, "unit-points")) } else { behind(unit) }
}

/// An interval that is no larger than this part of its figure is of rounding errors, and tells of no digits.
const ROUNDING: f64 = 1e-12;
/// A figure has so many decimals at the most.
const DECIMALS: i32 = 9;
/// One that is smaller and has more stands with a power of ten.
const TINY: f64 = 1e-3;

/// A figure and half the width of its interval, with as many digits as that lets it have.
fn within(value: f64, half: f64) -> (String, String) {
    let told = half.is_finite() && half > ROUNDING * value.abs();
    let least = if told { half } else { 1e-3 * value.abs() };
    let decimals = if least > 0.0 { 1 - least.log10().floor() as i32 } else { 0 };
    let tiny = decimals > DECIMALS && value.abs().max(half) < TINY;
    let shown = if tiny { decimals } else { decimals.clamp(0, DECIMALS) };
    // What the interval lets be 0 has no digits of its own.
    let value = if value.abs() < 10_f64.powi(-shown) / 2.0 { 0.0 } else { value };
    let show = Format { decimals: if tiny { 0 } else { shown as u8 }, factor: 1.0, ..Format::default() };
    // What does not scatter is known exactly.
    let show = if half == 0.0 { show.no_finer_than([value].into_iter()) } else { show };
    let number = match tiny && value != 0.0 {
        true => with_power(value, (shown + value.abs().log10().floor() as i32).max(0) as usize),
        false => show.number(value),
    };
    // Of what is less its decimals show no two digits.
    let finer = half > 0.0 && half < 0.99 * 10_f64.powi(1 - i32::from(show.decimals));
    (number, if finer { with_power(half, 1) } else { show.number(half) })
}

/// `1.60e-12`, with so many digits behind the point.
fn with_power(value: f64, digits: usize) -> String {
    let sign = if value < 0.0 { "−" } else { "" };
    format!("{sign}{:.digits$e}", value.abs())
}

/// `0.120 ± 0.012`, and the same without its sign.
fn give_or_take(value: f64, half: f64) -> String {
    let (value, half) = within(value, half);
    format!("{value} ± {half}")
}

/// A share as `1.2 %`.
fn share(value: f64) -> Format {
    Format { unit: "%".into(), factor: 100.0, decimals: if value < 0.1 { 2 } else { 1 }, ..Format::default() }
}

fn metric(value: f64, unit: &str) -> Metric {
    Metric { value, unit: unit.to_owned(), epochs: None, sd: None, values: vec![] }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_an_interval_lets_be_zero_has_no_digits_of_its_own() {
        assert_eq!(give_or_take(-0.4711, 51.0), "0 ± 51");
        assert_eq!(give_or_take(-0.7, 51.0), "−1 ± 51");
        assert_eq!(give_or_take(0.12, 0.012), "0.120 ± 0.012");
        assert_eq!(give_or_take(0.0, 0.0), "0 ± 0");
    }

    #[test]
    fn what_is_tiny_has_the_digits_of_its_interval_and_what_is_exact_a_few() {
        assert_eq!(give_or_take(1.6e-12, 4.263e-15), "1.6000e-12 ± 4.3e-15");
        assert_eq!(give_or_take(-4.7e-14, 7.657e-16), "−4.700e-14 ± 7.7e-16");
        assert_eq!(give_or_take(1e-15, 4.263e-13), "0 ± 4.3e-13");
        assert_eq!(give_or_take(9.9996e-12, 1e-14), "1.000e-11 ± 1.0e-14");
        assert_eq!(give_or_take(1e-9, 2.039e-25), "1.0000e-9 ± 2.0e-25");
        assert_eq!(give_or_take(2.0, 2.2e-16), "2.0000 ± 2.2e-16");
        assert_eq!(give_or_take(1.6, 4.2e-11), "1.600000000 ± 4.2e-11");
        assert_eq!(give_or_take(1.6e-12, 0.0), "1.6000e-12 ± 0");
    }
}
