//! Builds a table from the results of a step: decides which results share a cell and combines their values. Derived
//! columns are in `derive`.

use std::collections::{BTreeMap, BTreeSet};

use flow_core::reason::{AxesHint, BuiltinFault};
use flow_core::{
    BuiltinInput, Interval, Outcome, Point, Series, StepResult,
    reason::{Cause, Disturbance, NoMetrics},
    stats,
};
use indexmap::{IndexMap, IndexSet};
use serde_json::Value;

use super::derive::derive;
use super::digits::{Reading, refine};
use super::environments;
use super::epochs::{self, SeriesUnit};
use super::groups::{ColumnValues, Groups, add};
use super::machines;
use super::model::{Cell, Column, Content, Note, OutcomeCount, Reference, Row, Spread, TABLE_FORMAT, Table};
use super::reference;
use super::with::{ColumnWith, TableWith, Text, parse_column};
use crate::columns::{self, Datum, NotFinite, datum, is_at, likeness, names, unlike, written};
use crate::format::Format;

/// Builds the table that `with` describes.
pub(crate) fn build(with: &TableWith, input: &BuiltinInput) -> Result<Table, BuiltinFault> {
    let (from, only, labels) = (with.from.clone(), with.only.clone(), with.labels.clone());
    let mut table = Table { format: TABLE_FORMAT, from, only, labels, ..Table::default() };
    let no_source = || BuiltinFault::NoSource { step: with.from.clone() };
    let view = input.steps.get(&with.from).ok_or_else(no_source)?;
    let (with_machines, by_machine): (Vec<StepResult>, TableWith);
    let mut with = with;
    let mut all = &view.results;
    if with.machines {
        with_machines = machines::with_other_machines(with, view, &mut table)?;
        all = &with_machines;
        if let Some(split) = machines::split(with).filter(|_| all.len() > view.results.len()) {
            by_machine = split;
            with = &by_machine;
        }
    }
    let only = &with.only;
    let meant = |result: &&StepResult| is_at(result, only);
    let mut results: Vec<&StepResult> = all.iter().filter(meant).collect();
    if let (Some(why), true) = (&view.absent, results.is_empty()) {
        table.absent = Some(why.clone());
        return Ok(table);
    }
    let Some(first) = results.first() else {
        table.absent = Some(Cause::NoInstances { step: None, because: None });
        return Ok(table);
    };
    // If `when` is false for all instances of a step, one line says so instead of a table.
    if results.iter().all(|result| result.outcome == Outcome::Skipped) {
        table.absent = first.cause.clone().or_else(|| view.absent.clone()).or(Some(Cause::AllSkipped));
        return Ok(table);
    }

    let axes: Vec<&str> = first.axes.keys().map(String::as_str).collect();
    let in_series: Vec<StepResult>;
    let with_parts: TableWith;
    if let Some(along) = SeriesUnit::of(with, &axes) {
        let series = |at: usize| view.series.get(at).and_then(Option::as_ref);
        let all = || all.iter().enumerate().filter(|(_, result)| meant(result));
        let parts = all().any(|(at, _)| series(at).is_some_and(Series::has_parts));
        if parts {
            with_parts = epochs::with_parts(with);
            with = &with_parts;
        }
        in_series = all().flat_map(|(at, result)| epochs::each(result, series(at), along, parts)).collect();
        for column in &with.columns {
            let (_, name) = parse_column(column.text())?;
            let whole = results.iter().any(|result| result.metrics.contains_key(&name));
            if whole && !in_series.iter().any(|row| datum(row, &name).is_some()) {
                table.note(Note::OfTheWhole { name, axis: along.name().to_owned() });
            }
        }
        results = in_series.iter().collect();
        let steps = all().filter_map(|(at, _)| series(at)).flat_map(|series| series.metrics.values().flatten());
        let has = |is: fn(&Point) -> bool| steps.clone().any(is);
        if along == SeriesUnit::Epoch
            && !has(|point| point.key.epoch.is_some())
            && has(|point| point.key.step.is_some())
        {
            table.note(Note::StepsOnly);
        }
    }
    if epochs::lacks_start_up(with, all.iter().enumerate().filter(|(_, result)| meant(result)), &view.series) {
        table.note(Note::StartUp);
    }
    tabulate(with, &results, &mut table)?;
    if let Some(note) = environments::note(all.iter().filter(meant), &input.environments) {
        table.note(note);
    }
    if let Some(reference) = with.reference.as_ref().filter(|reference| reference.when) {
        let earlier = reference::results(reference, with, &mut table, &results, input)?;
        let mut of = Table { format: TABLE_FORMAT, from: with.from.clone(), ..Table::default() };
        tabulate(with, &earlier.results.iter().collect::<Vec<_>>(), &mut of)?;
        earlier.keep_digits(&mut of);
        let (file, label) = (reference.name().to_owned(), reference.label.clone());
        table.reference = Some(Box::new(Reference { file, label, table: of, together: earlier.together }));
    } else if let Some(reference) = &with.reference {
        table.note(Note::NoReference { file: reference.name().to_owned() });
    }
    Ok(table)
}

