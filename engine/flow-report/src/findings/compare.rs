//! Compares two versions: how every measured column changes from one to the other, and what follows from that.

use flow_core::Interval;
use flow_core::reason::BuiltinFault;
use flow_core::stats::median;
use serde::{Deserialize, Serialize};

use super::change::{Change, change_of};
use super::compared_columns::{
    ComparedColumn, by_others, mean_change, of_row, only_pair, same_within, undecided, untold_pair,
};
use super::{Figure, FigureMeaning, Finding, ScopedFinding, SectionFigures, Source, Trainings, TrendEvidence};
use crate::bounds::SIGNIFICANT;
use crate::columns::point;
use crate::format::Format;
use crate::significance::{TestResult, repeats_itself, sign_test};
use crate::table::{EPOCH, MACHINE, Note, Reading, Row, Table, refine};

/// From this many rows on, changes of the same sign are not chance: 2 · 0.5⁶ is 3%.
const ROWS: usize = 6;
/// Columns that a training learns and that show how well a model works.
const ACCURACY: [&str; 4] = ["top1", "accuracy", "top5", "error_rate"];
/// A time that falls by this share or more is also told as a speed.
const MUCH_LESS: f64 = -1.0 / 3.0;
/// Columns that are costs.
const COST: [&str; 5] = ["epoch_time", "iteration_time", "cpu_util", "gpu_memory", "energy"];

/// The changes of columns from one value of the split to the other.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Changes {
    /// The axis of the split.
    pub(crate) axis: String,
    /// From this value of the axis …
    pub(crate) a: String,
    /// … to this one.
    pub(crate) b: String,
    /// Names of the columns, with the format of their changes.
    pub(crate) columns: Vec<(String, Format)>,
    /// Changes by row of the table, then by column.
    pub(crate) rows: Vec<Vec<Option<f64>>>,
}

/// The values that repetitions measured for both versions.
type Pairs = Vec<(f64, f64)>;

impl Changes {
    /// The two values, as they read without their axis.
    pub(crate) fn ends(&self) -> (String, String) {
        (point(&self.axis, &self.a), point(&self.axis, &self.b))
    }

    /// Columns that change by differences, because they have no ratios.
    pub(crate) fn differences(&self) -> impl Iterator<Item = &str> {
        let is_one = |show: &Format| !matches!(show.unit.as_str(), "%" | "×" | "points");
        self.columns.iter().filter(move |(_, show)| is_one(show)).map(|(name, _)| name.as_str())
    }
}

/// Shows the compared columns with enough digits to recompute their changes.
pub(crate) fn readable(table: &mut Table) {
    let Some((_, [a, b])) = table.split.as_ref().map(|(axis, values)| (axis, values.as_slice())) else { return };
    let (a, b) = (a.clone(), b.clone());
    let of_a = |column: &&crate::table::Column| column.derived.is_none() && column.part.as_ref() == Some(&a);
    let names: Vec<String> = table.columns.iter().filter(of_a).map(|column| column.name.clone()).collect();
    for name in names {
        let at = [&a, &b].map(|part| table.find(&name, None, Some(part)));
        let [Some(at_a), Some(at_b)] = at else { continue };
        let Change { show, of, pairs, .. } = change_of(table, at_a, at_b);
        refine(table, &name, &[&Reading { show, pairs: pairs.into_iter().flatten().collect(), of }]);
    }
}

