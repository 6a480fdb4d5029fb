//! Slurm's own daemons are away for a while, or die: what needs none of them is done, and no step is done twice.

use std::{
    collections::BTreeMap,
    thread,
    time::{Duration, Instant},
};

use flow_testkit::{
    slurm::{CONTROLLER, Cluster, FOUR_SECONDS},
    until,
};
use nix::sys::signal::Signal;

use super::Lab;
use crate::counted::{COUNT_ONCE_ON, once, sweep};

/// Where its controller is away, Slurm's own commands give up after six seconds, and not after nine: flow gives up before, or waits for
/// that.
const SIX_SECONDS: &str = "MessageTimeout=7";

#[test]
#[ignore = "needs Slurm"]
fn with_its_controller_down_a_run_ends_and_leaves_its_jobs_to_the_next() {
    let lab = Lab::on(Cluster::start_with(1, 1, FOUR_SECONDS), &sweep(3, 0, "gpus: 1"));
    lab.space.write("count.sh", COUNT_ONCE_ON);
    let mut flow = lab.space.start(["run", "w.yaml"]);
    until("one runs and two wait", || lab.queue().lines().count() == 3 && !lab.lines("began").is_empty());
    lab.cluster.stop(CONTROLLER);
    flow.signal(Signal::SIGINT);
    let told = Instant::now();
    assert_eq!(flow.wait().code(), Some(130), "{}", flow.output());
    assert!(told.elapsed() < Duration::from_secs(20), "{:?}", told.elapsed());
    assert!(
        flow.output().contains("2 jobs stay in Slurm's queue: the next `flow run` follows them"),
        "{}",
        flow.output()
    );
    let planned = lab.space.flow(["plan", "w.yaml"]).expect(0).text();
    assert!(
        planned.contains("note: Slurm cannot be queried: ") && planned.contains("2 unknown, 1 to run"),
        "{planned}"
    );
    let refused = lab.space.flow(["run", "w.yaml"]).expect(1).text();
    assert!(refused.contains("`scontrol ping` shows whether its controller is up"), "{refused}");
    lab.cluster.start_again(CONTROLLER);
    lab.cluster.register_nodes();
    lab.space.write("on", "");
    let text = lab.space.flow(["run", "w.yaml"]).expect(0).text();
    assert_eq!(lab.lines("did"), once(3), "{text}");
    assert_eq!(lab.lines("began").values().sum::<u32>(), 4, "the one that ran was ended, and no other: {text}");
    assert_eq!(lab.queue(), "");
}

#[test]
#[ignore = "needs Slurm"]
fn a_controller_that_is_away_for_a_while_is_told_of_once() {
    let lab = Lab::on(Cluster::start_with(1, 2, SIX_SECONDS), &sweep(2, 2, "gpus: 1"));
    let other = lab.cluster.run("sbatch", ["--parsable", "--gres=gpu:1", "--output=/dev/null", "--wrap=sleep 1000"]);
    let mut flow = lab.space.start(["run", "w.yaml"]);
    until("one runs and one waits", || lab.queue().lines().count() == 3 && !lab.lines("began").is_empty());
    lab.cluster.stop(CONTROLLER);
    let away = Instant::now();
    until("it says so", || flow.output().contains("Slurm does not answer"));
    // Before a command of Slurm's gives up; then several do.
    assert!(away.elapsed() < Duration::from_secs(6), "{:?}", away.elapsed());
    thread::sleep(Duration::from_secs(7));
    lab.cluster.start_again(CONTROLLER);
    lab.cluster.register_nodes();
    // What ended meanwhile holds its GPU for a quarter of a minute: only then its node tells again of that.
    lab.cluster.run("scancel", [other.trim()]);
    assert_eq!(flow.wait().code(), Some(0), "{}", flow.output());
    let text = flow.output();
    let times = |words: &str| text.matches(words).count();
    assert_eq!((times("does not answer"), times("answers again, after ")), (1, 1), "{text}");
    assert_eq!(lab.lines("did"), once(2), "{text}");
}

