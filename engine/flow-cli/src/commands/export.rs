//! `flow export`.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use clap::Args;
use flow_core::why::written_changes;
use flow_core::{Bundle, Digest, LONGEST_BUNDLE, Origin, Place, RunStart, StepId, StepResult};
use flow_exec::{Private, Session};
use flow_supervisor::hardware::host_name;

use super::CommandResult;
use crate::args::{Global, OfRun, Selection, WorkflowArg};
use crate::builtins::Steps;
use crate::error::CliError;
use crate::output::{GOOD, Output, noted, styled};
use crate::place::StoreLocation;
use crate::screen::{InstanceState, View, each_result, is_failure};
use crate::{place, words};

/// Arguments of `flow export`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  flow export --bundle h200.bundle           the last run, for another machine to import
  flow export 20260208-153012-3f2a --bundle h200.bundle --as lab4
  flow export --bundle h200.bundle --inputs  with the scripts, so that `flow diff` shows changed lines

A bundle carries a whole run: its results, journal and tables, its series (at most 300 points each), the workflow file, \
and the digests of commands and input files. It has no logs and no artifacts, no names of machines or people, and only \
the last part of folder paths. With --inputs, the texts of the inputs go along as they are. `zcat` prints it.")]
pub(crate) struct Export {
    /// The run, by its id or the end of it [default: the workflow's last]
    #[arg(value_name = "RUN")]
    run: Option<String>,
    /// The file to write
    #[arg(long, value_name = "FILE")]
    bundle: PathBuf,
    /// The machine's name in the bundle [default: `machine-` and four digits that do not reveal its
    /// name]
    #[arg(long = "as", value_name = "NAME")]
    name: Option<String>,
    /// Add the text of the run's scripts and other inputs: each text file of at most 256 KiB
    /// that has no secret
    #[arg(long)]
    inputs: bool,
    #[command(flatten)]
    about: WorkflowArg,
}

/// Whether the path is free, or a bundle that may be replaced.
fn is_replaced(file: &Path) -> bool {
    /// A bundle is recognised by its first bytes.
    const BEGINNING: u64 = 4096;
    match File::open(file) {
        Ok(file) => {
            let mut found = Vec::new();
            file.take(BEGINNING).read_to_end(&mut found).is_ok() && Bundle::is_one(&found)
        }
        Err(error) => error.kind() == io::ErrorKind::NotFound,
    }
}

/// The same name in all bundles of a machine, but not its real one.
fn pseudonym(host: &str) -> String {
    format!("machine-{}", &Digest::of(format!("flow machine {host}").as_bytes()).to_string()[..4])
}

/// A text without identifying words: serial numbers of GPUs, the machine's name, folders.
fn hide(text: &str, gpus: &BTreeMap<String, String>, host: &str) -> String {
    let mut text = without_word(text, host);
    for (uuid, name) in gpus {
        if text.contains(uuid) {
            text = text.replace(uuid, name);
        }
    }
    flow_report::without_folders(&text)
}

/// A text without the machine's name, if that is a separate word. A short or common name could be
/// any word.
fn without_word(text: &str, word: &str) -> String {
    const SHORTEST: usize = 4;
    if word.len() < SHORTEST || word == "localhost" || !text.contains(word) {
        return text.to_owned();
    }
    let is_part = |c: char| c.is_alphanumeric() || c == '-' || c == '_';
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find(word) {
        let end = at + word.len();
        let inside = rest[..at].ends_with(is_part) || rest[end..].starts_with(is_part);
        out.push_str(&rest[..at]);
        out.push_str(if inside { word } else { "machine" });
        rest = &rest[end..];
    }
    out + rest
}

/// A file without this machine's folders; its meaning stays the same.
fn without_home(text: &str, root: &Path) -> String {
    let home = std::env::var("HOME").unwrap_or_default();
    let mut text = text.to_owned();
    for (folder, name) in [(&*root.to_string_lossy(), "."), (&*home, "~")] {
        // `/` itself identifies nobody.
        if folder.len() > 1 {
            text = text.replace(folder, name);
        }
    }
    text
}

/// Warns that a run is incomplete: an importer cannot see that more results were planned.
fn unfinished(view: &View, is_running: bool, results: usize) -> Option<String> {
    let needed = view.instances.values().filter(|shown| !matches!(shown.state, InstanceState::NotNeeded));
    let of = format!("{} of {}", words::thousands(results), words::count(needed.count(), "result"));
    let failed = view.instances.values().filter(|shown| match shown.state {
        InstanceState::Settled(outcome) => is_failure(outcome),
        _ => false,
    });
    let failed: Vec<&str> = failed.map(|shown| &*shown.label).collect();
    let which = if failed.is_empty() { String::new() } else { format!("; failed: {}", words::named(&failed)) };
    match view.exit {
        Some(0) => None,
        None if is_running => Some(format!("is still running: {of} so far{which}")),
        None => Some(format!("was killed: {of}{which}")),
        Some(130) => Some(format!("was interrupted: {of}{which}")),
        Some(_) => Some(format!("failed: {of}{which}")),
    }
}

