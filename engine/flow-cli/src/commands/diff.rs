//! `flow diff`.

use std::collections::{BTreeMap, BTreeSet};
use std::process::ExitCode;

use clap::Args;
use flow_core::fingerprint::Parts;
use flow_core::why;
use flow_core::{KeptInput, Metric, RunEvent, RunId, RunStart, StepResult};
use flow_store::{Objects, Results, StoreDir};
use serde_json::Value;

use super::Done;
use crate::args::{About, Global};
use crate::error::CliError;
use crate::output::{BAD, FAINT, GOOD, Output, STRONG, styled};
use crate::place::{self, StoreLocation};
use crate::screen::{InstanceState, View};
use crate::unified::unified;
use crate::{reasons, words};

/// Arguments of `flow diff`.
#[derive(Debug, Args)]
#[command(after_help = "\
Example:
  flow diff 3f2a 91bc                    runs by the ends of their ids; `flow runs` lists them")]
pub(crate) struct Diff {
    /// A run, by its id or the end of it
    before: String,
    /// Another one
    after: String,
    #[command(flatten)]
    about: About,
}

/// A run as far as it is compared.
struct Side {
    start: RunStart,
    /// How each instance was settled, by label.
    settled: BTreeMap<String, String>,
    results: BTreeMap<String, StepResult>,
    /// What their fingerprints are made of, as far as a journal tells, and those of what failed.
    parts: BTreeMap<String, Parts>,
}

impl Diff {
    pub(crate) fn execute(self, global: &Global, output: &mut Output) -> Done {
        let place = StoreLocation::find(global, &self.about)?;
        let results = place::results(&place.store, output)?;
        let side = |run: &str| -> Result<Side, CliError> { side(place.view(Some(run))?.1, &*results, &place.store) };
        let (before, after) = (side(&self.before)?, side(&self.after)?);
        let mut lines = compare(&before, &after);
        lines.extend(inputs(&before, &after, &place.store.objects()));
        lines.extend(changes(&before, &after));
        if lines.is_empty() {
            output.line("nothing differs")?;
        }
        for line in lines {
            output.line(line)?;
        }
        Ok(ExitCode::SUCCESS)
    }
}

fn side(view: View, kept: &dyn Results, store: &StoreDir) -> Result<Side, CliError> {
    let start = view.start.ok_or_else(|| CliError::failed("the journal of that run has no beginning"))?;
    let (mut settled, mut results) = (BTreeMap::new(), BTreeMap::new());
    for shown in view.instances.into_values() {
        let how = match &shown.state {
            // Nobody asked for it.
            InstanceState::NotNeeded => continue,
            InstanceState::Waiting | InstanceState::Running => "not settled",
            InstanceState::Cached(outcome, _) | InstanceState::Done(outcome) | InstanceState::Settled(outcome) => {
                words::outcome(*outcome)
            }
        };
        settled.insert(shown.label.clone(), how.to_owned());
        if let Some(result) = shown.result(kept)? {
            results.insert(shown.label, result);
        }
    }
    let from = results.values().map(|result: &StepResult| &result.run).chain([&start.run]);
    let mut parts = BTreeMap::new();
    for run in from.collect::<BTreeSet<_>>() {
        let of_it = parts_of(store, run).into_iter();
        // Of a result that was reused, those of the run that made it.
        parts.extend(of_it.filter(|(label, _)| results.get(label).map_or(&start.run, |result| &result.run) == run));
    }
    Ok(Side { start, settled, results, parts })
}

/// What the fingerprints were made of that a run recorded or tried, by label; nothing where its journal is gone.
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

fn compare(before: &Side, after: &Side) -> Vec<String> {
    let mut out = Vec::new();
    section(&mut out, "settings", settings(&before.start, &after.start));
    let labels: BTreeSet<&String> = before.settled.keys().chain(after.settled.keys()).collect();
    let mut ends = Vec::new();
    let mut metrics = Vec::new();
    for label in labels {
        let (was, is) = (before.settled.get(label), after.settled.get(label));
        if was != is {
            let end = |side: Option<&String>| side.cloned().unwrap_or_else(|| "—".to_owned());
            ends.push(vec![label.clone(), end(was), end(is)]);
        }
        if let (Some(was), Some(is)) = (before.results.get(label), after.results.get(label))
            && (was.fingerprint != is.fingerprint || was.run != is.run)
        {
            metrics.extend(numbers(label, was, is));
        }
    }
    section(&mut out, "instances", ends);
    section(&mut out, "results", metrics);
    out
}

