//! The display of a number: unit, scale, digits. This module does not know what the number means.

use serde::{Deserialize, Serialize};

const MIB: f64 = 1024.0 * 1024.0;
const GIB: f64 = 1024.0 * MIB;
/// Smaller p-values are shown as less than this.
const MIN_P: f64 = 1e-4;
/// From this change on, which reads as 100%, changes are shown as ratios.
const DOUBLED: f64 = 0.995;
/// From this ratio on, ratios have no decimals.
const TENFOLD: f64 = 10.0;

/// The format of the numbers in one column. All of them share it, so that they can be compared at a glance.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Format {
    /// The unit as shown: `s`, `MiB`, `%`, `×`, `points` (percentage points), or empty.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub unit: String,
    /// The factor that converts a value to the unit shown.
    pub factor: f64,
    /// Digits after the point.
    pub decimals: u8,
    /// Whether a plus sign is written too.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub signed: bool,
    /// Values below this are shown only as less than it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub min: Option<f64>,
    /// Whether a relative change is shown as a ratio: 1.5 is 2.50 times.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub ratio: bool,
}

impl Format {
    /// The format for values in a metric's unit, with digits that suit them. `s`, `bytes` and `ratio` get readable
    /// units; others stay.
    pub fn for_unit(unit: &str, values: impl Iterator<Item = f64> + Clone) -> Self {
        // Without numbers there is no unit to choose.
        if values.clone().next().is_none() {
            return Format::count();
        }
        let most = values.clone().map(f64::abs).fold(0.0, f64::max);
        let whole = values.clone().all(|v| v.fract() == 0.0);
        // Values that would read as zero get their own power of ten, and do not count here.
        let least_above =
            |least: f64| values.clone().map(f64::abs).filter(|v| *v >= least).fold(f64::INFINITY, f64::min);
        let least = least_above(f64::MIN_POSITIVE);
        let plain = |unit: &str, factor: f64, digits: i32, most_decimals: i32| {
            let decimals = match least_above(0.5 * 10_f64.powi(-most_decimals) / factor) * factor {
                v if v.is_finite() => (digits - 1 - v.log10().floor() as i32).clamp(0, most_decimals) as u8,
                _ => 0,
            };
            Format { unit: unit.to_owned(), factor, decimals, ..Format::default() }
        };
        match unit {
            "s" if most > 0.0 && most < 1.0 => plain("ms", 1000.0, 3, 3),
            // Thousands of seconds are hard to read.
            "s" if least >= 3_600.0 && most.is_finite() => plain("h", 1.0 / 3_600.0, 3, 2),
            "s" if least >= 60.0 && most >= 3_600.0 => plain("min", 1.0 / 60.0, 3, 1),
            "s" => plain("s", 1.0, 3, 2),
            // GPU tools print MiB. GiB is only for sizes far beyond one GPU.
            "bytes" if most >= 512.0 * GIB => plain("GiB", 1.0 / GIB, 3, 1),
            "bytes" if most > 0.0 && most < 0.1 * MIB => plain("KiB", 1.0 / 1024.0, 2, 1),
            "bytes" => plain("MiB", 1.0 / MIB, 2, 2),
            "ratio" => {
                let decimals = if least < 0.01 { 2 } else { 1 };
                Format { unit: "%".into(), factor: 100.0, decimals, ..Format::default() }
            }
            _ if whole => Format { unit: unit.to_owned(), factor: 1.0, ..Format::default() },
            "" => plain("", 1.0, 4, 6),
            _ => plain(unit, 1.0, 3, 4),
        }
    }

    /// The format for a relative change, rounded to whole per cent: `−48%`.
    pub fn change() -> Self {
        Format { unit: "%".into(), factor: 100.0, signed: true, ..Format::default() }
    }

