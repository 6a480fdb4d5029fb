//! The folder of a store: paths, format, and unsupported file systems. Takes no lock, so that reading commands can use
//! it during a run.

use std::{
    fs::{self, File},
    hash::{BuildHasher, RandomState},
    io,
    os::unix::fs::{DirBuilderExt, MetadataExt},
    path::{Path, PathBuf},
    sync::{
        LazyLock,
        atomic::{AtomicU64, Ordering},
    },
    time::SystemTime,
};

use flow_core::{
    RunId,
    reason::{Fault, StoreAction},
};
use nix::sys::statfs::{FsType, statfs};

use crate::{Result, StoreError, file, mounts};

/// The version of the store's format. All others are refused.
pub const STORE_FORMAT: u32 = 4;
/// A link in a store to a folder of this machine for its database.
const LOCAL: &str = "local";
/// Magic numbers of network file systems, as documented by the kernel.
const NETWORK: &[(u32, &str)] = &[
    (0x6969, "NFS"),
    (0x517b, "SMB"),
    (0xfe53_4d42, "SMB"),
    (0xff53_4d42, "CIFS"),
    (0x0102_1997, "9p"),
    (0x00c3_6400, "Ceph"),
    (0x0bd0_0bd0, "Lustre"),
    (0x4750_4653, "GPFS"),
    (0x1983_0326, "BeeGFS"),
    (0x5346_414f, "AFS"),
];

/// The magic number of all FUSE file systems. The mount table has their type; these are network ones.
const FUSE: u32 = 0x6573_5546;
const NETWORK_FUSE: &[(&str, &str)] = &[
    ("fuse.sshfs", "sshfs"),
    ("fuse.rclone", "rclone"),
    ("fuse.s3fs", "s3fs"),
    ("fuse.gcsfuse", "gcsfuse"),
    ("fuse.glusterfs", "GlusterFS"),
    ("fuse.ceph-fuse", "Ceph"),
];

/// The folder of a store, without its lock.
#[derive(Clone, Debug)]
pub struct StoreDir {
    path: PathBuf,
}

impl StoreDir {
    pub(crate) fn at(path: &Path) -> StoreDir {
        StoreDir { path: path.to_owned() }
    }

    /// An existing store, or none if nothing has run yet. Creates nothing.
    ///
    /// # Errors
    /// Another format, or the format file cannot be read.
    pub fn existing(path: &Path) -> Result<Option<StoreDir>> {
        let dir = StoreDir::at(path);
        let format = dir.format_file();
        let bytes = file::if_there(file::read(&format)).map_err(StoreError::io(StoreAction::Read, &format))?;
        let Some(bytes) = bytes else { return Ok(None) };
        match String::from_utf8_lossy(&bytes).trim().parse() {
            Ok(found) if found > STORE_FORMAT => Err(StoreError::Newer { path: format, found, known: STORE_FORMAT }),
            Ok(found @ 1..STORE_FORMAT) => Err(StoreError::Older { path: path.to_owned(), found, known: STORE_FORMAT }),
            Ok(STORE_FORMAT) => Ok(Some(dir)),
            _ => Err(StoreError::Malformed {
                path: format,
                detail: Box::new(Fault::Text(format!(
                    "the number of the store's format was expected; write {STORE_FORMAT} into it if this flow made the store"
                ))),
            }),
        }
    }

