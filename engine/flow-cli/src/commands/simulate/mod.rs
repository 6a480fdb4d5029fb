//! `flow simulate`: policies on a trace, on a workflow, or on generated arrivals. Here: arguments, and what the three share.

mod arrivals;
mod trace;
mod workflow;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::{Args, ValueEnum};
use flow_core::Span;
use flow_core::sched::{Limits, policy};
use flow_report::{Gantt, LANGUAGES, Words};
use flow_sim::Summary;
use flow_sim::trace::TraceError;

use super::Done;
use crate::args::Global;
use crate::error::CliError;
use crate::output::Output;
use crate::words;

/// Arguments of `flow simulate`.
#[derive(Debug, Args)]
#[command(
    group = clap::ArgGroup::new("what").required(true).args(["trace", "workflow", "arrivals"]),
    after_help = "\
Examples:
  flow simulate --trace jobs.csv --gpus 8x8 --policy fifo,fit,easy,sjf
  flow simulate --trace jobs.csv --gpus 16x4 --policy srtf --placement best --json
  flow simulate -w workflows/feb08.yaml --gpus '4 x TITAN Xp, 12196 MiB' --chart schedule.svg
  flow simulate --arrivals poisson --mix mix.csv --gpus 1x4 --density 0.5,0.7,0.9,1.1 --policy fifo,sjf,lyapunov

A trace has a line a job, below one that names the columns: job_id,submit_s,num_gpus,duration_s. A mix has a line a kind
of job: name,duration_s and, if wanted, weight,gpus,spread,cpu_cores,gpu_busy,gpu_memory_gib. A workflow is simulated
with what history knows of its steps. With --json there is one object a policy: policy, jobs, makespan_s,
mean_time_in_system_s, mean_waiting_s, p50_time_in_system_s, p99_time_in_system_s, gpu_utilisation; of arrivals one for
each density and policy, each number with mean and half the width of its 95 % interval."
)]
pub(crate) struct Simulate {
    /// A trace of jobs, as CSV
    #[arg(long, value_name = "FILE")]
    trace: Option<PathBuf>,
    /// A workflow: all its instances, as history expects them
    #[arg(short, long, value_name = "FILE")]
    workflow: Option<PathBuf>,
    /// Jobs of a mix that arrive by chance
    #[arg(long, value_enum, value_name = "HOW", requires = "mix")]
    arrivals: Option<Process>,
    /// The kinds of jobs that arrive, as CSV
    #[arg(long, value_name = "FILE", requires = "arrivals")]
    mix: Option<PathBuf>,
    /// GPU time that arrivals ask for, as a share of what there is; several, separated by commas
    #[arg(long, value_name = "LIST", value_delimiter = ',', default_value = "0.9", requires = "arrivals")]
    density: Vec<f64>,
    /// How many jobs arrive
    #[arg(long, value_name = "N", default_value_t = 300, requires = "arrivals")]
    jobs: usize,
    /// How often arrivals are repeated with other chance
    #[arg(long, value_name = "N", default_value_t = 30, requires = "arrivals")]
    seeds: u64,
    /// Arriving jobs may share GPUs, as if history knew what each kind takes
    #[arg(long, requires = "arrivals")]
    share: bool,
    /// Cores that all share [default: this machine's for a workflow, else the CPU does not count]
    #[arg(long, value_name = "N", conflicts_with = "trace", value_parser = clap::value_parser!(u32).range(1..))]
    cpus: Option<u32>,
    /// The cluster as NODESxGPUS; for a workflow its GPUs, as '4 x TITAN Xp, 12196 MiB' [default: this machine's]
    #[arg(long, value_name = "GPUS", required_unless_present = "workflow")]
    gpus: Option<String>,
    /// Policies, separated by commas [default: fifo,fit,easy,sjf,srtf; a workflow's own]
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    policy: Vec<String>,
    /// Where the GPUs of a trace's job are taken from: only their number counts, the first node that has enough, or the one
    /// that has least to spare
    #[arg(long, value_enum, default_value_t, value_name = "HOW", requires = "trace")]
    placement: Where,
    /// Bound waiting, as live runs do: who is passed over for so many seconds is passed over no more
    #[arg(long, value_name = "SECONDS", conflicts_with = "arrivals", value_parser = clap::value_parser!(u32).range(1..))]
    patience: Option<u32>,
    /// Draw the schedule of the last policy: a lane a GPU, the CPU under them
    #[arg(long, value_name = "FILE.svg", conflicts_with = "arrivals")]
    chart: Option<PathBuf>,
    /// Set a parameter of the workflow: key=value; may be repeated
    #[arg(long, value_name = "KEY=VALUE", requires = "workflow")]
    set: Vec<String>,
    /// One JSON object a policy
    #[arg(long)]
    json: bool,
}

