//! Replaces axis values by the names that the author gave them, in one language.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};

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
    let written = serde_json::to_string(model).ok()?;
    let read = |renaming: &mut Renaming<'_>| {
        let mut value: OrderedJson = serde_json::from_str(&written).ok()?;
        renaming.walk("", &mut value);
        serde_json::from_str(&serde_json::to_string(&value).ok()?).ok()
    };
    let mut all = Renaming { names: &names, kept: OTHERS.map(str::to_owned).into(), touched: BTreeSet::new() };
    if let Some(named) = read(&mut all) {
        return Some(named);
    }
    // A value may also be a word of the model (`gpu`). The keys with such words keep them.
    let keeps = |key: &&String| {
        let rest = all.touched.iter().filter(|other| other != key).chain(&all.kept);
        let mut one = Renaming { names: &names, kept: rest.cloned().collect(), touched: BTreeSet::new() };
        read(&mut one).is_none()
    };
    let words: BTreeSet<String> = all.touched.iter().filter(keeps).cloned().collect();
    read(&mut Renaming { kept: all.kept.union(&words).cloned().collect(), ..all })
}

/// JSON with ordered maps, because the order of axes is the order of columns.
#[derive(Serialize, Deserialize)]
#[serde(untagged)]
enum OrderedJson {
    Null,
    Bool(bool),
    Number(serde_json::Number),
    Text(String),
    List(Vec<OrderedJson>),
    Map(IndexMap<String, OrderedJson>),
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

/// Replaces values in a model.
struct Renaming<'a> {
    names: &'a BTreeMap<String, String>,
    /// Keys whose texts stay.
    kept: BTreeSet<String>,
    /// Keys of which a text was replaced.
    touched: BTreeSet<String>,
}

impl Renaming<'_> {
    /// Walks the value of a key.
    fn walk(&mut self, key: &str, value: &mut OrderedJson) {
        match value {
            OrderedJson::Text(text) => {
                if let Some(label) = renamed(text, self.names, &BETWEEN) {
                    *text = label;
                    self.touched.insert(key.to_owned());
                }
            }
            OrderedJson::List(values) => values.iter_mut().for_each(|value| self.walk(key, value)),
            OrderedJson::Map(axes) if key == "axes" => axes.iter_mut().for_each(|(axis, value)| self.axis(axis, value)),
            OrderedJson::Map(fields) => {
                for (key, value) in fields {
                    if !self.kept.contains(key) {
                        self.walk(key, value);
                    }
                }
            }
            OrderedJson::Null | OrderedJson::Bool(_) | OrderedJson::Number(_) => {}
        }
    }

    fn axis(&self, axis: &str, value: &mut OrderedJson) {
        let written = match value {
            OrderedJson::Text(text) => text.clone(),
            OrderedJson::Number(number) => number.to_string(),
            _ => return,
        };
        if let Some(label) = self.names.get(&point(axis, &written)) {
            *value = OrderedJson::Text(label.clone());
        }
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

    #[test]
    fn a_value_that_is_also_a_word_of_the_model_is_named() {
        #[derive(Debug, PartialEq, Serialize, Deserialize)]
        #[serde(rename_all = "snake_case")]
        enum Bound {
            Gpu,
        }
        #[derive(Debug, PartialEq, Serialize, Deserialize)]
        struct Model {
            by: Bound,
            scope: String,
        }
        let model = |scope: &str| Model { by: Bound::Gpu, scope: scope.to_owned() };
        let label = json!({"device": {"gpu": {"en": "the GPU", "zh": "GPU"}}});
        let labels: Labels = serde_json::from_value(label).expect("labels");
        assert_eq!(everywhere(&model("gpu"), &labels, "en"), Some(model("the GPU")));
    }
}
