//! `flow schema` and the reader, which must not drift apart.

use std::{collections::BTreeMap, fs, path::Path};

use flow_core::{CatalogueStep, Diagnostic, Source, parse, parse_with, schema, schema_with};
use serde_json::{Value, json};

/// The keys of a step as people are told them.
const KEYS: [&str; 30] = [
    "uses",
    "run",
    "shell",
    "with",
    "like",
    "matrix",
    "needs",
    "when",
    "inputs",
    "outputs",
    "metrics",
    "gpus",
    "gpu_memory",
    "cpus",
    "memory",
    "exclusive",
    "corun",
    "measured",
    "repeat",
    "seed",
    "record",
    "timeout",
    "retries",
    "resume",
    "priority",
    "on",
    "slurm",
    "env",
    "environment",
    "secrets",
];

fn validator() -> jsonschema::Validator {
    jsonschema::validator_for(&schema()).expect("a schema")
}

fn yaml_of(text: &str) -> serde_yaml::Value {
    serde_yaml::from_str(text).expect("YAML")
}

fn yaml(text: &str) -> Value {
    let mut yaml = yaml_of(text);
    yaml.apply_merge().expect("merge keys");
    serde_json::to_value(yaml).expect("JSON")
}

#[test]
fn every_key_is_in_both() {
    let schema = schema();
    let mut known: Vec<&str> =
        schema["$defs"]["step"]["properties"].as_object().expect("steps").keys().map(String::as_str).collect();
    known.sort_unstable();
    let mut keys = KEYS;
    keys.sort_unstable();
    assert_eq!(known, keys);
}

/// What one side takes the other takes, and what it refuses the other refuses.
#[test]
fn schema_and_reader_agree() {
    let validator = validator();
    for (step, good) in [
        ("run: x", true),
        ("run: [x]", false),
        ("{run: x, shell: sh}", true),
        ("{run: x, shell: zsh}", false),
        ("uses: a/b", true),
        ("uses: a", false),
        ("{uses: a/b, run: x}", false),
        ("{gpus: 1}", false),
        ("{run: x, gpus: 1}", true),
        ("{run: x, environment: null}", true),
        ("{run: x, environment: [lab]}", false),
        ("{run: x, gpus: '${{ 1 + 1 }}'}", true),
        ("{run: x, gpus: two}", false),
        ("{run: x, gpus: -1}", false),
        ("{run: x, gpu_memory: 4GiB, memory: 1.5 GB}", true),
        ("{run: x, gpu_memory: 4}", false),
        ("{run: x, gpu_memory: null}", true),
        ("{run: x, timeout: 2h 30m}", true),
        ("{run: x, timeout: 90}", false),
        ("{run: x, exclusive: gpu}", true),
        ("{run: x, exclusive: cpu}", false),
        ("{run: x, corun: {group: all}}", true),
        ("{run: x, corun: {group: all, gpus: shared}}", true),
        ("{run: x, corun: {group: all, gpus: both}}", false),
        ("{run: x, corun: all}", false),
        ("{run: x, matrix: {a: [1]}}", true),
        ("{run: x, matrix: {a: '${{ [1] }}'}}", true),
        ("{run: x, matrix: {a: []}}", false),
        ("{run: x, matrix: {a: 1}}", false),
        ("{run: x, matrix: {a: [1], include: [{a: 2}, {b: '${{ 3 }}'}], exclude: [{a: 1}]}}", true),
        ("{run: x, matrix: {a: [1], include: {a: 2}}}", false),
        ("{run: x, matrix: {a: [1], exclude: [1]}}", false),
        ("{run: x, inputs: [a, {path: b, by: listing}]}", true),
        ("{run: x, inputs: {a: b}}", true),
        ("{run: x, inputs: a}", false),
        ("{run: x, inputs: [{path: b, by: name}]}", false),
        ("{run: x, outputs: [a]}", true),
        ("{run: x, outputs: {A: a}}", false),
        ("{run: x, metrics: {json: a}}", true),
        ("{run: x, metrics: {xml: a}}", false),
        ("{run: x, metrics: {json: a, required: true}}", true),
        ("{run: x, metrics: {json: a, required: 'yes'}}", false),
        ("{run: x, metrics: {json: a, csv: [b, c], stdout: ['Epoch {epoch}', 'loss {loss}']}}", true),
        ("{run: x, metrics: {tensorboard: runs, summary: {loss: min, acc: at min loss}}}", true),
        ("{run: x, metrics: {csv: a, summary: {loss: bst}}}", false),
        ("{run: x, metrics: {csv: a, summary: min}}", false),
        ("{run: x, metrics: {json: [1]}}", false),
        ("{run: x, metrics: {summary: {loss: min}}}", false),
        ("{run: x, metrics: {required: true}}", false),
        ("{run: x, record: [timed_out]}", true),
        ("{run: x, record: [failed]}", false),
        ("{run: x, needs: []}", true),
        ("{run: x, measured: 'yes'}", false),
        ("{run: x, env: {A: 1, B: '${{ 2 }}'}}", true),
        ("{run: x, env: [A]}", true),
        ("{run: x, env: [1]}", false),
        ("{run: x, env: A}", false),
        ("{run: x, secrets: [TOKEN]}", true),
        ("{run: x, secrets: TOKEN}", false),
        ("{run: x, repeat: 3, seed: 1, retries: 2, resume: false, priority: -1, cpus: 2, measured: true}", true),
        ("{run: x, repeat: 0}", false),
        ("{run: x, when: machine.gpus == 0}", true),
        ("{run: x, on: slurm, slurm: {partition: gpu, time: 2h, gpu_type: a100, options: [--qos=long]}}", true),
        ("{run: x, on: cluster}", false),
        ("{run: x, slurm: {poll: 1s}}", false),
        ("{run: x, slurm: {gpu_type: '${{ 1 }}'}}", true),
        ("{run: x, slurm: {time: 90}}", false),
        ("{run: x, slurm: {options: [gres=gpu]}}", false),
        ("{run: x, frob: 1}", false),
    ] {
        let text = format!(
            "{{flow: 1, steps: {{s: {}}}}}",
            if step.starts_with('{') { step.to_owned() } else { format!("{{{step}}}") }
        );
        let source = Source { path: "t.yaml".into(), text: text.clone() };
        let read = parse(&source).expect("YAML").errors();
        assert_eq!(read.is_empty(), good, "the reader on {step}: {read:?}");
        assert_eq!(validator.is_valid(&yaml(&text)), good, "the schema on {step}");
    }
    assert!(!validator.is_valid(&json!({"flow": 2, "steps": {}})));
}

