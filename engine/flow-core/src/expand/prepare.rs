//! Checks steps against the installed plugins: `uses`, the known part of `with:`, the matrix, and the steps that a
//! built-in sees. Everything here is done once per step.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use minijinja::value::Value;
use serde_json::Value as Json;

use super::{
    ExpandRequest,
    facts::Definition,
    marks::Mark,
    matrix::{Axis, AxisOf, Matrix, Place},
    with::{Schema, known},
};
use crate::{
    Catalogue, Diagnostic, Digest, InstanceId, Output, Uses,
    expr::{Expr, Node, Template},
    reason::Cause,
    shell::Shell,
    spec::{
        at::{Problems, YamlPath},
        files,
        raw::{Part, RawMatrix, RawPoint},
        step::{Action, Step},
    },
    verdict::AT_MOST,
};

/// A step that is ready to become instances.
#[derive(Debug)]
pub(super) struct StepPlan {
    pub(super) name: Arc<str>,
    /// It has no mistakes.
    pub(super) sound: bool,
    pub(super) uses: Uses,
    /// From the plugin or built-in: outputs, and how it is measured.
    pub(super) outputs: Arc<[Output]>,
    /// Its metrics, if they are already known.
    pub(super) metrics: Option<Vec<String>>,
    pub(super) measured: bool,
    pub(super) continues: bool,
    pub(super) schema: Option<Arc<Schema>>,
    /// `run:`, folded.
    pub(super) command: Option<Template>,
    pub(super) shell: Shell,
    /// `with:`, folded; an empty mapping if there is none.
    pub(super) with: Template,
    /// `env:`, folded.
    pub(super) env: Template,
    /// Outputs of other steps under `inputs:`, by their places in the work folder.
    pub(super) placed: Vec<(String, Template)>,
    /// Before they start, all instances have the same `with`.
    pub(super) uniform: bool,
    /// Whether results may determine a user's path in `with`.
    pub(super) has_late_inputs: bool,
    /// Whether `seed` is the instance's: no parameter has that name.
    pub(super) own_seed: bool,
    /// The names of every axis that an instance may have.
    axes: Vec<Arc<str>>,
    pub(super) matrix: Matrix,
    /// Why it has no instances.
    pub(super) absent: Option<Arc<Cause>>,
    pub(super) repeats: bool,
    /// By instance of the step.
    pub(super) places: Vec<Place>,
    pub(super) first: u32,
    /// Steps that its expressions read.
    pub(super) reads: Vec<StepReference>,
    /// Steps of `needs`.
    pub(super) after: Vec<usize>,
    /// Steps named in a built-in's `with`, with their places.
    pub(super) named: Vec<(usize, YamlPath)>,
    /// Steps that a built-in sees.
    pub(super) sees: Vec<usize>,
    /// Co-run steps that a built-in judges.
    pub(super) judges: Vec<usize>,
    /// For a co-run step that gets a verdict.
    pub(super) judged: Option<ToBeJudged>,
    /// Repetitions of it and of its solo runs, which run only if a verdict needs them.
    pub(super) again: Vec<InstanceId>,
    /// Matrix places of such repetitions of this step's own instances.
    pub(super) repeated: BTreeMap<InstanceId, Place>,
}

/// Data for a verdict on a co-run step.
#[derive(Clone, Copy, Debug)]
pub(super) struct ToBeJudged {
    /// The step with its solo runs.
    pub(super) alone: usize,
    /// Maximum slowdown that still counts as parallel.
    pub(super) tolerance: f64,
    /// Maximum number of runs of a group.
    pub(super) at_most: u32,
}

/// A step that an expression reads.
#[derive(Clone, Debug)]
pub(super) struct StepReference {
    pub(super) step: usize,
    pub(super) attribute: Option<String>,
    pub(super) member: Option<String>,
    pub(super) at: YamlPath,
}

impl StepPlan {
    /// The place of an instance in the step's matrix.
    pub(super) fn place(&self, id: InstanceId) -> Place {
        let own = || self.places[(id.0 - self.first) as usize];
        self.repeated.get(&id).copied().unwrap_or_else(own)
    }

