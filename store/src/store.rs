//! The store as its users see it. Decides nothing about freshness.

use std::{
    collections::{BTreeSet, HashSet},
    ops::ControlFlow,
    path::Path,
    sync::{Arc, Mutex},
    thread,
};

use flow_core::{Digest, JournalLine, RunId, StepResult, learn::Observation, plan::LookupKeys, reason::StoreAction};
use flow_runs::{
    Holder, Journal, Liveness, Result, StoreDir, StoreError,
    living::{RunLife, Users},
    lock::{POLL, StoreLock},
    mark::UNDISTURBED,
};
use serde::de::DeserializeOwned;

use crate::{
    Batch, Commit, EarlierData, Import, LastFingerprint, Objects, RebuiltDatabase,
    bytes::{attempt_key, last_key, object_of, parse, result_key},
    db::DbBatch,
    hash,
    mutex::lock,
    open_database::{OpenDatabase, unjournalled},
    results::order,
};

/// A store that this process uses, with others or alone.
pub struct Store {
    dir: StoreDir,
    objects: Objects,
    database: Arc<OpenDatabase>,
    rebuilt: Option<RebuiltDatabase>,
    me: Holder,
    /// Runs of this process. They end when the store is dropped.
    alive: Mutex<Vec<RunLife>>,
    /// Released last; none if it only reads.
    users: Option<Users>,
}

/// Chooses a run's id, given the existing ones, oldest first.
type Namer<'a> = &'a mut dyn FnMut(&[RunId]) -> RunId;

impl Store {
    /// Opens the store in `path`, and creates it if it is missing. The first process holds the database. All others read
    /// the index and the journals, and what they record is in their journals. While another process has the store
    /// alone, `waiting` decides every 100 ms whether to continue; `ControlFlow::Break` fails with [`StoreError::Held`].
    /// The lock of a dead process is waited for up to 3 s without asking. Opening applies to the database what only the
    /// journals have, and rebuilds a damaged database: [`Store::rebuilt`].
    ///
    /// # Errors
    /// Another process holds the store, its format is newer, it is on a network file system, or it cannot be read or
    /// written.
    pub fn open(path: &Path, me: &Holder, waiting: impl FnMut(&Holder) -> ControlFlow<()>) -> Result<Store> {
        Store::join(path, me, StoreDir::try_lock, waiting)
    }

    /// The same for a process that will [name a run](Store::name_run). Waits a moment for a database that a short
    /// command holds.
    ///
    /// # Errors
    /// As of [`Store::open`].
    pub fn open_to_run(path: &Path, me: &Holder, waiting: impl FnMut(&Holder) -> ControlFlow<()>) -> Result<Store> {
        let store = Store::join(path, me, lock_soon, waiting)?;
        // Runs that were killed did not.
        store.renew_index();
        Ok(store)
    }

    /// Renews the index if the journals have much that it lacks. Without it, other processes read more of them.
    pub(crate) fn renew_index(&self) {
        if self.database.is_held() {
            let _ = self.database.renew_index();
        }
    }

    /// Begins the life of a run: it [lives](StoreDir::living) until the store is dropped. `name` chooses its id, given the
    /// existing ids, oldest first, and is called again if another run takes that id.
    ///
    /// # Errors
    /// The store cannot be written.
    pub fn name_run(&mut self, mut name: impl FnMut(&[RunId]) -> RunId) -> Result<RunId> {
        let (run, alive) = take_name(&self.dir, &self.me, &mut name)?;
        self.me.run = Some(run.clone());
        lock(&self.alive).push(alive);
        if let Some(database) = Arc::get_mut(&mut self.database) {
            database.write_holder(&self.me)?;
        }
        Ok(run)
    }

    /// Opens it exclusively: waits for runs and other users, and makes others wait.
    ///
    /// # Errors
    /// As of [`Store::open`].
    pub fn open_alone(path: &Path, me: &Holder, mut waiting: impl FnMut(&Holder) -> ControlFlow<()>) -> Result<Store> {
        let dir = StoreDir::create(path)?;
        let users = dir.alone(me, &mut waiting)?;
        let lock = dir.lock(me, &mut waiting)?;
        Objects::of(&dir).sweep_workplace()?;
        let opened = OpenDatabase::open(&dir)?;
        Ok(Store::of(dir, me, opened, Some(lock), Some(users)))
    }

