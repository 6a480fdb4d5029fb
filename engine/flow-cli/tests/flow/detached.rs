//! A detached run that is killed: what it had started goes on, holds what it has, and is followed by the next run, which does nothing
//! twice.

use std::{collections::BTreeMap, fs, thread, time::Duration};

use flow_testkit::{TestSpace, until};
use nix::{
    sys::signal::{Signal, kill},
    unistd::Pid,
};
use serde_json::Value;

use crate::{
    at_once,
    counted::{self, COUNT, COUNT_ONCE_ON, lines, once},
    gpus::HOLD,
    space,
};

/// So many instances of so many seconds, and a step that reads them all.
fn sweep(instances: u32, seconds: &str) -> TestSpace {
    let space = space();
    let count = counted::sweep(instances, seconds, "");
    let all = "  all:\n    run: cat ${{ steps.count | map(attribute='out') | join(' ') }} > all.txt\n    outputs: [all.txt]\n";
    space.write("count.sh", COUNT).write("w.yaml", &format!("flow: 1\nname: w\nsteps:{count}{all}"));
    space
}

/// Two steps go on since their run was killed.
fn killed(seconds: &str) -> TestSpace {
    let space = sweep(2, seconds);
    let pid = detach(&space, &[]);
    until("both run", || lines(&space, "began").len() == 2);
    kill_it(pid);
    space
}

/// Starts a run in the background, and says which process it is.
fn detach(space: &TestSpace, args: &[&str]) -> i32 {
    let mut all = vec!["run", "w.yaml", "--detach"];
    all.extend(args);
    space.flow(all).expect(0);
    let mut pid = 0;
    until("it has begun", || {
        let first = newest(space).and_then(|run| fs::read_to_string(run.join("journal.jsonl")).ok());
        let first = first.and_then(|text| serde_json::from_str::<Value>(text.lines().next()?).ok());
        pid = first.and_then(|line| line["pid"].as_i64()).unwrap_or_default() as i32;
        pid != 0
    });
    pid
}

fn newest(space: &TestSpace) -> Option<std::path::PathBuf> {
    fs::read_dir(space.path(".flow/runs")).ok()?.flatten().map(|run| run.path()).max()
}

pub(crate) fn kill_it(pid: i32) {
    let _ = kill(Pid::from_raw(pid), Signal::SIGKILL);
    // Its first thread may be dead before the others, which have its files open.
    until("it is dead", || {
        let state = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        let threads = fs::read_dir(format!("/proc/{pid}/task")).map_or(0, Iterator::count);
        threads <= 1
            && state.rsplit(')').next().is_none_or(|rest| rest.is_empty() || rest.trim_start().starts_with(['Z', 'X']))
    });
}

fn intents(space: &TestSpace) -> Vec<std::path::PathBuf> {
    let runs = flow_testkit::files_below(&space.path(".flow/runs"));
    runs.into_iter().filter(|path| path.to_string_lossy().contains("/jobs/")).collect()
}

fn nothing_is_left(space: &TestSpace) {
    until("everybody is gone", || space.alive().is_empty());
    assert_eq!(intents(space), Vec::<std::path::PathBuf>::new());
}

#[test]
fn what_a_killed_run_started_goes_on_and_nothing_is_done_twice() {
    let cases = [(0, &[][..]), (400, &["--detach"]), (1100, &[])];
    at_once(cases, |(after, next)| {
        let space = sweep(7, "0.6");
        let pid = detach(&space, &["-j", "3"]);
        thread::sleep(Duration::from_millis(after));
        kill_it(pid);
        let mut args = vec!["run", "w.yaml", "-j", "3"];
        args.extend(next);
        let text = space.flow(args).expect(0).text();
        until("all is done", || lines(&space, "did").len() == 7 && space.flow(["status"]).stdout().contains("done"));
        assert_eq!(
            (lines(&space, "began"), lines(&space, "did")),
            (once(7), once(7)),
            "killed after {after} ms\n{text}"
        );
        nothing_is_left(&space);
        let text = space.flow(["run", "w.yaml"]).expect(0).stdout();
        assert!(text.contains("nothing to do"), "killed after {after} ms: {text}");
        space.flow(["doctor", "--contents"]).expect(0);
    });
}

