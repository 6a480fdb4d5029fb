//! Copies inputs once when a run begins and gives them to all attempts, so that later edits by the author count for the
//! next run. A large input is linked and checked instead; if it contains ignored files, a view of links leaves them
//! out. Each attempt has folders of its own, with hard links to the copied files.
//!
//! Copies are laid out like the inputs, `runs/ID/inputs/0/src` next to `runs/ID/inputs/0/conf.yaml`, so that a script
//! finds its neighbours. An input that would be inside another one goes into the next number.

mod attempt_copy;
mod orphaned_copy;

use std::{
    collections::{BTreeMap, BTreeSet},
    fs::{self, File, FileTimes, Permissions},
    io,
    ops::Bound,
    os::unix::fs::{DirBuilderExt, PermissionsExt, symlink},
    path::{Path, PathBuf},
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, SystemTime},
};

use flow_core::{ArtifactKind, Digest, reason::StoreAction};

pub use orphaned_copy::OrphanedCopy;

use crate::{
    Activity, Inputs, hash,
    ignored::IgnoreRules,
    inputs::{SeenKind, StampedInput, moved},
    limits::CopyRoom,
    mutex::lock,
    sparse,
    stamp::Stamp,
};
use flow_runs::{INPUTS_OPEN, Result, StoreError, tree::remove_tree};

/// An input that attempts will read.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct InputToCapture {
    /// Absolute.
    pub path: PathBuf,
    /// Its path in a work folder.
    pub place: String,
    /// Only names and lengths count.
    pub by_listing: bool,
}

/// The replacement of an input for attempts.
pub struct CapturedInput {
    path: PathBuf,
    author: PathBuf,
    is_copy: bool,
    /// Made for one attempt, which alone could write into it.
    is_of_attempt: bool,
    /// Size, time and content show whether it was written.
    is_by_content: bool,
    digest: Digest,
    /// In order of path.
    made: Vec<CopiedPath>,
    rules: Option<Arc<IgnoreRules>>,
    is_written: AtomicBool,
}

struct CopiedPath {
    path: PathBuf,
    stamp: Stamp,
    is_folder: bool,
    /// Of a file whose content counts.
    digest: Option<Digest>,
}

/// The captured inputs of one run. Dropping it removes the copies.
pub struct Captures {
    folder: PathBuf,
    state: Mutex<CaptureState>,
}

#[derive(Default)]
struct CaptureState {
    /// Used paths, by number.
    groups: Vec<BTreeSet<PathBuf>>,
    /// `None`: the author's own file is used.
    by_input: BTreeMap<(PathBuf, bool), Option<Arc<CapturedInput>>>,
    /// Copies that a step has written into, or whose inputs were forgotten.
    replaced: Vec<Arc<CapturedInput>>,
    room: CopyRoom,
}

/// How an input is captured.
enum CaptureMethod {
    Copy,
    /// Own folders, with links to the author's files that count.
    View,
    /// A link, so that neighbouring copies find the input.
    Link,
}

struct CopyInProgress {
    wanted: InputToCapture,
    seen: Arc<StampedInput>,
    /// The number of its folder.
    number: usize,
    target: PathBuf,
    way: CaptureMethod,
}

/// A file to copy: source, target, expected digest.
struct Job {
    of: usize,
    from: PathBuf,
    to: PathBuf,
    digest: Digest,
    modified: i64,
    read_only: bool,
}

enum CaptureError {
    /// It has changed, or is gone.
    Changed,
    Refused(io::Error),
}

impl Captures {
    /// Nothing captured yet. `folder` is created with the first copy.
    pub fn new(folder: PathBuf) -> Captures {
        Captures { folder, state: Mutex::default() }
    }

