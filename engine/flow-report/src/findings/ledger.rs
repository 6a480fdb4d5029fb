//! Figures that sentences rest on: cells of the section's table, and those that are computed from it and shown below the findings.

use flow_core::Interval;
use serde::{Deserialize, Serialize};

use super::{Figure, Source};
use crate::Format;
use crate::table::Table;

/// A figure that no table shows, computed for a finding and shown under it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Computed {
    pub(crate) what: What,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) scope: Option<String>,
    pub(crate) value: f64,
    /// The ends of its 95 % confidence interval, where it is told.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) ends: Option<(f64, f64)>,
    pub(crate) show: Format,
}

/// What a computed figure is.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "what")]
pub(crate) enum What {
    Growth {
        column: String,
        axis: String,
        from: String,
        to: String,
    },
    Jump {
        column: String,
        axis: String,
        from: String,
        to: String,
    },
    Intercept {
        column: String,
        axis: String,
    },
    Slope {
        column: String,
        axis: String,
    },
    R2 {
        column: String,
        axis: String,
    },
    Least {
        column: String,
    },
    Most {
        column: String,
    },
    /// A number of one result, of a column that the table may not have.
    Of {
        column: String,
        label: String,
    },
    Middle {
        label: String,
    },
    Ends {
        label: String,
    },
    MeanChange {
        column: String,
    },
    LowChange {
        column: String,
    },
    HighChange {
        column: String,
    },
    Pairs {
        column: String,
    },
    MedianChange {
        column: String,
    },
    RowsChanged {
        column: String,
    },
    Rows {
        column: String,
    },
    SignTest {
        column: String,
    },
    FTest {
        column: String,
        axis: String,
    },
    /// The p of the t-test of the only row that two versions have.
    PairTest {
        column: String,
    },
    /// The p of the test of the best point against another.
    TTest {
        column: String,
        at: String,
    },
    /// How far the furthest of the points is from the best that are not told from it.
    Furthest {
        column: String,
    },
    /// The mean of a column over all points with this value of an axis.
    AxisMean {
        column: String,
        at: String,
    },
    /// How far the means of a column over an axis are apart.
    AxisWay {
        column: String,
        axis: String,
    },
    /// How many that ran at once are compared with what they took alone …
    Compared,
    /// … and of how many.
    Packed,
    /// What other programs used of the CPU meanwhile at the most.
    Foreign,
    /// The same beside one result.
    ForeignBeside {
        label: String,
    },
    AtOnce,
    OneByOne,
    Gain,
    LeastSlowdown,
    MostSlowdown,
    /// How far a column is from the earlier figures at the most.
    Off {
        column: String,
    },
    /// How many figures of a column read as the earlier ones do.
    AsGiven {
        column: String,
    },
    /// How many earlier figures of a column there are beside those of now.
    Given {
        column: String,
    },
    /// The least, with its sign, that a column is off the one that it tells.
    LeastOff {
        column: String,
        of: String,
    },
    /// The most of it.
    MostOff {
        column: String,
        of: String,
    },
    /// The median of its sizes.
    TypicalOff {
        column: String,
        of: String,
    },
    /// How far all parts are apart.
    Apart {
        column: String,
        axis: String,
        at: String,
    },
    /// How much more a part has than another.
    Behind {
        column: String,
        axis: String,
        at: String,
        part: String,
        than: String,
    },
}

/// A section's table with the figures computed from it so far.
pub(crate) struct SectionFigures<'a> {
    pub(crate) table: &'a Table,
    pub(crate) computed: Vec<Computed>,
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

    /// A figure that is computed and shown under the findings.
    pub(crate) fn computed(&mut self, scope: Option<&str>, what: What, value: f64, show: Format) -> Figure {
        let at = self.entry(Computed { what, scope: scope.map(str::to_owned), value, ends: None, show: show.clone() });
        Figure { value, show, from: Source::Computed { entry: at } }
    }

    /// A mean with its 95 % confidence interval, computed and shown under the findings: itself, the lower and the upper end.
    pub(crate) fn interval(
        &mut self,
        scope: Option<&str>,
        what: What,
        interval: Interval,
        show: &Format,
    ) -> [Figure; 3] {
        let Interval { mean, half } = interval;
        let (low, high) = (mean - half.unwrap_or(0.0), mean + half.unwrap_or(0.0));
        let (scope, ends) = (scope.map(str::to_owned), Some((low, high)));
        let entry = self.entry(Computed { what, scope, value: mean, ends, show: show.clone() });
        [mean, low, high].map(|value| Figure { value, show: show.clone(), from: Source::Computed { entry } })
    }

    fn entry(&mut self, entry: Computed) -> usize {
        self.computed.iter().position(|c| *c == entry).unwrap_or_else(|| {
            self.computed.push(entry);
            self.computed.len() - 1
        })
    }
}
