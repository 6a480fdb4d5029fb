//! Tables as CSV, for programs: units in the header, plain numbers, outcomes by identifier, `NA` for missing values. A
//! text that a spreadsheet would take for a formula begins with an apostrophe.

use super::model::{Cell, Column, Content, Spread, Table};
use super::reference::interleave_earlier;
use crate::safe;
use crate::words::kind;

pub(crate) fn csv(table: &Table) -> String {
    let table = &interleave_earlier(table);
    // A column whose cells have a spread gets two more columns, or three with a range.
    let spread = |at: usize| table.body.iter().filter_map(|row| row.cells.get(at)).find_map(Cell::spread);
    let spreads: Vec<Option<Spread>> = (0..table.columns.len()).map(spread).collect();
    let mut lines =
        vec![line(table.columns.iter().zip(&spreads).flat_map(|(column, spread)| heads(table, column, spread)))];
    for row in &table.body {
        let cells = row.cells.iter().zip(&table.columns).zip(&spreads);
        lines.push(line(cells.flat_map(|((cell, column), spread)| values(&cell.content, column, spread))));
    }
    lines.concat()
}

fn heads(table: &Table, column: &Column, spread: &Option<Spread>) -> Vec<String> {
    let name = match column.derived {
        None => column.name.clone(),
        Some(function) => format!("{}({})", kind(&function), column.name),
    };
    let part = column.part.as_ref().and_then(|part| table.point(part));
    let name = part.map_or(name.clone(), |part| format!("{name} {part}"));
    let name = if column.earlier { format!("{name} earlier") } else { name };
    let unit = match column.show.unit.as_str() {
        "" | "×" => String::new(),
        unit => format!(" [{unit}]"),
    };
    let more: &[&str] = match spread {
        None => &[],
        Some(Spread::Sd(..)) => &[" sd", " n"],
        Some(Spread::Range(..)) => &[" min", " max", " n"],
        Some(Spread::Interval(..)) => &[" half 95 %", " n"],
    };
    let with_unit = |suffix: &&str| match *suffix {
        " n" => format!("{name} n"),
        suffix => format!("{name}{suffix}{unit}"),
    };
    std::iter::once(format!("{name}{unit}")).chain(more.iter().map(with_unit)).map(|head| safe::cell(&head)).collect()
}

fn values(content: &Content, column: &Column, column_spread: &Option<Spread>) -> Vec<String> {
    let number = |v: f64| column.show.exact(v);
    let more = |spread: &Option<Spread>| match (column_spread, spread) {
        (None, _) => vec![],
        (Some(_), Some(Spread::Sd(half, n) | Spread::Interval(half, n))) => vec![number(*half), n.to_string()],
        (Some(_), Some(Spread::Range(least, most, n))) => vec![number(*least), number(*most), n.to_string()],
        (Some(Spread::Sd(..) | Spread::Interval(..)), None) => vec!["NA".into(); 2],
        (Some(Spread::Range(..)), None) => vec!["NA".into(); 3],
    };
    let (first, spread) = match content {
        Content::Number { value, spread, .. } => (number(*value), spread),
        Content::Text { text, .. } => (safe::cell(text), &None),
        Content::Outcome { outcome, .. } => (outcome.to_string(), &None),
        Content::NotFinite { what } => (what.text().into(), &None),
        Content::Disturbed => ("disturbed".into(), &None),
        Content::Unlike => ("unlike".into(), &None),
        Content::GpusChange { .. } | Content::Absent => ("NA".into(), &None),
    };
    std::iter::once(first).chain(more(spread)).collect()
}

fn line(cells: impl Iterator<Item = String>) -> String {
    let quoted = cells.map(|cell| match cell.contains([',', '"', '\n', '\r']) {
        true => format!("\"{}\"", cell.replace('"', "\"\"")),
        false => cell,
    });
    quoted.collect::<Vec<_>>().join(",") + "\n"
}
