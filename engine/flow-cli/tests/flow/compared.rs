//! `flow diff`: what of two runs is not the same.

use std::fs;

use crate::space;

#[test]
fn how_the_inputs_of_two_runs_differ_is_shown_once() {
    let space = space();
    let sweep = "train: {matrix: {lr: [1, 2, 3]}, run: 'sh src/train.sh ${{ lr }}', inputs: [src, weights.bin]}";
    space.write("m.yaml", &format!("flow: 1\nname: m\nsteps:\n  {sweep}\n"));
    let mut runs: Vec<String> = Vec::new();
    let mut run = || {
        space.flow(["run", "m.yaml"]).expect(0);
        runs.push(space.journal()[0]["run"].as_str().unwrap().to_owned());
    };
    let train = |body: &str| format!("set -e\nlr=$1\n{body}echo done\n");
    space.write("src/train.sh", &train("echo one\n")).write("src/old.txt", "x\n");
    fs::write(space.path("weights.bin"), [0, 1, 2]).unwrap();
    run();
    let long: String = (0..60).map(|n| format!("echo {n}\n")).collect();
    space.write("src/train.sh", &train("echo two\n")).write("src/new.txt", &long).write("src/long.sh", &long);
    fs::remove_file(space.path("src/old.txt")).unwrap();
    fs::write(space.path("weights.bin"), [0, 1, 2, 3]).unwrap();
    run();
    space.write("src/long.sh", "");
    run();
    let said = space.flow(["diff", &runs[0], &runs[1]]).expect(0).stdout();
    let inputs = said.split("inputs\n").nth(1).unwrap_or_default();
    let expected = "  src/long.sh is new: 470 B (";
    assert!(inputs.starts_with(expected), "{said}");
    assert!(inputs.contains("  src/old.txt is gone: was 2 B ("), "{said}");
    let changed = "  src/train.sh changed
    @@ -1,4 +1,4 @@
     set -e
     lr=$1
    -echo one
    +echo two
     echo done
  weights.bin changed: was 3 B (";
    assert!(inputs.contains(changed) && inputs.contains("), is 4 B ("), "{said}");
    assert_eq!(inputs.matches("src/train.sh changed").count(), 1, "three instances read it: {said}");
    let said = space.flow(["diff", &runs[1], &runs[2]]).expect(0).stdout();
    assert!(said.contains("    -echo 38\n    … 21 more lines"), "{said}");
    assert!(space.flow(["diff", &runs[1], &runs[1]]).expect(0).stdout().contains("nothing differs"));
}

#[test]
fn a_negative_number_that_becomes_less_falls() {
    let space = space();
    space.write(
        "n.yaml",
        "flow: 1\nname: n\nparams: {x: -10}\nsteps: {a: {run: 'echo r2 ${{ x }}', metrics: {stdout: 'r2 {r2}'}}}\n",
    );
    let run = |set: &str| {
        space.flow(["run", "n.yaml", "--set", set]).expect(0);
        space.journal()[0]["run"].as_str().unwrap().to_owned()
    };
    let runs = [run("x=-10"), run("x=-18")];
    let said = space.flow(["diff", &runs[0], &runs[1]]).expect(0).stdout();
    assert!(said.contains(" −80.0 %"), "{said}");
}

#[test]
fn what_changed_before_a_failure_is_said() {
    let space = space();
    let step = "train: {matrix: {lr: [1, 2]}, run: 'sh train.sh ${{ lr }}', inputs: [train.sh]}";
    space.write("m.yaml", &format!("flow: 1\nname: m\nsteps:\n  {step}\n")).write("train.sh", "echo one\n");
    space.flow(["run", "m.yaml"]).expect(0);
    let first = space.journal()[0]["run"].as_str().unwrap().to_owned();
    space.write("train.sh", "exit 3\n");
    space.flow(["run", "m.yaml", "-k"]).expect(1);
    let second = space.journal()[0]["run"].as_str().unwrap().to_owned();
    let said = space.flow(["diff", &first, &second]).expect(0).stdout();
    assert!(said.starts_with("changes\n  train[lr=1] and 1 more: input `train.sh` changed\ninstances\n"), "{said}");
}

#[test]
fn a_result_of_another_workflow_is_forgotten_there() {
    let space = space();
    for name in ["one", "two"] {
        space.write(
            format!("{name}.yaml"),
            &format!("flow: 1\nname: {name}\nsteps: {{{name}_step: {{run: echo same}}}}\n"),
        );
        space.flow(["run", &format!("{name}.yaml")]).expect(0);
    }
    let said = space.flow(["forget", "two_step"]).expect(0).stdout();
    let first = "two_step has the result of one_step of workflow `one`: flow forget 'one_step' -w one.yaml\n";
    assert_eq!(said, format!("{first}forgotten: 0 results of 0 instances\n"));
    let said = space.flow(["forget", "one_step", "-w", "one.yaml"]).expect(0).stdout();
    assert_eq!(said, "forgotten: 1 result of 1 instance\n");
}
