//! Jobs that the killed run of another member of a group left.

use std::{
    fs::{self, Permissions},
    os::unix::fs::PermissionsExt,
    process::Command,
};

use flow_testkit::until;

use super::Lab;

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
fn what_the_killed_run_of_another_member_left_is_named_and_done_again() {
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
        command
            .env("HOME", &folder)
            .env("XDG_CACHE_HOME", lab.space.cache().join("theirs"))
            .env("FLOW_GPU_LOCKS", lab.space.locks())
            .env("USER", MEMBER);
        command
    };
    let made = lab.space.flow(["store", "init", "--group", GROUP, "lab"]);
    let reach = theirs(&["plan", "w.yaml", "--store", "lab"]).output();
    if made.code() != Some(0) || !reach.is_ok_and(|output| output.status.success()) {
        eprintln!("skipped: only root can run flow as another member of a group, who can reach what this test runs");
        return;
    }
    let run = ["run", "w.yaml", "--store", "lab"];
    for file in ["began", "did"] {
        lab.space.write(file, "");
        open(&lab.space.path(file), 0o666);
    }
    let mut flow = lab.space.start(run);
    until("both run", || lab.lines("began").values().sum::<u32>() == 2);
    flow.kill();

    // Nobody waits for them. Whose run it was collects what they came to.
    let planned = theirs(&["plan", "w.yaml", "--store", "lab"]).output().unwrap();
    let planned = String::from_utf8_lossy(&planned.stdout).split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(planned.contains("of root was killed and left Slurm jobs for a[n=0], a[n=1]"), "{planned}");
    assert!(!lab.space.flow(["plan", "w.yaml", "--store", "lab"]).stdout().contains("of root"), "they are one's own");
    let mut again = theirs(&run).stdout(std::process::Stdio::piped()).spawn().unwrap();
    lab.space.write("on", "");
    assert!(again.wait().unwrap().success());
    lab.space.flow(run).expect(0);
    assert_eq!(lab.lines("did"), [("0".to_owned(), 2), ("1".to_owned(), 2)].into());
    assert!(theirs(&["plan", "w.yaml", "--store", "lab", "--exit-code"]).status().unwrap().success());
}
