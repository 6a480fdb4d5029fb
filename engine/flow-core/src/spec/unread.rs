//! Finds declarations that nothing reads, and numbers that lose their spelling. Uses the text alone: evaluates nothing.

use std::collections::{BTreeMap, BTreeSet};

use minijinja::value::{Value, ValueKind};
use regex::Regex;

use super::{
    Workflow,
    at::{PlacePart, Problem, Problems, Seg, YamlPath},
    step::{Action, Step, variables},
};
use crate::{
    Diagnostic,
    expr::{Node, Piece, Template, paths, value::to_text},
};

/// Axes that nothing in their step reads, although its command looks as if it did: `{lr}`, `$lr`.
pub(super) fn check(steps: &mut [Step], problems: &mut Problems) {
    let mut wrong = Vec::new();
    for (step, axis) in unread(steps) {
        let Action::Run(run) = &steps[step].action else { continue };
        if let Some(written) = placeholder(run, &axis).filter(|_| !sets(&steps[step], &axis)) {
            let what = Diagnostic::new(format!("`{written}` in `run` is not the value of the axis `{axis}`"));
            let what = what.help(format!("write `${{{{ {axis} }}}}`"));
            wrong.push((step, Problem { at: run.at.clone(), on: PlacePart::Text(written), what }));
        }
    }
    let mut seen = BTreeSet::new();
    for (step, problem) in wrong {
        steps[step].sound = false;
        // A copy of a step has its command from the same place.
        if seen.insert(key(&problem.at, &problem.what.message)) {
            problems.0.push(problem);
        }
    }
}

/// Axes that nothing in their step reads.
pub(super) fn axes(workflow: &Workflow) -> Vec<Problem> {
    let mut seen = BTreeSet::new();
    let mut found = Vec::new();
    for (at, axis) in unread(&workflow.steps) {
        let step = &workflow.steps[at];
        let Some((_, template)) = step.axes.iter().find(|(name, _)| **name == *axis) else { continue };
        if seen.insert(key(&template.at, "")) {
            let place = if matches!(step.action, Action::Run(_)) { "run" } else { "with" };
            let what = Diagnostic::new(format!(
                "nothing in `{}` reads its axis `{axis}`, so all its values do the same",
                step.name
            ));
            let what = what.help(format!("write `${{{{ {axis} }}}}` into `{place}`, or `repeat:` for repetitions"));
            found.push(Problem { at: template.at.clone(), on: PlacePart::Key, what });
        }
    }
    found
}

/// Parameters that nothing reads, in one warning.
pub(super) fn params(workflow: &Workflow) -> Option<Problem> {
    let read = ReadParams::of(workflow);
    let unread = workflow.file.params.iter().filter(|(name, _)| *name != "seed" && !read.has(&[name]));
    let unread: Vec<(&String, &YamlPath)> = unread.map(|(name, (_, at))| (name, at)).collect();
    let (first, at) = unread.first()?;
    let names: Vec<String> = unread.iter().map(|(name, _)| format!("`{name}`")).collect();
    let noun = if names.len() == 1 { "parameter" } else { "parameters" };
    let what = Diagnostic::new(format!("nothing in the workflow reads the {noun} {}", names.join(", ")));
    Some(Problem {
        at: (*at).clone(),
        on: PlacePart::Key,
        what: what.help(format!("write `${{{{ {first} }}}}` into `run`")),
    })
}

fn key(at: &YamlPath, message: &str) -> (usize, Vec<Seg>, String) {
    (at.file(), at.segs().into_iter().cloned().collect(), message.to_owned())
}

