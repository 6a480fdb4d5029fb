//! Files that hold numbers: JSON, JSON lines, CSV and TensorBoard event files. From their content to rows; opens none.

use std::ops::ControlFlow;

use super::{
    Columns, MetricRow, cut, events,
    json::{self, Node},
    table::{LONGEST_RECORD, Table},
};
use crate::reason::{FileFault, NoMetrics};

/// A place in the work folder that holds numbers.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct MetricsFile {
    pub form: MetricsForm,
    /// Its path in the work folder.
    pub path: String,
}

/// The form of such a place.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum MetricsForm {
    /// A JSON file: an object of numbers, or a list of such.
    Json,
    /// A file with one JSON object per line.
    Jsonl,
    /// A CSV file with a header.
    Csv,
    /// A folder with TensorBoard event files, in itself or in subfolders.
    TensorBoard,
}

/// Opens the files of a work folder, or its stored copies.
pub trait NumberFiles {
    /// The text of a file.
    ///
    /// # Errors
    /// It cannot be read.
    fn text(&mut self, file: &str) -> Result<String, NoMetrics>;

    /// Passes on the text of a file of any length, in pieces, until `take` breaks.
    ///
    /// # Errors
    /// It cannot be read.
    fn pieces(&mut self, file: &str, take: &mut dyn FnMut(&str) -> ControlFlow<()>) -> Result<(), NoMetrics> {
        let _ = take(&self.text(file)?);
        Ok(())
    }

    /// The event files in a folder and below, by their paths in it, in order.
    ///
    /// # Errors
    /// It cannot be read.
    fn event_files(&mut self, folder: &str) -> Result<Vec<String>, NoMetrics>;

    /// The content of a file, given by its path in the work folder.
    ///
    /// # Errors
    /// It cannot be read.
    fn bytes(&mut self, file: &str) -> Result<Vec<u8>, NoMetrics>;
}

/// The path in the work folder of an event file, given its path in the declared folder.
pub fn event_file(folder: &str, path: &str) -> String {
    if folder == "." { path.to_owned() } else { format!("{}/{path}", folder.trim_end_matches('/')) }
}

impl MetricsForm {
    /// All with their keys in `metrics:`, in order.
    pub(crate) const KEYS: [(&str, MetricsForm); 4] = [
        ("json", MetricsForm::Json),
        ("jsonl", MetricsForm::Jsonl),
        ("csv", MetricsForm::Csv),
        ("tensorboard", MetricsForm::TensorBoard),
    ];
}

impl MetricsFile {
    /// Reads its numbers, passing them on as they come, and the warnings about its names. Unless the program ended by
    /// itself, an unterminated last line is dropped. Numbers before an error are kept.
    ///
    /// # Errors
    /// It cannot be read, is malformed, or holds no number.
    pub(crate) fn read(
        &self,
        files: &mut dyn NumberFiles,
        ended: bool,
        take: &mut dyn FnMut(Vec<MetricRow>),
        columns: &mut Columns,
    ) -> Result<(), NoMetrics> {
        let file = || self.path.clone();
        let (mut rows, mut is_any) = (Vec::new(), false);
        let mut take = |rows: &mut Vec<MetricRow>| {
            is_any |= !rows.is_empty();
            take(std::mem::take(rows));
        };
        if self.form == MetricsForm::TensorBoard {
            let found = files.event_files(&self.path)?;
            if found.is_empty() {
                return Err(NoMetrics::NoEventFile { file: file() });
            }
            let (mut runs, mut damaged) = (events::Runs::default(), None);
            for path in found {
                let whole = event_file(&self.path, &path);
                let at = runs.read(&path, &files.bytes(&whole)?);
                damaged = damaged.or(at.map(|at| NoMetrics::BadEvent { file: whole, at }));
            }
            runs.rows(columns, &mut rows);
            take(&mut rows);
            if let Some(damaged) = damaged {
                return Err(damaged);
            }
        } else if let Some(mut lines) = self.lines() {
            files.pieces(&self.path, &mut |piece| {
                lines.feed(piece, &mut rows);
                take(&mut rows);
                ControlFlow::Continue(())
            })?;
            let problem = lines.end(ended, &mut rows);
            take(&mut rows);
            *columns = lines.into_columns();
            problem?;
        } else {
            let text = files.text(&self.path)?;
            let problem = read_json(&self.path, &text, ended, columns, &mut rows);
            take(&mut rows);
            problem?;
        }
        match self.form {
            _ if is_any => Ok(()),
            MetricsForm::Csv => Err(NoMetrics::NoneInTable { file: file() }),
            _ => Err(NoMetrics::NoneInFile { file: file() }),
        }
    }