    /// The format for several relative changes that are compared: in per cent, or as ratios if one of them at least
    /// doubles.
    pub(crate) fn changes(changes: impl Iterator<Item = f64> + Clone) -> Self {
        if !changes.clone().any(|change| change >= DOUBLED) {
            return Format::change();
        }
        let least = changes.fold(f64::INFINITY, f64::min);
        let decimals = if 1.0 + least >= TENFOLD { 0 } else { 2 };
        Format { ratio: true, decimals, ..Format::times() }
    }

    /// The format for a factor between two numbers: `1.34×`.
    pub fn times() -> Self {
        Format { unit: "×".into(), factor: 1.0, decimals: 2, ..Format::default() }
    }

    /// The format for a p-value: two significant digits, and a lower bound for tiny values.
    pub(crate) fn p_value(p: f64) -> Self {
        let decimals = if p > 0.0 { (1.0 - p.log10().floor()).clamp(2.0, 5.0) as u8 } else { 2 };
        Format { factor: 1.0, decimals, min: Some(MIN_P), ..Format::default() }
    }

    pub fn count() -> Self {
        Format { factor: 1.0, ..Format::default() }
    }

    /// The format for the difference of two values in this format. The difference of two shares is in percentage
    /// points.
    pub fn difference(&self) -> Self {
        let unit = if self.unit == "%" { "points".into() } else { self.unit.clone() };
        Format { unit, signed: true, ..self.clone() }
    }

    /// The format with no more decimals than the values have, because 0.5 was not measured as 0.5000. Shares keep
    /// theirs.
    pub fn no_finer_than(self, values: impl Iterator<Item = f64>) -> Self {
        if self.unit == "%" {
            return self;
        }
        let has = |v: f64| {
            let digits =
                |decimals: &u8| (self.scaled(v) - self.round(v, *decimals)).abs() <= 1e-12 * self.scaled(v).abs();
            (0..self.decimals).find(digits).unwrap_or(self.decimals)
        };
        let decimals = values.filter(|v| !self.own_power(*v)).map(has).max().unwrap_or(self.decimals);
        Format { decimals, ..self }
    }

    /// The format for a number that was given with this many significant digits: with no more than these.
    pub(crate) fn given(&self, value: f64, significant: u8) -> Self {
        let before = self.scaled(value).abs().log10().floor();
        let known = (f64::from(significant) - 1.0 - before).max(0.0);
        Format { decimals: f64::from(self.decimals).min(known) as u8, ..self.clone() }
    }

    /// The value in the unit shown, with all its digits.
    fn scaled(&self, value: f64) -> f64 {
        (value + f64::from(u8::from(self.ratio))) * self.factor
    }

    /// The value in the unit shown, rounded. Halves are rounded away from zero. Errors of binary fractions are removed
    /// first (0.285 is 28.5%).
    fn round(&self, value: f64, decimals: u8) -> f64 {
        let scale = 10_f64.powi(decimals.into());
        tidy(self.scaled(value) * scale).round() / scale
    }

    /// Whether the value needs its own power of ten: it is too small for the column's decimals, or has more digits than
    /// are known.
    fn own_power(&self, value: f64) -> bool {
        value != 0.0
            && (self.round(value, self.decimals) == 0.0 && self.unit.is_empty() || self.scaled(value).abs() >= 1e15)
    }

    /// The value that a reader sees.
    pub(crate) fn as_read(&self, value: f64) -> f64 {
        let one = f64::from(u8::from(self.ratio));
        if self.own_power(value) { value } else { self.round(value, self.decimals) / self.factor - one }
    }

    /// Whether the value is shown as zero, or a change as none.
    pub(crate) fn reads_zero(&self, value: f64) -> bool {
        !self.own_power(value) && self.round(value, self.decimals) == self.round(0.0, self.decimals)
    }

    /// The number alone: `16.2`, `−48`.
    pub fn number(&self, value: f64) -> String {
        if let Some(least) = self.min.filter(|least| value < *least) {
            return format!("< {least}");
        }
        let shown = match self.own_power(value) {
            true => power(self.scaled(value), 3),
            false => format!("{:.*}", usize::from(self.decimals), self.round(value, self.decimals)),
        };
        let digits = shown.trim_start_matches('-');
        match digits.starts_with(|c| c != '0') || digits.contains(|c: char| ('1'..='9').contains(&c)) {
            true if self.scaled(value) < 0.0 => format!("−{digits}"),
            true if self.signed => format!("+{digits}"),
            _ => digits.to_owned(),
        }
    }

