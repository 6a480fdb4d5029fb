//! Observations are found by their point, and estimates rest on those alone.

use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;
use serde_json::{Value, json};

use super::{HeldOutPoint, History, Length, Observation, Prediction, Quantity};
use crate::{
    Expansion, GpuFacts, GpuSharing, InstanceId, Machine, Mode, Outcome, RunId, StepId, StepResult,
    fingerprint::tests::expanded,
    plan::without_attempt,
    predict::PredictedValue,
    result::Phases,
    sched::{Distance, EstimateSource, Event, OtherParameter},
};

const WORKFLOW: &str = "
flow: 1
params: {epochs: 4}
steps:
  data: {matrix: {version: [v7, v11]}, run: 'make ${{ version }}', outputs: [out]}
  train:
    matrix: {version: [v7, v11], batch: [16, 32, 64, 128], rate: [1, 2, 3]}
    run: 'train ${{ steps.data.out }} ${{ batch }} ${{ rate }}'
    gpus: 1
  mixed:
    matrix: {run: [{batch: 16, lr: 1}, {batch: 32, lr: 2}, {batch: 48}]}
    run: 'train ${{ steps.data | length }} ${{ run }}'
    gpus: 1
  single: {run: 'train ${{ steps.data | length }}', gpus: 1, repeat: 2}
";

/// One attempt more, and what the scheduler is to know of it.
fn learn(history: &mut History<'_>, of: InstanceId, result: &StepResult, waiting: &BTreeSet<InstanceId>) -> Vec<Event> {
    history.observe(of, result).into_iter().chain(history.update(of, waiting)).collect()
}

fn expansion() -> Expansion {
    expansion_of(WORKFLOW)
}

pub(super) fn expansion_of(workflow: &str) -> Expansion {
    let gpu = |index| GpuFacts { uuid: format!("GPU-{index}"), index, name: "A".into(), memory: 24 << 30 };
    let machine = Machine { gpus: (0..2).map(gpu).collect(), cpus: 16, memory: 64 << 30, ..Machine::default() };
    expanded(workflow, &machine)
}

/// A training at these batch sizes.
fn trained_at(batches: &str) -> Expansion {
    expansion_of(&format!(
        "flow: 1\nsteps:\n  train: {{matrix: {{batch: [{batches}]}}, run: 'train ${{{{ batch }}}}', gpus: 1}}\n"
    ))
}

/// Of an instance: when, how it ended, seconds an epoch, who was there, and what else its point says.
type ObservedInstance = (usize, u64, bool, Option<f64>, (bool, bool), (u64, f64, f64), Option<(usize, f64)>, Value);

fn seen() -> impl Strategy<Value = ObservedInstance> {
    let epoch = prop::option::of(0.5..20.0f64);
    let point = prop::sample::select(vec![json!({}), json!({"epochs": 4}), json!({"epochs": 5}), json!({"data": [1]})]);
    let sharing = prop::option::of((0..40usize, 1.0..2.0f64));
    (
        0..40usize,
        0..50u64,
        prop::bool::weighted(0.8),
        epoch,
        any::<(bool, bool)>(),
        (0..30u64, 0.0..1.0f64, 0.0..8.0f64),
        sharing,
        point,
    )
}