#[test]
fn what_a_forced_run_left_is_collected_by_the_next_run_forced_or_not() {
    at_once([&[][..], &["-f", "count"]], |next| {
        let space = sweep(2, "2");
        space.flow(["run", "w.yaml"]).expect(0);
        let twice = |file: &str| lines(&space, file).values().copied().collect::<Vec<_>>() == [2, 2];
        let pid = detach(&space, &["-f", "count"]);
        until("both run again", || twice("began"));
        kill_it(pid);
        let planned = space.flow(["plan", "w.yaml"]).expect(0).stdout();
        assert!(planned.contains("count × 2  since run"), "{planned}");
        let text = space.flow([&["run", "w.yaml"], next].concat()).expect(0).text();
        assert!(twice("began") && twice("did"), "{text}");
        let why = space.flow(["why", "count[n=0]"]).expect(0).stdout();
        assert!(
            why.contains("started by run") && why.contains(", which was killed, and collected by this one"),
            "{why}"
        );
        let recorded = space.journal().into_iter().filter(|line| line["event"] == "recorded");
        assert_eq!(recorded.filter(|line| line["result"]["step"] == "count").count(), 2, "{text}");
        nothing_is_left(&space);
        let text = space.flow(["run", "w.yaml"]).expect(0).stdout();
        assert!(text.contains("nothing to do"), "{text}");
    });
}

/// The output of the run that follows a killed one, whose two steps wait for a file `gate`. `edit` happens in between.
fn followed(space: &TestSpace, steps: &str, edit: impl FnOnce(&TestSpace)) -> String {
    let wait = "echo $1 >> $HOME/began; until [ -e $HOME/gate ]; do sleep 0.02; done";
    space.write("wait.sh", wait).write("w.yaml", &format!("flow: 1\nname: w\nsteps:\n{steps}"));
    let pid = detach(space, &["-j", "2"]);
    until("both run", || lines(space, "began").len() == 2);
    kill_it(pid);
    edit(space);
    space.write("gate", "");
    let text = space.flow(["run", "w.yaml"]).expect(1).text();
    nothing_is_left(space);
    text
}

#[test]
fn a_shared_input_that_was_written_while_flow_was_dead_is_seen_by_the_run_that_follows() {
    let space = space();
    // Root has no copies of its own of so many files, unless the file system shares blocks.
    for n in 0..1001 {
        space.write(format!("d/{n}"), "one");
    }
    let steps = "  bad: {run: 'sh wait.sh 0; chmod u+w d/1; echo x >> d/1', inputs: [wait.sh, d]}
  good: {run: 'sh wait.sh 1; sleep 0.5; cat d/1', inputs: [wait.sh, d]}\n";
    let text = followed(&space, steps, |_| ());
    assert!(text.contains("not kept  bad") && text.contains("read-only copy of `d/1`"), "{text}");
    let read = space.flow(["logs", "good"]).expect(0).stdout();
    assert!(text.contains("not kept  bad, good: ") || !read.contains('x'), "{text}{read}");
}

#[test]
fn an_input_read_in_place_that_was_written_while_flow_was_dead_is_seen_by_the_run_that_follows() {
    let space = space();
    space.write("e/a.txt", "a").write("f/a.txt", "a");
    let steps = "  list: {run: 'sh wait.sh 0; cat e/a.txt', inputs: [wait.sh, {path: e, by: listing}]}
  same: {run: 'sh wait.sh 1; cat f/a.txt', inputs: [wait.sh, {path: f, by: listing}]}\n";
    let text = followed(&space, steps, |space| _ = space.write("e/a.txt", "other").write("e/a.txt", "a"));
    assert!(text.contains("not kept  list: `e/a.txt` changed while it ran"), "{text}");
    assert!(!text.contains("not kept  same"), "{text}");
}

