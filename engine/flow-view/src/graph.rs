//! The steps of a run as a graph: which step reads which, and how far each is from the first ones. Knows steps only as their
//! author wrote them.

use std::collections::BTreeSet;

use serde::Serialize;
use serde_json::{Map, Value};

/// A step, and the earlier steps that it refers to.
#[derive(Debug, Serialize)]
struct Node {
    step: String,
    /// Whether it makes a report.
    report: bool,
    /// The length of the longest path to it.
    layer: usize,
    needs: BTreeSet<usize>,
}

/// Steps in an order of execution.
#[derive(Debug, Default, Serialize)]
#[serde(transparent)]
pub(crate) struct Graph {
    nodes: Vec<Node>,
}

impl Graph {
    /// Adds a step, unless it is known. A step only needs steps that came before it.
    pub(crate) fn add(&mut self, step: &str, written: &Map<String, Value>) {
        if self.nodes.iter().any(|node| node.step == step) {
            return;
        }
        let uses = written.get("uses").and_then(Value::as_str).unwrap_or_default();
        let mut needs = BTreeSet::new();
        for (key, value) in written {
            let names = key == "needs" || key == "with" && uses.starts_with("flow/");
            self.references(value, names, &mut needs);
        }
        let layer = needs.iter().map(|at| self.nodes[*at].layer + 1).max().unwrap_or(0);
        self.nodes.push(Node { step: step.to_owned(), report: uses == "flow/report", layer, needs });
    }

    /// Finds `steps.NAME` in expressions, and a step's name alone if this value has `names`.
    fn references(&self, value: &Value, names: bool, found: &mut BTreeSet<usize>) {
        match value {
            Value::String(text) => {
                let referred = text.split("steps.").skip(1).map(|rest| {
                    let end = rest.find(|c: char| !c.is_ascii_alphanumeric() && c != '_').unwrap_or(rest.len());
                    &rest[..end]
                });
                for name in referred.chain(names.then_some(&**text)) {
                    found.extend(self.nodes.iter().position(|node| node.step == name));
                }
            }
            Value::Array(all) => all.iter().for_each(|one| self.references(one, names, found)),
            Value::Object(map) => map.values().for_each(|one| self.references(one, names, found)),
            Value::Null | Value::Bool(_) | Value::Number(_) => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn references_are_found_and_layered() {
        let mut graph = Graph::default();
        let steps = json!([
            {"name": "data", "run": "make"},
            {"name": "train", "run": "train ${{ steps.data.out }}/x", "matrix": {"batch": [1, 2]}},
            {"name": "batch", "run": "echo data", "needs": ["train"]},
            {"name": "table", "uses": "flow/table", "with": {"from": "train", "columns": [{"column": "steps.none.x"}]}},
            {"name": "report", "uses": "flow/report", "with": {"sections": [{"table": "table"}, {"table": "later"}]}},
            {"name": "report", "run": "again"},
            {"name": "later", "run": "cat ${{ steps.data_too.out }} ${{ steps.report.out }}"},
        ]);
        for step in steps.as_array().unwrap() {
            graph.add(step["name"].as_str().unwrap(), step.as_object().unwrap());
        }
        let json = json!(graph);
        let shown: Vec<(&str, u64, String)> = json
            .as_array()
            .unwrap()
            .iter()
            .map(|node| (node["step"].as_str().unwrap(), node["layer"].as_u64().unwrap(), node["needs"].to_string()))
            .collect();
        assert_eq!(
            shown,
            [
                ("data", 0, "[]".to_owned()),
                ("train", 1, "[0]".to_owned()),
                ("batch", 2, "[1]".to_owned()),
                ("table", 2, "[1]".to_owned()),
                ("report", 3, "[3]".to_owned()),
                ("later", 4, "[4]".to_owned()),
            ]
        );
        assert_eq!(json[4]["report"], Value::Bool(true));
    }
}
