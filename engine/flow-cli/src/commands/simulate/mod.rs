//! `flow simulate`: policies on a trace, on a workflow, or on generated arrivals. Here: arguments, and what the three share.

mod arrivals;
mod trace;
mod workflow;

use std::collections::BTreeSet;
use std::fmt::Display;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::{Args, ValueEnum};
use flow_core::Span;
use flow_core::reason::BuiltinFault;
use flow_core::sched::{Limits, policy};
use flow_exec::{Qualities, Rules};
use flow_report::{Gantt, LANGUAGES, Words};
use flow_sim::SimError;
use flow_sim::trace::{Columns, TraceError};
use flow_sim::{Cluster, Idle, Met, Simulation, Slurm, Summary};
use flow_slurm::{Partition, Quality};

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
  flow simulate --trace jobs.csv --columns submit_s=arrival,num_gpus=gpus --gpus 16x4
  flow simulate --trace KTH-SP2-1996-2.1-cln.swf --gpus 100x1 --policy fifo,easy
  flow simulate -w workflows/feb08.yaml --gpus '4 x TITAN Xp, 12196 MiB' --chart schedule.svg
  flow simulate --arrivals poisson --mix mix.csv --gpus 1x4 --density 0.5,0.7,0.9,1.1 --policy fifo,sjf,lyapunov

A trace has a line a job, below one that names the columns: job_id,submit_s,num_gpus,duration_s. The Standard Workload
Format and the public traces Philly, Helios, PAI and Tiresias are read as they are; --columns maps other names. A mix has a line a kind
of job: name,duration_s and, if wanted, weight,gpus,spread,cpu_cores,gpu_busy,gpu_memory_gib. A workflow is simulated
with what history knows of its steps. With --json there is one object a policy: policy, jobs, makespan_s,
mean_time_in_system_s, mean_waiting_s, p50_time_in_system_s, p99_time_in_system_s, gpu_utilisation; of arrivals one for
each density and policy, each number with mean and half the width of its 95 % interval.

With --slurm, flow's scheduler says which jobs are submitted, and Slurm gives them the GPUs of the nodes of --gpus: by
the PriorityTier of their partition, by priority, and in order, letting later ones pass that fit meanwhile; GPUs alone
count, and a job has one node. queue: most jobs of flow's in the queue (200); array: MaxArraySize (1001); jobs:
MaxJobCount (10000); remembered_s: MinJobAge (300); delay_s: how long every job waits for those of others, as you measured
it (0); tick_s: jobs start every so many seconds (3); rate: how many Slurm can start a second (40); submit_s: a call of
sbatch (0.01); notice_s: until flow sees an end (1); grace_s: running jobs make room for those of a higher tier, and have
so long for it, GraceTime (none do); checkpoint_s: what made room goes on from a checkpoint as old as that at most, and
with 0 begins anew (0). `cluster` before the others takes array, jobs, remembered_s, grace_s and the tiers of the steps'
partitions from the cluster of this machine. Where qualities of service preempt each other there (preempt/qos), these decide who
makes room instead of tiers: a step has that of its option --qos=NAME, and without one the default of your account. In a trace the columns tier,
priority and qos say what a job has."
)]
pub(crate) struct Simulate {
    /// A trace of jobs, as CSV
    #[arg(long, value_name = "FILE")]
    trace: Option<PathBuf>,
    /// Which columns of the trace are which, as submit_s=submit_time,num_gpus=gpus
    #[arg(long, value_name = "LIST", requires = "trace", value_parser = Columns::parse)]
    columns: Option<Columns>,
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
    /// Jobs go through Slurm, with its limits: default, or queue=500,delay_s=600. Names and what they mean are said below
    #[arg(long = "slurm", value_name = "LIST", conflicts_with_all = ["share", "placement"], value_parser = Asked::parse)]
    asked: Option<Asked>,
    /// The same, with what the cluster of this machine says
    #[arg(skip)]
    slurm: Option<Slurm>,
    /// Who makes room there for whom
    #[arg(skip)]
    rules: Option<Box<Rules>>,
    /// For a workflow on Slurm: how many nodes have the GPUs of --gpus between them [default: 1]
    #[arg(long, value_name = "N", requires = "asked", conflicts_with_all = ["trace", "arrivals"],
        value_parser = clap::value_parser!(u32).range(1..))]
    nodes: Option<u32>,
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

/// `--slurm`.
#[derive(Clone, Debug)]
struct Asked {
    /// The cluster of this machine is to be asked.
    cluster: bool,
    /// What is said beside it.
    text: String,
}

impl Asked {
    fn parse(text: &str) -> Result<Asked, BuiltinFault> {
        let (cluster, text) = match text.strip_prefix("cluster") {
            Some(rest) if rest.is_empty() || rest.starts_with(',') => (true, rest),
            _ => (false, text),
        };
        Slurm::parse(text)?;
        Ok(Asked { cluster, text: text.to_owned() })
    }

