//! What the journals alone tell of earlier work: a view for who reads while somebody else holds the store, and the stuff that
//! a damaged database is rebuilt from.

use std::collections::{BTreeMap, VecDeque};

use flow_core::{Digest, RunEvent, StepResult};
use serde_json::Value;

use crate::{Batch, HISTORY, Last, Observation, Result, Results, StoreDir, StoreError, results::all_shapes};

/// A fold over the journals of all runs, oldest first.
#[derive(Default)]
pub struct Replay {
    results: BTreeMap<Digest, StepResult>,
    pub(crate) last: BTreeMap<(String, String), Last>,
    history: BTreeMap<String, VecDeque<Observation>>,
    /// Runs whose journal was read.
    pub runs: u32,
    /// Lines that could not be read.
    pub unread: u32,
}

impl Replay {
    /// Reads every journal.
    ///
    /// # Errors
    /// A newer format; a journal that is there cannot be read.
    pub fn read(dir: &StoreDir) -> Result<Replay> {
        let mut replay = Replay::default();
        for run in dir.runs()? {
            let read = dir.run(&run).read_journal(|line| {
                if let RunEvent::Recorded { result, parts, .. } = line.event {
                    replay.record(*result, parts);
                }
            });
            match read {
                Ok(unread) => {
                    replay.runs += 1;
                    replay.unread += unread.lines;
                }
                // A run that was killed before its first line.
                Err(StoreError::Io { source, .. }) if source.kind() == std::io::ErrorKind::NotFound => {}
                Err(error) => return Err(error),
            }
        }
        Ok(replay)
    }

    fn record(&mut self, result: StepResult, parts: Value) {
        let key = (result.workflow.clone(), result.label.clone());
        self.last.insert(key, Last { fingerprint: result.fingerprint, parts, run: result.run.clone() });
        for shape in all_shapes(&result) {
            let ring = self.history.entry(shape).or_default();
            ring.push_back(Observation::of(&result));
            if ring.len() > HISTORY {
                ring.pop_front();
            }
        }
        self.results.insert(result.fingerprint, result);
    }

    /// Every result.
    pub fn results(&self) -> impl ExactSizeIterator<Item = &StepResult> {
        self.results.values()
    }

    /// Everything, in batches of a size that the database takes well.
    pub(crate) fn into_batches(self) -> impl Iterator<Item = Batch> {
        let mut batches = Vec::new();
        let mut batch = Batch::new();
        let mut put = |batch: &mut Batch| {
            if batch.results.len() + batch.last.len() + batch.observed.len() >= 512 {
                batches.push(std::mem::take(batch));
            }
        };
        for result in self.results.into_values() {
            batch.results.push(result);
            put(&mut batch);
        }
        for ((workflow, label), last) in self.last {
            batch.last.push((workflow, label, last));
            put(&mut batch);
        }
        for (shape, ring) in self.history {
            batch.observed.extend(ring.into_iter().map(|observation| (shape.clone(), observation)));
            put(&mut batch);
        }
        batches.push(batch);
        batches.into_iter()
    }
}

impl Results for Replay {
    fn result(&self, fingerprint: &Digest) -> Result<Option<StepResult>> {
        Ok(self.results.get(fingerprint).cloned())
    }

    fn last(&self, workflow: &str, label: &str) -> Result<Option<Last>> {
        Ok(self.last.get(&(workflow.to_owned(), label.to_owned())).cloned())
    }

    fn history(&self, shape: &str) -> Result<Vec<Observation>> {
        Ok(self.history.get(shape).into_iter().flatten().cloned().collect())
    }
}