/// An editor completes and checks `with:` too, by what `uses:` names.
#[test]
fn what_a_step_takes_is_in_the_schema() {
    let with = json!({
        "type": "object",
        "additionalProperties": false,
        "required": ["data"],
        "properties": {
            "data": {"type": "string", "x-flow": "path"},
            "model": {"enum": ["resnet18", "resnet50"], "default": "resnet18", "description": "The network"},
            "batches": {"type": "array", "items": {"type": "integer", "minimum": 1}},
            "augment": {"$ref": "#/$defs/augment"},
        },
        "$defs": {"augment": {"oneOf": [
            {"type": "object", "additionalProperties": false, "properties": {"flip": {"type": "boolean"}}},
            {"type": "object", "additionalProperties": false, "properties": {"crop": {"type": "number"}}},
        ]}},
    });
    let (train, other) = (
        CatalogueStep { with, ..CatalogueStep::default() },
        CatalogueStep { with: json!({"type": "object"}), ..CatalogueStep::default() },
    );
    let schema = schema_with([("torch/train".to_owned(), &train), ("flow/table".to_owned(), &other)]);
    let validator = jsonschema::validator_for(&schema).expect("a schema");
    for (step, good) in [
        ("{uses: torch/train, with: {data: x}}", true),
        (
            "{uses: torch/train, with: {data: x, model: resnet50, batches: [1, '${{ n }}'], augment: {flip: true}}}",
            true,
        ),
        (
            "{uses: torch/train, with: {data: x, model: '${{ model }}', batches: '${{ all }}', augment: {crop: '${{ c }}'}}}",
            true,
        ),
        ("{uses: torch/train, with: {model: resnet50}}", false),
        ("{uses: torch/train, with: {data: x, model: resnet51}}", false),
        ("{uses: torch/train, with: {data: x, batches: [0]}}", false),
        ("{uses: torch/train, with: {data: x, augment: {flop: true}}}", false),
        ("{uses: torch/train, with: {data: x, modle: resnet50}}", false),
        ("{uses: flow/table, with: {modle: resnet50}}", true),
        ("{uses: else/where, with: {modle: resnet50}}", true),
        ("{uses: torch, with: {data: x}}", false),
        ("{like: s, with: {modle: x}}", true),
    ] {
        assert_eq!(validator.is_valid(&yaml(&format!("{{flow: 1, steps: {{s: {step}}}}}"))), good, "{step}");
    }
    let model = &schema["$defs"]["step"]["allOf"][0]["then"]["properties"]["with"]["properties"]["model"];
    assert_eq!((&model["description"], &model["default"]), (&json!("The network"), &json!("resnet18")));
}

/// Everything that the repository shows to people is in the language.
#[test]
#[expect(clippy::disallowed_methods, reason = "the test looks for workflows in the repository")]
fn every_workflow_here_is_valid() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mut provided: Vec<(String, CatalogueStep)> = Vec::new();
    for plugin in ["images", "torch"] {
        let manifest = fs::read_to_string(root.join(format!("plugins/{plugin}/plugin.yaml"))).expect("a plugin");
        let steps = serde_yaml::from_value(yaml_of(&manifest)["steps"].clone());
        let steps: BTreeMap<String, CatalogueStep> = steps.expect("steps");
        provided.extend(steps.into_iter().map(|(step, provided)| (format!("{plugin}/{step}"), provided)));
    }
    let steps = provided.iter().map(|(uses, provided)| (uses.clone(), provided));
    let validator = jsonschema::validator_for(&schema_with(steps)).expect("a schema");
    let mut seen = 0;
    let mut folders = vec![root.join("workflows"), root.join("examples")];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
            let path = entry.path();
            if path.is_dir() {
                folders.push(path);
                continue;
            }
            let yaml_file = path.extension().is_some_and(|e| e == "yaml" || e == "yml");
            let text = if yaml_file { fs::read_to_string(&path).expect("a file") } else { continue };
            if !text.lines().any(|line| line.starts_with("flow:")) {
                continue;
            }
            seen += 1;
            let errors: Vec<String> =
                validator.iter_errors(&yaml(&text)).map(|e| format!("{}: {e}", e.instance_path())).collect();
            assert!(errors.is_empty(), "{}: {errors:#?}", path.display());
            if path.parent().is_some_and(|folder| folder.ends_with("parts")) {
                continue;
            }
            let source = Source { path: path.display().to_string(), text };
            let mut read = |path: &str| fs::read_to_string(path).map_err(|e| Diagnostic::new(format!("{path}: {e}")));
            let errors = parse_with(&source, &mut read).expect("YAML").errors();
            assert!(errors.is_empty(), "{}: {errors:#?}", path.display());
        }
    }
    assert!(seen > 0);
}