/// Axes that no expression of their step names, by the step's position. An axis that the step shares with one whose results it reads, or
/// that it comes after, selects among the instances of that one.
fn unread(steps: &[Step]) -> Vec<(usize, String)> {
    let axes_of: BTreeMap<&str, BTreeSet<&str>> = steps
        .iter()
        .filter(|step| !step.axes.is_empty())
        .map(|step| (&*step.name, step.axes.iter().map(|(axis, _)| &**axis).collect()))
        .collect();
    let mut found = Vec::new();
    for (at, step) in steps.iter().enumerate().filter(|(_, step)| step.sound && !step.axes.is_empty()) {
        let mut read: BTreeSet<String> = BTreeSet::new();
        let mut others: BTreeSet<String> = step.needs.iter().map(|(name, _)| name.clone()).collect();
        for (_, part) in step.parts.iter().filter(|(key, _)| *key != "matrix") {
            part.visit(&mut |expr, _| {
                read.extend(expr.reads.names.iter().cloned());
                others.extend(expr.fields("steps").map(|field| field.name.clone()));
            });
        }
        let selects = |axis: &str| {
            let has = |name: &str| axes_of.get(name).is_some_and(|axes| axes.contains(axis));
            // What a built-in sees its `with:` names as a plain text.
            if step.is_builtin() {
                axes_of.keys().any(|name| *name != &*step.name && has(name))
            } else {
                others.iter().any(|name| has(name))
            }
        };
        let unread = step.axes.iter().filter(|(axis, _)| !read.contains(&**axis) && !selects(axis));
        found.extend(unread.map(|(axis, _)| (at, axis.to_string())));
    }
    found
}

/// The part of a command that looks like a placeholder for this name.
fn placeholder(run: &Template, name: &str) -> Option<String> {
    let texts: Vec<&str> = match &run.node {
        Node::Const(value) => value.as_str().into_iter().collect(),
        Node::Text(pieces) => {
            pieces.iter().filter_map(|piece| if let Piece::Text(text) = piece { Some(&**text) } else { None }).collect()
        }
        _ => Vec::new(),
    };
    let looks = format!(r"\$\{{{name}\b[^}}]*\}}|\$\{{?{name}\b|\{{\{{\s*{name}\s*\}}\}}|\{{\s*{name}\s*(:[^}}]*)?\}}");
    let found = Regex::new(&looks).ok()?;
    // The script gives the name a value of its own.
    let assigns =
        format!(r"(?m)(^|[;&|(]|\b(export|local|declare|do|then)\s)\s*{name}\s*=|\b(for|read)\s+(-\S+\s+)*{name}\b");
    let assigns = Regex::new(&assigns).ok()?;
    if texts.iter().any(|text| assigns.is_match(text)) {
        return None;
    }
    texts.iter().find_map(|text| found.find(text)).map(|found| found.as_str().to_owned())
}

/// It sets an environment variable of this name itself.
fn sets(step: &Step, name: &str) -> bool {
    let set = step.parts.value("env").map(variables).unwrap_or_default();
    set.iter().any(|set| set == name) || step.secrets.iter().any(|secret| secret == name)
}

/// The parameters that expressions of a workflow read, with their dotted paths.
pub(crate) struct ReadParams(BTreeSet<Vec<String>>);

impl ReadParams {
    pub(crate) fn of(workflow: &Workflow) -> ReadParams {
        let mut all = BTreeSet::new();
        let mut see = |expr: &crate::expr::Expr, _: &YamlPath| {
            let of_params = |path: Vec<String>| if path[0] == "params" { path[1..].to_vec() } else { path };
            all.extend(paths(&expr.text).into_iter().map(of_params));
        };
        workflow.steps.iter().flat_map(|step| step.parts.iter()).for_each(|(_, part)| part.visit(&mut see));
        workflow.file.publish.iter().for_each(|entry| entry.to.visit(&mut see));
        workflow.file.environments.iter().for_each(|environment| environment.place.visit(&mut see));
        ReadParams(all)
    }

    /// Something reads this, or what it is in, or a part of it.
    pub(crate) fn has(&self, path: &[&str]) -> bool {
        self.0.iter().any(|read| read.iter().zip(path).all(|(read, given)| read == given))
    }

    /// Paths that begin with one of these names, `opt.momentum`.
    pub(crate) fn below<'a>(&'a self, is_param: impl Fn(&str) -> bool + 'a) -> impl Iterator<Item = String> + 'a {
        self.0.iter().filter(move |path| path.first().is_some_and(|name| is_param(name))).map(|path| path.join("."))
    }
}

