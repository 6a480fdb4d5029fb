//! `flow` killed with SIGKILL at any moment, ten times: nothing is lost, nothing is falsely cached, nobody is left alive.

use std::{
    fs,
    io::Read,
    path::Path,
    process::{Child, Command, Stdio},
    thread,
    time::Duration,
};

use nix::sys::signal::Signal;

use flow_testkit::{Running, TestSpace, files_below, until};

use crate::space;

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

/// A step that writes down that it ran, of a run that is killed when the step has ended, and flow knows nothing of that yet.
fn ended_unheard(step: &str) -> TestSpace {
    let mut space = space();
    space.env("TOKEN", "hunter2-hunter2");
    let log = space.path("log");
    space.write("log", "");
    space.write("w.yaml", &format!("flow: 1\nsteps:\n  a: {}\n", step.replace("LOG", &log.to_string_lossy())));
    let mut flow = space.start(["run", "w.yaml"]);
    until("the step runs", || space.read("log").lines().count() == 1);
    flow.signal(Signal::SIGSTOP);
    let exit = || files_below(&space.path(".flow/runs")).iter().any(|path| path.ends_with("exit.json"));
    until("it has ended, or is to be ended", || exit() || step.contains("trap"));
    flow.kill();
    until("everybody is gone", || space.alive().is_empty());
    space
}

#[test]
fn what_had_ended_when_flow_was_killed_is_not_done_again() {
    let space = ended_unheard("{run: 'echo ran >> LOG; sleep 0.5; echo made > out', outputs: [out]}");
    let planned = space.flow(["plan", "w.yaml"]).expect(0).stdout();
    assert!(planned.contains("1 ended since"), "{planned}");
    let shown = space.flow(["show", "a"]).expect(0).stdout();
    assert!(shown.contains("it has ended since, and the next run collects its result"), "{shown}");
    let said = space.flow(["run", "w.yaml"]).expect(0).text();
    assert_eq!(space.read("log"), "ran\n", "{said}");
    let shown = space.flow(["show", "a"]).expect(0).stdout();
    assert!(
        shown.contains("wall time") && !shown.contains("kept log"),
        "what nobody watched is not read again: {shown}"
    );
    let said = space.flow(["run", "w.yaml"]).expect(0).text();
    assert!(said.contains("nothing to do"), "{said}");
    space.flow(["doctor", "--contents"]).expect(0);
    space.flow(["forget", "a"]).expect(0);
    space.flow(["run", "w.yaml"]).expect(0);
    assert_eq!(space.read("log"), "ran\nran\n", "what is forgotten is done again");
}

#[test]
fn what_was_ended_with_flow_or_is_not_whole_is_done_again() {
    let space = ended_unheard("{run: \"trap 'exit 0' TERM; echo ran >> LOG; sleep 1 & wait\"}");
    space.flow(["run", "w.yaml"]).expect(0);
    assert_eq!(space.read("log"), "ran\nran\n", "it ended well because it was told to");

    let space = ended_unheard("{run: 'echo ran >> LOG; sleep 0.5; echo made > out', outputs: [out]}");
    let made = files_below(space.cache()).into_iter().find(|path| path.ends_with("work/out")).unwrap();
    fs::remove_file(made).unwrap();
    space.flow(["run", "w.yaml"]).expect(0);
    assert_eq!(space.read("log"), "ran\nran\n", "its output was gone");

    let metrics = "metrics: {stdout: 'epoch {epoch} loss {loss}'}";
    let space = ended_unheard(&format!("{{run: 'echo ran >> LOG; sleep 0.5; echo epoch 1 loss 1', {metrics}}}"));
    space.flow(["run", "w.yaml"]).expect(0);
    assert_eq!(space.read("log"), "ran\nran\n", "when its lines came, or what it used, nobody saw");
}

