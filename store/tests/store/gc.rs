//! `flow gc`: what the newest runs reach stays, the rest goes, and `-n` says the same without doing it.

use std::{
    env, fs,
    io::{BufRead, BufReader, Write},
    ops::ControlFlow,
    os::unix::fs::PermissionsExt,
    path::Path,
    process::{Command, Stdio},
    thread,
    time::Duration,
};

use flow_core::{
    Digest, InstanceId, JournalLine, KeptOutput, Machine, PlannedAction, RunEvent, RunId, RunStart, StepResult,
    reason::ProfileReason,
};
use flow_store::{Diagnosis, Objects, Retention, Store, doctor, gc};
use serde_json::{Map, json};

use crate::common::{beside, keep, me, open, open_for_run, recorded, result, scratch, write};

/// A run of a workflow that records some results and reuses others.
fn run(store: &Store, file: &str, id: &str, records: &[StepResult], reuses: &[&StepResult]) {
    run_of(store, (file, &[], &[]), id, records, reuses);
}

/// The same of some steps, or of all, with values of parameters.
fn run_of(
    store: &Store,
    (file, targets, set): (&str, &[&str], &[&str]),
    id: &str,
    records: &[StepResult],
    reuses: &[&StepResult],
) {
    run_with(store, (file, targets, set, None), id, records, reuses);
}

/// The same with a profile.
fn run_with(
    store: &Store,
    (file, targets, set, profile): (&str, &[&str], &[&str], Option<&str>),
    id: &str,
    records: &[StepResult],
    reuses: &[&StepResult],
) {
    let journal = store.begin(&RunId(id.into())).unwrap();
    let texts = |all: &[&str]| all.iter().map(|text| (*text).to_owned()).collect();
    let start = RunStart {
        format: 1,
        run: RunId(id.into()),
        flow: "0.1.0".into(),
        file: file.into(),
        workflow: "feb08".into(),
        profile: profile.map(|name| (name.to_owned(), ProfileReason::Requested)),
        params: [].into(),
        set: texts(set),
        targets: texts(targets),
        policy: "critical-path".into(),
        force: None,
        on: None,
        note: None,
        revision: None,
        machine: Machine::default(),
        knows_nodes: false,
        instances: 1,
        pid: 1,
    };
    let mut lines = vec![JournalLine { at: 1, event: RunEvent::RunStarted(Box::new(start)) }];
    for (n, kept) in (0..).zip(records.iter().chain(reuses.iter().copied())) {
        let (label, step) = (kept.label.clone(), kept.step.clone());
        let event = RunEvent::Instance {
            instance: InstanceId(n),
            label,
            step,
            plan: PlannedAction::MayRepeat,
            written: Map::new(),
        };
        lines.push(JournalLine { at: 1, event });
    }
    lines.extend(records.iter().map(|kept| recorded(kept, json!({}))));
    for (n, kept) in (records.len() as u32..).zip(reuses) {
        let event = RunEvent::Cached {
            instance: InstanceId(n),
            fingerprint: kept.fingerprint,
            outcome: kept.outcome,
            from: kept.run.clone(),
        };
        lines.push(JournalLine { at: 3, event });
    }
    keep(store, &journal, lines).unwrap();
    write(store.dir().run(&RunId(id.into())).path().join("attempts/0/log"), "epoch 1\n");
}

