//! Findings about simulated schedules: the best policy at the highest load, crossovers on the way there, and the
//! highest GPU use.

use flow_core::Interval;
use flow_core::stats::t_quantile;

use super::{Crossover, Figure, FigureMeaning, Finding, ScopedFinding, SectionFigures, Side, TiedPart};
use crate::bounds::{SAME, is_same};
use crate::format::Format;
use crate::table::{Content, Row, Table, rows_by_others};

/// Times for which shorter is better.
const TIMES: [&str; 4] = ["time_in_system", "time_in_system_p99", "waiting", "makespan"];
/// Shares of the capacity.
const SHARES: [&str; 2] = ["gpu_use", "cpu_use"];
/// Degrees of freedom for two means whose values are not known.
const UNKNOWN: f64 = 1_000.0;

/// A part of the split in one row.
pub(super) struct Part {
    pub(super) name: String,
    figure: Figure,
    /// The standard error of the figure; 0 if it is not known.
    error: f64,
    /// The figure for each seed.
    values: Vec<f64>,
}

/// Rows along the last axis of a table, at one point of the other axes.
struct Sweep {
    scope: Option<String>,
    /// The last axis.
    axis: String,
    /// Rows, each with its value of that axis.
    rows: Vec<(usize, String)>,
}

/// Findings of a table with a row for each density and a part for each policy. If two parts are `compared`, that
/// comparison names the better one.
pub(crate) fn schedules(ledger: &mut SectionFigures<'_>, compared: bool) -> Vec<ScopedFinding> {
    if ledger.table.split.is_none() {
        return ordered(ledger).into_iter().map(|finding| ScopedFinding { scope: None, finding }).collect();
    }
    let mut found = Vec::new();
    for sweep in sweeps(ledger.table) {
        let mut of_sweep = Vec::new();
        for column in TIMES.iter().filter(|_| !compared) {
            let rows: Vec<(&str, Vec<Part>)> =
                sweep.rows.iter().map(|(row, at)| (&**at, parts(ledger, column, *row))).collect();
            of_sweep.push(best(ledger, &sweep, column, &rows));
            of_sweep.push(turns(ledger, &sweep, column, &rows));
        }
        of_sweep.extend(SHARES.map(|column| at_most(ledger, &sweep, column)));
        found.extend(
            of_sweep.into_iter().flatten().map(|finding| ScopedFinding { scope: sweep.scope.clone(), finding }),
        );
    }
    found
}

/// The order given by one simulation of each row, if rows are policies or other names that are not numbers.
pub(super) fn ordered(ledger: &SectionFigures<'_>) -> Vec<Finding> {
    let table = ledger.table;
    let [axis] = table.rows.as_slice() else { return Vec::new() };
    let name = |row: &Row| match &row.cells.first()?.content {
        Content::Text { text, number: None } => Some(text.clone()),
        _ => None,
    };
    let Some(names) = table.body.iter().map(name).collect::<Option<Vec<_>>>() else { return Vec::new() };
    let of = |column: &str| {
        let at = table.find(column, None, None)?;
        let simulated_once = |row: &Row| {
            let cell = &row.cells[at];
            cell.values.len() < 2 && matches!(cell.content, Content::Number { spread: None, .. })
        };
        let once = table.body.iter().all(simulated_once);
        let figures = (0..names.len()).filter(|_| once).map(|row| Some((names[row].clone(), ledger.cell(row, at)?)));
        let mut order = figures.collect::<Option<Vec<(String, Figure)>>>()?;
        order.sort_by(|(_, a), (_, b)| a.value.total_cmp(&b.value));
        let [(_, least), .., (_, most)] = order.as_slice() else { return None };
        let (min, max) = (least.clone(), most.clone());
        if is_same(min.value, max.value) {
            return Some(Finding::TimeFlat { time: column.to_owned(), axis: axis.clone(), min, max });
        }
        Some(Finding::Order { column: column.to_owned(), order })
    };
    TIMES.iter().filter_map(|column| of(column)).collect()
}

fn sweeps(table: &Table) -> Vec<Sweep> {
    let Some((axis, others)) = table.rows.split_last() else { return Vec::new() };
    let at = |row: usize| Some((row, table.body[row].cells.get(others.len())?.text()?.to_owned()));
    let sweep = |(of, rows): (Vec<String>, Vec<usize>)| Sweep {
        scope: (!of.is_empty()).then(|| of.join(", ")),
        axis: axis.clone(),
        rows: rows.into_iter().filter_map(at).collect(),
    };
    rows_by_others(table).into_iter().map(sweep).collect()
}