    /// Captures new inputs exactly as they were hashed. Returns the inputs that have changed since: they must be
    /// [forgotten](Inputs::forget), and decisions based on them made again. An input that cannot be hashed is skipped;
    /// the error appears when its digest is requested.
    ///
    /// # Errors
    /// No copy can be made because the disk is full. The inputs are then read in place.
    pub fn capture(&self, inputs: &Inputs, wanted: impl IntoIterator<Item = InputToCapture>) -> Result<Vec<PathBuf>> {
        let mut state = lock(&self.state);
        let mut begun = Vec::new();
        for wanted in wanted {
            let key = (wanted.path.clone(), wanted.by_listing);
            let Ok(tree) = inputs.hash_path(&wanted.path, wanted.by_listing) else { continue };
            match state.by_input.get(&key) {
                Some(Some(captured))
                    if captured.is_written.load(Ordering::Relaxed) || captured.digest != tree.digest =>
                {
                    let captured = Arc::clone(captured);
                    state.replaced.push(captured);
                }
                Some(_) => continue,
                None => {}
            }
            let Some(seen) = inputs.as_seen(&wanted.path, wanted.by_listing) else { continue };
            let way = state.way(&seen, wanted.by_listing);
            let number = state.place(Path::new(&wanted.place));
            let target = self.folder.join(number.to_string()).join(&wanted.place);
            state.by_input.insert(key, None);
            begun.push(CopyInProgress { wanted, seen, number, target, way });
        }
        if begun.is_empty() {
            return Ok(Vec::new());
        }
        let private = fs::DirBuilder::new().mode(0o700).recursive(true).create(&self.folder);
        let open = private.and_then(|()| File::create(self.folder.join(INPUTS_OPEN)));
        open.map_err(StoreError::io(StoreAction::Create, &self.folder))?;
        let mut failed: BTreeMap<usize, CaptureError> = BTreeMap::new();
        let (mut jobs, mut folders) = (Vec::new(), BTreeSet::new());
        for (of, begun) in begun.iter().enumerate() {
            if let Err(error) = begun.prepare(of, &mut jobs, &mut folders) {
                failed.insert(of, CaptureError::Refused(error));
            }
        }
        let bytes = begun
            .iter()
            .filter(|begun| matches!(begun.way, CaptureMethod::Copy))
            .map(|begun| begun.seen.tree.bytes)
            .sum();
        for (job, done) in jobs.iter().zip(hash::in_parallel(&jobs, bytes, |job| Ok(job.copy(&inputs.activity)))?) {
            if let Err(error) = done {
                failed.entry(job.of).or_insert(error);
            }
        }
        let (mut changed, mut refused) = (Vec::new(), None);
        for (of, CopyInProgress { wanted, seen, number, target, way }) in begun.into_iter().enumerate() {
            let done = match failed.remove(&of) {
                Some(failed) => Err(failed),
                None => CapturedInput::of(&wanted, &seen, &target, &way).map_err(CaptureError::Refused),
            };
            match done {
                Ok(captured) => _ = state.by_input.insert((wanted.path, wanted.by_listing), captured.map(Arc::new)),
                Err(failed) => {
                    let _ = remove_tree(&target);
                    match failed {
                        CaptureError::Changed => {
                            state.groups[number].remove(Path::new(&wanted.place));
                            state.by_input.remove(&(wanted.path.clone(), wanted.by_listing));
                            changed.push(wanted.path);
                        }
                        CaptureError::Refused(error) => {
                            let _ = symlink(&wanted.path, &target);
                            refused = refused.or(Some(StoreError::io(StoreAction::Copy, &wanted.path)(error)));
                        }
                    }
                }
            }
        }
        refused.map_or(Ok(changed), Err)
    }

    /// The replacement of an input; `None` means the author's own file.
    pub fn get(&self, path: &Path, by_listing: bool) -> Option<Arc<CapturedInput>> {
        lock(&self.state).by_input.get(&(path.to_owned(), by_listing)).cloned().flatten()
    }

    /// Number of copied files.
    pub fn files(&self) -> u64 {
        lock(&self.state).room.files
    }

    /// Removes the copies. A link to the author's folder stays in place of each folder, because work folders of failed
    /// attempts lead there.
    pub fn clear(&self) {
        let CaptureState { by_input, replaced, groups, .. } = std::mem::take(&mut *lock(&self.state));
        if groups.is_empty() {
            return;
        }
        let mut linked = false;
        let all = || replaced.iter().chain(by_input.values().flatten());
        if all().any(|captured| captured.is_folder()) {
            for captured in all() {
                let _ = remove_tree(&captured.path);
                linked |= captured.is_folder() && symlink(&captured.author, &captured.path).is_ok();
            }
        }
        // If it cannot be removed now, `flow gc` removes it with the run.
        if linked {
            let _ = fs::remove_file(self.folder.join(INPUTS_OPEN));
        } else {
            let _ = remove_tree(&self.folder);
        }
    }
}

impl Drop for Captures {
    fn drop(&mut self) {
        self.clear();
    }
}