fn observation(expansion: &Expansion, seen: ObservedInstance) -> (usize, Observation) {
    let (of, at, ok, epoch_s, (shared, undisturbed), (gib, load, cores), sharing, point) = seen;
    let all = &expansion.instances;
    let instance = &all[of % all.len()];
    let point = point.as_object().cloned().unwrap_or_default();
    let label = |of: usize| all[of % all.len()].label.to_string();
    let observation = Observation {
        label: instance.label.to_string(),
        run: RunId(format!("r{}", at % 5)),
        at,
        outcome: if ok { Outcome::Ok } else { Outcome::OutOfMemory },
        mode: Mode::Plain,
        wall_s: epoch_s.unwrap_or(1.0) * 5.0 + at as f64,
        cpu_cores: Some(cores),
        rss_peak: None,
        gpu_memory: gib << 30,
        gpu_load: load,
        gpu_load_whole: shared.then_some(load / 2.0),
        gpu_model: Some("A".to_owned()).filter(|_| at % 7 > 0),
        gpus: None,
        point: point.into_iter().chain(instance.axes.iter().map(|(n, v)| (n.clone(), v.clone()))).collect(),
        program: None,
        epoch_s,
        phases: None,
        images_per_s: None,
        energy_j: None,
        lacks_a_part: false,
        others_ran: shared,
        undisturbed,
        sharing: sharing.map(|(of, slowdown)| GpuSharing {
            busy: 1.8,
            slowdown,
            corunners: vec![label(of)],
            epochs: None,
        }),
    };
    (instance.step.index(), observation)
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(48) })]
    /// The index narrows; what an observation says decides.
    #[test]
    fn observations_are_those_that_a_look_at_all_of_them_finds(all in prop::collection::vec(seen(), 0..60)) {
        let expansion = expansion();
        let all: Vec<_> = all.into_iter().map(|seen| observation(&expansion, seen)).collect();
        let mut points = expansion.instances.clone();
        for asked in ["train/batch=48", "train/batch=300", "mixed/run.batch=24", "mixed/run.lr=7"] {
            points.extend(super::points(&expansion, asked).unwrap());
        }
        let mut history = History::new(&expansion, &points);
        for step in 0..expansion.steps.len() {
            let of = all.iter().filter(|(of, _)| *of == step).map(|(_, seen)| seen.clone());
            history.remember(StepId(step as u32), of.collect());
        }
        for instance in &points {
            let kin = &history.of(instance.step).seen;
            let agrees = |seen: &&Observation| seen.point.get("epochs").is_none_or(|epochs| *epochs == json!(4));
            prop_assert!(kin.iter().all(|seen| agrees(&seen)));
            let at = |seen: &&Observation| instance.axes.iter().all(|(axis, value)| seen.point.get(axis) == Some(value));
            let same = |seen: &&Observation| if seen.point.is_empty() { seen.label == *instance.label } else { at(seen) };
            prop_assert_eq!(history.own(instance), kin.iter().filter(same).collect::<Vec<_>>());
            let points = |calm: bool| {
                let ended = kin.iter().filter(|seen| seen.outcome == Outcome::Ok && (!calm || seen.is_calm()));
                let point = |seen: &Observation| {
                    let values: Option<Vec<String>> =
                        instance.axes.keys().map(|axis| Some(seen.point.get(axis)?.to_string())).collect();
                    Some((values?, seen.gpu_model.clone()))
                };
                ended.filter_map(point).collect::<BTreeSet<_>>().len()
            };
            let (calm, all) = (points(true), points(false));
            let best = if calm > 1 && 2 * calm >= all { calm } else { all };
            prop_assert_eq!(history.others(instance).map(|(surface, _)| surface.points), Some(best).filter(|best| *best > 1));
        }
    }
}

const SWEEP: &str = "
flow: 1
steps:
  train: {matrix: {rate: '${{ range(1, 1 + POINTS) }}'}, run: 'train ${{ rate }}', gpus: 1}
";

