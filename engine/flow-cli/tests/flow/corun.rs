//! Co-run groups of plain programs: how the barrier is found, by what the window is closed, and what is kept of a disturbed one.

use serde_json::{Value, json};

use crate::{
    gpus::{ForeignProcess, HOLD, notices},
    space,
};

const WORKFLOW: &str = "
flow: 1
name: pair
params: {first: 1}
steps:
  pair:
    matrix: {n: [1, 2]}
    run: sh code/train.sh ${{ n }} ${{ first }}
    inputs: [code/]
    corun: {group: all, gpus: shared}
    record: [out_of_memory]
";

/// The first of both ends after 0.2 s, the other one after 0.8 s; number 1 runs out of memory.
const TRAIN: &str = "
flow ready
if [ $1 = $2 ]; then sleep 0.2; else sleep 0.8; fi
if [ $1 = 1 ]; then echo 'RuntimeError: CUDA out of memory'; exit 1; fi
";

#[test]
fn a_window_says_by_what_it_was_closed_where_it_was_closed_by_that() {
    for (first, closed_by) in [("1", json!({"label": "pair[n=1]", "outcome": "out_of_memory"})), ("2", Value::Null)] {
        let space = space();
        space.write("pair.yaml", WORKFLOW).write("code/lib/readme", "nothing").write("code/train.sh", TRAIN);
        space.flow(["run", "pair.yaml", "--set", &format!("first={first}")]).expect(0);
        let journal = space.journal();
        let of = |event: &str| journal.iter().filter(|line| line["event"] == event).collect::<Vec<_>>();
        let windows: Vec<&Value> =
            of("recorded").iter().map(|line| &line["result"]["circumstances"]["corun"]).collect();
        assert_eq!(windows.len(), 2, "{journal:?}");
        for window in windows {
            assert_eq!(window["closed_by"], closed_by, "{first} first: {window}");
        }
        assert_eq!(notices(&space), ["waits at the barrier: `code/train.sh` calls `flow ready`"; 2]);
        assert_eq!(of("ready").len(), 2);
    }
}

#[test]
fn a_program_that_does_not_call_is_ready_when_it_starts_and_the_journal_says_so() {
    let space = space();
    space.write("pair.yaml", WORKFLOW).write("code/train.sh", &TRAIN.replace("flow ready", "true"));
    space.flow(["run", "pair.yaml"]).expect(0);
    let texts = space.journal();
    let said = texts.iter().filter_map(|line| line["text"].as_str()).filter(|text| text.contains("ready at its start"));
    assert_eq!(said.count(), 2, "{texts:?}");
}

#[test]
fn where_one_of_a_group_is_disturbed_the_earlier_results_of_all_stand() {
    let mut space = space();
    let gpus = space.gpus("gpu NVIDIA A; memory=24GiB\ngpu NVIDIA B; memory=24GiB\n");
    space.script("hold.sh", HOLD).write(
        "pair.yaml",
        "\
flow: 1
name: pair
steps:
  pair: {matrix: {n: [1, 2]}, run: ./hold.sh 10 0.5, inputs: [hold.sh], gpus: 1, corun: {group: all, gpus: own}}
",
    );
    space.flow(["run", "pair.yaml"]).expect(0);
    let foreign_process = ForeignProcess::new();
    gpus.add(&foreign_process.on(1, 10));
    let said = space.flow(["run", "pair.yaml", "-f"]).expect(0).stdout();
    assert!(
        said.contains("a measurement of its group was disturbed and is dropped; the earlier one, of run"),
        "{said}"
    );
    assert!(said.contains("this measurement was disturbed and is dropped; the earlier one, of run"), "{said}");
    assert!(!space.journal().iter().any(|line| line["event"] == "recorded"), "{said}");
    let plan = space.flow(["run", "-n", "pair.yaml"]).expect(0).stdout();
    assert!(plan.contains("2 instances: 2 cached"), "{plan}");
}
