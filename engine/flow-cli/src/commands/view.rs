//! `flow view`: finds the run and starts `flow-view`, which serves its page. `flow-view` is a separate crate, so other commands
//! do not compile it.

use std::ffi::OsString;
use std::fs;
use std::io::{self, Seek};
use std::os::unix::fs::MetadataExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use clap::Args;
use flow_core::RunId;
use flow_runs::StoreDir;
use flow_store::Import;
use nix::unistd::Uid;

use super::imported::RemadeTexts;
use super::{CommandResult, import, imported};
use crate::{
    args::{Global, OfRun, WorkflowArg},
    error::CliError,
    output::{Output, noted},
    place::{self, StoreLocation},
};

/// A bundle or the folder of a run, and its remade reports.
type ViewTarget = (OsString, RemadeTexts);

/// The name of the program.
const PROGRAM: &str = "flow-view";
/// The clone that this flow was built from.
const CLONE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");

/// Arguments of `flow view`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  flow view                              the active run, or the last one
  flow view 3f2a                         an earlier run
  flow view h200.bundle                  a run that `flow export --bundle` wrote
  flow view ../other/.flow               the active run of another store, or its last one
  flow view 3f2a da47                    two runs, with the changes from the first to the second
  flow view --socket ~/view.sock         on a socket that only you can open, for `ssh -L 8080:FILE`

The page is served to this machine only, and only to a browser that opens the printed link. It only reads files: the run \
does not notice it. The first `flow view` builds the page's server with cargo.")]
pub(crate) struct View {
    /// A run, by its id or the end of it, a bundle, or a store's folder [default: the active run, else the last one]; a
    /// second one is compared with it
    #[arg(value_name = "RUN|BUNDLE|STORE", num_args = 0..=2)]
    what: Vec<String>,
    #[command(flatten)]
    about: WorkflowArg,
    /// The port of the page [default: a free one]
    #[arg(long, default_value_t = 0, hide_default_value = true)]
    port: u16,
    /// Serve on this socket instead of a port
    #[arg(long, value_name = "FILE", conflicts_with = "port")]
    socket: Option<PathBuf>,
}

impl View {
    pub(crate) fn execute(self, global: &Global, output: &mut Output) -> CommandResult {
        let runs: Vec<ViewTarget> = match &self.what[..] {
            [] => vec![self.run(None, global, output)?],
            named => named.iter().map(|what| self.named(what, global, output)).collect::<Result<_, _>>()?,
        };
        let (mut arguments, reports): (Vec<OsString>, Vec<RemadeTexts>) = runs.into_iter().unzip();
        match self.socket {
            Some(file) => arguments.extend(["--socket".into(), file.into()]),
            None => arguments.extend(["--port".into(), self.port.to_string().into()]),
        }
        let program = program(output)?;
        let mut command = Command::new(&program);
        if reports.iter().any(|of| !of.is_empty()) {
            command.arg("--reports").stdin(input(&reports)?);
        }
        let error = command.args(arguments).exec();
        Err(CliError::failed(format!("`{}` cannot be started: {error}", program.display())))
    }

    /// A bundle, a run, or the last run of a store's folder.
    fn named(&self, what: &str, global: &Global, output: &mut Output) -> Result<ViewTarget, CliError> {
        let file = Path::new(what);
        if file.is_file() {
            return Ok((file.into(), imported::of_bundle(import::read(file)?, output)?));
        }
        let shown = file.display();
        let folder = |output: &mut Output| match StoreDir::existing(file)? {
            Some(_) => last(&Global { store: Some(file.to_owned()), ..global.clone() }, output),
            None => Err(CliError::usage(format!(
                "`{shown}` is a folder and not a store; name a run by its id, or a bundle"
            ))),
        };
        match file.components().count() > 1 || file.extension().is_some_and(|end| end == "bundle") {
            true if file.is_dir() => folder(output),
            true => Err(CliError::usage(format!("there is no bundle `{shown}`"))),
            // A folder may have the same name as a run.
            false => match self.run(Some(what), global, output) {
                Err(_) if file.is_dir() => folder(output),
                run => run,
            },
        }
    }