/// How many times instances of a sweep of so many points are told what was learned, one of which ends after the other.
fn observations(points: usize) -> usize {
    let expansion = expansion_of(&SWEEP.replace("POINTS", &points.to_string()));
    let mut history = History::new(&expansion, &expansion.instances);
    let mut waiting: BTreeSet<_> = expansion.instances.iter().map(|instance| instance.id).collect();
    let (mut told_at, mut count) = (BTreeMap::new(), 0);
    while let Some(id) = waiting.pop_first() {
        let result = without_attempt(&expansion, id, Outcome::Ok, None, &RunId("r".into()), u64::from(id.0));
        let events = learn(&mut history, id, &result, &waiting);
        let learned = events.iter().map(|event| match event {
            Event::Learned { instance, .. } => *instance,
            other => panic!("{other:?}"),
        });
        let now: BTreeSet<_> = learned.collect();
        assert_eq!(now.len(), events.len(), "none is told twice");
        assert!(now.is_subset(&waiting) && waiting.iter().take(64).all(|first| now.contains(first)));
        now.iter().for_each(|told| _ = told_at.insert(*told, id.0 + 1));
        let late = |other: &&InstanceId| id.0 + 1 - told_at.get(other).copied().unwrap_or(0) > 1 + points as u32 / 64;
        assert_eq!(waiting.iter().find(late), None, "each has its turn");
        count += events.len();
    }
    count
}

#[test]
fn what_a_sweep_is_told_grows_as_the_sweep_does_and_not_as_its_square() {
    assert!(observations(1_200) <= 2 * 64 * 1_200, "all of each would be 719,400");
    assert_eq!(observations(50), 50 * 49 / 2, "few are told everything");
}

/// Trainings of `epochs` each that start for 9 s, take so long an epoch by batch, and half a second to end.
pub(super) fn trained(expansion: &Expansion, epoch: impl Fn(u64) -> f64) -> Vec<Observation> {
    let (_, like) = observation(expansion, (0, 0, true, None, (false, true), (8, 0.95, 1.0), None, json!({})));
    let step = expansion.steps.iter().find(|step| step.name == "train").unwrap();
    let all = &expansion.instances[step.instances.start as usize..step.instances.end as usize];
    let one = |(n, instance): (usize, &crate::Instance)| {
        let batch = instance.axes["batch"].as_u64().unwrap();
        // Two in a hundred more or less, in turn.
        let epoch_s = epoch(batch) * [1.0, 1.02, 0.98, 1.01][n % 4];
        let phases = Phases { before_s: 9.0, epochs: 4, period_s: epoch_s, after_s: 0.5 };
        Observation {
            label: instance.label.to_string(),
            at: n as u64,
            wall_s: 9.5 + 4.0 * epoch_s,
            gpu_memory: (2 << 30) + (batch << 25),
            gpu_load: 0.97,
            gpu_load_whole: Some(0.3),
            gpu_model: Some("A".to_owned()),
            point: instance.axes.iter().map(|(name, value)| (name.clone(), value.clone())).collect(),
            epoch_s: Some(epoch_s),
            phases: Some(phases),
            ..like.clone()
        }
    };
    all.iter().enumerate().filter(|(_, instance)| instance.axes.contains_key("batch")).map(one).collect()
}

#[test]
fn a_load_from_start_to_end_says_nothing_of_epochs() {
    let expansion = trained_at("32, 64, 128, 256, 512");
    let mut all = trained(&expansion, |batch| 20.0 / batch as f64);
    // Of the last, epochs that count are too short for the driver to tell how busy they keep the GPU.
    all.last_mut().unwrap().gpu_load = 0.3;
    for (wrong, why) in [("abc", "are numbers"), ("0", "are above 0"), ("-3", "are above 0")] {
        let refused = super::points(&expansion, &format!("train/batch={wrong}")).unwrap_err();
        assert!(refused.contains("all values of `batch` in the workflow") && refused.ends_with(why), "{refused}");
    }
    let points = super::points(&expansion, "train/batch=384").unwrap();
    let known = [expansion.instances.clone(), points.clone()].concat();
    let mut history = History::new(&expansion, &known);
    history.remember(StepId(0), all);
    let busy = history.predict(&points[0]).expected.gpu_busy.unwrap();
    assert!((busy.value - 0.97).abs() < 0.02, "{busy:?}");
    let checked = history.check(StepId(0)).into_iter().filter(|checked| checked.quantity == Quantity::GpuBusy);
    assert!(checked.map(|checked| checked.measured).eq([0.97; 4]));
}

