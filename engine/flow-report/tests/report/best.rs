//! `flow/best`: the best point, and the points that cannot be distinguished from it.

use crate::common::analyses::{add, metric, said};
use crate::common::{ResultExt, add_table, input, number, published, result, run, text, view, whole};
use serde_json::json;

#[test]
fn what_is_against_the_best_is_what_a_reader_takes_from_it() {
    let of = |lr: f64, top1: f64| result("s", &[("lr", json!(lr))], 1).metric("top1", top1, "ratio");
    let mut input = input(vec![("s", view("torch/train", None, vec![of(0.01, 0.7146), of(0.03, 0.7084)]))]);
    add_table(&mut input, "t", json!({"from": "s", "rows": "lr", "columns": ["top1"]}));
    let out = add(&mut input, "best", "best", json!({"table": "t", "column": "top1"}));
    let shown = text(&out, "analysis.en.md");
    // 71.5 minus 70.8 would be 0.7.
    assert!(shown.contains("71.46%") && shown.contains("70.84%") && shown.contains("−0.6 |"), "{shown}");
}

#[test]
fn the_best_is_told_from_others_where_repetitions_tell() {
    let of = |lr: f64, losses: &'static [f64]| {
        losses
            .iter()
            .enumerate()
            .map(move |(n, loss)| result("s", &[("lr", json!(lr)), ("n", json!(n))], 1).metric("loss", *loss, ""))
    };
    let results =
        of(0.01, &[0.50, 0.52, 0.51]).chain(of(0.03, &[0.30, 0.34, 0.31])).chain(of(0.1, &[0.32, 0.31, 0.33]));
    let mut input = input(vec![("s", view("torch/train", None, results.collect()))]);
    add_table(&mut input, "t", json!({"from": "s", "rows": "lr", "over": "n", "columns": ["loss"]}));
    let out = add(&mut input, "best", "best", json!({"table": "t", "column": "loss", "goal": "min"}));
    assert_eq!((metric(&out, "lr"), metric(&out, "instance"), metric(&out, "tied")), (0.03, 3.0, 1.0));
    let [english, chinese] = said(&input, &["best"]);
    let lead = "is 0.3167, at lr=0.03, 1% below the next, 0.3200 at lr=0.1. \
                The repetitions cannot tell it from lr=0.1; the other one is worse by more than noise (paired \
                t-tests; next: p = 1.00).";
    assert!(english.contains(lead), "{english}");
    let lead = "为 0.3167，取值为 lr=0.03，比其次的 0.3200（lr=0.1）低 1%。重复运行尚无法将其与 lr=0.1 区分；其余 1 个点更差，且差距超出噪声（配对 t 检验；与其次者：p = 1.00）。";
    assert!(chinese.contains(lead), "{chinese}");
    // A loss needs no `goal:`.
    let out = add(&mut input, "best", "by_name", json!({"table": "t", "column": "loss"}));
    assert_eq!(metric(&out, "lr"), 0.03);
    let [english, _] = said(&input, &["by_name"]);
    assert!(english.contains("The lowest loss"), "{english}");
}

/// Seeds differ by more than learning rates, and learning rates differ by the same amount for each seed: an unpaired
/// test finds p = 0.9 and a paired one p = 0.001. The best point is tested once, by the paired test, and every sentence
/// names it.
#[test]
fn a_report_tests_two_points_in_one_way() {
    let losses = [[0.300, 0.500, 0.700, 0.400], [0.331, 0.530, 0.731, 0.432], [0.360, 0.561, 0.760, 0.459]];
    let of = losses.into_iter().zip([0.01, 0.03, 0.1]).flat_map(|(losses, lr)| {
        let of = move |(n, loss)| result("s", &[("lr", json!(lr)), ("n", json!(n))], 1).metric("loss", loss, "");
        losses.into_iter().enumerate().map(of)
    });
    let mut input = input(vec![("s", view("torch/train", None, of.collect()))]);
    add_table(&mut input, "t", json!({"from": "s", "rows": "lr", "over": "n", "columns": ["loss"]}));
    let [alone, _] = said(&input, &[]);
    assert!(alone.contains("larger than the run-to-run spread (paired t-test, p"), "{alone}");
    add(&mut input, "best", "best", json!({"table": "t", "column": "loss", "goal": "min"}));
    let [english, chinese] = said(&input, &["best"]);
    assert!(english.contains("worse by more than noise (paired t-tests)"), "{english}");
    assert!(chinese.contains("差距超出噪声（配对 t 检验）"), "{chinese}");
    for told in [&alone, &english] {
        assert!(!told.contains("F-test") && !told.contains("noise of repetitions"), "{told}");
    }
}

