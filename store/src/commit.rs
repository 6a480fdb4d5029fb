//! What is written together: first to the journal, then to the database. Knows their order, not what the lines mean.
//!
//! The artifacts that lines tell of are on the disk before the lines are written, and these before what they come to is put into the
//! database, which gets it to the disk when it likes. The database carries a mark with every batch: how far the run's journal is in
//! it. What journals have beyond it an opening puts there. Where another process has the database it is told how long the journal
//! is now, and reads what is new of it.

use std::sync::Arc;

use flow_core::{JournalLine, RunEvent};

use crate::{Journal, Objects, Result, StoreError, db::DbBatch, link::Link, mark::is_record};

/// Lines for the journal and what they come to in the database, not written yet.
pub struct Commit {
    pub(crate) objects: Objects,
    pub(crate) link: Arc<Link>,
    pub(crate) journal: Journal,
    pub(crate) lines: Vec<JournalLine>,
    /// What no journal tells of.
    pub(crate) only_here: DbBatch,
}

/// Why a commit could not be written.
pub enum Unapplied {
    /// Nothing of it is anywhere, and it can be tried again.
    Nowhere(Box<Commit>, StoreError),
    /// The journal has it; the next opening puts it into the database.
    Journalled(StoreError),
}

impl From<Unapplied> for StoreError {
    fn from(from: Unapplied) -> StoreError {
        match from {
            Unapplied::Nowhere(_, error) | Unapplied::Journalled(error) => error,
        }
    }
}

impl Commit {
    /// Writes it, and gives the lines back when no kill and no power cut can undo what they record.
    ///
    /// # Errors
    /// The disk is full, or the database is damaged. What was there before still is.
    pub fn apply(self) -> Result<Vec<JournalLine>, Unapplied> {
        let records = self.lines.iter().any(is_record);
        let results = self.lines.iter().filter_map(|line| match &line.event {
            RunEvent::Recorded { result, .. } => Some(&**result),
            _ => None,
        });
        let synced = self.objects.sync(results);
        let to = match synced.and_then(|()| self.journal.add(&self.lines, records)) {
            Ok(to) => to,
            Err(error) => return Err(Unapplied::Nowhere(Box::new(self), error)),
        };
        let run = self.journal.run();
        let only_here = self.only_here;
        let written = match self.link.core() {
            Some(core) => core.commit(&run, &self.lines, only_here, records.then_some(to)),
            None => {
                // What is forgotten may be among what is recorded: it was made again.
                let first = if only_here.len() == 0 { Ok(()) } else { self.link.write(only_here) };
                first.and_then(|()| if records { self.link.record(&run, to) } else { Ok(()) })
            }
        };
        written.map(|()| self.lines).map_err(Unapplied::Journalled)
    }

    /// This one and what came later, as one.
    pub fn with(mut self, later: Commit) -> Commit {
        self.lines.extend(later.lines);
        self.only_here.append(later.only_here);
        self
    }

    /// There are lines for the journal at most: no disk is waited for.
    pub fn is_quick(&self) -> bool {
        self.only_here.len() == 0 && !self.lines.iter().any(is_record)
    }
}
