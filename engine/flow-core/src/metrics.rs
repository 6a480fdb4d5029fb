//! `metrics:`: where the numbers of an unmodified program are, and how they are read from text. Does not open files.

use std::sync::LazyLock;

use regex::{Regex, escape};
use serde_json::{Map, Value};

use crate::reason::NoMetrics;

/// `metrics:` of a step.
#[derive(Clone, Debug)]
pub struct Metrics {
    /// Where its numbers are.
    pub from: MetricsFrom,
    /// Without any number it has failed.
    pub required: bool,
}

/// Where to read numbers.
#[derive(Clone, Debug)]
pub enum MetricsFrom {
    /// A JSON file in the work folder: an object of numbers, or a list of such.
    Json(String),
    /// A file of JSON objects, one a line.
    Jsonl(String),
    /// A CSV file with a header.
    Csv(String),
    /// The program's own standard output and error.
    Stdout(Pattern),
}

/// A `stdout:` pattern, compiled: `Epoch {epoch}: loss {train_loss}, acc {top1:%}`. Each `{name}` stands for a number, found
/// anywhere in a line, but not within a word; blanks match any number of blanks. `{name:%}` is a percentage and kept as a ratio, `{name:s}` has the
/// unit `s`, `{_}` is passed over, `{{` is a brace.
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
    /// The pattern goes on with a comma after it.
    comma: bool,
}

/// One number that was read.
#[derive(Clone, Debug, PartialEq)]
pub struct MetricRow {
    /// The epoch it belongs to; absent for the value of the whole attempt.
    pub epoch: Option<u32>,
    /// Its name in the protocol's form, `[a-z][a-z0-9_]*`.
    pub name: String,
    /// The number; NaN for whatever is not finite: a loss that diverged is something to know.
    pub value: f64,
    /// `ratio`, `s`, or empty.
    pub unit: String,
}

impl MetricsFrom {
    /// The file to read, in the work folder; absent for standard output.
    pub fn file(&self) -> Option<&str> {
        match self {
            MetricsFrom::Json(f) | MetricsFrom::Jsonl(f) | MetricsFrom::Csv(f) => Some(f),
            MetricsFrom::Stdout(_) => None,
        }
    }

    /// The metrics that there will be, where they are named here and not in a file.
    pub fn names(&self) -> Option<Vec<String>> {
        let MetricsFrom::Stdout(pattern) = self else { return None };
        let timed = pattern.captures.iter().any(|c| c.name == "epoch").then(|| "epoch_time".to_owned());
        Some(pattern.captures.iter().filter(|c| c.name != "epoch").map(|c| c.name.clone()).chain(timed).collect())
    }

