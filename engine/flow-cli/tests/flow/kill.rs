//! `flow` killed with SIGKILL at any moment, ten times: nothing is lost, nothing is falsely cached, nobody is left alive.

use std::{
    collections::BTreeSet,
    fs,
    io::{Read, Write},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    thread,
    time::Duration,
};

use nix::sys::signal::Signal;

use flow_testkit::{RunningFlow, TestSpace, files_below, until};

use crate::{at_once, space};

const ROUNDS: u64 = 10;
const COPIES: usize = 20;

/// A step writes its output in two halves, so that an early death leaves something that must not be taken for a result.
const WORKFLOW: &str = r#"
flow: 1
name: copies
steps:
  copy:
    matrix: {n: "${{ range(20) }}"}
    run: sh copy.sh ${{ n }} out/copy.txt
    inputs: [copy.sh]
    outputs: [out/copy.txt]
  all:
    run: cat ${{ steps.copy | map(attribute='out') | join(' ') }} > out/all.txt
    outputs: [out/all.txt]
"#;

#[test]
fn a_killed_engine_loses_nothing_and_leaves_nobody() {
    let mut space = space();
    space.env("FLOW_TEST_SPACE", "kill");
    space.write("copies.yaml", WORKFLOW);
    space.write("copy.sh", "printf 'copy ' > $2; (sleep 0.02 & sleep 0.02; wait); echo $1 >> $2\n");
    let mut rounds = 0;
    let mut recorded_before = 0;
    for round in 0..ROUNDS {
        let mut flow = space.start(["run", "copies.yaml", "-j", "4"]);
        // Each round gets a little further, and dies at another moment of it.
        thread::sleep(Duration::from_millis(40 + 17 * (round % 11)));
        let alive = flow.is_alive();
        flow.kill();
        until("everybody is gone", || space.alive().is_empty());
        rounds += u64::from(alive);
        let recorded = recorded(&space);
        assert!(recorded >= recorded_before, "round {round}: {recorded} results told of, {recorded_before} before");
        recorded_before = recorded;
        if !alive {
            // All is done: begin anew.
            fs::remove_dir_all(space.path(".flow")).unwrap();
            recorded_before = 0;
        }
    }
    assert!(rounds >= ROUNDS / 2, "only {rounds} of {ROUNDS} rounds were interrupted");

    let told = recorded(&space);
    // The last round may have recorded everything before it was killed; then this run leaves no journal.
    let is_done = space.flow(["run", "copies.yaml"]).expect(0).text().contains("nothing to do");
    let ran = if is_done { Vec::new() } else { space.ran() };
    assert!(ran.len() <= COPIES + 1 - told, "{told} results were told of, yet {} ran again", ran.len());
    let outputs = flow_testkit::files_below(&space.path(".flow/objects"));
    let expected: String = (0..COPIES).map(|n| format!("copy {n}\n")).collect();
    let all = outputs.iter().map(|path| fs::read_to_string(path).unwrap_or_default());
    assert_eq!(all.filter(|text| *text == expected).count(), 1, "the whole of every copy, once");
    assert!(!outputs.iter().any(|path| fs::read(path).unwrap() == b"copy "), "half an output is no result");
    space.flow(["doctor", "--contents"]).expect(0);
    space.flow(["run", "copies.yaml"]).expect(0);
    assert!(space.alive().is_empty(), "{:?}", space.alive());
}

/// Distinct results that the journals tell of.
fn recorded(space: &flow_testkit::TestSpace) -> usize {
    let mut fingerprints = std::collections::BTreeSet::new();
    for run in fs::read_dir(space.path(".flow/runs")).into_iter().flatten().flatten() {
        let text = fs::read_to_string(run.path().join("journal.jsonl")).unwrap_or_default();
        for line in text.lines().filter_map(|line| serde_json::from_str::<serde_json::Value>(line).ok()) {
            if line["event"] == "recorded" {
                fingerprints.insert(line["result"]["fingerprint"].to_string());
            }
        }
    }
    fingerprints.len()
}

