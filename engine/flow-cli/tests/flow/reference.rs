//! `docs/language.md` says what the program does.

use std::fs;

use serde_json::Value;

use crate::space;

fn page() -> String {
    fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/language.md")).unwrap()
}

#[test]
fn every_key_stands_in_the_reference_with_its_meaning() {
    let (space, page) = (space(), page());
    let schema: Value = serde_json::from_str(&space.flow(["schema"]).expect(0).stdout()).unwrap();
    let of = |path: &str| schema.pointer(path).and_then(Value::as_object).unwrap().clone();
    let places =
        ["/properties", "/$defs/profile/properties", "/$defs/publication/properties", "/$defs/step/properties"];
    let keys: Vec<(String, Value)> = places.into_iter().flat_map(of).collect();
    assert!(keys.len() > 30, "{keys:?}");
    for (key, of_it) in keys {
        let row = format!("| `{key}` | {} |", of_it["description"].as_str().unwrap());
        assert!(page.contains(&row), "there is no row `{row}`");
    }
}

#[test]
fn every_filter_and_test_stands_in_the_reference() {
    let (space, page) = (space(), page());
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

#[test]
fn every_example_of_the_reference_passes() {
    let (space, page) = (space(), page());
    space.write("train.py", "");
    let examples = page.split("```yaml\n").skip(1).map(|rest| rest.split("```").next().unwrap());
    let mut seen = 0;
    for example in examples {
        space.write("a.yaml", example);
        space.flow(["check", "a.yaml"]).expect(0);
        seen += 1;
    }
    assert!(seen >= 4, "{seen}");
}
