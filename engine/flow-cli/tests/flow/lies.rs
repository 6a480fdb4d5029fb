//! Programs that leave something running and meddle: the engine sees it, and says so.

use serde_json::json;

use crate::space;

/// What the newest run said of one attempt or about it.
fn texts(space: &flow_testkit::TestSpace, event: &str, field: &str) -> Vec<String> {
    let of_event = space.journal().into_iter().filter(|line| line["event"] == event);
    of_event.filter_map(|line| line[field].as_str().map(str::to_owned)).collect()
}

#[test]
fn what_a_step_leaves_running_is_told() {
    let space = space();
    let steps = "a: {run: 'sleep 81 & echo 1 > out.txt', outputs: {o: out.txt}}\n  b: {run: 'sleep 0.1 & wait'}";
    space.write("left.yaml", &format!("flow: 1\nname: left\nsteps:\n  {steps}\n"));
    space.flow(["run", "left.yaml"]).expect(0);
    let notices = texts(&space, "notice", "text");
    assert_eq!(notices.len(), 1, "{notices:?}");
    assert!(notices[0].starts_with("1 process was still running when it ended, and got killed"), "{notices:?}");
    assert!(space.flow(["show", "a"]).expect(0).stdout().contains("1 process, ended with it"));
    assert!(!space.flow(["show", "b"]).expect(0).stdout().contains("left running"));
}

#[test]
fn who_writes_into_a_large_artifact_is_found_out() {
    let space = space();
    let workflow = "
flow: 1
name: large
steps:
  large: {run: truncate -s 1025M out/large, outputs: [out/large]}
  meddle: {run: 'sh -c \"chmod u+w $(readlink -f ${{ steps.large.out }}); printf x | dd of=${{ steps.large.out }} conv=notrunc status=none\"'}
";
    space.write("large.yaml", workflow);
    space.flow(["run", "large.yaml"]);
    let journal = space.journal();
    let disturbed = journal.iter().find_map(|line| line.get("disturbances")).expect("a disturbed attempt");
    let damage = json!({"kind": "changed", "path": null});
    assert_eq!(*disturbed, json!([{"kind": "artifact_changed", "path": "in/large/out/large", "damage": damage}]));
    let again = space.flow(["run", "large.yaml", "-n"]).expect(0).stdout();
    assert!(again.contains("large"), "made again: {again}");
}

#[test]
fn a_file_that_a_plugin_reads_in_place_is_that_of_the_beginning() {
    let space = space();
    let plugin = r#"
plugin: 1
name: slow
version: 0.1.0
content: [slow.sh]
start: [./slow.sh]
steps:
  read:
    with: {type: object, properties: {file: {type: string, x-flow: path}}}
"#;
    let script = r#"#!/bin/sh
echo '{"type":"hello","protocol":1,"plugin":"slow","version":"0.1.0"}' >> $FLOW_ATTEMPT/messages.jsonl
sleep 0.6
cat "$(sed 's/.*"file":"\([^"]*\)".*/\1/' $FLOW_ATTEMPT/request.json)"
echo '{"type":"outcome","outcome":"ok"}' >> $FLOW_ATTEMPT/messages.jsonl
"#;
    space.write("plugins/slow/plugin.yaml", plugin).script("plugins/slow/slow.sh", script);
    space.write("in.txt", "one");
    let steps = "flow: 1\nname: slow\nsteps:\n  read: {uses: slow/read, with: {file: plugins/.././in.txt}}\n";
    space.write("slow.yaml", steps);
    let mut flow = space.start(["run", "slow.yaml"]);
    flow_testkit::until("the step runs", || space.alive().iter().any(|(_, command)| command.starts_with("sleep 0.6")));
    space.write("in.txt", "two");
    assert!(flow.wait().success() && !flow.output().contains("changed"), "{}", flow.output());
    assert_eq!(space.flow(["logs", "-w", "slow.yaml", "read"]).expect(0).stdout().trim(), "one");
    let again = space.flow(["run", "slow.yaml"]).expect(0).stdout();
    assert!(again.contains("1 ran"), "not taken for the result of the changed file: {again}");
}
