//! Content digests of a workflow's inputs, at the price of a `stat` where a file is as it was at the last run.
//!
//! A digest from an earlier run is trusted if length, inode, and the times of content and of change are the same. A file that
//! was changed just before it was read could be changed again within one tick of its file system's clock and look the same:
//! such digests hold for this run only, unless [`Inputs::settle`] can read the file again later.

use std::{
    collections::{BTreeMap, HashMap},
    fs::{self, Metadata},
    path::{Path, PathBuf},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::SystemTime,
};

use flow_core::{ArtifactKind, Digest};

use crate::{
    Manifest, Objects, Result, StoreError,
    hash::{self, FolderEntry, FoundKind, Links},
    stamp::{Counts, Stamp, Stats},
};

/// The content of an input.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tree {
    /// Its digest; of a folder hashed by listing, that of its names and sizes.
    pub digest: Digest,
    /// File or folder.
    pub kind: ArtifactKind,
    /// Files in it; 1 for a file.
    pub files: u64,
    pub bytes: u64,
}

/// The inputs of one run, each hashed once. Several threads may ask at once; while one hashes, others have their answers.
pub struct Inputs {
    objects: Option<Objects>,
    now: i64,
    known: HashMap<PathBuf, (Stamp, Digest)>,
    seen: Mutex<BTreeMap<(PathBuf, bool), Arc<StampedInput>>>,
}

struct StampedInput {
    tree: Tree,
    files: Vec<SeenFile>,
}

/// One file or folder that an input consists of.
#[derive(Clone)]
struct SeenFile {
    path: PathBuf,
    stamp: Stamp,
    what: SeenKind,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum SeenKind {
    Folder,
    /// Its content counts.
    Content(Digest),
    /// Its length counts.
    Length,
}

impl Inputs {
    /// Files whose digest is known, with the stamp that they had then.
    pub(crate) fn knowing(
        known: HashMap<PathBuf, (Stamp, Digest)>,
        objects: Option<Objects>,
        now: SystemTime,
    ) -> Inputs {
        Inputs { objects, now: nanoseconds(now), known, seen: Mutex::default() }
    }

    /// The digest of a file, or of a folder with everything in it; links are followed, `__pycache__` does not count.
    /// `by_listing`: names and lengths only. The second time in a run the answer is the first one's.
    ///
    /// # Errors
    /// It is missing or cannot be read; a link leads back to a folder above it; it holds a pipe or a device.
    pub fn hash_path(&self, path: &Path, by_listing: bool) -> Result<Tree> {
        let key = (path.to_owned(), by_listing);
        if let Some(seen) = self.seen().get(&key) {
            return Ok(seen.tree);
        }
        let now = Arc::new(self.look(path, by_listing)?);
        // Whoever was first is right for all of the run.
        Ok(self.seen().entry(key).or_insert(now).tree)
    }

    fn seen(&self) -> MutexGuard<'_, BTreeMap<(PathBuf, bool), Arc<StampedInput>>> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn look(&self, path: &Path, by_listing: bool) -> Result<StampedInput> {
        let meta = fs::metadata(path).map_err(StoreError::io("read", path))?;
        if meta.is_dir() {
            self.folder(path, by_listing)
        } else if meta.is_file() {
            let (stamp, digest) = self.file(path, &meta)?;
            let tree = Tree { digest, kind: ArtifactKind::File, files: 1, bytes: meta.len() };
            Ok(StampedInput {
                tree,
                files: vec![SeenFile { path: path.to_owned(), stamp, what: SeenKind::Content(digest) }],
            })
        } else {
            Err(hash::special(path, &meta))
        }
    }

    /// What of an input is no longer as it was when it was hashed, if anything: asked when it is handed to a step, and when
    /// that step has ended. What only looks changed, for it was touched or written again with the same content, is read again.
    pub fn changed(&self, path: &Path, by_listing: bool) -> Option<PathBuf> {
        let key = (path.to_owned(), by_listing);
        let before = Arc::clone(self.seen().get(&key)?);
        let looks = before.files.iter().find(|file| !file.is_as_it_was())?.path.clone();
        let tree = before.tree;
        match self.look(path, by_listing) {
            Ok(now) if now.tree.digest == tree.digest => {
                self.seen().insert(key, Arc::new(now));
                None
            }
            _ => Some(looks),
        }
    }