    /// The text after the name of a number in a sentence: `= 0.031`, `< 0.0001`.
    pub(crate) fn relation(&self, value: f64) -> String {
        let shown = self.number(value);
        if shown.starts_with('<') { shown } else { format!("= {shown}") }
    }

    /// The number for programs: with three more digits than shown, without errors of binary fractions.
    pub fn exact(&self, value: f64) -> String {
        if self.own_power(value) {
            return power(self.scaled(value), 6);
        }
        let decimals = self.decimals + 3;
        let text = format!("{:.*}", usize::from(decimals), self.round(value, decimals));
        text.trim_end_matches('0').trim_end_matches('.').to_owned()
    }

    /// The text of a cell. It has the unit only if that is a sign (`%`, `×`); other units are in the column's header.
    pub fn cell(&self, value: f64) -> String {
        match self.unit.as_str() {
            "%" => format!("{} %", self.number(value)),
            "×" => format!("{}×", self.number(value)),
            _ => self.number(value),
        }
    }

    /// The unit for the column's header.
    pub fn head(&self) -> Option<&str> {
        match self.unit.as_str() {
            "" | "%" | "×" => None,
            unit => Some(unit),
        }
    }
}

/// The value without its last digits, which are errors of binary fractions.
fn tidy(value: f64) -> f64 {
    format!("{value:.13e}").parse().unwrap_or(value)
}

/// `1.5e-12`.
fn power(value: f64, digits: usize) -> String {
    let text = format!("{value:.digits$e}");
    match text.split_once('e') {
        Some((number, power)) => format!("{}e{power}", number.trim_end_matches('0').trim_end_matches('.')),
        None => text,
    }
}

