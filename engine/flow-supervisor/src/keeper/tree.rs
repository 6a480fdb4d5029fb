//! Which process belongs to which attempt. Reads `/proc`; decides nothing.
//!
//! **The mark.** Every process of an attempt carries keeper and attempt in its soft limit of file locks
//! (`RLIMIT_LOCKS`). Linux has ignored this limit since 2.4 and still passes it on through fork, exec, `setsid` and a
//! cleaned environment. A variable would not work: `env -i` drops it, and a program that sets its own title overwrites
//! it. While the keeper lives, the mark is only read from processes that lost their parent; for others, descent is
//! enough. It includes the keeper's start time, for a reader who finds it after the keeper's death, when the number may
//! belong to another process.

use std::{
    collections::BTreeMap,
    fs::File,
    io::{Read, Seek},
    thread,
    time::Duration,
};

use flow_core::AttemptId;
use flow_runs::ProcessIdentity;
use nix::{
    errno::Errno,
    sys::{
        resource::{Resource, getrlimit, setrlimit},
        signal::{Signal, kill},
    },
    unistd::Pid,
};
use procfs::process::{LimitValue, Process, all_processes};
use rustix::process::{PidfdFlags, pidfd_open, pidfd_send_signal};

/// Bits of the mark: the keeper's pid, which Linux limits to this; the low bits of its start, in hundredths of a
/// second; the attempt.
const PID: u32 = 22;
const STARTED: u32 = 20;
const ATTEMPT: u32 = 22;
/// Number of attempts that can be distinguished.
pub(super) const ATTEMPTS: u32 = 1 << ATTEMPT;

/// The part of the mark that all attempts of a keeper share.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Mark(u64);

impl Mark {
    pub(super) fn of(keeper: &ProcessIdentity) -> Mark {
        let started = keeper.started & ((1 << STARTED) - 1);
        Mark(u64::from(keeper.pid) << (u64::BITS - PID) | started << ATTEMPT)
    }

    pub(super) fn with(self, attempt: AttemptId) -> u64 {
        self.0 | u64::from(attempt.0 % ATTEMPTS)
    }

    /// The attempt, if the mark comes from this keeper.
    pub(super) fn attempt(self, mark: u64) -> Option<AttemptId> {
        (mark >> ATTEMPT == self.0 >> ATTEMPT).then(|| attempt_in(mark))
    }
}

fn attempt_in(mark: u64) -> AttemptId {
    AttemptId(mark as u32 % ATTEMPTS)
}

/// Calls `start` while this process has the attempt's mark, so that the started program inherits it.
pub(super) fn marked<T>(mark: u64, start: impl FnOnce() -> T) -> T {
    let before = getrlimit(Resource::RLIMIT_LOCKS);
    if let Ok((_, hard)) = before {
        // Rejected only if somebody lowered the limit; then descent alone decides.
        let _ = setrlimit(Resource::RLIMIT_LOCKS, mark, hard);
    }
    let started = start();
    if let Ok((soft, hard)) = before {
        let _ = setrlimit(Resource::RLIMIT_LOCKS, soft, hard);
    }
    started
}

/// The attempt of a process by its mark, also for a dead, unreaped one; `keeper` is the pid of a living keeper.
pub(crate) fn attempt_of(pid: i32, keeper: u32) -> Option<AttemptId> {
    let mark = mark_on(&Process::new(pid).ok()?)?;
    (mark >> (u64::BITS - PID) == u64::from(keeper)).then(|| attempt_in(mark))
}

/// The mark of a process, or another value that somebody set.
pub(super) fn mark_on(process: &Process) -> Option<u64> {
    match process.limits().ok()?.max_file_locks.soft_limit {
        LimitValue::Value(mark) => Some(mark),
        _ => None,
    }
}

/// The children of this process, read repeatedly. The list is exact: only this process removes entries.
pub(super) struct Children(Option<File>);

impl Children {
    pub(super) fn new() -> Children {
        let me = Pid::this();
        // Kernels without CONFIG_PROC_CHILDREN have no such file.
        Children(File::open(format!("/proc/{me}/task/{me}/children")).ok())
    }

    pub(super) fn list(&mut self) -> Vec<i32> {
        let mut text = String::new();
        let file = self.0.as_mut().map(|file| file.rewind().and_then(|()| file.read_to_string(&mut text)));
        match file {
            Some(Ok(_)) => text.split_ascii_whitespace().filter_map(|word| word.parse().ok()).collect(),
            Some(Err(_)) | None => Tree::read().children(Pid::this().as_raw()).to_vec(),
        }
    }
}