    fn folder(&self, path: &Path, by_listing: bool) -> Result<StampedInput> {
        let found = hash::walk(path, Links::Follow)?;
        let mut files = Vec::with_capacity(found.len());
        let digest = if by_listing {
            hash::listing_digest(&found)
        } else {
            let manifest = hash::manifest(&found, |entry| {
                let (_, digest) = self.file(&path.join(&entry.path), &entry.meta)?;
                Ok((digest, entry.meta.len()))
            })?;
            files = manifest.files().map(|(path, digest)| (path.to_owned(), *digest)).collect();
            self.keep(&manifest)?
        };
        let mut digests = files.into_iter();
        let mut seen_file = |entry: &FolderEntry| SeenFile {
            path: path.join(&entry.path),
            stamp: Stamp::of(&entry.meta),
            what: match &entry.kind {
                FoundKind::Folder => SeenKind::Folder,
                _ => digests.next().map_or(SeenKind::Length, |(_, digest)| SeenKind::Content(digest)),
            },
        };
        let (count, bytes) = found
            .iter()
            .filter(|entry| entry.kind == FoundKind::File)
            .fold((0, 0), |(count, bytes), entry| (count + 1, bytes + entry.meta.len()));
        let tree = Tree { digest, kind: ArtifactKind::Folder, files: count, bytes };
        Ok(StampedInput { tree, files: found.iter().map(&mut seen_file).collect() })
    }

    fn keep(&self, manifest: &Manifest) -> Result<Digest> {
        match &self.objects {
            Some(objects) => objects.keep_manifest(manifest),
            None => Ok(manifest.digest()),
        }
    }

    fn file(&self, path: &Path, meta: &Metadata) -> Result<(Stamp, Digest)> {
        let stamp = Stamp::of(meta);
        match self.known.get(path) {
            Some((known, digest)) if *known == stamp => Ok((stamp, *digest)),
            _ => Ok((stamp, hash::file(path)?)),
        }
    }

    /// At the end of a run: the stamps for the next one's snapshot. A file that was too fresh to be trusted is read again;
    /// `now` is the present time. One that is still too fresh, or has changed since, gets a stamp that never fits.
    pub(crate) fn settle(&self, now: SystemTime) -> Stats {
        let now = nanoseconds(now);
        let seen = self.seen();
        let files: Vec<&SeenFile> = seen.values().flat_map(|seen| &seen.files).collect();
        let fresh: Vec<&SeenFile> = files.iter().copied().filter(|file| !file.stamp.is_settled(self.now)).collect();
        let bytes = fresh.iter().map(|file| file.stamp.bytes).sum();
        let settled = hash::in_parallel(&fresh, bytes, |file| {
            let sure = file.stamp.is_settled(now)
                && match file.what {
                    SeenKind::Content(digest) => hash::file(&file.path).is_ok_and(|found| found == digest),
                    SeenKind::Folder | SeenKind::Length => true,
                }
                && file.is_as_it_was();
            Ok(sure)
        });
        let mut unsure =
            fresh.iter().zip(settled.unwrap_or_default()).filter(|(_, sure)| !sure).map(|(file, _)| *file).peekable();
        let mut stats = Stats::default();
        for file in files {
            let never = unsure.next_if(|unsure| std::ptr::eq(*unsure, file)).is_some();
            let stamp = if never { Stamp::NEVER } else { file.stamp };
            match file.what {
                SeenKind::Folder => stats.folder(&file.path, stamp),
                SeenKind::Content(digest) => stats.file(&file.path, stamp, Counts::Content(digest.0)),
                SeenKind::Length => stats.file(&file.path, stamp, Counts::Length),
            }
        }
        stats
    }
}

impl SeenFile {
    fn is_as_it_was(&self) -> bool {
        fs::metadata(&self.path).is_ok_and(|meta| match self.what {
            SeenKind::Length => meta.len() == self.stamp.bytes,
            _ => Stamp::of(&meta) == self.stamp,
        })
    }
}

pub(crate) fn nanoseconds(time: SystemTime) -> i64 {
    time.duration_since(SystemTime::UNIX_EPOCH).map_or(0, |since| i64::try_from(since.as_nanos()).unwrap_or(i64::MAX))
}
