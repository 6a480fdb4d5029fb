//! `flow report`.

use std::path::{Path, PathBuf};

use clap::Args;
use flow_core::ArtifactKind;
use flow_exec::Workspace;
use flow_runs::{RunDir, StoreDir};
use flow_store::Objects;

use super::{CommandResult, find, imported};
use crate::{
    args::{Global, OfRun},
    error::CliError,
    output::{Output, noted},
    place::{self, StoreLocation},
    screen::{InstanceView, View, each_result},
    words,
};

/// Arguments of `flow report`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  flow report                            where the last run's reports are
  flow report --print                    the report itself, in Markdown
  flow report --print --answer           only its answers
  flow report --lang zh                  the report in one language
  flow report 3f2a --to feb08.md         the report of an imported run as a page, with its charts in feb08/
  flow report --html -o report.html      one file to send, with text, tables and charts")]
pub(crate) struct Report {
    /// The report's step, if the workflow has several; or a run, by its id or the end of it, like
    /// --run
    #[arg(value_name = "STEP|RUN")]
    step: Option<String>,
    #[command(flatten)]
    of: OfRun,
    /// Print the report
    #[arg(short, long)]
    print: bool,
    /// With --print: only the answer of each section
    #[arg(long, requires = "print", conflicts_with = "html")]
    answer: bool,
    /// As an HTML page with its charts, in all its languages or that of --lang
    #[arg(long)]
    html: bool,
    /// Write to this file, and replace it, instead of printing
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Write the report of an imported run to this Markdown file, and its charts next to it, like
    /// `publish:`
    #[arg(long, value_name = "FILE", conflicts_with_all = ["html", "output", "print"])]
    to: Option<PathBuf>,
}

impl Report {
    pub(crate) fn execute(mut self, global: &Global, output: &mut Output) -> CommandResult {
        // A step is hardly named like the end of a run's id.
        let is_id = |word: &String| word.len() >= 4 && word.chars().all(|c| c.is_ascii_hexdigit() || c == '-');
        if self.of.run.is_none() && self.step.as_ref().is_some_and(is_id) {
            let named =
                StoreLocation::find(global, self.of.about.workflow.as_deref())?.run(self.step.as_deref()).is_ok();
            self.of.run = if named { self.step.take() } else { None };
        }
        let (place, dir, view) = place::run(global, &self.of, output)?;
        if view.imported.is_some() {
            // The store of the place is that of the import itself.
            let around = place.workspace.existing_store()?.unwrap_or_else(|| place.store.clone());
            return self.remade(&around, &dir, &view, global, output);
        }
        if self.to.is_some() {
            return Err(CliError::usage("`--to` is for the report of an imported run")
                .hint("for a run of this store, `publish:` in its workflow writes the report"));
        }
        let kept = self.print || self.html || self.output.is_some() || self.step.is_some() || global.lang.is_some();
        let text = match published(&place, &view) {
            _ if kept => self.kept(&place, &view, global, output)?,
            files if files.is_empty() => self.stored(&place, &view, output)?,
            files => {
                self.note_replaced(&place, &view, output)?;
                files.join("\n")
            }
        };
        self.emit(&text, output)
    }

    /// A note if a later run of the workflow wrote the files that this run published.
    fn note_replaced(&self, place: &StoreLocation, view: &View, output: &mut Output) -> Result<(), CliError> {
        let Some(start) = &view.start else { return Ok(()) };
        let later = place.runs()?.into_iter().rev().take_while(|(run, _)| *run != start.run);
        let own: Vec<&String> = view.published.iter().map(|(path, _)| path).collect();
        let mut later = later.filter(|(_, theirs)| theirs.file == start.file);
        let is_replaced = later.any(|(run, _)| {
            let published = place.view(Some(&run.0)).map(|(_, view)| view.published).unwrap_or_default();
            published.iter().any(|(path, changed)| *changed && own.contains(&path))
        });
        if is_replaced {
            let run = self.of.run.as_deref().unwrap_or(&start.run.0);
            let text = format!("a later run replaced these files; `flow report {run} --print` prints this run's");
            output.note(noted(text))?;
        }
        Ok(())
    }

