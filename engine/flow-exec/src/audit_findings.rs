//! What a traced program read beyond its inputs: files of the project and of others, Python packages, upward searches.
//! Reads the file system, starts nothing.

use std::{
    collections::{BTreeMap, BTreeSet},
    ffi::OsStr,
    fs,
    path::{Path, PathBuf},
};

use serde::{Deserialize, Serialize};

use crate::{
    paths::relative,
    site_packages,
    trace::{Access, Kind},
};

/// The findings of one run under strace.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct AuditFindings {
    /// The local time of that run.
    pub at: String,
    /// Files and folders of the project that no input covers, relative to the workflow.
    #[serde(default)]
    pub project: Vec<Entry>,
    /// Those of others, by absolute path. Files of the system and of Python itself do not count.
    #[serde(default)]
    pub outside: Vec<Entry>,
    /// Versions of the Python packages that it imported, by name.
    #[serde(default)]
    pub packages: BTreeMap<String, String>,
    /// Names that it looked for in the folders above its work folder, and the file that it found.
    #[serde(default)]
    pub searched: BTreeMap<String, Option<String>>,
    /// Files that it wrote outside its work folder.
    #[serde(default)]
    pub written: Vec<Entry>,
}

/// A file, or a folder with a number of files.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Entry {
    /// That of a folder ends with `/`.
    pub path: String,
    pub files: usize,
}

impl AuditFindings {
    /// Whether the inputs cover everything that it read, besides packages.
    pub fn is_covered(&self) -> bool {
        self.project.is_empty() && self.outside.is_empty() && self.searched.values().all(Option::is_none)
    }
}

/// The places of an attempt.
pub(crate) struct Places<'a> {
    /// The folder of the workflow.
    pub(crate) workflow: &'a Path,
    pub(crate) root: &'a Path,
    pub(crate) store: &'a Path,
    pub(crate) work: &'a Path,
    pub(crate) home: Option<&'a Path>,
    /// The real paths of its inputs, and of flow itself.
    pub(crate) covered: &'a [PathBuf],
}

/// More files of one folder are shown as that folder.
const FEW: usize = 5;
/// Modules that a start of Python imports, and whose package may not name them.
const STARTERS: [&str; 2] = ["_distutils_hack", "_virtualenv"];
/// Programs, libraries and devices of the system. docs/recipes.md lists them.
const SYSTEM: [&str; 17] = [
    "/usr",
    "/bin",
    "/boot",
    "/dev",
    "/etc",
    "/lib",
    "/lib32",
    "/lib64",
    "/libx32",
    "/nix",
    "/proc",
    "/run",
    "/sbin",
    "/sys",
    "/var/lib",
    "/var/cache",
    "/memfd:",
];
/// Folders in these that may have data.
const DATA: [&str; 3] = ["/usr/local/share", "/usr/local/data", "/dev/shm"];
/// Folders of programs below `/opt`.
const PROGRAMS: [&str; 5] = ["bin", "sbin", "lib", "lib64", "libexec"];

