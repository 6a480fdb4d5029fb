//! Makes tables and reports of a finished run again from its results, with the present flow. Writes nothing into a
//! store.

use std::collections::BTreeMap;

use flow_core::{Builtins, Digest, Expansion, Input, InstanceId, Outcome, StepResult, Uses, reason::Fault};
use flow_store::Objects;
use serde_json::json;

use super::builtin::{self, RemadeFiles};
use crate::driver::session::Session;

/// The files of a report or a table, or the error.
pub struct RemadeStep {
    pub label: String,
    /// It is a report.
    pub is_report: bool,
    pub files: Result<RemadeFiles, Fault>,
}

/// Makes every table, analysis and report of a workflow again from a run's `results` by label, with files in `objects`.
/// Simulations are not repeated, because they take as long as before.
pub fn remake(
    session: &Session,
    builtins: &dyn Builtins,
    results: &BTreeMap<String, StepResult>,
    objects: &Objects,
) -> Vec<RemadeStep> {
    let expansion = &session.expansion;
    let mut settled: BTreeMap<InstanceId, StepResult> = BTreeMap::new();
    let mut made: BTreeMap<String, RemadeFiles> = BTreeMap::new();
    let mut remade = Vec::new();
    // An instance comes after those that it needs.
    for instance in &expansion.instances {
        let id = instance.id;
        let label = instance.label.to_string();
        let known = results.get(&label);
        let name = match &expansion.steps[instance.step.index()].uses {
            Uses::Builtin(name) if name != "simulate" && instance.skip.is_none() => name,
            _ => {
                settled.extend(known.map(|result| (id, result.clone())));
                continue;
            }
        };
        let lies = |input: &Input| session.path(&input.path);
        let output = builtin::input(expansion, id, &settled, &[], objects, Some(&made), lies)
            .and_then(|input| builtins.run(name, &input));
        let output = match output {
            Ok(output) => output,
            Err(why) => {
                remade.push(RemadeStep { label, is_report: name == "report", files: Err(why) });
                continue;
            }
        };
        let blank = || blank(expansion, id, &label);
        if let Some(mut result) = known.cloned().or_else(blank) {
            (result.outcome, result.metrics, result.cause) = (Outcome::Ok, output.metrics, output.cause);
            settled.insert(id, result);
        }
        made.insert(label.clone(), output.files.clone());
        remade.push(RemadeStep { label, is_report: name == "report", files: Ok(output.files) });
    }
    remade
}

/// An empty result for a step that the run did not have, such as a table added since.
fn blank(expansion: &Expansion, id: InstanceId, label: &str) -> Option<StepResult> {
    let instance = &expansion.instances[id.index()];
    let value = json!({
        "fingerprint": Digest::of(label.as_bytes()).to_string(), "workflow": expansion.workflow,
        "step": expansion.steps[instance.step.index()].name, "label": label, "axes": {}, "outcome": "ok", "run": "",
        "started_at": 0, "ended_at": 0,
    });
    serde_json::from_value(value).ok()
}