/// Compares the two values of the split by `axis`.
pub(crate) fn compare(
    ledger: &mut SectionFigures<'_>,
    axis: &str,
    trainings: &Trainings<'_>,
) -> Result<Option<(Changes, Vec<ScopedFinding>)>, BuiltinFault> {
    let table = ledger.table;
    let Some((split, values)) = &table.split else {
        return Err(BuiltinFault::CompareWithoutSplit { axis: axis.to_owned(), step: table.from.clone() });
    };
    if split != axis {
        let (axis, step, split) = (axis.to_owned(), table.from.clone(), split.clone());
        return Err(BuiltinFault::CompareOtherSplit { axis, step, split });
    }
    let [a, b] = values.as_slice() else {
        return Ok(None);
    };
    let mut all: Vec<ComparedColumn> = Vec::new();
    let mut unlike_gpus = false;
    for (at_a, column) in table.columns.iter().enumerate() {
        if column.derived.is_some() || column.part.as_ref() != Some(a) {
            continue;
        }
        // The same numbers under another label add nothing.
        if all.iter().any(|known| known.name == column.name) {
            continue;
        }
        let Some(at_b) = table.find(&column.name, None, Some(b)) else { continue };
        let Change { show, of, relative, scale, pairs } = change_of(table, at_a, at_b);
        let change = |a: f64, b: f64| Some(of(a, b)).filter(|change| change.is_finite());
        let changes: Vec<Option<f64>> = pairs.into_iter().map(|pair| pair.and_then(|(a, b)| change(a, b))).collect();
        if changes.iter().all(Option::is_none) {
            continue;
        }
        let nothing = |row: &&Row| row.cells[at_a].has_no_measurement() && row.cells[at_b].has_no_measurement();
        let unlike = |row: &Row| matches!((row.cells[at_a].gpus, row.cells[at_b].gpus), (Some(a), Some(b)) if a != b);
        unlike_gpus |= table.body.iter().any(unlike);
        let identical = |row: &Row| {
            let (a, b) = (&row.cells[at_a], &row.cells[at_b]);
            repeats_itself(a) && repeats_itself(b) && a.number() != b.number()
        };
        let paired = |row: &Row| {
            let (a, b) = (&row.cells[at_a].values, &row.cells[at_b].values);
            let pairs = a.iter().copied().zip(b.iter().copied()).filter(|(a, b)| change(*a, *b).is_some());
            let pairs: Pairs = pairs.collect();
            (a.len() == b.len() && pairs.len() >= 2 && !identical(row)).then_some(pairs)
        };
        let pairs = table.body.iter().zip(&changes).map(|(row, change)| Some(((*change)?, paired(row)?)));
        let pairs: Vec<Option<(f64, Pairs)>> = pairs.collect();
        let by_row: Vec<Option<Vec<f64>>> =
            pairs.iter().map(|row| row.as_ref().map(|(change, pairs)| around(*change, pairs, relative))).collect();
        // Seeds of one simulation have the same jobs in every row, so more rows say nothing new about them. Trainings with
        // one seed may have the same data and the same start in every row, and what they learn depends on both.
        let of_one = table.body.iter().all(|row| row.cells[at_a].of.len() == 1);
        let is_axis = |note: &Note| matches!(note, Note::Mean { over, .. } if !over.is_empty());
        let seeds = of_one || !column.depends_on_load() && table.notes.iter().any(is_axis);
        let of_all = |by_row: Vec<Option<Vec<f64>>>| {
            let compared = by_row.into_iter().zip(&changes).filter(|(_, change)| change.is_some());
            let rows: Vec<Vec<f64>> = compared.map(|(pairs, _)| pairs).collect::<Option<_>>().unwrap_or_default();
            if seeds { means(&rows) } else { rows.concat() }
        };
        let each = |(_, pairs): &(f64, Pairs)| pairs.iter().map(|(a, b)| of(*a, *b)).collect();
        let repetitions = of_all(pairs.iter().map(|row| row.as_ref().map(each)).collect());
        all.push(ComparedColumn {
            name: column.name.clone(),
            at: [at_a, at_b],
            show,
            relative,
            scale,
            expected: table.body.len() - table.body.iter().filter(nothing).count(),
            once: repetitions.is_empty() && trainings.teach(&column.name),
            repetitions,
            estimates: of_all(by_row.clone()),
            by_row,
            identical: table.body.iter().any(identical),
            changes,
        });
    }
    let changes = Changes {
        axis: axis.to_owned(),
        a: a.clone(),
        b: b.clone(),
        columns: all.iter().map(|column| (column.name.clone(), column.show.clone())).collect(),
        rows: (0..table.body.len()).map(|row| all.iter().map(|column| column.changes[row]).collect()).collect(),
    };
    let found = found(ledger, &changes, &all, unlike_gpus, trainings);
    Ok(Some((changes, found.into_iter().map(|finding| ScopedFinding { scope: None, finding }).collect())))
}

