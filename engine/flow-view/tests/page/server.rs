//! Starts the program, asks it, and makes a store whose steps write markup.

use std::{
    fs,
    io::{BufRead, BufReader, Read, Seek, Write},
    net::TcpStream,
    ops::ControlFlow,
    os::unix::net::UnixStream,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use flow_core::{JournalLine, RunId};
use flow_runs::{Holder, ProcessIdentity, StoreDir};
use flow_store::{Objects, Store};
use serde_json::{Value, json};

use crate::report;

pub(crate) const RUN: &str = "20261128-010203-abcd";
/// What a hostile step calls itself and prints.
pub(crate) const MARKUP: &str =
    "<img src=x onerror=\"document.title='caught'\"><script>document.title='caught'</script>";

pub(crate) struct Server {
    child: Child,
    pub(crate) port: u16,
    /// The path of the link, with the token.
    pub(crate) path: String,
    pub(crate) output: String,
}

pub(crate) struct Answer {
    pub(crate) status: u16,
    /// In lower case.
    pub(crate) head: String,
    pub(crate) body: String,
}

impl Server {
    pub(crate) fn of_bundle(file: &Path) -> Server {
        Server::start(&[file.as_os_str()])
    }

    pub(crate) fn of_run(store: &Path, run: &str) -> Server {
        Server::start(&[store.join("runs").join(run).as_os_str()])
    }

    /// Two runs side by side.
    pub(crate) fn of_both(first: &Path, second: &Path) -> Server {
        Server::start(&[first.as_os_str(), second.as_os_str()])
    }

    pub(crate) fn start(arguments: &[&std::ffi::OsStr]) -> Server {
        Server::of(program().args(arguments))
    }

    /// A bundle with reports that were made for it.
    pub(crate) fn of_bundle_with(file: &Path, reports: &Value) -> Server {
        let mut input = tempfile::tempfile().unwrap();
        input.write_all(reports.to_string().as_bytes()).unwrap();
        input.rewind().unwrap();
        Server::of(program().arg(file).arg("--reports").stdin(input))
    }

    fn of(command: &mut Command) -> Server {
        let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let said: Vec<String> = lines.by_ref().take(2).map(Result::unwrap).collect();
        let (_, address) = said[0].split_once("http://127.0.0.1:").unwrap();
        let (port, path) = address.split_once('/').unwrap();
        Server { child, port: port.parse().unwrap(), path: format!("/{path}"), output: said.join("\n") }
    }

    pub(crate) fn link(&self) -> String {
        format!("http://127.0.0.1:{}{}", self.port, self.path)
    }

    pub(crate) fn ask(&self, head: &str) -> Answer {
        let stream = TcpStream::connect(("127.0.0.1", self.port)).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
        answered(stream, head)
    }

    /// The same through a socket in a file.
    pub(crate) fn ask_on(&self, socket: &Path, head: &str) -> Answer {
        answered(UnixStream::connect(socket).unwrap(), head)
    }

    /// What a browser with the link sends.
    pub(crate) fn cookie(&self) -> String {
        let answer = self.ask(&format!("GET {} HTTP/1.1\r\nHost: localhost:{}\r\n", self.path, self.port));
        let line = answer.head.lines().find_map(|line| line.strip_prefix("set-cookie: ")).unwrap().to_owned();
        line.split(';').next().unwrap().to_owned()
    }
}

fn answered(mut stream: impl Read + Write, head: &str) -> Answer {
    stream.write_all(format!("{head}Connection: close\r\n\r\n").as_bytes()).unwrap();
    let mut text = String::new();
    stream.read_to_string(&mut text).unwrap();
    let (head, body) = text.split_once("\r\n\r\n").unwrap();
    let status = head.split(' ').nth(1).unwrap().parse().unwrap();
    Answer { status, head: head.to_lowercase(), body: body.to_owned() }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }
}

fn program() -> Command {
    Command::new(env!("CARGO_BIN_EXE_flow-view"))
}

