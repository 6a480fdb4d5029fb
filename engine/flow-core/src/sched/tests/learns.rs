//! The cost of sharing a GPU is measured, and counts from then on.

use super::dsl::case;
use crate::reason::Resource;
use crate::sched::*;
use crate::*;

const PAIR: &str = "a gpus=1 peak=4 busy=900 timed
                    b gpus=1 peak=4 busy=900 timed
                    c gpus=1 peak=4 busy=900 timed
                    d gpus=1 peak=4 busy=900 timed";

#[test]
fn a_gpu_of_which_little_is_known_is_tried_by_two() {
    // Two loads of 0.9 gain nothing at the coefficient of an unknown GPU. One pair shares it anyway, and no second pair
    // before the first result.
    case(
        "gpus=1x24 trial=0",
        PAIR,
        "0 submit       | start a on 0; start b on 0 on trial
         1 exit a       | record a
         2 exit b       | record b; start c on 0
         3 interference_learned 1 0.2 | start d on 0 on trial",
    );
    // The measurements so far give no hope: no further trial.
    case(
        "gpus=1x24 trial=0.9",
        PAIR,
        "0 submit       | start a on 0
         1 exit a       | record a; start b on 0",
    );
    // One on each of two GPUs, and one trial at a time.
    case(
        "gpus=2x24 trial=0",
        PAIR,
        "0 submit       | start a on 0; start b on 1; start c on 0 on trial
         1 interference_learned 1 0.2 | start d on 1 on trial",
    );
}

#[test]
fn a_trial_is_for_two_that_show_what_it_costs() {
    // Never timed alone, without room, or with too few CPUs for both: a trial would show nothing.
    let refused = |settings: &str, b: &str| {
        let tasks = format!("a gpus=1 peak=4 busy=900 timed keeps=1500 cpus=2\n b gpus=1 {b}");
        case(settings, &tasks, "0 submit | start a on 0");
    };
    refused("gpus=1x24 trial=0", "peak=4 busy=900");
    refused("gpus=1x24 trial=0", "peak=22 busy=900 timed");
    refused("gpus=1x24 trial=0", "peak=4 busy=900 timed measured");
    refused("gpus=1x24 cpus=2 trial=0", "peak=4 busy=900 timed keeps=1000");
    refused("gpus=1x24 price=1.5 trial=0", "peak=4 busy=900 timed");
    // A third next to two would not show who causes the slowdown.
    case(
        "gpus=1x24 price=0.6 trial=0",
        "a gpus=1 peak=4 busy=500 timed
         b gpus=1 peak=4 busy=500 timed
         c gpus=1 peak=4 busy=990 timed",
        "0 submit | start a on 0; start b on 0",
    );
    // A trial promises nothing: a task with a reservation waits for its own place.
    case(
        "gpus=1x24 policy=easy trial=0",
        "a gpus=1 peak=4 busy=900 timed takes=10
         b gpus=1 peak=22 busy=100 timed takes=5
         c gpus=1 peak=4 busy=900 timed takes=20",
        "0 submit | start a on 0
         9 exit a | record a; start b on 0",
    );
}

#[test]
fn what_was_learned_counts_at_once() {
    case(
        "gpus=1x24",
        PAIR,
        "0 submit     | start a on 0
         1 interference_learned 0.5 | start b on 0
         2 interference_learned 0.2 | start c on 0; start d on 0",
    );
    case("gpus=1x24 price=0.2", PAIR, "0 submit   | start a on 0; start b on 0; start c on 0; start d on 0");
    case(
        "gpus=1x24 price=0.6",
        PAIR,
        "0 submit     | start a on 0; start b on 0
         1 interference_learned 1.1 |
         2 exit a     | record a
         3 exit b     | record b; start c on 0",
    );
}

#[test]
fn a_pair_that_was_measured_counts_as_measured() {
    // No slowdown was expected, but one was measured.
    let tasks = "a gpus=1 peak=4 busy=400 timed
                 b gpus=1 peak=4 busy=500 timed
                 c gpus=1 peak=4 busy=500 timed";
    let world = case("gpus=1x24 pair=1.9", tasks, "0 submit | start a on 0; start c on 0");
    let WaitState::Resources(short) = world.waits("b") else { panic!("{:?}", world.waits("b")) };
    assert_eq!(short[0].resource, Resource::GpuBusy(GpuId(0)), "a third beside them was not measured");
    let two = "a gpus=1 peak=4 busy=400 timed\n b gpus=1 peak=4 busy=500 timed";
    let world = case("gpus=1x24 pair=1.9", two, "0 submit | start a on 0");
    let WaitState::Resources(short) = world.waits("b") else { panic!("{:?}", world.waits("b")) };
    assert_eq!((short[0].resource, short[0].requested), (Resource::GpuMeasured(GpuId(0)), 1_900));
    // Better than expected, so they share it.
    case("gpus=1x24 pair=1.3", PAIR, "0 submit | start a on 0; start b on 0");
}
