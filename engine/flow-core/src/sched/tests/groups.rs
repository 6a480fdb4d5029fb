//! Co-run groups: start, barrier, window, failure, retry.

use super::dsl::{GIB, case};
use crate::GpuId;
use crate::reason::Resource;
use crate::sched::*;

const TRIO: &str = "a gpus=1 group=g/own continues
                    b gpus=1 group=g/own continues
                    c gpus=1 group=g/own continues";

#[test]
fn a_group_starts_as_one_with_nothing_beside_it() {
    case(
        "gpus=3x12 cpus=2",
        &format!("x\ny\n{TRIO}\nz"),
        "0 submit     | start x; start y
         1 exit x     | record x; start z
         2 exit y     | record y
         3 exit z     | record z; start a on 0; start b on 1; start c on 2
         4 ready a b  |
         5 ready c    | release a b c
         6 sufficed b |
         7 sufficed a |
         8 sufficed c | stop a b c
         9 exit a b   |
         9 exit c     | record a; record b; record c; finish",
    );
}

#[test]
fn shared_members_are_on_one_set_of_gpus() {
    case(
        "gpus=2x12",
        "a gpus=1 group=g/shared
         b gpus=1 group=g/shared",
        "0 submit | start a on 0; start b on 0",
    );
}

#[test]
fn a_group_waits_for_the_needs_of_all() {
    case(
        "gpus=2x12",
        "x
         y
         a gpus=1 group=g/own needs=x
         b gpus=1 group=g/own needs=y",
        "0 submit | start x; start y
         1 exit x | record x
         2 exit y | record y; start a on 0; start b on 1",
    );
}

#[test]
fn a_group_is_skipped_as_one() {
    case(
        "gpus=2x12 keep_going",
        "x
         a gpus=1 group=g/own needs=x
         b gpus=1 group=g/own
         z needs=b*",
        "0 submit        | start x
         1 exit x failed | record x; settle a skipped for x; settle b skipped for x; start z",
    );
    case(
        "gpus=2x12 keep_going",
        "a gpus=1 group=g/own refuse=failed
         b gpus=1 group=g/own",
        "0 submit | settle b skipped for a; finish",
    );
}

#[test]
fn a_group_hits_or_runs_as_one() {
    case(
        "gpus=2x12",
        "a gpus=1 group=g/own hit=ok
         b gpus=1 group=g/own hit=ok",
        "0 submit | finish",
    );
    case(
        "gpus=2x12",
        "a gpus=1 group=g/own hit=ok
         b gpus=1 group=g/own",
        "0 submit | start a on 0; start b on 1",
    );
}

#[test]
fn a_group_too_large_for_the_machine_does_not_fit() {
    case(
        "gpus=2x12",
        &format!("{TRIO}\nz needs=a*"),
        "0 submit | settle a does_not_fit; settle b does_not_fit; settle c does_not_fit; settle z skipped for a; finish",
    );
    case(
        "gpus=1x12 keep_going",
        "a gpus=1 gpu_memory=7 group=g/shared record=does_not_fit
         b gpus=1 gpu_memory=6 group=g/shared record=does_not_fit",
        "0 submit | settle a does_not_fit; settle b does_not_fit; finish",
    );
}

#[test]
fn cpus_jobs_and_history_do_not_forbid_a_group() {
    case(
        "gpus=1x12 cpus=2 jobs=1",
        "a gpus=1 cpus=2 peak=10 group=g/shared
         b gpus=1 cpus=2 peak=10 group=g/shared",
        "0 submit | start a on 0; start b on 0",
    );
}

#[test]
fn a_group_waits_for_a_gpu_that_others_have_altogether() {
    case(
        "gpus=1x24",
        "x
         a gpus=1 group=g/shared needs=x
         b gpus=1 group=g/shared needs=x",
        "0 submit         | start x
         1 foreign 0 24 |
         2 exit x         | record x
         3 foreign 0 0  | start a on 0; start b on 0",
    );
    case(
        "gpus=3x24",
        "x
         a gpus=1 group=g/own needs=x
         b gpus=1 group=g/own needs=x",
        "0 submit         | start x
         1 foreign 0 24 |
         2 exit x         | record x; start a on 1; start b on 2",
    );
    let world = case(
        "gpus=2x24",
        "x
         a gpus=1 group=g/own needs=x
         b gpus=1 group=g/own needs=x",
        "0 submit         | start x
         1 foreign 0 24 |
         2 exit x         | record x",
    );
    let WaitState::Resources(short) = world.waits("a") else { panic!("{:?}", world.waits("a")) };
    let told: Vec<_> = short.iter().map(|s| (s.resource, s.requested, s.available)).collect();
    assert_eq!(told, [(Resource::Gpus, 2, 1), (Resource::GpuMemory(GpuId(0)), 24 * GIB / 20, 0)]);
}

