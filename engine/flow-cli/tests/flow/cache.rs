//! What runs again after which change, and what does not: one table.

use flow_testkit::TestSpace;

use crate::space;

const WORKFLOW: &str = r#"
flow: 1
name: cats
params:
  epochs: 2
  batches: [16, 32]
steps:
  dataset:
    run: sort photos.txt > out/sorted.txt
    inputs: [photos.txt]
    outputs: [out/sorted.txt]
  train:
    matrix: {batch: "${{ batches }}"}
    run: sh train.sh ${{ steps.dataset.out }} ${{ batch }} ${{ epochs }}
    inputs: [train.sh]
    metrics: {stdout: "loss {loss}"}
  summary:
    run: echo ${{ steps.dataset.out }}
  table:
    uses: flow/table
    with: {from: train, rows: batch, columns: [loss]}
"#;

const EVERYTHING: &[&str] = &["dataset", "train[batch=16]", "train[batch=32]", "summary", "table"];

/// Where everything has run once.
pub(crate) fn done() -> TestSpace {
    let space = space();
    space.write("cats.yaml", WORKFLOW).write("photos.txt", "b\na\n");
    space.write("train.sh", "wc -l < $1 > /dev/null; echo loss $(( $2 * $3 ))\n");
    space.flow(["run", "cats.yaml"]).expect(0);
    assert_eq!(sorted(space.ran()), sorted(EVERYTHING.iter().map(|label| (*label).to_owned()).collect()));
    space
}

fn sorted(mut labels: Vec<String>) -> Vec<String> {
    labels.sort();
    labels
}

/// Runs, and says what that did by itself; nothing if there was no run at all.
pub(crate) fn again(space: &TestSpace, args: &[&str]) -> Vec<String> {
    let before = runs(space);
    space.flow(["run", "cats.yaml"].iter().chain(args)).expect(0);
    if runs(space) == before { vec![] } else { sorted(space.ran()) }
}

fn runs(space: &TestSpace) -> usize {
    std::fs::read_dir(space.path(".flow/runs")).unwrap().count()
}

