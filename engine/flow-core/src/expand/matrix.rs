//! Matrices: the values of the axes, their text in labels, and which instances of two steps belong together.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt::Write,
    sync::Arc,
};

use indexmap::IndexMap;
use minijinja::value::{Value, ValueKind};
use serde_json::Value as Json;

use crate::{
    Diagnostic, Digest, InstanceId,
    expr::{
        Template,
        value::{describe, json_text, to_json, wholes},
    },
    spec::at::Problems,
};

/// An axis with its values.
#[derive(Clone, Debug)]
pub(super) struct Axis {
    pub(super) name: Arc<str>,
    pub(super) values: Vec<AxisValue>,
}

/// One value of an axis.
#[derive(Clone, Debug)]
pub(super) struct AxisValue {
    /// For expressions.
    pub(super) value: Value,
    /// Flattened: `batch`, or `run.batch` and `run.lr`.
    pub(super) flat: Vec<(String, Json)>,
    /// For labels: `batch=16`. Equal exactly for equal values.
    pub(super) text: String,
}

/// A value and its axis.
pub(super) type AxisOf = (Arc<str>, AxisValue);

#[derive(Clone, Debug, Default)]
pub(super) struct Matrix {
    pub(super) axes: Vec<Axis>,
    /// The points, each as value indices by axis, if not every combination exists.
    pub(super) points: Option<Vec<Vec<Option<usize>>>>,
}

impl Matrix {
    /// Number of points; 1 without axes.
    pub(super) fn len(&self) -> usize {
        self.points.as_ref().map_or_else(|| self.axes.iter().map(|a| a.values.len()).product(), Vec::len)
    }

    /// The value index on each axis of a point; the first axis varies slowest.
    pub(super) fn digits(&self, point: usize) -> Vec<Option<usize>> {
        if let Some(points) = &self.points {
            return (0..self.axes.len()).map(|axis| points[point].get(axis).copied().flatten()).collect();
        }
        let mut rest = point;
        let mut digits = vec![None; self.axes.len()];
        for (digit, axis) in digits.iter_mut().zip(&self.axes).rev() {
            *digit = Some(rest % axis.values.len());
            rest /= axis.values.len();
        }
        digits
    }

    /// The values at a point.
    pub(super) fn at(&self, point: usize) -> impl Iterator<Item = (&Axis, &AxisValue)> {
        self.axes.iter().zip(self.digits(point)).filter_map(|(axis, digit)| Some((axis, &axis.values[digit?])))
    }

    /// Removes and adds points, as GitHub Actions does. `exclude` removes every point that has all values of an entry.
    /// An entry of `include` adds its new values to every point that matches its values on existing axes. Without such a
    /// point, it becomes a separate point.
    pub(super) fn shape(&mut self, exclude: &[Vec<AxisOf>], include: &[Vec<AxisOf>]) {
        let own = self.axes.len();
        let count = if own == 0 { 0 } else { self.len() };
        let mut points: Vec<Vec<Option<usize>>> = (0..count).map(|point| self.digits(point)).collect();
        let find = |axes: &[Axis], (name, value): &AxisOf| {
            let axis = axes.iter().position(|axis| axis.name == *name)?;
            Some((axis, axes[axis].values.iter().position(|known| known.text == value.text)))
        };
        let has = |axes: &[Axis], point: &[Option<usize>], of: &AxisOf| {
            find(axes, of).is_some_and(|(axis, digit)| digit.is_some() && point[axis] == digit)
        };
        points.retain(|point| !exclude.iter().any(|entry| entry.iter().all(|of| has(&self.axes, point, of))));
        let originals = points.len();
        for entry in include {
            let (of_axes, further): (Vec<&AxisOf>, Vec<&AxisOf>) =
                entry.iter().partition(|(name, _)| self.axes[..own].iter().any(|axis| axis.name == *name));
            let matches = |point: &usize| of_axes.iter().all(|of| has(&self.axes, &points[*point], of));
            let matching: Vec<usize> = (0..originals).filter(matches).collect();
            let (changed, values) = match matching.is_empty() {
                true => {
                    points.push(Vec::new());
                    (vec![points.len() - 1], entry.iter().collect())
                }
                false => (matching, further),
            };
            for of in values {
                let (axis, digit) = self.place(of);
                for point in &changed {
                    let point = &mut points[*point];
                    point.resize(point.len().max(axis + 1), None);
                    point[axis] = Some(digit);
                }
            }
            if changed[..] == [points.len() - 1] && points.len() > originals {
                let twin = points.last().is_some_and(|last| points[..points.len() - 1].contains(last));
                if twin {
                    points.pop();
                }
            }
        }
        self.points = Some(points);
    }

