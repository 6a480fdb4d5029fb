//! A view of earlier work from the journals alone, for commands that cannot open the store.

use std::collections::{BTreeMap, VecDeque};

use flow_core::{Digest, JournalLine, StepResult, learn::Observation, plan::Sought};

use crate::{
    Batch, Earlier, HISTORY, Last, Result, Results, StoreDir,
    results::{attempt_of, is_same_attempt, order},
};

/// A fold over the journals of all runs, oldest first.
#[derive(Default)]
pub struct Replay {
    results: BTreeMap<Digest, StepResult>,
    /// The result under which each attempt is known.
    attempts: BTreeMap<Digest, Digest>,
    pub(crate) last: BTreeMap<(String, String), Last>,
    history: BTreeMap<String, VecDeque<Observation>>,
    /// Number of journals read.
    pub runs: u32,
    /// Number of unreadable lines.
    pub unread: u32,
}

impl Replay {
    /// Reads every journal.
    ///
    /// # Errors
    /// A newer format; an existing journal cannot be read.
    pub fn read(dir: &StoreDir) -> Result<Replay> {
        let mut replay = Replay::default();
        for run in dir.runs()? {
            // None if a run was killed before its first line.
            let Some(mut lines) = dir.run(&run).lines(0)? else { continue };
            while let Some(line) = lines.next_line()? {
                match line {
                    Some(line) => replay.take_in(&line),
                    None => replay.unread += 1,
                }
            }
            replay.runs += 1;
        }
        Ok(replay)
    }

    fn take_in(&mut self, line: &JournalLine) {
        let mut batch = Batch::new();
        batch.take_in(line);
        self.last.extend(batch.last.into_iter().map(|(workflow, label, last)| ((workflow, label), last)));
        for (shape, observation) in batch.observed {
            // Keeps the newest, in whatever order overlapping runs recorded them.
            let ring = self.history.entry(shape).or_default();
            match ring.binary_search_by(|seen| order(seen).cmp(&order(&observation))) {
                Ok(at) => ring[at] = observation,
                Err(at) => ring.insert(at, observation),
            }
            if ring.len() > HISTORY {
                ring.pop_front();
            }
        }
        batch.forgotten.iter().for_each(|fingerprint| _ = self.results.remove(fingerprint));
        for (shape, observation) in batch.observed_again {
            let ring = self.history.entry(shape).or_default().iter_mut();
            ring.filter(|seen| is_same_attempt(seen, &observation)).for_each(|seen| *seen = observation.clone());
        }
        let attempts = batch.results.iter().filter_map(|result| Some((attempt_of(result)?, result.fingerprint)));
        self.attempts.extend(attempts);
        let readings = batch.attempts.into_iter().filter_map(|(attempt, reading)| Some((attempt, reading?)));
        self.attempts.extend(readings);
        self.results.extend(batch.results.into_iter().map(|result| (result.fingerprint, result)));
    }

    pub fn results(&self) -> impl ExactSizeIterator<Item = &StepResult> {
        self.results.values()
    }

    /// True if there is a result with this fingerprint.
    pub(crate) fn has(&self, fingerprint: &Digest) -> bool {
        self.results.contains_key(fingerprint)
    }
}

/// Calls `each` with the recorded fingerprints of a workflow's instances, by label, the oldest first. Reads at most
/// this many of the newest journals, and this many bytes.
///
/// # Errors
/// A newer format; an existing journal cannot be read.
pub fn recorded(
    dir: &StoreDir,
    workflow: &str,
    (runs, bytes): (usize, u64),
    mut each: impl FnMut(String, Last),
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
            batch.take_in(&line);
            batch.last.into_iter().filter(|(of, ..)| of == workflow).for_each(|(_, label, last)| each(label, last));
        }
    }
    Ok(())
}

impl Results for Replay {
    fn results_of(&self, fingerprints: &[Digest]) -> Result<Vec<Option<StepResult>>> {
        Ok(fingerprints.iter().map(|fingerprint| self.results.get(fingerprint).cloned()).collect())
    }

    fn of_attempt(&self, attempt: &Digest) -> Result<Option<StepResult>> {
        Ok(self.attempts.get(attempt).and_then(|reading| self.results.get(reading)).cloned())
    }

    fn last(&self, workflow: &str, label: &str) -> Result<Option<Last>> {
        Ok(self.last.get(&(workflow.to_owned(), label.to_owned())).cloned())
    }

    fn earlier(&self, workflow: &str, of: &[Sought<'_>]) -> Result<Vec<Earlier>> {
        let earlier = |sought: &Sought<'_>| {
            if let Some(result) = self.result(&sought.fingerprint)? {
                return Ok(Earlier::Result(Box::new(result)));
            }
            if let Some(result) = self.of_attempt(&sought.attempt)? {
                return Ok(Earlier::Attempt(Box::new(result)));
            }
            Ok(self.last(workflow, sought.label)?.map_or(Earlier::Nothing, Earlier::Last))
        };
        of.iter().map(earlier).collect()
    }

    fn all(&self) -> Result<Vec<StepResult>> {
        Ok(self.results.values().cloned().collect())
    }

    fn histories(&self, shapes: &[String]) -> Result<Vec<Vec<Observation>>> {
        Ok(shapes.iter().map(|shape| self.history.get(shape).into_iter().flatten().cloned().collect()).collect())
    }
}