#[test]
fn a_new_seed_is_expected_to_take_as_long_as_the_others() {
    let expansion =
        expansion_of("flow: 1\nsteps:\n  train: {matrix: {seed: [1, 2, 3, 4]}, run: 'train ${{ seed }}', gpus: 1}\n");
    let asked = super::points(&expansion, "train/seed=64").unwrap().remove(0);
    let all = [expansion.instances.clone(), vec![asked.clone()]].concat();
    let mut history = History::new(&expansion, &all);
    let seen = [10.0, 8.0, 7.0, 5.0].into_iter().enumerate().map(|(n, epoch)| {
        let (_, seen) = observation(
            &expansion,
            (n, n as u64, true, Some(epoch), (false, true), (1, 0.5, 1.0), None, json!({"epochs": 5})),
        );
        Observation { at: n as u64, gpu_model: Some("A".to_owned()), ..seen }
    });
    history.remember(StepId(0), seen.collect());
    let wall = history.predict(&asked).estimate.duration.unwrap().as_secs_f64();
    assert!((25.0..53.0).contains(&wall), "{wall}");
}

#[test]
fn start_up_is_expected_apart_from_epochs_that_go_by_iteration() {
    let expansion = trained_at("32, 64, 128, 256");
    let [double] = <[_; 1]>::try_from(super::points(&expansion, "train/batch=512").unwrap()).unwrap();
    let all = [expansion.instances.clone(), vec![double.clone()]].concat();
    let mut history = History::new(&expansion, &all);
    history.remember(StepId(0), trained(&expansion, |batch| 0.01 + 0.01 * batch as f64));
    let Prediction { estimate, expected, .. } = history.predict(&double);
    let close = |of: Option<PredictedValue>, is: f64, by: f64| {
        let of = of.unwrap();
        assert!((of.value / is - 1.0).abs() < by && of.low < is && is < of.high, "{of:?} for {is}");
    };
    close(expected.epoch, 5.13, 0.08);
    close(expected.startup, 9.0, 0.02);
    close(expected.wall, 30.0, 0.06);
    close(expected.gpu_memory, (18_u64 << 30) as f64, 0.08);
    close(expected.gpu_busy, 0.97, 0.02);
    let startup = estimate.startup.unwrap().as_secs_f64();
    assert!((startup - 9.5).abs() < 0.2, "{startup}");
    assert!(estimate.gpu_busy_milli.unwrap().abs_diff(300) < 5, "for packing, from start to end");
    let source = EstimateSource::Points {
        axes: vec!["batch".to_owned()],
        distance: Distance::Beyond,
        changed: false,
        outdated: false,
        disturbed: 0,
    };
    assert_eq!((estimate.samples, estimate.source), (4, source));

    let checked = history.check(StepId(0));
    let epochs: Vec<&HeldOutPoint> = checked.iter().filter(|checked| checked.quantity == Quantity::Epoch).collect();
    assert_eq!((epochs.len(), epochs.iter().filter(|checked| checked.predicted.beyond).count()), (4, 2));
    assert!(
        checked
            .iter()
            .all(|one| one.predicted.low <= one.measured * 1.001 && one.measured <= one.predicted.high * 1.001)
    );
}

#[test]
fn what_does_not_count_for_others_disturbed_it_is_told() {
    let expansion = trained_at("32, 64, 128, 256");
    let asked = super::points(&expansion, "train/batch=48").unwrap().remove(0);
    let all = [expansion.instances.clone(), vec![asked.clone()]].concat();
    for (alone, counts, left_out) in [(1, 4, 0), (2, 2, 2), (3, 3, 1), (4, 4, 0)] {
        let mut seen = trained(&expansion, |batch| batch as f64);
        for (n, one) in seen.iter_mut().enumerate() {
            (one.others_ran, one.undisturbed) = (n >= alone, false);
        }
        let mut history = History::new(&expansion, &all);
        history.remember(StepId(0), seen);
        let estimate = history.estimate(&asked);
        let EstimateSource::Points { disturbed, .. } = estimate.source else { panic!("{estimate:?}") };
        assert_eq!((estimate.samples, disturbed), (counts, left_out), "{alone} alone");
    }
}