/// What it says when it fails.
pub(crate) fn fails(arguments: &[&str]) -> String {
    let ran = program().args(arguments).output().unwrap();
    assert_eq!(ran.status.code(), Some(1), "{arguments:?}");
    String::from_utf8(ran.stderr).unwrap()
}

pub(crate) fn bundle(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/runs").join(format!("{name}.bundle"))
}

/// Adds text to the journal.
pub(crate) fn append(store: &Path, text: &str) {
    let path = store.join("runs").join(RUN).join("journal.jsonl");
    fs::File::options().append(true).open(path).unwrap().write_all(text.as_bytes()).unwrap();
}

/// An instance is expected to run on the first GPU, from ten minutes after that moment for twenty minutes.
fn forecast(run: &Path, at: u64, instance: u32) {
    let line = json!({"at": at, "starts": [[instance, 600_000, 1_800_000, [0]]]});
    fs::write(run.join("forecast.jsonl"), format!("{line}\n")).unwrap();
}

/// A store with a run that began ten minutes ago and lives as long as this process: one instance runs on a GPU, the
/// other one waits. Minutes, so that a browser that starts slowly changes no digit that a test reads.
pub(crate) fn live() -> (tempfile::TempDir, Store) {
    let space = tempfile::tempdir().unwrap();
    let me = Holder { process: ProcessIdentity::own(), doing: String::new(), run: None, since: String::new() };
    let store = Store::open(space.path(), &me, |_| ControlFlow::Break(())).unwrap();
    let run = RunId(RUN.to_owned());
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_millis() as u64;
    let gpu = json!({"uuid": "GPU-1", "index": 0, "name": "H200", "memory": 1});
    let instance = |n: u32, label: &str| {
        let plan = json!({"state": "run", "why": {"first": [{"kind": "never_ran"}]}});
        json!({"event": "instance", "instance": n, "label": label, "step": "train", "plan": plan, "written": {}})
    };
    let lines = [
        json!({
            "event": "run_started", "format": 3, "run": RUN, "flow": "0.1.0", "file": "a.yaml", "workflow": "live",
            "params": {}, "policy": "critical-path", "instances": 2, "pid": 1,
            "machine": {"gpus": [gpu], "cpus": 2, "cpu_model": "", "memory": 1, "fake_gpus": false},
        }),
        instance(0, "train[n=0]"),
        instance(1, "train[n=1]"),
        json!({
            "event": "started", "instance": 0, "attempt": 0, "folder": "a", "why": {"first": [{"kind": "never_ran"}]},
            "gpus": ["GPU-1"], "cpus": 1,
        }),
    ];
    let lines = lines.map(|mut event| {
        event["at"] = json!(now - 600_000);
        serde_json::from_value::<JournalLine>(event).unwrap()
    });
    store.begin(&run).unwrap().append(&lines).unwrap();
    let dir = store.dir().run(&run);
    let running = json!({
        "instance": 0, "label": "train[n=0]", "attempt": 0, "started_at": now - 600_000, "ends_at": now + 600_000, "cpus": 1,
    });
    let status = json!({
        "run": RUN, "workflow": "live", "file": "a.yaml", "pid": 1, "started_at": now - 600_000, "updated_at": now,
        "instances": 2, "counts": {}, "running": [running],
    });
    dir.write_status(&serde_json::from_value(status).unwrap()).unwrap();
    forecast(dir.path(), now, 1);
    (space, store)
}

