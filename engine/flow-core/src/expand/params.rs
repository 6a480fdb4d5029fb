//! Parameters in effect: defaults, then the profile, then `--set`. Also chooses the profile.

use std::collections::BTreeSet;

use indexmap::IndexMap;
use minijinja::value::{Value, ValueKind};

use super::ExpandRequest;
use crate::{
    Diagnostic, Machine, Remark, Workflow,
    expr::{
        Scope,
        value::{describe, from_yaml},
    },
    paths::join,
    reason::ProfileReason,
    spec::{
        at::{PlacePart, Problems, YamlPath},
        hints,
        raw::Profile,
        step::Step,
        unread::ReadParams,
    },
};

pub(super) struct ChosenParameters {
    pub(super) params: IndexMap<String, Value>,
    pub(super) profile: Option<(String, ProfileReason)>,
    /// The parameters that `--set` changed.
    pub(super) set: Vec<String>,
    /// The profile's cap on GPUs.
    pub(super) gpus: Option<u32>,
    /// There are profiles, but none is active.
    pub(super) none_holds: Option<Remark>,
}

/// `machine` in expressions.
pub(super) fn machine(machine: &Machine) -> Value {
    let names: Vec<Value> = machine.gpus.iter().map(|g| Value::from(g.name.as_str())).collect();
    // If GPUs differ, the smallest counts: a step that fits there fits anywhere.
    let memory = machine.gpus.iter().map(|g| g.memory).min().unwrap_or(0);
    Value::from_pairs([
        ("gpus", Value::from(machine.gpus.len())),
        ("gpu_names", Value::from(names)),
        ("gpu_memory", Value::from(memory)),
        ("cpus", Value::from(machine.cpus)),
        ("memory", Value::from(machine.memory)),
    ])
}

/// Chooses the profile and merges the parameters.
pub(super) fn choose(workflow: &Workflow, request: &ExpandRequest<'_>, problems: &mut Problems) -> ChosenParameters {
    let file = &workflow.file;
    let mut params: IndexMap<String, Value> = file.params.iter().map(|(k, (v, _))| (k.clone(), v.clone())).collect();
    let found = profile(&file.profiles, request, workflow.meant(request), problems);
    if let Some((profile, _)) = found {
        for (name, (value, _)) in &profile.params {
            if let Some(param) = params.get_mut(name) {
                *param = merge(param, value);
            }
        }
    }
    let written = params.clone();
    let reads = (!request.set.is_empty()).then(|| ReadParams::of(workflow));
    for (at, given) in request.set.iter().enumerate() {
        let Some(reads) = &reads else { break };
        let axis = |name: &str| axis(&workflow.steps, name);
        if let Err(what) = set(&mut params, given, request.files.get(at), request.shell_folder, reads, &axis) {
            problems.add(&YamlPath::root(), PlacePart::Nothing, what);
        }
    }
    let condition = |profile: &Profile| Some((profile.name.clone(), profile.when.as_ref()?.expr.text.to_string()));
    let profiles: Vec<(String, String)> = file.profiles.iter().filter_map(condition).collect();
    let none_holds = (found.is_none() && request.profile.is_none() && !profiles.is_empty())
        .then_some(Remark::NoProfile { profiles });
    // Comparing two long lists takes a while.
    let is_any_set = !request.set.is_empty();
    let changed = params.iter().filter(|(name, value)| is_any_set && written.get(*name) != Some(*value));
    ChosenParameters {
        set: changed.map(|(name, _)| name.clone()).collect(),
        none_holds,
        params,
        gpus: found.as_ref().and_then(|(p, _)| p.gpus),
        profile: found.map(|(p, why)| (p.name.clone(), why)),
    }
}

fn profile<'a>(
    profiles: &'a [Profile],
    request: &ExpandRequest<'_>,
    meant: &Machine,
    problems: &mut Problems,
) -> Option<(&'a Profile, ProfileReason)> {
    if let Some(name) = request.profile {
        let found = profiles.iter().find(|p| p.name == name);
        if found.is_none() {
            let mut what = Diagnostic::new(format!("there is no profile `{name}`"));
            what = match profiles {
                [] => what.help("the workflow has no `profiles`"),
                _ => what.nearest(name, profiles.iter().map(|p| p.name.as_str())),
            };
            problems.add(&YamlPath::root(), PlacePart::Nothing, what);
        }
        return found.map(|p| (p, ProfileReason::Requested));
    }
    let scope = Value::from_object(Scope { machine: Some(machine(meant)), ..Scope::default() });
    for profile in profiles {
        let Some(when) = &profile.when else { continue };
        if when.holds(&scope, problems) == Some(true) {
            return Some((profile, ProfileReason::Holds { expression: when.expr.text.to_string() }));
        }
    }
    None
}

