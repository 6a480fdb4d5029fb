//! What is said of times that were measured while other programs used the CPU.

mod common;

use common::{With, add_table, bullets, honest, input, result, run, text, view};
use flow_core::{BuiltinInput, StepResult};
use serde_json::{Value, json};

/// Epoch times by batch size, with what others used of the CPU meanwhile.
fn sweep(version: &str, points: [(u32, f64, f64); 5]) -> Vec<StepResult> {
    let at = |(batch, time, foreign): (u32, f64, f64)| {
        let axes = [("version", json!(version)), ("batch", json!(batch))];
        result("s", &axes, 0).epoch_time(time).cpu_util(0.1).foreign_cpu(foreign)
    };
    points.map(at).to_vec()
}

fn table(results: Vec<StepResult>) -> BuiltinInput {
    let mut input = input(vec![("s", view("torch/train", None, results))]);
    add_table(&mut input, "t", json!({"from": "s", "rows": ["version", "batch"], "columns": ["epoch_time"]}));
    input
}

fn report(input: &BuiltinInput, section: Value) -> String {
    let with = json!({"languages": ["en", "zh"], "sections": [section]});
    let report = text(&run("report", with, input).expect("a report"), "report.md");
    honest(&report);
    report
}

const QUIET: [(u32, f64, f64); 5] = [(8, 12.0, 0.0), (16, 9.0, 0.02), (32, 7.0, 0.0), (64, 6.0, 0.0), (128, 5.5, 0.0)];
const BESIDE: [(u32, f64, f64); 5] =
    [(8, 12.0, 0.0), (16, 9.0, 0.31), (32, 7.0, 0.44), (64, 9.5, 0.0), (128, 9.4, 0.0)];

#[test]
fn a_curve_that_others_may_have_bent_says_so_once() {
    let input = table([sweep("v7", QUIET), sweep("v11", BESIDE)].concat());
    insta::assert_snapshot!(bullets(&report(&input, json!({"table": "t"}))).concat().join("\n"), @"
    - v7: Epoch time still falls up to batch size 128 (5.5 s).
    - v11: Epoch time stops falling at batch size 32 (7.0 s) and rises to 9.4 s at 128. Other programs used up to 44.0 % of the CPU beside some results of this table, so this, and what else is found of their times, may be due to them.
    * v7：批大小增至 128 时，每轮用时仍在下降（5.5 s）。
    * v11：批大小达到 32 后，每轮用时不再下降（7.0 s），到 128 时回升至 9.4 s。本表部分结果测量时，其他程序最多占用了 44.0% 的 CPU，因此这一结论以及由这些用时得出的其他结论可能受其影响。
    ");
}

#[test]
fn so_do_a_fit_and_a_change() {
    let mut input = table(sweep("v7", BESIDE));
    let with = json!({"table": "t", "y": "epoch_time"});
    let out = run("fit", with.clone(), &input).expect("a fit");
    let mut step = view("flow/fit", None, vec![result("fit", &[], 0)]);
    step.with = with.as_object().expect("a map").clone();
    step.files = vec![out.files.clone()];
    input.steps.insert("fit".into(), step);
    let fitted = report(&input, json!({"table": "t", "analyses": ["fit"]}));
    assert_eq!(fitted.matches("Other programs used up to 44.0 % of the CPU beside").count(), 1, "{fitted}");
    assert_eq!(fitted.matches("其他程序最多占用了 44.0% 的 CPU").count(), 1, "{fitted}");

    let mut input = table([sweep("v7", QUIET), sweep("v11", BESIDE)].concat());
    let with = json!({"from": "s", "rows": "batch", "split": "version", "columns": ["epoch_time"]});
    add_table(&mut input, "t", with);
    let compared = report(&input, json!({"table": "t", "compare": "version"}));
    assert_eq!(compared.matches("Other programs used up to 44.0 % of the CPU beside").count(), 1, "{compared}");
}

#[test]
fn memory_is_nobody_elses() {
    let memory = |batch: u32| {
        let beside = result("s", &[("batch", json!(batch))], 1).cpu_util(0.1).foreign_cpu(0.4);
        beside.gpu_memory(1_000.0 + 50.0 * f64::from(batch))
    };
    let mut input = input(vec![("s", view("torch/train", None, [8, 16, 32, 64, 128].map(memory).to_vec()))]);
    add_table(&mut input, "t", json!({"from": "s", "rows": "batch", "columns": ["gpu_memory"]}));
    let report = report(&input, json!({"table": "t"}));
    assert!(report.contains("GPU memory is linear") && !report.contains("Other programs"), "{report}");
}
