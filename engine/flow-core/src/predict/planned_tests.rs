//! A training that is planned: made-up machines on which time, memory and power follow a law are found through noise, and what cannot
//! be is told.

use proptest::prelude::*;
use serde_json::{Value, json};

use super::{Answer, Ask, Basis, Count, Experiment, Known, Lack, Part, PredictError, TrainingPoint as Point};
use crate::StepResult;

/// Multiply-accumulates, what is moved, and parameters, of one image of 224×224, in millions.
const NETWORKS: [(&str, [f64; 3]); 9] = [
    ("alexnet", [714.0, 2.0, 61.1]),
    ("resnet18", [1814.0, 7.0, 11.7]),
    ("resnet34", [3664.0, 11.0, 21.8]),
    ("resnet50", [4089.0, 33.0, 25.6]),
    ("googlenet", [1498.0, 10.0, 6.6]),
    ("vgg16", [15_470.0, 14.0, 138.4]),
    ("densenet121", [2834.0, 42.0, 8.0]),
    ("mobilenet_v2", [301.0, 20.0, 3.5]),
    ("inception_v3", [5713.0, 25.0, 23.8]),
];
const BATCHES: [u32; 5] = [8, 16, 32, 64, 128];
const IMAGES: u64 = 60_000;

/// Normal noise of deviation 1, by place.
fn noise(seed: u64, of: &str, batch: u32, part: Part) -> f64 {
    let mut state = seed ^ 0x9E37_79B9_7F4A_7C15;
    for byte in of.bytes().chain(batch.to_le_bytes()).chain([part as u8]) {
        state = (state ^ u64::from(byte))
            .wrapping_mul(0x0000_0100_0000_01B3)
            .rotate_left(29)
            .wrapping_mul(0xD6E8_FEB8_6659_FD93);
    }
    let mut uniform = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        ((state >> 11) as f64 + 0.5) / (1_u64 << 53) as f64
    };
    (-2.0 * uniform().ln()).sqrt() * (std::f64::consts::TAU * uniform()).cos()
}

/// A machine that is so many times as fast as the first.
fn truth(model: &str, batch: u32, speed: f64) -> [f64; 6] {
    let [macs, traffic, parameters] = NETWORKS.iter().find(|(name, _)| *name == model).expect("a network").1;
    let pace = (4e-7 * macs + 2e-5 * traffic + 3e-5 * parameters / f64::from(batch)) / speed;
    let memory = 5e8 + 3e6 * traffic * f64::from(batch) + 16e6 * parameters;
    [pace, 1.1, 6.0, 0.5, memory, 300.0]
}

/// All networks at all batches, but for what is left out; noise differs from one network to another, and from one run to another.
fn known(seed: u64, machines: &[(&str, f64)], (own, runs): (f64, f64), left_out: impl Fn(&str, u32) -> bool) -> Known {
    let count = |(model, [macs, traffic, parameters]): &(&str, [f64; 3])| Count {
        model: (*model).to_owned(),
        size: 224,
        macs: macs * 1e6,
        traffic: traffic * 1e6,
        parameters: parameters * 1e6,
    };
    let mut known = Known { experiments: Vec::new(), counts: NETWORKS.iter().map(count).collect() };
    for (machine, speed) in machines {
        for (model, _) in NETWORKS {
            for batch in BATCHES.into_iter().filter(|batch| !left_out(model, *batch)) {
                let mut parts = truth(model, batch, *speed).map(Some);
                for part in Part::ALL {
                    let off = own * noise(seed, &format!("{machine}{model}"), 0, part)
                        + runs * noise(seed, model, batch, part);
                    let value = &mut parts[part as usize];
                    *value = value.map(|value| value * off.exp());
                }
                known.experiments.push(Experiment {
                    machine: (*machine).to_owned(),
                    model: model.to_owned(),
                    point: Point { batch, gpus: 1, size: Some(224) },
                    precision: "fp32".into(),
                    parts,
                    waited: Some(0.01),
                    foreign: Some(0.02),
                    card: Some(80 << 30),
                    workflow: "fit".into(),
                    step: "train".into(),
                    wall_s: 60.0,
                });
            }
        }
    }
    known
}

fn ask(model: &str, batch: u32) -> Ask {
    Ask { model: model.to_owned(), batch, images: IMAGES, epochs: 30, gpus: Some(1), size: None }
}

