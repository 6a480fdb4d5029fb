//! What an attempt leaves for the next one to go on from, in a folder of the store that outlives both: whether that is more than was
//! there before, and what was used on the way. Does not know what is in it.

use std::{fs, io, os::unix::ffi::OsStrExt, path::PathBuf};

use flow_core::{Digest, Earlier, Usage, reason::Stopped};
use serde::{Deserialize, Serialize};
use walkdir::WalkDir;

use super::cleanup;
use crate::attempt::write_atomically;

/// The checkpoint folder of an instance.
pub(crate) struct Checkpoint(PathBuf);

/// What is noted beside it when an attempt was ended in the middle that goes on.
#[derive(Serialize, Deserialize)]
struct Noted {
    /// Of what was in it then.
    left: Digest,
    earlier: Earlier,
}

impl Checkpoint {
    pub(crate) fn at(folder: PathBuf) -> Checkpoint {
        Checkpoint(folder)
    }

    pub(crate) fn folder(&self) -> &PathBuf {
        &self.0
    }

    fn note(&self) -> PathBuf {
        self.0.with_extension("json")
    }

    fn noted(&self) -> Option<Noted> {
        serde_json::from_slice(&fs::read(self.note()).ok()?).ok()
    }

    /// What was used before the next attempt goes on.
    pub(crate) fn earlier(&self) -> Option<Earlier> {
        self.noted().map(|noted| noted.earlier)
    }

    /// An attempt was ended in the middle that used so much, with all before it: another one goes on, if this one got any further.
    ///
    /// # Errors
    /// Why none does. What cannot be read is no checkpoint.
    pub(crate) fn continues(&self, used: &Usage) -> Result<(), Stopped> {
        let left = self.content().map_err(|_| Stopped::NoCheckpoint)?.ok_or(Stopped::NoCheckpoint)?;
        if self.noted().is_some_and(|noted| noted.left == left) {
            return Err(Stopped::NoProgress);
        }
        let noted = serde_json::to_vec(&Noted { left, earlier: Earlier::and(used) }).unwrap_or_default();
        // Without the note nobody would know later whether there was any progress.
        write_atomically(&self.note(), &noted).map_err(|_| Stopped::NoCheckpoint)
    }

    /// An attempt is about to go on from it. Whoever left what is not noted was killed together with flow: how long it took is not known.
    pub(crate) fn found(&self) {
        let Ok(Some(left)) = self.content() else { return };
        let noted = self.noted();
        if noted.as_ref().is_some_and(|noted| noted.left == left) {
            return;
        }
        let mut earlier = noted.map(|noted| noted.earlier).unwrap_or_default();
        earlier.jobs += 1;
        earlier.unmeasured += 1;
        let noted = serde_json::to_vec(&Noted { left, earlier }).unwrap_or_default();
        let _ = write_atomically(&self.note(), &noted);
    }

    /// Nothing goes on from it any more.
    pub(crate) fn remove(&self) {
        cleanup::remove(&self.0);
        let _ = fs::remove_file(self.note());
    }

    /// A digest of all files in it; none where there are none.
    fn content(&self) -> io::Result<Option<Digest>> {
        let (mut all, mut files) = (blake3::Hasher::new(), 0);
        for entry in WalkDir::new(&self.0).sort_by_file_name() {
            let entry = entry?;
            let bytes = match entry.file_type() {
                kind if kind.is_file() => {
                    let mut file = blake3::Hasher::new();
                    file.update_reader(fs::File::open(entry.path())?)?;
                    *file.finalize().as_bytes()
                }
                kind if kind.is_symlink() => Digest::of(fs::read_link(entry.path())?.as_os_str().as_bytes()).0,
                _ => continue,
            };
            files += 1;
            let path = entry.path().as_os_str().as_bytes();
            all.update(&(path.len() as u64).to_le_bytes()).update(path).update(&bytes);
        }
        Ok((files > 0).then(|| Digest(*all.finalize().as_bytes())))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_goes_on_has_left_more_than_there_was() {
        let dir = tempfile::tempdir().unwrap();
        let checkpoint = Checkpoint::at(dir.path().join("ab12"));
        let part = |wall_s| Usage { wall_s, ..Usage::default() };
        assert_eq!(checkpoint.continues(&part(1.0)), Err(Stopped::NoCheckpoint));
        fs::create_dir_all(checkpoint.folder().join("deep")).unwrap();
        assert_eq!(checkpoint.continues(&part(1.0)), Err(Stopped::NoCheckpoint));
        fs::write(checkpoint.folder().join("deep/epoch"), "1").unwrap();
        assert_eq!(checkpoint.continues(&part(1.0)), Ok(()));
        // Written again, and the same.
        fs::write(checkpoint.folder().join("deep/epoch"), "1").unwrap();
        assert_eq!(checkpoint.continues(&part(2.0)), Err(Stopped::NoProgress));
        fs::write(checkpoint.folder().join("deep/epoch"), "2").unwrap();
        let used = part(2.0).after(checkpoint.earlier());
        assert_eq!(checkpoint.continues(&used), Ok(()));
        let earlier = checkpoint.earlier().unwrap();
        assert_eq!((earlier.jobs, earlier.wall_s), (2, 3.0));
        checkpoint.found();
        assert_eq!(checkpoint.earlier(), Some(earlier.clone()), "all of it is noted");
        fs::write(checkpoint.folder().join("deep/epoch"), "3").unwrap();
        checkpoint.found();
        let found = checkpoint.earlier().unwrap();
        assert_eq!((found.jobs, found.unmeasured, found.wall_s), (3, 1, 3.0));
        let used = part(1.0).after(Some(found));
        fs::write(checkpoint.folder().join("deep/epoch"), "4").unwrap();
        assert_eq!(checkpoint.continues(&used), Ok(()));
        assert_eq!(checkpoint.earlier().map(|earlier| (earlier.jobs, earlier.unmeasured)), Some((4, 1)));
        checkpoint.remove();
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0);
    }
}
