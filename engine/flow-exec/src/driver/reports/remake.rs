//! Makes tables and reports of a finished run again from its results, with the present flow. Writes nothing into a
//! store.

use std::collections::{BTreeMap, BTreeSet};

use flow_core::{
    Builtins, Digest, Expansion, InstanceId, Outcome, SettledResults, StepResult, Uses,
    reason::{BuiltinFault, Fault},
};
use flow_store::Objects;
use serde_json::json;

use super::builtin;
use crate::{driver::session::Session, text};

/// Files made by one of flow's own steps, by path.
pub type RemadeFiles = BTreeMap<String, Vec<u8>>;

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
    for id in in_order(expansion) {
        let instance = &expansion.instances[id.index()];
        let label = instance.label.to_string();
        let known = results.get(&label);
        let name = match &expansion.steps[instance.step.index()].uses {
            Uses::Builtin(name) if name != "simulate" && instance.skip.is_none() => name,
            _ => {
                settled.extend(known.map(|result| (id, result.clone())));
                continue;
            }
        };
        let output = input(session, id, &settled, objects, &made).and_then(|input| builtins.run(name, &input));
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

/// All instances, each after those that it needs or reads.
fn in_order(expansion: &Expansion) -> Vec<InstanceId> {
    fn visit(expansion: &Expansion, id: InstanceId, seen: &mut BTreeSet<InstanceId>, order: &mut Vec<InstanceId>) {
        if !seen.insert(id) {
            return;
        }
        for need in &expansion.instances[id.index()].needs {
            visit(expansion, need.on, seen, order);
        }
        order.push(id);
    }
    let (mut seen, mut order) = (BTreeSet::new(), Vec::new());
    for instance in &expansion.instances {
        visit(expansion, instance.id, &mut seen, &mut order);
    }
    order
}

/// The input of one of them: the same as in the run, except for the tables, which were made again.
fn input(
    session: &Session,
    id: InstanceId,
    settled: &dyn SettledResults,
    objects: &Objects,
    made: &BTreeMap<String, RemadeFiles>,
) -> Result<flow_core::BuiltinInput, Fault> {
    let expansion = &session.expansion;
    let mut input = expansion.builtin_input(id, settled)?.ok_or("it is not a built-in step")?;
    for view in input.steps.values_mut() {
        view.series = view.results.iter().map(|result| builtin::series(objects, result)).collect::<Result<_, _>>()?;
        for (result, files) in view.results.iter().zip(&mut view.files) {
            match made.get(&result.label) {
                Some(made) => files.clone_from(made),
                // A bundle has no other outputs.
                None if view.uses.as_deref().is_some_and(|uses| uses.starts_with("flow/")) => {
                    for artifact in result.outputs.values() {
                        files.extend(builtin::files(objects, artifact)?);
                    }
                }
                None => {}
            }
        }
    }
    input.environments = builtin::environments(&input, objects);
    for named in expansion.instances[id.index()].inputs.iter().filter(|input| input.in_place) {
        let unread =
            |e: std::io::Error| BuiltinFault::InputUnread { path: named.path.clone(), error: Box::new(e.into()) };
        let bytes = text::read_bytes(&session.path(&named.path), builtin::MAX_BYTES).map_err(unread)?;
        input.files.insert(expansion.lies_at(named), bytes);
    }
    Ok(input)
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
