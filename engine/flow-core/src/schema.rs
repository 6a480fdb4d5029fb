//! The JSON Schema of a workflow file, for editors and for `flow schema`. It is made from the tables that the reader
//! uses. Every value that may hold expressions accepts its type or a text with `${{ }}` in it.

use serde_json::{Map, Value, json};

use crate::{
    CatalogueStep,
    shell::Shell,
    spec::{
        environments::REQUIRED,
        keys::{self, Key, Kind},
        slurm,
    },
};

/// The schema, as JSON.
pub fn schema() -> Value {
    // An included file need not have steps.
    let more = json!({
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "A workflow of flow",
        "$defs": {
            "expression": {"type": "string", "pattern": r"\$\{\{[\s\S]*\}\}", "description": "A text with `${{ }}` in it."},
            "name": {"type": "string", "pattern": "^[a-z][a-z0-9_]*$"},
            "points": {"type": "array", "items": {"type": "object", "minProperties": 1, "propertyNames": {"$ref": "#/$defs/name"}}},
            "plain": {"not": {"$ref": "#/$defs/expression"}},
            "scalar": {"type": ["string", "number", "boolean"]},
            "size": {"type": "string", "pattern": r"^\s*[0-9]+(\.[0-9]*)?\s*[KMGTPE]?i?[Bb]?\s*$"},
            "duration": {"type": "string", "pattern": "^[0-9]"},
            "profile": object(keys::PROFILE, &[]),
            "environment": environment(),
            "step": step(),
            "publication": publication(),
        },
    });
    with(object(keys::FILE, &["flow"]), more)
}

/// The same, with the schemas of `with:` for these steps, by their names in `uses:`.
pub fn schema_with<'a>(steps: impl IntoIterator<Item = (String, &'a CatalogueStep)>) -> Value {
    let mut schema = schema();
    let (mut known, mut conditions) = (Vec::new(), Vec::new());
    for (uses, provided) in steps {
        let own = format!("{}.", uses.replace('/', "."));
        let mut with = provided.with.clone();
        adapt(&mut with, &own);
        if let Value::Object(with) = &mut with {
            with.remove("$schema");
            let defs = ["$defs", "definitions"].into_iter().filter_map(|key| with.remove(key)).collect::<Vec<_>>();
            for (name, def) in defs.into_iter().filter_map(|defs| defs.as_object().cloned()).flatten() {
                schema["$defs"][format!("{own}{name}")] = def;
            }
        }
        known.push(json!({"const": uses, "description": provided.about}));
        conditions.push(json!({
            "if": {"required": ["uses"], "properties": {"uses": {"const": uses}}},
            "then": {"properties": {"with": with}},
        }));
    }
    let step = &mut schema["$defs"]["step"];
    if !conditions.is_empty() {
        let other = step["properties"]["uses"].clone();
        step["properties"]["uses"] = json!({"description": other["description"], "anyOf": [{"oneOf": known}, other]});
        step["allOf"] = conditions.into();
    }
    schema
}

/// Turns a schema of values into one of what is written for them: every value may also be a text with an expression. The
/// step's name becomes a prefix of its definitions, so that they cannot collide with others.
fn adapt(schema: &mut Value, own: &str) {
    let Value::Object(schema) = schema else { return };
    if let Some(Value::String(to)) = schema.get_mut("$ref") {
        for defs in ["#/$defs/", "#/definitions/"] {
            if let Some(name) = to.strip_prefix(defs) {
                *to = format!("#/$defs/{own}{name}");
            }
        }
    }
    // An expression may match several forms, so more than one of them may accept it.
    if let Some(forms) = schema.remove("oneOf") {
        schema.entry("anyOf").or_insert(forms);
    }
    for (key, below) in schema.iter_mut() {
        match (&**key, below) {
            ("properties" | "patternProperties", Value::Object(values)) => {
                values.values_mut().for_each(|value| or_expression(value, own));
            }
            ("items" | "additionalProperties", value) => or_expression(value, own),
            ("prefixItems", Value::Array(values)) => values.iter_mut().for_each(|value| or_expression(value, own)),
            ("$defs" | "definitions", Value::Object(defs)) => defs.values_mut().for_each(|def| adapt(def, own)),
            ("anyOf" | "allOf", Value::Array(forms)) => forms.iter_mut().for_each(|form| adapt(form, own)),
            _ => {}
        }
    }
}

fn or_expression(schema: &mut Value, own: &str) {
    adapt(schema, own);
    if !schema.is_object() {
        return;
    }
    let told = ["description", "default"].map(|key| (key, schema.get(key).cloned()));
    let mut either = json!({"anyOf": [schema.take(), {"$ref": "#/$defs/expression"}]});
    told.into_iter().filter_map(|(key, value)| Some((key, value?))).for_each(|(key, value)| either[key] = value);
    *schema = either;
}

fn with(mut schema: Value, more: Value) -> Value {
    if let (Value::Object(schema), Value::Object(more)) = (&mut schema, more) {
        schema.extend(more);
    }
    schema
}

fn object(keys: &[Key], required: &[&str]) -> Value {
    let properties: Map<String, Value> = keys.iter().map(|key| (key.name.to_owned(), property(key))).collect();
    json!({"type": "object", "additionalProperties": false, "required": required, "properties": properties})
}

fn step() -> Value {
    let one = json!({
        "anyOf": [{"required": ["uses"]}, {"required": ["run"]}, {"required": ["like"]}],
        "not": {"required": ["uses", "run"]},
    });
    with(object(keys::STEP, &[]), one)
}

