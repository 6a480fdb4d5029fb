//! The table as a value, which `table.json` contains and reports read.

use std::collections::{BTreeMap, BTreeSet};

use flow_core::reason::{BuiltinFault, Hint};
use flow_core::{
    BuiltinInput, Outcome, StepView, nearest,
    reason::{Cause, Caveat, Disturbance, NoMetrics},
};
use indexmap::IndexMap;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::with::{ComputedFunction, Text};
use crate::Format;
use crate::caveats::Caveats;
use crate::columns::{self, NotFinite};

/// The version of `table.json`.
pub(crate) const TABLE_FORMAT: u32 = 2;

/// A table of results.
#[serde_with::skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Table {
    /// Version of this layout.
    pub(crate) format: u32,
    /// The step whose results it shows.
    pub(crate) from: String,
    /// The instances that it shows, by axis values.
    #[serde(default, rename = "where", skip_serializing_if = "IndexMap::is_empty")]
    pub(crate) only: IndexMap<String, Value>,
    /// The axes that make the rows. They are the first columns.
    pub(crate) rows: Vec<String>,
    /// The axis that is split into columns, and its values.
    pub(crate) split: Option<(String, Vec<String>)>,
    pub(crate) columns: Vec<Column>,
    pub(crate) body: Vec<Row>,
    /// Displayed names of axis values, by axis.
    #[serde(default, skip_serializing_if = "IndexMap::is_empty")]
    pub(crate) labels: IndexMap<String, IndexMap<String, Text>>,
    /// Notes on cells or on the whole table.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) notes: Vec<Note>,
    /// Caveats of results of other machines, by label. A report knows these results only from the table.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub(crate) foreign_caveats: BTreeMap<String, Caveats>,
    /// The reason why there is nothing to show.
    pub(crate) absent: Option<Cause>,
    /// Earlier figures next to this table.
    pub(crate) reference: Option<Box<Reference>>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Reference {
    /// The file with the figures.
    pub(crate) file: String,
    /// The header of their columns.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) label: Option<Text>,
    /// The earlier figures, with rows of the current table in the same order.
    pub(crate) table: Table,
    /// Times that were measured in a co-run group.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) together: Vec<InGroup>,
}

/// An earlier time of a member of a co-run group.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct InGroup {
    pub(crate) axes: IndexMap<String, Value>,
    /// The measure, such as `epoch_time`.
    pub(crate) name: String,
    pub(crate) value: f64,
}

#[serde_with::skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Column {
    /// The axis, metric, measured column or parameter that it shows.
    pub(crate) name: String,
    /// The function that is computed from it, if any.
    pub(crate) derived: Option<ComputedFunction>,
    /// The value of the split that it belongs to.
    pub(crate) part: Option<String>,
    /// Whether it names the row.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(crate) key: bool,
    /// Whether it shows earlier figures.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(crate) earlier: bool,
    /// The author's label.
    pub(crate) label: Option<Text>,
    /// The author's label of the column that it is computed from.
    pub(crate) of: Option<Text>,
    /// The format of its numbers.
    pub(crate) show: Format,
}

impl Column {
    /// Whether it is a duration.
    pub(crate) fn is_time(&self) -> bool {
        matches!(self.show.unit.as_str(), "ms" | "s" | "min" | "h" | "µs") || self.name.ends_with("_time")
    }

