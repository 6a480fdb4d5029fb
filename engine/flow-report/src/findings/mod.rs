//! Findings: typed statements about the figures of a table, each with the numbers behind it. A statement that the data
//! do not support is absent. Words are in `words`.

mod agrees;
mod axes;
mod change;
mod common;
mod compare;
mod compared_columns;
mod curve;
mod disturbed;
mod estimates;
mod facts;
mod ledger;
mod load;
mod order;
mod packed_runs;
mod phrases;
mod repetitions;
mod reproduction;
mod schedule;
mod trainings;
mod trends;
mod winner;
mod words;

use flow_core::Outcome;
use serde::{Deserialize, Serialize};

use crate::Format;
use crate::table::Center;
use crate::verdict::Resource;

pub(crate) use agrees::agrees;
pub(crate) use axes::depends;
pub(crate) use common::common;
pub(crate) use compare::{Changes, compare, readable};
pub(crate) use curve::{RowFacts, curves};
pub(crate) use disturbed::{DisturbedFindings, ForeignCpu, disturbed};
pub(crate) use estimates::estimates;
pub(crate) use facts::{facts, topic};
pub(crate) use ledger::{ComputedFigure, FigureMeaning, SectionFigures};
pub(crate) use load::load;
pub(crate) use order::order_of;
pub(crate) use packed_runs::{AllPacked, Member, PackedPart, PackedRuns, packed};
pub(crate) use phrases::Lead;
pub(crate) use repetitions::{is_noise, repeated};
pub(crate) use reproduction::{FindingMatch, Reproduction, held};
pub(crate) use schedule::schedules;
pub(crate) use trainings::Trainings;
pub(crate) use trends::trends;
pub(crate) use winner::winner;

/// A number in a sentence, and the place where the reader finds it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Figure {
    pub(crate) value: f64,
    pub(crate) show: Format,
    pub(crate) from: Source,
}

/// The place of a figure.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Source {
    /// A cell of the section's table.
    Table { row: usize, column: usize },
    /// A cell of the table of changes.
    Changes { row: usize, column: usize },
    /// An entry of the section's computed figures.
    Computed { entry: usize },
}

/// A finding and the part of the table that it is about, such as `v7`; `None` for the whole table.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct ScopedFinding {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) scope: Option<String>,
    #[serde(flatten)]
    pub(crate) finding: Finding,
}

