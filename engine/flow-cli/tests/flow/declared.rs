//! Declared environments: their packages are part of the fingerprint, and steps run in them.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use flow_testkit::TestSpace;

use crate::space;

/// Makes a virtual environment with these distributions. Returns the folder of its packages.
fn venv(at: &Path, packages: &[&str]) -> PathBuf {
    let made = Command::new("python3").args(["-m", "venv", "--without-pip"]).arg(at).status().unwrap();
    assert!(made.success());
    let site = fs::read_dir(at.join("lib")).unwrap().next().unwrap().unwrap().path().join("site-packages");
    packages.iter().for_each(|name| fs::create_dir(site.join(format!("{name}.dist-info"))).unwrap());
    site
}

fn replace(site: &Path, was: &str, is: &str) {
    let path = |name: &str| site.join(format!("{name}.dist-info"));
    fs::rename(path(was), path(is)).unwrap();
}

/// The instances that run now, if any.
fn again(space: &TestSpace, args: &[&str]) -> Vec<String> {
    let run = space.flow([&["run"], args].concat()).expect(0).stdout();
    if run.contains("nothing to do") { vec![] } else { space.ran() }
}

/// A step in a declared environment, and one without.
const PAIR: &str = "flow: 1
name: pair
environments: {lab: {prefix: .venv}}
steps:
  train: {run: 'python train.py', environment: lab, inputs: [train.py]}
  plain: {run: 'echo plain'}
";
const SCRIPT: &str = "import os, sys\nprint(sys.prefix, os.environ['VIRTUAL_ENV'], os.environ.get('PYTHONPATH'))\n";

fn pair() -> (TestSpace, PathBuf) {
    let mut space = space();
    let site = venv(&space.path(".venv"), &["numpy-1.26.4", "torch-2.10.0"]);
    space.env("PYTHONPATH", "/nowhere");
    space.write("pair.yaml", PAIR).write("train.py", SCRIPT);
    (space, site)
}

#[test]
fn a_step_runs_in_its_environment_and_again_when_a_package_changed() {
    let (space, site) = pair();
    space.flow(["run"]).expect(0);
    let prefix = space.path(".venv").display().to_string();
    let log = space.flow(["logs", "train"]).expect(0);
    assert_eq!(String::from_utf8_lossy(log.raw()).trim(), format!("{prefix} {prefix} None"));
    assert_eq!(again(&space, &[]), [""; 0]);

    replace(&site, "numpy-1.26.4", "numpy-2.0");
    let said = |args: &[&str]| space.flow(args).expect(0).stdout();
    let why = "train: would run\n  - numpy 1.26.4 → 2.0 in environment lab\n";
    assert_eq!(said(&["why", "train"]), why);
    let plan = said(&["plan"]);
    assert!(plan.contains("numpy 1.26.4 → 2.0 in environment lab") && plan.contains("1 cached"), "{plan}");
    assert!(!plan.contains("note:"), "the recorded environment repeats it: {plan}");
    let diff = said(&["diff", "now"]);
    assert_eq!(diff.matches("numpy 1.26.4 → 2.0").count(), 1, "{diff}");
    assert_eq!(again(&space, &[]), ["train"]);
    // Back to the earlier packages is back to the earlier result.
    replace(&site, "numpy-2.0", "numpy-1.26.4");
    assert_eq!(again(&space, &[]), [""; 0]);
    // Files that a program leaves there are no packages.
    fs::create_dir(site.join("__pycache__")).unwrap();
    assert_eq!(again(&space, &[]), [""; 0]);
}

#[test]
fn environments_are_an_axis() {
    let space = space();
    venv(&space.path("old"), &["torch-2.10.0"]);
    venv(&space.path("new"), &["torch-2.11.0"]);
    let text = "flow: 1\nname: axis\nenvironments: {old: {prefix: old}, new: {prefix: '${{ folder }}'}}\nparams: {folder: new}\nsteps:\n  a: {matrix: {stack: [old, new]}, environment: '${{ stack }}', run: 'python -c \"import sys; print(sys.prefix)\"'}\n";
    space.write("axis.yaml", text);
    space.flow(["run"]).expect(0);
    for stack in ["old", "new"] {
        let log = space.flow(["logs", &format!("a[stack={stack}]")]).expect(0);
        assert_eq!(String::from_utf8_lossy(log.raw()).trim(), space.path(stack).display().to_string());
    }
    assert_eq!(again(&space, &[]), [""; 0]);
    // Another name and another folder with the same packages are the same environment.
    fs::rename(space.path("new"), space.path("moved")).unwrap();
    assert_eq!(again(&space, &["--set", "folder=moved"]), [""; 0]);
}

