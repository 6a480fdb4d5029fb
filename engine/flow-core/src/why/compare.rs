//! Compares the parts of two fingerprints. Does not know how they were made.

use std::collections::{BTreeMap, BTreeSet};

use indexmap::IndexMap;
use serde_json::Value;

use super::{FileChange, InputChange, ListContent, Reason};
use crate::Digest;
use crate::fingerprint::{Part, PartKind, PartValue, Parts, RUNNER};

/// The command that an instance ran, with paths instead of artifact digests, and the variables set by its workflow.
/// There is no command if the step uses a plugin, or if the command was too long to store.
pub fn as_run(parts: &Parts) -> (Option<String>, BTreeMap<String, String>) {
    let artifacts = artifacts(parts);
    let of = |kind: PartKind| parts.base.iter().filter(move |part| part.kind == kind);
    let text = |value: &PartValue| match shown(value, &artifacts) {
        Value::String(text) => text,
        other => other.to_string(),
    };
    let command = of(PartKind::Command).find(|part| part.name.is_empty() && matches!(part.value, PartValue::Is(_)));
    let env = of(PartKind::Variable).map(|part| (part.name.clone(), text(&part.value)));
    (command.map(|part| text(&part.value)), env.collect())
}

/// The differences between the parts of two fingerprints; empty only if the fingerprints are equal. `listed` looks up the
/// lists behind digests, as far as they are stored.
pub fn compare(old: &Parts, new: &Parts, listed: &mut dyn FnMut(&Digest) -> Option<ListContent>) -> Vec<Reason> {
    if old.digest() == new.digest() {
        return Vec::new();
    }
    let artifacts = Artifacts::of(old, new);
    let mut reasons = Vec::new();
    for (kind, (old, new)) in kinds(old, new) {
        let folded = |side: &OfKind<'_>| side.values().any(|v| matches!(v, PartValue::Many { .. }));
        if folded(&old) || folded(&new) {
            if old != new {
                reasons.push(Reason::Many(kind));
            }
        } else if kind == PartKind::Artifact {
            artifacts.reasons(&mut reasons);
        } else if kind == PartKind::Result {
            reasons.extend(results(&old, &new));
        } else if kind == PartKind::Measured && old.is_empty() != new.is_empty() {
            reasons.push(Reason::Measurement(old.is_empty()));
        } else {
            differences(kind, &old, &new, &artifacts, listed, &mut reasons);
        }
    }
    let of_command =
        |reason: &Reason, of: &str| matches!(reason, Reason::Value { kind: PartKind::Command, name, .. } if name == of);
    if reasons.iter().any(|reason| of_command(reason, "")) {
        // Another command may need a shell that the first one did not need.
        let shows = |reason: &Reason| !matches!(reason, Reason::Value { was, is, .. } if was.is_none() || is.is_none());
        reasons.retain(|reason| !of_command(reason, RUNNER) || shows(reason));
    }
    if let Some(Reason::Value { kind: PartKind::Uses, .. }) = reasons.first() {
        // Another program has other parameters, so only differences in common parts are useful.
        reasons.retain(is_of_any_program);
    }
    let members = |parts: &Parts| parts.group.map(|group| group.members);
    if members(old) != members(new) {
        reasons.push(Reason::Group);
    }
    if reasons.is_empty() {
        // Equal parts but another fingerprint: the group differs, or the encoding of another version of flow.
        reasons.push(if old.group == new.group { Reason::Format } else { Reason::Group });
    }
    // New patterns alone run nothing: the cause of a run comes before them.
    reasons.sort_by_key(Reason::is_of_metrics);
    reasons
}

/// Whether a reason is useful even if the step's program is another one.
pub(super) fn is_of_any_program(reason: &Reason) -> bool {
    match reason {
        Reason::Value { kind: PartKind::Uses, .. } => true,
        Reason::Value { kind, was, is, .. } => {
            matches!(kind, PartKind::Variable | PartKind::Seed | PartKind::Axis) && was.is_some() && is.is_some()
        }
        Reason::Artifact(_, FileChange::Changed) | Reason::Environment { .. } => true,
        Reason::Input(_, change) => !matches!(change, InputChange::Whole(FileChange::Added | FileChange::Removed)),
        _ => false,
    }
}

type OfKind<'a> = BTreeMap<&'a str, &'a PartValue>;

fn kinds<'a>(old: &'a Parts, new: &'a Parts) -> BTreeMap<PartKind, (OfKind<'a>, OfKind<'a>)> {
    let mut all: BTreeMap<PartKind, (OfKind<'a>, OfKind<'a>)> = BTreeMap::new();
    for part in &old.base {
        all.entry(part.kind).or_default().0.insert(&part.name, &part.value);
    }
    for part in &new.base {
        all.entry(part.kind).or_default().1.insert(&part.name, &part.value);
    }
    all
}

