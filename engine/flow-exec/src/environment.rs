//! Finds the software environment of a program: program files, Python installations and their packages. Reads links,
//! names of folders and the content of program files; starts nothing. An unknown part is left out.

use std::{
    collections::BTreeMap,
    env, fs,
    io::Read,
    iter,
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
    sync::{Mutex, PoisonError},
};

use flow_core::{Digest, Environment, ProgramFile, Python, shell::first};

use crate::{
    search_path::{ProgramPath, resolve},
    site_packages::{self, distributions},
};

/// Looked for in every environment.
pub(crate) const PYTHONS: [&str; 2] = ["python", "python3"];
/// The digest of a larger program covers its size and time instead of its content.
const LONGEST: u64 = 64 << 20;
/// A larger file is not a script. It is read again only if its size or time changes.
const LONGEST_SCRIPT: u64 = 1 << 20;

/// The variables of a program, by name.
pub(crate) type Variables<'a> = &'a dyn Fn(&str) -> Option<String>;

/// The variables of this process that are text.
pub(crate) fn text_variables() -> impl Iterator<Item = (String, String)> {
    env::vars_os().filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)))
}

/// The same names as in a recorded environment, as they are found now.
pub(crate) fn again(recorded: &Environment, variables: Variables<'_>) -> Environment {
    let own = |name: &str| recorded.own.get(name).cloned().or_else(|| variables(name));
    for program in recorded.programs.values() {
        if let (Some(stamp), Ok(real)) = (program.stamp, fs::canonicalize(&program.path))
            && stamp.2 > LONGEST_SCRIPT
        {
            SEEN.lock().unwrap_or_else(PoisonError::into_inner).entry(real).or_insert((stamp, (program.digest, None)));
        }
    }
    let (command, activated) = (recorded.command.clone(), recorded.activated.clone());
    let mut found = Environment { command, activated, ..Environment::default() };
    find(recorded.programs.keys().cloned(), &own, &mut found);
    found
}

/// Adds the programs that these names start, and their Pythons.
pub(crate) fn find(names: impl Iterator<Item = String>, variables: Variables<'_>, found: &mut Environment) {
    let path: Vec<String> = found.activated.clone().into_iter().chain(variables("PATH")).collect();
    let path = path.join(":");
    for name in names {
        let Some((file, installation)) = resolve(&name, &path).and_then(|at| program(&at, &path)) else { continue };
        if let Some(installation) = installation {
            let python = || installation.read(variables);
            found.pythons.entry(installation.prefix.display().to_string()).or_insert_with(python);
        }
        found.programs.insert(name, file);
    }
}

/// The folders of packages of the Python installation that runs a program, and its prefix.
pub(crate) struct Packages {
    pub(crate) prefix: PathBuf,
    pub(crate) folders: Vec<PathBuf>,
}

/// The packages of the Python that this name starts on this `PATH`: an interpreter, or a script of one.
pub(crate) fn packages_of(name: &str, path: &str, variables: Variables<'_>) -> Option<Packages> {
    packages_of_program(&resolve(name, path)?, path, variables)
}

pub(crate) fn packages_of_program(program: &ProgramPath, path: &str, variables: Variables<'_>) -> Option<Packages> {
    let (_, (_, line)) = content(&program.real)?;
    let found = installation(program, line.as_deref(), path)?;
    Some(Packages { folders: found.folders(variables), prefix: found.prefix })
}

/// The interpreter of a prefix: its version, its platform, and the base installation, if its packages are visible too.
pub(crate) struct Interpreter {
    /// `3.12.1`, or less of it.
    pub(crate) version: String,
    pub(crate) abi: Option<String>,
    /// The folders of the base installation's packages.
    pub(crate) base: Vec<PathBuf>,
}

/// The interpreter in the `bin` of a prefix. `None` if there is none, or if flow does not know it (PyPy).
pub(crate) fn interpreter(prefix: &Path) -> Option<Interpreter> {
    let bin = prefix.join("bin").display().to_string();
    let program = PYTHONS.iter().find_map(|name| resolve(name, &bin))?;
    let Installation { version, base, .. } = Installation::of(&program)?;
    let base = base.map(|base| folders_of(&base, &minor(&version))).unwrap_or_default();
    Some(Interpreter { version, abi: abi(&program.real), base })
}

