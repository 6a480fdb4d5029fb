//! `flow/table`, its analyses and `flow/report` behind the interface of the engine: parameters in, files out.

use std::collections::BTreeMap;

use flow_core::{
    BuiltinInput, BuiltinOutput, Builtins, CatalogueStep, Metric, Publication, PublishJob, WithCheck,
    reason::{BuiltinFault, Cause, Fault},
};
use indexmap::IndexMap;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

use crate::analysis::{self, BestWith, FitWith, JumpsWith};
use crate::publish;
use crate::report::{self, ReportWith};
use crate::table::{self, TableWith};
use crate::words::{LANGUAGES, Words};

#[derive(Debug, Default)]
pub struct Reports {
    words: Words,
}

impl Reports {
    pub fn new() -> Self {
        Reports::default()
    }

    /// The text of a report without its charts, from the files of `flow/report`: in one language, or as it is.
    ///
    /// # Errors
    /// A sentence: the language does not exist, or another version of flow made the report.
    pub fn text(&self, files: impl Fn(&str) -> Option<Vec<u8>>, lang: Option<&str>) -> Result<Option<String>, String> {
        let Some(lang) = known(lang)? else {
            let text = report_of(&files, "report.md").map(|bytes| String::from_utf8_lossy(&bytes).into_owned());
            return Ok(text.map(|text| publish::for_terminal(&text)));
        };
        let json = report_of(&files, "report.json");
        let text = json.map(|json| report::in_language(&json, self.words.locale(lang))).transpose()?;
        Ok(text.map(|text| publish::for_terminal(&text)))
    }

    /// The answers of a report as text, one line per section: in one language, or in the first of the report.
    ///
    /// # Errors
    /// As for `text`.
    pub fn answers(&self, files: impl Fn(&str) -> Option<Vec<u8>>, lang: Option<&str>) -> Result<Vec<String>, String> {
        let lang = known(lang)?;
        let json = report_of(&files, "report.json");
        json.map_or(Ok(Vec::new()), |json| report::answers(&json, &self.words, lang))
    }

    /// The report with its charts as one HTML page: in one language, or in all of its languages one below the other.
    ///
    /// # Errors
    /// As for `text`.
    pub fn page(&self, files: impl Fn(&str) -> Option<Vec<u8>>, lang: Option<&str>) -> Result<Option<String>, String> {
        let lang = known(lang)?;
        report_of(&files, "report.json").map(|json| report::page(&json, &self.words, lang)).transpose()
    }
}

impl Builtins for Reports {
    fn provided(&self) -> BTreeMap<String, CatalogueStep> {
        let step = |about: &str, with: Value, check: WithCheck| CatalogueStep {
            about: about.into(),
            with,
            check: Some(check),
            outputs: IndexMap::from([("out".to_owned(), "out".to_owned())]),
            ..CatalogueStep::default()
        };
        let table =
            step("results of a step as a typed table, with derived columns", schema::<TableWith>(), table::check);
        let report = CatalogueStep {
            verdicts: Some(report::verdicts),
            ..step("tables, verdicts, findings and charts as a report", schema::<ReportWith>(), report::check)
        };
        let fit = step("which curve a column is of over another", schema::<FitWith>(), analysis::check_fit);
        let jumps =
            step("where a column jumps, and how much it fluctuates", schema::<JumpsWith>(), analysis::check_jumps);
        let best = step("the best point of a table", schema::<BestWith>(), analysis::check_best);
        let all = [("table", table), ("report", report), ("fit", fit), ("jumps", jumps), ("best", best)];
        all.map(|(name, step)| (name.to_owned(), step)).into()
    }

    fn version(&self) -> &str {
        env!("CARGO_PKG_VERSION")
    }

    fn run(&self, name: &str, input: &BuiltinInput) -> Result<BuiltinOutput, Fault> {
        match name {
            "table" => {
                let table = table::build(&parameters(&input.with)?, input)?;
                let json = serde_json::to_string_pretty(&table)
                    .map_err(|e| BuiltinFault::NotWritten { message: e.to_string() })?;
                let mut files = BTreeMap::from([
                    ("table.json".to_owned(), json + "\n"),
                    ("table.csv".to_owned(), table::csv(&table)),
                ]);
                for (lang, _) in LANGUAGES {
                    files.insert(
                        format!("table.{lang}.md"),
                        table::markdown(&table::named(&table, lang), self.words.locale(lang)),
                    );
                }
                Ok(BuiltinOutput {
                    files: files.into_iter().map(|(path, text)| (path, text.into_bytes())).collect(),
                    metrics: BTreeMap::from([("rows".to_owned(), count(table.body.len()))]),
                    notices: table::unknown_columns(&table, input),
                    ..BuiltinOutput::default()
                })
            }
            "report" => {
                let with: ReportWith = parameters(&input.with)?;
                let report = report::report(&with, input)?;
                let cause = (report.sections.is_empty()).then_some(Cause::NothingToShow);
                let files = report::render(&report, &self.words)?;
                let metrics = BTreeMap::from([("sections".to_owned(), count(report.sections.len()))]);
                Ok(BuiltinOutput { files, metrics, cause, ..BuiltinOutput::default() })
            }
            "fit" => Ok(analysis::fit(&parameters(&input.with)?, input, &self.words)?),
            "jumps" => Ok(analysis::jumps(&parameters(&input.with)?, input, &self.words)?),
            "best" => Ok(analysis::best(&parameters(&input.with)?, input, &self.words)?),
            other => {
                let known = self.provided().keys().map(|name| format!("flow/{name}")).collect();
                Err(BuiltinFault::NoSuchBuiltin { name: other.to_owned(), known }.into())
            }
        }
    }

    fn publish(&self, job: &PublishJob) -> Result<Publication, String> {
        publish::publish(job, &self.words)
    }
}

/// A file of a report. Other steps may have a file with the same name.
fn report_of(files: impl Fn(&str) -> Option<Vec<u8>>, file: &str) -> Option<Vec<u8>> {
    files("entry.md").and_then(|_| files(file))
}

/// A language that has a catalogue.
fn known(lang: Option<&str>) -> Result<Option<&str>, String> {
    let Some(unknown) = lang.filter(|lang| !LANGUAGES.iter().any(|(known, _)| known == lang)) else { return Ok(lang) };
    let known: Vec<&str> = LANGUAGES.iter().map(|(known, _)| *known).collect();
    Err(format!("unknown language `{unknown}`; there are {}", known.join(" and ")))
}

/// The JSON Schema of parameters, without references, so that its readers do not have to resolve any.
fn schema<T: schemars::JsonSchema>() -> Value {
    let settings = schemars::generate::SchemaSettings::draft2020_12().with(|s| s.inline_subschemas = true);
    settings.into_generator().into_root_schema_for::<T>().to_value()
}

fn parameters<T: DeserializeOwned>(with: &Map<String, Value>) -> Result<T, BuiltinFault> {
    let read = serde_json::from_value(Value::Object(with.clone()));
    read.map_err(|e| BuiltinFault::ParametersUnread { message: e.to_string() })
}

fn count(n: usize) -> Metric {
    Metric { value: n as f64, unit: String::new(), epochs: None, sd: None, values: vec![] }
}
