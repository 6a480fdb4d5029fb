//! A run's folder: its journal, its status file, and the folders of its attempts. Written by the run, read by everybody.

use std::{
    collections::BTreeMap,
    fs::{self, File},
    io::{self, BufRead, BufReader, Read, Seek, SeekFrom, Write},
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
    sync::Arc,
    thread,
    time::Duration,
};

use flow_core::{
    AttemptId, InstanceId, JOURNAL_FORMAT, JournalLine, RunEvent, RunId,
    reason::{StoreAction, Waits},
};
use nix::{
    errno::Errno,
    fcntl::{Flock, FlockArg},
    unistd::{Uid, User},
};
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::Value;

use crate::{
    Captures, Result, StoreDir, StoreError, file,
    kept::{DaemonLock, DaemonState},
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
}

impl StoreDir {
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

    pub(crate) fn store(&self) -> &StoreDir {
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
        let path = self.journal();
        let file = File::options()
            .append(true)
            .create_new(true)
            .open(&path)
            .map_err(StoreError::io(StoreAction::Create, &path))?;
        Ok(Journal { path, file: Arc::new(file) })
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
        let path = self.journal();
        let Some(mut file) = self.open_journal()? else { return Ok(None) };
        file.seek(SeekFrom::Start(from)).map_err(StoreError::io(StoreAction::Read, &path))?;
        let file = BufReader::new(file.take(to.saturating_sub(from)));
        Ok(Some(Lines { path, file, line: Vec::new(), to: from, torn: false }))
    }

    /// How long the journal is, and its writer will not take back; `None` if there is none, or its writer is at it for longer
    /// than can be waited for. What a run that was killed had no time to write there is in it.
    pub(crate) fn settled(&self) -> Result<Option<u64>> {
        const TRIES: u32 = 100;
        self.write_what_was_ahead()?;
        let path = self.journal();
        let Some(mut file) = self.open_journal()? else { return Ok(None) };
        for _ in 0..TRIES {
            match Flock::lock(file, FlockArg::LockSharedNonblock) {
                Ok(file) => return Ok(Some(file.metadata().map_err(StoreError::io(StoreAction::Read, &path))?.len())),
                Err((again, Errno::EWOULDBLOCK)) => file = again,
                // Where journals cannot be locked nobody locks them.
                Err((file, _)) => {
                    return Ok(Some(file.metadata().map_err(StoreError::io(StoreAction::Read, &path))?.len()));
                }
            }
            thread::sleep(Duration::from_millis(10));
        }
        Ok(None)
    }

    fn open_journal(&self) -> Result<Option<File>> {
        let path = self.journal();
        match file::open_to_read(&path) {
            Ok(file) => Ok(Some(file)),
            // A run that was killed before its first line.
            Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(e) => Err(StoreError::io(StoreAction::Read, &path)(e)),
        }
    }
}

/// Whose a folder is, if it is somebody else's.
fn others(folder: &Path) -> Option<String> {
    let owner = Uid::from_raw(folder.metadata().ok()?.uid());
    let us = Uid::effective();
    let name = || User::from_uid(owner).ok().flatten().map_or_else(|| format!("user {owner}"), |user| user.name);
    (owner != us && !us.is_root()).then(name)
}

/// A journal, line by line.
pub(crate) struct Lines {
    path: PathBuf,
    file: BufReader<io::Take<File>>,
    line: Vec<u8>,
    /// Where the next line begins.
    pub(crate) to: u64,
    /// What follows has no end.
    pub(crate) torn: bool,
}

impl Lines {
    /// Waits until what is read is on the disk.
    pub(crate) fn sync(&self) -> Result<()> {
        self.file.get_ref().get_ref().sync_data().map_err(StoreError::io(StoreAction::Sync, &self.path))
    }

    /// The next line, whatever it is; `None` behind the last whole one.
    fn next_bytes(&mut self) -> Result<Option<&[u8]>> {
        self.line.clear();
        let read =
            self.file.read_until(b'\n', &mut self.line).map_err(StoreError::io(StoreAction::Read, &self.path))?;
        self.torn = read > 0 && self.line.last() != Some(&b'\n');
        if read == 0 || self.torn {
            return Ok(None);
        }
        self.to += read as u64;
        Ok(Some(&self.line))
    }

    /// The next line, `Some(None)` if it is no event that this flow knows; `None` behind the last whole one.
    pub(crate) fn next_line(&mut self) -> Result<Option<Option<JournalLine>>> {
        let path = self.path.clone();
        self.next_bytes()?.map(|line| parse(&path, line)).transpose()
    }
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

/// What of a journal could not be read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Unread {
    /// Whole lines that are no events this flow knows.
    pub lines: u32,
    /// The last line has no end: its writer was killed, or is at it.
    pub torn: bool,
}

/// The journal of the run at hand. Clones write the same one, one after the other.
#[derive(Clone, Debug)]
pub struct Journal {
    path: PathBuf,
    file: Arc<File>,
}

impl Journal {
    /// Appends lines with one write.
    ///
    /// # Errors
    /// The disk is full: nothing of them is in the journal then.
    pub fn append(&self, lines: &[JournalLine]) -> Result<()> {
        self.add(lines, false).map(drop)
    }