    /// Whether other programs on the machine change it: a duration, a rate, or a measure of flow.
    pub(crate) fn depends_on_load(&self) -> bool {
        self.is_time() || self.show.unit.ends_with("/s") || columns::USAGE.iter().any(|of| of.name == self.name)
    }
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Row {
    /// One cell per column.
    pub(crate) cells: Vec<Cell>,
}

/// A cell: its content, the results behind it, and its notes.
#[serde_with::skip_serializing_none]
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Cell {
    #[serde(flatten)]
    pub(crate) content: Content,
    /// Labels of the results behind it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) of: Vec<String>,
    /// The number of GPUs of those results.
    pub(crate) gpus: Option<u32>,
    /// The values behind its mean, if the same place means the same in other cells, for example the same seed.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) values: Vec<f64>,
    /// The mean of the values behind its median, if they have no such places.
    pub(crate) mean: Option<f64>,
    /// The number of significant digits with which an earlier figure was given.
    pub(crate) digits: Option<u8>,
    /// Positions in the table's notes.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) notes: Vec<usize>,
}

/// The content of a cell.
#[serde_with::skip_serializing_none]
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub(crate) enum Content {
    /// A number, in the unit of its metric.
    Number {
        /// The number, or the mean or median of several.
        value: f64,
        /// The spread of several numbers.
        spread: Option<Spread>,
        /// The standard error of the number, if it is known.
        error: Option<f64>,
    },
    /// A declared or reported value as it was written, and as a number if it is one.
    Text { text: String, number: Option<f64> },
    /// The outcome of the instance, if that is why there is no number.
    Outcome {
        outcome: Outcome,
        /// Whether it was a GPU that ran out of memory.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        gpu: bool,
    },
    /// The program reported NaN or an infinite number.
    NotFinite { what: NotFinite },
    /// There is a number, but the measurement was disturbed.
    Disturbed,
    /// There are several numbers, measured under different circumstances.
    Unlike,
    /// A growth rate between different numbers of GPUs would mean nothing.
    GpusChange {
        /// GPUs of the row above.
        from: u32,
        /// GPUs of this row.
        to: u32,
    },
    /// Not measured, or nothing to compare with: `—`.
    Absent,
}

/// How many results have the same outcome.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct OutcomeCount {
    pub(crate) outcome: Outcome,
    /// Whether it was a GPU that ran out of memory.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(crate) gpu: bool,
    pub(crate) n: u32,
}

/// The spread of several numbers.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Spread {
    /// Around their mean: the standard deviation and the count.
    Sd(f64, u32),
    /// Around their median: min, max and count.
    Range(f64, f64, u32),
    /// Around their mean: half the width of the 95% confidence interval, and the count.
    Interval(f64, u32),
}

/// What the numbers of a table with repetitions are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Center {
    /// Each is of one run.
    #[default]
    Single,
    Mean,
    Median,
}

/// A note on cells or on the whole table.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "note", rename_all = "snake_case")]
pub(crate) enum Note {
    /// Numbers are means ± standard deviations.
    Mean {
        /// How many values there are; the min if that varies.
        of: u32,
        /// The max.
        #[serde(default)]
        most: u32,
        over: Vec<String>,
        /// The values of each of these axes.
        #[serde(default)]
        values: Vec<Vec<String>>,
    },
    /// Numbers are medians with their range.
    Median {
        /// How many values there are; the min if that varies.
        of: u32,
        /// The max.
        #[serde(default)]
        most: u32,
    },
    /// Numbers are means of simulations, with half the width of their 95% confidence intervals.
    Simulated {
        /// How many values there are; the min if that varies.
        of: u32,
    },
    /// Results were not averaged, because their circumstances differ.
    Unlike {
        /// The difference: `cpus`, `gpu_model`, …
        what: String,
        one: String,
        other: String,
    },
    /// The reasons why a measurement was disturbed.
    Disturbed { label: String, reasons: Vec<Disturbance> },
    /// No numbers were found at their declared source.
    NoMetrics {
        label: String,
        /// How many more results have this note.
        more: u32,
        problem: NoMetrics,
    },
    /// Metrics may not cover the whole attempt.
    Caveats { label: String, caveats: Vec<Caveat> },
    /// The rows are epochs or steps, and this metric was printed without one.
    OfTheWhole { name: String, axis: String },
    /// The rows should be epochs, but the values have only steps.
    StepsOnly,
    /// An `epoch_time` is missing, because the time before the first line includes start-up.
    StartUp,
    /// There are fewer usable results than instances.
    Partial {
        used: u32,
        of: u32,
        /// The outcomes of the others.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        ended: Vec<OutcomeCount>,
    },
    /// The point that ratios and speed-ups compare with.
    Baseline {
        /// `version=v7`; empty for the first row.
        of: String,
    },
    /// No result has a column of this name.
    NoColumn {
        name: String,
        /// The nearest existing name.
        nearest: Option<String>,
    },
    /// Old results were accepted for changed fingerprints.
    Accepted {
        label: String,
        /// How many more results have this note.
        more: u32,
        /// The reason that the user gave.
        reason: String,
    },
    /// Some attempts resumed from a checkpoint of an attempt that was killed together with flow, so their times lack a
    /// part.
    Resumed {
        label: String,
        /// How many more results have this note.
        more: u32,
        /// No part is missing, but the wall times in the table cover several attempts.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        whole: bool,
    },
    /// A program reported a value that is not a finite number.
    NotANumber,
    /// A program's metric has the name of one of flow's own measurements.
    Hidden { name: String },
    /// Some ran alongside other attempts of flow, others alone.
    Company {
        /// How many ran alone.
        alone: u32,
        of: u32,
    },
    /// A reference whose `when:` is false.
    NoReference { file: String },
    /// A column of a reference that was not used, and the name that was probably meant.
    Untaken { file: String, head: String, nearest: String },
    /// Lines of a reference that have the same place as an earlier line.
    Again {
        file: String,
        lines: u32,
        /// The place of the first such line.
        first: String,
    },
    /// Lines of a reference that match no row.
    Unmatched {
        file: String,
        lines: u32,
        /// The place of the first such line.
        first: String,
    },
    /// The results of another machine have another value of a parameter.
    OtherParameter { machine: String, name: String, theirs: String, own: String },
    /// An input file of a step differs on another machine.
    OtherInput { machine: String, file: String },
    /// Files and parameters are the same there, but the command, its environment or the outputs of other steps differ.
    OtherProgram { machine: String },
    /// The results come from different software environments.
    Environments {
        varying: Vec<VaryingVersion>,
        /// How many more differences there are.
        more: u32,
    },
    /// There are no results of another machine.
    NoMachines,
    /// GPU memory is that of the whole GPU, relative to its state before the start.
    Unverified,
}