    /// Whether the expression has a known value, the same for every instance.
    pub(super) fn now(&self, scope: &Value) -> impl Fn(&Expr) -> bool {
        move |expr| !self.is_own(expr) && (!expr.is_late() || expr.is_known_in(scope))
    }

    /// Whether its value may differ between instances.
    fn is_own(&self, expr: &Expr) -> bool {
        let differs = |name: &String| name == "inputs" || name == "seed" && self.own_seed;
        expr.reads.names.iter().any(|name| differs(name) || self.axes.iter().any(|axis| **axis == **name))
    }
}

/// Context for preparing steps.
pub(super) struct PrepareContext<'a> {
    pub(super) names: &'a BTreeMap<Arc<str>, usize>,
    /// Whether a parameter is called `seed`.
    pub(super) seed_is_param: bool,
    pub(super) scope: &'a Value,
    pub(super) request: &'a ExpandRequest<'a>,
    /// Compiled schemas, shared by all steps that use them.
    pub(super) schemas: BTreeMap<String, Arc<Schema>>,
}

pub(super) fn prepare(step: &Step, context: &mut PrepareContext<'_>, problems: &mut Problems) -> StepPlan {
    let (names, scope) = (context.names, context.scope);
    let before = problems.0.len();
    let nothing = Value::from_pairs::<[(&str, Value); 0], _, _>([]);
    let empty = Template { at: step.at.clone(), node: Node::Const(nothing) };
    let mut plan = StepPlan {
        name: step.name.clone(),
        sound: step.sound,
        uses: Uses::Command,
        outputs: Arc::default(),
        metrics: metrics(step),
        measured: false,
        continues: false,
        schema: None,
        command: None,
        shell: step.shell,
        with: empty.clone(),
        env: empty,
        placed: step.parts.value("inputs").map(|inputs| files::split(inputs).1).unwrap_or_default(),
        uniform: true,
        has_late_inputs: false,
        own_seed: !context.seed_is_param,
        axes: step.axes.iter().map(|(name, _)| name.clone()).collect(),
        matrix: Matrix::default(),
        absent: None,
        repeats: step.parts.value("repeat").is_some_and(|repeat| repeat.keys().is_none()),
        places: Vec::new(),
        first: 0,
        reads: Vec::new(),
        after: step.needs.iter().filter_map(|(name, _)| names.get(&**name).copied()).collect(),
        named: Vec::new(),
        sees: Vec::new(),
        judges: Vec::new(),
        judged: None,
        again: Vec::new(),
        repeated: BTreeMap::new(),
    };
    for (_, part) in step.parts.iter() {
        part.visit(&mut |expr, at| {
            for field in expr.fields("steps") {
                if let Some(step) = names.get(&*field.name) {
                    let (attribute, member) = (field.attribute.clone(), field.member.clone());
                    plan.reads.push(StepReference { step: *step, attribute, member, at: at.clone() });
                }
            }
        });
    }
    uses(step, &mut plan, context, problems);
    if step.sound {
        plan.matrix = matrix(step, &mut plan.absent, scope, problems);
    }
    // For a step that already has mistakes, only literal values are checked further.
    let fold = |template: &Template, plan: &StepPlan, problems: &mut Problems| {
        let now = |expr: &Expr| step.sound && plan.now(scope)(expr);
        template.fold(scope, &now).unwrap_or_else(|error| {
            error.report(template, problems);
            template.clone()
        })
    };
    if let Action::Run(command) = &step.action {
        plan.command = Some(fold(command, &plan, problems));
    }
    if let Some(env) = step.parts.value("env") {
        plan.env = fold(env, &plan, problems);
    }
    if let Some(with) = &step.with {
        plan.with = fold(with, &plan, problems);
        let mut uniform = true;
        let is_later = |expr: &Expr| expr.is_late() && !(expr.has_branches() && plan.is_own(expr));
        plan.with.visit(&mut |expr, _| uniform &= is_later(expr) || !step.sound);
        plan.uniform = uniform;
    }
    if problems.0.len() == before {
        with(step, &mut plan, names, problems);
    }
    plan.sound &= problems.0.len() == before;
    plan
}

