//! What is written together: first to the journal, then to the database. Knows their order, not what the lines mean.
//!
//! The artifacts that lines tell of are on the disk before the lines are written, and these before what they come to is put into the
//! database, which gets it to the disk when it likes. The database carries a mark with every batch: how far the journals are in
//! it. What they have beyond it an opening puts there.

use flow_core::{JournalLine, RunEvent, RunId};
use serde::{Deserialize, Serialize};

use crate::{
    Journal, Objects, Result, StoreError,
    db::{Db, DbBatch, json},
};

/// Under which the mark lies in the database.
pub(crate) const MARK: &[u8] = b"applied";

/// How far the journals are in the database: that of `run` up to a byte, those of earlier runs whole. One is enough, for one run
/// writes at a time, and a later one has a greater id.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Mark {
    pub(crate) run: RunId,
    pub(crate) to: u64,
}

/// Lines for the journal and what they come to in the database, not written yet.
pub struct Commit {
    pub(crate) objects: Objects,
    pub(crate) db: Db,
    pub(crate) journal: Journal,
    pub(crate) lines: Vec<JournalLine>,
    pub(crate) writes: DbBatch,
    /// Among what is written is something that no journal tells of.
    pub(crate) only_here: bool,
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
    pub fn apply(mut self) -> Result<Vec<JournalLine>, Unapplied> {
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
        if records {
            self.writes.put(MARK.to_vec(), json(&Mark { run: self.journal.run(), to }));
        }
        // What the journal has need not be on the disk twice.
        let write = if self.only_here { Db::write } else { Db::put };
        if self.writes.len() > 0 {
            write(&self.db, self.writes).map_err(Unapplied::Journalled)?;
        }
        Ok(self.lines)
    }

    /// This one and what came later, as one.
    pub fn with(mut self, later: Commit) -> Commit {
        self.lines.extend(later.lines);
        self.writes.append(later.writes);
        self.only_here |= later.only_here;
        self
    }

    /// There are lines for the journal at most: no disk is waited for.
    pub fn is_quick(&self) -> bool {
        self.writes.len() == 0
    }
}

/// The line holds something for the database.
pub(crate) fn is_record(line: &JournalLine) -> bool {
    use RunEvent::{Forgotten, Observed, Recorded, Tried};
    matches!(line.event, Recorded { .. } | Observed { .. } | Tried { .. } | Forgotten { .. })
}
