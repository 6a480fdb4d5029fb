//! `flow export` and `flow import`: another machine's results stand beside one's own, and answer for none.

use std::fs;
use std::path::Path;
use std::process::Command;

use flow_testkit::{TestSpace, until};
use nix::sys::signal::Signal;

use crate::environments::with_venv;
use crate::space;

const SWEEP: &str = "flow: 1
name: sweep
steps:
  train:
    matrix: {version: [v7], batch: [8, 16]}
    run: 'echo ran >> ${{ marks }}; echo took ${{ 100 / batch }} s of $PWD'
    metrics: {stdout: 'took {epoch_time:s} s'}
  table: {uses: flow/table, with: {from: train, rows: [version, batch], split: machine, machines: true, columns: [epoch_time]}}
params: {marks: /dev/null}
";

/// Two machines, the first of which has run the sweep and exported it.
fn two() -> (TestSpace, TestSpace) {
    let (there, here) = (space(), space());
    for one in [&there, &here] {
        one.write("w.yaml", SWEEP);
    }
    there.flow(["run", "w.yaml"]).expect(0);
    for _ in 0..2 {
        let said = there.flow(["export", "--bundle", "out.bundle"]).expect(0).stdout();
        assert!(said.starts_with("exported 3 results of run "), "{said}");
    }
    let said = there.flow(["export", "--bundle", "w.yaml"]).expect(2).text();
    assert!(said.contains("`w.yaml` exists and is not a bundle") && there.read("w.yaml") == SWEEP, "{said}");
    fs::copy(there.path("out.bundle"), here.path("in.bundle")).unwrap();
    (there, here)
}

/// What a bundle says.
fn unpacked(bundle: &Path) -> String {
    String::from_utf8(Command::new("zcat").arg(bundle).output().unwrap().stdout).unwrap()
}

/// `imported 3 results of sweep on MACHINE: ID`.
fn import(here: &TestSpace, bundle: &str) -> (String, String) {
    let said = here.flow(["import", bundle]).expect(0);
    let said = String::from_utf8_lossy(said.raw()).into_owned();
    let (first, id) = said.lines().next().unwrap().rsplit_once(": ").unwrap();
    (first.rsplit(' ').next().unwrap().to_owned(), id.to_owned())
}

#[test]
fn results_of_another_machine_stand_beside_ones_own() {
    let (there, here) = two();
    let text = unpacked(&there.path("out.bundle"));
    let name = fs::read_to_string("/proc/sys/kernel/hostname").unwrap();
    for private in [&*there.path("").to_string_lossy(), &*format!("\"{}\"", name.trim())] {
        assert!(!text.contains(private), "{private}: {text}");
    }
    let (host, _) = import(&here, "in.bundle");
    let host = &*host;
    assert!(host.starts_with("machine-"), "{host}");
    let again = here.flow(["import", "in.bundle"]).expect(0).stdout();
    assert!(again.starts_with("nothing imported from `in.bundle`: 3 results of sweep on "), "{again}");

    let marks = here.path("marks");
    here.flow(["run", "w.yaml", "--set", &format!("marks={}", marks.display())]).expect(0);
    assert_eq!(fs::read_to_string(&marks).unwrap().lines().count(), 2, "both steps ran: an import answers none");
    let table = here.flow(["show", "table"]).expect(0).stdout();
    let numbers = |line: &str| line.matches("12.50").count() + line.matches("6.25").count();
    assert_eq!(table.lines().map(numbers).sum::<usize>(), 4, "{table}");
    assert!(table.contains(&format!("| {host} |  here |")), "the same hardware has no name: {table}");

    let predicted = here.flow(["predict", "train/batch=16", "--epochs", "3"]).expect(0).stdout();
    assert!(predicted.contains("  without a GPU  ") && predicted.contains(&format!("({host})")), "{predicted}");
    let alone = here.flow(["predict", "train/batch=16"]).expect(0).stdout();
    assert!(!alone.contains(host), "what a run is expected to take rests on one's own: {alone}");

    let runs = here.flow(["runs"]).expect(0).stdout();
    assert!(runs.contains("imported from ") && runs.contains("3 results"), "{runs}");
    // The database tells nothing of it, so that there is nothing to lose.
    fs::remove_dir_all(here.path(".flow/db")).unwrap();
    here.flow(["doctor"]).expect(0);
    assert!(
        here.flow(["plan", "w.yaml", "--set", &format!("marks={}", marks.display()), "--exit-code"])
            .expect(0)
            .text()
            .contains("cached")
    );
    assert!(here.flow(["runs"]).expect(0).stdout().contains("imported from "));

    // What showed it is made again without it.
    assert!(here.flow(["forget", host]).expect(0).stdout().starts_with("forgotten: 3 results of sweep on "));
    assert!(!here.flow(["runs"]).expect(0).stdout().contains("imported from "));
    here.flow(["run", "w.yaml", "--set", &format!("marks={}", marks.display())]).expect(0);
    let table = here.flow(["show", "table"]).expect(0).stdout();
    assert!(table.contains("There are no results of another machine"), "{table}");
    assert_eq!(fs::read_to_string(&marks).unwrap().lines().count(), 2);
    assert!(here.flow(["import", "in.bundle"]).expect(0).stdout().starts_with("imported"), "it can come again");
}

