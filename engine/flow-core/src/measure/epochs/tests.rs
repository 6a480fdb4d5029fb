//! Which epochs count, and the summary of a series. Reads no text.

use super::*;

fn reported(times: &[(u32, f64, f64)]) -> ReportedNumbers {
    let mut reported = ReportedNumbers { epochs: timed(times), ..ReportedNumbers::default() };
    for (e, start, end) in times {
        reported.number(row("epoch_time", end - start, Some(*e), true));
        reported.number(row("loss", 1.0 / f64::from(*e), Some(*e), false));
    }
    reported
}

fn timed(times: &[(u32, f64, f64)]) -> Vec<TimedEpoch> {
    times.iter().map(|&(epoch, began, ended)| TimedEpoch { part: 0, epoch, began, ended }).collect()
}

fn row(name: &str, value: f64, epoch: Option<u32>, mean: bool) -> Row {
    let key = epoch.map(Key::of_epoch).unwrap_or_default();
    Row { of: MetricRow { name: name.to_owned(), value, unit: "s".to_owned(), key }, part: 0, mean }
}

/// Epochs and values of a metric.
fn curve(gathered: &CountedMetrics, metric: &str) -> Vec<(f64, f64)> {
    gathered.series.metrics[metric].iter().map(|point| (point.key.epoch.unwrap_or(-1.0), point.value)).collect()
}

#[test]
fn the_first_epoch_warms_up() {
    let g = gather(&reported(&[(1, 0.0, 5.0), (2, 5.0, 7.0), (3, 7.0, 11.0)]), 0.0, 12.0, None);
    assert_eq!(g.metrics["epoch_time"].value, 3.0);
    assert_eq!(g.metrics["epoch_time"].epochs, Some(2));
    assert_eq!(g.metrics["loss"].value, 1.0 / 3.0);
    assert_eq!(g.spans, [(5.0, 7.0), (7.0, 11.0)]);
}

#[test]
fn the_first_epoch_is_the_first_that_was_told() {
    for from in [0, 5] {
        let g = gather(&reported(&[(from, 0.0, 5.0), (from + 1, 5.0, 7.0), (from + 2, 7.0, 11.0)]), 0.0, 12.0, None);
        assert_eq!(g.metrics["epoch_time"].value, 3.0, "from {from}");
        assert_eq!(g.spans, [(5.0, 7.0), (7.0, 11.0)], "from {from}");
        let mut untimed = ReportedNumbers::default();
        for (n, value) in [(from, 100.0), (from + 1, 2.0), (from + 2, 4.0)] {
            untimed.number(row("step_time", value, Some(n), true));
        }
        assert_eq!(gather(&untimed, 0.0, 12.0, None).metrics["step_time"].value, 3.0, "from {from}");
    }
}

#[test]
fn of_epochs_whose_lines_came_at_once_only_what_is_not_known_is_said() {
    let mut reported = ReportedNumbers { at_once: true, ..ReportedNumbers::default() };
    assert!(reported.remarks()[0].starts_with("how long its epochs took is unknown, because several"));
    reported.number(row("epoch_time", 0.2, Some(1), true));
    assert!(reported.remarks()[0].starts_with("when its epochs ran is unknown, because several"));
    let epochs = |seconds| vec![TimedEpoch { part: 0, epoch: 1, began: 5.0, ended: 5.0 + seconds }];
    for (seconds, remarks) in [(0.3, 0), (30.0, 1)] {
        let reported = ReportedNumbers { at_once: true, epochs: epochs(seconds), ..ReportedNumbers::default() };
        assert_eq!(reported.remarks().len(), remarks, "{seconds}");
    }
}

