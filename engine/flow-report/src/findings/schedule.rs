//! Findings about simulated schedules: which policy serves best where the load is highest, and how busy GPUs get at most.

use super::{Figure, Finding, Ledger, Scoped};
use crate::table::{Content, Table};

/// Times that are better when they are shorter.
const TIMES: [&str; 4] = ["time_in_system", "time_in_system_p99", "waiting", "makespan"];
/// Shares of what there is.
const SHARES: [&str; 2] = ["gpu_use", "cpu_use"];
/// Policies that differ by less serve alike.
const ALIKE: f64 = 0.05;

/// Findings of a table with a row for each density and a part for each policy.
pub(crate) fn schedules(ledger: &Ledger<'_>) -> Vec<Scoped> {
    let table = ledger.table;
    let ([axis], Some(last)) = (table.rows.as_slice(), table.body.len().checked_sub(1)) else { return Vec::new() };
    let mut found = Vec::new();
    if let Some(Content::Text { text: at, .. }) = table.body[last].cells.first().map(|cell| &cell.content) {
        for column in TIMES {
            let parts = figures(ledger, table, column, last);
            let least = parts.iter().min_by(|a, b| a.1.value.total_cmp(&b.1.value));
            let most = parts.iter().max_by(|a, b| a.1.value.total_cmp(&b.1.value));
            let (Some((best, value)), Some((worst, against))) = (least, most) else { continue };
            let (column, axis, at) = (column.to_owned(), axis.clone(), at.clone());
            if against.value > value.value * (1.0 + ALIKE) {
                let (best, worst) = (best.clone(), worst.clone());
                let (value, against) = (value.clone(), against.clone());
                found.push(Finding::Best { column, axis, at, best, value, worst, against });
            } else if parts.len() > 1 {
                found.push(Finding::Alike { column, axis, at, least: value.clone(), most: against.clone() });
            }
        }
    }
    for column in SHARES {
        let all = (0..table.body.len()).flat_map(|row| figures(ledger, table, column, row));
        if let Some((part, most)) = all.max_by(|a, b| a.1.value.total_cmp(&b.1.value)) {
            found.push(Finding::AtMost { column: column.to_owned(), part, most });
        }
    }
    found.into_iter().map(|finding| Scoped { scope: None, finding }).collect()
}

/// The figures of a column in a row, by part; none where the table is not split.
fn figures(ledger: &Ledger<'_>, table: &Table, column: &str, row: usize) -> Vec<(String, Figure)> {
    let parts = table.parts().into_iter().flatten();
    parts.filter_map(|part| Some((part.to_owned(), ledger.cell(row, table.find(column, None, Some(part))?)?))).collect()
}
