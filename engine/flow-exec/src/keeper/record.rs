//! Who starts processes for a store: an engine and its keeper, written down before the first is started, for whoever comes when both were
//! killed. Signals nobody.

use std::{
    fs,
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
};

use flow_store::{Liveness, ProcessIdentity};
use serde::{Deserialize, Serialize};

use super::tree::Mark;
use crate::attempt::write_atomically;

/// The file in the folder of a run, and the end of its name beside a plugin that is set up.
const FILE: &str = "keeper.json";

/// An engine and its keeper, which removes it when nothing is left of what it started.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Record {
    pub(super) engine: ProcessIdentity,
    pub(super) keeper: ProcessIdentity,
    /// The engine is gone, and what had ended well before stands where the next one looks for it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(super) is_settled: bool,
}

/// A record of which both are dead.
pub(super) struct Lost {
    path: PathBuf,
    /// Of what it is, in words.
    pub(super) of: String,
    pub(super) keeper: ProcessIdentity,
    /// The user who wrote it down.
    pub(super) user: u32,
}

/// The keeper of a run may be about to write down what had ended well before its engine was gone.
pub(crate) fn is_unsettled(run: &Path) -> bool {
    read(&of_run(run)).is_some_and(|record| !record.is_settled && record.keeper.standing() == Liveness::Alive)
}

impl Record {
    /// Everything that had ended is written down.
    pub(super) fn settled(path: &Path, keeper: &ProcessIdentity) {
        if let Some(record) = read(path).filter(|record| record.keeper == *keeper) {
            let bytes = serde_json::to_vec(&Record { is_settled: true, ..record }).unwrap_or_default();
            // Where it cannot be written this process is waited for.
            let _ = write_atomically(path, &bytes);
        }
    }

    /// Removes what this keeper's engine wrote; another may have written there since.
    pub(super) fn remove(path: &Path, keeper: &ProcessIdentity) {
        if read(path).is_some_and(|record| record.keeper == *keeper) {
            let _ = fs::remove_file(path);
        }
    }
}

fn read(path: &Path) -> Option<Record> {
    serde_json::from_slice(&fs::read(path).ok()?).ok()
}

/// Where the record of a run lies.
pub(crate) fn of_run(run: &Path) -> PathBuf {
    run.join(FILE)
}

/// Where that of setting up a plugin lies.
pub(crate) fn of_plugin(note: &Path) -> PathBuf {
    note.with_extension(FILE)
}

/// What keepers of a store that were killed together with their engines may have left. A keeper or an engine that lives, or that
/// cannot be seen from here, has lost nothing.
pub(super) fn lost(store: &Path) -> Vec<Lost> {
    let listed = |folder: &str| fs::read_dir(store.join(folder)).into_iter().flatten().flatten();
    let name = |path: &Path| path.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let runs = listed("runs").map(|run| (of_run(&run.path()), format!("run {}", name(&run.path()))));
    let plugins = listed("plugins").filter_map(|entry| {
        let plugin = name(&entry.path()).strip_suffix(FILE)?.trim_end_matches('.').to_owned();
        Some((entry.path(), format!("the set-up of plugin {plugin}")))
    });
    runs.chain(plugins).filter_map(|(path, of)| Lost::read(path, of)).collect()
}

impl Lost {
    fn read(path: PathBuf, of: String) -> Option<Lost> {
        let user = path.symlink_metadata().ok().filter(|meta| meta.is_file())?.uid();
        let Record { engine, keeper, .. } = read(&path)?;
        let dead = [&engine, &keeper].into_iter().all(|process| process.standing() == Liveness::Dead);
        // Another keeper by chance has both the number and the bits of the start: its attempts bear the same mark.
        let again = ProcessIdentity::of(keeper.pid)
            .is_some_and(|now| now.started != keeper.started && Mark::of(&now) == Mark::of(&keeper));
        (dead && !again).then_some(Lost { path, of, keeper, user })
    }

    /// Nothing of it is left.
    pub(super) fn settle(&self) {
        let _ = fs::remove_file(&self.path);
    }
}
