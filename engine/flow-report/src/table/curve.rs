//! The curves of a table: rows that differ only in the last axis, for each part of the split. This module does not
//! interpret them.

use indexmap::{IndexMap, IndexSet};

use super::model::{Row, Table};
use crate::columns::point;

/// The rows that differ only in the last row axis, in one part of the split.
#[derive(Clone, Debug)]
pub(crate) struct Curve {
    /// Name of the curve, if there are several: `v7`, `resnet18, lr=0.1`.
    pub(crate) scope: Option<String>,
    /// The point of the other row axes, in any part: `resnet18, lr=0.1`.
    pub(crate) of: Vec<String>,
    /// The part of the split.
    pub(crate) part: Option<String>,
    /// Positions of its rows in the table.
    pub(crate) rows: Vec<usize>,
}

impl Curve {
    /// All curves of a table.
    pub(crate) fn all(table: &Table) -> Vec<Curve> {
        let groups = rows_by_others(table);
        let mut curves = Vec::new();
        for part in table.parts() {
            for (of, rows) in groups.clone() {
                let scope: Vec<String> = of.iter().cloned().chain(part.and_then(|part| table.point(part))).collect();
                let scope = (!scope.is_empty()).then(|| scope.join(", "));
                curves.push(Curve { scope, of, part: part.map(str::to_owned), rows });
            }
        }
        curves
    }

    /// All rows as one curve, for each part of the split.
    pub(crate) fn whole(table: &Table) -> Vec<Curve> {
        let of = |part: Option<&str>| Curve {
            scope: part.and_then(|part| table.point(part)),
            of: Vec::new(),
            part: part.map(str::to_owned),
            rows: (0..table.body.len()).collect(),
        };
        table.parts().into_iter().map(of).collect()
    }
}

/// The rows of a table by their point of all axes but the last.
pub(crate) fn rows_by_others(table: &Table) -> Vec<(Vec<String>, Vec<usize>)> {
    let others = table.rows.len().saturating_sub(1);
    let mut groups: IndexMap<Vec<String>, Vec<usize>> = IndexMap::new();
    for (at, row) in table.body.iter().enumerate() {
        let keys = table.rows.iter().zip(&row.cells).take(others);
        let of = keys.filter_map(|(axis, cell)| Some(point(axis, cell.text()?))).collect();
        groups.entry(of).or_default().push(at);
    }
    groups.into_iter().collect()
}

/// Groups rows by the number of GPUs behind the numbers of a column. The number is `None` if it is the same in all
/// rows.
pub(crate) fn by_gpus<'a>(rows: &[&'a Row], column: usize) -> Vec<(Option<u32>, Vec<&'a Row>)> {
    let measured = rows.iter().map(|row| &row.cells[column]).filter(|cell| cell.number().is_some());
    let counts: IndexSet<Option<u32>> = measured.map(|cell| cell.gpus).filter(Option::is_some).collect();
    if counts.len() < 2 {
        return vec![(None, rows.to_vec())];
    }
    let of = |count: Option<u32>| (count, rows.iter().filter(|row| row.cells[column].gpus == count).copied().collect());
    counts.into_iter().map(of).collect()
}
