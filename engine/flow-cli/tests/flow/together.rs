//! Several flows on one store: they run at once, look, or are told who it is.

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
fn a_run_works_while_the_one_that_holds_the_database_is_stopped() {
    let space = space();
    space.write("slow.yaml", &SLOW.replace("sleep 1.5", "sleep 30"));
    space.write("fast.yaml", "flow: 1\nname: fast\nsteps:\n  a: {run: echo a}\n  b: {run: 'echo b', needs: [a]}\n");
    let mut first = space.start(["run", "slow.yaml"]);
    until("the first runs", || space.alive().iter().any(|(_, command)| command.starts_with("sleep 30")));
    first.signal(Signal::SIGSTOP);
    let said = space.flow(["run", "fast.yaml"]).expect(0).text();
    assert!(said.contains("2 ran"), "{said}");
    let plan = space.flow(["plan", "fast.yaml"]).expect(0).text();
    assert!(!plan.contains("would run"), "{plan}");
    assert!(space.flow(["results", "-w", "fast.yaml"]).expect(0).stdout().contains('b'));
    first.signal(Signal::SIGCONT);
    space.flow(["cancel"]).expect(0);
    assert_eq!(first.wait().code(), Some(130));
    // The next holder imports what the second recorded.
    space.write("fast.yaml", "flow: 1\nname: fast\nsteps:\n  a: {run: echo a}\n  b: {run: 'echo c', needs: [a]}\n");
    let said = space.flow(["run", "fast.yaml"]).expect(0).text();
    assert!(said.contains("1 ran") && said.contains("1 cached"), "{said}");
}
