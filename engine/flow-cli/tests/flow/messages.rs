//! What is told of a run and of a plan is true, adds up, and is as short as what happened.

use crate::space;

const SWEEP: &str = r#"
flow: 1
name: sweep
params: {lrs: [1, 2, 3, 4], seeds: [0, 1]}
steps:
  train:
    matrix: {lr: "${{ lrs }}", seed: "${{ seeds }}"}
    run: "echo loss ${{ lr }}"
    metrics: {stdout: "loss {loss}"}
  table: {uses: flow/table, with: {from: train, rows: lr, over: seed, columns: [loss]}}
  best: {uses: flow/best, with: {table: table, column: loss, goal: min}}
"#;

#[test]
fn results_that_changed_are_counted_by_step_and_new_ones_are_not_said_to_have_changed() {
    let space = space();
    space.write("w.yaml", SWEEP);
    space.flow(["run", "w.yaml"]).expect(0);
    let run = |text: &str| {
        space.write("w.yaml", text);
        space.flow(["run", "w.yaml"]).expect(0).text()
    };
    let more = SWEEP.replace("[0, 1]", "[0, 1, 2]");
    let text = run(&more);
    assert!(text.contains("ran       table: 4 results of train are new\n"), "{text}");
    assert!(text.contains("ran       best: the result of table changed; 4 results of train are new\n"), "{text}");
    let text = run(&more.replace("echo", "echo the"));
    let command = "the command was `echo loss 1`, is `echo the loss 1`; the others alike";
    assert!(text.contains(&format!("ran       train × 12: {command}\n")), "{text}");
    assert!(text.contains("ran       table: 12 results of train changed\n"), "{text}");
    let text = run(&more.replace("[1, 2, 3, 4]", "[1, 5]").replace("echo", "echo its"));
    let results = "3 results of train changed; 9 results of train are no longer used; 3 results of train are new";
    assert!(text.contains(results), "{text}");
}

#[test]
fn one_mistake_is_one_error() {
    let space = space();
    space.write("w.yaml", &SWEEP.replace("columns: [loss]", "columns: [losss]"));
    let said = space.flow(["check", "w.yaml"]).expect(2).text();
    assert!(said.contains("did you mean `loss`?") && said.contains("1 error"), "{said}");
    space.write("w.yaml", &SWEEP.replace("${{ lrs }}", "${{ lrs + }}"));
    let said = space.flow(["check", "w.yaml"]).expect(2).text();
    assert!(said.contains("`lrs +` is no expression") && said.contains("1 error"), "{said}");
    space.write("w.yaml", SWEEP);
    let said = space.flow(["why", "train[lr=9]", "-w", "w.yaml"]).expect(2).text();
    assert!(said.contains("`lr` is `1`, `2`, `3`, `4` here"), "{said}");
    let said = space.flow(["why", "train[rate=1]", "-w", "w.yaml"]).expect(2).text();
    assert!(said.contains("it has no axis `rate`") && said.contains("there are `lr`, `seed`"), "{said}");
}

#[test]
fn a_mistyped_file_is_told_with_the_one_that_is_there() {
    let space = space();
    let said = space.flow(["run"]).expect(2).text();
    assert!(said.contains("`flow init`"), "{said}");
    space.write("sweep.yaml", SWEEP);
    let said = space.flow(["run", "swep.yaml"]).expect(2).text();
    assert!(said.contains("did you mean `sweep.yaml`?"), "{said}");
}

#[test]
fn of_many_instances_each_command_says_little() {
    let space = space();
    space.write("w.yaml", SWEEP);
    let run = |args: &[&str]| {
        space.flow([&["run", "w.yaml"], args].concat()).expect(0);
        space.journal()[0]["run"].as_str().unwrap().to_owned()
    };
    run(&[]);
    run(&["--set", "lrs=[2, 3, 4, 5]"]);
    let said = |args: &[&str]| space.flow(args.iter().copied()).expect(0).stdout();
    let show = said(&["show", "train"]);
    assert!(show.starts_with("train[lr=2,seed=0]  ok  ") && show.lines().count() == 8, "{show}");
    assert!(show.lines().all(|line| line.contains("  loss ")), "{show}");
    assert!(said(&["show", "train", "-v"]).lines().count() > 40);
    let why = said(&["why", "train", "--set", "lrs=[1, 2, 3, 6]"]);
    let lines: Vec<&str> = why.lines().collect();
    assert!(
        lines[0]
            .ends_with(", train[lr=3,seed=1]: cached, no declared input, command or parameter changed since run RUN"),
        "{why}"
    );
    assert_eq!(lines[1..], ["train[lr=6,seed=0], train[lr=6,seed=1]: would run", "  - its first run"]);
}