    /// The axis and value index of a value; both are added if new.
    fn place(&mut self, (name, value): &AxisOf) -> (usize, usize) {
        let axis = self.axes.iter().position(|axis| axis.name == *name).unwrap_or_else(|| {
            self.axes.push(Axis { name: name.clone(), values: Vec::new() });
            self.axes.len() - 1
        });
        let values = &mut self.axes[axis].values;
        let digit = values.iter().position(|known| known.text == value.text).unwrap_or_else(|| {
            values.push(value.clone());
            values.len() - 1
        });
        (axis, digit)
    }

    /// `step[version=v7,batch=16]`.
    pub(super) fn label(&self, step: &Arc<str>, point: usize, repetition: Option<u32>) -> Arc<str> {
        if self.axes.is_empty() && repetition.is_none() {
            return step.clone();
        }
        let mut label = step.to_string();
        let mut separator = '[';
        for (_, value) in self.at(point) {
            let _ = write!(label, "{separator}{}", value.text);
            separator = ',';
        }
        if let Some(n) = repetition {
            let _ = write!(label, "{separator}repetition={n}");
            separator = ',';
        }
        if separator == ',' {
            label.push(']');
        }
        label.into()
    }

    pub(super) fn flat(&self, point: usize) -> IndexMap<String, Json> {
        self.at(point).flat_map(|(_, value)| value.flat.iter().cloned()).collect()
    }
}

/// Reads the values of an axis from the value of its expression.
pub(super) fn axis(name: &Arc<str>, template: &Template, value: &Value, problems: &mut Problems) -> Option<Axis> {
    if value.kind() != ValueKind::Seq && value.kind() != ValueKind::Iterable {
        let what = Diagnostic::new(format!("the axis `{name}` is {}", describe(value)));
        problems.value(&template.at, what.label("expected a list, or one expression that gives a list"));
        return None;
    }
    let mut values: Vec<AxisValue> = Vec::new();
    let mut texts = BTreeSet::new();
    for (i, value) in value.try_iter().into_iter().flatten().enumerate() {
        let value = wholes(&value);
        let read = read(name, &value);
        let wrong = match read {
            Ok(one) if !texts.insert(one.text.clone()) => {
                Diagnostic::new(format!("`{}` is twice in the axis `{name}`", one.text))
                    .help("`repeat: 2` runs the same point again with another seed")
            }
            Ok(one) => {
                values.push(one);
                continue;
            }
            Err(message) => Diagnostic::new(format!("the axis `{name}` cannot have this value: {message}")),
        };
        problems.value(&template.at.index(i), wrong);
        return None;
    }
    Some(Axis { name: name.clone(), values })
}

/// One value of an axis, in an entry of `include` or `exclude`.
pub(super) fn value(name: &str, template: &Template, scope: &Value, problems: &mut Problems) -> Option<AxisValue> {
    let value = template.eval(scope).map_err(|error| error.report(template, problems)).ok()?;
    read(name, &wholes(&value))
        .map_err(|message| {
            let what = Diagnostic::new(format!("the axis `{name}` cannot have this value: {message}"));
            problems.value(&template.at, what);
        })
        .ok()
}

fn read(name: &str, value: &Value) -> Result<AxisValue, String> {
    let mut flat = Vec::new();
    flatten(name.to_owned(), value, &mut flat)?;
    if flat.is_empty() {
        return Err("an empty mapping".to_owned());
    }
    let text: Vec<String> = flat.iter().map(|(k, v)| format!("{}={}", word(k), shown(v))).collect();
    Ok(AxisValue { value: value.clone(), flat, text: text.join(",") })
}

fn flatten(name: String, value: &Value, flat: &mut Vec<(String, Json)>) -> Result<(), String> {
    match value.kind() {
        ValueKind::Map => {
            for key in value.try_iter().map_err(|e| e.to_string())? {
                let member = value.get_item(&key).map_err(|e| e.to_string())?;
                flatten(format!("{name}.{key}"), &member, flat)?;
            }
        }
        // A list is one value; labels and tables show its text.
        ValueKind::Seq | ValueKind::Iterable => flat.push((name, Json::String(json(value)?.to_string()))),
        _ => flat.push((name, json(value)?)),
    }
    Ok(())
}

