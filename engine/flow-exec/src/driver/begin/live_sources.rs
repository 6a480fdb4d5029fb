//! Python sources of the project that a step would import in place of the run's copies: refuses the step, or puts the
//! copies first in its `PYTHONPATH`.

use std::{
    borrow::Cow,
    collections::{BTreeMap, BTreeSet},
    env, fs,
    path::{Path, PathBuf},
    slice,
};

use flow_core::{
    Body, Diagnostic, Input, Instance, InstanceId, Render, ResolvedInstance, StepResult,
    plan::Plan,
    shell::{First, first},
};

use super::{start::Environment, step_variables::StepVariables};
use crate::{
    ExecError,
    command_words::{MAKEFILES, commands, reads_scripts, script, words},
    declared_environment,
    driver::session::Session,
    environment::packages_of,
    live_sources::{self, LiveSource, SourceRoute},
    paths::{real, relative},
    site_packages::distributions,
};

const PYTHONPATH: &str = "PYTHONPATH";

impl Session {
    /// Checks that the copies of a run cover the project's own sources that its steps import.
    ///
    /// # Errors
    /// Each step that would import sources that are not its inputs, with its place.
    pub fn check_live_sources(&self, plan: &Plan) -> Result<(), ExecError> {
        let runs = plan.items.iter().filter(|item| item.state.may_run()).map(|item| item.id);
        let wrong = self.uncovered(runs);
        if wrong.is_empty() {
            return Ok(());
        }
        let about = wrong.iter().map(|(step, what)| (&**step, "", what.clone()));
        Err(self.wrong(self.workflow.about(&["inputs", "run"], about)))
    }

    /// For each step, the live sources that its inputs do not cover.
    pub fn uncovered(&self, wanted: impl IntoIterator<Item = InstanceId>) -> Vec<(String, Diagnostic)> {
        let mut finder = Finder::of(self, Finder::INSIDE);
        let (mut wrong, mut seen) = (Vec::new(), BTreeSet::new());
        for id in wanted {
            let instance = &self.expansion.instances[id.index()];
            let Some((line, own)) = self.early(instance) else { continue };
            for source in finder.named(&line, &own, &instance.inputs) {
                let step = &self.expansion.steps[instance.step.index()].name;
                let (_, missing) = self.copies(&instance.inputs, &source);
                if (source.way == SourceRoute::Hook || !missing.is_empty())
                    && seen.insert((instance.step, source.clone()))
                {
                    wrong.push((step.clone(), self.not_covered(step, &source, &missing)));
                }
            }
        }
        wrong
    }

    /// Warnings about editable installs outside the project that a step can import and that no input covers.
    pub fn uncovered_outside(&self) -> Vec<String> {
        let mut finder = Finder::of(self, Finder::OUTSIDE);
        let mut steps: BTreeMap<LiveSource, Vec<String>> = BTreeMap::new();
        for step in &self.expansion.steps {
            let first = step.instances.clone().next().and_then(|id| self.expansion.instances.get(id as usize));
            let Some((instance, (line, own))) = first.and_then(|of| Some((of, self.early(of)?))) else { continue };
            for source in finder.named(&line, &own, &instance.inputs) {
                if self.copies(&instance.inputs, &source).0.is_empty() {
                    steps.entry(source).or_default().push(format!("`{}`", step.name));
                }
            }
        }
        let warning = |(source, steps): (LiveSource, Vec<String>)| {
            let folder = relative(&self.workspace.folder, &source.folder);
            format!(
                "the Python of {} imports `{}` from `{folder}`, which no input covers, so an edit there does not rerun the step; list it under `inputs:`",
                steps.join(", "),
                source.name,
            )
        };
        steps.into_iter().map(warning).collect()
    }

    /// The command and variables of an instance, as far as they are known before anything runs.
    fn early(&self, instance: &Instance) -> Option<(String, BTreeMap<String, String>)> {
        let (line, env) = self.written(instance)?;
        Some((line, self.with_declared(instance, env)))
    }

