//! `flow status`.

use std::collections::BTreeMap;
use std::process::ExitCode;

use clap::Args;
use flow_core::RunId;
use flow_exec::{OrphanedJob, OrphanedJobs, ended_since};
use flow_runs::{QueuedJob, RunningStep, Status as RunStatus};
use flow_supervisor::{clock, hardware::ledger};

use super::{CommandResult, attach, run};
use crate::{
    args::{Global, OfRun},
    error::CliError,
    output::{FAINT, GOOD, NOTE, Output, STRONG, styled},
    place::{LivingRun, StoreLocation, orphaned_in_slurm, orphaned_steps, runs_with_jobs},
    reasons,
    screen::{FURTHER, InstanceState, InstanceView, Length, RunEndDetails, left, share, summary},
    words,
};

/// Arguments of `flow status`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  flow status                            the active runs, or the last one
  flow status --watch                    the active run until it ends; Ctrl-C stops watching, the run continues
  flow status 3f2a                       an earlier run, and why its steps ran
  flow status --json                     its status file, for scripts")]
pub(crate) struct Status {
    /// A run, by its id or the end of it, like --run
    #[arg(value_name = "RUN", conflicts_with = "run")]
    run_id: Option<String>,
    #[command(flatten)]
    of: OfRun,
    /// Show an active run until it ends; the exit code is then the run's
    #[arg(long, conflicts_with = "json")]
    watch: bool,
    /// Print the status file
    #[arg(long)]
    json: bool,
}

impl Status {
    pub(crate) fn execute(mut self, global: &Global, output: &mut Output) -> CommandResult<ExitCode> {
        self.of.run = self.of.run.or(self.run_id.take());
        let place = StoreLocation::find(global, self.of.about.workflow.as_deref())?;
        if self.watch
            && let Some(run) = self.active(&place)?
        {
            let all = if output.is_terminal() { 1 } else { usize::MAX };
            one_of_several(&run, all, output)?;
            return attach::watch(&place, &run, output);
        }
        let mut living = place.living()?;
        let mut which = self.of.run.clone();
        if which.is_none() && !self.json {
            // A run that begins has no journal yet.
            let begins = |one: &LivingRun| matches!(one.dir.first_line(), Ok(None));
            if living.len() > 1 || living.first().is_some_and(begins) {
                living.iter().try_for_each(|one| one_of_several(one, usize::MAX, output))?;
                if let Some(line) = other_stores(&place, &living) {
                    output.line(line)?;
                }
                return Ok(ExitCode::SUCCESS);
            }
            // It may have begun before another one that has ended.
            which = living.first().map(|one| one.run.to_string());
        }
        let others = if self.of.run.is_none() { other_stores(&place, &living) } else { None };
        let place = if which.is_none() { StoreLocation::of_workflow(global, &self.of, output)? } else { place };
        let (dir, mut view) = place.view(which.as_deref())?;
        if let Some(origin) = &view.imported {
            let has_result =
                |shown: &&InstanceView| matches!(shown.state, InstanceState::Cached(..) | InstanceState::Done(_));
            let results = words::count(view.instances.values().filter(has_result).count(), "result");
            let (workflow, host) = (&origin.workflow, &origin.host);
            output.line(format!("imported {results} of {workflow} from {host}; `flow show STEP` shows them"))?;
        }
        let status = dir.status()?;
        if self.json {
            output.json(&status)?;
            return Ok(ExitCode::SUCCESS);
        }
        let run = view.start.as_ref().map(|start| view.id_here(&start.run).clone());
        let alive = living.iter().position(|one| Some(&one.run) == run.as_ref()).map(|at| living.remove(at));
        let with_jobs = runs_with_jobs(&place.store)?;
        let is_running = alive.is_some() || !living.is_empty();
        match (status, alive) {
            (Some(status), Some(alive)) => {
                output.lines(active_run(&status, &process_of(&alive), clock::unix_millis()))?;
                output.lines(view.interruptions.iter().map(|said| format!("  {} {said}", styled(NOTE, "ending"))))?;
            }
            (status, _) => {
                status.into_iter().for_each(|status| view.status(status));
                let ended = RunEndDetails {
                    run: run.map(|run| run.to_string()).unwrap_or_default(),
                    since: if view.exit.is_none() { ended_since(&place.store, &dir).len() } else { 0 },
                    all: true,
                    ..RunEndDetails::default()
                };
                let length = Length { short: false, ..Length::of(output) };
                let lines = summary(&view, &ended, length, &|folder| run::log_tail(&place.workspace, folder));
                output.sentences(lines, FURTHER)?;
                // The lines below name what still runs.
                if view.exit.is_none() && with_jobs.is_empty() {
                    output.line("the next run continues from there")?;
                }
                output.lines(living.iter().map(|one| format!("run {} is active: {}", one.run, one.holder)))?;
            }
        }
        for (run, steps) in orphaned_steps(&place.store, &with_jobs) {
            output.line(format!(
                "run {run} was killed, but {} running: {}; the next run of its workflow takes over, `flow cancel {run}` ends {}",
                if steps.len() == 1 { "1 step is".to_owned() } else { format!("{} are", words::count(steps.len(), "step")) },
                steps.join(", "),
                if steps.len() == 1 { "it" } else { "them" }
            ))?;
        }
        // An active run may have taken them over.
        if !is_running {
            for (run, jobs) in orphaned_in_slurm(&with_jobs) {
                output.line(in_slurm(&run, jobs.as_ref()))?;
                output.lines(jobs.iter().flat_map(|orphans| each_job(&orphans.jobs)))?;
            }
            for (run, dir) in &with_jobs {
                let ended = ended_since(&place.store, dir).len();
                if ended > 0 {
                    let steps = words::count(ended, "step");
                    output.line(format!(
                        "{steps} of run {run} ended after it was killed; the next run of its workflow collects the results"
                    ))?;
                }
            }
        }
        if let Some(line) = others {
            output.line(line)?;
        }
        Ok(ExitCode::SUCCESS)
    }
}

