//! The keeper's process: one loop over its socket and its children. Decides only how to end what must end.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs, io,
    os::{
        fd::{AsFd, OwnedFd},
        unix::fs::OpenOptionsExt,
    },
    path::Path,
    process::ExitCode,
    time::{Duration, Instant},
};

use flow_core::{
    AttemptId,
    reason::{Fault, StartFault},
};
use flow_protocol::{Exit, file};
use flow_runs::ProcessIdentity;
use nix::{
    errno::Errno,
    poll::{PollFd, PollFlags, PollTimeout, poll},
    sys::{
        prctl::{set_child_subreaper, set_name},
        resource::{Resource, setrlimit},
        signal::{SigSet, Signal},
        signalfd::{SfdFlags, SignalFd},
        wait::{Id, WaitPidFlag, waitid},
    },
    unistd::{Pid, dup2_stdin, setsid},
};

use super::{
    Event, Request, Start,
    engine::Engine,
    oom::OomKills,
    output::{Outputs, PIECE},
    record::Record,
    spawn::{self, ExitUsage, Stack, Totals},
    tree::{self, ATTEMPTS, Children, Mark, Tree},
};
use crate::{attempt::Folder, clock, secrets::Secrets};

/// Grace period for processes that a step leaves behind.
const SWEEP_GRACE: Duration = Duration::from_millis(500);
/// Interval of repeated kills until nothing is left, because a process may fork while it is being killed.
const KILL_AGAIN: Duration = Duration::from_millis(20);

/// Interval of retries on a full disk.
const WRITE_AGAIN: Duration = Duration::from_millis(100);

/// The keeper's main function: `main` calls this first if the first argument is [`super::KEEPER_ARG`]. Returns when the
/// engine and all processes of all attempts are gone; it then removes `record`.
pub fn serve(record: &Path) -> ExitCode {
    let served = Server::new().and_then(Server::run);
    if served.is_ok() {
        Record::remove(record, &ProcessIdentity::own());
    }
    match served {
        Ok(()) => ExitCode::SUCCESS,
        Err(_) => ExitCode::FAILURE,
    }
}

struct Server {
    me: u32,
    mark: Mark,
    engine: Engine,
    signals: SignalFd,
    /// Signals to end are ignored.
    ignores_signals: bool,
    children: Children,
    stack: Stack,
    attempts: BTreeMap<AttemptId, Attempt>,
    mains: BTreeMap<i32, AttemptId>,
    /// Processes that lost their parent and became ours, with the attempt that they belong to.
    orphans: BTreeMap<i32, Option<AttemptId>>,
    oom_kills: OomKills,
    /// The secrets of the last attempt that had some: others of the run have the same.
    secrets: Secrets,
    /// A buffer for the output of programs.
    piece: Vec<u8>,
}

struct Attempt {
    /// Present if its program does not write its files itself.
    outputs: Option<Outputs>,
    main: i32,
    started_at: f64,
    /// How the main process ended, and when.
    ended: Option<(ExitUsage, f64)>,
    /// Resources used by orphans of this attempt that the keeper reaped.
    of_orphans: Vec<Totals>,
    oom_killed: bool,
    ending: Option<EndDeadline>,
    /// Processes that outlived the main one and had to be told to end.
    swept: BTreeSet<i32>,
}

/// The end of an attempt: all its processes are asked to end, and killed at this time.
struct EndDeadline {
    kill_at: Instant,
    requested: BTreeSet<i32>,
}

