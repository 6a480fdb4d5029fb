//! Work that shares a machine slows down as predicted, and the schedule shows it.

use flow_core::sched::contention::Host;
use flow_core::sched::{Capacity, Estimate, GpuState, Limits, Task, policy};
use flow_core::{CorunGpus, GroupId, InstanceId, ResourceRequest, Span};
use flow_sim::{Attempt, Schedule, SimTask, Simulation};

/// A training that history knows: seconds alone, cores, and how busy it keeps its GPU.
fn known(id: u32, seconds: f64, cores: f64, gpu_busy: f64) -> SimTask {
    let work = Span::from_secs_f64(seconds);
    let task = Task {
        instance: InstanceId(id),
        request: ResourceRequest { gpus: 1, cpus: 4, ..ResourceRequest::default() },
        estimate: Estimate {
            duration: Some(work),
            gpu_memory: Some(1 << 30),
            cpu_milli: Some((cores * 1e3) as u32),
            gpu_busy_milli: Some((gpu_busy * 1e3) as u32),
            samples: 1,
            ..Estimate::default()
        },
        ..Task::default()
    };
    SimTask { attempts: vec![Attempt { cores, gpu_busy, ..Attempt::new(work) }], ..SimTask::new(task, work) }
}

fn run(gpus: usize, cores: u32, tasks: Vec<SimTask>) -> Schedule {
    let gpu = GpuState { memory: 24 << 30, foreign: 0, alive: true };
    let capacity = Capacity { gpus: vec![gpu; gpus], cpus: cores, memory: 1 << 40, jobs: None, batch: 0 };
    let host = Host { cores: f64::from(cores), devices: Vec::new() };
    let policy = policy::named("fit").unwrap();
    let simulation = Simulation::new(tasks, capacity, policy, Limits::simulated()).unwrap().on(host);
    simulation.run(|scheduler, _| scheduler.check().unwrap()).unwrap()
}

fn ends(schedule: &Schedule) -> Vec<f64> {
    schedule.ran.iter().map(|ran| (ran.end.as_secs_f64() * 10.0).round() / 10.0).collect()
}

#[test]
fn the_published_triple_takes_what_was_measured() {
    // CPU work of an epoch is that of the dataset, pooled over its four runs alone, as a share of the host's.
    let together = |epochs: [f64; 3], work: f64| {
        let tasks = epochs.iter().zip(0..).map(|(&time, id)| {
            let mut member = known(id, time, 4.0 * work / time, 0.8);
            member.task.corun = Some((GroupId(0), CorunGpus::Own));
            member
        });
        ends(&run(3, 4, tasks.collect()))
    };
    assert_eq!(together([16.2, 15.4, 11.3], 9.53), [28.6; 3], "28.5 s each were measured");
    assert_eq!(together([14.4, 13.6, 8.7], 2.79), [14.4, 13.6, 8.7], "no change was measured");
}

#[test]
fn speeds_change_when_somebody_ends() {
    // Both ask for all of the GPU half again: 1.6 in all. The short one ends after 16 s, the long one has done 10 of 30 then.
    let tasks = vec![known(0, 10.0, 1.0, 0.8), known(1, 30.0, 1.0, 0.8)];
    assert_eq!(ends(&run(1, 8, tasks)), [16.0, 36.0]);
    // Nothing is gained by a third that would bring it to 2.4.
    let tasks = (0..3).map(|id| known(id, 10.0, 1.0, 0.8)).collect();
    assert_eq!(ends(&run(1, 8, tasks)), [16.0, 16.0, 26.0]);
}

#[test]
fn start_up_is_not_slowed_down_as_epochs_are() {
    // 11 s of start-up, 2 s of epochs that keep the GPU busy 99 %.
    let group = (0..3).map(|id| {
        let mut task = known(id, 13.0, 1.0, 0.99 * 2.0 / 13.0).task;
        task.estimate.startup = Some(Span::from_secs_f64(11.0));
        task.corun = Some((GroupId(0), CorunGpus::Shared));
        task
    });
    let capacity = Capacity {
        gpus: vec![GpuState { memory: 24 << 30, foreign: 0, alive: true }],
        cpus: 16,
        memory: 1 << 40,
        jobs: None,
        batch: 0,
    };
    let host = Host { cores: 16.0, devices: Vec::new() };
    let tasks = flow_sim::expected(group.collect());
    let simulation = Simulation::new(tasks, capacity, policy::named("fit").unwrap(), Limits::default()).unwrap();
    let foreseen = simulation.on(host).run(|_, _| {});
    assert_eq!(
        ends(&foreseen.unwrap()),
        [16.9; 3],
        "17 s were measured, and all of it three times as long would be 39 s"
    );
}
