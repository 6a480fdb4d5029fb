//! Predicts how fast work runs next to other work: CPUs are shared max-min fairly, GPUs with interference. Pure
//! arithmetic for admission, simulation and reports. It knows no task and no policy. The only co-run measurement that it
//! uses is one coefficient per device.
//!
//! CPU: each load asks for the cores that it keeps busy alone. Small requests are met in full, the others share the rest
//! equally (water-filling); the speed is cores granted / cores requested. CPU work per epoch depends on the dataset and
//! its transform. So the best demand is this work, pooled over all runs of a dataset, divided by the epoch time. GPU:
//! while the busy shares on a GPU add up to 1 or less, nobody slows down. Beyond that everyone there slows down by 1 +
//! a·(Σ − 1); a is learned per device and starts at 1. A load that one resource slows down asks for less of the other;
//! both steps are repeated until nothing moves.

/// The coefficient of an unknown device: never optimistic.
pub const UNKNOWN_DEVICE: f64 = 1.0;

/// Weight of one measurement in the coefficient of a device.
const MOVES: f64 = 0.2;
/// A coefficient counts as known once the initial assumption weighs less than this.
const KNOWN: f64 = 0.1;

/// Maximum rounds of the fixed-point iteration.
const ROUNDS: usize = 32;
/// A speed that changes by less has converged.
const SETTLED: f64 = 1e-6;

/// Demand of one piece of work when it runs alone.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Load {
    /// Cores that it keeps busy.
    pub cores: f64,
    /// Share of time in which it keeps each of its GPUs busy, 0 to 1.
    pub gpu_busy: f64,
    /// Its GPUs, by index.
    pub gpus: Vec<usize>,
}

#[derive(Clone, Debug, Default, PartialEq)]
pub struct Host {
    pub cores: f64,
    /// Interference coefficient by GPU; [`UNKNOWN_DEVICE`] beyond the end of the list.
    pub devices: Vec<f64>,
}

/// The speed of each load next to all others, as a share of its speed alone: predicted time = time alone / speed.
pub fn speeds(loads: &[Load], host: &Host) -> Vec<f64> {
    speeds_where(loads, &[], host)
}

/// The same, with measured slowdowns on the GPU for some loads, by index in `loads`.
pub fn speeds_where(loads: &[Load], measured: &[Option<f64>], host: &Host) -> Vec<f64> {
    let demands: Vec<f64> = loads.iter().map(|load| load.cores).collect();
    // A load that waits for the CPU keeps the GPU less busy. At first none waits, and interference is strongest.
    let mut by_cpu = vec![1.0; loads.len()];
    let mut speeds = by_cpu.clone();
    for _ in 0..ROUNDS {
        let seen = |i: usize| measured.get(i).copied().flatten().map(|slowdown: f64| slowdown.max(1.0));
        let on_gpu = |i: usize| seen(i).unwrap_or_else(|| slowdown(&loads[i], loads, &by_cpu, host));
        let by_gpu: Vec<f64> = (0..loads.len()).map(|i| 1.0 / on_gpu(i)).collect();
        let asked: Vec<f64> = demands.iter().zip(&by_gpu).map(|(cores, speed)| cores * speed).collect();
        let got = water_fill(&asked, host.cores);
        let next: Vec<f64> =
            (0..loads.len()).map(|i| if got[i] < asked[i] - SETTLED { got[i] / demands[i] } else { 1.0 }).collect();
        speeds = by_gpu.iter().zip(&next).map(|(gpu, cpu)| gpu.min(*cpu)).collect();
        let moved = next.iter().zip(&by_cpu).map(|(a, b)| f64::abs(a - b)).fold(0.0, f64::max);
        if moved < SETTLED {
            break;
        }
        // Move half way, so that two loads that yield to each other do not oscillate forever.
        by_cpu = next.iter().zip(&by_cpu).map(|(a, b)| (a + b) / 2.0).collect();
    }
    speeds
}

