//! Properties of every schedule, over generated workloads with faults. What ran when is checked from the schedule alone,
//! not from the scheduler's own books; those are checked by `check()` after every event.

mod workload;

use flow_core::sched::policy;
use flow_core::sched::{Action, Answer, Capacity, Event, GpuState, Limits, WaitState};
use flow_core::*;
use flow_sim::*;
use proptest::prelude::*;

use workload::{GIB, Sketch, Workload, build, secs, workload};

fn resources_are_never_oversubscribed(load: &Workload, schedule: &Schedule) -> Result<(), TestCaseError> {
    for ran in &schedule.ran {
        let task = load.task(ran.instance);
        prop_assert_eq!(ran.placement.gpus.len(), task.request.gpus as usize, "gangs are all or nothing");
        prop_assert!(
            ran.placement.gpus.is_sorted() && ran.placement.gpus.iter().all(|g| g.index() < load.capacity.gpus.len())
        );
        prop_assert_eq!(ran.placement.cpus, task.request.cpus);
    }
    // Nothing is learned in a simulation: the first trial is the last.
    prop_assert!(schedule.ran.iter().filter(|ran| ran.placement.trial).count() <= 1);
    for moment in load.moments(schedule) {
        let group = moment.iter().all(|ran| load.task(ran.instance).corun.is_some());
        // What is declared is kept free; what history knows of a step that keeps GPUs busy may go somewhat beyond.
        let (mut declared, mut all) = (0, 0);
        for ran in &moment {
            let task = load.task(ran.instance);
            let alone = task.measured || task.exclusive != Exclusive::No || task.request.gpus == 0;
            let learned = task.estimate.cpu_milli.filter(|_| task.estimate.samples > 0 && !alone);
            declared += if learned.is_none() { ran.placement.cpus * 1_000 } else { 0 };
            all += learned.map_or(u32::MAX, |milli| milli).min(ran.placement.cpus * 1_000);
        }
        let host = load.capacity.cpus * 1_000;
        prop_assert!(group || declared <= host && all <= host * 13 / 10, "{} and {} of {}", declared, all, host);
        prop_assert!(group || load.capacity.jobs.is_none_or(|jobs| moment.len() <= jobs as usize));
        let memory: u64 = moment.iter().filter_map(|ran| load.task(ran.instance).request.memory).sum();
        prop_assert!(memory <= load.capacity.memory);
        for gpu in 0..load.capacity.gpus.len() as u32 {
            let here: Vec<_> = moment.iter().filter(|ran| ran.placement.gpus.contains(&GpuId(gpu))).collect();
            let reserved: u64 = here.iter().map(|ran| ran.placement.gpu_memory).sum();
            prop_assert!(reserved <= 12 * GIB, "{} bytes on GPU {}", reserved, gpu);
            let declared: u64 = here.iter().filter_map(|ran| load.task(ran.instance).request.gpu_memory).sum();
            prop_assert!(declared <= 12 * GIB);
            let alone = |ran: &&&ScheduledAttempt| {
                let task = load.task(ran.instance);
                let unknown = task.estimate.samples == 0;
                task.corun.is_none() && (task.measured || unknown || task.exclusive == Exclusive::Gpu)
            };
            prop_assert!(here.len() < 2 || !here.iter().any(alone), "a GPU wanted alone is shared");
        }
    }
    Ok(())
}

fn groups_start_as_one_and_alone(load: &Workload, schedule: &Schedule) -> Result<(), TestCaseError> {
    for moment in load.moments(schedule) {
        for ran in &moment {
            let task = load.task(ran.instance);
            match task.corun {
                Some((group, mode)) => {
                    let same =
                        |other: &&ScheduledAttempt| load.task(other.instance).corun.map(|corun| corun.0) == Some(group);
                    prop_assert!(moment.iter().all(&same), "something runs beside a group");
                    let starts: Vec<_> = schedule.ran.iter().filter(|o| same(o) && o.start == ran.start).collect();
                    let members =
                        load.tasks.iter().filter(|t| t.task.corun == task.corun && t.task.settled.is_none()).count();
                    prop_assert!(starts.len() % members == 0, "{} of {} members start", starts.len(), members);
                    let sets: Vec<_> = starts.iter().map(|o| &o.placement.gpus).collect();
                    if mode == CorunGpus::Shared && starts.len() == members {
                        prop_assert!(sets.iter().all(|set| *set == sets[0]));
                    }
                }
                None if task.exclusive == Exclusive::Machine => {
                    prop_assert_eq!(moment.len(), 1, "something runs beside an exclusive step");
                }
                None => {}
            }
        }
    }
    Ok(())
}

