//! The table as a value. What `table.json` holds, and what a report reads.

use std::collections::{BTreeMap, BTreeSet};

use flow_core::reason::{BuiltinFault, Hint};
use flow_core::{
    BuiltinInput, Outcome, StepView, nearest,
    reason::{Cause, Caveat, NoMetrics, Spoiled},
};
use indexmap::IndexMap;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::with::{Derived, Text};
use crate::Format;
use crate::caveats::Caveats;
use crate::columns::NotFinite;

/// The version of `table.json`.
pub(crate) const TABLE_FORMAT: u32 = 1;

/// A table of results.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Table {
    /// Version of this layout.
    pub format: u32,
    /// The step whose results it shows.
    pub from: String,
    /// Which of them, by values of axes.
    #[serde(default, rename = "where", skip_serializing_if = "IndexMap::is_empty")]
    pub only: IndexMap<String, Value>,
    /// The axes that make the rows: the first columns.
    pub rows: Vec<String>,
    /// The axis that is split into columns, and its values.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub split: Option<(String, Vec<String>)>,
    pub columns: Vec<Column>,
    pub body: Vec<Row>,
    /// What values of axes are called, by axis.
    #[serde(default, skip_serializing_if = "IndexMap::is_empty")]
    pub labels: IndexMap<String, IndexMap<String, Text>>,
    /// What is to be said about cells, or about the table.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<Note>,
    /// What was seen beside results of other machines, by label: a report has these by way of the table alone.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub(crate) beside_theirs: BTreeMap<String, Caveats>,
    /// Why there is nothing to show.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub absent: Option<Cause>,
    /// The same of earlier figures.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reference: Option<Box<Reference>>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Reference {
    /// The file that they are from.
    pub file: String,
    /// What is written over their columns.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub label: Option<Text>,
    /// With rows of the table that it is beside, in their order.
    pub table: Table,
    /// Times that were measured in a co-run group.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub together: Vec<InGroup>,
}

/// An earlier time of a member of a co-run group.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct InGroup {
    pub axes: IndexMap<String, Value>,
    /// What was measured, `epoch_time`.
    pub name: String,
    pub value: f64,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Column {
    /// What it shows: the name of an axis, metric, usage or parameter.
    pub name: String,
    /// What it computes from that, if anything.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub derived: Option<Derived>,
    /// The value of the split that it belongs to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub part: Option<String>,
    /// It names the row.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub key: bool,
    /// It shows earlier figures.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub earlier: bool,
    /// A label of the author's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub label: Option<Text>,
    /// The author's label of the column that it is computed from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub of: Option<Text>,
    /// How its numbers are shown.
    pub show: Format,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Row {
    /// One cell a column.
    pub cells: Vec<Cell>,
}

/// A cell: what it says, where that is from, what is to be said about it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Cell {
    #[serde(flatten)]
    pub content: Content,
    /// The results it rests on, by label.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub of: Vec<String>,
    /// How many GPUs those held.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gpus: Option<u32>,
    /// What its mean is of, where a place among these means the same in other cells too.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub values: Vec<f64>,
    /// The mean of what its median is of, where those have no such places.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mean: Option<f64>,
    /// With how many significant digits an earlier figure was given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub digits: Option<u8>,
    /// Positions in the table's notes.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<usize>,
}

/// What a cell says.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Content {
    /// A number, in the unit that metrics have.
    Number {
        /// The number; of several, their mean or median.
        value: f64,
        /// How they spread, of several.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        spread: Option<Spread>,
        /// The standard error of the number, where it is known.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        error: Option<f64>,
    },
    /// Something declared or told, as it was written; and as a number, if it is one.
    Text {
        text: String,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        number: Option<f64>,
    },
    /// How the instance ended, where there is no number because of it.
    Outcome {
        outcome: Outcome,
        /// Out of memory: it was a GPU's.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        gpu: bool,
    },
    /// The program reported NaN or an infinite number.
    NotFinite { what: NotFinite },
    /// There is a number, but it is not to be trusted.
    Spoiled,
    /// There are several, taken under unlike circumstances.
    Unlike,
    /// A growth rate from one number of GPUs to another would mean nothing.
    GpusChange {
        /// GPUs of the row above.
        from: u32,
        /// GPUs of this row.
        to: u32,
    },
    /// Not measured, or nothing to compare with: `—`.
    Absent,
}

/// How many ended in the same way.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Ended {
    pub outcome: Outcome,
    /// Out of memory: it was a GPU's.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub gpu: bool,
    pub n: u32,
}

