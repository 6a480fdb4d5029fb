//! Intents: records of jobs, written into the run's folder before a batch system is asked for them. If the run dies,
//! the next run reads them. An intent stays until the job's result is recorded. The same record is written for attempts
//! on this machine: of a detached run before they start, of a foreground run while it stores outputs. Submits nothing.
//!
//! A job has one file, `KEY.json`. So has an array with all its tasks, because syncing one file takes as long as
//! syncing a thousand lines. `KEY.done`, next to an array's file, lists the recorded tasks, one per line.

use std::{
    collections::BTreeSet,
    fs,
    io::{self, Write},
    path::{Path, PathBuf},
    time::Duration,
};

use flow_core::{Artifact, AttemptId, Circumstances, Digest, Place, RunId, sched::Placement};
use flow_runs::{ProcessIdentity, RunDir, StoreDir};
use flow_slurm::JobId;
use serde::{Deserialize, Serialize};

use crate::{
    attempt::{Folder, write_atomically, write_durably},
    node::NodeFiles,
};

/// The record of one job.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Intent {
    /// Its name in the batch system, by which flow finds it again.
    pub key: String,
    /// Where it runs.
    pub place: Place,
    /// The task, if it belongs to an array.
    #[serde(skip)]
    pub task: Option<Task>,
    /// Its id in the batch system, if known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub job: Option<JobId>,
    /// The run that requested it first.
    pub run: RunId,
    /// The attempts that run in it. Several attempts are a co-run group.
    pub members: Vec<Member>,
    /// Not a batch job: it runs on this machine, also after the death of its run. Holds the workflow file.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub here: Option<String>,
    /// The boot of this machine in which it runs; empty for a batch job. After a power cut its outputs may be incomplete,
    /// because nothing here is synced.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub boot: String,
    /// It has ended, and its foreground run is storing its outputs.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_over: bool,
}

/// A task of an array.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Task {
    pub number: u32,
    /// Number of tasks in the array whose results were not known to be recorded when this was written or read.
    pub of: u32,
}

/// An attempt in a job.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Member {
    /// Numbered by the first run that requested it.
    pub attempt: AttemptId,
    /// The fingerprint of its result; on this machine, of the attempt, which serves every reading of its metrics.
    pub fingerprint: Digest,
    pub label: String,
    pub folder: PathBuf,
    /// When its folder was filled, seconds since 1970.
    pub began: f64,
    /// Its program reports by itself when it is ready.
    pub announces: bool,
    /// Its output goes through pipes.
    pub piped: bool,
    /// Artifacts that it reads directly from the store.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub linked: Vec<(String, Artifact)>,
    /// The paths of its outputs, if they must exist before it is joined.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub outputs: Vec<String>,
    /// What it was allocated on this machine, and its circumstances at the start.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub given: Option<Box<LocalAllocation>>,
}

/// The record of an array.
#[derive(Serialize, Deserialize)]
struct Array {
    key: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    job: Option<u32>,
    run: RunId,
    /// The attempts of each task.
    tasks: Vec<Vec<Member>>,
}

/// The content of a file.
#[derive(Deserialize)]
#[serde(untagged)]
enum IntentFile {
    Array(Array),
    Job(Intent),
}

/// The allocation of an attempt on this machine.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct LocalAllocation {
    pub placement: Placement,
    pub circumstances: Circumstances,
}

/// The state of an attempt of a dead run on this machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OrphanState {
    /// It still runs, or has ended by itself: the whole gang can be joined.
    Sound,
    /// It was told to end, or not all of it has started; it will be gone soon.
    Ends,
    /// It does not run, and has no result.
    Lost,
}

/// Grace period for an attempt that nobody needs.
const GRACE: Duration = Duration::from_secs(10);

impl Intent {
    /// The name of a job. It is unique to these attempts in all stores.
    pub fn key(store: &Path, run: &RunId, attempts: &[AttemptId]) -> String {
        let of = format!("{} {run} {attempts:?}", store.display());
        format!("{}{}", flow_slurm::KEY_PREFIX, &Digest::of(of.as_bytes()).to_string()[..20])
    }

