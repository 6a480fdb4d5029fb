//! `flow queue`: all runs of this machine, of any store, in the order in which they are served.

use clap::Args;
use flow_core::sched::{MachineShare, QueuePosition};
use flow_exec::ExecError;
use flow_runs::ProcessIdentity;
use flow_supervisor::{
    clock,
    hardware::ledger::{self, FollowingGang, Jobs},
};
use serde::Serialize;

use super::CommandResult;
use crate::{
    error::CliError,
    output::{FAINT, GOOD, NOTE, Output, STRONG, styled},
    words,
};

/// Arguments of `flow queue`.
#[derive(Debug, Args)]
#[command(after_help = "\
All runs of a machine share its CPUs, memory and GPUs, whatever their stores and users. An exclusive step waits until all \
others have ended, and others wait for it. Higher priority goes first, then the longest wait. The runs find each other \
through a file, /tmp/flow-machine.ledger; FLOW_GPU_LOCKS selects another folder for it, for containers that share a \
machine but not /tmp. Every user of the machine can see this list.

Examples:
  flow queue                             who runs what, and what waits, in order
  flow queue --json                      the same for scripts, one line per run")]
pub(crate) struct Queue {
    /// One JSON object per run
    #[arg(long)]
    json: bool,
}

/// A run of this machine.
#[derive(Debug, Serialize)]
struct QueuedRun {
    run: String,
    person: String,
    workflow: String,
    pid: u32,
    /// Advice if it was stopped, as by Ctrl-Z.
    #[serde(skip_serializing_if = "Option::is_none")]
    stopped: Option<String>,
    holds: MachineShare,
    #[serde(skip_serializing_if = "Option::is_none")]
    waits: Option<Waits>,
    /// Work that another run of its store does for both.
    #[serde(skip_serializing_if = "Option::is_none")]
    follows: Option<FollowingGang>,
    /// Its steps that are jobs in Slurm and hold nothing of this machine.
    #[serde(skip_serializing_if = "Jobs::is_none")]
    jobs: Jobs,
}

/// Its work that waits for others.
#[derive(Debug, Serialize)]
struct Waits {
    label: String,
    since: u64,
    priority: i64,
    request: MachineShare,
    #[serde(skip)]
    turn: QueuePosition,
}

impl Queue {
    pub(crate) fn execute(self, output: &mut Output) -> CommandResult {
        let seen = ledger::look_at_machine().map_err(|e| CliError::from(ExecError::Usage(e)))?;
        let now = clock::unix_millis();
        let lines = lines(&seen, stopped);
        if self.json {
            return Ok(lines.iter().try_for_each(|line| output.json(line))?);
        }
        output.lines(render(&lines, now))?;
        if !seen.nonsense.is_empty() {
            let runs = words::count(seen.nonsense.len(), "run");
            output.line(format!("{runs} more with data that this flow cannot read: another version?"))?;
        }
        Ok(())
    }
}

/// What to do about a stopped run.
fn stopped(run: &ledger::Slot) -> Option<String> {
    ProcessIdentity::of(run.pid).filter(|process| process.started == run.process_start)?.stopped()
}

/// What runs first, then what waits, in the order in which it is served.
fn lines(seen: &ledger::LedgerView, stopped: impl Fn(&ledger::Slot) -> Option<String>) -> Vec<QueuedRun> {
    let line = |(slot, run): &(u32, ledger::Slot)| QueuedRun {
        run: run.run.clone(),
        person: run.person.clone(),
        workflow: run.workflow.clone(),
        pid: run.pid,
        holds: run.holds,
        stopped: stopped(run),
        waits: run.waits.as_ref().map(|waits| Waits {
            label: waits.label.clone(),
            since: waits.since,
            priority: waits.priority,
            request: waits.request,
            turn: QueuePosition::new(waits.priority, waits.since, *slot),
        }),
        follows: run.follows.clone(),
        jobs: run.jobs,
    };
    let mut lines: Vec<QueuedRun> = seen.runs.iter().map(line).collect();
    // A run that holds something and waits for more has its place by what it waits for; what only follows another is served with that.
    let only_follows = |line: &QueuedRun| line.follows.is_some() && line.holds.attempts == 0 && line.waits.is_none();
    lines.sort_by_key(|line| (only_follows(line), line.waits.as_ref().map(|waits| waits.turn), line.run.clone()));
    lines
}

