//! The workflow file as typed values: from text to [`Workflow`], with every error and its place. Does not know what plugins
//! there are or what the machine is.

pub(crate) mod at;
mod hints;
pub(crate) mod keys;
mod names;
pub(crate) mod part;
pub(crate) mod raw;
pub(crate) mod read;
mod spans;
pub(crate) mod step;
pub(crate) mod typed;
mod yaml;

pub(crate) use crate::expr::value::describe;

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use self::{
    at::{At, On, Problem, Problems},
    raw::{File, Part},
    read::Reader,
    step::{Action, Step},
};
use crate::Diagnostic;

/// The version of the language that this flow speaks.
pub(crate) const LANGUAGE: u64 = 1;

/// The text of a workflow and the name it has for people.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Source {
    /// The file as the user named it, for messages.
    pub path: String,
    /// Its content.
    pub text: String,
}

/// A workflow as written. Errors that leave something to go on with are kept, and come back from
/// [`Workflow::expand`] together with what expansion finds, so that all errors of a file are told in one go.
#[derive(Clone, Debug)]
pub struct Workflow {
    pub(crate) source: Arc<Source>,
    pub(crate) file: Arc<File>,
    pub(crate) steps: Arc<[Step]>,
    pub(crate) problems: Vec<Problem>,
}

/// Reads a workflow.
///
/// # Errors
/// Only where nothing can be made of the text: it is no YAML, no mapping, or written for a newer flow. Everything else that
/// is wrong waits in [`Workflow::errors`].
pub fn parse(source: &Source) -> Result<Workflow, Vec<Diagnostic>> {
    let text = source.text.strip_prefix('\u{feff}').unwrap_or(&source.text);
    let shift = source.text.len() - text.len();
    read(source, text).map_err(|mut diagnostics| {
        for span in diagnostics.iter_mut().filter_map(|d| d.span.as_mut()) {
            *span = span.start + shift..span.end + shift;
        }
        diagnostics
    })
}

fn read(source: &Source, text: &str) -> Result<Workflow, Vec<Diagnostic>> {
    let mut problems = Problems::default();
    let mut yaml = yaml::read(text, &mut problems).map_err(|e| hints::no_yaml(text, e.index, &e.message))?;
    for place in hints::full_width_commas(text) {
        let what = Diagnostic::new("this is one text, not several values");
        problems.add(&At::root(), On::Bytes(place), what);
    }
    let fatal = |what: Diagnostic, at: &At| {
        let mut problems = Problems::default();
        problems.value(at, what);
        spans::locate(text, problems.0)
    };
    if let Some(at) = yaml::deep(&yaml) {
        return Err(fatal(Diagnostic::new(too_deep()).help("write what is deeper into a file of its own"), &at));
    }
    if let Some(at) = yaml::no_merge(&yaml) {
        let what = Diagnostic::new("`<<` takes over the keys of a mapping, and this is none");
        return Err(fatal(what.help("`<<: *name` copies a mapping that begins with `&name`"), &at));
    }
    yaml.apply_merge().map_err(|e| hints::no_yaml(text, None, &e.to_string()))?;
    if !yaml.is_mapping() {
        let what = match yaml {
            serde_yaml::Value::Null => Diagnostic::new("the file is empty"),
            _ => Diagnostic::new("the file is no workflow").label("expected a mapping, `key: value`"),
        };
        return Err(fatal(what.help("`flow init` writes one to start from"), &At::root()));
    }
    match yaml.get("flow") {
        Some(version) if version.as_u64() == Some(LANGUAGE) => {}
        Some(version) if version.as_u64().is_some_and(|v| v > LANGUAGE) => {
            let asked = version.as_u64().unwrap_or_default();
            let what = Diagnostic::new(format!(
                "the file is written in version {asked} of the language; this flow speaks {LANGUAGE}"
            ));
            return Err(fatal(what.help("update flow"), &At::root().key("flow")));
        }
        Some(_) => problems.value(
            &At::root().key("flow"),
            Diagnostic::new("`flow` is the version of the language").label("expected 1"),
        ),
        None => problems.key(
            &At::root(),
            Diagnostic::new("the file does not say which version of the language it is in")
                .help("begin it with `flow: 1`"),
        ),
    }
    let stem = source.path.rsplit('/').next().unwrap_or("").trim_end_matches(".yaml").trim_end_matches(".yml");
    let mut file = Reader { problems: &mut problems }.file(&yaml, stem);
    let mut steps = step::resolve(std::mem::take(&mut file.steps), &mut problems);
    names::check(&file, &mut steps, &mut problems);
    Ok(Workflow { source: Arc::new(source.clone()), file: Arc::new(file), steps: steps.into(), problems: problems.0 })
}

impl Workflow {
    pub fn name(&self) -> &str {
        &self.file.name
    }

    /// What is wrong as far as the text alone tells; [`Workflow::expand`] returns these too.
    pub fn errors(&self) -> Vec<Diagnostic> {
        self.locate(self.problems.clone())
    }

    /// The text it was read from.
    pub fn source(&self) -> &Source {
        &self.source
    }

    /// Names of the plugins that it uses, sorted.
    pub fn plugins(&self) -> BTreeSet<&str> {
        self.steps
            .iter()
            .filter_map(|step| match &step.action {
                Action::Uses { plugin, .. } if plugin != "flow" => Some(plugin.as_str()),
                _ => None,
            })
            .collect()
    }

    /// The diagnostics, each of a step and a text, with the place of the text in the first of these keys that the step has,
    /// its own or copied.
    pub fn about<'a>(
        &self,
        keys: &[&str],
        all: impl IntoIterator<Item = (&'a str, &'a str, Diagnostic)>,
    ) -> Vec<Diagnostic> {
        let steps: BTreeMap<&str, &Step> = self.steps.iter().map(|step| (&*step.name, step)).collect();
        let place = |(step, text, what): (&str, &str, Diagnostic)| {
            let (at, on) = steps.get(step).map_or((At::root(), On::Nothing), |found| self::place(found, keys, text));
            Problem { at, on, what }
        };
        self.locate(all.into_iter().map(place).collect())
    }

    pub(crate) fn locate(&self, problems: Vec<Problem>) -> Vec<Diagnostic> {
        let text = self.source.text.strip_prefix('\u{feff}').unwrap_or(&self.source.text);
        let shift = self.source.text.len() - text.len();
        let mut found = spans::locate(text, problems);
        for span in found.iter_mut().filter_map(|d| d.span.as_mut()) {
            *span = span.start + shift..span.end + shift;
        }
        found
    }
}

/// Where a text stands in the first of these keys that a step has.
fn place(step: &Step, keys: &[&str], text: &str) -> (At, On) {
    let mut parts = keys.iter().filter_map(|key| step.parts.iter().find(|(name, _)| name == key));
    match parts.next() {
        Some((_, Part::Value(value) | Part::With(value, _))) => (value.at.clone(), On::Text(text.to_owned())),
        _ => (step.at.clone(), On::Key),
    }
}

/// Lists and mappings in one another.
const DEEPEST: usize = 64;

/// In words.
fn too_deep() -> String {
    format!("more than {DEEPEST} lists and mappings stand in one another here")
}
