//! Declared environments: their packages, and how a program finds them. Reads names of folders and small files; starts
//! nothing.

use std::{
    fs::{self, File},
    io,
    path::{Path, PathBuf},
    time::SystemTime,
};

use flow_core::{DeclaredEnvironment, EnvironmentProvider, reason::Fault};
use flow_store::Listing;
use flow_supervisor::clock;

use crate::prefix;

/// The folder of environments that flow makes.
pub(crate) fn made(cache: &Path) -> PathBuf {
    cache.join("environments")
}

/// The path of a file or folder next to an environment that flow makes.
pub(crate) fn sibling_path(place: &Path, what: &str) -> PathBuf {
    place.with_extension(what)
}

/// Whether the environment exists, as far as flow itself makes it.
pub(crate) fn is_made(declared: &DeclaredEnvironment) -> bool {
    let place = Path::new(&declared.place);
    declared.provider != EnvironmentProvider::Uv || sibling_path(place, "made").exists() && check(declared).is_ok()
}

/// Notes that an environment is complete, and from which project.
pub(crate) fn finished(place: &Path, project: &Path) -> io::Result<()> {
    fs::write(sibling_path(place, "made"), project.as_os_str().as_encoded_bytes())
}

/// Notes that a run uses an environment.
pub(crate) fn used(place: &Path) -> io::Result<()> {
    File::options().append(true).open(sibling_path(place, "made"))?.set_modified(clock::system())
}

/// When a run last used an environment, in milliseconds since 1970. `None` if it is not complete.
pub(crate) fn last_used(place: &Path) -> Option<u64> {
    let modified = fs::metadata(sibling_path(place, "made")).ok().filter(|_| place.is_dir())?.modified().ok()?;
    Some(modified.duration_since(SystemTime::UNIX_EPOCH).ok()?.as_millis() as u64)
}

/// The files of a project that determine the environment that uv makes from it.
pub(crate) fn project_files(project: &Path) -> [PathBuf; 3] {
    ["pyproject.toml", "uv.lock", ".python-version"].map(|name| project.join(name))
}

/// Checks that there is an environment.
///
/// # Errors
/// There is none.
pub(crate) fn check(declared: &DeclaredEnvironment) -> Result<(), Fault> {
    let prefix = Path::new(&declared.place);
    if is_image(declared) {
        return check_image(declared);
    }
    let is_there = ["bin/python", "bin/python3", "conda-meta"].iter().any(|name| prefix.join(name).exists());
    if is_there { Ok(()) } else { Err(missing(prefix)) }
}

pub(crate) fn is_image(declared: &DeclaredEnvironment) -> bool {
    declared.provider == EnvironmentProvider::Apptainer
}

/// The digest of an image in a registry: `docker://NAME@sha256:…`. It names the content, so nothing has to be read.
fn digest_in_registry(written: &str) -> Option<&str> {
    let (name, digest) = written.strip_prefix("docker://")?.split_once('@')?;
    let hex = digest.strip_prefix("sha256:")?;
    let is_digest = hex.len() == 64 && hex.bytes().all(|c| matches!(c, b'0'..=b'9' | b'a'..=b'f'));
    (is_digest && !name.is_empty() && tag(name).is_none()).then_some(digest)
}

/// The tag in the name of an image: `latest` in `host:5000/torch:latest`.
fn tag(name: &str) -> Option<&str> {
    name.rsplit('/').next()?.split_once(':').map(|(_, tag)| tag)
}

/// Whether an image is a file.
pub(crate) fn is_image_file(declared: &DeclaredEnvironment) -> bool {
    is_image(declared) && digest_in_registry(&declared.written).is_none()
}