/// As of `workers: [0, 2, 4, 8]`.
#[test]
fn an_axis_with_a_zero_is_one_of_numbers() {
    let expansion = trained_at("0, 1, 2, 4, 8");
    let wrong = super::points(&expansion, "train/batch=-1").unwrap_err();
    assert!(wrong.contains("are 0 or above"), "{wrong}");
    let [three] = <[_; 1]>::try_from(super::points(&expansion, "train/batch=3").unwrap()).unwrap();
    let all = [expansion.instances.clone(), vec![three.clone()]].concat();
    let mut history = History::new(&expansion, &all);
    history.remember(StepId(0), trained(&expansion, |workers| 1.0 + 8.0 / (1.0 + workers as f64)));
    let Prediction { estimate, expected, .. } = history.predict(&three);
    let source = EstimateSource::Points {
        axes: vec!["batch".to_owned()],
        distance: Distance::Among,
        changed: false,
        outdated: false,
        disturbed: 0,
    };
    assert_eq!((estimate.samples, estimate.source), (5, source));
    let epoch = expected.epoch.unwrap();
    assert!((epoch.value / 3.0 - 1.0).abs() < 0.1 && epoch.low < 3.0 && 3.0 < epoch.high, "{epoch:?}");
    let checked = history.check(StepId(0));
    assert_eq!(checked.iter().filter(|checked| checked.quantity == Quantity::Epoch).count(), 5);
}

#[test]
fn a_wall_time_that_lacks_a_part_is_not_that_of_a_whole_training() {
    let expansion = trained_at("32, 64, 128, 256");
    let mut all = trained(&expansion, |batch| 0.01 + 0.01 * batch as f64);
    let (is, resumed) = (all[1].wall_s, &mut all[1]);
    (resumed.wall_s, resumed.phases, resumed.lacks_a_part, resumed.epoch_s) = (1.0, None, true, Some(0.7));
    let (alone, instance) = (vec![resumed.clone()], &expansion.instances[1]);
    let told_by = |seen: Vec<Observation>| {
        let mut history = History::new(&expansion, &expansion.instances);
        history.remember(StepId(0), seen);
        let Prediction { estimate, expected, .. } = history.predict(instance);
        let its_own = (expected.epoch.unwrap().value, estimate.gpu_memory);
        assert_eq!(its_own, (0.7, Some(4 << 30)), "of one epoch, and of memory, it tells as much as any");
        (history, estimate)
    };
    let (history, estimate) = told_by(all);
    let wall = estimate.duration.unwrap().as_secs_f64();
    assert!((wall / is - 1.0).abs() < 0.1, "{wall} for {is}");
    assert_eq!(estimate.samples, 4);
    assert!(matches!(estimate.source, EstimateSource::Points { .. }), "{:?}", estimate.source);
    let checked = history.check(StepId(0));
    let walls = checked.iter().filter(|one| one.quantity == Quantity::Wall).map(|one| one.measured);
    assert!(walls.clone().count() > 0 && walls.clone().all(|wall| wall > 9.0), "{checked:?}");
    let (_, estimate) = told_by(alone);
    assert_eq!((estimate.duration, estimate.range), (None, None));
}

