//! Records the software environment of each attempt, once by content, and compares those of earlier results with the
//! present one. Variables are recorded as keyed digests, never as values.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    io::Write,
    os::unix::fs::OpenOptionsExt,
    path::Path,
    sync::{Mutex, PoisonError},
    time::{Duration, Instant},
};

use flow_core::{
    DeclaredEnvironment, Difference, Digest, Environment, InstanceId,
    plan::{Plan, State},
    shell::first,
};
use flow_runs::{StoreDir, read_regular};
use flow_store::Objects;
use flow_supervisor::clock;
use indexmap::IndexMap;
use nix::unistd::geteuid;

use super::start;
use crate::{
    declared_environment,
    driver::{plan::Knowledge, session::Session},
    environment::{self, Variables},
    python_command::Command,
};

/// Variables that differ from one shell to the next without meaning anything to a step, or that flow itself sets.
/// docs/language.md lists them.
const NOISE: &str = "_ PWD OLDPWD SHLVL COLUMNS LINES PS1 PROMPT_COMMAND LS_COLORS COLORTERM HOSTNAME WINDOWID DISPLAY \
    WAYLAND_DISPLAY XAUTHORITY TMUX TMUX_PANE STY WINDOW GPG_TTY INVOCATION_ID JOURNAL_STREAM \
    SYSTEMD_EXEC_PID MANAGERPID VIRTUAL_ENV_PROMPT CONDA_PROMPT_MODIFIER CONDA_SHLVL OMP_NUM_THREADS \
    MKL_NUM_THREADS OPENBLAS_NUM_THREADS NUMEXPR_NUM_THREADS RAYON_NUM_THREADS PYTHONUNBUFFERED \
    CUDA_DEVICE_ORDER CUDA_VISIBLE_DEVICES MASTER_ADDR MASTER_PORT SUDO_COMMAND";
/// Beginnings of such names.
const NOISES: &str =
    "FLOW_ SLURM_ TERM SSH_ XDG_SESSION XDG_SEAT XDG_VTNR DBUS VSCODE_ VTE_ KITTY_ WEZTERM_ BASH_FUNC_";
/// Counts although it begins like noise: the index of a job array selects the experiment. `SLURM_PROCID` does not
/// count, because each batch job sets it, mostly to 0.
const ARRAY_INDEX: &str = "SLURM_ARRAY_TASK_ID";
/// Variables that decide which programs and packages a step finds. A step may set them itself.
const SEARCHED: [&str; 3] = ["PATH", "PYTHONPATH", "PYTHONNOUSERSITE"];
/// An environment is looked at again after this time.
const FRESH: Duration = Duration::from_secs(1);

/// The environments of a run's attempts.
pub(crate) struct Environments {
    shell: Shell,
    seen: Mutex<BTreeMap<Vec<String>, RecordedEnvironment>>,
}

/// When an environment was looked at, and its object.
type RecordedEnvironment = (Instant, Option<Digest>);

/// The digests of the shell's variables.
struct Shell {
    variables: BTreeMap<String, Option<String>>,
    key: Option<String>,
}

impl Shell {
    /// Without a key, no variable is known.
    fn of(inherited: &BTreeMap<String, String>, key: Option<[u8; 32]>) -> Shell {
        let short = |hash: blake3::Hash| hash.to_hex()[..16].to_owned();
        let is_noise = |name: &str| {
            name != ARRAY_INDEX
                && (NOISE.split(' ').any(|noise| name == noise)
                    || NOISES.split(' ').any(|begin| name.starts_with(begin)))
        };
        let told = inherited.iter().filter(|(name, _)| !is_noise(name));
        let variables = key.iter().flat_map(|key| {
            told.clone().map(|(name, value)| (name.clone(), Some(short(blake3::keyed_hash(key, value.as_bytes())))))
        });
        Shell { variables: variables.collect(), key: key.map(|key| short(blake3::keyed_hash(&key, b"key"))) }
    }

    fn put_into(&self, environment: &mut Environment) {
        environment.variables.clone_from(&self.variables);
        environment.key.clone_from(&self.key);
    }
}