#[test]
fn whatever_a_step_forks_dies_with_the_engine() {
    let space = space();
    space.write("fork.yaml", "flow: 1\nname: fork\nsteps:\n  fork:\n    run: sh fork.sh\n    inputs: [fork.sh]\n");
    // Its own session, a double fork, a process that ignores everything that can be ignored.
    let script =
        "setsid sleep 71 & (sleep 72 &) & (trap '' TERM HUP INT; sleep 73; sleep 74) & touch started; wait; sleep 75\n";
    space.write("fork.sh", script);
    let mut flow = space.start(["run", "fork.yaml"]);
    until("the step has forked", || {
        space.alive().iter().filter(|(_, command)| command.starts_with("sleep 7")).count() >= 3
    });
    flow.kill();
    until("everybody is gone", || space.alive().is_empty());
}

/// True when the ends of so many attempts are written down.
fn are_noted(space: &TestSpace, attempts: usize) -> bool {
    files_below(&space.path(".flow/runs")).iter().filter(|path| path.ends_with("ended.json")).count() == attempts
}

/// True when the next run could collect so many units, and knows how they ended.
fn are_kept(space: &TestSpace, units: usize) -> bool {
    let files = files_below(&space.path(".flow/runs"));
    let is_intent = |path: &&PathBuf| {
        path.to_string_lossy().contains("/jobs/") && path.extension().is_some_and(|end| end == "json")
    };
    files.iter().filter(is_intent).count() == units
}

/// A run of a step that takes a second and waits at `GO`. It is killed when the step has ended and flow cannot store its output `out` yet.
fn killed_while_stored(step: &str) -> TestSpace {
    let mut space = space();
    space.env("TOKEN", "hunter2-hunter2");
    let log = space.path("log");
    space.write("log", "");
    let step =
        step.replace("GO", "sleep 1; until [ -e LOG.go ]; do sleep 0.01; done").replace("LOG", &log.to_string_lossy());
    space.write("w.yaml", &format!("flow: 1\nsteps:\n  a: {step}\n"));
    let mut flow = space.start(["run", "w.yaml"]);
    until("the step runs", || !space.read("log").is_empty());
    let held = FileLease::of(&in_cache(&space, "work/out"));
    space.write("log.go", "");
    until("its end is written down", || are_kept(&space, 1));
    flow.kill();
    drop(held);
    assert!(!flow.output().contains("done"), "{}", flow.output());
    until("everybody is gone", || space.alive().is_empty());
    space
}

fn in_cache(space: &TestSpace, name: &str) -> Vec<PathBuf> {
    files_below(space.cache()).into_iter().filter(|path| path.ends_with(name)).collect()
}

#[test]
fn what_was_being_stored_when_flow_was_killed_is_not_done_again() {
    let space = killed_while_stored("{run: 'echo made > out; echo ran >> LOG; GO', outputs: [out]}");
    let planned = space.flow(["plan", "w.yaml"]).expect(0).stdout();
    assert!(planned.contains("1 ended since"), "{planned}");
    let shown = space.flow(["show", "a"]).expect(0).stdout();
    assert!(shown.contains("it has ended since, and the next run collects its result"), "{shown}");
    let said = space.flow(["run", "w.yaml"]).expect(0).text();
    assert_eq!(space.read("log"), "ran\n", "{said}");
    assert!(said.contains("was killed: flow collects its result") && !said.contains("running since"), "{said}");
    let said = space.flow(["run", "w.yaml"]).expect(0).text();
    assert!(said.contains("nothing to do"), "{said}");
    assert!(are_noted(&space, 0) && are_kept(&space, 0), "nothing is left of it");
    space.flow(["doctor", "--contents"]).expect(0);
    space.flow(["forget", "a"]).expect(0);
    space.flow(["run", "w.yaml"]).expect(0);
    assert_eq!(space.read("log"), "ran\nran\n", "what is forgotten is done again");
}

