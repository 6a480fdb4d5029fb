//! What the scheduler itself costs: many tasks from arrival to finish, through simulated time. `cargo bench -p flow-sim`.

use divan::Bencher;
use flow_core::sched::{Capacity, Estimate, GpuState, Limits, Task, policy};
use flow_core::{Exclusive, InstanceId, Need, ResourceRequest, Span, Time};
use flow_sim::{SimTask, simulate};

fn main() {
    divan::main();
}

/// Tasks of 1 to 7 s in eight shapes, each needing the ones that `needs` names.
fn tasks(count: u32, apart: Span, needs: impl Fn(u32) -> Vec<u32>) -> Vec<SimTask> {
    let task = |i: u32| Task {
        instance: InstanceId(i),
        needs: needs(i).into_iter().map(|on| Need { on: InstanceId(on), list: true }).collect(),
        request: ResourceRequest { gpus: i % 4, cpus: 1 + i % 2, ..ResourceRequest::default() },
        exclusive: Exclusive::No,
        corun: None,
        continues: false,
        measured: false,
        record: Vec::new(),
        timeout: Some(Span::from_millis(60_000)),
        retries: 1,
        priority: 0,
        settled: None,
        estimate: Estimate::default(),
        submitted: Time(apart.0 * u64::from(i)),
    };
    (0..count).map(|i| SimTask::new(task(i), Span::from_millis(1_000 + u64::from(i % 7) * 1_000))).collect()
}

fn run(bencher: Bencher, policy: &str, tasks: Vec<SimTask>) {
    let gpu = GpuState { memory: 12 << 30, strangers: 0, alive: true };
    let capacity = Capacity { gpus: vec![gpu; 8], cpus: 16, memory: 1 << 40, jobs: None };
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
