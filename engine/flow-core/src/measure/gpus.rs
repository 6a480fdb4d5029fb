//! Samples of an attempt on its GPUs, with their times, and the figures that they give.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::windows::{Window, mean_over_or_whole, push_merging, round};
use crate::{ForeignProcess, GpuUsage};

/// If a list grows to this, pairs of neighbours are merged.
const MOST: usize = 4096;
/// A GPU counts as full above this load.
const FULL: f64 = 0.9;
/// Seconds without a sample after which a GPU's figures have a gap.
const HOLE: f64 = 5.0;

/// One sample of one GPU for one attempt.
#[derive(Clone, Debug, Default)]
pub struct GpuLook {
    /// Time, seconds since 1970.
    pub at: f64,
    /// Memory of the attempt, bytes.
    pub memory: u64,
    /// The driver reports no memory per process, so this is the GPU's memory use minus that before the start.
    pub unverified: bool,
    /// Share of time in which a kernel ran, 0 to 1.
    pub load: Option<f64>,
    /// Load of the memory controller, 0 to 1.
    pub memory_load: Option<f64>,
    pub watts: Option<f64>,
    /// The GPU's energy counter.
    pub joules: Option<f64>,
    /// PCIe generation and width.
    pub pcie: Option<(u32, u32)>,
    /// Share of the multiprocessors that foreign processes used since the last sample that had this figure.
    pub shared: Option<f64>,
    /// Foreign compute processes on the GPU.
    pub foreign: Vec<ForeignProcess>,
}

/// A sample, without the fields that are only summed.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(into = "SampleTuple")]
struct Sample {
    at: f64,
    span: f64,
    memory: f64,
    load: Option<f64>,
    memory_load: Option<f64>,
    load_full: Option<f64>,
    memory_load_full: Option<f64>,
    shared: Option<f64>,
    watts: Option<f64>,
}

/// Serialized form: the fields in order, because there are thousands.
type SampleTuple = (f64, f64, f64, Option<f64>, Option<f64>, Option<f64>, Option<f64>, Option<f64>, Option<f64>);

impl From<Sample> for SampleTuple {
    fn from(sample: Sample) -> SampleTuple {
        let Sample { at, span, memory, load, memory_load, load_full, memory_load_full, shared, watts } = sample;
        (at, span, memory, load, memory_load, load_full, memory_load_full, shared, watts)
    }
}

/// All samples of one GPU.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
struct GpuRecord {
    uuid: String,
    last: f64,
    samples: Vec<Sample>,
    memory_now: u64,
    memory_peak: u64,
    load_peak: Option<f64>,
    memory_load_peak: Option<f64>,
    unverified: bool,
    joules: Option<(f64, f64)>,
    /// Power integrated since the energy counter was last read, or ever.
    integrated: Option<f64>,
    pcie: Option<(u32, u32)>,
    foreign: BTreeMap<u32, ForeignProcess>,
    looks: u32,
    /// The longest time without a sample, seconds.
    longest: f64,
}

/// All samples of an attempt on its GPUs.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct GpuSamples {
    gpus: Vec<GpuRecord>,
}

/// GPU figures of a result.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct GpuFigures {
    /// One entry for each GPU of the placement; none for an attempt that ended before the first sample.
    pub gpus: Vec<GpuUsage>,
    /// Their energy, joules.
    pub energy_j: Option<f64>,
    /// Mean share that foreign processes used, of the GPU with most.
    pub shared: Option<f64>,
    /// Foreign compute processes on them.
    pub foreign: Vec<ForeignProcess>,
}

impl GpuSamples {
    /// For an attempt that begins now on these GPUs.
    pub fn since(at: f64, uuids: impl IntoIterator<Item = String>) -> GpuSamples {
        let gpu = |uuid| GpuRecord { uuid, last: at, ..GpuRecord::default() };
        GpuSamples { gpus: uuids.into_iter().map(gpu).collect() }
    }

    /// Whether there is no sample.
    pub fn is_empty(&self) -> bool {
        self.gpus.iter().all(|gpu| gpu.samples.is_empty())
    }

