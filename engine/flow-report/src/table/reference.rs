//! Earlier figures next to the current ones. A CSV file becomes results like those of a step, matched by the axes of
//! the table, so that all computations apply to both.

use std::collections::{BTreeMap, BTreeSet};

use flow_core::reason::{BuiltinFault, Hint};
use flow_core::{
    BuiltinInput, Digest, Metric, Outcome, RunId, Sheet, StepResult, nearest,
    reason::{Cause, Memory},
};
use indexmap::IndexMap;
use serde_json::Value;

use super::model::{Cell, Column, Content, InGroup, Note, Reference, Row, Table};
use super::with::{ReferenceWith, TableWith, parse_column};
use crate::columns::{Datum, USAGE, datum, point, same, written};

fn outcome(text: &str) -> Option<Outcome> {
    serde_json::from_value(Value::from(text)).ok()
}

/// Texts that mean a missing number and are not mistakes.
const NOTHING: [&str; 6] = ["", "NA", "N/A", "-", "—", "–"];
/// Units of each kind, with their size in the first unit of the kind.
const UNITS: [&[(&str, f64)]; 3] = [
    &[
        ("s", 1.0),
        ("ms", 1e-3),
        ("us", 1e-6),
        // The micro sign, and the Greek letter mu.
        ("\u{b5}s", 1e-6),
        ("\u{3bc}s", 1e-6),
        ("ns", 1e-9),
        ("min", 60.0),
        ("h", 3600.0),
    ],
    &[
        ("bytes", 1.0),
        ("B", 1.0),
        ("KiB", 1024.0),
        ("MiB", 1_048_576.0),
        ("GiB", 1_073_741_824.0),
        ("kB", 1e3),
        ("MB", 1e6),
        ("GB", 1e9),
    ],
    &[("ratio", 1.0), ("%", 0.01)],
];

/// The number of GPUs of a line. It is read even if the table does not show it, because results on different numbers of
/// GPUs are not compared.
const GPUS: &str = "gpus";

/// Suffix of a name in `columns:` that means the time in a co-run group.
const TOGETHER: &str = " together";

/// The figures of a file.
#[derive(Default)]
pub(super) struct ReferenceFigures {
    /// Results, in the order of the current ones.
    pub(super) results: Vec<StepResult>,
    /// Times in a co-run group.
    pub(super) together: Vec<InGroup>,
    digits: BTreeMap<Place, u8>,
}

/// A figure of the file: the label of its result, its name, and the part of the split.
type Place = (String, String, Option<String>);

impl ReferenceFigures {
    /// Marks figures with the number of digits that they were given with, because more digits in the table would be
    /// invented.
    pub(super) fn keep_digits(&self, table: &mut Table) {
        for (at, column) in table.columns.iter().enumerate().filter(|(_, column)| column.derived.is_none()) {
            for cell in table.body.iter_mut().map(|row| &mut row.cells[at]) {
                let [label] = &cell.of[..] else { continue };
                cell.digits = self.digits.get(&(label.clone(), column.name.clone(), column.part.clone())).copied();
            }
        }
    }
}

/// The number of significant digits: 4 of `29.10`, 3 of `0.0103`. `None` for zero, because it shows none.
fn significant(text: &str) -> Option<u8> {
    let number = text.split(['e', 'E']).next().unwrap_or(text);
    let digits = number.chars().filter(char::is_ascii_digit).skip_while(|digit| *digit == '0').count();
    u8::try_from(digits).ok().filter(|digits| *digits > 0)
}

/// A column of the file.
struct ColumnOf<'a> {
    at: usize,
    /// The unit that the author names, or else the one in the header.
    unit: Option<&'a str>,
}

