//! The content of a bundle, what it omits, and what is refused.

use proptest::prelude::*;
use serde_json::json;

use super::*;
use crate::{ForeignProcess, GpuFacts, GpuUsage, InstanceId, JournalLine, Outcome, RunEvent};

fn result(label: &str) -> StepResult {
    let digest = Digest::of(label.as_bytes()).to_string();
    let mut result: StepResult = serde_json::from_value(json!({
        "fingerprint": digest, "workflow": "w", "step": "train", "label": label, "axes": {}, "outcome": "ok",
        "run": "20260208-153012-3f2a", "started_at": 1, "ended_at": 2,
        "metrics": {"epoch_time": {"value": 1.25, "unit": "s"}}, "params": {"photos": "/home/kim/pets", "epochs": 4},
        "outputs": {"model": {"digest": digest, "kind": "file", "bytes": 3, "files": 1}}, "paths": {"model": "out/m"},
        "series": digest,
    }))
    .unwrap();
    result.axes = [("version".to_owned(), json!("v7")), ("batch".to_owned(), json!(16))].into_iter().collect();
    result.usage.gpus = vec![GpuUsage { uuid: "GPU-77aa".into(), memory_peak: Some(9), ..GpuUsage::default() }];
    result.circumstances.gpus = vec!["GPU-77aa".into()];
    result.circumstances.gpu_models = vec!["NVIDIA H200".into()];
    let (name, gpu) = ("kims-secret-tool".to_owned(), "GPU-77aa".to_owned());
    result.circumstances.foreign_processes = vec![ForeignProcess { pid: 4711, name, gpu, memory: 5 }];
    result
}

fn origin() -> Origin {
    let gpu = GpuFacts { uuid: "GPU-77aa".into(), index: 0, name: "NVIDIA H200".into(), memory: 1 << 37 };
    Origin {
        host: "lab4".into(),
        machine: Machine { gpus: vec![gpu], cpus: 64, cpu_model: "AMD EPYC".into(), ..Machine::default() },
        flow: "0.1.0".into(),
        run: RunId("20260208-153012-3f2a".into()),
        began: 7,
        workflow: "w".into(),
    }
}

fn hide(text: &str) -> String {
    text.replace("/home/kim/", "…/").replace("GPU-77aa", "gpu0")
}

/// A journal line of the exported run.
fn journal_line(event: RunEvent) -> JournalLine {
    JournalLine { at: 5, event }
}

fn event(value: Value) -> RunEvent {
    serde_json::from_value(value).unwrap()
}

fn recorded(instance: u32, result: StepResult) -> RunEvent {
    let parts = json!({"command": "python3 /home/kim/train.py"});
    RunEvent::Recorded { instance: InstanceId(instance), result: Box::new(result), parts, read_again: false }
}

fn carried() -> BundledRun {
    let run = RunId("20260208-153012-3f2a".into());
    let earlier = RunId("20260207-101010-77aa".into());
    let reused = StepResult { run: earlier.clone(), ..result("train[batch=32]") };
    let skipped = StepResult { outcome: Outcome::Skipped, ..result("b") };
    let start = json!({
        "event": "run_started", "format": 3, "run": run, "flow": "0.1.0", "file": "w.yaml", "workflow": "w", "params": {},
        "policy": "fair", "machine": origin().machine, "instances": 3, "pid": 4711,
    });
    let started = json!({
        "event": "started", "instance": 0, "attempt": 0, "folder": "runs/x/attempts/0", "why": {"first": [{"kind": "never_ran"}]}, "gpus": ["GPU-77aa"],
        "cpus": 2,
    });
    let cached =
        json!({"event": "cached", "instance": 2, "fingerprint": reused.fingerprint, "outcome": "ok", "from": earlier});
    let mut carried = BundledRun::default();
    let notice = json!({"event": "notice", "text": "kims-secret-tool is on GPU-77aa"});
    let mut lines = vec![event(start), event(notice)];
    lines.extend([event(started), recorded(0, result("train[batch=16]")), recorded(1, skipped), event(cached)]);
    lines.into_iter().for_each(|event| carried.add(&run, journal_line(event), &hide));
    carried.add(&earlier, journal_line(recorded(7, reused)), &hide);
    carried.files.insert("w.yaml".into(), "flow: 1\n".into());
    let digest = Digest::of(b"train[batch=16]");
    carried.objects.insert(digest, [(String::new(), "{}".to_owned())].into());
    carried.settle();
    carried
}

