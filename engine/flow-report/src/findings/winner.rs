//! The best point of a sweep by a column whose name says whether more or less of it is better, how far ahead it is, and whether
//! repetitions tell it from the others.

use flow_core::Best;

use super::held::topic;
use super::{Finding, Scoped, SectionFigures};
use crate::analysis::differs;
use crate::bounds::SIGNIFICANT;
use crate::columns::{is_usage, point};
use crate::table::{Cell, Column, Content, Spread};

/// Standard normal quantiles of a two-sided test at 5% and of a power of 80%, summed: (1.96 + 0.84)².
const RUNS: f64 = 7.84;
/// More runs than this are not proposed.
const MOST: f64 = 200.0;

struct Point<'a> {
    row: usize,
    column: usize,
    name: String,
    value: f64,
    cell: &'a Cell,
}

/// The best point by the first column that can be better or worse and of which `found` says nothing yet; `None` if there is no such
/// column, or only one point.
pub(crate) fn winner(ledger: &SectionFigures<'_>, found: &[Scoped]) -> Option<Scoped> {
    let table = ledger.table;
    if table.rows.iter().any(|axis| axis == "epoch" || axis == "step") {
        return None;
    }
    // What the program reports comes before what flow measures.
    let asked = |column: &&Column| !column.key && column.derived.is_none() && !column.earlier;
    let known = |column: &&Column| Best::by_name(&column.name).is_some();
    let columns = || table.columns.iter().filter(asked).filter(known);
    // Along an axis of numbers, a time has a curve; of names, one of them is the fastest.
    let key = table.rows.len().checked_sub(1)?;
    let names = table.body.iter().any(|row| matches!(row.cells[key].content, Content::Text { number: None, .. }));
    let told = |column: &&Column| {
        found.iter().any(|one| matches!(topic(&one.finding), Some(("time" | "best", about)) if about == column.name))
    };
    let of_program = columns().filter(|column| !is_usage(&column.name) && !told(column));
    // What is measured on data that was not trained on says more.
    let column =
        of_program.filter(|column| names || !is_time(column)).min_by_key(|column| column.name.contains("train"))?;
    let goal = Best::by_name(&column.name)?;
    let mut points = Vec::new();
    for part in table.parts() {
        let at = table.find(&column.name, None, part)?;
        for (row, of) in table.body.iter().enumerate() {
            let Content::Number { value, .. } = of.cells[at].content else { continue };
            let axes = table.rows.iter().zip(&of.cells).filter_map(|(axis, key)| match &key.content {
                Content::Text { text, .. } => Some(point(axis, text)),
                _ => None,
            });
            let part = part.and_then(|part| table.point(part));
            let name = axes.chain(part).collect::<Vec<_>>().join(", ");
            points.push(Point { row, column: at, name, value, cell: &of.cells[at] });
        }
    }
    points.sort_by(|a, b| match goal {
        Best::Min => a.value.total_cmp(&b.value),
        Best::Max => b.value.total_cmp(&a.value),
    });
    let [best, rest @ ..] = points.as_slice() else { return None };
    let next = rest.first()?;
    let comparisons = rest.len() as f64;
    let p: Vec<Option<f64>> = rest.iter().map(|other| differs(best.cell, other.cell)).collect();
    let repeated = p.iter().all(Option::is_some);
    let tied = rest.iter().zip(&p).filter(|(other, p)| match p {
        Some(p) => p * comparisons > SIGNIFICANT,
        None => other.value == best.value,
    });
    let tied: Vec<String> = tied.map(|(other, _)| other.name.clone()).collect();
    // Of points that are all the same, none is the best.
    if !repeated && tied.len() == rest.len() {
        return None;
    }
    let figure = |of: &Point<'_>| ledger.cell(of.row, of.column);
    let more = repeated.then(|| runs(best.cell, next.cell)).flatten().filter(|_| !tied.is_empty());
    let finding = Finding::Winner {
        column: column.name.clone(),
        least: goal == Best::Min,
        point: best.name.clone(),
        value: figure(best)?,
        next: (next.name.clone(), figure(next)?),
        points: points.len(),
        tied,
        repeated,
        more,
    };
    Some(Scoped { scope: None, finding })
}

/// Whether it is how long something took.
pub(super) fn is_time(column: &Column) -> bool {
    matches!(column.show.unit.as_str(), "ms" | "s" | "min" | "h" | "µs") || column.name.ends_with("_time")
}

/// How many runs of each of two points would tell a difference as large as theirs: n = (z₀.₉₇₅ + z₀.₈)² (s₁² + s₂²) / d², as for the
/// comparison of two means (W. G. Cochran, Sampling Techniques, 1977, 4.4). It is more than there are, because these did not suffice.
fn runs(a: &Cell, b: &Cell) -> Option<u32> {
    let of = |cell: &Cell| match cell.content {
        Content::Number { value, spread: Some(Spread::Sd(sd, runs)), .. } => Some((value, sd, runs)),
        _ => None,
    };
    let ((a, sa, runs_of_a), (b, sb, runs_of_b)) = (of(a)?, of(b)?);
    let n = RUNS * (sa.powi(2) + sb.powi(2)) / (a - b).powi(2);
    (n.is_finite() && n <= MOST).then(|| (n.ceil() as u32).max(runs_of_a.max(runs_of_b) + 1))
}