/// The second place is worse for sure, the third scatters too much: more runs are no matter of the second.
#[test]
fn what_is_told_needs_no_more_runs() {
    let losses = [[0.300, 0.312, 0.321, 0.303], [0.351, 0.361, 0.372, 0.352], [0.20, 0.60, 0.30, 0.40]];
    let of = losses.into_iter().zip([1, 2, 3]).flat_map(|(losses, lr)| {
        let of = move |(n, loss)| result("s", &[("lr", json!(lr)), ("n", json!(n))], 1).metric("loss", loss, "");
        losses.into_iter().enumerate().map(of)
    });
    let mut input = input(vec![("s", view("torch/train", None, of.collect()))]);
    add_table(&mut input, "t", json!({"from": "s", "rows": "lr", "over": "n", "columns": ["loss"]}));
    add(&mut input, "best", "best", json!({"table": "t", "column": "loss"}));
    for analyses in [&[][..], &["best"]] {
        let [told, _] = said(&input, analyses);
        assert!(told.contains("cannot tell it from lr=3; the other one is worse"), "{told}");
        assert!(!told.contains("To tell it from"), "{told}");
    }
}

#[test]
fn points_that_repetitions_do_not_tell_apart_are_counted() {
    let of = |(model, c): (&'static str, u32)| {
        (0..3).map(move |n| {
            let mut one = result("s", &[("model", json!(model)), ("c", json!(c))], 1);
            one.repetition = Some(n as u32);
            one.metric("loss", [0.3, 0.5, 0.1][n] + [0.0, 0.1][n % 2] * f64::from(c), "")
        })
    };
    let points = [("svm", 1), ("svm", 2), ("tree", 3)];
    let mut input = input(vec![("s", view("torch/train", None, points.into_iter().flat_map(of).collect()))]);
    add_table(&mut input, "t", json!({"from": "s", "rows": ["c", "model"], "columns": ["loss"]}));
    let out = add(&mut input, "best", "best", json!({"table": "t", "column": "loss"}));
    let [english, chinese] = said(&input, &["best"]);
    let others = "at c=1, svm; the same at c=2, svm. The repetitions cannot tell it from any of the 2 other points \
                  (paired t-tests; next: p = 0.85). With 3 repetitions, even a large difference may be chance. To tell it from c=2, svm, each point needs about 28 more runs, if the \
                  difference is real.";
    assert!(english.contains(others), "{english}");
    let others = "取值为 c=1, svm，c=2, svm 也相同。重复运行尚无法将其与其余 2 个点区分（配对 t 检验；与其次者：p = 0.85）。只重复 3 次，再大的差异也可能出于偶然。";
    assert!(chinese.contains(others), "{chinese}");

    // The table shows medians, but tests compare means.
    let shown = ["analysis.en.md", "analysis.zh.md"].map(|path| text(&out, path));
    assert!(shown[0].contains("The table shows medians and their differences; p compares means."), "{}", shown[0]);
    assert!(shown[1].contains("表中所示为中位数及其差，p 比较的是均值。"), "{}", shown[1]);
}

