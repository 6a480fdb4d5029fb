//! What is told of a run and of a plan is true, adds up, and is as short as what happened.

use flow_testkit::{Ran, until};

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
    let results = "3 results of train changed; 9 results of train are gone; 3 results of train are new";
    assert!(text.contains(results), "{text}");
}

#[test]
fn it_is_said_which_way_values_of_parameters_came_to_differ() {
    let space = space();
    let report = "  report: {uses: flow/report, with: {sections: [{table: table}]}}\n";
    space.write("w.yaml", &format!("{SWEEP}{report}"));
    space.flow(["run", "w.yaml"]).expect(0);
    let run = |args: &[&str], why: &str| {
        let text = space.flow([&["run", "w.yaml"], args].concat()).expect(0).text();
        assert!(text.contains(&format!("ran       report: {why}; ")), "{text}");
    };
    run(&["--set", "seeds=[0]"], "values of parameters differ from the file's");
    run(&["--set", "seeds=[1]"], "other values of parameters differ from the file's");
    space.write("w.yaml", &format!("{}{report}", SWEEP.replace("echo", "echo a")));
    run(&[], "all values of parameters are the file's again");
}

#[test]
fn what_has_no_result_is_not_said_to_have_failed() {
    let space = space();
    space.write("w.yaml", SWEEP);
    space.flow(["run", "w.yaml"]).expect(0);
    space.flow(["forget", "train"]).expect(0);
    let plan = || space.flow(["plan", "w.yaml"]).expect(0).stdout();
    assert!(plan().contains("its result was dropped with `flow forget`"), "{}", plan());
    // Another attempt has failed since.
    space.write("w.yaml", &SWEEP.replace("echo", "test -e $HOME/on && echo"));
    space.write("on", "").flow(["run", "w.yaml"]).expect(0);
    space.flow(["forget", "train"]).expect(0);
    std::fs::remove_file(space.path("on")).unwrap();
    space.flow(["run", "w.yaml", "-k"]).expect(1);
    assert!(plan().contains("it has no stored result: it failed, was stopped, or was dropped"), "{}", plan());
}

