//! A compiled pattern for numbers in a program's output. Knows one line.

use std::sync::LazyLock;

use regex::{Regex, escape};

use super::{
    Key, MetricRow,
    number::{self, NUMBER, NotRead, Number, NumberForm},
    units,
    unread::UnreadTexts,
};

/// A compiled `stdout:` pattern: `Epoch {epoch}: loss {train_loss}, acc {top1:%}`. Each `{name}` is a number, anywhere
/// in a line but not within a word. Blanks match any number of blanks. `{name:%}` is a percentage, stored as a ratio.
/// `{name:s}` is converted to seconds, `{_}` is any text, `{{` is a brace. `{epoch}` and `{step}` are the position of
/// the other numbers. A pattern that names nothing else, `Epoch {epoch}/`, is a heading for the lines below it.
#[derive(Clone, Debug)]
pub struct Pattern {
    text: String,
    regex: Regex,
    captures: Vec<Capture>,
    /// Whether it begins with a number.
    open: bool,
}

#[derive(Clone, Debug)]
struct Capture {
    name: String,
    unit: Option<String>,
    /// Whether literal text follows the number, so that its end is known.
    closed: bool,
}

const EPOCH: &str = "epoch";
const STEP: &str = "step";

impl Capture {
    fn is_key(&self) -> bool {
        self.name == EPOCH || self.name == STEP
    }

    fn form(&self) -> NumberForm<'_> {
        match &self.unit {
            _ if self.is_key() => NumberForm::Key,
            Some(unit) => NumberForm::In(unit),
            None => NumberForm::Any,
        }
    }

    /// The regular expression of a number with an optional unit, or of a text that begins like a number.
    fn regex(&self) -> String {
        static UNITS: LazyLock<String> =
            LazyLock::new(|| format!(r"(?:{})(?:/\pL+)?|\pL+/(?:s|sec|min|h)", units::alternatives()));
        static TIMES: LazyLock<String> = LazyLock::new(|| {
            format!(
                r"[0-9]+ days?, ?[0-9:.]+|{NUMBER}(?:[ \t]*(?:h|m|min|s|ms|{}))(?:,?[ \t]*[0-9]+(?:\.[0-9]+)?[ \t]*[a-z]+)*",
                "d|hours?|minutes?|seconds?"
            )
        });
        let anything = r"[-+]?\.?[0-9]\S*?";
        if self.is_key() {
            return format!("({NUMBER}|{anything})");
        }
        let label = self.unit.as_deref().map(|unit| escape(unit) + "|").unwrap_or_default();
        format!(r"({NUMBER}(?:[ \t]*(?:{label}{}))?|{}|{anything})", *UNITS, *TIMES)
    }
}