impl Status {
    /// The run to watch; `None` if the requested run, or every run, has ended.
    fn active(&self, place: &StoreLocation) -> Result<Option<LivingRun>, CliError> {
        match &self.of.run {
            Some(asked) => {
                let run = place.run(Some(asked))?;
                Ok(place.living()?.into_iter().find(|one| one.run == run))
            }
            None if place.living()?.is_empty() => Ok(None),
            None => place.living_run(None).map(Some),
        }
    }
}

/// The jobs that a killed run has left, with the node of each or the reason why it waits.
fn each_job(jobs: &[OrphanedJob]) -> Vec<String> {
    const SHOWN: usize = 20;
    let line = |OrphanedJob { labels, job, place }: &OrphanedJob| {
        let place = match place {
            Ok(node) => format!(" on {node}"),
            Err(reason) if reason.is_empty() => " waits".to_owned(),
            Err(reason) => format!(" waits: {reason}"),
        };
        format!("  {}: job {job}{place}", labels.join(", "))
    };
    words::cut(jobs.iter().map(line), SHOWN, |more| format!("  and {} more: `squeue --me`", words::thousands(more)))
}

/// What a killed run has left in Slurm.
fn in_slurm(run: &RunId, jobs: Option<&OrphanedJobs>) -> String {
    let (they, them) = match jobs.map(|jobs| jobs.running + jobs.waiting) {
        Some(1) => ("1 job is".to_owned(), "it"),
        Some(all) => (format!("{} are", words::count(all, "job")), "them"),
        None => ("jobs may be".to_owned(), "them"),
    };
    let unsure = match jobs {
        None => ", which does not answer now".to_owned(),
        Some(OrphanedJobs { running, waiting, .. }) => {
            format!(" ({})", words::counts([(*running, "running"), (*waiting, "waiting")]))
        }
    };
    format!(
        "run {run} was killed, but {they} still in Slurm{unsure}; the next run of its workflow takes over, \
         `flow cancel {run}` ends {them}"
    )
}

/// The runs of this machine with other stores, in one line.
fn other_stores(place: &StoreLocation, living: &[LivingRun]) -> Option<String> {
    // If the ledger is unusable, `flow queue` says why.
    let seen = ledger::look_at_machine().unwrap_or_default();
    let ours = |run: &str| {
        // The ledger may contain other users' text.
        let name = !run.contains('/');
        living.iter().any(|one| one.run.0 == run) || name && place.store.run(&RunId(run.to_owned())).daemon().is_some()
    };
    let others = seen.runs.iter().map(|(_, slot)| slot).filter(|slot| !ours(&slot.run));
    let others: Vec<String> = others.map(|slot| format!("`{}` of {}", slot.workflow, slot.person)).collect();
    let names = others.join(", ");
    (!others.is_empty()).then(|| format!("this machine also runs {names} from other stores; `flow queue` shows all"))
}