/// The work of a step, as written.
pub(super) fn definition(step: &Step) -> Definition {
    const KEYS: [&str; 7] = ["uses", "run", "shell", "with", "env", "environment", "inputs"];
    let written = |(key, part): (&'static str, &Part)| match part {
        Part::Value(template) | Part::With(template, _) => Some((key, template.node.written())),
        _ => None,
    };
    let parts = step.parts.iter().filter(|(key, _)| KEYS.contains(key));
    let written: BTreeMap<&str, Json> = parts.filter_map(written).collect();
    let mut paths = BTreeSet::new();
    written.values().for_each(|value| texts(value, &mut paths));
    Definition { written: Digest::of(&serde_json::to_vec(&written).unwrap_or_default()), paths }
}

/// Every text in a value without an expression.
fn texts(value: &Json, found: &mut BTreeSet<String>) {
    match value {
        Json::String(text) if !text.contains("${{") => _ = found.insert(text.clone()),
        Json::Array(values) => values.iter().for_each(|value| texts(value, found)),
        Json::Object(map) => map.values().for_each(|value| texts(value, found)),
        _ => {}
    }
}

/// The axes that the step's work does not read.
pub(super) fn unread(step: &Step) -> Vec<String> {
    let names = read_by(step, &["run", "with", "env", "environment", "inputs", "outputs", "seed"]);
    step.axes.iter().map(|(name, _)| name.to_string()).filter(|name| !names.contains(name)).collect()
}

/// Whether the step reads its seed. A plugin always does. A command does if it names `seed` and no parameter
/// (`is_param`) or axis has that name.
pub(super) fn reads_seed(step: &Step, is_param: bool) -> bool {
    match &step.action {
        Action::Uses { plugin, .. } => plugin != "flow",
        _ => {
            let theirs = is_param || step.axes.iter().any(|(name, _)| &**name == "seed");
            !theirs && read_by(step, &["run", "env"]).contains("seed")
        }
    }
}

/// The workflow parameters that the step's work names.
pub(super) fn params(step: &Step, is_param: impl Fn(&str) -> bool) -> BTreeSet<String> {
    const KEYS: [&str; 8] = ["run", "with", "env", "environment", "inputs", "outputs", "gpus", "cpus"];
    let mut names = read_by(step, &KEYS);
    for (_, part) in step.parts.iter().filter(|(key, _)| KEYS.contains(key)) {
        part.visit(&mut |expr, _| names.extend(expr.fields("params").map(|field| field.name.clone())));
    }
    names.retain(|name| is_param(name));
    names
}

/// The names read by expressions of these keys.
fn read_by(step: &Step, keys: &[&str]) -> BTreeSet<String> {
    let mut names: BTreeSet<String> = BTreeSet::new();
    for (_, part) in step.parts.iter().filter(|(key, _)| keys.contains(key)) {
        part.visit(&mut |expr, _| names.extend(expr.reads.names.iter().cloned()));
    }
    names
}

