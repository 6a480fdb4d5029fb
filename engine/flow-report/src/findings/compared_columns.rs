//! What repetitions say about the change of a column: that it is decided, undecided, or too small to matter.

use flow_core::Interval;
use flow_core::stats::t_quantile;

use super::{Figure, FigureMeaning, Finding, SectionFigures, Trainings};
use crate::bounds::{SAME, SAME_SHARE, SIGNIFICANT};
use crate::format::Format;
use crate::significance::{TestResult, more_runs, test};
use crate::table::Table;

/// A column with its changes.
pub(super) struct ComparedColumn {
    pub(super) name: String,
    /// Its columns of the one version and of the other.
    pub(super) at: [usize; 2],
    pub(super) show: Format,
    /// Whether changes are ratios minus 1, not differences.
    pub(super) relative: bool,
    /// The value that small changes are a share of.
    pub(super) scale: f64,
    /// Changes from one version to the other, by row.
    pub(super) changes: Vec<Option<f64>>,
    /// The number of rows that should have a change: all but those that ran out of memory in both versions or did not
    /// run.
    pub(super) expected: usize,
    /// Changes from each repetition to the same one of the other version, if every row has several.
    pub(super) repetitions: Vec<f64>,
    /// An estimate of its row's change from each repetition. Their mean is the mean of the rows.
    pub(super) estimates: Vec<f64>,
    /// The same estimates by row.
    pub(super) by_row: Vec<Option<Vec<f64>>>,
    /// A model learns it, and no repetition shows how its trainings differ.
    pub(super) once: bool,
    /// The repetitions of a row gave exactly the same numbers in both versions.
    pub(super) identical: bool,
}

impl ComparedColumn {
    /// The largest change that still counts as none.
    pub(super) fn none_up_to(&self) -> f64 {
        if self.show.unit == "points" { SAME_SHARE } else { SAME * self.scale }
    }

    /// A figure of its change, shown below the findings.
    pub(super) fn figure(&self, ledger: &mut SectionFigures<'_>, what: &str, value: f64) -> Figure {
        ledger.computed(None, FigureMeaning::of(what, &self.name), value, self.show.clone())
    }
}

/// The two cells of the only row, tested; nothing if there are more rows, or one of the cells was not repeated.
pub(super) fn only_pair(table: &Table, column: &ComparedColumn, rows: &[(usize, f64)]) -> Option<TestResult> {
    let [(row, _)] = rows else { return None };
    of_row(table, column, *row)
}

/// The two cells of a row, tested.
pub(super) fn of_row(table: &Table, column: &ComparedColumn, row: usize) -> Option<TestResult> {
    let [a, b] = column.at.map(|at| &table.body[row].cells[at]);
    test(a, b)
}

/// A change of the only row that its repetitions do not tell from none.
pub(super) fn untold_pair(
    ledger: &mut SectionFigures<'_>,
    column: &ComparedColumn,
    rows: &[(usize, f64)],
    (a, b): (String, String),
) -> Option<Finding> {
    let (tested, mean) = (only_pair(ledger.table, column, rows)?, rows.first()?.1);
    if tested.is_significant(1) || column.show.reads_zero(mean) {
        return None;
    }
    if let Some(same) = same_within(ledger, column, (a.clone(), b.clone())) {
        return Some(same);
    }
    let half = mean.abs() * tested.half();
    let low = column.figure(ledger, "low_change", mean - half);
    let high = column.figure(ledger, "high_change", mean + half);
    let mean = column.figure(ledger, "mean_change", mean);
    Some(Finding::Undecided { column: column.name.clone(), a, b, mean, low, high, more: tested.more(1) })
}

/// A mean change that the repetitions do not distinguish from none.
pub(super) fn undecided(
    ledger: &mut SectionFigures<'_>,
    column: &ComparedColumn,
    rows: &[(usize, f64)],
    (a, b): (String, String),
) -> Option<Finding> {
    if rows.iter().all(|(_, change)| column.show.reads_zero(*change)) {
        return None;
    }
    let (mean, [low, high], more) = match mean_change(&column.estimates, column.relative) {
        Some((mean, ends)) => (mean, ends, more_of(mean, column)),
        None => unpaired(ledger.table, column, rows)?,
    };
    if !(low..=high).contains(&0.0) {
        return None;
    }
    if let Some(same) = same_within(ledger, column, (a.clone(), b.clone())) {
        return Some(same);
    }
    let mean = column.figure(ledger, "mean_change", mean);
    let low = column.figure(ledger, "low_change", low);
    let high = column.figure(ledger, "high_change", high);
    Some(Finding::Undecided { column: column.name.clone(), a, b, mean, low, high, more })
}