/// A program or package that differs among results, with its versions; a program has none.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct VaryingVersion {
    pub(crate) name: String,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) values: Vec<String>,
}

impl Cell {
    /// A cell with this content and no results behind it.
    pub(crate) fn new(content: Content) -> Self {
        Cell { content, of: Vec::new(), gpus: None, values: Vec::new(), mean: None, digits: None, notes: Vec::new() }
    }

    /// Its text, if it is the value of an axis.
    pub(crate) fn text(&self) -> Option<&str> {
        match &self.content {
            Content::Text { text, .. } => Some(text),
            _ => None,
        }
    }

    /// Its number, if it has one.
    pub(crate) fn number(&self) -> Option<f64> {
        match &self.content {
            Content::Number { value, .. } => Some(*value),
            Content::Text { number, .. } => *number,
            _ => None,
        }
    }

    /// Its number, unless that is declared.
    pub(crate) fn measured(&self) -> Option<f64> {
        match self.content {
            Content::Number { value, .. } => Some(value),
            _ => None,
        }
    }

    /// Whether nothing could be measured, because memory did not suffice or the attempt never started.
    pub(crate) fn has_no_measurement(&self) -> bool {
        let ended = |outcome| matches!(outcome, Outcome::OutOfMemory | Outcome::DoesNotFit | Outcome::Skipped);
        matches!(self.content, Content::Outcome { outcome, .. } if ended(outcome))
    }

    /// The standard error of its number, if it is known.
    pub(crate) fn error(&self) -> Option<f64> {
        match &self.content {
            Content::Number { error, .. } => *error,
            _ => None,
        }
    }

    /// The spread of its number.
    pub(crate) fn spread(&self) -> Option<Spread> {
        match self.content {
            Content::Number { spread, .. } => spread,
            _ => None,
        }
    }

    /// The ends of its spread, from low to high; `None` if all numbers were the same.
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
    /// Suffix of its message keys.
    pub(crate) fn key(self) -> &'static str {
        match self {
            Spread::Sd(..) => "sd",
            Spread::Range(..) => "range",
            Spread::Interval(..) => "interval",
        }
    }
}