/// A statement about the table. Columns and axes have the names of the table.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "finding")]
pub(crate) enum Finding {
    /// Time stops falling at `at`, and may rise again.
    Flattens {
        time: String,
        axis: String,
        at: String,
        value: Figure,
        rises: Option<(String, Figure)>,
        /// It does not fall at all after that point.
        stops: bool,
    },
    /// No point is faster than the first.
    NoFall { time: String, axis: String, at: String, value: Figure, rises: Option<(String, Figure)> },
    /// Time still falls at the last point.
    StillFalling { time: String, axis: String, at: String, value: Figure },
    /// The time hardly depends on the axis.
    TimeFlat { time: String, axis: String, min: Figure, max: Figure },
    /// The time goes up and down along the axis, without a trend.
    NoTrend { time: String, axis: String, min: Figure, max: Figure },
    /// The time goes up and down along the axis, with a trend: its min and its max.
    Uneven { time: String, axis: String, min: (String, Figure), max: (String, Figure) },
    /// The product of memory and time falls up to `from`, and rises after it.
    MemoryFaster { memory: String, time: String, axis: String, from: String, to: String, grows: Figure, falls: Figure },
    /// Memory hardly depends on the axis up to `at`, and is within this range there.
    MemoryFlat { memory: String, axis: String, at: String, min: Figure, max: Figure },
    /// Memory depends on the axis from its smallest values on: it grows from `min` to `max`.
    MemoryNotFlat { memory: String, axis: String, from: String, to: String, min: Figure, max: Figure },
    /// A load rises or falls along the axis, from its first to its last point.
    LoadTrend { load: String, axis: String, rises: bool, from: (String, Figure), to: (String, Figure) },
    /// The sweep ends here, because memory or the machine did not suffice.
    Frontier { axis: String, at: String, outcome: Outcome, gpu: bool, fits: Option<(String, Option<Figure>)> },
    /// A straight line explains the column.
    Linear { column: String, axis: String, intercept: Figure, slope: Figure, r2: Figure },
    /// The limit of the speed.
    Bound {
        by: Resource,
        min: Figure,
        max: Figure,
        /// The CPUs of each result and of the host, if they differ and are the same for all results.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        cpus: Option<(u32, u32)>,
    },
    /// CPU use at the ends of epochs and in their middle, for the result where they differ most. `among` says how many
    /// results have such bursts.
    Ends { label: String, bursts: bool, among: ResultCount, middle: Figure, ends: Figure },
    /// Two versions do not differ noticeably. With `one_way`, all small differences have the same direction.
    Unchanged {
        column: String,
        a: String,
        b: String,
        most: Figure,
        one_way: bool,
        /// The largest change in the other direction, if one of the two exceeds the bound.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        opposite: Option<Figure>,
    },
    /// The change is too small to matter: its confidence interval, which may exclude 0.
    SameLearned { column: String, a: String, b: String, low: Figure, high: Figure },
    /// The mean change of a learned column over the rows, judged by trainings that were repeated for another purpose.
    LearnedChange { column: String, a: String, b: String, mean: Figure, low: Figure, high: Figure },
    /// The repetitions do not decide whether there is a change: the confidence interval of its mean over the rows
    /// includes 0.
    Undecided {
        column: String,
        a: String,
        b: String,
        mean: Figure,
        low: Figure,
        high: Figure,
        /// How many more runs of each version would decide it, if a reasonable number would.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        more: Option<u32>,
    },
    /// One version has more or less of the column, in every row or, confirmed by a test, in most.
    Changed { column: String, a: String, b: String, rises: bool, min: Figure, max: Figure, borne: TrendEvidence },
    /// One version has more or less of the column in these rows, confirmed by their repetitions, and in no other row.
    ChangedAt { column: String, a: String, b: String, rises: bool, axis: String, places: Vec<(String, Figure)> },
    /// Learned columns are not compared, because each version has only one training per row.
    OneTraining {
        columns: Vec<String>,
        a: String,
        b: String,
        /// There are repetitions, but they gave exactly the same numbers.
        identical: bool,
    },
    /// At the end of the axis, the best and the worst part of the split.
    Best { column: String, axis: String, at: String, best: Side, worst: Side },
    /// At the end of the axis, the best part of the split cannot be distinguished from the worst, which has this much
    /// more.
    NoneDistinguished {
        column: String,
        split: String,
        axis: String,
        at: String,
        best: (String, Figure),
        worst: TiedPart,
    },
    /// The values from a single simulation each, smallest first.
    Order { column: String, order: Vec<(String, Figure)> },
    /// Whether single simulations confirm the order in a row of another table, at `place`. `held`: at least one pair of
    /// these names has the same order there. `turned`: the pairs that have the reverse order.
    OrderOf {
        column: String,
        table: String,
        place: Vec<(String, String)>,
        names: Vec<String>,
        held: bool,
        turned: Vec<(String, String)>,
    },
    /// At the end of the axis, all parts of the split are alike.
    Alike { column: String, split: String, axis: String, at: String, apart: Figure, min: Figure, max: Figure },
    /// The better one of two parts changes along the axis.
    Turns { column: String, axis: String, turns: Vec<Crossover> },
    /// A share never exceeds this max, which these parts reach.
    AtMost { column: String, axis: String, at: String, parts: Vec<String>, most: Figure },
    /// The time for all runs at once, if one run contains all and all can be compared, and the slowdown of each from
    /// start to end.
    Packed {
        whole: Option<AllPacked>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        part: Option<PackedPart>,
        min: Figure,
        max: Figure,
        /// The CPU that other programs used during the runs, if that is much.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        foreign: Option<Figure>,
    },
    /// Means over repetitions differ along the axis by more than noise, or do not as far as a test shows.
    Repeated {
        column: String,
        axis: String,
        differs: bool,
        min: Figure,
        max: Figure,
        p: Figure,
        /// Whether the test was paired.
        paired: bool,
    },
    /// Current figures agree with the earlier ones to within `most`. Of all `of` figures, `as_given` read the same with
    /// the earlier digits.
    Agrees { column: String, most: Figure, as_given: Figure, of: Figure },
    /// The largest error of a column that estimates another. For several rows, also the smallest and the median
    /// absolute error.
    Estimate { column: String, of: String, most: Figure, more: Option<(Figure, Figure)> },
    /// The course of a column along the axis: from its first to its last value, or from its lowest to its highest.
    Trend { column: String, axis: String, course: Course, from: (String, Figure), to: (String, Figure) },
    /// The best point of a sweep, and what its repetitions show.
    Winner {
        column: String,
        /// Whether less is better.
        lower_is_better: bool,
        point: String,
        value: Figure,
        /// The second best point.
        next: (String, Figure),
        /// The worst of three or more points.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        worst: Option<(String, Figure)>,
        /// Points that are not distinguished from the best.
        tied: Vec<String>,
        /// All others.
        worse: Vec<String>,
        /// The test of the second best point, if every point was repeated.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        test: Option<WinnerTest>,
        /// Whether all repetitions of a point gave the same number.
        identical: bool,
        /// What the numbers are, if points were repeated.
        center: Center,
        /// The step is a command, which has to read the seed of its repetition.
        command: bool,
    },
    /// The axis of a sweep on which a column depends most: its means at the best and the worst value of the axis, and
    /// the distance between the means of the next axis.
    Depends { column: String, axis: String, best: (String, Figure), worst: (String, Figure), next: (String, Figure) },
    /// The same accuracy at lower cost, or a slightly better one with `better`.
    CostFree { accuracy: String, a: String, b: String, cheaper: Vec<String>, better: bool },
}