    /// Appends lines with one write, and says where the journal ends then. With `sync` it returns when they are on the disk.
    pub(crate) fn add(&self, lines: &[JournalLine], sync: bool) -> Result<u64> {
        if lines.is_empty() {
            return Ok(0);
        }
        let failed = |e| StoreError::io(StoreAction::Write, &self.path)(e);
        let mut bytes = Vec::with_capacity(256 * lines.len());
        lines_as_text(lines, &mut bytes).map_err(failed)?;
        // Who looks at it meanwhile would see what may be taken back.
        let _at_it = self.file.try_clone().ok().and_then(|file| Flock::lock(file, FlockArg::LockExclusive).ok());
        let before = self.file.metadata().map_err(failed)?.len();
        let written = (&*self.file).write_all(&bytes).and_then(|()| if sync { self.file.sync_data() } else { Ok(()) });
        written.map(|()| before + bytes.len() as u64).map_err(|e| {
            // Half a line would swallow the next one.
            let _ = self.file.set_len(before);
            failed(e)
        })
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    pub(crate) fn length(&self) -> io::Result<u64> {
        Ok(self.file.metadata()?.len())
    }

    /// The run that it tells of.
    pub(crate) fn run(&self) -> RunId {
        let folder = self.path.parent().and_then(Path::file_name).unwrap_or_default();
        RunId(folder.to_string_lossy().into_owned())
    }
}

/// Follows a journal while somebody writes it.
#[derive(Debug)]
pub struct Follow {
    path: PathBuf,
    read_to: u64,
    rest: Vec<u8>,
}

impl Follow {
    pub fn new(run: &RunDir) -> Follow {
        Follow { path: run.journal(), read_to: 0, rest: Vec::new() }
    }

    /// The lines that are new since the last call. None if the journal does not exist yet.
    ///
    /// # Errors
    /// It cannot be read; a newer format.
    pub fn poll(&mut self) -> Result<Vec<JournalLine>> {
        let mut file = match file::open_to_read(&self.path) {
            Ok(file) => file,
            Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            Err(e) => return Err(StoreError::io(StoreAction::Read, &self.path)(e)),
        };
        let read = file.seek(SeekFrom::Start(self.read_to)).and_then(|_| file.read_to_end(&mut self.rest));
        self.read_to += read.map_err(StoreError::io(StoreAction::Read, &self.path))? as u64;
        let whole = self.rest.iter().rposition(|byte| *byte == b'\n').map_or(0, |end| end + 1);
        let rest = self.rest.split_off(whole);
        let new = std::mem::replace(&mut self.rest, rest);
        new.split_inclusive(|byte| *byte == b'\n').filter_map(|line| parse(&self.path, line).transpose()).collect()
    }
}

/// Lines as a journal has them.
pub(crate) fn lines_as_text(lines: &[JournalLine], text: &mut Vec<u8>) -> io::Result<()> {
    for line in lines {
        serde_json::to_writer(&mut *text, line)?;
        text.push(b'\n');
    }
    Ok(())
}

/// One line; `None` if it is no event that this flow knows.
pub(crate) fn parse(path: &Path, line: &[u8]) -> Result<Option<JournalLine>> {
    let Ok(line) = serde_json::from_slice::<JournalLine>(line) else { return Ok(None) };
    match &line.event {
        RunEvent::RunStarted(start) if start.format > JOURNAL_FORMAT => {
            Err(StoreError::Newer { path: path.to_owned(), found: start.format, known: JOURNAL_FORMAT })
        }
        _ => Ok(Some(line)),
    }
}

/// A run as it stands: for `flow status`, `flow runs` and whoever else only looks. Whether a run without end is alive,
/// [`RunDir::lives`] tells.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Status {
    pub run: RunId,
    pub workflow: String,
    /// Its file, relative to the root where it is below it.
    pub file: String,
    pub pid: u32,
    /// When it began, milliseconds since 1970.
    pub started_at: u64,
    /// When this was written.
    pub updated_at: u64,
    /// The exit code, once it has ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ended: Option<i32>,
    /// How many instances there are.
    pub instances: u32,
    /// Settled instances by how: `cached`, `ok`, `failed`, …
    pub counts: BTreeMap<String, u32>,
    /// What runs.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub running: Vec<Running>,
    /// What waits, and for what; without what only another version of flow understands.
    #[serde(default, deserialize_with = "known", skip_serializing_if = "Vec::is_empty")]
    pub waiting: Vec<Waiting>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Running {
    pub instance: InstanceId,
    pub label: String,
    pub attempt: AttemptId,
    /// When it began, milliseconds since 1970.
    pub started_at: u64,
    /// Between 0 and 1, where it tells.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fraction: Option<f64>,
    /// A few words of its own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub text: Option<String>,
    /// It does not run yet: its job waits in Slurm's queue.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub queued: Option<Queued>,
    /// UUIDs of its GPUs.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub gpus: Vec<String>,
    /// How many its job asks Slurm for: which it gets is known later.
    #[serde(default)]
    pub gpus_asked: u32,
    pub cpus: u32,
}

/// A job in Slurm's queue.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Queued {
    /// Its number there, once it is submitted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub job: Option<String>,
    /// Slurm's word for why it waits; empty where it says none.
    pub reason: String,
    /// Since when it waits, milliseconds since 1970.
    pub since: u64,
    /// What is to be done, where it will not go away by itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub advice: Option<String>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Waiting {
    pub label: String,
    pub reason: Waits,
}

fn known<'de, D: Deserializer<'de>>(waiting: D) -> std::result::Result<Vec<Waiting>, D::Error> {
    let all = Vec::<Value>::deserialize(waiting)?;
    Ok(all.into_iter().filter_map(|one| serde_json::from_value(one).ok()).collect())
}
