//! The axis of a sweep on which a column depends most, judged by its means over the other axes.

use indexmap::IndexMap;

use super::{Figure, FigureMeaning, Finding, ScopedFinding, SectionFigures};
use crate::bounds::SAME_SHARE;
use crate::columns::point;
use crate::format::Format;
use crate::table::{Content, MACHINE};

/// An axis, with the mean of the column at each of its values.
struct Axis {
    name: String,
    means: Vec<(String, f64)>,
}

impl Axis {
    fn lowest(&self) -> Option<&(String, f64)> {
        self.means.iter().min_by(|a, b| a.1.total_cmp(&b.1))
    }

    fn highest(&self) -> Option<&(String, f64)> {
        self.means.iter().max_by(|a, b| a.1.total_cmp(&b.1))
    }

    /// The distance between its lowest and its highest mean.
    fn way(&self) -> f64 {
        self.highest().zip(self.lowest()).map_or(0.0, |(high, low)| high.1 - low.1)
    }
}

/// The axis on which the column depends most, and the next one. The sweep must have several axes and a number at all
/// points.
pub(crate) fn depends(ledger: &mut SectionFigures<'_>, column: &str, least: bool) -> Option<ScopedFinding> {
    let table = ledger.table;
    // Nothing is averaged over machines.
    if table.axes().any(|axis| axis == MACHINE) {
        return None;
    }
    let mut show = None;
    let mut points: Vec<(Vec<String>, f64)> = Vec::new();
    for part in table.parts() {
        let at = table.find(column, None, part)?;
        show.get_or_insert_with(|| table.columns[at].show.clone());
        for row in &table.body {
            let Content::Number { value, .. } = row.cells[at].content else { return None };
            let keys = row.cells.iter().take(table.rows.len()).map(|cell| cell.text().map(str::to_owned));
            let keys: Option<Vec<String>> = keys.collect();
            points.push((keys?.into_iter().chain(part.map(str::to_owned)).collect(), value));
        }
    }
    let axes = table.axes().enumerate().map(|(at, name)| {
        let mut values: IndexMap<&String, Vec<f64>> = IndexMap::new();
        points.iter().for_each(|(keys, value)| values.entry(&keys[at]).or_default().push(*value));
        let mean = |(key, all): (&String, Vec<f64>)| (key.clone(), all.iter().sum::<f64>() / all.len() as f64);
        let means = values.into_iter().map(mean).collect();
        Axis { name: name.to_owned(), means }
    });
    let mut axes: Vec<Axis> = axes.filter(|axis| axis.means.len() > 1).collect();
    // Means cover the same other values only if every value is combined with every other one.
    if axes.len() < 2 || axes.iter().map(|axis| axis.means.len()).product::<usize>() != points.len() {
        return None;
    }
    axes.sort_by(|a, b| b.way().total_cmp(&a.way()));
    let ([first, second, ..], show) = (axes.as_slice(), show?) else { return None };
    let difference = Format { signed: false, ..show.difference() };
    let small = show.unit == "%" && first.way() < SAME_SHARE || difference.reads_zero(first.way());
    if small {
        return None;
    }
    let (best, worst) = match least {
        true => (first.lowest()?, first.highest()?),
        false => (first.highest()?, first.lowest()?),
    };
    let mut mean = |(value, mean): &(String, f64)| -> (String, Figure) {
        let what = FigureMeaning::new("axis_mean", [("column", column), ("at", &*point(&first.name, value))]);
        (value.clone(), ledger.computed(None, what, *mean, show.clone()))
    };
    let (best, worst) = (mean(best), mean(worst));
    let what = FigureMeaning::new("axis_way", [("column", column), ("axis", &*second.name)]);
    let next = (second.name.clone(), ledger.computed(None, what, second.way(), difference));
    let (column, axis) = (column.to_owned(), first.name.clone());
    Some(ScopedFinding { scope: None, finding: Finding::Depends { column, axis, best, worst, next } })
}