/// Fills the rows, columns and notes of a table from results.
fn tabulate(with: &TableWith, results: &[&StepResult], table: &mut Table) -> Result<(), BuiltinFault> {
    let Some(first) = results.first() else { return Ok(()) };
    let axes: Vec<&str> = first.axes.keys().map(String::as_str).collect();
    let repeats = results.iter().any(|r| r.repetition.is_some());
    table.rows = rows(with, &axes, repeats).map_err(|(_, why)| why)?;
    let groups = group(with, &table.rows, &axes, results)?;
    if let Some(axis) = &with.split {
        table.split = Some((axis.clone(), groups.parts.iter().flatten().map(written).collect()));
    }
    key_columns(table, &groups);
    let mut readings: Vec<(String, Reading)> = Vec::new();
    for column in &with.columns {
        let label = match column {
            ColumnWith::Name(_) => None,
            ColumnWith::Labelled(labelled) => Some(labelled.label.clone()),
        };
        let (derived, name) = parse_column(column.text())?;
        if table.rows.contains(&name) && derived.is_none() {
            if let Some(key) = table.columns.iter_mut().find(|c| c.key && c.name == name) {
                key.label = label.or(key.label.take());
            }
            continue;
        }
        known(table, &name, results);
        let plain = measure(table, &name, with, &groups);
        match derived {
            None => add_plain(table, &name, label, plain, &groups),
            Some(derived) => {
                let reading = derive(table, derived, &name, label, &plain, with, &groups)?;
                readings.push((name, reading));
            }
        }
    }
    for (name, _) in &readings {
        let of: Vec<&Reading> = readings.iter().filter(|(of, _)| of == name).map(|(_, reading)| reading).collect();
        refine(table, name, &of);
    }
    interleave_parts(table);
    add_notes(table, results);
    Ok(())
}

/// Names for repetitions in `over`. Repetitions have no axis, and each has its own seed.
const REPETITIONS: [&str; 2] = ["repetition", "seed"];

/// The axes that make the rows. The error says which key of `with` is wrong.
pub(super) fn rows(
    with: &TableWith,
    axes: &[&str],
    repeats: bool,
) -> Result<Vec<String>, (&'static str, BuiltinFault)> {
    let hint = || match axes {
        [] => AxesHint::NoMatrix,
        _ => AxesHint::ItsAxes { axes: axes.iter().copied().collect() },
    };
    let used = [("rows", with.rows.list()), ("split", with.split.as_slice()), ("over", with.over.list())];
    for (at, (key, names)) in used.into_iter().enumerate() {
        for name in names {
            let repetitions = key == "over" && REPETITIONS.contains(&name.as_str());
            let epochs = key == "rows" && [epochs::EPOCH, epochs::STEP, epochs::PART].contains(&name.as_str());
            let known = axes.contains(&name.as_str()) || repetitions && repeats || epochs;
            if !known {
                let (of, name, step) = (key.to_owned(), name.clone(), with.from.clone());
                let why = match repetitions {
                    true => BuiltinFault::NeitherAxisNorRepeat { key: of, name, step, hint: hint() },
                    false => BuiltinFault::NoSuchAxisOf { key: of, name, step, hint: hint() },
                };
                return Err((key, why));
            }
            if let Some((other, _)) = used[..at].iter().find(|(_, names)| names.contains(name)) {
                let (axis, one) = (name.clone(), (*other).to_owned());
                return Err((key, BuiltinFault::AxisTwice { axis, one, other: key.to_owned() }));
            }
        }
    }
    let named =
        |axis: &str| used.iter().any(|(_, names)| names.iter().any(|n| n == axis)) || with.only.contains_key(axis);
    let rest = axes.iter().filter(|axis| !named(axis));
    if with.rows.list().is_empty() {
        return Ok(rest.map(|a| (*a).to_owned()).collect());
    }
    // An axis with one value needs no column in the table; `group` refuses one with several.
    Ok(with.rows.list().to_vec())
}