#[test]
fn what_was_ended_with_flow_or_is_not_whole_is_done_again() {
    let space = space();
    let log = space.path("log");
    space.write("log", "");
    let run = format!("trap 'exit 0' TERM; sleep 1.2; echo ran >> {}; sleep 60 & wait", log.display());
    space.write("w.yaml", &format!("flow: 1\nsteps:\n  a: {{run: \"{run}\"}}\n"));
    for times in 1..3 {
        let mut flow = space.start(["run", "w.yaml"]);
        until("the step runs", || space.read("log").lines().count() == times);
        flow.kill();
        until("everybody is gone", || space.alive().is_empty());
    }

    let space = killed_while_stored("{run: 'echo made > out; echo ran >> LOG; GO', outputs: [out]}");
    fs::remove_file(&in_cache(&space, "work/out")[0]).unwrap();
    space.flow(["run", "w.yaml"]).expect(0);
    assert_eq!(space.read("log"), "ran\nran\n", "its output was gone");
}

#[test]
fn secrets_and_numbers_of_a_step_that_was_being_stored_are_collected() {
    let json = r#"echo '{\"acc\": 0.75}' > m.json"#;
    let run = format!("echo made > out; echo ran >> LOG; GO; echo a $TOKEN; echo loss 0.5; {json}");
    let step = format!(
        "{{run: \"{run}\", outputs: [out], secrets: [TOKEN], metrics: {{stdout: 'loss {{loss}}', json: m.json}}}}"
    );
    let space = killed_while_stored(&step);
    let said = space.flow(["run", "w.yaml"]).expect(0).text();
    assert_eq!(space.read("log"), "ran\n", "{said}");
    let result = space.journal().into_iter().find(|line| line["event"] == "recorded").unwrap()["result"].clone();
    for (name, value) in [("loss", 0.5), ("acc", 0.75)] {
        assert_eq!(result["metrics"][name]["value"], value, "{result}");
    }
    let log = space.flow(["logs", "a"]).expect(0).stdout();
    assert!(log.contains("a ***") && !log.contains("hunter2"), "{log}");
    assert!(space.flow(["run", "w.yaml"]).expect(0).text().contains("nothing to do"));
}

#[test]
fn ends_are_written_down_while_many_others_are_being_stored() {
    /// More than are stored at the same time.
    const STEPS: usize = 18;
    let space = space();
    let log = space.path("log");
    let run = format!("echo made > out; sleep 1; echo ran >> {}; until [ -e go ]; do sleep 0.02; done", log.display());
    let step = format!("{{matrix: {{n: \"${{{{ range({STEPS}) }}}}\"}}, run: '{run}', outputs: [out]}}");
    space.write("log", "").write("w.yaml", &format!("flow: 1\nsteps:\n  a: {step}\n"));
    let mut flow = space.start(["run", "w.yaml", "-j", "6"]);
    let (mut held, mut seen) = (FileLease::nothing(), BTreeSet::new());
    until("all ends are written down", || {
        for path in in_cache(&space, "work/out") {
            if !seen.contains(&path) && fs::read(&path).is_ok_and(|text| text == b"made\n") {
                seen.insert(path.clone());
                held.add(&path);
                fs::write(path.with_file_name("go"), "").unwrap();
            }
        }
        are_kept(&space, STEPS)
    });
    flow.kill();
    drop(held);
    until("everybody is gone", || space.alive().is_empty());
    let said = space.flow(["run", "w.yaml"]).expect(0).text();
    assert_eq!(space.read("log").lines().count(), STEPS, "{said}");
    assert!(are_noted(&space, 0) && space.flow(["run", "w.yaml"]).expect(0).text().contains("nothing to do"));
}

#[test]
fn a_shorter_step_is_done_again_and_nothing_is_written_down() {
    let space = space();
    space.write("w.yaml", "flow: 1\nsteps:\n  a: {run: 'echo made > out; exit 0', outputs: [out]}\n");
    space.flow(["run", "w.yaml"]).expect(0);
    let mut names = BTreeSet::new();
    for path in files_below(&space.path(".flow/runs")).iter().filter(|path| path.to_string_lossy().contains("attempts"))
    {
        names.insert(path.file_name().unwrap().to_string_lossy().into_owned());
    }
    assert_eq!(names, BTreeSet::from(["log".to_owned()]));
}

/// Keeps everybody from opening files, for 45 s each at most.
struct FileLease(Child);

