//! Gives an artifact to a step, as a copy through which nothing in the store can be changed.

use std::{
    fs,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
};

use flow_core::{
    Artifact, ArtifactKind, Digest,
    reason::{StoreAction, StoreFault},
};
use flow_runs::{Result, StoreError};
use walkdir::WalkDir;

use super::{Objects, ingest, look};
use crate::{EntryKind, Manifest, hash, sparse};

/// Larger artifacts are linked, not copied.
const COPY_LIMIT: u64 = 1 << 30;

/// The form in which a step gets an artifact.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ArtifactForm {
    /// A copy of its own (sharing blocks if the file system can).
    Copied,
    /// A link to the large read-only object. [`Objects::verify_untouched`] must follow after the attempt.
    Linked(Artifact),
}

impl Objects {
    /// Puts an artifact at `dest`, which must not exist yet, in an existing folder.
    ///
    /// # Errors
    /// The artifact is not in the store; the disk is full.
    pub fn materialise(&self, digest: &Digest, dest: &Path) -> Result<ArtifactForm> {
        self.materialise_within(digest, dest, COPY_LIMIT)
    }

    /// The same for many, on several threads. Creates parent folders.
    ///
    /// # Errors
    /// As [`Objects::materialise`].
    pub fn materialise_all(&self, all: &[(Digest, PathBuf)]) -> Result<Vec<ArtifactForm>> {
        hash::in_parallel(all, 0, |(digest, dest)| {
            make_parent(dest)?;
            self.materialise(digest, dest)
        })
    }

    /// Copies an artifact of any size to `dest`, which must not exist yet, for users, who may change it. Creates parent
    /// folders.
    ///
    /// # Errors
    /// As [`Objects::materialise`].
    pub fn copy_out(&self, digest: &Digest, dest: &Path) -> Result<()> {
        make_parent(dest)?;
        self.materialise_within(digest, dest, u64::MAX)?;
        let files = WalkDir::new(dest).into_iter().flatten().filter(|entry| entry.file_type().is_file());
        for entry in files {
            let mode = entry
                .metadata()
                .map_err(|e| StoreError::io(StoreAction::LookAt, entry.path())(e.into()))?
                .permissions()
                .mode();
            fs::set_permissions(entry.path(), fs::Permissions::from_mode(mode | 0o200))
                .map_err(StoreError::io(StoreAction::MakeWritable, entry.path()))?;
        }
        Ok(())
    }

    pub(crate) fn materialise_within(&self, digest: &Digest, dest: &Path, limit: u64) -> Result<ArtifactForm> {
        let object = self.path(digest);
        let missing = || StoreError::Missing(StoreFault::ArtifactGone { digest: digest.short() });
        let meta = look(&object)?.ok_or_else(missing)?;
        let manifest = if meta.is_dir() { Some(self.contents(digest)?) } else { None };
        let (files, bytes) = manifest.as_ref().map_or((1, meta.len()), Manifest::size);
        if bytes > limit {
            let target = fs::canonicalize(&object).map_err(StoreError::io(StoreAction::Find, &object))?;
            std::os::unix::fs::symlink(target, dest).map_err(StoreError::io(StoreAction::LinkTo, dest))?;
            let kind = if manifest.is_some() { ArtifactKind::Folder } else { ArtifactKind::File };
            return Ok(ArtifactForm::Linked(Artifact { digest: *digest, kind, bytes, files }));
        }
        match manifest {
            // The copy takes over the mode.
            None => {
                let copied = sparse::copy(&object, dest, &self.activity);
                copied.map_err(StoreError::io(StoreAction::CopyTo, dest)).inspect_err(|_| ingest::drop_half(dest))?;
            }
            Some(manifest) => {
                self.copy_folder(&object, &manifest, bytes, dest).inspect_err(|_| ingest::drop_half(dest))?
            }
        }
        Ok(ArtifactForm::Copied)
    }

    fn copy_folder(&self, object: &Path, manifest: &Manifest, bytes: u64, dest: &Path) -> Result<()> {
        let make = |path: &Path| fs::create_dir(path).map_err(StoreError::io(StoreAction::Create, path));
        let _begun = self.activity.begin("copying", dest, bytes);
        make(dest)?;
        // In the order of paths, so that a folder comes before its content.
        for entry in manifest.entries.iter().filter(|entry| entry.kind == EntryKind::Folder) {
            make(&dest.join(&entry.path))?;
        }
        hash::in_parallel(&manifest.entries, bytes, |entry| {
            let to = dest.join(&entry.path);
            match &entry.kind {
                EntryKind::Folder => Ok(()),
                EntryKind::Link(target) => std::os::unix::fs::symlink(target, &to),
                EntryKind::File { .. } => sparse::copy(&object.join(&entry.path), &to, &self.activity),
            }
            .map_err(StoreError::io(StoreAction::CopyTo, &to))
        })?;
        Ok(())
    }
}

fn make_parent(path: &Path) -> Result<()> {
    let Some(above) = path.parent() else { return Ok(()) };
    fs::create_dir_all(above).map_err(StoreError::io(StoreAction::Create, above))
}

#[cfg(test)]
mod tests {
    use super::*;
    use flow_core::reason::Damage;

    use flow_runs::StoreDir;

    #[test]
    fn a_large_artifact_is_linked_and_a_step_that_writes_into_it_is_found_out() {
        let dir = tempfile::tempdir().unwrap();
        let objects = Objects::of(&StoreDir::create(&dir.path().join(".flow")).unwrap());
        let folder = objects.store_files(&[("cat/7.jpg".into(), b"meow".to_vec())].into()).unwrap();
        let at = dir.path().join("dataset");
        let linked = ArtifactForm::Linked(folder.clone());
        assert_eq!(objects.materialise_within(&folder.digest, &at, 3).unwrap(), linked);
        let photo = at.join("cat/7.jpg");
        assert_eq!(fs::read(&photo).unwrap(), b"meow");
        assert_eq!(objects.verify_untouched(&folder).unwrap(), None);
        // The mode stops an ordinary user, but not root.
        fs::set_permissions(&photo, fs::Permissions::from_mode(0o644)).unwrap();
        fs::write(&photo, "MEOW").unwrap();
        assert_eq!(
            objects.verify_untouched(&folder).unwrap(),
            Some(Damage::Changed { path: Some("cat/7.jpg".into()) })
        );
        assert!(!objects.has(&folder).unwrap() && !objects.path(&folder.digest).exists(), "dropped");
    }
}
