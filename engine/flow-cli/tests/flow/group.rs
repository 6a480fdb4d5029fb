//! A store for a group: what its members see, reuse and end of each other's runs, and what stays with who ran it.

use std::{fs, os::unix::fs::PermissionsExt, path::Path, process::Command};

use flow_testkit::TestSpace;

use crate::space;

/// Two people of one group, and one who is not in it. None of them has an account.
const ADA: u32 = 60_001;
const BOB: u32 = 60_002;
const EVE: u32 = 60_003;
/// A group that every system has.
const GROUP: &str = "users";
const GID: u32 = 100;

const WORKFLOW: &str = "\
flow: 1
name: shared
steps:
  train: {matrix: {n: [1, 2]}, run: 'echo private; cat train.txt > out/x', inputs: [train.txt], outputs: [out/x]}
";

struct Lab(TestSpace);

impl Lab {
    /// A store that Ada made for the group, and a workflow that all may read; none where only root could be three users.
    #[expect(clippy::print_stderr, reason = "what was not tested is said")]
    fn new() -> Option<Lab> {
        let space = space();
        space.write("shared.yaml", WORKFLOW).write("train.txt", "made\n");
        fs::create_dir(space.path("srv")).unwrap();
        for (path, mode) in [("", 0o755), ("srv", 0o777)] {
            fs::set_permissions(space.path(path), fs::Permissions::from_mode(mode)).unwrap();
        }
        // Where it was built may be closed to others.
        let (built, flow) = (env!("CARGO_BIN_EXE_flow"), space.path("flow"));
        fs::hard_link(built, &flow).or_else(|_| fs::copy(built, &flow).map(drop)).unwrap();
        let lab = Lab(space);
        let (code, said) = lab.flow(ADA, &["store", "init", "--group", GROUP, &lab.store()]);
        if code == Some(0) && !said.contains("umask") {
            return Some(lab);
        }
        eprintln!("skipped: only root can run flow as several users, on a file system with access lists: {said}");
        None
    }

    fn store(&self) -> String {
        self.0.path("srv/lab").display().to_string()
    }

    fn flow(&self, user: u32, args: &[&str]) -> (Option<i32>, String) {
        let group = if user == EVE { user } else { GID };
        let mut command = Command::new("setpriv");
        command.args([format!("--reuid={user}"), format!("--regid={user}"), format!("--groups={group}")]);
        command.arg(self.0.path("flow")).args(args).current_dir(self.0.path("")).env_clear();
        let command = command.env("PATH", "/usr/bin:/bin").env("FLOW_STORE", self.store());
        let command = command.env("XDG_CACHE_HOME", self.0.cache().join(user.to_string()));
        let output = command.env("FLOW_GPU_LOCKS", self.0.locks()).output().unwrap();
        (output.status.code(), String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned())
    }

    /// It ends with this code; what it said.
    #[track_caller]
    fn expect(&self, user: u32, args: &[&str], code: i32) -> String {
        let (found, said) = self.flow(user, args);
        assert_eq!(found, Some(code), "{args:?}: {said}");
        said
    }

    fn edit(&self, text: &str) {
        self.0.write("train.txt", text);
    }
}

/// In the first tenth of a second after an edit a run plans before it says so.
fn all_cached(said: &str) -> bool {
    said.contains("2 results cached") || said.contains("done: 2 cached")
}

#[test]
fn a_user_of_the_group_forgets_what_is_their_own() {
    let Some(lab) = Lab::new() else { return };
    lab.expect(ADA, &["run", "shared.yaml"], 0);
    let reused = lab.expect(BOB, &["run", "shared.yaml"], 0);
    assert!(all_cached(&reused), "{reused}");
    let said = lab.expect(BOB, &["forget", "train"], 1);
    assert!(said.contains("not forgotten: train[n=1], train[n=2] of user 60001"), "{said}");
    assert!(said.contains("flow run -f STEP"), "{said}");
    assert!(all_cached(&lab.expect(BOB, &["run", "shared.yaml"], 0)), "nothing is lost");

    // What one ran oneself goes, and what others did stays.
    lab.edit("again\n");
    lab.expect(BOB, &["run", "shared.yaml"], 0);
    let said = lab.expect(BOB, &["forget", "train[n=1]"], 1);
    assert!(said.contains("forgotten: 1 result of 1 instance") && said.contains("train[n=1] of user 60001"), "{said}");
    assert!(lab.expect(BOB, &["plan", "shared.yaml"], 0).contains("1 cached"));

    // Whose the store is may, as may root.
    let said = lab.expect(ADA, &["forget", "train", "-w", "shared.yaml"], 0);
    assert!(said.contains("forgotten: 3 results of 2 instances"), "{said}");
    lab.expect(BOB, &["run", "shared.yaml"], 0);
    assert!(lab.expect(0, &["forget", "train", "-w", "shared.yaml"], 0).contains("forgotten: 2 results"));
}

