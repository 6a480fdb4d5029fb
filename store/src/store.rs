//! The store as its users see it: the database with its content, here or in the process that holds it. Decides nothing
//! about freshness.

use std::{
    collections::{BTreeSet, HashSet},
    ops::ControlFlow,
    path::Path,
    sync::{Arc, Mutex, PoisonError},
};

use flow_core::{Digest, JournalLine, RunId, StepResult, learn::Observation, plan::Sought, reason::StoreAction};
use serde::de::DeserializeOwned;

use crate::{
    Batch, Commit, Earlier, Holder, Journal, Last, Objects, Rebuilt, Result, Results, Silent, StoreDir, StoreError,
    asked::{Connection, GivenUp, Reached},
    bytes::{Bytes, attempt_key, elsewhere, last_key, parse, result_key},
    db::DbBatch,
    link::{DatabaseOwner, Link},
    living::{Alive, Users},
    lock::{LockWait, StoreLock},
    open_database::{OpenDatabase, unjournalled},
};

/// A store that this process uses, with others or alone.
pub struct Store {
    dir: StoreDir,
    objects: Objects,
    link: Arc<Link>,
    me: Holder,
    /// Runs of this process. They end when the store is dropped.
    alive: Mutex<Vec<Alive>>,
    /// Released last.
    users: Users,
}

/// The access to the database.
enum Way {
    Lock(StoreLock),
    Line(Connection),
}

/// Chooses a run's id, given the existing ones, oldest first.
type Namer<'a> = &'a mut dyn FnMut(&[RunId]) -> RunId;

impl Store {
    /// Opens the store in `path`, and creates it if it is missing. If another process holds its database, that process
    /// answers, and when it ends one of its clients takes over. While another process has the store alone, or does not
    /// answer, `waiting` decides every 100 ms whether to continue; `ControlFlow::Break` fails with
    /// [`StoreError::Held`]. The lock of a dead process is waited for up to 3 s without asking. Opening applies to the
    /// database what only the journals have, and rebuilds a damaged database: [`Store::rebuilt`].
    ///
    /// # Errors
    /// Another process holds the store, its format is newer, it is on a network file system, or it cannot be read or
    /// written.
    pub fn open(path: &Path, me: &Holder, waiting: impl FnMut(&Holder) -> ControlFlow<()>) -> Result<Store> {
        Store::join(path, me, None, waiting).map(|(store, _)| store)
    }

    /// The same for a run. `name` chooses its id once the store is open, given the existing ids, oldest first, and is
    /// called again if another run takes that id. The run [lives](StoreDir::living) from then on, until the store is
    /// dropped.
    ///
    /// # Errors
    /// As of [`Store::open`].
    pub fn open_for_run(
        path: &Path,
        me: &Holder,
        mut name: impl FnMut(&[RunId]) -> RunId,
        waiting: impl FnMut(&Holder) -> ControlFlow<()>,
    ) -> Result<(Store, RunId)> {
        let (store, run) = Store::join(path, me, Some(&mut name), waiting)?;
        let missing = || StoreError::io(StoreAction::NameRun, path)(nix::errno::Errno::EEXIST.into());
        Ok((store, run.ok_or_else(missing)?))
    }

    /// Opens it exclusively: waits for runs and other users, and makes others wait.
    ///
    /// # Errors
    /// As of [`Store::open`].
    pub fn open_alone(path: &Path, me: &Holder, mut waiting: impl FnMut(&Holder) -> ControlFlow<()>) -> Result<Store> {
        let dir = StoreDir::create(path)?;
        let users = dir.alone(me, &mut waiting)?;
        let lock = dir.lock(me, &mut waiting)?;
        Store::alone_with(dir, me, users, lock)
    }

    /// Opens it exclusively with the locks already taken.
    pub(crate) fn alone_with(dir: StoreDir, me: &Holder, users: Users, lock: StoreLock) -> Result<Store> {
        dir.objects().sweep_workplace()?;
        let (core, rebuilt) = OpenDatabase::open(&dir)?;
        Ok(Store::of_core(dir, me, users, lock, (core, rebuilt)))
    }

    pub(crate) fn of_core(
        dir: StoreDir,
        me: &Holder,
        users: Users,
        lock: StoreLock,
        (core, rebuilt): (OpenDatabase, Option<Rebuilt>),
    ) -> Store {
        let link = Link::here(&dir, me, DatabaseOwner::alone(core, lock), rebuilt);
        Store::of(dir, me.clone(), link, Vec::new(), users)
    }

