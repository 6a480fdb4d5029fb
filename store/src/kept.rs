//! The supervisor of a run whose own process is gone, known by a file that it locks. Knows no attempt.

use std::{
    fs::{self, File},
    io::Read,
    os::unix::fs::FileExt,
    path::{Path, PathBuf},
    thread,
    time::Duration,
};

use nix::{
    errno::Errno,
    fcntl::{Flock, FlockArg},
};

use flow_core::reason::StoreAction;

use crate::{Result, StoreError, file};

/// The file in the run's folder.
const FILE: &str = "keeps";
/// The content of the file after all running attempts were written to disk.
const WRITTEN: &str = "everything is recorded";
/// Readers hold the lock for a moment: number of tries, and the pause between them.
const TRIES: (u32, Duration) = (50, Duration::from_millis(2));

/// The supervision of a run whose own process is gone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DaemonState {
    /// Nothing still runs.
    Nothing,
    /// Something may still run and is not written to disk yet, which only takes a moment.
    Unsure,
    /// Something still runs, and the run's jobs list it.
    Goes {
        /// The process id of the supervisor.
        pid: Option<u32>,
    },
}

impl DaemonState {
    /// The state of the run with this folder.
    pub(crate) fn of(run: &Path) -> DaemonState {
        let Ok(file) = file::open_to_read(&run.join(FILE)) else { return DaemonState::Nothing };
        let Err((mut file, _)) = Flock::lock(file, FlockArg::LockSharedNonblock) else { return DaemonState::Nothing };
        let mut text = String::new();
        let told = file.read_to_string(&mut text).is_ok();
        match text.trim().strip_suffix(WRITTEN).filter(|_| told) {
            Some(pid) => DaemonState::Goes { pid: pid.trim().parse().ok() },
            None => DaemonState::Unsure,
        }
    }
}

/// This process supervises the attempts of a run. Dropping it ends that.
#[derive(Debug)]
pub struct DaemonLock {
    path: PathBuf,
    lock: Flock<File>,
}

impl DaemonLock {
    /// Locks the file of the run with this folder.
    pub(crate) fn of(run: &Path) -> Result<DaemonLock> {
        let path = run.join(FILE);
        let file = file::open(File::options().read(true).write(true).create(true).truncate(false), &path);
        let mut file = file.map_err(StoreError::io(StoreAction::Open, &path))?;
        for _ in 0..TRIES.0 {
            match Flock::lock(file, FlockArg::LockExclusiveNonblock) {
                Ok(lock) => {
                    let keeps = DaemonLock { path, lock };
                    keeps.write("")?;
                    return Ok(keeps);
                }
                Err((again, _)) => file = again,
            }
            thread::sleep(TRIES.1);
        }
        Err(StoreError::io(StoreAction::Lock, &path)(Errno::EWOULDBLOCK.into()))
    }

    /// Notes that the run's process is gone and all running attempts are on disk.
    ///
    /// # Errors
    /// The disk is full.
    pub fn is_written(&self) -> Result<()> {
        self.write(WRITTEN)
    }

    fn write(&self, what: &str) -> Result<()> {
        let text = format!("{} {what}\n", std::process::id());
        let written = self.lock.set_len(0).and_then(|()| self.lock.write_all_at(text.as_bytes(), 0));
        written.map_err(StoreError::io(StoreAction::Write, &self.path))
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
    fn what_is_kept_is_seen_as_long_as_it_is() {
        let dir = tempfile::tempdir().unwrap();
        assert_eq!(DaemonState::of(dir.path()), DaemonState::Nothing);
        let keeps = DaemonLock::of(dir.path()).unwrap();
        assert_eq!(DaemonState::of(dir.path()), DaemonState::Unsure, "nothing is written down yet");
        keeps.is_written().unwrap();
        assert_eq!(DaemonState::of(dir.path()), DaemonState::Goes { pid: Some(std::process::id()) });
        drop(keeps);
        assert_eq!(DaemonState::of(dir.path()), DaemonState::Nothing);
        // A kill leaves the file.
        fs::write(dir.path().join(FILE), "1 everything is recorded\n").unwrap();
        assert_eq!(DaemonState::of(dir.path()), DaemonState::Nothing);
    }
}
