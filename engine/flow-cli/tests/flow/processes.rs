//! Whose a process is: `cancel` across containers, users and phases of a run, and what is left of flow and keeper killed together. No
//! process is ended that is not proven to be of the run.

use std::{
    fs,
    os::unix::{
        fs::{PermissionsExt, chown},
        process::CommandExt,
    },
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    sync::atomic::{AtomicU32, Ordering},
};

use flow_testkit::{RunningFlow, TestSpace, until};
use nix::{
    sys::signal::{Signal, kill},
    unistd::{Pid, Uid},
};
use serde_json::Value;

use crate::space;

const FLOW: &str = env!("CARGO_BIN_EXE_flow");
const NOBODY: u32 = 65_534;

/// A number of seconds that no other test or run sleeps.
fn seconds() -> u32 {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    10_000_000 + std::process::id() * 32 + NEXT.fetch_add(1, Ordering::Relaxed)
}

/// The processes `sleep SECONDS`, wherever they are.
fn sleeping(seconds: u32) -> Vec<i32> {
    let wanted = format!("sleep\0{seconds}\0");
    let pids = fs::read_dir("/proc").unwrap().flatten().filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    pids.filter(|pid: &i32| fs::read(format!("/proc/{pid}/cmdline")).is_ok_and(|line| line == wanted.as_bytes()))
        .collect()
}

/// A process of the test's own, which ends with it.
struct OwnProcess(Child);

impl OwnProcess {
    fn start(command: &mut Command) -> OwnProcess {
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        // A process that another test forks just then may hold a copied program open for writing.
        loop {
            match command.spawn() {
                Err(e) if e.kind() == std::io::ErrorKind::ExecutableFileBusy => {
                    std::thread::sleep(std::time::Duration::from_millis(20));
                }
                started => return OwnProcess(started.unwrap()),
            }
        }
    }

    fn is_alive(&mut self) -> bool {
        self.0.try_wait().unwrap().is_none()
    }
}

