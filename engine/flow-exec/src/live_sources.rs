//! Finds Python sources that are imported from where the author edits them: editable installs (`pip install -e`) and
//! `PYTHONPATH`. Reads the files of an installation, starts nothing.

use std::{
    env, fs,
    path::{Path, PathBuf},
};

use serde::Deserialize;

use crate::{
    environment::Variables,
    site_packages::{FolderCache, lines},
};

/// Sources that a program imports from their own folder.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct LiveSource {
    /// The name under which Python finds it: a package, a folder, or `PYTHONPATH`.
    pub(crate) name: String,
    /// The folder that Python searches.
    pub(crate) folder: PathBuf,
    /// The modules and packages in it.
    pub(crate) modules: Vec<PathBuf>,
    pub(crate) way: SourceRoute,
}

/// How Python finds live sources.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum SourceRoute {
    /// By an editable install. Folders of `PYTHONPATH` come before it.
    Install,
    /// By an editable install that comes before `PYTHONPATH`, or that flow cannot read.
    Hook,
    /// The variable `PYTHONPATH`.
    Variable,
}

/// The sources that editable installs in these folders of packages import, except those in the installation itself.
pub(crate) fn installed(folders: &[PathBuf], prefix: &Path) -> Vec<LiveSource> {
    let prefix = fs::canonicalize(prefix).unwrap_or_else(|_| prefix.to_owned());
    let is_own = |source: &LiveSource| !source.folder.starts_with(&prefix);
    folders.iter().flat_map(|folder| of_folder(folder)).filter(is_own).collect()
}

/// The folders below `root` in the `PYTHONPATH` that steps inherit.
pub(crate) fn inherited(variables: Variables<'_>, root: &Path) -> Vec<LiveSource> {
    let path = variables("PYTHONPATH").unwrap_or_default();
    let absolute = env::split_paths(&path).filter(|folder| folder.is_absolute());
    let real = absolute.filter_map(|folder| fs::canonicalize(folder).ok()).filter(|folder| folder.starts_with(root));
    let source = |folder: PathBuf| LiveSource {
        name: "PYTHONPATH".to_owned(),
        modules: modules(&folder, true),
        folder,
        way: SourceRoute::Variable,
    };
    real.map(source).collect()
}

/// The live sources that a folder of packages names.
fn of_folder(folder: &Path) -> Vec<LiveSource> {
    static SEEN: FolderCache<LiveSource> = FolderCache::new();
    SEEN.get(folder, read)
}

fn read(folder: &Path) -> Vec<LiveSource> {
    let (mut found, mut installs) = (Vec::new(), Vec::new());
    let mut entries: Vec<PathBuf> = fs::read_dir(folder).into_iter().flatten().flatten().map(|e| e.path()).collect();
    entries.sort();
    for entry in &entries {
        let Some(name) = entry.file_name().and_then(|name| name.to_str()) else { continue };
        let text = || fs::read_to_string(entry).unwrap_or_default();
        if name.ends_with(".pth") {
            found.extend(lines(&text()).filter_map(|line| of_path(&folder.join(line))));
        } else if name.starts_with("__editable___") && name.ends_with("_finder.py") {
            found.extend(mapping(&text()).into_iter().filter_map(|(module, path)| of_module(&module, &path)));
        } else if let Some(of) = name.strip_suffix(".dist-info") {
            let project = fs::read(entry.join("direct_url.json")).ok().and_then(|bytes| editable(&bytes));
            installs.extend(project.map(|project| (of.split('-').next().unwrap_or(of).to_owned(), project)));
        }
    }
    for (name, project) in installs {
        if !found.iter().any(|source: &LiveSource| source.folder.starts_with(&project)) {
            found.push(LiveSource { name, folder: project, modules: Vec::new(), way: SourceRoute::Hook });
        }
    }
    found
}

fn of_path(folder: &Path) -> Option<LiveSource> {
    let folder = fs::canonicalize(folder).ok().filter(|folder| folder.is_dir())?;
    let modules = modules(&folder, is_searched_whole(&folder));
    let name = match &*modules {
        [only] => only.file_stem()?.to_string_lossy().into_owned(),
        _ => folder.file_name()?.to_string_lossy().into_owned(),
    };
    Some(LiveSource { name, folder, modules, way: SourceRoute::Install })
}

