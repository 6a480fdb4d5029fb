//! Metrics are read from what was kept: a pattern that is mended or renamed trains nothing again.

use std::fs;

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
    serde_json::from_str(shown.lines().next().unwrap_or_default()).unwrap_or_default()
}

/// What does not depend on where the metrics are declared to be.
fn numbers(result: &Value) -> Vec<Value> {
    let fields = ["outcome", "run", "started_at", "metrics", "usage", "circumstances", "series", "outputs"];
    fields.iter().map(|field| result[*field].clone()).collect()
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
    assert!(said.contains("train in") && said.contains("no line that it printed matches the pattern"), "{said}");
    assert!(said.contains("`train` has no metric `loss`; it has none"), "{said}");
    let missed = result(&space, "train");
    assert_eq!((&missed["outcome"], &missed["cause"]["kind"]), (&"ok".into(), &"no_metrics".into()));
    let table = space.flow(["show", "table"]).expect(0).stdout();
    assert!(table.contains("has no metrics: no line that it printed"), "{table}");
    let chinese = space.flow(["show", "table", "--lang", "zh"]).expect(0).stdout();
    assert!(chinese.contains("没有指标：程序输出中没有一行"), "{chinese}");

    write(&space, "{stdout: 'Epoch {epoch}: loss {loss}, acc {top1:%}'}", READERS);
    let plan = space.flow(["plan", "m.yaml"]).expect(0).stdout();
    assert!(plan.contains("its metrics read again from what was kept"), "{plan}");
    let why = space.flow(["why", "-w", "m.yaml", "train"]).expect(0).stdout();
    assert!(why.contains("cached, its metrics read again from what was kept by run"), "{why}");
    let said = space.flow(["run", "m.yaml", "-v"]).expect(0).stdout();
    assert!(said.contains("train, its metrics read again"), "{said}");
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

#[test]
fn what_is_read_again_is_what_would_have_been_read_live() {
    let space = space();
    write(&space, "{stdout: 'Epoch {epoch}: loss {loss}, acc {top1:%}'}", "");
    space.flow(["run", "m.yaml"]).expect(0);
    let live = result(&space, "train");
    assert!(live["usage"]["samples"].as_u64() > Some(0) && live["metrics"]["epoch_time"]["value"].as_f64() > Some(0.3));
    // The older runs go, and with them the results that were read before; what was kept stays with the newer one.
    for (metrics, like_live) in [
        ("{stdout: 'nothing {like} that'}", false),
        ("{stdout: 'Epoch {epoch}:  loss {loss},  acc {top1:%}'}", true),
        ("{json: model.pt}", false),
        ("{stdout: 'Epoch {epoch}: loss {loss}, acc {top1:%}'}", true),
    ] {
        write(&space, metrics, "");
        space.flow(["run", "m.yaml"]).expect(0);
        assert_eq!(started(&space), 0, "{metrics}");
        let again = result(&space, "train");
        assert_eq!(numbers(&again) == numbers(&live), like_live, "{again}\n{live}");
        space.flow(["gc", "--runs", "1", "--days", "0"]).expect(0);
    }
    assert_eq!(result(&space, "train"), live);
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
    write("loss {loss} rate {rate}");
    space.flow(["run", "m.yaml"]).expect(0);
    assert_eq!(space.ran().len(), 22);
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
    space.flow(["run", "m.yaml"]).expect(1);
    assert_eq!(space.ran(), ["train!"]);
    let said = space.flow(["run", "m.yaml"]).expect(1);
    assert_eq!(started(&space), 0, "it would be found no better: {}", said.stdout());
    assert!(said.stdout().contains("no line that it printed matches"), "{}", said.stdout());
    write("loss {loss}");
    space.flow(["run", "m.yaml"]).expect(0);
    assert_eq!(space.ran(), ["next"]);
    assert_eq!(result(&space, "train")["metrics"]["loss"]["value"], 3.0);
}

#[test]
fn a_file_of_numbers_under_another_name_is_found() {
    let space = space();
    let write = |metrics: &str| {
        let command = "echo ''{\"loss\": 3}'' > metrics.json; echo a,b > out/t.csv; echo 1,2 >> out/t.csv";
        let step = format!("{{run: 'mkdir -p out; {command}', outputs: [out/t.csv], metrics: {metrics}}}");
        space.write("m.yaml", &format!("flow: 1\nname: m\nsteps:\n  train: {step}\n"));
    };
    let value = |metric: &str| result(&space, "train")["metrics"][metric]["value"].clone();
    write("{json: metric.json}");
    let said = space.flow(["run", "m.yaml"]).expect(0).stdout();
    assert!(said.contains("its metrics were expected in `metric.json`"), "{said}");
    for (metrics, metric, expected) in [("{json: metrics.json}", "loss", 3.0), ("{csv: out/t.csv}", "b", 2.0)] {
        write(metrics);
        space.flow(["run", "m.yaml"]).expect(0);
        assert_eq!((started(&space), value(metric)), (0, expected.into()), "{metrics}");
    }
    // What nobody kept is to be made.
    write("{json: other.json}");
    space.flow(["run", "m.yaml"]).expect(0);
    assert_eq!(space.ran(), ["train"]);
}
