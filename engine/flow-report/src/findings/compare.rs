//! Two versions side by side: how every measured column changes from one to the other, and what that comes to.

use serde::{Deserialize, Serialize};

use super::stats::median;
use super::{Figure, Finding, Scoped, Source};
use crate::columns::point;
use crate::format::Format;
use crate::table::{Content, Row, Table};

/// Relative changes smaller than this are none.
const SAME: f64 = 0.05;
/// The same for accuracies, whose changes are in points.
const SAME_ACCURACY: f64 = 0.01;
/// The same for loads.
const SAME_LOAD: f64 = 0.03;
/// Columns that tell how well a model does.
const ACCURACY: [&str; 4] = ["top1", "accuracy", "top5", "error_rate"];
/// Columns that cost something.
const COST: [&str; 5] = ["epoch_time", "iteration_time", "cpu_util", "gpu_memory", "energy"];

/// How columns change from one value of the split to the other.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Changes {
    /// The axis that is compared.
    pub(crate) axis: String,
    /// From this value of it …
    pub(crate) a: String,
    /// … to this one.
    pub(crate) b: String,
    /// Columns by name, with how their changes are shown.
    pub(crate) columns: Vec<(String, Format)>,
    /// Changes by row of the table, then column.
    pub(crate) rows: Vec<Vec<Option<f64>>>,
    /// By column, in how many rows there ought to be a change: in all but those that ended both times for want of memory, or
    /// did not run.
    #[serde(skip)]
    expected: Vec<usize>,
    /// In some row one of the two held more GPUs.
    #[serde(skip)]
    unlike_gpus: bool,
}

impl Changes {
    /// The two values, as they read away from their axis.
    pub(crate) fn ends(&self) -> (String, String) {
        (point(&self.axis, &self.a), point(&self.axis, &self.b))
    }
}

/// Compares the two values of the split `axis`.
pub(crate) fn compare(table: &Table, axis: &str) -> Result<Option<(Changes, Vec<Scoped>)>, String> {
    let Some((split, values)) = &table.split else {
        return Err(format!("`compare: {axis}`: the table of `{}` has no split; give it `split: {axis}`", table.from));
    };
    if split != axis {
        return Err(format!("`compare: {axis}`: the table of `{}` is split by `{split}`", table.from));
    }
    let [a, b] = values.as_slice() else {
        return Ok(None);
    };
    let (axis, a_name, b_name) = (axis.to_owned(), a.clone(), b.clone());
    let (columns, rows) = (Vec::new(), vec![Vec::new(); table.body.len()]);
    let mut changes = Changes { axis, a: a_name, b: b_name, columns, rows, expected: vec![], unlike_gpus: false };
    for (at_a, column) in table.columns.iter().enumerate() {
        if column.derived.is_some() || column.part.as_ref() != Some(a) {
            continue;
        }
        // The same numbers under another label say the same.
        if changes.columns.iter().any(|(name, _)| *name == column.name) {
            continue;
        }
        let Some(at_b) = table.find(&column.name, None, Some(b)) else { continue };
        let share = column.show.unit == "%";
        let show = if share { column.show.difference() } else { Format::change() };
        let measured = |row: usize, at: usize| match table.body[row].cells[at].content {
            Content::Number { value, .. } => Some(value),
            _ => None,
        };
        let change = |row: usize| {
            let (a, b) = (measured(row, at_a)?, measured(row, at_b)?);
            let change = if share { b - a } else { b / a - 1.0 };
            change.is_finite().then_some(change)
        };
        let all: Vec<Option<f64>> = (0..table.body.len()).map(change).collect();
        if all.iter().any(Option::is_some) {
            let nothing = |row: &Row| row.cells[at_a].had_nothing_to_say() && row.cells[at_b].had_nothing_to_say();
            let unlike =
                |row: &Row| matches!((row.cells[at_a].gpus, row.cells[at_b].gpus), (Some(a), Some(b)) if a != b);
            changes.unlike_gpus |= table.body.iter().any(unlike);
            changes.expected.push(table.body.iter().filter(|row| !nothing(row)).count());
            changes.columns.push((column.name.clone(), show));
            changes.rows.iter_mut().zip(all).for_each(|(row, change)| row.push(change));
        }
    }
    let found = found(&changes);
    Ok(Some((changes, found)))
}

fn found(changes: &Changes) -> Vec<Scoped> {
    let (mut same, mut cheaper, mut findings) = (Vec::new(), Vec::new(), Vec::new());
    // What costs more GPUs, or more of anything in any row, is not free.
    let mut free = !changes.unlike_gpus;
    let (a, b) = changes.ends();
    for (at, (name, show)) in changes.columns.iter().enumerate() {
        let points: Vec<(usize, f64)> =
            changes.rows.iter().enumerate().filter_map(|(row, cells)| Some((row, cells[at]?))).collect();
        // What most rows cannot tell is not said of the column.
        if 2 * points.len() <= changes.expected[at] {
            continue;
        }
        let figure = |(row, value): (usize, f64)| Figure {
            value,
            show: show.clone(),
            from: Source::Changes { row, column: at },
        };
        let accuracy = ACCURACY.contains(&name.as_str());
        let bound = match (accuracy, show.unit.as_str()) {
            (true, _) => SAME_ACCURACY,
            (false, "points") => SAME_LOAD,
            _ => SAME,
        };
        let Some(least) = points.iter().copied().min_by(|x, y| x.1.abs().total_cmp(&y.1.abs())) else { continue };
        let Some(most) = points.iter().copied().max_by(|x, y| x.1.abs().total_cmp(&y.1.abs())) else { continue };
        let (least, most) = (figure(least), figure(most));
        let values: Vec<f64> = points.iter().map(|p| p.1).collect();
        free &= !COST.contains(&name.as_str()) || values.iter().all(|v| *v <= bound);
        if unchanged(&values, bound, accuracy) {
            same.push(name.clone());
            findings.push(Finding::Unchanged { column: name.clone(), a: a.clone(), b: b.clone(), most });
        } else if values.iter().all(|v| *v > bound) || values.iter().all(|v| *v < -bound) {
            let rises = values[0] > 0.0;
            if !rises {
                cheaper.push(name.clone());
            }
            findings.push(Finding::Changed { column: name.clone(), a: a.clone(), b: b.clone(), rises, least, most });
        }
    }
    cheaper.retain(|name| COST.contains(&name.as_str()));
    let accuracy = same.into_iter().find(|name| ACCURACY.contains(&name.as_str()));
    if let (Some(accuracy), false, true) = (accuracy, cheaper.is_empty(), free) {
        findings.push(Finding::CostFree { accuracy, a, b, cheaper });
    }
    findings.into_iter().map(|finding| Scoped { scope: None, finding }).collect()
}

/// Within the bound in every row. An accuracy fluctuates more from training to training than from version to version: it also
/// counts as unchanged if its differences have no direction, half of them within the bound and none far beyond.
fn unchanged(values: &[f64], bound: f64, accuracy: bool) -> bool {
    let most = values.iter().map(|v| v.abs()).fold(0.0, f64::max);
    most <= bound || accuracy && values.len() >= 3 && median(values).abs() <= bound && most <= 3.0 * bound
}
