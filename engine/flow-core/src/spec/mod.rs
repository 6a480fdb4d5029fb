//! The workflow file as typed values: from text to [`Workflow`], with every error and its place. Does not know what plugins
//! there are or what the machine is.

pub(crate) mod at;
pub(crate) mod environments;
pub(crate) mod files;
pub(crate) mod hints;
mod include;
pub(crate) mod keys;
mod metrics;
mod names;
pub(crate) mod part;
pub(crate) mod raw;
pub(crate) mod read;
pub(crate) mod slurm;
mod spans;
pub(crate) mod step;
pub(crate) mod typed_value;
pub(crate) mod unread;
mod yaml;

pub(crate) use crate::expr::value::describe;

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use minijinja::value::Value;

use self::{
    at::{PlacePart, Problem, Problems, YamlPath},
    raw::{File, Part},
    step::{Action, Step},
};
use crate::{DeclaredEnvironment, Diagnostic, Input, Source, expr::Node};

/// The version of the language that this flow speaks.
pub(crate) const LANGUAGE: u64 = 1;

/// A workflow as written. Errors that leave the rest readable are kept. [`Workflow::expand`] returns them together with
/// its own, so the user sees all errors of a file at once.
#[derive(Clone, Debug)]
pub struct Workflow {
    /// Its own file, then those that it includes.
    pub(crate) sources: Arc<[Arc<Source>]>,
    pub(crate) file: Arc<File>,
    pub(crate) steps: Arc<Vec<Step>>,
    pub(crate) problems: Vec<Problem>,
}

/// Reads a workflow that includes no file.
///
/// # Errors
/// As [`parse_with`].
pub fn parse(source: &Source) -> Result<Workflow, Vec<Diagnostic>> {
    parse_with(source, &mut |path| Err(Diagnostic::new(format!("`{path}` cannot be included here"))))
}

/// Reads a workflow and the files that it includes. `read` returns the text of a file, or the reason why there is none.
/// Paths are relative to the same folder as the workflow's own path.
///
/// # Errors
/// Only if a text is unusable: invalid YAML, not a mapping, or written for a newer flow. All other errors are in [`Workflow::errors`].
pub fn parse_with(
    source: &Source,
    read: &mut dyn FnMut(&str) -> Result<String, Diagnostic>,
) -> Result<Workflow, Vec<Diagnostic>> {
    let mut problems = Problems::default();
    let (mut file, sources) = include::files(source, read, &mut problems)?;
    let mut steps = step::resolve(std::mem::take(&mut file.steps), &mut problems);
    names::check(&file, &mut steps, &mut problems);
    environments::check(&file, &mut steps, &mut problems);
    unread::check(&mut steps, &mut problems);
    Ok(Workflow { sources: sources.into(), file: Arc::new(file), steps: Arc::new(steps), problems: problems.0 })
}

/// The mapping that a file is.
fn document(source: &Source, root: &YamlPath, problems: &mut Problems) -> Result<serde_yaml::Value, Vec<Diagnostic>> {
    let (text, shift) = source.body();
    mapping(text, root, problems).map_err(|diagnostics| shifted(diagnostics, shift))
}

fn mapping(text: &str, root: &YamlPath, problems: &mut Problems) -> Result<serde_yaml::Value, Vec<Diagnostic>> {
    let yaml = parsed(text, root)?;
    if !yaml.is_mapping() {
        let what = match yaml {
            serde_yaml::Value::Null => Diagnostic::new("the file is empty"),
            _ => Diagnostic::new("the file is not a workflow").label("expected a mapping, `key: value`"),
        };
        return Err(fatal(text, what.help("`flow init` writes one to start from"), root));
    }
    match yaml.get("flow") {
        Some(version) if version.as_u64() == Some(LANGUAGE) => {}
        Some(version) if version.as_u64().is_some_and(|v| v > LANGUAGE) => {
            let asked = version.as_u64().unwrap_or_default();
            let what = Diagnostic::new(format!(
                "the file uses version {asked} of the language; this flow supports {LANGUAGE}"
            ));
            return Err(fatal(text, what.help("update flow"), &root.key("flow")));
        }
        Some(_) => problems
            .value(&root.key("flow"), Diagnostic::new("`flow` is the version of the language").label("expected 1")),
        None => problems.key(
            root,
            Diagnostic::new("the file does not give its version of the language").help("begin it with `flow: 1`"),
        ),
    }
    Ok(yaml)
}