    /// Opens it to read results, even if this process may not write it, another one has it alone, or it never has a
    /// database.
    ///
    /// # Errors
    /// Its format is newer; the database is damaged; a journal cannot be read.
    pub fn open_to_read(dir: &StoreDir, me: &Holder) -> Result<Store> {
        if !Import::is_store(dir) {
            match Store::open(dir.path(), me, |_| ControlFlow::Break(())) {
                Err(StoreError::Held { .. } | StoreError::Io { .. }) => {}
                opened => return opened,
            }
        }
        Ok(Store::of(dir.clone(), me, (OpenDatabase::read(dir)?, None), None, None))
    }

    /// With the lock of the database, if this process has it.
    pub(crate) fn of(
        dir: StoreDir,
        me: &Holder,
        (core, rebuilt): (OpenDatabase, Option<RebuiltDatabase>),
        lock: Option<StoreLock>,
        users: Option<Users>,
    ) -> Store {
        let (objects, database) = (Objects::of(&dir), Arc::new(core.holding(lock)));
        Store { objects, dir, database, rebuilt, me: me.clone(), alive: Mutex::default(), users }
    }

    fn join(
        path: &Path,
        me: &Holder,
        lock: fn(&StoreDir, &Holder) -> Result<Option<StoreLock>>,
        mut waiting: impl FnMut(&Holder) -> ControlFlow<()>,
    ) -> Result<Store> {
        let dir = StoreDir::create(path)?;
        let mut users = dir.join(me, &mut waiting)?;
        if users.is_alone {
            Objects::of(&dir).sweep_workplace()?;
            users.share(&dir)?;
        }
        let lock = lock(&dir, me)?;
        let opened = if lock.is_some() { OpenDatabase::open(&dir)? } else { (OpenDatabase::read(&dir)?, None) };
        Ok(Store::of(dir, me, opened, lock, Some(users)))
    }

    /// The database with everything that other runs have journalled by now. If that cannot be read or written, as on a
    /// full disk, this process continues without it, and may repeat a step of another run.
    fn fresh(&self) -> &OpenDatabase {
        let _ = self.database.import_new_lines();
        &self.database
    }

    /// Set if the database was rebuilt when this process opened it.
    pub fn rebuilt(&self) -> Option<&RebuiltDatabase> {
        self.rebuilt.as_ref()
    }

    /// True if this process only reads it.
    pub fn is_read_only(&self) -> bool {
        self.users.is_none()
    }

    /// Applies the journals of all runs that have ended by now, even of those that were killed before they journalled
    /// their last records.
    ///
    /// # Errors
    /// The disk is full, or the database damaged.
    pub fn import_ended(&self) -> Result<()> {
        self.database.import_ended()
    }

    /// The result under a fingerprint, else the last good result of an attempt.
    ///
    /// # Errors
    /// The database is damaged.
    pub fn result_of(&self, fingerprint: &Digest, attempt: &Digest) -> Result<Option<StepResult>> {
        self.result(fingerprint)?.map_or_else(|| self.known_of_attempt(attempt), |result| Ok(Some(result)))
    }

    pub fn dir(&self) -> &StoreDir {
        &self.dir
    }

    pub fn objects(&self) -> &Objects {
        &self.objects
    }

    /// Begins a run, with the id from [`Store::name_run`] or a later one: creates its folder and journal.
    ///
    /// # Errors
    /// It already exists; the disk is full, or the database is damaged.
    pub fn begin(&self, run: &RunId) -> Result<Journal> {
        if !self.is_own(run) {
            // It is not a run, but writes like one.
            let me = Holder { run: Some(run.clone()), ..self.me.clone() };
            let alive = self.dir.run(run).take(&me)?;
            lock(&self.alive).extend(alive);
        }
        self.database.begin(run)?;
        self.dir.run(run).create()
    }

    /// Prepares a commit of journal lines and a batch, which can be [applied](Commit::apply) on a thread that may wait
    /// for the disk. Commits must be applied in the order of these calls.
    ///
    /// # Errors
    /// The database is damaged.
    pub fn commit(&self, journal: &Journal, lines: Vec<JournalLine>, batch: &Batch) -> Result<Commit> {
        let mut only_here = unjournalled(batch);
        for fingerprint in &batch.forgotten {
            // Another run may have made it again since then.
            if self.is_whole(fingerprint)? {
                only_here.remove(&result_key(fingerprint));
            }
        }
        let (objects, database) = (self.objects.clone(), Arc::clone(&self.database));
        Ok(Commit { objects, database, journal: journal.clone(), lines, only_here })
    }

    fn is_whole(&self, fingerprint: &Digest) -> Result<bool> {
        Ok(self.fresh().result(fingerprint)?.is_some_and(|result| matches!(self.objects.missing(&result), Ok(None))))
    }