fn environment() -> Value {
    with(object(keys::ENVIRONMENT, &[]), json!({"minProperties": 1, "maxProperties": 1}))
}

fn publication() -> Value {
    with(object(keys::PUBLISH, &["from"]), json!({"oneOf": [{"required": ["to"]}, {"required": ["whats_new"]}]}))
}

fn property(key: &Key) -> Value {
    let expressions = key.sees.is_some();
    // A member of a value with expressions may itself be one.
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
        Kind::Environments => with(named("environment"), json!({"properties": {REQUIRED: {"type": "boolean"}}})),
        Kind::Environment => json!({"type": "string"}),
        Kind::Include => {
            let file = json!({"type": "string", "minLength": 1});
            json!({"anyOf": [file, {"type": "array", "items": file}]})
        }
        Kind::Publish => json!({"type": "array", "items": {"$ref": "#/$defs/publication"}}),
        Kind::Policy => {
            let live = crate::sched::policy::POLICIES.iter().filter(|(_, make)| !make().preemptive());
            json!({"enum": live.map(|(name, _)| *name).collect::<Vec<_>>()})
        }
        Kind::Shell => json!({"enum": Shell::ALL.map(|(name, _)| name)}),
        Kind::On => json!({"enum": crate::Place::ALL.map(|(name, _)| name)}),
        Kind::Slurm(whole) => slurm(whole, member),
        Kind::Path | Kind::Folder | Kind::Command => json!({"type": "string", "minLength": 1}),
        Kind::Step => json!({"$ref": "#/$defs/name"}),
        Kind::Uses => json!({"type": "string", "pattern": "^[^/]+/[^/]+$"}),
        Kind::With => json!({"type": "object"}),
        Kind::Matrix => json!({
            "type": "object",
            "minProperties": 1,
            "propertyNames": {"$ref": "#/$defs/name"},
            "properties": {"include": {"$ref": "#/$defs/points"}, "exclude": {"$ref": "#/$defs/points"}},
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
                    "path": {"type": "string"}, "by": {"enum": ["content", "listing"]}, "copy": {"type": "boolean"}}},
            ]});
            // A path as the name is the place of an output of another step.
            let mut inputs = paths(member(path));
            inputs["anyOf"][1]["propertyNames"] = json!({"minLength": 1});
            inputs
        }
        Kind::Outputs => paths(json!({"type": "string", "minLength": 1})),
        Kind::Metrics => metrics(),
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
        Kind::Repeat => json!({"anyOf": [
            {"type": "integer", "minimum": 1},
            {
                "type": "object",
                "additionalProperties": false,
                "required": ["until"],
                "properties": {
                    "until": member(json!({"const": "decided"})),
                    "at_most": member(json!({"type": "integer", "minimum": 1})),
                },
            },
        ]}),
        Kind::Bool => json!({"type": "boolean"}),
        Kind::Record => json!({"type": "array", "items": {"enum": ["out_of_memory", "timed_out", "does_not_fit"]}}),
        Kind::Env => json!({"anyOf": [
            {"type": "object", "additionalProperties": {"$ref": "#/$defs/scalar"}},
            {"type": "array", "items": {"type": "string"}},
        ]}),
        Kind::Secrets => json!({"type": "array", "items": {"type": "string"}}),
    };
    if crate::spec::part::nullable(key.kind) {
        schema = json!({"anyOf": [schema, {"type": "null"}]});
    }
    with(member(schema), json!({"description": key.about}))
}

/// `slurm:` of a workflow (`whole`) or of a step.
fn slurm(whole: bool, member: impl Fn(Value) -> Value) -> Value {
    let property = |key: &str| match key {
        "time" | "poll" => json!({"$ref": "#/$defs/duration"}),
        "options" => json!({"type": "array", "items": {"type": "string", "pattern": "^--"}}),
        "jobs" => json!({"type": "integer", "minimum": 1}),
        "shared" | "flow" => json!({"type": "string"}),
        _ => json!({"$ref": "#/$defs/scalar"}),
    };
    let keys: &[&str] = if whole { &slurm::KEYS } else { &slurm::JOB_KEYS };
    let properties: Map<String, Value> = keys.iter().map(|key| ((*key).to_owned(), member(property(key)))).collect();
    json!({"type": "object", "additionalProperties": false, "properties": properties})
}

fn metrics() -> Value {
    let places = ["stdout", "json", "jsonl", "csv", "tensorboard"];
    let place = |about: &str| {
        let texts = json!([{"type": "string"}, {"type": "array", "minItems": 1, "items": {"type": "string"}}]);
        json!({"anyOf": texts, "description": about})
    };
    json!({
        "type": "object",
        "additionalProperties": false,
        "anyOf": places.iter().map(|key| json!({"required": [key]})).collect::<Value>(),
        "properties": {
            "stdout": place("`Epoch {epoch}: loss {train_loss}, acc {top1:%}`; several patterns as a list."),
            "json": place("A file: an object of numbers, or a list of them."),
            "jsonl": place("A file with one object of numbers per line."),
            "csv": place("A file with a header."),
            "tensorboard": place("A folder with event files."),
            "summary": {
                "type": "object",
                "additionalProperties": {"type": "string", "pattern": r"^\s*(last|min|max|best|at\s+(min|max|best)\s+\S+)\s*$"},
                "description": "Which value of a metric counts: `last`, `min`, `max`, `best`, `at max val_acc`.",
            },
            "required": {"type": "boolean", "description": "A step without any number fails."},
        },
    })
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
