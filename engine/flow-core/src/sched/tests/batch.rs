//! Steps of a batch system: they hold a place in its queue, and nothing on this machine.

use super::dsl::{World, case};
use crate::reason::Resource;
use crate::sched::WaitState;

#[test]
fn a_job_holds_a_place_in_the_queue_and_nothing_here() {
    case(
        "cpus=1 queue=2 keep_going",
        "a batch cpus=64 memory=9999 gpus=8
         b batch gpus=8
         c batch
         here
         after",
        "0 submit    | start a; start b; start here
         1 exit here | record here; start after
         2 exit a    | record a; start c
         3 exit b c after | record b; record c; record after; finish",
    );
    let mut world = World::new("cpus=1 queue=1", "a batch\n b batch\n c batch exclusive=machine");
    world.happens("0 submit");
    let WaitState::Resources(short) = world.waits("b") else { panic!("{:?}", world.waits("b")) };
    assert_eq!((short[0].resource, short[0].requested, short[0].available), (Resource::Queue, 1, 0));
}

#[test]
fn what_wants_this_machine_alone_and_what_runs_elsewhere_are_not_in_each_others_way() {
    case(
        "cpus=2 queue=9 keep_going",
        "a batch
         alone exclusive=machine
         b batch needs=a exclusive=machine
         pair batch group=p/own gpus=4
         pear batch group=p/own gpus=4",
        "0 submit | start a; start alone; start pair; start pear
         1 exit a | record a; start b
         2 ready pair pear | release pair pear
         3 exit alone b pair pear | record alone; record b; record pair; record pear; finish",
    );
}

#[test]
fn its_time_counts_from_its_beginning_there() {
    case(
        "queue=9",
        "a batch timeout=10",
        "0 submit    | start a
         50 begins a |
         60 tick     | kill a in 10 timed_out
         61 exit a   | record a; finish",
    );
}

#[test]
fn what_is_lost_under_it_is_no_failure_of_its_own() {
    case(
        "queue=9",
        "a batch",
        "0 submit        | start a
         1 lost a        |
         1 exit a failed | discard a until 1; start a
         2 lost a        |
         2 exit a failed | discard a until 2; start a
         3 lost a        |
         3 exit a failed | discard a until 3; start a
         4 lost a        |
         4 exit a failed | record a; finish",
    );
}

#[test]
fn what_left_something_to_go_on_from_goes_on_however_often() {
    case(
        "queue=9",
        "a batch retries=1",
        "0 submit           | start a
         1 continues a      |
         1 exit a timed_out | discard a until 1; start a
         2 continues a      |
         2 exit a timed_out | discard a until 2; start a
         3 continues a      |
         3 exit a timed_out | discard a until 3; start a
         4 continues a      |
         4 exit a timed_out | discard a until 4; start a
         5 exit a timed_out | record a; finish",
    );
    // Nothing is resumed when the run ends.
    case(
        "queue=9",
        "a batch
         b batch",
        "0 submit           | start a; start b
         1 exit b failed    | record b
         2 continues a      |
         2 exit a timed_out | record a; finish",
    );
}
