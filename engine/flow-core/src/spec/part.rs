//! From a YAML value to the keys of one step. Goes on after every error; knows no other step.

use std::sync::Arc;

use minijinja::value::{Value, ValueKind};
use serde_yaml::Value as Yaml;

use super::{
    at::YamlPath,
    files,
    keys::{self, Key, Kind},
    raw::{Part, RawMatrix, RawPoint, RawStep},
    read::Reader,
    slurm,
    typed_value::{self, TypedResult},
};
use crate::{
    Diagnostic,
    expr::{Node, Template},
    shell::{Shell, script},
};

impl Reader<'_> {
    pub(super) fn step(&mut self, name: String, yaml: &Yaml, at: &YamlPath) -> RawStep {
        let before = self.problems.0.len();
        self.name(&name, at, "a step");
        let entries = match yaml {
            Yaml::Mapping(map) if !map.is_empty() => self.entries(yaml, at, keys::STEP, "a step"),
            _ => {
                let what = format!("the step `{name}`");
                self.mapping(yaml, at, &what);
                if self.problems.0.len() == before {
                    let what = Diagnostic::new(format!("{what} is empty"));
                    self.problems.key(at, what.label("expected `uses`, `run` or `like`"));
                }
                Vec::new()
            }
        };
        let keys = entries.into_iter().filter_map(|(key, value, at)| Some((key.name, self.part(key, value, &at)?)));
        let keys = keys.collect();
        RawStep { name, at: at.clone(), broken: self.problems.0.len() > before, keys }
    }

    fn part(&mut self, key: &'static Key, yaml: &Yaml, at: &YamlPath) -> Option<Part> {
        match key.kind {
            Kind::Matrix => {
                let mut matrix = RawMatrix::default();
                for (name, value, at) in self.mapping(yaml, at, "`matrix`") {
                    match &*name {
                        "include" => matrix.include = self.points(&name, value, &at),
                        "exclude" => matrix.exclude = self.points(&name, value, &at),
                        _ => matrix.axes.extend(self.one_axis(&name, value, &at)),
                    }
                }
                if matches!(yaml, Yaml::Mapping(m) if m.is_empty()) {
                    self.problems.key(at, Diagnostic::new("the matrix has no axes").help("leave `matrix` out"));
                }
                let axes: Vec<&str> = matrix.axes.iter().map(|(name, _)| &**name).collect();
                for (name, template) in matrix.exclude.iter().flatten() {
                    if !axes.contains(&&**name) {
                        let what =
                            Diagnostic::new(format!("`exclude` names `{name}`, which is not an axis of this matrix"));
                        self.problems.key(&template.at, what.nearest(name, axes.iter().copied()));
                    }
                }
                Some(Part::Matrix(matrix))
            }
            Kind::When => self.when(yaml, at).map(Part::When),
            Kind::Step | Kind::Uses => {
                let name = self.value(yaml, at, key.name, typed_value::text)?;
                Some(Part::Names(vec![(name, at.clone())]))
            }
            Kind::StepList => {
                let value = self.plain(yaml, at, key.name)?;
                self.one_or_several(&value, at, "a list of steps").map(Part::Names)
            }
            Kind::Metrics => self.metrics(yaml, at).map(|metrics| Part::Metrics(metrics.into(), at.clone())),
            Kind::With => {
                if !matches!(yaml, Yaml::Mapping(_)) {
                    self.mapping(yaml, at, "`with`");
                    return None;
                }
                let template = Template::parse(yaml, at, self.problems);
                let written = serde_json::to_value(yaml).ok()?;
                Some(Part::With(template, written.as_object().cloned().unwrap_or_default().into()))
            }
            _ if key.sees.is_none() => {
                let value = self.plain(yaml, at, key.name)?;
                self.check(key, &value, at);
                Some(Part::Value(Template { at: at.clone(), node: Node::Const(value) }))
            }
            _ => {
                let template = Template::parse(yaml, at, self.problems);
                if key.kind == Kind::Command {
                    self.script(yaml, at);
                }
                match template.as_const() {
                    Some(value) => {
                        let value = value.clone();
                        self.check(key, &value, at);
                    }
                    None => self.shape(key, &template),
                }
                Some(Part::Value(template))
            }
        }
    }

    /// A value that is known already is checked already.
    fn check(&mut self, key: &Key, value: &Value, at: &YamlPath) {
        if value.is_none() && nullable(key.kind) {
            return;
        }
        let result = match key.kind {
            Kind::Count(least) => typed_value::count(value, least).map(drop),
            Kind::Integer if key.name == "seed" => typed_value::seed(value).map(drop),
            Kind::Integer => typed_value::integer(value).map(drop),
            Kind::Size => typed_value::size(value).map(drop),
            Kind::Duration => typed_value::duration(value).map(drop),
            Kind::Exclusive => typed_value::exclusive(value).map(drop),
            Kind::Corun => typed_value::corun(value).map(drop),
            Kind::Repeat => typed_value::repeat(value).map(drop),
            Kind::Bool => typed_value::boolean(value).map(drop),
            Kind::Record => typed_value::outcomes(value).map(drop),
            Kind::Env if value.kind() == ValueKind::Seq => typed_value::variables(value).map(drop),
            Kind::Env => typed_value::env(value).map(drop),
            Kind::Inputs => files::inputs(value).map(drop),
            Kind::Outputs => files::outputs(value).map(drop),
            Kind::Command => command(value),
            Kind::Environment => typed_value::text(value).map(drop),
            Kind::On => slurm::on(value).map(drop),
            Kind::Shell => shell(value).map(drop),
            Kind::Slurm(_) => slurm::job(value).map(drop),
            Kind::Secrets => typed_value::variables(value).map(drop),
            _ => Ok(()),
        };
        self.typed(at, result);
    }

    /// A script below its `#!` line.
    fn script(&mut self, yaml: &Yaml, at: &YamlPath) {
        if yaml.as_str().and_then(script).is_some_and(|script| script.is_empty()) {
            let what = Diagnostic::new("nothing follows the `#!` line");
            let help = "write the script below `run: |`, which keeps its lines; `run: >` joins them";
            self.problems.value(at, what.help(help));
        }
    }

    /// Checks a value with expressions, as far as that is possible before they have values.
    fn shape(&mut self, key: &Key, template: &Template) {
        let members = match &template.node {
            Node::Map(members) => members,
            Node::Text(_) if !matches!(key.kind, Kind::Command | Kind::Size | Kind::Duration | Kind::Environment) => {
                let what = Diagnostic::new(format!("`{}` is a text with an expression in it", key.name))
                    .help("an expression that is the whole value keeps its type");
                return self.problems.value(&template.at, what);
            }
            Node::List(_) if !matches!(key.kind, Kind::Inputs | Kind::Outputs) => {
                let what = Diagnostic::new(format!("`{}` is a list", key.name));
                return self.problems.value(&template.at, what);
            }
            _ => return,
        };
        let mut only = |keys: &[&'static str], of: &str| {
            for (name, _) in members {
                self.typed(&template.at, typed_value::known(name, keys, of));
            }
        };
        match key.kind {
            Kind::Corun => only(&typed_value::CORUN_KEYS, "`corun`"),
            Kind::Repeat => only(&typed_value::REPEAT_KEYS, "`repeat`"),
            Kind::Slurm(_) => only(&slurm::JOB_KEYS, "`slurm` of a step"),
            Kind::Inputs => files::check_placed(template, self.problems),
            Kind::Env | Kind::Outputs => {}
            _ => self.problems.value(&template.at, Diagnostic::new(format!("`{}` is a mapping", key.name))),
        }
    }

    /// An axis with a valid name. If its values are wrong, its name is known anyway.
    fn one_axis(&mut self, name: &str, yaml: &Yaml, at: &YamlPath) -> Option<(Arc<str>, Template)> {
        let good = self.name(name, at, "an axis") && self.free(name, at, "an axis");
        let before = self.problems.0.len();
        let axis = Template::parse(yaml, at, self.problems);
        if self.problems.0.len() == before && good {
            self.axis(name, &axis);
        }
        good.then(|| (Arc::from(name), axis))
    }

    /// `include:` or `exclude:` of a matrix.
    fn points(&mut self, key: &str, yaml: &Yaml, at: &YamlPath) -> Vec<RawPoint> {
        let Yaml::Sequence(list) = yaml else {
            let what = Diagnostic::new(format!("`{key}` of a matrix is not a list"));
            self.problems.value(at, what.label("expected a list of points, `[{batch: 8, lr: 0.1}]`"));
            return Vec::new();
        };
        let mut points = Vec::new();
        for (n, point) in list.iter().enumerate() {
            let mut values = Vec::new();
            for (name, value, at) in self.mapping(point, &at.index(n), &format!("a point of `{key}`")) {
                if self.name(&name, &at, "an axis") && self.free(&name, &at, "an axis") {
                    values.push((Arc::from(name), Template::parse(value, &at, self.problems)));
                }
            }
            points.push(values);
        }
        points
    }

    fn axis(&mut self, name: &str, axis: &Template) {
        let what = match &axis.node {
            Node::Const(value) if value.kind() == minijinja::value::ValueKind::Seq => {
                let only = (value.len() == Some(1)).then(|| value.get_item_by_index(0).ok()).flatten();
                let is_list = |text: &&str| text.contains('，') && text.chars().all(|c| c.is_ascii() || c == '，');
                match only.as_ref().and_then(|only| only.as_str()).filter(is_list) {
                    Some(_) => Diagnostic::new(format!("the axis `{name}` is one text, not several values"))
                        .help("write `,` for the full-width `，`"),
                    None if value.len() != Some(0) => return,
                    None => Diagnostic::new(format!("the axis `{name}` is empty")).label("expected at least one value"),
                }
            }
            Node::Const(value) => {
                Diagnostic::new(format!("the axis `{name}` is {}", crate::expr::value::describe(value)))
                    .label("expected a list, or one expression that gives a list")
            }
            Node::Expr(_) | Node::List(_) | Node::Broken => return,
            Node::Text(_) | Node::Map(_) => Diagnostic::new(format!("the axis `{name}` is not a list"))
                .label("expected a list, or one expression that gives a list"),
        };
        self.problems.value(&axis.at, what);
    }
}

/// `null` means the default.
pub(crate) fn nullable(kind: Kind) -> bool {
    matches!(kind, Kind::Size | Kind::Duration | Kind::Count(1) | Kind::Repeat | Kind::Environment)
}

/// `shell:`.
pub(crate) fn shell(value: &Value) -> TypedResult<Shell> {
    let named = value.as_str().and_then(Shell::named);
    named.map_or_else(
        || {
            typed_value::expected(
                value,
                "`bash` or `sh`; name another interpreter in the first line of `run: |`, as in `#!/usr/bin/env python3`",
            )
        },
        Ok,
    )
}

pub(crate) fn command(value: &Value) -> TypedResult<()> {
    match value.as_str() {
        Some(text) if text.trim().is_empty() => typed_value::expected(value, "a command"),
        Some(_) => Ok(()),
        None => typed_value::expected(value, "a command, as one text"),
    }
}
