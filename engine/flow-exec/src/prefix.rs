//! The packages of a prefix: a virtual, conda or module environment. Reads names of folders and small files; starts
//! nothing.

use std::{
    collections::BTreeSet,
    fs,
    path::{Path, PathBuf},
};

use flow_core::{Digest, Python};

use crate::{
    environment::interpreter,
    site_packages::{distributions, name_and_version, normalized, paths_of},
};

/// The interpreter and the packages of a prefix without the user's own, and the folders that hold them. `None` if it
/// has no packages that flow can find.
pub(crate) fn packages(prefix: &Path) -> Option<(Python, Vec<PathBuf>)> {
    let all = site_folders(prefix);
    let conda = conda(prefix);
    if all.is_empty() && conda.is_empty() {
        return None;
    }
    let known = interpreter(prefix);
    let own = |name: &str| known.as_ref().is_none_or(|known| is_of(name, &known.version));
    let (own, others): (Vec<_>, Vec<_>) = all.into_iter().partition(|(name, _)| own(name));
    let names: BTreeSet<&str> = own.iter().map(|(name, _)| &**name).collect();
    let unknown = || (!names.is_empty()).then(|| names.iter().copied().collect::<Vec<_>>().join(", "));
    let version = known.as_ref().map(|known| known.version.clone()).or_else(unknown);
    let mut python = Python { version, ..Python::default() };
    let mut folders: Vec<PathBuf> = own.into_iter().map(|(_, folder)| folder).collect();
    let linked: Vec<PathBuf> =
        folders.iter().flat_map(|folder| paths_of(folder)).filter(|path| !path.starts_with(prefix)).collect();
    folders.extend(linked);
    if let Some(known) = known {
        python.abi = known.abi;
        folders.extend(known.base);
    }
    for (name, version) in folders.iter().flat_map(|folder| distributions(folder)) {
        // The first one is imported.
        python.packages.entry(name).or_insert(version);
    }
    for (interpreter, folder) in others {
        let named = |(name, version)| (format!("{name} ({interpreter})"), version);
        python.packages.extend(distributions(&folder).into_iter().map(named));
        folders.push(folder);
    }
    let by_pip = not_by_conda(&folders);
    let conda = conda.into_iter().filter(|(name, ..)| !by_pip.contains(name));
    for (name, version, build) in folders.iter().flat_map(|folder| builds(folder)).chain(conda) {
        let known = python.packages.entry(name).or_insert_with(|| version.clone());
        // Another version was installed over it.
        if *known == version {
            *known = format!("{version} {build}");
        }
    }
    Some((python, folders))
}

/// The folders of packages of each interpreter below a prefix, with the interpreter's name: `python3.12`.
fn site_folders(prefix: &Path) -> Vec<(String, PathBuf)> {
    let mut found: Vec<(String, PathBuf)> = Vec::new();
    let mut seen = BTreeSet::new();
    for lib in ["lib", "lib64"] {
        for entry in fs::read_dir(prefix.join(lib)).into_iter().flatten().flatten() {
            let Ok(name) = entry.file_name().into_string() else { continue };
            let folder = entry.path().join("site-packages");
            // In a virtual environment `lib64` is a link to `lib`.
            let is_new = fs::canonicalize(&folder).is_ok_and(|real| seen.insert(real));
            if (name.starts_with("python") || name.starts_with("pypy")) && is_new {
                found.push((name, folder));
            }
        }
    }
    found.sort();
    found
}

/// Whether the folder `python3.12` belongs to this version.
fn is_of(name: &str, version: &str) -> bool {
    let minor = version.split('.').take(2).collect::<Vec<_>>().join(".");
    name.strip_prefix("python").is_some_and(|name| name.trim_end_matches(|c: char| c.is_alphabetic()) == minor)
}

/// The normalized names of packages that something other than conda installed.
fn not_by_conda(folders: &[PathBuf]) -> BTreeSet<String> {
    let entries = folders.iter().filter_map(|folder| fs::read_dir(folder).ok()).flatten().flatten();
    let others = entries.filter_map(|entry| {
        let (name, _) = name_and_version(entry.file_name().to_str()?)?;
        let installer = fs::read_to_string(entry.path().join("INSTALLER")).ok()?;
        (installer.trim() != "conda").then_some(name)
    });
    others.collect()
}

/// Packages that conda installed: name, version, build.
fn conda(prefix: &Path) -> Vec<(String, String, String)> {
    let names = fs::read_dir(prefix.join("conda-meta")).into_iter().flatten().flatten();
    let names = names.filter_map(|entry| entry.file_name().into_string().ok());
    let parts = names.filter_map(|name| {
        let (rest, build) = name.strip_suffix(".json")?.rsplit_once('-')?;
        let (name, version) = rest.rsplit_once('-')?;
        Some((normalized(name), version.to_owned(), build.to_owned()))
    });
    parts.collect()
}

/// Packages in a folder that do not come from an index. Their version alone does not identify them, so the digests of
/// their files count.
fn builds(folder: &Path) -> Vec<(String, String, String)> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let builds = entries.filter_map(|entry| {
        let (name, version) = name_and_version(entry.file_name().to_str()?)?;
        let origin = fs::read(entry.path().join("direct_url.json")).ok()?;
        // Its files are inputs of the steps.
        let is_editable = serde_json::from_slice::<serde_json::Value>(&origin).ok()?["dir_info"]["editable"] == true;
        let record = fs::read_to_string(entry.path().join("RECORD")).ok().filter(|_| !is_editable)?;
        Some((name, version, format!("(build {})", content(folder, &record).short())))
    });
    builds.collect()
}