impl Finding {
    /// The column whose best point it names.
    pub(crate) fn ranks(&self) -> Option<&str> {
        if let Finding::Winner { column, .. } = self { Some(column) } else { None }
    }
}

/// The test of the best point against the second best.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct WinnerTest {
    pub(crate) paired: bool,
    /// The number of runs of each point.
    pub(crate) runs: u32,
    /// The p-value with Bonferroni's correction.
    pub(crate) p: Figure,
    /// The number of further runs of each point that would distinguish the two.
    pub(crate) more: Option<u32>,
}

/// The evidence for a rise or fall.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "by")]
pub(crate) enum TrendEvidence {
    /// The only row, which ran once on one side at least.
    OneRow,
    /// The only row, and a t-test of its repetitions.
    Pair {
        paired: bool,
        p: Figure,
        /// The 95% confidence interval of the change.
        ends: (Figure, Figure),
        /// How many times as fast, for a time that falls much.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        speed: Option<Figure>,
    },
    /// Both rows, which have no interval.
    Two,
    /// Every row, but there are too few for a test.
    Few,
    /// Every row, and a sign test over these pairs.
    Tested { pairs: Figure, p: Figure },
    /// This many rows, all from one run per version, so no test shows how runs differ.
    OneRun { some: Figure, rows: Figure, median: Figure },
    /// Most rows, and a sign test.
    Most { some: Figure, rows: Figure, median: Figure, p: Figure },
}

/// The best or the worst part of a split, and the parts that cannot be distinguished from it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Side {
    pub(crate) name: String,
    pub(crate) value: Figure,
    pub(crate) peers: Vec<TiedPart>,
}

/// A part that cannot be distinguished from another: how much more it has, with the 95% confidence interval.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct TiedPart {
    pub(crate) name: String,
    pub(crate) value: Figure,
    pub(crate) by: Figure,
    pub(crate) low: Figure,
    pub(crate) high: Figure,
}

/// The first of two parts has less up to `from`, and more from `to` on.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Crossover {
    pub(crate) first: String,
    pub(crate) second: String,
    pub(crate) from: String,
    pub(crate) to: String,
    /// The figures of the two at `from` …
    pub(crate) before: (Figure, Figure),
    /// … and at `to`.
    pub(crate) after: (Figure, Figure),
}

/// The course of a column along an axis.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Course {
    Rises,
    Falls,
    Varies,
    Constant,
}

/// How many of the results have a property.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum ResultCount {
    All,
    Some,
    One,
}
