//! Several processes on one store: they share results at once, whoever has the database, and whenever that one ends.

use std::{collections::BTreeSet, fs, io::Write, ops::ControlFlow, thread};

use flow_core::{Digest, KeptOutput, RunId, StepResult, plan::LookupKeys};
use flow_runs::{StoreDir, StoreError};
use flow_store::{Captures, EarlierData, Retention, Store, gc};
use proptest::prelude::*;
use serde_json::json;

use crate::common::{
    beside, content, keep, made, me, observed, open, open_for_run, rebuilt, recorded, result, run, run_in, scratch,
};

#[test]
fn what_one_records_all_have_at_once_and_the_next_that_comes_has_the_database() {
    let dir = scratch();
    let (first, second) = (run_in(dir.path(), "1").unwrap(), run_in(dir.path(), "2").unwrap());
    assert_eq!(first.dir().holder().unwrap().unwrap().run, Some(run("1")));
    let journals = [first.begin(&run("1")).unwrap(), second.begin(&run("2")).unwrap()];
    let large = json!({"files": (0..5_000).map(|n| format!("{n:064}")).collect::<Vec<_>>()});
    for salt in 0..40 {
        let (store, journal, id) =
            if salt % 2 == 0 { (&first, &journals[0], "1") } else { (&second, &journals[1], "2") };
        let kept = made(id, salt);
        keep(store, journal, vec![recorded(&kept, large.clone())]).unwrap();
        for store in [&first, &second] {
            assert_eq!(store.result(&kept.fingerprint).unwrap().as_ref(), Some(&kept));
            assert_eq!(store.last("feb08", "solo").unwrap().unwrap().parts, large);
        }
    }
    let many: Vec<_> = (100..1_700).map(|salt| recorded(&made("2", salt), json!({}))).collect();
    keep(&second, &journals[1], many).unwrap();
    let all = content(&first, &["solo"]);
    assert_eq!(all.0.len(), 1_640);
    assert_eq!(content(&second, &["solo"]), all);

    drop(first);
    assert_eq!(content(&second, &["solo"]), all);
    assert_eq!(second.dir().holder().unwrap(), None);
    let third = run_in(dir.path(), "3").unwrap();
    assert_eq!(third.dir().holder().unwrap().unwrap().run, Some(run("3")));
    assert_eq!(content(&third, &["solo"]), all, "what the second recorded too");
    let (theirs, ours) = (made("2", 9_998), made("3", 9_999));
    keep(&second, &journals[1], vec![recorded(&theirs, json!({}))]).unwrap();
    keep(&third, &third.begin(&run("3")).unwrap(), vec![recorded(&ours, json!({}))]).unwrap();
    for (store, kept) in [(&second, &ours), (&third, &theirs)] {
        assert_eq!(store.result(&kept.fingerprint).unwrap().as_ref(), Some(kept));
    }
    assert_eq!(third.rebuilt(), None);
    let all = content(&third, &["solo"]);
    drop((second, third));
    assert_eq!(content(&open(dir.path()).unwrap(), &["solo"]), all);
    assert_eq!(rebuilt(dir.path(), &["solo"]), all);
}

#[test]
fn the_index_stands_for_the_journals_and_whatever_is_wrong_with_it_they_decide() {
    let dir = scratch();
    let index = dir.path().join("index");
    let labels = ["solo", "solo[n=0]", "solo[n=1]"];
    let padding = json!({"padding": "p".repeat(200_000)});
    let record = |id: &str, salts: std::ops::Range<u64>, parts: &serde_json::Value| {
        let store = run_in(dir.path(), id).unwrap();
        let journal = store.begin(&run(id)).unwrap();
        for salt in salts {
            let label = format!("solo[n={}]", salt % 2);
            let attempt = Digest::of(&salt.to_le_bytes());
            let kept: KeptOutput = serde_json::from_value(json!({"attempt": attempt})).unwrap();
            let result = StepResult { run: run(id), kept: Some(kept), ..result(&label, salt) };
            keep(&store, &journal, vec![recorded(&result, parts.clone())]).unwrap();
        }
    };
    record("1", 0..50, &json!({}));
    assert!(!index.exists(), "so little is read at once");
    record("2", 50..230, &padding);
    let first = fs::read(&index).unwrap();
    assert!(first.len() < 200_000, "{} bytes", first.len());
    // Newer than the index, and some of it again.
    record("3", 200..260, &json!({}));
    assert_eq!(fs::read(&index).unwrap(), first);
    let agree = || {
        let holder = open(dir.path()).unwrap();
        let all = content(&holder, &labels);
        assert_eq!(all.0.len(), 260);
        let reader = beside(&holder);
        assert_eq!(content(&reader, &labels), all);
        for salt in [0, 55, 199, 210, 259] {
            let attempt = Digest::of(&u64::to_le_bytes(salt));
            let found = reader.of_attempt(&attempt).unwrap();
            assert!(found.is_some() && found == holder.of_attempt(&attempt).unwrap());
        }
    };
    agree();
    for disturbed in [&first[..first.len() / 2], b"", b"another version", &[first.clone(), b"2".to_vec()].concat()] {
        fs::write(&index, disturbed).unwrap();
        agree();
    }
    // One that is missing is made again, and one is that covers other journals.
    fs::remove_file(&index).unwrap();
    let next = run_in(dir.path(), "6").unwrap();
    assert!(index.exists(), "runs that were killed made none");
    drop(next);
    agree();
    record("4", 0..1, &json!({}));
    agree();
    gc(dir.path(), &me("flow gc"), Retention { runs: 0, since: None }, false).unwrap();
    let holder = open(dir.path()).unwrap();
    assert_eq!(content(&beside(&holder), &labels).0, content(&holder, &labels).0, "what was removed is in neither");
    drop(holder);
    record("5", 0..1, &json!({}));
    assert!(fs::read(&index).unwrap().len() < first.len(), "nothing of removed runs but what they observed");
}

