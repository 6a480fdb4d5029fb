//! Columns that agree with the earlier figures next to them.

use indexmap::IndexSet;

use super::{FigureMeaning, Finding, ScopedFinding, SectionFigures};
use crate::format::Format;
use crate::table::{Reference, Row, Table};

/// Figures that differ by at most this share agree. Published figures are rounded and may follow other conventions for
/// details.
const AGREES: f64 = 0.05;
const DECLARED: [&str; 2] = ["gpus", "cpus"];

/// The columns of two tables that agree in every row that both have. There must be at least two such rows.
pub(crate) fn agrees(ledger: &mut SectionFigures<'_>, now: &Table, then: &Reference) -> Vec<ScopedFinding> {
    let (now, then) = super::common(now, &then.table);
    let measured = now.columns.iter().filter(|column| !column.key && !DECLARED.contains(&&*column.name));
    let names: IndexSet<&String> = measured.map(|column| &column.name).collect();
    let agreement = |name: &String| {
        let places = now.columns.iter().enumerate().filter(|(_, column)| column.name == *name);
        let cells = places.flat_map(|(at, _)| now.body.iter().zip(&then.body).map(move |(a, b)| (a, b, at)));
        let pair = |(now, earlier, at): (&Row, &Row, usize)| {
            let (a, b) = (now.cells[at].number()?, earlier.cells[at].number()?);
            let off = if a == b { 0.0 } else { (a / b - 1.0).abs() };
            Some((off, as_given(&then.columns[at].show, a, b, earlier.cells[at].digits)))
        };
        let pairs: Vec<(f64, bool)> = cells.filter_map(pair).collect();
        let off = pairs.iter().map(|(off, _)| *off).fold(0.0, f64::max);
        let as_given = pairs.iter().filter(|(_, as_given)| *as_given).count();
        (pairs.len() >= 2 && off <= AGREES).then_some((off, as_given, pairs.len()))
    };
    let found = names.into_iter().filter_map(|name| Some((name.clone(), agreement(name)?)));
    let found: Vec<(String, (f64, usize, usize))> = found.collect();
    let figure = |(column, (off, as_given, of)): (String, (f64, usize, usize))| {
        let show = Format::for_unit("ratio", [off].into_iter());
        let most = ledger.computed(None, FigureMeaning::of("off", &column), off, show);
        let as_given = ledger.count(FigureMeaning::of("as_given", &column), as_given);
        let of = ledger.count(FigureMeaning::of("given", &column), of);
        ScopedFinding { scope: None, finding: Finding::Agrees { column, most, as_given, of } }
    };
    found.into_iter().map(figure).collect()
}

/// Whether the current figure reads like the earlier one, with as many digits as that was given with.
fn as_given(show: &Format, now: f64, then: f64, digits: Option<u8>) -> bool {
    let fine = Format { unit: String::new(), decimals: 9, ..show.clone() };
    let given = match digits {
        Some(digits) => fine.given(then, digits),
        None => fine.no_finer_than(std::iter::once(then)),
    };
    given.number(now) == given.number(then)
}