/// Sorts the accesses of an attempt, after its end and while its files exist.
pub(crate) fn findings(accesses: impl IntoIterator<Item = Access>, places: &Places<'_>) -> AuditFindings {
    let mut first: BTreeMap<PathBuf, Kind> = BTreeMap::new();
    let mut all: BTreeSet<(Kind, PathBuf)> = BTreeSet::new();
    for Access { kind, path } in accesses {
        if kind != Kind::Found {
            first.entry(path.clone()).or_insert(kind);
        }
        all.insert((kind, path));
    }
    let mut accesses = all;
    // It was not there before, or its content was replaced before anything read it.
    let is_made = |path: &Path| first.get(path).is_some_and(|kind| *kind != Kind::Read);
    accesses.retain(|(_, path)| !is_system(path) || module(path).is_some());
    let searched = searched(&accesses, places);
    let is_inside = |path: &Path| path.starts_with(places.store) || path.starts_with(places.work);
    accesses.retain(|(_, path)| !is_inside(path));
    let is_compiled = |path: &Path| path.components().any(|part| part.as_os_str() == "__pycache__");
    let mut written: BTreeSet<PathBuf> = BTreeSet::new();
    let (mut read, mut modules) = (BTreeSet::new(), BTreeMap::<_, Vec<&Path>>::new());
    for (kind, path) in &accesses {
        match kind {
            Kind::Written => _ = written.insert(path.clone()),
            Kind::Read => {
                if let Some(module) = module(path) {
                    modules.entry(module).or_default().push(path);
                } else if !path.ancestors().any(is_made) {
                    read.insert(fs::canonicalize(path).unwrap_or_else(|_| path.clone()));
                }
            }
            Kind::Found | Kind::Missing => {}
        }
    }
    let (mut installations, mut pyenvs) = (BTreeMap::new(), BTreeMap::new());
    read.retain(|path| {
        // A folder that something is found in need not have been listed for its content.
        let is_above = path.is_dir() && (places.work.starts_with(path) || places.root.starts_with(path));
        let is_own = path.ancestors().any(is_made);
        let is_covered = places.covered.iter().any(|covered| path.starts_with(covered));
        let is_other = is_above || is_own || is_covered || is_inside(path) || is_system(path);
        !is_other && !is_of_installation(path, places.root, &mut installations) && !is_of_pyenv(path, &mut pyenvs)
    });
    written.retain(|path| path.exists() && !is_compiled(path));
    let stops: Vec<&Path> = [Some(places.workflow), Some(places.root), places.home].into_iter().flatten().collect();
    let near = |path: &Path| relative(places.workflow, path);
    let absolute = |path: &Path| path.display().to_string();
    let installed: BTreeMap<&Path, _> =
        modules.keys().map(|(folder, _)| (&**folder, site_packages::modules(folder))).collect();
    let mut packages = BTreeMap::new();
    for ((folder, module), paths) in &modules {
        if STARTERS.contains(&&**module) {
            continue;
        }
        match installed[&**folder].get(module) {
            Some((name, version)) => _ = packages.insert(name.clone(), version.clone()),
            None => read.extend(paths.iter().filter(|path| is_loose(path, folder)).map(|path| path.to_path_buf())),
        }
    }
    let (ours, others): (BTreeSet<PathBuf>, BTreeSet<PathBuf>) =
        read.into_iter().partition(|path| path.starts_with(places.root));
    AuditFindings {
        at: String::new(),
        project: grouped(ours, &stops, near),
        outside: grouped(others, &stops, absolute),
        packages,
        searched,
        written: grouped(written, &stops, absolute),
    }
}

/// The inputs that a program neither opened nor looked for, of these with the paths at which it can find them.
pub(crate) fn unread(accesses: &[Access], inputs: impl Iterator<Item = (String, Vec<PathBuf>)>) -> Vec<String> {
    let found: BTreeSet<&Path> =
        accesses.iter().filter(|access| access.kind != Kind::Missing).map(|access| &*access.path).collect();
    let is_found =
        |path: &PathBuf| found.range::<&Path, _>(&**path..).next().is_some_and(|first| first.starts_with(path));
    inputs.filter(|(_, paths)| !paths.iter().any(is_found)).map(|(name, _)| name).collect()
}

fn is_system(path: &Path) -> bool {
    let is_below = |folders: &[&str]| folders.iter().any(|folder| path.starts_with(folder));
    let is_program = || path.iter().any(|part| PROGRAMS.iter().any(|name| part == *name));
    (is_below(&SYSTEM) && !is_below(&DATA)) || (is_below(&["/opt"]) && is_program())
}

/// Whether a file in a folder of packages, which no package names, counts: not the descriptions of packages, nor those
/// of the system.
fn is_loose(path: &Path, folder: &Path) -> bool {
    let first = path.strip_prefix(folder).ok().and_then(|inside| inside.iter().next()?.to_str()).unwrap_or_default();
    let is_description =
        [".dist-info", ".egg-info", ".egg", ".egg-link", ".pth"].iter().any(|end| first.ends_with(end));
    !is_description && !path.starts_with("/usr") && !path.starts_with("/nix")
}

