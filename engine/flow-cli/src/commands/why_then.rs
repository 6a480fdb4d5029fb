//! Why steps ran in an ended run, from its journal.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use flow_core::{Digest, RunId, fingerprint::PartKind, plan::State, why::Reason};
use flow_runs::StoreDir;
use indexmap::IndexMap;

use super::past_runs::PastRuns;
use super::{CommandResult, find};
use crate::{
    args::Global,
    error::CliError,
    output::{FAINT, GOOD, NOTE, Output, STRONG, styled},
    place::StoreLocation,
    reasons::{self, InstanceReason},
    screen::{InstanceState, InstanceView},
    words,
};

/// `flow why STEP --run RUN`.
pub(super) fn of_run(
    global: &Global,
    workflow: Option<PathBuf>,
    run: &str,
    steps: &[String],
    output: &mut Output,
) -> CommandResult {
    let place = StoreLocation::find(global, workflow.as_deref())?;
    let (_, view) = place.view(Some(run))?;
    let mut past = PastRuns::of(&place.store);
    let mut told: IndexMap<(&str, String), Vec<(&InstanceView, InstanceReason)>> = IndexMap::new();
    let mut found: Vec<&InstanceView> = if steps.is_empty() { view.instances.values().collect() } else { Vec::new() };
    for step in steps {
        found.extend(find(&view, step)?);
    }
    let (mut known, mut changed_in) = (BTreeSet::new(), None);
    for shown in found.into_iter().filter(|shown| known.insert(&shown.label)) {
        let (how, because) = then(shown, &mut past);
        if changed_in.is_none() && matches!(&because, InstanceReason::Runs(why) if has_lines(&why.first)) {
            changed_in = match &shown.state {
                InstanceState::Cached(_, from) => Some(from.clone()),
                _ => view.start.as_ref().map(|start| start.run.clone()),
            };
        }
        told.entry((&shown.step, how)).or_default().push((shown, because));
    }
    for ((step, how), of) in told {
        output.lines(lines(step, &how, of, output.verbose))?;
    }
    changed_in.map_or(Ok(()), |run| refer_to_run(&place, &run, output))
}

/// Whether `flow diff` shows the lines of one of these changes.
pub(super) fn has_lines(reasons: &[Reason]) -> bool {
    let is_shown =
        |reason: &Reason| matches!(reason, Reason::Input(..) | Reason::Value { kind: PartKind::Command, .. });
    reasons.iter().any(is_shown)
}

/// Names the commands for an edit since the last run. `flow accept` alone takes no changed command.
pub(super) fn refer_to_edit(
    label: &str,
    reasons: &[Reason],
    workflow: Option<&Path>,
    output: &mut Output,
) -> Result<(), CliError> {
    let file = workflow.map(|file| format!(" -w {}", file.display())).unwrap_or_default();
    let mut line = format!("`flow diff now{file}` shows the changed lines");
    if reasons.iter().all(|reason| matches!(reason, Reason::Input(..))) {
        let step = words::step_of(label);
        line += &format!(", `flow accept {step}{file} --reason TEXT` keeps the old results");
    }
    Ok(output.line(line)?)
}

/// Names the command that shows the changed lines of a change between a run and the one before it.
pub(super) fn refer_to_run(place: &StoreLocation, run: &RunId, output: &mut Output) -> Result<(), CliError> {
    let runs = place.runs()?;
    let Some(at) = runs.iter().position(|(id, _)| id == run) else { return Ok(()) };
    let earlier = runs[..at].iter().rfind(|(_, start)| start.file == runs[at].1.file);
    let Some((before, _)) = earlier else { return Ok(()) };
    let between = format!("{} {}", words::end(before), words::end(run));
    Ok(output.line(format!("`flow diff {between}` shows the changed lines"))?)
}

/// The result of an instance in its run, and the reason.
fn then(shown: &InstanceView, past: &mut PastRuns<'_>) -> (String, InstanceReason) {
    let own =
        || shown.reason.clone().unwrap_or_else(|| InstanceReason::Words("its journal does not record why".to_owned()));
    match &shown.state {
        InstanceState::Cached(_, from) => {
            let because = shown.fingerprint.and_then(|of| past.reason(from, &of, &shown.label));
            let because = because.unwrap_or_else(|| InstanceReason::Words("nothing had changed".to_owned()));
            (format!("{}, it ran in run {from}", styled(FAINT, "cached")), because)
        }
        InstanceState::Done(_) => (styled(GOOD, "ran"), own()),
        InstanceState::Settled(outcome) => (styled(NOTE, words::outcome(*outcome)), own()),
        InstanceState::NotNeeded => (styled(FAINT, "not needed"), own()),
        InstanceState::Running => (styled(NOTE, "ran and did not end in that run"), own()),
        InstanceState::Waiting => (styled(NOTE, "did not run"), own()),
    }
}

/// The results of a step's instances: each, or those with reasons of one form together.
fn lines(step: &str, how: &str, of: Vec<(&InstanceView, InstanceReason)>, each: bool) -> Vec<String> {
    if each {
        let line = |(shown, because): &(&InstanceView, InstanceReason)| {
            format!("{}: {how}: {}", styled(STRONG, &shown.label), because.words())
        };
        return of.iter().map(line).collect();
    }
    let line = |form: &reasons::SimilarReasons<&InstanceView>| {
        let who = words::instances(form.count, &form.of.label, step);
        format!("{}: {how}: {}", styled(STRONG, who), form.words())
    };
    reasons::alike(of.into_iter()).iter().map(line).collect()
}

/// Why the present results were made, unless each was the first of its instance. Returns the last run in which an input or
/// a command had changed.
pub(super) fn since<'a>(
    store: &StoreDir,
    queried: impl Iterator<Item = (&'a str, &'a State)>,
    output: &mut Output,
) -> Result<Option<RunId>, CliError> {
    /// A journal is read for each.
    const RUNS: usize = 8;
    let mut runs: IndexMap<&RunId, Vec<(&str, &Digest)>> = IndexMap::new();
    for (label, state) in queried {
        if let State::Cached { from, fingerprint, read_again: false, .. } = state {
            runs.entry(from).or_default().push((label, fingerprint));
        }
    }
    let (mut past, mut changed_in) = (PastRuns::of(store), None);
    for (run, of) in runs.into_iter().take(RUNS) {
        for of_step in of.chunk_by(|(a, _), (b, _)| words::step_of(a) == words::step_of(b)) {
            let because = of_step.iter().filter_map(|(label, fingerprint)| {
                let because = past.reason(run, fingerprint, label)?;
                if matches!(&because, InstanceReason::Runs(why) if has_lines(&why.first)) {
                    changed_in = changed_in.max(Some(run));
                }
                let is_first = matches!(&because, InstanceReason::Runs(why) if why.first == [Reason::NeverRan]);
                (!is_first).then_some((*label, because))
            });
            for form in reasons::alike(because) {
                let who = words::instances(form.count, form.of, words::step_of(form.of));
                output.line(format!("{}: ran in run {run}: {}", styled(STRONG, who), form.words()))?;
            }
        }
    }
    Ok(changed_in.cloned())
}
