//! Reasons from two fingerprints.

use serde_json::json;

use super::*;
use crate::fingerprint::tests::{Sample, sample};
use crate::fingerprint::{Part, PartValue, Parts, Tree};
use crate::{Body, Exclusive, Link, shell::Shell};

fn why(change: impl FnOnce(&mut Sample)) -> Vec<Reason> {
    let mut new = sample();
    change(&mut new);
    compare(&sample().parts(), &new.parts(), &mut |_| None)
}

fn value(kind: PartKind, name: &str, was: impl Into<Option<Value>>, is: impl Into<Option<Value>>) -> Reason {
    Reason::Value { kind, name: name.into(), was: was.into(), is: is.into() }
}

#[test]
fn each_change_is_one_reason() {
    let set = |name: &'static str, value: Value| move |s: &mut Sample| drop(s.with().insert(name.into(), value));
    assert_eq!(why(|_| {}), []);
    assert_eq!(why(set("batch", json!(32))), [value(PartKind::Parameter, "batch", json!(16), json!(32))]);
    assert_eq!(why(set("epochs", json!(4))), [value(PartKind::Parameter, "epochs", None, json!(4))]);
    assert_eq!(why(|s| drop(s.with().remove("lr"))), [value(PartKind::Parameter, "lr", json!(0.1), None)]);
    let flip = value(PartKind::Parameter, "aug.flip", json!(true), json!(false));
    assert_eq!(why(set("aug", json!({"flip": false}))), [flip]);
    assert_eq!(why(set("lr", Value::Null)), [value(PartKind::Parameter, "lr", json!(0.1), Value::Null)]);
    assert_eq!(why(|s| s.plugin = Some((Digest::of(b"x"), 1))), [Reason::PluginRebuilt("torch".into())]);
    assert_eq!(why(|s| s.instance.seed = 9), [value(PartKind::Seed, "", json!(8), json!(9))]);
    let threads = value(PartKind::Variable, "OMP_NUM_THREADS", json!("4"), json!("8"));
    assert_eq!(why(|s| drop(s.resolved.env.insert("OMP_NUM_THREADS".into(), "8".into()))), [threads]);
    let photos = Reason::Input("photos".into(), InputChange::Whole(FileChange::Changed));
    assert_eq!(why(|s| s.inputs[0].digest = Digest::of(b"x")), [photos]);
    assert_eq!(why(|s| s.instance.request.gpus = 2), [value(PartKind::Measured, "gpus", json!(1), json!(2))]);
    let mode = value(PartKind::Measured, "mode", json!("alone"), json!("plain"));
    assert_eq!(why(|s| s.instance.exclusive = Exclusive::No), [mode]);
    assert_eq!(why(|s| s.instance.measured = false), [Reason::Measurement(false)]);
    let patterns_and_input = why(|s| {
        s.metrics = json!({"csv": "metrics.jsonl"});
        s.inputs[0].digest = Digest::of(b"x");
    });
    let of_metrics: Vec<bool> = patterns_and_input.iter().map(Reason::is_of_metrics).collect();
    assert_eq!(of_metrics, [false, true, true], "new patterns are named last");
    let command = |s: &mut Sample| {
        s.resolved.body = Body::Command { line: "python train.py".into(), shell: Shell::Bash };
        s.plugin = None;
    };
    assert_eq!(why(command), [value(PartKind::Uses, "", json!("torch/train"), json!("command"))]);
    let is_kept = |reason: &Reason| super::compare::is_of_any_program(reason);
    let of = |kind, was: Option<Value>, is| Reason::Value { kind, name: "n".to_owned(), was, is };
    let input = |change| Reason::Input("train.py".to_owned(), change);
    assert!(is_kept(&of(PartKind::Variable, Some(json!(1)), Some(json!(2)))));
    assert!(!is_kept(&of(PartKind::Parameter, Some(json!(1)), Some(json!(2)))));
    assert!(!is_kept(&of(PartKind::Variable, None, Some(json!(2)))));
    assert!(is_kept(&input(InputChange::Whole(FileChange::Changed))));
    assert!(!is_kept(&input(InputChange::Whole(FileChange::Added))));
}

