//! One lock per GPU for all flows of a machine, of all users. The kernel releases a lock when its holder ends. The text in
//! the file is for people only. Knows no attempt.
//!
//! The file of a GPU, `flow-UUID.lock`, stays in the folder of the shared files. If somebody removes it, its holder locks the
//! next one, and a flow that locked a removed file looks again. A file that others may only read can be locked too.

use std::{
    fs::File,
    io::{self, Read, Seek, Write},
    os::fd::{AsFd, OwnedFd},
    path::{Path, PathBuf},
};

use nix::{
    errno::Errno,
    fcntl::{Flock, FlockArg},
    unistd::Uid,
};

use flow_runs::file::is_at;
use rustix::fs::FlockOperation;

use super::shared_file::{self, name, open};

/// More than a holder writes.
const LONGEST: u64 = 400;

/// How often a removed file is opened again.
const TRIES: u32 = 10;

/// The lock of a GPU, held or not.
#[derive(Debug)]
pub struct GpuLock {
    path: PathBuf,
    kept: Option<LockFile>,
    /// It says in the file that we hold it.
    signed: bool,
}

#[derive(Debug)]
enum LockFile {
    Open(File),
    Held(Flock<File>),
}

/// Why a lock cannot be taken.
#[derive(Debug, PartialEq, Eq)]
pub enum Refusal {
    /// Another flow holds it: which, in words.
    Held(String),
    /// Nobody can be asked, nor told: why, in words.
    Unusable(String),
}

impl GpuLock {
    /// The lock of a GPU, not held.
    pub fn of(uuid: &str) -> GpuLock {
        Self::within(&shared_file::folder(), uuid)
    }

    fn within(folder: &Path, uuid: &str) -> GpuLock {
        GpuLock { path: folder.join(format!("flow-{uuid}.lock")), kept: None, signed: false }
    }

    /// Takes it, unless it is held already.
    ///
    /// # Errors
    /// Another flow holds it, or it cannot be locked at all.
    pub fn take(&mut self) -> Result<(), Refusal> {
        for _ in 0..TRIES {
            let file = match self.kept.take() {
                Some(held @ LockFile::Held(_)) => {
                    self.kept = Some(held);
                    return Ok(());
                }
                Some(LockFile::Open(file)) => file,
                None => open(&self.path).map_err(|error| self.unusable(&error))?,
            };
            match Flock::lock(file, FlockArg::LockExclusiveNonblock) {
                Ok(lock) if is_at(&lock, &self.path) => {
                    self.kept = Some(LockFile::Held(lock));
                    return Ok(());
                }
                // Who comes next would lock another file.
                Ok(_removed) => {}
                Err((_, Errno::EINTR)) => {}
                Err((mut file, Errno::EWOULDBLOCK)) => {
                    let holder = holder(&mut file).unwrap_or_default();
                    self.kept = Some(LockFile::Open(file));
                    return Err(Refusal::Held(holder));
                }
                Err((_, errno)) => return Err(self.unusable(&errno.into())),
            }
        }
        Err(self.unusable(&io::Error::other("something keeps removing it")))
    }

    pub fn is_held(&self) -> bool {
        matches!(self.kept, Some(LockFile::Held(_)))
    }

    fn unusable(&self, error: &io::Error) -> Refusal {
        Refusal::Unusable(shared_file::unusable(&self.path, error, "locked", "the GPUs"))
    }

    /// The open file of the lock, held or not. Its new owner has the lock too, until one of them releases it.
    pub fn lent(&mut self) -> Option<OwnedFd> {
        if self.kept.is_none() {
            self.kept = open(&self.path).ok().map(LockFile::Open);
        }
        match self.kept.as_ref()? {
            LockFile::Open(file) => file.as_fd().try_clone_to_owned().ok(),
            LockFile::Held(lock) => lock.as_fd().try_clone_to_owned().ok(),
        }
    }

    /// Called now and then while it is held. Locks a new file if somebody removed the old one, and touches the file so that
    /// no cleaner removes it.
    pub fn keep(&mut self) {
        let Some(LockFile::Held(lock)) = &self.kept else { return };
        if !is_at(lock, &self.path) {
            let mut anew = GpuLock { path: self.path.clone(), kept: None, signed: false };
            // The old one is given back only then: who waits for it finds that it is not the file of the GPU any more.
            if anew.take().is_ok() {
                anew.sign();
                *self = anew;
            }
        } else {
            shared_file::keep_young(lock);
        }
    }

    /// Says who holds it, for the others: done when it is held for long.
    pub fn sign(&mut self) {
        if let Some(LockFile::Held(lock)) = &mut self.kept {
            // Who cannot be told who it is still sees that it is held.
            self.signed = sign(lock).is_ok();
        }
    }

    pub fn release(&mut self) {
        if let Some(LockFile::Held(lock)) = self.kept.take_if(|kept| matches!(kept, LockFile::Held(_))) {
            if std::mem::take(&mut self.signed) {
                // The next one may be able to lock it and not to write it.
                let _ = lock.set_len(0);
            }
            // Unlocking what is locked does not fail; if it did, closing the file would do it.
            self.kept = lock.unlock().ok().map(LockFile::Open);
        }
    }
}

