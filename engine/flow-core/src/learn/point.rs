//! Points that people ask about: a step's own instances, or what they would be elsewhere.

use std::{collections::BTreeSet, sync::Arc};

use serde_json::Value;

use crate::{Expansion, Instance, nearest};

/// The instances of a step, or points that it does not have: `solo`, `solo[batch=16]`, `solo/batch=48`.
///
/// # Errors
/// There is no such step or axis. The error is a sentence.
pub fn points(expansion: &Expansion, point: &str) -> Result<Vec<Instance>, String> {
    let (name, axes) = match point.trim_end_matches(']').split_once(['/', '[']) {
        Some((name, axes)) => (name, axes),
        None => (point, ""),
    };
    let step = expansion.steps.iter().find(|step| step.name == name).ok_or_else(|| {
        let near = nearest(name, expansion.steps.iter().map(|step| &*step.name));
        let near = near.map(|near| format!("; did you mean `{near}`?")).unwrap_or_default();
        format!("the workflow has no step `{name}`{near}")
    })?;
    let instances = &expansion.instances[step.instances.start as usize..step.instances.end as usize];
    let mut points = instances.to_vec();
    for pair in axes.split(',').filter(|pair| !pair.trim().is_empty()) {
        let (axis, value) = pair
            .split_once('=')
            .ok_or_else(|| format!("`{pair}` is not a point; expected AXIS=VALUE, as in `{name}/batch=48`"))?;
        let (axis, value) = (axis.trim(), value.trim());
        let known: BTreeSet<&String> = instances.iter().flat_map(|instance| instance.axes.keys()).collect();
        if !known.iter().any(|known| *known == axis) {
            let known: Vec<&str> = known.into_iter().map(|axis| &**axis).collect();
            let has = if known.is_empty() { "it has none".to_owned() } else { format!("it has {}", known.join(", ")) };
            return Err(format!("step `{name}` has no axis `{axis}`; {has}"));
        }
        let value = serde_json::from_str(value).unwrap_or_else(|_| Value::String(value.to_owned()));
        off_scale(instances, axis, &value)?;
        // Where the point is one of the step's own, only those; else each of them, moved there.
        if points.iter().any(|instance| instance.axes.get(axis) == Some(&value)) {
            points.retain(|instance| instance.axes.get(axis) == Some(&value));
        } else {
            points.iter_mut().for_each(|instance| move_to(instance, name, axis, &value));
        }
    }
    let mut seen = BTreeSet::new();
    points.retain(|instance| seen.insert(instance.label.clone()));
    Ok(points)
}

/// An error if all values of an axis are numbers, or above 0, and this one is not.
fn off_scale(instances: &[Instance], axis: &str, value: &Value) -> Result<(), String> {
    let all = |is: fn(&Value) -> bool| instances.iter().filter_map(|instance| instance.axes.get(axis)).all(is);
    let is_above_0 = |value: &Value| value.as_f64().is_some_and(|number| number > 0.0);
    let is_below_0 = |value: &Value| value.as_f64().is_some_and(|number| number < 0.0);
    let have = match value {
        value if !value.is_number() && all(Value::is_number) => "numbers",
        value if !is_above_0(value) && all(is_above_0) => "above 0",
        value if is_below_0(value) && !instances.iter().filter_map(|one| one.axes.get(axis)).any(is_below_0) => {
            "0 or above"
        }
        _ => return Ok(()),
    };
    Err(format!("{axis}={value}: all values of `{axis}` in the workflow are {have}"))
}

/// The instance as it would be at another point.
fn move_to(instance: &mut Instance, step: &str, axis: &str, value: &Value) {
    let mut axes = (*instance.axes).clone();
    axes.insert(axis.to_owned(), value.clone());
    let word = |value: &Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    let words: Vec<String> = axes.iter().map(|(name, value)| format!("{name}={}", word(value))).collect();
    instance.label = format!("{step}[{}]", words.join(",")).into();
    instance.axes = Arc::new(axes);
}
