//! Journal and database: what one has the other gets, once, whenever a kill or a full disk came in between.

use std::{fs, path::Path, process::Command};

use flow_core::{InstanceId, JournalLine, RunEvent, RunId, StepResult};
use flow_runs::{StoreDir, StoreError};
use flow_store::{CommitError, Retention, Store, shapes};
use serde_json::json;

use crate::common::{Tiny, keep, open, record, recorded, result, scratch};

fn run(id: &str) -> RunId {
    RunId(id.into())
}

/// Of how many attempts history tells.
fn seen(store: &Store) -> usize {
    let [instance, _] = shapes("feb08", "solo", "solo");
    store.history(&instance).unwrap().len()
}

fn made(id: &str, salt: u64) -> StepResult {
    StepResult { run: run(id), ..result("solo", salt) }
}

#[test]
fn what_only_the_journal_has_is_given_back_once() {
    let dir = scratch();
    let (first, second, third) = (made("1", 1), made("1", 2), made("2", 3));
    {
        let store = open(dir.path()).unwrap();
        let journal = store.begin(&run("1")).unwrap();
        keep(&store, &journal, vec![recorded(&first, json!({"n": 1}))]).unwrap();
        // Here flow is killed: the journal has it, the database has not.
        journal.append(&[recorded(&second, json!({"n": 2}))]).unwrap();
        let journal = store.dir().run(&run("2")).create().unwrap();
        journal.append(&[recorded(&third, json!({"n": 3}))]).unwrap();
        assert_eq!(store.result(&second.fingerprint).unwrap(), None);
    }
    for _ in 0..3 {
        let store = open(dir.path()).unwrap();
        for made in [&first, &second, &third] {
            assert_eq!(store.result(&made.fingerprint).unwrap().as_ref(), Some(made));
        }
        assert_eq!(seen(&store), 3, "each attempt once");
        assert_eq!(store.last("feb08", "solo").unwrap().unwrap().parts, json!({"n": 3}));
        assert_eq!(store.rebuilt(), None);
    }
}

#[test]
fn what_gc_removed_stays_away() {
    let dir = scratch();
    let old = made("2026", 16);
    {
        let store = open(dir.path()).unwrap();
        keep(&store, &store.begin(&run("2026")).unwrap(), vec![recorded(&old, json!({}))]).unwrap();
    }
    // Of the first run only what the second reuses stays, and its journal for the sake of that.
    let (gone, kept) = (made("2027", 3), made("2027", 4));
    let cached = RunEvent::Cached {
        instance: InstanceId(0),
        fingerprint: kept.fingerprint,
        outcome: kept.outcome,
        from: run("2027"),
    };
    let store = open(dir.path()).unwrap();
    let lines = vec![recorded(&gone, json!({})), recorded(&kept, json!({}))];
    keep(&store, &store.begin(&run("2027")).unwrap(), lines).unwrap();
    store.begin(&run("2028")).unwrap().append(&[JournalLine { at: 1, event: cached }]).unwrap();
    store.gc(Retention { runs: 1, since: None }, false).unwrap();
    assert!(store.dir().run(&run("2027")).journal().exists());
    drop(store);
    let store = open(dir.path()).unwrap();
    assert_eq!(store.result(&old.fingerprint).unwrap(), None);
    assert_eq!(store.result(&gone.fingerprint).unwrap(), None);
    assert_eq!(store.result(&kept.fingerprint).unwrap(), Some(kept));
}

#[test]
fn a_run_after_the_clock_was_set_back_is_replayed_too() {
    let dir = scratch();
    {
        let store = open(dir.path()).unwrap();
        let journal = store.begin(&run("2999")).unwrap();
        keep(&store, &journal, vec![recorded(&made("2999", 1), json!({}))]).unwrap();
        store.gc(Retention { runs: 0, since: None }, false).unwrap();
        assert!(store.dir().runs().unwrap().is_empty());
        store.begin(&run("2026")).unwrap().append(&[recorded(&made("2026", 2), json!({}))]).unwrap();
    }
    let store = open(dir.path()).unwrap();
    assert!(store.result(&made("2026", 2).fingerprint).unwrap().is_some());
    assert!(store.result(&made("2999", 1).fingerprint).unwrap().is_none());
}

#[test]
fn a_lost_database_is_made_anew_from_the_journals() {
    let dir = scratch();
    let kept = result("solo", 1);
    record(&open(dir.path()).unwrap(), &kept, json!({}));
    fs::remove_dir_all(dir.path().join("db")).unwrap();
    let store = open(dir.path()).unwrap();
    assert_eq!(store.result(&kept.fingerprint).unwrap(), Some(kept));
    let told = store.rebuilt().unwrap().to_string();
    insta::assert_snapshot!(told, @"the database was missing; it was rebuilt from 1 journal with 1 result");
}

#[test]
fn where_the_journal_has_no_room_nothing_is_recorded() {
    let dir = scratch();
    StoreDir::create(dir.path()).unwrap();
    let Some(_tiny) = Tiny::at(&dir.path().join("runs"), "64k") else { return };
    let store = open(dir.path()).unwrap();
    let journal = store.begin(&run("1")).unwrap();
    let mut kept = vec![];
    let refused = loop {
        let next = result("solo", kept.len() as u64);
        match store.commit(&journal, vec![recorded(&next, json!({}))], &Default::default()).unwrap().apply() {
            Ok(_) => kept.push(next),
            Err(CommitError::Nowhere(commit, error)) => {
                assert!(error.is_disk_full(), "{error}");
                assert!(error.to_string().contains("journal.jsonl"), "{error}");
                assert_eq!(store.result(&next.fingerprint).unwrap(), None);
                // Later there is room.
                break (next, commit);
            }
            Err(CommitError::Journalled(error)) => panic!("{error}"),
        }
    };
    let at = store.dir().run(&run("1")).journal();
    assert!(fs::read_to_string(&at).unwrap().ends_with("}\n"), "no half line");
    grow(&dir.path().join("runs"));
    let (next, commit) = refused;
    let after = result("solo", 1_000_000);
    let after = store.commit(&journal, vec![recorded(&after, json!({}))], &Default::default()).unwrap();
    let lines = commit.with(after).apply().map_err(StoreError::from).unwrap();
    assert_eq!(lines.len(), 2);
    assert!(store.result(&next.fingerprint).unwrap().is_some());
}

fn grow(mounted: &Path) {
    assert!(Command::new("mount").args(["-o", "remount,size=1m"]).arg(mounted).status().unwrap().success());
}
