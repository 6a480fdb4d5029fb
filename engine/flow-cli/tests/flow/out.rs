//! Results come out: files by name, numbers as a table.

use std::{fs, os::unix::fs::PermissionsExt};

use crate::space;

const WORKFLOW: &str = r#"
flow: 1
name: w
steps:
  train:
    matrix: {lr: [0.1, 0.2]}
    run: "mkdir -p out && echo ${{ lr }} > out/model.pt && echo 1 > log.csv && echo loss ${{ lr }}"
    outputs: [out/model.pt, log.csv]
    metrics: {stdout: "loss {loss}"}
  one: {run: mkdir figures && echo x > figures/a.txt, outputs: [figures/]}
"#;
const TABLE: &str = "  table: {uses: flow/table, with: {from: train, rows: lr, columns: [loss]}}\n";

#[test]
fn outputs_are_copied_out_by_name() {
    let space = space();
    space.write("w.yaml", &format!("{WORKFLOW}{TABLE}"));
    space.flow(["run", "w.yaml"]).expect(0);
    space.flow(["get", "train[lr=0.1]", "model", "--to", "best.pt"]).expect(0);
    assert_eq!(space.read("best.pt"), "0.1\n");
    let mode = fs::metadata(space.path("best.pt")).unwrap().permissions().mode();
    assert_ne!(mode & 0o200, 0, "it is theirs to change");
    space.flow(["get", "train", "--to", "all"]).expect(0);
    assert_eq!(space.read("all/train[lr=0.2]/model.pt"), "0.2\n");
    assert_eq!(space.read("all/train[lr=0.1]/log.csv"), "1\n");
    space.flow(["get", "one", "figures", "--to", "pictures"]).expect(0);
    assert_eq!(space.read("pictures/a.txt"), "x\n");
    let there = space.flow(["get", "one", "figures", "--to", "best.pt"]).expect(2).text();
    assert!(there.contains("`best.pt` exists already"), "{there}");
    assert_eq!(space.read("best.pt"), "0.1\n");
    let again = space.flow(["get", "one", "--to", "pictures"]).expect(2).text();
    assert!(again.contains("`pictures` exists already") && !space.path("pictures/figures").exists(), "{again}");
    space.flow(["get", "one", "--to", "all"]).expect(0);
    assert_eq!(space.read("all/figures/a.txt"), "x\n");
    space.flow(["get", "table", "--to", "new/table.csv"]).expect(0);
    assert_eq!(space.read("new/table.csv").lines().next(), Some("lr,loss"));
    let none = space.flow(["get", "train", "nodel", "--to", "x"]).expect(2).text();
    assert!(none.contains("no output `nodel`") && none.contains("it has log, model"), "{none}");
}

#[test]
fn results_are_a_table() {
    let space = space();
    space.write("w.yaml", WORKFLOW);
    space.flow(["run", "w.yaml"]).expect(0);
    let csv = space.flow(["results", "train"]).expect(0).stdout();
    let mut lines = csv.lines().map(|line| line.split(',').collect::<Vec<_>>());
    let head = lines.next().unwrap();
    let at = |name: &str| head.iter().position(|column| *column == name).unwrap_or_else(|| panic!("{head:?}"));
    let rows: Vec<_> = lines.map(|row| (row[at("axis.lr")], row[at("loss")], row[at("outcome")])).collect();
    assert_eq!(rows, [("0.1", "0.1", "ok"), ("0.2", "0.2", "ok")]);
    let set = WORKFLOW.replace("name: w", "name: w\nparams: {passes: 3}");
    let one = "run: 'mkdir figures && echo ${{ passes }} > figures/a.txt'";
    space.write("w.yaml", &set.replace("run: mkdir figures && echo x > figures/a.txt", one));
    space.flow(["run", "w.yaml", "one", "-f", "one", "--set", "passes=4"]).expect(0);
    let one = space.flow(["results"]).expect(0).stdout();
    assert!(
        one.starts_with("workflow,step,instance,") && one.contains(",param.passes,") && one.contains(",4,"),
        "{one}"
    );
    assert_eq!(space.flow(["results", "--json"]).expect(0).stdout().lines().count(), 1, "of the last run");
    assert_eq!(space.flow(["results", "--json", "--all"]).expect(0).stdout().lines().count(), 4);

    // A reused result is that of the instance that reuses it, whose axis has another name.
    space.write("w.yaml", &WORKFLOW.replace("lr", "rate"));
    assert!(space.flow(["run", "w.yaml"]).expect(0).stdout().contains("3 cached"));
    let line = space.flow(["results", "train[rate=0.2]", "--json"]).expect(0).stdout();
    let row: serde_json::Value = serde_json::from_str(&line).unwrap();
    assert_eq!((&row["axis.rate"], row.get("axis.lr")), (&serde_json::json!(0.2), None), "{line}");
}

