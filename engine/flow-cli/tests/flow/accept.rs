//! `flow accept`: which old result is kept, what says so, and why what came later is told from it.

use crate::{
    cache::{again, done},
    space,
};

#[test]
fn accept_keeps_the_old_results_and_says_so() {
    let space = done();
    space.write("train.sh", "# only a comment\nwc -l < $1 > /dev/null; echo loss $(( $2 * $3 ))\n");
    let said = space.flow(["accept", "-w", "cats.yaml", "train", "--reason", "a comment"]).expect(0).stdout();
    let next = "  the next run runs table; `flow forget train -w cats.yaml --accepted` undoes this\n";
    assert_eq!(said, format!("kept train × 2 from run RUN: input `train.sh` changed\n{next}"));
    let bare = space.flow(["accept", "-w", "cats.yaml", "train"]).expect(2).text();
    assert!(bare.contains("`flow accept train --reason 'only a comment changed'`"), "{bare}");
    // It is no run, and yet what it kept outlives a cleaning and the loss of the database.
    assert_eq!(space.flow(["runs"]).expect(0).stdout().lines().count(), 2);
    space.flow(["gc", "--runs", "1", "--days", "0"]).expect(0);
    std::fs::write(space.path(".flow/db/db"), vec![7; 100_000]).unwrap();
    space.flow(["doctor"]);
    let planned = space.flow(["plan", "cats.yaml"]).expect(0).stdout();
    assert!(planned.contains("2 results of train were accepted"), "{planned}");
    assert_eq!(again(&space, &[]), ["table"], "the table says so");
    assert_eq!(again(&space, &[]), [""; 0]);
    space.flow(["gc", "--runs", "1", "--days", "0"]).expect(0);
    std::fs::write(space.path(".flow/db/db"), vec![7; 100_000]).unwrap();
    space.flow(["doctor"]);
    assert_eq!(again(&space, &["--set", "batches=[16]"]), ["table"], "a later run reaches it");
}

#[test]
fn accept_refuses_other_settings_and_can_be_taken_back() {
    let space = done();
    let accept =
        |more: &[&str]| space.flow([&["accept", "-w", "cats.yaml", "train", "--reason", "why not"], more].concat());
    let said = accept(&["--set", "epochs=7"]).expect(1).stdout();
    assert!(said.contains("not kept train × 2: the command was") && said.contains("--other-settings"), "{said}");
    accept(&["--set", "epochs=7", "--other-settings"]).expect(0);
    // It is no run, so later differences are not differences from it.
    let said = accept(&["--set", "epochs=8"]).expect(1).stdout();
    assert!(said.contains("16 2`, is `sh train.sh in/dataset/out/sorted.txt 16 8`"), "{said}");
    let why = space.flow(["why", "-w", "cats.yaml", "train", "--set", "epochs=7"]).expect(0).stdout();
    assert!(why.contains("cached, kept by `flow accept`: why not") && !why.contains("changed"), "{why}");
    let forgotten = space.flow(["forget", "-w", "cats.yaml", "train", "--accepted"]).expect(0).stdout();
    assert_eq!(forgotten, "no longer accepted: 2 results of 2 instances; the earlier results stay in the store\n");
    assert_eq!(again(&space, &[]), [""; 0]);
    let planned = space.flow(["plan", "cats.yaml", "--set", "epochs=7"]).expect(0).stdout();
    assert!(planned.contains("2 to run"), "{planned}");
}

