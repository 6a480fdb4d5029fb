//! The edits between two runs: the workflow, its files, and everything else that fingerprints
//! depend on.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use flow_core::fingerprint::{PartKind, Parts};
use flow_core::why::{self, InputChange, Reason, WrittenChange, written_changes};
use flow_core::{Difference, Digest, KeptInput};
use flow_exec::PresentEnvironment;
use flow_store::Objects;
use indexmap::IndexMap;
use serde_json::Value;
use similar::TextDiff;

use super::Side;
use crate::output::{BAD, FAINT, GOOD, STRONG, styled};
use crate::{
    reasons,
    words::{self, step_of},
};

/// A longer value, or one of several lines, is shown as a diff of lines.
const LONGEST: usize = 40;

/// Follows a changed input whose lines are unknown.
const NO_TEXT: &str = "; the imported run has no text of it (`flow export --inputs` takes texts along)";

/// The differences between the steps as written.
pub(super) fn workflow(before: &Side, after: &Side) -> Vec<String> {
    if before.written.is_empty() || after.written.is_empty() {
        return Vec::new();
    }
    let is_part = [before, after].iter().any(|side| !side.start.targets.is_empty());
    let changes = written_changes(&before.written, &after.written, is_part);
    titled("workflow", changes.iter().flat_map(change))
}

/// Lines below a title; none without lines.
fn titled(title: &str, lines: impl Iterator<Item = String>) -> Vec<String> {
    let mut lines = lines.peekable();
    let title = lines.peek().map(|_| styled(STRONG, title));
    title.into_iter().chain(lines).collect()
}

fn change(change: &WrittenChange) -> Vec<String> {
    let (steps, key, was, is) = match change {
        WrittenChange::Added(step) => return vec![format!("  {step} is new")],
        WrittenChange::Removed(step) => return vec![format!("  {step} is gone")],
        WrittenChange::Renamed { was, is } => return vec![format!("  {was} is now called {is}")],
        WrittenChange::Key { steps, key, was, is } => (steps, key, was.as_ref(), is.as_ref()),
    };
    let steps = steps.join(", ");
    // The text, in quotes if it would be read as another value.
    let same_text = was.map(plain) == is.map(plain);
    let text = |value: Option<&Value>| value.map(|value| if same_text { value.to_string() } else { plain(value) });
    let (was, is) = (text(was), text(is));
    let fits = |text: &Option<String>| text.as_ref().is_none_or(|text| text.len() <= LONGEST && !text.contains('\n'));
    if fits(&was) && fits(&is) {
        let none = || "—".to_owned();
        return vec![format!("  {steps} {key}: {} → {}", was.unwrap_or_else(none), is.unwrap_or_else(none))];
    }
    let (was, is) = (was.unwrap_or_default(), is.unwrap_or_default());
    let mut lines = unified(&was, &is);
    if was.lines().count().max(is.lines().count()) == 1 {
        // A line number alone explains nothing.
        lines.retain(|line| !line.starts_with("@@"));
    }
    std::iter::once(format!("  {steps} {key}")).chain(hunks(&lines)).collect()
}

/// The difference of two texts as `diff -u` shows it: nothing if they are equal.
fn unified(before: &str, after: &str) -> Vec<String> {
    // Texts that have little in common are not compared for longer than this.
    let diff = TextDiff::configure().timeout(Duration::from_secs(1)).diff_lines(before, after);
    let text = diff.unified_diff().context_radius(3).missing_newline_hint(false).to_string();
    text.lines().map(str::to_owned).collect()
}

/// A value, roughly as written in YAML.
fn plain(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Array(items) => format!("[{}]", items.iter().map(plain).collect::<Vec<_>>().join(", ")),
        other => other.to_string(),
    }
}

