//! Results, last fingerprints and history: what is applied is there after the store is opened again, and in no other place.

use std::{collections::BTreeMap, fs, ops::ControlFlow, path::Path, process::Command};

use flow_core::{
    Outcome, RunEvent, RunId, Span,
    reason::{Cause, ClosedBy, Memory, ProcessEnd, ProfileReason, Spoiled},
    why::Reason,
};
use flow_store::{Batch, BroughtOver, HISTORY, Replay, Results, StoreError, Unread, bring_over, shapes};
use serde_json::json;

use crate::common::{keep, me, observed, open, record, result, scratch, write};

#[test]
fn what_was_applied_is_there_after_reopening() {
    let dir = scratch();
    let kept = result("solo[batch=16]", 16);
    {
        let store = open(dir.path()).unwrap();
        record(&store, &kept, json!({"batch": 16}));
    }
    let store = open(dir.path()).unwrap();
    assert_eq!(store.result(&kept.fingerprint).unwrap(), Some(kept.clone()));
    assert_eq!(store.result(&result("other", 1).fingerprint).unwrap(), None);
    let last = store.last("feb08", "solo[batch=16]").unwrap().unwrap();
    assert_eq!((last.fingerprint, last.parts), (kept.fingerprint, json!({"batch": 16})));
    assert_eq!(store.last("feb08", "solo[batch=1]").unwrap(), None, "a label that is a prefix of another");

    let mut batch = Batch::new();
    batch.forget(&kept.fingerprint);
    store.apply(&batch).unwrap();
    assert_eq!(store.result(&kept.fingerprint).unwrap(), None);
}

#[test]
fn history_keeps_the_newest_of_each_shape() {
    let dir = scratch();
    let [instance, step] = shapes("feb08", "solo", "solo[batch=16]");
    for first in [0, 30, 60] {
        let store = open(dir.path()).unwrap();
        let journal = store.begin(&RunId(format!("{first:04}"))).unwrap();
        let both = |salt| ["solo[batch=16]", "solo[batch=32]"].map(|label| observed(&result(label, salt)));
        keep(&store, &journal, (first..first + 30).flat_map(both).collect()).unwrap();
    }
    let store = open(dir.path()).unwrap();
    let ends = |shape: &str| store.history(shape).unwrap().iter().map(|seen| seen.at).collect::<Vec<_>>();
    assert_eq!(ends(&instance), (90 - HISTORY as u64..90).map(|salt| 1_000 * salt + 500).collect::<Vec<_>>());
    assert_eq!(ends(&step).len(), HISTORY);
    assert_eq!(ends("feb08/other/"), [0; 0]);
}

#[test]
fn values_of_any_size_are_kept_and_do_not_pile_up_in_the_database() {
    let dir = scratch();
    let store = open(dir.path()).unwrap();
    let parts = json!({"files": (0..5_000).map(|n| format!("{n:064}")).collect::<Vec<_>>()});
    for salt in 0..20 {
        record(&store, &result("all", salt), parts.clone());
    }
    assert_eq!(store.last("feb08", "all").unwrap().unwrap().parts, parts);
    let blobs = std::fs::read_dir(dir.path().join("db/blobs")).map_or(0, Iterator::count);
    assert_eq!(blobs, 0, "sled puts large values in files that it never removes");
}

#[test]
fn a_newer_format_is_refused_and_an_older_flow_says_what_to_do() {
    let dir = scratch();
    write(dir.path().join("format"), "3\n");
    let error = open(dir.path()).err().unwrap();
    let text = error.to_string().replace(&*dir.path().to_string_lossy(), "STORE");
    insta::assert_snapshot!(text, @"`STORE/format` has format 3, and this flow knows formats up to 2: use the flow that wrote it, or a newer one");
    write(dir.path().join("format"), "one\n");
    assert!(matches!(open(dir.path()), Err(StoreError::Malformed { .. })));
}

/// A store that flow wrote while its format was 1, with a run that said all kinds of reasons as sentences.
fn format_1() -> tempfile::TempDir {
    let dir = scratch();
    let copied = Command::new("cp").args(["-r", "tests/format-1/.", &dir.path().to_string_lossy()]).status();
    assert!(copied.unwrap().success());
    let run = dir.path().join("runs/20261122-070508-fb0e");
    fs::create_dir(&run).unwrap();
    fs::copy("tests/format-1.jsonl", run.join("journal.jsonl")).unwrap();
    dir
}

fn bring(path: &Path) -> Option<BroughtOver> {
    bring_over(path, &me("flow doctor"), |_| ControlFlow::Break(())).unwrap()
}

