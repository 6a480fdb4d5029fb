//! Findings along the rows of a table: where time flattens, how memory grows, where the sweep ends, and straight lines.

use std::collections::BTreeSet;

use flow_core::Outcome;
use flow_core::stats::{Model, choose};

use super::{FigureMeaning, Finding, ScopedFinding, SectionFigures};
use crate::bounds::{BACK, LINEAR, LINEAR_OFF, SAME, SAME_SHARE, is_same};
use crate::format::Format;
use crate::table::{ComputedFunction, Content, Curve, Table};

/// Memory is called flat or not flat only up to values this many times as large as the first,
const FAR: f64 = 4.0;
/// and called not flat only if the first is at most this.
const SMALL: f64 = 4.0;

/// A point of a curve.
#[derive(Clone)]
pub(super) struct Point {
    pub(super) row: usize,
    pub(super) column: usize,
    pub(super) x: f64,
    pub(super) text: String,
    pub(super) y: f64,
    gpus: Option<u32>,
}

/// Other facts about the rows.
#[derive(Default)]
pub(crate) struct RowFacts<'a> {
    /// Results that shared their GPU with other processes, by label. Their times say nothing about the axis.
    pub(crate) shared: BTreeSet<&'a str>,
    /// Columns whose curve an analysis describes, and those whose jumps one describes.
    pub(crate) fitted: BTreeSet<&'a str>,
    pub(crate) searched: BTreeSet<&'a str>,
}

pub(crate) fn curves(ledger: &mut SectionFigures<'_>, besides: &RowFacts<'_>) -> Vec<ScopedFinding> {
    let table = ledger.table;
    let Some(axis) = table.rows.last().cloned() else {
        return Vec::new();
    };
    // Times of successive epochs are not a curve over a chosen parameter. An `epoch` axis that the author relabelled
    // may be one.
    if axis == "epoch" && table.columns.iter().any(|column| column.key && column.name == axis && column.label.is_none())
    {
        return Vec::new();
    }
    let mut found = Vec::new();
    for curve in Curve::all(table) {
        let mut findings = Vec::new();
        let time = ["epoch_time", "iteration_time", "wall"].into_iter().find_map(|name| points(table, &curve, name));
        let alone = |p: &Point| {
            table.body[p.row].cells[p.column].of.iter().all(|label| !besides.shared.contains(label.as_str()))
        };
        let time = time.map(|(name, points)| (name, points.into_iter().filter(alone).collect::<Vec<_>>()));
        let memory = ["gpu_memory", "memory"].into_iter().find_map(|name| points(table, &curve, name));
        if let Some((name, points)) = &time {
            findings.extend(flattens(ledger, &axis, name, points));
        }
        if let (Some((time, t)), Some((memory, m))) = (&time, &memory) {
            findings.extend(memory_faster(ledger, &curve, &axis, (memory, m), (time, t)));
        }
        if let Some((name, points)) = &memory {
            findings.extend(memory_flat(ledger, &axis, name, points));
        }
        findings.extend(frontier(ledger, &curve, &axis, memory.as_ref()));
        if let Some((name, points)) = points(table, &curve, "gpu_load") {
            let points: Vec<Point> = points.into_iter().filter(alone).collect();
            findings.extend(load_trend(ledger, &axis, &name, &points));
        }
        for (name, points) in [time.filter(|(name, _)| name == "iteration_time"), memory].into_iter().flatten() {
            if !besides.fitted.contains(name.as_str()) {
                findings.extend(straight(ledger, &curve, &axis, &name, &points));
            }
        }
        // The line already says that.
        if findings
            .iter()
            .any(|finding| matches!(finding, Finding::Linear { column, .. } if column != "iteration_time"))
        {
            findings.retain(|finding| !matches!(finding, Finding::MemoryNotFlat { .. }));
        }
        found.extend(findings.into_iter().map(|finding| ScopedFinding { scope: curve.scope.clone(), finding }));
    }
    found
}

