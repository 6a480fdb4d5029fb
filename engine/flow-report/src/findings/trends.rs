//! The course of measured columns along the rows: rises, falls, varies or stays. Only for columns that no other finding
//! is about.

use super::curve::RowFacts;
use super::reproduction::topic;
use super::{Course, Finding, ScopedFinding, SectionFigures};
use crate::bounds::{BACK, SAME, SAME_SHARE};
use crate::table::{Column, Content, Curve};

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
    let key = table.rows.len() - 1;
    let points = curve.rows.iter().filter_map(|row| {
        let cells = &table.body[*row].cells;
        let Content::Text { text, number: Some(x) } = &cells[key].content else { return None };
        let Content::Number { value, .. } = cells[column].content else { return None };
        Some((*x, text, value, ledger.cell(*row, column)?))
    });
    let mut points: Vec<_> = points.collect();
    points.sort_by(|a, b| a.0.total_cmp(&b.0));
    let gpus = curve.rows.iter().filter_map(|row| table.body[*row].cells[column].gpus);
    if points.len() < 3 || gpus.collect::<std::collections::BTreeSet<_>>().len() > 1 {
        return None;
    }
    let by = |a: &&(f64, &String, f64, super::Figure), b: &&(f64, &String, f64, super::Figure)| a.2.total_cmp(&b.2);
    let (low, high) = (points.iter().min_by(by)?, points.iter().max_by(by)?);
    let (first, last) = (points.first()?, points.last()?);
    let way = high.2 - low.2;
    let share = table.columns[column].show.unit == "%";
    let stays = if share { way < SAME_SHARE } else { way <= SAME * high.2.abs().min(low.2.abs()) };
    let sign = (last.2 - first.2).signum();
    let back = points.windows(2).map(|w| -sign * (w[1].2 - w[0].2)).fold(0.0, f64::max);
    let one_way = back <= BACK * way && (last.2 - first.2).abs() >= (1.0 - BACK) * way;
    let (course, from, to) = match (stays, one_way) {
        (true, _) => (Course::Constant, low, high),
        (false, true) if sign > 0.0 => (Course::Rises, first, last),
        (false, true) => (Course::Falls, first, last),
        (false, false) => (Course::Varies, low, high),
    };
    let end = |(_, text, _, figure): &(f64, &String, f64, super::Figure)| ((*text).clone(), figure.clone());
    let (column, axis) = (table.columns[column].name.clone(), axis.to_owned());
    Some(Finding::Trend { column, axis, course, from: end(from), to: end(to) })
}
