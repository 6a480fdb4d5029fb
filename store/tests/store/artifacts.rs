//! Artifacts: what can be kept, that a kept one is whole and stays so, and that a step cannot write into the store.

use std::{
    collections::BTreeMap,
    fs,
    os::unix::fs::{MetadataExt, PermissionsExt, symlink},
    path::Path,
};

use flow_core::{ArtifactKind, Digest};
use flow_runs::StoreDir;
use flow_store::{ArtifactForm, Objects};

use crate::common::{open, result, scratch, write};

fn objects(dir: &Path) -> Objects {
    Objects::of(&StoreDir::create(dir).unwrap())
}

fn everything_below(path: &Path) -> Vec<String> {
    let mut found = vec![];
    let mut open = vec![path.to_owned()];
    while let Some(folder) = open.pop() {
        for entry in fs::read_dir(folder).unwrap() {
            let entry = entry.unwrap();
            found.push(entry.path().strip_prefix(path).unwrap().display().to_string());
            if entry.file_type().unwrap().is_dir() {
                open.push(entry.path());
            }
        }
    }
    found.sort();
    found
}

#[test]
fn a_file_is_moved_in_once_and_named_by_its_content() {
    let dir = scratch();
    let objects = objects(&dir.path().join(".flow"));
    let first = write(dir.path().join("work/model.pt"), "weights");
    let kept = objects.ingest(&first, dir.path()).unwrap();
    assert_eq!((kept.digest, kept.kind, kept.bytes, kept.files), (Digest::of(b"weights"), ArtifactKind::File, 7, 1));
    assert!(!first.exists() && objects.has(&kept).unwrap());
    let again = objects.ingest(&write(dir.path().join("work/copy.pt"), "weights"), dir.path()).unwrap();
    assert_eq!(again, kept);
    assert_eq!(everything_below(&dir.path().join("work")), [""; 0], "moved, the second time too");
    assert_eq!(objects.read(&kept.digest, "").unwrap(), b"weights");

    let script = write(dir.path().join("work/run.sh"), "weights");
    fs::set_permissions(&script, fs::Permissions::from_mode(0o700)).unwrap();
    let script = objects.ingest(&script, dir.path()).unwrap();
    assert_ne!(script.digest, kept.digest, "executable or not is a difference");
    assert_eq!(fs::metadata(objects.path(&script.digest)).unwrap().mode() & 0o777, 0o555);
}

#[test]
fn a_file_can_keep_its_name_and_be_imported_again() {
    let dir = scratch();
    let objects = objects(&dir.path().join(".flow"));
    let (first, same) = (write(dir.path().join("work/a"), "weights"), write(dir.path().join("work/b"), "weights"));
    let kept = objects.ingest_linked(&first, dir.path()).unwrap();
    let inode = |path: &Path| fs::metadata(path).unwrap().ino();
    assert_eq!(inode(&first), inode(&objects.path(&kept.digest)), "nothing was copied");
    assert_eq!(objects.ingest_linked(&same, dir.path()).unwrap(), kept);
    assert_eq!(objects.ingest_copy_of(&first, dir.path()).unwrap(), kept);
    assert_eq!(everything_below(&dir.path().join("work")), ["a", "b"]);
    fs::remove_dir_all(dir.path().join("work")).unwrap();
    assert_eq!(objects.verify_untouched(&kept).unwrap(), None);
    // A folder is moved, and the link that it leaves stands for it.
    let work = dir.path().join("work");
    let out = work.join("out");
    write(out.join("x"), "x");
    let folder = objects.ingest_linked(&out, &work).unwrap();
    assert_eq!(fs::read_link(&out).unwrap(), objects.path(&folder.digest));
    for taken in [objects.ingest_linked(&out, &work), objects.ingest_copy_of(&out, &work)] {
        assert_eq!(taken.unwrap(), folder);
    }
    // Other links into the store are outputs that lead to one that was moved before. Their content is copied.
    assert_eq!(objects.ingest(&out, &work).unwrap(), folder);
    let link = work.join("link");
    symlink(objects.path(&kept.digest), &link).unwrap();
    assert_eq!(objects.ingest_linked(&link, &work).unwrap(), kept);
}