    /// An existing store, or a new one for its owner alone. To share one, a group creates the folder first.
    ///
    /// # Errors
    /// A newer format; a network file system; a folder that cannot be written.
    pub fn create(path: &Path) -> Result<StoreDir> {
        let existing = StoreDir::existing(path)?;
        let was_there = fs::symlink_metadata(path).is_ok();
        make_private(path).map_err(StoreError::io(StoreAction::Create, path))?;
        let database = StoreDir::at(path).database_folder();
        if fs::symlink_metadata(path.join(LOCAL)).is_ok() && !database.is_dir() {
            return Err(StoreError::io(StoreAction::ReachDatabase, &database)(nix::errno::Errno::ENOENT.into()));
        }
        if let Some(kind) = network(&database)? {
            if !was_there {
                // Otherwise it would be taken for a store.
                let _ = fs::remove_dir(path);
            }
            return Err(StoreError::Network { path: path.to_owned(), kind });
        }
        for folder in ["objects/tmp", "runs", "snapshots", "plugins", "claimed"] {
            let folder = path.join(folder);
            fs::create_dir_all(&folder).map_err(StoreError::io(StoreAction::Create, &folder))?;
        }
        if let Some(dir) = existing {
            return Ok(dir);
        }
        let dir = StoreDir::at(path);
        // Keeps the store out of the user's repository.
        dir.write_atomically(&path.join(".gitignore"), b"*\n")?;
        dir.write_atomically(&dir.format_file(), format!("{STORE_FORMAT}\n").as_bytes())?;
        Ok(dir)
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The runs with a folder, oldest first.
    ///
    /// # Errors
    /// The folder cannot be read.
    pub fn runs(&self) -> Result<Vec<RunId>> {
        let path = self.runs_folder();
        let mut runs = Vec::new();
        let entries = file::if_there(fs::read_dir(&path)).map_err(StoreError::io(StoreAction::Read, &path))?;
        for entry in entries.into_iter().flatten() {
            let entry = entry.map_err(StoreError::io(StoreAction::Read, &path))?;
            // A file comes from an editor or a file manager.
            let is_folder = entry.file_type().map_err(StoreError::io(StoreAction::LookAt, entry.path()))?.is_dir();
            if let (true, Ok(name)) = (is_folder, entry.file_name().into_string()) {
                runs.push(RunId(name));
            }
        }
        runs.sort();
        Ok(runs)
    }

    /// The path of a workflow's snapshot.
    pub fn snapshot(&self, name: &str) -> PathBuf {
        self.path.join("snapshots").join(name)
    }

    /// Removes all snapshots, so that the next run looks closer.
    ///
    /// # Errors
    /// They cannot be removed.
    pub fn drop_snapshots(&self) -> Result<()> {
        let folder = self.path.join("snapshots");
        for file in fs::read_dir(&folder).into_iter().flatten().flatten().map(|entry| entry.path()) {
            file::if_there(fs::remove_file(&file)).map_err(StoreError::io(StoreAction::Remove, &file))?;
        }
        Ok(())
    }

    /// The folder for checkpoints, which the next attempt of the same work continues from until there is a result.
    pub fn checkpoints(&self) -> PathBuf {
        self.path.join("checkpoints")
    }

    /// Tells living runs that a dead run's jobs have changed.
    pub fn note_job_change(&self) {
        // A run that misses it repeats what still runs, or waits for its end.
        let _ = fs::write(self.job_change_file(), format!("{}\n", std::process::id()));
    }

    /// When this was last done.
    pub fn jobs_changed_at(&self) -> Option<SystemTime> {
        fs::metadata(self.job_change_file()).and_then(|meta| meta.modified()).ok()
    }

    fn job_change_file(&self) -> PathBuf {
        self.path.join("job-changes")
    }

    /// The file with the batch system's last report about its nodes.
    pub fn nodes(&self) -> PathBuf {
        self.path.join("nodes")
    }

    /// The file with the digest for which a plugin was set up.
    pub fn plugin(&self, name: &str) -> PathBuf {
        self.path.join("plugins").join(format!("{name}.json"))
    }

    /// Replaces a file of the store atomically: readers and a kill see either the old or the new content.
    ///
    /// # Errors
    /// Those of the system, such as a full disk. The old content then stays.
    pub fn write_atomically(&self, path: &Path, bytes: &[u8]) -> Result<()> {
        let temporary = self.temporary(path.parent().unwrap_or(&self.path));
        let written = fs::write(&temporary, bytes).and_then(|()| fs::rename(&temporary, path));
        written.map_err(|e| {
            let _ = fs::remove_file(&temporary);
            StoreError::io(StoreAction::Write, path)(e)
        })
    }

    /// An unused name in `folder`. It is random, because a process in another container may have our process number.
    pub fn temporary(&self, folder: &Path) -> PathBuf {
        static OWN: LazyLock<u64> = LazyLock::new(|| RandomState::new().hash_one(std::process::id()));
        static NEXT: AtomicU64 = AtomicU64::new(0);
        folder.join(format!(".tmp-{:016x}-{}", *OWN, NEXT.fetch_add(1, Ordering::Relaxed)))
    }

    /// The folder of the database: the store, or the target of its link `local`, so that everything else can be on a
    /// file system that other machines see.
    pub fn database_folder(&self) -> PathBuf {
        let local = self.path.join(LOCAL);
        if fs::symlink_metadata(&local).is_ok() { local } else { self.path.clone() }
    }

    pub fn db(&self) -> PathBuf {
        self.database_folder().join("db")
    }

    /// The file in which other processes find results of earlier runs.
    pub fn index(&self) -> PathBuf {
        self.database_folder().join("index")
    }

    pub fn runs_folder(&self) -> PathBuf {
        self.path.join("runs")
    }

    /// The path of a new database while it is made.
    pub fn new_db(&self) -> PathBuf {
        self.database_folder().join("db.new")
    }

    fn format_file(&self) -> PathBuf {
        self.path.join("format")
    }

    /// Syncs the names in the database's folder.
    pub fn sync_folder(&self) -> Result<()> {
        let folder = self.database_folder();
        File::open(&folder).and_then(|folder| folder.sync_all()).map_err(StoreError::io(StoreAction::Sync, &folder))
    }

    /// Syncs everything written to the store so far, which is cheaper than one call per file.
    pub fn sync_all(&self) -> Result<()> {
        let synced = File::open(&self.path).and_then(|folder| Ok(nix::unistd::syncfs(folder)?));
        synced.map_err(StoreError::io(StoreAction::Sync, &self.path))
    }

    pub(crate) fn users_file(&self) -> PathBuf {
        self.path.join("users")
    }

    pub(crate) fn lock_file(&self) -> PathBuf {
        self.path.join("lock")
    }

    pub(crate) fn claims(&self) -> PathBuf {
        self.path.join("claimed")
    }
}

fn make_private(path: &Path) -> io::Result<()> {
    path.parent().map_or(Ok(()), fs::create_dir_all)?;
    fs::DirBuilder::new().recursive(true).mode(0o700).create(path)
}

/// The network file system of a folder, if it is on one.
fn network(path: &Path) -> Result<Option<&'static str>> {
    let found = statfs(path).map_err(|e| StoreError::io(StoreAction::LookAtFileSystem, path)(e.into()))?;
    let FsType(kind) = found.filesystem_type();
    if kind as u32 != FUSE {
        return Ok(network_name(FsType(kind)));
    }
    let device = fs::metadata(path).map_err(StoreError::io(StoreAction::LookAtFileSystem, path))?.dev();
    Ok(mounts::kind(device).and_then(|kind| network_fuse(&kind)))
}

fn network_fuse(kind: &str) -> Option<&'static str> {
    NETWORK_FUSE.iter().find(|(known, _)| *known == kind).map(|(_, name)| *name)
}

fn network_name(FsType(kind): FsType) -> Option<&'static str> {
    NETWORK.iter().find(|(magic, _)| *magic == kind as u32).map(|(_, name)| *name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn network_file_systems_are_known_by_number() {
        assert_eq!(network_name(FsType(0x6969)), Some("NFS"));
        assert_eq!(network_name(FsType(0xff53_4d42)), Some("CIFS"));
        assert_eq!(network_name(FsType(0x0bd0_0bd0)), Some("Lustre"));
        assert_eq!(network_name(FsType(0xef53)), None, "ext4");
        assert_eq!(network_fuse("fuse.sshfs"), Some("sshfs"));
        assert_eq!(network_fuse("fuse.fuse-overlayfs"), None, "it is of this machine");
    }
}
