//! Tests that measure times or loads. They are in one module because tests run in order of their names: they run together, and no
//! other test beside them.

use flow_testkit::{TestSpace, until};
use serde_json::{Value, json};

use crate::{
    Hold, KIND, QUIET,
    gpus::{FOUR, ForeignProcess, HOLD, again, hold_until, notices, result},
    space,
};

/// An empty workspace for a test that measures.
fn quiet_space() -> TestSpace {
    // What this thread held would keep it waiting for ever.
    KIND.take();
    KIND.set(Some(Hold::of(QUIET)));
    space()
}

const GPU: &str = "driver 580.95.05\ngpu NVIDIA TITAN Xp; memory=12196MiB; used=0; load=30\n";

/// Holds memory for a while. The third does not get it where others are on the GPU.
const TRAIN: &str = r#"#!/bin/sh
# train.sh N
mkdir -p "$FAKE_NVML.d"
touch "$FAKE_NVML.d/$1"
echo "process $CUDA_VISIBLE_DEVICES pid=$$ memory=${1}000MiB sm=30" >> "$FAKE_NVML"
sleep 0.7
others=$(ls "$FAKE_NVML.d" | wc -l)
sleep 0.5
rm "$FAKE_NVML.d/$1"
if [ "$1" = 3 ] && [ "$others" -gt 1 ]; then
    echo "torch.OutOfMemoryError: CUDA out of memory."
    exit 1
fi
"#;

const WORKFLOW: &str = "\
flow: 1
name: sharing
steps:
  train: {matrix: {n: [1, 2, 3]}, run: './train.sh ${{ n }}', inputs: [train.sh], gpus: 1}
";

/// By instance of the newest run: how often it was started, and beside how many it ended.
fn starts(space: &TestSpace) -> Vec<(String, usize, usize)> {
    let journal = space.journal();
    let recorded = journal.iter().filter(|line| line["event"] == "recorded");
    let mut all: Vec<_> = recorded
        .map(|line| {
            let started = |other: &&Value| other["event"] == "started" && other["instance"] == line["instance"];
            let beside = line["result"]["circumstances"]["corunners"].as_array().map_or(0, Vec::len);
            let label = line["result"]["label"].as_str().unwrap().to_owned();
            (label, journal.iter().filter(started).count(), beside)
        })
        .collect();
    all.sort();
    all
}

#[test]
fn what_history_knows_shares_a_gpu() {
    let mut space = quiet_space();
    let gpus = space.gpus(GPU);
    space.script("train.sh", TRAIN).write("sharing.yaml", WORKFLOW);
    space.flow(["run", "sharing.yaml"]).expect(0);
    let alone = |label: &str| (label.to_owned(), 1, 0);
    assert_eq!(starts(&space), [alone("train[n=1]"), alone("train[n=2]"), alone("train[n=3]")]);

    // 0.9 of the GPU's time, 6 GiB of its memory: all three at once. The third runs out of memory, and has the GPU to
    // itself then.
    let plan = space.flow(["plan", "sharing.yaml"]).expect(0).stdout();
    assert!(plan.contains("3 cached"), "{plan}");
    let run = space.flow(["run", "sharing.yaml", "-f"]).expect(0).text();
    let [one, two, three] = <[_; 3]>::try_from(starts(&space)).unwrap();
    assert_eq!((one.1, two.1, three), (1, 1, ("train[n=3]".to_owned(), 2, 0)), "{run}");
    assert!(one.2 > 0 && two.2 > 0, "{run}");

    let predicted = space.flow(["predict", "-w", "sharing.yaml", "train/n=4"]).expect(0).stdout();
    assert!(predicted.contains("runs of its step at other points of `n`, beyond them"), "{predicted}");
    assert!(predicted.contains("on each GPU") && predicted.contains("GPU busy 30%"), "{predicted}");
    assert!(predicted.contains("TITAN Xp: sharing costs 1 + 1.00"), "{predicted}");

    // What ran there is also known where it cannot run.
    gpus.set("init 9\n");
    let elsewhere = space.flow(["predict", "-w", "sharing.yaml", "train/n=4"]).expect(0).stdout();
    assert!(elsewhere.contains("runs of its step at other points of `n`, beyond them"), "{elsewhere}");
}