/// An estimate of the change of a row from each pair. The mean of the estimates is that change. For a ratio of means,
/// the scatter is the distance of the pairs from the line through 0 with this ratio as its slope (W. G. Cochran,
/// Sampling Techniques, 1977, 6.3), because the ratios of the pairs have another mean.
fn around(change: f64, pairs: &[(f64, f64)], relative: bool) -> Vec<f64> {
    let mean = |of: fn(&(f64, f64)) -> f64| pairs.iter().map(of).sum::<f64>() / pairs.len() as f64;
    let (a, b) = (mean(|pair| pair.0), mean(|pair| pair.1));
    let off = |(x, y): &(f64, f64)| if relative { (y - b / a * x) / a } else { (y - x) - (b - a) };
    pairs.iter().map(|pair| change + off(pair)).collect()
}

/// The mean of each place over the rows, for places that all rows have.
fn means(rows: &[Vec<f64>]) -> Vec<f64> {
    let places = rows.iter().map(Vec::len).min().unwrap_or(0);
    (0..places).map(|at| rows.iter().map(|row| row[at]).sum::<f64>() / rows.len() as f64).collect()
}

fn found(
    ledger: &mut SectionFigures<'_>,
    of: &Changes,
    all: &[ComparedColumn],
    unlike_gpus: bool,
    trainings: &Trainings<'_>,
) -> Vec<Finding> {
    let (mut same, mut cheaper, mut findings, mut once) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    // A version that needs more GPUs, or more of any cost in any row, is not free.
    let mut free = !unlike_gpus;
    let ends = || of.ends();
    for (at, column) in all.iter().enumerate() {
        let rows: Vec<(usize, f64)> =
            column.changes.iter().enumerate().filter_map(|(row, change)| Some((row, (*change)?))).collect();
        // A column is left out if its change is known in at most half of the rows. The only one of two rows is told,
        // because its sentence is not about every row.
        let is_one_of_two = rows.len() == 1 && column.expected == 2;
        if 2 * rows.len() <= column.expected && !is_one_of_two {
            continue;
        }
        let learned = trainings.teach(&column.name) && !column.once;
        if column.once {
            if let Some(found) = by_others(ledger, column, &rows, trainings, ends()) {
                same.extend(no_worse(&found));
                findings.push(found);
                continue;
            }
            // Two machines are compared in every column. Without repetitions, only a sign test decides.
            let single = |row: usize| column.at.iter().all(|at| ledger.table.body[row].cells[*at].of.len() <= 1);
            if of.axis != MACHINE || !rows.iter().all(|(row, _)| single(*row)) {
                once.push(column);
                continue;
            }
        }
        let bound = column.none_up_to();
        let cost = COST.contains(&column.name.as_str());
        free &= !cost || rows.iter().all(|(_, change)| *change <= bound);
        // The numbers are the same for a reader, and no test contradicts that.
        let is_small = rows.iter().all(|(_, change)| change.abs() <= bound);
        let is_same = |found: &Finding| match found {
            Finding::Changed { borne: TrendEvidence::Two | TrendEvidence::Few | TrendEvidence::OneRow, .. } => is_small,
            Finding::Changed { borne: TrendEvidence::OneRun { .. }, .. } => is_small && column.once,
            _ => false,
        };
        let moved = changed(ledger, at, column, &rows, ends(), learned).filter(|found| !is_same(found));
        if let Some(changed) = moved {
            if let Finding::Changed { rises, borne, .. } = &changed {
                // A small change in a few rows may be chance.
                let sure = matches!(
                    borne,
                    TrendEvidence::Tested { .. } | TrendEvidence::Most { .. } | TrendEvidence::Pair { .. }
                ) || rows.iter().all(|(_, change)| change.abs() > bound);
                free &= !(cost && *rises && sure);
                if cost && !rises && sure {
                    cheaper.push(column.name.clone());
                }
            }
            findings.push(changed);
        } else if let Some(found) = untold_pair(ledger, column, &rows, ends()) {
            findings.push(found);
        } else if let Some(changed) = changed_at(ledger.table, at, column, &rows, ends()) {
            free &= !(cost && matches!(changed, Finding::ChangedAt { rises: true, .. }));
            findings.push(changed);
        } else if learned {
            let found = same_within(ledger, column, ends());
            same.extend(found.as_ref().and_then(no_worse));
            let found = found.or_else(|| changed(ledger, at, column, &rows, ends(), false));
            findings.extend(found.or_else(|| undecided(ledger, column, &rows, ends())));
        } else if let Some(within) = undecided(ledger, column, &rows, ends()) {
            findings.push(within);
        } else if let Some(most) = rows.iter().copied().max_by(|x, y| x.1.abs().total_cmp(&y.1.abs())) {
            let (a, b) = ends();
            let same_way = |change: f64| column.show.reads_zero(change) || (change > 0.0) == (most.1 > 0.0);
            let one_way = rows.len() > 1 && rows.iter().all(|(_, change)| same_way(*change));
            let mixed = !one_way && rows.len() > 1 && most.1.abs() > bound;
            let back = |x: &(usize, f64), y: &(usize, f64)| (x.1 * most.1.signum()).total_cmp(&(y.1 * most.1.signum()));
            let opposite = rows.iter().copied().min_by(back).filter(|_| mixed).map(|least| figure(column, at, least));
            let (column, most) = (column.name.clone(), figure(column, at, most));
            findings.push(Finding::Unchanged { column, a, b, most, one_way, opposite });
        }
    }
    let (a, b) = ends();
    if !once.is_empty() {
        let identical = once.iter().any(|column| column.identical);
        let columns = once.into_iter().map(|column| column.name.clone()).collect();
        findings.push(Finding::OneTraining { columns, a: a.clone(), b: b.clone(), identical });
    }
    let accuracy = same.into_iter().find(|(name, _)| ACCURACY.contains(&name.as_str()));
    if let (Some((accuracy, better)), false, true) = (accuracy, cheaper.is_empty(), free) {
        findings.push(Finding::CostFree { accuracy, a, b, cheaper, better });
    }
    findings
}

