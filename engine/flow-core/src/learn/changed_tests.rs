//! What a step took before its script, its command or its plugin was changed tells less of what it takes now.

use super::{
    History, Observation, Prediction,
    tests::{expansion_of, trained},
};
use crate::{Digest, Expansion, Instance, StepId, predict::PredictedValue, sched::EstimateSource};

const SWEEP: &str =
    "flow: 1\nsteps:\n  train: {matrix: {batch: [32, 64, 128, 256, 512]}, run: 'train ${{ batch }}', gpus: 1}\n";

/// Seconds an epoch by batch.
fn epoch(batch: u64) -> f64 {
    1.0 + 0.01 * batch as f64
}

/// Trainings of a program that takes so many times as long, of which each hundred ended after that of the one before.
fn of_program(expansion: &Expansion, version: u8, times: f64) -> Vec<Observation> {
    let made = |seen: Observation| Observation {
        program: Some(Digest::of(&[version])),
        at: seen.at + 100_000 * u64::from(version),
        ..seen
    };
    trained(expansion, |batch| times * epoch(batch)).into_iter().map(made).collect()
}

fn predicted(expansion: &Expansion, seen: Vec<Observation>, asked: &Instance) -> Prediction {
    let all = [expansion.instances.clone(), vec![asked.clone()]].concat();
    let mut history = History::new(expansion, &all);
    history.remember(StepId(0), seen);
    history.predict(asked)
}

fn at(expansion: &Expansion, batch: u64) -> Instance {
    super::points(expansion, &format!("train/batch={batch}")).unwrap().remove(0)
}

fn assert_close(of: Option<PredictedValue>, is: f64, by: f64) {
    let of = of.unwrap();
    assert!((of.value / is - 1.0).abs() < by && of.low < is && is < of.high, "{of:?} for {is}");
}

#[test]
fn one_run_of_a_changed_step_tells_what_the_change_does_to_all_its_points() {
    let expansion = expansion_of(SWEEP);
    let before = || of_program(&expansion, 1, 1.0);
    let after = of_program(&expansion, 2, 3.0);
    for (batch, instance) in [(32, 0), (512, 4), (48, 2)] {
        let asked = at(&expansion, batch);
        let old = predicted(&expansion, before(), &asked).expected.epoch;
        assert_close(old, epoch(batch), 0.04);
        let Prediction { expected, estimate, .. } =
            predicted(&expansion, [before(), vec![after[3].clone()]].concat(), &asked);
        assert_close(expected.epoch, 3.0 * epoch(batch), 0.12);
        let is_changed = matches!(estimate.source, EstimateSource::Points { changed: true, .. });
        assert!(is_changed && estimate.samples == 6, "{instance}: {estimate:?}");
    }
    // What ran itself since then is expected as it ran then.
    let own = predicted(&expansion, [before(), vec![after[3].clone()]].concat(), &at(&expansion, 256));
    assert_close(own.expected.epoch, 3.0 * 1.01 * epoch(256), 0.01);
    assert_eq!(own.estimate.samples, 1);
}

#[test]
fn what_is_changed_back_is_expected_as_it_was() {
    let expansion = expansion_of(SWEEP);
    let asked = at(&expansion, 48);
    let all = [expansion.instances.clone(), vec![asked.clone()]].concat();
    let mut history = History::new(&expansion, &all);
    history.remember(StepId(0), [of_program(&expansion, 1, 1.0), of_program(&expansion, 2, 3.0)].concat());
    // One that never ran is as good as none.
    for (now, times) in [(9, 3.0), (1, 1.0), (9, 1.0), (2, 3.0)] {
        history.set_program(StepId(0), Digest::of(&[now]));
        assert_close(history.predict(&asked).expected.epoch, times * epoch(48), 0.04);
        let own = history.predict(&expansion.instances[0]).expected.epoch;
        assert_close(own, times * epoch(32), 0.04);
    }
}

#[test]
fn many_runs_of_before_do_not_hide_a_few_of_now() {
    let values: Vec<String> = (1..=200).map(|n| (8 * n).to_string()).collect();
    let expansion = expansion_of(&SWEEP.replace("32, 64, 128, 256, 512", &values.join(", ")));
    let after = of_program(&expansion, 2, 0.5);
    let now = [10, 90, 171].map(|n| after[n].clone()).to_vec();
    let seen = [of_program(&expansion, 1, 1.0), now].concat();
    for batch in [8, 804, 1600] {
        let Prediction { expected, .. } = predicted(&expansion, seen.clone(), &at(&expansion, batch));
        assert_close(expected.epoch, 0.5 * epoch(batch), 0.06);
    }
}

#[test]
fn a_gpu_model_on_which_only_an_earlier_program_ran_is_expected_as_that_ran() {
    let expansion = expansion_of(SWEEP);
    let there = |seen: Observation| Observation { gpu_model: Some("B".to_owned()), ..seen };
    let there = of_program(&expansion, 1, 4.0).into_iter().map(there);
    let asked = at(&expansion, 96);
    let all = [expansion.instances.clone(), vec![asked.clone()]].concat();
    let mut history = History::new(&expansion, &all);
    history.remember(StepId(0), there.chain(of_program(&expansion, 2, 1.0)).collect());
    let by_model = history.on_each_model(&asked, super::Length::default()).unwrap();
    let models: Vec<&str> = by_model.iter().map(|on| &*on.model).collect();
    assert_eq!(models, ["A", "B"]);
    assert_close(Some(by_model[0].epoch), epoch(96), 0.04);
    assert_close(Some(by_model[1].epoch), 4.0 * epoch(96), 0.04);
}

#[test]
fn runs_of_now_count_even_if_only_those_of_before_were_alone() {
    let expansion = expansion_of(SWEEP);
    let beside = |seen: Observation| Observation { others_ran: true, undisturbed: false, ..seen };
    let alone = |seen: Observation| Observation { others_ran: false, ..seen };
    let before = of_program(&expansion, 1, 1.0).into_iter().map(alone);
    let after = of_program(&expansion, 2, 3.0).into_iter().take(2).map(beside);
    let asked = at(&expansion, 48);
    assert_close(predicted(&expansion, before.chain(after).collect(), &asked).expected.epoch, 3.0 * epoch(48), 0.08);
}
