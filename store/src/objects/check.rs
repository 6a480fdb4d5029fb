//! Checks whether an artifact is unchanged. Only a missing or different artifact is damaged; a system error while
//! reading is an error without consequences.

use std::{
    fmt,
    fs::{self, File, FileTimes, Metadata},
    io,
    os::unix::fs::MetadataExt,
    path::Path,
};

use flow_core::{
    Artifact, ArtifactKind, Digest, StepResult,
    reason::{Damage, StoreAction},
};
use flow_runs::{Result, StoreError};

use super::{Objects, STAMP, ingest, look, stamp, untouched};
use crate::{EntryKind, Manifest, hash};

/// A missing or damaged output that a result needs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LostOutput {
    pub output: String,
    /// The damage.
    pub damage: Damage,
}

impl fmt::Display for LostOutput {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "its output `{}` in the store ", self.output)?;
        match &self.damage {
            Damage::Missing => f.write_str("is missing"),
            Damage::Changed { path: None } => f.write_str("was changed"),
            Damage::Changed { path: Some(path) } => write!(f, "was changed: {path}"),
            Damage::Content => f.write_str("has content that does not match its name"),
        }
    }
}

impl Objects {
    /// True if the artifact is present, complete and unchanged, as far as `stat` shows.
    ///
    /// # Errors
    /// It cannot be determined.
    pub fn has(&self, artifact: &Artifact) -> Result<bool> {
        Ok(self.check(artifact)?.is_none())
    }

    /// The reason why a result cannot be used: an output is missing or has changed.
    ///
    /// # Errors
    /// It cannot be determined: the result may still be good.
    pub fn missing(&self, result: &StepResult) -> Result<Option<LostOutput>> {
        for (output, artifact) in &result.outputs {
            if let Some(damage) = self.check(artifact)? {
                return Ok(Some(LostOutput { output: output.clone(), damage }));
            }
        }
        Ok(None)
    }

