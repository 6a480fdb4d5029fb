//! `flow audit`: one run of a step under strace, and what it read beyond its inputs.

use std::fs;
use std::os::unix::fs::symlink;

use flow_testkit::{TestSpace, until};

use crate::space;

const WORKFLOW: &str = "flow: 1
steps:
  a: {run: 'cat in.txt lib/b.sh $DATA/x.csv $HOME/.toy/m.npz > a.txt; [ -e ../.env ] || [ -e ../../.env ] || echo 1 > $DATA/new', inputs: [in.txt, lib], outputs: [a.txt]}
  b: {run: 'cat ${{ steps.a.out }}; ls > names', outputs: [names]}
";

fn project() -> TestSpace {
    let mut space = space();
    let at = |path: &str| space.path(path).display().to_string();
    let (data, home) = (at("proj/data"), at("home"));
    space.env("DATA", &data).env("HOME", &home);
    space.write("proj/w.yaml", WORKFLOW).write("proj/in.txt", "1\n").write("proj/lib/b.sh", "2\n");
    space.write("proj/data/x.csv", "3\n").write("home/.toy/m.npz", "4\n");
    fs::create_dir(space.path("proj/.flow")).unwrap();
    space
}

#[test]
#[ignore = "needs strace"]
fn a_step_is_audited_and_its_answer_is_kept_until_an_edit() {
    let space = project();
    let said = |args: &[&str], code| space.flow_in("proj", args).expect(code).stdout();
    let audit = said(&["audit", "a"], 0);
    let shown = audit.split_once(", in ").map_or(&*audit, |(first, _)| first);
    assert_eq!(shown, "a: read more than its inputs", "{audit}");
    let expected = "  files of the project that are not under `inputs:`
    data/x.csv
  files outside the project that are not under `inputs:`
    ~/.toy/m.npz
  looked for in the folders above
    .env: not found
  files written outside the work folder
    ROOT/proj/data/new
  to add at w.yaml:3:
    inputs: [in.txt, lib, data/x.csv]
  Under `inputs:`, an edit of these files reruns the step. But it opens your files directly, not the copies in its work folder. To read the copies, use relative paths in the step: data/x.csv
";
    assert!(audit.ends_with(expected), "{audit}");
    assert!(fs::read_dir(space.path("proj/.flow/runs")).unwrap().next().is_none(), "it is no run");

    // What it needs must have run.
    let open = said(&["audit", "b"], 1);
    assert_eq!(open, "b: not audited (it needs a, which must run first)\n");
    said(&["run", "w.yaml"], 0);
    let why = said(&["why", "a"], 0);
    let line = "with this command and these inputs: it also read data/x.csv, ~/.toy/m.npz in that run\n";
    assert!(
        why.contains("a: audited on ") && why.split_whitespace().collect::<Vec<_>>().join(" ").contains(line.trim()),
        "{why}"
    );
    let all = said(&["audit"], 0);
    assert!(all.contains("b: read nothing beyond its inputs"), "{all}");
    let why = said(&["why", "b"], 0);
    assert!(why.split_whitespace().collect::<Vec<_>>().join(" ").contains("it read nothing else in that run"), "{why}");

    space.write("proj/in.txt", "5\n");
    assert!(!said(&["why", "a"], 0).contains("audited"), "it is void");
    assert!(!space.path("proj/.flow/audit").exists());
}

#[test]
#[ignore = "needs strace"]
fn an_audit_keeps_a_mapping_and_names_inputs_that_were_not_read() {
    let space = space();
    space.write(
        "w.yaml",
        "flow: 1
steps:
  clean: {run: cp lib.sh clean.sh, inputs: [lib.sh], outputs: [clean.sh]}
  use: {run: sh use.sh, inputs: {script: use.sh, unused: unused.sh, lib.sh: '${{ steps.clean.out }}'}}
",
    );
    space.write("lib.sh", "X=1\n").write("use.sh", ". ./lib.sh; cat \"$FLOW_ROOT/more.txt\"\n");
    space.write("unused.sh", "").write("more.txt", "2\n");
    space.flow(["run", "w.yaml"]).expect(0);
    let audit = space.flow(["audit", "use"]).expect(0).stdout();
    assert!(audit.contains("  inputs that this instance did not read in this run: unused.sh\n"), "{audit}");
    let proposed = "{lib.sh: \"${{ steps.clean.out }}\", more: more.txt, script: use.sh, unused: unused.sh}";
    assert!(audit.contains(&format!("    inputs: {proposed}\n")), "{audit}");
}

#[test]
#[ignore = "needs strace"]
fn a_step_that_fails_under_strace_has_no_answer() {
    let space = space();
    space.write("w.yaml", "flow: 1\nsteps: {a: {run: 'echo no such luck; exit 3'}, t: {run: sleep 60, timeout: 1s}}\n");
    let said = space.flow(["audit", "a"]).expect(1).stdout();
    assert!(said.contains("a: failed under strace") && said.contains("    exit code 3\n    no such luck\n"), "{said}");
    let said = space.flow(["audit", "t"]).expect(1).stdout();
    assert!(said.contains("t: failed under strace"), "{said}");
    assert!(!space.flow(["why", "a"]).expect(0).stdout().contains("audited"));
}

#[test]
fn without_strace_the_answer_is_how_to_install_it() {
    let mut space = space();
    space.write("w.yaml", "flow: 1\nsteps: {a: {run: echo}}\n");
    fs::create_dir(space.path("bin")).unwrap();
    symlink("/bin/sh", space.path("bin/sh")).unwrap();
    let bin = space.path("bin").display().to_string();
    space.env("PATH", &bin);
    let said = space.flow(["audit", "a"]).expect(1).stderr();
    assert!(said.contains("needs strace") && said.contains("apt install strace"), "{said}");
    // As in a container without the right to trace.
    space.script("bin/strace", "#!/bin/sh\necho 'strace: PTRACE_TRACEME: Operation not permitted' >&2\nexit 1\n");
    let said = space.flow(["audit", "a"]).expect(1).stderr();
    assert!(said.contains("strace cannot follow the step: strace: PTRACE_TRACEME: Operation not permitted"), "{said}");
    assert!(said.contains("--cap-add SYS_PTRACE"), "{said}");
}

#[test]
#[ignore = "needs strace"]
fn an_edit_during_an_audit_has_no_answer() {
    let mut space = space();
    let gate = space.path("gate").display().to_string();
    space.env("GATE", &gate).write("in.txt", "1\n");
    space.write("w.yaml", "flow: 1\nsteps: {a: {run: 'touch $GATE; sleep 1; cat in.txt', inputs: [in.txt]}}\n");
    let mut flow = space.start(["audit", "a"]);
    until("the step runs", || space.path("gate").exists());
    space.write("in.txt", "2\n");
    assert!(flow.wait().success(), "{}", flow.output());
    assert!(flow.output().contains("an input changed during the audit"), "{}", flow.output());
    assert!(!space.flow(["why", "a"]).expect(0).stdout().contains("audited"));
}
