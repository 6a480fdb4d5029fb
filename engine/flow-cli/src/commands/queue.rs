//! `flow queue`: the runs of this machine, whatever their stores, in the order in which they are served.

use std::process::ExitCode;

use clap::Args;
use flow_core::sched::{
    Holding, QueuePosition,
    queue::{RunDemand, expected},
};
use flow_exec::{
    ExecError, clock,
    hardware::{
        self,
        ledger::{self, Follows, Jobs},
    },
};
use flow_store::ProcessIdentity;
use jiff::tz::TimeZone;
use serde::Serialize;

use super::Done;
use crate::error::CliError;
use crate::output::{FAINT, GOOD, NOTE, Output, STRONG, styled};
use crate::words;

/// What is expected within so many milliseconds is told in seconds.
const SOON: u64 = 120_000;

/// Arguments of `flow queue`.
#[derive(Debug, Args)]
#[command(after_help = "\
All runs of a machine share its CPUs, its memory and its GPUs, whatever their stores and whoever started them: what one
holds, no other gives out, and an exclusive step waits for theirs as they wait for it. Higher priority goes first, then
who waits longest. The runs find each other by a file, /tmp/flow-machine.ledger; FLOW_GPU_LOCKS names another folder for
it, for containers that share a machine and not /tmp. Everybody on the machine can see this list.

Examples:
  flow queue                             who runs what, who waits for whom, and until when
  flow queue --json                      the same for scripts, a line a run")]
pub(crate) struct Queue {
    /// One JSON object a run
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
    /// It was stopped, as by Ctrl-Z: what to do.
    #[serde(skip_serializing_if = "Option::is_none")]
    stopped: Option<String>,
    holds: Holding,
    /// When the last of what runs is expected to have ended, milliseconds since 1970.
    #[serde(skip_serializing_if = "Option::is_none")]
    until: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    waits: Option<Waits>,
    /// What of it another run of its store does already, and serves both.
    #[serde(skip_serializing_if = "Option::is_none")]
    follows: Option<Follows>,
    /// Steps of it that are jobs in Slurm, where they hold nothing of this machine.
    #[serde(skip_serializing_if = "Jobs::is_none")]
    jobs: Jobs,
}

/// What of it waits for others.
#[derive(Debug, Serialize)]
struct Waits {
    label: String,
    since: u64,
    priority: i64,
    asks: Holding,
    /// When there is room, as far as that is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    expected: Option<u64>,
    #[serde(skip)]
    turn: QueuePosition,
}

impl Queue {
    pub(crate) fn execute(self, output: &mut Output) -> Done {
        let machine = hardware::machine(None).map_err(|e| CliError::from(ExecError::Usage(e)))?;
        let seen = ledger::look_at_machine().map_err(|e| CliError::from(ExecError::Usage(e)))?;
        let now = clock::unix_millis();
        let (cpu_milli, gpus) = (u64::from(machine.cpus) * 1_000, machine.gpus.len() as u32);
        let all = Holding { cpu_milli, memory: machine.memory, gpus, ..Holding::default() };
        let lines = lines(&seen, &all, now, stopped);
        if self.json {
            for line in &lines {
                output.json(line)?;
            }
            return Ok(ExitCode::SUCCESS);
        }
        for line in render(&lines, now, &TimeZone::system()) {
            output.line(line)?;
        }
        if !seen.nonsense.is_empty() {
            let runs = words::count(seen.nonsense.len(), "run");
            output
                .line(format!("{runs} more, of which this flow does not understand what it says: another version?"))?;
        }
        Ok(ExitCode::SUCCESS)
    }
}

/// What to do where a run's process was stopped.
fn stopped(run: &ledger::Slot) -> Option<String> {
    ProcessIdentity::of(run.pid).filter(|process| process.started == run.process_start)?.stopped()
}