#[test]
fn runs_live_as_long_as_they_have_the_store_and_nobody_sweeps_them() {
    let dir = scratch();
    let (first, second) = (run_in(dir.path(), "1").unwrap(), run_in(dir.path(), "2").unwrap());
    let living = || first.dir().living().unwrap().into_iter().map(|who| who.run.unwrap().0).collect::<Vec<_>>();
    assert_eq!(living(), ["1", "2"]);
    // They have no journal yet, and inputs that are captured.
    let inputs = first.dir().run(&run("1")).inputs();
    fs::create_dir_all(&inputs).unwrap();
    fs::write(inputs.join("open"), "").unwrap();
    let half = dir.path().join("objects/tmp/half");
    fs::write(&half, "").unwrap();
    let third = run_in(dir.path(), "3").unwrap();
    assert_eq!(living(), ["1", "2", "3"]);
    assert!(inputs.join("open").exists() && half.exists());
    drop((second, third));
    assert_eq!(living(), ["1"]);
    assert_eq!(first.dir().runs().unwrap(), [run("1")], "of what never began nothing stays");
    let held =
        |error: StoreError| matches!(error, StoreError::Held { holder, .. } if holder.doing == "flow run 1.yaml");
    assert!(held(gc(dir.path(), &me("flow gc"), Retention { runs: 0, since: None }, false).unwrap_err()));
    drop((Captures::new(inputs), first));
    gc(dir.path(), &me("flow gc"), Retention { runs: 0, since: None }, false).unwrap();
    assert!(!half.exists());
}

