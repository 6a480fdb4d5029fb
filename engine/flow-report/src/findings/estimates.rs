//! The error of columns that estimate other columns.

use flow_core::stats::median;
use indexmap::IndexMap;

use super::change::have_ratios;
use super::{FigureMeaning, Finding, ScopedFinding, SectionFigures};
use crate::format::Format;

/// Compares each estimate with its measured column: as a share of the measured value, or as a difference if there is no
/// such share.
pub(crate) fn estimates(ledger: &mut SectionFigures<'_>, of: &IndexMap<String, String>) -> Vec<ScopedFinding> {
    let table = ledger.table;
    let mut found = Vec::new();
    for (column, of) in of {
        for part in table.parts() {
            let (Some(told), Some(came)) = (table.find(column, None, part), table.find(of, None, part)) else {
                continue;
            };
            let pairs = table.body.iter().filter_map(|row| row.cells[came].number().zip(row.cells[told].number()));
            let relative = have_ratios(pairs.clone());
            let off = pairs.map(|(came, told)| if relative { told / came - 1.0 } else { told - came });
            let off: Vec<f64> = off.filter(|off| off.is_finite()).collect();
            let Some(typical) = median(off.iter().map(|off| off.abs()).collect()) else { continue };
            let (least, most) = off.iter().fold((f64::INFINITY, f64::NEG_INFINITY), |(a, b), v| (a.min(*v), b.max(*v)));
            let finest = [told, came].map(|at| &table.columns[at].show).into_iter().max_by_key(|show| show.decimals);
            let size = match relative {
                true => Format { decimals: 1, ..Format::for_unit("ratio", off.iter().copied()) },
                false => Format { signed: false, ..finest.unwrap_or(&table.columns[came].show).difference() },
            };
            let signed = Format { signed: true, ..size.clone() };
            let mut figure = |what, value, show: &Format| {
                let what = FigureMeaning::new(what, [("column", &**column), ("of", &**of)]);
                ledger.computed(part, what, value, show.clone())
            };
            let most = figure("max_off", most, &signed);
            let more = (off.len() > 1).then(|| {
                let least = figure("min_off", least, &signed);
                (least, figure("typical_off", typical, &size))
            });
            let finding = Finding::Estimate { column: column.clone(), of: of.clone(), most, more };
            found.push(ScopedFinding { scope: part.map(str::to_owned), finding });
        }
    }
    found
}