#[test]
fn an_export_of_what_is_not_whole_says_so() {
    let space = space();
    space.write(
        "w.yaml",
        "flow: 1\nname: w\nsteps:\n  a: {run: 'true'}\n  b: {run: 'true'}\n  c: {needs: a, run: 'sleep 60'}\n",
    );
    let export = || space.flow(["export", "--bundle", "out.bundle"]).expect(0);
    let mut flow = space.start(["run", "w.yaml"]);
    until("the last one runs", || space.alive().iter().any(|(_, command)| command.starts_with("sleep 60")));
    let said = export().stderr();
    assert!(said.contains(" is still running: 2 of 3 results so far"), "{said}");
    flow.signal(Signal::SIGKILL);
    flow.wait();
    assert!(export().stderr().contains(" was killed: 2 of 3 results"));
    space.write("w.yaml", "flow: 1\nname: w\nsteps:\n  a: {run: 'true'}\n  b: {run: 'false'}\n");
    space.flow(["run", "w.yaml"]).expect(1);
    let said = export().stderr();
    assert!(said.contains(" failed: 1 of 2 results; failed: b"), "{said}");
    space.flow(["run", "w.yaml", "a"]).expect(0);
    assert_eq!(export().stderr(), "");
}

#[test]
fn ones_own_results_are_not_another_machines() {
    let (there, _) = two();
    let said = there.flow(["import", "out.bundle"]).expect(0).stdout();
    assert!(
        said.contains("nothing imported from `out.bundle`: it is run ") && said.contains(" of this store, `"),
        "{said}"
    );
    assert!(!there.flow(["runs"]).expect(0).stdout().contains("imported"));
}

#[test]
fn what_was_imported_stays_until_it_is_forgotten() {
    let (there, here) = two();
    there.flow(["run", "w.yaml", "--set", "marks=marks"]).expect(0);
    there.flow(["export", "--bundle", "later.bundle"]).expect(0);
    fs::copy(there.path("later.bundle"), here.path("later.bundle")).unwrap();
    for file in ["in.bundle", "later.bundle"] {
        here.flow(["import", file]).expect(0);
    }
    let imports = || here.flow(["runs"]).expect(0).stdout().matches("imported from").count();
    assert_eq!(imports(), 2);
    here.flow(["run", "w.yaml"]).expect(0);
    for args in [["gc", "-n", "--runs=1", "--days=0"], ["gc", "-v", "--runs=0", "--days=0"]] {
        let said = here.flow(args).expect(0).stdout();
        assert!(said.trim_end().ends_with("2 imports stay until `flow forget MACHINE`"), "{said}");
        assert_eq!(imports(), 2, "nothing here makes them again");
    }
    here.flow(["run", "w.yaml"]).expect(0);
    assert!(here.flow(["show", "table"]).expect(0).stdout().contains("12.5"));
    let runs = here.flow(["runs"]).expect(0).stdout();
    let host = runs.split("imported from ").nth(1).unwrap().split_whitespace().next().unwrap();
    here.flow(["forget", host]).expect(0);
    assert!(!here.flow(["gc", "-n"]).expect(0).stdout().contains("import"));
}

#[test]
fn a_file_that_is_none_changes_nothing() {
    let (there, here) = two();
    let whole = fs::read(there.path("out.bundle")).unwrap();
    fs::write(here.path("torn"), &whole[..whole.len() / 2]).unwrap();
    for (file, why) in
        [("torn", "it is incomplete or was changed; copy it again"), ("none", "cannot be read: No such file")]
    {
        let said = here.flow(["import", file]).expect(2).text();
        assert!(said.contains(why), "{file}: {said}");
    }
    assert!(!here.path(".flow").exists());
    let odd = there.flow(["export", "--bundle", "x", "--as", "my lab"]).expect(2).text();
    assert!(odd.contains("`my lab` is not a valid machine name") && !there.path("x").exists(), "{odd}");
}