/// The points of a measured column over a numeric axis; `None` if the table has no such column.
fn points(table: &Table, curve: &Curve, name: &str) -> Option<(String, Vec<Point>)> {
    let column = table.find(name, None, curve.part.as_deref())?;
    Some((name.to_owned(), points_of(table, curve, column)))
}

/// The points of a column over a numeric axis, in the order of the rows.
pub(super) fn points_of(table: &Table, curve: &Curve, column: usize) -> Vec<Point> {
    let key = table.rows.len() - 1;
    let points = curve.rows.iter().filter_map(|row| {
        let cells = &table.body[*row].cells;
        let Content::Text { text, number: Some(x) } = &cells[key].content else { return None };
        let Content::Number { value, .. } = cells[column].content else { return None };
        Some(Point { row: *row, column, x: *x, text: text.clone(), y: value, gpus: cells[column].gpus })
    });
    points.collect()
}

/// The first points in a row that had the same number of GPUs, because only those can be compared along the axis.
fn comparable(points: &[Point]) -> &[Point] {
    let rising = points.windows(2).take_while(|w| w[1].x > w[0].x && w[1].gpus == w[0].gpus).count();
    &points[..(rising + 1).min(points.len())]
}

fn flattens(ledger: &SectionFigures<'_>, axis: &str, time: &str, points: &[Point]) -> Option<Finding> {
    let points = comparable(points);
    let [first, _, .., last] = points else { return None };
    let figure = |p: &Point| ledger.cell(p.row, p.column);
    let (axis, time) = (axis.to_owned(), time.to_owned());
    let by = |a: &&Point, b: &&Point| a.y.total_cmp(&b.y);
    let (low, high) = (points.iter().min_by(by)?, points.iter().max_by(by)?);
    if is_same(low.y, high.y) {
        return Some(Finding::TimeFlat { time, axis, min: figure(low)?, max: figure(high)? });
    }
    let rises = |w: &[Point]| w[1].y > (1.0 + SAME) * w[0].y;
    let falls = |w: &[Point]| w[1].y < (1.0 - SAME) * w[0].y;
    // The first point after which nothing is faster by more than that share.
    let rest_least = |at: usize| points[at..].iter().map(|p| p.y).fold(f64::INFINITY, f64::min);
    let at = (0..points.len()).find(|at| rest_least(*at) >= (1.0 - SAME) * points[*at].y)?;
    let value = figure(&points[at])?;
    let text = points[at].text.clone();
    // The curve turns back on its way to this point, or goes both up and down without a trend.
    let (up, down) = (points.windows(2).any(rises), points.windows(2).any(falls));
    if points[..=at].windows(2).any(rises) || at == 0 && up && down {
        let (min, max) = (figure(low)?, figure(high)?);
        let nowhere = (last.y - first.y).abs() < 0.5 * (high.y - low.y);
        return match nowhere {
            true => Some(Finding::NoTrend { time, axis, min, max }),
            // An iteration of a larger batch is expected to take longer.
            false if time == "iteration_time" => None,
            false => Some(Finding::Uneven { time, axis, min: (low.text.clone(), min), max: (high.text.clone(), max) }),
        };
    }
    if at == points.len() - 1 {
        return Some(Finding::StillFalling { time, axis, at: text, value });
    }
    let rises = (last.y > (1.0 + SAME) * points[at].y).then(|| Some((last.text.clone(), figure(last)?))).flatten();
    match at {
        // An iteration of a larger batch is expected to take longer.
        0 if time == "iteration_time" => None,
        0 => Some(Finding::NoFall { time, axis, at: text, value, rises }),
        _ => {
            let stops = last.y >= points[at].y || points[at + 1..].iter().all(|p| p.y >= points[at].y);
            Some(Finding::Flattens { time, axis, at: text, value, rises, stops })
        }
    }
}

