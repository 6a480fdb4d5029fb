//! Samples of an attempt on its host, with their times, and the figures that they give.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use super::windows::{Window, mean_over, mean_over_or_whole, push_merging, round};
use crate::Usage;

/// If a list grows to this, pairs of neighbours are merged.
const MOST: usize = 8192;

/// No more programs than these are kept.
const PROGRAMS: usize = 32;

/// The host's CPUs count as saturated from this share on.
const SATURATED: f64 = 0.95;
/// Seconds of an attempt below which a sample of its memory may miss the peak: there is one sample, or none.
const BRIEF: f64 = 1.0;

/// CPU use of an attempt since the previous sample, and its present memory.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct HostUsage {
    /// CPU seconds.
    pub cpu_s: f64,
    /// Sum of the resident sets, bytes.
    pub rss: u64,
}

/// Measurements over one interval.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(into = "SampleTuple")]
struct Sample {
    /// Its end, seconds since 1970.
    at: f64,
    /// Its length in seconds.
    span: f64,
    /// CPU seconds that the attempt used in it.
    cpu_s: f64,
    /// Share of the host's CPUs that were busy, if known.
    host_busy: Option<f64>,
    /// The share used by foreign processes.
    foreign: Option<f64>,
    /// Sum of the resident sets at its end, bytes.
    rss: u64,
}

/// Serialized form: the fields in order, because there are thousands.
type SampleTuple = (f64, f64, f64, Option<f64>, Option<f64>, u64);

impl From<Sample> for SampleTuple {
    fn from(Sample { at, span, cpu_s, host_busy, foreign, rss }: Sample) -> SampleTuple {
        (at, span, cpu_s, host_busy, foreign, rss)
    }
}

/// All samples of an attempt on its host.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct HostSamples {
    since: f64,
    samples: Vec<Sample>,
    count: u32,
    /// `None` if all intervals were too short to measure.
    cores_peak: Option<f64>,
    rss_peak: Option<u64>,
    /// Interpreters that the attempt was seen to run, by their real paths.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    programs: BTreeSet<String>,
}

/// The host's part of the circumstances.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct HostLoad {
    /// Mean CPU use of foreign processes, as a share of the host.
    pub foreign_cpu: Option<f64>,
    /// Share of time in which the host's CPUs were at least 95% busy.
    pub cpu_saturated: Option<f64>,
}

impl HostSamples {
    /// For an attempt that begins now.
    pub fn since(at: f64) -> HostSamples {
        HostSamples { since: at, ..HostSamples::default() }
    }

    /// Whether there is no sample.
    pub fn is_empty(&self) -> bool {
        self.samples.is_empty()
    }

    /// Interpreters that the attempt was seen to run, by their real paths.
    pub fn programs(&self) -> &BTreeSet<String> {
        &self.programs
    }

    /// Adds programs that run now.
    pub fn saw(&mut self, programs: &BTreeSet<String>) {
        let room = PROGRAMS.saturating_sub(self.programs.len());
        let new: Vec<&String> = programs.difference(&self.programs).take(room).collect();
        self.programs.extend(new.into_iter().cloned().collect::<Vec<_>>());
    }

    /// Adds a sample of the host, `since_last` seconds after the one before. `host`: the busy share of the host's CPUs,
    /// and the share used by foreign processes.
    pub fn push(&mut self, at: f64, since_last: Option<f64>, used: &HostUsage, host: Option<(f64, f64)>) {
        let span = (at - self.since).min(since_last.unwrap_or(f64::INFINITY));
        // An ended process that was not reaped yet holds no memory.
        self.rss_peak = self.rss_peak.max(Some(used.rss).filter(|rss| *rss > 0));
        if span <= 0.0 {
            return;
        }
        self.count += 1;
        self.add(Sample {
            at,
            span,
            cpu_s: used.cpu_s,
            host_busy: host.map(|(busy, _)| busy),
            foreign: host.map(|(_, foreign)| foreign),
            rss: used.rss,
        });
    }

    fn add(&mut self, sample: Sample) {
        // The system counts in hundredths of a second, so a share of a very short interval is meaningless.
        if sample.span >= 0.1 {
            self.cores_peak = Some(self.cores_peak.unwrap_or(0.0).max(sample.cpu_s / sample.span));
        }
        push_merging(&mut self.samples, sample, MOST, merge);
    }