/// The lock of a GPU, held by a process that outlives the one that took it.
#[derive(Debug)]
pub(crate) struct LentLock {
    file: File,
    signed: bool,
}

impl LentLock {
    /// The open file is that of [`GpuLock::lent`].
    pub(crate) fn of(file: File) -> LentLock {
        LentLock { file, signed: false }
    }

    /// Holds it and says so: who had it is gone, and may have given it back in the last moment.
    pub(crate) fn keep(&mut self) {
        if !self.signed && rustix::fs::flock(&self.file, FlockOperation::NonBlockingLockExclusive).is_ok() {
            self.signed = true;
            let _ = sign(&mut self.file);
        }
    }

    /// Gives it back, whoever took it.
    pub(crate) fn give_back(self) {
        if self.signed {
            let _ = self.file.set_len(0);
        }
        let _ = rustix::fs::flock(&self.file, FlockOperation::Unlock);
    }
}

fn sign(file: &mut File) -> io::Result<()> {
    file.set_len(0)?;
    file.rewind()?;
    write!(file, "process {} of {}", std::process::id(), name(Uid::effective()))
}

fn holder(file: &mut File) -> io::Result<String> {
    let mut text = String::new();
    file.rewind()?;
    file.take(LONGEST).read_to_string(&mut text)?;
    Ok(text.trim().to_owned())
}

#[cfg(test)]
mod tests {
    use std::{
        env,
        fs::{self, Permissions},
        os::unix::fs::{MetadataExt, PermissionsExt},
    };

    use super::*;

