//! Content digests of a workflow's inputs. A file that is unchanged since the last run costs only a `stat`.
//!
//! A digest from an earlier run is trusted if length, inode, and the times of content and of change are the same. A
//! file that was changed just before it was read could be changed again within one tick of its file system's clock and
//! look the same. Such digests hold for this run only, unless [`Inputs::settle`] can read the file again later.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    fs::{self, Metadata},
    iter,
    path::{Path, PathBuf},
    sync::{Arc, Mutex},
    time::{Duration, SystemTime},
};

use flow_core::{ArtifactKind, Digest, reason::StoreAction};
use indexmap::IndexMap;

use crate::{
    Activity, Manifest, Objects,
    hash::{self, FolderEntry, FoundKind, Links},
    ignored::{IgnoreRules, to_report},
    mutex::lock,
    stamp::{Counts, KnownFile, Stamp, Stats},
};
use flow_runs::{Result, StoreError};

/// The content of an input.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tree {
    /// The digest; for a folder hashed by listing, that of its names and sizes.
    pub digest: Digest,
    pub kind: ArtifactKind,
    /// Number of files; 1 for a file.
    pub files: u64,
    pub bytes: u64,
}

/// The inputs of one run, each hashed once. Several threads may use it: while one hashes, others get their answers.
pub struct Inputs {
    objects: Option<Objects>,
    pub(crate) activity: Activity,
    now: i64,
    known: HashMap<PathBuf, KnownFile>,
    /// `.flowignore` applies from this folder down.
    pub(crate) root: Option<PathBuf>,
    /// Paths named as inputs, which are therefore never ignored in an enclosing folder.
    pub(crate) named: BTreeSet<PathBuf>,
    /// Files whose digest turned out to be wrong: they are read again, whatever their stamp.
    doubted: Mutex<Vec<PathBuf>>,
    seen: Mutex<IndexMap<(PathBuf, bool), Arc<StampedInput>>>,
    /// Software environments by folder.
    listed: Mutex<IndexMap<PathBuf, Arc<StampedInput>>>,
}

/// A list that a caller made from files and folders, such as the packages of a software environment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Listing {
    pub text: Vec<u8>,
    /// The list is the same while these are unchanged: the content of files, and the names in folders.
    pub watched: Vec<PathBuf>,
}

/// An input as it was when it was hashed.
pub(crate) struct StampedInput {
    pub(crate) tree: Tree,
    /// Everything in a folder, itself first, in order of path.
    pub(crate) files: Vec<SeenFile>,
    /// The rules for ignored files in a folder, and the ignored files found.
    pub(crate) rules: Option<Arc<IgnoreRules>>,
    pub(crate) ignored: Vec<PathBuf>,
}

/// One file or folder of an input.
#[derive(Clone)]
pub(crate) struct SeenFile {
    pub(crate) path: PathBuf,
    pub(crate) stamp: Stamp,
    pub(crate) what: SeenKind,
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum SeenKind {
    Folder,
    /// Its content counts.
    Content(Digest),
    /// Its length counts.
    Length,
}

impl Inputs {
    /// Inputs with known digests of files.
    pub(crate) fn knowing(known: HashMap<PathBuf, KnownFile>, objects: Option<Objects>, now: SystemTime) -> Inputs {
        let (root, named, doubted) = (None, BTreeSet::new(), Mutex::default());
        let (seen, listed) = (Mutex::default(), Mutex::default());
        let (activity, now) = (Activity::default(), nanoseconds(now));
        Inputs { objects, activity, now, known, root, named, doubted, seen, listed }
    }

    /// Applies `.flowignore` from the workflow's `root` down. Inputs that are `named` are never ignored.
    #[must_use]
    pub fn of_workflow(self, root: PathBuf, named: BTreeSet<PathBuf>) -> Inputs {
        Inputs { root: Some(root), named, ..self }
    }

    /// The same, with this activity for its hashing.
    #[must_use]
    pub fn doing(self, activity: Activity) -> Inputs {
        Inputs { activity, ..self }
    }

    /// The digest of a file, or of a folder with all files that are not ignored; links are followed. `by_listing`:
    /// names and lengths only. Further calls in a run return the first result.
    ///
    /// # Errors
    /// The path is missing or cannot be read; a link leads back to a folder above it; it contains a pipe or a device.
    pub fn hash_path(&self, path: &Path, by_listing: bool) -> Result<Tree> {
        if let Some(seen) = self.as_seen(path, by_listing) {
            return Ok(seen.tree);
        }
        let now = Arc::new(match self.known(path).filter(|known| known.is_same) {
            Some(known) => StampedInput::of_file(path, known.stamp, known.digest),
            None => self.look(path, by_listing, None)?,
        });
        // The first result counts for the whole run.
        Ok(lock(&self.seen).entry((path.to_owned(), by_listing)).or_insert(now).tree)
    }

