//! The record of an engine and its keeper, written before they start a process, for the next user of the store if both
//! are killed. Signals nobody.

use std::{
    fs,
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
};

use flow_runs::{Liveness, ProcessIdentity};
use serde::{Deserialize, Serialize};

use super::tree::Mark;

/// The file in a run's folder, and the suffix of the file next to a plugin that is being set up.
const FILE: &str = "keeper.json";

/// An engine and its keeper. The keeper removes it when none of its processes is left.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Record {
    pub(super) engine: ProcessIdentity,
    pub(super) keeper: ProcessIdentity,
}

/// A record whose engine and keeper are dead.
pub(super) struct OrphanRecord {
    path: PathBuf,
    /// Its owner, in words.
    pub(super) of: String,
    pub(super) keeper: ProcessIdentity,
    /// The user who wrote it.
    pub(super) user: u32,
}

impl Record {
    /// Removes the record of this keeper's engine, unless another one has written there since.
    pub(super) fn remove(path: &Path, keeper: &ProcessIdentity) {
        if read(path).is_some_and(|record| record.keeper == *keeper) {
            let _ = fs::remove_file(path);
        }
    }
}

fn read(path: &Path) -> Option<Record> {
    serde_json::from_slice(&fs::read(path).ok()?).ok()
}

/// The path of a run's record.
pub fn of_run(run: &Path) -> PathBuf {
    run.join(FILE)
}

/// The path of the record for a plugin's set-up.
pub fn of_plugin(note: &Path) -> PathBuf {
    note.with_extension(FILE)
}

/// Records of a store whose keepers were killed together with their engines. A keeper or engine that lives, or cannot
/// be seen from here, does not count.
pub(super) fn lost(store: &Path) -> Vec<OrphanRecord> {
    let listed = |folder: &str| fs::read_dir(store.join(folder)).into_iter().flatten().flatten();
    let name = |path: &Path| path.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let runs = listed("runs").map(|run| (of_run(&run.path()), format!("run {}", name(&run.path()))));
    let plugins = listed("plugins").filter_map(|entry| {
        let plugin = name(&entry.path()).strip_suffix(FILE)?.trim_end_matches('.').to_owned();
        Some((entry.path(), format!("the set-up of plugin {plugin}")))
    });
    runs.chain(plugins).filter_map(|(path, of)| OrphanRecord::read(path, of)).collect()
}

impl OrphanRecord {
    fn read(path: PathBuf, of: String) -> Option<OrphanRecord> {
        let user = path.symlink_metadata().ok().filter(|meta| meta.is_file())?.uid();
        let Record { engine, keeper } = read(&path)?;
        let dead = [&engine, &keeper].into_iter().all(|process| process.liveness() == Liveness::Dead);
        // If another keeper happens to have the same number and start bits, its attempts have the same mark.
        let again = ProcessIdentity::of(keeper.pid)
            .is_some_and(|now| now.started != keeper.started && Mark::of(&now) == Mark::of(&keeper));
        (dead && !again).then_some(OrphanRecord { path, of, keeper, user })
    }

    /// Nothing of it is left: removes the record.
    pub(super) fn settle(&self) {
        let _ = fs::remove_file(&self.path);
    }
}
