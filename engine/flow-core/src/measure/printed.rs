//! From what a plain program printed, and when that was read, to its epochs and numbers: look by look, while it runs as well as from
//! its kept log. Reads no file.

use std::collections::{BTreeMap, BTreeSet};

use super::{Reported, Row};
use crate::{
    ansi::without_escapes,
    metrics::{MetricRow, Metrics, NumberFiles, Pattern},
    reason::NoMetrics,
};

/// What ends a line of a log: a progress bar writes over its own.
pub const LINE_ENDS: &[u8] = b"\n\r";
/// More than any line that means something; a longer one is passed over.
pub const LONGEST_LINE: usize = 1 << 20;

/// An epoch that ended, with its numbers.
pub type EndedEpoch = (u32, BTreeMap<String, f64>);

/// The epoch that the lines of a log are at.
#[derive(Clone, Debug, Default)]
pub struct Printed {
    /// When the epoch at hand began, or the next one will.
    began: f64,
    /// The epoch of the lines that came last: it ends with them, or goes on.
    epoch: Option<u32>,
    /// The epoch that the last heading told, and when.
    heading: Option<(u32, f64)>,
    /// Which of the patterns were found.
    found: BTreeSet<usize>,
}

impl Printed {
    /// The program starts, or the barrier of its group is released: its first epoch begins here.
    pub fn begins(&mut self, at: f64) {
        self.began = at;
    }

    /// The epoch of the lines that came last.
    pub fn epoch(&self) -> Option<u32> {
        self.epoch
    }

    /// Lines that were found at one look, at `now`. Returns the epochs that ended with them.
    pub fn hear<'a>(
        &mut self,
        patterns: &[Pattern],
        lines: impl Iterator<Item = &'a [u8]>,
        now: f64,
        reported: &mut Reported,
    ) -> Vec<EndedEpoch> {
        let (mut ended, mut begun, mut rows) = (Vec::new(), 0, Vec::new());
        for line in lines {
            let line = without_escapes(line);
            for (n, pattern) in patterns.iter().enumerate().filter(|(_, pattern)| pattern.is_heading()) {
                let Some(epoch) = pattern.epoch(&line) else { continue };
                self.found.insert(n);
                if self.heading.is_none_or(|(last, _)| last != epoch) {
                    self.heading = Some((epoch, now));
                    ended.extend(self.end(reported));
                }
            }
            for (n, pattern) in patterns.iter().enumerate().filter(|(_, pattern)| !pattern.is_heading()) {
                pattern.read(&line, &mut rows);
                if !rows.is_empty() {
                    self.found.insert(n);
                }
                begun += self.take(rows.drain(..), now, reported, &mut ended);
            }
        }
        reported.at_once |= begun > 1;
        ended
    }

    /// Takes numbers in that were found at `now`: of the epoch that they name, or else of that of the heading above them. Says how
    /// many epochs begin with them.
    pub fn take(
        &mut self,
        rows: impl Iterator<Item = MetricRow>,
        now: f64,
        reported: &mut Reported,
        ended: &mut Vec<EndedEpoch>,
    ) -> u32 {
        let mut begun = 0;
        for row in rows {
            let below = self.heading.filter(|_| row.epoch.is_none());
            let epoch = row.epoch.or(below.map(|(epoch, _)| epoch));
            if let Some(epoch) = epoch {
                // An epoch ends with the last of its lines, which is known when the next one begins. Below the heading of the
                // last one, what was in none before is of a test at the end, and no part of its time.
                let goes_on = self.epoch == Some(epoch);
                let of_it = below.is_none() || reported.is_usual(&row.name, epoch);
                if let Some((_, _, end)) = reported.epochs.last_mut().filter(|_| goes_on) {
                    *end = if of_it { now } else { *end };
                } else {
                    ended.extend(self.end(reported));
                    begun += 1;
                    let began = below.map_or(self.began, |(_, at)| if at < now { at } else { self.began });
                    self.epoch = reported.epoch(epoch, began, now).then_some(epoch);
                }
                self.began = now;
            }
            reported.number(plain(MetricRow { epoch, ..row }));
        }
        begun
    }

    /// There are no more lines: the epoch at hand ends with those that came.
    pub fn end(&mut self, reported: &Reported) -> Option<EndedEpoch> {
        self.epoch.take().map(|epoch| (epoch, reported.of_epoch(epoch)))
    }
}

/// Reads the files in which a program left its numbers, when what it printed is read. Says what is wrong first of all places where
/// numbers were to be: a file is not there or not of its form, or there is no number in one of them.
pub fn read_numbers(
    metrics: &Metrics,
    printed: &Printed,
    files: &mut dyn NumberFiles,
    ended: bool,
    hide: impl Fn(String) -> String,
    reported: &mut Reported,
) -> Option<NoMetrics> {
    let unseen = metrics.stdout.iter().enumerate().find(|(n, _)| !printed.found.contains(n));
    let mut problem = unseen.map(|(_, pattern)| NoMetrics::NoneMatches { pattern: pattern.text().to_owned() });
    for file in &metrics.files {
        let mut rows = Vec::new();
        let read = file.read(files, ended, &mut rows);
        rows.into_iter().for_each(|row| reported.number(plain(MetricRow { name: hide(row.name), ..row })));
        problem = problem.or(read.err());
    }
    problem
}

/// A plain program says no summary: times and rates come to their mean, everything else to its last value.
fn plain(row: MetricRow) -> Row {
    let mean = row.name.ends_with("_time") || row.name.ends_with("_per_s") || row.unit == "s";
    Row { name: row.name, value: row.value, unit: row.unit, epoch: row.epoch, mean }
}