impl Server {
    fn new() -> io::Result<Server> {
        let engine = Engine::of(io::stdin().as_fd().try_clone_to_owned()?)?;
        dup2_stdin(OwnedFd::from(fs::File::open("/dev/null")?))?;
        spawn::forget_the_parent();
        // So that `killall flow` leaves somebody to clean up.
        set_name(c"keeper")?;
        // Away from the terminal, because Ctrl-C is for the engine. Fails only if this process already leads a group.
        let _ = setsid();
        set_child_subreaper(true)?;
        setrlimit(Resource::RLIMIT_CORE, 0, 0)?;
        let mut watched = SigSet::empty();
        for signal in [Signal::SIGCHLD, Signal::SIGTERM, Signal::SIGINT, Signal::SIGHUP, Signal::SIGQUIT] {
            watched.add(signal);
        }
        let signals = SignalFd::with_flags(&watched, SfdFlags::SFD_CLOEXEC | SfdFlags::SFD_NONBLOCK)?;
        watched.add(Signal::SIGPIPE);
        watched.thread_block()?;
        Ok(Server {
            me: std::process::id(),
            mark: Mark::of(&ProcessIdentity::own()),
            engine,
            signals,
            ignores_signals: false,
            children: Children::new(),
            stack: Stack::new(),
            attempts: BTreeMap::new(),
            mains: BTreeMap::new(),
            orphans: BTreeMap::new(),
            oom_kills: OomKills::new(),
            secrets: Secrets::default(),
            piece: vec![0; PIECE],
        })
    }

    fn run(mut self) -> io::Result<()> {
        while !self.engine.is_gone() || !self.attempts.is_empty() || !self.children.list().is_empty() {
            self.engine.write();
            self.wait()?;
            self.read();
            for outputs in self.attempts.values_mut().filter_map(|attempt| attempt.outputs.as_mut()) {
                outputs.turn(&mut self.piece);
            }
            while let Ok(Some(signal)) = self.signals.read_signal() {
                if signal.ssi_signo != Signal::SIGCHLD as u32 && !self.ignores_signals {
                    self.engine.hang_up();
                }
            }
            // Before anything is told to end: what has ended by now did so by itself.
            let has_ended = self.reap();
            if self.engine.is_gone() {
                let all: Vec<AttemptId> = self.attempts.keys().copied().collect();
                all.into_iter().for_each(|attempt| self.end(attempt, SWEEP_GRACE));
            }
            if has_ended {
                self.settle();
            }
            // After reaping: a rise since the last look belongs to those that have just ended.
            self.oom_kills.look();
            self.sweep();
        }
        Ok(())
    }

    fn wait(&self) -> io::Result<()> {
        let now = clock::steady();
        let wake = self
            .attempts
            .values()
            .filter_map(|a| a.ending.as_ref())
            .map(|e| if e.kill_at > now { e.kill_at - now } else { KILL_AGAIN })
            .chain((!self.attempts.is_empty()).then(|| self.oom_kills.next_look().saturating_duration_since(now)))
            .chain((self.attempts.is_empty() && self.engine.is_gone()).then_some(KILL_AGAIN))
            .chain(self.outputs().any(Outputs::is_stuck).then_some(WRITE_AGAIN))
            .min();
        // Rounded up, because waking just before the time would spin.
        let timeout = wake.map_or(PollTimeout::NONE, |d| {
            PollTimeout::try_from(d + Duration::from_millis(1)).unwrap_or(PollTimeout::MAX)
        });
        let mut fds = vec![PollFd::new(self.signals.as_fd(), PollFlags::POLLIN)];
        fds.extend(self.engine.waiting());
        fds.extend(self.outputs().flat_map(Outputs::waiting).map(|fd| PollFd::new(fd, PollFlags::POLLIN)));
        match poll(&mut fds, timeout) {
            Ok(_) | Err(Errno::EINTR) => Ok(()),
            Err(e) => Err(e.into()),
        }
    }

    fn outputs(&self) -> impl Iterator<Item = &Outputs> {
        self.attempts.values().filter_map(|attempt| attempt.outputs.as_ref())
    }

    fn read(&mut self) {
        for request in self.engine.read() {
            match request {
                Request::Start(start) => self.start(&start),
                Request::Kill { attempt, grace } => self.end(attempt, grace),
                Request::IgnoreSignals => self.ignores_signals = true,
                Request::Warn { attempt, grace } => self.warn(attempt, grace),
            }
        }
    }

