//! A workflow file after reading, before `like:` copies are made. Plain data.

use std::{collections::BTreeMap, sync::Arc};

use indexmap::IndexMap;
use minijinja::value::{Value, ValueKind};

use super::{
    at::{Problems, YamlPath},
    typed_value::TypedResult,
};
use crate::{
    Diagnostic, EnvironmentProvider, Place, Slurm,
    expr::{Expr, Template, value::describe},
    metrics::Metrics,
};

/// A workflow file, before copies are made.
#[derive(Clone, Debug, Default)]
pub(crate) struct File {
    pub(crate) name: String,
    pub(crate) title: BTreeMap<String, String>,
    pub(crate) params: IndexMap<String, (Value, YamlPath)>,
    pub(crate) profiles: Vec<Profile>,
    pub(crate) steps: Vec<RawStep>,
    pub(crate) publish: Vec<Entry>,
    pub(crate) policy: Option<String>,
    pub(crate) on: Option<Place>,
    pub(crate) slurm: Slurm,
    pub(crate) environments: Vec<RawEnvironment>,
    /// Every command needs one of them.
    pub(crate) environment_required: bool,
    pub(crate) work: Option<String>,
}

#[derive(Clone, Debug)]
pub(crate) struct Profile {
    pub(crate) name: String,
    pub(crate) at: YamlPath,
    pub(crate) when: Option<Condition>,
    pub(crate) gpus: Option<u32>,
    pub(crate) params: IndexMap<String, (Value, YamlPath)>,
}

/// An entry of `environments:`.
#[derive(Clone, Debug)]
pub(crate) struct RawEnvironment {
    pub(crate) name: String,
    pub(crate) at: YamlPath,
    pub(crate) provider: EnvironmentProvider,
    /// The path or image.
    pub(crate) place: Template,
}

/// A condition, with its place.
#[derive(Clone, Debug)]
pub(crate) struct Condition {
    pub(crate) at: YamlPath,
    pub(crate) expr: Arc<Expr>,
}

impl Condition {
    /// Its value. Anything else than true or false is a problem.
    pub(crate) fn holds(&self, scope: &Value, problems: &mut Problems) -> Option<bool> {
        let what = match self.expr.eval(scope) {
            Ok(value) if value.kind() == ValueKind::Bool => return Some(value.is_true()),
            Ok(value) => Diagnostic::new(format!("`when` is {}", describe(&value))).label("expected true or false"),
            Err(fault) => Diagnostic::new(fault.to_string()),
        };
        problems.value(&self.at, what);
        None
    }
}

/// An entry of `publish`.
#[derive(Clone, Debug)]
pub(crate) struct Entry {
    pub(crate) from: (String, YamlPath),
    pub(crate) to: Template,
    pub(crate) whats_new: bool,
}

/// A step as written.
#[derive(Clone, Debug)]
pub(crate) struct RawStep {
    pub(crate) name: String,
    pub(crate) at: YamlPath,
    /// Something in it is wrong; what follows from that is not said again.
    pub(crate) broken: bool,
    pub(crate) keys: Parts,
}

/// The keys that a step has, in their order: so few that a search is as quick as a table, and there may be a hundred thousand steps.
#[derive(Clone, Debug, Default)]
pub(crate) struct Parts(Vec<(&'static str, Part)>);

impl Parts {
    /// One more; it has none of this name.
    pub(crate) fn push(&mut self, key: &'static str, part: Part) {
        self.0.push((key, part));
    }

    pub(crate) fn get(&self, key: &str) -> Option<&Part> {
        self.iter().find(|(name, _)| *name == key).map(|(_, part)| part)
    }

    pub(crate) fn has(&self, key: &str) -> bool {
        self.get(key).is_some()
    }

    /// The value of a plain key: `gpus`, `inputs`, `corun`, …
    pub(crate) fn value(&self, key: &str) -> Option<&Template> {
        match self.get(key) {
            Some(Part::Value(template)) => Some(template),
            _ => None,
        }
    }

    /// The value of a plain key without expressions, if it is sound.
    pub(crate) fn plain<T>(&self, key: &str, typed: impl Fn(&Value) -> TypedResult<T>) -> Option<T> {
        typed(self.value(key)?.as_const()?).ok()
    }

    /// The names of steps under a key.
    pub(crate) fn names(&self, key: &str) -> &[(String, YamlPath)] {
        match self.get(key) {
            Some(Part::Names(names)) => names,
            _ => &[],
        }
    }

    pub(crate) fn value_mut(&mut self, key: &str) -> Option<&mut Template> {
        self.0.iter_mut().find_map(|(name, part)| match part {
            Part::Value(template) if *name == key => Some(template),
            _ => None,
        })
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (&'static str, &Part)> {
        self.0.iter().map(|(key, part)| (*key, part))
    }
}

impl FromIterator<(&'static str, Part)> for Parts {
    fn from_iter<I: IntoIterator<Item = (&'static str, Part)>>(parts: I) -> Self {
        Parts(parts.into_iter().collect())
    }
}

/// `matrix:`.
#[derive(Clone, Debug, Default)]
pub(crate) struct RawMatrix {
    pub(crate) axes: Vec<(Arc<str>, Template)>,
    /// Points with these values are left out.
    pub(crate) exclude: Vec<RawPoint>,
    /// Values for the points that they match, or points of their own.
    pub(crate) include: Vec<RawPoint>,
}

impl RawMatrix {
    /// The axes, and those that only `include` has, each with a value as written.
    pub(crate) fn all(&self) -> Vec<(Arc<str>, Template)> {
        let mut all = self.axes.clone();
        for (name, template) in self.include.iter().flatten() {
            if !all.iter().any(|(known, _)| known == name) {
                all.push((name.clone(), template.clone()));
            }
        }
        all
    }
}

/// An entry of `include` or `exclude`.
pub(crate) type RawPoint = Vec<(Arc<str>, Template)>;

/// The value of one key of a step.
#[derive(Clone, Debug)]
pub(crate) enum Part {
    Value(Template),
    With(Template, Arc<serde_json::Map<String, serde_json::Value>>),
    Matrix(RawMatrix),
    When(Condition),
    Names(Vec<(String, YamlPath)>),
    Metrics(Arc<Metrics>, YamlPath),
}

impl Part {
    /// Every expression in it, with its place.
    pub(crate) fn visit(&self, see: &mut dyn FnMut(&Expr, &YamlPath)) {
        match self {
            Part::Value(template) | Part::With(template, _) => template.visit(see),
            Part::Matrix(matrix) => {
                let points = matrix.exclude.iter().chain(&matrix.include).flatten();
                matrix.axes.iter().chain(points).for_each(|(_, template)| template.visit(see));
            }
            Part::When(when) => see(&when.expr, &when.at),
            Part::Names(_) | Part::Metrics(..) => {}
        }
    }
}