    /// The step's own variables, with those of its declared environment.
    fn with_declared(&self, instance: &Instance, mut env: BTreeMap<String, String>) -> BTreeMap<String, String> {
        if let Some(declared) = self.expansion.environment_of(instance) {
            let path = env::var("PATH").unwrap_or_default();
            for (name, value) in declared_environment::variables(declared, &path) {
                env.entry(name.to_owned()).or_insert(value.unwrap_or_default());
            }
        }
        env
    }

    fn written(&self, instance: &Instance) -> Option<(String, BTreeMap<String, String>)> {
        match self.expansion.resolve(instance.id, &BTreeMap::<InstanceId, StepResult>::new(), Render::Paths) {
            Ok(ResolvedInstance { body: Body::Command { line, .. }, env, .. }) => Some((line, env)),
            Ok(_) => None,
            Err(_) => Some((self.expansion.unresolved_command(instance.id)?.0, BTreeMap::new())),
        }
    }

    /// The folders with the copies of a source, relative to the work folder, and the modules that are not copied.
    fn copies(&self, inputs: &[Input], source: &LiveSource) -> (BTreeSet<PathBuf>, Vec<PathBuf>) {
        let place = |path: &Path| {
            inputs.iter().filter(|input| !input.in_place && !input.by_listing).find_map(|input| {
                let above = fs::canonicalize(self.path(&input.path)).ok()?;
                let inside = path.strip_prefix(above).ok()?;
                Some(Path::new(&input.place()).join(inside).components().collect::<PathBuf>())
            })
        };
        if let Some(copy) = place(&source.folder) {
            return (BTreeSet::from([copy]), Vec::new());
        }
        let (mut folders, mut missing) = (BTreeSet::new(), Vec::new());
        for module in &source.modules {
            let inside = module.strip_prefix(&source.folder).unwrap_or(module);
            let copy = place(module).filter(|copy| copy.ends_with(inside));
            match copy.as_deref().and_then(|copy| copy.ancestors().nth(inside.components().count())) {
                Some(folder) => _ = folders.insert(folder.to_owned()),
                None => missing.push(module.clone()),
            }
        }
        if source.modules.is_empty() {
            missing.push(source.folder.clone());
        }
        (folders, missing)
    }

    fn not_covered(&self, step: &str, source: &LiveSource, missing: &[PathBuf]) -> Diagnostic {
        let LiveSource { name, folder, modules, way } = source;
        let near = |path: &Path| relative(&self.workspace.folder, path);
        let shown = near(folder);
        if *way == SourceRoute::Hook {
            return Diagnostic::new(format!(
                "`{name}` is an editable install of `{shown}`, so `{step}` imports the files that you edit; flow cannot put the run's copy before them"
            ))
            .help("install it without `-e`, and again after each edit");
        }
        let is_whole = missing.len() == modules.len() && live_sources::is_searched_whole(folder);
        let wanted: Vec<String> =
            if is_whole { vec![shown.clone()] } else { missing.iter().map(|path| near(path)).collect() };
        let list = wanted.iter().map(|path| format!("`{path}`")).collect::<Vec<_>>().join(" and ");
        Diagnostic::new(format!(
            "`{step}` imports `{name}` from your own files, because it is an editable install and {list} {} not under `inputs:`",
            if wanted.len() == 1 { "is" } else { "are" }
        ))
        .help(format!("add {list} to the step's `inputs:`: then it imports the copy, and an edit reruns it"))
    }