#[test]
fn an_environment_is_compared_by_its_packages() {
    let lists = |digest: &Digest| {
        let version = ["1.26", "2.0"].into_iter().find(|version| Digest::of(version.as_bytes()) == *digest)?;
        let packages = [("numpy".to_owned(), version.to_owned())].into();
        Some(ListContent::Packages(Python { version: Some("3.11".into()), abi: None, packages }))
    };
    let parts = |environment: Option<(&'static str, &str)>| {
        let environment = environment.map(|(name, list)| (name, Digest::of(list.as_bytes())));
        Sample { environment, ..sample() }.parts()
    };
    let why = |old, new| compare(&parts(old), &parts(new), &mut { lists });
    let of = |was: Option<&str>, is: Option<&str>, differences: Vec<Difference>| {
        let name = |name: Option<&str>| name.map(str::to_owned);
        [Reason::Environment { was: name(was), is: name(is), differences, more: 0 }]
    };
    let numpy = || vec![Difference::Package { name: "numpy".into(), was: Some("1.26".into()), is: Some("2.0".into()) }];
    let lab = Some("lab");
    assert_eq!(why(Some(("lab", "1.26")), Some(("lab", "2.0"))), of(lab, lab, numpy()));
    assert_eq!(why(Some(("lab", "1.26")), Some(("new", "2.0"))), of(lab, Some("new"), numpy()));
    assert_eq!(why(Some(("lab", "1.26")), Some(("new", "1.26"))), [], "the name does not count");
    assert_eq!(why(Some(("lab", "unknown")), Some(("lab", "2.0"))), of(lab, lab, vec![]));
    assert_eq!(why(None, Some(("lab", "2.0"))), of(None, lab, vec![]));
    assert_eq!(why(Some(("lab", "2.0")), None), of(lab, None, vec![]));
}

#[test]
fn a_changed_artifact_is_one_reason() {
    let rerun = |s: &mut Sample| {
        s.resolved.links = vec![Link { path: "in/dataset/v7".into(), digest: Digest::of(b"v8") }];
        s.with().insert("data".into(), json!(Digest::of(b"v8").to_string()));
    };
    assert_eq!(why(rerun), [Reason::Artifact("in/dataset/v7".into(), FileChange::Changed)]);
}

#[test]
fn outputs_are_compared_by_content_and_file_name() {
    let parts = |links: &[(&str, &[u8])]| {
        let mut sample = sample();
        let links = links.iter().map(|(path, content)| Link { path: (*path).into(), digest: Digest::of(content) });
        sample.resolved.links = links.collect();
        sample.parts()
    };
    let reasons = |old: &[(&str, &[u8])], new: &[(&str, &[u8])]| compare(&parts(old), &parts(new), &mut |_| None);
    let old: &[(&str, &[u8])] = &[("in/a/n=1/o", b"1"), ("in/a/n=2/o", b"2")];
    let artifact = |path: &str, change| Reason::Artifact(path.into(), change);
    let [first, second] = ["in/a/n=1/o", "in/a/n=2/o"].map(|path| artifact(path, FileChange::Changed));
    assert_eq!(reasons(old, &[("in/b/m=1/o", b"1"), ("in/b/m=2/o", b"2")]), []);
    assert_eq!(reasons(old, &[("in/a/n=1/o", b"2"), ("in/a/n=2/o", b"1")]), []);
    assert_eq!(reasons(old, &[("in/a/n=1/o", b"3"), ("in/a/n=2/o", b"1")]), [first, second]);
    let renamed = [artifact("in/a/n=1/p", FileChange::Added), artifact("in/a/n=1/o", FileChange::Removed)];
    assert_eq!(reasons(old, &[("in/a/n=1/p", b"1"), ("in/a/n=2/o", b"2")]), renamed);
}

