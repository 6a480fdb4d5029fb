//! The database as the store uses it: applies journal lines to it, its own and those of other runs. The process that
//! holds the lock has it in sled, every other one in [`Memory`].

use std::{
    borrow::Cow,
    collections::BTreeMap,
    fs,
    os::unix::fs::MetadataExt,
    sync::{
        Mutex,
        atomic::{AtomicBool, Ordering},
    },
    time::SystemTime,
};

use flow_core::{Digest, JournalLine, RunId, StepResult, learn::Observation};
use serde::de::DeserializeOwned;

use crate::{
    Batch, EarlierData, LastFingerprint, Objects,
    bytes::{EachValue, FoundValue, history_key, json, last_key, object_of, parse, result_key},
    db::{Db, DbBatch},
    index::Index,
    memory::{Memory, put_values},
    mutex::lock,
    results::order,
    rings::ObservationRings,
};
use flow_runs::{
    Holder, Result, StoreDir,
    journal::Lines,
    lock::StoreLock,
    mark::{INDEXED, MARKS, UNDISTURBED, mark_key},
};

/// Number of results that are applied in one batch.
const CHUNK: usize = 512;
/// Bytes of journals that other processes read in addition to the index. It is replaced when there are more.
const BEYOND: u64 = 32 << 20;

/// Number of undisturbed runs that are remembered.
const UNDISTURBED_RUNS: usize = 16;

pub(crate) struct OpenDatabase {
    pub(crate) dir: StoreDir,
    objects: Objects,
    values: Values,
    rings: ObservationRings,
    /// One write at a time: of two that replace the same value, the last one wins, here and in `rings`.
    recording: Mutex<()>,
    pub(crate) followed: Mutex<FollowedRuns>,
    /// Other processes have recorded since it was opened.
    is_shared: AtomicBool,
    /// Released after the database is closed.
    lock: Option<StoreLock>,
}

enum Values {
    Held(Db),
    Read(Memory),
}

/// Runs whose journals may grow.
#[derive(Default)]
pub(crate) struct FollowedRuns {
    /// How far each journal is applied; none for one that is complete or whose lines the holder applies as it writes.
    pub(crate) runs: BTreeMap<RunId, Option<u64>>,
    /// Time and number of links of the runs' folder when it was last listed.
    as_of: Option<(SystemTime, u64)>,
}

/// Reading. Values have their stored form where nothing else is said.
impl OpenDatabase {
    /// The first of these keys that has a value, and the value.
    pub(crate) fn first(&self, of: &[Vec<u8>]) -> Result<FoundValue> {
        match &self.values {
            Values::Held(db) => db.first_of(of),
            Values::Read(memory) => memory.first_of(of),
        }
    }

    /// Every key and value with a prefix, in order of key.
    pub(crate) fn scan(&self, prefix: &[u8], each: &mut EachValue<'_>) -> Result<()> {
        match &self.values {
            Values::Held(db) => db.scan(prefix, each),
            Values::Read(memory) => memory.scan(prefix, each),
        }
    }

    /// The same, with large values in full; `None` if a value's object is lost.
    pub(crate) fn each(&self, prefix: &[u8], mut each: impl FnMut(&[u8], Option<&[u8]>)) -> Result<()> {
        self.scan(prefix, &mut |key, value| {
            each(key, self.full(value).as_deref());
            Ok(())
        })
    }