/// The error for an axis that varies but is named neither by the rows nor by another key.
pub(super) fn left_out(with: &TableWith, axis: &str) -> BuiltinFault {
    BuiltinFault::AxisLeftOut { step: with.from.clone(), axis: axis.to_owned() }
}

fn group<'a>(
    with: &TableWith,
    rows: &[String],
    axes: &[&str],
    results: &[&'a StepResult],
) -> Result<Groups<'a>, BuiltinFault> {
    let named =
        |axis: &str| rows.iter().chain(with.over.list()).any(|n| n == axis) || with.split.as_deref() == Some(axis);
    for axis in axes.iter().filter(|axis| !named(axis)) {
        let first = results.first().and_then(|r| r.axes.get(*axis));
        if results.iter().any(|r| r.axes.get(*axis) != first) {
            return Err(left_out(with, axis));
        }
    }
    let mut parts: IndexSet<Option<Value>> = IndexSet::new();
    let mut table: IndexMap<Vec<Value>, Vec<Vec<&StepResult>>> = IndexMap::new();
    for result in results {
        let part = with.split.as_ref().map(|axis| result.axes.get(axis).cloned().unwrap_or(Value::Null));
        let (at, _) = parts.insert_full(part);
        let key: Vec<Value> = rows.iter().map(|axis| result.axes.get(axis).cloned().unwrap_or(Value::Null)).collect();
        let cells = table.entry(key).or_default();
        if cells.len() <= at {
            cells.resize_with(at + 1, Vec::new);
        }
        cells[at].push(result);
    }
    let (keys, mut cells): (Vec<_>, Vec<_>) = by_first_axis(table.into_iter().collect()).into_iter().unzip();
    for row in &mut cells {
        row.resize_with(parts.len(), Vec::new);
    }
    Ok(Groups { keys, parts: parts.into_iter().collect(), cells })
}

/// Sorts rows so that those with the same value of the first axis are adjacent, among them those with the same second
/// value, and so on. Each group is placed at its first row. So the last axis varies from row to row, in whatever order
/// the matrix has them.
fn by_first_axis<T>(rows: Vec<(Vec<Value>, T)>) -> Vec<(Vec<Value>, T)> {
    let mut first: BTreeMap<String, usize> = BTreeMap::new();
    let mut ranked = Vec::with_capacity(rows.len());
    for (at, row) in rows.into_iter().enumerate() {
        let of = |axes: usize| Value::from(&row.0[..axes]).to_string();
        let rank: Vec<usize> = (1..=row.0.len()).map(|axes| *first.entry(of(axes)).or_insert(at)).collect();
        ranked.push((rank, row));
    }
    ranked.sort_by(|(a, _), (b, _)| a.cmp(b));
    ranked.into_iter().map(|(_, row)| row).collect()
}

fn key_columns(table: &mut Table, groups: &Groups<'_>) {
    for name in &table.rows {
        let column =
            Column { name: name.clone(), key: true, show: Format::for_unit("", [].into_iter()), ..Column::default() };
        table.columns.push(column);
    }
    for key in &groups.keys {
        let cells = key.iter().map(|value| match columns::declared(value) {
            Datum::Declared { text, number } => Cell::new(Content::Text { text, number }),
            _ => Cell::new(Content::Absent),
        });
        table.body.push(Row { cells: cells.collect() });
    }
}

/// Adds a note about a name that no result has, because that is more often a typing error than a missing metric.
fn known(table: &mut Table, name: &str, results: &[&StepResult]) {
    let any_ok = results.iter().any(|r| r.outcome == Outcome::Ok);
    let is_explained = |note: &Note| match note {
        Note::OfTheWhole { name: of, .. } => of == name,
        Note::StartUp => name == epochs::EPOCH_TIME,
        _ => false,
    };
    if table.notes.iter().any(is_explained) {
        return;
    }
    if any_ok && !results.iter().any(|r| datum(r, name).is_some()) && name != "outcome" {
        let nearest = results
            .iter()
            .flat_map(|r| names(r))
            .map(|known| (strsim::damerau_levenshtein(known, name), known))
            .min()
            .filter(|(distance, known)| *distance <= 2 || known.contains(name))
            .map(|(_, known)| known.to_owned());
        table.note(Note::NoColumn { name: name.to_owned(), nearest });
    }
}

