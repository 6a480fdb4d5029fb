//! The store, as whoever uses it sees it: the database with what is in it, here or at the process that has it. Decides nothing about
//! freshness.

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
    /// Runs of this process. They end when the store is given back.
    alive: Mutex<Vec<Alive>>,
    /// Given back last.
    users: Users,
}

/// How the database is had.
enum Way {
    Lock(StoreLock),
    Line(Connection),
}

/// Names a run: from those that are there, oldest first.
type Namer<'a> = &'a mut dyn FnMut(&[RunId]) -> RunId;

impl Store {
    /// Opens the store in `path`, which is made where it is missing. Where another process has its database, that one is asked
    /// from here on, and when it ends one of those who asked takes the database over. While somebody has the store alone, or does not
    /// answer, `waiting` is asked every 100 ms whether to go on waiting, with who it is; `ControlFlow::Break` gives up with
    /// [`StoreError::Held`]. The lock of a process that died is waited for up to 3 s without asking. What journals have
    /// and the database has not is put there, and a damaged database is made anew from them: [`Store::rebuilt`].
    ///
    /// # Errors
    /// The store is held, of a newer format, on a network file system, or cannot be read or written.
    pub fn open(path: &Path, me: &Holder, waiting: impl FnMut(&Holder) -> ControlFlow<()>) -> Result<Store> {
        Store::join(path, me, None, waiting).map(|(store, _)| store)
    }

    /// The same for a run, which is named when it has the store: by `name`, from those that are there, oldest first. It is asked
    /// again where another run has that name. From then on the run [lives](StoreDir::living), until the store is dropped.
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

    /// Opens it for this process alone: runs and whoever else uses it are waited for, and they wait for this one.
    ///
    /// # Errors
    /// As of [`Store::open`].
    pub fn open_alone(path: &Path, me: &Holder, mut waiting: impl FnMut(&Holder) -> ControlFlow<()>) -> Result<Store> {
        let dir = StoreDir::create(path)?;
        let users = dir.alone(me, &mut waiting)?;
        let lock = dir.lock(me, &mut waiting)?;
        Store::alone_with(dir, me, users, lock)
    }

    /// With all that is needed to have it alone.
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

    /// The database was made anew when this process opened it.
    pub fn rebuilt(&self) -> Option<&Rebuilt> {
        self.link.rebuilt()
    }

    /// `listener` is told when whoever has the database does not answer, once a second or so from two seconds on, and says whether to
    /// go on waiting: `ControlFlow::Break` gives up with [`StoreError::Held`]. What waits is on whatever thread asked. Without a
    /// listener it waits as long as it takes.
    pub fn on_silence(&self, listener: impl Fn(&Silent) -> ControlFlow<()> + Send + Sync + 'static) {
        self.link.listen(Arc::new(listener));
    }

    /// Whoever has the database and is stopped is not waited for: what is asked of it ends with [`StoreError::Held`].
    pub fn refuse_who_is_stopped(&self) {
        self.on_silence(|silent| match silent.holder.process.is_stopped() {
            true => ControlFlow::Break(()),
            false => ControlFlow::Continue(()),
        });
    }

    /// From here on what any run has recorded that has ended by now is found, also where it was killed before it told of it.
    ///
    /// # Errors
    /// The disk is full, or the database damaged.
    pub fn take_in_ended(&self) -> Result<()> {
        self.link.take_in_ended()
    }

    /// The result under a fingerprint, else the last good one of an attempt.
    ///
    /// # Errors
    /// The database is damaged.
    pub fn result_of(&self, fingerprint: &Digest, attempt: &Digest) -> Result<Option<StepResult>> {
        Ok(match self.first_of(&[vec![result_key(fingerprint), attempt_key(attempt)]])?.pop() {
            Some(Earlier::Result(result) | Earlier::Attempt(result)) => Some(*result),
            Some(Earlier::Last(_) | Earlier::Nothing) | None => None,
        })
    }