    /// The folder of the requested run; without one, of the active or the last run.
    fn run(&self, asked: Option<&str>, global: &Global, output: &mut Output) -> Result<ViewTarget, CliError> {
        let place = StoreLocation::find(global, self.about.workflow.as_deref())?;
        let active = if asked.is_none() { place.living()?.pop().map(|one| one.run.0) } else { None };
        let of = OfRun { about: self.about.clone(), run: active.or_else(|| asked.map(str::to_owned)) };
        let place = StoreLocation::of_workflow(global, &of, output)?;
        shown(&place, &place.run(of.run.as_deref())?, output)
    }
}

/// The active run of a store, or the last one.
fn last(global: &Global, output: &mut Output) -> Result<ViewTarget, CliError> {
    let place = StoreLocation::find(global, None)?;
    let active = place.living()?.pop().map(|one| one.run);
    let run = active.map_or_else(|| place.run(None), Ok)?;
    shown(&place, &run, output)
}

/// The folder of a run. An imported run has no report files, so they are made.
fn shown(place: &StoreLocation, run: &RunId, output: &mut Output) -> Result<ViewTarget, CliError> {
    let dir = place.store.run(run);
    if Import::run_in(&dir)?.is_none() {
        return Ok((dir.path().into(), RemadeTexts::new()));
    }
    let (dir, view) = place::view_of(&place.store, run)?;
    Ok((dir.path().into(), imported::for_page(&place.store, &dir, &view, output)?))
}

/// A file without a name that has these reports.
fn input(reports: &[RemadeTexts]) -> Result<Stdio, CliError> {
    let write = || {
        let mut file = tempfile::tempfile()?;
        serde_json::to_writer(&file, reports)?;
        file.rewind()?;
        Ok(file)
    };
    let cannot = |e: io::Error| CliError::failed(format!("no temporary file can be written: {e}"));
    write().map(Stdio::from).map_err(cannot)
}

/// The program, built before if it is missing or older than this flow.
fn program(output: &mut Output) -> Result<PathBuf, CliError> {
    let own = std::env::current_exe().map_err(|e| CliError::failed(format!("flow's program was not found: {e}")))?;
    let beside = own.with_file_name(PROGRAM);
    let age = |path: &Path| fs::metadata(path).and_then(|meta| meta.modified()).ok();
    // A build for development has the other program of that build.
    let is_new = |made| cfg!(debug_assertions) || age(&own).is_none_or(|own| made >= own);
    if age(&beside).is_some_and(is_new) {
        return Ok(beside);
    }
    match built(output) {
        Some(built) => built,
        None if beside.is_file() => Ok(beside),
        None => Err(CliError::failed(format!("`{PROGRAM}` is not installed next to `flow`"))
            .hint("`cargo install --path engine/flow-view`, in a clone of flow, installs it")),
    }
}

/// Builds it from the clone, if that is still there and belongs to this user or to root.
fn built(output: &mut Output) -> Option<Result<PathBuf, CliError>> {
    let clone = fs::canonicalize(CLONE).ok()?;
    let owner = fs::metadata(clone.join("engine").join(PROGRAM)).ok()?.uid();
    if ![Uid::effective().as_raw(), 0].contains(&owner) {
        return None;
    }
    let target = clone.join("target");
    let program = target.join("release").join(PROGRAM);
    if !program.is_file() {
        drop(output.note(noted("building the page's server, once; this may take a few minutes")));
    }
    let cargo = Command::new("cargo")
        .args(["build", "--quiet", "--release", "-p", PROGRAM, "--target-dir"])
        .arg(&target)
        .current_dir(&clone)
        .status();
    match cargo {
        Ok(status) if status.success() => Some(Ok(program)),
        Ok(_) => Some(Err(CliError::failed(format!("`{PROGRAM}` cannot be built from `{}`", clone.display())))),
        // Without cargo, one that is installed will do.
        Err(_) => None,
    }
}
