//! The forecast: which instances, where and when.

use std::collections::BTreeMap;

use super::dsl::{World, case};
use crate::*;

/// `a 0-10 on 0; b 10-20`, in seconds.
fn forecast(world: &World, progress: &[(u32, f64)], most: usize) -> String {
    let known = progress.iter().map(|(attempt, end)| (AttemptId(*attempt), Time(0) + Span::from_secs_f64(*end)));
    let known: BTreeMap<AttemptId, Time> = known.collect();
    let told = world.scheduler.forecast(world.now, &known, most).into_iter().map(|one| {
        let gpus: Vec<String> = one.gpus.iter().map(|gpu| gpu.0.to_string()).collect();
        let on = if gpus.is_empty() { String::new() } else { format!(" on {}", gpus.join("+")) };
        format!("{} {}-{}{on}", world.name(one.instance), one.from.as_secs_f64(), one.to.as_secs_f64())
    });
    told.collect::<Vec<_>>().join("; ")
}

const SWEEP: &str = "a gpus=1 takes=10
                     b gpus=1 takes=20
                     c gpus=1 takes=10
                     d gpus=1 takes=10
                     e needs=c,d takes=5";

#[test]
fn waiting_instances_start_where_and_when_the_running_ones_end() {
    let world = case("gpus=2x24", SWEEP, "0 submit | start a on 0; start b on 1");
    assert_eq!(forecast(&world, &[], 9), "c 10-20 on 0; d 20-30 on 0; e 30-35");
    assert_eq!(forecast(&world, &[], 2), "c 10-20 on 0; d 20-30 on 0", "the earliest");
    // What an attempt reports of its progress counts more than the estimate.
    assert_eq!(forecast(&world, &[(1, 5.0)], 9), "c 5-15 on 1; d 10-20 on 0; e 20-25");
    // The forecast changes nothing.
    assert_eq!(forecast(&world, &[], 9), "c 10-20 on 0; d 20-30 on 0; e 30-35");
}

#[test]
fn an_attempt_that_takes_longer_ends_a_quarter_later_than_now() {
    let mut world = case("gpus=1x24", "a gpus=1 takes=10\n b gpus=1 takes=10", "0 submit | start a on 0");
    world.now = Time(0) + Span::from_secs_f64(20.0);
    assert_eq!(forecast(&world, &[], 9), "b 25-35 on 0");
}

#[test]
fn without_an_estimate_nothing_is_said() {
    let tasks = "a gpus=1
                 b gpus=1 takes=10
                 c cpus=2 takes=10
                 d cpus=2
                 e needs=d takes=5";
    let world = case("gpus=1x24 cpus=3 policy=fifo", tasks, "0 submit | start a on 0");
    assert_eq!(forecast(&world, &[], 9), "", "nobody knows when `a` ends");
    assert_eq!(forecast(&world, &[(0, 5.0)], 9), "b 5-15 on 0; c 5-15", "`d` has no estimate");
    let batch = case("queue=1", "a batch=yes takes=10\n b batch=yes takes=10", "0 submit | start a");
    assert_eq!(forecast(&batch, &[], 9), "", "Slurm decides");
}

#[test]
fn a_group_starts_at_one_instant_and_an_ending_run_starts_nothing() {
    let tasks = "a gpus=1 takes=10
                 b gpus=1 takes=20 group=g/own
                 c gpus=1 takes=30 group=g/own
                 d gpus=1 takes=10";
    let mut world = case("gpus=2x24 policy=fifo", tasks, "0 submit | start a on 0");
    assert_eq!(forecast(&world, &[], 9), "b 10-30 on 0; c 10-40 on 1; d 40-50 on 0");
    world.happens("1 cancel 10");
    assert_eq!(forecast(&world, &[], 9), "");
}

#[test]
fn after_a_time_limit_nothing_is_known() {
    let tasks = "a gpus=1 takes=10 timeout=5\n b gpus=1 takes=10";
    let world = case("gpus=1x24", tasks, "0 submit | start a on 0");
    assert_eq!(forecast(&world, &[], 9), "");
}
