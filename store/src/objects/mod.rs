//! Artifacts on disk, by the digest of their content: paths, checks, reading and removal. Needs no lock, because
//! whatever is visible under a digest was complete when it appeared.
//!
//! `objects/ab/cdef…` is a file or a folder, `objects/ab/cdef….list` the manifest of a folder (also of an input folder,
//! whose content is not kept). Files there are read-only, and all have the same modification time. A write changes it,
//! so that a few `stat` calls identify a sound artifact; one that looks changed is read again, and kept if its content
//! is right. Folders stay writable, so that `rm -r` works.
//!
//! Artifacts of a result are synced before any journal names them: [`Objects::sync`]. After a power cut, an incomplete
//! object has a wrong size or time and counts as missing.

mod check;
mod ingest;
mod materialise;

use std::{
    collections::BTreeSet,
    fs::{self, File, Metadata},
    io,
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
    time::{Duration, SystemTime},
};

use flow_core::{
    ArtifactKind, Digest, StepResult,
    reason::{StoreAction, StoreFault},
};

pub use check::LostOutput;
pub use materialise::ArtifactForm;

use crate::{Activity, Manifest, hash, manifest::folder_digest};
use flow_runs::{
    Result, StoreDir, StoreError, file,
    tree::{remove_tree, tree_size},
};

/// The modification time of everything in the store: the second day of 1980, because zip files cannot store earlier
/// years.
pub(crate) const STAMP: i64 = 315_619_200;

/// The artifacts of a store.
#[derive(Clone, Debug)]
pub struct Objects {
    dir: StoreDir,
    root: PathBuf,
    activity: Activity,
}

impl Objects {
    /// The artifacts of this store.
    pub fn of(dir: &StoreDir) -> Objects {
        Objects { dir: dir.clone(), root: dir.path().join("objects"), activity: Activity::default() }
    }

    /// The same, with this activity for hashing and copying.
    #[must_use]
    pub fn doing(&self, activity: Activity) -> Objects {
        Objects { activity, ..self.clone() }
    }

    pub fn activity(&self) -> &Activity {
        &self.activity
    }

    /// The path of an artifact. Read-only: use [`Objects::materialise`] to give it to a program.
    pub fn path(&self, digest: &Digest) -> PathBuf {
        let hex = digest.to_string();
        self.root.join(&hex[..2]).join(&hex[2..])
    }

    fn list_path(&self, digest: &Digest) -> PathBuf {
        self.path(digest).with_extension("list")
    }

    pub(crate) fn root(&self) -> &Path {
        &self.root
    }

