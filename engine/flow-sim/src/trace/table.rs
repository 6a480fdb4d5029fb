//! A trace as a table: a first line that names the columns, and a job a line below it.

use flow_core::Time;
use flow_core::reason::TraceFault;
use jiff::{civil::DateTime, tz::TimeZone};

use super::{
    columns::{self, Columns, Gpus},
    job::{Ids, Job, SECONDS, Trace, TraceError, seconds},
};

/// What separates the columns.
fn separator(text: &str) -> u8 {
    let first = text.lines().find(|line| !line.trim().is_empty() && !line.starts_with('#')).unwrap_or_default();
    let other = [';', '\t'].into_iter().find(|other| first.contains(*other)).filter(|_| !first.contains(','));
    other.map_or(b',', |other| other as u8)
}

/// Jobs in the order of the text.
pub(super) fn read(text: &str, columns: &Columns) -> Result<Trace, Vec<TraceError>> {
    let mut builder = csv::ReaderBuilder::new();
    builder.trim(csv::Trim::All).comment(Some(b'#')).delimiter(separator(text));
    let mut reader = builder.from_reader(text.as_bytes());
    let first = reader.headers().map_err(|e| vec![broken(&e, text)])?.clone();
    let header: Vec<&str> = first.iter().collect();
    let found = columns::find(&header, columns)?;
    let (mut trace, mut errors) = (Trace::default(), Vec::new());
    let (mut dates, mut first_date) = (None, f64::INFINITY);
    let (mut rows, mut ids) = (Vec::new(), Ids::default());
    for row in reader.records() {
        let row = match row {
            Ok(row) => row,
            Err(e) => {
                errors.push(broken(&e, text));
                continue;
            }
        };
        let line = line_of(row.position(), text);
        let row = Row { cells: &row, header: &header, line };
        let id = row.cell(found.id).to_owned();
        errors.extend(ids.add(&id, line));
        let submitted = row.time(found.submitted).and_then(|(at, is_date)| match dates.replace(is_date) {
            Some(others) if others != is_date => Err(row.no_seconds(found.submitted)),
            _ if is_date => Ok(at),
            _ => seconds(at, row.cell(found.submitted), header[found.submitted], line).map(|_| at),
        });
        let duration = row.time(found.duration).and_then(|(duration, is_date)| match is_date {
            true => Err(row.no_seconds(found.duration)),
            false => seconds(duration, row.cell(found.duration), header[found.duration], line),
        });
        let gpus = row.gpus(&found.gpus);
        let level = row.given(found.priority).map_or(Ok(0), |text| {
            let what = || TraceFault::TraceNoPriority { text: text.to_owned() };
            text.parse::<i64>().map_err(|_| TraceError::new(line, what(), "write 0 or 3"))
        });
        match (submitted, gpus, duration, level) {
            (Ok(submitted), Ok((gpus, is_part)), Ok(duration), Ok(priority)) => {
                trace.rounded += usize::from(is_part);
                first_date = first_date.min(submitted);
                let job = Job { id, line, submitted: Time(0), gpus, duration, priority };
                rows.push((job, submitted, row.cell(found.submitted).to_owned()));
            }
            (submitted, gpus, duration, level) => {
                let wrong = [submitted.err(), gpus.err(), duration.err(), level.err()];
                errors.extend(wrong.into_iter().flatten());
            }
        }
    }
    // Dates count from the first of them.
    let zero = if dates == Some(true) { first_date } else { 0.0 };
    for (job, submitted, text) in rows {
        match seconds(submitted - zero, &text, header[found.submitted], job.line) {
            Ok(since) => trace.jobs.push(Job { submitted: Time(0) + since, ..job }),
            Err(error) => errors.push(error),
        }
    }
    errors.sort_by_key(|error| error.line);
    if errors.is_empty() { Ok(trace) } else { Err(errors) }
}

/// A row of a table.
struct Row<'a> {
    cells: &'a csv::StringRecord,
    header: &'a [&'a str],
    line: u64,
}

impl<'a> Row<'a> {
    fn cell(&self, column: usize) -> &'a str {
        self.cells.get(column).unwrap_or_default()
    }

    /// The value of an optional column, if there is one.
    fn given(&self, column: Option<usize>) -> Option<&'a str> {
        column.map(|column| self.cell(column)).filter(|text| !text.is_empty())
    }

    /// Seconds, and whether they are those of a date since 1970.
    fn time(&self, column: usize) -> Result<(f64, bool), TraceError> {
        let text = self.cell(column);
        if text.is_empty() {
            let what = TraceFault::TraceCellEmpty { column: self.header[column].to_owned() };
            return Err(TraceError::new(self.line, what, "fill it in, or leave the job out"));
        }
        if let Some(seconds) = text.parse::<f64>().ok().filter(|seconds| !seconds.is_nan()) {
            return Ok((seconds, false));
        }
        let date = text.parse::<DateTime>().ok().and_then(|date| date.to_zoned(TimeZone::UTC).ok());
        date.map(|date| (date.timestamp().as_duration().as_secs_f64(), true)).ok_or_else(|| self.no_seconds(column))
    }

    fn no_seconds(&self, column: usize) -> TraceError {
        let (column, text) = (self.header[column].to_owned(), self.cell(column).to_owned());
        TraceError::new(self.line, TraceFault::TraceNoSeconds { column, text }, SECONDS)
    }

    /// Whole GPUs, and whether the trace has a part of one.
    fn gpus(&self, gpus: &Gpus) -> Result<(u32, bool), TraceError> {
        let text = self.cell(gpus.column);
        let wrong = |help: &str| {
            let column = self.header[gpus.column].to_owned();
            TraceError::new(self.line, TraceFault::TraceNoCount { column, text: text.to_owned() }, help)
        };
        if !gpus.parts {
            return text.parse().map(|gpus| (gpus, false)).map_err(|_| wrong("write 0, 1, 2, …"));
        }
        let number = |text: &str| text.parse::<f64>().unwrap_or(f64::NAN);
        let each = number(text);
        let instances = self.given(gpus.instances).map_or(1.0, number);
        // An instance is on one machine.
        let whole = each.ceil() * instances;
        match (0.0..=f64::from(u32::MAX)).contains(&whole) && each >= 0.0 {
            true => Ok((whole as u32, each.fract() > 0.0)),
            false => Err(wrong("write 0, 0.5, 1, 2, …")),
        }
    }
}

/// The line of a row, counted from 1. The reader's position is the end of the row before. Blank lines and comments
/// after it, and the second half of a Windows line ending, are skipped.
fn line_of(row: Option<&csv::Position>, text: &str) -> u64 {
    let Some(row) = row else { return 1 };
    let rest = text.as_bytes().get(row.byte() as usize..).unwrap_or_default();
    let between = |line: &&[u8]| line.trim_ascii().is_empty() || line.starts_with(b"#");
    row.line() + rest.split_inclusive(|byte| *byte == b'\n').take_while(between).count() as u64
}

fn broken(error: &csv::Error, text: &str) -> TraceError {
    let line = line_of(error.position(), text);
    match error.kind() {
        csv::ErrorKind::UnequalLengths { expected_len, len, .. } => TraceError::new(
            line,
            TraceFault::TraceLine { cells: *len, columns: *expected_len },
            "write one cell per column; an empty cell is unknown",
        ),
        _ => TraceError::new(
            line,
            TraceFault::TraceBroken { message: error.to_string() },
            "a trace is UTF-8 text with commas",
        ),
    }
}
