//! Workloads that are generated, and shrunk: tasks, a machine, a policy, and what befalls them.

use flow_core::sched::contention::Host;
use flow_core::sched::policy::{self, Policy};
use flow_core::sched::{Answer, Capacity, Estimate, Event, GpuState, Limits, Scheduler, Sharing, Task};
use flow_core::*;
use flow_sim::*;
use proptest::prelude::*;

pub(crate) const GIB: u64 = 1 << 30;

pub(crate) fn secs(s: u64) -> Span {
    Span::from_millis(s * 1_000)
}

/// A workload: the description that is generated, and shrunk.
#[derive(Clone, Debug)]
pub(crate) struct Workload {
    pub(crate) tasks: Vec<SimTask>,
    pub(crate) capacity: Capacity,
    pub(crate) policy: &'static str,
    pub(crate) limits: Limits,
    pub(crate) faults: Vec<(u64, Mishap)>,
}

#[derive(Clone, Debug)]
pub(crate) enum Mishap {
    Cancel(u64),
    Lose(usize),
    Return(usize),
    ForeignProcesses(usize, u64),
    Echo,
}

#[derive(Clone, Debug)]
pub(crate) struct Sketch {
    pub(crate) after: u64,
    pub(crate) members: usize,
    pub(crate) shared: bool,
    pub(crate) request: ResourceRequest,
    pub(crate) exclusive: Exclusive,
    pub(crate) measured: bool,
    pub(crate) continues: bool,
    pub(crate) peak: Option<u64>,
    pub(crate) busy: u32,
    pub(crate) keeps: Option<u32>,
    pub(crate) needs: Vec<(prop::sample::Index, bool)>,
    pub(crate) records: bool,
    pub(crate) timeout: Option<u64>,
    pub(crate) retries: u32,
    pub(crate) answer: Answer,
    pub(crate) settled: Option<Outcome>,
    pub(crate) attempts: Vec<Attempt>,
}

fn end() -> impl Strategy<Value = End> {
    let outcome = prop_oneof![6 => Just(Outcome::Ok), 1 => Just(Outcome::Failed), 1 => Just(Outcome::OutOfMemory)];
    prop_oneof![
        12 => (outcome.clone(), prop::bool::weighted(0.1))
            .prop_map(|(outcome, disturbed)| End::Exits { outcome, disturbed }),
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

pub(crate) fn build(sketches: Vec<Sketch>) -> Vec<SimTask> {
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
                repetition: None,
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

pub(crate) fn workload() -> impl Strategy<Value = Workload> {
    let capacity =
        (0..5usize, 1..6u32, 4..12u64, prop::option::weighted(0.2, 1..4u32)).prop_map(|(gpus, cpus, memory, jobs)| {
            Capacity {
                gpus: vec![GpuState { memory: 12 * GIB, foreign: 0, alive: true }; gpus],
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
        1 => (0..5u64).prop_map(Mishap::Cancel),
        1 => (0..5usize).prop_map(Mishap::Lose),
        1 => (0..5usize).prop_map(Mishap::Return),
        2 => (0..5usize, 0..13u64).prop_map(|(gpu, gib)| Mishap::ForeignProcesses(gpu, gib)),
        2 => Just(Mishap::Echo),
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
    pub(crate) fn run(&self, watch: impl FnMut(&Scheduler, &Event)) -> Schedule {
        self.run_with(policy::named(self.policy).unwrap(), watch)
    }

    pub(crate) fn run_with(&self, policy: Box<dyn Policy>, watch: impl FnMut(&Scheduler, &Event)) -> Schedule {
        let mut simulation =
            Simulation::new(self.tasks.clone(), self.capacity.clone(), policy, self.limits.clone()).unwrap();
        simulation = simulation.on(Host { cores: f64::from(self.capacity.cpus), devices: Vec::new() });
        let mut capacity = self.capacity.clone();
        for (at, fault) in &self.faults {
            let fault = match *fault {
                Mishap::Cancel(grace) => Fault::Cancel { grace: secs(grace) },
                Mishap::Echo => Fault::Echo,
                Mishap::Lose(gpu) | Mishap::Return(gpu) | Mishap::ForeignProcesses(gpu, _) => {
                    if let Some(state) = capacity.gpus.get_mut(gpu) {
                        match *fault {
                            Mishap::ForeignProcesses(_, gib) => state.foreign = gib.min(12) * GIB,
                            Mishap::Lose(_) => state.alive = false,
                            _ => state.alive = true,
                        }
                    }
                    Fault::Capacity(capacity.clone())
                }
            };
            simulation.befall(Time(0) + secs(*at), fault);
        }
        // Foreign processes go in the end; to wait for those who stay is right, but no end.
        capacity.gpus.iter_mut().for_each(|gpu| gpu.foreign = 0);
        simulation.befall(Time(0) + secs(100), Fault::Capacity(capacity));
        simulation.run(watch).unwrap_or_else(|error| panic!("{error}"))
    }

    pub(crate) fn task(&self, id: InstanceId) -> &Task {
        &self.tasks[id.index()].task
    }

    /// What runs at each instant at which something starts. What ends in the instant it starts in is beside nobody.
    pub(crate) fn moments<'a>(&self, schedule: &'a Schedule) -> impl Iterator<Item = Vec<&'a ScheduledAttempt>> {
        let at = |at: Time| schedule.ran.iter().filter(move |ran| ran.start <= at && at < ran.end).collect();
        schedule.ran.iter().map(move |ran| at(ran.start))
    }
}