/// All living processes by parent, with their start times.
pub(super) struct Tree {
    by_parent: BTreeMap<i32, Vec<i32>>,
    started: BTreeMap<i32, u64>,
}

impl Tree {
    pub(super) fn read() -> Tree {
        let mut by_parent: BTreeMap<i32, Vec<i32>> = BTreeMap::new();
        let mut started = BTreeMap::new();
        for stat in all_processes().into_iter().flatten().filter_map(|p| p.ok()?.stat().ok()) {
            if !matches!(stat.state, 'Z' | 'X') {
                by_parent.entry(stat.ppid).or_default().push(stat.pid);
                started.insert(stat.pid, stat.starttime);
            }
        }
        Tree { by_parent, started }
    }

    pub(super) fn children(&self, pid: i32) -> &[i32] {
        self.by_parent.get(&pid).map_or(&[], Vec::as_slice)
    }

    /// All descendants of a process.
    pub(super) fn below(&self, pid: i32) -> Vec<i32> {
        let mut all = self.children(pid).to_vec();
        let mut next = 0;
        while next < all.len() {
            all.extend_from_slice(self.children(all[next]));
            next += 1;
        }
        all
    }

    /// Signals a process of this tree, if it still exists.
    pub(super) fn signal(&self, pid: i32, signal: Signal) {
        self.signal_if(pid, signal, |_| true);
    }

    /// The same, if it has a handler for the signal. Returns whether it has.
    pub(super) fn signal_listener(&self, pid: i32, signal: Signal) -> bool {
        let bit = 1 << (signal as u32 - 1);
        self.signal_if(pid, signal, |now| now.status().is_ok_and(|status| status.sigcgt & bit != 0))
    }

    fn signal_if(&self, pid: i32, signal: Signal, is_it: impl FnOnce(&Process) -> bool) -> bool {
        let Some(started) = self.started.get(&pid) else { return false };
        let same = |now: &Process| now.stat().is_ok_and(|stat| stat.starttime == *started);
        // It may be gone already.
        signal_if(pid, signal, |now| same(now) && is_it(now)).unwrap_or(false)
    }
}

/// The descendants of a process.
pub fn below(pid: i32) -> Vec<i32> {
    Tree::read().below(pid)
}

/// Kills all descendants of a process.
pub fn kill_below(pid: i32) {
    let tree = Tree::read();
    tree.below(pid).into_iter().for_each(|pid| tree.signal(pid, Signal::SIGKILL));
}

/// Signals the process with this number, if it is the right one. No other process can get the number between the check
/// and the signal. Returns whether there was a process to signal.
pub(super) fn signal_if(pid: i32, signal: Signal, is_it: impl FnOnce(&Process) -> bool) -> Result<bool, Errno> {
    let nobody = |errno| if errno == Errno::ESRCH { Ok(false) } else { Err(errno) };
    let number = rustix::process::Pid::from_raw(pid).ok_or(Errno::EINVAL)?;
    // The process checked below is the one that holds the number here: it is signalled, or nobody.
    let held = match pidfd_open(number, PidfdFlags::empty()) {
        Ok(held) => Some(held),
        // Before Linux 5.3, and in some containers, only the number is available.
        Err(rustix::io::Errno::NOSYS | rustix::io::Errno::PERM) => None,
        Err(errno) => return nobody(Errno::from_raw(errno.raw_os_error())),
    };
    if !Process::new(pid).is_ok_and(|process| is_it(&process)) {
        return Ok(false);
    }
    let sent = match held {
        Some(held) => {
            let signal = rustix::process::Signal::from_named_raw(signal as i32).ok_or(Errno::EINVAL)?;
            pidfd_send_signal(held, signal).map_err(|errno| Errno::from_raw(errno.raw_os_error()))
        }
        None => kill(Pid::from_raw(pid), signal),
    };
    sent.map(|()| true).or_else(nobody)
}

/// True if a process runs; an ended one that waits to be reaped does not.
pub(super) fn is_alive(process: &Process) -> bool {
    process.stat().is_ok_and(|stat| !matches!(stat.state, 'Z' | 'X'))
}

/// Kills all processes with the mark of a dead keeper. Those that the kernel killed with it are already gone.
pub(super) fn kill_marked(keeper: Mark) {
    let is_its = |process: &Process| mark_on(process).is_some_and(|mark| keeper.attempt(mark).is_some());
    for _ in 0..100 {
        let mut left = false;
        for process in all_processes().into_iter().flatten().flatten() {
            if is_alive(&process) && is_its(&process) {
                left |= signal_if(process.pid, Signal::SIGKILL, is_its).unwrap_or(false);
            }
        }
        if !left {
            return;
        }
        thread::sleep(Duration::from_millis(5));
    }
}