/// `process 12`, its owner if that is another user, and advice if it is stopped.
fn process_of(one: &LivingRun) -> String {
    let whose = one.dir.others().map(|user| format!(" of {user}")).unwrap_or_default();
    let stopped = one.holder.process.stopped().map(|what_to_do| format!(", stopped ({what_to_do})"));
    format!("{}{whose}{}", one.holder.process.words(), stopped.unwrap_or_default())
}

/// The first lines of an active run.
fn one_of_several(one: &LivingRun, lines: usize, output: &mut Output) -> Result<(), CliError> {
    let process = process_of(one);
    match one.dir.status()? {
        Some(status) => {
            output.lines(active_run(&status, &process, clock::unix_millis()).into_iter().take(lines))?;
        }
        None => output.line(format!("run {} begins: {}", styled(STRONG, &one.run), one.holder))?,
    }
    Ok(())
}

/// Up to this number, waiting instances are printed one by one.
const SHOWN: usize = 24;

/// An active run.
fn active_run(status: &RunStatus, process: &str, now: u64) -> Vec<String> {
    let since = |at: u64| now.saturating_sub(at) as f64 / 1e3;
    let mut out = vec![format!(
        "{} run {} ({}), {process}, for {}",
        styled(STRONG, &status.workflow),
        status.run,
        status.file,
        words::duration(since(status.started_at))
    )];
    let settled: u32 = status.counts.values().sum();
    let number = |n: u32| words::thousands(n as usize);
    let counts = words::counts(status.counts.iter().map(|(how, n)| (*n as usize, how.replace('_', " "))));
    let mut line = format!("  {} of {}", number(settled), words::count(status.instances as usize, "instance"));
    if !counts.is_empty() {
        line.push_str(&format!(": {counts}"));
    }
    out.push(line);
    let (queued, running): (Vec<&RunningStep>, Vec<&RunningStep>) =
        status.running.iter().partition(|one| one.queued.is_some());
    let row = |one: &RunningStep| {
        let by_estimate = || Some(format!("≈{:.0}%", share(one.started_at, one.ends_at, now)? * 100.0));
        let percent = one.fraction.map(|f| format!("{:.0}%", f * 100.0)).or_else(by_estimate);
        let done = format!("{} {}", percent.unwrap_or_default(), left(one.ends_at, now)).trim().to_owned();
        let gpus = one.gpus.len().max(one.gpus_requested as usize);
        let gpus = (gpus > 0).then(|| words::count(gpus, "GPU"));
        let parts: Vec<String> =
            gpus.into_iter().chain([words::count(one.cpus as usize, "CPU")]).chain(reasons::slurm_place(one)).collect();
        let (how, text) = match &one.queued {
            Some(queued) => (styled(NOTE, "queued"), reasons::queued(queued)),
            None => (styled(GOOD, "running"), one.text.clone().unwrap_or_default()),
        };
        vec![how, one.label.clone(), words::clock(since(one.started_at)), done, parts.join(", "), text]
    };
    let each = if queued.len() > SHOWN { &[] } else { &queued[..] };
    let rows: Vec<Vec<String>> = running.iter().take(SHOWN).chain(each).map(|one| row(one)).collect();
    out.extend(words::columns(&rows).into_iter().map(|line| format!("  {line}")));
    if running.len() > SHOWN {
        out.push(format!("  {} {} more", styled(GOOD, "running"), number((running.len() - SHOWN) as u32)));
    }
    if queued.len() > SHOWN {
        let mut alike: BTreeMap<_, Vec<&QueuedJob>> = BTreeMap::new();
        for one in queued.iter().filter_map(|one| one.queued.as_ref()) {
            alike.entry((one.job.is_some(), &one.reason, &one.advice)).or_default().push(one);
        }
        for all in alike.values() {
            let first = all.iter().min_by_key(|one| one.since).map(|first| reasons::queued_alike(first));
            let how_many = words::count(all.len(), "instance");
            out.push(format!("  {} {how_many}: {}", styled(NOTE, "queued"), first.unwrap_or_default()));
        }
    }
    let mut waiting: BTreeMap<String, Vec<&str>> = BTreeMap::new();
    for one in &status.waiting {
        waiting.entry(reasons::waits(&one.reason, now)).or_default().push(&one.label);
    }
    for (reason, labels) in waiting {
        let who = if let [one] = labels[..] { one.to_owned() } else { words::count(labels.len(), "instance") };
        out.push(format!("  {} {who}: {reason}", styled(FAINT, "waiting")));
    }
    // Of thousands that wait, the first are shown. Those that need a result that is missing come
    // last.
    let told = settled as usize + status.running.len() + status.waiting.len();
    let more = (status.instances as usize).saturating_sub(told);
    if more > 0 {
        let who = if status.waiting.is_empty() {
            words::count(more, "instance")
        } else {
            format!("{} more", words::thousands(more))
        };
        out.push(format!("  {} {who}: queued, or waiting for a dependency", styled(FAINT, "waiting")));
    }
    out
}

