//! Marks: how far the journals are in the database, written in the same batch as the changes. Pure.
//!
//! Each run has a mark of its own under `j` and its name: its journal is in the database up to that byte. The base mark tells of
//! all that ended before, and moves at an opening alone, for only then nobody else writes.

use std::collections::BTreeMap;

use flow_core::{JournalLine, RunEvent, RunId};
use serde::{Deserialize, Serialize};

/// The key of the base mark in the database.
pub(crate) const MARK: &[u8] = b"applied";
/// The prefix of the keys of runs' own marks.
pub(crate) const MARKS: &[u8] = b"j";

/// The key of a run's own mark.
pub(crate) fn mark_key(run: &RunId) -> Vec<u8> {
    [MARKS, run.0.as_bytes()].concat()
}

/// The base mark. The journal of `run` is applied up to byte `to` at least, and journals of runs with smaller ids
/// completely, except those of runs with a mark of their own.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Mark {
    pub(crate) run: RunId,
    pub(crate) to: u64,
    /// Runs up to this one overlapped with others, or their records were rebuilt: marks do not tell what was recorded
    /// during these runs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) shared: Option<RunId>,
}

impl Mark {
    /// The mark of an empty database.
    pub(crate) fn none() -> Mark {
        Mark { run: RunId(String::new()), to: 0, shared: None }
    }

    /// The offset in a run's journal from which the database has nothing yet.
    pub(crate) fn rest_of(&self, run: &RunId, own: Option<u64>) -> u64 {
        let base = if *run == self.run { self.to } else { 0 };
        own.unwrap_or(0).max(base)
    }

    /// The base mark after all journals were applied, and the runs whose own marks are still needed. `open`: the runs
    /// that still live.
    pub(crate) fn folded<'a>(&self, marks: &'a BTreeMap<RunId, u64>, open: &[RunId]) -> (Mark, Vec<&'a RunId>) {
        let mut base = self.clone();
        // A run that recorded nothing has changed nothing.
        if let Some((run, to)) = marks.iter().rev().find(|(_, to)| **to > 0) {
            if marks.len() > 1 {
                base.shared = base.shared.max(marks.last_key_value().map(|(run, _)| run.clone()));
            }
            if *run >= base.run {
                (base.run, base.to) = (run.clone(), *to);
            }
        }
        match open.iter().min() {
            Some(oldest) if *oldest <= base.run => {
                // Never back: everything before the base is in the database.
                if *oldest > self.run {
                    (base.run, base.to) = (oldest.clone(), 0);
                } else {
                    (base.run, base.to) = (self.run.clone(), self.to);
                }
            }
            _ => {}
        }
        let stays = |run: &RunId, to: u64| open.contains(run) || (to > 0 && *run > base.run);
        let kept = marks.iter().filter(|(run, to)| stays(run, **to)).map(|(run, _)| run).collect();
        (base, kept)
    }
}

/// True if the line changes the database.
pub fn is_record(line: &JournalLine) -> bool {
    use RunEvent::{Dropped, Forgotten, Observed, Recorded, Tried};
    matches!(line.event, Recorded { .. } | Observed { .. } | Tried { .. } | Forgotten { .. } | Dropped { .. })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(name: &str) -> RunId {
        RunId(name.into())
    }

    fn fold(base: (&str, u64), marks: &[(&str, u64)], open: &[&str]) -> (Mark, Vec<String>) {
        let base = Mark { run: run(base.0), to: base.1, shared: None };
        let marks = marks.iter().map(|(name, to)| (run(name), *to)).collect();
        let (mark, kept) = base.folded(&marks, &open.iter().map(|name| run(name)).collect::<Vec<_>>());
        (mark, kept.into_iter().map(|run| run.0.clone()).collect())
    }

    #[test]
    fn the_base_moves_over_what_ended_and_no_further() {
        let mark = |name: &str, to, shared: Option<&str>| Mark { run: run(name), to, shared: shared.map(run) };
        assert_eq!(fold(("1", 5), &[], &[]), (mark("1", 5, None), vec![]));
        assert_eq!(fold(("1", 5), &[("2", 9)], &[]), (mark("2", 9, None), vec![]));
        assert_eq!(fold(("1", 5), &[("2", 0)], &[]), (mark("1", 5, None), vec![]), "it recorded nothing");
        assert_eq!(fold(("1", 5), &[("2", 9), ("3", 7)], &[]), (mark("3", 7, Some("3")), vec![]));
        assert_eq!(fold(("1", 5), &[("2", 9), ("3", 0)], &[]), (mark("2", 9, Some("3")), vec![]));
        let open = fold(("1", 5), &[("2", 9), ("3", 7), ("4", 3)], &["3"]);
        assert_eq!(open, (mark("3", 0, Some("4")), vec!["3".into(), "4".into()]));
        let late = fold(("5", 5), &[("3", 7), ("6", 1)], &["3"]);
        assert_eq!(late, (mark("5", 5, Some("6")), vec!["3".into(), "6".into()]));
    }
}
