//! The lines of charts that the author asks for. Words and drawing are elsewhere.

use std::collections::BTreeSet;

use flow_core::reason::BuiltinFault;
use flow_core::{Outcome, Point, Series, StepResult};
use indexmap::IndexMap;
use serde::{Deserialize, Serialize};

use super::with::{ChartWith, OverWith};
use crate::chart;
use crate::columns::{point, written};
use crate::format::Format;
use crate::table::{Content, Curve, Note, PART, Row, SeriesUnit, Spread, Table, by_gpus, unknown_column};

/// A chart, in the units shown.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct ChartData {
    pub(crate) column: String,
    pub(crate) axis: String,
    pub(crate) show: Format,
    pub(crate) lines: Vec<DrawnLine>,
    /// Tick positions on the axis, with their labels.
    pub(crate) ticks: Vec<(f64, String)>,
    /// The meaning of `ends`, by the keys of spreads.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub(crate) spreads: BTreeSet<String>,
}

/// A line of it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct DrawnLine {
    /// The name that distinguishes it from the other lines.
    pub(crate) name: String,
    /// The number of GPUs, if other points of the curve were measured on more or fewer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) gpus: Option<u32>,
    pub(crate) points: Vec<(f64, f64)>,
    /// Error bars: position, low end and high end.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) ends: Vec<(f64, f64, f64)>,
    /// The same line from earlier figures.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) earlier: Vec<(f64, f64)>,
}

impl ChartData {
    /// The lines, if the chart shows a column or a metric. The error says which charts are possible instead.
    pub(super) fn of(
        chart: &ChartWith,
        table: &Table,
        results: &[(&StepResult, Option<&Series>)],
    ) -> Result<Option<ChartData>, BuiltinFault> {
        match chart {
            ChartWith::Column(column) => of_table(column, table).map(Some),
            ChartWith::Over(OverWith { column, over }) => over_series(column, *over, table, results).map(Some),
            ChartWith::Load(_) => Ok(None),
        }
    }
}

/// A column over the last axis of the rows: one line for each point of the other axes and each part of the split.
fn of_table(name: &str, table: &Table) -> Result<ChartData, BuiltinFault> {
    let column = || name.to_owned();
    let axis = table.rows.last().ok_or_else(|| BuiltinFault::ChartOverNothing { column: column() })?;
    let key = table.rows.len() - 1;
    let mut show = None;
    let (mut lines, mut spreads) = (Vec::new(), BTreeSet::new());
    let mut ticks: Vec<(f64, String)> = Vec::new();
    let then = table.reference.as_ref().map(|reference| &reference.table);
    let curves_then = then.map(Curve::all).unwrap_or_default();
    for curve in Curve::all(table) {
        let at = table.find(name, None, curve.part.as_deref()).ok_or_else(|| BuiltinFault::ChartOfNoColumn {
            column: column(),
            error: Box::new(unknown_column(table, name)),
        })?;
        let show: &Format = show.get_or_insert_with(|| table.columns[at].show.clone());
        let rows: Vec<&Row> = curve.rows.iter().map(|row| &table.body[*row]).collect();
        let of_then = curves_then.iter().find(|then| then.scope == curve.scope);
        let mut earlier: Vec<(f64, f64)> = of_then.zip(then).map_or_else(Vec::new, |(of, then)| {
            let at = then.find(name, None, of.part.as_deref());
            let cells = of.rows.iter().map(|row| &then.body[*row].cells);
            cells.filter_map(|cells| Some((cells[key].number()?, cells[at?].number()? * show.factor))).collect()
        });
        earlier.sort_by(|a, b| a.0.total_cmp(&b.0));
        for (gpus, rows) in by_gpus(&rows, at) {
            let (mut points, mut ends) = (Vec::new(), Vec::new());
            for cells in rows.iter().map(|row| &row.cells) {
                let (Content::Text { text, number }, Some(y)) = (&cells[key].content, cells[at].number()) else {
                    continue;
                };
                let x = number.ok_or_else(|| BuiltinFault::ChartOverNames {
                    column: column(),
                    text: text.clone(),
                    axis: axis.clone(),
                })?;
                points.push((x, y * show.factor));
                if let Some((spread, low, high)) = cells[at].ends() {
                    ends.push((x, low * show.factor, high * show.factor));
                    spreads.insert(spread.key().to_owned());
                }
                if ticks.iter().all(|(known, _)| *known != x) {
                    ticks.push((x, text.clone()));
                }
            }
            points.sort_by(|a, b| a.0.total_cmp(&b.0));
            if !points.is_empty() {
                let (name, earlier) = (curve.scope.clone().unwrap_or_default(), std::mem::take(&mut earlier));
                lines.push(DrawnLine { name, gpus, points, ends, earlier });
            }
        }
    }
    ticks.sort_by(|a, b| a.0.total_cmp(&b.0));
    Ok(ChartData { column: name.to_owned(), axis: axis.clone(), show: show.unwrap_or_default(), lines, ticks, spreads })
}