fn answers(known: &Known, ask: &Ask) -> Vec<Answer> {
    let planned = known.plan(ask).expect("an answer");
    planned.machines.into_iter().map(|on| on.answer.expect("something is known")).collect()
}

/// Seconds of a whole training.
fn whole(model: &str, batch: u32, speed: f64) -> f64 {
    let [pace, longer, startup, end, ..] = truth(model, batch, speed);
    let trained = IMAGES / u64::from(batch) * u64::from(batch);
    startup + 30.0 * pace * longer * trained as f64 + end
}

/// How many of these are inside of their intervals, and how far off half of them are at most.
fn score(mut of: Vec<(f64, super::Predicted)>) -> (f64, f64) {
    let inside =
        of.iter().filter(|(truth, said)| (said.low..=said.high).contains(truth)).count() as f64 / of.len() as f64;
    of.sort_by(|a, b| (a.1.value / a.0 - 1.0).abs().total_cmp(&(b.1.value / b.0 - 1.0).abs()));
    let (truth, said) = &of[of.len() / 2];
    (inside, (said.value / truth - 1.0).abs())
}

#[test]
fn a_network_that_ran_is_said_at_a_batch_that_did_not() {
    const FEW: [&str; 5] = ["alexnet", "resnet18", "resnet50", "vgg16", "mobilenet_v2"];
    let (mut walls, mut memories) = (Vec::new(), Vec::new());
    for (seed, model) in (0..2).flat_map(|seed| FEW.map(|model| (seed, model))) {
        let left_out = |of: &str, batch: u32| !FEW.contains(&of) || of == model && batch == 32;
        let known = known(seed, &[("H200", 2.0)], (0.0, 0.03), left_out);
        let answer = answers(&known, &ask(model, 32)).remove(0);
        assert_eq!((answer.basis, answer.tried.len()), (Basis::Ran(4), 24), "{model}");
        walls.push((whole(model, 32, 2.0), answer.wall));
        memories.push((truth(model, 32, 2.0)[Part::Memory as usize], answer.memory.expect("a GPU")));
    }
    for (what, of) in [("wall", walls), ("memory", memories)] {
        let (inside, off) = score(of);
        assert!(inside >= 0.85 && off <= 0.05, "{what}: {inside:.3} inside, {off:.3} off in the middle");
    }
}

#[test]
fn a_network_that_never_ran_is_said_by_what_it_computes() {
    let (mut walls, mut memories) = (Vec::new(), Vec::new());
    for seed in 0..2 {
        for (model, _) in NETWORKS {
            let known = known(seed, &[("H200", 2.0)], (0.1, 0.03), |of, _| of == model);
            let answer = answers(&known, &ask(model, 64)).remove(0);
            assert_eq!(answer.basis, Basis::Others(8));
            // The same truth as the others', whose networks each have something of their own.
            walls.push((whole(model, 64, 2.0), answer.wall));
            memories.push((truth(model, 64, 2.0)[Part::Memory as usize], answer.memory.expect("a GPU")));
        }
    }
    for (what, of) in [("wall", walls), ("memory", memories)] {
        let (inside, off) = score(of);
        assert!(inside >= 0.85 && off <= 0.2, "{what}: {inside:.3} inside, {off:.3} off in the middle");
    }
}

#[test]
fn it_says_how_good_it_is() {
    let known = known(1, &[("H200", 2.0)], (0.1, 0.03), |_, _| false);
    let held = known.check();
    let told: Vec<(Part, bool, usize)> = held.iter().map(|of| (of.part, of.whole_models, of.tried.len())).collect();
    let all =
        [Part::Pace, Part::Memory, Part::Power].into_iter().flat_map(|part| [(part, false, 45), (part, true, 45)]);
    assert_eq!(told, all.collect::<Vec<_>>(), "the ends of the batches are an octave beyond the others");
    for of in held {
        let (inside, off) = score(of.tried.iter().map(|one| (one.measured, one.predicted)).collect());
        assert!(inside >= 0.8 && off < 0.2, "{:?} {}: {inside:.3} inside, {off:.3} off", of.part, of.whole_models);
    }
}

#[test]
fn one_run_of_a_network_and_more_of_others_do() {
    let known = known(3, &[("H200", 2.0)], (0.05, 0.02), |of, batch| of == "resnet50" && batch != 64);
    let answer = answers(&known, &ask("resnet50", 16)).remove(0);
    assert_eq!((answer.basis, answer.tried.len()), (Basis::Ran(1), 40));
    let off = answer.wall.value / whole("resnet50", 16, 2.0) - 1.0;
    assert!(off.abs() < 0.25, "{off}");
}