#[test]
fn accept_keeps_the_result_that_differs_least_and_not_that_of_a_later_trial() {
    let space = done();
    space.flow(["run", "cats.yaml", "--set", "epochs=1"]).expect(0);
    space.write("train.sh", "# only a comment\nwc -l < $1 > /dev/null; echo loss $(( $2 * $3 ))\n");
    space.flow(["run", "cats.yaml", "--set", "epochs=0", "--set", "batches=[16]"]).expect(0);
    let said = space.flow(["accept", "-w", "cats.yaml", "train", "--reason", "a comment"]).expect(0).stdout();
    assert!(said.starts_with("kept train × 2 from run RUN: input `train.sh` changed\n"), "{said}");
    let now = space.flow(["diff", "now", "-w", "cats.yaml"]).expect(0).stdout();
    assert!(now.contains("note: `flow accept` keeps the results of train[batch=16]"), "{now}");
    assert_eq!(again(&space, &[]), ["table"], "the table says so");
    let diff = space.flow(["diff"]).expect(0).stdout();
    assert!(diff.contains("note: `flow accept` kept 2 results; `flow diff now` shows the accepted edits"), "{diff}");
    let shown = space.flow(["show", "train[batch=16]"]).expect(0).stdout();
    let is_of_two_epochs = shown.lines().any(|line| line.split_whitespace().eq(["loss", "32"]));
    assert!(is_of_two_epochs, "16 × 2 epochs:\n{shown}");
    // Also after one more trial.
    space.flow(["run", "cats.yaml", "--set", "epochs=1"]).expect(0);
    let why = space.flow(["why", "-w", "cats.yaml", "train[batch=16]"]).expect(0).stdout();
    assert!(why.contains("kept by `flow accept`: a comment"), "{why}");
}

#[test]
fn an_edit_after_a_trial_is_told_as_what_it_is() {
    let space = done();
    space.flow(["run", "cats.yaml", "--set", "epochs=1"]).expect(0);
    space.write("train.sh", "# only a comment\nwc -l < $1 > /dev/null; echo loss $(( $2 * $3 ))\n");
    let reason = |set: &[&str]| {
        let why = space.flow([&["why", "-w", "cats.yaml", "train[batch=16]"], set].concat()).expect(0).stdout();
        why.lines().filter(|line| line.starts_with("  - ")).map(str::to_owned).collect::<Vec<_>>()
    };
    assert_eq!(reason(&[]), ["  - input `train.sh` changed"]);
    assert_eq!(reason(&["--set", "epochs=1"]), ["  - input `train.sh` changed"]);
    let command = "  - the command was `… in/dataset/out/sorted.txt 16 1`, is `… in/dataset/out/sorted.txt 16 3`";
    assert_eq!(reason(&["--set", "epochs=3"]), [command, "  - input `train.sh` changed"]);
    let planned = space.flow(["plan", "cats.yaml"]).expect(0).stdout();
    assert!(planned.contains("input `train.sh` changed") && !planned.contains("the command was"), "{planned}");
    let ran = space.flow(["run", "cats.yaml"]).expect(0).stdout();
    assert!(ran.contains("input `train.sh` changed") && !ran.contains("the command was"), "{ran}");
}

#[test]
fn reasons_after_forget_accepted_come_from_what_ran() {
    let space = space();
    let write =
        |inputs: &str| space.write("m.yaml", &format!("flow: 1\nsteps: {{a: {{run: sh a.sh, inputs: {inputs}}}}}\n"));
    let said = |args: &[&str]| space.flow(args).expect(0).stdout();
    space.write("a.sh", "echo 1\n").write("common.sh", "X=1\n");
    write("[a.sh, common.sh]");
    said(&["run", "m.yaml"]);
    space.write("common.sh", "X=1 # tidied up\n");
    said(&["accept", "-w", "m.yaml", "a", "--reason", "a comment"]);
    said(&["run", "m.yaml"]);
    // Another edit is accepted and taken back in the file.
    write("[a.sh]");
    said(&["accept", "-w", "m.yaml", "a", "--reason", "unused"]);
    write("[a.sh, common.sh]");
    said(&["forget", "-w", "m.yaml", "a", "--accepted"]);
    let why = "a: would run\n  - input `common.sh` changed\n`flow diff now -w m.yaml` shows the changed lines, \
               `flow accept a -w m.yaml --reason TEXT` keeps the old results\n";
    assert_eq!(said(&["why", "-w", "m.yaml", "a"]), why);
    let now = said(&["diff", "now", "-w", "m.yaml"]);
    let (first, note) = now.split_once('\n').unwrap();
    assert!(first.starts_with("nothing differs since run "), "{now}");
    assert!(note.starts_with("note: 1 result of run ") && note.contains("`flow plan` shows what runs again"), "{now}");
    // It also outlives a loss of the database.
    std::fs::write(space.path(".flow/db/db"), vec![7; 100_000]).unwrap();
    space.flow(["doctor"]);
    assert_eq!(said(&["why", "-w", "m.yaml", "a"]), why);
}
