//! Other runs on the machine: their holdings are not available, the longest wait goes first, and several schedulers on
//! one machine all finish without blocking each other.

use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;

use super::dsl::{World, case};
use crate::reason::{PeerConflict, Resource};
use crate::sched::*;
use crate::*;

#[test]
fn what_other_runs_hold_is_not_there_and_comes_back() {
    let world = case(
        "cpus=4 memory=8",
        "a cpus=2
         b cpus=2
         c memory=5",
        "0 others cpus=3 memory=4 attempts=1 |
         1 submit                            |
         2 others cpus=2 attempts=1          | start a
         3 others gone                       | start b
         4 exit a                            | record a; start c",
    );
    assert!(world.scheduler.held_up().is_none(), "there is nobody to tell");
    assert_eq!(
        world.scheduler.holding(),
        MachineShare { cpu_milli: 3_000, memory: 5 << 30, attempts: 2, ..MachineShare::default() }
    );
}

#[test]
fn who_wants_the_machine_alone_waits_for_others_and_they_for_it() {
    case(
        "cpus=4",
        "a exclusive
         b cpus=1",
        "0 others attempts=1           |
         1 submit                      | start b
         2 exit b                      | record b
         3 others                      | start a",
    );
    for facts in ["attempts=1 exclusive", "ahead_exclusive"] {
        let mut world = World::new("cpus=4", "a cpus=1");
        assert_eq!(world.happens(&format!("0 others {facts}")), "");
        assert_eq!(world.happens("1 submit"), "", "{facts}");
        assert_eq!(world.happens("2 others gone"), "start a");
    }
    case("cpus=4", "a group=g/own\n b group=g/own", "0 others attempts=1 |\n 1 submit |\n 2 others | start a; start b");
}

#[test]
fn what_waits_for_others_is_said_and_is_the_head() {
    let mut world = World::new("cpus=4", "a cpus=3 priority=2 takes=9\n b exclusive\n c cpus=1");
    world.happens("0 others cpus=2 attempts=1");
    assert_eq!(world.happens("5 submit"), "start c");
    let WaitState::Resources(short) = world.waits("a") else { panic!("{:?}", world.waits("a")) };
    assert_eq!((short[0].resource, short[0].available, short[0].other_runs), (Resource::Cpus, 1, 2));
    world.happens("6 others cpus=1 attempts=1 ahead=1");
    let WaitState::Resources(short) = world.waits("a") else { panic!("{:?}", world.waits("a")) };
    assert_eq!((short[0].other_runs, short[0].ahead), (1, 1), "what is kept for others they do not have");
    let held_up = world.scheduler.held_up().unwrap();
    assert_eq!((held_up.gang, held_up.since, held_up.priority), (world.id("a"), Time(5_000_000), 2));
    assert_eq!((held_up.request.cpu_milli, held_up.request.exclusive), (3_000, false));
    assert_eq!(world.happens("7 exit c"), "record c");
    assert_eq!(world.waits("b"), WaitState::OtherRuns(PeerConflict::Running));
    assert_eq!(world.scheduler.held_up().unwrap().since, Time(5_000_000), "it keeps its place");
    assert_eq!(world.happens("8 others cpus=1 attempts=1"), "start a");
    assert_eq!(world.happens("9 exit a"), "record a");
    let held_up = world.scheduler.held_up().unwrap();
    assert_eq!((held_up.gang, held_up.since, held_up.request.exclusive), (world.id("b"), Time(8_000_000), true));
    world.happens("10 others ahead=1");
    assert_eq!(world.waits("b"), WaitState::OtherRuns(PeerConflict::Ahead));
    world.happens("11 others attempts=1 exclusive");
    assert_eq!(world.waits("b"), WaitState::OtherRuns(PeerConflict::Exclusive));
    world.happens("12 cancel 1");
    assert_eq!(world.scheduler.held_up(), None, "it waits for nobody any more");
}

