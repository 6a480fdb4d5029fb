//! `flow predict --images`: a training that is planned, on each machine that its step ran on, here and elsewhere.

use std::fs;

use flow_testkit::TestSpace;
use serde_json::Value;

use crate::space;

/// Trainings whose time is in proportion to the size of the network: half a second an image of the smallest.
const WORKFLOW: &str = r#"flow: 1
name: sweep
params: {size: {small: 1, medium: 2, large: 4}}
steps:
  train:
    matrix: {model: [small, medium, large], batch: [8, 16, 32]}
    run: 'echo rate ${{ 2 / size[model] }} images/s of ${{ batch }}'
    metrics: {stdout: 'rate {images_per_s:images/s} images/s'}
    exclusive: true
"#;

fn lab() -> TestSpace {
    let space = space();
    space.write("w.yaml", WORKFLOW).flow(["run", "w.yaml"]).expect(0);
    space
}

const ASK: [&str; 6] = ["predict", "train/model=large,batch=16", "--images", "1600", "--epochs", "2"];

fn objects(space: &TestSpace) -> Vec<Value> {
    let said = space.flow(ASK.into_iter().chain(["--json"])).expect(0).stdout();
    said.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

#[test]
fn a_training_is_planned_on_every_machine_that_its_step_ran_on() {
    let (here, there) = (lab(), lab());
    let alone = objects(&here);
    assert_eq!(alone.len(), 1, "{alone:?}");
    let off = |object: &Value| (object["epoch_s"].as_f64().unwrap() / 3200.0 - 1.0).abs();
    assert!(off(&alone[0]) < 0.1, "{alone:?}");
    assert!(alone[0]["wall_s_low"].as_f64() < alone[0]["wall_s"].as_f64(), "{alone:?}");

    there.flow(["export", "--bundle", "b"]).expect(0);
    fs::copy(there.path("b"), here.path("b")).unwrap();
    here.flow(["import", "b"]).expect(0);
    let both = objects(&here);
    assert_eq!(both.len(), 2, "{both:?}");
    let machine = both[1]["gpu_model"].as_str().unwrap();
    assert!(off(&both[1]) < 0.1 && machine.ends_with(')'), "{both:?}");
    let host = machine.rsplit(' ').next().unwrap().trim_matches(['(', ')']).to_owned();
    let said = here.flow(ASK.into_iter().chain(["--price", &format!("{host}=36")])).expect(0).stdout();
    assert!(
        said.starts_with("train[model=large,batch=16]: 2 epochs of 1,600 images\n") && said.contains("cost"),
        "{said}"
    );
    let said = here.flow(ASK.into_iter().chain(["--price", "H300=3"])).expect(2).text();
    assert!(said.contains("--price H300: nothing has run on such a machine"), "{said}");
    // Where nothing ran, there is still what was imported.
    let bare = space();
    fs::copy(there.path("b"), bare.path("b")).unwrap();
    bare.flow(["import", "b"]).expect(0);
    let unknown = bare.flow(["forget", "nohost"]).expect(2).text();
    assert!(unknown.contains("the run has no step or instance `nohost`"), "{unknown}");
}