/// Slowdown of a load on the fullest of its GPUs if everyone runs at the speed that the CPU allows. Alone is 1.
fn slowdown(load: &Load, all: &[Load], by_cpu: &[f64], host: &Host) -> f64 {
    let on = |gpu: usize| {
        let others = all.iter().zip(by_cpu).filter(|(other, _)| other.gpus.contains(&gpu));
        let busy: f64 = others.map(|(other, speed)| other.gpu_busy * speed).sum();
        host.devices.get(gpu).copied().unwrap_or(UNKNOWN_DEVICE) * (busy - 1.0).max(0.0)
    };
    1.0 + load.gpus.iter().map(|&gpu| on(gpu)).fold(0.0, f64::max)
}

/// Shares a capacity max-min fairly: no load gets more than its demand, or less than another unless its demand is met.
pub(crate) fn water_fill(demands: &[f64], capacity: f64) -> Vec<f64> {
    let mut order: Vec<usize> = (0..demands.len()).collect();
    order.sort_by(|&a, &b| demands[a].total_cmp(&demands[b]));
    let (mut left, mut got) = (capacity.max(0.0), vec![0.0; demands.len()]);
    for (served, &i) in order.iter().enumerate() {
        got[i] = demands[i].min(left / (demands.len() - served) as f64);
        left -= got[i];
    }
    got
}

/// The coefficient that follows from the busy shares on one GPU and the slowdown there. `None` if the GPU was not full.
pub fn coefficient(busy: f64, slowdown: f64) -> Option<f64> {
    (busy > 1.1).then(|| ((slowdown - 1.0) / (busy - 1.0)).max(0.0))
}

/// The coefficient of a device after these measurements, oldest first. Each moves it by a fifth.
pub fn learned(seen: impl IntoIterator<Item = f64>) -> f64 {
    seen.into_iter().fold(UNKNOWN_DEVICE, |known, seen| (1.0 - MOVES) * known + MOVES * seen)
}

