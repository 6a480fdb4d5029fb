//! What is the author's own stays as it is, byte for byte, whatever a step does.

use std::{
    fs,
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
    process::Command,
};

use flow_testkit::TestSpace;

use crate::space;

/// Path, mode, both parts of the time, inode and content of each thing.
type TreeListing = Vec<(PathBuf, u32, i64, i64, u64, Option<Vec<u8>>)>;

/// Everything that can be told of what lies below a folder.
fn everything(below: &Path) -> TreeListing {
    let meta = fs::symlink_metadata(below).unwrap();
    let content = meta.is_file().then(|| fs::read(below).unwrap());
    let mut all = vec![(below.to_owned(), meta.mode(), meta.mtime(), meta.mtime_nsec(), meta.ino(), content)];
    if meta.is_dir() {
        for entry in fs::read_dir(below).unwrap() {
            all.extend(everything(&entry.unwrap().path()));
        }
    }
    all.sort();
    all
}

/// A space with a folder of the author's, and what it is like.
fn lab() -> (TestSpace, TreeListing) {
    let space = space();
    space.write("data/labels.csv", "mine").write("data/sub/deep.csv", "mine too").write("other/data/extra.txt", "x");
    let before = everything(&space.path("data"));
    (space, before)
}

#[test]
fn outputs_in_inputs_are_refused_with_their_place() {
    let cases = [
        ("[data]", "[data/labels.csv]", "lies in the input `data`"),
        ("[data]", "[data/sub/]", "lies in the input `data`"),
        ("[./data/]", "[./data//sub]", "lies in the input `data`"),
        ("{mine: data}", "{all: data}", "is the input `data`"),
        ("[data/sub]", "[data]", "holds the input `data/sub`"),
        ("[other/../data]", "[data/x]", "lies in the input `data`"),
    ];
    let (space, before) = lab();
    for (inputs, outputs, said) in cases {
        let step = format!("{{run: 'true', inputs: {inputs}, outputs: {outputs}}}");
        space.write("w.yaml", &format!("flow: 1\nsteps:\n  a: {step}\n"));
        for command in ["check", "plan", "run"] {
            let text = space.flow([command, "w.yaml"]).expect(2).text();
            assert!(
                text.contains(said)
                    && text.contains("w.yaml:3:")
                    && text.contains("inputs are read-only: write to another folder"),
                "{command}: {text}"
            );
        }
        assert_eq!(everything(&space.path("data")), before, "{inputs} {outputs}");
    }
}

#[test]
fn what_a_step_puts_in_the_way_takes_nothing_from_the_author() {
    let there = "$ROOT/data";
    let cases = [
        ("the output is a link out", "ln -s $D out", "[out]"),
        ("its folder is a link out", "rm -rf out; ln -s $D out", "[out/labels.csv]"),
        ("a folder in there", "rm -rf out; ln -s $D out", "[out/sub]"),
        ("a parent of its folder", "rm -rf a; ln -s $D a", "[a/sub/deep.csv]"),
        ("the work folder", "cd ..; rm -rf work; ln -s $D work", "[labels.csv]"),
        (
            "the link to the work folder",
            "cd ..; rm -rf work $FLOW_ATTEMPT/work; ln -s $D work; ln -s $D $FLOW_ATTEMPT/work",
            "[labels.csv]",
        ),
        ("the folder above", "cd ../..; mv 0 gone; mkdir 0; ln -s $D 0/work", "[labels.csv]"),
        (
            "the folder of the attempt",
            "cd ..; rm -rf work; ln -s $D work; cd $FLOW_ATTEMPT/..; mv 0 gone; mkdir 0; ln -s $D 0/work",
            "[labels.csv]",
        ),
        ("a link in the output", "mkdir -p out; ln -s $D out/data", "[out]"),
        ("a link up", "mkdir -p out; ln -s ../.. out/up", "[out]"),
    ];
    for (name, run, outputs) in cases {
        let (space, before) = lab();
        let data = there.replace("$ROOT", &space.path("").to_string_lossy());
        let step = format!("{{run: '{}', inputs: [data], outputs: {outputs}}}", run.replace("$D", &data));
        space.write("w.yaml", &format!("flow: 1\nsteps:\n  a: {step}\n"));
        let ran = space.flow(["run", "w.yaml"]);
        assert_eq!(everything(&space.path("data")), before, "{name}: {}", ran.text());
        let text = ran.expect(1).text();
        assert!(text.contains("symbolic link"), "{name}: {text}");
        space.flow(["gc", "--runs", "0", "--days", "0"]).expect(0);
        assert_eq!(everything(&space.path("data")), before, "{name}, after gc");
    }
}