/// The results in a file, in the order of the current ones. Lines that match none of those get a note.
pub(super) fn results(
    reference: &ReferenceWith,
    with: &TableWith,
    table: &mut Table,
    now: &[&StepResult],
    input: &BuiltinInput,
) -> Result<ReferenceFigures, BuiltinFault> {
    let name = reference.name();
    let file = || name.to_owned();
    let bytes = input.files.get(&reference.file).ok_or_else(|| BuiltinFault::ReferenceAbsent { file: file() })?;
    let sheet =
        Sheet::read(bytes).map_err(|error| BuiltinFault::ReferenceUnread { file: file(), error: Box::new(error) })?;
    let heads = || sheet.heads.iter().cloned().collect();
    let find = |own: &str| find(reference, &sheet, own, name);
    let mut keys: Vec<(&String, usize)> = Vec::new();
    let has_split = match &with.split {
        Some(split) => find(split)?.is_some(),
        None => false,
    };
    for axis in table.rows.iter().chain(with.split.as_ref().filter(|_| has_split)) {
        let column = find(axis)?.ok_or_else(|| BuiltinFault::ReferenceWithoutAxis {
            file: file(),
            axis: axis.clone(),
            heads: heads(),
            example: format!("columns: {{{axis}: NAME}}"),
        })?;
        keys.push((axis, column.at));
    }
    // If the split has no column in the file, each of its values has its own columns.
    let mut parts: Vec<Option<&Value>> = vec![None];
    if let Some(split) = with.split.as_ref().filter(|_| !has_split) {
        parts.clear();
        for value in now.iter().filter_map(|result| result.axes.get(split)) {
            if !parts.contains(&Some(value)) {
                parts.push(Some(value));
            }
        }
    }
    let mut names: Vec<String> = Vec::new();
    for column in &with.columns {
        let (_, own) = parse_column(column.text())?;
        if !names.contains(&own) && !table.rows.contains(&own) && own != "outcome" {
            names.push(own);
        }
    }
    let gpus = GPUS.to_owned();
    let unshown = (!names.contains(&gpus) && !table.rows.contains(&gpus)).then_some(&gpus);
    let mut columns = Vec::new();
    let mut asked: Vec<String> = keys.iter().map(|(axis, _)| (*axis).clone()).chain(with.split.clone()).collect();
    asked.extend(["outcome".to_owned(), gpus.clone()]);
    for part in &parts {
        let mut of_part = Vec::new();
        let end = match (part, &with.split) {
            (Some(value), Some(split)) => format!(" {}", point(split, &written(value))),
            _ => String::new(),
        };
        for (own, group) in names.iter().chain(unshown).flat_map(|own| [(own, false), (own, true)]) {
            let called = format!("{own}{}{end}", if group { TOGETHER } else { "" });
            let column = match find(&called)? {
                // A line has one number of GPUs for all of its columns.
                None if own == GPUS && !group => find(own)?,
                column => column,
            };
            if let Some(column) = column {
                let unit = unit(now, own).or(column.unit.map(str::to_owned)).unwrap_or_default();
                let (file, of) = (file(), called.clone());
                let factor = match (column.unit, default_unit(&unit)) {
                    (Some(given), _) => factor(&unit, given).ok_or_else(|| match given.to_owned() {
                        given if unit.is_empty() => BuiltinFault::ReferenceNoUnit { file, column: of, given },
                        given => BuiltinFault::ReferenceOtherUnit { file, column: of, unit: unit.clone(), given },
                    })?,
                    (None, Some(usual)) => {
                        let theirs = named(&sheet.heads[column.at]).0;
                        let example = format!("columns: {{{called}: {theirs} [{usual}]}}");
                        return Err(BuiltinFault::ReferenceUnit { file, column: of, unit, example });
                    }
                    (None, None) => 1.0,
                };
                of_part.push(UsedColumn { own, group, at: column.at, unit, factor });
            }
            asked.push(called);
        }
        columns.push(of_part);
    }
    // A part of the split without a current result is not a typing error.
    let known = |key: &String| asked.contains(key) || names.iter().any(|own| key.starts_with(&format!("{own} ")));
    if let Some(unknown) = reference.columns.keys().find(|key| !known(key)) {
        let hint = match nearest(unknown, asked.iter().map(String::as_str)) {
            Some(near) => Hint::DidYouMean { near: near.to_owned() },
            None => Hint::ThereAre { names: asked.into_iter().collect() },
        };
        return Err(BuiltinFault::ReferenceNames { name: unknown.clone(), hint });
    }
    let mut only = Vec::new();
    for (head, value) in &reference.only {
        let at = sheet.heads.iter().position(|own| named(own).0 == head || own == head);
        let at =
            at.ok_or_else(|| BuiltinFault::ReferenceWithoutHead { file: file(), head: head.clone(), heads: heads() })?;
        only.push((at, value));
    }
    if columns.iter().flatten().all(|taken: &UsedColumn<'_>| unshown == Some(taken.own)) {
        let own = names.into_iter().collect();
        return Err(BuiltinFault::ReferenceOfNothing { file: file(), own, heads: heads() });
    }
    let outcomes = find("outcome")?.map(|column| column.at);
    let taken: BTreeSet<usize> = columns.iter().flatten().map(|taken| taken.at).chain(outcomes).collect();
    let used = |at: &usize| {
        taken.contains(at) || keys.iter().any(|(_, key)| key == at) || only.iter().any(|(column, _)| column == at)
    };
    let missing: Vec<&String> =
        names.iter().filter(|own| !columns.iter().flatten().any(|taken| taken.own == *own)).collect();
    let unused = sheet.heads.iter().enumerate().filter(|(at, _)| !used(at)).map(|(_, head)| named(head).0);
    let slips = unused.filter_map(|head| {
        let meant = |own: &&&String| !reference.columns.contains_key(**own) && is_slip(head, own);
        let nearest = missing.iter().find(meant)?;
        Some(Note::Untaken { file: file(), head: head.to_owned(), nearest: (**nearest).clone() })
    });
    let mut notes: Vec<Note> = slips.collect();
    let mut matched: Vec<(usize, StepResult)> = Vec::new();
    let mut digits = BTreeMap::new();
    let mut together = Vec::new();
    let (mut unmatched, mut again) = (Vec::new(), Vec::new());
    let meant = |cells: &[String]| only.iter().all(|(at, value)| is(value, &cells[*at]));
    for (line, cells) in sheet.lines.iter().filter(|(_, cells)| meant(cells)) {
        for (part, columns) in parts.iter().zip(&columns) {
            let fits = |result: &&StepResult| {
                let key = keys.iter().all(|(axis, at)| result.axes.get(*axis).is_some_and(|v| is(v, &cells[*at])));
                let split = with.split.as_ref().zip(*part);
                key && split.is_none_or(|(split, part)| result.axes.get(split) == Some(part))
            };
            let place = || keys.iter().map(|(axis, at)| point(axis, &cells[*at])).collect::<Vec<_>>().join(", ");
            let Some(at) = now.iter().position(fits) else {
                unmatched.push((*line, place()));
                continue;
            };
            if matched.iter().any(|(known, _)| *known == at) {
                again.push((*line, place()));
            }
            let mut result = earlier(now[at], format!("{name}:{line}"));
            let memory = if now[at].circumstances.gpu_models.is_empty() { Memory::Host } else { Memory::Gpu };
            let mut ended = |outcome: Outcome| {
                result.outcome = outcome;
                result.cause =
                    (outcome == Outcome::OutOfMemory).then_some(Cause::OutOfMemory { memory, message: None });
            };
            if let Some(text) = outcomes.map(|at| cells[at].as_str()).filter(|text| !NOTHING.contains(text)) {
                ended(outcome(text).ok_or_else(|| {
                    let (place, text) = (format!("{name}:{line}"), text.to_owned());
                    BuiltinFault::ReferenceNoOutcome { place, text }
                })?);
            }
            for UsedColumn { own, group, at: column, unit, factor } in columns {
                let text = cells[*column].as_str();
                if NOTHING.contains(&text) {
                    continue;
                }
                // Outcomes appear in place of numbers, as in flow's own tables. The outcome of a group member says
                // nothing about its run alone.
                match outcome(text) {
                    Some(_) if *group => continue,
                    Some(outcome) => {
                        ended(outcome);
                        continue;
                    }
                    None => {}
                }
                let number: Option<f64> = text.parse().ok().filter(|number: &f64| number.is_finite());
                let number = number.ok_or_else(|| {
                    let (place, head) = (format!("{name}:{line}"), sheet.heads[*column].clone());
                    BuiltinFault::ReferenceNoNumber { place, head, text: text.to_owned() }
                })?;
                let value = number * factor;
                if *group {
                    together.push(InGroup { axes: now[at].axes.clone(), name: (*own).clone(), value });
                    continue;
                }
                if let Some(significant) = significant(text) {
                    let part = with.split.as_ref().and_then(|split| result.axes.get(split)).map(written);
                    digits.insert((result.label.clone(), (*own).clone(), part), significant);
                }
                let metric = Metric { value, unit: unit.clone(), epochs: None, sd: None, values: vec![] };
                result.metrics.insert((*own).clone(), metric);
            }
            matched.push((at, result));
        }
    }
    // A line may be recorded once for each part of the split.
    again.dedup_by_key(|(line, _)| *line);
    if let Some((_, first)) = again.first() {
        notes.push(Note::Again { file: name.to_owned(), lines: again.len() as u32, first: first.clone() });
    }
    if !unmatched.is_empty() {
        unmatched.dedup_by_key(|(line, _)| *line);
        let (lines, (_, first)) = (unmatched.len() as u32, unmatched.swap_remove(0));
        notes.push(Note::Unmatched { file: name.to_owned(), lines, first });
    }
    notes.into_iter().for_each(|note| _ = table.note(note));
    matched.sort_by_key(|(at, _)| *at);
    Ok(ReferenceFigures { results: matched.into_iter().map(|(_, result)| result).collect(), together, digits })
}

