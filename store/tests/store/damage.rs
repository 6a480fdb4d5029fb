//! Damage: a broken database is rebuilt from the journals, a lost artifact costs its result, a full disk loses nothing.

use std::{
    fs,
    io::{Seek, SeekFrom, Write},
    ops::ControlFlow,
    path::Path,
    process::Command,
};

use flow_core::{JournalLine, Outcome, RunEvent, RunId, StepResult};
use flow_store::{Diagnosis, Objects, Retention, Store, doctor, gc, shapes};
use serde_json::json;

use crate::common::{Tiny, keep, me, observed, open, record, recorded, result, scratch};

/// A run that recorded `n` results with an output each.
fn run(dir: &Path, n: u64) -> Vec<StepResult> {
    let store = open(dir).unwrap();
    let journal = store.begin(&RunId("20260208-153012-3f2a".into())).unwrap();
    let mut results = vec![];
    for salt in 0..n {
        let mut kept = result(&format!("solo[batch={salt}]"), salt);
        let artifact = store.objects().store_bytes(format!("output {salt}").as_bytes()).unwrap();
        kept.outputs.insert("out".into(), artifact);
        keep(&store, &journal, vec![recorded(&kept, json!({"batch": salt}))]).unwrap();
        results.push(kept);
    }
    results
}

fn examine(dir: &Path, contents: bool) -> (Store, Diagnosis) {
    doctor(dir, &me("flow doctor"), |_| ControlFlow::Break(()), contents).unwrap()
}

#[test]
fn a_sound_store_is_left_alone() {
    let dir = scratch();
    run(dir.path(), 3);
    let (_, found) = examine(dir.path(), true);
    assert!(found.is_sound());
    assert_eq!((found.results, found.artifacts), (3, 3));
}

#[test]
fn results_that_no_journal_tells_of_are_told() {
    let dir = scratch();
    run(dir.path(), 3);
    let journal =
        open(dir.path()).unwrap().dir().run(&RunId("20260208-153012-3f2a".into())).path().join("journal.jsonl");
    let text = fs::read_to_string(&journal).unwrap();
    let lines: Vec<&str> = text.split_inclusive('\n').collect();
    for (left, lost) in [(&lines[..lines.len() - 1], 1), (&[][..], 3)] {
        fs::write(&journal, left.concat()).unwrap();
        let (_, found) = examine(dir.path(), false);
        assert_eq!((found.unjournalled, found.results, found.is_sound()), (lost, 3, false));
    }
    fs::remove_dir_all(journal.parent().unwrap()).unwrap();
    assert_eq!(examine(dir.path(), false).1.unjournalled, 3);
}

#[test]
fn a_store_that_was_copied_or_touched_is_the_same_store() {
    let dir = scratch();
    let results = run(dir.path(), 2);
    let objects = open(dir.path()).unwrap().objects().clone();
    let files = [("a/b.txt".to_owned(), b"b".to_vec()), ("c.txt".to_owned(), b"c".to_vec())];
    let folder = objects.store_files(&files.into()).unwrap();
    let file = results[0].outputs["out"].clone();
    let touched =
        [objects.path(&file.digest), objects.path(&folder.digest), objects.path(&folder.digest).join("a/b.txt")];
    for path in &touched {
        fs::File::open(path)
            .unwrap()
            .set_times(fs::FileTimes::new().set_modified(std::time::SystemTime::now()))
            .unwrap();
    }
    assert!(objects.has(&file).unwrap() && objects.has(&folder).unwrap(), "the contents are what they were");
    fs::remove_file(touched[1].with_extension("list")).unwrap();
    assert!(objects.has(&folder).unwrap() && objects.manifest(&folder.digest).unwrap().is_some(), "so is a lost list");
    let mtime = |path| fs::metadata(path).unwrap().modified().unwrap();
    assert_eq!(mtime(&touched[1]), mtime(&touched[2]), "the time by which they are known is back");
    let (_, found) = examine(dir.path(), true);
    assert!(found.is_sound(), "{found:?}");
    // Another content is another matter, whatever its length.
    fs::remove_file(&touched[2]).unwrap();
    fs::write(&touched[2], "x").unwrap();
    assert!(!objects.has(&folder).unwrap());
}