/// Eleven points within the noise and two far beyond it, of which twelve are listed.
#[test]
fn points_that_are_cut_off_are_called_what_they_are() {
    let of = |n: usize| {
        let level = if n < 11 { 0.5 + 0.001 * n as f64 } else { 5.0 + n as f64 };
        (0..3).map(move |seed| {
            let noise = [0.0, 0.1, -0.1][(n + seed) % 3] * (1.0 + 0.1 * n as f64);
            result("s", &[("lr", json!(n)), ("seed", json!(seed))], 1).metric("loss", level + noise, "")
        })
    };
    let mut input = input(vec![("s", view("torch/train", None, (0..13).flat_map(of).collect()))]);
    add_table(&mut input, "t", json!({"from": "s", "rows": "lr", "over": "seed", "columns": ["loss"]}));
    let out = add(&mut input, "best", "best", json!({"table": "t", "column": "loss"}));
    assert_eq!(metric(&out, "tied"), 10.0);
    let [english, _] = said(&input, &["best"]);
    assert!(
        english.contains("cannot tell it from 10 points; only lr=11 and lr=12 are worse by more than noise"),
        "{english}"
    );
    let shown = ["analysis.en.md", "analysis.zh.md"].map(|path| text(&out, path));
    let cut = "Not listed: 1 worse point.";
    assert!(shown[0].contains(cut), "{}", shown[0]);
    assert!(shown[0].contains("| cannot tell "), "{}", shown[0]);
    assert!(shown[1].contains("未列出：1 个更差的点。"), "{}", shown[1]);
}

/// The spread is on the first screen too. A difference has no more digits than the two values.
#[test]
fn the_table_of_points_has_spreads_and_no_finer_differences() {
    let losses = [[0.000043, 0.000055, 0.000062], [0.0000441, 0.0000552, 0.0000608]];
    let of = losses.into_iter().zip([0.01, 0.03]).flat_map(|(losses, lr)| {
        let of =
            move |(seed, loss)| result("s", &[("lr", json!(lr)), ("seed", json!(seed))], 1).metric("loss", loss, "");
        losses.into_iter().enumerate().map(of)
    });
    let mut input = input(vec![("s", view("torch/train", None, of.collect()))]);
    add_table(&mut input, "t", json!({"from": "s", "rows": "lr", "over": "seed", "columns": ["loss"]}));
    let out = add(&mut input, "best", "best", json!({"table": "t", "column": "loss"}));
    let shown = text(&out, "analysis.en.md");
    assert!(shown.contains("0.000053 ± 0.000010"), "{shown}");
    assert!(shown.contains(" 0.000000 |"), "the two read the same: {shown}");
    let with = json!({"sections": [{"table": "t", "analyses": ["best"]}]});
    let report = whole(&run("report", with, &input).expect("a report"), "report.md");
    let screen = report.split("<details>").next().unwrap_or_default();
    assert!(screen.contains("0.000053 ± 0.000010"), "{report}");
    // Two values that read the same have two more digits in the answer.
    assert!(screen.contains("is 0.00005333, at lr=0.01, 0.1% below the next, 0.00005337 at lr=0.03."), "{report}");
}

#[test]
fn what_was_measured_once_is_not_told_from_noise() {
    let times = published(include_str!("published/feb08-mobilenet_v2-4gpu.csv"));
    let results = times.iter().filter_map(|row| {
        let batch: u32 = row["batch"].parse().ok()?;
        Some(result("s", &[("batch", json!(batch))], 4).epoch_time(number(row, "epoch_s")?))
    });
    let mut input = input(vec![("s", view("torch/train", None, results.collect()))]);
    add_table(&mut input, "t", json!({"from": "s", "rows": "batch", "columns": ["epoch_time"]}));
    let out = add(&mut input, "best", "best", json!({"table": "t", "column": "epoch_time", "goal": "min"}));
    assert_eq!((metric(&out, "batch"), metric(&out, "value"), metric(&out, "tied")), (128.0, 11.3, 1.0));
    let [english, _] = said(&input, &["best"]);
    assert!(
        english.contains("is 11.3 s, at batch=128. The same at batch=256. Each point was measured once"),
        "{english}"
    );
}
