//! Inputs and the snapshot: every change is seen, nothing else is; files that are as they were are not read.

use std::{
    fs::{self, FileTimes},
    ops::ControlFlow,
    os::unix::fs::symlink,
    path::Path,
    time::{Duration, SystemTime},
};

use flow_core::{Artifact, Digest, RunId};
use flow_runs::StoreDir;
use flow_store::{FinishedRun, Inputs, Objects, Snapshot, SnapshotResult, Store};
use serde_json::Value;

use crate::common::{keep, me, open, open_for_run, record, recorded, result, scratch, write};

fn later() -> SystemTime {
    SystemTime::now() + Duration::from_secs(10)
}

fn digest(path: &Path) -> Digest {
    Inputs::new(None, None, later()).hash_path(path, false).unwrap().digest
}

#[test]
fn the_content_of_an_input_counts_and_nothing_else() {
    let dir = scratch();
    let file = write(dir.path().join("models/a.py"), "pass");
    write(dir.path().join("models/deep/b.py"), "pass");
    assert_eq!(digest(&file), Digest::of(b"pass"));
    let folder = dir.path().join("models");
    let before = digest(&folder);
    write(folder.join("__pycache__/a.pyc"), "cache");
    fs::File::open(&file).unwrap().set_times(FileTimes::new().set_modified(SystemTime::UNIX_EPOCH)).unwrap();
    assert_eq!(digest(&folder), before);
    let elsewhere = write(dir.path().join("elsewhere/b.py"), "pass");
    fs::remove_dir_all(folder.join("deep")).unwrap();
    symlink(elsewhere.parent().unwrap(), folder.join("deep")).unwrap();
    assert_eq!(digest(&folder), before, "a link to the same content");
    write(&elsewhere, "Pass");
    assert_ne!(digest(&folder), before, "what a link leads to counts");
    write(&elsewhere, "pass");
    write(folder.join("c.py"), "");
    assert_ne!(digest(&folder), before, "one more file");

    symlink("..", folder.join("deep/loop")).unwrap();
    symlink(&folder, elsewhere.with_file_name("loop2")).unwrap();
    let text = Inputs::new(None, None, later()).hash_path(&folder, false).unwrap_err().to_string();
    assert!(text.contains("leads back to a folder above it"), "{text}");
}

#[test]
fn a_listing_is_names_and_lengths() {
    let dir = scratch();
    let listing = || Inputs::new(None, None, later()).hash_path(dir.path(), true).unwrap().digest;
    let photo = write(dir.path().join("cat/7.jpg"), "meow");
    let before = listing();
    write(&photo, "MEOW");
    assert_eq!(listing(), before);
    write(&photo, "meows");
    assert_ne!(listing(), before);
    fs::rename(&photo, photo.with_file_name("8.jpg")).unwrap();
    write(photo.with_file_name("8.jpg"), "meow");
    assert_ne!(listing(), before);
}

/// One instance, with these artifacts.
fn unchanged(artifacts: &[Artifact]) -> Vec<Option<SnapshotResult>> {
    let mut result = result("train", 1);
    result.outputs.extend(artifacts.iter().enumerate().map(|(n, artifact)| (n.to_string(), artifact.clone())));
    vec![None, Some(SnapshotResult::of(&result, Digest::of(b"inputs")))]
}

/// Everything that a snapshot rests on, made anew for each case.
struct SnapshotBasis {
    dir: tempfile::TempDir,
    store: StoreDir,
    folder: std::path::PathBuf,
    file: std::path::PathBuf,
    listed: std::path::PathBuf,
    report: std::path::PathBuf,
    object: std::path::PathBuf,
    kept_folder: std::path::PathBuf,
}

impl SnapshotBasis {
    fn new() -> (SnapshotBasis, Snapshot) {
        let dir = scratch();
        let store = StoreDir::create(&dir.path().join(".flow")).unwrap();
        let folder = dir.path().join("photos");
        write(folder.join("cat/7.jpg"), "meow");
        let file = write(dir.path().join("train.py"), "train");
        let listed = dir.path().join("huge");
        write(listed.join("a/1.bin"), "12345");
        let report = write(dir.path().join("reports/feb08.md"), "# Report");
        let artifacts = [
            Objects::of(&store).store_bytes(b"weights").unwrap(),
            Objects::of(&store).store_files(&[("tables/t.csv".into(), b"a,b".to_vec())].into()).unwrap(),
        ];
        let [object, kept_folder] = [0, 1].map(|n| Objects::of(&store).path(&artifacts[n].digest));
        let inputs = Inputs::new(Some(Objects::of(&store)), None, later());
        inputs.hash_path(&folder, false).unwrap();
        inputs.hash_path(&file, false).unwrap();
        inputs.hash_path(&listed, true).unwrap();
        let run = RunId("20260208-153012-3f2a".into());
        let rested = FinishedRun {
            key: Digest::of(b"key"),
            run: &run,
            results: unchanged(&artifacts),
            published: std::slice::from_ref(&report),
            summary: "22 cached".into(),
        };
        Snapshot::of(rested, &inputs, later()).save(&store, "feb08").unwrap();
        let snapshot = Snapshot::load(&store, "feb08").unwrap();
        (SnapshotBasis { dir, store, folder, file, listed, report, object, kept_folder }, snapshot)
    }
}

