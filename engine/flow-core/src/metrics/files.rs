//! Files that hold numbers: JSON, JSON lines, CSV and the event files of TensorBoard. From their content to rows; opens none.

use std::sync::LazyLock;

use regex::Regex;
use serde_json::{Map, Value};

use super::{Columns, Key, MetricRow, cut, events, push, table, whole};
use crate::reason::NoMetrics;

/// A place in the work folder that holds numbers.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum MetricsFile {
    /// A JSON file: an object of numbers, or a list of such.
    Json(String),
    /// A file of JSON objects, one a line.
    Jsonl(String),
    /// A CSV file with a header.
    Csv(String),
    /// A folder with the event files of TensorBoard, in itself and in folders below.
    TensorBoard(String),
}

/// Whoever can open files: those of a work folder, or those that were kept of one.
pub trait NumberFiles {
    /// The text of a file.
    ///
    /// # Errors
    /// It cannot be read.
    fn text(&mut self, file: &str) -> Result<String, NoMetrics>;

    /// The event files in a folder and below, by their paths in it, in order.
    ///
    /// # Errors
    /// It cannot be read.
    fn event_files(&mut self, folder: &str) -> Result<Vec<String>, NoMetrics>;

    /// What is in a file, named by its path in the work folder.
    ///
    /// # Errors
    /// It cannot be read.
    fn bytes(&mut self, file: &str) -> Result<Vec<u8>, NoMetrics>;
}

/// Where an event file is in the work folder, of which this is the path in the folder that was named.
pub fn event_file(folder: &str, path: &str) -> String {
    if folder == "." { path.to_owned() } else { format!("{}/{path}", folder.trim_end_matches('/')) }
}

impl MetricsFile {
    /// The kinds, as `metrics:` names them.
    pub(crate) const KINDS: [&str; 4] = ["json", "jsonl", "csv", "tensorboard"];

    /// One of a kind.
    pub fn new(kind: &str, path: String) -> Option<MetricsFile> {
        Some(match kind {
            "json" => MetricsFile::Json(path),
            "jsonl" => MetricsFile::Jsonl(path),
            "csv" => MetricsFile::Csv(path),
            "tensorboard" => MetricsFile::TensorBoard(path),
            _ => return None,
        })
    }

    pub fn kind(&self) -> &'static str {
        match self {
            MetricsFile::Json(_) => "json",
            MetricsFile::Jsonl(_) => "jsonl",
            MetricsFile::Csv(_) => "csv",
            MetricsFile::TensorBoard(_) => "tensorboard",
        }
    }

    /// Where it is in the work folder.
    pub fn path(&self) -> &str {
        match self {
            MetricsFile::Json(path)
            | MetricsFile::Jsonl(path)
            | MetricsFile::Csv(path)
            | MetricsFile::TensorBoard(path) => path,
        }
    }

    /// Reads its numbers, and what is to be told of the columns of a table. Where the program did not end by itself, a last line without
    /// an end is half a line. What was read before something is wrong stays.
    ///
    /// # Errors
    /// It cannot be read, is not of its form, or holds no number.
    pub(crate) fn read(
        &self,
        files: &mut dyn NumberFiles,
        ended: bool,
        rows: &mut Vec<MetricRow>,
        columns: &mut Columns,
    ) -> Result<(), NoMetrics> {
        let file = || self.path().to_owned();
        let before = rows.len();
        if let MetricsFile::TensorBoard(folder) = self {
            let found = files.event_files(folder)?;
            if found.is_empty() {
                return Err(NoMetrics::NoEventFile { file: file() });
            }
            for path in found {
                let whole = event_file(folder, &path);
                if let Some(at) = events::read(&path, &files.bytes(&whole)?, rows) {
                    return Err(NoMetrics::BadEvent { file: whole, at });
                }
            }
        } else {
            let text = files.text(self.path())?;
            let end = if ended { text.len() } else { text.rfind('\n').map_or(0, |end| end + 1) };
            match self {
                MetricsFile::Json(_) => read_json(self.path(), &text, rows)?,
                MetricsFile::Csv(file) => *columns = read_csv(file, &text[..end], rows)?,
                _ => self.read_lines(&text[..end], rows)?,
            }
        }
        match self {
            _ if rows.len() > before => Ok(()),
            MetricsFile::Csv(_) => Err(NoMetrics::NoneInTable { file: file() }),
            _ => Err(NoMetrics::NoneInFile { file: file() }),
        }
    }

    /// Reads the lines of a file that consists of lines: of JSON, or of CSV with its header first.
    ///
    /// # Errors
    /// A line is not of its form.
    pub fn read_lines(&self, text: &str, rows: &mut Vec<MetricRow>) -> Result<(), NoMetrics> {
        match self {
            MetricsFile::Jsonl(file) => read_jsonl(file, text.trim_start_matches('\u{feff}'), rows),
            MetricsFile::Csv(file) => read_csv(file, text, rows).map(|_| ()),
            MetricsFile::Json(_) | MetricsFile::TensorBoard(_) => Ok(()),
        }
    }
}

