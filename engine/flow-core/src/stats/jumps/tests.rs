//! Jumps that are planted are found, and where there are none hardly any.

mod measured;

use proptest::prelude::*;

use super::super::noise;
use super::*;

/// Fewer sweeps than the rate of false alarms is stated for, so that the suite is quick.
const SWEEPS: u64 = 120;
const N: usize = 70;

fn sweep(y: impl Fn(f64) -> f64) -> Vec<(f64, f64)> {
    (1..=N).map(|x| (x as f64, y(x as f64))).collect()
}

fn places(points: &[(f64, f64)]) -> Vec<usize> {
    find_jumps(points).expect("a sweep").jumps.iter().map(|jump| points[jump.at].0 as usize).collect()
}

/// In so many of the sweeps a jump is found.
fn alarms(y: impl Fn(u64, &[f64], f64) -> f64) -> usize {
    let alarms = (0..SWEEPS).filter(|seed| {
        let noise = noise(*seed, N);
        !places(&sweep(|x| y(*seed, &noise, x))).is_empty()
    });
    alarms.count()
}

/// In at most two of a hundred sweeps a jump is found.
fn quiet(what: &str, y: impl Fn(u64, &[f64], f64) -> f64) {
    let alarms = alarms(y);
    assert!(alarms <= 2, "{what}: {alarms}");
}

/// From 0 to 1, another for each seed.
fn chance(seed: u64) -> f64 {
    (seed as f64 * 0.618_033_988_75).fract()
}

fn of(noise: &[f64], x: f64) -> f64 {
    noise[x as usize - 1]
}

#[test]
fn a_sweep_that_is_flat_and_then_rises_has_no_jumps() {
    quiet("flat, then rising", |seed, noise, x| 20.0 + 1.5 * (x - 70.0 * chance(seed)).max(0.0) + of(noise, x));
}

#[test]
fn a_curve_has_no_jumps() {
    quiet("curved", |seed, noise, x| {
        let bent = if seed % 2 == 0 { 0.05 * x * x } else { 20.0 * x.sqrt() };
        20.0 + chance(seed) * bent + of(noise, x)
    });
}

#[test]
fn what_is_steep_only_at_first_has_no_jumps() {
    quiet("hyperbola or logarithm", |seed, noise, x| {
        let bent = if seed % 2 == 0 { 300.0 / x } else { 100.0 * x.ln() };
        10.0 + chance(seed) * bent + of(noise, x)
    });
}

#[test]
fn noise_that_grows_has_no_jumps() {
    quiet("growing noise", |_, noise, x| 20.0 + 0.5 * x + of(noise, x) * (1.0 + 2.0 * x / 70.0));
}

/// Noise of deviation 1 that correlates by so much from one point to the next, as far as point `x`.
fn correlated(noise: &[f64], by: f64, x: f64) -> f64 {
    let first = noise[0] / (1.0 - by * by).sqrt();
    let last = noise[1..x as usize].iter().fold(first, |before, own| by * before + own);
    (1.0 - by * by).sqrt() * last
}

#[test]
fn correlated_noise_has_no_jumps() {
    quiet("correlated noise", |_, noise, x| 20.0 + 0.5 * x + correlated(noise, 0.5, x));
}

#[test]
fn a_wave_has_no_jumps() {
    quiet("wave", |seed, noise, x| {
        let (cycle, height) = (7.0 + 60.0 * chance(seed), 20.0 * chance(7 * seed));
        20.0 + 0.5 * x + height * (std::f64::consts::TAU * (x / cycle + chance(3 * seed))).sin() + of(noise, x)
    });
}

#[test]
fn a_hump_has_no_jumps() {
    quiet("hump", |seed, noise, x| {
        let (top, width) = (10.0 + 50.0 * chance(seed), 4.0 + 8.0 * chance(3 * seed));
        20.0 + 25.0 * chance(7 * seed) * (-((x - top) / width).powi(2)).exp() + of(noise, x)
    });
}