type Case<'a> = (&'a str, bool, &'a dyn Fn(&SnapshotBasis));

#[test]
fn a_snapshot_holds_until_something_that_counts_changes() {
    let cases: [Case; 13] = [
        ("nothing", true, &|_| {}),
        ("something beside it", true, &|rest| drop(write(rest.dir.path().join("notes.txt"), "x"))),
        ("a photo, same length", false, &|rest| drop(write(rest.folder.join("cat/7.jpg"), "MEOW"))),
        ("a photo, its time set back", false, &|rest| {
            let photo = rest.folder.join("cat/7.jpg");
            let time = fs::metadata(&photo).unwrap().modified().unwrap();
            write(&photo, "MEOW");
            fs::File::open(&photo).unwrap().set_times(FileTimes::new().set_modified(time)).unwrap();
        }),
        ("a photo more", false, &|rest| drop(write(rest.folder.join("cat/8.jpg"), "x"))),
        ("a photo less", false, &|rest| fs::remove_file(rest.folder.join("cat/7.jpg")).unwrap()),
        ("the script gone", false, &|rest| fs::remove_file(&rest.file).unwrap()),
        ("a listed file, same length", true, &|rest| drop(write(rest.listed.join("a/1.bin"), "54321"))),
        ("a listed file, longer", false, &|rest| drop(write(rest.listed.join("a/1.bin"), "123456"))),
        ("a listed file more", false, &|rest| drop(write(rest.listed.join("a/2.bin"), "1"))),
        ("the report edited", false, &|rest| drop(write(&rest.report, "# REPORT"))),
        ("an artifact gone", false, &|rest| fs::remove_file(&rest.object).unwrap()),
        ("a file of an artifact gone", false, &|rest| {
            fs::remove_file(rest.kept_folder.join("tables/t.csv")).unwrap();
        }),
    ];
    for (name, holds, change) in cases {
        let (rest, snapshot) = SnapshotBasis::new();
        let key = Digest::of(b"key");
        assert!(snapshot.still_holds(&rest.store, &key), "before: {name}");
        assert!(!snapshot.still_holds(&rest.store, &Digest::of(b"other")), "another key");
        std::thread::sleep(Duration::from_millis(15));
        change(&rest);
        assert_eq!(snapshot.still_holds(&rest.store, &key), holds, "{name}");
    }
}

#[test]
fn a_snapshot_that_cannot_be_read_is_none() {
    let (rest, snapshot) = SnapshotBasis::new();
    assert_eq!((snapshot.summary(), snapshot.run().0.as_str()), ("22 cached", "20260208-153012-3f2a"));
    let path = rest.store.path().join("snapshots/feb08");
    let whole = fs::read(&path).unwrap();
    for bytes in [&whole[..whole.len() / 2], b"flow snapshot 2\n", b"flow snapshot 3\n", b""] {
        fs::write(&path, bytes).unwrap();
        assert!(Snapshot::load(&rest.store, "feb08").is_none());
    }
    assert!(Snapshot::load(&rest.store, "other").is_none());
}

#[test]
fn a_file_is_read_again_only_where_its_stamp_differs() {
    let (rest, snapshot) = SnapshotBasis::new();
    // A stand-in for the content: if the digest comes from the snapshot, the file is not read, and need not be readable.
    let photo = rest.folder.join("cat/7.jpg");
    let fresh = || Inputs::new(None, Some(&snapshot), later());
    let before = fresh().hash_path(&rest.folder, false).unwrap();
    assert_eq!((before.files, before.bytes), (1, 4));
    std::thread::sleep(Duration::from_millis(15));
    write(&photo, "MEOW");
    let inputs = fresh();
    let after = inputs.hash_path(&rest.folder, false).unwrap();
    assert_ne!(after.digest, before.digest);
    assert_eq!(inputs.changed(&rest.folder, false), None);
    std::thread::sleep(Duration::from_millis(15));
    write(&photo, "MEOW");
    assert_eq!(inputs.changed(&rest.folder, false), None, "written again, and the same");
    std::thread::sleep(Duration::from_millis(15));
    write(&photo, "wuff");
    assert_eq!(inputs.changed(&rest.folder, false), Some(photo), "changed while the run goes on");
    assert_eq!(inputs.hash_path(&rest.folder, false).unwrap(), after, "one run, one answer");
    let manifest = Objects::of(&rest.store).manifest(&before.digest).unwrap().unwrap();
    assert_eq!(manifest.files().collect::<Vec<_>>(), [(Path::new("cat/7.jpg"), &Digest::of(b"meow"))]);
}

