//! The cost of the scheduler itself: many tasks from arrival to finish, through simulated time. `cargo bench -p
//! flow-sim`.

use divan::Bencher;
use flow_core::sched::{Capacity, GpuState, Limits, Task, policy};
use flow_core::{InstanceId, Need, ResourceRequest, Span, Time};
use flow_sim::{Cluster, SimTask, simulate, trace};

fn main() {
    divan::main();
}

/// Tasks of 1 to 7 s in eight shapes, each needing the ones that `needs` names.
fn tasks(count: u32, apart: Span, needs: impl Fn(u32) -> Vec<u32>) -> Vec<SimTask> {
    let task = |i: u32| Task {
        instance: InstanceId(i),
        needs: needs(i).into_iter().map(|on| Need { on: InstanceId(on), list: true }).collect(),
        request: ResourceRequest { gpus: i % 4, cpus: 1 + i % 2, ..ResourceRequest::default() },
        timeout: Some(Span::from_millis(60_000)),
        retries: 1,
        submitted: Time(apart.0 * u64::from(i)),
        ..Task::default()
    };
    (0..count).map(|i| SimTask::new(task(i), Span::from_millis(1_000 + u64::from(i % 7) * 1_000))).collect()
}

fn run(bencher: Bencher, policy: &str, tasks: Vec<SimTask>) {
    let gpu = GpuState { memory: 12 << 30, strangers: 0, alive: true };
    let capacity = Capacity { gpus: vec![gpu; 8], cpus: 16, memory: 1 << 40, jobs: None, batch: 0 };
    bencher.with_inputs(|| tasks.clone()).bench_values(|tasks| {
        let policy = policy::named(policy).expect("a policy of the list");
        simulate(tasks, capacity.clone(), policy, Limits::default()).expect("an end")
    });
}

#[divan::bench(args = ["fifo", "fit", "critical-path"], sample_count = 3)]
fn a_hundred_thousand_independent(bencher: Bencher, policy: &str) {
    run(bencher, policy, tasks(100_000, Span(0), |_| Vec::new()));
}

#[divan::bench(args = ["fit", "critical-path"], sample_count = 3)]
fn a_hundred_thousand_arriving(bencher: Bencher, policy: &str) {
    run(bencher, policy, tasks(100_000, Span::from_millis(300), |_| Vec::new()));
}

#[divan::bench(args = ["critical-path"], sample_count = 3)]
fn a_hundred_thousand_in_layers(bencher: Bencher, policy: &str) {
    run(bencher, policy, tasks(100_000, Span(0), |i| (1..4).filter_map(|k| i.checked_sub(1_000 * k)).collect()));
}

/// A trace of jobs of 1 to 32 GPUs on 64, four fifths of them small, at a density just below 1.
fn trace(jobs: u32) -> Vec<SimTask> {
    let mut text = String::from("job_id,submit_s,num_gpus,duration_s\n");
    let mut state = 1u64;
    let mut random = |below: u64| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) % below
    };
    let mut at = 0;
    for job in 0..jobs {
        at += random(200);
        let gpus = 1 << random(10).saturating_sub(4);
        text += &format!("{job},{at},{gpus},{}\n", 60 + random(60) * random(60));
    }
    trace::tasks(&trace::jobs(&text).expect("a good trace"))
}

/// Said to take less than 2 s for each of the preemptive policies on one core.
#[divan::bench(args = ["srtf", "srsf", "las", "easy", "lyapunov"], sample_count = 3)]
fn a_trace_of_5755_jobs(bencher: Bencher, policy: &str) {
    jobs(bencher, policy, trace(5_755));
}

/// Said to take less than 10 s on one core.
#[divan::bench(args = ["fit", "sjf", "easy"], sample_count = 1)]
fn a_trace_of_100_000_jobs(bencher: Bencher, policy: &str) {
    jobs(bencher, policy, trace(100_000));
}

fn jobs(bencher: Bencher, policy: &str, tasks: Vec<SimTask>) {
    let capacity = Cluster { nodes: 8, gpus: 8 }.capacity();
    bencher.with_inputs(|| tasks.clone()).bench_values(|tasks| {
        let policy = policy::named(policy).expect("a policy of the list");
        simulate(tasks, capacity.clone(), policy, Limits::simulated()).expect("an end")
    });
}
