//! Whose the processes on a card are: of one of our attempts, of somebody else, or of nobody any more. Reads `/proc`.

use std::{collections::HashMap, fs, io};

use flow_core::AttemptId;
use nix::{errno::Errno, sys::signal::kill, unistd::Pid};
use procfs::process::Process;

use crate::{keeper::tree, nvml::process_name};

/// Whose a process is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Owner {
    Attempt(AttemptId),
    /// Of somebody else: a stranger, with its name.
    Foreign(String),
    /// Of nobody here: it has ended, or its id is of another pid namespace.
    Unseen,
}

/// What is known of process ids, as long as they are on a card.
pub(super) struct Owners {
    known: HashMap<u32, Owner>,
    /// This process sees the ids that the driver tells.
    pub(super) sees_all: bool,
}

impl Owners {
    pub(super) fn new() -> Owners {
        Owners { known: HashMap::new(), sees_all: in_first_namespace() }
    }

    /// Of those on the cards now; others are forgotten, for ids are used again.
    pub(super) fn keep(&mut self, there: impl Fn(u32) -> bool) {
        self.known.retain(|pid, _| there(*pid));
    }

    pub(super) fn of(&mut self, pid: u32, keeper: Option<u32>) -> Owner {
        match self.known.get(&pid) {
            // An id that means nothing yet may be of a process that is about to be seen.
            Some(owner) if *owner != Owner::Unseen => owner.clone(),
            _ => {
                let owner = find(pid.cast_signed(), keeper);
                self.known.insert(pid, owner.clone());
                owner
            }
        }
    }
}

fn find(pid: i32, keeper: Option<u32>) -> Owner {
    if let Some(attempt) = keeper.and_then(|keeper| attempt_of(pid, keeper)) {
        return Owner::Attempt(attempt);
    }
    // A process that may not be looked at is there as well.
    match kill(Pid::from_raw(pid), None) {
        Ok(()) | Err(Errno::EPERM) => Owner::Foreign(process_name(pid.cast_unsigned())),
        Err(_) => Owner::Unseen,
    }
}

/// By the mark that every process of an attempt bears, or one of its ancestors where it gave that up.
fn attempt_of(pid: i32, keeper: u32) -> Option<AttemptId> {
    let mut at = pid;
    for _ in 0..64 {
        if at <= 1 || at == keeper.cast_signed() {
            return None;
        }
        if let Some(attempt) = tree::attempt_of(at, keeper) {
            return Some(attempt);
        }
        at = Process::new(at).ok()?.stat().ok()?.ppid;
    }
    None
}

/// Outside of containers the driver's ids are ours. Inside, most drivers tell ids of the host, or hide what is not in here.
fn in_first_namespace() -> bool {
    /// The number that the kernel gives the first namespace.
    const FIRST: &str = "pid:[4026531836]";
    let here: io::Result<_> = fs::read_link("/proc/self/ns/pid");
    here.is_ok_and(|name| name.as_os_str() == FIRST)
}
