//! Analyses of tables, and the findings of reports about them.

use flow_core::{BuiltinInput, BuiltinOutput};
use serde_json::{Value, json};

use super::{bullets, honest, result, run, text, view, whole};

/// Adds an analysis to the steps, as the engine does.
pub(crate) fn add(input: &mut BuiltinInput, uses: &str, name: &str, with: Value) -> BuiltinOutput {
    let out = run(uses, with.clone(), input).expect("an analysis");
    let mut step = view(&format!("flow/{uses}"), None, vec![result(name, &[], 0)]);
    step.with = with.as_object().expect("a map").clone();
    step.files = vec![out.files.clone()];
    input.steps.insert(name.into(), step);
    out
}

/// The findings of a report with these analyses of the table `t`, in both languages.
pub(crate) fn said(input: &BuiltinInput, analyses: &[&str]) -> [String; 2] {
    bullets(&reported(input, analyses)).map(|bullets| bullets.join("\n"))
}

pub(crate) fn reported(input: &BuiltinInput, analyses: &[&str]) -> String {
    let with = json!({"languages": ["en", "zh"], "sections": [{"table": "t", "analyses": analyses}]});
    let out = run("report", with, input).expect("a report");
    let report = text(&out, "report.md");
    honest(&report);
    let page = whole(&out, "report.md");
    for (path, bytes) in out.files.iter().filter(|(path, _)| path.ends_with(".svg")) {
        let svg = std::str::from_utf8(bytes).expect("UTF-8");
        assert!(roxmltree::Document::parse(svg).is_ok(), "{path}");
        assert!(page.contains(path.as_str()), "{path} is in no report");
    }
    report
}

pub(crate) fn metric(out: &BuiltinOutput, name: &str) -> f64 {
    out.metrics[name].value
}
