//! Ends: needs, failures with and without `-k`, retries, timeouts, cancel.

use super::dsl::{World, case};

#[test]
fn a_failure_ends_the_run_but_not_what_runs() {
    case(
        "cpus=2",
        "a
         b
         c
         d needs=a
         e needs=d",
        "0 submit        | start a; start b
         1 exit a failed | record a; settle d skipped for a; settle e skipped for a; settle c cancelled for a
         2 exit b        | record b; finish",
    );
}

#[test]
fn with_k_everything_that_does_not_depend_on_it_goes_on() {
    case(
        "cpus=2 keep_going",
        "a
         b
         c
         d needs=a
         e needs=a*,b*",
        "0 submit        | start a; start b
         1 exit a failed | record a; settle d skipped for a; start c
         2 exit b        | record b; start e
         3 exit c e      | record c; record e; finish",
    );
}

#[test]
fn without_k_a_list_is_blocked_by_a_failed_member() {
    case(
        "",
        "a
         b
         e needs=a*,b*",
        "0 submit        | start a; start b
         1 exit a failed | record a; settle e skipped for a
         1 exit b        | record b; finish",
    );
}

#[test]
fn a_recorded_outcome_is_a_result() {
    case(
        "",
        "a record=out_of_memory
         b needs=a*
         c record=out_of_memory hit=out_of_memory
         d needs=c*",
        "0 submit               | start a; start d
         1 exit a out_of_memory | record a; start b
         2 exit b d             | record b; record d; finish",
    );
}

#[test]
fn what_was_left_out_blocks_nobody() {
    case(
        "",
        "a settled=skipped
         b needs=a*
         c needs=a refuse=skipped
         d needs=c",
        "0 submit | settle d skipped for c; start b
         1 exit b | record b; finish",
    );
}

#[test]
fn what_settled_at_planning_as_a_failure_ends_the_run() {
    case(
        "",
        "a settled=does_not_fit
         b needs=a
         c",
        "0 submit | settle b skipped for a; settle c cancelled for a; finish",
    );
    case(
        "",
        "a settled=does_not_fit record=does_not_fit
         b needs=a*",
        "0 submit | start b",
    );
}

#[test]
fn what_would_fail_again_is_not_tried_again() {
    case(
        "",
        "a retries=3
         b needs=a",
        "0 submit        | start a
         1 hopeless a    |
         1 exit a failed | record a; settle b skipped for a; finish",
    );
}

#[test]
fn retries_pause_longer_each_time() {
    case(
        "",
        "a retries=3",
        "0 submit         | start a
         1 exit a failed  | discard a until 2
         2 tick           | start a
         2 late_exit 0    |
         3 spawn_fails a  | discard a until 5
         5 tick           | start a
         6 exit a failed  | discard a until 10
         10 tick          | start a
         11 exit a failed | record a; finish",
    );
}

#[test]
fn only_failures_are_retried() {
    case(
        "",
        "a retries=3 timeout=5",
        "0 submit | start a
         5 tick   | kill a in 10 timed_out
         6 exit a | record a; finish",
    );
}

#[test]
fn a_disturbed_measurement_is_repeated_once() {
    case(
        "",
        "a measured
         b",
        "0 submit         | start a; start b
         1 exit b disturbed | record b
         2 exit a disturbed | discard a until 2; start a
         3 exit a disturbed | record a; finish",
    );
}

#[test]
fn the_limit_of_a_step_counts_from_the_start_of_its_program() {
    case(
        "",
        "a fills timeout=5",
        "0 submit   | start a
         7 begins a |
         12 tick    | kill a in 10 timed_out
         13 exit a  | record a; finish",
    );
}

#[test]
fn an_exit_in_the_instant_of_its_deadline_counts() {
    case(
        "",
        "a timeout=5",
        "0 submit | start a
         5 exit a | record a; finish",
    );
}

#[test]
fn cancel_gives_grace_and_then_none() {
    case(
        "cpus=1",
        "a retries=1
         b
         c needs=a",
        "0 submit        | start a
         1 cancel 10     | settle b cancelled; settle c cancelled; kill a in 10 cancelled
         2 cancel 0      | kill a in 0 cancelled
         3 exit a failed | record a; finish",
    );
}

#[test]
fn a_cancel_while_a_retry_is_due_settles_it() {
    case(
        "",
        "a retries=1",
        "0 submit        | start a
         1 exit a failed | discard a until 2
         1 cancel 10     | settle a cancelled; finish",
    );
}

#[test]
fn a_long_chain_is_skipped_without_a_deep_stack() {
    let chain = (0..100_000).map(|i| if i == 0 { "t0\n".to_owned() } else { format!("t{i} needs=t{}\n", i - 1) });
    let mut world = World::new("", &chain.collect::<String>());
    world.unchecked = true;
    assert_eq!(world.happens("0 submit"), "start t0");
    let said = world.happens("1 exit t0 failed");
    assert!(said.starts_with("record t0; settle t1 skipped for t0"), "{}", &said[..60]);
    assert!(said.ends_with("settle t99999 skipped for t0; finish"));
}

#[test]
fn what_has_ended_is_collected_in_peace() {
    // It ended in time, and keeps its placement until its outputs are collected.
    case(
        "cpus=1",
        "a timeout=5
         b",
        "0 submit     | start a
         4 collecting a |
         9 tick       |
         9 exit a     | record a; start b
         10 exit b    | record b; finish",
    );
    // Others start before its outputs are collected; steps that read them wait.
    case(
        "cpus=1",
        "a timeout=5
         b
         c needs=a",
        "0 submit     | start a
         4 collecting a |
         4 freed a    | start b
         9 exit b     | record b
         9 exit a     | record a; start c
         10 exit c    | record c; finish",
    );
    // The loss of its GPU is remembered.
    case(
        "gpus=2x10",
        "a gpus=1",
        "0 submit     | start a on 0
         4 collecting a |
         4 lose 0     |
         4 freed a    |
         5 exit a failed | discard a until 5; start a on 1",
    );
    // Nothing ends it any more: its work is done.
    case(
        "cpus=2",
        "a
         b",
        "0 submit     | start a; start b
         4 collecting a |
         5 cancel 1   | kill b in 1 cancelled
         6 exit b cancelled | record b
         7 exit a     | record a; finish",
    );
    // A barrier is not released for a member that has left it.
    case(
        "cpus=2",
        "a group=g/own
         b group=g/own",
        "0 submit     | start a; start b
         1 ready a    |
         2 collecting a |
         3 ready b    |
         4 exit a     | release b
         5 exit b     | record a; record b; finish",
    );
}

#[test]
fn what_another_run_has_taken_up_gives_its_place_back_and_is_looked_up_again() {
    // The other run failed or was ended: this run does the work, and its time starts again.
    case(
        "cpus=1",
        "a timeout=5
         b",
        "0 submit     | start a
         2 deferred a | start a
         6 tick       |
         7 tick       | kill a in 10 timed_out
         8 exit a timed_out | record a; settle b cancelled for a; finish",
    );
    // The other run has done it.
    case(
        "cpus=1",
        "a
         b needs=a",
        "0 submit     | start a
         1 deferred a ok | start b
         2 exit b     | record b; finish",
    );
    // Nothing was started, so nothing is killed, and nothing starts any more.
    case(
        "cpus=2",
        "a group=g/own
         b group=g/own",
        "0 submit     | start a; start b
         1 cancel 10  | kill a in 10 cancelled; kill b in 10 cancelled
         2 deferred a | settle a cancelled; settle b cancelled; finish",
    );
}
