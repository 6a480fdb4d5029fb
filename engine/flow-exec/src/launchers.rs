//! Programs that choose a Python themselves: `uv run`, containers, the shims of pyenv. Reads small files, starts nothing.

use std::{fs, path::Path};

use crate::environment::Variables;

/// The first Python that a command starts.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) enum FirstPython {
    /// It starts none, as far as is known.
    #[default]
    None,
    /// An interpreter, or a script of one: a path, or a name to look up.
    Python(String),
    /// It starts one that flow cannot find.
    Unknown,
}

/// Those that run a command in an environment of their own, and their words for it.
const LAUNCHERS: [(&str, &[&str]); 14] = [
    ("poetry", &["run"]),
    ("pixi", &["run"]),
    ("conda", &["run"]),
    ("mamba", &["run"]),
    ("micromamba", &["run"]),
    ("pipenv", &["run"]),
    ("hatch", &["run"]),
    ("rye", &["run"]),
    ("pdm", &["run"]),
    ("pyenv", &["exec"]),
    ("docker", &["run", "exec"]),
    ("podman", &["run", "exec"]),
    ("apptainer", &["run", "exec"]),
    ("singularity", &["run", "exec"]),
];
/// Options of `uv run` that choose no Python.
const HARMLESS: [&str; 6] = ["--frozen", "--locked", "--no-sync", "--offline", "--quiet", "-q"];

/// The Python that the launcher at the beginning of these words chooses; `None` if it is no launcher.
pub(crate) fn choose(words: &[String], folder: &Path, variables: Variables<'_>) -> Option<FirstPython> {
    let [program, word, rest @ ..] = words else { return None };
    let name = program.rsplit('/').next()?;
    if (name, &**word) == ("uv", "run") {
        let found = uv(rest, folder, variables);
        return Some(found.map_or(FirstPython::Unknown, FirstPython::Python));
    }
    LAUNCHERS.iter().any(|(known, runs)| *known == name && runs.contains(&&**word)).then_some(FirstPython::Unknown)
}

/// The interpreter of `uv run`: that of the project above a folder, else of the active environment.
fn uv(options: &[String], folder: &Path, variables: Variables<'_>) -> Option<String> {
    let mut folder = folder.to_owned();
    let mut options = options.iter();
    while let Some(option) = options.next().filter(|option| option.starts_with('-')) {
        let (name, value) = option.split_once('=').unwrap_or((option, ""));
        match name {
            "--project" | "--directory" if value.is_empty() => folder.push(options.next()?),
            "--project" | "--directory" => folder.push(value),
            name if HARMLESS.contains(&name) => {}
            _ => return None,
        }
    }
    let environment = match folder.ancestors().find(|above| above.join("pyproject.toml").is_file()) {
        Some(project) => project.join(variables("UV_PROJECT_ENVIRONMENT").unwrap_or_else(|| ".venv".into())),
        None => variables("VIRTUAL_ENV")?.into(),
    };
    interpreter(&environment, "python")
}

/// The program that a shim of pyenv starts; unknown for other shims. `None` if the path is no shim.
pub(crate) fn shim(at: &Path, folder: &Path, variables: Variables<'_>) -> Option<FirstPython> {
    let (shims, name) = (at.parent()?, at.file_name()?.to_str()?);
    if !shims.ends_with("shims") {
        return None;
    }
    let versions = shims.parent()?.join("versions");
    let of_folder = || folder.ancestors().find_map(|above| fs::read_to_string(above.join(".python-version")).ok());
    let of_all = || fs::read_to_string(versions.with_file_name("version")).ok();
    let version = variables("PYENV_VERSION").or_else(of_folder).or_else(of_all);
    let first = version.as_deref().and_then(|text| text.split([':', '\n']).next()).map(str::trim);
    let chosen = first.filter(|version| !version.is_empty() && versions.is_dir());
    let chosen = chosen.and_then(|version| interpreter(&versions.join(version), name));
    Some(chosen.map_or(FirstPython::Unknown, FirstPython::Python))
}

/// A program of a prefix.
fn interpreter(prefix: &Path, name: &str) -> Option<String> {
    let at = prefix.join("bin").join(name);
    at.exists().then(|| at.display().to_string())
}
