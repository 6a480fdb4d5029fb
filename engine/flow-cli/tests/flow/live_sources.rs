//! Sources that a step would import from where the author edits them: an editable install, `PYTHONPATH`, an absolute
//! path.

use std::fs;
use std::path::PathBuf;
use std::process::Command;
use std::thread::sleep;
use std::time::Duration;

use flow_testkit::TestSpace;

use crate::space;

/// A project with a package `toy` in this folder and a virtual environment, and the folder of its packages.
fn project(folder: &str) -> (TestSpace, PathBuf) {
    let mut space = space();
    let made = Command::new("python3").args(["-m", "venv", "--without-pip"]).arg(space.path("venv")).status().unwrap();
    assert!(made.success());
    let site = fs::read_dir(space.path("venv/lib")).unwrap().next().unwrap().unwrap().path().join("site-packages");
    let path = format!("{}:{}", space.path("venv/bin").display(), std::env::var("PATH").unwrap_or_default());
    space.env("PATH", &path);
    space.write("pyproject.toml", "[project]\nname = 'toy'\nversion = '0.1'\n");
    space.write(format!("{folder}toy/__init__.py"), "");
    space.write(format!("{folder}toy/lib.py"), "def twice(x):\n    return x * 2\n");
    space.write(format!("{folder}toy/train.py"), "from toy.lib import twice\nprint('loss', twice(5))\n");
    fs::create_dir(site.join("toy-0.1.dist-info")).unwrap();
    let url = format!("{{\"dir_info\": {{\"editable\": true}}, \"url\": \"file://{}\"}}", space.path("").display());
    fs::write(site.join("toy-0.1.dist-info/direct_url.json"), url).unwrap();
    (space, site)
}

/// As `pip install -e` writes it for sources in `src`.
fn of_src(space: &TestSpace, site: &std::path::Path) {
    fs::write(site.join("__editable__.toy-0.1.pth"), space.path("src").display().to_string()).unwrap();
}

fn loss(space: &TestSpace) -> String {
    let shown = space.flow(["results", "u", "--json"]).expect(0).stdout();
    let result: serde_json::Value = serde_json::from_str(shown.lines().next().unwrap()).unwrap();
    result["loss"].to_string()
}

#[test]
fn an_edit_during_the_run_of_an_editable_install_belongs_to_the_next_run() {
    let (space, site) = project("src/");
    of_src(&space, &site);
    let step = "flow: 1\nsteps: {u: {run: 'touch $HOME/began && sleep 1.5 && python -m toy.train', inputs: [INPUTS], metrics: {stdout: 'loss {loss}'}}}\n";
    let began = space.path("began");
    space.write("w.yaml", &step.replace("INPUTS", "pyproject.toml"));

    for refused in [space.flow(["run", "w.yaml"]), space.flow(["plan", "w.yaml"])] {
        let said = refused.expect(2).stderr();
        assert!(
            said.contains("w.yaml:2:") && said.contains("because it is an editable install and `src` is not under"),
            "{said}"
        );
        assert!(said.contains("add `src` to the step's `inputs:`"), "{said}");
    }
    assert!(!began.exists());
    let said = space.flow(["check", "w.yaml"]).expect(0).stdout();
    assert!(
        said.contains("warning: `u` imports `toy` from your own files, because it is an editable install"),
        "{said}"
    );

    space.write("w.yaml", &step.replace("INPUTS", "src"));
    let mut run = space.start(["run", "w.yaml"]);
    flow_testkit::until("it runs", || began.exists());
    sleep(Duration::from_millis(300));
    let text = space.read("src/toy/lib.py");
    space.write("src/toy/lib.py", &text.replace("x * 2", "x * 1000"));
    assert!(run.wait().success(), "{}", run.output());
    assert_eq!(loss(&space), "10");
    let said = space.flow(["why", "u", "-w", "w.yaml"]).expect(0).stdout();
    assert!(said.contains("`src/toy/lib.py` changed"), "{said}");
    space.flow(["run", "w.yaml"]).expect(0);
    assert_eq!(loss(&space), "5000");
}

/// Runs these commands side by side while a source is edited and restored. Returns the text of the run.
fn edited_and_restored(space: &TestSpace, inputs: &str, commands: &[&str], edited: &str) -> String {
    let mut said = String::new();
    // Two at a time, as on a machine with two CPUs.
    for (first, commands) in commands.chunks(2).enumerate() {
        let mut steps = String::new();
        for (n, command) in commands.iter().enumerate() {
            let wait = format!("echo {n} >> $HOME/began; until [ -e $HOME/gate ]; do sleep 0.02; done");
            let run = format!("{wait}; {}", command.replace("HERE/", &space.path("").display().to_string()));
            steps.push_str(&format!("  s{}: {{run: {run:?}, inputs: [{inputs}]}}\n", 2 * first + n));
        }
        space.write("w.yaml", &format!("flow: 1\nsteps:\n{steps}"));
        let _ = fs::remove_file(space.path("began")).and(fs::remove_file(space.path("gate")));
        let mut run = space.start(["run", "w.yaml", "-j", "2"]);
        let began = || fs::read_to_string(space.path("began")).unwrap_or_default();
        flow_testkit::until("all run", || began().lines().count() == commands.len());
        // File times are coarse.
        sleep(Duration::from_millis(100));
        let text = space.read(edited);
        space.write(edited, &format!("{text}\n")).write(edited, &text).write("gate", "");
        assert_eq!(run.wait().code(), Some(1), "{}", run.output());
        said.push_str(&run.output());
    }
    said
}

