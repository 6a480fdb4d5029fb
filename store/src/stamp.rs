//! Stamps: stored results of `stat`, which show without reading whether files and folders are unchanged.

use std::{
    collections::BTreeMap,
    ffi::OsStr,
    fs::Metadata,
    os::{
        fd::OwnedFd,
        unix::{ffi::OsStrExt, fs::MetadataExt},
    },
    path::{Path, PathBuf},
};

use flow_core::Digest;
use nix::{
    errno::Errno,
    fcntl::{AtFlags, OFlag, open},
    sys::stat::{FileStat, Mode, fstat, fstatat},
};
use serde::{Deserialize, Serialize};

/// The part of `stat` that shows whether a file or folder is unchanged.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Stamp {
    pub(crate) bytes: u64,
    pub(crate) modified: i64,
    pub(crate) changed: i64,
    pub(crate) inode: u64,
}

impl Stamp {
    pub(crate) fn of(meta: &Metadata) -> Stamp {
        Stamp {
            bytes: meta.len(),
            modified: meta.mtime() * 1_000_000_000 + meta.mtime_nsec(),
            changed: meta.ctime() * 1_000_000_000 + meta.ctime_nsec(),
            inode: meta.ino(),
        }
    }

    /// No file has this stamp.
    pub(crate) const NEVER: Stamp = Stamp { bytes: u64::MAX, modified: 0, changed: 0, inode: 0 };

    /// True if any later change would be visible: the last change is older than a tick of the file system's clock.
    pub(crate) fn is_settled(&self, now: i64) -> bool {
        // Whole seconds indicate a file system without finer times.
        let tick = if self.modified % 1_000_000_000 == 0 { 2_100_000_000 } else { 100_000_000 };
        self.modified.max(self.changed).saturating_add(tick) < now
    }

    fn of_stat(stat: &FileStat) -> Stamp {
        Stamp {
            bytes: stat.st_size.cast_unsigned(),
            modified: stat.st_mtime * 1_000_000_000 + stat.st_mtime_nsec,
            changed: stat.st_ctime * 1_000_000_000 + stat.st_ctime_nsec,
            inode: stat.st_ino,
        }
    }
}

/// Stamps by folder, so that a check opens each folder once and looks up short names.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Stats(BTreeMap<Vec<u8>, Folder>);

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
struct Folder {
    /// Present if the folder's listing counts.
    stamp: Option<Stamp>,
    files: Vec<FileStamp>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct FileStamp {
    name: Vec<u8>,
    stamp: Stamp,
    counts: Counts,
}

/// The part of a file that counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Counts {
    /// Its content, which had this digest.
    Content(Digest),
    Length,
    /// Its content, without a known digest.
    Unread,
    /// Its absence.
    Absent,
}

/// The digest of a file's content at the time of the stamp.
pub(crate) struct KnownFile {
    pub(crate) stamp: Stamp,
    pub(crate) digest: Digest,
    /// The file still has this stamp.
    pub(crate) is_same: bool,
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

    pub(crate) fn hold(&self) -> bool {
        self.0.iter().all(|(path, folder)| {
            let Ok(fd) = open_folder(Path::new(OsStr::from_bytes(path))) else { return false };
            folder.stamp.is_none_or(|stamp| fstat(&fd).is_ok_and(|stat| stamp == Stamp::of_stat(&stat)))
                && folder.files.iter().all(|file| {
                    match (fstatat(&fd, file.name.as_slice(), AtFlags::empty()), file.counts) {
                        (Err(error), Counts::Absent) => error == Errno::ENOENT,
                        (Err(_), _) | (Ok(_), Counts::Absent) => false,
                        (Ok(stat), Counts::Length) => stat.st_size.cast_unsigned() == file.stamp.bytes,
                        (Ok(stat), Counts::Content(_) | Counts::Unread) => Stamp::of_stat(&stat) == file.stamp,
                    }
                })
        })
    }

    /// Every file, and whether it still has its stamp.
    fn files(&self) -> impl Iterator<Item = (PathBuf, &FileStamp, bool)> {
        self.0.iter().flat_map(|(path, folder)| {
            let path = Path::new(OsStr::from_bytes(path));
            let fd = open_folder(path).ok();
            folder.files.iter().map(move |file| {
                let stat = fd.as_ref().and_then(|fd| fstatat(fd, file.name.as_slice(), AtFlags::empty()).ok());
                let is_same = stat.is_some_and(|stat| Stamp::of_stat(&stat) == file.stamp);
                (path.join(OsStr::from_bytes(&file.name)), file, is_same)
            })
        })
    }

    /// The files that still have their stamp.
    pub(crate) fn unchanged(&self) -> impl Iterator<Item = PathBuf> {
        self.files().filter(|(_, _, is_same)| *is_same).map(|(path, ..)| path)
    }

    /// Files with a known digest.
    pub(crate) fn known_files(&self) -> impl Iterator<Item = (PathBuf, KnownFile)> {
        self.files().filter_map(|(path, file, is_same)| match file.counts {
            Counts::Content(digest) => Some((path, KnownFile { stamp: file.stamp, digest, is_same })),
            _ => None,
        })
    }
}

/// Opens a folder, only to look up its entries.
pub(crate) fn open_folder(path: &Path) -> Result<OwnedFd, Errno> {
    open(path, OFlag::O_PATH | OFlag::O_DIRECTORY | OFlag::O_CLOEXEC, Mode::empty())
}
