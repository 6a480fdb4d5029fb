//! `flow get`.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Args;
use flow_core::{Outcome, StepResult};
use flow_store::Lost;

use super::{Done, find};
use crate::args::{Global, OfRun};
use crate::error::CliError;
use crate::output::Output;
use crate::place::StoreLocation;
use crate::screen::{InstanceState, Shown, View, each_result, is_failure};
use crate::{place, words};

/// Arguments of `flow get`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  flow get train --to out                          out/model.pt; for several instances out/train[lr=0.1]/model.pt
  flow get 'train[lr=0.1]' model --to best.pt      one output of one instance, under this name")]
pub(crate) struct Get {
    /// A step, or an instance such as 'train[lr=0.1]'
    step: String,
    /// The name of an output [default: all]
    name: Option<String>,
    /// The file or folder to write
    #[arg(long, value_name = "PATH")]
    to: PathBuf,
    #[command(flatten)]
    of: OfRun,
}

impl Get {
    pub(crate) fn execute(self, global: &Global, output: &mut Output) -> Done {
        let (place, _, view) = place::run_with(global, &self.of, &self.step, |shown| !shown.is_unread(), output)?;
        let results = place::results(&place.store, output)?;
        let mut found = Vec::new();
        each_result(find(&view, &self.step)?, &*results, &place.store, |shown, result| {
            found.extend(result.map(|result| (&*shown.label, result)));
            Ok(())
        })?;
        if found.iter().all(|(_, result)| result.outputs.is_empty()) {
            self.failed(&view, &place)?;
        }
        let wanted = self.wanted(&found)?;
        let alone = found.len() == 1;
        let objects = place.store.objects();
        for (label, result) in &found {
            for (name, artifact) in result.outputs.iter().filter(|(name, _)| wanted.contains(name)) {
                let file = result.paths.get(name).map_or(name, |path| path);
                let file = Path::new(file).file_name().unwrap_or(name.as_ref());
                let to = match (alone, wanted.len()) {
                    // An existing folder is filled, as `cp` does.
                    (true, 1) if !self.to.is_dir() => self.to.clone(),
                    (true, _) => self.to.join(file),
                    (false, _) => self.to.join(label.replace('/', "_")).join(file),
                };
                if to.symlink_metadata().is_ok() {
                    let there = CliError::usage(format!("`{}` exists already", to.display()));
                    return Err(there.hint("remove it, or choose another place with --to"));
                }
                if let Some(damage) = objects.verify_content(artifact)? {
                    let lost = Lost { output: name.clone(), damage };
                    let damaged = CliError::failed(format!("`{label}`: {lost}"));
                    return Err(
                        damaged.hint("`flow doctor --contents` drops damaged files; `flow run` then makes them again")
                    );
                }
                objects.copy_out(&artifact.digest, &to)?;
                output.line(format!("{}  ({label}, {})", to.display(), words::bytes(artifact.bytes)))?;
            }
        }
        Ok(ExitCode::SUCCESS)
    }

    /// Reports that the step failed in the last run, and which run has its outputs.
    fn failed(&self, view: &View, place: &StoreLocation) -> Result<(), CliError> {
        let asked = |shown: &&Shown| flow_core::selects(&self.step, &shown.label);
        let failed = |shown: &Shown| match shown.state {
            InstanceState::Done(outcome) | InstanceState::Settled(outcome) => is_failure(outcome),
            _ => false,
        };
        let Some(start) = view.start.as_ref().filter(|_| self.of.run.is_none()) else { return Ok(()) };
        if !view.instances.values().filter(asked).any(failed) {
            return Ok(());
        }
        let error = CliError::usage(format!("`{}` failed in the last run", self.step));
        let ended_well = |shown: &Shown| matches!(shown.state, InstanceState::Done(Outcome::Ok));
        let mut earlier = place.earlier(start)?;
        Err(match earlier.find(|(_, _, view)| view.instances.values().filter(asked).any(ended_well)) {
            Some((run, ..)) => error.hint(format!("run {run} has its outputs: --run {run}")),
            None => error.hint(format!("`flow show {}` says why", self.step)),
        })
    }

    /// The names of the outputs to get.
    fn wanted<'r>(&self, found: &'r [(&str, StepResult)]) -> Result<Vec<&'r String>, CliError> {
        let mut names: Vec<&String> = found.iter().flat_map(|(_, result)| result.outputs.keys()).collect();
        names.sort();
        names.dedup();
        if names.is_empty() {
            let none = CliError::usage(format!("`{}` has no outputs", self.step));
            return Err(none.hint(format!("`flow show {}` shows what it has", self.step)));
        }
        let Some(name) = &self.name else { return Ok(names) };
        let all = names.iter().map(|name| name.as_str()).collect::<Vec<_>>().join(", ");
        // By its name, or by its file in the work folder.
        let paths = |output: &String| found.iter().filter_map(|(_, result)| result.paths.get(output)).next();
        let is_file = |output: &String| paths(output).is_some_and(|path| Path::new(path).ends_with(name));
        names.retain(|output| *output == name || is_file(output));
        if names.is_empty() {
            return Err(
                CliError::usage(format!("`{}` has no output `{name}`", self.step)).hint(format!("it has {all}"))
            );
        }
        Ok(names)
    }
}
