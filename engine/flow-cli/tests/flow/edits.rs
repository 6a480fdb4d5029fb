//! An author at work while flow is: what editors leave is no input, and what is edited belongs to the next run.

use std::{collections::BTreeSet, fs, os::unix::fs::symlink, path::PathBuf};

use flow_testkit::{RunningFlow, TestSpace, files_below, until};

use crate::space;

/// A workspace whose steps begin with `${GATE}` and go on when the gate is open.
fn gated() -> TestSpace {
    let mut space = space();
    let gate = space.path("gate").display().to_string();
    space.env("GATE", &format!("touch {gate}.began; until [ -e {gate} ]; do sleep 0.02; done"));
    space
}

/// Starts a run, does something while its step runs, and waits for the end.
fn run_while(space: &TestSpace, file: &str, edit: impl FnOnce()) -> RunningFlow {
    let mut flow = space.start(["run", file]);
    until("the step runs", || space.path("gate.began").exists());
    edit();
    space.write("gate", "");
    assert!(flow.wait().success(), "{}", flow.output());
    for file in ["gate", "gate.began"] {
        fs::remove_file(space.path(file)).unwrap();
    }
    flow
}

fn printed(space: &TestSpace, file: &str, step: &str) -> String {
    space.flow(["logs", "-w", file, step]).expect(0).stdout().trim().to_owned()
}

/// What an editor and others leave in a folder.
fn leave_behind(space: &TestSpace, folder: &str) {
    let leftovers = [".a.jpg.swp", ".DS_Store", "sub/a.jpg~", "__pycache__/a.pyc", "loose.pyc", "4913", "#a.jpg#"];
    for name in leftovers {
        space.write(format!("{folder}/{name}"), if name == "4913" { "" } else { "x" });
    }
    let _ = fs::remove_file(space.path(format!("{folder}/.#a.jpg")));
    symlink("ada@host.77:1", space.path(format!("{folder}/.#a.jpg"))).unwrap();
}

#[test]
fn what_editors_leave_invalidates_nothing() {
    let space = gated();
    let steps = "
  copied: {run: 'eval \"$GATE\"; find -L photos | sort', inputs: [photos]}
  linked: {run: 'find -L photos | sort', inputs: [{path: photos, by: listing}], needs: [copied]}
";
    space.write("a.yaml", &format!("flow: 1\nname: a\nsteps:{steps}")).write("photos/a.jpg", "a");
    space.write("photos/sub/b.jpg", "b");
    let flow = run_while(&space, "a.yaml", || leave_behind(&space, "photos"));
    assert!(!flow.output().contains("changed") && flow.output().contains("2 ran"), "{}", flow.output());
    let run = || space.flow(["run", "a.yaml"]).expect(0).text();
    let again = run();
    assert!(again.contains("2 cached") || again.contains("nothing to do"), "{again}");
    // Times of files that were written just now are not believed yet.
    let soon = (0..50).any(|_| {
        std::thread::sleep(std::time::Duration::from_millis(100));
        run().contains("nothing to do")
    });
    assert!(soon, "a look at files is enough");
    fs::remove_file(space.path("photos/.a.jpg.swp")).unwrap();
    run();
    assert_eq!(space.ran(), [""; 0]);
}

