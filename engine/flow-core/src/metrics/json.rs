//! Numbers in JSON: an object, a list of objects, or one object per line. Names keep their written order.

use std::sync::LazyLock;

use indexmap::IndexMap;
use regex::Regex;
use serde::{Deserialize, de::IgnoredAny};

use super::{
    Key, MetricRow,
    columns::{Columns, Field, Name, key_name},
};

/// A JSON value, as far as it matters here.
#[derive(Deserialize)]
#[serde(untagged)]
pub(super) enum Node {
    Number(f64),
    Text(String),
    List(Vec<Node>),
    Object(Object),
    Nothing(IgnoredAny),
}

type Object = IndexMap<String, Node>;

/// Numbers that programs write although JSON has no such numbers, and numbers that are too large. Also matches strings,
/// so that their content is skipped.
static BARE: LazyLock<Regex> = LazyLock::new(|| {
    let numbers = r"[-+]?\b(?:NaN|nan|Infinity|inf)\b|-?\b[0-9][0-9.]*(?:[eE][-+]?[0-9]+)?\b";
    Regex::new(&format!(r#""(?:[^"\\]|\\.)*"|{numbers}"#)).unwrap_or_else(|e| unreachable!("{e}"))
});

/// Parses JSON with `NaN` and `Infinity` as Python writes them. They become texts, like numbers in quotes.
pub(super) fn parse(text: &str) -> serde_json::Result<Node> {
    serde_json::from_str(text).or_else(|error| {
        let known = BARE.replace_all(text, |found: &regex::Captures<'_>| match &found[0] {
            quoted if quoted.starts_with('"') => quoted.to_owned(),
            number if number.parse().is_ok_and(f64::is_finite) => number.to_owned(),
            other => format!("\"{other}\""),
        });
        // The error refers to the original text.
        serde_json::from_str(&known).map_err(|_| error)
    })
}

/// Reads an object of numbers, the only one in its file (`alone`) or one of many, or a list of such objects; false for
/// anything else.
pub(super) fn read(node: &Node, alone: bool, columns: &mut Columns, rows: &mut Vec<MetricRow>) -> bool {
    match node {
        Node::Object(object) => read_object(object, alone, columns, rows),
        Node::List(list) if list.iter().all(|one| matches!(one, Node::Object(_) | Node::Nothing(_))) => {
            list.iter().for_each(|one| _ = read(one, false, columns, rows));
        }
        Node::Nothing(_) => {}
        _ => return false,
    }
    true
}

/// In ids: separates the names of a path, marks a list.
const BELOW: &str = "\0.";
const EACH: &str = "\0[";

/// A value with its id, its name and its key.
struct NamedValue<'a> {
    id: String,
    name: String,
    field: Field<'a>,
    key: Key,
}

/// State while reading an object and its nested objects.
struct Reading<'a, 'c> {
    columns: &'c mut Columns,
    /// The file is one object, so a list of objects with an epoch or a step is a log.
    alone: bool,
    /// The file is one object without an epoch or step, so a list of numbers is a series.
    series: bool,
    found: Vec<NamedValue<'a>>,
    lists: Vec<(String, String, &'a [Node])>,
}

/// Reads an object: the only one in its file (`alone`), or one of many.
fn read_object(object: &Object, alone: bool, columns: &mut Columns, rows: &mut Vec<MetricRow>) {
    let has_key = object.iter().any(|(name, node)| key_name(name).is_some() && !matches!(node, Node::List(_)));
    let mut reading = Reading { columns, alone, series: alone && !has_key, found: Vec::new(), lists: Vec::new() };
    reading.object(object, "", "", Key::default(), true);
    let Reading { columns, found, lists, .. } = reading;
    let mut all = series(&lists, columns);
    all.extend(found);
    let name = |NamedValue { id, name, .. }: &NamedValue<'_>| Name {
        id: id.clone(),
        metric: name.clone(),
        shown: id.replace(BELOW, ".").replace(EACH, "[]"),
    };
    let new: Vec<Name> = all.iter().filter(|found| !columns.knows(&found.id)).map(name).collect();
    columns.name(new.into_iter(), false);
    all.into_iter().for_each(|NamedValue { id, field, key, .. }| columns.take(&id, field, key, rows));
}

