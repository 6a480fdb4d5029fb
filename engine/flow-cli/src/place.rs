//! Finds the store and the run that a command is about. Reads only, without a lock.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;

use flow_core::{InstanceId, JournalLine, Place, RunEvent, RunId, RunStart};
use flow_exec::{Knowledge, Session, SessionRequest, Workspace};
use flow_runs::{Holder, ProcessIdentity, RunDir, StoreDir};
use flow_store::{Import, RebuiltDatabase, Store};
use flow_supervisor::clock;

use crate::{
    args::{Global, OfRun, Selection, WorkflowArg},
    at_hand,
    error::{self, CliError},
    output::{self, NOTE, Output, noted, styled},
    screen::{InstanceView, View},
    words,
};

mod living;

pub(crate) use living::{LivingRun, orphaned_in_slurm, orphaned_steps, runs_with_jobs};

/// A shorter end of an id does not select an imported run.
const SHORTEST: usize = 4;

/// The default workflow, if none is named; prints its name.
pub(crate) fn default_workflow(global: &Global, output: &mut Output) -> Result<PathBuf, CliError> {
    let last = || {
        let place = StoreLocation::find(global, None).ok()?;
        let start = start(&place.store.run(&place.run(None).ok()?)).ok()??;
        let file = PathBuf::from(near(&place.workspace.root.join(start.file)));
        file.is_file().then_some(file)
    };
    let file = at_hand::choose(Path::new("."), last)?;
    print_workflow(&file, output)?;
    Ok(file)
}

/// A store that exists, and its workspace.
pub(crate) struct StoreLocation {
    pub(crate) workspace: Workspace,
    pub(crate) store: StoreDir,
    /// The workflow that was named, as journals name it.
    file: Option<String>,
}

impl StoreLocation {
    /// The store of this workflow, else of the current folder.
    pub(crate) fn find(global: &Global, workflow: Option<&Path>) -> Result<StoreLocation, CliError> {
        let workspace = workspace(global, workflow)?;
        let store = workspace.existing_store()?.ok_or_else(|| {
            let error =
                CliError::usage(format!("nothing has run here yet: there is no store `{}`", workspace.store.display()));
            error
                .hint("`flow run FILE` creates one; --store or FLOW_STORE selects another one, also one in a subfolder")
        })?;
        let file = workflow.is_some().then(|| workspace.name(&workspace.file));
        Ok(StoreLocation { workspace, store, file })
    }

    /// The store for a command about one workflow: the named one, else the only one in this folder.
    /// If there is none or several, the command uses the last run; prints its workflow. A requested
    /// run needs no workflow.
    pub(crate) fn of_workflow(global: &Global, of: &OfRun, output: &mut Output) -> Result<StoreLocation, CliError> {
        let named = of.about.workflow.clone();
        let file = named.or_else(|| if of.run.is_some() { None } else { at_hand::only(Path::new(".")) });
        let place = StoreLocation::find(global, file.as_deref())?;
        if file.is_none()
            && of.run.is_none()
            && let Ok(last) = place.run(None)
            && let Some(start) = start(&place.store.run(&last))?
        {
            print_workflow(&place.workspace.root.join(start.file), output)?;
        }
        Ok(place)
    }

    /// The runs of the named workflow, or all runs, oldest first, with their first events. A run
    /// that was killed before its first line is left out.
    pub(crate) fn runs(&self) -> Result<Vec<(RunId, RunStart)>, CliError> {
        let mut found = Vec::new();
        for run in self.store.runs()? {
            if let Some(start) = start(&self.store.run(&run))?
                && self.file.as_ref().is_none_or(|file| *file == start.file)
            {
                found.push((run, start));
            }
        }
        Ok(found)
    }

    /// A few other runs of the same workflow file, newest first. They may have the results that
    /// this run lacks.
    pub(crate) fn earlier(&self, than: &RunStart) -> Result<impl Iterator<Item = (RunId, RunDir, View)>, CliError> {
        const LOOKED_AT: usize = 20;
        let mut runs = self.runs()?;
        runs.retain(|(run, start)| *run != than.run && start.file == than.file);
        // A run of another user may be unreadable.
        let read = |(run, _): (RunId, RunStart)| {
            let (dir, view) = self.view(Some(&run.0)).ok()?;
            Some((run, dir, view))
        };
        Ok(runs.into_iter().rev().take(LOOKED_AT).filter_map(read))
    }

