//! `docs/` says what the program does.

use std::fs;

use serde_json::Value;

use crate::space;

pub(crate) fn page(name: &str) -> String {
    fs::read_to_string(format!("{}/../../docs/{name}.md", env!("CARGO_MANIFEST_DIR"))).unwrap()
}

/// Where the schema has keys.
const PLACES: [&str; 5] = [
    "/properties",
    "/$defs/profile/properties",
    "/$defs/environment/properties",
    "/$defs/publication/properties",
    "/$defs/step/properties",
];

#[test]
fn every_key_stands_in_the_reference_with_its_meaning() {
    let (space, page) = (space(), page("language"));
    let schema: Value = serde_json::from_str(&space.flow(["schema"]).expect(0).stdout()).unwrap();
    let of = |path: &str| schema.pointer(path).and_then(Value::as_object).unwrap().clone();
    let keys: Vec<(String, Value)> = PLACES.into_iter().flat_map(of).collect();
    assert!(keys.len() > 30, "{keys:?}");
    for (key, of_it) in keys {
        // Lengths of time are not what a test compares: they stand as `TIME` in what it reads.
        let meaning = of_it["description"].as_str().unwrap().split("`TIME`").next().unwrap();
        let row = format!("| `{key}` | {meaning}");
        assert!(page.contains(&row), "there is no row `{row}`");
    }
}

/// The words between which a key of the schema lets one choose.
fn choices(schema: &Value, found: &mut Vec<String>) {
    match schema {
        Value::Object(fields) => {
            let all = fields.get("enum").and_then(Value::as_array).into_iter().flatten();
            found.extend(all.filter_map(Value::as_str).map(str::to_owned));
            fields.values().for_each(|field| choices(field, found));
        }
        Value::Array(items) => items.iter().for_each(|item| choices(item, found)),
        _ => {}
    }
}

#[test]
fn every_allowed_value_stands_in_the_reference() {
    let (space, page) = (space(), page("language"));
    let schema: Value = serde_json::from_str(&space.flow(["schema"]).expect(0).stdout()).unwrap();
    let mut found = Vec::new();
    for place in PLACES {
        choices(schema.pointer(place).unwrap(), &mut found);
    }
    assert!(found.len() > 15, "{found:?}");
    for value in found {
        assert!(page.contains(&format!("`{value}`")), "the value `{value}` is not there");
    }
}

#[test]
fn the_schema_knows_what_plugins_take() {
    let space = space();
    let with = "{type: object, properties: {batch: {type: integer, description: Images a step}}}";
    let manifest = format!(
        "plugin: 1\nname: demo\nversion: '1'\ncontent: [plugin.yaml]\nstart: [./x]\nsteps: {{one: {{with: {with}}}}}\n"
    );
    space.write("plugins/demo/plugin.yaml", &manifest);
    let schema: Value = serde_json::from_str(&space.flow(["schema"]).expect(0).stdout()).unwrap();
    let conditions = schema["$defs"]["step"]["allOf"].as_array().unwrap();
    let of = |uses: &str| conditions.iter().find(|one| one["if"]["properties"]["uses"]["const"] == uses);
    let batch = &of("demo/one").unwrap()["then"]["properties"]["with"]["properties"]["batch"];
    assert_eq!(batch["description"], "Images a step");
    assert!(of("flow/table").is_some() && of("flow/report").is_some() && of("flow/simulate").is_some());
}

#[test]
fn every_filter_and_test_stands_in_the_reference() {
    let (space, page) = (space(), page("language"));
    for (expression, what) in [("1 | qqqqqqqq", "filter"), ("1 is qqqqqqqq", "test")] {
        space.write("a.yaml", &format!("flow: 1\nsteps: {{a: {{run: \"echo ${{{{ {expression} }}}}\"}}}}\n"));
        let said = space.flow(["check", "a.yaml"]).expect(2).text();
        let names = said.split("there are ").nth(1).expect("a list").replace(['\n', '='], " ");
        let names: Vec<&str> = names.split([',', ' ']).filter(|name| !name.is_empty()).collect();
        let end = names.iter().position(|name| name.contains('.')).unwrap_or(names.len());
        assert!(end > 20, "{said}");
        for name in &names[..end] {
            let there = page.contains(&format!("`{name}`")) || page.contains(&format!("`{name}("));
            assert!(there, "the {what} `{name}` is not there");
        }
    }
}

const PLUGINS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../plugins");

#[test]
fn every_example_passes() {
    let space = space();
    std::fs::create_dir(space.path("birds")).unwrap();
    for file in [
        "train.py",
        "test.py",
        "train_keras.py",
        "train_lightning.py",
        "finetune.py",
        "fit.py",
        "compare.py",
        "data/a.txt",
        "resnet34.safetensors",
        "pack.py",
        "photos/a.jpg",
        ".venv/bin/python",
        "envs/torch211/pyproject.toml",
        "envs/torch211/uv.lock",
        "pytorch.sif",
    ] {
        space.write(file, "");
    }
    space.write("prepare.sh", "").write("train.sh", "");
    for (name, least) in [("language", 4), ("recipes", 4), ("slurm", 1)] {
        let page = page(name);
        let examples: Vec<&str> =
            page.split("```yaml\n").skip(1).map(|rest| rest.split("```").next().unwrap()).collect();
        assert!(examples.len() >= least, "{name}: {}", examples.len());
        for example in examples {
            space.write("a.yaml", example);
            space.flow(["check", "a.yaml", "--plugin-dir", PLUGINS]).expect(0);
        }
    }
}
