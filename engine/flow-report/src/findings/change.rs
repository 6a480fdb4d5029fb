//! How numbers change from one version to another: as ratios where there are any, else as differences.

use crate::format::Format;
use crate::table::{Content, Row, Table};

/// Where no relative change is larger all are shown with a digit more.
const FINE: f64 = 0.015;

/// How a column changes from one version to the other.
pub(super) struct Change {
    pub(super) show: Format,
    pub(super) of: fn(f64, f64) -> f64,
    /// Ratios less 1 are computed, not differences.
    pub(super) relative: bool,
    /// What small changes are a share of.
    pub(super) scale: f64,
    /// What both have, by row.
    pub(super) pairs: Vec<Option<(f64, f64)>>,
}

/// How the columns at these places of a table change from the first to the second.
pub(super) fn change_of(table: &Table, at_a: usize, at_b: usize) -> Change {
    let show = &table.columns[at_a].show;
    let measured = |row: &Row, at: usize| match row.cells[at].content {
        Content::Number { value, .. } => Some(value),
        _ => None,
    };
    let pair = |row: &Row| measured(row, at_a).zip(measured(row, at_b));
    let pairs: Vec<Option<(f64, f64)>> = table.body.iter().map(pair).collect();
    let difference = |show, scale, pairs| Change { show, of: |a, b| b - a, relative: false, scale, pairs };
    // A difference with all digits of its ends would come out otherwise by the last one.
    if show.unit == "%" {
        return difference(Format { decimals: show.decimals.min(1), ..show.difference() }, 1.0, pairs);
    }
    let all = || pairs.iter().flatten().copied();
    let repeated = |row: &Row| have_ratios(row.cells[at_a].values.iter().copied().zip(row.cells[at_b].values.clone()));
    if !have_ratios(all()) || !table.body.iter().all(repeated) {
        let scale = all().map(|(a, b)| a.abs().max(b.abs())).fold(0.0, f64::max);
        return difference(show.difference(), scale, pairs);
    }
    let of = |a: f64, b: f64| b / a - 1.0;
    let changes = all().map(|(a, b)| of(a, b)).filter(|change| change.is_finite());
    // Of nothing but small changes most would read as none.
    let small = (FINE / 10.0..FINE).contains(&changes.clone().map(f64::abs).fold(0.0, f64::max));
    let show = Format::changes(changes);
    let show = Format { decimals: if small { 1 } else { show.decimals }, ..show };
    Change { show, of, relative: true, scale: 1.0, pairs }
}

/// From what is not positive, and to what is negative, no ratio tells by how much, nor in which direction.
pub(crate) fn have_ratios(mut pairs: impl Iterator<Item = (f64, f64)>) -> bool {
    pairs.all(|(from, to)| from > 0.0 && to >= 0.0)
}