/// A column whose numbers are used.
struct UsedColumn<'a> {
    own: &'a String,
    /// Whether the numbers are times in a co-run group.
    group: bool,
    at: usize,
    unit: String,
    factor: f64,
}

/// The column of the file for `own`: the one that the author names, or the one with this header.
fn find<'a>(
    reference: &'a ReferenceWith,
    sheet: &'a Sheet,
    own: &str,
    file: &str,
) -> Result<Option<ColumnOf<'a>>, BuiltinFault> {
    let there = |wanted: &str| sheet.heads.iter().position(|head| named(head).0 == wanted || head == wanted);
    let theirs = match reference.columns.get(own) {
        None => return Ok(there(own).map(|at| ColumnOf { at, unit: named(&sheet.heads[at]).1 })),
        Some(None) => return Ok(None),
        Some(Some(theirs)) => theirs,
    };
    let (wanted, unit) = named(theirs);
    let at = there(wanted).ok_or_else(|| {
        let heads = || sheet.heads.iter().map(|head| named(head).0);
        let hint = match nearest(wanted, heads()) {
            Some(near) => Hint::DidYouMean { near: near.to_owned() },
            None => Hint::ItHas { names: heads().collect() },
        };
        BuiltinFault::ReferenceWithoutColumn { file: file.to_owned(), column: wanted.to_owned(), hint }
    })?;
    Ok(Some(ColumnOf { at, unit: unit.or(named(&sheet.heads[at]).1) }))
}