    /// Warnings about absolute paths of the project, for which steps read your files and not the run's copies.
    pub fn absolute_paths(&self) -> Vec<String> {
        let root = &self.workspace.root;
        let mut found = BTreeSet::new();
        for step in &self.expansion.steps {
            let first = step.instances.clone().next().and_then(|id| self.expansion.instances.get(id as usize));
            let Some((line, env)) = first.and_then(|instance| self.written(instance)) else { continue };
            let named = env.iter().map(|(name, value)| (format!("`{name}` under `env:`"), value));
            for (place, text) in named.chain([("`run:`".to_owned(), &line)]) {
                let ours = text.split(ends_path).filter_map(|word| {
                    let named = absolute_path(word)?;
                    let path = if named.starts_with(root) { named } else { real(&named) };
                    let is_ours = path.starts_with(root) && path.exists() && !is_environment(root, &path);
                    is_ours.then(|| (step.name.clone(), place.clone(), word.to_owned(), path))
                });
                found.extend(ours);
            }
        }
        let warnings = found.into_iter().map(|(step, place, path, real)| {
            if real == *root {
                return format!(
                    "{place} of `{step}` has the absolute path `{path}` of the project, so the step reads the files that you edit, not the run's copies; use a path relative to the work folder, where the step starts"
                );
            }
            let near = relative(&self.workspace.folder, &real);
            format!(
                "{place} of `{step}` has the absolute path `{path}`, so the step reads the file that you edit, not the run's copy; write `{near}` and list it under `inputs:`"
            )
        });
        let inherited = Environment::of(self).inherited().clone();
        let variable = live_sources::inherited(&|name| inherited.get(name).cloned(), root);
        let uses = |source: &LiveSource| {
            let mut firsts = self.expansion.steps.iter().filter_map(|step| step.instances.clone().next());
            firsts.any(|id| {
                let instance = self.expansion.instances.get(id as usize);
                instance.is_some_and(|of| self.early(of).is_some() && !self.copies(&of.inputs, source).1.is_empty())
            })
        };
        let shell = variable.iter().filter(|source| uses(source)).map(|source| {
            format!(
                "`PYTHONPATH` of the shell has `{}`, so steps import files that you edit and that are not under their `inputs:`",
                source.folder.display()
            )
        });
        warnings.chain(shell).collect()
    }
}

/// Puts the run's copies of live sources first in the `PYTHONPATH` of a program; after the folders that the step sets
/// itself.
pub(crate) fn put_first(
    env: &mut StepVariables,
    session: &Session,
    instance: &Instance,
    resolved: &ResolvedInstance,
    work: &Path,
) {
    let Body::Command { line, .. } = &resolved.body else { return };
    let may_hold_modules = |input: &&Input| {
        let path = session.path(&input.path);
        path.extension().is_some_and(|end| end == "py" || end == "so") || path.is_dir()
    };
    let inputs: Vec<Input> = instance.inputs.iter().chain(&resolved.inputs).filter(may_hold_modules).cloned().collect();
    if inputs.is_empty() {
        return;
    }
    let variables = Cow::Owned(env.all().into_iter().collect());
    let mut finder = Finder { session, variables, is_wanted: Finder::INSIDE, known: BTreeMap::new() };
    let mut sources = finder.named(line, &BTreeMap::new(), &instance.inputs);
    sources.extend(finder.all(["python", "python3"].into_iter(), &BTreeMap::new(), None));
    let own = resolved.env.get(PYTHONPATH);
    if own.is_none() {
        sources.extend(live_sources::inherited(&|name| finder.variables.get(name).cloned(), &session.workspace.root));
    }
    let copies: BTreeSet<PathBuf> = sources
        .iter()
        .filter(|source| source.way != SourceRoute::Hook)
        .flat_map(|one| session.copies(&inputs, one).0)
        .collect();
    if copies.is_empty() {
        return;
    }
    let inherited = finder.variables.get(PYTHONPATH).filter(|path| !path.is_empty());
    let others = inherited.map(|path| env::split_paths(path).collect::<Vec<_>>()).unwrap_or_default();
    let copies: Vec<PathBuf> = copies.iter().map(|copy| work.join(copy)).collect();
    let all = if own.is_some() { [others, copies] } else { [copies, others] };
    if let Ok(path) = env::join_paths(all.concat()) {
        env.set(PYTHONPATH, path.to_string_lossy());
    }
}

