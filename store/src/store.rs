//! The store, held: the lock and the database with what is in it. Decides nothing about freshness.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap, HashSet},
    fmt,
    ops::ControlFlow,
    path::{Path, PathBuf},
    sync::{Mutex, PoisonError},
};

use flow_core::{Digest, JournalLine, RunId, StepResult, learn::Observation};
use serde::de::DeserializeOwned;

use crate::{
    Batch, Captures, Commit, HISTORY, Holder, Journal, Last, Objects, Result, Results, StoreDir,
    commit::{MARK, Mark},
    db::{Db, DbBatch, json},
    lock::Held,
    results::{attempt_of, is_same_attempt},
};

/// A store that this process holds.
pub struct Store {
    dir: StoreDir,
    objects: Objects,
    db: Db,
    /// The next slot of each shape's ring, for shapes that this process has seen.
    slots: Mutex<HashMap<String, u8>>,
    pub(crate) rebuilt: Option<Rebuilt>,
    /// Given back last: after the database is closed.
    lock: Held,
}

impl Store {
    /// Opens the store in `path`, which is made where it is missing. While somebody else holds it, `waiting` is asked every
    /// 100 ms whether to go on waiting, with who it is; `ControlFlow::Break` gives up with [`StoreError::Held`](crate::StoreError::Held). The lock of
    /// a process that died is waited for up to 3 s without asking. What journals have and the database has not is put there,
    /// and a damaged database is made anew from them: [`Store::rebuilt`].
    ///
    /// # Errors
    /// The store is held, of a newer format, on a network file system, or cannot be read or written.
    pub fn open(path: &Path, me: &Holder, waiting: impl FnMut(&Holder) -> ControlFlow<()>) -> Result<Store> {
        let dir = StoreDir::create(path)?;
        let lock = Held(dir.lock(me, waiting)?);
        Store::with(dir, lock).map_err(|(_, error)| error)
    }

    /// The same for a run, which is named while nobody else can name one: by `name`, from those that are there, oldest first.
    ///
    /// # Errors
    /// As of [`Store::open`].
    pub fn open_for_run(
        path: &Path,
        me: &Holder,
        name: impl FnOnce(&[RunId]) -> RunId,
        waiting: impl FnMut(&Holder) -> ControlFlow<()>,
    ) -> Result<(Store, RunId)> {
        let dir = StoreDir::create(path)?;
        let mut lock = Held(dir.lock(me, waiting)?);
        let mut runs = dir.runs()?;
        // Those that ended before they had begun are no runs.
        while runs.pop_if(|run| dir.run(run).unname()).is_some() {}
        // Each run finds what the one before it left, if that was killed.
        if let Some(last) = runs.last() {
            Captures::sweep(&dir.run(last).inputs());
        }
        let run = name(&runs);
        dir.run(&run).name()?;
        dir.tell(&mut lock.0, &Holder { run: Some(run.clone()), ..me.clone() })?;
        let store = Store::with(dir.clone(), lock).map_err(|(_, error)| {
            dir.run(&run).unname();
            error
        })?;
        Ok((store, run))
    }

    pub(crate) fn of(dir: StoreDir, db: Db, lock: Held) -> Store {
        Store { objects: dir.objects(), dir, db, slots: Mutex::default(), rebuilt: None, lock }
    }

    /// Closes the database and keeps the lock.
    pub(crate) fn close(self) -> Held {
        self.lock
    }

    /// The database was made anew when the store was opened.
    pub fn rebuilt(&self) -> Option<&Rebuilt> {
        self.rebuilt.as_ref()
    }

    /// Its folder.
    pub fn dir(&self) -> &StoreDir {
        &self.dir
    }

    /// Its artifacts.
    pub fn objects(&self) -> &Objects {
        &self.objects
    }

    /// Begins a run, named by [`Store::open_for_run`] or after all that are there: its folder and its journal.
    ///
    /// # Errors
    /// It exists already; the disk is full, or the database damaged.
    pub fn begin(&self, run: &RunId) -> Result<Journal> {
        // Newer runs were removed while the clock was ahead. They are not coming back, and this one is to be replayed.
        if self.mark()?.is_some_and(|mark| mark.run >= *run) {
            self.move_mark(Mark { run: run.clone(), to: 0 })?;
        }
        self.dir.run(run).create()
    }

    /// What lines of a journal come to, and what else is to be written with them, to be [applied](Commit::apply) on whatever
    /// thread has time to wait for the disk. That is to happen in the order in which this was called.
    ///
    /// # Errors
    /// The database is damaged.
    pub fn commit(&self, journal: &Journal, lines: Vec<JournalLine>, batch: &Batch) -> Result<Commit> {
        let writes = self.writes(&lines, batch)?;
        let (objects, db, only_here) = (self.objects.clone(), self.db.clone(), !batch.is_empty());
        Ok(Commit { objects, db, journal: journal.clone(), lines, writes, only_here })
    }

