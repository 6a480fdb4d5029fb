//! How a number is shown: unit, scale, digits. It does not know what the number means.

use serde::{Deserialize, Serialize};

const MIB: f64 = 1024.0 * 1024.0;
const GIB: f64 = 1024.0 * MIB;

/// How the numbers of one column are shown. All of a column's numbers share it, so that they can be compared at a glance.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Format {
    /// The unit as shown: `s`, `MiB`, `%`, `×`, `points` (percentage points), or empty.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub unit: String,
    /// What a value is multiplied by to be shown.
    pub factor: f64,
    /// Digits behind the point.
    pub decimals: u8,
    /// A plus sign is written too.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub signed: bool,
}

impl Format {
    /// For values in a metric's unit (`s`, `bytes`, `ratio`, anything else as it is), with digits that suit the values.
    pub fn for_unit(unit: &str, values: impl Iterator<Item = f64> + Clone) -> Self {
        let (least, most) = values
            .clone()
            .map(f64::abs)
            .filter(|v| *v > 0.0)
            .fold((f64::INFINITY, 0.0_f64), |(least, most), v| (least.min(v), most.max(v)));
        let whole = values.clone().all(|v| v.fract() == 0.0);
        let plain = |unit: &str, factor: f64, digits: i32, most_decimals: i32| {
            let decimals = match least * factor {
                v if v.is_finite() => (digits - 1 - v.log10().floor() as i32).clamp(0, most_decimals) as u8,
                _ => 0,
            };
            Format { unit: unit.to_owned(), factor, decimals, signed: false }
        };
        match unit {
            "s" if most > 0.0 && most < 1.0 => plain("ms", 1000.0, 3, 3),
            "s" => plain("s", 1.0, 3, 2),
            // The unit that GPU tools print; only what is far beyond one card reads better in GiB.
            "bytes" if most >= 512.0 * GIB => plain("GiB", 1.0 / GIB, 3, 1),
            "bytes" => plain("MiB", 1.0 / MIB, 2, 2),
            "ratio" => {
                let decimals = if least < 0.01 { 2 } else { 1 };
                Format { unit: "%".into(), factor: 100.0, decimals, signed: false }
            }
            _ if whole => Format { unit: unit.to_owned(), factor: 1.0, decimals: 0, signed: false },
            "" => plain("", 1.0, 4, 6),
            _ => plain(unit, 1.0, 3, 4),
        }
    }

    /// For a relative change, rounded as people do: `−48 %`.
    pub fn change() -> Self {
        Format { unit: "%".into(), factor: 100.0, decimals: 0, signed: true }
    }

    /// For a factor between two numbers: `1.34×`.
    pub fn times() -> Self {
        Format { unit: "×".into(), factor: 1.0, decimals: 2, signed: false }
    }

    /// For the difference of two values shown in this format; of two shares it is in percentage points.
    pub fn difference(&self) -> Self {
        let unit = if self.unit == "%" { "points".into() } else { self.unit.clone() };
        Format { unit, signed: true, ..self.clone() }
    }

    /// The bare number: `16.2`, `−48`.
    pub fn number(&self, value: f64) -> String {
        // Halves are rounded away from zero, as people do; the nudge undoes what binary fractions lose (0.285 is 28.5 %).
        let scale = 10_f64.powi(self.decimals.into());
        let rounded = (value * self.factor * scale * (1.0 + 1e-12)).round() / scale;
        let digits = format!("{:.*}", usize::from(self.decimals), rounded.abs());
        match rounded {
            r if r < 0.0 => format!("−{digits}"),
            r if r > 0.0 && self.signed => format!("+{digits}"),
            _ => digits,
        }
    }

    /// As a cell shows it: with the unit only where that is a sign (`%`, `×`); else the column's head carries it.
    pub fn cell(&self, value: f64) -> String {
        match self.unit.as_str() {
            "%" => format!("{} %", self.number(value)),
            "×" => format!("{}×", self.number(value)),
            _ => self.number(value),
        }
    }

    /// The unit that the column's head must carry.
    pub fn head(&self) -> Option<&str> {
        match self.unit.as_str() {
            "" | "%" | "×" => None,
            unit => Some(unit),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_shown_as_people_write_them() {
        let of = |unit: &str, values: &[f64], v: f64| Format::for_unit(unit, values.iter().copied()).cell(v);
        let cases = [
            (of("s", &[37.4, 11.3], 11.3), "11.3"),
            (of("s", &[8.7, 16.5], 8.7), "8.70"),
            (of("s", &[0.0123, 0.5], 0.0123), "12.3"),
            (of("s", &[718.9, 135.2], 135.2), "135"),
            (of("bytes", &[1113.0 * MIB], 1113.0 * MIB), "1113"),
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
}
