//! Adds results of other machines to those of a step. Each machine is a value of the axis `machine`, so that flow never
//! averages over machines and computes along this axis as along any other.

use std::collections::BTreeSet;

use flow_core::reason::BuiltinFault;
use flow_core::{Foreign, StepResult, StepView, machine_of};
use indexmap::IndexMap;
use serde_json::Value;

use super::epochs::EPOCH;
use super::model::{Note, Table};
use super::with::{ColumnWith, ComputedFunction, OneOrMany, TableWith, parse_column};
use crate::caveats::Caveats;
use crate::columns::written;

/// The axis of the machines in a table.
pub(crate) const MACHINE: &str = "machine";
/// One's own machine in a table, if another one has the same hardware.
const HERE: &str = "here";

/// Whether a table can show several machines; the error says why not. No step has an axis of this name, because
/// `machine` means something else in expressions.
pub(super) fn possible(with: &TableWith) -> Result<(), BuiltinFault> {
    if with.rows.list().iter().any(|row| row == EPOCH) {
        return Err(BuiltinFault::MachinesOverEpochs);
    }
    if with.over.list().iter().any(|over| over == MACHINE) {
        return Err(BuiltinFault::MeanOverMachines);
    }
    Ok(())
}

/// The table with a column of each machine, if the workflow does not say where the machines go. A split that it has
/// becomes the first axis of the rows. `None` if the machines have a place, or if a key needs that split.
pub(super) fn split(with: &TableWith) -> Option<TableWith> {
    let rows = with.rows.list();
    let has_place = rows.iter().chain(&with.split).any(|axis| axis == MACHINE) || with.only.contains_key(MACHINE);
    let of_split =
        |column: &ColumnWith| matches!(parse_column(column.text()), Ok((Some(ComputedFunction::Difference), _)));
    let needs_split = with.reference.is_some() || with.split.is_some() && with.columns.iter().any(of_split);
    if !with.machines || has_place || rows.is_empty() || needs_split {
        return None;
    }
    let rows = with.split.iter().chain(rows).cloned().collect();
    Some(TableWith { rows: OneOrMany::Many(rows), split: Some(MACHINE.to_owned()), ..with.clone() })
}

/// The results of a step, followed by those of other machines. If the rows begin with another axis, results of other
/// machines follow the own result at the same point.
pub(super) fn with_other_machines(
    with: &TableWith,
    view: &StepView,
    table: &mut Table,
) -> Result<Vec<StepResult>, BuiltinFault> {
    possible(with)?;
    // An instance that was never placed counts for the machine of the others.
    let here = view.results.iter().find(|result| result.circumstances.host_cpus > 0);
    let hardware = |result: &StepResult| machine_of(result, None);
    let is_twin = |foreign: &Foreign| here.map(hardware) == Some(hardware(&foreign.result));
    let has_twin = view.imported.iter().any(is_twin);
    let own = |result: &StepResult| {
        let placed = if result.circumstances.host_cpus > 0 { Some(result) } else { here };
        on(result.clone(), if has_twin { HERE.to_owned() } else { hardware(placed.unwrap_or(result)) }, None)
    };
    // The same hardware distinguishes nothing.
    let name = |of: &Foreign| if is_twin(of) { of.host.clone() } else { machine_of(&of.result, Some(&of.host)) };
    let own: Vec<StepResult> = view.results.iter().map(own).collect();
    let is_alike = |foreign: &&Foreign| {
        let result = &foreign.result;
        let has = |first: &StepResult| result.axes.keys().all(|axis| first.axes.contains_key(axis));
        let axes = own.first().is_some_and(|first| first.axes.len() == result.axes.len() + 1 && has(first));
        // A table shows only repetitions that this run asked for.
        let asked = result.repetition.unwrap_or(0) == 0 || own.iter().any(|own| own.repetition == result.repetition);
        axes && asked
    };
    let theirs = newest(view.imported.iter().filter(is_alike));
    if theirs.is_empty() {
        table.note(Note::NoMachines);
    }
    note_differences(&own, &theirs, name, table);
    let theirs = theirs.into_iter().map(|of| on(of.result.clone(), name(of), Some(&of.host)));
    let mut theirs: Vec<StepResult> = theirs.collect();
    table.foreign_caveats = Caveats::of_all(&theirs);
    let by_machine = with.rows.list().first().is_some_and(|row| row == MACHINE);
    let mut all = Vec::with_capacity(own.len() + theirs.len());
    for result in own {
        let (same, others) = theirs.into_iter().partition(|other| !by_machine && is_at(other, &result));
        theirs = others;
        // From another one's numbers to one's own, as `flow diff` compares them, if the hardware is the same.
        let same: Vec<StepResult> = same;
        if has_twin {
            all.extend(same);
            all.push(result);
        } else {
            all.push(result);
            all.extend(same);
        }
    }
    all.extend(theirs);
    Ok(all)
}