    /// The digest of the list that `list` makes of `path`. It is made once in a run, and kept as an object.
    ///
    /// # Errors
    /// Those of `list`; a watched path cannot be read.
    pub fn list<E: From<StoreError>>(&self, path: &Path, list: impl Fn() -> Result<Listing, E>) -> Result<Digest, E> {
        if let Some(known) = lock(&self.listed).get(path) {
            return Ok(known.tree.digest);
        }
        let now = self.stamped(&list)?;
        Ok(lock(&self.listed).entry(path.to_owned()).or_insert(Arc::new(now)).tree.digest)
    }

    /// True if the list of `path` is no longer the one of [`Inputs::list`]. `list` makes it again if a watched path looks
    /// changed.
    pub fn has_changed<E: From<StoreError>>(&self, path: &Path, list: impl Fn() -> Result<Listing, E>) -> bool {
        let Some(before) = lock(&self.listed).get(path).cloned() else { return false };
        if before.files.iter().all(SeenFile::is_as_it_was) {
            return false;
        }
        match self.stamped(&list) {
            Ok(now) if now.tree.digest == before.tree.digest => {
                lock(&self.listed).insert(path.to_owned(), Arc::new(now));
                false
            }
            _ => true,
        }
    }

    /// The list, with the stamps of what it is made from.
    fn stamped<E: From<StoreError>>(&self, list: &impl Fn() -> Result<Listing, E>) -> Result<StampedInput, E> {
        let mut found = list()?;
        let files = loop {
            let watched = found.watched.iter().map(|path| self.watched(path));
            let stamps = watched.collect::<Result<Vec<SeenFile>>>()?;
            // It may have changed between the list and the stamps.
            let again = list()?;
            if again == found {
                break stamps;
            }
            found = again;
        };
        let digest = match &self.objects {
            Some(objects) => objects.store_bytes(&found.text)?.digest,
            None => Digest::of(&found.text),
        };
        let tree = Tree { digest, kind: ArtifactKind::File, files: 1, bytes: found.text.len() as u64 };
        Ok(StampedInput { tree, files, rules: None, ignored: Vec::new() })
    }

    fn watched(&self, path: &Path) -> Result<SeenFile> {
        let meta = fs::metadata(path).map_err(StoreError::io(StoreAction::Read, path))?;
        let (stamp, what) = match meta.is_dir() {
            true => (Stamp::of(&meta), SeenKind::Folder),
            false => self.file(path, &meta).map(|(stamp, digest)| (stamp, SeenKind::Content(digest)))?,
        };
        Ok(SeenFile { path: path.to_owned(), stamp, what })
    }

    /// True if the input was hashed, and therefore existed.
    pub fn is_read(&self, path: &Path, by_listing: bool) -> bool {
        self.as_seen(path, by_listing).is_some()
    }

    /// The input as it was when it was hashed, if it was.
    pub(crate) fn as_seen(&self, path: &Path, by_listing: bool) -> Option<Arc<StampedInput>> {
        lock(&self.seen).get(&(path.to_owned(), by_listing)).cloned()
    }

    /// Ignored files that were found in an input folder.
    pub fn ignored_in(&self, path: &Path, by_listing: bool) -> Vec<PathBuf> {
        let seen = self.as_seen(path, by_listing);
        seen.iter().flat_map(|seen| to_report(&seen.ignored)).map(|ignored| path.join(ignored)).collect()
    }

    /// Forgets these inputs, and those inside or around them: they are read again when needed.
    pub fn forget(&self, paths: &[PathBuf]) {
        lock(&self.doubted).extend_from_slice(paths);
        let apart = |one: &Path, other: &Path| !one.starts_with(other) && !other.starts_with(one);
        lock(&self.seen).retain(|(path, _), _| paths.iter().all(|forgotten| apart(path, forgotten)));
    }

    /// The files of an input, relative to it, without ignored ones; an empty path for a file.
    ///
    /// # Errors
    /// As of [`Inputs::hash_path`].
    pub fn files(&self, path: &Path) -> Result<Vec<PathBuf>> {
        if !path.is_dir() {
            return Ok(vec![PathBuf::new()]);
        }
        let (found, _) = self.walk(path)?;
        Ok(found.into_iter().filter(|entry| entry.kind == FoundKind::File).map(|entry| entry.path).collect())
    }

