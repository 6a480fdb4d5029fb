//! A run's folder: its journal, its status file, and the folders of its attempts. Written by the run, read by all.

use std::{
    fs::{self, File},
    io,
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
};

use flow_core::{AttemptId, JournalLine, RunEvent, RunId, RunStart, reason::StoreAction};
use nix::{
    errno::Errno,
    unistd::{Uid, User},
};

use crate::{
    Result, StoreDir, StoreError,
    daemon_lock::{Daemon, DaemonLock},
    file,
    journal::{self, Journal, Lines, UnreadableParts},
    status::Status,
    tree::remove_tree,
};

/// Exists in the folder of captured inputs during the run. If it remains, the run was killed.
pub const INPUTS_OPEN: &str = "open";

/// The folder of a run.
#[derive(Clone, Debug)]
pub struct RunDir {
    dir: StoreDir,
    path: PathBuf,
}

impl StoreDir {
    /// A run's folder, whether it exists or not.
    pub fn run(&self, run: &RunId) -> RunDir {
        self.run_at(&self.runs_folder().join(&run.0))
    }

    /// The folder of a run that has no id yet.
    pub fn run_at(&self, path: &Path) -> RunDir {
        RunDir { dir: self.clone(), path: path.to_owned() }
    }
}

impl RunDir {
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The store that contains it.
    pub fn store(&self) -> &StoreDir {
        &self.dir
    }

    /// Its owner, if that is another user. Root never sees another user here.
    pub fn others(&self) -> Option<String> {
        others(&self.path)
    }

    /// The owner of its results, if this user may not drop them. The store's owner, the run's user and root may.
    pub fn others_results(&self) -> Option<String> {
        others(self.dir.path()).and_then(|_| self.others())
    }

    /// The folder of an attempt, created by whoever starts it.
    pub fn attempt(&self, attempt: AttemptId) -> PathBuf {
        self.attempts().join(attempt.0.to_string())
    }

    /// The folder of all attempts.
    pub fn attempts(&self) -> PathBuf {
        self.path.join("attempts")
    }

    /// The folder of captured inputs during the run.
    pub fn inputs(&self) -> PathBuf {
        self.path.join("inputs")
    }

    /// True if the run, which is over, was killed before it removed its copies of inputs.
    pub fn has_inputs(&self) -> bool {
        self.inputs().join(INPUTS_OPEN).exists()
    }

    /// Removes the copies of a killed run; the caller knows that the run is over.
    pub(crate) fn sweep_inputs(&self) {
        if self.has_inputs() {
            let _ = remove_tree(&self.inputs());
        }
    }

    /// The path of the journal.
    pub fn journal(&self) -> PathBuf {
        self.path.join("journal.jsonl")
    }

    /// The folder with records of the run's batch jobs and detached attempts, until their results are recorded.
    pub fn jobs(&self) -> PathBuf {
        self.path.join("jobs")
    }

    /// True if such jobs, or other work that survives its process, may still run or have results to import, whether the
    /// run lives or not.
    pub fn has_jobs(&self) -> bool {
        fs::read_dir(self.jobs()).is_ok_and(|mut jobs| jobs.next().is_some()) || self.daemon().is_some()
    }

    /// Makes this process the supervisor of what the run starts, even after the run's death, until the returned lock is
    /// dropped.
    ///
    /// # Errors
    /// The folder cannot be written; another process is the supervisor.
    pub fn keep_on(&self) -> Result<DaemonLock> {
        DaemonLock::of(&self.path)
    }

    /// The process that supervises what the run started, and outlives it.
    pub fn daemon(&self) -> Option<Daemon> {
        Daemon::of(&self.path)
    }

    pub(crate) fn status_path(&self) -> PathBuf {
        self.path.join("status.json")
    }

    /// Begins a new run: creates its journal, and its folder if the id was not taken before.
    ///
    /// # Errors
    /// It has already begun; the disk is full.
    pub fn create(&self) -> Result<Journal> {
        match fs::create_dir(&self.path) {
            Err(e) if e.kind() != io::ErrorKind::AlreadyExists => {
                return Err(StoreError::io(StoreAction::Create, &self.path)(e));
            }
            _ => {}
        }
        Journal::create(self.journal())
    }

    /// The first line of the journal; `None` if this flow does not know it.
    ///
    /// # Errors
    /// It cannot be read; a newer format.
    pub fn first_line(&self) -> Result<Option<JournalLine>> {
        Ok(self.lines(0)?.map_or(Ok(None), |mut lines| lines.next_line())?.flatten())
    }

    /// What its first line says about it; `None` if that is not the start of a run, or cannot be read.
    pub fn start(&self) -> Option<Box<RunStart>> {
        match self.first_line().ok()??.event {
            RunEvent::RunStarted(start) => Some(start),
            _ => None,
        }
    }

    /// Removes all traces of a run that has not begun and will not. Returns whether that was so.
    pub fn unname(&self) -> bool {
        if !self.journal().exists() {
            let _ = fs::remove_file(self.alive_file());
        }
        self.clear()
    }