#[test]
fn names_are_given_once_to_however_many_ask() {
    let dir = scratch();
    StoreDir::create(dir.path()).unwrap();
    let next = |runs: &[RunId]| run(&format!("{:04}", runs.last().map_or(0, |run| run.0.parse().unwrap()) + 1));
    let stores: Vec<(Store, RunId)> = thread::scope(|scope| {
        let opened = |_| {
            scope.spawn(|| {
                let me = me("flow run a.yaml");
                open_for_run(dir.path(), &me, next, |_| ControlFlow::Continue(())).unwrap()
            })
        };
        let opening: Vec<_> = (0..8).map(opened).collect();
        opening.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    let names: BTreeSet<&str> = stores.iter().map(|(_, run)| &*run.0).collect();
    assert_eq!(names.len(), 8, "{names:?}");
    assert_eq!(stores[0].0.dir().living().unwrap().len(), 8);
    for (store, id) in &stores {
        let kept = made(&id.0, 1_000 + id.0.parse::<u64>().unwrap());
        keep(store, &store.begin(id).unwrap(), vec![recorded(&kept, json!({}))]).unwrap();
    }
    for (store, _) in &stores {
        assert_eq!(content(store, &["solo"]).0.len(), 8);
    }
}

#[test]
fn what_is_known_of_an_instance_is_told_at_once() {
    let dir = scratch();
    let (first, second) = (run_in(dir.path(), "1").unwrap(), run_in(dir.path(), "2").unwrap());
    let journal = second.begin(&run("2")).unwrap();
    let none = Digest::of(b"none");
    let attempt = Digest::of(b"attempt");
    let kept: KeptOutput = serde_json::from_value(json!({"attempt": attempt})).unwrap();
    let result = StepResult { kept: Some(kept), ..made("2", 1) };
    for store in [&first, &second] {
        let sought = LookupKeys { fingerprint: result.fingerprint, attempt, label: "solo" };
        assert_eq!(store.earlier("feb08", &[sought, sought]).unwrap(), [EarlierData::Nothing, EarlierData::Nothing]);
    }
    keep(&second, &journal, vec![recorded(&result, json!({"n": 1}))]).unwrap();
    for store in [&first, &second] {
        let sought = |fingerprint, attempt, label| LookupKeys { fingerprint, attempt, label };
        let all = [
            sought(none, none, "pair"),
            sought(result.fingerprint, attempt, "solo"),
            sought(none, attempt, "solo"),
            sought(none, none, "solo"),
        ];
        let earlier = store.earlier("feb08", &all).unwrap();
        let boxed = || Box::new(result.clone());
        assert_eq!(earlier[..3], [EarlierData::Nothing, EarlierData::Result(boxed()), EarlierData::Attempt(boxed())]);
        assert!(matches!(&earlier[3], EarlierData::Last(last) if last.fingerprint == result.fingerprint));
        assert_eq!(store.results_of(&[none, result.fingerprint]).unwrap(), [None, Some(result.clone())]);
    }
}

#[test]
fn half_a_line_of_a_killed_run_hides_nothing_and_counts_for_nobody() {
    let dir = scratch();
    let (first, second) = (run_in(dir.path(), "1").unwrap(), run_in(dir.path(), "2").unwrap());
    let third = run_in(dir.path(), "3").unwrap();
    let journal = second.begin(&run("2")).unwrap();
    keep(&second, &journal, vec![recorded(&made("2", 1), json!({}))]).unwrap();
    let line = serde_json::to_string(&recorded(&made("2", 2), json!({}))).unwrap();
    let mut file = fs::File::options().append(true).open(second.dir().run(&run("2")).journal()).unwrap();
    file.write_all(&line.as_bytes()[..line.len() - 1]).unwrap();
    let holds = |store: &Store| {
        assert_eq!(store.result(&made("2", 1).fingerprint).unwrap(), Some(made("2", 1)));
        assert_eq!(store.result(&made("2", 2).fingerprint).unwrap(), None);
    };
    [&first, &second, &third].into_iter().for_each(holds);
    drop(second);
    for store in [&third, &first] {
        store.import_ended().unwrap();
        holds(store);
    }
    drop((first, third));
    holds(&open(dir.path()).unwrap());
}

/// What happens to a store that several runs use.
#[derive(Clone, Debug)]
enum StoreEvent {
    /// A run records, and is not killed in between.
    Keeps(usize),
    /// A run is killed between its journal and the database: from then on its journal is all that it has.
    Journals(usize),
    /// A run ends, and another one comes.
    Reopens(usize),
    Imports,
}

fn happens() -> impl Strategy<Value = StoreEvent> {
    prop_oneof![
        5 => (0..3_usize).prop_map(StoreEvent::Keeps),
        3 => (0..3_usize).prop_map(StoreEvent::Journals),
        1 => (0..3_usize).prop_map(StoreEvent::Reopens),
        1 => Just(StoreEvent::Imports),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 10, failure_persistence: None, ..ProptestConfig::default() })]
    #[test]
    fn whatever_happens_the_database_is_what_the_journals_say(all in prop::collection::vec(happens(), 1..60)) {
        let dir = scratch();
        let labels = ["solo", "solo[n=0]", "solo[n=1]", "solo[n=2]"];
        let begin = |n: usize| {
            let id = format!("{n:04}");
            let store = run_in(dir.path(), &id).unwrap();
            let journal = store.begin(&run(&id)).unwrap();
            Some((store, journal, id, false))
        };
        let mut runs: Vec<_> = (0..3).map(begin).collect();
        let mut kept = 0;
        for (n, happens) in all.into_iter().enumerate() {
            // The newest come first and last, so that their order is not that of the journals.
            let salt = (n as u64 * 7) % 60;
            match happens {
                StoreEvent::Keeps(of) | StoreEvent::Journals(of) => {
                    let (store, journal, id, is_killed) = runs[of].as_mut().unwrap();
                    let result = StepResult { run: run(id), ..result(labels[1 + n % 3], salt) };
                    let line = if n % 3 == 0 { observed(&result) } else { recorded(&result, json!({"n": n})) };
                    *is_killed |= matches!(happens, StoreEvent::Journals(_));
                    match is_killed {
                        true => journal.append(&[line]).unwrap(),
                        false => keep(store, journal, vec![line]).unwrap(),
                    }
                    kept += 1;
                }
                StoreEvent::Reopens(of) => {
                    drop(runs[of].take());
                    runs[of] = begin(3 + n);
                }
                StoreEvent::Imports => runs[0].as_ref().unwrap().0.import_ended().unwrap(),
            }
        }
        drop(runs);
        let holder = open(dir.path()).unwrap();
        let live = content(&holder, &labels);
        prop_assert_eq!(&content(&beside(&holder), &labels), &live, "without the database");
        drop(holder);
        let reopened = content(&open(dir.path()).unwrap(), &labels);
        prop_assert_eq!(&live, &reopened);
        let seen = live.1.iter().filter(|shape| shape.contains("solo/ ")).map(|shape| shape.matches("Observation").count()).sum::<usize>();
        prop_assert_eq!(seen, kept.min(32), "each attempt once");
        prop_assert_eq!(live, rebuilt(dir.path(), &labels));
    }
}