/// The n-th values of all lists belong to the n-th epoch, or to that in a list `epoch`.
fn series<'a>(lists: &[(String, String, &'a [Node])], columns: &mut Columns) -> Vec<NamedValue<'a>> {
    let (keys, lists): (Vec<_>, Vec<_>) = lists.iter().partition(|(id, ..)| key_name(id).is_some());
    let longest = lists.iter().map(|(.., list)| list.len()).max().unwrap_or(0);
    let mut all = Vec::new();
    for n in 0..longest {
        let mut key = Key::default();
        for (name, _, list) in &keys {
            if let Some(field) = list.get(n).and_then(field) {
                columns.take_key(name, field, &mut key);
            }
        }
        if keys.is_empty() {
            key.epoch = Some(n as f64 + 1.0);
        }
        for (id, name, list) in &lists {
            let Some(field) = list.get(n).and_then(field) else { continue };
            all.push(NamedValue { id: id.clone(), name: name.clone(), field, key });
        }
    }
    all
}

fn field(node: &Node) -> Option<Field<'_>> {
    match node {
        Node::Number(value) => Some(Field::Number(*value, "")),
        Node::Text(text) => Some(Field::Text(text, "")),
        Node::List(list) if has_numbers(node) => Some(Field::List(list.len())),
        Node::List(_) | Node::Nothing(_) | Node::Object(_) => None,
    }
}

fn has_numbers(node: &Node) -> bool {
    match node {
        Node::Number(_) => true,
        Node::List(list) => list.iter().any(has_numbers),
        Node::Object(object) => object.values().any(has_numbers),
        Node::Text(_) | Node::Nothing(_) => false,
    }
}

/// Whether it is a list of objects with an epoch or a step.
fn is_log(node: &Node) -> bool {
    let is_row = |one: &Node| matches!(one, Node::Object(object) if object.keys().any(|name| key_name(name).is_some()));
    matches!(node, Node::List(list) if list.iter().any(is_row) && list.iter().all(|one| matches!(one, Node::Object(_))))
}

impl<'a> Reading<'a, '_> {
    /// Reads an object below a name. Only an `outermost` object, of a line or a file, has its own epoch and step.
    fn object(&mut self, object: &'a Object, id: &str, name: &str, outer: Key, outermost: bool) {
        let mut key = outer;
        let mut keys = [false; 2];
        let mut rest = Vec::new();
        for (own, node) in object {
            match (key_name(own).filter(|_| outermost), field(node)) {
                (Some(epoch), Some(field))
                    if !matches!(field, Field::List(_)) && !std::mem::replace(&mut keys[usize::from(epoch)], true) =>
                {
                    self.columns.take_key(own, field, &mut key);
                }
                _ => rest.push((own, node)),
            }
        }
        let of_objects = |node: &Node| self.alone && is_log(node);
        let only_one = rest.iter().filter(|(_, node)| of_objects(node)).count() == 1;
        // The log comes before the final values.
        rest.sort_by_key(|(_, node)| !of_objects(node));
        let rest: Vec<_> = rest.into_iter().map(|(own, node)| (own, node, of_objects(node))).collect();
        for (own, node, is_log) in rest {
            let join = |prefix: &str, between: &str| match prefix {
                "" => own.clone(),
                prefix => format!("{prefix}{between}{own}"),
            };
            let (id, full) = (join(id, BELOW), join(name, "_"));
            match node {
                Node::Object(inner) => self.below(inner, id, full, key),
                Node::List(list) if is_log => {
                    let name = if only_one { name } else { &full };
                    for one in list {
                        if let Node::Object(inner) = one {
                            self.object(inner, &format!("{id}{EACH}"), name, Key::default(), true);
                        }
                    }
                }
                Node::List(list)
                    if self.series && !list.iter().any(|one| matches!(one, Node::List(_) | Node::Object(_))) =>
                {
                    self.lists.push((id, full, list));
                }
                _ => {
                    let Some(field) = field(node) else { continue };
                    self.found.push(NamedValue { id, name: full, field, key });
                }
            }
        }
    }

    /// Reads a nested object, or a number with its unit: `{"value": 1, "unit": "s"}`.
    fn below(&mut self, inner: &'a Object, id: String, name: String, key: Key) {
        let field = match (inner.get("value"), inner.get("unit")) {
            (Some(Node::Number(value)), Some(Node::Text(unit))) => Field::Number(*value, unit),
            (Some(Node::Text(text)), Some(Node::Text(unit))) => Field::Text(text, unit),
            _ => return self.object(inner, &id, &name, key, false),
        };
        self.found.push(NamedValue { id, name, field, key });
    }
}

#[cfg(test)]
mod tests {
    use super::{super::tests::shown, *};

    fn read_text(text: &str, is_line: bool) -> (Vec<String>, Vec<String>) {
        let (mut columns, mut rows) = (Columns::default(), Vec::new());
        let node = parse(text).expect(text);
        assert!(read(&node, !is_line, &mut columns, &mut rows), "{text}");
        (shown(rows), columns.remarks("m.json"))
    }

