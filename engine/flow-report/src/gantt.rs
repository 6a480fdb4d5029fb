//! The chart of a schedule: one lane a GPU, who held it when, and under them the host's CPU. Plain numbers in, SVG out; knows
//! no scheduler.

use crate::chart::{self, Area, Labels};
use crate::words::{Args, Words};

/// How many kinds get a colour and a name of their own; the rest are others.
const KINDS: usize = 5;
/// What is left free of a lane.
const GAP: f64 = 0.12;

/// A schedule to be drawn. Times are seconds from its beginning.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Gantt {
    /// Lanes for GPUs; the lane after the last is for what holds none.
    pub gpus: usize,
    /// Who held which lane.
    pub bars: Vec<Bar>,
    /// CPU in use from when on, as a share of the host; empty where it does not count.
    pub cpu: Vec<(f64, f64)>,
}

/// Somebody on a lane.
#[derive(Clone, Debug, PartialEq)]
pub struct Bar {
    /// The lane.
    pub lane: usize,
    /// What it is: one colour.
    pub kind: String,
    /// From here …
    pub start: f64,
    /// … to here.
    pub end: f64,
}

impl Gantt {
    /// As SVG, with words in a language.
    pub fn svg(&self, words: &Words, lang: &str) -> String {
        let end = self.bars.iter().map(|bar| bar.end).fold(0.0, f64::max);
        let (unit, seconds) = match end {
            s if s < 300.0 => ("seconds", 1.0),
            s if s < 3.0 * 3_600.0 => ("minutes", 60.0),
            s if s < 3.0 * 86_400.0 => ("hours", 3_600.0),
            _ => ("days", 86_400.0),
        };
        let say = |key: &str| words.text(lang, key, &Args::new());
        let mut names: Vec<String> = (0..self.gpus).map(|gpu| format!("GPU {gpu}")).collect();
        if self.bars.iter().any(|bar| bar.lane >= self.gpus) {
            names.push(say("gantt-no-gpu"));
        }
        let cpu_lane = names.len();
        if !self.cpu.is_empty() {
            names.push(say("gantt-cpu"));
        }
        let bottom = |lane: usize| (names.len() - 1 - lane) as f64;
        let kinds = self.kinds();
        let mut areas: Vec<Area> = Vec::new();
        for lane in 0..cpu_lane {
            let (bars, slots) = self.on(lane);
            let height = (1.0 - GAP) / slots.max(1) as f64;
            for (bar, slot) in bars {
                let low = bottom(lane) + GAP / 2.0 + height * slot as f64;
                let colour = kinds.iter().position(|kind| *kind == bar.kind).unwrap_or(KINDS);
                let name = kinds.get(colour).map_or_else(|| say("gantt-others"), |kind| (*kind).to_owned());
                let legend = areas.iter().all(|area| area.colour != colour).then_some(name);
                let x = vec![bar.start / seconds, bar.end / seconds];
                areas.push(Area { x, low: vec![low; 2], high: vec![low + height; 2], colour, legend });
            }
        }
        if !self.cpu.is_empty() {
            let (mut x, mut high) = (Vec::new(), Vec::new());
            for (i, (at, share)) in self.cpu.iter().enumerate() {
                let until = self.cpu.get(i + 1).map_or(end, |next| next.0);
                x.extend([at / seconds, until / seconds]);
                high.extend([bottom(cpu_lane) + share.min(1.0) * (1.0 - GAP); 2]);
            }
            let low = vec![bottom(cpu_lane); x.len()];
            areas.push(Area { x, low, high, colour: KINDS - 1, legend: None });
        }
        let x = words.text(lang, "gantt-time", &Args::new().with("unit", unit.to_owned()));
        chart::lanes(&areas, &names, (end / seconds).max(1e-9), &Labels { x, y: String::new() })
    }

    /// Kinds by the time that they hold lanes, the longest first.
    fn kinds(&self) -> Vec<&str> {
        let mut held: Vec<(&str, f64)> = Vec::new();
        for bar in &self.bars {
            match held.iter_mut().find(|(kind, _)| *kind == bar.kind) {
                Some((_, time)) => *time += bar.end - bar.start,
                None => held.push((&bar.kind, bar.end - bar.start)),
            }
        }
        held.sort_by(|a, b| b.1.total_cmp(&a.1).then(a.0.cmp(b.0)));
        held.into_iter().take(KINDS).map(|(kind, _)| kind).collect()
    }

    /// The bars of a lane, those at one time one above the other, and how many that are at most.
    fn on(&self, lane: usize) -> (Vec<(&Bar, usize)>, usize) {
        let mut bars: Vec<&Bar> = self.bars.iter().filter(|bar| bar.lane == lane && bar.start < bar.end).collect();
        bars.sort_by(|a, b| a.start.total_cmp(&b.start));
        let mut free: Vec<f64> = Vec::new();
        let mut placed = Vec::new();
        for bar in bars {
            let slot = free.iter().position(|until| *until <= bar.start).unwrap_or(free.len());
            if slot == free.len() {
                free.push(bar.end);
            }
            free[slot] = bar.end;
            placed.push((bar, slot));
        }
        (placed, free.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lane_a_gpu_and_the_cpu_under_them() {
        let bar = |lane, kind: &str, start, end| Bar { lane, kind: kind.into(), start, end };
        let gantt = Gantt {
            gpus: 2,
            bars: vec![bar(0, "solo", 0.0, 60.0), bar(0, "solo", 30.0, 90.0), bar(1, "table", 90.0, 100.0)],
            cpu: vec![(0.0, 0.5), (30.0, 1.0), (90.0, 0.1)],
        };
        assert_eq!(gantt.on(0).1, 2, "two at once");
        let (en, zh) = (gantt.svg(&Words::new(), "en"), gantt.svg(&Words::new(), "zh"));
        for word in ["GPU 0", "GPU 1", "CPU", "solo", "table", "Time (seconds)"] {
            assert!(en.contains(word), "{word}");
        }
        assert!(zh.contains("时间"), "{zh}");
        assert_eq!(en, gantt.svg(&Words::new(), "en"));
        assert!(Gantt::default().svg(&Words::new(), "en").contains("<svg"));
    }
}