#[test]
fn a_file_changed_within_a_tick_of_the_clock_is_not_trusted() {
    let dir = scratch();
    let store = StoreDir::create(&dir.path().join(".flow")).unwrap();
    let file = write(dir.path().join("train.py"), "train");
    let key = Digest::of(b"key");
    let run = RunId("r".into());
    let snapshot = |began: SystemTime, ended: SystemTime, meanwhile: &dyn Fn()| {
        let inputs = Inputs::new(None, None, began);
        inputs.hash_path(&file, false).unwrap();
        meanwhile();
        Snapshot::of(
            FinishedRun { key, run: &run, results: Vec::new(), published: &[], summary: String::new() },
            &inputs,
            ended,
        )
    };
    let now = SystemTime::now();
    assert!(!snapshot(now, now, &|| {}).still_holds(&store, &key), "too fresh at both ends");
    assert!(snapshot(now, later(), &|| {}).still_holds(&store, &key), "read again at the end");
    let restamp = || {
        // The same stamp but for the content: what a second write within one tick looks like, as near as can be made.
        write(&file, "TRAIN");
    };
    assert!(!snapshot(now, later(), &restamp).still_holds(&store, &key), "changed since it was hashed");
}

#[test]
fn what_stood_is_relied_on_as_long_as_nothing_else_was_recorded() {
    let dir = scratch();
    let path = dir.path().join(".flow");
    let key = Digest::of(b"key");
    let store = open(&path).unwrap();
    let file = write(dir.path().join("weights"), "weights");
    let artifact = store.objects().ingest(&file, dir.path()).unwrap();
    let run = record(&store, &result("train", 1), Value::Null);
    let inputs = Inputs::new(None, None, SystemTime::now());
    let all = unchanged(std::slice::from_ref(&artifact));
    let rested = FinishedRun { key, run: &run, results: all.clone(), published: &[], summary: String::new() };
    Snapshot::of(rested, &inputs, later()).save(store.dir(), "w").unwrap();
    let snapshot = Snapshot::load(store.dir(), "w").unwrap();
    assert_eq!(snapshot.results(&store, &key).unwrap(), all);
    assert_eq!(snapshot.results(&store, &Digest::of(b"other")).unwrap(), [], "another workflow, or another flow");
    fs::remove_file(store.objects().path(&artifact.digest)).unwrap();
    assert_eq!(snapshot.results(&store, &key).unwrap(), [], "an artifact is gone");
    let file = write(dir.path().join("weights"), "weights");
    store.objects().ingest(&file, dir.path()).unwrap();
    assert_eq!(snapshot.results(&store, &key).unwrap(), all, "and there again");
    snapshot.look_ahead(&store);
    fs::remove_file(store.objects().path(&artifact.digest)).unwrap();
    assert_eq!(snapshot.results(&store, &key).unwrap(), all, "looked at ahead");
    record(&store, &result("other", 2), Value::Null);
    assert_eq!(snapshot.results(&store, &key).unwrap(), [], "somebody recorded something");
    let fresh = Snapshot::load(store.dir(), "w").unwrap();
    fresh.look_ahead(&store);
    assert_eq!(fresh.results(&store, &key).unwrap(), [], "and before it was looked at");
}

#[test]
fn what_stood_is_not_relied_on_where_another_run_ran_at_the_same_time() {
    let dir = scratch();
    let path = dir.path().join(".flow");
    let key = Digest::of(b"key");
    let named = |id: &'static str| {
        let named = open_for_run(&path, &me("flow run"), |_| RunId(id.into()), |_| ControlFlow::Break(()));
        let (store, run) = named.unwrap();
        let journal = store.begin(&run).unwrap();
        (store, run, journal)
    };
    let all = unchanged(&[]);
    let leave = |store: &Store, run: &RunId| {
        let inputs = Inputs::new(None, None, SystemTime::now());
        let rested = FinishedRun { key, run, results: all.clone(), published: &[], summary: String::new() };
        Snapshot::of(rested, &inputs, later()).save(store.dir(), &run.0).unwrap();
    };
    let stands = |id: &str| {
        let store = open(&path).unwrap();
        Snapshot::load(store.dir(), id).unwrap().results(&store, &key).unwrap() == all
    };
    let (first, one, journal) = named("1");
    let (second, two, _journal) = named("2");
    keep(&first, &journal, vec![recorded(&result("train", 1), Value::Null)]).unwrap();
    leave(&second, &two);
    drop(second);
    assert!(!stands("2"), "the other one goes on");
    leave(&first, &one);
    drop((first, journal));
    assert!(stands("1") && !stands("2"), "one recorded while the other went on");
    let (third, three, journal) = named("3");
    keep(&third, &journal, vec![recorded(&result("train", 3), Value::Null)]).unwrap();
    leave(&third, &three);
    drop(third);
    assert!(stands("3") && stands("3") && !stands("2"));
    let (fourth, ..) = named("4");
    assert!(!stands("3"), "another one goes on");
    drop(fourth);
    assert!(stands("3"), "it recorded nothing");
}
