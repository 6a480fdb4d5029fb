//! The ledger of a machine: one file in which every run of every store writes its resources and its waiting steps. Knows
//! no scheduling rule.
//!
//! The file has a fixed number of slots, one per run. A slot lives as long as its run holds a lock on the slot's first
//! byte. The kernel releases this lock when the last process closes the file. The run's keeper has the file open too, so a
//! crash frees the slot only after the programs have ended.
//!
//! The byte after all slots is the mutex. A run holds it from reading the slots to writing its own, well below a
//! millisecond. Nobody waits for it without looking at anything else. The locks belong to the open file: a lock of a
//! process would be lost with any of its descriptors, and would not pass to the keeper.
//!
//! Every user can write into a slot. Its content is bounded and checked, and invalid content counts as absent. A process
//! number is for people only, because it can belong to another namespace.

mod slot;

use std::{
    collections::BTreeSet,
    fs::File,
    io,
    os::{
        fd::{AsFd, OwnedFd},
        unix::fs::FileExt,
    },
    path::{Path, PathBuf},
};

use flow_runs::file::is_at;
use nix::{
    errno::Errno,
    fcntl::{FcntlArg, fcntl},
    libc,
};

use super::shared_file;

pub use slot::{FollowingGang, Jobs, Slot, Waiter, ledger_name};

/// Its name in the folder of the shared files.
const NAME: &str = "flow-machine.ledger";
/// Runs at once; more than a machine has.
const SLOTS: usize = 256;
/// How many bytes a slot has.
const SIZE: usize = 1024;
/// The byte of the mutex.
const MUTEX: usize = SLOTS * SIZE;
/// How often the file is opened again that somebody removed meanwhile.
const TRIES: u32 = 10;

/// A run's view of the ledger.
#[derive(Debug)]
pub struct Ledger {
    path: PathBuf,
    open: Option<Open>,
}

#[derive(Debug)]
struct Open {
    file: File,
    slot: usize,
    /// Its content.
    written: Vec<u8>,
}

/// Who else is there.
#[derive(Debug, Default, PartialEq)]
pub struct LedgerView {
    /// Living runs, by their slot.
    pub runs: Vec<(u32, Slot)>,
    /// Slots of living runs that say nonsense.
    pub nonsense: BTreeSet<u32>,
}

impl Ledger {
    /// The one of this machine.
    pub fn of_machine() -> Ledger {
        Self::within(&shared_file::folder())
    }

    fn within(folder: &Path) -> Ledger {
        Ledger { path: folder.join(NAME), open: None }
    }

    /// The place of a run whose process is gone, for who has its open file.
    pub(crate) fn inherited(file: File, slot: u32) -> Ledger {
        let mut ledger = Ledger::of_machine();
        ledger.open = Some(Open { file, slot: slot as usize, written: Vec::new() });
        ledger
    }

    /// Takes the mutex if nobody has it, and with the first time a slot. True if it is ours until [`Ledger::leave`], false
    /// while somebody else decides.
    ///
    /// # Errors
    /// The ledger is of no use: why, in words.
    pub fn enter(&mut self) -> Result<bool, String> {
        let fails = |error: io::Error, path: &Path| {
            // A lock for writing needs a file that can be written.
            let read_only = error.raw_os_error() == Some(libc::EBADF);
            let error = if read_only { io::Error::from_raw_os_error(libc::EACCES) } else { error };
            shared_file::unusable(path, &error, "used", "the machine")
        };
        for _ in 0..TRIES {
            let entered = match &self.open {
                Some(open) => lock(&open.file, MUTEX).map(|locked| (locked, None)),
                None => shared_file::open(&self.path).and_then(|file| {
                    let locked = lock(&file, MUTEX)?;
                    Ok((locked, Some(file)))
                }),
            };
            let (locked, new) = entered.map_err(|error| fails(error, &self.path))?;
            if !locked {
                return Ok(false);
            }
            let file = new.as_ref().or(self.open.as_ref().map(|open| &open.file));
            if !file.is_some_and(|file| is_at(file, &self.path)) {
                // Who comes next would look at another file. With it goes our slot, and we take one anew.
                self.open = None;
                continue;
            }
            if let Some(file) = new {
                let slot = own_slot(&file).map_err(|error| fails(error, &self.path))?;
                self.open = Some(Open { file, slot, written: Vec::new() });
            }
            return Ok(true);
        }
        Err(fails(io::Error::other("something keeps removing it"), &self.path))
    }

