//! Access to the database, in this process or over the socket of another one. The other process may end at any moment;
//! then one of its clients takes the database over, and unanswered requests are repeated. So every request must be safe
//! to repeat. Knows no results.

use std::{
    fmt,
    ops::ControlFlow,
    sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError},
    thread,
    time::Duration,
};

use flow_core::{RunId, reason::StoreAction};

use crate::{
    Holder, Objects, Rebuilt, Result, StoreDir, StoreError,
    asked::{Connection, GivenUp, Reached},
    bytes::{Bytes, Each, Found},
    db::DbBatch,
    lock::{POLL, StoreLock},
    open_database::OpenDatabase,
    serve::Server,
    wire::{AT_ONCE, Answer, Broken, Request},
};

/// Interval of looks for a holder while nobody holds the store.
const LOOK: Duration = Duration::from_millis(20);
/// After the first, a missing answer makes the link look at the holder; after the second, it is reported.
const SILENT: Duration = Duration::from_secs(2);
const SLOW: Duration = Duration::from_secs(30);

/// The holder of the store does not answer. Requests wait.
#[derive(Clone, Debug)]
pub struct Silent {
    pub holder: Holder,
    pub lasts: Duration,
    /// It was not reported before.
    pub is_news: bool,
}

impl fmt::Display for Silent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "waiting for the store, which is held by {}", self.holder)?;
        if self.lasts >= SLOW {
            write!(f, "; no answer for {} s", self.lasts.as_secs())?;
            if let Some(user) = self.holder.process.other_user() {
                write!(f, ", and is {user}'s")?;
            }
        }
        Ok(())
    }
}

/// Called about once a second during silence; decides whether to continue waiting.
pub(crate) type Listener = Arc<dyn Fn(&Silent) -> ControlFlow<()> + Send + Sync>;

pub(crate) struct Link {
    dir: StoreDir,
    objects: Objects,
    me: Holder,
    side: Mutex<Side>,
    /// Only one thread searches for another side at a time.
    looking: Mutex<()>,
    rebuilt: OnceLock<Rebuilt>,
    listener: Mutex<Option<Listener>>,
}

/// The place of the database.
enum Side {
    Here(DatabaseOwner),
    There(Arc<Connection>),
    /// The holder no longer answers.
    Lost,
    /// This process no longer uses it.
    Closed,
}

/// The database, its server for other processes, and the lock, which is released last.
pub(crate) struct DatabaseOwner {
    core: Arc<OpenDatabase>,
    server: Option<Server>,
    lock: StoreLock,
}

impl DatabaseOwner {
    /// For a database that is shared with other processes.
    pub(crate) fn serving(core: OpenDatabase, mut lock: StoreLock, me: &Holder) -> DatabaseOwner {
        let core = Arc::new(core);
        let server = Server::start(&core, me).inspect_err(|error| {
            // Others wait until this process is done, and the lock tells them why.
            let since = format!("{}; other processes cannot use the store: {error}", me.since);
            let _ = lock.tell(&core.dir, &Holder { since, ..me.clone() });
        });
        DatabaseOwner { core, server: server.ok(), lock }
    }

    /// For a database that no other process may use.
    pub(crate) fn alone(core: OpenDatabase, lock: StoreLock) -> DatabaseOwner {
        DatabaseOwner { core: Arc::new(core), server: None, lock }
    }

    fn end(self) {
        let DatabaseOwner { core, server, lock } = self;
        if let Some(server) = server {
            server.stop();
        }
        drop(core);
        drop(lock);
    }
}

impl Link {
    pub(crate) fn here(dir: &StoreDir, me: &Holder, holding: DatabaseOwner, rebuilt: Option<Rebuilt>) -> Link {
        let link = Link::of(dir, me, Side::Here(holding));
        rebuilt.map(|rebuilt| link.rebuilt.set(rebuilt));
        link
    }

    pub(crate) fn there(dir: &StoreDir, me: &Holder, line: Connection) -> Link {
        Link::of(dir, me, Side::There(Arc::new(line)))
    }

    fn of(dir: &StoreDir, me: &Holder, side: Side) -> Link {
        Link {
            dir: dir.clone(),
            objects: dir.objects(),
            me: me.clone(),
            side: Mutex::new(side),
            looking: Mutex::default(),
            rebuilt: OnceLock::new(),
            listener: Mutex::default(),
        }
    }

