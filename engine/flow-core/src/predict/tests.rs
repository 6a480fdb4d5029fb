//! Curves that were published, and truths that are made up: what is predicted of a point from the others, and how sure.

use proptest::prelude::*;

use super::*;

fn at(x: f64) -> Vec<Coordinate> {
    vec![Coordinate::Number(x)]
}

fn curve(points: &[(f64, f64)]) -> Vec<(Vec<Coordinate>, f64)> {
    points.iter().map(|&(x, y)| (at(x), y)).collect()
}

/// Each point with what the others say of it, as far as it is not too far from them.
fn left_out(measured: &[(Vec<Coordinate>, f64)]) -> Vec<(f64, PredictedValue)> {
    let one = |(n, (at, is)): (usize, &(Vec<Coordinate>, f64))| {
        let others = [&measured[..n], &measured[n + 1..]].concat();
        Some((*is, Fit::of(&others)?.at(at).filter(|predicted| !predicted.far)?))
    };
    measured.iter().enumerate().filter_map(one).collect()
}

/// Of those inside the measured range, or beyond it: the median error, the share inside the interval, the median of its half-width.
fn quality(all: &[(f64, PredictedValue)], beyond: bool) -> (f64, f64, f64) {
    let of: Vec<_> = all.iter().filter(|(_, predicted)| predicted.beyond == beyond).collect();
    let median = |value: &dyn Fn(&(f64, PredictedValue)) -> f64| {
        let mut values: Vec<f64> = of.iter().map(|one| value(one)).collect();
        values.sort_by(f64::total_cmp);
        values[values.len() / 2]
    };
    let inside = of.iter().filter(|(is, predicted)| (predicted.low..=predicted.high).contains(is)).count();
    (
        median(&|(is, predicted)| (predicted.value / is - 1.0).abs()),
        inside as f64 / of.len() as f64,
        median(&|(_, predicted)| (predicted.high / predicted.low).sqrt() - 1.0),
    )
}

/// What a prediction is to be worth: within the range at most 6 % off, an octave beyond at most 12 %; nine of ten inside the interval,
/// and that within the range not wider than ±15 %.
fn holds(what: &str, all: &[(f64, PredictedValue)]) {
    let (error, inside, width) = quality(all, false);
    assert!(error <= 0.06 && inside >= 0.9 && width <= 0.15, "{what}: {error:.3}, {inside:.2} inside, ±{width:.3}");
    let (error, inside, _) = quality(all, true);
    assert!(error <= 0.12 && inside >= 0.9, "{what}, beyond: {error:.3}, {inside:.2} inside");
}

fn scattered(chance: &mut fastrand::Rng, value: f64) -> f64 {
    let normal: f64 = (0..12).map(|_| chance.f64()).sum::<f64>() - 6.0;
    value * (1.0 + 0.02 * normal)
}

/// Which law goes along an axis is as unsure where there is another axis.
#[test]
fn an_octave_beyond_one_of_two_axes_nine_of_ten_are_inside() {
    let mut chance = fastrand::Rng::with_seed(3);
    for noise in [0.002, 0.01, 0.02] {
        let mut run = |x: f64, y: f64| 0.03 * x * y * (1.0 + noise / 0.02 * (scattered(&mut chance, 1.0) - 1.0));
        let point = |x: f64, y: f64| vec![Coordinate::Number(x), Coordinate::Number(y)];
        let mut all = Vec::new();
        for _ in 0..10 {
            let grid = [2.0, 4.0, 6.0, 10.0].into_iter().flat_map(|x| [1.0, 2.0, 4.0].map(|y| (x, y)));
            let fit = Fit::of(&grid.map(|(x, y)| (point(x, y), run(x, y))).collect::<Vec<_>>()).unwrap();
            all.extend([1.0, 2.0, 4.0].map(|y| (run(18.0, y), fit.at(&point(18.0, y)).unwrap())));
        }
        let (error, inside, width) = quality(&all, true);
        assert!(error < 0.06 && inside >= 0.9 && width < 0.1, "{noise}: {error:.3}, {inside:.2} inside, ±{width:.3}");
    }
}

