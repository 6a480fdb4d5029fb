//! `flow __supervisor RUN`: the daemon of a detached run, which keeps its attempts on this machine and survives the run's own
//! process. It works like a job on a node: the attempts' folders are the interface, and whoever follows an attempt reads
//! its files. Only the start of a gang comes over a socket, while the run's process lives, and each new file is announced
//! there. The daemon holds the attempts' claims, and when that process is gone also their GPU locks and their part of the
//! machine's ledger, until they have ended. Knows no workflow.

use std::{
    collections::{BTreeMap, BTreeSet},
    env,
    fs::File,
    io::{self, BufRead, BufReader, Write},
    os::{
        fd::{AsFd, FromRawFd, OwnedFd},
        unix::net::UnixStream,
    },
    path::PathBuf,
    process::ExitCode,
    time::{Duration, Instant},
};

use flow_core::{AttemptId, Digest, GpuFacts, RunId, sched::MachineShare};
use flow_runs::{Claims, DaemonLock, EndRequest, ProcessIdentity, RunDir, StoreDir};
use nix::{
    fcntl::{FcntlArg, FdFlag, fcntl},
    sys::prctl::set_name,
    unistd::setsid,
};
use serde::{Deserialize, Serialize};
use tokio::signal::unix::{SignalKind, signal};

use super::{
    NodeFacts, NodeFiles, Record,
    outgoing::Outgoing,
    programs::{ProgramEvent, Programs},
};
use crate::{
    attempt::Bound,
    channel::Channel,
    clock,
    hardware::{
        self,
        gpu_lock::LentLock,
        ledger::{self, Ledger, Slot},
    },
    intents::{self, Intent, Member, OrphanState},
    keeper::{self, Keeper, record},
};

/// The argument that makes the binary a supervisor.
pub const SUPERVISOR_ARG: &str = "__supervisor";
/// Interval of looks at logs and files, as in an engine next to the programs.
const LOOK: Duration = Duration::from_millis(50);
/// Interval of looks at the machine's ledger.
const WATCH: Duration = Duration::from_secs(1);
/// Grace period of a program.
const GRACE: Duration = Duration::from_secs(10);

/// The first message of the engine.
#[derive(Serialize, Deserialize)]
pub struct Hello {
    pub store: PathBuf,
    pub run: RunId,
    pub workflow: String,
    /// The GPUs that its programs may use.
    pub gpus: Vec<GpuFacts>,
    /// The descriptors of the GPUs' open lock files.
    pub locks: Vec<Option<i32>>,
    /// The descriptor of the ledger's open file, and the run's slot in it.
    pub ledger: Option<(i32, u32)>,
}

/// The answer.
#[derive(Serialize, Deserialize)]
pub struct Welcome {
    pub keeper: u32,
}

/// A request of the engine. It holds secrets: nothing prints it.
#[derive(Serialize, Deserialize)]
pub enum DaemonRequest {
    /// The attempts of a gang, whose intent is on disk.
    Begin(Vec<AttemptStart>),
    Kill {
        attempt: AttemptId,
        grace: Duration,
    },
}

/// An attempt to start.
#[derive(Serialize, Deserialize)]
pub struct AttemptStart {
    pub start: keeper::Start,
    /// The name of its gang's intent.
    pub gang: String,
    /// The fingerprint of the attempt, as the intent has it.
    pub fingerprint: Digest,
    /// Its GPUs.
    pub gpus: Vec<usize>,
    pub timeout: Option<Duration>,
    pub holds: MachineShare,
}

/// A message for the engine: the attempt's folder has a new file.
#[derive(Serialize, Deserialize)]
pub enum DaemonEvent {
    Started(AttemptId),
    /// With the record, if there is no room for it on the disk.
    Ended(AttemptId, Option<Box<Record>>),
}

