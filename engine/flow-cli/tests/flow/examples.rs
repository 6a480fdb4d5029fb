//! The examples that people copy: each runs as it is, and a second time has nothing to do.

use std::{fs, path::Path, process::Command};

use crate::space;

fn example(folder: &str, file: &str) {
    let space = space();
    let from = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples").join(folder);
    for path in flow_testkit::files_below(&from) {
        let to = space.path(path.strip_prefix(&from).unwrap());
        fs::create_dir_all(to.parent().unwrap()).unwrap();
        fs::copy(&path, to).unwrap();
    }
    space.flow(["check", file]).expect(0);
    space.flow(["run", file]).expect(0);
    let said = space.flow(["run", file]).expect(0).stdout();
    assert!(said.contains("nothing to do"), "{said}");
    assert!(space.alive().is_empty());
}

fn has(program: &str, args: &[&str]) -> bool {
    Command::new(program).args(args).output().is_ok_and(|output| output.status.success())
}

#[test]
fn programs_as_they_are() {
    example("shell", "words.yaml");
}

#[test]
fn a_plugin_in_python() {
    if has("python3", &["--version"]) {
        example("python-plugin", "pi.yaml");
    } else {
        eprintln!("skipped: there is no python3");
    }
}

#[test]
fn a_training_script_with_numpy() {
    if has("python3", &["-c", "import numpy"]) {
        example("numpy", "digits.yaml");
    } else {
        eprintln!("skipped: there is no NumPy, `pip install numpy` brings it");
    }
}
