//! What `publish:` may write, and what is said where it may not.

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
