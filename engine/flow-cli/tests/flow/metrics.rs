//! Metrics are read from what was kept: a pattern that is mended or renamed trains nothing again.

use std::{
    fs,
    path::PathBuf,
    time::{Duration, SystemTime},
};

use flow_testkit::TestSpace;
use serde_json::Value;

use crate::space;

const TRAIN: &str = "for e in 1 2 3 4; do
  n=0; while [ $n -lt 60000 ]; do n=$((n+1)); done
  sleep 0.3; echo \"Epoch $e: loss 0.$((9 - e)), acc $((e * 20))%\"
done; echo model > model.pt; echo '{\"top1\": 0.5, \"top5\": 0.9}' > m.json
";

/// A training with the metrics that are declared, and steps that read some of it.
fn write(space: &TestSpace, metrics: &str, more: &str) {
    let workflow = format!(
        "flow: 1\nname: m\nsteps:\n  train: {{run: sh train.sh, inputs: [train.sh], outputs: [model.pt], metrics: {metrics}}}\n{more}"
    );
    space.write("train.sh", TRAIN).write("m.yaml", &workflow);
}

fn result(space: &TestSpace, step: &str) -> Value {
    let shown = space.flow(["show", step, "--json"]).expect(0).stdout();
    let mut result: Value = serde_json::from_str(shown.lines().next().unwrap_or_default()).unwrap_or_default();
    // How it was started is in the journal of its run, which gc may have removed.
    let fields = result.as_object_mut();
    fields.into_iter().for_each(|fields| fields.retain(|name, _| name != "command" && name != "ran_because"));
    result
}

/// Processes that the newest run started.
fn started(space: &TestSpace) -> usize {
    space.journal().iter().filter(|line| line["event"] == "started").count()
}

const READERS: &str = "  report: {run: 'echo loss ${{ steps.train.metrics.loss }}'}
  weights: {run: 'cat ${{ steps.train.out }}'}
  table: {uses: flow/table, with: {from: train, columns: [loss, top1, epoch_time]}}
";

#[test]
fn a_pattern_that_matches_nothing_is_mended_without_a_training() {
    let space = space();
    write(&space, "{stdout: 'Epoche {epoch}: loss {loss}, acc {top1:%}'}", READERS);
    let said = space.flow(["run", "m.yaml", "-k"]).expect(1).stdout();
    assert!(said.contains("train in") && said.contains("no printed line matches the pattern"), "{said}");
    assert!(said.contains("`train` has no metric `loss`; it has none"), "{said}");
    let missed = result(&space, "train");
    assert_eq!((&missed["outcome"], &missed["cause"]["kind"]), (&"ok".into(), &"no_metrics".into()));
    let table = space.flow(["show", "table"]).expect(0).stdout();
    assert!(table.contains("lacks metrics: no printed line"), "{table}");
    let chinese = space.flow(["show", "table", "--lang", "zh"]).expect(0).stdout();
    assert!(chinese.contains("缺少指标：程序输出中没有一行"), "{chinese}");

    write(&space, "{stdout: 'Epoch {epoch}: loss {loss}, acc {top1:%}'}", READERS);
    let plan = space.flow(["plan", "m.yaml"]).expect(0).stdout();
    assert!(plan.contains("read again from the stored output"), "{plan}");
    let why = space.flow(["why", "-w", "m.yaml", "train"]).expect(0).stdout();
    assert!(why.contains("cached, read again from the stored output by run"), "{why}");
    let said = space.flow(["run", "m.yaml", "-v"]).expect(0).stdout();
    assert!(said.contains("train, read again"), "{said}");
    let mut ran = space.ran();
    ran.sort();
    assert_eq!(ran, ["report", "table"], "what reads its file alone does not run again");
    let mended = result(&space, "train");
    assert_eq!(mended["metrics"]["loss"]["value"], 0.5);
    assert_eq!(mended["metrics"]["epoch_time"]["epochs"], 3);
    assert_eq!((&mended["run"], &mended["cause"]), (&missed["run"], &Value::Null));

    // Nothing is to be done now, nor is with a database that is made anew from the journals.
    space.flow(["run", "m.yaml"]).expect(0);
    fs::remove_dir_all(space.path(".flow/db")).unwrap();
    space.flow(["doctor"]).expect(0);
    assert!(space.flow(["plan", "m.yaml"]).expect(0).stdout().contains("4 cached"));
    assert_eq!(result(&space, "train"), mended);
}

