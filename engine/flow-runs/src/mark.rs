//! Marks: how far each journal is in the database, written in the same batch as its changes. Pure.

use flow_core::{JournalLine, RunEvent, RunId};

/// The prefix of the keys of marks.
pub const MARKS: &[u8] = b"j";
/// The key of a list of runs that held the database: since they began, no other run has recorded.
pub const UNDISTURBED: &[u8] = b"undisturbed";
/// The key of the sum of all marks when the index was written. The number is the form of the index.
pub const INDEXED: &[u8] = b"indexed1";

/// The key of a run's mark: the offset up to which its journal is in the database.
pub fn mark_key(run: &RunId) -> Vec<u8> {
    [MARKS, run.0.as_bytes()].concat()
}

/// The names of the events that change the database.
pub(crate) const RECORDS: [&[u8]; 5] = [b"recorded", b"observed", b"tried", b"forgotten", b"dropped"];

/// True if the line changes the database.
pub fn is_record(line: &JournalLine) -> bool {
    use RunEvent::{Dropped, Forgotten, Observed, Recorded, Tried};
    matches!(line.event, Recorded { .. } | Observed { .. } | Tried { .. } | Forgotten { .. } | Dropped { .. })
}
