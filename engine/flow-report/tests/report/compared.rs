//! Statements about two versions are supported by all rows together, and by repetitions.

use crate::common::{ResultExt, add_table, bullets, input, reported, result, run, text, view};
use flow_core::StepResult;
use serde_json::json;

/// The report on the column of these results: version v7 against v11 by batch size.
fn compared(column: &str, results: Vec<StepResult>) -> String {
    let mut input = input(vec![("s", view("torch/train", None, results))]);
    add_table(&mut input, "t", json!({"from": "s", "rows": "batch", "split": "version", "columns": [column]}));
    reported(&input, json!({"table": "t", "compare": "version"}))
}

/// The sentences about these pairs of epoch times.
fn times(pairs: &[(f64, f64)]) -> String {
    let at = |version: &str, row: usize, time: f64| {
        result("s", &[("version", json!(version)), ("batch", json!(row))], 1).epoch_time(time)
    };
    let v7 = pairs.iter().enumerate().map(|(row, pair)| at("v7", row, pair.0));
    let v11 = pairs.iter().enumerate().map(|(row, pair)| at("v11", row, pair.1));
    let report = compared("epoch_time", v7.chain(v11).collect());
    let of_both = |line: &&str| line.contains("v7 to v11") || line.contains("从 v7 到 v11");
    bullets(&report).concat().into_iter().filter(of_both).collect::<Vec<_>>().join("\n")
}