/// True if an attempt could read the author's file of this input in place of its copy: its command or its variables name
/// the input or a folder above it, or an editable install of the input is found although the copy should come first.
/// `is_edited` is asked only for such an install.
pub(crate) fn could_read_live(
    session: &Session,
    instance: &Instance,
    resolved: &ResolvedInstance,
    inherited: &BTreeMap<String, String>,
    input: &Input,
    is_edited: impl FnOnce() -> bool,
) -> bool {
    let Body::Command { line, .. } = &resolved.body else { return false };
    let texts: Vec<&str> = [line].into_iter().chain(resolved.env.values()).map(String::as_str).collect();
    let (root, author) = (&session.workspace.root, session.path(&input.path));
    let author = fs::canonicalize(&author).unwrap_or(author);
    // A copy of an install outside the project is not put before it.
    let passes_by = || !author.starts_with(root) || texts.iter().any(|text| hides_copies(text));
    texts.iter().any(|text| names(text, &author, root, inherited.get("HOME")))
        || passes_by()
            && is_edited()
            && imports_live(session, (instance, line, &resolved.env), inherited, input, &texts)
}

/// True if a command can keep a Python from the copies: by an option, by its variables, or by a program named in a variable.
fn hides_copies(text: &str) -> bool {
    let is_option = |word: &str| word.len() < 4 && word.starts_with('-') && word.contains(['I', 'E']);
    let is_variable = |word: &str| word.starts_with('$') && word.contains("/python");
    let mut words = text.split(|c: char| c.is_whitespace() || ";|&()'\"".contains(c));
    text.contains(PYTHONPATH)
        || words.any(|word| is_option(word) || is_variable(word) || matches!(word, "env" | "sudo"))
}

/// True if a Python that a command can start has an editable install of the input.
fn imports_live(
    session: &Session,
    (instance, line, env): (&Instance, &str, &BTreeMap<String, String>),
    inherited: &BTreeMap<String, String>,
    input: &Input,
    texts: &[&str],
) -> bool {
    let own = session.with_declared(instance, env.clone());
    let variables = Cow::Borrowed(inherited);
    let mut finder = Finder { session, variables, is_wanted: |_, _| true, known: BTreeMap::new() };
    // A variable may hold the folder of a Python.
    let folders = texts.iter().flat_map(|text| words(text)).filter(|word| Path::new(word).is_dir());
    let hidden: Vec<String> =
        folders.flat_map(|folder| ["python", "bin/python"].map(|python| format!("{folder}/{python}"))).collect();
    let others = ["python", "python3"].into_iter().chain(hidden.iter().map(String::as_str));
    let mut sources = finder.named(line, &own, &instance.inputs);
    sources.extend(finder.all(others, &own, None));
    sources.iter().any(|source| !session.copies(slice::from_ref(input), source).0.is_empty())
}

/// True if a text has the absolute path of this file, or one above or below it in the project, outside of virtual
/// environments. A path that ends in a variable may lead anywhere below.
fn names(text: &str, author: &Path, root: &Path, home: Option<&String>) -> bool {
    let Some(project) = root.to_str() else { return false };
    let text = text.replace("${FLOW_ROOT}", project).replace("$FLOW_ROOT", project);
    let text = home.map_or(text.clone(), |home| with_home(&text, home));
    let is_named = |text: &str| has_path(text, author, root, project);
    is_named(&text)
        || is_named(&with_real_paths(&text))
        || author.starts_with(root) && text.contains(flow_protocol::ROOT_VAR)
}