/// A measurement more is a run more, not a mean of some.
#[test]
fn nine_of_ten_runs_are_inside_however_much_runs_scatter() {
    let mut chance = fastrand::Rng::with_seed(11);
    for noise in [0.02, 0.1, 0.2] {
        let mut run = |x: f64| (1.0 + x / 100.0) * ((noise / 0.02) * (scattered(&mut chance, 1.0) - 1.0)).exp();
        let (mut inside, mut own, mut all) = (0, 0, 0);
        for _ in 0..40 {
            let mut measured = Vec::new();
            for x in [16.0, 32.0, 64.0, 128.0, 256.0] {
                measured.extend((0..4).map(|_| (at(x), run(x))));
            }
            let fit = Fit::of(&measured).unwrap();
            for x in [20.0, 48.0, 100.0, 200.0] {
                let predicted = fit.at(&at(x)).unwrap();
                inside += usize::from((predicted.low..=predicted.high).contains(&run(x)));
                let predicted = repeated(&[run(x), run(x), run(x), run(x)]).unwrap();
                own += usize::from((predicted.low..=predicted.high).contains(&run(x)));
                all += 1;
            }
        }
        let share = |inside: usize| inside as f64 / all as f64;
        assert!(share(inside) >= 0.85, "at {noise}: {} inside", share(inside));
        assert!(share(own) >= 0.85, "at {noise}, of the point itself: {} inside", share(own));
    }
}

type Truth = fn(f64, f64) -> f64;
const TRUTHS: [(&str, Truth); 5] = [
    ("by iteration", |x, knee| 1.0 + x / knee),
    ("by image", |x, knee| 1.0 + knee / x),
    ("saturating", |x, knee| x / (x + knee)),
    ("rising again", |x, knee| 1.0 + knee / x + x / 3000.0),
    ("a power", |x, knee| x.powf(knee / 512.0)),
];

#[test]
fn made_up_truths_are_found_through_two_percent_of_noise() {
    let mut chance = fastrand::Rng::with_seed(7);
    let mut all = Vec::new();
    for (name, truth) in TRUTHS {
        let mut sweep = |points: i32| {
            let knee = 2.0_f64.powf(4.0 + 5.0 * chance.f64());
            let batches = (0..points).map(|n| f64::from(16 << n));
            curve(&batches.map(|x| (x, scattered(&mut chance, truth(x, knee)))).collect::<Vec<_>>())
        };
        let of: Vec<_> = [4, 5, 6]
            .iter()
            .flat_map(|points| (0..6).flat_map(|_| left_out(&sweep(*points))).collect::<Vec<_>>())
            .collect();
        for (beyond, most) in [(false, 0.06), (true, 0.12)] {
            let (error, inside, _) = quality(&of, beyond);
            assert!(error <= most && inside >= 0.8, "{name}: {error:.3}, {inside:.2} inside");
        }
        all.extend(of);
    }
    holds("all of them", &all);
}

/// What was published at the first batch size and at each double of it.
const PUBLISHED: [(&str, u32, &[f64]); 7] = [
    ("alexnet", 1, &[507.7, 259.6, 133.4, 73.4, 40.0, 25.8, 20.8, 17.7, 16.7, 15.5]),
    ("resnet18", 1, &[718.9, 359.0, 179.8, 92.0, 46.4, 29.5, 21.9, 18.2, 16.3, 15.5]),
    ("vgg16", 1, &[635.7, 348.2, 193.1, 125.7, 83.8, 58.0, 46.2, 42.3]),
    ("resnet34", 16, &[29.1, 16.7, 12.3, 11.4, 11.4, 12.8]),
    ("its memory", 16, &[1259.0, 1539.0, 2047.0, 3233.0, 5527.0, 9905.0]),
    ("mobilenet_v2", 16, &[37.4, 19.6, 12.8, 11.3, 11.3]),
    ("its memory", 16, &[1113.0, 1525.0, 2435.0, 4271.0, 7873.0]),
];

fn published() -> impl Iterator<Item = Vec<(Vec<Coordinate>, f64)>> {
    PUBLISHED
        .iter()
        .map(|(_, first, values)| (0..).zip(*values).map(|(n, y)| (at(f64::from(first << n)), *y)).collect())
}

#[test]
fn published_curves_are_predicted_point_by_point() {
    let all: Vec<_> = published().flat_map(|points| left_out(&points)).collect();
    holds("published", &all);
}

