//! Makes the environments of uv projects: each once by the content of its lock file, in the user's cache. uv is an
//! attempt of its own keeper, so that no process of it survives a killed flow.

use std::{
    collections::BTreeSet,
    env,
    fs::{self, File},
    io,
    path::{Path, PathBuf},
};

use flow_core::{AttemptId, DeclaredEnvironment};
use flow_supervisor::{
    attempt::Folder,
    keeper::{Keeper, Start, record},
};
use nix::fcntl::{Flock, FlockArg};

use crate::{
    declared_environment,
    environment::text_variables,
    plugins::{PluginError, Progress, lock, run_command},
    search_path::resolve,
};

const INSTALL: &str = "`pip install uv`, or `curl -LsSf https://astral.sh/uv/install.sh | sh`";

/// The arguments of uv before the project's folder.
const SYNC: [&str; 5] = ["sync", "--frozen", "--no-install-project", "--compile-bytecode", "--project"];

/// An environment that uv makes.
pub(crate) struct Make<'a> {
    pub(crate) declared: &'a DeclaredEnvironment,
    /// The folder with `pyproject.toml` and `uv.lock`.
    pub(crate) project: PathBuf,
    /// The program for the keeper: flow itself.
    pub(crate) keeper: &'a Path,
    /// The path of the keeper's record, without its suffix.
    pub(crate) record: PathBuf,
    /// Variables that uv must not get.
    pub(crate) secrets: &'a BTreeSet<&'a str>,
}

impl Make<'_> {
    /// Makes the environment if needed. While the lock is held, `flow gc` leaves the environment alone.
    ///
    /// # Errors
    /// uv is not installed, or fails. In words for the user, several lines.
    pub(crate) async fn ensure(&self, said: &mut dyn FnMut(Progress<'_>)) -> Result<Flock<File>, PluginError> {
        let place = Path::new(&self.declared.place);
        let system = |e: io::Error| self.error(format!("{}: {e}", place.display()));
        fs::create_dir_all(place.parent().unwrap_or(place)).map_err(system)?;
        let file = declared_environment::sibling_path(place, "lock");
        loop {
            let shared = lock(&file, FlockArg::LockSharedNonblock, said).await.map_err(system)?;
            if declared_environment::is_made(self.declared) {
                declared_environment::used(place).map_err(system)?;
                return Ok(shared);
            }
            drop(shared);
            let own = lock(&file, FlockArg::LockExclusiveNonblock, said).await.map_err(system)?;
            if !declared_environment::is_made(self.declared) {
                self.run(place, said).await.map_err(|what| self.error(what))?;
                declared_environment::finished(place, &self.project).map_err(system)?;
            }
            drop(own);
        }
    }

    async fn run(&self, place: &Path, said: &mut dyn FnMut(Progress<'_>)) -> Result<(), String> {
        let path = env::var("PATH").unwrap_or_default();
        let uv = resolve("uv", &path).map(|found| found.at).ok_or_else(|| format!("uv is not installed: {INSTALL}"))?;
        let project = self.project.display().to_string();
        let argv: Vec<String> = SYNC.into_iter().chain([&*project]).map(str::to_owned).collect();
        let by_hand = format!("UV_PROJECT_ENVIRONMENT={} uv {}", place.display(), argv.join(" "));
        let argv = [uv.to_string_lossy().into_owned()].into_iter().chain(argv).collect();
        said(Progress::Command(&by_hand));
        let io = |e: io::Error| format!("{}: {e}", place.display());
        let top = declared_environment::sibling_path(place, "log");
        if top.exists() {
            fs::remove_dir_all(&top).map_err(io)?;
        }
        let folder = Folder::create(top.join("1")).map_err(io)?;
        fs::create_dir_all(self.record.parent().unwrap_or(&top)).map_err(io)?;
        let mut keeper = Keeper::spawn(self.keeper, &record::of_plugin(&self.record)).map_err(io)?;
        let start = Start {
            attempt: AttemptId(1),
            argv,
            env: self.variables(place),
            cwd: self.project.clone(),
            folder: folder.path().to_owned(),
            secrets: Vec::new(),
        };
        run_command(&mut keeper, start, said).await.map_err(|how| {
            format!(
                "uv could not make it: {how}\nWithout a network, make it on a machine that shares this folder and has one:\n  {by_hand}"
            )
        })
    }

    /// The user's variables, except those that would choose another environment or Python.
    fn variables(&self, place: &Path) -> Vec<(String, String)> {
        const OTHERS: [&str; 4] = ["VIRTUAL_ENV", "CONDA_PREFIX", "UV_PYTHON", "UV_PROJECT"];
        let kept = text_variables().filter(|(name, _)| !OTHERS.contains(&&**name) && !self.secrets.contains(&**name));
        let own = [("UV_PROJECT_ENVIRONMENT", &*place.to_string_lossy()), ("UV_NO_PROGRESS", "1"), ("NO_COLOR", "1")];
        kept.chain(own.map(|(name, value)| (name.to_owned(), value.to_owned()))).collect()
    }

    fn error(&self, what: String) -> PluginError {
        let file = self.project.join("uv.lock");
        PluginError { file, what: format!("the environment `{}`: {what}", self.declared.name) }
    }
}

/// An environment that no run has used lately.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnusedEnvironment {
    pub place: PathBuf,
    pub bytes: u64,
}

/// The environments in the cache that no run has used since this time, in milliseconds since 1970. Removes them unless
/// `dry`. Those that a run uses stay.
///
/// # Errors
/// One cannot be removed.
pub fn clear_environments(otherwise: &Path, since: u64, dry: bool) -> io::Result<Vec<UnusedEnvironment>> {
    let made = declared_environment::made(&crate::plugins::cache_folder(otherwise));
    let places = fs::read_dir(made).into_iter().flatten().flatten().map(|entry| entry.path());
    // Locks, logs and marks have an extension.
    let is_old = |place: &PathBuf| {
        place.extension().is_none() && declared_environment::last_used(place).is_some_and(|used| used < since)
    };
    let mut cleared = Vec::new();
    for place in places.filter(is_old) {
        let lock = declared_environment::sibling_path(&place, "lock");
        let Ok(file) = File::options().create(true).truncate(false).write(true).open(lock) else { continue };
        let Ok(_own) = Flock::lock(file, FlockArg::LockExclusiveNonblock) else { continue };
        let bytes = size(&place);
        if !dry {
            fs::remove_file(declared_environment::sibling_path(&place, "made"))?;
            fs::remove_dir_all(&place)?;
            // The lock stays: another process may wait for it.
            let _ = fs::remove_dir_all(declared_environment::sibling_path(&place, "log"));
        }
        cleared.push(UnusedEnvironment { place, bytes });
    }
    Ok(cleared)
}

fn size(folder: &Path) -> u64 {
    let files = walkdir::WalkDir::new(folder).into_iter().flatten().filter_map(|entry| entry.metadata().ok());
    files.filter(fs::Metadata::is_file).map(|meta| meta.len()).sum()
}
