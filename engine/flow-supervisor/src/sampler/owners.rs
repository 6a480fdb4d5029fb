//! The owners of processes on a GPU: one of our attempts, a foreign process, or unknown. Reads `/proc`.

use std::{collections::HashMap, fs, io};

use flow_core::AttemptId;
use nix::{errno::Errno, sys::signal::kill, unistd::Pid};
use procfs::process::Process;

use crate::{keeper::tree, nvml::process_name};

/// The owner of a process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Owner {
    Attempt(AttemptId),
    /// A foreign process, with its name.
    Foreign(String),
    /// It has ended, or its id belongs to another pid namespace.
    Unseen,
}

/// The known owners of process ids on a GPU.
pub(super) struct Owners {
    known: HashMap<u32, Owner>,
    /// This process sees the ids that the driver reports.
    pub(super) sees_all: bool,
}

impl Owners {
    pub(super) fn new() -> Owners {
        Owners { known: HashMap::new(), sees_all: in_first_namespace() }
    }

    /// Keeps only ids that are on the GPUs now, because ids are reused.
    pub(super) fn keep(&mut self, there: impl Fn(u32) -> bool) {
        self.known.retain(|pid, _| there(*pid));
    }

    pub(super) fn of(&mut self, pid: u32, keeper: Option<u32>) -> Owner {
        match self.known.get(&pid) {
            // An unknown id may belong to a process that will be visible soon.
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
    // A process that we may not signal exists as well.
    match kill(Pid::from_raw(pid), None) {
        Ok(()) | Err(Errno::EPERM) => Owner::Foreign(process_name(pid.cast_unsigned())),
        Err(_) => Owner::Unseen,
    }
}

/// By the mark of the process, or of one of its ancestors if it lost its own.
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

/// Outside of containers the driver's ids are valid. Inside, most drivers report ids of the host, or hide processes
/// from outside.
fn in_first_namespace() -> bool {
    /// The kernel's fixed number of the first namespace.
    const FIRST: &str = "pid:[4026531836]";
    let here: io::Result<_> = fs::read_link("/proc/self/ns/pid");
    here.is_ok_and(|name| name.as_os_str() == FIRST)
}