/// Three epochs of a third of a second; half as long again where another is on the GPU.
const EPOCHS: &str = r#"#!/bin/sh
mkdir -p "$FAKE_NVML.d"
touch "$FAKE_NVML.d/$1"
echo "process $CUDA_VISIBLE_DEVICES pid=$$ memory=1000MiB sm=70" >> "$FAKE_NVML"
sleep 0.3
for epoch in 1 2 3 4; do
    if [ "$(ls "$FAKE_NVML.d" | wc -l)" -gt 1 ]; then sleep 0.6; else sleep 0.4; fi
    echo "Epoch $epoch: loss 1"
done
sleep 0.3
rm "$FAKE_NVML.d/$1"
"#;

#[test]
fn a_co_run_group_tells_the_price_of_sharing() {
    let mut space = quiet_space();
    space.gpus(&GPU.replace("load=30", "load=70"));
    space.script("epochs.sh", EPOCHS).write(
        "price.yaml",
        "\
flow: 1
name: price
steps:
  solo:
    matrix: {n: [1, 2]}
    run: ./epochs.sh ${{ n }}
    inputs: [epochs.sh]
    metrics: {stdout: 'Epoch {epoch}: loss {loss}'}
    gpus: 1
    exclusive: true
  together:
    like: solo
    needs: [solo]
    corun: {group: all, gpus: shared}
",
    );
    space.flow(["run", "price.yaml"]).expect(0);
    let journal = space.journal();
    let results = journal.iter().filter(|line| line["event"] == "recorded").map(|line| &line["result"]);
    let seen: Vec<&Value> =
        results.map(|result| &result["circumstances"]["sharing"]).filter(|seen| !seen.is_null()).collect();
    assert_eq!(seen.len(), 2, "each member says it: {seen:?}");
    let [busy, slowdown] = ["busy", "slowdown"].map(|key| seen[0][key].as_f64().unwrap());
    assert!((busy - 1.4).abs() < 0.05 && (1.2..1.9).contains(&slowdown), "{seen:?}");
    let said = space.flow(["predict", "-w", "price.yaml", "solo"]).expect(0).stdout();
    assert!(said.contains("(Σ busy − 1), from 2 measurements"), "{said}");
    // The journals say it as well as the database.
    space.flow(["doctor"]).expect(0);
}

#[test]
fn a_foreign_process_disturbs_what_is_exclusive_and_it_is_repeated_once() {
    let mut space = quiet_space();
    let gpus = space.gpus("gpu NVIDIA H200; memory=143771MiB; reserved=500MiB\n");
    let desktop = ForeignProcess::new();
    gpus.add(&(desktop.on(0, 200) + " desktop"));
    space.script("until.sh", &hold_until()).write(
        "alone.yaml",
        &format!(
            "\
flow: 1
name: alone
steps:
  solo: {{run: ./until.sh 100 {}, inputs: [until.sh], gpus: 1, exclusive: true}}
",
            space.path("go").display()
        ),
    );
    let mut flow = space.start(["run", "alone.yaml"]);
    until("the step holds memory", || gpus.text().contains("memory=100MiB"));
    let foreign_process = ForeignProcess::new();
    gpus.add(&foreign_process.on(0, 2048));
    until("the foreign process is seen", || flow.output().contains("the foreign process"));
    drop(foreign_process);
    space.write("go", "");
    assert!(flow.wait().success(), "{}", flow.output());
    let started = space.journal().iter().filter(|line| line["event"] == "started").count();
    let result = result(&space, "solo");
    assert_eq!((started, result.get("disturbances")), (2, None), "{}", flow.output());
    insta::assert_snapshot!(notices(&space).join("\n"), @"the foreign process PID (sleep) computes on GPU 0 (NVIDIA H200)");
    let disturbed: Vec<Value> = space.journal().iter().filter_map(|line| line.get("disturbances").cloned()).collect();
    assert_eq!((disturbed.len(), &disturbed[0][0]["kind"]), (1, &json!("foreign_process")), "{disturbed:?}");
    assert_eq!(again(&space), [json!({"kind": "disturbed"})]);
}

