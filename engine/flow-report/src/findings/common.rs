//! The rows and columns that two tables have in common, over which findings of the two can be compared. This module
//! does not know any findings.

use crate::table::{Cell, Column, Content, Row, Table};

/// Both tables, reduced to the cells that have content in both.
pub(crate) fn common(now: &Table, then: &Table) -> (Table, Table) {
    let empty = |table: &Table| Table { columns: Vec::new(), body: Vec::new(), rows: Vec::new(), ..table.clone() };
    if now.rows != then.rows {
        return (empty(now), empty(then));
    }
    let keys = now.rows.len();
    let same = |a: &Row, b: &Row| a.cells[..keys].iter().zip(&b.cells).all(|(a, b)| a.content == b.content);
    let row = |row: &Row| then.body.iter().position(|other| same(row, other));
    let rows: Vec<(usize, usize)> = now.body.iter().enumerate().filter_map(|(at, own)| Some((at, row(own)?))).collect();
    let column = |own: &Column| {
        let is = |other: &Column| (&other.name, &other.part, other.key) == (&own.name, &own.part, own.key);
        then.columns.iter().position(|other| other.derived.is_none() && is(other))
    };
    let plain = now.columns.iter().enumerate().filter(|(_, own)| own.derived.is_none());
    let columns: Vec<(usize, usize)> = plain.filter_map(|(at, own)| Some((at, column(own)?))).collect();
    let (mut of_now, mut of_then) = (empty(now), empty(then));
    (of_now.rows, of_then.rows) = (now.rows.clone(), then.rows.clone());
    of_now.columns = columns.iter().map(|(at, _)| now.columns[*at].clone()).collect();
    of_then.columns = columns.iter().map(|(_, at)| then.columns[*at].clone()).collect();
    for (a, b) in rows {
        let cells = columns.iter().map(|(x, y)| {
            let (one, other) = (&now.body[a].cells[*x], &then.body[b].cells[*y]);
            match now.columns[*x].key || comparable(one, other) {
                true => (one.clone(), other.clone()),
                false => (Cell::new(Content::Absent), Cell::new(Content::Absent)),
            }
        });
        let (one, other) = cells.unzip();
        of_now.body.push(Row { cells: one });
        of_then.body.push(Row { cells: other });
    }
    (of_now, of_then)
}

/// Whether both cells have content, and not from different numbers of GPUs.
fn comparable(one: &Cell, other: &Cell) -> bool {
    let says = |cell: &Cell| !matches!(cell.content, Content::Absent | Content::Disturbed | Content::Unlike);
    let gpus = one.gpus.zip(other.gpus).is_none_or(|(one, other)| one == other);
    says(one) && says(other) && gpus
}
