//! Placement: sums, pools, and sharing of GPUs.

use super::dsl::case;

#[test]
fn fit_passes_what_has_no_room_and_fifo_does_not() {
    let tasks = "a cpus=3
                 b cpus=2
                 c cpus=1";
    case("cpus=4 policy=fit", tasks, "0 submit | start a; start c");
    case("cpus=4 policy=fifo", tasks, "0 submit | start a");
}

#[test]
fn memory_and_jobs_are_sums() {
    case(
        "memory=8",
        "a memory=6
         b memory=3
         c memory=2",
        "0 submit | start a; start c",
    );
    case(
        "jobs=1",
        "a
         b",
        "0 submit | start a
         1 exit a | record a; start b",
    );
}

#[test]
fn gangs_are_all_or_nothing() {
    case(
        "gpus=2x12",
        "a gpus=1
         b gpus=2
         c gpus=1",
        "0 submit   | start a on 0; start c on 1
         1 exit a   | record a
         2 exit c   | record c; start b on 0+1",
    );
}

#[test]
fn an_unknown_step_has_its_gpu_alone() {
    case(
        "gpus=1x24",
        "a gpus=1
         b gpus=1 peak=4 busy=400
         c gpus=1 peak=4 busy=600",
        "0 submit | start a on 0
         1 exit a | record a; start b on 0; start c on 0",
    );
}

#[test]
fn a_learned_peak_gets_a_margin_and_an_empty_gpu_always_suffices() {
    // 5 + 1.2 (5% of the GPU) + 17 exceeds 24, although 5 + 17 does not.
    case(
        "gpus=1x24",
        "a gpus=1 peak=5
         b gpus=1 peak=17",
        "0 submit | start a on 0
         1 exit a | record a; start b on 0",
    );
    case("gpus=1x24", "a gpus=1 peak=40", "0 submit | start a on 0");
    // Nor does a desktop that already ran when the peak was learned.
    case(
        "gpus=1x24",
        "a gpus=1 peak=23
         b gpus=1 peak=40",
        "0 foreign 0 1 |
         0 submit | start a on 0
         1 exit a | record a; start b on 0",
    );
    case(
        "gpus=1x24",
        "a gpus=1 peak=20",
        "0 foreign 0 5 |
         0 submit        |
         1 foreign 0 1 | start a on 0",
    );
}

#[test]
fn a_declared_size_counts_as_declared() {
    case(
        "gpus=1x24",
        "a gpus=1 gpu_memory=12
         b gpus=1 gpu_memory=12
         c gpus=1 gpu_memory=25",
        "0 submit | settle c does_not_fit; settle a cancelled for c; settle b cancelled for c; finish",
    );
    case(
        "gpus=1x24 keep_going",
        "a gpus=1 gpu_memory=12 busy=500
         b gpus=1 gpu_memory=12 busy=500
         c gpus=1 gpu_memory=25",
        "0 submit | settle c does_not_fit; start a on 0; start b on 0",
    );
}

#[test]
fn what_is_used_beyond_what_was_reserved_is_not_given_out() {
    case(
        "gpus=1x24 cpus=1",
        "a gpus=1 gpu_memory=4 busy=300
         b gpus=1 gpu_memory=4 cpus=0 busy=300
         c gpus=1 gpu_memory=8 cpus=0 needs=b busy=300",
        "0 submit    | start a on 0; start b on 0
         1 uses a 17 |
         2 exit b    | record b
         3 uses a 16 | start c on 0",
    );
}

#[test]
fn measured_steps_share_no_gpu() {
    case(
        "gpus=2x24",
        "a gpus=1 gpu_memory=4 measured busy=300
         b gpus=1 gpu_memory=4 busy=300
         c gpus=1 gpu_memory=4 busy=300
         d gpus=1 gpu_memory=4 exclusive=gpu",
        "0 submit   | start a on 0; start b on 1; start c on 1
         1 exit b c | record b; record c; start d on 1",
    );
}

#[test]
fn foreign_processes_make_others_wait_and_are_avoided() {
    case(
        "gpus=2x24 cpus=8",
        "a
         b gpus=1 gpu_memory=8 needs=a busy=300
         c gpus=1 gpu_memory=8 needs=a busy=300
         d gpus=1 gpu_memory=8 needs=a busy=300
         e gpus=2 gpu_memory=5 needs=d busy=300",
        "0 submit         | start a
         1 foreign 0 20 |
         2 exit a         | record a; start b on 1; start c on 1; start d on 1
         3 exit d         | record d
         4 foreign 0 19 | start e on 0+1",
    );
}

#[test]
fn an_exclusive_step_has_the_machine_to_itself() {
    case(
        "cpus=4",
        "a
         b exclusive
         c",
        "0 submit   | start a; start c
         1 exit a   | record a
         2 exit c   | record c; start b
         3 exit b   | record b; finish",
    );
    case(
        "cpus=4 policy=fifo",
        "b exclusive
         c cpus=0",
        "0 submit   | start b
         1 exit b   | record b; start c",
    );
}