#[test]
fn a_user_of_the_group_accepts_for_what_follows_and_takes_that_back() {
    let Some(lab) = Lab::new() else { return };
    lab.expect(BOB, &["run", "shared.yaml"], 0);
    lab.edit("only a remark more\n");
    let said = lab.expect(BOB, &["accept", "train", "-w", "shared.yaml", "--reason", "a remark"], 0);
    assert!(!said.contains("60002"), "they are his own: {said}");
    lab.expect(BOB, &["forget", "train", "-w", "shared.yaml"], 0);

    lab.edit("made\n");
    lab.expect(ADA, &["run", "shared.yaml"], 0);
    lab.edit("only a remark more\n");
    let said = lab.expect(BOB, &["accept", "train", "-w", "shared.yaml", "--reason", "a remark"], 0);
    assert!(said.contains("of user 60001: ") && said.contains("kept train × 2"), "it takes nothing from her: {said}");
    assert!(all_cached(&lab.expect(BOB, &["run", "shared.yaml"], 0)));
    let said = lab.expect(BOB, &["forget", "train", "-w", "shared.yaml"], 1);
    assert!(said.contains("forgotten: 2 results of 2 instances") && said.contains("of user 60001"), "{said}");
    lab.edit("made\n");
    assert!(lab.expect(ADA, &["plan", "shared.yaml"], 0).contains("2 cached"), "hers are there");
}

#[test]
fn users_of_the_group_have_a_script_in_common() {
    let Some(lab) = Lab::new() else { return };
    lab.expect(ADA, &["run", "shared.yaml"], 0);
    // What is kept of it for `flow diff` is hers alone.
    lab.0.write("shared.yaml", &WORKFLOW.replace("echo private", "echo mine"));
    lab.expect(BOB, &["run", "shared.yaml"], 0);
    for user in [BOB, ADA] {
        lab.expect(user, &["doctor", "--contents"], 0);
        assert!(all_cached(&lab.expect(user, &["run", "shared.yaml"], 0)));
    }
    let runs = lab.expect(BOB, &["runs", "--json"], 0);
    let runs: Vec<&str> = runs.lines().filter_map(|line| line.split('"').nth(3)).collect();
    lab.expect(BOB, &["diff", runs[0], runs[1]], 0);
}

#[test]
fn a_user_of_the_group_tidies_up_after_themselves_alone() {
    let Some(lab) = Lab::new() else { return };
    lab.expect(ADA, &["run", "shared.yaml"], 0);
    lab.edit("again\n");
    lab.expect(BOB, &["run", "shared.yaml"], 0);
    let said = lab.expect(BOB, &["gc", "--runs", "0", "--days", "0"], 0);
    assert!(said.contains("1 run, 2 results") && said.contains("left to the users who made them: 1 run"), "{said}");
    assert!(lab.expect(BOB, &["plan", "shared.yaml"], 0).contains("2 to run"), "his are gone");
    lab.expect(BOB, &["run", "shared.yaml"], 0);
    // Whose the store is keeps the newest of each of them, whatever their files are called.
    let said = lab.expect(ADA, &["gc", "--runs", "1", "--days", "0"], 0);
    assert!(said.contains("nothing to remove; 2 runs stay"), "{said}");
    for text in ["again\n", "made\n"] {
        lab.edit(text);
        assert!(lab.expect(ADA, &["plan", "shared.yaml"], 0).contains("2 cached"), "{text}");
    }
}

#[test]
fn a_user_of_the_group_reads_results_and_no_logs_and_nobody_else_reads_anything() {
    let Some(lab) = Lab::new() else { return };
    lab.expect(ADA, &["run", "shared.yaml"], 0);
    assert!(lab.expect(BOB, &["show", "train[n=1]"], 0).contains("outputs.out"));
    assert!(lab.expect(BOB, &["runs"], 0).contains("user 60001") && !lab.expect(ADA, &["runs"], 0).contains("60001"));
    assert!(lab.expect(BOB, &["why", "train[n=1]", "-w", "shared.yaml"], 0).contains("train[n=1]"));
    assert!(lab.expect(BOB, &["logs", "train[n=1]"], 1).contains("each user's logs are private"));
    for args in [&["runs"][..], &["run", "shared.yaml"], &["logs", "train[n=1]"], &["forget", "train"], &["gc"]] {
        let (code, said) = lab.flow(EVE, args);
        assert!(
            code != Some(0) && !said.contains("private\n") && said.contains("cannot access the store"),
            "{args:?}: {said}"
        );
    }
    let closed = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o007 == 0;
    assert!(closed(&lab.0.path("srv/lab")));
}
