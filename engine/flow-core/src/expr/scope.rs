//! The names that an expression sees: parameters and axes by bare name, `params`, `machine`, `inputs` and `steps`.
//! `steps` has the results of those instances of other steps that match the current instance.

use std::{
    collections::BTreeSet,
    sync::{Arc, Mutex, PoisonError},
};

use minijinja::value::{Enumerator, Object, ObjectRepr, Serde, Value};

use super::faults::refused;
use crate::{Digest, LateResult, Link, Outcome, Output, Render, reason::ExprFault};

/// The names that an expression sees.
#[derive(Clone, Debug, Default)]
pub(crate) struct Scope {
    /// Parameters, both bare and as `params.NAME`.
    pub(crate) params: Option<Value>,
    pub(crate) machine: Option<Value>,
    pub(crate) axes: Vec<(Arc<str>, Value)>,
    pub(crate) inputs: Option<Value>,
    /// Every step that the expressions of an instance name.
    pub(crate) steps: Option<Value>,
    /// `seed`, unless a parameter or an axis has that name.
    pub(crate) seed: Option<u64>,
}

impl Object for Scope {
    fn get_value(self: &Arc<Self>, key: &Value) -> Option<Value> {
        let key = key.as_str()?;
        if let Some((_, value)) = self.axes.iter().find(|(name, _)| **name == *key) {
            return Some(value.clone());
        }
        match key {
            "params" => self.params.clone(),
            "machine" => self.machine.clone(),
            "inputs" => self.inputs.clone(),
            "steps" => self.steps.clone(),
            _ => {
                let param = self.params.as_ref().and_then(|p| p.get_attr(key).ok()).filter(|v| !v.is_undefined());
                param.or_else(|| (key == "seed").then(|| self.seed.map(Value::from)).flatten())
            }
        }
    }
}

/// One instance of another step, as an expression sees it.
#[derive(Clone, Debug)]
pub(crate) struct Item {
    /// `solo[version=v7]`.
    pub(crate) label: Arc<str>,
    /// The folder of its artifacts in the work folder: `in/solo`, or `in/solo/version=v7` if the step has several.
    pub(crate) place: Arc<str>,
    /// Its declared outputs. Below `place`, each artifact has the path of its output.
    pub(crate) declared: Arc<[Output]>,
    /// Its point of the matrix.
    pub(crate) axes: Value,
    /// Its result; none where it was skipped.
    pub(crate) result: LateResult,
    pub(crate) render: Render,
    /// The artifacts that were read, so that these and no others appear in the work folder.
    pub(crate) links: Arc<Mutex<BTreeSet<Link>>>,
}

/// Names of what [`Item`] has.
pub(crate) const ITEM_FIELDS: [&str; 7] = ["axes", "outcome", "out", "outputs", "metrics", "usage", "circumstances"];

impl Item {
    fn outcome(&self) -> Outcome {
        self.result.get().map_or(Outcome::Skipped, |r| r.outcome)
    }

    fn artifact(&self, name: &str, digest: Digest) -> Value {
        let output = self.declared.iter().find(|output| output.name == name);
        let path = format!("{}/{}", self.place, output.map_or(name, |output| &output.path));
        // What only counts the artifacts, say, has them in its folder all the same.
        let link = Link { path: path.clone(), digest };
        self.links.lock().unwrap_or_else(PoisonError::into_inner).insert(link);
        match self.render {
            Render::Digests => Value::from(digest.to_string()),
            Render::Paths => Value::from(path),
        }
    }

    fn without_output(&self) -> Value {
        wrong(ExprFault::EndedWithoutOutput { label: self.label.to_string(), outcome: self.outcome() })
    }

    fn without_metrics(&self) -> Value {
        wrong(ExprFault::EndedWithoutMetrics { label: self.label.to_string(), outcome: self.outcome() })
    }

    fn out(&self) -> Value {
        let Some(result) = self.result.get() else { return self.without_output() };
        match result.outputs.len() {
            0 if result.outcome == Outcome::Ok => wrong(ExprFault::DeclaresNoOutputs { label: self.label.to_string() }),
            0 => self.without_output(),
            1 => result.outputs.first().map_or(Value::UNDEFINED, |(n, a)| self.artifact(n, a.digest)),
            _ => {
                let outputs = result.outputs.keys().cloned().collect();
                wrong(ExprFault::SeveralOutputs { label: self.label.to_string(), outputs })
            }
        }
    }

    fn output(&self, name: &str) -> Value {
        let Some(result) = self.result.get() else { return self.without_output() };
        let (label, output) = (self.label.to_string(), name.to_owned());
        match result.outputs.get(name) {
            Some(artifact) => self.artifact(name, artifact.digest),
            None if result.outcome != Outcome::Ok => {
                wrong(ExprFault::EndedWithoutThisOutput { label, outcome: self.outcome(), output })
            }
            None => wrong(ExprFault::NoSuchOutput { label, output }),
        }
    }

