//! What is written down of a job before a batch system is asked for it, in the folder of its run, and read by the run that comes after
//! one that died. It stays until what came of the job is safe. Asks nobody for a job.

use std::{
    fs, io,
    path::{Path, PathBuf},
};

use flow_core::{Artifact, AttemptId, Digest, RunId};
use flow_slurm::JobId;
use flow_store::{Results, RunDir, Store, StoreDir};
use serde::{Deserialize, Serialize};

use crate::{
    attempt::{write_atomically, write_durably},
    keeper,
    node::NodeFiles,
};

/// One job, written down.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Intent {
    /// Its name in the batch system, by which it is found again.
    pub(crate) key: String,
    /// Which task of an array it is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) task: Option<u32>,
    /// Its number there, as far as it is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) job: Option<JobId>,
    /// The run that asked for it first.
    pub(crate) run: RunId,
    /// The attempts that run in it; more than one are a co-run group.
    pub(crate) members: Vec<Member>,
}

/// An attempt in a job.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Member {
    /// Of the run that asked first.
    pub(crate) attempt: AttemptId,
    pub(crate) fingerprint: Digest,
    pub(crate) label: String,
    pub(crate) folder: PathBuf,
    /// When it was filled, seconds since 1970.
    pub(crate) began: f64,
    /// Its program says by itself when it is ready.
    pub(crate) announces: bool,
    /// What it writes goes through pipes.
    pub(crate) piped: bool,
    /// Artifacts that it reads in the store itself.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) linked: Vec<(String, Artifact)>,
}

impl Intent {
    /// The name of a job: of the attempts that run in it, and of no others of any store.
    pub(crate) fn key(store: &Path, run: &RunId, attempts: &[AttemptId]) -> String {
        let of = format!("{} {run} {attempts:?}", store.display());
        format!("{}{}", flow_slurm::KEY_PREFIX, &Digest::of(of.as_bytes()).to_string()[..20])
    }

    /// The folder of the job: that of its first attempt.
    pub(crate) fn folder(&self) -> &Path {
        self.members.first().map_or(Path::new("/"), |member| &member.folder)
    }

    fn path(&self, dir: &StoreDir) -> PathBuf {
        let task = self.task.map(|task| format!("_{task}")).unwrap_or_default();
        dir.run(&self.run).jobs().join(format!("{}{task}.json", self.key))
    }

    /// Writes it down, and returns when no power cut can undo it.
    ///
    /// # Errors
    /// The disk is full.
    pub(crate) fn write(&self, dir: &StoreDir) -> io::Result<()> {
        fs::create_dir_all(dir.run(&self.run).jobs())?;
        write_durably(&self.path(dir), &serde_json::to_vec(self)?)
    }

    /// Writes it down where it is no loss that a power cut takes this back: what it adds to an earlier writing can be found again, or
    /// [`sync`] follows.
    ///
    /// # Errors
    /// The disk is full.
    pub(crate) fn note(&self, dir: &StoreDir) -> io::Result<()> {
        fs::create_dir_all(dir.run(&self.run).jobs())?;
        write_atomically(&self.path(dir), &serde_json::to_vec(self)?)
    }

    /// What came of it is safe.
    pub(crate) fn remove(&self, dir: &StoreDir) {
        let path = self.path(dir);
        let _ = fs::remove_file(&path);
        // Only an empty one goes.
        let _ = path.parent().map(fs::remove_dir);
    }
}

/// Returns when no power cut can undo what was noted of many jobs: that takes once as long as one file each would.
///
/// # Errors
/// The disk is full.
pub(crate) fn sync(dir: &StoreDir) -> io::Result<()> {
    Ok(nix::unistd::syncfs(fs::File::open(dir.path())?)?)
}

/// What runs that do not live any more asked for, and of which nobody took the result in.
pub(crate) fn left(dir: &StoreDir) -> Vec<Intent> {
    let runs = dir.runs().unwrap_or_default().into_iter().map(|run| dir.run(&run));
    let dead = runs.filter(|run| run.has_jobs() && run.lives().is_none());
    dead.inspect(forget_unfinished).flat_map(|run| of(&run)).collect()
}

/// Of these, those of which something is still to be taken in. Where a run was killed when a result was safe and its intent still there,
/// nobody comes to take it in again.
pub(crate) fn still_needed(store: &Store, left: Vec<Intent>) -> Vec<Intent> {
    let is_safe = |member: &Member| {
        NodeFiles::of(&member.folder).has_ended() && matches!(store.result(&member.fingerprint), Ok(Some(_)))
    };
    let (safe, needed): (Vec<_>, Vec<_>) = left.into_iter().partition(|intent| intent.members.iter().all(is_safe));
    safe.iter().for_each(|intent| intent.remove(store.dir()));
    needed
}

/// What a run was in the middle of writing down when it was killed says nothing, and would keep its folder from going.
fn forget_unfinished(run: &RunDir) {
    let files = fs::read_dir(run.jobs()).into_iter().flatten().flatten().map(|entry| entry.path());
    let unfinished = files.filter(|path| path.extension().is_some_and(|end| end == "tmp"));
    unfinished.for_each(|path| _ = fs::remove_file(path));
    let _ = fs::remove_dir(run.jobs());
}

/// Those of a run.
pub(crate) fn of(run: &RunDir) -> Vec<Intent> {
    let read = |path: PathBuf| serde_json::from_slice(&fs::read(path).ok()?).ok();
    let files = fs::read_dir(run.jobs()).into_iter().flatten().flatten().map(|entry| entry.path());
    files.filter(|path| path.extension().is_some_and(|end| end == "json")).filter_map(read).collect()
}

/// Kills what runs that were killed have left running on this machine, but for what a batch system runs here by chance, and says what
/// that was.
pub(crate) fn kill_strays(dir: &StoreDir, left: &[Intent]) -> Option<String> {
    let there = left.iter().flat_map(|intent| &intent.members).map(|member| member.folder.clone());
    keeper::kill_strays(dir.path(), &there.collect())
}

/// The same, for who knows of no jobs.
pub fn end_strays(dir: &StoreDir) -> Option<String> {
    kill_strays(dir, &left(dir))
}
