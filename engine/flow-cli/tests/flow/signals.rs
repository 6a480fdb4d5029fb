//! Ctrl-C once and twice; runs in the background, watched and cancelled.

use std::fs;

use flow_testkit::{TestSpace, until};
use nix::sys::signal::Signal;

use crate::space;

/// Ends by itself when it is asked, and says so.
const POLITE: &str = "trap 'echo asked >> $0.log; exit 0' TERM INT; sleep 81 & wait\n";
const STUBBORN: &str = "trap '' TERM INT; sleep 82; sleep 83; sleep 84\n";

fn running(script: &str) -> (TestSpace, flow_testkit::RunningFlow) {
    let space = space();
    space.write("long.yaml", "flow: 1\nname: long\nsteps:\n  long: {run: sh long.sh, inputs: [long.sh]}\n  after: {needs: [long], run: 'true'}\n");
    space.write("long.sh", script);
    let flow = space.start(["run", "long.yaml"]);
    until("the step runs", || space.alive().iter().any(|(_, command)| command.starts_with("sleep 8")));
    (space, flow)
}

#[test]
fn the_first_interrupt_asks_and_nothing_new_starts() {
    let (space, mut flow) = running(POLITE);
    flow.signal(Signal::SIGINT);
    assert_eq!(flow.wait().code(), Some(130), "{}", flow.output());
    assert!(!space.ran().contains(&"after".to_owned()));
    assert!(flow.output().contains("  cancelled long: the run was cancelled"), "{}", flow.output());
    // The keeper ends when it sees that flow has.
    until("nothing is left", || space.alive().is_empty());
}

#[test]
fn the_second_interrupt_kills() {
    let (space, mut flow) = running(STUBBORN);
    flow.signal(Signal::SIGINT);
    until("it says that it waits", || flow.output().contains("a second Ctrl-C"));
    assert!(flow.is_alive(), "the step has time to end");
    let begin = std::time::Instant::now();
    flow.signal(Signal::SIGINT);
    assert_eq!(flow.wait().code(), Some(130), "{}", flow.output());
    assert!(begin.elapsed().as_secs() < 8, "killed, not waited for");
    until("the keeper has ended as well", || space.alive().is_empty());
}

/// Hashing its output takes minutes, also where no byte of it is read.
const HUGE: &str = "flow: 1\nname: huge\nsteps:\n  huge: {run: 'sleep 1; echo ran >> RAN; truncate -s 1T huge', outputs: [huge], timeout: 2s}\n";

#[test]
fn the_second_interrupt_leaves_hashing_and_the_next_run_takes_it_up() {
    let space = space();
    space.write("huge.yaml", &HUGE.replace("RAN", &space.path("ran").display().to_string()));
    let attempt = || fs::read_dir(space.path(".flow/runs")).ok()?.flatten().next();
    let output = || attempt().map(|run| run.path().join("work/0/work/huge")).filter(|path| path.exists());
    let mut flow = space.start(["run", "huge.yaml"]);
    until("its output is hashed", || output().is_some() && flow.output().contains("started"));
    std::thread::sleep(std::time::Duration::from_millis(2500));
    assert!(flow.is_alive(), "its time limit is over, and bounds its program only: {}", flow.output());
    flow.signal(Signal::SIGINT);
    until("it says that it waits", || flow.output().contains("a second Ctrl-C"));
    let begin = std::time::Instant::now();
    flow.signal(Signal::SIGINT);
    assert_eq!(flow.wait().code(), Some(130), "{}", flow.output());
    assert!(begin.elapsed().as_secs() < 20, "it does not wait for the hash");
    assert!(!space.journal().iter().any(|line| line["event"] == "recorded"), "nothing is recorded as done");
    until("the keeper has ended as well", || space.alive().is_empty());
    // What takes no time is enough for the rest.
    fs::File::options().write(true).open(output().unwrap()).unwrap().set_len(1 << 20).unwrap();
    let said = space.flow(["run", "huge.yaml"]).expect(0).stdout();
    assert_eq!(fs::read_to_string(space.path("ran")).unwrap(), "ran\n", "{said}");
    space.flow(["get", "huge", "--to", "got"]).expect(0);
    space.flow(["doctor"]).expect(0);
}

