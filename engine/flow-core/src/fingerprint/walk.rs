//! The walk: from a resolved instance to the named parts of its fingerprint. Knows no store and no files; the caller
//! passes the digests of inputs.

use serde_json::{Map, Value};

use super::part::{Part, PartKind, PartValue, Parts, RUNNER};
use crate::{
    Body, BuiltinInput, CorunGpus, Digest, Input, Instance, Machine, Mode, Outcome, ResolvedInstance, StepResult,
    shell::{Runner, runner},
};

/// The present state of a declared input.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tree {
    /// The digest of its content; of names and sizes for `by: listing`.
    pub digest: Digest,
    /// For a folder: key under which its files' digests can be looked up later, to name the changed one.
    pub manifest: Option<Digest>,
}

/// The provider of the step.
#[derive(Clone, Copy, Debug)]
pub enum Provider<'a> {
    /// The system's own programs.
    Command,
    Plugin {
        /// Digest of its declared content.
        digest: Digest,
        /// The protocol version between engine and plugin.
        protocol: u32,
    },
    Builtin {
        /// Changes whenever the step's output would change.
        version: &'a str,
        input: &'a BuiltinInput,
    },
}

/// Input of the walk.
#[derive(Clone, Copy, Debug)]
pub struct Subject<'a> {
    pub instance: &'a Instance,
    /// Its body with artifacts as digests.
    pub resolved: &'a ResolvedInstance,
    pub provider: Provider<'a>,
    /// `metrics:` as declared, as JSON; null if no numbers are read.
    pub metrics: &'a Value,
    /// The present state of its declared inputs, in their order.
    pub inputs: &'a [Tree],
    /// The name of its declared environment, and the digest of the environment's packages.
    pub environment: Option<(&'a str, Digest)>,
    /// The axes that the step does not read.
    pub unread: &'a [String],
    /// Whether the step reads its seed. If so, its seed alone identifies a repetition; otherwise a repetition is one
    /// more measurement of the same.
    pub reads_seed: bool,
    /// The machine for the run.
    pub machine: &'a Machine,
}

/// All parts of an instance's fingerprint, without its co-run group (see [`Parts::join`]).
pub fn walk(subject: &Subject<'_>) -> Parts {
    let Subject { instance, resolved, .. } = subject;
    let mut parts = Vec::with_capacity(16);
    body(&mut parts, resolved, &subject.provider);
    for (name, value) in &resolved.env {
        parts.push(part(PartKind::Variable, name, PartValue::of(Value::String(value.clone()))));
    }
    for link in &resolved.links {
        parts.push(part(PartKind::Artifact, &link.path, PartValue::Digest(link.digest)));
    }
    for (input, tree) in instance.inputs.iter().chain(&resolved.inputs).zip(subject.inputs) {
        parts.push(input_part(input, tree));
    }
    if let Some((name, digest)) = subject.environment {
        let value = PartValue::Tree { path: name.to_owned(), digest, listing: false, manifest: None };
        parts.push(part(PartKind::Environment, "", value));
    }
    for output in instance.outputs.iter() {
        parts.push(part(PartKind::Output, &output.name, PartValue::of(Value::String(output.path.clone()))));
    }
    leaves(&mut parts, PartKind::Metrics, &mut String::new(), subject.metrics);
    parts.push(part(PartKind::Seed, "", PartValue::Is(instance.seed.into())));
    let repetition = instance.repetition.filter(|_| !subject.reads_seed).unwrap_or(0);
    parts.push(part(PartKind::Repetition, "", PartValue::Is(repetition.into())));
    for (name, value) in instance.axes.iter() {
        // A mapping as a value is flattened: `run.batch` belongs to the axis `run`.
        let axis = name.split('.').next().unwrap_or(name);
        if subject.unread.iter().any(|unread| unread == axis) {
            leaves(&mut parts, PartKind::Axis, &mut name.clone(), value);
        }
    }
    if subject.machine.fake_gpus && instance.request.gpus > 0 {
        parts.push(part(PartKind::Measured, "gpus_declared_only", PartValue::Is(true.into())));
    }
    if instance.measured {
        measured(&mut parts, instance, subject.machine);
    }
    Parts::new(parts)
}

fn part(kind: PartKind, name: impl Into<String>, value: PartValue) -> Part {
    Part { kind, name: name.into(), value }
}

fn input_part(input: &Input, tree: &Tree) -> Part {
    let name = match &input.name {
        Some(name) if input.in_place => name.clone(),
        _ => input.place(),
    };
    let (path, listing) = (input.path.clone(), input.by_listing);
    part(PartKind::Input, name, PartValue::Tree { path, digest: tree.digest, listing, manifest: tree.manifest })
}

fn body(parts: &mut Vec<Part>, resolved: &ResolvedInstance, provider: &Provider<'_>) {
    let uses = match &resolved.body {
        Body::Command { .. } => "command".to_owned(),
        Body::Plugin { plugin, step, .. } => format!("{plugin}/{step}"),
        Body::Builtin { name, .. } => format!("flow/{name}"),
    };
    parts.push(part(PartKind::Uses, "", PartValue::Is(uses.as_str().into())));
    match &resolved.body {
        Body::Command { line, shell } => {
            parts.push(part(PartKind::Command, "", PartValue::of(Value::String(line.clone()))));
            let runner = match runner(line, *shell) {
                Runner::Direct(_) => None,
                Runner::Shell(shell) => Some(shell.name()),
                Runner::Script(script) => Some(script.interpreter),
            };
            parts.extend(runner.map(|name| part(PartKind::Command, RUNNER, PartValue::of(name.into()))));
        }
        Body::Plugin { with, .. } | Body::Builtin { with, .. } => parameters(parts, with),
    }
    match provider {
        Provider::Command => {}
        Provider::Plugin { digest, protocol } => {
            parts.push(part(PartKind::Plugin, uses.split('/').next().unwrap_or_default(), PartValue::Digest(*digest)));
            parts.push(part(PartKind::Protocol, "", PartValue::Is((*protocol).into())));
        }
        Provider::Builtin { version, input } => {
            parts.push(part(PartKind::Version, &*uses, PartValue::Is((*version).into())));
            seen(parts, input);
        }
    }
}