#[test]
fn a_metric_takes_no_other_column() {
    let space = space();
    let best = "  table: {uses: flow/table, with: {from: train, rows: lr, columns: [loss, n]}}
  best: {uses: flow/best, with: {table: table, column: loss, goal: min}}\n";
    let train = WORKFLOW.replace("echo loss ${{ lr }}", "echo loss ${{ lr }} n 1,000 run 3");
    space.write("w.yaml", &(train.replace("loss {loss}", "loss {loss} n {n} run {run}") + best));
    space.flow(["run", "w.yaml"]).expect(0);
    let lines = space.flow(["results", "--json", "train[lr=0.1]", "best"]).expect(0).stdout();
    let rows: Vec<serde_json::Value> = lines.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let (train, best) = (&rows[0], &rows[1]);
    assert_eq!((&train["run"], &train["metric.run"]), (&"RUN".into(), &3.into()), "{train}");
    assert_eq!((train["n"].to_string(), train["loss"].to_string()), ("1000".to_owned(), "0.1".to_owned()));
    assert_eq!((&best["instance"], &best["metric.instance"]), (&"best".into(), &0.into()), "{best}");
}

#[test]
fn what_is_forgotten_runs_again_and_does_not_come_back() {
    let space = space();
    space.write("w.yaml", WORKFLOW);
    space.flow(["run", "w.yaml"]).expect(0);
    let said = space.flow(["forget", "train[lr=0.1]"]).expect(0).stdout();
    assert_eq!(said.trim_end(), "forgotten: 1 result of 1 instance");
    let plan = || space.flow(["plan", "w.yaml"]).expect(0).stdout();
    assert!(plan().contains("3 instances: 2 cached, 1 to run"), "{}", plan());
    space.flow(["doctor"]).expect(0);
    assert!(plan().contains("1 to run"), "doctor brings back only what was lost");
    std::fs::remove_dir_all(space.path(".flow/db")).unwrap();
    space.flow(["doctor"]).expect(0);
    assert!(plan().contains("1 to run"), "nor does a database that is made anew");
    space.flow(["run", "w.yaml"]).expect(0);
    assert!(plan().contains("3 instances: 3 cached"));
    std::fs::remove_dir_all(space.path(".flow/db")).unwrap();
    space.flow(["doctor"]).expect(0);
    assert!(plan().contains("3 instances: 3 cached"), "what was made again is there again");
    space.flow(["forget", "nothing"]).expect(2);
}

#[test]
fn what_a_renamed_step_reuses_is_its_own() {
    let space = space();
    space.write("w.yaml", WORKFLOW);
    space.flow(["run", "w.yaml"]).expect(0);
    space.write("w.yaml", &WORKFLOW.replace("train:", "fit:"));
    space.flow(["run", "w.yaml"]).expect(0);
    for follow in [&[][..], &["-f"]] {
        let logs = space.flow([&["logs", "fit[lr=0.1]"], follow].concat());
        assert_eq!(logs.expect(0).stdout().trim_end(), "loss 0.1", "{follow:?}");
    }
    assert!(space.flow(["results", "fit"]).expect(0).stdout().contains("\nw,fit,fit[lr=0.1],"));
    let why = space.flow(["why", "fit[lr=0.1]"]).expect(0).stdout();
    assert!(why.trim_end().ends_with("fit[lr=0.1]: reuses the result of train[lr=0.1]"), "{why}");
    let said = space.flow(["forget", "fit[lr=0.1]"]).expect(0).stdout();
    assert_eq!(said.trim_end(), "forgotten: 1 result of 1 instance, also used by train[lr=0.1]");
    let plan = space.flow(["plan", "w.yaml"]).expect(0).stdout();
    assert!(plan.contains("3 instances: 2 cached, 1 to run"), "{plan}");
}