/// The main function of the process.
///
/// # Errors
/// A sentence: a requirement is missing.
pub fn supervise() -> Result<ExitCode, String> {
    let cannot = |e: io::Error| format!("flow cannot receive messages of the engine: {e}");
    let mut socket = UnixStream::from(io::stdin().as_fd().try_clone_to_owned().map_err(cannot)?);
    let mut line = String::new();
    BufReader::new(&socket).read_line(&mut line).map_err(cannot)?;
    let hello: Hello = serde_json::from_str(&line).map_err(|e| cannot(e.into()))?;
    // No other process may inherit them, least of all the keeper's programs.
    let locks = hello.locks.iter().map(|fd| fd.and_then(inherited).map(LentLock::of)).collect();
    let life = hello.ledger.and_then(|(fd, slot)| Some((inherited(fd)?, slot)));
    // So that `killall flow` and signals to a session or a group do not reach it.
    let _ = (set_name(c"keeper"), setsid());
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(|e| format!("the event loop cannot be started: {e}"))?;
    runtime.block_on(async {
        let mut daemon = Daemon::new(hello, locks, life)?;
        let mut welcome = serde_json::to_vec(&Welcome { keeper: daemon.programs.keeper() }).unwrap_or_default();
        welcome.push(b'\n');
        socket.write_all(&welcome).map_err(cannot)?;
        daemon.engine = Some(Channel::new(socket).map_err(cannot)?);
        daemon.run().await
    })
}

#[expect(unsafe_code, reason = "a descriptor that the engine left open is known by its number alone")]
fn inherited(fd: i32) -> Option<File> {
    // SAFETY: the engine opened it for this process, which has just started and uses it nowhere else.
    let fd = unsafe { OwnedFd::from_raw_fd(fd) };
    fcntl(&fd, FcntlArg::F_SETFD(FdFlag::FD_CLOEXEC)).ok()?;
    Some(File::from(fd))
}

/// An attempt whose end is not written yet.
struct Attempt {
    /// The name of its gang's intent.
    gang: String,
    claim: Option<Digest>,
    gpus: Vec<usize>,
    holds: MachineShare,
    timeout: Option<Duration>,
    bound: Bound,
    timed_out: bool,
    other_attempts: u32,
    unwatched: bool,
}

struct Daemon {
    hello: Hello,
    programs: Programs,
    /// `None` when the engine is gone.
    engine: Option<Channel>,
    run: RunDir,
    dir: StoreDir,
    _lock: DaemonLock,
    claims: Claims,
    locks: Vec<Option<LentLock>>,
    /// The open file of the ledger, and the run's slot in it.
    life: Option<(File, u32)>,
    /// which is ours to write once the engine is gone.
    ledger: Option<Ledger>,
    attempts: BTreeMap<AttemptId, Attempt>,
    out: Outgoing,
    warned: Option<bool>,
    looked_at: Instant,
    watched_at: Option<Instant>,
}

impl Daemon {
    fn new(hello: Hello, locks: Vec<Option<LentLock>>, life: Option<(File, u32)>) -> Result<Daemon, String> {
        let no_store = || format!("there is no store `{}`", hello.store.display());
        let dir = StoreDir::existing(&hello.store).map_err(|e| e.to_string())?.ok_or_else(no_store)?;
        let run = dir.run(&hello.run);
        let lock = run.keep_on().map_err(|e| e.to_string())?;
        let claims = Claims::open(&dir, None).map_err(|e| e.to_string())?;
        let exe = env::current_exe().map_err(|e| format!("flow's program was not found: {e}"))?;
        let alive = life.as_ref().and_then(|(file, _)| file.as_fd().try_clone_to_owned().ok());
        let keeper = Keeper::spawn_with(&exe, &record::of_run(run.path()), alive);
        let keeper = keeper.map_err(|e| format!("the supervisor cannot be started: {e}"))?;
        let engine = nix::unistd::getppid().as_raw().cast_unsigned();
        let programs = Programs::new(keeper, &hello.gpus, Some(engine))?;
        Ok(Daemon {
            hello,
            programs,
            engine: None,
            run,
            dir,
            _lock: lock,
            claims,
            locks,
            life,
            ledger: None,
            attempts: BTreeMap::new(),
            out: Outgoing::default(),
            warned: None,
            looked_at: clock::steady(),
            watched_at: None,
        })
    }

    async fn run(mut self) -> Result<ExitCode, String> {
        let cannot = |e: io::Error| format!("signals cannot be received: {e}");
        let mut terminate = signal(SignalKind::terminate()).map_err(cannot)?;
        let mut hangup = signal(SignalKind::hangup()).map_err(cannot)?;
        let mut interrupt = signal(SignalKind::interrupt()).map_err(cannot)?;
        while self.engine.is_some() || !self.programs.running.is_empty() || !self.out.is_empty() {
            let idle = self.programs.running.is_empty() && self.out.is_empty() && self.engine.is_some();
            let pause = if idle { WATCH * 3600 } else { LOOK.saturating_sub(clock::since(self.looked_at)) };
            let there = self.engine.is_some();
            tokio::select! {
                biased;
                ask = next(&mut self.engine), if there => match ask {
                    Ok(Some(ask)) => self.take(ask),
                    Ok(None) | Err(_) => self.is_alone(),
                },
                event = self.programs.next() => self.send(event?),
                () = tokio::time::sleep(pause) => self.look(),
                // The machine is shutting down: attempts that are ended here have no result.
                _ = terminate.recv() => {
                    self.warned = Some(false);
                    self.programs.end_all(GRACE);
                }
                _ = hangup.recv() => {}
                _ = interrupt.recv() => {}
            }
        }
        Ok(ExitCode::SUCCESS)
    }