fn uses(step: &Step, plan: &mut StepPlan, context: &mut PrepareContext<'_>, problems: &mut Problems) {
    let Action::Uses { plugin, step: inner, at } = &step.action else { return };
    let whole = format!("{plugin}/{inner}");
    let catalogue = context.request.catalogue;
    let steps = if plugin == "flow" {
        plan.uses = Uses::Builtin(inner.clone());
        &catalogue.builtins
    } else {
        plan.uses = Uses::Plugin { plugin: plugin.clone(), step: inner.clone() };
        let Some(found) = catalogue.plugins.get(plugin) else {
            let what = Diagnostic::new(format!("there is no plugin `{plugin}`"));
            let names: Vec<&str> = catalogue.plugins.keys().map(String::as_str).chain(["flow"]).collect();
            let what = what.nearest(plugin, problems.offer(names));
            let help = "a plugin is a folder with a `plugin.yaml`, below `plugins/` or a `--plugin-dir`";
            return problems.value(at, what.help(help));
        };
        &found.steps
    };
    let Some(provided) = steps.get(inner) else {
        let owner = if plugin == "flow" { "flow".to_owned() } else { format!("the plugin `{plugin}`") };
        let names: Vec<String> = steps.keys().map(|name| format!("{plugin}/{name}")).collect();
        let what = Diagnostic::new(format!("{owner} has no step `{inner}`"));
        let what = what.nearest(&whole, problems.offer(names.iter().map(String::as_str)));
        return problems.value(at, what);
    };
    plan.outputs = provided.outputs.iter().map(|(n, p)| Output { name: n.clone(), path: p.clone() }).collect();
    (plan.measured, plan.continues) = (provided.measured, provided.continues);
    if let Some(schema) = context.schemas.get(&whole) {
        plan.schema = Some(schema.clone());
        return;
    }
    match Schema::new(&whole, &provided.with) {
        Ok(schema) => {
            let schema = Arc::new(schema);
            plan.schema = Some(schema.clone());
            context.schemas.insert(whole, schema);
        }
        Err(message) => problems.value(at, Diagnostic::new(message)),
    }
}

/// More points or instances in one step are a mistake, and would take long.
pub(super) const MOST: usize = 1_000_000;

fn matrix(step: &Step, absent: &mut Option<Arc<Cause>>, scope: &Value, problems: &mut Problems) -> Matrix {
    let mut axes: Vec<Axis> = Vec::new();
    let mut empty = None;
    for (name, template) in &step.matrix.axes {
        let value = match template.eval(scope) {
            Ok(value) => value,
            Err(error) => {
                error.report(template, problems);
                continue;
            }
        };
        let Some(axis) = super::matrix::axis(name, template, &value, problems) else { continue };
        if axis.values.is_empty() {
            empty = Some(name);
        }
        axes.push(axis);
    }
    let points = axes.iter().try_fold(1usize, |n, axis| n.checked_mul(axis.values.len()));
    if points.is_none_or(|n| n > MOST) {
        let what = Diagnostic::new(format!("the matrix of `{}` has more than {MOST} points", step.name));
        problems.key(&step.at.key("matrix"), what);
        return Matrix::default();
    }
    let mut matrix = Matrix { axes, points: None };
    let RawMatrix { exclude, include, .. } = &step.matrix;
    if !exclude.is_empty() || !include.is_empty() {
        let mut evaluate = |all: &[RawPoint]| -> Vec<Vec<AxisOf>> {
            let mut value = |(name, template): &(Arc<str>, Template)| {
                super::matrix::value(name, template, scope, problems).map(|value| (name.clone(), value))
            };
            all.iter().map(|point| point.iter().filter_map(&mut value).collect()).collect()
        };
        matrix.shape(&evaluate(exclude), &evaluate(include));
        if matrix.len() == 0 && empty.is_none() {
            let what = Diagnostic::new("`exclude` leaves no point of the matrix");
            problems.key(&step.at.key("matrix"), what);
        }
    }
    *absent = empty.filter(|_| matrix.len() == 0).map(|axis| Arc::new(Cause::EmptyAxis { axis: axis.to_string() }));
    matrix
}