/// The platform for which an interpreter loads binary packages, from the name of its configuration module:
/// `linux_x86_64-linux-gnu`.
fn abi(real: &Path) -> Option<String> {
    let library = real.parent()?.parent()?.join("lib").join(real.file_name()?);
    let names = fs::read_dir(library).ok()?.flatten().filter_map(|entry| entry.file_name().into_string().ok());
    let platforms = names.filter_map(|name| {
        let platform = name.strip_prefix("_sysconfigdata_")?.strip_suffix(".py")?;
        Some(platform.trim_start_matches('_').to_owned())
    });
    // Debian has the same module under a shorter name too.
    platforms.max_by_key(String::len)
}

/// The Python installation that a program is, or that runs it: the one of its `#!` line.
fn installation(program: &ProgramPath, line: Option<&str>, path: &str) -> Option<Installation> {
    let Some(line) = line else { return Installation::of(program) };
    let words: Vec<String> = line.split_whitespace().map(str::to_owned).collect();
    let interpreter = first(&words).program.and_then(|name| resolve(&name, path))?;
    Installation::of(&interpreter)
}

/// A program, and the Python installation that it is or that runs it.
fn program(program: &ProgramPath, path: &str) -> Option<(ProgramFile, Option<Installation>)> {
    let (stamp, (digest, interpreter)) = content(&program.real)?;
    let installation = installation(program, interpreter.as_deref(), path);
    let python = installation.as_ref().map(|installation| installation.prefix.display().to_string());
    Some((ProgramFile { path: program.at.display().to_string(), digest, stamp: Some(stamp), python }, installation))
}

/// Digest of a program, and the rest of a script's `#!` line. The digest does not cover that line, because it may name
/// the folder of a virtual environment.
type Content = (Digest, Option<String>);

/// The contents of programs by path, with the time and size of each when it was read.
static SEEN: Mutex<BTreeMap<PathBuf, (Stamp, Content)>> = Mutex::new(BTreeMap::new());

/// Seconds and nanoseconds of a modification time, and a size.
type Stamp = (i64, i64, u64);

/// The content of a program; the last one that was read, while size and time stay the same.
fn content(real: &Path) -> Option<(Stamp, Content)> {
    let meta = fs::metadata(real).ok()?;
    let stamp = (meta.mtime(), meta.mtime_nsec(), meta.len());
    let mut seen = SEEN.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(known) = seen.get(real).filter(|(then, _)| *then == stamp) {
        return Some(known.clone());
    }
    let content = if meta.len() > LONGEST {
        (Digest::of(format!("{stamp:?}").as_bytes()), None)
    } else {
        let bytes = fs::read(real).ok()?;
        let script = bytes.strip_prefix(b"#!").map(|script| {
            let end = script.iter().position(|byte| *byte == b'\n').unwrap_or(script.len());
            script.split_at(end)
        });
        let line = script.map(|(line, _)| String::from_utf8_lossy(line).trim().to_owned());
        (Digest::of(script.map_or(&bytes, |(_, rest)| rest)), line)
    };
    seen.insert(real.to_owned(), (stamp, content.clone()));
    Some((stamp, content))
}

/// A Python installation, or a virtual environment.
struct Installation {
    prefix: PathBuf,
    version: String,
    /// The base installation, if its packages are visible too: its prefix.
    base: Option<PathBuf>,
    is_virtual: bool,
}