#[test]
fn a_head_keeps_its_place_while_ours_pass_it() {
    // Others already wait for `a`. If it gave up its place whenever they ended, each could block the other forever.
    let mut world = World::new("cpus=4 patience=60", "a cpus=4\n b cpus=1\n c cpus=1 needs=b\n d cpus=1 needs=c");
    world.happens("0 others cpus=1 attempts=1");
    assert_eq!(world.happens("1 submit"), "start b");
    assert_eq!(world.scheduler.held_up().unwrap().gang, world.id("a"));
    assert_eq!(world.happens("2 others"), "");
    assert_eq!(world.happens("3 exit b"), "record b; start a", "it is the first that fits");
    assert_eq!(world.scheduler.held_up(), None);
}

#[test]
fn a_gpu_that_another_flow_holds_is_waited_for_by_who_wants_the_machine_alone() {
    let mut world = World::new("gpus=1x12", "a gpus=1 exclusive");
    world.happens("0 others gpu=0");
    world.happens("1 foreign 0 12");
    assert_eq!(world.happens("2 submit"), "");
    assert_eq!(world.scheduler.held_up().map(|held_up| held_up.gang), Some(world.id("a")));
    let mut world = World::new("gpus=1x12", "a gpus=1");
    world.happens("0 others gpu=0");
    world.happens("1 foreign 0 12");
    world.happens("2 submit");
    let asks = world.scheduler.held_up().map(|held_up| held_up.request);
    let wanted = MachineShare { gpus: 1, attempts: 1, ..MachineShare::default() };
    assert_eq!(asks, Some(wanted), "CPUs are not kept for it meanwhile");
}

#[test]
fn on_a_gpu_that_is_kept_for_others_nothing_more_starts() {
    let mut world = World::new("cpus=9 gpus=2x12", "a gpus=1 gpu_memory=4\n c gpus=2 gpu_memory=4\n d");
    assert_eq!(world.happens("0 others reserved=0 ahead=0"), "");
    assert_eq!(world.happens("1 submit"), "start a on 1; start d");
    assert_eq!(world.happens("2 exit a"), "record a");
    let WaitState::Resources(short) = world.waits("c") else { panic!("{:?}", world.waits("c")) };
    let short: Vec<_> = short.iter().map(|one| one.resource).collect();
    assert_eq!(short, [Resource::Gpus, Resource::GpuReserved(GpuId(0))]);
    let held_up = world.scheduler.held_up().unwrap();
    assert_eq!((held_up.gang, held_up.request.gpus), (world.id("c"), 2));
    assert_eq!(world.happens("3 others"), "start c on 0+1");
}

#[test]
fn as_many_gpus_are_kept_for_a_head_as_it_asks_for() {
    let head = |run, since, count, gpus: &[u32]| PeerRun {
        run,
        head: Some(Head {
            since,
            priority: 0,
            request: MachineShare { gpus: count, ..MachineShare::default() },
            gpus: gpus.iter().map(|&gpu| GpuId(gpu)).collect(),
        }),
        ..PeerRun::default()
    };
    // Of six GPUs we hold the second and the third, and others the first.
    let kept = |heads: &[PeerRun]| {
        let ours = BTreeSet::from([GpuId(1), GpuId(2)]);
        let gpus = GpuHolders { ours, peers: vec![GpuId(0)] };
        let others = PeerLoad::facing(QueuePosition::new(0, 9, 0), heads, &gpus);
        others.reserved.into_iter().map(|gpu| gpu.0).collect::<Vec<_>>()
    };
    let all = [0, 1, 2, 3, 4, 5];
    assert_eq!(kept(&[head(1, 5, 2, &all)]), [3, 4], "free ones first");
    assert_eq!(kept(&[head(1, 5, 4, &all)]), [1, 3, 4, 5], "then ours");
    assert_eq!(kept(&[head(1, 5, 6, &all)]), [1, 2, 3, 4, 5], "and never theirs");
    assert_eq!(kept(&[head(1, 5, 2, &[0, 1])]), [1], "those that it may have");
    assert_eq!(kept(&[head(1, 5, 2, &[2, 3, 4]), head(2, 4, 1, &all)]), [2, 3, 4], "each its own");
    assert_eq!(kept(&[head(1, 11, 2, &all)]), [0; 0], "it comes after us");
}