    fn full<'v>(&self, value: &'v [u8]) -> Option<Cow<'v, [u8]>> {
        match object_of(value) {
            None => Some(value.into()),
            Some(digest) => self.objects.read(&digest, "").ok().map(Cow::Owned),
        }
    }

    fn parsed<T: DeserializeOwned>(&self, value: &[u8]) -> Option<T> {
        parse(self.full(value).as_deref())
    }

    pub(crate) fn value<T: DeserializeOwned>(&self, key: Vec<u8>) -> Result<Option<T>> {
        Ok(self.first(&[key])?.and_then(|(_, value)| self.parsed(&value)))
    }

    pub(crate) fn result(&self, fingerprint: &Digest) -> Result<Option<StepResult>> {
        self.value(result_key(fingerprint))
    }

    /// The first value found under the keys of a result, its attempt and the last fingerprint, in this order.
    pub(crate) fn earlier(&self, keys: &[Vec<u8>]) -> Result<EarlierData> {
        let mut next = 0;
        while let Some((place, value)) = self.first(&keys[next..])? {
            let found = match next + place {
                0 => self.parsed(&value).map(EarlierData::Result),
                1 => match self.parsed(&value) {
                    Some(reading) => self.result(&reading)?.map(|result| EarlierData::Attempt(Box::new(result))),
                    None => None,
                },
                _ => self.parsed(&value).map(EarlierData::Last),
            };
            if let Some(found) = found {
                return Ok(found);
            }
            next += place + 1;
        }
        Ok(EarlierData::Nothing)
    }

    /// The observations under a shape, with their slots.
    pub(crate) fn observed(&self, shape: &str) -> Result<Vec<(Observation, u8)>> {
        let mut found = Vec::new();
        self.each(&history_key(shape, None), |key, value| {
            // Unreadable values are overwritten.
            found.extend(parse(value).map(|seen| (seen, key.last().copied().unwrap_or(0))));
        })?;
        Ok(found)
    }

    /// The offsets up to which journals are in the database.
    pub(crate) fn marks(&self) -> Result<BTreeMap<RunId, u64>> {
        let mut found = BTreeMap::new();
        self.each(MARKS, |key, value| {
            let run = String::from_utf8_lossy(&key[MARKS.len()..]).into_owned();
            found.extend(parse(value).map(|to: u64| (RunId(run), to)));
        })?;
        Ok(found)
    }
}

impl OpenDatabase {
    pub(crate) fn on(dir: &StoreDir, db: Db) -> OpenDatabase {
        OpenDatabase::of(dir, Values::Held(db))
    }

    /// For a process that does not hold the database: reads the index, and what journals have beyond it.
    pub(crate) fn read(dir: &StoreDir) -> Result<OpenDatabase> {
        OpenDatabase::beyond(dir, Index::read(&dir.index()))
    }

    /// What the journals say, without the index.
    pub(crate) fn of_journals(dir: &StoreDir) -> Result<OpenDatabase> {
        OpenDatabase::beyond(dir, Index::default())
    }

    fn beyond(dir: &StoreDir, index: Index) -> Result<OpenDatabase> {
        let read = OpenDatabase::of(dir, Values::Read(Memory::of(dir, index)));
        read.catch_up()?;
        Ok(read)
    }

    fn of(dir: &StoreDir, values: Values) -> OpenDatabase {
        OpenDatabase {
            dir: dir.clone(),
            objects: Objects::of(dir),
            values,
            rings: ObservationRings::default(),
            recording: Mutex::default(),
            followed: Mutex::default(),
            is_shared: AtomicBool::new(false),
            lock: None,
        }
    }

    /// Keeps the lock until the database is closed.
    pub(crate) fn holding(self, lock: Option<StoreLock>) -> OpenDatabase {
        OpenDatabase { lock, ..self }
    }

    /// Says in the lock, if this process holds it, who it is.
    pub(crate) fn write_holder(&mut self, me: &Holder) -> Result<()> {
        self.lock.as_mut().map_or(Ok(()), |lock| lock.write_holder(&self.dir, me))
    }

    /// True if this process holds the database.
    pub(crate) fn is_held(&self) -> bool {
        matches!(self.values, Values::Held(_))
    }

    /// The writes for lines of a run's journal, together with a batch.
    pub(crate) fn writes(&self, run: &RunId, lines: &[JournalLine], batch: &Batch) -> Result<DbBatch> {
        let mut recorded = Batch::new();
        lines.iter().for_each(|line| recorded.apply(line));
        if self.is_shared.load(Ordering::Relaxed) {
            self.leave_later(run, &mut recorded)?;
        }
        let forgotten = recorded.forgotten.iter().chain(&batch.forgotten);
        let mut writes: DbBatch = forgotten.map(|digest| (result_key(digest), None)).collect();
        for batch in [&recorded, batch] {
            put_values(batch, &mut writes);
            for (shape, observation) in &batch.observed {
                if let Some(slot) = self.rings.place(shape, observation, || self.observed(shape))? {
                    writes.insert(history_key(shape, Some(slot)), Some(json(observation)));
                }
            }
            for (shape, observation) in &batch.observed_again {
                self.each(&history_key(shape, None), |key, value| {
                    if parse(value).is_some_and(|seen: Observation| order(&seen) == order(observation)) {
                        writes.insert(key.to_vec(), Some(json(observation)));
                    }
                })?;
            }
        }
        Ok(writes)
    }