impl Pattern {
    /// Compiles a pattern.
    ///
    /// # Errors
    /// A sentence: a brace is not closed, a name is invalid, or nothing is named.
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
                } else if name.is_empty() {
                    return Err("`{}` has no name; `{_}` is text of any kind, `{{}}` is a pair of braces".to_owned());
                } else if !shape {
                    return Err(format!(
                        "`{name}` is not a metric name; use small letters, digits and `_`, a letter first"
                    ));
                } else if captures.iter().any(|c| c.name == name) {
                    return Err(format!("`{{{name}}}` is in it twice"));
                } else {
                    let unit = Some(unit.to_owned()).filter(|unit| !unit.is_empty());
                    let literal = rest[end + 1..].trim_start();
                    let closed = !literal.is_empty() && (!literal.starts_with('{') || literal.starts_with("{{"));
                    let capture = Capture { name: name.to_owned(), unit, closed };
                    source.push_str(&capture.regex());
                    captures.push(capture);
                }
                rest = &rest[end + 1..];
                if rest.starts_with('{') && !rest.starts_with("{{") && (any_text || !rest.starts_with("{_}")) {
                    return Err(format!("nothing separates `{{{name}}}` from the next number"));
                }
                // A unit may follow a skipped number directly: `0.5s`.
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
        let open = text.starts_with('{') && !text.starts_with("{{") && !text.starts_with("{_}");
        let regex = Regex::new(&format!("{start}{source}")).map_err(|e| e.to_string())?;
        Ok(Pattern { text: text.to_owned(), regex, captures, open })
    }

    pub fn text(&self) -> &str {
        &self.text
    }

    /// Whether it has the epoch of a line, or of the lines below it.
    pub fn has_epochs(&self) -> bool {
        self.captures.iter().any(|capture| capture.name == EPOCH)
    }

    /// Whether it only has the epoch or step of the lines below it.
    pub(crate) fn is_heading(&self) -> bool {
        self.names().next().is_none()
    }

    /// The metrics that it names.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.captures.iter().filter(|capture| !capture.is_key()).map(|capture| &*capture.name)
    }

    /// All names in it, including epoch and step.
    pub(crate) fn declared(&self) -> impl Iterator<Item = &str> {
        self.captures.iter().map(|capture| &*capture.name)
    }

    /// The epoch and step in a line; the last of several.
    pub(crate) fn key(&self, line: &str) -> Option<Key> {
        let found =
            self.found(line).filter_map(|numbers| key(numbers.into_iter().map(|(capture, _, read)| (capture, read))));
        found.filter(|key| *key != Key::default()).last()
    }

    /// Reads the numbers of a line without colours. Notes texts that should have been numbers.
    pub(crate) fn read(&self, line: &str, rows: &mut Vec<MetricRow>, unread: &mut UnreadTexts) {
        for numbers in self.found(line) {
            for (capture, text, read) in &numbers {
                if let Err(why) = read {
                    unread.note(&format!("`{{{}}}` in `{}`", capture.name, self.text), text, why);
                }
            }
            let Some(key) = key(numbers.iter().map(|(capture, _, read)| (*capture, read.clone()))) else { continue };
            for (capture, _, read) in numbers {
                if let (false, Ok(Number { value, unit })) = (capture.is_key(), read) {
                    rows.push(MetricRow { key, name: capture.name.clone(), value, unit });
                }
            }
        }
    }

    /// Each match in a line: the captures, their texts, and their numbers.
    fn found<'a>(
        &'a self,
        line: &'a str,
    ) -> impl Iterator<Item = Vec<(&'a Capture, &'a str, Result<Number, NotRead>)>> {
        self.regex.captures_iter(line).filter_map(move |found| {
            let begin = found.get(0)?.start();
            if self.open && line[..begin].ends_with(|c: char| c.is_alphanumeric() || "_.,-:'/".contains(c)) {
                return None;
            }
            let one = |(n, capture): (usize, &'a Capture)| {
                let at = found.get(n + 1)?;
                let (text, behind) = (at.as_str(), &line[at.start()..]);
                Some(if capture.closed {
                    (capture, text, number::read(text, capture.form()))
                } else {
                    let read = number::read_start(behind, capture.form()).map(|(number, _)| number);
                    (capture, number::found(behind), read)
                })
            };
            self.captures.iter().enumerate().map(one).collect()
        })
    }
}

/// The epoch and step among the captures; `None` if one of them cannot be read.
fn key<'a>(numbers: impl Iterator<Item = (&'a Capture, Result<Number, NotRead>)>) -> Option<Key> {
    let mut key = Key::default();
    for (capture, read) in numbers.filter(|(capture, _)| capture.is_key()) {
        key.set(capture.name == EPOCH, read.ok()?.value).then_some(())?;
    }
    Some(key)
}