/// Splits `epoch_time [s]` into its name and its unit.
fn named(head: &str) -> (&str, Option<&str>) {
    match head.strip_suffix(']').and_then(|head| head.rsplit_once('[')) {
        Some((name, unit)) => (name.trim(), Some(unit.trim()).filter(|unit| !unit.is_empty())),
        None => (head.trim(), None),
    }
}

/// Whether one name is a typing error for the other: `los` for `loss`, but not `top1` for `top5`.
fn is_slip(head: &str, own: &str) -> bool {
    let letters = |name: &str| name.chars().filter(|c| !c.is_ascii_digit()).collect::<String>();
    let apart = strsim::damerau_levenshtein(head, own);
    apart > 0 && apart <= 2 && 3 * apart < own.chars().count() && letters(head) != letters(own)
}

/// Whether a value is the one in a cell: `16`, `16.0` and `"16"` are the same.
fn is(value: &Value, text: &str) -> bool {
    let number = value.as_f64().or_else(|| value.as_str()?.parse().ok());
    same(value, &Value::from(text)) || number.is_some_and(|number| text.parse() == Ok(number))
}

/// The unit of a metric in the current results; `None` if no result has one.
fn unit(now: &[&StepResult], name: &str) -> Option<String> {
    let measured = now.iter().find_map(|result| match datum(result, name)? {
        Datum::Measured { unit, .. } => Some(unit),
        _ => None,
    });
    let usage = || USAGE.iter().find(|known| known.name == name).map(|known| known.unit.to_owned());
    measured.or_else(usage)
}

