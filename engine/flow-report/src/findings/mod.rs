//! What the figures of a table say: typed values, each with the numbers that it rests on. One that the data do not support is
//! not there. Words are in `words` and `computed`.

mod agrees;
mod axes;
mod change;
mod common;
mod compare;
mod computed;
mod curve;
mod disturbed;
mod estimates;
mod goes;
mod held;
mod ledger;
mod load;
mod order;
mod packed;
mod phrases;
mod repeated;
mod schedule;
mod stats;
mod trainings;
mod winner;
mod words;

use flow_core::Outcome;
use serde::{Deserialize, Serialize};

use crate::Format;

pub(crate) use agrees::agrees;
pub(crate) use axes::depends;
pub(crate) use common::common;
pub(crate) use compare::{Changes, compare, readable};
pub(crate) use curve::{Besides, curves};
pub(crate) use disturbed::{Beside, Disturbed, disturbed};
pub(crate) use estimates::estimates;
pub(crate) use goes::goes;
pub(crate) use held::{FindingMatch, Holds, held, topic};
pub(crate) use ledger::{Computed, SectionFigures, What};
pub(crate) use load::load;
pub(crate) use order::order_of;
pub(crate) use packed::{AllPacked, Member, Packed, PackedPart, packed};
pub(crate) use repeated::{is_noise, repeated};
pub(crate) use schedule::schedules;
pub(crate) use trainings::Trainings;
pub(crate) use winner::winner;

/// A number of the prose, and where the reader finds it.
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

/// A finding, and the part of the table that it is about (`v7`; nothing for all of it).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Scoped {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) scope: Option<String>,
    #[serde(flatten)]
    pub(crate) finding: Finding,
}

/// What was found. Columns and axes are named as in the table.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "finding")]
pub(crate) enum Finding {
    /// Time stops falling at `at`; and rises again, where it does.
    Flattens {
        time: String,
        axis: String,
        at: String,
        value: Figure,
        rises: Option<(String, Figure)>,
        /// Not even by a little does it fall from there on.
        #[serde(default)]
        stops: bool,
    },
    /// Nothing is faster than the first point.
    NeverFalls { time: String, axis: String, at: String, value: Figure, rises: Option<(String, Figure)> },
    /// Time still falls at the last point.
    StillFalling { time: String, axis: String, at: String, value: Figure },
    /// The axis makes no difference to the time.
    TimeFlat { time: String, axis: String, least: Figure, most: Figure },
    /// The time goes up and down along the axis, and leads nowhere.
    NoTrend { time: String, axis: String, least: Figure, most: Figure },
    /// The time goes up and down along the axis, and leads somewhere: where it is least, and where most.
    Uneven { time: String, axis: String, least: (String, Figure), most: (String, Figure) },
    /// The product of memory and time falls up to `from`, and rises from there on.
    MemoryFaster { memory: String, time: String, axis: String, from: String, to: String, grows: Figure, falls: Figure },
    /// Memory hardly goes with the axis up to `at`, where it is within these.
    MemoryFlat { memory: String, axis: String, at: String, least: Figure, most: Figure },
    /// Memory goes with the axis from its small values on: so much there, and so much here.
    MemoryNotFlat { memory: String, axis: String, from: String, to: String, least: Figure, most: Figure },
    /// A load rises or falls along the axis, from here to there.
    LoadGoes { load: String, axis: String, rises: bool, from: (String, Figure), to: (String, Figure) },
    /// Where the sweep ends because something did not suffice.
    Frontier { axis: String, at: String, outcome: Outcome, gpu: bool, fits: Option<(String, Option<Figure>)> },
    /// A straight line explains it.
    Linear { column: String, axis: String, intercept: Figure, slope: Figure, r2: Figure },
    /// It jumps between neighbours.
    Jumps { column: String, axis: String, jumps: Vec<(String, String, Figure)>, multiple: Option<u64> },
    /// What limits the speed.
    Bound {
        by: Bound,
        least: Figure,
        most: Figure,
        /// How many CPUs each had and how many the host has, where these are others and the same for all.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        cpus: Option<(u32, u32)>,
    },
    /// How much the CPU works at the ends of epochs, and in their middle: of the result in which that differs most, `among` those that
    /// burst.
    Ends {
        label: String,
        bursts: bool,
        #[serde(default)]
        among: Among,
        middle: Figure,
        ends: Figure,
    },
    /// Two versions differ in nothing that counts; what differs does so `one_way`.
    Unchanged {
        column: String,
        a: String,
        b: String,
        most: Figure,
        #[serde(default)]
        one_way: bool,
        /// The largest change the other way, if that or the first is more than none.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        least: Option<Figure>,
    },
    /// What two versions learn changes by too little to count: the confidence interval of the change, in which none may lie or not.
    SameLearned { column: String, a: String, b: String, low: Figure, high: Figure },
    /// How much more or less two versions learn on average over the rows, as far as trainings tell that were repeated for something else.
    LearnedChange { column: String, a: String, b: String, mean: Figure, low: Figure, high: Figure },
    /// How one version differs from the other on average over the rows is no more than repetitions differ by.
    WithinRepetitions { column: String, a: String, b: String, mean: Figure, low: Figure, high: Figure },
    /// One version has more or less of it, in every row or, as a test tells, in most.
    Changed { column: String, a: String, b: String, rises: bool, least: Figure, most: Figure, borne: Borne },
    /// One version has more or less of it in these rows, as repetitions of each tell, and in no other that can be told.
    ChangedAt { column: String, a: String, b: String, rises: bool, axis: String, places: Vec<(String, Figure)> },
    /// What two versions learn is not compared, for of each there is one training a row.
    OneTraining { columns: Vec<String>, a: String, b: String },
    /// At the end of the axis one part of the split is best, another worst.
    Best { column: String, axis: String, at: String, best: Side, worst: Side },
    /// At the end of the axis the best part of the split cannot be told apart from the worst, which has so much more.
    NoneTold { column: String, split: String, axis: String, at: String, best: (String, Figure), worst: TiedPart },
    /// What a single simulation of each gives, from the least on.
    Order { column: String, order: Vec<(String, Figure)> },
    /// Whether an order is that of a row of another table, at this place; of these names two are `turned`, others `held`.
    OrderOf {
        column: String,
        table: String,
        place: Vec<(String, String)>,
        names: Vec<String>,
        held: bool,
        turned: Vec<(String, String)>,
    },
    /// At the end of the axis all parts of the split are alike.
    Alike { column: String, split: String, axis: String, at: String, apart: Figure, least: Figure, most: Figure },
    /// Which of two parts is better turns along the axis.
    Turns { column: String, axis: String, turns: Vec<Crossover> },
    /// A share never gets beyond this, which these parts reach.
    AtMost { column: String, axis: String, at: String, parts: Vec<String>, most: Figure },
    /// How long all took at once, where that was in one run and all can be compared, and from start to end each against alone.
    Packed {
        whole: Option<AllPacked>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        part: Option<PackedPart>,
        least: Figure,
        most: Figure,
        /// What other programs used of the CPU meanwhile, where that is much.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        foreign: Option<Figure>,
    },
    /// Means over repetitions differ along the axis by more than noise, or not as far as a test tells.
    Repeated {
        column: String,
        axis: String,
        differs: bool,
        least: Figure,
        most: Figure,
        p: Figure,
        /// By a paired test.
        #[serde(default)]
        paired: bool,
    },
    /// What was found earlier is found again, to within this; so many of all figures read the same, with the digits of then.
    Agrees { column: String, most: Figure, as_given: Figure, of: Figure },
    /// How far a column that tells another beforehand is off it at the most; of several rows also the least, and the median of the sizes.
    Estimate { column: String, of: String, most: Figure, more: Option<(Figure, Figure)> },
    /// How a column goes along the axis: from its first to its last value, or from its lowest to its highest.
    Goes { column: String, axis: String, course: Course, from: (String, Figure), to: (String, Figure) },
    /// The best point of a sweep, and what its repetitions tell.
    Winner {
        column: String,
        /// Less is better.
        least: bool,
        point: String,
        value: Figure,
        /// The second best.
        next: (String, Figure),
        /// The worst of three and more.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        worst: Option<(String, Figure)>,
        /// How many points have a number.
        points: usize,
        /// Points that are not told from the best.
        tied: Vec<String>,
        /// How the second best was tested, if every point was repeated.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        test: Option<WinnerTest>,
        /// Repetitions of a point all came to the same number.
        #[serde(default)]
        identical: bool,
        /// The step is a command, which has to read the seed of its repetition.
        #[serde(default)]
        command: bool,
    },
    /// On which axis of a sweep a column depends most: its means at the best and the worst value of it, and how far those of the next axis
    /// are apart.
    Depends { column: String, axis: String, best: (String, Figure), worst: (String, Figure), next: (String, Figure) },
    /// The same accuracy at lower cost, or a slightly `better` one.
    CostFree {
        accuracy: String,
        a: String,
        b: String,
        cheaper: Vec<String>,
        #[serde(default)]
        better: bool,
    },
}

