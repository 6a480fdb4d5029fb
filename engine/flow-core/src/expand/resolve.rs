//! Bodies of instances once all their needs are settled: evaluates and checks late values, and names the artifacts that
//! they read.

use std::{
    collections::{BTreeMap, BTreeSet},
    mem,
    sync::{Arc, Mutex, PoisonError},
};

use minijinja::value::Value;
use serde_json::{Map, Value as Json};

use super::{
    Expansion, Uses,
    build::inputs_value,
    marks::Mark,
    prepare::StepPlan,
    with::{dotted, object},
};
use crate::{
    Body, Diagnostic, Input, Instance, InstanceId, Link, Render, ResolvedInstance, SettledResults, StepResult,
    expr::{
        EvalError, Item, Items, Node, Piece, Scope, Template, shown,
        value::{from_json, to_json, to_text},
    },
    paths::{folder_name, join},
    reason::{BodyFault, Fault, Several, VariableFault},
    shell::Shell,
    spec::{
        at::{PlacePart, Problem, Seg, YamlPath},
        typed_value,
    },
};

impl Expansion {
    /// The instance's body with every expression evaluated, including results of its needs.
    ///
    /// # Errors
    /// An expression reads a missing value: the output of a step that failed or was skipped, or an unknown metric. Or a
    /// value that became known only now violates the plugin's schema.
    pub fn resolve(
        &self,
        id: InstanceId,
        settled: &dyn SettledResults,
        render: Render,
    ) -> Result<ResolvedInstance, Fault> {
        let instance = self.instances.get(id.index()).ok_or_else(|| no_instance(id))?;
        let plan = &self.late.plans[instance.step.index()];
        let links = Arc::new(Mutex::new(BTreeSet::new()));
        let scope = Value::from_object(self.scope(instance, plan, settled, render, &links));
        let evaluate =
            |template: &Template, key| template.eval(&scope).map_err(|e| self.unresolved(instance, template, key, e));

        let env = typed_value::env(&evaluate(&plan.env, "env")?);
        let label = || instance.label.to_string();
        let env = env.map_err(|wrong| {
            let mistakes = Several(wrong.into_iter().map(variable_fault).collect());
            BodyFault::BadEnv { label: label(), place: self.place(&plan.env.at, PlacePart::Key), mistakes }
        })?;
        let body = match &plan.uses {
            Uses::Command => {
                let no_command = || Fault::from(format!("`{}` has no command", instance.label));
                let template = plan.command.as_ref().ok_or_else(no_command)?;
                let line = to_text(&evaluate(template, "")?).map_err(|error| BodyFault::NoCommand {
                    label: label(),
                    place: self.place(&template.at, PlacePart::Key),
                    error: error.into(),
                })?;
                Body::Command { line, shell: plan.shell }
            }
            Uses::Plugin { plugin, step } => Body::Plugin {
                plugin: plugin.clone(),
                step: step.clone(),
                with: self.with(instance, plan, &scope, settled, render)?,
            },
            Uses::Builtin(name) => {
                Body::Builtin { name: name.clone(), with: self.with(instance, plan, &scope, settled, render)? }
            }
        };
        let mut links = mem::take(&mut *links.lock().unwrap_or_else(PoisonError::into_inner));
        for (place, output) in &plan.placed {
            links.insert(self.placed(instance, plan, settled, (place, output))?);
        }
        let mut resolved = ResolvedInstance { body, env, links: links.into_iter().collect(), inputs: Vec::new() };
        self.name_inputs(instance, plan, &mut resolved, render);
        Ok(resolved)
    }

    /// An output of another step in its place under `inputs:`.
    fn placed(
        &self,
        instance: &Instance,
        plan: &StepPlan,
        settled: &dyn SettledResults,
        (place, output): (&str, &Template),
    ) -> Result<Link, Fault> {
        let read = Arc::default();
        let scope = Value::from_object(self.scope(instance, plan, settled, Render::Digests, &read));
        let value = output.eval(&scope).map_err(|e| self.unresolved(instance, output, "inputs", e))?;
        let read = read.lock().unwrap_or_else(PoisonError::into_inner);
        let found = read.iter().find(|link| value.as_str() == Some(&*link.digest.to_string()));
        found.map(|link| Link { path: place.to_owned(), digest: link.digest }).ok_or_else(|| {
            let at = self.place(&output.at, PlacePart::Key);
            format!("`{}` ({at}): `{place}` under `inputs` is not one output of a step", instance.label).into()
        })
    }

