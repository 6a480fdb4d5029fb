//! What an attempt leaves to the next one, in whatever run, and how long that stays.

use flow_testkit::{TestSpace, until};
use nix::sys::signal::Signal;

use crate::{environments::with_venv, space};

#[test]
fn what_an_attempt_leaves_to_the_next_one_outlives_the_run_until_there_is_a_result() {
    let space = space();
    // Counts its attempts, and succeeds at the third.
    let count = "n=$(cat $FLOW_CHECKPOINT/n 2>/dev/null || echo 0); n=$((n+1)); echo $n | tee $FLOW_CHECKPOINT/n > out/n; test $n -ge 3";
    let workflow = format!(
        "flow: 1\nname: long\nsteps:\n  train: {{run: '{count}', outputs: [out/n], retries: 1}}\n  none: {{run: 'false'}}\n"
    );
    space.write("long.yaml", &workflow);
    let left = || std::fs::read_dir(space.path(".flow/checkpoints")).unwrap().count();
    space.flow(["run", "long.yaml", "train"]).expect(1);
    assert_eq!(left(), 3, "it, what was used until then, and its environments");
    space.flow(["run", "long.yaml", "train"]).expect(0);
    assert_eq!(left(), 0, "the result is there");
    space.flow(["get", "train", "--to", "n.txt"]).expect(0);
    assert_eq!(std::fs::read_to_string(space.path("n.txt")).unwrap(), "3\n");

    space.flow(["run", "long.yaml", "train", "-f"]).expect(1);
    assert_eq!(left(), 3, "a forced one begins anew, and its retry goes on");
    space.flow(["run", "long.yaml", "none"]).expect(1);
    assert_eq!(left(), 3, "an attempt that wrote nothing leaves nothing");
    space.flow(["gc", "--runs", "1", "--days", "0"]).expect(0);
    assert_eq!(left(), 0, "it is older than every run that stays");
}

#[test]
fn a_result_that_resumed_after_an_upgrade_names_the_packages() {
    let (space, site) = with_venv(&["packaging-23.0"]);
    let run = "n=$(cat $FLOW_CHECKPOINT/n || echo 0); echo $((n+1)) > $FLOW_CHECKPOINT/n; test $n -ge 1";
    space.write("w.yaml", &format!("flow: 1\nsteps: {{a: {{run: '{run}'}}}}\n"));
    space.flow(["run", "w.yaml"]).expect(1);
    std::fs::rename(site.join("packaging-23.0.dist-info"), site.join("packaging-26.4.dist-info")).unwrap();
    space.flow(["run", "w.yaml"]).expect(0);
    let shown = space.flow(["show", "a"]).expect(0).stdout();
    let caveat = "it resumed from a checkpoint of another software environment: packaging 23.0 → 26.4";
    assert!(shown.contains(caveat), "{shown}");
}

#[test]
fn what_goes_on_has_the_time_of_all_its_parts_and_says_which_nobody_measured() {
    let space = space();
    let train = "n=$(cat $FLOW_CHECKPOINT/n 2>/dev/null || echo 0); echo $((n+1)) > $FLOW_CHECKPOINT/n; \
                 case $n in 0) sleep 60;; 1) sleep 1; exit 1;; esac";
    space.write(
        "w.yaml",
        &format!(
            "flow: 1\nname: w\nsteps:\n  train: {{run: '{train}'}}\n  \
             table: {{uses: flow/table, with: {{from: train, columns: [wall]}}}}\n"
        ),
    );
    let mut flow = space.start(["run", "w.yaml"]);
    until("it has left something", || {
        let left = std::fs::read_dir(space.path(".flow/checkpoints")).into_iter().flatten().flatten();
        left.map(|left| left.path().join("n")).any(|n| std::fs::read(n).is_ok_and(|text| !text.is_empty()))
    });
    flow.signal(Signal::SIGKILL);
    flow.wait();
    space.flow(["run", "w.yaml"]).expect(1);
    space.flow(["run", "w.yaml"]).expect(0);
    let journal = space.journal();
    let result = journal.iter().find(|line| line["event"] == "recorded" && line["result"]["step"] == "train").unwrap();
    let usage = &result["result"]["usage"];
    assert_eq!((&usage["earlier"]["jobs"], &usage["earlier"]["unmeasured"]), (&2.into(), &1.into()), "{usage}");
    assert!((1.0..20.0).contains(&usage["wall_s"].as_f64().unwrap()), "{usage}");
    let shown = space.flow(["show", "train"]).expect(0).stdout();
    let words = ", in 3 attempts: all but the last were interrupted; the duration of one is unknown, because it was";
    assert!(shown.contains(words), "{shown}");
    let row = space.flow(["results", "train", "--json"]).expect(0).stdout();
    assert!(row.contains("\"usage.attempts\":3,\"usage.attempts_unmeasured\":1"), "{row}");
    // Of how long a whole one takes it tells nothing.
    let said = space.flow(["predict", "train"]).expect(0).stdout();
    assert!(said.starts_with("train: the time is unknown: 1 run of this instance, a part of which"), "{said}");
    let predicted: serde_json::Value =
        serde_json::from_str(&space.flow(["predict", "train", "--json"]).expect(0).stdout()).unwrap();
    assert_eq!((&predicted["wall_s"], &predicted["samples"]), (&serde_json::Value::Null, &1.into()), "{predicted}");
    space.flow(["get", "table", "--to", "table"]).expect(0);
    let table = space.read("table/table.en.md");
    assert!(table.contains("The times of `train` are incomplete"), "{table}");
}

