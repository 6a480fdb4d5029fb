//! The files of a workflow, each read once, and their parts merged. An included file comes before the file that
//! includes it. No name is in two files.

use std::sync::Arc;

use indexmap::map;
use serde_yaml::Value as Yaml;

use super::{
    at::{PlacePart, Problem, Problems, YamlPath},
    document, locate,
    raw::File,
    read::Reader,
};
use crate::{Diagnostic, Source, paths::normal};

/// More of them are a mistake.
const MOST: usize = 100;

/// Merges the workflow's own file and all that it includes; returns the result and the texts.
///
/// # Errors
/// One of the texts is unreadable, or one of the files is missing. Names that a missing file would define are not reported as unknown.
pub(super) fn files(
    source: &Source,
    read: &mut dyn FnMut(&str) -> Result<String, Diagnostic>,
    problems: &mut Problems,
) -> Result<(File, Vec<Arc<Source>>), Vec<Diagnostic>> {
    let sources = vec![Arc::new(source.clone())];
    let mut all = Files { sources, read, problems, chain: Vec::new(), read_in: Vec::new(), incomplete: false };
    all.load(0)?;
    let Files { sources, read_in, problems, incomplete, .. } = all;
    if incomplete {
        return Err(locate(&sources, std::mem::take(&mut problems.0)));
    }
    let stem = source.path.rsplit('/').next().unwrap_or("").trim_end_matches(".yaml").trim_end_matches(".yml");
    let mut whole = File::default();
    for (file, yaml) in read_in {
        let part = Reader { problems }.file(&yaml, &YamlPath::of(file), stem);
        whole = merged(whole, part, &sources, problems);
    }
    if whole.steps.is_empty() && problems.0.is_empty() {
        problems.key(&YamlPath::root(), Diagnostic::new("neither the file nor what it includes has `steps`"));
    }
    Ok((whole, sources))
}

struct Files<'a> {
    sources: Vec<Arc<Source>>,
    read: &'a mut dyn FnMut(&str) -> Result<String, Diagnostic>,
    problems: &'a mut Problems,
    /// From the workflow's own file down to the one at hand: where each includes the next.
    chain: Vec<YamlPath>,
    /// The files that were read, included ones first.
    read_in: Vec<(usize, Yaml)>,
    /// Something that is to be included is not.
    incomplete: bool,
}

impl Files<'_> {
    /// Reads a file and, before it counts, what it includes.
    fn load(&mut self, file: usize) -> Result<(), Vec<Diagnostic>> {
        let source = Arc::clone(&self.sources[file]);
        let included = (file > 0).then(|| Arc::clone(&source));
        let yaml = document(&source, &YamlPath::of(file), self.problems).map_err(|found| {
            let of = |what| Diagnostic { source: included.clone(), ..what };
            found.into_iter().map(of).collect::<Vec<_>>()
        })?;
        for (path, at) in self.includes(&yaml, &YamlPath::of(file).key("include")) {
            let path = match source.path.rsplit_once('/') {
                Some((folder, _)) => normal(&format!("{folder}/{path}")),
                None => normal(&path),
            };
            match self.sources.iter().position(|known| normal(&known.path) == path) {
                Some(known) => self.cycle(known, &at),
                None if self.sources.len() == MOST => {
                    self.problems.value(&at, Diagnostic::new(format!("the workflow has more than {MOST} files")));
                }
                None => match (self.read)(&path) {
                    Err(why) => {
                        self.incomplete = true;
                        self.problems.value(&at, why);
                    }
                    Ok(text) => {
                        self.sources.push(Arc::new(Source { path, text }));
                        self.chain.push(at);
                        self.load(self.sources.len() - 1)?;
                        self.chain.pop();
                    }
                },
            }
        }
        self.read_in.push((file, yaml));
        Ok(())
    }

    /// The paths that a file names, with their places.
    fn includes(&mut self, yaml: &Yaml, at: &YamlPath) -> Vec<(String, YamlPath)> {
        let Some(value) = yaml.get("include") else { return Vec::new() };
        let mut reader = Reader { problems: self.problems };
        let Some(value) = reader.plain(value, at, "include") else { return Vec::new() };
        let paths = reader.one_or_several(&value, at, "a file, or a list of files").unwrap_or_default();
        let (good, bad): (Vec<_>, Vec<_>) =
            paths.into_iter().partition(|(path, _)| !path.is_empty() && !path.starts_with('/'));
        for (path, at) in bad {
            let what = Diagnostic::new(format!("`{path}` is not a path relative to the folder of this file"));
            self.problems.value(&at, what.label("expected such as `common.yaml` or `../common.yaml`"));
        }
        good
    }

    /// A file that is known already is not read again. One that is still being read includes itself, through those behind it.
    fn cycle(&mut self, known: usize, at: &YamlPath) {
        let whole = || self.chain.iter().chain([at]);
        let Some(from) = whole().position(|at| at.file() == known) else { return };
        self.incomplete = true;
        let mut way: Vec<String> = whole().skip(from).map(|at| place(&self.sources, at)).collect();
        way.push(self.sources[known].path.clone());
        let what = Diagnostic::new(format!("the files include each other in a cycle: {}", way.join(" → ")));
        self.problems.value(at, what.help("put the shared part into another file, and include that in each"));
    }
}

