//! `flow predict --model`: a training that is planned, from what any workflow of the store measured, here and elsewhere.

use std::fs;

use flow_testkit::TestSpace;
use serde_json::Value;

use crate::space;

/// Networks whose time is in proportion to their multiply-accumulates: half a second a billion and an image.
const WORKFLOW: &str = r#"flow: 1
name: sweep
params: {factor: 1, gmac: {small: 1, medium: 2, large: 4, huge: 8, unseen: 3}}
steps:
  counted:
    matrix: {model: [small, medium, large, huge, unseen], size: [224]}
    run: 'echo ${{ gmac[model] }} GMAC, 1000 parameters'
    metrics: {stdout: '{gmac} GMAC, {parameters} parameters'}
  train:
    matrix: {model: [small, medium, large, huge], batch: [8, 16, 32], size: [224]}
    run: 'echo rate ${{ 2 / gmac[model] / factor }} images/s of ${{ size }}, ${{ batch }}'
    metrics: {stdout: 'rate {images_per_s:images/s} images/s'}
    exclusive: true
"#;

/// What counts five networks and trains four of them.
fn lab(factor: f64) -> TestSpace {
    let space = space();
    space.write("w.yaml", WORKFLOW).flow(["run", "w.yaml", "--set", &format!("factor={factor}")]).expect(0);
    space
}

const ASK: [&str; 9] = ["predict", "--model", "unseen", "--batch", "16", "--images", "1600", "--epochs", "2"];

fn objects(space: &TestSpace) -> Vec<Value> {
    let said = space.flow(ASK.into_iter().chain(["--json"])).expect(0).stdout();
    said.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

#[test]
fn a_network_that_never_ran_is_planned_on_every_machine() {
    let (here, there) = (lab(1.0), lab(0.25));
    // 1,600 images of three billions each.
    let truth = 1600.0 * 3.0 * 0.5;
    let alone = objects(&here);
    assert_eq!(alone.len(), 1, "{alone:?}");
    let off = |object: &Value, truth: f64| (object["epoch_s"].as_f64().unwrap() / truth - 1.0).abs();
    assert!(off(&alone[0], truth) < 0.01, "{alone:?}");
    assert!(alone[0]["wall_s_low"].as_f64() < alone[0]["wall_s"].as_f64(), "{alone:?}");

    there.flow(["export", "--bundle", "b"]).expect(0);
    fs::copy(there.path("b"), here.path("b")).unwrap();
    here.flow(["import", "b"]).expect(0);
    let both = objects(&here);
    assert_eq!(both.len(), 2, "never averaged: {both:?}");
    assert_eq!(both[0]["epoch_s"], alone[0]["epoch_s"], "what is known of one's own stays as it was");
    assert!(off(&both[1], truth / 4.0) < 0.01 && both[1]["machine"].as_str().unwrap().ends_with(')'), "{both:?}");
    let host = both[1]["machine"].as_str().unwrap().rsplit(' ').next().unwrap().trim_matches(['(', ')']).to_owned();
    // Where nothing ran, there is still what was imported.
    let bare = crate::space();
    fs::copy(there.path("b"), bare.path("b")).unwrap();
    bare.flow(["import", "b"]).expect(0);
    let unknown = bare.flow(["forget", "nohost"]).expect(2).text();
    assert!(unknown.contains("nothing was imported") && unknown.contains("`nohost`"), "{unknown}");
    let said = here.flow(ASK.into_iter().chain(["--price", &format!("{host}=36")])).expect(0).stdout();
    assert!(said.starts_with("unseen: 2 epochs of 1,600 images of 224×224, batch 16\n"), "{said}");
    assert!(
        said.contains("most trainings used 224×224; unseen was never trained: --size selects another size\n"),
        "{said}"
    );
    let small = here.flow(ASK.into_iter().chain(["--size", "64"])).expect(0).stdout();
    assert!(
        small.contains("unseen was neither trained nor profiled with images of 64×64, and may not accept such"),
        "{small}"
    );
    assert!(said.contains("never trained there; from 4 other networks that were, and their computation"), "{said}");
    let cost = 36.0 * 2.0 * truth / 4.0 / 3600.0;
    assert!(said.contains(&format!("  {cost:.2}, ")), "{cost}: {said}");
    let checked = here.flow(["predict", "--check"]).expect(0).stdout();
    let rows = checked.lines().filter(|line| line.contains("time per image")).count();
    assert_eq!(rows, 4, "each point and each network, on two machines: {checked}");
    assert_eq!(here.flow(["plan", "w.yaml", "--exit-code"]).expect(0).text().matches("to run").count(), 0);
}

#[test]
fn what_cannot_be_planned_is_told_with_a_way_out() {
    let space = lab(1.0);
    let machine = objects(&space)[0]["machine"].as_str().unwrap().to_owned();
    let prices = [format!("{}=3", machine.to_lowercase()), format!("{machine}=4")];
    let with = |from: &str, to: &str| {
        let args: Vec<&str> = ASK.iter().map(|arg| if *arg == from { to } else { *arg }).collect();
        space.flow(args).expect(2).text()
    };
    for (said, why) in [
        (with("unseen", "unsen"), "did you mean `unseen`?\n"),
        (with("1600", "15"), "15 images are fewer than a batch of 16"),
        (with("16", "0"), "0 is not in 1.."),
        (
            space.flow(ASK.into_iter().chain(["--price", "H300=3"])).expect(2).text(),
            "--price H300: nothing has run on such a machine",
        ),
        (
            space.flow(ASK.into_iter().chain(["--price", &prices[0], "--price", &prices[1]])).expect(2).text(),
            &format!("=3 and --price {machine}=4 both match {machine}"),
        ),
        (space.flow(ASK.into_iter().chain(["--gpus", "2"])).expect(2).text(), "all measured trainings used 0"),
        (
            space.flow(ASK.into_iter().chain(["--gpus", "0,1"])).expect(2).text(),
            "with --model this is a number of GPUs",
        ),
        (space.flow(["predict", "--model", "unseen"]).expect(2).text(), "--batch <N>"),
    ] {
        assert!(said.contains(why), "{why}: {said}");
    }
    let few = crate::space();
    few.write("w.yaml", "flow: 1\nname: few\nsteps:\n  train:\n    matrix: {model: [one], batch: [16]}\n    run: echo rate 5\n    exclusive: true\n    metrics: {stdout: 'rate {images_per_s}'}\n  other: {matrix: {model: [two], size: [8]}, run: 'echo 1 2', metrics: {stdout: '{gmac} {parameters}'}}\n");
    few.flow(["run", "w.yaml"]).expect(0);
    let ask = ASK.map(|arg| if arg == "unseen" { "two" } else { arg });
    let said = few.flow(ask).expect(0).stdout();
    assert!(said.contains("it takes 3 more networks, profiled and trained there at such a point; run a training of two there at batch 16, as step `train` of workflow `few`"), "{said}");
    assert!(crate::space().flow(ASK).expect(2).text().contains("nothing has run here yet"));
    // What is missing is a training, whatever was asked of its price.
    let bare = crate::space();
    bare.write("w.yaml", "flow: 1\nname: bare\nsteps:\n  one: {run: 'true'}\n");
    bare.flow(["run", "w.yaml"]).expect(0);
    let said = bare.flow(ASK.into_iter().chain(["--price", "H200=3"])).expect(2).text();
    assert!(said.contains("no undisturbed training was measured yet") && said.contains("flow import"), "{said}");
}
