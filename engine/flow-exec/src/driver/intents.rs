//! What is written down of a job before a batch system is asked for it, in the folder of its run, and read by the run that comes after
//! one that died. It stays until what came of the job is safe. Asks nobody for a job.
//!
//! A job has one file, `KEY.json`, and so has an array with all its tasks, for a disk is waited for as long for one file as for a
//! thousand lines. Beside an array's file, `KEY.done` names the tasks whose results are safe, one a line.

use std::{
    collections::BTreeSet,
    fs,
    io::{self, Write},
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
    #[serde(skip)]
    pub(crate) task: Option<Task>,
    /// Its number there, as far as it is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) job: Option<JobId>,
    /// The run that asked for it first.
    pub(crate) run: RunId,
    /// The attempts that run in it; more than one are a co-run group.
    pub(crate) members: Vec<Member>,
}

/// A task of an array.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Task {
    pub(crate) number: u32,
    /// Of so many in the array it was not known yet, when it was written or read, that their results are safe.
    pub(crate) of: u32,
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

/// An array, written down.
#[derive(Serialize, Deserialize)]
struct Array {
    key: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    job: Option<u32>,
    run: RunId,
    /// The attempts of each task.
    tasks: Vec<Vec<Member>>,
}

/// What a file holds.
#[derive(Deserialize)]
#[serde(untagged)]
enum Written {
    Array(Array),
    Job(Intent),
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

    /// Writes a job down that is no task, and returns when no power cut can undo it.
    ///
    /// # Errors
    /// The disk is full.
    pub(crate) fn write(&self, dir: &StoreDir) -> io::Result<()> {
        fs::create_dir_all(dir.run(&self.run).jobs())?;
        write_durably(&file(dir, &self.run, &self.key), &serde_json::to_vec(self)?)
    }

    /// Adds its number, which is no loss: by its name it is found without.
    ///
    /// # Errors
    /// The disk is full.
    pub(crate) fn note(&self, dir: &StoreDir) -> io::Result<()> {
        write_atomically(&file(dir, &self.run, &self.key), &serde_json::to_vec(self)?)
    }
}

/// Writes an array down whose tasks these are, and returns when no power cut can undo it.
///
/// # Errors
/// The disk is full.
pub(crate) fn write_array<'i>(dir: &StoreDir, tasks: impl Iterator<Item = &'i Intent>) -> io::Result<()> {
    let Some(array) = array(tasks) else { return Ok(()) };
    fs::create_dir_all(dir.run(&array.run).jobs())?;
    write_durably(&file(dir, &array.run, &array.key), &serde_json::to_vec(&array)?)
}

/// Adds its number, which is no loss.
///
/// # Errors
/// The disk is full.
pub(crate) fn note_array<'i>(dir: &StoreDir, tasks: impl Iterator<Item = &'i Intent>) -> io::Result<()> {
    let Some(array) = array(tasks) else { return Ok(()) };
    write_atomically(&file(dir, &array.run, &array.key), &serde_json::to_vec(&array)?)
}

fn array<'i>(mut tasks: impl Iterator<Item = &'i Intent>) -> Option<Array> {
    let first = tasks.next()?;
    let (key, run) = (first.key.clone(), first.run.clone());
    let all = [first].into_iter().chain(tasks).map(|task| task.members.clone());
    Some(Array { key, run, job: first.job.map(|id| id.job), tasks: all.collect() })
}

fn file(dir: &StoreDir, run: &RunId, key: &str) -> PathBuf {
    dir.run(run).jobs().join(format!("{key}.json"))
}

/// What came of these tasks of an array is safe. A power cut may take this back: then they are found to be recorded.
pub(crate) fn tick_off(dir: &StoreDir, run: &RunId, key: &str, tasks: &[u32]) {
    let text: String = tasks.iter().map(|task| format!("{task}\n")).collect();
    let done = file(dir, run, key).with_extension("done");
    // What cannot be noted is looked at once more by the next run.
    let _ =
        fs::File::options().create(true).append(true).open(done).and_then(|mut file| file.write_all(text.as_bytes()));
}

/// What came of a job, or of all tasks of an array, is safe.
pub(crate) fn remove(dir: &StoreDir, run: &RunId, key: &str) {
    let path = file(dir, run, key);
    let _ = fs::remove_file(&path);
    let _ = fs::remove_file(path.with_extension("done"));
    // Only an empty one goes.
    let _ = path.parent().map(fs::remove_dir);
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
    let used: BTreeSet<&str> = needed.iter().map(|intent| &*intent.key).collect();
    for Intent { key, task, run, .. } in &safe {
        match task {
            Some(task) if used.contains(&**key) => tick_off(store.dir(), run, key, &[task.number]),
            _ => remove(store.dir(), run, key),
        }
    }
    needed
}