    /// Writes changes that no journal tells of, all of them or none, and returns when no kill can undo it.
    ///
    /// # Errors
    /// The disk is full, or the database is damaged. What was there before still is.
    pub fn apply(&self, batch: &Batch) -> Result<()> {
        if batch.is_empty() { Ok(()) } else { self.db.write(self.writes(&[], batch)?) }
    }

    pub(crate) fn writes(&self, lines: &[JournalLine], batch: &Batch) -> Result<DbBatch> {
        let mut recorded = Batch::new();
        lines.iter().for_each(|line| recorded.take_in(line));
        let mut writes = DbBatch::default();
        for digest in recorded.forgotten.iter().chain(&batch.forgotten) {
            writes.delete(result_key(digest));
        }
        for batch in [&recorded, batch] {
            for result in &batch.results {
                writes.put(result_key(&result.fingerprint), json(result));
                if let Some(attempt) = attempt_of(result) {
                    writes.put(attempt_key(&attempt), json(&result.fingerprint));
                }
            }
            for (attempt, reading) in &batch.attempts {
                match reading {
                    Some(reading) => writes.put(attempt_key(attempt), json(reading)),
                    None => writes.delete(attempt_key(attempt)),
                }
            }
            for (workflow, label, last) in &batch.last {
                writes.put(last_key(workflow, label), json(last));
            }
            for (shape, observation) in &batch.observed {
                let slot = self.slot(shape)?;
                writes.put(history_key(shape, Some(slot)), json(observation));
            }
            for (shape, observation) in &batch.observed_again {
                self.db.scan(&history_key(shape, None), |key, value| {
                    if parse(value).is_some_and(|seen| is_same_attempt(&seen, observation)) {
                        writes.put(key.to_vec(), json(observation));
                    }
                    Ok(())
                })?;
            }
        }
        Ok(writes)
    }

    /// How far the journals are in the database; `None` if an earlier flow made it.
    pub(crate) fn mark(&self) -> Result<Option<Mark>> {
        self.get(MARK)
    }

    /// Nothing was recorded since a run, whose journal is there still: later runs have greater names.
    pub(crate) fn is_as_left_by(&self, run: &RunId) -> Result<bool> {
        let is_newest = self.mark()?.is_some_and(|mark| mark.run <= *run);
        Ok(is_newest && self.dir.run(run).journal().exists())
    }

    pub(crate) fn move_mark(&self, mark: Mark) -> Result<()> {
        let mut writes = DbBatch::default();
        writes.put(MARK.to_vec(), json(&mark));
        self.db.write(writes)
    }

    pub(crate) fn write(&self, writes: DbBatch) -> Result<()> {
        self.db.write(writes)
    }

    /// The place of the next observation in a shape's ring: behind the newest, over the oldest.
    fn slot(&self, shape: &str) -> Result<u8> {
        let mut slots = self.slots.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(slot) = slots.get_mut(shape) {
            *slot = (*slot + 1) % HISTORY as u8;
            return Ok(*slot);
        }
        let mut newest: Option<(u64, u8)> = None;
        self.db.scan(&history_key(shape, None), |key, value| {
            if let Some(observation) = parse::<Observation>(value) {
                newest = newest.max(Some((observation.at, key.last().copied().unwrap_or(0))));
            }
            Ok(())
        })?;
        let slot = newest.map_or(0, |(_, slot)| (slot + 1) % HISTORY as u8);
        slots.insert(shape.to_owned(), slot);
        Ok(slot)
    }

    /// There is a result under a fingerprint.
    pub(crate) fn has(&self, fingerprint: &Digest) -> Result<bool> {
        Ok(self.db.get(&result_key(fingerprint))?.is_some())
    }

    /// How many results there are.
    pub(crate) fn count(&self) -> Result<usize> {
        let mut count = 0;
        self.db.scan(b"r", |_, _| {
            count += 1;
            Ok(())
        })?;
        Ok(count)
    }

    /// Every result, in no order that means anything.
    /// Every result, in no order.
    ///
    /// # Errors
    /// The database cannot be read.
    pub fn each_result(&self, mut each: impl FnMut(StepResult)) -> Result<()> {
        self.db.scan(b"r", |_, value| {
            parse(value).map(&mut each);
            Ok(())
        })
    }

    /// Every result as it is kept, with its key.
    pub(crate) fn scan_results(&self, mut each: impl FnMut(&[u8], &[u8])) -> Result<()> {
        self.db.scan(b"r", |key, value| {
            if let Some(value) = value {
                each(key, value);
            }
            Ok(())
        })
    }

    /// Every attempt whose metrics may be read again, and the result by which it is known.
    pub(crate) fn each_attempt(&self, mut each: impl FnMut(Digest, Digest)) -> Result<()> {
        self.db.scan(b"a", |key, value| {
            if let (Ok(attempt), Some(reading)) = (key[1..].try_into(), parse(value)) {
                each(Digest(attempt), reading);
            }
            Ok(())
        })
    }

