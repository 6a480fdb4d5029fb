//! What a bundle says, what it keeps to itself, and what is refused.

use proptest::prelude::*;
use serde_json::json;

use super::*;
use crate::{GpuFacts, GpuUsage, Stranger};

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
    result.circumstances.strangers = vec![Stranger { pid: 4711, name, gpu, memory: 5 }];
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
    text.replace("/home/kim/", "…/")
}

fn bundle() -> Bundle {
    let skipped = StepResult { outcome: Outcome::Skipped, ..result("b") };
    Bundle::of(origin(), [result("train[batch=16]"), skipped, result("train[batch=32]")], &hide)
}

/// Bytes whose digest is right, whatever they say.
fn sealed(content: &str) -> Vec<u8> {
    let mut bytes = content.as_bytes().to_vec();
    let digest = Digest::of(&bytes);
    line(&mut bytes, &End { digest });
    bytes
}

#[test]
fn what_was_written_is_read_and_nothing_of_the_machine_but_what_it_is() {
    let bundle = bundle();
    let bytes = bundle.bytes();
    assert_eq!(Bundle::read(&bytes).as_ref(), Ok(&bundle));
    let [first, second] = bundle.results.as_slice() else { panic!("{bundle:?}") };
    assert_eq!((&*first.label, first.metrics["epoch_time"].value), ("train[batch=16]", 1.25));
    assert_eq!((&*second.label, &second.params["photos"]), ("train[batch=32]", &json!("…/pets")));
    assert_eq!(first.axes.keys().collect::<Vec<_>>(), ["version", "batch"], "as declared");
    assert_eq!(first.usage.gpus[0].memory_peak, Some(9));
    assert_eq!(machine_of(first, Some("lab4")), "NVIDIA H200 (lab4)");
    let text = String::from_utf8(bytes).unwrap();
    for private in ["GPU-77aa", "kims-secret-tool", "4711", "/home/kim", "out/m"] {
        assert!(!text.contains(private), "{private}: {text}");
    }
}

#[test]
fn what_is_no_bundle_is_told_in_words() {
    let read = |bytes: &[u8]| Bundle::read(bytes).unwrap_err();
    let whole = bundle().bytes();
    let text = String::from_utf8(whole.clone()).unwrap();
    let content = &text[..text.trim_end().rfind('\n').unwrap() + 1];
    let other = |from: &str, to: &str| read(&sealed(&content.replacen(from, to, 1)));
    let lines: Vec<&str> = content.split_inclusive('\n').collect();
    let told = [
        read(b""),
        read(b"\x00\xff"),
        read(b"{\"a\": 1}\n"),
        read(&whole[..whole.len() - 20]),
        read(content.as_bytes()),
        read(lines[0].as_bytes()),
        read(text.replace("1.25", "1.26").as_bytes()),
        read(&sealed(&lines[..2].concat())),
        other("\"flow_bundle\":2", "\"flow_bundle\":9"),
        other("\"lab4\"", "\"\\u001b[2J\""),
        other("\"lab4\"", "\"\""),
        other("\"outcome\":\"ok\"", "\"outcome\":\"odd\""),
        other("\"usage\":{", "\"usage\":{\"wall_s\":-1.0,"),
        other("\"label\":\"train[batch=16]\"", &format!("\"label\":\"{}\"", "x".repeat(LONGEST_LINE))),
    ];
    insta::assert_snapshot!(told.join("\n"), @r"
    it is no bundle; `flow export RUN --bundle FILE` writes one
    it is no bundle; `flow export RUN --bundle FILE` writes one
    it is no bundle; `flow export RUN --bundle FILE` writes one
    it has not come whole: of 2 results 2 are there, and no end; copy it again
    it has not come whole: of 2 results 1 are there, and no end; copy it again
    it has not come whole: of 2 results 0 are there, and no end; copy it again
    it is not as it was written: its digest is another one; copy it again
    it says that it has 2 results, and has 1
    it has format 9, and this flow knows format 2: take the flow that wrote it, or have it written by flow 0.1.0
    `\u{1b}[2J` is no name of a machine
    `` is no name of a machine
    line 2: it is no result: unknown variant `odd`, expected one of `ok`, `out_of_memory`, `timed_out`, `does_not_fit`, `failed`, `cancelled`, `skipped` at line 1 column 188
    line 2: `train[batch=16]` cannot have used -1
    line 2: it is longer than 1024 KiB
    ");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn no_cut_and_no_changed_byte_passes(at in any::<prop::sample::Index>(), byte in any::<u8>()) {
        let whole = bundle().bytes();
        let at = at.index(whole.len());
        prop_assert!(Bundle::read(&whole[..at]).is_err() || at + 1 == whole.len());
        let mut changed = whole.clone();
        changed[at] = byte;
        // The last line's end may be anything that JSON passes over.
        prop_assert!(changed == whole || at + 1 == whole.len() || Bundle::read(&changed).is_err());
    }
}