#[test]
fn a_missing_environment_is_reported_with_its_place() {
    let space = space();
    space.write("pair.yaml", PAIR).write("train.py", SCRIPT);
    for command in [["check"], ["plan"], ["run"]] {
        let said = space.flow(command).expect(2).stderr();
        let place = "pair.yaml:3:30";
        assert!(said.contains(place) && said.contains("there is no folder `ROOT/.venv`"), "{said}");
    }
    fs::create_dir(space.path(".venv")).unwrap();
    let said = space.flow(["check"]).expect(2).stderr();
    assert!(said.contains("has neither `bin/python` nor `conda-meta`"), "{said}");
    // Steps that do not need it run.
    space.flow(["run", "pair.yaml", "plain"]).expect(0);
}

#[test]
fn a_package_that_changes_during_the_run_stops_the_step() {
    let (space, site) = pair();
    let text = PAIR
        .replace("  plain: {run: 'echo plain'}\n", "")
        .replace("environment: lab,", "environment: lab, needs: first,")
        .replace(
            "steps:\n",
            &format!(
                "steps:\n  first: {{run: 'mv {0}/numpy-1.26.4.dist-info {0}/numpy-2.0.dist-info'}}\n",
                site.display()
            ),
        );
    space.write("pair.yaml", &text);
    let said = space.flow(["run"]).expect(1).text();
    assert!(
        said.contains("packages of the environment `lab` (numpy 1.26.4 → 2.0) changed during the run; run again"),
        "{said}"
    );
    replace(&site, "numpy-2.0", "numpy-1.26.4");
    assert_eq!(again(&space, &[]), ["train"], "it had no result");
}