#[test]
fn runs_that_follow_can_be_killed_as_well() {
    let space = sweep(4, "3");
    let pid = detach(&space, &["-j", "2"]);
    until("two run", || lines(&space, "began").len() == 2);
    kill_it(pid);
    for command in ["doctor", "gc"] {
        let said = space.flow([command]).expect(0).text();
        assert!(!said.contains("flow kills the processes"), "{said}");
    }
    let pid = detach(&space, &["-j", "4"]);
    until("all run", || lines(&space, "began").len() == 4);
    kill_it(pid);
    until("all have ended", || lines(&space, "did").len() == 4);
    let text = space.flow(["run", "w.yaml"]).expect(0).text();
    assert_eq!(lines(&space, "began"), once(4), "{text}");
    assert!(text.contains(" since run"), "{text}");
    nothing_is_left(&space);
}

#[test]
fn what_nobody_wants_any_more_is_ended() {
    let space = killed("600");
    let said = space.flow(["status"]).stdout();
    assert!(said.contains("was killed, but 2 steps are running: count[n=0], count[n=1]"), "{said}");
    let said = space.flow(["show", "count[n=1]"]).expect(0).stdout();
    assert_eq!(said, "count[n=1]: no result yet: flow was killed while it ran, but it continues (`flow status`)\n");
    let said = space.flow(["why", "count[n=1]"]).expect(0).stdout();
    assert!(said.contains("running since run") && said.contains("the next run follows it"), "{said}");
    for args in [&["plan"][..], &["run", "-n"], &["run", "-n", "-f"]] {
        let said = space.flow(args.iter().copied()).expect(0).stdout();
        assert!(said.contains("running        count × 2  since run "), "{said}");
        assert!(said.contains("3 instances: 2 running, 1 after them if needed"), "{said}");
    }
    // One of them is not there any more, the other one is another step.
    let text = space.read("w.yaml").replace("range(2)", "range(1)").replace(" 600", " 0.1");
    space.write("w.yaml", &text);
    let said = space.flow(["plan", "w.yaml"]).expect(0).text();
    assert!(said.contains("note: 2 steps of run ") && said.contains("`flow run` cancels them"), "{said}");
    let said = space.flow(["run", "w.yaml"]).expect(0).text();
    for label in ["count[n=0]", "count[n=1]"] {
        let ended = format!("ended work of a killed run that this run does not need: {label}\n");
        assert_eq!(said.matches(&ended).count(), 1, "{said}");
    }
    assert_eq!(lines(&space, "did"), once(1));
    nothing_is_left(&space);
    space.flow(["run", "w.yaml"]).expect(0);
    assert_eq!(intents(&space), Vec::<std::path::PathBuf>::new());
}

#[test]
fn what_a_killed_run_left_is_cancelled() {
    let space = killed("600");
    let run = newest(&space).unwrap().file_name().unwrap().to_str().unwrap().to_owned();
    let said = space.flow(["cancel", &*run]).expect(0).text();
    assert!(said.contains("flow is ending the steps that it left running"), "{said}");
    until("everybody is gone", || space.alive().is_empty());
    let text = space.read("w.yaml").replace("600", "0.1");
    space.write("w.yaml", &text);
    space.flow(["run", "w.yaml"]).expect(0);
    assert_eq!(lines(&space, "did"), once(2));
    nothing_is_left(&space);
}