/// One point of twenty is five to fifteen noise widths off, and two side by side are.
fn outliers(seed: u64) -> Vec<(usize, f64)> {
    let beside = 4 + (62.0 * chance(5 * seed + 1)) as usize;
    let off = |at: usize| {
        let draw = chance(seed * 71 + 13 * at as u64);
        let size = 5.0 + 10.0 * chance(seed * 31 + 17 * at as u64);
        let is_off = draw < 0.05 || at == beside || at == beside + 1;
        let sign = if chance(seed + at as u64 / 2 * 7) < 0.5 { 1.0 } else { -1.0 };
        is_off.then_some((at, sign * size))
    };
    (1..=N).filter_map(off).collect()
}

#[test]
fn points_off_the_line_are_no_jumps_two_side_by_side_neither() {
    quiet("outliers", |seed, noise, x| {
        let off = outliers(seed).into_iter().find(|(at, _)| *at == x as usize).map_or(0.0, |(_, off)| off);
        20.0 + 0.5 * x + off + of(noise, x)
    });
}

#[test]
fn points_off_the_line_are_told_and_hardly_any_of_a_line_without() {
    let (mut told, mut planted, mut alarms) = (0, 0, 0);
    for seed in 0..60 {
        let noise = noise(seed + 40_000, N);
        let outliers: Vec<_> = outliers(seed).into_iter().filter(|(_, off)| off.abs() > 8.0).collect();
        let off = |x: f64| outliers.iter().find(|(at, _)| *at == x as usize).map_or(0.0, |(_, off)| *off);
        let found = find_jumps(&sweep(|x| 20.0 + 0.5 * x + off(x) + of(&noise, x))).expect("a sweep").outliers;
        let near =
            |(at, off): &&(usize, f64)| found.iter().any(|o| o.at + 1 == *at && (o.off - off).abs() < 2.0 * o.half);
        told += outliers.iter().filter(near).count();
        planted += outliers.len();
        alarms += usize::from(!find_jumps(&sweep(|x| 20.0 + 0.5 * x + of(&noise, x))).unwrap().outliers.is_empty());
    }
    assert!(told * 100 >= planted * 90 && alarms <= 2, "{told} of {planted}, {alarms} of 60");
}

#[test]
fn jumps_of_three_noise_widths_at_the_multiples_of_sixteen_are_found() {
    let (mut found, mut named) = (0, 0);
    for seed in 0..60 {
        let noise = noise(seed + 5_000, N);
        let points = sweep(|x| 20.0 + 1.5 * x + 3.0 * ((x - 1.0) / 16.0).floor() + of(&noise, x));
        let places = places(&points);
        found += [16, 32, 48, 64].iter().filter(|at| places.contains(at)).count();
        named += usize::from(find_jumps(&points).is_some_and(|jumps| jumps.multiple == Some(16.0)));
    }
    assert!(found >= 228 && named >= 57, "{found} of 240, {named} of 60");
}

#[test]
fn a_single_jump_is_found_from_five_noise_widths_on() {
    let found = |height: f64| {
        let found = (0..60_u64).filter(|seed| {
            let (noise, at) = (noise(seed + 9_000, N), (9.0 + 52.0 * chance(*seed)).floor());
            let points = sweep(|x| 20.0 + 1.5 * x + if x > at { height } else { 0.0 } + of(&noise, x));
            places(&points).iter().any(|place| place.abs_diff(at as usize) <= 1)
        });
        found.count()
    };
    let [three, five] = [3.0, 5.0].map(found);
    assert!(three >= 24 && five >= 57, "{three}, {five}");
}

/// Of four jumps three to six points apart, up and down, in a sweep without any other.
#[test]
fn jumps_close_together_at_irregular_places_are_found() {
    const LEVELS: [[f64; 4]; 4] =
        [[1.0, 0.0, 1.0, 0.0], [-1.0, 0.0, 1.0, 2.0], [1.0, -1.0, 0.0, 1.0], [1.0, 2.0, 1.0, 0.0]];
    let found = |height: f64| {
        let (mut found, mut others) = (0, 0);
        for seed in 0..40_u64 {
            let noise = noise(seed + 20_000, N);
            let mut at = 8 + (20.0 * chance(seed)) as usize;
            let jumps = [0, 1, 2, 3].map(|k| {
                let before = at;
                at += 3 + (4.0 * chance(seed * 7 + k * 13)) as usize;
                before
            });
            let levels = LEVELS[seed as usize % 4];
            let level = |x: f64| jumps.iter().rposition(|at| x as usize > *at).map_or(0.0, |k| levels[k]);
            let places = places(&sweep(|x| 20.0 + 1.5 * x + height * level(x) + of(&noise, x)));
            found += jumps.iter().filter(|at| places.contains(at)).count();
            others += places.iter().filter(|at| !jumps.contains(at)).count();
        }
        (found, others)
    };
    let [eight, twelve] = [8.0, 12.0].map(found);
    assert!(eight.0 >= 128 && twelve.0 >= 152 && eight.1.max(twelve.1) <= 4, "{eight:?}, {twelve:?}");
}