fn everything_ends_well(load: &Workload, schedule: &Schedule) -> Result<(), TestCaseError> {
    let started = |id: InstanceId| schedule.ran.iter().filter(move |ran| ran.instance == id);
    for (i, task) in load.tasks.iter().enumerate() {
        let id = InstanceId(i as u32);
        let (outcome, at) = schedule.settled[i].unwrap();
        // Retries, one repetition, one more alone, the first.
        let retries = load.tasks.iter().filter(|t| t.task.corun.is_some() && t.task.corun == task.task.corun);
        let retries = retries.map(|t| t.task.retries).max().unwrap_or(task.task.retries);
        let preempted = schedule.actions.iter().filter(|(_, action)| matches!(action, Action::Preempt { .. })).count();
        prop_assert!(started(id).count() <= retries as usize + 3 + preempted);
        for ran in started(id) {
            prop_assert!(ran.end <= at);
            for need in &task.task.needs {
                let (how, when) = schedule.settled[need.on.index()].unwrap();
                prop_assert!(when <= ran.start, "it starts before what it needs is settled");
                let needed = load.task(need.on);
                let fine = how == Outcome::Ok
                    || needed.record.contains(&how)
                    || needed.settled == Some(Outcome::Skipped)
                    || need.list && load.limits.keep_going;
                prop_assert!(fine, "it starts although what it needs ended {:?}", how);
            }
        }
        prop_assert!(outcome != Outcome::Ok || task.answer != Answer::Miss || started(id).count() > 0);
    }
    // In a simulation more may arrive after everything is settled.
    let finishes = schedule.actions.iter().filter(|(_, action)| *action == Action::Finish).count();
    let batches = load.tasks.iter().map(|task| task.task.submitted).collect::<std::collections::BTreeSet<_>>().len();
    prop_assert!(load.tasks.is_empty() || (1..=batches).contains(&finishes));
    prop_assert!(load.tasks.is_empty() || schedule.actions.last().unwrap().1 == Action::Finish);
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 150, max_shrink_iters: 20_000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn every_schedule_is_sound(load in workload()) {
        let schedule = load.run(|scheduler, event| {
            scheduler.check().unwrap_or_else(|what| panic!("after {event:?}: {what}"));
        });
        resources_are_never_oversubscribed(&load, &schedule)?;
        groups_start_as_one_and_alone(&load, &schedule)?;
        everything_ends_well(&load, &schedule)?;
    }

    #[test]
    fn the_same_workload_gives_the_same_actions(load in workload()) {
        prop_assert_eq!(load.run(|_, _| {}), load.run(|_, _| {}));
    }

    #[test]
    fn fit_leaves_nothing_waiting_that_could_start(load in workload()) {
        let load = Workload { policy: "fit", limits: Limits { patience: None, ..load.limits.clone() }, ..load };
        let mut left = None;
        load.run(|scheduler, event| {
            if *event == Event::Tick {
                let idle = (0..load.tasks.len() as u32)
                    .map(InstanceId)
                    .find(|&id| matches!(scheduler.explain(Time(0), id), WaitState::Turn(_)));
                left = left.or(idle);
            }
        });
        prop_assert_eq!(left, None);
    }

    /// With V = 0 the longest wait goes first: the order of arrival.
    #[test]
    fn lyapunov_without_penalty_is_easy(load in workload()) {
        let load = Workload { limits: Limits { patience: None, ..load.limits.clone() }, ..load };
        let lyapunov = load.run_with(Box::new(policy::Lyapunov { v: 0.0 }), |_, _| {});
        prop_assert_eq!(lyapunov, load.run_with(policy::named("easy").unwrap(), |_, _| {}));
    }

    /// Whoever was promised a time starts by then, if everyone takes what was estimated.
    #[test]
    fn a_reserved_head_is_not_delayed(
        jobs in prop::collection::vec((0..30u64, 1..9u32, 1..60u64), 1..60),
        // In the order of arrival nobody comes before the head.
        policy in prop::sample::select(vec!["easy", "priority"]),
    ) {
        let mut at = 0;
        let jobs: Vec<trace::Job> = jobs.into_iter().enumerate().map(|(i, (after, gpus, seconds))| {
            at += after;
            let submitted = Time(0) + secs(at);
            trace::Job { id: i.to_string(), line: 1, submitted, gpus, duration: secs(seconds), priority: 0 }
        }).collect();
        let tasks = trace::tasks(&jobs);
        let capacity = Cluster { nodes: 1, gpus: 8 }.capacity();
        let mut promised: std::collections::BTreeMap<InstanceId, Time> = Default::default();
        let simulation =
            Simulation::new(tasks, capacity, policy::named(policy).unwrap(), Limits::simulated()).unwrap();
        let schedule = simulation.run(|scheduler, event| {
            if *event != Event::Tick {
                return;
            }
            if let Some((gang, Some(at))) = scheduler.reservation() {
                let first = *promised.entry(gang).or_insert(at);
                assert!(at <= first, "instance {} was promised {first:?}, now {at:?}", gang.0);
            }
        }).unwrap();
        for ran in schedule.ran {
            if let Some(at) = promised.get(&ran.instance) {
                prop_assert!(ran.start <= *at, "{:?} was promised {:?}, starts at {:?}", ran.instance, at, ran.start);
            }
        }
    }

    /// One that needs much, and small ones that come and come: once those have started that the policy puts before it, it
    /// starts soon after its patience has ended.
    #[test]
    fn nobody_starves(
        policy in prop::sample::select(
            vec!["fit", "critical-path", "easy", "sjf", "sjf-fit", "priority", "lyapunov"]),
        exclusive in any::<bool>(),
        work in prop::collection::vec(1..10u64, 200),
        arrival in 0..30u64,
    ) {
        let mut small = Sketch {
            after: 1, members: 1, shared: false,
            request: ResourceRequest { gpus: 1, cpus: 1, ..ResourceRequest::default() },
            exclusive: Exclusive::No, measured: false, continues: false, peak: None, busy: 0, keeps: None, needs: Vec::new(),
            records: false, timeout: None, retries: 0, answer: Answer::Miss, settled: None, attempts: Vec::new(),
        };
        let sketches = work.iter().enumerate().map(|(i, &work)| {
            small.attempts = vec![Attempt::new(secs(work))];
            let mut sketch = small.clone();
            if i as u64 == arrival {
                sketch.request.gpus = 2;
                sketch.exclusive = if exclusive { Exclusive::Machine } else { Exclusive::No };
                sketch.attempts = vec![Attempt::new(secs(10))];
            }
            sketch
        });
        let capacity = Capacity {
            gpus: vec![GpuState { memory: 12 * GIB, foreign: 0, alive: true }; 2],
            cpus: 4, memory: GIB, jobs: None, batch: 0,
        };
        let limits = Limits { patience: Some(secs(20)), ..Limits::default() };
        let load = Workload { tasks: build(sketches.collect()), capacity, policy, limits, faults: Vec::new() };
        let schedule = load.run(|_, _| {});
        let wide = InstanceId(arrival as u32);
        // When its turn is at the latest, as the policy counts.
        let turn = |id: InstanceId| {
            let (task, gpus) = (load.task(id), u64::from(load.task(id).request.gpus));
            let takes = task.estimate.duration.unwrap();
            task.submitted + match policy {
                "sjf" | "sjf-fit" => secs(20).max(Span(4 * takes.0)),
                "lyapunov" => Span(takes.0 * gpus),
                _ => Span(0),
            }
        };
        let start = |id: InstanceId| schedule.ran.iter().find(|ran| ran.instance == id).unwrap().start;
        let all = (0..load.tasks.len() as u32).map(InstanceId);
        let before = all.filter(|&id| (turn(id), id) < (turn(wide), wide)).map(start).max().unwrap_or_default();
        let turn = turn(wide).max(before);
        // A decision comes ten seconds after patience has ended at the latest, and what runs then takes ten at most.
        prop_assert!(start(wide) <= turn + secs(20 + 10 + 10), "it starts at {:?}, its turn was at {:?}", start(wide), turn);
    }
}