    #[test]
    fn a_gpu_is_held_by_one_and_free_when_that_is_gone() {
        let dir = tempfile::tempdir().unwrap();
        let lock = |uuid| GpuLock::within(dir.path(), uuid);
        let (mut mine, mut yours) = (lock("GPU-1"), lock("GPU-1"));
        assert_eq!((mine.take(), mine.take()), (Ok(()), Ok(())));
        assert_eq!(yours.take(), Err(Refusal::Held(String::new())), "held, and by whom is not told yet");
        mine.sign();
        let Err(Refusal::Held(holder)) = yours.take() else { panic!("it is held") };
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
    fn who_has_the_open_file_holds_it_when_its_taker_is_gone() {
        let dir = tempfile::tempdir().unwrap();
        let lock = || GpuLock::within(dir.path(), "GPU-1");
        let (mut mine, mut yours) = (lock(), lock());
        let lent = mine.lent().unwrap();
        mine.take().unwrap();
        let mut lent = LentLock::of(File::from(lent));
        // A kill: the taker's descriptors are closed, and nobody gives anything back.
        let Some(LockFile::Held(held)) = mine.kept.take() else { panic!("it is held") };
        std::mem::forget(held);
        assert!(matches!(yours.take(), Err(Refusal::Held(_))));
        lent.keep();
        let Err(Refusal::Held(holder)) = yours.take() else { panic!("it is held") };
        assert!(holder.starts_with(&format!("process {} of ", std::process::id())), "{holder}");
        lent.give_back();
        assert_eq!(yours.take(), Ok(()));
    }

    #[test]
    fn what_is_no_lock_is_not_followed_and_said() {
        let dir = tempfile::tempdir().unwrap();
        let (elsewhere, lock) = (dir.path().join("elsewhere"), dir.path().join("flow-GPU-1.lock"));
        let refused = || {
            let Err(Refusal::Unusable(why)) = GpuLock::within(dir.path(), "GPU-1").take() else {
                panic!("it is a lock")
            };
            why.replace(&*dir.path().to_string_lossy(), "TMP")
        };
        std::os::unix::fs::symlink(&elsewhere, &lock).unwrap();
        let mut said = vec![refused()];
        assert!(!elsewhere.exists());
        fs::remove_file(&lock).unwrap();
        fs::write(&elsewhere, "precious").unwrap();
        fs::hard_link(&elsewhere, &lock).unwrap();
        said.push(refused());
        fs::remove_file(&lock).unwrap();
        nix::unistd::mkfifo(&lock, nix::sys::stat::Mode::S_IRWXU).unwrap();
        said.push(refused());
        fs::remove_file(&lock).unwrap();
        fs::create_dir(&lock).unwrap();
        said.push(refused());
        let nowhere = GpuLock::within(&dir.path().join("nowhere"), "GPU-1").take();
        let Err(Refusal::Unusable(why)) = nowhere else { panic!("there is no folder") };
        said.push(why.replace(&*dir.path().to_string_lossy(), "TMP"));
        let tail = ", or FLOW_GPU_LOCKS selects another folder, the same for all that share the GPUs";
        let said: Vec<&str> = said.iter().map(|said| said.strip_suffix(tail).unwrap()).collect();
        insta::assert_snapshot!(said.join("\n"), @r"
        `TMP/flow-GPU-1.lock` cannot be locked: it is a link, which flow does not follow; `rm TMP/flow-GPU-1.lock` makes room for a new one
        `TMP/flow-GPU-1.lock` cannot be locked: the file also has another name; `rm TMP/flow-GPU-1.lock` makes room for a new one
        `TMP/flow-GPU-1.lock` cannot be locked: it is not a file; `rm TMP/flow-GPU-1.lock` makes room for a new one
        `TMP/flow-GPU-1.lock` cannot be locked: it is a folder; `rm -r TMP/flow-GPU-1.lock` makes room for a new one
        `TMP/nowhere/flow-GPU-1.lock` cannot be locked: no such file or directory; check the folder `TMP/nowhere`
        ");
        assert_eq!(fs::read(elsewhere).unwrap(), b"precious");
    }

    /// Not a test: takes the lock as who runs it, and says how that went.
    #[test]
    #[ignore = "run by another test, as another user"]
    fn as_another_user() {
        let Some(folder) = env::var_os("LOCKS") else { return };
        let mut lock = GpuLock::within(Path::new(&folder), "GPU-1");
        println!("\nit went: {:?}", lock.take());
    }

    #[test]
    fn the_lock_of_another_user_is_respected_or_said_whose_it_is() {
        use std::{os::unix::process::CommandExt, process::Command};
        const NOBODY: u32 = 65_534;
        let dir = tempfile::tempdir().unwrap();
        fs::set_permissions(dir.path(), Permissions::from_mode(0o1777)).unwrap();
        // Where this binary lies others may not look.
        let exe = dir.path().join("tests");
        let copied = Uid::effective().is_root() && fs::copy(env::current_exe().unwrap(), &exe).is_ok();
        let theirs = || {
            let mut command = Command::new(&exe);
            command.args(["--exact", "hardware::gpu_lock::tests::as_another_user", "--ignored", "--nocapture"]);
            let output = command.env("LOCKS", dir.path()).uid(NOBODY).gid(NOBODY).output().ok()?;
            let text = String::from_utf8_lossy(&output.stdout).replace(&*dir.path().to_string_lossy(), "TMP");
            text.lines().find_map(|line| Some(line.strip_prefix("it went: ")?.to_owned()))
        };
        let Some(free) = Some(()).filter(|()| copied).and_then(|()| theirs()) else {
            println!("skipped: there is no second user to be");
            return;
        };
        assert_eq!(free, "Ok(())");
        let path = dir.path().join("flow-GPU-1.lock");
        assert_eq!(fs::metadata(&path).unwrap().uid(), NOBODY, "they made it");
        let mut mine = GpuLock::within(dir.path(), "GPU-1");
        mine.take().unwrap();
        mine.sign();
        assert_eq!(theirs().unwrap(), format!("Err(Held(\"process {} of root\"))", std::process::id()));
        mine.release();
        assert_eq!(fs::read(&path).unwrap(), b"", "it does not say for ever who held it once");
        fs::remove_file(&path).unwrap();
        // Made by root, for root: first to be read by all, then by nobody.
        fs::write(&path, "").unwrap();
        fs::set_permissions(&path, Permissions::from_mode(0o644)).unwrap();
        assert_eq!(theirs().unwrap(), "Ok(())", "who may read it can lock it");
        fs::set_permissions(&path, Permissions::from_mode(0o600)).unwrap();
        let refused = theirs().unwrap();
        let whose = "cannot be locked: permission denied; ask root, who owns it, for `rm TMP/flow-GPU-1.lock`, or FLOW_GPU_LOCKS";
        assert!(refused.contains(whose), "{refused}");
    }

    #[test]
    fn a_lock_whose_file_is_removed_stays_one() {
        let dir = tempfile::tempdir().unwrap();
        let lock = || GpuLock::within(dir.path(), "GPU-1");
        let path = lock().path;
        let (mut mine, mut yours) = (lock(), lock());
        mine.take().unwrap();
        assert!(matches!(yours.take(), Err(Refusal::Held(_))));
        fs::remove_file(&path).unwrap();
        mine.keep();
        assert!(path.exists(), "made anew");
        assert!(matches!(lock().take(), Err(Refusal::Held(_))), "who comes now sees it");
        assert!(matches!(yours.take(), Err(Refusal::Held(_))), "who waited for the old one too");
        mine.release();
        fs::remove_file(&path).unwrap();
        assert_eq!(mine.take(), Ok(()));
        assert!(matches!(lock().take(), Err(Refusal::Held(_))), "what was open was not the file any more");
    }

    #[test]
    fn a_file_that_is_held_is_kept_young() {
        let dir = tempfile::tempdir().unwrap();
        let mut lock = GpuLock::within(dir.path(), "GPU-1");
        lock.take().unwrap();
        let file = File::options().write(true).open(&lock.path).unwrap();
        file.set_modified(std::time::UNIX_EPOCH).unwrap();
        lock.keep();
        assert!(file.metadata().unwrap().mtime() > 0);
    }
}
