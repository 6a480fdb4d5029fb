//! The rule on simulated machines: how often it is wrong, what it finds, and after how many runs. No results are
//! involved.

use proptest::prelude::*;

use super::*;

/// A machine with a relative scatter of `noise` between runs.
struct Machine {
    chance: fastrand::Rng,
    noise: f64,
}

impl Machine {
    fn run(&mut self, time: f64) -> f64 {
        // Sums of uniform numbers are close enough to normal ones.
        let normal: f64 = (0..12).map(|_| self.chance.f64()).sum::<f64>() - 6.0;
        time * (self.noise * normal).exp()
    }
}

/// Repeats a group as the engine does, until it is decided or has run `at_most` times. Returns the call and the number
/// of looks.
fn repeat(members: &mut [Times], machine: &mut Machine, together: &[f64], at_most: u32) -> (Call, u32) {
    for look in members[0].alone.len() as u32 + 1.. {
        for (member, slowed) in members.iter_mut().zip(together) {
            member.alone.push(machine.run(10.0));
            member.together.push(machine.run(10.0 * slowed));
        }
        let call = call(members, look, TOLERANCE).call;
        if call != Call::Undecided || look == at_most {
            return (call, look);
        }
    }
    unreachable!()
}

fn machine(noise: f64) -> Machine {
    Machine { chance: fastrand::Rng::with_seed(8 + (noise * 1e4) as u64), noise }
}

/// How many of 1,000 groups get each call.
fn called(noise: f64, together: &[f64], at_most: u32) -> std::collections::BTreeMap<Call, u32> {
    let mut machine = machine(noise);
    let mut counts = std::collections::BTreeMap::new();
    for _ in 0..1000 {
        let mut members = vec![Times::default(); together.len()];
        *counts.entry(repeat(&mut members, &mut machine, together, at_most).0).or_default() += 1;
    }
    counts
}

#[test]
fn of_a_thousand_groups_without_a_gain_few_are_called_one_however_often_one_looks() {
    let groups: [&[f64]; 3] = [&[2.0, 2.0], &[1.5, 3.0], &[2.0, 3.0, 6.0]];
    for noise in [0.005, 0.02, 0.05, 0.08] {
        for together in groups {
            for at_most in [AT_MOST, 8, 24] {
                let counts = called(noise, together, at_most);
                let of = |call: Call| counts.get(&call).copied().unwrap_or(0);
                let wrong = of(Call::OnlyConcurrent) + of(Call::SlowerThanOneAfterAnother) + of(Call::Parallel);
                assert!(wrong <= 50, "{wrong} of 1000 at {noise}, {together:?}, up to {at_most}: {counts:?}");
            }
        }
    }
}

#[test]
fn what_is_so_is_found_within_the_usual_bound() {
    let found = |noise, together: &[f64], call: Call| called(noise, together, AT_MOST).get(&call).copied().unwrap_or(0);
    assert!(found(0.01, &[2.0, 2.0], Call::NoGain) >= 900, "{:?}", called(0.01, &[2.0, 2.0], AT_MOST));
    assert!(found(0.02, &[1.4, 1.5], Call::OnlyConcurrent) == 1000);
    assert!(
        found(0.02, &[2.6, 2.6], Call::SlowerThanOneAfterAnother) >= 900,
        "{:?}",
        called(0.02, &[2.6, 2.6], AT_MOST)
    );
    assert!(found(0.01, &[1.02, 1.08], Call::Parallel) >= 950, "{:?}", called(0.01, &[1.02, 1.08], AT_MOST));
}

#[test]
fn two_to_eight_per_cent_is_parallel_where_ten_are_allowed() {
    for slowed in [1.02, 1.04, 1.06, 1.08] {
        let times = |run: f64| Times { alone: vec![10.0], together: vec![10.0 * run], epochs: None };
        assert_eq!(call(&[times(slowed), times(1.02)], 1, TOLERANCE).call, Call::Parallel, "{slowed}");
    }
}

#[test]
fn what_is_undecided_says_how_many_more() {
    let times = |factor: f64| Times { alone: vec![10.0], together: vec![10.0 * factor], epochs: None };
    let members = [times(1.9), times(1.9)];
    assert_eq!(call(&members, 1, TOLERANCE).call, Call::Undecided);
    assert!(
        more(&members, 1, TOLERANCE).is_some_and(|more| (1..10).contains(&more)),
        "{:?}",
        more(&members, 1, TOLERANCE)
    );
    // A large scatter needs many runs. If they are too many, there is no number.
    let noisy =
        |off: f64| Times { alone: vec![10.0, 10.0 + off], together: vec![20.0, 20.0 + 2.0 * off], epochs: None };
    let of = |off: f64| more(&[noisy(off), noisy(off)], 2, TOLERANCE);
    assert!(of(0.5).is_some_and(|more| (2..40).contains(&more)) && of(4.0).is_none(), "{:?}, {:?}", of(0.5), of(4.0));
}

#[test]
fn what_differs_by_five_per_cent_from_run_to_run_is_decided_after_some_seventeen_runs() {
    let mut machine = machine(0.05);
    let mut looks: Vec<u32> =
        (0..201).map(|_| repeat(&mut vec![Times::default(); 2], &mut machine, &[2.0, 2.0], MANY).1).collect();
    looks.sort_unstable();
    assert!((14..=20).contains(&looks[100]) && looks[180] <= 24, "{looks:?}");
}

#[test]
fn as_many_runs_more_as_are_told_decide_in_most_cases() {
    for noise in [0.03, 0.05, 0.08] {
        let mut machine = machine(noise);
        let (mut told, mut decided, mut never) = (0, 0, 0);
        for _ in 0..100 {
            let mut members = vec![Times::default(); 2];
            let (call, look) = repeat(&mut members, &mut machine, &[2.0, 2.0], AT_MOST);
            if call != Call::Undecided {
                continue;
            }
            let Some(more) = more(&members, look, TOLERANCE) else {
                never += 1;
                continue;
            };
            told += 1;
            decided += u32::from(repeat(&mut members, &mut machine, &[2.0, 2.0], look + more).0 != Call::Undecided);
        }
        assert!(told >= 40 && 3 * decided >= 2 * told, "{decided} of {told} at {noise}");
        assert!(never <= told / 4, "{told}, and of {never} that 100 more would not do, at {noise}");
    }
}

proptest! {
    #[test]
    fn a_call_never_depends_on_what_a_second_is(
        alone in prop::collection::vec(0.5..20.0_f64, 4..7), unit in 0.01..1000.0_f64, factor in 0.9..3.0_f64,
    ) {
        let members = |unit: f64| -> Vec<Times> {
            let pairs = alone.chunks_exact(2);
            pairs.map(|two| Times {
                alone: two.iter().map(|t| t * unit).collect(),
                together: two.iter().map(|t| t * unit * factor).collect(),
                epochs: None,
            }).collect()
        };
        let (one, other) = (call(&members(1.0), 2, TOLERANCE), call(&members(unit), 2, TOLERANCE));
        prop_assert!((one.gain - other.gain).abs() < 1e-9 && (one.half - other.half).abs() < 1e-6);
    }
}