/// Checks what is known of `with` before there are instances.
fn with(step: &Step, plan: &mut StepPlan, names: &BTreeMap<Arc<str>, usize>, problems: &mut Problems) {
    let Some(schema) = &plan.schema else { return };
    let (mut json, unknown) = match known(&plan.with) {
        Ok(known) => known,
        Err((path, message)) => {
            let at = plan.with.at.below(&path);
            return problems.value(&at, Diagnostic::new(message));
        }
    };
    schema.fill(&mut json);
    if plan.uniform {
        let at = if step.with.is_some() { plan.with.at.clone() } else { step.at.key("uses") };
        schema.check(&json, &unknown, &at, None, problems);
    }
    let paths = schema.marked(&json, Mark::Path).into_iter().filter(|(path, _)| unknown.contains(path));
    plan.has_late_inputs = paths.into_iter().any(|(path, _)| plan.with.node.at(&path).is_some_and(Node::is_late_path));
    for (path, name) in schema.marked(&json, Mark::Step) {
        let at = plan.with.at.below(&path);
        if unknown.contains(&path) && !step.sound {
            continue;
        }
        if unknown.contains(&path) {
            problems.value(&at, Diagnostic::new("write the name of the step here, the same for every instance"));
            continue;
        }
        match names.get(&*name) {
            Some(named) => plan.named.push((*named, at)),
            None => {
                let what = Diagnostic::new(format!("there is no step `{name}`"));
                let others = names.keys().map(|n| &**n).filter(|n| *n != &*step.name);
                let what = what.nearest(&name, problems.offer(others));
                problems.value(&at, what);
            }
        }
    }
}

/// Finds the steps that each built-in sees: those that its `with` names, and what named built-ins see in turn. A co-run
/// step, or one that comes after the step it is `like`, brings its solo runs, along `like`.
pub(super) fn see(plans: &mut [StepPlan], steps: &[Step], names: &BTreeMap<Arc<str>, usize>) {
    let mut sees: Vec<Vec<usize>> = Vec::with_capacity(plans.len());
    for (own, plan) in plans.iter().enumerate() {
        let mut seen: Vec<usize> = Vec::new();
        let mut queue: Vec<usize> = plan.named.iter().rev().map(|(n, _)| *n).collect();
        while let Some(here) = queue.pop() {
            if here == own || seen.contains(&here) {
                continue;
            }
            seen.push(here);
            let mut copied = here;
            let mut more: Vec<usize> = plans[here].named.iter().map(|(n, _)| *n).collect();
            while let Some(&base) = steps[copied].like.as_deref().and_then(|name| names.get(name)) {
                let after = steps[copied].needs.iter().any(|(name, _)| **name == *steps[base].name);
                if more.contains(&base) || !(after || steps[copied].parts.has("corun")) {
                    break;
                }
                more.push(base);
                copied = base;
            }
            queue.extend(more.into_iter().rev());
        }
        sees.push(if matches!(plan.uses, Uses::Builtin(_)) { seen } else { Vec::new() });
    }
    for (plan, seen) in plans.iter_mut().zip(sees) {
        plan.sees = seen;
    }
}

/// Finds the co-run steps that get a verdict, and their solo runs. A step that is like another co-run step gets no
/// verdict that further repetitions could decide.
pub(super) fn judge(plans: &mut [StepPlan], steps: &[Step], names: &BTreeMap<Arc<str>, usize>, catalogue: &Catalogue) {
    for at in 0..plans.len() {
        let Uses::Builtin(name) = &plans[at].uses else { continue };
        let Some(verdicts) = catalogue.builtins.get(name).and_then(|provided| provided.verdicts) else { continue };
        let Ok((with, _)) = known(&plans[at].with) else { continue };
        for (on, tolerance) in verdicts(&super::with::object(with)) {
            let is_corun = |step: &Step| step.parts.has("corun");
            let Some(&on) = names.get(&*on).filter(|on| is_corun(&steps[**on])) else { continue };
            let like = steps[on].like.as_deref().and_then(|name| names.get(name));
            let Some(&alone) = like.filter(|alone| !is_corun(&steps[**alone])) else { continue };
            plans[at].judges.push(on);
            // Of several tolerances, the strictest decides.
            let tolerance = plans[on].judged.map_or(tolerance, |known| known.tolerance.min(tolerance));
            plans[on].judged = Some(ToBeJudged { alone, tolerance, at_most: AT_MOST });
        }
    }
}

/// The metrics that a step will have, if the workflow alone determines them.
pub(super) fn metrics(step: &Step) -> Option<Vec<String>> {
    match (&step.action, &step.metrics) {
        (Action::Run(_), Some(metrics)) => metrics.names(),
        (Action::Run(_), None) => Some(Vec::new()),
        _ => None,
    }
}
