//! What can go wrong with a store: newer formats, damaged databases, full disks. Each in words, and nothing is lost.

use std::{
    fs::{self, Permissions},
    io::Write,
    os::unix::fs::PermissionsExt,
    process::Command,
};

use flow_testkit::{TestSpace, files_below, until};

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

#[test]
fn gc_removes_what_no_recent_run_reaches() {
    let space = done();
    let objects = || {
        let kept = flow_testkit::files_below(&space.path(".flow/objects"));
        kept.iter()
            .filter(|path| fs::read_to_string(path).is_ok_and(|text| text.to_lowercase().starts_with("made")))
            .count()
    };
    let before = objects();
    space.write("make.yaml", &WORKFLOW.replace("echo made", "echo MADE"));
    space.flow(["run", "make.yaml"]).expect(0);
    assert_eq!(objects(), 2 * before);
    space.flow(["gc", "--runs", "1", "--days", "0", "-n"]).expect(0);
    assert_eq!(objects(), 2 * before, "-n only says");
    space.flow(["gc", "--runs", "1", "--days", "0"]).expect(0);
    assert_eq!(objects(), before);
    let said = space.flow(["run", "make.yaml"]).expect(0).stdout();
    assert!(said.contains("nothing to do"), "{said}");
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

#[test]
fn a_copy_of_a_store_has_its_kept_logs() {
    let space = space();
    let workflow = |metric: &str| {
        format!("flow: 1\nname: w\nsteps:\n  train: {{run: 'echo acc 1', metrics: {{stdout: 'acc {{{metric}}}'}}}}\n")
    };
    space.write("w.yaml", &workflow("acc"));
    space.flow(["run", "w.yaml"]).expect(0);
    let store = space.path(".flow");
    let copied = Command::new("cp").arg("-r").args([&store, &space.path("copy")]).status().unwrap();
    assert!(copied.success());
    fs::remove_dir_all(&store).unwrap();
    fs::rename(space.path("copy"), &store).unwrap();
    for _ in 0..2 {
        let said = space.flow(["doctor"]).expect(0).stdout();
        assert!(said.starts_with("sound: "), "{said}");
    }
    space.write("w.yaml", &workflow("top1"));
    space.flow(["run", "w.yaml"]).expect(0);
    assert_eq!(space.ran(), Vec::<String>::new(), "its metrics are read again from the log");

    for kept in files_below(&space.path(".flow/objects")) {
        fs::set_permissions(&kept, Permissions::from_mode(0o600)).unwrap();
        fs::write(kept, "something else").unwrap();
    }
    let said = space.flow(["doctor"]).expect(0).stdout();
    assert!(said.contains("1 kept log or files of metrics that were damaged"), "{said}");
}

#[test]
fn a_full_disk_is_said_and_costs_only_what_was_running() {
    let space = space();
    let workflow = "flow: 1\nname: big\nsteps:\n  big:\n    matrix: {n: \"${{ range(12) }}\"}\n    run: sh -c 'head -c 1000000 /dev/zero > out/big; echo ${{ n }} >> out/big'\n    outputs: [out/big]\n";
    space.write("big.yaml", workflow);
    let Some(tiny) = Tiny::at(space.path("disk")) else {
        eprintln!("skipped: only root can mount the small file system that this test fills");
        return;
    };
    let store = ["--store", "disk/store"];
    let ran = space.flow(["run", "big.yaml", "-j", "1"].iter().chain(&store));
    assert_eq!(ran.code(), Some(1), "{}", ran.text());
    let said = ran.text();
    assert!(said.contains("No space left") || said.contains("full"), "{said}");
    tiny.grow();
    let said = space.flow(["run", "big.yaml"].iter().chain(&store)).expect(0).stdout();
    assert!(said.contains("cached"), "what was done before is there: {said}");
    space.flow(["doctor", "--contents"].iter().chain(&store)).expect(0);
    // Full to the last byte, whoever filled it: that is when people call for `flow gc`.
    let mut rest = fs::File::create(tiny.0.join("rest")).unwrap();
    while rest.write_all(&[0; 4096]).is_ok() {}
    while rest.write_all(&[0]).is_ok() {}
    let said = space.flow(["gc"].iter().chain(&store)).expect(1).text();
    assert!(said.contains("`flow gc --runs 1 --days 0` keeps fewer"), "{said}");
    let said = space.flow(["gc", "--runs", "0", "--days", "0"].iter().chain(&store)).expect(0).stdout();
    assert!(said.contains("12 results"), "{said}");
    space.flow(["run", "big.yaml"].iter().chain(&store)).expect(0);
}

#[test]
fn where_nothing_can_be_written_another_place_is_named() {
    let space = space();
    let Some(tiny) = Tiny::at(space.path("disk")) else {
        eprintln!("skipped: only root can mount the small file system that this test makes read-only");
        return;
    };
    space.write("disk/w.yaml", "flow: 1\nsteps: {a: {run: 'true'}}\n");
    let made = Command::new("mount").args(["-o", "remount,ro"]).arg(&tiny.0).status();
    assert!(made.unwrap().success());
    let said = space.flow(["run", "disk/w.yaml", "--store", "disk/store"]).expect(1).text();
    assert!(said.contains("`--store DIR` or FLOW_STORE selects another store"), "{said}");
    space.flow(["run", "disk/w.yaml", "--store", "elsewhere"]).expect(0);
}

#[test]
fn a_run_made_while_the_clock_was_ahead_hides_none_that_follows() {
    let space = space();
    space.write("w.yaml", "flow: 1\nsteps: {a: {run: 'true'}}\n");
    space.flow(["run", "w.yaml"]).expect(0);
    let runs = || {
        let entries = std::fs::read_dir(space.path(".flow/runs")).unwrap();
        let mut runs: Vec<String> = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        runs.sort();
        runs
    };
    let ahead = "29991231-235959-ffff";
    let id = runs().remove(0);
    let folder = |id: &str| space.path(".flow/runs").join(id);
    std::fs::rename(folder(&id), folder(ahead)).unwrap();
    let journal = format!(".flow/runs/{ahead}/journal.jsonl");
    space.write(&journal, &space.read(&journal).replace(&id, ahead));

    let said = space.flow(["run", "w.yaml", "-f"]).expect(0).text();
    assert_eq!(said.matches("the clock is behind run RUN of this store").count(), 1, "{said}");
    assert_eq!(runs(), [ahead, "30000101-000000-0000"]);
    let status = space.flow(["status"]).expect(0);
    assert!(String::from_utf8_lossy(status.raw()).contains("(run 30000101-000000-0000)"), "{}", status.text());
    space.flow(["gc", "--runs", "1", "--days", "0"]).expect(0);
    assert!(runs().contains(&"30000101-000000-0000".to_owned()), "the newest run stays: {:?}", runs());
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
    until("it is said", || flow.said().contains("running steps continue: cannot write"));
    fs::write(full, "").unwrap();
    until("all is printed", || log().contains("epoch 60 "));
    std::thread::sleep(std::time::Duration::from_millis(200));
    assert!(flow.is_alive(), "{}", flow.said());
    fs::remove_file(tiny.0.join("rest")).unwrap();
    drop(rest);
    fs::write(go, "").unwrap();
    assert!(flow.wait().success(), "{}", flow.said());
    assert_eq!(flow.said().matches("running steps continue").count(), 1, "{}", flow.said());
    let epochs: Vec<_> = space.journal().iter().filter_map(|line| line["epoch"].as_u64()).collect();
    assert_eq!(epochs, (1..=60).collect::<Vec<u64>>());
}

#[test]
fn a_step_that_removes_its_own_folder_harms_no_other() {
    let space = space();
    let steps = "clean: {run: 'rm -rf \"$(dirname \"$PWD\")\" $FLOW_ATTEMPT'}\n  long: {run: 'sleep 0.5'}";
    space.write("clean.yaml", &format!("flow: 1\nname: clean\nsteps:\n  {steps}\n"));
    let said = space.flow(["run", "clean.yaml", "-k"]).expect(0).stdout();
    assert!(said.contains("clean: what it used cannot be written to"), "{said}");
    assert_eq!(space.journal().last().unwrap()["event"], "run_ended");
    assert!(space.flow(["show", "long"]).expect(0).stdout().contains("ok"));
}

#[test]
fn a_member_that_cannot_be_released_fails_and_the_others_go_on() {
    let space = space();
    // A moment later, when flow has heard it too.
    let other = "until grep -q ready $FLOW_ATTEMPT/../*/messages.jsonl; do sleep 0.05; done; sleep 1; cd $FLOW_ATTEMPT/..; mv 0 gone";
    let run = format!("[ ${{{{ n }}}} = 1 ] || {{ {other}; }}; flow ready; sleep 0.2");
    space.write(
        "pair.yaml",
        &format!(
            "flow: 1\nname: pair\nsteps:\n  pair: {{matrix: {{n: [1, 2]}}, run: '{run}', corun: {{group: all}}}}\n"
        ),
    );
    space.flow(["run", "pair.yaml", "-k"]).expect(1);
    let ended: Vec<_> = space.journal().into_iter().filter(|line| line["event"] == "ended").collect();
    let told = |n: u32| {
        ended
            .iter()
            .find(|line| line["instance"] == n)
            .map(|line| (line["outcome"].clone(), line["cause"]["refusal"]["kind"].clone()))
    };
    assert!(told(0).is_some_and(|(how, why)| how == "failed" && why == "not_reached"), "{ended:?}");
    assert!(told(1).is_some_and(|(how, _)| how == "ok"), "{ended:?}");
}
