//! Content digests of files and folders as they lie on disk. Knows no store, and writes nothing.
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
    io::{self, Read},
    num::NonZero,
    os::unix::fs::{FileTypeExt, MetadataExt},
    path::{Component, Path, PathBuf},
    sync::{
        Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    thread,
};

use flow_core::{ArtifactKind, Digest};

use crate::{Entry, EntryKind, Manifest, Result, StoreError};

/// Below this many files, threads cost more than they give.
const WORTH_THREADS: usize = 64;
/// Or below this many bytes.
const WORTH_THREADS_BYTES: u64 = 16 << 20;

/// What to do with symbolic links.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Links {
    /// Outputs: kept as links, relative ones that stay inside; any other is an error.
    Keep,
    /// Inputs: what they lead to counts, wherever it lies.
    Follow,
}

/// One thing in a folder, as found.
#[derive(Debug)]
pub(crate) struct Found {
    /// Relative to the folder that was walked; empty for that folder itself.
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

/// Everything in a folder, itself first, in order of path.
pub(crate) fn walk(root: &Path, links: Links) -> Result<Vec<Found>> {
    let meta = fs::metadata(root).map_err(StoreError::io("read", root))?;
    let mut found = vec![Found { path: PathBuf::new(), kind: FoundKind::Folder, meta }];
    // Folders to be read: path, and for links the real folders above, against loops.
    let mut open: Vec<(PathBuf, Vec<(u64, u64)>)> = vec![(PathBuf::new(), vec![identity(&found[0].meta)])];
    while let Some((folder, above)) = open.pop() {
        let here = root.join(&folder);
        for entry in fs::read_dir(&here).map_err(StoreError::io("read", &here))? {
            let entry = entry.map_err(StoreError::io("read", &here))?;
            let name = entry.file_name();
            // What Python leaves beside a script that is imported would change the script's digest.
            if links == Links::Follow && name == "__pycache__" {
                continue;
            }
            let path = folder.join(name);
            let whole = entry.path();
            let mut meta = entry.metadata().map_err(StoreError::io("read", &whole))?;
            if meta.is_symlink() && links == Links::Follow {
                meta = fs::metadata(&whole).map_err(StoreError::io("follow the link", &whole))?;
            }
            let kind = if meta.is_dir() {
                let me = identity(&meta);
                if above.contains(&me) {
                    return Err(not_an_artifact(&whole, "it leads back to a folder above it"));
                }
                let mut above = above.clone();
                above.push(me);
                open.push((path.clone(), above));
                FoundKind::Folder
            } else if meta.is_file() {
                FoundKind::File
            } else if meta.is_symlink() {
                FoundKind::Link(inner_link(&whole, &path)?)
            } else {
                return Err(special(&whole, &meta));
            };
            found.push(Found { path, kind, meta });
        }
    }
    found.sort_by(|a, b| a.path.as_os_str().cmp(b.path.as_os_str()));
    Ok(found)
}

fn identity(meta: &Metadata) -> (u64, u64) {
    (meta.dev(), meta.ino())
}

/// The target of a link that stays inside of the folder it is in.
fn inner_link(whole: &Path, path: &Path) -> Result<PathBuf> {
    let target = fs::read_link(whole).map_err(StoreError::io("read the link", whole))?;
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
    Err(not_an_artifact(
        whole,
        &format!(
            "it is a symbolic link to `{}`, which leads out of the output; only relative links that stay inside can be kept: copy the file",
            target.display()
        ),
    ))
}

pub(crate) fn special(path: &Path, meta: &Metadata) -> StoreError {
    let kind = meta.file_type();
    let what = if kind.is_fifo() {
        "a named pipe"
    } else if kind.is_socket() {
        "a socket"
    } else {
        "a device"
    };
    not_an_artifact(path, &format!("it is {what}; only files, folders and links can be"))
}

pub(crate) fn not_an_artifact(path: &Path, why: &str) -> StoreError {
    StoreError::NotAnArtifact { path: path.to_owned(), why: why.to_owned() }
}

/// Whether a file counts as executable.
pub(crate) fn is_executable(meta: &Metadata) -> bool {
    meta.mode() & 0o100 != 0
}

/// The digest of a file whose content has this digest.
pub(crate) fn file_digest(content: Digest, executable: bool) -> Digest {
    if executable { Digest(blake3::derive_key("flow executable file 1", &content.0)) } else { content }
}

/// The digest of what an open file holds, and how many bytes that is.
pub(crate) fn content_digest(mut file: &File) -> io::Result<(Digest, u64)> {
    let mut hasher = blake3::Hasher::new();
    let mut buffer = [0_u8; 64 << 10];
    loop {
        match file.read(&mut buffer) {
            Ok(0) => return Ok((Digest(*hasher.finalize().as_bytes()), hasher.count())),
            Ok(n) => _ = hasher.update(&buffer[..n]),
            Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
            Err(e) => return Err(e),
        }
    }
}

/// Does the same to many things, on several threads if there are many; results in their order, the first error in it.
pub(crate) fn in_parallel<T: Sync, R: Send>(
    items: &[T],
    bytes: u64,
    work: impl Fn(&T) -> Result<R> + Sync,
) -> Result<Vec<R>> {
    let threads = thread::available_parallelism().map_or(1, NonZero::get).min(8);
    if threads == 1 || items.len() < 2 || (items.len() < WORTH_THREADS && bytes < WORTH_THREADS_BYTES) {
        return items.iter().map(work).collect();
    }
    let at_once = if items.len() < WORTH_THREADS { 1 } else { 16 };
    let next = AtomicUsize::new(0);
    let done: Mutex<Vec<(usize, Result<R>)>> = Mutex::default();
    thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                let mut mine = Vec::new();
                loop {
                    let begin = next.fetch_add(at_once, Ordering::Relaxed);
                    let Some(chunk) = items.get(begin..(begin + at_once).min(items.len())) else { break };
                    if chunk.is_empty() {
                        break;
                    }
                    mine.extend(chunk.iter().enumerate().map(|(i, item)| (begin + i, work(item))));
                }
                done.lock().unwrap_or_else(std::sync::PoisonError::into_inner).extend(mine);
            });
        }
    });
    let mut done = done.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner);
    done.sort_by_key(|(at, _)| *at);
    done.into_iter().map(|(_, result)| result).collect()
}