    /// An incremental reader of a JSON lines or CSV file.
    pub fn lines(&self) -> Option<LineReader> {
        match self.form {
            MetricsForm::Jsonl => Some(LineReader::jsonl(&self.path)),
            MetricsForm::Csv => Some(LineReader { file: self.path.clone(), lines: Lines::Csv(Box::default()) }),
            MetricsForm::Json | MetricsForm::TensorBoard => None,
        }
    }
}

/// Reads a file of lines in pieces, while it is written or afterwards.
#[derive(Debug)]
pub struct LineReader {
    file: String,
    lines: Lines,
}

#[derive(Debug)]
enum Lines {
    Jsonl(Jsonl),
    Csv(Box<Table>),
}

/// JSON objects, one per line.
#[derive(Debug, Default)]
struct Jsonl {
    columns: Columns,
    /// An unterminated line.
    rest: String,
    /// Number of lines so far.
    line: u32,
    /// The first line that is not an object.
    bad: Option<(u32, String)>,
    /// The present line is too long and is skipped.
    passing: bool,
    /// Whether a line was too long.
    too_long: bool,
}

impl LineReader {
    fn jsonl(file: &str) -> LineReader {
        LineReader { file: file.to_owned(), lines: Lines::Jsonl(Jsonl::default()) }
    }

    /// Reads the lines that this text completes. It follows the text before.
    pub fn feed(&mut self, text: &str, rows: &mut Vec<MetricRow>) {
        match &mut self.lines {
            Lines::Jsonl(lines) => lines.feed(text, rows),
            Lines::Csv(table) => table.feed(text, rows),
        }
    }

    /// Ends the file. Unless the program ended by itself, an unterminated last line is dropped.
    ///
    /// # Errors
    /// A line is malformed.
    fn end(&mut self, ended: bool, rows: &mut Vec<MetricRow>) -> Result<(), NoMetrics> {
        let file = || self.file.clone();
        match &mut self.lines {
            Lines::Jsonl(lines) => {
                let rest = std::mem::take(&mut lines.rest);
                if ended && !rest.trim().is_empty() {
                    let bad = lines.bad.take();
                    lines.read(&rest, rows);
                    // A program was killed while it wrote this line.
                    let half = lines.bad.take().filter(|_| lines.line == 1);
                    lines.bad = bad.or(half);
                }
                let bad = lines.bad.take().map(|(line, text)| NoMetrics::BadLine { file: file(), line, text });
                bad.or(lines.too_long.then(|| too_long(file()))).map_or(Ok(()), Err)
            }
            Lines::Csv(table) => {
                table.end(ended, rows);
                match table {
                    _ if table.nameless => Err(NoMetrics::NoHeader { file: file() }),
                    _ if table.too_long => Err(too_long(file())),
                    _ => Ok(()),
                }
            }
        }
    }

    fn into_columns(self) -> Columns {
        match self.lines {
            Lines::Jsonl(lines) => lines.columns,
            Lines::Csv(table) => table.columns,
        }
    }
}

impl Jsonl {
    fn feed(&mut self, text: &str, rows: &mut Vec<MetricRow>) {
        for part in text.split_inclusive('\n') {
            let is_whole = part.ends_with('\n');
            if self.passing {
                self.passing = !is_whole;
            } else if !is_whole {
                self.rest.push_str(part);
                if self.rest.len() > LONGEST_RECORD {
                    self.line = self.line.saturating_add(1);
                    (self.rest, self.passing, self.too_long) = (String::new(), true, true);
                }
            } else if self.rest.is_empty() {
                self.read(part, rows);
            } else {
                let line = std::mem::take(&mut self.rest) + part;
                self.read(&line, rows);
            }
        }
    }

