//! The snapshot of a workflow: what a finished run rested on, so that the next one can see with `stat` calls alone that there
//! is nothing to do. Also where digests of inputs are remembered. A cache: one that cannot be read is none.

use std::{
    collections::BTreeMap,
    ffi::OsStr,
    fs,
    os::{fd::OwnedFd, unix::ffi::OsStrExt},
    path::{Path, PathBuf},
    time::SystemTime,
};

use flow_core::{Artifact, ArtifactKind, Digest, RunId};
use nix::{
    errno::Errno,
    fcntl::{AtFlags, OFlag, open},
    sys::stat::{FileStat, Mode, SFlag, fstat, fstatat},
};
use serde::{Deserialize, Serialize};

use crate::{Inputs, Result, StoreDir, file, inputs::Stamp, objects::STAMP};

const HEAD: &[u8] = b"flow snapshot 1\n";

/// What a finished run rested on.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Snapshot {
    key: [u8; 32],
    run: RunId,
    inputs: Stats,
    published: Stats,
    /// Sorted, so that those of one shelf stand together.
    objects: Vec<Object>,
    summary: String,
}

/// Stamps by folder, so that a check opens each folder once and looks up short names.
#[derive(Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Stats(BTreeMap<Vec<u8>, Folder>);

#[derive(Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
struct Folder {
    /// Where the folder's listing counts.
    stamp: Option<Stamp>,
    files: Vec<FileStamp>,
}

#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
struct FileStamp {
    name: Vec<u8>,
    stamp: Stamp,
    counts: Counts,
}

/// What of a file counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Counts {
    /// Its content, which had this digest.
    Content([u8; 32]),
    /// Its length.
    Length,
    /// Its content, which nobody asked for.
    Unread,
}

#[derive(Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
struct Object {
    digest: [u8; 32],
    folder: bool,
    bytes: u64,
}

/// What a finished run rested on, for [`Snapshot::of`].
pub struct Rested<'a> {
    /// The digest of everything else that decides the plan: the workflow's text, parameters, plugins, machine, flow's version.
    pub key: Digest,
    /// The run.
    pub run: &'a RunId,
    /// Artifacts of its results.
    pub objects: &'a [Artifact],
    /// Files that it published, absolute.
    pub published: &'a [PathBuf],
    /// What the next run says if there is nothing to do; the driver's own form.
    pub summary: String,
}

impl Snapshot {
    /// Of a run that has ended; `now` is the present time. A published file that is missing makes the next run look closer.
    pub fn of(rested: Rested<'_>, inputs: &Inputs, now: SystemTime) -> Snapshot {
        let mut published = Stats::default();
        for path in rested.published {
            published.file(path, fs::metadata(path).map_or(Stamp::NEVER, |meta| Stamp::of(&meta)), Counts::Unread);
        }
        let object = |artifact: &Artifact| Object {
            digest: artifact.digest.0,
            folder: artifact.kind == ArtifactKind::Folder,
            bytes: artifact.bytes,
        };
        let mut objects: Vec<Object> = rested.objects.iter().map(object).collect();
        objects.sort();
        objects.dedup();
        Snapshot {
            key: rested.key.0,
            run: rested.run.clone(),
            inputs: inputs.settle(now),
            published,
            objects,
            summary: rested.summary,
        }
    }

    /// The snapshot of that name, if there is one that can be read.
    pub fn load(dir: &StoreDir, name: &str) -> Option<Snapshot> {
        let bytes = file::read(&dir.snapshot(name)).ok()?;
        postcard::from_bytes(bytes.strip_prefix(HEAD)?).ok()
    }

    /// Keeps it under that name, in place of the one that was there.
    ///
    /// # Errors
    /// The disk is full, or the store cannot be written.
    pub fn save(&self, dir: &StoreDir, name: &str) -> Result<()> {
        let mut bytes = HEAD.to_vec();
        bytes.extend(postcard::to_stdvec(self).unwrap_or_default());
        dir.write_atomically(&dir.snapshot(name), &bytes)
    }

