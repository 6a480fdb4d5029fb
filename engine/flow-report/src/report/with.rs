//! The parameters of `flow/report`.

use indexmap::IndexMap;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::table::{MACHINE, SeriesUnit, Table, Text};
use crate::verdict::Resource;

/// Parameters (`with:`) of a `flow/report` step.
#[serde_with::skip_serializing_none]
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct ReportWith {
    /// Languages of the report, in this order: `en`, `zh`.
    #[serde(default = "english")]
    #[schemars(length(min = 1))]
    pub(crate) languages: Vec<Language>,
    /// Sections of the report, in this order.
    #[schemars(length(min = 1))]
    pub(crate) sections: Vec<SectionWith>,
    /// One file per language: `NAME.md` and `NAME/zh.md`. By default one file has all languages, one below the other.
    #[serde(default)]
    pub(crate) split: bool,
    /// Date of the report, such as `2026-02-08`. By default the date of its newest result.
    pub(crate) date: Option<String>,
    /// More lines for the set-up list, in Markdown, for facts that flow cannot know.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) setup: Vec<SetupWith>,
    /// Text of your own template, in place of the built-in one. Its variables hold finished Markdown.
    pub(crate) template: Option<String>,
}

fn english() -> Vec<Language> {
    vec![Language::En]
}

/// A language that has a catalogue.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Language {
    En,
    Zh,
}

impl Language {
    /// The language code, which also names the catalogue.
    pub(crate) fn code(self) -> &'static str {
        match self {
            Language::En => "en",
            Language::Zh => "zh",
        }
    }
}

/// A line of the set-up list.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct SetupWith {
    /// The label.
    pub(crate) label: Text,
    /// The value.
    pub(crate) value: Value,
}

/// A value in the set-up list.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[serde(untagged, expecting = "a value is a text, a number, or a text for each language")]
pub(crate) enum Value {
    /// A number.
    Number(serde_json::Number),
    /// A text.
    Text(Text),
}

/// A section: a table, with an optional co-run verdict and an optional comparison of two values.
#[serde_with::skip_serializing_none]
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct SectionWith {
    /// The `flow/table` step that the section shows.
    #[schemars(extend("x-flow" = "step"))]
    pub(crate) table: String,
    /// A co-run step. Its members are compared with the runs of the step that its `like:` names.
    #[schemars(extend("x-flow" = "step"))]
    pub(crate) corun: Option<String>,
    /// The axis of the table's `split`, which must have two values. The section compares them.
    pub(crate) compare: Option<String>,
    /// Estimated and measured columns, `{estimated: measured}`. The section reports how far each estimate is off.
    #[serde(default, skip_serializing_if = "IndexMap::is_empty")]
    pub(crate) estimates: IndexMap<String, String>,
    /// `flow/fit`, `flow/jumps` and `flow/best` steps on this table. The section shows their numbers, curves and
    /// sentences.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) analyses: Vec<StepName>,
    /// More charts, in one of three forms. The name of a column draws it over the last axis of the rows, one line per
    /// point of the other axes. `{column: valid_loss, over: epoch}` draws a metric of each instance over its epochs.
    /// `{load: {batch: 16}}` draws load and memory over time for the instance with these axis values.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) charts: Vec<ChartWith>,
    /// Simulations whose schedules are drawn: one lane per GPU, with the host's CPU and the number of waiting jobs
    /// below.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) schedules: Vec<ScheduleWith>,
    /// For a table with one row per policy: a row of another table, which is split by policy. The section reports
    /// whether both have the policies in the same order.
    pub(crate) order_of: Option<OrderWith>,
    /// Pictures that steps drew and kept as outputs: PNG, JPEG or WebP, at most 4 MiB each.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) pictures: Vec<PictureWith>,
    /// A member that is slower than alone by at most this share still counts as parallel. Default: 0.1.
    #[schemars(range(min = 0, max = 1))]
    pub(crate) tolerance: Option<f64>,
    /// Heading, in Markdown. By default the step and its rows.
    pub(crate) title: Option<Text>,
    /// Answer of the section, in Markdown. By default flow computes it.
    pub(crate) answer: Option<Text>,
    /// The author's question, guess and to-do, in Markdown.
    #[serde(default)]
    pub(crate) notes: Notes,
    /// Links to the sources of an idea: `https://…`, `http://…`, `mailto:…` and relative paths.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) see: Vec<String>,
}

