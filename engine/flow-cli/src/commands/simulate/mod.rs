//! `flow simulate`: policies on a trace or a workflow. This file has the arguments and the shared parts.

mod trace;
mod workflow;

use std::path::{Path, PathBuf};

use clap::Args;
use flow_core::Span;
use flow_core::reason::BuiltinFault;
use flow_core::sched::{Limits, policy, policy::Policy};
use flow_exec::Rules;
use flow_report::{Gantt, LANGUAGES, Words};
use flow_sim::trace::{Columns, TraceError};
use flow_sim::{Cluster, Idle, QueueStats, Schedule, SimError, SimTask, Simulation, Slurm, Summary};

use super::CommandResult;
use crate::args::Global;
use crate::error::CliError;
use crate::output::Output;
use crate::words;

/// Arguments of `flow simulate`.
#[derive(Debug, Args)]
#[command(
    group = clap::ArgGroup::new("what").required(true).args(["trace", "workflow"]),
    after_help = "\
Examples:
  flow simulate --trace jobs.csv --gpus 8x8 --policy fifo,fit,easy,sjf
  flow simulate --trace jobs.csv --gpus 16x4 --policy srtf --json
  flow simulate --trace jobs.csv --columns submit_s=arrival,num_gpus=gpus --gpus 16x4
  flow simulate --trace KTH-SP2-1996-2.1-cln.swf --gpus 100x1 --policy fifo,easy
  flow simulate -w workflows/feb08.yaml --gpus '4 x TITAN Xp, 12196 MiB' --chart schedule.svg

A trace has a header, then one line per job: job_id,submit_s,num_gpus,duration_s. flow also reads the Standard Workload \
Format and the public traces Philly, Helios, PAI and Tiresias; --columns maps other names. A workflow is simulated with \
the times of its earlier runs. --json prints one object per policy: policy, jobs, makespan_s, mean_time_in_system_s, \
mean_waiting_s, p50_time_in_system_s, p99_time_in_system_s, gpu_utilisation. A step with `uses: flow/simulate` simulates \
random arrivals.

With --slurm, flow's scheduler decides which jobs to submit, and Slurm gives them the GPUs of the nodes in --gpus. Slurm \
orders them by priority, then by submission; a job that fits may pass one that does not. Nothing preempts a job. Only GPUs \
count, and a job has one node. The settings of --slurm, with their defaults:
  queue           most jobs of flow in the queue (200)
  array           MaxArraySize (1001)
  jobs            MaxJobCount (10000)
  remembered_s    MinJobAge (300)
  delay_s         wait of every job for jobs of other users, as you measured it (0)
  tick_s          interval at which jobs start (3)
  rate            most jobs that Slurm starts per second (40)
  submit_s        duration of a call of sbatch (0.01)
  notice_s        delay until flow sees the end of a job (1)
  cluster         first: take array, jobs and remembered_s from this machine's cluster"
)]
pub(crate) struct Simulate {
    /// A trace of jobs, as CSV
    #[arg(long, value_name = "FILE")]
    trace: Option<PathBuf>,
    /// Names of the trace's columns, as submit_s=submit_time,num_gpus=gpus
    #[arg(long, value_name = "LIST", requires = "trace", value_parser = Columns::parse)]
    columns: Option<Columns>,
    /// A workflow: all its instances, with the times of earlier runs
    #[arg(short, long, value_name = "FILE")]
    workflow: Option<PathBuf>,
    /// Cores shared by all jobs [default: this machine's]
    #[arg(long, value_name = "N", conflicts_with = "trace", value_parser = clap::value_parser!(u32).range(1..))]
    cpus: Option<u32>,
    /// The cluster as NODESxGPUS; for a workflow its GPUs, as '4 x TITAN Xp, 12196 MiB' [default: this machine's]
    #[arg(long, value_name = "GPUS", required_unless_present = "workflow")]
    gpus: Option<String>,
    /// Policies, separated by commas [default: fifo,fit,easy,sjf,srtf; a workflow's own]
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    policy: Vec<String>,
    /// Limit waiting, as in real runs: a job that others have passed for this many seconds goes
    /// next
    #[arg(long, value_name = "SECONDS", value_parser = clap::value_parser!(u32).range(1..))]
    patience: Option<u32>,
    /// Send jobs through Slurm, with its limits: default, or queue=500,delay_s=600. The settings
    /// are listed below
    #[arg(long = "slurm", value_name = "LIST", value_parser = SlurmOption::parse)]
    requested: Option<SlurmOption>,
    /// The same, with the settings of this machine's cluster
    #[arg(skip)]
    slurm: Option<Slurm>,
    /// The partitions of that cluster
    #[arg(skip)]
    partitions: Option<Vec<String>>,
    /// For a workflow on Slurm: the number of nodes that share the GPUs of --gpus [default: 1]
    #[arg(long, value_name = "N", requires = "requested", conflicts_with = "trace",
        value_parser = clap::value_parser!(u32).range(1..))]
    nodes: Option<u32>,
    /// Draw the schedule of the last policy: a lane per GPU, with the CPU below
    #[arg(long, value_name = "FILE.svg")]
    chart: Option<PathBuf>,
    /// Set a parameter of the workflow: key=value; may be repeated
    #[arg(long, value_name = "KEY=VALUE", requires = "workflow")]
    set: Vec<String>,
    /// One JSON object per policy
    #[arg(long)]
    json: bool,
}

