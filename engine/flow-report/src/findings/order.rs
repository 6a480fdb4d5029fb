//! Whether single simulations give the same order as many simulations.

use indexmap::IndexMap;
use serde_json::Value;

use super::schedule::{Part, direction, ordered, pairs, parts};
use super::{Figure, Finding, SectionFigures};
use crate::columns::written;
use crate::table::{Row, Table};

/// Compares the orders of a table with one row per policy with a row of another table that is split by policy.
pub(crate) fn order_of(own: &Table, name: &str, other: &Table, at: &IndexMap<String, Value>) -> Vec<Finding> {
    let ([axis], Some((split, _))) = (own.rows.as_slice(), &other.split) else { return Vec::new() };
    let key = |row: &Row| -> Vec<(String, String)> {
        let cells = other.rows.iter().zip(&row.cells);
        cells.filter_map(|(axis, cell)| Some((axis.clone(), cell.text()?.to_owned()))).collect()
    };
    let is_meant = |place: &[(String, String)]| {
        at.iter().all(|(axis, value)| place.iter().all(|(of, text)| of != axis || *text == written(value)))
    };
    let mut rows = other.body.iter().map(key).enumerate().filter(|(_, place)| is_meant(place));
    let (Some((row, place)), None, true) = (rows.next(), rows.next(), axis == split) else { return Vec::new() };
    let theirs = SectionFigures::new(other);
    let against = |finding: Finding| {
        let Finding::Order { column, order } = finding else { return None };
        let theirs = parts(&theirs, &column, row);
        let known = |(name, _): &(String, Figure)| theirs.iter().find(|part| part.name == *name);
        let both: Vec<&Part> = order.iter().filter_map(known).collect();
        let (mut held, mut turned) = (false, Vec::new());
        for (n, first) in both.iter().enumerate() {
            for second in &both[n + 1..] {
                match direction(first, second, pairs(both.len())) {
                    1 => held = true,
                    -1 => turned.push((first.name.clone(), second.name.clone())),
                    _ => {}
                }
            }
        }
        let names: Vec<String> = both.iter().map(|part| part.name.clone()).collect();
        let (table, place) = (name.to_owned(), place.clone());
        (names.len() > 1).then_some(Finding::OrderOf { column, table, place, names, held, turned })
    };
    ordered(&SectionFigures::new(own)).into_iter().filter_map(against).collect()
}