#[test]
fn what_the_newest_runs_of_each_workflow_reach_stays() {
    let dir = scratch();
    let store = open(dir.path()).unwrap();
    let made = |id: &str, label: &str, salt: u64| {
        let mut made = result(label, salt);
        made.run = RunId(id.into());
        made.outputs.insert("out".into(), store.objects().store_bytes(format!("{label} {salt}").as_bytes()).unwrap());
        made.series = Some(store.objects().store_bytes(format!("series {label} {salt}").as_bytes()).unwrap().digest);
        made
    };
    let dataset = made("1", "dataset", 0);
    let old = made("1", "solo", 1);
    let other = made("2", "other", 2);
    let new = made("3", "solo", 3);
    run(&store, "a.yaml", "1", &[dataset.clone(), old.clone()], &[]);
    run(&store, "b.yaml", "2", std::slice::from_ref(&other), &[]);
    run(&store, "a.yaml", "3", std::slice::from_ref(&new), &[&dataset]);
    let keep = Retention { runs: 1, since: None };

    let before = fs::read_dir(dir.path().join("runs/1")).unwrap().count();
    let would = store.gc(keep, true).unwrap();
    assert_eq!((would.runs, would.results, would.objects, would.kept), (0, 1, 2, 3), "run 1 is still listed");
    assert!(store.result(&old.fingerprint).unwrap().is_some());
    assert_eq!(fs::read_dir(dir.path().join("runs/1")).unwrap().count(), before);

    assert_eq!(store.gc(keep, false).unwrap(), would, "what -n said");
    assert_eq!(store.result(&old.fingerprint).unwrap(), None);
    assert!(!store.objects().has(&old.outputs["out"]).unwrap());
    for kept in [&dataset, &other, &new] {
        assert_eq!(store.result(&kept.fingerprint).unwrap().as_ref(), Some(kept));
        assert_eq!(store.objects().missing(kept).unwrap(), None);
        assert!(store.objects().read(&kept.series.unwrap(), "").is_ok());
    }
    assert!(!dir.path().join("runs/1/attempts").exists());
    assert!(dir.path().join("runs/3/attempts/0/log").exists());
    // The journal of run 1 still says how `dataset` came about, so that the database can be rebuilt.
    let journals = beside(&store);
    assert_eq!(journals.result(&dataset.fingerprint).unwrap(), Some(dataset));

    assert_eq!(store.gc(keep, false).unwrap().bytes, 0, "nothing more to free");
    let all = store.gc(Retention { runs: 0, since: Some(1) }, true).unwrap();
    assert_eq!(all.kept, 3, "every run began at 1 or later");
}

#[test]
fn what_each_step_has_last_stays_however_many_runs_of_others_follow() {
    let dir = scratch();
    let store = open(dir.path()).unwrap();
    let made = |label: &str, salt: u64, run: &str| StepResult { run: RunId(run.into()), ..result(label, salt) };
    let (gone, a, b, c) = (made("gone", 0, "1"), made("a", 1, "1"), made("b", 2, "2"), made("c", 3, "2"));
    let (newer, trial, last) = (made("b", 4, "4"), made("a", 5, "5"), made("a", 6, "6"));
    run(&store, "w.yaml", "1", &[gone.clone(), a.clone()], &[]);
    // The first of the whole workflow in which `gone` is no step any more; of `a` it tells nothing.
    run(&store, "w.yaml", "2", &[b.clone(), c.clone()], &[&a]);
    run_of(&store, ("w.yaml", &["a"], &[]), "3", &[], &[&a]);
    run_of(&store, ("w.yaml", &["b"], &[]), "4", std::slice::from_ref(&newer), &[]);
    // A trial with other parameters takes nobody's place, and what the newest one has stays.
    run_of(&store, ("w.yaml", &[], &["lr=1"]), "5", std::slice::from_ref(&trial), &[]);
    run_of(&store, ("w.yaml", &[], &["lr=2"]), "6", std::slice::from_ref(&last), &[]);
    run_of(&store, ("w.yaml", &["b"], &["lr=2"]), "7", &[], &[&newer]);
    let keep = Retention { runs: 1, since: None };
    assert_eq!(store.gc(keep, true).unwrap().results, 3);
    store.gc(keep, false).unwrap();
    let there = |of: &StepResult| store.result(&of.fingerprint).unwrap().is_some();
    assert_eq!([&a, &c, &newer, &last].map(there), [true; 4]);
    assert_eq!([&gone, &b, &trial].map(there), [false; 3]);
    let journals = beside(&store);
    assert_eq!(journals.result(&a.fingerprint).unwrap(), Some(a), "its journal stays");
    store.gc(Retention { runs: 0, since: None }, false).unwrap();
    assert!(!there(&c) && !there(&newer), "who keeps no run keeps nothing");
}

#[test]
fn of_each_profile_what_a_step_has_last_stays() {
    let dir = scratch();
    let store = open(dir.path()).unwrap();
    let (large, small, old) = (result("a", 1), result("a", 2), result("a", 3));
    run_with(&store, ("w.yaml", &[], &[], Some("small")), "1", std::slice::from_ref(&old), &[]);
    run(&store, "w.yaml", "2", std::slice::from_ref(&large), &[]);
    run_with(&store, ("w.yaml", &["a"], &[], Some("small")), "3", std::slice::from_ref(&small), &[]);
    assert_eq!(store.gc(Retention { runs: 1, since: None }, false).unwrap().results, 1);
    assert!(store.result(&large.fingerprint).unwrap().is_some());
    assert_eq!(store.result(&old.fingerprint).unwrap(), None);
}