fn measure(table: &mut Table, name: &str, with: &TableWith, groups: &Groups<'_>) -> ColumnValues {
    let mut unit = None;
    let mut declared = true;
    let mut cells = Vec::new();
    for row in 0..groups.keys.len() {
        let mut line = Vec::new();
        for part in 0..groups.parts.len() {
            let results = groups.at(row, part);
            for datum in results.iter().filter_map(|r| datum(r, name)) {
                if let Datum::Measured { unit: u, .. } = datum {
                    unit.get_or_insert(u);
                    declared = false;
                }
            }
            let mut cell = cell(table, name, with, results);
            cell.of = results.iter().map(|r| r.label.clone()).collect();
            cell.gpus = results.first().and_then(|r| columns::gpus(r));
            line.push(cell);
        }
        cells.push(line);
    }
    ColumnValues { unit: unit.unwrap_or_default(), declared, cells }
}

fn cell(table: &mut Table, name: &str, with: &TableWith, results: &[&StepResult]) -> Cell {
    if results.is_empty() {
        return Cell::new(Content::Absent);
    }
    if name == "outcome" {
        return Cell::new(worst(results));
    }
    // A declared value is known whatever the outcome is.
    let is_declared = |datum: &Datum| matches!(datum, Datum::Declared { .. });
    let told: Vec<Datum> = results.iter().filter_map(|r| datum(r, name)).filter(is_declared).collect();
    if let [Datum::Declared { text, number }, rest @ ..] = told.as_slice() {
        let same = rest.iter().all(|d| matches!(d, Datum::Declared { text: t, .. } if t == text));
        return Cell::new(match same {
            true => Content::Text { text: text.clone(), number: *number },
            false => Content::Unlike,
        });
    }
    // A foreign process on the GPU makes a training slower but does not change what it learns.
    let timing = columns::is_timing(name, results);
    let timed = |why: &Disturbance| {
        matches!(
            why,
            Disturbance::ForeignProcess { .. } | Disturbance::GpuSilent { .. } | Disturbance::OtherRuns { .. }
        )
    };
    let counts = |why: &Disturbance| timing || !timed(why);
    let is_sound = |r: &&StepResult| r.outcome == Outcome::Ok && !r.disturbances.iter().any(counts);
    let sound: Vec<&StepResult> = results.iter().copied().filter(is_sound).collect();
    if sound.is_empty() {
        let Some(disturbed) = results.iter().find(|r| !r.disturbances.is_empty()) else {
            return Cell::new(worst(results));
        };
        let note =
            table.note(Note::Disturbed { label: disturbed.label.clone(), reasons: disturbed.disturbances.clone() });
        return Cell { notes: vec![note], ..Cell::new(Content::Disturbed) };
    }
    // One value that is not finite makes the mean not finite too.
    let not_finite = |r: &&StepResult| match datum(r, name) {
        Some(Datum::NotFinite(what)) => Some(what),
        _ => None,
    };
    if let Some(what) = sound.iter().find_map(not_finite) {
        let same = sound.iter().filter_map(not_finite).all(|other| other == what);
        let what = if same { what } else { NotFinite::Nan };
        return Cell { notes: vec![table.note(Note::NotANumber)], ..Cell::new(Content::NotFinite { what }) };
    }
    let measured: Vec<(f64, &StepResult)> = sound
        .iter()
        .filter_map(|r| match datum(r, name)? {
            Datum::Measured { value, .. } => Some((value, *r)),
            _ => None,
        })
        .collect();
    let mut notes = Vec::new();
    if sound.iter().any(|r| columns::measures(r, name) && r.metrics.contains_key(name)) {
        notes.push(table.note(Note::Hidden { name: name.to_owned() }));
    }
    let Some(((first_value, first), rest)) = measured.split_first() else {
        return Cell { notes, ..Cell::new(Content::Absent) };
    };
    for result in measured.iter().map(|(_, result)| result).filter(|result| result.metrics.contains_key(name)) {
        if !result.caveats.is_empty() {
            let (label, caveats) = (result.label.clone(), result.caveats.clone());
            notes.push(table.note(Note::Caveats { label, caveats }));
        }
    }
    let like = likeness(first);
    if let Some((what, one, other)) = rest.iter().find_map(|(_, r)| unlike(&like, &likeness(r))) {
        let note = table.note(Note::Unlike { what, one, other });
        return Cell { notes: vec![note], ..Cell::new(Content::Unlike) };
    }
    if measured.len() < results.len() {
        let (used, of) = (measured.len() as u32, results.len() as u32);
        notes.push(table.note(Note::Partial { used, of, ended: ended(results) }));
    }
    let alone = measured.iter().filter(|(_, r)| r.circumstances.corunners.is_empty()).count();
    if timing && alone > 0 && alone < measured.len() {
        notes.push(table.note(Note::Company { alone: alone as u32, of: measured.len() as u32 }));
    }
    if matches!(name, "gpu_memory" | "gpu_memory_mean") && first.usage.gpus.iter().any(|g| g.unverified) {
        notes.push(table.note(Note::Unverified));
    }
    let content = match rest {
        [] => {
            let metric = first.metrics.get(name);
            let error = metric.and_then(|m| Some(m.sd? / f64::from(m.epochs.filter(|n| *n > 1)?).sqrt()));
            let values = metric.map(|metric| metric.values.as_slice()).unwrap_or_default();
            let half = Interval::over(values.iter().copied()).half;
            let spread = half.map(|half| Spread::Interval(half, values.len() as u32));
            Content::Number { value: *first_value, spread, error }
        }
        _ => together(with, measured.iter().map(|(v, _)| *v).collect()),
    };
    let values = match rest {
        [] => first.metrics.get(name).map(|metric| metric.values.clone()).unwrap_or_default(),
        // Each repetition has its place, unless one is missing.
        _ if measured.len() == results.len() => measured.iter().map(|(value, _)| *value).collect(),
        _ => Vec::new(),
    };
    let is_median = matches!(content, Content::Number { spread: Some(Spread::Range(..)), .. });
    let mean = measured.iter().map(|(value, _)| value).sum::<f64>() / measured.len() as f64;
    Cell { notes, mean: (is_median && values.is_empty()).then_some(mean), values, ..Cell::new(content) }
}