/// Mappings are merged, everything else is replaced.
fn merge(old: &Value, new: &Value) -> Value {
    if old.kind() != ValueKind::Map || new.kind() != ValueKind::Map {
        return new.clone();
    }
    let mut merged: IndexMap<Value, Value> = pairs(old).collect();
    for (key, value) in pairs(new) {
        let value = merged.get(&key).map_or(value.clone(), |old| merge(old, &value));
        merged.insert(key, value);
    }
    Value::from_pairs(merged)
}

fn set(
    params: &mut IndexMap<String, Value>,
    given: &str,
    file: Option<&String>,
    folder: &str,
    reads: &ReadParams,
    axis: &dyn Fn(&str) -> Option<Axis>,
) -> Result<(), Diagnostic> {
    let Some((name, text)) = given.split_once('=') else {
        return Err(Diagnostic::new(format!("`--set {given}` sets nothing")).label("expected NAME=VALUE"));
    };
    let (name, appends) = match name.trim_end().strip_suffix('+') {
        Some(name) => (name.trim(), true),
        None => (name.trim(), false),
    };
    let wrong = |what: String| {
        Diagnostic::new(match file {
            Some(file) => format!("`{name}` in {file}: {what}"),
            None => format!("`--set {given}`: {what}"),
        })
    };
    let path: Vec<&str> = name.split('.').collect();
    let known = |params: &IndexMap<String, Value>, what: Diagnostic, name: &str| {
        let read: Vec<String> = reads.below(|name| params.contains_key(name)).collect();
        let last = format!(".{name}");
        let longer = read.iter().find(|read| read.contains('.') && (read.starts_with(name) || read.ends_with(&last)));
        let names: BTreeSet<&str> =
            params.keys().chain(&read).map(String::as_str).filter(|other| *other != name).collect();
        match longer {
            Some(longer) => what.help(format!("did you mean `{longer}`?")),
            None => what.nearest(name, names),
        }
    };
    let Some(param) = within(params, &path) else {
        if let Some(axis) = axis(name) {
            let what = wrong(format!("`{name}` is an axis of `{}`, not a parameter", axis.step));
            return Err(what.help(axis.help(name, text)));
        }
        let what = wrong(format!("the workflow has no parameter `{name}`"));
        return Err(known(params, what, name));
    };
    let yaml = || serde_yaml::from_str::<serde_yaml::Value>(text).map_err(|e| hints::words(&e));
    let value = as_text(&param, text, appends).map_or_else(|| from_yaml(&yaml()?), Ok).map_err(|message| {
        wrong(format!("the value is not valid YAML: {message}")).help(format!("quote it: --set '{name}=\"{text}\"'"))
    })?;
    let value = relative_to(folder, &value);
    let (is_list, scalar) = (|value: &Value| value.kind() == ValueKind::Seq, ValueKind::Map != value.kind());
    // Shells pass `8,16` as a list, but YAML reads it as a text.
    let parts: Vec<&str> = value.as_str().unwrap_or(text).split(',').map(str::trim).collect();
    let list = parts.join(", ");
    let several = value.as_str().is_some() && parts.len() > 1 && parts.iter().all(|part| part.parse::<f64>().is_ok());
    let value = match (is_list(&param), is_list(&value)) {
        (true, true) if appends => Value::from(items(&param).chain(items(&value)).collect::<Vec<_>>()),
        (true, false) if appends && several && !items(&param).any(|item| item.as_str().is_some()) => {
            let what = format!("the items of `{name}` are not texts, but this is {}", describe(&value));
            return Err(wrong(what).help(format!("--set '{name}+=[{list}]' appends each")));
        }
        (true, false) if appends => Value::from(items(&param).chain([value]).collect::<Vec<_>>()),
        (false, _) if appends => {
            let what = wrong(format!("`{name}` is not a list, so nothing can be appended"));
            return Err(what.help(format!("--set '{name}={text}' replaces it")));
        }
        (true, false) if scalar && (!value.is_none() || text.trim().is_empty()) => {
            let what = wrong(format!("`{name}` is a list, but this is {}", describe(&value)));
            return Err(match file {
                Some(_) => what.help(format!("a list is written `[{list}]`")),
                None => {
                    what.help(format!("--set '{name}=[{list}]' replaces it, --set '{name}+=[{list}]' appends to it"))
                }
            });
        }
        (false, false) if several && param.kind() == ValueKind::Number => {
            let what = wrong(format!("`{name}` is a number, but this is {}", describe(&value)));
            return Err(what.help(
                "a parameter has one value, with a decimal point, `0.1`; for several values, use an axis with a list",
            ));
        }
        _ => value,
    };
    if let Some(unread) =
        leaves(&path, &value).into_iter().find(|leaf| !reads.has(&leaf.iter().map(String::as_str).collect::<Vec<_>>()))
    {
        let unread = unread.join(".");
        let what = wrong(format!("nothing in the workflow reads `{unread}`"));
        return Err(known(params, what, &unread));
    }
    let value = path[1..].iter().rev().fold(value, |value, key| Value::from_pairs([(*key, value)]));
    if let Some(param) = params.get_mut(path[0]) {
        *param = merge(param, &value);
    }
    Ok(())
}

