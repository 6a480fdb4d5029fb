//! Damage is told from what cannot be seen for the moment: only damage costs a result. Lists of folders are what their digest
//! says, or are made again.

use std::{
    collections::BTreeMap,
    fs,
    ops::ControlFlow,
    os::unix::fs::symlink,
    path::{Path, PathBuf},
};

use flow_core::{Artifact, StepResult};
use flow_runs::StoreDir;
use flow_store::{Diagnosis, Inputs, Objects, Store, doctor};
use serde_json::json;

use crate::common::{me, open, record, result, scratch, write};

/// A store with one result, whose output is a folder with a link in it.
fn kept(dir: &Path) -> (Artifact, StepResult) {
    let store = open(dir).unwrap();
    let work = dir.join("work");
    write(work.join("out/cat/1.jpg"), "meow");
    write(work.join("out/dog/2.jpg"), "wuff");
    symlink("cat/1.jpg", work.join("out/best")).unwrap();
    let folder = store.objects().ingest(&work.join("out"), &work).unwrap();
    let mut made = result("prepare", 1);
    made.outputs.insert("out".into(), folder.clone());
    record(&store, &made, json!({}));
    (folder, made)
}

fn examine(dir: &Path, contents: bool) -> (Store, Diagnosis) {
    doctor(dir, &me("flow doctor"), |_| ControlFlow::Break(()), contents).unwrap()
}

fn list_of(objects: &Objects, folder: &Artifact) -> PathBuf {
    objects.path(&folder.digest).with_extension("list")
}

/// What a step that is given the folder finds in it.
fn given(objects: &Objects, folder: &Artifact) -> (String, PathBuf) {
    let to = scratch();
    objects.materialise(&folder.digest, &to.path().join("in")).unwrap();
    let read = |path: &str| fs::read_to_string(to.path().join("in").join(path)).unwrap();
    (read("cat/1.jpg") + &read("dog/2.jpg"), fs::read_link(to.path().join("in/best")).unwrap())
}

type DamageCase<'a> = (&'a str, &'a dyn Fn(&[u8]) -> Option<Vec<u8>>);

#[test]
fn a_damaged_list_is_seen_and_made_again_from_the_content() {
    let replaced = |list: &[u8], from: &str, to: &str| {
        let (list, from, to) = (list.to_vec(), from.as_bytes(), to.as_bytes());
        let at = list.windows(from.len()).position(|window| window == from).unwrap();
        [&list[..at], to, &list[at + from.len()..]].concat()
    };
    let damage: [DamageCase; 6] = [
        ("gone", &|_| None),
        ("empty", &|_| Some(Vec::new())),
        ("cut", &|list| Some(list[..list.len() / 2].to_vec())),
        ("garbage of its length", &|list| Some(vec![b'x'; list.len()])),
        ("a link elsewhere", &|list| Some(replaced(list, "\0cat/1.jpg\0", "\0dog/2.jpg\0"))),
        ("another name", &|list| Some(replaced(list, "dog/2.jpg", "dog/3.jpg"))),
    ];
    let sound = ("meowwuff".to_owned(), PathBuf::from("cat/1.jpg"));
    for (name, damage) in damage {
        let dir = scratch();
        let (folder, made) = kept(dir.path());
        let objects = Objects::of(&StoreDir::existing(dir.path()).unwrap().unwrap());
        let list = list_of(&objects, &folder);
        let whole = fs::read(&list).unwrap();
        let damage = || match damage(&whole) {
            Some(bytes) => fs::write(&list, bytes).unwrap(),
            None => fs::remove_file(&list).unwrap(),
        };
        damage();
        assert_eq!(objects.manifest(&folder.digest).unwrap(), None, "{name}");
        assert_eq!(given(&objects, &folder), sound, "{name}: before anybody mended it");
        assert_eq!(objects.missing(&made).unwrap(), None, "{name}");
        assert_eq!(fs::read(&list).unwrap(), whole, "{name}: made again");
        for contents in [false, true] {
            damage();
            let (_, found) = examine(dir.path(), contents);
            assert!(!found.is_sound() && found.relisted == 1 && found.dropped.is_empty(), "{name}: {found:?}");
            assert!(examine(dir.path(), contents).1.is_sound(), "{name}");
            assert_eq!(given(&objects, &folder), sound, "{name}");
        }
        // With another content as well, there is nothing to make it from.
        damage();
        fs::remove_file(objects.path(&folder.digest).join("dog/2.jpg")).unwrap();
        assert!(objects.missing(&made).unwrap().is_some(), "{name}");
        assert!(objects.materialise(&folder.digest, &dir.path().join("in")).is_err(), "{name}");
        assert_eq!(examine(dir.path(), false).1.dropped.len(), 1, "{name}");
        assert!(!list.exists(), "{name}");
    }
}