#[test]
fn what_is_no_input_is_not_in_the_work_folder() {
    let space = space();
    let steps = "
  copied: {run: find -L photos | sort, inputs: [photos]}
  linked: {run: find -L photos | sort, inputs: [{path: photos, by: listing}]}
";
    space.write("a.yaml", &format!("flow: 1\nname: a\nsteps:{steps}"));
    for file in ["a.jpg", "sub/b.jpg", "sub/deep/c.jpg", "raw/d.jpg", "e.tmp", ".gitignore"] {
        space.write(format!("photos/{file}"), if file == ".gitignore" { "*.jpg\n" } else { file });
    }
    leave_behind(&space, "photos");
    space.write("photos/.flowignore", "/raw/\n").write(".flowignore", "*.tmp\n");
    let said = space.flow(["run", "a.yaml"]).expect(0).text();
    let left =
        "photos\nphotos/.gitignore\nphotos/a.jpg\nphotos/sub\nphotos/sub/b.jpg\nphotos/sub/deep\nphotos/sub/deep/c.jpg";
    for step in ["copied", "linked"] {
        assert_eq!(printed(&space, "a.yaml", step), left, "{step}: git's rules are not flow's");
    }
    assert_eq!(said.matches("not inputs: photos/#a.jpg#, photos/.#a.jpg, ").count(), 1, "{said}");
    let why = space.flow(["why", "-w", "a.yaml", "copied"]).expect(0).stdout();
    let told = why.lines().find(|line| line.starts_with("not inputs: ")).unwrap();
    for path in ["photos/.DS_Store", "photos/raw", "photos/e.tmp", "photos/sub/a.jpg~"] {
        assert!(told.contains(path), "{path}: {why}");
    }

    let run = || space.flow(["run", "a.yaml"]).expect(0).text();
    space.write("photos/raw/d.jpg", "changed").write("photos/e.tmp", "changed");
    run();
    let again = run();
    assert!(again.contains("2 cached") || again.contains("nothing to do"), "{again}");
    space.write("photos/.flowignore", "/raw/\n# a remark\n");
    assert!(!run().contains("2 ran"), "the content that counts is the same");
    fs::remove_file(space.path(".flowignore")).unwrap();
    assert!(run().contains("2 ran"), "one file more counts");
    run();
    space.write(".flowignore", "*.tmp\n");
    assert!(run().contains("2 cached"), "and one less");
}

#[test]
fn an_input_folder_belongs_to_the_step_and_its_files_are_read_only() {
    let space = space();
    let steps = "
  writes: {run: 'echo x > d/labels.cache; rm d/a.txt; find d -type f | sort; tar cf d.tar d; tar tf d.tar | wc -l', inputs: [d], outputs: [d.tar]}
  looks: {run: 'find d -type f | sort; tail -n1 d/sub/b.txt', inputs: [d], needs: [writes]}
";
    space.write("a.yaml", &format!("flow: 1\nname: a\nsteps:{steps}")).write("d/a.txt", "a").write("d/sub/b.txt", "b");
    space.flow(["run", "a.yaml"]).expect(0);
    assert_eq!(printed(&space, "a.yaml", "writes"), "d/labels.cache\nd/sub/b.txt\n4");
    assert_eq!(printed(&space, "a.yaml", "looks"), "d/a.txt\nd/sub/b.txt\nb", "what another step did is not seen");
    // Files that were written a moment before a run are looked at again by the next one.
    let again = space.flow(["run", "a.yaml"]).expect(0).text();
    assert!(again.contains("2 cached") || again.contains("nothing to do"), "both have results: {again}");
    assert_eq!(files_below(&space.path("d")).len(), 2);

    let private = "\n  one: {run: 'echo x >> d/a.txt; cat d/a.txt', inputs: [{path: d, copy: true}]}
  two: {run: 'cat d/a.txt', inputs: [{path: d, copy: true}], needs: [one]}\n";
    space.write("c.yaml", &format!("flow: 1\nname: c\nsteps:{private}"));
    space.flow(["run", "c.yaml"]).expect(0);
    assert_eq!((printed(&space, "c.yaml", "one"), printed(&space, "c.yaml", "two")), ("ax".into(), "a".into()));
    assert!(space.flow(["run", "c.yaml"]).expect(0).text().contains("nothing to do"));

    // Who writes into a file in spite of its mode has no result, and is told which file it was.
    let forced = "\n  before: {run: head d/a.txt, inputs: [d]}
  forces: {run: 'chmod u+w d/a.txt; echo x > d/a.txt', inputs: [d], needs: [before]}
  after: {run: tail d/a.txt, inputs: [d], needs: [forces]}\n";
    space.write("b.yaml", &format!("flow: 1\nname: b\nsteps:{forced}"));
    let said = space.flow(["run", "b.yaml"]).expect(1).text();
    let line =
        "not kept  forces: it wrote into the read-only copy of `d/a.txt`; `{path: d, copy: true}` under `inputs:`";
    assert!(said.contains("failed: 2 ran, 1 not kept") && said.contains(line), "{said}");
    assert_eq!(space.read("d/a.txt"), "a");
    let plan = space.flow(["plan", "b.yaml"]).expect(0).stdout();
    assert!(plan.contains("1 cached, 1 to run") && plan.contains("its last result was not kept"), "{plan}");
    let results = space.flow(["results", "forces", "before", "-w", "b.yaml"]).expect(0).stdout();
    assert!(results.contains("b,before,before,,ok,") && results.contains("b,forces,forces,,not kept,"), "{results}");
    assert!(results.contains(",it wrote into its read-only copy of `d/a.txt`"), "{results}");
}