fn check_image(declared: &DeclaredEnvironment) -> Result<(), Fault> {
    let DeclaredEnvironment { written, place, .. } = declared;
    if !is_image_file(declared) {
        return Ok(());
    }
    if written.contains("://") {
        let pull = format!("`apptainer pull image.sif {written}` makes a file for `apptainer: image.sif`");
        let Some(name) = written.strip_prefix("docker://") else {
            return Err(Fault::from(format!("`{written}` is neither a file nor a `docker://` image: {pull}")));
        };
        let name = name.split('@').next().unwrap_or(name);
        let bare = tag(name).map_or(name, |tag| name.strip_suffix(&format!(":{tag}")).unwrap_or(name));
        return Err(Fault::from(format!(
            "`{written}` does not say which content it has: write `docker://{bare}@sha256:…` with 64 digits. `skopeo inspect --format '{{{{.Digest}}}}' docker://{name}` prints the digest. Or {pull}"
        )));
    }
    match fs::metadata(place) {
        Ok(meta) if meta.is_file() => Ok(()),
        Ok(_) => Err(Fault::from(format!("`{place}` is a folder, not an image file"))),
        Err(_) => Err(Fault::from(format!("there is no file `{place}`"))),
    }
}

/// The arguments that run a command in an image. The folders and the work folder are visible in it.
pub(crate) fn in_image(
    declared: &DeclaredEnvironment,
    has_gpus: bool,
    folders: &[&Path],
    work: &Path,
    argv: Vec<String>,
) -> Vec<String> {
    let gpus = has_gpus.then(|| "--nv".to_owned());
    let own = (!folders.iter().any(|folder| work.starts_with(folder))).then_some(&work);
    let binds = folders.iter().chain(own).flat_map(|folder| ["--bind".to_owned(), folder.display().to_string()]);
    let image = if is_image_file(declared) { &declared.place } else { &declared.written };
    let work = ["--pwd".to_owned(), work.display().to_string(), image.clone()];
    ["apptainer", "exec"].map(str::to_owned).into_iter().chain(gpus).chain(binds).chain(work).chain(argv).collect()
}

/// The interpreter and packages of an environment, as JSON, and what to watch. Of an image in a registry, its digest.
///
/// # Errors
/// There is no environment.
pub(crate) fn list(declared: &DeclaredEnvironment) -> Result<Listing, Fault> {
    check(declared)?;
    if let Some(digest) = digest_in_registry(&declared.written).filter(|_| is_image(declared)) {
        return Ok(Listing { text: digest.as_bytes().to_vec(), watched: Vec::new() });
    }
    let prefix = Path::new(&declared.place);
    if !is_made(declared) {
        return Err(Fault::from(format!("`{}` is not complete", prefix.display())));
    }
    let (python, folders) = prefix::packages(prefix).ok_or_else(|| {
        let shown = prefix.display();
        Fault::from(format!("`{shown}` has no `lib/python*/site-packages`, so its packages cannot be found"))
    })?;
    let watched = folders.into_iter().chain(["bin", "conda-meta", "pyvenv.cfg"].map(|name| prefix.join(name)));
    // One that is not there would appear in the nearest folder above.
    let existing = |path: PathBuf| path.ancestors().find(|path| path.exists()).map(Path::to_owned);
    let mut watched: Vec<PathBuf> = watched.filter_map(existing).collect();
    watched.sort();
    watched.dedup();
    Ok(Listing { text: serde_json::to_vec(&python).unwrap_or_default(), watched })
}

/// The variables with which a program finds the environment, after the present ones. A variable without a value is
/// removed. An image gets none that lead to packages of the host.
pub(crate) fn variables(declared: &DeclaredEnvironment, path: &str) -> Vec<(&'static str, Option<String>)> {
    const OTHERS: [&str; 5] = ["VIRTUAL_ENV", "CONDA_PREFIX", "CONDA_DEFAULT_ENV", "PYTHONHOME", "PYTHONPATH"];
    if is_image(declared) {
        let removed = OTHERS.map(|name| (name, None));
        return removed.into_iter().chain([("PYTHONNOUSERSITE", Some("1".to_owned()))]).collect();
    }
    let prefix = Path::new(&declared.place);
    let own = if prefix.join("conda-meta").is_dir() { "CONDA_PREFIX" } else { "VIRTUAL_ENV" };
    let removed = OTHERS.into_iter().filter(|name| *name != own).map(|name| (name, None));
    let set = [
        ("PATH", format!("{}:{path}", bin(declared)).trim_end_matches(':').to_owned()),
        (own, declared.place.clone()),
        ("PYTHONNOUSERSITE", "1".to_owned()),
    ];
    removed.chain(set.map(|(name, value)| (name, Some(value)))).collect()
}

