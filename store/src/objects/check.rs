//! Is an artifact as it was? Only what is not there, or differs, is damage; what the system refuses to show for the moment is
//! an error, and nothing follows from it.

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

use super::{Objects, STAMP, ingest, look, stamp, untouched};
use crate::{EntryKind, Result, StoreError, hash};

/// An output that a result cannot be used without.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lost {
    pub output: String,
    /// What is wrong with it.
    pub damage: Damage,
}

impl fmt::Display for Lost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "its output `{}` in the store ", self.output)?;
        match &self.damage {
            Damage::Missing => f.write_str("is missing"),
            Damage::Changed { path: None } => f.write_str("was changed"),
            Damage::Changed { path: Some(path) } => write!(f, "was changed: {path}"),
            Damage::Content => f.write_str("has another content than its name says"),
        }
    }
}

impl Objects {
    /// The artifact is there, whole and untouched, as far as `stat` can tell.
    ///
    /// # Errors
    /// It cannot be told.
    pub fn has(&self, artifact: &Artifact) -> Result<bool> {
        Ok(self.check(artifact)?.is_none())
    }

    /// Why a result cannot be used: what it produced is not there any more, or not as it was.
    ///
    /// # Errors
    /// It cannot be told: the result may be as good as ever.
    pub fn missing(&self, result: &StepResult) -> Result<Option<Lost>> {
        for (output, artifact) in &result.outputs {
            if let Some(damage) = self.check(artifact)? {
                return Ok(Some(Lost { output: output.clone(), damage }));
            }
        }
        Ok(None)
    }

    /// The whole of an object that is a file, for which its digest is all that is known; `None` if it is gone, or is not as it
    /// was: then it is removed, for nothing makes it again.
    ///
    /// # Errors
    /// It cannot be told.
    pub fn whole(&self, digest: &Digest) -> Result<Option<Vec<u8>>> {
        // A folder, a pipe, a link that somebody put in its place.
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

    /// What is wrong with an artifact. A copy of a store, or a `touch`, changes times and not contents: what looks changed is
    /// read again, and is as it was if its content is; the list of a folder is then made again.
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

    /// Gives an artifact with the right content the time, the modes and the list back by which it is known; false if the
    /// content is another.
    fn restore(&self, artifact: &Artifact, path: &Path) -> Result<bool> {
        let manifest = match artifact.kind {
            ArtifactKind::File => None,
            ArtifactKind::Folder => readable(hash::folder(path, &self.activity))?,
        };
        let found = match (&manifest, artifact.kind) {
            (Some(manifest), _) => Some(manifest.digest()),
            (None, ArtifactKind::File) => readable(hash::file(path, &self.activity))?,
            (None, ArtifactKind::Folder) => None,
        };
        let sound = found == Some(artifact.digest);
        if sound {
            // In a store that cannot be written it is sound all the same, and read again the next time.
            let _ = ingest::resettle(path);
            let _ = manifest.map(|manifest| self.keep_manifest(&manifest));
        }
        Ok(sound)
    }

    fn check_folder(&self, digest: &Digest, path: &Path, meta: &Metadata) -> Result<Option<Damage>> {
        // Without its list only its content tells.
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

    /// What is wrong with an artifact, its whole content read again: slow and sure, for `flow doctor --contents`, and for what leaves
    /// the store.
    ///
    /// # Errors
    /// It cannot be told.
    pub fn verify_content(&self, artifact: &Artifact) -> Result<Option<Damage>> {
        if let Some(damage) = self.check(artifact)? {
            return Ok(Some(damage));
        }
        let found = readable(hash::content(&self.path(&artifact.digest), artifact.kind, &self.activity))?;
        Ok((found != Some(artifact.digest)).then_some(Damage::Content))
    }

    /// Removes what was kept to be read again where it is not as it was, and says so. Without `contents` only what has another time is
    /// read, as in a copy of a store. What is another user's cannot be read, and stays.
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
            // Its mode stays: nobody but its owner may read it. Where the time cannot be set it is read again the next time.
            let _ = File::open(&path).and_then(|file| file.set_times(FileTimes::new().set_modified(stamp())));
        }
        Ok(!sound)
    }

    /// After an attempt that was given links into the store: is this artifact as it was? A damaged one is dropped, and what
    /// was found is returned.
    ///
    /// # Errors
    /// It cannot be told; it is damaged and cannot be removed.
    pub fn verify_untouched(&self, artifact: &Artifact) -> Result<Option<Damage>> {
        let damage = self.check(artifact)?;
        if damage.is_some() {
            self.remove(&artifact.digest)?;
        }
        Ok(damage)
    }
}

/// What was read; `None` of what is gone meanwhile, or holds what no artifact does.
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
    use crate::StoreDir;

    #[test]
    fn what_is_no_file_any_more_is_damage_and_goes() {
        let dir = tempfile::tempdir().unwrap();
        let objects = StoreDir::create(&dir.path().join(".flow")).unwrap().objects();
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