#[test]
fn a_folder_is_its_names_kinds_and_contents() {
    let dir = scratch();
    let objects = objects(&dir.path().join(".flow"));
    let make = |name: &str| {
        let out = dir.path().join(name);
        write(out.join("cat/1.jpg"), "meow");
        write(out.join("cat/2.jpg"), "purr");
        fs::create_dir_all(out.join("empty")).unwrap();
        symlink("cat/1.jpg", out.join("best")).unwrap();
        out
    };
    let kept = objects.ingest(&make("a"), dir.path()).unwrap();
    assert_eq!((kept.kind, kept.bytes, kept.files), (ArtifactKind::Folder, 8, 2));
    assert_eq!(objects.ingest(&make("b"), dir.path()).unwrap(), kept, "times and places do not count");
    assert_eq!(objects.read(&kept.digest, "cat/2.jpg").unwrap(), b"purr");
    let manifest = objects.manifest(&kept.digest).unwrap().unwrap();
    let names: Vec<_> = manifest.entries.iter().map(|entry| entry.path.to_str().unwrap()).collect();
    assert_eq!(names, ["best", "cat", "cat/1.jpg", "cat/2.jpg", "empty"]);

    let other = make("c");
    fs::remove_dir(other.join("empty")).unwrap();
    assert_ne!(objects.ingest(&other, dir.path()).unwrap().digest, kept.digest, "an empty folder counts");
    assert_ne!(
        objects.store_bytes(&fs::read(objects.path(&kept.digest).with_extension("list")).unwrap()).unwrap().digest,
        kept.digest,
        "a file with a folder's list as content is another artifact"
    );
}

#[test]
fn what_cannot_be_kept_is_named() {
    let dir = scratch();
    let objects = objects(&dir.path().join(".flow"));
    let work = dir.path().join("work");
    let outside = write(dir.path().join("outside"), "secret");
    let refused = |what: &str| {
        let text = objects.ingest(&work.join(what), &work).unwrap_err().to_string();
        text.replace(&*dir.path().to_string_lossy(), "DIR")
    };
    write(work.join("folder/a"), "a");
    symlink("../../outside", work.join("folder/up")).unwrap();
    insta::assert_snapshot!(refused("folder"), @"`DIR/work/folder/up` cannot be stored: it is a symbolic link to `../../outside`, which is neither in the output nor an input: copy the file");
    fs::remove_file(work.join("folder/up")).unwrap();
    symlink(&outside, work.join("folder/absolute")).unwrap();
    insta::assert_snapshot!(refused("folder"), @"`DIR/work/folder/absolute` cannot be stored: it is a symbolic link to `DIR/outside`, which is neither in the output nor an input: copy the file");
    fs::remove_file(work.join("folder/absolute")).unwrap();
    nix::unistd::mkfifo(&work.join("folder/pipe"), nix::sys::stat::Mode::S_IRWXU).unwrap();
    insta::assert_snapshot!(refused("folder"), @"`DIR/work/folder/pipe` cannot be stored: it is a pipe; only files, folders and links can be stored");
    symlink("../outside", work.join("link")).unwrap();
    insta::assert_snapshot!(refused("link"), @"`DIR/work/link` cannot be stored: it contains a symbolic link to `DIR/outside`, outside of the step's folder: copy the file");
    insta::assert_snapshot!(refused("nothing"), @"cannot find `DIR/work/nothing`: No such file or directory (os error 2)");
    assert_eq!(fs::read(outside).unwrap(), b"secret");
}