    fn take(&mut self, ask: DaemonRequest) {
        match ask {
            DaemonRequest::Begin(gang) => gang.into_iter().for_each(|begin| self.begin(begin)),
            DaemonRequest::Kill { attempt, grace } => self.programs.end(attempt, grace),
        }
    }

    fn begin(&mut self, begin: AttemptStart) {
        let AttemptStart { start, gang, fingerprint, gpus, timeout, holds } = begin;
        let claim = Claims::detached_claim(&fingerprint);
        // If another process holds the claim, at worst no run can join this attempt.
        let claim = Some(claim).filter(|claim| matches!(self.claims.take(&[*claim]), Ok(None)));
        let bound = Bound::new(start.folder.join(flow_protocol::file::LOG));
        let own = Attempt {
            gang,
            claim,
            gpus: gpus.clone(),
            holds,
            timeout,
            bound,
            timed_out: false,
            other_attempts: 0,
            unwatched: false,
        };
        self.attempts.insert(start.attempt, own);
        self.programs.begin(start, NodeFacts::default(), gpus);
    }

    fn send(&mut self, event: ProgramEvent) {
        match event {
            ProgramEvent::Started(attempt) => {
                let Some(program) = self.programs.running.get(&attempt) else { return };
                self.out.started(attempt, program.folder.path(), &program.facts);
                self.write();
                self.announce(&DaemonEvent::Started(attempt));
            }
            ProgramEvent::Ended(attempt, ended) => {
                let (program, mut record) = *ended;
                record.warned = self.warned;
                if let Some(own) = self.attempts.get(&attempt) {
                    (record.timed_out, record.other_attempts) = (own.timed_out, own.other_attempts);
                    record.unwatched = own.unwatched;
                }
                // A power cut ends the other attempts as well.
                self.out.ended(attempt, program.folder.path(), &record, false);
                self.write();
                let unwritten = self.out.has_end(attempt).then(|| Box::new(record));
                self.announce(&DaemonEvent::Ended(attempt, unwritten));
            }
        }
        if self.engine.is_none() {
            self.hold();
            // No later run wants the results of those that were told to end.
            let lost = |intent: &Intent| intent.here.is_some() && intent.state(&self.dir) == OrphanState::Lost;
            intents::of(&self.run).iter().filter(|intent| lost(intent)).for_each(|intent| intent.remove(&self.dir));
        }
    }

    /// Writes the files that wait.
    fn write(&mut self) {
        let Daemon { out, attempts, claims, .. } = self;
        // Whatever the error is, it is tried again: nobody else knows how the programs have ended.
        let _ = out.write(|attempt, is_end| {
            let ended = if is_end { attempts.remove(&attempt) } else { None };
            if let Some(claim) = ended.and_then(|own| own.claim) {
                let _ = claims.give_back(&[claim]);
            }
        });
    }

    fn announce(&mut self, event: &DaemonEvent) {
        // If the engine is gone, the next read shows it.
        let _ = self.engine.as_mut().map(|engine| engine.send(event));
    }

    /// The engine is gone.
    fn is_alone(&mut self) {
        self.engine = None;
        let is_new = |member: &Member| {
            !self.attempts.contains_key(&member.attempt) && !NodeFiles::of(&member.folder).has_ended()
        };
        let here = intents::of(&self.run).into_iter().filter(|intent| intent.here.is_some());
        // The engine died before it could ask for the new ones.
        let (new, left): (Vec<Intent>, Vec<Intent>) = here.partition(|intent| intent.members.iter().all(is_new));
        new.iter().for_each(|intent| intent.remove(&self.dir));
        if !left.is_empty() {
            self.dir.note_job_change();
        }
        if self.attempts.is_empty() {
            return;
        }
        let life = self.life.as_ref().and_then(|(file, slot)| Some((file.try_clone().ok()?, *slot)));
        self.ledger = life.map(|(file, slot)| Ledger::inherited(file, slot));
        self.hold();
    }