#[test]
fn a_group_that_may_be_repeated_is_waited_for_once() {
    let space = space();
    let workflow = "
flow: 1
name: pairs
steps:
  solo: {matrix: {n: [1, 2]}, run: echo epoch 1 loss 1, exclusive: true, metrics: {stdout: 'epoch {epoch} loss {loss}'}}
  both: {like: solo, exclusive: false, corun: {group: all}}
  table: {uses: flow/table, with: {from: solo, rows: n, columns: [wall]}}
  report: {uses: flow/report, with: {sections: [{table: table, corun: both}]}}
";
    space.write("w.yaml", workflow);
    let plan = space.flow(["plan", "w.yaml"]).expect(0).stdout();
    let report = plan.lines().find(|line| line.contains("report")).unwrap_or_default();
    assert!(report.trim_end().ends_with(" solo, both, table"), "{plan}");
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
fn all_that_wait_are_counted() {
    let space = space();
    let workflow = "
flow: 1
name: many
steps:
  work: {matrix: {n: '${{ range(1500) }}'}, run: sleep 30}
  after: {run: 'true', needs: [work]}
";
    space.write("w.yaml", workflow);
    let mut run = space.start(["run", "w.yaml"]);
    let mut status = String::new();
    until("instances wait", || {
        status = space.flow(["status"]).text();
        status.contains("waiting") && status.contains("running")
    });
    let why = |step: &str| space.flow(["why", "-w", "w.yaml", step]).expect(0).stdout();
    let (last, all, after) = (why("work[n=1499]"), why("work"), why("after"));
    space.flow(["cancel", "--now"]).expect(0);
    run.wait();
    assert!(last.starts_with("work[n=1499]: waits in run "), "{last}");
    assert!(last.contains(": queued, or waiting for a dependency"), "{last}");
    assert!(all.lines().count() < 10, "{all}");
    assert!(all.contains("] and ") && all.contains(" more: waits in run ") && all.contains(": runs in run "), "{all}");
    assert!(after.starts_with("after: decided after work"), "{after}");
    let number = |word: &str| word.replace(',', "").parse::<usize>().ok();
    let running = status.lines().filter(|line| line.trim_start().starts_with("running")).count();
    let waiting = status.lines().filter_map(|line| line.trim_start().strip_prefix("waiting "));
    let waiting: usize = waiting.map(|line| line.split(' ').next().and_then(number).unwrap_or(1)).sum();
    assert_eq!(running + waiting, 1_501, "{status}");
}

#[test]
fn of_many_instances_each_command_says_little() {
    let space = space();
    space.write("w.yaml", SWEEP);
    let run = |args: &[&str]| {
        space.flow([&["run", "w.yaml"], args].concat()).expect(0);
        space.journal()[0]["run"].as_str().unwrap().to_owned()
    };
    let before = run(&[]);
    let after = run(&["--set", "lrs=[2, 3, 4, 5]"]);
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
    let diff = said(&["diff", &before, &after]);
    assert!(diff.contains("  train[lr=1,seed=0]  ok"), "{diff}");
    run(&["--set", "lrs=[1, 2, 3, 4]"]);
    space.write("w.yaml", &SWEEP.replace("echo loss ${{ lr }}", "echo loss 0${{ lr }}.5"));
    let other = run(&[]);
    let diff = said(&["diff", &before, &other]);
    let rows: Vec<String> = diff.lines().map(|line| line.split_whitespace().collect::<Vec<_>>().join(" ")).collect();
    for row in ["train[lr=1] loss 1 ± 0 1.5 ± 0 +50.0%", "train[lr=4] loss 4 ± 0 4.5 ± 0 +12.5%"] {
        assert!(rows.iter().any(|shown| shown == row), "{row}: {diff}");
    }
    assert!(said(&["diff", &before, &other, "-v"]).contains("  train[lr=1,seed=0] loss  1 "), "-v tells each");
    let all = said(&["results", "train", "--all"]);
    assert!(all.contains(",param.lrs,param.seeds,") && all.contains(r#","[2,3,4,5]","[0,1]","#), "{all}");
}

#[test]
fn the_only_workflow_of_the_folder_goes_before_the_last_run_and_is_named_first() {
    let space = space();
    let workflow = |name: &str| format!("flow: 1\nname: {name}\nsteps: {{{name}: {{run: echo {name}}}}}\n");
    space.write("first.yaml", &workflow("first")).write("second.yaml", &workflow("second"));
    space.write("sub/own.yaml", &workflow("own")).write("sub/config.yaml", "lr: 1\n");
    space.flow(["run", "first.yaml"]).expect(0);
    let named = |ran: Ran| ran.stderr().lines().next().unwrap_or_default().to_owned();
    let commands: [&[&str]; 5] = [&["check"], &["plan"], &["why", "own"], &["run", "-n"], &["run"]];
    for args in commands {
        assert_eq!(named(space.flow_in("sub", args).expect(0)), "workflow: own.yaml", "{args:?}");
    }
    assert_eq!(space.ran(), ["own"]);
    // With several, here or below, the last run's counts, and a file that is named goes before all.
    assert_eq!(named(space.flow(["plan"]).expect(0)), "workflow: sub/own.yaml");
    space.flow(["run", "second.yaml"]).expect(0);
    assert_eq!(named(space.flow(["plan"]).expect(0)), "workflow: second.yaml");
    space.write("sub/other.yaml", &workflow("other"));
    let said = named(space.flow_in("sub", ["plan"]).expect(0));
    assert!(said.starts_with("workflow: ") && said.ends_with("/second.yaml") && !said.contains("sub"), "{said}");
    assert_eq!(named(space.flow_in("sub", ["plan", "own.yaml"]).expect(0)), "");
}