/// A metric over the epochs or steps of each instance that ended well: one line per point of the axes. Several
/// repetitions become their mean. Each part of a series is a separate line.
fn over_series(
    name: &str,
    along: SeriesUnit,
    table: &Table,
    results: &[(&StepResult, Option<&Series>)],
) -> Result<ChartData, BuiltinFault> {
    let ended = || results.iter().filter(|(result, _)| result.outcome == Outcome::Ok);
    let place = |point: &Point| match along {
        SeriesUnit::Epoch => point.key.epoch,
        SeriesUnit::Step => point.key.step,
    };
    let points_of = |series: &Series| -> Vec<(u32, f64, f64)> {
        let points = series.metrics.get(name).into_iter().flatten();
        points.filter_map(|point| Some((point.part, place(point)?, point.value))).collect()
    };
    let has_place = |(_, points): &(&String, &Vec<Point>)| points.iter().any(|point| place(point).is_some());
    let all = ended().filter_map(|(_, series)| *series).flat_map(|series| &series.metrics);
    let known: BTreeSet<&str> = all.filter(has_place).map(|(name, _)| name.as_str()).collect();
    let axis = along.name().to_owned();
    if !known.is_empty() && !known.contains(name) {
        let known = known.into_iter().collect();
        return Err(BuiltinFault::ChartNotBySeries { column: name.to_owned(), axis, known });
    }
    let unit = ended().find_map(|(result, _)| Some(result.metrics.get(name)?.unit.clone())).unwrap_or_default();
    let values: Vec<f64> =
        ended().filter_map(|(_, series)| Some(points_of((*series)?))).flatten().map(|of| of.2).collect();
    let show = Format::for_unit(&unit, values.iter().copied());
    // Names leave out axes with the same value everywhere, and axes that are averaged over.
    let over = averaged(table);
    let differs = |axis: &str| ended().any(|(result, _)| result.axes.get(axis) != results[0].0.axes.get(axis));
    let mut repeated: IndexMap<String, Vec<Vec<(f64, f64)>>> = IndexMap::new();
    let mut whole = BTreeSet::new();
    for (result, series) in ended() {
        let points = series.map(points_of).unwrap_or_default();
        let several = points.iter().any(|(part, ..)| *part > 0);
        let own = result.axes.iter().filter(|(axis, _)| differs(axis) && !over.contains(axis.as_str()));
        let label: Vec<String> = own.map(|(axis, value)| point(axis, &written(value))).collect();
        for of_part in points.chunk_by(|a, b| a.0 == b.0) {
            let part = several.then(|| point(PART, &of_part[0].0.to_string()));
            let name = label.iter().cloned().chain(part).collect::<Vec<_>>().join(", ");
            whole.extend(of_part.iter().filter(|(_, at, _)| at.fract() == 0.0).map(|(_, at, _)| *at as i64));
            let points: Vec<(f64, f64)> = of_part.iter().map(|(_, at, value)| (*at, value * show.factor)).collect();
            repeated.entry(name).or_default().push(chart::thinned(&points));
        }
    }
    let mut spreads = BTreeSet::new();
    let line = |(name, runs): (String, Vec<Vec<(f64, f64)>>)| {
        let (points, ends) = mean(&runs);
        spreads.extend((!ends.is_empty()).then(|| Spread::Sd(0.0, 0).key().to_owned()));
        DrawnLine { name, gpus: None, points, ends, earlier: Vec::new() }
    };
    let lines = repeated.into_iter().map(line).collect();
    let ticks = whole.into_iter().map(|at| (at as f64, at.to_string())).collect();
    Ok(ChartData { column: name.to_owned(), axis, show, lines, ticks, spreads })
}

/// The axes whose values are repetitions, because the table averages over them.
fn averaged(table: &Table) -> BTreeSet<&str> {
    let means = table.notes.iter().filter_map(|note| match note {
        Note::Mean { over, .. } => Some(over),
        _ => None,
    });
    means.flatten().map(String::as_str).collect()
}

/// Position and value of each point.
type Points = Vec<(f64, f64)>;
/// Position, low end and high end of each error bar.
type ErrorBars = Vec<(f64, f64, f64)>;

/// The mean of lines at the positions that all have, with its standard deviation on both sides. A single line stays as
/// it is.
fn mean(runs: &[Points]) -> (Points, ErrorBars) {
    let [first, others @ ..] = runs else { return Default::default() };
    if others.is_empty() {
        return (first.clone(), Vec::new());
    }
    let (mut points, mut ends) = (Vec::new(), Vec::new());
    for (at, value) in first {
        let same = |run: &Points| run.iter().find(|(x, _)| x == at).map(|(_, y)| *y);
        let Some(values) = others.iter().map(same).collect::<Option<Vec<f64>>>() else { continue };
        let n = runs.len() as f64;
        let mean = (value + values.iter().sum::<f64>()) / n;
        let squares: f64 = values.iter().chain([value]).map(|y| (y - mean).powi(2)).sum();
        let sd = (squares / (n - 1.0)).sqrt();
        points.push((*at, mean));
        ends.push((*at, mean - sd, mean + sd));
    }
    (points, ends)
}
