//! Picks enough digits for the numbers of a table, so that a reader who computes with them gets the computed values
//! that the table shows.

use super::model::{Column, Table};
use crate::Format;

/// Maximum digits beyond the usual ones.
const MORE: u8 = 2;
/// Maximum digits of a number, because measurements are not more exact.
const MOST: i32 = 4;
/// The maximum for seconds, which are measured to the millisecond.
const MOST_OF_SECONDS: i32 = 5;

/// How values are computed from pairs of a column's numbers, and the format in which they are shown.
#[derive(Debug)]
pub(crate) struct Reading {
    pub(crate) show: Format,
    pub(crate) pairs: Vec<(f64, f64)>,
    pub(crate) of: fn(f64, f64) -> f64,
}

/// The format with the fewest extra digits among those with the fewest readings that differ from the shown value.
pub(crate) fn enough(show: &Format, readings: &[&Reading]) -> Format {
    let finer = |more| Format { decimals: show.decimals + more, ..show.clone() };
    let otherwise = |format: &Format| {
        let differs = |reading: &Reading, (a, b): (f64, f64)| {
            let shown = (reading.of)(format.as_read(a), format.as_read(b));
            shown.is_finite() && reading.show.number(shown) != reading.show.number((reading.of)(a, b))
        };
        let of = |reading: &&Reading| reading.pairs.iter().filter(|pair| differs(reading, **pair)).count();
        readings.iter().map(of).sum::<usize>()
    };
    let all = readings.iter().flat_map(|reading| &reading.pairs).flat_map(|(a, b)| [a, b]);
    let largest = all.map(|value| (value * show.factor).abs()).filter(|value| value.is_finite()).fold(0.0, f64::max);
    let before = if largest < 1.0 { 0 } else { largest.log10().floor() as i32 + 1 };
    let most = if show.unit == "s" { MOST_OF_SECONDS } else { MOST };
    let room = (most - before - i32::from(show.decimals)).clamp(0, i32::from(MORE)) as u8;
    (0..=room).map(finer).min_by_key(otherwise).unwrap_or_else(|| show.clone())
}

/// Gives all columns of this name enough digits, in every part of the split.
pub(crate) fn refine(table: &mut Table, name: &str, readings: &[&Reading]) {
    let plain = |column: &&mut Column| column.name == name && column.derived.is_none() && !column.key;
    for column in table.columns.iter_mut().filter(plain) {
        column.show = enough(&column.show, readings);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reader_who_computes_gets_what_is_printed() {
        let growth = |pairs: &[(f64, f64)]| Reading {
            show: Format::change(),
            pairs: pairs.to_vec(),
            of: |above, own| own / above - 1.0,
        };
        let shown = |pairs: &[(f64, f64)]| {
            let values: Vec<f64> = pairs.iter().flat_map(|(a, b)| [*a, *b]).collect();
            enough(&Format { decimals: 2, ..Format::for_unit("s", values.iter().copied()) }, &[&growth(pairs)]).decimals
        };
        let seconds = |pairs: &[(f64, f64)]| shown(&[pairs, &[(1.0, 1.0)]].concat());
        assert_eq!(seconds(&[(0.4134, 0.3473)]), 3, "0.41 to 0.35 reads as -15 %, and it is -16 %");
        assert_eq!(seconds(&[(37.4, 19.6)]), 2);
        assert_eq!(seconds(&[(0.0, 1.0)]), 2);
        assert_eq!(seconds(&[(5.5722, 18.6914)]), 3, "18.69 over 5.57 reads as +236 %, and it is +235 %");
    }

    #[test]
    fn no_reader_computes_with_five_digits() {
        let shown = |pairs: &[(f64, f64)]| {
            let show = Format::for_unit("ratio", pairs.iter().flat_map(|(a, b)| [*a, *b]));
            let points = Reading { show: show.difference(), pairs: pairs.to_vec(), of: |a, b| b - a };
            let format = enough(&show, &[&points]);
            pairs.iter().map(|(a, _)| format.cell(*a)).collect::<Vec<_>>().join(" ")
        };
        // Only 49.845% and 49.994% would give the 0.1 points that are shown.
        assert_eq!(shown(&[(0.498_445_1, 0.499_944_9)]), "49.8 %");
        assert_eq!(shown(&[(0.499_449, 0.500_551)]), "49.94 %");
    }
}