fn is_lost(said: &str, n: usize) -> bool {
    let step = format!("s{n}");
    let mut lost = said.lines().filter(|line| line.starts_with("  not kept") && line.contains("changed while it ran"));
    lost.any(|line| line.split([' ', ',', ':']).any(|word| word == step))
}

#[test]
fn an_edit_that_was_undone_is_seen_by_steps_that_name_the_project() {
    let space = space();
    space.write("src/toy/lib.py", "");
    std::os::unix::fs::symlink(space.path(""), space.cache().join("link")).unwrap();
    let through_link = format!("cat {}", space.cache().join("link/src/toy/lib.py").display());
    let said = edited_and_restored(
        &space,
        "src",
        &[
            "cat src/toy/lib.py",
            "cd HERE/src && cat toy/lib.py",
            "PYTHONPATH=HERE/src true",
            "cd $FLOW_ROOT/src && cat toy/lib.py",
            "A=$FLOW_ROOT; PYTHONPATH=$A/src true",
            &through_link,
        ],
        "src/toy/lib.py",
    );
    assert!(!is_lost(&said, 0), "{said}");
    assert!(said.contains("after the start, and has its old content again"), "{said}");
    for n in 1..6 {
        assert!(is_lost(&said, n), "{said}");
    }
}

#[test]
fn an_edit_that_was_undone_is_seen_by_steps_whose_python_has_an_editable_install() {
    let (space, site) = project("src/");
    of_src(&space, &site);
    let bin = space.path("venv/bin");
    let started = format!("P={}; $P/python -m toy.train", bin.display());
    let ways = [
        "python -I -m toy.train",
        "python -E -m toy.train",
        "unset PYTHONPATH; python -m toy.train",
        "env -i $(command -v python) -m toy.train",
        "PYTHONPATH=/x python -m toy.train",
        &started,
    ];
    let said = edited_and_restored(&space, "src", &ways, "src/toy/lib.py");
    for n in 0..ways.len() {
        assert!(is_lost(&said, n), "{said}");
    }
}

#[test]
fn an_edit_of_an_editable_install_outside_the_project_is_seen() {
    let ((own, site), other) = (project("src/"), space());
    other.write("elib/__init__.py", "");
    let folder = other.path("elib").parent().unwrap().canonicalize().unwrap();
    fs::write(site.join("__editable__.elib-0.1.pth"), folder.display().to_string()).unwrap();
    fs::remove_dir_all(site.join("toy-0.1.dist-info")).unwrap();
    let input = format!("../{}/elib", folder.file_name().unwrap().display());
    let edited = folder.join("elib/__init__.py").display().to_string();
    let said = edited_and_restored(&own, &input, &["python -c 'import elib'"], &edited);
    assert!(said.contains("elib/__init__.py` changed while it ran"), "{said}");
}

#[test]
fn packages_that_setuptools_maps_are_read_from_the_copy() {
    let (space, site) = project("");
    let finder = "import sys, importlib.util, os
MAPPING: dict[str, str] = {'toy': 'ROOT/toy'}
class Finder:
    @classmethod
    def find_spec(cls, name, path=None, target=None):
        if name in MAPPING:
            return importlib.util.spec_from_file_location(name, os.path.join(MAPPING[name], '__init__.py'))
def install():
    sys.meta_path.append(Finder)
";
    let finder = finder.replace("ROOT", space.path("").display().to_string().trim_end_matches('/'));
    fs::write(site.join("__editable___toy_0_1_finder.py"), finder).unwrap();
    let line = "import __editable___toy_0_1_finder; __editable___toy_0_1_finder.install()";
    fs::write(site.join("__editable__.toy-0.1.pth"), line).unwrap();
    let run = "cd sub && python -c \"import toy; print(toy.__file__)\" > ../out.txt";
    let step = format!("flow: 1\nsteps: {{u: {{run: {run:?}, inputs: [sub/x, INPUTS], outputs: [out.txt]}}}}\n");
    space.write("sub/x", "");
    space.write("w.yaml", &step.replace(", INPUTS", ""));
    let said = space.flow(["run", "w.yaml"]).expect(2).stderr();
    assert!(said.contains("add `toy` to the step's `inputs:`"), "{said}");
    space.write("w.yaml", &step.replace("INPUTS", "toy"));
    space.flow(["run", "w.yaml"]).expect(0);
    space.flow(["get", "u", "--to", "out"]).expect(0);
    let imported = space.read("out");
    assert!(imported.contains("/flow/work/"), "{imported}");
}