    /// What lies under the keys of a result, of an attempt and of a last fingerprint, in this order: of several instances.
    fn first_of(&self, of: &[Vec<Vec<u8>>]) -> Result<Vec<Earlier>> {
        let mut earlier = vec![Earlier::Nothing; of.len()];
        // Instances, and from which of their keys on is still to be looked.
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

    /// Begins a run, named by [`Store::open_for_run`] or after all that are there: its folder and its journal.
    ///
    /// # Errors
    /// It exists already; the disk is full, or the database damaged.
    pub fn begin(&self, run: &RunId) -> Result<Journal> {
        if !self.is_own(run) {
            // It is no run, but it writes as one.
            let me = Holder { run: Some(run.clone()), ..self.me.clone() };
            let alive = self.dir.run(run).take(&me)?;
            self.alive.lock().unwrap_or_else(PoisonError::into_inner).extend(alive);
        }
        self.link.begin(run)?;
        self.dir.run(run).create()
    }

    /// What lines of a journal come to, and what else is to be written with them, to be [applied](Commit::apply) on whatever
    /// thread has time to wait for the disk. That is to happen in the order in which this was called.
    ///
    /// # Errors
    /// The database is damaged.
    pub fn commit(&self, journal: &Journal, lines: Vec<JournalLine>, batch: &Batch) -> Result<Commit> {
        let mut only_here = unjournalled(batch);
        for fingerprint in &batch.forgotten {
            // Another run may have made it again since it was looked at.
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

    /// Writes changes that no journal tells of, all of them or none, and returns when no kill can undo it.
    ///
    /// # Errors
    /// The disk is full, or the database is damaged. What was there before still is.
    pub fn apply(&self, batch: &Batch) -> Result<()> {
        match self.link.core() {
            _ if batch.is_empty() => Ok(()),
            Some(core) => core.write(core.writes(&RunId(String::new()), &[], batch)?),
            None => self.link.write(unjournalled(batch)),
        }
    }

    /// Nothing was recorded since a run began, but by that run, whose journal is there still.
    pub(crate) fn is_as_left_by(&self, run: &RunId) -> Result<bool> {
        let Some(base) = self.link.mark()? else { return Ok(false) };
        let is_newest = base.run <= *run && base.shared.is_none_or(|shared| shared < *run);
        let others = self.link.marks()?.into_iter().any(|(other, to)| other != *run && to > 0);
        Ok(is_newest && !others && self.others()?.is_empty() && self.dir.run(run).journal().exists())
    }

    /// Runs of other processes that live now.
    pub(crate) fn others(&self) -> Result<Vec<Holder>> {
        let mut living = self.dir.living()?;
        living.retain(|who| who.run.as_ref().is_none_or(|run| !self.is_own(run)));
        Ok(living)
    }

    fn is_own(&self, run: &RunId) -> bool {
        self.alive.lock().unwrap_or_else(PoisonError::into_inner).iter().any(|alive| alive.is_of(&self.dir.run(run)))
    }

    /// This process has all of it, and nobody else anything.
    pub(crate) fn has_all(&self) -> bool {
        self.users.is_alone
    }

    pub(crate) fn write(&self, writes: DbBatch) -> Result<()> {
        self.link.write(writes)
    }

    /// There is a result under a fingerprint.
    pub(crate) fn has(&self, fingerprint: &Digest) -> Result<bool> {
        Ok(self.link.first(&[vec![result_key(fingerprint)]])?.iter().any(Option::is_some))
    }

    /// Every result, in no order.
    ///
    /// # Errors
    /// The database cannot be read.
    pub fn each_result(&self, mut each: impl FnMut(StepResult)) -> Result<()> {
        self.link.each(b"r", &mut |_, value| _ = parse(value).map(&mut each))
    }

    /// Every attempt whose metrics may be read again, and the result by which it is known.
    pub(crate) fn each_attempt(&self, mut each: impl FnMut(Digest, Digest)) -> Result<()> {
        self.link.each(b"a", &mut |key, value| {
            if let (Ok(attempt), Some(reading)) = (key[1..].try_into(), parse(value)) {
                each(Digest(attempt), reading);
            }
        })
    }

    /// Every last fingerprint: workflow, label, what it was.
    pub(crate) fn each_last(&self, mut each: impl FnMut(&str, &str, Last)) -> Result<()> {
        self.link.each(b"l", &mut |key, value| {
            let key = String::from_utf8_lossy(&key[1..]);
            if let (Some((workflow, label)), Some(last)) = (key.split_once('\0'), parse(value)) {
                each(workflow, label, last);
            }
        })
    }

    /// Drops values that cannot be read, and says how many those were.
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
                // The database's own.
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

    /// Drops last fingerprints: of these workflows, these labels.
    pub(crate) fn forget_last(&self, gone: &[(&str, &str)]) -> Result<()> {
        let mut writes = DbBatch::default();
        gone.iter().for_each(|(workflow, label)| writes.delete(last_key(workflow, label)));
        self.write(writes)
    }

    /// Objects that hold large values of the database, but for those that are to be forgotten.
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

/// The database itself where nobody has it, else a connection to who has.
fn find(dir: &StoreDir, me: &Holder, waiting: &mut dyn FnMut(&Holder) -> ControlFlow<()>) -> Result<Way> {
    /// So long, in tenths of a second, somebody who listens may take to greet.
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

/// Takes a name that no run has.
fn take_name(dir: &StoreDir, me: &Holder, name: Namer<'_>) -> Result<(RunId, Alive)> {
    /// Another run was quicker; more often than this it is no other run.
    const TRIES: usize = 100;
    // Each run finds what those before it left that were killed.
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
