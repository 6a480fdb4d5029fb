//! Fills the folder of an attempt: inputs, artifacts of other steps, the request, the environment. Starts nothing.

use std::{
    collections::{BTreeMap, HashSet},
    ffi::OsString,
    fs, io,
    net::TcpListener,
    os::unix::fs::symlink,
    path::{Path, PathBuf},
    sync::Arc,
};

use flow_core::{
    Artifact, Body, Input, Instance, Machine, ResolvedInstance, Revision,
    reason::FolderFault,
    sched::Placement,
    shell::{Runner, Script, Shell, runner},
};
use flow_protocol as protocol;
use flow_store::{ArtifactForm, CapturedInput, Captures, Inputs, Objects};
use flow_supervisor::attempt::Folder;
use serde_json::Value;
use walkdir::WalkDir;

use super::{
    capture,
    input_folder::{copy_folder, link_folder},
    step_variables::StepVariables,
};
use crate::{
    ExecError, command_words::LONGEST_SCRIPT, declared_environment, driver::session::Session,
    environment::text_variables, plugins::Plugin,
};

/// A command with a `#!` line, in the work folder.
const SCRIPT: &str = ".flow-run";

/// Linux refuses an argument of this length or more.
const LONGEST_ARGUMENT: usize = 128 << 10;

/// The keeper's input for the start of an attempt.
pub(crate) struct Launch {
    pub(crate) argv: Vec<String>,
    pub(crate) env: StepVariables,
    /// The program reports by itself when it is ready: a plugin, or a script that calls `flow ready`.
    pub(crate) announces: bool,
    /// A text for the user: how a plain program of a group is known to be ready.
    pub(crate) barrier: Option<String>,
    /// Artifacts too large to be copied, by their path in the work folder: the program could write into them.
    pub(crate) linked: Vec<(String, Artifact)>,
    /// The captured copies that it reads as inputs.
    pub(crate) captured: Vec<Arc<CapturedInput>>,
}

/// All that determines a start.
pub(crate) struct Start<'a> {
    pub(crate) session: &'a Session,
    pub(crate) instance: &'a Instance,
    pub(crate) resolved: &'a ResolvedInstance,
    pub(crate) placement: &'a Placement,
    pub(crate) folder: &'a Folder,
    pub(crate) objects: &'a Objects,
    pub(crate) inputs: &'a Inputs,
    pub(crate) captures: &'a Captures,
    /// The checkpoint folder, which survives the attempt until there is a result.
    pub(crate) checkpoint: &'a Path,
    /// Members of its co-run group, itself included.
    pub(crate) members: Option<u32>,
    /// The path of `flow`, so that a script finds `flow ready`.
    pub(crate) exe: &'a Path,
    pub(crate) environment: &'a Environment,
    /// The commit of the project, if it is known.
    pub(crate) revision: Option<&'a Revision>,
}

/// The engine's environment. Variables that are not valid UTF-8 are left out.
pub(crate) struct Environment {
    inherited: BTreeMap<String, String>,
    /// For every step: without those that flow itself reads.
    of_steps: Arc<BTreeMap<String, String>>,
    /// For steps that list them.
    secrets: BTreeMap<String, String>,
}

impl Environment {
    /// The variables without secrets.
    pub(crate) fn inherited(&self) -> &BTreeMap<String, String> {
        &self.inherited
    }

    /// The environment for the steps of a workflow.
    pub(crate) fn of(session: &Session) -> Environment {
        let names = session.secrets();
        let (secrets, inherited): (BTreeMap<_, _>, BTreeMap<_, _>) =
            text_variables().partition(|(name, _)| names.contains(&**name));
        let mut of_steps = inherited.clone();
        of_steps.retain(|name, _| !name.starts_with("FLOW_"));
        Environment { inherited, of_steps: Arc::new(of_steps), secrets }
    }
}