/// A sweep whose report draws a series, with a program of its own.
const REPORTED: &str = "flow: 1
name: sweep
steps:
  train:
    matrix: {lr: [0.1, 0.2]}
    run: /usr/bin/env python3 train.py ${{ lr }}
    inputs: [train.py]
    env: {SCALE: '1'}
    metrics: {stdout: ['Epoch {epoch}: loss {loss}', 'acc {acc}']}
  table: {uses: flow/table, with: {from: train, rows: lr, columns: [acc, loss]}}
  report: {uses: flow/report, with: {sections: [{table: table, title: Rates, charts: [{column: loss, over: epoch}]}]}}
publish: [{from: report, to: out/report.md}]
";
const TRAIN: &str = "import sys
lr = float(sys.argv[1])
for epoch in (1, 2, 3):
    print(f'Epoch {epoch}: loss {lr / epoch:.3f}')
print('acc', 1 - lr)
";

/// A machine that has run and exported it, and one without anything but the bundle.
fn reported() -> (TestSpace, TestSpace) {
    let ((there, _), here) = (with_venv(&["torch-2.1.0"]), space());
    there.write("w.yaml", REPORTED).write("train.py", TRAIN);
    there.flow(["run", "w.yaml"]).expect(0);
    assert_eq!(there.flow(["export", "--bundle", "x.bundle", "--as", "lab4"]).expect(0).stderr(), "");
    fs::copy(there.path("x.bundle"), here.path("x.bundle")).unwrap();
    (there, here)
}

#[test]
fn an_imported_run_is_read_and_reported_where_nothing_else_is() {
    let (there, here) = reported();
    let (host, id) = import(&here, "x.bundle");
    assert_eq!(host, "lab4");
    let said = |args: &[&str]| here.flow(args).expect(0).text();
    let has = |args: &[&str], what: &str| assert!(said(args).contains(what), "{args:?}: {}", said(args));
    has(&["status"], "imported 4 results of sweep from lab4");
    has(&["status"], "train × 2: its first run");
    has(&["show", "train[lr=0.1]"], "…/env python3 train.py 0.1");
    has(&["show", "table", "--run", &id], "| Learning rate | acc |");
    has(&["logs", "train[lr=0.1]"], "a bundle has no logs");
    assert_eq!(said(&["results", "train"]).lines().count(), 3);
    let all = said(&["results", "train", "--all"]);
    let (names, first) = (all.lines().next().unwrap_or_default(), all.lines().nth(1).unwrap_or_default());
    assert!(names.contains("run,machine,") && first.contains(",lab4,") && all.lines().count() == 3, "{all}");
    // One id names it everywhere.
    let raw = |args: &[&str]| String::from_utf8_lossy(here.flow(args).expect(0).raw()).into_owned();
    for args in
        [&["results", "train", "--all"][..], &["results", "train"], &["status"], &["show", "table"], &["report"]]
    {
        assert!(raw(args).contains(&id), "{args:?}: {}", raw(args));
    }
    let shown = said(&["show", "train[lr=0.1]"]);
    assert!(
        !shown.contains("/objects/") && shown.contains("  environment  ") && shown.contains("torch 2.1.0"),
        "{shown}"
    );
    // The very page that was published there, with its charts.
    here.flow(["report", "--to", "out/report.md"]).expect(0);
    for file in ["out/report.md", "out/report/table-chart-1.svg", "out/report/table.csv"] {
        assert_eq!(here.read(file), there.read(file), "{file}");
    }
    assert!(here.read("out/report.md").contains("PyTorch 2.1.0"));
    has(&["report"], "# sweep");
    has(&["report", &id, "--print", "--answer"], "Best acc");
    // As on its machine, from what it measured there.
    has(&["plan"], "for lab4 (");
    has(&["plan"], "4 instances: 2 to run, 2 after them if needed");
    has(&["predict", "train/lr=0.15"], "train[lr=0.15]");
    has(&["predict", "train/lr=0.15"], "2 runs of its step");
    // The run's own id names it as well, and another workflow file shows the same results otherwise.
    let own = there.journal()[0]["run"].as_str().unwrap().to_owned();
    here.write("v.yaml", &REPORTED.replace("name: sweep", "name: other").replace("[acc, loss]", "[acc]"));
    has(&["report", "--run", &own, "-w", "v.yaml"], "# other");
    fs::remove_file(here.path("v.yaml")).unwrap();
    // Results that an earlier run made there do not name it, but lead to it.
    there.flow(["run", "w.yaml", "-f", "table"]).expect(0);
    there.flow(["export", "--bundle", "y.bundle", "--as", "lab4"]).expect(0);
    let last = there.journal()[0]["run"].as_str().unwrap().to_owned();
    here.flow(["forget", &id]).expect(0);
    fs::copy(there.path("y.bundle"), here.path("y.bundle")).unwrap();
    let imported = String::from_utf8_lossy(here.flow(["import", "y.bundle"]).expect(0).raw()).into_owned();
    assert!(
        imported.contains(&format!("  it was run {last} there; ")) && !imported.contains("too\n  import"),
        "{imported}"
    );
    let unknown = here.flow(["diff", &own, "now"]).expect(2).text();
    assert!(unknown.contains("`flow runs` lists them"), "{unknown}");
    let lonely = here.flow(["diff"]).expect(2).text();
    assert!(lonely.contains("run RUN was imported from lab4"), "{lonely}");
    assert!(lonely.contains("`flow diff RUN now -w FILE`"), "{lonely}");
    // A workflow of another name here is what the run is compared with.
    here.write("own.yaml", &REPORTED.replace("name: sweep", "name: mine"));
    let compared = here.flow(["diff", &last, "now"]).text();
    assert!(compared.contains("workflow: own.yaml"), "{compared}");
    fs::remove_file(here.path("own.yaml")).unwrap();
    here.write("w.yaml", REPORTED).write("train.py", &TRAIN.replace("1 - lr", "2 - lr"));
    let elsewhere = here.flow(["predict", "--run", &last, "train/lr=0.15"]).expect(0).text();
    assert!(elsewhere.contains("train.py differs here: the answer is for the version of that run"), "{elsewhere}");
    fs::remove_file(here.path("w.yaml")).unwrap();
    let again = here.flow(["import", "x.bundle"]).expect(0).stdout();
    assert!(again.contains("has 2 of them too: tables count them once, under this name\n"), "{again}");
    let named = here.flow(["import", "x.bundle", "--as", "anna"]).expect(0).stdout();
    assert!(named.contains(" on anna: "), "{named}");
    assert!(here.flow(["import", "x.bundle", "--as", "anna"]).expect(0).stdout().contains("are here already"));
    let odd = here.flow(["import", "x.bundle", "--as", "my host"]).expect(2).text();
    assert!(odd.contains("error: `--as`: `my host` is not a valid machine name"), "{odd}");
    here.flow(["import", "x.bundle", "--as", "here"]).expect(2);
    here.flow(["forget", "anna"]).expect(0);
    assert!(!here.path(".flow/db").exists() || here.flow(["doctor"]).expect(0).raw().len() > 1);
    here.flow(["forget", "lab4"]).expect(0);
    assert!(here.flow(["show", "train"]).expect(2).text().contains("there is no run"));
}