    /// The ignored files in a folder, relative to it.
    ///
    /// # Errors
    /// As of [`Inputs::hash_path`].
    pub fn ignored(&self, path: &Path) -> Result<Vec<PathBuf>> {
        Ok(to_report(&self.walk(path)?.1).cloned().collect())
    }

    fn walk(&self, folder: &Path) -> Result<(Vec<FolderEntry>, Vec<PathBuf>)> {
        let rules = IgnoreRules::of(folder, self.root.as_deref(), &self.named)?;
        hash::walk_but(folder, Links::Follow, |path, is_folder| rules.covers(path, is_folder))
    }

    fn look(&self, path: &Path, by_listing: bool, rules: Option<Arc<IgnoreRules>>) -> Result<StampedInput> {
        let meta = fs::metadata(path).map_err(StoreError::io(StoreAction::Read, path))?;
        if meta.is_dir() {
            let rules = match rules {
                Some(rules) => rules,
                None => Arc::new(IgnoreRules::of(path, self.root.as_deref(), &self.named)?),
            };
            self.folder(path, by_listing, rules)
        } else if meta.is_file() {
            let (stamp, digest) = self.file(path, &meta)?;
            Ok(StampedInput::of_file(path, stamp, digest))
        } else {
            Err(hash::special(path, &meta))
        }
    }

    /// A path of an input that has changed since it was hashed, if any. Or a file that has its old content, but was
    /// written at or after `since`, and how long after: it may have had another content in between. Only the times of
    /// files count, because Python adds its compiled files to folders.
    pub fn changed_since(
        &self,
        path: &Path,
        by_listing: bool,
        since: SystemTime,
    ) -> Option<(PathBuf, Option<Duration>)> {
        if let Some(changed) = self.changed(path, by_listing) {
            return Some((changed, None));
        }
        let seen = self.as_seen(path, by_listing)?;
        let file = seen.files.iter().find(|file| file.is_written_since(since))?;
        let after = u64::try_from(file.stamp.modified - nanoseconds(since)).unwrap_or_default();
        Some((file.path.clone(), Some(Duration::from_nanos(after))))
    }

    /// True if it looks changed since it was hashed, or was written at or after `since`. Reads no content.
    pub fn looks_changed_since(&self, path: &Path, by_listing: bool, since: SystemTime) -> bool {
        let seen = self.as_seen(path, by_listing);
        seen.is_some_and(|seen| seen.files.iter().any(|file| !file.is_as_it_was() || file.is_written_since(since)))
    }

    /// A path of an input that has changed since it was hashed, if any; checked when a step gets it and after the step.
    /// A file that only looks changed, because of a `touch` or a rewrite with the same content, is read again.
    pub fn changed(&self, path: &Path, by_listing: bool) -> Option<PathBuf> {
        let before = self.as_seen(path, by_listing)?;
        let looks = before.files.iter().find(|file| !file.is_as_it_was())?.path.clone();
        let tree = before.tree;
        // The rules of a run stay those of its start.
        match self.look(path, by_listing, before.rules.clone()) {
            Ok(now) if now.tree.digest == tree.digest => {
                lock(&self.seen).insert((path.to_owned(), by_listing), Arc::new(now));
                None
            }
            _ => Some(looks),
        }
    }

