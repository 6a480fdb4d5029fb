//! Copies of a captured folder for single attempts. Root can write into read-only files, so the copy of an attempt shows
//! whether that attempt did. Decides nothing.

use std::{
    fs::{self, File, FileTimes},
    io,
    path::Path,
    sync::atomic::AtomicBool,
};

use flow_runs::tree::remove_tree;

use super::{CapturedInput, CopiedPath};
use crate::{Activity, hash, sparse};

impl CapturedInput {
    /// Copies the files to `to`, with their modes and times. `None` if that fails: the attempt then shares this copy with
    /// others.
    pub fn copy_for_attempt(&self, to: &Path) -> Option<CapturedInput> {
        let made = fs::create_dir_all(to.parent()?).and_then(|()| self.make_at(to, copy_file));
        // A step may have written into this copy.
        if made.is_ok() && self.made.iter().all(|made| self.is_as_made(made)) {
            return Some(self.at(to));
        }
        let _ = remove_tree(to);
        None
    }

    fn at(&self, path: &Path) -> CapturedInput {
        let moved = |made: &CopiedPath| CopiedPath { path: self.moved(made, path), ..*made };
        CapturedInput {
            path: path.to_owned(),
            author: self.author.clone(),
            is_of_attempt: true,
            is_by_content: true,
            made: self.made.iter().map(moved).collect(),
            rules: self.rules.clone(),
            is_written: AtomicBool::new(false),
            ..*self
        }
    }
}

impl CopiedPath {
    /// True if the copy of an attempt, or of a killed run, still has its size and time, or its content: the author's file may have another
    /// time in the run that checks the copy of an earlier run.
    pub(super) fn is_in_copy(&self) -> bool {
        let Ok(meta) = fs::symlink_metadata(&self.path) else { return false };
        let stamp = crate::stamp::Stamp::of(&meta);
        (self.is_folder && meta.is_dir())
            || (stamp.bytes, stamp.modified) == (self.stamp.bytes, self.stamp.modified)
            || hash::file(&self.path, &Activity::default()).is_ok_and(|digest| Some(digest) == self.digest)
    }
}

/// Copies a file with its mode and its time.
fn copy_file(from: &Path, to: &Path) -> io::Result<()> {
    sparse::copy(from, to, &Activity::default())?;
    File::open(to)?.set_times(FileTimes::new().set_modified(fs::metadata(from)?.modified()?))
}

#[cfg(test)]
mod tests {
    use std::{
        collections::BTreeSet,
        fs::Permissions,
        os::unix::fs::{FileExt, MetadataExt, PermissionsExt},
        sync::Arc,
        time::{Duration, SystemTime},
    };

    use super::*;
    use crate::{Captures, InputToCapture, Inputs, OrphanedCopy};

    struct Scratch {
        dir: tempfile::TempDir,
        captures: Captures,
    }

    impl Scratch {
        /// A folder with files of these sizes and this time.
        fn new(sizes: &[u64], modified: SystemTime) -> Scratch {
            let dir = tempfile::tempdir().unwrap();
            fs::create_dir_all(dir.path().join("data/sub")).unwrap();
            for (n, size) in sizes.iter().enumerate() {
                let file = File::create(dir.path().join(format!("data/sub/{n}"))).unwrap();
                file.set_len(*size).unwrap();
                file.set_modified(modified).unwrap();
            }
            Scratch { captures: Captures::new(dir.path().join("inputs")), dir }
        }

        /// The hashed folder.
        fn inputs(&self) -> (Inputs, InputToCapture) {
            let path = self.dir.path().join("data");
            let inputs = Inputs::knowing(Default::default(), None, SystemTime::UNIX_EPOCH)
                .of_workflow(self.dir.path().to_owned(), BTreeSet::new());
            inputs.hash_path(&path, false).unwrap();
            (inputs, InputToCapture { path, place: "data".into(), by_listing: false })
        }

        fn captured(&self) -> Arc<CapturedInput> {
            let (inputs, wanted) = self.inputs();
            self.captures.capture(&inputs, [wanted.clone()]).unwrap();
            self.captures.get(&wanted.path, false).unwrap()
        }
    }

    /// Opens a file that is read-only.
    fn open(path: &Path) -> File {
        fs::set_permissions(path, Permissions::from_mode(0o644)).unwrap();
        File::options().write(true).open(path).unwrap()
    }

    #[test]
    fn the_copy_of_an_attempt_shows_what_that_attempt_wrote() {
        type Write = fn(&Path);
        let writes: [(&str, bool, Write); 7] = [
            ("nothing", false, |_| {}),
            ("in place", true, |path| open(path).write_all_at(b"x", 1).unwrap()),
            ("truncated", true, |path| open(path).set_len(1).unwrap()),
            ("the same content", false, |path| open(path).write_all_at(b"\0", 1).unwrap()),
            ("another time", false, |path| open(path).set_modified(SystemTime::UNIX_EPOCH).unwrap()),
            ("replaced", false, |path| {
                fs::remove_file(path).unwrap();
                fs::write(path, "new").unwrap();
            }),
            ("removed", false, |path| fs::remove_file(path).unwrap()),
        ];
        let scratch = Scratch::new(&[3, 5], SystemTime::now());
        let (shared, long_ago) = (scratch.captured(), SystemTime::UNIX_EPOCH + Duration::from_secs(1));
        for (n, (what, is_written, write)) in writes.into_iter().enumerate() {
            let (inputs, work) =
                (scratch.dir.path().join(format!("{n}/in/data")), scratch.dir.path().join(n.to_string()));
            let copy = shared.copy_for_attempt(&inputs).unwrap();
            copy.link_to(&work.join("data")).unwrap();
            let file = work.join("data/sub/0");
            let [own, captured] = [&file, &shared.path().join("sub/0")].map(|path| fs::metadata(path).unwrap());
            assert_ne!(own.ino(), captured.ino());
            assert_eq!((own.mode(), own.mtime_nsec()), (captured.mode(), captured.mtime_nsec()));
            fs::write(work.join("data/new"), "new").unwrap();
            write(&file);
            let expected = is_written.then(|| scratch.dir.path().join("data/sub/0"));
            assert_eq!(copy.written(), expected, "{what}");
            // Another run knows the content, but not the times.
            let (known, other) = Scratch::new(&[3, 5], long_ago).inputs();
            let attempt = scratch.dir.path().join(format!("{n}/in"));
            let OrphanedCopy::Copy(found) = OrphanedCopy::find(&known, &other, &attempt, &work) else {
                panic!("{what}")
            };
            assert_eq!(found.written().is_some(), is_written, "{what}");
            assert_eq!(shared.written(), None, "{what}");
        }
    }

    #[test]
    fn what_is_not_as_captured_is_shared() {
        let scratch = Scratch::new(&[3], SystemTime::now());
        let shared = scratch.captured();
        let file = shared.path().join("sub/0");
        fs::remove_file(&file).unwrap();
        fs::write(&file, "new").unwrap();
        assert!(shared.copy_for_attempt(&scratch.dir.path().join("attempt/data")).is_none());
    }
}