    /// Drops records that a run with a later id has replaced, as if the journals were read one by one.
    fn leave_later(&self, run: &RunId, recorded: &mut Batch) -> Result<()> {
        let (results, last) = (std::mem::take(&mut recorded.results), std::mem::take(&mut recorded.last));
        for result in results {
            if self.result(&result.fingerprint)?.is_none_or(|kept| kept.run <= *run) {
                recorded.results.push(result);
            }
        }
        for (workflow, label, made) in last {
            let kept: Option<LastFingerprint> = self.value(last_key(&workflow, &label))?;
            if kept.is_none_or(|kept| kept.run <= *run) {
                recorded.last.push((workflow, label, made));
            }
        }
        Ok(())
    }

    /// Applies lines of a run of this process, whose journal is on disk up to `to`, and changes that no journal
    /// contains. Data in the journal is not synced a second time. If another process holds the database, it reads the
    /// journal itself, and the other changes are repeated when someone needs them.
    pub(crate) fn commit(&self, run: &RunId, lines: &[JournalLine], only_here: DbBatch, to: Option<u64>) -> Result<()> {
        if !self.is_held() {
            return Ok(());
        }
        let _one = lock(&self.recording);
        let is_only_here = !only_here.is_empty();
        let mut writes = only_here;
        // Deletions first: a forgotten result may be recorded again in these lines.
        writes.extend(self.writes(run, lines, &Batch::new())?);
        if let Some(to) = to {
            writes.insert(mark_key(run), Some(json(&to)));
            self.disturb_others(run, &mut writes)?;
        }
        match writes.is_empty() {
            true => Ok(()),
            false if is_only_here => self.write(writes),
            false => self.put(writes, None),
        }
    }

    /// Writes everything or nothing; a kill can undo it. `line`: the place of the only line that makes these changes.
    pub(crate) fn put(&self, writes: DbBatch, line: Option<(&RunId, u64)>) -> Result<()> {
        match &self.values {
            Values::Held(db) => db.put(writes).inspect_err(|_| self.rings.forget()),
            Values::Read(memory) => {
                memory.put(writes, line);
                Ok(())
            }
        }
    }

    /// Writes everything or nothing, and returns when no kill can undo it.
    pub(crate) fn write(&self, writes: DbBatch) -> Result<()> {
        match &self.values {
            Values::Held(db) => db.write(writes).inspect_err(|_| self.rings.forget()),
            Values::Read(_) => self.put(writes, None),
        }
    }

    /// Starts a run of this process.
    pub(crate) fn begin(&self, run: &RunId) -> Result<()> {
        if !self.is_held() {
            return Ok(());
        }
        lock(&self.followed).runs.insert(run.clone(), None);
        let _one = lock(&self.recording);
        let (mut writes, mut undisturbed) = (DbBatch::default(), self.undisturbed()?);
        undisturbed.push(run.clone());
        undisturbed.drain(..undisturbed.len().saturating_sub(UNDISTURBED_RUNS));
        writes.insert(UNDISTURBED.to_vec(), Some(json(&undisturbed)));
        self.put(writes, None)
    }

    fn undisturbed(&self) -> Result<Vec<RunId>> {
        Ok(self.value(UNDISTURBED.to_vec())?.unwrap_or_default())
    }

    /// Adds to writes that a run records, which disturbs all others.
    fn disturb_others(&self, run: &RunId, writes: &mut DbBatch) -> Result<()> {
        let mut undisturbed = self.undisturbed()?;
        if undisturbed.iter().any(|other| other != run) {
            undisturbed.retain(|other| other == run);
            writes.insert(UNDISTURBED.to_vec(), Some(json(&undisturbed)));
        }
        Ok(())
    }

