//! Packing that learns, in worlds whose truth it has to find: what it measures is true within the noise, what it has learned comes
//! to the truth, no bound is broken on the way, and what it tries out comes to an end.

use std::collections::BTreeMap;

use flow_core::learn::{self, History, Interference};
use flow_core::sched::contention::{Host, Load, UNKNOWN_DEVICE, coefficient, speeds_where};
use flow_core::sched::{Estimate, Event, Limits, Sharing, Task, policy};
use flow_core::{
    Catalogue, ExpandRequest, Expansion, GpuFacts, GpuId, GpuSharing, InstanceId, Machine, Source, Span, StepResult,
    parse,
};
use flow_sim::{Attempt, GroundTruth, Learned, Ran, SimTask, Simulation};
use proptest::prelude::*;

const GIB: u64 = 1 << 30;
/// Memory of each GPU.
const CARD: u64 = 24 * GIB;
/// CPUs that each training declares, and more than it keeps busy.
const CPUS: u32 = 4;
/// Nothing is farther from what is expected than so many standard deviations: not once in a hundred million measurements.
const FAR: f64 = 6.0;

/// What a training truly does.
#[derive(Clone, Debug)]
struct Training {
    epoch_s: f64,
    epochs: u32,
    busy: f64,
    cores: f64,
    gib: u64,
}

#[derive(Clone, Debug)]
struct World {
    trainings: Vec<Training>,
    /// The model of each GPU, `A` or `B`, and for these the coefficient at the beginning and how it changes in a second.
    gpus: Vec<usize>,
    coefficients: [(f64, f64); 2],
    cpus: u32,
    noise: f64,
    seed: u64,
    rounds: u64,
}

impl World {
    fn expansion(&self) -> Expansion {
        let gpu = |(index, model): (u32, &usize)| GpuFacts {
            uuid: format!("GPU-{index}"),
            index,
            name: ["A", "B"][*model].to_owned(),
            memory: CARD,
        };
        let gpus = (0..).zip(&self.gpus).map(gpu).collect();
        let machine = Machine { gpus, cpus: self.cpus, memory: 1 << 40, ..Machine::default() };
        // Names, not numbers: nothing is known of one from the others.
        let names: Vec<String> = (0..self.trainings.len()).map(|n| format!("t{n}")).collect();
        let text = format!(
            "flow: 1\nname: lab\nsteps:\n  train: {{matrix: {{n: [{}]}}, run: 'train ${{{{ n }}}}', gpus: 1, cpus: {CPUS}}}\n",
            names.join(", ")
        );
        let (source, catalogue) = (Source { path: "lab.yaml".into(), text }, Catalogue::default());
        let request = ExpandRequest {
            catalogue: &catalogue,
            machine: &machine,
            profile: None,
            set: &[],
            files: &[],
            folder: "/lab",
            shell_folder: "/lab",
            batch: flow_core::Batch::default(),
        };
        parse(&source).and_then(|workflow| workflow.expand(&request)).unwrap_or_else(|wrong| panic!("{wrong:?}"))
    }

    /// Runs everything as often as there are rounds, each after the one before.
    fn rounds<'a>(&self, expansion: &'a Expansion, mut each: impl FnMut(&Round<'_, 'a>)) -> History<'a> {
        let mut history = History::new(expansion, &expansion.instances);
        let wanted: Vec<InstanceId> = expansion.instances.iter().map(|instance| instance.id).collect();
        let mut since = 0.0;
        for round in 0..self.rounds {
            let limits = learn::limits(&history);
            let tasks = learn::tasks(&wanted, &BTreeMap::new(), &history);
            let does = |(task, training): (&Task, &Training)| {
                let work = Span::from_secs_f64(training.epoch_s * f64::from(training.epochs));
                let attempt = Attempt {
                    cores: training.cores,
                    gpu_busy: training.busy,
                    epochs: training.epochs,
                    gpu_memory: training.gib * GIB,
                    ..Attempt::new(work)
                };
                SimTask { attempts: vec![attempt], ..SimTask::new(task.clone(), work) }
            };
            let trainings = tasks.iter().zip(&self.trainings).map(does).collect();
            let policy = policy::named(policy::DEFAULT).unwrap();
            let capacity = learn::capacity(&expansion.machine, None, 0);
            let truth = GroundTruth {
                coefficients: self.gpus.iter().map(|model| self.coefficients[*model]).collect(),
                noise: self.noise,
                seed: self.seed.wrapping_add(round),
                since,
            };
            let simulation = Simulation::new(trainings, capacity, policy, limits.clone()).unwrap();
            let checked = |scheduler: &flow_core::sched::Scheduler, event: &Event| {
                scheduler.check().unwrap_or_else(|what| panic!("after {event:?}: {what}"));
            };
            let lesson = simulation.learning(expansion, history, truth).run_and_learn(checked).unwrap().unwrap();
            each(&Round { world: self, tasks: &tasks, limits: &limits, lesson: &lesson, since });
            since += lesson.schedule.makespan().as_secs_f64() + 1.0;
            history = lesson.history;
        }
        history
    }

    /// The interference coefficient of a GPU model at a time.
    fn price(&self, model: usize, at: f64) -> f64 {
        (self.coefficients[model].0 + self.coefficients[model].1 * at).max(0.0)
    }
}