    fn folder(&self, path: &Path, by_listing: bool, rules: Arc<IgnoreRules>) -> Result<StampedInput> {
        let covers = |path: &Path, is_folder: bool| rules.covers(path, is_folder);
        let (found, ignored) = hash::walk_but(path, Links::Follow, covers)?;
        let mut files = Vec::with_capacity(found.len());
        let digest = if by_listing {
            hash::listing_digest(&found)
        } else {
            let manifest = hash::manifest(path, &found, &self.activity, |entry| {
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
        let files = found.iter().map(&mut seen_file).collect();
        Ok(StampedInput { tree, files, rules: Some(rules), ignored })
    }

    fn keep(&self, manifest: &Manifest) -> Result<Digest> {
        match &self.objects {
            Some(objects) => objects.keep_manifest(manifest),
            None => Ok(manifest.digest()),
        }
    }

    fn file(&self, path: &Path, meta: &Metadata) -> Result<(Stamp, Digest)> {
        let stamp = Stamp::of(meta);
        match self.known(path).filter(|known| known.stamp == stamp) {
            Some(known) => Ok((stamp, known.digest)),
            None => Ok((stamp, hash::file(path, &self.activity)?)),
        }
    }

    /// The known digest of a file, unless it turned out to be wrong.
    fn known(&self, path: &Path) -> Option<&KnownFile> {
        let is_doubted = || lock(&self.doubted).iter().any(|doubted| path.starts_with(doubted));
        self.known.get(path).filter(|_| !is_doubted())
    }

    /// At the end of a run: the stamps for the next snapshot. A file that was too fresh to be trusted is read again;
    /// `now` is the present time. If it is still too fresh, or has changed since, it gets a stamp that never matches.
    pub(crate) fn settle(&self, now: SystemTime) -> Stats {
        let now = nanoseconds(now);
        let (seen, listed) = (lock(&self.seen), lock(&self.listed));
        let files: Vec<&SeenFile> = seen.values().chain(listed.values()).flat_map(|seen| &seen.files).collect();
        let fresh = files.iter().filter(|file| !file.stamp.is_settled(self.now));
        let bytes = fresh.map(|file| file.stamp.bytes).sum();
        let is_sure = |file: &&SeenFile| {
            let is_same = || match file.what {
                SeenKind::Content(digest) => hash::file(&file.path, &self.activity).is_ok_and(|found| found == digest),
                SeenKind::Folder | SeenKind::Length => true,
            };
            let settles = || file.stamp.is_settled(now) && is_same() && file.is_as_it_was();
            Ok(file.stamp.is_settled(self.now) || settles())
        };
        let sure = hash::in_parallel(&files, bytes, is_sure).unwrap_or_default().into_iter().chain(iter::repeat(false));
        let mut stats = Stats::default();
        let rules = seen.values().filter_map(|seen| seen.rules.as_ref());
        let places: BTreeMap<&Path, Option<Stamp>> =
            rules.flat_map(|rules| &rules.places).map(|(path, stamp)| (path.as_path(), *stamp)).collect();
        for (path, stamp) in places {
            match stamp {
                None => stats.file(path, Stamp::NEVER, Counts::Absent),
                Some(stamp) if stamp.is_settled(self.now) => stats.file(path, stamp, Counts::Unread),
                Some(_) => stats.file(path, Stamp::NEVER, Counts::Unread),
            }
        }
        for (file, is_sure) in files.iter().zip(sure) {
            let stamp = if is_sure { file.stamp } else { Stamp::NEVER };
            match file.what {
                SeenKind::Folder => stats.folder(&file.path, stamp),
                SeenKind::Content(digest) => stats.file(&file.path, stamp, Counts::Content(digest)),
                SeenKind::Length => stats.file(&file.path, stamp, Counts::Length),
            }
        }
        stats
    }
}

impl StampedInput {
    fn of_file(path: &Path, stamp: Stamp, digest: Digest) -> StampedInput {
        let tree = Tree { digest, kind: ArtifactKind::File, files: 1, bytes: stamp.bytes };
        let files = vec![SeenFile { path: path.to_owned(), stamp, what: SeenKind::Content(digest) }];
        StampedInput { tree, files, rules: None, ignored: Vec::new() }
    }
}

impl SeenFile {
    /// Its path if the input `from` were at `to`.
    pub(crate) fn moved(&self, from: &Path, to: &Path) -> PathBuf {
        moved(&self.path, from, to)
    }

    fn is_written_since(&self, since: SystemTime) -> bool {
        // A change of modes or of links changes only `ctime`.
        self.what != SeenKind::Folder && self.stamp.modified >= nanoseconds(since)
    }

    fn is_as_it_was(&self) -> bool {
        fs::metadata(&self.path).is_ok_and(|meta| match self.what {
            SeenKind::Length => meta.len() == self.stamp.bytes,
            _ => Stamp::of(&meta) == self.stamp,
        })
    }
}

/// The path of a file if the folder `from` were at `to`.
pub(crate) fn moved(path: &Path, from: &Path, to: &Path) -> PathBuf {
    match path.strip_prefix(from) {
        Ok(below) if !below.as_os_str().is_empty() => to.join(below),
        _ => to.to_owned(),
    }
}

pub(crate) fn nanoseconds(time: SystemTime) -> i64 {
    time.duration_since(SystemTime::UNIX_EPOCH).map_or(0, |since| i64::try_from(since.as_nanos()).unwrap_or(i64::MAX))
}