/// The workflow of the run, which is in the bundle. Warns if the file is missing or was edited.
fn workflow(
    place: &StoreLocation,
    start: &RunStart,
    view: &View,
    global: &Global,
    output: &mut Output,
) -> Result<Option<Session>, CliError> {
    let file = place.workspace.root.join(&start.file);
    let profile = start.profile.as_ref().map(|(name, _)| name.clone());
    let selection = Selection { set: start.set.clone(), profile, ..Selection::default() };
    let request = place::request(global, file, &selection);
    let on_batch = start.on.is_some_and(Place::is_batch);
    let session = match Session::imagine(&request, &Steps::default(), start.machine.clone(), on_batch) {
        Ok(session) => session,
        Err(error) => {
            let text = format!("the bundle has no workflow, so nobody can remake its report: {error}");
            output.error(noted(text))?;
            return Ok(None);
        }
    };
    let steps = (0..).map(StepId).zip(&session.expansion.steps).filter(|(_, step)| !step.instances.is_empty());
    let now = steps.map(|(id, step)| (step.name.clone(), session.expansion.written(id))).collect();
    if !written_changes(&view.written, &now, !start.targets.is_empty()).is_empty() {
        let text = format!("`{}` was edited since the run; the bundle has the edited file", start.file);
        output.error(noted(text))?;
    }
    Ok(Some(session))
}

impl Export {
    pub(crate) fn execute(self, global: &Global, output: &mut Output) -> CommandResult {
        let (place, dir, view) = place::run(global, &OfRun { about: self.about, run: self.run }, output)?;
        if let Some(origin) = &view.imported {
            let text =
                format!("these results were imported from {}: export them from the store that made them", origin.host);
            return Err(CliError::usage(text));
        }
        let Some(start) = &view.start else {
            return Err(CliError::usage("that run was killed before its journal began"));
        };
        let results = place::results(&place.store, output)?;
        let mut found: Vec<StepResult> = Vec::new();
        each_result(view.instances.values(), &results, &place.store, |_, result| {
            found.extend(result);
            Ok(())
        })?;
        let host = host_name();
        let origin = Origin {
            host: self.name.clone().unwrap_or_else(|| pseudonym(&host)),
            machine: start.machine.clone(),
            flow: start.flow.clone(),
            run: start.run.clone(),
            began: view.started_at,
            workflow: start.workflow.clone(),
        };
        let session = workflow(&place, start, &view, global, output)?;
        let gpus = start.machine.gpus.iter().map(|gpu| gpu.uuid.clone());
        let gpus = gpus.chain(view.attempts.values().flat_map(|attempt| attempt.gpus.clone()));
        let gpus = gpus.chain(found.iter().flat_map(|result| result.circumstances.gpus.clone()));
        let gpus: BTreeSet<String> = gpus.filter(|uuid| !uuid.is_empty()).collect();
        let gpus = gpus.into_iter().enumerate().map(|(n, uuid)| (uuid, format!("gpu{n}"))).collect();
        let private = Private {
            text: &|text| hide(text, &gpus, &host),
            file: &|text| without_home(&without_word(text, &host), &place.workspace.root),
        };
        let run = flow_exec::carry(&dir, &start.run, &found, session.as_ref(), &private, self.inputs)?;
        let texts = flow_exec::input_text_count(&run);
        let bundle = Bundle::of(origin, run);
        if bundle.results.is_empty() {
            return Err(CliError::usage(format!("run {} has no result to export", bundle.origin.run)));
        }
        let bytes = bundle.bytes();
        if bytes.len() as u64 > LONGEST_BUNDLE {
            let longest = words::bytes(LONGEST_BUNDLE);
            return Err(CliError::failed(format!(
                "the results have {}; a bundle has at most {longest}",
                words::bytes(bytes.len() as u64)
            ))
            .hint("export without `--inputs`, or runs of parts of the workflow: `flow run FILE STEP…`"));
        }
        // Checks that the bundle can be imported: its machine name may be invalid, or a line too
        // long.
        if let Err(why) = Bundle::read(&bytes) {
            return Err(CliError::usage(format!("this bundle could not be imported: {why}")));
        }
        let shown = self.bundle.display();
        if !is_replaced(&self.bundle) {
            return Err(CliError::usage(format!("`{shown}` exists and is not a bundle"))
                .hint("choose another name or move the file away: flow replaces only bundles"));
        }
        flow_exec::text::replace(&self.bundle, &bytes)
            .map_err(|e| CliError::failed(format!("`{shown}` cannot be written: {e}")))?;
        let count = words::count(bundle.results.len(), "result");
        let (host, run) = (&bundle.origin.host, &bundle.origin.run);
        output.line(format!(
            "{} {count} of run {run} on {host}, {}: {shown}",
            styled(GOOD, "exported"),
            words::bytes(bytes.len() as u64)
        ))?;
        output.line(match self.inputs {
            true => format!("  with the workflow file and {}", words::count(texts, "input text")),
            false => {
                "  with the workflow file, without the text of scripts: `--inputs` adds it, and `flow diff` shows \
                      changed lines"
                    .to_owned()
            }
        })?;
        if let Some(how) = unfinished(&view, dir.lives().is_some(), bundle.results.len()) {
            output.note(noted(format_args!("run {run} {how}")))?;
        }
        Ok(())
    }
}
