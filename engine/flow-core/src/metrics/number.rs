//! One number as a program writes it: the only place where text becomes a number. It is read whole or not at all.

use std::sync::LazyLock;

use regex::Regex;

use super::units::Unit;

/// What a text should be.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum NumberForm<'a> {
    /// A number with any unit.
    Any,
    /// An epoch or a step, without a unit; `3/10` is the third of ten.
    Key,
    /// A number in this unit, which may follow it.
    In(&'a str),
}

#[derive(Clone, Debug, PartialEq)]
pub(super) struct Number {
    pub(super) value: f64,
    /// The requested unit, else the one that follows it; `ratio` for a requested percentage.
    pub(super) unit: String,
}

/// Why a text is not read as a number.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) enum NotRead {
    #[default]
    NotANumber,
    /// The following unit could be one of several.
    Unsure,
    /// The following unit does not match the requested one.
    OtherUnit,
    /// It is `1:30` or `2 h 3 m`, and no time was requested.
    Duration,
    /// It is a list of values.
    List,
}

impl NotRead {
    /// The message for a text.
    pub(crate) fn words(&self, text: &str) -> String {
        match self {
            NotRead::NotANumber => format!("`{text}` is not a number"),
            NotRead::Unsure => format!("the unit of `{text}` is ambiguous"),
            NotRead::OtherUnit => format!("`{text}` has another unit"),
            NotRead::Duration => format!("`{text}` is a duration, which needs a time unit, as in `{{t:s}}`"),
            NotRead::List => format!("`{text}` is a list"),
        }
    }
}

/// A number without its unit, as a regular expression. Thousands may be separated.
pub(super) const NUMBER: &str = r"(?:[-+]?(?:[1-9][0-9]{0,2}(?:(?:,[0-9]{3})+|(?:_[0-9]{3})+|(?:['’][0-9]{3})+)(?:\.[0-9]*)?|[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][-+]?[0-9]+)?|[-+]?(?i:nan|inf(?:inity)?)\b)";
/// Separators of thousands.
const GROUPS: [char; 4] = [',', '_', '\'', '’'];
/// Before a digit, these characters continue the number, or a text that contains it.
const SEPARATORS: &str = ".,_'’:/-–—−+*^×·~⁻\u{a0}\u{2007}\u{2009}\u{202f}";

macro_rules! compiled {
    ($($name:ident = $text:expr;)*) => { $(
        static $name: LazyLock<Regex> = LazyLock::new(|| Regex::new(&$text).unwrap_or_else(|e| unreachable!("{e}")));
    )* };
}

compiled! {
    BEGINS = format!("^{NUMBER}");
    CLOCK = r"^(?:([0-9]+) days?, ?)?([0-9]+):([0-5][0-9])(?::([0-5][0-9]))?(\.[0-9]+)?";
    WORD = r"^[ \t]*((?:%|‰|[\p{L}°µμ$€£¥]+[²³]?)(?:/\p{L}+)?)";
    PART = r"^,?[ \t]*([0-9]+(?:\.[0-9]+)?)[ \t]*(\p{L}+|µs)";
    // After `7 min`: the numbers are the min and the max of something.
    STATISTICS = r"^[\s,;/|]*[-+.0-9eE]+\s*\S*\s*(?:max|avg|mean|median)\b";
    // After a word that names this number.
    NAMES = r"^\s*[:=]?\s*[-+]?\.?[0-9]";
    LIKE = r"^[-+]?(?:0x[0-9a-fA-F]+|\.?[0-9][0-9.,_'’:]*(?:[eE][-+]?[0-9]+)?[ \t]*(?:%|\p{L}{0,5})(?:/\p{L}+)?)$";
    DATE = "^[0-9]{4}(?:-[0-9]{2}-|/[0-9]{2}/)[0-9]{2}";
}

/// Whether an unread text was probably meant as a number: it begins like one, and is neither a date nor a word.
pub(super) fn is_like_number(text: &str) -> bool {
    LIKE.is_match(text) && !DATE.is_match(text)
}