#[test]
fn a_lost_gpu_takes_nothing_new_and_gives_up_what_fits_nowhere() {
    case(
        "gpus=2x24 keep_going",
        "a gpus=2
         b gpus=2
         c gpus=1
         d gpus=3",
        "0 submit | settle d does_not_fit; start a on 0+1
         1 lose 0 | kill a in 10 failed; settle b failed
         2 exit a | record a; start c on 1
         3 exit c | record c; finish",
    );
}

#[test]
fn what_runs_on_a_lost_gpu_starts_again_on_another_and_the_rest_goes_on() {
    case(
        "gpus=4x24",
        "a gpus=1
         b gpus=1
         c gpus=1 group=g/own
         d gpus=1 group=g/own",
        "0 submit        | start a on 0; start b on 1
         1 lose 1        | kill b in 10 failed
         2 exit b failed | discard b until 2; start b on 2
         3 exit a        | record a
         4 exit b        | record b; start c on 0; start d on 2
         5 ready c d     | release c d
         6 lose 0        | kill c in 10 failed; kill d in 10 failed
         7 exit c d failed | discard c until 7; discard d until 7; start c on 2; start d on 3
         8 lose 2        | kill c in 10 failed; kill d in 10 failed
         9 exit c d failed | record c; record d; finish",
    );
}

#[test]
fn the_longest_chain_goes_first() {
    case(
        "cpus=1 policy=critical-path",
        "a takes=5
         b takes=1
         c takes=9 needs=b",
        "0 submit | start b
         1 exit b | record b; start c
         2 exit c | record c; start a",
    );
    case(
        "cpus=1 policy=critical-path",
        "a
         b
         c needs=b",
        "0 submit | start b",
    );
    case(
        "cpus=1 policy=critical-path",
        "a takes=900
         b takes=1 priority=1
         c takes=1 priority=-1",
        "0 submit | start b
         1 exit b | record b; start a
         2 exit a | record a; start c",
    );
}

#[test]
fn repetitions_take_turns() {
    // Without turns the two repetitions of the longer point come first, and a machine that slows down hits the other.
    case(
        "cpus=1 policy=critical-path",
        "a0 takes=9 repetition=0
         a1 takes=9 repetition=1
         b0 takes=2 repetition=0
         b1 takes=2 repetition=1
         other takes=5",
        "0 submit | start a0
         9 exit a0 | record a0; start b0
         11 exit b0 | record b0; start a1
         20 exit a1 | record a1; start other
         25 exit other | record other; start b1",
    );
}

#[test]
fn a_gpu_is_shared_where_all_gain() {
    // Two loads of 0.9 would both take 1.8 times as long: together no gain over one after the other.
    case(
        "gpus=1x24",
        "a gpus=1 peak=4 busy=900
         b gpus=1 peak=4 busy=900
         c gpus=1 peak=4 busy=300",
        "0 submit | start a on 0; start c on 0
         1 exit a | record a; start b on 0",
    );
    // Its GPU load is unknown, so it has the GPU alone, whatever it declares.
    case(
        "gpus=1x24",
        "a gpus=1 gpu_memory=4
         b gpus=1 gpu_memory=4 busy=100",
        "0 submit | start a on 0",
    );
    // The less busy of two.
    case(
        "gpus=2x24",
        "a gpus=1 peak=4 busy=600
         b gpus=1 peak=4 busy=500
         c gpus=1 peak=4 busy=400",
        "0 submit | start a on 0; start b on 1; start c on 1",
    );
}

#[test]
fn the_cpu_that_history_knows_may_go_somewhat_beyond_the_host() {
    let task = "gpus=1 cpus=8 peak=4 busy=200";
    let tasks = format!("a {task} keeps=6000\n b {task} keeps=4000\n c {task} keeps=1000\n d cpus=1");
    // 6 + 4 of 8 cores is below 1.3, 11 is not; a task that declares its core gets a free one.
    case(
        "gpus=1x24 cpus=8",
        &tasks,
        "0 submit | start a on 0; start b on 0
         1 exit a | record a; start c on 0; start d",
    );
}

#[test]
fn out_of_memory_beside_others_is_tried_once_more_alone() {
    case(
        "gpus=1x24",
        "a gpus=1 peak=4 busy=300
         b gpus=1 peak=4 busy=300
         c gpus=1 peak=4 busy=300",
        "0 submit               | start a on 0; start b on 0; start c on 0
         1 exit a out_of_memory | discard a until 1
         2 exit b               | record b
         3 exit c               | record c; start a on 0
         4 exit a out_of_memory | record a; finish",
    );
    // It was alone from the start, so this is its real need.
    case(
        "gpus=1x24",
        "a gpus=1 peak=4 busy=300",
        "0 submit | start a on 0\n 1 exit a out_of_memory | record a; finish",
    );
}

#[test]
fn what_others_of_its_kind_took_is_known_while_it_waits() {
    case(
        "gpus=1x24",
        "a gpus=1
         b gpus=1
         c gpus=1",
        "0 submit            | start a on 0
         1 learned b 4 300   |
         1 exit a            | record a; start b on 0
         2 learned c 4 300   | start c on 0",
    );
}
