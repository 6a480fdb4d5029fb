//! The figures behind sentences: cells of the section's table, and figures computed from it that are shown below the
//! findings.

use flow_core::Interval;
use serde::{Deserialize, Serialize};

use super::{Figure, Source};
use crate::Format;
use crate::table::Table;

/// A figure that no table shows. It is computed for a finding and shown below it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Computed {
    pub(crate) what: What,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) scope: Option<String>,
    pub(crate) value: f64,
    /// The ends of its 95% confidence interval, if that is shown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) ends: Option<(f64, f64)>,
    pub(crate) show: Format,
}

/// The meaning of a computed figure.
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
    /// A number of one result, from a column that the table may not have.
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
    /// The p-value of the test of the best point against another one.
    TTest {
        column: String,
        at: String,
    },
    /// The largest distance from the best among the points that are not distinguished from it.
    Furthest {
        column: String,
    },
    /// The mean of a column over all points with this value of an axis.
    AxisMean {
        column: String,
        at: String,
    },
    /// The distance between the lowest and the highest mean of a column over an axis.
    AxisWay {
        column: String,
        axis: String,
    },
    /// How many of the runs at once are compared with their runs alone …
    Compared,
    /// … and of how many.
    Packed,
    /// The most CPU that other programs used during the runs.
    Foreign,
    /// The CPU that other programs used during one result.
    ForeignBeside {
        label: String,
    },
    AtOnce,
    OneByOne,
    Gain,
    LeastSlowdown,
    MostSlowdown,
    /// The largest deviation of a column from the earlier figures.
    Off {
        column: String,
    },
    /// How many figures of a column read like the earlier ones.
    AsGiven {
        column: String,
    },
    /// How many earlier figures of a column have a current one.
    Given {
        column: String,
    },
    /// The smallest error of an estimate, with its sign.
    LeastOff {
        column: String,
        of: String,
    },
    /// The largest error, with its sign.
    MostOff {
        column: String,
        of: String,
    },
    /// The median of the absolute errors.
    TypicalOff {
        column: String,
        of: String,
    },
    /// The distance between the best and the worst part.
    Apart {
        column: String,
        axis: String,
        at: String,
    },
    /// How much more one part has than another.
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

    /// Adds a computed figure, which is shown below the findings.
    pub(crate) fn computed(&mut self, scope: Option<&str>, what: What, value: f64, show: Format) -> Figure {
        let at = self.entry(Computed { what, scope: scope.map(str::to_owned), value, ends: None, show: show.clone() });
        Figure { value, show, from: Source::Computed { entry: at } }
    }

    /// Adds a mean with its 95% confidence interval, shown below the findings. Returns the mean, the lower and the
    /// upper end.
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