/// One number for several: mean ± sd over the axes that `over` names, otherwise the median of the repetitions with its
/// range.
fn together(with: &TableWith, mut values: Vec<f64>) -> Content {
    let n = values.len() as u32;
    let mean = values.iter().sum::<f64>() / f64::from(n);
    let sd = (values.iter().map(|v| (v - mean).powi(2)).sum::<f64>() / f64::from(n - 1)).sqrt();
    let error = Some(sd / f64::from(n).sqrt());
    if !with.over.list().is_empty() {
        return Content::Number { value: mean, spread: Some(Spread::Sd(sd, n)), error };
    }
    values.sort_by(f64::total_cmp);
    let range = Spread::Range(values[0], values[values.len() - 1], n);
    Content::Number { value: stats::median(values).unwrap_or(mean), spread: Some(range), error }
}

/// Counts the results of each outcome other than ok.
fn ended(results: &[&StepResult]) -> Vec<OutcomeCount> {
    let mut all: IndexMap<(Outcome, bool), u32> = IndexMap::new();
    for result in results.iter().filter(|result| result.outcome != Outcome::Ok) {
        *all.entry((result.outcome, columns::gpu_memory_ran_out(result))).or_default() += 1;
    }
    all.into_iter().map(|((outcome, gpu), n)| OutcomeCount { outcome, gpu, n }).collect()
}

/// The outcome shown for a cell of several results: the first that is not ok.
fn worst(results: &[&StepResult]) -> Content {
    let bad = results.iter().find(|r| r.outcome != Outcome::Ok);
    let outcome = bad.map_or(Outcome::Ok, |r| r.outcome);
    Content::Outcome { outcome, gpu: bad.is_some_and(|r| columns::gpu_memory_ran_out(r)) }
}

fn add_plain(table: &mut Table, name: &str, label: Option<Text>, measured: ColumnValues, groups: &Groups<'_>) {
    let values = measured.cells.iter().flatten().filter_map(Cell::measured);
    let shown = measured.cells.iter().flatten().flat_map(|cell| match cell.content {
        Content::Number { value, spread: None, .. } => vec![value],
        Content::Number { value, spread: Some(Spread::Sd(half, _) | Spread::Interval(half, _)), .. } => {
            vec![value, half]
        }
        Content::Number { value, spread: Some(Spread::Range(least, most, _)), .. } => vec![value, least, most],
        _ => vec![],
    });
    let show = Format::for_unit(&measured.unit, values).no_finer_than(shown);
    let column = Column { name: name.to_owned(), label, show, ..Column::default() };
    // A declared value that does not vary appears once, next to the split columns.
    let once = measured.declared && measured.cells.iter().all(|row| row.iter().all(|c| c.content == row[0].content));
    add(table, column, measured.cells, groups, once);
}