#[test]
fn turns_go_by_priority_then_by_waiting_then_by_run() {
    let mut turns = [
        QueuePosition::new(0, 5, 1),
        QueuePosition::new(0, 5, 0),
        QueuePosition::new(2, 9, 3),
        QueuePosition::new(0, 4, 2),
        QueuePosition::new(-1, 0, 4),
    ];
    turns.sort();
    let wanted = [
        QueuePosition::new(2, 9, 3),
        QueuePosition::new(0, 4, 2),
        QueuePosition::new(0, 5, 0),
        QueuePosition::new(0, 5, 1),
        QueuePosition::new(-1, 0, 4),
    ];
    assert_eq!(turns, wanted);
    let asks = MachineShare { cpu_milli: 2_000, attempts: 3, ..MachineShare::default() };
    let rival = |run, since| PeerRun {
        run,
        holds: asks,
        head: Some(Head { since, priority: 0, request: asks, gpus: Vec::new() }),
    };
    let rivals = [rival(0, 5), rival(2, 5), rival(3, 1)];
    let others = PeerLoad::facing(QueuePosition::new(0, 5, 1), &rivals, &GpuHolders::default());
    assert_eq!((others.runs, others.holds.cpu_milli, others.holds.attempts), (3, 6_000, 9));
    assert_eq!(
        (others.ahead.cpu_milli, others.ahead.attempts),
        (4_000, 2),
        "of the three two are ahead, each with one head"
    );
}

/// The shared state of the runs on a machine.
struct SharedMachine {
    runs: Vec<Run>,
    cpus: u64,
    memory: u64,
    now: Time,
}

struct Run {
    scheduler: Scheduler,
    spans: Vec<u64>,
    ends: BTreeMap<AttemptId, Time>,
    gpus: BTreeMap<AttemptId, Vec<GpuId>>,
    published: PeerRun,
    finished: bool,
}

impl Run {
    /// Whether something started, and on which GPUs.
    fn handle(&mut self, now: Time, event: Event) -> Option<Vec<GpuId>> {
        let mut out = Vec::new();
        self.scheduler.handle(now, event, &mut out);
        self.scheduler.check().unwrap();
        let mut started: Option<Vec<GpuId>> = None;
        for action in out {
            match action {
                Action::LookUp { instances } => {
                    for instance in instances {
                        self.handle(now, Event::Answered { instance, answer: Answer::Miss });
                    }
                }
                Action::Start { attempt, instance, placement } => {
                    started.get_or_insert_default().extend(&placement.gpus);
                    self.gpus.insert(attempt, placement.gpus);
                    self.ends.insert(attempt, now + Span::from_millis(self.spans[instance.index()] * 1_000));
                    self.handle(now, Event::Started { attempt });
                    self.handle(now, Event::Ready { attempt });
                }
                Action::Record { instance, .. } => _ = self.handle(now, Event::Recorded { instance }),
                Action::Finish => self.finished = true,
                _ => {}
            }
        }
        started
    }
}