    /// UUIDs of GPUs that did not respond for a while, and the longest gap in seconds.
    pub fn holes(&self) -> Vec<(String, f64)> {
        self.gpus.iter().filter(|gpu| gpu.longest > HOLE).map(|gpu| (gpu.uuid.clone(), gpu.longest)).collect()
    }

    /// Adds a sample of the attempt's `gpu`th GPU.
    pub fn push(&mut self, gpu: usize, seen: GpuLook) {
        let Some(gpu) = self.gpus.get_mut(gpu) else { return };
        let span = seen.at - gpu.last;
        if span <= 0.0 {
            return;
        }
        gpu.last = seen.at;
        gpu.longest = gpu.longest.max(span);
        gpu.looks += 1;
        gpu.memory_now = seen.memory;
        gpu.memory_peak = gpu.memory_peak.max(seen.memory);
        gpu.unverified |= seen.unverified;
        match (seen.joules, seen.watts) {
            (Some(joules), _) => {
                gpu.joules = Some((gpu.joules.map_or(joules, |(first, _)| first), joules));
                gpu.integrated = None;
            }
            (None, Some(watts)) => gpu.integrated = Some(gpu.integrated.unwrap_or(0.0) + watts * span),
            (None, None) => {}
        }
        gpu.pcie = gpu.pcie.max(seen.pcie);
        for process in seen.foreign {
            let known = gpu.foreign.entry(process.pid).or_insert_with(|| process.clone());
            known.memory = known.memory.max(process.memory);
        }
        let GpuLook { load, memory_load, .. } = seen;
        gpu.load_peak = highest(gpu.load_peak, load);
        gpu.memory_load_peak = highest(gpu.memory_load_peak, memory_load);
        let full = |load: f64| f64::from(load > FULL);
        let sample = Sample {
            at: seen.at,
            span,
            memory: seen.memory as f64,
            load,
            memory_load,
            load_full: load.map(full),
            memory_load_full: memory_load.map(full),
            shared: seen.shared,
            watts: seen.watts,
        };
        push_merging(&mut gpu.samples, sample, MOST, merge);
    }

    /// The attempt is over.
    pub fn close(&mut self, at: f64) {
        self.gpus.iter_mut().for_each(|gpu| gpu.longest = gpu.longest.max(at - gpu.last));
    }

    /// Memory on each GPU of the placement at the last look, bytes.
    pub fn memory_now(&self) -> Vec<u64> {
        self.gpus.iter().map(|gpu| gpu.memory_now).collect()
    }

    /// Whether the driver lacked memory per process.
    pub fn unverified(&self) -> bool {
        self.gpus.iter().any(|gpu| gpu.unverified)
    }

    /// The figures. Means cover the windows, or the whole attempt if there are none; all else always covers the whole.
    pub fn figures(&self, windows: &[Window]) -> GpuFigures {
        let seen = self.gpus.iter().filter(|gpu| gpu.looks > 0);
        let gpus: Vec<GpuUsage> = seen.map(|gpu| gpu.usage(windows)).collect();
        let energies: Vec<f64> = self.gpus.iter().filter_map(GpuRecord::energy).collect();
        let shared = self.gpus.iter().filter_map(|gpu| gpu.mean(windows, |s| s.shared)).reduce(f64::max);
        GpuFigures {
            energy_j: (!gpus.is_empty() && energies.len() == self.gpus.len()).then(|| energies.iter().sum()),
            gpus,
            shared,
            foreign: self.gpus.iter().flat_map(|gpu| gpu.foreign.values().cloned()).collect(),
        }
    }

    /// Series by name, times in seconds since `origin`: `gpu0_load`, `gpu0_memory`, `gpu0_memory_load`, …, by placement
    /// index.
    pub fn series(&self, origin: f64) -> BTreeMap<String, Vec<(f64, f64)>> {
        let mut series = BTreeMap::new();
        for (n, gpu) in self.gpus.iter().enumerate().filter(|(_, gpu)| !gpu.samples.is_empty()) {
            let mut column = |name: &str, value: fn(&Sample) -> Option<f64>| {
                let points =
                    gpu.samples.iter().filter_map(|s| Some((round(s.at - origin, 1e3), round(value(s)?, 1e4))));
                series.insert(format!("gpu{n}_{name}"), points.collect());
            };
            column("load", |s| s.load);
            column("memory", |s| Some(s.memory));
            column("memory_load", |s| s.memory_load);
        }
        series
    }
}

