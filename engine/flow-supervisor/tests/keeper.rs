//! Real processes that try to get away: nothing of a step survives its own end, a kill, or the engine's death.

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
    process::{Command, Stdio},
    thread,
    time::{Duration, Instant},
};

use flow_core::AttemptId;
use flow_protocol::Exit;
use flow_supervisor::{
    attempt::Folder,
    keeper::{Event, Keeper, Request, Start, command_argv},
};

/// Both keeper and engine.
fn binary() -> PathBuf {
    env!("CARGO_BIN_EXE_flow-supervisor-test-engine").into()
}

/// Four ways out, each a sleep that can be told from everything else on the machine by its length.
fn escapes(seconds: u32) -> String {
    format!(
        "setsid sleep {seconds} &\n\
         (setsid nohup sleep {seconds} >/dev/null 2>&1 &)\n\
         env -i PATH=\"$PATH\" setsid sh -c 'cd /; (sleep {seconds} &) ; exit 0' &\n\
         python3 -c 'import os, time\nif os.fork() == 0:\n os.setsid()\n if os.fork() == 0:\n  os.chdir(\"/\"); os.closerange(0, 64); os.execvp(\"sleep\", [\"sleep\", \"{seconds}\"])\n os._exit(0)\nos.wait()'\n"
    )
}

/// Processes whose arguments are exactly `sleep SECONDS`.
fn alive(seconds: u32) -> usize {
    let wanted = format!("sleep\0{seconds}\0");
    procfs::process::all_processes()
        .unwrap()
        .filter_map(|p| fs::read(format!("/proc/{}/cmdline", p.ok()?.pid)).ok())
        .filter(|cmdline| cmdline == wanted.as_bytes())
        .count()
}

fn wait_for(what: &str, mut done: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !done() {
        assert!(begun.elapsed() < Duration::from_secs(20), "waited in vain: {what}");
        thread::sleep(Duration::from_millis(5));
    }
}

/// A number no other test or run uses.
fn seconds() -> u32 {
    use std::sync::atomic::{AtomicU32, Ordering};
    static NEXT: AtomicU32 = AtomicU32::new(0);
    100_000 + std::process::id() % 100_000 * 16 + NEXT.fetch_add(1, Ordering::Relaxed)
}

fn start(dir: &Path, attempt: u32, argv: Vec<String>) -> Request {
    let folder = Folder::create(dir.join(attempt.to_string())).unwrap();
    Request::Start(Start {
        attempt: AttemptId(attempt),
        argv,
        env: vec![("PATH".into(), std::env::var("PATH").unwrap())],
        cwd: folder.work(),
        folder: folder.path().to_owned(),
        secrets: Vec::new(),
    })
}

const SECRET: &str = "hunter2-hunter2";

/// The same with a secret.
fn start_secret(dir: &Path, attempt: u32, argv: Vec<String>) -> Request {
    let Request::Start(start) = start(dir, attempt, argv) else { unreachable!("it is one") };
    Request::Start(Start { secrets: vec![SECRET.into()], ..start })
}

fn sh(script: &str) -> Vec<String> {
    vec!["sh".into(), "-c".into(), script.into()]
}

fn block_on<T>(future: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async { tokio::time::timeout(Duration::from_secs(60), future).await.expect("in time") })
}

async fn exited(keeper: &mut Keeper, attempt: u32) -> Exit {
    loop {
        match keeper.next_event().await.unwrap() {
            Event::Exited { attempt: AttemptId(a), exit } if a == attempt => return exit,
            Event::SpawnFailed { reason, .. } => panic!("{reason}"),
            _ => {}
        }
    }
}