#[test]
fn links_that_lead_out_of_an_output_become_relative_or_copies() {
    let dir = scratch();
    let objects = objects(&dir.path().join(".flow"));
    let work = dir.path().join("work");
    let input = dir.path().join("inputs/data");
    write(input.join("sub/x.csv"), "x");
    write(dir.path().join("secret"), "secret");
    write(work.join("train.py"), "code");
    let out = work.join("out");
    write(out.join("epoch/3.ckpt"), "three");
    symlink(&input, work.join("data")).unwrap();
    symlink(out.join("epoch/3.ckpt"), out.join("last.ckpt")).unwrap();
    symlink(out.join("last.ckpt"), out.join("epoch/best.ckpt")).unwrap();
    symlink(&out, out.join("epoch/all")).unwrap();
    symlink("../train.py", out.join("train.py")).unwrap();
    symlink(work.join("data/sub"), out.join("sub")).unwrap();
    symlink(dir.path().join("secret"), out.join("secret")).unwrap();
    let given = [input.clone()];
    let refused = objects.mend_links(&out, &work, &given).unwrap_err().to_string();
    assert!(refused.contains("out/secret` cannot be stored"), "{refused}");
    fs::remove_file(out.join("secret")).unwrap();
    symlink(&work, out.join("work")).unwrap();
    assert!(objects.mend_links(&out, &work, &given).unwrap_err().to_string().contains("out/work`"), "holds the output");
    fs::remove_file(out.join("work")).unwrap();
    objects.mend_links(&out, &work, &given).unwrap();
    let kept = objects.ingest(&out, &work).unwrap();
    let link = |path: &str| fs::read_link(objects.path(&kept.digest).join(path)).unwrap().display().to_string();
    assert_eq!(["last.ckpt", "epoch/best.ckpt", "epoch/all"].map(link), ["epoch/3.ckpt", "../epoch/3.ckpt", "../"]);
    let read = |path: &str| String::from_utf8(objects.read(&kept.digest, path).unwrap()).unwrap();
    assert_eq!(["epoch/best.ckpt", "train.py", "sub/x.csv"].map(read), ["three", "code", "x"]);
    assert_eq!(
        (fs::read(work.join("train.py")).unwrap(), fs::read(input.join("sub/x.csv")).unwrap()),
        ("code".into(), "x".into())
    );
}

#[test]
fn an_output_that_is_a_link_or_shares_its_inode_is_copied() {
    let dir = scratch();
    let objects = objects(&dir.path().join(".flow"));
    let work = dir.path().join("work");
    let best = write(work.join("checkpoints/7.pt"), "seven");
    symlink("checkpoints/7.pt", work.join("best.pt")).unwrap();
    let kept = objects.ingest(&work.join("best.pt"), &work).unwrap();
    assert_eq!(objects.read(&kept.digest, "").unwrap(), b"seven");
    assert!(best.exists(), "the target may be an output of its own");

    let mine = write(dir.path().join("mine.txt"), "mine");
    fs::hard_link(&mine, work.join("out.txt")).unwrap();
    fs::create_dir(work.join("out")).unwrap();
    fs::hard_link(&mine, work.join("out/mine.txt")).unwrap();
    let before = fs::metadata(&mine).unwrap();
    for output in ["out.txt", "out"] {
        let kept = objects.ingest(&work.join(output), &work).unwrap();
        fs::write(&mine, "MINE").unwrap();
        assert!(objects.has(&kept).unwrap(), "{output}: writing the author's file does not reach the store");
        fs::write(&mine, "mine").unwrap();
    }
    assert_eq!(fs::metadata(&mine).unwrap().mode(), before.mode(), "the author's file is as it was");
}

type DamageCase<'a> = (&'a str, &'a dyn Fn(&Path));

