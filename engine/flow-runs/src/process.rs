//! Identifies the process behind a number in a file. Numbers are reused, and mean other processes in another container.
//! Together with boot, namespace and start time, a number identifies one process forever. Reads `/proc`; signals
//! nobody.

use std::{
    fmt,
    fs::{self, File},
    io,
    os::unix::fs::{FileExt, MetadataExt},
    path::Path,
    process,
    sync::OnceLock,
};

use flow_core::RunId;
use nix::{
    errno::Errno,
    sys::signal::kill,
    unistd::{Pid, Uid, User},
};
use serde::{Deserialize, Serialize};

/// A process, identified so that no other is ever taken for it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProcessIdentity {
    pub pid: u32,
    /// The boot of the machine; empty if unknown.
    #[serde(default)]
    pub boot: String,
    /// The namespaces in which its number and start time are valid.
    #[serde(default)]
    pub namespace: String,
    /// Its start, in clock ticks since the boot.
    #[serde(default)]
    pub started: u64,
}

/// The state of a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Liveness {
    Alive,
    /// It has ended; its parent may not have reaped it yet.
    Dead,
    /// Unknown from here: it belongs to another container, or another boot.
    Unknown,
}

impl ProcessIdentity {
    pub fn own() -> ProcessIdentity {
        static OWN: OnceLock<ProcessIdentity> = OnceLock::new();
        let pid = process::id();
        let unknown = || ProcessIdentity { pid, boot: String::new(), namespace: String::new(), started: 0 };
        let read = || ProcessIdentity::of(pid).unwrap_or_else(unknown);
        // After a fork the number is another one.
        Some(OWN.get_or_init(read)).filter(|own| own.pid == pid).cloned().unwrap_or_else(read)
    }

    /// The process that has this number now. `None` if there is none, or if `/proc` belongs to another namespace.
    pub fn of(pid: u32) -> Option<ProcessIdentity> {
        let (boot, namespace) = here()?.clone();
        let started = look(pid).ok()?.started;
        Some(ProcessIdentity { pid, boot, namespace, started })
    }

    pub fn liveness(&self) -> Liveness {
        if !self.is_near() {
            return Liveness::Unknown;
        }
        match look(self.pid) {
            Ok(now) if now.started == self.started && !now.has_ended => Liveness::Alive,
            Ok(_) => Liveness::Dead,
            // `/proc` can be mounted with other users' processes hidden.
            Err(_) if kill(Pid::from_raw(self.pid.cast_signed()), None) == Err(Errno::ESRCH) => Liveness::Dead,
            Err(_) => Liveness::Unknown,
        }
    }

    /// It was stopped, as by Ctrl-Z, and does nothing until it is continued.
    pub(crate) fn is_stopped(&self) -> bool {
        self.is_near() && look(self.pid).is_ok_and(|now| now.started == self.started && now.is_stopped)
    }

    /// Advice on who can continue or end it, if it is stopped.
    pub fn stopped(&self) -> Option<String> {
        let pid = self.pid;
        self.is_stopped().then(|| match self.other_user() {
            Some(user) => format!(
                "{user} can resume it with `kill -CONT {pid}`, or end it with `kill -KILL {pid}`; nothing is lost"
            ),
            None => format!("`kill -CONT {pid}` resumes it, `kill -KILL {pid}` ends it; nothing is lost"),
        })
    }

    /// Its user, if it is another than this process's.
    pub(crate) fn other_user(&self) -> Option<String> {
        if !self.is_near() || self.liveness() != Liveness::Alive {
            return None;
        }
        let user = Uid::from_raw(fs::metadata(format!("/proc/{}", self.pid)).ok()?.uid());
        let name = || User::from_uid(user).ok().flatten().map_or_else(|| format!("user {user}"), |user| user.name);
        (user != Uid::effective()).then(name)
    }

    /// True if its number is valid here.
    pub fn is_near(&self) -> bool {
        here().is_some_and(|(boot, namespace)| (boot, namespace) == (&self.boot, &self.namespace))
    }

    /// `process 12`, with a note if it is in another container.
    pub fn words(&self) -> String {
        // A record without a boot cannot be compared.
        let elsewhere = if self.boot.is_empty() || self.is_near() { "" } else { " of another container" };
        format!("process {}{elsewhere}", self.pid)
    }
}

/// Boot and namespaces of this process; `None` if `/proc` belongs to another namespace and shows other processes.
fn here() -> Option<&'static (String, String)> {
    static HERE: OnceLock<Option<(String, String)>> = OnceLock::new();
    let read = || -> io::Result<Option<(String, String)>> {
        if fs::read_link("/proc/self")? != Path::new(&process::id().to_string()) {
            return Ok(None);
        }
        let boot = fs::read_to_string("/proc/sys/kernel/random/boot_id")?;
        // A process's start time depends on the reader's time namespace. Old kernels have only one.
        let name = |of: &str| fs::read_link(format!("/proc/self/ns/{of}"));
        let time = name("time").unwrap_or_default();
        let namespace = format!("{} {}", name("pid")?.display(), time.display());
        Ok(Some((boot.trim().to_owned(), namespace.trim_end().to_owned())))
    };
    HERE.get_or_init(|| read().ok().flatten()).as_ref()
}

/// The state of a process in `/proc`.
struct ProcStat {
    started: u64,
    has_ended: bool,
    is_stopped: bool,
}

/// The kernel's flag of a process that runs no more of its program and releases its resources.
const EXITING: u64 = 0x4;