#[test]
fn what_a_link_leads_to_inside_is_kept() {
    let (space, before) = lab();
    let run = "mkdir -p run1; cp data/labels.csv run1/model; rm -rf latest; ln -s run1 latest; ln -s run1/model best; cat best";
    space.write("w.yaml", &format!("flow: 1\nsteps:\n  a: {{run: '{run}', inputs: [data], outputs: [latest/model, best]}}\n  b: {{run: 'cat ${{{{ steps.a.outputs.best }}}} ${{{{ steps.a.outputs.model }}}}'}}\n"));
    space.flow(["run", "w.yaml"]).expect(0);
    assert_eq!(space.flow(["logs", "b"]).expect(0).stdout(), "minemine");
    assert_eq!(everything(&space.path("data")), before);
}

#[test]
fn an_input_that_lies_in_another_is_the_authors_too() {
    let (space, before) = lab();
    let step = "{run: 'cat data/labels.csv ${{ inputs.deep }}', inputs: {labels: data/labels.csv, all: data, deep: data/sub/deep.csv}}";
    space.write("w.yaml", &format!("flow: 1\nsteps:\n  a: {step}\n"));
    space.flow(["run", "w.yaml"]).expect(0);
    assert_eq!(everything(&space.path("data")), before);
    assert_eq!(space.flow(["logs", "a"]).expect(0).stdout(), "minemine too");
    // Here one would be written into the other.
    space.write("lab/w.yaml", "flow: 1\nsteps:\n  a: {run: 'true', inputs: [../data, data/labels.csv]}\n");
    space.write("lab/data/labels.csv", "lab");
    let said = space.flow(["run", "lab/w.yaml"]).expect(2).text();
    assert!(said.contains("lab/w.yaml:3:") && said.contains("would lie inside one another"), "{said}");
    assert_eq!(everything(&space.path("data")), before);
}

/// A folder of the author's that a step mounts is neither taken nor removed with the work folder.
#[test]
fn what_a_step_mounts_is_not_taken_nor_removed() {
    let (space, before) = lab();
    let data = space.path("data");
    let may = Command::new("mount").arg("--bind").args([&data, &space.path("other")]).output();
    if !may.is_ok_and(|output| output.status.success()) {
        eprintln!("skipped: only root can mount a folder in another");
        return;
    }
    assert!(Command::new("umount").arg(space.path("other")).status().unwrap().success());
    let run = format!("mkdir -p mnt out; mount --bind {} mnt; echo x > out/x", data.display());
    for outputs in ["[mnt/labels.csv]", "[mnt]", "[out/x]"] {
        space.write("w.yaml", &format!("flow: 1\nsteps:\n  a: {{run: '{run}', outputs: {outputs}}}\n"));
        let ran = space.flow(["run", "w.yaml"]);
        let gc = space.flow(["gc", "--runs", "0", "--days", "0"]);
        assert_eq!(everything(&data), before, "{outputs}: {}", ran.text());
        let mounts = fs::read_to_string("/proc/self/mountinfo").unwrap();
        let of_space = |line: &&str| line.contains(&*space.path("").to_string_lossy());
        for mount in mounts.lines().filter(of_space).filter_map(|line| line.split(' ').nth(4)) {
            assert!(Command::new("umount").arg("-l").arg(mount).status().unwrap().success());
        }
        ran.expect(0);
        assert!(gc.text().contains("umount"), "{}", gc.text());
        space.flow(["gc", "--runs", "0", "--days", "0"]).expect(0);
        assert_eq!(everything(&data), before, "{outputs}");
    }
}