struct Round<'r, 'a> {
    world: &'r World,
    tasks: &'r [Task],
    limits: &'r Limits,
    lesson: &'r Learned<'a>,
    since: f64,
}

impl Round<'_, '_> {
    fn training(&self, id: InstanceId) -> &Training {
        &self.world.trainings[id.index()]
    }

    /// No GPU ever holds more than it has, no host promises more cores than it may, and nobody is predicted to be slowed down to
    /// less than half by what was known when somebody joined him, on trial or not.
    fn keeps_its_bounds(&self) {
        let ran = &self.lesson.schedule.ran;
        for (n, new) in ran.iter().enumerate() {
            let there: Vec<&Ran> = ran[..=n].iter().filter(|ran| ran.end > new.start).collect();
            for gpu in (0..self.world.gpus.len() as u32).map(GpuId) {
                let here = there.iter().filter(|ran| ran.placement.gpus.contains(&gpu));
                let held: u64 = here.map(|ran| self.training(ran.instance).gib * GIB).sum();
                assert!(held <= CARD, "{held} bytes are held on GPU {gpu:?}");
            }
            let known = self.known_at(new);
            let loads: Vec<Load> = there.iter().map(|ran| known.load(ran)).collect();
            let cores: f64 = loads.iter().map(|load| load.cores).sum();
            assert!(cores <= f64::from(self.world.cpus) * 1.3 + 1e-9, "{cores} of {} cores", self.world.cpus);
            if there.iter().any(|other| other.instance != new.instance && other.placement.gpus == new.placement.gpus) {
                let alike = |one: &Ran| {
                    let mut others = there
                        .iter()
                        .filter(|other| other.instance != one.instance && other.placement.gpus == one.placement.gpus);
                    let other = others.next().filter(|_| others.next().is_none())?;
                    self.limits.sharing.pairs.get(&(one.instance, other.instance)).copied()
                };
                let measured: Vec<Option<f64>> = there.iter().map(|one| alike(one)).collect();
                let host = Host { cores: f64::from(self.world.cpus), devices: known.devices.clone() };
                let slowest = speeds_where(&loads, &measured, &host).into_iter().fold(1.0, f64::min);
                assert!(slowest >= 0.5 - 1e-6, "{slowest} of the speed alone, with {there:?}");
            }
        }
    }

    /// What the scheduler knew when this started.
    fn known_at(&self, new: &Ran) -> Known {
        let Sharing { devices, .. } = &self.limits.sharing;
        let mut known = Known {
            devices: devices.clone(),
            estimates: self.tasks.iter().map(|task| task.estimate.clone()).collect(),
        };
        for (_, event) in self.lesson.told.iter().filter(|(at, _)| *at <= new.start) {
            match event {
                Event::Learned { instance, estimate } => known.estimates[instance.index()] = estimate.clone(),
                Event::InterferenceLearned { devices, .. } => known.devices.clone_from(devices),
                _ => {}
            }
        }
        known
    }

    /// One trial at a time; none before another one has told something, none where eleven measurements are in.
    fn ends_its_trials(&self, measured_before: [usize; 2]) {
        let lesson = self.lesson;
        let trials: Vec<&Ran> = lesson.schedule.ran.iter().filter(|ran| ran.placement.trial).collect();
        let priced =
            |at| lesson.told.iter().filter(|(t, e)| matches!(e, Event::InterferenceLearned { .. }) && *t <= at).count();
        for (n, trial) in trials.iter().enumerate() {
            assert!(n <= priced(trial.start), "trial {n} begins after {} coefficients", priced(trial.start));
            let model = self.world.gpus[trial.placement.gpus[0].index()];
            let ended =
                lesson.results.iter().filter(|r| r.ended_at as f64 / 1e3 <= self.since + trial.start.as_secs_f64());
            let seen = measured_before[model] + ended.filter(|result| measures(result, model).is_some()).count();
            assert!(seen < 11, "a trial after {seen} measurements");
        }
    }
}

