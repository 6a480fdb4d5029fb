//! `flow cancel`.

use std::collections::BTreeSet;
use std::thread;
use std::time::Duration;

use clap::Args;
use flow_core::RunId;
use flow_runs::{EndRequest, Liveness, ProcessIdentity, RunDir, StoreError};

use super::CommandResult;
use crate::{
    args::{About, Global},
    error::CliError,
    output::Output,
    place::{StoreLocation, orphaned_in_slurm, orphaned_steps, runs_with_jobs},
};

/// Interval and number of checks whether the run has received the request.
const LOOK: Duration = Duration::from_millis(50);
const LOOKS: u32 = 60;

/// Arguments of `flow cancel`.
#[derive(Debug, Args)]
#[command(after_help = "\
Like Ctrl-C in its terminal: nothing new starts, and running steps have a few seconds to end. With --now they are \
killed at once. Finished results stay, and the next run continues from there. \
If the run's own process was killed, this ends the steps that it left running.")]
pub(crate) struct Cancel {
    /// The run, by its id or the end of it [default: the active one]
    run: Option<String>,
    #[command(flatten)]
    about: About,
    /// Kill running steps at once
    #[arg(long)]
    now: bool,
}

impl Cancel {
    /// Ends the steps that an ended run left running.
    fn end_orphans(&self, place: &StoreLocation, run: &RunId, folder: &RunDir, output: &mut Output) -> CommandResult {
        let steps = flow_exec::running_orphans(&place.store, folder);
        let jobs = flow_exec::cancel_jobs(folder).map_err(|error| {
            CliError::failed(format!("run {run} has ended, and Slurm does not answer: {error}")).hint(
                "its jobs continue: repeat this command once Slurm answers, or let the next run of the workflow end them",
            )
        })?;
        if jobs > 0 {
            let jobs = if jobs == 1 { "the job".to_owned() } else { format!("the {jobs} jobs") };
            output.line(format!("run {run} has ended; Slurm is ending {jobs} that it left"))?;
        }
        if steps.is_empty() {
            if jobs == 0 {
                output
                    .line(format!("run {run} has ended and left nothing running; the next run collects its results"))?;
            }
            return Ok(());
        }
        folder.request_end(if self.now { EndRequest::Now } else { EndRequest::Soon })?;
        let now = if self.now { " at once" } else { "" };
        output.line(format!(
            "run {run} has ended; flow is ending the steps that it left running{now}: {}",
            steps.join(", ")
        ))?;
        if reacts(folder, || folder.daemon().is_some()) {
            return Ok(());
        }
        let keeper = folder.daemon().and_then(|daemon| ProcessIdentity::of(daemon.pid?));
        let who = keeper.as_ref().map(|keeper| format!(", {}", keeper.words())).unwrap_or_default();
        let advice = keeper.as_ref().and_then(ProcessIdentity::stopped).map(|what_to_do| format!("; {what_to_do}"));
        let advice = advice.unwrap_or_default();
        Ok(output.note(format!("{}: the supervisor of the run{who}{advice}", not_reacted(keeper.as_ref())))?)
    }

    pub(crate) fn execute(self, global: &Global, output: &mut Output) -> CommandResult {
        let place = StoreLocation::find(global, self.about.workflow.as_deref())?;
        let dead = match &self.run {
            Some(run) => Some(place.run(Some(run))?),
            // A killed run is meant only if no run is active.
            None if place.living()?.is_empty() => orphaned_run(&place)?,
            None => None,
        };
        if let Some(run) = dead {
            let folder = place.store.run(&run);
            if folder.lives().is_none() && folder.has_jobs() && folder.others().is_none() {
                return self.end_orphans(&place, &run, &folder, output);
            }
        }
        let living = place.living_run(self.run.as_deref())?;
        let (run, folder, holder) = (&living.run, &living.dir, &living.holder);
        if let Some(owner) = living.dir.others() {
            return Err(CliError::failed(format!("run {run} belongs to {owner}; only they can end it"))
                .hint(format!("ask them, or wait for it with `flow attach {run}`")));
        }
        folder.request_end(if self.now { EndRequest::Now } else { EndRequest::Soon }).map_err(|error| match error {
            // It has just ended.
            StoreError::Io { source, .. } if source.kind() == std::io::ErrorKind::NotFound => {
                CliError::usage(format!("run {run} has just ended"))
            }
            error => error.into(),
        })?;
        output.line(format!("asked run {run} to end{}", if self.now { " at once" } else { "" }))?;
        if reacts(folder, || place.living().is_ok_and(|living| living.iter().any(|one| one.run == *run))) {
            return Ok(());
        }
        Ok(output.note(format!("{}: {holder}", not_reacted(Some(&holder.process))))?)
    }
}

/// Waits until a run has received the request to end, or is not running.
fn reacts(run: &RunDir, is_running: impl Fn() -> bool) -> bool {
    for _ in 0..LOOKS {
        if !run.should_end() || !is_running() {
            return true;
        }
        thread::sleep(LOOK);
    }
    false
}

/// Says that a process has not reacted yet, and why.
fn not_reacted(process: Option<&ProcessIdentity>) -> &'static str {
    match process.filter(|process| process.liveness() == Liveness::Alive) {
        Some(process) if process.stopped().is_some() => "it will react when it resumes",
        Some(_) => "it will react soon; it is very busy",
        None => "it has not reacted yet",
    }
}

/// The killed run that left something running, if there is one.
fn orphaned_run(place: &StoreLocation) -> Result<Option<RunId>, CliError> {
    let runs = runs_with_jobs(&place.store)?;
    let here = orphaned_steps(&place.store, &runs).into_iter().map(|(run, _)| run);
    let runs: BTreeSet<RunId> = here.chain(orphaned_in_slurm(&runs).into_iter().map(|(run, _)| run)).collect();
    if runs.len() > 1 {
        let names: Vec<&str> = runs.iter().map(|run| &*run.0).collect();
        return Err(CliError::usage(format!("several killed runs left steps running: {}", names.join(", ")))
            .hint("name one, by its id or the end of it"));
    }
    Ok(runs.into_iter().next())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_a_process_that_is_not_seen_nobody_knows_why() {
        let own = ProcessIdentity::own();
        let elsewhere = ProcessIdentity { namespace: "pid:[1]".to_owned(), ..own.clone() };
        assert_eq!(not_reacted(Some(&own)), "it will react soon; it is very busy");
        assert_eq!(not_reacted(Some(&elsewhere)), "it has not reacted yet");
    }
}
