//! The Python that a command starts, found from its text and from the scripts that it names. Follows variables, `cd` and
//! activations. Runs no shell: conditions and loops are read as plain lines.

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
    process::ExitCode,
};

use flow_core::{
    Environment,
    shell::{First, Shell, first},
};
use flow_supervisor::node;

use crate::{
    command_words::{LONGEST_SCRIPT, MAKEFILES, commands, reads_scripts, script, words},
    environment::{PYTHONS, Variables, find, packages_of_program},
    launchers::{self, FirstPython},
    search_path::resolve,
};

/// Variables of which a program's recorded path may have the value. Others may be secrets.
const PLACES: [&str; 8] =
    ["PATH", "HOME", "PWD", flow_protocol::ROOT_VAR, "VIRTUAL_ENV", "CONDA_PREFIX", "PYENV_ROOT", "PYENV_VERSION"];

/// Runs the job of a folder on a node of a batch system.
///
/// # Errors
/// As [`node::serve`].
pub fn serve_node(folder: &Path) -> Result<ExitCode, String> {
    node::serve(folder, |start| {
        let variable = |name: &str| Some(start.env.iter().find(|(known, _)| known == name)?.1.clone());
        let place = |name: &str| variable(name).filter(|_| PLACES.contains(&name));
        Command::of(&start.argv, &start.cwd, &place).environment(&variable)
    })
}

/// A command without its variables.
#[derive(Debug, Default)]
pub(crate) struct Command {
    /// Its arguments. In the text for a shell, variables have their values, and assignments and activations are left out.
    pub(crate) argv: Vec<String>,
    /// Folders that it puts before those of the `PATH`.
    pub(crate) activated: Option<String>,
    pub(crate) python: FirstPython,
}

impl Command {
    /// The command with these arguments, started in the folder `work`.
    pub(crate) fn of(argv: &[String], work: &Path, variables: Variables<'_>) -> Command {
        let mut reading = Reading::new(work, variables);
        let name = argv.first().map(|program| program.rsplit('/').next().unwrap_or(program));
        let (argv, python) = match argv {
            [before @ .., option, text] if option == "-c" && name.is_some_and(|name| Shell::named(name).is_some()) => {
                let (text, python) = reading.text(text, true);
                ([before, &[option.clone(), text]].concat(), python)
            }
            _ => (argv.to_vec(), reading.statement(argv, true)),
        };
        let activated = reading.front.filter(|front| !front.is_empty());
        Command { argv, activated, python: python.unwrap_or_default() }
    }

    /// Its environment.
    pub(crate) fn environment(&self, variables: Variables<'_>) -> Environment {
        let First { program, .. } = first(&self.argv);
        let mut found = Environment { activated: self.activated.clone(), ..Environment::default() };
        match &self.python {
            FirstPython::Unknown => {
                found.python_unknown = true;
                find(program.iter().cloned(), variables, &mut found);
                // It may be the shell's Python, which is not the one that runs.
                found.programs.retain(|_, program| program.python.is_none());
                found.pythons.clear();
                found.command = program;
            }
            FirstPython::Python(name) => {
                let names = program.into_iter().chain([name.clone()]);
                find(names.chain(PYTHONS.map(str::to_owned)), variables, &mut found);
                found.command = Some(name.clone());
            }
            FirstPython::None => {
                find(program.iter().cloned().chain(PYTHONS.map(str::to_owned)), variables, &mut found);
                found.command = program;
            }
        }
        found
    }
}

/// A text while it is read.
#[derive(Clone)]
struct Reading<'a> {
    work: PathBuf,
    /// The present folder.
    folder: PathBuf,
    variables: Variables<'a>,
    /// Variables that the text itself sets.
    own: BTreeMap<String, String>,
    /// Folders before those of the `PATH`.
    front: Option<String>,
    /// It changed the `PATH` in a way that flow does not know.
    is_changed: bool,
}

