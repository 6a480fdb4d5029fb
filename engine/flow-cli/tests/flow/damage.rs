//! What can go wrong with a store: newer formats, damaged databases, full disks. Each in words, and nothing is lost.

use std::{fs, io::Write, process::Command};

use flow_testkit::{TestSpace, until};

use crate::space;

const WORKFLOW: &str = r#"
flow: 1
name: make
steps:
  make:
    matrix: {n: "${{ range(6) }}"}
    run: sh -c 'echo made ${{ n }} > out/made.txt'
    outputs: [out/made.txt]
"#;

fn done() -> TestSpace {
    let space = space();
    space.write("make.yaml", WORKFLOW);
    space.flow(["run", "make.yaml"]).expect(0);
    space
}

#[test]
fn a_store_of_a_newer_flow_is_refused() {
    let space = done();
    space.write(".flow/format", "99\n");
    for command in [&["run", "make.yaml"][..], &["plan", "make.yaml"], &["status"], &["doctor"], &["gc"]] {
        let ran = space.flow(command);
        assert!(ran.code().is_some_and(|code| code != 0), "{command:?}");
        assert!(ran.stderr().contains("format 99"), "{command:?}: {}", ran.stderr());
    }
}

#[test]
fn a_run_that_was_killed_before_its_plan_is_told_so() {
    let space = done();
    let journal = fs::read_dir(space.path(".flow/runs")).unwrap().next().unwrap().unwrap().path().join("journal.jsonl");
    let text = fs::read_to_string(&journal).unwrap();
    fs::write(&journal, text.split_inclusive('\n').next().unwrap()).unwrap();
    let said = space.flow(["status"]).expect(0).stdout();
    assert!(said.contains("killed: before it had a plan, last seen after"), "{said}");
    let said = space.flow(["show", "make"]).expect(2).stderr();
    assert!(
        said.contains("ended before it had a plan, so it has no step `make`") && said.contains("--run ID"),
        "{said}"
    );
}

/// A file system of a few MiB at a folder of the space; unmounted when dropped.
pub(crate) struct Tiny(std::path::PathBuf);

impl Tiny {
    /// None where this user may not mount one.
    pub(crate) fn at(path: std::path::PathBuf) -> Option<Tiny> {
        Tiny::of("size=6m", path)
    }

    /// The same, of a size in bytes or in files.
    pub(crate) fn of(size: &str, path: std::path::PathBuf) -> Option<Tiny> {
        fs::create_dir_all(&path).unwrap();
        let options = format!("mode=700,{size}");
        let mount = Command::new("mount").args(["-t", "tmpfs", "-o", &options, "tmpfs"]).arg(&path).output();
        mount.is_ok_and(|output| output.status.success()).then_some(Tiny(path))
    }

    pub(crate) fn path(&self) -> &std::path::Path {
        &self.0
    }

    /// There is room now.
    pub(crate) fn grow(&self) {
        let grown = Command::new("mount").args(["-o", "remount,size=64m,nr_inodes=100k"]).arg(&self.0).status();
        assert!(grown.unwrap().success());
    }
}

impl Drop for Tiny {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("-l").arg(&self.0).status();
    }
}

#[test]
fn a_plugin_whose_libraries_are_gone_is_set_up_again() {
    let space = space();
    let yaml = "plugin: 1\nname: demo\nversion: 0.1.0\ncontent: [plugin.yaml, demo]\nsetup: [touch library]\nstart: [./demo]\nsteps: {one: {with: {type: object}}}\n";
    // As the dynamic linker does.
    let program = "#!/bin/sh
[ -e \"$(dirname \"$0\")/library\" ] || { echo 'cannot open library' >&2; exit 127; }
echo '{\"type\":\"hello\",\"protocol\":1,\"plugin\":\"demo\",\"version\":\"0.1.0\"}' > $FLOW_ATTEMPT/messages.jsonl
echo '{\"type\":\"outcome\",\"outcome\":\"ok\"}' >> $FLOW_ATTEMPT/messages.jsonl
";
    space.write("plugins/demo/plugin.yaml", yaml).script("plugins/demo/demo", program);
    space.write("demo.yaml", "flow: 1\nname: demo\nsteps: {one: {uses: demo/one}}\n");
    space.flow(["run", "demo.yaml"]).expect(0);
    fs::remove_file(space.path("plugins/demo/library")).unwrap();
    let said = space.flow(["run", "demo.yaml", "-f"]).expect(1).text();
    assert!(said.contains("exit code 127: cannot open library; the next run sets demo up again"), "{said}");
    space.flow(["run", "demo.yaml", "-f"]).expect(0);
}

/// Its log has room for what it prints, within a page; the journal has not.
#[test]
fn what_runs_outlives_a_full_disk() {
    let space = space();
    let (full, go) = (space.path("full"), space.path("go"));
    let until_there = |file: &std::path::Path| format!("until [ -e {} ]; do sleep 0.05; done", file.display());
    let epochs = "for i in $(seq 2 60); do echo epoch $i loss 1; done";
    let run = format!("echo epoch 1 loss 1; {}; {epochs}; {}", until_there(&full), until_there(&go));
    let step = format!("{{run: '{run}', metrics: {{stdout: 'epoch {{epoch}} loss {{loss}}'}}}}");
    space.write("wait.yaml", &format!("flow: 1\nname: wait\nsteps:\n  wait: {step}\n"));
    let Some(tiny) = Tiny::at(space.path(".flow")) else {
        eprintln!("skipped: only root can mount the small file system that this test fills");
        return;
    };
    let log = || {
        let files = flow_testkit::files_below(&tiny.0.join("runs"));
        let log = files.into_iter().find(|file| file.ends_with("log"));
        log.and_then(|log| fs::read_to_string(log).ok()).unwrap_or_default()
    };
    let mut flow = space.start(["run", "wait.yaml"]);
    until("the step runs", || log().contains("epoch 1 "));
    let mut rest = fs::File::create(tiny.0.join("rest")).unwrap();
    while rest.write_all(&[0; 4096]).is_ok() {}
    until("it is said", || flow.output().contains("running steps continue: cannot write"));
    fs::write(full, "").unwrap();
    until("all is printed", || log().contains("epoch 60 "));
    std::thread::sleep(std::time::Duration::from_millis(200));
    assert!(flow.is_alive(), "{}", flow.output());
    fs::remove_file(tiny.0.join("rest")).unwrap();
    drop(rest);
    fs::write(go, "").unwrap();
    assert!(flow.wait().success(), "{}", flow.output());
    assert_eq!(flow.output().matches("running steps continue").count(), 1, "{}", flow.output());
    let epochs: Vec<_> = space.journal().iter().filter_map(|line| line["epoch"].as_u64()).collect();
    assert_eq!(epochs, (1..=60).collect::<Vec<u64>>());
}

#[test]
fn a_step_that_removes_its_own_folder_harms_no_other() {
    let space = space();
    let steps = "clean: {run: 'rm -rf \"$(dirname \"$PWD\")\" $FLOW_ATTEMPT'}\n  long: {run: 'sleep 0.5'}";
    space.write("clean.yaml", &format!("flow: 1\nname: clean\nsteps:\n  {steps}\n"));
    space.flow(["run", "clean.yaml", "-k"]).expect(0);
    assert_eq!(space.journal().last().unwrap()["event"], "run_ended");
    assert!(space.flow(["show", "long"]).expect(0).stdout().contains("ok"));
}