#[test]
fn commands_show_paths_for_digests() {
    let command = |batch: u32, artifact: &[u8]| {
        let mut sample = sample();
        let digest = Digest::of(artifact);
        sample.resolved.body = Body::Command { line: format!("train {digest} --batch {batch}"), shell: Shell::Bash };
        sample.resolved.links = vec![Link { path: "in/dataset/v7".into(), digest }];
        sample.plugin = None;
        sample.parts()
    };
    let changed = || Reason::Artifact("in/dataset/v7".into(), FileChange::Changed);
    let line = |batch| json!(format!("train in/dataset/v7 --batch {batch}"));
    let reasons = compare(&command(16, b"v7"), &command(32, b"v8"), &mut |_| None);
    assert_eq!(reasons, [value(PartKind::Command, "", line(16), line(32)), changed()]);
    assert_eq!(compare(&command(16, b"v7"), &command(16, b"v8"), &mut |_| None), [changed()]);
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
    let why = |old: &str, new: &str| {
        let reasons = compare(&with(old), &with(new), &mut |digest| {
            [old, new].into_iter().find(|c| Digest::of(c.as_bytes()) == *digest).map(files).map(ListContent::Files)
        });
        RunReasons::of(&reasons).first
    };
    let (changed, added, removed) = (FileChange::Changed, FileChange::Added, FileChange::Removed);
    let differ = |named: &[(&str, FileChange)], more| {
        let named = named.iter().map(|(file, change)| ((*file).to_owned(), *change)).collect();
        [Reason::Input("photos".into(), InputChange::Files { named, more })]
    };
    assert_eq!(why("a1 b1 c1", "a1 b2 c1"), differ(&[("b", changed)], 0));
    assert_eq!(why("a1 b1", "a2 c1"), differ(&[("a", changed), ("b", removed), ("c", added)], 0));
    assert_eq!(why("a1", "a2 b1 c1 d1 e1"), differ(&[("a", changed), ("b", added), ("c", added)], 2));
    let reasons = compare(&with("a1"), &with("a2"), &mut |_| None);
    assert_eq!(reasons, [Reason::Input("photos".into(), InputChange::Whole(changed))]);
}

#[test]
fn a_group_of_more_members_is_named_beside_what_else_changed() {
    let group = |batches: &[u32]| {
        let mut members: Vec<Parts> = batches
            .iter()
            .map(|batch| {
                let mut sample = sample();
                sample.with().insert("batch".into(), json!(batch));
                sample.parts()
            })
            .collect();
        Parts::join(&mut members);
        members.remove(0)
    };
    let batch = value(PartKind::Parameter, "batch", json!(16), json!(32));
    assert_eq!(compare(&group(&[16, 64]), &group(&[32, 64, 128]), &mut |_| None), [batch, Reason::Group]);
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
    let why = |i: usize| compare(&old[i], &new[i], &mut |_| None);
    assert_eq!(why(0), [Reason::Group]);
    assert_eq!(why(1), [value(PartKind::Parameter, "batch", json!(32), json!(64))]);
}

#[test]
fn a_parameter_with_many_changed_parts_is_one_reason() {
    let part = |name: &str| Reason::Value {
        kind: PartKind::Parameter,
        name: name.to_owned(),
        was: Some(1.into()),
        is: Some(2.into()),
    };
    let names = ["sections[0].charts[0]", "sections[0].table", "title", "sections[1].table", "sections[2].table"];
    let reasons = names.map(part).to_vec();
    let RunReasons { first, more } = RunReasons::of(&reasons);
    assert_eq!((first, more), (vec![Reason::Seen(PartKind::Parameter, "sections".into()), part("title")], 0));
    assert_eq!(RunReasons::of(&reasons[..4]).first.len(), 4);
}

#[test]
fn the_journal_has_a_few_reasons_and_long_values_where_they_differ() {
    let reasons: Vec<Reason> = (0..10).map(|n| Reason::PluginRebuilt(n.to_string())).collect();
    let why = RunReasons::of(&reasons);
    assert_eq!((why.first.as_slice(), why.more), (&reasons[..8], 2));
    let long = |word: &str| json!(format!("{} {word} {}", "x ".repeat(40), "y ".repeat(40)));
    let differ = value(PartKind::Command, "", json!("… x x one y y …"), json!("… x x two y y …"));
    let brief = value(PartKind::Command, "", long("one"), long("two")).brief();
    assert_eq!((&brief, &brief.clone().brief()), (&differ, &differ));
    let word = |end: &str| json!(format!("{}{end}", "x".repeat(200)));
    let Reason::Value { was: Some(was), is: Some(is), .. } = value(PartKind::Command, "", word("1"), word("2")).brief()
    else {
        panic!("a value");
    };
    assert_eq!((was, is), (json!(format!("…{}1", "x".repeat(15))), json!(format!("…{}2", "x".repeat(15)))));
    let json = serde_json::to_string(&why).unwrap();
    assert_eq!(serde_json::from_str::<RunReasons>(&json).unwrap(), why);
}

