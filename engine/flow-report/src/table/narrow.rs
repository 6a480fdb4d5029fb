//! The part of a table that fits on the first screen of a section: few columns, few rows, nothing empty.

use flow_core::Best;
use indexmap::IndexSet;

use super::model::{Content, Row, Table};
use super::with::ComputedFunction;

/// Maximum columns and rows that can be read at a glance.
const COLUMNS: usize = 6;
const ROWS: usize = 12;

/// The table with at most six columns and twelve rows. Columns that `about` names come first. Rows are the best ones by
/// `ranked`, or else a sample from the first to the last.
pub(crate) fn narrow(table: &Table, about: &[&str], ranked: Option<&str>) -> Table {
    let rows = rows(table, ranked.and_then(|name| table.find(name, None, None).map(|at| (name, at))));
    let mut keys: Vec<usize> = (0..table.columns.len()).filter(|at| table.columns[*at].key).collect();
    if keys.len() >= COLUMNS {
        // Axes that do not vary are left out, and one column stays free for a number.
        let of = |row: usize, at: usize| &table.body[row].cells[at].content;
        keys.retain(|at| rows.iter().any(|row| of(*row, *at) != of(rows[0], *at)));
        keys.truncate(COLUMNS - 1);
    }
    let chosen = columns(table, about, COLUMNS.saturating_sub(keys.len()));
    let kept: Vec<usize> = (0..table.columns.len()).filter(|at| keys.contains(at) || chosen.contains(at)).collect();
    let body = rows.into_iter().map(|row| {
        let cells = kept.iter().map(|at| {
            let mut cell = table.body[row].cells[*at].clone();
            cell.notes.clear();
            cell
        });
        Row { cells: cells.collect() }
    });
    Table {
        columns: kept.iter().map(|at| table.columns[*at].clone()).collect(),
        body: body.collect(),
        notes: table.notes.iter().filter(|note| note.is_of_spreads()).cloned().collect(),
        reference: None,
        ..table.clone()
    }
}

/// The measured columns to show: all parts of a quantity or none. Only if the first quantity does not fit, some of its
/// parts.
fn columns(table: &Table, about: &[&str], room: usize) -> Vec<usize> {
    let measured = table.columns.iter().filter(|column| !column.key);
    let quantities: IndexSet<(&str, Option<ComputedFunction>)> =
        measured.map(|column| (&*column.name, column.derived)).collect();
    let mut quantities = Vec::from_iter(quantities);
    let place = |name: &str| about.iter().position(|asked| *asked == name).unwrap_or(about.len());
    quantities.sort_by_key(|(name, derived)| (place(name), derived.is_some()));
    let mut chosen: Vec<usize> = Vec::new();
    for (name, derived) in quantities {
        let of = |at: &usize| {
            let column = &table.columns[*at];
            !column.key && column.name == name && column.derived == derived
        };
        let parts: Vec<usize> = (0..table.columns.len()).filter(of).collect();
        let cells = || parts.iter().flat_map(|at| table.body.iter().map(|row| &row.cells[*at].content));
        let empty = cells().all(|cell| matches!(cell, Content::Absent));
        let texts = cells().all(|cell| matches!(cell, Content::Text { .. }));
        let constant = texts && cells().all(|cell| Some(cell) == cells().next());
        if empty || constant && !about.contains(&name) {
            continue;
        }
        match chosen.len() + parts.len() <= room {
            true => chosen.extend(parts),
            false if chosen.is_empty() => return parts.into_iter().take(room).collect(),
            false => {}
        }
    }
    chosen
}

fn rows(table: &Table, ranked: Option<(&str, usize)>) -> Vec<usize> {
    let all: Vec<usize> = (0..table.body.len()).collect();
    if all.len() <= ROWS {
        return all;
    }
    if let Some((name, at)) = ranked.filter(|_| table.split.is_none()) {
        let sign = if Best::by_name(name) == Some(Best::Max) { -1.0 } else { 1.0 };
        let value = |row: &usize| table.body[*row].cells[at].number().map_or(f64::INFINITY, |value| sign * value);
        let mut all = all;
        all.sort_by(|a, b| value(a).total_cmp(&value(b)));
        all.truncate(ROWS);
        return all;
    }
    let last = all.len() - 1;
    (0..ROWS).map(|n| (n * last + (ROWS - 1) / 2) / (ROWS - 1)).collect()
}
