//! From what a plain program printed, and when that was read, to its epochs and numbers: look by look, while it runs as well as from
//! its kept log. Reads no file.

use std::collections::{BTreeMap, BTreeSet};

use super::{LINE_ENDS, Reported, Row, is_read};
use crate::{
    ansi::without_escapes,
    metrics::{Columns, Key, MetricRow, Metrics, Nearest, NumberFiles, Pattern},
    reason::{NoMetrics, Unmatched},
};

/// Stands below what was printed by an attempt that was ended in the middle, in the log of those that go on from its checkpoint.
pub const PART_ENDS: &str = "[flow: an attempt was ended here, and the next one goes on from its checkpoint]";

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
    /// The lines that are most like the others.
    nearest: BTreeMap<usize, Nearest>,
}

impl Printed {
    /// The program starts, or the barrier of its group is released: its first epoch begins here.
    pub fn begins(&mut self, at: f64) {
        self.began = at;
    }

    /// It goes on from the checkpoint of attempts that printed this: what they told of epochs that are not told again counts as well. When
    /// that was is of no account, for times are of the attempt that has them.
    pub fn goes_on_from(&mut self, patterns: &[Pattern], earlier: &[u8], reported: &mut Reported) {
        let lines = earlier.split(|byte| LINE_ENDS.contains(byte));
        let lines: Vec<&[u8]> = lines.filter(|line| is_read(line)).collect();
        for part in lines.split(|line| *line == PART_ENDS.as_bytes()) {
            let (mut printed, mut told) = (Printed::default(), Reported::default());
            printed.hear(patterns, part.iter().copied(), 0.0, &mut told);
            self.found.append(&mut printed.found);
            reported.unread.join(std::mem::take(&mut told.unread));
            reported.goes_on_from(told);
        }
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
                let Some(key) = pattern.key(&line) else {
                    self.compare(n, pattern, &line);
                    continue;
                };
                self.found.insert(n);
                let Some(epoch) = key.whole_epoch() else { continue };
                if self.heading.is_none_or(|(last, _)| last != epoch) {
                    self.heading = Some((epoch, now));
                    ended.extend(self.end(reported));
                }
            }
            for (n, pattern) in patterns.iter().enumerate().filter(|(_, pattern)| !pattern.is_heading()) {
                pattern.read(&line, &mut rows, &mut reported.unread);
                if rows.is_empty() {
                    self.compare(n, pattern, &line);
                } else {
                    self.found.insert(n);
                }
                begun += self.take(rows.drain(..), now, reported, &mut ended);
            }
        }
        reported.at_once |= begun > 1;
        ended
    }

    /// A line that a pattern was not found in, which may be the nearest to it.
    fn compare(&mut self, n: usize, pattern: &Pattern, line: &str) {
        if !self.found.contains(&n) {
            self.nearest.entry(n).or_default().compare(pattern, line);
        }
    }

    /// The patterns that were not found, and name a number that no other pattern found.
    fn unmatched(&self, patterns: &[Pattern]) -> Option<NoMetrics> {
        let found: BTreeSet<&str> =
            self.found.iter().filter_map(|n| patterns.get(*n)).flat_map(Pattern::declared).collect();
        let is_missing = |(n, pattern): &(usize, &Pattern)| {
            !self.found.contains(n) && pattern.declared().any(|name| !found.contains(name))
        };
        let unmatched = |(n, pattern): (usize, &Pattern)| Unmatched {
            pattern: pattern.text().to_owned(),
            nearest: self.nearest.get(&n).and_then(Nearest::line).map(str::to_owned),
        };
        let patterns: Vec<Unmatched> = patterns.iter().enumerate().filter(is_missing).map(unmatched).collect();
        (!patterns.is_empty()).then_some(NoMetrics::NoneMatches { patterns })
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
            let told = row.key.whole_epoch();
            let below = self.heading.filter(|_| told.is_none());
            let epoch = told.or(below.map(|(epoch, _)| epoch));
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
            let key = epoch.map_or(row.key, Key::of_epoch);
            reported.number(plain(MetricRow { key, ..row }));
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
    let mut problem = printed.unmatched(&metrics.stdout);
    for file in &metrics.files {
        let (mut rows, mut columns) = (Vec::new(), Columns::default());
        let read = file.read(files, ended, &mut rows, &mut columns);
        rows.into_iter().for_each(|row| reported.number(plain(MetricRow { name: hide(row.name), ..row })));
        reported.columns.insert(file.path().to_owned(), columns.hidden(&hide));
        problem = problem.or(read.err());
    }
    problem
}

/// A plain program says no summary: times and rates come to their mean, everything else to its last value.
fn plain(row: MetricRow) -> Row {
    let mean = row.name.ends_with("_time") || row.name.ends_with("_per_s") || row.unit == "s";
    Row { name: row.name, value: row.value, unit: row.unit, epoch: row.key.whole_epoch(), mean }
}

#[cfg(test)]
mod tests {
    use super::{super::gather, *};
    use crate::metrics::Summary;

