//! Steps with their copies made (`like`), as expansion takes them. Does not know plugins.

use std::{collections::BTreeMap, sync::Arc};

use serde_json::{Map, Value as Json};

use super::{
    at::{Problems, YamlPath},
    part,
    raw::{Condition, Part, Parts, RawMatrix, RawStep},
    slurm, typed_value,
};
use crate::{
    Diagnostic, Outcome, Place,
    expr::{Node, Piece, Template},
    graph::around,
    metrics::Metrics,
    shell::Shell,
};

#[derive(Clone, Debug)]
pub(crate) struct Step {
    pub(crate) name: Arc<str>,
    pub(crate) at: YamlPath,
    /// Nothing in it is wrong, as far as the text tells.
    pub(crate) sound: bool,
    pub(crate) like: Option<String>,
    /// The step, by place in the file, that it does the same as: it says only when and beside whom.
    pub(crate) work_of: Option<usize>,
    pub(crate) action: Action,
    pub(crate) with: Option<Template>,
    pub(crate) written: Arc<Map<String, Json>>,
    /// Every axis that an instance may have.
    pub(crate) axes: Vec<(Arc<str>, Template)>,
    pub(crate) matrix: RawMatrix,
    pub(crate) needs: Vec<(String, YamlPath)>,
    pub(crate) when: Option<Condition>,
    pub(crate) metrics: Option<Arc<Metrics>>,
    pub(crate) measured: Option<bool>,
    pub(crate) record: Arc<[Outcome]>,
    pub(crate) secrets: Vec<String>,
    pub(crate) shell: Shell,
    pub(crate) parts: Parts,
}

impl Step {
    /// The place to run, if the step has one.
    pub(crate) fn on(&self) -> Option<Place> {
        self.parts.plain("on", slurm::on)
    }

    /// It is one of flow's own, which run inside the engine.
    pub(crate) fn is_builtin(&self) -> bool {
        matches!(&self.action, Action::Uses { plugin, .. } if plugin == "flow")
    }
}

/// What a step does.
#[derive(Clone, Debug)]
pub(crate) enum Action {
    /// `plugin/step`; flow's own where the plugin is `flow`.
    Uses {
        plugin: String,
        step: String,
        at: YamlPath,
    },
    Run(Template),
    /// It could not be told.
    Unknown,
}

/// Makes the copies and takes the keys apart.
pub(crate) fn resolve(raw: Vec<RawStep>, problems: &mut Problems) -> Vec<Step> {
    let copies = copies(&raw, problems);
    raw.into_iter().zip(copies).enumerate().map(|(at, (raw, copy))| take_apart(at, raw, copy, problems)).collect()
}

/// Keys that say when a step runs, beside whom and how often, and nothing of what it does.
const SCHEDULING_KEYS: [&str; 11] =
    ["like", "needs", "when", "exclusive", "measured", "repeat", "record", "timeout", "retries", "resume", "priority"];

/// A step that copies another one.
#[derive(Clone)]
struct MergedStep {
    /// Its keys with those that were copied.
    keys: Parts,
    /// Something in them is wrong.
    broken: bool,
    /// The first step up the chain that does the same; itself where it does something else.
    work_of: usize,
}

