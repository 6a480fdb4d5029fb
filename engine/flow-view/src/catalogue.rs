//! The page's words in English and Chinese, and how numbers read. The page has the same words as a script.

use std::{collections::BTreeMap, sync::LazyLock};

use serde_json::Value;

/// A text in both languages: English, Chinese.
pub(crate) type BilingualText = [String; 2];

/// The file of the words.
pub(crate) const WORDS: &str = include_str!("../words.json");

static CATALOGUE: LazyLock<BTreeMap<String, BilingualText>> =
    LazyLock::new(|| serde_json::from_str(WORDS).unwrap_or_default());

/// The words of a key, with values for `{0}`, `{1}`.
pub(crate) fn phrase(key: &str, values: &[&str]) -> BilingualText {
    let Some(both) = CATALOGUE.get(key) else { return same(&key.replace('_', " ")) };
    both.each_ref().map(|text| {
        let mut out = String::with_capacity(text.len());
        let mut rest = text.as_str();
        while let Some((before, after)) = rest.split_once('{') {
            let (place, after) = after.split_once('}').unwrap_or((after, ""));
            out.push_str(before);
            out.push_str(place.parse().ok().and_then(|at: usize| values.get(at)).unwrap_or(&""));
            rest = after;
        }
        out + rest
    })
}

/// A text that is the same in both languages.
pub(crate) fn same(text: &str) -> BilingualText {
    [text.to_owned(), text.to_owned()]
}

/// A value of JSON; a text without its quotes.
pub(crate) fn plain(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

/// `512 B`, `1.5 GiB`.
pub(crate) fn bytes(bytes: u64) -> String {
    let mut n = bytes as f64;
    let mut units = ["B", "KiB", "MiB", "GiB", "TiB"].into_iter();
    let mut unit = units.next().unwrap_or_default();
    for larger in units {
        if n < 1024.0 {
            break;
        }
        (n, unit) = (n / 1024.0, larger);
    }
    if unit == "B" || n >= 100.0 { format!("{n:.0} {unit}") } else { format!("{n:.1} {unit}") }
}

/// `93%`, `0.5%`.
pub(crate) fn percent(share: f64) -> String {
    let digits = usize::from(share > 0.0 && share < 0.0995);
    format!("{:.digits$}%", share * 100.0)
}

/// `40 ms`, `9.8 s`, `3 min 12 s`, `2 h 5 min`.
pub(crate) fn duration(seconds: f64) -> String {
    let whole = seconds.max(0.0) as u64;
    match seconds.max(0.0) {
        s if s < 0.1 => format!("{:.0} ms", s * 1e3),
        s if s < 1.0 => format!("{s:.2} s"),
        s if s < 10.0 => format!("{s:.1} s"),
        s if s < 60.0 => format!("{s:.0} s"),
        s if s < 3600.0 => format!("{} min {} s", whole / 60, whole % 60),
        _ => format!("{} h {} min", whole / 3600, whole / 60 % 60),
    }
}

/// Four significant digits, as the page's table shows them.
pub(crate) fn number(value: f64) -> String {
    let size = value.abs();
    match size {
        _ if !value.is_finite() => value.to_string(),
        _ if value.fract() == 0.0 && size < 1e10 => format!("{value:.0}"),
        _ if !(1e-3..1e10).contains(&size) => format!("{value:.2e}"),
        _ if size >= 1000.0 => format!("{value:.0}"),
        _ if size >= 100.0 => format!("{value:.1}"),
        _ if size >= 10.0 => format!("{value:.2}"),
        _ if size >= 1.0 => format!("{value:.3}"),
        _ => format!("{value:.4}"),
    }
}

/// A number with its unit.
pub(crate) fn quantity(value: f64, unit: &str) -> String {
    match unit {
        "bytes" => bytes(value.max(0.0) as u64),
        "ratio" => format!("{:.1}%", value * 100.0),
        "" => number(value),
        unit => format!("{} {unit}", number(value)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_have_both_languages_and_places() {
        assert_eq!(phrase("after-steps", &["a, b"]), ["decided after a, b", "在 a, b 之后决定"]);
        assert_eq!(phrase("no_such_key", &[]), ["no such key", "no such key"]);
        for (key, [en, zh]) in CATALOGUE.iter() {
            let places = |text: &str| (0..4).filter(|n| text.contains(&format!("{{{n}}}"))).collect::<Vec<_>>();
            assert!(!en.is_empty() && !zh.is_empty(), "{key}");
            assert_eq!(places(en), places(zh), "{key}");
        }
    }

    #[test]
    fn numbers_read_as_in_the_table() {
        assert_eq!([0, 1_610_612_736, 200 << 20].map(bytes), ["0 B", "1.5 GiB", "200 MiB"]);
        assert_eq!([0.0, 0.004, 0.5, 1.2].map(percent), ["0%", "0.4%", "50%", "120%"]);
        assert_eq!(
            [0.04, 0.5, 9.84, 41.2, 192.0, 7500.0].map(duration),
            ["40 ms", "0.50 s", "9.8 s", "41 s", "3 min 12 s", "2 h 5 min"]
        );
        assert_eq!(
            [3.0, 0.93125, 28.456, 512.04, 1204.4, 1e-5].map(number),
            ["3", "0.9313", "28.46", "512.0", "1204", "1.00e-5"]
        );
        assert_eq!(quantity(0.7825, "ratio"), "78.2%");
    }
}