    /// Keeps holding what running attempts need, and releases the rest.
    fn hold(&mut self) {
        let running = self.programs.running.keys().filter_map(|attempt| self.attempts.get(attempt));
        let held: BTreeSet<usize> = running.clone().flat_map(|own| own.gpus.iter().copied()).collect();
        for (index, lock) in self.locks.iter_mut().enumerate() {
            match lock {
                Some(lock) if held.contains(&index) => lock.keep(),
                _ => lock.take().into_iter().for_each(LentLock::give_back),
            }
        }
        let Some(ledger) = &mut self.ledger else { return };
        let mut holds = MachineShare::default();
        running.for_each(|own| holds.add(&own.holds));
        let process = ProcessIdentity::own();
        let slot = Slot {
            run: self.hello.run.to_string(),
            person: hardware::person(),
            workflow: self.hello.workflow.clone(),
            pid: process.pid,
            process_start: process.started,
            holds,
            ..Slot::default()
        };
        // If this fails, the ledger shows too much until the next end.
        let _ = ledger.write(&slot);
    }

    fn look(&mut self) {
        self.looked_at = clock::steady();
        self.programs.look();
        if self.watched_at.is_none_or(|at| clock::since(at) >= WATCH) {
            self.watched_at = Some(self.looked_at);
            self.watch();
        }
        if self.out.is_due() {
            self.write();
        }
        if self.engine.is_some() {
            return;
        }
        if self.run.path().try_exists().is_ok_and(|there| !there) {
            // The store was removed: nobody can import any result.
            self.programs.end_all(Duration::ZERO);
            self.attempts.clear();
            self.out = Outgoing::default();
        }
        if let Some(end) = self.run.take_end() {
            let grace = if end == EndRequest::Now { Duration::ZERO } else { GRACE };
            let all: Vec<AttemptId> = self.programs.running.keys().copied().collect();
            all.into_iter().for_each(|attempt| self.drop_it(attempt, grace));
        }
        let asked = |(attempt, folder)| Some((attempt, NodeFiles::of(folder).end_grace()?));
        let asked: Vec<_> = self.programs.folders().filter_map(asked).collect();
        asked.into_iter().for_each(|(attempt, grace)| self.programs.end(attempt, grace));
        self.end_in_time();
    }

    /// Ends an attempt whose result no run may import.
    fn drop_it(&mut self, attempt: AttemptId, grace: Duration) {
        if let Some(program) = self.programs.running.get(&attempt) {
            // If this fails, it ends anyway, and the result counts as its own.
            let _ = NodeFiles::of(program.folder.path()).request_end(grace);
        }
        self.programs.end(attempt, grace);
    }

    /// Ends attempts whose time is up, with their groups, and those whose log is too long.
    fn end_in_time(&mut self) {
        let now = clock::unix_seconds();
        let mut gangs = Vec::new();
        let mut floods = Vec::new();
        for (attempt, program) in &self.programs.running {
            let Some(own) = self.attempts.get_mut(attempt) else { continue };
            let over = own.timeout.zip(program.began).is_some_and(|(limit, at)| now - at >= limit.as_secs_f64());
            if over && !own.timed_out {
                gangs.push(own.gang.clone());
            }
            if own.bound.keep().is_some() {
                floods.push(*attempt);
            }
        }
        for (attempt, own) in self.attempts.iter_mut().filter(|(_, own)| gangs.contains(&own.gang)) {
            own.timed_out |= self.programs.running.contains_key(attempt);
            self.programs.end(*attempt, GRACE);
        }
        floods.into_iter().for_each(|attempt| self.programs.end(attempt, Duration::ZERO));
    }

    /// Checks whether other runs are on the machine, and whether they can be seen.
    fn watch(&mut self) {
        let own = self.life.as_ref().map(|(_, slot)| *slot);
        let seen = ledger::look_at_machine();
        let others = seen.as_ref().map_or(0, |seen| {
            let others = seen.runs.iter().filter(|(slot, _)| Some(*slot) != own);
            others.fold(0_u32, |sum, (_, slot)| sum.saturating_add(slot.holds.attempts))
        });
        for attempt in self.programs.running.keys() {
            let Some(own) = self.attempts.get_mut(attempt) else { continue };
            own.other_attempts = own.other_attempts.max(others);
            own.unwatched |= seen.is_err();
        }
    }
}

/// The next request of the engine.
async fn next(engine: &mut Option<Channel>) -> io::Result<Option<DaemonRequest>> {
    match engine {
        Some(engine) => engine.next().await,
        None => std::future::pending().await,
    }
}
