//! The snapshot of a workflow: all that a finished run depends on, so that the next run sees by `stat` calls alone
//! whether there is nothing to do. Also remembers digests of inputs. A cache: an unreadable one is ignored.

use std::{fs, path::PathBuf, sync::OnceLock, time::SystemTime};

use flow_core::{Artifact, ArtifactKind, Digest, Outcome, RunId, StepResult};
use nix::{
    fcntl::AtFlags,
    sys::stat::{SFlag, fstatat},
};
use serde::{Deserialize, Serialize};

use crate::{
    Inputs, Objects, Store,
    objects::STAMP,
    stamp::{Counts, Stamp, Stats, open_folder},
};
use flow_runs::{Result, StoreDir, file};

const HEAD: &[u8] = b"flow snapshot 5\n";

/// All that a finished run depends on.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Snapshot {
    key: Digest,
    run: RunId,
    inputs: Stats,
    published: Stats,
    /// Sorted, so that those in one folder are consecutive.
    objects: Vec<Object>,
    summary: String,
    /// The results of all instances in encoded form, decoded only if there is something to do.
    #[serde(skip)]
    results: Vec<u8>,
    /// What [`Snapshot::look_ahead`] found.
    #[serde(skip)]
    objects_hold: OnceLock<bool>,
}

/// An instance's result at the end of a run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SnapshotResult {
    /// The digest of its inputs, in the caller's form.
    pub inputs: Digest,
    pub fingerprint: Digest,
    pub outcome: Outcome,
    /// The run that produced its result.
    pub from: RunId,
    /// The software environment of its result.
    pub environment: Option<Digest>,
    objects: Vec<Object>,
}

impl SnapshotResult {
    /// For an instance with these inputs and this result.
    pub fn of(result: &StepResult, inputs: Digest) -> SnapshotResult {
        let (fingerprint, outcome, from) = (result.fingerprint, result.outcome, result.run.clone());
        let environment = result.circumstances.environment;
        let objects = result.outputs.values().map(Object::of).collect();
        SnapshotResult { inputs, fingerprint, outcome, from, environment, objects }
    }
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
struct Object {
    digest: Digest,
    folder: bool,
    bytes: u64,
}

impl Object {
    fn of(artifact: &Artifact) -> Object {
        let folder = artifact.kind == ArtifactKind::Folder;
        Object { digest: artifact.digest, folder, bytes: artifact.bytes }
    }
}

/// The data of a finished run, for [`Snapshot::of`].
pub struct FinishedRun<'a> {
    /// The digest of everything else in the plan: the workflow's text, parameters, plugins, machine, flow's version.
    pub key: Digest,
    pub run: &'a RunId,
    /// The result of each instance of its workflow, by number.
    pub results: Vec<Option<SnapshotResult>>,
    /// Files that it published, absolute.
    pub published: &'a [PathBuf],
    /// What the next run shows if there is nothing to do, in the driver's own form.
    pub summary: String,
}

impl Snapshot {
    /// The snapshot of a run that has ended; `now` is the present time. A missing published file makes the next run
    /// look closer.
    pub fn of(rested: FinishedRun<'_>, inputs: &Inputs, now: SystemTime) -> Snapshot {
        let mut published = Stats::default();
        for path in rested.published {
            published.file(path, fs::metadata(path).map_or(Stamp::NEVER, |meta| Stamp::of(&meta)), Counts::Unread);
        }
        let mut objects: Vec<Object> =
            rested.results.iter().flatten().flat_map(|stood| &stood.objects).cloned().collect();
        objects.sort();
        objects.dedup();
        Snapshot {
            key: rested.key,
            run: rested.run.clone(),
            inputs: inputs.settle(now),
            published,
            objects,
            summary: rested.summary,
            results: postcard::to_stdvec(&rested.results).unwrap_or_default(),
            objects_hold: OnceLock::new(),
        }
    }

    /// The snapshot with this name, if it exists and is readable.
    pub fn load(dir: &StoreDir, name: &str) -> Option<Snapshot> {
        let bytes = file::read(&dir.snapshot(name)).ok()?;
        let (snapshot, results) = postcard::take_from_bytes::<Snapshot>(bytes.strip_prefix(HEAD)?).ok()?;
        Some(Snapshot { results: results.to_vec(), ..snapshot })
    }

