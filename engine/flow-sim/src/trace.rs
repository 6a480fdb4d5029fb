//! Traces of jobs: a text with one job a line becomes tasks that arrive, hold whole GPUs and end. Knows no policy and no file;
//! every mistake is told with its line.

use flow_core::reason::TraceFault;
use flow_core::sched::{Estimate, EstimateSource, Task};
use flow_core::{InstanceId, ResourceRequest, Span, Time, nearest};

use crate::SimTask;

/// Columns that a trace must have.
pub const COLUMNS: [&str; 4] = ["job_id", "submit_s", "num_gpus", "duration_s"];

/// Times beyond this are no times: thirty thousand years.
const LONGEST: f64 = 1e12;

/// A job of a trace.
#[derive(Clone, Debug, PartialEq)]
pub struct Job {
    /// As the trace calls it.
    pub id: String,
    /// Its line in the trace, counted from 1.
    pub line: u64,
    pub submitted: Time,
    /// GPUs that it holds, all at once.
    pub gpus: u32,
    /// How long it runs alone.
    pub duration: Span,
    /// Larger goes first, where the policy asks for it; the column `priority`, else 0.
    pub priority: i64,
    /// `PriorityTier` of its partition, where it goes to Slurm; the column `tier`, else 1.
    pub tier: u32,
    /// Its quality of service there; the column `qos`, else none.
    pub quality: Option<String>,
}

/// A mistake in a trace.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{what}")]
pub struct TraceError {
    /// Where, counted from 1.
    pub line: u64,
    /// What is wrong, and what was expected.
    pub what: TraceFault,
    pub help: String,
}

impl TraceError {
    fn new(line: u64, what: TraceFault, help: impl Into<String>) -> Self {
        TraceError { line, what, help: help.into() }
    }
}

/// Reads a trace: comma-separated, the first line names the columns, further columns are ignored. Jobs come back in order of
/// arrival, those of one instant in the trace's order.
///
/// # Errors
/// All mistakes, in order of lines.
pub fn jobs(text: &str) -> Result<Vec<Job>, Vec<TraceError>> {
    let mut reader = csv::ReaderBuilder::new().trim(csv::Trim::All).comment(Some(b'#')).from_reader(text.as_bytes());
    let header = reader.headers().map_err(|e| vec![broken(&e, text)])?.clone();
    let column = |name: &str| header.iter().position(|known| known == name);
    let mut errors: Vec<TraceError> = Vec::new();
    for name in COLUMNS.into_iter().filter(|name| column(name).is_none()) {
        let near = nearest(name, header.iter()).map(|near| format!("rename `{near}` to `{name}`"));
        let expected = || format!("the first line names the columns: {}", COLUMNS.join(","));
        let what = TraceFault::TraceWithoutColumn { name: name.to_owned() };
        errors.push(TraceError::new(1, what, near.unwrap_or_else(expected)));
    }
    let [Some(id), Some(submit), Some(gpus), Some(duration)] = COLUMNS.map(column) else { return Err(errors) };
    let (priority, tier, quality) = (column("priority"), column("tier"), column("qos"));
    let mut jobs = Vec::new();
    for row in reader.records() {
        let row = match row {
            Ok(row) => row,
            Err(e) => {
                errors.push(broken(&e, text));
                continue;
            }
        };
        let line = line_of(row.position(), text);
        let cell = |column: usize| row.get(column).unwrap_or_default();
        let submitted = time(cell(submit), COLUMNS[1], line);
        let lasts = time(cell(duration), COLUMNS[3], line);
        let wide = count(cell(gpus), line);
        let level = priority.map(cell).filter(|text| !text.is_empty()).map_or(Ok(0), |text| {
            let what = || TraceFault::TraceNoPriority { text: text.to_owned() };
            text.parse::<i64>().map_err(|_| TraceError::new(line, what(), "write 0 or 3"))
        });
        let tier = tier.map(cell).filter(|text| !text.is_empty()).map_or(Ok(1), |text| {
            let what = || TraceFault::TraceNoTier { text: text.to_owned() };
            text.parse::<u32>().map_err(|_| TraceError::new(line, what(), "write 1 or 10"))
        });
        match (submitted, wide, lasts, level, tier) {
            (Ok(submitted), Ok(gpus), Ok(lasts), Ok(priority), Ok(tier)) => {
                let (submitted, id) = (Time(0) + submitted, cell(id).to_owned());
                let quality = quality.map(cell).filter(|text| !text.is_empty()).map(str::to_owned);
                jobs.push(Job { id, line, submitted, gpus, duration: lasts, priority, tier, quality });
            }
            (submitted, wide, lasts, level, tier) => {
                let wrong = [submitted.err(), wide.err(), lasts.err(), level.err(), tier.err()];
                errors.extend(wrong.into_iter().flatten());
            }
        }
    }
    if jobs.is_empty() && errors.is_empty() {
        let help = "write one job a line below the names of the columns";
        errors.push(TraceError::new(1, TraceFault::TraceWithoutJobs, help));
    }
    jobs.sort_by_key(|job| job.submitted);
    if errors.is_empty() { Ok(jobs) } else { Err(errors) }
}

