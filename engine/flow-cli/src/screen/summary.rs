//! The summary at the end of a run: what was cached, what ran and why, what failed with the last
//! lines of its log, and where the report is. Words only; the caller passes the log lines.

use std::{collections::BTreeMap, mem::discriminant};

use flow_core::{
    Outcome,
    reason::{Cause, Disturbance},
    why::{Reason, RunReasons},
};
use indexmap::IndexMap;

use super::view::{InstanceState, InstanceView, View, is_failure};
use crate::output::{BAD, FAINT, GOOD, NOTE, Output, STRONG, styled};
use crate::reasons::{self, InstanceReason};
use crate::words;

/// The parts of a run's end that its events lack.
#[derive(Default)]
pub(crate) struct RunEndDetails {
    pub(crate) run: String,
    /// The answers of the reports.
    pub(crate) answers: Vec<String>,
    /// Tables and reports that the run made.
    pub(crate) made: Vec<String>,
    /// The earlier run with the same state, and its number of results.
    pub(crate) unchanged: Option<u32>,
    /// Instances that have ended since the run was killed.
    pub(crate) since: usize,
    /// Show every failure, not only the first ones.
    pub(crate) all: bool,
}

/// The column of a sentence's further lines.
pub(crate) const FURTHER: usize = 12;

/// The amount of detail.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Length {
    /// Only the first line and failures.
    pub(crate) short: bool,
    /// The maximum width of a reason in columns.
    pub(crate) columns: Option<usize>,
}

impl Length {
    /// As requested, and as the terminal has room.
    pub(crate) fn of(output: &Output) -> Self {
        Length { short: output.quiet, columns: output.columns().filter(|_| !output.verbose) }
    }
}

/// The text; `log` returns the last lines of an attempt's log, by its folder.
pub(crate) fn summary(
    view: &View,
    ended: &RunEndDetails,
    Length { short, columns }: Length,
    log: &dyn Fn(&str) -> Vec<String>,
) -> Vec<String> {
    let mut out = Vec::new();
    match ended.unchanged {
        Some(total) => out.push(format!(
            "{} nothing to do: {} cached (run {})",
            styled(GOOD, "done:"),
            words::count(total as usize, "result"),
            ended.run
        )),
        None => out.push(headline(view, ended)),
    }
    failures(view, ended.all, &mut out, log);
    not_kept(view, &mut out);
    out.extend(view.not_published.iter().map(|why| format!("  {} {why}", styled(BAD, "not published"))));
    if short {
        return out;
    }
    let told = out.len();
    ran(view, &mut out);
    not_run(view, &mut out);
    if let Some(columns) = columns {
        out[told..].iter_mut().for_each(|line| *line = words::fit(line, columns));
    }
    without_numbers(view, &mut out);
    out.extend(ended.answers.iter().map(|answer| format!("  {} {answer}", styled(STRONG, "answer:  "))));
    published(&view.published, &mut out);
    for (path, written, why) in &view.withheld {
        out.push(format!("  {:<9} {written}", "written"));
        out.push(format!("  {} {path}: {why}", styled(NOTE, format_args!("{:<9}", "kept"))));
    }
    if view.exit == Some(130) {
        out.push("the next run continues from there".to_owned());
    }
    // A report that is not published would not be found, so its place is printed.
    if view.published.is_empty() && view.withheld.is_empty() {
        let last = ended.made.iter().skip(ended.made.len().saturating_sub(3));
        out.extend(last.map(|label| format!("  {:<9} flow show '{label}'", "see")));
    }
    out
}

/// Published files: the charts and tables of a report are in a folder with its name, and share one
/// line. If only some of them changed, it also names the others.
fn published(files: &[(String, bool)], out: &mut Vec<String>) {
    const NAMED: usize = 3;
    let how = |changed: bool| if changed { "published" } else { "unchanged" };
    let mut files = files.iter().peekable();
    while let Some((path, changed)) = files.next() {
        out.push(format!("  {:<9} {path}", how(*changed)));
        let folder = format!("{}/", path.rsplit_once('.').map_or(&**path, |(stem, _)| stem));
        let (mut new, mut same) = (0, Vec::new());
        while let Some((path, changed)) = files.next_if(|(path, _)| path.starts_with(&folder)) {
            if *changed { new += 1 } else { same.push(&path[folder.len()..]) }
        }
        let written = words::count(if new > 0 { new } else { same.len() }, "file");
        let unchanged = match same.len() {
            1..=NAMED if new > 0 => format!(", unchanged: {}", same.join(", ")),
            more if more > 0 && new > 0 => format!(", {more} unchanged"),
            _ => String::new(),
        };
        if new + same.len() > 0 {
            out.push(format!("  {:<9} {written} in {folder}{unchanged}", how(new > 0)));
        }
    }
}