fn look(pid: u32) -> io::Result<ProcStat> {
    read(&open(pid)?)
}

fn open(pid: u32) -> io::Result<File> {
    // Of its first thread only: the process-wide file sums over all threads, which takes longer the more there are.
    File::open(format!("/proc/{pid}/task/{pid}/stat"))
}

/// The present content of the file.
fn read(file: &File) -> io::Result<ProcStat> {
    // A line of 52 numbers and a name.
    let mut stat = [0; 2048];
    let length = file.read_at(&mut stat, 0)?;
    let stat = String::from_utf8_lossy(&stat[..length]);
    // `123 (its name) S …`; the name may contain anything.
    let mut fields = stat.rsplit(") ").next().unwrap_or_default().split(' ');
    let state = fields.next().unwrap_or_default();
    let flags: u64 = fields.nth(5).and_then(|field| field.parse().ok()).ok_or(io::ErrorKind::InvalidData)?;
    let started = fields.nth(12).and_then(|field| field.parse().ok()).ok_or(io::ErrorKind::InvalidData)?;
    let has_ended = matches!(state, "Z" | "X" | "x") || flags & EXITING != 0;
    Ok(ProcStat { started, has_ended, is_stopped: matches!(state, "T" | "t") })
}

/// A process to check repeatedly, if possible through an open file of its own, which never becomes another process's.
pub(crate) struct ProcessWatch {
    process: ProcessIdentity,
    stat: Option<File>,
}

impl ProcessWatch {
    pub(crate) fn of(process: ProcessIdentity) -> ProcessWatch {
        let stat = open(process.pid).ok().filter(|_| process.is_near());
        let stat = stat.filter(|stat| read(stat).is_ok_and(|now| now.started == process.started));
        ProcessWatch { process, stat }
    }

    pub(crate) fn liveness(&self) -> Liveness {
        match self.stat.as_ref().map(read) {
            Some(Ok(now)) if !now.has_ended => Liveness::Alive,
            Some(Ok(_)) => Liveness::Dead,
            Some(Err(e)) if e.raw_os_error() == Some(Errno::ESRCH as i32) => Liveness::Dead,
            _ => self.process.liveness(),
        }
    }
}

/// The holder of a store.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Holder {
    #[serde(flatten)]
    pub process: ProcessIdentity,
    /// Its command: `flow run workflows/feb08.yaml`.
    pub doing: String,
    /// Its run, if it has one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run: Option<RunId>,
    /// Start time for display.
    pub since: String,
}

impl fmt::Display for Holder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.process.pid == 0 {
            return write!(f, "another flow, which has not recorded its identity");
        }
        write!(f, "{} (`{}`", self.process.words(), self.doing)?;
        if let Some(run) = &self.run {
            write!(f, ", run {run}")?;
        }
        write!(f, ", since {})", self.since)?;
        match self.process.stopped() {
            Some(what_to_do) => write!(f, ", which is stopped: {what_to_do}"),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use nix::sys::signal::Signal;

    use super::*;

    #[test]
    fn a_process_is_told_from_another_of_its_number() {
        let own = ProcessIdentity::own();
        assert_eq!(own.liveness(), Liveness::Alive);
        let later = ProcessIdentity { started: own.started + 1, ..own.clone() };
        assert_eq!(later.liveness(), Liveness::Dead, "the number was used again");
        let elsewhere = ProcessIdentity { namespace: "pid:[1]".into(), ..own.clone() };
        let before = ProcessIdentity { boot: "another".into(), ..own.clone() };
        let old: ProcessIdentity = serde_json::from_str(&format!("{{\"pid\":{}}}", own.pid)).unwrap();
        for unknown in [&elsewhere, &before, &old] {
            assert_eq!(unknown.liveness(), Liveness::Unknown);
        }
        let words = [&own, &elsewhere, &old].map(|process| process.words().replace(&own.pid.to_string(), "PID"));
        assert_eq!(words, ["process PID", "process PID of another container", "process PID"]);
    }

    #[test]
    fn who_is_stopped_is_told_so_and_what_to_do() {
        let mut child = Command::new("sleep").arg("60").spawn().unwrap();
        let process = ProcessIdentity::of(child.id()).unwrap();
        let signal = |signal| kill(Pid::from_raw(child.id().cast_signed()), signal).unwrap();
        assert!(!process.is_stopped());
        signal(Signal::SIGSTOP);
        while !process.is_stopped() {
            std::thread::yield_now();
        }
        let holder = Holder { process, doing: "flow run a.yaml".into(), run: None, since: "15:30".into() };
        let told = holder.to_string().replace(&child.id().to_string(), "PID");
        insta::assert_snapshot!(told, @"process PID (`flow run a.yaml`, since 15:30), which is stopped: `kill -CONT PID` resumes it, `kill -KILL PID` ends it; nothing is lost");
        signal(Signal::SIGCONT);
        child.kill().unwrap();
        child.wait().unwrap();
    }

    #[test]
    fn who_has_ended_is_dead_reaped_or_not() {
        let mut child = Command::new("sleep").arg("60").spawn().unwrap();
        let identity = ProcessIdentity::of(child.id()).unwrap();
        assert_eq!(identity.liveness(), Liveness::Alive);
        child.kill().unwrap();
        while identity.liveness() == Liveness::Alive {
            std::thread::yield_now();
        }
        assert_eq!(identity.liveness(), Liveness::Dead, "not reaped yet");
        child.wait().unwrap();
        assert_eq!(identity.liveness(), Liveness::Dead);
    }
}