    /// Writes changes that no journal contains, all or none, and returns when no kill can undo them. If another process
    /// holds the database, they last as long as this process.
    ///
    /// # Errors
    /// The disk is full, or the database is damaged. Earlier content is unaffected.
    pub fn apply(&self, batch: &Batch) -> Result<()> {
        if batch.is_empty() {
            return Ok(());
        }
        self.database.write(self.database.writes(&RunId(String::new()), &[], batch)?)
    }

    /// True if nothing was recorded since a run began except by that run, and its journal still exists.
    pub(crate) fn is_unchanged_since(&self, run: &RunId) -> Result<bool> {
        let undisturbed: Vec<RunId> = self.database.value(UNDISTURBED.to_vec())?.unwrap_or_default();
        Ok(undisturbed.contains(run) && self.others()?.is_empty() && self.dir.run(run).journal().exists())
    }

    /// Living runs of other processes.
    pub(crate) fn others(&self) -> Result<Vec<Holder>> {
        let mut living = self.dir.living()?;
        living.retain(|who| who.run.as_ref().is_none_or(|run| !self.is_own(run)));
        Ok(living)
    }

    fn is_own(&self, run: &RunId) -> bool {
        lock(&self.alive).iter().any(|alive| alive.is_of(&self.dir.run(run)))
    }

    /// True if this process uses the store exclusively.
    pub(crate) fn has_all(&self) -> bool {
        self.users.as_ref().is_some_and(|users| users.is_alone)
    }

    /// True if there is a result under a fingerprint.
    pub(crate) fn has(&self, fingerprint: &Digest) -> Result<bool> {
        Ok(self.fresh().first(&[result_key(fingerprint)])?.is_some())
    }

    /// The results kept under these fingerprints. [`Objects::missing`] tells whether their artifacts still exist.
    ///
    /// # Errors
    /// The database cannot be read.
    pub fn results_of(&self, fingerprints: &[Digest]) -> Result<Vec<Option<StepResult>>> {
        let database = self.fresh();
        hash::look_up_all(fingerprints, |fingerprint| database.result(fingerprint))
    }

    /// The same for one fingerprint.
    ///
    /// # Errors
    /// The database cannot be read.
    pub fn result(&self, fingerprint: &Digest) -> Result<Option<StepResult>> {
        self.fresh().result(fingerprint)
    }

    /// The last good result of an attempt, by the attempt's fingerprint, for any reading of its metrics.
    ///
    /// # Errors
    /// The database cannot be read.
    pub fn of_attempt(&self, attempt: &Digest) -> Result<Option<StepResult>> {
        self.fresh();
        self.known_of_attempt(attempt)
    }

    fn known_of_attempt(&self, attempt: &Digest) -> Result<Option<StepResult>> {
        let reading: Option<Digest> = self.database.value(attempt_key(attempt))?;
        reading.map_or(Ok(None), |reading| self.database.result(&reading))
    }

    /// The last fingerprint of an instance, whatever its outcome.
    ///
    /// # Errors
    /// The database cannot be read.
    pub fn last(&self, workflow: &str, label: &str) -> Result<Option<LastFingerprint>> {
        self.fresh().value(last_key(workflow, label))
    }