/// The user's own key for digests in this store; with `make`, a new one if there is none.
fn key(store: &Path, make: bool) -> Option<[u8; 32]> {
    let path = store.join(format!("environment-key.{}", geteuid()));
    if make && !path.exists() {
        let made = fs::File::options().write(true).create_new(true).mode(0o600).open(&path);
        let written = made.and_then(|mut file| file.write_all(&environment::random_key()?));
        // Without a key, variables are not compared.
        written.ok();
    }
    read_regular(&path).ok()?.try_into().ok()
}

impl Environments {
    pub(crate) fn new(store: &Path, inherited: &BTreeMap<String, String>) -> Environments {
        Environments { shell: Shell::of(inherited, key(store, true)), seen: Mutex::default() }
    }

    /// Stores the environment of a program that starts with these arguments and variables, of which the step sets its
    /// `own`. A `declared` environment comes first. Without a work folder it is a job: the rest is found on its node.
    pub(crate) fn record(
        &self,
        argv: &[String],
        variable: Variables<'_>,
        own: &BTreeMap<String, String>,
        declared: Option<&DeclaredEnvironment>,
        work: Option<&Path>,
        objects: &Objects,
    ) -> Option<Digest> {
        let mut own = own.clone();
        for (name, value) in declared.into_iter().flat_map(|of| declared_environment::variables(of, "")) {
            // The value of `PATH` follows from the shell's.
            if name != "PATH" {
                own.entry(name.to_owned()).or_insert(value.unwrap_or_default());
            }
        }
        let searched = SEARCHED.map(|name| variable(name).unwrap_or_default());
        let command = work.map(|work| Command::of(argv, work, variable)).unwrap_or_default();
        let Command { activated, python, .. } = &command;
        let told = activated.iter().cloned().chain(first(&command.argv).program).chain([format!("{python:?}")]);
        let at = own.keys().cloned().chain(searched).chain(told).collect();
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, found)) = seen.get(&at).filter(|(then, _)| clock::since(*then) < FRESH) {
            return *found;
        }
        let is_job = work.is_none();
        let mut found = if is_job { Environment::default() } else { command.environment(variable) };
        found.activated = found
            .activated
            .or(declared.filter(|of| !declared_environment::is_image(of)).map(declared_environment::bin));
        self.shell.put_into(&mut found);
        if is_job {
            // A job has its own index, or none.
            found.variables.insert(ARRAY_INDEX.to_owned(), None);
        }
        for name in own.keys().filter(|name| found.variables.contains_key(*name)).cloned().collect::<Vec<_>>() {
            found.variables.insert(name, None);
        }
        let searched = SEARCHED.iter().filter_map(|name| Some(((*name).to_owned(), own.get(*name)?.clone())));
        found.own = searched.collect();
        let stored = store(&found, objects);
        seen.insert(at, (clock::steady(), stored));
        stored
    }
}

/// Completes the recorded environment of a job with what its node found.
pub(crate) fn complete(recorded: Option<Digest>, node: Environment, objects: &Objects) -> Option<Digest> {
    let known = recorded.and_then(|digest| load(&digest, objects)).unwrap_or_default();
    let Environment { variables, key, own, activated, .. } = known;
    let activated = node.activated.or(activated);
    store(&Environment { variables, key, own, activated, on_node: true, ..node }, objects)
}

/// Without room for it, the environment is unknown.
fn store(environment: &Environment, objects: &Objects) -> Option<Digest> {
    let bytes = serde_json::to_vec(environment).ok()?;
    objects.store_bytes(&bytes).ok().map(|artifact| artifact.digest)
}

/// Interpreters that an attempt was seen to run and that its recorded environment does not have.
pub(crate) fn also_ran(seen: &BTreeSet<String>, recorded: Option<Digest>, objects: &Objects) -> Vec<String> {
    let Some(recorded) = recorded.filter(|_| !seen.is_empty()).and_then(|digest| load(&digest, objects)) else {
        return Vec::new();
    };
    let real = |path: &str| fs::canonicalize(path).unwrap_or_else(|_| path.into());
    let of_prefix = |prefix: &String| ["python", "python3"].map(|name| real(&format!("{prefix}/bin/{name}")));
    let mut known: BTreeSet<_> = recorded.pythons.keys().flat_map(of_prefix).collect();
    known.extend(recorded.programs.values().map(|program| real(&program.path)));
    seen.iter().filter(|path| !known.contains(Path::new(path))).cloned().collect()
}

