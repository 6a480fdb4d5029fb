//! Observations are found by their point, and estimates rest on those alone.

use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;
use serde_json::{Value, json};

use super::{History, Observation};
use crate::{
    Catalogue, ExpandRequest, Expansion, GpuFacts, GpuSharing, InstanceId, Machine, Mode, Outcome, RunId, Source,
    StepId, plan::without_attempt, sched::Event,
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

fn expansion() -> Expansion {
    expansion_of(WORKFLOW)
}

fn expansion_of(workflow: &str) -> Expansion {
    let gpu = |index| GpuFacts { uuid: format!("GPU-{index}"), index, name: "A".into(), memory: 24 << 30 };
    let machine = Machine { gpus: (0..2).map(gpu).collect(), cpus: 16, memory: 64 << 30, ..Machine::default() };
    let source = Source { path: "test.yaml".into(), text: workflow.to_owned() };
    let catalogue = Catalogue::default();
    let request = ExpandRequest {
        catalogue: &catalogue,
        machine: &machine,
        profile: None,
        set: &[],
        folder: "/lab",
        any_machine: false,
        shell_folder: "/lab",
    };
    crate::parse(&source).and_then(|workflow| workflow.expand(&request)).unwrap_or_else(|e| panic!("{e:?}"))
}

/// Of an instance: when, how it ended, seconds an epoch, who was there, and what else its point says.
type Seen = (usize, u64, bool, Option<f64>, (bool, bool), (u64, f64, f64), Option<(usize, f64)>, Value);

fn seen() -> impl Strategy<Value = Seen> {
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

fn observation(expansion: &Expansion, seen: Seen) -> (usize, Observation) {
    let (of, at, ok, epoch_s, (beside, undisturbed), (gib, load, cores), sharing, point) = seen;
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
        cpu_cores: cores,
        rss_peak: 0,
        gpu_memory: gib << 30,
        gpu_load: load,
        gpu_load_whole: beside.then_some(load / 2.0),
        gpu_model: Some("A".to_owned()).filter(|_| at % 7 > 0),
        point: point.into_iter().chain(instance.axes.iter().map(|(n, v)| (n.clone(), v.clone()))).collect(),
        epoch_s,
        beside,
        undisturbed,
        sharing: sharing.map(|(of, slowdown)| GpuSharing {
            busy: 1.8,
            slowdown,
            beside: vec![label(of)],
            epochs: None,
        }),
    };
    (instance.step.index(), observation)
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]
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
            let kin = &history.steps[instance.step.index()].seen;
            let agrees = |seen: &&Observation| seen.point.get("epochs").is_none_or(|epochs| *epochs == json!(4));
            prop_assert!(kin.iter().all(|seen| agrees(&seen)));
            let at = |seen: &&Observation, but: &str| {
                instance.axes.iter().all(|(axis, value)| axis == but || seen.point.get(axis) == Some(value))
            };
            let same = |seen: &&Observation| if seen.point.is_empty() { seen.label == *instance.label } else { at(seen, "") };
            prop_assert_eq!(history.own(instance), kin.iter().filter(same).collect::<Vec<_>>());
            let points = |calm: bool, axis: &str| {
                let ended = kin.iter().filter(|seen| seen.outcome == Outcome::Ok && (!calm || seen.is_calm()));
                let points = ended.filter(|seen| at(seen, axis)).filter_map(|seen| seen.point.get(axis)?.as_u64());
                points.collect::<BTreeSet<_>>().len()
            };
            let most = |calm| instance.axes.keys().map(|axis| points(calm, axis)).max().filter(|points| *points > 1);
            prop_assert_eq!(history.others(instance).map(|(.., curves)| curves.points), most(true).or(most(false)));
        }
    }
}

const SWEEP: &str = "
flow: 1
steps:
  train: {matrix: {rate: '${{ range(1, 1 + POINTS) }}'}, run: 'train ${{ rate }}', gpus: 1}
";

/// How many times instances of a sweep of so many points are told what was learned, one of which ends after the other.
fn told(points: usize) -> usize {
    let expansion = expansion_of(&SWEEP.replace("POINTS", &points.to_string()));
    let mut history = History::new(&expansion, &expansion.instances);
    let mut waiting: BTreeSet<_> = expansion.instances.iter().map(|instance| instance.id).collect();
    let (mut told_at, mut count) = (BTreeMap::new(), 0);
    while let Some(id) = waiting.pop_first() {
        let result = without_attempt(&expansion, id, Outcome::Ok, None, &RunId("r".into()), u64::from(id.0));
        let events = history.learn(id, &result, &waiting);
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
    assert!(told(1_200) <= 2 * 64 * 1_200, "all of each would be 719,400");
    assert_eq!(told(50), 50 * 49 / 2, "few are told everything");
}