#[test]
fn what_was_accepted_is_what_its_step_has() {
    let dir = scratch();
    let store = open(dir.path()).unwrap();
    let (a, b) = (result("a", 1), result("b", 2));
    let kept = StepResult { fingerprint: result("a", 3).fingerprint, accepted: Some("a comment".into()), ..a.clone() };
    run(&store, "w.yaml", "1", &[a.clone(), b.clone()], &[]);
    let accepted = RunEvent::Accepted { file: "w.yaml".into(), reason: "a comment".into() };
    let lines = vec![JournalLine { at: 2, event: accepted }, recorded(&kept, json!({}))];
    keep(&store, &store.begin(&RunId("2".into())).unwrap(), lines).unwrap();
    run_of(&store, ("w.yaml", &["b"], &[]), "3", &[], &[&b]);
    store.gc(Retention { runs: 1, since: None }, false).unwrap();
    assert!(store.result(&kept.fingerprint).unwrap().is_some());
    run_of(&store, ("w.yaml", &["a"], &[]), "4", &[], &[&a]);
    store.gc(Retention { runs: 1, since: None }, false).unwrap();
    assert_eq!(store.result(&kept.fingerprint).unwrap(), None, "a later run had another one");
}

#[test]
fn what_lies_beside_a_checkpoint_stays_as_long_as_that_is_written_to() {
    let dir = scratch();
    let store = open(dir.path()).unwrap();
    run(&store, "a.yaml", "1", &[], &[]);
    let checkpoints = store.dir().checkpoints();
    for file in ["new.log", "new.json", "new/n", "old.log", "old/n"] {
        write(checkpoints.join(file), "1");
    }
    for old in ["new.log", "new.json", "old.log", "old"] {
        fs::File::open(checkpoints.join(old)).unwrap().set_modified(std::time::UNIX_EPOCH).unwrap();
    }
    let keep = Retention { runs: 1, since: None };
    assert_eq!([true, false].map(|dry| store.gc(keep, dry).unwrap().checkpoints), [1, 1]);
    let mut left: Vec<_> = fs::read_dir(checkpoints).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    left.sort();
    assert_eq!(left, ["new", "new.json", "new.log"]);
}

#[test]
fn what_was_accepted_stays_with_the_run_before_it_and_with_runs_that_reuse_it() {
    let dir = scratch();
    let store = open(dir.path()).unwrap();
    let old = result("solo", 1);
    let kept = StepResult {
        fingerprint: result("solo", 2).fingerprint,
        accepted: Some("only a comment".into()),
        ..old.clone()
    };
    run(&store, "a.yaml", "1", std::slice::from_ref(&old), &[]);
    let accepted = RunEvent::Accepted { file: "a.yaml".into(), reason: "only a comment".into() };
    let lines = vec![JournalLine { at: 2, event: accepted }, recorded(&kept, json!({}))];
    keep(&store, &store.begin(&RunId("2".into())).unwrap(), lines).unwrap();

    let one = Retention { runs: 1, since: None };
    let freed = store.gc(one, false).unwrap();
    assert_eq!((freed.runs, freed.results, freed.kept), (0, 0, 1), "with the run before it");
    run(&store, "a.yaml", "3", &[], &[&kept]);
    let freed = store.gc(one, false).unwrap();
    assert_eq!((freed.runs, freed.results, freed.kept), (1, 1, 1), "run 1, and what only it reached");
    let journals = beside(&store);
    assert_eq!(journals.result(&kept.fingerprint).unwrap(), Some(kept), "its journal stays");
    run(&store, "a.yaml", "4", &[], &[]);
    store.gc(one, false).unwrap();
    assert!(!dir.path().join("runs/2").exists());
}

