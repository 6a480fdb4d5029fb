//! Differences between the steps of two versions of a workflow, as their author wrote them.

use std::collections::{BTreeMap, BTreeSet};

use indexmap::IndexMap;
use serde_json::{Map, Value};

/// The keys of each step as written.
pub type WrittenSteps = BTreeMap<String, Map<String, Value>>;

/// One difference.
#[derive(Clone, Debug, PartialEq)]
pub enum WrittenChange {
    Added(String),
    Removed(String),
    /// A step has a new name and the same keys.
    Renamed {
        was: String,
        is: String,
    },
    /// The same key differs in the same way in these steps.
    Key {
        steps: Vec<String>,
        key: String,
        was: Option<Value>,
        is: Option<Value>,
    },
}

/// The differences, in the order of step names. If one side is only a part of its workflow (`is_part`), steps that the
/// other side lacks do not count.
pub fn written_changes(was: &WrittenSteps, is: &WrittenSteps, is_part: bool) -> Vec<WrittenChange> {
    let mut changes: Vec<WrittenChange> = Vec::new();
    let mut gone: Vec<&String> = was.keys().filter(|step| !is.contains_key(*step)).collect();
    for step in is.keys().filter(|step| !was.contains_key(*step)) {
        match gone.iter().position(|old| was[*old] == is[step]) {
            Some(at) => changes.push(WrittenChange::Renamed { was: gone.remove(at).clone(), is: step.clone() }),
            None if !is_part => changes.push(WrittenChange::Added(step.clone())),
            None => {}
        }
    }
    changes.extend(gone.into_iter().filter(|_| !is_part).cloned().map(WrittenChange::Removed));
    // The same change in several steps is reported once, at the first.
    let mut keys: IndexMap<_, (Vec<String>, Option<Value>, Option<Value>)> = IndexMap::new();
    for (step, now) in is {
        let Some(then) = was.get(step) else { continue };
        let (then, now) = (leaves(then), leaves(now));
        for key in then.keys().chain(now.keys()).collect::<BTreeSet<_>>() {
            let (was, is) = (then.get(key).copied(), now.get(key).copied());
            if was == is || key.starts_with("env.") && text(was) == text(is) {
                continue;
            }
            let json = |value: Option<&Value>| value.map(Value::to_string);
            keys.entry((key.clone(), json(was), json(is)))
                .or_insert_with(|| (Vec::new(), was.cloned(), is.cloned()))
                .0
                .push(step.clone());
        }
    }
    changes.extend(keys.into_iter().map(|((key, ..), (steps, was, is))| WrittenChange::Key { steps, key, was, is }));
    changes
}

/// A variable is a text, in whatever way it is written.
fn text(value: Option<&Value>) -> Option<String> {
    value.map(|value| value.as_str().map_or_else(|| value.to_string(), str::to_owned))
}

/// The values below the keys by their paths, `env.SCALE`. A list is one value.
fn leaves(keys: &Map<String, Value>) -> BTreeMap<String, &Value> {
    let mut found = BTreeMap::new();
    let mut open: Vec<(String, &Value)> = keys.iter().map(|(key, value)| (key.clone(), value)).collect();
    while let Some((path, value)) = open.pop() {
        match value {
            Value::Object(map) if !map.is_empty() => {
                open.extend(map.iter().map(|(key, value)| (format!("{path}.{key}"), value)));
            }
            value => _ = found.insert(path, value),
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// The differences, one per line.
    fn differences(was: Value, is: Value) -> Vec<String> {
        let steps = |value: Value| serde_json::from_value::<WrittenSteps>(value).unwrap();
        let shown = |value: &Option<Value>| value.as_ref().map_or("none".to_owned(), Value::to_string);
        let line = |change: &WrittenChange| match change {
            WrittenChange::Added(step) => format!("+{step}"),
            WrittenChange::Removed(step) => format!("-{step}"),
            WrittenChange::Renamed { was, is } => format!("{was} is {is}"),
            WrittenChange::Key { steps, key, was, is } => {
                format!("{} {key}: {} → {}", steps.join(","), shown(was), shown(is))
            }
        };
        written_changes(&steps(was), &steps(is), false).iter().map(line).collect()
    }

    #[test]
    fn each_key_of_a_step_that_differs_is_told_with_both_values() {
        let train = json!({
            "run": "python train.py --epochs 5", "env": {"SCALE": "1", "N": 4}, "matrix": {"lr": [0.1, 0.2], "seed": [0]},
            "timeout": "2h", "when": "params.on", "metrics": {"stdout": "acc {acc}"},
        });
        let edit = |pointer: &str, value: Value| {
            let mut edited = json!({"train": train});
            let (parent, key) = pointer.rsplit_once('/').unwrap();
            let parent = edited.pointer_mut(&format!("/train{parent}")).unwrap().as_object_mut().unwrap();
            if value.is_null() {
                _ = parent.remove(key)
            } else {
                _ = parent.insert(key.to_owned(), value)
            }
            differences(json!({"train": train}), edited)
        };
        let run = r#"train run: "python train.py --epochs 5" → "python train.py --epochs 3""#;
        assert_eq!(edit("/run", json!("python train.py --epochs 3")), [run]);
        assert_eq!(edit("/env/SCALE", json!("2")), [r#"train env.SCALE: "1" → "2""#]);
        assert_eq!(edit("/env/N", json!("4")), [""; 0], "the same text");
        assert_eq!(edit("/env/NEW", json!(1)), ["train env.NEW: none → 1"]);
        assert_eq!(edit("/env", Value::Null), ["train env.N: 4 → none", r#"train env.SCALE: "1" → none"#]);
        assert_eq!(edit("/matrix/lr", json!([0.1])), ["train matrix.lr: [0.1,0.2] → [0.1]"]);
        assert_eq!(edit("/matrix/batch", json!([16])), ["train matrix.batch: none → [16]"]);
        assert_eq!(edit("/matrix", json!({"seed": [0], "lr": [0.1, 0.2]})), [""; 0], "the order of axes");
        assert_eq!(edit("/timeout", json!("3h")), [r#"train timeout: "2h" → "3h""#]);
        assert_eq!(edit("/with", json!({"a": {"b": 1}})), ["train with.a.b: none → 1"]);
        assert_eq!(edit("/when", Value::Null), [r#"train when: "params.on" → none"#]);
        let stdout = r#"train metrics.stdout: "acc {acc}" → "top1 {acc}""#;
        assert_eq!(edit("/metrics/stdout", json!("top1 {acc}")), [stdout]);
    }

    #[test]
    fn steps_that_are_new_gone_renamed_or_changed_alike() {
        let (a, b) = (json!({"run": "a"}), json!({"run": "b"}));
        assert_eq!(differences(json!({"one": a}), json!({"one": a, "two": b})), ["+two"]);
        assert_eq!(differences(json!({"one": a, "two": b}), json!({"one": a})), ["-two"]);
        assert_eq!(differences(json!({"one": a}), json!({"two": a})), ["one is two"]);
        assert_eq!(differences(json!({"one": a}), json!({"two": b})), ["+two", "-one"]);
        let both = differences(json!({"one": a, "two": a}), json!({"one": b, "two": b}));
        assert_eq!(both, [r#"one,two run: "a" → "b""#]);
        let steps = |value: Value| serde_json::from_value::<WrittenSteps>(value).unwrap();
        let part = written_changes(&steps(json!({"one": a, "two": b})), &steps(json!({"one": a})), true);
        assert_eq!(part, [], "one of the runs was of one step");
    }
}
