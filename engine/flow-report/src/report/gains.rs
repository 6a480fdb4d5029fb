//! The format of gains and slowdowns: enough digits, and half their interval if that is known.

use crate::format::Format;
use crate::table::dash;
use crate::verdict::GroupVerdict;

/// Whole per cent, because demands are sums of rounded means and not more exact.
pub(super) fn share() -> Format {
    Format { unit: "%".into(), factor: 100.0, decimals: 0, ..Format::default() }
}

/// A gain with half its interval, if that is known.
pub(super) fn times_of((gain, half): (f64, Option<f64>), shown: fn(&Format, f64) -> String) -> String {
    match half.and_then(|half| sure(&Format::times(), 2..=3, half)) {
        Some((times, half)) => format!("{} ± {}", shown(&times, gain), times.number(half)),
        None => shown(&Format::times(), gain),
    }
}

/// The gain of a group in a cell.
pub(super) fn gain_of(group: &GroupVerdict) -> String {
    group.gain.map_or_else(dash, |gain| times_of(gain, Format::cell))
}

/// Half an interval and its format, with enough decimals that it does not read as zero. If more than the allowed ones
/// are needed, the value is rounded up to the last allowed one. `None` for zero: such times agree to the last digit,
/// which says nothing about the interval.
fn sure(show: &Format, decimals: std::ops::RangeInclusive<u8>, half: f64) -> Option<(Format, f64)> {
    let last = Format { decimals: *decimals.end(), ..show.clone() };
    let smallest = 10_f64.powi(-i32::from(last.decimals)) / show.factor;
    let mut all = decimals.map(|decimals| Format { decimals, ..show.clone() });
    let enough = all.find(|show| !show.reads_zero(half)).map(|show| (show, half));
    (half > 0.0).then(|| enough.unwrap_or((last, smallest)))
}

/// The format of slowdowns, the same for all groups of a section and their earlier figures.
pub(super) fn slowdowns(groups: &[GroupVerdict]) -> Format {
    let all = groups.iter().chain(groups.iter().filter_map(|group| group.earlier.as_deref()));
    let slower = all.flat_map(|group| group.members.iter().filter_map(|m| group.slowdown(m)));
    let show = Format::changes(slower.map(|(slower, _)| slower));
    Format { decimals: if show.ratio { Format::times().decimals } else { show.decimals }, ..show }
}

/// The header of slowdowns in this format.
pub(super) fn slower_head(show: &Format) -> &'static str {
    if show.ratio { "packed-slowdown" } else { "together-slower" }
}

/// A slowdown with half its interval, if that is known and does not read as zero.
pub(super) fn change_of((slower, half): (f64, Option<f64>), show: &Format) -> String {
    if show.ratio {
        return times_of((1.0 + slower, half), Format::cell);
    }
    match half.and_then(|half| sure(show, 0..=1, half)) {
        Some((show, half)) => {
            let off = Format { signed: false, ..show.clone() };
            format!("{} ± {}", show.cell(slower), off.cell(half))
        }
        None => show.cell(slower),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_interval_of_a_gain_never_reads_as_none() {
        assert_eq!(times_of((0.93, Some(0.018)), Format::cell), "0.93× ± 0.02");
        assert_eq!(times_of((0.9236, Some(0.0041)), Format::cell), "0.924× ± 0.004");
        assert_eq!(
            times_of((1.0002, Some(0.0001)), Format::cell),
            "1.000× ± 0.001",
            "four digits are more than anybody reads"
        );
        assert_eq!(change_of((0.0002, Some(0.0001)), &Format::change()), "0.0 % ± 0.1 %");
        assert_eq!(times_of((0.9236, Some(0.0)), Format::number), "0.92");
        assert_eq!(times_of((1.25, None), Format::number), "1.25");
    }
}
