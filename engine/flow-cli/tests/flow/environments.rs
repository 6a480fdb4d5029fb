//! The software environment: a result records the one that it ran in, and a difference is reported. Nothing runs again
//! for it.

use std::fs;
use std::path::PathBuf;
use std::process::Command;

use flow_testkit::TestSpace;

use crate::space;

/// A space whose `python` is that of a virtual environment with these distributions, and the folder of its packages.
pub(crate) fn with_venv(packages: &[&str]) -> (TestSpace, PathBuf) {
    let mut space = space();
    let made = Command::new("python3").args(["-m", "venv", "--without-pip"]).arg(space.path("venv")).status().unwrap();
    assert!(made.success());
    let lib = fs::read_dir(space.path("venv/lib")).unwrap().next().unwrap().unwrap().path();
    let site = lib.join("site-packages");
    packages.iter().for_each(|name| fs::create_dir(site.join(format!("{name}.dist-info"))).unwrap());
    let path = format!("{}:{}", space.path("venv/bin").display(), std::env::var("PATH").unwrap_or_default());
    space.env("PATH", &path);
    (space, site)
}

const SWEEP: &str = "flow: 1
name: sweep
params: {xs: [1, 2]}
steps:
  train: {matrix: {x: '${{ xs }}'}, run: 'python -c \"print(''loss ${{ x }}'')\"', metrics: {stdout: 'loss {loss}'}}
  table: {uses: flow/table, with: {from: train, rows: x, columns: [loss]}}
  report: {uses: flow/report, with: {languages: [en, zh], sections: [{table: table}]}}
publish: [{from: report, to: report.md}]
";

#[test]
fn an_upgraded_package_is_reported_and_runs_nothing_again() {
    let (space, site) = with_venv(&["scikit_learn-1.5.2", "numpy-1.26.4"]);
    space.write("sweep.yaml", SWEEP);
    space.flow(["run", "sweep.yaml"]).expect(0);
    let first = space.journal()[0]["run"].as_str().unwrap().to_owned();
    let said = |args: &[&str]| space.flow(args).expect(0).stdout();
    assert!(!said(&["plan", "sweep.yaml"]).contains("note:"), "nothing differs yet");
    assert_eq!(said(&["diff", "now"]), "nothing differs since run RUN\n");
    assert!(space.read("report.md").contains("scikit-learn 1.5.2"), "{}", space.read("report.md"));
    let shown = said(&["show", "train[x=1]"]);
    assert!(shown.contains(", scikit-learn 1.5.2, 2 packages  ROOT/.flow/objects/"), "{shown}");
    fs::rename(site.join("scikit_learn-1.5.2.dist-info"), site.join("scikit_learn-1.9.1.dist-info")).unwrap();

    let upgrade = "scikit-learn 1.5.2 → 1.9.1";
    let note = format!(
        "note: {upgrade} since the results of train × 2: they stay cached, and `flow run -f train` makes them again"
    );
    let plan = said(&["plan", "sweep.yaml"]).split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(plan.contains(&note) && plan.contains("4 instances: 4 cached"), "{plan}");
    let run = said(&["run", "sweep.yaml"]);
    let note = format!("  note      {upgrade} since some of these results; `flow plan` shows which\n");
    assert!(run.contains("nothing to do") && run.contains(&note), "{run}");
    let why = said(&["why", "train"]);
    let lines = format!(
        "train[x=1], train[x=2]: cached, no declared input, command or parameter changed since run RUN\n  - {upgrade} since this result\n"
    );
    assert_eq!(why, lines);
    assert_eq!(said(&["diff", "now"]), format!("environment\n  {upgrade}\n"));
    // A step that runs for another reason has another environment too.
    space.write("sweep.yaml", &SWEEP.replace("''loss ", "''loss  "));
    let plan = said(&["plan", "sweep.yaml"]);
    assert!(plan.contains(&format!("note: {upgrade} since the last results of train\n")), "{plan}");
    let why = said(&["why", "train"]);
    assert!(
        why.contains("would run") && why.contains(&format!("  - {upgrade} since the last result (not a reason)\n")),
        "{why}"
    );
    space.write("sweep.yaml", SWEEP);

    // One more instance under the new version: the table says that it mixes both.
    space.flow(["run", "sweep.yaml", "--set", "xs+=3", "--publish"]).expect(0);
    let mixed = "These results come from different software environments: scikit-learn 1.5.2 / 1.9.1.";
    let table = said(&["show", "table"]);
    assert!(table.split_whitespace().collect::<Vec<_>>().join(" ").contains(mixed), "{table}");
    let report = space.read("report.md");
    assert!(report.contains(mixed) && report.contains("scikit-learn 1.5.2, 1.9.1"), "{report}");
    assert!(report.contains("这些结果来自不同的软件环境：scikit-learn 1.5.2 / 1.9.1。"), "{report}");

    space.flow(["run", "sweep.yaml", "-f", "train"]).expect(0);
    let last = space.journal()[0]["run"].as_str().unwrap().to_owned();
    let diff = said(&["diff", &first, &last]);
    assert!(diff.contains(&format!("environment\n  {upgrade}\n")), "{diff}");
    assert!(!said(&["plan", "sweep.yaml"]).contains("note:"));
}