fn memory_faster(
    ledger: &mut SectionFigures<'_>,
    curve: &Curve,
    axis: &str,
    (memory, m): (&str, &[Point]),
    (time, t): (&str, &[Point]),
) -> Option<Finding> {
    let pairs: Vec<(&Point, &Point)> =
        comparable(t).iter().filter_map(|t| Some((comparable(m).iter().find(|m| m.row == t.row)?, t))).collect();
    let change = |a: &Point, b: &Point| b.y / a.y - 1.0;
    // The product must keep rising once it has begun to rise.
    let rises = |w: &[(&Point, &Point)]| w[1].0.y * w[1].1.y > w[0].0.y * w[0].1.y;
    let at = pairs.windows(2).position(rises)?;
    if pairs.len() < 3 || !pairs.windows(2).skip(at).all(rises) {
        return None;
    }
    let (from, to) = (&pairs[at], &pairs[at + 1]);
    if change(from.1, to.1) >= 0.0 || change(from.0, to.0) <= SAME {
        return None;
    }
    let grows = growth(ledger, curve, axis, memory, from.0, to.0)?;
    let falls = growth(ledger, curve, axis, time, from.1, to.1)?;
    Some(Finding::MemoryFaster {
        memory: memory.to_owned(),
        time: time.to_owned(),
        axis: axis.to_owned(),
        from: from.1.text.clone(),
        to: to.1.text.clone(),
        grows,
        falls,
    })
}

/// The growth from one row to the next: the table's own cell if there is one, otherwise computed.
fn growth(
    ledger: &mut SectionFigures<'_>,
    curve: &Curve,
    axis: &str,
    name: &str,
    from: &Point,
    to: &Point,
) -> Option<super::Figure> {
    if let Some(column) = ledger.table.find(name, Some(ComputedFunction::Growth), curve.part.as_deref())
        && let Some(figure) = ledger.cell(to.row, column)
    {
        return Some(figure);
    }
    let what = FigureMeaning::new("growth", [("column", name), ("axis", axis), ("from", &from.text), ("to", &to.text)]);
    Some(ledger.computed(curve.scope.as_deref(), what, to.y / from.y - 1.0, Format::change()))
}

/// Whether memory is flat for small values of the axis. That it is not flat is reported only if the smallest value is
/// small enough.
fn memory_flat(ledger: &SectionFigures<'_>, axis: &str, memory: &str, points: &[Point]) -> Option<Finding> {
    let points = comparable(points);
    let first = points.first()?;
    let rising = &points[..points.windows(2).take_while(|w| w[1].y >= w[0].y).count() + 1];
    let far = rising.iter().find(|p| p.x >= FAR * first.x);
    if let Some(far) = far.filter(|far| far.y > (1.0 + SAME) * first.y && first.x > 0.0 && first.x <= SMALL) {
        let [min, max] = [first, far].map(|point| ledger.cell(point.row, point.column));
        let (memory, axis) = (memory.to_owned(), axis.to_owned());
        let (from, to) = (first.text.clone(), far.text.clone());
        return Some(Finding::MemoryNotFlat { memory, axis, from, to, min: min?, max: max? });
    }
    let flat = points.iter().take_while(|p| (p.y / first.y - 1.0).abs() <= SAME).count();
    // Memory that is flat to the end says nothing about small batches, and neighbours in a fine sweep always have
    // similar values.
    let last = points.get(flat.checked_sub(1)?)?;
    if flat < 3 || flat == points.len() || last.x < FAR * first.x {
        return None;
    }
    let by = |a: &&Point, b: &&Point| a.y.total_cmp(&b.y);
    let (least, most) = (points[..flat].iter().min_by(by)?, points[..flat].iter().max_by(by)?);
    let [min, max] = [least, most].map(|point| ledger.cell(point.row, point.column));
    let (memory, axis, at) = (memory.to_owned(), axis.to_owned(), last.text.clone());
    Some(Finding::MemoryFlat { memory, axis, at, min: min?, max: max? })
}