/// A recorded environment; `None` if it is gone.
pub fn load(digest: &Digest, objects: &Objects) -> Option<Environment> {
    serde_json::from_slice(&objects.read_private(digest)?).ok()
}

/// The present environment, compared with recorded ones.
pub struct PresentEnvironment {
    shell: Shell,
    inherited: BTreeMap<String, String>,
    objects: Objects,
    known: BTreeMap<Digest, EnvironmentChange>,
}

/// How the environment differs from the one of a result.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct EnvironmentChange {
    pub differences: Vec<Difference>,
    /// The result is from a node whose programs cannot be seen from here.
    pub is_unseen: bool,
}

impl PresentEnvironment {
    /// The environment that this shell gives to steps; `None` before the first run.
    pub fn of(session: &Session, knowledge: &Knowledge) -> Option<PresentEnvironment> {
        let dir = knowledge.dir()?;
        let inherited = start::Environment::of(session).inherited().clone();
        let shell = Shell::of(&inherited, key(dir.path(), false));
        Some(PresentEnvironment { shell, inherited, objects: Objects::of(dir), known: BTreeMap::new() })
    }

    /// Without the shell's variables.
    pub(crate) fn of_programs(dir: &StoreDir) -> PresentEnvironment {
        let inherited = environment::text_variables().collect();
        let shell = Shell { variables: BTreeMap::new(), key: None };
        PresentEnvironment { shell, inherited, objects: Objects::of(dir), known: BTreeMap::new() }
    }

    /// How it differs from any of these.
    pub(crate) fn since_any(mut self, recorded: &BTreeSet<Digest>) -> Vec<Difference> {
        let mut all: Vec<Difference> = Vec::new();
        for difference in recorded.iter().flat_map(|recorded| self.since(recorded).differences) {
            if !all.contains(&difference) {
                all.push(difference);
            }
        }
        all
    }

    /// How it differs from a recorded environment.
    pub fn since(&mut self, recorded: &Digest) -> EnvironmentChange {
        if let Some(known) = self.known.get(recorded) {
            return known.clone();
        }
        let since = load(recorded, &self.objects).map(|was| self.compare(was)).unwrap_or_default();
        self.known.insert(*recorded, since.clone());
        since
    }

    fn compare(&self, mut was: Environment) -> EnvironmentChange {
        if was.on_node {
            // Another machine has another `/usr`, under the same name.
            let is_shared = |prefix: &String| !prefix.starts_with("/usr") && Path::new(prefix).is_dir();
            was.programs.retain(|_, program| program.python.as_ref().is_some_and(is_shared));
        }
        let mut is = environment::again(&was, &|name| self.inherited.get(name).cloned());
        self.shell.put_into(&mut is);
        EnvironmentChange { differences: was.differences(&is), is_unseen: was.on_node && was.programs.is_empty() }
    }

    /// How it differs from the one of the last result of an instance, if that is kept. A declared environment is part of
    /// the fingerprint, so its changes are a reason already.
    pub fn since_last(
        &mut self,
        session: &Session,
        knowledge: &Knowledge,
        id: InstanceId,
    ) -> Option<EnvironmentChange> {
        let (results, expansion) = (knowledge.results()?, &session.expansion);
        if expansion.environment_of(&expansion.instances[id.index()]).is_some() {
            return None;
        }
        let label = expansion.instances[id.index()].label.to_string();
        let last = results.last(&expansion.workflow, &label).ok()??;
        let recorded = results.result(&last.fingerprint).ok()??.circumstances.environment?;
        Some(self.since(&recorded))
    }

    /// The steps that run and whose last result has another environment, by the difference. Of each step, the first
    /// instance with such a result counts.
    pub fn changes_of_steps(
        &mut self,
        session: &Session,
        knowledge: &Knowledge,
        plan: &Plan,
    ) -> IndexMap<EnvironmentChange, Vec<InstanceId>> {
        /// An older instance of a step need not have a result.
        const MAX_LOOKUPS: usize = 8;
        let mut changes: IndexMap<EnvironmentChange, Vec<InstanceId>> = IndexMap::new();
        let mut asked: BTreeMap<_, usize> = BTreeMap::new();
        for item in plan.items.iter().filter(|item| matches!(item.state, State::Run(_))) {
            let asked = asked.entry(session.expansion.instances[item.id.index()].step).or_default();
            *asked += 1;
            if *asked > MAX_LOOKUPS {
                continue;
            }
            if let Some(since) = self.since_last(session, knowledge, item.id) {
                *asked = MAX_LOOKUPS;
                if since != EnvironmentChange::default() {
                    changes.entry(since).or_default().push(item.id);
                }
            }
        }
        changes
    }

