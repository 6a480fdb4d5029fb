//! `flow cancel`.

use std::os::unix::fs::MetadataExt;
use std::process::ExitCode;
use std::thread;
use std::time::Duration;

use clap::Args;
use flow_store::{End, RunDir, StoreError};
use nix::unistd::{Uid, User};

use super::Done;
use crate::args::{About, Global};
use crate::error::CliError;
use crate::output::Output;
use crate::place::Place;

/// How often is looked whether the run has heard of it, and how many times.
const LOOK: Duration = Duration::from_millis(50);
const LOOKS: u32 = 60;

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
        let Some(run) = &holder.run else {
            return Err(CliError::usage(format!("the store is in use by {holder}, which is no run")));
        };
        let folder = place.store.run(run);
        if let Some(owner) = others(&folder) {
            return Err(CliError::failed(format!("run {run} is of {owner}, in {holder}; only they can end it"))
                .hint("ask them, or wait for it with `flow attach`"));
        }
        folder.tell_to_end(if self.now { End::Now } else { End::Soon }).map_err(|error| match error {
            // It has ended, and is no more.
            StoreError::Io { source, .. } if source.kind() == std::io::ErrorKind::NotFound => nothing(),
            error => error.into(),
        })?;
        output.line(format!("run {run} was told to end{}", if self.now { " at once" } else { "" }))?;
        for _ in 0..LOOKS {
            let running =
                || place.store.holder().is_ok_and(|holder| holder.is_some_and(|h| h.run.as_ref() == Some(run)));
            if !folder.is_told_to_end() || !running() {
                return Ok(ExitCode::SUCCESS);
            }
            thread::sleep(LOOK);
        }
        output
            .note(format!("{holder} has not taken note yet: it is stopped, or very busy; it will when it goes on"))?;
        Ok(ExitCode::SUCCESS)
    }
}

/// Whose a run is, if it is somebody else's.
fn others(run: &RunDir) -> Option<String> {
    let owner = Uid::from_raw(run.path().metadata().ok()?.uid());
    let us = Uid::effective();
    let name = || User::from_uid(owner).ok().flatten().map_or_else(|| format!("user {owner}"), |user| user.name);
    (owner != us && !us.is_root()).then(name)
}