    fn start(&mut self, start: &Start) {
        let attempt = start.attempt;
        if self.attempts.is_empty() {
            self.oom_kills.forget();
        }
        let started_at = clock::unix_seconds();
        let spawned = if self.attempts.contains_key(&attempt) {
            Err(StartFault::RunsAlready { attempt: attempt.0 }.into())
        } else if attempt.0 >= ATTEMPTS {
            Err(StartFault::TooManyAttempts { most: ATTEMPTS }.into())
        } else {
            let path = start.folder.join(file::LOG);
            fs::File::options()
                .create(true)
                .append(true)
                .mode(0o600)
                .open(&path)
                .map_err(|e| StartFault::NoLog { path: path.display().to_string(), error: Box::new(e.into()) }.into())
                .and_then(|log| self.spawn(start, log))
        };
        match spawned {
            Ok((pid, outputs)) => {
                self.mains.insert(pid.as_raw(), attempt);
                self.attempts.insert(
                    attempt,
                    Attempt {
                        outputs,
                        main: pid.as_raw(),
                        started_at,
                        ended: None,
                        of_orphans: Vec::new(),
                        oom_killed: false,
                        ending: None,
                        swept: BTreeSet::new(),
                    },
                );
                self.engine.emit(&Event::Started { attempt, pid: pid.as_raw().unsigned_abs() });
            }
            Err(reason) => {
                self.engine.emit(&Event::SpawnFailed { attempt, reason });
            }
        }
    }

    /// Starts the program, which writes to the log, or to pipes if it has secrets.
    fn spawn(&mut self, start: &Start, log: fs::File) -> Result<(Pid, Option<Outputs>), Fault> {
        let mark = self.mark.with(start.attempt);
        let mut launch = |log: &fs::File| tree::marked(mark, || spawn::start(start, log, &mut self.stack));
        if start.secrets.is_empty() {
            return Ok((launch(&log)?, None));
        }
        if self.secrets.values() != start.secrets {
            self.secrets = Secrets::new(start.secrets.clone());
        }
        let (outputs, log) = Outputs::open(&Folder::at(start.folder.clone()), log, &self.secrets)?;
        match launch(&log) {
            Ok(pid) => Ok((pid, Some(outputs))),
            Err(reason) => {
                drop(log);
                outputs.end(&mut self.piece);
                Err(reason.into())
            }
        }
    }

    /// Sends SIGUSR1 to the attempt's processes that handle it. If none does, begins to end the attempt.
    fn warn(&mut self, attempt: AttemptId, grace: Duration) {
        let Some(main) = self.attempts.get(&attempt).map(|attempt| attempt.main) else { return };
        let tree = Tree::read();
        let all = [main].into_iter().chain(tree.below(main));
        let warned = all.filter(|pid| tree.signal_listener(*pid, Signal::SIGUSR1)).count();
        if warned == 0 {
            self.end(attempt, grace);
        }
    }

    /// Begins to end an attempt, or shortens its grace period.
    fn end(&mut self, attempt: AttemptId, grace: Duration) {
        let Some(attempt) = self.attempts.get_mut(&attempt) else { return };
        let kill_at = clock::steady() + grace;
        let ending = attempt.ending.get_or_insert(EndDeadline { kill_at, requested: BTreeSet::new() });
        ending.kill_at = ending.kill_at.min(kill_at);
    }

    /// Reaps every child that has ended. Returns whether one of them was a main process.
    fn reap(&mut self) -> bool {
        let mut main_ended = false;
        let look = WaitPidFlag::WEXITED | WaitPidFlag::WNOHANG | WaitPidFlag::WNOWAIT;
        while let Ok(status) = waitid(Id::All, look) {
            let Some(pid) = status.pid().map(Pid::as_raw) else { break };
            let main = self.mains.remove(&pid);
            // The mark must be read before the process is reaped.
            let of = main.or_else(|| match self.orphans.remove(&pid) {
                Some(known) => known,
                None => tree::attempt_of(pid, self.me),
            });
            let Some(reaped) = spawn::reap(Pid::from_raw(pid)) else { break };
            let Some(attempt) = of.and_then(|of| self.attempts.get_mut(&of)) else { continue };
            if main.is_none() {
                attempt.of_orphans.push(reaped.totals);
                if reaped.code == Some(0) {
                    // It was about to end: helpers of Python's multiprocessing outlive their program by a moment.
                    attempt.swept.remove(&pid);
                }
                continue;
            }
            main_ended = true;
            let killed = reaped.signal == Some(Signal::SIGKILL as i32) || reaped.code == Some(128 + 9);
            if killed && attempt.ending.is_none() {
                attempt.oom_killed = self.oom_kills.take();
            }
            attempt.ended = Some((reaped, clock::unix_seconds()));
        }
        main_ended
    }