impl CaptureState {
    fn way(&mut self, seen: &StampedInput, by_listing: bool) -> CaptureMethod {
        let tree = &seen.tree;
        if (tree.kind == ArtifactKind::File || !by_listing) && self.room.take(tree.bytes, tree.files) {
            CaptureMethod::Copy
        } else if seen.ignored.is_empty() {
            CaptureMethod::Link
        } else {
            CaptureMethod::View
        }
    }

    /// The first number in which a path is free: it is not used, not inside a used one, and contains none.
    fn place(&mut self, place: &Path) -> usize {
        let is_free = |group: &BTreeSet<PathBuf>| {
            let within = place.ancestors().any(|above| group.contains(above));
            let from = (Bound::Included(place), Bound::Unbounded);
            !within && !group.range::<Path, _>(from).next().is_some_and(|next| next.starts_with(place))
        };
        let number = self.groups.iter().position(is_free).unwrap_or(self.groups.len());
        if number == self.groups.len() {
            self.groups.push(BTreeSet::new());
        }
        self.groups[number].insert(place.to_owned());
        number
    }
}

impl CopyInProgress {
    /// Creates its folders and links, and lists the files to copy. `folders`: those that exist already.
    fn prepare<'a>(&'a self, of: usize, jobs: &mut Vec<Job>, folders: &mut BTreeSet<&'a Path>) -> io::Result<()> {
        let CopyInProgress { wanted, seen, target, way, .. } = self;
        if let Some(above) = target.parent().filter(|above| !folders.contains(above)) {
            fs::create_dir_all(above)?;
            folders.insert(above);
        }
        let read_only = seen.tree.kind == ArtifactKind::Folder;
        if matches!(way, CaptureMethod::Link) {
            return symlink(&wanted.path, target);
        }
        let real = seen.folders_with_ignored();
        for file in &seen.files {
            let below = file.path.strip_prefix(&wanted.path).unwrap_or(&file.path);
            let to = file.moved(&wanted.path, target);
            match (way, file.what) {
                (CaptureMethod::View, _) if real.contains(below) => fs::create_dir(&to)?,
                (CaptureMethod::View, _) => {
                    if below.parent().is_some_and(|above| real.contains(above)) {
                        symlink(&file.path, &to)?;
                    }
                }
                (_, SeenKind::Folder) => fs::create_dir(&to)?,
                (_, SeenKind::Content(digest)) => {
                    let (from, modified) = (file.path.clone(), file.stamp.modified);
                    jobs.push(Job { of, from, to, digest, modified, read_only });
                }
                (_, SeenKind::Length) => {}
            }
        }
        Ok(())
    }
}

impl Job {
    fn copy(&self, activity: &Activity) -> Result<(), CaptureError> {
        let refused = |error: io::Error| match error.kind() {
            io::ErrorKind::NotFound => CaptureError::Changed,
            _ => CaptureError::Refused(error),
        };
        let (content, file, meta) = sparse::copy_hashed(&self.from, &self.to, activity).map_err(refused)?;
        let executable = hash::is_executable(&meta);
        if hash::file_digest(content, executable) != self.digest {
            return Err(CaptureError::Changed);
        }
        let modified = SystemTime::UNIX_EPOCH + Duration::from_nanos(self.modified.try_into().unwrap_or(0));
        file.set_times(FileTimes::new().set_modified(modified)).map_err(refused)?;
        if self.read_only {
            file.set_permissions(Permissions::from_mode(if executable { 0o555 } else { 0o444 })).map_err(refused)?;
        }
        Ok(())
    }
}

impl StampedInput {
    /// The folders that a view must create.
    fn folders_with_ignored(&self) -> BTreeSet<&Path> {
        self.ignored.iter().flat_map(|path| path.ancestors().skip(1)).collect()
    }
}

impl CapturedInput {
    /// The input captured at `target`.
    fn of(
        wanted: &InputToCapture,
        seen: &StampedInput,
        target: &Path,
        way: &CaptureMethod,
    ) -> io::Result<Option<CapturedInput>> {
        let is_copy = match way {
            CaptureMethod::Link => return Ok(None),
            CaptureMethod::Copy => true,
            CaptureMethod::View => false,
        };
        let real = seen.folders_with_ignored();
        let mut made = Vec::new();
        for file in &seen.files {
            let below = file.path.strip_prefix(&wanted.path).unwrap_or(&file.path);
            if !is_copy && below.parent().is_some_and(|above| !real.contains(above)) {
                // It is behind a link.
                continue;
            }
            let path = file.moved(&wanted.path, target);
            let meta = fs::symlink_metadata(&path)?;
            let digest = if let SeenKind::Content(digest) = file.what { Some(digest) } else { None };
            made.push(CopiedPath { path, stamp: Stamp::of(&meta), is_folder: meta.is_dir(), digest });
        }
        Ok(Some(CapturedInput { is_copy, ..CapturedInput::made_at(target, wanted, seen, made) }))
    }

