//! Columns that are computed from another one: growth, ratio, speed-up, difference.

use flow_core::reason::BuiltinFault;
use serde_json::Value;

use super::digits::Reading;
use super::groups::{ColumnValues, Groups, add, add_one};
use super::model::{Cell, Column, Content, Note, Table};
use super::with::{ComputedFunction, TableWith, Text};
use crate::columns::{hardware, same, unlike, written};
use crate::format::Format;

/// Adds the column `derived(name)`. Returns how its values follow from the shown numbers of `name`.
pub(crate) fn derive(
    table: &mut Table,
    derived: ComputedFunction,
    name: &str,
    label: Option<Text>,
    measured: &ColumnValues,
    with: &TableWith,
    groups: &Groups<'_>,
) -> Result<Reading, BuiltinFault> {
    let of = table.columns.iter().find(|column| column.name == name && column.derived.is_none());
    let of = of.and_then(|column| column.label.clone());
    let show = Format::change();
    let mut column = Column { name: name.to_owned(), derived: Some(derived), label, of, show, ..Column::default() };
    if derived == ComputedFunction::Difference {
        if groups.parts.len() != 2 {
            return Err(no_difference(name, with.split.as_ref().map(|_| groups.parts.len())));
        }
        let values = measured.cells.iter().flatten().filter_map(Cell::number);
        column.show = Format::for_unit(&measured.unit, values).difference();
        let cells = (0..groups.keys.len())
            .map(|row| vec![combine(table, groups, measured, (row, 1), (row, 0), |a, b| a - b)])
            .collect();
        let pair = |cells: &Vec<Cell>| Some((cells[1].number()?, cells[0].number()?));
        let pairs = measured.cells.iter().filter_map(pair).collect();
        let reading = Reading { show: column.show.clone(), pairs, of: |a, b| a - b };
        if let [Some(first), Some(second)] = groups.parts.as_slice() {
            column.part = Some(format!("{} − {}", written(second), written(first)));
        }
        add_one(table, column, cells);
        return Ok(reading);
    }
    if derived != ComputedFunction::Growth {
        column.show = Format::times();
        let of = with.baseline.iter().flatten().map(|(axis, value)| format!("{axis}={}", written(value)));
        table.note(Note::Baseline { of: of.collect::<Vec<_>>().join(", ") });
    }
    let of: fn(f64, f64) -> f64 = match derived {
        // A change from a value that is not positive has no meaningful ratio.
        ComputedFunction::Growth => |a, b| if b > 0.0 { a / b - 1.0 } else { f64::NAN },
        ComputedFunction::Ratio => |a, b| a / b,
        _ => |a, b| b / a,
    };
    let mut reading = Reading { show: column.show.clone(), pairs: Vec::new(), of };
    let mut cells = Vec::new();
    for row in 0..groups.keys.len() {
        let mut line = Vec::new();
        for part in 0..groups.parts.len() {
            let base = match derived {
                ComputedFunction::Growth => above(groups, row).map(|above| (above, part)),
                _ => baseline(with, table, groups, row, part)?,
            };
            let cell = match (base, derived) {
                (None, _) => Cell::new(Content::Absent),
                (Some(base), ComputedFunction::Growth) => growth(table, groups, measured, (row, part), base, of),
                (Some(base), _) => combine(table, groups, measured, (row, part), base, of),
            };
            if let (Some(base), Some(_)) = (base, cell.number()) {
                let number = |at: (usize, usize)| measured.cells[at.0][at.1].number();
                reading.pairs.extend(number((row, part)).zip(number(base)));
            }
            line.push(cell);
        }
        cells.push(line);
    }
    add(table, column, cells, groups, false);
    Ok(reading)
}