/// Reads a text that is one number.
pub(super) fn read(text: &str, form: NumberForm<'_>) -> Result<Number, NotRead> {
    let (number, rest) = read_start(text.trim(), form)?;
    let of_all = form == NumberForm::Key && rest.strip_prefix('/').is_some_and(|all| all.trim().parse::<u64>().is_ok());
    if rest.trim().is_empty() || of_all { Ok(number) } else { Err(NotRead::NotANumber) }
}

/// Reads the number at the start of a text. Returns it and the rest.
pub(super) fn read_start<'t>(text: &'t str, form: NumberForm<'_>) -> Result<(Number, &'t str), NotRead> {
    let label = if let NumberForm::In(label) = form { label } else { "" };
    let wanted = Unit::new(label);
    let is_time = wanted.as_ref().is_some_and(Unit::is_time);
    let seconds = |seconds: f64| {
        let value = super::units::convert(seconds, "s", label).ok_or(NotRead::Duration)?;
        Ok(Number { value, unit: label.to_owned() })
    };
    if let Some(clock) = CLOCK.captures(text).filter(|_| form != NumberForm::Key) {
        let rest = &text[clock[0].len()..];
        // `1:30 h` is not 90 s, and `12:30 PM` is a time of the day.
        let has_unit =
            |word: regex::Captures<'_>| time(&word[1]).is_some() || ["am", "AM", "pm", "PM"].contains(&&word[1]);
        if continues(rest, false) || WORD.captures(rest).is_some_and(has_unit) {
            return Err(NotRead::NotANumber);
        }
        return Ok((seconds(clock_seconds(&clock))?, rest));
    }
    let digits = BEGINS.find(text).ok_or(NotRead::NotANumber)?.as_str();
    let rest = &text[digits.len()..];
    let bare = || {
        let percent = label == "%";
        let unit = if percent { "ratio" } else { label };
        Ok((Number { value: value(digits, percent)?, unit: unit.to_owned() }, rest))
    };
    let is_attached = !rest.starts_with([' ', '\t']);
    if !label.is_empty()
        && let Some(behind) = rest.trim_start_matches([' ', '\t']).strip_prefix(label)
        && ends(behind)
        && !(is_time && PART.captures(behind).is_some_and(|part| time(&part[2]).is_some()))
    {
        return bare().map(|(number, _)| (number, behind));
    }
    let Some(word) = WORD.captures(rest) else {
        return if continues(rest, form == NumberForm::Key) { Err(NotRead::NotANumber) } else { bare() };
    };
    let (printed, behind) = (&word[1], &rest[word[0].len()..]);
    let names_next = !is_attached && NAMES.is_match(behind);
    if form == NumberForm::Key {
        let unsure = Unit::is_unsure(None, printed) && ends(behind) && !names_next;
        return match (is_attached, unsure) {
            (true, _) => Err(NotRead::NotANumber),
            (false, true) => Err(NotRead::Unsure),
            (false, false) => bare(),
        };
    }
    // `0.5 s: 3`: `s` names the next number. Likewise `12 min 3 max`.
    let is_name = !is_attached && behind.trim_start().starts_with([':', '='])
        || !is_attached && printed == "min" && STATISTICS.is_match(behind);
    if is_name {
        return bare();
    }
    if let Some(first) = time(printed)
        && let Some((sum, behind)) = duration(value(digits, false)?, &first, behind)
    {
        let sum = sum.filter(|_| ends(behind)).ok_or(NotRead::NotANumber)?;
        return Ok((seconds(sum)?, behind));
    }
    let unit = if is_time { time(printed).or_else(|| Unit::new(printed)) } else { Unit::new(printed) };
    if unit.is_none() && Unit::is_unsure(wanted.as_ref(), printed) && ends(behind) {
        return if label.is_empty() && names_next { bare() } else { Err(NotRead::Unsure) };
    }
    match (unit, wanted) {
        (Some(_), _) if !ends(behind) => {
            if is_attached {
                Err(NotRead::NotANumber)
            } else {
                bare()
            }
        }
        (Some(unit), Some(wanted)) => {
            let value = unit.convert(value(digits, false)?, &wanted).ok_or(NotRead::OtherUnit)?;
            Ok((Number { value, unit: label.to_owned() }, behind))
        }
        (Some(_), None) if !label.is_empty() => Err(NotRead::OtherUnit),
        (Some(unit), None) if names_next && unit.is_word() => bare(),
        (Some(_), None) if names_next && printed.len() == 1 && printed != "s" && printed != "%" => Err(NotRead::Unsure),
        (Some(unit), None) => Ok((Number { value: value(digits, false)?, unit: unit.name }, behind)),
        (None, _) if is_attached => Err(NotRead::NotANumber),
        (None, _) => bare(),
    }
}