    fn emit(&self, text: &str, output: &mut Output) -> CommandResult {
        let Some(to) = &self.output else {
            return Ok(output.text(text.trim_end())?);
        };
        std::fs::write(to, text).map_err(|e| CliError::usage(format!("`{}` cannot be written: {e}", to.display())))?;
        Ok(output.line(to.display().to_string())?)
    }

    /// The report of an imported run, remade by this flow from its results.
    fn remade(
        &self,
        store: &StoreDir,
        dir: &RunDir,
        view: &View,
        global: &Global,
        output: &mut Output,
    ) -> CommandResult {
        let mut made = imported::reports(store, dir, view, self.of.about.workflow.as_deref(), output)?;
        if let Some(step) = &self.step {
            made.retain(|(label, _)| flow_core::selects(step, label));
        }
        let files = only(made)?;
        if let Some(to) = &self.to {
            let written = imported::publish(files, to)?;
            return Ok(output.lines(written.iter().map(|file| file.display().to_string()))?);
        }
        let text = self.text(&|file| files.get(file).cloned(), global.lang.as_deref());
        let mut text = text.map_err(CliError::usage)?.unwrap_or_default();
        // A file may go to other people, who know the run by the id of the machine that made it.
        if let (Some(origin), Some(id), None) = (&view.imported, &view.import, &self.output) {
            text = text.replace(&origin.run.0, &id.0);
        }
        self.emit(&text, output)
    }

    /// The page, the answers or the text of a report, by its files.
    fn text(&self, read: &dyn Fn(&str) -> Option<Vec<u8>>, lang: Option<&str>) -> Result<Option<String>, String> {
        let builtins = flow_report::Reports::new();
        match (self.html, self.answer) {
            (true, _) => builtins.page(read, lang),
            (_, true) => builtins.answers(read, lang).map(|all| (!all.is_empty()).then(|| all.join("\n"))),
            _ => builtins.text(read, lang),
        }
    }

    /// The report as the run left it, or in another language. Only pages have charts.
    fn kept(
        &self,
        place: &StoreLocation,
        view: &View,
        global: &Global,
        output: &mut Output,
    ) -> Result<String, CliError> {
        let (step, lang) = (self.step.as_deref(), global.lang.as_deref());
        // A step that is not in the run is another error than one that is no report.
        step.map(|step| find(view, step)).transpose()?;
        let mut reports = in_store(&place.store, view.instances.values(), output, |read, _| self.text(read, lang))?;
        let names = names(&reports);
        if let Some(step) = step.filter(|_| !reports.is_empty()) {
            reports.retain(|(label, _)| flow_core::selects(step, label));
            if reports.is_empty() {
                let other = CliError::usage(format!("`{step}` is not a report of the run"));
                return Err(other.hint(format!("the run made {names}; `flow show {step}` shows the result of a step")));
            }
        }
        if reports.is_empty() {
            return Err(no_report(view));
        }
        only(reports)
    }

    /// The files in the store of the reports that the run did not publish.
    fn stored(&self, place: &StoreLocation, view: &View, output: &mut Output) -> Result<String, CliError> {
        let builtins = flow_report::Reports::new();
        let found = in_store(&place.store, view.instances.values(), output, |read, folder| {
            Ok(builtins.text(read, None)?.map(|_| place::near(&folder.join("report.md"))))
        })?;
        let Some((step, _)) = found.first() else { return Err(no_report(view)) };
        output.note(noted(
            "the run published no report. `flow report --print` prints it. To write it to a file, add to the workflow:",
        ))?;
        output.note(format!("  publish: [{{from: {step}, to: report.md}}]"))?;
        Ok(found.into_iter().map(|(_, file)| file).collect::<Vec<_>>().join("\n"))
    }
}