struct Known {
    devices: Vec<f64>,
    estimates: Vec<Estimate>,
}

impl Known {
    fn load(&self, ran: &Ran) -> Load {
        let estimate = &self.estimates[ran.instance.index()];
        let milli = |milli: Option<u32>, unknown: f64| milli.map_or(unknown, |milli| f64::from(milli) / 1e3);
        Load {
            cores: milli(estimate.cpu_milli, f64::from(CPUS)).min(f64::from(CPUS)),
            gpu_busy: milli(estimate.gpu_busy_milli, 1.0).min(1.0),
            gpus: ran.placement.gpus.iter().map(|gpu| gpu.index()).collect(),
        }
    }
}

/// What a result says of the interference on GPUs of a model.
fn measures(result: &StepResult, model: usize) -> Option<(&GpuSharing, f64)> {
    let seen =
        result.circumstances.sharing.as_ref().filter(|_| result.circumstances.gpu_models == [["A", "B"][model]])?;
    Some((seen, coefficient(seen.busy, seen.slowdown)?))
}

/// How far what was learned of a GPU model may be from what it is.
///
/// A measurement is (s − 1)/(b − 1) with s the mean of m epochs beside others over the mean of k epochs alone, and b the sum of
/// busy shares. If an epoch deviates by the share ν, s deviates from S = 1 + a·(b − 1) by S·ν/√m of its own and S·ν/√k that
/// all measurements of one training have in common, and the measurement from a by (1/(b − 1) + a) times that share. What was
/// learned is the mean of the measurements with weights of a fifth, and of what was assumed with what is left, 0.8ⁿ. So it is
/// off by 0.8ⁿ·|1 − a|, by the weighted mean of what is in common, by the root of the sum of squares of the rest, and, where the
/// price changes, by the weighted mean of how far it has moved since each was measured.
#[derive(Default)]
struct Expected {
    n: i32,
    /// Weighted, the newest with a fifth.
    in_common: f64,
    own: f64,
    moved: f64,
}

impl Expected {
    /// One measurement more: by how much it deviates in common with others and of its own, and by how much the price may have
    /// moved since the one before and while it was made.
    fn add(&mut self, in_common: f64, own: f64, since: f64, during: f64) {
        self.n += 1;
        self.in_common = 0.8 * self.in_common + 0.2 * in_common;
        self.own = (0.64 * self.own.powi(2) + 0.04 * own.powi(2)).sqrt();
        self.moved = 0.8 * (self.moved + since) + 0.2 * during;
    }

    fn tolerance(&self, price: f64) -> f64 {
        0.8f64.powi(self.n) * (UNKNOWN_DEVICE - price).abs() + self.in_common + self.own + self.moved + 1e-3
    }
}

fn world(noise: impl Strategy<Value = f64>, drift: impl Strategy<Value = f64> + Clone) -> impl Strategy<Value = World> {
    let training = (5.0..30.0f64, 6..12u32, 0.3..0.98f64, 0.1..3.0f64, 1..10u64)
        .prop_map(|(epoch_s, epochs, busy, cores, gib)| Training { epoch_s, epochs, busy, cores, gib });
    let price = (0.0..1.6f64, drift);
    let machine = (prop::collection::vec(0..2usize, 1..4), price.clone(), price, 6..48u32);
    (prop::collection::vec(training, 3..9), machine, noise, any::<u64>(), 2..7u64).prop_map(
        |(trainings, (gpus, a, b, cpus), noise, seed, rounds)| World {
            trainings,
            gpus,
            coefficients: [a, b],
            cpus,
            noise,
            seed,
            rounds,
        },
    )
}