    /// Saves it under this name, in place of an earlier one.
    ///
    /// # Errors
    /// The disk is full, or the store cannot be written.
    pub fn save(&self, dir: &StoreDir, name: &str) -> Result<()> {
        let mut bytes = HEAD.to_vec();
        bytes.extend(postcard::to_stdvec(self).unwrap_or_default());
        bytes.extend(&self.results);
        dir.write_atomically(&dir.snapshot(name), &bytes)
    }

    /// The run that made it.
    pub fn run(&self) -> &RunId {
        &self.run
    }

    /// The files that it published and that nobody changed since, as far as `stat` shows.
    pub fn unchanged_published(&self) -> impl Iterator<Item = PathBuf> {
        self.published.unchanged()
    }

    /// The text to show if it still holds.
    pub fn summary(&self) -> &str {
        &self.summary
    }

    /// True if nothing has changed, as far as `stat` shows, and `key` is the same: there is nothing to do.
    pub fn still_holds(&self, dir: &StoreDir, key: &Digest) -> bool {
        self.key == *key && self.inputs.hold() && self.published.hold() && self.objects_hold(dir)
    }

    /// Looks at the artifacts before [`Snapshot::results`] needs them, while the caller's other thread is busy. Does nothing
    /// if another process may change the store meanwhile.
    pub fn look_ahead(&self, store: &Store) {
        if self.is_last_of(store).unwrap_or(false) {
            self.objects_hold.get_or_init(|| self.objects_hold(store.dir()));
        }
    }

    /// True if nothing was recorded in the store since.
    fn is_last_of(&self, store: &Store) -> Result<bool> {
        Ok(store.rebuilt().is_none() && store.is_unchanged_since(&self.run)?)
    }

    /// The result of each instance, by number. Empty unless these are reliable: `key` is the same, nothing was recorded
    /// in the store since, and all artifacts exist as far as `stat` shows.
    ///
    /// # Errors
    /// The database cannot be read.
    pub fn results(&self, store: &Store, key: &Digest) -> Result<Vec<Option<SnapshotResult>>> {
        let objects_hold = || self.objects_hold.get().copied().unwrap_or_else(|| self.objects_hold(store.dir()));
        if self.key != *key || !self.is_last_of(store)? || !objects_hold() {
            return Ok(Vec::new());
        }
        Ok(postcard::from_bytes(&self.results).unwrap_or_default())
    }

    fn objects_hold(&self, dir: &StoreDir) -> bool {
        let objects = Objects::of(dir);
        let root = objects.root().to_owned();
        self.objects.chunk_by(|a, b| a.digest.0[0] == b.digest.0[0]).all(|shelf| {
            let Some(first) = shelf.first() else { return true };
            let Ok(fd) = open_folder(&root.join(format!("{:02x}", first.digest.0[0]))) else { return false };
            shelf.iter().all(|object| {
                let hex = object.digest.to_string();
                fstatat(&fd, &hex[2..], AtFlags::AT_SYMLINK_NOFOLLOW).is_ok_and(|stat| {
                    let kind = SFlag::from_bits_truncate(stat.st_mode) & SFlag::S_IFMT;
                    let sound = if object.folder {
                        kind == SFlag::S_IFDIR && objects.has_its_names(&object.digest)
                    } else {
                        kind == SFlag::S_IFREG && stat.st_size.cast_unsigned() == object.bytes
                    };
                    sound && stat.st_mtime == STAMP
                })
            })
        })
    }
}

impl Inputs {
    /// Uses the digests of the last snapshot, if there is one. Lists of input folders are kept in `objects`, for a
    /// later `flow why`. `now` is the time at which the run began.
    pub fn new(objects: Option<Objects>, previous: Option<&Snapshot>, now: SystemTime) -> Inputs {
        let known = previous.into_iter().flat_map(|snapshot| snapshot.inputs.known_files());
        Inputs::knowing(known.collect(), objects, now)
    }
}