    /// The state of an attempt on this machine.
    pub fn state(&self, dir: &StoreDir) -> OrphanState {
        let is_whole = |member: &Member| {
            let work = Folder::at(member.folder.clone()).work();
            member.outputs.iter().all(|output| work.join(output).exists())
        };
        let is_of_this_boot = self.here.is_none() || self.boot == ProcessIdentity::own().boot;
        if !is_of_this_boot || self.is_over && !self.members.iter().all(is_whole) {
            return OrphanState::Lost;
        }
        let files = || self.members.iter().map(|member| NodeFiles::of(&member.folder));
        let ended = |files: &NodeFiles| files.read_ended().map(|record| record.warned.is_none());
        let goes = dir.run(&self.run).daemon().is_some();
        let ends: Vec<Option<bool>> = files().map(|files| ended(&files)).collect();
        if !goes && ends.iter().any(Option::is_none) {
            // Its supervisor may have ended between the two looks.
            let again = files().all(|files| ended(&files).is_some());
            return if again { self.state(dir) } else { OrphanState::Lost };
        }
        let begun = |(files, ended): (NodeFiles, &Option<bool>)| ended.is_some() || files.read_started().is_some();
        let sound = files().zip(&ends).all(begun)
            && files().all(|files| files.end_grace().is_none())
            && ends.iter().flatten().all(|by_itself| *by_itself);
        match (sound, ends.iter().all(Option::is_some)) {
            (true, _) => OrphanState::Sound,
            (false, true) => OrphanState::Lost,
            (false, false) => OrphanState::Ends,
        }
    }

    /// Ends it on this machine, because nobody needs its result. Returns whether there was something to end.
    pub fn end(&self, dir: &StoreDir) -> bool {
        let going = self.members.iter().map(|member| NodeFiles::of(&member.folder));
        let going: Vec<NodeFiles> = going.filter(|files| files.read_ended().is_none()).collect();
        if going.is_empty() || dir.run(&self.run).daemon().is_none() {
            self.remove(dir);
            return false;
        }
        // Only once: an earlier request may have had less grace.
        going.iter().filter(|files| files.end_grace().is_none()).for_each(|files| _ = files.request_end(GRACE));
        true
    }

    /// Marks a batch job whose result nobody needs: it ends on its node, and no run joins it.
    pub fn mark(&self) {
        let going = self.members.iter().map(|member| NodeFiles::of(&member.folder)).filter(|files| !files.has_ended());
        // A folder that is gone needs no mark.
        going.filter(|files| files.end_grace().is_none()).for_each(|files| _ = files.request_end(GRACE));
    }

    /// One of its attempts was told to end.
    pub fn should_end(&self) -> bool {
        self.members.iter().any(|member| NodeFiles::of(&member.folder).end_grace().is_some())
    }

    /// The job will not start: removes its program description, which holds secrets.
    pub fn forget_programs(&self) {
        // A job that has started has read and removed it.
        let _ = fs::remove_file(NodeFiles::of(self.folder()).job());
    }

    /// Withdraws the request to end.
    pub fn let_live(&self) {
        self.members.iter().for_each(|member| NodeFiles::of(&member.folder).let_live());
    }

    /// It runs on its node.
    pub fn has_begun(&self) -> bool {
        self.members.iter().any(|member| NodeFiles::of(&member.folder).read_started().is_some())
    }

    /// All its attempts have ended.
    pub fn has_ended(&self) -> bool {
        self.members.iter().all(|member| NodeFiles::of(&member.folder).has_ended())
    }

    /// A batch job that was told to end and had not ended well by itself before.
    pub fn is_marked(&self) -> bool {
        // Its node may not have recorded what ended it.
        let by_itself = |files: &NodeFiles| {
            files.read_ended().is_some_and(|record| record.warned.is_none() && record.exit.code == Some(0))
        };
        let told = |files: NodeFiles| files.end_grace().is_some() && !by_itself(&files);
        self.here.is_none() && self.members.iter().any(|member| told(NodeFiles::of(&member.folder)))
    }

    /// The folder of the job: that of its first attempt.
    pub fn folder(&self) -> &Path {
        self.members.first().map_or(Path::new("/"), |member| &member.folder)
    }

    /// Writes a job that is not an array task, synced to disk.
    ///
    /// # Errors
    /// The disk is full.
    pub fn write(&self, dir: &StoreDir) -> io::Result<()> {
        let bytes = serde_json::to_vec(self)?;
        in_folder(dir, &self.run, || write_durably(&file(dir, &self.run, &self.key), &bytes))
    }

    /// Writes it without a sync. A power cut loses nothing: a job is found by its name, and attempts on this machine
    /// end with the power.
    ///
    /// # Errors
    /// The disk is full.
    pub fn note(&self, dir: &StoreDir) -> io::Result<()> {
        let bytes = serde_json::to_vec(self)?;
        in_folder(dir, &self.run, || write_atomically(&file(dir, &self.run, &self.key), &bytes))
    }

    /// True if it is written. Not for array tasks.
    pub fn is_there(&self, dir: &StoreDir) -> bool {
        file(dir, &self.run, &self.key).exists()
    }

    /// Removes it after its result is recorded; not for array tasks.
    pub fn remove(&self, dir: &StoreDir) {
        remove(dir, &self.run, &self.key);
    }
}