#[test]
fn a_real_edit_belongs_to_the_next_run() {
    let space = gated();
    let steps = "
  first: {run: 'eval \"$GATE\"; cat src/lib.txt one.txt', inputs: [src, one.txt]}
  second: {run: cat src/lib.txt one.txt, inputs: [src, one.txt], needs: [first]}
";
    space.write("a.yaml", &format!("flow: 1\nname: a\nsteps:{steps}"));
    space.write("src/lib.txt", "old ").write("one.txt", "too");
    let flow = run_while(&space, "a.yaml", || _ = space.write("src/lib.txt", "new ").write("one.txt", "one"));
    assert!(!flow.output().contains("changed"), "{}", flow.output());
    for step in ["first", "second"] {
        assert_eq!(printed(&space, "a.yaml", step), "old too", "{step} reads what was there at the start");
    }
    run_while(&space, "a.yaml", || {});
    assert_eq!(space.ran(), ["first", "second"]);
    assert_eq!(printed(&space, "a.yaml", "second"), "new one");
    space.write("src/lib.txt", "old ").write("one.txt", "too");
    space.flow(["run", "a.yaml"]).expect(0);
    assert_eq!(space.ran(), [""; 0], "kept under the content that it had read");
}

#[test]
fn a_folder_that_is_too_large_for_a_copy_is_named_and_its_edits_are_noticed() {
    let space = gated();
    let steps = "
  look: {run: 'eval \"$GATE\"; cat data/f0', inputs: [data]}
  own: {run: 'touch $HOME/own.began; until [ -e $HOME/gate ]; do sleep 0.02; done; cat data/f0', inputs: [{path: data, copy: true}]}
";
    space.write("a.yaml", &format!("flow: 1\nname: a\nsteps:{steps}"));
    fs::create_dir(space.path("data")).unwrap();
    for n in 0..=10_000 {
        fs::write(space.path(format!("data/f{n}")), if n == 0 { "old\n" } else { "" }).unwrap();
    }
    let said = space.flow(["check", "a.yaml"]).expect(0).stdout();
    let note = "note: `data` has 4 B in 10,001 files; for a copy, the limit is 256.0 MiB and 10,000 files.";
    assert!(said.contains(note) && said.contains("`{path: data, copy: true}`"), "{said}");

    let mut flow = space.start(["run", "a.yaml"]);
    until("both steps run", || ["gate.began", "own.began"].iter().all(|file| space.path(file).exists()));
    space.write("data/f0", "new\n").write("gate", "");
    assert_eq!(flow.wait().code(), Some(1), "{}", flow.output());
    let line = "not kept  look: `data/f0` changed while it ran; run again";
    assert!(flow.output().contains(line) && flow.output().contains("failed: 1 ran, 1 not kept"), "{}", flow.output());
    assert_eq!(printed(&space, "a.yaml", "own"), "old", "it had a copy of its own");
}

#[test]
fn an_edit_of_an_absolute_input_discards_the_result() {
    let space = gated();
    let path = space.path("ext/d.txt").display().to_string();
    let steps = format!("\n  u: {{run: 'eval \"$GATE\"; cat {path}', inputs: ['{path}']}}\n");
    space.write("a.yaml", &format!("flow: 1\nname: a\nsteps:{steps}")).write("ext/d.txt", "loss 1");
    let mut flow = space.start(["run", "a.yaml"]);
    until("the step runs", || space.path("gate.began").exists());
    space.write("ext/d.txt", "loss 1000").write("gate", "");
    assert_eq!(flow.wait().code(), Some(1), "{}", flow.output());
    let line = format!("not kept  u: `{path}` changed while it ran; run again");
    assert!(flow.output().contains(&line) && !flow.output().contains("copy: true"), "{}", flow.output());
    space.write("ext/d.txt", "loss 1");
    space.flow(["run", "a.yaml"]).expect(0);
    assert_eq!(printed(&space, "a.yaml", "u"), "loss 1");
}

