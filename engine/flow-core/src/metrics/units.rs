//! The convertible units, by kind. Any other unit is only a name.

/// A kind of units: each unit's name, its aliases, and its size relative to the first unit.
type Kind = &'static [(&'static str, &'static [&'static str], f64)];

const TIME: Kind = &[
    ("s", &["sec", "secs", "second", "seconds"], 1.0),
    ("ns", &["nanoseconds"], 1e-9),
    ("us", &["µs", "μs", "usec", "microseconds"], 1e-6),
    ("ms", &["msec", "milliseconds"], 1e-3),
    ("min", &["mins", "minute", "minutes"], 60.0),
    ("h", &["hr", "hrs", "hour", "hours"], 3600.0),
    ("d", &["day", "days"], 86_400.0),
    ("week", &["weeks"], 604_800.0),
];
const SIZE: Kind = &[
    ("B", &[], 1.0),
    ("bytes", &["byte", "Byte", "Bytes"], 1.0),
    ("kB", &["KB"], 1e3),
    ("MB", &[], 1e6),
    ("GB", &[], 1e9),
    ("TB", &[], 1e12),
    ("PB", &[], 1e15),
    ("KiB", &["kiB", "Ki"], 1024.0),
    ("MiB", &["Mi"], 1_048_576.0),
    ("GiB", &["Gi"], 1_073_741_824.0),
    ("TiB", &["Ti"], 1_099_511_627_776.0),
    ("PiB", &["Pi"], 1_125_899_906_842_624.0),
    ("bit", &["bits"], 0.125),
    ("kbit", &["Kbit"], 125.0),
    ("Mbit", &[], 125e3),
    ("Gbit", &[], 125e6),
    ("Tbit", &[], 125e9),
];
const RATIO: Kind = &[("ratio", &[], 1.0), ("%", &["percent"], 0.01)];
const POWER: Kind = &[("W", &[], 1.0), ("mW", &[], 1e-3), ("kW", &[], 1e3), ("MW", &[], 1e6)];
const ENERGY: Kind = &[
    ("J", &[], 1.0),
    ("mJ", &[], 1e-3),
    ("kJ", &[], 1e3),
    ("MJ", &[], 1e6),
    ("Wh", &[], 3600.0),
    ("kWh", &[], 3.6e6),
    ("MWh", &[], 3.6e9),
];
const FREQUENCY: Kind = &[("Hz", &[], 1.0), ("kHz", &[], 1e3), ("MHz", &[], 1e6), ("GHz", &[], 1e9)];
const WORK: Kind =
    &[("FLOPS", &[], 1.0), ("MFLOPS", &[], 1e6), ("GFLOPS", &[], 1e9), ("TFLOPS", &[], 1e12), ("PFLOPS", &[], 1e15)];

/// The kinds, with their names in the documentation.
const KINDS: [(&str, Kind); 7] = [
    ("time", TIME),
    ("size", SIZE),
    ("ratio", RATIO),
    ("power", POWER),
    ("energy", ENERGY),
    ("frequency", FREQUENCY),
    ("operations", WORK),
];

/// Each of these could be one of several units.
const AMBIGUOUS: [&str; 14] = ["K", "M", "G", "T", "k", "m", "Kb", "kb", "Mb", "mb", "Gb", "gb", "Tb", "tb"];
/// Letters that are also ambiguous for a size.
const LETTERS: &str = "kmgtpbKMGTP";

/// The group within which units convert.
#[derive(Clone, Debug, PartialEq)]
enum UnitGroup {
    Kind(&'static str),
    /// A unit that is not in the table.
    Word(String),
}

/// The unit of a number.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Unit {
    /// In flow's notation.
    pub(super) name: String,
    of: UnitGroup,
    /// The denominator: `s` for any time, else the text itself.
    per: Option<String>,
    factor: f64,
}

impl Unit {
    /// A convertible unit: one in the table, alone or per something, or any word per time.
    pub(super) fn new(text: &str) -> Option<Unit> {
        let (base, per) = match text.split_once('/') {
            Some((base, per)) => (base, Some(per)),
            None => match text.strip_suffix("ps").and_then(|base| Some((base, bits_per_second(base)?))) {
                Some((_, bits)) => (bits, Some("s")),
                None => (text, None),
            },
        };
        let known = find(base);
        let time = per.and_then(find).filter(|(kind, ..)| *kind == "time");
        let (of, name, factor) = match known {
            Some((kind, name, factor)) => (UnitGroup::Kind(kind), name, factor),
            None if time.is_some() && !base.is_empty() => (UnitGroup::Word(base.to_owned()), base, 1.0),
            None => return None,
        };
        let (per, per_factor) = match time {
            Some((_, name, factor)) => (Some(name), factor),
            None => (per, 1.0),
        };
        let full = per.map_or(name.to_owned(), |per| format!("{name}/{per}"));
        let per = per.map(|per| if time.is_some() { "s" } else { per }.to_owned());
        Some(Unit { name: full, of, per, factor: factor / per_factor })
    }