/// The change of a load along the axis, from its first point to its last.
fn load_trend(ledger: &SectionFigures<'_>, axis: &str, load: &str, points: &[Point]) -> Option<Finding> {
    let points = comparable(points);
    let [first, .., last] = points else { return None };
    let sign = (last.y - first.y).signum();
    let way = (last.y - first.y).abs();
    let back = points.windows(2).any(|w| sign * (w[1].y - w[0].y) < -BACK * way);
    if way < SAME_SHARE || back {
        return None;
    }
    let end = |p: &Point| Some((p.text.clone(), ledger.cell(p.row, p.column)?));
    let (from, to) = (end(first)?, end(last)?);
    Some(Finding::LoadTrend { load: load.to_owned(), axis: axis.to_owned(), rises: sign > 0.0, from, to })
}

/// The smallest point from which on nothing ran, because memory or the machine did not suffice.
fn frontier(
    ledger: &SectionFigures<'_>,
    curve: &Curve,
    axis: &str,
    memory: Option<&(String, Vec<Point>)>,
) -> Option<Finding> {
    let table = ledger.table;
    let key = table.rows.len() - 1;
    let columns: Vec<usize> = (table.rows.len()..table.columns.len())
        .filter(|at| table.columns[*at].part.is_none() || table.columns[*at].part == curve.part)
        .collect();
    let ended = |row: usize| {
        columns.iter().find_map(|at| match table.body[row].cells[*at].content {
            Content::Outcome { outcome: outcome @ (Outcome::OutOfMemory | Outcome::DoesNotFit), gpu } => {
                Some((outcome, gpu))
            }
            _ => None,
        })
    };
    let at = curve.rows.iter().position(|row| ended(*row).is_some())?;
    if !curve.rows[at..].iter().all(|row| ended(*row).is_some()) {
        return None;
    }
    let text = |row: usize| table.body[row].cells[key].text().unwrap_or_default().to_owned();
    let (outcome, gpu) = ended(curve.rows[at])?;
    // The last point before it that ran. A point that failed says nothing about memory.
    let ran = |row: &&usize| {
        columns.iter().any(|at| match table.body[**row].cells[*at].content {
            Content::Number { .. } | Content::NotFinite { .. } => true,
            Content::Outcome { outcome, .. } => outcome == Outcome::Ok,
            _ => false,
        })
    };
    let fits = curve.rows[..at].iter().rfind(ran).map(|row| {
        let row = *row;
        let used = memory.and_then(|(_, points)| points.iter().find(|p| p.row == row));
        (text(row), used.and_then(|p| ledger.cell(p.row, p.column)))
    });
    Some(Finding::Frontier { axis: axis.to_owned(), at: text(curve.rows[at]), outcome, gpu, fits })
}

fn straight(
    ledger: &mut SectionFigures<'_>,
    curve: &Curve,
    axis: &str,
    name: &str,
    points: &[Point],
) -> Option<Finding> {
    let points = comparable(points);
    if points.len() < 5 {
        return None;
    }
    let choice = choose(&points.iter().map(|p| (p.x, p.y)).collect::<Vec<_>>())?;
    let fit = choice.of(Model::Affine).filter(|line| line.r2 >= LINEAR)?;
    let [constant, rise] = fit.coefficients[..] else { return None };
    let off = |p: &Point| (constant.value + rise.value * p.x - p.y).abs() > LINEAR_OFF * p.y.abs();
    if points.iter().any(off) {
        return None;
    }
    if !matches!(choice.best().model, Model::Proportional | Model::Affine) {
        return None;
    }
    let show = ledger.table.columns[points[0].column].show.clone();
    let fine = Format { decimals: show.decimals.max(1) + 1, ..show.clone() };
    let (column, axis) = (name.to_owned(), axis.to_owned());
    let scope = curve.scope.as_deref();
    let what = |what| FigureMeaning::new(what, [("column", &*column), ("axis", &*axis)]);
    let intercept = ledger.computed(scope, what("intercept"), constant.value, show);
    let slope = ledger.computed(scope, what("slope"), rise.value, fine);
    let r2 = Format { unit: String::new(), factor: 1.0, decimals: 3, ..Format::default() };
    let r2 = ledger.computed(scope, what("r2"), fit.r2, r2);
    Some(Finding::Linear { column, axis, intercept, slope, r2 })
}