#[test]
fn steps_without_python_need_none_of_its_sources() {
    let (mut space, site) = project("src/");
    of_src(&space, &site);
    space.script("train.sh", "#!/bin/sh\necho training\npython -m toy.train\n");
    space.write("w.yaml", "flow: 1\nsteps: {a: {run: echo hi}, b: {run: ./train.sh, inputs: [train.sh]}}\n");
    space.flow(["run", "w.yaml", "a"]).expect(0);
    let said = space.flow(["run", "w.yaml", "b"]).expect(2).stderr();
    assert!(said.contains("because it is an editable install and `src` is not under"), "{said}");
    // Nor do scripts that are found otherwise: by their first line, in a folder, by `make`.
    space
        .script("t.py", "#!/usr/bin/env python\nimport toy\n")
        .script("scripts/run.sh", "#!/bin/sh\npython -m toy.train\n");
    space.write("Makefile", "all:\n\tpython -m toy.train\n");
    for (run, input) in [("nice ./t.py", "t.py"), ("sh scripts/run.sh", "scripts"), ("make -s", "Makefile")] {
        space.write("x.yaml", &format!("flow: 1\nsteps: {{c: {{run: {run}, inputs: [{input}]}}}}\n"));
        let said = space.flow(["plan", "x.yaml"]).expect(2).stderr();
        assert!(said.contains("because it is an editable install and `src` is not under"), "{run}: {said}");
    }
    // Another Python has no such install.
    space.env("PATH", "/usr/local/bin:/usr/bin:/bin");
    space.flow(["plan", "w.yaml", "b"]).expect(0);
}

#[test]
fn folders_of_the_shell_are_read_from_the_copy() {
    let (mut space, site) = project("src/");
    fs::remove_dir_all(site.join("toy-0.1.dist-info")).unwrap();
    space.env("PYTHONPATH", &space.path("src").display().to_string());
    let step = "flow: 1\nsteps: {u: {run: python -m toy.train, inputs: [src/toy], metrics: {stdout: 'loss {loss}'}}}\n";
    space.write("w.yaml", &step.replace("src/toy", "pyproject.toml"));
    let said = space.flow(["check", "w.yaml"]).expect(0).stdout();
    assert!(said.contains("warning: `PYTHONPATH` of the shell has `ROOT/src`"), "{said}");
    space.write("src/toy/train.py", "import toy\nprint('loss', '/flow/work/' in toy.__file__ and 1 or 0)\n");
    space.write("w.yaml", step);
    assert!(!space.flow(["check", "w.yaml"]).expect(0).stdout().contains("PYTHONPATH"));
    space.flow(["run", "w.yaml"]).expect(0);
    assert_eq!(loss(&space), "1");
}

#[test]
fn an_editable_install_outside_the_project_is_a_warning() {
    let ((own, site), other) = (project("toy/"), space());
    other.write("elib/__init__.py", "");
    let folder = other.path("elib").parent().unwrap().canonicalize().unwrap();
    fs::write(site.join("__editable__.elib-0.1.pth"), folder.display().to_string()).unwrap();
    fs::remove_dir_all(site.join("toy-0.1.dist-info")).unwrap();
    let said = |inputs: &str| {
        let step = format!("{{run: \"python -c 'import elib'\", inputs: [{inputs}]}}");
        own.write("w.yaml", &format!("flow: 1\nsteps: {{u: {step}}}\n"));
        own.flow(["check", "w.yaml"]).expect(0).stdout()
    };
    let warning = said("toy");
    assert!(warning.contains("the Python of `u` imports `elib` from `../"), "{warning}");
    assert!(!said(&folder.join("elib").display().to_string()).contains("imports"));
}

#[test]
fn an_absolute_path_of_the_project_is_a_warning() {
    let space = space();
    space.write("data/x.csv", "1\n").write("lib/a.py", "");
    let at = |path: &str| space.path(path).display().to_string();
    let text = "flow: 1\nsteps: {a: {run: 'cat DATA', env: {PYTHONPATH: 'LIB:/usr/lib'}, inputs: [data]}}\n";
    space.write("w.yaml", &text.replace("DATA", &at("data/x.csv")).replace("LIB", &at("lib")));
    let said = space.flow(["check", "w.yaml"]).expect(0).stdout();
    let said = said.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(said.contains("`run:` of `a` has the absolute path `ROOT/data/x.csv`"), "{said}");
    assert!(said.contains("write `data/x.csv` and list it under `inputs:`"), "{said}");
    assert!(said.contains("`PYTHONPATH` under `env:` of `a` has the absolute path `ROOT/lib`"), "{said}");
    space.write(
        "w.yaml",
        &format!("flow: 1\nsteps: {{a: {{run: 'cd {} && cat data/x.csv', inputs: [data]}}}}\n", at("")),
    );
    let said = space.flow(["check", "w.yaml"]).expect(0).stdout();
    assert!(said.contains("of the project, so the step reads the files that you edit"), "{said}");
}