/// The keys of each step that copies another one.
fn copies(raw: &[RawStep], problems: &mut Problems) -> Vec<Option<MergedStep>> {
    let mut merged: Vec<Option<MergedStep>> = vec![None; raw.len()];
    if raw.iter().all(|step| like_of(step).is_none()) {
        return merged;
    }
    let index: BTreeMap<&str, usize> = raw.iter().enumerate().map(|(i, s)| (s.name.as_str(), i)).collect();
    for start in 0..raw.len() {
        // Down the chain to something that is made already or copies nothing, then up again.
        let mut chain = vec![start];
        while let Some(&here) = chain.last() {
            if merged[here].is_some() {
                chain.pop();
                break;
            }
            let Some((name, at)) = like_of(&raw[here]) else {
                chain.pop();
                break;
            };
            match index.get(name) {
                Some(next) if chain.contains(next) => {
                    let from = chain.iter().position(|i| i == next).unwrap_or(0);
                    let mut names: Vec<&str> = chain[from..].iter().map(|i| raw[*i].name.as_str()).collect();
                    names.push(name);
                    let what =
                        Diagnostic::new(format!("the steps are copies of each other in a cycle: {}", around(&names)));
                    problems.value(at, what.help("give one of them `uses` or `run`"));
                    for i in &chain[from..] {
                        merged[*i] = Some(MergedStep { keys: raw[*i].keys.clone(), broken: true, work_of: *i });
                    }
                    chain.truncate(from);
                    break;
                }
                Some(next) => chain.push(*next),
                None => {
                    let what = Diagnostic::new(format!("there is no step `{name}` to copy"));
                    let others = raw.iter().map(|s| s.name.as_str()).filter(|n| *n != raw[here].name);
                    let what = what.nearest(name, problems.offer(others));
                    problems.value(at, what);
                    merged[here] = Some(MergedStep { keys: raw[here].keys.clone(), broken: true, work_of: here });
                    break;
                }
            }
        }
        while let Some(here) = chain.pop() {
            if merged[here].is_some() {
                continue;
            }
            let base = like_of(&raw[here]).and_then(|(name, _)| index.get(name)).map(|&base| {
                let own = || MergedStep { keys: raw[base].keys.clone(), broken: raw[base].broken, work_of: base };
                merged[base].clone().unwrap_or_else(own)
            });
            let mut own = MergedStep { keys: raw[here].keys.clone(), broken: raw[here].broken, work_of: here };
            if let Some(base) = base {
                own.broken |= base.broken;
                if own.keys.iter().all(|(key, _)| SCHEDULING_KEYS.contains(&key)) {
                    own.work_of = base.work_of;
                }
                inherit(&mut own.keys, &base.keys);
            }
            merged[here] = Some(own);
        }
    }
    merged
}

fn like_of(step: &RawStep) -> Option<(&str, &YamlPath)> {
    step.keys.names("like").first().map(|(name, at)| (name.as_str(), at))
}

/// Takes over the keys that the copy does not have itself. `corun` and `exclusive` displace each other, and so do what `run`
/// and what `uses` bring with them.
fn inherit(keys: &mut Parts, base: &Parts) {
    let displaced = |own: &Parts, key: &str| match key {
        "corun" => own.has("exclusive"),
        "exclusive" => own.has("corun"),
        "uses" | "with" => own.has("run"),
        "run" | "outputs" | "metrics" => own.has("uses"),
        "shell" => own.has("uses") || own.value("run").is_some_and(is_script),
        "environment" => own.has("uses"),
        "like" => true,
        _ => false,
    };
    let own = keys.clone();
    for (key, part) in base.iter() {
        if !own.has(key) && !displaced(&own, key) {
            keys.push(key, part.clone());
        }
    }
}

/// The command begins with a `#!` line.
fn is_script(run: &Template) -> bool {
    let starts = |text: &str| text.trim_start().starts_with("#!");
    match &run.node {
        Node::Const(value) => value.as_str().is_some_and(starts),
        Node::Text(pieces) => matches!(pieces.first(), Some(Piece::Text(text)) if starts(text)),
        _ => false,
    }
}