impl SharedMachine {
    fn decides(&mut self, i: usize) {
        let now = self.now;
        let held = |run: &Run| run.gpus.values().flatten().copied().collect::<BTreeSet<GpuId>>();
        let gpus: Vec<BTreeSet<GpuId>> = self.runs.iter().map(held).collect();
        let theirs: BTreeSet<GpuId> =
            (0..gpus.len()).filter(|j| *j != i).flat_map(|j| gpus[j].iter().copied()).collect();
        let rivals: Vec<PeerRun> = self
            .runs
            .iter()
            .enumerate()
            .filter(|(j, run)| *j != i && !run.finished)
            .map(|(_, run)| run.published.clone())
            .collect();
        let run = &self.runs[i];
        let own = run.published.turn().unwrap_or(QueuePosition::new(run.scheduler.highest_priority(), now.0, i as u32));
        let holders = GpuHolders { ours: gpus[i].clone(), peers: theirs.iter().copied().collect() };
        let others = PeerLoad::facing(own, &rivals, &holders);
        let capacity = self.capacity(&theirs);
        let run = &mut self.runs[i];
        run.handle(now, Event::Capacity(capacity));
        run.handle(now, Event::Others(others.clone()));
        let started = run.handle(now, Event::Tick);
        let held_up = run.scheduler.held_up();
        run.published.holds = run.scheduler.holding();
        run.published.head = held_up.map(|held_up| Head {
            since: held_up.since.0,
            priority: held_up.priority,
            request: held_up.request,
            gpus: (0..GPUS).map(GpuId).collect(),
        });
        // The actual holdings, not the published ones.
        let holding: Vec<MachineShare> = self.runs.iter().map(|run| run.scheduler.holding()).collect();
        let held = |of: fn(&MachineShare) -> u64| holding.iter().map(of).sum::<u64>();
        if holding.iter().any(|holds| holds.exclusive) {
            let with = holding.iter().filter(|holds| holds.attempts > 0).count();
            assert_eq!(with, 1, "who has the machine for itself has it so");
        } else {
            assert!(held(|h| h.cpu_milli) <= self.cpus * 1_000, "CPUs are given out once");
        }
        assert!(held(|h| h.memory) <= self.memory, "and so is memory");
        if started.iter().flatten().any(|gpu| theirs.contains(gpu) || others.reserved.contains(gpu)) {
            panic!("a GPU belongs to one run, and nobody passes who is ahead");
        }
        for gpu in (0..GPUS).map(GpuId) {
            let on = self.runs.iter().filter(|run| run.gpus.values().flatten().any(|c| *c == gpu)).count();
            assert!(on < 2, "a GPU belongs to one run");
        }
        if started.is_some() && !holding[i].exclusive {
            let kept = held(|h| h.cpu_milli) + others.ahead.cpu_milli;
            assert!(!others.ahead.exclusive && kept <= self.cpus * 1_000, "nobody passes who is ahead");
        }
    }

    /// The capacity that a run sees while other runs have these GPUs.
    fn capacity(&self, theirs: &BTreeSet<GpuId>) -> Capacity {
        let gpu = |id| {
            let foreign = if theirs.contains(&GpuId(id)) { MEMORY } else { 0 };
            GpuState { memory: MEMORY, foreign, alive: true }
        };
        let gpus = (0..GPUS).map(gpu).collect();
        Capacity { cpus: self.cpus as u32, memory: self.memory, gpus, ..Capacity::default() }
    }
}

/// GPUs of the machine, and the memory of each.
const GPUS: u32 = 2;
const MEMORY: u64 = 8;

/// CPUs, memory, GPUs, exclusive or a pair, priority, seconds, whether it needs the previous one.
type Sketch = (u32, u64, u32, u8, i64, u64, bool);

fn tasks(sketches: &[Sketch]) -> (Vec<Task>, Vec<u64>) {
    let (mut tasks, mut spans) = (Vec::<Task>::new(), Vec::new());
    for (n, &(cpus, memory, gpus, kind, priority, seconds, needs)) in sketches.iter().enumerate() {
        let before = tasks.last().map(|task| task.instance).filter(|_| needs);
        for _ in 0..if kind == 1 { 2 } else { 1 } {
            tasks.push(Task {
                instance: InstanceId(tasks.len() as u32),
                needs: before.map(|on| Need { on, list: false }).into_iter().collect(),
                request: ResourceRequest {
                    cpus,
                    memory: Some(memory),
                    gpus: if kind == 1 { gpus / 2 } else { gpus },
                    gpu_memory: (kind > 3).then_some(3),
                },
                exclusive: if kind == 0 { Exclusive::Machine } else { Exclusive::No },
                corun: (kind == 1).then_some((GroupId(n as u32), CorunGpus::Own)),
                priority,
                // Some have an estimate, which lets them share a GPU.
                estimate: Estimate {
                    samples: u32::from(kind > 3),
                    gpu_memory: (kind > 3).then_some(3),
                    gpu_busy_milli: Some(100 * u32::from(kind)),
                    ..Estimate::default()
                },
                ..Task::default()
            });
            spans.push(seconds);
        }
    }
    (tasks, spans)
}