/// Whether a column is the same in both versions, judged by its repetitions.
pub(super) fn same_within(
    ledger: &mut SectionFigures<'_>,
    column: &ComparedColumn,
    (a, b): (String, String),
) -> Option<Finding> {
    let interval = Interval::over(column.estimates.iter().copied());
    let (low, high) = (interval.mean - interval.half?, interval.mean + interval.half?);
    let bound = column.none_up_to();
    if low < -bound || high > bound {
        return None;
    }
    let low = column.figure(ledger, "low_change", low);
    let high = column.figure(ledger, "high_change", high);
    Some(Finding::SameLearned { column: column.name.clone(), a, b, low, high })
}

/// The change of a learned column with one training per row, judged by trainings that were repeated for another
/// purpose.
pub(super) fn by_others(
    ledger: &mut SectionFigures<'_>,
    column: &ComparedColumn,
    rows: &[(usize, f64)],
    trainings: &Trainings<'_>,
    (a, b): (String, String),
) -> Option<Finding> {
    let (sd, freedom) = trainings.spread(&column.name, column.relative)?;
    let n = rows.len() as f64;
    let mean = rows.iter().map(|(_, change)| change).sum::<f64>() / n;
    let half = t_quantile(0.05, f64::from(freedom)) * sd * (2.0 / n).sqrt();
    let same = mean.abs() + half <= column.none_up_to();
    let low = column.figure(ledger, "low_change", mean - half);
    let high = column.figure(ledger, "high_change", mean + half);
    if same {
        return Some(Finding::SameLearned { column: column.name.clone(), a, b, low, high });
    }
    let mean = column.figure(ledger, "mean_change", mean);
    Some(Finding::LearnedChange { column: column.name.clone(), a, b, mean, low, high })
}

/// How many more runs of each version would confirm this mean change.
fn more_of(mean: f64, column: &ComparedColumn) -> Option<u32> {
    let n = column.estimates.len() as f64;
    let runs = column.by_row.iter().flatten().map(|row| row.len() as u32).min()?;
    let half = Interval::over(column.estimates.iter().copied()).half?;
    let sd = half / t_quantile(SIGNIFICANT, n - 1.0) * n.sqrt();
    // One more run adds as many estimates as each run gave so far.
    let of_each = n / f64::from(runs);
    let freedom = |runs: u32| (f64::from(runs) * of_each) as u32 - 1;
    more_runs(mean, sd / of_each.sqrt(), runs, SIGNIFICANT, freedom)
}

/// The mean change over rows whose repetitions do not pair, because some are missing: its confidence interval, and how
/// many more runs of each would confirm it.
fn unpaired(table: &Table, column: &ComparedColumn, rows: &[(usize, f64)]) -> Option<(f64, [f64; 2], Option<u32>)> {
    let n = rows.len() as f64;
    let (mut sum, mut squares, mut runs) = (0.0, 0.0, u32::MAX);
    for (row, change) in rows {
        let tested = of_row(table, column, *row)?;
        sum += change;
        squares += (change * tested.half()).powi(2);
        runs = runs.min(tested.runs);
    }
    let (mean, half) = (sum / n, squares.sqrt() / n);
    let freedom = |runs: u32| 2 * runs - 2;
    let scatter = half / t_quantile(SIGNIFICANT, f64::from(freedom(runs))) * f64::from(runs).sqrt();
    Some((mean, [mean - half, mean + half], more_runs(mean, scatter, runs, SIGNIFICANT, freedom)))
}

/// The mean of changes and the ends of its confidence interval. For relative changes, the interval is that of the
/// ratio's logarithm (delta method), because nothing can fall by more than 100%.
pub(super) fn mean_change(changes: &[f64], relative: bool) -> Option<(f64, [f64; 2])> {
    let Interval { mean, half } = Interval::over(changes.iter().copied());
    let half = half?;
    let ratio = 1.0 + mean;
    let end = |half: f64| if relative && ratio > 0.0 { ratio * (half / ratio).exp() - 1.0 } else { mean + half };
    Some((mean, [end(-half), end(half)]))
}
