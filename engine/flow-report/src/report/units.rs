//! The units in which the tables of a report show their columns.

use std::collections::{BTreeMap, BTreeSet};

use flow_core::BuiltinInput;

use super::with::SectionWith;
use crate::format::Format;
use crate::table::{Column, ComputedFunction, Table};

/// The formats of columns that appear in several tables of a report with different units. They then have one format
/// everywhere, so that they can be compared.
pub(super) struct Units(BTreeMap<String, Format>);

impl Units {
    /// Times are stored in seconds and memory in bytes, whatever unit they are shown in.
    pub(super) fn of(sections: &[SectionWith], input: &BuiltinInput) -> Units {
        let mut shown: BTreeMap<String, (BTreeSet<String>, Vec<f64>)> = BTreeMap::new();
        let table = |section: &SectionWith| Table::of(&section.table, input.steps.get(&section.table)?).ok()?;
        for table in sections.iter().filter_map(table) {
            for (at, column) in table.columns.iter().enumerate().filter(|(_, column)| column.derived.is_none()) {
                let (units, values) = shown.entry(column.name.clone()).or_default();
                units.insert(column.show.unit.clone());
                values.extend(table.body.iter().filter_map(|row| row.cells.get(at)?.number()));
            }
        }
        let base = |units: &BTreeSet<String>| match units {
            one if one.len() < 2 => None,
            times if times.iter().all(|unit| matches!(&**unit, "ms" | "s" | "min" | "h")) => Some("s"),
            sizes if sizes.iter().all(|unit| matches!(&**unit, "MiB" | "GiB")) => Some("bytes"),
            _ => None,
        };
        let show = |(name, (units, values)): (String, (BTreeSet<String>, Vec<f64>))| {
            let base = base(&units)?;
            let least = values.iter().copied().fold(f64::INFINITY, f64::min);
            // Half an hour reads as 0.50 h next to tens of hours.
            let hours = base == "s" && units.contains("h") && least >= 1_800.0;
            let show = match hours {
                true => Format { unit: "h".into(), factor: 1.0 / 3_600.0, decimals: 2, ..Format::default() },
                false => Format::for_unit(base, values.into_iter()),
            };
            Some((name, show))
        };
        Units(shown.into_iter().filter_map(show).collect())
    }

    pub(super) fn apply(&self, table: &mut Table) {
        let differs = |column: &Column| matches!(column.derived, None | Some(ComputedFunction::Difference));
        for column in table.columns.iter_mut().filter(|column| differs(column)) {
            if let Some(show) = self.0.get(&column.name) {
                column.show = Format { signed: column.show.signed, ..show.clone() };
            }
        }
    }
}