    fn read(&mut self, line: &str, rows: &mut Vec<MetricRow>) {
        self.line = self.line.saturating_add(1);
        let text = if self.line == 1 { line.trim_start_matches('\u{feff}') } else { line };
        if text.trim().is_empty() {
            return;
        }
        let is_read = json::parse(text).is_ok_and(|node| json::read(&node, false, &mut self.columns, rows));
        if !is_read && self.bad.is_none() {
            self.bad = Some((self.line, cut(text)));
        }
    }
}

fn too_long(file: String) -> NoMetrics {
    let most = "64.0 MiB".to_owned();
    let fault = FileFault::TooLong { size: format!("a line or a row of more than {most}"), most };
    NoMetrics::Unread { file, error: fault.into() }
}

/// Reads a JSON text, or one object per line.
fn read_json(
    file: &str,
    text: &str,
    ended: bool,
    columns: &mut Columns,
    rows: &mut Vec<MetricRow>,
) -> Result<(), NoMetrics> {
    let text = text.trim_start_matches('\u{feff}');
    let error = match json::parse(text) {
        Ok(node) if json::read(&node, true, columns, rows) => return Ok(()),
        Ok(_) => return Err(NoMetrics::NoNumbers { file: file.to_owned() }),
        Err(error) => error.to_string(),
    };
    let first = text.lines().find(|line| !line.trim().is_empty()).unwrap_or_default();
    if !matches!(json::parse(first), Ok(Node::Object(_))) {
        return Err(NoMetrics::NoJson { file: file.to_owned(), error });
    }
    let mut lines = LineReader::jsonl(file);
    lines.feed(text, rows);
    let problem = lines.end(ended, rows);
    *columns = lines.into_columns();
    problem
}

#[cfg(test)]
mod tests {
    use super::{super::tests::shown, *};

