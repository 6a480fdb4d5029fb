//! Makes the environments of uv projects: each once by the content of its lock file, in the user's cache. uv is an
//! attempt of its own keeper, so that no process of it survives a killed flow.

use std::{
    collections::BTreeSet,
    env,
    ffi::OsString,
    fs::{self, File},
    io,
    path::{Path, PathBuf},
};

use flow_core::{AttemptId, DeclaredEnvironment};
use flow_supervisor::{
    attempt::{Folder, signal_name, tail},
    keeper::{Keeper, Request, Start, record},
};
use nix::fcntl::{Flock, FlockArg};

use crate::{
    declared_environment,
    plugins::{PluginError, Progress, follow, lock},
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
        keeper.send(&Request::Start(Start {
            attempt: AttemptId(1),
            argv,
            env: self.variables(place),
            cwd: self.project.clone(),
            folder: folder.path().to_owned(),
            secrets: Vec::new(),
        }));
        let how = match follow(&mut keeper, &folder, said).await {
            Ok(exit) if exit.code == Some(0) => return Ok(()),
            Ok(exit) => exit.code.map(|code| format!("exit code {code}")).or(exit.signal.map(signal_name)),
            Err(reason) => Some(reason),
        };
        let lines = tail(&folder.log(), 20).unwrap_or_default();
        let lines: String = lines.iter().map(|line| format!("\n  | {line}")).collect();
        Err(format!(
            "uv could not make it: {}{lines}\nWithout a network, make it on a machine that shares this folder and has one:\n  {by_hand}",
            how.unwrap_or_default()
        ))
    }

    /// The user's variables, except those that would choose another environment or Python.
    fn variables(&self, place: &Path) -> Vec<(String, String)> {
        const OTHERS: [&str; 4] = ["VIRTUAL_ENV", "CONDA_PREFIX", "UV_PYTHON", "UV_PROJECT"];
        let text = |(name, value): (OsString, OsString)| Some((name.into_string().ok()?, value.into_string().ok()?));
        let inherited = env::vars_os().filter_map(text);
        let kept = inherited.filter(|(name, _)| !OTHERS.contains(&&**name) && !self.secrets.contains(&**name));
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
    let mut cleared = Vec::new();
    for entry in fs::read_dir(declared_environment::made(&crate::plugins::cache_folder(otherwise)))
        .into_iter()
        .flatten()
        .flatten()
    {
        let place = entry.path();
        // Locks, logs and marks have one.
        if place.extension().is_some() {
            continue;
        }
        if declared_environment::last_used(&place).is_none_or(|used| used >= since) {
            continue;
        }
        let Ok(file) = File::options()
            .create(true)
            .truncate(false)
            .write(true)
            .open(declared_environment::sibling_path(&place, "lock"))
        else {
            continue;
        };
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