    /// The attempt's usage, added to its totals at exit. Means cover the windows, or the whole attempt if there are
    /// none; peaks always cover the whole. Without samples in the windows, their means are unknown.
    pub fn usage(&self, whole: Usage, windows: &[Window], host_cpus: u32) -> Usage {
        let cpu_cores = match windows {
            [] => whole.cores_of_whole(),
            windows => mean_over(windows, self.values(|s| Some(s.cpu_s / s.span))),
        };
        let share = |cores: f64| cores / f64::from(host_cpus.max(1));
        // The exit has the peak of every process that needed more memory than flow itself.
        let is_brief = whole.wall_s.is_some_and(|wall| wall < BRIEF);
        Usage {
            cpu_util: cpu_cores.map(share),
            cpu_util_peak: self.cores_peak.map(|peak| share(peak.max(cpu_cores.unwrap_or(0.0)))),
            cpu_cores,
            rss_peak: self.rss_peak.filter(|_| !is_brief).max(whole.rss_peak),
            samples: self.count,
            sampler_cpu: whole.sampler_cpu.filter(|_| self.count > 0),
            ..whole
        }
    }

    /// Load of the host in the windows, or during the whole attempt.
    pub fn load(&self, windows: &[Window]) -> HostLoad {
        let saturated = |s: &Sample| s.host_busy.map(|busy| f64::from(busy >= SATURATED));
        HostLoad {
            foreign_cpu: mean_over_or_whole(windows, self.values(|s| s.foreign)),
            cpu_saturated: mean_over_or_whole(windows, self.values(saturated)),
        }
    }

    /// Series by name, times in seconds since `origin`: `cpu` as a share of the host, `cpu_cores`, `rss`, `host_cpu`.
    pub fn series(&self, origin: f64, host_cpus: u32) -> BTreeMap<String, Vec<(f64, f64)>> {
        if self.samples.is_empty() {
            return BTreeMap::new();
        }
        let host_cpus = f64::from(host_cpus.max(1));
        let column = |value: &dyn Fn(&Sample) -> Option<f64>| {
            self.samples.iter().filter_map(|s| Some((round(s.at - origin, 1e3), round(value(s)?, 1e4)))).collect()
        };
        BTreeMap::from([
            ("cpu".to_owned(), column(&|s| Some(s.cpu_s / s.span / host_cpus))),
            ("cpu_cores".to_owned(), column(&|s| Some(s.cpu_s / s.span))),
            ("host_cpu".to_owned(), column(&|s| s.host_busy)),
            ("rss".to_owned(), column(&|s| Some(s.rss as f64))),
        ])
    }

    fn values(&self, value: impl Fn(&Sample) -> Option<f64> + Clone) -> impl Iterator<Item = (f64, f64, f64)> + Clone {
        self.samples.iter().filter_map(move |s| Some((s.at, s.span, value(s)?)))
    }
}