#[test]
fn a_metric_comes_to_the_value_that_is_said() {
    let mut reported = ReportedNumbers::default();
    for (epoch, acc, loss) in [(1, 0.6, 0.9), (2, 0.9, 0.3), (3, f64::NAN, 0.2), (4, 0.9, 0.5), (5, 0.7, 0.4)] {
        // A value that a progress bar overwrote does not count.
        reported.take(row("acc", 1.0, Some(epoch), false), true);
        reported.number(row("acc", acc, Some(epoch), false));
        reported.number(row("loss", loss, Some(epoch), false));
        reported.number(row("step", loss * 10.0, None, false));
    }
    reported.number(row("lr", 0.1, Some(1), false));
    let mut value = |metric: &str, summary: &str| {
        reported.summary = [(metric.to_owned(), Summary::parse(metric, summary).unwrap())].into();
        let value = gather(&reported, 0.0, 9.0, None).metrics.get(metric).map(|metric| metric.value);
        (value, reported.remarks())
    };
    for (metric, summary, expected) in [
        ("acc", "last", 0.7),
        ("acc", "max", 0.9),
        ("acc", "min", 0.6),
        ("loss", "min", 0.2),
        ("loss", "at max acc", 0.3),
        ("acc", "at min loss", f64::NAN),
        ("step", "max", 9.0),
        ("step", "min", 2.0),
    ] {
        let (found, remarks) = value(metric, summary);
        assert_eq!(found.map(f64::to_bits), Some(expected.to_bits()), "{metric} {summary}");
        assert_eq!(remarks, Vec::<String>::new());
    }
    assert_eq!(value("lr", "at max acc").1, ["`lr` has no value: none was printed at the epoch with the max of `acc`"]);
    let known = "there is `acc`, `loss`, `lr`, `step`";
    assert_eq!(value("ac", "max").1, [format!("`summary` names `ac`, which was not found; {known}")]);
    assert_eq!(value("loss", "at max ac").1, [format!("`summary` names `ac`, which was not found; {known}")]);
}

#[test]
fn of_an_epoch_the_last_number_counts() {
    let mut reported = ReportedNumbers::default();
    for (epoch, value) in [(1, 9.0), (2, 5.0), (2, 1.0), (3, 3.0)] {
        reported.number(row("step_time", value, Some(epoch), true));
    }
    let g = gather(&reported, 0.0, 6.0, None);
    assert_eq!((g.metrics["step_time"].value, g.metrics["step_time"].epochs), (2.0, Some(2)));
    assert_eq!(curve(&g, "step_time"), [(1.0, 9.0), (2.0, 1.0), (3.0, 3.0)]);
}

#[test]
fn epochs_without_end_are_not_kept() {
    let mut reported = ReportedNumbers::default();
    for epoch in 0..=MOST_EPOCHS as u32 {
        let at = f64::from(epoch);
        assert_eq!(
            reported.epoch(TimedEpoch { part: 0, epoch, began: at, ended: at + 1.0 }),
            epoch < MOST_EPOCHS as u32
        );
        reported.number(row("loss", at, Some(epoch), false));
    }
    let g = gather(&reported, 0.0, 1e6, None);
    assert_eq!((g.series.epoch_times.len(), g.series.metrics["loss"].len()), (MOST_EPOCHS, MOST_EPOCHS));
    assert_eq!(g.metrics["loss"].value, MOST_EPOCHS as f64, "the last is the last");
}

#[test]
fn work_is_between_the_first_epoch_and_the_last() {
    let all = reported(&[(1, 1.0, 3.0), (2, 3.0, 4.0), (3, 4.0, 5.0)]);
    assert_eq!((all.at_work(true), all.at_work(false)), (Some((3.0, 5.0)), Some((3.0, f64::INFINITY))));
    assert_eq!(reported(&[(1, 1.0, 3.0)]).at_work(true), Some((1.0, 3.0)));
    assert_eq!(
        (ReportedNumbers::default().at_work(true), ReportedNumbers { at_once: true, ..all }.at_work(true)),
        (None, None)
    );
}

#[test]
fn an_only_epoch_counts() {
    let g = gather(&reported(&[(1, 0.0, 5.0)]), 0.0, 6.0, None);
    assert_eq!((g.metrics["epoch_time"].value, g.metrics["epoch_time"].sd), (5.0, None));
}

#[test]
fn wall_time_is_start_up_epochs_and_end() {
    let phases = |times: &[_]| gather(&reported(times), 1.0, 15.0, None).phases;
    let is = |before_s, epochs, period_s, after_s| Some(Phases { before_s, epochs, period_s, after_s });
    assert_eq!(phases(&[(1, 1.0, 5.0), (2, 5.5, 7.5), (3, 8.0, 10.0)]), is(1.5, 3, 2.5, 5.0));
    assert_eq!(phases(&[(1, 4.0, 5.0)]), is(3.0, 1, 1.0, 10.0));
    assert_eq!(phases(&[]), None);
}

#[test]
fn only_epochs_wholly_inside_the_window_count() {
    let times = [(1, 0.0, 5.0), (2, 5.0, 7.0), (3, 7.0, 11.0), (4, 11.0, 12.0)];
    let g = gather(&reported(&times), 0.0, 12.0, Some((4.0, 11.5)));
    assert_eq!((g.metrics["epoch_time"].value, g.in_window), (3.0, 2));
    let g = gather(&reported(&times), 0.0, 12.0, Some((8.0, 10.0)));
    assert_eq!((g.metrics.get("epoch_time"), g.in_window), (None, 0));
    assert_eq!(g.metrics["loss"].value, 0.25, "what the model learned does not depend on the window");
    assert_eq!(g.spans, [(8.0, 10.0)]);
}