/// The test of the best point against the second best.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct WinnerTest {
    pub(crate) paired: bool,
    /// How many runs each has.
    pub(crate) runs: u32,
    /// With Bonferroni's correction.
    pub(crate) p: Figure,
    /// How far the furthest of those is from the best that are not told from it.
    pub(crate) furthest: Option<Figure>,
    /// How many more runs of each would tell the two apart.
    pub(crate) more: Option<u32>,
}

/// What bears that something rises or falls.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "by")]
pub(crate) enum Borne {
    /// The only row, which ran once on one side at least.
    OneRow,
    /// The only row, and a t-test of its repetitions.
    Pair { paired: bool, p: Figure },
    /// Both rows, which tell no interval.
    Two,
    /// Every row, of which there are too few for a test.
    Few,
    /// Every row, and a sign test over these pairs.
    Tested { pairs: Figure, p: Figure },
    /// So many rows, all of one run on either side, so that no test tells how runs differ.
    OneRun { some: Figure, rows: Figure, median: Figure },
    /// Most rows, and a sign test.
    Most { some: Figure, rows: Figure, median: Figure, p: Figure },
}

/// The best or the worst part of a split, and those that cannot be told apart from it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Side {
    pub(crate) name: String,
    pub(crate) value: Figure,
    pub(crate) rivals: Vec<TiedPart>,
}

/// A part that cannot be told apart from another: how much more it has, with the 95 % confidence interval.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct TiedPart {
    pub(crate) name: String,
    pub(crate) value: Figure,
    pub(crate) by: Figure,
    pub(crate) low: Figure,
    pub(crate) high: Figure,
}

/// The first of two parts has less up to here, and more from there on.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Crossover {
    pub(crate) first: String,
    pub(crate) second: String,
    pub(crate) from: String,
    pub(crate) to: String,
    /// What the two have there …
    pub(crate) before: (Figure, Figure),
    /// … and there.
    pub(crate) after: (Figure, Figure),
}

/// What limits the speed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Bound {
    /// GPU load is near its end.
    Gpu,
    /// CPU use is near its end.
    Cpu,
    /// A large share of the epoch is spent waiting for data.
    Data,
}

/// How a column goes along an axis.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Course {
    Rises,
    Falls,
    Varies,
    Stays,
}

/// Of how many results something is so.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Among {
    All,
    Some,
    #[default]
    One,
}