/// An optimistic coefficient while the initial assumption still has weight: the weighted mean of the measurements alone,
/// and no interference before the first one. `None` once the coefficient is well known.
pub(crate) fn hoped(learned: f64, measurements: u32) -> Option<f64> {
    let assumed = (1.0 - MOVES).powi(measurements.min(1_000) as i32);
    let alone = || if measurements == 0 { 0.0 } else { (learned - assumed * UNKNOWN_DEVICE) / (1.0 - assumed) };
    (assumed >= KNOWN).then(|| alone().max(0.0))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Three training runs on separate GPUs, from each run alone: seconds per epoch, and CPU as a share of the host.
    fn triple(alone: [(f64, f64); 3], work: f64) -> [f64; 3] {
        let host = Host { cores: 1.0, devices: Vec::new() };
        let load = |(i, (time, _)): (usize, &(f64, f64))| Load { cores: work / time, gpu_busy: 0.8, gpus: vec![i] };
        let loads: Vec<Load> = alone.iter().enumerate().map(load).collect();
        let speeds = speeds(&loads, &host);
        std::array::from_fn(|i| alone[i].0 / speeds[i])
    }

    fn pooled(alone: &[(f64, f64)]) -> f64 {
        alone.iter().map(|(time, cpu)| time * cpu).sum::<f64>() / alone.len() as f64
    }

    #[test]
    fn the_published_triple_is_predicted_from_what_each_did_alone() {
        let v7 = [(18.1, 0.58), (16.2, 0.59), (15.4, 0.61), (11.3, 0.766)];
        for predicted in triple([v7[1], v7[2], v7[3]], pooled(&v7)) {
            assert!((predicted / 28.5 - 1.0).abs() < 0.05, "{predicted} s, measured 28.5 s");
        }
        let v11 = [(16.5, 0.195), (14.4, 0.205), (13.6, 0.205), (8.7, 0.25)];
        assert_eq!(triple([v11[1], v11[2], v11[3]], pooled(&v11)), [14.4, 13.6, 8.7]);
    }

    #[test]
    fn a_full_gpu_slows_everyone_on_it_down() {
        let load = |gpu_busy, gpu| Load { cores: 1.0, gpu_busy, gpus: vec![gpu] };
        let host = Host { cores: 8.0, devices: vec![1.0, 0.5] };
        let close = |loads: &[Load], expected: &[f64]| {
            let speeds = speeds(loads, &host);
            assert!(speeds.iter().zip(expected).all(|(a, b)| (a - b).abs() < 1e-5), "{speeds:?}");
        };
        close(&[load(0.8, 0), load(0.8, 0), load(0.8, 1)], &[0.625, 0.625, 1.0]);
        close(&[load(0.8, 1), load(0.8, 1)], &[1.0 / 1.3, 1.0 / 1.3]);
        close(&[load(0.4, 0), load(0.6, 0)], &[1.0, 1.0]);
        assert_eq!((coefficient(1.6, 1.3).map(|a| (a * 100.0).round()), coefficient(1.05, 2.0)), (Some(50.0), None));
        assert!((learned([0.5; 40]) - 0.5).abs() < 1e-3 && learned([]) == UNKNOWN_DEVICE);
    }

    #[test]
    fn what_was_measured_counts_instead_of_the_price() {
        let full = |cores| Load { cores, gpu_busy: 0.9, gpus: vec![0] };
        let host = Host { cores: 4.0, devices: Vec::new() };
        let speeds = |cores, measured: &[Option<f64>]| speeds_where(&[full(cores), full(cores)], measured, &host);
        assert_eq!(speeds(1.0, &[Some(1.25), None])[0], 0.8);
        assert!((speeds(1.0, &[Some(1.25), None])[1] - 1.0 / 1.8).abs() < 1e-6);
        assert_eq!(speeds(1.0, &[Some(0.9), Some(0.9)]), [1.0, 1.0], "nobody is faster than alone");
        // The CPUs no longer suffice, unlike when it was measured.
        assert!((speeds(4.0, &[Some(1.25), Some(1.25)])[0] - 0.5).abs() < 1e-3);
    }

    #[test]
    fn a_price_is_hoped_for_until_it_is_known() {
        let hoped = |seen: &[f64]| hoped(learned(seen.iter().copied()), seen.len() as u32);
        assert_eq!(hoped(&[]), Some(0.0));
        for n in 1..=10 {
            let alone = hoped(&vec![0.3; n]).unwrap();
            assert!((alone - 0.3).abs() < 1e-9, "{alone} after {n}");
        }
        assert_eq!((hoped(&[0.3; 11]), hoped(&[0.3; 500])), (None, None));
        // Later ones weigh more, as in `learned`.
        assert!(hoped(&[1.4, 0.2]).unwrap() < 0.8);
    }

    #[test]
    fn who_is_slowed_by_one_leaves_the_other() {
        // Without enough CPU, neither fills half of the GPU.
        let starved = Load { cores: 8.0, gpu_busy: 0.8, gpus: vec![0] };
        let host = Host { cores: 8.0, devices: Vec::new() };
        assert_eq!(speeds(&[starved.clone(), starved], &host), [0.5, 0.5]);
        // Waiting for the GPU, both ask for 2.5 cores instead of 4 and leave 3 to the third.
        let full = Load { cores: 4.0, gpu_busy: 0.8, gpus: vec![0] };
        let third = Load { cores: 3.0, gpu_busy: 0.8, gpus: vec![1] };
        let speeds = speeds(&[full.clone(), full, third], &host);
        assert!((speeds[0] - 0.625).abs() < 1e-3 && (speeds[2] - 1.0).abs() < 1e-3, "{speeds:?}");
    }

    proptest! {
        #[test]
        fn nobody_is_faster_than_alone_and_no_core_is_given_twice(
            loads in prop::collection::vec((0.0..16.0, 0.0..1.0, prop::collection::vec(0..4usize, 0..3)), 0..8),
            cores in 0.5..32.0,
        ) {
            let loads: Vec<Load> =
                loads.into_iter().map(|(cores, gpu_busy, gpus)| Load { cores, gpu_busy, gpus }).collect();
            let speeds = speeds(&loads, &Host { cores, devices: vec![0.6; 4] });
            prop_assert!(speeds.iter().all(|speed| (0.0..=1.0 + 1e-9).contains(speed)));
            let used: f64 = loads.iter().zip(&speeds).map(|(load, speed)| load.cores * speed).sum();
            prop_assert!(used <= cores * 1.01, "{} of {} cores", used, cores);
        }
    }
}