/// Two runs of a training are cut, in epochs 3 and 5, and a third one does both again and ends, each with these `metrics:`.
fn cut_twice(space: &TestSpace, metrics: [&str; 3]) {
    space.script(
        "train.sh",
        "set -e; n=$(cat $FLOW_CHECKPOINT/n 2>/dev/null || echo 0); acc() { echo \"epoch $1 acc $2\"; }
        save() { echo $1 > $FLOW_CHECKPOINT/n; }; wait_here() { touch $FLOW_CHECKPOINT/../../$1; sleep 60; }
        case $n in
        0) acc 1 10; acc 2 95; save 2; acc 3 99; wait_here first;;
        2) acc 3 30; acc 4 40; save 4; acc 5 98; printf 'epoch 6 acc 97'; wait_here second;;
        4) sleep 0.3; acc 5 50; sleep 0.3; acc 6 60;; esac",
    );
    let cuts = [("first", Signal::SIGKILL), ("second", Signal::SIGINT)];
    for ((place, signal), metrics) in cuts.into_iter().zip(metrics) {
        training(space, metrics);
        let mut flow = space.start(["run", "w.yaml"]);
        until("it is to be cut", || space.path(".flow").join(place).exists());
        flow.signal(signal);
        flow.wait();
    }
    training(space, metrics[2]);
    for command in [["plan", "w.yaml"], ["why", "train"], ["run", "w.yaml"]] {
        let said = space.flow(command).expect(0).text();
        let goes_on = "it resumes from the checkpoint of an earlier attempt";
        assert!(said.contains(goes_on) && !said.contains("its first run"), "{said}");
    }
}

fn training(space: &TestSpace, metrics: &str) {
    let train = format!("{{run: sh train.sh, inputs: [train.sh]{metrics}}}");
    space.write("w.yaml", &format!("flow: 1\nname: w\nsteps:\n  train: {train}\n"));
}

const MAX: &str = ", metrics: {stdout: 'epoch {epoch} acc {acc}', summary: {acc: max}}";
const MIN: &str = ", metrics: {stdout: 'epoch {epoch} acc {acc}', summary: {acc: min}}";

/// The numbers of the training that the last run recorded.
fn metrics(space: &TestSpace) -> serde_json::Value {
    let journal = space.journal();
    let recorded = |line: &&serde_json::Value| line["event"] == "recorded" && line["result"]["step"] == "train";
    journal.iter().find(recorded).expect("a result")["result"]["metrics"].clone()
}

#[test]
fn what_goes_on_has_the_numbers_that_its_earlier_parts_printed() {
    let space = space();
    cut_twice(&space, [MAX; 3]);
    let found = metrics(&space);
    assert_eq!(found["acc"]["value"], 95.0, "{found}");
    assert!(found["epoch_time"]["value"].as_f64().is_some_and(|time| (0.2..5.0).contains(&time)), "{found}");
    let log = space.flow(["logs", "train"]).expect(0).stdout();
    let told: Vec<&str> = log.lines().filter_map(|line| line.strip_prefix("epoch ")).collect();
    let all = ["1 acc 10", "2 acc 95", "3 acc 99", "3 acc 30", "4 acc 40", "5 acc 98", "5 acc 50", "6 acc 60"];
    assert_eq!(told, all);
    assert_eq!(log.matches("[flow: an attempt was ended here").count(), 2, "{log}");
    assert_eq!(space.flow(["logs", "train", "-f"]).expect(0).stdout(), log);

    training(&space, MIN);
    space.flow(["run", "w.yaml"]).expect(0);
    assert_eq!(space.ran(), Vec::<String>::new());
    assert_eq!(metrics(&space)["acc"]["value"], 10.0);
}

#[test]
fn what_a_plugin_printed_before_it_was_killed_is_shown() {
    let space = space();
    let plugin = "plugin: 1\nname: long\nversion: 0.1.0\ncontent: [long.sh]\nstart: [./long.sh]\n\
                  steps: {train: {with: {type: object}}}\n";
    let script = r#"#!/bin/sh
echo '{"type":"hello","protocol":1,"plugin":"long","version":"0.1.0"}' >> $FLOW_ATTEMPT/messages.jsonl
if test -e $FLOW_CHECKPOINT/n; then echo epoch 2; else
echo epoch 1; touch $FLOW_CHECKPOINT/n; sleep 60; fi
echo '{"type":"outcome","outcome":"ok"}' >> $FLOW_ATTEMPT/messages.jsonl
"#;
    space.write("plugins/long/plugin.yaml", plugin).script("plugins/long/long.sh", script);
    space.write("w.yaml", "flow: 1\nname: w\nsteps:\n  train: {uses: long/train}\n");
    let mut flow = space.start(["run", "w.yaml"]);
    until("it is to be cut", || space.alive().iter().any(|(_, command)| command.starts_with("sleep 60")));
    flow.signal(Signal::SIGKILL);
    flow.wait();
    space.flow(["run", "w.yaml"]).expect(0);
    let log = space.flow(["logs", "train"]).expect(0).stdout();
    let of_both = log.starts_with("epoch 1\n[flow: an attempt was ended here") && log.trim_end().ends_with("epoch 2");
    assert!(of_both, "{log}");
}

#[test]
fn a_training_goes_on_though_its_metrics_are_read_in_another_way() {
    let space = space();
    cut_twice(&space, [MIN, MAX, MIN]);
    let found = metrics(&space);
    assert_eq!(found["acc"]["value"], 10.0, "{found}");
    let own = space.flow(["logs", "train"]).expect(0).stdout();
    assert_eq!(own.matches("epoch 1 acc").count(), 1, "{own}");
    assert_eq!(std::fs::read_dir(space.path(".flow/checkpoints")).unwrap().count(), 0);
}
