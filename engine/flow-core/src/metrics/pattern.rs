//! A pattern that stands for numbers in what a program prints, compiled. Knows one line.

use std::sync::LazyLock;

use regex::{Regex, escape};

use super::{Key, MetricRow, finite, whole};

/// A `stdout:` pattern, compiled: `Epoch {epoch}: loss {train_loss}, acc {top1:%}`. Each `{name}` stands for a number, found
/// anywhere in a line, but not within a word; blanks match any number of blanks. `{name:%}` is a percentage and kept as a ratio, `{name:s}` has the
/// unit `s`, which may be printed behind it, and at the end of a pattern so may another unit of its kind, `{_}` is any text, `{{` is a brace. One that names the epoch alone, `Epoch {epoch}/`, is a heading: the lines below it are of
/// that epoch.
#[derive(Clone, Debug)]
pub struct Pattern {
    text: String,
    regex: Regex,
    captures: Vec<Capture>,
}

#[derive(Clone, Debug)]
struct Capture {
    name: String,
    unit: String,
    percent: bool,
    /// What the pattern goes on with after it.
    next: Option<char>,
}

/// Stands for no metric.
const EPOCH: &str = "epoch";

impl Pattern {
    /// Compiles a pattern.
    ///
    /// # Errors
    /// A sentence: a brace is not closed, a name is none, nothing is named.
    pub fn new(text: &str) -> Result<Self, String> {
        let mut source = String::new();
        let mut captures: Vec<Capture> = Vec::new();
        let mut rest = text;
        while let Some(c) = rest.chars().next() {
            if let Some(more) = rest.strip_prefix("{{").or_else(|| rest.strip_prefix("}}")) {
                source.push_str(&escape(&rest[..1]));
                rest = more;
            } else if c == '{' {
                let end = rest.find('}').ok_or_else(|| format!("`{{` is not closed in `{rest}`"))?;
                let (name, unit) = rest[1..end].split_once(':').unwrap_or((&rest[1..end], ""));
                let shape = name.starts_with(|c: char| c.is_ascii_lowercase())
                    && name.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_');
                let any_text = name == "_";
                if any_text {
                    source.push_str(".*?");
                } else if !shape {
                    return Err(format!(
                        "`{name}` is no name for a number; small letters, digits and `_`, a letter first"
                    ));
                } else if captures.iter().any(|c| c.name == name) {
                    return Err(format!("`{{{name}}}` stands twice"));
                } else {
                    let percent = unit == "%";
                    let printed = if unit.is_empty() { String::new() } else { format!(r"(?:\s*{})?", escape(unit)) };
                    source.push_str(&format!("({NUMBER}){printed}"));
                    let unit = if percent { "ratio" } else { unit };
                    let next = rest[end + 1..].chars().next();
                    captures.push(Capture { name: name.to_owned(), unit: unit.to_owned(), percent, next });
                }
                rest = &rest[end + 1..];
                if rest.starts_with('{') && !rest.starts_with("{{") && (any_text || !rest.starts_with("{_}")) {
                    return Err(format!(
                        "nothing stands between `{{{name}}}` and the next number, so that where one ends cannot be told"
                    ));
                }
                // A unit may stand right behind a number that is passed over: `0.5s`.
                if any_text && begins_word(rest) {
                    source.push_str(if rest.starts_with(char::is_alphabetic) { r"(?:\b|\b[0-9]+)" } else { r"\b" });
                }
            } else if c.is_whitespace() {
                source.push_str(r"\s+");
                rest = rest.trim_start();
            } else {
                source.push_str(&escape(&rest[..c.len_utf8()]));
                rest = &rest[c.len_utf8()..];
            }
        }
        if captures.is_empty() {
            return Err("the pattern names no number; `{loss}` stands for one".to_owned());
        }
        let start = if begins_word(text) { r"\b" } else { "" };
        let regex = Regex::new(&format!("{start}{source}")).map_err(|e| e.to_string())?;
        Ok(Pattern { text: text.to_owned(), regex, captures })
    }

    pub fn text(&self) -> &str {
        &self.text
    }

    /// It tells the epoch of a line, or of those below it.
    pub fn tells_epochs(&self) -> bool {
        self.captures.iter().any(|capture| capture.name == EPOCH)
    }

    /// It tells the epoch of the lines below it.
    pub(crate) fn is_heading(&self) -> bool {
        self.names().next().is_none()
    }

