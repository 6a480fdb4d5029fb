//! Turns a plain program's output, with the times at which it was read, into epochs and numbers. Works incrementally, on
//! a running program as well as on its stored log. Reads no file.

use std::collections::{BTreeMap, BTreeSet};

use super::{ReportedNumbers, Row, epochs::PRINTED, numbers::Parts, record::lines};
use crate::{
    TimedEpoch,
    ansi::without_escapes,
    metrics::{Columns, Key, MetricRow, Metrics, MetricsForm, Nearest, NumberFiles, Pattern},
    reason::{NoMetrics, UnmatchedPattern},
};

/// In the log of a resumed attempt, marks the end of the output of each earlier, interrupted attempt.
pub const PART_ENDS: &str = "[flow: an attempt was ended here; the next one resumes from its checkpoint]";

/// An epoch that ended, with its numbers.
pub type EndedEpoch = (u32, BTreeMap<String, f64>);

/// Position in the epochs of a log.
#[derive(Clone, Debug, Default)]
pub struct EpochPosition {
    /// Start of the present epoch, or of the next one.
    began: f64,
    /// Whether a barrier separated start-up from the first epoch.
    released: bool,
    /// Part and epoch of the last lines. It ends with them, or continues.
    epoch: Option<(u32, u32)>,
    /// The key of the last heading, and when that was printed.
    heading: Option<(Key, f64)>,
    parts: Parts,
    /// The key of the last line.
    key: Option<Key>,
    /// The last whole epoch.
    whole: Option<u32>,
    /// Whether there were fractional epochs, such as 0.5.
    fractions: bool,
    /// Metrics of the last line, if a progress bar may redraw it.
    redrawable: Vec<String>,
    /// The patterns that matched.
    found: BTreeSet<usize>,
    /// For each other pattern, the most similar line.
    nearest: BTreeMap<usize, Nearest>,
}

impl EpochPosition {
    /// The program starts. Its first epoch begins later, after start-up.
    pub fn begins(&mut self, at: f64) {
        self.began = at;
    }

    /// Its group's barrier is released after start-up: its first epoch begins now.
    pub fn is_released(&mut self, at: f64) {
        self.began = at;
        self.released = true;
    }

    /// It resumes from a checkpoint of attempts that printed this. Their values count for the epochs that are not
    /// repeated. Their times do not matter here, because times belong to the attempt that measured them.
    pub fn resume_from(&mut self, patterns: &[Pattern], earlier: &[u8], reported: &mut ReportedNumbers) {
        let lines: Vec<&[u8]> = lines(earlier).collect();
        for attempt in lines.split(|line| *line == PART_ENDS.as_bytes()) {
            let (mut printed, mut told) = (EpochPosition::default(), ReportedNumbers::default());
            printed.read_lines(patterns, attempt.iter().copied(), 0.0, &mut told);
            self.found.append(&mut printed.found);
            reported.unread.join(std::mem::take(&mut told.unread));
            reported.resume_from(told);
        }
    }

    /// The epoch of the last lines.
    pub fn epoch(&self) -> Option<(u32, u32)> {
        self.epoch
    }

    /// Its position, if it prints steps or fractional epochs: `step 500`.
    pub fn place(&self) -> Option<String> {
        let key = self.key.filter(|key| key.whole_epoch().is_none())?;
        key.epoch.map(|epoch| format!("epoch {epoch}")).or_else(|| Some(format!("step {}", key.step?)))
    }