    fn of(dir: StoreDir, me: Holder, link: Link, alive: Vec<Alive>, users: Users) -> Store {
        Store { objects: dir.objects(), dir, link: Arc::new(link), me, alive: Mutex::new(alive), users }
    }

    fn join(
        path: &Path,
        me: &Holder,
        name: Option<Namer<'_>>,
        mut waiting: impl FnMut(&Holder) -> ControlFlow<()>,
    ) -> Result<(Store, Option<RunId>)> {
        let dir = StoreDir::create(path)?;
        let mut users = dir.join(me, &mut waiting)?;
        if users.is_alone {
            dir.objects().sweep_workplace()?;
            users.share(&dir)?;
        }
        let way = find(&dir, me, &mut waiting)?;
        let named = name.map(|name| take_name(&dir, me, name)).transpose()?;
        let (run, alive) = named.unzip();
        let me = Holder { run: run.clone().or_else(|| me.run.clone()), ..me.clone() };
        let link = match way {
            Way::Line(line) => Link::there(&dir, &me, line),
            Way::Lock(mut lock) => {
                lock.tell(&dir, &me)?;
                let (core, rebuilt) = OpenDatabase::open(&dir)?;
                Link::here(&dir, &me, DatabaseOwner::serving(core, lock, &me), rebuilt)
            }
        };
        Ok((Store::of(dir, me, link, alive.into_iter().collect(), users), run))
    }

    /// Set if the database was rebuilt when this process opened it.
    pub fn rebuilt(&self) -> Option<&Rebuilt> {
        self.link.rebuilt()
    }

    /// Sets the listener for a holder that does not answer, called about once a second after two seconds.
    /// `ControlFlow::Break` fails the request with [`StoreError::Held`]. Requests wait on the calling thread; without a
    /// listener, as long as it takes.
    pub fn on_silence(&self, listener: impl Fn(&Silent) -> ControlFlow<()> + Send + Sync + 'static) {
        self.link.listen(Arc::new(listener));
    }

    /// Does not wait for a stopped holder: requests then fail with [`StoreError::Held`].
    pub fn refuse_who_is_stopped(&self) {
        self.on_silence(|silent| match silent.holder.process.is_stopped() {
            true => ControlFlow::Break(()),
            false => ControlFlow::Continue(()),
        });
    }

    /// Applies the journals of all runs that have ended by now, even of those that were killed before they reported
    /// their records.
    ///
    /// # Errors
    /// The disk is full, or the database damaged.
    pub fn take_in_ended(&self) -> Result<()> {
        self.link.take_in_ended()
    }

    /// The result under a fingerprint, else the last good result of an attempt.
    ///
    /// # Errors
    /// The database is damaged.
    pub fn result_of(&self, fingerprint: &Digest, attempt: &Digest) -> Result<Option<StepResult>> {
        Ok(match self.first_of(&[vec![result_key(fingerprint), attempt_key(attempt)]])?.pop() {
            Some(Earlier::Result(result) | Earlier::Attempt(result)) => Some(*result),
            Some(Earlier::Last(_) | Earlier::Nothing) | None => None,
        })
    }

    /// Per instance, the first value found under the keys of its result, attempt and last fingerprint, in this order.
    fn first_of(&self, of: &[Vec<Vec<u8>>]) -> Result<Vec<Earlier>> {
        let mut earlier = vec![Earlier::Nothing; of.len()];
        // Instances, and the index of the next key to look up.
        let mut left: Vec<(usize, usize)> = (0..of.len()).map(|instance| (instance, 0)).collect();
        while !left.is_empty() {
            let keys: Vec<_> = left.iter().map(|&(instance, next)| of[instance][next..].to_vec()).collect();
            let (mut unread, mut readings) = (Vec::new(), Vec::new());
            for ((instance, next), found) in left.into_iter().zip(self.link.first(&keys)?) {
                let Some((place, value)) = found else { continue };
                let found = match next + place {
                    0 => self.link.read(&value).map(Earlier::Result),
                    1 => match self.link.read::<Digest>(&value) {
                        Some(reading) => {
                            readings.push((instance, reading));
                            continue;
                        }
                        None => None,
                    },
                    _ => self.link.read(&value).map(Earlier::Last),
                };
                match found {
                    Some(found) => earlier[instance] = found,
                    None => unread.push((instance, next + place + 1)),
                }
            }
            let results = self.link.values(readings.iter().map(|(_, reading)| result_key(reading)))?;
            for ((instance, _), result) in readings.into_iter().zip(results) {
                match result {
                    Some(result) => earlier[instance] = Earlier::Attempt(result),
                    None => unread.push((instance, 2)),
                }
            }
            left = unread;
        }
        Ok(earlier)
    }