fn bundle() -> Bundle {
    Bundle::of(origin(), carried())
}

/// Its text.
fn unpacked(bytes: &[u8]) -> String {
    let mut text = String::new();
    GzDecoder::new(bytes).read_to_string(&mut text).unwrap();
    text
}

/// Any content with a correct digest.
fn sealed(content: &str) -> Vec<u8> {
    let mut bytes = content.as_bytes().to_vec();
    let digest = Digest::of(&bytes);
    line(&mut bytes, &Trailer { digest });
    bytes
}

#[test]
fn a_result_without_a_limit_of_cpus_gets_that_of_its_run() {
    let own = origin().run;
    let limited = |run: &RunId, model: &str, host: u32, allowed: Option<u32>, node: Option<&str>| {
        let mut one = result("limited");
        let seen = &mut one.circumstances;
        (seen.cpu_model, seen.host_cpus, seen.allowed_cpus) = (model.into(), host, allowed);
        seen.facts.extend(node.map(|node| ("node".to_owned(), node.to_owned())));
        let mut carried = carried();
        carried.journals.get_mut(run).unwrap().push(journal_line(recorded(9, one)));
        carried.check(&own).unwrap();
        let RunEvent::Recorded { result, .. } = &carried.journals[run].last().unwrap().event else { panic!() };
        result.circumstances.allowed_cpus
    };
    // The machine has 64 CPUs for flow. The journal of the other run lacks its beginning.
    let (here, other) = ("AMD EPYC", RunId("20260207-101010-77aa".into()));
    for (what, found, expected) in [
        ("fewer than the host has", limited(&own, here, 128, None, None), Some(64)),
        ("all of the host", limited(&own, here, 64, None, None), None),
        ("recorded", limited(&own, here, 128, Some(4), None), Some(4)),
        ("another machine", limited(&own, "Intel Xeon", 128, None, None), None),
        ("a node of a cluster", limited(&own, here, 128, None, Some("n1")), None),
        ("an unknown machine", limited(&other, here, 128, None, None), None),
    ] {
        assert_eq!(found, expected, "{what}");
    }
}

#[test]
fn what_was_written_is_read_and_nothing_of_the_machine_but_what_it_is() {
    let bundle = bundle();
    let bytes = bundle.bytes();
    assert_eq!(Bundle::read(&bytes).as_ref(), Ok(&bundle));
    assert!(Bundle::is_one(&bytes) && Bundle::is_one(HEAD) && !Bundle::is_one(b"a,b\n"));
    let [first, second] = bundle.results.as_slice() else { panic!("{bundle:?}") };
    assert_eq!((&*first.label, first.metrics["epoch_time"].value), ("train[batch=16]", 1.25));
    assert_eq!((&*second.label, &second.params["photos"]), ("train[batch=32]", &json!("…/pets")));
    for result in [first, second] {
        assert_eq!(result.axes.keys().collect::<Vec<_>>(), ["version", "batch"], "as declared");
        assert!(result.outputs.is_empty() && result.series.is_none(), "they stand alone");
    }
    assert_eq!(first.usage.gpus[0].memory_peak, Some(9));
    assert_eq!(machine_of(first, Some("lab4")), "NVIDIA H200 (lab4)");
    let run = bundle.run;
    let kept = run.journals.values().flatten().filter_map(|line| match &line.event {
        RunEvent::Recorded { result, .. } => Some(result),
        _ => None,
    });
    let kept: Vec<usize> = kept.map(|result| result.outputs.len() + result.series.iter().count()).collect();
    assert_eq!(kept, [0, 2, 0], "of each object that is carried, and of no other");
    let text = unpacked(&bytes);
    for private in ["GPU-77aa", "kims-secret-tool", "4711", "/home/kim", "attempts/0"] {
        assert!(!text.contains(private), "{private}: {text}");
    }
}