#[test]
fn too_little_says_what_to_measure() {
    let few = |of: &str, _: u32| !["resnet18", "vgg16"].contains(&of);
    let known = known(1, &[("H200", 2.0)], (0.0, 0.02), few);
    let planned = known.plan(&ask("resnet50", 64)).unwrap();
    let lack = planned.machines[0].answer.as_ref().unwrap_err();
    assert_eq!(*lack, Lack { count: false, models: 1, like: Some(("fit".into(), "train".into(), 60.0)) });
    let uncounted = Known { counts: Vec::new(), ..known };
    let mut other = uncounted.clone();
    other.counts = vec![Count { model: "resnet50".into(), size: 224, macs: 1.0, traffic: 1.0, parameters: 1.0 }];
    assert_eq!(other.plan(&ask("resnet50", 64)).unwrap().machines[0].answer.as_ref().unwrap_err().models, 3);
    let wrong = uncounted.plan(&ask("resnet50", 64)).unwrap_err();
    assert_eq!(
        wrong,
        PredictError::NoModel { near: Some("resnet18".into()), known: vec!["resnet18".into(), "vgg16".into()] }
    );
}

#[test]
fn what_cannot_be_is_told() {
    let known = known(1, &[("H200", 2.0)], (0.0, 0.02), |_, _| false);
    let wrong = |ask: Ask| known.plan(&ask).unwrap_err();
    let near = |wrong: PredictError| if let PredictError::NoModel { near, .. } = wrong { near } else { None };
    assert_eq!(near(wrong(ask("resnet5", 64))).as_deref(), Some("resnet50"));
    assert_eq!(wrong(Ask { images: 63, ..ask("resnet50", 64) }), PredictError::FewImages);
    assert_eq!(wrong(Ask { gpus: Some(65), ..ask("resnet50", 64) }), PredictError::ManyGpus);
    assert_eq!(wrong(Ask { gpus: Some(0), ..ask("resnet50", 64) }), PredictError::NoGpus { ran: vec![1] });
    assert_eq!(Known::default().plan(&ask("resnet50", 64)).unwrap_err(), PredictError::Nothing);
    // Nothing ran on two: that is a lack, and no wrong question.
    assert!(known.plan(&Ask { gpus: Some(2), ..ask("resnet50", 64) }).unwrap().machines[0].answer.is_err());
}

#[test]
fn an_incomplete_batch_is_trained_on() {
    let known = known(1, &[("H200", 2.0)], (0.0, 0.02), |_, _| false);
    let epoch = |images| answers(&known, &Ask { images, ..ask("resnet50", 64) })[0].epoch.value;
    assert!((epoch(64 * 11 - 32) / epoch(64 * 10) - 1.05).abs() < 1e-9);
    assert!((epoch(64 * 20) / epoch(64 * 10) - 2.0).abs() < 1e-9);
}

/// A result of `torch/train`, less what says nothing here.
fn result(model: &str, more: Value) -> StepResult {
    let mut result = json!({
        "fingerprint": "0".repeat(64), "workflow": "fit", "step": "train", "label": "train", "axes": {"model": model, "batch": 32},
        "outcome": "ok", "run": "20260208-153012-3f2a", "started_at": 1, "ended_at": 2,
        "metrics": {
            "images_per_s": {"value": 100.0, "unit": "images/s"}, "epoch_time": {"value": 2.5, "unit": "s"},
            "data_wait": {"value": 0.1, "unit": "s"},
        },
        "usage": {
            "wall_s": 12.0, "cpu_s": 1.0, "cpu_util": 0.1, "cpu_util_peak": 0.1, "cpu_cores": 1.0, "rss_peak": 1, "disk_read": 0,
            "disk_written": 0, "samples": 9, "energy_j": 3600.0, "phases": {"before_s": 4.0, "epochs": 3, "period_s": 2.4, "after_s": 0.8},
            "gpus": [{"uuid": "", "memory_peak": 7000, "memory_mean": 1, "load_mean": 1.0, "load_peak": 1.0, "load_above_90": 1.0,
                "memory_load_mean": 0.1, "memory_load_peak": 0.1, "memory_load_above_90": 0.1}],
        },
        "circumstances": {
            "mode": "alone", "gpu_models": ["NVIDIA H200"], "gpu_memory_total": [9000], "cpus": 4, "host_cpus": 8, "cpu_model": "x", "host_memory": 1,
            "foreign_cpu": 0.0, "cpu_saturated": 0.0, "facts": {"precision": "bf16", "size": "64", "train_images": "201"},
        },
    });
    for (name, value) in more.as_object().cloned().unwrap_or_default() {
        result[name] = value;
    }
    serde_json::from_value(result).unwrap()
}