/// The folder of packages and the module in it that a file belongs to.
fn module(path: &Path) -> Option<(PathBuf, String)> {
    // Python reads `.pth` files at every start.
    let mut above = path.ancestors().skip(1).filter(|_| path.extension().is_none_or(|extension| extension != "pth"));
    let folder = above.find(|above| above.ends_with("site-packages") || above.ends_with("dist-packages"))?;
    let mut inside = path.strip_prefix(folder).ok()?.components().map(|part| part.as_os_str().to_string_lossy());
    let first = inside.next().filter(|first| first != "__pycache__").or_else(|| inside.next())?;
    Some((folder.to_owned(), first.split('.').next().unwrap_or(&first).to_owned()))
}

/// Whether a file belongs to a Python installation, by the folders above it. `known`: the prefixes, and other folders.
fn is_of_installation(path: &Path, root: &Path, known: &mut BTreeMap<PathBuf, bool>) -> bool {
    let is_prefix = |above: &&Path| {
        *known.entry(above.to_path_buf()).or_insert_with(|| above.join("bin/python3").symlink_metadata().is_ok())
    };
    let mut above = path.ancestors().filter(|above| above.parent().is_some());
    let Some(prefix) = above.find(is_prefix) else { return false };
    let inside: Vec<&str> =
        path.strip_prefix(prefix).iter().flat_map(|inside| inside.iter()).filter_map(OsStr::to_str).collect();
    match &inside[..] {
        [] | ["pyvenv.cfg"] => true,
        [lib, name, ..] if lib.starts_with("lib") && name.starts_with("python") => true,
        [bin, name] if *bin == "bin" && name.starts_with("python") => true,
        // A project in its own virtual environment.
        _ if root.starts_with(prefix) => false,
        ["share", name, ..] => ["terminfo", "zoneinfo", "locale", "fonts"].contains(name),
        [name, ..] => ["bin", "conda-meta", "etc", "include", "lib", "lib64", "sbin", "ssl"].contains(name),
    }
}

/// The scripts and settings with which pyenv finds a Python. Results record the Python that it found.
fn is_of_pyenv(path: &Path, known: &mut BTreeMap<PathBuf, bool>) -> bool {
    path.ancestors().skip(1).any(|above| {
        let is_root = || ["shims", "versions"].iter().all(|name| above.join(name).is_dir());
        *known.entry(above.to_owned()).or_insert_with(is_root) && !path.starts_with(above.join("versions"))
    })
}

/// Names that were looked for in several folders above the work folder.
fn searched(accesses: &BTreeSet<(Kind, PathBuf)>, places: &Places<'_>) -> BTreeMap<String, Option<String>> {
    let mut names: BTreeMap<String, (BTreeSet<&Path>, Option<String>)> = BTreeMap::new();
    for (kind, path) in accesses {
        let (Some(folder), Some(name)) = (path.parent(), path.file_name()) else { continue };
        let is_above = places.work.starts_with(folder) && folder != places.work && !places.work.starts_with(path);
        if !is_above || *kind == Kind::Written {
            continue;
        }
        let (folders, found) = names.entry(name.to_string_lossy().into_owned()).or_default();
        folders.insert(folder);
        if *kind != Kind::Missing && !path.starts_with(places.store) {
            *found = Some(path.display().to_string());
        }
    }
    names.into_iter().filter(|(_, (folders, _))| folders.len() > 1).map(|(name, (_, found))| (name, found)).collect()
}

