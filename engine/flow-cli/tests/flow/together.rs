//! Several flows on one store: they run at once, look, or are told who it is.

use std::fs;

use flow_testkit::until;
use nix::sys::signal::Signal;

use crate::space;

const SLOW: &str =
    "flow: 1\nname: slow\nsteps:\n  slow: {run: sh -c 'sleep 1.5'}\n  after: {needs: [slow], run: 'true'}\n";

#[test]
fn a_second_run_begins_at_once_and_shares_results_while_the_first_goes_on() {
    let space = space();
    space.write("slow.yaml", &SLOW.replace("sleep 1.5", "sleep 30"));
    space.write("fast.yaml", "flow: 1\nname: fast\nsteps:\n  a: {run: echo a > out/a, outputs: [out/a]}\n  b: {run: 'cat ${{ steps.a.out }}'}\n");
    let mut first = space.start(["run", "slow.yaml"]);
    until("the first runs", || space.alive().iter().any(|(_, command)| command.starts_with("sleep 30")));
    let said = space.flow(["run", "fast.yaml", "--no-wait"]).expect(0).text();
    assert!(!said.contains("in use"), "{said}");
    let plan = space.flow(["plan", "fast.yaml"]).expect(0).text();
    assert!(plan.contains("2 cached") || plan.contains("2 reused") || plan.contains("nothing to run"), "{plan}");
    for command in [&["gc"][..], &["doctor"], &["forget", "-w", "fast.yaml", "a"]] {
        let refused = space.flow(command).expect(1).stderr();
        assert!(refused.contains("in use by process") && refused.contains("flow run slow.yaml"), "{refused}");
    }
    space.flow(["cancel"]).expect(0);
    assert_eq!(first.wait().code(), Some(130));
    let again = space.flow(["run", "fast.yaml"]).expect(0).text();
    assert_eq!(std::fs::read_dir(space.path(".flow/runs")).unwrap().count(), 2, "nothing to do: {again}");
    space.flow(["doctor"]).expect(0);
}

#[test]
fn why_says_what_a_waiting_step_waits_for() {
    let space = space();
    space.write(
        "alone.yaml",
        "flow: 1\nname: alone\nsteps:\n  first: {run: sleep 3, exclusive: true}\n  second: {run: sleep 0.1, exclusive: true}\n",
    );
    let mut run = space.start(["run", "alone.yaml"]);
    until("it runs", || space.alive().iter().any(|(_, command)| command.starts_with("sleep 3")));
    let mut said = String::new();
    until("its status says so", || {
        said = space.flow(["why", "-w", "alone.yaml", "first", "second"]).expect(0).stdout();
        said.contains("first has the machine exclusively")
    });
    assert!(said.contains("first: runs in run"), "{said}");
    assert!(run.wait().success());
}

#[test]
fn why_says_once_what_many_wait_for_and_nothing_of_a_run_with_other_parameters() {
    let space = space();
    space.write(
        "w.yaml",
        "flow: 1\nparams: {lr: 1}\nsteps:\n  alone: {run: 'sleep 30; echo ${{ lr }}', exclusive: true, priority: 1}\n  \
         s: {matrix: {n: '${{ range(50) }}'}, run: 'echo ${{ n }} ${{ lr }}'}\n",
    );
    let mut run = space.start(["run", "w.yaml"]);
    let mut said = String::new();
    until("they wait", || {
        said = space.flow(["why", "s"]).expect(0).stdout();
        said.contains("waits")
    });
    assert!(said.contains("s[n=5] and 44 more: waits in run") && said.lines().count() == 1, "{said}");
    let said = space.flow(["why", "alone", "s", "--set", "lr=2"]).expect(0).stdout();
    assert!(said.contains("alone, s[n=0]") && said.contains("would run") && !said.contains("waits"), "{said}");
    run.signal(Signal::SIGINT);
    assert_eq!(run.wait().code(), Some(130));
}

#[test]
fn reading_commands_work_while_a_run_goes_on() {
    let space = space();
    space.write("slow.yaml", &SLOW.replace("sh -c 'sleep 1.5'", "sh -c 'echo hello; sleep 3'"));
    let mut run = space.start(["run", "slow.yaml"]);
    until("it runs", || space.alive().iter().any(|(_, command)| command.starts_with("sleep 3")));
    let status = space.flow(["status"]).expect(0).stdout();
    assert!(status.contains("slow"), "{status}");
    let log = space.flow(["logs", "slow"]).expect(0).stdout();
    assert!(log.contains("hello"), "{log}");
    for command in
        [&["runs"][..], &["plan", "slow.yaml"], &["why", "-w", "slow.yaml", "after"], &["graph", "slow.yaml"]]
    {
        space.flow(command).expect(0);
    }
    assert!(run.is_alive(), "all that while it went on: {}", run.said());
    assert!(run.wait().success());
}

#[test]
fn an_interrupt_ends_a_run_that_waits_for_who_holds_the_store() {
    let space = space();
    space.write("slow.yaml", &SLOW.replace("sleep 1.5", "sleep 30"));
    space.write("fast.yaml", "flow: 1\nname: fast\nsteps:\n  a: {run: sleep 2.5}\n  b: {run: 'echo b', needs: [a]}\n");
    let mut first = space.start(["run", "slow.yaml"]);
    until("the first runs", || space.alive().iter().any(|(_, command)| command.starts_with("sleep 30")));
    let mut second = space.start(["run", "fast.yaml"]);
    until("the second runs", || space.alive().iter().any(|(_, command)| command.starts_with("sleep 2.5")));
    first.signal(Signal::SIGSTOP);
    until("it says for whom it waits", || second.said().contains("waiting for the store, which is held by"));
    second.signal(Signal::SIGINT);
    until("it ends", || !second.is_alive());
    assert!(second.said().contains("which is stopped: `kill -CONT"), "{}", second.said());
    first.signal(Signal::SIGCONT);
    space.flow(["cancel"]).expect(0);
    assert_eq!(first.wait().code(), Some(130));
    let said = space.flow(["run", "fast.yaml"]).expect(0).text();
    assert!(
        said.contains("cached a") || said.contains("a: cached") || said.contains("1 cached"),
        "a is in the journal: {said}"
    );
}

#[test]
fn a_run_that_only_begins_says_as_well_that_who_holds_the_store_is_stopped() {
    let space = space();
    space.write("slow.yaml", &SLOW.replace("sleep 1.5", "sleep 300"));
    // To be hashed, for longer than it takes to stop the other.
    fs::File::create(space.path("large")).unwrap().set_len(1 << 30).unwrap();
    space.write("fast.yaml", "flow: 1\nname: fast\nsteps: {a: {run: 'true', inputs: [large]}}\n");
    let mut first = space.start(["run", "slow.yaml"]);
    until("the first runs", || space.alive().iter().any(|(_, command)| command.starts_with("sleep 300")));
    let mut begins = [(); 2].map(|()| space.start(["run", "fast.yaml"]));
    until("both have a name", || fs::read_dir(space.path(".flow/runs")).unwrap().count() == 3);
    first.signal(Signal::SIGSTOP);
    until("they say for whom they wait", || {
        begins
            .iter()
            .all(|run| run.said().contains("waiting: the store is in use") && run.said().contains("kill -CONT"))
    });
    let [left, stays] = &mut begins;
    left.signal(Signal::SIGINT);
    until("it ends", || !left.is_alive());
    first.signal(Signal::SIGCONT);
    assert!(stays.wait().success(), "{}", stays.said());
    space.flow(["cancel"]).expect(0);
    assert_eq!(first.wait().code(), Some(130));
}