/// The digest of the installed files with their digests. Files that an installer makes itself do not count, and of a
/// program in `bin` not the first line, which names the environment's folder.
fn content(folder: &Path, record: &str) -> Digest {
    const MADE: [&str; 5] = ["INSTALLER", "REQUESTED", "RECORD", "direct_url.json", "uv_cache.json"];
    let counted = |line: &str| {
        let file = line.split(',').next().unwrap_or_default();
        let is_made = file.rsplit_once(".dist-info/").is_some_and(|(_, name)| MADE.contains(&name));
        if is_made || file.ends_with(".pyc") {
            return None;
        }
        if !file.starts_with("../") || !file.contains("/bin/") {
            return Some(line.to_owned());
        }
        let program = fs::read(folder.join(file)).unwrap_or_default();
        let end = program.iter().position(|byte| *byte == b'\n').unwrap_or(program.len());
        let rest = if program.starts_with(b"#!") { &program[end..] } else { &program };
        Some(format!("{file},{}", Digest::of(rest).short()))
    };
    let mut lines: Vec<String> = record.lines().filter_map(counted).collect();
    lines.sort_unstable();
    Digest::of(lines.join("\n").as_bytes())
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{PermissionsExt, symlink};

    use super::*;

    /// A prefix with this interpreter, and its folder of packages.
    fn prefix(at: &Path, interpreter: &str) -> PathBuf {
        let site = at.join("lib").join(interpreter).join("site-packages");
        fs::create_dir_all(&site).unwrap();
        fs::create_dir_all(at.join("bin")).unwrap();
        fs::write(at.join("bin").join(interpreter), "").unwrap();
        fs::set_permissions(at.join("bin").join(interpreter), fs::Permissions::from_mode(0o755)).unwrap();
        if !at.join("bin/python").exists() {
            symlink(interpreter, at.join("bin/python")).unwrap();
        }
        site
    }

    fn install(site: &Path, entry: &str) {
        fs::create_dir_all(site.join(entry)).unwrap();
    }

    fn listed(at: &Path) -> Vec<String> {
        let (python, _) = packages(at).unwrap();
        let version = python.version.unwrap_or_default();
        let packages = python.packages.iter().map(|(name, version)| format!("{name} {version}"));
        [version].into_iter().chain(packages).collect()
    }

    #[test]
    fn packages_of_interpreters_that_flow_does_not_know_count() {
        for interpreter in ["pypy3.11", "python3.13t"] {
            let dir = tempfile::tempdir().unwrap();
            install(&prefix(dir.path(), interpreter), "six-1.16.0.dist-info");
            assert_eq!(listed(dir.path()), [interpreter, "six 1.16.0"]);
        }
    }

    #[test]
    fn packages_in_every_folder_of_the_search_count() {
        let dir = tempfile::tempdir().unwrap();
        let (at, overlay) = (dir.path().join("venv"), dir.path().join("overlay"));
        let site = prefix(&at, "python3.11");
        install(&site, "leg-1.0-py3.11.egg-info");
        install(&overlay, "torch-2.1.dist-info");
        fs::write(site.join("overlay.pth"), format!("import site\n{}\n", overlay.display())).unwrap();
        install(&at.join("lib64/python3.11/site-packages"), "numpy-1.26.dist-info");
        install(&prefix(&at, "python3.12"), "leg-2.0.dist-info");
        assert_eq!(listed(&at), ["3.11", "leg 1.0", "leg (python3.12) 2.0", "numpy 1.26", "torch 2.1"]);
    }

    #[test]
    fn the_base_of_a_copied_interpreter_is_the_one_that_its_environment_names() {
        let dir = tempfile::tempdir().unwrap();
        let (at, base) = (dir.path().join("venv"), dir.path().join("base"));
        install(&prefix(&base, "python3.11"), "six-1.16.0.dist-info");
        prefix(&at, "python3.11");
        let home = base.join("bin").display().to_string();
        let settings = format!("home = {home}\ninclude-system-site-packages = true\nversion = 3.11.2\n");
        fs::write(at.join("pyvenv.cfg"), settings).unwrap();
        assert_eq!(listed(&at), ["3.11.2", "six 1.16.0"]);
    }

    #[test]
    fn a_package_that_pip_installed_over_the_same_of_conda_has_no_build_of_conda() {
        let dir = tempfile::tempdir().unwrap();
        let site = prefix(dir.path(), "python3.11");
        fs::create_dir(dir.path().join("conda-meta")).unwrap();
        fs::write(dir.path().join("conda-meta/numpy-1.26.4-mkl_0.json"), "").unwrap();
        install(&site, "numpy-1.26.4.dist-info");
        for (installer, expected) in [("conda", "numpy 1.26.4 mkl_0"), ("pip", "numpy 1.26.4")] {
            fs::write(site.join("numpy-1.26.4.dist-info/INSTALLER"), installer).unwrap();
            assert_eq!(listed(dir.path()), ["3.11", expected]);
        }
    }
}