    /// Imported results, oldest first: of the named workflow, or all.
    pub(crate) fn imports(&self) -> Result<Vec<Import>, CliError> {
        let mut imports = Import::all(&self.store)?;
        let Some(file) = &self.file else { return Ok(imports) };
        // The `name:` of the named workflow, from its newest run.
        let workflow = self.runs()?.pop().map(|(_, start)| start.workflow);
        let file_name = |file: &str| file.rsplit('/').next().map(str::to_owned);
        imports.retain(|import| match &workflow {
            Some(workflow) => import.origin.workflow == *workflow,
            // The workflow did not run here; the file has the same name as there.
            None => {
                let there = view_of(&self.store, &import.id).ok().and_then(|(_, view)| view.start);
                there.is_some_and(|start| file_name(&start.file) == file_name(file))
            }
        });
        Ok(imports)
    }

    /// The requested run, by its id or the end of it; else this user's last one, else the last one.
    pub(crate) fn run(&self, asked: Option<&str>) -> Result<RunId, CliError> {
        let Some(asked) = asked else {
            // Newest first, because a store may hold thousands. This user's runs are preferred.
            let mut others = None;
            for run in self.store.runs()?.into_iter().rev() {
                let dir = self.store.run(&run);
                if others.is_some() && dir.others().is_some() {
                    continue;
                }
                if let Some(start) = start(&dir)?
                    && self.file.as_ref().is_none_or(|file| *file == start.file)
                {
                    match dir.others() {
                        None => return Ok(run),
                        Some(_) => others = Some(run),
                    }
                }
            }
            if let Some(run) = others {
                return Ok(run);
            }
            if let Some(import) = self.imports()?.pop() {
                return Ok(import.id);
            }
            let whose = self.file.as_ref().map(|file| format!(" of {file}")).unwrap_or_default();
            let error = CliError::usage(format!("there is no run{whose} in `{}`", self.store.path().display()));
            let others = "`flow runs` lists the store's runs; use --run ID, or -w FILE";
            return Err(error.hint_if(self.file.as_ref().map(|_| others)));
        };
        let runs = self.store.runs()?;
        let matching: Vec<&RunId> = runs.iter().filter(|run| run.0 == asked || run.0.ends_with(asked)).collect();
        match matching.as_slice() {
            [one] => Ok((*one).clone()),
            [] => {
                // An imported run has two ids: its own, and that of its import.
                let imports = Import::all(&self.store)?;
                let named = |import: &&Import| {
                    let run = &import.origin.run.0;
                    run == asked || asked.len() >= SHORTEST && run.ends_with(asked)
                };
                let import = imports.iter().rfind(named).map(|import| import.id.clone());
                let unknown = CliError::usage(format!("there is no run `{asked}`"));
                import.ok_or_else(|| unknown.hint("`flow runs` lists them"))
            }
            several => {
                let names: Vec<&str> = several.iter().map(|run| &*run.0).collect();
                Err(CliError::usage(format!("`{asked}` matches {}", names.join(", ")))
                    .hint("give more characters of the id"))
            }
        }
    }

    /// The requested run, with everything in its journal.
    pub(crate) fn view(&self, of: Option<&str>) -> Result<(RunDir, View), CliError> {
        view_of(&self.store, &self.run(of)?)
    }
}

/// A run by its id. An imported run, which is stored under its import, keeps its origin.
pub(crate) fn view_of(store: &StoreDir, run: &RunId) -> Result<(RunDir, View), CliError> {
    let mut dir = store.run(run);
    let mut view = View::default();
    if let Some((_, inside)) = Import::run_in(&dir)? {
        if let Some(JournalLine { event: RunEvent::Imported { origin, .. }, .. }) = dir.first_line()? {
            (view.imported, view.import) = (Some(*origin), Some(run.clone()));
        }
        dir = inside;
    }
    dir.read_journal(|line| view.event(&line))?;
    Ok((dir, view))
}

/// The place and the run that a command is about.
pub(crate) fn run(global: &Global, of: &OfRun, output: &mut Output) -> Result<(StoreLocation, RunDir, View), CliError> {
    let mut place = StoreLocation::of_workflow(global, of, output)?;
    let (dir, view) = place.view(of.run.as_deref())?;
    place.store = dir.store().clone();
    Ok((place, dir, view))
}

/// The same for a step. If the last run did not include the step, or did nothing with it, the last
/// run that did.
pub(crate) fn run_with(
    global: &Global,
    of: &OfRun,
    step: &str,
    did: impl Fn(&InstanceView) -> bool,
    output: &mut Output,
) -> Result<(StoreLocation, RunDir, View), CliError> {
    let mut place = StoreLocation::of_workflow(global, of, output)?;
    let (dir, view) = place.view_with(of.run.as_deref(), step, did, output)?;
    place.store = dir.store().clone();
    Ok((place, dir, view))
}