#[test]
fn what_the_last_run_left_out_is_shown_of_the_last_one_that_had_it() {
    let space = space();
    space.write("w.yaml", "flow: 1\nsteps:\n  a: {run: echo one > o, outputs: [o]}\n  b: {run: echo two}\n");
    space.flow(["run", "w.yaml"]).expect(0);
    space.flow(["run", "w.yaml", "b"]).expect(0);
    for command in [&["show", "a"][..], &["logs", "a"], &["get", "a", "--to", "o.txt"]] {
        let said = space.flow(command).expect(0).text();
        assert!(said.contains("note: the last run has no `a`: showing run "), "{command:?}: {said}");
    }
    assert_eq!(space.read("o.txt"), "one\n");
    let said = space.flow(["show", "c"]).expect(2).text();
    assert!(said.contains("the run has no step or instance `c`"), "{said}");
}

#[test]
fn a_script_may_be_longer_than_an_argument() {
    let space = space();
    let long = "x".repeat(200_000);
    space.write(
        "w.yaml",
        &format!("flow: 1\nname: w\nsteps: {{a: {{run: 'echo {long} | wc -c'}}, b: {{run: 'echo {long}'}}}}\n"),
    );
    let said = space.flow(["run", "w.yaml", "-k"]).expect(1).text();
    assert_eq!(space.flow(["logs", "a"]).expect(0).stdout().trim(), "200001");
    assert!(said.contains("too long; a script of several lines"), "{said}");
}

#[test]
fn a_run_has_a_note_and_its_settings() {
    let space = space();
    space.write("w.yaml", "flow: 1\nname: w\nparams: {n: 1}\nsteps: {a: {run: \"echo ${{ n }}\"}}\n");
    space.flow(["run", "w.yaml", "--set", "n=2", "-m", "the larger one"]).expect(0);
    let runs = space.flow(["runs"]).expect(0).stdout();
    assert!(runs.contains("n=2 “the larger one”"), "{runs}");
    space.write("values.yaml", "n: 3\n");
    space.flow(["run", "w.yaml", "--params", "values.yaml"]).expect(0);
    assert!(space.flow(["runs"]).expect(0).stdout().contains("n=3"));
    space.write("values.yaml", "- 3\n");
    let wrong = space.flow(["run", "w.yaml", "--params", "values.yaml"]).expect(2).text();
    assert!(wrong.contains("--params values.yaml:") && wrong.contains("expected a mapping"), "{wrong}");
}

#[test]
fn what_failed_in_the_last_run_says_which_run_has_its_outputs() {
    let space = space();
    let with = |run: &str| format!("flow: 1\nsteps:\n  a: {{run: '{run}', outputs: {{m: m.txt}}}}\n");
    space.write("w.yaml", &with("echo 1 > m.txt")).flow(["run", "w.yaml"]).expect(0);
    space.write("w.yaml", &with("false")).flow(["run", "w.yaml"]).expect(1);
    let said = space.flow(["get", "a", "--to", "m"]).expect(2).text();
    assert!(said.contains("`a` failed in the last run") && said.contains("has its outputs: --run "), "{said}");
}

#[test]
fn check_warns_of_a_file_in_a_command_that_is_no_input() {
    let (mut space, other) = (space(), space());
    space.env("HOME", &other.path("").display().to_string());
    let file = other.path("conf.json").display().to_string();
    let text = format!("flow: 1\nsteps:\n  a: {{run: cat --config={file}}}\n");
    space.write("w.yaml", &text);
    let check = || space.flow(["check"]).expect(0).stdout();
    assert!(!check().contains("warning:"), "there is no such file");
    other.write("conf.json", "{}");
    for path in [&*file, "~/conf.json", "'$HOME/conf.json'", "${HOME}/conf.json"] {
        space.write("w.yaml", &format!("flow: 1\nsteps:\n  a: {{run: \"cat {path}\"}}\n"));
        let said = check();
        assert!(said.contains("conf.json` is not under `inputs:` of `a`, so an edit of it does not rerun"), "{said}");
    }
    space.write("w.yaml", &text.replace("}", &format!(", inputs: [{file}]}}")));
    assert!(!check().contains("warning:"), "it is an input");
}
