//! Costs of the store: for each tiny output, each turn of the driver, and each run with nothing to do.

use std::{fs, ops::ControlFlow, path::Path, time::SystemTime};

use divan::{Bencher, counter::ItemsCount};
use flow_core::{Digest, RunId};
use flow_store::{FinishedRun, Holder, Inputs, ProcessIdentity, Results, Snapshot, Stood, Store, StoreDir};
use serde_json::json;

#[path = "../tests/store/common.rs"]
#[expect(dead_code, reason = "shared with the tests")]
mod common;

const FILES: usize = 5_000;

fn main() {
    divan::main();
}

fn outputs(dir: &Path) -> Vec<std::path::PathBuf> {
    (0..FILES).map(|n| common::write(dir.join(format!("work/{n}")), &format!("output {n}\n"))).collect()
}

#[divan::bench(sample_count = 5)]
fn take_in_one_line_files(bencher: Bencher) {
    bencher
        .counter(ItemsCount::new(FILES))
        .with_inputs(|| {
            let dir = common::scratch();
            let files = outputs(dir.path());
            let objects = StoreDir::create(&dir.path().join(".flow")).unwrap().objects();
            (dir, files, objects)
        })
        .bench_refs(|(dir, files, objects)| {
            for file in files {
                objects.ingest(file, dir.path()).unwrap();
            }
        });
}

#[divan::bench(sample_count = 5)]
fn record_and_flush_one_by_one(bencher: Bencher) {
    bencher
        .counter(ItemsCount::new(FILES))
        .with_inputs(|| {
            let dir = common::scratch();
            let me = Holder { process: ProcessIdentity::own(), doing: String::new(), run: None, since: String::new() };
            let store = Store::open(dir.path(), &me, |_| ControlFlow::Break(())).unwrap();
            let results: Vec<_> = (0..FILES as u64).map(|n| common::result(&format!("copy[n={n}]"), n)).collect();
            let journal = store.begin(&RunId("r".into())).unwrap();
            (store, journal, results, dir)
        })
        .bench_refs(|(store, journal, results, _)| {
            for result in results {
                let parts = json!({"command": "cp in/a out", "inputs": {"a": result.fingerprint}});
                common::keep(store, journal, vec![common::recorded(result, parts)]).unwrap();
            }
        });
}

#[divan::bench(sample_count = 5)]
fn look_up(bencher: Bencher) {
    let dir = common::scratch();
    let me = Holder { process: ProcessIdentity::own(), doing: String::new(), run: None, since: String::new() };
    let store = Store::open(dir.path(), &me, |_| ControlFlow::Break(())).unwrap();
    let results: Vec<_> = (0..FILES as u64).map(|n| common::result(&format!("copy[n={n}]"), n)).collect();
    let journal = store.begin(&RunId("r".into())).unwrap();
    let lines = results.iter().map(|result| common::recorded(result, json!({}))).collect();
    common::keep(&store, &journal, lines).unwrap();
    bencher.counter(ItemsCount::new(FILES)).bench_local(|| {
        for result in &results {
            assert!(store.result(&result.fingerprint).unwrap().is_some());
        }
    });
}

/// 5,000 inputs in one folder and 5,000 artifacts, as in a `flow run` with nothing to do.
struct Finished {
    dir: tempfile::TempDir,
    store: StoreDir,
    inputs: Vec<std::path::PathBuf>,
}

fn finished() -> Finished {
    let dir = common::scratch();
    let store = StoreDir::create(&dir.path().join(".flow")).unwrap();
    let inputs: Vec<_> =
        (0..FILES).map(|n| common::write(dir.path().join(format!("in/{n}")), &format!("{n}"))).collect();
    let artifacts: Vec<_> =
        outputs(dir.path()).iter().map(|path| store.objects().ingest(path, dir.path()).unwrap()).collect();
    let seen = Inputs::new(None, None, SystemTime::now());
    for path in &inputs {
        seen.hash_path(path, false).unwrap();
    }
    let later = SystemTime::now() + std::time::Duration::from_secs(10);
    let run = RunId("r".into());
    let stood = artifacts.iter().enumerate().map(|(n, artifact)| {
        let mut result = common::result("one", n as u64);
        result.outputs.insert("out".to_owned(), artifact.clone());
        Some(Stood::of(&result, Digest::of(b"inputs")))
    });
    let rested =
        FinishedRun { key: Digest::of(b""), run: &run, stood: stood.collect(), published: &[], summary: String::new() };
    Snapshot::of(rested, &seen, later).save(&store, "bench").unwrap();
    Finished { dir, store, inputs }
}

#[divan::bench(sample_count = 20)]
fn nothing_to_do(bencher: Bencher) {
    let done = finished();
    let bytes = fs::metadata(done.store.snapshot("bench")).unwrap().len();
    assert!(bytes < 2 << 20, "{bytes} bytes in {}", done.dir.path().display());
    bencher.counter(ItemsCount::new(2 * FILES)).bench_local(|| {
        let snapshot = Snapshot::load(&done.store, "bench").unwrap();
        assert!(snapshot.still_holds(&done.store, &Digest::of(b"")));
    });
}

#[divan::bench(sample_count = 20)]
fn load_a_snapshot(bencher: Bencher) {
    let done = finished();
    bencher.bench_local(|| Snapshot::load(&done.store, "bench").unwrap());
}

#[divan::bench(sample_count = 5)]
fn hash_inputs_that_are_as_they_were(bencher: Bencher) {
    let done = finished();
    let snapshot = Snapshot::load(&done.store, "bench").unwrap();
    bencher.counter(ItemsCount::new(FILES)).bench_local(|| {
        let inputs = Inputs::new(None, Some(&snapshot), SystemTime::now());
        for path in &done.inputs {
            inputs.hash_path(path, false).unwrap();
        }
    });
}
