//! Columns that agree with the earlier figures beside them.

use super::{Finding, Ledger, Scoped, What};
use crate::format::Format;
use crate::table::{Reference, Table};

/// Figures that are no further apart agree: rounded as published figures are, and by another convention for small things.
const AGREES: f64 = 0.05;
/// Declared, not found.
const DECLARED: [&str; 2] = ["gpus", "cpus"];

/// The columns of two tables, of the same rows, that agree in every row that both have, of which there are two at least.
pub(crate) fn agrees(ledger: &mut Ledger<'_>, now: &Table, then: &Reference) -> Vec<Scoped> {
    let (now, then) = super::common(now, &then.table);
    let mut names: Vec<&String> = Vec::new();
    for column in now.columns.iter().filter(|column| !column.key && !DECLARED.contains(&&*column.name)) {
        if !names.contains(&&column.name) {
            names.push(&column.name);
        }
    }
    let off = |name: &String| {
        let places = now.columns.iter().enumerate().filter(|(_, column)| column.name == *name);
        let cells = places.flat_map(|(at, _)| now.body.iter().zip(&then.body).map(move |(a, b)| (a, b, at)));
        let pairs = cells.filter_map(|(a, b, at)| Some((a.cells[at].number()?, b.cells[at].number()?)));
        let off: Vec<f64> = pairs.map(|(a, b)| if a == b { 0.0 } else { (a / b - 1.0).abs() }).collect();
        (off.len() >= 2).then(|| off.into_iter().fold(0.0, f64::max))
    };
    let found = names.into_iter().filter_map(|name| Some((name, off(name).filter(|off| *off <= AGREES)?)));
    let found: Vec<(String, f64)> = found.map(|(name, off)| (name.clone(), off)).collect();
    let figure = |(column, off): (String, f64)| {
        let show = Format::for_unit("ratio", [off].into_iter());
        let most = ledger.computed(None, What::Off { column: column.clone() }, off, show);
        Scoped { scope: None, finding: Finding::Agrees { column, most } }
    };
    found.into_iter().map(figure).collect()
}