#[test]
fn a_link_that_leads_elsewhere_is_damage() {
    let dir = scratch();
    let (folder, made) = kept(dir.path());
    let objects = Objects::of(&StoreDir::existing(dir.path()).unwrap().unwrap());
    let at = objects.path(&folder.digest);
    let time = fs::metadata(&at).unwrap().modified().unwrap();
    fs::remove_file(at.join("best")).unwrap();
    symlink("dog/2.jpg", at.join("best")).unwrap();
    fs::File::open(&at).unwrap().set_times(fs::FileTimes::new().set_modified(time)).unwrap();
    let lost = objects.missing(&made).unwrap().unwrap();
    assert_eq!(lost.to_string(), "its output `out` in the store was changed: best");
}

#[test]
fn the_list_of_an_input_folder_is_written_again_where_it_is_not_its_own() {
    let dir = scratch();
    let objects = Objects::of(&StoreDir::create(&dir.path().join(".flow")).unwrap());
    write(dir.path().join("photos/1.jpg"), "meow");
    let hash = || {
        let inputs = Inputs::new(Some(objects.clone()), None, std::time::SystemTime::now());
        inputs.hash_path(&dir.path().join("photos"), false).unwrap().digest
    };
    let digest = hash();
    let list = objects.path(&digest).with_extension("list");
    let whole = fs::read(&list).unwrap();
    fs::write(&list, vec![b'x'; whole.len()]).unwrap();
    assert_eq!(objects.manifest(&digest).unwrap(), None);
    assert_eq!((hash(), fs::read(&list).unwrap()), (digest, whole));
}

/// A link in a circle in place of a folder: as with a permission that is missing or a disk that fails, nobody can say what
/// lies there, root neither.
fn hide(folder: &Path) {
    fs::rename(folder, folder.with_extension("away")).unwrap();
    symlink(folder, folder).unwrap();
}

fn show(folder: &Path) {
    fs::remove_file(folder).unwrap();
    fs::rename(folder.with_extension("away"), folder).unwrap();
}

#[test]
fn what_cannot_be_seen_for_the_moment_is_an_error_and_costs_nothing() {
    let dir = scratch();
    let (folder, made) = kept(dir.path());
    let objects = Objects::of(&StoreDir::existing(dir.path()).unwrap().unwrap());
    let at = objects.path(&folder.digest);
    let shelf = at.parent().unwrap();
    hide(shelf);
    let error = objects.missing(&made).unwrap_err().to_string();
    assert!(error.contains(&*at.to_string_lossy()), "it says where: {error}");
    assert!(objects.has(&folder).is_err() && objects.verify_untouched(&folder).is_err());
    assert!(objects.materialise(&folder.digest, &dir.path().join("in")).is_err());
    let (store, found) = examine(dir.path(), true);
    assert!(!found.is_sound() && found.dropped.is_empty() && found.results == 1, "{found:?}");
    assert_eq!(found.unseen.iter().map(|(label, _)| &**label).collect::<Vec<_>>(), ["prepare"]);
    assert!(store.result(&made.fingerprint).unwrap().is_some(), "it stays");
    show(shelf);
    assert_eq!(objects.missing(&made).unwrap(), None, "and is as good as ever");
    let files: BTreeMap<String, Vec<u8>> = [("a".to_owned(), b"a".to_vec())].into();
    let other = objects.store_files(&files).unwrap();
    let shelf = objects.path(&other.digest).parent().unwrap().to_owned();
    hide(&shelf);
    assert!(objects.store_files(&files).is_err(), "nothing is put in its place");
    show(&shelf);
    assert!(objects.has(&other).unwrap());
}