    /// The same for a run without a living process.
    pub(crate) fn clear(&self) -> bool {
        if !self.journal().exists() {
            self.sweep_inputs();
        }
        EndRequest::ALL.into_iter().for_each(|end| drop(fs::remove_file(self.request_file(end))));
        fs::remove_dir(&self.path).is_ok()
    }

    fn request_file(&self, end: EndRequest) -> PathBuf {
        self.path.join(match end {
            EndRequest::Soon => "cancel",
            EndRequest::Now => "cancel-now",
        })
    }

    /// Asks the run to end, through a file: this also works from another container, and cannot reach a wrong process.
    ///
    /// # Errors
    /// The folder belongs to another user; the disk is full; the run has just ended and was removed.
    pub fn request_end(&self, end: EndRequest) -> Result<()> {
        let path = self.request_file(end);
        match File::options().write(true).create_new(true).open(&path) {
            // It was asked before, and has not noticed yet.
            Err(e) if e.kind() == io::ErrorKind::AlreadyExists => Ok(()),
            made => made.map(drop).map_err(StoreError::io(StoreAction::Write, &path)),
        }
    }

    /// True if it was asked to end and has not noticed yet.
    pub fn should_end(&self) -> bool {
        EndRequest::ALL.into_iter().any(|end| self.request_file(end).symlink_metadata().is_ok())
    }

    /// Takes the requests to end since the last call. Only users who may signal its process count: its own, or root.
    pub fn take_end(&self) -> Option<EndRequest> {
        let us = Uid::effective().as_raw();
        let asked = EndRequest::ALL.into_iter().filter(|end| {
            let Ok(file) = self.request_file(*end).symlink_metadata() else { return false };
            // Requests of other users are removed too, because they would block valid ones.
            fs::remove_file(self.request_file(*end)).is_ok() && [us, 0].contains(&file.uid())
        });
        asked.max()
    }

    /// Replaces the status file; at most a few times per second.
    ///
    /// # Errors
    /// The disk is full; the old file stays.
    pub fn write_status(&self, status: &Status) -> Result<()> {
        let path = self.status_path();
        let bytes = serde_json::to_vec(status).map_err(|e| StoreError::io(StoreAction::Write, &path)(e.into()))?;
        self.dir.write_atomically(&path, &bytes)
    }

    /// The last status; `None` if there is none yet, or the run was removed.
    ///
    /// # Errors
    /// It cannot be read.
    pub fn status(&self) -> Result<Option<Status>> {
        let path = self.status_path();
        let bytes = file::if_there(file::read(&path)).map_err(StoreError::io(StoreAction::Read, &path))?;
        let status = bytes.map(|bytes| serde_json::from_slice(&bytes)).transpose();
        status.map_err(|e| StoreError::Malformed { path, detail: Box::new(e.to_string().into()) })
    }

    /// Reads the journal from the start, line by line, and returns how much was unreadable.
    ///
    /// # Errors
    /// There is none; a newer format.
    pub fn read_journal(&self, mut each: impl FnMut(JournalLine)) -> Result<UnreadableParts> {
        let path = self.journal();
        let missing = || StoreError::io(StoreAction::Read, &path)(Errno::ENOENT.into());
        let mut lines = self.lines(0)?.ok_or_else(missing)?;
        let mut unread = UnreadableParts::default();
        while let Some(line) = lines.next_line()? {
            match line {
                Some(line) => each(line),
                None => unread.lines += 1,
            }
        }
        unread.torn = lines.torn;
        Ok(unread)
    }

    /// The lines of the journal from the start of a line; `None` if there is no journal.
    pub fn lines(&self, from: u64) -> Result<Option<Lines>> {
        self.lines_to(from, u64::MAX)
    }

    /// The same, up to an offset.
    pub fn lines_to(&self, from: u64, to: u64) -> Result<Option<Lines>> {
        Lines::open(self.journal(), from, to)
    }

    /// The length of the journal that its writer will not undo. `None` if there is none, or its writer holds it for too
    /// long.
    pub fn settled(&self) -> Result<Option<u64>> {
        journal::settled(&self.journal())
    }

    /// The present length of the journal, if there is one.
    pub fn journal_length(&self) -> Option<u64> {
        self.journal().metadata().map(|journal| journal.len()).ok()
    }

    /// True if it has begun, and its process is gone: its journal does not grow any more.
    pub fn is_over(&self) -> bool {
        self.journal().exists() && self.lives().is_none()
    }
}

/// The owner of a folder, if that is another user.
fn others(folder: &Path) -> Option<String> {
    let owner = Uid::from_raw(folder.metadata().ok()?.uid());
    let us = Uid::effective();
    let name = || User::from_uid(owner).ok().flatten().map_or_else(|| format!("user {owner}"), |user| user.name);
    (owner != us && !us.is_root()).then(name)
}

/// How a run must end, as by Ctrl-C in its terminal.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum EndRequest {
    /// Nothing new starts, and attempts have a few seconds; at a second request, none.
    Soon,
    /// Running attempts are killed.
    Now,
}

impl EndRequest {
    const ALL: [EndRequest; 2] = [EndRequest::Soon, EndRequest::Now];
}