/// A step that writes half of its output and exits with 0 if it is told to end, and all of it if `second` exists. The
/// next step reads the output.
fn ends_early(space: &TestSpace, second: &str, on_term: &str) {
    let script = format!(
        "\
echo 1 >> $HOME/began
if [ -e $HOME/{second} ]; then echo all > out.txt; exit; fi
trap 'touch $HOME/told; {on_term}echo half > out.txt; exit 0' TERM
while :; do sleep 0.05; done
"
    );
    let workflow = "\
flow: 1
name: w
steps:
  a: {run: sh work.sh, inputs: [work.sh], outputs: [out.txt]}
  b: {run: 'cat ${{ steps.a.out }} > $HOME/read'}
";
    space.write("work.sh", &script).write("w.yaml", workflow);
}

#[test]
fn what_was_told_to_end_before_its_run_was_killed_has_no_result() {
    let space = space();
    ends_early(&space, "on", "sleep 1; ");
    let pid = detach(&space, &[]);
    until("it runs", || space.path("began").exists());
    let _ = kill(Pid::from_raw(pid), Signal::SIGTERM);
    until("it is told to end", || space.path("told").exists());
    kill_it(pid);
    until("it has ended", || space.alive().is_empty());
    space.write("on", "");
    let text = space.flow(["run", "w.yaml"]).expect(0).text();
    assert_eq!((space.read("read"), lines(&space, "began")["1"]), ("all\n".to_owned(), 2), "{text}");
    nothing_is_left(&space);
}

#[test]
fn what_others_cancel_while_it_is_followed_is_done_again() {
    let space = space();
    ends_early(&space, "told", "");
    let pid = detach(&space, &[]);
    until("it runs", || space.path("began").exists());
    kill_it(pid);
    let killed = newest(&space).unwrap().file_name().unwrap().to_str().unwrap().to_owned();
    let mut flow = space.start(["run", "w.yaml"]);
    until("it is followed", || flow.output().contains("running since run"));
    space.flow(["cancel", &*killed]).expect(0);
    assert_eq!(flow.wait().code(), Some(0), "{}", flow.output());
    assert!(flow.output().contains("something else than this run told it to end"), "{}", flow.output());
    assert_eq!((space.read("read"), lines(&space, "began")["1"]), ("all\n".to_owned(), 2), "{}", flow.output());
    nothing_is_left(&space);
}

#[test]
fn what_is_lost_while_it_is_followed_is_done_again() {
    // Who keeps it is killed too, while it is followed.
    let space = sweep(1, "0");
    space.write("count.sh", COUNT_ONCE_ON);
    let pid = detach(&space, &[]);
    until("it runs", || !lines(&space, "began").is_empty());
    kill_it(pid);
    let mut flow = space.start(["run", "w.yaml"]);
    until("it is followed", || flow.output().contains("running since run"));
    let keeps =
        space.alive().into_iter().find(|(_, command)| command.contains("__supervisor")).expect("who keeps it").0;
    kill_it(keeps);
    until("it runs again", || lines(&space, "began")["0"] == 2);
    space.write("on", "");
    assert_eq!(flow.wait().code(), Some(0), "{}", flow.output());
    assert_eq!((lines(&space, "began")["0"], lines(&space, "did")["0"]), (2, 1), "{}", flow.output());
    nothing_is_left(&space);
}