#[test]
fn secrets_and_numbers_without_a_time_need_nobody_who_watched() {
    let ran = |step: &str| {
        let space = ended_unheard(step);
        let said = space.flow(["run", "w.yaml"]).expect(0).text();
        assert_eq!(space.read("log"), "ran\n", "{step}: {said}");
        let journal = space.journal();
        let result = journal.into_iter().find(|line| line["event"] == "recorded").unwrap()["result"].clone();
        assert!(space.flow(["run", "w.yaml"]).expect(0).text().contains("nothing to do"));
        (space, result)
    };
    let (space, _) = ran("{run: 'echo ran >> LOG; sleep 0.5; echo a $TOKEN', secrets: [TOKEN]}");
    let log = space.flow(["logs", "a"]).expect(0).stdout();
    assert!(log.contains("a ***") && !log.contains("hunter2"), "{log}");
    let (_, result) = ran("{run: 'echo ran >> LOG; sleep 0.5; echo loss 0.5', metrics: {stdout: 'loss {loss}'}}");
    assert_eq!(result["metrics"]["loss"]["value"], 0.5, "{result}");
    let json = r#"echo '{\"acc\": 0.75}' > m.json"#;
    let (_, result) = ran(&format!("{{run: \"echo ran >> LOG; sleep 0.5; {json}\", metrics: {{json: m.json}}}}"));
    assert_eq!(result["metrics"]["acc"]["value"], 0.75, "{result}");
}

