//! What is not the step's own is never moved, changed or removed: files behind links, on mounts, or with another name.

use std::{
    fs,
    os::unix::fs::{MetadataExt, symlink},
    path::{Path, PathBuf},
    process::Command,
};

use flow_runs::{StoreDir, is_mounted_below};
use flow_store::Objects;

use crate::common::{scratch, write};

/// Path, mode, both parts of the time, inode and content of each thing.
type TreeListing = Vec<(PathBuf, u32, i64, i64, u64, Option<Vec<u8>>)>;

/// Everything that can be told of what lies below a folder.
fn everything(below: &Path) -> TreeListing {
    let mut all = Vec::new();
    let mut open = vec![below.to_owned()];
    while let Some(path) = open.pop() {
        let meta = fs::symlink_metadata(&path).unwrap();
        if meta.is_dir() {
            open.extend(fs::read_dir(&path).unwrap().map(|entry| entry.unwrap().path()));
        }
        let content = meta.is_file().then(|| fs::read(&path).unwrap());
        all.push((path, meta.mode(), meta.mtime(), meta.mtime_nsec(), meta.ino(), content));
    }
    all.sort();
    all
}

/// The author's folder, and a work folder beside the store.
struct Lab {
    _dir: tempfile::TempDir,
    objects: Objects,
    mine: PathBuf,
    work: PathBuf,
}

fn lab() -> Lab {
    let dir = scratch();
    let objects = Objects::of(&StoreDir::create(&dir.path().join(".flow")).unwrap());
    let mine = dir.path().join("mine");
    write(mine.join("labels.csv"), "mine");
    write(mine.join("sub/deep.csv"), "mine too");
    let work = dir.path().join(".flow/work");
    fs::create_dir(&work).unwrap();
    Lab { _dir: dir, objects, mine, work }
}

type Case<'a> = (&'a str, &'a str, &'a dyn Fn(&Lab));

#[test]
fn nothing_is_taken_through_a_link() {
    let cases: [Case; 7] = [
        ("a file below an input", "data/labels.csv", &|lab| symlink(&lab.mine, lab.work.join("data")).unwrap()),
        ("a folder below an input", "data/sub", &|lab| symlink(&lab.mine, lab.work.join("data")).unwrap()),
        ("with a slash behind it", "data/sub/", &|lab| symlink(&lab.mine, lab.work.join("data")).unwrap()),
        ("the input itself", "data", &|lab| symlink(&lab.mine, lab.work.join("data")).unwrap()),
        ("a link to a link", "data/sub/deep.csv", &|lab| {
            symlink(&lab.mine, lab.work.join("there")).unwrap();
            symlink("there", lab.work.join("data")).unwrap();
        }),
        ("a work folder replaced", "labels.csv", &|lab| {
            fs::remove_dir(&lab.work).unwrap();
            symlink(&lab.mine, &lab.work).unwrap();
        }),
        ("a folder with links out", "out", &|lab| {
            fs::create_dir(lab.work.join("out")).unwrap();
            symlink(lab.mine.join("sub"), lab.work.join("out/sub")).unwrap();
        }),
    ];
    for (name, output, make) in cases {
        let lab = lab();
        let before = everything(&lab.mine);
        make(&lab);
        let error = lab.objects.ingest(&lab.work.join(output), &lab.work).unwrap_err().to_string();
        assert!(error.contains("symbolic link"), "{name}: {error}");
        assert_eq!(everything(&lab.mine), before, "{name}");
    }
}

#[test]
fn what_a_link_leads_to_inside_is_copied() {
    let lab = lab();
    write(lab.work.join("runs/7/model.pt"), "seven");
    symlink("runs/7", lab.work.join("latest")).unwrap();
    let kept = lab.objects.ingest(&lab.work.join("latest/model.pt"), &lab.work).unwrap();
    assert_eq!(lab.objects.read(&kept.digest, "").unwrap(), b"seven");
    assert_eq!(fs::read(lab.work.join("runs/7/model.pt")).unwrap(), b"seven", "and stays");
}

#[test]
fn files_with_another_name_are_copied() {
    let lab = lab();
    let before = everything(&lab.mine);
    fs::create_dir(lab.work.join("out")).unwrap();
    fs::hard_link(lab.mine.join("labels.csv"), lab.work.join("out/labels.csv")).unwrap();
    fs::hard_link(lab.mine.join("labels.csv"), lab.work.join("labels.csv")).unwrap();
    for output in ["out", "labels.csv"] {
        lab.objects.ingest(&lab.work.join(output), &lab.work).unwrap();
        assert_eq!(everything(&lab.mine), before, "{output}");
    }
}

/// A mount; unmounted when dropped.
struct BindMount(PathBuf);

impl BindMount {
    /// None, said, where the user may not mount: only root can.
    #[expect(clippy::print_stderr, reason = "what was not tested is said")]
    fn new(from: &Path, at: PathBuf) -> Option<BindMount> {
        fs::create_dir_all(&at).unwrap();
        let bound = BindMount::over(from, at);
        if bound.is_none() {
            eprintln!("skipped: only root can mount a folder in another");
        }
        bound
    }

    /// Over what is there.
    fn over(from: &Path, at: PathBuf) -> Option<BindMount> {
        let mount = Command::new("mount").arg("--bind").args([from, &at]).output();
        mount.is_ok_and(|output| output.status.success()).then_some(BindMount(at))
    }
}

impl Drop for BindMount {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("-l").arg(&self.0).status();
    }
}

#[test]
fn what_is_mounted_is_copied_and_never_removed() {
    let lab = lab();
    let before = everything(&lab.mine);
    for (at, outputs) in [("my data", &["my data/labels.csv", "my data/sub", "my data"][..]), ("out/data", &["out"])] {
        let Some(bound) = BindMount::new(&lab.mine, lab.work.join(at)) else { return };
        for output in outputs {
            let kept = lab.objects.ingest(&lab.work.join(output), &lab.work).unwrap();
            assert!(lab.objects.has(&kept).unwrap(), "{output}");
            assert_eq!(everything(&lab.mine), before, "{output}");
        }
        assert!(is_mounted_below(&lab.work) && !is_mounted_below(&lab.mine), "{at}");
        drop(bound);
        assert!(!is_mounted_below(&lab.work), "{at}");
    }
    fs::write(lab.work.join("labels.csv"), "own").unwrap();
    let _bound =
        BindMount::over(&lab.mine.join("labels.csv"), lab.work.join("labels.csv")).expect("it was mounted before");
    lab.objects.ingest(&lab.work.join("labels.csv"), &lab.work).unwrap();
    assert_eq!(everything(&lab.mine), before, "one file in the place of another");
}