/// False for the folder of a project: it also has files that nothing imports.
pub(crate) fn is_searched_whole(folder: &Path) -> bool {
    !["pyproject.toml", "setup.py", "setup.cfg"].iter().any(|file| folder.join(file).exists())
}

/// The packages in a folder, and its single modules if `all`.
fn modules(folder: &Path, all: bool) -> Vec<PathBuf> {
    let is_module = |path: &PathBuf| {
        if path.is_dir() {
            let name = path.file_name().unwrap_or_default();
            path.join("__init__.py").exists() && (all || name != "tests" && name != "test")
        } else {
            all && path.extension().is_some_and(|extension| extension == "py" || extension == "so")
        }
    };
    let mut found: Vec<PathBuf> = fs::read_dir(folder).into_iter().flatten().flatten().map(|e| e.path()).collect();
    found.retain(is_module);
    found.sort();
    found
}

/// A module or package that setuptools maps to a path; that of a module has no suffix.
fn of_module(module: &str, path: &Path) -> Option<LiveSource> {
    let file = PathBuf::from(format!("{}.py", path.display()));
    let path = fs::canonicalize(path).or_else(|_| fs::canonicalize(file)).ok()?;
    let parts = module.split('.').count();
    let folder = path.ancestors().nth(parts)?.to_owned();
    // Under another name, the copy cannot be found.
    let inside = path.strip_prefix(&folder).ok()?.with_extension("");
    let is_named = inside.components().map(|part| part.as_os_str().to_string_lossy()).eq(module.split('.'));
    let way = if is_named { SourceRoute::Install } else { SourceRoute::Hook };
    Some(LiveSource { name: module.to_owned(), folder, modules: vec![path], way })
}

/// `MAPPING` in the finder that setuptools writes: a dictionary of texts on one line.
fn mapping(text: &str) -> Vec<(String, PathBuf)> {
    let line = text.lines().find_map(|line| line.strip_prefix("MAPPING")?.split_once('{'));
    let mut rest = line.map_or("", |(_, rest)| rest).chars();
    let mut texts = Vec::new();
    while let Some(quote) = rest.find(|c| ['\'', '"', '}'].contains(c)).filter(|c| *c != '}') {
        let mut text = String::new();
        while let Some(c) = rest.next().filter(|c| *c != quote) {
            text.extend(if c == '\\' { rest.next() } else { Some(c) });
        }
        texts.push(text);
    }
    texts.chunks_exact(2).map(|pair| (pair[0].clone(), PathBuf::from(&pair[1]))).collect()
}

