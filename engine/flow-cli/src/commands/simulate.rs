//! `flow simulate`.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::{Args, ValueEnum};
use flow_core::Span;
use flow_core::sched::{Limits, policy};
use flow_sim::{Cluster, Placement, SimTask, Summary, trace};

use super::Done;
use crate::error::CliError;
use crate::output::{Output, STRONG, styled};
use crate::words;

/// Arguments of `flow simulate`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  flow simulate --trace jobs.csv --gpus 8x8 --policy fifo,fit,easy,sjf
  flow simulate --trace jobs.csv --gpus 16x4 --policy srtf --placement best --json

A trace has a line a job, below one that names the columns: job_id,submit_s,num_gpus,duration_s. With --json there is
one object a policy: policy, jobs, makespan_s, mean_time_in_system_s, mean_waiting_s, p50_time_in_system_s,
p99_time_in_system_s, gpu_utilisation.")]
pub(crate) struct Simulate {
    /// A trace of jobs, as CSV
    #[arg(long, value_name = "FILE")]
    trace: PathBuf,
    /// The cluster, as NODESxGPUS
    #[arg(long, value_name = "NODESxGPUS")]
    gpus: String,
    /// Policies, separated by commas
    #[arg(long, value_name = "LIST", value_delimiter = ',', default_value = "fifo,fit,easy,sjf,srtf")]
    policy: Vec<String>,
    /// Where a job's GPUs are taken from: only their number counts, the first node that has enough, or the one that has
    /// least to spare
    #[arg(long, value_enum, default_value_t, value_name = "HOW")]
    placement: Where,
    /// Bound waiting, as live runs do: who is passed over for so many seconds is passed over no more
    #[arg(long, value_name = "SECONDS", value_parser = clap::value_parser!(u32).range(1..))]
    patience: Option<u32>,
    /// One JSON object a policy
    #[arg(long)]
    json: bool,
}

/// `--placement`.
#[derive(Clone, Copy, Debug, Default, ValueEnum)]
enum Where {
    #[default]
    Count,
    First,
    Best,
}

impl Simulate {
    pub(crate) fn execute(self, output: &mut Output) -> Done {
        let cluster = Cluster::parse(&self.gpus).map_err(CliError::usage)?;
        for name in &self.policy {
            policy::named(name).ok_or_else(|| CliError::usage(policy::unknown(name)))?;
        }
        let (jobs, tasks) = read(&self.trace)?;
        let placement = match self.placement {
            Where::Count => Placement::Count,
            Where::First => Placement::First,
            Where::Best => Placement::Best,
        };
        let patience = self.patience.map(|seconds| Span::from_millis(u64::from(seconds) * 1_000));
        let limits = Limits { patience, placer: cluster.placer(placement), ..Limits::simulated() };
        let mut summaries = Vec::new();
        for name in &self.policy {
            let Some(policy) = policy::named(name) else { continue };
            let one_gpu_only = policy.one_gpu_only().then_some(&**name);
            bad(&self.trace, &trace::too_wide(&jobs, cluster.total(), one_gpu_only))?;
            let schedule = flow_sim::simulate(tasks.clone(), cluster.capacity(), policy, limits.clone())
                .map_err(|e| CliError::failed(format!("policy `{name}`: {e}")))?;
            let summary = Summary::of(name, &tasks, &schedule, cluster.total());
            if self.json {
                output.json(&summary)?;
            }
            summaries.push(summary);
        }
        if !self.json {
            let what = words::count(jobs.len(), "job");
            let on = words::count(cluster.total() as usize, "GPU");
            output.line(format!("{} on {on}: {}", styled(STRONG, what), self.trace.display()))?;
            for line in table(&summaries) {
                output.line(format!("  {line}"))?;
            }
        }
        Ok(ExitCode::SUCCESS)
    }
}

/// The jobs of a trace, and the tasks that they are.
fn read(file: &Path) -> Result<(Vec<trace::Job>, Vec<SimTask>), CliError> {
    let text = std::fs::read_to_string(file)
        .map_err(|e| CliError::usage(format!("the trace `{}` cannot be read: {e}", file.display())))?;
    match trace::jobs(&text) {
        Ok(jobs) => {
            let tasks = trace::tasks(&jobs);
            Ok((jobs, tasks))
        }
        Err(errors) => bad(file, &errors).map(|()| (Vec::new(), Vec::new())),
    }
}

/// Mistakes of a trace, if there are any: `FILE:LINE: what`, and the way out of the first.
fn bad(file: &Path, errors: &[trace::TraceError]) -> Result<(), CliError> {
    const SHOWN: usize = 10;
    let Some(first) = errors.first() else { return Ok(()) };
    let mut lines: Vec<String> =
        errors.iter().take(SHOWN).map(|e| format!("{}:{}: {e}", file.display(), e.line)).collect();
    if errors.len() > SHOWN {
        lines.push(format!("and {} more", errors.len() - SHOWN));
    }
    Err(CliError::usage(lines.join("\n       ")).hint(first.help.clone()))
}

/// A row a policy, times as people read them.
fn table(summaries: &[Summary]) -> Vec<String> {
    let head = ["policy", "total time", "in system: mean", "median", "99 %", "waiting: mean", "GPUs held"];
    let mut rows = vec![head.map(str::to_owned).to_vec()];
    rows.extend(summaries.iter().map(|s| {
        vec![
            s.policy.clone(),
            words::duration(s.makespan_s),
            words::duration(s.mean_time_in_system_s),
            words::duration(s.p50_time_in_system_s),
            words::duration(s.p99_time_in_system_s),
            words::duration(s.mean_waiting_s),
            format!("{:.1} %", s.gpu_utilisation * 100.0),
        ]
    }));
    words::columns(&rows)
}