fn headline(view: &View, ended: &RunEndDetails) -> String {
    let count = |is: &dyn Fn(&InstanceState) -> bool| view.instances.values().filter(|shown| is(&shown.state)).count();
    let is_done = |shown: &&InstanceView| matches!(shown.state, InstanceState::Done(_));
    let not_kept = view.instances.values().filter(is_done).filter(|shown| view.is_not_kept(shown)).count();
    let collected = view.instances.values().filter(|shown| is_done(shown) && is_collected(view, shown));
    let collected = collected.filter(|shown| !view.is_not_kept(shown)).count();
    let done = [
        (count(&|s| matches!(s, InstanceState::Cached(..))), "cached"),
        (collected, "collected"),
        (count(&|s| matches!(s, InstanceState::Done(_))) - not_kept - collected, "ran"),
        (not_kept, "not kept"),
    ];
    let without_result = [
        Outcome::Failed,
        Outcome::OutOfMemory,
        Outcome::TimedOut,
        Outcome::DoesNotFit,
        Outcome::Skipped,
        Outcome::Cancelled,
    ];
    let without_result =
        without_result.map(|outcome| (count(&|s| *s == InstanceState::Settled(outcome)), words::outcome(outcome)));
    let open = count(&InstanceState::is_open).saturating_sub(ended.since);
    let open = [(ended.since, "ended since then"), (open, "not finished")];
    let mut parts = words::counts(done.into_iter().chain(without_result).chain(open));
    let (style, word) = match view.exit {
        Some(0) => (GOOD, "done:"),
        Some(130) => (NOTE, "interrupted:"),
        Some(_) => (BAD, "failed:"),
        None => (BAD, "killed:"),
    };
    if view.instances.is_empty() && view.exit.is_none() {
        parts = "before it had a plan".to_owned();
    }
    let took = words::duration(view.elapsed(view.now));
    // The time of a kill is not recorded.
    let took = if view.exit.is_some() { format!(" in {took}") } else { format!(", last seen after {took}") };
    format!("{} {}{took} (run {})", styled(style, word), parts, ended.run)
}

/// An earlier run started it, which was killed, and this run did not start it again.
fn is_collected(view: &View, shown: &InstanceView) -> bool {
    let collects = |why: &RunReasons| why.first.iter().any(|reason| matches!(reason, Reason::Collects(_)));
    view.attempts_of(shown).len() == 1 && matches!(&shown.reason, Some(InstanceReason::Runs(why)) if collects(why))
}

/// Each failure with the end of its log. Instances of a step that failed in the same way share a
/// line, except with `all`.
fn failures(view: &View, all: bool, out: &mut Vec<String>, log: &dyn Fn(&str) -> Vec<String>) {
    const SHOWN: usize = 5;
    let mut failed: IndexMap<_, Vec<&InstanceView>> = IndexMap::new();
    for (id, shown) in &view.instances {
        let InstanceState::Settled(outcome) = shown.state else { continue };
        if !is_failure(outcome) {
            continue;
        }
        let said = view.attempts_of(shown).last().and_then(|attempt| attempt.message.clone());
        let why = said.or_else(|| Some(shown.reason.as_ref()?.words())).unwrap_or_default();
        let times = view.attempts_of(shown).len();
        let apart = all.then_some(id);
        failed.entry((&*shown.step, words::outcome(outcome), why, times, apart)).or_default().push(shown);
    }
    let most = if all { usize::MAX } else { SHOWN };
    for ((step, outcome, why, times, _), alike) in failed.iter().take(most) {
        let first = alike[0];
        let after = if *times > 1 { format!(" after {}", words::count(*times, "attempt")) } else { String::new() };
        let what = words::instances(alike.len(), &first.label, step);
        out.push(format!("  {} {}{after}: {why}", styled(BAD, outcome), styled(STRONG, what)));
        if let Some(attempt) = view.attempts_of(first).last() {
            let lines = log(&attempt.folder).into_iter().filter(|line| !line.trim().is_empty());
            let lines: Vec<String> = lines.collect();
            out.extend(lines.iter().map(|line| styled(FAINT, format_args!("    | {line}"))));
            // A step without output, such as one of flow's own, has no log.
            if !lines.is_empty() {
                out.push(format!("    flow logs '{}' shows all of it", first.label));
            }
        }
    }
    let left: usize = failed.values().skip(most).map(Vec::len).sum();
    if left > 0 {
        out.push(format!("  and {} more failed; `flow status` lists them", words::thousands(left)));
    }
}