#[test]
fn what_no_point_tells_of_is_expected_as_widely_as_its_step_is_spread() {
    let expansion =
        expansion_of("flow: 1\nsteps:\n  train: {matrix: {model: [a, b, c, d]}, run: 'train ${{ model }}'}\n");
    let expected_of_d = |walls: &[f64]| {
        let mut history = History::new(&expansion, &expansion.instances);
        let (_, like) = observation(&expansion, (0, 0, true, None, (false, false), (1, 0.0, 1.0), None, json!({})));
        let seen = expansion.instances.iter().zip(walls).map(|(instance, wall)| Observation {
            label: instance.label.to_string(),
            point: instance.axes.iter().map(|(name, value)| (name.clone(), value.clone())).collect(),
            wall_s: *wall,
            ..like.clone()
        });
        history.remember(StepId(0), seen.collect());
        history.estimate(&expansion.instances[3])
    };
    let of_three = expected_of_d(&[10.0, 20.0, 40.0]);
    let (low, high) = of_three.range.unwrap();
    let source = |interval| EstimateSource::Step { interval, unseen: Some(("model".to_owned(), json!("d"))) };
    assert_eq!((of_three.duration.unwrap().as_secs_f64(), of_three.samples, of_three.source), (20.0, 3, source(true)));
    // Student's t of 2 degrees of freedom, 2.920, on the logarithms: their deviation is ln 2.
    let factor = (2.920 * 2_f64.ln() * (4.0_f64 / 3.0).sqrt()).exp();
    assert!((low.as_secs_f64() * factor / 20.0 - 1.0).abs() < 1e-3, "{low:?}");
    assert!((high.as_secs_f64() / factor / 20.0 - 1.0).abs() < 1e-3, "{high:?}");
    let of_two = expected_of_d(&[10.0, 20.0]);
    assert_eq!((of_two.range, of_two.samples, of_two.source), (None, 2, source(false)));
}

#[test]
fn a_longer_training_is_told_for_each_gpu_model_that_ran() {
    let expansion = expansion_of(
        "flow: 1\nsteps:\n  train: {matrix: {batch: [32, 64, 128]}, run: 'train ${{ batch }}', gpus: 2}\n",
    );
    let mut history = History::new(&expansion, &expansion.instances);
    for (model, faster) in [("A", 1.0), ("B", 2.0)] {
        let mut seen = trained(&expansion, |batch| (1.0 + 100.0 / batch as f64) / faster);
        for seen in &mut seen {
            seen.gpu_model = Some(model.to_owned());
            // Of the others it is what the step asks for here.
            seen.gpus = (model == "B").then_some(1);
            seen.run = RunId(model.to_owned());
            seen.images_per_s = seen.epoch_s.map(|epoch| 1000.0 / epoch);
            seen.energy_j = Some(300.0 * faster * seen.wall_s);
        }
        history.remember(StepId(0), seen);
    }
    let ask = |length| history.on_each_model(&expansion.instances[1], length).unwrap();
    let length = Length { epochs: Some(100), images: Some(10_000) };
    for (on, faster) in ask(length).iter().zip([1.0, 2.0]) {
        let is = 9.5 + 1000.0 * 2.5625 / faster;
        let close = |of: f64, is: f64| (of / is - 1.0).abs() < 0.06;
        assert!(close(on.wall.value, is) && on.wall.low < is && is < on.wall.high, "{on:?} for {is}");
        assert!(
            close(on.energy.unwrap().value, is * 300.0 * faster)
                && (on.gpus, on.epochs) == (if faster > 1.0 { 1 } else { 2 }, 100),
            "{on:?}"
        );
    }
    let as_it_was: Vec<String> =
        ask(Length::default()).into_iter().map(|on| format!("{} {}", on.model, on.epochs)).collect();
    assert_eq!(as_it_was, ["A 4", "B 4"]);
    let nothing = History::new(&expansion, &expansion.instances);
    assert!(nothing.on_each_model(&expansion.instances[1], length).is_err());
}