#[test]
fn numbers_limits_and_failures_are_those_of_a_run_that_was_never_killed() {
    let space = space();
    space.write(
        "w.yaml",
        "\
flow: 1
name: w
steps:
  train:
    run: 'for n in 1 2 3 4; do sleep 0.4; echo Epoch $n loss 0.$n; done'
    metrics: {stdout: 'Epoch {epoch} loss {loss}'}
  long: {run: 'touch $HOME/began; sleep 60', timeout: 1s, record: [timed_out]}
  fails: {run: 'sleep 0.5; echo oh no >&2; exit 3'}
",
    );
    let pid = detach(&space, &["-k"]);
    until("they run", || space.path("began").exists());
    kill_it(pid);
    // All that it started ends while nobody follows.
    until("only flow's own are left", || space.alive().iter().all(|(_, command)| command.contains(" __")));
    space.flow(["run", "w.yaml", "-k"]).expect(1);
    let journal = space.journal();
    let result = |label: &str| {
        let found = journal.iter().find(|line| line["result"]["label"] == label);
        found.unwrap_or_else(|| panic!("{label} in {journal:?}"))["result"].clone()
    };
    let train = result("train");
    assert_eq!(train["outcome"], "ok");
    let series = &train["metrics"]["loss"];
    assert!(!series.is_null(), "{train}");
    let usage = &train["usage"];
    let wall = usage["wall_s"].as_f64().unwrap();
    assert!((1.5..5.0).contains(&wall), "{usage}");
    let epoch = usage["epoch_s"].as_f64().or_else(|| usage["phases"]["period_s"].as_f64());
    assert!(epoch.is_none_or(|epoch| (0.3..1.0).contains(&epoch)), "{usage}");
    assert_eq!(result("long")["outcome"], "timed_out");
    let wall = result("long")["usage"]["wall_s"].as_f64().unwrap();
    assert!((0.9..4.0).contains(&wall), "its time went on: {wall}");
    assert_eq!(result("fails")["outcome"], "failed");
    nothing_is_left(&space);
}

#[test]
fn a_group_at_its_barrier_is_released_by_the_next_run() {
    at_once([0, 1], |after| {
        let space = space();
        space.write(
            "w.yaml",
            "\
flow: 1
name: w
steps:
  pair:
    matrix: {n: [1, 2]}
    run: sh train.sh ${{ n }}
    inputs: [train.sh]
    corun: {group: all, gpus: shared}
",
        );
        // The second comes to the barrier late, or both have passed it.
        space.write(
            "train.sh",
            "echo $1 >> $HOME/began; if [ $1 = 2 ]; then sleep 1; fi; flow ready; echo $1 >> $HOME/past; sleep 1.5; echo $1 >> $HOME/did\n",
        );
        let pid = detach(&space, &[]);
        let file = if after == 0 { "began" } else { "past" };
        until("it is so far", || lines(&space, file).len() == 2);
        kill_it(pid);
        let text = space.flow(["run", "w.yaml"]).expect(0).text();
        let both = BTreeMap::from([("1".to_owned(), 1), ("2".to_owned(), 1)]);
        assert_eq!((lines(&space, "began"), lines(&space, "did")), (both.clone(), both), "{text}");
        let recorded: Vec<Value> = space.journal().into_iter().filter(|line| line["event"] == "recorded").collect();
        assert_eq!(recorded.len(), 2, "{text}");
        for line in recorded {
            let corun = &line["result"]["circumstances"]["corun"];
            let window = corun["closed_at"].as_f64().unwrap() - corun["released_at"].as_f64().unwrap();
            assert!((1.0..3.0).contains(&window), "{corun}");
        }
        nothing_is_left(&space);
    });
}