/// Fills the work folder and returns what to start.
///
/// # Errors
/// An input is missing, the disk is full, an artifact is damaged.
pub(crate) fn fill(start: &Start<'_>) -> Result<Launch, FolderFault> {
    let work = start.folder.work();
    let linked = place_artifacts(start, &work)?;
    let mut caller = None;
    let mut inputs: Vec<&Input> = start.instance.inputs.iter().chain(&start.resolved.inputs).collect();
    // A folder comes before its content.
    inputs.sort_by_key(|input| input.place());
    let mut captured = Vec::new();
    let mut in_place: BTreeMap<String, Arc<CapturedInput>> = BTreeMap::new();
    let mut folders: BTreeMap<String, PathBuf> = BTreeMap::new();
    for input in inputs {
        let author = start.session.path(&input.path);
        let given = given(start, input)?;
        if input.in_place {
            in_place.extend(given.map(|given| (start.session.expansion.lies_at(input), given)));
            continue;
        }
        let from = given.as_ref().map_or(author.clone(), |given| given.path().to_owned());
        captured.extend(given);
        let to = work.join(input.place());
        if appears(&work, &input.place(), &author, &folders)? {
            continue;
        }
        if input.is_next_to_work() && start.folder.is_work_outside() {
            link_next_to(&work, &input.place(), &to)?;
        }
        parent(&to)?;
        let not_brought = |e: io::Error| FolderFault::Input { path: input.path.clone(), error: e.into() };
        let is_folder = fs::metadata(&from).map_err(not_brought)?.is_dir();
        if is_folder {
            folders.insert(input.place(), author);
        }
        if is_folder && input.copy {
            copy_folder(&from, &to, true).map_err(not_brought)?;
            continue;
        }
        let copy = captured.last_mut().filter(|captured| captured.is_copy() && captured.path() == from);
        let done = match copy {
            Some(copy) if is_folder => link_folder(start.folder, &start.resolved.body, input, copy, &to),
            _ if is_folder => symlink(&from, &to),
            _ => fs::copy(&from, &to).map(|_| ()),
        };
        done.map_err(not_brought)?;
        if start.members.is_some() && !input.by_listing {
            caller = caller.or_else(|| ready_caller(&from));
        }
    }
    for output in start.instance.outputs.iter().filter(|output| output.path.contains('/')) {
        parent(&work.join(&output.path))?;
    }
    if !matches!(start.resolved.body, Body::Builtin { .. }) {
        fs::create_dir_all(start.checkpoint).map_err(|e| not_made(start.checkpoint, &e))?;
    }
    let (mut announces, mut barrier) = (false, None);
    let argv = match &start.resolved.body {
        Body::Command { line, shell } => {
            if start.members.is_some() {
                let caller = if calls_ready(line.as_bytes()) { Some("its command".to_owned()) } else { caller };
                announces = caller.is_some();
                barrier = Some(match caller {
                    Some(caller) => format!("waits at the barrier: {caller} calls `flow ready`"),
                    None => "counts as ready at its start, because it does not call `flow ready`".into(),
                });
            }
            in_image(start, argv(line, *shell, start.folder)?)
        }
        Body::Plugin { plugin, step, with } => {
            let found = start.session.plugins.iter().find(|p| p.name() == plugin);
            let found: &Plugin = found.ok_or_else(|| FolderFault::NoPlugin { plugin: plugin.clone() })?;
            announces = start.members.is_some();
            let mut with = with.clone();
            with.values_mut().for_each(|value| replace(value, &in_place, &mut captured));
            write_request(start, step, &with).map_err(|e| not_made(Path::new("request.json"), &e))?;
            found.argv()
        }
        Body::Builtin { .. } => {
            captured.extend(in_place.into_values());
            Vec::new()
        }
    };
    Ok(Launch { argv, env: environment(start), announces, barrier, linked, captured })
}

/// Places the artifacts of other steps in the work folder. Returns those that are too large to be copied.
fn place_artifacts(start: &Start<'_>, work: &Path) -> Result<Vec<(String, Artifact)>, FolderFault> {
    let links = &start.resolved.links;
    let places: HashSet<&str> = links.iter().map(|link| &*link.path).collect();
    let mut folders = links.iter().flat_map(|link| link.path.match_indices('/').map(|(at, _)| &link.path[..at]));
    let is_nested = folders.any(|above| places.contains(above));
    let mut large = Vec::new();
    // A folder comes before what lies in it.
    for links in links.chunks(if is_nested { 1 } else { links.len().max(1) }) {
        let all: Vec<_> = links.iter().map(|link| (link.digest, work.join(&link.path))).collect();
        let placed = start.objects.materialise_all(&all).map_err(|e| FolderFault::Artifact { error: e.into() })?;
        large.extend(links.iter().zip(placed).filter_map(|(link, placed)| match placed {
            ArtifactForm::Copied => None,
            ArtifactForm::Linked(artifact) => Some((link.path.clone(), artifact)),
        }));
    }
    Ok(large)
}