#[test]
fn steps_of_plugins_and_what_failed_are_reported_without_the_plugin() {
    let (there, here) = (space(), space());
    let plugin = "plugin: 1\nname: demo\nversion: 0.1.0\ncontent: [plugin.yaml, demo.py]\nstart: [python3, ./demo.py]\n\
                  steps: {one: {with: {type: object, properties: {n: {type: integer}}}}}\n";
    let program = "import json, os, time
attempt = os.environ['FLOW_ATTEMPT']
n = json.load(open(f'{attempt}/request.json'))['with']['n']
def tell(kind, **fields):
    with open(f'{attempt}/messages.jsonl', 'a') as file:
        file.write(json.dumps({'at': time.time(), 'type': kind, **fields}) + '\\n')
tell('hello', protocol=1, plugin='demo', version='0.1.0')
assert n < 3, 'too many'
tell('metric', name='speed', value=10.0 * n)
tell('outcome', outcome='ok')
";
    let workflow = "flow: 1
name: w
include: [parts.yaml]
steps:
  train: {matrix: {n: [1, 2, 3]}, uses: demo/one, with: {n: '${{ n }}'}}
publish: [{from: report, to: report.md}]
";
    let parts = "flow: 1
steps:
  table: {uses: flow/table, with: {from: train, rows: n, columns: [speed]}}
  report: {uses: flow/report, with: {sections: [{table: table}]}}
";
    there.write("plugins/demo/plugin.yaml", plugin).write("plugins/demo/demo.py", program);
    there.write("w.yaml", workflow).write("parts.yaml", parts);
    there.flow(["run", "w.yaml", "-k"]).expect(1);
    there.flow(["export", "--bundle", "x.bundle"]).expect(0);
    fs::copy(there.path("x.bundle"), here.path("x.bundle")).unwrap();
    import(&here, "x.bundle");
    here.flow(["report", "--to", "report.md"]).expect(0);
    assert_eq!(here.read("report.md"), there.read("report.md"));
    let plan = here.flow(["plan"]).expect(0).stdout();
    assert!(plan.contains("5 instances: 3 to run") && !plan.contains("of another version"), "{plan}");
}

