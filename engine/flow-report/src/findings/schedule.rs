//! Findings about simulated schedules: what serves best where the load is highest, and how busy GPUs get at most.

use flow_core::Interval;

use super::{Figure, Finding, Ledger, Parts, Scoped};
use crate::table::{Content, Table};

/// Times that are better when they are shorter.
const TIMES: [&str; 4] = ["time_in_system", "time_in_system_p99", "waiting", "makespan"];
/// Shares of what there is.
const SHARES: [&str; 2] = ["gpu_use", "cpu_use"];
/// What differs by less than this share is alike …
const ALIKE: f64 = 0.05;
/// … and so is what chance explains: over the same seeds a mean difference within its confidence interval, otherwise one of fewer
/// standard errors than this.
const ERRORS: f64 = 2.0;

/// A part of the split in one row.
struct Part {
    name: String,
    figure: Figure,
    /// The standard error of the figure; 0 where it is not known.
    error: f64,
    /// The figure by seed.
    values: Vec<f64>,
}

/// Findings of a table with a row for each density and a part for each policy.
pub(crate) fn schedules(ledger: &Ledger<'_>) -> Vec<Scoped> {
    let table = ledger.table;
    let ([axis], Some((split, _)), Some(last)) = (table.rows.as_slice(), &table.split, table.body.len().checked_sub(1))
    else {
        return Vec::new();
    };
    let at = |row: usize| match table.body[row].cells.first().map(|cell| &cell.content) {
        Some(Content::Text { text, .. }) => Some(text.clone()),
        _ => None,
    };
    let mut found = Vec::new();
    for column in TIMES {
        let (parts, Some(at)) = (sorted(ledger, table, column, last), at(last)) else { continue };
        let ([first, .., last], column, axis) = (parts.as_slice(), column.to_owned(), axis.clone()) else { continue };
        if alike(first, last) {
            let (split, least, most) = (split.clone(), first.figure.clone(), last.figure.clone());
            found.push(Finding::Alike { column, split, axis, at, least, most });
            continue;
        }
        let (best, others): (Vec<&Part>, Vec<&Part>) = parts.iter().partition(|part| alike(first, part));
        let worst: Vec<&Part> = others.into_iter().filter(|part| alike(part, last)).collect();
        if let (Some(best), Some(worst)) = (together(&best), together(&worst)) {
            found.push(Finding::Best { column, axis, at, best, worst });
        }
    }
    for column in SHARES {
        let rows =
            (0..table.body.len()).flat_map(|row| sorted(ledger, table, column, row).pop().map(|part| (row, part)));
        let most = rows.max_by(|(_, a), (_, b)| a.figure.value.total_cmp(&b.figure.value));
        if let Some((at, Part { name: part, figure: most, .. })) = most.and_then(|(row, part)| Some((at(row)?, part))) {
            found.push(Finding::AtMost { column: column.to_owned(), axis: axis.clone(), at, part, most });
        }
    }
    found.into_iter().map(|finding| Scoped { scope: None, finding }).collect()
}

/// The figures of a column in a row, the least first; none where the table is not split.
fn sorted(ledger: &Ledger<'_>, table: &Table, column: &str, row: usize) -> Vec<Part> {
    let of = |part: &str| {
        let at = table.find(column, None, Some(part))?;
        let cell = &table.body[row].cells[at];
        let (error, values) = (cell.error().unwrap_or(0.0), cell.values.clone());
        Some(Part { name: part.to_owned(), figure: ledger.cell(row, at)?, error, values })
    };
    let mut parts: Vec<Part> = table.parts().into_iter().flatten().filter_map(of).collect();
    parts.sort_by(|a, b| a.figure.value.total_cmp(&b.figure.value));
    parts
}

fn alike(less: &Part, more: &Part) -> bool {
    let paired = less.values.len() == more.values.len();
    let differences = less.values.iter().zip(&more.values).filter(|_| paired).map(|(less, more)| more - less);
    let by_chance = Interval::over(differences).half.unwrap_or(ERRORS * less.error.hypot(more.error));
    more.figure.value - less.figure.value <= by_chance.max(ALIKE * less.figure.value.abs())
}

fn together(parts: &[&Part]) -> Option<Parts> {
    let (least, most) = (parts.first()?.figure.clone(), parts.last()?.figure.clone());
    Some(Parts { names: parts.iter().map(|part| part.name.clone()).collect(), least, most })
}