/// An axis that `--set` names as if it were a parameter.
struct Axis {
    step: String,
    /// The parameter that has its values: `lrs` for `lr: "${{ lrs }}"`.
    param: Option<String>,
}

fn axis(steps: &[Step], name: &str) -> Option<Axis> {
    steps.iter().find_map(|step| {
        let (_, template) = step.axes.iter().find(|(axis, _)| **axis == *name)?;
        let mut param = None;
        template.visit(&mut |expr, _| {
            param = expr.reads.names.iter().find(|read| **read == *expr.text.trim()).cloned();
        });
        Some(Axis { step: step.name.to_string(), param })
    })
}

impl Axis {
    fn help(&self, name: &str, text: &str) -> String {
        let value = text.trim().trim_start_matches('[').trim_end_matches(']');
        let select = match value.contains(',') {
            true => String::new(),
            false => format!("'{}[{name}={value}]' selects its instances with this value; ", self.step),
        };
        match &self.param {
            Some(param) => format!("{select}--set '{param}=[{value}]' replaces its values"),
            None => format!(
                "{select}for other values, write `params: {{{name}s: [{value}]}}` and `matrix: {{{name}: \"${{{{ {name}s \
                 }}}}\"}}`; then --set '{name}s=[{value}]' replaces them"
            ),
        }
    }
}

/// The value at a path of keys, `opt.momentum`.
fn within(params: &IndexMap<String, Value>, path: &[&str]) -> Option<Value> {
    let (first, rest) = path.split_first()?;
    let start = params.get(*first)?.clone();
    rest.iter().try_fold(start, |value, key| value.get_attr(key).ok().filter(|value| !value.is_undefined()))
}

/// The paths that a value sets; for a mapping, those of its members.
fn leaves(path: &[&str], value: &Value) -> Vec<Vec<String>> {
    let here: Vec<String> = path.iter().map(|key| (*key).to_owned()).collect();
    if value.kind() != ValueKind::Map || value.len() == Some(0) {
        return vec![here];
    }
    let below = |(key, value): (Value, Value)| {
        let name = key.to_string();
        leaves(&path.iter().copied().chain([&*name]).collect::<Vec<_>>(), &value)
    };
    pairs(value).flat_map(below).collect()
}

/// A value for a text, or for a list of texts, is taken literally: `1.10`, `0x10`, `Answer: yes`. Quotes around all of
/// it are YAML quotes.
fn as_text(param: &Value, text: &str, appends: bool) -> Option<Value> {
    let unquoted = || {
        let bare = text.trim();
        let is_quoted =
            bare.len() > 1 && ['"', '\''].iter().any(|quote| bare.starts_with(*quote) && bare.ends_with(*quote));
        let inside = if is_quoted { serde_yaml::from_str::<String>(bare).ok() } else { None };
        Value::from(inside.unwrap_or_else(|| text.to_owned()))
    };
    let is_list = || text.trim_start().starts_with(['[', '-', '\n']);
    match param.kind() {
        ValueKind::String => Some(unquoted()),
        ValueKind::Seq if param.len() != Some(0) && items(param).all(|item| item.as_str().is_some()) => {
            let list = if is_list() { serde_yaml::from_str::<Vec<String>>(text).ok() } else { None };
            list.map(Value::from).or_else(|| appends.then(unquoted))
        }
        _ => None,
    }
}

fn items(list: &Value) -> impl Iterator<Item = Value> {
    list.try_iter().into_iter().flatten()
}

fn pairs(map: &Value) -> impl Iterator<Item = (Value, Value)> {
    items(map).map(|key| (key.clone(), map.get_item(&key).unwrap_or_default()))
}

/// Texts that begin with `./` or `../` are paths relative to the shell's folder.
fn relative_to(folder: &str, value: &Value) -> Value {
    match value.kind() {
        ValueKind::Seq => items(value).map(|item| relative_to(folder, &item)).collect(),
        ValueKind::Map => Value::from_pairs(pairs(value).map(|(key, value)| (key, relative_to(folder, &value)))),
        _ => match value.as_str() {
            Some(text) if matches!(text.split('/').next(), Some("." | "..")) => join(folder, text).into(),
            _ => value.clone(),
        },
    }
}
