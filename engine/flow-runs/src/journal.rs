//! A journal file: written by its run, with one write for lines that belong together, and read by all, even during the
//! run.

use std::{
    fs::File,
    io::{self, BufRead, BufReader, Read, Seek, SeekFrom, Write},
    path::{Path, PathBuf},
    sync::Arc,
    thread,
    time::Duration,
};

use flow_core::{JOURNAL_FORMAT, JournalLine, RunEvent, RunId, reason::StoreAction};
use nix::{
    errno::Errno,
    fcntl::{Flock, FlockArg},
};

use crate::{
    Result, StoreError, file,
    mark::{RECORDS, is_record},
};

/// A journal, line by line.
pub struct Lines {
    path: PathBuf,
    file: BufReader<io::Take<File>>,
    line: Vec<u8>,
    /// Start of the next line.
    pub to: u64,
    /// The rest has no line end.
    pub(crate) torn: bool,
}

impl Lines {
    /// The lines between two offsets, where `from` is the start of a line; `None` if there is no journal.
    pub(crate) fn open(path: PathBuf, from: u64, to: u64) -> Result<Option<Lines>> {
        let Some(mut file) = open(&path)? else { return Ok(None) };
        file.seek(SeekFrom::Start(from)).map_err(StoreError::io(StoreAction::Read, &path))?;
        let file = BufReader::new(file.take(to.saturating_sub(from)));
        Ok(Some(Lines { path, file, line: Vec::new(), to: from, torn: false }))
    }

    /// Syncs what was read.
    pub fn sync(&self) -> Result<()> {
        self.file.get_ref().get_ref().sync_data().map_err(StoreError::io(StoreAction::Sync, &self.path))
    }

    /// The next line as bytes; `None` after the last whole one.
    pub(crate) fn next_bytes(&mut self) -> Result<Option<&[u8]>> {
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

    /// The next line, `Some(None)` if it is not an event that this flow knows; `None` after the last whole one.
    pub fn next_line(&mut self) -> Result<Option<Option<JournalLine>>> {
        let path = self.path.clone();
        self.next_bytes()?.map(|line| parse(&path, line)).transpose()
    }

    /// The same for a reader of records: also `Some(None)` if the line changes nothing in the database. Most lines are
    /// of that kind, and reading them takes longer than finding the name of their event.
    pub fn next_record(&mut self) -> Result<Option<Option<JournalLine>>> {
        let path = self.path.clone();
        let Some(line) = self.next_bytes()? else { return Ok(None) };
        if event(line).is_some_and(|event| !RECORDS.contains(&event) && event != b"run_started") {
            return Ok(Some(None));
        }
        Ok(Some(parse(&path, line)?.filter(is_record)))
    }
}

/// The name of a line's event, if flow wrote the line.
fn event(line: &[u8]) -> Option<&[u8]> {
    let rest = line.strip_prefix(b"{\"at\":")?;
    let digits = rest.iter().take_while(|byte| byte.is_ascii_digit()).count();
    let name = rest[digits..].strip_prefix(b",\"event\":\"")?;
    name.split(|byte| *byte == b'"').next()
}

/// The length of a journal that its writer will not undo. `None` if there is none, or its writer holds it for too long.
pub(crate) fn settled(path: &Path) -> Result<Option<u64>> {
    const TRIES: u32 = 100;
    let length =
        |file: &File| file.metadata().map(|meta| Some(meta.len())).map_err(StoreError::io(StoreAction::Read, path));
    let Some(mut file) = open(path)? else { return Ok(None) };
    for _ in 0..TRIES {
        match Flock::lock(file, FlockArg::LockSharedNonblock) {
            Ok(file) => return length(&file),
            Err((again, Errno::EWOULDBLOCK)) => file = again,
            // If journals cannot be locked, no writer locks them.
            Err((file, _)) => return length(&file),
        }
        thread::sleep(Duration::from_millis(10));
    }
    Ok(None)
}

fn open(path: &Path) -> Result<Option<File>> {
    // A run that was killed before its first line has none.
    file::if_there(file::open_to_read(path)).map_err(StoreError::io(StoreAction::Read, path))
}

/// Unreadable parts of a journal.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct UnreadableParts {
    /// Whole lines that are not events this flow knows.
    pub lines: u32,
    /// The last line is incomplete: its writer was killed, or is writing it.
    pub torn: bool,
}

