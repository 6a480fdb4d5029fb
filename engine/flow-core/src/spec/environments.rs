//! `environments:` of a workflow file: its entries as written, and the check of `required`.

use serde_yaml::Value as Yaml;

use super::{
    at::{Problems, YamlPath},
    keys,
    raw::{File, RawEnvironment},
    read::Reader,
    step::{Action, Step},
    typed_value,
};
use crate::{Diagnostic, EnvironmentProvider, expr::Template};

/// The name under `environments:` that is no environment.
pub(crate) const REQUIRED: &str = "required";

impl Reader<'_> {
    pub(super) fn environments(&mut self, yaml: &Yaml, at: &YamlPath, file: &mut File) {
        for (name, value, at) in self.mapping(yaml, at, "`environments`") {
            if name == REQUIRED {
                file.environment_required = self.value(value, &at, REQUIRED, typed_value::boolean).unwrap_or_default();
            } else if self.name(&name, &at, "an environment") {
                let environment = self.environment(name.into_owned(), value, &at);
                file.environments.extend(environment);
            }
        }
    }

    fn environment(&mut self, name: String, yaml: &Yaml, at: &YamlPath) -> Option<RawEnvironment> {
        let before = self.problems.0.len();
        let mut found = Vec::new();
        for (key, value, at) in self.entries(yaml, at, keys::ENVIRONMENT, "an environment") {
            let place = Template::parse(value, &at, self.problems);
            if let Some(value) = place.as_const() {
                self.typed(&at, typed_value::path(value));
            }
            let provider = EnvironmentProvider::ALL.iter().find(|(known, _)| *known == key.name);
            found.extend(provider.map(|(_, provider)| (*provider, place)));
        }
        match found.pop() {
            Some((provider, place)) if found.is_empty() => {
                Some(RawEnvironment { name, at: at.clone(), provider, place })
            }
            _ if self.problems.0.len() > before => None,
            one => {
                let what = if one.is_some() { "more than one source" } else { "no source" };
                let what = Diagnostic::new(format!("the environment `{name}` has {what}"));
                self.problems
                    .key(at, what.label("expected one of `uv: FOLDER`, `prefix: FOLDER` and `apptainer: FILE`"));
                None
            }
        }
    }
}

/// Checks that every command has an environment, if the file requires it.
pub(crate) fn check(file: &File, steps: &mut [Step], problems: &mut Problems) {
    for step in steps.iter_mut().filter(|step| file.environment_required && matches!(step.action, Action::Run(_))) {
        let named = step.parts.value("environment").map(Template::as_const);
        if named.is_none_or(|value| value.is_some_and(|value| value.is_none())) {
            let what = Diagnostic::new(format!("`{}` has no `environment`", step.name));
            problems.key(&step.at, what.help("`environments` has `required: true`, so every `run` names one"));
            step.sound = false;
        }
    }
}
