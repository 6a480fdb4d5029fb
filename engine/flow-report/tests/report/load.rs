//! Findings of a report about load over time.

use crate::common::{ResultExt, add_table, bullets, feb08, honest, input, result, run, text, timed, view, whole};
use serde_json::{Value, json};

/// The findings about trainings with this CPU use at the ends of epochs, and 25% otherwise.
fn said(at_ends: &[f64], columns: &Value) -> String {
    let series = |at_ends: f64| {
        let mut series = feb08::series();
        series.epoch_times = timed(&[(1, 0.0, 3.0), (2, 4.5, 7.5), (3, 9.0, 12.0)]);
        let inside = |t: f64| series.epoch_times.iter().any(|of| t >= of.began && t < of.ended);
        let cpu = (0..480).map(|n| f64::from(n) / 40.0).map(|t| (t, if inside(t) { 0.25 } else { at_ends }));
        series.samples = [("cpu".to_owned(), cpu.collect())].into();
        Some(series)
    };
    let results = (0..at_ends.len()).map(|n| result("s", &[("batch", json!(8 << n))], 1).epoch_time(3.0));
    let mut solo = view("torch/train", None, results.collect());
    solo.series = at_ends.iter().map(|at_ends| series(*at_ends)).collect();
    let mut input = input(vec![("s", solo)]);
    add_table(&mut input, "t", json!({"from": "s", "columns": columns}));
    let section = json!({"table": "t", "charts": [{"load": {"batch": 8}}]});
    let with = json!({"languages": ["en", "zh"], "sections": [section]});
    let report = text(&run("report", with, &input).expect("a report"), "report.md");
    honest(&report);
    let of_ends = |line: &&str| line.contains("ends of epochs") || line.contains("各轮末尾");
    bullets(&report).concat().into_iter().filter(of_ends).collect::<Vec<_>>().join("\n")
}

#[test]
fn bursts_at_the_ends_of_epochs_are_told_of_the_results_that_have_them() {
    let time = json!(["epoch_time"]);
    let told = [&[0.9][..], &[0.9, 0.8], &[0.2, 0.9, 0.8], &[0.2, 0.9]].map(|at_ends| said(at_ends, &time));
    insta::assert_snapshot!(told.join("\n"), @r"
    - In `s[batch=8]`, CPU use is higher at the ends of epochs than in their middle half: 75.3% against 25.0%. An end is the last tenth of an epoch and the gap before the next.
    - `s[batch=8]` 各轮末尾的 CPU 利用率高于轮中段（中间一半）：75.3% vs. 25.0%。末尾指一轮的最后十分之一以及到下一轮开始为止的间隔。
    - In every result, CPU use is higher at the ends of epochs than in their middle half, most in `s[batch=8]`: 75.3% against 25.0%. An end is the last tenth of an epoch and the gap before the next.
    - 所有结果中，各轮末尾的 CPU 利用率均高于轮中段（中间一半），差值最大的是 `s[batch=8]`：75.3% vs. 25.0%。末尾指一轮的最后十分之一以及到下一轮开始为止的间隔。
    - In some results, CPU use is higher at the ends of epochs than in their middle half, most in `s[batch=16]`: 75.3% against 25.0%. An end is the last tenth of an epoch and the gap before the next.
    - 部分结果中，各轮末尾的 CPU 利用率高于轮中段（中间一半），差值最大的是 `s[batch=16]`：75.3% vs. 25.0%。末尾指一轮的最后十分之一以及到下一轮开始为止的间隔。
    - In `s[batch=16]`, CPU use is higher at the ends of epochs than in their middle half: 75.3% against 25.0%. An end is the last tenth of an epoch and the gap before the next.
    - `s[batch=16]` 各轮末尾的 CPU 利用率高于轮中段（中间一半）：75.3% vs. 25.0%。末尾指一轮的最后十分之一以及到下一轮开始为止的间隔。
    ");
}

#[test]
fn the_load_that_is_drawn_is_of_a_result_that_the_table_shows() {
    let results = [8, 16, 32].map(|batch| result("s", &[("batch", json!(batch))], 1).epoch_time(3.0));
    let mut solo = view("torch/train", None, results.into());
    solo.series = vec![Some(feb08::series()); 3];
    let drawn = |of: Value| {
        let mut input = input(vec![("s", solo.clone())]);
        add_table(&mut input, "t", of);
        let section = json!({"table": "t", "charts": [{"load": {}}]});
        let with = json!({"languages": ["en"], "sections": [section]});
        let report = whole(&run("report", with, &input).expect("a report"), "report.md");
        let picture = report.lines().find(|line| line.starts_with("![Load")).map(str::to_owned);
        picture.expect("a picture of the load")
    };
    let all = drawn(json!({"from": "s", "columns": ["epoch_time"]}));
    assert!(all.starts_with("![Load and memory over time of s[batch=8]"), "{all}");
    let some = drawn(json!({"from": "s", "where": {"batch": 16}, "columns": ["epoch_time"]}));
    assert!(some.starts_with("![Load and memory over time of s[batch=16]"), "{some}");
}

#[test]
fn whether_larger_batches_use_the_gpu_better_is_said_and_held_against_what_was_published() {
    let said = |loads: [f64; 3]| {
        let at = |(batch, load): (u32, f64)| {
            result("s", &[("batch", json!(batch))], 1).noisy("epoch_time", 9.0, "s", 0.1, 3).gpu_load(load, 0.2)
        };
        let results = [16, 64, 256].into_iter().zip(loads).map(at);
        let mut input = input(vec![("s", view("torch/train", None, results.collect()))]);
        let csv = "batch,gpu_load_pct\n16,50\n256,90\n";
        input.files.insert("/somewhere/published.csv".into(), csv.into());
        let reference = json!({"file": "/somewhere/published.csv", "columns": {"gpu_load": "gpu_load_pct [%]"}});
        let with = json!({"from": "s", "rows": "batch", "columns": ["epoch_time", "gpu_load"], "reference": reference});
        add_table(&mut input, "t", with);
        let with = json!({"languages": ["en", "zh"], "sections": [{"table": "t"}]});
        let report = text(&run("report", with, &input).expect("a report"), "report.md");
        honest(&report);
        let of_load = |line: &&str| line.contains("rises with batch size") || line.contains("随批大小上升");
        report
            .lines()
            .filter(of_load)
            .map(|line| line.split_whitespace().collect::<Vec<_>>().join(" "))
            .collect::<Vec<_>>()
    };
    insta::assert_snapshot!(said([0.52, 0.75, 0.93]).join("\n"), @r"
    | GPU utilisation rises with batch size, from 50% at 16 to 90% at 256. | GPU utilisation rises with batch size, from 52.0% at 16 to 93.0% at 256. | yes |
    - GPU utilisation rises with batch size, from 52.0% at 16 to 93.0% at 256.
    | GPU 利用率随批大小上升：16 时为 50%，256 时为 90%。 | GPU 利用率随批大小上升：16 时为 52.0%，256 时为 93.0%。 | 是 |
    - GPU 利用率随批大小上升：16 时为 52.0%，256 时为 93.0%。
    ");
    insta::assert_snapshot!(said([0.974, 0.988, 0.97]).join("\n"), @r"
    | GPU utilisation rises with batch size, from 50% at 16 to 90% at 256. | — | no, not found |
    | GPU 利用率随批大小上升：16 时为 50%，256 时为 90%。 | — | 否，未出现 |
    ");
}
