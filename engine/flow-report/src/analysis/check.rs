//! Checks the parameters of analyses at plan time.

use flow_core::{Diagnostic, PlannedWith, WrongWith, reason::BuiltinFault};
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::{BestWith, FitWith, JumpsWith};
use crate::table::{is_wrong, not_a_table};

pub(crate) fn check_fit(planned: &PlannedWith) -> Vec<WrongWith> {
    let Some(FitWith { table, y, x }) = with(planned) else { return Vec::new() };
    check(planned, &table, &[("/y", Some(&y)), ("/x", x.as_ref())])
}

pub(crate) fn check_jumps(planned: &PlannedWith) -> Vec<WrongWith> {
    let Some(JumpsWith { table, y, .. }) = with(planned) else { return Vec::new() };
    check(planned, &table, &[("/y", Some(&y))])
}

pub(crate) fn check_best(planned: &PlannedWith) -> Vec<WrongWith> {
    let Some(with) = with::<BestWith>(planned) else { return Vec::new() };
    let mut wrong = check(planned, &with.table, &[("/column", Some(&with.column))]);
    if wrong.is_empty() && with.goal().is_none() && !with.column.contains("${{") {
        wrong.push(WrongWith {
            at: "/column".into(),
            what: Diagnostic::new(BuiltinFault::GoalUnknown { column: with.column.clone() }.to_string()),
        });
    }
    wrong
}

/// The parameters. The schema has already reported values of the wrong type.
fn with<T: DeserializeOwned>(planned: &PlannedWith) -> Option<T> {
    serde_json::from_value(Value::Object(planned.with.clone())).ok()
}

fn check(planned: &PlannedWith, name: &str, columns: &[(&str, Option<&String>)]) -> Vec<WrongWith> {
    let Some(table) = planned.steps.get(name) else { return Vec::new() };
    if table.uses.as_deref() != Some("flow/table") {
        let help = format!("`{{uses: flow/table, with: {{from: {name}, columns: […]}}}}` makes one");
        return vec![WrongWith { at: "/table".into(), what: not_a_table(name).help(help) }];
    }
    // Columns given by an expression are known only when the table is made.
    let Some(listed) = table.with.get("columns").and_then(Value::as_array) else { return Vec::new() };
    let text = |column: &Value| column.as_str().or_else(|| column.get("column")?.as_str()).map(str::to_owned);
    let mut known: Vec<String> = listed.iter().filter_map(text).collect();
    let from = table.with.get("from").and_then(Value::as_str).and_then(|from| planned.steps.get(from));
    known.extend(from.and_then(|from| from.axes.as_ref()).into_iter().flat_map(|axes| axes.keys().cloned()));
    if known.iter().any(|name| name.contains("${{")) || from.is_none_or(|from| from.axes.is_none()) {
        return Vec::new();
    }
    let wrong = columns.iter().filter_map(|(at, column)| Some((at, (*column)?)));
    let wrong: Vec<_> = wrong.filter(|(_, column)| !known.contains(column)).collect();
    if !wrong.is_empty() && is_wrong(planned, table) {
        return Vec::new();
    }
    wrong
        .into_iter()
        .map(|(at, column)| {
            let what = Diagnostic::new(format!("the table `{name}` has no column `{column}`"));
            WrongWith { at: (*at).into(), what: what.nearest(column, known.iter().map(String::as_str)) }
        })
        .collect()
}
