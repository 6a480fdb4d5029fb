//! Copies of inputs that a killed run left. The run that follows its attempts compares them with the content that it
//! knows. Decides nothing.

use std::{
    fs,
    path::{Path, PathBuf},
};

use super::{CapturedInput, CopiedPath, InputToCapture};
use crate::{
    Inputs,
    inputs::{SeenFile, SeenKind, StampedInput},
};
use flow_runs::INPUTS_OPEN;

/// The form in which an attempt of a killed run had an input.
pub enum OrphanedCopy {
    Copy(CapturedInput),
    /// It read the author's own files.
    InPlace,
    /// The run removed its copies.
    Removed,
}

impl OrphanedCopy {
    /// Looks for the copy of an input in the folder of the `attempt`, if it had its own, or else in that of its `run`. It
    /// must have had the same content as the input has now.
    pub fn find(inputs: &Inputs, wanted: &InputToCapture, attempt: &Path, run: &Path) -> OrphanedCopy {
        let Some(seen) = inputs.as_seen(&wanted.path, wanted.by_listing) else { return OrphanedCopy::Removed };
        let own = attempt.join(&wanted.place);
        if own.is_dir() {
            return OrphanedCopy::Copy(CapturedInput::left_at(&own, true, wanted, &seen));
        }
        if !run.join(INPUTS_OPEN).exists() {
            return OrphanedCopy::Removed;
        }
        let numbers = (0..).map(|number: u32| run.join(number.to_string())).take_while(|folder| folder.is_dir());
        let places = numbers.map(|folder| folder.join(&wanted.place));
        let places: Vec<PathBuf> = places.filter(|place| fs::symlink_metadata(place).is_ok()).collect();
        let paths = |place: &Path| seen.files.iter().map(|file| file.moved(&wanted.path, place)).collect::<Vec<_>>();
        // The other numbers may have inputs that are inside this one.
        let is_whole = |place: &&PathBuf| paths(place).iter().all(|path| path.exists());
        let mut used: Vec<&PathBuf> = places.iter().filter(is_whole).collect();
        if used.is_empty() {
            used.extend(places.first());
        }
        if used.is_empty() || used.iter().any(|place| paths(place).iter().any(|path| path.is_symlink())) {
            return OrphanedCopy::InPlace;
        }
        // After a step had written into one, later steps got another. Which one this attempt had is unknown.
        let mut copies: Vec<CapturedInput> =
            used.into_iter().map(|place| CapturedInput::left_at(place, false, wanted, &seen)).collect();
        let written = copies.iter().position(|copy| copy.written().is_some());
        let at = written.unwrap_or(copies.len() - 1);
        OrphanedCopy::Copy(copies.swap_remove(at))
    }
}

impl CapturedInput {
    fn left_at(place: &Path, is_of_attempt: bool, wanted: &InputToCapture, seen: &StampedInput) -> CapturedInput {
        let made = |file: &SeenFile| CopiedPath {
            path: file.moved(&wanted.path, place),
            stamp: file.stamp,
            is_folder: file.what == SeenKind::Folder,
            digest: if let SeenKind::Content(digest) = file.what { Some(digest) } else { None },
        };
        let made = seen.files.iter().map(made).collect();
        CapturedInput { is_of_attempt, is_by_content: true, ..CapturedInput::made_at(place, wanted, seen, made) }
    }
}

#[cfg(test)]
mod tests {
    use crate::Captures;
    use std::{
        collections::BTreeSet,
        fs::{File, Permissions},
        os::unix::fs::{PermissionsExt, symlink},
        time::SystemTime,
    };

    use super::*;

    fn inputs_of(root: &Path) -> Inputs {
        Inputs::knowing(Default::default(), None, SystemTime::now()).of_workflow(root.to_owned(), BTreeSet::new())
    }

    fn wanted(root: &Path, place: &str, by_listing: bool) -> InputToCapture {
        InputToCapture { path: root.join(place), place: place.into(), by_listing }
    }

    #[test]
    fn the_copy_of_a_killed_run_shows_what_its_steps_wrote() {
        type Write = fn(&Path);
        // What is seen to be written of `data`, and of `data/sub`: an attempt may have had the latter inside the former.
        let writes: [(&str, [Option<&str>; 2], Write); 4] = [
            ("nothing", [None, None], |_| {}),
            ("in place", [Some("data/sub/b"), Some("data/sub/b")], |data| {
                fs::set_permissions(data.join("sub/b"), Permissions::from_mode(0o644)).unwrap();
                fs::write(data.join("sub/b"), "two").unwrap();
            }),
            ("removed", [Some("data/a"), None], |data| fs::remove_file(data.join("a")).unwrap()),
            ("added", [Some("data/sub"), Some("data/sub")], |data| fs::write(data.join("sub/new"), "").unwrap()),
        ];
        for (what, expected, write) in writes {
            let dir = tempfile::tempdir().unwrap();
            let (root, run) = (dir.path(), dir.path().join("run/inputs"));
            fs::create_dir_all(root.join("data/sub")).unwrap();
            fs::create_dir_all(root.join("list")).unwrap();
            fs::write(root.join("data/a"), "one").unwrap();
            fs::write(root.join("data/sub/b"), "one").unwrap();
            let all = [("data", false), ("data/sub", false), ("list", true)];
            let all = all.map(|(place, by_listing)| wanted(root, place, by_listing));
            let captures = Captures::new(run.clone());
            captures.capture(&inputs_of(root), all.clone()).unwrap();
            // The run was killed, and the author's file has another time since.
            std::mem::forget(captures);
            File::options().write(true).open(root.join("data/a")).unwrap().set_modified(SystemTime::now()).unwrap();
            write(&run.join("0/data"));

            let inputs = inputs_of(root);
            all.iter().for_each(|of| _ = inputs.hash_path(&of.path, of.by_listing).unwrap());
            let find = |of: &InputToCapture| OrphanedCopy::find(&inputs, of, &root.join("run/attempts/1/inputs"), &run);
            let written = |of: &InputToCapture| match find(of) {
                OrphanedCopy::Copy(copy) => copy.written(),
                OrphanedCopy::InPlace | OrphanedCopy::Removed => panic!("{what}: no copy of {}", of.place),
            };
            for (of, expected) in all.iter().zip(expected) {
                assert_eq!(written(of), expected.map(|path| root.join(path)), "{what}: {}", of.place);
            }
            assert!(matches!(find(&all[2]), OrphanedCopy::InPlace), "{what}");
            fs::remove_dir_all(&run).unwrap();
            assert!(matches!(find(&all[0]), OrphanedCopy::Removed), "{what}");
        }
    }

    #[test]
    fn a_view_is_read_in_place() {
        let dir = tempfile::tempdir().unwrap();
        let (root, run) = (dir.path(), dir.path().join("inputs"));
        fs::create_dir_all(root.join("data")).unwrap();
        fs::write(root.join("data/a"), "one").unwrap();
        fs::create_dir_all(run.join("0/data")).unwrap();
        symlink(root.join("data/a"), run.join("0/data/a")).unwrap();
        File::create(run.join(INPUTS_OPEN)).unwrap();
        let (inputs, data) = (inputs_of(root), wanted(root, "data", false));
        inputs.hash_path(&data.path, false).unwrap();
        assert!(matches!(OrphanedCopy::find(&inputs, &data, &root.join("none"), &run), OrphanedCopy::InPlace));
    }
}
