//! Content digests of files and folders on disk. Knows no store, and writes nothing.
//!
//! | what | digest |
//! | --- | --- |
//! | a file | BLAKE3 of its content, as `b3sum` prints it |
//! | an executable file | BLAKE3 with the context `flow executable file 1` over that digest |
//! | a folder | BLAKE3 with the context `flow folder 1` over its [`Manifest`]'s encoding |
//!
//! Owners, times and modes other than the executable bit do not count.

use std::{
    fs::{self, File, Metadata},
    io,
    num::NonZero,
    os::unix::fs::MetadataExt,
    path::{Component, Path, PathBuf},
    sync::LazyLock,
    thread,
};

use flow_core::{
    Digest,
    reason::{StoreAction, StoreFault},
};
use rayon::{ThreadPool, ThreadPoolBuilder, prelude::*};
use walkdir::WalkDir;

use crate::{Activity, Entry, EntryKind, Manifest, sparse::content_digest};
use flow_runs::{Result, StoreError, file::file_kind};

/// This many files are worth the cost of threads.
const WORTH_THREADS: usize = 64;
/// So are this many bytes in at least two files.
const WORTH_THREADS_BYTES: u64 = 16 << 20;

/// How symbolic links are handled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Links {
    /// For outputs: kept as links if relative and inside the folder; any other link is an error.
    Keep,
    /// For inputs: the target counts, wherever it is.
    Follow,
}

/// One entry of a folder, as found.
#[derive(Debug)]
pub(crate) struct FolderEntry {
    /// Relative to the walked folder; empty for that folder itself.
    pub(crate) path: PathBuf,
    pub(crate) kind: FoundKind,
    pub(crate) meta: Metadata,
}

#[derive(Debug, PartialEq, Eq)]
pub(crate) enum FoundKind {
    Folder,
    File,
    Link(PathBuf),
}

/// Everything in a folder, the folder itself first, in order of path.
pub(crate) fn walk(root: &Path, links: Links) -> Result<Vec<FolderEntry>> {
    Ok(walk_but(root, links, |_, _| false)?.0)
}

/// The same, without paths for which `ignores` is true; returns these as well. An ignored folder is returned without
/// its content.
pub(crate) fn walk_but(
    root: &Path,
    links: Links,
    ignores: impl Fn(&Path, bool) -> bool,
) -> Result<(Vec<FolderEntry>, Vec<PathBuf>)> {
    let (mut found, mut ignored) = (Vec::new(), Vec::new());
    let mut entries = WalkDir::new(root).follow_links(links == Links::Follow).into_iter();
    while let Some(entry) = entries.next() {
        // Ignored first: an editor's lock is a dangling link, and its other files may vanish before they are read.
        let (whole, is_folder) = match &entry {
            Ok(entry) => (Some(entry.path()), entry.file_type().is_dir()),
            Err(error) => (error.path(), false),
        };
        let path = whole.and_then(|whole| whole.strip_prefix(root).ok()).unwrap_or(Path::new("")).to_owned();
        if !path.as_os_str().is_empty() && ignores(&path, is_folder) {
            if is_folder {
                entries.skip_current_dir();
            }
            ignored.push(path);
            continue;
        }
        let entry = entry.map_err(|e| unreadable(root, e))?;
        let whole = entry.path();
        // The folder itself may be a link.
        let meta = if entry.depth() == 0 { fs::metadata(whole) } else { entry.metadata().map_err(cause) };
        let meta = meta.map_err(StoreError::io(StoreAction::Read, whole))?;
        let kind = if meta.is_dir() {
            FoundKind::Folder
        } else if meta.is_file() {
            FoundKind::File
        } else if meta.is_symlink() {
            FoundKind::Link(inner_link(whole, &path)?)
        } else {
            return Err(special(whole, &meta));
        };
        found.push(FolderEntry { path, kind, meta });
    }
    found.sort_by(|a, b| a.path.as_os_str().cmp(b.path.as_os_str()));
    ignored.sort();
    Ok((found, ignored))
}

fn unreadable(root: &Path, error: walkdir::Error) -> StoreError {
    let path = error.path().unwrap_or(root).to_owned();
    match error.loop_ancestor() {
        Some(_) => StoreError::NotAnArtifact(StoreFault::LeadsBack { path: path.display().to_string() }),
        None => {
            let what = if path.is_symlink() { StoreAction::FollowLink } else { StoreAction::Read };
            StoreError::io(what, path)(cause(error))
        }
    }
}

/// The system's own error.
fn cause(error: walkdir::Error) -> io::Error {
    error.into_io_error().unwrap_or_else(|| io::ErrorKind::Other.into())
}

/// The target of a link that stays inside its folder.
pub(crate) fn inner_link(whole: &Path, path: &Path) -> Result<PathBuf> {
    let target = fs::read_link(whole).map_err(StoreError::io(StoreAction::ReadLink, whole))?;
    let mut depth = path.components().count() as i64 - 1;
    let stays = target.components().all(|component| {
        depth += match component {
            Component::Normal(_) => 1,
            Component::ParentDir => -1,
            Component::CurDir => 0,
            Component::RootDir | Component::Prefix(_) => return false,
        };
        depth >= 0
    });
    if stays {
        return Ok(target);
    }
    let (path, to) = (whole.display().to_string(), target.display().to_string());
    Err(StoreError::NotAnArtifact(StoreFault::LeadsOut { path, to }))
}

