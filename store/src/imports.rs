//! Results of other machines: each import is a journal in a folder like a run's. The database does not contain them, so
//! that they are never found by fingerprint and need no rebuild.
//!
//! The run that it carries becomes a workspace in that folder, with a small store: what reads a run reads this one.
//! That store has journals and objects, and never a database.

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
};

use flow_core::{Bundle, BundledRun, Digest, Foreign, JournalLine, Origin, RunEvent, RunId, reason::StoreAction};
use nix::errno::Errno;

use crate::Objects;
use flow_runs::{Result, RunDir, StoreDir, StoreError, tree::remove_tree};

/// The workspace of an imported run, in the folder of the import, and the store in it.
const WORKSPACE: &str = "workspace";
const STORE: &str = ".flow";
/// A file that marks the store of an import.
const MARK: &str = "imported";

/// An imported file.
#[derive(Clone, Debug, PartialEq)]
pub struct Import {
    /// The name of its folder, in the form of a run id.
    pub id: RunId,
    /// Time of the import, milliseconds since 1970.
    pub at: u64,
    /// The origin of the results.
    pub origin: Origin,
    pub bundle: Digest,
    pub results: u32,
}

impl Import {
    /// All imports, oldest first.
    ///
    /// # Errors
    /// A journal exists and cannot be read.
    pub fn all(dir: &StoreDir) -> Result<Vec<Import>> {
        let mut found = Vec::new();
        for id in dir.runs()? {
            if let Some(JournalLine { at, event: RunEvent::Imported { origin, bundle, results } }) =
                dir.run(&id).first_line()?
            {
                found.push(Import { id, at, origin: *origin, bundle, results });
            }
        }
        Ok(found)
    }

    /// The results of imports. A result that was imported twice counts once, in its latest form and under its latest name.
    ///
    /// # Errors
    /// A journal cannot be read.
    pub fn results(dir: &StoreDir, imports: &[Import]) -> Result<Vec<Foreign>> {
        let mut found: Vec<Foreign> = Vec::new();
        for import in imports {
            let host = &import.origin.host;
            dir.run(&import.id).read_journal(|line| {
                let RunEvent::Foreign { result } = line.event else { return };
                let same =
                    |told: &Foreign| told.result.run == result.run && told.result.fingerprint == result.fingerprint;
                found.retain(|told| !same(told));
                found.push(Foreign { host: host.clone(), result: *result });
            })?;
        }
        Ok(found)
    }

    /// Imports a bundle completely or not at all, under an unused name: `name` gets all existing names. `None` if it
    /// was imported before under the same name of its machine. The caller uses the store.
    ///
    /// # Errors
    /// The disk is full; the store cannot be written.
    pub fn add(
        dir: &StoreDir,
        bundle: Bundle,
        at: u64,
        mut name: impl FnMut(&[RunId]) -> RunId,
    ) -> std::result::Result<Option<RunId>, StoreError> {
        let is_here = |import: &Import| import.bundle == bundle.digest && import.origin.host == bundle.origin.host;
        if Import::all(dir)?.iter().any(is_here) {
            return Ok(None);
        }
        let Bundle { origin, results, run, digest } = bundle;
        let count = results.len() as u32;
        let first = RunEvent::Imported { origin: Box::new(origin), bundle: digest, results: count };
        let told = results.into_iter().map(|result| RunEvent::Foreign { result: Box::new(result) });
        let lines: Vec<JournalLine> =
            std::iter::once(first).chain(told).map(|event| JournalLine { at, event }).collect();
        // If a kill leaves it, the next process that has the store alone removes it.
        let half = dir.temporary(&dir.path().join("objects/tmp"));
        let made = dir.run_at(&half).create().and_then(|journal| journal.add(&lines, true));
        let unpacked = made.and_then(|_| unpack(dir, run, &half.join(WORKSPACE)));
        let placed = unpacked.and_then(|()| place(dir, &half, &mut name));
        if placed.is_err() {
            drop(remove_tree(&half));
        }
        // The snapshots say that there is nothing to do.
        dir.drop_snapshots()?;
        placed.map(Some)
    }

    /// True for the store of an imported run, which has no database and gets none.
    pub fn is_store(dir: &StoreDir) -> bool {
        dir.path().join(MARK).exists()
    }

    /// Removes it.
    ///
    /// # Errors
    /// It belongs to another user; it cannot be removed.
    pub fn remove(&self, dir: &StoreDir) -> Result<()> {
        remove_tree(dir.run(&self.id).path())?;
        dir.drop_snapshots()
    }

    /// The workspace of the run that was imported as `import`, and its folder in the store there; `None` for a run.
    ///
    /// # Errors
    /// The store there cannot be read.
    pub fn run_in(import: &RunDir) -> Result<Option<(PathBuf, RunDir)>> {
        let workspace = import.path().join(WORKSPACE);
        let Some(store) = StoreDir::existing(&workspace.join(STORE))? else { return Ok(None) };
        let Some(JournalLine { event: RunEvent::Imported { origin, .. }, .. }) = import.first_line()? else {
            return Ok(None);
        };
        let run = store.run(&origin.run);
        Ok(Some((workspace, run)))
    }
}

/// Gives a run's folder an unused name.
fn place(dir: &StoreDir, half: &Path, name: &mut dyn FnMut(&[RunId]) -> RunId) -> Result<RunId> {
    /// Other runs may start at the same time, but not more often than this.
    const TRIES: usize = 100;
    for _ in 0..TRIES {
        let id = name(&dir.runs()?);
        let to = dir.run(&id);
        match fs::rename(half, to.path()) {
            Ok(()) => return Ok(id),
            Err(e) if e.raw_os_error() == Some(Errno::ENOTEMPTY as i32) => {}
            Err(e) => return Err(StoreError::io(StoreAction::Write, to.path())(e)),
        }
    }
    Err(StoreError::io(StoreAction::Create, half)(Errno::EEXIST.into()))
}

/// Makes a workspace from a bundle's content. Its paths were checked when it was read.
fn unpack(dir: &StoreDir, mut run: BundledRun, root: &Path) -> Result<()> {
    let store = StoreDir::create(&root.join(STORE))?;
    // With the permissions of this store.
    let same = fs::metadata(dir.path()).and_then(|own| fs::set_permissions(store.path(), own.permissions()));
    same.map_err(StoreError::io(StoreAction::Create, store.path()))?;
    for (path, text) in &run.files {
        write(&root.join(path), text)?;
    }
    write(&store.path().join(MARK), "")?;
    let work = store.temporary(&store.path().join("objects/tmp"));
    fs::create_dir(&work).map_err(StoreError::io(StoreAction::Create, &work))?;
    let work = work.canonicalize().map_err(StoreError::io(StoreAction::Find, &work))?;
    let mut placed = BTreeMap::new();
    for (digest, files) in &run.objects {
        let to = work.join(digest.to_string());
        for (path, text) in files {
            write(&if path.is_empty() { to.clone() } else { to.join(path) }, text)?;
        }
        placed.insert(*digest, Objects::of(&store).ingest(&to, &work)?);
    }
    remove_tree(&work)?;
    run.placed(&placed);
    for (id, lines) in &run.journals {
        store.run(id).create()?.append(lines)?;
    }
    store.sync_all()
}

fn write(path: &Path, text: &str) -> Result<()> {
    let folder = path.parent().unwrap_or(path);
    fs::create_dir_all(folder).and_then(|()| fs::write(path, text)).map_err(StoreError::io(StoreAction::Write, path))
}
