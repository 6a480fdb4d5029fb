//! Admission that learns, on a card that is not there: alone at first, together once history knows, alone again after memory
//! did not suffice.

use flow_testkit::{TestSpace, until};
use serde_json::Value;

use crate::{gpus::HOLD, quiet_space, space};

const CARD: &str = "driver 580.95.05\ngpu NVIDIA TITAN Xp; memory=12196MiB; used=0; load=30\n";

/// Holds memory for a while. The third does not get it where others are on the card.
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
    let gpus = space.gpus(CARD);
    space.script("train.sh", TRAIN).write("sharing.yaml", WORKFLOW);
    space.flow(["run", "sharing.yaml"]).expect(0);
    let alone = |label: &str| (label.to_owned(), 1, 0);
    assert_eq!(starts(&space), [alone("train[n=1]"), alone("train[n=2]"), alone("train[n=3]")]);

    // 0.9 of the card's time, 6 GiB of its memory: all three at once. The third runs out of memory, and has the card to
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

/// Three epochs of a third of a second; half as long again where another is on the card.
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
    space.gpus(&CARD.replace("load=30", "load=70"));
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
fn two_share_a_card_on_trial_and_teach_what_that_costs() {
    let mut space = quiet_space();
    // Busy 95 %: at the price of a card that was never measured nothing is gained by two.
    space.gpus(&CARD.replace("load=30", "load=95"));
    space.script("epochs.sh", &EPOCHS.replace("0.6", "0.48")).write(
        "teach.yaml",
        "\
flow: 1
name: teach
steps:
  train:
    matrix: {n: [1, 2]}
    run: ./epochs.sh ${{ n }}
    inputs: [epochs.sh]
    metrics: {stdout: 'Epoch {epoch}: loss {loss}'}
    gpus: 1
    cpus: 1
",
    );
    // By instance: beside how many it ran, and what that taught; and how often a trial was said.
    let run = |force: &[&str]| {
        space.flow(["run", "teach.yaml"].iter().chain(force)).expect(0);
        let beside: Vec<usize> = starts(&space).into_iter().map(|(_, _, beside)| beside).collect();
        let journal = space.journal();
        let trials = journal
            .iter()
            .filter(|line| line["text"].as_str().is_some_and(|text| text.contains("to measure the cost of sharing")));
        let recorded = journal.iter().filter(|line| line["event"] == "recorded");
        let taught: Vec<Value> = recorded.map(|line| line["result"]["circumstances"]["sharing"].clone()).collect();
        (beside, trials.count(), taught)
    };
    let (beside, trials, _) = run(&[]);
    assert_eq!((beside, trials), (vec![0, 0], 0), "never seen: each alone");
    let (beside, trials, taught) = run(&["-f"]);
    assert_eq!((beside, trials), (vec![1, 1], 1));
    for told in &taught {
        let [busy, slowdown] =
            ["busy", "slowdown"].map(|key| told[key].as_f64().unwrap_or_else(|| panic!("{taught:?}")));
        assert!((busy - 1.9).abs() < 0.05 && (0.8..1.6).contains(&slowdown), "{taught:?}");
    }
    assert_eq!(taught.iter().map(|told| told["beside"][0].as_str().unwrap()).max(), Some("train[n=2]"));
    let said = space.flow(["predict", "-w", "teach.yaml", "train"]).expect(0).stdout();
    assert!(said.contains("(Σ busy − 1), from 2 measurements"), "{said}");
    // What the pair was measured to take counts now: no trial.
    let (beside, trials, _) = run(&["-f"]);
    assert_eq!((beside, trials), (vec![1, 1], 0));
}

#[test]
fn a_card_belongs_to_one_run() {
    let (mut first, mut second) = (space(), space());
    let gpus = first.gpus("gpu NVIDIA A; memory=24GiB; load=20; memory_load=5\n");
    second.gpus("").set("");
    second.env("FAKE_NVML", &first.path("gpus.txt").to_string_lossy());
    second.beside(&first);
    for space in [&first, &second] {
        space.script("hold.sh", HOLD);
        let step = "run: ./hold.sh 1000 1, inputs: [hold.sh], gpus: 1, cpus: 1";
        space.write("train.yaml", &format!("flow: 1\nname: train\nsteps:\n  train: {{{step}}}\n"));
        space.flow(["run", "train.yaml"]).expect(0);
    }
    // Both are known, and would share it within one run.
    let mut one = first.start(["run", "-f", "train.yaml"]);
    until("the first is on the card", || gpus.text().matches("memory=1000MiB").count() == 3);
    let mut two = second.start(["run", "-f", "train.yaml"]);
    until("it is said whom it waits for", || second.flow(["status"]).text().contains("another flow (process PID of"));
    assert!(one.wait().success() && two.wait().success(), "{}{}", one.said(), two.said());
    let [a, b] = [&first, &second].map(|space| result_of(space, "train"));
    assert!(a["ended_at"].as_u64() <= b["started_at"].as_u64(), "one after the other");
    assert!(!two.said().contains("the foreign process"), "{}", two.said());
}

/// The newest result of an instance, in whatever run.
fn result_of(space: &TestSpace, label: &str) -> Value {
    let journals = flow_testkit::files_below(&space.path(".flow/runs"));
    let journals = journals.into_iter().filter(|path| path.ends_with("journal.jsonl"));
    let lines = journals.flat_map(|path| {
        let text = std::fs::read_to_string(path).unwrap();
        text.lines().map(|line| serde_json::from_str::<Value>(line).unwrap()).collect::<Vec<_>>()
    });
    let recorded = lines.filter(|line| line["event"] == "recorded" && line["result"]["label"] == label);
    recorded.max_by_key(|line| line["result"]["ended_at"].as_u64()).unwrap()["result"].clone()
}