type Case<'a> = (&'a str, &'a dyn Fn(&TestSpace), &'a [&'a str], &'a [&'a str], &'a str);

/// Change, arguments of the run after it, what runs again, a word that `flow plan` or `why` must say.
const TRAINING: &[&str] = &["table", "train[batch=16]", "train[batch=32]"];

#[test]
fn each_change_runs_again_exactly_what_it_must() {
    let nothing = |_: &TestSpace| {};
    let cases: [Case; 9] = [
        ("nothing", &nothing, &[], &[], "5 cached"),
        ("one --set", &nothing, &["--set", "epochs=3"], TRAINING, "16 2`, is `…xt 16 3`"),
        (
            "one more point",
            &nothing,
            &["--set", "batches=[16, 32, 64]"],
            &["table", "train[batch=64]"],
            "train[batch=64]",
        ),
        (
            "an input",
            &|space| _ = space.write("photos.txt", "b\na\nc\n"),
            &[],
            &["dataset", "summary", "table", "train[batch=16]", "train[batch=32]"],
            "photos.txt",
        ),
        (
            "an input, to the same artifact",
            &|space| _ = space.write("photos.txt", "a\nb\n"),
            &[],
            &["dataset"],
            "photos.txt",
        ),
        ("the script", &|space| _ = space.write("train.sh", "echo loss 7\n"), &[], TRAINING, "train.sh"),
        (
            "a comment and a step's name",
            &|space| {
                space.write("cats.yaml", &WORKFLOW.replace("summary:", "sum:  # of all"));
            },
            &[],
            &[],
            "5 cached",
        ),
        (
            "another command",
            &|space| _ = space.write("cats.yaml", &WORKFLOW.replace("run: echo", "run: echo in")),
            &[],
            &["summary"],
            "summary",
        ),
        (
            "--force",
            &nothing,
            &["--force"],
            &["dataset", "summary", "table", "train[batch=16]", "train[batch=32]"],
            "force",
        ),
    ];
    for (name, change, args, expected, word) in cases {
        let space = done();
        change(&space);
        let plan = space.flow(["run", "cats.yaml", "-n"].iter().chain(args)).expect(0).stdout();
        assert!(plan.contains(word), "{name}: `{word}` was expected in the plan\n{plan}");
        assert_eq!(again(&space, args), expected, "{name}\n{plan}");
        let quiet: Vec<&str> =
            args.iter().filter(|arg| !arg.starts_with("--force") && **arg != "summary").copied().collect();
        assert_eq!(again(&space, &quiet), [""; 0], "{name}: once more, without a change");
    }
}

#[test]
fn a_dry_run_writes_nothing() {
    let space = space();
    space.write("cats.yaml", WORKFLOW).write("photos.txt", "a\n").write("train.sh", "echo loss 1\n");
    for command in [
        &["run", "cats.yaml", "-n"][..],
        &["plan", "cats.yaml"],
        &["check", "cats.yaml"],
        &["why", "-w", "cats.yaml", "train"],
    ] {
        space.flow(command).expect(0);
        assert!(!space.path(".flow").exists(), "{command:?}");
    }
    space.flow(["plan", "cats.yaml", "--exit-code"]).expect(3);
}

#[test]
fn targets_run_with_what_they_need_and_nothing_else() {
    let space = space();
    space.write("cats.yaml", WORKFLOW).write("photos.txt", "a\n").write("train.sh", "echo loss 1\n");
    space.flow(["run", "cats.yaml", "train[batch=16]"]).expect(0);
    assert_eq!(space.ran(), ["dataset", "train[batch=16]"]);
    space.flow(["run", "cats.yaml"]).expect(0);
    assert_eq!(sorted(space.ran()), ["summary", "table", "train[batch=32]"]);
}

#[test]
fn with_k_a_failure_stops_only_what_needs_it() {
    let space = space();
    let workflow = "
flow: 1
name: bad
steps:
  bad: {run: 'false'}
  after: {needs: [bad], run: 'true'}
  other: {run: sh -c 'sleep 0.3'}
  last: {needs: [other], run: 'true'}
";
    space.write("bad.yaml", workflow);
    let said = space.flow(["run", "bad.yaml", "-j", "1"]).expect(1).text();
    assert!(said.contains("bad"), "{said}");
    assert!(!space.ran().contains(&"last".to_owned()), "{:?}", space.ran());
    space.flow(["run", "bad.yaml", "-k"]).expect(1);
    assert!(space.ran().contains(&"last".to_owned()), "{:?}", space.ran());
    assert!(!space.ran().contains(&"after".to_owned()), "{:?}", space.ran());
    space.flow(["run", "bad.yaml", "-k"]).expect(1);
    assert_eq!(space.ran(), ["bad!"], "a failure is no result; the rest is cached");
}

#[test]
fn a_recorded_time_out_is_a_result_until_the_limit_is_raised() {
    let space = space();
    let workflow = |limit: &str| {
        format!(
            "flow: 1\nname: slow\nsteps:\n  slow:\n    run: sleep 0.8\n    timeout: {limit}\n    record: [timed_out]\n"
        )
    };
    space.write("slow.yaml", &workflow("200ms"));
    space.flow(["run", "slow.yaml"]).expect(0);
    assert_eq!(space.ran(), ["slow!"]);
    let runs = || std::fs::read_dir(space.path(".flow/runs")).unwrap().count();
    let before = runs();
    space.flow(["run", "slow.yaml"]).expect(0);
    assert_eq!(runs(), before, "recorded");
    space.write("slow.yaml", &workflow("100ms"));
    space.flow(["run", "slow.yaml"]).expect(0);
    assert!(space.ran().is_empty(), "a shorter limit would end the same way");
    space.write("slow.yaml", &workflow("30s"));
    let why = space.flow(["why", "-w", "slow.yaml", "slow"]).expect(0).stdout();
    assert!(why.contains("limit") || why.contains("timeout"), "{why}");
    space.flow(["run", "slow.yaml"]).expect(0);
    assert_eq!(space.ran(), ["slow"], "raised");
}

#[test]
fn what_was_cancelled_was_not_tried() {
    let space = space();
    let workflow = "flow: 1\nname: nap\nparams: {s: 0}\nsteps:\n  nap: {run: 'sleep ${{ s }}'}\n";
    space.write("nap.yaml", workflow);
    space.flow(["run", "nap.yaml"]).expect(0);
    let mut flow = space.start(["run", "nap.yaml", "--set", "s=86"]);
    flow_testkit::until("the step runs", || space.alive().iter().any(|(_, command)| command.starts_with("sleep 86")));
    flow.signal(nix::sys::signal::Signal::SIGINT);
    assert_eq!(flow.wait().code(), Some(130), "{}", flow.output());
    let why = space.flow(["why", "-w", "nap.yaml", "nap", "--set", "s=86"]).expect(0).stdout();
    assert!(why.contains("`sleep 0`"), "{why}");
}

const COPIES: &str = r#"
flow: 1
name: cats
steps:
  copy: {matrix: {n: [1, 2, 3]}, run: 'cp from/${{ n }} out', inputs: ['from/${{ n }}'], outputs: [out]}
  next: {matrix: {n: [1, 2, 3]}, run: 'cat ${{ steps.copy.out }} > all', outputs: [all]}
  all: {run: "cat ${{ steps.next | map(attribute='out') | join(' ') }}"}
  alone: {run: echo alone}
"#;

/// What did not change is not looked at any more closely than by `stat`; what is done is as if it were.
#[test]
fn a_second_run_relies_on_the_one_before_it_as_far_as_that_holds() {
    let space = space();
    for n in 1..4 {
        space.write(format!("from/{n}"), &format!("{n}\n"));
    }
    space.write("cats.yaml", COPIES);
    space.flow(["run", "cats.yaml"]).expect(0);
    let again = |args: &[&str]| again(&space, args);
    let one = ["all", "copy[n=2]", "next[n=2]"];

    space.write("from/2", "two\n");
    assert_eq!(again(&[]), one, "a file changed");
    assert_eq!(again(&[]), [""; 0]);
    space.write("from/2", "two\n");
    assert_eq!(again(&[]), [""; 0], "a file was touched");
    space.write("from/2", "2\n");
    assert_eq!(again(&[]), [""; 0], "and is again as it was at first");
    assert!(space.flow(["plan", "cats.yaml"]).expect(0).stdout().contains("8 cached"));

    std::fs::remove_file(space.path("from/3")).unwrap();
    assert!(space.flow(["run", "cats.yaml"]).text().contains("there is no `from/3`"), "a file is gone");
    space.write("from/3", "3\n");
    assert_eq!(again(&[]), [""; 0], "and there again");

    space.flow(["run", "cats.yaml", "copy[n=1]", "-f", "copy[n=1]"]).expect(0);
    space.write("from/2", "two again\n");
    assert_eq!(again(&[]), one, "something else was recorded between");

    space.flow(["gc", "--runs", "1", "--days", "0"]).expect(0);
    space.write("from/2", "and again\n");
    assert_eq!(again(&[]), one, "the store was cleaned between");

    let size = std::fs::metadata(space.path(".flow/db/db")).unwrap().len();
    std::fs::write(space.path(".flow/db/db"), vec![7; usize::try_from(size).unwrap()]).unwrap();
    space.write("from/2", "once more\n");
    assert_eq!(again(&[]), one, "the database was damaged between");

    let copied = flow_testkit::files_below(&space.path(".flow/objects"));
    let of_one = copied.iter().find(|path| std::fs::read_to_string(path).is_ok_and(|text| text == "1\n")).unwrap();
    std::fs::remove_file(of_one).unwrap();
    space.write("from/2", "at last\n");
    assert_eq!(again(&[]), ["all", "copy[n=1]", "copy[n=2]", "next[n=2]"], "an artifact is gone");

    space.write("cats.yaml", &COPIES.replace("echo alone", "echo not alone"));
    assert_eq!(again(&[]), ["alone"], "the workflow changed");
    space.write("from/2", "the end\n");
    assert_eq!(again(&["-f", "alone"]), ["all", "alone", "copy[n=2]", "next[n=2]"], "a step is forced");
    assert_eq!(again(&[]), [""; 0]);
}

#[test]
fn a_disturbed_repetition_does_not_replace_a_good_result() {
    let space = space();
    let run = "'date +%s%N > at.txt; sleep 0.6; ls photos'";
    let look = format!("look: {{run: {run}, inputs: [{{path: photos/, by: listing}}], outputs: {{at: at.txt}}}}");
    let after = "after: {run: 'cat ${{ steps.look.outputs.at }}'}";
    space.write("again.yaml", &format!("flow: 1\nname: again\nsteps:\n  {look}\n  {after}\n"));
    space.write("photos/a.jpg", "a");
    space.flow(["run", "again.yaml"]).expect(0);
    let mut flow = space.start(["run", "again.yaml", "-f", "look"]);
    flow_testkit::until("the step runs", || space.alive().iter().any(|(_, command)| command.starts_with("sleep 0.6")));
    space.write("photos/b.jpg", "b");
    assert_eq!(flow.wait().code(), Some(1), "{}", flow.output());
    assert!(
        flow.output().contains("this measurement was disturbed and is dropped; the earlier one, of run"),
        "{}",
        flow.output()
    );
    assert_eq!(space.ran(), ["look"], "what needs it has the earlier one: {}", flow.output());
    std::fs::remove_file(space.path("photos/b.jpg")).unwrap();
    std::fs::write(space.path(".flow/db/db"), vec![7; 100_000]).unwrap();
    space.flow(["doctor"]);
    let plan = space.flow(["run", "-n", "again.yaml"]).expect(0).stdout();
    assert!(plan.contains("2 cached") && !plan.contains("to run"), "{plan}");
}

#[test]
fn a_set_path_belongs_to_the_folder_it_was_typed_in() {
    let space = space();
    let workflow = "
flow: 1
name: where
params: {file: null}
steps:
  show:
    run: cat ${{ inputs.f }}
    inputs: {f: '${{ file }}'}
";
    space.write("where.yaml", workflow);
    space.write("one/f", "1").write("two/f", "2");
    let run = |folder: &str| space.flow_in(folder, ["run", "../where.yaml", "--set", "file=./f"]).expect(0).stdout();
    assert!(run("one").contains("1 ran"));
    assert!(!run("one").contains("1 ran"));
    assert!(run("two").contains("1 ran"), "the same words, another file");
}

#[test]
fn an_artifact_that_is_only_counted_is_read_all_the_same() {
    let space = space();
    let workflow = r#"
flow: 1
name: count
steps:
  part: {matrix: {n: [1, 2]}, run: "sh -c 'cat word.txt > part'", inputs: [word.txt], outputs: [part]}
  all:
    run: sh -c 'cat in/part/*/part > all; echo ${{ steps.part | map(attribute="out") | list | length }}'
    outputs: [all]
"#;
    space.write("count.yaml", workflow).write("word.txt", "one");
    space.flow(["run", "count.yaml"]).expect(0);
    space.write("word.txt", "two");
    let why = space.flow(["run", "count.yaml"]).expect(0).stdout();
    assert_eq!(sorted(space.ran()), ["all", "part[n=1]", "part[n=2]"]);
    assert!(why.contains("ran       all: the output `part/n=1/part` changed"), "{why}");
}

#[test]
fn points_that_only_an_axis_tells_apart_keep_their_own_results() {
    let space = space();
    let workflow = |columns: &str| {
        format!(
            "
flow: 1
name: trials
steps:
  throw: {{matrix: {{trial: [1, 2]}}, run: sh throw.sh, inputs: [throw.sh], metrics: {{stdout: 'threw {{threw}}'}}}}
  table: {{uses: flow/table, with: {{from: throw, rows: trial, columns: [{columns}]}}}}
"
        )
    };
    space.write("throw.sh", "echo threw $(od -An -N4 -tu4 /dev/urandom)\n").write("trials.yaml", &workflow("threw"));
    space.flow(["run", "trials.yaml"]).expect(0);
    let threw = || [1, 2].map(|n| space.flow(["show", &format!("throw[trial={n}]"), "--json"]).expect(0).stdout());
    let first = threw();
    space.write("trials.yaml", &workflow("threw, wall"));
    space.flow(["run", "trials.yaml"]).expect(0);
    assert_eq!(space.ran(), ["table"]);
    assert_eq!(threw(), first);
}

#[test]
fn what_a_forced_step_changed_is_something_to_do() {
    let space = space();
    let workflow = "
flow: 1
name: w
steps:
  throw: {run: sh throw.sh, inputs: [throw.sh], outputs: [out.txt], metrics: {stdout: 'threw {threw}'}}
  after: {run: 'cat ${{ steps.throw.out }} > copy.txt', outputs: [copy.txt]}
  table: {uses: flow/table, with: {from: throw, columns: [threw]}}
";
    space
        .write("throw.sh", "n=$(od -An -N4 -tu4 /dev/urandom); echo threw $n | tee out.txt\n")
        .write("w.yaml", workflow);
    space.flow(["run", "w.yaml"]).expect(0);
    space.flow(["run", "w.yaml", "throw", "-f", "throw"]).expect(0);
    assert_eq!(space.ran(), ["throw"]);
    space.flow(["run", "w.yaml"]).expect(0);
    assert_eq!(sorted(space.ran()), ["after", "table"]);
    assert!(space.flow(["run", "w.yaml"]).expect(0).stdout().contains("nothing to do"));
}

#[test]
fn repetitions_of_what_reads_its_seed_are_their_seeds() {
    let space = space();
    let workflow = |seed: u32, repeat: u32| {
        let (own, noise) = ("sh -c 'echo ${{ seed }} > x'", "sh -c 'date +%N > x'");
        let step = |name: &str, run: &str| {
            format!("  {name}: {{run: \"{run}\", seed: {seed}, repeat: {repeat}, outputs: [x]}}\n")
        };
        space.write("s.yaml", &format!("flow: 1\nname: s\nsteps:\n{}{}", step("own", own), step("noise", noise)));
    };
    workflow(0, 3);
    assert_eq!(space.flow(["run", "s.yaml"]).expect(0).code(), Some(0));
    assert_eq!(space.ran().len(), 6);
    // Seeds 1 and 2 were there before, and a repetition of what reads no seed is one more look at it.
    workflow(1, 3);
    space.flow(["run", "s.yaml"]).expect(0);
    let ran = space.ran();
    let own: Vec<&String> = ran.iter().filter(|label| label.starts_with("own")).collect();
    assert_eq!(own, ["own[repetition=2]"], "{ran:?}");
}

#[test]
fn what_is_cached_stays_however_many_runs_of_other_steps_are_before_a_cleaning() {
    let space = space();
    let (a, b) = ("a: {run: 'echo a > o', outputs: [o]}", "b: {run: 'echo b'}");
    let workflow = format!("flow: 1\nname: w\nsteps:\n  {a}\n  {b}\n  c: {{run: 'cat ${{{{ steps.a.out }}}}'}}\n");
    space.write("w.yaml", &workflow);
    space.flow(["run", "w.yaml"]).expect(0);
    (0..3).for_each(|_| _ = space.flow(["run", "w.yaml", "b"]).expect(0));
    space.flow(["run", "w.yaml", "b", "-f"]).expect(0);
    space.flow(["gc", "--runs", "1", "--days", "0"]).expect(0);
    assert!(space.flow(["plan", "w.yaml"]).expect(0).stdout().contains("3 instances: 3 cached"));
    // Of a step that is no more nothing stays once a run of the whole workflow says so.
    space.write("w.yaml", &workflow.replace("b:", "d:").replace("echo b", "echo d"));
    space.flow(["run", "w.yaml"]).expect(0);
    let freed = space.flow(["gc", "--runs", "1", "--days", "0"]).expect(0).stdout();
    assert!(freed.contains(" 1 result, "), "{freed}");
}

#[test]
fn a_run_shows_the_result_that_it_reused_after_a_forced_run_has_made_another() {
    let space = space();
    let outside = space.path("outside.txt");
    let step = format!("{{run: 'echo loss $(cat {})', metrics: {{stdout: 'loss {{loss}}'}}}}", outside.display());
    space
        .write("outside.txt", "1\n")
        .write("w.yaml", &format!("flow: 1\nname: w\nsteps:\n  a: {step}\n  b: {{run: echo b}}\n"));
    space.flow(["run", "w.yaml"]).expect(0);
    space.flow(["run", "w.yaml", "-f", "b"]).expect(0);
    let reused = space.journal()[0]["run"].as_str().unwrap().to_owned();
    let loss = |run: &[&str]| {
        let csv = space.flow(["results", "a"].iter().chain(run)).expect(0).stdout();
        let cells = |at: usize| csv.lines().nth(at).unwrap().split(',').map(str::to_owned).collect::<Vec<_>>();
        cells(1).swap_remove(cells(0).iter().position(|name| name == "loss").unwrap())
    };
    assert_eq!(loss(&["--run", &reused]), "1");
    space.write("outside.txt", "2\n");
    space.flow(["run", "w.yaml", "-f", "a"]).expect(0);
    assert_eq!((loss(&[]), loss(&["--run", &reused])), ("2".to_owned(), "1".to_owned()));
}

#[test]
fn why_says_that_a_listing_compares_names_and_sizes() {
    let space = space();
    space.write(
        "w.yaml",
        "flow: 1\nsteps: {a: {run: ls data, inputs: [{path: data, by: listing}, {path: one, by: listing}]}}\n",
    );
    space.write("data/x.txt", "1\n").write("one", "1\n");
    let said = |args: &[&str]| space.flow(args).expect(0).stdout();
    said(&["run", "w.yaml"]);
    space.write("data/x.txt", "2\n");
    let limit = "of `data`, only the names and sizes of files were compared\n";
    assert!(said(&["why", "a"]).contains(&format!("  - {limit}")), "{}", said(&["why", "a"]));
    let planned = said(&["plan", "-v", "w.yaml"]);
    assert!(planned.contains("1 cached") && planned.contains(&format!("note: {limit}")), "{planned}");
    assert!(!said(&["plan", "w.yaml"]).contains(limit));
}