/// How several numbers spread.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Spread {
    /// Around their mean: standard deviation, and how many.
    Sd(f64, u32),
    /// Around their median: least, largest, and how many.
    Range(f64, f64, u32),
    /// Around their mean: half the width of its 95 % confidence interval, and of how many.
    Interval(f64, u32),
}

/// What is to be said about cells, or about the table.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "note", rename_all = "snake_case")]
pub enum Note {
    /// Numbers are means ± standard deviations.
    Mean {
        /// Of how many; the least where it varies.
        of: u32,
        over: Vec<String>,
    },
    /// Numbers are medians with their range.
    Median {
        /// Of how many; the least where it varies.
        of: u32,
    },
    /// Numbers are means of simulations, with half the width of their 95 % confidence intervals.
    Simulated {
        /// Of how many; the least where it varies.
        of: u32,
    },
    /// Not averaged.
    Unlike {
        /// What differs: `cpus`, `gpu_model`, …
        what: String,
        one: String,
        other: String,
    },
    /// Why a measurement is not to be trusted.
    Spoiled { label: String, reasons: Vec<Spoiled> },
    /// Numbers were not found where they were said to be.
    NoMetrics {
        label: String,
        /// How many more there are.
        more: u32,
        problem: NoMetrics,
    },
    /// Metrics may not be those of the whole attempt.
    Caveats { label: String, caveats: Vec<Caveat> },
    /// The rows are epochs, or steps, and this metric was printed without one.
    OfTheWhole { name: String, axis: String },
    /// Rows were to be epochs, and the values have steps only.
    StepsOnly,
    /// Fewer results than there are instances.
    Partial {
        used: u32,
        of: u32,
        /// How those ended that did not end well.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        ended: Vec<Ended>,
    },
    /// What ratios and speed-ups compare with.
    Baseline {
        /// `version=v7`; empty for the first row.
        of: String,
    },
    /// No result has a column of this name.
    NoColumn {
        name: String,
        /// The nearest that there is.
        nearest: Option<String>,
    },
    /// Old results were kept for changed fingerprints.
    Accepted {
        label: String,
        /// How many more there are.
        more: u32,
        /// The reason that was given.
        reason: String,
    },
    /// Some went on from a checkpoint of an attempt that was killed together with flow: their times lack a part.
    Resumed {
        label: String,
        /// How many more there are.
        more: u32,
        /// No part is missing, but the wall times that the table shows are of several attempts.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        whole: bool,
    },
    /// What a program reports is no number.
    NotANumber,
    /// A program's metric has the name of one of flow's own measurements.
    Hidden { name: String },
    /// Some ran beside other attempts of flow's, others alone.
    Company {
        /// How many ran alone.
        alone: u32,
        of: u32,
    },
    /// A reference that is not meant here.
    NoReference { file: String },
    /// A column of a reference that nothing was taken from, and what may be meant by it.
    Untaken { file: String, head: String, nearest: String },
    /// Lines of a reference that are of the same place as an earlier one.
    Again {
        file: String,
        lines: u32,
        /// The place of the first.
        first: String,
    },
    /// Lines of a reference that are no row here.
    Unmatched {
        file: String,
        lines: u32,
        /// The place of the first.
        first: String,
    },
    /// Another machine's results were asked for with another parameter.
    OtherParameter { machine: String, name: String, theirs: String, own: String },
    /// An input file of a step was another one on another machine.
    OtherInput { machine: String, file: String },
    /// Files and parameters are the same there; the command, its environment or what other steps made are not.
    OtherProgram { machine: String },
    /// There is nothing of another machine.
    NoMachines,
    /// GPU memory is the card's against its state before the start.
    Unverified,
}

impl Cell {
    /// A cell that says this and rests on nothing.
    pub(crate) fn new(content: Content) -> Self {
        Cell { content, of: Vec::new(), gpus: None, values: Vec::new(), mean: None, digits: None, notes: Vec::new() }
    }

    /// Its number, if it has one.
    pub fn number(&self) -> Option<f64> {
        match &self.content {
            Content::Number { value, .. } => Some(*value),
            Content::Text { number, .. } => *number,
            _ => None,
        }
    }

    /// Nothing could be measured: memory did not suffice, or it was never started.
    pub(crate) fn had_nothing_to_say(&self) -> bool {
        let ended = |outcome| matches!(outcome, Outcome::OutOfMemory | Outcome::DoesNotFit | Outcome::Skipped);
        matches!(self.content, Content::Outcome { outcome, .. } if ended(outcome))
    }

    /// The standard error of its number, where it is known.
    pub fn error(&self) -> Option<f64> {
        match &self.content {
            Content::Number { error, .. } => *error,
            _ => None,
        }
    }
}