fn take_apart(own: usize, raw: RawStep, copy: Option<MergedStep>, problems: &mut Problems) -> Step {
    let before = problems.0.len();
    let like = like_of(&raw).map(|(name, _)| name.to_owned());
    // `exclusive: false` says what a member of a group is anyway.
    let exclusive = |part: &Part| !matches!(part, Part::Value(value) if value.as_const() == Some(&false.into()));
    let displaces_itself = raw.keys.has("corun") && raw.keys.get("exclusive").is_some_and(exclusive);
    let itself = || MergedStep { keys: raw.keys, broken: raw.broken, work_of: own };
    let MergedStep { keys, broken, work_of } = copy.unwrap_or_else(itself);
    let place = |key: &str| match keys.get(key) {
        Some(Part::Value(t) | Part::With(t, _)) => t.at.clone(),
        Some(Part::Names(names)) => names.first().map_or_else(|| raw.at.clone(), |(_, at)| at.clone()),
        Some(Part::Metrics(_, at)) => at.clone(),
        _ => raw.at.key(key),
    };
    if keys.has("run") && keys.has("uses") {
        let what = Diagnostic::new(format!("the step `{}` has both `run` and `uses`", raw.name));
        problems.key(&place("uses"), what.help("make two steps of them"));
    } else if !keys.has("run") && !keys.has("uses") && !broken {
        let what = Diagnostic::new(format!("the step `{}` does nothing", raw.name));
        problems.key(&raw.at, what.label("expected `uses: plugin/step`, `run: command` or `like: step`"));
    }
    if displaces_itself {
        let what = Diagnostic::new("`corun` and `exclusive` exclude each other");
        problems.key(&place("exclusive"), what.help("keep `exclusive` to measure alone, `corun` to measure together"));
    }
    let command = keys.has("run");
    if command && keys.has("with") {
        let what = Diagnostic::new("`with` belongs to `uses`");
        problems.key(&place("with"), what.help("write values into the command as `${{ }}`"));
    }
    if keys.has("shell") && keys.value("run").is_some_and(is_script) {
        let what = Diagnostic::new("`shell` and the `#!` line of `run` both name the interpreter");
        problems.key(&place("shell"), what.help("keep one of them"));
    }
    for (key, help) in [
        ("shell", "a plugin's step starts its own program"),
        ("environment", "a plugin's step starts its own program"),
        ("outputs", "a plugin declares its own outputs and metrics"),
        ("metrics", "a plugin declares its own outputs and metrics"),
    ] {
        if keys.has(key) && keys.has("uses") && !command {
            problems.key(&place(key), Diagnostic::new(format!("`{key}` belongs to `run`")).help(help));
        }
    }
    let uses = keys.names("uses").first().map(|(name, at)| match name.split_once('/') {
        Some((plugin, step)) if !plugin.is_empty() && !step.is_empty() && !step.contains('/') => {
            Action::Uses { plugin: plugin.to_owned(), step: step.to_owned(), at: at.clone() }
        }
        _ => {
            let what = Diagnostic::new(format!("`{name}` names no step of a plugin"));
            problems.value(at, what.label("expected `plugin/step`, such as `torch/train` or `flow/table`"));
            Action::Unknown
        }
    });
    let action = match (uses, keys.value("run")) {
        (Some(uses), None) => uses,
        (None, Some(run)) => Action::Run(run.clone()),
        // What either of them lacks is not known.
        _ => Action::Unknown,
    };
    let secrets = keys.plain("secrets", |names| typed_value::texts(names, "")).unwrap_or_default();
    if let Some(env) = keys.value("env") {
        for name in variables(env).iter().filter(|name| secrets.contains(name)) {
            let what = Diagnostic::new(format!("`{name}` is both in `env` and in `secrets`"));
            problems.key(&env.at.key(name), what.help("a secret takes its value from flow's environment"));
        }
    }
    let (mut with, mut matrix, mut when, mut metrics) = (None, RawMatrix::default(), None, None);
    for (_, part) in keys.iter() {
        match part {
            Part::With(template, written) => with = Some((template.clone(), written.clone())),
            Part::Matrix(own) => matrix = own.clone(),
            Part::When(own) => when = Some(own.clone()),
            Part::Metrics(own, _) => metrics = Some(own.clone()),
            Part::Names(_) | Part::Value(_) => {}
        }
    }
    let (with, written) = with.unzip();
    Step {
        name: raw.name.into(),
        at: raw.at,
        sound: !broken && problems.0.len() == before,
        like,
        work_of: (work_of != own).then_some(work_of),
        action,
        with,
        written: written.unwrap_or_default(),
        axes: matrix.all(),
        matrix,
        needs: keys.names("needs").to_vec(),
        when,
        metrics,
        measured: keys.plain("measured", typed_value::boolean),
        record: keys.plain("record", typed_value::outcomes).unwrap_or_default().into(),
        secrets,
        shell: keys.plain("shell", part::shell).unwrap_or_default(),
        parts: keys,
    }
}

/// The names of the variables under `env:`.
pub(crate) fn variables(env: &Template) -> Vec<String> {
    env.keys().or_else(|| typed_value::variables(env.as_const()?).ok()).unwrap_or_default()
}

/// The variables of the shell that a step lists under `env:`.
pub(crate) fn from_shell(step: &Step) -> Vec<String> {
    step.parts.plain("env", typed_value::variables).unwrap_or_default()
}
