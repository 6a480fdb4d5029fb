//! What a run is about to write to its journal, beside it, for the case that its process is killed while it waits for the disk: lines
//! reach the kernel as soon as they are known, and are not synced. Who takes in the rest of the journal of a run that does not live
//! any more writes them there, after the artifacts that they tell of are on the disk. After a crash of the machine they say nothing.

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
    /// Of the machine, during which it was written.
    boot: String,
    /// Where the journal ended: what follows is what comes to stand there.
    from: u64,
}

/// The lines that a run has not journalled yet.
pub struct Ahead {
    journal: Journal,
    path: PathBuf,
    file: Option<File>,
    holds_some: bool,
    /// They cannot be noted: what is lost then with a kill is what was not journalled.
    is_of_no_use: bool,
}

impl Ahead {
    /// Of a journal that this process writes.
    pub fn of(journal: &Journal) -> Ahead {
        let path = beside(journal.path());
        Ahead { journal: journal.clone(), path, file: None, holds_some: false, is_of_no_use: false }
    }

    /// Lines are noted that may not be in the journal yet: what is noted next follows these.
    pub fn holds_some(&self) -> bool {
        self.holds_some
    }

    /// Notes lines which will follow those in the journal, or those that were noted last, and says whether that was done.
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

    /// All of them are journalled.
    pub fn clear(&mut self) {
        self.holds_some = false;
        // Where that cannot be told, what is noted later would be taken for something else.
        self.is_of_no_use |= self.file.as_ref().is_some_and(|file| file.set_len(0).is_err());
    }

    /// The run ends as it should.
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
    /// Writes to the journal of a run that does not live any more what it was about to write there. Leaves it where that cannot be done,
    /// as in a run of somebody else.
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
            // Another process was quicker.
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
            // Half a line would swallow the next one.
            let _ = journal.set_len(before);
            return Err(StoreError::io(StoreAction::Write, self.journal())(e));
        }
        let _ = fs::remove_file(&path);
        Ok(())
    }
}

/// What follows in the journal, in whole lines.
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
