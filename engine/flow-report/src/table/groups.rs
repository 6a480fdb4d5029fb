//! The results behind a table, their values of one column, and how a column is added to the table. This module does not
//! know which columns exist or what they mean.

use flow_core::StepResult;
use serde_json::Value;

use super::model::{Cell, Column, Table};
use crate::columns::written;

/// The results behind a table, by row and part of the split.
pub(crate) struct Groups<'a> {
    /// Axis values of each row, in the order of the matrix.
    pub(crate) keys: Vec<Vec<Value>>,
    /// Values of the split; a single `None` without a split.
    pub(crate) parts: Vec<Option<Value>>,
    /// Results by row, then part.
    pub(crate) cells: Vec<Vec<Vec<&'a StepResult>>>,
}

impl<'a> Groups<'a> {
    /// The results of one cell.
    pub(crate) fn at(&self, row: usize, part: usize) -> &[&'a StepResult] {
        &self.cells[row][part]
    }
}

/// Values of a column by row, then part, with their unit.
pub(crate) struct ColumnValues {
    pub(crate) unit: String,
    pub(crate) declared: bool,
    pub(crate) cells: Vec<Vec<Cell>>,
}

/// Adds a column, or one per part of the split.
pub(crate) fn add(table: &mut Table, column: Column, cells: Vec<Vec<Cell>>, groups: &Groups<'_>, once: bool) {
    if once {
        return add_one(table, column, cells);
    }
    for part in &groups.parts {
        table.columns.push(Column { part: part.as_ref().map(written), ..column.clone() });
    }
    for (row, cells) in table.body.iter_mut().zip(cells) {
        row.cells.extend(cells);
    }
}

/// Adds one column, made of the first cell of each row.
pub(crate) fn add_one(table: &mut Table, column: Column, cells: Vec<Vec<Cell>>) {
    table.columns.push(column);
    for (row, cells) in table.body.iter_mut().zip(cells) {
        row.cells.extend(cells.into_iter().next());
    }
}