impl FileLease {
    fn nothing() -> FileLease {
        // A process that is being forked elsewhere has the file open for a moment.
        let lease = r"
import fcntl, os, signal, sys, time
signal.signal(signal.SIGIO, lambda *_: os.write(2, b'!'))
files = []
for line in sys.stdin:
    files.append(open(line[:-1]))
    while True:
        try:
            fcntl.fcntl(files[-1], fcntl.F_SETLEASE, fcntl.F_WRLCK)
            break
        except OSError:
            time.sleep(0.01)
    print(flush=True)
";
        let mut python = Command::new("python3");
        let python = python.args(["-c", lease]).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        FileLease(python.spawn().unwrap())
    }

    fn of(paths: &[PathBuf]) -> FileLease {
        let mut held = FileLease::nothing();
        paths.iter().for_each(|path| held.add(path));
        held
    }

    fn add(&mut self, path: &Path) {
        writeln!(self.0.stdin.as_mut().unwrap(), "{}", path.display()).unwrap();
        self.0.stdout.as_mut().unwrap().read_exact(&mut [0]).unwrap();
    }

    /// Waits until somebody opens one of the files.
    fn wait_for_reader(&mut self) {
        self.0.stderr.as_mut().unwrap().read_exact(&mut [0]).unwrap();
    }
}

impl Drop for FileLease {
    fn drop(&mut self) {
        self.0.kill().unwrap();
        self.0.wait().unwrap();
    }
}

#[test]
fn a_folder_that_was_being_moved_into_the_store_is_not_made_again() {
    let space = space();
    space.write("log", "");
    let run = "mkdir -p out/a; echo 1 > out/a/x; echo 2 > second; sleep 1; echo ran >> LOG; until [ -e LOG.go ]; do sleep 0.01; done";
    let run = run.replace("LOG", &space.path("log").to_string_lossy());
    space.write("w.yaml", &format!("flow: 1\nsteps:\n  a: {{run: '{run}', outputs: [out/, second]}}\n"));
    let mut flow = space.start(["run", "w.yaml"]);
    until("its outputs are there", || !space.read("log").is_empty());
    let held = FileLease::of(&in_cache(&space, "work/second"));
    space.write("log.go", "");
    until("the folder is in the store", || are_kept(&space, 1) && in_cache(&space, "out/a/x").is_empty());
    flow.kill();
    drop(held);
    assert!(!flow.output().contains("done"), "{}", flow.output());
    until("everybody is gone", || space.alive().is_empty());
    let said = space.flow(["run", "w.yaml"]).expect(0).text();
    assert_eq!(space.read("log"), "ran\n", "{said}");
    space.flow(["get", "a", "out", "--to", "there"]).expect(0);
    assert_eq!(space.read("there/a/x"), "1\n");
    assert!(space.flow(["run", "w.yaml"]).expect(0).text().contains("nothing to do"));
    space.flow(["doctor", "--contents"]).expect(0);
}