    /// Gives the mutex back.
    pub fn leave(&mut self) {
        // Unlocking what is locked does not fail; if it did, the file is closed, which does it.
        if self.open.as_ref().is_some_and(|open| unlock(&open.file, MUTEX).is_err()) {
            self.open = None;
        }
    }

    /// The living runs but ours. Right as of one instant only while the mutex is ours.
    ///
    /// # Errors
    /// The file cannot be read.
    pub fn look(&mut self) -> io::Result<LedgerView> {
        let Some(open) = &mut self.open else { return Ok(LedgerView::default()) };
        let bytes = read(&open.file)?;
        let own = bytes.chunks(SIZE).nth(open.slot).unwrap_or_default();
        if own != open.written {
            // Somebody wrote over it, or cut the file: it is said again.
            open.written.clear();
        }
        look(&open.file, &bytes, Some(open.slot))
    }

    /// Says how we stand, if that is news.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn write(&mut self, slot: &Slot) -> io::Result<()> {
        let Some(open) = &mut self.open else { return Ok(()) };
        let bytes = slot.bytes(SIZE);
        if bytes != open.written {
            // In one call: whoever looks without the mutex sees one or the other.
            open.file.write_all_at(&bytes, (open.slot * SIZE) as u64)?;
            open.written = bytes;
        }
        Ok(())
    }

    /// The number of our slot.
    pub fn own(&self) -> Option<u32> {
        self.open.as_ref().map(|open| open.slot as u32)
    }

    /// Another descriptor of the open file: as long as one is open our slot lives.
    pub fn life(&self) -> Option<OwnedFd> {
        self.open.as_ref()?.file.as_fd().try_clone_to_owned().ok()
    }

    /// Now and then: nobody is to clean the file away.
    pub fn keep(&self) {
        if let Some(open) = &self.open {
            shared_file::keep_young(&open.file);
        }
    }
}

impl Drop for Ledger {
    /// A run that ends says so: its keeper may live a moment longer.
    fn drop(&mut self) {
        if let Some(open) = &self.open {
            let _ = open.file.write_all_at(&[0], (open.slot * SIZE) as u64);
        }
    }
}

/// The living runs of this machine, for who is none of them.
///
/// # Errors
/// The ledger is of no use: why, in words.
pub fn look_at_machine() -> Result<LedgerView, String> {
    let path = shared_file::folder().join(NAME);
    if !path.exists() {
        return Ok(LedgerView::default());
    }
    let seen = shared_file::open(&path).and_then(|file| look(&file, &read(&file)?, None));
    seen.map_err(|error| shared_file::unusable(&path, &error, "read", "the machine"))
}

fn read(file: &File) -> io::Result<Vec<u8>> {
    // The file is as long as its last slot that was ever used: mostly one or two. This is read with every decision.
    const PART: usize = 4 * SIZE;
    let (mut bytes, mut filled) = (Vec::new(), 0);
    while filled < SLOTS * SIZE {
        bytes.resize(filled + PART, 0);
        match file.read_at(&mut bytes[filled..], filled as u64) {
            Ok(read) => {
                filled += read;
                if read < PART {
                    break;
                }
            }
            Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
            Err(e) => return Err(e),
        }
    }
    bytes.truncate(filled.min(SLOTS * SIZE));
    Ok(bytes)
}

fn look(file: &File, bytes: &[u8], own: Option<usize>) -> io::Result<LedgerView> {
    let mut seen = LedgerView::default();
    for (number, bytes) in bytes.chunks(SIZE).enumerate() {
        if Some(number) == own || bytes[0] == 0 || !is_locked(file, number * SIZE)? {
            continue;
        }
        match Slot::read(bytes) {
            Some(slot) => seen.runs.push((number as u32, slot)),
            None => _ = seen.nonsense.insert(number as u32),
        }
    }
    Ok(seen)
}