#[test]
fn a_failure_before_release_restarts_the_group_as_often_as_its_retries_say() {
    case(
        "gpus=3x12",
        &TRIO.replacen("continues", "retries=1", 1),
        "0 submit        | start a on 0; start b on 1; start c on 2
         1 ready a b     |
         2 exit c failed | kill a in 10 cancelled; kill b in 10 cancelled
         3 exit a b      | discard a until 4; discard b until 4; discard c until 4
         4 tick          | start a on 0; start b on 1; start c on 2
         5 exit a failed | kill b in 10 cancelled; kill c in 10 cancelled
         6 exit b c      | record a; record b; record c; finish",
    );
}

#[test]
fn out_of_memory_after_release_is_recorded_and_ends_the_window() {
    case(
        "gpus=3x12",
        &TRIO.replace("continues", "continues record=out_of_memory retries=2"),
        "0 submit               | start a on 0; start b on 1; start c on 2
         1 ready a b c          | release a b c
         2 sufficed a           |
         3 exit b out_of_memory | stop a
         4 exit a               |
         5 sufficed c           | stop c
         6 exit c               | record a; record b; record c; finish",
    );
}

#[test]
fn out_of_memory_before_release_is_the_result_of_that_member_alone() {
    case(
        "gpus=1x12",
        "a gpus=1 group=g/shared record=out_of_memory
         b gpus=1 group=g/shared record=out_of_memory",
        "0 submit               | start a on 0; start b on 0
         1 ready a              |
         2 exit b out_of_memory | kill a in 10 cancelled
         3 exit a               | record a; record b; finish",
    );
}

#[test]
fn a_failure_after_release_ends_the_rest_only_if_the_group_is_tried_again() {
    case(
        "gpus=3x12",
        &TRIO.replacen("continues", "retries=1", 1),
        "0 submit        | start a on 0; start b on 1; start c on 2
         1 ready a b c   | release a b c
         2 exit c failed | kill a in 10 cancelled; kill b in 10 cancelled
         3 exit a b      | discard a until 4; discard b until 4; discard c until 4
         4 tick          | start a on 0; start b on 1; start c on 2
         5 ready a b c   | release a b c
         6 exit a failed |
         7 sufficed b    | stop b
         8 exit b c      | record a; record b; record c; finish",
    );
}

#[test]
fn members_that_end_by_themselves_close_the_window() {
    case(
        "gpus=2x12",
        "a gpus=1 group=g/own
         b gpus=1 group=g/own continues",
        "0 submit     | start a on 0; start b on 1
         1 ready a b  | release a b
         2 sufficed b |
         3 exit a     | stop b
         4 exit b     | record a; record b; finish",
    );
}

#[test]
fn one_that_never_says_ready_does_not_hold_the_others() {
    case(
        "gpus=2x12",
        "a gpus=1 group=g/own
         b gpus=1 group=g/own",
        "0 submit  | start a on 0; start b on 1
         1 exit a  |
         2 ready b | release b
         3 exit b  | record a; record b; finish",
    );
}

#[test]
fn a_group_is_timed_out_as_one() {
    case(
        "gpus=2x12",
        "a gpus=1 group=g/own timeout=5 record=timed_out
         b gpus=1 group=g/own timeout=9 record=timed_out",
        "0 submit   | start a on 0; start b on 1
         5 tick     | kill a in 10 timed_out; kill b in 10 timed_out
         6 exit a b | record a; record b; finish",
    );
}

#[test]
fn a_disturbed_member_repeats_the_group_once() {
    case(
        "gpus=2x12",
        "a gpus=1 group=g/own
         b gpus=1 group=g/own",
        "0 submit         | start a on 0; start b on 1
         1 ready a b      | release a b
         2 exit a disturbed |
         3 exit b         | discard a until 3; discard b until 3; start a on 0; start b on 1
         4 ready a b      | release a b
         5 exit a disturbed |
         6 exit b         | record a; record b; finish",
    );
}

#[test]
fn a_cancelled_group_settles() {
    case(
        "gpus=2x12",
        "a gpus=1 group=g/own
         b gpus=1 group=g/own",
        "0 submit   | start a on 0; start b on 1
         1 exit a   |
         2 cancel 5 | kill b in 5 cancelled
         3 exit b   | record a; record b; finish",
    );
}
