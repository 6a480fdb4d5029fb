//! Runs of several stores on one machine: what one holds no other gives out, measurements have it for themselves, and a crash
//! frees what was held.

use std::{
    fs,
    time::{Duration, Instant},
};

use flow_testkit::{RunningFlow, TestSpace, until};
use nix::sys::signal::Signal;
use serde_json::Value;

use crate::space;

/// A step that writes when it began and ended, and sleeps between.
const TIMED: &str = "#!/bin/sh
# timed.sh SECONDS FILE
date +%s.%N > \"$2\"
sleep \"$1\"
date +%s.%N >> \"$2\"
";

/// Two spaces with stores of their own on one machine.
fn two() -> (TestSpace, TestSpace) {
    let (first, mut second) = (space(), space());
    second.beside(&first);
    for one in [&first, &second] {
        one.script("timed.sh", TIMED);
    }
    (first, second)
}

/// A workflow of so many steps that write their times to `NAME-N`.
fn steps(space: &TestSpace, name: &str, count: u32, seconds: f64, keys: &str) {
    let to = space.path("times").display().to_string();
    fs::create_dir_all(space.path("times")).unwrap();
    let n: Vec<String> = (0..count).map(|n| n.to_string()).collect();
    let text = format!(
        "flow: 1\nname: {name}\nsteps:\n  {name}:\n    matrix: {{n: [{}]}}\n    inputs: [timed.sh]\n    \
         run: ./timed.sh {seconds} {to}/{name}-${{{{ n }}}}\n    {keys}\n",
        n.join(", ")
    );
    space.write(format!("{name}.yaml"), &text);
}

/// When the steps of a space began and ended.
fn times(space: &TestSpace) -> Vec<(f64, f64)> {
    let files = fs::read_dir(space.path("times")).unwrap().flatten();
    let times = files.filter_map(|file| {
        let text = fs::read_to_string(file.path()).ok()?;
        let mut lines = text.lines().map(|line| line.parse::<f64>().unwrap());
        Some((lines.next()?, lines.next().unwrap_or(f64::MAX)))
    });
    times.collect()
}

fn began(space: &TestSpace, label: &str) {
    until("a step runs", || space.path("times").join(label).exists());
}

fn waits(space: &TestSpace, words: &str) -> String {
    let mut said = String::new();
    until("it is said what is waited for", || {
        said = space.flow(["status"]).stdout();
        said.contains(words)
    });
    said
}

