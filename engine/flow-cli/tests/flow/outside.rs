//! Work folders outside the project: what a program finds there, which place is chosen, and what is left.

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};

use flow_testkit::{TestSpace, files_below, until};
use nix::unistd::geteuid;

use crate::space;

/// Searches upwards, as rootutils does.
const SEARCH: &str = "d=$PWD
until [ -e \"$d/.project-root\" ]; do
  [ \"$d\" != / ] || { echo \"FileNotFoundError: Project root directory not found. Indicators: ['.project-root']\"; exit 1; }
  d=$(dirname \"$d\")
done
cd \"$d\" && pwd && cat src/value\n";

fn project() -> TestSpace {
    let space = space();
    space.write("proj/search.sh", SEARCH).write("proj/src/value", "1\n").write("proj/.project-root", "");
    fs::create_dir(space.path("proj/.flow")).unwrap();
    workflow(&space, "[search.sh, src]");
    space
}

fn workflow(space: &TestSpace, inputs: &str) {
    let step = format!("search: {{run: sh search.sh, inputs: {inputs}}}");
    space.write("proj/w.yaml", &format!("flow: 1\nname: outside\nsteps:\n  {step}\n"));
}

#[test]
fn a_search_upwards_finds_the_inputs_and_not_the_project() {
    let space = project();
    let said = space.flow_in("proj", ["run", "w.yaml"]).expect(1).text();
    let said = said.split_whitespace().collect::<Vec<_>>().join(" ");
    let hint = "`.project-root` is in the project but not in the step's work folder: list it in `inputs:`";
    assert!(said.contains(hint), "{said}");
    workflow(&space, "[search.sh, src, .project-root]");
    space.flow_in("proj", ["run", "w.yaml"]).expect(0);
    assert_eq!(space.flow_in("proj", ["logs", "search"]).expect(0).stdout(), "WORK/RUN/0/work\n1\n");
    space.write("proj/src/value", "2\n");
    space.flow_in("proj", ["run", "w.yaml"]).expect(0);
    assert_eq!(space.flow_in("proj", ["logs", "search"]).expect(0).stdout(), "WORK/RUN/0/work\n2\n");
    let left = files_below(&space.cache().join("flow/work"));
    assert_eq!(left.iter().filter(|file| !file.ends_with("store")).count(), 2, "of the failed attempt only: {left:?}");
}

#[test]
fn a_step_knows_the_root_and_the_commit() {
    let space = space();
    space.write("proj/w.yaml", "flow: 1\nsteps:\n  a: {run: 'echo $FLOW_ROOT ${FLOW_COMMIT-none}'}\n");
    fs::create_dir(space.path("proj/.flow")).unwrap();
    space.flow_in("proj", ["run", "w.yaml"]).expect(0);
    assert_eq!(space.flow_in("proj", ["logs", "a"]).expect(0).stdout(), "ROOT/proj none\n");
    let git = "git init -q . && git add w.yaml && git -c user.name=a -c user.email=a@b commit -qm x";
    let done = std::process::Command::new("sh").args(["-c", git]).current_dir(space.path("proj")).status();
    assert!(done.is_ok_and(|status| status.success()), "git makes a commit");
    let plan = space.flow_in("proj", ["plan", "w.yaml"]).expect(0).stdout();
    assert!(plan.contains("cached"), "the commit is not part of a fingerprint: {plan}");
    space.flow_in("proj", ["run", "w.yaml", "-f"]).expect(0);
    let told = space.flow_in("proj", ["logs", "a"]).expect(0).stdout();
    assert!(told.trim_end().rsplit_once(' ').is_some_and(|(_, commit)| commit.len() == 40), "{told}");
}

#[test]
fn the_place_is_the_named_one_else_the_cache_else_beside_the_project_else_the_store() {
    const WHERE: &str = "flow: 1\nname: place\nsteps:\n  a: {run: 'pwd; false'}\n";
    let mut space = space();
    fs::create_dir_all(space.path("proj/.flow")).unwrap();
    let ran = |space: &TestSpace, text: &str, code| {
        space.write("proj/w.yaml", text);
        let said = space.flow_in("proj", ["run", "w.yaml"]).expect(code).text();
        let logs = space.flow_in("proj", ["logs", "a"]).stdout();
        (
            logs.split("/RUN/").next().unwrap_or_default().to_owned(),
            said.split_whitespace().collect::<Vec<_>>().join(" "),
        )
    };
    let warned = |said: &str| said.contains("so a step may find files that are not under `inputs:`");
    let (place, said) = ran(&space, WHERE, 1);
    assert!(place == "WORK" && !warned(&said), "{place}: {said}");

    let named = |base: &str| WHERE.replace("steps:", &format!("work: {base}\nsteps:"));
    let (place, said) = ran(&space, &named("../fast"), 1);
    assert!(place.starts_with("ROOT/fast/") && !warned(&said), "{place}: {said}");
    let (place, said) = ran(&space, &named("here"), 1);
    assert!(place.starts_with("ROOT/proj/here/") && warned(&said), "{place}: {said}");
    space.env("FLOW_WORK", "../variable");
    let (place, _) = ran(&space, &named("here"), 1);
    assert!(place.starts_with("ROOT/variable/"), "the variable comes first: {place}");
    space.env("FLOW_WORK", "w.yaml/x");
    let (_, said) = ran(&space, WHERE, 2);
    assert!(said.contains("FLOW_WORK names `ROOT/proj/w.yaml/x`, which cannot have work folders"), "{said}");

    let inside = space.path("proj/cache").display().to_string();
    space.env("FLOW_WORK", "").env("XDG_CACHE_HOME", &inside);
    let beside = format!(".flow-work-{}", geteuid());
    let (place, said) = ran(&space, WHERE, 1);
    assert!(place.starts_with(&format!("ROOT/{beside}/")) && !warned(&said), "{place}: {said}");
    assert_eq!(space.path(&beside).metadata().unwrap().mode() & 0o777, 0o700);
    assert!(!space.path("proj/cache/flow/work").exists(), "nothing is made in the project");
    fs::remove_dir_all(space.path(&beside)).unwrap();
    space.write(&beside, "something else");
    let (place, said) = ran(&space, WHERE, 1);
    assert!(
        place == "ROOT/proj/.flow/runs" && warned(&said) && said.contains("it is in the project"),
        "{place}: {said}"
    );
}

#[test]
fn what_runs_left_there_is_removed_by_gc_and_missed_by_nobody() {
    let space = space();
    space.write("w.yaml", "flow: 1\nname: left\nsteps:\n  a: {run: 'echo half > half.txt; false'}\n");
    space.flow(["run", "w.yaml"]).expect(1);
    let base = space.cache().join("flow/work");
    let left = || files_below(&base).into_iter().filter(|file| file.ends_with("half.txt")).count();
    assert_eq!(left(), 1);
    assert_eq!(base.metadata().unwrap().permissions().mode() & 0o777, 0o700);
    let shown = space.flow(["gc", "--runs", "0", "--days", "0", "-n"]).expect(0).stdout();
    assert!(shown.contains("1 run") && left() == 1, "{shown}");
    space.flow(["gc", "--runs", "0", "--days", "0"]).expect(0);
    assert_eq!(left(), 0);

    space.flow(["run", "w.yaml"]).expect(1);
    fs::remove_dir_all(&base).unwrap();
    assert!(!space.flow(["show", "a"]).expect(0).stdout().contains("work folder"));
    let none = space.flow(["shell", "a"]).expect(2).text();
    assert!(none.contains("/work` was removed, but not by flow"), "{none}");
    let said = space.flow(["doctor"]).expect(0).stdout();
    let place = "work folders: in `WORK`; files can be linked and moved from there into the store; ";
    assert!(said.contains(place) && said.contains(" free; `flow gc` would free "), "{said}");
    space.flow(["run", "w.yaml"]).expect(1);
    assert_eq!(left(), 1, "the next run makes the place again");
}

#[test]
fn a_place_that_is_cleared_during_the_run_hinders_no_later_step() {
    let space = space();
    let steps = "a: {run: 'touch ROOT/began; until [ -e ROOT/go ]; do sleep 0.05; done'}\n  b: {needs: [a], run: 'echo 1 > out', outputs: [out]}";
    let steps = steps.replace("ROOT", &space.path("").display().to_string());
    space.write("w.yaml", &format!("flow: 1\nname: cleared\nsteps:\n  {steps}\n"));
    let mut flow = space.start(["run", "w.yaml"]);
    until("the first step runs", || space.path("began").exists());
    fs::remove_dir_all(space.cache().join("flow")).unwrap();
    space.write("go", "");
    assert!(flow.wait().success(), "{}", flow.output());
}

#[test]
fn an_input_above_the_workflow_is_found_where_the_script_looks() {
    let space = space();
    fs::create_dir(space.path(".flow")).unwrap();
    space.write("data/a.txt", "1\n").write("data/deep/b.txt", "2\n").write("c.txt", "3\n");
    let run = "cat ../data/a.txt data/a.txt ../data/deep/b.txt ../c.txt c.txt | tr -d '\\n' > out";
    let inputs = "[../data, ../data/deep/b.txt, ../c.txt]";
    space.write("p/w.yaml", &format!("flow: 1\nsteps:\n  a: {{run: \"{run}\", inputs: {inputs}, outputs: [out]}}\n"));
    space.flow_in("p", ["run", "w.yaml"]).expect(0);
    space.flow_in("p", ["get", "a", "--to", "got"]).expect(0);
    assert_eq!(space.read("p/got"), "11233");
    assert!(files_below(space.cache()).iter().all(|path| !path.ends_with("a.txt")), "nothing of the attempt is left");

    space.write("p/q/w.yaml", "flow: 1\nsteps:\n  a: {run: cat c.txt, inputs: [../../c.txt]}\n");
    let said = space.flow_in("p/q", ["check", "w.yaml"]).expect(0).stdout();
    let said = said.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(said.contains("note: in `a`, the input `../../c.txt` is inside the work folder"), "{said}");
}