/// The default policies.
const DEFAULT: [&str; 5] = ["fifo", "fit", "easy", "sjf", "srtf"];

/// `--slurm`.
#[derive(Clone, Debug)]
struct SlurmOption {
    /// Whether to use the settings of this machine's cluster.
    cluster: bool,
    /// The other settings.
    text: String,
}

impl SlurmOption {
    fn parse(text: &str) -> Result<SlurmOption, BuiltinFault> {
        let (cluster, text) = match text.strip_prefix("cluster") {
            Some(rest) if rest.is_empty() || rest.starts_with(',') => (true, rest),
            _ => (false, text),
        };
        Slurm::default().with(text)?;
        Ok(SlurmOption { cluster, text: text.to_owned() })
    }

    /// The settings, and the partitions if the cluster was queried.
    fn settings(&self) -> Result<(Slurm, Option<Vec<String>>), CliError> {
        let (mut slurm, mut partitions) = (Slurm::default(), None);
        if self.cluster {
            let Rules { limits, partitions: there } = flow_exec::rules()?;
            let remembered_s = limits.remembered.map_or(FOR_EVER, |span| span.as_secs_f64());
            slurm = Slurm { array: limits.array.max(1), jobs: limits.jobs.max(1), remembered_s, ..slurm };
            partitions = Some(there);
        }
        // The cluster was read earlier.
        let slurm = slurm.with(&self.text).map_err(|fault| CliError::usage(fault.to_string()))?;
        Ok((slurm, partitions))
    }
}

/// Longer than any simulation.
const FOR_EVER: f64 = 1e7;

impl Simulate {
    pub(crate) fn execute(mut self, global: &Global, output: &mut Output) -> CommandResult {
        if let Some((slurm, partitions)) = self.requested.as_ref().map(SlurmOption::settings).transpose()? {
            (self.slurm, self.partitions) = (Some(slurm), partitions);
        }
        for name in &self.policy {
            policy::named(name).ok_or_else(|| CliError::usage(policy::unknown(name).to_string()))?;
        }
        match (&self.trace, &self.workflow) {
            (Some(file), _) => trace::simulate(&self, file, global, output),
            (_, Some(file)) => workflow::simulate(&self, file, global, output),
            (None, None) => Ok(()),
        }
    }

    /// The requested policies, else a choice; with Slurm, only those that work there.
    fn policies(&self, otherwise: &[&str]) -> Vec<String> {
        if self.policy.is_empty() {
            let can_be = |name: &&&str| !(self.slurm.is_some() && policy::named(name).is_some_and(|p| p.preemptive()));
            otherwise.iter().filter(can_be).map(|name| (*name).to_owned()).collect()
        } else {
            self.policy.clone()
        }
    }

    /// Simulates each policy and prints its figures, for people below a heading. Returns the last schedule.
    fn each_policy(
        &self,
        otherwise: &[&str],
        (tasks, gpus): (&[SimTask], u32),
        heading: String,
        output: &mut Output,
        simulated: impl Fn(&str, Box<dyn Policy>) -> Result<Result<Schedule, SimError>, CliError>,
    ) -> Result<Schedule, CliError> {
        let (mut summaries, mut last) = (Vec::new(), Schedule::default());
        for name in self.policies(otherwise) {
            let Some(policy) = policy::named(&name) else { continue };
            let schedule = simulated(&name, policy)?;
            last = schedule.map_err(|e| CliError::failed(format!("policy `{name}`: {e}")))?;
            let summary = Summary::of(&name, tasks, &last, gpus);
            if self.json {
                output.json(&summary)?;
            }
            summaries.push(summary);
        }
        if !self.json {
            output.line(heading)?;
            output.lines(table(&summaries))?;
            let in_slurm = summaries.iter().filter_map(|summary| Some((&*summary.policy, summary.slurm.as_ref()?)));
            output.lines(self.slurm.map_or_else(Vec::new, |slurm| met(slurm, in_slurm)))?;
        }
        Ok(last)
    }

    fn limits(&self) -> Limits {
        let patience = self.patience.map(|seconds| Span::from_millis(u64::from(seconds) * 1_000));
        Limits { patience, ..Limits::simulated() }
    }

