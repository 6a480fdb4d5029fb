//! Lines that a run is about to write to its journal, in a file next to it, in case its process is killed while it
//! waits for the disk. Lines reach the kernel at once, without a sync. When the rest of a dead run's journal is
//! imported, they are appended to it, after the artifacts that they name are on disk. After a crash of the machine they
//! are ignored.

use std::{
    fs::{self, File},
    io::{self, Read, Seek, SeekFrom, Write},
    path::{Path, PathBuf},
};

use flow_core::{JournalLine, RunEvent, reason::StoreAction};
use nix::fcntl::{Flock, FlockArg};
use serde::{Deserialize, Serialize};

use crate::{
    Journal, ProcessIdentity, Result, RunDir, StoreError, file,
    journal::{lines_as_text, parse},
};

/// The file's first line.
#[derive(Serialize, Deserialize)]
struct Begin {
    /// The boot of the machine during which it was written.
    boot: String,
    /// The length of the journal: the next lines follow there.
    from: u64,
}

/// Lines that a run has not journalled yet.
pub struct Ahead {
    journal: Journal,
    path: PathBuf,
    file: Option<File>,
    holds_some: bool,
    /// The file cannot be used: a kill then loses what was not journalled.
    is_of_no_use: bool,
}

impl Ahead {
    /// For a journal that this process writes.
    pub fn of(journal: &Journal) -> Ahead {
        let path = beside(journal.path());
        Ahead { journal: journal.clone(), path, file: None, holds_some: false, is_of_no_use: false }
    }

    /// True if it has lines that may not be in the journal yet, which the next ones must follow.
    pub fn holds_some(&self) -> bool {
        self.holds_some
    }

    /// Notes lines that follow those in the journal, or those noted last. Returns whether that worked.
    pub fn note(&mut self, lines: &[JournalLine]) -> bool {
        let noted = !self.is_of_no_use && self.write(lines).is_ok();
        if !noted {
            self.clear();
        }
        self.holds_some = noted;
        noted
    }

    fn write(&mut self, lines: &[JournalLine]) -> io::Result<()> {
        let mut text = Vec::new();
        if !self.holds_some {
            let begin = Begin { boot: ProcessIdentity::own().boot, from: self.journal.length()? };
            serde_json::to_writer(&mut text, &begin)?;
            text.push(b'\n');
        }
        lines_as_text(lines, &mut text)?;
        let file = match self.file.take() {
            Some(file) => file,
            None => file::open(File::options().append(true).create(true), &self.path)?,
        };
        self.file.insert(file).write_all(&text)
    }

    /// All noted lines are in the journal.
    pub fn clear(&mut self) {
        self.holds_some = false;
        // If the file cannot be emptied, later lines in it would be misread.
        self.is_of_no_use |= self.file.as_ref().is_some_and(|file| file.set_len(0).is_err());
    }

    /// Removes the file at the normal end of the run.
    pub fn remove(&mut self) {
        if self.file.take().is_some() {
            let _ = fs::remove_file(&self.path);
        }
    }
}

fn beside(journal: &Path) -> PathBuf {
    journal.with_extension("ahead")
}

impl RunDir {
    /// True if its process noted lines that may not be in the journal.
    pub(crate) fn has_notes(&self) -> bool {
        beside(&self.journal()).exists()
    }

    /// Appends the noted lines of a dead run to its journal. Leaves them if that fails, as in a run of another user.
    pub(crate) fn write_what_was_ahead(&self) -> Result<()> {
        let path = beside(&self.journal());
        let Ok(ahead) = file::open_to_read(&path) else { return Ok(()) };
        if self.lives().is_some() {
            return Ok(());
        }
        let Ok(journal) = file::open(File::options().read(true).append(true), &self.journal()) else { return Ok(()) };
        let Ok(journal) = Flock::lock(journal, FlockArg::LockExclusive) else { return Ok(()) };
        let failed = |e| StoreError::io(StoreAction::Read, &path)(e);
        let text = match rest(ahead, &journal).map_err(failed)? {
            // Another process has done it already.
            _ if !path.exists() => return Ok(()),
            text => text,
        };
        let lines = text.split_inclusive(|byte| *byte == b'\n');
        let lines: Vec<JournalLine> = lines.filter_map(|line| parse(&path, line).transpose()).collect::<Result<_>>()?;
        let results = lines.iter().filter_map(|line| match &line.event {
            RunEvent::Recorded { result, .. } => Some(&**result),
            _ => None,
        });
        self.store().objects().sync(results)?;
        let before = journal.metadata().map_err(failed)?.len();
        let written = (&*journal).write_all(&text).and_then(|()| journal.sync_data());
        if let Err(e) = written {
            // Half a line would corrupt the next one.
            let _ = journal.set_len(before);
            return Err(StoreError::io(StoreAction::Write, self.journal())(e));
        }
        let _ = fs::remove_file(&path);
        Ok(())
    }
}

/// The whole lines that must follow in the journal.
fn rest(mut ahead: File, journal: &File) -> io::Result<Vec<u8>> {
    let mut text = Vec::new();
    ahead.read_to_end(&mut text)?;
    let Some(end) = text.iter().position(|byte| *byte == b'\n') else { return Ok(Vec::new()) };
    let Ok(begin) = serde_json::from_slice::<Begin>(&text[..end]) else { return Ok(Vec::new()) };
    let mut noted = text.split_off(end + 1);
    let mut journalled = Vec::new();
    let mut journal = journal;
    journal.seek(SeekFrom::Start(begin.from))?;
    journal.read_to_end(&mut journalled)?;
    let follows = journal.metadata()?.len() >= begin.from && noted.starts_with(&journalled);
    if !follows || begin.boot != ProcessIdentity::own().boot {
        return Ok(Vec::new());
    }
    noted.truncate(noted.iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1));
    Ok(noted.split_off(journalled.len().min(noted.len())))
}