#[test]
fn a_damaged_database_is_moved_aside_and_rebuilt_from_the_journals() {
    // Each kind of damage that has been seen, at several places of the file.
    for (at, len) in [(0, 64), (16, 200), (4_096, 4_096), (100_000, 300_000), (0, 1 << 20)] {
        let dir = scratch();
        let results = run(dir.path(), 300);
        let log = dir.path().join("db/db");
        let mut file = fs::File::options().write(true).open(&log).unwrap();
        let len = len.min(usize::try_from(file.metadata().unwrap().len().saturating_sub(at)).unwrap());
        file.seek(SeekFrom::Start(at)).unwrap();
        file.write_all(&vec![0x5a; len]).unwrap();
        drop(file);
        let usable = |store: &Store| {
            results.iter().all(|kept| store.result(&kept.fingerprint).is_ok_and(|found| found.as_ref() == Some(kept)))
        };
        let store = open(dir.path()).unwrap_or_else(|error| panic!("at {at}: {error}"));
        if let Some(rebuilt) = store.rebuilt() {
            assert_eq!((rebuilt.results, rebuilt.runs), (300, 1));
            assert!(rebuilt.moved_to.as_ref().unwrap().join("db").exists(), "the old one is kept");
            assert!(usable(&store), "at {at}, {len} bytes");
        }
        drop(store);
        let (store, found) = examine(dir.path(), false);
        assert!(usable(&store), "at {at}, {len} bytes: {found:?}");
        drop(store);
        assert!(usable(&open(dir.path()).unwrap()));
    }
}

#[test]
fn what_failed_attempts_used_is_known_again_when_the_database_is_rebuilt() {
    let dir = scratch();
    let store = open(dir.path()).unwrap();
    let journal = store.begin(&RunId("20260208-153012-3f2a".into())).unwrap();
    let kept = result("solo[batch=16]", 1);
    let mut failed = result("solo[batch=16]", 2);
    (failed.outcome, failed.usage.rss_peak) = (Outcome::OutOfMemory, Some(7 << 30));
    let tried = RunEvent::Tried {
        workflow: failed.workflow.clone(),
        label: failed.label.clone(),
        run: failed.run.clone(),
        fingerprint: failed.fingerprint,
        parts: json!({"batch": 2}),
    };
    let tried = JournalLine { at: failed.ended_at, event: tried };
    keep(&store, &journal, vec![recorded(&kept, json!({"batch": 1})), tried, observed(&failed)]).unwrap();
    let [instance, step] = shapes("feb08", "solo", "solo[batch=16]");
    let known = |store: &Store| {
        let history = [&instance, &step].map(|shape| store.history(shape).unwrap());
        (history, store.last("feb08", "solo[batch=16]").unwrap(), store.result(&failed.fingerprint).unwrap())
    };
    let before = known(&store);
    let peaks: Vec<u64> = before.0[0].iter().filter_map(|seen| seen.rss_peak).collect();
    assert_eq!((peaks, &before.2), (vec![1 << 20, 7 << 30], &None));
    assert_eq!(before.1.as_ref().unwrap().parts, json!({"batch": 2}));
    drop(store);
    fs::remove_dir_all(dir.path().join("db")).unwrap();
    assert_eq!(known(&examine(dir.path(), false).0), before, "made anew");
    assert_eq!(known(&open(dir.path()).unwrap()), before, "opened again");
}

#[test]
fn what_doctor_did_is_told() {
    let dir = scratch();
    let results = run(dir.path(), 3);
    fs::write(dir.path().join("db/db"), vec![7; 200_000]).unwrap();
    let objects = Objects::of(&flow_runs::StoreDir::existing(dir.path()).unwrap().unwrap());
    fs::remove_file(objects.path(&results[1].outputs["out"].digest)).unwrap();
    let at = objects.path(&results[2].outputs["out"].digest);
    let meta = fs::metadata(&at).unwrap();
    fs::remove_file(&at).unwrap();
    fs::write(&at, "OUTPUT 2").unwrap();
    fs::File::open(&at).unwrap().set_times(fs::FileTimes::new().set_modified(meta.modified().unwrap())).unwrap();
    let mut journal =
        fs::File::options().append(true).open(dir.path().join("runs/20260208-153012-3f2a/journal.jsonl")).unwrap();
    journal.write_all(b"no json\n").unwrap();
    let (store, found) = examine(dir.path(), true);
    let rebuilt = found.rebuilt.as_ref().unwrap();
    assert_eq!((rebuilt.results, rebuilt.runs), (3, 1));
    assert!(rebuilt.moved_to.as_ref().unwrap().join("db").exists(), "the old one is kept");
    assert_eq!(found.journals, [("20260208-153012-3f2a".to_owned(), 1)]);
    let dropped: Vec<_> = found.dropped.iter().map(|(label, why)| (label.as_str(), why.as_str())).collect();
    let expected = [
        ("solo[batch=1]", "its output `out` in the store is missing"),
        ("solo[batch=2]", "its output `out` in the store has content that does not match its name"),
    ];
    assert_eq!(dropped, expected);
    assert_eq!(store.result(&results[0].fingerprint).unwrap().as_ref(), Some(&results[0]));
    assert_eq!(store.result(&results[1].fingerprint).unwrap(), None);
    assert_eq!(store.result(&results[2].fingerprint).unwrap(), None);
    drop(store);
    let (_, again) = examine(dir.path(), true);
    assert!(again.dropped.is_empty() && again.rebuilt.is_none(), "{again:?}");
}

