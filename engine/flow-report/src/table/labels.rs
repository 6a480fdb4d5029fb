//! Replaces axis values by the names that the author gave them, in one language.

use std::borrow::Cow;
use std::collections::BTreeMap;

use indexmap::IndexMap;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use super::model::{Content, Table};
use super::with::Text;
use crate::columns::point;

/// Names by axis, then by value.
pub(crate) type Labels = IndexMap<String, IndexMap<String, Text>>;

/// Keys of a model whose texts contain no axis values: names of steps, columns and axes, and the author's texts.
const OTHERS: [&str; 8] = ["with", "labels", "column", "axis", "from", "step", "rows", "measure"];
/// Separators between the points of a scope, and between the two points of a difference.
const BETWEEN: [&str; 2] = [", ", " − "];

/// The table with its values replaced by names.
pub(crate) fn named<'a>(table: &'a Table, lang: &str) -> Cow<'a, Table> {
    everywhere(table, &table.labels, lang).map_or(Cow::Borrowed(table), |mut named| {
        number_columns(&mut named, lang);
        Cow::Owned(named)
    })
}

/// A model with axis values replaced by names, alone or within a scope. `None` if there are no names.
pub(crate) fn everywhere<T: Serialize + DeserializeOwned>(model: &T, labels: &Labels, lang: &str) -> Option<T> {
    let mut names = BTreeMap::new();
    for (axis, values) in labels {
        for (value, label) in values {
            // A bare number may mean anything, so a number needs its axis here: `lr=0.1`.
            names.insert(point(axis, value), label.of(lang).to_owned());
        }
    }
    if names.is_empty() {
        return None;
    }
    let mut value: Ordered = serde_json::from_str(&serde_json::to_string(model).ok()?).ok()?;
    walk(&mut value, &names);
    serde_json::from_str(&serde_json::to_string(&value).ok()?).ok()
}

/// JSON with ordered maps, because the order of axes is the order of columns.
#[derive(Serialize, Deserialize)]
#[serde(untagged)]
enum Ordered {
    Null,
    Bool(bool),
    Number(serde_json::Number),
    Text(String),
    List(Vec<Ordered>),
    Map(IndexMap<String, Ordered>),
}

/// Replaces numbers that head rows and columns by their names.
pub(crate) fn number_columns(table: &mut Table, lang: &str) {
    let Table { rows, split, columns, body, labels, reference, .. } = table;
    let of = |axis: &str, value: &str| {
        let label = labels.get(axis)?.get(value).filter(|_| value.parse::<f64>().is_ok())?;
        Some(label.of(lang).to_owned())
    };
    for (at, axis) in rows.iter().enumerate() {
        for cell in body.iter_mut().filter_map(|row| row.cells.get_mut(at)) {
            if let Content::Text { text, .. } = &mut cell.content
                && let Some(label) = of(axis, text)
            {
                *text = label;
            }
        }
    }
    if let Some((axis, values)) = split {
        let parts = columns.iter_mut().filter_map(|column| column.part.as_mut());
        for value in values.iter_mut().chain(parts) {
            if let Some(label) = of(axis, value) {
                *value = label;
            }
        }
    }
    if let Some(reference) = reference {
        reference.table.labels.clone_from(labels);
        number_columns(&mut reference.table, lang);
    }
}

fn walk(value: &mut Ordered, names: &BTreeMap<String, String>) {
    match value {
        Ordered::Text(text) => {
            if let Some(label) = renamed(text, names, &BETWEEN) {
                *text = label;
            }
        }
        Ordered::List(values) => values.iter_mut().for_each(|value| walk(value, names)),
        Ordered::Map(fields) => {
            for (key, value) in fields.iter_mut().filter(|(key, _)| !OTHERS.contains(&key.as_str())) {
                match value {
                    Ordered::Map(axes) if key == "axes" => {
                        for (axis, value) in axes.iter_mut() {
                            let written = match value {
                                Ordered::Text(text) => text.clone(),
                                Ordered::Number(number) => number.to_string(),
                                _ => continue,
                            };
                            if let Some(label) = names.get(&point(axis, &written)) {
                                *value = Ordered::Text(label.clone());
                            }
                        }
                    }
                    value => walk(value, names),
                }
            }
        }
        Ordered::Null | Ordered::Bool(_) | Ordered::Number(_) => {}
    }
}

/// The text with the known values in it replaced; `None` if it has none.
fn renamed(text: &str, names: &BTreeMap<String, String>, between: &[&str]) -> Option<String> {
    if let Some(label) = names.get(text) {
        return Some(label.clone());
    }
    let (mark, rest) = between.split_first()?;
    let parts: Vec<&str> = text.split(mark).collect();
    let named: Vec<Option<String>> = parts.iter().map(|part| renamed(part, names, rest)).collect();
    let any = named.iter().any(Option::is_some);
    let whole = named.into_iter().zip(parts).map(|(named, part)| named.unwrap_or_else(|| part.to_owned()));
    any.then(|| whole.collect::<Vec<_>>().join(mark))
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    #[test]
    fn values_are_named_alone_and_in_scopes_and_nothing_else_is() {
        let labels: Labels = serde_json::from_value(json!({
            "version": {"v7": {"en": "v7 (folders)", "zh": "v7（文件夹）"}},
            "batch": {"32": {"en": "small", "zh": "小"}},
        }))
        .expect("labels");
        let table = [
            ("v7", "v7（文件夹）"),
            ("v7, batch=32", "v7（文件夹）, 小"),
            ("v11 − v7", "v11 − v7（文件夹）"),
            ("v11, batch=64", "v11, batch=64"),
            ("solo[version=v7,batch=32]", "solo[version=v7,batch=32]"),
            ("32", "32"),
            ("v70", "v70"),
        ];
        for (before, expected) in table {
            let named = everywhere(&json!({"scope": before, "column": "v7"}), &labels, "zh").expect("names");
            assert_eq!(named, json!({"scope": expected, "column": "v7"}));
        }
        let axes = |batch: Value| json!({"axes": {"batch": batch, "epochs": 32}});
        assert_eq!(everywhere(&axes(json!(32)), &labels, "en"), Some(axes(json!("small"))));
        assert_eq!(everywhere(&json!("v7"), &Labels::new(), "zh"), None);
        let order = |axes: &[(&str, &str)]| {
            axes.iter()
                .map(|(axis, value)| ((*axis).to_owned(), Value::from(*value)))
                .collect::<IndexMap<String, Value>>()
        };
        let named = everywhere(&order(&[("version", "v7"), ("batch", "64")]), &labels, "en").expect("names");
        assert!(named.into_iter().eq(order(&[("version", "v7 (folders)"), ("batch", "64")])), "axes keep their order");
    }
}
