//! The disk that all nodes see is full for a while.

use std::{fs, io::Write, thread, time::Duration};

use flow_testkit::until;

use super::Lab;
use crate::damage::Tiny;

/// Fills a file system to the last byte.
fn fill(tiny: &Tiny) {
    let mut rest = fs::File::create(tiny.path().join("rest")).unwrap();
    while rest.write_all(&[0; 4096]).is_ok() {}
    while rest.write_all(&[0]).is_ok() {}
}

/// Steps that go on until they are told, and what they wrote down elsewhere.
const STEPS: &str = "
  a:
    matrix: {n: [0, 1]}
    gpus: 1
    run: 'echo ${{ n }} >> $HOME/began; until [ -e $HOME/on ]; do sleep 0.1; done; echo ${{ n }} >> $HOME/did'
";

const SKIPPED: &str = "skipped: only root can mount the small file system that this test fills";

fn lab() -> Option<(Lab, Tiny)> {
    let lab = Lab::new(1, 1, STEPS);
    let tiny = Tiny::at(lab.space.path("disk"))?;
    Some((lab, tiny))
}

const RUN: [&str; 4] = ["run", "w.yaml", "--store", "disk/store"];

#[test]
#[ignore = "needs Slurm"]
fn what_ends_on_a_full_disk_is_imported_when_there_is_room() {
    let Some((lab, tiny)) = lab() else {
        eprintln!("{SKIPPED}");
        return;
    };
    let mut flow = lab.space.start(RUN);
    until("one runs", || !lab.lines("began").is_empty());
    fill(&tiny);
    lab.space.write("on", "");
    until("one has ended, and the other one cannot begin", || !lab.lines("did").is_empty());
    thread::sleep(Duration::from_secs(4));
    assert!(!flow.output().contains("failed"), "{}", flow.output());
    tiny.grow();
    assert_eq!(flow.wait().code(), Some(0), "{}", flow.output());
    assert_eq!((lab.lines("began"), lab.lines("did")), (super::once(2), super::once(2)), "{}", flow.output());
    lab.expect_no_job();
}

#[test]
#[ignore = "needs Slurm"]
fn what_ended_on_a_full_disk_after_flow_was_killed_is_imported_by_the_next_run() {
    let Some((lab, tiny)) = lab() else {
        eprintln!("{SKIPPED}");
        return;
    };
    let mut flow = lab.space.start(RUN);
    until("one runs, and both are asked for", || !lab.lines("began").is_empty() && lab.queue().lines().count() == 2);
    flow.kill();
    fill(&tiny);
    lab.space.write("on", "");
    until("one has ended", || !lab.lines("did").is_empty());
    thread::sleep(Duration::from_secs(3));
    tiny.grow();
    let text = lab.space.flow(RUN).expect(0).text();
    assert_eq!((lab.lines("began"), lab.lines("did")), (super::once(2), super::once(2)), "{text}");
    lab.expect_no_job();
}