#[test]
fn rows_are_judged_together() {
    // Four rows as measured on one H200, and ten similar ones.
    let four = [(1.658, 1.601), (1.274, 1.252), (1.098, 1.064), (1.021, 0.988)];
    let more = [(1.64, 1.59), (1.29, 1.24), (1.12, 1.06), (0.61, 0.54), (2.2, 2.1), (3.1, 2.9), (4.1, 3.8), (2.6, 2.4)];
    let fourteen = [&four[..], &more, &[(5.0, 4.7), (6.0, 5.6)]].concat();
    let mut but_one = fourteen.clone();
    but_one[0].1 = 1.7;
    let told = [&four[..], &fourteen, &but_one, &four[..1], &[(5.0, 5.1), (5.0, 4.9)], &[(5.0, 5.0), (4.0, 4.001)]];
    insta::assert_snapshot!(told.map(times).join("\n\n"), @r"
    - From v7 to v11, epoch time falls by 2% to 3% at every batch size.
    - 从 v7 到 v11，每轮用时在各批大小下均下降 2% 至 3%。

    - From v7 to v11, epoch time falls by 2% to 11% at every batch size (sign test over 14 pairs, p = 0.00012).
    - 从 v7 到 v11，每轮用时在各批大小下均下降 2% 至 11%（符号检验，14 对，p = 0.00012）。

    - From v7 to v11, epoch time falls by 2% to 11% in 13 of 14 rows (sign test, p = 0.0018); the median is −5%.
    - 从 v7 到 v11，每轮用时在 14 行中的 13 行下降 2% 至 11%（符号检验，p = 0.0018）；中位数为 −5%。

    - From v7 to v11, epoch time falls by 3%.
    - 从 v7 到 v11，每轮用时下降 3%。

    - From v7 to v11, epoch time changes by less than 3%.
    - 从 v7 到 v11，每轮用时的变化小于 3%。

    - From v7 to v11, epoch time is unchanged (differences below 1%).
    - 从 v7 到 v11，每轮用时没有变化（差异小于 1%）。
    ");
}

/// The same test as that of the best point, so that one report never says both that a difference is told and that it is not.
#[test]
fn one_row_of_repetitions_is_told_by_their_test() {
    let runs = |a: &[f64], b: &[f64], by_seed: bool| {
        let of = |variant: &str, values: &[f64]| -> Vec<StepResult> {
            let each = values.iter().enumerate().map(|(seed, value)| {
                let mut axes = vec![("variant", json!(variant))];
                axes.extend(by_seed.then(|| ("seed", json!(seed))));
                result("s", &axes, 1).metric("epoch_loss", *value, "")
            });
            each.collect()
        };
        let mut input = input(vec![("s", view("torch/train", None, [of("a", a), of("b", b)].concat()))]);
        let over = if by_seed { json!("seed") } else { json!(null) };
        add_table(
            &mut input,
            "t",
            json!({"from": "s", "rows": [], "split": "variant", "over": over, "columns": ["epoch_loss"]}),
        );
        let report = reported(&input, json!({"table": "t", "compare": "variant"}));
        let of_both = |line: &&str| line.contains("a to b") || line.contains("从 a 到 b") || line.contains("ell ");
        bullets(&report).concat().into_iter().filter(of_both).collect::<Vec<_>>().join("\n")
    };
    let told = runs(&[0.70, 0.60, 0.65, 0.68], &[0.60, 0.51, 0.54, 0.59], true);
    let untold = runs(&[0.70, 0.60, 0.65, 0.68], &[0.66, 0.59, 0.60, 0.69], true);
    insta::assert_snapshot!([told, untold].join("\n\n"), @r"
    - From a to b, epoch_loss falls by 15% (95% interval −17% to −12%; paired t-test, p = 0.00026).
    - 从 a 到 b，epoch_loss 下降 15%（95% 置信区间 −17% 至 −12%；配对 t 检验，p = 0.00026）。

    - From a to b, it is undecided whether epoch_loss changes: −3% on average, 95% confidence interval −10% to +3%. If the difference stays as it is, about 10 more runs of each point would decide it.
    - 从 a 到 b，尚无法判断 epoch_loss 是否变化：平均 −3%，95% 置信区间为 −10% 至 +3%。若差异不变，每个配置再运行约 10 次即可判断。
    ");
}

/// The machine is slow during the second pair: both times of it are longer by the same factor.
#[test]
fn a_time_that_falls_much_is_told_as_a_speed_too() {
    let of = |layout: &'static str, times: [f64; 4]| {
        let each = times.into_iter().enumerate();
        each.map(move |(seed, time)| {
            result("s", &[("layout", json!(layout)), ("seed", json!(seed))], 1).epoch_time(time)
        })
    };
    let results = of("folder", [8.0, 12.0, 8.2, 8.1]).chain(of("packed", [4.0, 6.0, 4.0, 4.1])).collect();
    let mut input = input(vec![("s", view("torch/train", None, results))]);
    let with = json!({"from": "s", "rows": [], "split": "layout", "over": "seed", "columns": ["epoch_time"]});
    add_table(&mut input, "t", with);
    let report = reported(&input, json!({"table": "t", "compare": "layout"}));
    let told = bullets(&report).concat().into_iter().find(|line| line.contains("falls by")).unwrap_or_default();
    insta::assert_snapshot!(told, @"- From folder to packed, epoch time falls by 50% (2.01 times as fast; 95% interval −51% to −49%; paired t-test, p = 0.0026).");
}

#[test]
fn what_doubles_is_told_in_times_and_two_rows_tell_no_interval() {
    // As measured on an H200 and on sixteen CPUs. Two rows are not a sample.
    let devices = [(2.455, 99.82), (6.148, 220.34)];
    let some = [(2.0, 5.2), (3.0, 6.3), (4.0, 8.6)];
    let mixed =
        [(2.0, 4.2), (3.0, 3.3), (4.0, 4.2), (2.0, 2.5), (3.0, 2.4), (1.0, 1.1), (1.0, 1.2), (1.0, 1.3), (1.0, 1.2)];
    let told = [&devices[..], &some, &mixed];
    insta::assert_snapshot!(told.map(times).join("\n\n"), @r"
    - From v7 to v11, epoch time is 36 to 41 times as long at both values of batch size.
    - 从 v7 到 v11，每轮用时在两个批大小下均变为原来的 36 至 41 倍。

    - From v7 to v11, epoch time is 2.10 to 2.60 times as long at every batch size.
    - 从 v7 到 v11，每轮用时在各批大小下均变为原来的 2.10 至 2.60 倍。

    - From v7 to v11, epoch time is 1.05 to 2.10 times as long in 8 of 9 rows (sign test, p = 0.039); the median is 1.20×.
    - 从 v7 到 v11，每轮用时在 9 行中的 8 行变为原来的 1.05 至 2.10 倍（符号检验，p = 0.039）；中位数为 1.20 倍。
    ");
}

#[test]
fn what_changes_little_and_one_way_says_which() {
    // As measured on one H200, and the same with a row that rises.
    let measured = [(8.55, 8.54), (6.62, 6.50), (5.71, 5.55), (5.37, 5.18)];
    let told = [times(&measured), times(&[measured.as_slice(), &[(5.0, 5.1)]].concat())];
    insta::assert_snapshot!(told.join("\n"), @r"
    - From v7 to v11, epoch time falls by less than 4%, and rises in no row.
    - 从 v7 到 v11，每轮用时下降不到 4%，且各行均未上升。
    - From v7 to v11, epoch time rises in some rows and falls in others: −4% to +2%.
    - 从 v7 到 v11，每轮用时在部分行上升、部分行下降：−4% 至 +2%。
    ");
}

#[test]
fn what_is_learned_is_judged_by_repeated_trainings_only() {
    let trained = |trainings: u32, gain: f64| {
        let spread = [0.0, -0.005, 0.006, 0.001];
        let at = |version: &str, batch: u32, n: u32| {
            let mut result = result("s", &[("version", json!(version)), ("batch", json!(batch))], 1);
            result.repetition = (trainings > 1).then_some(n);
            let sign = if batch == 2 { -1.0 } else { 1.0 };
            let own = if version == "v11" { gain + sign * spread[(n as usize + 2) % 4] } else { 0.0 };
            result.epoch_time(9.0).metric("top1", 0.85 + spread[n as usize] + own, "ratio")
        };
        let all = ["v7", "v11"]
            .map(|v| [1, 2, 3].map(|batch| (0..trainings).map(move |n| at(v, batch, n)).collect::<Vec<_>>()));
        bullets(&compared("top1", all.concat().concat())).concat().join("\n")
    };
    insta::assert_snapshot!([trained(1, 0.03), trained(3, 0.03), trained(3, 0.0)].join("\n\n"), @r"
    - From v7 to v11, no judgement of top-1: a row rests on one training, and how much repeated trainings differ is not known.
    - 从 v7 到 v11，无法判断 Top-1 准确率有无差异：各配置仅训练一次，重复训练之间的波动未知。

    - From v7 to v11, top-1 rises by 2.4 to 3.6 points at every batch size (sign test over 9 pairs, p = 0.0039).
    - 从 v7 到 v11，Top-1 准确率在各批大小下均上升 2.4 至 3.6 个百分点（符号检验，9 对，p = 0.0039）。

    - From v7 to v11, top-1 is the same within its run-to-run spread: the 95% confidence interval of the change is −0.3 to +0.7 points.
    - 从 v7 到 v11，Top-1 准确率的差异在重复训练的波动范围之内：变化的 95% 置信区间为 −0.3 至 +0.7 个百分点。
    ");
}

/// A script with a fixed seed. Its three numbers are one.
#[test]
fn identical_repetitions_of_what_is_learned_are_not_compared() {
    let at = |version: &str, batch: u32, n: u32| {
        let mut result = result("s", &[("version", json!(version)), ("batch", json!(batch))], 1);
        result.repetition = Some(n);
        let low = if version == "v11" { 0.1 } else { 0.0 };
        result.epoch_time(9.0).metric("accuracy", 0.988 - low, "ratio")
    };
    let all = ["v7", "v11"].map(|v| [4, 16].map(|batch| (0..3).map(move |n| at(v, batch, n)).collect::<Vec<_>>()));
    let found = bullets(&compared("accuracy", all.concat().concat())).concat().join("\n");
    insta::assert_snapshot!(found, @r"
    - Accuracy was not compared between v7 and v11. Repetitions gave exactly the same number, so the run-to-run spread is unknown: does the command read `${{ seed }}`?
    - 未比较 v7 与 v11 的准确率。重复运行得到完全相同的数值，因此运行间波动未知：命令是否读取了 `${{ seed }}`？
    ");
}

#[test]
fn a_loss_or_an_error_is_a_trainings_only_where_epochs_are_told() {
    let told = |column: &str, epochs: bool| {
        let at = |version: &str, row: u32| {
            let result = result("s", &[("version", json!(version)), ("batch", json!(row))], 1);
            let result = result.metric(column, f64::from(row) * if version == "v7" { 0.5 } else { 0.1 }, "");
            if epochs { result.epoch_time(9.0) } else { result }
        };
        let results = ["v7", "v11"].map(|v| (1..=6).map(|row| at(v, row)).collect::<Vec<_>>()).concat();
        bullets(&compared(column, results))[0].join("\n")
    };
    insta::assert_snapshot!(
        [told("loss", false), told("max_error", false), told("loss", true), told("acc", false)].join("\n"), @r"
    - From v7 to v11, loss falls by 80% at every batch size (sign test over 6 pairs, p = 0.031).
    - From v7 to v11, max_error falls by 80% at every batch size (sign test over 6 pairs, p = 0.031).
    - From v7 to v11, no judgement of loss: a row rests on one training, and how much repeated trainings differ is not known.
    - From v7 to v11, no judgement of acc: a row rests on one training, and how much repeated trainings differ is not known.
    ");
}

#[test]
fn one_training_a_row_is_judged_by_trainings_that_were_repeated_for_a_verdict() {
    let told = |columns: &[&str], gain: f64, noise: f64| {
        let at = |version: &str, batch: u32, n: u32| {
            let mut result = result("s", &[("version", json!(version)), ("batch", json!(batch))], 1);
            result.repetition = (n > 0).then_some(n);
            let own = if version == "v11" { gain } else { 0.0 };
            let sign = if (batch + n).is_multiple_of(2) { 1.0 } else { -1.0 };
            let time = if version == "v11" { 7.0 } else { 9.0 };
            result.epoch_time(time).metric("top1", 0.85 + own + sign * noise, "ratio")
        };
        let all = |n: u32, batches: &[u32]| {
            ["v7", "v11"].map(|v| batches.iter().map(|batch| at(v, *batch, n)).collect::<Vec<_>>()).concat()
        };
        let mut step = view("torch/train", None, all(0, &[16, 32, 64, 128]));
        // A co-run group, for example, does not have all batch sizes.
        step.again = all(1, &[32, 64, 128]);
        let mut input = input(vec![("s", step)]);
        add_table(&mut input, "t", json!({"from": "s", "rows": "batch", "split": "version", "columns": columns}));
        bullets(&reported(&input, json!({"table": "t", "compare": "version"}))).concat().join("\n")
    };
    let top1 = |gain: f64, noise: f64| told(&["top1"], gain, noise);
    insta::assert_snapshot!([top1(0.003, 0.002), top1(0.03, 0.002), top1(0.0, 0.02), top1(0.01, 0.0)].join("\n\n"), @r"
    - From v7 to v11, top-1 is the same within its run-to-run spread: the 95% confidence interval of the change is −0.2 to +0.8 points.
    - 从 v7 到 v11，Top-1 准确率的差异在重复训练的波动范围之内：变化的 95% 置信区间为 −0.2 至 +0.8 个百分点。

    - From v7 to v11, top-1 changes by +3.0 points on average (95% confidence interval, from how much repeated trainings differ: +2.5 to +3.5 points).
    - 从 v7 到 v11，Top-1 准确率平均变化 +3.0 个百分点（按重复训练的波动估计，95% 置信区间为 +2.5 至 +3.5 个百分点）。

    - From v7 to v11, top-1 changes by 0.0 points on average (95% confidence interval, from how much repeated trainings differ: −4.9 to +4.9 points), which is not told from chance.
    - 从 v7 到 v11，Top-1 准确率平均变化 0.0 个百分点（按重复训练的波动估计，95% 置信区间为 −4.9 至 +4.9 个百分点），无法与随机波动区分。

    - From v7 to v11, no judgement of top-1: a row rests on one training, and how much repeated trainings differ is not known.
    - 从 v7 到 v11，无法判断 Top-1 准确率有无差异：各配置仅训练一次，重复训练之间的波动未知。
    ");
}

/// The sentences about v7 against v11, if each version has these trainings at each batch size, one per seed: time and
/// top-1.
fn seeds(rows: &[[&[(f64, f64)]; 2]]) -> String {
    let mut results = Vec::new();
    for (batch, versions) in rows.iter().enumerate() {
        for (version, trainings) in ["v7", "v11"].into_iter().zip(versions) {
            for (seed, (time, top1)) in trainings.iter().enumerate() {
                let at = [("version", json!(version)), ("batch", json!(batch)), ("seed", json!(seed))];
                results.push(result("s", &at, 1).epoch_time(*time).metric("top1", *top1, "ratio"));
            }
        }
    }
    let mut input = input(vec![("s", view("torch/train", None, results))]);
    let columns = json!(["epoch_time", "top1"]);
    let with = json!({"from": "s", "rows": "batch", "split": "version", "over": "seed", "columns": columns});
    add_table(&mut input, "t", with);
    let report = reported(&input, json!({"table": "t", "compare": "version"}));
    bullets(&report)[0].iter().filter(|line| line.contains("v7")).copied().collect::<Vec<_>>().join("\n")
}

#[test]
fn what_only_shares_a_sign_in_two_rows_is_the_same_and_may_cost_less() {
    let v7: [&[(f64, f64)]; 2] =
        [&[(10.0, 0.851), (10.1, 0.846), (9.9, 0.855)], &[(8.0, 0.861), (8.1, 0.859), (7.9, 0.856)]];
    let v11: [&[(f64, f64)]; 2] =
        [&[(7.0, 0.852), (7.1, 0.853), (6.9, 0.850)], &[(5.0, 0.858), (5.1, 0.862), (4.9, 0.859)]];
    insta::assert_snapshot!(seeds(&[[v7[0], v11[0]], [v7[1], v11[1]]]), @r"
    - v7: Epoch time differs with batch size by more than repetitions do: means of 8.0 to 10.0 s (paired F-test, p = 0.00056).
    - v7: Top-1 does not differ with batch size by more than repetitions do: means of 85.1% to 85.9% (paired F-test, p = 0.16).
    - From v7 to v11, epoch time falls by 30% to 38% at every batch size (sign test over 6 pairs, p = 0.031).
    - From v7 to v11, top-1 is the same within its run-to-run spread: the 95% confidence interval of the change is −0.8 to +1.0 points.
    - Cost-free: v11 lowers epoch time against v7 at the same top-1.
    ");
}

#[test]
fn a_time_that_repetitions_do_not_decide_is_told_with_its_interval() {
    // Epochs with loaders of one and of four processes, with little and with much shared memory, as measured on an
    // H200.
    let little: [&[(f64, f64)]; 2] =
        [&[(7.091, 0.9), (7.963, 0.9), (6.401, 0.9)], &[(2.128, 0.9), (2.113, 0.9), (2.064, 0.9)]];
    let much: [&[(f64, f64)]; 2] =
        [&[(7.151, 0.9), (6.802, 0.9), (6.443, 0.9)], &[(2.133, 0.9), (1.979, 0.9), (2.216, 0.9)]];
    insta::assert_snapshot!(seeds(&[[little[0], much[0]], [little[1], much[1]]]), @r"
    - v7: Epoch time differs with batch size by more than repetitions do: means of 2.10 to 7.15 s (paired F-test, p = 0.0075).
    - From v7 to v11, it is undecided whether epoch time changes: −2% on average, 95% confidence interval −10% to +6%. If the difference stays as it is, about 45 more runs of each point would decide it.
    - From v7 to v11, top-1 is the same within its run-to-run spread: the 95% confidence interval of the change is 0.0 points.
    ");
}

#[test]
fn the_change_of_means_is_told_and_not_that_of_pairs() {
    // Each row falls by 40%. Half of its pairs fall by far more, and half do not fall.
    let v7: &[(f64, f64)] = &[(100.0, 0.9), (10.0, 0.9)];
    let v11: &[(f64, f64)] = &[(50.0, 0.9), (16.0, 0.9)];
    let told = seeds(&[[v7, v11], [v7, v11]]);
    let line = told.lines().find(|line| line.contains("epoch time changes")).expect("a change");
    assert!(line.contains("it is undecided whether epoch time changes: −40% on average"), "{line}");
}

/// The sentences about the column from v7 to v11, and its table of changes.
fn changes(column: &str, unit: &str, pairs: &[(f64, f64)]) -> String {
    let at = |version: &str, row: usize, value: f64| {
        result("s", &[("version", json!(version)), ("batch", json!(row))], 1).metric(column, value, unit)
    };
    let both = |(row, pair): (usize, &(f64, f64))| [at("v7", row, pair.0), at("v11", row, pair.1)];
    let report = compared(column, pairs.iter().enumerate().flat_map(both).collect());
    let said = bullets(&report).concat().into_iter().filter(|line| line.contains("v11")).collect::<Vec<_>>();
    let table = report.split_once("Change from v7 to v11").map_or("", |(_, more)| more);
    let table = table.lines().skip_while(|line| !line.starts_with('|'));
    let table = table.take_while(|line| !line.starts_with(['-', '#', '<']) && !line.starts_with("Computed"));
    let table: Vec<&str> = table.map(str::trim_end).filter(|line| !line.is_empty()).collect();
    let chinese: Vec<&str> = report.lines().filter(|line| line.starts_with("以差值")).collect();
    [said, table, chinese].concat().join("\n")
}

#[test]
fn what_begins_at_zero_changes_in_every_row_and_is_no_ratio() {
    let rising = [(0.0, 2.0), (4.0, 5.0), (10.0, 14.0)];
    let none = [(0.0, 0.0), (0.0, 0.0)];
    let told = [&rising[..], &none].map(|pairs| changes("fails", "", pairs));
    insta::assert_snapshot!(told.join("\n\n"), @r"
    - From v7 to v11, fails rises by 1 to 4 at every batch size.
    - 从 v7 到 v11，fails 在各批大小下均上升 1 至 4。
    | Batch size | fails |
    |-----------:|------:|
    |          0 |    +2 |
    |          1 |    +1 |
    |          2 |    +4 |
    The changes of fails are differences: a ratio is undefined from 0 and misleading for negative values.

    - From v7 to v11, fails is unchanged (differences below 1).
    - 从 v7 到 v11，fails 没有变化（差异小于 1）。
    | Batch size | fails |
    |-----------:|------:|
    |          0 |     0 |
    |          1 |     0 |
    The changes of fails are differences: a ratio is undefined from 0 and misleading for negative values.
    ");
    insta::assert_snapshot!(changes("waited", "s", &[(0.0, 2.5), (4.0, 5.0)]), @r"
    - From v7 to v11, waited rises by 1.0 to 2.5 s at both values of batch size.
    - 从 v7 到 v11，waited 在两个批大小下均上升 1.0 至 2.5 s。
    | Batch size | waited (s) |
    |-----------:|-----------:|
    |          0 |       +2.5 |
    |          1 |       +1.0 |
    The changes of waited are differences: a ratio is undefined from 0 and misleading for negative values.
    ");
}

#[test]
fn the_direction_is_that_of_the_difference_where_values_are_negative() {
    let below = [(5.0, -3.0), (6.0, -1.0), (9.0, 2.0)];
    let little = [(-100.0, -101.0), (-90.0, -89.0), (-80.0, -80.5)];
    let told = [&below, &little].map(|pairs| changes("balance", "", pairs));
    insta::assert_snapshot!(told.join("\n\n"), @r"
    - From v7 to v11, balance falls by 7 to 8 at every batch size.
    - 从 v7 到 v11，balance 在各批大小下均下降 7 至 8。
    | Batch size | balance |
    |-----------:|--------:|
    |          0 |      −8 |
    |          1 |      −7 |
    |          2 |      −7 |
    The changes of balance are differences: a ratio is undefined from 0 and misleading for negative values.

    - From v7 to v11, balance changes by less than 1.1.
    - 从 v7 到 v11，balance 的变化小于 1.1。
    | Batch size | balance |
    |-----------:|--------:|
    |          0 |    −1.0 |
    |          1 |    +1.0 |
    |          2 |    −0.5 |
    The changes of balance are differences: a ratio is undefined from 0 and misleading for negative values.
    ");
}

#[test]
fn nothing_grows_by_a_share_of_what_is_not_positive() {
    let rows = [-18.0, -4.0, 0.0, 4.0, 5.0].iter().enumerate();
    let rows = rows.map(|(n, value)| result("s", &[("batch", json!(n))], 1).metric("x", *value, ""));
    let with = json!({"from": "s", "rows": "batch", "columns": ["x", "growth(x)"]});
    let table = run("table", with, &input(vec![("s", view("torch/train", None, rows.collect()))])).expect("a table");
    insta::assert_snapshot!(text(&table, "table.csv"), @"
    batch,x,growth(x) [%]
    0,-18,NA
    1,-4,NA
    2,0,NA
    3,4,NA
    4,5,25
    ");
}
