//! `flow cancel`.

use std::process::ExitCode;
use std::thread;
use std::time::Duration;

use clap::Args;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use super::Done;
use crate::args::{About, Global};
use crate::error::CliError;
use crate::output::Output;
use crate::place::Place;

/// Between the two signals of `--now`, so that they are two.
const PAUSE: Duration = Duration::from_millis(300);

/// Arguments of `flow cancel`.
#[derive(Debug, Args)]
#[command(after_help = "\
As Ctrl-C in its terminal would: nothing new is started, and what runs has a few seconds to end. With --now it is
killed. Results that are there stay; the next run goes on where this one was.")]
pub(crate) struct Cancel {
    #[command(flatten)]
    about: About,
    /// Kill what runs, without waiting
    #[arg(long)]
    now: bool,
}

impl Cancel {
    pub(crate) fn execute(self, global: &Global, output: &mut Output) -> Done {
        let place = Place::find(global, &self.about)?;
        let nothing = || CliError::usage(format!("nothing runs in the store `{}`", place.store.path().display()));
        let holder = place.store.holder()?.ok_or_else(nothing)?;
        let Some(run) = holder.run.clone() else {
            return Err(CliError::usage(format!("the store is in use by {holder}, which is no run")));
        };
        let pid = i32::try_from(holder.pid).ok().filter(|pid| *pid > 1).ok_or_else(nothing)?;
        let signal = || {
            kill(Pid::from_raw(pid), Signal::SIGINT)
                .map_err(|e| CliError::failed(format!("process {pid} cannot be told: {e}")))
        };
        signal()?;
        if self.now {
            thread::sleep(PAUSE);
            // It may have ended meanwhile, which is what was wanted.
            signal().unwrap_or_default();
        }
        output.line(format!("run {run} was told to end{}", if self.now { " at once" } else { "" }))?;
        Ok(ExitCode::SUCCESS)
    }
}
