//! Every reason in every language: no words of another language, no gap, and no reason is forgotten.

use std::{collections::BTreeSet, io};

use crate::common::{add_table, input, result, run, text, view};
use flow_core::Outcome;
use flow_core::reason::{Cause, Disturbance, Fault, ProfileReason, StoreAction, StoreFault, Texts};
use flow_report::Words;
use schemars::JsonSchema;
use serde::{Serialize, de::DeserializeOwned};
use serde_json::{Map, Value, json};

/// Stands for every text by somebody else.
const THEIRS: &str = "其文";

/// One value of each variant, and of each variant of the parts, made from the schema, so that none can be forgotten.
fn all<T: JsonSchema + DeserializeOwned>() -> Vec<T> {
    let settings = schemars::generate::SchemaSettings::draft2020_12();
    let schema = settings.into_generator().into_root_schema_for::<T>().to_value();
    let made = values(&schema, &schema, &[]);
    made.into_iter()
        .map(|value| serde_json::from_value(value.clone()).unwrap_or_else(|e| panic!("{value}: {e}")))
        .collect()
}

/// `within` lists the enclosing types. A reason inside a reason is tested once, as one without further reasons in it.
fn values(schema: &Value, root: &Value, within: &[&str]) -> Vec<Value> {
    if let Some(name) = schema["$ref"].as_str() {
        let target = root.pointer(name.trim_start_matches('#')).expect("a reference within the schema");
        if !within.contains(&name) {
            return values(target, root, &[within, &[name]].concat());
        }
        let options = target.get("anyOf").or_else(|| target.get("oneOf")).and_then(Value::as_array);
        let flat = options.into_iter().flatten().find(|option| !option.to_string().contains("$ref"));
        return flat.map(|option| values(option, root, within)).unwrap_or_default();
    }
    if let Some(value) = schema.get("const") {
        return vec![value.clone()];
    }
    for several in ["oneOf", "anyOf"] {
        if let Some(options) = schema[several].as_array() {
            return options.iter().flat_map(|option| values(option, root, within)).collect();
        }
    }
    if let Some(options) = schema["enum"].as_array() {
        return options.clone();
    }
    let types = match &schema["type"] {
        Value::Array(types) => types.clone(),
        one => vec![one.clone()],
    };
    types.iter().flat_map(|kind| of_type(kind.as_str().unwrap_or_default(), schema, root, within)).collect()
}

fn of_type(kind: &str, schema: &Value, root: &Value, within: &[&str]) -> Vec<Value> {
    match kind {
        "string" => vec![json!(THEIRS)],
        "integer" => vec![json!(3)],
        "array" => vec![Value::Array(values(&schema["items"], root, within))],
        "boolean" => vec![json!(true), json!(false)],
        "null" => vec![Value::Null],
        "object" => objects(schema, root, within),
        other => panic!("no value of type {other:?}: {schema}"),
    }
}

/// Objects that contain each value of each field at least once.
fn objects(schema: &Value, root: &Value, within: &[&str]) -> Vec<Value> {
    let fields: Vec<(&String, Vec<Value>)> = schema["properties"]
        .as_object()
        .into_iter()
        .flatten()
        .map(|(name, schema)| (name, values(schema, root, within)))
        .collect();
    let required = schema["required"].as_array().into_iter().flatten();
    if required.into_iter().any(|name| fields.iter().any(|(field, values)| *field == name && values.is_empty())) {
        return Vec::new();
    }
    let most = fields.iter().map(|(_, values)| values.len()).max().unwrap_or(1);
    let object = |n: usize| {
        let pick = |(name, values): &(&String, Vec<Value>)| {
            Some(((*name).clone(), values.get(n % values.len().max(1))?.clone()))
        };
        Value::Object(fields.iter().filter_map(pick).collect::<Map<_, _>>())
    };
    (0..most).map(object).collect()
}

/// Two or more English words in a row, outside of code.
fn english(text: &str) -> Option<String> {
    let outside: String = text.split('`').step_by(2).collect::<Vec<_>>().join(" · ");
    let words: Vec<&str> = outside.split(|c: char| c.is_whitespace()).collect();
    let word = |text: &&str| text.len() > 1 && text.chars().all(|c| c.is_ascii_lowercase());
    words.windows(2).find(|pair| pair.iter().all(word)).map(|pair| pair.join(" "))
}

fn chinese(text: &str) -> bool {
    text.chars().any(|c| ('\u{4e00}'..='\u{9fff}').contains(&c))
}

/// Whether a reason contains an error with its own form.
fn holds_error(reason: &impl Serialize) -> bool {
    fn holds(value: &Value, key: &str) -> bool {
        let Value::Object(fields) = value else { return false };
        ["error", "trouble"].contains(&key) || fields.iter().any(|(key, value)| holds(value, key))
    }
    holds(&serde_json::to_value(reason).expect("JSON"), "")
}

/// An error is read back with the same words, although its JSON does not contain the kind of error.
#[test]
fn every_error_comes_back_as_what_it_was() {
    let all = all::<Fault>();
    assert!(all.len() > 180, "{}", all.len());
    for fault in all {
        let json = serde_json::to_value(&fault).expect("JSON");
        assert_eq!(serde_json::from_value::<Fault>(json.clone()).ok(), Some(fault), "{json}");
    }
    let earlier: Cause =
        serde_json::from_value(json!({"kind": "no_input", "error": "gone"})).expect("an earlier flow's");
    assert_eq!(earlier, Cause::NoInput { error: "gone".into() });
}