#[test]
fn an_input_that_is_gone_since_the_last_run_is_told_and_no_run_begins() {
    let space = space();
    let steps = "\n  one: {run: cat a, inputs: [a]}\n  two: {run: 'cat b; true ${{ steps.one }}', inputs: [b]}\n";
    space.write("a.yaml", &format!("flow: 1\nname: a\nsteps:{steps}"));
    space.write("a", "a").write("b", "b");
    space.flow(["run", "a.yaml"]).expect(0);
    let runs = || fs::read_dir(space.path(".flow/runs")).unwrap().count();
    let before = runs();
    // What reads it waits for what is to run: nobody has looked at it when the plan is made.
    space.write("a", "another");
    fs::remove_file(space.path("b")).unwrap();
    let said = space.flow(["run", "a.yaml"]).expect(2).text();
    assert!(said.contains("there is no `b` here"), "{said}");
    assert_eq!(runs(), before, "{said}");
}

/// A plugin whose one parameter is a file, which it prints.
fn reader(space: &TestSpace) {
    let plugin = r#"
plugin: 1
name: reader
version: 0.1.0
content: [read.sh]
start: [./read.sh]
steps:
  read:
    with: {type: object, properties: {file: {type: string, x-flow: path}}}
"#;
    let script = r#"#!/bin/sh
echo '{"type":"hello","protocol":1,"plugin":"reader","version":"0.1.0"}' >> $FLOW_ATTEMPT/messages.jsonl
cat "$(sed 's/.*"file":"\([^"]*\)".*/\1/' $FLOW_ATTEMPT/request.json)"
echo '{"type":"outcome","outcome":"ok"}' >> $FLOW_ATTEMPT/messages.jsonl
"#;
    space.write("plugins/reader/plugin.yaml", plugin).script("plugins/reader/read.sh", script);
}

#[test]
fn a_file_that_a_condition_chooses_is_an_input_by_its_content() {
    let space = space();
    reader(&space);
    let text = "
flow: 1
name: a
params: {file: null}
steps:
  made: {when: file is none, run: 'echo made > out', outputs: [out]}
  read: {uses: reader/read, with: {file: '${{ file if file else steps.made.out }}'}}
  judge: {run: 'echo loss 1', metrics: {stdout: 'loss {loss}'}}
  late: {uses: reader/read, with: {file: \"${{ './b' if steps.judge.metrics.loss < 2 else './c' }}\"}}
";
    space.write("w/a.yaml", text).write("a", "a\n").write("w/b", "b\n");
    let run = || space.flow(["run", "w/a.yaml", "--set", "file=./a"]).expect(0).stdout();
    run();
    let printed = |step: &str| printed(&space, "w/a.yaml", step);
    assert_eq!((printed("read"), printed("late")), ("a".to_owned(), "b".to_owned()));
    let said = run();
    assert!(!said.contains("  ran "), "{said}");
    space.write("a", "A\n");
    run();
    assert_eq!((printed("read"), printed("late")), ("A".to_owned(), "b".to_owned()));
    // What only a result tells counts as much, also where all that it rests on stands.
    space.write("w/b", "B\n");
    run();
    assert_eq!((printed("read"), printed("late")), ("A".to_owned(), "B".to_owned()));
    // Where it is known before anything runs, its absence is said then, at its key.
    let said = space.flow(["plan", "w/a.yaml", "--set", "file=./aa"]).expect(2).text();
    assert!(said.contains("aa` here") && said.contains("w/a.yaml:7:42"), "{said}");
}

#[test]
fn steps_that_share_a_folder_share_one_copy_that_nobody_writes() {
    let space = space();
    let show = "{run: 'stat -L -c %d:%i photos/a.jpg', inputs: [photos], matrix: {n: '${{ range(20) }}'}}";
    let vandal =
        "{run: 'echo spoiled > photos/a.jpg; mkdir photos/__pycache__; true', inputs: [photos], needs: [show]}";
    let after = "{run: cat photos/a.jpg, inputs: [photos], needs: [vandal]}";
    let steps = format!("  show: {show}\n  vandal: {vandal}\n  after: {after}\n");
    space.write("a.yaml", &format!("flow: 1\nname: a\nsteps:\n{steps}")).write("photos/a.jpg", "a");
    // Only root can write into a read-only file, so its steps have copies of their own.
    let root = nix::unistd::Uid::effective().is_root();
    let said = space.flow(["run", "-j", "2", "a.yaml"]).expect(i32::from(root)).text();
    let copies: BTreeSet<_> = (0..20).map(|n| printed(&space, "a.yaml", &format!("show[n={n}]"))).collect();
    assert_eq!(copies.len(), if root { 20 } else { 1 }, "{copies:?}");
    assert_eq!((space.read("photos/a.jpg").as_str(), printed(&space, "a.yaml", "after").as_str()), ("a", "a"));
    assert_eq!(said.contains("vandal: it wrote into the read-only copy of `photos/a.jpg`"), root, "{said}");
    let kept = files_below(&newest_run(&space).join("inputs"));
    assert!(kept.iter().all(|path| path.is_symlink()), "no copy outlives its run: {kept:?}");
}

#[test]
fn root_that_writes_into_its_input_loses_its_own_result_alone() {
    if !nix::unistd::Uid::effective().is_root() {
        return;
    }
    // In the second round, work folders are on another file system.
    let memory = tempfile::tempdir_in("/dev/shm").unwrap();
    for work in ["", &memory.path().display().to_string()] {
        let mut space = space();
        root_writes_into_its_input(space.env("FLOW_WORK", work));
    }
}

fn root_writes_into_its_input(space: &TestSpace) {
    let wait = "do sleep 0.02; done";
    let writes = format!("until [ -e $FLOW_ROOT/began ]; {wait}; echo b > d/a.txt; touch $FLOW_ROOT/written");
    let reads = format!("touch $FLOW_ROOT/began; until [ -e $FLOW_ROOT/written ]; {wait}; cat d/a.txt");
    let steps = format!("  writes: {{run: '{writes}', inputs: [d]}}\n  reads: {{run: '{reads}', inputs: [d]}}\n");
    space.write("a.yaml", &format!("flow: 1\nname: a\nsteps:\n{steps}")).write("d/a.txt", "a");
    let line = "not kept  writes: it wrote into the read-only copy of `d/a.txt`; `{path: d, copy: true}`";
    let said = space.flow(["run", "-j", "2", "a.yaml"]).expect(1).text();
    assert!(said.contains("failed: 1 ran, 1 not kept") && said.contains(line), "{said}");
    assert_eq!((space.read("d/a.txt").as_str(), printed(space, "a.yaml", "reads").as_str()), ("a", "a"));
    let attempts = files_below(&newest_run(space).join("attempts"));
    assert!(!attempts.iter().any(|path| path.ends_with("inputs/d/a.txt")), "{attempts:?}");
    let again = space.flow(["run", "-j", "2", "a.yaml"]).expect(1).text();
    assert!(again.contains("failed: 1 cached, 1 not kept") && again.contains(line), "{again}");
}

fn newest_run(space: &TestSpace) -> PathBuf {
    fs::read_dir(space.path(".flow/runs")).unwrap().flatten().map(|run| run.path()).max().unwrap()
}

#[test]
fn what_lies_beside_an_input_is_found_beside_its_copy_and_what_is_no_input_is_named() {
    let space = space();
    let steps = "
  look: {run: sh src/look.sh, inputs: [src, conf/a.txt, {path: data, by: listing}]}
";
    space.write("a.yaml", &format!("flow: 1\nname: a\nsteps:{steps}"));
    let script =
        "root=$(dirname $(dirname $(readlink -f src/look.sh)))\ncat $root/conf/a.txt $root/data/b.txt $root/$1\n";
    space.write("src/look.sh", script).write("conf/a.txt", "a").write("data/b.txt", "b").write("other.txt", "c");
    space.write("src/look.sh", &script.replace(" $root/$1", ""));
    space.flow(["run", "a.yaml"]).expect(0);
    assert_eq!(printed(&space, "a.yaml", "look"), "ab");
    space.write("src/look.sh", &script.replace("$1", "other.txt"));
    let said = space.flow(["run", "a.yaml"]).expect(1).text();
    assert!(said.contains("`other.txt`") && said.contains("inputs"), "{said}");
    let attempts = fs::read_dir(newest_run(&space).join("attempts")).unwrap().flatten();
    let scripts: Vec<bool> = attempts.map(|attempt| attempt.path().join("work/src/look.sh").exists()).collect();
    assert_eq!(scripts, [true], "the work folder of what failed can be looked at");
}
