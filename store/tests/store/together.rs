//! Several processes on one store: they share results at once, whoever has the database, and whenever that one ends.

use std::{
    collections::BTreeSet,
    fs,
    io::{Read, Write},
    ops::ControlFlow,
    os::unix::{
        fs::PermissionsExt,
        net::{UnixListener, UnixStream},
    },
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    thread,
};

use flow_core::{Digest, Kept, RunId, StepResult, plan::Sought};
use flow_store::{Batch, Captures, Earlier, Keep, Replay, Results, Store, StoreDir, StoreError, gc, shapes};
use nix::fcntl::{Flock, FlockArg};
use proptest::prelude::*;
use serde_json::json;

use crate::common::{keep, made, me, observed, open, rebuilt, recorded, result, run, run_in, scratch, told};

#[test]
fn what_one_records_all_have_at_once_and_one_takes_over() {
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
    let both = told(&first, &["solo"]);
    assert_eq!(told(&second, &["solo"]), both);
    // More than one answer holds.
    let many: Vec<_> = (100..1_700).map(|salt| recorded(&made("2", salt), json!({}))).collect();
    keep(&second, &journals[1], many).unwrap();
    assert_eq!(told(&second, &["solo"]).0.len(), 1_640);
    // What no journal tells of.
    let mut batch = Batch::new();
    batch.forget(&made("2", 101).fingerprint);
    second.apply(&batch).unwrap();
    assert_eq!(first.result(&made("2", 101).fingerprint).unwrap(), None);

    let all = told(&first, &["solo"]);
    drop(first);
    assert_eq!(told(&second, &["solo"]), all, "it has the database now");
    assert_eq!(second.dir().holder().unwrap().unwrap().run, Some(run("2")));
    let third = run_in(dir.path(), "3").unwrap();
    let kept = made("3", 9_999);
    keep(&third, &third.begin(&run("3")).unwrap(), vec![recorded(&kept, json!({}))]).unwrap();
    assert_eq!(second.result(&kept.fingerprint).unwrap(), Some(kept));
    assert_eq!(second.rebuilt(), None);
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
    assert!(held(gc(dir.path(), &me("flow gc"), Keep { runs: 0, since: None }, false).unwrap_err()));
    drop((Captures::new(inputs), first));
    gc(dir.path(), &me("flow gc"), Keep { runs: 0, since: None }, false).unwrap();
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
                Store::open_for_run(dir.path(), &me, next, |_| ControlFlow::Continue(())).unwrap()
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
        assert_eq!(told(store, &["solo"]).0.len(), 8);
    }
}

#[test]
fn a_path_of_any_length_has_a_socket_and_a_left_one_is_replaced() {
    let dir = scratch();
    let path = dir.path().join("l".repeat(100)).join("o".repeat(100)).join(".flow");
    let first = run_in(&path, "1").unwrap();
    let socket = path.join("db.sock");
    assert_eq!(fs::metadata(&socket).unwrap().permissions().mode() & 0o777, 0o600);
    let second = run_in(&path, "2").unwrap();
    assert_eq!(second.dir().holder().unwrap().unwrap().run, Some(run("1")));
    drop((first, second));
    assert!(!socket.exists());
    // As a kill leaves it.
    let other = dir.path().join("s");
    drop(UnixListener::bind(&other).unwrap());
    fs::rename(&other, &socket).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o770)).unwrap();
    let (first, second) = (run_in(&path, "1").unwrap(), run_in(&path, "2").unwrap());
    assert_eq!(fs::metadata(&socket).unwrap().permissions().mode() & 0o777, 0o660, "of a lab");
    assert_eq!(told(&first, &["solo"]), told(&second, &["solo"]));
    assert_eq!(
        fs::read_dir(&path).unwrap().flatten().filter(|e| e.file_name().as_encoded_bytes()[0] == b'.').count(),
        1
    );
}

fn greeting(flow: &str, protocol: u32) -> Vec<u8> {
    let who = serde_json::to_value(me("flow run old.yaml")).unwrap();
    let hello =
        json!({"protocol": protocol, "format": flow_store::STORE_FORMAT, "flow": flow, "who": who, "later": true})
            .to_string();
    [&u32::try_from(hello.len()).unwrap().to_le_bytes()[..], hello.as_bytes()].concat()
}