#[test]
fn what_the_system_says_is_chinese_where_it_is_common() {
    let words = Words::new();
    let said = |code: i32| {
        let error = Fault::from(&io::Error::from_raw_os_error(code));
        words.plain_reasons("zh").cause(&Cause::NoInput { error })
    };
    assert_eq!(said(28), "输入无法读取：磁盘空间已满");
    for code in [1, 2, 5, 12, 13, 20, 21, 24, 28, 30, 32, 39, 40, 122] {
        assert_eq!(english(&said(code)), None, "{code}");
    }
    assert_eq!(said(117), "输入无法读取：系统报告“Structure needs cleaning (os error 117)”");
}

#[test]
fn each_thing_that_the_store_cannot_do_has_words_of_its_own() {
    let words = Words::new();
    let say = |fault: &Fault| words.plain_reasons("zh").cause(&Cause::NotStored { error: fault.clone() });
    let refused = |which| StoreFault::StoreRefused { which, path: THEIRS.into(), error: Box::new(THEIRS.into()) };
    let none = say(&refused(StoreAction::Other).into());
    let all = all::<StoreAction>();
    assert!(all.len() >= 30, "{all:?}");
    let said: BTreeSet<String> = all.iter().map(|which| say(&refused(*which).into())).collect();
    assert_eq!(said.len(), all.len(), "some have the same words, {none} perhaps: {said:?}");
    // From another version of flow.
    let other = json!({"kind": "store_refused", "which": "fold", "path": "a", "error": "gone"});
    let fault: Fault = serde_json::from_value(other).expect("an error");
    assert_eq!(fault.to_string(), "cannot handle `a`: gone");
}

#[test]
fn every_reason_has_words_in_every_language() {
    let words = Words::new();
    let (causes, disturbed, profiles) = (all::<Cause>(), all::<Disturbance>(), all::<ProfileReason>());
    assert!(causes.len() > 70 && disturbed.len() > 6, "{} causes, {} disturbed", causes.len(), disturbed.len());
    let say = |lang| {
        let reasons = words.plain_reasons(lang);
        let causes = causes.iter().map(move |cause| (holds_error(cause), reasons.cause(cause)));
        causes
            .chain(disturbed.iter().map(move |why| (holds_error(why), reasons.disturbed(why))))
            .chain(profiles.iter().map(move |why| (false, reasons.profile(why))))
    };
    for ((error, en), (_, zh)) in say("en").zip(say("zh")) {
        assert!(!en.contains('⟨') && !zh.contains('⟨'), "{en} / {zh}");
        assert_eq!(english(&zh), None, "{en} / {zh}");
        assert!(chinese(&zh), "{en} / {zh}");
        let theirs = |text: &str| text.matches(THEIRS).count();
        // One language may name a part of an error twice where the other names it once.
        assert!(error || theirs(&en) == theirs(&zh), "{en} / {zh}");
        assert!(!zh.contains("{$") && !chinese(&en.replace(THEIRS, "")), "{en} / {zh}");
    }
}

#[test]
fn a_chinese_report_has_no_english_sentence_whatever_happened() {
    // An error has the same words everywhere, so each is shown under one cause, and each cause with one error.
    let shown = |cause: &Cause| matches!(cause, Cause::NoInput { .. }) || !holds_error(cause);
    let causes: Vec<Cause> = all().into_iter().filter(shown).collect();
    assert!(causes.len() < 1_100, "{}", causes.len());
    let disturbed = all::<Disturbance>();
    for (n, pair) in causes.chunks(2).enumerate() {
        let mut absent = view("torch/train", None, vec![]);
        absent.absent = Some(pair[0].clone());
        let mut skipped = result("skipped", &[("batch", json!(1))], 0);
        (skipped.outcome, skipped.cause) = (Outcome::Skipped, Some(pair[pair.len() - 1].clone()));
        let mut bad = result("bad", &[("batch", json!(1))], 0);
        bad.disturbances = vec![disturbed[n % disturbed.len()].clone()];
        let mut input = input(vec![
            ("absent", absent),
            ("skipped", view("torch/train", None, vec![skipped])),
            ("bad", view("torch/train", None, vec![bad])),
        ]);
        for from in ["absent", "skipped", "bad"] {
            let with = json!({"from": from, "rows": "batch", "columns": ["epoch_time"]});
            add_table(&mut input, &format!("{from}_table"), with);
        }
        let sections = ["absent_table", "skipped_table", "bad_table"].map(|table| json!({"table": table}));
        let report = run("report", json!({"languages": ["zh"], "sections": sections}), &input).expect("a report");
        let report = text(&report, "report.md");
        assert_eq!(english(&report), None, "{pair:?}\n{report}");
    }
}

/// Every text except tags can be reached, so that secrets in it can be hidden.
#[test]
fn every_text_of_a_reason_is_looked_at() {
    fn strings(value: &Value, key: &str, found: &mut Vec<String>) {
        match value {
            // Tags, and names by flow.
            Value::String(_) if ["kind", "outcome", "memory", "verdict", "which"].contains(&key) => {}
            Value::String(text) => found.push(text.clone()),
            Value::Array(all) => all.iter().for_each(|one| strings(one, key, found)),
            Value::Object(map) => map.iter().for_each(|(key, one)| strings(one, key, found)),
            _ => {}
        }
    }
    fn check<T: Texts + Serialize>(mut reason: T) {
        reason.texts(&mut |text| *text = "***".to_owned());
        let mut found = Vec::new();
        strings(&serde_json::to_value(&reason).expect("JSON"), "", &mut found);
        assert!(found.iter().all(|text| text == "***"), "{found:?}");
    }
    all::<Cause>().into_iter().for_each(check);
    all::<Disturbance>().into_iter().for_each(check);
}