#[test]
fn a_group_shares_one_set_of_gpus_or_has_its_own() {
    let mut space = quiet_space();
    space.gpus(FOUR);
    space.script("hold.sh", HOLD).write(
        "group.yaml",
        "\
flow: 1
name: group
steps:
  shared: {matrix: {n: [1, 2]}, run: ./hold.sh 100 8, inputs: [hold.sh], gpus: 2, corun: {group: all, gpus: shared}}
  own: {matrix: {n: [1, 2]}, run: ./hold.sh 100 0.3, inputs: [hold.sh], gpus: 2, corun: {group: all, gpus: own}}
",
    );
    space.flow(["run", "group.yaml"]).expect(0);
    let gpus = |label: &str| result(&space, label)["circumstances"]["gpus"].clone();
    assert_eq!(gpus("shared[n=1]"), gpus("shared[n=2]"));
    let own: Vec<Value> = ["own[n=1]", "own[n=2]"].iter().flat_map(|l| gpus(l).as_array().unwrap().clone()).collect();
    assert_eq!(own.iter().collect::<std::collections::HashSet<_>>().len(), 4, "{own:?}");
    // Each process uses 30% of the multiprocessors, from its first command to its end: a sample before or after the
    // other process counts nothing.
    let shared = result(&space, "shared[n=1]");
    let others = shared["circumstances"]["gpu_shared"].as_f64().unwrap_or_else(|| panic!("{shared}"));
    assert!((0.15..=0.3 + 1e-9).contains(&others), "{shared}");
    assert_eq!(shared["usage"]["gpus"][0]["memory_peak"], 100 << 20, "its own, not the GPU's");
}

/// Two that take as long again together: gain and loss are even, and one run of each cannot tell that from either.
const EVEN: &str = "\
flow: 1
name: even
steps:
  alone: {matrix: {n: [1, 2]}, run: sleep 0.2, exclusive: true}
  together:
    like: alone
    run: sleep 0.4
    corun: {group: all, gpus: shared}
    repeat: {until: decided, at_most: 2}
  table: {uses: flow/table, with: {from: alone, rows: n, columns: [wall]}}
  report: {uses: flow/report, with: {sections: [{table: table, corun: together}]}}
";

#[test]
fn what_one_run_of_each_does_not_decide_is_repeated_and_no_more_often_than_the_file_says() {
    let space = quiet_space();
    space.write("even.yaml", EVEN);
    let plan = space.flow(["run", "-n", "even.yaml"]).expect(0).stdout();
    assert!(plan.contains("may repeat"), "{plan}");
    assert!(plan.contains("while the verdict on together all is undecided, up to 2 runs of each"), "{plan}");
    space.flow(["run", "even.yaml"]).expect(0);
    let labels = || {
        let recorded = space.journal().into_iter().filter(|line| line["event"] == "recorded");
        recorded.filter_map(|line| line["result"]["label"].as_str().map(str::to_owned)).collect::<Vec<_>>()
    };
    let again = labels().into_iter().filter(|label| label.contains("repetition=1")).collect::<Vec<_>>();
    assert_eq!(again.len(), 4, "both members, and both alone: {:?}", labels());
    let shown = space.flow(["show", "together[n=1,repetition=1]"]).expect(0).stdout();
    assert!(!shown.is_empty());
    let why = space.flow(["why", "together[n=1,repetition=1]"]).expect(0).stdout();
    assert!(why.contains("made because the verdict on together all was undecided after 1 run of each"), "{why}");
    let said = space.flow(["run", "even.yaml"]).expect(0).stdout();
    assert!(said.contains("nothing to do"), "{said}");
    // With fewer allowed the same results give the same verdict, and nothing runs but the report.
    space.write("even.yaml", &EVEN.replace("at_most: 2", "at_most: 1"));
    let plan = space.flow(["run", "-n", "even.yaml"]).expect(0).stdout();
    assert!(!plan.contains("may repeat") && plan.contains("5 cached"), "{plan}");
}
