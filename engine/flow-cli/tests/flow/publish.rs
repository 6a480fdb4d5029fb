//! What `publish:` may write, and what is said where it may not.

use std::{fs, os::unix::fs::symlink};

use crate::space;

const WORKFLOW: &str = r#"
flow: 1
name: a
steps:
  train: {matrix: {batch: [1, 2]}, run: echo loss 3, metrics: {stdout: "loss {loss}"}}
  tab: {uses: flow/table, with: {from: train, rows: batch, columns: [loss]}}
  rep: {uses: flow/report, with: {sections: [{table: tab}]}}
publish: [{from: rep, to: rep.md}]
"#;

#[test]
fn what_is_not_published_is_said_with_its_reason() {
    let space = space();
    space.write("a.yaml", WORKFLOW).write("rep.md", "my own notes\n");
    let reason =
        "not published `rep.md`: flow did not write the file that is there; move it away, or publish elsewhere";
    let quiet = space.flow(["run", "-q", "a.yaml"]).expect(1).text();
    assert!(quiet.contains(reason), "{quiet}");
    let loud = space.flow(["run", "a.yaml"]).expect(1).text();
    assert_eq!(loud.matches(reason).count(), 1, "{loud}");
    let status = space.flow(["status"]).expect(0).stdout();
    assert!(status.contains("failed: 4 cached") && status.contains(reason), "{status}");
    assert_eq!(space.read("rep.md"), "my own notes\n");
}

#[test]
fn what_is_no_report_is_told_from_a_run_without_one() {
    let space = space();
    space.write("a.yaml", WORKFLOW);
    space.flow(["run", "a.yaml"]).expect(0);
    let said = space.flow(["report", "tab"]).expect(2).text();
    assert!(said.contains("`tab` is no report that the run made") && said.contains("it made rep;"), "{said}");
    assert!(space.flow(["report", "rep"]).expect(0).stdout().contains("| "));
    space.flow(["run", "a.yaml", "tab", "-f"]).expect(0);
    let said = space.flow(["report", "tab"]).expect(2).text();
    assert!(said.contains("the run has no report"), "{said}");
}

#[test]
fn a_published_file_is_written_through_its_link_and_through_no_other() {
    let space = space();
    space.write("a.yaml", "flow: 1\nname: a\nsteps:\n  train: {run: echo loss 3, metrics: {stdout: 'loss {loss}'}}\n  tab: {uses: flow/table, with: {from: train, columns: [loss]}}\n  rep: {uses: flow/report, with: {sections: [{table: tab}]}}\npublish: [{from: rep, to: REPORT.md}]\n");
    space.write("mine", "precious").write("docs/real.md", "");
    symlink(space.path("mine"), space.path("REPORT.md.flow-tmp")).unwrap();
    fs::remove_file(space.path("docs/real.md")).unwrap();
    symlink("docs/real.md", space.path("REPORT.md")).unwrap();
    space.flow(["run", "a.yaml"]).expect(0);
    assert_eq!(space.read("mine"), "precious");
    assert!(space.path("REPORT.md").is_symlink() && !space.path("docs/real.md").is_symlink());
    assert!(space.read("docs/real.md").contains("loss"));
    assert!(space.path("REPORT.md.flow-tmp").is_symlink(), "it is not flow's");
}