pub(crate) fn special(path: &Path, meta: &Metadata) -> StoreError {
    let (path, found) = (path.display().to_string(), file_kind(meta.file_type()));
    StoreError::NotAnArtifact(StoreFault::NoArtifact { path, found })
}

/// True if a file counts as executable.
pub(crate) fn is_executable(meta: &Metadata) -> bool {
    meta.mode() & 0o100 != 0
}

/// The digest of a file whose content has this digest.
pub(crate) fn file_digest(content: Digest, executable: bool) -> Digest {
    if executable { Digest(blake3::derive_key("flow executable file 1", &content.0)) } else { content }
}

/// Threads for one kind of work; none if the system provides none.
struct Threads(LazyLock<Option<ThreadPool>>);

impl Threads {
    const fn new() -> Threads {
        Threads(LazyLock::new(|| {
            // More do not make disks faster.
            let threads = thread::available_parallelism().map_or(1, NonZero::get).min(8);
            ThreadPoolBuilder::new().num_threads(threads).build().ok()
        }))
    }

    fn apply<T: Sync, R: Send>(
        &self,
        items: &[T],
        is_much: bool,
        work: impl Fn(&T) -> Result<R> + Sync,
    ) -> Result<Vec<R>> {
        let worth = items.len() >= 2 && (items.len() >= WORTH_THREADS || is_much);
        match worth.then(|| self.0.as_ref()).flatten() {
            Some(pool) => {
                let done: Vec<Result<R>> = pool.install(|| items.par_iter().map(&work).collect());
                done.into_iter().collect()
            }
            None => items.iter().map(work).collect(),
        }
    }
}

/// Applies `work` to all items, on several threads if there are many. Results keep their order; the first error in that
/// order wins.
pub(crate) fn in_parallel<T: Sync, R: Send>(
    items: &[T],
    bytes: u64,
    work: impl Fn(&T) -> Result<R> + Sync,
) -> Result<Vec<R>> {
    static FILES: Threads = Threads::new();
    FILES.apply(items, bytes >= WORTH_THREADS_BYTES, work)
}

/// The same for reads of the database, which do not wait for large files.
pub(crate) fn look_up_all<T: Sync, R: Send>(items: &[T], work: impl Fn(&T) -> Result<R> + Sync) -> Result<Vec<R>> {
    static LOOKUPS: Threads = Threads::new();
    LOOKUPS.apply(items, false, work)
}

/// The digest of everything in a folder, names and sizes only.
pub(crate) fn listing_digest(found: &[FolderEntry]) -> Digest {
    let mut hasher = blake3::Hasher::new_derive_key("flow listing 1");
    for entry in found.iter().filter(|entry| entry.kind == FoundKind::File) {
        hasher.update(Manifest::path_bytes(&entry.path));
        hasher.update(b"\0");
        hasher.update(&entry.meta.len().to_le_bytes());
    }
    Digest(*hasher.finalize().as_bytes())
}

/// The manifest of the folder at `path`, read again.
pub(crate) fn folder(path: &Path, activity: &Activity) -> Result<Manifest> {
    manifest(path, &walk(path, Links::Keep)?, activity, |entry| {
        let path = path.join(&entry.path);
        Ok((file(&path, activity)?, entry.meta.len()))
    })
}

/// The digest of a file, read again.
pub(crate) fn file(path: &Path, activity: &Activity) -> Result<Digest> {
    let read = || {
        let file = File::open(path)?;
        let meta = file.metadata()?;
        let _begun = activity.begin("hashing", path, meta.len());
        Ok(file_digest(content_digest(&file, activity)?.0, is_executable(&meta)))
    };
    read().map_err(StoreError::io(StoreAction::Read, path))
}

/// The manifest of the entries found at `path`, with digests and lengths from `digest`.
pub(crate) fn manifest(
    path: &Path,
    found: &[FolderEntry],
    activity: &Activity,
    digest: impl Fn(&FolderEntry) -> Result<(Digest, u64)> + Sync,
) -> Result<Manifest> {
    let size = found.iter().map(|entry| entry.meta.len()).sum();
    let _begun = activity.begin("hashing", path, size);
    // The first entry is the folder itself.
    let entries = in_parallel(found.get(1..).unwrap_or_default(), size, |entry| {
        let kind = match &entry.kind {
            FoundKind::Folder => EntryKind::Folder,
            FoundKind::Link(target) => EntryKind::Link(target.clone()),
            FoundKind::File => {
                let (digest, bytes) = digest(entry)?;
                EntryKind::File { digest, bytes, executable: is_executable(&entry.meta) }
            }
        };
        Ok(Entry { path: entry.path.clone(), kind })
    })?;
    Ok(Manifest { entries })
}