impl Cell {
    /// How its number spreads, from where to where; nothing where all were the same.
    pub(crate) fn ends(&self) -> Option<(Spread, f64, f64)> {
        let Content::Number { value, spread: Some(spread), .. } = self.content else { return None };
        let (low, high) = match spread {
            Spread::Sd(half, _) | Spread::Interval(half, _) => (value - half, value + half),
            Spread::Range(least, most, _) => (least, most),
        };
        (low < high).then_some((spread, low, high))
    }
}

impl Spread {
    /// The end of its message keys.
    pub(crate) fn key(self) -> &'static str {
        match self {
            Spread::Sd(..) => "sd",
            Spread::Range(..) => "range",
            Spread::Interval(..) => "interval",
        }
    }
}

impl Note {
    /// That old results were kept, in one note for each reason, from their labels and reasons.
    pub(crate) fn accepted<'a>(kept: impl Iterator<Item = (&'a str, &'a str)>) -> Vec<Note> {
        let mut notes: IndexMap<&str, (&str, u32)> = IndexMap::new();
        for (label, reason) in kept {
            notes.entry(reason).and_modify(|(_, more)| *more += 1).or_insert((label, 0));
        }
        let note = |(reason, (label, more)): (&str, (&str, u32))| Note::Accepted {
            label: label.to_owned(),
            more,
            reason: reason.to_owned(),
        };
        notes.into_iter().map(note).collect()
    }
}

impl Table {
    /// The table that a step made.
    pub(crate) fn of(view: &StepView) -> Option<Result<Table, serde_json::Error>> {
        view.files.iter().find_map(|files| files.get("table.json")).map(|json| serde_json::from_slice(json))
    }

    /// The position of a note, added if it is new.
    pub(crate) fn note(&mut self, note: Note) -> usize {
        self.notes.iter().position(|n| *n == note).unwrap_or_else(|| {
            self.notes.push(note);
            self.notes.len() - 1
        })
    }

    /// The position of a column.
    pub fn find(&self, name: &str, derived: Option<Derived>, part: Option<&str>) -> Option<usize> {
        let fits = |c: &Column| c.name == name && c.derived == derived;
        // A column that does not differ between the parts stands once, for all of them.
        self.columns
            .iter()
            .position(|c| fits(c) && c.part.as_deref() == part)
            .or_else(|| self.columns.iter().position(|c| fits(c) && c.part.is_none()))
    }

    /// The parts of the split; one that is none, without.
    pub fn parts(&self) -> Vec<Option<&str>> {
        match &self.split {
            Some((_, values)) => values.iter().map(|v| Some(v.as_str())).collect(),
            None => vec![None],
        }
    }

    /// A value of the split, or a difference of two, where its axis is not beside it.
    pub(crate) fn point(&self, part: &str) -> Option<String> {
        let (axis, _) = self.split.as_ref()?;
        let values: Vec<String> = part.split(" − ").map(|value| crate::columns::point(axis, value)).collect();
        Some(values.join(" − "))
    }

    /// The labels of all results that it rests on.
    pub fn labels(&self) -> std::collections::BTreeSet<&str> {
        self.body.iter().flat_map(|r| &r.cells).flat_map(|c| &c.of).map(String::as_str).collect()
    }
}

/// What to say of the columns that no result has, each with the nearest name or the metrics that there are.
pub(crate) fn unknown_columns(table: &Table, input: &BuiltinInput) -> Vec<String> {
    let results = input.steps.values().flat_map(|view| &view.results);
    let metrics: BTreeSet<&str> = results.flat_map(|result| result.metrics.keys()).map(String::as_str).collect();
    let unknown = |note: &Note| {
        let Note::NoColumn { name, nearest } = note else { return None };
        let hint = match nearest {
            Some(nearest) => format!("; did you mean `{nearest}`?"),
            None if metrics.is_empty() => String::new(),
            None => {
                let all: Vec<String> = metrics.iter().map(|metric| format!("`{metric}`")).collect();
                format!("; the metrics are {}", all.join(", "))
            }
        };
        Some(format!("no result has the column `{name}`{hint}"))
    };
    table.notes.iter().filter_map(unknown).collect()
}

/// What to say of a column that a table has not.
pub(crate) fn unknown_column(table: &Table, name: &str) -> BuiltinFault {
    let known = || table.columns.iter().filter(|column| column.derived.is_none()).map(|column| column.name.as_str());
    let hint = match nearest(name, known()) {
        Some(near) => Hint::DidYouMean { near: near.to_owned() },
        None => Hint::ItHas { names: known().collect::<BTreeSet<_>>().into_iter().collect() },
    };
    BuiltinFault::NoSuchColumn { table: table.from.clone(), column: name.to_owned(), hint }
}
