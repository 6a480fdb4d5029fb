//! The lock: one process uses a store, and others can read who. A lock is the kernel's, so it goes with its holder; what is
//! written in the file is for people only.

use std::{
    fs::File,
    io::{Read, Seek, Write},
    ops::ControlFlow,
    thread,
    time::Duration,
};

use nix::{
    errno::Errno,
    fcntl::{Flock, FlockArg},
};

use crate::{Holder, Liveness, ProcessIdentity, Result, StoreDir, StoreError, file};

/// How often a waiting process looks again.
const POLL: Duration = Duration::from_millis(100);
/// While the kernel tears a killed process down its lock can still be held. So many polls that is forgiven: of one that is
/// seen to be dead, and of one that looks alive.
const PATIENCE: (u32, u32) = (30, 3);

impl StoreDir {
    /// Who holds the store now, if somebody does.
    ///
    /// # Errors
    /// The lock file cannot be read.
    pub fn holder(&self) -> Result<Option<Holder>> {
        let path = self.lock_file();
        let file = match file::open_to_read(&path) {
            Ok(file) => file,
            Err(e) if e.kind() == std::io::ErrorKind::NotFound => return Ok(None),
            Err(e) => return Err(StoreError::io("read", &path)(e)),
        };
        // A shared lock is free exactly if nobody holds the exclusive one; it is given back at once.
        match Flock::lock(file, FlockArg::LockSharedNonblock) {
            Ok(_) => Ok(None),
            Err((file, _)) => Ok(Some(read_holder(file))),
        }
    }

    /// Takes the lock. While a living process holds it, `waiting` is asked every 100 ms whether to go on waiting.
    pub(crate) fn lock(&self, me: &Holder, mut waiting: impl FnMut(&Holder) -> ControlFlow<()>) -> Result<Flock<File>> {
        let path = self.lock_file();
        let mut options = File::options();
        options.read(true).write(true).create(true).truncate(false);
        let mut file = file::open(&mut options, &path).map_err(StoreError::io("open", &path))?;
        let mut tries = 0;
        loop {
            file = match Flock::lock(file, FlockArg::LockExclusiveNonblock) {
                Ok(mut lock) => {
                    self.tell(&mut lock, me)?;
                    return Ok(lock);
                }
                Err((file, Errno::EWOULDBLOCK)) => file,
                Err((_, errno)) => return Err(StoreError::io("lock", &path)(errno.into())),
            };
            let holder = read_holder(file.try_clone().map_err(StoreError::io("read", &path))?);
            let is_dead = holder.process.standing() == Liveness::Dead;
            let patience = if is_dead { PATIENCE.0 } else { PATIENCE.1 };
            if tries < patience {
                tries += 1;
            } else if waiting(&holder).is_break() {
                return Err(StoreError::Held { path: self.path().to_owned(), holder: Box::new(holder) });
            }
            thread::sleep(POLL);
        }
    }

    /// Writes down who holds the lock, in place of what stood there.
    pub(crate) fn tell(&self, lock: &mut Flock<File>, me: &Holder) -> Result<()> {
        let text = serde_json::to_vec(me).unwrap_or_default();
        let told = (|| {
            lock.set_len(0)?;
            lock.rewind()?;
            lock.write_all(&text)
        })();
        match told.map_err(StoreError::io("write", &self.lock_file())) {
            // Who holds it is for people only, and a full disk must not keep out who makes room.
            Err(error) if !error.is_disk_full() => Err(error),
            _ => Ok(()),
        }
    }
}

fn read_holder(mut file: File) -> Holder {
    let mut text = String::new();
    let read = file.rewind().and_then(|()| file.read_to_string(&mut text));
    read.ok().and_then(|_| serde_json::from_str(&text).ok()).unwrap_or_else(|| Holder {
        // Between taking the lock and writing into it, for a moment.
        process: ProcessIdentity { pid: 0, boot: String::new(), namespace: String::new(), started: 0 },
        doing: "flow".into(),
        run: None,
        since: "just now".into(),
    })
}

/// The lock; the file is emptied when it is given back, for what it says is no longer true.
pub(crate) struct Held(pub(crate) Flock<File>);

impl Drop for Held {
    fn drop(&mut self) {
        let _ = self.0.set_len(0);
    }
}