#[test]
fn of_a_long_setting_the_only_part_that_differs_is_named() {
    let sections = |title: &str, note: &str| json!([{"table": "t", "title": "x".repeat(60)}, {"table": "u", "title": title, "note": note}]);
    let brief = |was, is| value(PartKind::Parameter, "sections", was, is).brief();
    let one = brief(sections("a", "n"), sections("b", "n"));
    assert_eq!(one, value(PartKind::Parameter, "sections[1].title", json!("a"), json!("b")));
    let several = brief(sections("a", "n"), sections("b", "m"));
    let [was, is] = [("a", "n"), ("b", "m")].map(|(title, note)| sections(title, note)[1].clone());
    assert_eq!(several, value(PartKind::Parameter, "sections[1]", was, is));
    let short = value(PartKind::Parameter, "opt", json!({"lr": 1}), json!({"lr": 2}));
    assert_eq!(short.clone().brief(), short);
}

/// A table's input: results by label, and their content.
fn table(results: &[(&str, &str)]) -> Parts {
    let part = |(label, content): &(&str, &str)| Part {
        kind: PartKind::Result,
        name: (*label).to_owned(),
        value: PartValue::Digest(Digest::of(content.as_bytes())),
    };
    Parts { base: results.iter().map(part).collect(), group: None }
}

#[test]
fn results_that_a_table_sees_say_what_is_true_of_them() {
    let said = |text: &str| Reason::Text(text.to_owned());
    let results = |of: &str, change, count| Reason::Results { of: of.to_owned(), change, count };
    let (changed, added, removed) = (FileChange::Changed, FileChange::Added, FileChange::Removed);
    let old = [("t[a=1,b=x]", "1"), ("t[a=2,b=x]", "2"), ("u", "u")];
    /// The present input, the accepted labels, and the reasons.
    type Case<'a> = (&'a [(&'a str, &'a str)], &'a [&'a str], Vec<Reason>);
    let cases: [Case<'_>; 7] = [
        (&[("t[a=1,b=x]", "1'"), ("t[a=2,b=x]", "2"), ("u", "u")], &[], vec![results("t[a=1,b=x]", changed, 1)]),
        (
            &[("t[b=x,a=1]", "1'"), ("t[b=x,a=2]", "2'"), ("u", "u")],
            &[],
            vec![said("the axes of t are in another order")],
        ),
        (
            &[("t[b=x,a=1]", "1'"), ("t[b=x,a=3]", "2'"), ("u", "u")],
            &[],
            vec![results("t", removed, 2), results("t", added, 2)],
        ),
        (
            &[("t[a=1,b=x]", "1'"), ("t[a=2,b=x]", "2'"), ("u", "u")],
            &["t[a=1,b=x]", "t[a=2,b=x]"],
            vec![said("2 results of t were accepted")],
        ),
        (&[("t[a=1,b=x]", "1'"), ("t[a=2,b=x]", "2'"), ("u", "u")], &["t[a=1,b=x]"], vec![results("t", changed, 2)]),
        (&[("t[a=1,b=x]", "1"), ("t[a=2,b=x]", "2"), ("u", "v")], &["u"], vec![said("the result of u was accepted")]),
        (&[("t[a=1,b=x]", "1"), ("u", "u")], &[], vec![results("t[a=2,b=x]", removed, 1)]),
    ];
    for (new, accepted, expected) in cases {
        let (old, new) = (table(&old), table(new));
        let mut reasons = compare(&old, &new, &mut |_| None);
        let accepted = accepted.iter().map(|label| (*label).to_owned()).collect();
        name_accepted(&mut reasons, &old, &new, &accepted);
        assert_eq!(reasons, expected);
    }
}

#[test]
fn the_command_as_it_ran_has_paths_and_the_variables_are_those_of_the_workflow() {
    let mut sample = sample();
    let digest = Digest::of(b"v7");
    sample.resolved.body = Body::Command { line: format!("train {digest} --epochs 5"), shell: Shell::Bash };
    sample.resolved.links = vec![Link { path: "in/dataset/v7".into(), digest }];
    sample.resolved.env = [("SCALE".to_owned(), "1".to_owned()), ("DATA".to_owned(), digest.to_string())].into();
    sample.plugin = None;
    let (command, env) = as_run(&sample.parts());
    assert_eq!(command.as_deref(), Some("train in/dataset/v7 --epochs 5"));
    assert_eq!(env, [("DATA".into(), "in/dataset/v7".into()), ("SCALE".into(), "1".into())].into());
    sample.resolved.body = Body::Command { line: "x".repeat(2_000), shell: Shell::Bash };
    assert_eq!(as_run(&sample.parts()).0, None, "too long to keep");
}