impl StoreLocation {
    /// The requested run. Without a request: the last run, or the last one that included this step
    /// and did something with it.
    pub(crate) fn view_with(
        &self,
        run: Option<&str>,
        step: &str,
        did: impl Fn(&InstanceView) -> bool,
        output: &mut Output,
    ) -> Result<(RunDir, View), CliError> {
        let (last, view) = self.view(run)?;
        let named = |view: &View, did: &dyn Fn(&InstanceView) -> bool| {
            view.instances.values().any(|shown| flow_core::selects(step, &shown.label) && did(shown))
        };
        let has = |view: &View| named(view, &did);
        let why = if named(&view, &|_| true) { "did not start" } else { "has no" };
        let Some(of_last) = start(&last)?.filter(|_| run.is_none() && view.imported.is_none() && !has(&view)) else {
            return Ok((last, view));
        };
        let earlier = self.earlier(&of_last)?.find(|(_, _, view)| has(view));
        if let Some((run, dir, view)) = earlier {
            output.note(noted(format_args!("the last run {why} `{step}`: showing run {run}")))?;
            return Ok((dir, view));
        }
        Ok((last, view))
    }
}

/// Attempts of an earlier run that the last run did not start again, by label.
pub(crate) struct TriedAttempts {
    pub(crate) view: View,
    instances: BTreeMap<String, InstanceId>,
}

impl TriedAttempts {
    pub(crate) fn get(&self, label: &str) -> Option<&InstanceView> {
        self.view.instances.get(self.instances.get(label)?)
    }

    pub(crate) fn all(&self) -> impl Iterator<Item = &InstanceView> {
        self.instances.values().filter_map(|id| self.view.instances.get(id))
    }
}

/// Instances that the last run did not start, because reading required numbers again would fail
/// again. For each, the last run that has its outcome. Prints these runs.
pub(crate) fn tried_earlier(
    place: &StoreLocation,
    of: &OfRun,
    view: &View,
    is_read: impl Fn(&str) -> bool,
    serves: impl Fn(&InstanceView) -> bool,
    output: &mut Output,
) -> Result<Vec<TriedAttempts>, CliError> {
    let unread = view.instances.values().filter(|shown| shown.is_unread() && is_read(&shown.label));
    let mut unread: BTreeSet<String> = unread.map(|shown| shown.label.clone()).collect();
    let Some(start) = view.start.as_ref().filter(|_| of.run.is_none() && !unread.is_empty()) else {
        return Ok(Vec::new());
    };
    let mut found = Vec::new();
    for (run, _, view) in place.earlier(start)? {
        if unread.is_empty() {
            break;
        }
        let tried = view.instances.iter().filter(|(_, shown)| shown.came_to_something(&start.params));
        let tried = tried.filter_map(|(id, shown)| Some((unread.take(&shown.label)?, *id, shown)));
        let tried = tried.filter(|(_, _, shown)| serves(shown)).map(|(label, id, _)| (label, id));
        let instances: BTreeMap<String, InstanceId> = tried.collect();
        if instances.is_empty() {
            continue;
        }
        let names: Vec<&str> = instances.keys().map(String::as_str).collect();
        let names = words::named(&names);
        output.note(noted(format_args!("the last run did not start {names}: showing run {run}")))?;
        found.push(TriedAttempts { view, instances });
    }
    Ok(found)
}

/// Stored results, whichever process holds the database.
pub(crate) fn results(store: &StoreDir, output: &mut Output) -> Result<Store, CliError> {
    let store = Store::open_to_read(store, &me())?;
    mended(store.rebuilt(), output)?;
    Ok(store)
}

/// Opens a workflow. Warns if its cluster does not answer.
pub(crate) fn open(request: &SessionRequest, output: &mut Output) -> Result<Session, CliError> {
    let session = flow_exec::open(request, &crate::builtins::Steps::default())?;
    if let Some(unavailable) = &session.cluster_unavailable {
        let advice = error::no_configuration().map(|advice| format!("; {advice}")).unwrap_or_default();
        output.error(noted(format_args!("{unavailable}{advice}")))?;
    }
    if let Some(run) = &session.cluster_from {
        let said = format!("Slurm is not queried while run {run} is active: flow uses its last answer about the nodes");
        output.error(noted(said))?;
    }
    Ok(session)
}

/// Shows hashing of more than five seconds on standard error, as `flow run` does. Its thread ends with the command.
pub(crate) fn show_hashing(session: &Session, output: &Output) {
    if output.quiet {
        return;
    }
    const EVERY: Duration = Duration::from_secs(5);
    let activity = session.activity.clone();
    let show = move || {
        loop {
            thread::sleep(EVERY);
            if let Some(doing) = activity.doing() {
                output::progress(&flow_exec::progress(&doing));
            }
        }
    };
    // Without such a thread nothing is shown.
    let _ = thread::Builder::new().name("progress".into()).spawn(show);
}