/// The instances that ended well, but whose inputs had other content than their fingerprints say. Each input has a line,
/// because one step may have written into the copy of many.
fn not_kept(view: &View, out: &mut Vec<String>) {
    const SHOWN: usize = 3;
    let mut inputs: BTreeMap<&Disturbance, Vec<&InstanceView>> = BTreeMap::new();
    for shown in view.instances.values() {
        view.wrong_inputs(shown).iter().for_each(|why| inputs.entry(why).or_default().push(shown));
    }
    for (why, had) in inputs {
        let lost: Vec<&&InstanceView> = had.iter().filter(|shown| view.is_not_kept(shown)).collect();
        let writer = match (lost.len(), had.len()) {
            (0, _) => continue,
            (1, 1) => "it",
            (lost, _) if matches!(why, Disturbance::InputWritten { itself: true, .. }) => {
                if lost == 1 {
                    "it"
                } else {
                    "each of them"
                }
            }
            (lost, had) if lost == had => "at least one of them",
            // A step that failed.
            _ => "a step",
        };
        let mut labels: Vec<&str> = lost.iter().take(SHOWN).map(|shown| &*shown.label).collect();
        let more = format!("{} more", words::thousands(lost.len() - labels.len()));
        if lost.len() > SHOWN {
            labels.push(&more);
        }
        let (style, what) = (styled(BAD, "not kept"), styled(STRONG, labels.join(", ")));
        out.push(format!("  {style}  {what}: {}", reasons::not_kept(why, writer)));
    }
}

/// The instances that ran, by step and reason.
fn ran(view: &View, out: &mut Vec<String>) {
    let done = |shown: &&InstanceView| matches!(shown.state, InstanceState::Done(_)) && !view.is_not_kept(shown);
    let done = view.instances.values().filter(done).filter_map(|shown| Some((shown, shown.reason.clone()?)));
    for (shown, what, why) in alike(done) {
        let InstanceState::Done(outcome) = shown.state else { continue };
        let how = if outcome == Outcome::Ok { String::new() } else { format!(", {}", words::outcome(outcome)) };
        out.push(format!("  {:<9} {what}{how}: {why}", if is_collected(view, shown) { "collected" } else { "ran" }));
    }
}

/// How many instances of a sweep lack expected numbers; a single instance has its own line for
/// that.
fn without_numbers(view: &View, out: &mut Vec<String>) {
    // The lines nearest to a pattern differ in their numbers.
    let alike_cause = |cause: &Cause| match cause {
        Cause::NoMetrics { problem } => Cause::NoMetrics { problem: problem.without_lines() },
        other => other.clone(),
    };
    let why = |shown: &InstanceView| Some(InstanceReason::Settled(Outcome::Ok, Some(alike_cause(shown.no_metrics()?))));
    let missed = view.instances.values().filter_map(|shown| Some((shown, why(shown)?)));
    let mut steps: IndexMap<&str, Vec<(&InstanceView, InstanceReason)>> = IndexMap::new();
    missed.for_each(|(shown, why)| steps.entry(&shown.step).or_default().push((shown, why)));
    for missed in steps.into_values().filter(|missed| missed.len() > 1) {
        for (_, what, why) in alike(missed.into_iter()) {
            out.push(format!("  {} {what}: {why}", styled(NOTE, "no number")));
        }
    }
}

/// The instances that were skipped or cancelled, by step and reason.
fn not_run(view: &View, out: &mut Vec<String>) {
    let passed =
        |shown: &&InstanceView| matches!(shown.state, InstanceState::Settled(Outcome::Skipped | Outcome::Cancelled));
    let passed = view.instances.values().filter(passed).filter_map(|shown| Some((shown, shown.reason.clone()?)));
    for (shown, what, why) in alike(passed) {
        let InstanceState::Settled(outcome) = shown.state else { continue };
        out.push(format!("  {:<9} {what}: {why}", words::outcome(outcome)));
    }
}

/// Instances of one step with the same end and reasons of one form: the message and the reason, in
/// order of first appearance. Rare reasons beyond a few are counted.
fn alike<'a>(
    instances: impl Iterator<Item = (&'a InstanceView, InstanceReason)>,
) -> Vec<(&'a InstanceView, String, String)> {
    const FORMS: usize = 3;
    // The run that made a cached result does not matter here.
    let how = |state: &InstanceState| match state {
        InstanceState::Cached(outcome, _) | InstanceState::Done(outcome) | InstanceState::Settled(outcome) => {
            Some(*outcome)
        }
        InstanceState::Waiting | InstanceState::Running | InstanceState::NotNeeded => None,
    };
    let mut found: IndexMap<_, Vec<(&InstanceView, InstanceReason)>> = IndexMap::new();
    for (shown, why) in instances {
        found.entry((&*shown.step, discriminant(&shown.state), how(&shown.state))).or_default().push((shown, why));
    }
    let mut out = Vec::new();
    for ((step, ..), told) in found {
        let (first, all) = (told[0].0, told.len());
        let mut forms = reasons::alike(told.into_iter());
        let whole = forms.len();
        forms.truncate(FORMS);
        for form in &forms {
            out.push((form.of, words::instances(form.count, &form.of.label, step), form.words()));
        }
        let left = all - forms.iter().map(|form| form.count).sum::<usize>();
        if left > 0 {
            let (what, why) = (words::thousands(left), words::count(whole - FORMS, "other reason"));
            out.push((first, format!("{step} × {what}"), why));
        }
    }
    out
}