/// The text in place of a number, for messages: the number with everything attached, and a unit after a blank.
pub(super) fn found(text: &str) -> &str {
    let word_end = |from: usize| text[from..].find(char::is_whitespace).map_or(text.len(), |at| from + at);
    let first = word_end(0);
    let is_number = BEGINS.find(text).is_some_and(|number| number.end() == first);
    let second = text[first..].find(|c: char| !c.is_whitespace()).filter(|_| is_number).map(|at| word_end(first + at));
    text[..second.unwrap_or(first)].trim_end_matches([',', ';', ')', ']', '}', '"', '\'', '|'])
}

/// The value of the digits. A percentage is parsed as a hundredth, because a division may miss: 98.9% is exactly 0.989.
/// A number that is too large is an error.
fn value(digits: &str, percent: bool) -> Result<f64, NotRead> {
    let plain = digits.replace(GROUPS, "");
    let hundredth = || format!("{plain}e-2").parse().ok().or_else(|| Some(plain.parse::<f64>().ok()? / 100.0));
    let value: f64 = if percent { hundredth() } else { plain.parse().ok() }.ok_or(NotRead::NotANumber)?;
    let is_word = plain.contains(['n', 'N']);
    if value.is_finite() || is_word { Ok(value) } else { Err(NotRead::NotANumber) }
}

fn clock_seconds(clock: &regex::Captures<'_>) -> f64 {
    let part = |n: usize| clock.get(n).and_then(|m| m.as_str().parse::<f64>().ok());
    let (days, first, second) = (part(1).unwrap_or(0.0), part(2).unwrap_or(0.0), part(3).unwrap_or(0.0));
    let fraction = clock.get(5).and_then(|m| format!("0{}", m.as_str()).parse::<f64>().ok()).unwrap_or(0.0);
    let whole = match part(4) {
        Some(third) => first * 3600.0 + second * 60.0 + third,
        None if clock.get(1).is_some() => first * 3600.0 + second * 60.0,
        None => first * 60.0 + second,
    };
    days * 86_400.0 + whole + fraction
}

/// The time unit that this word is in a duration.
fn time(word: &str) -> Option<Unit> {
    Unit::new(if word == "m" { "min" } else { word }).filter(Unit::is_time)
}

/// The seconds of a duration such as `2 h 3 m`, after its first number and unit, and the rest of the text. No number if
/// a comma separates the parts (`5 min, 3 s per step`). `None` if there is only one part.
fn duration<'t>(first: f64, unit: &Unit, mut behind: &'t str) -> Option<(Option<f64>, &'t str)> {
    let second = Unit::new("s")?;
    let mut one = unit.convert(1.0, &second)?;
    let (mut sum, mut parts, mut clear) = (unit.convert(first, &second)?, 1, true);
    while let Some(part) = PART.captures(behind) {
        let Some(next) = time(&part[2]).and_then(|unit| unit.convert(1.0, &second)).filter(|next| *next < one) else {
            break;
        };
        clear &= !part[0].starts_with(',');
        (sum, one, parts) = (sum + part[1].parse::<f64>().ok()? * next, next, parts + 1);
        behind = &behind[part[0].len()..];
    }
    (parts > 1).then_some((Some(sum).filter(|_| clear), behind))
}