fn render(lines: &[QueuedRun], now: u64) -> Vec<String> {
    if lines.is_empty() {
        return vec!["nothing is running or queued on this machine".to_owned()];
    }
    let elsewhere = lines.iter().any(|line| !line.jobs.is_none());
    let heads = ["run", "of", "workflow", "in Slurm", "runs", "waits", "for", "since"];
    let heads = heads.into_iter().filter(|head| elsewhere || *head != "in Slurm");
    let mut rows = vec![heads.map(|head| styled(STRONG, head)).collect()];
    for line in lines {
        let mut row = vec![line.run.clone(), line.person.clone(), line.workflow.clone()];
        let jobs = [(line.jobs.running as usize, "running"), (line.jobs.queued as usize, "queued")];
        row.extend(elsewhere.then(|| words::counts(jobs)));
        let what = match line.holds.attempts {
            0 => styled(FAINT, "nothing"),
            n => styled(GOOD, format!("{}: {}", words::count(n as usize, "step"), amounts(&line.holds))),
        };
        row.push(if line.stopped.is_some() { format!("{}, {what}", styled(NOTE, "stopped")) } else { what });
        if let Some(waits) = &line.waits {
            let priority = if waits.priority == 0 { String::new() } else { format!(", priority {}", waits.priority) };
            row.push(waits.label.clone());
            row.push(amounts(&waits.request) + &priority);
            row.push(words::duration(now.saturating_sub(waits.since) as f64 / 1e3));
        } else if let Some(FollowingGang { label, run }) = &line.follows {
            let run = run.as_ref().map_or_else(|| "another flow".to_owned(), |run| format!("run {run}"));
            row.extend([label.clone(), format!("{run}, which is doing it already")]);
        }
        rows.push(row);
    }
    let stopped = lines.iter().filter_map(|line| Some((line, line.stopped.as_ref()?)));
    let advice = stopped.map(|(line, what_to_do)| {
        let keeps = if line.holds.attempts > 0 { ", and keeps its resources" } else { "" };
        format!("run {} is stopped{keeps}: {what_to_do}", line.run)
    });
    words::columns(&rows).into_iter().chain(advice).collect()
}

