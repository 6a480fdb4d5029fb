//! Charts that an author asks for by a line of a section, and what is not said of epochs that are none.

mod common;

use common::{With, input, result, run, text, view};
use flow_core::{BuiltinInput, BuiltinOutput, Series};
use serde_json::{Value, json};

/// A sweep of learning rate and width with its losses by epoch.
fn swept() -> BuiltinInput {
    let mut results = Vec::new();
    let mut series = Vec::new();
    for width in [1, 2] {
        for (n, lr) in [0.01, 0.1, 1.0].into_iter().enumerate() {
            let top1 = 0.5 + 0.1 * n as f64 + 0.01 * f64::from(width);
            let made = result("s", &[("width", json!(width)), ("lr", json!(lr))], 0).on_cpu();
            results.push(made.epoch_time(3.0).metric("top1", top1, "ratio").metric("val/<loss>", -0.2, ""));
            let mut of = Series::default();
            let losses = (1..=4).map(|epoch| (epoch, 0.3 - 0.1 * f64::from(epoch) * (1.0 + lr)));
            of.epochs.insert("val/<loss>".into(), losses.collect());
            series.push(Some(of));
        }
    }
    let mut step = view("torch/train", None, results);
    step.series = series;
    input(vec![("s", step)])
}

fn report(input: &BuiltinInput, section: Value) -> Result<BuiltinOutput, String> {
    let mut input = input.clone();
    common::add_table(
        &mut input,
        "t",
        json!({"from": "s", "rows": ["width", "lr"], "columns": ["epoch_time", "top1", "val/<loss>"]}),
    );
    let mut section = section;
    section["table"] = json!("t");
    run("report", json!({"languages": ["en", "zh"], "sections": [section]}), &input)
}