/// What `text` finds in each result of these that is a folder, by label. `text` gets a reader of its files, and its path.
fn in_store<'v, T>(
    store: &StoreDir,
    shown: impl IntoIterator<Item = &'v InstanceView>,
    output: &mut Output,
    text: impl Fn(&dyn Fn(&str) -> Option<Vec<u8>>, &Path) -> Result<Option<T>, String>,
) -> Result<Vec<(String, T)>, CliError> {
    let results = place::results(store, output)?;
    let objects = Objects::of(store);
    let mut found = Vec::new();
    each_result(shown, &results, store, |shown, result| {
        let outputs = result.map(|result| result.outputs).unwrap_or_default();
        let folder = outputs.into_values().find(|artifact| artifact.kind == ArtifactKind::Folder);
        let Some(folder) = folder else { return Ok(()) };
        let read = |file: &str| objects.read(&folder.digest, file).ok();
        let text = text(&read, &objects.path(&folder.digest)).map_err(CliError::usage)?;
        found.extend(text.map(|text| (shown.label.clone(), text)));
        Ok(())
    })?;
    Ok(found)
}

/// The run has no report: what makes one.
fn no_report(view: &View) -> CliError {
    let uses = view.written.iter().map(|(step, keys)| (step, keys.get("uses").and_then(|uses| uses.as_str())));
    let step = uses.into_iter().find(|(_, uses)| *uses == Some("flow/report"));
    CliError::usage("the run has no report").hint(match step {
        Some((step, _)) => format!("`flow show {step}` shows why `{step}` made none"),
        None => MAKES_ONE.to_owned(),
    })
}

/// Lines of a report's answers at the end of a run.
const ANSWERS: usize = 3;

/// The answers of a run's reports, which are among the results that it `made`. An unreadable report
/// is skipped; its step has reported the error.
pub(crate) fn answers(
    workspace: &Workspace,
    view: &View,
    made: &[String],
    global: &Global,
    output: &mut Output,
) -> Vec<String> {
    if made.is_empty() {
        return Vec::new();
    }
    let builtins = flow_report::Reports::new();
    let reports = view.instances.values().filter(|shown| made.contains(&shown.label));
    let Ok(Some(store)) = workspace.existing_store() else { return Vec::new() };
    let answers =
        |read: &dyn Fn(&str) -> Option<Vec<u8>>, _: &Path| builtins.answers(read, global.lang.as_deref()).map(Some);
    let rest = |more| format!("{more} more: flow report --print --answer");
    let some = |(_, answers): (String, Vec<String>)| words::cut(answers.into_iter(), ANSWERS, rest);
    in_store(&store, reports, output, answers).unwrap_or_default().into_iter().flat_map(some).collect()
}

/// The files that the run published.
fn published(place: &StoreLocation, view: &View) -> Vec<String> {
    let files = view.published.iter().map(|(path, _)| path).chain(view.withheld.iter().map(|(_, written, _)| written));
    files.map(|path| place::near(&place.workspace.root.join(path))).collect()
}

fn names<T>(found: &[(String, T)]) -> String {
    found.iter().map(|(name, _)| &**name).collect::<Vec<_>>().join(", ")
}

const MAKES_ONE: &str = "a step with `uses: flow/report` makes one; `flow show STEP` shows the table of a `flow/table`";

/// The only one, or an error that lists them.
fn only<T>(found: Vec<(String, T)>) -> Result<T, CliError> {
    let names = names(&found);
    let mut found = found.into_iter();
    match (found.next(), found.next()) {
        (Some((_, one)), None) => Ok(one),
        (None, _) => Err(CliError::usage("the run has no report").hint(MAKES_ONE)),
        _ => Err(CliError::usage("there are several reports").hint(format!("name one: {names}"))),
    }
}