#[test]
fn what_is_kept_to_be_read_again_stays_with_each_reading_of_it() {
    let dir = scratch();
    let store = open(dir.path()).unwrap();
    let record = store.objects().store_private(|file| std::io::Write::write_all(file, b"{}\nepoch 1\n")).unwrap();
    let mode = fs::metadata(store.objects().path(&record)).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o400, "a log is its owner's alone");
    let own = dir.path().join("log");
    fs::write(&own, "a large log").unwrap();
    let log = store.objects().link_private(&own).unwrap();
    let attempt = result("solo", 0).fingerprint;
    let reading = |salt: u64, files: &[(&str, Digest)]| {
        let files = files.iter().map(|(path, digest)| ((*path).to_owned(), *digest)).collect();
        StepResult {
            kept: Some(KeptOutput {
                attempt,
                record: Some(record),
                log: Some(log),
                files,
                cut: 0,
                absent: [].into(),
                inputs: [].into(),
            }),
            ..result("solo", salt)
        }
    };
    let file = store.objects().store_private(|file| std::io::Write::write_all(file, b"1")).unwrap();
    let (first, second) = (reading(1, &[]), reading(2, &[("m.json", file)]));
    run(&store, "a.yaml", "1", std::slice::from_ref(&first), &[]);
    run(&store, "a.yaml", "2", std::slice::from_ref(&second), &[]);
    assert_eq!(store.of_attempt(&attempt).unwrap().as_ref(), Some(&second));
    assert_eq!(beside(&store).of_attempt(&attempt).unwrap().as_ref(), Some(&second));

    run(&store, "a.yaml", "3", &[], &[&first]);
    let freed = store.gc(Retention { runs: 1, since: None }, false).unwrap();
    assert_eq!((freed.results, freed.objects), (1, 1), "the second reading, and the file that it alone had");
    assert_eq!(store.of_attempt(&attempt).unwrap().as_ref(), Some(&first));
    assert_eq!(store.objects().read_private(&record).as_deref(), Some(&b"{}\nepoch 1\n"[..]));
    assert_eq!(store.objects().read_private(&log).as_deref(), Some(&b"a large log"[..]));
    assert_eq!(store.objects().read_private(&file), None);

    run(&store, "a.yaml", "4", &[], &[]);
    store.gc(Retention { runs: 1, since: None }, false).unwrap();
    assert_eq!(store.of_attempt(&attempt).unwrap(), None);
    assert_eq!([record, log].map(|of| store.objects().read_private(&of)), [None, None]);
    assert_eq!(fs::read(&own).unwrap(), b"a large log");
}

/// Three runs: each records `a`, whose output is the same every time, and all use `b` of the first. Returns the results of
/// `a`, and `b`.
fn same_output(store: &Store) -> (Vec<StepResult>, StepResult) {
    let made = |label: &str, n: u64| {
        let mut made = result(label, n);
        made.run = RunId(n.to_string());
        made.outputs.insert("out".into(), store.objects().store_bytes(b"the same").unwrap());
        made.series = Some(store.objects().store_bytes(format!("series {label} {n}").as_bytes()).unwrap().digest);
        made
    };
    let (b, all) = (made("b", 1), [1, 2, 3].map(|n| made("a", n)));
    run(store, "w.yaml", "1", &[all[0].clone(), b.clone()], &[]);
    run(store, "w.yaml", "2", &all[1..2], &[&b]);
    run(store, "w.yaml", "3", &all[2..], &[&b]);
    (all.to_vec(), b)
}

fn examine(path: &Path) -> Diagnosis {
    doctor(path, &me("flow doctor"), |_| ControlFlow::Break(()), true).unwrap().1
}

/// Which of these results the database has, and which the journals, alone and as a new database.
fn found(path: &Path, results: &[&StepResult]) -> [Vec<bool>; 3] {
    let which = |of: &Store| results.iter().map(|r| of.result(&r.fingerprint).unwrap().is_some()).collect();
    let store = open(path).unwrap();
    let (database, journals) = (which(&store), which(&beside(&store)));
    drop(store);
    fs::remove_dir_all(path.join("db")).unwrap();
    [database, journals, which(&open(path).unwrap())]
}

