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
        self.parts.value("on").and_then(|value| value.as_const()).and_then(|value| slurm::on(value).ok())
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
    match step.keys.get("like") {
        Some(Part::Names(names)) => names.first().map(|(name, at)| (name.as_str(), at)),
        _ => None,
    }
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
    let mut step = Step {
        name: raw.name.as_str().into(),
        at: raw.at.clone(),
        sound: true,
        like,
        work_of: (work_of != own).then_some(work_of),
        action: Action::Unknown,
        with: None,
        written: Arc::default(),
        axes: Vec::new(),
        matrix: RawMatrix::default(),
        needs: Vec::new(),
        when: None,
        metrics: None,
        measured: None,
        record: Arc::default(),
        secrets: Vec::new(),
        shell: Shell::default(),
        parts: Parts::default(),
    };
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
    if keys.has("shell") && keys.has("uses") && !command {
        let what = Diagnostic::new("`shell` belongs to `run`");
        problems.key(&place("shell"), what.help("a plugin's step starts its own program"));
    }
    if keys.has("environment") && keys.has("uses") && !command {
        let what = Diagnostic::new("`environment` belongs to `run`");
        problems.key(&place("environment"), what.help("a plugin's step starts its own program"));
    }
    for key in ["outputs", "metrics"] {
        if keys.has(key) && keys.has("uses") && !command {
            let what = Diagnostic::new(format!("`{key}` belongs to `run`"));
            problems.key(&place(key), what.help("a plugin declares its own outputs and metrics"));
        }
    }
    for (key, part) in keys.iter() {
        match (key, part) {
            ("uses", Part::Names(names)) => {
                for (name, at) in names {
                    match name.split_once('/') {
                        Some((plugin, inner)) if !plugin.is_empty() && !inner.is_empty() && !inner.contains('/') => {
                            step.action =
                                Action::Uses { plugin: plugin.to_owned(), step: inner.to_owned(), at: at.clone() };
                        }
                        _ => {
                            let what = Diagnostic::new(format!("`{name}` names no step of a plugin"));
                            problems
                                .value(at, what.label("expected `plugin/step`, such as `torch/train` or `flow/table`"));
                        }
                    }
                }
            }
            ("run", Part::Value(template)) => step.action = Action::Run(template.clone()),
            ("needs", Part::Names(names)) => step.needs = names.clone(),
            (_, Part::With(template, written)) => {
                (step.with, step.written) = (Some(template.clone()), written.clone());
            }
            (_, Part::Matrix(matrix)) => (step.axes, step.matrix) = (matrix.all(), matrix.clone()),
            (_, Part::When(when)) => step.when = Some(when.clone()),
            (_, Part::Metrics(metrics, _)) => step.metrics = Some(metrics.clone()),
            ("measured", Part::Value(t)) => step.measured = t.as_const().and_then(|v| typed_value::boolean(v).ok()),
            ("shell", Part::Value(t)) => {
                step.shell = t.as_const().and_then(|value| part::shell(value).ok()).unwrap_or_default();
            }
            ("record", Part::Value(t)) => {
                step.record = t.as_const().and_then(|v| typed_value::outcomes(v).ok()).unwrap_or_default().into()
            }
            ("secrets", Part::Value(t)) => {
                step.secrets = t.as_const().and_then(|v| typed_value::texts(v, "").ok()).unwrap_or_default();
            }
            (_, Part::Names(_) | Part::Value(_)) => {}
        }
    }
    if let Some(env) = keys.value("env") {
        for name in variables(env).iter().filter(|n| step.secrets.contains(n)) {
            let what = Diagnostic::new(format!("`{name}` is both in `env` and in `secrets`"));
            problems.key(&env.at.key(name), what.help("a secret takes its value from flow's environment"));
        }
    }
    if matches!(step.action, Action::Uses { .. }) && command {
        // What either of them lacks is not known.
        step.action = Action::Unknown;
    }
    if matches!(step.action, Action::Run(_)) && keys.has("uses") {
        step.action = Action::Unknown;
    }
    step.parts = keys;
    step.sound = !broken && problems.0.len() == before;
    step
}

/// The names of the variables under `env:`.
pub(crate) fn variables(env: &Template) -> Vec<String> {
    match &env.node {
        Node::Map(members) => members.iter().map(|(name, _)| name.to_string()).collect(),
        Node::Const(value) => match typed_value::mapping(value, "") {
            Ok(members) => members.into_iter().map(|(name, _)| name).collect(),
            Err(_) => typed_value::variables(value).unwrap_or_default(),
        },
        _ => Vec::new(),
    }
}

/// The variables of the shell that a step lists under `env:`.
pub(crate) fn from_shell(step: &Step) -> Vec<String> {
    let listed = step.parts.value("env").and_then(Template::as_const);
    listed.and_then(|value| typed_value::variables(value).ok()).unwrap_or_default()
}
