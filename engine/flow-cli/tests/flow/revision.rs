//! The commit of the repository: a run keeps it, and whether there were changes. Nothing runs again for it.

use std::process::Command;

use flow_testkit::TestSpace;

use crate::space;

const ONE: &str = "flow: 1\nname: one\nsteps:\n  one: {run: 'echo 1'}\n";

fn git(space: &TestSpace, args: &[&str]) -> bool {
    let mut git = Command::new("git");
    git.current_dir(space.path("")).args(["-c", "user.name=Ada", "-c", "user.email=ada@example.org"]).args(args);
    git.output().is_ok_and(|output| output.status.success())
}

/// What the first line of the last run's journal says.
fn recorded(space: &TestSpace) -> Option<(String, bool)> {
    let line = &space.journal()[0];
    Some((line["revision"]["commit"].as_str()?.to_owned(), line["revision"]["dirty"].as_bool()?))
}

#[test]
fn a_run_keeps_the_commit_and_whether_there_were_changes() {
    let space = space();
    space.write("one.yaml", ONE).write("notes.txt", "first");
    space.flow(["run", "one.yaml"]).expect(0);
    assert_eq!(recorded(&space), None, "there is no repository");
    if !git(&space, &["init", "-q"]) {
        return eprintln!("skipped: there is no git");
    }
    space.flow(["run", "-f", "one.yaml"]).expect(0);
    assert_eq!(recorded(&space), None, "there is no commit");
    assert!(git(&space, &["add", "one.yaml", "notes.txt"]) && git(&space, &["commit", "-qm", "first"]));
    space.script("spy", "touch spied\n");
    assert!(git(&space, &["config", "core.fsmonitor", "./spy"]));

    let said = space.flow(["run", "one.yaml"]).expect(0).text();
    assert!(said.contains("nothing to do"), "a commit is in no fingerprint: {said}");
    space.flow(["run", "-f", "one.yaml"]).expect(0);
    let (commit, dirty) = recorded(&space).unwrap();
    assert_eq!((commit.len(), dirty), (40, false));
    let short = &commit[..7];
    let shown = space.flow(["show", "one"]).expect(0).stdout();
    assert!(shown.contains(short) && !shown.contains("not committed"), "{shown}");

    space.write("notes.txt", "second");
    space.flow(["run", "one.yaml"]).expect(0);
    space.flow(["run", "-f", "one.yaml"]).expect(0);
    assert_eq!(recorded(&space), Some((commit.clone(), true)));
    let shown = space.flow(["show", "one"]).expect(0).stdout();
    assert!(shown.contains(&format!("{short}, with changes not committed")), "{shown}");
    let runs = space.flow(["runs"]).expect(0).stdout();
    assert!(runs.lines().last().unwrap().contains(&format!("{short}+")), "{runs}");
    assert!(!space.path("spied").exists(), "no program that the repository names is started");
}

#[test]
fn a_commit_without_the_workflow_or_an_input_is_not_clean() {
    let space = space();
    let file = "flow: 1\nname: one\nsteps:\n  one: {run: 'cat data.csv cache.bin', inputs: [data.csv, cache.bin]}\n";
    space.write("one.yaml", file).write("data.csv", "1").write("cache.bin", "2").write("notes.txt", "first");
    space.write(".gitignore", "cache.bin\n");
    if !git(&space, &["init", "-q"]) {
        return eprintln!("skipped: there is no git");
    }
    let mut dirty = |added: &str| {
        assert!(git(&space, &["add", added]) && git(&space, &["commit", "-qm", added]));
        space.flow(["run", "-f", "one.yaml"]).expect(0);
        recorded(&space).unwrap().1
    };
    // The repository ignores `cache.bin` on purpose, and nothing reads `notes.txt`.
    assert_eq!([".gitignore", "one.yaml", "data.csv"].map(&mut dirty), [true, true, false]);
    let outside = || space.flow(["show", "one"]).expect(0).stdout().contains(", with inputs that are not in Git");
    assert!(outside(), "the commit has no `cache.bin`");
    space.write("one.yaml", &file.replace(", cache.bin", "").replace(" cache.bin", ""));
    assert!(!dirty("one.yaml") && !outside());
}

#[test]
fn what_flow_itself_publishes_is_no_change() {
    let space = space();
    let steps = "  one: {run: 'echo loss 1', metrics: {stdout: 'loss {loss}'}}\n  table: {uses: flow/table, with: {from: one, columns: [loss]}}\n  report: {uses: flow/report, with: {sections: [{table: table}]}}\n";
    let publish = "publish:\n  - {from: report, to: reports/one.md}\n  - {from: report, whats_new: README.md}\n";
    space.write("one.yaml", &format!("flow: 1\nname: one\nsteps:\n{steps}{publish}")).write("README.md", "# Mine\n");
    if !git(&space, &["init", "-q"]) {
        return eprintln!("skipped: there is no git");
    }
    space.flow(["run", "one.yaml"]).expect(0);
    assert!(git(&space, &["add", "one.yaml", "README.md", "reports"]) && git(&space, &["commit", "-qm", "first"]));
    space.write("README.md", "# Mine\n\nNo entry any more.\n").write("reports/one.md", "");
    space.flow(["run", "one.yaml", "-f"]).expect(0);
    assert!(matches!(recorded(&space), Some((_, false))), "{:?}", recorded(&space));
    space.write("one.yaml", &format!("flow: 1\nname: one\nparams: {{day: 1}}\nsteps:\n{steps}{publish}"));
    space.flow(["run", "one.yaml", "-f"]).expect(0);
    assert!(matches!(recorded(&space), Some((_, true))), "{:?}", recorded(&space));
}