fn has_path(text: &str, author: &Path, root: &Path, project: &str) -> bool {
    let top = if author.starts_with(root) { project } else { author.to_str().unwrap_or(project) };
    let leads = |(at, _): (usize, &str)| {
        let whole = text[at..].split(ends_path).next().unwrap_or_default();
        let below = whole.get(top.len()..).unwrap_or_default();
        let place = Path::new(whole.split('$').next().unwrap_or_default());
        let is_related = whole.contains('$') || author.starts_with(place) || place.starts_with(author);
        let is_path =
            (at == 0 || text[..at].ends_with(ends_path)) && (below.is_empty() || below.starts_with(['/', '$']));
        is_path && is_related && !is_environment(root, place)
    };
    text.match_indices(top).any(leads)
}

/// A character that ends a path in a command.
fn ends_path(c: char) -> bool {
    c.is_whitespace() || "'\"`=:;,|&()<>".contains(c)
}

/// The absolute path that a word of a command names, also with the home folder as a shell writes it.
pub fn absolute_path(word: &str) -> Option<PathBuf> {
    let home = env::var("HOME").ok();
    let path = PathBuf::from(home.map_or(word.to_owned(), |home| with_home(word, &home)));
    path.is_absolute().then_some(path)
}

fn with_home(text: &str, home: &str) -> String {
    text.replace("${HOME}", home).replace("$HOME", home).replace("~/", &format!("{home}/"))
}

/// A text with the real path of each absolute path, because a path may lead through a link to the project.
fn with_real_paths(text: &str) -> String {
    let word = |word: &str| {
        let end = word.find(|c| ends_path(c) || c == '$').unwrap_or(word.len());
        let (path, rest) = word.split_at(end);
        if path.starts_with('/') { format!("{}{rest}", real(Path::new(path)).display()) } else { word.to_owned() }
    };
    text.split_inclusive(ends_path).map(word).collect()
}

/// Finds the live sources of commands. The same word is looked up once.
struct Finder<'a> {
    session: &'a Session,
    variables: Cow<'a, BTreeMap<String, String>>,
    /// Whether a source counts, given the root of the project.
    is_wanted: fn(&Path, &LiveSource) -> bool,
    known: BTreeMap<(String, String), Vec<LiveSource>>,
}

impl Finder<'_> {
    const INSIDE: fn(&Path, &LiveSource) -> bool = |root, source| source.folder.starts_with(root);
    /// A folder of installed packages is no source.
    const OUTSIDE: fn(&Path, &LiveSource) -> bool = |root, source| {
        let is_source = source.way == SourceRoute::Hook || !source.modules.is_empty();
        is_source && !source.folder.starts_with(root) && distributions(&source.folder).is_empty()
    };

    fn of(session: &Session, is_wanted: fn(&Path, &LiveSource) -> bool) -> Finder<'_> {
        let variables = Cow::Owned(Environment::of(session).inherited().clone());
        Finder { session, variables, is_wanted, known: BTreeMap::new() }
    }

    /// The sources of each Python that a command starts, or that a script among its inputs starts.
    fn named(&mut self, line: &str, own: &BTreeMap<String, String>, inputs: &[Input]) -> BTreeSet<LiveSource> {
        let First { activated, .. } = first(&["bash", "-c", line].map(str::to_owned));
        let mut sources = self.all(words(line), own, activated.as_deref());
        let reads = reads_scripts(line);
        for word in words(line) {
            let place = word.trim_start_matches(['.', '/']);
            let places = if word == "make" { &MAKEFILES[..] } else { &[word.trim_start_matches("./"), place] };
            let mut files: Vec<(PathBuf, bool)> = places.iter().filter_map(|place| self.input(place, inputs)).collect();
            files.dedup();
            for (file, is_itself) in files {
                if let Some(text) = script(&file, reads) {
                    sources.extend(self.all(words(commands(&file, &text, is_itself)), own, activated.as_deref()));
                }
            }
        }
        sources
    }

    /// The file at a place in the work folder, if an input puts it there, and whether it is the input itself.
    fn input(&self, place: &str, inputs: &[Input]) -> Option<(PathBuf, bool)> {
        inputs.iter().find_map(|input| {
            let inside = Path::new(place).strip_prefix(&*input.place()).ok()?;
            let file = self.session.path(&input.path).join(inside).components().collect();
            Some((file, inside.as_os_str().is_empty()))
        })
    }

    /// The sources of each Python among these words.
    fn all<'w>(
        &mut self,
        words: impl Iterator<Item = &'w str>,
        own: &BTreeMap<String, String>,
        activated: Option<&str>,
    ) -> BTreeSet<LiveSource> {
        let Finder { session, variables, is_wanted, known } = self;
        let variable = |name: &str| own.get(name).or_else(|| variables.get(name)).cloned();
        let path = activated.map(str::to_owned).into_iter().chain(variable("PATH")).collect::<Vec<_>>().join(":");
        let mut found = BTreeSet::new();
        for word in words {
            let of_word = known.entry((path.clone(), word.to_owned())).or_insert_with(|| {
                let packages = packages_of(word, &path, &variable);
                let mut all = packages.map_or(Vec::new(), |of| live_sources::installed(&of.folders, &of.prefix));
                all.retain(|source| is_wanted(&session.workspace.root, source));
                all
            });
            found.extend(of_word.iter().cloned());
        }
        found
    }
}

