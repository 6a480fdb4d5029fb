//! `flow attach`.

use std::process::ExitCode;
use std::thread;
use std::time::Duration;

use clap::Args;
use flow_exec::Update;
use flow_runs::Follow;

use super::{CommandResult, run};
use crate::{
    args::{About, Global},
    error::CliError,
    output::Output,
    place::{LivingRun, StoreLocation},
    screen::{FURTHER, Length, RunEndDetails, Screen, View, summary},
};

/// Interval at which the journal is read.
const LOOK: Duration = Duration::from_millis(200);

/// Arguments of `flow attach`.
#[derive(Debug, Args)]
#[command(
    after_help = "Ctrl-C stops watching; the run continues. `flow cancel` ends the run. The exit code is the run's."
)]
pub(crate) struct Attach {
    /// The run, by its id or the end of it [default: the active one]
    run: Option<String>,
    #[command(flatten)]
    about: About,
    /// One JSON object per line, from the run's beginning
    #[arg(long)]
    json: bool,
}

impl Attach {
    pub(crate) fn execute(self, global: &Global, output: &mut Output) -> CommandResult<ExitCode> {
        let place = StoreLocation::find(global, self.about.workflow.as_deref())?;
        let run = place.living_run(self.run.as_deref())?;
        let view = follow(&place, &run, Screen::new(output, self.json))?;
        if self.json {
            return Ok(code(view.exit.unwrap_or(1)));
        }
        ended(&place, &run, &view, output)
    }
}

/// `flow status --watch`: shows the run from now on.
pub(super) fn watch(place: &StoreLocation, run: &LivingRun, output: &mut Output) -> CommandResult<ExitCode> {
    let view = follow(place, run, Screen::from_now(output))?;
    ended(place, run, &view, output)
}

/// Shows the run until it ends, or was killed.
fn follow(place: &StoreLocation, run: &LivingRun, mut screen: Screen<'_>) -> Result<View, CliError> {
    let mut journal = Follow::new(run.dir.journal());
    loop {
        // Checked before the last read, so that nothing is missed in between.
        let alive = place.living()?.iter().any(|one| one.run == run.run);
        for line in journal.poll()? {
            screen.update(Update::Event(line))?;
        }
        if let Some(status) = run.dir.status()? {
            screen.update(Update::Status(Box::new(status)))?;
        }
        if screen.view.exit.is_some() || !alive {
            return Ok(screen.close());
        }
        thread::sleep(LOOK);
    }
}

/// Prints the summary of a run that has ended.
fn ended(place: &StoreLocation, run: &LivingRun, view: &View, output: &mut Output) -> CommandResult<ExitCode> {
    let id = &run.run;
    let Some(exit) = view.exit else {
        return Err(CliError::failed(format!("run {id} was killed")).hint("the next run continues from there"));
    };
    let ended = RunEndDetails { run: id.to_string(), ..RunEndDetails::default() };
    let lines = summary(view, &ended, Length::of(output), &|folder| run::log_tail(&place.workspace, folder));
    output.sentences(lines, FURTHER)?;
    Ok(code(exit))
}

fn code(exit: i32) -> ExitCode {
    ExitCode::from(u8::try_from(exit).unwrap_or(1))
}