/// `loss` must not match in `val_loss`.
fn begins_word(text: &str) -> bool {
    text.starts_with(|c: char| c.is_alphanumeric() || c == '_')
}

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
                    "elapsed=123500 ms",
                    "elapsed=7 ms",
                    "elapsed=3 ms",
                ],
            ),
            (
                "rate {rate:MB/s}",
                "rate 1.5 GB/s\nrate 850 kB/s\nrate 3 MB/s\nrate 4 GB\nrate 5 MiB/s",
                vec!["rate=1500 MB/s", "rate=0.85 MB/s", "rate=3 MB/s", "rate=5.24288 MB/s"],
            ),
            (
                "- {t:s} - loss: {loss}",
                "Epoch 1/5 - 0.5s - loss: 2\nEpoch 2/5 - 3 s - loss: 1\nEpoch 3/5 - 4 - loss: 0\n- 20ms - loss: 9",
                vec!["t=0.5 s", "loss=2", "t=3 s", "loss=1", "t=4 s", "loss=0", "t=0.02 s", "loss=9"],
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
            ("took {wall}", "took 1,234,567.5 ms", vec!["wall=1234567.5 ms"]),
            (
                "read {rows} rows",
                "read 1_000 rows\nread 12_345_678 rows\nread -1_000.5 rows",
                vec!["rows=1000", "rows=12345678", "rows=-1000.5"],
            ),
            ("acc {acc:%}", "acc 1_250%", vec!["acc=12.5 ratio"]),
            ("epoch {epoch}", "epoch 1_000", vec![]),
            ("at {a}_{b}", "at 1_000", vec!["a=1", "b=0"]),
            ("at {a}", "at 1_\nat 2_x", vec![]),
            ("n={n},{_}", "n=1,234,x=2", vec!["n=1234"]),
            ("{t} ms", "12.5 ms\nv1.5 ms\n1.13.1 ms\n 0,85 ms", vec!["t=12.5"]),
            (
                "peak {peak}, loss {loss}",
                "peak 1.3 GB, loss 0.5\npeak 12G, loss 0.25",
                vec!["peak=1.3 GB", "loss=0.5", "loss=0.25"],
            ),
            (
                "took {t:s}, loss {loss}",
                "took 2 h 3 m, loss 0.5\ntook 1 day, 0:01:23, loss 1",
                vec!["t=7380 s", "loss=0.5", "t=86483 s", "loss=1"],
            ),
            ("took {t} {_}", "took 1.3 GB of", vec!["t=1.3 GB"]),
            ("{v}, {_}", "12 images/s, 3", vec!["v=12 images/s"]),
            ("{a} {b}", "1.5 GB 3", vec!["a=1.5 GB", "b=3"]),
            ("step {step} loss {loss}", "step 1_000 loss 2\nstep 0.5 loss 3", vec!["1000@loss=2"]),
            ("epoch {epoch} step {step}: {loss}", "epoch 0.5 step 3: -inf", vec!["0.5:3@loss=-inf"]),
            ("epoch {epoch} loss {loss}", "epoch 3/10 loss 2\nepoch 3K loss 2", vec!["3:loss=2"]),
            // Malformed groups of thousands may be names.
            ("acc {acc}", "acc 0,85\nacc 0_85\nacc 1000_000\nacc 1_0000\nacc 1,000_000", vec![]),
            ("losses {a}", "losses nan,1\nlosses 1,920,5", vec![]),
            ("losses {a},{b}", "losses 0.5,0.3\nlosses 1,2", vec!["a=0.5", "b=0.3", "a=1", "b=2"]),
            ("[{_}] loss {loss}", "[12:01 train.py:3] loss 0.5", vec!["loss=0.5"]),
            ("epoch {epoch}{_}loss {loss}", "epoch 3: lr 0.1, val_loss 9, loss 0.5", vec!["3:loss=0.5"]),
            ("epoch {epoch}{_}loss {loss}", "epoch 3: l1loss 9, top5loss 8, loss 0.5", vec!["3:loss=0.5"]),
            ("loss {loss} {_}%", "loss 0.5 of all, 20 %", vec!["loss=0.5"]),
            ("loss {loss} {_}s", "loss 0.5  2.88s\nloss 0.4 in 3 s\nloss 0.3 of losses", vec!["loss=0.5", "loss=0.4"]),
        ] {
            let (pattern, mut rows) = (Pattern::new(pattern).expect("a pattern"), Vec::new());
            text.lines()
                .flat_map(|line| line.split('\r'))
                .for_each(|line| pattern.read(line, &mut rows, &mut UnreadTexts::default()));
            assert_eq!(shown(rows), expected, "{}", pattern.text());
        }
    }

    #[test]
    fn a_heading_tells_the_epoch_of_what_is_below() {
        let heading = Pattern::new("Epoch {epoch}/{_}").unwrap();
        assert!(heading.is_heading() && !Pattern::new("Epoch {epoch}: {loss}").unwrap().is_heading());
        let epoch = |epoch: f64| Some(Key { epoch: Some(epoch), step: None });
        let keys = ["Epoch 3/10", "Epoch 1.5/10", "Epochs", "Epoch 2K/3"].map(|line| heading.key(line));
        assert_eq!(keys, [epoch(3.0), epoch(1.5), None, None]);
        let key = |pattern: &str, line: &str| Pattern::new(pattern).unwrap().key(line);
        assert_eq!(key("Epoch {epoch}", "Epoch 1_000"), epoch(1000.0));
        assert_eq!(key("[{epoch}, {step}]", "[1, 20]"), Some(Key { epoch: Some(1.0), step: Some(20.0) }));
    }

    #[test]
    fn what_is_not_read_is_noted_once() {
        let (pattern, mut rows, mut unread) =
            (Pattern::new("peak {peak:MiB} acc {acc}").unwrap(), Vec::new(), UnreadTexts::default());
        for line in ["peak 12G acc 0,85", "peak 13G acc 0.5", "peak none acc 1"] {
            pattern.read(line, &mut rows, &mut unread);
        }
        assert_eq!(shown(rows), ["acc=0.5"]);
        let of = "in `peak {peak:MiB} acc {acc}`";
        let expected = format!(
            "`{{acc}}` {of}: `0,85` is not a number (1 time); `{{peak}}` {of}: the unit of `12G` is ambiguous (2 times)"
        );
        assert_eq!(unread.remarks(), Some(expected));
    }

    #[test]
    fn refuses_bad_patterns() {
        for (pattern, words) in [
            ("loss {loss", "is not closed"),
            ("loss {Loss}", "is not a metric name"),
            ("took {} s", "`{_}` is text of any kind"),
            ("{a} {a}", "is in it twice"),
            ("{a}{b}", "nothing separates"),
            ("done", "names no number"),
            ("{_}", "names no number"),
            ("{_}{a}", "nothing separates"),
        ] {
            let error = Pattern::new(pattern).expect_err(pattern);
            assert!(error.contains(words), "{pattern}: {error}");
        }
    }
}