/// uv as documented, except that it finds names and versions in `uv.lock`, one per line, and needs no network.
const UV: &str = r#"#!/bin/sh
echo "$@" >> $HOME/uv.log
test "$1 $2 $3 $4 $5" = 'sync --frozen --no-install-project --compile-bytecode --project' || exit 3
if test -e $HOME/offline; then echo 'error: Failed to fetch numpy'; exit 2; fi
echo "Installed $(grep -c = $6/uv.lock) packages"
python3 -m venv --without-pip $UV_PROJECT_ENVIRONMENT
site=$(echo $UV_PROJECT_ENVIRONMENT/lib/python3*/site-packages)
for package in $(grep = $6/uv.lock); do mkdir -p $site/${package%==*}-${package#*==}.dist-info; done
"#;

const MADE: &str = "flow: 1
name: made
environments: {torch: {uv: envs/torch}}
steps:
  train: {run: 'python -c \"import sys; print(sys.prefix)\"', environment: torch}
";

fn made() -> TestSpace {
    let mut space = space();
    space.script("bin/uv", UV);
    let path = format!("{}:{}", space.path("bin").display(), std::env::var("PATH").unwrap_or_default());
    space.env("PATH", &path);
    space.write("made.yaml", MADE).write("envs/torch/pyproject.toml", "[project]\n");
    space.write("envs/torch/uv.lock", "torch==2.10.0\n");
    space
}

#[test]
fn uv_makes_an_environment_once_before_the_run() {
    let space = made();
    let said = |args: &[&str]| space.flow(args).expect(0).stdout();
    let plan = said(&["plan"]);
    assert!(plan.contains("environment torch"), "{plan}");
    assert!(!space.path("uv.log").exists(), "a plan makes nothing");
    let run = space.flow(["run"]).expect(0).text();
    assert!(run.contains("setting up environment torch, once") && run.contains("Installed 1 packages"), "{run}");
    let log = space.flow(["logs", "train"]).expect(0);
    let prefix = String::from_utf8_lossy(log.raw()).trim().to_owned();
    let cache = space.cache().join("flow/environments").display().to_string();
    assert!(prefix.starts_with(&cache), "{prefix}");
    assert_eq!(again(&space, &[]), [""; 0]);
    assert_eq!(space.read("uv.log").lines().count(), 1);

    // Another text with the same packages.
    space.write("envs/torch/uv.lock", "# revision 2\ntorch==2.10.0\n");
    assert_eq!(again(&space, &[]), [""; 0]);
    assert_eq!(space.read("uv.log").lines().count(), 2);
    space.write("envs/torch/uv.lock", "torch==2.11.0\n");
    assert_eq!(again(&space, &[]), ["train"]);
    let why = said(&["why", "train", "--run", space.journal()[0]["run"].as_str().unwrap()]);
    assert!(why.contains("torch 2.10.0 → 2.11.0 in environment torch"), "{why}");

    // An environment that no run used for long goes.
    let old = Command::new("touch").args(["-d", "40 days ago"]).arg(format!("{prefix}.made")).status().unwrap();
    assert!(old.success());
    let gc = said(&["gc"]);
    assert!(gc.contains("1 environment that no run has used for 30 days"), "{gc}");
    assert!(!Path::new(&prefix).exists());
    assert_eq!(fs::read_dir(&cache).unwrap().flatten().filter(|entry| entry.path().join("bin").exists()).count(), 2);
}

#[test]
fn what_uv_cannot_do_is_said_before_anything_runs() {
    let mut space = made();
    space.write("offline", "");
    let said = space.flow(["run"]).expect(1).stderr();
    let words = [
        "uv could not make it: exit code 2",
        "| error: Failed to fetch numpy",
        "uv sync --frozen --no-install-project",
    ];
    assert!(words.iter().all(|words| said.contains(words)), "{said}");
    fs::remove_file(space.path("offline")).unwrap();
    fs::remove_file(space.path("envs/torch/uv.lock")).unwrap();
    let said = space.flow(["check"]).expect(2).stderr();
    assert!(said.contains("made.yaml:3:") && said.contains("`uv lock --project envs/torch` writes it"), "{said}");
    space.write("envs/torch/uv.lock", "torch==2.10.0\n");
    space.env("PATH", "/usr/bin:/bin");
    let said = space.flow(["run"]).expect(1).stderr();
    assert!(said.contains("uv is not installed: `pip install uv`"), "{said}");
}

#[test]
fn accept_keeps_all_results_that_differ_only_in_packages() {
    let (space, site) = pair();
    let text = PAIR.to_owned() + "  test: {run: 'python train.py two', environment: lab, inputs: [train.py]}\n";
    space.write("pair.yaml", &text);
    space.flow(["run"]).expect(0);
    replace(&site, "numpy-1.26.4", "numpy-1.26.5");
    space.write("pair.yaml", &text.replace("train.py two", "train.py three"));
    let said = space.flow(["accept", "--environments", "--reason", "a patch release"]).expect(0).stdout();
    let next = "  the next run runs test; `flow forget train --accepted` undoes this\n";
    assert_eq!(said, format!("kept train from run RUN: numpy 1.26.4 → 1.26.5 in environment lab\n{next}"));
    assert_eq!(again(&space, &[]), ["test"], "its command differs too");
    let said = space.flow(["accept", "--environments", "--reason", "none"]).expect(0).stdout();
    assert_eq!(said, "no result differs only in the packages of its environment\n");
    let said = space.flow(["accept", "--reason", "none"]).expect(2).stderr();
    assert!(said.contains("<STEP>"), "{said}");
}

/// Apptainer, except that the image is this machine.
const APPTAINER: &str = r#"#!/bin/sh
echo "$@" >> $HOME/apptainer.log
test "$1" = exec && shift
while test "${1#--}" != "$1"; do
    if test "$1" = --pwd; then cd "$2"; fi
    if test "$1" = --nv; then shift; else shift 2; fi
done
shift
exec "$@"
"#;

#[test]
fn a_command_runs_in_an_image() {
    let mut space = space();
    let text = "flow: 1\nname: image\nenvironments: {image: {apptainer: a.sif}}\nsteps:\n  train: {run: cat data.txt, environment: image, inputs: [data.txt]}\n";
    space.write("image.yaml", text).write("data.txt", "rows\n").write("a.sif", "one");
    space.flow(["check"]).expect(0);
    let said = space.flow(["run"]).expect(2).stderr();
    assert!(said.contains("apptainer is not installed") && said.contains("image.yaml:3:"), "{said}");
    space.script("bin/apptainer", APPTAINER);
    let path = format!("{}:{}", space.path("bin").display(), std::env::var("PATH").unwrap_or_default());
    space.env("PATH", &path);
    space.flow(["run"]).expect(0);
    let log = space.flow(["logs", "train"]).expect(0);
    assert_eq!(String::from_utf8_lossy(log.raw()).trim(), "rows");
    let root = space.path("").display().to_string();
    let call = space.read("apptainer.log");
    let work = space.cache().join("flow/work").display().to_string();
    let binds = format!("exec --bind {0}/.flow --bind {0} --bind {work}/", root.trim_end_matches('/'));
    assert!(call.starts_with(&binds) && call.contains(&format!(" --pwd {work}/")), "{call}");
    assert!(call.trim_end().ends_with("/a.sif cat data.txt"), "{call}");
    assert_eq!(again(&space, &[]), [""; 0]);
    space.write("a.sif", "two");
    let why = space.flow(["why", "train"]).expect(0).stdout();
    assert_eq!(why, "train: would run\n  - environment image changed\n");
    assert_eq!(again(&space, &[]), ["train"]);
    space.write("image.yaml", &text.replace("a.sif", "docker://pytorch/pytorch:latest"));
    let said = space.flow(["check"]).expect(2).stderr();
    assert!(said.contains("write `docker://pytorch/pytorch@sha256:…`"), "{said}");
    assert!(said.contains("`apptainer pull image.sif docker://pytorch/pytorch:latest` makes a file"), "{said}");
    let image = format!("docker://pytorch/pytorch@sha256:{}", "0a".repeat(32));
    space.write("image.yaml", &text.replace("a.sif", &format!("'{image}'")));
    assert_eq!(again(&space, &[]), ["train"]);
    assert!(space.read("apptainer.log").trim_end().ends_with(&format!(" {image} cat data.txt")));
    assert_eq!(again(&space, &[]), [""; 0]);
    space.write("image.yaml", &text.replace("a.sif", &format!("'{}'", image.replace("0a", "0b"))));
    assert_eq!(again(&space, &[]), ["train"]);
}
