//! Other processes that use a store at the same time: whoever is killed or stopped, what they kept is there and nobody waits.

use std::{
    env, fs,
    io::{BufRead, BufReader},
    ops::ControlFlow,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    sync::mpsc,
    thread,
    time::Duration,
};

use flow_core::{Digest, StepResult};
use nix::{
    sys::signal::{Signal, kill},
    unistd::Pid,
};
use serde_json::json;

use crate::common::{content, keep, made, me, open, open_for_run, rebuilt, recorded, result, run, run_in, scratch};

/// Not a test: a run that records short steps and says what it kept, or that does nothing, until it is killed.
#[test]
#[ignore = "run by the other tests"]
fn actor() {
    let Some(path) = env::var_os("STORE").map(PathBuf::from) else { return };
    let var = |name: &str| env::var(name).unwrap();
    let name = var("NAME");
    let store =
        open_for_run(&path, &me(&format!("flow run {name}.yaml")), |_| run(&name), |_| ControlFlow::Continue(()));
    let (store, id) = store.unwrap();
    println!("\nnamed");
    let journal = store.begin(&id).unwrap();
    let salt: u64 = name.parse().unwrap();
    for n in 0.. {
        if var("DOES") == "idle" {
            thread::sleep(Duration::from_secs(60));
        }
        let kept = StepResult { run: id.clone(), ..result(&format!("solo[n={}]", n % 3), salt * 1_000_000 + n) };
        // Some do not fit into a page. Without a pause, three such runs write gigabytes, which the next one reads.
        let padding = if n % 16 == 0 { usize::try_from(n % 5).unwrap() * 14_000 } else { 0 };
        thread::sleep(Duration::from_millis(5));
        let parts = json!({"n": n, "padding": "p".repeat(padding)});
        keep(&store, &journal, vec![recorded(&kept, parts)]).unwrap();
        assert_eq!(store.result(&kept.fingerprint).unwrap(), Some(kept.clone()));
        println!("kept {}", kept.fingerprint);
    }
}

/// Another process; killed when dropped.
struct Actor {
    child: Child,
    lines: mpsc::Receiver<String>,
}

impl Actor {
    fn start(path: &Path, name: &str, does: &str) -> Actor {
        let mut child = Command::new(env::current_exe().unwrap())
            .args(["--exact", "processes::actor", "--ignored", "--nocapture"])
            .envs([("NAME", name), ("DOES", does)])
            .env("STORE", path)
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let (from, (tell, lines)) = (BufReader::new(child.stdout.take().unwrap()), mpsc::channel());
        thread::spawn(move || from.lines().map_while(Result::ok).try_for_each(|line| tell.send(line).ok()));
        Actor { child, lines }
    }

    /// The rest of the next line that begins so. A process that says none in time hangs.
    fn line(&self, begin: &str) -> String {
        loop {
            let line = self.lines.recv_timeout(Duration::from_secs(60)).expect("it hangs, or has ended");
            if let Some(rest) = line.strip_prefix(begin) {
                return rest.trim().to_owned();
            }
        }
    }

    fn signal(&self, signal: Signal) {
        kill(Pid::from_raw(self.child.id().cast_signed()), signal).unwrap();
        // Its threads do not stop at once.
        while signal == Signal::SIGSTOP && !stat_of(self.child.id()).contains(") T ") {
            thread::sleep(Duration::from_millis(5));
        }
        thread::sleep(Duration::from_millis(20));
    }

    /// What it kept until it was killed, and was not asked for yet.
    fn kill(mut self) -> Vec<Digest> {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
        let lines = self.lines.iter().filter_map(|line| line.strip_prefix("kept ")?.trim().parse().ok());
        lines.collect()
    }
}

impl Drop for Actor {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn stat_of(pid: u32) -> String {
    fs::read_to_string(format!("/proc/{pid}/stat")).unwrap()
}

/// How often one of three is killed: few in the suite, as many as the variable says in `engine/torture.py`.
fn kills() -> usize {
    env::var("FLOW_TEST_STORE_KILLS").ok().and_then(|kills| kills.parse().ok()).unwrap_or(12)
}

#[test]
fn three_that_record_and_are_killed_lose_nothing_and_never_hang() {
    let dir = scratch();
    let path = dir.path().join(".flow");
    let mut random = 0x9e37_79b9_7f4a_7c15_u64;
    let mut next = |below: u64| {
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        random % below
    };
    let mut kept: Vec<Digest> = vec![];
    let mut names = 0;
    let mut start = || {
        names += 1;
        Actor::start(&path, &format!("{names:04}"), "records")
    };
    let mut actors: Vec<Actor> = (0..3).map(|_| start()).collect();
    for _ in 0..kills() {
        // All get on, whoever has the database.
        kept.extend(actors.iter().map(|actor| actor.line("kept ").parse::<Digest>().unwrap()));
        thread::sleep(Duration::from_micros(next(40_000)));
        kept.extend(actors.remove(usize::try_from(next(3)).unwrap()).kill());
        actors.push(start());
    }
    kept.extend(actors.into_iter().flat_map(Actor::kill));
    let labels = ["solo[n=0]", "solo[n=1]", "solo[n=2]"];
    let store = open(&path).unwrap();
    assert_eq!(store.rebuilt(), None);
    for fingerprint in &kept {
        assert!(store.result(fingerprint).unwrap().is_some(), "{fingerprint} was kept");
    }
    let (results, histories, _) = content(&store, &labels);
    drop(store);
    let (again, histories_again, _) = rebuilt(&path, &labels);
    assert!(results == again, "{} results, {} in the journals", results.len(), again.len());
    assert_eq!(histories, histories_again, "the journals say the same");
    println!("{} results kept of {names} runs", kept.len());
}

#[test]
fn nobody_waits_for_a_holder_that_is_stopped() {
    let dir = scratch();
    let holder = Actor::start(dir.path(), "1", "records");
    holder.line("kept ");
    let second = run_in(dir.path(), "2").unwrap();
    holder.signal(Signal::SIGSTOP);
    let third = run_in(dir.path(), "3").unwrap();
    let kept = made("2", 1);
    keep(&second, &second.begin(&run("2")).unwrap(), vec![recorded(&kept, json!({}))]).unwrap();
    assert_eq!(third.result(&kept.fingerprint).unwrap(), Some(kept.clone()));
    let theirs = holder.kill();
    drop((second, third));
    let store = open(dir.path()).unwrap();
    assert_eq!(store.dir().holder().unwrap().unwrap().doing, "flow run a.yaml");
    assert_eq!(store.result(&kept.fingerprint).unwrap(), Some(kept));
    assert!(theirs.iter().all(|fingerprint| store.result(fingerprint).unwrap().is_some()));
}
