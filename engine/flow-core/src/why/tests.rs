//! The reasons that two fingerprints give, and their words.

use serde_json::json;

use super::*;
use crate::fingerprint::tests::{Sample, sample};
use crate::fingerprint::{Parts, Tree};
use crate::{Body, Exclusive, Link};

fn why(change: impl FnOnce(&mut Sample)) -> String {
    let mut new = sample();
    change(&mut new);
    let reasons = compare(&sample().parts(), &new.parts(), &mut |_| None);
    reasons.iter().map(in_words).collect::<Vec<_>>().join("\n")
}

#[test]
fn the_words() {
    let set = |name: &'static str, value: Value| move |s: &mut Sample| drop(s.with().insert(name.into(), value));
    assert_eq!(why(|_| {}), "");
    assert_eq!(why(set("batch", json!(32))), "`batch` was 16, is 32");
    assert_eq!(why(set("epochs", json!(4))), "`epochs` is new: 4");
    assert_eq!(why(|s| drop(s.with().remove("lr"))), "`lr` was 0.1, is gone");
    assert_eq!(why(set("aug", json!({"flip": false}))), "`aug.flip` was true, is false");
    assert_eq!(why(set("lr", json!("a b"))), "`lr` was 0.1, is `a b`");
    assert_eq!(why(set("lr", Value::Null)), "`lr` was 0.1, is none");
    assert_eq!(why(|s| s.plugin = Some((Digest::of(b"x"), 1))), "plugin torch was rebuilt");
    assert_eq!(why(|s| s.instance.seed = 9), "the seed was 8, is 9");
    assert_eq!(
        why(|s| drop(s.resolved.env.insert("OMP_NUM_THREADS".into(), "8".into()))),
        "the variable `OMP_NUM_THREADS` was 4, is 8"
    );
    assert_eq!(why(|s| s.inputs[0].digest = Digest::of(b"x")), "input `photos` changed");
    assert_eq!(why(|s| s.instance.request.gpus = 2), "it measures now on 2 GPUs, was on 1");
    assert_eq!(why(|s| s.machine.cpu_model = "Xeon".into()), "it measures now on Xeon, was on `AMD EPYC 7571`");
    assert_eq!(why(|s| s.instance.exclusive = Exclusive::No), "it measures now plain, was alone");
    assert_eq!(why(|s| s.instance.measured = false), "it is no measurement any more");
    assert_eq!(why(|s| s.metrics = Value::Null), "`metrics.jsonl` was metrics.jsonl, is gone");
    assert_eq!(
        why(|s| {
            s.resolved.body = Body::Command("python train.py".into());
            s.plugin = None;
        }),
        "it used torch/train, uses command"
    );
}

#[test]
fn a_changed_artifact_is_one_reason() {
    let rerun = |s: &mut Sample| {
        s.resolved.links = vec![Link { path: "in/dataset".into(), digest: Digest::of(b"v8") }];
        s.with().insert("data".into(), json!(Digest::of(b"v8").to_string()));
    };
    assert_eq!(why(rerun), "the output of `dataset` changed");
}

#[test]
fn commands_show_paths_for_digests() {
    let command = |batch: u32, artifact: &[u8]| {
        let mut sample = sample();
        let digest = Digest::of(artifact);
        sample.resolved.body = Body::Command(format!("train {digest} --batch {batch}"));
        sample.resolved.links = vec![Link { path: "in/dataset".into(), digest }];
        sample.plugin = None;
        sample.parts()
    };
    let reasons = compare(&command(16, b"v7"), &command(32, b"v8"), &mut |_| None);
    assert_eq!(
        sentence(&reasons),
        "the command was `train in/dataset --batch 16`, is `train in/dataset --batch 32`; the output of `dataset` changed"
    );
    let reasons = compare(&command(16, b"v7"), &command(16, b"v8"), &mut |_| None);
    assert_eq!(sentence(&reasons), "the output of `dataset` changed");
}

#[test]
fn changed_files_are_named() {
    let with = |content: &str| {
        let mut sample = sample();
        let tree = Digest::of(content.as_bytes());
        sample.inputs = vec![Tree { digest: tree, manifest: Some(tree) }];
        sample.parts()
    };
    let files = |content: &str| -> Files {
        content.split_whitespace().map(|file| (file[..1].to_owned(), Digest::of(file.as_bytes()))).collect()
    };
    let words = |old: &str, new: &str| {
        let reasons = compare(&with(old), &with(new), &mut |digest| {
            [old, new].into_iter().find(|c| Digest::of(c.as_bytes()) == *digest).map(files)
        });
        sentence(&reasons)
    };
    assert_eq!(words("a1 b1 c1", "a1 b2 c1"), "input `photos/b` changed");
    assert_eq!(words("a1 b1", "a2 c1"), "input `photos/a` changed, input `photos/b` is gone, input `photos/c` is new");
    assert_eq!(
        words("a1", "a2 b1 c1 d1 e1"),
        "input `photos/a` changed, input `photos/b` is new, input `photos/c` is new and 2 more of its files"
    );
    let reasons = compare(&with("a1"), &with("a2"), &mut |_| None);
    assert_eq!(sentence(&reasons), "input `photos` changed");
}

#[test]
fn another_member_changes_the_group() {
    let group = |batches: [u32; 2]| {
        let mut members = batches.map(|batch| {
            let mut sample = sample();
            sample.with().insert("batch".into(), json!(batch));
            sample.parts()
        });
        Parts::join(&mut members);
        members
    };
    let (old, new) = (group([16, 32]), group([16, 64]));
    let words = |i: usize| sentence(&compare(&old[i], &new[i], &mut |_| None));
    assert_eq!(words(0), "its co-run group has other members");
    assert_eq!(words(1), "`batch` was 32, is 64");
}

#[test]
fn many_reasons_are_counted() {
    let reasons: Vec<Reason> = ["a", "b", "c", "d", "e"].map(|p| Reason::PluginRebuilt(p.into())).into();
    assert_eq!(sentence(&reasons), "plugin a was rebuilt; plugin b was rebuilt; plugin c was rebuilt; 2 more reasons");
}

#[test]
fn unfit_results_say_why() {
    let words = |unfit| in_words(&Reason::NotReusable(unfit));
    insta::assert_snapshot!(words(Unfit::Outcome(Outcome::Failed)), @"its last attempt failed");
    insta::assert_snapshot!(words(Unfit::NotRecorded(Outcome::TimedOut)), @"its last attempt timed out, which it does not record");
    insta::assert_snapshot!(
        words(Unfit::LongerLimit { was: Some(Span::from_millis(10_000)), is: Some(Span::from_millis(60_000)) }),
        @"it timed out after 10s, the limit is 1m now"
    );
    insta::assert_snapshot!(words(Unfit::HostMemory), @"it was killed for want of host memory, which others use as well");
    insta::assert_snapshot!(words(Unfit::NotAlone(vec!["python".into()])), @"it ran out of memory beside python");
}