/// The value of a YAML text, with its merges applied.
fn parsed(text: &str, root: &YamlPath) -> Result<serde_yaml::Value, Vec<Diagnostic>> {
    let mut yaml = serde_yaml::from_str(text).map_err(|e| {
        let repeated = if e.to_string().contains("duplicate entry") { spans::repeated(text) } else { Vec::new() };
        if repeated.is_empty() { hints::no_yaml(text, &e) } else { repeated }
    })?;
    yaml::merge(&mut yaml, root, 1).map_err(|wrong| fatal(text, wrong.1, &wrong.0))?;
    Ok(yaml)
}

/// The one error of a text of which nothing can be made.
fn fatal(text: &str, what: Diagnostic, at: &YamlPath) -> Vec<Diagnostic> {
    let mut problems = Problems::default();
    problems.value(at, what);
    spans::locate(text, problems.0)
}

/// Looks the places up: those of the workflow's own file first, then those of the files that it includes.
fn locate(sources: &[Arc<Source>], problems: Vec<Problem>) -> Vec<Diagnostic> {
    let mut of: Vec<Vec<Problem>> = sources.iter().map(|_| Vec::new()).collect();
    for problem in problems {
        of[problem.at.file()].push(problem);
    }
    let found = of.into_iter().zip(sources).enumerate().flat_map(|(file, (problems, source))| {
        let (text, shift) = source.body();
        let included = (file > 0).then(|| Arc::clone(source));
        let found = shifted(spans::locate(text, problems), shift);
        found.into_iter().map(move |what| Diagnostic { source: included.clone(), ..what })
    });
    found.collect()
}

fn shifted(mut diagnostics: Vec<Diagnostic>, by: usize) -> Vec<Diagnostic> {
    for span in diagnostics.iter_mut().filter_map(|d| d.span.as_mut()) {
        *span = span.start + by..span.end + by;
    }
    diagnostics
}

impl Workflow {
    pub fn name(&self) -> &str {
        &self.file.name
    }

    /// The variables of the shell that steps list under `env:`.
    pub fn shell_variables(&self) -> BTreeSet<String> {
        self.steps.iter().flat_map(step::from_shell).collect()
    }

    /// The workflow with the values of these variables, as if they were under `env:`. One that is not set is left out.
    pub fn with_variables(&self, value: impl Fn(&str) -> Option<String>) -> Workflow {
        let mut workflow = self.clone();
        for at in (0..self.steps.len()).filter(|at| !step::from_shell(&self.steps[*at]).is_empty()) {
            let names = step::from_shell(&self.steps[at]).into_iter();
            let set: BTreeMap<String, String> = names.filter_map(|name| Some((name.clone(), value(&name)?))).collect();
            if let Some(env) = Arc::make_mut(&mut workflow.steps)[at].parts.value_mut("env") {
                env.node = Node::Const(Value::from(set));
            }
        }
        workflow
    }

    /// The errors that the text alone shows. [`Workflow::expand`] returns these too.
    pub fn errors(&self) -> Vec<Diagnostic> {
        self.locate(self.problems.clone())
    }

    /// Things that are allowed but probably not meant: axes and parameters that nothing reads, numbers that lose their
    /// spelling.
    pub fn warnings(&self) -> Vec<Diagnostic> {
        let unread = unread::axes(self).into_iter().chain(unread::params(self));
        self.locate(unread.collect()).into_iter().chain(self.respelled()).collect()
    }