    /// Converts a number to the other unit; `None` if their kinds differ.
    pub(super) fn convert(&self, value: f64, other: &Unit) -> Option<f64> {
        if self.of != other.of || self.per != other.per {
            return None;
        }
        // Whole factors keep this exact: 850 µs are 0.85 ms.
        let parts = |factor: f64| if factor < 1.0 { (1.0, (1.0 / factor).round()) } else { (factor, 1.0) };
        let ((from, below), (to, of)) = (parts(self.factor), parts(other.factor));
        let (up, down) = (from * of, below * to);
        Some(match () {
            () if up % down == 0.0 => value * (up / down),
            () if down % up == 0.0 => value / (down / up),
            () => value * up / down,
        })
    }

    pub(super) fn is_time(&self) -> bool {
        self.of == UnitGroup::Kind("time") && self.per.is_none()
    }

    /// Whether it is a word per time that is not in the table, such as `images/s`.
    pub(super) fn is_word(&self) -> bool {
        matches!(self.of, UnitGroup::Word(_))
    }

    /// Whether this text could be one of several units when this one is requested.
    pub(super) fn is_unsure(requested: Option<&Unit>, text: &str) -> bool {
        let is_size = requested.is_some_and(|unit| unit.of == UnitGroup::Kind("size"));
        AMBIGUOUS.contains(&text) || is_size && text.len() == 1 && LETTERS.contains(text)
    }
}

/// The unit of `M` in `Mbps`.
fn bits_per_second(base: &str) -> Option<&'static str> {
    let bits =
        [("bps", ""), ("b", "bit"), ("kb", "kbit"), ("Kb", "kbit"), ("Mb", "Mbit"), ("Gb", "Gbit"), ("Tb", "Tbit")];
    bits.into_iter().find(|(short, _)| *short == base).map(|(_, bits)| bits)
}

/// Its kind, its first name and its factor.
fn find(text: &str) -> Option<(&'static str, &'static str, f64)> {
    KINDS.iter().find_map(|(kind, units)| {
        let (name, _, factor) = units.iter().find(|(name, other, _)| *name == text || other.contains(&text))?;
        Some((*kind, *name, *factor))
    })
}

/// Every name in the table and the ambiguous ones, as regular expression alternatives.
pub(super) fn alternatives() -> String {
    let known =
        KINDS.iter().flat_map(|(_, units)| units.iter()).flat_map(|(name, others, _)| [&[*name], *others].concat());
    known.chain(AMBIGUOUS).map(regex::escape).collect::<Vec<_>>().join("|")
}

/// Converts a number between units; `None` if their kinds differ.
pub(crate) fn convert(value: f64, from: &str, to: &str) -> Option<f64> {
    if from == to {
        return Some(value);
    }
    Unit::new(from)?.convert(value, &Unit::new(to)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn units_of_one_kind_are_converted() {
        for (value, from, to, expected) in [
            (1.3, "GB", "MB", Some(1300.0)),
            (2.0, "GiB", "MiB", Some(2048.0)),
            (8.0, "Gbit", "GB", Some(1.0)),
            (100.0, "Mbps", "MB/s", Some(12.5)),
            (60.0, "images/min", "images/s", Some(1.0)),
            (1.5, "s/it", "ms/it", Some(1500.0)),
            (3.0, "W", "W", Some(3.0)),
            (1.0, "kWh", "kJ", Some(3600.0)),
            (3.0, "apples", "apples", Some(3.0)),
            (50.0, "%", "ratio", Some(0.5)),
            (1.0, "it/s", "s/it", None),
            (1.0, "images/s", "samples/s", None),
            (1.0, "GB", "GB/s", None),
            (1.0, "s", "MB", None),
            (1.0, "", "s", None),
        ] {
            assert_eq!(convert(value, from, to), expected, "{value} {from} in {to}");
        }
    }

    #[test]
    fn the_documentation_names_every_unit() {
        let page = include_str!("../../../../docs/language.md");
        for (kind, units) in KINDS {
            let names = |(name, others, _): &(&str, &[&str], f64)| {
                [&[*name], *others].concat().iter().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(" ")
            };
            let row = format!("| {kind} | {} |", units.iter().map(names).collect::<Vec<_>>().join(", "));
            assert!(page.contains(&row), "docs/language.md lacks the row\n{row}");
        }
        let row = format!("| ambiguous | {} |", AMBIGUOUS.map(|name| format!("`{name}`")).join(", "));
        assert!(page.contains(&row), "docs/language.md lacks the row\n{row}");
    }
}
