//! Whether repeated measurements differ along the rows by more than noise: an analysis of variance for each column of
//! means.

use flow_core::stats::f_tail;

use super::{Figure, FigureMeaning, Finding, ScopedFinding, SectionFigures};
use crate::bounds::SIGNIFICANT;
use crate::format::Format;
use crate::significance::last_digit;
use crate::table::{Content, Curve, Spread};

/// A column along one curve.
struct TestedColumn {
    scope: Option<String>,
    column: String,
    min: Figure,
    most: Figure,
    p: f64,
    paired: bool,
}

/// Findings about means over repetitions. The p-values of several tests are adjusted by S. Holm's method (1979), so
/// that all findings hold together.
pub(crate) fn repeated(ledger: &mut SectionFigures<'_>) -> Vec<ScopedFinding> {
    let table = ledger.table;
    let Some(axis) = table.rows.last().filter(|axis| *axis != "epoch") else { return Vec::new() };
    let mut all = Vec::new();
    for curve in Curve::all(table) {
        let own = |(_, column): &(usize, &crate::table::Column)| {
            !column.key && column.derived.is_none() && column.part == curve.part
        };
        for (at, column) in table.columns.iter().enumerate().filter(own) {
            let Some((min, most, (p, paired))) = tested(ledger, &curve, at) else { continue };
            all.push(TestedColumn { scope: curve.scope.clone(), column: column.name.clone(), min, most, p, paired });
        }
    }
    let adjusted = holm(&all.iter().map(|tested| tested.p).collect::<Vec<_>>());
    let said = |(TestedColumn { scope, column, min, most: max, paired, .. }, p): (TestedColumn, f64)| {
        let what = FigureMeaning::new("f_test", [("column", &*column), ("axis", &*axis)]);
        let differs = p <= SIGNIFICANT;
        let p = ledger.computed(scope.as_deref(), what, p, Format::p_value(p));
        ScopedFinding { scope, finding: Finding::Repeated { column, axis: axis.clone(), differs, min, max, p, paired } }
    };
    all.into_iter().zip(adjusted).map(said).collect()
}

/// Whether a finding describes the trend of a time along the rows although repetitions show only noise.
pub(crate) fn is_noise(one: &ScopedFinding, repeated: &[ScopedFinding]) -> bool {
    let (Finding::Flattens { time, .. }
    | Finding::NoFall { time, .. }
    | Finding::StillFalling { time, .. }
    | Finding::Uneven { time, .. }) = &one.finding
    else {
        return false;
    };
    let says_so = |other: &ScopedFinding| match &other.finding {
        Finding::Repeated { column, differs: false, .. } => other.scope == one.scope && column == time,
        _ => false,
    };
    repeated.iter().any(says_so)
}

/// The smallest and the largest mean of a column, the p-value for all means being equal, and whether the test was
/// paired. `None` unless every row is repeated, all on the same number of GPUs.
fn tested(ledger: &SectionFigures<'_>, curve: &Curve, column: usize) -> Option<(Figure, Figure, (f64, bool))> {
    let (mut groups, mut gpus) = (Vec::new(), Vec::new());
    for row in &curve.rows {
        let cell = &ledger.table.body[*row].cells[column];
        match &cell.content {
            Content::Number { value, spread: Some(Spread::Sd(sd, n)), .. } if *n >= 2 => {
                groups.push((*row, *value, *sd, f64::from(*n)));
                gpus.push(cell.gpus);
            }
            Content::Number { .. } => return None,
            _ => {}
        }
    }
    if groups.len() < 2 || gpus.iter().any(|of| *of != gpus[0]) {
        return None;
    }
    let all: f64 = groups.iter().map(|(.., n)| n).sum();
    let mean = groups.iter().map(|(_, value, _, n)| n * value).sum::<f64>() / all;
    let between: f64 = groups.iter().map(|(_, value, _, n)| n * (value - mean).powi(2)).sum();
    let within: f64 = groups.iter().map(|(.., sd, n)| (n - 1.0) * sd.powi(2)).sum();
    let (above, below) = (groups.len() as f64 - 1.0, all - groups.len() as f64);
    // The share that a seed adds to all rows is not noise (R. A. Fisher's randomized blocks). For two rows this is the
    // paired t-test.
    let values = || groups.iter().map(|(row, ..)| &ledger.table.body[*row].cells[column].values);
    let seeds = seeds(values());
    let paired = seeds.is_some();
    let scatters = within > 0.0;
    let (within, below) = match seeds {
        Some(means) => {
            let of_seeds = means.iter().map(|of| (of - mean).powi(2)).sum::<f64>() * groups.len() as f64;
            (within - of_seeds, below - (means.len() as f64 - 1.0))
        }
        None => (within, below),
    };
    // Rounding errors may leave a tiny remainder instead of zero.
    let within = if within > 1e-12 * between.max(f64::MIN_POSITIVE) { within } else { 0.0 };
    // Printed digits are rounded, which alone gives each value at least this variance.
    let rounding = if scatters { last_digit(values().flatten()).powi(2) / 12.0 } else { 0.0 };
    let noise = (within / below).max(rounding);
    let p = match noise > 0.0 {
        true => f_tail((between / above) / noise, above, below),
        // All seeds show the same change. If there is no scatter at all, the numbers are counts without noise.
        false if scatters && between > 0.0 => 0.0,
        false => return None,
    };
    let by = |a: &&(usize, f64, f64, f64), b: &&(usize, f64, f64, f64)| a.1.total_cmp(&b.1);
    let (least, most) = (groups.iter().min_by(by)?, groups.iter().max_by(by)?);
    Some((ledger.cell(least.0, column)?, ledger.cell(most.0, column)?, (p, paired)))
}

/// The mean of each seed over the rows; `None` if the values do not pair.
fn seeds<'a>(rows: impl Iterator<Item = &'a Vec<f64>>) -> Option<Vec<f64>> {
    let rows: Vec<&Vec<f64>> = rows.collect();
    let seeds = rows.first()?.len();
    let pair = seeds >= 2 && rows.iter().all(|values| values.len() == seeds);
    let mean = |at: usize| rows.iter().map(|values| values[at]).sum::<f64>() / rows.len() as f64;
    pair.then(|| (0..seeds).map(mean).collect())
}

/// Adjusted p-values of several tests: the chance that any of those below a bound is wrong is at most the bound.
fn holm(p: &[f64]) -> Vec<f64> {
    let mut order: Vec<usize> = (0..p.len()).collect();
    order.sort_by(|a, b| p[*a].total_cmp(&p[*b]));
    let mut adjusted = vec![1.0; p.len()];
    let mut least = 0.0_f64;
    for (rank, at) in order.into_iter().enumerate() {
        least = least.max(((p.len() - rank) as f64 * p[at]).min(1.0));
        adjusted[at] = least;
    }
    adjusted
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn several_tests_are_corrected_as_holm_does() {
        let adjusted = holm(&[0.01, 0.04, 0.03, 0.005]);
        let expected = [0.03, 0.06, 0.06, 0.02];
        assert!(adjusted.iter().zip(expected).all(|(a, b)| (a - b).abs() < 1e-12), "{adjusted:?}");
    }
}
