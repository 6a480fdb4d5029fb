//! From what a plain program printed, and when that was read, to its epochs and numbers: look by look, while it runs as well as from
//! its kept log. Reads no file.

use std::collections::BTreeMap;

use super::{Reported, Row};
use crate::{
    metrics::{MetricRow, MetricsFrom, extract},
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
        metrics: &MetricsFrom,
        lines: impl Iterator<Item = &'a [u8]>,
        now: f64,
        reported: &mut Reported,
    ) -> Vec<EndedEpoch> {
        let rows = lines.flat_map(|line| extract(metrics, &String::from_utf8_lossy(line)).unwrap_or_default());
        let (mut ended, mut begun) = (Vec::new(), 0);
        for row in rows {
            if let Some(epoch) = row.epoch {
                // An epoch ends with the last of its lines, which is known when the next one begins.
                if let Some((_, _, end)) = reported.epochs.last_mut().filter(|_| self.epoch == Some(epoch)) {
                    *end = now;
                } else {
                    ended.extend(self.end(reported));
                    begun += 1;
                    reported.at_once |= begun > 1;
                    self.epoch = reported.epoch(epoch, self.began, now).then_some(epoch);
                }
                self.began = now;
            }
            reported.number(plain(row));
        }
        ended
    }

    /// There are no more lines: the epoch at hand ends with those that came.
    pub fn end(&mut self, reported: &Reported) -> Option<EndedEpoch> {
        self.epoch.take().map(|epoch| (epoch, reported.of_epoch(epoch)))
    }
}

/// Reads the file in which a program left its numbers, if it left them in one. Says what is wrong: the file is not there or not of
/// its form, or there is no number, whether printed or in a file.
pub fn read_numbers(
    metrics: &MetricsFrom,
    text: impl FnOnce(&str) -> Result<String, NoMetrics>,
    hide: impl Fn(String) -> String,
    reported: &mut Reported,
) -> Option<NoMetrics> {
    if let Some(file) = metrics.file() {
        match text(file).and_then(|text| extract(metrics, &text)) {
            Ok(rows) => rows.into_iter().for_each(|row| {
                reported.number(plain(MetricRow { name: hide(row.name), ..row }));
            }),
            Err(problem) => return Some(problem),
        }
    }
    reported.is_empty().then(|| metrics.nothing_found())
}

/// A plain program says no summary: times and rates come to their mean, everything else to its last value.
fn plain(row: MetricRow) -> Row {
    let mean = row.name.ends_with("_time") || row.name.ends_with("_per_s") || row.unit == "s";
    Row { name: row.name, value: row.value, unit: row.unit, epoch: row.epoch, mean }
}
