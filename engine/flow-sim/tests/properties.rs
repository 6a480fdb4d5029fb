//! Properties of every schedule, over generated workloads with faults. What ran when is checked from the schedule alone,
//! not from the scheduler's own books; those are checked by `check()` after every event.

use flow_core::sched::contention::Host;
use flow_core::sched::policy::{self, Policy};
use flow_core::sched::{
    Action, Answer, Capacity, Estimate, Event, GpuState, Limits, Scheduler, Sharing, Task, Waiting,
};
use flow_core::*;
use flow_sim::*;
use proptest::prelude::*;

const GIB: u64 = 1 << 30;

fn secs(s: u64) -> Span {
    Span::from_millis(s * 1_000)
}

/// A workload: the description that is generated, and shrunk.
#[derive(Clone, Debug)]
struct Workload {
    tasks: Vec<SimTask>,
    capacity: Capacity,
    policy: &'static str,
    limits: Limits,
    faults: Vec<(u64, Befalls)>,
}

#[derive(Clone, Debug)]
enum Befalls {
    Cancel(u64),
    Lose(usize),
    Return(usize),
    Strangers(usize, u64),
    Echo,
}

#[derive(Clone, Debug)]
struct Sketch {
    after: u64,
    members: usize,
    shared: bool,
    request: ResourceRequest,
    exclusive: Exclusive,
    measured: bool,
    continues: bool,
    peak: Option<u64>,
    busy: u32,
    keeps: Option<u32>,
    needs: Vec<(prop::sample::Index, bool)>,
    records: bool,
    timeout: Option<u64>,
    retries: u32,
    answer: Answer,
    settled: Option<Outcome>,
    attempts: Vec<Attempt>,
}

fn end() -> impl Strategy<Value = End> {
    let outcome = prop_oneof![6 => Just(Outcome::Ok), 1 => Just(Outcome::Failed), 1 => Just(Outcome::OutOfMemory)];
    prop_oneof![
        12 => (outcome.clone(), prop::bool::weighted(0.1))
            .prop_map(|(outcome, spoiled)| End::Exits { outcome, spoiled }),
        1 => outcome.prop_map(End::BeforeReady),
        1 => Just(End::SpawnFails),
        1 => Just(End::Hangs),
    ]
}

fn attempt() -> impl Strategy<Value = Attempt> {
    (0..4u64, 0..20u64, end(), any::<bool>()).prop_map(|(warm_up, work, end, obstinate)| Attempt {
        warm_up: secs(warm_up),
        end,
        obstinate,
        ..Attempt::new(secs(work))
    })
}

fn sketch() -> impl Strategy<Value = Sketch> {
    let request = (
        prop_oneof![3 => Just(0u32), 4 => 1..3u32, 1 => Just(4u32)],
        prop::option::of(1..14u64),
        0..4u32,
        prop::option::of(0..9u64),
    )
        .prop_map(|(gpus, gpu_memory, cpus, memory)| ResourceRequest {
            gpus,
            gpu_memory: gpu_memory.map(|gib| gib * GIB),
            cpus,
            memory: memory.map(|gib| gib * GIB),
        });
    let exclusive = prop_oneof![6 => Just(Exclusive::No), 1 => Just(Exclusive::Gpu), 1 => Just(Exclusive::Machine)];
    let answer = prop_oneof![
        12 => Just(Answer::Miss),
        1 => Just(Answer::Hit(Outcome::Ok)),
        1 => Just(Answer::Refused(Outcome::Skipped)),
    ];
    let settled = prop_oneof![
        20 => Just(None),
        1 => Just(Some(Outcome::Skipped)),
        1 => Just(Some(Outcome::DoesNotFit))
    ];
    let shape = (
        prop_oneof![3 => Just(0u64), 1 => 1..15u64],
        prop_oneof![5 => Just(1usize), 1 => 2..4usize],
        any::<bool>(),
        request,
        exclusive,
        any::<bool>(),
        any::<bool>(),
        (prop::option::of(1..14u64), 0..=1_000u32, prop::option::of(0..4_000u32)),
    );
    let life = (
        prop::collection::vec((any::<prop::sample::Index>(), any::<bool>()), 0..3),
        any::<bool>(),
        prop::option::weighted(0.3, 1..15u64),
        0..3u32,
        answer,
        settled,
        prop::collection::vec(attempt(), 1..3),
    );
    (shape, life).prop_map(
        |(
            (after, members, shared, request, exclusive, measured, continues, (peak, busy, keeps)),
            (needs, records, timeout, retries, answer, settled, attempts),
        )| Sketch {
            after,
            members,
            shared,
            request,
            exclusive,
            measured,
            continues,
            peak,
            busy,
            keeps,
            needs,
            records,
            timeout,
            retries,
            answer,
            settled,
            attempts,
        },
    )
}