    /// The content of an object that is a file with this digest; `None` if it is gone or has changed. A changed one is
    /// removed, because nothing makes it again.
    ///
    /// # Errors
    /// It cannot be determined.
    pub fn whole(&self, digest: &Digest) -> Result<Option<Vec<u8>>> {
        // A folder, a pipe, or a link that somebody put in its place.
        if look(&self.path(digest))?.is_some_and(|meta| !meta.is_file()) {
            return self.remove(digest).map(|_| None);
        }
        match self.read(digest, "") {
            Ok(bytes) if Digest::of(&bytes) == *digest => Ok(Some(bytes)),
            Ok(_) => self.remove(digest).map(|_| None),
            Err(StoreError::Missing { .. }) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// The damage of an artifact. A copy of a store, or a `touch`, changes times but not contents: an artifact that
    /// looks changed is read again, and is sound if its content is right. The list of a folder is then made again.
    pub(crate) fn check(&self, artifact: &Artifact) -> Result<Option<Damage>> {
        let path = self.path(&artifact.digest);
        let Some(meta) = look(&path)? else { return Ok(Some(Damage::Missing)) };
        let looks = match artifact.kind {
            ArtifactKind::File if meta.is_file() => {
                (!untouched(&meta, artifact.bytes)).then_some(Damage::Changed { path: None })
            }
            ArtifactKind::Folder if meta.is_dir() => self.check_folder(&artifact.digest, &path, &meta)?,
            _ => return Ok(Some(Damage::Changed { path: None })),
        };
        match looks {
            Some(damage) if !self.restore(artifact, &path)? => Ok(Some(damage)),
            _ => Ok(None),
        }
    }

    /// Restores time, modes and list of an artifact with the right content; false if the content differs.
    fn restore(&self, artifact: &Artifact, path: &Path) -> Result<bool> {
        let (found, manifest) = self.content(path, artifact.kind)?;
        let sound = found == Some(artifact.digest);
        if sound {
            // If the store is read-only, the artifact is still sound, and is read again the next time.
            let _ = ingest::resettle(path);
            let _ = manifest.map(|manifest| self.keep_manifest(&manifest));
        }
        Ok(sound)
    }

    /// The digest of what is at this path, read again, and the manifest of a folder.
    fn content(&self, path: &Path, kind: ArtifactKind) -> Result<(Option<Digest>, Option<Manifest>)> {
        Ok(match kind {
            ArtifactKind::File => (readable(hash::file(path, &self.activity))?, None),
            ArtifactKind::Folder => {
                let manifest = readable(hash::folder(path, &self.activity))?;
                (manifest.as_ref().map(Manifest::digest), manifest)
            }
        })
    }

    fn check_folder(&self, digest: &Digest, path: &Path, meta: &Metadata) -> Result<Option<Damage>> {
        // Without its list, only its content shows whether it is sound.
        let Some(manifest) = self.manifest(digest)? else { return Ok(Some(Damage::Content)) };
        if meta.mtime() != STAMP {
            return Ok(Some(Damage::Changed { path: Some(".".to_owned()) }));
        }
        for entry in &manifest.entries {
            let whole = path.join(&entry.path);
            let sound = match (&entry.kind, look(&whole)?) {
                (_, None) => false,
                (EntryKind::Folder, Some(meta)) => meta.is_dir() && meta.mtime() == STAMP,
                (EntryKind::File { bytes, .. }, Some(meta)) => meta.is_file() && untouched(&meta, *bytes),
                (EntryKind::Link(target), Some(meta)) => {
                    meta.is_symlink()
                        && fs::read_link(&whole).map_err(StoreError::io(StoreAction::ReadLink, &whole))? == *target
                }
            };
            if !sound {
                let path = Some(entry.path.to_string_lossy().into_owned());
                return Ok(Some(Damage::Changed { path }));
            }
        }
        Ok(None)
    }

    /// False if a name below a kept folder was added or removed, as far as the times of folders show.
    pub(crate) fn has_its_names(&self, digest: &Digest) -> bool {
        let Ok(Some(manifest)) = self.manifest(digest) else { return false };
        let path = self.path(digest);
        let folders = manifest.entries.iter().filter(|entry| matches!(entry.kind, EntryKind::Folder));
        folders
            .map(|entry| fs::symlink_metadata(path.join(&entry.path)))
            .all(|meta| meta.is_ok_and(|meta| meta.is_dir() && meta.mtime() == STAMP))
    }

    /// The damage of an artifact after reading its whole content: slow and sure, for `flow doctor --contents`, and for
    /// exports.
    ///
    /// # Errors
    /// It cannot be determined.
    pub fn verify_content(&self, artifact: &Artifact) -> Result<Option<Damage>> {
        if let Some(damage) = self.check(artifact)? {
            return Ok(Some(damage));
        }
        let (found, _) = self.content(&self.path(&artifact.digest), artifact.kind)?;
        Ok((found != Some(artifact.digest)).then_some(Damage::Content))
    }

    /// Removes a damaged kept file or folder, and returns whether it did. Without `contents`, reads only those with a
    /// changed time, as in a copy of a store. Those of other users cannot be read, and stay.
    pub(crate) fn drop_damaged(&self, digest: &Digest, contents: bool) -> Result<bool> {
        let path = self.path(digest);
        let Some(meta) = look(&path)? else { return Ok(false) };
        let has_its_time = meta.mtime() == STAMP;
        let sound = match meta.is_file() {
            true if contents || !has_its_time => match hash::file(&path, &self.activity) {
                Err(StoreError::Io { source, .. }) if source.kind() == io::ErrorKind::PermissionDenied => true,
                found => readable(found)? == Some(*digest),
            },
            is_file => is_file,
        };
        if !sound {
            self.remove(digest)?;
        } else if !has_its_time {
            // Its mode stays: only its owner may read it. If the time cannot be set, the file is read again next time.
            let _ = File::open(&path).and_then(|file| file.set_times(FileTimes::new().set_modified(stamp())));
        }
        Ok(!sound)
    }

    /// Checks an artifact after an attempt that had links into the store. Removes a damaged one, and returns the
    /// damage.
    ///
    /// # Errors
    /// It cannot be determined; it is damaged and cannot be removed.
    pub fn verify_untouched(&self, artifact: &Artifact) -> Result<Option<Damage>> {
        let damage = self.check(artifact)?;
        if damage.is_some() {
            self.remove(&artifact.digest)?;
        }
        Ok(damage)
    }
}

/// The content; `None` if it vanished in the meantime, or contains what no artifact may.
fn readable<T>(read: Result<T>) -> Result<Option<T>> {
    match read {
        Ok(read) => Ok(Some(read)),
        Err(StoreError::NotAnArtifact { .. }) => Ok(None),
        Err(StoreError::Io { source, .. }) if source.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use flow_runs::StoreDir;

    #[test]
    fn what_is_no_file_any_more_is_damage_and_goes() {
        let dir = tempfile::tempdir().unwrap();
        let objects = Objects::of(&StoreDir::create(&dir.path().join(".flow")).unwrap());
        let mine = dir.path().join("mine");
        fs::write(&mine, "x").unwrap();
        let digest = Digest::of(b"x");
        let path = objects.path(&digest);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        let others: [&dyn Fn(); 3] = [
            &|| fs::create_dir(&path).unwrap(),
            &|| nix::unistd::mkfifo(&path, nix::sys::stat::Mode::S_IRWXU).unwrap(),
            &|| std::os::unix::fs::symlink(&mine, &path).unwrap(),
        ];
        for put in others {
            put();
            assert_eq!(objects.whole(&digest).unwrap(), None);
            assert!(path.symlink_metadata().is_err(), "it goes");
        }
        assert_eq!(fs::read(&mine).unwrap(), b"x");
    }
}
