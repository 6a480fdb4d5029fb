//! What clusters tell wrong: nodes whose clocks differ from the engine's, and a controller that lost all that it knew and gives numbers
//! a second time.

use std::{fs, process::Command};

use flow_testkit::until;
use nix::sys::signal::Signal;

use super::{HEAD, Lab};
use crate::{
    at_once,
    counted::{COUNT_ONCE_ON, once, sweep},
};

/// What gives a program that is told to load it another clock.
const CLOCK: &str = r#"
#define _GNU_SOURCE
#include <stdlib.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>
int clock_gettime(clockid_t clock, struct timespec *time) {
  int failed = syscall(SYS_clock_gettime, clock, time);
  const char *by = getenv("LD_CLOCK_OFF_BY");
  if (clock == CLOCK_REALTIME && !failed && by) time->tv_sec += atoi(by);
  return failed;
}
"#;

const STEPS: &str = "
  train:
    run: 'for n in 1 2 3; do echo Epoch $n loss 0.$n; sleep 1; done; date +%s > out.txt'
    outputs: [out.txt]
    metrics: {stdout: 'Epoch {epoch} loss {loss}'}
  late: {run: sleep 60, timeout: 2s, record: [timed_out]}
  pair:
    matrix: {n: [1, 2]}
    run: 'sleep ${{ n }}; flow ready; sleep 1'
    corun: {group: all}
  slow: {run: sh count.sh 0 4, inputs: [count.sh]}
";

#[test]
#[ignore = "needs Slurm"]
fn a_nodes_clock_may_be_wrong() {
    at_once([3600, -3600], |off_by| {
        let lab = Lab::new(2, 0, STEPS);
        let text = lab.space.read("w.yaml").replace("poll: 1s", "poll: 1s, flow: flow-with-another-clock");
        lab.space.write("w.yaml", &text);
        lab.space.write("clock.c", CLOCK);
        let (source, library) = (lab.space.path("clock.c"), lab.space.path("clock.so"));
        let built = Command::new("cc").args(["-shared", "-fPIC", "-o"]).args([&library, &source]).status();
        assert!(built.is_ok_and(|status| status.success()), "a compiler of C is needed, as for building flow");
        let flow = env!("CARGO_BIN_EXE_flow");
        let starts =
            format!("#!/bin/sh\nLD_PRELOAD={} LD_CLOCK_OFF_BY={off_by} exec {flow} \"$@\"\n", library.display());
        lab.space.script("flow-with-another-clock", &starts);

        // Somebody else joins what was begun, too.
        let mut first = lab.space.start(["run", "w.yaml"]);
        until("it runs", || !lab.lines("began").is_empty());
        first.kill();
        let text = lab.space.flow(["run", "w.yaml"]).expect(0).text();
        assert_eq!((lab.lines("began"), lab.lines("did")), (once(1), once(1)), "{text}");
        let results = lab.results();
        let now = results["late"]["ended_at"].as_f64().unwrap() / 1e3;
        let out = lab.space.path("out.txt");
        lab.space.flow(["get", "train", "--to", out.to_str().unwrap()]).expect(0);
        let there: f64 = lab.space.read("out.txt").trim().parse().unwrap();
        assert!((now - there - f64::from(off_by)).abs() < 60.0, "the node's clock is off: {now} {there}");
        for (label, least, most) in [("train", 2.9, 8.0), ("late", 1.9, 8.0), ("slow", 3.9, 10.0)] {
            let wall = results[label]["usage"]["wall_s"].as_f64().unwrap();
            assert!((least..most).contains(&wall), "{label} took {wall} s, {off_by}");
        }
        assert_eq!(results["late"]["outcome"], "timed_out");
        let epoch = results["train"]["metrics"]["epoch_time"]["value"].as_f64().unwrap();
        assert!((0.8..2.0).contains(&epoch), "an epoch took {epoch} s, {off_by}");
        for label in ["pair[n=1]", "pair[n=2]"] {
            let corun = &results[label]["circumstances"]["corun"];
            let at = |what: &str| corun[what].as_f64().unwrap();
            assert!((0.0..15.0).contains(&at("released_at")), "{label} {corun}");
            assert!((0.8..6.0).contains(&(at("closed_at") - at("released_at"))), "{label} {corun}");
        }
        assert!(lab.space.flow(["run", "w.yaml"]).expect(0).stdout().contains("nothing to do"));
        lab.expect_no_job();
    });
}

#[test]
#[ignore = "needs Slurm"]
fn a_controller_that_lost_its_state_gives_numbers_to_others() {
    const OTHERS: u32 = 4;
    let lab = Lab::new(1, 0, &sweep(2, 0, ""));
    lab.space.write("count.sh", COUNT_ONCE_ON);
    let others = || {
        lab.cluster.forget();
        for _ in 0..OTHERS {
            let wrap = format!("--wrap=sleep 3; echo other >> {}", lab.space.path("others").display());
            // Later, because a node refuses a job with the number of one that it still runs.
            lab.cluster.run("sbatch", ["--output=/dev/null", "--begin=now+5", &wrap]);
        }
    };
    let mut flow = lab.space.start(["run", "w.yaml"]);
    until("both run", || lab.lines("began").len() == 2);
    others();
    // The controller does not know their jobs, and has their node end them.
    let again = || lab.lines("began").values().filter(|times| **times >= 2).count();
    until("both run again", || again() == 2 || flow.output().contains("done:"));
    lab.space.write("on", "");
    assert_eq!(flow.wait().code(), Some(0), "{}", flow.output());
    assert_eq!(lab.lines("did"), once(2), "{}", flow.output());
    until("the others have ended", || lab.lines("others").get("other") == Some(&OTHERS));
    assert_eq!(lab.results().len(), 2);
    lab.expect_no_job();

    // Nor is anything of others cancelled that has the numbers of what is to end.
    fs::remove_file(lab.space.path("on")).unwrap();
    lab.space.write("w.yaml", &format!("{HEAD}{}", sweep(2, 60, "")));
    let mut flow = lab.space.start(["run", "w.yaml"]);
    until("both run", || lab.lines("began").values().sum::<u32>() >= 6 && lab.jobs().len() == 2);
    fs::remove_file(lab.space.path("others")).unwrap();
    others();
    flow.signal(Signal::SIGINT);
    assert_eq!(flow.wait().code(), Some(130), "{}", flow.output());
    until("the others have ended", || lab.lines("others").get("other") == Some(&OTHERS));
    lab.expect_no_job();
}

#[test]
#[ignore = "needs Slurm"]
fn what_a_controller_forgot_is_looked_for_together() {
    let mut lab = Lab::new(1, 0, &sweep(24, 3, ""));
    let said = lab.space.path("looks").display().to_string();
    let script = format!(
        "#!/bin/sh\ncase \"$*\" in *--name=*) echo asked >> {said};; esac\nPATH=${{PATH#*:}}\nexec squeue \"$@\"\n"
    );
    lab.first_on_the_path("squeue", &script);
    let mut flow = lab.space.start(["run", "w.yaml"]);
    until("some run, and all are queued", || lab.jobs().len() == 24 && !lab.lines("began").is_empty());
    lab.cluster.forget();
    let again = |flow: &str| flow.matches("it is retried").count();
    until("those that waited are asked for again", || again(&flow.output()) >= 4 && lab.queue().contains("flow-"));
    let asked = lab.lines("looks").get("asked").copied().unwrap_or_default() as usize;
    assert!((1..again(&flow.output())).contains(&asked), "squeue was called {asked} times: {}", flow.output());
    flow.kill();
}