/// Input files of both runs or of one of them, if they are stored. Each change appears once,
/// however many steps read the file. Returns the names of these files too.
pub(super) fn inputs(before: &Side, after: &Side, objects: &Objects) -> (Vec<String>, BTreeSet<String>) {
    let mut changes: BTreeSet<(&String, Option<&KeptInput>, Option<&KeptInput>)> = BTreeSet::new();
    for (label, was) in &before.inputs {
        let Some(is) = after.inputs.get(label).filter(|is| !is.is_empty() && !was.is_empty()) else { continue };
        let both = was.keys().chain(is.keys()).map(|name| (name, was.get(name), is.get(name)));
        changes.extend(both.filter(|(_, was, is)| was != is));
    }
    let text = |side: &Side, input: &KeptInput| {
        let kept = || String::from_utf8(objects.read_private(&input.digest)?).ok();
        side.texts.get(&input.digest).cloned().or_else(|| input.text.then(kept).flatten())
    };
    let about = |input: &KeptInput| format!("{} ({})", words::bytes(input.bytes), &input.digest.to_string()[..8]);
    let mut out = Vec::new();
    let names = changes.iter().map(|(name, ..)| (*name).clone()).collect();
    for (name, was, is) in changes {
        match (was, is) {
            (Some(was), Some(is)) => match (text(before, was), text(after, is)) {
                (Some(was), Some(is)) => {
                    out.push(format!("  {name} changed"));
                    out.extend(hunks(&unified(&was, &is)));
                }
                texts => {
                    let lacks = |side: &Side, input: &KeptInput, text: Option<String>| {
                        side.origin.is_some() && input.text && text.is_none()
                    };
                    let way = if lacks(before, was, texts.0) || lacks(after, is, texts.1) { NO_TEXT } else { "" };
                    out.push(format!("  {name} changed: was {}, is {}{way}", about(was), about(is)));
                }
            },
            (None, Some(is)) => out.push(format!("  {name} is new: {}", about(is))),
            (Some(was), None) => out.push(format!("  {name} is gone: was {}", about(was))),
            (None, None) => {}
        }
    }
    (titled("inputs", out.into_iter()), names)
}

/// Other differences in what instances are made from: those that no shown workflow, parameter or
/// file explains.
pub(super) fn others(before: &Side, after: &Side, files: &BTreeSet<String>, objects: &Objects) -> Vec<String> {
    let explained = ExplainedChanges::of(before, after, files);
    let mut changes: BTreeMap<String, Vec<&str>> = BTreeMap::new();
    for (label, was) in &before.parts {
        let Some(is) = after.parts.get(label) else { continue };
        for reason in why::compare(was, is, &mut |digest| flow_exec::listed(digest, objects).ok()?) {
            if !explained.has(label, &reason) {
                changes.entry(reasons::reason(&reason)).or_default().push(label);
            }
        }
    }
    let line = |(reason, labels): (String, Vec<&str>)| match labels[..] {
        [one] => format!("  {one}: {reason}"),
        [first, ..] => format!("  {first} and {} more: {reason}", words::thousands(labels.len() - 1)),
        [] => reason,
    };
    titled("changes", changes.into_iter().map(line))
}

/// Differences of the environments in which the instances of both sides ran; `present` is the environment of the next
/// run.
pub(super) fn environments(
    before: &Side,
    present: &mut Option<PresentEnvironment>,
    after: &Side,
    objects: &Objects,
) -> Vec<String> {
    let mut known: BTreeMap<(Digest, Option<Digest>), Vec<Difference>> = BTreeMap::new();
    let mut changes: IndexMap<Difference, Vec<&str>> = IndexMap::new();
    for (label, result) in &before.results {
        let Some(was) = result.circumstances.environment else { continue };
        let is = after.results.get(label).and_then(|after| after.circumstances.environment);
        if is == Some(was) || is.is_none() && (present.is_none() || !after.parts.contains_key(label)) {
            continue;
        }
        let found = known.entry((was, is)).or_insert_with(|| match (is, &mut *present) {
            (Some(is), _) => {
                let load = |digest| flow_exec::environment(digest, objects);
                load(&was).zip(load(&is)).map(|(was, is)| was.differences(&is)).unwrap_or_default()
            }
            (None, Some(present)) => present.since(&was).differences,
            (None, None) => Vec::new(),
        });
        // The packages of a declared environment are a reason of their own.
        let mut parts = before.parts.get(label).into_iter().flat_map(|parts| parts.base.iter());
        let is_declared = parts.any(|part| part.kind == PartKind::Environment);
        for difference in found.iter().filter(|one| !(is_declared && one.is_of_python())) {
            changes.entry(difference.clone()).or_default().push(label);
        }
    }
    let all = before.results.values().filter(|result| result.circumstances.environment.is_some()).count();
    let (variables, changes): (Vec<_>, Vec<_>) = changes.into_iter().partition(|(one, _)| one.is_variable());
    let line = |(difference, of): (Difference, Vec<&str>)| {
        let said = reasons::difference(&difference);
        if of.len() == all { format!("  {said}") } else { format!("  {said}: {}", by_step(&of)) }
    };
    let names = variables.iter().filter_map(|(one, _)| match one {
        Difference::Variable { name } => Some(format!("`{name}`")),
        _ => None,
    });
    let names: Vec<String> = names.collect();
    let variables =
        (!names.is_empty()).then(|| format!("  also different, without effect on the cache: {}", names.join(", ")));
    titled("environment", changes.into_iter().map(line).chain(variables))
}

