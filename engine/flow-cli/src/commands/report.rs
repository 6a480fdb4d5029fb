//! `flow report`.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;
use flow_core::{Artifact, ArtifactKind, PROFILE_ASKED, RunStart, Uses};
use flow_exec::{Knowledge, Session};
use flow_store::Objects;
use serde_json::{Map, json};

use super::{Done, find};
use crate::args::{Global, OfRun, Selection};
use crate::error::CliError;
use crate::output::Output;
use crate::place::{self, Place};
use crate::screen::{Shown, View};

/// The report's text in the output of its step.
const TEXT: &str = "report.md";

/// Arguments of `flow report`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  flow report                            where the last run's reports are
  flow report --print                    the report itself, Markdown
  flow report --lang zh                  the report in one language, from the results that are there")]
pub(crate) struct Report {
    /// The report's step, where the workflow has several
    step: Option<String>,
    #[command(flatten)]
    of: OfRun,
    /// Print the report
    #[arg(short, long)]
    print: bool,
}

impl Report {
    pub(crate) fn execute(self, global: &Global, output: &mut Output) -> Done {
        let (place, _, view) = place::run(global, &self.of)?;
        let text = match &global.lang {
            Some(language) => in_language(global, &place, &view, self.step.as_deref(), language)?,
            None if self.print || self.step.is_some() => kept(&place, &view, self.step.as_deref())?,
            None => published(&place, &view)?,
        };
        output.line(text.trim_end())?;
        Ok(ExitCode::SUCCESS)
    }
}

/// Where the run published.
fn published(place: &Place, view: &View) -> Result<String, CliError> {
    if view.published.is_empty() {
        let none = CliError::usage("the run published nothing");
        return Err(none.hint("`publish:` in the workflow says where to; --print prints the report"));
    }
    let paths: Vec<String> =
        view.published.iter().map(|(path, _)| place::near(&place.workspace.root.join(path))).collect();
    Ok(paths.join("\n"))
}

/// The report as the run left it.
fn kept(place: &Place, view: &View, step: Option<&str>) -> Result<String, CliError> {
    let shown: Vec<&Shown> = match step {
        Some(step) => find(view, step)?,
        None => view.instances.values().collect(),
    };
    let results = place::results(&place.store)?;
    let objects = place.store.objects();
    let mut reports = Vec::new();
    for shown in shown {
        let Some(result) = shown.result(&*results)? else { continue };
        let folder = result.outputs.values().find(|artifact| artifact.kind == ArtifactKind::Folder);
        reports.extend(folder.and_then(|folder| text(folder, &objects)).map(|text| (shown.label.clone(), text)));
    }
    only("report", reports)
}

fn text(folder: &Artifact, objects: &Objects) -> Option<String> {
    String::from_utf8(objects.read(&folder.digest, TEXT).ok()?).ok()
}

/// The report anew, in one language, of the workflow as the run had it.
fn in_language(
    global: &Global,
    place: &Place,
    view: &View,
    step: Option<&str>,
    language: &str,
) -> Result<String, CliError> {
    let RunStart { file, set, profile, .. } =
        view.start.as_ref().ok_or_else(|| CliError::failed("the journal of that run has no beginning"))?;
    let file = PathBuf::from(place::near(&place.workspace.root.join(file)));
    // A profile that came by itself comes again.
    let profile = profile.as_ref().filter(|(_, why)| why == PROFILE_ASKED).map(|(name, _)| name.clone());
    let selection = Selection { set: set.clone(), profile, gpus: None };
    let builtins = flow_report::Reports::new();
    let session = Session::open(&place::request(global, file, &selection), &builtins)?;
    let expansion = &session.expansion;
    let asked = |name: &str, label: &str| step.is_none_or(|step| step == name || step == label);
    let mut steps = Vec::new();
    for instance in &expansion.instances {
        let facts = &expansion.steps[instance.step.index()];
        if facts.uses == Uses::Builtin("report".to_owned()) && asked(&facts.name, &instance.label) {
            steps.push((instance.label.to_string(), instance.id));
        }
    }
    let id = only("report", steps)?;
    let knowledge = Knowledge::open(&session, &place::doing())?;
    let with = Map::from_iter([("languages".to_owned(), json!([language]))]);
    let files = flow_exec::preview(&session, &knowledge, id, with, &builtins)?.files;
    files
        .get(TEXT)
        .and_then(|bytes| String::from_utf8(bytes.clone()).ok())
        .ok_or_else(|| CliError::failed("the report has no text"))
}

/// The only one of several, or which there are.
fn only<T>(what: &str, found: Vec<(String, T)>) -> Result<T, CliError> {
    let names: Vec<String> = found.iter().map(|(name, _)| name.clone()).collect();
    let mut found = found.into_iter();
    match (found.next(), found.next()) {
        (Some((_, one)), None) => Ok(one),
        (None, _) => {
            Err(CliError::usage(format!("the run has no {what}")).hint("a step with `uses: flow/report` makes one"))
        }
        _ => Err(CliError::usage(format!("there are several {what}s")).hint(format!("name one: {}", names.join(", ")))),
    }
}