/// What programs write into JSON for what JSON has no number for, and texts, so that the same in a text is passed over.
static BARE: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(r#""(?:[^"\\]|\\.)*"|[-+]?\b(?:NaN|nan|Infinity|inf)\b"#).unwrap_or_else(|e| unreachable!("{e}"))
});

/// Stands for it in what is parsed; no program writes this text.
const NOT_FINITE: &str = "\u{0}NaN";

fn read_json(file: &str, text: &str, rows: &mut Vec<MetricRow>) -> Result<(), NoMetrics> {
    let file = || file.to_owned();
    let text = text.trim_start_matches('\u{feff}');
    match parse(text).map_err(|e| NoMetrics::NoJson { file: file(), error: e.to_string() })? {
        Value::Object(object) => read_object(&object, rows),
        Value::Array(list) => list.iter().filter_map(Value::as_object).for_each(|o| read_object(o, rows)),
        _ => return Err(NoMetrics::NoNumbers { file: file() }),
    }
    Ok(())
}

fn read_jsonl(file: &str, text: &str, rows: &mut Vec<MetricRow>) -> Result<(), NoMetrics> {
    for (n, whole) in text.split_inclusive('\n').enumerate().filter(|(_, line)| !line.trim().is_empty()) {
        match parse(whole) {
            Ok(Value::Object(object)) => read_object(&object, rows),
            // Its program was killed within it.
            _ if !whole.ends_with('\n') && n > 0 => {}
            _ => {
                let (file, line, text) = (file.to_owned(), n as u32 + 1, cut(whole));
                return Err(NoMetrics::BadLine { file, line, text });
            }
        }
    }
    Ok(())
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

/// Numbers of an object; of objects in it with both names joined. `{"value": 1, "unit": "s"}` is a number with its unit.
fn read_object(object: &Map<String, Value>, rows: &mut Vec<MetricRow>) {
    fn below(prefix: &str, object: &Map<String, Value>, at: Key, rows: &mut Vec<MetricRow>) {
        for (key, value) in object {
            if prefix.is_empty() && key == "epoch" {
                continue;
            }
            let name = if prefix.is_empty() { key.clone() } else { format!("{prefix}_{key}") };
            match value {
                Value::Number(n) => push(&name, n.as_f64(), "", at, rows),
                Value::String(text) if text == NOT_FINITE => push(&name, Some(f64::NAN), "", at, rows),
                Value::Object(inner) => match (inner.get("value"), inner.get("unit")) {
                    (Some(Value::Number(n)), Some(Value::String(unit))) => push(&name, n.as_f64(), unit, at, rows),
                    _ => below(&name, inner, at, rows),
                },
                _ => {}
            }
        }
    }
    let epoch = object.get("epoch").and_then(Value::as_f64).and_then(whole);
    below("", object, epoch.map_or(Key::default(), Key::of_epoch), rows);
}

fn read_csv(file: &str, text: &str, rows: &mut Vec<MetricRow>) -> Result<Columns, NoMetrics> {
    let text = text.trim_start_matches('\u{feff}');
    let header = text.lines().next().unwrap_or_default();
    if let Some(other) = [';', '\t'].into_iter().find(|c| header.contains(*c) && !header.contains(',')) {
        return Err(NoMetrics::NoCommas { file: file.to_owned(), tabs: other == '\t' });
    }
    Ok(table::read(text, rows))
}

#[cfg(test)]
mod tests {
    use super::{super::tests::shown, *};

    struct One<'a>(&'a str);

    impl NumberFiles for One<'_> {
        fn text(&mut self, _: &str) -> Result<String, NoMetrics> {
            Ok(self.0.to_owned())
        }

        fn event_files(&mut self, _: &str) -> Result<Vec<String>, NoMetrics> {
            Ok(Vec::new())
        }

        fn bytes(&mut self, _: &str) -> Result<Vec<u8>, NoMetrics> {
            Ok(Vec::new())
        }
    }

    fn read(file: &MetricsFile, text: &str, ended: bool) -> Result<Vec<String>, NoMetrics> {
        let mut rows = Vec::new();
        file.read(&mut One(text), ended, &mut rows, &mut Columns::default()).map(|()| shown(rows))
    }

    #[test]
    fn reads_files() {
        let numbers = |file: &MetricsFile, text| read(file, text, true).expect("metrics");
        let json = MetricsFile::Json("m.json".into());
        assert_eq!(
            numbers(
                &json,
                r#"{"top1": 0.9, "val": {"loss": 1}, "time": {"value": 3, "unit": "s"}, "name": "x", "ok": true}"#
            ),
            ["time=3 s", "top1=0.9", "val_loss=1"]
        );
        assert_eq!(numbers(&json, r#"[{"epoch": 1, "loss": 2}, {"epoch": 2, "loss": 1}]"#), ["1:loss=2", "2:loss=1"]);
        assert_eq!(
            numbers(&json, r#"{"loss": NaN, "low": -Infinity, "note": "NaN, \"inf\"", "top1": 0.9, "epoch": 0.5}"#),
            ["loss=NaN", "low=NaN", "top1=0.9"]
        );

        let jsonl = MetricsFile::Jsonl("m.jsonl".into());
        assert_eq!(numbers(&jsonl, "{\"epoch\": 0, \"val/Acc\": 0.5}\n\n{\"loss\": 1}"), ["0:val_acc=0.5", "loss=1"]);

        let csv = MetricsFile::Csv("m.csv".into());
        assert_eq!(
            numbers(&csv, "\u{feff},epoch,train_loss,note\n0,1,0.5,\"a, b\"\n1,2,nan,x\n2,3,0.25\n"),
            ["1:train_loss=0.5", "2:train_loss=NaN", "3:train_loss=0.25"]
        );
    }

    #[test]
    fn half_a_line_of_a_killed_program_is_none() {
        let jsonl = MetricsFile::Jsonl("m.jsonl".into());
        for ended in [true, false] {
            assert_eq!(read(&jsonl, "{\"loss\": 1}\n{\"loss\": 0.", ended).unwrap(), ["loss=1"]);
        }
        let csv = MetricsFile::Csv("m.csv".into());
        assert_eq!(read(&csv, "epoch,loss\n1,0.5\n2,0.2", true).unwrap(), ["1:loss=0.5", "2:loss=0.2"]);
        assert_eq!(read(&csv, "epoch,loss\n1,0.5\n2,0.2", false).unwrap(), ["1:loss=0.5"], "it may have been 0.25");
    }

    #[test]
    fn what_cannot_be_read_has_its_place() {
        let wrong = |file: MetricsFile, text| read(&file, text, true).expect_err(text);
        let json = || MetricsFile::Json("m.json".into());
        let file = || "m.json".to_owned();
        let error = "key must be a string at line 1 column 2".to_owned();
        assert_eq!(wrong(json(), "{bad"), NoMetrics::NoJson { file: file(), error });
        assert_eq!(wrong(json(), "3"), NoMetrics::NoNumbers { file: file() });
        assert_eq!(wrong(json(), "{}"), NoMetrics::NoneInFile { file: file() });
        let jsonl = MetricsFile::Jsonl("m.jsonl".into());
        let (file, text) = ("m.jsonl".to_owned(), "{\"loss\": 0.".to_owned());
        assert_eq!(wrong(jsonl, "{\"loss\": 1}\n{\"loss\": 0.\n"), NoMetrics::BadLine { file, line: 2, text });
        let csv = || MetricsFile::Csv("m.csv".into());
        let file = || "m.csv".to_owned();
        assert_eq!(wrong(csv(), "epoch;loss\n1;2\n"), NoMetrics::NoCommas { file: file(), tabs: false });
        assert_eq!(wrong(csv(), "epoch,loss\n"), NoMetrics::NoneInTable { file: file() });
        let board = MetricsFile::TensorBoard("runs".into());
        assert_eq!(wrong(board, ""), NoMetrics::NoEventFile { file: "runs".into() });
    }
}