/// The newest result of each point on each machine. Earlier ones may have other parameters or another program.
fn newest<'f>(all: impl Iterator<Item = &'f Foreign>) -> Vec<&'f Foreign> {
    let mut newest: IndexMap<String, &Foreign> = IndexMap::new();
    for foreign in all {
        let Foreign { host, result } = foreign;
        let point = format!("{} {:?} {:?}", machine_of(result, Some(host)), result.axes, result.repetition);
        let known = newest.entry(point).or_insert(foreign);
        if known.result.ended_at < result.ended_at {
            *known = foreign;
        }
    }
    newest.into_values().collect()
}

/// The result with its machine as an axis.
fn on(mut result: StepResult, machine: String, host: Option<&str>) -> StepResult {
    result.axes.insert(MACHINE.to_owned(), Value::from(machine));
    if let Some(host) = host {
        result.label = format!("{} ({host})", result.label);
    }
    result
}

fn is_at(one: &StepResult, other: &StepResult) -> bool {
    one.axes.iter().filter(|(axis, _)| *axis != MACHINE).all(|(axis, value)| other.axes.get(axis) == Some(value))
}

/// A parameter of the workflow, or of the step's plugin.
fn param<'r>(result: &'r StepResult, name: &str) -> Option<&'r Value> {
    result.circumstances.params.get(name).or_else(|| result.params.get(name))
}

/// Notes parameters that all own results share and that differ on the other machine. Values that name files are
/// skipped, because they differ on every machine. For plain programs, also notes input files and commands that differ.
fn note_differences(own: &[StepResult], theirs: &[&Foreign], name: impl Fn(&Foreign) -> String, table: &mut Table) {
    let Some(first) = own.iter().find(|result| result.was_tried()) else { return };
    let mut told: BTreeSet<(String, &String)> = BTreeSet::new();
    for foreign in theirs {
        let machine = name(foreign);
        for (name, value) in first.circumstances.params.iter().chain(&first.params) {
            let tried = own.iter().filter(|result| result.was_tried());
            let shared = tried.map(|result| param(result, name)).all(|own| own == Some(value));
            let is_file = |value: &Value| {
                value.as_str().is_some_and(|text| text.contains('/') || text.parse::<flow_core::Digest>().is_ok())
            };
            let Some(other) = param(&foreign.result, name).filter(|other| *other != value && !is_file(other)) else {
                continue;
            };
            if shared && !is_file(value) && told.insert((machine.clone(), name)) {
                let (theirs, own) = (written(other), written(value));
                table.note(Note::OtherParameter { machine: machine.clone(), name: name.clone(), theirs, own });
            }
        }
    }
    let mut other: BTreeSet<String> = BTreeSet::new();
    for foreign in theirs {
        let Some(own) = own.iter().find(|own| is_at(&foreign.result, own)) else { continue };
        let machine = name(foreign);
        let (Some(own), Some(kept)) = (&own.kept, &foreign.result.kept) else {
            // For a plugin's step, only one digest is known: of its definition, its plugin and its inputs together.
            let program = |result: &StepResult| result.circumstances.program;
            let differs = program(own).zip(program(&foreign.result)).is_some_and(|(own, theirs)| own != theirs);
            if differs && other.insert(machine.clone()) {
                table.note(Note::OtherProgram { machine });
            }
            continue;
        };
        let changed: Vec<&String> = own
            .inputs
            .iter()
            // A file without a known digest is not known to differ.
            .filter(|(name, input)| kept.inputs.get(*name).is_some_and(|theirs| theirs.digest != input.digest))
            .map(|(name, _)| name)
            .collect();
        for file in &changed {
            if other.insert(format!("{machine} {file}")) {
                table.note(Note::OtherInput { machine: machine.clone(), file: (*file).clone() });
            }
        }
        // Other parameters are reported already, and they make another command.
        let told = told.iter().any(|(of, _)| *of == machine);
        if changed.is_empty() && !told && own.attempt != kept.attempt && other.insert(machine.clone()) {
            table.note(Note::OtherProgram { machine });
        }
    }
}