#[test]
fn a_result_is_a_training_or_a_count_or_neither() {
    let counted = result(
        "resnet50",
        json!({
            "params": {"size": 224}, "metrics": {"gmac": {"value": 4.0}, "gmac_norm_act": {"value": 4.5}, "parameters": {"value": 25e6}},
        }),
    );
    let failed = result("a", json!({"outcome": "failed"}));
    let spoiled = result("b", json!({"spoiled": [{"kind": "other_runs", "attempts": 1}]}));
    let frozen = result("c", json!({"params": {"freeze_epochs": 1}}));
    let other = result("d", json!({"metrics": {"loss": {"value": 1.0}}}));
    let train = result("resnet50", json!({}));
    let all = [&counted, &failed, &frozen, &other, &train, &spoiled];
    let known = Known::of(all.into_iter().map(|result| (None, result)).chain([(Some("lab4"), &train)]));
    let count = Count { model: "resnet50".into(), size: 224, macs: 4e9, traffic: 5e8, parameters: 25e6 };
    assert_eq!(known.counts, [count]);
    let machines: Vec<&str> = known.experiments.iter().map(|of| &*of.machine).collect();
    assert_eq!(machines, ["NVIDIA H200", "NVIDIA H200 (lab4)"], "one's own and another's are two");
    let Experiment { model, point, precision, parts, waited, card, .. } = &known.experiments[0];
    assert_eq!((&**model, *point, &**precision), ("resnet50", Point { batch: 32, gpus: 1, size: Some(64) }, "bf16"));
    // 192 of 201 images are trained on in whole batches, and that took 1.92 s of the 2.4.
    assert_eq!(
        parts.map(|part| part.map(|value| (value * 1e3).round() / 1e3)),
        [0.01, 1.25, 4.0, 0.8, 7000.0, 300.0].map(Some)
    );
    assert_eq!((*waited, *card), (Some(0.04), Some(9000)));
}

#[test]
fn trainings_that_were_not_left_in_peace_count_where_there_are_no_others() {
    let waiting = result(
        "resnet50",
        json!({"metrics": {
            "images_per_s": {"value": 10.0}, "epoch_time": {"value": 20.0}, "data_wait": {"value": 18.0},
        }}),
    );
    let quick = result("resnet50", json!({}));
    let mut beside = quick.clone();
    beside.circumstances.foreign_cpu = Some(0.5);
    let count = |of: &[&StepResult]| Known::of(of.iter().map(|of| (None, *of))).experiments.len();
    assert_eq!((count(&[&waiting, &beside]), count(&[&waiting, &quick, &beside]), count(&[&quick])), (2, 1, 1));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    /// Whatever was measured, what is said is in its interval, and all of it is finite.
    #[test]
    fn an_answer_is_in_its_interval(
        paces in prop::collection::vec((0_usize..9, 0_usize..5, 1e-6..1e3_f64, prop::option::of(1e3..1e12_f64)), 1..14),
        asked in 0_usize..9,
        batch in 1_u32..600,
    ) {
        let mut known = known(1, &[("H200", 1.0)], (0.0, 0.0), |_, _| true);
        let of = known.counts.clone();
        for (model, at, pace, memory) in paces {
            known.experiments.push(Experiment {
                machine: "H200".into(),
                model: of[model].model.clone(),
                point: Point { batch: BATCHES[at], gpus: 1, size: Some(224) },
                precision: String::new(),
                parts: [Some(pace), None, None, None, memory, None],
                waited: None,
                foreign: Some(0.0),
                card: None,
                workflow: "w".into(),
                step: "s".into(),
                wall_s: 1.0,
            });
        }
        let planned = known.plan(&Ask { images: 100_000, ..ask(&of[asked].model, batch) }).unwrap();
        for on in planned.machines {
            let Ok(answer) = on.answer else { continue };
            for part in [Some(answer.wall), Some(answer.epoch), answer.memory].into_iter().flatten() {
                prop_assert!(part.low <= part.value && part.value <= part.high, "{part:?}");
                prop_assert!(part.low >= 0.0 && part.value.is_finite(), "{part:?}");
            }
        }
    }
}