#[test]
fn two_sweeps_that_are_nearly_the_same_jump_at_the_same_places() {
    let found = |step_times: &[[f64; N]; 2]| {
        step_times.map(|step_time| find_jumps(&sweep(|x| step_time[x as usize - 1])).expect("a sweep"))
    };
    let places = |found: &Jumps| found.jumps.iter().map(|jump| jump.at + 1).collect::<Vec<_>>();
    for of in found(&measured::VGG16) {
        assert_eq!(places(&of), [24, 29, 32, 65], "{of:?}");
    }
    for of in found(&measured::RESNET18) {
        assert_eq!((places(&of), of.multiple), (vec![32, 64], None), "{of:?}");
    }
    // What is rough about it is no noise, and looks a little like a staircase of 11: a chart shows jumps at 21, 32 and 64 at the most.
    for of in found(&measured::RESNET50) {
        assert!(places(&of).iter().all(|at| [21, 32, 64].contains(at)), "{of:?}");
    }
}

/// As many points as a sweep has that is to be over soon.
const FEW: usize = 24;

/// In sweeps of few points hardly a jump is found, no point is gone through that is not told of as an outlier, and the
/// fluctuation is the one that was put in.
#[test]
fn few_points_are_followed_by_no_curve() {
    type Level = fn(u64, f64) -> f64;
    let kinds: [(&str, Level, f64, f64); 5] = [
        ("a line", |_, x| 20.0 + 1.5 * x, 0.0, 0.0),
        ("flat, then rising", |seed, x| 20.0 + 4.0 * (x - 24.0 * chance(seed)).max(0.0), 0.0, 0.0),
        ("curved", |seed, x| 20.0 + chance(seed) * if seed % 2 == 0 { 0.4 * x * x } else { 34.0 * x.sqrt() }, 0.0, 0.0),
        ("growing noise", |_, x| 20.0 + 1.5 * x, 2.0, 0.0),
        ("correlated noise", |_, x| 20.0 + 1.5 * x, 0.0, 0.5),
    ];
    for (what, level, growth, by) in kinds {
        let (mut alarms, mut low) = (0, 0);
        for seed in 0..SWEEPS {
            let noise = noise(seed + 60_000, FEW);
            let off = |x: f64| correlated(&noise, by, x) * (1.0 + growth * x / FEW as f64);
            let points: Vec<(f64, f64)> = (1..=FEW).map(|x| x as f64).map(|x| (x, level(seed, x) + off(x))).collect();
            let found = find_jumps(&points).expect("a sweep");
            let squares: f64 = points.iter().map(|(x, _)| off(*x).powi(2)).sum();
            alarms += usize::from(!found.jumps.is_empty());
            low += usize::from(found.fluctuation < 0.5 * (squares / FEW as f64).sqrt());
            let through = |at: usize| (points[at].1 - found.curve[at]).abs() < 1e-9;
            let told = |at: usize| found.outliers.iter().any(|outlier| outlier.at == at);
            assert!(
                !found.jumps.is_empty() || (0..FEW).all(|at| !through(at) || told(at)),
                "{what}, {seed}: {found:?}"
            );
        }
        // A curve goes along with noise that is correlated.
        let lows = if by > 0.0 { 12 } else { 3 };
        assert!(alarms <= 3 && low <= lows, "{what}: {alarms} with a jump, {low} told to fluctuate by less than half");
    }
}

/// Milliseconds of a training step beside other programs, at batch sizes 1 to 24: neighbours differ by as much as they are.
const NOISY: [f64; FEW] = [
    23.28, 30.89, 22.36, 20.35, 19.82, 48.68, 24.71, 52.63, 46.15, 40.51, 30.68, 38.72, 49.13, 79.88, 80.59, 56.48,
    46.20, 44.89, 46.98, 51.12, 55.29, 56.39, 54.38, 57.68,
];

