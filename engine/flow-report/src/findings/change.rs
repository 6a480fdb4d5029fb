//! Changes of numbers from one version to another: ratios if possible, otherwise differences.

use crate::format::Format;
use crate::table::{Row, Table};

/// If no relative change exceeds this, all are shown with one more digit.
const FINE: f64 = 0.015;

/// The change of a column from one version to the other.
pub(super) struct Change {
    pub(super) show: Format,
    pub(super) of: fn(f64, f64) -> f64,
    /// Whether `of` computes ratios minus 1, not differences.
    pub(super) relative: bool,
    /// The value that small changes are a share of.
    pub(super) scale: f64,
    /// The numbers of both versions, by row.
    pub(super) pairs: Vec<Option<(f64, f64)>>,
}

/// The change between two columns of a table, given by their positions.
pub(super) fn change_of(table: &Table, at_a: usize, at_b: usize) -> Change {
    let show = &table.columns[at_a].show;
    let pair = |row: &Row| row.cells[at_a].measured().zip(row.cells[at_b].measured());
    let pairs: Vec<Option<(f64, f64)>> = table.body.iter().map(pair).collect();
    let difference = |show, scale, pairs| Change { show, of: |a, b| b - a, relative: false, scale, pairs };
    // With all digits of both values, the last digit of their difference could look wrong.
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
    // If all changes are small, most would read as zero.
    let small = (FINE / 10.0..FINE).contains(&changes.clone().map(f64::abs).fold(0.0, f64::max));
    let show = Format::changes(changes);
    let show = Format { decimals: if small { 1 } else { show.decimals }, ..show };
    Change { show, of, relative: true, scale: 1.0, pairs }
}

/// Whether all pairs have ratios. From a value that is not positive, or to a negative one, a ratio shows neither size
/// nor direction.
pub(crate) fn have_ratios(mut pairs: impl Iterator<Item = (f64, f64)>) -> bool {
    pairs.all(|(from, to)| from > 0.0 && to >= 0.0)
}