fn queue(space: &TestSpace) -> Vec<Value> {
    let said = space.flow(["queue", "--json"]).expect(0);
    String::from_utf8_lossy(said.raw()).lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

fn done(mut run: RunningFlow) {
    assert!(run.wait().success(), "{}", run.output());
}

#[test]
fn exclusive_steps_of_two_runs_never_overlap_with_anything() {
    let (first, second) = two();
    steps(&first, "alone", 3, 0.2, "exclusive: true");
    steps(&second, "alone", 2, 0.2, "exclusive: true");
    steps(&second, "plain", 2, 0.3, "cpus: 1");
    let runs = [first.start(["run", "alone.yaml"]), second.start(["run", "alone.yaml"])];
    runs.into_iter().for_each(done);
    let plain = second.start(["run", "plain.yaml"]);
    let again = first.start(["run", "-f", "alone.yaml"]);
    [plain, again].into_iter().for_each(done);
    let (alone, other) = (times(&first), times(&second));
    assert_eq!((alone.len(), other.len()), (3, 4));
    for (began, ended) in alone {
        for (other_began, other_ended) in &other {
            assert!(
                ended <= *other_began || *other_ended <= began,
                "{began} to {ended} beside {other_began} to {other_ended}"
            );
        }
    }
    assert!(
        !fs::read_dir(first.path(".flow/runs"))
            .unwrap()
            .flatten()
            .any(|run| { fs::read_to_string(run.path().join("journal.jsonl")).unwrap().contains("other_attempts") }),
        "nobody ran beside it"
    );
}

#[test]
fn the_cpus_of_a_machine_are_given_out_once() {
    let (first, second) = two();
    let cpus = std::thread::available_parallelism().unwrap().get();
    steps(&first, "one", cpus as u32 + 1, 0.3, "cpus: 1");
    steps(&second, "all", 2, 0.2, &format!("cpus: {cpus}"));
    let runs = [first.start(["run", "one.yaml"]), second.start(["run", "all.yaml"])];
    runs.into_iter().for_each(done);
    let ones: Vec<_> = times(&first).into_iter().map(|span| (span, 1)).collect();
    let all: Vec<_> = ones.into_iter().chain(times(&second).into_iter().map(|span| (span, cpus))).collect();
    assert_eq!(all.len(), cpus + 3);
    for ((at, _), _) in &all {
        let held: usize =
            all.iter().filter(|((began, ended), _)| began <= at && at < ended).map(|(_, cpus)| cpus).sum();
        assert!(held <= cpus, "{held} of {cpus} CPUs: {all:?}");
    }
}

#[test]
fn who_waits_for_another_run_says_so_and_its_crash_makes_room() {
    let (first, second) = two();
    steps(&first, "alone", 1, 600.0, "exclusive: true");
    steps(&second, "plain", 1, 0.1, "cpus: 1");
    let mut holder = first.start(["run", "alone.yaml"]);
    began(&first, "alone-0");
    let waiter = second.start(["run", "plain.yaml"]);
    let said = waits(&second, "has the machine for itself");
    assert!(said.contains("(alone) of"), "{said}");
    let why = second.flow(["why", "-w", "plain.yaml", "plain"]).expect(0).stdout();
    assert!(why.contains("has the machine for itself"), "{why}");
    let runs = queue(&second);
    assert_eq!(runs.len(), 2, "{runs:?}");
    assert_eq!((&runs[0]["workflow"], &runs[0]["holds"]["exclusive"]), (&"alone".into(), &true.into()));
    assert_eq!((&runs[1]["workflow"], &runs[1]["waits"]["label"]), (&"plain".into(), &"plain[n=0]".into()));
    let shown = second.flow(["queue"]).expect(0).stdout();
    assert!(shown.contains("the machine alone") && shown.contains("plain[n=0]"), "{shown}");
    let killed = Instant::now();
    holder.kill();
    began(&second, "plain-0");
    assert!(killed.elapsed() < Duration::from_secs(30), "{:?}", killed.elapsed());
    done(waiter);
    assert!(queue(&second).is_empty(), "nobody is left");
}

#[test]
fn a_run_that_waits_for_others_can_be_interrupted() {
    let (first, second) = two();
    steps(&first, "plain", 1, 600.0, "cpus: 1");
    steps(&second, "alone", 1, 0.1, "exclusive: true");
    let _holder = first.start(["run", "plain.yaml"]);
    began(&first, "plain-0");
    let mut waiter = second.start(["run", "alone.yaml"]);
    waits(&second, "needs the machine exclusively; steps of run");
    // While it waits nothing new starts: it has waited for longer.
    let mut third = space();
    third.beside(&first).script("timed.sh", TIMED);
    steps(&third, "late", 1, 0.1, "cpus: 1");
    let late = third.start(["run", "late.yaml"]);
    waits(&third, "goes first");
    waiter.signal(Signal::SIGINT);
    assert_eq!(waiter.wait().code(), Some(130), "{}", waiter.output());
    done(late);
}

#[test]
fn a_run_that_was_stopped_while_it_waits_keeps_nothing_from_others() {
    let (first, second) = two();
    steps(&first, "plain", 1, 600.0, "cpus: 1");
    steps(&second, "alone", 1, 0.1, "exclusive: true");
    let _holder = first.start(["run", "plain.yaml"]);
    began(&first, "plain-0");
    let waiter = second.start(["run", "alone.yaml"]);
    waits(&second, "needs the machine exclusively");
    waiter.signal(Signal::SIGSTOP);
    let stopped = |runs: Vec<Value>| runs.iter().map(|run| run.get("stopped").is_some()).collect::<Vec<_>>();
    // A busy machine takes a moment to stop it.
    until("it is stopped", || stopped(queue(&first)) == [false, true]);
    let shown = first.flow(["queue"]).expect(0).stdout();
    assert!(shown.contains("stopped, nothing") && shown.contains("run RUN is stopped: `kill -CONT "), "{shown}");
    let mut third = space();
    third.beside(&first).script("timed.sh", TIMED);
    steps(&third, "late", 1, 0.1, "cpus: 1");
    done(third.start(["run", "late.yaml"]));
    waiter.signal(Signal::SIGCONT);
    until("it goes on", || stopped(queue(&first)) == [false, false]);
}

#[test]
fn a_ledger_that_cannot_be_used_is_said_once_and_marks_measurements() {
    let space = space();
    space.script("timed.sh", TIMED);
    steps(&space, "alone", 2, 0.1, "exclusive: true");
    // A folder in its place, for root can write into any.
    fs::create_dir(space.locks().join("flow-machine.ledger")).unwrap();
    let said = space.flow(["run", "alone.yaml"]).expect(0).text();
    assert_eq!(said.matches("other runs of this machine do not see each other").count(), 1, "{said}");
    let recorded = space.journal().into_iter().filter(|line| line["event"] == "recorded");
    let marks: Vec<_> = recorded.map(|line| line["result"]["circumstances"]["unwatched"].clone()).collect();
    assert_eq!(marks, [true, true]);
}

#[test]
fn a_step_that_runs_beside_a_measurement_all_the_same_disturbs_it() {
    let (first, second) = two();
    steps(&first, "alone", 1, 2.5, "exclusive: true");
    steps(&second, "plain", 1, 1.5, "cpus: 1");
    let run = first.start(["run", "alone.yaml"]);
    began(&first, "alone-0");
    // Somebody removes the ledger: who comes now does not see the first, until that joins it again.
    run.signal(Signal::SIGSTOP);
    fs::remove_file(first.locks().join("flow-machine.ledger")).unwrap();
    let plain = second.start(["run", "plain.yaml"]);
    began(&second, "plain-0");
    run.signal(Signal::SIGCONT);
    [plain, run].into_iter().for_each(done);
    let journal = first.journal();
    let disturbed: Vec<&Value> = journal.iter().filter_map(|line| line.get("disturbances")).collect();
    assert_eq!((disturbed.len(), &disturbed[0][0]["kind"]), (1, &"other_runs".into()), "{disturbed:?}");
    let recorded = journal.iter().find(|line| line["event"] == "recorded").unwrap();
    assert!(recorded["result"].get("disturbances").is_none(), "it was repeated, alone");
}

#[test]
fn a_crash_frees_what_was_held_when_its_programs_are_gone_and_not_before() {
    let (first, second) = two();
    let alive = first.path("alive").display().to_string();
    first.script(
        "stubborn.sh",
        "#!/bin/sh\ntrap '' TERM\nwhile :; do date +%s.%N > $1.next; mv $1.next $1; sleep 0.02; done\n",
    );
    first.write(
        "alone.yaml",
        &format!("flow: 1\nname: alone\nsteps:\n  alone: {{run: ./stubborn.sh {alive}, inputs: [stubborn.sh], exclusive: true}}\n"),
    );
    steps(&second, "plain", 1, 0.1, "cpus: 1");
    let mut holder = first.start(["run", "alone.yaml"]);
    until("it runs", || first.path("alive").exists());
    let waiter = second.start(["run", "plain.yaml"]);
    waits(&second, "has the machine for itself");
    holder.kill();
    done(waiter);
    let last: f64 = first.read("alive").trim().parse().unwrap();
    assert!(last <= times(&second)[0].0, "it was still alive at {last}: {:?}", times(&second));
}