/// The journal of a run that writes it. Clones write the same file, one after the other.
#[derive(Clone, Debug)]
pub struct Journal {
    path: PathBuf,
    file: Arc<File>,
}

impl Journal {
    pub(crate) fn create(path: PathBuf) -> Result<Journal> {
        let file = File::options().append(true).create_new(true).open(&path);
        let file = file.map_err(StoreError::io(StoreAction::Create, &path))?;
        Ok(Journal { path, file: Arc::new(file) })
    }

    /// The journal of a run that has ended, for appending. `end` is the end of its last whole line: what a killed
    /// writer left after it is cut off.
    pub fn reopen(path: PathBuf, end: u64) -> Result<Journal> {
        let file = file::open(File::options().append(true), &path);
        let file = file.and_then(|file| file.set_len(end).map(|()| file));
        let file = file.map_err(StoreError::io(StoreAction::Write, &path))?;
        Ok(Journal { path, file: Arc::new(file) })
    }

    /// Appends lines with one write.
    ///
    /// # Errors
    /// The disk is full: then none of the lines is in the journal.
    pub fn append(&self, lines: &[JournalLine]) -> Result<()> {
        self.add(lines, false).map(drop)
    }

    /// Appends lines with one write, and returns the new length. With `sync` it returns when they are on disk.
    pub fn add(&self, lines: &[JournalLine], sync: bool) -> Result<u64> {
        if lines.is_empty() {
            return Ok(0);
        }
        let failed = |e| StoreError::io(StoreAction::Write, &self.path)(e);
        let mut bytes = Vec::with_capacity(256 * lines.len());
        lines_as_text(lines, &mut bytes).map_err(failed)?;
        // Readers must not see lines that may be undone.
        let _at_it = self.file.try_clone().ok().and_then(|file| Flock::lock(file, FlockArg::LockExclusive).ok());
        let before = self.file.metadata().map_err(failed)?.len();
        let written = (&*self.file).write_all(&bytes).and_then(|()| if sync { self.file.sync_data() } else { Ok(()) });
        written.map(|()| before + bytes.len() as u64).map_err(|e| {
            // Half a line would corrupt the next one.
            let _ = self.file.set_len(before);
            failed(e)
        })
    }

    /// The run that it belongs to.
    pub fn run(&self) -> RunId {
        let folder = self.path.parent().and_then(Path::file_name).unwrap_or_default();
        RunId(folder.to_string_lossy().into_owned())
    }
}

/// Follows a journal while it is being written.
#[derive(Debug)]
pub struct Follow {
    file: Tail,
    unread: usize,
}

/// Follows a file of lines while it is being written.
#[derive(Debug)]
pub(crate) struct Tail {
    path: PathBuf,
    read_to: u64,
    rest: Vec<u8>,
}

impl Tail {
    pub(crate) fn new(path: PathBuf) -> Tail {
        Tail { path, read_to: 0, rest: Vec::new() }
    }

    /// New whole lines since the last call. None if the file does not exist yet.
    pub(crate) fn poll(&mut self) -> Result<Vec<u8>> {
        let Some(mut file) = open(&self.path)? else { return Ok(Vec::new()) };
        let read = file.seek(SeekFrom::Start(self.read_to)).and_then(|_| file.read_to_end(&mut self.rest));
        self.read_to += read.map_err(StoreError::io(StoreAction::Read, &self.path))? as u64;
        let whole = self.rest.iter().rposition(|byte| *byte == b'\n').map_or(0, |end| end + 1);
        let rest = self.rest.split_off(whole);
        Ok(std::mem::replace(&mut self.rest, rest))
    }
}

