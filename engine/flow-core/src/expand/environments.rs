//! Declared environments: where they are, and which of them an instance names. Looks at no files.

use std::{collections::BTreeMap, sync::Arc};

use minijinja::value::Value;

use crate::{
    DeclaredEnvironment, Diagnostic,
    paths::join,
    spec::{at::Problems, raw::RawEnvironment, read::report, step::Step, typed_value},
};

/// The declared environments by name. `folder` is that of the workflow.
pub(super) fn declared(
    raw: &[RawEnvironment],
    folder: &str,
    scope: &Value,
    problems: &mut Problems,
) -> BTreeMap<String, DeclaredEnvironment> {
    let mut found = BTreeMap::new();
    for RawEnvironment { name, provider, place, .. } in raw {
        let written = match place.eval(scope) {
            Ok(value) => typed_value::path(&value).map_err(|wrong| report(problems, &place.at, wrong)),
            Err(error) => {
                // A name that it cannot see is reported already.
                if !problems.0.iter().any(|known| known.at.segs() == place.at.segs()) {
                    error.report(place, problems);
                }
                Err(())
            }
        };
        // One without a sound path is declared anyway.
        let written = written.unwrap_or_default();
        let place = join(folder, &written);
        found.insert(name.clone(), DeclaredEnvironment { name: name.clone(), provider: *provider, written, place });
    }
    found
}

/// The environment that an instance names, if there is one of this name.
pub(super) fn known(
    name: Option<Arc<str>>,
    declared: &BTreeMap<String, DeclaredEnvironment>,
    step: &Step,
    problems: &mut Problems,
) -> Option<Arc<str>> {
    let name = name?;
    if declared.contains_key(&*name) {
        return Some(name);
    }
    let at = step.parts.value("environment").map_or_else(|| step.at.clone(), |template| template.at.clone());
    let what = Diagnostic::new(format!("there is no environment `{name}`"));
    let what = match declared.len() {
        0 => what.help(format!("declare it: `environments: {{{name}: {{prefix: .venv}}}}`")),
        _ => what.nearest(&name, declared.keys().map(String::as_str)),
    };
    problems.value(&at, what);
    None
}