impl Note {
    /// Whether it says what the spreads of several results are.
    pub(crate) fn is_of_spreads(&self) -> bool {
        matches!(self, Note::Mean { .. } | Note::Median { .. })
    }

    /// Notes about accepted results, one per reason, from their labels and reasons.
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

    /// Whether it says that results of another machine come from another program.
    pub(crate) fn is_other_program(&self) -> bool {
        matches!(self, Note::OtherParameter { .. } | Note::OtherInput { .. } | Note::OtherProgram { .. })
    }
}

impl Table {
    /// The table that a step made; `None` if it made none.
    pub(crate) fn of(step: &str, view: &StepView) -> Result<Option<Table>, BuiltinFault> {
        let json = view.files.iter().find_map(|files| files.get("table.json"));
        json.map(|json| serde_json::from_slice(json))
            .transpose()
            .map_err(|e: serde_json::Error| BuiltinFault::TableUnread { step: step.to_owned(), message: e.to_string() })
    }

    /// The position of a note, which is added if it is new.
    pub(crate) fn note(&mut self, note: Note) -> usize {
        self.notes.iter().position(|n| *n == note).unwrap_or_else(|| {
            self.notes.push(note);
            self.notes.len() - 1
        })
    }

    /// What its numbers are.
    pub(crate) fn center(&self) -> Center {
        let center = self.notes.iter().find_map(|note| match note {
            Note::Mean { .. } | Note::Simulated { .. } => Some(Center::Mean),
            Note::Median { .. } => Some(Center::Median),
            _ => None,
        });
        center.unwrap_or_default()
    }

    /// The axes of its rows and its split.
    pub(crate) fn axes(&self) -> impl Iterator<Item = &str> {
        self.rows.iter().chain(self.split.iter().map(|(axis, _)| axis)).map(String::as_str)
    }

    /// Whether its results of other machines come from other parameters, inputs or programs than the own ones.
    pub(crate) fn mixes_programs(&self) -> bool {
        self.notes.iter().any(Note::is_other_program)
    }

    /// The position of a column.
    pub(crate) fn find(&self, name: &str, derived: Option<ComputedFunction>, part: Option<&str>) -> Option<usize> {
        let fits = |c: &Column| c.name == name && c.derived == derived;
        // A column that does not vary between the parts appears once, for all of them.
        self.columns
            .iter()
            .position(|c| fits(c) && c.part.as_deref() == part)
            .or_else(|| self.columns.iter().position(|c| fits(c) && c.part.is_none()))
    }

    /// The parts of the split; a single `None` without a split.
    pub(crate) fn parts(&self) -> Vec<Option<&str>> {
        match &self.split {
            Some((_, values)) => values.iter().map(|v| Some(v.as_str())).collect(),
            None => vec![None],
        }
    }

    /// A value of the split, or a difference of two, for places that do not show its axis.
    pub(crate) fn point(&self, part: &str) -> Option<String> {
        let (axis, _) = self.split.as_ref()?;
        let values: Vec<String> = part.split(" − ").map(|value| columns::point(axis, value)).collect();
        Some(values.join(" − "))
    }

    /// The name of a row in a part of the split: `lr=0.1, v7`.
    pub(crate) fn place(&self, row: &Row, part: Option<&str>) -> String {
        let keys = self.rows.iter().zip(&row.cells).filter_map(|(axis, key)| Some(columns::point(axis, key.text()?)));
        keys.chain(part.and_then(|part| self.point(part))).collect::<Vec<_>>().join(", ")
    }
}

/// A sentence for each column that no result has, with the nearest name or the existing metrics.
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

/// The error for a column that a table does not have.
pub(crate) fn unknown_column(table: &Table, name: &str) -> BuiltinFault {
    let known = || table.columns.iter().filter(|column| column.derived.is_none()).map(|column| column.name.as_str());
    let hint = match nearest(name, known()) {
        Some(near) => Hint::DidYouMean { near: near.to_owned() },
        None => Hint::ItHas { names: known().collect::<BTreeSet<_>>().into_iter().collect() },
    };
    BuiltinFault::NoSuchColumn { table: table.from.clone(), column: name.to_owned(), hint }
}