/// Orders the columns of a split by part: `x v7, growth v7, x v11, growth v11`.
fn interleave_parts(table: &mut Table) {
    let parts: Vec<String> = table.split.iter().flat_map(|(_, parts)| parts.clone()).collect();
    let at = |c: &Column| c.part.as_ref().and_then(|part| parts.iter().position(|p| p == part));
    let mut order: Vec<usize> = (0..table.columns.len()).collect();
    let mut from = 0;
    while from < order.len() {
        let name = &table.columns[from].name;
        let run = table.columns[from..].iter().take_while(|c| c.name == *name && at(c).is_some()).count();
        order[from..from + run].sort_by_key(|column| at(&table.columns[*column]));
        from += run.max(1);
    }
    table.columns = order.iter().map(|at| table.columns[*at].clone()).collect();
    for row in &mut table.body {
        row.cells = order.iter().filter_map(|at| row.cells.get(*at).cloned()).collect();
    }
}

/// Adds the notes on the table as a whole.
fn add_notes(table: &mut Table, results: &[&StepResult]) {
    // Rows of epochs belong to one result, which counts once.
    let mut labels = BTreeSet::new();
    let own: Vec<&StepResult> = results.iter().copied().filter(|result| labels.insert(&result.label)).collect();
    let kept = own.iter().filter_map(|result| Some((&*result.label, result.accepted.as_deref()?)));
    Note::accepted(kept).into_iter().for_each(|note| _ = table.note(note));
    let shows_wall = table.columns.iter().any(|column| column.name == "wall");
    for whole in [false, true].into_iter().filter(|whole| !whole || shows_wall) {
        let all = own.iter().map(|result| (&result.label, &result.usage));
        let mut resumed = all.filter(|(_, usage)| usage.earlier.is_some() && usage.lacks_a_part() != whole);
        if let Some((first, _)) = resumed.next() {
            table.note(Note::Resumed { label: first.clone(), more: resumed.count() as u32, whole });
        }
    }
    let mut missed: Vec<(&NoMetrics, &str, u32)> = Vec::new();
    for result in own.iter().filter(|result| result.outcome == Outcome::Ok) {
        let Some(Cause::NoMetrics { problem }) = &result.cause else { continue };
        match missed.iter_mut().find(|(known, ..)| known.without_lines() == problem.without_lines()) {
            Some((_, _, more)) => *more += 1,
            None => missed.push((problem, &result.label, 0)),
        }
    }
    for (problem, label, more) in missed {
        table.note(Note::NoMetrics { label: label.to_owned(), more, problem: problem.clone() });
    }
    let cells = table.body.iter().flat_map(|row| &row.cells);
    let spreads: Vec<Spread> = cells.filter_map(Cell::spread).collect();
    let ends = |of: fn(&Spread) -> Option<u32>| {
        let counts = || spreads.iter().filter_map(of);
        counts().min().zip(counts().max())
    };
    let over: Vec<String> = {
        let split = table.split.as_ref().map(|(axis, _)| axis.as_str());
        let axes = results.first().map(|r| r.axes.keys()).into_iter().flatten();
        axes.filter(|a| !table.rows.contains(a) && split != Some(a.as_str()))
            .filter(|a| results.iter().any(|r| r.axes.get(*a) != results[0].axes.get(*a)))
            .cloned()
            .collect()
    };
    if let Some((of, most)) = ends(|s| if let Spread::Sd(_, n) = s { Some(*n) } else { None }) {
        let values = |axis: &String| {
            let all = results.iter().filter_map(|result| result.axes.get(axis));
            all.map(written).collect::<IndexSet<String>>().into_iter().collect()
        };
        let values = over.iter().map(values).collect();
        table.note(Note::Mean { of, most, over, values });
    }
    if let Some((of, most)) = ends(|s| if let Spread::Range(_, _, n) = s { Some(*n) } else { None }) {
        table.note(Note::Median { of, most });
    }
    if let Some((of, _)) = ends(|s| if let Spread::Interval(_, n) = s { Some(*n) } else { None }) {
        table.note(Note::Simulated { of });
    }
}
