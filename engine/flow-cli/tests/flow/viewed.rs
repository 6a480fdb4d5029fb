//! `flow view` says what it cannot show, and gives the page's server what that cannot make. The page itself has its tests in
//! `flow-view`.

use std::{collections::BTreeMap, fs, path::Path, process::Command};

use flow_testkit::files_below;
use serde_json::Value;

use crate::space;

#[test]
fn what_is_not_there_is_named() {
    let space = space();
    let fails = |arguments: &[&str], why: &str| {
        let said = space.flow(arguments).expect(2).stderr();
        assert!(said.contains(why), "{said}");
    };
    fails(&["view"], "nothing has run here yet");
    fails(&["view", "h200.bundle"], "there is no bundle `h200.bundle`");
    fails(&["view", "runs/h200"], "there is no bundle `runs/h200`");
    fails(&["view", "."], "`.` is a folder and not a store");
    space.write("w.yaml", "flow: 1\nname: w\nsteps: {a: {run: 'true'}}\n");
    space.flow(["run", "w.yaml"]).expect(0);
    fails(&["view", "zzzz"], "there is no run `zzzz`");
    fails(&["view", "--port", "70000"], "70000");
}

#[test]
fn the_page_of_a_bundle_or_an_imported_run_gets_its_reports() {
    let space = space();
    // In place of the page's server: it prints what it gets.
    let (built, flow) = (env!("CARGO_BIN_EXE_flow"), space.path("flow"));
    fs::hard_link(built, &flow).or_else(|_| fs::copy(built, &flow).map(drop)).unwrap();
    space.script("flow-view", "#!/bin/sh\necho \"$@\"\ncat\n");
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/runs/feb08-2xH200.bundle");
    space.flow(["import".as_ref(), file.as_os_str()]).expect(0);
    for what in [file.to_str().unwrap(), "067f"] {
        let mut command = Command::new(&flow);
        let command = command.args(["view", what]).current_dir(space.path("")).env("HOME", space.path(""));
        let output = command.env("FLOW_GPU_LOCKS", space.locks()).output().unwrap();
        let said = String::from_utf8(output.stdout).unwrap();
        let (arguments, reports) = said.split_once('\n').unwrap();
        assert!(arguments.starts_with("--reports "), "{arguments}");
        let reports: Vec<BTreeMap<u32, BTreeMap<String, String>>> = serde_json::from_str(reports).unwrap();
        let read = |name: &str| reports[0][&39].get(name).map(|text| text.clone().into_bytes());
        for (lang, title) in [("en", "mobilenet_v2: batch size"), ("zh", "mobilenet_v2：批大小")] {
            let page = flow_report::Reports::new().page(read, Some(lang)).unwrap().unwrap();
            assert!(page.contains(title), "{page}");
        }
    }
}

#[test]
fn the_folder_of_a_store_stands_for_its_last_run() {
    let space = space();
    let (built, flow) = (env!("CARGO_BIN_EXE_flow"), space.path("flow"));
    fs::hard_link(built, &flow).or_else(|_| fs::copy(built, &flow).map(drop)).unwrap();
    space.script("flow-view", "#!/bin/sh\necho \"$@\"\n");
    space.write("w.yaml", "flow: 1\nname: w\nsteps: {a: {run: 'true'}}\n");
    space.flow(["run", "w.yaml"]).expect(0);
    space.flow(["run", "w.yaml", "--force"]).expect(0);
    let last = fs::read_dir(space.path(".flow/runs")).unwrap().map(|run| run.unwrap().path()).max().unwrap();
    fs::create_dir(space.path("elsewhere")).unwrap();
    for (folder, store) in [("", ".flow"), ("", "./.flow/"), ("elsewhere", "../.flow")] {
        let mut command = Command::new(&flow);
        let command = command.args(["view", store]).current_dir(space.path(folder)).env("HOME", space.path(""));
        let output = command.env("FLOW_GPU_LOCKS", space.locks()).output().unwrap();
        let said = String::from_utf8_lossy(&output.stdout);
        let shown = said.split(" --port").next().unwrap();
        assert!(shown.ends_with(last.file_name().unwrap().to_str().unwrap()), "{store}: {output:?}");
    }
}

#[test]
fn a_run_writes_when_its_waiting_steps_are_expected_to_start() {
    let space = space();
    space.write("w.yaml", "flow: 1\nname: w\nsteps: {a: {matrix: {n: [1, 2, 3]}, run: 'sleep 1; : ${{ n }}'}}\n");
    space.flow(["run", "w.yaml"]).expect(0);
    space.flow(["run", "w.yaml", "-j", "1", "--force"]).expect(0);
    let files = files_below(&space.path(".flow/runs")).into_iter().filter(|path| path.ends_with("forecast.jsonl"));
    let lines: String = files.map(|path| fs::read_to_string(path).unwrap()).collect();
    let forecasts =
        lines.lines().filter(|line| !line.is_empty()).map(|line| serde_json::from_str::<Value>(line).unwrap());
    let starts: Vec<Value> = forecasts.flat_map(|one| one["starts"].as_array().unwrap().clone()).collect();
    assert!(!starts.is_empty(), "{lines}");
    for start in starts {
        let [from, to] = [1, 2].map(|at| start[at].as_u64().unwrap());
        assert!(from < to && to < 60_000 && start[3] == serde_json::json!([]), "{start}");
    }
}
