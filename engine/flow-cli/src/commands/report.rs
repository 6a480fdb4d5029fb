//! `flow report`.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;
use flow_core::ArtifactKind;
use flow_exec::Workspace;
use flow_store::RunDir;

use super::{Done, find, imported};
use crate::args::{Global, OfRun};
use crate::error::CliError;
use crate::output::Output;
use crate::place::{self, StoreLocation};
use crate::screen::{View, each_result};

/// Arguments of `flow report`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  flow report                            where the last run's reports are
  flow report --print                    the report itself, Markdown
  flow report --print --answer           what it answers, and nothing else
  flow report --lang zh                  the report in one language, of the results it was made of
  flow report 3f2a --to feb08.md         the report of an imported run as a page, with its charts in feb08/
  flow report --html -o report.html      one file to send: text, tables and charts, and nothing to load")]
pub(crate) struct Report {
    /// The report's step, if the workflow has several; or a run, by its id or the end of it, as --run names it
    #[arg(value_name = "STEP|RUN")]
    step: Option<String>,
    #[command(flatten)]
    of: OfRun,
    /// Print the report
    #[arg(short, long)]
    print: bool,
    /// With --print: the answer of each section alone
    #[arg(long, requires = "print", conflicts_with = "html")]
    answer: bool,
    /// As a page of HTML with its charts, in each of its languages or in that of --lang
    #[arg(long)]
    html: bool,
    /// Write it to this file, which is replaced, instead of printing it
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Write the report of an imported run to this Markdown file, and its charts next to it, as `publish:` does
    #[arg(long, value_name = "FILE", conflicts_with_all = ["html", "output", "print"])]
    to: Option<PathBuf>,
}

impl Report {
    pub(crate) fn execute(mut self, global: &Global, output: &mut Output) -> Done {
        // No step is likely to be called as the end of a run's id is.
        let is_id = |word: &String| word.len() >= 4 && word.chars().all(|c| c.is_ascii_hexdigit() || c == '-');
        if self.of.run.is_none() && self.step.as_ref().is_some_and(is_id) {
            let named = StoreLocation::find(global, &self.of.about)?.run(self.step.as_deref()).is_ok();
            self.of.run = if named { self.step.take() } else { None };
        }
        let (place, dir, view) = place::run(global, &self.of)?;
        if view.imported.is_some() && view.start.is_some() {
            return self.remade(&dir, &view, global, output);
        }
        if self.to.is_some() {
            return Err(CliError::usage("`--to` writes the report of an imported run")
                .hint("the reports of a run of this store are published by `publish:` in its workflow"));
        }
        let kept = self.print || self.html || self.output.is_some() || self.step.is_some() || global.lang.is_some();
        let text = if kept { self.kept(&place, &view, global, output)? } else { published(&place, &view)? };
        self.emit(&text, output)
    }

    fn emit(&self, text: &str, output: &mut Output) -> Done {
        let Some(to) = &self.output else {
            output.text(text.trim_end())?;
            return Ok(ExitCode::SUCCESS);
        };
        std::fs::write(to, text).map_err(|e| CliError::usage(format!("`{}` cannot be written: {e}", to.display())))?;
        output.line(to.display().to_string())?;
        Ok(ExitCode::SUCCESS)
    }

    /// The report of an imported run, made again from its results by this flow.
    fn remade(&self, dir: &RunDir, view: &View, global: &Global, output: &mut Output) -> Done {
        let mut made = imported::reports(dir, view, self.of.about.workflow.as_deref(), output)?;
        if let Some(step) = &self.step {
            made.retain(|(label, _)| flow_core::selects(step, label));
        }
        let files = only("report", made)?;
        if let Some(to) = &self.to {
            for file in imported::publish(files, to)? {
                output.line(file.display().to_string())?;
            }
            return Ok(ExitCode::SUCCESS);
        }
        let (builtins, lang) = (flow_report::Reports::new(), global.lang.as_deref());
        let read = |file: &str| files.get(file).cloned();
        let text = match (self.html, self.answer) {
            (true, _) => builtins.page(read, lang),
            (_, true) => builtins.answers(read, lang).map(|all| (!all.is_empty()).then(|| all.join("\n"))),
            _ => builtins.text(read, lang),
        };
        self.emit(&text.map_err(CliError::usage)?.unwrap_or_default(), output)
    }

