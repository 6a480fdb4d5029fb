//! The figures behind sentences: cells of the section's table, and figures computed from it that are shown below the
//! findings.

use std::collections::BTreeMap;

use flow_core::Interval;
use serde::{Deserialize, Serialize};

use super::{Figure, Source};
use crate::Format;
use crate::safe;
use crate::table::{Names, Table};
use crate::words::{Args, Locale};

/// A figure that no table shows. It is computed for a finding and shown below it.
#[serde_with::skip_serializing_none]
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct ComputedFigure {
    pub(crate) what: FigureMeaning,
    pub(crate) scope: Option<String>,
    pub(crate) value: f64,
    /// The ends of its 95% confidence interval, if that is shown.
    pub(crate) ends: Option<(f64, f64)>,
    pub(crate) show: Format,
}

/// The meaning of a computed figure: the kind, which its label in the catalogue is for, and the names in that label.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct FigureMeaning {
    what: String,
    #[serde(flatten)]
    names: BTreeMap<String, String>,
}

impl FigureMeaning {
    pub(crate) fn new<const N: usize>(what: &str, names: [(&str, &str); N]) -> Self {
        let names = names.map(|(key, name)| (key.to_owned(), name.to_owned()));
        FigureMeaning { what: what.to_owned(), names: names.into() }
    }

    /// A figure of a column.
    pub(crate) fn of(what: &str, column: &str) -> Self {
        Self::new(what, [("column", column)])
    }

    /// The label of the figure in the table of computed figures.
    fn label(&self, names: &Names<'_>) -> String {
        let args = self.names.iter().fold(Args::new(), |args, (key, name)| {
            let text = match key.as_str() {
                "column" | "axis" | "of" => names.inline(name),
                "label" => safe::code(name),
                _ => safe::text(name),
            };
            args.with(key.clone(), text)
        });
        names.words.find(&format!("computed-{}", self.what.replace('_', "-")), &args).unwrap_or_default()
    }
}

impl ComputedFigure {
    /// The figure, with its interval if that is shown.
    pub(crate) fn text(&self, words: Locale<'_>) -> String {
        let value = words.figure(&self.show, self.value);
        let Some((low, high)) = self.ends else { return value };
        let (from, to) = (self.show.number(low), words.figure(&self.show, high));
        let range = words.text("range", &Args::new().with("from", from).with("to", to));
        words.text("computed-interval", &Args::new().with("value", value).with("range", range))
    }

    /// The label of the figure in the table of computed figures.
    pub(crate) fn label(&self, names: &Names<'_>) -> String {
        names.scoped(&self.scope, names.capital(self.what.label(names)))
    }
}

/// A section's table with the figures computed from it so far.
pub(crate) struct SectionFigures<'a> {
    pub(crate) table: &'a Table,
    pub(crate) computed: Vec<ComputedFigure>,
}

impl<'a> SectionFigures<'a> {
    pub(crate) fn new(table: &'a Table) -> Self {
        SectionFigures { table, computed: Vec::new() }
    }

    /// The figure in a cell of the table.
    pub(crate) fn cell(&self, row: usize, column: usize) -> Option<Figure> {
        let cell = self.table.body.get(row)?.cells.get(column)?;
        let (value, show) = (cell.number()?, &self.table.columns.get(column)?.show);
        let show = cell.digits.map_or_else(|| show.clone(), |digits| show.given(value, digits));
        Some(Figure { value, show, from: Source::Table { row, column } })
    }

    /// Adds a computed figure, which is shown below the findings.
    pub(crate) fn computed(&mut self, scope: Option<&str>, what: FigureMeaning, value: f64, show: Format) -> Figure {
        let at =
            self.entry(ComputedFigure { what, scope: scope.map(str::to_owned), value, ends: None, show: show.clone() });
        Figure { value, show, from: Source::Computed { entry: at } }
    }

    /// Adds a computed count.
    pub(crate) fn count(&mut self, what: FigureMeaning, n: usize) -> Figure {
        self.computed(None, what, n as f64, Format::count())
    }

    /// Adds a mean with its 95% confidence interval, shown below the findings. Returns the mean, the lower and the
    /// upper end.
    pub(crate) fn interval(
        &mut self,
        scope: Option<&str>,
        what: FigureMeaning,
        interval: Interval,
        show: &Format,
    ) -> [Figure; 3] {
        let Interval { mean, half } = interval;
        let (low, high) = (mean - half.unwrap_or(0.0), mean + half.unwrap_or(0.0));
        let (scope, ends) = (scope.map(str::to_owned), Some((low, high)));
        let entry = self.entry(ComputedFigure { what, scope, value: mean, ends, show: show.clone() });
        [mean, low, high].map(|value| Figure { value, show: show.clone(), from: Source::Computed { entry } })
    }

    fn entry(&mut self, entry: ComputedFigure) -> usize {
        self.computed.iter().position(|c| *c == entry).unwrap_or_else(|| {
            self.computed.push(entry);
            self.computed.len() - 1
        })
    }
}