/// The error for `difference` without a split, or with a split that does not have two values.
pub(super) fn no_difference(name: &str, values: Option<usize>) -> BuiltinFault {
    let column = name.to_owned();
    match values {
        None => BuiltinFault::NoDifferenceWithout { column },
        Some(1) => BuiltinFault::NoDifferenceOfOne { column },
        Some(values) => BuiltinFault::NoDifference { column, values: values as u64 },
    }
}

/// The row above, if the two rows differ only in the last axis.
fn above(groups: &Groups<'_>, row: usize) -> Option<usize> {
    let above = row.checked_sub(1)?;
    let (a, b) = (&groups.keys[above], &groups.keys[row]);
    let (_, a) = a.split_last()?;
    let (_, b) = b.split_last()?;
    (a == b).then_some(above)
}

/// The row and part that the baseline selects for this cell. Without a baseline, the first row.
fn baseline(
    with: &TableWith,
    table: &Table,
    groups: &Groups<'_>,
    row: usize,
    part: usize,
) -> Result<Option<(usize, usize)>, BuiltinFault> {
    let Some(baseline) = &with.baseline else {
        return Ok(Some((0, part)));
    };
    let mut key = groups.keys[row].clone();
    let mut part = part;
    for (axis, value) in baseline {
        let is = |v: &Value| same(v, value);
        let missing =
            || BuiltinFault::BaselineValue { axis: axis.clone(), value: written(value), step: with.from.clone() };
        if with.split.as_ref() == Some(axis) {
            part = groups.parts.iter().position(|p| p.as_ref().is_some_and(is)).ok_or_else(missing)?;
        } else if let Some(at) = table.rows.iter().position(|r| r == axis) {
            key[at] = groups.keys.iter().map(|k| &k[at]).find(|v| is(v)).ok_or_else(missing)?.clone();
        } else {
            return Err(BuiltinFault::BaselineAxis { axis: axis.clone() });
        }
    }
    Ok(groups.keys.iter().position(|k| *k == key).map(|row| (row, part)))
}

fn growth(
    table: &mut Table,
    groups: &Groups<'_>,
    measured: &ColumnValues,
    at: (usize, usize),
    above: (usize, usize),
    of: fn(f64, f64) -> f64,
) -> Cell {
    let (cell, base) = (&measured.cells[at.0][at.1], &measured.cells[above.0][above.1]);
    if let (Some(from), Some(to), Some(_), Some(_)) = (base.gpus, cell.gpus, base.number(), cell.number())
        && from != to
    {
        return Cell { of: both(cell, base), gpus: cell.gpus, ..Cell::new(Content::GpusChange { from, to }) };
    }
    combine(table, groups, measured, at, above, of)
}

/// `f` of the numbers of two cells. The cell is absent if one has no number, and unlike if the hardware differs.
fn combine(
    table: &mut Table,
    groups: &Groups<'_>,
    measured: &ColumnValues,
    at: (usize, usize),
    base: (usize, usize),
    f: impl Fn(f64, f64) -> f64,
) -> Cell {
    let (cell, other) = (&measured.cells[at.0][at.1], &measured.cells[base.0][base.1]);
    let (Some(a), Some(b)) = (cell.number(), other.number()) else {
        return Cell::new(Content::Absent);
    };
    if let (Some(one), Some(two)) = (groups.at(base.0, base.1).first(), groups.at(at.0, at.1).first())
        && let Some((what, one, other)) = unlike(&hardware(one), &hardware(two))
    {
        let note = table.note(Note::Unlike { what, one, other });
        return Cell { notes: vec![note], ..Cell::new(Content::Unlike) };
    }
    let value = f(a, b);
    match value.is_finite() {
        true => Cell {
            of: both(cell, other),
            gpus: cell.gpus,
            ..Cell::new(Content::Number { value, spread: None, error: None })
        },
        false => Cell::new(Content::Absent),
    }
}

fn both(cell: &Cell, base: &Cell) -> Vec<String> {
    let mut of = base.of.clone();
    of.extend(cell.of.iter().filter(|l| !base.of.contains(l)).cloned());
    of
}