/// Lets a program find an input at `../data/x`, as the author's own does: next to the work folder, which belongs to the
/// attempt alone.
fn link_next_to(work: &Path, place: &str, to: &Path) -> Result<(), FolderFault> {
    let Some(link) = work.parent().map(|outside| outside.join(place)) else { return Ok(()) };
    parent(&link)?;
    // A folder that holds it is there already.
    if link.parent().is_some_and(|above| fs::canonicalize(above).is_ok_and(|above| above.starts_with(work))) {
        return Ok(());
    }
    match symlink(to, &link) {
        Err(e) if e.kind() != io::ErrorKind::AlreadyExists => Err(not_made(&link, &e)),
        _ => Ok(()),
    }
}

/// The command in the image of its declared environment, if that is one.
fn in_image(start: &Start<'_>, argv: Vec<String>) -> Vec<String> {
    let image = start.session.expansion.environment_of(start.instance).filter(|of| declared_environment::is_image(of));
    let Some(image) = image else { return argv };
    let folders = [&*start.session.workspace.store, &*start.session.workspace.root];
    declared_environment::in_image(image, start.instance.request.gpus > 0, &folders, &start.folder.work(), argv)
}

/// The program and arguments of a command. Scripts too long for an argument, or with a `#!` line, go into a file. It is
/// in the work folder, because interpreters look for modules next to a script.
fn argv(command: &str, shell: Shell, folder: &Folder) -> Result<Vec<String>, FolderFault> {
    let write = |file: PathBuf, text: &str| {
        fs::write(&file, text).map_err(|e| not_made(&file, &e))?;
        Ok(file.display().to_string())
    };
    match runner(command, shell) {
        Runner::Direct(words) => Ok(words),
        Runner::Shell(shell) => {
            let argv = shell.argv().iter().map(|word| (*word).to_owned());
            Ok(if command.len() < LONGEST_ARGUMENT {
                argv.chain(["-c".to_owned(), command.to_owned()]).collect()
            } else {
                argv.chain([write(folder.path().join("script"), command)?]).collect()
            })
        }
        Runner::Script(Script { interpreter, argument, text }) => {
            let file = write(folder.work().join(SCRIPT), text)?;
            Ok([interpreter].into_iter().chain(argument).map(str::to_owned).chain([file]).collect())
        }
    }
}

/// The captured copy of an input; `None` means the author's own file. An input is captured now if a step wrote into it,
/// or if it did not seem to be needed when the run started.
fn given(start: &Start<'_>, input: &Input) -> Result<Option<Arc<CapturedInput>>, FolderFault> {
    let wanted = capture::one(start.session, input);
    match start.captures.capture(start.inputs, [wanted.clone()]) {
        Ok(changed) if !changed.is_empty() => {
            Err(FolderFault::InputChanged { path: wanted.path.display().to_string() })
        }
        // Without room for a copy, the author's own file is read, and checked later.
        _ => Ok(start.captures.get(&wanted.path, wanted.by_listing)),
    }
}

/// Replaces paths in a plugin's parameters by captured copies, and adds these to `given`.
fn replace(value: &mut Value, by: &BTreeMap<String, Arc<CapturedInput>>, given: &mut Vec<Arc<CapturedInput>>) {
    match value {
        Value::String(text) => {
            if let Some(captured) = by.get(text) {
                *text = captured.path().to_string_lossy().into_owned();
                given.push(Arc::clone(captured));
            }
        }
        Value::Array(items) => items.iter_mut().for_each(|item| replace(item, by, given)),
        Value::Object(fields) => fields.values_mut().for_each(|field| replace(field, by, given)),
        _ => {}
    }
}

/// True if an input is already at its path inside another input's folder. `folders`: the authors' folders by their
/// places.
fn appears(work: &Path, place: &str, author: &Path, folders: &BTreeMap<String, PathBuf>) -> Result<bool, FolderFault> {
    let above = Path::new(place).ancestors().skip(1);
    let mut above = above.filter_map(|above| Some((above, folders.get(above.to_str()?)?)));
    let Some((folder, outer)) = above.next() else { return Ok(false) };
    let there = Path::new(place).strip_prefix(folder).map(|below| fs::canonicalize(outer.join(below)));
    match (there, fs::canonicalize(author)) {
        (Ok(Ok(there)), Ok(author)) if there == author && work.join(place).exists() => Ok(true),
        _ => Err(FolderFault::InputInInput { path: place.to_owned(), folder: folder.display().to_string() }),
    }
}