/// A slot that no living run has.
fn own_slot(file: &File) -> io::Result<usize> {
    for slot in 0..SLOTS {
        if lock(file, slot * SIZE)? {
            // What somebody left there is not ours.
            file.write_all_at(&[0], (slot * SIZE) as u64)?;
            return Ok(slot);
        }
    }
    Err(io::Error::other(format!("{SLOTS} runs of this machine already have a place in it")))
}

fn range(kind: i32, byte: usize) -> libc::flock {
    libc::flock {
        l_type: kind as libc::c_short,
        l_whence: libc::SEEK_SET as libc::c_short,
        l_start: byte as libc::off_t,
        l_len: 1,
        l_pid: 0,
    }
}

/// Takes a byte's lock; says whether it was to be had.
fn lock(file: &File, byte: usize) -> io::Result<bool> {
    loop {
        match fcntl(file, FcntlArg::F_OFD_SETLK(&range(libc::F_WRLCK, byte))) {
            Ok(_) => return Ok(true),
            Err(Errno::EAGAIN | Errno::EACCES) => return Ok(false),
            Err(Errno::EINTR) => {}
            Err(errno) => return Err(errno.into()),
        }
    }
}

fn unlock(file: &File, byte: usize) -> io::Result<()> {
    fcntl(file, FcntlArg::F_OFD_SETLK(&range(libc::F_UNLCK, byte)))?;
    Ok(())
}

/// Somebody else has a byte's lock.
fn is_locked(file: &File, byte: usize) -> io::Result<bool> {
    let mut found = range(libc::F_WRLCK, byte);
    fcntl(file, FcntlArg::F_OFD_GETLK(&mut found))?;
    Ok(i32::from(found.l_type) != libc::F_UNLCK)
}

#[cfg(test)]
mod tests {
    use std::{fs, os::unix::fs::PermissionsExt};

    use super::*;

    fn slot(run: &str) -> Slot {
        Slot { run: run.to_owned(), ..Slot::default() }
    }

    fn enter(ledger: &mut Ledger, run: &str) {
        assert_eq!(ledger.enter(), Ok(true));
        ledger.write(&slot(run)).unwrap();
        ledger.leave();
    }

    fn runs(ledger: &mut Ledger) -> Vec<String> {
        ledger.look().unwrap().runs.into_iter().map(|(_, slot)| slot.run).collect()
    }

