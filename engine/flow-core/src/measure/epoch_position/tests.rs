//! Numbers that a program printed: parts, redrawn lines, patterns.

use super::{super::gather, *};
use crate::metrics::Summary;

/// The summary of each metric and the epochs of a training run whose parts printed this, one line per second.
fn read(
    patterns: &[&str],
    summary: &[(&str, &str)],
    parts: &[&str],
) -> (Vec<String>, ReportedNumbers, Option<NoMetrics>) {
    let stdout = patterns.iter().map(|pattern| Pattern::new(pattern).unwrap()).collect();
    let summary = summary.iter().map(|(name, of)| ((*name).to_owned(), Summary::parse(name, of).unwrap())).collect();
    let metrics = Metrics { stdout, summary, ..Metrics::default() };
    let (mut printed, mut reported) = (EpochPosition::default(), ReportedNumbers::of(Some(&metrics)));
    let (last, earlier) = parts.split_last().unwrap();
    let earlier: String = earlier.iter().map(|part| format!("{part}\n{PART_ENDS}\n")).collect();
    printed.resume_from(&metrics.stdout, earlier.as_bytes(), &mut reported);
    for (line, n) in lines(last.as_bytes()).zip(1..) {
        printed.read_lines(&metrics.stdout, [line].into_iter(), f64::from(n), &mut reported);
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
        let mut of_file = FileRows { separate, ..FileRows::default() };
        // Wherever a piece of the file ends.
        rows.chunks(2).for_each(|rows| of_file.take(rows, &mut ReportedNumbers::default()));
        assert_eq!(of_file.parts(), parts, "{rows:?}");
    }
    let mut reported = ReportedNumbers::default();
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
    let (mut printed, mut reported) = (EpochPosition::default(), ReportedNumbers::default());
    printed.begins(1.0);
    printed.is_released(3.0);
    printed.read_lines(&[Pattern::new(loss).unwrap()], [&b"epoch 1 loss 3"[..]].into_iter(), 5.0, &mut reported);
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
    let (shown, ..) = read(&["epoch {epoch} acc {acc}"], &[("acc", "max")], &["epoch 1 acc 1\r\nepoch 1 acc 0.5\r\n"]);
    assert_eq!(shown[0], "acc=1 of 1");
}
