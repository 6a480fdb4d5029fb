//! From a YAML value to the workflow's parts. Goes on after every error; knows no step but the one at hand.

use std::{borrow::Cow, collections::BTreeMap, sync::Arc};

use indexmap::IndexMap;
use minijinja::value::Value;
use serde_yaml::Value as Yaml;

use super::{
    at::{PlacePart, Problems, Seg, YamlPath},
    keys::{self, Key, Kind},
    raw::{Condition, Entry, File, Profile},
    slurm,
    typed_value::{self, MistakeKind, TypedResult, ValueMistake},
};
use crate::{
    Diagnostic,
    expr::{
        Expr, Node, ROOTS, Template,
        value::{from_yaml, key_text},
    },
    sched::policy,
};

pub(crate) struct Reader<'a> {
    pub(crate) problems: &'a mut Problems,
}

impl Reader<'_> {
    /// A typed value; says what is wrong with it.
    pub(super) fn typed<T>(&mut self, at: &YamlPath, result: TypedResult<T>) -> Option<T> {
        result.map_err(|wrong| report(self.problems, at, wrong)).ok()
    }

    /// One text without the brackets of a list, or a list of texts, each with its place.
    pub(super) fn one_or_several(
        &mut self,
        value: &Value,
        at: &YamlPath,
        what: &str,
    ) -> Option<Vec<(String, YamlPath)>> {
        if let Some(text) = value.as_str() {
            return Some(vec![(text.to_owned(), at.clone())]);
        }
        let texts = self.typed(at, typed_value::texts(value, what))?;
        Some(texts.into_iter().enumerate().map(|(n, text)| (text, at.index(n))).collect())
    }

    /// A value without expressions, typed.
    pub(super) fn value<T>(
        &mut self,
        yaml: &Yaml,
        at: &YamlPath,
        key: &str,
        typed: impl FnOnce(&Value) -> TypedResult<T>,
    ) -> Option<T> {
        let value = self.plain(yaml, at, key)?;
        self.typed(at, typed(&value))
    }

    /// The entries of a mapping with unknown keys reported.
    pub(super) fn entries<'y>(
        &mut self,
        yaml: &'y Yaml,
        at: &YamlPath,
        known: &'static [Key],
        what: &str,
    ) -> Vec<(&'static Key, &'y Yaml, YamlPath)> {
        let mut found = Vec::new();
        for (name, value, at) in self.mapping(yaml, at, what) {
            match keys::find(known, &name) {
                Some(key) => found.push((key, value, at)),
                None => {
                    let mut what = Diagnostic::new(format!("{what} has no key `{name}`"))
                        .nearest(&name, self.problems.offer(known.iter().map(|k| k.name)));
                    let is_here = |key: &str| known.iter().any(|known| key.split('`').next() == Some(known.name));
                    if let Some((word, key)) = foreign_key(&name).filter(|(_, key)| is_here(key)) {
                        what.help = vec![format!("{word} `{key}`")];
                    }
                    self.problems.key(&at, what);
                }
            }
        }
        found
    }

    pub(super) fn mapping<'y>(
        &mut self,
        yaml: &'y Yaml,
        at: &YamlPath,
        what: &str,
    ) -> Vec<(Cow<'y, str>, &'y Yaml, YamlPath)> {
        let Yaml::Mapping(map) = yaml else {
            let found = match yaml {
                Yaml::Null => "empty".to_owned(),
                Yaml::Tagged(_) => "a tag".to_owned(),
                other => from_yaml(other).map_or_else(|m| m, |v| crate::expr::value::describe(&v).to_string()),
            };
            self.problems
                .value(at, Diagnostic::new(format!("{what} is {found}")).label("expected a mapping, `key: value`"));
            return Vec::new();
        };
        map.iter()
            .filter_map(|(key, value)| match key_text(key) {
                Ok(key) => {
                    let at = at.key(&key);
                    Some((key, value, at))
                }
                Err(message) => {
                    self.problems.value(at, Diagnostic::new(message));
                    None
                }
            })
            .collect()
    }

    /// A value without expressions.
    pub(super) fn plain(&mut self, yaml: &Yaml, at: &YamlPath, key: &str) -> Option<Value> {
        let before = self.problems.0.len();
        let template = Template::parse(yaml, at, self.problems);
        let mut places = Vec::new();
        template.visit(&mut |expr, at| places.push((expr.text.clone(), at.clone())));
        for (text, at) in places {
            self.problems.add(
                &at,
                PlacePart::In { text: text.to_string(), expression: text },
                Diagnostic::new(format!("`{key}` takes no `${{{{ }}}}`: its value is plain")),
            );
        }
        template.as_const().filter(|_| self.problems.0.len() == before).cloned()
    }

    /// Reads a file, except its includes. Keys about the whole workflow are allowed in the workflow's own file only.
    pub(crate) fn file(&mut self, yaml: &Yaml, root: &YamlPath, default_name: &str) -> File {
        let mut file = File { name: default_name.to_owned(), ..File::default() };
        let mut steps_seen = false;
        let included = root.file() > 0;
        for (key, value, at) in self.entries(yaml, root, keys::FILE, "the file") {
            match key.kind {
                Kind::Include => steps_seen = true,
                Kind::Name | Kind::Title | Kind::Policy | Kind::On | Kind::Slurm(_) | Kind::Folder if included => {
                    let what = format!("`{}` belongs into the workflow, not into a file that it includes", key.name);
                    self.problems.key(&at, Diagnostic::new(what).help("leave it out here"));
                }
                Kind::Name => {
                    if let Some(name) = self.value(value, &at, "name", file_name) {
                        file.name = name;
                    }
                }
                Kind::Title => file.title = self.title(value, &at),
                Kind::Params => file.params = self.params(value, &at),
                Kind::Profiles => {
                    for (name, value, at) in self.mapping(value, &at, "`profiles`") {
                        self.name(&name, &at, "a profile");
                        let profile = self.profile(name.into_owned(), value, &at);
                        file.profiles.push(profile);
                    }
                }
                Kind::Steps => {
                    steps_seen = true;
                    let steps = self.mapping(value, &at, "`steps`");
                    file.steps.reserve(steps.len());
                    for (name, value, at) in steps {
                        let step = self.step(name.into_owned(), value, &at);
                        file.steps.push(step);
                    }
                    if file.steps.is_empty() && matches!(value, Yaml::Mapping(m) if m.is_empty()) {
                        self.problems.key(&at, Diagnostic::new("there are no steps"));
                    }
                }
                Kind::Publish => file.publish = self.publish(value, &at),
                Kind::Environments => self.environments(value, &at, &mut file),
                Kind::Policy => file.policy = self.policy(value, &at),
                Kind::Folder => file.work = self.value(value, &at, "work", typed_value::text),
                Kind::On => file.on = self.value(value, &at, "on", slurm::on),
                Kind::Slurm(_) => {
                    file.slurm = self.value(value, &at, "slurm", slurm::settings).unwrap_or_default();
                }
                _ => {}
            }
        }
        if !steps_seen && !included {
            let example = "steps: {hello: {run: echo hello}}";
            self.problems.key(root, Diagnostic::new("the file has no `steps`").help(format!("add `{example}`")));
        }
        if file.title.is_empty() {
            file.title.insert(String::new(), file.name.clone());
        }
        file
    }

    pub(super) fn name(&mut self, name: &str, at: &YamlPath, what: &str) -> bool {
        self.typed(at, typed_value::identifier(name, what)).is_some()
    }

    fn title(&mut self, yaml: &Yaml, at: &YamlPath) -> BTreeMap<String, String> {
        let Some(value) = self.plain(yaml, at, "title") else { return BTreeMap::new() };
        if let Some(text) = value.as_str() {
            return BTreeMap::from([(String::new(), text.to_owned())]);
        }
        let entries = typed_value::mapping(&value, "a text, or one for each language, `{en: …, zh: …}`");
        let mut title = BTreeMap::new();
        for (language, text) in self.typed(at, entries).unwrap_or_default() {
            let at = at.key(&language);
            if let Some(text) = self.typed(&at, typed_value::text(&text)) {
                title.insert(language, text);
            }
        }
        title
    }

    fn policy(&mut self, yaml: &Yaml, at: &YamlPath) -> Option<String> {
        let name = self.value(yaml, at, "policy", typed_value::text)?;
        let known = || policy::POLICIES.iter().filter(|(_, make)| !make().preemptive()).map(|(known, _)| *known);
        if known().any(|known| known == name) {
            return Some(name);
        }
        let what = match policy::named(&name) {
            Some(_) => Diagnostic::new(policy::only_simulated(&name))
                .help("only `flow simulate` supports it; for real runs use another"),
            None => Diagnostic::new(format!("there is no policy `{name}`")).nearest(&name, known()),
        };
        self.problems.value(at, what);
        None
    }

    fn params(&mut self, yaml: &Yaml, at: &YamlPath) -> IndexMap<String, (Value, YamlPath)> {
        let mut params = IndexMap::new();
        if matches!(yaml, Yaml::Null) {
            return params;
        }
        for (name, value, at) in self.mapping(yaml, at, "`params`") {
            let good = self.name(&name, &at, "a parameter") && self.free(&name, &at, "a parameter");
            // One without a sound value is a parameter all the same; what follows from it is not said again.
            let value = self.plain(value, &at, &name).unwrap_or_else(|| Value::from(0));
            if good {
                params.insert(name.into_owned(), (value, at));
            }
        }
        params
    }

    /// The name is not one that expressions have already.
    pub(super) fn free(&mut self, name: &str, at: &YamlPath, what: &str) -> bool {
        const WORDS: [&str; 10] = ["true", "false", "none", "and", "or", "not", "in", "is", "if", "else"];
        let why = if ROOTS.contains(&name) {
            "is a name that expressions already have"
        } else if WORDS.contains(&name) {
            "is a word of the expression language"
        } else {
            return true;
        };
        self.problems.key(
            at,
            Diagnostic::new(format!("{what} cannot be called `{name}`, which {why}")).help("choose another name"),
        );
        false
    }

    fn profile(&mut self, name: String, yaml: &Yaml, at: &YamlPath) -> Profile {
        let mut profile = Profile { name, at: at.clone(), when: None, gpus: None, params: IndexMap::new() };
        for (key, value, at) in self.entries(yaml, at, keys::PROFILE, "a profile") {
            match key.kind {
                Kind::When => profile.when = self.when(value, &at),
                Kind::Params => profile.params = self.params(value, &at),
                _ => profile.gpus = self.value(value, &at, key.name, |value| typed_value::count(value, 0)),
            }
        }
        let before = self.problems.0.len();
        if let Some(when) = &profile.when {
            for name in when.expr.variables.iter().filter(|n| *n != "machine") {
                if !crate::expr::globals().contains(&**name) {
                    let what = Diagnostic::new(format!("a profile's `when` sees `machine` only, not `{name}`"))
                        .help("`machine` has gpus, gpu_names, gpu_memory, cpus, memory");
                    self.problems.add(
                        &when.at,
                        PlacePart::In { expression: when.expr.text.clone(), text: name.clone() },
                        what,
                    );
                }
            }
        }
        if self.problems.0.len() > before {
            profile.when = None;
        }
        profile
    }

    pub(super) fn when(&mut self, yaml: &Yaml, at: &YamlPath) -> Option<Condition> {
        let text = match yaml {
            Yaml::Bool(b) => b.to_string(),
            Yaml::String(text) if text.contains("${{") => {
                let Node::Expr(expr) = Template::parse(yaml, at, self.problems).node else {
                    let what = Diagnostic::new("`when` is one expression, without text around it")
                        .help("`when` needs no `${{ }}`");
                    self.problems.value(at, what);
                    return None;
                };
                return Some(Condition { at: at.clone(), expr });
            }
            Yaml::String(text) => text.clone(),
            other => {
                let found = from_yaml(other).map_or_else(|m| m, |v| crate::expr::value::describe(&v).to_string());
                self.problems.value(at, Diagnostic::new(format!("`when` is {found}")).label("expected an expression"));
                return None;
            }
        };
        let expr = Expr::new(&text).map_err(|what| self.problems.value(at, what)).ok()?;
        Some(Condition { at: at.clone(), expr: Arc::new(expr) })
    }

    fn publish(&mut self, yaml: &Yaml, at: &YamlPath) -> Vec<Entry> {
        let Yaml::Sequence(list) = yaml else {
            self.problems.value(
                at,
                Diagnostic::new("`publish` is not a list")
                    .label("expected entries such as `- {from: report, to: ../reports/x.md}`"),
            );
            return Vec::new();
        };
        let mut entries = Vec::new();
        for (i, yaml) in list.iter().enumerate() {
            let at = at.index(i);
            let before = self.problems.0.len();
            let mut from = None;
            let mut targets = Vec::new();
            for (key, value, at) in self.entries(yaml, &at, keys::PUBLISH, "an entry of `publish`") {
                if key.kind == Kind::Step {
                    from = self.value(value, &at, "from", typed_value::text).map(|name| (name, at));
                } else {
                    targets.push((key.name == "whats_new", Template::parse(value, &at, self.problems)));
                }
            }
            match (from, &targets[..]) {
                (Some(from), [_]) => {
                    entries.extend(targets.pop().map(|(whats_new, to)| Entry { from, to, whats_new }));
                }
                _ if self.problems.0.len() > before => {}
                (None, _) => self.problems.value(&at, Diagnostic::new("the entry has no `from`")),
                _ => {
                    let what = Diagnostic::new("the entry needs either `to` or `whats_new`").help(
                        "`to` writes the whole report, `whats_new` an entry into a file; make two entries of them",
                    );
                    self.problems.value(&at, what);
                }
            }
        }
        entries
    }
}