fn parent(path: &Path) -> Result<(), FolderFault> {
    let Some(parent) = path.parent() else { return Ok(()) };
    fs::create_dir_all(parent).map_err(|e| not_made(parent, &e))
}

/// The error that a file or folder of an attempt could not be created.
pub(crate) fn not_made(path: &Path, error: &io::Error) -> FolderFault {
    FolderFault::Own { path: path.display().to_string(), error: error.into() }
}

/// The file that calls `flow ready`: an input, or a file in an input folder. Only the first files of a large folder are
/// read.
fn ready_caller(input: &Path) -> Option<String> {
    const FILES: usize = 1000;
    let mut room: u64 = 16 << 20;
    let entries = WalkDir::new(input).follow_links(true).sort_by_file_name().into_iter().flatten();
    for entry in entries.filter(|entry| entry.file_type().is_file()).take(FILES) {
        let bytes = entry.metadata().map_or(u64::MAX, |meta| meta.len());
        if bytes > LONGEST_SCRIPT {
            continue;
        }
        room = room.checked_sub(bytes)?;
        if fs::read(entry.path()).is_ok_and(|text| calls_ready(&text)) {
            let name = entry.path().strip_prefix(input.parent().unwrap_or(input)).unwrap_or(entry.path());
            return Some(format!("`{}`", name.display()));
        }
    }
    None
}

/// True if a script calls `flow ready`, in the syntax of a shell or of another language. Without the call, a plain
/// command is ready at its start.
fn calls_ready(text: &[u8]) -> bool {
    let text = String::from_utf8_lossy(text);
    let words: Vec<&str> =
        text.split(|c: char| !c.is_ascii_alphanumeric() && c != '_').filter(|w| !w.is_empty()).collect();
    words.windows(2).any(|pair| pair == ["flow", "ready"])
}

fn write_request(start: &Start<'_>, step: &str, with: &serde_json::Map<String, Value>) -> io::Result<()> {
    let outputs = start.instance.outputs.iter().map(|o| (o.name.clone(), o.path.clone())).collect();
    start.folder.write_request(&protocol::Request {
        protocol: protocol::PROTOCOL,
        step: step.to_owned(),
        instance: start.instance.label.to_string(),
        with: with.clone(),
        outputs,
        checkpoint: start.checkpoint.to_string_lossy().into_owned(),
        placement: placement(start),
        seed: start.instance.seed,
        corun: start.members.map(|members| protocol::Corun { members }),
    })
}

fn placement(start: &Start<'_>) -> protocol::Placement {
    let machine = start.session.expansion.machine_of(start.instance);
    let gpus = start.placement.gpus.iter().filter_map(|id| machine.gpus.get(id.index()));
    protocol::Placement {
        gpus: gpus.map(|g| protocol::Gpu { uuid: g.uuid.clone(), index: g.index, name: g.name.clone() }).collect(),
        cpus: start.placement.cpus,
        gpu_memory: start.instance.request.gpu_memory,
        memory: start.instance.request.memory,
    }
}

/// The engine's environment without `FLOW_` variables, then the placement's variables, then the step's own.
fn environment(start: &Start<'_>) -> StepVariables {
    let mut env = StepVariables::of(Arc::clone(&start.environment.of_steps));
    let gpus = visible(start.session.expansion.machine_of(start.instance), start.placement);
    placement_variables(start.placement.cpus, gpus).for_each(|(name, value)| env.set(name, value));
    env.set("MASTER_ADDR", "127.0.0.1");
    if let Ok(listener) = TcpListener::bind(("127.0.0.1", 0))
        && let Ok(address) = listener.local_addr()
    {
        env.set("MASTER_PORT", address.port().to_string());
    }
    if let Some(dir) = start.exe.parent() {
        let path = env.get("PATH").map(OsString::from).unwrap_or_default();
        let with_flow = std::env::split_paths(&path).chain([dir.to_owned()]);
        if let Ok(path) = std::env::join_paths(with_flow) {
            env.set("PATH", path.to_string_lossy());
        }
    }
    if let Some(declared) = start.session.expansion.environment_of(start.instance) {
        let path = env.get("PATH").unwrap_or_default().to_owned();
        for (name, value) in declared_environment::variables(declared, &path) {
            match value {
                Some(value) => env.set(name, value),
                None => env.remove(name),
            }
        }
    }
    if let Body::Plugin { plugin, .. } = &start.resolved.body
        && let Some(found) = start.session.plugins.iter().find(|p| p.name() == plugin)
    {
        found.env(|name| env.get(name)).into_iter().for_each(|(name, value)| env.set(&name, value));
    }
    start.resolved.env.iter().for_each(|(name, value)| env.set(name, value));
    for name in &start.session.expansion.steps[start.instance.step.index()].secrets {
        if let Some(value) = start.environment.secrets.get(name) {
            env.add_secret(name, value);
        }
    }
    if let Some(members) = start.members {
        env.set(protocol::CORUN_VAR, members.to_string());
    }
    env.set(protocol::ATTEMPT_VAR, start.folder.path().to_string_lossy());
    env.set(protocol::CHECKPOINT_VAR, start.checkpoint.to_string_lossy());
    env.set(protocol::ROOT_VAR, start.session.workspace.root.to_string_lossy());
    if let Some(revision) = start.revision {
        env.set(protocol::COMMIT_VAR, &revision.commit);
    }
    env
}

