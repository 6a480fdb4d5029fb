//! While flow stores a large output, it does all that is due: the loop waits for no disk.

use std::{fs, thread, time::Duration};

use flow_testkit::{TestSpace, until};
use nix::sys::signal::Signal;

use crate::space;

/// A file of four gigabytes, to hash and not to write, handed over when it is told to, and beside that on one CPU: a step whose end
/// is followed by the next, whose time is up, and is followed by one that is interrupted. A barrier cannot be due meanwhile: a
/// co-run group has nothing of ours beside it.
const WORKFLOW: &str = "\
flow: 1
name: served
steps:
  large:
    run: truncate -s 4G out.bin; touch $T/filled; until [ -e $T/go ]; do sleep 0.002; done
    outputs: [out.bin]
    env: {T: TELL}
  first:
    run: touch $T/began; until [ -e $T/go ]; do sleep 0.002; done
    env: {T: TELL}
  late:
    needs: [first]
    run: sleep 100
    timeout: 200ms
    record: [timed_out]
    env: {T: TELL}
  asked:
    needs: [late]
    run: trap 'date +%s.%N > $T/asked; exit' TERM; touch $T/waits; sleep 100 & wait
    env: {T: TELL}
";

fn seconds(space: &TestSpace, name: &str) -> f64 {
    let path = space.path("tell").join(name);
    until(name, || fs::read_to_string(&path).is_ok_and(|text| text.ends_with('\n')));
    fs::read_to_string(path).unwrap().trim().parse().unwrap()
}

/// How long after the next step, the time limit and Ctrl-C the output was stored, seconds.
fn stored_later() -> f64 {
    let space = space();
    fs::create_dir(space.path("tell")).unwrap();
    let tell = space.path("tell").display().to_string();
    space.write("served.yaml", &WORKFLOW.replace("TELL", &tell));
    let mut flow = space.start(["run", "served.yaml", "-j", "2"]);
    let told = |name: &str| space.path("tell").join(name).exists();
    until("both run", || told("filled") && told("began") || !flow.is_alive());
    assert!(flow.is_alive(), "{}", flow.output());
    fs::write(space.path("tell/go"), "").unwrap();
    while !told("waits") && flow.is_alive() {
        thread::sleep(Duration::from_millis(1));
    }
    flow.signal(Signal::SIGINT);
    let asked = seconds(&space, "asked");
    assert_eq!(flow.wait().code(), Some(130), "{}", flow.output());
    let journal = space.journal();
    let stored = journal.iter().find(|line| line["event"] == "recorded" && line["result"]["step"] == "large");
    // Ten seconds after Ctrl-C flow gives up what it still stores.
    stored.map_or(f64::INFINITY, |line| line["at"].as_u64().unwrap() as f64 / 1e3 - asked)
}

#[test]
fn whoever_waits_is_served_while_a_large_output_is_stored() {
    // A loop that waits for the output is late every time, however busy the machine is.
    let all: Vec<f64> = (0..3).map(|_| stored_later()).take_while(|later| *later <= 0.0).collect();
    assert!(all.len() < 3, "the output was stored before all was served: {all:.3?} s");
}

#[test]
fn plugins_are_set_up_at_the_same_time() {
    let space = space();
    // Each waits for the other's beginning: one after the other, neither would end well.
    for (one, other) in [("left", "right"), ("right", "left")] {
        let begins =
            format!("touch begun; for i in $(seq 600); do [ -e ../{other}/begun ] && exit 0; sleep 0.1; done; exit 1");
        let yaml = format!(
            "plugin: 1\nname: {one}\nversion: 0.1.0\ncontent: [plugin.yaml, program]\nsetup: [\"sh -c '{begins}'\"]\nstart: [./program]\nsteps: {{one: {{with: {{type: object}}}}}}\n"
        );
        let program = format!(
            "#!/bin/sh\necho '{{\"type\":\"hello\",\"protocol\":1,\"plugin\":\"{one}\",\"version\":\"0.1.0\"}}' > $FLOW_ATTEMPT/messages.jsonl\necho '{{\"type\":\"outcome\",\"outcome\":\"ok\"}}' >> $FLOW_ATTEMPT/messages.jsonl\n"
        );
        space.write(format!("plugins/{one}/plugin.yaml"), &yaml).script(format!("plugins/{one}/program"), &program);
    }
    space.write("both.yaml", "flow: 1\nname: both\nsteps: {a: {uses: left/one}, b: {uses: right/one}}\n");
    let planned = || space.flow(["plan", "both.yaml"]).expect(0).stdout();
    assert!(planned().contains("the run first sets up the plugins left, right, once"), "{}", planned());
    let said = space.flow(["run", "both.yaml"]).expect(0).text();
    assert_eq!(said.matches("setting up plugin").count(), 2, "{said}");
    assert!(!planned().contains("sets up"), "{}", planned());
}