/// What a run was in the middle of writing down or of removing when it was killed says nothing, and would keep its folder from going.
fn forget_unfinished(run: &RunDir) {
    let files = fs::read_dir(run.jobs()).into_iter().flatten().flatten().map(|entry| entry.path());
    let unfinished = files.filter(|path| match path.extension().and_then(|end| end.to_str()) {
        Some("tmp") => true,
        Some("done") => {
            let array = path.with_extension("json");
            let over = read(&array).is_empty();
            let _ = over.then(|| fs::remove_file(array));
            over
        }
        _ => false,
    });
    unfinished.for_each(|path| _ = fs::remove_file(path));
    let _ = fs::remove_dir(run.jobs());
}

/// Those of a run.
pub(crate) fn of(run: &RunDir) -> Vec<Intent> {
    let files = fs::read_dir(run.jobs()).into_iter().flatten().flatten().map(|entry| entry.path());
    files.filter(|path| path.extension().is_some_and(|end| end == "json")).flat_map(|path| read(&path)).collect()
}

fn read(path: &Path) -> Vec<Intent> {
    let written = fs::read(path).ok().and_then(|bytes| serde_json::from_slice(&bytes).ok());
    let Array { key, job, run, tasks } = match written {
        Some(Written::Array(array)) => array,
        Some(Written::Job(intent)) => return vec![intent],
        None => return Vec::new(),
    };
    let done = fs::read_to_string(path.with_extension("done")).unwrap_or_default();
    let done: BTreeSet<u32> = done.lines().filter_map(|line| line.parse().ok()).collect();
    let left: Vec<(u32, Vec<Member>)> = (0..).zip(tasks).filter(|(number, _)| !done.contains(number)).collect();
    let of = left.len() as u32;
    let task = |(number, members): (u32, Vec<Member>)| Intent {
        key: key.clone(),
        task: Some(Task { number, of }),
        job: job.map(|job| JobId { job, task: Some(number) }),
        run: run.clone(),
        members,
    };
    left.into_iter().map(task).collect()
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

#[cfg(test)]
mod tests {
    use super::*;

    fn task(number: u32) -> Intent {
        let member = Member {
            attempt: AttemptId(number),
            fingerprint: Digest::of(&number.to_le_bytes()),
            label: format!("a[n={number}]"),
            folder: PathBuf::from(format!("/store/{number}")),
            began: 1.0,
            announces: false,
            piped: false,
            linked: Vec::new(),
        };
        let job = Some(JobId { job: 7, task: Some(number) });
        let task = Some(Task { number, of: 3 });
        Intent { key: "flow-a".to_owned(), task, job, run: RunId("r".to_owned()), members: vec![member] }
    }

    #[test]
    fn an_array_is_one_file_until_all_its_tasks_are_ticked_off() {
        let folder = tempfile::tempdir().unwrap();
        let dir = StoreDir::create(folder.path()).unwrap();
        let tasks: Vec<Intent> = (0..3).map(task).collect();
        let run = dir.run(&tasks[0].run);
        write_array(&dir, tasks.iter()).unwrap();
        assert_eq!(of(&run), tasks);
        tick_off(&dir, &tasks[0].run, "flow-a", &[2, 0]);
        let left = Intent { task: Some(Task { number: 1, of: 1 }), ..task(1) };
        assert_eq!(of(&run), [left]);
        remove(&dir, &tasks[0].run, "flow-a");
        assert!(!run.has_jobs());
    }

    #[test]
    fn what_was_half_removed_is_forgotten() {
        let folder = tempfile::tempdir().unwrap();
        let dir = StoreDir::create(folder.path()).unwrap();
        let run = dir.run(&task(0).run);
        write_array(&dir, [task(0)].iter()).unwrap();
        tick_off(&dir, &task(0).run, "flow-a", &[0]);
        forget_unfinished(&run);
        assert!(!run.has_jobs());
        fs::create_dir_all(run.jobs()).unwrap();
        tick_off(&dir, &task(0).run, "flow-a", &[0]);
        forget_unfinished(&run);
        assert!(!run.has_jobs());
    }
}
