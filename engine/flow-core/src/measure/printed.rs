//! Turns a plain program's output, with the times at which it was read, into epochs and numbers. Works incrementally, on
//! a running program as well as on its stored log. Reads no file.

use std::collections::{BTreeMap, BTreeSet};

use super::{LINE_ENDS, Reported, Row, epochs::PRINTED, is_read, numbers::Parts};
use crate::{
    TimedEpoch,
    ansi::without_escapes,
    metrics::{Columns, Key, MetricRow, Metrics, MetricsFile, Nearest, NumberFiles, Pattern},
    reason::{NoMetrics, Unmatched},
};

/// In the log of a resumed attempt, marks the end of the output of each earlier, interrupted attempt.
pub const PART_ENDS: &str = "[flow: an attempt was ended here; the next one resumes from its checkpoint]";

/// An epoch that ended, with its numbers.
pub type EndedEpoch = (u32, BTreeMap<String, f64>);

/// Position in the epochs of a log.
#[derive(Clone, Debug, Default)]
pub struct Printed {
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

impl Printed {
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
    pub fn goes_on_from(&mut self, patterns: &[Pattern], earlier: &[u8], reported: &mut Reported) {
        let lines = split_lines(earlier);
        for attempt in lines.split(|line| *line == PART_ENDS.as_bytes()) {
            let (mut printed, mut told) = (Printed::default(), Reported::default());
            printed.hear(patterns, attempt.iter().copied(), 0.0, &mut told);
            self.found.append(&mut printed.found);
            reported.unread.join(std::mem::take(&mut told.unread));
            reported.goes_on_from(told);
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
    pub fn hear<'a>(
        &mut self,
        patterns: &[Pattern],
        lines: impl Iterator<Item = &'a [u8]>,
        now: f64,
        reported: &mut Reported,
    ) -> Vec<EndedEpoch> {
        let (mut ended, mut begun, mut rows) = (Vec::new(), 0, Vec::new());
        for line in lines {
            // An empty line after `\r` means that the line ended with `\r\n`.
            let above = std::mem::take(&mut self.redrawable);
            if line.is_empty() {
                reported.stay(above.into_iter());
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
        let unmatched = |(n, pattern): (usize, &Pattern)| Unmatched {
            pattern: pattern.text().to_owned(),
            nearest: self.nearest.get(&n).and_then(Nearest::line).map(str::to_owned),
        };
        let patterns: Vec<Unmatched> = patterns.iter().enumerate().filter(is_missing).map(unmatched).collect();
        (!patterns.is_empty()).then_some(NoMetrics::NoneMatches { patterns })
    }

    /// Adds numbers that were found in a file at `now`.
    pub fn take(
        &mut self,
        rows: impl Iterator<Item = MetricRow>,
        now: f64,
        reported: &mut Reported,
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
        reported: &mut Reported,
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
        reported: &mut Reported,
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
    pub fn end(&mut self, reported: &Reported) -> Option<EndedEpoch> {
        self.epoch.take().map(|(part, epoch)| (epoch, reported.of_epoch(part, epoch)))
    }
}

/// Splits a log into the lines that [`Printed::hear`] reads.
fn split_lines(log: &[u8]) -> Vec<&[u8]> {
    let lines = log.split_inclusive(|byte| LINE_ENDS.contains(byte));
    lines.map(|line| line.strip_suffix(b"\n").unwrap_or(line)).filter(|line| is_read(line)).collect()
}

/// Reads a program's files of numbers after its output. Returns the first problem of all places: a file is missing or
/// malformed, or one of them has no number.
pub fn read_numbers(
    metrics: &Metrics,
    printed: &Printed,
    files: &mut dyn NumberFiles,
    ended: bool,
    hide: impl Fn(String) -> String,
    reported: &mut Reported,
) -> Option<NoMetrics> {
    let mut problem = printed.unmatched(&metrics.stdout);
    let mut places: BTreeMap<String, String> =
        reported.names().map(|name| (name.clone(), PRINTED.to_owned())).collect();
    for file in &metrics.files {
        let mut columns = Columns::default();
        let place = format!("`{}`", hide(file.path().to_owned()));
        let mut of_file = FileRows::new(matches!(file, MetricsFile::TensorBoard(_)));
        let mut take = |mut rows: Vec<MetricRow>| {
            rows.iter_mut().for_each(|row| row.name = hide(std::mem::take(&mut row.name)));
            let new = of_file.new_names(&rows);
            reported.replace(new.iter().map(String::as_str), &place, &mut places);
            of_file.take(&rows, reported);
        };
        let read = file.read(files, ended, &mut take, &mut columns);
        reported.parts.insert(place, of_file.parts());
        reported.columns.insert(file.path().to_owned(), columns.hidden(&hide));
        problem = problem.or(read.err());
    }
    problem
}

/// The rows of a file, in order. `separate` metrics, such as TensorBoard tags, each have their own parts.
struct FileRows {
    separate: bool,
    names: BTreeSet<String>,
    all: BTreeMap<String, Parts>,
}

impl FileRows {
    fn new(separate: bool) -> FileRows {
        FileRows { separate, names: BTreeSet::new(), all: BTreeMap::new() }
    }

    /// Names that are new in these rows.
    fn new_names(&mut self, rows: &[MetricRow]) -> BTreeSet<String> {
        let mut new = BTreeSet::new();
        for row in rows {
            if !self.names.contains(&row.name) {
                self.names.insert(row.name.clone());
                new.insert(row.name.clone());
            }
        }
        new
    }

    fn take(&mut self, rows: &[MetricRow], reported: &mut Reported) {
        let separate = self.separate;
        for together in rows.chunk_by(|a, b| a.key == b.key && (!separate || a.name == b.name)) {
            let stream = if separate { &*together[0].name } else { "" };
            if !self.all.contains_key(stream) {
                self.all.insert(stream.to_owned(), Parts::default());
            }
            let Some(parts) = self.all.get_mut(stream) else { continue };
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
    Row { name: row.name, value: row.value, unit: row.unit, key: row.key, part, mean }
}

#[cfg(test)]
mod tests {
    use super::{super::gather, *};
    use crate::metrics::Summary;

    /// The summary of each metric and the epochs of a training run whose parts printed this, one line per second.
    fn read(patterns: &[&str], summary: &[(&str, &str)], parts: &[&str]) -> (Vec<String>, Reported, Option<NoMetrics>) {
        let stdout = patterns.iter().map(|pattern| Pattern::new(pattern).unwrap()).collect();
        let summary =
            summary.iter().map(|(name, of)| ((*name).to_owned(), Summary::parse(name, of).unwrap())).collect();
        let metrics = Metrics { stdout, summary, ..Metrics::default() };
        let (mut printed, mut reported) = (Printed::default(), Reported::of(Some(&metrics)));
        let (last, earlier) = parts.split_last().unwrap();
        let earlier: String = earlier.iter().map(|part| format!("{part}\n{PART_ENDS}\n")).collect();
        printed.goes_on_from(&metrics.stdout, earlier.as_bytes(), &mut reported);
        for (line, n) in split_lines(last.as_bytes()).into_iter().zip(1..) {
            printed.hear(&metrics.stdout, [line].into_iter(), f64::from(n), &mut reported);
        }
        let problem = read_numbers(&metrics, &printed, &mut NoFiles, true, |name| name, &mut reported);
        let gathered = gather(&reported, 0.0, 9.0, None);
        let shown = |(name, metric): (&String, &crate::Metric)| {
            let points = gathered.series.metrics.get(name).into_iter().flatten();
            let place = |point: &crate::Point| {
                let part = if point.part > 0 { format!("{}/", point.part) } else { String::new() };
                let epoch = point.key.epoch.map(|epoch| epoch.to_string());
                part + &epoch.or_else(|| Some(format!("@{}", point.key.step?))).unwrap_or_else(|| "·".to_owned())
            };
            format!("{name}={} of {}", metric.value, points.map(place).collect::<Vec<_>>().join(" "))
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
        let expected = ["acc=9 of 1 2 3 4 5 6", "epoch_time=1 of 5 6", "images_per_s=40 of 4 5 6", "lr=0.5 of "];
        assert_eq!((shown, problem), (expected.map(str::to_owned).to_vec(), None));
        let times: Vec<_> = reported.epochs.iter().map(|of| (of.epoch, of.began, of.ended)).collect();
        assert_eq!(times, [(4, 0.0, 1.0), (5, 1.0, 2.0), (6, 2.0, 3.0)]);
        assert_eq!(reported.latest()["acc"], 7.0);
        assert_eq!(reported.remarks(), Vec::<String>::new());
        // The present epoch is repeated: its last values count.
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
        // Two patterns may be for the same number, and one match is enough; NaN is a number.
        assert_eq!(unmatched(&["loss={loss}", "Loss: {loss}"], "loss=nan"), []);
        assert_eq!(unmatched(&["loss={loss}", "Loss: {loss}, {acc}"], "loss=1").len(), 1);
        assert_eq!(unmatched(&["peak {peak}"], "peak 12G"), expected(&[("peak {peak}", "peak 12G")]));
    }

    #[test]
    fn a_metric_keeps_its_first_unit() {
        let (shown, reported, _) = read(&["mem {mem}"], &[], &["mem 1.5 GB\nmem 900 MB\nmem 3 s\nmem 2"]);
        assert_eq!(shown, ["mem=0.9 of · ·"]);
        assert_eq!(reported.remarks(), ["`mem`: `3 s` has another unit (2 times)"]);
        let (_, reported, _) = read(&["mem {mem}"], &[], &["mem 12G\nmem 13G"]);
        assert_eq!(reported.remarks(), ["`{mem}` in `mem {mem}`: the unit of `12G` is ambiguous (2 times)"]);
    }

    #[test]
    fn a_heading_is_of_its_own_part_and_one_that_printed_nothing_more_has_all_before_it() {
        let patterns = ["Epoch {epoch}", "val {val}"];
        let (shown, ..) = read(&patterns, &[("val", "min")], &["Epoch 1\nval 4\nEpoch 2", "val 9\nEpoch 2\nval 5"]);
        assert_eq!(shown[1], "val=4 of 1 · 2");
        let (shown, _, problem) = read(&patterns, &[], &["Epoch 1\nval 4", "done"]);
        assert_eq!((shown, problem), (vec!["val=4 of 1".to_owned()], None));
    }

    #[test]
    fn a_second_training_is_a_part_of_its_own() {
        let log = "epoch 0 acc 0.8\nepoch 1 acc 0.9\nepoch 2 acc 0.7\nepoch 0 acc 0.1\nepoch 1 acc 0.2";
        let (shown, reported, _) = read(&["epoch {epoch} acc {acc}"], &[("acc", "max")], &[log]);
        assert_eq!(shown[0], "acc=0.9 of 0 1 2 1/0 1/1");
        let parts: Vec<_> = reported.epochs.iter().map(|of| (of.part, of.epoch)).collect();
        assert_eq!(parts, [(0, 0), (0, 1), (0, 2), (1, 0), (1, 1)]);
        assert!(reported.remarks()[0].starts_with("the epoch or step decreases once in what it printed"));
    }

    #[test]
    fn a_second_training_in_a_file_is_told_as_one_that_is_printed() {
        let step = |step: f64| Key { epoch: None, step: Some(step) };
        type Case<'a> = (&'a [(&'a str, Key)], bool, u32);
        let table: [Case<'_>; 6] = [
            (&[("acc", Key::of_epoch(0)), ("acc", Key::of_epoch(1)), ("acc", Key::of_epoch(0))], false, 1),
            (&[("acc", Key::of_epoch(1)), ("acc", Key::of_epoch(1)), ("acc", Key::of_epoch(2))], false, 0),
            (&[("loss", Key::of_epoch(1)), ("val", Key::of_epoch(0)), ("val", Key::of_epoch(1))], false, 0),
            (&[("lr", step(0.0)), ("lr", step(5.0)), ("lr", step(0.0)), ("lr", step(5.0)), ("lr", step(0.0))], true, 2),
            // Each TensorBoard tag starts separately.
            (&[("a", step(0.0)), ("a", step(9.0)), ("b", step(0.0)), ("b", step(9.0))], true, 0),
            (&[("a", step(0.0)), ("a", Key::default()), ("a", step(1.0))], true, 0),
        ];
        for (rows, separate, parts) in table {
            let row = |(name, key): &(&str, Key)| MetricRow {
                name: (*name).to_owned(),
                value: 1.0,
                unit: String::new(),
                key: *key,
            };
            let rows: Vec<MetricRow> = rows.iter().map(row).collect();
            let mut of_file = FileRows::new(separate);
            // Wherever a piece of the file ends.
            rows.chunks(2).for_each(|rows| of_file.take(rows, &mut Reported::default()));
            assert_eq!(of_file.parts(), parts, "{rows:?}");
        }
        let mut reported = Reported::default();
        reported.parts = [(PRINTED.to_owned(), 0), ("`log.csv`".to_owned(), 2)].into();
        let said = "the epoch or step decreases 2 times in `log.csv`, so its series have 3 parts; \
                    if it should hold one run only, let the program write a new file";
        assert_eq!(reported.remarks(), [said]);
    }

    #[test]
    fn a_line_of_the_validation_is_in_the_row_of_its_epoch() {
        let log = "epoch 1 loss 3\nepoch 1 val 4\nepoch 2 loss 2\nepoch 2 val 3";
        let (shown, reported, _) = read(&["epoch {epoch} loss {loss}", "epoch {epoch} val {val}"], &[], &[log]);
        assert_eq!(shown, ["epoch_time=2 of 2", "loss=2 of 1 2", "val=3 of 1 2"]);
        assert_eq!(reported.remarks(), Vec::<String>::new());
    }

    #[test]
    fn fractions_of_epochs_are_in_the_curve_and_times_are_of_whole_ones() {
        let log = "loss 2 epoch 0.5\nloss 1.5 epoch 0.99\neval 1.4 epoch 1.0\nloss 1.2 epoch 1.49\nloss 1 epoch 1.98\neval 1.1 epoch 2";
        let patterns = ["loss {loss} epoch {epoch}", "eval {eval} epoch {epoch}"];
        let (shown, reported, _) = read(&patterns, &[], &[log]);
        assert_eq!(shown, ["epoch_time=3 of 2", "eval=1.1 of 1 2", "loss=1 of 0.5 0.99 1.49 1.98"]);
        assert_eq!(reported.remarks(), Vec::<String>::new());
        // With 0.8, 1.6, 2.4, …, the time between whole epochs spans several.
        let log = "loss 2 epoch 1.2\nloss 2 epoch 2\nloss 2 epoch 2.8\nloss 2 epoch 4";
        let (shown, ..) = read(&patterns[..1], &[], &[log]);
        assert_eq!(shown, ["loss=2 of 1.2 2 2.8 4"]);
    }

    #[test]
    fn the_time_before_the_first_line_is_no_time_of_an_epoch() {
        let loss = "epoch {epoch} loss {loss}";
        let table: [(&[&str], &str, Option<f64>); 5] = [
            (&[loss], "start\nepoch 1 loss 3", None),
            (&[loss], "start\nepoch 10 loss 3\nepoch 20 loss 2", Some(1.0)),
            (&["epoch {epoch} takes {epoch_time:s}"], "start\nepoch 1 takes 0.25", Some(0.25)),
            (&["Epoch {epoch}", "loss {loss}"], "start\nEpoch 1\nwait\nloss 3", Some(2.0)),
            (&[loss], "epoch 1 loss 3\nepoch 1 loss 2", None),
        ];
        for (patterns, log, expected) in table {
            let (_, reported, _) = read(patterns, &[], &[log]);
            let gathered = gather(&reported, 0.0, 9.0, None);
            assert_eq!(gathered.metrics.get("epoch_time").map(|time| time.value), expected, "{log}");
        }
        // A barrier separates start-up from the first epoch.
        let (mut printed, mut reported) = (Printed::default(), Reported::default());
        printed.begins(1.0);
        printed.is_released(3.0);
        printed.hear(&[Pattern::new(loss).unwrap()], [&b"epoch 1 loss 3"[..]].into_iter(), 5.0, &mut reported);
        assert_eq!(gather(&reported, 1.0, 9.0, None).metrics["epoch_time"].value, 2.0);
    }

    #[test]
    fn values_without_an_epoch_keep_their_order() {
        let (shown, ..) = read(&["loss {loss}", "lr {lr}"], &[("loss", "min")], &["loss 3\nloss 1\nlr 0.1\nloss 2"]);
        assert_eq!(shown, ["loss=1 of · · ·", "lr=0.1 of "]);
    }

    #[test]
    fn a_progress_bar_leaves_what_it_drew_last() {
        let bar = "epoch 1 acc 1.0\repoch 1 acc 0.5\repoch 1 acc 0.6\nepoch 2 acc 0.9\repoch 2 acc 0.7\n";
        let (shown, ..) = read(&["epoch {epoch} acc {acc}"], &[("acc", "max")], &[bar]);
        assert_eq!(shown[0], "acc=0.7 of 1 2");
        let (shown, ..) = read(&["acc {acc}"], &[("acc", "max")], &["acc 1\racc 0.5\racc 0.6\nacc 0.7\r"]);
        assert_eq!(shown[0], "acc=0.7 of · ·");
        // `\r\n` ends a line.
        let (shown, ..) =
            read(&["epoch {epoch} acc {acc}"], &[("acc", "max")], &["epoch 1 acc 1\r\nepoch 1 acc 0.5\r\n"]);
        assert_eq!(shown[0], "acc=1 of 1");
    }
}