/// The folder of its programs.
pub(crate) fn bin(declared: &DeclaredEnvironment) -> String {
    format!("{}/bin", declared.place)
}

fn missing(prefix: &Path) -> Fault {
    let shown = prefix.display();
    Fault::from(match fs::metadata(prefix) {
        Err(_) => format!("there is no folder `{shown}`"),
        Ok(meta) if meta.is_dir() => {
            if let Ok(target) = fs::read_link(prefix.join("bin/python")) {
                let target = target.display();
                return Fault::from(format!("`{shown}/bin/python` leads to `{target}`, which is not there"));
            }
            format!("`{shown}` is not an environment: it has neither `bin/python` nor `conda-meta`")
        }
        Ok(_) => format!("`{shown}` is not a folder"),
    })
}

#[cfg(test)]
mod tests {
    use std::{collections::BTreeMap, os::unix::fs::PermissionsExt};

    use flow_core::Python;

    use super::*;

    fn declared(place: &Path) -> DeclaredEnvironment {
        let (name, written, place) = ("lab".to_owned(), "lab".to_owned(), place.display().to_string());
        DeclaredEnvironment { name, provider: EnvironmentProvider::Prefix, written, place }
    }

    /// A prefix whose interpreter is an empty file.
    fn prefix(at: &Path) -> PathBuf {
        let site = at.join("lib/python3.11/site-packages");
        fs::create_dir_all(&site).unwrap();
        fs::create_dir_all(at.join("bin")).unwrap();
        fs::write(at.join("lib/python3.11/_sysconfigdata__linux_x86_64-linux-gnu.py"), "").unwrap();
        fs::write(at.join("bin/python3.11"), "").unwrap();
        fs::set_permissions(at.join("bin/python3.11"), fs::Permissions::from_mode(0o755)).unwrap();
        std::os::unix::fs::symlink("python3.11", at.join("bin/python")).unwrap();
        site
    }

    fn packages(at: &Path) -> BTreeMap<String, String> {
        serde_json::from_slice::<Python>(&list(&declared(at)).unwrap().text).unwrap().packages
    }

    #[test]
    fn a_conda_environment_has_builds_and_packages_of_other_languages() {
        let dir = tempfile::tempdir().unwrap();
        let site = prefix(dir.path());
        for (name, is_conda) in [
            ("numpy-1.26.4", false),
            ("torch-2.11.0", false),
            ("numpy-1.26.4-py311_0", true),
            ("torch-2.10.0-cpu_1", true),
            ("cuda-nvcc-12.8-0", true),
        ] {
            let folder = if is_conda { dir.path().join("conda-meta") } else { site.clone() };
            let ending = if is_conda { "json" } else { "dist-info" };
            fs::create_dir_all(folder.join(format!("{name}.{ending}"))).unwrap();
        }
        let found = packages(dir.path());
        let expected = [("cuda-nvcc", "12.8 0"), ("numpy", "1.26.4 py311_0"), ("torch", "2.11.0")];
        assert_eq!(found, expected.map(|(name, version)| (name.to_owned(), version.to_owned())).into());
        let listed = list(&declared(dir.path())).unwrap();
        let python: Python = serde_json::from_slice(&listed.text).unwrap();
        assert_eq!((python.version.as_deref(), python.abi.as_deref()), (Some("3.11"), Some("linux_x86_64-linux-gnu")));
        assert!(listed.watched.contains(&dir.path().join("conda-meta")) && listed.watched.contains(&site));
        let set = variables(&declared(dir.path()), "/usr/bin");
        assert!(set.contains(&("CONDA_PREFIX", Some(dir.path().display().to_string()))), "{set:?}");
        assert!(set.contains(&("PATH", Some(format!("{}/bin:/usr/bin", dir.path().display())))), "{set:?}");
    }