#[cfg(test)]
mod tests {
    use flow_core::reason::Waits;
    use flow_core::{AttemptId, InstanceId, RunId};
    use flow_runs::WaitingStep;

    use super::*;

    #[test]
    fn a_run_that_goes_on() {
        let waiting =
            |label: &str, first: &str| WaitingStep { label: label.into(), reason: Waits::Turn { label: first.into() } };
        let status = RunStatus {
            run: RunId("20260208-153012-3f2a".into()),
            workflow: "feb08".into(),
            file: "workflows/feb08.yaml".into(),
            pid: 123,
            started_at: 0,
            updated_at: 100_000,
            ended: None,
            instances: 24,
            counts: BTreeMap::from([("cached".into(), 4), ("out_of_memory".into(), 1)]),
            running: vec![RunningStep {
                instance: InstanceId(4),
                label: "solo[batch=16]".into(),
                attempt: AttemptId(0),
                started_at: 59_000,
                fraction: Some(0.5),
                ends_at: Some(141_000),
                text: Some("epoch 2/4".into()),
                queued: None,
                job: None,
                node: None,
                gpus: vec![],
                gpus_requested: 0,
                cpus: 2,
            }],
            waiting: vec![waiting("a", "table"), waiting("b", "table"), waiting("c", "dataset")],
        };
        let lines = active_run(&status, "process 123", 100_000);
        let lines: Vec<String> = lines.iter().map(|line| crate::terminal::plain(line)).collect();
        insta::assert_snapshot!(lines.join("\n"), @r"
        feb08 run 20260208-153012-3f2a (workflows/feb08.yaml), process 123, for 1 min 40 s
          5 of 24 instances: 4 cached, 1 out of memory
          running  solo[batch=16]  0:41  50% ≈ 41 s left  2 CPUs  epoch 2/4
          waiting c: dataset goes first
          waiting 2 instances: table goes first
          waiting 15 more: queued, or waiting for a dependency
        ");
    }

    #[test]
    fn thousands_that_run_or_wait_in_slurm_are_counted() {
        let job = |n: u32, reason: &str| QueuedJob {
            job: (n < 2_000).then(|| n.to_string()),
            reason: if n < 2_000 { reason.to_owned() } else { String::new() },
            since: 0,
            advice: None,
        };
        let running = |n: u32| RunningStep {
            instance: InstanceId(n),
            label: format!("a[n={n}]"),
            attempt: AttemptId(n),
            started_at: 0,
            fraction: None,
            text: None,
            ends_at: None,
            queued: (n >= 100).then(|| job(n, if n.is_multiple_of(2) { "Priority" } else { "Resources" })),
            job: Some(n.to_string()),
            node: Some("node1".into()),
            gpus: vec![],
            gpus_requested: 1,
            cpus: 1,
        };
        let status = RunStatus {
            run: RunId("20260208-153012-3f2a".into()),
            workflow: "sweep".into(),
            file: "sweep.yaml".into(),
            pid: 123,
            started_at: 0,
            updated_at: 0,
            ended: None,
            instances: 3_000,
            counts: BTreeMap::new(),
            running: (0..3_000).map(running).collect(),
            waiting: vec![],
        };
        let lines: Vec<String> =
            active_run(&status, "process 123", 0).iter().map(|line| crate::terminal::plain(line)).collect();
        assert_eq!(lines.len(), 2 + SHOWN + 1 + 3, "{lines:#?}");
        assert_eq!(lines[2].trim_end(), "  running  a[n=0]   0:00    1 GPU, 1 CPU, job 0 on node1");
        assert_eq!(lines[2 + SHOWN], "  running 76 more");
        let queued: Vec<&str> = lines[3 + SHOWN..].iter().map(|line| line.split(" since").next().unwrap()).collect();
        let expected = [
            "  queued 1,000 instances: in Slurm (not submitted yet, the first",
            "  queued 950 instances: in Slurm (Priority, the first",
            "  queued 950 instances: in Slurm (Resources, the first",
        ];
        assert_eq!(queued, expected);
    }
}