/// The workflow of both runs has the new pattern, so it is no difference between them.
#[test]
fn a_reading_is_no_change_for_the_run_after_it() {
    let space = space();
    let write = |summary: &str, number: u32| {
        space.write("train.sh", &format!("echo acc {number}\n"));
        space.write(
            "m.yaml",
            &format!("flow: 1\nsteps:\n  train: {{run: sh train.sh, inputs: [train.sh], metrics: {{stdout: 'acc {{acc}}'{summary}}}}}\n"),
        );
        space.flow(["run", "m.yaml"]).expect(0);
    };
    write("", 1);
    write(", summary: {acc: max}", 1);
    write(", summary: {acc: max}", 2);
    let differ = space.flow(["diff"]).expect(0).stdout();
    assert!(differ.contains("train.sh changed") && !differ.contains("summary"), "{differ}");
}

#[test]
fn a_file_that_was_not_named_is_read_later() {
    let space = space();
    let write = |metrics: &str| {
        let numbers = "echo loss 1\n      echo '{\"acc\": 0.5}' > m.json\n      mkdir logs\n      printf 'epoch,top1\\n1,0.25\\n' > logs/log.csv";
        let step = format!("    run: |\n      {numbers}\n{metrics}");
        space.write("m.yaml", &format!("flow: 1\nname: m\nsteps:\n  train:\n{step}"));
        space.flow(["run", "m.yaml"]).expect(0);
        started(&space)
    };
    assert_eq!(write(""), 1);
    assert_eq!(write("    metrics: {stdout: 'loss {loss}'}\n"), 0, "nobody had asked for numbers");
    assert_eq!(write("    metrics: {stdout: 'loss {loss}', json: m.json, csv: logs/log.csv}\n"), 0);
    let read = result(&space, "train");
    let values = ["loss", "acc", "top1"].map(|name| read["metrics"][name]["value"].as_f64());
    assert_eq!(values, [Some(1.0), Some(0.5), Some(0.25)], "{read}");
    assert_eq!(write("    metrics: {json: other.json}\n"), 1, "nobody knows what stood there");
}

#[test]
fn a_metric_is_renamed_in_a_sweep() {
    let space = space();
    let write = |metrics: &str| {
        let sweep = "matrix: {lr: [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20]}";
        let of_loss = "with: {from: train, rows: lr, columns: [loss]}";
        let steps = format!(
            "  train: {{{sweep}, run: 'echo loss 0.${{{{ lr }}}} rate ${{{{ lr }}}}', metrics: {{stdout: '{metrics}'}}}}\n  \
             best: {{run: 'echo ${{{{ steps.train | map(attribute=\"metrics.loss\") | min }}}}'}}\n  table: {{uses: flow/table, {of_loss}}}\n"
        );
        space.write("m.yaml", &format!("flow: 1\nname: m\nsteps:\n{steps}"));
    };
    write("los {loss} rate {rate}");
    let said = space.flow(["run", "m.yaml", "-k"]).expect(1).stdout();
    assert!(said.contains("  no number train × 20: no printed line matches the pattern of its metrics"), "{said}");
    write("loss {loss} rate {rate}");
    space.flow(["run", "m.yaml"]).expect(0);
    assert!(started(&space) <= 2, "nothing trains again");
    write("loss {loss} rate {learning_rate}");
    let said = space.flow(["run", "m.yaml"]).expect(0).stdout();
    assert!(said.contains("21 cached, 1 ran"), "{said}");
    assert_eq!(space.ran(), ["table"], "the loss, which another step reads, is as it was");
    assert_eq!(result(&space, "train[lr=7]")["metrics"]["learning_rate"]["value"], 7.0);
    // And back: those results are still there.
    write("loss {loss} rate {rate}");
    space.flow(["run", "m.yaml"]).expect(0);
    assert_eq!((space.ran(), started(&space)), (vec![], 0));
}

#[test]
fn where_metrics_are_required_a_training_without_them_has_failed_and_is_kept() {
    let space = space();
    let write = |pattern: &str| {
        let metrics = format!("retries: 2, metrics: {{stdout: '{pattern}', required: true}}");
        let run = "run: 'echo loss 3; date +%N > model.pt', outputs: [model.pt]";
        let steps = format!("  train: {{{run}, {metrics}}}\n");
        space.write(
            "m.yaml",
            &format!("flow: 1\nname: m\nsteps:\n{steps}  next: {{run: 'cat ${{{{ steps.train.out }}}}'}}\n"),
        );
    };
    write("los {loss}");
    let said = space.flow(["run", "m.yaml"]).expect(1).text();
    assert_eq!(space.ran(), ["train!"]);
    assert!(!said.lines().any(|line| line.contains("done") && line.contains("train")), "{said}");
    let shown = space.flow(["show", "train"]).expect(0).stdout();
    assert!(shown.starts_with("train  failed") && shown.contains("no printed line matches"), "{shown}");
    for all in [&["results"][..], &["results", "--all"]] {
        let rows = space.flow(all).expect(0).stdout();
        assert!(rows.contains("m,train,train,,failed,"), "{rows}");
    }
    let said = space.flow(["run", "m.yaml"]).expect(1);
    assert_eq!(started(&space), 0, "it would be found no better: {}", said.stdout());
    assert!(said.stdout().contains("no printed line matches"), "{}", said.stdout());
    let shown = space.flow(["show", "train"]).expect(0).stdout();
    assert!(shown.starts_with("train: failed: no printed line matches"), "{shown}");
    assert!(space.flow(["logs", "train"]).expect(0).stdout().trim_end().ends_with("loss 3"), "as the message says");
    write("loss {loss}");
    space.flow(["run", "m.yaml"]).expect(0);
    assert_eq!(space.ran(), ["next"]);
    assert_eq!(result(&space, "train")["metrics"]["loss"]["value"], 3.0);
    assert!(space.flow(["show", "train"]).expect(0).stdout().starts_with("train  ok"));
}

