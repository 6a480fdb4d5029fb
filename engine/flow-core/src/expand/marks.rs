//! Marks in a step's schema in addition to types: which parameters are paths or names of steps, and defaults.

use serde_json::Value as Json;

use crate::spec::at::Seg;

/// The value of `x-flow` for a parameter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Mark {
    /// The name of a step.
    Step,
    /// A file or folder of the user.
    Path,
}

/// A segment of the path to a marked parameter.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum MarkSegment {
    Key(String),
    AnyKey,
    AnyItem,
}

/// Maximum depth of a schema; it may refer to itself.
const DEEP: usize = 12;

fn target<'a>(root: &'a Json, schema: &'a Json) -> &'a Json {
    let mut here = schema;
    for _ in 0..DEEP {
        match here.get("$ref").and_then(Json::as_str).and_then(|r| root.pointer(r.strip_prefix('#')?)) {
            Some(there) => here = there,
            None => break,
        }
    }
    here
}

/// Finds the marked parameters of a schema and their paths.
pub(super) fn find(
    root: &Json,
    schema: &Json,
    way: &mut Vec<MarkSegment>,
    marks: &mut Vec<(Vec<MarkSegment>, Mark)>,
    depth: usize,
) {
    if depth > DEEP {
        return;
    }
    for here in [schema, target(root, schema)] {
        let mark = match here.get("x-flow").and_then(Json::as_str) {
            Some("step") => Some(Mark::Step),
            Some("path") => Some(Mark::Path),
            _ => None,
        };
        if let Some(mark) = mark.filter(|mark| !marks.iter().any(|(w, m)| w == way && m == mark)) {
            marks.push((way.clone(), mark));
        }
    }
    let schema = target(root, schema);
    let mut below = |part: MarkSegment, schema: &Json, marks: &mut Vec<(Vec<MarkSegment>, Mark)>| {
        way.push(part);
        find(root, schema, way, marks, depth + 1);
        way.pop();
    };
    for (name, property) in schema.get("properties").and_then(Json::as_object).into_iter().flatten() {
        below(MarkSegment::Key(name.clone()), property, marks);
    }
    if let Some(items) = schema.get("items") {
        below(MarkSegment::AnyItem, items, marks);
    }
    if let Some(more) = schema.get("additionalProperties").filter(|m| m.is_object()) {
        below(MarkSegment::AnyKey, more, marks);
    }
    for word in ["anyOf", "oneOf", "allOf"] {
        for branch in schema.get(word).and_then(Json::as_array).into_iter().flatten() {
            find(root, branch, way, marks, depth + 1);
        }
    }
}

/// Visits the marked parameters that hold a text.
pub(super) fn walk(way: &[MarkSegment], value: &Json, path: &mut Vec<Seg>, see: &mut dyn FnMut(Vec<Seg>, &str)) {
    let Some((first, rest)) = way.split_first() else {
        if let Some(text) = value.as_str() {
            see(path.clone(), text);
        }
        return;
    };
    let mut below = |seg: Seg, value: &Json| {
        path.push(seg);
        walk(rest, value, path, see);
        path.pop();
    };
    match (first, value) {
        (MarkSegment::Key(name), Json::Object(map)) => {
            if let Some(value) = map.get(name) {
                below(Seg::Key(name.as_str().into()), value);
            }
        }
        (MarkSegment::AnyKey, Json::Object(map)) => map.iter().for_each(|(k, v)| below(Seg::Key(k.as_str().into()), v)),
        (MarkSegment::AnyItem, Json::Array(list)) => list.iter().enumerate().for_each(|(i, v)| below(Seg::Index(i), v)),
        _ => {}
    }
}

/// Sets parameters without a value to their default.
pub(super) fn fill(root: &Json, schema: &Json, value: &mut Json, depth: usize) {
    if depth > DEEP {
        return;
    }
    let schema = target(root, schema);
    match value {
        Json::Object(map) => {
            for (name, property) in schema.get("properties").and_then(Json::as_object).into_iter().flatten() {
                let default = property.get("default").or_else(|| target(root, property).get("default"));
                if let (false, Some(default)) = (map.contains_key(name), default) {
                    map.insert(name.clone(), default.clone());
                }
                if let Some(below) = map.get_mut(name) {
                    fill(root, property, below, depth + 1);
                }
            }
        }
        Json::Array(list) => {
            if let Some(items) = schema.get("items") {
                list.iter_mut().for_each(|item| fill(root, items, item, depth + 1));
            }
        }
        _ => {}
    }
}