#[test]
fn damage_is_seen() {
    let dir = scratch();
    let objects = objects(&dir.path().join(".flow"));
    let make = || {
        let files: BTreeMap<String, Vec<u8>> =
            [("cat/1.jpg".into(), b"meow".to_vec()), ("dog/2.jpg".into(), b"wuff".to_vec())].into();
        objects.store_files(&files).unwrap()
    };
    let file = |path: &Path| write(dir.path().join("tmp"), "MEOW").rename_to(path);
    let damage: [DamageCase; 5] = [
        ("same length", &|at| overwrite(&at.join("cat/1.jpg"), "MEOW")),
        ("another file", &|at| file(&at.join("cat/1.jpg"))),
        ("one more", &|at| file(&at.join("cat/3.jpg"))),
        ("one less", &|at| fs::remove_file(at.join("dog/2.jpg")).unwrap()),
        ("all gone", &|at| fs::remove_dir_all(at).unwrap()),
    ];
    for (name, damage) in damage {
        let kept = make();
        assert!(objects.has(&kept).unwrap(), "before: {name}");
        let mut using = result("prepare", 1);
        using.outputs.insert("out".into(), kept.clone());
        assert_eq!(objects.missing(&using).unwrap(), None);
        damage(&objects.path(&kept.digest));
        assert!(!objects.has(&kept).unwrap(), "{name}");
        let lost = objects.missing(&using).unwrap().unwrap().to_string();
        assert!(lost.starts_with("its output `out` in the store"), "{name}: {lost}");
        assert_eq!(make(), kept, "made again: {name}");
        assert!(objects.has(&kept).unwrap(), "made again: {name}");
    }
}

trait RenameTo {
    fn rename_to(&self, path: &Path);
}

impl RenameTo for std::path::PathBuf {
    fn rename_to(&self, path: &Path) {
        fs::rename(self, path).unwrap();
    }
}

/// As a program with write access would, root for one: modes do not stop it.
fn overwrite(path: &Path, text: &str) {
    let mode = fs::metadata(path).unwrap().permissions();
    fs::set_permissions(path, fs::Permissions::from_mode(0o644)).unwrap();
    fs::write(path, text).unwrap();
    fs::set_permissions(path, mode).unwrap();
}

#[test]
fn a_step_gets_a_copy_through_which_it_cannot_write_into_the_store() {
    let dir = scratch();
    let objects = objects(&dir.path().join(".flow"));
    let files: BTreeMap<String, Vec<u8>> = [("cat/1.jpg".into(), b"meow".to_vec())].into();
    let folder = objects.store_files(&files).unwrap();
    let file = objects.store_bytes(b"weights").unwrap();
    fs::create_dir(dir.path().join("in")).unwrap();
    for (artifact, at, inner) in [(&folder, "in/dataset", "in/dataset/cat/1.jpg"), (&file, "in/model", "in/model")] {
        assert_eq!(objects.materialise(&artifact.digest, &dir.path().join(at)).unwrap(), ArtifactForm::Copied);
        let inner = dir.path().join(inner);
        assert_eq!(fs::metadata(&inner).unwrap().mode() & 0o777, 0o444, "read-only");
        overwrite(&inner, "WEIGHTS");
        assert_eq!(objects.verify_untouched(artifact).unwrap(), None);
    }
    assert_eq!(objects.read(&folder.digest, "cat/1.jpg").unwrap(), b"meow");
    let lost = objects.materialise(&Digest::of(b"nothing"), &dir.path().join("in/nothing"));
    assert!(lost.unwrap_err().to_string().contains("missing from the store"));
}

#[test]
fn what_a_killed_process_left_half_done_is_removed_at_the_next_opening() {
    let dir = scratch();
    drop(open(dir.path()).unwrap());
    write(dir.path().join("objects/tmp/.tmp-4194999-0/half"), "half");
    // Its number may be that of another process by now, here or in another container.
    write(dir.path().join(format!("objects/tmp/.tmp-{}-999", std::os::unix::process::parent_id())), "half");
    drop(open(dir.path()).unwrap());
    assert_eq!(fs::read_dir(dir.path().join("objects/tmp")).unwrap().count(), 0);
}