#[test]
fn a_store_of_format_1_is_brought_over_and_keeps_its_results() {
    let dir = format_1();
    let error = open(dir.path()).err().unwrap().to_string().replace(&*dir.path().to_string_lossy(), "STORE");
    insta::assert_snapshot!(error, @"`STORE/format` has format 1, an earlier flow's, and this one has 2: `flow doctor` brings the store over, and nothing runs again for it");
    assert_eq!(bring(dir.path()), Some(BroughtOver { from: 1, runs: 2, results: 1 }));
    assert_eq!(bring(dir.path()), None);
    let store = open(dir.path()).unwrap();
    let kept = result("solo[batch=16]", 16);
    assert_eq!(store.result(&kept.fingerprint).unwrap().unwrap().label, kept.label);
    assert_eq!(store.last("feb08", "solo[batch=16]").unwrap().unwrap().parts, json!({"batch": 16}));
    assert_eq!(store.history("feb08/solo/").unwrap().len(), 1);
    let replay = Replay::read(store.dir()).unwrap();
    assert_eq!((replay.results().len(), replay.runs, replay.unread), (8, 2, 0));
    let hello = store.result(&kept.fingerprint).unwrap().unwrap().outputs["out"].clone();
    assert_eq!(store.objects().read(&hello.digest, "").unwrap(), b"hello\n");
}

#[test]
fn sentences_of_format_1_are_values_afterwards() {
    let dir = format_1();
    bring(dir.path());
    let store = open(dir.path()).unwrap();
    let replay = Replay::read(store.dir()).unwrap();
    let of = |label: &str| replay.results().find(|result| result.label == label).unwrap().clone();
    let cuda = Some("CUDA out of memory".to_owned());
    assert_eq!(of("oom").cause, Some(Cause::OutOfMemory { memory: Memory::Gpu, said: cuda }));
    assert_eq!(of("solo[version=v7,batch=512]").cause, Some(Cause::OutOfMemory { memory: Memory::Gpu, said: None }));
    assert_eq!(of("slow").cause, Some(Cause::TimedOut { limit: Span::from_millis(300) }));
    let closed_by = ClosedBy { label: "pair[n=1]".into(), outcome: Outcome::OutOfMemory };
    assert_eq!(of("pair[n=2]").circumstances.corun.unwrap().closed_by, Some(closed_by));
    let spoiled = of("solo[version=v7,batch=16]");
    let text = "`in/large` is only to be read, and was changed".to_owned();
    assert_eq!(
        spoiled.spoiled,
        [
            Spoiled::Stranger { pid: 4711, name: "python".into(), gpu: "0".into() },
            Spoiled::GpuSilent { gpu: "1".into(), seconds: 7 },
            Spoiled::Said { text },
        ]
    );
    let names: Vec<&String> = spoiled.axes.keys().chain(spoiled.outputs.keys()).collect();
    assert_eq!(names, ["version", "batch", "out", "log"], "in declared order");
    let mut causes = BTreeMap::new();
    let journal = store.dir().run(&RunId("20261122-070508-fb0e".into()));
    let unread = journal.read_journal(|line| match line.event {
        RunEvent::Settled { instance, cause, .. } => _ = causes.insert(instance.0, cause.unwrap()),
        RunEvent::RunStarted(start) => {
            let expression = "machine.gpus == 0".to_owned();
            assert_eq!(start.profile, Some(("here".into(), ProfileReason::Holds { expression })));
        }
        RunEvent::Started { why, .. } => assert_eq!(why.first, [Reason::NeverRan]),
        _ => {}
    });
    assert_eq!(unread.unwrap(), Unread::default());
    let expression = "wide and machine.gpus >= 4".to_owned();
    assert_eq!(causes[&1], Cause::ConditionFalse { expression });
    let because = Some(Box::new(Cause::EmptyAxis { axis: "v".into() }));
    assert_eq!(causes[&2], Cause::NoInstances { step: Some("none".into()), because });
    assert_eq!(causes[&7], Cause::NeedFailed { label: "wrong".into() });
    let (end, last_line) = (ProcessEnd::Code { code: 3 }, Some("it broke".to_owned()));
    assert_eq!(causes[&6], Cause::Exited { end, last_line });
    assert!(matches!(&causes[&10], Cause::Said { text } if text.contains("4000 CPUs")));
}

#[test]
fn who_is_killed_while_bringing_a_store_over_goes_on_with_it() {
    let dir = format_1();
    bring(dir.path());
    let journals = || {
        let runs = fs::read_dir(dir.path().join("runs")).unwrap().flatten();
        runs.map(|run| fs::read_to_string(run.path().join("journal.jsonl")).unwrap()).collect::<Vec<_>>()
    };
    let once = journals();
    // Killed before the number was written, which is last.
    write(dir.path().join("format"), "1\n");
    assert!(bring(dir.path()).is_some());
    assert_eq!(journals(), once);
    assert!(open(dir.path()).unwrap().result(&result("solo[batch=16]", 16).fingerprint).unwrap().is_some());
}