    /// What it comes to, and who makes room for whom on the cluster, if that was asked.
    fn ask(&self) -> Result<(Slurm, Option<Box<Rules>>), CliError> {
        let (mut slurm, mut rules) = (Slurm::default(), None);
        if self.cluster {
            let found = flow_exec::rules()?;
            let limits = found.limits;
            let remembered_s = limits.remembered.map_or(FOR_EVER, |span| span.as_secs_f64());
            let longest = match &found.qualities {
                Some(Qualities { all, .. }) => {
                    all.iter().filter(|one| all.iter().any(|by| yields(one, by))).filter_map(|one| one.grace).max()
                }
                None => found.partitions.iter().filter_map(|partition| partition.grace).max(),
            };
            let grace_s = longest.map(|grace| grace.as_secs_f64());
            slurm = Slurm { array: limits.array.max(1), jobs: limits.jobs.max(1), remembered_s, grace_s, ..slurm };
            rules = Some(Box::new(found));
        }
        // It was read before.
        let slurm = slurm.with(&self.text).map_err(|fault| CliError::usage(fault.to_string()))?;
        Ok((slurm, rules))
    }
}

/// The qualities of service of jobs that name none; none where the cluster does not have the one that they would have.
type Given = BTreeSet<Option<String>>;

/// Jobs of a quality of service make room for those of another one.
fn yields(one: &Quality, other: &Quality) -> bool {
    one.grace.is_some() && one.name != other.name && other.preempts.contains(&one.name)
}

/// Longer than any simulation.
const FOR_EVER: f64 = 1e7;

/// `--arrivals`.
#[derive(Clone, Copy, Debug, ValueEnum)]
enum Process {
    /// Independent of each other.
    Poisson,
}

impl Simulate {
    pub(crate) fn execute(mut self, global: &Global, output: &mut Output) -> Done {
        if let Some((slurm, rules)) = self.asked.as_ref().map(Asked::ask).transpose()? {
            (self.slurm, self.rules) = (Some(slurm), rules);
        }
        for name in &self.policy {
            policy::named(name).ok_or_else(|| CliError::usage(policy::unknown(name).to_string()))?;
        }
        match (&self.trace, &self.workflow, &self.mix) {
            (Some(file), ..) => trace::simulate(&self, file, global, output)?,
            (_, Some(file), _) => workflow::simulate(&self, file, global, output)?,
            (.., Some(file)) => arrivals::simulate(&self, file, output)?,
            (None, None, None) => {}
        }
        Ok(ExitCode::SUCCESS)
    }

    /// What was asked for, or a choice: on Slurm of those that can be there.
    fn policies(&self, otherwise: &[&str]) -> Vec<String> {
        if self.policy.is_empty() {
            let can_be = |name: &&&str| !(self.slurm.is_some() && policy::named(name).is_some_and(|p| p.preemptive()));
            otherwise.iter().filter(can_be).map(|name| (*name).to_owned()).collect()
        } else {
            self.policy.clone()
        }
    }

    fn limits(&self) -> Limits {
        let patience = self.patience.map(|seconds| Span::from_millis(u64::from(seconds) * 1_000));
        Limits { patience, ..Limits::simulated() }
    }

    /// The tier of the partition of this name, or of the one that jobs come to which name none.
    fn tier(&self, partition: Option<&str>) -> u32 {
        let here = |one: &&Partition| partition.map_or(one.is_default, |name| name.split(',').any(|n| n == one.name));
        self.rules.iter().flat_map(|rules| &rules.partitions).filter(here).map(|one| one.tier).max().unwrap_or(1)
    }

    fn qualities(&self) -> Option<&Qualities> {
        self.rules.as_ref()?.qualities.as_ref()
    }

    /// The number of the quality of service of this name, which a job at this place has; without a name, of the one that this user's jobs
    /// have then, for an account and in a partition, which is added to those that were `given`.
    fn quality(
        &self,
        name: Option<&str>,
        (account, partition): (Option<&str>, Option<&str>),
        place: impl Display,
        given: &mut Given,
    ) -> Result<u32, CliError> {
        let Some(Qualities { all, defaults }) = self.qualities() else { return Ok(0) };
        let has = name.unwrap_or_else(|| defaults.quality(account, partition));
        let at = all.iter().position(|one| one.name == has);
        if name.is_none() {
            given.insert(at.map(|_| has.to_owned()));
        }
        match (at, name) {
            (Some(at), _) => Ok(at as u32),
            // It takes nobody's place, and nobody takes its.
            (None, None) => Ok(all.len() as u32),
            (None, Some(name)) => {
                let there: Vec<&str> = all.iter().map(|one| &*one.name).collect();
                let there = there.join(", ");
                Err(CliError::usage(format!("{place}: Slurm has no quality of service `{name}`; it has {there}")))
            }
        }
    }