    /// A copy of an input, made of these files and folders.
    fn made_at(path: &Path, wanted: &InputToCapture, seen: &StampedInput, mut made: Vec<CopiedPath>) -> CapturedInput {
        made.sort_by(|a, b| a.path.cmp(&b.path));
        CapturedInput {
            path: path.to_owned(),
            author: wanted.path.clone(),
            is_copy: true,
            is_of_attempt: false,
            is_by_content: false,
            digest: seen.tree.digest,
            made,
            rules: seen.rules.clone(),
            is_written: AtomicBool::new(false),
        }
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    pub fn is_folder(&self) -> bool {
        self.made.first().is_some_and(|made| made.is_folder)
    }

    /// The digest of the input when it was captured.
    pub fn digest(&self) -> Digest {
        self.digest
    }

    /// The input's own path.
    pub fn author(&self) -> &Path {
        &self.author
    }

    /// True if it has all content. Otherwise it links to the author's folder, which must be [checked](Inputs::changed).
    pub fn is_copy(&self) -> bool {
        self.is_copy
    }

    /// True if no other attempt could write into it.
    pub fn is_of_attempt(&self) -> bool {
        self.is_of_attempt
    }

    /// Makes a folder of its own for an attempt: what the step adds or removes there is not seen by others. Its files
    /// are hard links to this read-only copy.
    ///
    /// # Errors
    /// The file system has no hard links; the disk is full.
    pub fn link_to(&self, to: &Path) -> io::Result<()> {
        self.make_at(to, |from, to| fs::hard_link(from, to))
    }

    /// Makes its folders at `to`, and its files with `make`.
    fn make_at(&self, to: &Path, make: impl Fn(&Path, &Path) -> io::Result<()>) -> io::Result<()> {
        // A folder comes before its content.
        self.made.iter().try_for_each(|made| {
            let to = self.moved(made, to);
            if made.is_folder { fs::create_dir(&to) } else { make(&made.path, &to) }
        })
    }

    /// The path of a file if this input were at `to`.
    fn moved(&self, made: &CopiedPath, to: &Path) -> PathBuf {
        moved(&made.path, &self.path, to)
    }

    /// The first path that a step has written in it, as a path of the author, if any. It is not given to other attempts
    /// then. Extra files that are no inputs are allowed, such as Python's compiled files.
    pub fn written(&self) -> Option<PathBuf> {
        let written = self.made.iter().find(|made| !self.is_as_made(made))?;
        self.is_written.store(true, Ordering::Relaxed);
        Some(self.moved(written, &self.author))
    }

    fn is_as_made(&self, made: &CopiedPath) -> bool {
        if self.is_by_content {
            // Steps have links to the files of an attempt's copy, but never see its folders.
            return made.is_in_copy() && (!made.is_folder || self.is_of_attempt || self.has_no_more(&made.path));
        }
        let Ok(meta) = fs::symlink_metadata(&made.path) else { return false };
        if made.is_folder {
            return Stamp::of(&meta) == made.stamp || (meta.is_dir() && self.has_no_more(&made.path));
        }
        // A new hard link changes the time of the last change, but not that of the content.
        Stamp { changed: made.stamp.changed, ..Stamp::of(&meta) } == made.stamp
    }

    fn has_no_more(&self, folder: &Path) -> bool {
        let Ok(mut entries) = fs::read_dir(folder) else { return false };
        entries.all(|entry| {
            let Ok(entry) = entry else { return false };
            let path = entry.path();
            let is_folder = entry.file_type().is_ok_and(|kind| kind.is_dir());
            let below = path.strip_prefix(&self.path).unwrap_or(&path);
            self.made.binary_search_by(|made| made.path.cmp(&path)).is_ok()
                || self.rules.as_ref().is_some_and(|rules| rules.covers(below, is_folder))
        })
    }
}