#[test]
fn what_ran_with_other_parameters_says_nothing() {
    let workflow = "
flow: 1
params: {images: 100000, rate: 1, title: x}
steps:
  data: {run: 'make ${{ images }}', outputs: [out]}
  train: {matrix: {batch: [16, 32]}, run: 'train ${{ steps.data.out }} ${{ batch }} ${{ params.rate }}'}
  table: {run: 'print ${{ title }}'}
";
    let expansion = expansion_of(workflow);
    let named: Vec<&[String]> = expansion.steps.iter().map(|step| &*step.params).collect();
    assert_eq!(named, [&["images"][..], &["images", "rate"], &["title"]]);
    let instance = &expansion.instances[expansion.steps[1].instances.start as usize];
    let ran = |images: u32| {
        let mut result = without_attempt(&expansion, instance.id, Outcome::Ok, None, &RunId("r".into()), 1);
        result.usage.wall_s = Some(60.0);
        result.circumstances.params = BTreeMap::from([("images".to_owned(), json!(images)), ("rate".into(), json!(1))]);
        Observation::of(&result)
    };
    let estimate = |images: u32| {
        let mut history = History::new(&expansion, &expansion.instances);
        // What came to nothing says nothing of what it ran with.
        let failed = Observation { at: 9, outcome: Outcome::Failed, ..ran(5_000) };
        history.remember(StepId(1), vec![ran(images), failed]);
        history.estimate(instance)
    };
    let (same, other) = (estimate(100_000), estimate(8_000));
    assert_eq!((same.duration.map(|took| took.as_secs_f64()), same.samples), (Some(60.0), 1));
    let images = OtherParameter { name: "images".to_owned(), was: json!(8_000), is: json!(100_000) };
    assert_eq!((other.duration, other.source), (None, EstimateSource::Otherwise(images)));
}

#[test]
fn what_does_the_same_work_is_known_by_both() {
    let workflow = "
flow: 1
steps:
  alone: {matrix: {batch: [16, 32]}, run: 'train ${{ batch }}', gpus: 1, exclusive: true}
  packed: {like: alone, needs: [alone], exclusive: false, measured: false, priority: 3}
  late: {like: packed, repeat: 2}
  wide: {like: alone, exclusive: false, cpus: 8}
";
    let expansion = expansion_of(workflow);
    let work: Vec<Option<u32>> = expansion.steps.iter().map(|step| Some(step.work_of?.0)).collect();
    assert_eq!(work, [None, Some(0), Some(0), None]);
    let waiting = expansion.instances.iter().map(|instance| instance.id).skip(2).collect();
    let mut history = History::new(&expansion, &expansion.instances);
    let mut result = without_attempt(&expansion, InstanceId(1), Outcome::Ok, None, &RunId("r".into()), 1);
    result.usage.wall_s = Some(60.0);
    let told = learn(&mut history, InstanceId(1), &result, &waiting).into_iter().filter_map(|event| match event {
        Event::Learned { instance, estimate } => Some((instance.0, estimate.duration?.as_secs_f64(), estimate.source)),
        _ => None,
    });
    let other = EstimateSource::Step { interval: false, unseen: Some(("batch".to_owned(), json!(16))) };
    let of_alone = |own| EstimateSource::Instance { own, steps: vec!["alone".to_owned()], changed: false };
    let is_same = |instance: &u32| [3, 6, 7].contains(instance);
    let expected = (2..8).map(|instance| {
        let source = if is_same(&instance) { of_alone(false) } else { other.clone() };
        (instance, 60.0, source)
    });
    assert_eq!(told.collect::<Vec<_>>(), expected.collect::<Vec<_>>());
    result.label = "packed[batch=32]".into();
    learn(&mut history, InstanceId(3), &result, &waiting);
    assert_eq!(history.estimate(&expansion.instances[3]).source, of_alone(true));
}