#[test]
fn several_axes_at_once_are_predicted_together() {
    let mut chance = fastrand::Rng::with_seed(3);
    let mut sweep = || {
        let mut measured = Vec::new();
        for (model, (knee, level)) in [(20.0, 1.0), (50.0, 3.0), (120.0, 7.0)].into_iter().enumerate() {
            for (batch, gpus) in [32.0, 64.0, 128.0, 256.0].into_iter().flat_map(|b| [1.0, 2.0, 4.0].map(|g| (b, g))) {
                let time = level * (1.0 + knee / batch) * (0.05 + 0.95 / gpus);
                if chance.f64() < 0.7 {
                    let model = Coordinate::Name(model.to_string());
                    let point = vec![model, Coordinate::Number(batch), Coordinate::Number(gpus)];
                    measured.push((point, scattered(&mut chance, time)));
                }
            }
        }
        measured
    };
    let measured = sweep();
    let all: Vec<_> = (0..3).flat_map(|_| left_out(&sweep())).chain(left_out(&measured)).collect();
    let (error, inside, width) = quality(&all, false);
    assert!(error <= 0.06 && inside >= 0.9 && width <= 0.15, "{error:.3}, {inside:.2} inside, ±{width:.3}");
    // A model of which only one GPU was seen, on two.
    let known =
        measured.iter().filter(|(at, _)| at[0] != Coordinate::Name("2".into()) || at[2] == Coordinate::Number(1.0));
    let asked = [Coordinate::Name("2".into()), Coordinate::Number(64.0), Coordinate::Number(2.0)];
    let predicted = Fit::of(&known.cloned().collect::<Vec<_>>()).unwrap().at(&asked).unwrap();
    let is = 7.0 * (1.0 + 120.0 / 64.0) * 0.525;
    assert!(
        (predicted.value / is - 1.0).abs() < 0.15 && predicted.low < is && is < predicted.high,
        "{predicted:?}, {is}"
    );
}

/// The share of time in which six networks kept an H200 busy, of 100, at batch sizes from 1 to 512: measured over epochs of which the
/// last take a tenth of a second, so that some are far off.
const BUSY: [(&str, [f64; 10]); 6] = [
    ("alexnet", [96.04, 95.68, 99.74, 77.64, 60.38, 35.04, 21.64, 13.02, 0.0, 33.72]),
    ("resnet18", [97.91, 98.10, 89.99, 94.51, 91.92, 94.60, 79.69, 65.31, 3.99, 1.00]),
    ("vgg16", [99.11, 97.28, 99.94, 94.15, 94.58, 91.16, 88.86, 98.48, 96.91, 88.43]),
    ("mobilenet_v2", [89.93, 83.58, 91.19, 88.61, 85.81, 97.51, 89.44, 64.67, 90.00, 76.00]),
    ("resnet50", [97.95, 99.16, 96.72, 93.35, 88.2, 91.99, 86.92, 76.37, 59.95, 77.91]),
    ("googlenet", [95.23, 93.84, 96.14, 92.0, 98.4, 94.19, 75.39, 63.07, 62.53, 18.0]),
];

#[test]
fn what_scatters_more_than_is_believed_has_wider_intervals() {
    let point =
        |model: &str, batch: i32| vec![Coordinate::Name(model.to_owned()), Coordinate::Number(f64::from(1 << batch))];
    let of = |(model, busy): &(&str, [f64; 10])| {
        (0..).zip(busy).map(|(batch, busy)| (point(model, batch), *busy)).collect::<Vec<_>>()
    };
    let measured: Vec<_> = BUSY.iter().flat_map(of).filter(|(_, busy)| *busy > 0.0).collect();
    let (mut inside, mut believed) = (0, 0);
    for (n, (at, is)) in measured.iter().enumerate() {
        let mut fit = Fit::of(&[&measured[..n], &measured[n + 1..]].concat()).unwrap();
        let holds = |fit: &Fit| {
            let PredictedValue { low, high, .. } = fit.at(at).unwrap();
            usize::from((low..=high).contains(is))
        };
        inside += holds(&fit);
        fit.wider = 1.0;
        believed += holds(&fit);
    }
    let all = measured.len();
    assert!(10 * inside >= 9 * all - 10 && inside > believed, "{inside} of {all}, and {believed} as believed");
}

#[test]
fn each_point_is_told_by_the_others_without_a_fit_for_each() {
    let (mut all, mut alike) = (0, 0);
    for measured in published() {
        let off = Fit::of(&measured).unwrap().off();
        for (n, (off, (at, is))) in off.into_iter().zip(&measured).enumerate() {
            let others = Fit::of(&[&measured[..n], &measured[n + 1..]].concat()).unwrap().at(at).unwrap();
            let inside = (others.low..=others.high).contains(is);
            all += 1;
            alike += usize::from(inside == (off <= NINE_IN_TEN));
        }
    }
    assert!(10 * alike >= 9 * all, "{alike} of {all}");
}