    /// Every last fingerprint: workflow, label, what it was.
    pub(crate) fn each_last(&self, mut each: impl FnMut(&str, &str, Last)) -> Result<()> {
        self.db.scan(b"l", |key, value| {
            let key = String::from_utf8_lossy(&key[1..]);
            if let (Some((workflow, label)), Some(last)) = (key.split_once('\0'), parse(value)) {
                each(workflow, label, last);
            }
            Ok(())
        })
    }

    /// Drops values that cannot be read, and says how many those were.
    pub(crate) fn drop_unreadable(&self) -> Result<usize> {
        fn readable<T: DeserializeOwned>(value: Option<&[u8]>) -> bool {
            value.is_some_and(|value| serde_json::from_slice::<T>(value).is_ok())
        }
        let mut gone = DbBatch::default();
        self.db.scan(b"", |key, value| {
            let sound = match key.first() {
                Some(b'r') => readable::<StepResult>(value),
                Some(b'l') => readable::<Last>(value),
                Some(b'h') => readable::<Observation>(value),
                // The database's own.
                _ => true,
            };
            if !sound {
                gone.delete(key.to_vec());
            }
            Ok(())
        })?;
        let count = gone.len();
        self.db.write(gone)?;
        Ok(count)
    }

    /// Drops last fingerprints: of these workflows, these labels.
    pub(crate) fn forget_last(&self, gone: &[(&str, &str)]) -> Result<()> {
        let mut writes = DbBatch::default();
        gone.iter().for_each(|(workflow, label)| writes.delete(last_key(workflow, label)));
        self.db.write(writes)
    }

    /// Objects that hold large values of the database, but for those that are to be forgotten.
    pub(crate) fn value_objects_without(&self, batch: &Batch, gone: &[(&str, &str)]) -> Result<BTreeSet<Digest>> {
        let last = gone.iter().map(|(workflow, label)| last_key(workflow, label));
        let without: HashSet<Vec<u8>> = batch.forgotten.iter().map(result_key).chain(last).collect();
        let mut found = BTreeSet::new();
        self.db.scan_objects(|key, digest| {
            if !without.contains(key) {
                found.insert(digest);
            }
        })?;
        Ok(found)
    }

    fn get<T: DeserializeOwned>(&self, key: &[u8]) -> Result<Option<T>> {
        Ok(parse(self.db.get(key)?.as_deref()))
    }
}

/// A value that cannot be read counts as not there: its step runs again, and `flow doctor` tells of it.
fn parse<T: DeserializeOwned>(value: Option<&[u8]>) -> Option<T> {
    serde_json::from_slice(value?).ok()
}

impl Results for Store {
    fn result(&self, fingerprint: &Digest) -> Result<Option<StepResult>> {
        self.get(&result_key(fingerprint))
    }

    fn of_attempt(&self, attempt: &Digest) -> Result<Option<StepResult>> {
        let reading: Option<Digest> = self.get(&attempt_key(attempt))?;
        reading.map_or(Ok(None), |reading| self.result(&reading))
    }

    fn last(&self, workflow: &str, label: &str) -> Result<Option<Last>> {
        self.get(&last_key(workflow, label))
    }

    fn history(&self, shape: &str) -> Result<Vec<Observation>> {
        let mut found: BTreeMap<(u64, Vec<u8>), Observation> = BTreeMap::new();
        self.db.scan(&history_key(shape, None), |key, value| {
            if let Some(observation) = parse::<Observation>(value) {
                found.insert((observation.at, key.to_vec()), observation);
            }
            Ok(())
        })?;
        Ok(found.into_values().collect())
    }
}

fn result_key(fingerprint: &Digest) -> Vec<u8> {
    [b"r", &fingerprint.0[..]].concat()
}

fn attempt_key(attempt: &Digest) -> Vec<u8> {
    [b"a", &attempt.0[..]].concat()
}

fn last_key(workflow: &str, label: &str) -> Vec<u8> {
    [b"l", workflow.as_bytes(), b"\0", label.as_bytes()].concat()
}

fn history_key(shape: &str, slot: Option<u8>) -> Vec<u8> {
    let mut key = [b"h", &Digest::of(shape.as_bytes()).0[..]].concat();
    key.extend(slot);
    key
}

/// A database that was made anew.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rebuilt {
    /// What was wrong with the old one.
    pub because: String,
    /// Where the old one is now, if there was one.
    pub aside: Option<PathBuf>,
    /// Results found in the journals.
    pub results: usize,
    /// Journals read.
    pub runs: u32,
}

impl fmt::Display for Rebuilt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let count = |n: usize, what: &str| format!("{n} {what}{}", if n == 1 { "" } else { "s" });
        let (runs, results) = (count(self.runs as usize, "journal"), count(self.results, "result"));
        let because = &self.because;
        write!(f, "the database {because}; it was made anew from {runs} with {results}")?;
        match &self.aside {
            Some(aside) => write!(f, ", the old one is in {}", aside.display()),
            None => Ok(()),
        }
    }
}