/// Numbers that people may have meant as texts: each with the text that it prints as.
pub(super) fn numbers(workflow: &Workflow) -> Vec<Problem> {
    /// More of them a program wrote.
    const MOST: usize = 1000;
    let mut found = Vec::new();
    let file = &workflow.file;
    for (value, at) in file.params.values().chain(file.profiles.iter().flat_map(|profile| profile.params.values())) {
        of_value(value, at, &mut found);
    }
    for step in workflow.steps.iter() {
        let templates = step.axes.iter().map(|(_, template)| template).chain(step.parts.value("env"));
        templates.for_each(|template| of_node(&template.node, &template.at, &mut found));
        if found.len() > MOST {
            return Vec::new();
        }
    }
    found
}

fn of_node(node: &Node, at: &YamlPath, found: &mut Vec<Problem>) {
    match node {
        Node::Const(value) => of_value(value, at, found),
        Node::List(nodes) => nodes.iter().enumerate().for_each(|(n, node)| of_node(node, &at.index(n), found)),
        Node::Map(nodes) => nodes.iter().for_each(|(key, node)| of_node(node, &at.key(key), found)),
        Node::Expr(_) | Node::Text(_) | Node::Broken => {}
    }
}

fn of_value(value: &Value, at: &YamlPath, found: &mut Vec<Problem>) {
    let items = || value.try_iter().into_iter().flatten();
    match value.kind() {
        // A 0 can be the `0e1` of a commit.
        ValueKind::Number if !value.is_integer() || *value == Value::from(0) => {
            if let Ok(text) = to_text(value) {
                found.push(Problem { at: at.clone(), on: PlacePart::Value, what: Diagnostic::new(text) });
            }
        }
        ValueKind::Seq => items().enumerate().for_each(|(n, item)| of_value(&item, &at.index(n), found)),
        ValueKind::Map => items().for_each(|key| {
            if let (Some(name), Ok(item)) = (key.as_str(), value.get_item(&key)) {
                of_value(&item, &at.key(name), found);
            }
        }),
        _ => {}
    }
}

/// A number is printed as this, and its spelling says more. `1e-4` is nothing but a number, and so is `-0`.
pub(super) fn loses(spelled: &str, printed: &str) -> bool {
    let is_number = spelled.starts_with(|c: char| c.is_ascii_digit() || matches!(c, '.' | '+' | '-'));
    let is_small =
        spelled.contains(['e', 'E']) && spelled.contains('-') && spelled.parse::<f64>().is_ok_and(|n| n != 0.0);
    let is_zero = spelled.parse::<f64>().is_ok_and(|n| n == 0.0) && !spelled.contains(['e', 'E']);
    is_number && spelled != printed && !is_small && !is_zero
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spellings_that_get_lost() {
        for (spelled, printed) in [("3.10", "3.1"), ("1.10", "1.1"), ("0e1", "0"), ("0.50", "0.5"), (".5", "0.5")] {
            assert!(loses(spelled, printed), "{spelled}");
        }
        for (spelled, printed) in
            [("3.9", "3.9"), ("1e-4", "0.0001"), ("0.0", "0"), ("0", "0"), ("-0", "0"), ("\"3.10\"", "3.1")]
        {
            assert!(!loses(spelled, printed), "{spelled}");
        }
    }

    #[test]
    fn placeholders_of_other_languages() {
        let found = |text: &str| {
            let run = Template { at: YamlPath::root(), node: Node::Const(Value::from(text)) };
            placeholder(&run, "lr")
        };
        for (text, written) in [
            ("train --lr {lr}", "{lr}"),
            ("train --lr $lr", "$lr"),
            ("train --lr=$lr", "$lr"),
            ("train lr=${lr}", "${lr}"),
            ("train --lr ${lr:-0.1} x", "${lr:-0.1}"),
            ("train --lr {{ lr }}", "{{ lr }}"),
            ("train --lr {lr:.3f}", "{lr:.3f}"),
        ] {
            assert_eq!(found(text).as_deref(), Some(written), "{text}");
        }
        for text in [
            "train --lr 1",
            "train $lr_max",
            "lr=0.1; train $lr",
            "for lr in 1 2; do train $lr; done",
            "export lr=3\ntrain $lr",
            "echo lr",
        ] {
            assert_eq!(found(text), None, "{text}");
        }
    }
}