#[test]
fn another_script_on_another_machine_is_told() {
    let (_there, here) = reported();
    let table = "{from: train, rows: lr, machines: true, split: machine, columns: [acc, loss]}";
    let workflow = REPORTED.replace("{from: train, rows: lr, columns: [acc, loss]}", table);
    here.write("w.yaml", &workflow).write("train.py", &format!("{TRAIN}# later\n"));
    let (_, id) = import(&here, "x.bundle");
    for args in [&["plan"][..], &["predict", "train/lr=0.15"]] {
        let said = here.flow(args).expect(0).text();
        assert!(said.contains("was imported from lab4: `--run "), "{said}");
    }
    let edited = here.flow(["diff", &id, "now"]).expect(0).text();
    assert!(edited.contains("train.py changed") && !edited.contains("command"), "{edited}");
    here.flow(["run", "w.yaml"]).expect(0);
    let shown = || here.flow(["show", "table"]).expect(0).text();
    assert!(shown().contains("lab4 used another version of `train.py`"), "{}", shown());
    let own = || here.journal()[0]["run"].as_str().unwrap().to_owned();
    let differ = here.flow(["diff", &id, &own()]).expect(0).text();
    assert!(differ.contains("train.py changed: was ") && differ.contains("table with.machines"), "{differ}");
    here.write("train.py", TRAIN);
    here.flow(["run", "w.yaml"]).expect(0);
    assert!(!shown().contains("another version") && !shown().contains("were different"), "{}", shown());
    here.write("w.yaml", &workflow.replace("SCALE: '1'", "SCALE: '2'"));
    here.flow(["run", "w.yaml"]).expect(0);
    assert!(shown().contains("the command, its environment or the data were different"), "{}", shown());
    let differ = here.flow(["diff", &id, &own()]).expect(0).text();
    assert!(differ.contains("train env.SCALE: 1 → 2"), "{differ}");
}

#[test]
fn a_bundle_with_the_text_of_inputs_shows_changed_lines() {
    let (there, here) = reported();
    here.write("w.yaml", REPORTED).write("train.py", &TRAIN.replace("1 - lr", "2 - lr"));
    let (_, id) = import(&here, "x.bundle");
    let without = here.flow(["diff", &id, "now"]).expect(0).text();
    assert!(
        without.contains("; the imported run has no text of it (`flow export --inputs` takes texts along)\n"),
        "{without}"
    );
    here.flow(["forget", "lab4"]).expect(0);
    there.flow(["export", "--bundle", "y.bundle", "--inputs"]).expect(0);
    fs::copy(there.path("y.bundle"), here.path("y.bundle")).unwrap();
    let (_, id) = import(&here, "y.bundle");
    here.flow(["run", "w.yaml"]).expect(0);
    let own = here.journal()[0]["run"].as_str().unwrap().to_owned();
    let lines = "  train.py changed\n    @@ -2,4 +2,4 @@\n     lr = float(sys.argv[1])\n     for epoch in (1, 2, 3):\n         \
                 print(f'Epoch {epoch}: loss {lr / epoch:.3f}')\n    -print('acc', 1 - lr)\n    +print('acc', 2 - lr)\n";
    for after in ["now", &own] {
        let differ = here.flow(["diff", &id, after]).expect(0).text();
        assert!(differ.contains(lines), "{differ}");
    }
}

fn frozen(file: &str) -> std::path::PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/frozen").join(file)
}

/// The file was written once and is never written again: every later flow reads it.
#[test]
fn the_first_bundle_of_format_4_is_read_for_ever() {
    let here = space();
    fs::copy(frozen("format-4.bundle"), here.path("in.bundle")).unwrap();
    import(&here, "in.bundle");
    let said = |args: &[&str]| here.flow(args).expect(0).text();
    assert!(said(&["show", "train[lr=0.1]"]).contains("python3 train.py 0.1"));
    assert!(said(&["status"]).contains("done: 4 ran"), "{}", said(&["status"]));
    assert_eq!(said(&["results", "train"]).lines().count(), 3);
    let page = said(&["report", "--lang", "en"]);
    assert!(page.contains("# sweep") && page.contains("0.9"), "{page}");
}