impl GpuRecord {
    fn usage(&self, windows: &[Window]) -> GpuUsage {
        let mean = |value: fn(&Sample) -> Option<f64>| self.mean(windows, value);
        GpuUsage {
            uuid: self.uuid.clone(),
            memory_peak: Some(self.memory_peak),
            memory_mean: mean(|s| Some(s.memory)).map(|bytes| bytes.round() as u64),
            unverified: self.unverified,
            load_mean: mean(|s| s.load),
            load_whole: self.mean(&[], |s| s.load),
            load_peak: self.load_peak,
            load_above_90: mean(|s| s.load_full),
            memory_load_mean: mean(|s| s.memory_load),
            memory_load_peak: self.memory_load_peak,
            memory_load_above_90: mean(|s| s.memory_load_full),
            power_mean: mean(|s| s.watts),
            pcie: self.pcie,
        }
    }

    /// The difference of the counter if it has moved, else the integrated power.
    fn energy(&self) -> Option<f64> {
        let counted = self.joules.map(|(first, last)| last - first).filter(|joules| *joules > 0.0);
        match (counted, self.integrated) {
            (Some(counted), since) => Some(counted + since.unwrap_or(0.0)),
            (None, integrated) => integrated,
        }
    }

    fn mean(&self, windows: &[Window], value: impl Fn(&Sample) -> Option<f64>) -> Option<f64> {
        mean_over_or_whole(windows, self.samples.iter().filter_map(|s| Some((s.at, s.span, value(s)?))))
    }
}

fn highest(a: Option<f64>, b: Option<f64>) -> Option<f64> {
    a.into_iter().chain(b).reduce(f64::max)
}