    /// Applies what other runs have journalled since the last call.
    pub(crate) fn import_new_lines(&self) -> Result<()> {
        let mut followed = lock(&self.followed);
        let folder = fs::metadata(self.dir.runs_folder()).ok();
        let as_of = folder.and_then(|folder| Some((folder.modified().ok()?, folder.nlink())));
        if as_of.is_none() || as_of != followed.as_of {
            for run in self.dir.runs()? {
                followed.runs.entry(run).or_insert(Some(0));
            }
            followed.as_of = as_of;
        }
        for (run, read) in &mut followed.runs {
            let Some(read) = read else { continue };
            if self.dir.run(run).journal_length().is_some_and(|length| length > *read) {
                *read = self.import_rest(run)?.unwrap_or(*read);
            }
        }
        Ok(())
    }

    /// The same, and the rest of the journals of runs that have ended.
    pub(crate) fn import_ended(&self) -> Result<()> {
        self.import_new_lines()?;
        for (run, read) in &mut lock(&self.followed).runs {
            if read.is_some() && self.dir.run(run).is_over() {
                self.import_rest(run)?;
                *read = None;
            }
        }
        Ok(())
    }

    /// Applies what a run's journal has beyond its mark. Returns how far it is applied; `None` if there is no journal,
    /// or its writer holds it for too long.
    pub(crate) fn import_rest(&self, run: &RunId) -> Result<Option<u64>> {
        let _one = lock(&self.recording);
        let folder = self.dir.run(run);
        let from = self.value(mark_key(run))?.unwrap_or(0);
        let Some(to) = folder.settled()? else { return Ok(None) };
        match folder.lines_to(from, to)? {
            Some(lines) if to > from => {
                self.expect_others(true);
                if self.is_held() {
                    lines.sync()?;
                }
                self.import(run, lines).map(Some)
            }
            _ => Ok(Some(from)),
        }
    }

    /// Applies the records of a journal, with the mark after each chunk. Returns how far it read.
    fn import(&self, run: &RunId, mut lines: Lines) -> Result<u64> {
        let most = if self.is_held() { CHUNK } else { 1 };
        loop {
            let (recorded, at) = next_records(&mut lines, most)?;
            let mut writes = self.writes(run, &recorded, &Batch::new())?;
            if !recorded.is_empty() {
                self.disturb_others(run, &mut writes)?;
            }
            writes.insert(mark_key(run), Some(json(&lines.to)));
            self.put(writes, Some((run, at)))?;
            if recorded.len() < most {
                return Ok(lines.to);
            }
        }
    }

    /// Replaces the index if journals have much that it has not.
    pub(crate) fn renew_index(&self) -> Result<()> {
        let all: u64 = self.marks()?.values().sum();
        let indexed = if self.dir.index().exists() { self.value(INDEXED.to_vec())?.unwrap_or(0) } else { 0 };
        if all.abs_diff(indexed) < BEYOND {
            return Ok(());
        }
        if let Values::Read(memory) = &OpenDatabase::read(&self.dir)?.values {
            memory.write_index()?;
        }
        self.put(DbBatch::from([(INDEXED.to_vec(), Some(json(&all)))]), None)
    }

    /// Whether records may be older than stored ones, until another process records.
    pub(crate) fn expect_others(&self, others: bool) {
        self.is_shared.store(others, Ordering::Relaxed);
    }
}

/// The writes for a batch that no journal contains. It has no observations.
pub(crate) fn unjournalled(batch: &Batch) -> DbBatch {
    let mut writes: DbBatch = batch.forgotten.iter().map(|digest| (result_key(digest), None)).collect();
    put_values(batch, &mut writes);
    writes
}

/// The next records of a journal, at most this many, and the place of the last one.
fn next_records(lines: &mut Lines, most: usize) -> Result<(Vec<JournalLine>, u64)> {
    let (mut recorded, mut last) = (Vec::new(), lines.to);
    while recorded.len() < most {
        let at = lines.to;
        let Some(line) = lines.next_record()? else { break };
        if let Some(line) = line {
            recorded.push(line);
            last = at;
        }
    }
    Ok((recorded, last))
}
