//! `flow diff`.

mod causes;
mod results;

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use clap::Args;
use flow_core::{
    Digest, KeptInput, Origin, Place, RunEvent, RunId, RunStart, StepId, StepResult, fingerprint::Parts, sched::policy,
    why::WrittenSteps,
};
use flow_exec::{PresentEnvironment, Session};
use flow_runs::{RunDir, StoreDir};
use flow_store::{Import, Objects, Store};
use indexmap::IndexMap;
use serde_json::Value;

use super::CommandResult;
use crate::{
    args::{Global, OfRun, Selection, WorkflowArg},
    at_hand,
    error::CliError,
    output::{FAINT, Output, STRONG, noted, styled},
    place::{self, StoreLocation},
    screen::{InstanceState, View, each_result},
    words,
};

/// The present workflow, files and settings, as the next run would use them.
const NOW: &str = "now";

/// Arguments of `flow diff`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  flow diff                              the last run and the one before it, of the same workflow
  flow diff 3f2a 91bc                    two runs, by the ends of their ids; `flow runs` lists them
  flow diff now                          your edits since the last run, before the next one
  flow diff 3f2a now                     your edits since that run

After `flow accept`, use `flow diff now` to see the accepted edits: `flow diff` compares results, and kept results are \
the same in both runs.

Repetitions of a point, and the points over which a table averages, share a line with mean ± standard deviation. If a \
step has more than 8 instances, they share a line with the minimum and maximum of their numbers. -v prints each.

`on average` is the mean difference over the points that both runs have. Its 95% confidence interval (a paired t-test) \
counts each repetition once, as a mean over the points. A difference of percentages is in points. The wall time of \
steps of less than a second is left out.")]
pub(crate) struct Diff {
    /// The earlier run, by its id or the end of it. Without BEFORE and AFTER, flow compares the last
    /// two runs. `flow diff now` compares the last run with the present files
    before: Option<String>,
    /// The later run, or `now`: the present workflow, files and settings. BEFORE alone is compared
    /// with `now`
    after: Option<String>,
    #[command(flatten)]
    about: WorkflowArg,
}

/// The compared parts of a run, or of the next run.
struct Side {
    start: RunStart,
    /// The result of each instance, by label.
    settled: IndexMap<String, String>,
    results: BTreeMap<String, StepResult>,
    /// The fingerprints under which it recorded or reused a result.
    recorded: Vec<Digest>,
    /// The parts of their fingerprints, if a journal has them, with those of failed instances.
    parts: BTreeMap<String, Parts>,
    /// Small input files, by label and name.
    inputs: BTreeMap<String, BTreeMap<String, KeptInput>>,
    /// Their texts, if they are not in the store.
    texts: BTreeMap<Digest, String>,
    /// The steps as written; none if unknown.
    written: WrittenSteps,
    /// Whether the run was imported.
    origin: Option<Origin>,
}

impl Diff {
    pub(crate) fn execute(self, global: &Global, output: &mut Output) -> CommandResult {
        let run = self.before.clone().filter(|run| run != NOW);
        let of = OfRun { about: self.about, run };
        let place = StoreLocation::of_workflow(global, &of, output)?;
        let last;
        let (before, after) = match (self.before.as_deref(), self.after.as_deref()) {
            (Some(NOW), None) => (None, NOW),
            (Some(NOW), Some(_)) => {
                return Err(CliError::usage("`now` must be last").hint("`flow diff RUN now` shows your edits"));
            }
            (Some(run), after) => (Some(run), after.unwrap_or(NOW)),
            (None, _) => {
                last = last_two(&place, output)?;
                (Some(&*last.0.0), last.1.as_ref().map_or(NOW, |after| &*after.0))
            }
        };
        let is_now = after == NOW;
        let (before, after) = {
            let mut side = |run: Option<&str>| {
                let (dir, view) = match (run, place.view(run)) {
                    // The workflow here has no run of its own.
                    (None, Err(error)) => place.view(Some(&place.imports()?.pop().ok_or(error)?.id.0))?,
                    (_, view) => view?,
                };
                side(view, &place::results(dir.store(), output)?, dir.store())
            };
            (side(before)?, if is_now { None } else { Some(side(Some(after))?) })
        };
        let (after, mut present) = match after {
            Some(after) => (after, None),
            None => now(global, of.about.workflow.as_deref(), &place, &before, output)?,
        };
        // A bundle has no folders: one's own are not another command.
        let (before, after) = match (&before.origin, &after.origin) {
            (Some(_), None) => (before, after.without_folders()),
            (None, Some(_)) => (before.without_folders(), after),
            _ => (before, after),
        };
        // Edits first, then their results.
        let objects = Objects::of(&place.store);
        let mut lines = Vec::new();
        section(&mut lines, "settings", settings(&before, &after));
        lines.extend(causes::workflow(&before, &after));
        let (inputs, files) = causes::inputs(&before, &after, &objects);
        lines.extend(inputs);
        lines.extend(causes::others(&before, &after, &files, &objects));
        lines.extend(causes::environments(&before, &mut present, &after, &objects));
        if !is_now {
            lines.extend(results::compare(&before, &after, output.verbose));
        }
        let kept = if is_now { None } else { kept(&after) };
        if lines.is_empty() {
            output.line(match is_now {
                true => format!("nothing differs since run {}", before.start.run),
                false if kept.is_none() => {
                    "nothing differs between these runs; `flow diff now` shows the edits since the last run".to_owned()
                }
                false => "no result differs between these runs".to_owned(),
            })?;
        }
        if is_now {
            lines.extend(gone(&before, &place, output)?);
            lines.extend(accepted(&after, &place, output)?);
        }
        lines.extend(kept);
        Ok(output.lines(lines)?)
    }
}