/// A store with a run of 100 seconds, whose last attempt failed at once.
pub(crate) fn failed() -> tempfile::TempDir {
    let space = tempfile::tempdir().unwrap();
    let store = StoreDir::create(space.path()).unwrap();
    let plan = json!({"state": "run", "why": {"first": [{"kind": "never_ran"}]}});
    let why = json!({"first": [{"kind": "never_ran"}]});
    let instance = |n: u32, step: &str| {
        (0, json!({"event": "instance", "instance": n, "label": step, "step": step, "plan": plan, "written": {}}))
    };
    let started = |n: u32, at: u64| {
        let event = json!({
            "event": "started", "instance": n, "attempt": n, "folder": "a", "why": why, "gpus": [], "cpus": 1,
        });
        (at, event)
    };
    let ended = |n: u32, at: u64, outcome: &str| {
        (at, json!({"event": "ended", "instance": n, "attempt": n, "outcome": outcome}))
    };
    let start = json!({
        "event": "run_started", "format": 3, "run": RUN, "flow": "0.1.0", "file": "a.yaml", "workflow": "failed",
        "params": {}, "policy": "critical-path", "instances": 2, "pid": 1,
        "machine": {"gpus": [], "cpus": 2, "cpu_model": "", "memory": 1, "fake_gpus": false},
    });
    let lines = [
        (0, start),
        instance(0, "long"),
        instance(1, "short"),
        started(0, 0),
        ended(0, 99_980, "ok"),
        started(1, 99_990),
        ended(1, 100_000, "failed"),
        (100_000, json!({"event": "settled", "instance": 1, "outcome": "failed"})),
        (100_000, json!({"event": "run_ended", "exit": 1, "counts": {}})),
    ];
    let lines = lines.map(|(at, mut event)| {
        event["at"] = json!(1_795_824_227_000 + at);
        serde_json::from_value::<JournalLine>(event).unwrap()
    });
    store.run(&RunId(RUN.to_owned())).create().unwrap().append(&lines).unwrap();
    space
}

/// A run that reuses the result of the killed one.
pub(crate) const LATER: &str = "20261128-020304-beef";

/// The step of the report.
const REPORT: &str = "report";