fn build(sketches: Vec<Sketch>) -> Vec<SimTask> {
    let mut tasks: Vec<SimTask> = Vec::new();
    let mut submitted = Time(0);
    for (group, sketch) in sketches.into_iter().enumerate() {
        submitted = submitted + secs(sketch.after);
        let before = tasks.len();
        for member in 0..sketch.members {
            let together = sketch.members > 1;
            let mode = if sketch.shared { CorunGpus::Shared } else { CorunGpus::Own };
            let mut needs: Vec<Need> = Vec::new();
            if before > 0 {
                let on = |index: &prop::sample::Index| InstanceId(index.index(before) as u32);
                needs.extend(sketch.needs.iter().map(|(index, list)| Need { on: on(index), list: *list }));
            }
            let mut attempts = sketch.attempts.clone();
            for attempt in &mut attempts {
                attempt.cores = sketch.keeps.map_or(0.0, |milli| f64::from(milli) / 1e3);
                attempt.gpu_busy = f64::from(sketch.busy) / 1e3;
            }
            let turn = member % attempts.len();
            attempts.rotate_left(turn);
            // What hangs needs somebody to end it, or nothing ever would.
            let hangs = attempts.iter().any(|attempt| attempt.end == End::Hangs);
            let timeout = sketch.timeout.or((hangs || together).then_some(30));
            let task = Task {
                instance: InstanceId(tasks.len() as u32),
                needs,
                request: sketch.request,
                exclusive: if together { Exclusive::No } else { sketch.exclusive },
                corun: together.then_some((GroupId(group as u32), mode)),
                continues: sketch.continues,
                measured: sketch.measured || together,
                batch: false,
                record: if sketch.records {
                    vec![Outcome::OutOfMemory, Outcome::TimedOut, Outcome::DoesNotFit]
                } else {
                    Vec::new()
                },
                timeout: timeout.map(secs),
                retries: sketch.retries,
                priority: 0,
                settled: sketch.settled.filter(|_| member == 0),
                estimate: Estimate {
                    duration: attempts.first().map(|attempt| attempt.work),
                    gpu_memory: sketch.peak.map(|gib| gib * GIB),
                    gpu_busy_milli: sketch.peak.map(|_| sketch.busy),
                    cpu_milli: sketch.keeps,
                    samples: u32::from(sketch.peak.is_some()),
                    timed_alone: sketch.peak.is_some_and(|peak| peak % 2 == 0),
                    ..Estimate::default()
                },
                submitted,
            };
            tasks.push(SimTask { answer: sketch.answer.clone(), attempts, ..SimTask::new(task, Span(0)) });
        }
    }
    tasks
}

fn workload() -> impl Strategy<Value = Workload> {
    let capacity =
        (0..5usize, 1..6u32, 4..12u64, prop::option::weighted(0.2, 1..4u32)).prop_map(|(gpus, cpus, memory, jobs)| {
            Capacity {
                gpus: vec![GpuState { memory: 12 * GIB, strangers: 0, alive: true }; gpus],
                cpus,
                memory: memory * GIB,
                jobs,
                batch: 0,
            }
        });
    let pair = (0..24u32, 0..24u32, 0.9..2.5f64, 0.9..2.5f64);
    let sharing = (prop::option::of(0.0..1.5f64), 0.0..2.0f64, prop::collection::vec(pair, 0..6));
    let sharing = sharing.prop_map(|(trial, price, pairs)| {
        let both =
            |(a, b, one, other)| [((InstanceId(a), InstanceId(b)), one), ((InstanceId(b), InstanceId(a)), other)];
        let pairs = pairs.into_iter().flat_map(both).filter(|((a, b), _)| a != b).collect();
        Sharing { devices: vec![price; 3], trial: vec![trial; 5], pairs, ..Sharing::default() }
    });
    let limits = (any::<bool>(), prop::option::of(1..40u64), sharing).prop_map(|(keep_going, patience, sharing)| {
        Limits { keep_going, patience: patience.map(secs), sharing, ..Limits::default() }
    });
    let fault = prop_oneof![
        1 => (0..5u64).prop_map(Befalls::Cancel),
        1 => (0..5usize).prop_map(Befalls::Lose),
        1 => (0..5usize).prop_map(Befalls::Return),
        2 => (0..5usize, 0..13u64).prop_map(|(gpu, gib)| Befalls::Strangers(gpu, gib)),
        2 => Just(Befalls::Echo),
    ];
    let faults = prop_oneof![2 => Just(Vec::new()), 1 => prop::collection::vec((0..60u64, fault), 0..5)];
    let names = policy::POLICIES.iter().map(|(name, _)| *name).collect::<Vec<_>>();
    (prop::collection::vec(sketch(), 0..24), capacity, prop::sample::select(names), limits, faults).prop_map(
        |(mut sketches, capacity, policy, limits, mut faults)| {
            faults.sort_by_key(|(at, _)| *at);
            let made = policy::named(policy).unwrap();
            if made.one_gpu_only() {
                sketches.iter_mut().for_each(|sketch| sketch.request.gpus = sketch.request.gpus.min(1));
            }
            let limits = Limits { preemption: made.preemptive(), ..limits };
            Workload { tasks: build(sketches), capacity, policy, limits, faults }
        },
    )
}