/// Jobs that can never run: on `gpus` GPUs in all, or under a policy that gives each one.
pub fn too_wide(jobs: &[Job], gpus: u32, one_gpu_only: Option<&str>) -> Vec<TraceError> {
    let wide = |job: &&Job| job.gpus > gpus || job.gpus > 1 && one_gpu_only.is_some();
    let tell = |job: &Job| match one_gpu_only {
        Some(policy) if job.gpus <= gpus => TraceError::new(
            job.line,
            TraceFault::TraceOneGpuOnly { job: job.id.clone(), gpus: job.gpus, policy: policy.to_owned() },
            format!("use `{}`, or leave such jobs out", policy.trim_end_matches("-single")),
        ),
        _ => TraceError::new(
            job.line,
            TraceFault::TraceTooWide { job: job.id.clone(), gpus: job.gpus, has: gpus },
            "give more with --gpus NODESxGPUS, or leave the job out",
        ),
    };
    let mut errors: Vec<TraceError> = jobs.iter().filter(wide).map(tell).collect();
    errors.sort_by_key(|error| error.line);
    errors
}

/// The tasks of jobs: each holds its GPUs alone, and its estimate is its duration.
pub fn tasks(jobs: &[Job]) -> Vec<SimTask> {
    let task = |(i, job): (usize, &Job)| {
        let estimate = Estimate { duration: Some(job.duration), source: EstimateSource::Given, ..Estimate::default() };
        let task = Task {
            instance: InstanceId(i as u32),
            request: ResourceRequest { gpus: job.gpus, ..ResourceRequest::default() },
            priority: job.priority,
            estimate,
            submitted: job.submitted,
            ..Task::default()
        };
        SimTask { tier: job.tier, kind: "the trace".to_owned(), ..SimTask::new(task, job.duration) }
    };
    jobs.iter().enumerate().map(task).collect()
}

fn time(text: &str, column: &str, line: u64) -> Result<Span, TraceError> {
    const SECONDS: &str = "write seconds, as 90 or 90.5";
    let (column, own) = (column.to_owned(), text.to_owned());
    let (what, help) = match text.parse::<f64>() {
        Err(_) if text.is_empty() => (TraceFault::TraceCellEmpty { column }, "fill it in, or leave the job out"),
        Err(_) => (TraceFault::TraceNoSeconds { column, text: own }, SECONDS),
        Ok(seconds) if seconds < 0.0 => {
            (TraceFault::TraceTooEarly { column, text: own }, "shift all times so that the first is 0")
        }
        Ok(seconds) if seconds <= LONGEST => return Ok(Span::from_secs_f64(seconds)),
        Ok(_) => (TraceFault::TraceTooLong { column, text: own }, SECONDS),
    };
    Err(TraceError::new(line, what, help))
}

fn count(text: &str, line: u64) -> Result<u32, TraceError> {
    let what = || TraceFault::TraceNoCount { text: text.to_owned() };
    text.parse::<u32>().map_err(|_| TraceError::new(line, what(), "write 0, 1, 2, …"))
}

/// The line of a row, counted from 1. The reader stands behind the row before: what comes between, the second half of a
/// Windows line's end among that, is no part of it.
pub(crate) fn line_of(row: Option<&csv::Position>, text: &str) -> u64 {
    let Some(row) = row else { return 1 };
    let rest = text.as_bytes().get(row.byte() as usize..).unwrap_or_default();
    let between = |line: &&[u8]| line.trim_ascii().is_empty() || line.starts_with(b"#");
    row.line() + rest.split_inclusive(|byte| *byte == b'\n').take_while(between).count() as u64
}

/// A row that is no record of what was expected.
pub(crate) fn unread(error: &csv::Error, text: &str, header: &csv::StringRecord) -> TraceError {
    let csv::ErrorKind::Deserialize { err, .. } = error.kind() else { return broken(error, text) };
    let line = line_of(error.position(), text);
    let name = err.field().and_then(|field| header.get(field as usize));
    let column = name.map(|name| format!("`{name}`: ")).unwrap_or_default();
    TraceError::new(
        line,
        TraceFault::KindRefused { said: format!("{column}{}", err.kind()) },
        "name the columns in the first line, and write numbers below",
    )
}

fn broken(error: &csv::Error, text: &str) -> TraceError {
    let line = line_of(error.position(), text);
    match error.kind() {
        csv::ErrorKind::UnequalLengths { expected_len, len, .. } => TraceError::new(
            line,
            TraceFault::TraceLine { cells: *len, columns: *expected_len },
            "write one cell a column; an empty one is unknown",
        ),
        _ => TraceError::new(
            line,
            TraceFault::TraceBroken { said: error.to_string() },
            "a trace is UTF-8 text with commas",
        ),
    }
}
