//! Uses of an imported run beyond reading it: its reports, remade by this flow, and plans and
//! predictions for its machine. All come from the contents of its bundle.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use flow_core::{
    Builtins, Bundle, InstanceId, Outcome, Place, PublishJob, PublishWhat, Replace, RunEvent, RunId, RunStart,
    StepResult, reason::ProfileReason,
};
use flow_exec::{Knowledge, RemadeFiles, Session, SessionRequest};
use flow_runs::{RunDir, StoreDir};
use flow_store::{Import, Objects};

use super::diff;
use crate::{
    args::{Global, Selection},
    at_hand,
    builtins::Steps,
    error::CliError,
    output::{Output, noted},
    place::{self, StoreLocation},
    screen::{InstanceState, View, each_result},
    words,
};

/// Every report of the run, by step name. The workflow is the bundle's, or the named one, which may
/// show the same results in other tables. Tables with `machines: true` also show what `store` has
/// from other machines.
pub(super) fn reports(
    store: &StoreDir,
    dir: &RunDir,
    view: &View,
    named: Option<&Path>,
    output: &mut Output,
) -> Result<Vec<(String, RemadeFiles)>, CliError> {
    let (Some(start), Some(origin)) = (&view.start, &view.imported) else { return Ok(Vec::new()) };
    let builtins = Steps::default();
    let mut session = session(dir, start, named, &Selection::default(), &builtins)?;
    session.expansion.imported = flow_exec::foreign_results(store, &session.expansion.workflow, &origin.host)?;
    let mut results: BTreeMap<String, StepResult> = BTreeMap::new();
    let mut observed: BTreeMap<String, StepResult> = BTreeMap::new();
    let kept = place::results(dir.store(), output)?;
    each_result(view.instances.values(), &kept, dir.store(), |shown, result| {
        results.extend(result.map(|result| (shown.label.clone(), result)));
        Ok(())
    })?;
    // A failed result is in no store, but tables show it: its last state is used.
    dir.read_journal(|line| {
        if let RunEvent::Observed { result } = line.event
            && result.run == start.run
        {
            observed.insert(result.label.clone(), *result);
        }
    })?;
    for shown in view.instances.values() {
        if let InstanceState::Settled(Outcome::Failed) = shown.state
            && let Some(seen) = observed.remove(&shown.label)
        {
            results.entry(shown.label.clone()).or_insert(seen);
        }
    }
    let mut reports = Vec::new();
    for remade in flow_exec::remake(&session, &builtins, &results, &Objects::of(dir.store())) {
        match remade.files {
            Ok(files) if remade.is_report => reports.push((remade.label, files)),
            Ok(_) => {}
            Err(why) => output.error(noted(format_args!("{}: {why}", remade.label)))?,
        }
    }
    Ok(reports)
}

/// The texts of remade reports, by the instance that made each.
pub(super) type RemadeTexts = BTreeMap<InstanceId, BTreeMap<String, String>>;

/// The reports of an imported run for its page. A run whose reports cannot be made is shown without them.
pub(super) fn for_page(
    store: &StoreDir,
    dir: &RunDir,
    view: &View,
    output: &mut Output,
) -> Result<RemadeTexts, CliError> {
    let made = match reports(store, dir, view, None, output) {
        Ok(made) => made,
        Err(error) => {
            let _ = error.report(output);
            output.note(noted("the page shows no report"))?;
            return Ok(RemadeTexts::new());
        }
    };
    let id = |label: &str| view.instances.iter().find(|(_, shown)| shown.label == label).map(|(id, _)| *id);
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let texts = |files: RemadeFiles| files.into_iter().map(|(name, bytes)| (name, text(&bytes))).collect();
    Ok(made.into_iter().filter_map(|(label, files)| Some((id(&label)?, texts(files)))).collect())
}

/// The same for a bundle that is not imported. It is unpacked into a folder that is removed afterwards.
pub(super) fn of_bundle(bundle: Bundle, output: &mut Output) -> Result<RemadeTexts, CliError> {
    let cannot = |e: std::io::Error| CliError::failed(format!("no temporary folder can be created: {e}"));
    let folder = tempfile::tempdir().map_err(cannot)?;
    let store = StoreDir::create(folder.path())?;
    let name = || RunId("20000101-000000-0000".to_owned());
    let run = Import::add(&store, bundle, 0, |_| name())?.unwrap_or_else(name);
    let (dir, view) = place::view_of(&store, &run)?;
    for_page(&store, &dir, &view, output)
}