/// The column if it is learned as well as before or slightly better, and which of the two.
fn no_worse(finding: &Finding) -> Option<(String, bool)> {
    let Finding::SameLearned { column, low, high, .. } = finding else { return None };
    let better = is_significant(low, high) && (low.value > 0.0) == (column != "error_rate");
    (better || !is_significant(low, high)).then(|| (column.clone(), better))
}

/// Whether the confidence interval of a change excludes 0.
pub(super) fn is_significant(low: &Figure, high: &Figure) -> bool {
    low.value > 0.0 || high.value < 0.0
}

/// A change as the table of changes shows it.
fn figure(column: &ComparedColumn, at: usize, (row, value): (usize, f64)) -> Figure {
    Figure { value, show: column.show.clone(), from: Source::Changes { row, column: at } }
}

/// A rise or fall in every row, or in so many that a test confirms it. With too few rows for a test, the confidence
/// interval of repetitions must be on one side of 0; with `one_sided`, also that of the rows.
fn changed(
    ledger: &mut SectionFigures<'_>,
    at: usize,
    column: &ComparedColumn,
    rows: &[(usize, f64)],
    (a, b): (String, String),
    one_sided: bool,
) -> Option<Finding> {
    // A change that reads as zero does not count.
    let signs = |changes: &mut dyn Iterator<Item = f64>| {
        changes
            .filter(|change| !column.show.reads_zero(*change))
            .fold((0, 0), |(rises, falls), change| if change > 0.0 { (rises + 1, falls) } else { (rises, falls + 1) })
    };
    let (rising, falling) = signs(&mut rows.iter().map(|(_, change)| *change));
    let rises = rising > falling;
    let some = rising.max(falling);
    let every = some == rows.len();
    // With few rows, repetitions say more.
    let repeated = rows.len() < ROWS && !column.repetitions.is_empty();
    let pairs: Vec<f64> =
        if repeated { column.repetitions.clone() } else { rows.iter().map(|(_, change)| *change).collect() };
    let (up, down) = signs(&mut pairs.iter().copied());
    let p = sign_test(up, down);
    let significant = p <= SIGNIFICANT && (up > down) == rises;
    let of = |what| FigureMeaning::of(what, &column.name);
    let test = |ledger: &mut SectionFigures<'_>| ledger.computed(None, of("sign_test"), p, Format::p_value(p));
    // Epochs do not show how runs differ.
    let one_run = ledger.table.rows.iter().any(|axis| axis == EPOCH);
    let median = median(rows.iter().map(|(_, change)| *change).collect())?;
    let pair = only_pair(ledger.table, column, rows);
    if pair.as_ref().is_some_and(|tested| !tested.is_significant(1)) {
        return None;
    }
    // Repetitions that do not pair are tested row by row, if every row has some.
    let tested: Option<Vec<TestResult>> = rows.iter().map(|(row, _)| of_row(ledger.table, column, *row)).collect();
    let untold = tested.is_some_and(|tested| tested.iter().any(|tested| !tested.is_significant(rows.len())));
    if !significant && column.repetitions.is_empty() && untold {
        return None;
    }
    let borne = match (every, significant, &pair) {
        (true, _, Some(tested)) => {
            let change = rows.first()?.1;
            // A machine that is slow for a while changes both numbers of a pair by the same factor.
            let of_ratio = mean_change(&column.estimates, column.relative).map(|(_, ends)| ends);
            let half = change.abs() * tested.half();
            let ends = of_ratio.filter(|[low, high]| *low > 0.0 || *high < 0.0);
            let [low, high] = ends.unwrap_or([change - half, change + half]);
            let (low, high) = (column.figure(ledger, "low_change", low), column.figure(ledger, "high_change", high));
            let is_time = ledger.table.columns.iter().any(|of| of.name == column.name && of.is_time());
            let speed = (is_time && change <= MUCH_LESS).then(|| 1.0 / (1.0 + change));
            TrendEvidence::Pair {
                paired: tested.paired,
                p: ledger.computed(None, of("pair_test"), tested.p, Format::p_value(tested.p)),
                ends: (low, high),
                speed: speed.map(|times| ledger.computed(None, of("speed"), times, Format::times())),
            }
        }
        (true, _, None) if pairs.len() == 1 && !column.once => TrendEvidence::OneRow,
        (true, _, _) | (_, true, _) if one_run || column.once && !significant => TrendEvidence::OneRun {
            some: ledger.count(of("rows_changed"), some),
            rows: ledger.count(of("rows"), rows.len()),
            median: column.figure(ledger, "median_change", median),
        },
        (true, true, _) => TrendEvidence::Tested { pairs: ledger.count(of("pairs"), up + down), p: test(ledger) },
        // These are enough pairs for a test, and it finds no change.
        (true, false, _) if pairs.len() >= ROWS => return None,
        // Two points are not a sample of a sweep.
        (true, false, _) if !repeated && rows.len() == 2 => TrendEvidence::Two,
        (true, false, _) => {
            if one_sided || repeated {
                let changes = if repeated { &column.estimates } else { &pairs };
                let (_, [low, high]) = mean_change(changes, column.relative)?;
                if (low..=high).contains(&0.0) {
                    return None;
                }
            }
            TrendEvidence::Few
        }
        (false, true, _) if !repeated => TrendEvidence::Most {
            some: ledger.count(of("rows_changed"), some),
            rows: ledger.count(of("rows"), rows.len()),
            median: column.figure(ledger, "median_change", median),
            p: test(ledger),
        },
        (false, _, _) => return None,
    };
    let of_sign =
        rows.iter().copied().filter(|(_, change)| (*change > 0.0) == rises && !column.show.reads_zero(*change));
    let size = |x: &(usize, f64), y: &(usize, f64)| x.1.abs().total_cmp(&y.1.abs());
    let min = figure(column, at, of_sign.clone().min_by(size)?);
    let max = figure(column, at, of_sign.max_by(size)?);
    Some(Finding::Changed { column: column.name.clone(), a, b, rises, min, max, borne })
}

/// A rise or fall in some rows, confirmed by their repetitions, while no change is confirmed in the others.
fn changed_at(
    table: &Table,
    at: usize,
    column: &ComparedColumn,
    rows: &[(usize, f64)],
    (a, b): (String, String),
) -> Option<Finding> {
    let [axis] = table.rows.as_slice() else { return None };
    let told = |(row, change): &(usize, f64)| {
        let Interval { mean, half } = Interval::of_many(column.by_row[*row].iter().flatten().copied(), rows.len());
        half.is_some_and(|half| mean.abs() > half) && !column.show.reads_zero(*change)
    };
    let told: Vec<(usize, f64)> = rows.iter().copied().filter(told).collect();
    let rises = told.first()?.1 > 0.0;
    if told.iter().any(|(_, change)| (*change > 0.0) != rises) {
        return None;
    }
    let place = |row: usize| Some(table.body[row].cells.first()?.text()?.to_owned());
    let places = told.iter().map(|change| Some((place(change.0)?, figure(column, at, *change))));
    let places = places.collect::<Option<Vec<_>>>()?;
    Some(Finding::ChangedAt { column: column.name.clone(), a, b, rises, axis: axis.clone(), places })
}