    fn side(&self) -> MutexGuard<'_, Side> {
        self.side.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The database, if this process holds it.
    pub(crate) fn core(&self) -> Option<Arc<OpenDatabase>> {
        match &*self.side() {
            Side::Here(holding) => Some(Arc::clone(&holding.core)),
            _ => None,
        }
    }

    pub(crate) fn rebuilt(&self) -> Option<&Rebuilt> {
        self.rebuilt.get()
    }

    pub(crate) fn listen(&self, listener: Listener) {
        *self.listener.lock().unwrap_or_else(PoisonError::into_inner) = Some(listener);
    }

    /// Ends all connections, closes the database, and releases the lock.
    pub(crate) fn close(&self) {
        let side = std::mem::replace(&mut *self.side(), Side::Closed);
        if let Side::Here(holding) = side {
            holding.end();
        }
    }

    pub(crate) fn begin(&self, run: &RunId) -> Result<()> {
        self.ask(&[Request::Begin(run.0.clone())], done).map(drop)
    }

    pub(crate) fn record(&self, run: &RunId, to: u64) -> Result<()> {
        self.ask(&[Request::Record { run: run.0.clone(), to }], done).map(drop)
    }

    pub(crate) fn take_in_ended(&self) -> Result<()> {
        self.ask(&[Request::TakeInEnded], done).map(drop)
    }

    /// Writes everything or nothing, and returns when no kill can undo it.
    pub(crate) fn write(&self, writes: DbBatch) -> Result<()> {
        let writes = writes.outlined(&self.objects)?.into_writes();
        self.ask(&[Request::Write(writes)], done).map(drop)
    }

    /// Sends requests until a holder has answered. Returns the first answers, parsed by `read`: at least one, and as
    /// many as fit into one frame.
    fn ask<T>(&self, requests: &[Request], read: impl Fn(Answer) -> Option<T>) -> Result<Vec<T>> {
        loop {
            let line = match &*self.side() {
                Side::Here(holding) => Err(Arc::clone(&holding.core)),
                Side::There(line) => Ok(Some(Arc::clone(line))),
                Side::Lost => Ok(None),
                Side::Closed => return Err(self.closed()),
            };
            let mut watch = Watch::default();
            let (answers, line) = match line {
                Err(core) => (core.answer(requests)?, None),
                Ok(None) => {
                    self.look()?;
                    continue;
                }
                Ok(Some(line)) => match line.ask(requests, &mut || self.watch(&mut watch, POLL)) {
                    Ok(answers) => (answers, Some(line)),
                    Err(Broken::Gone) => {
                        self.lost(&line);
                        continue;
                    }
                    Err(Broken::GivenUp) => {
                        self.lost(&line);
                        return Err(self.given_up(&watch));
                    }
                },
            };
            let mut told = Vec::with_capacity(answers.len());
            for answer in answers {
                match answer {
                    Answer::Failed(failure) => return Err(failure.into()),
                    answer => told.extend(read(answer)),
                }
            }
            if !told.is_empty() {
                return Ok(told);
            }
            line.inspect(|line| self.lost(line));
        }
    }

    fn lost(&self, line: &Arc<Connection>) {
        let mut side = self.side();
        if matches!(&*side, Side::There(now) if Arc::ptr_eq(now, line)) {
            *side = Side::Lost;
        }
    }

    /// Finds the new holder of the database, or takes it over if there is none.
    fn look(&self) -> Result<()> {
        let _one = self.looking.lock().unwrap_or_else(PoisonError::into_inner);
        let mut watch = Watch::default();
        while matches!(&*self.side(), Side::Lost) {
            if let Some(lock) = self.dir.try_lock(&self.me)? {
                let (core, rebuilt) = OpenDatabase::open(&self.dir)?;
                rebuilt.map(|rebuilt| self.rebuilt.set(rebuilt));
                self.found(Side::Here(DatabaseOwner::serving(core, lock, &self.me)));
                break;
            }
            match Connection::to(&self.dir, &self.me, &mut || self.watch(&mut watch, POLL)) {
                Ok(Reached::Holder(line)) => {
                    self.found(Side::There(Arc::new(line)));
                    break;
                }
                Ok(Reached::Nobody) => watch.other = None,
                Ok(Reached::Other(other)) => watch.other = Some(other),
                Err(GivenUp) => return Err(self.given_up(&watch)),
            }
            if self.watch(&mut watch, LOOK).is_break() {
                return Err(self.given_up(&watch));
            }
            thread::sleep(LOOK);
        }
        Ok(())
    }

