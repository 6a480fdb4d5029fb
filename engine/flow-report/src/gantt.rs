//! The chart of a schedule: one lane per GPU with its jobs over time; below them the host's CPU and the number of
//! waiting jobs. Plain numbers in, SVG out. This module does not know any scheduler.

use serde::{Deserialize, Serialize};

use crate::chart::lanes::{self, Lane, Lanes, OWN, Track};
use crate::words::{Args, Locale, Words};

/// Maximum bars of a lane that can be distinguished. A chart ends before there would be more.
const BARS: usize = 45;
/// Maximum GPUs that have a lane.
const GPUS: usize = 64;
/// Maximum distinguishable changes of the amount in use.
const STEPS: usize = 1_000;
/// Maximum ticks of the time axis.
const TICKS: f64 = 9.0;
/// Possible distances between ticks, in seconds.
const APART: [f64; 24] = [
    0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 15.0, 30.0, 60.0, 120.0, 300.0, 600.0, 900.0, 1_800.0, 3_600.0, 7_200.0,
    10_800.0, 21_600.0, 43_200.0, 86_400.0, 172_800.0, 432_000.0, 864_000.0,
];

/// A schedule to draw, cut to what a chart can show. Times are seconds from its beginning.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Gantt {
    /// Number of GPUs that have a lane. The lane after the last is for jobs without a GPU.
    pub gpus: usize,
    /// Number of GPUs in the cluster.
    pub of_gpus: usize,
    /// Jobs on lanes, in order of their start.
    pub bars: Vec<Bar>,
    /// Cores in use, from each time on. Empty if cores do not count.
    pub cpu: Vec<(f64, f64)>,
    /// Number of cores.
    pub cores: f64,
    /// Number of jobs that have arrived and wait, from each time on. Empty if all arrive at the start.
    pub waiting: Vec<(f64, f64)>,
    /// The end of the chart …
    pub until: f64,
    /// … and the end of the schedule.
    pub end: f64,
}

/// A job on a lane.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Bar {
    pub lane: usize,
    /// Its kind, which has one colour.
    pub kind: String,
    /// Its start.
    pub start: f64,
    /// Its end.
    pub end: f64,
}

/// Properties shared by charts that appear together.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Frame {
    pub(crate) until: f64,
    /// Maximum number of waiting jobs.
    pub(crate) waiting: f64,
}

impl Frame {
    /// A frame for charts that are compared: all end at the same time, unless a schedule ends earlier.
    pub(crate) fn around<'a>(all: impl Iterator<Item = &'a Gantt> + Clone) -> Frame {
        let cut = all.clone().filter(|gantt| gantt.until < gantt.end).map(|gantt| gantt.until).reduce(f64::min);
        let until = cut.unwrap_or_else(|| all.clone().map(|gantt| gantt.until).fold(0.0, f64::max));
        let waiting = all.flat_map(|gantt| &gantt.waiting).filter(|(at, _)| *at < until);
        Frame { until, waiting: waiting.map(|(_, many)| *many).fold(1.0, f64::max) }
    }
}

impl Gantt {
    /// The chart of a schedule on this many GPUs, with the cores in use and their number. A long schedule is cut to its
    /// beginning, a large cluster to its first GPUs.
    pub fn new(
        gpus: usize,
        mut bars: Vec<Bar>,
        cpu: Option<(Vec<(f64, f64)>, f64)>,
        waiting: Vec<(f64, f64)>,
    ) -> Gantt {
        let end = bars.iter().map(|bar| bar.end).fold(0.0, f64::max);
        let drawn = gpus.min(GPUS);
        bars.retain(|bar| bar.start < bar.end && (bar.lane < drawn || bar.lane == gpus));
        bars.sort_by(|a, b| a.start.total_cmp(&b.start));
        let until =
            bars.iter().skip(BARS * drawn.max(1)).map(|bar| bar.start).find(|start| *start > 0.0).unwrap_or(end);
        bars.retain(|bar| bar.start < until);
        for bar in &mut bars {
            bar.lane = bar.lane.min(drawn);
            bar.end = bar.end.min(until);
        }
        let steps = |mut all: Vec<(f64, f64)>| {
            // The last point says that nothing waits any more, also if another chart is longer.
            all.retain(|(at, _)| *at < until || until == end);
            let every = all.len().div_ceil(STEPS).max(1);
            let last = all.last().copied().filter(|_| !(all.len() - 1).is_multiple_of(every));
            all.into_iter().step_by(every).chain(last).collect::<Vec<_>>()
        };
        let (cpu, cores) = cpu.map_or((Vec::new(), 0.0), |(used, cores)| (steps(used), cores));
        Gantt { gpus: drawn, of_gpus: gpus, bars, cpu, cores, waiting: steps(waiting), until, end }
    }

    /// As SVG, with text in one language.
    pub fn svg(&self, words: &Words, lang: &str) -> String {
        self.drawn(words.locale(lang), "", Frame::around(std::iter::once(self)))
    }

