//! The best point of a sweep, by a column whose name says whether more or less is better: how far ahead it is, and
//! whether repetitions distinguish it from the others.

use flow_core::Best;

use super::facts::topic;
use super::{FigureMeaning, Finding, Lead, ScopedFinding, SectionFigures, WinnerTest};
use crate::columns::is_usage;
use crate::format::Format;
use crate::significance::{TestResult, repeats_itself, test};
use crate::table::{Cell, Column, Content};

struct Point<'a> {
    row: usize,
    column: usize,
    name: String,
    value: f64,
    cell: &'a Cell,
}

/// The best point by the first column that has a goal and that `found` does not cover. `None` if there is no such
/// column, or only one point.
pub(crate) fn winner(ledger: &mut SectionFigures<'_>, command: bool, found: &[ScopedFinding]) -> Option<ScopedFinding> {
    let table = ledger.table;
    if table.rows.iter().any(|axis| axis == "epoch" || axis == "step") {
        return None;
    }
    // Candidates are columns that the program reports. Those that flow measures are filtered out below.
    let asked = |column: &&Column| !column.key && column.derived.is_none() && !column.earlier;
    let known = |column: &&Column| Best::by_name(&column.name).is_some();
    let columns = || table.columns.iter().filter(asked).filter(known);
    // Along an axis of numbers, a time has a curve. Along an axis of names, one of them is the fastest.
    let key = table.rows.len().checked_sub(1)?;
    let names = table.body.iter().any(|row| matches!(row.cells[key].content, Content::Text { number: None, .. }));
    let told = |column: &&Column| {
        found.iter().any(|one| matches!(topic(&one.finding), Some(("time" | "best", about)) if about == column.name))
    };
    let of_program = columns().filter(|column| !is_usage(&column.name) && !told(column));
    // Validation data say more than training data.
    let column =
        of_program.filter(|column| names || !column.is_time()).min_by_key(|column| column.name.contains("train"))?;
    let goal = Best::by_name(&column.name)?;
    let mut points = Vec::new();
    for part in table.parts() {
        let at = table.find(&column.name, None, part)?;
        for (row, of) in table.body.iter().enumerate() {
            let Content::Number { value, .. } = of.cells[at].content else { continue };
            points.push(Point { row, column: at, name: table.place(of, part), value, cell: &of.cells[at] });
        }
    }
    points.sort_by(|a, b| match goal {
        Best::Min => a.value.total_cmp(&b.value),
        Best::Max => b.value.total_cmp(&a.value),
    });
    let [best, rest @ ..] = points.as_slice() else { return None };
    let next = rest.first()?;
    let comparisons = rest.len();
    let tests: Vec<Option<TestResult>> = rest.iter().map(|other| test(best.cell, other.cell)).collect();
    let repeated = tests.iter().all(Option::is_some);
    let worst = rest.last()?;
    if column.show.as_read(best.value) == column.show.as_read(worst.value) {
        return None;
    }
    let tied = rest.iter().zip(&tests).filter(|(other, tested)| match tested {
        Some(tested) => !tested.is_significant(comparisons),
        None => other.value == best.value,
    });
    let tied: Vec<&Point<'_>> = tied.map(|(other, _)| other).collect();
    // If all points are the same, none is the best.
    if !repeated && tied.len() == rest.len() {
        return None;
    }
    let Lead { values, by, show } = Lead::of(&column.show, best.value, next.value);
    if best.value != next.value {
        let what = FigureMeaning::new("lead", [("column", &*column.name), ("at", &*next.name)]);
        ledger.computed(None, what, by, show);
    }
    if values.decimals != column.show.decimals {
        for point in [best, next] {
            let what = FigureMeaning::new("value_at", [("column", &*column.name), ("at", &*point.name)]);
            ledger.computed(None, what, point.value, values.clone());
        }
    }
    let test = match tests.first().and_then(Option::as_ref).filter(|_| repeated) {
        Some(tested) => {
            let p = tested.of_many(comparisons);
            let what = FigureMeaning::new("t_test", [("column", &*column.name), ("at", &*next.name)]);
            let p = ledger.computed(None, what, p, Format::p_value(p));
            let more = tested.more(comparisons).filter(|_| !tested.is_significant(comparisons));
            Some(WinnerTest { paired: tested.paired, runs: tested.runs, p, more })
        }
        None => None,
    };
    let worse = rest.iter().filter(|other| !tied.iter().any(|tied| tied.name == other.name));
    let worse = worse.map(|other| other.name.clone()).collect();
    let tied = tied.into_iter().map(|other| other.name.clone()).collect();
    let figure = |of: &Point<'_>| ledger.cell(of.row, of.column);
    let finding = Finding::Winner {
        column: column.name.clone(),
        lower_is_better: goal == Best::Min,
        point: best.name.clone(),
        value: figure(best)?,
        next: (next.name.clone(), figure(next)?),
        worst: (rest.len() > 1).then(|| Some((worst.name.clone(), figure(worst)?))).flatten(),
        tied,
        worse,
        test,
        command,
        center: table.center(),
        identical: points.iter().any(|point| repeats_itself(point.cell)),
    };
    Some(ScopedFinding { scope: None, finding })
}
