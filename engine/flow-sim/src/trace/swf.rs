//! The Standard Workload Format of the Parallel Workloads Archive: a job a line in 18 numbers, of which -1 is unknown, and
//! comments behind `;`. Processors count as GPUs.

use flow_core::Time;
use flow_core::reason::TraceFault;

use super::job::{Ids, Job, Trace, TraceError, seconds};

const FIELDS: usize = 18;

/// Numbers of the fields that are read, counted from 0.
const JOB: usize = 0;
const SUBMITTED: usize = 1;
const RUN_TIME: usize = 3;
const ALLOCATED: usize = 4;
const REQUESTED: usize = 7;
const STATUS: usize = 10;

/// A trace is in this format: it begins with a comment, or with 18 numbers that no comma separates.
pub(super) fn is_swf(text: &str) -> bool {
    let first = text.lines().map(str::trim).find(|line| !line.is_empty()).unwrap_or_default();
    let numbers = || first.split_whitespace().all(|field| field.parse::<f64>().is_ok());
    first.starts_with(';') || !first.contains(',') && first.split_whitespace().count() == FIELDS && numbers()
}

/// Jobs in the order of the text.
pub(super) fn read(text: &str) -> Result<Trace, Vec<TraceError>> {
    let (mut trace, mut errors) = (Trace { is_swf: true, ..Trace::default() }, Vec::new());
    let mut ids = Ids::default();
    for (line, row) in (1..).zip(text.lines().map(str::trim)) {
        if row.is_empty() || row.starts_with(';') {
            continue;
        }
        let fields: Vec<&str> = row.split_whitespace().collect();
        if fields.len() != FIELDS {
            let what = TraceFault::TraceSwfFields { fields: fields.len() as u64 };
            errors.push(TraceError::new(line, what, "write -1 for unknown values"));
            continue;
        }
        match job(&fields, line) {
            Ok(Row::PartOfJob) => continue,
            Ok(Row::Job(job)) => trace.jobs.push(job),
            Ok(Row::NeverRan) => trace.left_out += 1,
            Err(wrong) => errors.extend(wrong),
        }
        errors.extend(ids.add(fields[JOB], line));
    }
    if errors.is_empty() { Ok(trace) } else { Err(errors) }
}

enum Row {
    Job(Job),
    /// It was cancelled before it began, or nothing is known of how it ran.
    NeverRan,
    /// A job that was interrupted has a line that tells of all of it, and one for each part.
    PartOfJob,
}

fn job(fields: &[&str], line: u64) -> Result<Row, Vec<TraceError>> {
    let number = |field: usize, name: &str| {
        let text = fields[field];
        text.parse::<f64>().ok().filter(|number| number.is_finite()).ok_or_else(|| {
            let column = format!("{name} (field {})", field + 1);
            let what = TraceFault::TraceNoSeconds { column, text: text.to_owned() };
            TraceError::new(line, what, "write a number, or -1 for unknown values")
        })
    };
    let read = [
        number(SUBMITTED, "the submit time"),
        number(RUN_TIME, "the run time"),
        number(ALLOCATED, "the number of allocated processors"),
        number(REQUESTED, "the number of requested processors"),
        number(STATUS, "the status"),
    ];
    let [Ok(submitted), Ok(duration), Ok(allocated), Ok(requested), Ok(status)] = read else {
        return Err(read.into_iter().filter_map(Result::err).collect());
    };
    if [2.0, 3.0, 4.0].contains(&status) {
        return Ok(Row::PartOfJob);
    }
    let processors = if allocated > 0.0 { allocated } else { requested };
    if duration < 0.0 || processors < 1.0 {
        return Ok(Row::NeverRan);
    }
    let (start, duration) = (
        seconds(submitted, fields[SUBMITTED], "the submit time (field 2)", line),
        seconds(duration, fields[RUN_TIME], "the run time (field 4)", line),
    );
    match (start, duration) {
        (Ok(start), Ok(duration)) => Ok(Row::Job(Job {
            id: fields[JOB].to_owned(),
            line,
            submitted: Time(0) + start,
            gpus: processors as u32,
            duration,
            priority: 0,
        })),
        (start, duration) => Err([start.err(), duration.err()].into_iter().flatten().collect()),
    }
}