    /// The cached instances of a plan whose environment differs, by the difference.
    pub fn changes(&mut self, plan: &Plan) -> IndexMap<EnvironmentChange, Vec<InstanceId>> {
        let mut changes: IndexMap<EnvironmentChange, Vec<InstanceId>> = IndexMap::new();
        for item in &plan.items {
            if let State::Cached { environment: Some(recorded), .. } = &item.state {
                let since = self.since(recorded);
                if since != EnvironmentChange::default() {
                    changes.entry(since).or_default().push(item.id);
                }
            }
        }
        changes
    }
}

#[cfg(test)]
mod tests {
    use flow_core::{ProgramFile, Python};

    use super::*;

    #[test]
    fn the_page_lists_the_variables_that_do_not_count() {
        let page = include_str!("../../../../../docs/language.md");
        let missing = |name: &&str| !page.contains(&format!("`{name}`"));
        assert_eq!(NOISE.split(' ').chain(NOISES.split(' ')).filter(missing).collect::<Vec<_>>(), [""; 0]);
    }

    #[test]
    fn an_interpreter_that_was_not_recorded_is_named() {
        let dir = tempfile::tempdir().unwrap();
        let (venv, base) = (dir.path().join("venv"), dir.path().join("base/python3.11"));
        for (at, text) in [(&base, "x"), (&dir.path().join("other/python3.9"), "")] {
            fs::create_dir_all(at.parent().unwrap()).unwrap();
            fs::write(at, text).unwrap();
        }
        fs::create_dir_all(venv.join("bin")).unwrap();
        std::os::unix::fs::symlink(&base, venv.join("bin/python")).unwrap();
        let text = |path: &str| dir.path().join(path).to_string_lossy().into_owned();
        let file = ProgramFile { path: text("venv/bin/python"), digest: Digest([0; 32]), stamp: None, python: None };
        let recorded = Environment {
            programs: [("python".to_owned(), file)].into(),
            pythons: [(text("venv"), Python::default())].into(),
            ..Environment::default()
        };
        let objects = Objects::of(&StoreDir::create(&dir.path().join("store")).unwrap());
        let digest = store(&recorded, &objects);
        // An environment of conda can be inside another one.
        let others = ["other/python3.9", "venv/envs/other/bin/python3.9"].map(text);
        let seen = others.iter().cloned().chain([text("base/python3.11")]).collect();
        assert_eq!(also_ran(&seen, digest, &objects), others);
        assert!(also_ran(&seen, None, &objects).is_empty(), "a plugin");
    }

    #[test]
    fn a_pipe_in_place_of_the_key_stops_nobody() {
        let dir = tempfile::tempdir().unwrap();
        let made = key(dir.path(), true);
        assert!(made.is_some() && key(dir.path(), false) == made);
        let path = fs::read_dir(dir.path()).unwrap().next().unwrap().unwrap().path();
        fs::remove_file(&path).unwrap();
        nix::unistd::mkfifo(&path, nix::sys::stat::Mode::S_IRWXU).unwrap();
        assert_eq!(key(dir.path(), true), None);
    }

    #[test]
    fn the_index_of_a_job_array_counts() {
        let shell = |index: &str| {
            let variables = [("SLURM_ARRAY_TASK_ID", index), ("SLURM_JOB_ID", index), ("SCALE", "1")];
            let mut found = Environment::default();
            let variables = variables.map(|(name, value)| (name.to_owned(), value.to_owned()));
            Shell::of(&variables.into(), Some([0; 32])).put_into(&mut found);
            found
        };
        let differs = Difference::Variable { name: "SLURM_ARRAY_TASK_ID".into() };
        assert_eq!(shell("4").differences(&shell("0")), [differs]);
        assert_eq!(shell("4").differences(&shell("4")), []);
    }
}