#[test]
#[ignore = "needs Slurm"]
fn what_needs_no_controller_is_answered_and_done_without_one() {
    let workflow = "
  train: {gpus: 1, measured: true, run: 'echo loss 0.5', metrics: {stdout: 'loss {loss}'}}
  more: {when: more, gpus: 1, run: 'true'}
  here: {on: local, run: 'cat data.txt', inputs: [data.txt]}
";
    let lab = Lab::on(Cluster::start_with(1, 1, SIX_SECONDS), workflow);
    lab.space.write("w.yaml", &format!("{}params: {{more: false}}\n", lab.space.read("w.yaml")));
    lab.space.write("data.txt", "1");
    lab.space.flow(["run", "w.yaml"]).expect(0);
    lab.cluster.stop(CONTROLLER);
    lab.space.write("data.txt", "2");
    let note = "note: Slurm cannot be queried: `sinfo` did not answer in time; \
                flow uses its last answer about the nodes";
    let asked = Instant::now();
    let said = lab.space.flow(["plan", "w.yaml"]).expect(0).text();
    assert!(said.contains(note) && said.contains("1 cached, 1 to run"), "{said}");
    assert!(asked.elapsed() < Duration::from_secs(20), "{:?}", asked.elapsed());
    let said = lab.space.flow(["run", "w.yaml"]).expect(0).text();
    assert!(said.contains("Slurm cannot be queried") && said.contains("done: 1 cached, 1 ran"), "{said}");
    // Without a look at the cluster.
    let said = lab.space.flow(["run", "w.yaml"]).expect(0).text();
    assert!(said.contains("nothing to do") && !said.contains("cannot be asked"), "{said}");
    let said = lab.space.flow(["run", "w.yaml", "--set", "more=true"]).expect(1).text();
    assert!(said.contains("a step should run on Slurm, which does not answer"), "{said}");
    lab.cluster.start_again(CONTROLLER);
    lab.cluster.register_nodes();
    lab.space.flow(["run", "w.yaml", "--set", "more=true"]).expect(0);
}

#[test]
#[ignore = "needs Slurm"]
fn a_lost_node_costs_no_retry_and_a_dead_controller_nothing() {
    let lab = Lab::new(2, 1, &sweep(1, 0, "gpus: 1"));
    lab.space.write("count.sh", COUNT_ONCE_ON);
    let mut flow = lab.space.start(["run", "w.yaml"]);
    until("it runs", || !lab.lines("began").is_empty());
    let node = lab.cluster.run("squeue", ["--noheader", "--format=%N"]);
    lab.cluster.run("scontrol", ["update", &format!("nodename={}", node.trim()), "state=down", "reason=test"]);
    until("it runs again", || lab.lines("began").values().sum::<u32>() == 2);
    lab.cluster.kill(CONTROLLER);
    thread::sleep(Duration::from_secs(2));
    lab.cluster.start_again(CONTROLLER);
    lab.space.write("on", "");
    assert_eq!(flow.wait().code(), Some(0), "{}", flow.output());
    let text = flow.output();
    assert!(text.contains("while it ran job"), "{text}");
    lab.expect_no_job();
}

#[test]
#[ignore = "needs Slurm"]
fn a_node_whose_daemon_dies_does_what_it_does() {
    let lab = Lab::new(1, 1, &sweep(1, 2, "gpus: 1"));
    let mut flow = lab.space.start(["run", "w.yaml"]);
    until("it runs", || !lab.lines("began").is_empty());
    lab.cluster.kill("node1");
    assert_eq!(flow.wait().code(), Some(0), "{}", flow.output());
    assert_eq!(lab.lines("began"), BTreeMap::from([("0".to_owned(), 1)]));
    lab.cluster.start_again("node1");
}