/// Policies that are compared where none is named.
const DEFAULT: [&str; 5] = ["fifo", "fit", "easy", "sjf", "srtf"];

/// `--placement`.
#[derive(Clone, Copy, Debug, Default, ValueEnum)]
enum Where {
    #[default]
    Count,
    First,
    Best,
}

/// `--arrivals`.
#[derive(Clone, Copy, Debug, ValueEnum)]
enum Process {
    /// Independent of each other.
    Poisson,
}

impl Simulate {
    pub(crate) fn execute(self, global: &Global, output: &mut Output) -> Done {
        for name in &self.policy {
            policy::named(name).ok_or_else(|| CliError::usage(policy::unknown(name)))?;
        }
        match (&self.trace, &self.workflow, &self.mix) {
            (Some(file), ..) => trace::simulate(&self, file, global, output)?,
            (_, Some(file), _) => workflow::simulate(&self, file, global, output)?,
            (.., Some(file)) => arrivals::simulate(&self, file, output)?,
            (None, None, None) => {}
        }
        Ok(ExitCode::SUCCESS)
    }

    /// What was asked for, or a choice.
    fn policies(&self, otherwise: &[&str]) -> Vec<String> {
        if self.policy.is_empty() {
            otherwise.iter().map(|name| (*name).to_owned()).collect()
        } else {
            self.policy.clone()
        }
    }

    fn limits(&self) -> Limits {
        let patience = self.patience.map(|seconds| Span::from_millis(u64::from(seconds) * 1_000));
        Limits { patience, ..Limits::simulated() }
    }

    /// Draws the chart, if one was asked for.
    fn draw(&self, gantt: impl FnOnce() -> Gantt, global: &Global, output: &mut Output) -> Result<(), CliError> {
        let Some(file) = &self.chart else { return Ok(()) };
        let lang = global.lang.as_deref().unwrap_or(LANGUAGES[0].0);
        let svg = gantt().svg(&Words::new(), lang);
        std::fs::write(file, svg)
            .map_err(|e| CliError::failed(format!("the chart `{}` cannot be written: {e}", file.display())))?;
        output.note(format!("chart: {}", file.display()))?;
        Ok(())
    }
}

/// Mistakes of a file, if there are any: `FILE:LINE: what`, and the way out of the first.
fn bad(file: &Path, errors: &[TraceError]) -> Result<(), CliError> {
    const SHOWN: usize = 10;
    let Some(first) = errors.first() else { return Ok(()) };
    let mut lines: Vec<String> =
        errors.iter().take(SHOWN).map(|e| format!("{}:{}: {e}", file.display(), e.line)).collect();
    if errors.len() > SHOWN {
        lines.push(format!("and {} more", errors.len() - SHOWN));
    }
    Err(CliError::usage(lines.join("\n       ")).hint(first.help.clone()))
}

fn text(file: &Path) -> Result<String, CliError> {
    /// Millions of jobs.
    const LONGEST: u64 = 256 << 20;
    flow_exec::text::read(file, LONGEST)
        .map_err(|e| CliError::usage(format!("`{}` cannot be read: {e}", file.display())))
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
    words::columns(&rows).into_iter().map(|line| format!("  {line}")).collect()
}