    /// Reads the lines of one look, at `now`, without the final `\n`; a final `\r` is kept. Returns the epochs that
    /// ended with them.
    pub fn read_lines<'a>(
        &mut self,
        patterns: &[Pattern],
        lines: impl Iterator<Item = &'a [u8]>,
        now: f64,
        reported: &mut ReportedNumbers,
    ) -> Vec<EndedEpoch> {
        let (mut ended, mut begun, mut rows) = (Vec::new(), 0, Vec::new());
        for line in lines {
            // An empty line after `\r` means that the line ended with `\r\n`.
            let above = std::mem::take(&mut self.redrawable);
            if line.is_empty() {
                reported.finish_line(above.into_iter());
            }
            let (line, redrawable) = match line.strip_suffix(b"\r") {
                Some(line) => (line, true),
                None => (line, false),
            };
            let line = without_escapes(line);
            for (n, pattern) in patterns.iter().enumerate().filter(|(_, pattern)| pattern.is_heading()) {
                let Some(key) = pattern.key(&line) else {
                    self.compare(n, pattern, &line);
                    continue;
                };
                self.found.insert(n);
                if self.heading.is_none_or(|(last, _)| last != key) {
                    self.heading = Some((key, now));
                    ended.extend(self.end(reported));
                }
            }
            for (n, pattern) in patterns.iter().enumerate().filter(|(_, pattern)| !pattern.is_heading()) {
                pattern.read(&line, &mut rows, &mut reported.unread);
                if rows.is_empty() {
                    self.compare(n, pattern, &line);
                    continue;
                }
                self.found.insert(n);
                if redrawable {
                    self.redrawable.extend(rows.iter().map(|row| row.name.clone()));
                }
                begun += self.rows(rows.drain(..), redrawable, now, reported, &mut ended);
            }
        }
        reported.at_once |= begun > 1;
        reported.parts.insert(PRINTED.to_owned(), self.parts.count());
        ended
    }

    /// Compares a line with a pattern that did not match it; it may be the nearest.
    fn compare(&mut self, n: usize, pattern: &Pattern, line: &str) {
        if !self.found.contains(&n) {
            self.nearest.entry(n).or_default().compare(pattern, line);
        }
    }

    /// The patterns without a match that name a number that no matching pattern has.
    fn unmatched(&self, patterns: &[Pattern]) -> Option<NoMetrics> {
        let found: BTreeSet<&str> =
            self.found.iter().filter_map(|n| patterns.get(*n)).flat_map(Pattern::declared).collect();
        let is_missing = |(n, pattern): &(usize, &Pattern)| {
            !self.found.contains(n) && pattern.declared().any(|name| !found.contains(name))
        };
        let unmatched = |(n, pattern): (usize, &Pattern)| UnmatchedPattern {
            pattern: pattern.text().to_owned(),
            nearest: self.nearest.get(&n).and_then(Nearest::line).map(str::to_owned),
        };
        let patterns: Vec<UnmatchedPattern> = patterns.iter().enumerate().filter(is_missing).map(unmatched).collect();
        (!patterns.is_empty()).then_some(NoMetrics::NoneMatches { patterns })
    }

    /// Adds numbers that were found in a file at `now`.
    pub fn take(
        &mut self,
        rows: impl Iterator<Item = MetricRow>,
        now: f64,
        reported: &mut ReportedNumbers,
        ended: &mut Vec<EndedEpoch>,
    ) {
        self.rows(rows, false, now, reported, ended);
    }

    /// Adds numbers that were found at `now`. They belong to the epoch that they name, or else to that of the heading
    /// above. Returns how many epochs begin with them.
    fn rows(
        &mut self,
        rows: impl Iterator<Item = MetricRow>,
        redrawable: bool,
        now: f64,
        reported: &mut ReportedNumbers,
        ended: &mut Vec<EndedEpoch>,
    ) -> u32 {
        let mut begun = 0;
        let all: Vec<MetricRow> = rows.collect();
        for together in all.chunk_by(|a, b| a.key == b.key) {
            let own = together[0].key;
            let below = self
                .heading
                .filter(|(heading, _)| own.epoch.is_none() && (heading.epoch.is_some() || own == Key::default()));
            let heading = below.map(|(key, _)| key).unwrap_or_default();
            let key = Key { epoch: own.epoch.or(heading.epoch), step: own.step.or(heading.step) };
            self.key = Some(key);
            let part = self.parts.of(together.iter().map(|row| &*row.name), key);
            self.fractions |= key.epoch.is_some_and(|epoch| epoch.fract() != 0.0);
            match key.whole_epoch() {
                Some(epoch) => {
                    let begins = self.epoch != Some((part, epoch));
                    begun += u32::from(begins);
                    let below = below.map(|(_, at)| at);
                    // Below the last epoch's heading, metrics new in this epoch belong to a final test, not to its time.
                    let of_it = below.is_none() || together.iter().any(|row| reported.is_usual(&row.name, part, epoch));
                    self.time((part, epoch), below, of_it, now, reported, ended);
                }
                None if key.epoch.is_some() => ended.extend(self.end(reported)),
                None => {}
            }
            for row in together {
                reported.take(plain(MetricRow { key, ..row.clone() }, part), redrawable);
            }
        }
        begun
    }

    /// Handles a line of this part and epoch at `now`, maybe below a heading. An epoch ends with the last of its lines,
    /// which is known when the next epoch begins.
    fn time(
        &mut self,
        (part, epoch): (u32, u32),
        below: Option<f64>,
        of_it: bool,
        now: f64,
        reported: &mut ReportedNumbers,
        ended: &mut Vec<EndedEpoch>,
    ) {
        let continues = self.epoch == Some((part, epoch));
        let last = reported.epochs.last_mut().filter(|last| continues && (last.part, last.epoch) == (part, epoch));
        if let Some(last) = last {
            last.ended = if of_it { now } else { last.ended };
        } else if !continues {
            ended.extend(self.end(reported));
            let heading = below.filter(|at| *at < now);
            let began = heading.unwrap_or(self.began);
            reported.start_up |=
                reported.epochs.is_empty() && self.whole.is_none() && heading.is_none() && !self.released;
            // With fractional epochs (0.8, 1.6, 2.0), the time since the last whole epoch may span several.
            let is_next = self.whole.map_or(epoch <= 1, |before| before.checked_add(1) == Some(epoch));
            let is_timed = !self.fractions || is_next;
            let timed = is_timed && reported.epoch(TimedEpoch { part, epoch, began, ended: now });
            self.epoch = (timed || !is_timed).then_some((part, epoch));
        }
        self.whole = Some(epoch);
        self.began = now;
    }

    /// There are no more lines: the present epoch ends.
    pub fn end(&mut self, reported: &ReportedNumbers) -> Option<EndedEpoch> {
        self.epoch.take().map(|(part, epoch)| (epoch, reported.of_epoch(part, epoch)))
    }
}