fn finds_its_truth(world: &World) -> Result<(), TestCaseError> {
    let expansion = world.expansion();
    let mut expected: [Expected; 2] = Default::default();
    let mut last = [0.0; 2];
    let mut wrong = None;
    let history = world.rounds(&expansion, |round| {
        let before = [0, 1].map(|model| expected[model].n as usize);
        round.keeps_its_bounds();
        round.ends_its_trials(before);
        for result in &round.lesson.results {
            for model in 0..2 {
                let Some((seen, measured)) = measures(result, model) else { continue };
                let (began, ended) = (result.started_at as f64 / 1e3, result.ended_at as f64 / 1e3);
                let price = world.price(model, ended);
                let during = (price - world.price(model, began)).abs();
                let n: usize = result.label.trim_end_matches(']').rsplit('t').next().unwrap().parse().unwrap();
                // The first epoch warms up; seen alone once, and perhaps more often.
                let (k, m) = (f64::from(world.trainings[n].epochs - 1), f64::from(seen.epochs.unwrap()));
                let far = 1.0 / (seen.busy - 1.0) + price + during;
                // The mean alone is divided by: it is no more than so much too short.
                let short = 1.0 - FAR * world.noise / k.sqrt();
                let [in_common, own] = [k, m].map(|epochs| FAR * world.noise / epochs.sqrt() / short * far);
                if (measured - price).abs() > in_common + own + during + 1e-3 {
                    wrong = Some(format!("{measured} was measured of {price}: {seen:?} of {}", result.label));
                }
                expected[model].add(in_common, own, (price - world.price(model, last[model])).abs(), during);
                last[model] = ended;
            }
        }
    });
    prop_assert_eq!(wrong, None);
    for device in history.devices() {
        let model = usize::from(device.model == "B");
        let price = world.price(model, last[model]);
        prop_assert_eq!(device.samples as i32, expected[model].n);
        let tolerance = expected[model].tolerance(price);
        prop_assert!(
            (device.coefficient - price).abs() <= tolerance,
            "{} was learned of {price} ± {tolerance} from {} measurements",
            device.coefficient,
            device.samples
        );
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 100, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn what_is_learned_is_true(world in world(Just(0.0), Just(0.0))) {
        finds_its_truth(&world)?;
    }

    #[test]
    fn what_is_learned_is_true_within_the_noise(world in world(0.001..0.05f64, Just(0.0))) {
        finds_its_truth(&world)?;
    }

    #[test]
    fn what_is_learned_follows_what_changes(world in world(0.0..0.03f64, -1e-4..1e-4f64)) {
        finds_its_truth(&world)?;
    }
}

/// Trainings of 105 s, each keeping the only GPU busy nine tenths of its time: how long all take in each of three rounds, how many
/// trials that needs, and what is known then.
fn alike(trainings: usize, price: f64) -> (Vec<(f64, usize)>, Interference) {
    let training = Training { epoch_s: 10.0, epochs: 10, busy: 0.9, cores: 0.5, gib: 1 };
    let world = World {
        trainings: vec![training; trainings],
        gpus: vec![0],
        coefficients: [(price, 0.0); 2],
        cpus: 64,
        noise: 0.0,
        seed: 1,
        rounds: 3,
    };
    let (expansion, mut took) = (world.expansion(), Vec::new());
    let history = world.rounds(&expansion, |round| {
        let schedule = &round.lesson.schedule;
        let trials = schedule.ran.iter().filter(|ran| ran.placement.trial).count();
        took.push((schedule.makespan().as_secs_f64().round(), trials));
    });
    (took, history.devices().remove(0))
}

#[test]
fn twelve_trainings_teach_what_their_card_costs() {
    // Cards on which sharing is free, cheap, and as published; one on which a pair gains too little, and one on which it loses:
    // there the trial is all that this costs.
    for (price, expected) in [
        (0.0, [(1_260.0, 0), (420.0, 1), (210.0, 0)]),
        (0.2, [(1_260.0, 0), (647.0, 1), (479.0, 0)]),
        (0.6, [(1_260.0, 0), (932.0, 3), (932.0, 0)]),
        (1.0, [(1_260.0, 0), (1_239.0, 1), (1_260.0, 0)]),
        (1.5, [(1_260.0, 0), (1_281.0, 1), (1_260.0, 0)]),
    ] {
        let (took, device) = alike(12, price);
        assert_eq!(took, expected, "price {price}");
        assert!(price > 0.7 || (device.coefficient - price).abs() < 0.01, "{device:?} of {price}");
    }
}

#[test]
fn where_hope_never_ends_trials_do() {
    // At this price a pair gains just enough; the price learned comes down to it so slowly that only trials pair anybody.
    let (took, _) = alike(20, 0.74);
    let trials: Vec<usize> = took.iter().map(|(_, trials)| *trials).collect();
    assert_eq!(trials, [0, 6, 0], "two measurements each, and none when eleven are in");
}