impl Workload {
    fn run(&self, watch: impl FnMut(&Scheduler, &Event)) -> Schedule {
        self.run_with(policy::named(self.policy).unwrap(), watch)
    }

    fn run_with(&self, policy: Box<dyn Policy>, watch: impl FnMut(&Scheduler, &Event)) -> Schedule {
        let mut simulation =
            Simulation::new(self.tasks.clone(), self.capacity.clone(), policy, self.limits.clone()).unwrap();
        simulation = simulation.on(Host { cores: f64::from(self.capacity.cpus), devices: Vec::new() });
        let mut capacity = self.capacity.clone();
        for (at, fault) in &self.faults {
            let fault = match *fault {
                Befalls::Cancel(grace) => Fault::Cancel { grace: secs(grace) },
                Befalls::Echo => Fault::Echo,
                Befalls::Lose(gpu) | Befalls::Return(gpu) | Befalls::Strangers(gpu, _) => {
                    if let Some(state) = capacity.gpus.get_mut(gpu) {
                        match *fault {
                            Befalls::Strangers(_, gib) => state.strangers = gib.min(12) * GIB,
                            Befalls::Lose(_) => state.alive = false,
                            _ => state.alive = true,
                        }
                    }
                    Fault::Capacity(capacity.clone())
                }
            };
            simulation.befall(Time(0) + secs(*at), fault);
        }
        // Strangers go in the end; to wait for those who stay is right, but no end.
        capacity.gpus.iter_mut().for_each(|gpu| gpu.strangers = 0);
        simulation.befall(Time(0) + secs(100), Fault::Capacity(capacity));
        simulation.run(watch).unwrap_or_else(|error| panic!("{error}"))
    }

    fn task(&self, id: InstanceId) -> &Task {
        &self.tasks[id.index()].task
    }

    /// What runs at each instant at which something starts. What ends in the instant it starts in is beside nobody.
    fn moments<'a>(&self, schedule: &'a Schedule) -> impl Iterator<Item = Vec<&'a Ran>> {
        let at = |at: Time| schedule.ran.iter().filter(move |ran| ran.start <= at && at < ran.end).collect();
        schedule.ran.iter().map(move |ran| at(ran.start))
    }
}

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
            let alone = |ran: &&&Ran| {
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
                    let same = |other: &&Ran| load.task(other.instance).corun.map(|corun| corun.0) == Some(group);
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
    #![proptest_config(ProptestConfig { cases: 600, max_shrink_iters: 20_000, failure_persistence: None, ..ProptestConfig::default() })]

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
                    .find(|&id| matches!(scheduler.explain(Time(0), id), Waiting::Turn(_)));
                left = left.or(idle);
            }
        });
        prop_assert_eq!(left, None);
    }

    /// With V = 0 the longest wait goes first: the order of arrival.
    #[test]
    fn lyapunov_without_penalty_is_fit_and_with_reservation_easy(load in workload()) {
        let load = Workload { limits: Limits { patience: None, ..load.limits.clone() }, ..load };
        for (reservation, same) in [(false, "fit"), (true, "easy")] {
            let lyapunov = load.run_with(Box::new(policy::Lyapunov { v: 0.0, reservation }), |_, _| {});
            prop_assert_eq!(lyapunov, load.run_with(policy::named(same).unwrap(), |_, _| {}), "{}", same);
        }
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
            trace::Job { id: i.to_string(), line: 1, submitted, gpus, duration: secs(seconds), priority: 0, tier: 1, quality: None }
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
            if let Some((unit, Some(at))) = scheduler.reservation() {
                let first = *promised.entry(unit).or_insert(at);
                assert!(at <= first, "instance {} was promised {first:?}, now {at:?}", unit.0);
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
            gpus: vec![GpuState { memory: 12 * GIB, strangers: 0, alive: true }; 2],
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
