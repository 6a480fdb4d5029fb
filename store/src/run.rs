//! A run's folder: its journal, its status file, and the folders of its attempts. Written by the run, read by everybody.

use std::{
    fs::{self, File},
    io,
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
};

use flow_core::{AttemptId, JournalLine, RunId, reason::StoreAction};
use nix::{
    errno::Errno,
    unistd::{Uid, User},
};

use crate::{
    Captures, Result, StoreDir, StoreError, file,
    journal::{self, Journal, Lines, Unread},
    kept::{DaemonLock, DaemonState},
    status::Status,
};

/// The folder of a run.
#[derive(Clone, Debug)]
pub struct RunDir {
    dir: StoreDir,
    path: PathBuf,
}

impl StoreDir {
    /// A run's folder, whether it exists or not.
    pub fn run(&self, run: &RunId) -> RunDir {
        RunDir::new(self, run)
    }

    /// The folder of a run that has no name yet.
    pub(crate) fn run_at(&self, path: &Path) -> RunDir {
        RunDir { dir: self.clone(), path: path.to_owned() }
    }
}

impl RunDir {
    pub(crate) fn new(dir: &StoreDir, run: &RunId) -> RunDir {
        RunDir { dir: dir.clone(), path: dir.path().join("runs").join(&run.0) }
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The store that it is in.
    pub fn store(&self) -> &StoreDir {
        &self.dir
    }

    /// Whose it is, if it is somebody else's: nobody is that to root.
    pub fn others(&self) -> Option<String> {
        others(&self.path)
    }

    /// Whose its results are, if this user is not to drop them: who owns the store may, as root and who ran it may.
    pub fn others_results(&self) -> Option<String> {
        others(self.dir.path()).and_then(|_| self.others())
    }

    /// The folder of an attempt; made by whoever starts it.
    pub fn attempt(&self, attempt: AttemptId) -> PathBuf {
        self.path.join("attempts").join(attempt.0.to_string())
    }

    /// Where inputs are captured while the run goes on.
    pub fn inputs(&self) -> PathBuf {
        self.path.join("inputs")
    }

    /// Where the journal lies.
    pub fn journal(&self) -> PathBuf {
        self.path.join("journal.jsonl")
    }

    /// Where it stands which jobs of a batch system the run has asked for, until what came of them is safe.
    pub fn jobs(&self) -> PathBuf {
        self.path.join("jobs")
    }

    /// Such jobs, or what else outlives its process, may still go on, or have left something to be taken in, whether the run lives or
    /// not.
    pub fn has_jobs(&self) -> bool {
        fs::read_dir(self.jobs()).is_ok_and(|mut jobs| jobs.next().is_some()) || self.kept() != DaemonState::Nothing
    }

    /// This process keeps what the run starts from here on, whether the run lives or not, until what comes back is dropped.
    ///
    /// # Errors
    /// The folder cannot be written; another process does.
    pub fn keep_on(&self) -> Result<DaemonLock> {
        DaemonLock::of(&self.path)
    }

    /// What goes on of it on this machine whose own process is gone.
    pub fn kept(&self) -> DaemonState {
        DaemonState::of(&self.path)
    }

    pub(crate) fn status_path(&self) -> PathBuf {
        self.path.join("status.json")
    }

    /// Begins a new run: makes its journal, and its folder where the name was not taken before.
    ///
    /// # Errors
    /// It has begun already; the disk is full.
    pub fn create(&self) -> Result<Journal> {
        match fs::create_dir(&self.path) {
            Err(e) if e.kind() != io::ErrorKind::AlreadyExists => {
                return Err(StoreError::io(StoreAction::Create, &self.path)(e));
            }
            _ => {}
        }
        Journal::create(self.journal())
    }

    /// The first line of the journal; `None` where it has none that this flow knows.
    ///
    /// # Errors
    /// It cannot be read; a newer format.
    pub fn first_line(&self) -> Result<Option<JournalLine>> {
        Ok(self.lines(0)?.map_or(Ok(None), |mut lines| lines.next_line())?.flatten())
    }

    /// The version of flow that the first line names, and of the journal's format, whatever else it says; `None` where it
    /// names none.
    pub(crate) fn made_by(&self) -> Result<Option<(String, u64)>> {
        let Some(mut lines) = self.lines(0)? else { return Ok(None) };
        let first = lines.next_bytes()?.and_then(|line| serde_json::from_slice::<serde_json::Value>(line).ok());
        Ok(first.and_then(|line| Some((line.get("flow")?.as_str()?.to_owned(), line.get("format")?.as_u64()?))))
    }

    /// The run has not begun, and will not: leaves nothing of it. Says whether that was so.
    pub fn unname(&self) -> bool {
        if !self.journal().exists() {
            let _ = fs::remove_file(self.alive_file());
        }
        self.clear()
    }

    /// The same for a run that nobody's process goes on with.
    pub(crate) fn clear(&self) -> bool {
        if !self.journal().exists() {
            Captures::sweep(&self.inputs());
        }
        End::ALL.into_iter().for_each(|end| drop(fs::remove_file(self.ask(end))));
        fs::remove_dir(&self.path).is_ok()
    }

    fn ask(&self, end: End) -> PathBuf {
        self.path.join(match end {
            End::Soon => "cancel",
            End::Now => "cancel-now",
        })
    }

    /// Asks the run to end, by a file: a process in another container could not be reached in another way, and no other process
    /// can be hit by it.
    ///
    /// # Errors
    /// The folder is somebody else's; the disk is full; the run has just ended and was removed.
    pub fn tell_to_end(&self, end: End) -> Result<()> {
        let path = self.ask(end);
        match File::options().write(true).create_new(true).open(&path) {
            // It was asked before, and has not heard of it yet.
            Err(e) if e.kind() == io::ErrorKind::AlreadyExists => Ok(()),
            made => made.map(drop).map_err(StoreError::io(StoreAction::Write, &path)),
        }
    }

    /// It was asked to end, and has not taken note.
    pub fn is_told_to_end(&self) -> bool {
        End::ALL.into_iter().any(|end| self.ask(end).symlink_metadata().is_ok())
    }

    /// What was asked of the run since this was called last. Only who may signal its process may ask: its user, or root.
    pub fn take_end(&self) -> Option<End> {
        let us = Uid::effective().as_raw();
        let asked = End::ALL.into_iter().filter(|end| {
            let Ok(file) = self.ask(*end).symlink_metadata() else { return false };
            // Somebody else's goes too: it would stand in the way of who may ask.
            fs::remove_file(self.ask(*end)).is_ok() && [us, 0].contains(&file.uid())
        });
        asked.max()
    }

    /// Replaces the status file. Not more than a few times a second.
    ///
    /// # Errors
    /// The disk is full; the old one stands then.
    pub fn write_status(&self, status: &Status) -> Result<()> {
        let path = self.status_path();
        let bytes = serde_json::to_vec(status).map_err(|e| StoreError::io(StoreAction::Write, &path)(e.into()))?;
        self.dir.write_atomically(&path, &bytes)
    }

    /// The status as last written; `None` where there is none yet, or the run was cleaned away.
    ///
    /// # Errors
    /// It cannot be read.
    pub fn status(&self) -> Result<Option<Status>> {
        let path = self.status_path();
        match file::read(&path) {
            Ok(bytes) => match serde_json::from_slice(&bytes) {
                Ok(status) => Ok(Some(status)),
                Err(e) => Err(StoreError::Malformed { path, detail: Box::new(e.to_string().into()) }),
            },
            Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(e) => Err(StoreError::io(StoreAction::Read, &path)(e)),
        }
    }

    /// Reads the journal from the beginning, line by line, and says what of it could not be read.
    ///
    /// # Errors
    /// There is none; a newer format.
    pub fn read_journal(&self, mut each: impl FnMut(JournalLine)) -> Result<Unread> {
        let path = self.journal();
        let missing = || StoreError::io(StoreAction::Read, &path)(Errno::ENOENT.into());
        let mut lines = self.lines(0)?.ok_or_else(missing)?;
        let mut unread = Unread::default();
        while let Some(line) = lines.next_line()? {
            match line {
                Some(line) => each(line),
                None => unread.lines += 1,
            }
        }
        unread.torn = lines.torn;
        Ok(unread)
    }

    /// The lines of the journal from a place on, the beginning of one; `None` if there is no journal.
    pub(crate) fn lines(&self, from: u64) -> Result<Option<Lines>> {
        self.lines_to(from, u64::MAX)
    }

    /// The same up to a place.
    pub(crate) fn lines_to(&self, from: u64, to: u64) -> Result<Option<Lines>> {
        Lines::open(self.journal(), from, to)
    }

    /// How long the journal is, and its writer will not take back; `None` if there is none, or its writer is at it for longer
    /// than can be waited for. What a run that was killed had no time to write there is in it.
    pub(crate) fn settled(&self) -> Result<Option<u64>> {
        self.write_what_was_ahead()?;
        journal::settled(&self.journal())
    }
}

/// Whose a folder is, if it is somebody else's.
fn others(folder: &Path) -> Option<String> {
    let owner = Uid::from_raw(folder.metadata().ok()?.uid());
    let us = Uid::effective();
    let name = || User::from_uid(owner).ok().flatten().map_or_else(|| format!("user {owner}"), |user| user.name);
    (owner != us && !us.is_root()).then(name)
}

/// How a run is to end, as Ctrl-C in its terminal would have it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum End {
    /// Nothing new is started, and what runs has a few seconds; asked again, none.
    Soon,
    /// What runs is killed.
    Now,
}

impl End {
    const ALL: [End; 2] = [End::Soon, End::Now];
}
