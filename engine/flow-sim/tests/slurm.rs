//! Jobs that go through a simulated Slurm: when they start, what bounds them, and that every GPU-second is accounted for.

use std::collections::BTreeMap;

use flow_core::sched::{Limits, Task, policy};
use flow_core::{CorunGpus, GroupId, InstanceId, Outcome, ResourceRequest, Span, Time};
use flow_sim::{Cluster, Idle, Schedule, SimError, SimTask, Simulation, Slurm, Summary};
use proptest::prelude::*;

fn task(i: u32, gpus: u32, seconds: u64) -> SimTask {
    let request = ResourceRequest { gpus, cpus: 1, ..ResourceRequest::default() };
    SimTask::new(Task { instance: InstanceId(i), request, ..Task::default() }, Span::from_millis(seconds * 1_000))
}

fn run(tasks: &[SimTask], nodes: u32, gpus: u32, slurm: Slurm) -> Result<Schedule, SimError> {
    run_by("fifo", tasks, Cluster { nodes, gpus }, slurm)
}

fn run_by(name: &str, tasks: &[SimTask], cluster: Cluster, slurm: Slurm) -> Result<Schedule, SimError> {
    let policy = policy::named(name).unwrap();
    let limits = Limits::simulated();
    Simulation::new(tasks.to_vec(), cluster.capacity(), policy, limits)?.on_slurm(slurm, cluster)?.run(|_, _| {})
}

/// Nothing takes time but what a test says.
fn at_once() -> Slurm {
    let most = u32::MAX;
    Slurm {
        queue: most,
        array: most,
        jobs: most,
        remembered_s: 0.0,
        delay_s: 0.0,
        tick_s: 1.0,
        rate: 1e6,
        submit_s: 0.0,
        notice_s: 0.0,
    }
}

fn starts(schedule: &Schedule) -> Vec<f64> {
    schedule.ran.iter().map(|ran| ran.start.as_secs_f64()).collect()
}

fn share(schedule: &Schedule, why: Idle) -> f64 {
    schedule.met.as_ref().unwrap().idle.get(&why).copied().unwrap_or(0.0)
}

#[test]
fn a_job_starts_at_a_turn_of_slurm_after_its_delay_and_is_seen_to_end_later() {
    let slurm = Slurm { submit_s: 0.5, delay_s: 61.0, tick_s: 30.0, notice_s: 2.0, ..at_once() };
    let schedule = run(&[task(0, 1, 10)], 1, 1, slurm).unwrap();
    assert_eq!(starts(&schedule), [90.0]);
    assert_eq!(schedule.ran[0].end, Time(100_000_000));
    assert_eq!(schedule.settled[0], Some((Outcome::Ok, Time(102_000_000))));
    let met = schedule.met.unwrap();
    assert_eq!((met.calls, met.most_in_queue, met.mean_wait_s), (1, 1, 90.0));
    let expected = [(Idle::Tick, 0.285), (Idle::Delay, 0.615)];
    assert_eq!(met.idle, BTreeMap::from(expected));
}

#[test]
fn equal_requests_are_arrays_of_bounded_size() {
    let tasks: Vec<_> = (0..100).map(|i| task(i, 1 + u32::from(i >= 50), 1)).collect();
    let schedule = run(&tasks, 100, 2, Slurm { array: 20, submit_s: 1.0, ..at_once() }).unwrap();
    // 20, 20 and 10 for one GPU, and the same for two, a second each; those of a call are done when the second next ends.
    let met = schedule.met.as_ref().unwrap();
    assert_eq!((met.calls, met.most_in_queue), (6, 40));
    assert_eq!(starts(&schedule).into_iter().fold(0.0, f64::max), 6.0);
}

#[test]
fn so_many_jobs_are_in_the_queue_and_no_more() {
    let tasks: Vec<_> = (0..10).map(|i| task(i, 1, 10)).collect();
    let schedule = run(&tasks, 1, 4, Slurm { queue: 2, notice_s: 1.0, ..at_once() }).unwrap();
    assert_eq!(schedule.met.as_ref().unwrap().most_in_queue, 2);
    // Two of four GPUs are held for 10 s of every 11 or 12, until the next turn.
    assert!(share(&schedule, Idle::Queue) > 0.5, "{:?}", schedule.met);
}