/// The figures of a column in a row, in the order of the split.
pub(super) fn parts(ledger: &SectionFigures<'_>, column: &str, row: usize) -> Vec<Part> {
    let table = ledger.table;
    let of = |part: &str| {
        let at = table.find(column, None, Some(part))?;
        let cell = &table.body[row].cells[at];
        let (error, values) = (cell.error().unwrap_or(0.0), cell.values.clone());
        Some(Part { name: table.point(part)?, figure: ledger.cell(row, at)?, error, values })
    };
    table.parts().into_iter().flatten().filter_map(of).collect()
}

/// How much longer `more` takes than `less`, judged by its seeds: paired if both have the same seeds, otherwise as two
/// means. The interval holds together with those of all `many` comparisons.
fn difference(less: &Part, more: &Part, many: usize) -> Interval {
    let mean = more.figure.value - less.figure.value;
    if less.values.len() != more.values.len() || less.values.len() < 2 {
        let errors = t_quantile(0.05 / many.max(1) as f64, UNKNOWN);
        return Interval { mean, half: Some(errors * less.error.hypot(more.error)) };
    }
    Interval::of_many(less.values.iter().zip(&more.values).map(|(less, more)| more - less), many)
}

/// The number of pairs of so many parts. All of them count, because the figures decide which two are compared.
pub(super) fn pairs(parts: usize) -> usize {
    parts * parts.saturating_sub(1) / 2
}

/// 1 if `more` takes longer than chance explains, −1 if it takes less time, 0 if that cannot be decided.
pub(super) fn direction(less: &Part, more: &Part, many: usize) -> i8 {
    let Interval { mean, half } = difference(less, more, many);
    match half {
        Some(half) if mean > half => 1,
        Some(half) if mean < -half => -1,
        _ => 0,
    }
}

/// The best and the worst part in the last row.
fn best(ledger: &mut SectionFigures<'_>, sweep: &Sweep, column: &str, rows: &[(&str, Vec<Part>)]) -> Option<Finding> {
    let (at, parts) = rows.last()?;
    let mut sorted: Vec<&Part> = parts.iter().collect();
    sorted.sort_by(|a, b| a.figure.value.total_cmp(&b.figure.value));
    let [first, .., last] = sorted.as_slice() else { return None };
    let (column, axis, at) = (column.to_owned(), sweep.axis.clone(), (*at).to_owned());
    let apart = last.figure.value / first.figure.value - 1.0;
    if !apart.is_finite() {
        return None;
    }
    if apart <= SAME {
        let (split, _) = ledger.table.split.clone()?;
        let what = FigureMeaning::new("apart", [("column", &*column), ("axis", &*axis), ("at", &*at)]);
        let show = Format { decimals: 1, signed: false, ..Format::change() };
        let apart = ledger.computed(sweep.scope.as_deref(), what, apart, show);
        let (min, max) = (first.figure.clone(), last.figure.clone());
        return Some(Finding::Alike { column, split, axis, at, apart, min, max });
    }
    let many = pairs(parts.len());
    let mut rival = |own: &Part, part: &Part| {
        let what = FigureMeaning::new(
            "behind",
            [("column", &*column), ("axis", &*axis), ("at", &*at), ("part", &*part.name), ("than", &*own.name)],
        );
        let (by, show) = (difference(own, part, many), own.figure.show.difference());
        let [by, low, high] = ledger.interval(sweep.scope.as_deref(), what, by, &show);
        TiedPart { name: part.name.clone(), value: part.figure.clone(), by, low, high }
    };
    if direction(first, last, many) == 0 {
        let worst = rival(first, last);
        let (split, _) = ledger.table.split.clone()?;
        let best = (first.name.clone(), first.figure.clone());
        return Some(Finding::NoneDistinguished { column, split, axis, at, best, worst });
    }
    let mut side = |own: &Part| {
        let rivals = sorted.iter().filter(|part| part.name != own.name && direction(own, part, many) == 0);
        let peers = rivals.map(|part| rival(own, part)).collect();
        Side { name: own.name.clone(), value: own.figure.clone(), peers }
    };
    let (best, worst) = (side(first), side(last));
    Some(Finding::Best { column, axis, at, best, worst })
}