/// A machine with four CPUs. Two other runs, whose heads request two each, are ahead of this run.
#[test]
fn in_its_shift_a_run_follows_what_ended_by_as_much_of_its_own() {
    let of = |cpus: u64| MachineShare { cpu_milli: cpus * 1_000, attempts: 1, ..MachineShare::default() };
    let ahead = |exclusive: bool| {
        let asks = MachineShare { exclusive, ..of(2) };
        let rival = |run| PeerRun {
            run,
            holds: of(1),
            head: Some(Head { since: 5, priority: 0, request: asks, gpus: Vec::new() }),
        };
        PeerLoad::facing(QueuePosition::new(0, 9, 0), &[rival(1), rival(2)], &GpuHolders::default())
    };
    let at = |millis: u64| Time(millis * 1_000);
    // The room for this run: of four CPUs others hold two.
    let left = |shift: &Shift, now: u64, holds: u64, exclusive: bool| {
        let mut others = ahead(exclusive);
        others.leave(&shift.available(at(now), &of(holds)), &of(holds), &of(4));
        4_000_u64.saturating_sub(others.cpu_milli()).saturating_sub(of(holds).cpu_milli)
    };
    let mut shift = Shift::default();
    assert_eq!(left(&shift, 0, 0, false), 0, "no shift has begun");
    shift.started(at(10), of(1));
    assert_eq!(left(&shift, 20, 0, false), 1_000, "one CPU of ours came free, and goes on");
    assert_eq!(left(&shift, 20, 1, false), 0, "and no more than that");
    shift.started(at(60), of(1));
    assert_eq!(left(&shift, 109, 0, false), 1_000);
    assert_eq!(left(&shift, 110, 0, false), 0, "a start in a shift does not make it longer");
    assert_eq!(left(&shift, 20, 0, true), 0, "who wants the machine for itself waits for nobody's shift");
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(48) })]
    #[test]
    fn runs_of_one_machine_all_end_and_nobody_is_passed(
        sketches in prop::collection::vec(
            prop::collection::vec((1..5u32, 0..5u64, 0..=GPUS, 0..8u8, 0..2i64, 1..30u64, any::<bool>()), 1..12),
            2..5,
        ),
        order in prop::collection::vec(any::<prop::sample::Index>(), 16),
        policies in prop::collection::vec(prop::sample::select(vec!["critical-path", "fit", "fifo", "easy"]), 4),
    ) {
        let (cpus, memory) = (4, 8);
        let mut shared = SharedMachine { runs: Vec::new(), cpus, memory, now: Time(0) };
        let runs = sketches.iter().zip(&policies).enumerate().map(|(i, (sketch, policy))| {
            let (tasks, spans) = tasks(sketch);
            let scheduler =
                Scheduler::new(shared.capacity(&BTreeSet::new()), policy::named(policy).unwrap(), Limits::default());
            let published = PeerRun { run: i as u32, ..PeerRun::default() };
            let (ends, gpus) = (BTreeMap::new(), BTreeMap::new());
            let mut run = Run { scheduler, spans, ends, gpus, published, finished: false };
            run.handle(Time(0), Event::Submitted(tasks));
            run
        });
        shared.runs = runs.collect();
        let mut turns = order.iter().cycle();
        // More than all would take one after the other, each with its patience.
        let bound = sketches.iter().flatten().map(|sketch| sketch.5 + 130).sum::<u64>();
        while shared.runs.iter().any(|run| !run.finished) {
            prop_assert!(shared.now <= Time(0) + Span::from_millis(bound * 1_000), "somebody waits for ever");
            for run in &mut shared.runs {
                let over: Vec<AttemptId> =
                    run.ends.iter().filter(|(_, end)| **end <= shared.now).map(|(attempt, _)| *attempt).collect();
                for attempt in over {
                    run.ends.remove(&attempt);
                    run.gpus.remove(&attempt);
                    run.handle(shared.now, Event::Exited { attempt, outcome: Outcome::Ok, disturbed: false });
                }
            }
            // Each receives updates from the others at times, in any order.
            let mut all: Vec<usize> = (0..shared.runs.len()).collect();
            while !all.is_empty() {
                let i = all.remove(turns.next().unwrap().index(all.len()));
                shared.decides(i);
            }
            shared.now.0 += 1_000_000;
        }
    }
}
