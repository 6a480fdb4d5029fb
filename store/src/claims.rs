//! Who runs what, among the runs of a store. A claim is the kernel's lock on one byte of a file, at the place that a digest names:
//! it costs one call, and goes with its process, whatever becomes of that. Knows no results, and decides nothing.
//!
//! The locks are those of a process, not of an open file: so the kernel tells whose they are. One process opens a file once. To set
//! a lock the kernel goes through all locks of its file, so there are many files, and a digest names one of them.
//!
//! In each file that a run opens it has one more lock, at a place of its own, for all its life. When its process dies all its locks in
//! a file go at once: as long as that one is there, no claim in that file came free by its death.

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

/// The claims of this process on what a store's runs do.
#[derive(Debug)]
pub struct Claims {
    folder: PathBuf,
    /// Where a run says in each file that it lives.
    life: Option<i64>,
    files: Mutex<BTreeMap<u8, Claimed>>,
}

/// Into so many files claims are spread.
const FILES: u8 = 64;

/// A file of claims.
#[derive(Debug)]
struct Claimed {
    path: PathBuf,
    file: File,
    /// How often each place is claimed: two instances may do the same.
    held: BTreeMap<i64, u32>,
}

/// Who has a claim.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Claimant {
    /// Its process; `None` where that is of another container.
    pub pid: Option<u32>,
}

impl Claims {
    /// None held yet, of a run or of what goes on since its death. To be called once a process and store: closing a file anywhere gives
    /// all claims in it back.
    ///
    /// # Errors
    /// The store cannot be written.
    pub fn open(dir: &StoreDir, run: Option<&RunId>) -> Result<Claims> {
        let folder = dir.claims();
        // A store that an older flow made has none.
        fs::create_dir_all(&folder).map_err(StoreError::io(StoreAction::Create, &folder))?;
        Ok(Claims { folder, life: run.map(life), files: Mutex::default() })
    }

    /// Claims all of these, or none where another process has one of them: then that is returned.
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

    /// Asks the file that a digest names.
    fn of<T>(&self, digest: &Digest, ask: impl FnOnce(&mut Claimed) -> Result<T>) -> Result<T> {
        let number = digest.0[8] % FILES;
        let mut files = self.files.lock().unwrap_or_else(PoisonError::into_inner);
        let file = match files.entry(number) {
            Entry::Occupied(open) => open.into_mut(),
            Entry::Vacant(new) => new.insert(Claimed::open(self.folder.join(number.to_string()), self.life)?),
        };
        ask(file)
    }

    /// The place at which an attempt is claimed by the process that keeps it where that outlives its run: as long as it goes on nobody
    /// else does the same, and whoever joins it has the attempt's own.
    pub fn lasting(attempt: &Digest) -> Digest {
        Digest::of(format!("{attempt} goes on").as_bytes())
    }

    /// The first other process that has claimed one of these.
    ///
    /// # Errors
    /// A file cannot be asked.
    pub fn taken(&self, what: impl IntoIterator<Item = Digest>) -> Result<Option<Claimant>> {
        for digest in what {
            if let Some(claimant) = self.of(&digest, |file| file.claimant(place(&digest)))? {
                return Ok(Some(claimant));
            }
        }
        Ok(None)
    }

    /// Another run has lost no claim of these by its death. `false` says nothing.
    pub fn none_lost_by(&self, run: &RunId, what: &[Digest]) -> bool {
        let lives =
            |digest: &Digest| self.of(digest, |file| file.claimant(life(run))).is_ok_and(|found| found.is_some());
        what.iter().all(lives)
    }

    /// Gives claims back, each as often as it was taken.
    ///
    /// # Errors
    /// A file cannot be unlocked.
    pub fn give_back(&self, what: &[Digest]) -> Result<()> {
        what.iter().try_for_each(|digest| self.of(digest, |file| file.give_back(place(digest))))
    }
}

impl Claimed {
    fn open(path: PathBuf, life: Option<i64>) -> Result<Claimed> {
        let mut options = File::options();
        options.read(true).write(true).create(true).truncate(false);
        let file = file::open(&mut options, &path).map_err(StoreError::io(StoreAction::Open, &path))?;
        // Where it cannot be had others look at the run's process instead.
        if let Some(place) = life {
            let _ = fcntl(file.as_fd(), FcntlArg::F_SETLK(&lock(libc::F_WRLCK, place)));
        }
        Ok(Claimed { path, file, held: BTreeMap::new() })
    }

    fn take(&mut self, place: i64) -> Result<Option<Claimant>> {
        if !self.held.contains_key(&place) {
            match fcntl(self.file.as_fd(), FcntlArg::F_SETLK(&lock(libc::F_WRLCK, place))) {
                Ok(_) => {}
                // It may have been given back meanwhile; who looks again finds out.
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

/// Where a digest is claimed. Two that share a place by chance, one in 2⁶³, wait for each other and are otherwise none the worse.
fn place(digest: &Digest) -> i64 {
    let [a, b, c, d, e, f, g, h, ..] = digest.0;
    i64::from_le_bytes([a, b, c, d, e, f, g, h & 0x7f]) >> 1
}

/// Where a run says that it lives, behind all places of claims.
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

    /// As another process sees it: locks of an open file are refused by those of any process, our own too.
    fn is_free(dir: &StoreDir, digest: &Digest) -> bool {
        // Closed, it would give back the claims of this process.
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
        // Another process. Closed, its file would give back the claims of this one.
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