    #[test]
    fn a_package_that_is_not_from_an_index_counts_with_its_files() {
        let dir = tempfile::tempdir().unwrap();
        let info = prefix(dir.path()).join("lab-0.1.dist-info");
        fs::create_dir(&info).unwrap();
        let of = |origin: &str, record: &str| {
            fs::write(info.join("direct_url.json"), origin).unwrap();
            fs::write(info.join("RECORD"), record).unwrap();
            packages(dir.path())["lab"].clone()
        };
        let git = r#"{"url": "https://example.org/lab", "vcs_info": {"vcs": "git", "commit_id": "1a"}}"#;
        let first =
            of(git, "lab/a.py,sha256=1,9\nlab-0.1.dist-info/INSTALLER,sha256=2,4\n../../../bin/lab,sha256=3,9\n");
        assert!(first.starts_with("0.1 (build "), "{first}");
        assert_eq!(
            of(
                git,
                "lab/__pycache__/a.pyc,,\nlab-0.1.dist-info/INSTALLER,sha256=9,2\nlab/a.py,sha256=1,9\n../../../bin/lab,sha256=8,9\n"
            ),
            first
        );
        assert_ne!(of(git, "lab/a.py,sha256=4,9\n"), first);
        let program = |text: &str| {
            fs::write(dir.path().join("bin/lab"), text).unwrap();
            of(git, "../../../bin/lab,sha256=3,9\n")
        };
        assert_eq!(
            program("#!/a/bin/python\nprint(1)"),
            program("#!/b/bin/python\nprint(1)"),
            "the folder is not counted"
        );
        assert_ne!(program("#!/a/bin/python\nprint(1)"), program("#!/a/bin/python\nprint(2)"));
        assert_eq!(of(r#"{"url": "file:///lab", "dir_info": {"editable": true}}"#, ""), "0.1");
    }

    #[test]
    fn an_image_in_a_registry_is_named_by_its_digest() {
        let hex = "0123456789abcdef".repeat(4);
        let image = |written: &str| DeclaredEnvironment {
            name: "image".to_owned(),
            provider: EnvironmentProvider::Apptainer,
            written: written.replace("HEX", &hex),
            place: "/nowhere".to_owned(),
        };
        for name in ["docker://pytorch/pytorch@sha256:HEX", "docker://host:5000/torch@sha256:HEX"] {
            let listed = list(&image(name)).unwrap();
            assert_eq!(listed.text, format!("sha256:{hex}").as_bytes(), "{name}");
            let argv = in_image(&image(name), false, &[], Path::new("/w"), vec!["ls".to_owned()]);
            assert_eq!(argv[4..], ["--pwd", "/w", &image(name).written, "ls"]);
        }
        let refused = |written: &str| check(&image(written)).unwrap_err().to_string();
        for name in ["docker://torch:2.1", "docker://torch", "docker://torch@sha256:12", "docker://torch:2@sha256:HEX"]
        {
            let said = refused(name);
            assert!(said.contains("write `docker://torch@sha256:…`"), "{said}");
        }
        assert!(refused("docker://torch:2.1").contains("'{{.Digest}}' docker://torch:2.1` prints the digest"));
        assert!(refused("library://torch").contains("`apptainer pull image.sif library://torch`"));
    }

    #[test]
    fn a_folder_that_is_no_environment_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        let said = |name: &str| check(&declared(&dir.path().join(name))).unwrap_err().to_string();
        fs::write(dir.path().join("file"), "").unwrap();
        fs::create_dir(dir.path().join("empty")).unwrap();
        assert!(said("absent").starts_with("there is no folder `"));
        assert!(said("file").ends_with("is not a folder"));
        assert!(said("empty").contains("neither `bin/python` nor `conda-meta`"));
    }
}