#[test]
fn a_program_runs_as_told() {
    let dir = tempfile::tempdir().unwrap();
    block_on(async {
        let mut keeper = Keeper::spawn(&binary(), &dir.path().join("keeper.json")).unwrap();
        keeper.send(&start(
            dir.path(),
            1,
            sh("pwd; env | grep -v ^PWD= | sort | cut -d= -f1; cat; ulimit -c; ps -o sid= -p $$ | tr -d ' ' > sid; echo $$ > pid; echo err >&2; exit 3"),
        ));
        keeper.send(&start(dir.path(), 2, command_argv("sh -c 'kill -SEGV $$'")));
        let large = r#"x=$(head -c 40000000 /dev/zero | tr "\0" a); true"#;
        keeper.send(&start(dir.path(), 3, sh(large)));
        let Event::Started { pid, .. } = keeper.next_event().await.unwrap() else { panic!() };
        assert!(pid > 1);
        let mut exits = BTreeMap::new();
        while exits.len() < 3 {
            if let Event::Exited { attempt, exit } = keeper.next_event().await.unwrap() {
                exits.insert(attempt.0, exit);
            }
        }
        let exit = &exits[&1];
        assert_eq!((exit.code, exit.signal, exit.swept, exit.oom_killed), (Some(3), None, 0, false));
        assert!(exit.ended_at >= exit.started_at);
        assert_eq!(exits[&2].signal, Some(11));
        assert!(exits[&3].max_rss > Some(40_000_000));
    });
    let folder = Folder::at(dir.path().join("1"));
    let log = folder.log_tail(20).unwrap();
    assert_eq!(log, [folder.work().to_str().unwrap(), "PATH", "0", "err"].map(str::to_owned), "{log:?}");
    let read = |name| fs::read_to_string(folder.work().join(name)).unwrap();
    assert_eq!(read("sid"), read("pid"), "a session of its own");
}

#[test]
fn what_a_step_leaves_behind_goes_with_it_and_nothing_else() {
    let dir = tempfile::tempdir().unwrap();
    let (mine, other) = (seconds(), seconds());
    block_on(async {
        let mut keeper = Keeper::spawn(&binary(), &dir.path().join("keeper.json")).unwrap();
        // A neighbour with a daemon of its own goes on.
        keeper.send(&start(dir.path(), 2, sh(&format!("{}sleep {other}", escapes(other)))));
        while alive(other) < 5 {
            let _ = tokio::time::timeout(Duration::from_millis(10), keeper.next_event()).await;
        }
        keeper.send(&start(dir.path(), 1, sh(&format!("{}sleep 0.3\nexit 0", escapes(mine)))));
        let exit = exited(&mut keeper, 1).await;
        assert_eq!(alive(mine), 0);
        assert_eq!((exit.code, exit.swept), (Some(0), 4));
        assert_eq!(alive(other), 5);
        keeper.send(&Request::Kill { attempt: AttemptId(2), grace: Duration::from_secs(5) });
        let exit = exited(&mut keeper, 2).await;
        assert_eq!(exit.signal, Some(15));
        assert_eq!(alive(other), 0);
    });
}

#[test]
fn who_does_not_listen_is_killed_after_the_grace() {
    let dir = tempfile::tempdir().unwrap();
    let n = seconds();
    block_on(async {
        let mut keeper = Keeper::spawn(&binary(), &dir.path().join("keeper.json")).unwrap();
        keeper.send(&start(
            dir.path(),
            1,
            sh(&format!("trap '' TERM; setsid sleep {n} & while :; do sleep {n}; done")),
        ));
        while alive(n) < 2 {
            let _ = tokio::time::timeout(Duration::from_millis(10), keeper.next_event()).await;
        }
        let begun = Instant::now();
        keeper.send(&Request::Kill { attempt: AttemptId(1), grace: Duration::from_millis(300) });
        let exit = exited(&mut keeper, 1).await;
        assert_eq!(exit.signal, Some(9));
        assert!(begun.elapsed() >= Duration::from_millis(300), "{:?}", begun.elapsed());
        assert!(!exit.oom_killed);
        assert_eq!(alive(n), 0);
    });
}

