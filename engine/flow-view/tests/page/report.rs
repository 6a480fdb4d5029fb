//! A report whose title, labels and notes are markup.

use std::collections::BTreeMap;

use flow_core::{BuiltinInput, Builtins, StepResult, StepView};
use flow_report::Reports;
use serde_json::{Value, json};

use crate::server::MARKUP;

/// The same as an argument for the program, made by instance 39.
pub(crate) fn remade() -> Value {
    let text = |bytes: &Vec<u8>| String::from_utf8_lossy(bytes).into_owned();
    let files: BTreeMap<String, String> = report().iter().map(|(name, bytes)| (name.clone(), text(bytes))).collect();
    json!([{"39": files}])
}

/// The files of the report.
pub(crate) fn report() -> BTreeMap<String, Vec<u8>> {
    let result = |label: &str, axes: Value, top1: f64| -> StepResult {
        serde_json::from_value(json!({
            "fingerprint": "0".repeat(64), "workflow": "hostile", "step": "train", "label": label, "axes": axes,
            "outcome": "ok", "run": "r", "started_at": 0, "ended_at": 1000,
            "metrics": {"top1": {"value": top1, "unit": "ratio"}},
        }))
        .unwrap()
    };
    let view = |uses: &str, results: Vec<StepResult>| StepView {
        uses: Some(uses.to_owned()),
        series: vec![None; results.len()],
        files: vec![BTreeMap::new(); results.len()],
        results,
        ..StepView::default()
    };
    let trained = [(MARKUP, 0.5), ("b", 0.75)].map(|(n, top1)| result(n, json!({"n": n}), top1));
    let mut input = BuiltinInput {
        workflow: "hostile".into(),
        title: BTreeMap::from([("en".to_owned(), MARKUP.to_owned()), ("zh".to_owned(), MARKUP.to_owned())]),
        ..BuiltinInput::default()
    };
    input.steps.insert("train".into(), view("torch/train", trained.to_vec()));
    let mut run = |name: &str, with: Value| {
        input.with = with.as_object().unwrap().clone();
        let made = Reports::new().run(name, &input).unwrap();
        if name == "table" {
            let mut table = view("flow/table", vec![result("table", json!({}), 0.0)]);
            (table.with, table.files) = (input.with.clone(), vec![made.files.clone()]);
            input.steps.insert("table".into(), table);
        }
        made.files
    };
    run("table", json!({"from": "train", "rows": "n", "columns": [{"column": "top1", "label": MARKUP}]}));
    let note = format!("{MARKUP} [link](javascript:alert(1)) ![x](http://localhost/x.png)");
    run("report", json!({"languages": ["en", "zh"], "sections": [{"table": "table", "notes": {"question": note}}]}))
}