#[test]
fn a_full_disk_is_an_error_and_loses_nothing() {
    let dir = scratch();
    let Some(tiny) = Tiny::at(dir.path(), "8m") else { return };
    let path = tiny.0.join(".flow");
    let store = open(&path).unwrap();
    let journal = store.begin(&RunId("20260208-153012-3f2a".into())).unwrap();
    let mut kept = vec![];
    let mut errors = vec![];
    for salt in 0..20_000 {
        let mut wanted = result(&format!("solo[batch={salt}]"), salt);
        let step =
            store.objects().store_bytes(&vec![b'x'; 2_000 + usize::try_from(salt).unwrap()]).and_then(|artifact| {
                wanted.outputs.insert("out".into(), artifact);
                keep(&store, &journal, vec![recorded(&wanted, json!({}))])?;
                kept.push(wanted.clone());
                Ok(())
            });
        if let Err(error) = step {
            errors.push(error.to_string());
            if errors.len() == 5 {
                break;
            }
        }
    }
    assert_eq!(errors.len(), 5, "the disk was never full");
    assert!(errors.iter().any(|error| error.contains("flow gc")), "{errors:?}");
    drop(store);
    // Room again, as `flow gc` or the user makes it.
    let room = Command::new("mount").args(["-o", "remount,size=64m"]).arg(&tiny.0).status();
    assert!(room.unwrap().success());
    let (store, found) = examine(&path, true);
    assert!(found.dropped.is_empty(), "{found:?}");
    for wanted in &kept {
        assert_eq!(store.result(&wanted.fingerprint).unwrap().as_ref(), Some(wanted), "{found:?}");
    }
    let lines = &mut 0;
    let unread = store.dir().run(&RunId("20260208-153012-3f2a".into())).read_journal(|_| *lines += 1).unwrap();
    assert_eq!((unread.lines, unread.torn), (0, false), "no half line is left behind");
}

#[test]
fn gc_makes_room_where_there_is_none_left() {
    let dir = scratch();
    let Some(tiny) = Tiny::at(dir.path(), "8m") else { return };
    let path = tiny.0.join(".flow");
    let store = open(&path).unwrap();
    let journal = store.begin(&RunId("20260208-153012-3f2a".into())).unwrap();
    let mut kept = vec![];
    for salt in 0..20_000 {
        let mut wanted = result(&format!("solo[batch={salt}]"), salt);
        let step = store.objects().store_bytes(format!("{salt:>9000}").as_bytes()).and_then(|artifact| {
            wanted.outputs.insert("out".into(), artifact);
            keep(&store, &journal, vec![recorded(&wanted, json!({}))])
        });
        if step.is_err() {
            break;
        }
        kept.push(wanted);
    }
    drop((journal, store));
    // Somebody else takes the last byte.
    let mut rest = fs::File::create(tiny.0.join("rest")).unwrap();
    while rest.write_all(&[0]).is_ok() {}
    let freed = gc(&path, &me("flow gc"), Retention { runs: 0, since: None }, false).unwrap();
    assert!(kept.len() > 100 && freed.results >= kept.len() && freed.bytes > 3 << 20, "{}: {freed:?}", kept.len());
    assert!(freed.objects >= kept.len(), "{freed:?}");
    let store = open(&path).unwrap();
    assert!(kept.iter().all(|gone| store.result(&gone.fingerprint).unwrap().is_none()));
    assert_eq!(store.gc(Retention { runs: 0, since: None }, true).unwrap().bytes, 0);
}

#[test]
fn a_database_lies_where_the_stores_link_leads() {
    let (dir, here) = (scratch(), scratch());
    std::os::unix::fs::symlink(here.path(), dir.path().join("local")).unwrap();
    let kept = result("solo[batch=16]", 1);
    let store = open(dir.path()).unwrap();
    record(&store, &kept, json!({}));
    drop(store);
    assert!(here.path().join("db").is_dir() && !dir.path().join("db").exists());
    assert_eq!(open(dir.path()).unwrap().result(&kept.fingerprint).unwrap(), Some(kept.clone()));
    // Another machine has its own, made of the journals.
    fs::remove_dir_all(here.path().join("db")).unwrap();
    assert_eq!(open(dir.path()).unwrap().result(&kept.fingerprint).unwrap(), Some(kept));
    let gone = here.path().display().to_string();
    drop(here);
    let error = open(dir.path()).err().map(|error| error.to_string()).unwrap_or_default();
    assert!(error.contains("local") && !error.is_empty(), "{error}, without {gone}");
}
