//! Writes that belong together: first the journal, then the database. Knows their order, not the meaning of the lines.
//!
//! Artifacts that the lines name are synced before the lines, and the lines before their changes go to the database,
//! which writes to disk at its own pace. Every batch of the database includes a mark: how far the run's journal is in
//! it. Opening the store applies what journals have beyond the mark. If another process has the database, it reads the
//! journal itself.

use std::sync::Arc;

use flow_core::{JournalLine, RunEvent};

use crate::{Objects, db::DbBatch, open_database::OpenDatabase};
use flow_runs::{Journal, Result, StoreError, mark::is_record};

/// Lines for the journal and their database changes, not written yet.
pub struct Commit {
    pub(crate) objects: Objects,
    pub(crate) database: Arc<OpenDatabase>,
    pub(crate) journal: Journal,
    pub(crate) lines: Vec<JournalLine>,
    /// Changes that no journal contains.
    pub(crate) only_here: DbBatch,
}

/// Why a commit was not applied.
pub enum CommitError {
    /// Nothing of it was written, and it can be tried again.
    Nowhere(Box<Commit>, StoreError),
    /// The journal has it; the next opening applies it to the database.
    Journalled(StoreError),
}

impl From<CommitError> for StoreError {
    fn from(from: CommitError) -> StoreError {
        match from {
            CommitError::Nowhere(_, error) | CommitError::Journalled(error) => error,
        }
    }
}

impl Commit {
    /// Writes it, and returns the lines when neither a kill nor a power cut can undo them.
    ///
    /// # Errors
    /// The disk is full, or the database is damaged. Earlier content is unaffected.
    pub fn apply(self) -> Result<Vec<JournalLine>, CommitError> {
        let records = self.lines.iter().any(is_record);
        let results = self.lines.iter().filter_map(|line| match &line.event {
            RunEvent::Recorded { result, .. } => Some(&**result),
            _ => None,
        });
        let synced = self.objects.sync(results);
        let to = match synced.and_then(|()| self.journal.add(&self.lines, records)) {
            Ok(to) => to,
            Err(error) => return Err(CommitError::Nowhere(Box::new(self), error)),
        };
        let run = self.journal.run();
        let written = self.database.commit(&run, &self.lines, self.only_here, records.then_some(to));
        written.map(|()| self.lines).map_err(CommitError::Journalled)
    }

    /// Merges this commit with a later one.
    pub fn with(mut self, later: Commit) -> Commit {
        self.lines.extend(later.lines);
        self.only_here.extend(later.only_here);
        self
    }

    /// True if it contains only lines without results, so that no disk sync is needed.
    pub fn is_quick(&self) -> bool {
        self.only_here.is_empty() && !self.lines.iter().any(is_record)
    }
}