    /// As SVG with a title, with text in one language.
    pub(crate) fn drawn(&self, words: Locale<'_>, title: &str, frame: Frame) -> String {
        let say = |key: &str| words.word(key);
        let kinds = self.kinds(frame.until);
        let busy: Vec<(Vec<lanes::Bar>, usize)> =
            (0..=self.gpus).map(|lane| self.lane(lane, &kinds, frame.until)).collect();
        // All GPU lanes have the same height, so that half of a lane means the same everywhere.
        let rows = busy.iter().take(self.gpus).map(|(_, rows)| *rows).max().unwrap_or(1);
        let mut all: Vec<Lane> = Vec::new();
        for (lane, (bars, own)) in busy.into_iter().enumerate() {
            match lane < self.gpus {
                true => all.push(Lane { name: format!("GPU {lane}"), track: Track::Bars { rows, bars } }),
                false if bars.is_empty() => {}
                false => all.push(Lane { name: say("gantt-no-gpu"), track: Track::Bars { rows: own, bars } }),
            }
        }
        let shown = |all: &[(f64, f64)]| all.iter().copied().filter(|(at, _)| *at < frame.until).collect();
        if !self.cpu.is_empty() {
            let track = Track::Steps { points: shown(&self.cpu), most: self.cores, limit: true };
            all.push(Lane { name: say("gantt-cpu"), track });
        }
        if !self.waiting.is_empty() {
            let track = Track::Steps { points: shown(&self.waiting), most: frame.waiting, limit: false };
            all.push(Lane { name: say("gantt-waiting"), track });
        }
        let mut legend: Vec<(usize, String)> = kinds.iter().map(|kind| (*kind).to_owned()).enumerate().collect();
        if self.bars.iter().any(|bar| !kinds.contains(&bar.kind.as_str())) {
            legend.push((OWN, say("gantt-others")));
        }
        let (unit, seconds) = unit(frame.until);
        let axis = words.text("gantt-time", &Args::new().with("unit", unit));
        let part = self.part(words, frame);
        let title: Vec<&str> = [title, &part].into_iter().filter(|text| !text.is_empty()).collect();
        let ticks = ticks(frame.until).map(|at| (at, number(at / seconds))).collect();
        Lanes { title: title.join(": "), legend, lanes: all, end: frame.until.max(1e-9), ticks, axis }.svg()
    }

    /// A note on the part of the schedule in the chart; empty if that is all of it.
    pub(crate) fn part(&self, words: Locale<'_>, frame: Frame) -> String {
        let mut parts = Vec::new();
        if frame.until < self.end {
            let (unit, seconds) = unit(frame.until);
            let args = Args::new().with("unit", unit).with("shown", number(frame.until / seconds));
            parts.push(words.text("gantt-part", &args.with("all", number(self.end / seconds))));
        }
        if self.gpus < self.of_gpus {
            let args = Args::new().with("shown", self.gpus.to_string()).with("all", self.of_gpus.to_string());
            parts.push(words.text("gantt-part-gpus", &args));
        }
        words.list(&parts)
    }

    /// Kinds with separate colours: those that hold lanes longest, in the order of their names, so that charts of the
    /// same kinds have the same colours.
    fn kinds(&self, until: f64) -> Vec<&str> {
        let mut held: Vec<(&str, f64)> = Vec::new();
        for bar in self.bars.iter().filter(|bar| bar.start < until) {
            let time = bar.end.min(until) - bar.start;
            match held.iter_mut().find(|(kind, _)| *kind == bar.kind) {
                Some((_, all)) => *all += time,
                None => held.push((&bar.kind, time)),
            }
        }
        held.sort_by(|a, b| b.1.total_cmp(&a.1).then(a.0.cmp(b.0)));
        let mut kinds: Vec<&str> = held.into_iter().take(OWN).map(|(kind, _)| kind).collect();
        // `4 GPUs` comes before `32 GPUs`.
        let number = |kind: &str| kind.split(' ').next().and_then(|word| word.parse::<u32>().ok());
        kinds.sort_unstable_by_key(|kind| (number(kind), *kind));
        kinds
    }

    /// The bars of a lane, stacked if they overlap in time, and the height of the highest stack.
    fn lane(&self, lane: usize, kinds: &[&str], until: f64) -> (Vec<lanes::Bar>, usize) {
        let mut free: Vec<f64> = Vec::new();
        let of = self.bars.iter().filter(|bar| bar.lane == lane && bar.start < until);
        let bars = of.map(|bar| {
            let row = free.iter().position(|end| *end <= bar.start).unwrap_or(free.len());
            free.resize(free.len().max(row + 1), 0.0);
            free[row] = bar.end;
            let colour = kinds.iter().position(|kind| *kind == bar.kind).unwrap_or(OWN);
            lanes::Bar { from: bar.start, to: bar.end.min(until), row, colour }
        });
        (bars.collect(), free.len())
    }
}

/// The unit for this many seconds, and its length in seconds.
fn unit(seconds: f64) -> (&'static str, f64) {
    match seconds {
        s if s < 300.0 => ("seconds", 1.0),
        s if s < 3.0 * 3_600.0 => ("minutes", 60.0),
        s if s < 4.0 * 86_400.0 => ("hours", 3_600.0),
        _ => ("days", 86_400.0),
    }
}

