//! Checks the parameters of `flow/table` at plan time.

use std::collections::{BTreeMap, BTreeSet};

use flow_core::{Diagnostic, PlannedStep, PlannedWith, WrongWith};
use indexmap::IndexMap;
use serde_json::Value;

use super::build::{left_out, rows};
use super::derive::no_difference;
use super::epochs::{EPOCH, STEP, SeriesUnit};
use super::machines::{self, MACHINE};
use super::with::{ColumnWith, ComputedFunction, TableWith, Text, parse_column};
use crate::columns::{USAGE, written};
use crate::words::LANGUAGES;

/// Whether the parameters of a table are wrong. If so, errors about its columns wait until those are fixed.
pub(crate) fn is_wrong(planned: &PlannedWith, table: &PlannedStep) -> bool {
    !check(&PlannedWith { with: table.with.clone(), steps: planned.steps.clone() }).is_empty()
}

pub(crate) fn check(planned: &PlannedWith) -> Vec<WrongWith> {
    // The schema has already reported values of the wrong type.
    let Ok(with) = serde_json::from_value::<TableWith>(Value::Object(planned.with.clone())) else { return Vec::new() };
    let source = planned.steps.get(&with.from);
    let mut wrong = Vec::new();
    let mut say = |at: String, what: Diagnostic| wrong.push(WrongWith { at, what });
    let mut own = source.and_then(|step| step.axes.clone());
    if let Some(axes) = own.as_mut().filter(|_| with.machines) {
        axes.insert(MACHINE.to_owned(), Vec::new());
        if let Err(why) = machines::possible(&with) {
            say("/machines".to_owned(), Diagnostic::new(why.to_string()));
        }
    }
    let axes = own.as_ref();
    // The machines are known only when the table is made.
    let open = |axis: &str| with.machines && axis == MACHINE;
    let is_placed = machines::split(&with).is_some();
    let names: Vec<&str> = axes.into_iter().flat_map(|axes| axes.keys()).map(String::as_str).collect();
    let mut in_rows = Vec::new();
    let none = |axis: &str| {
        let what = Diagnostic::new(format!("step `{}` has no axis `{axis}`", with.from));
        what.nearest(axis, names.iter().copied())
    };
    // Only the axes are checked, because a value may exist under another profile.
    for axis in with.labels.keys().filter(|axis| axes.is_some_and(|axes| !axes.contains_key(*axis))) {
        say(format!("/labels/{axis}"), none(axis));
    }
    for (axis, labels) in &with.labels {
        let known = axes.and_then(|axes| axes.get(axis)).into_iter().flatten().map(written);
        let values: BTreeSet<String> = known.chain(labels.keys().cloned()).collect();
        if let Some((one, other)) = alike(&values, labels) {
            say(format!("/labels/{axis}"), Diagnostic::new(format!("`{one}` and `{other}` have the same name")));
        }
    }
    let place = format!("step `{}`", with.from);
    for (axis, value) in axes.into_iter().flat_map(|_| &with.only) {
        let what = match axes.and_then(|axes| axes.get(axis)) {
            None => Some(none(axis)),
            Some(_) if open(axis) => None,
            Some(values) => no_value(axis, value, values, &place),
        };
        what.into_iter().for_each(|what| say(format!("/where/{axis}"), what));
    }
    if let (Some(axes), Some(step)) = (axes, source) {
        match rows(&with, &names, step.repeats) {
            Ok(rows) => {
                let used = |axis: &&String| {
                    let named = rows.contains(axis) || with.split.as_ref() == Some(axis);
                    named || with.over.list().contains(axis) || with.only.contains_key(*axis)
                };
                if let Some((axis, _)) =
                    axes.iter().find(|(axis, values)| !used(axis) && (values.len() > 1 || open(axis) && !is_placed))
                {
                    say(String::new(), Diagnostic::new(left_out(&with, axis).to_string()));
                }
                in_rows = rows;
            }
            Err((key, why)) => say(format!("/{key}"), Diagnostic::new(why.to_string())),
        }
    }
    let split = axes.and_then(|axes| axes.get(with.split.as_ref()?));
    for (n, column) in with.columns.iter().enumerate() {
        let at = match column {
            ColumnWith::Name(_) => format!("/columns/{n}"),
            ColumnWith::Labelled(_) => format!("/columns/{n}/column"),
        };
        match parse_column(column.text()) {
            Err(why) => say(at, Diagnostic::new(why.to_string())),
            Ok((Some(ComputedFunction::Difference), name))
                if axes.is_some() && !with.split.as_deref().is_some_and(open) && split.is_none_or(|s| s.len() != 2) =>
            {
                say(at, Diagnostic::new(no_difference(&name, split.map(Vec::len)).to_string()));
            }
            Ok((_, name)) => {
                let epochs = [EPOCH, STEP].contains(&&*name) && SeriesUnit::of(&with, &names).is_some();
                let known = source.and_then(|step| columns(step, &names)).filter(|k| !k.contains(&&*name) && !epochs);
                if let Some(known) = known {
                    let what = Diagnostic::new(format!("no result of step `{}` will have `{name}`", with.from));
                    let is_near = flow_core::nearest(&name, known.iter().copied()).is_some();
                    let what = what.nearest(&name, known);
                    say(at, if is_near { what } else { what.help(to_add(&name)) });
                }
            }
        }
    }
    for (axis, value) in axes.and(with.baseline.as_ref()).into_iter().flatten() {
        let at = format!("/baseline/{axis}");
        let values = axes.and_then(|axes| axes.get(axis));
        if with.split.as_ref() != Some(axis) && !in_rows.contains(axis) {
            let what = Diagnostic::new(format!("`{axis}` is neither among the `rows` nor the `split`"));
            say(at, what.nearest(axis, in_rows.iter().chain(&with.split).map(String::as_str)));
        } else if let Some(what) = values.filter(|_| !open(axis)).and_then(|of| no_value(axis, value, of, &place)) {
            say(at, what);
        }
    }
    wrong
}