#[test]
fn what_gc_dropped_stays_dropped_though_a_journal_still_records_it() {
    let dir = scratch();
    let store = open(dir.path()).unwrap();
    let (a, b) = same_output(&store);
    drop(store);
    // The writer of the first journal was killed in the middle of a line.
    let journal = dir.path().join("runs/1/journal.jsonl");
    fs::OpenOptions::new().append(true).open(&journal).unwrap().write_all(b"{\"at\":1,\"ev").unwrap();
    let one = Retention { runs: 1, since: None };
    assert_eq!(gc(dir.path(), &me("flow gc"), one, false).unwrap().results, 2);
    let told = fs::read_to_string(&journal).unwrap();
    assert!(told.ends_with('\n') && told.contains(r#"{"at":1500,"event":"dropped","results":["#), "{told}");
    assert!(examine(dir.path()).is_sound(), "at once, and with the contents");
    assert_eq!(gc(dir.path(), &me("flow gc"), one, false).unwrap().bytes, 0);
    assert_eq!(fs::read_to_string(&journal).unwrap(), told, "it is told once");
    let all = [&a[0], &a[1], &a[2], &b];
    assert_eq!(found(dir.path(), &all), [(); 3].map(|()| vec![false, false, true, true]));

    // The next run makes one of them again.
    let again = StepResult { run: RunId("4".into()), ..a[0].clone() };
    run(&open(dir.path()).unwrap(), "w.yaml", "4", std::slice::from_ref(&again), &[&b]);
    assert_eq!(found(dir.path(), &all), [(); 3].map(|()| vec![true, false, true, true]));
}

#[test]
fn what_was_forgotten_does_not_come_back_when_gc_removes_the_journal_that_says_so() {
    let dir = scratch();
    let store = open(dir.path()).unwrap();
    let (a, b) = same_output(&store);
    let lines = [RunEvent::Accepted { file: "w.yaml".into(), reason: "forgotten: a".into() }];
    let forgotten = a.iter().map(|a| RunEvent::Forgotten { fingerprint: a.fingerprint, label: "a".into() });
    let lines = lines.into_iter().chain(forgotten).map(|event| JournalLine { at: 1, event }).collect();
    keep(&store, &store.begin(&RunId("4".into())).unwrap(), lines).unwrap();
    run_of(&store, ("w.yaml", &["b"], &[]), "5", &[], &[&b]);
    store.gc(Retention { runs: 1, since: None }, false).unwrap();
    drop(store);
    assert!(!dir.path().join("runs/4").exists());
    assert!(examine(dir.path()).is_sound());
    assert_eq!(found(dir.path(), &[&a[0], &a[1], &a[2], &b]), [(); 3].map(|()| vec![false, false, false, true]));
}

#[test]
fn of_two_readings_of_an_attempt_the_one_that_stays_is_found() {
    let dir = scratch();
    let store = open(dir.path()).unwrap();
    let attempt = result("solo", 0).fingerprint;
    let [first, second] = [1, 2].map(|salt| StepResult {
        kept: Some(KeptOutput {
            attempt,
            record: None,
            log: None,
            files: [].into(),
            cut: 0,
            absent: [].into(),
            inputs: [].into(),
        }),
        ..result("solo", salt)
    });
    let other = result("other", 1);
    run(&store, "a.yaml", "1", std::slice::from_ref(&first), &[]);
    run(&store, "a.yaml", "2", &[second, other.clone()], &[]);
    run(&store, "a.yaml", "3", &[], &[&first, &other]);
    store.gc(Retention { runs: 1, since: None }, false).unwrap();
    assert_eq!(store.of_attempt(&attempt).unwrap().as_ref(), Some(&first));
    assert_eq!(beside(&store).of_attempt(&attempt).unwrap().as_ref(), Some(&first));
    drop(store);
    fs::remove_dir_all(dir.path().join("db")).unwrap();
    assert_eq!(open(dir.path()).unwrap().of_attempt(&attempt).unwrap().as_ref(), Some(&first));
}

#[test]
fn a_load_over_time_that_is_gone_is_told_once() {
    let dir = scratch();
    let (a, _) = same_output(&open(dir.path()).unwrap());
    let objects = Objects::of(open(dir.path()).unwrap().dir());
    fs::remove_file(objects.path(&a[2].series.unwrap())).unwrap();
    assert_eq!(examine(dir.path()).without_series, ["a"]);
    assert!(examine(dir.path()).is_sound());
}

/// Not a test: `flow gc`, until it is killed.
#[test]
#[ignore = "run by the other test"]
fn collector() {
    let Some(path) = env::var_os("STORE") else { return };
    println!("\nbegins");
    gc(path.as_ref(), &me("flow gc"), Retention { runs: 1, since: None }, false).unwrap();
}

#[test]
fn a_killed_gc_leaves_a_sound_store_and_the_next_one_does_the_rest() {
    for round in 0..4 {
        let dir = scratch();
        let store = open(dir.path()).unwrap();
        let made = |label: &str, n: u64| {
            let mut made = result(label, n);
            made.run = RunId(format!("{n:02}"));
            let output = store.objects().store_bytes(format!("{label} {}", n % 7).as_bytes()).unwrap();
            made.outputs.insert("out".into(), output);
            made.series = Some(store.objects().store_bytes(format!("series {label} {n}").as_bytes()).unwrap().digest);
            made
        };
        let used = made("used", 1);
        for n in 1..40 {
            let records = if n == 1 { vec![made("a", n), used.clone()] } else { vec![made("a", n)] };
            let reuses: &[&StepResult] = if n == 1 { &[] } else { &[&used] };
            run(&store, "w.yaml", &format!("{n:02}"), &records, reuses);
        }
        drop(store);
        let mut child = Command::new(env::current_exe().unwrap())
            .args(["--exact", "gc::collector", "--ignored", "--nocapture"])
            .env("STORE", dir.path())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        assert!(lines.map_while(Result::ok).any(|line| line == "begins"));
        thread::sleep(Duration::from_millis(10) * round);
        child.kill().unwrap();
        child.wait().unwrap();
        examine(dir.path());
        let second = examine(dir.path());
        assert!(second.is_sound(), "round {round}: {second:?}");
        gc(dir.path(), &me("flow gc"), Retention { runs: 1, since: None }, false).unwrap();
        assert!(examine(dir.path()).is_sound(), "round {round}");
        let (gone, last) = (result("a", 38), result("a", 39));
        assert_eq!(found(dir.path(), &[&gone, &last, &used]), [(); 3].map(|()| vec![false, true, true]));
    }
}

#[test]
fn what_is_read_again_is_observed_once() {
    let dir = scratch();
    let store = open(dir.path()).unwrap();
    let first = result("solo", 1);
    run(&store, "a.yaml", "1", std::slice::from_ref(&first), &[]);
    let mut second = StepResult { fingerprint: result("solo", 2).fingerprint, ..first };
    second.usage.cpu_cores = Some(7.0);
    let mut line = recorded(&second, json!({}));
    if let RunEvent::Recorded { read_again, .. } = &mut line.event {
        *read_again = true;
    }
    keep(&store, &store.begin(&RunId("2".into())).unwrap(), vec![line]).unwrap();
    let shape = &flow_store::shapes("feb08", "solo", "solo")[0];
    let seen = |results: &Store| results.history(shape).unwrap().iter().map(|o| o.cpu_cores).collect::<Vec<_>>();
    assert_eq!(seen(&store), [Some(7.0)]);
    assert_eq!(seen(&beside(&store)), [Some(7.0)]);
}

#[test]
fn copies_that_a_killed_run_left_are_removed_by_gc_and_by_the_next_run() {
    for by_gc in [true, false] {
        let dir = scratch();
        let store = open(dir.path()).unwrap();
        run(&store, "w.yaml", "1", &[], &[]);
        drop(store);
        let copies = dir.path().join("runs/1/inputs");
        let own = dir.path().join("runs/1/attempts/1/inputs");
        write(copies.join("open"), "");
        write(copies.join("0/data/a"), "12345");
        write(own.join("data/a"), "12345");
        write(dir.path().join("runs/1/attempts/1/log"), "");
        write(dir.path().join("runs/1/alive"), "");
        let keep = Retention { runs: 1, since: None };
        if by_gc {
            assert_eq!(gc(dir.path(), &me("flow gc"), keep, true).unwrap().bytes, 10);
            assert!(own.exists() && copies.exists());
            assert_eq!(gc(dir.path(), &me("flow gc"), keep, false).unwrap().bytes, 10);
        } else {
            let next = |_: &[RunId]| RunId("2".into());
            drop(open_for_run(dir.path(), &me("flow run"), next, |_| ControlFlow::Break(())).unwrap());
        }
        assert!(!own.exists() && !copies.exists());
        assert!(dir.path().join("runs/1/attempts/1/log").exists());
    }
}