    pub fn dir(&self) -> &StoreDir {
        &self.dir
    }

    pub fn objects(&self) -> &Objects {
        &self.objects
    }

    /// Begins a run, with the id from [`Store::open_for_run`] or a later one: creates its folder and journal.
    ///
    /// # Errors
    /// It already exists; the disk is full, or the database is damaged.
    pub fn begin(&self, run: &RunId) -> Result<Journal> {
        if !self.is_own(run) {
            // It is not a run, but writes like one.
            let me = Holder { run: Some(run.clone()), ..self.me.clone() };
            let alive = self.dir.run(run).take(&me)?;
            self.alive.lock().unwrap_or_else(PoisonError::into_inner).extend(alive);
        }
        self.link.begin(run)?;
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
                only_here.keep(&result_key(fingerprint));
            }
        }
        let (objects, link) = (self.objects.clone(), Arc::clone(&self.link));
        Ok(Commit { objects, link, journal: journal.clone(), lines, only_here })
    }

    fn is_whole(&self, fingerprint: &Digest) -> Result<bool> {
        Ok(self.link.result(fingerprint)?.is_some_and(|result| matches!(self.objects.missing(&result), Ok(None))))
    }

    /// Writes changes that no journal contains, all or none, and returns when no kill can undo them.
    ///
    /// # Errors
    /// The disk is full, or the database is damaged. Earlier content is unaffected.
    pub fn apply(&self, batch: &Batch) -> Result<()> {
        match self.link.core() {
            _ if batch.is_empty() => Ok(()),
            Some(core) => core.write(core.writes(&RunId(String::new()), &[], batch)?),
            None => self.link.write(unjournalled(batch)),
        }
    }

    /// True if nothing was recorded since a run began except by that run, and its journal still exists.
    pub(crate) fn is_as_left_by(&self, run: &RunId) -> Result<bool> {
        let Some(base) = self.link.mark()? else { return Ok(false) };
        let is_newest = base.run <= *run && base.shared.is_none_or(|shared| shared < *run);
        let others = self.link.marks()?.into_iter().any(|(other, to)| other != *run && to > 0);
        Ok(is_newest && !others && self.others()?.is_empty() && self.dir.run(run).journal().exists())
    }

    /// Living runs of other processes.
    pub(crate) fn others(&self) -> Result<Vec<Holder>> {
        let mut living = self.dir.living()?;
        living.retain(|who| who.run.as_ref().is_none_or(|run| !self.is_own(run)));
        Ok(living)
    }

    fn is_own(&self, run: &RunId) -> bool {
        self.alive.lock().unwrap_or_else(PoisonError::into_inner).iter().any(|alive| alive.is_of(&self.dir.run(run)))
    }

    /// True if this process uses the store exclusively.
    pub(crate) fn has_all(&self) -> bool {
        self.users.is_alone
    }

    pub(crate) fn write(&self, writes: DbBatch) -> Result<()> {
        self.link.write(writes)
    }

    /// True if there is a result under a fingerprint.
    pub(crate) fn has(&self, fingerprint: &Digest) -> Result<bool> {
        Ok(self.link.first(&[vec![result_key(fingerprint)]])?.iter().any(Option::is_some))
    }

    /// All results, in no order.
    ///
    /// # Errors
    /// The database cannot be read.
    pub fn each_result(&self, mut each: impl FnMut(StepResult)) -> Result<()> {
        self.link.each(b"r", &mut |_, value| _ = parse(value).map(&mut each))
    }

    /// Every attempt whose metrics may be read again, and the result under which it is known.
    pub(crate) fn each_attempt(&self, mut each: impl FnMut(Digest, Digest)) -> Result<()> {
        self.link.each(b"a", &mut |key, value| {
            if let (Ok(attempt), Some(reading)) = (key[1..].try_into(), parse(value)) {
                each(Digest(attempt), reading);
            }
        })
    }

    /// Every last fingerprint, with workflow and label.
    pub(crate) fn each_last(&self, mut each: impl FnMut(&str, &str, Last)) -> Result<()> {
        self.link.each(b"l", &mut |key, value| {
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
        self.link.each(b"", &mut |key, value| {
            let sound = match key.first() {
                Some(b'r') => readable::<StepResult>(value),
                Some(b'l') => readable::<Last>(value),
                Some(b'h') => readable::<Observation>(value),
                // A value of the database itself.
                _ => true,
            };
            if !sound {
                gone.delete(key.to_vec());
            }
        })?;
        let count = gone.len();
        self.write(gone)?;
        Ok(count)
    }

    /// Removes last fingerprints of these workflows and labels.
    pub(crate) fn forget_last(&self, gone: &[(&str, &str)]) -> Result<()> {
        let mut writes = DbBatch::default();
        gone.iter().for_each(|(workflow, label)| writes.delete(last_key(workflow, label)));
        self.write(writes)
    }

    /// Objects with large values of the database, except those of results to be forgotten.
    pub(crate) fn value_objects_without(&self, batch: &Batch, gone: &[(&str, &str)]) -> Result<BTreeSet<Digest>> {
        let last = gone.iter().map(|(workflow, label)| last_key(workflow, label));
        let without: HashSet<Vec<u8>> = batch.forgotten.iter().map(result_key).chain(last).collect();
        let mut found = BTreeSet::new();
        self.link.scan(&[Vec::new()], &mut |_, key, value| {
            found.extend(elsewhere(value).filter(|_| !without.contains(key)));
            Ok(())
        })?;
        Ok(found)
    }
}

/// The lock of the database if it is free, else a connection to its holder.
fn find(dir: &StoreDir, me: &Holder, waiting: &mut dyn FnMut(&Holder) -> ControlFlow<()>) -> Result<Way> {
    /// Limit for a listening process's greeting, in tenths of a second.
    const GREETING: u32 = 20;
    let mut patience = LockWait::default();
    loop {
        if let Some(lock) = dir.try_lock(me)? {
            return Ok(Way::Lock(lock));
        }
        let who = dir.who_locks()?;
        let mut waited = 0;
        let reached = Connection::to(dir, me, &mut || {
            waited += 1;
            if waited < GREETING { ControlFlow::Continue(()) } else { waiting(&who) }
        });
        let who = match reached {
            Ok(Reached::Holder(line)) => return Ok(Way::Line(line)),
            Ok(Reached::Other(other)) => other,
            Ok(Reached::Nobody) => who,
            Err(GivenUp) => {
                return Err(StoreError::Held { path: dir.path().to_owned(), holder: Box::new(who) });
            }
        };
        patience.wait(dir, &who, waiting)?;
    }
}

/// Takes an unused run id.
fn take_name(dir: &StoreDir, me: &Holder, name: Namer<'_>) -> Result<(RunId, Alive)> {
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
        self.link.close();
    }
}

impl Results for Store {
    fn results_of(&self, fingerprints: &[Digest]) -> Result<Vec<Option<StepResult>>> {
        self.link.values(fingerprints.iter().map(result_key))
    }

    fn of_attempt(&self, attempt: &Digest) -> Result<Option<StepResult>> {
        let reading: Option<Digest> = self.link.value(attempt_key(attempt))?;
        reading.map_or(Ok(None), |reading| self.link.result(&reading))
    }

    fn last(&self, workflow: &str, label: &str) -> Result<Option<Last>> {
        self.link.last(workflow, label)
    }

    fn earlier(&self, workflow: &str, of: &[Sought<'_>]) -> Result<Vec<Earlier>> {
        let keys = |Sought { fingerprint, attempt, label }: &Sought<'_>| {
            vec![result_key(fingerprint), attempt_key(attempt), last_key(workflow, label)]
        };
        self.first_of(&of.iter().map(keys).collect::<Vec<_>>())
    }

    fn all(&self) -> Result<Vec<StepResult>> {
        let mut all = Vec::new();
        self.each_result(|result| all.push(result))?;
        Ok(all)
    }

    fn histories(&self, shapes: &[String]) -> Result<Vec<Vec<Observation>>> {
        self.link.histories(shapes)
    }
}