/// A note if a run has results that `flow accept` kept: their edits are no difference between two runs.
fn kept(after: &Side) -> Option<String> {
    let kept = after.results.values().filter(|result| result.accepted.is_some()).count();
    (kept > 0).then(|| {
        let kept = words::count(kept, "result");
        noted(format_args!("`flow accept` kept {kept}; `flow diff now` shows the accepted edits"))
    })
}

/// A note for each reason with which `flow accept` keeps results for the present files.
fn accepted(after: &Side, place: &StoreLocation, output: &mut Output) -> Result<Vec<String>, CliError> {
    let (labels, fingerprints): (Vec<&str>, Vec<Digest>) =
        after.parts.iter().map(|(label, parts)| (&**label, parts.digest())).unzip();
    let found = place::results(&place.store, output)?.results_of(&fingerprints)?;
    let mut kept: IndexMap<String, Vec<&str>> = IndexMap::new();
    for (label, result) in labels.into_iter().zip(found) {
        if let Some(reason) = result.and_then(|result| result.accepted) {
            kept.entry(reason).or_default().push(label);
        }
    }
    let note = |(reason, labels): (String, Vec<&str>)| {
        noted(format_args!("`flow accept` keeps the results of {}: {reason}", words::named(&labels)))
    };
    Ok(kept.into_iter().map(note).collect())
}

/// A note if results of a run were dropped since: without an edit, they are what runs again.
fn gone(before: &Side, place: &StoreLocation, output: &mut Output) -> Result<Option<String>, CliError> {
    if before.origin.is_some() {
        return Ok(None);
    }
    let found = place::results(&place.store, output)?.results_of(&before.recorded)?;
    let gone = found.iter().filter(|result| result.is_none()).count();
    Ok((gone > 0).then(|| {
        let (gone, run) = (words::count(gone, "result"), &before.start.run);
        let text = format!("{gone} of run {run} no longer exist, because of `flow forget` or `flow gc`");
        noted(format_args!("{text}; `flow plan` shows what runs again"))
    }))
}

/// The last run and the one before it of the same workflow file, the older first. Without an earlier run, an imported
/// one, and the last own run of its workflow or the present files.
fn last_two(place: &StoreLocation, output: &mut Output) -> Result<(RunId, Option<RunId>), CliError> {
    let last = place.view(None).map(|(_, last)| last);
    let start = last.as_ref().ok().filter(|last| last.imported.is_none()).and_then(|last| last.start.as_ref());
    let before = start.map(|start| place.earlier(start)).transpose()?.and_then(|mut runs| runs.next());
    if let (Some(start), Some((before, ..))) = (start, before) {
        output.line(format!("run {before}, then run {}", start.run))?;
        return Ok((before, Some(start.run.clone())));
    }
    let is_comparable = |import: &Import| start.is_none_or(|start| start.workflow == import.origin.workflow);
    let Some(import) = place.imports()?.into_iter().rfind(is_comparable) else {
        last?;
        return Err(CliError::usage("there is no earlier run of the same workflow to compare with")
            .hint("`flow diff now` shows your edits since the last run"));
    };
    let Import { id: imported, origin: Origin { host, workflow, .. }, .. } = import;
    let own = place.runs()?.into_iter().rfind(|(_, start)| start.workflow == workflow).map(|(run, _)| run);
    let then = own.as_ref().map_or_else(|| "your files".to_owned(), |run| format!("run {run}"));
    output.line(format!("run {imported}, imported from {host}, then {then}"))?;
    Ok((imported, own))
}

