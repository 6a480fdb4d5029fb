//! The parameters of `flow/table`.

use flow_core::reason::BuiltinFault;
use indexmap::IndexMap;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// Parameters (`with:`) of a `flow/table` step.
#[serde_with::skip_serializing_none]
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct TableWith {
    /// The step whose results fill the table.
    #[schemars(extend("x-flow" = "step"))]
    pub(crate) from: String,
    /// Only these instances, chosen by axis values: `{policy: fifo}`. By default all instances.
    #[serde(default, rename = "where", skip_serializing_if = "IndexMap::is_empty")]
    pub(crate) only: IndexMap<String, Value>,
    /// The axes that make the rows, in this order. By default every axis that no other key names. `epoch` or `step`
    /// gives a row to each epoch or step.
    #[serde(default)]
    pub(crate) rows: OneOrMany,
    /// An axis whose values become columns next to each other. Each measured column appears once per value.
    pub(crate) split: Option<String>,
    /// Axes, metrics, measured columns, parameters, or `growth(x)`, `ratio(x)`, `speedup(x)`, `difference(x)` of one.
    #[schemars(length(min = 1))]
    pub(crate) columns: Vec<ColumnWith>,
    /// The axes over which numbers become mean ± standard deviation.
    #[serde(default)]
    pub(crate) over: OneOrMany,
    /// The row that `ratio` and `speedup` compare with, as axis values: `{version: v7}`. By default the first row.
    pub(crate) baseline: Option<IndexMap<String, Value>>,
    /// `true` adds results of this workflow from other machines (`flow import`). Each machine is a value of the axis
    /// `machine`. If no key names this axis, each machine gets a column, and a `split` becomes the first rows.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(crate) machines: bool,
    /// Displayed names of axis values: `{version: {v7: {en: v7 (folders), zh: v7（文件夹）}}}`.
    #[serde(default, skip_serializing_if = "IndexMap::is_empty")]
    pub(crate) labels: IndexMap<String, IndexMap<String, Text>>,
    /// Earlier figures, shown next to the current ones and matched by the axes. Computed columns and findings cover
    /// both.
    pub(crate) reference: Option<ReferenceWith>,
}

/// Earlier figures, from a CSV file.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct ReferenceWith {
    /// A CSV file, such as a `table.csv`. Its first line names the columns, with units if needed: `epoch_time [s]`.
    #[schemars(extend("x-flow" = "path"))]
    pub(crate) file: String,
    /// Columns that have another name in the file: `{epoch_time: epoch_s, gpu_memory: "mem_mib [MiB]"}`. `null` leaves
    /// a column out. `epoch_time together` is the time in a co-run group, which a report shows next to the table.
    #[serde(default, skip_serializing_if = "IndexMap::is_empty")]
    pub(crate) columns: IndexMap<String, Option<String>>,
    /// Only these lines, chosen by their cells: `{device: gpu}`. By default all lines.
    #[serde(default, rename = "where", skip_serializing_if = "IndexMap::is_empty")]
    pub(crate) only: IndexMap<String, Value>,
    /// If false, the table leaves the figures out and says so. Example: `${{ machine.gpus > 0 }}`.
    #[serde(default = "always")]
    pub(crate) when: bool,
    /// Header of the columns with earlier figures. By default it says that they are earlier.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) label: Option<Text>,
}

fn always() -> bool {
    true
}

impl ReferenceWith {
    /// Name of the file without its folder, because folders differ between machines.
    pub(crate) fn name(&self) -> &str {
        self.file.rsplit('/').next().unwrap_or(&self.file)
    }
}

/// A column: its name, alone or with a label.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[serde(untagged, expecting = "a column is a name, or `{column: NAME, label: {en: …, zh: …}}`")]
pub(crate) enum ColumnWith {
    /// `epoch_time`
    Name(String),
    /// `{column: epoch_time, label: {en: Time, zh: 用时}}`
    Labelled(ColumnLabel),
}

impl ColumnWith {
    /// The name of the column, without its label.
    pub(crate) fn text(&self) -> &str {
        match self {
            ColumnWith::Name(name) => name,
            ColumnWith::Labelled(labelled) => &labelled.column,
        }
    }
}

/// A column with a label.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct ColumnLabel {
    /// Its name.
    pub(crate) column: String,
    /// The label in each language. It is plain text, not Markdown, because charts show it too.
    pub(crate) label: Text,
}

/// A text by the author: the same for all languages, or one per language.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(untagged, expecting = "a text is a string, or one for each language, `{en: …, zh: …}`")]
pub(crate) enum Text {
    /// One text for every language.
    Same(String),
    /// One text per language.
    By(ByLanguage),
}

/// A text in one or more languages.
#[serde_with::skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct ByLanguage {
    /// In English.
    pub(crate) en: Option<String>,
    /// In Chinese.
    pub(crate) zh: Option<String>,
}

impl Text {
    /// The text in a language. If it is missing, the text in another language, so that no text of the author is lost.
    pub(crate) fn of(&self, lang: &str) -> &str {
        match self {
            Text::Same(text) => text,
            Text::By(by) => by.of(lang),
        }
    }
}

impl ByLanguage {
    /// The text in a language, or in the other one if it is missing.
    pub(crate) fn of(&self, lang: &str) -> &str {
        let (first, second) = if lang == "zh" { (&self.zh, &self.en) } else { (&self.en, &self.zh) };
        first.as_ref().or(second.as_ref()).map_or("", String::as_str)
    }
}

/// A name, or a list of names.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[serde(untagged, expecting = "expected a name or a list of names")]
pub(crate) enum OneOrMany {
    /// One name.
    One(String),
    /// Several names.
    Many(Vec<String>),
}

impl Default for OneOrMany {
    fn default() -> Self {
        OneOrMany::Many(Vec::new())
    }
}

impl OneOrMany {
    pub(crate) fn list(&self) -> &[String] {
        match self {
            OneOrMany::One(one) => std::slice::from_ref(one),
            OneOrMany::Many(many) => many,
        }
    }
}

/// The function of a computed column.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum ComputedFunction {
    /// Relative change from the row above.
    Growth,
    /// Value divided by the baseline.
    Ratio,
    /// Baseline divided by the value.
    Speedup,
    /// Second value of the split minus the first.
    Difference,
}

/// Parses a bare column name, or a function of one such as `growth(epoch_time)`.
pub(crate) fn parse_column(text: &str) -> Result<(Option<ComputedFunction>, String), BuiltinFault> {
    let text = text.trim();
    let Some((function, rest)) = text.split_once('(') else {
        return Ok((None, text.to_owned()));
    };
    let Ok(derived) = serde_json::from_value(Value::from(function.trim())) else {
        let function = function.trim().to_owned();
        return Err(BuiltinFault::NoSuchFunction { column: text.to_owned(), function });
    };
    let Some(of) = rest.strip_suffix(')') else {
        return Err(BuiltinFault::ColumnNotClosed { column: text.to_owned() });
    };
    let of = of.trim();
    if of.is_empty() || of.contains(['(', ')', ',']) {
        let (column, example) = (text.to_owned(), format!("{function}(epoch_time)"));
        return Err(BuiltinFault::FunctionOfOne { column, function: function.to_owned(), example });
    }
    Ok((Some(derived), of.to_owned()))
}