/// `2 CPUs, 1.5 GiB, 1 GPU`, `the machine alone`.
fn amounts(holds: &MachineShare) -> String {
    if holds.exclusive {
        return "the machine alone".to_owned();
    }
    let whole = holds.cpu_milli.is_multiple_of(1_000);
    let cpus = match holds.cpu_milli {
        0 if holds.gpus > 0 => None,
        0 => Some("no CPU".to_owned()),
        milli if whole => Some(words::count((milli / 1_000) as usize, "CPU")),
        milli => Some(format!("{:.1} CPUs", milli as f64 / 1e3)),
    };
    let memory = (holds.memory > 0).then(|| words::bytes(holds.memory));
    let gpus = (holds.gpus > 0).then(|| words::count(holds.gpus as usize, "GPU"));
    [cpus, memory, gpus].into_iter().flatten().collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use flow_supervisor::hardware::ledger::{LedgerView, Slot, Waiter};

    use super::*;

    #[test]
    fn runs_stand_in_the_order_in_which_they_are_served() {
        let holding = |cpus: u64, exclusive| MachineShare {
            cpu_milli: cpus * 500,
            memory: cpus << 30,
            attempts: 1,
            exclusive,
            ..MachineShare::default()
        };
        let slot = |run: &str, cpus: u64, waits: Option<(u64, i64, bool)>| Slot {
            run: run.to_owned(),
            person: "ada".to_owned(),
            workflow: "feb08".to_owned(),
            holds: if cpus > 0 { holding(cpus, false) } else { MachineShare::default() },
            waits: waits.map(|(since, priority, alone)| Waiter {
                label: "solo[n=1]".to_owned(),
                since,
                priority,
                request: holding(2, alone),
                ..Waiter::default()
            }),
            ..Slot::default()
        };
        let on_gpu = Slot { holds: MachineShare { gpus: 1, ..holding(2, false) }, ..slot("training", 0, None) };
        let request = MachineShare { gpus: 2, ..MachineShare::default() };
        let waits = Waiter { label: "t".to_owned(), since: 20_000, request, ..Waiter::default() };
        let runs = [
            slot("late", 0, Some((50_000, 0, false))),
            slot("busy", 3, None),
            slot("early", 4, Some((10_000, 0, true))),
            slot("urgent", 0, Some((55_000, 3, false))),
            on_gpu,
            Slot { waits: Some(waits), ..slot("for-gpus", 0, None) },
        ];
        let shown = |runs: &[Slot], stopped: &dyn Fn(&Slot) -> Option<String>| {
            let seen = LedgerView { runs: (0..).zip(runs.iter().cloned()).collect(), ..LedgerView::default() };
            let lines = render(&lines(&seen, stopped), 60_000);
            lines.iter().map(|line| crate::terminal::plain(line)).collect::<Vec<String>>().join("\n")
        };
        insta::assert_snapshot!(shown(&runs, &|_| None), @"
        run       of   workflow  runs                           waits      for                         since
        busy      ada  feb08     1 step: 1.5 CPUs, 3.0 GiB
        training  ada  feb08     1 step: 1 CPU, 2.0 GiB, 1 GPU
        urgent    ada  feb08     nothing                        solo[n=1]  1 CPU, 2.0 GiB, priority 3  5.0 s
        early     ada  feb08     1 step: 2 CPUs, 4.0 GiB        solo[n=1]  the machine alone           50 s
        for-gpus  ada  feb08     nothing                        t          2 GPUs                      40 s
        late      ada  feb08     nothing                        solo[n=1]  1 CPU, 2.0 GiB              10 s
        ");
        let stopped = |run: &Slot| (run.run == "early").then(|| "`kill -CONT 7` lets it go on".to_owned());
        let text = shown(&runs, &stopped);
        assert!(text.contains("ada  feb08     stopped, 1 step: 2 CPUs, 4.0 GiB  solo[n=1]"), "{text}");
        assert!(
            text.ends_with("run early is stopped, and keeps its resources: `kill -CONT 7` lets it go on"),
            "{text}"
        );
        assert_eq!(render(&[], 0).len(), 1);

        let follows = FollowingGang { label: "train[n=1]".to_owned(), run: Some("busy".to_owned()) };
        let follower = Slot { follows: Some(follows), ..slot("also", 0, None) };
        insta::assert_snapshot!(shown(&[follower, slot("busy", 3, None)], &|_| None), @r"
        run   of   workflow  runs                       waits       for                                  since
        busy  ada  feb08     1 step: 1.5 CPUs, 3.0 GiB
        also  ada  feb08     nothing                    train[n=1]  run busy, which is doing it already
        ");

        let mut sweep = slot("sweep", 0, None);
        sweep.jobs = Jobs { running: 3, queued: 1_200 };
        insta::assert_snapshot!(shown(&[sweep, slot("busy", 3, None)], &|_| None), @"
        run    of   workflow  in Slurm                 runs                       waits  for  since
        busy   ada  feb08                              1 step: 1.5 CPUs, 3.0 GiB
        sweep  ada  feb08     3 running, 1,200 queued  nothing
        ");
    }
}