    /// Looks for processes that ended main processes have left behind.
    fn settle(&mut self) {
        for pid in self.children.list() {
            if !self.mains.contains_key(&pid) && !self.orphans.contains_key(&pid) {
                self.orphans.insert(pid, tree::attempt_of(pid, self.me));
            }
        }
        let ended: Vec<AttemptId> =
            self.attempts.iter().filter(|(_, a)| a.ended.is_some()).map(|(id, _)| *id).collect();
        for attempt in ended {
            if self.orphans.values().any(|of| *of == Some(attempt)) {
                self.end(attempt, SWEEP_GRACE);
            } else {
                self.finish(attempt);
            }
        }
    }

    /// Tells everything that must end to end, and settles what has ended.
    fn sweep(&mut self) {
        let lost = self.attempts.is_empty() && (self.engine.is_gone() || !self.orphans.is_empty());
        if !lost && self.attempts.values().all(|a| a.ending.is_none()) {
            return;
        }
        if self.attempts.is_empty() && self.children.list().is_empty() {
            // All processes below are below a child, and reading every process of the machine takes longer than a short
            // step.
            return;
        }
        let tree = Tree::read();
        for pid in tree.children(self.me.cast_signed()) {
            if !self.mains.contains_key(pid) && !self.orphans.contains_key(pid) {
                self.orphans.insert(*pid, tree::attempt_of(*pid, self.me));
            }
        }
        let now = clock::steady();
        let mut done = Vec::new();
        for (id, attempt) in &mut self.attempts {
            let Some(ending) = &mut attempt.ending else { continue };
            let main = attempt.ended.is_none().then_some(attempt.main);
            let orphans = self.orphans.iter().filter(|(_, of)| **of == Some(*id)).map(|(pid, _)| *pid);
            let roots: Vec<i32> = main.into_iter().chain(orphans).collect();
            if roots.is_empty() {
                done.push(*id);
                continue;
            }
            for pid in roots.iter().flat_map(|root| [*root].into_iter().chain(tree.below(*root))) {
                if now >= ending.kill_at {
                    tree.signal(pid, Signal::SIGKILL);
                } else if ending.requested.insert(pid) {
                    tree.signal(pid, Signal::SIGTERM);
                }
                if main.is_none() {
                    attempt.swept.insert(pid);
                }
            }
        }
        done.into_iter().for_each(|attempt| self.finish(attempt));
        if self.attempts.is_empty() {
            // No attempt is left that these could belong to.
            tree.below(self.me.cast_signed()).into_iter().for_each(|pid| tree.signal(pid, Signal::SIGKILL));
        }
    }

    fn finish(&mut self, id: AttemptId) {
        let Some(attempt) = self.attempts.remove(&id) else { return };
        if let Some(outputs) = attempt.outputs {
            outputs.end(&mut self.piece);
        }
        let Some((reaped, ended_at)) = attempt.ended else { return };
        let mut totals = reaped.totals;
        attempt.of_orphans.into_iter().for_each(|of_one| totals.add(of_one));
        let exit = Exit {
            code: reaped.code,
            signal: reaped.signal,
            started_at: attempt.started_at,
            ended_at,
            cpu_s: Some(totals.cpu_s),
            max_rss: reaped.max_rss,
            disk_read: totals.disk.map(|(read, _)| read),
            disk_written: totals.disk.map(|(_, written)| written),
            oom_killed: attempt.oom_killed,
            swept: u32::try_from(attempt.swept.len()).unwrap_or(u32::MAX),
            spawn_error: None,
        };
        self.engine.emit(&Event::Exited { attempt: id, exit });
    }
}
