//! Analyses of a table: flow's own steps `flow/fit`, `flow/jumps` and `flow/best`. Each reads one table and produces
//! typed figures. The step shows them, and so does a section of a report that shows the table.

mod best;
mod check;
mod fit;
mod jumps;
mod multiples;

use std::collections::BTreeMap;

use flow_core::reason::BuiltinFault;
use flow_core::{BuiltinInput, BuiltinOutput, Metric, StepView};
use serde::{Deserialize, Serialize};

use crate::bounds::DefinedWord;
use crate::chart::Cloud;
use crate::columns::point;
use crate::format::Format;
use crate::safe;
use crate::table::{Content, Curve, Grid, Names, Row, Table, by_gpus, unknown_column};
use crate::words::{LANGUAGES, Locale, Words};

pub(crate) use best::BestWith;
pub(crate) use check::{check_best, check_fit, check_jumps};
pub(crate) use fit::FitWith;
pub(crate) use jumps::JumpsWith;

/// The file that reports read.
const FILE: &str = "analysis.json";

/// The result of an analysis.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Analysis {
    /// The step of the analysed table.
    pub(crate) table: String,
    #[serde(flatten)]
    found: AnalysisResult,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "analysis")]
enum AnalysisResult {
    Fit(fit::Fits),
    Jumps(jumps::Sweeps),
    Best(best::Ranking),
}

/// A table of an analysis as text.
pub(crate) struct TextTable {
    pub(crate) title: String,
    pub(crate) grid: Grid,
    pub(crate) notes: Vec<String>,
}

pub(crate) fn fit(with: &FitWith, input: &BuiltinInput, words: &Words) -> Result<BuiltinOutput, BuiltinFault> {
    analysed(&with.table, input, words, |table| Ok(AnalysisResult::Fit(fit::fits(with, table)?)))
}

pub(crate) fn jumps(with: &JumpsWith, input: &BuiltinInput, words: &Words) -> Result<BuiltinOutput, BuiltinFault> {
    analysed(&with.table, input, words, |table| Ok(AnalysisResult::Jumps(jumps::sweeps(with, table)?)))
}

pub(crate) fn best(with: &BestWith, input: &BuiltinInput, words: &Words) -> Result<BuiltinOutput, BuiltinFault> {
    analysed(&with.table, input, words, |table| Ok(AnalysisResult::Best(best::rank(with, table)?)))
}

/// The table of a step, and the step whose results it shows.
fn table<'a>(name: &str, input: &'a BuiltinInput) -> Result<(Table, &'a StepView), BuiltinFault> {
    let no_step = |step: &str| BuiltinFault::NoSuchStep { step: step.to_owned() };
    let step = |name: &str| input.steps.get(name).ok_or_else(|| no_step(name));
    let view = step(name)?;
    if view.uses.as_deref() != Some("flow/table") {
        return Err(BuiltinFault::NotATable { step: name.to_owned() });
    }
    let table = Table::of(name, view)?.ok_or_else(|| BuiltinFault::NoTable { step: name.to_owned() })?;
    let source = step(&table.from)?;
    Ok((table, source))
}

/// The files and metrics of an analysis of a step's table.
fn analysed(
    name: &str,
    input: &BuiltinInput,
    words: &Words,
    analyse: impl FnOnce(&Table) -> Result<AnalysisResult, BuiltinFault>,
) -> Result<BuiltinOutput, BuiltinFault> {
    let (table, source) = table(name, input)?;
    let analysis = Analysis { table: name.to_owned(), found: analyse(&table)? };
    let metrics = match &analysis.found {
        AnalysisResult::Fit(fits) => fits.metrics(),
        AnalysisResult::Jumps(sweeps) => sweeps.metrics(),
        AnalysisResult::Best(ranking) => ranking.metrics(source),
    };
    let json =
        serde_json::to_string_pretty(&analysis).map_err(|e| BuiltinFault::NotWritten { message: e.to_string() })?;
    let mut files = BTreeMap::from([(FILE.to_owned(), (json + "\n").into_bytes())]);
    for (lang, _) in LANGUAGES {
        let names = Names { table: &table, words: words.locale(lang) };
        let tables = analysis.tables(&[], &names).into_iter().map(|shown| shown.markdown(names.words));
        let sentences = analysis.sentences(&[], &names).into_iter().map(|text| format!("- {text}\n"));
        let text = tables.chain([sentences.collect::<String>()]).collect::<Vec<_>>().join("\n");
        files.insert(format!("analysis.{lang}.md"), text.into_bytes());
    }
    Ok(BuiltinOutput { files, metrics, ..BuiltinOutput::default() })
}