/// Reads a program's files of numbers after its output. Returns the first problem of all places: a file is missing or
/// malformed, or one of them has no number.
pub fn read_numbers(
    metrics: &Metrics,
    printed: &EpochPosition,
    files: &mut dyn NumberFiles,
    ended: bool,
    hide: impl Fn(String) -> String,
    reported: &mut ReportedNumbers,
) -> Option<NoMetrics> {
    let mut problem = printed.unmatched(&metrics.stdout);
    let mut places: BTreeMap<String, String> =
        reported.metrics.keys().map(|name| (name.clone(), PRINTED.to_owned())).collect();
    for file in &metrics.files {
        let mut columns = Columns::default();
        let place = format!("`{}`", hide(file.path.clone()));
        let mut of_file = FileRows { separate: file.form == MetricsForm::TensorBoard, ..FileRows::default() };
        let mut take = |mut rows: Vec<MetricRow>| {
            rows.iter_mut().for_each(|row| row.name = hide(std::mem::take(&mut row.name)));
            let new = of_file.new_names(&rows);
            reported.replace(new.iter().map(String::as_str), &place, &mut places);
            of_file.take(&rows, reported);
        };
        let read = file.read(files, ended, &mut take, &mut columns);
        reported.parts.insert(place, of_file.parts());
        reported.columns.insert(file.path.clone(), columns.hidden(&hide));
        problem = problem.or(read.err());
    }
    problem
}

/// The rows of a file, in order. `separate` metrics, such as TensorBoard tags, each have their own parts.
#[derive(Default)]
struct FileRows {
    separate: bool,
    names: BTreeSet<String>,
    all: BTreeMap<String, Parts>,
}

impl FileRows {
    /// Names that are new in these rows.
    fn new_names(&mut self, rows: &[MetricRow]) -> BTreeSet<String> {
        let new: BTreeSet<String> =
            rows.iter().map(|row| &row.name).filter(|name| !self.names.contains(*name)).cloned().collect();
        self.names.extend(new.iter().cloned());
        new
    }

    fn take(&mut self, rows: &[MetricRow], reported: &mut ReportedNumbers) {
        let separate = self.separate;
        for together in rows.chunk_by(|a, b| a.key == b.key && (!separate || a.name == b.name)) {
            let stream = if separate { together[0].name.clone() } else { String::new() };
            let parts = self.all.entry(stream).or_default();
            let part = parts.of(together.iter().map(|row| &*row.name), together[0].key);
            together.iter().for_each(|row| reported.number(plain(row.clone(), part)));
        }
    }

    /// Number of parts after the first; the maximum over the metrics.
    fn parts(&self) -> u32 {
        self.all.values().map(Parts::count).max().unwrap_or(0)
    }
}

/// A plain program declares no summary: times and rates are averaged, other metrics take their last value.
fn plain(row: MetricRow, part: u32) -> Row {
    let mean = row.name.ends_with("_time") || row.name.ends_with("_per_s") || row.unit == "s";
    Row { of: row, part, mean }
}

#[cfg(test)]
mod tests;