    /// The command of an instance and its declared shell, before anything has run. A word replaces values from results.
    pub fn command(&self, id: InstanceId) -> Option<(String, Shell)> {
        match self.resolve(id, &BTreeMap::<InstanceId, StepResult>::new(), Render::Paths) {
            Ok(ResolvedInstance { body: Body::Command { line, shell }, .. }) => Some((line, shell)),
            Ok(_) => None,
            Err(_) => self.unresolved_command(id),
        }
    }

    /// The command of an instance with a word in place of each expression, and its declared shell.
    pub fn unresolved_command(&self, id: InstanceId) -> Option<(String, Shell)> {
        let plan = &self.late.plans[self.instances.get(id.index())?.step.index()];
        let Node::Text(pieces) = &plan.command.as_ref()?.node else { return None };
        let line = pieces.iter().map(|piece| match piece {
            Piece::Text(text) => text,
            Piece::Expr(_) => "value",
        });
        Some((line.collect(), plan.shell))
    }

    /// The path of an input that is read in place, as passed to its program.
    pub fn lies_at(&self, input: &Input) -> String {
        join(&self.late.folder, &input.path)
    }

    fn with(
        &self,
        instance: &Instance,
        plan: &StepPlan,
        scope: &Value,
        settled: &dyn SettledResults,
        render: Render,
    ) -> Result<Map<String, Json>, Fault> {
        let value = plan.with.eval(scope).map_err(|e| self.unresolved(instance, &plan.with, "with", e))?;
        let (label, place) = (|| instance.label.to_string(), || self.place(&plan.with.at, PlacePart::Key));
        let mut with = to_json(&value).map_err(|error| BodyFault::NoWith {
            label: label(),
            place: place(),
            error: error.into(),
        })?;
        let Some(schema) = &plan.schema else { return Ok(object(with)) };
        schema.fill(&mut with);
        let mut mistakes = schema.mistakes(&with);
        if mistakes.is_empty() && render == Render::Digests {
            let results = || instance.needs.iter().filter_map(|need| settled.result(need.on));
            let made = |result: &&StepResult, digest: &str| {
                result.outputs.values().any(|artifact| artifact.digest.to_string() == digest)
            };
            mistakes = schema.too_large(&with, |digest, metric| {
                Some(results().find(|result| made(result, digest))?.metrics.get(metric)?.value)
            });
        }
        if !mistakes.is_empty() {
            return Err(BodyFault::BadWith { label: label(), place: place(), mistakes: Several(mistakes) }.into());
        }
        Ok(object(with))
    }

    /// Resolves the places of the user's inputs in `with:`, and adds inputs that only results determine.
    fn name_inputs(&self, instance: &Instance, plan: &StepPlan, resolved: &mut ResolvedInstance, render: Render) {
        let (Some(schema), Body::Plugin { with, .. } | Body::Builtin { with, .. }) = (&plan.schema, &mut resolved.body)
        else {
            return;
        };
        let mut value = Json::Object(mem::take(with));
        for (path, text) in schema.marked(&value, Mark::Path) {
            let name = dotted(&path);
            if !instance.inputs.iter().any(|i| i.in_place && i.name.as_deref() == Some(&*name)) {
                // Artifacts and inputs with a name are found in the work folder.
                let links = resolved.links.iter().map(|link| match render {
                    Render::Digests => link.digest.to_string(),
                    Render::Paths => link.path.clone(),
                });
                let brought =
                    instance.inputs.iter().filter(|input| !input.in_place).map(Input::place).filter(|p| !p.is_empty());
                let placed = plan.placed.iter().map(|(place, _)| place.clone());
                let lies_in =
                    |place: String| text.strip_prefix(&*place).is_some_and(|r| r.is_empty() || r.starts_with('/'));
                if links.chain(brought).chain(placed).any(lies_in) {
                    continue;
                }
                resolved.inputs.push(Input::in_place(name.clone(), text.clone()));
            }
            let place = path.iter().try_fold(&mut value, |here, seg| match seg {
                Seg::Key(key) => here.get_mut(&**key),
                Seg::Index(index) => here.get_mut(*index),
            });
            if let Some(place) = place {
                *place = Json::String(match render {
                    // The content is hashed as an input of this name; its place does not count.
                    Render::Digests => format!("input {name}"),
                    Render::Paths => join(&self.late.folder, &text),
                });
            }
        }
        *with = object(value);
    }