fn jumps_of(analyses: &[(String, Analysis)]) -> Vec<&jumps::Sweeps> {
    let jumps = analyses.iter().filter_map(|(_, analysis)| match &analysis.found {
        AnalysisResult::Jumps(sweeps) => Some(sweeps),
        AnalysisResult::Fit(_) | AnalysisResult::Best(_) => None,
    });
    jumps.collect()
}

impl Analysis {
    /// The analysis among the files of a step.
    pub(crate) fn of(name: &str, view: &StepView) -> Result<Option<Analysis>, BuiltinFault> {
        let Some(json) = view.files.iter().find_map(|files| files.get(FILE)) else { return Ok(None) };
        let read = serde_json::from_slice(json);
        read.map(Some).map_err(|e| BuiltinFault::AnalysisUnread { step: name.to_owned(), message: e.to_string() })
    }

    /// Its findings, one sentence each. `beside` holds all analyses of the table.
    pub(crate) fn sentences(&self, others: &[(String, Analysis)], names: &Names<'_>) -> Vec<String> {
        match &self.found {
            AnalysisResult::Fit(fits) => fits.sentences(&jumps_of(others), names),
            AnalysisResult::Jumps(sweeps) => sweeps.sentences(names),
            AnalysisResult::Best(ranking) => ranking.sentences(names),
        }
    }

    /// Its findings in short: the shape or the jumps, without the quality of the fit or the deviations.
    pub(crate) fn in_short(&self, others: &[(String, Analysis)], names: &Names<'_>) -> Vec<String> {
        match &self.found {
            AnalysisResult::Fit(fits) => fits.in_short(&jumps_of(others), names),
            AnalysisResult::Jumps(sweeps) => sweeps.in_short(names),
            AnalysisResult::Best(ranking) => ranking.sentences(names),
        }
    }

    /// Its tables. `beside` holds all analyses of the table.
    pub(crate) fn tables(&self, others: &[(String, Analysis)], names: &Names<'_>) -> Vec<TextTable> {
        match &self.found {
            AnalysisResult::Fit(fits) => fits.tables(&jumps_of(others), names),
            AnalysisResult::Jumps(sweeps) => sweeps.tables(names),
            AnalysisResult::Best(ranking) => ranking.tables(names),
        }
    }

    /// The number of sentences of `in_short`.
    pub(crate) fn sentences_in_short(&self) -> usize {
        match &self.found {
            AnalysisResult::Fit(fits) => fits.curves.len(),
            AnalysisResult::Jumps(sweeps) => sweeps.sentences_in_short(),
            AnalysisResult::Best(_) => 1,
        }
    }

    /// The column whose best point it finds.
    pub(crate) fn best_column(&self) -> Option<&str> {
        match &self.found {
            AnalysisResult::Best(ranking) => Some(&ranking.column),
            AnalysisResult::Fit(_) | AnalysisResult::Jumps(_) => None,
        }
    }

    /// The words with a limit that its sentences contain.
    pub(crate) fn defined(&self) -> &'static [DefinedWord] {
        match &self.found {
            AnalysisResult::Fit(_) => &[DefinedWord::Fit, DefinedWord::Jumps, DefinedWord::Tests],
            AnalysisResult::Jumps(_) => &[DefinedWord::Jumps, DefinedWord::Tests],
            AnalysisResult::Best(ranking) if ranking.is_tested() => &[DefinedWord::Tests],
            AnalysisResult::Best(_) => &[],
        }
    }

    /// The column whose curve over this axis it describes.
    pub(crate) fn fits(&self, axis: &str) -> Option<&str> {
        match &self.found {
            AnalysisResult::Fit(fits) => (fits.x == axis).then_some(&*fits.y),
            AnalysisResult::Jumps(_) | AnalysisResult::Best(_) => None,
        }
    }

    /// The column that it analyses.
    pub(crate) fn column(&self) -> &str {
        match &self.found {
            AnalysisResult::Fit(fits) => &fits.y,
            AnalysisResult::Jumps(sweeps) => &sweeps.y,
            AnalysisResult::Best(ranking) => &ranking.column,
        }
    }

    /// The scopes of its first sentences, in their order: one per curve, or the whole table.
    pub(crate) fn scopes(&self) -> Vec<Option<&str>> {
        match &self.found {
            AnalysisResult::Fit(fits) => fits.curves.iter().map(|curve| curve.scope.as_deref()).collect(),
            AnalysisResult::Jumps(sweeps) => sweeps.curves.iter().map(|curve| curve.scope.as_deref()).collect(),
            AnalysisResult::Best(_) => vec![None],
        }
    }

    /// The column whose jumps it describes.
    pub(crate) fn searches(&self) -> Option<&str> {
        match &self.found {
            AnalysisResult::Jumps(sweeps) => Some(&sweeps.y),
            AnalysisResult::Fit(_) | AnalysisResult::Best(_) => None,
        }
    }

    /// Its points with their curves, and the columns of the x axis and the y axis, if that can be drawn.
    pub(crate) fn clouds(&self) -> Option<(Vec<Cloud>, &str, &str)> {
        match &self.found {
            AnalysisResult::Fit(fits) => Some(fits.clouds()),
            AnalysisResult::Jumps(sweeps) => Some(sweeps.clouds()),
            AnalysisResult::Best(_) => None,
        }
    }
}

