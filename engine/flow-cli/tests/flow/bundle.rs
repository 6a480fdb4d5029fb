//! `flow export` and `flow import`: another machine's results stand beside one's own, and answer for none.

use std::fs;

use flow_testkit::{TestSpace, until};
use nix::sys::signal::Signal;

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
    assert!(said.contains("`w.yaml` is there, and no bundle") && there.read("w.yaml") == SWEEP, "{said}");
    fs::copy(there.path("out.bundle"), here.path("in.bundle")).unwrap();
    (there, here)
}

#[test]
fn results_of_another_machine_stand_beside_ones_own() {
    let (there, here) = two();
    let text = there.read("out.bundle");
    assert!(!text.contains(&*there.path("").to_string_lossy()), "{text}");
    let said = here.flow(["import", "in.bundle"]).expect(0).stdout();
    assert!(said.starts_with("imported 3 results of sweep on "), "{said}");
    let again = here.flow(["import", "in.bundle"]).expect(0).stdout();
    assert!(again.starts_with("nothing imported from `in.bundle`: 3 results of sweep on "), "{again}");

    let marks = here.path("marks");
    here.flow(["run", "w.yaml", "--set", &format!("marks={}", marks.display())]).expect(0);
    assert_eq!(fs::read_to_string(&marks).unwrap().lines().count(), 2, "both steps ran: an import answers none");
    let table = here.flow(["show", "table"]).expect(0).stdout();
    let numbers = |line: &str| line.matches("12.50").count() + line.matches("6.25").count();
    assert_eq!(table.lines().map(numbers).sum::<usize>(), 4, "{table}");
    let host = fs::read_to_string("/proc/sys/kernel/hostname").unwrap();
    let host = host.trim().split('.').next().unwrap();
    assert!(table.contains(&format!("({host})")), "{table}");

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
    assert!(table.contains("There is no result of another machine"), "{table}");
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
    assert!(said.contains(" goes on: 2 of 3 results so far"), "{said}");
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
    assert!(said.contains("its results are this store's own"), "{said}");
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
    let host = fs::read_to_string("/proc/sys/kernel/hostname").unwrap();
    here.flow(["forget", host.trim().split('.').next().unwrap()]).expect(0);
    assert!(!here.flow(["gc", "-n"]).expect(0).stdout().contains("import"));
}

#[test]
fn a_file_that_is_none_changes_nothing() {
    let (there, here) = two();
    let whole = there.read("out.bundle");
    here.flow(["run", "w.yaml"]).expect(0);
    let runs = || here.flow(["runs"]).expect(0).stdout();
    let before = runs();
    here.write("torn", &whole[..whole.len() / 2])
        .write("changed", &whole.replace("12.5", "1.25"))
        .write("other", "a,b\n1,2\n");
    for (file, why) in [
        ("torn", "it has not come whole"),
        ("changed", "its digest is another one; copy it again"),
        ("other", "it is no bundle; `flow export RUN --bundle FILE` writes one"),
        ("none", "cannot be read: No such file"),
        (".", "it is no regular file, but a folder"),
    ] {
        let said = here.flow(["import", file]).expect(2).text();
        assert!(said.contains(why), "{file}: {said}");
    }
    assert_eq!(runs(), before);
    assert!(
        here.flow(["export", "nosuchrun", "--bundle", "x"]).expect(2).text().contains("there is no run `nosuchrun`")
    );
    assert!(here.flow(["export", "--bundle", "no/such/folder"]).expect(1).text().contains("cannot be written"));
}

#[test]
fn imported_results_are_shown_and_compared_and_it_is_said_what_a_bundle_lacks() {
    let (_there, here) = two();
    let said = |args: &[&str]| here.flow(args).expect(0).text();
    let imported = here.flow(["import", "in.bundle"]).expect(0);
    let id = String::from_utf8_lossy(imported.raw()).trim().rsplit(": ").next().unwrap().to_owned();
    for args in [&["show", "train[version=v7,batch=8]"][..], &["show", "train[version=v7,batch=8]", "--run", &id]] {
        let row = |line: &str| line.trim_start().starts_with("epoch_time ");
        assert!(said(args).lines().any(row), "{}", said(args));
    }
    assert_eq!(said(&["results", "train"]).lines().count(), 3, "{}", said(&["results", "train"]));
    assert!(said(&["status"]).contains("imported 3 results of sweep from "), "{}", said(&["status"]));
    here.write("w.yaml", &SWEEP.replace("100 / batch", "200 / batch"));
    here.flow(["run", "w.yaml"]).expect(0);
    let own = here.journal()[0]["run"].as_str().unwrap().to_owned();
    let differ = said(&["diff", &id, &own]);
    assert!(differ.contains("note: before is imported from "), "{differ}");
    assert!(differ.contains("a bundle holds results, and neither the workflow nor its files"), "{differ}");
    let row = |line: &str| line.contains("train[version=v7,batch=8] epoch_time") && line.contains("+100.0 %");
    assert!(differ.lines().any(row) && !differ.contains("params."), "{differ}");
}