/// Errors in a point of `where:`, with the keys where they are: an axis that is not there, as `subject_has` begins to say, or
/// a value that the axis does not have in `place`.
pub(crate) fn no_point(
    point: &IndexMap<String, Value>,
    axes: &IndexMap<String, Vec<Value>>,
    subject_has: &str,
    place: &str,
) -> Vec<(String, Diagnostic)> {
    let wrong = point.iter().filter_map(|(axis, value)| {
        let what = match axes.get(axis) {
            None => Diagnostic::new(format!("{subject_has} no axis `{axis}`"))
                .nearest(axis, axes.keys().map(String::as_str)),
            Some(values) => no_value(axis, value, values, place)?,
        };
        Some((format!("/where/{axis}"), what))
    });
    wrong.collect()
}

/// The error for a value that an axis does not have.
fn no_value(axis: &str, value: &Value, values: &[Value], place: &str) -> Option<Diagnostic> {
    let (value, known) = (written(value), values.iter().map(written).collect::<Vec<_>>());
    let what = Diagnostic::new(format!("`{axis}` has no value `{value}` in {place}"));
    (!known.contains(&value)).then(|| what.nearest(&value, known.iter().map(String::as_str)))
}

/// The error for a step that is not a table.
pub(crate) fn not_a_table(step: &str) -> Diagnostic {
    Diagnostic::new(format!("`{step}` is not a table")).label("expected a `flow/table` step")
}

/// How a step gets a metric that it does not report.
fn to_add(name: &str) -> String {
    let (pattern, what) = match name {
        "epoch_time" => ("epoch {epoch} loss {loss}".to_owned(), "flow measures it if a pattern has `{epoch}`"),
        name => (format!("{name} {{{name}}}"), "a pattern reads it from the output"),
    };
    format!("{what}, such as `metrics: {{stdout: '{pattern}'}}`")
}

/// Two values of an axis that have the same displayed name in some language.
fn alike<'a>(values: &'a BTreeSet<String>, labels: &IndexMap<String, Text>) -> Option<(&'a String, &'a String)> {
    LANGUAGES.iter().find_map(|(lang, _)| {
        let mut seen = BTreeMap::new();
        values.iter().find_map(|value| {
            let name = labels.get(value).map_or(value.as_str(), |label| label.of(lang));
            Some((seen.insert(name.to_owned(), value)?, value))
        })
    })
}

/// All names that a column of this step may have, if the workflow alone determines them.
fn columns<'a>(step: &'a PlannedStep, axes: &[&'a str]) -> Option<Vec<&'a str>> {
    let metrics = step.metrics.as_ref()?.iter().map(String::as_str);
    let usage = USAGE.iter().map(|known| known.name);
    let params = step.params.iter().map(String::as_str);
    Some(metrics.chain(axes.iter().copied()).chain(usage).chain(params).chain(["outcome"]).collect())
}
