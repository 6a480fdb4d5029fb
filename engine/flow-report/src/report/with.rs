//! The parameters of `flow/report`.

use indexmap::IndexMap;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::table::Text;
use crate::verdict::Resource;

/// `with:` of `flow/report`.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct ReportWith {
    /// Languages, in order: `en`, `zh`.
    #[serde(default = "english")]
    #[schemars(length(min = 1))]
    pub(crate) languages: Vec<Language>,
    /// What the report shows, in order.
    #[schemars(length(min = 1))]
    pub(crate) sections: Vec<SectionWith>,
    /// A file for each language, `NAME.md` and `NAME/zh.md`; by default one file has all languages, one after the other.
    #[serde(default)]
    pub(crate) split: bool,
    /// The day of the report, `2026-02-08`; by default the day of its newest result.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) date: Option<String>,
    /// More lines of the set-up list, in Markdown: what flow cannot know.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) setup: Vec<SetupWith>,
    /// The text of a template of the author's, in place of the built-in one. What it is given is finished Markdown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) template: Option<String>,
}

fn english() -> Vec<Language> {
    vec![Language::En]
}

/// A language that there is a catalogue for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Language {
    En,
    Zh,
}

impl Language {
    /// The name of its catalogue of words.
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
    /// What it is.
    pub(crate) label: Text,
    /// Its value.
    pub(crate) value: Value,
}

/// A value of the set-up list.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[serde(untagged, expecting = "a value is a text, a number, or a text for each language")]
pub(crate) enum Value {
    /// A number.
    Number(serde_json::Number),
    /// A text.
    Text(Text),
}

/// A section: a table, perhaps with what running together did, or a comparison.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct SectionWith {
    /// The `flow/table` step that it shows.
    #[schemars(extend("x-flow" = "step"))]
    pub(crate) table: String,
    /// A co-run step; its members are compared with the step that it is `like`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-flow" = "step"))]
    pub(crate) corun: Option<String>,
    /// The axis by which the table is split, whose two values are compared.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) compare: Option<String>,
    /// Columns that tell others beforehand, `{estimated: measured}`: how far off they are is said.
    #[serde(default, skip_serializing_if = "IndexMap::is_empty")]
    pub(crate) estimates: IndexMap<String, String>,
    /// `flow/fit`, `flow/jumps` and `flow/best` steps of this table, whose figures, curves and sentences stand with it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) analyses: Vec<StepName>,
    /// What is drawn besides: a column of the table over the last axis of its rows, a line for each point of the others, or
    /// `{column: valid_loss, over: epoch}`, a metric of each instance over its epochs, or `{load: {batch: 16}}`, load and memory over the
    /// time of the instance with these values of axes.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) charts: Vec<ChartWith>,
    /// Simulations whose schedules are drawn: a lane a GPU, the host's CPU and who waits under them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) schedules: Vec<ScheduleWith>,
    /// Of a table with a row for each policy: a table that is split by policy, one of whose rows this order is compared with.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) order_of: Option<OrderWith>,
    /// Pictures that steps made and keep as outputs: PNG, JPEG or WebP, of 4 MiB at the most.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) pictures: Vec<PictureWith>,
    /// Slower than alone by up to this share is still parallel; 0.1 by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0, max = 1))]
    pub(crate) tolerance: Option<f64>,
    /// Its heading, in Markdown; by default the step and its rows.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) title: Option<Text>,
    /// What the section answers, in Markdown; by default what flow computes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) answer: Option<Text>,
    /// The author's question, guess and to-do, in Markdown.
    #[serde(default)]
    pub(crate) notes: Notes,
    /// Links to where an idea came from: `https://…`, `http://…`, `mailto:…` and relative paths.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) see: Vec<String>,
}

/// A chart that the author asks for.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[serde(
    untagged,
    expecting = "a chart is the name of a column, `{column: NAME, over: epoch}`, or `{load: {AXIS: VALUE}}`"
)]
pub(crate) enum ChartWith {
    /// A column of the table.
    Column(String),
    /// A metric along the epochs of each instance.
    Over(OverWith),
    /// Load and memory over time.
    Load(LoadWith),
}

/// Load and memory over the time of an instance.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct LoadWith {
    /// Which instance, by values of its axes.
    pub(crate) load: IndexMap<String, serde_json::Value>,
}

/// A metric along something else than the rows.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct OverWith {
    /// The metric.
    pub(crate) column: String,
    /// `epoch` or `step`.
    pub(crate) over: Along,
}

/// What a metric can be drawn along.
#[derive(Clone, Copy, Debug, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Along {
    /// The epochs of each instance.
    Epoch,
    /// The steps of each instance.
    Step,
}

impl Along {
    /// What the axis is called.
    pub(crate) fn axis(self) -> &'static str {
        match self {
            Along::Epoch => "epoch",
            Along::Step => "step",
        }
    }
}

/// The name of a step.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[serde(transparent)]
#[schemars(extend("x-flow" = "step"))]
pub(crate) struct StepName(pub(crate) String);

/// The schedule of an instance.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct ScheduleWith {
    /// The `flow/simulate` step.
    #[schemars(extend("x-flow" = "step"))]
    pub(crate) from: String,
    /// Which of its instances, by values of its axes: `{policy: fifo, density: 0.9}`.
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
    /// Which of its rows, by values of its axes: `{density: 0.9}`; by default the only one.
    #[serde(default, rename = "where", skip_serializing_if = "IndexMap::is_empty")]
    pub(crate) at: IndexMap<String, serde_json::Value>,
}

/// A picture that a step made.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct PictureWith {
    /// The step.
    #[schemars(extend("x-flow" = "step"))]
    pub(crate) from: String,
    /// Which of its outputs, by name; by default the one that is a picture.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) output: Option<String>,
    /// Which of its instances, by values of its axes; by default the only one.
    #[serde(default, rename = "where", skip_serializing_if = "IndexMap::is_empty")]
    pub(crate) at: IndexMap<String, serde_json::Value>,
    /// What it shows, as text; by default the instance.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) title: Option<Text>,
}

/// The author's own reasoning.
#[derive(Clone, Debug, Default, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Notes {
    /// What the section is to answer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) question: Option<Text>,
    /// What the author thinks the reason is; with `resource`, the report says whether the figures agree.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) guess: Option<Guess>,
    /// What to try next.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) todo: Option<Text>,
}

/// A guess: words, or words and the resource that they blame.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[serde(untagged, expecting = "a guess is a text, or `{resource: cpu, en: …, zh: …}`")]
pub(crate) enum Guess {
    /// Blames a resource.
    Blames(Blames),
    /// Words alone, which nothing can check.
    Words(Text),
}

/// A guess that the figures can confirm or refute.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Blames {
    /// What is blamed: `cpu`, `memory`, `gpu`, `gpu_memory`, `gpu_memory_traffic`, `data`.
    pub(crate) resource: Resource,
    /// The guess in English.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) en: Option<String>,
    /// The guess in Chinese.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) zh: Option<String>,
}