impl Side {
    /// With its folders hidden, as in an exported run.
    fn without_folders(mut self) -> Side {
        let hide = |value| flow_core::hidden(value, &flow_report::without_folders);
        for parts in self.parts.values_mut() {
            let hidden = serde_json::to_value(&*parts).ok().and_then(|value| serde_json::from_value(hide(value)).ok());
            *parts = hidden.unwrap_or_else(|| parts.clone());
        }
        for value in self.written.values_mut().flat_map(|keys| keys.values_mut()).chain(self.start.params.values_mut())
        {
            *value = hide(value.take());
        }
        self
    }
}

fn side(view: View, kept: &Store, store: &StoreDir) -> Result<Side, CliError> {
    let Some(start) = view.start.clone() else {
        return Err(CliError::failed("that run was killed before its journal began"));
    };
    let (mut settled, mut results) = (IndexMap::new(), BTreeMap::new());
    let recorded = view.instances.values().filter_map(|shown| shown.fingerprint).collect();
    // Instances that were not needed are left out.
    let shown = view.instances.values().filter(|shown| !matches!(shown.state, InstanceState::NotNeeded));
    each_result(shown, kept, store, |shown, result| {
        let how = match &shown.state {
            InstanceState::NotNeeded | InstanceState::Waiting | InstanceState::Running => "not finished",
            InstanceState::Cached(outcome, _) | InstanceState::Done(outcome) | InstanceState::Settled(outcome) => {
                words::outcome(*outcome)
            }
        };
        settled.insert(shown.label.clone(), how.to_owned());
        results.extend(result.map(|result| (shown.label.clone(), result)));
        Ok(())
    })?;
    let from = results.values().map(|result: &StepResult| &result.run).chain([&start.run]);
    let mut parts = BTreeMap::new();
    for run in from.collect::<BTreeSet<_>>() {
        let of_it = parts_of(store, run).into_iter();
        // For a reused result, the parts of the run that made it.
        parts.extend(of_it.filter(|(label, _)| results.get(label).map_or(&start.run, |result| &result.run) == run));
    }
    let kept = |(label, result): (&String, &StepResult)| Some((label.clone(), result.kept.as_ref()?.inputs.clone()));
    let inputs = results.iter().filter_map(kept).collect();
    let start = RunStart { run: view.id_here(&start.run).clone(), ..start };
    let (written, origin) = (view.written, view.imported);
    // The store of an import is inside its workspace.
    let workspace = store.path().parent().filter(|_| origin.is_some());
    let texts = workspace.map(flow_exec::input_texts).unwrap_or_default();
    Ok(Side { start, settled, results, recorded, parts, inputs, texts, written, origin })
}

/// What `flow run` would run now, where the last run was: the named workflow, else that of the run `before`.
fn now(
    global: &Global,
    named: Option<&Path>,
    place: &StoreLocation,
    before: &Side,
    output: &mut Output,
) -> Result<(Side, Option<PresentEnvironment>), CliError> {
    let file = match named {
        Some(file) => file.to_owned(),
        None => workflow_of(before, place, output)?,
    };
    let mut request = place::request(global, file, &Selection::default());
    place::default_to_last_place(&mut request, output)?;
    let session = place::open(&request, output)?;
    let knowledge = place::knowledge(&session, output)?;
    let present = flow_exec::present_inputs(&session)?;
    let Session { workspace, expansion, .. } = &session;
    let start = RunStart {
        run: RunId(NOW.to_owned()),
        flow: env!("CARGO_PKG_VERSION").to_owned(),
        file: workspace.name(&workspace.file),
        workflow: expansion.workflow.clone(),
        profile: expansion.profile.clone(),
        params: expansion.params.clone(),
        policy: expansion.policy.clone().unwrap_or_else(|| policy::DEFAULT.to_owned()),
        on: request.on,
        machine: expansion.machine.clone(),
        targets: Vec::new(),
        // The rest is not compared.
        ..before.start.clone()
    };
    let steps = (0..).map(StepId).zip(&expansion.steps).filter(|(_, step)| !step.instances.is_empty());
    let side = Side {
        start,
        settled: IndexMap::new(),
        results: BTreeMap::new(),
        recorded: Vec::new(),
        parts: flow_exec::parts(&session, &knowledge, &session.wanted(&[])?)?,
        inputs: present.files,
        texts: present.texts,
        written: steps.map(|(id, step)| (step.name.clone(), expansion.written(id))).collect(),
        origin: None,
    };
    Ok((side, PresentEnvironment::of(&session, &knowledge)))
}