fn json(value: &Value) -> Result<Json, String> {
    to_json(value).map_err(|fault| fault.to_string())
}

/// A value in a label: bare if that is safe and not mistaken for another type, else quoted with escapes. A long value is
/// cut and distinguished by its digest.
fn shown(value: &Json) -> String {
    const LONG: usize = 60;
    let Json::String(text) = value else { return json_text(value.clone()) };
    let other = text.is_empty() || matches!(text.as_str(), "null" | "true" | "false") || text.parse::<f64>().is_ok();
    let short = if text.chars().count() > LONG {
        let head: String = text.chars().take(LONG / 2).collect();
        format!("{head}…{}", Digest::of(text.as_bytes()).short())
    } else {
        text.clone()
    };
    if other { format!("\"{short}\"") } else { word(&short) }
}

fn word(text: &str) -> String {
    let safe = |c: char| c.is_alphanumeric() || matches!(c, '_' | '-' | '.' | '+' | '/' | ':' | '@' | '%' | '…');
    if text.chars().all(safe) {
        return text.to_owned();
    }
    let mut quoted = String::from('"');
    for c in text.chars() {
        if c == '\'' { quoted.push(c) } else { quoted.extend(c.escape_debug()) }
    }
    quoted + "\""
}

/// Which instances of one step belong to an instance of another: those with equal values on every common axis. If both
/// repeat, the repetition is equal too.
#[derive(Clone, Debug, Default)]
pub(super) struct Agreement {
    /// For each common axis: its index in the reader's matrix, the other matrix's index of each of the reader's values,
    /// if any, and the size there.
    common: Vec<(usize, Vec<Option<usize>>, usize)>,
    repetition: bool,
    /// Instances by a key of their common values.
    members: BTreeMap<u64, Vec<InstanceId>>,
}

/// An instance's place in its step: the matrix point, and the repetition.
pub(super) type Place = (u32, Option<u32>);

impl Agreement {
    /// Between a reader and the step that it reads.
    pub(super) fn new(
        reader: &Matrix,
        read: &Matrix,
        both_repeat: bool,
        members: impl Iterator<Item = (InstanceId, Place)>,
    ) -> Self {
        let mut common = Vec::new();
        let mut read_axes = Vec::new();
        for (i, axis) in reader.axes.iter().enumerate() {
            let Some(j) = read.axes.iter().position(|other| other.name == axis.name) else { continue };
            let other = &read.axes[j].values;
            let index: BTreeMap<&str, usize> = other.iter().enumerate().map(|(n, v)| (v.text.as_str(), n)).collect();
            let table = axis.values.iter().map(|v| index.get(v.text.as_str()).copied()).collect();
            common.push((i, table, other.len()));
            read_axes.push(j);
        }
        let mut agreement = Agreement { common, repetition: both_repeat, members: BTreeMap::new() };
        for (id, (point, repetition)) in members {
            let digits = read.digits(point as usize);
            let digit = |j: &usize| Some(digits[*j].unwrap_or(read.axes[*j].values.len()));
            let key = agreement.key(read_axes.iter().map(digit), repetition);
            if let Some(key) = key {
                agreement.members.entry(key).or_default().push(id);
            }
        }
        agreement
    }

    /// The instances that belong to one of the reader's instances, ascending.
    pub(super) fn of(&self, reader: &Matrix, place: Place) -> &[InstanceId] {
        let digits = reader.digits(place.0 as usize);
        // A point without an axis belongs to others without it.
        let digit = |(i, table, size): &(usize, Vec<Option<usize>>, usize)| {
            digits[*i].map_or(Some(*size), |digit| table[digit])
        };
        let key = self.key(self.common.iter().map(digit), place.1);
        key.and_then(|key| self.members.get(&key)).map_or(&[], Vec::as_slice)
    }

    fn key(&self, digits: impl Iterator<Item = Option<usize>>, repetition: Option<u32>) -> Option<u64> {
        let mut key = if self.repetition { u64::from(repetition.unwrap_or(0)) } else { 0 };
        for ((_, _, size), digit) in self.common.iter().zip(digits) {
            key = key * (*size as u64 + 1) + digit? as u64;
        }
        Some(key)
    }
}
