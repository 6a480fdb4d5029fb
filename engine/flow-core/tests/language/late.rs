//! Bodies of instances, once what they need has ended.

use std::collections::BTreeMap;

use flow_core::{
    Artifact, ArtifactKind, Body, Digest, Expansion, InstanceId, Metric, Outcome, Render, ResolvedInstance, StepResult,
    plan::without_attempt,
};
use indexmap::IndexMap;
use serde_json::json;

use super::{expand, steps};

type Results = BTreeMap<InstanceId, StepResult>;

fn id(e: &Expansion, label: &str) -> InstanceId {
    e.instances.iter().find(|i| *i.label == *label).unwrap_or_else(|| panic!("no {label}")).id
}

/// Every instance has ended well: its outputs have digests of their labels, and `top1` is its number.
pub(super) fn ended(e: &Expansion) -> Results {
    let result = |instance: &flow_core::Instance| {
        let artifact = |name: &str| Artifact {
            digest: Digest::of(format!("{}{name}", instance.label).as_bytes()),
            kind: ArtifactKind::File,
            bytes: 1,
            files: 1,
        };
        let metric = Metric {
            value: f64::from(instance.id.0) / 10.0,
            unit: String::new(),
            epochs: None,
            sd: None,
            values: vec![],
        };
        StepResult {
            caveats: vec![],
            outcome: Outcome::Ok,
            outputs: instance.outputs.iter().map(|o| (o.name.clone(), artifact(&o.name))).collect::<IndexMap<_, _>>(),
            metrics: BTreeMap::from([("top1".to_owned(), metric)]),
            ..without_attempt(e, instance.id, Outcome::Ok, None, &flow_core::RunId(String::new()), 0)
        }
    };
    e.instances.iter().map(|i| (i.id, result(i))).collect()
}

fn resolve(e: &Expansion, label: &str, settled: &Results) -> Result<ResolvedInstance, String> {
    e.resolve(id(e, label), settled, Render::Paths).map_err(|error| error.to_string())
}

fn command(e: &Expansion, label: &str) -> (String, Vec<String>) {
    let resolved = resolve(e, label, &ended(e)).unwrap_or_else(|error| panic!("{error}"));
    let links = resolved.links.into_iter().map(|l| l.path).collect();
    match resolved.body {
        Body::Command { line, .. } => (line, links),
        other => panic!("no command: {other:?}"),
    }
}