/// A store with a run that was killed: every state, and markup wherever a step may write.
pub(crate) fn hostile() -> tempfile::TempDir {
    let space = tempfile::tempdir().unwrap();
    let store = StoreDir::create(space.path()).unwrap();
    let dir = store.run(&RunId(RUN.to_owned()));
    let journal = dir.create().unwrap();
    let at = |second: u64, mut event: Value| {
        event["at"] = json!(1_795_824_227_000 + 1000 * second);
        serde_json::from_value::<JournalLine>(event).unwrap()
    };
    let step = format!("train{MARKUP}");
    let label = |n: u32| format!("{step}[n={n}]");
    let gpu = json!({"uuid": "GPU-1", "index": 0, "name": MARKUP, "memory": 1});
    let mut lines = vec![at(
        0,
        json!({
            "event": "run_started", "format": 3, "run": RUN, "flow": "0.1.0", "file": "a.yaml", "workflow": "hostile",
            "params": {}, "policy": "critical-path", "note": MARKUP, "instances": 8, "pid": 1,
            "machine": {"gpus": [gpu], "cpus": 2, "cpu_model": MARKUP, "memory": 1, "fake_gpus": false},
        }),
    )];
    for n in 0..8 {
        let (label, step) = if n == 7 { (REPORT.to_owned(), REPORT) } else { (label(n), &*step) };
        let plan = json!({"state": "run", "why": {"first": [{"kind": "text", "of": MARKUP}]}});
        lines.push(at(
            0,
            json!({
                "event": "instance", "instance": n, "label": label, "step": step, "plan": plan,
                "written": {"uses": if n == 7 { "flow/report" } else { MARKUP }, "needs": [format!("train{MARKUP}")]},
            }),
        ));
    }
    for n in 0..5 {
        let folder = if n == 1 { "../../..".to_owned() } else { format!("runs/{RUN}/attempts/{n}") };
        let why = json!({"first": [{"kind": "never_ran"}]});
        lines.push(at(1, json!({
            "event": "started", "instance": n, "attempt": n, "folder": folder, "why": why, "gpus": ["GPU-1"], "cpus": 1,
        })));
    }
    for epoch in 1..4_u32 {
        let metrics = json!({MARKUP: 0.5, "acc": 0.25 * f64::from(epoch % 3)});
        lines.push(at(
            1 + u64::from(epoch),
            json!({"event": "epoch", "attempt": 0, "epoch": epoch, "metrics": metrics}),
        ));
    }
    let series = json!({
        "metrics": {"acc": [[0, 1.0, null, 0.25], [0, 2.0, null, 0.5], [0, 3.0, null, 0.0]]},
        "epoch_times": [], "samples": {},
    });
    let series = Objects::of(&store).store_bytes(series.to_string().as_bytes()).unwrap().digest;
    let result = json!({
        "fingerprint": "0".repeat(64), "workflow": "hostile", "step": step, "label": label(0), "axes": {"n": 0, MARKUP: MARKUP},
        "outcome": "ok", "run": RUN, "series": series, "started_at": 1_795_824_228_000_u64, "ended_at": 1_795_824_232_000_u64,
        "metrics": {MARKUP: {"value": 0.5, "unit": MARKUP}, "acc": {"value": 0.0, "unit": MARKUP}}, "params": {MARKUP: MARKUP},
        "circumstances": {"mode": "plain", "fake_gpus": false, "facts": {MARKUP: MARKUP}, "corunners": [MARKUP]},
    });
    let outcomes = [(0, "ok"), (1, "failed"), (2, "out_of_memory"), (3, "timed_out")];
    for (n, outcome) in outcomes {
        lines.push(at(5, json!({"event": "ended", "instance": n, "attempt": n, "outcome": outcome})));
    }
    let mut memory = result.clone();
    (memory["outcome"], memory["axes"], memory["label"]) =
        ("out_of_memory".into(), json!({"n": 2, MARKUP: "b"}), label(2).into());
    let mut report = result.clone();
    let made = Objects::of(&store).store_files(&report::report()).unwrap();
    (memory["fingerprint"], report["fingerprint"]) = ("1".repeat(64).into(), "2".repeat(64).into());
    (report["step"], report["label"], report["outputs"]) = (REPORT.into(), REPORT.into(), json!({"out": made}));
    for (n, result) in [(0, &result), (2, &memory), (7, &report)] {
        lines.push(at(5, json!({"event": "recorded", "instance": n, "result": result, "parts": null})));
    }
    lines.push(at(5, json!({"event": "settled", "instance": 1, "outcome": "failed"})));
    lines.push(at(5, json!({"event": "settled", "instance": 5, "outcome": "skipped"})));
    lines.push(at(6, json!({"event": "notice", "instance": 0, "text": MARKUP})));
    journal.append(&lines).unwrap();
    // It waited for one thing, then for another.
    let turn = |of: &str| json!([[{"kind": "turn", "label": of}, [label(6)]]]);
    let waits = [(1, turn(MARKUP)), (4, turn("another"))]
        .map(|(second, waits)| json!({"at": 1_795_824_227_000_u64 + 1000 * second, "waits": waits}).to_string() + "\n");
    fs::write(dir.path().join("waits.jsonl"), waits.concat()).unwrap();
    forecast(dir.path(), 1_795_824_228_000, 6);
    let start = json!({
        "event": "run_started", "format": 3, "run": LATER, "flow": "0.1.0", "file": "a.yaml", "workflow": "later",
        "params": {}, "policy": "critical-path", "instances": 1, "pid": 1,
        "machine": {"gpus": [], "cpus": 2, "cpu_model": "", "memory": 1, "fake_gpus": false},
    });
    let later = store.run(&RunId(LATER.to_owned())).create().unwrap();
    let cached = json!({
        "event": "cached", "instance": 0, "fingerprint": "0".repeat(64), "outcome": "ok", "from": RUN,
    });
    let plan = json!({"state": "cached"});
    let instance = json!({"event": "instance", "instance": 0, "label": "a", "step": "a", "plan": plan});
    let end = json!({"event": "run_ended", "exit": 0, "counts": {}});
    later.append(&[start, instance, cached, end].map(|event| at(9, event))).unwrap();
    let attempt = dir.path().join("attempts/0");
    fs::create_dir_all(&attempt).unwrap();
    let long = "a line\n".repeat(20_000);
    fs::write(attempt.join("log"), format!("{long}\x1b[31m{MARKUP}\x1b[0m\n10%\r20%\nthe end")).unwrap();
    space
}
