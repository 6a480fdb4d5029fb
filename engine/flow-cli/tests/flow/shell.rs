//! What runs the command of a step: bash, `sh` or the interpreter of a `#!` line.

use std::os::unix::fs::symlink;

use crate::space;

#[test]
fn a_command_runs_as_its_author_wrote_it() {
    let space = space();
    space.write("helper.py", "value = 7\n").write("env.sh", "color=blue\n");
    let workflow = r#"
flow: 1
steps:
  pipe: {run: "false | tee log.txt"}
  head: {run: "yes | head -1"}
  braces: {run: "for i in {1..3}; do printf $i; done; [[ a == a* ]] && source ./env.sh && echo $color", inputs: [env.sh]}
  posix: {shell: sh, run: "printf '%s ' {1..3}; false | true; echo $0"}
  script:
    run: |
      #!/bin/bash
      for seed in {1..3}; do echo "seed $seed"; done; false; echo on
  python:
    run: |
      #!/usr/bin/env python3
      import helper
      print(helper.value)
    inputs: [helper.py]
  module: {run: "module load cuda && python3 -V"}
"#;
    space.write("w.yaml", workflow);
    let said = space.flow(["run", "-k", "w.yaml"]).expect(1).text();
    let mut ran = space.ran();
    ran.sort();
    assert_eq!(ran, ["braces", "head!", "module!", "pipe!", "posix", "python", "script"]);
    assert!(
        said.contains("exit code 141: y; a command in a pipe kept writing after its reader, such as `head`, had ended"),
        "{said}"
    );
    assert!(said.contains("module: command not found; this shell has no `module`"), "{said}");
    let log = |step| space.flow(["logs", step]).expect(0).stdout();
    assert_eq!(log("braces").trim(), "123blue");
    assert_eq!(log("posix").trim(), "{1..3} sh");
    assert_eq!(log("script").trim(), "seed 1\nseed 2\nseed 3\non");
    assert_eq!(log("python").trim(), "7");
    let said = space.flow(["check", "-v", "w.yaml"]).expect(0).stdout();
    let runs =
        |step: &str| said.lines().find_map(|line| line.trim().strip_prefix(&format!("{step}: "))).map(str::to_owned);
    assert_eq!(runs("pipe").as_deref(), Some("bash --noprofile --norc -eo pipefail"), "{said}");
    assert_eq!(runs("posix").as_deref(), Some("sh -e"));
    assert_eq!(runs("python").as_deref(), Some("#!/usr/bin/env python3"));
    // Another shell is another step; a machine without bash is none.
    space.write("w.yaml", &workflow.replace("braces: {run", "braces: {shell: sh, run"));
    let why = space.flow(["plan", "w.yaml", "braces"]).expect(0).stdout();
    assert!(why.contains("its shell was bash, is sh"), "{why}");
}

#[test]
fn without_bash_a_step_says_what_to_write() {
    let mut space = space();
    let bin = space.path("bin");
    std::fs::create_dir(&bin).unwrap();
    for program in ["sh", "echo", "cat"] {
        symlink(format!("/bin/{program}"), bin.join(program)).unwrap();
    }
    space.env("PATH", &bin.to_string_lossy());
    let workflow = "flow: 1\nsteps:\n  plain: {run: echo a}\n  piped: {run: echo a | cat}\n  posix: {run: echo a | cat, shell: sh}\n";
    space.write("w.yaml", workflow);
    let said = space.flow(["run", "-k", "w.yaml"]).expect(1).text();
    assert!(said.contains("`bash` is not on the PATH, and this command needs a shell"), "{said}");
    assert!(said.contains("write `shell: sh` into the step"), "{said}");
    let mut ran = space.ran();
    ran.sort();
    assert_eq!(ran, ["piped!", "plain", "posix"]);
}
