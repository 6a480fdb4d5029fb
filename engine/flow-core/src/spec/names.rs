//! Names in expressions, checked against what each key may see, and steps named anywhere. Does not evaluate.

use std::{collections::BTreeSet, sync::Arc};

use super::{
    at::{PlacePart, Problems, YamlPath},
    files,
    keys::{self, MACHINE_FIELDS, VisibleNames},
    raw::{File, Part},
    step::Step,
};
use crate::{
    Diagnostic,
    expr::{Expr, ITEM_FIELDS, Node, Template, filter_names, globals, has_filter, has_test, test_names},
    nearest,
};

/// Names that a workflow has.
struct Names<'a> {
    params: BTreeSet<&'a str>,
    steps: BTreeSet<Arc<str>>,
    globals: BTreeSet<&'static str>,
}

/// Checks every step and every entry of `publish`. A step with a problem is no longer sound.
pub(crate) fn check(file: &File, steps: &mut [Step], problems: &mut Problems) {
    let names = Names {
        params: file.params.keys().map(String::as_str).collect(),
        steps: steps.iter().map(|s| s.name.clone()).collect(),
        globals: globals(),
    };
    for profile in &file.profiles {
        for (name, (_, at)) in &profile.params {
            if !names.params.contains(name.as_str()) {
                let what =
                    Diagnostic::new(format!("the profile `{}` sets `{name}`, which is not a parameter", profile.name));
                let params = problems.offer(names.params.iter().copied());
                problems.key(at, what.nearest(name, params).help("declare it under `params`"));
            }
        }
    }
    for environment in &file.environments {
        if let Some(sees) = keys::find(keys::ENVIRONMENT, environment.provider.key()).and_then(|key| key.sees) {
            let mut check = Check { key: "environments", sees, step: None, names: &names, problems };
            environment.place.visit(&mut |expr, at| check.expression(expr, at));
        }
    }
    for step in steps.iter_mut() {
        let before = problems.0.len();
        step_names(step, &names, problems);
        step.sound &= problems.0.len() == before;
    }
    for entry in &file.publish {
        known_step(&entry.from.0, &entry.from.1, None, &names, problems);
        let sees = keys::find(keys::PUBLISH, if entry.whats_new { "whats_new" } else { "to" }).and_then(|k| k.sees);
        if let Some(sees) = sees {
            let mut check = Check { key: "publish", sees, step: None, names: &names, problems };
            entry.to.visit(&mut |expr, at| check.expression(expr, at));
        }
    }
}

fn step_names(step: &Step, names: &Names<'_>, problems: &mut Problems) {
    for (axis, template) in &step.axes {
        if names.params.contains(&**axis) {
            let what = Diagnostic::new(format!("`{axis}` is both a parameter and an axis of `{}`", step.name))
                .help("expressions use both by their bare names; rename one");
            problems.key(&template.at, what);
        }
        if &**axis == "repetition" && step.parts.has("repeat") {
            let what = Diagnostic::new("an axis of a step with `repeat` cannot be called `repetition`");
            problems.key(&template.at, what);
        }
    }
    for (name, at) in &step.needs {
        known_step(name, at, Some(step), names, problems);
    }
    for (key, part) in step.parts.iter() {
        let Some(sees) = keys::find(keys::STEP, key).and_then(|k| k.sees) else { continue };
        let mut check = Check { key, sees, step: Some(step), names, problems };
        match part {
            Part::Value(inputs) if key == "inputs" => {
                let (own, placed) = files::split(inputs);
                own.visit(&mut |expr, at| check.expression(expr, at));
                check.sees.steps = true;
                placed.iter().for_each(|(_, output)| output.visit(&mut |expr, at| check.expression(expr, at)));
            }
            part => part.visit(&mut |expr, at| check.expression(expr, at)),
        }
    }
}

fn known_step(name: &str, at: &YamlPath, own: Option<&Step>, names: &Names<'_>, problems: &mut Problems) {
    if let Some(what) = unknown_step(name, own, names, problems) {
        problems.value(at, what);
    }
}

fn unknown_step(name: &str, own: Option<&Step>, names: &Names<'_>, problems: &Problems) -> Option<Diagnostic> {
    let others = names.steps.iter().map(|n| &**n).filter(|n| own.is_none_or(|s| *s.name != **n));
    let what = || Diagnostic::new(format!("there is no step `{name}`")).nearest(name, problems.offer(others));
    (!names.steps.contains(name)).then(what)
}

struct Check<'a> {
    key: &'a str,
    sees: VisibleNames,
    step: Option<&'a Step>,
    names: &'a Names<'a>,
    problems: &'a mut Problems,
}