impl SectionWith {
    /// The section as a comparison of the machines of its table, if the table has a column of each.
    pub(super) fn by_machine(&self, table: &Table) -> Option<SectionWith> {
        let is_split = table.split.as_ref().is_some_and(|(axis, _)| axis == MACHINE);
        let compare = Some(MACHINE.to_owned());
        (is_split && self.compare != compare).then(|| SectionWith { compare, ..self.clone() })
    }

    /// Whether the section compares machines.
    pub(super) fn compares_machines(&self) -> bool {
        self.compare.as_deref() == Some(MACHINE)
    }
}

/// A chart of `charts:`.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[serde(
    untagged,
    expecting = "a chart is the name of a column, `{column: NAME, over: epoch}`, or `{load: {AXIS: VALUE}}`"
)]
pub(crate) enum ChartWith {
    /// A column of the table.
    Column(String),
    /// A metric over the epochs or steps of each instance.
    Over(OverWith),
    /// Load and memory over time.
    Load(LoadWith),
}

/// Load and memory of one instance over time.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct LoadWith {
    /// The instance, chosen by axis values.
    pub(crate) load: IndexMap<String, serde_json::Value>,
}

/// A metric over epochs or steps.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct OverWith {
    /// The metric.
    pub(crate) column: String,
    /// `epoch` or `step`.
    pub(crate) over: SeriesUnit,
}

/// The name of a step.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[serde(transparent)]
#[schemars(extend("x-flow" = "step"))]
pub(crate) struct StepName(pub(crate) String);

/// The schedule of one simulated instance.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct ScheduleWith {
    /// The `flow/simulate` step.
    #[schemars(extend("x-flow" = "step"))]
    pub(crate) from: String,
    /// The instance, chosen by axis values: `{policy: fifo, density: 0.9}`.
    #[serde(default, rename = "where", skip_serializing_if = "IndexMap::is_empty")]
    pub(crate) at: IndexMap<String, serde_json::Value>,
}

/// A row of another table.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct OrderWith {
    /// The `flow/table` step.
    #[schemars(extend("x-flow" = "step"))]
    pub(crate) table: String,
    /// The row, chosen by axis values: `{density: 0.9}`. By default the only row.
    #[serde(default, rename = "where", skip_serializing_if = "IndexMap::is_empty")]
    pub(crate) at: IndexMap<String, serde_json::Value>,
}

/// A picture that a step drew.
#[serde_with::skip_serializing_none]
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct PictureWith {
    /// The step.
    #[schemars(extend("x-flow" = "step"))]
    pub(crate) from: String,
    /// The name of the output. By default the only output that is a picture.
    pub(crate) output: Option<String>,
    /// The instance, chosen by axis values. By default the only one.
    #[serde(default, rename = "where", skip_serializing_if = "IndexMap::is_empty")]
    pub(crate) at: IndexMap<String, serde_json::Value>,
    /// Caption, as plain text. By default the name of the instance.
    pub(crate) title: Option<Text>,
}

/// The author's question, guess and to-do.
#[serde_with::skip_serializing_none]
#[derive(Clone, Debug, Default, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Notes {
    /// The question that the section should answer.
    pub(crate) question: Option<Text>,
    /// The author's guess at the reason. With `resource`, the report says whether the measurements agree.
    pub(crate) guess: Option<Guess>,
    /// An idea to try next.
    pub(crate) todo: Option<Text>,
}

/// A guess: a text, or a text with the suspected resource.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[serde(untagged, expecting = "a guess is a text, or `{resource: cpu, en: …, zh: …}`")]
pub(crate) enum Guess {
    /// A guess that names a resource.
    Attributed(Attribution),
    /// Text only, which flow cannot check.
    Words(Text),
}

/// A guess that the measurements can confirm or refute.
#[serde_with::skip_serializing_none]
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Attribution {
    /// The suspected resource: `cpu`, `memory`, `gpu`, `gpu_memory`, `gpu_memory_traffic`, `data`.
    pub(crate) resource: Resource,
    /// The guess in English.
    pub(crate) en: Option<String>,
    /// The guess in Chinese.
    pub(crate) zh: Option<String>,
}