#[test]
fn numbers_stand_in_several_places_and_one_that_is_missing_is_mended_alone() {
    let space = space();
    let write = |metrics: &str| {
        let command = "echo loss 3; echo a,b > t.csv; echo 1,2 >> t.csv; echo '{\"epoch\": 1, \"c\": 4}' > m.jsonl";
        let step = format!("{{run: \"{}\", metrics: {metrics}}}", command.replace('"', "\\\""));
        space.write("m.yaml", &format!("flow: 1\nname: m\nsteps:\n  train: {step}\n"));
    };
    let found =
        || result(&space, "train")["metrics"].as_object().unwrap().keys().cloned().collect::<Vec<_>>().join(" ");
    write("{stdout: 'los {loss}', csv: t.csv, jsonl: m.jsonl, json: none.json}");
    let said = space.flow(["run", "m.yaml"]).expect(0).stdout();
    assert!(said.contains("no printed line matches the pattern"), "{said}");
    assert_eq!(found(), "a b c", "what is there is read");
    // The file that is not there was looked for, and nothing runs again for it.
    write("{stdout: 'loss {loss}', csv: t.csv, jsonl: m.jsonl, json: none.json}");
    let said = space.flow(["run", "m.yaml", "-v"]).expect(0).stdout();
    assert!(said.contains("flow cannot read `none.json`, which should hold its metrics"), "{said}");
    assert_eq!((started(&space), found()), (0, "a b c loss".to_owned()));
    write("{stdout: 'loss {loss}', csv: t.csv, jsonl: m.jsonl}");
    space.flow(["run", "m.yaml"]).expect(0);
    assert_eq!((started(&space), &result(&space, "train")["cause"]), (0, &Value::Null));
}

/// An event file as PyTorch writes it.
const EVENTS: &[u8] = include_bytes!("../../../flow-core/tests/loggers/torch.tfevents");

#[test]
fn scalars_of_tensorboard_are_read_and_read_again() {
    let space = space();
    fs::write(space.path("events"), EVENTS).unwrap();
    let write = |metrics: &str| {
        let command =
            "mkdir -p runs/val; cp events runs/events.out.tfevents.1.a; cp events runs/val/events.out.tfevents.2.a";
        let step = format!("{{run: '{command}', inputs: [events], metrics: {metrics}}}");
        space.write("m.yaml", &format!("flow: 1\nname: m\nsteps:\n  train: {step}\n"));
    };
    let value = |metric: &str| result(&space, "train")["metrics"][metric]["value"].as_f64();
    write("{tensorboard: run}");
    let said = space.flow(["run", "m.yaml"]).expect(0).stdout();
    assert!(said.contains("flow cannot read `run`, which should hold its metrics"), "{said}");
    write("{tensorboard: runs}");
    space.flow(["run", "m.yaml"]).expect(0);
    assert_eq!((started(&space), value("accuracy_val"), value("val_loss_train")), (0, Some(0.8), Some(0.333_333_34)));
    write("{tensorboard: runs, summary: {accuracy_val: max, loss_train: at max accuracy_val}}");
    space.flow(["run", "m.yaml"]).expect(0);
    assert_eq!((started(&space), value("accuracy_val"), value("loss_train")), (0, Some(0.9), Some(0.5)));
}