fn parameters(parts: &mut Vec<Part>, with: &Map<String, Value>) {
    let mut path = String::new();
    for (key, value) in with {
        step_into(&mut path, key, |path| leaves(parts, PartKind::Parameter, path, value));
    }
}

/// What a built-in sees in addition to its parameters: everything in its input that can show in its output. The machine
/// counts only if no result names its own.
fn seen(parts: &mut Vec<Part>, input: &BuiltinInput) {
    parts.push(part(PartKind::Sees, "workflow", PartValue::of(input.workflow.clone().into())));
    for (language, title) in &input.title {
        parts.push(part(PartKind::Sees, format!("title.{language}"), PartValue::of(title.clone().into())));
    }
    if let Some((profile, why)) = &input.profile {
        parts.push(part(PartKind::Sees, "profile", PartValue::of(serde_json::json!([profile, why]))));
    }
    if !input.set.is_empty() {
        parts.push(part(PartKind::Sees, "set", PartValue::of(serde_json::json!(input.set))));
    }
    for (name, step) in &input.steps {
        let facts = serde_json::json!({
            "uses": step.uses, "with": step.with, "like": step.like, "absent": step.absent,
        });
        parts.push(part(PartKind::Sees, format!("step.{name}"), PartValue::Digest(json_digest(&facts))));
        for result in step.results.iter().chain(&step.again) {
            parts.push(part(PartKind::Result, &result.label, PartValue::Digest(result_digest(result))));
        }
        for foreign in &step.imported {
            let name = format!("{} of {}", foreign.result.label, foreign.host);
            parts.push(part(PartKind::Result, name, PartValue::Digest(json_digest(foreign))));
        }
    }
    if input.steps.values().all(|step| step.results.is_empty()) {
        parts.push(part(PartKind::Sees, "machine", PartValue::Digest(json_digest(&input.machine))));
    }
}

/// A result without an attempt is made again in every run, so its run and its times do not count.
fn result_digest(result: &StepResult) -> Digest {
    match result.outcome {
        Outcome::Skipped | Outcome::Cancelled | Outcome::DoesNotFit => {
            json_digest(&(&result.label, &result.axes, result.outcome, &result.cause))
        }
        _ => json_digest(result),
    }
}

/// The digest of a value's JSON. Struct fields have a fixed order, and numbers survive storage (`float_roundtrip`).
fn json_digest(value: &impl serde::Serialize) -> Digest {
    // These types have string keys and cannot fail to serialize; an empty text would still give a valid digest.
    Digest::of(&serde_json::to_vec(value).unwrap_or_default())
}

fn measured(parts: &mut Vec<Part>, instance: &Instance, machine: &Machine) {
    let mut declared = |name: &str, value: Value| parts.push(part(PartKind::Measured, name, PartValue::of(value)));
    if instance.request.gpus > 0 {
        // The actual GPU is known only after placement, so the declared type counts.
        let kind = instance.slurm.as_ref().and_then(|job| job.gpu_type.as_deref());
        let there = machine.gpus.iter().map(|g| g.name.as_str());
        let mut models: Vec<&str> = kind.map_or_else(|| there.collect(), |kind| vec![kind]);
        models.sort_unstable();
        models.dedup();
        declared("gpu_model", models.join(" or ").into());
    }
    declared("gpus", instance.request.gpus.into());
    declared("cpu_model", machine.cpu_model.clone().into());
    declared("cpus", instance.request.cpus.into());
    let mode = match (instance.mode(), instance.corun.as_ref().map(|member| member.gpus)) {
        (Mode::Plain, _) => "plain",
        (Mode::Alone, _) => "alone",
        (Mode::Corun, Some(CorunGpus::Shared)) => "co-run on shared GPUs",
        (Mode::Corun, _) => "co-run on GPUs of its own",
    };
    declared("mode", mode.into());
}

/// One part for each leaf below `value`, named by its path.
fn leaves(parts: &mut Vec<Part>, kind: PartKind, path: &mut String, value: &Value) {
    match value {
        Value::Null if path.is_empty() => {}
        Value::Array(items) if !items.is_empty() => {
            for (i, item) in items.iter().enumerate() {
                let length = path.len();
                path.push_str(&format!("[{i}]"));
                leaves(parts, kind, path, item);
                path.truncate(length);
            }
        }
        Value::Object(map) if !map.is_empty() => {
            for (key, item) in map {
                step_into(path, key, |path| leaves(parts, kind, path, item));
            }
        }
        leaf => parts.push(part(kind, path.clone(), PartValue::of(leaf.clone()))),
    }
}

fn step_into(path: &mut String, key: &str, f: impl FnOnce(&mut String)) {
    let length = path.len();
    let plain = !key.is_empty() && key.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_' || b == b'-');
    if !plain {
        path.push_str(&format!("[{}]", Value::from(key)));
    } else {
        if !path.is_empty() {
            path.push('.');
        }
        path.push_str(key);
    }
    f(path);
    path.truncate(length);
}