#[test]
fn what_is_made_aside_says_what_is_made_here() {
    let expansion = expansion();
    let waiting: BTreeSet<InstanceId> = expansion.instances.iter().map(|instance| instance.id).collect();
    let [mut here, mut aside] = [(); 2].map(|()| History::new(&expansion, &expansion.instances));
    let trainings = expansion.instances.iter().filter(|instance| instance.label.starts_with("train["));
    let mut made = 0;
    for (n, instance) in trainings.enumerate() {
        let mut result = without_attempt(&expansion, instance.id, Outcome::Ok, None, &RunId("r".into()), n as u64);
        result.usage.wall_s = Some(60.0 + 10.0 * n as f64);
        result.circumstances.gpu_models = vec!["A".to_owned()];
        let told = learn(&mut here, instance.id, &result, &waiting);
        assert!(aside.observe(instance.id, &result).is_none());
        for refit in aside.refits(instance.id, &waiting) {
            made += 1;
            aside.apply(refit.make());
        }
        assert!(aside.refits(instance.id, &waiting).is_empty(), "{n}: nothing is left to be made");
        assert_eq!(format!("{told:?}"), format!("{:?}", aside.update(instance.id, &waiting)));
        assert!(aside.refits(instance.id, &waiting).is_empty(), "{n}: nothing was made");
    }
    assert!(made > 10, "{made}");
    assert!(here.refits(InstanceId(2), &BTreeSet::new()).is_empty(), "nobody waits");
}

/// Six networks at ten batch sizes on one H200, as flow measured them (2,400 images of 64×64, three epochs, fp32).
#[test]
fn a_measured_sweep_is_predicted_between_its_points_and_an_octave_beyond_them() {
    let rows: Vec<Vec<&str>> =
        include_str!("six_networks_h200.csv").lines().skip(1).map(|line| line.split(',').collect()).collect();
    let networks: BTreeSet<&str> = rows.iter().map(|row| row[0]).collect();
    let networks = networks.into_iter().collect::<Vec<_>>().join(", ");
    let expansion = expansion_of(&format!(
        "flow: 1\nsteps:\n  train: {{matrix: {{model: [{networks}], batch: [1, 2, 4, 8, 16, 32, 64, 128, 256, 512]}}, \
         run: 'train ${{{{ model }}}} ${{{{ batch }}}}', gpus: 1}}\n"
    ));
    let (_, like) = observation(&expansion, (0, 0, true, None, (false, true), (8, 0.95, 1.0), None, json!({})));
    let measured = |instance: &crate::Instance| {
        let [model, batch] = ["model", "batch"].map(|axis| instance.axes[axis].to_string().replace('"', ""));
        let row = rows.iter().find(|row| row[..2] == [model.as_str(), batch.as_str()]).unwrap();
        Observation {
            label: instance.label.to_string(),
            gpu_memory: row[3].parse().unwrap(),
            point: instance.axes.iter().map(|(name, value)| (name.clone(), value.clone())).collect(),
            epoch_s: Some(row[2].parse().unwrap()),
            ..like.clone()
        }
    };
    let mut history = History::new(&expansion, &expansion.instances);
    history.remember(StepId(0), expansion.instances.iter().map(measured).collect());
    let checked = history.check(StepId(0));
    for (quantity, beyond, most) in [
        (Quantity::Epoch, false, 0.06),
        (Quantity::Epoch, true, 0.12),
        (Quantity::GpuMemory, false, 0.06),
        (Quantity::GpuMemory, true, 0.12),
    ] {
        let of: Vec<&HeldOutPoint> =
            checked.iter().filter(|one| one.quantity == quantity && one.predicted.beyond == beyond).collect();
        let mut errors: Vec<f64> = of.iter().map(|one| (one.predicted.value / one.measured - 1.0).abs()).collect();
        errors.sort_by(f64::total_cmp);
        let inside = of.iter().filter(|one| (one.predicted.low..=one.predicted.high).contains(&one.measured)).count();
        let told = format!(
            "{quantity:?} beyond {beyond}: {} points, {:.3} off, {inside} inside",
            of.len(),
            errors[of.len() / 2]
        );
        assert_eq!(of.len(), if beyond { 12 } else { 60 }, "{told}");
        assert!(errors[of.len() / 2] <= most && inside * 10 >= of.len() * 9, "{told}");
    }
}