/// Variables that limit a program to its CPUs and GPUs. `gpus`: their UUIDs with commas.
fn placement_variables(cpus: u32, gpus: String) -> impl Iterator<Item = (&'static str, String)> {
    // Two programs that each use every core run at a fraction of their speed.
    let threads =
        ["OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS", "NUMEXPR_NUM_THREADS", "RAYON_NUM_THREADS"];
    threads.into_iter().map(move |name| (name, cpus.max(1).to_string())).chain([
        ("PYTHONUNBUFFERED", "1".to_owned()),
        ("CUDA_DEVICE_ORDER", "PCI_BUS_ID".to_owned()),
        ("CUDA_VISIBLE_DEVICES", gpus),
    ])
}

fn visible(machine: &Machine, placement: &Placement) -> String {
    let uuids = placement.gpus.iter().filter_map(|id| machine.gpus.get(id.index()));
    uuids.map(|gpu| gpu.uuid.as_str()).collect::<Vec<_>>().join(",")
}

/// The path of `flow` itself.
///
/// # Errors
/// The system does not report it.
pub(crate) fn exe() -> Result<PathBuf, ExecError> {
    std::env::current_exe().map_err(ExecError::io("find", "flow"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scripts_that_announce_themselves_are_known_by_the_call() {
        for yes in ["flow ready && python3 train.py", "subprocess.run([\"flow\", \"ready\"])", "exec('flow', 'ready')"]
        {
            assert!(calls_ready(yes.as_bytes()), "{yes}");
        }
        for no in ["workflow ready", "flow already", "ready flow", ""] {
            assert!(!calls_ready(no.as_bytes()), "{no}");
        }
    }

    #[test]
    fn an_input_in_the_folder_of_another_is_not_copied_onto_itself() {
        let dir = tempfile::tempdir().unwrap();
        let (work, data) = (dir.path().join("work"), dir.path().join("data"));
        fs::create_dir_all(data.join("sub")).unwrap();
        fs::create_dir_all(work.join("plain")).unwrap();
        fs::write(data.join("labels.csv"), "mine").unwrap();
        symlink(&data, work.join("data")).unwrap();
        let folders = BTreeMap::from([("data".to_owned(), data.clone())]);
        let appears = |place: &str, author: &Path| appears(&work, place, author, &folders);
        assert_eq!(appears("data/labels.csv", &data.join("labels.csv")), Ok(true));
        assert_eq!(appears("data/sub", &data.join("./sub")), Ok(true));
        assert_eq!(appears("plain/labels.csv", &data.join("labels.csv")), Ok(false));
        let other = appears("data/labels.csv", &dir.path().join("labels.csv"));
        assert_eq!(other, Err(FolderFault::InputInInput { path: "data/labels.csv".into(), folder: "data".into() }));
    }

    #[test]
    fn the_caller_is_found_in_a_folder() {
        let dir = tempfile::tempdir().unwrap();
        let code = dir.path().join("code");
        fs::create_dir_all(code.join("lib")).unwrap();
        fs::write(code.join("a.py"), "print()").unwrap();
        fs::write(code.join("large.bin"), "flow ready\n".repeat(200_000)).unwrap();
        assert_eq!(ready_caller(&code), None);
        fs::write(code.join("lib/train.py"), "os.system('flow ready')").unwrap();
        assert_eq!(ready_caller(&code).as_deref(), Some("`code/lib/train.py`"));
        assert_eq!(ready_caller(&code.join("lib/train.py")).as_deref(), Some("`train.py`"));
    }
}
