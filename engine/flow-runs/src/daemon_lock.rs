//! The daemon of a detached run, known by a file that it locks. Knows no attempt.

use std::{
    fs::{self, File},
    io::Read,
    os::unix::fs::FileExt,
    path::{Path, PathBuf},
};

use nix::{
    errno::Errno,
    fcntl::{Flock, FlockArg},
};

use flow_core::reason::StoreAction;

use crate::{
    Result, StoreError, file,
    lock::{TRIES, take_soon},
};

/// The file in the run's folder.
const FILE: &str = "keeps";

/// The process that supervises what a run started, and outlives the run's own process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Daemon {
    /// Its process id; none in the moment in which it starts.
    pub pid: Option<u32>,
}

impl Daemon {
    /// That of the run with this folder, if it is alive.
    pub(crate) fn of(run: &Path) -> Option<Daemon> {
        let file = file::open_to_read(&run.join(FILE)).ok()?;
        let (mut file, _) = Flock::lock(file, FlockArg::LockSharedNonblock).err()?;
        let mut text = String::new();
        let read = file.read_to_string(&mut text).is_ok();
        Some(Daemon { pid: text.trim().parse().ok().filter(|_| read) })
    }
}

/// This process is the daemon of a run. Dropping it ends that.
#[derive(Debug)]
pub struct DaemonLock {
    path: PathBuf,
    _lock: Flock<File>,
}

impl DaemonLock {
    /// Locks the file of the run with this folder.
    pub(crate) fn of(run: &Path) -> Result<DaemonLock> {
        let path = run.join(FILE);
        let file = file::open(File::options().read(true).write(true).create(true).truncate(false), &path);
        let file = file.map_err(StoreError::io(StoreAction::Open, &path))?;
        let Some(lock) = take_soon(file, TRIES) else {
            return Err(StoreError::io(StoreAction::Lock, &path)(Errno::EWOULDBLOCK.into()));
        };
        let text = format!("{}\n", std::process::id());
        let written = lock.set_len(0).and_then(|()| lock.write_all_at(text.as_bytes(), 0));
        written.map_err(StoreError::io(StoreAction::Write, &path))?;
        Ok(DaemonLock { path, _lock: lock })
    }
}

impl Drop for DaemonLock {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.path);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_daemon_is_seen_as_long_as_it_lives() {
        let dir = tempfile::tempdir().unwrap();
        assert_eq!(Daemon::of(dir.path()), None);
        let lock = DaemonLock::of(dir.path()).unwrap();
        assert_eq!(Daemon::of(dir.path()), Some(Daemon { pid: Some(std::process::id()) }));
        drop(lock);
        assert_eq!(Daemon::of(dir.path()), None);
        // A kill leaves the file.
        fs::write(dir.path().join(FILE), "1\n").unwrap();
        assert_eq!(Daemon::of(dir.path()), None);
    }
}