fn merge(a: &Sample, b: &Sample) -> Sample {
    let span = a.span + b.span;
    let mean = |x: Option<f64>, y: Option<f64>| match (x, y) {
        (Some(x), Some(y)) => Some((x * a.span + y * b.span) / span),
        (x, y) => x.or(y),
    };
    Sample {
        at: b.at,
        span,
        cpu_s: a.cpu_s + b.cpu_s,
        host_busy: mean(a.host_busy, b.host_busy),
        foreign: mean(a.foreign, b.foreign),
        rss: a.rss.max(b.rss),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn whole(wall_s: f64, cpu_s: f64) -> Usage {
        Usage { wall_s: Some(wall_s), cpu_s: Some(cpu_s), rss_peak: Some(10), ..Usage::default() }
    }

    /// Ten seconds: one core in the first half, three in the second; a foreign process in the second half.
    fn ten_seconds() -> HostSamples {
        let mut samples = HostSamples::since(100.0);
        for n in 1..=20 {
            let late = n > 10;
            samples.add(Sample {
                at: 100.0 + f64::from(n) * 0.5,
                span: 0.5,
                cpu_s: if late { 1.5 } else { 0.5 },
                host_busy: Some(if late { 1.0 } else { 0.25 }),
                foreign: Some(if late { 0.25 } else { 0.0 }),
                rss: 1000 * n as u64,
            });
            samples.rss_peak = Some(20_000);
        }
        samples
    }

    #[test]
    fn programs_are_kept_up_to_a_limit_and_are_part_of_an_update() {
        let mut samples = ten_seconds();
        samples.saw(&(0..40).map(|n| format!("/opt/{n}/bin/python")).collect());
        samples.saw(&["/opt/0/bin/python".to_owned()].into());
        assert_eq!(samples.programs().len(), PROGRAMS);
    }

    #[test]
    fn means_cover_the_windows_and_peaks_the_whole() {
        let samples = ten_seconds();
        let usage = |windows: &[Window]| samples.usage(whole(10.0, 21.0), windows, 4);
        assert_eq!((usage(&[]).cpu_cores, usage(&[]).cpu_util), (Some(2.1), Some(0.525)));
        assert_eq!(usage(&[(101.0, 103.0)]).cpu_cores, Some(1.0));
        assert_eq!(usage(&[(104.0, 106.0)]).cpu_cores, Some(2.0));
        assert_eq!(usage(&[(101.0, 102.0), (107.0, 110.0)]).cpu_cores, Some(2.5));
        assert_eq!(usage(&[(101.0, 102.0)]).cpu_util_peak, Some(0.75));
        let all = usage(&[]);
        assert_eq!((all.rss_peak, all.wall_s, all.cpu_s), (Some(20_000), Some(10.0), Some(21.0)));
        let load = |foreign_cpu, cpu_saturated| HostLoad { foreign_cpu, cpu_saturated };
        assert_eq!(samples.load(&[(105.0, 110.0)]), load(Some(0.25), Some(1.0)));
        assert_eq!(samples.load(&[]), load(Some(0.125), Some(0.5)));
    }

    #[test]
    fn what_was_not_seen_is_not_known() {
        let samples = ten_seconds();
        let before = [(90.0, 91.0)];
        let usage = samples.usage(whole(10.0, 21.0), &before, 4);
        assert_eq!((usage.cpu_cores, usage.cpu_util), (None, None), "no sample lies in the window");
        assert_eq!((usage.cpu_util_peak, usage.cores()), (Some(0.75), Some(2.1)), "the whole is known");
        assert_eq!(samples.load(&before), HostLoad::default());
        let nobody_looked = HostSamples::default().usage(Usage::default(), &[], 4);
        assert_eq!(nobody_looked, Usage::default());
        // The system counts in hundredths: a span below a tenth of a second has no peak, but everything else.
        let mut short = HostSamples::since(100.0);
        short.push(100.05, None, &HostUsage { cpu_s: 0.05, rss: 0 }, None);
        let usage = short.usage(Usage { sampler_cpu: Some(0.01), ..Usage::default() }, &[], 4);
        assert_eq!((usage.samples, usage.sampler_cpu), (1, Some(0.01)));
        assert_eq!((usage.cpu_util_peak, usage.rss_peak), (None, None));
        assert_eq!(short.load(&[]), HostLoad::default());
        // The one sample shows a shell before or after its program.
        short.push(100.2, None, &HostUsage { cpu_s: 0.05, rss: 3 << 20 }, None);
        let peak = |wall_s| short.usage(Usage { wall_s: Some(wall_s), ..Usage::default() }, &[], 4).rss_peak;
        assert_eq!((peak(0.4), peak(2.0)), (None, Some(3 << 20)));
    }

    #[test]
    fn a_short_attempt_has_no_samples_and_still_a_usage() {
        let usage = |windows: &[Window]| HostSamples::default().usage(whole(0.5, 0.25), windows, 2);
        assert_eq!((usage(&[]).cpu_cores, usage(&[]).cpu_util), (Some(0.5), Some(0.25)));
        let epochs = usage(&[(1.0, 1.2)]);
        assert_eq!(
            (epochs.cpu_cores, epochs.cpu_util_peak, epochs.rss_peak, epochs.samples),
            (None, None, Some(10), 0)
        );
        assert!(HostSamples::default().series(0.0, 2).is_empty());
        assert_eq!(HostSamples::default().usage(whole(0.0, 0.0), &[], 0).cpu_cores, None);
    }

    #[test]
    fn a_long_attempt_is_thinned_out_without_changing_its_means() {
        let mut samples = HostSamples::since(0.0);
        for n in 1..=50_000 {
            let cpu_s = if n % 2 == 0 { 1.0 } else { 0.0 };
            samples.add(Sample {
                at: f64::from(n) * 0.5,
                span: 0.5,
                cpu_s,
                host_busy: Some(0.5),
                foreign: None,
                rss: n as u64,
            });
        }
        assert!(samples.samples.len() < MOST);
        let cores = samples.usage(whole(0.0, 0.0), &[(0.0, 25_000.0)], 1).cpu_cores.unwrap();
        assert!((cores - 1.0).abs() < 1e-9, "{cores}");
        assert_eq!(samples.cores_peak, Some(2.0));
        assert_eq!(samples.series(0.0, 1)["rss"].last().unwrap().0, 25_000.0);
        assert_eq!(samples.load(&[]).foreign_cpu, None);
    }
}
