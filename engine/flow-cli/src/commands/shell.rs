//! `flow shell`.

use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::Command;

use clap::Args;
use flow_supervisor::attempt::Folder;

use super::{CommandResult, find};
use crate::args::{Global, OfRun};
use crate::error::CliError;
use crate::output::Output;
use crate::place::{self, StoreLocation};
use crate::screen::{Attempt, InstanceView, View};
use crate::words;

/// Arguments of `flow shell`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  flow shell train                       a shell in the work folder of a step that failed
  flow shell 'train[lr=0.1]' -- ls -l    a command there

The shell has the variables that the step had, also those for its CPUs and GPUs, but reserves none of \
these. Secrets come from your own shell. flow keeps the work folder of a step that failed until \
`flow gc`.")]
pub(crate) struct Shell {
    /// A step, or an instance such as 'solo[batch=16]'
    step: String,
    #[command(flatten)]
    of: OfRun,
    /// A command instead of a shell
    #[arg(last = true)]
    command: Vec<String>,
}

impl Shell {
    pub(crate) fn execute(self, global: &Global, output: &mut Output) -> CommandResult {
        let (place, _, view) = place::run_with(global, &self.of, &self.step, |_| true, output)?;
        let found = find(&view, &self.step)?;
        let kept = found.iter().filter_map(|shown| Some((*shown, work_folder(&place, &view, shown)?)));
        let kept: Vec<_> = kept.collect();
        let (attempt, work) = match &kept[..] {
            [(_, one)] => one,
            [] => {
                let error = CliError::usage(format!("no work folder of `{}` is left", self.step));
                let kept_until = || "flow keeps the work folder of a step that failed, until `flow gc`".to_owned();
                let gone = found.iter().find_map(|shown| gone(&place, &view, shown));
                return Err(error.hint(gone.map_or_else(kept_until, |gone| {
                    format!("`{}` was removed, but not by flow; `flow logs` has the output", gone.display())
                })));
            }
            [(first, _), ..] => {
                let folders = words::count(kept.len(), "work folder");
                let error = CliError::usage(format!("`{}` left {folders}", self.step));
                return Err(error.hint(format!("choose one: `flow shell '{}'`", first.label)));
            }
        };
        let shell = || vec![std::env::var("SHELL").unwrap_or_else(|_| "/bin/sh".to_owned())];
        let argv = if self.command.is_empty() { shell() } else { self.command };
        output.note(format!("in `{}`", work.display()))?;
        let [program, arguments @ ..] = &argv[..] else { return Err(CliError::usage("there is no command")) };
        let mut command = Command::new(program);
        command.args(arguments).current_dir(work);
        let own = std::env::vars_os().map(|(name, _)| name);
        own.filter(|name| name.as_encoded_bytes().starts_with(b"FLOW_")).for_each(|name| _ = command.env_remove(name));
        for (name, value) in Folder::at(place.store.path().join(&attempt.folder)).variables() {
            match value {
                Some(value) => command.env(name, value),
                None => command.env_remove(name),
            };
        }
        let error = command.exec();
        Err(CliError::failed(format!("cannot start `{program}`: {error}")))
    }
}

/// The work folder of the last attempt of an instance, if it was outside the store and somebody removed it.
fn gone(place: &StoreLocation, view: &View, shown: &InstanceView) -> Option<PathBuf> {
    let last = view.attempts_of(shown).last()?;
    let attempt = Folder::at(place.store.path().join(&last.folder));
    Some(attempt.work()).filter(|work| attempt.is_work_outside() && !work.is_dir())
}

/// The last attempt of an instance, and its work folder, if that is there.
pub(super) fn work_folder<'v>(
    place: &StoreLocation,
    view: &'v View,
    shown: &InstanceView,
) -> Option<(&'v Attempt, PathBuf)> {
    let last = view.attempts_of(shown).last()?;
    let work = Folder::at(place.store.path().join(&last.folder)).work();
    work.is_dir().then_some((last, work))
}