/// The ticks of an axis up to here.
fn ticks(until: f64) -> impl Iterator<Item = f64> {
    let decades = (0..).map(|power| 864_000.0 * 10_f64.powi(power));
    let apart = APART.into_iter().chain(decades).find(|apart| until / apart <= TICKS).unwrap_or(until);
    (0..=TICKS as u32).map(move |n| f64::from(n) * apart).filter(move |at| *at <= until)
}

/// With one digit after the point, unless that is 0 or the number is large.
fn number(value: f64) -> String {
    let text = if value.abs() < 99.95 { format!("{value:.1}") } else { format!("{value:.0}") };
    text.strip_suffix(".0").map_or(text.clone(), str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bar(lane: usize, kind: &str, start: f64, end: f64) -> Bar {
        Bar { lane, kind: kind.into(), start, end }
    }

    #[test]
    fn a_lane_a_gpu_and_the_cpu_under_them() {
        let bars = vec![bar(0, "solo", 0.0, 60.0), bar(0, "solo", 30.0, 90.0), bar(1, "table", 90.0, 100.0)];
        let cpu = vec![(0.0, 1.0), (30.0, 2.0), (90.0, 0.2)];
        let gantt = Gantt::new(2, bars, Some((cpu, 2.0)), vec![(0.0, 3.0), (30.0, 0.0)]);
        assert_eq!(gantt.lane(0, &["solo"], 100.0).1, 2, "two at once");
        let (en, zh) = (gantt.svg(&Words::new(), "en"), gantt.svg(&Words::new(), "zh"));
        for word in ["GPU 0", "GPU 1", "Host CPU", "Jobs waiting", "solo", "table", "Time (seconds)", ">90<"] {
            assert!(en.contains(word), "{word}");
        }
        for word in ["时间（秒）", "主机 CPU", "排队作业"] {
            assert!(zh.contains(word), "{word}");
        }
        assert!(!en.contains("no GPU") && !en.contains("the first"), "{en}");
        assert!(Gantt::default().svg(&Words::new(), "en").contains("<svg"));
    }

    #[test]
    fn what_ends_is_over_also_in_a_longer_picture() {
        let ends = |at: f64| {
            let gantt = Gantt::new(1, vec![bar(0, "a", 0.0, at)], Some((vec![(0.0, 4.0), (at, 0.0)], 8.0)), Vec::new());
            assert_eq!(gantt.cpu.last(), Some(&(at, 0.0)));
            gantt
        };
        let (short, long) = (ends(10.0), ends(100.0));
        let frame = Frame::around([&short, &long].into_iter());
        let alone = short.drawn(Words::new().locale("en"), "", Frame::around(std::iter::once(&short)));
        assert_ne!(short.drawn(Words::new().locale("en"), "", frame), alone);
    }

    #[test]
    fn a_long_schedule_is_drawn_in_part_and_says_so() {
        let bars = (0..100_000)
            .map(|n| bar(n % 100, &format!("k{}", n % 7), (n / 100) as f64 * 60.0, (n / 100 + 1) as f64 * 60.0));
        let cpu = (0..1_000).map(|n| (f64::from(n) * 60.0, 3.0)).collect();
        let gantt = Gantt::new(100, bars.collect(), Some((cpu, 8.0)), Vec::new());
        assert_eq!((gantt.bars.len(), gantt.gpus, gantt.until, gantt.cpu.len()), (64 * 45, 64, 2_700.0, 45));
        let svg = gantt.svg(&Words::new(), "en");
        assert!(svg.contains("the first 45 of 1000 minutes and 64 of 100 GPUs"), "{}", &svg[..600]);
        assert!(svg.contains(">others<"), "seven kinds, five colours");
        // A single job, or jobs that all begin at once, must not make the chart empty.
        let all = Gantt::new(0, (0..500).map(|_| bar(0, "a", 0.0, 5.0)).collect(), None, Vec::new());
        assert_eq!((all.bars.len(), all.until), (500, 5.0));
    }

    #[test]
    fn the_time_axis_has_round_units() {
        let of = |until: f64| {
            let (unit, seconds) = unit(until);
            ticks(until).map(|at| number(at / seconds)).chain([unit.to_owned()]).collect::<Vec<_>>().join(" ")
        };
        let all = [0.7, 100.0, 4_000.0, 36_000.0, 33.4 * 3_600.0, 30.0 * 86_400.0, 4_000.0 * 86_400.0];
        insta::assert_snapshot!(all.map(of).join("\n"), @r"
        0 0.1 0.2 0.3 0.4 0.5 0.6 seconds
        0 15 30 45 60 75 90 seconds
        0 10 20 30 40 50 60 minutes
        0 2 4 6 8 10 hours
        0 6 12 18 24 30 hours
        0 5 10 15 20 25 30 days
        0 1000 2000 3000 4000 days
        ");
    }
}