#[test]
fn what_a_plugin_said_of_itself_needs_nobody_who_watched() {
    let space = space();
    let log = space.path("log");
    let says = |message: &str| format!("echo '{message}' >> $FLOW_ATTEMPT/messages.jsonl");
    let script = [
        "#!/bin/sh".to_owned(),
        says(r#"{"type":"hello","protocol":1,"plugin":"demo","version":"1","facts":{}}"#),
        format!("echo ran >> {}", log.display()),
        "sleep 0.5".to_owned(),
        says(r#"{"type":"metric","name":"images","value":7,"unit":""}"#),
        says(r#"{"type":"outcome","outcome":"ok"}"#),
    ];
    let manifest = "plugin: 1\nname: demo\nversion: '1'\ncontent: [plugin.yaml, program]\nstart: [./program]\nsteps: {one: {with: {type: object}}}\n";
    space.write("plugins/demo/plugin.yaml", manifest).script("plugins/demo/program", &script.join("\n"));
    space.write("log", "").write("w.yaml", "flow: 1\nsteps:\n  a: {uses: demo/one}\n");
    let mut flow = space.start(["run", "w.yaml"]);
    until("the step runs", || space.read("log").lines().count() == 1);
    flow.signal(Signal::SIGSTOP);
    until("it has ended", || files_below(&space.path(".flow/runs")).iter().any(|path| path.ends_with("exit.json")));
    flow.kill();
    until("everybody is gone", || space.alive().is_empty());
    let said = space.flow(["run", "w.yaml"]).expect(0).text();
    assert_eq!(space.read("log"), "ran\n", "{said}");
    let result = space.journal().into_iter().find(|line| line["event"] == "recorded").unwrap()["result"].clone();
    assert_eq!(result["metrics"]["images"]["value"], 7.0, "{result}");
}

/// Keeps everybody from opening a file, for 45 s at most, as long as this process lives.
fn hold(path: &Path) -> Child {
    let lease = "import fcntl, signal, sys\nsignal.signal(signal.SIGIO, signal.SIG_IGN)\nfile = open(sys.argv[1])\n\
                 fcntl.fcntl(file, fcntl.F_SETLEASE, fcntl.F_WRLCK)\nprint(flush=True)\nsys.stdin.read()";
    let mut python = Command::new("python3");
    python.args(["-c", lease]).arg(path).stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut child = python.spawn().unwrap();
    child.stdout.as_mut().unwrap().read_exact(&mut [0]).unwrap();
    child
}

#[test]
fn a_folder_that_was_being_moved_into_the_store_is_not_made_again() {
    let space = space();
    space.write("log", "");
    let run =
        "mkdir -p out/a; echo 1 > out/a/x; echo 2 > second; echo ran >> LOG; until [ -e LOG.go ]; do sleep 0.01; done";
    let run = run.replace("LOG", &space.path("log").to_string_lossy());
    space.write("w.yaml", &format!("flow: 1\nsteps:\n  a: {{run: '{run}', outputs: [out/, second]}}\n"));
    let mut flow = space.start(["run", "w.yaml"]);
    until("its outputs are there", || !space.read("log").is_empty());
    let in_runs = |name: &str| files_below(&space.path(".flow/runs")).into_iter().find(|path| path.ends_with(name));
    let in_cache = |name: &str| files_below(space.cache()).into_iter().find(|path| path.ends_with(name));
    let mut holder = hold(&in_cache("work/second").unwrap());
    space.write("log.go", "");
    until("the folder is in the store", || in_runs("exit.json").is_some() && in_cache("out/a/x").is_none());
    flow.kill();
    holder.kill().unwrap();
    holder.wait().unwrap();
    assert!(!flow.said().contains("done"), "{}", flow.said());
    until("everybody is gone", || space.alive().is_empty());
    let said = space.flow(["run", "w.yaml"]).expect(0).text();
    assert_eq!(space.read("log"), "ran\n", "{said}");
    space.flow(["get", "a", "out", "--to", "there"]).expect(0);
    assert_eq!(space.read("there/a/x"), "1\n");
    assert!(space.flow(["run", "w.yaml"]).expect(0).text().contains("nothing to do"));
    space.flow(["doctor", "--contents"]).expect(0);
}

/// Runs steps that stop flow, whose number they find in the file `pid`, as the last that they do, and kills it when so many have ended:
/// after their end, and before flow knows of it. Says what the next run said.
fn killed_at_the_end(space: &TestSpace, steps: usize) -> String {
    let mut flow = space.start(["run", "w.yaml"]);
    space.write("pid", &flow.pid().to_string());
    let exits = || files_below(&space.path(".flow/runs")).iter().filter(|path| path.ends_with("exit.json")).count();
    until("all have ended", || exits() == steps);
    flow.kill();
    assert!(!flow.said().contains("done"), "{}", flow.said());
    until("everybody is gone", || space.alive().is_empty());
    let said = space.flow(["run", "w.yaml"]).expect(0).text();
    assert!(space.flow(["run", "w.yaml"]).expect(0).text().contains("nothing to do"));
    space.flow(["doctor", "--contents"]).expect(0);
    assert_eq!(observations(space), 0);
    said
}

/// So many attempts still have what was seen of them look by look.
fn observations(space: &TestSpace) -> usize {
    files_below(&space.path(".flow/runs")).iter().filter(|path| path.ends_with("observations.jsonl")).count()
}

#[test]
fn what_was_seen_of_a_step_goes_once_its_failure_is_safe() {
    let space = space();
    let metrics = "measured: true, metrics: {stdout: 'loss {loss}'}";
    for (run, code) in [("echo loss 1; exit 3", 1), ("echo nothing", 0)] {
        space.write("w.yaml", &format!("flow: 1\nsteps:\n  a: {{run: '{run}', {metrics}}}\n"));
        space.flow(["run", "w.yaml"]).expect(code);
        assert_eq!(observations(&space), 0, "{run}");
    }
    assert_eq!(files_below(&space.path(".flow/runs")).iter().filter(|path| path.ends_with("exit.json")).count(), 2);
}

#[test]
fn what_was_seen_of_a_step_before_flow_was_killed_is_not_lost_with_flow() {
    let script = "echo ran >> $1/log\nfor n in 1 2 3; do sleep 0.3; echo \"epoch $n, loss 0.$n\"; done\nkill -STOP $(cat $1/pid) || true\n";
    let metrics = "metrics: {stdout: 'epoch {epoch}, loss {loss}'}";
    for keys in [metrics, "gpus: 1"] {
        let mut space = space();
        space.gpus("driver 580.95.05\ngpu NVIDIA TITAN Xp; memory=12196MiB; used=0; load=30\n");
        space.write("log", "").write("work.sh", script);
        let run = format!("sh work.sh {}", space.path(".").display());
        space.write("w.yaml", &format!("flow: 1\nsteps:\n  a: {{run: {run}, inputs: [work.sh], {keys}}}\n"));
        let said = killed_at_the_end(&space, 1);
        assert_eq!(space.read("log"), "ran\n", "{keys}: {said}");
        let result = space.journal().into_iter().find(|line| line["event"] == "recorded").unwrap()["result"].clone();
        assert!(result["usage"]["samples"].as_u64() > Some(0), "{keys}: {result}");
        assert_eq!(result["usage"]["gpus"].as_array().map_or(0, Vec::len), usize::from(keys == "gpus: 1"), "{result}");
        assert!(result["spoiled"].as_array().is_none_or(Vec::is_empty), "{keys}: {result}");
        assert!(result["kept"].is_object(), "{keys}: its log can be read again: {result}");
        if keys == metrics {
            let epoch = result["metrics"]["epoch_time"]["value"].as_f64().unwrap();
            assert!((0.25..0.6).contains(&epoch), "{epoch} s, and it took 0.3 s: {result}");
        }
    }
}

#[test]
fn what_was_seen_of_a_group_before_flow_was_killed_is_not_lost_with_flow() {
    let space = space();
    let script = "echo ran >> $1/log\nflow ready\nfor n in 1 2 3; do sleep 0.3; echo \"epoch $n, loss 0.$n\"; done\n\
                  touch $1/over$2\nuntil [ -e $1/over1 ] && [ -e $1/over2 ]; do sleep 0.01; done\nkill -STOP $(cat $1/pid) || true\n";
    space.write("log", "").write("work.sh", script);
    let step = format!(
        "matrix: {{n: [1, 2]}}, run: 'sh work.sh {} ${{{{ n }}}}', inputs: [work.sh], \
         metrics: {{stdout: 'epoch {{epoch}}, loss {{loss}}'}}, corun: {{group: all, gpus: shared}}",
        space.path(".").display()
    );
    space.write("w.yaml", &format!("flow: 1\nsteps:\n  a: {{{step}}}\n"));
    let said = killed_at_the_end(&space, 2);
    assert_eq!(space.read("log"), "ran\nran\n", "{said}");
    let journal = space.journal();
    let recorded: Vec<_> = journal.iter().filter(|line| line["event"] == "recorded").collect();
    assert_eq!(recorded.len(), 2, "{said}");
    for line in recorded {
        let result = &line["result"];
        let window = &result["circumstances"]["corun"];
        let [from, to] =
            ["released_at", "closed_at"].map(|at| window[at].as_f64().unwrap_or_else(|| panic!("{result}")));
        assert!((0.85..1.6).contains(&(to - from)), "{from} to {to}: {result}");
        let epoch = result["metrics"]["epoch_time"]["value"].as_f64().unwrap();
        assert!((0.25..0.6).contains(&epoch), "{epoch} s: {result}");
        assert_eq!(result["circumstances"]["corunners"].as_array().map(Vec::len), Some(1), "{result}");
        assert!(result["usage"]["samples"].as_u64() > Some(0), "{result}");
        assert!(result["spoiled"].as_array().is_none_or(Vec::is_empty), "{result}");
    }
}

#[test]
fn half_a_group_is_done_again() {
    let space = space();
    space.write("log", "").write("work.sh", "echo ran >> $1; sleep $2\n");
    let log = space.path("log").display().to_string();
    let step = format!(
        "matrix: {{n: [0.2, 60]}}, run: 'sh work.sh {log} ${{{{ n }}}}', inputs: [work.sh], corun: {{group: all, gpus: shared}}"
    );
    space.write("w.yaml", &format!("flow: 1\nsteps:\n  a: {{{step}}}\n"));
    let mut flow = space.start(["run", "w.yaml"]);
    let exits = || files_below(&space.path(".flow/runs")).iter().filter(|path| path.ends_with("exit.json")).count();
    until("one has ended", || exits() == 1);
    flow.kill();
    until("everybody is gone", || space.alive().is_empty());
    let mut flow = space.start(["run", "w.yaml"]);
    until("both run again", || space.read("log").lines().count() == 4);
    flow.kill();
    until("everybody is gone", || space.alive().is_empty());
}

/// What flow has read so far, bytes.
fn read_by(flow: &Running) -> u64 {
    let io = fs::read_to_string(format!("/proc/{}/io", flow.pid())).unwrap_or_default();
    io.lines().find_map(|line| line.strip_prefix("rchar: ")?.parse().ok()).unwrap_or(0)
}

#[test]
fn what_was_being_collected_when_flow_was_killed_is_not_done_again_and_is_as_measured() {
    // Its numbers take a second or two to be read: time to be killed in.
    let script = "echo ran >> $1\nfor n in 1 2 3; do sleep 0.3; echo \"epoch $n, loss 0.$n\"; done\ncp $2 big.json; echo made > out\n";
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
    let exit = || files_below(&space.path(".flow/runs")).iter().any(|path| path.ends_with("exit.json"));
    until("the step has ended", exit);
    until("its numbers are being read", || read_by(&flow) > 2 << 20);
    flow.kill();
    assert!(!flow.said().contains("done"), "{}", flow.said());
    until("everybody is gone", || space.alive().is_empty());
    let said = space.flow(["run", "w.yaml"]).expect(0).text();
    assert_eq!(space.read("log"), "ran\n", "{said}");
    let result = space.journal().into_iter().find(|line| line["event"] == "recorded").unwrap()["result"].clone();
    assert_eq!(result["metrics"]["final"]["value"], 7.0, "{result}");
    let epoch = result["metrics"]["epoch_time"]["value"].as_f64().unwrap();
    assert!((0.25..0.6).contains(&epoch), "{epoch} s, and it took 0.3 s: {result}");
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