    /// That a program ended well, and no number was found.
    pub fn nothing_found(&self) -> NoMetrics {
        match self {
            MetricsFrom::Json(file) | MetricsFrom::Jsonl(file) => NoMetrics::NoneInFile { file: file.clone() },
            MetricsFrom::Csv(file) => NoMetrics::NoneInTable { file: file.clone() },
            MetricsFrom::Stdout(pattern) => NoMetrics::NoneMatches { pattern: pattern.text().to_owned() },
        }
    }
}

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
                if name == "_" {
                    source.push_str(&format!("(?:{NUMBER})"));
                } else if !shape {
                    return Err(format!(
                        "`{name}` is no name for a number; small letters, digits and `_`, a letter first"
                    ));
                } else if captures.iter().any(|c| c.name == name) {
                    return Err(format!("`{{{name}}}` stands twice"));
                } else {
                    let percent = unit == "%";
                    source.push_str(&format!("({NUMBER}){}", if percent { r"\s*%?" } else { "" }));
                    let unit = if percent { "ratio" } else { unit };
                    let comma = rest[end + 1..].starts_with(',');
                    captures.push(Capture { name: name.to_owned(), unit: unit.to_owned(), percent, comma });
                }
                rest = &rest[end + 1..];
                if rest.starts_with('{') && !rest.starts_with("{{") {
                    return Err(format!(
                        "nothing stands between `{{{name}}}` and the next number, so that where one ends cannot be told"
                    ));
                }
            } else if c.is_whitespace() {
                source.push_str(r"\s+");
                rest = rest.trim_start();
            } else {
                source.push_str(&escape(&rest[..c.len_utf8()]));
                rest = &rest[c.len_utf8()..];
            }
        }
        if !captures.iter().any(|c| c.name != "epoch") {
            return Err("the pattern names no number; `{loss}` stands for one".to_owned());
        }
        // `loss` is no part of `val_loss`.
        let start = if text.starts_with(|c: char| c.is_alphanumeric() || c == '_') { r"\b" } else { "" };
        let regex = Regex::new(&format!("{start}{source}")).map_err(|e| e.to_string())?;
        Ok(Pattern { text: text.to_owned(), regex, captures })
    }

    /// As written.
    pub fn text(&self) -> &str {
        &self.text
    }

    fn read(&self, line: &str, rows: &mut Vec<MetricRow>) {
        for found in self.regex.captures_iter(line) {
            let number = |n: usize| found.get(n + 1).and_then(|m| m.as_str().replace(',', "").parse::<f64>().ok());
            // Half a number is none: `0` of `0,85`.
            let half = |(n, capture): (usize, &Capture)| {
                let whole = found.get(n + 1).filter(|m| m.as_str().parse::<i64>().is_ok());
                whole.is_some_and(|m| !capture.comma && comma_goes_on(&line[m.end()..]))
            };
            if self.captures.iter().enumerate().any(half) {
                continue;
            }
            let epoch = self.captures.iter().position(|c| c.name == "epoch").and_then(number).and_then(whole);
            for (n, capture) in self.captures.iter().enumerate().filter(|(_, c)| c.name != "epoch") {
                let Some(value) = number(n) else { continue };
                let value = finite(if capture.percent { value / 100.0 } else { value });
                rows.push(MetricRow { epoch, name: capture.name.clone(), value, unit: capture.unit.clone() });
            }
        }
    }
}

/// After a whole number, a comma and a digit follow at once.
fn comma_goes_on(rest: &str) -> bool {
    rest.strip_prefix(',').is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_digit()))
}

/// What programs print for a number, also with commas between thousands.
const NUMBER: &str = r"[-+]?(?:[0-9]{1,3}(?:,[0-9]{3})+(?:\.[0-9]*)?|[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][-+]?[0-9]+)?|[-+]?(?i:nan|inf(?:inity)?)";

/// What programs write into JSON for what JSON has no number for, and texts, so that the same in a text is passed over.
static BARE: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(r#""(?:[^"\\]|\\.)*"|[-+]?\b(?:NaN|nan|Infinity|inf)\b"#).unwrap_or_else(|e| unreachable!("{e}"))
});

/// Stands for it in what is parsed; no program writes this text.
const NOT_FINITE: &str = "\u{0}NaN";

/// Reads the numbers from the text of the file, or from lines of the log. In a log, lines that do not match are passed over.
///
/// # Errors
/// The file is not of its form.
pub fn extract(from: &MetricsFrom, text: &str) -> Result<Vec<MetricRow>, NoMetrics> {
    let mut rows = Vec::new();
    let text = text.trim_start_matches('\u{feff}');
    match from {
        MetricsFrom::Json(file) => {
            match parse(text).map_err(|e| NoMetrics::NoJson { file: file.clone(), error: e.to_string() })? {
                Value::Object(object) => read_object(&object, &mut rows),
                Value::Array(list) => list.iter().filter_map(Value::as_object).for_each(|o| read_object(o, &mut rows)),
                _ => return Err(NoMetrics::NoNumbers { file: file.clone() }),
            }
        }
        MetricsFrom::Jsonl(file) => {
            for (n, line) in text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty()) {
                match parse(line) {
                    Ok(Value::Object(object)) => read_object(&object, &mut rows),
                    _ => {
                        let (file, line, text) = (file.clone(), n as u32 + 1, cut(line));
                        return Err(NoMetrics::BadLine { file, line, text });
                    }
                }
            }
        }
        MetricsFrom::Csv(file) => {
            let header = text.lines().next().unwrap_or_default();
            if let Some(other) = [';', '\t'].into_iter().find(|c| header.contains(*c) && !header.contains(',')) {
                return Err(NoMetrics::NoCommas { file: file.clone(), tabs: other == '\t' });
            }
            read_csv(text, &mut rows);
        }
        // A progress bar writes over its line.
        MetricsFrom::Stdout(pattern) => text.split(['\n', '\r']).for_each(|line| pattern.read(line, &mut rows)),
    }
    Ok(rows)
}

