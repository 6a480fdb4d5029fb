//! Observations are found by their point, and estimates rest on those alone.

use std::collections::BTreeSet;

use proptest::prelude::*;
use serde_json::{Value, json};

use super::{History, Observation};
use crate::{Catalogue, ExpandRequest, Expansion, GpuFacts, GpuSharing, Machine, Mode, Outcome, RunId, Source, StepId};

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
    let gpu = |index| GpuFacts { uuid: format!("GPU-{index}"), index, name: "A".into(), memory: 24 << 30 };
    let machine = Machine { gpus: (0..2).map(gpu).collect(), cpus: 16, memory: 64 << 30, ..Machine::default() };
    let source = Source { path: "test.yaml".into(), text: WORKFLOW.to_owned() };
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