#[test]
fn an_interval_is_as_wide_as_nine_of_ten_errors_ask() {
    let wider = |off: &[f64]| super::calibrate::wider(off);
    let many: Vec<f64> = (1..=39).map(|n| f64::from(n) / 10.0).collect();
    assert!((wider(&many) - 3.6 / NINE_IN_TEN).abs() < 1e-12, "the 36th of 39");
    assert_eq!(wider(&[0.1; 30]), 1.0, "what is believed is the least");
    assert_eq!((wider(&[]), wider(&[f64::INFINITY; 20])), (1.0, 1.0));
}

#[test]
fn an_epoch_of_so_many_iterations_is_told_from_one_over_all_images() {
    // Measured: an epoch is a fixed number of iterations.
    let epochs = Fit::of(&curve(&[(32.0, 0.36), (64.0, 0.70), (128.0, 1.39), (256.0, 2.76)])).unwrap();
    let double = epochs.at(&at(512.0)).unwrap();
    assert!((double.value / 5.51 - 1.0).abs() < 0.06 && double.low < 5.51 && 5.51 < double.high, "{double:?}");
    assert!(double.beyond && !double.far && epochs.at(&at(1024.0)).unwrap().far);
}

#[test]
fn little_is_said_of_little() {
    let fit = |points: &[(f64, f64)]| Fit::of(&curve(points));
    assert!(fit(&[]).is_none() && fit(&[(16.0, f64::NAN), (0.0, 1.0), (16.0, 0.0)]).is_none());
    let one = fit(&[(16.0, 2.0), (16.0, 2.0)]).unwrap();
    assert!(one.at(&at(32.0)).is_none() && one.at(&at(f64::NAN)).is_none() && one.at(&[]).is_none());
    let known = one.at(&at(16.0)).unwrap();
    assert!((known.value - 2.0).abs() < 1e-9 && known.points == 1 && !known.beyond);
    let two = fit(&[(16.0, 3.0), (32.0, 4.0)]).unwrap().at(&at(1.0)).unwrap();
    assert!(two.far && two.high / two.low > 2.0, "{two:?}");
    let named =
        Fit::of(&[(vec![Coordinate::Name("a".into())], 1.0), (vec![Coordinate::Name("b".into())], 2.0)]).unwrap();
    assert!(named.at(&[Coordinate::Name("c".into())]).is_none());
    let (once, often) = (repeated(&[2.0]).unwrap(), repeated(&[2.0, 2.0, 2.0, 2.0]).unwrap());
    assert!(repeated(&[]).is_none() && once.high > often.high && often.high > 2.0);
}

#[test]
fn parts_that_follow_one_another_are_as_sure_as_their_sum() {
    let part = |value: f64, off: f64| PredictedValue {
        value,
        low: value - off,
        high: value + off,
        points: 4,
        beyond: false,
        far: false,
    };
    let sum = PredictedValue::sum([(part(10.0, 3.0), 1.0), (part(2.0, 0.2), 20.0)]).unwrap();
    assert_eq!((sum.value, sum.low, sum.high), (50.0, 45.0, 55.0));
    let far = |part: PredictedValue| PredictedValue { beyond: true, far: true, ..part };
    let with = |small: PredictedValue| PredictedValue::sum([(part(10.0, 1.0), 1.0), (far(small), 1.0)]).unwrap().far;
    assert!(!with(part(0.2, 0.1)) && with(part(0.5, 0.3)), "start-up of a blink is no reason to doubt the whole");
    assert_eq!(PredictedValue::sum([]), None);
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(32) })]
    #[test]
    fn whatever_was_measured_an_interval_holds_its_value(
        measured in prop::collection::vec((prop::collection::vec(0..6u8, 3), 1e-6..1e9f64), 0..60),
        asked in prop::collection::vec(0..6u8, 3),
    ) {
        let point = |at: &[u8]| {
            vec![Coordinate::Number(f64::from(at[0])), Coordinate::Name(at[1].to_string()), Coordinate::Number(2.0_f64.powi(at[2].into()))]
        };
        let measured: Vec<_> = measured.iter().map(|(at, value)| (point(at), *value)).collect();
        let Some(fit) = Fit::of(&measured) else { return Ok(()) };
        if let Some(PredictedValue { value, low, high, .. }) = fit.at(&point(&asked)) {
            prop_assert!(low > 0.0 && low <= value && value <= high && high.is_finite(), "{} {} {}", low, value, high);
        }
    }
}