    /// Nothing comes after its last number.
    fn ends_with_number(&self) -> bool {
        self.text.ends_with('}') && !self.text.ends_with("}}") && !self.text.ends_with("{_}")
    }

    /// The metrics that it stands for.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.captures.iter().map(|capture| &*capture.name).filter(|name| *name != EPOCH)
    }

    /// The epoch that a line tells, the last of several.
    pub(crate) fn epoch(&self, line: &str) -> Option<u32> {
        let at = 1 + self.captures.iter().position(|capture| capture.name == EPOCH)?;
        self.regex.captures_iter(line).filter_map(|found| number(found.get(at)?.as_str()).and_then(whole)).last()
    }

    /// The numbers in a line, which has no colours.
    pub(crate) fn read(&self, line: &str, rows: &mut Vec<MetricRow>) {
        for found in self.regex.captures_iter(line) {
            let number = |n: usize| found.get(n + 1).and_then(|m| number(m.as_str()));
            // Half a number is none: `0` of `0,85`, `1_000` of `1_0000`.
            let half = |(n, capture): (usize, &Capture)| {
                found.get(n + 1).is_some_and(|m| goes_on(m.as_str(), &line[m.end()..], capture.next))
            };
            if self.captures.iter().enumerate().any(half) {
                continue;
            }
            let epoch = self.captures.iter().position(|c| c.name == EPOCH).and_then(number).and_then(whole);
            let key = epoch.map_or(Key::default(), Key::of_epoch);
            for (n, capture) in self.captures.iter().enumerate().filter(|(_, c)| c.name != EPOCH) {
                let text = found.get(n + 1).map_or("", |m| m.as_str());
                let Some(value) = (if capture.percent { percentage(text) } else { self::number(text) }) else {
                    continue;
                };
                // What is said in the middle of a pattern stands before what the pattern goes on with.
                let behind = found.get(0).filter(|_| n + 1 == self.captures.len() && self.ends_with_number());
                let Some(factor) = behind.map_or(Some(1.0), |m| factor(&capture.unit, &line[m.end()..])) else {
                    continue;
                };
                let value = finite(value * factor);
                rows.push(MetricRow { key, name: capture.name.clone(), value, unit: capture.unit.clone() });
            }
        }
    }
}

/// `loss` is no part of `val_loss`.
fn begins_word(text: &str) -> bool {
    text.starts_with(|c: char| c.is_alphanumeric() || c == '_')
}

/// The number that a text is as a whole.
pub(super) fn whole_number(text: &str) -> Option<f64> {
    static WHOLE: LazyLock<Regex> =
        LazyLock::new(|| Regex::new(&format!("^(?:{NUMBER})$")).unwrap_or_else(|e| unreachable!("{e}")));
    text.parse().ok().or_else(|| number(text).filter(|_| WHOLE.is_match(text)))
}

/// It begins with a date, `2026-11-26`.
pub(super) fn is_date(text: &str) -> bool {
    static DATE: LazyLock<Regex> = LazyLock::new(|| {
        Regex::new("^[0-9]{4}(?:-[0-9]{2}-|/[0-9]{2}/)[0-9]{2}").unwrap_or_else(|e| unreachable!("{e}"))
    });
    DATE.is_match(text)
}

fn number(text: &str) -> Option<f64> {
    text.replace(GROUPS, "").parse().ok()
}

/// 98.9 % is 0.989, and not the neighbour of it that a division gives.
fn percentage(text: &str) -> Option<f64> {
    let text = text.replace(GROUPS, "");
    format!("{text}e-2").parse().ok().or_else(|| Some(text.parse::<f64>().ok()? / 100.0))
}

/// Units of one kind, by how much of its first each is.
const UNITS: [&[(&str, f64)]; 3] = [
    &[("s", 1.0), ("ms", 1e-3), ("us", 1e-6), ("µs", 1e-6), ("μs", 1e-6), ("ns", 1e-9), ("min", 60.0), ("h", 3600.0)],
    &[("B", 1.0), ("kB", 1e3), ("MB", 1e6), ("GB", 1e9), ("TB", 1e12)],
    &[("B", 1.0), ("KiB", 1024.0), ("MiB", 1_048_576.0), ("GiB", 1_073_741_824.0)],
];
/// Behind a blank these mean something else too: `12 min 3 max`.
const OTHER_WORDS: [&str; 3] = ["min", "h", "B"];