/// In a virtual environment.
fn is_environment(root: &Path, path: &Path) -> bool {
    path.ancestors().take_while(|above| *above != root).any(|above| above.join("pyvenv.cfg").exists())
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn a_path_through_a_link_names_the_project() {
        let dir = tempfile::tempdir().unwrap();
        let top = dir.path().canonicalize().unwrap();
        let (root, author) = (top.join("proj"), top.join("proj/src/lib.py"));
        fs::create_dir_all(root.join("src")).unwrap();
        symlink(&root, top.join("link")).unwrap();
        let home = top.display().to_string();
        let is_named = |text: &str| names(&text.replace("TOP", &home), &author, &root, Some(&home));
        for yes in ["cd TOP/link && ls", "python TOP/link/src/lib.py", "TOP/link$x", "cat '$HOME/link/src/lib.py'"] {
            assert!(is_named(yes), "{yes}");
        }
        for no in ["cd TOP/link2", "TOP/link/results", "link/src/lib.py"] {
            assert!(!is_named(no), "{no}");
        }
    }

    #[test]
    fn a_text_names_a_project_but_not_its_virtual_environment() {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().join("proj");
        fs::create_dir_all(root.join(".venv/bin")).unwrap();
        fs::write(root.join(".venv/pyvenv.cfg"), "").unwrap();
        let author = root.join("src/toy/lib.py");
        let is_named = |text: &str| names(&text.replace("HERE", &root.display().to_string()), &author, &root, None);
        for yes in
            ["PYTHONPATH=HERE/src python3", "cd HERE && ls", "x 'HERE/src/toy'", "HERE$x", "$FLOW_ROOT/$x", "FLOW_ROOT"]
        {
            assert!(is_named(yes), "{yes}");
        }
        for no in [
            "HERE2/src",
            "HERE/.venv/bin/python train.py",
            "$FLOW_ROOT/.venv/bin/python train.py",
            "proj/src",
            "PATH=HERE/.venv/bin:/usr/bin",
            "--out HERE/results",
            "/else/HERE/src",
        ] {
            assert!(!is_named(no), "{no}");
        }
    }

    #[test]
    fn a_command_that_may_keep_python_from_the_copies_is_known() {
        for yes in ["python -I t.py", "PYTHONPATH=/x python t.py", "env -i python t.py", "P=/v/bin; $P/python t.py"] {
            assert!(hides_copies(yes), "{yes}");
        }
        for no in ["touch $HOME/x && python t.py --lr 0.1", ". venv/bin/activate && python -m toy.train", "bash go.sh"]
        {
            assert!(!hides_copies(no), "{no}");
        }
    }
}
