//! What goes on of a run on this machine when the run's own process is gone: a file that is locked by who keeps it. Knows no attempt.

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
/// What stands in it when all that goes on is written down.
const WRITTEN: &str = "all is written down";
/// Whoever looks has the lock for a moment: so often it is tried again, so long in between.
const TRIES: (u32, Duration) = (50, Duration::from_millis(2));

/// What is left on this machine of a run whose own process is gone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DaemonState {
    /// Nothing that goes on.
    Nothing,
    /// Something may go on, and is not written down yet: that is a matter of moments.
    Unsure,
    /// Something goes on, and what it is stands among the jobs of the run.
    Goes {
        /// Who keeps it, by its number.
        pid: Option<u32>,
    },
}

impl DaemonState {
    /// Of the run with this folder.
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

/// This process keeps what a run has started. Dropping it ends that.
#[derive(Debug)]
pub struct DaemonLock {
    path: PathBuf,
    lock: Flock<File>,
}

impl DaemonLock {
    /// For the run with this folder.
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

    /// The run's process is gone, and what goes on is written down.
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
        fs::write(dir.path().join(FILE), "1 all is written down\n").unwrap();
        assert_eq!(DaemonState::of(dir.path()), DaemonState::Nothing);
    }
}