#[test]
fn the_controller_s_memory_bounds_what_can_end() {
    // 100 jobs of a second on 100 GPUs, of which the controller knows 10, and each for 9 s after its end.
    let tasks: Vec<_> = (0..100).map(|i| task(i, 1, 1)).collect();
    let schedule = run(&tasks, 1, 100, Slurm { jobs: 10, remembered_s: 9.0, ..at_once() }).unwrap();
    assert_eq!(schedule.met.as_ref().unwrap().most_in_queue, 10);
    let last = starts(&schedule).into_iter().fold(0.0, f64::max);
    assert!((90.0..=110.0).contains(&last), "{last}");
    assert!(share(&schedule, Idle::Jobs) > 0.8, "{:?}", schedule.met);
}

#[test]
fn slurm_starts_so_many_a_second() {
    let tasks: Vec<_> = (0..100).map(|i| task(i, 1, 1)).collect();
    let schedule = run(&tasks, 1, 100, Slurm { rate: 10.0, ..at_once() }).unwrap();
    assert_eq!(starts(&schedule).into_iter().fold(0.0, f64::max), 9.0);
}

#[test]
fn later_jobs_pass_those_that_do_not_fit() {
    let tasks = [task(0, 2, 10), task(1, 4, 10), task(2, 2, 10)];
    let schedule = run(&tasks, 1, 4, at_once()).unwrap();
    let by: Vec<_> = schedule.ran.iter().map(|ran| (ran.instance.0, ran.start.as_secs_f64())).collect();
    assert_eq!(by, [(0, 0.0), (2, 0.0), (1, 10.0)]);
}

#[test]
fn a_group_is_one_job() {
    let member = |i, mode| {
        let mut task = task(i, 2, 5);
        task.task.corun = Some((GroupId(0), mode));
        task
    };
    let own = run(&[member(0, CorunGpus::Own), member(1, CorunGpus::Own)], 2, 4, at_once()).unwrap();
    let gpus = |schedule: &Schedule| -> Vec<Vec<u32>> {
        schedule.ran.iter().map(|ran| ran.placement.gpus.iter().map(|gpu| gpu.0).collect()).collect()
    };
    assert_eq!(gpus(&own), [[0, 1], [2, 3]]);
    let shared = run(&[member(0, CorunGpus::Shared), member(1, CorunGpus::Shared)], 2, 2, at_once()).unwrap();
    assert_eq!(gpus(&shared), [[0, 1], [0, 1]]);
    let wide = run(&[member(0, CorunGpus::Own), member(1, CorunGpus::Own)], 8, 3, at_once()).unwrap_err();
    assert_eq!(
        wide.to_string(),
        "instance 1 asks for 4 GPUs, with its group, but nodes have 3: a job of flow has one node"
    );
}

#[test]
fn small_steps_run_here_beside_the_jobs() {
    let mut tasks = [task(0, 0, 5), task(1, 1, 10)];
    tasks[1].task.batch = true;
    let schedule = run(&tasks, 1, 1, Slurm { delay_s: 60.0, ..at_once() }).unwrap();
    let ran: Vec<_> = schedule.ran.iter().map(|ran| (ran.start.as_secs_f64(), ran.end.as_secs_f64())).collect();
    assert_eq!(ran, [(0.0, 5.0), (60.0, 70.0)]);
    assert_eq!(schedule.met.unwrap().calls, 1);
}

#[test]
fn nothing_takes_a_job_off_its_gpus() {
    let refused = run_by("srtf", &[task(0, 1, 1)], Cluster { nodes: 1, gpus: 1 }, at_once()).unwrap_err();
    assert_eq!(refused.to_string(), "policy `srtf` takes jobs off their GPUs, which flow cannot do on Slurm");
}

/// Of each attempt: instance, start, end.
fn spans(schedule: &Schedule) -> Vec<(u32, f64, f64)> {
    schedule.ran.iter().map(|ran| (ran.instance.0, ran.start.as_secs_f64(), ran.end.as_secs_f64())).collect()
}

#[test]
fn higher_priorities_go_first() {
    let mut tasks = [0, 1, 2].map(|i| task(i, 1, 10));
    tasks[2].task.priority = 5;
    for (task, at) in tasks.iter_mut().zip(0..) {
        task.task.submitted = Time(at * 1_000_000);
    }
    let schedule = run(&tasks, 1, 1, at_once()).unwrap();
    assert_eq!(spans(&schedule), [(0, 0.0, 10.0), (2, 10.0, 20.0), (1, 20.0, 30.0)]);
}