/// Both files as one. A part of the second whose name the first has is a problem and is left out.
fn merged(whole: File, part: File, sources: &[Arc<Source>], problems: &mut Problems) -> File {
    let mut twice = |what: &str, name: &str, at: &YamlPath, other: &YamlPath| {
        let said = Diagnostic::new(format!("{what} `{name}` is in two files: here and at {}", place(sources, other)));
        problems.key(at, said.help("rename or remove one of them: no file overrides another"));
    };
    let mut params = whole.params;
    for (name, (value, at)) in part.params {
        match params.entry(name) {
            map::Entry::Occupied(known) => twice("the parameter", known.key(), &at, &known.get().1),
            map::Entry::Vacant(free) => _ = free.insert((value, at)),
        }
    }
    File {
        params,
        profiles: joined(whole.profiles, part.profiles, |own| (&own.name, &own.at), "the profile", &mut twice),
        steps: joined(whole.steps, part.steps, |own| (&own.name, &own.at), "the step", &mut twice),
        environments: joined(
            whole.environments,
            part.environments,
            |own| (&own.name, &own.at),
            "the environment",
            &mut twice,
        ),
        publish: whole.publish.into_iter().chain(part.publish).collect(),
        environment_required: whole.environment_required || part.environment_required,
        // The workflow's own file comes last, and says the rest.
        ..part
    }
}

/// The parts of one kind, by name and place. Within one file the reader of YAML has told those of one name.
fn joined<T>(
    mut whole: Vec<T>,
    part: Vec<T>,
    name: fn(&T) -> (&String, &YamlPath),
    what: &str,
    twice: &mut impl FnMut(&str, &str, &YamlPath, &YamlPath),
) -> Vec<T> {
    let known = whole.len();
    for own in part {
        match whole[..known].iter().map(name).find(|other| other.0 == name(&own).0) {
            Some((_, at)) => twice(what, name(&own).0, name(&own).1, at),
            None => whole.push(own),
        }
    }
    whole
}

/// `common.yaml:12`.
fn place(sources: &[Arc<Source>], at: &YamlPath) -> String {
    let source = &sources[at.file()];
    let found = locate(sources, vec![Problem { at: at.clone(), on: PlacePart::Key, what: Diagnostic::new("") }]);
    match found.first().and_then(|found| found.line_column(&source.text)) {
        Some((line, _)) => format!("{}:{line}", source.path),
        None => source.path.clone(),
    }
}