#[test]
fn what_was_seen_of_a_group_before_flow_was_killed_is_not_lost_with_flow() {
    let space = space();
    let script = "echo made > out\necho ran >> $1/log\nflow ready\nfor n in 1 2 3; do sleep 0.4; echo \"epoch $n, loss 0.$n\"; done\n\
                  touch $1/over$2\nuntil [ -e $1/over1 ] && [ -e $1/over2 ]; do sleep 0.01; done\n";
    space.write("log", "").write("work.sh", script);
    let step = format!(
        "matrix: {{n: [1, 2]}}, run: 'sh work.sh {} ${{{{ n }}}}', inputs: [work.sh], outputs: [out], \
         metrics: {{stdout: 'epoch {{epoch}}, loss {{loss}}'}}, corun: {{group: all, gpus: shared}}",
        space.path(".").display()
    );
    space.write("w.yaml", &format!("flow: 1\nsteps:\n  a: {{{step}}}\n"));
    let mut flow = space.start(["run", "w.yaml"]);
    until("both run", || space.read("log").lines().count() == 2);
    let outputs = in_cache(&space, "work/out");
    assert_eq!(outputs.len(), 2);
    let held = FileLease::of(&outputs);
    until("both ends are written down", || are_kept(&space, 1));
    flow.kill();
    drop(held);
    assert!(!flow.output().contains("done"), "{}", flow.output());
    until("everybody is gone", || space.alive().is_empty());
    let said = space.flow(["run", "w.yaml"]).expect(0).text();
    assert!(space.flow(["run", "w.yaml"]).expect(0).text().contains("nothing to do"));
    space.flow(["doctor", "--contents"]).expect(0);
    assert_eq!(space.read("log"), "ran\nran\n", "{said}");
    let journal = space.journal();
    let recorded: Vec<_> = journal.iter().filter(|line| line["event"] == "recorded").collect();
    assert_eq!(recorded.len(), 2, "{said}");
    for line in recorded {
        let result = &line["result"];
        let window = &result["circumstances"]["corun"];
        let [from, to] =
            ["released_at", "closed_at"].map(|at| window[at].as_f64().unwrap_or_else(|| panic!("{result}")));
        assert!((1.1..1.9).contains(&(to - from)), "{from} to {to}: {result}");
        let epoch = result["metrics"]["epoch_time"]["value"].as_f64().unwrap();
        assert!((0.35..0.7).contains(&epoch), "{epoch} s: {result}");
        assert_eq!(result["circumstances"]["corunners"].as_array().map(Vec::len), Some(1), "{result}");
        assert!(result["usage"]["samples"].as_u64() > Some(0), "{result}");
        assert!(result["disturbances"].as_array().is_none_or(Vec::is_empty), "{result}");
    }
}

#[test]
fn a_group_of_which_half_was_stored_when_flow_gave_up_is_collected_whole() {
    at_once([&["run", "w.yaml"][..], &["run", "w.yaml", "--detached"]], half_is_stored);
}

fn half_is_stored(args: &[&str]) {
    let space = space();
    space
        .write("log", "")
        .write("work.sh", "echo made $2 > out$2\necho ran >> $1\nsleep 1.2\nuntil [ -e $1.go ]; do sleep 0.01; done\n");
    let step = format!(
        "matrix: {{n: [1, 2]}}, run: 'sh work.sh {} ${{{{ n }}}}', inputs: [work.sh], outputs: ['out${{{{ n }}}}'], \
         corun: {{group: all, gpus: shared}}",
        space.path("log").display()
    );
    space.write("w.yaml", &format!("flow: 1\nsteps:\n  a: {{{step}}}\n"));
    let mut flow = space.start(args.iter().copied());
    until("both run", || space.read("log").lines().count() == 2);
    let mut held = FileLease::of(&in_cache(&space, "work/out2"));
    space.write("log.go", "");
    let has_ended = |line: &serde_json::Value| line["event"] == "ended";
    until("one is stored", || are_kept(&space, 1) && space.journal().iter().any(has_ended));
    // Before that, a Ctrl-C would cancel the step.
    held.wait_for_reader();
    flow.signal(Signal::SIGINT);
    until("flow has heard it", || flow.output().contains("Ctrl-C"));
    flow.signal(Signal::SIGINT);
    assert_eq!(flow.wait().code(), Some(130), "{}", flow.output());
    assert!(flow.output().contains("the next `flow run` collects its outputs"), "{}", flow.output());
    drop(held);
    let said = space.flow(["run", "w.yaml"]).expect(0).text();
    assert_eq!(space.read("log"), "ran\nran\n", "{said}");
    assert!(space.flow(["run", "w.yaml"]).expect(0).text().contains("nothing to do"));
    space.flow(["doctor", "--contents"]).expect(0);
}

#[test]
fn half_a_group_is_done_again() {
    let space = space();
    space.write("log", "").write("work.sh", "echo ran >> $1; sleep $2\n");
    let log = space.path("log").display().to_string();
    let step = format!(
        "matrix: {{n: [1.1, 60]}}, run: 'sh work.sh {log} ${{{{ n }}}}', inputs: [work.sh], corun: {{group: all, gpus: shared}}"
    );
    space.write("w.yaml", &format!("flow: 1\nsteps:\n  a: {{{step}}}\n"));
    let mut flow = space.start(["run", "w.yaml"]);
    until("the end of one is written down", || are_noted(&space, 1));
    flow.kill();
    until("everybody is gone", || space.alive().is_empty());
    let mut flow = space.start(["run", "w.yaml"]);
    until("both run again", || space.read("log").lines().count() == 4);
    flow.kill();
    until("everybody is gone", || space.alive().is_empty());
}

