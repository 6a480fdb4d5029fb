//! The files by which a supervisor tells the engine how its programs do. A file without room on the disk waits, because
//! only this process knows its content.

use std::{
    collections::VecDeque,
    io,
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use flow_core::AttemptId;
use serde::Serialize;

use super::{ENDED, NodeFacts, Record, STARTED, not_written};
use crate::{
    attempt::{write_atomically, write_durably},
    clock,
};

/// Interval of retries.
const WRITE_AGAIN: Duration = Duration::from_secs(1);

/// Files that are not written yet, in order.
#[derive(Default)]
pub(super) struct Outgoing {
    files: VecDeque<UnwrittenRecord>,
    tried_at: Option<Instant>,
}

struct UnwrittenRecord {
    attempt: AttemptId,
    path: PathBuf,
    content: Vec<u8>,
    is_end: bool,
    /// Synced, so that it survives a power cut.
    durably: bool,
}

impl Outgoing {
    /// A program runs.
    pub(super) fn started(&mut self, attempt: AttemptId, folder: &Path, facts: &NodeFacts) {
        self.push(attempt, folder.join(STARTED), facts, (false, false));
    }

    /// A program has ended.
    pub(super) fn ended(&mut self, attempt: AttemptId, folder: &Path, record: &Record, durably: bool) {
        self.push(attempt, folder.join(ENDED), record, (true, durably));
    }

    fn push(&mut self, attempt: AttemptId, path: PathBuf, what: &impl Serialize, (is_end, durably): (bool, bool)) {
        let content = serde_json::to_vec(what).unwrap_or_default();
        self.files.push_back(UnwrittenRecord { attempt, path, content, is_end, durably });
    }

    /// The end of an attempt is not written yet.
    pub(super) fn has_end(&self, attempt: AttemptId) -> bool {
        self.files.iter().any(|file| file.is_end && file.attempt == attempt)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.files.is_empty()
    }

    /// It is time to try again.
    pub(super) fn is_due(&self) -> bool {
        !self.is_empty() && self.tried_at.is_none_or(|at| clock::since(at) >= WRITE_AGAIN)
    }

    /// Writes them in order, until one finds no room. Calls `written` with the attempt of each, and whether it is its end.
    ///
    /// # Errors
    /// In words: the first that cannot be written for another reason. It is tried again, unless its folder is gone.
    pub(super) fn write(&mut self, mut written: impl FnMut(AttemptId, bool)) -> Result<(), String> {
        self.tried_at = Some(clock::steady());
        let (mut failed, mut error) = (VecDeque::new(), None);
        while let Some(file) = self.files.pop_front() {
            let UnwrittenRecord { attempt, path, content, is_end, durably } = &file;
            match if *durably { write_durably(path, content) } else { write_atomically(path, content) } {
                Ok(()) => written(*attempt, *is_end),
                Err(e) if is_full(&e) => {
                    self.files.push_front(file);
                    break;
                }
                Err(e) => {
                    error.get_or_insert_with(|| not_written(path, &e));
                    if e.kind() != io::ErrorKind::NotFound {
                        failed.push_back(file);
                    }
                }
            }
        }
        self.files.append(&mut failed);
        error.map_or(Ok(()), Err)
    }
}

/// True if the disk, or the user's quota on it, is full.
pub(super) fn is_full(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded)
}