/// Files as entries. Folders whose names were listed have all files in them, and so have folders with many files, except
/// these and those above them.
fn grouped(read: BTreeSet<PathBuf>, stops: &[&Path], shown: impl Fn(&Path) -> String) -> Vec<Entry> {
    let mut entries: BTreeMap<PathBuf, usize> = BTreeMap::new();
    let mut listed: Option<PathBuf> = None;
    // A folder comes before the files in it.
    for path in read {
        match &listed {
            Some(folder) if path.starts_with(folder) => {
                _ = entries.entry(folder.clone()).and_modify(|files| *files += 1)
            }
            _ if path.is_dir() => {
                entries.insert(path.clone(), 0);
                listed = Some(path);
            }
            _ => _ = entries.insert(path, 1),
        }
    }
    loop {
        let mut folders: BTreeMap<PathBuf, (usize, usize)> = BTreeMap::new();
        for (path, files) in &entries {
            let Some(parent) = path.parent() else { continue };
            let (entries, sum) = folders.entry(parent.to_owned()).or_default();
            (*entries, *sum) = (*entries + 1, *sum + files);
        }
        folders.retain(|folder, (entries, _)| {
            let is_wide = stops.iter().any(|stop| stop.starts_with(folder)) || folder.components().count() < 3;
            *entries > FEW && !is_wide
        });
        if folders.is_empty() {
            break;
        }
        entries.retain(|path, _| !path.parent().is_some_and(|parent| folders.contains_key(parent)));
        for (folder, (_, sum)) in folders {
            *entries.entry(folder).or_default() += sum;
        }
    }
    let end = |path: &Path| if path.is_dir() { "/" } else { "" };
    entries.into_iter().map(|(path, files)| Entry { path: shown(&path) + end(&path), files }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_no_input_covers_is_found() {
        let dir = tempfile::tempdir().unwrap();
        let top = fs::canonicalize(dir.path()).unwrap();
        let at = |path: &str| top.join(path);
        let work = at("p/.flow/a/work");
        let data: Vec<String> = (0..7).map(|n| format!("data/set/{n}.bin")).collect();
        let site = "p/.venv/lib/python3.11/site-packages";
        let own = ["p/conf.yaml", "p/in/x.csv", "home/.keras/m.npz", "p/.git", "cache/new", "p/.venv/bin/python3"];
        let pyenv = ["home/.pyenv/shims/python3", "home/.pyenv/versions/3.11.7/VERSION"];
        let packages = [format!("{site}/yaml/__init__.py"), format!("{site}/PyYAML-6.0.dist-info/top_level.txt")];
        for file in data.iter().map(String::as_str).chain(own).chain(pyenv).chain(packages.iter().map(String::as_str)) {
            fs::create_dir_all(at(file).parent().unwrap()).unwrap();
            fs::write(at(file), "yaml\n_yaml\n").unwrap();
        }
        let read = ["p/conf.yaml", "p/in/x.csv", "home/.keras/m.npz", "p/.flow/a/work/own", "cache/new", "p"];
        let of = |kind: Kind| move |path: PathBuf| Access { path, kind };
        let read = read.into_iter().chain(data.iter().map(String::as_str)).chain([&*packages[0]]);
        let read =
            read.chain(["p/.venv/bin/python3", pyenv[0]]).map(at).chain(["/etc/passwd".into()]).map(of(Kind::Read));
        let missing = ["p/.flow/a/.git", "p/.flow/.git", "p/.flow/a/.env", "p/.env", "p/once"].map(at);
        let missing = missing.into_iter().map(of(Kind::Missing));
        let others =
            [of(Kind::Found)(at("p/.git")), of(Kind::Written)(at("cache/new")), of(Kind::Written)("/dev/null".into())];
        let places = Places {
            workflow: &at("p"),
            root: &at("p"),
            store: &at("p/.flow"),
            work: &work,
            home: Some(&at("home")),
            covered: &[at("p/in")],
        };
        let found = findings(read.chain(missing).chain(others), &places);
        let entry = |path: &str, files| Entry { path: path.to_owned(), files };
        let absolute = |path: &str| at(path).display().to_string();
        let expected = AuditFindings {
            at: String::new(),
            project: vec![entry("conf.yaml", 1)],
            outside: vec![
                entry(&absolute("cache/new"), 1),
                entry(&absolute("data/set/"), 7),
                entry(&absolute("home/.keras/m.npz"), 1),
            ],
            packages: BTreeMap::from([("pyyaml".to_owned(), "6.0".to_owned())]),
            searched: BTreeMap::from([(".env".to_owned(), None), (".git".to_owned(), Some(absolute("p/.git")))]),
            written: vec![entry(&absolute("cache/new"), 1)],
        };
        assert_eq!(found, expected);
        assert!(!found.is_covered());
    }

    #[test]
    fn inputs_that_were_not_read_are_named() {
        let access = |(path, kind): (&str, Kind)| Access { path: path.into(), kind };
        let accesses = [
            ("/w", Kind::Read),
            ("/w/lib/b.sh", Kind::Read),
            ("/w/lib.txt", Kind::Missing),
            ("/w/.root", Kind::Found),
            ("/home/data", Kind::Read),
        ];
        let inputs = [
            ("lib", vec!["/w/lib"]),
            ("lib.txt", vec!["/w/lib.txt"]),
            (".root", vec!["/w/.root"]),
            ("data", vec!["/w/data", "/home/data"]),
            ("common.py", vec!["/w/common.py", "/home/common.py"]),
        ];
        let inputs = inputs.map(|(name, paths)| (name.to_owned(), paths.into_iter().map(PathBuf::from).collect()));
        assert_eq!(unread(&accesses.map(access), inputs.into_iter()), ["lib.txt", "common.py"]);
    }

    #[test]
    fn what_is_written_later_deleted_or_in_a_prefix_is_read() {
        let dir = tempfile::tempdir().unwrap();
        let top = fs::canonicalize(dir.path()).unwrap();
        let at = |path: &str| top.join(path);
        let site = "p/lib/python3.11/site-packages";
        let loose = format!("{site}/loose.csv");
        let known =
            [format!("{site}/six.py"), format!("{site}/six-1.16.dist-info/RECORD"), format!("{site}/_virtualenv.py")];
        let own = ["p/study.db", "p/log", "p/data/x.csv", "p/bin/python3", "p/pyvenv.cfg", "p/lib/python3.11/os.py"];
        for file in own.into_iter().chain([&*loose]).chain(known.iter().map(String::as_str)) {
            fs::create_dir_all(at(file).parent().unwrap()).unwrap();
            fs::write(at(file), "six.py,,\n").unwrap();
        }
        let events = [
            (Kind::Read, "p/study.db"),
            (Kind::Written, "p/study.db"),
            (Kind::Missing, "p/log"),
            (Kind::Read, "p/log"),
            (Kind::Written, "p/log"),
            (Kind::Read, "p/gone"),
            (Kind::Written, "p/gone"),
            (Kind::Written, "p/tmp"),
            (Kind::Read, "p/tmp/x"),
            (Kind::Read, "p/bin/python3"),
            (Kind::Read, "p/pyvenv.cfg"),
            (Kind::Read, "p/lib/python3.11/os.py"),
            (Kind::Read, "p/data/x.csv"),
        ];
        let events = events.into_iter().chain([(Kind::Read, &*loose)]).map(|(kind, path)| (kind, at(path)));
        let events = events.chain(known.iter().map(|path| (Kind::Read, at(path))));
        let system =
            ["/usr/share/x", "/usr/local/share/d/x", "/opt/d/x", "/opt/d/lib/x", "/dev/null", "/dev/shm/x", "/srv/x"];
        let events = events.chain(system.map(|path| (Kind::Read, path.into())));
        let (root, work, store) = (at("p"), at("work"), at("p/.flow"));
        let places = Places { workflow: &root, root: &root, store: &store, work: &work, home: None, covered: &[] };
        let found = findings(events.map(|(kind, path)| Access { path, kind }), &places);
        let paths = |entries: &[Entry]| entries.iter().map(|entry| entry.path.clone()).collect::<Vec<_>>();
        assert_eq!(paths(&found.project), ["data/x.csv", "gone", &loose[2..], "study.db"]);
        assert_eq!(paths(&found.outside), ["/dev/shm/x", "/opt/d/x", "/srv/x", "/usr/local/share/d/x"]);
        assert_eq!(found.packages, BTreeMap::from([("six".to_owned(), "1.16".to_owned())]));
    }
}
