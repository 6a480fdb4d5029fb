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

#[test]
fn outputs_are_copied_out_by_name() {
    let space = space();
    space.write("w.yaml", WORKFLOW);
    space.flow(["run", "w.yaml"]).expect(0);
    space.flow(["get", "train[lr=0.1]", "model", "--to", "best.pt"]).expect(0);
    assert_eq!(space.read("best.pt"), "0.1\n");
    let mode = fs::metadata(space.path("best.pt")).unwrap().permissions().mode();
    assert_ne!(mode & 0o200, 0, "it is theirs to change");
    space.flow(["get", "train", "--to", "all"]).expect(0);
    assert_eq!(space.read("all/train[lr=0.2]/model.pt"), "0.2\n");
    assert_eq!(space.read("all/train[lr=0.1]/log.csv"), "1\n");
    space.flow(["get", "one", "--to", "pictures"]).expect(0);
    assert_eq!(space.read("pictures/a.txt"), "x\n");
    let there = space.flow(["get", "one", "figures", "--to", "best.pt"]).expect(2).text();
    assert!(there.contains("`best.pt` is there already"), "{there}");
    assert_eq!(space.read("best.pt"), "0.1\n");
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
    space.flow(["run", "w.yaml", "one", "-f", "one"]).expect(0);
    assert_eq!(space.flow(["results", "--json"]).expect(0).stdout().lines().count(), 1, "of the last run");
    assert_eq!(space.flow(["results", "--json", "--all"]).expect(0).stdout().lines().count(), 4);
}
