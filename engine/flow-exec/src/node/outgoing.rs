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

use super::{NodeFacts, NodeFiles, Record, not_written};
use crate::{
    attempt::{write_atomically, write_durably},
    clock,
};

/// Interval of retries.
const WRITE_AGAIN: Duration = Duration::from_secs(1);

/// Files that are not written yet, in order.
#[derive(Default)]
pub(super) struct Outgoing {
    files: VecDeque<Unwritten>,
    tried_at: Option<Instant>,
}

struct Unwritten {
    attempt: AttemptId,
    path: PathBuf,
    content: Vec<u8>,
    /// Synced, so that it survives a power cut.
    durably: bool,
}

impl Outgoing {
    /// A program runs.
    pub(super) fn started(&mut self, attempt: AttemptId, folder: &Path, facts: &NodeFacts) {
        self.push(attempt, NodeFiles::of(folder).started(), facts, false);
    }

    /// A program has ended.
    pub(super) fn ended(&mut self, attempt: AttemptId, folder: &Path, record: &Record, durably: bool) {
        self.push(attempt, NodeFiles::of(folder).ended(), record, durably);
    }

    fn push(&mut self, attempt: AttemptId, path: PathBuf, content: &impl Serialize, durably: bool) {
        let content = serde_json::to_vec(content).unwrap_or_default();
        self.files.push_back(Unwritten { attempt, path, content, durably });
    }

    pub(super) fn is_empty(&self) -> bool {
        self.files.is_empty()
    }

    /// It is time to try again.
    pub(super) fn is_due(&self) -> bool {
        !self.is_empty() && self.tried_at.is_none_or(|at| clock::since(at) >= WRITE_AGAIN)
    }

    /// Writes them in order, until one finds no room, and calls `written` with the attempt of each.
    ///
    /// # Errors
    /// In words: one cannot be written for another reason. It stays the next.
    pub(super) fn write(&mut self, mut written: impl FnMut(AttemptId)) -> Result<(), String> {
        self.tried_at = Some(clock::steady());
        while let Some(Unwritten { attempt, path, content, durably }) = self.files.front() {
            match if *durably { write_durably(path, content) } else { write_atomically(path, content) } {
                Ok(()) => written(*attempt),
                Err(e) if is_full(&e) => return Ok(()),
                Err(e) => return Err(not_written(path, &e)),
            }
            self.files.pop_front();
        }
        Ok(())
    }
}

/// True if the disk, or the user's quota on it, is full.
pub(super) fn is_full(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded)
}
