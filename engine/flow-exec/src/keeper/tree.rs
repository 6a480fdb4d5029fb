//! Which process belongs to which attempt. Reads `/proc`; decides nothing.
//!
//! **The mark.** Every process of an attempt bears the number of keeper and attempt in its soft limit of file locks
//! (`RLIMIT_LOCKS`), which Linux has not looked at since 2.4 and still hands down through fork, exec, `setsid` and a
//! cleaned environment. A variable would not do: `env -i` drops it, and a program that sets its own title overwrites it.
//! It is only read of processes that have lost their parent; for the others descent tells.

use std::{collections::BTreeMap, fs::File, io, os::unix::fs::FileExt, thread, time::Duration};

use flow_core::AttemptId;
use nix::{
    sys::{
        resource::{Resource, getrlimit, setrlimit},
        signal::{Signal, kill},
    },
    unistd::Pid,
};
use procfs::process::{LimitValue, Process, all_processes};

fn mark_of(keeper: u32, attempt: AttemptId) -> u64 {
    u64::from(keeper) << 32 | u64::from(attempt.0)
}

/// Does `start` while this process bears the attempt's mark, so that what is started inherits it.
pub(super) fn marked<T>(attempt: AttemptId, start: impl FnOnce() -> T) -> T {
    let before = getrlimit(Resource::RLIMIT_LOCKS);
    if let Ok((_, hard)) = before {
        // Refused only where somebody lowered the limit; then descent alone tells.
        let _ = setrlimit(Resource::RLIMIT_LOCKS, mark_of(Pid::this().as_raw().unsigned_abs(), attempt), hard);
    }
    let started = start();
    if let Ok((soft, hard)) = before {
        let _ = setrlimit(Resource::RLIMIT_LOCKS, soft, hard);
    }
    started
}

/// The attempt whose mark a process bears, dead and not yet reaped ones included.
pub(crate) fn attempt_of(pid: i32, keeper: u32) -> Option<AttemptId> {
    let limits = Process::new(pid).ok()?.limits().ok()?;
    match limits.max_file_locks.soft_limit {
        LimitValue::Value(mark) if mark >> 32 == u64::from(keeper) => Some(AttemptId(mark as u32)),
        _ => None,
    }
}

/// The attempt whose mark a process bears, whoever its keeper was.
pub(super) fn attempt_marked(process: &Process) -> Option<AttemptId> {
    match process.limits().ok()?.max_file_locks.soft_limit {
        LimitValue::Value(mark) if mark >> 32 > 0 => Some(AttemptId(mark as u32)),
        _ => None,
    }
}

/// The children of this process, asked again and again. The list is exact: only this process takes entries off it.
pub(super) struct Children {
    file: Option<File>,
    text: Vec<u8>,
}

impl Children {
    pub(super) fn new() -> Children {
        let me = Pid::this();
        // Kernels without CONFIG_PROC_CHILDREN have no such file.
        Children { file: File::open(format!("/proc/{me}/task/{me}/children")).ok(), text: vec![0; 4096] }
    }

    pub(super) fn list(&mut self) -> Vec<i32> {
        match self.file.as_ref().map(|file| read_all(file, &mut self.text)) {
            Some(Ok(n)) => self.text[..n]
                .split(u8::is_ascii_whitespace)
                .filter_map(|word| std::str::from_utf8(word).ok()?.parse().ok())
                .collect(),
            Some(Err(_)) | None => Tree::read().children(Pid::this().as_raw()).to_vec(),
        }
    }
}

fn read_all(file: &File, text: &mut Vec<u8>) -> io::Result<usize> {
    let mut n = 0;
    loop {
        if n == text.len() {
            text.resize(2 * n, 0);
        }
        match file.read_at(&mut text[n..], n as u64)? {
            0 => return Ok(n),
            more => n += more,
        }
    }
}

/// All living processes by their parents.
pub(super) struct Tree(BTreeMap<i32, Vec<i32>>);

impl Tree {
    pub(super) fn read() -> Tree {
        let mut by_parent: BTreeMap<i32, Vec<i32>> = BTreeMap::new();
        for stat in all_processes().into_iter().flatten().filter_map(|p| p.ok()?.stat().ok()) {
            if !matches!(stat.state, 'Z' | 'X') {
                by_parent.entry(stat.ppid).or_default().push(stat.pid);
            }
        }
        Tree(by_parent)
    }

    pub(super) fn children(&self, pid: i32) -> &[i32] {
        self.0.get(&pid).map_or(&[], Vec::as_slice)
    }

    /// Everything below a process.
    pub(super) fn below(&self, pid: i32) -> Vec<i32> {
        let mut all = self.children(pid).to_vec();
        let mut next = 0;
        while next < all.len() {
            all.extend_from_slice(self.children(all[next]));
            next += 1;
        }
        all
    }
}

pub(super) fn signal(pid: i32, signal: Signal) {
    // It may be gone already.
    let _ = kill(Pid::from_raw(pid), signal);
}

/// Kills whatever bears a mark of a keeper that is dead. What the kernel killed with it is not there any more.
pub(super) fn kill_marked(keeper: u32) {
    for _ in 0..100 {
        let mut left = false;
        for process in all_processes().into_iter().flatten().flatten() {
            let alive = process.stat().is_ok_and(|s| !matches!(s.state, 'Z' | 'X'));
            if alive && attempt_of(process.pid, keeper).is_some() {
                signal(process.pid, Signal::SIGKILL);
                left = true;
            }
        }
        if !left {
            return;
        }
        thread::sleep(Duration::from_millis(5));
    }
}
