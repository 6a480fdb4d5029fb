//! `flow diff`.

use std::collections::{BTreeMap, BTreeSet};
use std::hash::Hash;
use std::process::ExitCode;

use clap::Args;
use flow_core::fingerprint::Parts;
use flow_core::why;
use flow_core::{KeptInput, Metric, RunEvent, RunId, RunStart, StepResult};
use flow_store::{Objects, Results, StoreDir};
use indexmap::{IndexMap, IndexSet};
use serde_json::Value;

use super::Done;
use crate::args::{About, Global};
use crate::error::CliError;
use crate::output::{BAD, FAINT, GOOD, Output, STRONG, styled};
use crate::place::{self, StoreLocation};
use crate::screen::{InstanceState, View, each_result};
use crate::unified::unified;
use crate::{reasons, words};

/// Arguments of `flow diff`.
#[derive(Debug, Args)]
#[command(after_help = "\
Example:
  flow diff 3f2a 91bc                    runs by the ends of their ids; `flow runs` lists them

Many instances of a step are told as one, with the least and the largest of their numbers; -v tells each.")]
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
    settled: IndexMap<String, String>,
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
        // What somebody changed, before what came of it.
        let mut lines = Vec::new();
        section(&mut lines, "settings", settings(&before.start, &after.start));
        lines.extend(inputs(&before, &after, &place.store.objects()));
        lines.extend(changes(&before, &after));
        lines.extend(compare(&before, &after, output.verbose));
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
    let (mut settled, mut results) = (IndexMap::new(), BTreeMap::new());
    // Nobody asked for what was not needed.
    let shown = view.instances.values().filter(|shown| !matches!(shown.state, InstanceState::NotNeeded));
    each_result(shown, kept, |shown, result| {
        let how = match &shown.state {
            InstanceState::NotNeeded | InstanceState::Waiting | InstanceState::Running => "not settled",
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

/// How instances ended, and their numbers: each, or as one those of a step that are many.
fn compare(before: &Side, after: &Side, each: bool) -> Vec<String> {
    let labels: IndexSet<&String> = after.settled.keys().chain(before.settled.keys()).collect();
    let (mut ends, mut metrics) = (Vec::new(), Vec::new());
    for label in labels {
        let (was, is) = (before.settled.get(label), after.settled.get(label));
        if was != is {
            let end = |side: Option<&String>| side.cloned().unwrap_or_else(|| "—".to_owned());
            ends.push((label, end(was), end(is)));
        }
        if let (Some(was), Some(is)) = (before.results.get(label), after.results.get(label))
            && (was.fingerprint != is.fingerprint || was.run != is.run)
        {
            metrics.extend(numbers(was, is).into_iter().map(|(name, both)| (label, name, both)));
        }
    }
    let mut out = Vec::new();
    let ends = alike(ends.into_iter().map(|(label, was, is)| (label, (was, is), ())), each);
    let row = |(what, (was, is), _): (String, (String, String), Vec<()>)| vec![what, was, is];
    section(&mut out, "instances", ends.into_iter().map(row).collect());
    let numbers = alike(metrics.into_iter(), each);
    let row = |(what, name, both): (String, String, Vec<Both>)| {
        let side = |of: fn(&Both) -> &Option<Metric>| span(both.iter().filter_map(|both| of(both).as_ref()));
        vec![format!("{what} {name}"), side(|both| &both.0), side(|both| &both.1), changed(&both)]
    };
    section(&mut out, "results", numbers.into_iter().map(row).collect());
    out
}

/// A number before and after.
type Both = (Option<Metric>, Option<Metric>);

/// What is the same of many instances of a step, told as one unless each is asked for: whom it is about, what it is, and the rest of
/// each.
fn alike<'a, K: Eq + Hash + Clone, V>(
    all: impl Iterator<Item = (&'a String, K, V)>,
    each: bool,
) -> Vec<(String, K, Vec<V>)> {
    const MANY: usize = 4;
    let mut steps: IndexMap<(&str, K), Vec<(&String, V)>> = IndexMap::new();
    for (label, key, value) in all {
        let step = label.split('[').next().unwrap_or(label);
        steps.entry((step, key)).or_default().push((label, value));
    }
    let mut out = Vec::new();
    for ((step, key), of) in steps {
        if of.len() >= MANY && !each {
            let what = format!("{step} × {}", words::thousands(of.len()));
            out.push((what, key, of.into_iter().map(|(_, value)| value).collect()));
        } else {
            out.extend(of.into_iter().map(|(label, value)| (label.clone(), key.clone(), vec![value])));
        }
    }
    out
}

/// The least and the largest of some numbers, which may be one.
fn span<'a>(metrics: impl Iterator<Item = &'a Metric>) -> String {
    let mut all: Vec<&Metric> = metrics.collect();
    all.sort_by(|a, b| a.value.total_cmp(&b.value));
    let word = |metric: &Metric| words::metric(metric.value, &metric.unit);
    match (all.first().map(|metric| word(metric)), all.last().map(|metric| word(metric))) {
        (Some(least), Some(most)) if least != most => format!("{least} to {most}"),
        (Some(one), _) => one,
        (None, _) => "—".to_owned(),
    }
}

/// The change of some numbers in per cent.
fn changed(both: &[Both]) -> String {
    let change = |(was, is): &Both| match (was, is) {
        (Some(was), Some(is)) if was.value != 0.0 => Some((is.value - was.value) / was.value.abs() * 100.0),
        _ => None,
    };
    let mut all: Vec<f64> = both.iter().filter_map(change).collect();
    all.sort_by(f64::total_cmp);
    let word = |change: &f64| format!("{change:+.1} %").replace('-', "−");
    match (all.first().map(word), all.last().map(word)) {
        (Some(least), Some(most)) if least != most => format!("{least} to {most}"),
        (Some(one), _) => one,
        (None, _) => String::new(),
    }
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

/// Numbers that differ, by name.
fn numbers(was: &StepResult, is: &StepResult) -> Vec<(String, Both)> {
    // What takes so short a time, flow's own steps above all, takes another one each time.
    const SHORT_S: f64 = 0.01;
    let wall = |result: &StepResult| flow_report::measured(result, "wall");
    let short = [was, is].into_iter().filter_map(wall).all(|took| took < SHORT_S);
    // A time that lacks a part is compared with none.
    let whole = ![was, is].iter().any(|result| result.usage.lacks_a_part());
    let all = |result: &StepResult| -> BTreeMap<String, Metric> {
        let mut all = result.metrics.clone();
        let took = wall(result).filter(|_| whole && !short);
        let metric = |value| Metric { value, unit: "s".into(), epochs: None, sd: None, values: vec![] };
        all.extend(took.map(|value| ("wall".to_owned(), metric(value))));
        all
    };
    let (was, is) = (all(was), all(is));
    let names: BTreeSet<&String> = was.keys().chain(is.keys()).collect();
    let differ = names.into_iter().filter(|name| was.get(*name).map(|m| m.value) != is.get(*name).map(|m| m.value));
    differ.map(|name| (name.clone(), (was.get(name).cloned(), is.get(name).cloned()))).collect()
}