    /// Sends the jobs through Slurm, if that was asked for.
    fn on_slurm<'a>(&self, simulation: Simulation<'a>, cluster: Cluster) -> Result<Simulation<'a>, SimError> {
        match self.slurm {
            Some(slurm) => {
                let simulation = simulation.on_slurm(slurm, cluster)?;
                Ok(match self.qualities() {
                    Some(Qualities { all, .. }) => {
                        simulation.by_quality(all.iter().map(|by| numbers(all, by)).collect())
                    }
                    None => simulation,
                })
            }
            None => Ok(simulation),
        }
    }

    /// What the jobs of each policy met there, of which those that name no quality of service were `given` these.
    fn said_of_slurm(&self, summaries: &[Summary], given: &Given) -> Vec<String> {
        let met = || summaries.iter().filter_map(|summary| Some((&*summary.policy, summary.slurm.as_ref()?)));
        let mut lines = self.slurm.map_or_else(Vec::new, |slurm| self::met(slurm, met()));
        lines.extend(self.qualities().map(|qualities| by_quality(qualities, given)));
        lines
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
    // One hint for all, or one for each.
    let each = errors.iter().any(|e| e.help != first.help);
    let line = |e: &TraceError| {
        let help = if each { format!("; {}", e.help) } else { String::new() };
        format!("{}:{}: {e}{help}", file.display(), e.line)
    };
    let mut lines: Vec<String> = errors.iter().take(SHOWN).map(line).collect();
    if errors.len() > SHOWN {
        lines.push(format!("and {} more", errors.len() - SHOWN));
    }
    let wrong = CliError::usage(lines.join("\n       "));
    Err(if each { wrong } else { wrong.hint(first.help.clone()) })
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

/// The numbers of those whose jobs make room for another one's.
fn numbers(all: &[Quality], by: &Quality) -> BTreeSet<u32> {
    (0..).zip(all).filter(|(_, one)| yields(one, by)).map(|(at, _)| at).collect()
}

/// Whose jobs take whose place, as the cluster says.
fn by_quality(Qualities { all, .. }: &Qualities, given: &Given) -> String {
    let takes = |by: &Quality| {
        let lower: Vec<&str> = all.iter().filter(|one| yields(one, by)).map(|one| &*one.name).collect();
        (!lower.is_empty()).then(|| format!("{} takes the place of {}", by.name, lower.join(", ")))
    };
    let said: Vec<String> = all.iter().filter_map(takes).collect();
    let said = if said.is_empty() { "none takes the place of another".to_owned() } else { said.join("; ") };
    let none = given.contains(&None).then(|| "none".to_owned());
    let given: Vec<String> = given.iter().flatten().map(|name| format!("`{name}`")).chain(none).collect();
    let given = match &given[..] {
        [] => String::new(),
        [one] => format!("; a job that names none has {one}"),
        many => format!("; a job that names none has, by its account and partition, {}", many.join(" or ")),
    };
    format!("by quality of service, as the cluster says: {said}{given}")
}

/// What jobs met on Slurm, below the table.
fn met<'a>(slurm: Slurm, met: impl IntoIterator<Item = (&'a str, &'a Met)>) -> Vec<String> {
    let mut lines = Vec::new();
    for (policy, met) in met {
        let calls = words::count(met.calls as usize, "call");
        let most = words::thousands(met.most_in_queue);
        let wait = words::duration(met.mean_wait_s);
        lines.push(format!(
            "{policy}: {calls} of sbatch, at most {most} jobs in the queue; each waited there {wait} on average{}",
            match met.preempted {
                0 => String::new(),
                some => format!("; {} had to make room for another job", words::thousands(some as usize)),
            }
        ));
        let mut idle: Vec<(&Idle, &f64)> = met.idle.iter().filter(|(_, share)| **share >= 0.0005).collect();
        idle.sort_by(|a, b| b.1.total_cmp(a.1));
        for (why, share) in idle {
            lines.push(format!("  GPUs idle for {:.1} %: {}", share * 100.0, idle_words(*why)));
        }
    }
    let Slurm { queue, array, jobs, remembered_s, delay_s, tick_s, rate, submit_s, notice_s, grace_s, checkpoint_s } =
        slurm;
    let preempts = grace_s.map(|grace_s| format!(",grace_s={grace_s},checkpoint_s={checkpoint_s}")).unwrap_or_default();
    lines.push(format!(
        "assumed, not measured: queue={queue},array={array},jobs={jobs},remembered_s={remembered_s},delay_s={delay_s},\
         tick_s={tick_s},rate={rate},submit_s={submit_s},notice_s={notice_s}{preempts}"
    ));
    lines
}

fn idle_words(why: Idle) -> &'static str {
    match why {
        Idle::NoWork => "nothing was left to do, or nothing could be done yet",
        Idle::Tick => "jobs waited for Slurm's next turn (tick_s, rate)",
        Idle::Queue => "flow had as many jobs in the queue as it may (queue)",
        Idle::Jobs => "the controller took no more jobs, for it still knew those that had ended (jobs, remembered_s)",
        Idle::Delay => "jobs waited for those of others (delay_s)",
        Idle::Submit => "jobs were being submitted (submit_s)",
        Idle::Fit => "no node had as many free GPUs as a job wanted",
        Idle::Preempt => "they were kept for a job for which others of their node made room (grace_s)",
    }
}
