//! The catalogues agree: they have the same keys and the same variables, and Fluent can read every line.

use std::collections::{BTreeMap, BTreeSet};

use fluent_bundle::FluentResource;

use crate::words::LANGUAGES;

/// Prefix of the keys of errors. English has no such messages, because the values contain its words. A test of the
/// reasons checks that the others are complete.
const ERRORS: &str = "fault-";

fn catalogue(text: &str) -> BTreeMap<String, BTreeSet<String>> {
    let mut keys = BTreeMap::new();
    let mut key = String::new();
    for line in text.lines().filter(|l| !l.starts_with('#')) {
        if !line.starts_with([' ', '}'])
            && let Some((name, _)) = line.split_once(" =")
        {
            key = name.to_owned();
            assert!(keys.insert(key.clone(), BTreeSet::new()).is_none(), "`{key}` stands twice");
        }
        for (at, _) in line.match_indices("{ $") {
            let name: String = line[at + 3..].chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect();
            keys.entry(key.clone()).or_default().insert(name);
        }
    }
    keys
}

#[test]
fn catalogues_have_the_same_keys_and_variables() {
    let (first, text) = LANGUAGES[0];
    let mut errors: Option<BTreeMap<String, BTreeSet<String>>> = None;
    let expected = catalogue(text);
    assert_eq!(first, "en");
    for (lang, text) in LANGUAGES {
        if let Err((_, errors)) = FluentResource::try_new(text.to_owned()) {
            panic!("{lang}.ftl: {errors:?}");
        }
        let (of_errors, found): (BTreeMap<_, _>, BTreeMap<_, _>) =
            catalogue(text).into_iter().partition(|(key, _)| key.starts_with(ERRORS));
        if lang != first {
            assert_eq!(errors.get_or_insert_with(|| of_errors.clone()), &of_errors, "the errors in {lang}.ftl");
        }
        for (key, variables) in &expected {
            assert_eq!(found.get(key), Some(variables), "`{key}` in {lang}.ftl, against {first}.ftl");
        }
        assert_eq!(found.len(), expected.len(), "{lang}.ftl has keys of its own");
    }
}
