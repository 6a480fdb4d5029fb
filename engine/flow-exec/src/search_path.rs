//! Finds programs on a `PATH`, as a shell does.

use flow_supervisor::clock;
use std::{
    collections::BTreeMap,
    env, fs,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
    sync::{Mutex, PoisonError},
    time::{Duration, Instant},
};

use crate::site_packages::{FolderStamp, folder_stamp};

/// A program file.
#[derive(Clone, Debug)]
pub(crate) struct ProgramPath {
    /// Where the name leads.
    pub(crate) at: PathBuf,
    /// The same without links.
    pub(crate) real: PathBuf,
}

impl ProgramPath {
    fn of(at: PathBuf) -> Option<ProgramPath> {
        let real = fs::canonicalize(&at).ok()?;
        Some(ProgramPath { at, real })
    }
}

/// The file that this name starts. A path relative to the work folder is an input or unknown.
pub(crate) fn resolve(name: &str, path: &str) -> Option<ProgramPath> {
    if name.contains('/') {
        return Some(PathBuf::from(name)).filter(|at| at.is_absolute() && is_program(at)).and_then(ProgramPath::of);
    }
    let mut searches = SEARCHES.lock().unwrap_or_else(PoisonError::into_inner);
    if !searches.contains_key(path) {
        // Few paths differ.
        searches.retain(|_, search| clock::since(search.began) < LONGEST);
        searches.insert(path.to_owned(), Search::new(path));
    }
    searches.get_mut(path)?.find(name)
}

/// Looks at all folders again. File times are too coarse for what a test does within a millisecond.
#[cfg(test)]
pub(crate) fn forget() {
    SEARCHES.lock().unwrap_or_else(PoisonError::into_inner).clear();
}

fn is_program(at: &Path) -> bool {
    fs::metadata(at).is_ok_and(|meta| meta.is_file() && meta.permissions().mode() & 0o111 != 0)
}

/// The last searches, by `PATH`. The commands of a sweep have most words in common.
static SEARCHES: Mutex<BTreeMap<String, Search>> = Mutex::new(BTreeMap::new());

/// A search looks at its folders again after this time: a step that makes a program takes longer.
const FRESH: Duration = Duration::from_millis(5);
/// It ends after this time, because a change of a file's mode does not change the folder.
const LONGEST: Duration = Duration::from_secs(1);

/// What was found in the folders of a `PATH`.
struct Search {
    folders: Vec<PathBuf>,
    stamps: Vec<Option<FolderStamp>>,
    found: BTreeMap<String, Option<ProgramPath>>,
    began: Instant,
    looked: Instant,
}

impl Search {
    fn new(path: &str) -> Search {
        let folders: Vec<PathBuf> = env::split_paths(path).filter(|dir| dir.is_absolute()).collect();
        let now = clock::steady();
        Search { stamps: stamps(&folders), folders, found: BTreeMap::new(), began: now, looked: now }
    }

    fn find(&mut self, name: &str) -> Option<ProgramPath> {
        if clock::since(self.looked) > FRESH {
            let stamps = stamps(&self.folders);
            self.looked = clock::steady();
            let is_over = stamps != self.stamps || clock::since(self.began) > LONGEST;
            if is_over || stamps.iter().flatten().any(is_recent) {
                (self.stamps, self.began) = (stamps, self.looked);
                self.found.clear();
            }
        }
        if let Some(found) = self.found.get(name) {
            return found.clone();
        }
        let found = self.folders.iter().map(|dir| dir.join(name)).find(|at| is_program(at)).and_then(ProgramPath::of);
        self.found.insert(name.to_owned(), found.clone());
        found
    }
}

/// True if another change could have the same time, because the kernel's times are coarse.
fn is_recent((_, _, [.., changed, _]): &FolderStamp) -> bool {
    clock::unix_seconds() - (*changed as f64) < 2.0
}

fn stamps(folders: &[PathBuf]) -> Vec<Option<FolderStamp>> {
    folders.iter().map(|folder| folder_stamp(folder)).collect()
}