#[test]
fn a_chart_of_any_column_and_loss_curves_of_instances_are_a_line_each() {
    let charts = json!({"charts": ["top1", {"column": "val/<loss>", "over": "epoch"}]});
    let out = report(&swept(), charts).expect("a report");
    let shown = text(&out, "report.md");
    let pictures: Vec<&str> = shown.lines().filter(|line| line.contains("t-chart-")).collect();
    insta::assert_snapshot!(pictures.join("\n"), @"
    ![Top-1 over learning rate / Top-1 准确率随学习率的变化](charts/t-chart-1.svg)
    ![val/\\<loss> over epoch / val/\\<loss>随轮次的变化](charts/t-chart-2.svg)
    ");
    let top1 = text(&out, "charts/t-chart-1.svg");
    assert!(top1.contains("width=1") && top1.contains("width=2") && top1.contains("学习率"), "{top1}");
    let loss = text(&out, "charts/t-chart-2.svg");
    assert!(loss.contains("width=1, lr=0.01") && loss.contains("lr=1"), "{loss}");
    // What an author or a program calls something is text in a picture, whatever it says.
    assert!(loss.contains("val/&lt;loss&gt;") && !loss.contains("<loss>"), "{loss}");
}

#[test]
fn what_cannot_be_drawn_is_said() {
    let said = |charts: Value| report(&swept(), json!({"charts": charts})).expect_err("wrong");
    assert_eq!(said(json!(["top_1"])), "`charts: top_1`: the table of `s` has no column `top_1`; did you mean `top1`?");
    assert_eq!(
        said(json!([{"column": "valid_loss", "over": "epoch"}])),
        "`charts: {column: valid_loss, over: epoch}`: no instance has it by epoch; there are val/<loss>"
    );
    let mut named = swept();
    let step = named.steps.get_mut("s").expect("a step");
    step.results.iter_mut().for_each(|result| {
        result.axes.insert("lr".into(), json!("low"));
    });
    step.results.truncate(1);
    step.series.truncate(1);
    step.files.truncate(1);
    assert_eq!(
        report(&named, json!({"charts": ["top1"]})).expect_err("no numbers"),
        "`charts: top1`: `low` of the rows' last axis `lr` is no number, and a chart is drawn over numbers"
    );
}

#[test]
fn epochs_that_are_called_otherwise_are_no_short_epochs() {
    let of = |label: Option<Value>| {
        let mut input = input(vec![]);
        let mut step =
            view("torch/profile", None, vec![result("s", &[], 0).on_cpu().noisy("epoch_time", 0.4, "s", 0.1, 2)]);
        let mut series = Series::default();
        series.epochs.insert("step_time".into(), (1..=3).map(|n| (n, 0.01 * f64::from(n))).collect());
        step.results[0] = step.results[0].clone().metric("step_time", 0.03, "s");
        step.series = vec![Some(series)];
        input.steps.insert("s".into(), step);
        let epoch = match label {
            Some(label) => json!({"column": "epoch", "label": label}),
            None => json!("epoch"),
        };
        common::add_table(&mut input, "t", json!({"from": "s", "rows": "epoch", "columns": [epoch, "step_time"]}));
        text(&run("report", json!({"sections": [{"table": "t"}]}), &input).expect("a report"), "report.md")
    };
    assert!(of(None).contains("less than 5 s"), "{}", of(None));
    let otherwise = of(Some(json!({"en": "Batch size", "zh": "批大小"})));
    assert!(otherwise.contains("Batch size") && !otherwise.contains("less than 5 s"), "{otherwise}");
    assert!(!otherwise.contains("rest on"), "{otherwise}");
}

#[test]
fn rows_on_more_gpus_are_a_line_of_their_own() {
    let sweep = |gpus: [usize; 4]| {
        let batches = [16, 32, 64, 128].into_iter().zip(gpus).zip([20.0, 14.0, 11.0, 6.1]);
        let of = |((batch, gpus), time)| result("s", &[("batch", json!(batch))], gpus).epoch_time(time);
        let mut input = input(vec![("s", view("torch/train", None, batches.map(of).collect()))]);
        common::add_table(&mut input, "t", json!({"from": "s", "rows": "batch", "columns": ["gpus", "epoch_time"]}));
        let section = json!({"table": "t", "charts": ["epoch_time"]});
        let out = run("report", json!({"languages": ["en", "zh"], "sections": [section]}), &input).expect("a report");
        ["t-epoch_time", "t-chart-1"].map(|name| text(&out, &format!("charts/{name}.svg")))
    };
    for drawn in sweep([1, 1, 1, 2]) {
        assert!(drawn.contains("1 GPU / 1 块 GPU") && drawn.contains("2 GPUs / 2 块 GPU"), "{drawn}");
        // A single point is a marker of its own.
        assert_eq!(drawn.matches("<circle").count(), 4, "{drawn}");
    }
    for drawn in sweep([1; 4]) {
        assert!(!drawn.contains("1 GPU"), "{drawn}");
    }
}

/// The beginning of a PNG, which is what a report looks at.
const PNG: &[u8] = b"\x89PNG\r\n\x1a\n and what is in it";

/// A report with a picture of a step that kept these files.
fn pictured(picture: Value, files: &[(&str, &[u8])]) -> Result<BuiltinOutput, String> {
    let mut input = swept();
    let mut plot = view("torch/train", None, vec![result("plot", &[], 0).on_cpu()]);
    plot.files = vec![files.iter().map(|(name, bytes)| ((*name).to_owned(), bytes.to_vec())).collect()];
    input.steps.insert("plot".into(), plot);
    report(&input, json!({"pictures": [picture]}))
}

#[test]
fn a_picture_that_a_step_made_stands_in_the_report_and_in_the_page() {
    let title = json!({"en": "Confusion <matrix>", "zh": "混淆矩阵"});
    let out = pictured(json!({"from": "plot", "title": title}), &[("matrix", PNG)]).expect("a report");
    let shown = text(&out, "report.md");
    assert!(shown.contains("![Confusion \\<matrix> / 混淆矩阵](charts/t-picture-1.png)"), "{shown}");
    assert_eq!(out.files["charts/t-picture-1.png"], PNG);
    let page = flow_report::Reports::new().page(|file| out.files.get(file).cloned(), None);
    let page = page.expect("a page").expect("a report");
    assert!(
        page.contains("<img alt=\"\" src=\"data:image/png;base64,iVBORw0KGg") && page.contains("混淆矩阵"),
        "{page}"
    );
}

#[test]
fn what_is_no_picture_is_refused() {
    let said = |picture: Value, files: &[(&str, &[u8])]| pictured(picture, files).expect_err("wrong");
    let from = || json!({"from": "plot"});
    let svg: &[u8] = b"<svg onload='alert(1)'></svg>";
    assert_eq!(
        said(from(), &[("plot", svg)]),
        "`pictures: {from: plot}`: what it wrote is no PNG, JPEG or WebP file, whatever its name; save it as one of these"
    );
    assert_eq!(
        said(from(), &[("a", PNG), ("b", PNG)]),
        "`pictures: {from: plot}`: it has several pictures, a, b; `output: NAME` says which one"
    );
    assert_eq!(
        said(from(), &[]),
        "`pictures: {from: plot}`: it has no such output that is a PNG, JPEG or WebP file of 4 MiB at the most; `outputs: [plot.png]` keeps one"
    );
    assert!(pictured(json!({"from": "plot", "output": "b"}), &[("a", svg), ("b", PNG)]).is_ok());
}