/// JSON, with `NaN` and `Infinity` as Python writes them.
fn parse(text: &str) -> serde_json::Result<Value> {
    serde_json::from_str(text).or_else(|error| {
        let not_finite = Value::from(NOT_FINITE).to_string();
        let known = BARE.replace_all(text, |found: &regex::Captures<'_>| match &found[0] {
            quoted if quoted.starts_with('"') => quoted.to_owned(),
            _ => not_finite.clone(),
        });
        // What is wrong is told of the text as it was.
        serde_json::from_str(&known).map_err(|_| error)
    })
}

fn cut(line: &str) -> String {
    const LONGEST: usize = 60;
    let line = line.trim();
    match line.char_indices().nth(LONGEST) {
        Some((end, _)) => format!("{}…", &line[..end]),
        None => line.to_owned(),
    }
}

fn finite(number: f64) -> f64 {
    if number.is_finite() { number } else { f64::NAN }
}

fn whole(number: f64) -> Option<u32> {
    (number >= 0.0 && number.fract() == 0.0 && number <= f64::from(u32::MAX)).then_some(number as u32)
}

/// Numbers of an object; of objects in it with both names joined. `{"value": 1, "unit": "s"}` is a number with its unit.
fn read_object(object: &Map<String, Value>, rows: &mut Vec<MetricRow>) {
    fn below(prefix: &str, object: &Map<String, Value>, epoch: Option<u32>, rows: &mut Vec<MetricRow>) {
        for (key, value) in object {
            if prefix.is_empty() && key == "epoch" && epoch.is_some() {
                continue;
            }
            let name = if prefix.is_empty() { key.clone() } else { format!("{prefix}_{key}") };
            match value {
                Value::Number(n) => push(&name, n.as_f64(), "", epoch, rows),
                Value::String(text) if text == NOT_FINITE => push(&name, Some(f64::NAN), "", epoch, rows),
                Value::Object(inner) => match (inner.get("value"), inner.get("unit")) {
                    (Some(Value::Number(n)), Some(Value::String(unit))) => push(&name, n.as_f64(), unit, epoch, rows),
                    _ => below(&name, inner, epoch, rows),
                },
                _ => {}
            }
        }
    }
    let epoch = object.get("epoch").and_then(Value::as_f64).and_then(whole);
    below("", object, epoch, rows);
}

fn read_csv(text: &str, rows: &mut Vec<MetricRow>) {
    let mut reader = csv::ReaderBuilder::new().flexible(true).trim(csv::Trim::All).from_reader(text.as_bytes());
    let Ok(header) = reader.headers().cloned() else { return };
    let epoch_at = header.iter().position(|name| name.eq_ignore_ascii_case("epoch"));
    for record in reader.records().flatten() {
        let epoch = epoch_at.and_then(|i| record.get(i)?.parse().ok()).and_then(whole);
        for (i, (name, field)) in header.iter().zip(&record).enumerate() {
            if Some(i) != epoch_at || epoch.is_none() {
                push(name, field.parse().ok(), "", epoch, rows);
            }
        }
    }
}

fn push(name: &str, value: Option<f64>, unit: &str, epoch: Option<u32>, rows: &mut Vec<MetricRow>) {
    let (Some(value), Some(name)) = (value, metric_name(name)) else { return };
    rows.push(MetricRow { epoch, name, value: finite(value), unit: unit.to_owned() });
}