/// The run's workflow, or the named one, with the run's machine and parameters.
fn session(
    dir: &RunDir,
    start: &RunStart,
    named: Option<&Path>,
    selection: &Selection,
    builtins: &Steps,
) -> Result<Session, CliError> {
    // The store of an import is inside its workspace.
    let root = dir.store().path().parent().unwrap_or(Path::new("."));
    let file = named.map_or_else(|| root.join(&start.file), Path::to_path_buf);
    if !file.is_file() {
        let none = CliError::usage(format!("the bundle has no workflow `{}`", start.file));
        return Err(none.hint("name it with -w FILE; `flow show STEP` prints the tables"));
    }
    let profile = start.profile.as_ref().filter(|(_, why)| matches!(why, ProfileReason::Requested));
    let plugins = root.join("plugins");
    let request = SessionRequest {
        file,
        params: selection.params.clone(),
        set: start.set.iter().chain(&selection.set).cloned().collect(),
        profile: selection.profile.clone().or_else(|| profile.map(|(name, _)| name.clone())),
        plugin_digests: if named.is_none() { flow_exec::plugin_digests(&plugins) } else { BTreeMap::new() },
        plugin_dirs: if named.is_none() && plugins.is_dir() { vec![plugins] } else { Vec::new() },
        any_machine: true,
        ..SessionRequest::default()
    };
    Ok(Session::imagine(&request, builtins, start.machine.clone(), start.on.is_some_and(Place::is_batch))?)
}

/// The session of `flow plan --run` and `flow predict --run`: the workflow on an imported run's
/// machine, with its measurements. Without `--run` this is the default if there is no workflow here
/// and only an imported run.
pub(super) fn imported_session(
    global: &Global,
    run: Option<&str>,
    named: Option<&Path>,
    selection: &Selection,
    output: &mut Output,
) -> Result<Option<(Session, Knowledge)>, CliError> {
    if run.is_none() && (named.is_some() || at_hand::choose(Path::new("."), || None).is_ok()) {
        return Ok(None);
    }
    let found =
        StoreLocation::find(global, None).and_then(|place| place.view(run).map(|(dir, view)| (place, dir, view)));
    let (place, dir, view) = match found {
        Ok(found) => found,
        Err(_) if run.is_none() => return Ok(None),
        Err(error) => return Err(error),
    };
    let (Some(origin), Some(start)) = (&view.imported, &view.start) else {
        return match run {
            None => Ok(None),
            Some(run) => Err(CliError::usage(format!("`{run}` is not an imported run with a workflow"))
                .hint("`flow runs` lists them; --run is not needed for runs of this machine")),
        };
    };
    let session = session(&dir, start, named, selection, &Steps::default())?;
    let machine = &start.machine;
    let cpus = format!("{} {}", words::count(machine.cpus as usize, "CPU"), machine.cpu_model);
    let what = machine.gpus.first().map_or(cpus, |gpu| format!("{} × {}", machine.gpus.len(), gpu.name));
    let run = view.id_here(&start.run).clone();
    output.note(format!("for {} ({what}), from imported run {run}", origin.host))?;
    let knowledge = Knowledge::of(dir.store(), &place::doing())?;
    let own = place.workspace.root.join(&start.file);
    let here = named.map(Path::to_path_buf).or_else(|| own.is_file().then_some(own));
    // Only the answer matters: a workflow here that cannot be read is none.
    let differs = here.and_then(|file| diff::since_import(global, (&place, &dir, view), &file, output).ok());
    if let Some(what) = differs.and_then(|(inputs, workflow)| differing(&inputs, workflow)) {
        let text = format!("{what} here: the answer is for the version of that run; `flow diff {run} now` shows both");
        output.note(noted(text))?;
    }
    Ok(Some((session, knowledge)))
}

/// `train.py and the workflow differ`.
fn differing(inputs: &BTreeSet<String>, workflow: bool) -> Option<String> {
    let mut names: Vec<&str> = inputs.iter().map(String::as_str).collect();
    names.extend(workflow.then_some("the workflow"));
    let verb = if names.len() == 1 { "differs" } else { "differ" };
    (!names.is_empty()).then(|| format!("{} {verb}", words::named(&names)))
}

/// If nothing is known, names the imported run that knows something.
pub(super) fn remind(session: &Session, output: &mut Output) -> Result<(), CliError> {
    let Some(store) = session.workspace.existing_store()? else { return Ok(()) };
    let mut imports = Import::all(&store)?;
    imports.retain(|import| import.origin.workflow == session.expansion.workflow);
    let Some(Import { id, origin, .. }) = imports.pop() else { return Ok(()) };
    let text = format!("run {id} of it was imported from {}: `--run {id}` answers for that machine", origin.host);
    Ok(output.note(noted(text))?)
}

/// Writes a report and its charts as `publish:` does. Returns the files.
pub(super) fn publish(files: RemadeFiles, to: &Path) -> Result<Vec<PathBuf>, CliError> {
    let target = to.file_name().map(|name| name.to_string_lossy().into_owned());
    let target = target.ok_or_else(|| CliError::usage(format!("`{}` is not a file name", to.display())))?;
    let job = PublishJob {
        files,
        what: PublishWhat::Report,
        target,
        existing: None,
        whats_new: BTreeMap::new(),
        report: None,
        replace: Replace::Always,
    };
    let publication = Steps::default().publish(&job).map_err(CliError::usage)?;
    let folder = to.parent().unwrap_or(Path::new(""));
    let mut written = Vec::new();
    for file in publication.files {
        let path = folder.join(&file.path);
        path.parent()
            .map_or(Ok(()), std::fs::create_dir_all)
            .and_then(|()| flow_exec::text::replace(&path, &file.bytes))
            .map_err(|e| CliError::failed(format!("`{}` cannot be written: {e}", path.display())))?;
        written.push(path);
    }
    Ok(written)
}