    /// Syncs everything that results depend on. Syncing a few files is faster than syncing all that anybody wrote,
    /// which can be gigabytes, but syncing all is faster than syncing many files.
    pub(crate) fn sync<'a>(&self, results: impl Iterator<Item = &'a StepResult>) -> Result<()> {
        const FEW: usize = 4;
        let (mut files, mut folders) = (BTreeSet::new(), false);
        for result in results {
            folders |= result.outputs.values().any(|artifact| artifact.kind == ArtifactKind::Folder);
            files.extend(result.objects());
        }
        if folders || files.len() > FEW {
            return self.dir.sync_all();
        }
        for path in files.iter().map(|digest| self.path(digest)) {
            match File::open(&path).and_then(|file| file.sync_all()) {
                // It is private to another user, like the text of a script that both have.
                Err(e) if e.kind() == io::ErrorKind::PermissionDenied => return self.dir.sync_all(),
                // Artifacts of an accepted result may be gone, which is known.
                Err(e) if e.kind() != io::ErrorKind::NotFound => {
                    return Err(StoreError::io(StoreAction::Sync, &path)(e));
                }
                _ => {}
            }
        }
        Ok(())
    }

    /// A file of an artifact: the artifact itself if `path` is empty, else a file in the folder.
    ///
    /// # Errors
    /// It does not exist, or cannot be read.
    pub fn read(&self, digest: &Digest, path: impl AsRef<Path>) -> Result<Vec<u8>> {
        let at = if path.as_ref().as_os_str().is_empty() {
            self.path(digest)
        } else {
            self.path(digest).join(path.as_ref())
        };
        let read = || {
            self.activity.check()?;
            file::regular(&fs::metadata(&at)?).and_then(|()| fs::read(&at))
        };
        read().map_err(|e| match e.kind() {
            io::ErrorKind::NotFound => {
                let path = at.display().to_string();
                StoreError::Missing(StoreFault::ArtifactLacks { digest: digest.short(), path })
            }
            _ => StoreError::io(StoreAction::Read, &at)(e),
        })
    }

    /// The manifest of an artifact or input folder with this digest. `None` if it is unknown, not a folder, or its list
    /// is damaged: the list's digest must be the folder's.
    ///
    /// # Errors
    /// The list cannot be read.
    pub fn manifest(&self, digest: &Digest) -> Result<Option<Manifest>> {
        let path = self.list_path(digest);
        match file::read(&path) {
            Ok(bytes) if folder_digest(&bytes) == *digest => Ok(Manifest::decode(&bytes)),
            Ok(_) => Ok(None),
            Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(e) => Err(StoreError::io(StoreAction::Read, &path)(e)),
        }
    }

    /// The content of a folder artifact, from its list or, if that is lost, from the folder itself.
    ///
    /// # Errors
    /// The artifact is missing or has changed; it cannot be read.
    pub fn contents(&self, digest: &Digest) -> Result<Manifest> {
        if let Some(manifest) = self.manifest(digest)? {
            return Ok(manifest);
        }
        let path = self.path(digest);
        let manifest = hash::folder(&path, &self.activity)?;
        if manifest.digest() == *digest {
            return Ok(manifest);
        }
        let path = path.display().to_string();
        Err(StoreError::Missing(StoreFault::ArtifactChanged { digest: digest.short(), path }))
    }

    /// Keeps the manifest of an input folder, so that a later [`Objects::manifest`] shows what changed.
    ///
    /// # Errors
    /// The disk is full, or the store cannot be written.
    pub(crate) fn keep_manifest(&self, manifest: &Manifest) -> Result<Digest> {
        let encoded = manifest.encode();
        let digest = folder_digest(&encoded);
        let path = self.list_path(&digest);
        if file::read(&path).is_ok_and(|kept| kept == encoded) {
            return Ok(digest);
        }
        self.shelf(&path)?;
        self.dir.write_atomically(&path, &encoded)?;
        Ok(digest)
    }

    /// Creates the parent folder of `path`.
    fn shelf(&self, path: &Path) -> Result<()> {
        let shelf = path.parent().unwrap_or(&self.root);
        fs::create_dir_all(shelf).map_err(StoreError::io(StoreAction::Create, shelf))
    }

    /// A new path for an unfinished object. The next opening removes what a killed process left there.
    fn workplace(&self) -> Result<PathBuf> {
        let folder = self.root.join("tmp");
        fs::create_dir_all(&folder).map_err(StoreError::io(StoreAction::Create, &folder))?;
        Ok(self.dir.temporary(&folder))
    }

    /// Removes an artifact, and returns the freed bytes. It disappears at once, or stays whole.
    pub(crate) fn remove(&self, digest: &Digest) -> Result<u64> {
        let path = self.path(digest);
        let aside = self.workplace()?;
        let freed = match fs::rename(&path, &aside) {
            Ok(()) => remove_tree(&aside)?,
            Err(e) if e.kind() == io::ErrorKind::NotFound => 0,
            Err(e) => return Err(StoreError::io(StoreAction::Remove, &path)(e)),
        };
        let list = self.list_path(digest);
        match fs::remove_file(&list) {
            Err(e) if e.kind() != io::ErrorKind::NotFound => Err(StoreError::io(StoreAction::Remove, &list)(e)),
            _ => Ok(freed),
        }
    }

    /// Bytes that [`Objects::remove`] would free.
    pub(crate) fn size_of(&self, digest: &Digest) -> Result<u64> {
        tree_size(&self.path(digest))
    }

    /// Removes unfinished objects of killed processes. The caller holds the store alone, so that no living process can
    /// own any.
    pub(crate) fn sweep_workplace(&self) -> Result<()> {
        let folder = self.root.join("tmp");
        let Ok(entries) = fs::read_dir(&folder) else { return Ok(()) };
        entries.flatten().try_for_each(|entry| match remove_tree(&entry.path()) {
            // It belongs to another user of a shared store, who alone can remove it.
            Err(StoreError::Io { source, .. }) if source.kind() == io::ErrorKind::PermissionDenied => Ok(()),
            swept => swept.map(drop),
        })
    }

    /// Every digest with an entry in the store.
    pub(crate) fn each(&self, mut each: impl FnMut(Digest)) -> Result<()> {
        for shelf in fs::read_dir(&self.root).map_err(StoreError::io(StoreAction::Read, &self.root))?.flatten() {
            let first = shelf.file_name();
            let Some(first) = first.to_str().filter(|name| name.len() == 2) else { continue };
            for entry in fs::read_dir(shelf.path()).map_err(StoreError::io(StoreAction::Read, shelf.path()))?.flatten()
            {
                let name = entry.file_name();
                let Some(name) = name.to_str() else { continue };
                if let Ok(digest) = format!("{first}{}", name.strip_suffix(".list").unwrap_or(name)).parse() {
                    each(digest);
                }
            }
        }
        Ok(())
    }
}

fn stamp() -> SystemTime {
    SystemTime::UNIX_EPOCH + Duration::from_secs(STAMP.unsigned_abs())
}

/// True if time and length of a kept file are unchanged.
pub(crate) fn untouched(meta: &Metadata, bytes: u64) -> bool {
    meta.len() == bytes && meta.mtime() == STAMP
}

/// The metadata of a path, without following links; `None` if it does not exist.
fn look(path: &Path) -> Result<Option<Metadata>> {
    match fs::symlink_metadata(path) {
        Ok(meta) => Ok(Some(meta)),
        Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(e) => Err(StoreError::io(StoreAction::LookAt, path)(e)),
    }
}