/// Writes an array with these tasks, synced to disk.
///
/// # Errors
/// The disk is full.
pub fn write_array<'i>(dir: &StoreDir, tasks: impl Iterator<Item = &'i Intent>) -> io::Result<()> {
    let Some(array) = array(tasks) else { return Ok(()) };
    let bytes = serde_json::to_vec(&array)?;
    in_folder(dir, &array.run, || write_durably(&file(dir, &array.run, &array.key), &bytes))
}

/// Writes into the folder of intents, which whoever removes the last intent removes too.
fn in_folder(dir: &StoreDir, run: &RunId, write: impl Fn() -> io::Result<()>) -> io::Result<()> {
    let write = || {
        fs::create_dir_all(dir.run(run).jobs())?;
        write()
    };
    write().or_else(|e| if e.kind() == io::ErrorKind::NotFound { write() } else { Err(e) })
}

/// Adds the array's id, without a sync.
///
/// # Errors
/// The disk is full.
pub fn note_array<'i>(dir: &StoreDir, tasks: impl Iterator<Item = &'i Intent>) -> io::Result<()> {
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

/// Notes that these tasks of an array are recorded. If a power cut undoes this, the next run finds the records.
pub fn tick_off(dir: &StoreDir, run: &RunId, key: &str, tasks: &[u32]) {
    let text: String = tasks.iter().map(|task| format!("{task}\n")).collect();
    let done = file(dir, run, key).with_extension("done");
    // On failure, the next run looks at the tasks once more.
    let _ =
        fs::File::options().create(true).append(true).open(done).and_then(|mut file| file.write_all(text.as_bytes()));
}

/// Removes the files of a job or array whose results are all recorded.
pub fn remove(dir: &StoreDir, run: &RunId, key: &str) {
    let path = file(dir, run, key);
    let _ = fs::remove_file(&path);
    let _ = fs::remove_file(path.with_extension("done"));
    // Only an empty folder is removed.
    let _ = path.parent().map(fs::remove_dir);
}

/// The same, if all tasks of the array are recorded: others may have ticked off some of them.
pub fn remove_done(dir: &StoreDir, run: &RunId, key: &str) {
    if read(&file(dir, run, key)).is_empty() {
        remove(dir, run, key);
    }
}

/// Removes files that a killed run was writing or removing, and damaged ones. They carry no information, but would keep the folder.
pub fn forget_unfinished(run: &RunDir) {
    let files = fs::read_dir(run.jobs()).into_iter().flatten().flatten().map(|entry| entry.path());
    let unfinished = files.filter(|path| match path.extension().and_then(|end| end.to_str()) {
        Some("tmp") => true,
        Some("json") => fs::read(path).is_ok_and(|bytes| serde_json::from_slice::<IntentFile>(&bytes).is_err()),
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

/// All intents of a run.
pub fn of(run: &RunDir) -> Vec<Intent> {
    let files = fs::read_dir(run.jobs()).into_iter().flatten().flatten().map(|entry| entry.path());
    files.filter(|path| path.extension().is_some_and(|end| end == "json")).flat_map(|path| read(&path)).collect()
}

fn read(path: &Path) -> Vec<Intent> {
    let written = fs::read(path).ok().and_then(|bytes| serde_json::from_slice(&bytes).ok());
    let Array { key, job, run, tasks } = match written {
        Some(IntentFile::Array(array)) => array,
        Some(IntentFile::Job(intent)) => return vec![intent],
        None => return Vec::new(),
    };
    let done = fs::read_to_string(path.with_extension("done")).unwrap_or_default();
    let done: BTreeSet<u32> = done.lines().filter_map(|line| line.parse().ok()).collect();
    let left: Vec<(u32, Vec<Member>)> = (0..).zip(tasks).filter(|(number, _)| !done.contains(number)).collect();
    let of = left.len() as u32;
    let task = |(number, members): (u32, Vec<Member>)| Intent {
        key: key.clone(),
        place: Place::Slurm,
        here: None,
        boot: String::new(),
        is_over: false,
        task: Some(Task { number, of }),
        job: job.map(|job| JobId { job, task: Some(number) }),
        run: run.clone(),
        members,
    };
    left.into_iter().map(task).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn task(number: u32) -> Intent {
        let member = Member {
            given: None,
            attempt: AttemptId(number),
            fingerprint: Digest::of(&number.to_le_bytes()),
            label: format!("a[n={number}]"),
            folder: PathBuf::from(format!("/store/{number}")),
            began: 1.0,
            announces: false,
            piped: false,
            linked: Vec::new(),
            outputs: Vec::new(),
        };
        let job = Some(JobId { job: 7, task: Some(number) });
        let task = Some(Task { number, of: 3 });
        Intent {
            key: "flow-a".to_owned(),
            place: Place::Slurm,
            here: None,
            boot: String::new(),
            is_over: false,
            task,
            job,
            run: RunId("r".to_owned()),
            members: vec![member],
        }
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