/// Where one part is better than another at first and worse later.
fn turns(ledger: &SectionFigures<'_>, sweep: &Sweep, column: &str, rows: &[(&str, Vec<Part>)]) -> Option<Finding> {
    let names: Vec<String> =
        ledger.table.parts().into_iter().flatten().filter_map(|part| ledger.table.point(part)).collect();
    let many = pairs(names.len()) * rows.len();
    let mut turns = Vec::new();
    for (n, a) in names.iter().enumerate() {
        for b in &names[n + 1..] {
            let pair = |(at, parts): &(&str, Vec<Part>)| {
                let of = |name: &String| parts.iter().find(|part| part.name == *name);
                let (a, b) = (of(a)?, of(b)?);
                // A negligible difference does not count as a crossover.
                let apart = (a.figure.value - b.figure.value).abs() / a.figure.value.min(b.figure.value);
                let sign = if apart > SAME { direction(a, b, many) } else { 0 };
                (sign != 0).then(|| (sign, (*at).to_owned(), a.figure.clone(), b.figure.clone()))
            };
            let told: Vec<_> = rows.iter().filter_map(pair).collect();
            for ends in told.windows(2).filter(|ends| ends[0].0 != ends[1].0) {
                let [(sign, from, a_from, b_from), (_, to, a_to, b_to)] = ends else { continue };
                let swap = *sign < 0;
                let order = |a: &Figure, b: &Figure| if swap { (b.clone(), a.clone()) } else { (a.clone(), b.clone()) };
                let (first, second) = if swap { (b, a) } else { (a, b) };
                let (before, after) = (order(a_from, b_from), order(a_to, b_to));
                let (from, to) = (from.clone(), to.clone());
                turns.push(Crossover { first: first.clone(), second: second.clone(), from, to, before, after });
            }
        }
    }
    let (column, axis) = (column.to_owned(), sweep.axis.clone());
    (!turns.is_empty()).then_some(Finding::Turns { column, axis, turns })
}

/// The maximum of any part, and all parts that read the same at that place.
fn at_most(ledger: &SectionFigures<'_>, sweep: &Sweep, column: &str) -> Option<Finding> {
    let all =
        sweep.rows.iter().flat_map(|(row, at)| parts(ledger, column, *row).into_iter().map(move |part| (at, part)));
    let all: Vec<(&String, Part)> = all.collect();
    let (at, top) = all.iter().max_by(|(_, a), (_, b)| a.figure.value.total_cmp(&b.figure.value))?;
    let read = |part: &Part| part.figure.show.as_read(part.figure.value);
    let reach = all.iter().filter(|(of, part)| of == at && read(part) == read(top)).map(|(_, part)| part.name.clone());
    let (axis, at, most) = (sweep.axis.clone(), (*at).clone(), top.figure.clone());
    Some(Finding::AtMost { column: column.to_owned(), axis, at, parts: reach.collect(), most })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::findings::Source;

    #[test]
    fn of_policies_that_are_alike_the_best_and_the_worst_are_rarely_told_apart() {
        let mut state = 7_u64;
        let mut uniform = || {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 11) as f64 / (1_u64 << 53) as f64
        };
        let wrong = |many: usize, uniform: &mut dyn FnMut() -> f64| {
            let sweeps = (0..400).filter(|_| {
                let part = |n: usize, uniform: &mut dyn FnMut() -> f64| {
                    let values: Vec<f64> = (0..12).map(|_| (0..12).map(|_| uniform()).sum::<f64>()).collect();
                    let value = values.iter().sum::<f64>() / 12.0;
                    let figure = Figure { value, show: Format::count(), from: Source::Table { row: 0, column: 0 } };
                    Part { name: n.to_string(), figure, error: 0.0, values }
                };
                let mut parts: Vec<Part> = (0..6).map(|n| part(n, uniform)).collect();
                parts.sort_by(|a, b| a.figure.value.total_cmp(&b.figure.value));
                direction(&parts[0], &parts[5], many) != 0
            });
            sweeps.count()
        };
        let (once, all) = (wrong(1, &mut uniform), wrong(pairs(6), &mut uniform));
        assert!(once > 80, "each by itself finds a difference too often: {once} of 400");
        assert!(all <= 20, "{all} of 400");
    }
}