#[test]
fn a_variable_of_the_shell_that_differs_is_named() {
    let mut space = space();
    space.env("SCALE", "one-two-three").env("TERM", "xterm").env("TAKEN", "1");
    space.write("a.yaml", "flow: 1\nname: a\nsteps: {a: {run: 'test -n $SCALE$TAKEN', env: {TAKEN: '3'}}}\n");
    space.flow(["run", "a.yaml"]).expect(0);
    space.env("SCALE", "four").env("TERM", "dumb").env("TAKEN", "2");
    let why = "a: cached, no declared input, command or parameter changed since run RUN\n  - `SCALE` differs since this result\n";
    let said = |args: &[&str]| space.flow(args).expect(0).stdout();
    assert_eq!(said(&["why", "a"]), why);
    assert!(said(&["diff", "now"]).contains("environment\n  also different, without effect on the cache: `SCALE`\n"));
    assert!(!said(&["plan"]).contains("SCALE"), "a shell differs in much that means nothing");
    assert!(said(&["plan", "-v"]).contains("`SCALE` differs since the results of a"), "{}", said(&["plan", "-v"]));
    // The value itself is nowhere.
    for file in flow_testkit::files_below(&space.path(".flow")) {
        let text = fs::read(&file).unwrap_or_default();
        assert!(!String::from_utf8_lossy(&text).contains("one-two-three"), "{}", file.display());
    }
}

#[test]
fn a_variable_that_env_lists_reruns_its_step() {
    let mut space = space();
    space.write("one.yaml", "flow: 1\nname: one\nsteps:\n  a: {run: 'echo loss ${SCALE:-0}', env: [SCALE]}\n");
    let again = |space: &TestSpace| {
        let run = space.flow(["run"]).expect(0).stdout();
        if run.contains("nothing to do") { vec![] } else { space.ran() }
    };
    assert_eq!((again(&space), again(&space)), (vec!["a".to_owned()], vec![]));
    space.env("SCALE", "2");
    let why = space.flow(["why", "a"]).expect(0).stdout();
    assert!(why.contains("the variable `SCALE`"), "{why}");
    assert_eq!((again(&space), again(&space)), (vec!["a".to_owned()], vec![]));
    assert_eq!(space.flow(["logs", "a"]).expect(0).stdout().trim(), "loss 2");
    space.write(
        "one.yaml",
        "flow: 1\nname: one\nsteps:\n  a: {run: x, env: [SCALE]}\n  b: {run: x, secrets: [SCALE]}\n",
    );
    space.env("SCALE", "a long secret");
    let refused = space.flow(["run"]).expect(2).text();
    assert!(refused.contains("`env:` of a step") && !refused.contains("a long secret"), "{refused}");
}

#[test]
fn an_interpreter_that_a_program_starts_is_shown() {
    let (space, _) = with_venv(&[]);
    let real = fs::canonicalize(space.path("venv/bin/python")).unwrap();
    let name = real.file_name().unwrap().to_str().unwrap().to_owned();
    fs::create_dir(space.path("other")).unwrap();
    fs::copy(&real, space.path("other").join(&name)).unwrap();
    let other = space.path("other").join(&name).display().to_string();
    space.write(
        "go.py",
        "import subprocess, sys\nsubprocess.run([sys.argv[1], '-S', '-c', 'import time; time.sleep(1.5)'])\n",
    );
    let step = format!("{{run: 'python go.py {other}', inputs: [go.py]}}");
    space.write("w.yaml", &format!("flow: 1\nname: w\nsteps: {{a: {step}, b: {{run: python -c 'import time'}}}}\n"));
    space.flow(["run", "w.yaml"]).expect(0);
    let shown = |step: &str| {
        let shown = space.flow(["show", step]).expect(0).stdout();
        shown.split_whitespace().collect::<Vec<_>>().join(" ")
    };
    assert!(shown("a").contains(&format!(" also ran ROOT/other/{name}")), "{}", shown("a"));
    assert!(!shown("b").contains("also ran"), "{}", shown("b"));
}