impl Installation {
    /// The installation of an interpreter.
    fn of(ProgramPath { at, real }: &ProgramPath) -> Option<Installation> {
        let named = real.file_name()?.to_str()?.strip_prefix("python")?;
        if !named.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.') {
            return None;
        }
        let base = real.parent()?.parent()?;
        let folder = at.parent()?;
        let virtual_ = [folder.parent()?, folder].into_iter().find_map(|prefix| {
            let text = fs::read_to_string(prefix.join("pyvenv.cfg")).ok()?;
            Some((prefix.to_owned(), text))
        });
        let Some((prefix, text)) = virtual_ else {
            let version = if named.contains('.') { named.to_owned() } else { only_version(base)? };
            return Some(Installation { prefix: base.to_owned(), version, base: None, is_virtual: false });
        };
        let setting = |name: &str| {
            let lines = text.lines().filter_map(|line| line.split_once('='));
            lines.filter(|(key, _)| key.trim() == name).map(|(_, value)| value.trim().to_owned()).next()
        };
        // The last parts of `3.12.1.final.0` are left out.
        let version = setting("version").or_else(|| setting("version_info"))?;
        let version = version.split('.').take(3).collect::<Vec<_>>().join(".");
        let is_open = setting("include-system-site-packages").is_some_and(|value| value.eq_ignore_ascii_case("true"));
        // The interpreter may be a copy in the virtual environment.
        let home = setting("home").and_then(|home| Some(fs::canonicalize(home).ok()?.parent()?.to_owned()));
        let base = home.unwrap_or_else(|| base.to_owned());
        Some(Installation { prefix, version, base: is_open.then_some(base), is_virtual: true })
    }

    /// The folders of its packages, in the order of the search.
    fn folders(&self, variables: Variables<'_>) -> Vec<PathBuf> {
        let minor = minor(&self.version);
        let mut folders = Vec::new();
        if self.is_virtual {
            folders.push(self.prefix.join(format!("lib/python{minor}/site-packages")));
        }
        if let Some(base) = if self.is_virtual { self.base.as_ref() } else { Some(&self.prefix) } {
            if let Some(home) = variables("HOME").filter(|_| variables("PYTHONNOUSERSITE").is_none()) {
                folders.push(Path::new(&home).join(format!(".local/lib/python{minor}/site-packages")));
            }
            folders.extend(folders_of(base, &minor));
        }
        folders
    }

    fn read(&self, variables: Variables<'_>) -> Python {
        let path = variables("PYTHONPATH").unwrap_or_default();
        let mut packages = BTreeMap::new();
        let with_linked = |folder: PathBuf| {
            let linked = site_packages::paths_of(&folder);
            iter::once(folder).chain(linked)
        };
        let own = self.folders(variables).into_iter().flat_map(with_linked);
        let folders = env::split_paths(&path).filter(|dir| dir.is_absolute()).chain(own);
        for (name, version) in folders.flat_map(|folder| distributions(&folder)) {
            // The first one is imported.
            packages.entry(name).or_insert(version);
        }
        Python { version: Some(self.version.clone()), abi: None, packages }
    }
}

/// `3.12` of `3.12.1`.
fn minor(version: &str) -> String {
    version.split('.').take(2).collect::<Vec<_>>().join(".")
}

/// The folders of packages of a base installation. Fedora has them in `lib64` too, and local ones below `/usr/local`.
fn folders_of(base: &Path, minor: &str) -> Vec<PathBuf> {
    let local = (base == Path::new("/usr")).then(|| Path::new("/usr/local"));
    let prefixes = local.into_iter().chain([base]);
    let site = |prefix: &Path| ["lib64", "lib"].map(|lib| prefix.join(format!("{lib}/python{minor}/site-packages")));
    let mut folders: Vec<PathBuf> = prefixes.flat_map(site).collect();
    if local.is_some() {
        folders.push(format!("/usr/local/lib/python{minor}/dist-packages").into());
        folders.push("/usr/lib/python3/dist-packages".into());
    }
    folders
}

/// `3.12`, if an installation has packages of one version only.
fn only_version(prefix: &Path) -> Option<String> {
    let names = fs::read_dir(prefix.join("lib")).ok()?.flatten().map(|entry| entry.file_name());
    let mut versions = names.filter_map(|name| Some(name.to_str()?.strip_prefix("python3.")?.to_owned()));
    let first = versions.next()?;
    versions.next().is_none().then(|| format!("3.{first}"))
}

/// Random bytes for a secret key.
pub(crate) fn random_key() -> std::io::Result<[u8; 32]> {
    let mut key = [0; 32];
    fs::File::open("/dev/urandom")?.read_exact(&mut key)?;
    Ok(key)
}

#[cfg(test)]
mod tests {
    use std::{
        os::unix::fs::{PermissionsExt, symlink},
        process,
    };

    use super::*;
    use crate::{launchers::FirstPython, python_command::Command, search_path};