#[test]
fn what_it_holds_stays_held_and_is_given_back() {
    let mut first = space();
    let gpus = first.gpus("gpu NVIDIA A; memory=24GiB\n");
    let mut second = space();
    second.beside(&first);
    second.gpus(&gpus.text());
    first.script("hold.sh", HOLD).write(
        "w.yaml",
        "flow: 1\nname: w\nsteps:\n  a: {run: './hold.sh 10 4; echo a >> $HOME/did', inputs: [hold.sh], gpus: 1, cpus: 1}\n",
    );
    second.write("w.yaml", "flow: 1\nname: v\nsteps:\n  b: {run: 'echo b >> $HOME/did', gpus: 1}\n");
    second.write("x.yaml", "flow: 1\nname: x\nsteps:\n  c: {run: 'echo c >> $HOME/did', exclusive: true}\n");
    let pid = detach(&first, &[]);
    until("it runs", || gpus.text().contains("sm=30"));
    kill_it(pid);
    let mut others = ["w.yaml", "x.yaml"].map(|file| second.start(["run", file]));
    let said = first.flow(["queue"]).expect(0).stdout();
    assert!(said.contains("1 step: 1 CPU"), "{said}");
    thread::sleep(Duration::from_millis(1500));
    assert!(!second.path("did").exists() && !first.path("did").exists(), "the GPU and the machine are held");
    let text = first.flow(["run", "w.yaml"]).expect(0).text();
    assert!(text.contains("running since run"), "{text}");
    for other in &mut others {
        assert_eq!(other.wait().code(), Some(0), "{}", other.output());
    }
    assert_eq!(lines(&first, "did"), BTreeMap::from([("a".to_owned(), 1)]));
    let result = first.journal().into_iter().find(|line| line["event"] == "recorded").unwrap()["result"].clone();
    assert_eq!(result["circumstances"]["gpu_models"], serde_json::json!(["NVIDIA A"]), "{result}");
    assert!(result["usage"]["gpus"][0]["memory_peak"].as_u64().unwrap_or_default() > 0, "{result}");
    nothing_is_left(&first);
}

#[test]
fn a_run_that_waits_for_a_step_follows_it_when_its_run_is_killed() {
    let space = sweep(2, "2.5");
    let pid = detach(&space, &[]);
    until("both run", || lines(&space, "began").len() == 2);
    let mut flow = space.start(["run", "w.yaml"]);
    until("it waits", || flow.output().contains("each runs once"));
    kill_it(pid);
    assert_eq!(flow.wait().code(), Some(0), "{}", flow.output());
    assert_eq!((lines(&space, "began"), lines(&space, "did")), (once(2), once(2)), "{}", flow.output());
    nothing_is_left(&space);
}

#[test]
fn with_its_store_goes_what_goes_on() {
    let space = killed("600");
    space.flow(["status"]).expect(0);
    fs::remove_dir_all(space.path(".flow")).unwrap();
    until("everybody is gone", || space.alive().is_empty());
}

#[test]
fn who_follows_ends_what_it_follows_with_ctrl_c() {
    let space = killed("600");
    let mut flow = space.start(["run", "w.yaml"]);
    // One that it does not follow yet goes on.
    until("it follows both", || {
        let journal = newest(&space).and_then(|run| fs::read_to_string(run.join("journal.jsonl")).ok());
        let started = journal.map_or(0, |text| text.matches(r#""event":"started""#).count());
        flow.output().contains("running since run") && started == 2
    });
    flow.signal(Signal::SIGINT);
    assert_eq!(flow.wait().code(), Some(130), "{}", flow.output());
    nothing_is_left(&space);
}

#[test]
fn the_log_of_what_goes_on_is_followed_to_its_end() {
    let space = space();
    let run = "touch $FLOW_ATTEMPT/../../../../began; sleep 2; echo second; sleep 1; printf last";
    space.write(
        "w.yaml",
        &format!("flow: 1\nname: w\nsteps:\n  a: {{run: 'echo first; {run}'}}\n  b: {{run: echo b}}\n"),
    );
    let pid = detach(&space, &[]);
    until("it runs", || space.path(".flow/began").exists());
    kill_it(pid);
    let followed = space.flow(["logs", "a", "-f"]).expect(0).stdout();
    assert_eq!(followed, "first\nsecond\nlast\n");
    assert_eq!(space.flow(["logs", "a", "-f"]).expect(0).stdout(), followed, "and it ends where it has ended");
    let said = space.flow(["show", "a"]).expect(0).stdout();
    let ended = "flow was killed while it ran; it has ended since, and the next run collects its result";
    assert_eq!(said, format!("a: no result yet: {ended}\n"));
    let said = space.flow(["plan"]).expect(0).stdout();
    assert!(said.contains("  ended          a  since run ") && said.contains(" ended since"), "{said}");
    space.flow(["run", "w.yaml"]).expect(0);
    nothing_is_left(&space);
}