#[test]
fn epochs_are_timed_from_outside_where_the_program_is_silent() {
    let reported =
        ReportedNumbers { epochs: timed(&[(1, 0.0, 3.0), (2, 3.0, 4.0), (3, 4.0, 6.0)]), ..ReportedNumbers::default() };
    let g = gather(&reported, 0.0, 6.0, None);
    assert_eq!((g.metrics["epoch_time"].value, &*g.metrics["epoch_time"].unit), (1.5, "s"));
    assert_eq!(curve(&g, "epoch_time"), [(1.0, 3.0), (2.0, 1.0), (3.0, 2.0)]);
}

#[test]
fn a_program_without_times_of_its_epochs_still_has_means() {
    let gathered = |rows: &[(f64, Option<u32>)]| {
        let mut reported = ReportedNumbers::default();
        rows.iter().for_each(|(value, epoch)| reported.number(row("images_per_s", *value, *epoch, true)));
        gather(&reported, 0.0, 9.0, None).metrics["images_per_s"].value
    };
    assert_eq!(gathered(&[(10.0, Some(1)), (20.0, Some(2)), (40.0, Some(3))]), 30.0);
    assert_eq!(gathered(&[(7.0, None)]), 7.0);
}

#[test]
fn times_of_epochs_that_a_buffer_held_back_are_left_out() {
    let epochs = timed(&[(1, 0.0, 9.0), (2, 9.0, 9.0), (3, 9.0, 9.0)]);
    let mut reported = ReportedNumbers { epochs, at_once: true, ..ReportedNumbers::default() };
    reported.number(row("loss", 0.5, Some(3), false));
    let g = gather(&reported, 0.0, 9.0, None);
    assert_eq!((g.metrics.get("epoch_time"), g.spans.len(), g.series.epoch_times.len()), (None, 0, 0));
    assert_eq!((g.metrics["loss"].value, reported.remarks().len()), (0.5, 1));
}

#[test]
fn a_loss_that_diverged_is_told() {
    let mut reported = ReportedNumbers::default();
    for (epoch, value) in [(1, 0.7), (2, f64::NAN), (3, 0.5)] {
        reported.number(row("loss", value, Some(epoch), false));
    }
    assert_eq!(reported.remarks(), Vec::<String>::new(), "it recovered");
    reported.number(row("loss", f64::NAN, Some(4), false));
    reported.number(row("loss", f64::NAN, Some(5), false));
    assert!(gather(&reported, 0.0, 9.0, None).metrics["loss"].value.is_nan());
    assert_eq!(reported.remarks(), ["`loss` is NaN from epoch 4 on"]);
}

#[test]
fn the_best_of_a_long_series_is_of_all_that_was_printed() {
    let mut reported = ReportedNumbers::default();
    let rows = MOST_POINTS as u32 + 50_000;
    for epoch in 0..rows {
        let acc = if epoch == 120_000 { 0.9 } else { 0.1 };
        reported.number(row("acc", acc, Some(epoch), false));
        reported.number(row("loss", f64::from(epoch), Some(epoch), false));
    }
    reported.summary = [("acc", "max"), ("loss", "at max acc")]
        .map(|(name, of)| (name.to_owned(), Summary::parse(name, of).unwrap()))
        .into();
    let g = gather(&reported, 0.0, 1e6, None);
    assert_eq!(g.metrics["acc"].value, 0.9);
    assert_eq!(g.metrics.get("loss").map(|metric| metric.value), None, "its row is not kept");
    assert_eq!(reported.caveats(), [Caveat::FirstValues { kept: 100_000, printed: 150_000 }]);
    let expected = [
        "its series keep the first 100000 of 150000 values; last, min and max cover all of them",
        "`loss` has no value: none is kept at the epoch with the max of `acc`",
    ];
    assert_eq!(reported.remarks(), expected);
}

#[test]
fn all_values_of_an_epoch_count_for_its_best_and_the_last_is_its_row() {
    let mut reported = ReportedNumbers::default();
    for value in [2.0, 1.5, 1.8] {
        reported.number(row("loss", value, Some(1), false));
    }
    reported.summary = [("loss".to_owned(), Summary::parse("loss", "min").unwrap())].into();
    let g = gather(&reported, 0.0, 9.0, None);
    assert_eq!((g.metrics["loss"].value, curve(&g, "loss")), (1.5, vec![(1.0, 1.8)]));
}