    /// What each metric comes to, and its epochs, of a training whose parts printed this, a line a second.
    fn read(patterns: &[&str], summary: &[(&str, &str)], parts: &[&str]) -> (Vec<String>, Reported, Option<NoMetrics>) {
        let stdout = patterns.iter().map(|pattern| Pattern::new(pattern).unwrap()).collect();
        let summary =
            summary.iter().map(|(name, of)| ((*name).to_owned(), Summary::parse(name, of).unwrap())).collect();
        let metrics = Metrics { stdout, summary, ..Metrics::default() };
        let (mut printed, mut reported) = (Printed::default(), Reported::of(Some(&metrics)));
        let (last, earlier) = parts.split_last().unwrap();
        let earlier: String = earlier.iter().map(|part| format!("{part}\n{PART_ENDS}\n")).collect();
        printed.goes_on_from(&metrics.stdout, earlier.as_bytes(), &mut reported);
        for (line, n) in last.lines().zip(1..) {
            printed.hear(&metrics.stdout, [line.as_bytes()].into_iter(), f64::from(n), &mut reported);
        }
        let problem = read_numbers(&metrics, &printed, &mut NoFiles, true, |name| name, &mut reported);
        let gathered = gather(&reported, 0.0, 9.0, None);
        let shown = |(name, metric): (&String, &crate::Metric)| {
            let epochs = gathered.series.epochs.get(name).into_iter().flatten().map(|(epoch, _)| epoch.to_string());
            format!("{name}={} of {}", metric.value, epochs.collect::<Vec<_>>().join(" "))
        };
        (gathered.metrics.iter().map(shown).collect(), reported, problem)
    }

    struct NoFiles;

    impl NumberFiles for NoFiles {
        fn text(&mut self, _: &str) -> Result<String, NoMetrics> {
            unreachable!()
        }

        fn event_files(&mut self, _: &str) -> Result<Vec<String>, NoMetrics> {
            unreachable!()
        }

        fn bytes(&mut self, _: &str) -> Result<Vec<u8>, NoMetrics> {
            unreachable!()
        }
    }

    #[test]
    fn a_training_in_parts_has_the_numbers_of_all_and_the_times_of_the_last() {
        let patterns = ["epoch {epoch} acc {acc} rate {images_per_s}", "lr {lr}"];
        let parts = [
            "lr 0.5\nepoch 1 acc 3 rate 100\nepoch 2 acc 9 rate 100\nepoch 3 acc 8 rate 100\nepoch 4 ac",
            "epoch 3 acc 4 rate 100",
            "epoch 4 acc 5 rate 20\nepoch 5 acc 6 rate 30\nepoch 6 acc 7 rate 50",
        ];
        let (shown, reported, problem) = read(&patterns, &[("acc", "max")], &parts);
        let expected = ["acc=9 of 1 2 3 4 5 6", "epoch_time=1 of 4 5 6", "images_per_s=40 of 4 5 6", "lr=0.5 of "];
        assert_eq!((shown, problem), (expected.map(str::to_owned).to_vec(), None));
        assert_eq!(reported.epochs, [(4, 0.0, 1.0), (5, 1.0, 2.0), (6, 2.0, 3.0)]);
        assert_eq!(reported.latest()["acc"], 7.0);
        assert_eq!(reported.remarks(), Vec::<String>::new());
        // The epoch at hand is repeated: what it came to the last time counts.
        let (shown, ..) = read(&["epoch {epoch} acc {acc}"], &[("acc", "max")], &["epoch 1 acc 9", "epoch 1 acc 2"]);
        assert_eq!(shown[0], "acc=2 of 1");
    }

    #[test]
    fn all_patterns_without_a_match_are_named_each_with_the_nearest_line() {
        let unmatched = |patterns: &[&str], log: &str| match read(patterns, &[], &[log]).2 {
            Some(NoMetrics::NoneMatches { patterns }) => {
                patterns.into_iter().map(|of| (of.pattern, of.nearest.unwrap_or_default())).collect()
            }
            other => {
                assert_eq!(other, None);
                Vec::new()
            }
        };
        let expected =
            |all: &[(&str, &str)]| all.iter().map(|(a, b)| ((*a).to_owned(), (*b).to_owned())).collect::<Vec<_>>();
        assert_eq!(
            unmatched(&["Loss: {loss}", "acc={acc}", "f1 {f1}", "auc {auc}"], "loss=0.5\nacc=0.9"),
            expected(&[("Loss: {loss}", "loss=0.5"), ("f1 {f1}", ""), ("auc {auc}", "")])
        );
        // Two patterns may be for the same number, and one of them is enough; NaN is a number.
        assert_eq!(unmatched(&["loss={loss}", "Loss: {loss}"], "loss=nan"), []);
        assert_eq!(unmatched(&["loss={loss}", "Loss: {loss}, {acc}"], "loss=1").len(), 1);
        assert_eq!(unmatched(&["peak {peak}"], "peak 12G"), expected(&[("peak {peak}", "peak 12G")]));
    }

    #[test]
    fn a_metric_keeps_its_first_unit() {
        let (shown, reported, _) = read(&["mem {mem}"], &[], &["mem 1.5 GB\nmem 900 MB\nmem 3 s\nmem 2"]);
        assert_eq!(shown, ["mem=0.9 of "]);
        assert_eq!(reported.remarks(), ["`mem`: `3 s` has another unit (2 times)"]);
        let (_, reported, _) = read(&["mem {mem}"], &[], &["mem 12G\nmem 13G"]);
        assert_eq!(reported.remarks(), ["`{mem}` in `mem {mem}`: the unit of `12G` is ambiguous (2 times)"]);
    }

    #[test]
    fn a_heading_is_of_its_own_part_and_one_that_printed_nothing_more_has_all_before_it() {
        let patterns = ["Epoch {epoch}", "val {val}"];
        let (shown, ..) = read(&patterns, &[("val", "min")], &["Epoch 1\nval 4\nEpoch 2", "val 9\nEpoch 2\nval 5"]);
        assert_eq!(shown[1], "val=4 of 1 2");
        let (shown, _, problem) = read(&patterns, &[], &["Epoch 1\nval 4", "done"]);
        assert_eq!((shown, problem), (vec!["val=4 of 1".to_owned()], None));
    }
}