/// The factor that converts a number to the unit of the metric; `None` if the two units are of different kinds.
fn factor(metric: &str, given: &str) -> Option<f64> {
    let of_kind = |units: &&[(&str, f64)]| {
        let one = |name: &str| units.iter().find(|(unit, _)| *unit == name).map(|(_, factor)| *factor);
        Some(one(given)? / one(metric)?)
    };
    if given == metric { Some(1.0) } else { UNITS.iter().find_map(of_kind) }
}

/// A likely unit for columns of bytes and ratios, because files rarely have these as such.
fn default_unit(metric: &str) -> Option<&'static str> {
    match metric {
        "bytes" => Some("MiB"),
        "ratio" => Some("%"),
        _ => None,
    }
}

/// A result with nothing but its axes.
fn earlier(now: &StepResult, label: String) -> StepResult {
    StepResult {
        caveats: Vec::new(),
        fingerprint: Digest([0; 32]),
        workflow: now.workflow.clone(),
        step: now.step.clone(),
        label,
        axes: now.axes.clone(),
        repetition: None,
        outcome: Outcome::Ok,
        cause: None,
        disturbances: Vec::new(),
        run: RunId(String::new()),
        started_at: 0,
        ended_at: 0,
        outputs: IndexMap::new(),
        paths: Default::default(),
        metrics: Default::default(),
        params: Default::default(),
        usage: Default::default(),
        circumstances: Default::default(),
        series: None,
        kept: None,
        accepted: None,
    }
}

/// The table with each column of earlier figures directly behind the current one.
pub(crate) fn interleave_earlier(table: &Table) -> Table {
    let Some(Reference { table: earlier, .. }) = table.reference.as_deref() else { return table.clone() };
    let mut merged =
        Table { columns: Vec::new(), body: Vec::new(), reference: table.reference.clone(), ..table.clone() };
    let keys = table.rows.len();
    let row_of = |row: &Row| {
        earlier
            .body
            .iter()
            .find(|other| other.cells[..keys].iter().zip(&row.cells).all(|(a, b)| a.content == b.content))
    };
    merged.body = vec![Row::default(); table.body.len()];
    let mut used = BTreeSet::new();
    for (at, column) in table.columns.iter().enumerate() {
        merged.columns.push(column.clone());
        for (row, to) in table.body.iter().zip(&mut merged.body) {
            to.cells.push(row.cells[at].clone());
        }
        let found = earlier.columns.iter().position(|other| {
            !column.key && (&other.name, other.derived, &other.part) == (&column.name, column.derived, &column.part)
        });
        let says = |at: &usize| {
            // Text repeats that of the current table, except for the number of GPUs.
            let own = |content: &Content| match content {
                Content::Absent => false,
                Content::Text { .. } => column.name == GPUS,
                _ => true,
            };
            earlier.body.iter().any(|row| own(&row.cells[*at].content))
        };
        let Some(found) = found.filter(says).filter(|found| used.insert(*found)) else { continue };
        merged.columns.push(Column { earlier: true, ..earlier.columns[found].clone() });
        for (row, to) in table.body.iter().zip(&mut merged.body) {
            let cell = row_of(row).map(|row| row.cells[found].clone());
            // Its notes belong to the other table.
            let cell = cell.map_or_else(|| Cell::new(Content::Absent), |cell| Cell { notes: Vec::new(), ..cell });
            to.cells.push(cell);
        }
    }
    merged
}