    fn found(&self, found: Side) {
        let mut side = self.side();
        if matches!(&*side, Side::Lost) {
            *side = found;
        } else if let Side::Here(holding) = found {
            drop(side);
            holding.end();
        }
    }

    /// Adds `waited` to the time an answer has taken. From `SILENT` on, once a second, it passes the holder to the
    /// listener, which decides whether to continue waiting.
    fn watch(&self, watch: &mut Watch, waited: Duration) -> ControlFlow<()> {
        let before = watch.waited;
        watch.waited += waited;
        if watch.waited < SILENT || before.as_secs() == watch.waited.as_secs() {
            return ControlFlow::Continue(());
        }
        if matches!(&*self.side(), Side::Closed) {
            return ControlFlow::Break(());
        }
        let holder = || self.dir.holder().ok().flatten();
        let Some(holder) = watch.other.clone().or_else(holder) else { return ControlFlow::Continue(()) };
        let listener = self.listener.lock().unwrap_or_else(PoisonError::into_inner).clone();
        watch.holder = Some(holder.clone());
        let is_worth_it = watch.waited >= SLOW || watch.other.is_some() || holder.process.is_stopped();
        let is_news = is_worth_it && !watch.is_told;
        watch.is_told |= is_news;
        listener.map_or(ControlFlow::Continue(()), |tell| tell(&Silent { holder, lasts: watch.waited, is_news }))
    }

    fn given_up(&self, watch: &Watch) -> StoreError {
        match &watch.holder {
            Some(holder) => StoreError::Held { path: self.dir.path().to_owned(), holder: Box::new(holder.clone()) },
            None => self.closed(),
        }
    }

    fn closed(&self) -> StoreError {
        StoreError::io(StoreAction::Use, self.dir.path())(std::io::Error::other("this process has closed the store"))
    }
}

/// The wait for an answer.
#[derive(Default)]
struct Watch {
    waited: Duration,
    is_told: bool,
    holder: Option<Holder>,
    /// The present holder, if its protocol or format differs from this flow's.
    other: Option<Holder>,
}

fn done(answer: Answer) -> Option<()> {
    matches!(answer, Answer::Done).then_some(())
}

impl Bytes for Link {
    fn objects(&self) -> &Objects {
        &self.objects
    }

    fn first(&self, of: &[Vec<Vec<u8>>]) -> Result<Vec<Found>> {
        let mut found = Vec::with_capacity(of.len());
        while let Some(rest) = of.get(found.len()..).filter(|rest| !rest.is_empty()) {
            let requests: Vec<Request> = rest.iter().take(AT_ONCE).map(|keys| Request::First(keys.clone())).collect();
            let first = |answer| if let Answer::First(found) = answer { Some(found) } else { None };
            found.extend(self.ask(&requests, first)?);
        }
        Ok(found)
    }

    fn scan(&self, prefixes: &[Vec<u8>], each: &mut Each<'_>) -> Result<()> {
        let (mut next, mut after) = (0, None);
        while next < prefixes.len() {
            let request = |prefix: &Vec<u8>| Request::Scan { prefix: prefix.clone(), after: None };
            let mut requests: Vec<Request> = prefixes[next..].iter().take(AT_ONCE).map(request).collect();
            if let Some(Request::Scan { after: behind, .. }) = requests.first_mut() {
                *behind = after.take();
            }
            let page = |answer| if let Answer::Page { entries, more } = answer { Some((entries, more)) } else { None };
            for (entries, more) in self.ask(&requests, page)? {
                for (key, value) in &entries {
                    each(next, key, value)?;
                }
                after = entries.into_iter().next_back().filter(|_| more).map(|(last, _)| last);
                if after.is_some() {
                    break;
                }
                next += 1;
            }
        }
        Ok(())
    }
}