    /// An expression has no value.
    fn unresolved(&self, instance: &Instance, template: &Template, key: &str, e: EvalError) -> Fault {
        let at = template.at.below(&e.path);
        let place = self.place(&at, PlacePart::In { text: e.expr.to_string(), expression: e.expr.clone() });
        let (label, expression, error) = (instance.label.to_string(), shown(&e.expr).into_owned(), e.fault.into());
        match key {
            "" => BodyFault::Reads { label, expression, place, error }.into(),
            key => {
                let key = dotted(&e.path).replacen("with", key, 1);
                BodyFault::ReadsUnder { label, expression, key, place, error }.into()
            }
        }
    }

    /// `exp.yaml:12:7`.
    fn place(&self, at: &YamlPath, on: PlacePart) -> String {
        let source = self.late.workflow.source();
        let what = Diagnostic::new("");
        let found = self.late.workflow.locate(vec![Problem { at: at.clone(), on, what }]);
        let source = found.first().and_then(|d| d.source.as_deref()).unwrap_or(source);
        match found.first().and_then(|d| d.line_column(&source.text)) {
            Some((line, column)) => format!("{}:{line}:{column}", source.path),
            None => source.path.clone(),
        }
    }

    /// The scope of an instance's expressions when it starts.
    fn scope(
        &self,
        instance: &Instance,
        plan: &StepPlan,
        settled: &dyn SettledResults,
        render: Render,
        links: &Arc<Mutex<BTreeSet<Link>>>,
    ) -> Scope {
        let at = instance.step.index();
        let place = plan.place(instance.id);
        let mut steps: BTreeMap<String, Value> = BTreeMap::new();
        for read in &plan.reads {
            let name = &self.late.plans[read.step].name;
            if steps.contains_key(&**name) {
                continue;
            }
            let members = self.members(at, read.step, place);
            let items = members.iter().map(|id| {
                let member = &self.instances[id.index()];
                Arc::new(Item {
                    label: member.label.clone(),
                    place: place_of(name, &member.label).into(),
                    declared: member.outputs.clone(),
                    axes: Value::from_pairs(member.axes.iter().map(|(k, v)| (k.as_str(), from_json(v)))),
                    result: settled.late(*id),
                    render,
                    links: links.clone(),
                })
            });
            let items = Items { step: name.clone(), items: items.collect() };
            steps.insert(name.to_string(), Value::from_object(items));
        }
        let mut scope = self.late.base.clone();
        scope.axes =
            plan.matrix.at(place.0 as usize).map(|(axis, value)| (axis.name.clone(), value.value.clone())).collect();
        scope.steps = Some(Value::from(steps));
        scope.inputs = Some(inputs_value(&instance.inputs, &plan.placed));
        scope.seed = Some(instance.seed);
        scope
    }

    /// The instances of a step that belong to an instance.
    pub(super) fn members(&self, at: usize, on: usize, place: super::matrix::Place) -> &[InstanceId] {
        match self.late.agreements.get(&(at, on)) {
            Some(agreement) => agreement.of(&self.late.plans[at].matrix, place),
            None => &[],
        }
    }
}

/// The folder in the work folder for the artifacts of an instance: `in/STEP`, or `in/STEP/AXES` if the label names axes.
fn place_of(step: &str, label: &str) -> String {
    let axes = label.strip_prefix(step).and_then(|axes| axes.strip_prefix('[')?.strip_suffix(']'));
    axes.map_or_else(|| format!("in/{step}"), |axes| format!("in/{step}/{}", folder_name(axes)))
}

pub(super) fn no_instance(id: InstanceId) -> Fault {
    format!("there is no instance {}", id.0).into()
}

/// Under `env`, usually only the values of a mapping are known late.
fn variable_fault(wrong: typed_value::ValueMistake) -> VariableFault {
    match wrong.what {
        typed_value::MistakeKind::Type { found, expected, .. } if expected == typed_value::SCALAR => {
            VariableFault::VariableWrong { value: found }
        }
        typed_value::MistakeKind::Type { found, expected, .. } => {
            VariableFault::VariableRefused { message: format!("found {found}, expected {expected}") }
        }
        typed_value::MistakeKind::Other(what) => VariableFault::VariableRefused { message: what.to_string() },
    }
}

/// Results by instance, for callers that have them in a map.
impl SettledResults for BTreeMap<InstanceId, crate::StepResult> {
    fn result(&self, id: InstanceId) -> Option<&crate::StepResult> {
        self.get(&id)
    }
}
