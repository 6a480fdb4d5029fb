//! Traces of jobs: a text with one job a line becomes tasks that arrive, hold whole GPUs and end. Knows no policy and
//! no file; every mistake is reported with its line.

mod columns;
mod job;
mod swf;
mod table;

use flow_core::reason::TraceFault;
use flow_core::sched::{Estimate, EstimateSource, Task};
use flow_core::{InstanceId, ResourceRequest};

use crate::SimTask;

pub use columns::Columns;
pub use job::{COLUMNS, Job, Trace, TraceError};

/// Reads a trace: the Standard Workload Format, or a table whose first line names the columns, with commas, semicolons or tabs
/// between them. Further columns are ignored.
///
/// # Errors
/// All mistakes, in order of lines.
pub fn read(text: &str, columns: &Columns) -> Result<Trace, Vec<TraceError>> {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    if text.trim().is_empty() {
        return Err(vec![without_jobs()]);
    }
    if text.trim_start().starts_with(['{', '[']) {
        let what = TraceFault::TraceBroken { message: "it is JSON".to_owned() };
        return Err(vec![TraceError::new(1, what, "write a table with column names, then one job per line")]);
    }
    let mut trace = match (swf::is_swf(text), columns.first()) {
        (true, None) => swf::read(text)?,
        (true, Some(name)) => {
            let what = TraceFault::TraceWithoutColumn { name: name.to_owned() };
            let help = "columns of the Standard Workload Format have no names: leave --columns out";
            return Err(vec![TraceError::new(1, what, help)]);
        }
        (false, _) => table::read(text, columns)?,
    };
    if trace.jobs.is_empty() {
        return Err(vec![without_jobs()]);
    }
    trace.jobs.sort_by_key(|job| job.submitted);
    Ok(trace)
}

fn without_jobs() -> TraceError {
    TraceError::new(1, TraceFault::TraceWithoutJobs, "write column names, then one job per line")
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
        SimTask { kind: "the trace".to_owned(), ..SimTask::new(task, job.duration) }
    };
    jobs.iter().enumerate().map(task).collect()
}