    /// One warning about all numbers that print in another way than they are written.
    fn respelled(&self) -> Option<Diagnostic> {
        /// A larger file was written by a program.
        const MAX_BYTES: usize = 1 << 20;
        const SHOWN: usize = 3;
        let numbers = unread::numbers(self);
        if numbers.is_empty() || self.sources().any(|source| source.text.len() > MAX_BYTES) {
            return None;
        }
        let spelled = |found: &Diagnostic| {
            let source = found.source.as_deref().unwrap_or(self.source());
            source.text.get(found.span.clone()?).map(str::to_owned)
        };
        let mut first = None;
        let mut told: Vec<String> = Vec::new();
        for found in self.locate(numbers) {
            let Some(spelled) = spelled(&found).filter(|spelled| unread::loses(spelled, &found.message)) else {
                continue;
            };
            let one = format!("`{spelled}` prints as {}", found.message);
            if !told.contains(&one) {
                told.push(one);
            }
            first.get_or_insert(found);
        }
        let more = told.len().saturating_sub(SHOWN);
        told.truncate(SHOWN);
        let more = if more > 0 { format!(", and {more} more") } else { String::new() };
        let what = Diagnostic::new(format!("{}{more}", told.join(", "))).help("quote it to keep the text");
        first.map(|first| Diagnostic { span: first.span, source: first.source, ..what })
    }

    /// The file it was read from.
    pub fn source(&self) -> &Source {
        &self.sources[0]
    }

    /// The workflow's own file, and those that it includes.
    pub fn sources(&self) -> impl Iterator<Item = &Source> {
        self.sources.iter().map(|source| &**source)
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
            let (at, on) =
                steps.get(step).map_or((YamlPath::root(), PlacePart::Nothing), |found| self::place(found, keys, text));
            Problem { at, on, what }
        };
        self.locate(all.into_iter().map(place).collect())
    }

    /// The diagnostics, each of a step and an input of it, with the place where that is written.
    pub fn about_inputs<'a>(&self, all: impl IntoIterator<Item = (&'a str, &'a Input, Diagnostic)>) -> Vec<Diagnostic> {
        let steps: BTreeMap<&str, &Step> = self.steps.iter().map(|step| (&*step.name, step)).collect();
        let place = |(step, input, what): (&str, &Input, Diagnostic)| {
            let Some(found) = steps.get(step) else {
                return Problem { at: YamlPath::root(), on: PlacePart::Nothing, what };
            };
            let parameter =
                input.name.as_deref().and_then(|name| name.strip_prefix("with.")).filter(|_| input.in_place);
            let (at, on) = self::place(found, if parameter.is_some() { &["with"] } else { &["inputs"] }, &input.path);
            let below = |at: YamlPath, part: &str| part.parse().map_or_else(|_| at.key(part), |index| at.index(index));
            Problem { at: parameter.into_iter().flat_map(|name| name.split('.')).fold(at, below), on, what }
        };
        self.locate(all.into_iter().map(place).collect())
    }

    /// The diagnostics, each of a declared environment, with its place.
    pub fn about_environments<'a>(
        &self,
        all: impl IntoIterator<Item = (&'a DeclaredEnvironment, Diagnostic)>,
    ) -> Vec<Diagnostic> {
        let mut problems = Problems::default();
        for (declared, what) in all {
            let raw = self.file.environments.iter().find(|raw| raw.name == declared.name);
            problems.value(raw.map_or(&YamlPath::root(), |raw| &raw.place.at), what);
        }
        self.locate(problems.0)
    }

    /// The diagnostic, with the place of a key of the workflow's own `slurm:`.
    pub fn about_slurm(&self, key: &str, what: Diagnostic) -> Vec<Diagnostic> {
        let mut problems = Problems::default();
        problems.value(&YamlPath::root().key("slurm").key(key), what);
        self.locate(problems.0)
    }

    pub(crate) fn locate(&self, problems: Vec<Problem>) -> Vec<Diagnostic> {
        locate(&self.sources, problems)
    }
}

/// The place of a text in the first of these keys that a step has.
fn place(step: &Step, keys: &[&str], text: &str) -> (YamlPath, PlacePart) {
    let mut parts = keys.iter().filter_map(|key| step.parts.get(key));
    match parts.next() {
        Some(Part::Value(value) | Part::With(value, _)) => (value.at.clone(), PlacePart::Text(text.to_owned())),
        _ => (step.at.clone(), PlacePart::Key),
    }
}

/// Lists and mappings in one another.
const DEEPEST: usize = 64;

fn too_deep() -> String {
    format!("more than {DEEPEST} lists and mappings are nested here")
}