#[test]
fn lines_of_a_file_are_shown_while_it_is_written() {
    let space = space();
    let lines = r#"for e in 1 2 3; do echo "{\"epoch\": $e, \"loss\": 0.$e}" >> m.jsonl; sleep 0.4; done"#;
    space.write("train.sh", &format!("{lines}\nprintf '{{\"epoch\": 4, \"lo' >> m.jsonl\n"));
    let step = "train: {run: sh train.sh, inputs: [train.sh], metrics: {jsonl: m.jsonl}}";
    space.write("m.yaml", &format!("flow: 1\nname: m\nsteps:\n  {step}\n"));
    let said = space.flow(["run", "m.yaml", "-v"]).expect(0).stdout();
    assert!(said.contains("train 1  loss 0.1") && said.contains("train 3  loss 0.3"), "{said}");
    let epochs: Vec<Value> =
        space.journal().iter().filter(|line| line["event"] == "epoch").map(|line| line["epoch"].clone()).collect();
    assert_eq!(epochs, [1, 2, 3]);
    assert_eq!(result(&space, "train")["metrics"]["loss"]["value"], 0.3, "half a line at the end is none");
}

#[test]
fn the_series_of_what_is_read_again_is_kept() {
    let space = space();
    let write = |name: &str| {
        let run = "for e in 1 2 3; do sleep 0.3; echo \"Epoch $e loss 0.$e\"; done";
        let metrics = format!("{{stdout: 'Epoch {{epoch}} loss {{{name}}}'}}");
        space.write("w.yaml", &format!("flow: 1\nname: w\nsteps: {{train: {{run: '{run}', metrics: {metrics}}}}}\n"));
        space.flow(["run", "w.yaml"]).expect(0).stdout()
    };
    assert!(write("loss").contains("1 ran"));
    assert!(write("train_loss").contains("1 cached"));
    let recorded = space.journal().into_iter().find(|line| line["event"] == "recorded").unwrap();
    assert!(recorded["result"]["series"].is_string(), "{recorded}");
    let said = space.flow(["doctor", "--contents"]).expect(0).text();
    assert!(!said.contains("is gone"), "{said}");
}

/// A day of training is not lost because a name in the workflow was wrong.
#[test]
fn outputs_that_are_declared_anew_are_collected_from_the_kept_work_folder() {
    let space = space();
    let write_with = |outputs: &str, shell: &str| {
        let train = format!(
            "train: {{run: sh train.sh, inputs: [train.sh], outputs: {outputs}, metrics: {{json: m.json, required: true}}}}"
        );
        space.write("train.sh", shell).write("m.yaml", &format!("flow: 1\nname: m\nsteps:\n  {train}\n  weights: {{run: 'cat ${{{{ steps.train.outputs.model }}}} ${{{{ steps.train.outputs.plots }}}}/a'}}\n"));
    };
    let shell = "mkdir plots; echo a > plots/a; echo model > model.pt; echo '{\"top1\": 0.5}' > m.json";
    write_with("{plots: plots, model: modle.pt}", shell);
    let said = space.flow(["run", "m.yaml"]).expect(1).stdout();
    assert!(said.contains("new files in its work folder") && said.contains("`model.pt`"), "{said}");

    write_with("{plots: plots, model: model.pt}", shell);
    let plan = space.flow(["plan", "m.yaml"]).expect(0).stdout();
    assert!(plan.contains("read again from the stored output"), "{plan}");
    let said = space.flow(["run", "m.yaml"]).expect(0).stdout();
    assert!(said.contains("its program did not run again"), "{said}");
    assert_eq!(space.ran(), ["weights"]);
    assert_eq!(result(&space, "train")["metrics"]["top1"]["value"], 0.5);
    // "nothing to do: 2 results cached", unless the files are so new that they are hashed again.
    let said = space.flow(["run", "m.yaml"]).expect(0).text();
    assert!(said.contains("2 cached") || said.contains("2 results cached"), "{said}");

    // Another program, or a file that was written since, is no result of this one.
    let other = shell.replace("echo model", "echo other");
    write_with("{plots: plots, model: modle.pt}", &other);
    space.flow(["run", "m.yaml"]).expect(1);
    write_with("{plots: plots, model: model.pt}", &shell.replace("echo model", "echo third"));
    let plan = space.flow(["plan", "m.yaml"]).expect(0).stdout();
    assert!(plan.contains("input `train.sh`") && !plan.contains("read again"), "another program: {plan}");
    write_with("{plots: plots, model: model.pt}", &other);
    let plan = space.flow(["plan", "m.yaml"]).expect(0).stdout();
    assert!(plan.contains("read again"), "{plan}");
    let is_other = |path: &&PathBuf| {
        path.ends_with("work/model.pt") && fs::read_to_string(path).is_ok_and(|text| text == "other\n")
    };
    let kept = flow_testkit::files_below(space.cache());
    let file = fs::File::options().append(true).open(kept.iter().find(is_other).unwrap()).unwrap();
    file.set_modified(SystemTime::now() + Duration::from_secs(9)).unwrap();
    let plan = space.flow(["plan", "m.yaml"]).expect(0).stdout();
    assert!(!plan.contains("read again"), "written since: {plan}");
}