#[test]
fn commands() {
    let e = expand(&steps(
        &r#"
  data: {matrix: {v: [7, 11]}, run: x, outputs: [o], metrics: {json: m.json}}
  two: {run: x, outputs: {model: m, log: l}}
  text:
    matrix: {lr: [0.001, 1.0], name: ["it's", plain], on: [true]}
    run: train --lr ${{ lr }} --name ${{ name | sh }} --on=${{ on }} --list ${{ sizes }}
  one: {matrix: {v: [7]}, run: "use ${{ steps.data.out }} at ${{ steps.data.metrics.top1 }}"}
  named: {run: "${{ steps.two.outputs.model }} ${{ steps.two.outcome }}"}
  several: {run: "${{ steps.data | map(attribute='out') | sh }}"}
  narrowed: {run: "${{ (steps.data | where(v=11)).out }}"}
  pair: {repeat: 1, run: x, outputs: [train.bin, ./out//train.pkl, log.txt]}
  twins: {run: "${{ steps.pair.outputs.train_bin }} ${{ steps.pair.outputs.out_train_pkl }} ${{ steps.pair.outputs.log }}"}
  odd: {matrix: {name: ["it's", "a/b c", "é", "1"]}, run: x, outputs: ["${{ name | length }}.txt"]}
  odds: {run: "${{ steps.odd | map(attribute='out') | join(' ') }}"}
  long: {matrix: {a: [XX], b: [XX], c: [éé]}, run: x, outputs: [o/x.gz]}
  short: {run: "${{ steps.long.out }}"}
  best: {run: "${{ (steps.data | sort(attribute='metrics.top1') | last).axes.v }} of ${{ steps.data | length }}"}
  numbers: {run: "${{ steps.data | map(attribute='metrics.top1') | max }}"}
  files: {run: "cat ${{ inputs.digits }}", inputs: {digits: ../data/d.csv, more: ./sub/x}}
  seeded: {repeat: 2, seed: 5, run: "x ${{ seed }}"}
  sized: {run: "${{ 3 * MiB }} ${{ {'a': {'b': 1}}.a.b }}"}
"#
        .replace("XX", &"x".repeat(60))
        .replace("éé", &"é".repeat(60)),
    ));
    for (label, expected, links) in [
        ("text[lr=0.001,name=\"it's\",on=true]", r#"train --lr 0.001 --name "it's" --on=true --list [1,2]"#, vec![]),
        ("text[lr=1,name=plain,on=true]", "train --lr 1 --name plain --on=true --list [1,2]", vec![]),
        ("one[v=7]", "use in/data/v=7/o at 0", vec!["in/data/v=7/o"]),
        ("named", "in/two/m ok", vec!["in/two/m"]),
        ("several", "'in/data/v=7/o' 'in/data/v=11/o'", vec!["in/data/v=11/o", "in/data/v=7/o"]),
        ("narrowed", "in/data/v=11/o", vec!["in/data/v=11/o"]),
        (
            "twins",
            "in/pair/repetition=0/train.bin in/pair/repetition=0/out/train.pkl in/pair/repetition=0/log.txt",
            vec![
                "in/pair/repetition=0/log.txt",
                "in/pair/repetition=0/out/train.pkl",
                "in/pair/repetition=0/train.bin",
            ],
        ),
        (
            "odds",
            "in/odd/name=%22it%27s%22/4.txt in/odd/name=%22a%2Fb%20c%22/5.txt in/odd/name=é/1.txt in/odd/name=%221%22/1.txt",
            vec![
                "in/odd/name=%221%22/1.txt",
                "in/odd/name=%22a%2Fb%20c%22/5.txt",
                "in/odd/name=%22it%27s%22/4.txt",
                "in/odd/name=é/1.txt",
            ],
        ),
        ("best", "11 of 2", vec![]),
        ("numbers", "0.1", vec![]),
        ("files", "cat data/d.csv", vec![]),
        ("seeded[repetition=0]", "x 5", vec![]),
        ("seeded[repetition=1]", "x 6", vec![]),
        ("sized", "3145728 1", vec![]),
    ] {
        let (text, linked) = command(&e, label);
        assert_eq!((text.as_str(), linked), (expected, links.into_iter().map(str::to_owned).collect()), "{label}");
    }
    let axes = format!("a={0},b={0},c={1}", "x".repeat(60), "é".repeat(60));
    assert_eq!(command(&e, "short").0, format!("in/long/{}/o/x.gz", Digest::of(axes.as_bytes()).short()));
}

#[test]
fn an_output_is_put_where_inputs_say() {
    let e = expand(&steps(
        r#"
  prepare: {run: x, outputs: [data/train.bin, data/train.pkl]}
  point: {matrix: {v: [1, 2]}, run: x, outputs: [o.csv]}
  train:
    matrix: {v: [2]}
    run: python train.py --points ${{ inputs.points }}
    inputs:
      script: train.py
      data/x/train.bin: "${{ steps.prepare.outputs.data_train_bin }}"
      ./meta/: "${{ steps.prepare.outputs.data_train_pkl }}"
      points: "${{ steps.point.out }}"
  list: {run: x, inputs: {all: "${{ steps.point | first }}"}}
  text: {run: x, inputs: {all: "${{ steps.prepare.outcome | upper }}"}}
"#,
    ));
    let (line, links) = command(&e, "train[v=2]");
    assert_eq!(line, "python train.py --points points");
    assert_eq!(links, ["data/x/train.bin", "meta", "points"]);
    let train = &e.instances[id(&e, "train[v=2]").index()];
    assert_eq!(train.inputs.iter().map(|input| &*input.path).collect::<Vec<_>>(), ["train.py"]);
    assert_eq!(train.needs.iter().map(|need| need.on).collect::<Vec<_>>(), [id(&e, "prepare"), id(&e, "point[v=2]")]);
    for label in ["list", "text"] {
        let error = resolve(&e, label, &ended(&e)).expect_err(label);
        assert!(error.ends_with("`all` under `inputs` is not one output of a step"), "{error}");
    }
}

#[test]
fn parameters_of_plugins() {
    let e = expand(&steps(
        r#"
  source: {uses: images/source, with: {folder: ./photos, count: 3}}
  dataset: {uses: images/prepare, with: {photos: "${{ steps.source.out }}", version: v7}}
  train: {uses: torch/train, with: {data: "${{ steps.dataset.out }}", model: "${{ model }}"}, env: {A: "${{ steps.source.outcome }}"}}
"#,
    ));
    let settled = ended(&e);
    let with = |label: &str, render| match e.resolve(id(&e, label), &settled, render).expect("a body").body {
        Body::Plugin { with, .. } => json!(with),
        other => panic!("{other:?}"),
    };
    // A path is read in place, and counts by its content, which is hashed as an input.
    assert_eq!(
        with("source", Render::Paths),
        json!({"folder": "/lab/workflows/photos", "count": 3, "classes": 10, "seed": null})
    );
    assert_eq!(with("source", Render::Digests)["folder"], "input with.folder");
    let input = &e.instances[id(&e, "source").index()].inputs[0];
    assert_eq!((input.name.as_deref(), &*input.path, input.in_place), (Some("with.folder"), "./photos", true));
    // An artifact is a link, and counts by its digest.
    assert_eq!(with("dataset", Render::Paths), json!({"photos": "in/source/out/photos", "version": "v7", "size": 224}));
    assert_eq!(with("dataset", Render::Digests)["photos"], Digest::of(b"sourceout").to_string());
    assert!(e.instances[id(&e, "dataset").index()].inputs.is_empty());
    let train = e.resolve(id(&e, "train"), &settled, Render::Paths).expect("a body");
    assert_eq!(train.env["A"], "ok");
    assert_eq!(train.links.len(), 1);
}

/// What decides may be known before anything runs, and a path may be known only then: in either case its content counts.
#[test]
fn a_path_is_an_input_whenever_it_is_known() {
    let e = expand(&steps(
        r#"
  first: {uses: images/source, with: {count: 3}}
  judge: {run: x, metrics: {json: m.json}}
  dataset: {uses: images/prepare, with: {photos: "${{ photos if photos else steps.first.out }}", version: v7}}
  each:
    matrix: {own: [true, false]}
    uses: images/prepare
    with: {photos: "${{ steps.first.out if not own else './mine' }}", version: v7}
  late: {uses: images/prepare, with: {photos: "${{ '../other' if steps.judge.metrics.top1 < 1 else steps.first.out }}", version: v7}}
  inside: {uses: images/prepare, with: {photos: "${{ steps.first.out }}/cats", version: v7}}
  named: {uses: images/prepare, with: {photos: "${{ inputs.mine }}", version: v7}, inputs: {mine: ./some/mine}}
  placed: {uses: images/prepare, with: {photos: "${{ inputs.mine }}", version: v7}, inputs: {mine: "${{ steps.first.out }}"}}
"#,
    )
    .replace("photos: null", "photos: ./own"));
    let settled = ended(&e);
    let of = |label: &str, render| {
        let resolved = e.resolve(id(&e, label), &settled, render).expect("a body");
        let photos = match &resolved.body {
            Body::Plugin { with, .. } => with["photos"].as_str().expect("a text").to_owned(),
            other => panic!("{other:?}"),
        };
        (photos, resolved.inputs.iter().map(|input| input.path.clone()).collect::<Vec<_>>())
    };
    let planned = |label: &str| -> Vec<&str> {
        e.instances[id(&e, label).index()].inputs.iter().filter(|i| i.in_place).map(|i| &*i.path).collect()
    };
    for (label, early, late, path) in [
        ("dataset", vec!["./own"], vec![], "/lab/workflows/own"),
        ("each[own=true]", vec!["./mine"], vec![], "/lab/workflows/mine"),
        ("each[own=false]", vec![], vec![], "in/first/out/photos"),
        ("late", vec![], vec!["../other"], "/lab/other"),
        ("inside", vec![], vec![], "in/first/out/photos/cats"),
        ("named", vec![], vec![], "some/mine"),
        ("placed", vec![], vec![], "mine"),
    ] {
        assert_eq!(planned(label), early, "{label}");
        assert_eq!(
            of(label, Render::Paths),
            (path.to_owned(), late.iter().map(ToString::to_string).collect()),
            "{label}"
        );
        let by_content = early.len() + late.len() > 0;
        assert_eq!(of(label, Render::Digests).0 == "input with.photos", by_content, "{label}");
    }
    let may_be_late = |label: &str| e.steps[e.instances[id(&e, label).index()].step.index()].has_late_inputs;
    assert!(may_be_late("late"));
    assert!(["first", "dataset", "inside", "named", "placed"].iter().all(|label| !may_be_late(label)));
}

#[test]
fn what_is_too_large_for_an_artifact_is_said_when_that_is_known() {
    let e = expand(&steps(
        r#"
  dataset: {uses: images/prepare, with: {photos: ./p, version: v7}}
  train: {matrix: {batch: [48, 60, 61]}, uses: torch/train, with: {data: "${{ steps.dataset.out }}", batch: "${{ batch }}"}}
  own: {uses: torch/train, with: {data: ./d, batch: 99}}
  part: {uses: torch/train, with: {data: "${{ steps.dataset.out }}", batch: 64, valid: 0.2}}
"#,
    ));
    let mut settled = ended(&e);
    let told = |settled: &Results, label: &str| {
        e.resolve(id(&e, label), settled, Render::Digests).map(|_| ()).map_err(|error| error.to_string())
    };
    let labels = ["train[batch=48]", "train[batch=60]", "train[batch=61]", "own"];
    assert_eq!(
        labels.map(|label| told(&settled, label)),
        [const { Ok(()) }; 4],
        "nobody told how many images there are"
    );
    let dataset = settled.get_mut(&id(&e, "dataset")).expect("a result");
    let images = Metric { value: 60.0, ..dataset.metrics["top1"].clone() };
    dataset.metrics.insert("images".to_owned(), images);
    assert_eq!(["train[batch=48]", "train[batch=60]", "own"].map(|label| told(&settled, label)), [const { Ok(()) }; 3]);
    insta::assert_snapshot!(told(&settled, "part").expect_err("too large"), @"`part` (test.yaml:9:29): `batch` of `torch/train` is 64, more than the 60 images of `data`, of which `valid: 0.2` leaves about 48: take that or less");
    insta::assert_snapshot!(told(&settled, "train[batch=61]").expect_err("too large"), @"`train[batch=61]` (test.yaml:7:61): `batch` of `torch/train` is 61, more than the 60 images of `data`: take a smaller one");
}

#[test]
fn what_cannot_be_compared_is_never_the_best() {
    let e = expand(&steps(
        r#"
  data: {matrix: {v: [7, 11]}, run: x, outputs: [o], metrics: {json: m.json}}
  last: {run: "${{ (steps.data | sort(attribute='metrics.top1') | last).axes.v }}"}
  first: {run: "${{ (steps.data | sort(attribute='metrics.top1') | first).axes.v }}"}
  most: {run: "${{ (steps.data | max(attribute='metrics.top1')).axes.v }}"}
  typo: {run: "${{ (steps.data | sort(attribute='metric.top1') | last).axes.v }}"}
"#,
    ));
    let mut settled = ended(&e);
    let told = |settled: &Results, label: &str| match resolve(&e, label, settled) {
        Ok(ResolvedInstance { body: Body::Command { line, .. }, .. }) => line,
        Ok(other) => panic!("{:?}", other.body),
        Err(error) => error,
    };
    assert_eq!(["first", "last", "most"].map(|label| told(&settled, label)), ["7", "11", "11"]);
    // The largest diverged, and later it has no such number.
    let diverged = id(&e, "data[v=11]");
    settled.get_mut(&diverged).unwrap().metrics.get_mut("top1").unwrap().value = f64::NAN;
    assert_eq!(["first", "last", "most"].map(|label| told(&settled, label)), ["7", "7", "7"]);
    settled.get_mut(&diverged).unwrap().metrics.clear();
    assert_eq!(["first", "last", "most"].map(|label| told(&settled, label)), ["7", "7", "7"]);
    settled.get_mut(&id(&e, "data[v=7]")).unwrap().metrics.clear();
    insta::assert_snapshot!(told(&settled, "last"), @"`last` reads `(steps.data | sort(attribute='metrics.top1') | last).axes.v` (test.yaml:7:20): nothing in the list has a value `metrics.top1` that can be compared");
    insta::assert_snapshot!(told(&settled, "typo"), @"`typo` reads `(steps.data | sort(attribute='metric.top1') | last).axes.v` (test.yaml:10:20): nothing in the list has a value `metric.top1` that can be compared");
}

#[test]
fn what_is_not_there_is_said() {
    let e = expand(&steps(
        r#"
  data: {matrix: {v: [7, 11]}, run: x, outputs: [o], metrics: {json: m.json}}
  one: {matrix: {v: [7]}, run: "use ${{ steps.data.out }}"}
  metric: {matrix: {v: [7]}, run: "use ${{ steps.data.metrics.top }}"}
  list: {run: "${{ (steps.data | where(v=12)).out }}"}
  axis: {run: "${{ steps.data | where(w=12) | length }}"}
  first: {run: "${{ (steps.data | first).out }} ${{ steps.data | map(attribute='outcome') | join('+') }}"}
  late: {uses: torch/train, with: {data: x, batch: "${{ (steps.data | first).metrics.top1 }}"}}
"#,
    ));
    let mut settled = ended(&e);
    let failed = id(&e, "data[v=7]");
    let said = |settled: &Results, label: &str| resolve(&e, label, settled).expect_err(label);
    insta::assert_snapshot!(said(&settled, "metric[v=7]"), @r#"`metric[v=7]` reads `steps.data.metrics.top` (test.yaml:8:44): `data[v=7]` has no metric `top`; did you mean `top1`?"#);
    insta::assert_snapshot!(said(&settled, "list"), @r#"`list` reads `(steps.data | where(v=12)).out` (test.yaml:9:20): no instance of `data` is left to take `.out` of"#);
    insta::assert_snapshot!(said(&settled, "axis"), @r#"`axis` reads `steps.data | where(w=12) | length` (test.yaml:10:20): nothing in the list has an axis `w`; there is v"#);
    insta::assert_snapshot!(said(&settled, "late"), @r#"`late` (test.yaml:12:29): `batch` of `torch/train`: 0 is less than the minimum of 1"#);
    settled
        .insert(failed, without_attempt(&e, failed, Outcome::OutOfMemory, None, &flow_core::RunId(String::new()), 0));
    insta::assert_snapshot!(said(&settled, "one[v=7]"), @r#"`one[v=7]` reads `steps.data.out` (test.yaml:7:41): `data[v=7]` ended as out_of_memory: it has no output"#);
    settled.remove(&failed);
    insta::assert_snapshot!(said(&settled, "first"), @r#"`first` reads `(steps.data | first).out` (test.yaml:11:21): `data[v=7]` ended as skipped: it has no output"#);
}

#[test]
fn what_a_report_sees() {
    let e = expand(&steps(
        r#"
  data: {matrix: {v: [7, 11]}, run: x, outputs: [o]}
  never: {like: data, when: machine.gpus > 99}
  table: {uses: flow/table, with: {from: data}}
  empty: {uses: flow/table, with: {from: never}}
  solo: {run: x, exclusive: true}
  pair: {like: solo, matrix: {n: [1, 2]}, corun: {group: all, gpus: shared}}
  trio: {like: pair, matrix: {n: [1, 2, 3]}}
  report: {uses: flow/report, with: {sections: [{table: table, corun: trio}, {table: empty}]}}
"#,
    ));
    let input = e.builtin_input(id(&e, "report"), &ended(&e)).expect("an input").expect("a built-in");
    let seen: Vec<_> =
        input.steps.iter().map(|(name, view)| (name.as_str(), view.results.len(), view.absent.is_some())).collect();
    assert_eq!(
        seen,
        [
            ("trio", 3, false),
            ("pair", 2, false),
            ("solo", 1, false),
            ("table", 1, false),
            ("data", 2, false),
            ("empty", 1, false),
            ("never", 2, true)
        ]
    );
    assert_eq!(input.steps["trio"].like.as_deref(), Some("pair"));
    assert_eq!(input.steps["table"].uses.as_deref(), Some("flow/table"));
    assert!(e.builtin_input(id(&e, "solo"), &ended(&e)).expect("no error").is_none());
}
