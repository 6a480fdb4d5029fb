//! Checks the parameters of `flow/report` at plan time.

use flow_core::{Diagnostic, PlannedStep, PlannedWith, WrongWith};
use indexmap::IndexMap;
use serde_json::{Map, Value};

use super::model::date;
use super::schedule;
use super::with::{ChartWith, LoadWith, ReportWith, StepName};
use crate::safe;
use crate::table::{is_wrong, not_a_table};
use crate::verdict::TOLERANCE;

/// The co-run steps that get a verdict, each with its tolerance.
pub(crate) fn verdicts(with: &Map<String, Value>) -> Vec<(String, f64)> {
    let sections = with.get("sections").and_then(Value::as_array).into_iter().flatten();
    let verdict = |section: &Value| {
        let tolerance = section.get("tolerance").and_then(Value::as_f64).unwrap_or(TOLERANCE);
        Some((section.get("corun")?.as_str()?.to_owned(), tolerance))
    };
    sections.filter_map(verdict).collect()
}

pub(crate) fn check(planned: &PlannedWith) -> Vec<WrongWith> {
    // The schema has already reported values of the wrong type.
    let Ok(with) = serde_json::from_value::<ReportWith>(Value::Object(planned.with.clone())) else { return Vec::new() };
    let mut wrong = Vec::new();
    let mut say = |at: String, what: Diagnostic| wrong.push(WrongWith { at, what });
    if let Some(Err(why)) = with.date.as_deref().map(date) {
        say("/date".into(), Diagnostic::new(why.to_string()));
    }
    if let Some(template) = with.template.as_deref().filter(|text| is_file_name(text)) {
        let what = Diagnostic::new(format!("`{template}` is a file name, not a template"));
        say("/template".into(), what.help("write the text itself: `template: |`, and its lines below"));
    }
    for (n, section) in with.sections.iter().enumerate() {
        for (k, to) in section.see.iter().enumerate().filter(|(_, to)| !to.contains("${{")) {
            if let Err(why) = safe::link(to) {
                let what = Diagnostic::new(why.to_string())
                    .help("`see:` takes https://…, http://…, mailto:… and relative paths");
                say(format!("/sections/{n}/see/{k}"), what);
            }
        }
        for (k, of) in section.schedules.iter().enumerate() {
            let wrong = planned.steps.get(&of.from).map(|step| schedule::check(of, step));
            for (key, what) in wrong.unwrap_or_default() {
                say(format!("/sections/{n}/schedules/{k}{key}"), what);
            }
        }
        let tables = || planned.steps.iter().filter(|(_, step)| step.uses.as_deref() == Some("flow/table"));
        let Some(table) = planned.steps.get(&section.table) else { continue };
        if table.uses.as_deref() != Some("flow/table") {
            let what = not_a_table(&section.table);
            // The table of this step was probably meant.
            let shows = tables().find(|(_, t)| t.with.get("from").and_then(Value::as_str) == Some(&section.table));
            say(
                format!("/sections/{n}/table"),
                match shows {
                    Some((name, _)) => what.help(format!("did you mean `{name}`?")),
                    None => what.help(format!(
                        "`{{uses: flow/table, with: {{from: {}, columns: […]}}}}` makes one",
                        section.table
                    )),
                },
            );
            continue;
        }
        if let Some(of) = &section.order_of {
            for (key, what) in schedule::check_order(of, table, &planned.steps) {
                say(format!("/sections/{n}/order_of{key}"), what);
            }
        }
        for (k, chart) in section.charts.iter().enumerate() {
            let name = match chart {
                ChartWith::Column(name) => name,
                ChartWith::Over(_) => continue,
                ChartWith::Load(LoadWith { load }) => {
                    let from = table.with.get("from").and_then(Value::as_str);
                    let of = from.and_then(|from| Some((from, planned.steps.get(from)?.axes.as_ref()?)));
                    let unknown = |(from, axes): (&str, &IndexMap<_, _>)| {
                        let axis = load.keys().find(|axis| !axes.contains_key(*axis))?;
                        let what = Diagnostic::new(format!("`{from}` has no axis `{axis}`"));
                        Some(what.nearest(axis, axes.keys().map(String::as_str)))
                    };
                    if let Some(what) = of.and_then(unknown) {
                        say(format!("/sections/{n}/charts/{k}/load"), what);
                    }
                    continue;
                }
            };
            if let Some(what) = no_column(planned, &section.table, table, name) {
                say(format!("/sections/{n}/charts/{k}"), what);
            }
        }
        for (column, of) in &section.estimates {
            let mut of_both = [column, of].into_iter();
            if let Some(what) = of_both.find_map(|name| no_column(planned, &section.table, table, name)) {
                say(format!("/sections/{n}/estimates/{column}"), what);
            }
        }
        for (k, StepName(name)) in section.analyses.iter().enumerate() {
            let Some(step) = planned.steps.get(name) else { continue };
            let of = step.with.get("table").and_then(Value::as_str);
            let what = match step.uses.as_deref() {
                Some("flow/fit" | "flow/jumps" | "flow/best") if of == Some(&*section.table) => continue,
                Some("flow/fit" | "flow/jumps" | "flow/best") => {
                    Diagnostic::new(format!("`{name}` is not an analysis of the table `{}`", section.table))
                }
                _ => Diagnostic::new(format!("`{name}` is not an analysis"))
                    .label("expected a `flow/fit`, `flow/jumps` or `flow/best` step"),
            };
            say(format!("/sections/{n}/analyses/{k}"), what);
        }
        if let Some(axis) = &section.compare {
            let split = table.with.get("split").and_then(Value::as_str);
            // A split given by an expression is known only when the table is made.
            if split.is_none_or(|split| split != axis && !split.contains("${{")) {
                let what = match split {
                    Some(split) => Diagnostic::new(format!("the table `{}` is split by `{split}`", section.table))
                        .help(format!("`compare: {split}` compares its two values")),
                    None => Diagnostic::new(format!("the table `{}` has no `split`", section.table))
                        .help(format!("give it `split: {axis}`; the two values of the split are compared")),
                };
                say(format!("/sections/{n}/compare"), what);
            }
        }
        if let Some((name, step)) = section.corun.as_ref().and_then(|name| Some((name, planned.steps.get(name)?))) {
            let at = format!("/sections/{n}/corun");
            if !step.corun {
                let what = Diagnostic::new(format!("`{name}` is not a co-run step"));
                say(at, what.help("a step with `corun:` starts its instances together"));
            } else if step.like.is_none() {
                let what = Diagnostic::new(format!("there are no runs alone to compare `{name}` with"));
                say(at, what.help("`like: STEP` names the step whose instances ran alone"));
            }
        }
    }
    wrong
}

/// The error for a column that the table does not have, if planning can tell.
fn no_column(planned: &PlannedWith, table: &str, step: &PlannedStep, name: &str) -> Option<Diagnostic> {
    let columns = step.with.get("columns").and_then(Value::as_array).into_iter().flatten();
    let named = |column: &Value| column.get("column").unwrap_or(column).as_str().map(|text| text.trim().to_owned());
    let columns: Vec<String> = columns.filter_map(named).collect();
    let known = columns.iter().any(|column| column == name || column.contains("${{"));
    if known || name.contains("${{") || columns.is_empty() || is_wrong(planned, step) {
        return None;
    }
    let what = Diagnostic::new(format!("the table `{table}` has no column `{name}`"));
    Some(what.nearest(name, columns.iter().map(String::as_str)))
}

/// Whether the text is one word with a dot in it. A template is longer.
fn is_file_name(template: &str) -> bool {
    let word = template.trim();
    word.contains('.') && !word.contains(['{', ' ', '\n'])
}