#[test]
fn what_was_ignored_at_the_start_stays_ignored() {
    let space = space();
    space.write("long.yaml", "flow: 1\nname: long\nsteps:\n  long: {run: sleep 88}\n");
    // As a shell without job control starts what it leaves in the background.
    let mut flow = space.start_under(&["env", "--ignore-signal=INT"], ["run", "long.yaml"]);
    until("the step runs", || space.alive().iter().any(|(_, command)| command.starts_with("sleep 88")));
    flow.signal(Signal::SIGINT);
    std::thread::sleep(std::time::Duration::from_secs(1));
    assert!(flow.is_alive() && !flow.output().contains("interrupted"), "{}", flow.output());
    flow.signal(Signal::SIGTERM);
    assert_eq!(flow.wait().code(), Some(130), "{}", flow.output());
    until("nothing is left", || space.alive().is_empty());
}

#[test]
fn a_terminal_that_is_closed_ends_the_run_as_an_interrupt_does() {
    let space = space();
    space.write("long.yaml", "flow: 1\nname: long\nsteps:\n  long: {run: sleep 86}\n");
    let (mut flow, terminal) = space.start_on_terminal(["run", "long.yaml"]);
    until("the step runs", || space.alive().iter().any(|(_, command)| command.starts_with("sleep 86")));
    drop(terminal);
    flow.signal(Signal::SIGHUP);
    assert_eq!(flow.wait().code(), Some(130));
    let ended = space.journal().into_iter().find(|line| line["event"] == "run_ended").expect("it ends its run");
    assert_eq!(ended["exit"], 130, "{ended}");
    until("nothing is left", || space.alive().is_empty());
}

#[test]
fn a_terminal_that_is_closed_ends_no_run_under_nohup() {
    let space = space();
    space.write("long.yaml", "flow: 1\nname: long\nsteps:\n  long: {run: 'sleep 87 || echo went on'}\n");
    let mut flow = space.start_with_nohup(["run", "long.yaml"]);
    let sleeps = || space.alive().into_iter().find(|(_, command)| command.starts_with("sleep 87"));
    until("the step runs", || sleeps().is_some());
    flow.signal(Signal::SIGHUP);
    std::thread::sleep(std::time::Duration::from_secs(1));
    assert!(flow.is_alive() && sleeps().is_some(), "{}", flow.output());
    let (pid, _) = sleeps().unwrap();
    nix::sys::signal::kill(nix::unistd::Pid::from_raw(pid), Signal::SIGTERM).unwrap();
    assert_eq!(flow.wait().code(), Some(0), "{}", flow.output());
    // Ctrl-C and `kill` end it as ever.
    let mut flow = space.start_with_nohup(["run", "long.yaml", "--force"]);
    until("the step runs", || sleeps().is_some());
    flow.signal(Signal::SIGTERM);
    assert_eq!(flow.wait().code(), Some(130), "{}", flow.output());
    until("nothing is left", || space.alive().is_empty());
}

#[test]
fn a_detached_run_goes_on_is_watched_and_cancelled() {
    let space = space();
    space.write("long.yaml", "flow: 1\nname: long\nsteps:\n  long: {run: sleep 85}\n");
    let said = space.flow(["run", "long.yaml", "--detach"]).expect(0).stdout();
    assert!(said.contains("background"), "{said}");
    until("the step runs", || space.alive().iter().any(|(_, command)| command.starts_with("sleep 85")));
    let mut watching = space.start(["attach"]);
    until("it shows the step", || watching.output().contains("long"));
    space.flow(["cancel"]).expect(0);
    until("everybody is gone", || space.alive().iter().all(|(_, command)| !command.starts_with("sleep 85")));
    assert_eq!(watching.wait().code(), Some(130), "attach ends as the run did: {}", watching.output());
    until("the engine is gone too", || space.alive().is_empty());
}