impl Follow {
    pub fn new(path: PathBuf) -> Follow {
        Follow { file: Tail::new(path), unread: 0 }
    }

    /// How many lines so far were no event that this flow knows.
    pub fn unread(&self) -> usize {
        self.unread
    }

    /// New lines since the last call. None if the journal does not exist yet.
    ///
    /// # Errors
    /// It cannot be read; a newer format.
    pub fn poll(&mut self) -> Result<Vec<JournalLine>> {
        let new = self.file.poll()?;
        let all: Vec<&[u8]> = new.split_inclusive(|byte| *byte == b'\n').collect();
        let lines = all.iter().filter_map(|line| parse(&self.file.path, line).transpose());
        let lines: Vec<JournalLine> = lines.collect::<Result<_>>()?;
        self.unread += all.len() - lines.len();
        Ok(lines)
    }
}

/// Lines in the form of a journal.
fn lines_as_text(lines: &[JournalLine], text: &mut Vec<u8>) -> io::Result<()> {
    for line in lines {
        serde_json::to_writer(&mut *text, line)?;
        text.push(b'\n');
    }
    Ok(())
}

/// One line; `None` if it is not an event that this flow knows.
fn parse(path: &Path, line: &[u8]) -> Result<Option<JournalLine>> {
    let Ok(line) = serde_json::from_slice::<JournalLine>(line) else { return Ok(None) };
    match &line.event {
        RunEvent::RunStarted(start) if start.format > JOURNAL_FORMAT => {
            Err(StoreError::Newer { path: path.to_owned(), found: start.format, known: JOURNAL_FORMAT })
        }
        _ => Ok(Some(line)),
    }
}

#[cfg(test)]
mod tests {
    use flow_core::Digest;
    use serde_json::json;

    use super::*;

    #[test]
    fn a_reader_of_records_gets_the_lines_that_change_the_database() {
        let digest = Digest::of(b"1");
        let result = json!({
            "fingerprint": digest, "workflow": "w", "step": "s", "label": "s", "axes": {}, "outcome": "ok", "run": "r",
            "started_at": 0, "ended_at": 0, "metrics": {},
        });
        let records = [
            json!({"event": "recorded", "instance": 0, "result": result, "parts": {}}),
            json!({"event": "observed", "result": result}),
            json!({"event": "tried", "workflow": "w", "label": "s", "run": "r", "fingerprint": digest, "parts": {}}),
            json!({"event": "forgotten", "fingerprint": digest, "label": "s"}),
            json!({"event": "dropped", "results": [digest], "readings": {}}),
        ];
        let others = [
            json!({"event": "ended", "instance": 0, "attempt": 0, "outcome": "ok"}),
            json!({"event": "notice", "instance": null, "text": "{\"at\":1,\"event\":\"dropped\""}),
        ];
        let written = |mut event: serde_json::Value| {
            event["at"] = 7.into();
            serde_json::to_string(&serde_json::from_value::<JournalLine>(event).unwrap()).unwrap()
        };
        let mut text: Vec<String> = records.into_iter().chain(others).map(written).collect();
        assert!(text.iter().all(|line| event(line.as_bytes()).is_some()), "{text:#?}");
        // As another program may write it.
        text.push(format!(
            "{{\"event\": \"forgotten\", \"fingerprint\": {}, \"label\": \"s\", \"at\": 7}}",
            json!(digest)
        ));
        text.extend(["no JSON".to_owned(), "{\"at\":7,\"event\":\"later\"}".to_owned()]);
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), text.join("\n") + "\n").unwrap();
        let open = || Lines::open(file.path().to_owned(), 0, u64::MAX).unwrap().unwrap();
        let (mut all, mut only) = (open(), open());
        let mut found = 0;
        while let Some(line) = all.next_line().unwrap() {
            let expected = line.filter(is_record);
            found += usize::from(expected.is_some());
            assert_eq!((only.next_record().unwrap(), only.to), (Some(expected), all.to));
        }
        assert_eq!((found, only.next_record().unwrap()), (RECORDS.len() + 1, None));
    }
}