/// What flow has read so far, bytes.
fn read_by(flow: &RunningFlow) -> u64 {
    let io = fs::read_to_string(format!("/proc/{}/io", flow.pid())).unwrap_or_default();
    io.lines().find_map(|line| line.strip_prefix("rchar: ")?.parse().ok()).unwrap_or(0)
}

#[test]
fn what_was_being_collected_when_flow_was_killed_is_not_done_again_and_is_as_measured() {
    // Its numbers take a second or two to be read: time to be killed in.
    let script = "echo ran >> $1\nfor n in 1 2 3; do sleep 0.4; echo \"epoch $n, loss 0.$n\"; done\ncp $2 big.json; echo made > out\n";
    let metrics = "{stdout: 'epoch {epoch}, loss {loss}', json: big.json}";
    let mut space = space();
    space.gpus("driver 580.95.05\ngpu NVIDIA TITAN Xp; memory=12196MiB; used=0; load=30\n");
    space.env("TOKEN", "hunter2-hunter2");
    space.write("log", "").write("work.sh", script);
    space.write("numbers", &format!("{{\"final\": 7, \"rest\": [0{}]}}\n", ", 0".repeat(1 << 20)));
    let [log, numbers] = ["log", "numbers"].map(|name| space.path(name).display().to_string());
    let step = format!(
        "run: sh work.sh {log} {numbers}, inputs: [work.sh], outputs: [out], metrics: {metrics}, gpus: 1, secrets: [TOKEN]"
    );
    space.write("w.yaml", &format!("flow: 1\nsteps:\n  a: {{{step}}}\n"));
    let mut flow = space.start(["run", "w.yaml"]);
    until("its end is written down", || are_kept(&space, 1));
    until("its numbers are being read", || read_by(&flow) > 2 << 20);
    flow.kill();
    assert!(!flow.output().contains("done"), "{}", flow.output());
    until("everybody is gone", || space.alive().is_empty());
    let said = space.flow(["run", "w.yaml"]).expect(0).text();
    assert_eq!(space.read("log"), "ran\n", "{said}");
    let result = space.journal().into_iter().find(|line| line["event"] == "recorded").unwrap()["result"].clone();
    assert_eq!(result["metrics"]["final"]["value"], 7.0, "{result}");
    let epoch = result["metrics"]["epoch_time"]["value"].as_f64().unwrap();
    assert!((0.35..0.7).contains(&epoch), "{epoch} s, and it took 0.4 s: {result}");
    assert!(result["usage"]["samples"].as_u64() > Some(0), "{result}");
    assert_eq!(result["usage"]["gpus"].as_array().map_or(0, Vec::len), 1, "{result}");
    assert!(space.flow(["run", "w.yaml"]).expect(0).text().contains("nothing to do"));
    space.flow(["doctor", "--contents"]).expect(0);
}

#[test]
fn how_long_a_killed_run_took_is_not_made_up() {
    let space = space();
    space.write("w.yaml", "flow: 1\nsteps:\n  a: {run: sleep 600}\n");
    let mut flow = space.start(["run", "w.yaml"]);
    until("the step runs", || space.alive().iter().any(|(_, command)| command == "sleep 600"));
    let row = || {
        space.flow(["runs"]).expect(0).stdout().lines().last().unwrap().split_whitespace().collect::<Vec<_>>().join(" ")
    };
    assert!(row().starts_with("RUN w DATE TIME running"), "{}", row());
    flow.signal(Signal::SIGSTOP);
    let said = || space.flow(["runs"]).expect(0).stdout();
    until("it is stopped", || said().contains("  stopped") && said().contains("is stopped: `kill -CONT"));
    flow.signal(Signal::SIGCONT);
    flow.kill();
    assert!(row().starts_with("RUN w DATE killed, last seen after TIME"), "{}", row());
}