impl TextTable {
    /// As Markdown, title and notes included.
    pub(crate) fn markdown(&self, words: Locale<'_>) -> String {
        format!("{}\n\n{}", self.title, self.body(words))
    }

    pub(crate) fn body(&self, words: Locale<'_>) -> String {
        let notes = if self.notes.is_empty() { String::new() } else { format!("\n{}\n", self.notes.join("  \n")) };
        self.grid.markdown(words) + &notes
    }
}

/// The points of a curve as the table shows them, with the name of each place.
struct Points {
    /// The part of the split, and the point of the other axes.
    part: Option<String>,
    of: Vec<String>,
    points: Vec<(f64, f64)>,
    names: Vec<String>,
    /// If all rows are one curve: the value of the first row axis for each point.
    rows: Vec<String>,
}

/// The points of each curve of column `y` over column `x`. If `x` is the last axis of the rows, each point of the other
/// axes has its own curve. If `x` is a measured column, all rows are one curve. Results on different numbers of GPUs
/// are never on one curve.
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
            let name = cells[along].text().map_or_else(|| table.columns[along].show.number(at), str::to_owned);
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

/// The text behind a number in this unit.
fn behind(unit: &str) -> String {
    match unit {
        "" | "%" => unit.to_owned(),
        unit => format!(" {}", safe::text(unit)),
    }
}

/// The text behind a difference of two such numbers. The difference of two percentages is in percentage points.
fn behind_difference(unit: &str, words: Locale<'_>) -> String {
    if unit == "%" { format!(" {}", words.word("unit-points")) } else { behind(unit) }
}

/// An interval that is at most this share of its figure comes from rounding, and does not determine the digits.
const ROUNDING: f64 = 1e-12;
/// Maximum decimals of a figure.
const DECIMALS: i32 = 9;
/// A figure below this that needs more decimals is written with a power of ten.
const TINY: f64 = 1e-3;

/// A figure and half the width of its interval, with as many digits as the interval allows.
fn within(value: f64, half: f64) -> (String, String) {
    let told = half.is_finite() && half > ROUNDING * value.abs();
    let least = if told { half } else { 1e-3 * value.abs() };
    let decimals = if least > 0.0 { 1 - least.log10().floor() as i32 } else { 0 };
    let tiny = decimals > DECIMALS && value.abs().max(half) < TINY;
    let shown = if tiny { decimals } else { decimals.clamp(0, DECIMALS) };
    // A value that rounds to zero with these digits is 0.
    let value = if value.abs() < 10_f64.powi(-shown) / 2.0 { 0.0 } else { value };
    let show = Format { decimals: if tiny { 0 } else { shown as u8 }, factor: 1.0, ..Format::default() };
    // A value without scatter is known exactly.
    let show = if half == 0.0 { show.no_finer_than([value].into_iter()) } else { show };
    let number = match tiny && value != 0.0 {
        true => with_power(value, (shown + value.abs().log10().floor() as i32).max(0) as usize),
        false => show.number(value),
    };
    // A half width that would not show two digits is written with a power of ten.
    let finer = half > 0.0 && half < 0.99 * 10_f64.powi(1 - i32::from(show.decimals));
    (number, if finer { with_power(half, 1) } else { show.number(half) })
}

/// `1.60e-12`, with this many digits after the point.
fn with_power(value: f64, digits: usize) -> String {
    let sign = if value < 0.0 { "−" } else { "" };
    format!("{sign}{:.digits$e}", value.abs())
}

/// `0.120 ± 0.012`.
fn give_or_take(value: f64, half: f64) -> String {
    let (value, half) = within(value, half);
    format!("{value} ± {half}")
}

/// A share as `1.2 %`.
fn share(value: f64) -> Format {
    Format { unit: "%".into(), factor: 100.0, decimals: if value < 0.1 { 2 } else { 1 }, ..Format::default() }
}

pub(crate) fn metric(value: f64, unit: &str) -> Metric {
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
