//! `flow get`.

use std::path::{Path, PathBuf};

use clap::Args;
use flow_core::{Artifact, Outcome, StepResult};
use flow_store::{LostOutput, Objects};

use super::{CommandResult, find};
use crate::{
    args::{Global, OfRun},
    error::CliError,
    output::Output,
    place::{self, StoreLocation},
    screen::{InstanceState, InstanceView, View, each_result, is_failure},
    words,
};

/// What the target of a folder means.
#[derive(PartialEq, Eq)]
enum FolderTarget {
    /// The target ends in `.csv`, and this is the folder's only such file.
    File(PathBuf),
    /// The target has files of the folder already.
    Copied,
    Other,
}

/// Arguments of `flow get`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  flow get train --to out                          out/model.pt; for several instances out/train[lr=0.1]/model.pt
  flow get 'train[lr=0.1]' model --to best.pt      one output of one instance, under this name
  flow get table --to table.csv                    the CSV of a table")]
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
    pub(crate) fn execute(self, global: &Global, output: &mut Output) -> CommandResult {
        let (place, _, view) = place::run_with(global, &self.of, &self.step, |shown| !shown.is_unread(), output)?;
        let results = place::results(&place.store, output)?;
        let mut found = Vec::new();
        each_result(find(&view, &self.step)?, &results, &place.store, |shown, result| {
            found.extend(result.map(|result| (&*shown.label, result)));
            Ok(())
        })?;
        if found.iter().all(|(_, result)| result.outputs.is_empty()) {
            self.failed(&view, &place)?;
        }
        let wanted = self.wanted(&found)?;
        let alone = found.len() == 1;
        let objects = Objects::of(&place.store);
        for (label, result) in &found {
            for (name, artifact) in result.outputs.iter().filter(|(name, _)| wanted.contains(name)) {
                let file = result.paths.get(name).map_or(name, |path| path);
                let file = Path::new(file).file_name().unwrap_or(name.as_ref());
                let inside =
                    if alone && wanted.len() == 1 { self.inside(&objects, artifact)? } else { FolderTarget::Other };
                let to = match (alone, wanted.len()) {
                    // An existing folder is filled, as `cp` does.
                    (true, 1) if !self.to.is_dir() || inside == FolderTarget::Copied => self.to.clone(),
                    (true, _) => self.to.join(file),
                    (false, _) => self.to.join(label.replace('/', "_")).join(file),
                };
                if to.symlink_metadata().is_ok() {
                    let there = CliError::usage(format!("`{}` exists already", to.display()));
                    return Err(there.hint("remove it, or choose another place with --to"));
                }
                if let Some(damage) = objects.verify_content(artifact)? {
                    let lost = LostOutput { output: name.clone(), damage };
                    let damaged = CliError::failed(format!("`{label}`: {lost}"));
                    return Err(
                        damaged.hint("`flow doctor --contents` drops damaged files; `flow run` then makes them again")
                    );
                }
                let bytes = match inside {
                    FolderTarget::File(path) => write(&objects.read(&artifact.digest, path)?, &to)?,
                    _ => {
                        objects.copy_out(&artifact.digest, &to)?;
                        artifact.bytes
                    }
                };
                output.line(format!("{}  ({label}, {})", to.display(), words::bytes(bytes)))?;
            }
        }
        Ok(())
    }

    /// How a folder from the store relates to the target.
    fn inside(&self, objects: &Objects, artifact: &Artifact) -> Result<FolderTarget, CliError> {
        let Some(manifest) = objects.manifest(&artifact.digest)? else { return Ok(FolderTarget::Other) };
        if self.to.is_dir() {
            let is_there = manifest.entries.iter().any(|entry| self.to.join(&entry.path).symlink_metadata().is_ok());
            return Ok(if is_there { FolderTarget::Copied } else { FolderTarget::Other });
        }
        let is_csv = |path: &Path| path.extension().is_some_and(|end| end == "csv");
        let mut files = manifest.entries.into_iter().map(|entry| entry.path).filter(|path| is_csv(path));
        Ok(match (files.next(), files.next()) {
            (Some(file), None) if is_csv(&self.to) => FolderTarget::File(file),
            _ => FolderTarget::Other,
        })
    }

    /// Reports that the step failed in the last run, and which run has its outputs.
    fn failed(&self, view: &View, place: &StoreLocation) -> Result<(), CliError> {
        let asked = |shown: &&InstanceView| flow_core::selects(&self.step, &shown.label);
        let failed = |shown: &InstanceView| match shown.state {
            InstanceState::Done(outcome) | InstanceState::Settled(outcome) => is_failure(outcome),
            _ => false,
        };
        let Some(start) = view.start.as_ref().filter(|_| self.of.run.is_none()) else { return Ok(()) };
        if !view.instances.values().filter(asked).any(failed) {
            return Ok(());
        }
        let error = CliError::usage(format!("`{}` failed in the last run", self.step));
        let ended_well = |shown: &InstanceView| matches!(shown.state, InstanceState::Done(Outcome::Ok));
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

/// Writes a file, with the folders above it. Returns its size.
fn write(bytes: &[u8], to: &Path) -> Result<u64, CliError> {
    to.parent()
        .map_or(Ok(()), std::fs::create_dir_all)
        .and_then(|()| std::fs::write(to, bytes))
        .map_err(|e| CliError::failed(format!("`{}` cannot be written: {e}", to.display())))?;
    Ok(bytes.len() as u64)
}