    /// A virtual environment of this machine's Python with these distributions.
    fn venv(at: &Path, packages: &[&str]) -> PathBuf {
        let made = process::Command::new("python3").args(["-m", "venv", "--without-pip"]).arg(at).status().unwrap();
        assert!(made.success());
        let mut lib = fs::read_dir(at.join("lib")).unwrap();
        let site = lib.next().unwrap().unwrap().path().join("site-packages");
        packages.iter().for_each(|name| fs::create_dir(site.join(format!("{name}.dist-info"))).unwrap());
        site
    }

    fn script(at: &Path, text: &str) {
        fs::write(at, text).unwrap();
        fs::set_permissions(at, fs::Permissions::from_mode(0o755)).unwrap();
    }

    fn argv(words: &[&str]) -> Vec<String> {
        words.iter().map(|word| (*word).to_owned()).collect()
    }

    fn found_by(argv: &[String], variables: Variables<'_>) -> Environment {
        Command::of(argv, Path::new("/nowhere"), variables).environment(variables)
    }

    #[test]
    fn a_virtual_environment_is_found_with_its_packages() {
        let dir = tempfile::tempdir().unwrap();
        let at = dir.path().join("venv");
        let site = venv(&at, &["scikit_learn-1.5.2", "Foo.Bar-2.0"]);
        let path = format!("{}/bin:/usr/bin:/bin", at.display());
        let variables = |name: &str| (name == "PATH").then(|| path.clone());
        let command = argv(&["bash", "-c", "python train.py | tee log"]);
        let found = found_by(&command, &variables);
        assert_eq!(found.command.as_deref(), Some("python"));
        let python = found.python().unwrap();
        assert!(python.version.as_ref().is_some_and(|version| version.starts_with("3.")), "{python:?}");
        let packages: Vec<(&str, &str)> = python.packages.iter().map(|(name, version)| (&**name, &**version)).collect();
        assert_eq!(packages, [("foo-bar", "2.0"), ("scikit-learn", "1.5.2")]);
        // As after `pip install -U`.
        fs::rename(site.join("scikit_learn-1.5.2.dist-info"), site.join("scikit_learn-1.9.1.dist-info")).unwrap();
        let (was, is) = (Some("1.5.2".into()), Some("1.9.1".into()));
        let upgraded = flow_core::Difference::Package { name: "scikit-learn".into(), was, is };
        assert_eq!(found.differences(&again(&found, &variables)), [upgraded]);
    }

    #[test]
    fn packages_in_the_folders_of_path_files_count() {
        let dir = tempfile::tempdir().unwrap();
        let (at, extra) = (dir.path().join("venv"), dir.path().join("extra"));
        let site = venv(&at, &["six-1.16"]);
        fs::create_dir_all(extra.join("torch-2.0.0.dist-info")).unwrap();
        fs::write(site.join("e.pth"), format!("{}\n", extra.display())).unwrap();
        let path = format!("{}/bin", at.display());
        let variables = |name: &str| (name == "PATH").then(|| path.clone());
        let found = found_by(&argv(&["python", "train.py"]), &variables);
        assert_eq!(found.python().unwrap().packages["torch"], "2.0.0");
        fs::rename(extra.join("torch-2.0.0.dist-info"), extra.join("torch-2.9.0.dist-info")).unwrap();
        let (was, is) = (Some("2.0.0".into()), Some("2.9.0".into()));
        let upgraded = flow_core::Difference::Package { name: "torch".into(), was, is };
        assert_eq!(found.differences(&again(&found, &variables)), [upgraded]);
    }

    #[test]
    fn an_environment_that_the_command_activates_comes_first() {
        let dir = tempfile::tempdir().unwrap();
        let at = dir.path().join("venv");
        venv(&at, &["torch-2.1"]);
        let variables = |name: &str| (name == "PATH").then(|| "/usr/bin:/bin".to_owned());
        for text in ["source VENV/bin/activate; python train.py", ". VENV/bin/activate\ncd x && python train.py"] {
            let text = text.replace("VENV", &at.display().to_string());
            let found = found_by(&argv(&["bash", "-c", &text]), &variables);
            let python = &found.programs["python"];
            assert_eq!(python.python.as_deref(), at.to_str(), "{found:?}");
            assert_eq!(again(&found, &variables).programs, found.programs);
        }
    }