#[test]
fn limits_are_read_and_checked() {
    let read = Slurm::default().with("queue=500, delay_s=600").unwrap();
    assert_eq!(read, Slurm { queue: 500, delay_s: 600.0, ..Slurm::default() });
    assert_eq!(Slurm::default().with("default"), Ok(Slurm::default()));
    let wrong = ["queue", "queue=x", "queu=1", "queue=0", "queue=-1", "delay_s=-1", "tick_s=0", "rate=nan", "rate=inf"];
    let told: Vec<String> = wrong.iter().map(|text| Slurm::default().with(text).unwrap_err().to_string()).collect();
    let expected = [
        "`queue` is not NAME=NUMBER",
        "`x` in `queue=x` is not a number",
        "Slurm has no `queu` here; there are queue, array, jobs, remembered_s, delay_s, tick_s, rate, submit_s, notice_s",
        "`queue` of Slurm is 0, expected 1 or more",
        "`queue` of Slurm is 0, expected 1 or more",
        "`delay_s` of Slurm is -1, expected 0 to 10000000",
        "`tick_s` of Slurm is 0, expected 0.001 to 10000000",
        "`rate` of Slurm is NaN, expected 0.001 to 10000000",
        "`rate` of Slurm is inf, expected 0.001 to 10000000",
    ];
    assert_eq!(told, expected);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    #[test]
    fn all_gpu_time_is_held_or_idle_for_a_reason(
        jobs in proptest::collection::vec((0_u32..=4, 0_u64..50, 0_u64..30), 1..60),
        nodes in 1_u32..4,
        queue in 1_u32..40,
        array in 1_u32..10,
        jobs_known in 1_u32..40,
        times in (0_u32..20, 0_u32..100, 1_u32..10, 0_u32..3, 0_u32..5),
        policy in prop::sample::select(vec!["fifo", "fit", "easy", "sjf"]),
    ) {
        let mut at = 0;
        let tasks: Vec<SimTask> = jobs.iter().enumerate().map(|(i, &(gpus, seconds, later))| {
            at += later;
            let mut task = task(i as u32, gpus, seconds);
            task.task.submitted = Time(at * 1_000_000);
            task
        }).collect();
        let (remembered, delay, tick, submit, notice) = times;
        let slurm = Slurm {
            queue,
            array,
            jobs: jobs_known,
            remembered_s: remembered.into(),
            delay_s: delay.into(),
            tick_s: f64::from(tick) / 2.0,
            rate: 3.0,
            submit_s: f64::from(submit) / 10.0,
            notice_s: notice.into(),
        };
        let cluster = Cluster { nodes, gpus: 4 };
        let schedule = run_by(policy, &tasks, cluster, slurm).unwrap();
        prop_assert!(schedule.settled.iter().all(|settled| matches!(settled, Some((Outcome::Ok, _)))));
        prop_assert_eq!(schedule.ran.len(), tasks.len());
        let mut held: BTreeMap<u32, Vec<(Time, Time)>> = BTreeMap::new();
        for ran in &schedule.ran {
            let task = &tasks[ran.instance.index()].task;
            prop_assert_eq!(ran.placement.gpus.len() as u32, task.request.gpus);
            let node = |gpu: &flow_core::GpuId| gpu.0 / 4;
            prop_assert!(ran.placement.gpus.iter().all(|gpu| node(gpu) == node(&ran.placement.gpus[0])));
            prop_assert!(ran.start >= task.submitted);
            ran.placement.gpus.iter().for_each(|gpu| held.entry(gpu.0).or_default().push((ran.start, ran.end)));
        }
        for spans in held.values_mut() {
            spans.sort();
            prop_assert!(spans.windows(2).all(|pair| pair[0].1 <= pair[1].0), "two on one GPU: {:?}", spans);
        }
        let met = schedule.met.clone().unwrap();
        prop_assert!(met.most_in_queue <= queue.min(jobs_known) as usize);
        let summary = Summary::of(policy, &tasks, &schedule, cluster.total());
        let idle: f64 = met.idle.values().sum();
        if schedule.makespan() > Time(0) {
            prop_assert!((summary.gpu_utilisation + idle - 1.0).abs() < 1e-6, "{} + {:?}", summary.gpu_utilisation, met);
        }
    }
}