fn merge(a: &Sample, b: &Sample) -> Sample {
    let span = a.span + b.span;
    let mean = |x: f64, y: f64| (x * a.span + y * b.span) / span;
    // If only one of the two values is known, take it.
    let both = |x: Option<f64>, y: Option<f64>| x.zip(y).map(|(x, y)| mean(x, y)).or(x).or(y);
    Sample {
        at: b.at,
        span,
        memory: mean(a.memory, b.memory),
        load: both(a.load, b.load),
        memory_load: both(a.memory_load, b.memory_load),
        load_full: both(a.load_full, b.load_full),
        memory_load_full: both(a.memory_load_full, b.memory_load_full),
        shared: both(a.shared, b.shared),
        watts: both(a.watts, b.watts),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Ten samples a second for ten seconds: half busy in the first half, busy in the second, with 2 GB.
    fn ten_seconds() -> GpuSamples {
        let mut samples = GpuSamples::since(100.0, ["GPU-a".to_owned()]);
        for n in 1..=100 {
            let late = n > 50;
            samples.push(
                0,
                GpuLook {
                    at: 100.0 + f64::from(n) / 10.0,
                    memory: if late { 2_000 } else { 1_000 },
                    load: Some(if late { 1.0 } else { 0.5 }),
                    memory_load: Some(0.25),
                    watts: Some(100.0),
                    pcie: Some(if late { (5, 16) } else { (1, 16) }),
                    ..GpuLook::default()
                },
            );
        }
        samples
    }

    #[test]
    fn means_cover_the_windows_and_peaks_the_whole() {
        let samples = ten_seconds();
        let of = |windows: &[Window]| samples.figures(windows).gpus.remove(0);
        let close = |a: Option<f64>, b: f64| (a.unwrap() - b).abs() < 1e-6;
        assert!(close(of(&[]).load_mean, 0.75) && close(of(&[]).load_above_90, 0.5), "{:?}", of(&[]));
        assert!(close(of(&[(101.0, 103.0)]).load_whole, 0.75));
        assert!(close(of(&[(101.0, 103.0)]).load_mean, 0.5) && close(of(&[(106.0, 110.0)]).load_above_90, 1.0));
        assert!(close(of(&[(101.0, 103.0)]).power_mean, 100.0));
        assert_eq!((of(&[(101.0, 103.0)]).memory_mean, of(&[(101.0, 103.0)]).memory_peak), (Some(1_000), Some(2_000)));
        assert_eq!((of(&[]).load_peak, of(&[]).memory_load_peak, of(&[]).pcie), (Some(1.0), Some(0.25), Some((5, 16))));
        assert!(close(samples.figures(&[]).energy_j, 1_000.0), "power over time");
        assert_eq!(samples.memory_now(), [2_000]);
        assert_eq!(samples.series(100.0)["gpu0_memory"].last(), Some(&(10.0, 2_000.0)));
    }

    #[test]
    fn the_energy_counter_is_believed_before_power() {
        let mut samples = ten_seconds();
        for (at, joules) in [(110.5, 7_000.0), (111.0, 7_500.0)] {
            samples.push(0, GpuLook { at, joules: Some(joules), ..GpuLook::default() });
        }
        assert_eq!(samples.figures(&[]).energy_j, Some(500.0));
        // Power fills the time since the counter was last read.
        samples.push(0, GpuLook { at: 111.5, watts: Some(200.0), ..GpuLook::default() });
        assert_eq!(samples.figures(&[]).energy_j, Some(600.0));
    }

    #[test]
    fn a_gpu_that_did_not_answer_is_reported() {
        let holes = GpuSamples::holes;
        let mut samples = ten_seconds();
        samples.close(112.0);
        assert_eq!(holes(&samples), []);
        samples.push(0, GpuLook { at: 116.0, ..GpuLook::default() });
        assert_eq!(holes(&samples), [("GPU-a".to_owned(), 6.0)]);
        samples.close(124.0);
        assert_eq!(holes(&samples), [("GPU-a".to_owned(), 8.0)]);
    }

    #[test]
    fn nothing_seen_is_nothing_said() {
        let samples = GpuSamples::since(0.0, ["GPU-a".to_owned()]);
        assert_eq!(samples.figures(&[]), GpuFigures::default());
        assert!(samples.series(0.0).is_empty());
    }

    #[test]
    fn a_long_attempt_is_thinned_out_without_changing_its_means() {
        let mut samples = GpuSamples::since(0.0, ["GPU-a".to_owned()]);
        for n in 1..=50_000u32 {
            let load = if n.is_multiple_of(2) { 1.0 } else { 0.0 };
            samples.push(0, GpuLook { at: f64::from(n) / 10.0, load: Some(load), ..GpuLook::default() });
        }
        let usage = samples.figures(&[(0.0, 5_000.0)]).gpus.remove(0);
        let close = |share: Option<f64>| (share.unwrap() - 0.5).abs() < 1e-9;
        assert!(close(usage.load_mean) && close(usage.load_above_90), "{usage:?}");
        assert!(samples.gpus[0].samples.len() < MOST);
    }

    #[test]
    fn what_the_driver_does_not_tell_is_not_known() {
        let mut samples = GpuSamples::since(100.0, ["GPU-a".to_owned()]);
        for n in 1..=10 {
            samples.push(0, GpuLook { at: 100.0 + f64::from(n), memory: 5, joules: Some(70.0), ..GpuLook::default() });
        }
        let figures = samples.figures(&[]);
        assert_eq!(figures.energy_j, None, "the counter has not moved");
        let told = GpuUsage { uuid: "GPU-a".into(), memory_peak: Some(5), memory_mean: Some(5), ..GpuUsage::default() };
        assert_eq!(figures.gpus, std::slice::from_ref(&told), "no load, no power");
        assert_eq!(samples.series(100.0)["gpu0_load"], []);
        // There is no sample in this window, and the overall mean is another number.
        assert_eq!(samples.figures(&[(50.0, 60.0)]).gpus, [GpuUsage { memory_mean: None, ..told }]);
        let kept: GpuSamples = serde_json::from_str(&serde_json::to_string(&samples).unwrap()).unwrap();
        assert_eq!(kept, samples);
    }
}
