//! `flow audit`: runs an instance once under strace, in a folder of its own, and keeps what it read as a small file of the
//! store. Measures nothing and records no result.

use std::{
    cell::RefCell,
    collections::{BTreeMap, BTreeSet},
    env,
    fs::{self, File},
    io::{BufRead, BufReader},
    os::unix::process::ExitStatusExt,
    path::{Path, PathBuf},
    process::{Child, Command, ExitStatus, Stdio},
    thread,
    time::Duration,
};

use flow_core::{
    Body, Digest, GpuId, Input, Instance, InstanceId, Render, ResolvedInstance, StepResult,
    fingerprint::Parts,
    plan::{Force, Plan, State},
    reason::Cause,
    sched::Placement,
};
use flow_runs::{StoreDir, read_regular};
use flow_store::{Captures, Objects};
use flow_supervisor::{
    attempt::{Folder, make_private},
    clock, keeper,
};
use serde_json::Value;

use super::{
    begin::{capture, live_sources, revision, start, work_place},
    plan::{Knowledge, lookup::inputs_of, parts, plan},
    session::Session,
};
use crate::{
    ExecError,
    audit_findings::{AuditFindings, Places, findings, unread},
    one_cpu,
    search_path::resolve,
    trace::{CALLS, DETAILS, Trace},
};

/// The answer of an audit.
#[derive(Debug)]
pub struct Audit {
    pub label: String,
    pub audited: AuditFindings,
    /// Its `inputs:` as written.
    pub inputs: Option<Value>,
    /// Inputs that it neither opened nor looked for in this run.
    pub unread: Vec<String>,
    /// Where they are written: the file and the line.
    pub place: String,
    /// The end of the output of a step that failed. Its audit is not kept.
    pub failed: Option<String>,
    /// An input changed during the audit, so the audit is not kept.
    pub is_outdated: bool,
    pub took: Duration,
}

/// Why an instance was not audited.
#[derive(Debug)]
pub enum AuditFailure {
    /// It needs these, which have no result yet.
    Needs(Vec<String>),
    /// It has no command of its own.
    NoCommand,
    /// It could not be started.
    NotStarted(Cause),
    NoStrace,
    /// What strace says.
    Refused(String),
}

/// The folder of kept answers in a store, one file per fingerprint.
const AUDITS: &str = "audits";
/// The folder of audits that run, one folder per process.
const RUNNING: &str = "audit";
/// How much of the output of a step that failed is shown.
const LINES: usize = 5;

/// Runs an instance once under strace.
///
/// # Errors
/// The store cannot be used.
pub fn audit(
    session: &Session,
    knowledge: &Knowledge,
    id: InstanceId,
) -> Result<Result<Audit, AuditFailure>, ExecError> {
    let wanted = session.wanted(&[session.expansion.instances[id.index()].label.to_string()])?;
    let plan = plan(session, knowledge, &wanted, &Force::Nothing)?;
    let label = session.expansion.instances[id.index()].label.to_string();
    let fingerprint = || Ok::<_, ExecError>(parts(session, knowledge, &wanted)?.get(&label).map(Parts::digest));
    let before = fingerprint()?;
    let Some(strace) = resolve("strace", &env::var("PATH").unwrap_or_default()).map(|found| found.at) else {
        return Ok(Err(AuditFailure::NoStrace));
    };
    let dir = session.workspace.make_store()?;
    let own = std::process::id().to_string();
    let folder = dir.path().join(RUNNING);
    // Where an attempt has it, because programs search the folders above.
    let outside = work_place::choose(session, &dir)?.folders.map(|folders| folders.path().join(RUNNING));
    let used = || [&folder].into_iter().chain(&outside);
    used().for_each(|folder| remove_killed(folder));
    let (top, work) = (folder.join(&own), outside.as_ref().map(|outside| outside.join(&own)));
    let captures = Captures::new(top.join("inputs"));
    let traced = AuditedInstance { session, knowledge, id, plan: &plan, dir: &dir, top: &top, work, strace: &strace };
    let answer = traced.run(&captures);
    captures.clear();
    for folder in used() {
        let _ = fs::remove_dir_all(folder.join(&own));
        // Unless another audit runs.
        let _ = fs::remove_dir(folder);
    }
    let mut answer = answer?;
    if let Ok(answer) = &mut answer {
        answer.is_outdated = before != fingerprint()?;
    }
    if let Ok(Audit { failed: None, is_outdated: false, audited, .. }) = &answer
        && let Some(fingerprint) = before
    {
        let folder = dir.path().join(AUDITS);
        fs::create_dir_all(&folder).map_err(ExecError::io("create", &folder))?;
        let text = serde_json::to_vec(audited).map_err(|e| ExecError::Fault(e.to_string()))?;
        dir.write_atomically(&folder.join(fingerprint.to_string()), &text)?;
    }
    Ok(answer)
}

