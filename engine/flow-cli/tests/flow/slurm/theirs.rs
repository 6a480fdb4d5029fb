//! Jobs that the killed run of another member of a group left.

use std::{
    fs::{self, Permissions},
    os::unix::fs::PermissionsExt,
    process::Command,
    thread,
    time::Duration,
};

use flow_testkit::until;

use super::Lab;
use crate::counted::once;

/// Whoever is on every system and is not root, and a group.
const MEMBER: &str = "games";
const GROUP: &str = "users";

const STEPS: &str = "
  a:
    matrix: {n: [0, 1]}
    gpus: 1
    run: 'echo ${{ n }} >> $TOGETHER/began; until [ -e $TOGETHER/on ]; do sleep 0.1; done; echo ${{ n }} >> $TOGETHER/did'
    env: {TOGETHER: DIR}
";

#[test]
#[ignore = "needs Slurm"]
fn what_the_killed_run_of_another_member_left_is_waited_for_and_never_done_twice() {
    let lab = Lab::new(1, 2, "");
    let folder = lab.space.path("").canonicalize().unwrap();
    lab.space.write("w.yaml", &format!("{}{}", super::HEAD, STEPS.replace("DIR", &folder.to_string_lossy())));
    // The other one has to reach the workflow, the cluster and the locks.
    let open = |path: &std::path::Path, mode| fs::set_permissions(path, Permissions::from_mode(mode)).unwrap();
    open(&folder, 0o777);
    open(lab.cluster.folder(), 0o711);
    open(&lab.cluster.folder().join("run"), 0o711);
    open(lab.space.locks(), 0o777);
    let theirs = |args: &[&str]| {
        let mut command = Command::new("setpriv");
        command.args([&format!("--reuid={MEMBER}"), &format!("--regid={GROUP}"), "--clear-groups"]);
        let (name, conf) = lab.cluster.env();
        command.args([env!("CARGO_BIN_EXE_flow")]).args(args).current_dir(&folder).env(name, conf);
        command.env("HOME", &folder).env("FLOW_GPU_LOCKS", lab.space.locks()).env("USER", MEMBER);
        command
    };
    let made = lab.space.flow(["store", "init", "--group", GROUP, "lab"]);
    let reach = theirs(&["plan", "w.yaml", "--store", "lab"]).output();
    if made.code() != Some(0) || !reach.is_ok_and(|output| output.status.success()) {
        eprintln!("skipped: only root can run flow as another member of a group, who can reach what this test runs");
        return;
    }
    let run = ["run", "w.yaml", "--store", "lab"];
    let leave = || {
        let before = lab.lines("began").values().sum::<u32>();
        let mut flow = lab.space.start(run);
        until("both run", || lab.lines("began").values().sum::<u32>() == before + 2);
        flow.kill();
    };
    // While it waits their owner goes on: what comes of them serves both.
    leave();
    let mut waits = theirs(&run).stdout(std::process::Stdio::piped()).spawn().unwrap();
    until("it waits", || {
        let said = lab.space.flow(["status", "--store", "lab"]).stdout();
        said.contains("waiting 2 instances: a job of run")
    });
    lab.space.write("on", "");
    lab.space.flow(run).expect(0);
    assert!(waits.wait().unwrap().success());
    assert_eq!((lab.lines("began"), lab.lines("did")), (once(2), once(2)));

    // Nobody else can read what they come to.
    fs::remove_file(lab.space.path("on")).unwrap();
    lab.space.write("w.yaml", &lab.space.read("w.yaml").replace("0.1", "0.2"));
    leave();
    lab.space.write("on", "");
    lab.expect_no_job();
    thread::sleep(Duration::from_secs(1));
    let output = theirs(&run).output().unwrap();
    let said = String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned();
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(said.contains("of root did this in Slurm (COMPLETED), and what came of it only root can read"), "{said}");
    lab.space.flow(run).expect(0);
    let output = theirs(&run).output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(said.contains("2 results cached") || said.contains("2 cached"), "{said}");
    assert_eq!(lab.lines("did").values().sum::<u32>(), 4, "each twice, for it was edited once");
}