/// The steps of these instances, each once: `train × 6, table`.
fn by_step(labels: &[&str]) -> String {
    let mut steps: IndexMap<&str, Vec<&str>> = IndexMap::new();
    for label in labels {
        steps.entry(step_of(label)).or_default().push(label);
    }
    let name = |(step, of): (&str, Vec<&str>)| words::instances(of.len(), of[0], step);
    steps.into_iter().map(name).collect::<Vec<_>>().join(", ")
}

/// What was shown already, and its consequences.
struct ExplainedChanges<'a> {
    files: &'a BTreeSet<String>,
    /// Parameters differ, or the steps as written are unknown.
    values: Option<bool>,
    /// Steps with different keys.
    steps: BTreeSet<String>,
    /// Steps with different instances.
    differ: BTreeSet<&'a str>,
}

impl<'a> ExplainedChanges<'a> {
    fn of(before: &'a Side, after: &'a Side, files: &'a BTreeSet<String>) -> ExplainedChanges<'a> {
        let is_written = !before.written.is_empty() && !after.written.is_empty();
        let keys = |change: WrittenChange| match change {
            WrittenChange::Key { steps, .. } => steps,
            _ => Vec::new(),
        };
        let changes = if is_written { written_changes(&before.written, &after.written, true) } else { Vec::new() };
        let differ = |(label, was): (&'a String, &Parts)| {
            let is = after.parts.get(label)?;
            (is != was).then(|| step_of(label))
        };
        ExplainedChanges {
            files,
            values: is_written.then(|| before.start.params != after.start.params),
            steps: changes.into_iter().flat_map(keys).collect(),
            differ: before.parts.iter().filter_map(differ).collect(),
        }
    }

    fn has(&self, label: &str, reason: &Reason) -> bool {
        match reason {
            Reason::Value { kind: PartKind::Measured | PartKind::Version | PartKind::Protocol, .. } => false,
            // The section of the workflow shows other patterns. A stored output that is read again keeps its old ones.
            Reason::Value { kind: PartKind::Metrics, .. } => self.values.is_some(),
            Reason::Value { .. } | Reason::Measurement(_) => {
                self.values.is_some_and(|params| params || self.steps.contains(step_of(label)))
            }
            Reason::Input(path, change) => {
                let is_shown = |name: &str| self.files.contains(name);
                match change {
                    InputChange::Files { named, .. } => {
                        named.iter().any(|(file, _)| is_shown(&format!("{path}/{file}")))
                    }
                    InputChange::Whole(_) | InputChange::Listing | InputChange::By => {
                        self.files.iter().any(|name| name == path || name.starts_with(&format!("{path}/")))
                    }
                }
            }
            Reason::Artifact(path, _) => path.split('/').nth(1).is_some_and(|step| self.differ.contains(step_of(step))),
            // The results that a table reads have a section of their own.
            Reason::Results { .. } | Reason::Seen(..) | Reason::Set(_) | Reason::Text(_) | Reason::Many(_) => true,
            _ => false,
        }
    }
}

/// A difference as shown; a long one is cut.
fn hunks(lines: &[String]) -> Vec<String> {
    const SHOWN: usize = 40;
    let shown = |line: &String| match line.as_bytes().first() {
        Some(b'+') => styled(GOOD, line),
        Some(b'-') => styled(BAD, line),
        Some(b'@') => styled(FAINT, line),
        _ => line.clone(),
    };
    let lines = words::cut(lines.iter().map(shown), SHOWN, |more| format!("… {}", words::count(more, "more line")));
    lines.iter().map(|line| format!("    {line}")).collect()
}
