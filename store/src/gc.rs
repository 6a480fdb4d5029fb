//! `flow gc`: removes what no recent run reaches. Marks from the journals of the runs that stay, sweeps the database first and
//! the artifacts after it, so that a kill in between leaves nothing that points nowhere.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    os::unix::fs::MetadataExt,
    path::Path,
};

use flow_core::{Digest, RunEvent, RunId};
use serde_json::Value;

use crate::{Batch, Result, Snapshot, Store, StoreError, objects::remove_tree};

/// Which runs stay.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Keep {
    /// The newest of each workflow file, so many.
    pub runs: usize,
    /// And all that began at or after this time, milliseconds since 1970.
    pub since: Option<u64>,
}

/// What `flow gc` removed, or would.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Freed {
    /// Runs whose attempts' folders went, with everything that only they had reached.
    pub runs: usize,
    /// Results.
    pub results: usize,
    /// Artifacts, and lists of input folders.
    pub objects: usize,
    /// Bytes of all that.
    pub bytes: u64,
    /// Runs that stay.
    pub kept: usize,
}

impl Store {
    /// Removes what only runs reach that are not to be kept; with `dry` only says what that would be. The caller holds the
    /// store, so that no run is alive that could use any of it.
    ///
    /// # Errors
    /// Something cannot be read or removed. What is kept is whole in any case.
    pub fn gc(&self, keep: Keep, dry: bool) -> Result<Freed> {
        let runs = self.marked_runs(keep)?;
        let mut freed = Freed::default();

        let mut reached = BTreeSet::new();
        for run in runs.iter().filter(|run| run.stays) {
            freed.kept += usize::from(!run.accepts);
            reached.extend(run.reuses.iter().chain(&run.records).copied());
        }
        let mut batch = Batch::new();
        let mut objects = BTreeSet::new();
        let mut kept = BTreeSet::new();
        self.each_result(|result| {
            if reached.contains(&result.fingerprint) {
                objects.extend(result.outputs.values().map(|artifact| artifact.digest));
                objects.extend(result.series);
                kept.insert(result.fingerprint);
            } else {
                batch.forget(&result.fingerprint);
            }
        })?;
        freed.results = batch.forgotten.len();
        let staying: BTreeSet<&RunId> = runs.iter().filter(|run| run.stays).map(|run| &run.id).collect();
        let mut gone = Vec::new();
        self.each_last(|workflow, label, last| {
            if reached.contains(&last.fingerprint) || staying.contains(&last.run) {
                digests_in(&last.parts, &mut objects);
            } else {
                gone.push((workflow.to_owned(), label.to_owned()));
            }
        })?;
        if !dry {
            self.apply(&batch)?;
            self.forget_last(gone.iter().map(|(workflow, label)| (workflow.as_str(), label.as_str())))?;
        }
        self.each_value_object(|digest| _ = objects.insert(digest))?;

        for run in runs.iter().filter(|run| !run.stays) {
            let folder = self.dir().run(&run.id);
            // A rebuild of the database needs the journals of what is kept.
            let needed = run.records.iter().any(|fingerprint| kept.contains(fingerprint));
            let path = if needed { folder.path().join("attempts") } else { folder.path().to_owned() };
            let bytes = free(&path, dry)?;
            freed.runs += usize::from(!run.accepts && (bytes > 0 || !needed));
            freed.bytes += bytes;
        }
        self.sweep_snapshots(&staying, dry, &mut freed)?;
        let mut unmarked = BTreeSet::new();
        self.objects().each(|digest| {
            if !objects.contains(&digest) {
                unmarked.insert(digest);
            }
        })?;
        for digest in &unmarked {
            freed.bytes += if dry { self.objects().size_of(digest)? } else { self.objects().remove(digest)? };
        }
        freed.objects = unmarked.len();
        Ok(freed)
    }

    /// Every run with what it reaches, and whether it stays.
    fn marked_runs(&self, keep: Keep) -> Result<Vec<Run>> {
        let mut runs = Vec::new();
        for id in self.dir().runs()? {
            let (file, records, reuses) = (String::new(), Vec::new(), Vec::new());
            let mut run = Run { id, file, began: 0, accepts: false, records, reuses, stays: false };
            let read = self.dir().run(&run.id).read_journal(|line| match line.event {
                RunEvent::RunStarted(start) => (run.file, run.began) = (start.file, line.at),
                RunEvent::Accepted { file, .. } => (run.file, run.began, run.accepts) = (file, line.at, true),
                RunEvent::Cached { fingerprint, .. } => run.reuses.push(fingerprint),
                RunEvent::Recorded { result, .. } => run.records.push(result.fingerprint),
                _ => {}
            });
            match read {
                Err(StoreError::Io { source, .. }) if source.kind() == std::io::ErrorKind::NotFound => {}
                read => _ = read?,
            }
            runs.push(run);
        }
        let mut newest: BTreeMap<String, usize> = BTreeMap::new();
        for run in runs.iter_mut().rev() {
            let rank = newest.entry(run.file.clone()).or_default();
            run.stays = *rank < keep.runs || keep.since.is_some_and(|since| run.began >= since);
            // What was accepted stays as long as the run before it.
            *rank += usize::from(!run.accepts);
        }
        Ok(runs)
    }

    /// A snapshot of a run that goes would claim what is not there; it goes too.
    fn sweep_snapshots(&self, staying: &BTreeSet<&RunId>, dry: bool, freed: &mut Freed) -> Result<()> {
        let folder = self.dir().snapshot("");
        for entry in fs::read_dir(&folder).map_err(StoreError::io("read", &folder))?.flatten() {
            let name = entry.file_name();
            let stays = name
                .to_str()
                .and_then(|name| Snapshot::load(self.dir(), name))
                .is_some_and(|snapshot| staying.contains(snapshot.run()));
            if !stays {
                freed.bytes += free(&entry.path(), dry)?;
            }
        }
        Ok(())
    }
}

struct Run {
    id: RunId,
    file: String,
    began: u64,
    /// It is no run, but a `flow accept`.
    accepts: bool,
    records: Vec<Digest>,
    reuses: Vec<Digest>,
    stays: bool,
}

/// Removes a file or a folder, or only says how much that would free.
fn free(path: &Path, dry: bool) -> Result<u64> {
    if dry { tree_size(path) } else { remove_tree(path) }
}

/// Bytes that removing a file or folder would free.
pub(crate) fn tree_size(path: &Path) -> Result<u64> {
    let Ok(meta) = fs::symlink_metadata(path) else { return Ok(0) };
    if !meta.is_dir() {
        return Ok(if meta.nlink() == 1 { meta.len() } else { 0 });
    }
    let mut sum = 0;
    for entry in fs::read_dir(path).map_err(StoreError::io("read", path))? {
        sum += tree_size(&entry.map_err(StoreError::io("read", path))?.path())?;
    }
    Ok(sum)
}

/// Digests that a fingerprint's parts name: of input folders, whose lists are kept for `flow why`.
fn digests_in(parts: &Value, found: &mut BTreeSet<Digest>) {
    match parts {
        Value::String(text) => found.extend(text.parse::<Digest>().ok()),
        Value::Array(items) => items.iter().for_each(|item| digests_in(item, found)),
        Value::Object(fields) => fields.values().for_each(|item| digests_in(item, found)),
        _ => {}
    }
}