/// Whether a unit ends here.
fn ends(behind: &str) -> bool {
    let mut chars = behind.chars();
    match chars.next() {
        Some('/') => !chars.next().is_some_and(char::is_alphabetic),
        Some(c) => !(c.is_alphanumeric() || "_^*·²³".contains(c)),
        None => true,
    }
}

/// Whether the number does not end here, or is part of something else.
fn continues(behind: &str, is_key: bool) -> bool {
    let Some(first) = behind.chars().next() else { return false };
    let next = behind.trim_start_matches(|c| SEPARATORS.contains(c)).chars().next();
    match first {
        '/' if is_key => false,
        '_' | '#' => true,
        '.' | '/' => next.is_some_and(char::is_alphanumeric),
        _ if SEPARATORS.contains(first) => next.is_some_and(char::is_numeric),
        _ => first.is_alphanumeric(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(text: &str, form: NumberForm<'_>) -> String {
        match read(text, form) {
            Ok(Number { value, unit }) if unit.is_empty() => value.to_string(),
            Ok(Number { value, unit }) => format!("{value} {unit}"),
            Err(why) => why.words(text),
        }
    }

    #[test]
    fn a_number_is_read_whole_or_not_at_all() {
        for (text, expected) in [
            ("1,920", "1920"),
            ("1_920", "1920"),
            ("1’234.5", "1234.5"),
            ("1'234", "1234"),
            ("12,345,678.25", "12345678.25"),
            ("2.5e-1", "0.25"),
            ("-.5", "-0.5"),
            ("5.", "5"),
            ("5.e1", "50"),
            ("+3", "3"),
            ("nan", "NaN"),
            ("-Infinity", "-inf"),
            ("INF", "inf"),
            ("1.3 GB", "1.3 GB"),
            ("1.3GiB", "1.3 GiB"),
            ("93.5 min", "93.5 min"),
            ("91.5%", "91.5 %"),
            ("1.5 s/it", "1.5 s/it"),
            ("3.4it/s", "3.4 it/s"),
            ("12 seconds", "12 s"),
            ("350 mW", "350 mW"),
        ] {
            assert_eq!(shown(text, NumberForm::Any), expected, "{text}");
        }
        let long = ["2026-11-26", "2026/11/26", "1\u{a0}234", "1\u{202f}234"];
        let short = [
            "1.13.1", "0,85", "0,850", "0x1F", "1.000,5", "10_24", "1,50", "1,2345", "1234,567", "1_0000", "12kg",
            "1.5x", "1e", "1e5.3", "1d5", "1.#INF", "3/10", "10-20", "1..5", "2^3", "10²", "10⁻³", "½", "1½", "1+2j",
            "5°C", "5€", "", "-", "abc", "1 2", "1e400", "v1.5", "12G8", "0.5,0.3", "1,920,5", "12/s", "1.13.dev",
            "2_x", "1_", "infox", "nano",
        ];
        for text in long.into_iter().chain(short) {
            assert_eq!(shown(text, NumberForm::Any), format!("`{text}` is not a number"));
        }
        for text in ["12K", "12 M", "12G", "12 T", "12k", "5 m", "512 mb", "512Mb"] {
            assert_eq!(shown(text, NumberForm::Any), format!("the unit of `{text}` is ambiguous"));
        }
        for text in ["0:01:23", "01:55", "2 h 3 m", "2m3.5s", "1h 2m 3s", "1 day, 0:01:23"] {
            let expected = NotRead::Duration.words(text);
            assert_eq!(shown(text, NumberForm::Any), expected);
            assert_eq!(shown(text, NumberForm::In("MiB")), expected, "{text}");
        }
    }

    #[test]
    fn what_is_asked_for_in_a_unit_is_in_that_unit() {
        for (unit, text, expected) in [
            ("MiB", "1.5 GiB", "1536 MiB"),
            ("MiB", "2 TiB", "2097152 MiB"),
            ("MB", "1.3 GB", "1300 MB"),
            ("MB", "2 TB", "2000000 MB"),
            ("MB", "1024kB", "1.024 MB"),
            ("MB", "12", "12 MB"),
            ("MB", "512 Mi", "536.870912 MB"),
            ("MB", "8 Mbit", "1 MB"),
            ("MB/s", "800 Mbps", "100 MB/s"),
            ("MB/s", "1.5 GB/s", "1500 MB/s"),
            ("images/s", "120 images/min", "2 images/s"),
            ("images/s", "1,920", "1920 images/s"),
            ("s", "93.5 min", "5610 s"),
            ("s", "2 h 3 m", "7380 s"),
            ("s", "2m3.5s", "123.5 s"),
            ("s", "1h2m3s", "3723 s"),
            ("s", "0:01:23", "83 s"),
            ("s", "01:55", "115 s"),
            ("s", "1:02:03.5", "3723.5 s"),
            ("s", "1 day, 0:01:23", "86483 s"),
            ("min", "1:30:00", "90 min"),
            ("ms", "850µs", "0.85 ms"),
            ("s", "3 m", "180 s"),
            ("s", "1 min 30 s", "90 s"),
            ("s", "2 s", "2 s"),
            ("h", "90 min", "1.5 h"),
            ("s", "5m0s", "300 s"),
            ("min", "1 h 3 m", "63 min"),
            ("h", "2 h 15 m", "2.25 h"),
            ("%", "98.9%", "0.989 ratio"),
            ("%", "93", "0.93 ratio"),
            ("%", "-1,200", "-12 ratio"),
            ("ratio", "50%", "0.5 ratio"),
            ("W", "350 mW", "0.35 W"),
            ("J", "1 Wh", "3600 J"),
            ("°C", "71°C", "71 °C"),
            ("kg", "12kg", "12 kg"),
            ("x", "1.5x", "1.5 x"),
        ] {
            assert_eq!(shown(text, NumberForm::In(unit)), expected, "{text} in {unit}");
        }
        for (unit, text, expected) in [
            ("MiB", "12G", NotRead::Unsure),
            ("MiB", "512 m", NotRead::Unsure),
            ("MiB", "7b", NotRead::Unsure),
            ("s", "12 K", NotRead::Unsure),
            ("ms", "4 kB", NotRead::OtherUnit),
            ("MB/s", "4 GB", NotRead::OtherUnit),
            ("images/s", "12 it/s", NotRead::OtherUnit),
            ("s", "12%", NotRead::OtherUnit),
            ("kg", "12 s", NotRead::OtherUnit),
            ("s", "12kg", NotRead::NotANumber),
            ("s", "1:2", NotRead::NotANumber),
            ("s", "1:75", NotRead::NotANumber),
            ("s", "1:30:00:00", NotRead::NotANumber),
            ("s", "1-02:03:04", NotRead::NotANumber),
            ("s", "1h05", NotRead::NotANumber),
            ("s", "1:30pm", NotRead::NotANumber),
            ("s", "1:30 h", NotRead::NotANumber),
            ("s", "12:30 PM", NotRead::NotANumber),
            ("min", "5 min, 3 s per step", NotRead::NotANumber),
            ("h", "2 h 30 s/step", NotRead::NotANumber),
        ] {
            assert_eq!(read(text, NumberForm::In(unit)), Err(expected), "{text} in {unit}");
        }
    }

    #[test]
    fn a_key_has_no_unit() {
        for (text, expected) in [
            ("3", Some(3.0)),
            ("3/10", Some(3.0)),
            ("1_000", Some(1000.0)),
            ("0.5", Some(0.5)),
            ("3s", None),
            ("12K", None),
            ("3.1.2", None),
            ("1:30", None),
            ("5-7", None),
        ] {
            let read = read_start(text, NumberForm::Key).ok().map(|(number, _)| number.value);
            assert_eq!(read, expected, "{text}");
        }
    }

    #[test]
    fn words_behind_a_number_are_units_or_not() {
        for (text, expected) in [
            ("0.5 acc 3", "0.5"),
            ("12 steps", "12"),
            ("12 min 3 max", "12"),
            ("12 min", "12 min"),
            ("0.5 imgs/s 200", "0.5"),
            ("5 K 3", "5"),
            ("0.5 s: 3", "0.5"),
            ("12.5 s 400", "12.5 s"),
            ("0.5.", "0.5"),
            ("0.5, 3", "0.5"),
            ("0.5)", "0.5"),
            ("0.5±0.1", "0.5"),
            ("1.2s/3.4s", "1.2 s"),
            ("0.5 top5 1", "0.5"),
            ("3 d 512", ""),
            ("5 K", ""),
            ("1.3 GB)", "1.3 GB"),
            ("1.3 GB, 5", "1.3 GB"),
        ] {
            let read = read_start(text, NumberForm::Any)
                .map(|(Number { value, unit }, _)| format!("{value} {unit}").trim().to_owned());
            assert_eq!(read.unwrap_or_default(), expected, "{text}");
        }
        for (text, expected) in
            [("12G of 3", "12G"), ("12 G of 3", "12 G"), ("0,85, acc", "0,85"), ("1.13.1)", "1.13.1")]
        {
            assert_eq!(found(text), expected);
        }
    }

    #[test]
    fn the_documentation_shows_what_is_read() {
        let page = include_str!("../../../../docs/language.md");
        let rows = page.split("| text | `{x}` reads |").nth(1).expect("the table").lines().skip(2);
        for row in rows.take_while(|row| row.starts_with('|')) {
            let cells: Vec<&str> = row.trim_matches('|').split('|').map(str::trim).collect();
            for (form, expected) in
                [NumberForm::Any, NumberForm::In("s"), NumberForm::In("MiB")].into_iter().zip(&cells[1..])
            {
                for text in cells[0].split('`').skip(1).step_by(2) {
                    let first = expected.split(',').next().unwrap_or_default();
                    let number = first.parse::<f64>().ok().filter(|number| !number.is_nan());
                    match (read(text, form), number) {
                        (Ok(read), Some(number)) => {
                            assert_eq!(read.value, number, "{text}");
                            let unit = expected.split('`').nth(1);
                            assert!(unit.is_none_or(|unit| unit == read.unit), "{text}: {read:?}");
                        }
                        (Ok(read), None) => assert!(*expected != "nothing", "{text}: {read:?}"),
                        (Err(_), _) => assert_eq!(*expected, "nothing", "{text}"),
                    }
                }
            }
        }
    }

    proptest::proptest! {
        /// A number is read up to a blank or to a character that cannot be part of it.
        #[test]
        fn nothing_of_a_number_is_left_behind(text in r"[-+]?[0-9.,_'’:/eExXGMKBisn%²½ -]{1,14}") {
            for form in [NumberForm::Any, NumberForm::In("s"), NumberForm::In("MiB"), NumberForm::In("%")] {
                if let Ok((number, rest)) = read_start(&text, form) {
                    let is_word = number.value.is_nan() || number.value.is_infinite();
                    proptest::prop_assert!(is_word || !number.value.is_nan());
                    let mut behind = rest.chars();
                    let first = behind.next();
                    proptest::prop_assert!(!first.is_some_and(|c| c.is_alphanumeric() || c == '_'), "{text}: {number:?}, {rest}");
                    let read = text.strip_suffix(rest).unwrap_or_default();
                    let has_unit = read.ends_with(|c: char| c.is_alphabetic() || c == '%');
                    let joins = first.is_some_and(|c| SEPARATORS.contains(c)) && behind.next().is_some_and(char::is_numeric);
                    proptest::prop_assert!(has_unit || !joins, "{text}: {number:?}, {rest}");
                }
            }
        }
    }
}