    /// For each of these instances, the first that exists: the result under its fingerprint, the last good result of
    /// its attempt, or its last fingerprint.
    ///
    /// # Errors
    /// The database cannot be read.
    pub fn earlier(&self, workflow: &str, of: &[LookupKeys<'_>]) -> Result<Vec<EarlierData>> {
        let database = self.fresh();
        hash::look_up_all(of, |of| {
            database.earlier(&[result_key(&of.fingerprint), attempt_key(&of.attempt), last_key(workflow, of.label)])
        })
    }

    /// The newest attempts of each of these shapes, oldest first, at most [`HISTORY`](crate::HISTORY).
    ///
    /// # Errors
    /// The database cannot be read.
    pub fn histories(&self, shapes: &[String]) -> Result<Vec<Vec<Observation>>> {
        let database = self.fresh();
        let history = |shape: &String| {
            let mut found: Vec<Observation> = database.observed(shape)?.into_iter().map(|(seen, _)| seen).collect();
            found.sort_by(|a, b| order(a).cmp(&order(b)));
            Ok(found)
        };
        shapes.iter().map(history).collect()
    }

    /// The same for one shape.
    ///
    /// # Errors
    /// The database cannot be read.
    pub fn history(&self, shape: &str) -> Result<Vec<Observation>> {
        Ok(self.histories(&[shape.to_owned()])?.pop().unwrap_or_default())
    }

    /// All results, in no order.
    ///
    /// # Errors
    /// The database cannot be read.
    pub fn each_result(&self, mut each: impl FnMut(StepResult)) -> Result<()> {
        self.fresh().each(b"r", |_, value| _ = parse(value).map(&mut each))
    }

    /// Every attempt whose metrics may be read again, and the result under which it is known.
    pub(crate) fn each_attempt(&self, mut each: impl FnMut(Digest, Digest)) -> Result<()> {
        self.fresh().each(b"a", |key, value| {
            if let (Ok(attempt), Some(reading)) = (key[1..].try_into(), parse(value)) {
                each(Digest(attempt), reading);
            }
        })
    }

    /// Every last fingerprint, with workflow and label.
    pub(crate) fn each_last(&self, mut each: impl FnMut(&str, &str, LastFingerprint)) -> Result<()> {
        self.fresh().each(b"l", |key, value| {
            let key = String::from_utf8_lossy(&key[1..]);
            if let (Some((workflow, label)), Some(last)) = (key.split_once('\0'), parse(value)) {
                each(workflow, label, last);
            }
        })
    }

    /// Removes unreadable values, and returns their number.
    pub(crate) fn drop_unreadable(&self) -> Result<usize> {
        fn readable<T: DeserializeOwned>(value: Option<&[u8]>) -> bool {
            value.is_some_and(|value| serde_json::from_slice::<T>(value).is_ok())
        }
        let mut gone = DbBatch::default();
        self.fresh().each(b"", |key, value| {
            let sound = match key.first() {
                Some(b'r') => readable::<StepResult>(value),
                Some(b'l') => readable::<LastFingerprint>(value),
                Some(b'h') => readable::<Observation>(value),
                // A value of the database itself.
                _ => true,
            };
            if !sound {
                gone.insert(key.to_vec(), None);
            }
        })?;
        let count = gone.len();
        self.database.write(gone)?;
        Ok(count)
    }

    /// Removes last fingerprints of these workflows and labels.
    pub(crate) fn forget_last(&self, gone: &[(&str, &str)]) -> Result<()> {
        self.database.write(gone.iter().map(|(workflow, label)| (last_key(workflow, label), None)).collect())
    }

    /// Objects with large values of the database, except those of results to be forgotten.
    pub(crate) fn value_objects_without(&self, batch: &Batch, gone: &[(&str, &str)]) -> Result<BTreeSet<Digest>> {
        let last = gone.iter().map(|(workflow, label)| last_key(workflow, label));
        let without: HashSet<Vec<u8>> = batch.forgotten.iter().map(result_key).chain(last).collect();
        let mut found = BTreeSet::new();
        self.fresh().scan(b"", &mut |key, value| {
            found.extend(object_of(value).filter(|_| !without.contains(key)));
            Ok(())
        })?;
        Ok(found)
    }
}

/// The lock of the database if it gets free in a moment. A command holds it only briefly, and so does the kernel after a
/// process died. A run holds it as long as it lives.
fn lock_soon(dir: &StoreDir, me: &Holder) -> Result<Option<StoreLock>> {
    const TRIES: u32 = 10;
    for _ in 0..TRIES {
        if let Some(lock) = dir.try_lock(me)? {
            return Ok(Some(lock));
        }
        let holder = dir.who_locks()?;
        if holder.run.is_some() && holder.process.liveness() != Liveness::Dead {
            break;
        }
        thread::sleep(POLL);
    }
    Ok(None)
}

/// Takes an unused run id.
fn take_name(dir: &StoreDir, me: &Holder, name: Namer<'_>) -> Result<(RunId, RunLife)> {
    /// Another run may be faster, but not more often than this.
    const TRIES: usize = 100;
    // Each run removes the remains of earlier killed runs.
    dir.sweep_runs()?;
    let mut tried = RunId(String::new());
    for _ in 0..TRIES {
        tried = name(&dir.runs()?);
        let me = Holder { run: Some(tried.clone()), ..me.clone() };
        if let Some(alive) = dir.run(&tried).take(&me)? {
            return Ok((tried, alive));
        }
    }
    Err(StoreError::io(StoreAction::Create, dir.run(&tried).path())(nix::errno::Errno::EEXIST.into()))
}

impl Drop for Store {
    fn drop(&mut self) {
        let has_run = !lock(&self.alive).is_empty();
        if has_run {
            self.renew_index();
        }
    }
}
