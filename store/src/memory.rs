//! The database in a process that does not hold it: the index file, and in memory what journals have beyond it. Results
//! stay where they are, in the journals.

use std::{
    collections::BTreeMap,
    sync::{PoisonError, RwLock, RwLockReadGuard},
};

use flow_core::RunId;

use crate::{
    Batch,
    bytes::{EachValue, FoundValue, attempt_key, json, last_key, result_key},
    db::DbBatch,
    index::Index,
    results::attempt_of,
};
use flow_runs::{Result, StoreDir};

/// First byte of a value that is in a journal; JSON never begins with it.
const IN_JOURNAL: u8 = b'#';

pub(crate) struct Memory {
    dir: StoreDir,
    index: Index,
    /// Changes since the index.
    changes: RwLock<DbBatch>,
}

impl Memory {
    pub(crate) fn of(dir: &StoreDir, index: Index) -> Memory {
        Memory { dir: dir.clone(), index, changes: RwLock::default() }
    }

    fn changes(&self) -> RwLockReadGuard<'_, DbBatch> {
        self.changes.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// Applies a batch. With `line`, the run and the place of the journal line that makes it, keeps only the place of
    /// large values.
    pub(crate) fn put(&self, batch: DbBatch, line: Option<(&RunId, u64)>) {
        let mut changes = self.changes.write().unwrap_or_else(PoisonError::into_inner);
        changes.extend(batch.into_iter().map(|(key, value)| match line {
            Some((run, at)) if matches!(key.first(), Some(b'r' | b'a' | b'l')) => {
                (key, value.map(|_| format!("{}{at} {run}", char::from(IN_JOURNAL)).into_bytes()))
            }
            _ => (key, value),
        }));
    }

    /// The first of these keys that has a value, and the value.
    pub(crate) fn first_of(&self, keys: &[Vec<u8>]) -> Result<FoundValue> {
        for (n, key) in keys.iter().enumerate() {
            let changed = self.changes().get(key).cloned();
            let stored = changed.unwrap_or_else(|| self.index.get(key).map(<[u8]>::to_vec));
            if let Some(value) = stored.map_or(Ok(None), |stored| self.whole(key, stored))? {
                return Ok(Some((n, value)));
            }
        }
        Ok(None)
    }

    /// Visits all keys with `prefix`, in order.
    pub(crate) fn scan(&self, prefix: &[u8], each: &mut EachValue<'_>) -> Result<()> {
        let changes = self.changes();
        let entries = self.entries(&changes, prefix).into_iter();
        let found: Vec<_> = entries.map(|(key, value)| (key.to_vec(), value.to_vec())).collect();
        drop(changes);
        for (key, stored) in found {
            if let Some(value) = self.whole(&key, stored)? {
                each(&key, &value)?;
            }
        }
        Ok(())
    }

    /// Replaces the index with everything that is known now, except what only removed runs had.
    pub(crate) fn write_index(&self) -> Result<()> {
        let runs = self.dir.runs()?;
        let changes = self.changes();
        let is_there =
            |(_, value): &(&[u8], &[u8])| place(value).is_none_or(|(_, run)| runs.binary_search(&run).is_ok());
        Index::write(&self.dir, &self.dir.index(), self.entries(&changes, b"").into_iter().filter(is_there))
    }

    /// The entries with a prefix, with changes applied.
    fn entries<'a>(&'a self, changes: &'a DbBatch, prefix: &[u8]) -> BTreeMap<&'a [u8], &'a [u8]> {
        let mut entries: BTreeMap<&[u8], &[u8]> =
            self.index.from(prefix).take_while(|(key, _)| key.starts_with(prefix)).collect();
        for (key, change) in changes.range(prefix.to_vec()..).take_while(|(key, _)| key.starts_with(prefix)) {
            match change {
                Some(value) => entries.insert(key, value),
                None => entries.remove(&**key),
            };
        }
        entries
    }

    /// The value itself. None if its run was removed.
    fn whole(&self, key: &[u8], stored: Vec<u8>) -> Result<Option<Vec<u8>>> {
        let Some((at, run)) = place(&stored) else { return Ok(Some(stored)) };
        let Some(mut lines) = self.dir.run(&run).lines(at)? else { return Ok(None) };
        let Some(Some(line)) = lines.next_line()? else { return Ok(None) };
        let (mut batch, mut values) = (Batch::new(), DbBatch::default());
        batch.apply(&line);
        put_values(&batch, &mut values);
        Ok(values.remove(key).flatten())
    }
}

/// The offset in a journal, and its run.
fn place(stored: &[u8]) -> Option<(u64, RunId)> {
    let stored = std::str::from_utf8(stored.strip_prefix(&[IN_JOURNAL])?).ok()?;
    let (at, run) = stored.split_once(' ')?;
    Some((at.parse().ok()?, RunId(run.to_owned())))
}

/// Adds the values of a batch that have keys of their own.
pub(crate) fn put_values(batch: &Batch, writes: &mut DbBatch) {
    for result in &batch.results {
        writes.insert(result_key(&result.fingerprint), Some(json(result)));
        if let Some(attempt) = attempt_of(result) {
            writes.insert(attempt_key(&attempt), Some(json(&result.fingerprint)));
        }
    }
    for (attempt, reading) in &batch.attempts {
        writes.insert(attempt_key(attempt), reading.as_ref().map(json));
    }
    for (workflow, label, last) in &batch.last {
        writes.insert(last_key(workflow, label), Some(json(last)));
    }
}