    /// Sends the jobs through Slurm, if requested.
    fn on_slurm(&self, simulation: Simulation, cluster: Cluster) -> Result<Simulation, SimError> {
        match self.slurm {
            Some(slurm) => simulation.on_slurm(slurm, cluster),
            None => Ok(simulation),
        }
    }

    /// Draws the chart, if requested.
    fn draw(&self, gantt: impl FnOnce() -> Gantt, global: &Global, output: &mut Output) -> Result<(), CliError> {
        let Some(file) = &self.chart else { return Ok(()) };
        let lang = global.lang.as_deref().unwrap_or(LANGUAGES[0].0);
        let svg = gantt().svg(&Words::new(), lang);
        std::fs::write(file, svg)
            .map_err(|e| CliError::failed(format!("the chart `{}` cannot be written: {e}", file.display())))?;
        Ok(output.note(format!("chart: {}", file.display()))?)
    }
}

/// The mistakes of a file: `FILE:LINE: mistake`, and the advice for the first.
fn bad(file: &Path, errors: &[TraceError]) -> Result<(), CliError> {
    const SHOWN: usize = 10;
    let Some(first) = errors.first() else { return Ok(()) };
    // One hint for all, or one for each.
    let each = errors.iter().any(|e| e.help != first.help);
    let line = |e: &TraceError| {
        let help = if each { format!("; {}", e.help) } else { String::new() };
        format!("{}:{}: {e}{help}", file.display(), e.line)
    };
    let lines = words::cut(errors.iter().map(line), SHOWN, |more| format!("and {more} more"));
    let wrong = CliError::usage(lines.join("\n       "));
    Err(if each { wrong } else { wrong.hint(first.help.clone()) })
}

fn text(file: &Path) -> Result<String, CliError> {
    /// Millions of jobs.
    const LONGEST: u64 = 256 << 20;
    flow_exec::text::read(file, LONGEST)
        .map_err(|e| CliError::usage(format!("`{}` cannot be read: {e}", file.display())))
}

/// A row per policy, with readable times.
fn table(summaries: &[Summary]) -> Vec<String> {
    let head = ["policy", "makespan", "mean JCT", "median JCT", "P99 JCT", "mean waiting", "GPU allocation"];
    let mut rows = vec![head.map(str::to_owned).to_vec()];
    rows.extend(summaries.iter().map(|s| {
        vec![
            s.policy.clone(),
            words::duration(s.makespan_s),
            words::duration(s.mean_time_in_system_s),
            words::duration(s.p50_time_in_system_s),
            words::duration(s.p99_time_in_system_s),
            words::duration(s.mean_waiting_s),
            format!("{:.1}%", s.gpu_utilisation * 100.0),
        ]
    }));
    words::columns(&rows).into_iter().map(|line| format!("  {line}")).collect()
}

/// Slurm's figures, below the table.
fn met<'a>(slurm: Slurm, met: impl IntoIterator<Item = (&'a str, &'a QueueStats)>) -> Vec<String> {
    let mut lines = Vec::new();
    for (policy, met) in met {
        let calls = words::count(met.calls as usize, "call");
        let most = words::thousands(met.most_in_queue);
        let wait = words::duration(met.mean_wait_s);
        lines.push(format!(
            "{policy}: {calls} of sbatch, at most {most} jobs in the queue; each waited there {wait} on average"
        ));
        let mut idle: Vec<(&Idle, &f64)> = met.idle.iter().filter(|(_, share)| **share >= 0.0005).collect();
        idle.sort_by(|a, b| b.1.total_cmp(a.1));
        for (why, share) in idle {
            lines.push(format!("  GPUs idle for {:.1}%: {}", share * 100.0, idle_words(*why)));
        }
    }
    let Slurm { queue, array, jobs, remembered_s, delay_s, tick_s, rate, submit_s, notice_s } = slurm;
    lines.push(format!(
        "assumed, not measured: queue={queue},array={array},jobs={jobs},remembered_s={remembered_s},delay_s={delay_s},\
         tick_s={tick_s},rate={rate},submit_s={submit_s},notice_s={notice_s}"
    ));
    lines
}

fn idle_words(why: Idle) -> &'static str {
    match why {
        Idle::NoWork => "no job was left, or no job was ready",
        Idle::Tick => "jobs waited for Slurm's next cycle (tick_s, rate)",
        Idle::Queue => "flow's limit of jobs in the queue was reached (queue)",
        Idle::Jobs => {
            "the controller accepted no more jobs, because it still remembered ended ones (jobs, remembered_s)"
        }
        Idle::Delay => "jobs waited for jobs of other users (delay_s)",
        Idle::Submit => "jobs were being submitted (submit_s)",
        Idle::Fit => "no node had enough free GPUs for a job",
    }
}