fn differences(
    kind: PartKind,
    old: &OfKind<'_>,
    new: &OfKind<'_>,
    artifacts: &Artifacts<'_>,
    listed: &mut dyn FnMut(&Digest) -> Option<ListContent>,
    reasons: &mut Vec<Reason>,
) {
    for (name, change) in changes(old, new) {
        let (then, now) = (old.get(name).copied(), new.get(name).copied());
        let name = (*name).to_owned();
        match kind {
            PartKind::Plugin => reasons.push(Reason::PluginRebuilt(name)),
            PartKind::Input => reasons.extend(input_reason(&name, then, now, listed)),
            PartKind::Environment => reasons.push(environment_reason(then, now, listed)),
            PartKind::Sees if name == "set" => reasons.push(Reason::Set(change)),
            PartKind::Sees => reasons.push(Reason::Seen(kind, name)),
            _ => {
                let was = then.map(|value| shown(value, &artifacts.old));
                let is = now.map(|value| shown(value, &artifacts.new));
                // If they are equal with paths for digests, the artifact changed, which is a separate reason.
                if was != is || matches!(then, Some(PartValue::Long { .. })) {
                    reasons.push(Reason::Value { kind, name, was, is });
                }
            }
        }
    }
}

/// The results that differ, grouped by step: if a program changed, all results of its sweep do.
fn results(old: &OfKind<'_>, new: &OfKind<'_>) -> Vec<Reason> {
    let mut found: IndexMap<(&str, FileChange), Vec<&str>> = IndexMap::new();
    for (label, change) in changes(old, new) {
        let step = label.split('[').next().unwrap_or(label);
        found.entry((step, change)).or_default().push(*label);
    }
    let points = |step, change| {
        let mut points: Vec<_> = found.get(&(step, change)).into_iter().flatten().map(|label| point(label)).collect();
        points.sort_unstable();
        points
    };
    let mut reasons = Vec::new();
    for ((step, change), labels) in &found {
        if *change != FileChange::Changed && points(step, FileChange::Added) == points(step, FileChange::Removed) {
            let reason = Reason::Text(format!("the axes of {step} are in another order"));
            if !reasons.contains(&reason) {
                reasons.push(reason);
            }
            continue;
        }
        let of = if let [one] = labels[..] { one } else { step };
        reasons.push(Reason::Results { of: of.to_owned(), change: *change, count: labels.len() as u32 });
    }
    reasons
}

/// The step and the axes of a label, in an order that is independent of the label's.
fn point(label: &str) -> Vec<&str> {
    let mut parts: Vec<&str> = label.split(['[', ',', ']']).collect();
    parts[1..].sort_unstable();
    parts
}

/// Replaces "results changed" if `flow accept` kept all these results; `accepted` are their labels.
pub(crate) fn name_accepted(reasons: &mut [Reason], old: &Parts, new: &Parts, accepted: &BTreeSet<String>) {
    let Some((old, new)) = kinds(old, new).remove(&PartKind::Result) else { return };
    for reason in reasons {
        let Reason::Results { of, change: FileChange::Changed, count } = reason else { continue };
        let is_of = |label: &str| label == of || label.split('[').next() == Some(of);
        let mut changed =
            new.iter().filter(|(label, now)| is_of(label) && old.get(*label).is_some_and(|was| was != *now));
        if changed.all(|(label, _)| accepted.contains(*label)) {
            *reason = Reason::Text(match count {
                1 => format!("the result of {of} was accepted"),
                count => format!("{count} results of {of} were accepted"),
            });
        }
    }
}

/// `None` if nothing differs that is part of the fingerprint.
fn input_reason(
    name: &str,
    then: Option<&PartValue>,
    now: Option<&PartValue>,
    listed: &mut dyn FnMut(&Digest) -> Option<ListContent>,
) -> Option<Reason> {
    let path = |value: Option<&PartValue>| match value {
        Some(PartValue::Tree { path, .. }) => Some(path.clone()),
        _ => None,
    };
    let shown = path(now).or(path(then)).unwrap_or_else(|| name.to_owned());
    let (
        Some(PartValue::Tree { path: old_path, digest: old, listing: old_listing, manifest: old_files }),
        Some(PartValue::Tree { path: new_path, digest: new, listing: new_listing, manifest: new_files }),
    ) = (then, now)
    else {
        let change = if then.is_none() { FileChange::Added } else { FileChange::Removed };
        return Some(Reason::Input(shown, InputChange::Whole(change)));
    };
    if old_listing != new_listing {
        return Some(Reason::Input(shown, InputChange::By));
    }
    if old == new {
        return None;
    }
    if let (Some(parameter), true) = (name.strip_prefix("with."), old_path != new_path) {
        let (was, is) = (Some(old_path.clone().into()), Some(new_path.clone().into()));
        return Some(Reason::Value { kind: PartKind::Parameter, name: parameter.to_owned(), was, is });
    }
    let mut look_up = |manifest: &Option<Digest>| match manifest.as_ref().and_then(&mut *listed) {
        Some(ListContent::Files(files)) => Some(files),
        _ => None,
    };
    let changes = match (look_up(old_files), look_up(new_files)) {
        (Some(old), Some(new)) => changes(&old, &new).map(|(path, change)| (path.clone(), change)).collect(),
        _ => Vec::new(),
    };
    let change = match (changes.is_empty(), new_listing) {
        (false, _) => InputChange::Files { named: changes, more: 0 },
        (true, true) => InputChange::Listing,
        (true, false) => InputChange::Whole(FileChange::Changed),
    };
    Some(Reason::Input(shown, change))
}

