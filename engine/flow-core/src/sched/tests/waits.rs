//! Explanations for waiting instances, and that none waits forever.

use super::dsl::{GIB, World, case};
use crate::reason::Resource;
use crate::sched::*;
use crate::*;

#[test]
fn a_short_resource_is_named_with_its_holders() {
    let world = case(
        "gpus=1x24 cpus=4",
        "a gpus=1 gpu_memory=20 takes=60
         b gpus=1 gpu_memory=6",
        "0 submit        | start a on 0
         2 foreign 0 1 |",
    );
    let WaitState::Resources(short) = world.waits("b") else { panic!("{:?}", world.waits("b")) };
    let gpus = Shortage {
        resource: Resource::Gpus,
        requested: 1,
        available: 0,
        total: 1,
        held_by: Vec::new(),
        foreign: 0,
        other_runs: 0,
        ahead: 0,
    };
    let until = Some(Time(60_000_000));
    let memory = Shortage {
        resource: Resource::GpuMemory(GpuId(0)),
        requested: 6 * GIB,
        available: 3 * GIB,
        total: 24 * GIB,
        held_by: vec![Holder { instance: world.id("a"), amount: 20 * GIB, until }],
        foreign: GIB,
        other_runs: 0,
        ahead: 0,
    };
    assert_eq!(short, [gpus, memory]);
}

#[test]
fn every_state_has_its_word() {
    let mut world = World::new(
        "gpus=2x24 cpus=2 policy=fifo",
        "a exclusive
         b needs=a
         c retries=1
         d gpus=1 group=g/own
         e gpus=1 group=g/own
         f cpus=2",
    );
    assert_eq!(world.waits("a"), WaitState::Arrival);
    world.happens("0 submit");
    assert_eq!(world.waits("a"), WaitState::Running { attempt: AttemptId(0), since: Time(0), expected_end: None });
    assert_eq!(world.waits("b"), WaitState::Needs(vec![world.id("a")]));
    assert_eq!(world.waits("c"), WaitState::Exclusive(vec![world.id("a")]));
    world.happens("1 exit a");
    assert_eq!(world.waits("a"), WaitState::Settled { outcome: Outcome::Ok, because: None });
    assert_eq!(world.waits("d"), WaitState::Others(vec![world.id("b"), world.id("c")]));
    assert!(matches!(&world.waits("f"), WaitState::Resources(short) if short[0].resource == Resource::Cpus));
    world.happens("2 exit c failed");
    assert_eq!(world.waits("c"), WaitState::Retry { at: Time(3_000_000), failures: 1 });
    world.happens("2 exit b");
    world.happens("3 ready d");
    assert_eq!(world.waits("d"), WaitState::Barrier { attempt: AttemptId(3), missing: vec![world.id("e")] });
    world.happens("4 ready e");
    world.happens("5 exit d");
    assert_eq!(world.waits("d"), WaitState::Group(vec![world.id("e")]));
    world.happens("6 cancel 9");
    assert_eq!(world.waits("e"), WaitState::Killed { attempt: AttemptId(4), outcome: Outcome::Cancelled });
}

/// A stream of small steps, each after another, and one that needs the machine for itself.
const STREAM: &str = "a1
    b1
    x exclusive
    a2 needs=a1
    b2 needs=b1
    a3 needs=a2
    b3 needs=b2";

#[test]
fn patience_keeps_back_what_an_exclusive_step_needs() {
    let script = "0 submit | start a1; start b1
        4 exit a1 | record a1; start a2
        8 exit b1 | record b1; start b2";
    let without = format!("{script}\n 12 exit a2 | record a2; start a3");
    case("cpus=2", STREAM, &without);
    let with = format!(
        "{script}
        12 exit a2 | record a2
        16 exit b2 | record b2; start x
        20 exit x  | record x; start a3; start b3"
    );
    let mut world = World::new("cpus=2 patience=10", STREAM);
    for line in with.lines().take(4) {
        world.happens(line.split('|').next().unwrap().trim());
    }
    assert_eq!(world.waits("a3"), WaitState::Reserved(world.id("x")));
    case("cpus=2 patience=10", STREAM, &with);
}

#[test]
fn a_reservation_lets_pass_what_is_not_in_its_way() {
    case(
        "cpus=8 gpus=2x24 patience=10",
        "a1 gpus=1
         b1 gpus=1
         x gpus=2
         a2 gpus=1 needs=a1
         b2 gpus=1 needs=b1
         c cpus=1 needs=a1
         d cpus=7 needs=b1",
        "0 submit    | start a1 on 0; start b1 on 1
         11 exit a1  | record a1; start c
         12 exit b1  | record b1; start x on 0+1",
    );
}

#[test]
fn a_reservation_for_what_foreign_processes_hold_off_is_not_made() {
    case(
        "cpus=1 gpus=1x24 patience=10",
        "a1
         x gpus=1 cpus=0
         a2 needs=a1
         a3 needs=a2",
        "0 foreign 0 24 |
         0 submit  | start a1
         20 exit a1 | record a1; start a2
         40 exit a2 | record a2; start a3
         50 foreign 0 0 | start x on 0",
    );
}