/// Adds wrong values to the problems.
pub(crate) fn report(problems: &mut Problems, at: &YamlPath, wrong: Vec<ValueMistake>) {
    for ValueMistake { path, key, what } in wrong {
        let place = at.below(&path);
        let what = match what {
            MistakeKind::Other(what) => what,
            MistakeKind::Type { found, expected, help } => {
                let key = |seg: &Seg| if let Seg::Key(key) = seg { Some(format!("`{key}`")) } else { None };
                let subject = match place.segs()[..] {
                    [.., above, &Seg::Index(_)] => key(above).map(|list| format!("a value of {list}")),
                    [.., last] => key(last),
                    [] => None,
                };
                let subject = subject.unwrap_or_else(|| "this".to_owned());
                let what = Diagnostic::new(format!("{subject} is {found}")).label(format!("expected {expected}"));
                help.into_iter().fold(what, Diagnostic::help)
            }
        };
        problems.add(&place, if key { PlacePart::Key } else { PlacePart::Value }, what);
    }
}

fn file_name(value: &Value) -> TypedResult<String> {
    let name = typed_value::text(value)?;
    let good = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.');
    if name.starts_with(|c: char| c.is_ascii_alphanumeric()) && name.chars().all(good) {
        return Ok(name);
    }
    typed_value::expected(value, "letters, digits, `_`, `-` and `.`, for it names files; `title` is free")
}

/// Keys that people know from elsewhere.
fn foreign_key(name: &str) -> Option<(&'static str, &'static str)> {
    Some(match name {
        "depends_on" | "depends" | "dependencies" | "requires" | "after" => ("the key for that is", "needs"),
        "deps" | "dep" | "sources" => ("the key for that is", "inputs"),
        "outs" | "artifacts" | "artefacts" => ("the key for that is", "outputs"),
        "if" => ("the key for that is", "when"),
        "strategy" => ("here it is just", "matrix"),
        "cmd" | "command" | "script" => ("the key for that is", "run"),
        "jobs" | "tasks" | "stages" => ("the key for that is", "steps"),
        "args" | "parameters" | "options" => ("the key for that is", "with"),
        "resources" => ("say it as", "gpus` and `cpus"),
        "conda" | "venv" | "container" => ("the key for that is", "environment"),
        _ => return None,
    })
}
