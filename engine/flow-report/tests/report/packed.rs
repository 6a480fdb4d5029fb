//! Findings of a report about packed trainings, compared with one after another.

use crate::common::{ResultExt, add_table, bullets, honest, input, result, run, text, view};
use flow_core::{BuiltinInput, Outcome, StepResult};
use serde_json::{Value, json};

/// Twelve trainings that take seven seconds each alone, and `all` seconds from the first start to the last end when
/// they ran at once.
fn twelve(all: u64, change: impl Fn(&mut StepResult)) -> (BuiltinInput, Value) {
    let points = ["mobilenet_v2", "mobilenet_v3_large", "resnet18", "resnet34"]
        .into_iter()
        .flat_map(|model| [16, 32, 64].map(|batch| (model, batch)));
    let of = |step: &str, wall: &dyn Fn(u64) -> f64| -> Vec<StepResult> {
        let make = |(n, (model, batch)): (usize, (&str, i32))| {
            let mut result = result(step, &[("model", json!(model)), ("batch", json!(batch))], 1).epoch_time(0.5);
            result.usage.wall_s = Some(wall(n as u64));
            result.ended_at = result.started_at + 7_000;
            result
        };
        points.clone().enumerate().map(make).collect()
    };
    let mut packed = of("packed", &|n| 8.0 + 0.4 * n as f64);
    for (n, result) in packed.iter_mut().enumerate() {
        result.circumstances.mode = flow_core::Mode::Plain;
        result.circumstances.corunners = vec!["packed[model=resnet18,batch=16]".into()];
        result.circumstances.gpu_shared = Some(0.3);
        result.ended_at = result.started_at + all * 1_000 * (n as u64 + 1) / 12;
    }
    change(&mut packed[3]);
    let mut input = input(vec![
        ("alone", view("torch/train", None, of("alone", &|_| 7.0))),
        ("packed", view("torch/train", Some("alone"), packed)),
    ]);
    for step in ["alone", "packed"] {
        add_table(&mut input, &format!("{step}_table"), json!({"from": step, "columns": ["epoch_time"]}));
    }
    let sections = json!([{"table": "packed_table"}, {"table": "alone_table"}]);
    (input, json!({"languages": ["en", "zh"], "sections": sections}))
}

#[test]
fn what_ran_at_once_is_compared_with_one_after_another() {
    let (input, with) = twelve(40, |_| {});
    let out = run("report", with, &input).expect("a report");
    let report = text(&out, "report.md");
    honest(&report);
    let said = bullets(&report).concat().join("\n");
    insta::assert_snapshot!(said, @r"
    - Pack them: all are done in 40.0 s, against 84.0 s one after another (2.10 times the throughput). Each takes 1.14 to 1.77 times as long as alone, from start to end.
    - mobilenet_v2: Epoch time does not depend on batch size: 500 ms.
    - mobilenet_v3_large: Epoch time does not depend on batch size: 500 ms.
    - resnet18: Epoch time does not depend on batch size: 500 ms.
    - resnet34: Epoch time does not depend on batch size: 500 ms.
    - 建议同卡混部：全部任务用时 40.0 s，串行执行需 84.0 s（吞吐量是串行执行的 2.10 倍）。各任务的总用时是单独运行的 1.14 至 1.77 倍。
    - mobilenet_v2：每轮用时不随批大小变化，均为 500 ms。
    - mobilenet_v3_large：每轮用时不随批大小变化，均为 500 ms。
    - resnet18：每轮用时不随批大小变化，均为 500 ms。
    - resnet34：每轮用时不随批大小变化，均为 500 ms。
    ");
    assert!(report.contains("9.20 |    1.31× |"), "{report}");
    assert_eq!(report.matches("of a GPU's time").count(), 1, "one sentence for all:\n{report}");
    assert!(text(&out, "charts/packed_table-packed.svg").contains("mobilenet_v3_large 64"));
}

#[test]
fn steps_that_ran_beside_others_by_chance_are_compared_with_nothing() {
    let (mut input, with) = twelve(40, |_| {});
    for alone in &mut input.steps.get_mut("alone").expect("a step").results {
        alone.circumstances.mode = flow_core::Mode::Plain;
    }
    let out = run("report", with, &input).expect("a report");
    let report = text(&out, "report.md");
    assert!(!report.contains("Packed") && !report.contains("打包混部"), "{report}");
    assert!(!out.files.contains_key("charts/packed_table-packed.svg"));
}

#[test]
fn of_what_was_packed_in_several_runs_the_slowdowns_are_told_and_why_no_total() {
    let (input, with) = twelve(40, |result| result.run = flow_core::RunId("20260209-000000-0000".into()));
    let report = text(&run("report", with, &input).expect("a report"), "report.md");
    honest(&report);
    insta::assert_snapshot!(bullets(&report).map(|lines| lines[0]).join("\n"), @r"
    - The time until all finish packed is unknown, because they ran in several runs. From start to end, each takes 1.14 to 1.77 times as long as alone.
    - 同卡混部的任务分在多次运行中完成，而非同一次，因此全部完成的总用时未知。各任务的总用时是单独运行的 1.14 至 1.77 倍。
    ");
    assert!(report.contains("9.20 |    1.31× |") && !report.contains("one after another"), "{report}");
}

#[test]
fn what_resumed_from_a_checkpoint_is_left_out_of_what_was_packed_and_that_is_said() {
    let (mut input, with) = twelve(40, |result| result.outcome = Outcome::Failed);
    let alone = &mut input.steps.get_mut("alone").expect("the step").results[9];
    // As measured on an H100: 39 s after 48 s of an interrupted attempt, with two starts.
    alone.usage.earlier =
        Some(flow_core::EarlierUsage { jobs: 1, wall_s: Some(48.1), ..flow_core::EarlierUsage::default() });
    alone.usage.wall_s = Some(87.1);
    let report = text(&run("report", with, &input).expect("a report"), "report.md");
    honest(&report);
    insta::assert_snapshot!(bullets(&report).map(|lines| lines[0]).join("\n"), @r"
    - How much sooner all 12 finish packed is unknown, because `packed[model=mobilenet_v3_large,batch=16]` and `packed[model=resnet34,batch=16]` cannot be compared with their runs alone: one of the two runs is missing, failed, was disturbed, resumed from a checkpoint, or ran under other conditions. From start to end, each of the other 10 takes 1.14 to 1.77 times as long as alone.
    - 同卡混部使全部 12 个任务提前多少完成，目前未知：`packed[model=mobilenet_v3_large,batch=16]` 和 `packed[model=resnet34,batch=16]` 不能与各自的单独运行比较，因为两次运行之一缺失、失败、受到干扰、曾从检查点继续或条件不同。其余 10 个任务的总用时是单独运行的 1.14 至 1.77 倍。
    ");
}