    /// The report as the run left it, or its words in another language. Charts are in a page only.
    fn kept(
        &self,
        place: &StoreLocation,
        view: &View,
        global: &Global,
        output: &mut Output,
    ) -> Result<String, CliError> {
        let (step, lang) = (self.step.as_deref(), global.lang.as_deref());
        let asked = match step {
            Some(step) => find(view, step)?.iter().map(|shown| &*shown.label).collect(),
            None => Vec::new(),
        };
        let results = place::results(&place.store, output)?;
        let objects = place.store.objects();
        let builtins = flow_report::Reports::new();
        let mut reports = Vec::new();
        each_result(view.instances.values(), &*results, |shown, result| {
            let Some(result) = result else { return Ok(()) };
            let folder = result.outputs.values().find(|artifact| artifact.kind == ArtifactKind::Folder);
            let Some(folder) = folder else { return Ok(()) };
            let read = |file: &str| objects.read(&folder.digest, file).ok();
            let text = match (self.html, self.answer) {
                (true, _) => builtins.page(read, lang),
                (_, true) => builtins.answers(read, lang).map(|all| (!all.is_empty()).then(|| all.join("\n"))),
                _ => builtins.text(read, lang),
            };
            reports.extend(text.map_err(CliError::usage)?.map(|text| (shown.label.clone(), text)));
            Ok(())
        })?;
        let names = names(&reports);
        if let Some(step) = step.filter(|_| !reports.is_empty()) {
            reports.retain(|(label, _)| asked.contains(&&**label));
            if reports.is_empty() {
                let other = CliError::usage(format!("`{step}` is no report that the run made"));
                return Err(other.hint(format!("it made {names}; `flow show {step}` shows what a step made")));
            }
        }
        only("report", reports)
    }
}

/// So many lines say what a report answers at the end of a run.
const ANSWERS: usize = 3;

/// What the reports that a run made answer. A report that cannot be read answers nothing: its step has said why.
pub(crate) fn answers(
    workspace: &Workspace,
    view: &View,
    made: &[String],
    global: &Global,
    output: &mut Output,
) -> Vec<String> {
    let builtins = flow_report::Reports::new();
    let mut all = Vec::new();
    let reports = view.instances.values().filter(|shown| made.contains(&shown.label));
    let read = || {
        let Some(store) = workspace.existing_store()? else { return Ok(()) };
        let results = place::results(&store, output)?;
        let objects = store.objects();
        each_result(reports, &*results, |_, result| {
            let outputs = result.map(|result| result.outputs).unwrap_or_default();
            let Some(folder) = outputs.into_values().find(|artifact| artifact.kind == ArtifactKind::Folder) else {
                return Ok(());
            };
            let read = |file: &str| objects.read(&folder.digest, file).ok();
            let answers = builtins.answers(read, global.lang.as_deref()).map_err(CliError::usage)?;
            let more = answers.len().saturating_sub(ANSWERS);
            all.extend(answers.into_iter().take(ANSWERS));
            all.extend((more > 0).then(|| format!("{more} more: flow report --print --answer")));
            Ok(())
        })
    };
    match read() {
        Ok(()) => all,
        Err::<(), CliError>(_) => Vec::new(),
    }
}

/// Where the run published.
fn published(place: &StoreLocation, view: &View) -> Result<String, CliError> {
    let files = view.published.iter().map(|(path, _)| path).chain(view.withheld.iter().map(|(_, written, _)| written));
    let files: Vec<String> = files.map(|path| place::near(&place.workspace.root.join(path))).collect();
    if files.is_empty() {
        let none = CliError::usage("the run published nothing");
        return Err(none.hint("`publish:` in the workflow says where to; --print prints the report"));
    }
    Ok(files.join("\n"))
}

fn names<T>(found: &[(String, T)]) -> String {
    found.iter().map(|(name, _)| &**name).collect::<Vec<_>>().join(", ")
}

/// The only one of several, or which there are.
fn only<T>(what: &str, found: Vec<(String, T)>) -> Result<T, CliError> {
    let names = names(&found);
    let mut found = found.into_iter();
    match (found.next(), found.next()) {
        (Some((_, one)), None) => Ok(one),
        (None, _) => Err(CliError::usage(format!("the run has no {what}"))
            .hint("a step with `uses: flow/report` makes one; `flow show STEP` shows the table of a `flow/table`")),
        _ => Err(CliError::usage(format!("there are several {what}s")).hint(format!("name one: {names}"))),
    }
}
