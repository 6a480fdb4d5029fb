//! The lock: one process has the database of a store, and others can read which one. A kernel lock, so it ends with its
//! holder; the content of the file is for display only.

use std::{
    fs::File,
    io::{self, Read, Seek, Write},
    ops::ControlFlow,
    path::Path,
    thread,
    time::Duration,
};

use nix::{
    errno::Errno,
    fcntl::{Flock, FlockArg},
};

use flow_core::reason::StoreAction;

use crate::{Holder, Liveness, ProcessIdentity, Result, StoreDir, StoreError, file};

/// Interval of checks by a waiting process.
pub const POLL: Duration = Duration::from_millis(100);
/// Readers that look whether a lock is held hold it for a moment: number of tries, and the pause between them.
pub(crate) const TRIES: u32 = 50;
const MOMENT: Duration = Duration::from_millis(2);
/// The kernel may still hold the lock of a killed process while it cleans up. Number of polls to wait silently: for a
/// holder that is dead, and for one that looks alive.
const PATIENCE: (u32, u32) = (30, 3);

impl StoreDir {
    /// The present holder of the database, if any. Others may use the store through it: [`StoreDir::living`].
    ///
    /// # Errors
    /// The lock file cannot be read.
    pub fn holder(&self) -> Result<Option<Holder>> {
        let path = self.lock_file();
        let file = file::if_there(file::open_to_read(&path)).map_err(StoreError::io(StoreAction::Read, &path))?;
        let Some(file) = file else { return Ok(None) };
        // A shared lock succeeds only if nobody holds the exclusive one; it is released at once.
        match Flock::lock(file, FlockArg::LockSharedNonblock) {
            Ok(_) => Ok(None),
            Err((file, _)) => Ok(Some(read_holder(file))),
        }
    }

    /// Takes the lock. While a living process holds it, `waiting` decides every 100 ms whether to continue waiting.
    pub fn lock(&self, me: &Holder, mut waiting: impl FnMut(&Holder) -> ControlFlow<()>) -> Result<StoreLock> {
        let mut patience = LockWait::default();
        loop {
            if let Some(lock) = self.try_lock(me)? {
                return Ok(lock);
            }
            patience.wait(self, &self.who_locks()?, &mut waiting)?;
        }
    }

    /// Takes the lock if it is free.
    pub fn try_lock(&self, me: &Holder) -> Result<Option<StoreLock>> {
        let path = self.lock_file();
        let Some(mut lock) = flock(&path, FlockArg::LockExclusiveNonblock)? else { return Ok(None) };
        write_holder(&mut lock, me).map_err(StoreError::io(StoreAction::Write, &path))?;
        Ok(Some(StoreLock(lock)))
    }

    /// The holder of the lock, as written in the file.
    pub fn who_locks(&self) -> Result<Holder> {
        holder_in(&self.lock_file())
    }
}

/// Locks a file of a store, without waiting; `None` if another process has locked it.
pub(crate) fn flock(path: &Path, how: FlockArg) -> Result<Option<Flock<File>>> {
    let mut options = File::options();
    options.read(true).write(true).create(true).truncate(false);
    let file = file::open(&mut options, path).map_err(StoreError::io(StoreAction::Open, path))?;
    match Flock::lock(file, how) {
        Ok(lock) => Ok(Some(lock)),
        Err((_, Errno::EWOULDBLOCK)) => Ok(None),
        Err((_, errno)) => Err(StoreError::io(StoreAction::Lock, path)(errno.into())),
    }
}

/// Tries to take a lock that readers hold for a moment; `None` if it is not free for longer.
pub(crate) fn take_soon(mut file: File, tries: u32) -> Option<Flock<File>> {
    for left in (0..=tries).rev() {
        match Flock::lock(file, FlockArg::LockExclusiveNonblock) {
            Ok(lock) => return Some(lock),
            Err((again, _)) => file = again,
        }
        if left > 0 {
            thread::sleep(MOMENT);
        }
    }
    None
}

/// The number of polls so far for the holder.
#[derive(Default)]
pub(crate) struct LockWait(u32);

impl LockWait {
    /// Waits a little. Calls `waiting` once it is sure that the holder lives.
    pub(crate) fn wait(
        &mut self,
        dir: &StoreDir,
        holder: &Holder,
        waiting: &mut dyn FnMut(&Holder) -> ControlFlow<()>,
    ) -> Result<()> {
        let is_dead = holder.process.liveness() == Liveness::Dead;
        let patience = if is_dead { PATIENCE.0 } else { PATIENCE.1 };
        if self.0 < patience {
            self.0 += 1;
        } else if waiting(holder).is_break() {
            return Err(StoreError::Held { path: dir.path().to_owned(), holder: Box::new(holder.clone()) });
        }
        thread::sleep(POLL);
        Ok(())
    }
}

/// Replaces the holder in a lock file.
pub(crate) fn write_holder(lock: &mut Flock<File>, me: &Holder) -> io::Result<()> {
    let text = serde_json::to_vec(me).unwrap_or_default();
    let told = (|| {
        lock.set_len(0)?;
        lock.rewind()?;
        lock.write_all(&text)
    })();
    match told {
        // The text is for display only, and a full disk must not keep out a process that frees space.
        Err(e) if !matches!(e.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded) => Err(e),
        _ => Ok(()),
    }
}

/// The holder of a lock, as written in its file.
pub(crate) fn holder_in(path: &Path) -> Result<Holder> {
    file::open_to_read(path).map(read_holder).map_err(StoreError::io(StoreAction::Read, path))
}

pub(crate) fn read_holder(mut file: impl Read + Seek) -> Holder {
    let mut text = String::new();
    let read = file.rewind().and_then(|()| file.read_to_string(&mut text));
    read.ok().and_then(|_| serde_json::from_str(&text).ok()).unwrap_or_else(|| Holder {
        // The holder has taken the lock and not written its name yet.
        process: ProcessIdentity { pid: 0, boot: String::new(), namespace: String::new(), started: 0 },
        doing: "flow".into(),
        run: None,
        since: "just now".into(),
    })
}

/// The lock. Releasing it empties the file, because its content is no longer true.
pub struct StoreLock(pub(crate) Flock<File>);

impl StoreLock {
    /// Writes the new holder.
    pub fn write_holder(&mut self, dir: &StoreDir, me: &Holder) -> Result<()> {
        write_holder(&mut self.0, me).map_err(StoreError::io(StoreAction::Write, &dir.lock_file()))
    }
}

impl Drop for StoreLock {
    fn drop(&mut self) {
        let _ = self.0.set_len(0);
    }
}
