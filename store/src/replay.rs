//! Reads journals alone: under which fingerprints the instances of a workflow were recorded.

use crate::{Batch, LastFingerprint};
use flow_runs::{Result, StoreDir};

/// Calls `each` with the recorded fingerprints of a workflow's instances, by label, the oldest first. Reads at most
/// this many of the newest journals, and this many bytes.
///
/// # Errors
/// A newer format; an existing journal cannot be read.
pub fn recorded(
    dir: &StoreDir,
    workflow: &str,
    (runs, bytes): (usize, u64),
    mut each: impl FnMut(String, LastFingerprint),
) -> Result<()> {
    let mut left = bytes;
    let mut newest = Vec::new();
    for run in dir.runs()?.iter().rev().take(runs).map(|run| dir.run(run)) {
        let length = run.journal().metadata().map_or(0, |journal| journal.len());
        let Some(rest) = left.checked_sub(length) else { break };
        left = rest;
        newest.push(run);
    }
    for run in newest.iter().rev() {
        let Some(mut lines) = run.lines(0)? else { continue };
        while let Some(line) = lines.next_line()? {
            let Some(line) = line else { continue };
            let mut batch = Batch::new();
            batch.apply(&line);
            batch.last.into_iter().filter(|(of, ..)| of == workflow).for_each(|(_, label, last)| each(label, last));
        }
    }
    Ok(())
}