/// By how much to multiply a number of this unit, where what is printed behind it is another unit of the same kind: `850µs`, `1.31 s` of
/// `{elapsed:ms}`. `None` where the number is but a part: `2m3.5s`.
fn factor(unit: &str, behind: &str) -> Option<f64> {
    let (unit, rate) = unit.strip_suffix("/s").map_or((unit, ""), |unit| (unit, "/s"));
    let Some(kind) = UNITS.iter().find(|kind| kind.iter().any(|(name, _)| *name == unit)) else { return Some(1.0) };
    let word = behind.trim_start();
    let end = word.find(|c: char| !c.is_alphabetic()).unwrap_or(word.len());
    let (word, after) = word.split_at(end);
    let is_attached = behind.starts_with(char::is_alphabetic);
    if is_attached && after.starts_with(|c: char| c.is_ascii_digit()) {
        return None;
    }
    let of = |wanted: &str| kind.iter().find(|(name, _)| *name == wanted).map(|(_, much)| *much);
    let is_unit = (is_attached || !OTHER_WORDS.contains(&word)) && after.starts_with('/') != rate.is_empty();
    let printed = of(word).filter(|_| is_unit && after.starts_with(rate));
    Some(printed.zip(of(unit)).map_or(1.0, |(printed, unit)| printed / unit))
}

/// Whether a whole number does not end where a pattern found its end, which goes on with `next` there.
fn goes_on(number: &str, behind: &str, next: Option<char>) -> bool {
    let mut behind = behind.chars();
    let first = behind.next().filter(|c| Some(*c) != next);
    match first {
        Some(c) if c.is_ascii_digit() => true,
        // Behind groups of thousands a comma is one between numbers.
        Some(c) if c == ',' && number.contains(GROUPS) => false,
        Some(c) if GROUPS.contains(&c) => {
            !number.contains(|c: char| c.is_alphabetic() || c == '.')
                && behind.next().is_some_and(|c| c.is_ascii_digit())
        }
        _ => false,
    }
}

/// What stands between thousands.
const GROUPS: [char; 2] = [',', '_'];

/// What programs print for a number, also with commas between thousands, or `_` as Python and Rust write them.
const NUMBER: &str = r"[-+]?(?:[0-9]{1,3}(?:(?:,[0-9]{3})+|(?:_[0-9]{3})+)(?:\.[0-9]*)?|[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][-+]?[0-9]+)?|[-+]?(?i:nan|inf(?:inity)?)";

#[cfg(test)]
mod tests {
    use super::{super::tests::shown, *};

