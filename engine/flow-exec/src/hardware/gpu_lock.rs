//! One lock a GPU between the flows of a machine, whoever runs them. A lock is the kernel's, so it goes with its holder; what is
//! written in the file is for people only. Knows no attempt.
//!
//! The file of a card, `flow-UUID.lock`, stays: who waits for one that was removed would wait for another than the next holder
//! has. It lies in `/tmp`, which every user can write whatever their variables say, may be written by all, and is not followed
//! where it is a link, by another name too. Where flows that share cards do not share `/tmp`, containers for example,
//! [`LOCKS_VAR`] names a folder that they do share.

use std::{
    env,
    fs::{File, Permissions},
    io::{self, Read, Seek, Write},
    os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt},
    path::{Path, PathBuf},
};

use nix::{
    fcntl::{Flock, FlockArg, OFlag},
    unistd::{Uid, User},
};

/// The environment variable that names the folder of the locks.
const LOCKS_VAR: &str = "FLOW_GPU_LOCKS";
/// Where every user can write, whatever their variables say.
const FOLDER: &str = "/tmp";
/// More than a holder writes.
const LONGEST: u64 = 400;

/// The lock of a GPU, held or not.
#[derive(Debug)]
pub(crate) struct GpuLock(Option<Kept>);

#[derive(Debug)]
enum Kept {
    Open(File),
    Held(Flock<File>),
}

impl GpuLock {
    /// The lock of a GPU, not held.
    ///
    /// # Errors
    /// The file cannot be made or opened: nobody can be asked, nor told.
    pub(crate) fn of(uuid: &str) -> io::Result<GpuLock> {
        let folder = env::var_os(LOCKS_VAR).filter(|folder| !folder.is_empty()).map(PathBuf::from);
        Self::within(folder.as_deref().unwrap_or(Path::new(FOLDER)), uuid)
    }

    fn within(folder: &Path, uuid: &str) -> io::Result<GpuLock> {
        open(&folder.join(format!("flow-{uuid}.lock"))).map(|file| GpuLock(Some(Kept::Open(file))))
    }

    /// Takes it, unless it is held already.
    ///
    /// # Errors
    /// Another flow holds it: which, in words.
    pub(crate) fn take(&mut self) -> Result<(), String> {
        let Some(Kept::Open(file)) = self.0.take_if(|kept| matches!(kept, Kept::Open(_))) else { return Ok(()) };
        match Flock::lock(file, FlockArg::LockExclusiveNonblock) {
            Ok(lock) => {
                self.0 = Some(Kept::Held(lock));
                Ok(())
            }
            Err((mut file, _)) => {
                let holder = holder(&mut file).unwrap_or_default();
                self.0 = Some(Kept::Open(file));
                Err(holder)
            }
        }
    }

    /// Says who holds it, for the others: done when it is held for long.
    pub(crate) fn sign(&mut self) {
        if let Some(Kept::Held(lock)) = &mut self.0 {
            let user = User::from_uid(Uid::effective()).ok().flatten().map(|user| format!(" of {}", user.name));
            // Who cannot be told who it is still sees that it is held.
            let _ = (|| {
                lock.set_len(0)?;
                lock.rewind()?;
                write!(lock, "process {}{}", std::process::id(), user.unwrap_or_default())
            })();
        }
    }

    /// Gives it back.
    pub(crate) fn release(&mut self) {
        if let Some(Kept::Held(lock)) = self.0.take_if(|kept| matches!(kept, Kept::Held(_))) {
            // Unlocking what is locked does not fail; if it did, closing the file would do it.
            self.0 = lock.unlock().ok().map(Kept::Open);
        }
    }
}

fn holder(file: &mut File) -> io::Result<String> {
    let mut text = String::new();
    file.rewind()?;
    file.take(LONGEST).read_to_string(&mut text)?;
    Ok(text.trim().to_owned())
}

/// Opens the file of any user, or makes one for all. It is never removed: who waits for it would wait for another.
fn open(path: &Path) -> io::Result<File> {
    let there = || {
        let file = File::options().read(true).write(true).custom_flags(OFlag::O_NOFOLLOW.bits()).open(path)?;
        let found = file.metadata()?;
        // What is written would go into a file that is somebody's by another name.
        let sound = found.is_file() && found.nlink() == 1;
        if sound { Ok(file) } else { Err(io::Error::other(format!("`{}` is no file of flow's", path.display()))) }
    };
    match there() {
        Err(e) if e.kind() == io::ErrorKind::NotFound => {}
        opened => return opened,
    }
    // Not by one call that opens or makes it: kernels refuse that for files of others in a folder of all.
    match File::options().read(true).write(true).create_new(true).open(path) {
        Ok(file) => {
            file.set_permissions(Permissions::from_mode(0o666))?;
            Ok(file)
        }
        Err(e) if e.kind() == io::ErrorKind::AlreadyExists => there(),
        Err(e) => Err(e),
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn a_gpu_is_held_by_one_and_free_when_that_is_gone() {
        let dir = tempfile::tempdir().unwrap();
        let lock = |uuid| GpuLock::within(dir.path(), uuid).unwrap();
        let (mut mine, mut yours) = (lock("GPU-1"), lock("GPU-1"));
        assert_eq!((mine.take(), mine.take()), (Ok(()), Ok(())));
        assert_eq!(yours.take(), Err(String::new()), "held, and by whom is not told yet");
        mine.sign();
        let holder = yours.take().unwrap_err();
        assert!(holder.starts_with(&format!("process {} of ", std::process::id())), "{holder}");
        assert_eq!(lock("GPU-2").take(), Ok(()));
        mine.release();
        assert_eq!(yours.take(), Ok(()));
        drop(yours);
        assert_eq!(mine.take(), Ok(()));
        let mode = fs::metadata(dir.path().join("flow-GPU-1.lock")).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o666, "for every user");
    }

    #[test]
    fn a_link_is_not_followed() {
        let dir = tempfile::tempdir().unwrap();
        let (elsewhere, lock) = (dir.path().join("elsewhere"), dir.path().join("flow-GPU-1.lock"));
        std::os::unix::fs::symlink(&elsewhere, &lock).unwrap();
        assert!(GpuLock::within(dir.path(), "GPU-1").is_err());
        assert!(!elsewhere.exists());
        fs::write(&elsewhere, "precious").unwrap();
        fs::remove_file(&lock).unwrap();
        fs::hard_link(&elsewhere, &lock).unwrap();
        let error = GpuLock::within(dir.path(), "GPU-1").unwrap_err().to_string();
        assert_eq!(error, format!("`{}` is no file of flow's", lock.display()));
        fs::remove_file(&lock).unwrap();
        nix::unistd::mkfifo(&lock, nix::sys::stat::Mode::S_IRWXU).unwrap();
        assert!(GpuLock::within(dir.path(), "GPU-1").is_err());
    }
}
