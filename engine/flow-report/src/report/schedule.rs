//! Schedules of simulations that a section shows, and the order that it is compared with: finds the instance or row,
//! and reports at plan time if there is none or more than one.

use std::collections::BTreeMap;

use flow_core::reason::BuiltinFault;
use flow_core::{BuiltinInput, Diagnostic, PlannedStep, StepResult, StepView, reason::Cause};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::with::{OrderWith, ScheduleWith, SectionWith};
use crate::columns::{is_at, written};
use crate::findings::{ScopedFinding, order_of};
use crate::gantt::Gantt;
use crate::table::{Table, no_point, not_a_table};

/// The step whose instances have a schedule.
const SIMULATE: &str = "flow/simulate";
/// The file with the schedule.
const FILE: &str = "schedule.json";

/// The schedule of an instance.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct InstanceSchedule {
    /// Its chart's file, with a name that is unique in the report.
    pub(crate) file: String,
    pub(crate) label: String,
    /// The number of simulations, of which this is the first.
    pub(crate) of: u32,
    pub(crate) gantt: Gantt,
}

/// Errors in an entry of `schedules`, with the keys where they are.
pub(super) fn check(with: &ScheduleWith, step: &PlannedStep) -> Vec<(String, Diagnostic)> {
    let from = &with.from;
    if step.uses.as_deref() != Some(SIMULATE) {
        let what = Diagnostic::new(format!("`{from}` is not a simulation")).label("expected a `flow/simulate` step");
        return vec![("/from".into(), what)];
    }
    let Some(axes) = &step.axes else { return Vec::new() };
    let place = format!("step `{from}`");
    let mut wrong = no_point(&with.at, axes, &format!("{place} has"), &place);
    // An unknown axis may be meant for the missing one, so it is reported alone.
    let missing = axes.iter().find(|(axis, values)| values.len() > 1 && !with.at.contains_key(*axis));
    if let (true, Some((axis, values))) = (wrong.is_empty(), missing) {
        let what = Diagnostic::new(format!("step `{from}` has several schedules, because it also varies by `{axis}`"));
        let example = values.first().map(written).unwrap_or_default();
        wrong.push((String::new(), what.help(format!("choose one: `where: {{{axis}: {example}, …}}`"))));
    }
    wrong
}

/// Errors in `order_of`, with the keys where they are.
pub(super) fn check_order(
    with: &OrderWith,
    own: &PlannedStep,
    steps: &BTreeMap<String, PlannedStep>,
) -> Vec<(String, Diagnostic)> {
    let Some(step) = steps.get(&with.table) else { return Vec::new() };
    let table = &with.table;
    if step.uses.as_deref() != Some("flow/table") {
        return vec![("/table".into(), not_a_table(table))];
    }
    let text = |of: &PlannedStep, key: &str| of.with.get(key).and_then(Value::as_str).map(str::to_owned);
    let (split, rows) = (text(step, "split"), text(own, "rows"));
    if let Some(rows) = rows.filter(|rows| split.as_ref() != Some(rows)) {
        let what = Diagnostic::new(format!("`{table}` is not split by `{rows}`, which the rows here are"));
        return vec![("/table".into(), what)];
    }
    let axes = text(step, "from").and_then(|from| steps.get(&from)?.axes.as_ref());
    let Some(axes) = axes else { return Vec::new() };
    no_point(&with.at, axes, &format!("the results of `{table}` have"), &format!("`{table}`"))
}

/// Whether the order of a table is that of the other table's row, which a section names.
pub(super) fn order(with: &SectionWith, own: &Table, input: &BuiltinInput) -> Result<Vec<ScopedFinding>, BuiltinFault> {
    let Some(OrderWith { table: name, at }) = &with.order_of else { return Ok(Vec::new()) };
    let view = input.steps.get(name).ok_or_else(|| BuiltinFault::NoSuchStep { step: name.clone() })?;
    let Some(other) = Table::of(name, view)? else { return Ok(Vec::new()) };
    let found = order_of(own, name, &other, at);
    Ok(found.into_iter().map(|finding| ScopedFinding { scope: None, finding }).collect())
}

/// The schedule that an entry names, and its result. If there is none, `None`, and the reason goes to `left_out`.
pub(super) fn scheduled<'a>(
    with: &ScheduleWith,
    view: &'a StepView,
    number: usize,
    left_out: &mut Vec<(String, Cause)>,
) -> Result<Option<(InstanceSchedule, &'a StepResult)>, BuiltinFault> {
    let mut found = view.results.iter().zip(&view.files).filter(|(result, _)| is_at(result, &with.at));
    let Some((result, files)) = found.next() else {
        let Some(why) = &view.absent else {
            return Err(BuiltinFault::ScheduleOfNone { step: with.from.clone(), point: point(with) });
        };
        left_out.push((with.from.clone(), why.clone()));
        return Ok(None);
    };
    if let Some((other, _)) = found.find(|(other, _)| other.axes != result.axes) {
        let (one, other) = (result.label.clone(), other.label.clone());
        return Err(BuiltinFault::ScheduleOfSeveral { point: point(with), one, other });
    }
    let Some(json) = files.get(FILE) else {
        left_out.push((result.label.clone(), result.cause.clone().unwrap_or(Cause::NoSchedule)));
        return Ok(None);
    };
    let gantt: Gantt = serde_json::from_slice(json)
        .map_err(|e| BuiltinFault::ScheduleUnread { label: result.label.clone(), message: e.to_string() })?;
    // Its figures are means of all simulations.
    let of = result.metrics.get("makespan").and_then(|makespan| makespan.epochs).unwrap_or(1);
    Ok(Some((
        InstanceSchedule { file: format!("schedule-{number}.svg"), label: result.label.clone(), of, gantt },
        result,
    )))
}

fn point(with: &ScheduleWith) -> String {
    let at: Vec<String> = with.at.iter().map(|(axis, value)| format!("{axis}: {}", written(value))).collect();
    format!("{{{}}}", at.join(", "))
}