/// The project of an editable install.
fn editable(direct_url: &[u8]) -> Option<PathBuf> {
    #[derive(Deserialize)]
    struct DirectUrl {
        url: String,
        dir_info: DirInfo,
    }
    #[derive(Deserialize)]
    struct DirInfo {
        #[serde(default)]
        editable: bool,
    }
    let found: DirectUrl = serde_json::from_slice(direct_url).ok()?;
    let path = found.url.strip_prefix("file://").filter(|_| found.dir_info.editable)?;
    fs::canonicalize(path.replace("%20", " ")).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn write(at: &Path, text: &str) {
        fs::create_dir_all(at.parent().unwrap()).unwrap();
        fs::write(at, text).unwrap();
    }

    /// A project, and the folder of packages of a virtual environment in it.
    fn project(files: &[&str]) -> (tempfile::TempDir, PathBuf, PathBuf) {
        let dir = tempfile::tempdir().unwrap();
        let root = fs::canonicalize(dir.path()).unwrap().join("proj");
        files.iter().for_each(|file| write(&root.join(file), ""));
        let site = root.join(".venv/lib/python3.11/site-packages");
        fs::create_dir_all(&site).unwrap();
        (dir, root, site)
    }

    fn found(root: &Path, site: &Path) -> Vec<(String, String, SourceRoute)> {
        let all = installed(&[site.to_owned()], &root.join(".venv"));
        let below = |path: &Path| path.strip_prefix(root).unwrap().display().to_string();
        all.into_iter()
            .map(|source| {
                let modules: Vec<String> = source.modules.iter().map(|module| below(module)).collect();
                (source.name, format!("{}: {}", below(&source.folder), modules.join(" ")), source.way)
            })
            .collect()
    }

    fn direct_url(root: &Path, site: &Path, editable: bool) {
        let text = format!(r#"{{"dir_info": {{"editable": {editable}}}, "url": "file://{}"}}"#, root.display());
        write(&site.join("toy-0.1.dist-info/direct_url.json"), &text);
    }

    #[test]
    fn a_source_layout_is_a_line_of_a_path_file() {
        let (_dir, root, site) = project(&["src/toy/__init__.py", "src/other.py", "pyproject.toml", "setup.py"]);
        let text = format!("# a comment\nimport x; x.install()\n/nowhere\n{}\n", root.join("src").display());
        write(&site.join("__editable__.toy-0.1.pth"), &text);
        write(&site.join("own.pth"), "../site-packages\n");
        direct_url(&root, &site, true);
        let source = ("src".to_owned(), "src: src/other.py src/toy".to_owned(), SourceRoute::Install);
        assert_eq!(found(&root, &site), [source]);
    }

    #[test]
    fn of_a_project_folder_the_packages_count() {
        let (_dir, root, site) = project(&["toy/__init__.py", "tests/__init__.py", "train.py", "pyproject.toml"]);
        write(&site.join("toy.pth"), &root.display().to_string());
        assert_eq!(found(&root, &site), [("toy".to_owned(), ": toy".to_owned(), SourceRoute::Install)]);
    }

    #[test]
    fn setuptools_maps_packages_to_folders() {
        let (_dir, root, site) = project(&["toy/__init__.py", "ns/deep/__init__.py", "single.py", "lib/__init__.py"]);
        let at = |path: &str| root.join(path).display().to_string();
        let text = format!(
            "import sys\n\nMAPPING: dict[str, str] = {{'toy': '{}', 'ns.deep': \"{}\", 'single': '{}', 'named': '{}'}}\nNAMESPACES = {{'ns': []}}\n",
            at("toy"),
            at("ns/deep"),
            at("single"),
            at("lib"),
        );
        write(&site.join("__editable___toy_0_1_finder.py"), &text);
        write(&site.join("__editable__.toy-0.1.pth"), "import __editable___toy_0_1_finder\n");
        direct_url(&root, &site, true);
        let expected = [
            ("toy", ": toy", SourceRoute::Install),
            ("ns.deep", ": ns/deep", SourceRoute::Install),
            ("single", ": single.py", SourceRoute::Install),
            ("named", ": lib", SourceRoute::Hook),
        ];
        let expected = expected.map(|(name, place, way)| (name.to_owned(), place.to_owned(), way));
        assert_eq!(found(&root, &site), expected);
    }

    #[test]
    fn other_import_hooks_are_known_by_their_project() {
        let (_dir, root, site) = project(&["toy/__init__.py", "meson.build"]);
        write(&site.join("toy-editable.pth"), "import _toy_editable_loader\n");
        direct_url(&root, &site, true);
        assert_eq!(found(&root, &site), [("toy".to_owned(), ": ".to_owned(), SourceRoute::Hook)]);
    }

    #[test]
    fn an_installed_copy_is_not_live() {
        let (_dir, root, site) = project(&["toy/__init__.py"]);
        direct_url(&root, &site, false);
        assert_eq!(found(&root, &site), []);
    }

    #[test]
    fn the_variable_of_the_shell_names_folders() {
        let (_dir, root, _) = project(&["toy/__init__.py", "train.py"]);
        let path = format!("/usr:src:{}", root.display());
        let found = inherited(&|name| (name == "PYTHONPATH").then(|| path.clone()), &root);
        let modules = vec![root.join("toy"), root.join("train.py")];
        let name = "PYTHONPATH".to_owned();
        assert_eq!(found, [LiveSource { name, folder: root, modules, way: SourceRoute::Variable }]);
    }
}