    /// The run it was made by.
    pub fn run(&self) -> &RunId {
        &self.run
    }

    /// What to say if it holds.
    pub fn summary(&self) -> &str {
        &self.summary
    }

    /// Everything is as it was, as far as `stat` can tell, and `key` is the same: there is nothing to do.
    pub fn still_holds(&self, dir: &StoreDir, key: &Digest) -> bool {
        self.key == key.0 && self.inputs.hold() && self.published.hold() && self.objects_hold(dir)
    }

    fn objects_hold(&self, dir: &StoreDir) -> bool {
        let root = dir.objects().root().to_owned();
        self.objects.chunk_by(|a, b| a.digest[0] == b.digest[0]).all(|shelf| {
            let Some(first) = shelf.first() else { return true };
            let Ok(fd) = open_folder(&root.join(format!("{:02x}", first.digest[0]))) else { return false };
            shelf.iter().all(|object| {
                let hex = Digest(object.digest).to_string();
                fstatat(&fd, &hex[2..], AtFlags::AT_SYMLINK_NOFOLLOW).is_ok_and(|stat| {
                    let kind = SFlag::from_bits_truncate(stat.st_mode) & SFlag::S_IFMT;
                    let sound = if object.folder {
                        kind == SFlag::S_IFDIR
                    } else {
                        kind == SFlag::S_IFREG && stat.st_size.cast_unsigned() == object.bytes
                    };
                    sound && stat.st_mtime == STAMP
                })
            })
        })
    }

    /// Files whose digest is known, with the stamp they had then.
    pub(crate) fn known_files(&self) -> impl Iterator<Item = (PathBuf, (Stamp, Digest))> {
        self.inputs.0.iter().flat_map(|(folder, stats)| {
            let folder = Path::new(OsStr::from_bytes(folder));
            stats.files.iter().filter_map(move |file| match file.counts {
                Counts::Content(digest) => {
                    Some((folder.join(OsStr::from_bytes(&file.name)), (file.stamp, Digest(digest))))
                }
                _ => None,
            })
        })
    }
}

impl Stats {
    pub(crate) fn folder(&mut self, path: &Path, stamp: Stamp) {
        self.0.entry(path.as_os_str().as_bytes().to_vec()).or_default().stamp = Some(stamp);
    }

    pub(crate) fn file(&mut self, path: &Path, stamp: Stamp, counts: Counts) {
        let folder = path.parent().unwrap_or(Path::new("/")).as_os_str().as_bytes();
        let name = path.file_name().unwrap_or_default().as_bytes().to_vec();
        let file = FileStamp { name, stamp, counts };
        match self.0.get_mut(folder) {
            Some(folder) => folder.files.push(file),
            None => _ = self.0.insert(folder.to_vec(), Folder { stamp: None, files: vec![file] }),
        }
    }

    fn hold(&self) -> bool {
        self.0.iter().all(|(path, folder)| {
            let Ok(fd) = open_folder(Path::new(OsStr::from_bytes(path))) else { return false };
            folder.stamp.is_none_or(|stamp| fstat(&fd).is_ok_and(|stat| stamp == stamp_of(&stat)))
                && folder.files.iter().all(|file| {
                    fstatat(&fd, file.name.as_slice(), AtFlags::empty()).is_ok_and(|stat| match file.counts {
                        Counts::Length => stat.st_size.cast_unsigned() == file.stamp.bytes,
                        Counts::Content(_) | Counts::Unread => stamp_of(&stat) == file.stamp,
                    })
                })
        })
    }
}

fn open_folder(path: &Path) -> Result<OwnedFd, Errno> {
    open(path, OFlag::O_PATH | OFlag::O_DIRECTORY | OFlag::O_CLOEXEC, Mode::empty())
}

fn stamp_of(stat: &FileStat) -> Stamp {
    Stamp {
        bytes: stat.st_size.cast_unsigned(),
        modified: stat.st_mtime * 1_000_000_000 + stat.st_mtime_nsec,
        changed: stat.st_ctime * 1_000_000_000 + stat.st_ctime_nsec,
        inode: stat.st_ino,
    }
}