    fn metric(&self, name: &str) -> Value {
        let Some(result) = self.result.get() else { return self.without_metrics() };
        match result.metrics.get(name) {
            // A whole number is written as one: `gzip -9`, not `gzip -9.0`.
            Some(metric) => whole(metric.value).map_or(Value::from(metric.value), Value::from),
            None if result.metrics.is_empty() && result.outcome != Outcome::Ok => self.without_metrics(),
            None => {
                let (label, metric) = (self.label.to_string(), name.to_owned());
                wrong(match crate::nearest(name, result.metrics.keys().map(String::as_str)) {
                    Some(near) => ExprFault::MetricMisspelt { label, metric, near: near.to_owned() },
                    None => {
                        ExprFault::NoSuchMetric { label, metric, metrics: result.metrics.keys().cloned().collect() }
                    }
                })
            }
        }
    }
}

/// A value that is an error as soon as anything is done with it.
fn wrong(fault: ExprFault) -> Value {
    Value::from(refused(fault))
}

impl Object for Item {
    fn get_value(self: &Arc<Self>, key: &Value) -> Option<Value> {
        Some(match key.as_str()? {
            "axes" => self.axes.clone(),
            "outcome" => Value::from(Serde(self.outcome())),
            "out" => self.out(),
            "outputs" => Value::from_object(Outputs(self.clone())),
            "metrics" => Value::from_object(Metrics(self.clone())),
            "usage" => Value::from(Serde(self.result.get().map(|r| &r.usage))),
            "circumstances" => Value::from(Serde(self.result.get().map(|r| &r.circumstances))),
            _ => return None,
        })
    }

    fn enumerate(self: &Arc<Self>) -> Enumerator {
        // A list is read whole even where members failed; what these do not have is left out.
        let has_out = self.result.get().is_some_and(|r| r.outputs.len() == 1);
        let has_result = self.result.get().is_some();
        Enumerator::Values(
            ITEM_FIELDS
                .into_iter()
                .filter(|field| match *field {
                    "out" => has_out,
                    "usage" | "circumstances" => has_result,
                    _ => true,
                })
                .map(Value::from)
                .collect(),
        )
    }
}

#[derive(Debug)]
struct Outputs(Arc<Item>);

impl Object for Outputs {
    fn get_value(self: &Arc<Self>, key: &Value) -> Option<Value> {
        Some(self.0.output(key.as_str()?))
    }

    fn enumerate(self: &Arc<Self>) -> Enumerator {
        let names = self.0.result.get().into_iter().flat_map(|r| r.outputs.keys()).map(|k| Value::from(k.as_str()));
        Enumerator::Values(names.collect())
    }
}

/// The metrics of an instance, by name.
#[derive(Debug)]
pub(super) struct Metrics(Arc<Item>);

impl Object for Metrics {
    fn get_value(self: &Arc<Self>, key: &Value) -> Option<Value> {
        Some(self.0.metric(key.as_str()?))
    }

    fn enumerate(self: &Arc<Self>) -> Enumerator {
        let names = self.0.result.get().into_iter().flat_map(|r| r.metrics.keys()).map(|k| Value::from(k.as_str()));
        Enumerator::Values(names.collect())
    }
}

/// `steps.NAME`: a list of instances that, where it has just one member, has that member's fields as well.
#[derive(Debug)]
pub(crate) struct Items {
    pub(crate) step: Arc<str>,
    pub(crate) items: Vec<Arc<Item>>,
}

impl Items {
    /// The same list with these members only.
    pub(super) fn narrowed(&self, kept: &[Value]) -> Items {
        Items { step: self.step.clone(), items: kept.iter().filter_map(Value::downcast_object::<Item>).collect() }
    }
}

impl Object for Items {
    fn repr(self: &Arc<Self>) -> ObjectRepr {
        ObjectRepr::Seq
    }

    fn get_value(self: &Arc<Self>, key: &Value) -> Option<Value> {
        let Some(name) = key.as_str() else {
            return self.items.get(key.as_usize()?).map(|item| Value::from_dyn_object(item.clone()));
        };
        match &self.items[..] {
            [item] => item.get_value(key),
            _ if !ITEM_FIELDS.contains(&name) => None,
            [] => Some(wrong(ExprFault::NoneIsLeft { step: self.step.to_string(), key: format!(".{name}") })),
            [first, ..] => {
                let axis = first.axes.try_iter().ok().and_then(|mut keys| keys.next());
                let axis = axis.map_or_else(|| "axis".to_owned(), |axis| axis.to_string());
                Some(wrong(ExprFault::WantsOne {
                    step: self.step.to_string(),
                    key: format!(".{name}"),
                    count: self.items.len() as u64,
                    example: format!("(steps.{} | where({axis}=…)).{name}", self.step),
                }))
            }
        }
    }

    fn enumerate(self: &Arc<Self>) -> Enumerator {
        Enumerator::Seq(self.items.len())
    }
}

/// The integer that a number is, if it is one that a program holds exactly: `1e5` is 100000, and so is `1e6 / 10`.
pub(crate) fn whole(number: f64) -> Option<i64> {
    (number.fract() == 0.0 && number.abs() < 9e15).then_some(number as i64)
}