/// `val/Acc` as `val_acc`; a name that does not begin with a letter is none.
fn metric_name(name: &str) -> Option<String> {
    let name = name.trim().to_lowercase();
    let clean: String = name.chars().map(|c| if c.is_alphanumeric() { c } else { '_' }).collect();
    let clean = clean.trim_matches('_');
    clean.starts_with(char::is_alphabetic).then(|| clean.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(from: &MetricsFrom, text: &str) -> Vec<String> {
        let row = |r: MetricRow| {
            let epoch = r.epoch.map_or(String::new(), |e| format!("{e}:"));
            format!(
                "{epoch}{}={}{}",
                r.name,
                r.value,
                if r.unit.is_empty() { String::new() } else { format!(" {}", r.unit) }
            )
        };
        extract(from, text).expect("metrics").into_iter().map(row).collect()
    }

    fn stdout(pattern: &str) -> MetricsFrom {
        MetricsFrom::Stdout(Pattern::new(pattern).expect("a pattern"))
    }

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
            ("acc {acc}", "acc 0,85", vec![]),
            ("losses {a},{b}", "losses 0.5,0.3\nlosses 1,2", vec!["a=0.5", "b=0.3", "a=1", "b=2"]),
        ] {
            assert_eq!(shown(&stdout(pattern), text), expected, "{pattern}");
        }
    }

    #[test]
    fn refuses_bad_patterns() {
        for (pattern, words) in [
            ("loss {loss", "is not closed"),
            ("loss {Loss}", "is no name"),
            ("{a} {a}", "stands twice"),
            ("{a}{b}", "nothing stands between"),
            ("done", "names no number"),
            ("epoch {epoch}", "names no number"),
        ] {
            let error = Pattern::new(pattern).expect_err(pattern);
            assert!(error.contains(words), "{pattern}: {error}");
        }
    }

    #[test]
    fn reads_files() {
        let json = MetricsFrom::Json("m.json".into());
        assert_eq!(
            shown(
                &json,
                r#"{"top1": 0.9, "val": {"loss": 1}, "time": {"value": 3, "unit": "s"}, "name": "x", "ok": true}"#
            ),
            ["time=3 s", "top1=0.9", "val_loss=1"]
        );
        assert_eq!(shown(&json, r#"[{"epoch": 1, "loss": 2}, {"epoch": 2, "loss": 1}]"#), ["1:loss=2", "2:loss=1"]);
        assert_eq!(
            shown(&json, r#"{"loss": NaN, "low": -Infinity, "note": "NaN, \"inf\"", "top1": 0.9}"#),
            ["loss=NaN", "low=NaN", "top1=0.9"]
        );

        let jsonl = MetricsFrom::Jsonl("m.jsonl".into());
        assert_eq!(shown(&jsonl, "{\"epoch\": 0, \"val/Acc\": 0.5}\n\n{\"loss\": 1}\n"), ["0:val_acc=0.5", "loss=1"]);

        let csv = MetricsFrom::Csv("m.csv".into());
        assert_eq!(
            shown(&csv, "\u{feff},epoch,train_loss,note\n0,1,0.5,\"a, b\"\n1,2,nan,x\n2,3,0.25\n"),
            ["1:train_loss=0.5", "2:train_loss=NaN", "3:train_loss=0.25"]
        );
    }

    #[test]
    fn what_cannot_be_read_has_its_place() {
        let wrong = |from: MetricsFrom, text| extract(&from, text).expect_err(text);
        let json = || MetricsFrom::Json("m.json".into());
        let file = || "m.json".to_owned();
        let error = "key must be a string at line 1 column 2".to_owned();
        assert_eq!(wrong(json(), "{bad"), NoMetrics::NoJson { file: file(), error });
        assert_eq!(wrong(json(), "3"), NoMetrics::NoNumbers { file: file() });
        let jsonl = MetricsFrom::Jsonl("m.jsonl".into());
        let (file, text) = ("m.jsonl".to_owned(), "{\"loss\": 0.".to_owned());
        assert_eq!(wrong(jsonl, "{\"loss\": 1}\n{\"loss\": 0.\n"), NoMetrics::BadLine { file, line: 2, text });
        let csv = || MetricsFrom::Csv("m.csv".into());
        let file = || "m.csv".to_owned();
        assert_eq!(wrong(csv(), "epoch;loss\n1;2\n"), NoMetrics::NoCommas { file: file(), tabs: false });
        assert!(extract(&csv(), "epoch,loss\n").is_ok_and(|rows| rows.is_empty()));
        assert_eq!(csv().nothing_found(), NoMetrics::NoneInTable { file: file() });
    }
}