/// Removes the folders of killed audits.
fn remove_killed(folder: &Path) {
    for left in fs::read_dir(folder).into_iter().flatten().flatten() {
        if !Path::new("/proc").join(left.file_name()).exists() {
            let _ = fs::remove_dir_all(left.path());
        }
    }
}

/// Whether a store has such answers.
pub fn has_audits(dir: &StoreDir) -> bool {
    dir.path().join(AUDITS).is_dir()
}

/// The kept answer about an instance with this fingerprint.
pub fn audited(dir: &StoreDir, fingerprint: &Digest) -> Option<AuditFindings> {
    serde_json::from_slice(&read_regular(&dir.path().join(AUDITS).join(fingerprint.to_string())).ok()?).ok()
}

struct AuditedInstance<'a> {
    session: &'a Session,
    knowledge: &'a Knowledge,
    id: InstanceId,
    plan: &'a Plan,
    dir: &'a StoreDir,
    top: &'a Path,
    /// The folder for its work folder, if that is outside the store.
    work: Option<PathBuf>,
    strace: &'a Path,
}

impl AuditedInstance<'_> {
    fn run(&self, captures: &Captures) -> Result<Result<Audit, AuditFailure>, ExecError> {
        let AuditedInstance { session, .. } = *self;
        let expansion = &session.expansion;
        let instance = &expansion.instances[self.id.index()];
        let settled = match self.needs()? {
            Ok(settled) => settled,
            Err(open) => return Ok(Err(AuditFailure::Needs(open))),
        };
        let resolved = match expansion.resolve(self.id, &settled, Render::Paths) {
            Ok(resolved) => resolved,
            Err(error) => return Ok(Err(AuditFailure::NotStarted(Cause::Unresolved { error }))),
        };
        if !matches!(resolved.body, Body::Command { .. }) {
            return Ok(Err(AuditFailure::NoCommand));
        }
        let own = make_private(self.top).and_then(|()| fs::canonicalize(self.top)).map(|top| top.join("attempt"));
        let folder = own.and_then(|own| match &self.work {
            Some(work) => Folder::create_outside(own, work),
            None => Folder::create(own),
        });
        let folder = folder.map_err(ExecError::io("create", self.top))?;
        let launch = match self.fill(instance, &resolved, &folder, captures)? {
            Ok(launch) => launch,
            Err(cause) => return Ok(Err(AuditFailure::NotStarted(cause))),
        };
        let trace = self.top.join("trace");
        let began = clock::steady();
        let status = self.trace(instance, &launch, &folder, &trace)?;
        let took = clock::since(began);
        let secrets = session.secret_values()?;
        let end = || secrets.hide(folder.log_tail(LINES).unwrap_or_default().join("\n"));
        let real_path = real_paths();
        let mut read = Trace::new(folder.work(), &real_path);
        let lines = File::open(&trace).map(|file| BufReader::new(file).lines()).into_iter().flatten();
        let accesses: Vec<_> = lines.map_while(Result::ok).flat_map(|line| read.line(&line)).collect();
        if accesses.is_empty() {
            return Ok(Err(AuditFailure::Refused(end())));
        }
        let inputs: Vec<&Input> = instance.inputs.iter().chain(&resolved.inputs).collect();
        let real = |path: PathBuf| fs::canonicalize(&path).unwrap_or(path);
        let mut covered: Vec<PathBuf> = inputs.iter().map(|input| real(session.path(&input.path))).collect();
        covered.push(real(start::exe()?));
        let store = real(self.dir.path().to_owned());
        let home = env::var_os("HOME").map(|home| real(home.into()));
        let places = Places {
            workflow: &session.workspace.folder,
            root: &session.workspace.root,
            store: &store,
            work: &folder.work(),
            home: home.as_deref(),
            covered: &covered,
        };
        // A large one is a link, and the trace has its target.
        let at = |place: &str| [places.work.join(place), real(places.work.join(place))];
        let own = inputs.iter().filter(|input| !input.in_place).map(|input| {
            let place = input.place();
            let beside = input.is_next_to_work().then(|| places.work.with_file_name(&place));
            let others = beside.into_iter().chain([real(session.path(&input.path))]);
            (input.path.clone(), at(&place).into_iter().chain(others).collect())
        });
        let artifacts = resolved.links.iter().filter(|link| !link.path.starts_with("in/"));
        let artifacts = artifacts.map(|link| (link.path.clone(), at(&link.path).to_vec()));
        let unread = unread(&accesses, own.chain(artifacts));
        let audited = AuditFindings { at: clock::local_time(), ..findings(accesses, &places) };
        let label = instance.label.to_string();
        let inputs = expansion.written(instance.step).remove("inputs");
        let failed = (!status.success()).then(|| format!("{}\n{}", how_ended(status), end()));
        Ok(Ok(Audit {
            label,
            audited,
            inputs,
            unread,
            place: session.place_of_inputs(instance),
            failed,
            is_outdated: false,
            took,
        }))
    }

    /// The results that the instance needs, or the labels of those that have none.
    fn needs(&self) -> Result<Result<BTreeMap<InstanceId, StepResult>, Vec<String>>, ExecError> {
        let (mut cached, mut open) = (Vec::new(), Vec::new());
        for item in self.plan.items.iter().filter(|item| item.id != self.id) {
            match &item.state {
                State::Cached { fingerprint, read_again: false, .. } => cached.push((item.id, *fingerprint)),
                State::Refused { .. } | State::NotNeeded { .. } => {}
                _ => open.push(self.session.expansion.instances[item.id.index()].label.to_string()),
            }
        }
        if !open.is_empty() {
            return Ok(Err(open));
        }
        let Some(results) = self.knowledge.results() else { return Ok(Ok(BTreeMap::new())) };
        let (ids, fingerprints): (Vec<_>, Vec<_>) = cached.into_iter().unzip();
        let found = results.results_of(&fingerprints)?;
        Ok(Ok(ids.into_iter().zip(found).filter_map(|(id, result)| Some((id, result?))).collect()))
    }

    /// Fills the work folder as that of an attempt.
    fn fill(
        &self,
        instance: &Instance,
        resolved: &ResolvedInstance,
        folder: &Folder,
        captures: &Captures,
    ) -> Result<Result<start::Launch, Cause>, ExecError> {
        let AuditedInstance { session, dir, .. } = *self;
        let inputs = inputs_of(session, None, None);
        captures.capture(&inputs, instance.inputs.iter().map(|input| capture::one(session, input)))?;
        let revision = revision::query(&session.workspace.root, &[], BTreeSet::new).answer();
        let request = &instance.request;
        let placement =
            Placement { gpus: (0..request.gpus).map(GpuId).collect(), cpus: request.cpus, ..Placement::default() };
        let filled = start::fill(&start::Start {
            session,
            instance,
            resolved,
            placement: &placement,
            folder,
            objects: &Objects::of(dir),
            inputs: &inputs,
            captures,
            checkpoint: &folder.path().join("checkpoint"),
            members: None,
            exe: &start::exe()?,
            environment: &start::Environment::of(session),
            revision: revision.as_ref(),
        });
        Ok(filled.map_err(|what| Cause::NotFilled { what }).map(|mut launch| {
            live_sources::put_first(&mut launch.env, session, instance, resolved, &folder.work());
            launch
        }))
    }

    fn trace(
        &self,
        instance: &Instance,
        launch: &start::Launch,
        folder: &Folder,
        trace: &Path,
    ) -> Result<ExitStatus, ExecError> {
        const LOOK: Duration = Duration::from_millis(20);
        let failed = |what| ExecError::io(what, self.strace);
        let log = File::create(folder.log()).map_err(ExecError::io("create", folder.log()))?;
        let mut strace = Command::new(self.strace);
        strace
            // With `-I 2` an interrupt ends it.
            .args(["-f", "--seccomp-bpf", "-qq", "-I", "2", "-e", "signal=none", "-e", DETAILS, "-e", CALLS, "-o"])
            .arg(trace)
            .arg("--")
            .args(&launch.argv)
            .current_dir(folder.work())
            .env_clear()
            .envs(launch.env.all())
            .stdin(Stdio::null())
            .stderr(log.try_clone().map_err(failed("start"))?)
            .stdout(log);
        let mut spawn = || strace.spawn().map_err(failed("start"));
        let id = |child: &Result<Child, ExecError>| child.as_ref().map_or(0, |child| child.id().cast_signed());
        let is_small = instance.request.cpus <= 1;
        let (child, mut one_cpu) = if is_small { one_cpu::start(spawn, id) } else { (spawn(), None) };
        let mut child = child?;
        let limit = instance.timeout.map(|limit| Duration::from_secs_f64(limit.as_secs_f64()));
        let began = clock::steady();
        let mut looks = 0_u32;
        loop {
            if let Some(status) = child.try_wait().map_err(failed("wait for"))? {
                return Ok(status);
            }
            if limit.is_some_and(|limit| clock::since(began) > limit) {
                keeper::kill_below(child.id().cast_signed());
                return child.wait().map_err(failed("wait for"));
            }
            looks = looks.wrapping_add(1);
            // All processes of the machine are read for that.
            if looks.is_multiple_of(5) && one_cpu.as_mut().is_some_and(|one| !one.is_enough()) {
                one_cpu = None;
            }
            thread::sleep(LOOK);
        }
    }
}