/// What is known of earlier work of a workflow. From here on hashing that takes long is shown.
pub(crate) fn knowledge(session: &Session, output: &mut Output) -> Result<Knowledge, CliError> {
    show_hashing(session, output);
    let knowledge = Knowledge::open(session, &doing())?;
    mended(knowledge.rebuilt(), output)?;
    Ok(knowledge)
}

/// Reports that the database was rebuilt.
pub(crate) fn mended(rebuilt: Option<&RebuiltDatabase>, output: &mut Output) -> Result<(), CliError> {
    match rebuilt {
        Some(rebuilt) => Ok(output.error(format!("{} {rebuilt}", styled(NOTE, "repaired:")))?),
        None => Ok(()),
    }
}

/// This process, for a process that finds the store in use.
pub(crate) fn me() -> Holder {
    Holder { process: ProcessIdentity::own(), doing: doing(), run: None, since: clock::local_time() }
}

/// The command line, which other processes see if the store is in use.
pub(crate) fn doing() -> String {
    let mut words: Vec<String> = std::env::args().collect();
    if let Some(first) = words.first_mut() {
        "flow".clone_into(first);
    }
    words.join(" ")
}

/// The request to open the named workflow, else the default one.
pub(crate) fn session(
    global: &Global,
    named: &WorkflowArg,
    selection: &Selection,
    output: &mut Output,
) -> Result<SessionRequest, CliError> {
    let file = match &named.workflow {
        Some(file) => file.clone(),
        None => default_workflow(global, output)?,
    };
    let mut request = request(global, file, selection);
    default_to_last_place(&mut request, output)?;
    Ok(request)
}

/// Looks at the cluster if the last run of the workflow was `--on slurm`, and says so.
pub(crate) fn default_to_last_place(request: &mut SessionRequest, output: &mut Output) -> Result<(), CliError> {
    place_of(request, output, flow_exec::last_place)
}

/// Runs on Slurm if the last run of the workflow did and has left jobs there, and says so.
pub(crate) fn follow_jobs(request: &mut SessionRequest, output: &mut Output) -> Result<(), CliError> {
    place_of(request, output, flow_exec::place_of_orphaned_jobs)
}

fn place_of(
    request: &mut SessionRequest,
    output: &mut Output,
    last: impl Fn(&Workspace) -> Option<Place>,
) -> Result<(), CliError> {
    if request.on.is_some() || request.gpus.is_some() {
        return Ok(());
    }
    let workspace = Workspace::find(&request.file, request.store.as_deref(), &request.plugin_dirs);
    // A file that cannot be found is reported when it is opened.
    let last = workspace.ok().and_then(|workspace| last(&workspace));
    if let Some(place) = last.filter(|place| place.is_batch()) {
        request.on = Some(place);
        output.note(format!("on {}, like the last run", place.name()))?;
    }
    Ok(())
}

/// Prints the workflow that nobody named.
pub(crate) fn print_workflow(file: &Path, output: &mut Output) -> Result<(), CliError> {
    Ok(output.note(format!("workflow: {}", near(file)))?)
}

/// The request to open the workflow in `file`.
pub(crate) fn request(global: &Global, file: PathBuf, selection: &Selection) -> SessionRequest {
    SessionRequest {
        file,
        params: selection.params.clone(),
        set: selection.set.clone(),
        profile: selection.profile.clone(),
        store: global.store.clone(),
        plugin_dirs: global.plugin_dirs.clone(),
        plugin_digests: BTreeMap::new(),
        gpus: selection.gpus.clone(),
        on: selection.on,
        any_machine: false,
    }
}

/// A path relative to the current folder, if it is below it.
pub(crate) fn near(path: &Path) -> String {
    let here = std::env::current_dir().unwrap_or_default();
    path.strip_prefix(&here).unwrap_or(path).display().to_string()
}

/// The workspace of a workflow, or of the current folder.
pub(crate) fn workspace(global: &Global, workflow: Option<&Path>) -> Result<Workspace, CliError> {
    let cannot = |e: std::io::Error| CliError::failed(format!("the current folder cannot be accessed: {e}"));
    match workflow {
        Some(file) => Workspace::find(file, global.store.as_deref(), &global.plugin_dirs).map_err(cannot),
        None => {
            let folder = std::env::current_dir().map_err(cannot)?;
            Workspace::of_folder(&folder, global.store.as_deref()).map_err(cannot)
        }
    }
}

/// The first line of a run's journal; `None` if there is none.
pub(crate) fn start(run: &RunDir) -> Result<Option<RunStart>, CliError> {
    match run.first_line()? {
        Some(JournalLine { event: RunEvent::RunStarted(start), .. }) => Ok(Some(*start)),
        _ => Ok(None),
    }
}