/// A figure after another one in a sum: its sign, and the rest.
pub(crate) fn term(figure: String) -> (&'static str, String) {
    match figure.strip_prefix('−') {
        Some(rest) => ("−", rest.to_owned()),
        None => ("+", figure),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_column_has_one_format_with_no_more_digits_than_its_values() {
        let column = |values: &[f64], digits: &[f64]| {
            let format = Format::for_unit("", values.iter().copied()).no_finer_than(digits.iter().copied());
            digits.iter().map(|value| format.cell(*value)).collect::<Vec<_>>().join(" ")
        };
        let losses = [7e-5, 0.01034, 1.4e-4, 0.02068];
        assert_eq!(column(&losses, &losses), "0.00007 0.01034 0.00014 0.02068");
        // Two means, each with its standard deviation.
        let (mean, sd) = (4.5, 0.5_f64.sqrt());
        assert_eq!(
            column(&[mean, mean + sd, 9.0, 9.0 + 2.0 * sd], &[mean, sd, 9.0, 2.0 * sd]),
            "4.500 0.707 9.000 1.414"
        );
        assert_eq!(column(&[2.0, 3.0, 4.0, 6.0], &[2.0, 1.0, 4.0, 2.0]), "2 1 4 2");
    }

    #[test]
    fn numbers_are_shown_as_people_write_them() {
        let of = |unit: &str, values: &[f64], v: f64| Format::for_unit(unit, values.iter().copied()).cell(v);
        let cases = [
            (of("s", &[37.4, 11.3], 11.3), "11.3"),
            (of("s", &[8.7, 16.5], 8.7), "8.70"),
            (of("s", &[0.0123, 0.5], 0.0123), "12.3"),
            (of("s", &[718.9, 135.2], 135.2), "135"),
            (of("s", &[36_062.0, 3_717.0], 36_062.0), "10.02"),
            (of("s", &[357_669.0, 668_908.0], 357_669.0), "99.4"),
            (of("s", &[32_994.0, 301.0], 301.0), "5.0"),
            (of("bytes", &[1113.0 * MIB], 1113.0 * MIB), "1113"),
            (of("bytes", &[4096.0, 0.0], 4096.0), "4.0"),
            (of("bytes", &[], 0.0), "0"),
            (of("ratio", &[0.58, 0.205], 0.205), "20.5 %"),
            (of("ratio", &[0.005155], 0.005155), "0.52 %"),
            (of("", &[0.076692], 0.076692), "0.07669"),
            (of("", &[25.0, 7.0], 7.0), "7"),
            (of("", &[], 1.0), "1"),
            (Format::change().cell(19.6 / 37.4 - 1.0), "−48 %"),
            (Format::change().cell(0.77), "+77 %"),
            (Format::change().cell(-0.001), "0 %"),
            (Format::change().cell(0.285), "+29 %"),
            (Format::times().cell(1.3434), "1.34×"),
        ];
        for (shown, expected) in cases {
            assert_eq!(shown, expected);
        }
    }

    #[test]
    fn changes_beyond_a_doubling_are_told_in_times() {
        let shown = |changes: &[f64]| {
            let format = Format::changes(changes.iter().copied());
            changes.iter().map(|change| format.cell(*change)).collect::<Vec<_>>().join(" ")
        };
        assert_eq!(shown(&[-0.48, 0.994]), "−48 % +99 %");
        assert_eq!(shown(&[-0.48, 0.0, 0.999_99]), "0.52× 1.00× 2.00×");
        assert_eq!(shown(&[39.65, 34.84]), "41× 36×");
        assert_eq!(shown(&[]), "");
        let times = Format::changes([1.214, 0.003].into_iter());
        assert_eq!((times.as_read(1.214) * 100.0).round(), 121.0);
        assert!(times.reads_zero(0.003) && !times.reads_zero(-0.02) && !times.reads_zero(-1.0));
        assert_eq!(times.exact(1.214), "2.214");
    }

    #[test]
    fn a_p_value_that_is_next_to_nothing_is_said_to_be() {
        let shown = [0.5, 0.0312, 0.00052, 1e-4, 9.9e-5, 2.228e-6, 0.0].map(|p| Format::p_value(p).number(p));
        assert_eq!(shown, ["0.50", "0.031", "0.00052", "0.00010", "< 0.0001", "< 0.0001", "< 0.0001"]);
        let relations = [0.0312, 2e-6].map(|p| Format::p_value(p).relation(p));
        assert_eq!(relations, ["= 0.031", "< 0.0001"]);
        assert_eq!(Format::p_value(1.863e-9).exact(1.863e-9), "1.863e-9", "programs have it in full");
    }

    #[test]
    fn no_digit_is_made_up_and_nothing_reads_as_zero() {
        let values = [0.0, 1e12, 123456789012.0, 1234567.5, 0.1, -99999.5, 1.5e-12, 1e20];
        let format = Format::for_unit("", values.into_iter()).no_finer_than(values.into_iter());
        let shown = values.map(|v| format.cell(v));
        let expected = ["0.0", "1000000000000.0", "123456789012.0", "1234567.5", "0.1", "−99999.5", "1.5e-12", "1e20"];
        assert_eq!(shown, expected);
        let exact = values.map(|v| format.exact(v));
        assert_eq!(exact, ["0", "1000000000000", "123456789012", "1234567.5", "0.1", "-99999.5", "1.5e-12", "1e20"]);
        let of = |values: &[f64]| {
            let format = Format::for_unit("", values.iter().copied()).no_finer_than(values.iter().copied());
            values.iter().map(|v| format.cell(*v)).collect::<Vec<_>>().join(" ")
        };
        assert_eq!(of(&[0.01, 0.17, 0.92]), "0.01 0.17 0.92");
        assert_eq!(of(&[0.5, 0.25, 1.0 / 3.0]), "0.5000 0.2500 0.3333");
        assert_eq!(of(&[0.1 + 0.2]), "0.3");
        assert_eq!(of(&[2e-7, 3e-7]), "2e-7 3e-7");
    }
}