/// Finds paths without links. The same folder is looked at once.
fn real_paths() -> impl Fn(&Path) -> Option<PathBuf> {
    let folders: RefCell<BTreeMap<PathBuf, Option<PathBuf>>> = RefCell::default();
    move |path| {
        // There, a path depends on the process.
        if ["/proc", "/dev"].iter().any(|top| path.starts_with(top)) {
            return None;
        }
        let Some((folder, name)) = path.parent().zip(path.file_name()) else { return fs::canonicalize(path).ok() };
        let mut folders = folders.borrow_mut();
        let folder = match folders.get(folder) {
            Some(known) => known.clone(),
            None => folders.entry(folder.to_owned()).or_insert(fs::canonicalize(folder).ok()).clone(),
        }?;
        let at = folder.join(name);
        if at.is_symlink() { fs::canonicalize(&at).ok() } else { Some(at) }
    }
}

impl Session {
    /// The file and line of a step's inputs, or of its command.
    fn place_of_inputs(&self, instance: &Instance) -> String {
        let step = &self.expansion.steps[instance.step.index()].name;
        let nothing = flow_core::Diagnostic::new("");
        let about = self.workflow.about(&["inputs", "run"], [(&**step, "", nothing)]);
        let source = about.first().and_then(|what| what.source.as_deref()).unwrap_or(self.workflow.source());
        let line = about.first().and_then(|what| what.line_column(&source.text)).map(|(line, _)| format!(":{line}"));
        format!("{}{}", source.path, line.unwrap_or_default())
    }
}

fn how_ended(status: ExitStatus) -> String {
    match (status.code(), status.signal()) {
        (Some(code), _) => format!("exit code {code}"),
        (None, signal) => format!("signal {}", signal.unwrap_or_default()),
    }
}