    #[test]
    fn runs_see_each_other_as_long_as_they_live() {
        let dir = tempfile::tempdir().unwrap();
        let (mut mine, mut yours) = (Ledger::within(dir.path()), Ledger::within(dir.path()));
        enter(&mut mine, "mine");
        enter(&mut yours, "yours");
        assert_eq!((runs(&mut mine), runs(&mut yours)), (vec!["yours".to_owned()], vec!["mine".to_owned()]));
        assert_eq!((mine.own(), yours.own()), (Some(0), Some(1)));
        assert_eq!(mine.enter(), Ok(true));
        assert_eq!(yours.enter(), Ok(false), "one decides at a time");
        mine.leave();
        assert_eq!(yours.enter(), Ok(true));
        yours.leave();
        // A crash: nobody says anything, the open file is gone. With the keeper's descriptor it is not.
        let life = yours.life().unwrap();
        drop(yours.open.take());
        assert_eq!(runs(&mut mine), ["yours"]);
        drop(life);
        assert_eq!(runs(&mut mine), [""; 0]);
        enter(&mut yours, "again");
        assert_eq!(yours.own(), Some(1), "the place is free again");
        drop(yours);
        assert_eq!(runs(&mut mine), [""; 0]);
        let mode = fs::metadata(dir.path().join(NAME)).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o666, "for every user");
    }

    #[test]
    fn who_has_the_open_file_goes_on_in_a_place() {
        let dir = tempfile::tempdir().unwrap();
        let (mut mine, mut yours) = (Ledger::within(dir.path()), Ledger::within(dir.path()));
        enter(&mut mine, "mine");
        enter(&mut yours, "yours");
        let (life, place) = (yours.life().unwrap(), yours.own().unwrap());
        drop(yours.open.take());
        let mut kept = Ledger::inherited(File::from(life), place);
        assert_eq!(runs(&mut mine), ["yours"]);
        kept.write(&slot("what is left of it")).unwrap();
        assert_eq!(runs(&mut mine), ["what is left of it"]);
        drop(kept);
        assert_eq!(runs(&mut mine), [""; 0]);
    }

    #[test]
    fn what_others_wrote_is_not_believed() {
        let dir = tempfile::tempdir().unwrap();
        let (mut mine, mut yours) = (Ledger::within(dir.path()), Ledger::within(dir.path()));
        enter(&mut mine, "mine");
        enter(&mut yours, "yours");
        let file = File::options().write(true).open(dir.path().join(NAME)).unwrap();
        for nonsense in [&b"{"[..], b"nonsense", b"\xff\xff", br#"{"format":1}"#, br#"{"format":9,"run":"x"}"#] {
            let mut bytes = vec![b' '; SIZE];
            bytes[..nonsense.len()].copy_from_slice(nonsense);
            file.write_all_at(&bytes, SIZE as u64).unwrap();
            let seen = mine.look().unwrap();
            assert_eq!((seen.runs.len(), seen.nonsense), (0, BTreeSet::from([1])), "{nonsense:?}");
        }
        // Slots that nobody's lock stands for, and a file that is longer than it should be, or ends in the middle.
        file.write_all_at(&slot("dead").bytes(SIZE), 7 * SIZE as u64).unwrap();
        file.set_len(10 * (SLOTS * SIZE) as u64).unwrap();
        assert_eq!(mine.look().unwrap().nonsense, BTreeSet::from([1]));
        file.set_len(SIZE as u64 + 3).unwrap();
        assert!(mine.look().unwrap().runs.is_empty());
        file.set_len(0).unwrap();
        assert_eq!(mine.look().unwrap(), LedgerView::default());
        enter(&mut mine, "mine");
        assert_eq!(runs(&mut yours), ["mine"], "what was lost is said again");
    }

    #[test]
    fn a_ledger_that_is_removed_is_made_anew() {
        let dir = tempfile::tempdir().unwrap();
        let (mut mine, mut yours) = (Ledger::within(dir.path()), Ledger::within(dir.path()));
        enter(&mut mine, "mine");
        fs::remove_file(dir.path().join(NAME)).unwrap();
        enter(&mut yours, "yours");
        assert_eq!(runs(&mut yours), [""; 0]);
        enter(&mut mine, "mine");
        assert_eq!((runs(&mut yours), runs(&mut mine)), (vec!["mine".to_owned()], vec!["yours".to_owned()]));
    }

    #[test]
    fn what_is_no_ledger_is_said() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join(NAME);
        std::os::unix::fs::symlink(dir.path().join("elsewhere"), &path).unwrap();
        let said = |folder: &Path| {
            let why = Ledger::within(folder).enter().unwrap_err();
            why.replace(&*dir.path().to_string_lossy(), "TMP")
        };
        insta::assert_snapshot!(said(dir.path()), @"`TMP/flow-machine.ledger` cannot be used: it is a link, which flow does not follow; `rm TMP/flow-machine.ledger` makes room for a new one, or FLOW_GPU_LOCKS selects another folder, the same for all that share the machine");
        assert!(!dir.path().join("elsewhere").exists());
        insta::assert_snapshot!(said(&dir.path().join("nowhere")), @"`TMP/nowhere/flow-machine.ledger` cannot be used: no such file or directory; check the folder `TMP/nowhere`, or FLOW_GPU_LOCKS selects another folder, the same for all that share the machine");
    }

    #[test]
    fn there_are_so_many_places() {
        let dir = tempfile::tempdir().unwrap();
        let mut all: Vec<Ledger> = (0..=SLOTS).map(|_| Ledger::within(dir.path())).collect();
        let mut last = all.pop().unwrap();
        all.iter_mut().for_each(|ledger| enter(ledger, "one of many"));
        assert_eq!(runs(&mut all[0]).len(), SLOTS - 1);
        assert!(last.enter().unwrap_err().contains("256 runs"));
    }
}