    #[test]
    fn reads_what_programs_print() {
        for (pattern, text, expected) in [
            (
                "Epoch {epoch}: loss {train_loss}, acc {top1:%}",
                "hello\nEpoch 1: loss 0.50, acc 91.5%\n[12:01] Epoch   2: loss 2.5e-1, acc 93 %  done\n",
                vec!["1:train_loss=0.5", "1:top1=0.915 ratio", "2:train_loss=0.25", "2:top1=0.93 ratio"],
            ),
            (
                "epoch {epoch}/{_} loss={loss}",
                "epoch 3/10 loss=-1.\repoch 4/10 loss=.5",
                vec!["3:loss=-1", "4:loss=0.5"],
            ),
            ("took {wall:s} s", "took 12.5 s", vec!["wall=12.5 s"]),
            (
                "elapsed: {elapsed:ms}",
                "elapsed: 850µs\nelapsed: 12.5ms\nelapsed: 1.5 s, fine\nelapsed: 2m3.5s\nelapsed: 7 min 5 max\nelapsed: 3 steps\nelapsed: 4 kB",
                vec![
                    "elapsed=0.85 ms",
                    "elapsed=12.5 ms",
                    "elapsed=1500 ms",
                    "elapsed=7 ms",
                    "elapsed=3 ms",
                    "elapsed=4 ms",
                ],
            ),
            (
                "rate {rate:MB/s}",
                "rate 1.5 GB/s\nrate 850 kB/s\nrate 3 MB/s\nrate 4 GB\nrate 5 MiB/s",
                vec!["rate=1500 MB/s", "rate=0.85 MB/s", "rate=3 MB/s", "rate=4 MB/s", "rate=5 MB/s"],
            ),
            (
                "- {t:s} - loss: {loss}",
                "Epoch 1/5 - 0.5s - loss: 2\nEpoch 2/5 - 3 s - loss: 1\nEpoch 3/5 - 4 - loss: 0\n- 20ms - loss: 9",
                vec!["t=0.5 s", "loss=2", "t=3 s", "loss=1", "t=4 s", "loss=0"],
            ),
            (
                "acc {acc:%}",
                "acc 98.9%\nacc 78.3 %\nacc 5.e1\nacc -1,200\nacc nan",
                vec!["acc=0.989 ratio", "acc=0.783 ratio", "acc=0.5 ratio", "acc=-12 ratio", "acc=NaN ratio"],
            ),
            ("loss {loss} acc {acc}", "loss nan acc 0.5", vec!["loss=NaN", "acc=0.5"]),
            ("{{{loss}}} (a.b*)", "{0.5} (a.b*)", vec!["loss=0.5"]),
            ("loss {loss}", "loss: none", vec![]),
            (
                "loss: {loss} - accuracy: {acc}",
                " - loss: 0.30 - accuracy: 0.91 - val_loss: 0.80 - val_accuracy: 0.70",
                vec!["loss=0.3", "acc=0.91"],
            ),
            ("Throughput: {speed:images/s}", "Throughput: 1,920", vec!["speed=1920 images/s"]),
            ("took {wall}", "took 1,234,567.5 ms", vec!["wall=1234567.5"]),
            (
                "read {rows} rows",
                "read 1_000 rows\nread 12_345_678 rows\nread -1_000.5 rows",
                vec!["rows=1000", "rows=12345678", "rows=-1000.5"],
            ),
            ("acc {acc:%}", "acc 1_250%", vec!["acc=12.5 ratio"]),
            ("epoch {epoch}", "epoch 1_000", vec![]),
            ("at {a}_{b}", "at 1_000", vec!["a=1", "b=0"]),
            ("at {a}", "at 1_\nat 2_x", vec!["a=1", "a=2"]),
            // What are no groups of thousands may be the name of something.
            ("acc {acc}", "acc 0,85\nacc 0_85\nacc 1000_000\nacc 1_0000\nacc 1,000_000", vec![]),
            ("losses {a}", "losses nan,1\nlosses 1,920,5", vec!["a=NaN", "a=1920"]),
            ("losses {a},{b}", "losses 0.5,0.3\nlosses 1,2", vec!["a=0.5", "b=0.3", "a=1", "b=2"]),
            ("[{_}] loss {loss}", "[12:01 train.py:3] loss 0.5", vec!["loss=0.5"]),
            ("epoch {epoch}{_}loss {loss}", "epoch 3: lr 0.1, val_loss 9, loss 0.5", vec!["3:loss=0.5"]),
            ("epoch {epoch}{_}loss {loss}", "epoch 3: l1loss 9, top5loss 8, loss 0.5", vec!["3:loss=0.5"]),
            ("loss {loss} {_}%", "loss 0.5 of all, 20 %", vec!["loss=0.5"]),
            ("loss {loss} {_}s", "loss 0.5  2.88s\nloss 0.4 in 3 s\nloss 0.3 of losses", vec!["loss=0.5", "loss=0.4"]),
        ] {
            let (pattern, mut rows) = (Pattern::new(pattern).expect("a pattern"), Vec::new());
            text.lines().flat_map(|line| line.split('\r')).for_each(|line| pattern.read(line, &mut rows));
            assert_eq!(shown(rows), expected, "{}", pattern.text());
        }
    }

    #[test]
    fn a_heading_tells_the_epoch_of_what_is_below() {
        let heading = Pattern::new("Epoch {epoch}/{_}").unwrap();
        assert!(heading.is_heading() && !Pattern::new("Epoch {epoch}: {loss}").unwrap().is_heading());
        assert_eq!(["Epoch 3/10", "Epoch 1.5/10", "Epochs"].map(|line| heading.epoch(line)), [Some(3), None, None]);
        assert_eq!(Pattern::new("Epoch {epoch}").unwrap().epoch("Epoch 1_000"), Some(1000));
    }

    #[test]
    fn refuses_bad_patterns() {
        for (pattern, words) in [
            ("loss {loss", "is not closed"),
            ("loss {Loss}", "is no name"),
            ("{a} {a}", "stands twice"),
            ("{a}{b}", "nothing stands between"),
            ("done", "names no number"),
            ("{_}", "names no number"),
            ("{_}{a}", "nothing stands between"),
        ] {
            let error = Pattern::new(pattern).expect_err(pattern);
            assert!(error.contains(words), "{pattern}: {error}");
        }
    }
}