#[test]
fn what_scatters_widely_is_told_to() {
    let points: Vec<(f64, f64)> = (1..).map(f64::from).zip(NOISY).collect();
    let found = find_jumps(&points).expect("a sweep");
    assert!(found.fluctuation > 7.0, "{found:?}");
}

#[test]
fn a_jump_has_its_height_and_the_curve_its_fluctuation() {
    let noise = noise(7, N);
    let points = sweep(|x| 20.0 + 1.5 * x + if x > 32.0 { 12.0 } else { 0.0 } + 0.5 * of(&noise, x));
    let found = find_jumps(&points).expect("a sweep");
    let [jump] = found.jumps[..] else { panic!("{found:?}") };
    assert!(points[jump.at].0 == 32.0 && (jump.height - 12.0).abs() <= jump.half && jump.half < 1.5, "{jump:?}");
    assert!((0.4..0.6).contains(&found.fluctuation), "{found:?}");
    assert_eq!(found.multiple, None);
}

#[test]
fn few_points_bad_ones_and_rounded_ones_are_no_trouble() {
    assert_eq!(find_jumps(&sweep(|x| x)[..FEWEST - 1]), None);
    assert_eq!(find_jumps(&sweep(|x| if x == 3.0 { f64::NAN } else { x })), None);
    assert_eq!(find_jumps(&[(1.0, 1.0); 20]), None);
    assert_eq!(places(&sweep(|_| 5.0)), [] as [usize; 0]);
    assert_eq!(places(&sweep(|x| 3.0 * x)), [] as [usize; 0]);
    assert_eq!(
        places(&sweep(|x| (20.0 + 0.1 * x).round())),
        [] as [usize; 0],
        "steps of a number of few digits are none"
    );
}

/// Pages, bytes and files are counted without noise.
#[test]
fn steps_without_noise_are_found() {
    let counted = |y: fn(f64) -> f64| (1..=64).map(|x| (f64::from(x), y(f64::from(x)))).collect::<Vec<_>>();
    let of_16: [fn(f64) -> f64; 6] = [
        |x| 10.0 + 5.0 * ((x - 1.0) / 16.0).floor(),
        |x| 1.0 + ((x - 1.0) / 16.0).floor(),
        |x| 0.1 * ((x - 1.0) / 16.0).floor(),
        |x| 1e9 + 4096.0 * ((x - 1.0) / 16.0).floor(),
        |x| (10.0 + 5.0 * ((x - 1.0) / 16.0).floor()) / 1024.0,
        |x| 10.0 + 2.0 * x + 5.0 * ((x - 1.0) / 16.0).floor(),
    ];
    for (at, y) in of_16.into_iter().enumerate() {
        let found = find_jumps(&counted(y)).unwrap();
        assert_eq!((places(&counted(y)), found.multiple), (vec![16, 32, 48], Some(16.0)), "{at}: {found:?}");
    }
    assert_eq!(places(&counted(|x| 10.0 + 5.0 * ((x - 1.0) / 8.0).floor())), [8, 16, 24, 32, 40, 48, 56]);
    let [one, level, off]: [fn(f64) -> f64; 3] = [
        |x| if x > 20.0 { 15.0 } else { 10.0 },
        |x| if x > 20.0 && x <= 37.0 { 0.32 } else { 0.25 },
        |x| if x == 50.0 { 30.0 } else { 10.0 + 5.0 * (x / 20.5).floor().min(1.0) },
    ];
    assert_eq!([one, level, off].map(|y| places(&counted(y))), [vec![20], vec![20, 37], vec![20]]);
    let found = find_jumps(&counted(one)).unwrap();
    assert_eq!((found.fluctuation, found.jumps[0].half), (0.0, 0.0), "{found:?}");
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 12, ..ProptestConfig::default() })]

    #[test]
    fn units_change_nothing(seed: u64, factor in 1e-6_f64..1e6, shift in -10.0_f64..10.0) {
        let noise = noise(seed, N);
        let points = sweep(|x| 30.0 + x + of(&noise, x) + if x > 40.0 { 9.0 } else { 0.0 });
        let other: Vec<_> = points.iter().map(|(x, y)| (*x, factor * (y + shift))).collect();
        prop_assert_eq!(places(&points), places(&other));
    }
}
