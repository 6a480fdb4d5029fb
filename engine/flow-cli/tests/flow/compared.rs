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
fn the_last_two_runs_are_compared_and_a_forced_run_refers_to_it() {
    let space = space();
    space.write("m.yaml", "flow: 1\nname: m\nsteps: {a: {run: 'date +%N', metrics: {stdout: '{loss}'}}}\n");
    space.write("n.yaml", "flow: 1\nname: n\nsteps: {b: {run: 'true'}}\n");
    space.flow(["run", "m.yaml", "-f"]).expect(0);
    let lonely = space.flow(["diff"]).expect(2).text();
    assert!(lonely.contains("there is no earlier run of the same workflow"), "{lonely}");
    let mut runs = vec![space.journal()[0]["run"].as_str().unwrap().to_owned()];
    space.flow(["run", "n.yaml"]).expect(0);
    space.flow(["run", "m.yaml", "-f"]).expect(0);
    runs.push(space.journal()[0]["run"].as_str().unwrap().to_owned());
    let said = space.flow(["diff"]).expect(0).stdout();
    let (head, rest) = said.split_once('\n').unwrap();
    assert_eq!(head, "run RUN, then run RUN");
    assert_eq!(rest, space.flow(["diff", &runs[0], &runs[1]]).expect(0).stdout());
    assert!(rest.contains("a loss"), "{rest}");
}

#[test]
fn of_steps_that_do_the_same_it_is_said_whose_result_is_told_of_and_forgotten() {
    let space = space();
    let sweep = |name: &str| format!("  {name}: {{matrix: {{n: [1, 2]}}, run: 'echo ${{{{ n }}}}'}}\n");
    let write = |steps: &str| _ = space.write("w.yaml", &format!("flow: 1\nname: w\nsteps:\n{steps}"));
    let first = format!("{}  one: {{run: echo same}}\n", sweep("s"));
    write(&first);
    space.flow(["run", "w.yaml"]).expect(0);
    write(&format!("{first}{}  two: {{run: echo same}}\n", sweep("t")));
    space.flow(["run", "w.yaml"]).expect(0);
    assert_eq!(space.ran(), [""; 0]);
    let said = |args: &[&str]| space.flow(args).expect(0).stdout();
    let why = said(&["why", "t", "two", "one"]);
    assert!(why.contains("\nt[n=1], t[n=2]: reuse the results of s[n=1], s[n=2]\n"), "{why}");
    assert!(why.contains("\ntwo: reuses the result of one\n") && !why.contains("\none: takes"), "{why}");
    assert_eq!(said(&["forget", "two"]), "forgotten: 1 result of 1 instance, also used by one\n");
    assert_eq!(said(&["forget", "s"]), "forgotten: 2 results of 2 instances, also used by t[n=1], t[n=2]\n");
    assert!(said(&["plan", "w.yaml"]).contains("6 instances: 6 to run"));
}

#[test]
fn what_changed_in_the_workflow_is_said_before_and_after_it_runs_and_the_morning_after() {
    let space = space();
    let write = |scale: u32, epochs: u32| {
        let step = format!(
            "train:\n    matrix: {{lr: [1, 2], seed: [0, 1]}}\n    run: sh train.sh ${{{{ lr }}}} --epochs {epochs}\n    \
             env: {{SCALE: \"{scale}\"}}\n    inputs: [train.sh, data]\n"
        );
        space.write("m.yaml", &format!("flow: 1\nname: m\nsteps:\n  {step}"));
    };
    space.write("train.sh", "echo one\n").write("data/a.csv", "1\n");
    let run = || {
        space.flow(["run", "m.yaml"]).expect(0);
        space.journal()[0]["run"].as_str().unwrap().to_owned()
    };
    let said = |args: &[&str]| space.flow(args).expect(0).stdout();
    write(1, 5);
    let first = run();
    assert_eq!(said(&["diff", "now"]), "nothing differs since run RUN\n");
    write(2, 3);
    space.write("train.sh", "echo two\n").write("data/b.csv", "2\n");
    let edits = "workflow
  train env.SCALE: 1 → 2
  train run: sh train.sh ${{ lr }} --epochs 5 → sh train.sh ${{ lr }} --epochs 3
inputs
  data/b.csv is new: 2 B (ID)
  train.sh changed
    @@ -1 +1 @@
    -echo one
    +echo two
";
    let without_id = |text: String| {
        let (before, rest) = text.split_once(" B (").unwrap_or((&text, ""));
        format!("{before} B (ID){}", rest.split_once(')').unwrap_or_default().1)
    };
    for args in [&["diff", "now"][..], &["diff", &first], &["diff", &first, "now"]] {
        assert_eq!(without_id(said(args)), edits);
    }
    let second = run();
    let differ = without_id(said(&["diff", &first, &second]));
    assert!(differ.starts_with(edits) && !differ.contains("changes\n"), "{differ}");
    let why = "the command was `sh train.sh 1 --epochs 5`, is `sh train.sh 1 --epochs 3`; the variable `SCALE` was 1, is 2; \
               input `data/b.csv` is new; input `train.sh` changed";
    // Nothing to do, and it is known why it ran.
    run();
    let told = said(&["why", "train", "--run", &second]);
    let end = |run: &str| run.rsplit('-').next().unwrap_or_default().to_owned();
    let lines = format!("`flow diff {} {}` shows the changed lines\n", end(&first), end(&second));
    assert_eq!(told, format!("train × 4: ran: {why}; the others alike\n{lines}"));
    assert_eq!(said(&["why", "--run", &second]), told, "it is the only step");
    assert_eq!(said(&["why", "train", "--run", &first]), "train × 4: ran: its first run\n");
    assert!(said(&["status", &second]).contains(why), "{}", said(&["status", &second]));
    let now = said(&["why", "train"]);
    assert!(
        now.contains("cached, no declared input, command or parameter changed")
            && now.contains(&format!("ran in run RUN: {why}"))
            && now.ends_with(&lines),
        "{now}"
    );
    let shown = said(&["show", "train[lr=1,seed=0]"]);
    let rows = ["  ran because  the command was", "  command      sh train.sh 1 --epochs 3\n", "  env.SCALE    2\n"];
    assert!(rows.iter().all(|row| shown.contains(row)), "{shown}");
    let json: serde_json::Value = serde_json::from_str(&said(&["show", "train[lr=1,seed=0]", "--json"])).unwrap();
    assert_eq!((&json["command"], &json["env"]["SCALE"]), (&"sh train.sh 1 --epochs 3".into(), &"2".into()));
    assert_eq!(json["ran_because"], why);
    let wrong = space.flow(["diff", "now", &first]).expect(2).text();
    assert!(wrong.contains("`now` must be last"), "{wrong}");
}

#[test]
fn an_axis_that_a_table_averages_goes_in_rounds() {
    // A machine that slows down with time is to slow down both layouts.
    let workflow = "flow: 1
name: layouts
steps:
  train: {matrix: {layout: [x, y], copy: [1, 2]}, run: 'sleep 0.3; echo loss ${{ copy }}', metrics: {stdout: 'loss {loss}'}}
  table: {uses: flow/table, with: {from: train, split: layout, over: copy, columns: [loss]}}
";
    let space = space();
    space.write("w.yaml", workflow);
    space.flow(["run", "w.yaml", "-j", "1"]).expect(0);
    let rounds = ["x,copy=1", "y,copy=1", "x,copy=2", "y,copy=2"].map(|of| format!("train[layout={of}]"));
    assert_eq!(space.ran()[..4], rounds);
}