/// What runs first, then what waits, in the order in which it is served.
fn lines(
    seen: &ledger::Seen,
    all: &Holding,
    now: u64,
    stopped: impl Fn(&ledger::Slot) -> Option<String>,
) -> Vec<QueuedRun> {
    let turn = |slot: u32, waits: &ledger::Waiter| QueuePosition::new(waits.priority, waits.since, slot);
    let runs: Vec<_> = seen.runs.iter().map(|(slot, run)| (*slot, run, stopped(run))).collect();
    // One that was stopped gives nothing back, nobody knows until when, and its place in the queue is passed over.
    let goes_on = |stopped: &Option<String>| stopped.is_none().then_some(());
    let demand = |(slot, run, stopped): &(u32, &ledger::Slot, Option<String>)| RunDemand {
        held: run.steps.iter().map(|step| (step.holds, goes_on(stopped).and(step.until))).collect(),
        waits: goes_on(stopped).and(run.waits.as_ref()).map(|waits| (turn(*slot, waits), waits.asks, waits.takes)),
    };
    let demands: Vec<RunDemand> = runs.iter().map(demand).collect();
    let expected = expected(all, &demands, now);
    let line = |((slot, run, stopped), expected): ((u32, &ledger::Slot, Option<String>), Option<u64>)| QueuedRun {
        run: run.run.clone(),
        person: run.person.clone(),
        workflow: run.workflow.clone(),
        pid: run.pid,
        holds: run.holds,
        until: goes_on(&stopped).and(run.steps.iter().map(|step| step.until).reduce(|a, b| Some(a?.max(b?))).flatten()),
        stopped,
        waits: run.waits.as_ref().map(|waits| Waits {
            label: waits.label.clone(),
            since: waits.since,
            priority: waits.priority,
            asks: waits.asks,
            expected,
            turn: turn(slot, waits),
        }),
        follows: run.follows.clone(),
        jobs: run.jobs,
    };
    let mut lines: Vec<QueuedRun> = runs.into_iter().zip(expected).map(line).collect();
    // A run that holds something and waits for more has its place by what it waits for; what only follows another is served with that.
    let only_follows = |line: &QueuedRun| line.follows.is_some() && line.holds.attempts == 0 && line.waits.is_none();
    lines.sort_by_key(|line| (only_follows(line), line.waits.as_ref().map(|waits| waits.turn), line.run.clone()));
    lines
}

fn render(lines: &[QueuedRun], now: u64, zone: &TimeZone) -> Vec<String> {
    if lines.is_empty() {
        return vec!["no run of this machine holds anything or waits".to_owned()];
    }
    let elsewhere = lines.iter().any(|line| !line.jobs.is_none());
    let heads = ["run", "of", "workflow", "in Slurm", "runs", "until", "waits", "for", "since", "room"];
    let heads = heads.into_iter().filter(|head| elsewhere || *head != "in Slurm");
    let mut rows = vec![heads.map(|head| styled(STRONG, head)).collect()];
    let seconds = |milliseconds: u64| words::duration(milliseconds as f64 / 1e3);
    let time = |at: u64| match (at.saturating_sub(now), now.saturating_sub(at)) {
        (..1_000, ..1_000) => "any moment".to_owned(),
        (0, late) => format!("overdue by {}", seconds(late)),
        // A time of day is told in minutes.
        (soon, _) if soon < SOON => format!("in about {}", seconds(soon)),
        _ => format!("about {}", words::time_of_day(at, zone)),
    };
    for line in lines {
        let mut row = vec![line.run.clone(), line.person.clone(), line.workflow.clone()];
        row.extend(elsewhere.then(|| in_slurm(&line.jobs)));
        let what = match line.holds.attempts {
            0 => styled(FAINT, "nothing"),
            n => styled(GOOD, format!("{}: {}", words::count(n as usize, "step"), amounts(&line.holds))),
        };
        row.push(if line.stopped.is_some() { format!("{}, {what}", styled(NOTE, "stopped")) } else { what });
        row.push(line.until.map_or_else(String::new, time));
        if let Some(waits) = &line.waits {
            let priority = if waits.priority == 0 { String::new() } else { format!(", priority {}", waits.priority) };
            row.push(waits.label.clone());
            row.push(amounts(&waits.asks) + &priority);
            row.push(words::duration(now.saturating_sub(waits.since) as f64 / 1e3));
            row.push(match waits.expected {
                Some(at) if at == now => "now".to_owned(),
                Some(at) => time(at),
                None => "not known".to_owned(),
            });
        } else if let Some(Follows { label, run }) = &line.follows {
            let run = run.as_ref().map_or_else(|| "another flow".to_owned(), |run| format!("run {run}"));
            row.extend([label.clone(), format!("{run}, which does it already")]);
        }
        rows.push(row);
    }
    let stopped = lines.iter().filter_map(|line| Some((line, line.stopped.as_ref()?)));
    let advice = stopped.map(|(line, what_to_do)| {
        let keeps = if line.holds.attempts > 0 { ", and keeps what it holds" } else { "" };
        format!("run {} is stopped{keeps}: {what_to_do}", line.run)
    });
    words::columns(&rows).into_iter().chain(advice).collect()
}

