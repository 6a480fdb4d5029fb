//! A job of a trace, and a mistake in one.

use std::collections::BTreeMap;

use flow_core::reason::TraceFault;
use flow_core::{Span, Time};

/// Columns that a trace must have.
pub const COLUMNS: [&str; 4] = ["job_id", "submit_s", "num_gpus", "duration_s"];

/// The longest valid time: thirty thousand years.
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
}

/// A mistake in a trace.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{what}")]
pub struct TraceError {
    /// Where, counted from 1.
    pub line: u64,
    /// The mistake, and what was expected.
    pub what: TraceFault,
    pub help: String,
}

impl TraceError {
    pub(super) fn new(line: u64, what: TraceFault, help: impl Into<String>) -> Self {
        TraceError { line, what, help: help.into() }
    }
}

/// The ids of jobs so far, and the line of each.
#[derive(Default)]
pub(super) struct Ids(BTreeMap<String, u64>);

impl Ids {
    /// The mistake if a job with this id was there before. Jobs without an id are not compared.
    pub(super) fn add(&mut self, id: &str, line: u64) -> Option<TraceError> {
        let first = *self.0.entry(id.to_owned()).or_insert(line);
        let what = || TraceFault::TraceJobTwice { job: id.to_owned(), first };
        (first != line && !id.is_empty()).then(|| TraceError::new(line, what(), "give each job an id of its own"))
    }
}

/// The content of a trace.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Trace {
    /// In order of arrival, those of one instant in the trace's order.
    pub jobs: Vec<Job>,
    /// Jobs that are left out, because the trace says that they never ran.
    pub left_out: usize,
    /// Jobs that have a part of a GPU in the trace, and a whole one here.
    pub rounded: usize,
    /// It is in the Standard Workload Format: its processors are GPUs here.
    pub is_swf: bool,
}

/// Advice on how to write a time.
pub(super) const SECONDS: &str = "write seconds, as 90 or 90.5";

/// Seconds that can be simulated. `text` is the cell that they were read from.
pub(super) fn seconds(seconds: f64, text: &str, column: &str, line: u64) -> Result<Span, TraceError> {
    let (column, own) = (column.to_owned(), text.to_owned());
    let (what, help) = match seconds {
        _ if seconds < 0.0 => {
            (TraceFault::TraceTooEarly { column, text: own }, "shift all times so that the first is 0")
        }
        _ if seconds <= LONGEST => return Ok(Span::from_secs_f64(seconds)),
        _ => (TraceFault::TraceTooLong { column, text: own }, SECONDS),
    };
    Err(TraceError::new(line, what, help))
}