impl<'a> Reading<'a> {
    fn new(work: &Path, variables: Variables<'a>) -> Reading<'a> {
        Reading {
            work: work.to_owned(),
            folder: work.to_owned(),
            variables,
            own: BTreeMap::new(),
            front: None,
            is_changed: false,
        }
    }

    fn variable(&self, name: &str) -> Option<String> {
        if name == "PATH" {
            return Some(self.path());
        }
        self.own.get(name).cloned().or_else(|| (self.variables)(name))
    }

    fn path(&self) -> String {
        self.front.clone().into_iter().chain((self.variables)("PATH")).collect::<Vec<_>>().join(":")
    }

    /// The statements that remain, and the first Python that they start.
    fn text(&mut self, text: &str, with_scripts: bool) -> (String, Option<FirstPython>) {
        let (mut left, mut found) = (Vec::new(), None);
        for statement in statements(text) {
            let tokens: Vec<String> = statement.iter().map(|token| self.expanded(token)).collect();
            let from = tokens.iter().position(|token| !self.sets(token)).unwrap_or(tokens.len());
            let tokens = &tokens[from..];
            if tokens.is_empty() || self.changes_path(tokens) {
                continue;
            }
            found = found.or_else(|| self.statement(tokens, with_scripts));
            left.push(tokens.join(" "));
        }
        (left.join(" ; "), found)
    }

    /// Whether a word only sets a variable.
    fn sets(&mut self, token: &str) -> bool {
        if token == "export" {
            return true;
        }
        let Some((name, value)) = token.split_once('=') else { return false };
        let is_name = name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
        if !is_name || name.is_empty() || name.starts_with(|c: char| c.is_ascii_digit()) {
            return false;
        }
        if name == "PATH" {
            let rest = (self.variables)("PATH").map(|path| format!(":{path}")).unwrap_or_default();
            self.is_changed |= value.contains(['$', '`']);
            self.front = Some(value.strip_suffix(&*rest).unwrap_or(value).to_owned());
        } else {
            self.own.insert(name.to_owned(), value.to_owned());
        }
        true
    }

    /// Whether a statement only changes where programs are found.
    fn changes_path(&mut self, tokens: &[String]) -> bool {
        let [first, rest @ ..] = tokens else { return false };
        let second = rest.first().map(String::as_str).unwrap_or_default();
        match (&**first, second) {
            ("cd" | "pushd", folder) if !folder.is_empty() => {
                self.folder.push(folder);
                false
            }
            ("source" | ".", file) => {
                let file = self.folder.join(file);
                match file.to_str().and_then(|file| file.strip_suffix("/activate")) {
                    Some(bin) if !bin.contains(['$', '`']) => {
                        let prefix = bin.rsplit_once('/').map_or(bin, |(prefix, _)| prefix);
                        self.own.insert("VIRTUAL_ENV".to_owned(), prefix.to_owned());
                        self.front = Some(self.front.take().map_or(bin.to_owned(), |front| format!("{bin}:{front}")));
                    }
                    Some(_) => self.is_changed = true,
                    None => self.is_changed |= may_change_path(&file),
                }
                true
            }
            ("conda" | "mamba" | "micromamba", "activate") => {
                match rest.get(1).filter(|prefix| prefix.starts_with('/')) {
                    Some(prefix) => self.front = Some(format!("{prefix}/bin")),
                    None => self.is_changed = true,
                }
                true
            }
            ("module" | "ml" | "spack", _) => {
                self.is_changed |=
                    rest.iter().any(|name| name.to_lowercase().contains("python") || name.contains("conda"));
                true
            }
            _ => false,
        }
    }

    /// The first Python that a statement starts.
    fn statement(&self, tokens: &[String], with_scripts: bool) -> Option<FirstPython> {
        let reads = tokens.iter().any(|token| reads_scripts(token));
        for (at, token) in tokens.iter().enumerate() {
            let variable = |name: &str| self.variable(name);
            if let Some(chosen) = launchers::choose(&tokens[at..], &self.folder, &variable) {
                return Some(chosen);
            }
            if token.contains(['$', '`']) && token.rsplit('/').next().is_some_and(|name| name.starts_with("python")) {
                return Some(FirstPython::Unknown);
            }
            let whole = token.starts_with('/').then_some(&**token);
            for word in whole.into_iter().chain(words(token)) {
                let found = self.word(word);
                let found = found.or_else(|| if with_scripts { self.in_script(word, reads) } else { None });
                if found.is_some() {
                    return found;
                }
            }
        }
        None
    }

    fn word(&self, word: &str) -> Option<FirstPython> {
        let is_relative = word.contains('/') && !word.starts_with('/');
        if is_relative && self.folder.starts_with(&self.work) {
            return None;
        }
        let name = if is_relative { self.folder.join(word).to_str()?.to_owned() } else { word.to_owned() };
        let path = self.path();
        let variable = |name: &str| self.variable(name);
        let program = resolve(&name, &path)?;
        if let Some(chosen) = launchers::shim(&program.at, &self.folder, &variable) {
            return Some(chosen);
        }
        packages_of_program(&program, &path, self.variables)?;
        Some(if self.is_changed && !name.contains('/') { FirstPython::Unknown } else { FirstPython::Python(name) })
    }

    /// The first Python that a script in the present folder starts.
    fn in_script(&self, word: &str, reads_scripts: bool) -> Option<FirstPython> {
        let places = if word == "make" { &MAKEFILES[..] } else { &[word] };
        let mut files = places.iter().filter(|place| !place.starts_with('/')).map(|place| self.folder.join(place));
        let (file, text) = files.find_map(|file| script(&file, reads_scripts).map(|text| (file, text)))?;
        let text = commands(&file, &text, false);
        let mut inner = self.clone();
        match inner.text(text.strip_prefix("#!").unwrap_or(text), false).1? {
            // The script alone has this `PATH`.
            FirstPython::Python(name) if inner.front != self.front => {
                Some(FirstPython::Python(resolve(&name, &inner.path())?.at.to_str()?.to_owned()))
            }
            found => Some(found),
        }
    }

    /// A word with the values of variables. One without a value stays as it is.
    fn expanded(&self, token: &str) -> String {
        let mut expanded = String::new();
        let mut rest = token;
        if let Some(below) = rest.strip_prefix(HOME).filter(|below| below.is_empty() || below.starts_with('/')) {
            expanded.push_str(&self.variable("HOME").unwrap_or_else(|| "~".to_owned()));
            rest = below;
        }
        while let Some((before, after)) = rest.split_once('$') {
            expanded.push_str(before);
            let is_part = |c: char| c.is_ascii_alphanumeric() || c == '_';
            let (name, end) = match after.strip_prefix('{') {
                Some(inner) => inner.split_once('}').unwrap_or((inner, "")),
                None => after.split_at(after.find(|c| !is_part(c)).unwrap_or(after.len())),
            };
            match self.variable(name).filter(|_| name.chars().all(is_part)) {
                Some(value) => expanded.push_str(&value),
                None => expanded.push_str(&rest[before.len()..rest.len() - end.len()]),
            }
            rest = end;
        }
        (expanded + rest).replace(HOME, "~").replace(DOLLAR, "$")
    }
}

/// Stands for a `~` at the beginning of a word.
const HOME: char = '\u{e000}';
/// Stands for a quoted `$`.
const DOLLAR: char = '\u{e001}';

/// The words of each statement of a text, without quotes and comments.
fn statements(text: &str) -> Vec<Vec<String>> {
    let (mut all, mut statement, mut word) = (Vec::new(), Vec::new(), None::<String>);
    let mut quote = None;
    let mut chars = text.chars().peekable();
    while let Some(c) = chars.next() {
        match (quote, c) {
            (None, '\\') if chars.next_if_eq(&'\n').is_some() => statement.extend(word.take()),
            (None | Some('"'), '\\') => {
                let next = chars.next().unwrap_or(c);
                word.get_or_insert_default().push(if next == '$' { DOLLAR } else { next });
            }
            (None, '"' | '\'') => {
                quote = Some(c);
                word.get_or_insert_default();
            }
            (Some(open), c) if open == c => quote = None,
            (Some('\''), '$') => word.get_or_insert_default().push(DOLLAR),
            (Some(_), c) => word.get_or_insert_default().push(c),
            (None, '#') if word.is_none() => while chars.next_if(|c| *c != '\n').is_some() {},
            (None, '~') if word.is_none() => word = Some(HOME.to_string()),
            (None, ';' | '\n' | '&' | '|' | '(' | ')') => {
                statement.extend(word.take());
                all.push(std::mem::take(&mut statement));
            }
            (None, c) if c.is_whitespace() || "<>".contains(c) => statement.extend(word.take()),
            (None, c) => word.get_or_insert_default().push(c),
        }
    }
    statement.extend(word);
    all.push(statement);
    all.retain(|statement| !statement.is_empty());
    all
}

/// Whether a script that a command reads may change where programs are found. One that flow cannot read may.
fn may_change_path(script: &Path) -> bool {
    const CHANGES: [&str; 4] = ["PATH", "activate", "module", "source"];
    let text = fs::metadata(script).ok().filter(|of| of.is_file() && of.len() <= LONGEST_SCRIPT);
    let text = text.and_then(|_| fs::read_to_string(script).ok());
    text.is_none_or(|text| CHANGES.iter().any(|word| text.contains(word)))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{PermissionsExt, symlink};

    use super::*;

    fn program(at: &Path, text: &str) {
        fs::create_dir_all(at.parent().unwrap()).unwrap();
        fs::write(at, text).unwrap();
        fs::set_permissions(at, fs::Permissions::from_mode(0o755)).unwrap();
    }

    /// A virtual environment of this machine's Python.
    fn venv(at: &Path) {
        fs::create_dir_all(at.join("bin")).unwrap();
        let system = resolve("python3", "/usr/bin:/usr/local/bin:/bin").unwrap().real;
        ["python", "python3"].iter().for_each(|name| symlink(&system, at.join("bin").join(name)).unwrap());
        let home = system.parent().unwrap().display();
        fs::write(at.join("pyvenv.cfg"), format!("home = {home}\nversion = 3.11.2\n")).unwrap();
    }

    #[test]
    fn the_python_that_starts_is_found_or_unknown() {
        let dir = tempfile::tempdir().unwrap();
        let top = fs::canonicalize(dir.path()).unwrap();
        let (project, work) = (top.join("project"), top.join("work"));
        for at in [project.join(".venv"), top.join("shell"), top.join("pyenv/versions/3.11.2")] {
            venv(&at);
        }
        program(&top.join("pyenv/shims/python"), "#!/usr/bin/env bash\nexec pyenv exec python\n");
        fs::write(project.join("pyproject.toml"), "").unwrap();
        program(&work.join("run.sh"), "#!/bin/sh\n$FLOW_ROOT/.venv/bin/python t.py\n");
        fs::write(work.join("env.sh"), "export LR=1\n").unwrap();
        fs::write(work.join("paths.sh"), "export PATH=/x:$PATH\n").unwrap();
        let root = project.display().to_string();
        let path = format!("{}/shell/bin:/usr/bin:/bin", top.display());
        let variables = |name: &str| match name {
            "PATH" => Some(path.clone()),
            "FLOW_ROOT" => Some(root.clone()),
            "HOME" => Some(top.display().to_string()),
            _ => None,
        };
        let table = [
            ("$FLOW_ROOT/.venv/bin/python t.py", "ROOT/.venv/bin/python"),
            ("\"${FLOW_ROOT}/.venv/bin/python\" t.py | tee x", "ROOT/.venv/bin/python"),
            ("P=$FLOW_ROOT/.venv/bin; $P/python t.py", "ROOT/.venv/bin/python"),
            ("~/project/.venv/bin/python t.py", "ROOT/.venv/bin/python"),
            ("cd $FLOW_ROOT && .venv/bin/python t.py", "ROOT/.venv/bin/python"),
            ("source $FLOW_ROOT/.venv/bin/activate && python t.py", "ROOT/.venv/bin: python"),
            ("cd $FLOW_ROOT\n. .venv/bin/activate\npython t.py", "ROOT/.venv/bin: python"),
            ("export PATH=$FLOW_ROOT/.venv/bin:$PATH; nice python t.py", "ROOT/.venv/bin: python"),
            ("cd $FLOW_ROOT && uv run --frozen python t.py", "ROOT/.venv/bin/python"),
            ("uv run --project $FLOW_ROOT t.py", "ROOT/.venv/bin/python"),
            ("uv run python t.py", "unknown"),
            ("cd $FLOW_ROOT && uv run --with numpy python t.py", "unknown"),
            ("poetry run python t.py", "unknown"),
            ("docker run image python t.py", "unknown"),
            ("conda activate x && python t.py", "unknown"),
            ("conda activate x && $FLOW_ROOT/.venv/bin/python t.py", "ROOT/.venv/bin/python"),
            ("module load python/3.12; python t.py", "unknown"),
            ("module load cuda; python t.py", "python"),
            ("$NOWHERE/python t.py", "unknown"),
            ("PYENV_VERSION=3.11.2 ~/pyenv/shims/python t.py", "HOME/pyenv/versions/3.11.2/bin/python"),
            ("~/pyenv/shims/python t.py", "unknown"),
            ("./run.sh", "ROOT/.venv/bin/python"),
            (". ./env.sh; python t.py", "python"),
            (". ./paths.sh; python t.py", "unknown"),
            ("echo '$FLOW_ROOT/.venv/bin/x' # python", "none"),
            ("sleep 1; echo x", "none"),
        ];
        for (text, expected) in table {
            let argv = ["bash", "-c", text].map(str::to_owned);
            let found = Command::of(&argv, &work, &variables);
            let front = found.activated.map(|front| format!("{front}: ")).unwrap_or_default();
            let shown = match found.python {
                FirstPython::None => "none".to_owned(),
                FirstPython::Unknown => "unknown".to_owned(),
                FirstPython::Python(name) => front + &name,
            };
            let shown = shown.replace(&root, "ROOT").replace(&top.display().to_string(), "HOME");
            assert_eq!(shown, expected, "{text}");
        }
    }
}