/// The digest of everything in a folder, names and sizes only.
pub(crate) fn listing_digest(found: &[Found]) -> Digest {
    let mut hasher = blake3::Hasher::new_derive_key("flow listing 1");
    for entry in found.iter().filter(|entry| entry.kind == FoundKind::File) {
        hasher.update(Manifest::path_bytes(&entry.path));
        hasher.update(b"\0");
        hasher.update(&entry.meta.len().to_le_bytes());
    }
    Digest(*hasher.finalize().as_bytes())
}

/// The digest of what lies at `path`, read anew.
pub(crate) fn content(path: &Path, kind: ArtifactKind) -> Result<Digest> {
    match kind {
        ArtifactKind::File => file(path),
        ArtifactKind::Folder => Ok(folder(path)?.digest()),
    }
}

/// The manifest of the folder at `path`, read anew.
pub(crate) fn folder(path: &Path) -> Result<Manifest> {
    manifest(&walk(path, Links::Keep)?, |entry| {
        let path = path.join(&entry.path);
        Ok((file(&path)?, entry.meta.len()))
    })
}

/// The digest of a file, read anew.
pub(crate) fn file(path: &Path) -> Result<Digest> {
    let read = || {
        let file = File::open(path)?;
        let executable = is_executable(&file.metadata()?);
        Ok(file_digest(content_digest(&file)?.0, executable))
    };
    read().map_err(StoreError::io("read", path))
}

/// The manifest of what was found, with the files' digests and lengths as `digest` tells them.
pub(crate) fn manifest(found: &[Found], digest: impl Fn(&Found) -> Result<(Digest, u64)> + Sync) -> Result<Manifest> {
    let size = found.iter().map(|entry| entry.meta.len()).sum();
    // The first is the folder itself.
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