#[test]
fn what_cannot_be_started_says_why() {
    let dir = tempfile::tempdir().unwrap();
    let mut keeper_said = Vec::new();
    block_on(async {
        let mut keeper = Keeper::spawn(&binary(), &dir.path().join("keeper.json")).unwrap();
        let programs = ["pyton", "./train.sh", "./plain", "./no_interpreter", "./empty"];
        for (n, program) in programs.into_iter().enumerate() {
            let request = start(dir.path(), n as u32, vec![program.into()]);
            let work = dir.path().join(n.to_string()).join("work");
            fs::write(work.join("plain"), "text").unwrap();
            for (name, text) in [("no_interpreter", "#!/no/such\n"), ("empty", "")] {
                use std::os::unix::fs::PermissionsExt;
                fs::write(work.join(name), text).unwrap();
                fs::set_permissions(work.join(name), fs::Permissions::from_mode(0o755)).unwrap();
            }
            keeper.send(&request);
            let Event::SpawnFailed { reason, .. } = keeper.next_event().await.unwrap() else { panic!("{program}") };
            keeper_said.push(reason.to_string());
        }
    });
    insta::assert_snapshot!(keeper_said.join("\n"), @r"
    `pyton` is not a program on the PATH; install it, or give its path
    `./train.sh` is not in the step's work folder, which has only the files listed in `inputs:`
    `./plain` is not executable; `chmod +x` it, or name its interpreter
    `./no_interpreter` is there, but the interpreter in its first line is not
    `./empty` is neither a program nor a script with `#!` in its first line
    ");
}

#[test]
fn nothing_survives_an_engine_that_is_killed() {
    let dir = tempfile::tempdir().unwrap();
    let n = seconds();
    for round in 0..5 {
        let mut engine = Command::new(binary())
            .arg("engine")
            .arg(dir.path().join(round.to_string()))
            .args([format!("{}sleep {n}", escapes(n)), format!("sleep {n}"), format!("{}exit 0", escapes(n))])
            .stderr(Stdio::inherit())
            .spawn()
            .unwrap();
        wait_for("escapes", || alive(n) >= 6);
        engine.kill().unwrap();
        let killed = Instant::now();
        wait_for("nobody", || alive(n) == 0);
        eprintln!("round {round}: nobody left {:?} after the engine's death", killed.elapsed());
        engine.wait().unwrap();
        let record = dir.path().join(round.to_string()).join("keeper.json");
        wait_for("the keeper", || !record.exists());
    }
}

#[test]
fn nothing_survives_a_keeper_that_is_killed() {
    let dir = tempfile::tempdir().unwrap();
    let n = seconds();
    block_on(async {
        let mut keeper = Keeper::spawn(&binary(), &dir.path().join("keeper.json")).unwrap();
        keeper.send(&start(dir.path(), 1, sh(&format!("{}sleep {n}", escapes(n)))));
        while alive(n) < 5 {
            let _ = tokio::time::timeout(Duration::from_millis(10), keeper.next_event()).await;
        }
        nix::sys::signal::kill(nix::unistd::Pid::from_raw(keeper.pid() as i32), nix::sys::signal::Signal::SIGKILL)
            .unwrap();
        let gone = keeper.next_event().await.unwrap_err();
        assert!(gone.to_string().contains("SIGKILL"), "{gone}");
        assert_eq!(alive(n), 0);
    });
}

#[test]
fn many_small_steps_cost_little() {
    // In memory where that is to be had: ext4 takes its time for new files where many were deleted within a minute.
    let dir = tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).unwrap();
    const STEPS: u32 = 1000;
    block_on(async {
        let mut keeper = Keeper::spawn(&binary(), &dir.path().join("keeper.json")).unwrap();
        let begun = Instant::now();
        let (mut started, mut ended) = (0, 0);
        let requests: Vec<Request> = (0..STEPS).map(|n| start(dir.path(), n, command_argv("true"))).collect();
        while ended < STEPS {
            while started < STEPS && started - ended < 2 {
                keeper.send(&requests[started as usize]);
                started += 1;
            }
            if let Event::Exited { exit, .. } = keeper.next_event().await.unwrap() {
                assert_eq!(exit.code, Some(0));
                ended += 1;
            }
        }
        let stat = procfs::process::Process::new(keeper.pid() as i32).unwrap().stat().unwrap();
        let own = (stat.utime + stat.stime) as f64 * 10.0 / f64::from(STEPS);
        let steps = (stat.cutime + stat.cstime) as f64 * 10.0 / f64::from(STEPS);
        eprintln!(
            "{STEPS} steps: {:.0} µs each; CPU of the keeper {own:.3} ms a step, of the steps {steps:.3} ms",
            begun.elapsed().as_secs_f64() * 1e6 / f64::from(STEPS),
        );
        // A ratio, for the machine may be busy: starting, reaping and recording is less work than the smallest program.
        assert!(own < 2.0 * steps, "{own} ms of the keeper for a step of {steps} ms");
    });
}

