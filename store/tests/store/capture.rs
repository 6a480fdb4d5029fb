//! Capturing inputs: what is copied is what was hashed, once, and what is ignored is left out.

use std::{
    collections::BTreeSet,
    fs,
    os::unix::fs::{PermissionsExt, symlink},
    path::Path,
    time::SystemTime,
};

use flow_store::{CAPTURE_FILES, Captures, InputToCapture, Inputs};

use crate::common::{scratch, write};

fn wanted(path: &Path, place: &str) -> InputToCapture {
    InputToCapture { path: path.to_owned(), place: place.to_owned(), by_listing: false }
}

fn inputs() -> Inputs {
    Inputs::new(None, None, SystemTime::now())
}

#[test]
fn what_changed_since_it_was_hashed_is_not_copied() {
    let dir = scratch();
    let (file, folder) = (write(dir.path().join("a.txt"), "one"), dir.path().join("src"));
    let lib = write(folder.join("lib/b.txt"), "one");
    let inputs = inputs();
    let all = [wanted(&file, "a.txt"), wanted(&folder, "src")];
    all.iter().for_each(|wanted| _ = inputs.hash_path(&wanted.path, false).unwrap());
    write(&file, "two");
    fs::remove_file(&lib).unwrap();
    let captures = Captures::new(dir.path().join("inputs"));
    let changed = captures.capture(&inputs, all.clone()).unwrap();
    assert_eq!(changed, [file.clone(), folder.clone()]);
    assert!(captures.get(&file, false).is_none());
    write(&lib, "two");
    inputs.forget(&changed);
    assert!(captures.capture(&inputs, all.clone()).unwrap().is_empty());
    let copy = captures.get(&folder, false).unwrap();
    assert_eq!(copy.path(), dir.path().join("inputs/0/src"));
    assert!(copy.is_copy() && copy.written().is_none());
    assert_eq!(fs::read_to_string(copy.path().join("lib/b.txt")).unwrap(), "two");
    assert_eq!(fs::metadata(copy.path().join("lib/b.txt")).unwrap().permissions().mode() & 0o777, 0o444);
    write(&lib, "three");
    assert!(captures.capture(&inputs, all).unwrap().is_empty() && copy.written().is_none(), "copied once");

    captures.clear();
    drop(captures);
    let left = dir.path().join("inputs/0/src");
    assert_eq!(fs::read_link(&left).unwrap(), folder, "for the work folders that lead there");
    assert!(!dir.path().join("inputs/0/a.txt").exists());
}

#[test]
fn what_lies_in_a_folder_that_changed_is_captured_anew_with_it() {
    let dir = scratch();
    let folder = dir.path().join("data");
    let (labels, photo) = (write(folder.join("labels.csv"), "one"), write(folder.join("a.jpg"), "one"));
    let inputs = inputs();
    let all = [wanted(&labels, "data/labels.csv"), wanted(&folder, "data")];
    all.iter().for_each(|wanted| _ = inputs.hash_path(&wanted.path, false).unwrap());
    write(&photo, "two");
    let captures = Captures::new(dir.path().join("inputs"));
    let changed = captures.capture(&inputs, all.clone()).unwrap();
    assert_eq!(changed, std::slice::from_ref(&folder));
    write(&labels, "two");
    inputs.forget(&changed);
    assert!(captures.capture(&inputs, all).unwrap().is_empty());
    let both = [
        captures.get(&labels, false).unwrap().path().to_owned(),
        captures.get(&folder, false).unwrap().path().join("labels.csv"),
    ];
    assert_eq!(both.map(|copy| fs::read_to_string(copy).unwrap()), ["two", "two"]);
}

#[test]
fn a_copy_that_was_written_is_made_anew() {
    let dir = scratch();
    let folder = dir.path().join("src");
    write(folder.join("a.txt"), "one");
    let inputs = inputs();
    let captures = Captures::new(dir.path().join("inputs"));
    captures.capture(&inputs, [wanted(&folder, "src")]).unwrap();
    let copy = captures.get(&folder, false).unwrap();
    write(copy.path().join("__pycache__/a.pyc"), "x");
    assert_eq!(copy.written(), None, "no input");
    write(copy.path().join("b.txt"), "x");
    assert_eq!(copy.written(), Some(folder.clone()));
    captures.capture(&inputs, [wanted(&folder, "src")]).unwrap();
    let anew = captures.get(&folder, false).unwrap();
    assert!(anew.written().is_none() && anew.path() != copy.path());
    assert!(!anew.path().join("b.txt").exists());
}

#[test]
fn a_large_folder_is_linked_without_what_is_ignored() {
    let dir = scratch();
    let folder = dir.path().join("data");
    for n in 0..=CAPTURE_FILES {
        write(folder.join(format!("many/f{n}")), "");
    }
    write(folder.join("few/a"), "a");
    write(folder.join("few/a~"), "a");
    symlink("few", folder.join("same")).unwrap();
    let inputs = inputs();
    let captures = Captures::new(dir.path().join("inputs"));
    captures.capture(&inputs, [wanted(&folder, "data")]).unwrap();
    let view = captures.get(&folder, false).unwrap();
    assert!(!view.is_copy());
    let names = |below: &str| -> BTreeSet<String> {
        let entries = fs::read_dir(view.path().join(below)).unwrap().flatten();
        entries.map(|entry| entry.file_name().into_string().unwrap()).collect()
    };
    assert_eq!(names(""), ["few", "many", "same"].map(str::to_owned).into());
    assert_eq!((names("few"), names("same")), (["a".to_owned()].into(), ["a".to_owned()].into()));
    assert_eq!(fs::read_link(view.path().join("many")).unwrap(), folder.join("many"));
    assert_eq!((view.written(), inputs.changed(&folder, false)), (None, None));
    write(folder.join("few/.a.swp"), "a");
    assert_eq!(inputs.changed(&folder, false), None);
    write(folder.join("few/b"), "b");
    assert_eq!(inputs.changed(&folder, false), Some(folder.join("few")));

    let plain = dir.path().join("data/many");
    captures.capture(&inputs, [wanted(&plain, "data/many")]).unwrap();
    assert!(captures.get(&plain, false).is_none(), "the author's own, for all of it counts");
    assert_eq!(fs::read_link(dir.path().join("inputs/1/data/many")).unwrap(), plain);
}