    #[test]
    fn numbers_are_read_from_every_shape() {
        for (text, numbers) in [
            (
                r#"{"top1": 0.9, "val": {"loss": 1}, "time": {"value": 3, "unit": "s"}, "name": "x", "ok": true, "none": null}"#,
                &["top1=0.9", "val_loss=1", "time=3 s"][..],
            ),
            (
                r#"{"epoch": 3, "val_acc": "0.9321", "memory": "1.3 GB", "time": {"value": "3", "unit": "s"}}"#,
                &["3:val_acc=0.9321", "3:memory=1.3 GB", "3:time=3 s"],
            ),
            (
                r#"[{"epoch": 0.5, "step": 10, "loss": 2}, {"Epoch": "1", "Step": 20, "loss": 1}]"#,
                &["0.5:10@loss=2", "1:20@loss=1"],
            ),
            (
                r#"{"loss": NaN, "low": -Infinity, "high": Infinity, "note": "NaN, \"inf\"", "top1": 0.9}"#,
                &["loss=NaN", "low=-inf", "high=inf", "top1=0.9"],
            ),
            (
                r#"{"loss": [3, 2, null, 0], "val": {"loss": ["3.5", NaN]}}"#,
                &["1:loss=3", "1:val_loss=3.5", "2:loss=2", "2:val_loss=NaN", "4:loss=0"],
            ),
            (r#"{"epoch": [0, 1], "loss": [3, 2]}"#, &["0:loss=3", "1:loss=2"]),
            (
                r#"{"eval_steps": 500, "epoch": 2.0, "log_history": [{"loss": 2.0, "epoch": 1.0, "step": 5}, {"loss": 1.0, "epoch": 2.0, "step": 10}]}"#,
                &["1:5@loss=2", "2:10@loss=1", "2:eval_steps=500"],
            ),
            (
                r#"{"train": [{"epoch": 1, "loss": 2}], "val": [{"epoch": 1, "loss": 3}]}"#,
                &["1:train_loss=2", "1:val_loss=3"],
            ),
            (r#"{"0": {"precision": 0.5}, "1": {"precision": 0.25}}"#, &["n_0_precision=0.5", "n_1_precision=0.25"]),
        ] {
            assert_eq!(read_text(text, false).0, numbers, "{text}");
        }
    }

    #[test]
    fn no_two_names_are_one() {
        for (text, numbers, remark) in [
            (r#"{"Loss": 1, "loss": 2}"#, &["loss_2=1", "loss=2"][..], "`Loss` as `loss_2`"),
            (
                r#"{"val/loss": 1, "val_loss": 2, "val": {"loss": 3}}"#,
                &["val_loss_3=1", "val_loss=2", "val_loss_2=3"],
                "`val/loss` as `val_loss_3`, `val.loss` as `val_loss_2`",
            ),
            (r#"{"loss_2": 1, "loss": 2, "LOSS": 3}"#, &["loss_2=1", "loss=2", "loss_3=3"], "`LOSS` as `loss_3`"),
            (r#"{"1st": 1, "n_1st": 2}"#, &["n_1st_2=1", "n_1st=2"], "`1st` as `n_1st_2`"),
        ] {
            let remark = format!("names in `m.json` become metrics with other names: {remark}");
            assert_eq!(
                read_text(text, true),
                (numbers.iter().map(|n| (*n).to_owned()).collect(), vec![remark]),
                "{text}"
            );
        }
    }

    #[test]
    fn what_is_not_read_is_told() {
        for (text, numbers, remark) in [
            (
                r#"{"loss": 1e400, "acc": 0.5}"#,
                &["acc=0.5"][..],
                "`loss` of `m.json`: `1e400` is not a number (1 value)",
            ),
            (r#"{"epoch": 1, "iou": [0.5, 0.25]}"#, &[], "`iou` of `m.json`: `[2 values]` is a list (1 value)"),
            (
                r#"{"epoch": 1, "classes": [{"iou": 0.5}, {"iou": 0.25}], "acc": 1}"#,
                &["1:acc=1"],
                "`classes` of `m.json`: `[2 values]` is a list (1 value)",
            ),
            (
                r#"{"memory": "12G", "sha": "3f2a9c1", "day": "2026-11-26", "model": "3layers"}"#,
                &[],
                "`memory` of `m.json`: the unit of `12G` is ambiguous (1 value)",
            ),
            (r#"{"torch": "1.13.1", "acc": 1}"#, &["acc=1"], "`torch` of `m.json`: `1.13.1` is not a number (1 value)"),
        ] {
            assert_eq!(
                read_text(text, false),
                (numbers.iter().map(|n| (*n).to_owned()).collect(), vec![remark.to_owned()]),
                "{text}"
            );
        }
    }
}