/// `3 running, 12 queued`.
fn in_slurm(jobs: &Jobs) -> String {
    let some = |count: u32, how: &str| (count > 0).then(|| format!("{} {how}", words::thousands(count as usize)));
    [some(jobs.running, "running"), some(jobs.queued, "queued")].into_iter().flatten().collect::<Vec<_>>().join(", ")
}

/// `2 CPUs, 1.5 GiB, 1 GPU`, `the machine alone`.
fn amounts(holds: &Holding) -> String {
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
    use flow_exec::hardware::ledger::{Seen, Slot, Step, Waiter};

    use super::*;

    #[test]
    fn runs_stand_in_the_order_in_which_they_are_served() {
        let holding = |cpus: u64, exclusive| Holding {
            cpu_milli: cpus * 500,
            memory: cpus << 30,
            attempts: 1,
            exclusive,
            ..Holding::default()
        };
        let slot = |run: &str, cpus: u64, waits: Option<(u64, i64, bool)>| Slot {
            run: run.to_owned(),
            person: "ada".to_owned(),
            workflow: "feb08".to_owned(),
            holds: if cpus > 0 { holding(cpus, false) } else { Holding::default() },
            steps: (cpus > 0)
                .then(|| Step { holds: holding(cpus, false), until: Some(3_600_000) })
                .into_iter()
                .collect(),
            waits: waits.map(|(since, priority, alone)| Waiter {
                label: "solo[n=1]".to_owned(),
                since,
                priority,
                asks: holding(2, alone),
                takes: Some(60_000),
                ..Waiter::default()
            }),
            ..Slot::default()
        };
        let runs = [
            slot("late", 0, Some((50_000, 0, false))),
            slot("busy", 3, None),
            slot("early", 4, Some((10_000, 0, true))),
            slot("urgent", 0, Some((55_000, 3, false))),
        ];
        let (gpus, until) = (Holding { gpus: 1, ..holding(2, false) }, Some(90_000));
        let on_gpu = Slot { holds: gpus, steps: vec![Step { holds: gpus, until }], ..slot("training", 0, None) };
        let asks = Holding { gpus: 2, ..Holding::default() };
        let waits = Waiter { label: "t".to_owned(), since: 20_000, asks, ..Waiter::default() };
        let for_gpus = Slot { waits: Some(waits), ..slot("for-gpus", 0, None) };
        let runs = runs.into_iter().chain([on_gpu, for_gpus]);
        let all = Holding { cpu_milli: 4_000, memory: 64 << 30, gpus: 2, ..Holding::default() };
        let seen = Seen { runs: (0..).zip(runs).collect(), ..Seen::default() };
        let stopped = |run: &Slot| (run.run == "early").then(|| "`kill -CONT 7` lets it go on".to_owned());
        let stands = |stopped: &dyn Fn(&Slot) -> Option<String>| {
            let lines = render(&lines(&seen, &all, 60_000, stopped), 60_000, &TimeZone::UTC);
            lines.iter().map(|line| crate::terminal::plain(line)).collect::<Vec<String>>().join("\n")
        };
        insta::assert_snapshot!(stands(&|_| None), @"
        run       of   workflow  runs                           until          waits      for                         since  room
        busy      ada  feb08     1 step: 1.5 CPUs, 3.0 GiB      about 01:00
        training  ada  feb08     1 step: 1 CPU, 2.0 GiB, 1 GPU  in about 30 s
        urgent    ada  feb08     nothing                                       solo[n=1]  1 CPU, 2.0 GiB, priority 3  5.0 s  about 01:00
        early     ada  feb08     1 step: 2 CPUs, 4.0 GiB        about 01:00    solo[n=1]  the machine alone           50 s   about 01:01
        for-gpus  ada  feb08     nothing                                       t          2 GPUs                      40 s   about 01:02
        late      ada  feb08     nothing                                       solo[n=1]  1 CPU, 2.0 GiB              10 s   about 01:02
        ");
        insta::assert_snapshot!(stands(&stopped), @"
        run       of   workflow  runs                              until          waits      for                         since  room
        busy      ada  feb08     1 step: 1.5 CPUs, 3.0 GiB         about 01:00
        training  ada  feb08     1 step: 1 CPU, 2.0 GiB, 1 GPU     in about 30 s
        urgent    ada  feb08     nothing                                          solo[n=1]  1 CPU, 2.0 GiB, priority 3  5.0 s  about 01:00
        early     ada  feb08     stopped, 1 step: 2 CPUs, 4.0 GiB                 solo[n=1]  the machine alone           50 s   not known
        for-gpus  ada  feb08     nothing                                          t          2 GPUs                      40 s   about 01:00
        late      ada  feb08     nothing                                          solo[n=1]  1 CPU, 2.0 GiB              10 s   about 01:00
        run early is stopped, and keeps what it holds: `kill -CONT 7` lets it go on
        ");
        assert_eq!(render(&[], 0, &TimeZone::UTC).len(), 1);
        for now in [89_001, 90_000, 90_999] {
            let lines = render(&super::lines(&seen, &all, now, |_| None), now, &TimeZone::UTC);
            let training = lines.iter().find(|line| line.starts_with("training")).unwrap();
            assert!(training.ends_with("any moment"), "{training}");
        }
        let (late, at) = (Seen { runs: seen.runs[4..].to_vec(), ..Seen::default() }, 215_000);
        let lines = render(&super::lines(&late, &all, at, |_| None), at, &TimeZone::UTC);
        let lines: Vec<String> = lines.iter().map(|line| crate::terminal::plain(line)).collect();
        insta::assert_snapshot!(lines.join("\n"), @"
        run       of   workflow  runs                           until                  waits  for     since       room
        training  ada  feb08     1 step: 1 CPU, 2.0 GiB, 1 GPU  overdue by 2 min 05 s
        for-gpus  ada  feb08     nothing                                               t      2 GPUs  3 min 15 s  overdue by 2 min 05 s
        ");

        let follows = Follows { label: "train[n=1]".to_owned(), run: Some("busy".to_owned()) };
        let follower = Slot { follows: Some(follows), ..slot("also", 0, None) };
        let seen = Seen { runs: (0..).zip([follower, slot("busy", 3, None)]).collect(), ..Seen::default() };
        let lines = render(&super::lines(&seen, &all, 60_000, |_| None), 60_000, &TimeZone::UTC);
        let lines: Vec<String> = lines.iter().map(|line| crate::terminal::plain(line)).collect();
        insta::assert_snapshot!(lines.join("\n"), @"
        run   of   workflow  runs                       until        waits       for                              since  room
        busy  ada  feb08     1 step: 1.5 CPUs, 3.0 GiB  about 01:00
        also  ada  feb08     nothing                                 train[n=1]  run busy, which does it already
        ");

        let mut sweep = slot("sweep", 0, None);
        sweep.jobs = Jobs { running: 3, queued: 1_200 };
        let seen = Seen { runs: (0..).zip([sweep, slot("busy", 3, None)]).collect(), ..Seen::default() };
        let lines = render(&super::lines(&seen, &all, 60_000, |_| None), 60_000, &TimeZone::UTC);
        let lines: Vec<String> = lines.iter().map(|line| crate::terminal::plain(line)).collect();
        insta::assert_snapshot!(lines.join("\n"), @"
        run    of   workflow  in Slurm                 runs                       until        waits  for  since  room
        busy   ada  feb08                              1 step: 1.5 CPUs, 3.0 GiB  about 01:00
        sweep  ada  feb08     3 running, 1,200 queued  nothing
        ");
    }
}