    struct OneFile<'a>(&'a str);

    impl NumberFiles for OneFile<'_> {
        fn text(&mut self, _: &str) -> Result<String, NoMetrics> {
            Ok(self.0.to_owned())
        }

        /// In small pieces, and no more than requested.
        fn pieces(&mut self, _: &str, take: &mut dyn FnMut(&str) -> ControlFlow<()>) -> Result<(), NoMetrics> {
            let chars: Vec<char> = self.0.chars().collect();
            let _ = chars.chunks(3).try_for_each(|piece| take(&piece.iter().collect::<String>()));
            Ok(())
        }

        fn event_files(&mut self, _: &str) -> Result<Vec<String>, NoMetrics> {
            Ok(Vec::new())
        }

        fn bytes(&mut self, _: &str) -> Result<Vec<u8>, NoMetrics> {
            Ok(Vec::new())
        }
    }

    fn file(form: MetricsForm, path: String) -> MetricsFile {
        MetricsFile { form, path }
    }

    fn read(file: &MetricsFile, text: &str, ended: bool) -> Result<Vec<String>, NoMetrics> {
        let mut rows = Vec::new();
        let mut take = |more: Vec<MetricRow>| rows.extend(more);
        file.read(&mut OneFile(text), ended, &mut take, &mut Columns::default()).map(|()| shown(rows))
    }

    #[test]
    fn reads_files() {
        let numbers = |file: &MetricsFile, text| read(file, text, true).expect("metrics");
        let json = file(MetricsForm::Json, "m.json".into());
        assert_eq!(numbers(&json, r#"[{"epoch": 1, "loss": 2}, {"epoch": 2, "loss": 1}]"#), ["1:loss=2", "2:loss=1"]);
        let lines = "{\"epoch\": 1, \"loss\": 2}\n{\"epoch\": 2, \"loss\": 1}\n";
        assert_eq!(numbers(&json, lines), ["1:loss=2", "2:loss=1"], "an object a line");

        let jsonl = file(MetricsForm::Jsonl, "m.jsonl".into());
        assert_eq!(numbers(&jsonl, "{\"epoch\": 0, \"val/Acc\": 0.5}\n\n{\"loss\": 1}"), ["0:val_acc=0.5", "loss=1"]);
        assert_eq!(numbers(&jsonl, "[{\"epoch\": 1, \"loss\": 2}]"), ["1:loss=2"]);

        let csv = file(MetricsForm::Csv, "m.csv".into());
        assert_eq!(
            numbers(&csv, "\u{feff},epoch,train_loss,note\n0,1,0.5,\"a, b\"\n1,2,nan,x\n2,3,0.25,\n"),
            ["1:train_loss=0.5", "2:train_loss=NaN", "3:train_loss=0.25"]
        );
    }

    #[test]
    fn a_line_of_any_length_takes_bounded_memory() {
        let long = "x".repeat(LONGEST_RECORD + 9);
        for (file, head, tail) in [
            (file(MetricsForm::Csv, "m".into()), "epoch,loss\n1,0.5\n2,\"", "\n3,0.1\n"),
            (file(MetricsForm::Jsonl, "m".into()), "{\"epoch\": 1, \"loss\": 0.5}\n{\"note\": \"", "\"}\n"),
        ] {
            let (mut lines, mut rows) = (file.lines().unwrap(), Vec::new());
            for text in [head, &long, &long, tail] {
                lines.feed(text, &mut rows);
            }
            let why = lines.end(true, &mut rows).expect_err("it is told");
            assert!(matches!(why, NoMetrics::Unread { .. }), "{why:?}");
            assert_eq!(shown(rows), ["1:loss=0.5"]);
        }
    }

    #[test]
    fn half_a_line_of_a_killed_program_is_none() {
        let jsonl = file(MetricsForm::Jsonl, "m.jsonl".into());
        for ended in [true, false] {
            assert_eq!(read(&jsonl, "{\"loss\": 1}\n{\"loss\": 0.", ended).unwrap(), ["loss=1"]);
        }
        let csv = file(MetricsForm::Csv, "m.csv".into());
        assert_eq!(read(&csv, "epoch,loss\n1,0.5\n2,0.2", true).unwrap(), ["1:loss=0.5", "2:loss=0.2"]);
        assert_eq!(read(&csv, "epoch,loss\n1,0.5\n2,0.2", false).unwrap(), ["1:loss=0.5"], "it may have been 0.25");
    }

    #[test]
    fn what_cannot_be_read_has_its_place() {
        let wrong = |file: MetricsFile, text| read(&file, text, true).expect_err(text);
        let json = || file(MetricsForm::Json, "m.json".into());
        let name = || "m.json".to_owned();
        let error = "key must be a string at line 1 column 2".to_owned();
        assert_eq!(wrong(json(), "{bad"), NoMetrics::NoJson { file: name(), error });
        assert_eq!(wrong(json(), "3"), NoMetrics::NoNumbers { file: name() });
        assert_eq!(wrong(json(), "{}"), NoMetrics::NoneInFile { file: name() });
        let jsonl = file(MetricsForm::Jsonl, "m.jsonl".into());
        let (name_of_lines, text) = ("m.jsonl".to_owned(), "{\"loss\": 0.".to_owned());
        assert_eq!(
            wrong(jsonl, "{\"loss\": 1}\n{\"loss\": 0.\n"),
            NoMetrics::BadLine { file: name_of_lines, line: 2, text }
        );
        let csv = || file(MetricsForm::Csv, "m.csv".into());
        let name = || "m.csv".to_owned();
        assert_eq!(wrong(csv(), "1,0.5\n2,0.25\n"), NoMetrics::NoHeader { file: name() });
        assert_eq!(wrong(csv(), "epoch,loss\n"), NoMetrics::NoneInTable { file: name() });
        let board = file(MetricsForm::TensorBoard, "runs".into());
        assert_eq!(wrong(board, ""), NoMetrics::NoEventFile { file: "runs".into() });
    }
}