/// Files that steps were given in both runs, or in one of them, as far as they are kept; each change once, however many read it.
fn inputs(before: &Side, after: &Side, objects: &Objects) -> Vec<String> {
    let mut changes: BTreeSet<(&String, Option<&KeptInput>, Option<&KeptInput>)> = BTreeSet::new();
    for (label, was) in &before.results {
        let (Some(was), Some(is)) = (&was.kept, after.results.get(label).and_then(|is| is.kept.as_ref())) else {
            continue;
        };
        if was.inputs.is_empty() || is.inputs.is_empty() {
            continue;
        }
        let names = was.inputs.keys().chain(is.inputs.keys());
        let both = names.map(|name| (name, was.inputs.get(name), is.inputs.get(name)));
        changes.extend(both.filter(|(_, was, is)| was != is));
    }
    let text = |input: &KeptInput| {
        let bytes = objects.read_private(&input.digest).filter(|_| input.text)?;
        String::from_utf8(bytes).ok()
    };
    let about = |input: &KeptInput| format!("{} ({})", words::bytes(input.bytes), &input.digest.to_string()[..8]);
    let mut out = Vec::new();
    if !changes.is_empty() {
        out.push(styled(STRONG, "inputs"));
    }
    for (name, was, is) in changes {
        match (was, is) {
            (Some(was), Some(is)) => match (text(was), text(is)) {
                (Some(was), Some(is)) => {
                    out.push(format!("  {name} changed"));
                    out.extend(hunks(&unified(&was, &is)));
                }
                _ => out.push(format!("  {name} changed: was {}, is {}", about(was), about(is))),
            },
            (None, Some(is)) => out.push(format!("  {name} is new: {}", about(is))),
            (Some(was), None) => out.push(format!("  {name} is gone: was {}", about(was))),
            (None, None) => {}
        }
    }
    out
}

/// What changed of instances that have no result in one of the runs, for they failed: nothing of them is kept to be compared.
fn changes(before: &Side, after: &Side) -> Vec<String> {
    let both = |label: &String| before.results.contains_key(label) && after.results.contains_key(label);
    let mut changes: BTreeMap<String, Vec<&str>> = BTreeMap::new();
    for (label, was) in &before.parts {
        let Some(is) = after.parts.get(label).filter(|_| !both(label)) else { continue };
        for reason in why::compare(was, is, &mut |_| None) {
            changes.entry(reasons::reason(&reason)).or_default().push(label);
        }
    }
    let heading = (!changes.is_empty()).then(|| styled(STRONG, "changes"));
    let line = |(reason, labels): (String, Vec<&str>)| match labels[..] {
        [one] => format!("  {one}: {reason}"),
        [first, ..] => format!("  {first} and {} more: {reason}", words::thousands(labels.len() - 1)),
        [] => reason,
    };
    heading.into_iter().chain(changes.into_iter().map(line)).collect()
}

/// A difference as it is shown, cut where it is long.
fn hunks(lines: &[String]) -> Vec<String> {
    const SHOWN: usize = 40;
    let shown = |line: &String| match line.as_bytes().first() {
        Some(b'+') => styled(GOOD, line),
        Some(b'-') => styled(BAD, line),
        Some(b'@') => styled(FAINT, line),
        _ => line.clone(),
    };
    let more = lines.len().saturating_sub(SHOWN);
    let cut =
        (more > 0).then(|| format!("… {} more {}", words::thousands(more), if more == 1 { "line" } else { "lines" }));
    lines.iter().take(SHOWN).map(shown).chain(cut).map(|line| format!("    {line}")).collect()
}

fn section(out: &mut Vec<String>, heading: &str, mut rows: Vec<Vec<String>>) {
    if rows.is_empty() {
        return;
    }
    rows.insert(0, ["", "before", "after", ""].map(|head| styled(FAINT, head)).to_vec());
    out.push(styled(STRONG, heading));
    out.extend(words::columns(&rows).into_iter().map(|line| format!("  {line}")));
}

fn settings(before: &RunStart, after: &RunStart) -> Vec<Vec<String>> {
    let flat = |start: &RunStart| -> BTreeMap<String, String> {
        let plain = |value: &Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
        let mut all: BTreeMap<String, String> =
            start.params.iter().map(|(name, value)| (format!("params.{name}"), plain(value))).collect();
        let gpus: Vec<&str> = start.machine.gpus.iter().map(|gpu| &*gpu.name).collect();
        all.insert("workflow".into(), start.workflow.clone());
        all.insert("flow".into(), start.flow.clone());
        all.insert("policy".into(), start.policy.clone());
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

/// Numbers that differ, with their change in per cent.
fn numbers(label: &str, was: &StepResult, is: &StepResult) -> Vec<Vec<String>> {
    // What takes so short a time, flow's own steps above all, takes another one each time.
    const SHORT_S: f64 = 0.01;
    let short = was.usage.wall_s.max(is.usage.wall_s) < SHORT_S;
    let all = |result: &StepResult| -> BTreeMap<String, Metric> {
        let mut all = result.metrics.clone();
        let wall = Metric { value: result.usage.wall_s, unit: "s".into(), epochs: None, sd: None, values: vec![] };
        all.extend((!short).then_some(("wall".to_owned(), wall)));
        all
    };
    let (was, is) = (all(was), all(is));
    let names: BTreeSet<&String> = was.keys().chain(is.keys()).collect();
    let shown = |metric: Option<&Metric>| metric.map_or_else(|| "—".to_owned(), |m| words::metric(m.value, &m.unit));
    names
        .into_iter()
        .filter(|name| was.get(*name).map(|m| m.value) != is.get(*name).map(|m| m.value))
        .map(|name| {
            let (was, is) = (was.get(name), is.get(name));
            let change = match (was, is) {
                (Some(was), Some(is)) if was.value != 0.0 => {
                    format!("{:+.1} %", (is.value - was.value) / was.value.abs() * 100.0).replace('-', "−")
                }
                _ => String::new(),
            };
            vec![format!("{label} {name}"), shown(was), shown(is), change]
        })
        .collect()
}
