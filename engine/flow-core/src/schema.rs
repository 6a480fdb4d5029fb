//! The JSON Schema of a workflow file, made from the tables that the reader follows, for editors and for `flow schema`. Every
//! value that may hold expressions takes its type or a text with `${{ }}` in it.

use serde_json::{Map, Value, json};

use crate::spec::keys::{self, Key, Kind};

/// The schema, as JSON.
pub fn schema() -> Value {
    let mut schema = object(keys::FILE, &["flow", "steps"]);
    let more = json!({
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "A workflow of flow",
        "$defs": {
            "expression": {"type": "string", "pattern": r"\$\{\{[\s\S]*\}\}", "description": "A text with `${{ }}` in it."},
            "name": {"type": "string", "pattern": "^[a-z][a-z0-9_]*$"},
            "plain": {"not": {"$ref": "#/$defs/expression"}},
            "scalar": {"type": ["string", "number", "boolean"]},
            "size": {"type": "string", "pattern": r"^\s*[0-9]+(\.[0-9]*)?\s*[KMGTPE]?i?[Bb]?\s*$"},
            "duration": {"type": "string", "pattern": "^[0-9]"},
            "profile": object(keys::PROFILE, &[]),
            "step": step(),
            "publication": publication(),
        },
    });
    merge(&mut schema, more);
    schema
}

fn merge(schema: &mut Value, more: Value) {
    if let (Value::Object(schema), Value::Object(more)) = (schema, more) {
        schema.extend(more);
    }
}

fn object(keys: &[Key], required: &[&str]) -> Value {
    let properties: Map<String, Value> = keys.iter().map(|key| (key.name.to_owned(), property(key))).collect();
    json!({"type": "object", "additionalProperties": false, "required": required, "properties": properties})
}

fn step() -> Value {
    let mut step = object(keys::STEP, &[]);
    let one = json!({
        "anyOf": [{"required": ["uses"]}, {"required": ["run"]}, {"required": ["like"]}],
        "not": {"required": ["uses", "run"]},
    });
    merge(&mut step, one);
    step
}

fn publication() -> Value {
    let mut entry = object(keys::PUBLISH, &["from"]);
    merge(&mut entry, json!({"oneOf": [{"required": ["to"]}, {"required": ["whats_new"]}]}));
    entry
}

fn property(key: &Key) -> Value {
    let expressions = key.sees.is_some();
    // A member of a value with expressions may be one itself.
    let member =
        |schema: Value| if expressions { json!({"anyOf": [schema, {"$ref": "#/$defs/expression"}]}) } else { schema };
    let mut schema = match key.kind {
        Kind::Version => json!({"const": crate::spec::LANGUAGE}),
        Kind::Name => json!({"type": "string", "pattern": "^[A-Za-z0-9][A-Za-z0-9_.-]*$"}),
        Kind::Title => {
            json!({"anyOf": [{"type": "string"}, {"type": "object", "additionalProperties": {"type": "string"}}]})
        }
        Kind::Params => json!({"type": ["object", "null"], "propertyNames": {"$ref": "#/$defs/name"}}),
        Kind::Profiles => named("profile"),
        Kind::Steps => named("step"),
        Kind::Publish => json!({"type": "array", "items": {"$ref": "#/$defs/publication"}}),
        Kind::Policy => {
            let live = crate::sched::policy::POLICIES.iter().filter(|(_, make)| !make().preemptive());
            json!({"enum": live.map(|(name, _)| *name).collect::<Vec<_>>()})
        }
        Kind::Path | Kind::Command => json!({"type": "string", "minLength": 1}),
        Kind::Step => json!({"$ref": "#/$defs/name"}),
        Kind::Uses => json!({"type": "string", "pattern": "^[^/]+/[^/]+$"}),
        Kind::With => json!({"type": "object"}),
        Kind::Matrix => json!({
            "type": "object",
            "minProperties": 1,
            "propertyNames": {"$ref": "#/$defs/name"},
            "additionalProperties": member(json!({"type": "array", "minItems": 1})),
        }),
        Kind::StepList => {
            json!({"anyOf": [{"$ref": "#/$defs/name"}, {"type": "array", "items": {"$ref": "#/$defs/name"}}]})
        }
        // An expression with or without `${{ }}`.
        Kind::When => json!({"type": ["string", "boolean"]}),
        Kind::Inputs => {
            let path = json!({"anyOf": [
                {"type": "string", "minLength": 1},
                {"type": "object", "additionalProperties": false, "required": ["path"], "properties": {
                    "path": {"type": "string"}, "by": {"enum": ["content", "listing"]}}},
            ]});
            paths(member(path))
        }
        Kind::Outputs => paths(json!({"type": "string", "minLength": 1})),
        Kind::Metrics => json!({
            "type": "object",
            "additionalProperties": false,
            "oneOf": one_of_these(&["json", "jsonl", "csv", "stdout"]),
            "properties": {
                "json": {"type": "string"}, "jsonl": {"type": "string"}, "csv": {"type": "string"},
                "stdout": {"type": "string", "description": "`Epoch {epoch}: loss {train_loss}, acc {top1:%}`"},
                "required": {"type": "boolean", "description": "A step of which no number is found has failed."},
            },
        }),
        Kind::Count(least) => json!({"type": "integer", "minimum": least}),
        Kind::Integer => json!({"type": "integer"}),
        Kind::Size => json!({"$ref": "#/$defs/size"}),
        Kind::Duration => json!({"$ref": "#/$defs/duration"}),
        Kind::Exclusive => json!({"enum": [true, false, "gpu"]}),
        Kind::Corun => json!({
            "type": "object",
            "additionalProperties": false,
            "required": ["group"],
            "properties": {"group": {"$ref": "#/$defs/scalar"}, "gpus": member(json!({"enum": ["own", "shared"]}))},
        }),
        Kind::Bool => json!({"type": "boolean"}),
        Kind::Record => json!({"type": "array", "items": {"enum": ["out_of_memory", "timed_out", "does_not_fit"]}}),
        Kind::Env => json!({"type": "object", "additionalProperties": {"$ref": "#/$defs/scalar"}}),
        Kind::Secrets => json!({"type": "array", "items": {"type": "string"}}),
    };
    if crate::spec::part::nullable(key.kind) {
        schema = json!({"anyOf": [schema, {"type": "null"}]});
    }
    schema = member(schema);
    merge(&mut schema, json!({"description": key.about}));
    schema
}

fn one_of_these(keys: &[&str]) -> Value {
    keys.iter().map(|key| json!({"required": [key]})).collect()
}

fn named(what: &str) -> Value {
    json!({
        "type": "object",
        "propertyNames": {"$ref": "#/$defs/name"},
        "additionalProperties": {"$ref": format!("#/$defs/{what}")},
    })
}

fn paths(path: Value) -> Value {
    json!({"anyOf": [
        {"type": "array", "items": path},
        {"type": "object", "propertyNames": {"$ref": "#/$defs/name"}, "additionalProperties": path},
    ]})
}