#[test]
fn two_versions_tell_each_other_and_wait() {
    let dir = scratch();
    StoreDir::create(dir.path()).unwrap();
    // A holder of another version.
    let lock = fs::File::options().create(true).truncate(false).write(true).open(dir.path().join("lock")).unwrap();
    let lock = Flock::lock(lock, FlockArg::LockExclusive).unwrap_or_else(|_| panic!("locked"));
    let listener = UnixListener::bind(dir.path().join("db.sock")).unwrap();
    let other = thread::spawn(move || {
        for stream in listener.incoming().take(2) {
            let mut stream = stream.unwrap();
            let _ = stream.read(&mut [0; 4096]);
            stream.write_all(&greeting("0.1.0", 99)).unwrap();
        }
        drop((listener, lock));
    });
    let mut told = vec![];
    let store = Store::open(dir.path(), &me("flow run a.yaml"), |who| {
        told.push(who.to_string());
        ControlFlow::Continue(())
    });
    let store = store.unwrap();
    other.join().unwrap();
    let words = told.concat();
    assert!(
        told.is_empty() || words.contains("it is flow 0.1.0, with protocol 99, and this is flow 0.1.0 `"),
        "{words}"
    );

    // One who asks, of another version, and one who talks nonsense: only they are told off.
    let socket = || UnixStream::connect(dir.path().join("db.sock")).unwrap();
    let mut asks = socket();
    asks.write_all(&greeting("0.0.1", 0)).unwrap();
    let mut said = Vec::new();
    asks.read_to_end(&mut said).unwrap();
    let said = String::from_utf8_lossy(&said);
    assert!(said.contains(r#""protocol":3"#) && said.contains("flow run a.yaml"), "{said}");
    for nonsense in [&b"\xff\xff\xff\xff"[..], b"\x03\0\0\0abc", b"GET / HTTP/1.1\r\n\r\n"] {
        let mut asks = socket();
        asks.write_all(&greeting("0.1.0", 3)).unwrap();
        asks.write_all(nonsense).unwrap();
        asks.shutdown(std::net::Shutdown::Write).unwrap();
        asks.read_to_end(&mut vec![]).unwrap();
    }
    let second = open(dir.path()).unwrap();
    assert_eq!(second.result(&made("1", 1).fingerprint).unwrap(), None);
    drop(store);
}

#[test]
fn what_is_known_of_an_instance_is_told_at_once() {
    let dir = scratch();
    let (first, second) = (run_in(dir.path(), "1").unwrap(), run_in(dir.path(), "2").unwrap());
    let journal = second.begin(&run("2")).unwrap();
    let none = Digest::of(b"none");
    let attempt = Digest::of(b"attempt");
    let kept: Kept = serde_json::from_value(json!({"attempt": attempt})).unwrap();
    let result = StepResult { kept: Some(kept), ..made("2", 1) };
    for store in [&first, &second] {
        let sought = Sought { fingerprint: result.fingerprint, attempt, label: "solo" };
        assert_eq!(store.earlier("feb08", &[sought, sought]).unwrap(), [Earlier::Nothing, Earlier::Nothing]);
    }
    keep(&second, &journal, vec![recorded(&result, json!({"n": 1}))]).unwrap();
    let replay = Replay::read(first.dir()).unwrap();
    for store in [&first as &dyn Results, &second, &replay] {
        let sought = |fingerprint, attempt, label| Sought { fingerprint, attempt, label };
        let all = [
            sought(none, none, "pair"),
            sought(result.fingerprint, attempt, "solo"),
            sought(none, attempt, "solo"),
            sought(none, none, "solo"),
        ];
        let earlier = store.earlier("feb08", &all).unwrap();
        let boxed = || Box::new(result.clone());
        assert_eq!(earlier[..3], [Earlier::Nothing, Earlier::Result(boxed()), Earlier::Attempt(boxed())]);
        assert!(matches!(&earlier[3], Earlier::Last(last) if last.fingerprint == result.fingerprint));
        assert_eq!(store.results_of(&[none, result.fingerprint]).unwrap(), [None, Some(result.clone())]);
    }
}

/// Stands between the holder of a store and who asks it from now on, counts the frames that are asked, and breaks the first
/// connection after so many bytes of answers.
fn counted(path: &Path, breaks: u64) -> Arc<AtomicUsize> {
    fs::rename(path.join("db.sock"), path.join("real.sock")).unwrap();
    let (listener, real) = (UnixListener::bind(path.join("db.sock")).unwrap(), path.join("real.sock"));
    let count = Arc::new(AtomicUsize::new(0));
    let counts = Arc::clone(&count);
    let forward = move |mut asks: UnixStream, breaks: u64| {
        let mut holder = UnixStream::connect(&real).unwrap();
        let (answers, mut told) = (holder.try_clone().unwrap(), asks.try_clone().unwrap());
        thread::spawn(move || {
            let _ = std::io::copy(&mut answers.take(breaks), &mut told);
            let _ = told.shutdown(std::net::Shutdown::Both);
        });
        let mut length = [0; 4];
        while asks.read_exact(&mut length).is_ok() {
            let mut frame = vec![0; u32::from_le_bytes(length) as usize];
            asks.read_exact(&mut frame).unwrap();
            counts.fetch_add(1, Ordering::Relaxed);
            let _ = holder.write_all(&[&length[..], &frame].concat());
        }
    };
    thread::spawn(move || {
        for (n, asks) in listener.incoming().enumerate() {
            let (asks, forward) = (asks.unwrap(), forward.clone());
            thread::spawn(move || forward(asks, if n == 0 { breaks } else { u64::MAX }));
        }
    });
    count
}

#[test]
fn of_many_a_few_questions_tell() {
    let dir = scratch();
    let first = run_in(dir.path(), "1").unwrap();
    let journal = first.begin(&run("1")).unwrap();
    let of = |salt: u64| {
        let label = format!("solo[n={salt}]");
        let params = [("text".to_owned(), json!("x".repeat(20_000)))].into();
        StepResult { label, params, ..made("1", salt) }
    };
    // More than one answer holds, and one that is too large for the database itself.
    let large = StepResult { params: [("text".to_owned(), json!("x".repeat(3_000_000)))].into(), ..of(7) };
    let all: Vec<StepResult> = (0..600).map(|salt| if salt == 7 { large.clone() } else { of(salt) }).collect();
    keep(&first, &journal, all.iter().map(|result| recorded(result, json!({}))).collect()).unwrap();
    let count = counted(dir.path(), 28_000_000);
    let second = open(dir.path()).unwrap();
    let asked = |ask: &dyn Fn()| {
        let before = count.load(Ordering::Relaxed);
        ask();
        count.load(Ordering::Relaxed) - before
    };
    let labels: Vec<String> = (0..1_000).map(|salt| of(salt).label).collect();
    let sought: Vec<Sought<'_>> = (0..1_000)
        .zip(&labels)
        .map(|(salt, label)| Sought { fingerprint: of(salt).fingerprint, attempt: Digest::of(b"none"), label })
        .collect();
    let frames = asked(&|| {
        let earlier = second.earlier("feb08", &sought).unwrap();
        let result =
            |earlier: &Earlier| if let Earlier::Result(result) = earlier { Some((**result).clone()) } else { None };
        assert!(earlier[..600].iter().map(result).eq(all.iter().cloned().map(Some)));
        assert!(earlier[600..].iter().all(|earlier| *earlier == Earlier::Nothing));
    });
    assert!((3..5).contains(&frames), "{frames}");
    let shapes: Vec<String> = labels.iter().map(|label| shapes("feb08", "solo", label)[0].clone()).collect();
    let frames = asked(&|| {
        let histories = second.histories(&shapes).unwrap();
        assert_eq!(histories, first.histories(&shapes).unwrap());
        assert_eq!(histories.iter().map(Vec::len).sum::<usize>(), 600);
    });
    assert!((3..5).contains(&frames), "{frames}");
    // In the middle of an answer the connection breaks.
    let [broken, whole] = [(); 2].map(|()| asked(&|| assert_eq!(told(&second, &[]), told(&first, &[]))));
    assert!(broken > whole, "{broken} and {whole}");
    drop(first);
    assert_eq!(second.histories(&shapes).unwrap().iter().map(Vec::len).sum::<usize>(), 600);
}

#[test]
fn what_a_run_that_was_killed_told_nobody_of_is_found() {
    let dir = scratch();
    let (first, second) = (run_in(dir.path(), "1").unwrap(), run_in(dir.path(), "2").unwrap());
    let journal = second.begin(&run("2")).unwrap();
    keep(&second, &journal, vec![recorded(&made("2", 1), json!({}))]).unwrap();
    journal.append(&[recorded(&made("2", 2), json!({}))]).unwrap();
    assert_eq!(first.result(&made("2", 2).fingerprint).unwrap(), None);
    let by_now = |store: &Store| {
        store.take_in_ended().unwrap();
        store.result_of(&made("2", 2).fingerprint, &Digest::of(b"another")).unwrap()
    };
    assert_eq!(by_now(&first), None, "it lives, and may take it back");
    drop(second);
    let third = run_in(dir.path(), "3").unwrap();
    assert_eq!(by_now(&third), Some(made("2", 2)));
    assert_eq!(by_now(&first), Some(made("2", 2)));
    drop(third);
    let all = told(&first, &["solo"]);
    drop(first);
    assert_eq!(rebuilt(dir.path(), &["solo"]), all);
}

/// What happens to a store that several runs use.
#[derive(Clone, Debug)]
enum Happens {
    /// A run records, and is not killed in between.
    Keeps(usize),
    /// A run is killed between its journal and telling of it: from then on its journal is all that it has.
    Journals(usize),
    /// A run ends, and another one comes.
    Reopens(usize),
    TakesIn,
}

fn happens() -> impl Strategy<Value = Happens> {
    prop_oneof![
        5 => (0..3_usize).prop_map(Happens::Keeps),
        3 => (0..3_usize).prop_map(Happens::Journals),
        1 => (0..3_usize).prop_map(Happens::Reopens),
        1 => Just(Happens::TakesIn),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, failure_persistence: None, ..ProptestConfig::default() })]
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
                Happens::Keeps(of) | Happens::Journals(of) => {
                    let (store, journal, id, is_killed) = runs[of].as_mut().unwrap();
                    let result = StepResult { run: run(id), ..result(labels[1 + n % 3], salt) };
                    let line = if n % 3 == 0 { observed(&result) } else { recorded(&result, json!({"n": n})) };
                    *is_killed |= matches!(happens, Happens::Journals(_));
                    match is_killed {
                        true => journal.append(&[line]).unwrap(),
                        false => keep(store, journal, vec![line]).unwrap(),
                    }
                    kept += 1;
                }
                Happens::Reopens(of) => {
                    drop(runs[of].take());
                    runs[of] = begin(3 + n);
                }
                Happens::TakesIn => runs[0].as_ref().unwrap().0.take_in_ended().unwrap(),
            }
        }
        drop(runs);
        let live = told(&open(dir.path()).unwrap(), &labels);
        let reopened = told(&open(dir.path()).unwrap(), &labels);
        prop_assert_eq!(&live, &reopened);
        let seen = live.1.iter().filter(|shape| shape.contains("solo/ ")).map(|shape| shape.matches("Observation").count()).sum::<usize>();
        prop_assert_eq!(seen, kept.min(32), "each attempt once");
        prop_assert_eq!(live, rebuilt(dir.path(), &labels));
    }
}

#[test]
fn who_can_serve_nobody_says_why_to_those_that_wait() {
    let dir = scratch();
    StoreDir::create(dir.path()).unwrap();
    fs::create_dir(dir.path().join("db.sock")).unwrap();
    let store = open(dir.path()).unwrap();
    let holder = store.dir().holder().unwrap().unwrap().to_string();
    assert!(holder.contains("other processes cannot use the store: cannot ") && holder.contains("db.sock"), "{holder}");
    drop(store);
    fs::remove_dir(dir.path().join("db.sock")).unwrap();
    let store = open(dir.path()).unwrap();
    let holder = store.dir().holder().unwrap().unwrap().to_string();
    assert!(!holder.contains("serves nobody"), "{holder}");
}