impl Drop for OwnProcess {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn long(space: &TestSpace, seconds: u32) {
    space.write("long.yaml", &format!("flow: 1\nname: long\nsteps:\n  long: {{run: sleep {seconds}}}\n"));
}

/// `flow` in the space, by another command, which may set what it likes.
fn with(space: &TestSpace, program: &Path) -> Command {
    let mut command = Command::new(program);
    command.current_dir(space.path("")).env_clear().env("PATH", std::env::var_os("PATH").unwrap());
    command
        .env("HOME", space.path(""))
        .env("XDG_CACHE_HOME", space.cache())
        .env("LC_ALL", "C.UTF-8")
        .stdin(Stdio::null());
    command.env("FLOW_GPU_LOCKS", space.locks());
    command
}

#[test]
fn a_run_in_another_container_is_cancelled_and_nobody_else() {
    let apart = ["--pid", "--fork", "--mount-proc", "--kill-child"];
    if !Command::new("unshare").args(apart).arg("true").status().is_ok_and(|status| status.success()) {
        println!("skipped: no pid namespace can be made");
        return;
    }
    let (space, n) = (space(), seconds());
    long(&space, n);
    let mut run =
        OwnProcess::start(with(&space, Path::new("unshare")).args(apart).arg(FLOW).args(["run", "long.yaml"]));
    until("the step runs", || !sleeping(n).is_empty());
    let said = space.flow(["status"]).expect(0).stdout();
    assert!(said.contains(", process PID of another container, for "), "{said}");
    let said = space.flow(["doctor"]).expect(1).text();
    assert!(said.contains("is in use by process PID of another container (`flow run long.yaml`"), "{said}");
    let said = space.flow(["cancel"]).expect(0).text();
    assert!(said.contains("asked run RUN to end\n"), "{said}");
    until("it has ended", || !run.is_alive());
    assert_eq!(run.0.wait().unwrap().code(), Some(130));
    assert!(sleeping(n).is_empty());
}

#[test]
fn cancelling_twice_or_now_kills_what_does_not_listen() {
    for second in [&["cancel"][..], &["cancel", "--now"]] {
        let (space, n) = (space(), seconds());
        space.write("stubborn.sh", &format!("trap '' TERM INT; while :; do sleep {n}; done\n"));
        space.write("long.yaml", "flow: 1\nname: long\nsteps:\n  long: {run: sh stubborn.sh, inputs: [stubborn.sh]}\n");
        let mut flow = space.start(["run", "long.yaml"]);
        until("the step runs", || !sleeping(n).is_empty());
        if second.len() == 1 {
            space.flow(["cancel"]).expect(0);
            until("it says that it waits", || flow.output().contains("a second Ctrl-C"));
        }
        let begin = std::time::Instant::now();
        space.flow(second).expect(0);
        assert_eq!(flow.wait().code(), Some(130), "{}", flow.output());
        assert!(begin.elapsed().as_secs() < 9, "killed, not waited for");
        assert!(sleeping(n).is_empty());
        assert!(!space.path(".flow/runs").read_dir().unwrap().flatten().any(|run| run.path().join("cancel").exists()));
    }
}

#[test]
fn a_run_that_still_hashes_is_cancelled() {
    let space = space();
    space.write("a.yaml", "flow: 1\nname: a\nsteps:\n  a: {run: 'true', inputs: [large]}\n");
    // A hole: it takes no room, and minutes to read.
    fs::File::create(space.path("large")).unwrap().set_len(1 << 40).unwrap();
    let mut flow = space.start(["run", "a.yaml"]);
    until("it can be told", || space.flow(["cancel"]).code() == Some(0));
    flow.wait();
    assert_eq!(fs::read_dir(space.path(".flow/runs")).unwrap().count(), 0, "it never began");
    let said = space.flow(["cancel"]).expect(2).text();
    assert!(said.contains("nothing is running in the store"), "{said}");
}

#[test]
fn a_run_that_is_stopped_is_told_and_hears_of_it_later() {
    let (space, n) = (space(), seconds());
    long(&space, n);
    let mut flow = space.start(["run", "long.yaml"]);
    until("the step runs", || !sleeping(n).is_empty());
    flow.signal(Signal::SIGSTOP);
    let said = space.flow(["cancel"]).expect(0).text();
    assert!(said.contains("it will react when it resumes: process PID (`flow run long.yaml`"), "{said}");
    flow.signal(Signal::SIGCONT);
    assert_eq!(flow.wait().code(), Some(130), "{}", flow.output());
}

/// A run that leaves a process which cleaned its environment, and the test's words for it; engine and keeper still live.
fn runs_away(space: &TestSpace, n: u32) -> (RunningFlow, i32) {
    // Out of its session, its folder and its environment, below nobody.
    let script = format!("env -i PATH=\"$PATH\" setsid sh -c 'cd /; (sleep {n} &) ; exit 0'\nexec sleep 600\n");
    space.write("away.sh", &script);
    space.write("away.yaml", "flow: 1\nname: away\nsteps:\n  away: {run: sh away.sh, inputs: [away.sh]}\n");
    let flow = space.start(["run", "away.yaml"]);
    until("it got away", || !sleeping(n).is_empty());
    let keeper = space.alive().into_iter().find(|(_, command)| command.contains("__keeper")).expect("a keeper").0;
    (flow, keeper)
}

fn kill_both(space: &TestSpace, mut flow: RunningFlow, keeper: i32) {
    flow.signal(Signal::SIGSTOP);
    kill(Pid::from_raw(keeper), Signal::SIGKILL).unwrap();
    flow.kill();
    until("the rest is gone", || space.alive().is_empty());
}

fn records(space: &TestSpace) -> usize {
    let runs = fs::read_dir(space.path(".flow/runs")).unwrap().flatten();
    runs.filter(|run| run.path().join("keeper.json").exists()).count()
}

#[test]
fn what_cleaned_its_environment_is_ended_by_whoever_takes_the_store_next() {
    let (other, others) = (space(), seconds());
    let (flow, keeper) = runs_away(&other, others);
    kill_both(&other, flow, keeper);
    for command in [&["run", "next.yaml"][..], &["doctor"], &["gc"]] {
        let (space, n, looks_alike) = (space(), seconds(), seconds());
        space.write("next.yaml", "flow: 1\nname: next\nsteps:\n  next: {run: 'true'}\n");
        // These were there before the keeper was; one has its mark set by hand, the other the variable.
        let mut marked = OwnProcess::start(Command::new("sleep").arg(looks_alike.to_string()));
        let (flow, keeper) = runs_away(&space, n);
        let attempts =
            fs::read_dir(space.path(".flow/runs")).unwrap().flatten().next().unwrap().path().join("attempts/0");
        let mut named =
            OwnProcess::start(Command::new("sleep").arg(looks_alike.to_string()).env("FLOW_ATTEMPT", &attempts));
        let limits = fs::read_to_string(format!("/proc/{}/limits", sleeping(n)[0])).unwrap();
        let mark =
            limits.lines().find_map(|line| line.strip_prefix("Max file locks")?.split_whitespace().next()).unwrap();
        let set =
            Command::new("prlimit").args(["--pid", &marked.0.id().to_string(), &format!("--locks={mark}:")]).status();
        assert!(set.is_ok_and(|set| set.success()), "prlimit sets the mark");
        assert_eq!(records(&space), 1);
        kill_both(&space, flow, keeper);
        assert_eq!(sleeping(n).len(), 1, "it lives on");

        let said = space.flow(command).expect(0).text();
        assert!(
            said.contains("run RUN was killed; flow kills the processes that it left running: "),
            "{command:?}: {said}"
        );
        assert!(said.contains("(`sleep`)"), "{said}");
        until("it is gone", || sleeping(n).is_empty());
        assert!(marked.is_alive() && named.is_alive(), "who only looks like it lives on");
        assert_eq!(records(&space), 0, "nothing is left to look for");
        let again = space.flow(command).expect(0).text();
        assert!(!again.contains("flow kills the processes"), "{again}");
    }
    assert_eq!(sleeping(others).len(), 1, "another store's is none of theirs");
    let said = other.flow(["doctor"]).expect(0).text();
    assert!(said.contains("flow kills the processes"), "{said}");
    until("it is gone", || sleeping(others).is_empty());
}

#[test]
fn a_record_whose_keeper_lives_or_is_elsewhere_ends_nobody() {
    let (space, n) = (space(), seconds());
    let (flow, keeper) = runs_away(&space, n);
    let run = fs::read_dir(space.path(".flow/runs")).unwrap().flatten().next().unwrap().path();
    let record = fs::read_to_string(run.join("keeper.json")).unwrap();
    let sound: Value = serde_json::from_str(&record).unwrap();
    assert_eq!(
        (sound["engine"]["pid"].as_i64(), sound["keeper"]["pid"].as_i64()),
        (Some(flow.pid().into()), Some(keeper.into()))
    );
    // What runs in one store is not ended from another, whatever its records say of a keeper that lives.
    let thief = TestSpace::new(FLOW);
    thief.write(".flow/format", "4\n").write(".flow/runs/20260208-153012-3f2a/keeper.json", &record);
    thief.flow(["doctor"]).expect(0);
    assert_eq!(sleeping(n).len(), 1);
    kill_both(&space, flow, keeper);
    // From another boot or another container, or without a boot.
    for (key, value) in [("boot", "another"), ("namespace", "pid:[1]"), ("boot", "")] {
        let mut elsewhere = sound.clone();
        elsewhere["keeper"][key] = value.into();
        fs::write(run.join("keeper.json"), elsewhere.to_string()).unwrap();
        let said = space.flow(["doctor"]).expect(0).text();
        assert!(!said.contains("flow kills the processes") && sleeping(n).len() == 1, "{said}");
    }
    for damaged in ["", "{", "[]", "{\"engine\":{\"pid\":1}}"] {
        fs::write(run.join("keeper.json"), damaged).unwrap();
        space.flow(["doctor"]).expect(0);
        assert_eq!(sleeping(n).len(), 1);
    }
    fs::write(run.join("keeper.json"), &record).unwrap();
    space.flow(["doctor"]).expect(0);
    until("it is gone", || sleeping(n).is_empty());
}

/// `flow` where another user can execute it.
fn for_all(space: &TestSpace) -> PathBuf {
    let exe = space.path("flow");
    fs::copy(FLOW, &exe).unwrap();
    exe
}

#[test]
fn the_run_of_another_user_is_told_of_and_not_touched() {
    if !Uid::effective().is_root() {
        println!("skipped: there is no second user to be");
        return;
    }
    let (space, n) = (space(), seconds());
    long(&space, n);
    let exe = for_all(&space);
    let store = space.path("shared");
    fs::create_dir(&store).unwrap();
    for folder in [&store, &space.path("")] {
        fs::set_permissions(folder, fs::Permissions::from_mode(0o755)).unwrap();
    }
    let args = |command: &str| [command.to_owned(), "--store".to_owned(), store.to_string_lossy().into_owned()];
    let say = |user: Option<u32>, args: &[String]| {
        let mut command = with(&space, &exe);
        if let Some(user) = user {
            command.uid(user).gid(user);
        }
        let output = command.args(args).output().unwrap();
        let text = [output.stdout, output.stderr].concat();
        (output.status.code(), flow_testkit::normal(&String::from_utf8_lossy(&text), &space.path("")))
    };
    let mut run = OwnProcess::start(with(&space, &exe).args(args("run")).arg("long.yaml"));
    until("the step runs", || !sleeping(n).is_empty());
    until("its status is written", || say(Some(NOBODY), &args("status")).1.contains("running"));
    for (command, word) in
        [("status", "long run RUN (long.yaml), process PID of root, for TIME"), ("runs", "  running")]
    {
        let (code, said) = say(Some(NOBODY), &args(command));
        assert!(code == Some(0) && said.contains(word), "{command}: {code:?} {said}");
    }
    let (code, said) = say(Some(NOBODY), &args("cancel"));
    assert_eq!(code, Some(1), "{said}");
    assert!(said.contains("run RUN belongs to root; only they can end it"), "{said}");
    assert!(run.is_alive() && sleeping(n).len() == 1);

    // Root may end everybody's.
    say(None, &args("cancel"));
    until("it has ended", || !run.is_alive());
    fs::remove_dir_all(&store).unwrap();
    fs::create_dir(&store).unwrap();
    chown(&store, Some(NOBODY), Some(NOBODY)).unwrap();
    let mut run = OwnProcess::start(with(&space, &exe).uid(NOBODY).gid(NOBODY).args(args("run")).arg("long.yaml"));
    until("the step runs", || !sleeping(n).is_empty());
    let (code, said) = say(None, &args("cancel"));
    assert_eq!(code, Some(0), "{said}");
    until("it has ended", || !run.is_alive());
    assert_eq!((run.0.wait().unwrap().code(), sleeping(n)), (Some(130), vec![]));
    assert!(say(Some(NOBODY), &args("runs")).1.contains("  interrupted"));

    // In a store that is shared one's own last run is meant, though somebody else's came after it.
    let quick = "flow: 1\nname: quick\nsteps: {quick: {run: 'true'}}\n";
    space.write("quick.yaml", quick);
    let (code, said) = say(None, &[args("run").as_slice(), &["quick.yaml".to_owned()]].concat());
    assert_eq!(code, Some(0), "{said}");
    assert!(say(None, &args("status")).1.starts_with("done: 1 ran"));
    let (code, said) = say(Some(NOBODY), &args("status"));
    assert!(code == Some(0) && said.starts_with("interrupted: "), "{said}");
}