    #[test]
    fn a_console_script_is_run_by_the_python_of_its_first_line() {
        let dir = tempfile::tempdir().unwrap();
        let (one, other) = (dir.path().join("one"), dir.path().join("other"));
        venv(&one, &["torch-2.1"]);
        venv(&other, &["torch-2.1"]);
        for at in [&one, &other] {
            script(&at.join("bin/train"), &format!("#!{}/bin/python\nprint(1)\n", at.display()));
        }
        // Found on the PATH by a link, without its environment.
        let bin = dir.path().join("bin");
        fs::create_dir(&bin).unwrap();
        symlink(one.join("bin/train"), bin.join("train")).unwrap();
        let variables = |name: &str| (name == "PATH").then(|| bin.display().to_string());
        let found = found_by(&argv(&["train", "--lr", "1"]), &variables);
        assert_eq!(found.python().unwrap().packages["torch"], "2.1");
        // The same packages in another folder are the same environment.
        fs::remove_file(bin.join("train")).unwrap();
        symlink(other.join("bin/train"), bin.join("train")).unwrap();
        search_path::forget();
        assert_eq!(found.differences(&again(&found, &variables)), []);
        script(&other.join("bin/train"), &format!("#!{}/bin/python\nprint(22)\n", other.display()));
        let is = bin.join("train").display().to_string();
        let differs = flow_core::Difference::Program { name: "train".into(), was: is.clone(), is };
        assert_eq!(found.differences(&again(&found, &variables)), [differs]);
    }

    #[test]
    fn a_python_behind_another_word_or_in_a_script_is_found() {
        let dir = tempfile::tempdir().unwrap();
        let (at, work) = (dir.path().join("venv"), dir.path().join("work"));
        venv(&at, &["torch-2.1"]);
        script(&at.join("bin/train"), &format!("#!{}/bin/python\nprint(1)\n", at.display()));
        fs::create_dir(&work).unwrap();
        script(&work.join("run.sh"), "#!/bin/sh\ntrain --lr 1\n");
        script(&work.join("own.py"), "#!/usr/bin/env python3\nprint('train')\n");
        fs::write(work.join("Makefile"), "all:\n\tpython t.py\n").unwrap();
        fs::write(work.join("plain.py"), "print('train')\n").unwrap();
        let path = format!("{}/bin:/usr/bin:/bin", at.display());
        let variables = |name: &str| (name == "PATH").then(|| path.clone());
        let table: [(&[&str], Option<&str>); 9] = [
            (&["python", "t.py"], Some("python")),
            (&["bash", "-c", "cd x && python3 t.py"], Some("python3")),
            (&["nice", "-n", "5", "train"], Some("train")),
            (&["./run.sh"], Some("train")),
            (&["bash", "run.sh"], Some("train")),
            (&["./own.py"], Some("python3")),
            (&["make", "all"], Some("python")),
            (&["sleep", "1"], None),
            (&["sleep", "plain.py"], None),
        ];
        for (command, expected) in table {
            let found = Command::of(&argv(command), &work, &variables);
            let started = expected.map_or(FirstPython::None, |name| FirstPython::Python(name.to_owned()));
            assert_eq!(found.python, started, "{command:?}");
            let environment = found.environment(&variables);
            let torch = environment.python().and_then(|python| python.packages.get("torch"));
            assert_eq!(torch.is_some(), expected.is_some(), "{command:?}");
        }
    }

    #[test]
    fn what_cannot_be_resolved_is_absent() {
        let dir = tempfile::tempdir().unwrap();
        let variables = |name: &str| (name == "PATH").then(|| dir.path().display().to_string());
        fs::write(dir.path().join("plain"), "not executable").unwrap();
        script(&dir.path().join("shim"), "#!/usr/bin/env nothing\n");
        for command in [&["plain"][..], &["./train.py"], &["bash", "-c", "cd x && python"], &["missing"], &[]] {
            assert_eq!(found_by(&argv(command), &variables).programs, BTreeMap::new(), "{command:?}");
        }
        let shim = found_by(&argv(&["shim"]), &variables);
        assert_eq!((shim.programs.len(), shim.python()), (1, None));
    }
}