/// The inputs that differ between an imported run and the files here, and whether the steps do.
pub(super) fn since_import(
    global: &Global,
    (place, dir, view): (&StoreLocation, &RunDir, View),
    file: &Path,
    output: &mut Output,
) -> Result<(BTreeSet<String>, bool), CliError> {
    let before = side(view, &place::results(dir.store(), output)?, dir.store())?.without_folders();
    let (after, _) = now(global, Some(file), place, &before, output)?;
    let after = after.without_folders();
    let (_, inputs) = causes::inputs(&before, &after, &Objects::of(&place.store));
    Ok((inputs, !causes::workflow(&before, &after).is_empty()))
}

/// The workflow file of a run. An imported run may have another name for the only workflow here.
fn workflow_of(before: &Side, place: &StoreLocation, output: &mut Output) -> Result<PathBuf, CliError> {
    let RunStart { file, run, .. } = &before.start;
    let own = place.workspace.root.join(file);
    let Some(origin) = before.origin.as_ref().filter(|_| !own.is_file()) else { return Ok(place::near(&own).into()) };
    let Some(only) = at_hand::only(Path::new(".")) else {
        let error = format!("`{file}` is not here; run {run} was imported from {} with this workflow", origin.host);
        return Err(
            CliError::usage(error).hint(format!("`flow diff {run} now -w FILE` compares it with your workflow"))
        );
    };
    place::print_workflow(&only, output)?;
    Ok(only)
}

/// The parts of the fingerprints that a run recorded or tried, by label; empty if its journal is
/// gone.
fn parts_of(store: &StoreDir, run: &RunId) -> BTreeMap<String, Parts> {
    let mut all = BTreeMap::new();
    let _ = store.run(run).read_journal(|line| {
        let (label, parts) = match line.event {
            RunEvent::Recorded { result, parts, .. } => (result.label, parts),
            RunEvent::Tried { label, parts, .. } => (label, parts),
            _ => return,
        };
        all.extend(serde_json::from_value(parts).ok().map(|parts| (label, parts)));
    });
    all
}

fn section(out: &mut Vec<String>, heading: &str, mut rows: Vec<Vec<String>>) {
    if rows.is_empty() {
        return;
    }
    rows.insert(0, ["", "before", "after", ""].map(|head| styled(FAINT, head)).to_vec());
    out.push(styled(STRONG, heading));
    out.extend(words::columns(&rows).into_iter().map(|line| format!("  {line}")));
}

fn settings(before: &Side, after: &Side) -> Vec<Vec<String>> {
    let flat = |side: &Side| -> BTreeMap<String, String> {
        let start = &side.start;
        let plain = |value: &Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
        let mut all: BTreeMap<String, String> =
            start.params.iter().map(|(name, value)| (format!("params.{name}"), plain(value))).collect();
        let gpus: Vec<&str> = start.machine.gpus.iter().map(|gpu| &*gpu.name).collect();
        all.insert("workflow".into(), start.workflow.clone());
        all.insert("flow".into(), start.flow.clone());
        all.insert("policy".into(), start.policy.clone());
        // Only a node of Slurm has this fact.
        let on_slurm = side.results.values().any(|result| result.circumstances.facts.contains_key("node"));
        let default = if on_slurm { Place::Slurm.name() } else { "the workflow's default" };
        all.insert("on".into(), start.on.map_or(default, Place::name).to_owned());
        all.insert("profile".into(), start.profile.as_ref().map_or("none".into(), |(name, _)| name.clone()));
        all.insert("machine".into(), format!("{} × {}", start.machine.cpus, start.machine.cpu_model));
        all.insert("GPUs".into(), if gpus.is_empty() { "none".into() } else { gpus.join(", ") });
        all
    };
    let (before, after) = (flat(before), flat(after));
    let names: BTreeSet<&String> = before.keys().chain(after.keys()).collect();
    let value = |side: &BTreeMap<String, String>, name| side.get(name).cloned().unwrap_or_else(|| "—".into());
    names
        .into_iter()
        .filter(|name| before.get(*name) != after.get(*name))
        .map(|name| vec![name.clone(), words::fit(&value(&before, name), 40), words::fit(&value(&after, name), 40)])
        .collect()
}
