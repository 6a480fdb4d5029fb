//! The parameters of `flow/table`.

use flow_core::reason::BuiltinFault;
use indexmap::IndexMap;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// `with:` of `flow/table`.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct TableWith {
    /// The step whose results fill the table.
    #[schemars(extend("x-flow" = "step"))]
    pub from: String,
    /// Which of its instances, by values of axes: `{policy: fifo}`. By default all.
    #[serde(default, rename = "where", skip_serializing_if = "IndexMap::is_empty")]
    pub only: IndexMap<String, Value>,
    /// The axis, or axes, that make the rows; by default every axis that nothing else names. `epoch` gives a row to each epoch, `step` to each step.
    #[serde(default)]
    pub rows: OneOrMany,
    /// An axis whose values stand beside each other: every measured column once for each.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub split: Option<String>,
    /// Names of axes, metrics, usage or parameters, or `growth(x)`, `ratio(x)`, `speedup(x)`, `difference(x)` of one.
    #[schemars(length(min = 1))]
    pub columns: Vec<ColumnWith>,
    /// The axis, or axes, over which numbers become mean ± standard deviation.
    #[serde(default)]
    pub over: OneOrMany,
    /// What `ratio` and `speedup` compare with: values of axes, `{version: v7}`. By default the first row.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub baseline: Option<IndexMap<String, Value>>,
    /// Also what runs of this workflow came to on other machines (`flow import`); each machine is a value of the axis `machine`.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub machines: bool,
    /// What values of axes are called in reports: `{version: {v7: {en: v7 (folders), zh: v7（文件夹）}}}`.
    #[serde(default, skip_serializing_if = "IndexMap::is_empty")]
    pub labels: IndexMap<String, IndexMap<String, Text>>,
    /// Earlier figures, which stand beside those of now, matched by the axes; what is computed and found of the ones is of the others too.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reference: Option<ReferenceWith>,
}

/// Earlier figures.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ReferenceWith {
    /// A CSV file whose first line names its columns, perhaps with their units: `epoch_time [s]`. A `table.csv` is one.
    #[schemars(extend("x-flow" = "path"))]
    pub file: String,
    /// What is called otherwise there: `{epoch_time: epoch_s, gpu_memory: "mem_mib [MiB]"}`; null takes nothing from the file.
    /// `epoch_time together` is the time in the co-run group that a report shows beside the table.
    #[serde(default, skip_serializing_if = "IndexMap::is_empty")]
    pub columns: IndexMap<String, Option<String>>,
    /// Which of its lines, by what their cells say: `{device: gpu}`. By default all.
    #[serde(default, rename = "where", skip_serializing_if = "IndexMap::is_empty")]
    pub only: IndexMap<String, Value>,
    /// Where this is false the figures are left out, and the table says so: `${{ machine.gpus > 0 }}`.
    #[serde(default = "always")]
    pub when: bool,
    /// What is written over its columns; by default that they are earlier.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub label: Option<Text>,
}

fn always() -> bool {
    true
}

impl ReferenceWith {
    /// The file's name: where it lies is another on every machine.
    pub(crate) fn name(&self) -> &str {
        self.file.rsplit('/').next().unwrap_or(&self.file)
    }
}

/// A column: its name, or its name with a label of the author's.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[serde(untagged, expecting = "a column is a name, or `{column: NAME, label: {en: …, zh: …}}`")]
pub enum ColumnWith {
    /// `epoch_time`
    Name(String),
    /// `{column: epoch_time, label: {en: Time, zh: 用时}}`
    Labelled(Labelled),
}

impl ColumnWith {
    /// What it names, without its label.
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
pub struct Labelled {
    /// Its name.
    pub column: String,
    /// Its label by language, which is text and no Markdown: pictures show it too.
    pub label: Text,
}

/// A text of the author's: the same in all languages, or one for each.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(untagged, expecting = "a text is a string, or one for each language, `{en: …, zh: …}`")]
pub enum Text {
    /// For every language.
    Same(String),
    /// By language.
    By(ByLanguage),
}

/// A text in some of the languages that there are.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ByLanguage {
    /// In English.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub en: Option<String>,
    /// In Chinese.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub zh: Option<String>,
}

impl Text {
    /// The text in a language; that of another where this one is missing, so that nothing the author wrote is lost.
    pub fn of(&self, lang: &str) -> &str {
        match self {
            Text::Same(text) => text,
            Text::By(by) => by.of(lang),
        }
    }
}

impl ByLanguage {
    /// The text in a language, or else in the other.
    pub fn of(&self, lang: &str) -> &str {
        let (first, second) = if lang == "zh" { (&self.zh, &self.en) } else { (&self.en, &self.zh) };
        first.as_ref().or(second.as_ref()).map_or("", String::as_str)
    }
}

/// A name, or a list of names.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[serde(untagged, expecting = "expected a name or a list of names")]
pub enum OneOrMany {
    /// One.
    One(String),
    /// Several.
    Many(Vec<String>),
}

impl Default for OneOrMany {
    fn default() -> Self {
        OneOrMany::Many(Vec::new())
    }
}

impl OneOrMany {
    pub fn list(&self) -> &[String] {
        match self {
            OneOrMany::One(one) => std::slice::from_ref(one),
            OneOrMany::Many(many) => many,
        }
    }
}

/// What a column computes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Derived {
    /// Relative change against the row above.
    Growth,
    /// Value over the baseline's.
    Ratio,
    /// The baseline's value over this one.
    Speedup,
    /// The second value of the split less the first.
    Difference,
}

/// Reads `growth(epoch_time)` or a bare name.
pub(crate) fn parse_column(text: &str) -> Result<(Option<Derived>, String), BuiltinFault> {
    let text = text.trim();
    let Some((function, rest)) = text.split_once('(') else {
        return Ok((None, text.to_owned()));
    };
    let derived = match function.trim() {
        "growth" => Derived::Growth,
        "ratio" => Derived::Ratio,
        "speedup" => Derived::Speedup,
        "difference" => Derived::Difference,
        other => {
            return Err(BuiltinFault::NoSuchFunction { column: text.to_owned(), function: other.to_owned() });
        }
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
