//! The course of measured columns along the rows: rises, falls, varies or stays. Only for columns that no other finding
//! is about.

use super::curve::{Point, RowFacts, points_of};
use super::facts::topic;
use super::{Course, Finding, ScopedFinding, SectionFigures};
use crate::bounds::{BACK, SAME, SAME_SHARE};
use crate::table::{Column, Curve};

/// Columns that describe the measuring itself or the machine.
const SIDE_COLUMNS: [&str; 6] = ["foreign_cpu", "sampler_cpu", "cpu_saturated", "gpu_shared", "gpus", "cpus"];

/// A sentence for each column of each curve that neither `found` nor an analysis covers.
pub(crate) fn trends(
    ledger: &SectionFigures<'_>,
    besides: &RowFacts<'_>,
    found: &[ScopedFinding],
) -> Vec<ScopedFinding> {
    let table = ledger.table;
    let Some(axis) = table.rows.last().filter(|axis| *axis != "epoch" && *axis != "step") else { return Vec::new() };
    let mut all = Vec::new();
    for curve in Curve::all(table) {
        let own = |(_, column): &(usize, &Column)| {
            !column.key && column.derived.is_none() && !column.earlier && column.part == curve.part
        };
        for (at, column) in table.columns.iter().enumerate().filter(own) {
            let told = |one: &ScopedFinding| {
                let about = topic(&one.finding).is_some_and(|(_, about)| about == column.name);
                let noise = matches!(&one.finding, Finding::Repeated { column: of, .. } if *of == column.name);
                one.scope == curve.scope && (about || noise)
            };
            let name = column.name.as_str();
            let analysed = besides.fitted.contains(name) || besides.searched.contains(name);
            // A run that shares its GPU takes longer, and the GPU's figures include the other programs.
            let shared =
                |row: &usize| table.body[*row].cells[at].of.iter().any(|label| besides.shared.contains(label.as_str()));
            let disturbed = (column.is_time() || name.starts_with("gpu_")) && curve.rows.iter().any(shared);
            if SIDE_COLUMNS.contains(&name) || analysed || disturbed || found.iter().any(told) {
                continue;
            }
            let finding = along(ledger, &curve, axis, at);
            all.extend(finding.map(|finding| ScopedFinding { scope: curve.scope.clone(), finding }));
        }
    }
    all
}

fn along(ledger: &SectionFigures<'_>, curve: &Curve, axis: &str, column: usize) -> Option<Finding> {
    let table = ledger.table;
    let mut points = points_of(table, curve, column);
    points.sort_by(|a, b| a.x.total_cmp(&b.x));
    let gpus = curve.rows.iter().filter_map(|row| table.body[*row].cells[column].gpus);
    if points.len() < 3 || gpus.collect::<std::collections::BTreeSet<_>>().len() > 1 {
        return None;
    }
    let by = |a: &&Point, b: &&Point| a.y.total_cmp(&b.y);
    let (low, high) = (points.iter().min_by(by)?, points.iter().max_by(by)?);
    let (first, last) = (points.first()?, points.last()?);
    let way = high.y - low.y;
    let share = table.columns[column].show.unit == "%";
    let stays = if share { way < SAME_SHARE } else { way <= SAME * high.y.abs().min(low.y.abs()) };
    let sign = (last.y - first.y).signum();
    let back = points.windows(2).map(|w| -sign * (w[1].y - w[0].y)).fold(0.0, f64::max);
    let one_way = back <= BACK * way && (last.y - first.y).abs() >= (1.0 - BACK) * way;
    let (course, from, to) = match (stays, one_way) {
        (true, _) => (Course::Constant, low, high),
        (false, true) if sign > 0.0 => (Course::Rises, first, last),
        (false, true) => (Course::Falls, first, last),
        (false, false) => (Course::Varies, low, high),
    };
    let end = |point: &Point| Some((point.text.clone(), ledger.cell(point.row, point.column)?));
    let (column, axis) = (table.columns[column].name.clone(), axis.to_owned());
    Some(Finding::Trend { column, axis, course, from: end(from)?, to: end(to)? })
}
