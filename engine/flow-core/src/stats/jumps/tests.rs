//! Jumps that are planted are found, and where there are none hardly any.

use proptest::prelude::*;

use super::super::noise;
use super::*;

/// As many sweeps as the rate of false alarms is stated for.
const SWEEPS: u64 = 1_000;
const N: usize = 70;

fn sweep(y: impl Fn(f64) -> f64) -> Vec<(f64, f64)> {
    (1..=N).map(|x| (x as f64, y(x as f64))).collect()
}

fn places(points: &[(f64, f64)]) -> Vec<usize> {
    find_jumps(points).expect("a sweep").jumps.iter().map(|jump| points[jump.at].0 as usize).collect()
}

/// In at most ten of a thousand sweeps a jump is found.
fn quiet(what: &str, y: impl Fn(u64, &[f64], f64) -> f64) {
    let alarms = (0..SWEEPS).filter(|seed| {
        let noise = noise(*seed, N);
        !places(&sweep(|x| y(*seed, &noise, x))).is_empty()
    });
    let alarms = alarms.count();
    assert!(alarms <= 10, "{what}: {alarms}");
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
fn noise_that_grows_has_no_jumps() {
    quiet("growing noise", |_, noise, x| 20.0 + 0.5 * x + of(noise, x) * (1.0 + 2.0 * x / 70.0));
}

#[test]
fn correlated_noise_has_no_jumps() {
    quiet("correlated noise", |_, noise, x| {
        let steps = (0..x as usize).rev().zip(0..).map(|(i, k)| noise[i] * 0.5_f64.powi(k));
        20.0 + 0.5 * x + 0.75_f64.sqrt() * steps.sum::<f64>()
    });
}

#[test]
fn jumps_of_three_noise_widths_at_the_multiples_of_sixteen_are_found() {
    let (mut found, mut named) = (0, 0);
    for seed in 0..250 {
        let noise = noise(seed + 5_000, N);
        let points = sweep(|x| 20.0 + 1.5 * x + 3.0 * ((x - 1.0) / 16.0).floor() + of(&noise, x));
        let places = places(&points);
        found += [16, 32, 48, 64].iter().filter(|at| places.contains(at)).count();
        named += usize::from(find_jumps(&points).is_some_and(|jumps| jumps.multiple == Some(16.0)));
    }
    assert!(found >= 950 && named >= 237, "{found} of 1000, {named} of 250");
}

#[test]
fn a_single_jump_is_found_from_five_noise_widths_on() {
    let found = |height: f64| {
        let found = (0..200_u64).filter(|seed| {
            let (noise, at) = (noise(seed + 9_000, N), (9.0 + 52.0 * chance(*seed)).floor());
            let points = sweep(|x| 20.0 + 1.5 * x + if x > at { height } else { 0.0 } + of(&noise, x));
            places(&points).iter().any(|place| place.abs_diff(at as usize) <= 1)
        });
        found.count()
    };
    let [three, five] = [3.0, 5.0].map(found);
    assert!(three >= 80 && five >= 190, "{three}, {five}");
}

/// Of four jumps two to five points apart, up and down, in a sweep without any other.
#[test]
fn jumps_close_together_at_irregular_places_are_found() {
    const LEVELS: [[f64; 4]; 4] =
        [[1.0, 0.0, 1.0, 0.0], [-1.0, 0.0, 1.0, 2.0], [1.0, -1.0, 0.0, 1.0], [1.0, 2.0, 1.0, 0.0]];
    let found = |height: f64| {
        let (mut found, mut others) = (0, 0);
        for seed in 0..100_u64 {
            let noise = noise(seed + 20_000, N);
            let mut at = 8 + (20.0 * chance(seed)) as usize;
            let jumps = [0, 1, 2, 3].map(|k| {
                let before = at;
                at += 2 + (4.0 * chance(seed * 7 + k * 13)) as usize;
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
    assert!(eight.0 >= 320 && twelve.0 >= 380 && eight.1.max(twelve.1) <= 8, "{eight:?}, {twelve:?}");
}

/// VGG16, H200, PyTorch 2.11, fp32, 224x224: milliseconds of a training step at batch sizes 1 to 40.
const VGG16: [f64; 40] = [
    5.87, 12.49, 17.87, 17.83, 19.79, 22.37, 24.65, 24.68, 27.39, 29.84, 32.53, 33.59, 35.45, 37.21, 39.22, 41.46,
    43.72, 45.51, 47.71, 48.77, 50.51, 52.66, 54.55, 53.55, 63.56, 64.98, 68.82, 70.17, 71.96, 63.86, 65.00, 58.92,
    72.17, 73.40, 75.78, 77.09, 80.61, 81.97, 83.22, 83.42,
];

#[test]
fn a_measured_sweep_jumps_where_its_chart_shows_it() {
    let points: Vec<(f64, f64)> = (1..).map(f64::from).zip(VGG16).collect();
    assert_eq!(places(&points), [24, 29], "up and down again; the fast batch of 32 is a point of its own");
    assert_eq!(places(&points[4..]), [24, 29], "nor is it the steep beginning that shows them");
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
fn an_outlier_is_no_jump() {
    let jumps = (0..100).filter(|seed| {
        let (noise, at) = (noise(*seed, N), 4 + (7 * *seed as usize) % 62);
        let points = sweep(|x| 30.0 + x + of(&noise, x) + if x as usize == at { 40.0 } else { 0.0 });
        places(&points).iter().any(|place| place.abs_diff(at) <= 3)
    });
    assert!(jumps.count() <= 2);
}

#[test]
fn few_points_bad_ones_and_rounded_ones_are_no_trouble() {
    assert_eq!(find_jumps(&sweep(|x| x)[..11]), None);
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

proptest! {
    #![proptest_config(ProptestConfig { cases: 32, ..ProptestConfig::default() })]

    #[test]
    fn units_change_nothing(seed: u64, factor in 1e-6_f64..1e6, shift in -10.0_f64..10.0) {
        let noise = noise(seed, N);
        let points = sweep(|x| 30.0 + x + of(&noise, x) + if x > 40.0 { 9.0 } else { 0.0 });
        let other: Vec<_> = points.iter().map(|(x, y)| (*x, factor * (y + shift))).collect();
        prop_assert_eq!(places(&points), places(&other));
    }
}
