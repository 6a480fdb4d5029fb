//! A workflow file as it was read, before copies are made. Plain data.

use std::{collections::BTreeMap, sync::Arc};

use indexmap::IndexMap;
use minijinja::value::Value;

use super::at::At;
use crate::{
    Place, Slurm,
    expr::{Expr, Template},
    metrics::Metrics,
};

/// A workflow file, before copies are made.
#[derive(Clone, Debug, Default)]
pub(crate) struct File {
    pub(crate) name: String,
    pub(crate) title: BTreeMap<String, String>,
    pub(crate) params: IndexMap<String, (Value, At)>,
    pub(crate) profiles: Vec<Profile>,
    pub(crate) steps: Vec<RawStep>,
    pub(crate) publish: Vec<Entry>,
    pub(crate) policy: Option<String>,
    pub(crate) on: Option<Place>,
    pub(crate) slurm: Slurm,
}

#[derive(Clone, Debug)]
pub(crate) struct Profile {
    pub(crate) name: String,
    pub(crate) at: At,
    pub(crate) when: Option<When>,
    pub(crate) gpus: Option<u32>,
    pub(crate) params: IndexMap<String, (Value, At)>,
}

/// A condition, with its place.
#[derive(Clone, Debug)]
pub(crate) struct When {
    pub(crate) at: At,
    pub(crate) expr: Arc<Expr>,
}

/// An entry of `publish`.
#[derive(Clone, Debug)]
pub(crate) struct Entry {
    pub(crate) from: (String, At),
    pub(crate) to: Template,
    pub(crate) whats_new: bool,
}

/// A step as written.
#[derive(Clone, Debug)]
pub(crate) struct RawStep {
    pub(crate) name: String,
    pub(crate) at: At,
    /// Something in it is wrong; what follows from that is not said again.
    pub(crate) broken: bool,
    pub(crate) keys: IndexMap<&'static str, Part>,
}

/// The value of one key of a step.
#[derive(Clone, Debug)]
pub(crate) enum Part {
    Value(Template),
    With(Template, serde_json::Map<String, serde_json::Value>),
    Matrix(Vec<(Arc<str>, Template)>),
    When(When),
    Names(Vec<(String, At)>),
    Metrics(Metrics, At),
}

impl Part {
    /// Every expression in it, with its place.
    pub(crate) fn visit(&self, see: &mut dyn FnMut(&Expr, &At)) {
        match self {
            Part::Value(template) | Part::With(template, _) => template.visit(see),
            Part::Matrix(axes) => axes.iter().for_each(|(_, template)| template.visit(see)),
            Part::When(when) => see(&when.expr, &when.at),
            Part::Names(_) | Part::Metrics(..) => {}
        }
    }
}