#[test]
fn a_program_that_floods_with_secrets_waits_and_nobody_else() {
    let dir = tempfile::tempdir().unwrap();
    block_on(async {
        let mut keeper = Keeper::spawn(&binary(), &dir.path().join("keeper.json")).unwrap();
        let flood = format!("yes 'a line with {SECRET} in it' & yes messages >> ../messages.jsonl & wait");
        keeper.send(&start_secret(dir.path(), 1, sh(&flood)));
        let log = dir.path().join("1/log");
        let heard = dir.path().join("1/heard.jsonl");
        let grown = |path: &Path| fs::metadata(path).is_ok_and(|meta| meta.len() > 1 << 20);
        while !grown(&log) || !grown(&heard) {
            let _ = tokio::time::timeout(Duration::from_millis(10), keeper.next_event()).await;
        }
        for n in 2..12 {
            keeper.send(&start(dir.path(), n, command_argv("true")));
            assert_eq!(exited(&mut keeper, n).await.code, Some(0));
        }
        keeper.send(&Request::Kill { attempt: AttemptId(1), grace: Duration::ZERO });
        exited(&mut keeper, 1).await;
    });
    let text = fs::read_to_string(dir.path().join("1/log")).unwrap();
    assert!(!text.contains("hunter2") && text.starts_with("a line with *** in it\na line"), "{}", &text[..100]);
    let messages = fs::read_to_string(dir.path().join("1/messages.jsonl")).unwrap();
    assert!(messages.starts_with("messages\nmessages\n"), "the file has the pipe's place when all is over");
}

#[test]
fn who_keeps_a_pipe_open_does_not_keep_its_attempt_from_ending() {
    let dir = tempfile::tempdir().unwrap();
    let n = seconds();
    block_on(async {
        let mut keeper = Keeper::spawn(&binary(), &dir.path().join("keeper.json")).unwrap();
        let script = format!("exec 5>>../messages.jsonl; {}printf 'the end: {SECRET}'; exit 3", escapes(n));
        keeper.send(&start_secret(dir.path(), 1, sh(&script)));
        assert_eq!(exited(&mut keeper, 1).await.code, Some(3));
        assert_eq!(alive(n), 0);
        // One that closes all it has goes on.
        keeper.send(&start_secret(dir.path(), 2, sh("exec >&- 2>&-; sleep 0.3; echo told > told")));
        assert_eq!(exited(&mut keeper, 2).await.code, Some(0));
        keeper.send(&start_secret(dir.path(), 3, command_argv("pyton")));
        let Event::SpawnFailed { .. } = keeper.next_event().await.unwrap() else { panic!("it is no program") };
    });
    assert_eq!(fs::read_to_string(dir.path().join("1/log")).unwrap(), "the end: ***");
    for attempt in ["1", "2", "3"] {
        let files = fs::read_dir(dir.path().join(attempt)).unwrap().flatten();
        let mut names: Vec<_> = files.map(|file| file.file_name().into_string().unwrap()).collect();
        names.sort();
        assert_eq!(names, ["log", "work"]);
    }
    assert_eq!(fs::read_to_string(dir.path().join("2/work/told")).unwrap(), "told\n");
}

#[test]
fn what_finds_no_room_waits_for_it_and_ends_with_its_attempt() {
    let dir = tempfile::tempdir().unwrap();
    block_on(async {
        let mut keeper = Keeper::spawn(&binary(), &dir.path().join("keeper.json")).unwrap();
        for (n, script) in [(1, "echo little; exit 3"), (2, "yes; exit 4")] {
            let request = start_secret(dir.path(), n, sh(script));
            std::os::unix::fs::symlink("/dev/full", dir.path().join(n.to_string()).join("log")).unwrap();
            keeper.send(&request);
        }
        assert_eq!(exited(&mut keeper, 1).await.code, Some(3));
        keeper.send(&start(dir.path(), 3, command_argv("sleep 0.3")));
        assert_eq!(exited(&mut keeper, 3).await.code, Some(0));
        keeper.send(&Request::Kill { attempt: AttemptId(2), grace: Duration::from_secs(5) });
        assert_eq!(exited(&mut keeper, 2).await.signal, Some(15), "it was waiting");
        let stat = procfs::process::Process::new(keeper.pid() as i32).unwrap().stat().unwrap();
        assert!(stat.utime + stat.stime < 100, "so was the keeper");
    });
}

#[test]
fn the_keeper_has_nothing_of_the_engines_environment() {
    let dir = tempfile::tempdir().unwrap();
    block_on(async {
        let keeper = Keeper::spawn(&binary(), &dir.path().join("keeper.json")).unwrap();
        let path = format!("/proc/{}/environ", keeper.pid());
        wait_for("the keeper", || fs::read(&path).is_ok_and(|environ| !environ.starts_with(b"PATH=")));
        let environ = String::from_utf8(fs::read(&path).unwrap()).unwrap();
        assert!(environ.split_terminator('\0').all(|variable| variable.starts_with("LD_")), "{environ}");
    });
}