#[test]
fn what_is_no_bundle_is_told_in_words() {
    let read = |bytes: &[u8]| Bundle::read(bytes).unwrap_err();
    let whole = bundle().bytes();
    let text = unpacked(&whole);
    let content = &text[..text.trim_end().rfind('\n').unwrap() + 1];
    let other = |from: &str, to: &str| {
        assert!(content.contains(from), "{from}");
        read(&sealed(&content.replacen(from, to, 1)))
    };
    let lines: Vec<&str> = content.split_inclusive('\n').collect();
    let mut zipped = GzEncoder::new(Vec::new(), Compression::fast());
    zipped.write_all("a,b\n".repeat(99).as_bytes()).unwrap();
    let told = [
        read(b""),
        read(b"\x00\xff"),
        read(b"{\"a\": 1}\n"),
        read(&zipped.finish().unwrap()),
        read(&whole[..whole.len() / 2]),
        read(&text.as_bytes()[..text.len() - 20]),
        read(content.as_bytes()),
        read(lines[0].as_bytes()),
        read(text.replace("1.25", "1.26").as_bytes()),
        read(&sealed(&lines[..2].concat())),
        other("\"flow_bundle\":4", "\"flow_bundle\":9"),
        other("\"flow_bundle\":4", "\"flow_bundle\":99999999999"),
        other("\"lab4\"", "\"\\u001b[2J\""),
        other("\"lab4\"", "\"\""),
        other("\"outcome\":\"ok\"", "\"outcome\":\"odd\""),
        other("\"usage\":{", "\"usage\":{\"wall_s\":-1.0,"),
        other("\"path\":\"w.yaml\"", "\"path\":\"../w.yaml\""),
        other("\"path\":\"w.yaml\"", "\"path\":\"/etc/w.yaml\""),
        other("\"path\":\"w.yaml\"", "\"path\":\"a/.flow/format\""),
        other("\"path\":\"w.yaml\"", "\"path\":\"\""),
        other("\"files\":{\"\":", "\"files\":{\"a/../../b\":"),
        other("\"run\":\"20260207-101010-77aa\"", "\"run\":\"../../x\""),
        other("\"event\":\"run_started\"", "\"event\":\"notice\",\"text\":\"\""),
    ];
    insta::assert_snapshot!(told.join("\n"), @r"
    it is not a bundle; `flow export RUN --bundle FILE` writes one
    it is not a bundle; `flow export RUN --bundle FILE` writes one
    it is not a bundle; `flow export RUN --bundle FILE` writes one
    it is not a bundle; `flow export RUN --bundle FILE` writes one
    it is incomplete or was changed; copy it again
    it is incomplete: 8 of 8 lines are there, without an end; copy it again
    it is incomplete: 7 of 8 lines are there, without an end; copy it again
    it is incomplete: 0 of 8 lines are there, without an end; copy it again
    it was changed: its digest does not match; copy it again
    its header says 8 lines, but it has 1
    it has format 9, and this flow reads format 4: use the flow that wrote it, or let flow 0.1.0 write it
    it has format 99999999999, and this flow reads format 4: use the flow that wrote it, or let flow 0.1.0 write it
    `\u{1b}[2J` is not a valid machine name
    `` is not a valid machine name
    line 3: it is not a part of a run: unknown variant `odd`, expected one of `ok`, `out_of_memory`, `timed_out`, `does_not_fit`, `failed`, `cancelled`, `skipped`
    `train[batch=32]` cannot have used -1
    `../w.yaml` is not the path of a file in it
    `/etc/w.yaml` is not the path of a file in it
    `a/.flow/format` is not the path of a file in it
    a file in it has no name
    `a/../../b` is not the path of a file in it
    `../../x` is not a valid run id
    the journal of run 20260208-153012-3f2a has no beginning
    ");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn no_cut_and_no_changed_byte_passes(at in any::<prop::sample::Index>(), byte in any::<u8>()) {
        let whole = bundle().bytes();
        let at = at.index(whole.len());
        prop_assert!(Bundle::read(&whole[..at]).is_err());
        let mut changed = whole.clone();
        changed[at] = byte;
        // Some bytes of gzip's header do not affect the content.
        prop_assert!(Bundle::read(&changed).is_ok_and(|read| read == bundle()) || Bundle::read(&changed).is_err());
    }
}
