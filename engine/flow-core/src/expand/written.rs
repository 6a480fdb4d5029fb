//! The keys of a step as its author wrote them, for comparing two versions of a workflow.

use serde_json::{Map, Value as Json};

use super::Expansion;
use crate::{
    StepId,
    spec::raw::{Part, RawMatrix, RawPoint},
};

impl Expansion {
    /// The keys of a step with their values, expressions as text. Keys that `like` copies are included.
    pub fn written(&self, step: StepId) -> Map<String, Json> {
        let Some(step) = self.late.workflow.steps.get(step.index()) else { return Map::new() };
        let keys = step.parts.iter().filter(|(key, _)| *key != "like");
        keys.map(|(key, part)| (key.to_owned(), written(part))).collect()
    }
}

fn written(part: &Part) -> Json {
    match part {
        Part::Value(template) | Part::With(template, _) => template.node.written(),
        Part::Matrix(matrix) => axes(matrix),
        Part::When(when) => Json::from(&*when.expr.text),
        Part::Names(names) => match names.as_slice() {
            [(name, _)] => Json::from(name.as_str()),
            names => names.iter().map(|(name, _)| name.as_str()).collect(),
        },
        Part::Metrics(metrics, _) => {
            let mut value = metrics.value();
            // flow adds the reader's version, not the author.
            value.as_object_mut().map(|metrics| metrics.remove("reader"));
            value
        }
    }
}

fn axes(matrix: &RawMatrix) -> Json {
    let point = |point: &RawPoint| -> Json {
        point.iter().map(|(name, value)| (name.to_string(), value.node.written())).collect::<Map<_, _>>().into()
    };
    let mut all: Map<String, Json> =
        matrix.axes.iter().map(|(name, values)| (name.to_string(), values.node.written())).collect();
    for (key, points) in [("include", &matrix.include), ("exclude", &matrix.exclude)] {
        if !points.is_empty() {
            all.insert(key.to_owned(), points.iter().map(point).collect());
        }
    }
    all.into()
}
