//! Claims of the runs of a store on their work. A claim is a kernel lock on one byte of a file, at the offset that a
//! digest determines. It costs one call and always ends with its process. Knows no results, and decides nothing.
//!
//! The locks belong to a process, not to an open file, so that the kernel can report the owner. A process opens each
//! file once. The kernel searches all locks of a file to set one, so there are many files, and the digest selects one.
//!
//! In each file that it opens, a run holds one more lock, at its own offset, for its whole life. When its process dies,
//! all its locks in a file disappear together: while that lock exists, no claim in this file was freed by its death.

use std::{
    collections::{BTreeMap, btree_map::Entry},
    fs::{self, File},
    os::fd::AsFd,
    path::PathBuf,
    sync::{Mutex, PoisonError},
};

use flow_core::{Digest, RunId, reason::StoreAction};
use nix::{
    errno::Errno,
    fcntl::{FcntlArg, fcntl},
    libc,
};

use crate::{Result, StoreDir, StoreError, file};

/// The claims of this process among a store's runs.
#[derive(Debug)]
pub struct Claims {
    folder: PathBuf,
    /// The offset of a run's own lock in each file.
    life: Option<i64>,
    files: Mutex<BTreeMap<u8, ClaimFile>>,
}

/// Number of files for claims.
const FILES: u8 = 64;

/// A file of claims.
#[derive(Debug)]
struct ClaimFile {
    path: PathBuf,
    file: File,
    /// Number of claims per offset, because two instances may have the same work.
    held: BTreeMap<i64, u32>,
}

/// The holder of a claim.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Claimant {
    /// Its process; `None` if it is in another container.
    pub pid: Option<u32>,
}

impl Claims {
    /// Opens the claims, for a run or for its daemon. Call it once per process and store: closing a
    /// file anywhere releases all claims in it.
    ///
    /// # Errors
    /// The store cannot be written.
    pub fn open(dir: &StoreDir, run: Option<&RunId>) -> Result<Claims> {
        let folder = dir.claims();
        fs::create_dir_all(&folder).map_err(StoreError::io(StoreAction::Create, &folder))?;
        Ok(Claims { folder, life: run.map(life), files: Mutex::default() })
    }

    /// Claims all of these. If another process holds one of them, claims none and returns that process.
    ///
    /// # Errors
    /// A file cannot be opened or locked.
    pub fn take(&self, what: &[Digest]) -> Result<Option<Claimant>> {
        for (n, digest) in what.iter().enumerate() {
            match self.of(digest, |file| file.take(place(digest))) {
                Ok(None) => {}
                other => {
                    self.give_back(&what[..n])?;
                    return other;
                }
            }
        }
        Ok(None)
    }

    /// Uses the file that a digest selects.
    fn of<T>(&self, digest: &Digest, ask: impl FnOnce(&mut ClaimFile) -> Result<T>) -> Result<T> {
        let number = digest.0[8] % FILES;
        let mut files = self.files.lock().unwrap_or_else(PoisonError::into_inner);
        let file = match files.entry(number) {
            Entry::Occupied(open) => open.into_mut(),
            Entry::Vacant(new) => new.insert(ClaimFile::open(self.folder.join(number.to_string()), self.life)?),
        };
        ask(file)
    }

    /// The claim of a supervisor on an attempt that survives its run. It keeps other runs from executing the same; a
    /// run that joins the attempt takes the normal claim.
    pub fn detached_claim(attempt: &Digest) -> Digest {
        Digest::of(format!("{attempt} goes on").as_bytes())
    }

    /// The first other process that has claimed one of these.
    ///
    /// # Errors
    /// A file cannot be queried.
    pub fn taken(&self, what: impl IntoIterator<Item = Digest>) -> Result<Option<Claimant>> {
        for digest in what {
            if let Some(claimant) = self.of(&digest, |file| file.claimant(place(&digest)))? {
                return Ok(Some(claimant));
            }
        }
        Ok(None)
    }

    /// True if the death of another run has certainly freed none of these claims. `false` means unknown.
    pub fn none_lost_by(&self, run: &RunId, what: &[Digest]) -> bool {
        let lives =
            |digest: &Digest| self.of(digest, |file| file.claimant(life(run))).is_ok_and(|found| found.is_some());
        what.iter().all(lives)
    }

    /// Releases claims, each as often as it was taken.
    ///
    /// # Errors
    /// A file cannot be unlocked.
    pub fn give_back(&self, what: &[Digest]) -> Result<()> {
        what.iter().try_for_each(|digest| self.of(digest, |file| file.give_back(place(digest))))
    }
}

impl ClaimFile {
    fn open(path: PathBuf, life: Option<i64>) -> Result<ClaimFile> {
        let mut options = File::options();
        options.read(true).write(true).create(true).truncate(false);
        let file = file::open(&mut options, &path).map_err(StoreError::io(StoreAction::Open, &path))?;
        // Without this lock, others check the run's process instead.
        if let Some(place) = life {
            let _ = fcntl(file.as_fd(), FcntlArg::F_SETLK(&lock(libc::F_WRLCK, place)));
        }
        Ok(ClaimFile { path, file, held: BTreeMap::new() })
    }