impl Check<'_> {
    fn add(&mut self, at: &YamlPath, expr: &Expr, text: &str, what: Diagnostic) {
        self.problems.add(at, PlacePart::In { expression: expr.text.clone(), text: text.to_owned() }, what);
    }

    fn expression(&mut self, expr: &Expr, at: &YamlPath) {
        for name in &expr.variables {
            self.variable(name, expr, at);
        }
        for name in expr.reads.filters.iter().filter(|name| !has_filter(name)) {
            let what = Diagnostic::new(format!("there is no filter `{name}`"));
            self.add(at, expr, name, with_names(what, name, &filter_names().collect::<Vec<_>>()));
        }
        for name in expr.reads.tests.iter().filter(|name| !has_test(name)) {
            let what = Diagnostic::new(format!("there is no test `is {name}`"));
            self.add(at, expr, name, with_names(what, name, &test_names().collect::<Vec<_>>()));
        }
        if expr.reads.bare_steps {
            let what = Diagnostic::new("`steps` needs the literal name of a step after a dot");
            self.add(
                at,
                expr,
                &expr.text,
                what.help("write `steps.NAME`; flow finds dependencies in the text, so the name cannot be computed"),
            );
        }
        for field in expr.fields("params") {
            if self.sees.params && !self.names.params.contains(field.name.as_str()) {
                let what = Diagnostic::new(format!("there is no parameter `{}`", field.name));
                let params = self.problems.offer(self.names.params.iter().copied());
                let what = what.nearest(&field.name, params);
                self.add(at, expr, &format!("params.{}", field.name), what);
            }
        }
        for field in expr.fields("machine") {
            if self.sees.machine && !MACHINE_FIELDS.contains(&field.name.as_str()) {
                let what = Diagnostic::new(format!("`machine` has no `{}`", field.name));
                self.add(at, expr, &format!("machine.{}", field.name), what.nearest(&field.name, MACHINE_FIELDS));
            }
        }
        for field in expr.fields("steps") {
            if !self.sees.steps {
                continue;
            }
            if let Some(what) = unknown_step(&field.name, self.step, self.names, self.problems) {
                self.add(at, expr, &format!("steps.{}", field.name), what);
            }
            if let Some(attribute) = field.attribute.as_deref().filter(|a| !ITEM_FIELDS.contains(a)) {
                let what = Diagnostic::new(format!("`steps.{}` has no `{attribute}`", field.name));
                let text = format!("steps.{}.{attribute}", field.name);
                self.add(at, expr, &text, what.nearest(attribute, ITEM_FIELDS));
            }
        }
        if self.sees.steps {
            self.inputs(expr, at);
        }
    }

    fn inputs(&mut self, expr: &Expr, at: &YamlPath) {
        let Some(step) = self.step else { return };
        let inputs = step.parts.value("inputs");
        if inputs.is_some_and(|inputs| matches!(inputs.node, Node::Expr(_) | Node::Text(_) | Node::Broken)) {
            return;
        }
        let declared = inputs.and_then(Template::keys).unwrap_or_default();
        for field in expr.fields("inputs") {
            if !declared.contains(&field.name) {
                let what = Diagnostic::new(format!("`{}` has no input called `{}`", step.name, field.name));
                let what = if declared.is_empty() {
                    let is_name = !field.name.starts_with(|c: char| c.is_ascii_digit());
                    let name = if is_name { &*field.name } else { "data" };
                    what.help(format!("name it, as in `inputs: {{{name}: PATH}}`"))
                } else {
                    what.nearest(&field.name, self.problems.offer(declared.iter().map(String::as_str)))
                };
                self.add(at, expr, &format!("inputs.{}", field.name), what);
            }
        }
    }

    fn variable(&mut self, name: &str, expr: &Expr, at: &YamlPath) {
        let axes: Vec<&str> = self.step.iter().flat_map(|s| s.axes.iter().map(|(n, _)| &**n)).collect();
        let unseen = match name {
            "params" => !self.sees.params,
            "machine" => !self.sees.machine,
            "steps" | "inputs" => !self.sees.steps,
            _ => false,
        };
        let is_param = self.names.params.contains(name);
        let is_axis = axes.contains(&name);
        if unseen || is_axis && !self.sees.axes || is_param && !self.sees.params && !is_axis {
            let what = Diagnostic::new(format!("`{}` cannot see `{name}`", self.key));
            let what = what.help(match (self.key, name) {
                ("inputs", "steps") => {
                    "give the output a place: `inputs: {data/x: \"${{ steps.NAME.out }}\"}`".to_owned()
                }
                _ => self.visible(),
            });
            return self.add(at, expr, name, what);
        }
        let ours = matches!(name, "params" | "machine" | "steps" | "inputs") || name == "seed" && self.sees.steps;
        if ours || is_param || is_axis || self.names.globals.contains(name) {
            return;
        }
        let what = Diagnostic::new(format!("unknown name `{name}`"));
        let candidates = self.names.params.iter().copied().filter(|_| self.sees.params);
        let candidates = candidates
            .chain(axes.into_iter().filter(|_| self.sees.axes))
            .chain(["machine"].into_iter().filter(|_| self.sees.machine));
        let mut what = match nearest(name, self.problems.offer(self.names.globals.iter().copied())) {
            Some(_) => what.nearest(name, self.names.globals.iter().copied()),
            None => what.nearest(name, self.problems.offer(candidates)),
        };
        if let Some(filter) = nearest(name, filter_names()).filter(|_| expr.text.contains(&format!("{name}("))) {
            what = what.help(format!("a filter comes after a bar: `… | {filter}`"));
        }
        if self.names.steps.contains(name) {
            what.help = vec![if self.sees.steps {
                format!("the step's results are `steps.{name}`")
            } else {
                format!("`{}` cannot see the results of steps", self.key)
            }];
        }
        let text = if expr.text.contains(name) { name } else { &expr.text };
        self.add(at, expr, text, what);
    }

    fn visible(&self) -> String {
        let words = [
            (self.sees.params, "parameters"),
            (self.sees.machine, "`machine`"),
            (self.sees.axes, "the step's axes"),
            (self.sees.steps, "`steps`, `inputs`"),
        ];
        let seen: Vec<&str> = words.into_iter().filter_map(|(sees, word)| sees.then_some(word)).collect();
        format!("it sees {}", seen.join(", "))
    }
}

/// The nearest of a few names, or all of them where none is near.
fn with_names(what: Diagnostic, wrong: &str, names: &[&str]) -> Diagnostic {
    match nearest(wrong, names.iter().copied()) {
        Some(near) => what.nearest(wrong, [near]),
        None => what.help(format!("there are {}", names.join(", "))),
    }
}
