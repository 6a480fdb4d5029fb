//! Results of other machines: each file that was taken in is a journal of its own, in the folder of a run that never was. Nothing of
//! them is in the database, so that none is ever found under a fingerprint, and there is nothing to be rebuilt.

use std::fs;

use flow_core::{Bundle, Digest, Foreign, JournalLine, Origin, RunEvent, RunId, reason::StoreAction};
use nix::errno::Errno;

use crate::{Result, StoreDir, StoreError, objects::remove_tree};

/// A file that was taken in.
#[derive(Clone, Debug, PartialEq)]
pub struct Import {
    /// What its folder is called, as a run is.
    pub id: RunId,
    /// When, milliseconds since 1970.
    pub at: u64,
    /// Whose results these are.
    pub origin: Origin,
    pub bundle: Digest,
    pub results: u32,
}

impl StoreDir {
    /// All files that were taken in, oldest first.
    ///
    /// # Errors
    /// A journal that is there cannot be read.
    pub fn imports(&self) -> Result<Vec<Import>> {
        let mut found = Vec::new();
        for id in self.runs()? {
            if let Some(JournalLine { at, event: RunEvent::Imported { origin, bundle, results } }) =
                self.run(&id).first_line()?
            {
                found.push(Import { id, at, origin: *origin, bundle, results });
            }
        }
        Ok(found)
    }

    /// What files tell that were taken in: what a machine told twice counts once, as it was told last.
    ///
    /// # Errors
    /// A journal cannot be read.
    pub fn imported(&self, imports: &[Import]) -> Result<Vec<Foreign>> {
        let mut found: Vec<Foreign> = Vec::new();
        for import in imports {
            let host = &import.origin.host;
            self.run(&import.id).read_journal(|line| {
                let RunEvent::Foreign { result } = line.event else { return };
                let same = |told: &Foreign| {
                    told.host == *host && told.result.run == result.run && told.result.fingerprint == result.fingerprint
                };
                found.retain(|told| !same(told));
                found.push(Foreign { host: host.clone(), result: *result });
            })?;
        }
        Ok(found)
    }

    /// Takes a file in, whole or not at all, under a name that no run has: `name` is asked for one, given those that are there.
    /// `None` where it was taken in before. Who calls uses the store.
    ///
    /// # Errors
    /// The disk is full; the store cannot be written.
    pub fn import(
        &self,
        bundle: Bundle,
        at: u64,
        mut name: impl FnMut(&[RunId]) -> RunId,
    ) -> std::result::Result<Option<RunId>, StoreError> {
        if self.imports()?.iter().any(|import| import.bundle == bundle.digest) {
            return Ok(None);
        }
        let Bundle { origin, results, digest } = bundle;
        let count = results.len() as u32;
        let first = RunEvent::Imported { origin: Box::new(origin), bundle: digest, results: count };
        let told = results.into_iter().map(|result| RunEvent::Foreign { result: Box::new(result) });
        let lines: Vec<JournalLine> =
            std::iter::once(first).chain(told).map(|event| JournalLine { at, event }).collect();
        // Where a kill leaves it the next one that has the store alone removes it.
        let half = self.temporary(&self.path().join("objects/tmp"));
        let made = self.run_at(&half).create().and_then(|journal| journal.add(&lines, true));
        let placed = made.and_then(|_| self.place(&half, &mut name));
        if placed.is_err() {
            drop(remove_tree(&half));
        }
        // They say that there is nothing to do.
        self.drop_snapshots()?;
        placed.map(Some)
    }

    /// Gives a folder of a run a name that no other has.
    fn place(&self, half: &std::path::Path, name: &mut dyn FnMut(&[RunId]) -> RunId) -> Result<RunId> {
        /// Runs begin meanwhile; more often than this they do not.
        const TRIES: usize = 100;
        for _ in 0..TRIES {
            let id = name(&self.runs()?);
            let to = self.run(&id);
            match fs::rename(half, to.path()) {
                Ok(()) => return Ok(id),
                Err(e) if e.raw_os_error() == Some(Errno::ENOTEMPTY as i32) => {}
                Err(e) => return Err(StoreError::io(StoreAction::Write, to.path())(e)),
            }
        }
        Err(StoreError::io(StoreAction::Create, half)(Errno::EEXIST.into()))
    }

    /// Drops a file that was taken in.
    ///
    /// # Errors
    /// It is somebody else's; it cannot be removed.
    pub fn forget_import(&self, import: &Import) -> Result<()> {
        remove_tree(self.run(&import.id).path())?;
        self.drop_snapshots()
    }
}
