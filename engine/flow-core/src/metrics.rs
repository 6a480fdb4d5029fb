//! `metrics:`: where the numbers of an unmodified program are, and how they are read from text. Does not open files.

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

/// A compiled `stdout:` pattern.
#[derive(Clone, Debug)]
pub struct Pattern {
    text: String,
}

/// One number that was read.
#[derive(Clone, Debug, PartialEq)]
pub struct MetricRow {
    /// The epoch it belongs to; absent for the value of the whole attempt.
    pub epoch: Option<u32>,
    /// Its name in the protocol's form, `[a-z][a-z0-9_]*`.
    pub name: String,
    /// The number, finite.
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
}

impl Pattern {
    /// As written.
    pub fn text(&self) -> &str {
        &self.text
    }
}

/// Reads the numbers from the text of the file, or of the log. What does not look like a number of that form is passed over.
pub fn extract(_from: &MetricsFrom, _text: &str) -> Vec<MetricRow> {
    Vec::new()
}
