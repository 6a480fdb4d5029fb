//! Earlier figures beside those of now: what is read of a CSV file, what is computed of it, and what is said of both.

mod common;

use common::{With, bullets, input, result, run, text, view};
use flow_core::{BuiltinInput, BuiltinOutput, Outcome};
use serde_json::{Value, json};

const PUBLISHED: &str = include_str!("published/feb08-mobilenet_v2-4gpu.csv");

/// A sweep of now, whose times stop falling elsewhere than published.
fn now(file: &str) -> BuiltinInput {
    let figures = [(16, 1500.0, 20.0), (32, 1900.0, 11.0), (64, 2800.0, 7.0), (128, 4600.0, 5.0), (256, 8200.0, 4.0)];
    let mut results: Vec<_> = figures
        .iter()
        .map(|(batch, memory, time)| result("s", &[("batch", json!(batch))], 4).gpu_memory(*memory).epoch_time(*time))
        .collect();
    results.push(result("s", &[("batch", json!(512))], 4).outcome(Outcome::OutOfMemory));
    let mut input = input(vec![("s", view("torch/train", None, results))]);
    input.files.insert("/somewhere/published.csv".into(), file.as_bytes().to_vec());
    input
}

fn table(file: &str, reference: Value) -> Result<BuiltinOutput, String> {
    let mut with = json!({"from": "s", "rows": "batch",
        "columns": ["gpu_memory", "growth(gpu_memory)", "epoch_time", "growth(epoch_time)"]});
    with["reference"] = reference;
    with["reference"]["file"] = json!("/somewhere/published.csv");
    run("table", with, &now(file))
}

fn columns() -> Value {
    json!({"columns": {"epoch_time": "epoch_s", "gpu_memory": "mem_mib [MiB]"}})
}

#[test]
fn published_figures_stand_beside_those_of_now_with_their_growth() {
    let out = table(PUBLISHED, columns()).expect("a table");
    let text = text(&out, "table.en.md");
    assert!(text.contains("Epoch time, earlier (s)") && text.contains("out of GPU memory"), "{text}");
    // 37.4 s to 19.6 s, as published.
    assert!(text.contains("37.4") && text.contains("−48 %"), "{text}");
}

#[test]
fn a_report_says_which_findings_hold() {
    let mut input = now(PUBLISHED);
    let mut with =
        json!({"from": "s", "rows": "batch", "columns": ["gpu_memory", "epoch_time"], "reference": columns()});
    with["reference"]["file"] = json!("/somewhere/published.csv");
    common::add_table(&mut input, "t", with);
    let with = json!({"languages": ["en", "zh"], "sections": [{"table": "t"}]});
    let report = text(&run("report", with, &input).expect("a report"), "report.md");
    common::honest(&report);
    assert_eq!(bullets(&report)[0].len(), bullets(&report)[1].len());
    let held: Vec<&str> =
        report.lines().filter(|line| line.contains(" yes / 成立") || line.contains("otherwise")).collect();
    assert!(held.len() >= 2, "{report}");
}

#[test]
fn a_table_of_flow_is_a_reference_as_it_is() {
    let first = table(PUBLISHED, columns()).expect("a table");
    let csv: String = text(&first, "table.csv").lines().map(|line| line.to_owned() + "\n").collect();
    let again = table(&csv, json!({})).expect("a table");
    let text = text(&again, "table.csv");
    // What was now is earlier then.
    assert!(text.lines().nth(1).is_some_and(|line| line.starts_with("16,1500,1500,")), "{text}");
}

#[test]
fn lines_that_are_no_row_are_said_and_empty_cells_are_nothing() {
    let out = table("batch,epoch_s\n16,37.4\n48,9\n32,NA\n1024,\n", json!({"columns": {"epoch_time": "epoch_s"}}));
    let text = text(&out.expect("a table"), "table.en.md");
    assert!(text.contains("2 lines of `published.csv` are no rows here and left out, the first batch=48."), "{text}");
    assert!(text.contains("Epoch time, earlier (s)") && text.contains("37.4"), "{text}");
}

#[test]
fn what_is_wrong_in_a_file_is_said_with_its_line() {
    let said = |file: &str, reference: Value| table(file, reference).expect_err("wrong");
    let cases = [
        (
            said(PUBLISHED, json!({"columns": {"epoch_time": "epoch"}})),
            "`reference`: published.csv has no column `epoch`; it has batch, mem_mib, mem_growth_pct, epoch_s, epoch_growth_pct, outcome",
        ),
        (
            said("batch,epoch_time\n16,37.4\n32,fast\n", json!({})),
            "`reference`: published.csv:3: `epoch_time` is `fast`, which is no number",
        ),
        (
            said("batch,gpu_memory\n16,1113\n", json!({})),
            "`reference`: published.csv: `gpu_memory` is in bytes here: say the unit of that column, as in `columns: {gpu_memory: gpu_memory [MiB]}`",
        ),
        (
            said("bs,epoch_time\n16,37.4\n", json!({})),
            "`reference`: published.csv has no column `batch`, by which rows are matched; it has bs, epoch_time. `columns: {batch: NAME}` names it",
        ),
        (
            said("batch,epoch_time\n16\n", json!({})),
            "`reference`: published.csv: line 2 has 1 cells, and the first line names 2 columns",
        ),
        (
            said("batch,outcome,epoch_time\n16,bad,1\n", json!({})),
            "`reference`: published.csv:2: `bad` is no outcome; as in `ok`, `out_of_memory`, `failed`",
        ),
    ];
    for (said, expected) in cases {
        assert_eq!(said, expected);
    }
}