    fn take(&mut self, place: i64) -> Result<Option<Claimant>> {
        if !self.held.contains_key(&place) {
            match fcntl(self.file.as_fd(), FcntlArg::F_SETLK(&lock(libc::F_WRLCK, place))) {
                Ok(_) => {}
                // The claim may be free by now, which the next look shows.
                Err(Errno::EAGAIN | Errno::EACCES) => {
                    return Ok(Some(self.claimant(place)?.unwrap_or(Claimant { pid: None })));
                }
                Err(errno) => return Err(self.cannot(errno)),
            }
        }
        *self.held.entry(place).or_default() += 1;
        Ok(None)
    }

    fn give_back(&mut self, place: i64) -> Result<()> {
        let Some(count) = self.held.get_mut(&place) else { return Ok(()) };
        *count -= 1;
        if *count == 0 {
            self.held.remove(&place);
            fcntl(self.file.as_fd(), FcntlArg::F_SETLK(&lock(libc::F_UNLCK, place))).map_err(|e| self.cannot(e))?;
        }
        Ok(())
    }

    fn claimant(&self, place: i64) -> Result<Option<Claimant>> {
        let mut found = lock(libc::F_WRLCK, place);
        fcntl(self.file.as_fd(), FcntlArg::F_GETLK(&mut found)).map_err(|errno| self.cannot(errno))?;
        let free = libc::c_int::from(found.l_type) == libc::F_UNLCK;
        Ok((!free).then(|| Claimant { pid: u32::try_from(found.l_pid).ok().filter(|pid| *pid > 0) }))
    }

    fn cannot(&self, errno: Errno) -> StoreError {
        StoreError::io(StoreAction::Lock, &self.path)(errno.into())
    }
}

/// The offset of a digest's claim. If two digests share one by chance (1 in 2⁶³), they only wait for each other.
fn place(digest: &Digest) -> i64 {
    let [a, b, c, d, e, f, g, h, ..] = digest.0;
    i64::from_le_bytes([a, b, c, d, e, f, g, h & 0x7f]) >> 1
}

/// The offset of a run's own lock, behind all claims.
fn life(run: &RunId) -> i64 {
    (1 << 62) | place(&Digest::of(run.0.as_bytes()))
}

fn lock(kind: libc::c_int, place: i64) -> libc::flock {
    libc::flock {
        l_type: kind as libc::c_short,
        l_whence: libc::SEEK_SET as libc::c_short,
        l_start: place,
        l_len: 1,
        l_pid: 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Locks of an open file conflict with those of any process, including ours, so this sees what another process
    /// would.
    fn is_free(dir: &StoreDir, digest: &Digest) -> bool {
        // Closing it would release the claims of this process.
        let path = dir.claims().join((digest.0[8] % FILES).to_string());
        let file = Box::leak(Box::new(File::options().read(true).write(true).open(path).unwrap()));
        let place = place(digest);
        let free = fcntl(file.as_fd(), FcntlArg::F_OFD_SETLK(&lock(libc::F_WRLCK, place))).is_ok();
        let _ = fcntl(file.as_fd(), FcntlArg::F_OFD_SETLK(&lock(libc::F_UNLCK, place)));
        free
    }

    #[test]
    fn a_claim_is_held_until_it_was_given_back_as_often_as_it_was_taken() {
        let folder = tempfile::tempdir().unwrap();
        let dir = StoreDir::create(folder.path()).unwrap();
        let claims = Claims::open(&dir, None).unwrap();
        let [a, b] = [b"a", b"b"].map(|text| Digest::of(text));
        assert_eq!(claims.take(&[a, b]).unwrap(), None);
        assert_eq!(claims.take(&[b]).unwrap(), None, "another instance of ours does the same");
        assert!(!is_free(&dir, &a) && !is_free(&dir, &b));
        claims.give_back(&[a, b]).unwrap();
        assert!(is_free(&dir, &a) && !is_free(&dir, &b));
        claims.give_back(&[b, b]).unwrap();
        assert!(is_free(&dir, &b));
        assert_eq!(claims.taken([a, b]).unwrap(), None);
    }

    #[test]
    fn a_run_says_in_each_file_of_its_claims_that_it_lives() {
        let folder = tempfile::tempdir().unwrap();
        let dir = StoreDir::create(folder.path()).unwrap();
        let [own, other] = ["1", "2"].map(|name| RunId(name.into()));
        let claims = Claims::open(&dir, Some(&own)).unwrap();
        let [a, b] = [b"a", b"b"].map(|text| Digest::of(text));
        claims.take(&[a, b]).unwrap();
        let path = |of: &Digest| dir.claims().join((of.0[8] % FILES).to_string());
        assert_ne!(path(&a), path(&b));
        assert!(!claims.none_lost_by(&other, &[a]), "nobody knows");
        // Another process. Closing its file would release the claims of this one.
        let theirs = Box::leak(Box::new(File::options().read(true).write(true).open(path(&a)).unwrap()));
        let set = |kind, run| fcntl(theirs.as_fd(), FcntlArg::F_OFD_SETLK(&lock(kind, life(run))));
        assert!(set(libc::F_WRLCK, &own).is_err(), "it lives");
        set(libc::F_WRLCK, &other).unwrap();
        assert!(claims.none_lost_by(&other, &[a]));
        assert!(!claims.none_lost_by(&other, &[a, b]), "it has nothing in the file of the other");
        set(libc::F_UNLCK, &other).unwrap();
        assert!(!claims.none_lost_by(&other, &[a]));
    }
}