fn environment_reason(
    then: Option<&PartValue>,
    now: Option<&PartValue>,
    listed: &mut dyn FnMut(&Digest) -> Option<ListContent>,
) -> Reason {
    let mut side = |value: Option<&PartValue>| match value {
        Some(PartValue::Tree { path, digest, .. }) => match listed(digest) {
            Some(ListContent::Packages(packages)) => (Some(path.clone()), Some(packages)),
            _ => (Some(path.clone()), None),
        },
        _ => (None, None),
    };
    let ((was, before), (is, after)) = (side(then), side(now));
    let differences = before.zip(after).map(|(before, after)| before.differences_to(&after)).unwrap_or_default();
    Reason::Environment { was, is, differences, more: 0 }
}

/// What differs, in the order of its names.
fn changes<'a, K: Ord, V: PartialEq>(
    old: &'a BTreeMap<K, V>,
    new: &'a BTreeMap<K, V>,
) -> impl Iterator<Item = (&'a K, FileChange)> {
    let names: BTreeSet<&K> = old.keys().chain(new.keys()).collect();
    names.into_iter().filter_map(|name| match (old.get(name), new.get(name)) {
        (old, new) if old == new => None,
        (None, _) => Some((name, FileChange::Added)),
        (_, None) => Some((name, FileChange::Removed)),
        (Some(_), Some(_)) => Some((name, FileChange::Changed)),
    })
}

fn digests(parts: &Parts) -> impl Iterator<Item = (&Part, &Digest)> {
    let of_kind = parts.base.iter().filter(|part| part.kind == PartKind::Artifact);
    of_kind.filter_map(|part| match &part.value {
        PartValue::Digest(digest) => Some((part, digest)),
        _ => None,
    })
}

fn artifacts(parts: &Parts) -> BTreeMap<&str, Digest> {
    digests(parts).map(|(part, digest)| (part.name.as_str(), *digest)).collect()
}

/// Artifacts by path, before and now.
struct Artifacts<'a> {
    old: BTreeMap<&'a str, Digest>,
    new: BTreeMap<&'a str, Digest>,
    /// All that counts is equal: at most a step or an axis was renamed.
    same: bool,
}

impl<'a> Artifacts<'a> {
    fn of(old: &'a Parts, new: &'a Parts) -> Self {
        let counted = |parts: &'a Parts| -> Vec<(&Digest, &str)> {
            let mut counted: Vec<_> = digests(parts).map(|(part, digest)| (digest, part.counted_name())).collect();
            counted.sort_unstable();
            counted
        };
        Artifacts { old: artifacts(old), new: artifacts(new), same: counted(old) == counted(new) }
    }

    fn reasons(&self, reasons: &mut Vec<Reason>) {
        if self.same {
            return;
        }
        let (gone, rest): (Vec<_>, Vec<_>) =
            changes(&self.old, &self.new).partition(|(_, change)| *change == FileChange::Removed);
        let artifact = |(path, change): (&&str, FileChange)| Reason::Artifact((*path).to_owned(), change);
        reasons.extend(rest.into_iter().chain(gone).map(artifact));
    }
}

/// A value for messages: with paths instead of artifact digests.
fn shown(value: &PartValue, artifacts: &BTreeMap<&str, Digest>) -> Value {
    match value {
        PartValue::Is(Value::String(text)) if text.len() >= 64 => {
            let mut text = text.clone();
            for (path, digest) in artifacts {
                text = text.replace(&digest.to_string(), path);
            }
            Value::String(text)
        }
        PartValue::Is(value) => value.clone(),
        PartValue::Long { length, .. } => Value::String(format!("a text of {length} bytes")),
        // No other values reach this: inputs, artifacts and results have separate reasons.
        PartValue::Digest(digest) | PartValue::Tree { digest, .. } | PartValue::Many { digest, .. } => {
            Value::String(digest.short())
        }
    }
}
