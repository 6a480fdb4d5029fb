//! Digests the sources of flow's own steps, which are a part of their fingerprints. After a change
//! of a policy, a locale or a template, no older result of `flow/simulate` or `flow/report` is
//! valid, and no version number has to be raised.
//!
//! The digest covers every file of the crates with these steps and of their own dependencies in
//! this workspace, the file that registers the steps, and the versions of all other crates. Line
//! endings and the location of the sources do not count.

use std::{
    collections::{BTreeMap, BTreeSet},
    error::Error,
    fs,
    path::{Path, PathBuf},
};

/// The crates that provide steps.
const PROVIDERS: [&str; 2] = ["flow-report", "flow-sim"];
/// The file that registers them, and the versions of all crates.
const BESIDES: [&str; 2] = ["engine/flow-cli/src/builtins.rs", "Cargo.lock"];

fn main() -> Result<(), Box<dyn Error>> {
    let root = Path::new("../..");
    for source in sources(root)? {
        println!("cargo:rerun-if-changed={}", root.join(source).display());
    }
    println!("cargo:rustc-env=FLOW_BUILTINS={}", digest(root)?);
    Ok(())
}

/// The files and folders that count, from the workspace's root.
fn sources(root: &Path) -> Result<Vec<PathBuf>, Box<dyn Error>> {
    let mut crates = BTreeSet::new();
    let mut open: Vec<String> = PROVIDERS.map(str::to_owned).to_vec();
    while let Some(name) = open.pop() {
        let path = root.join("engine").join(&name).join("Cargo.toml");
        let manifest = fs::read_to_string(&path).map_err(|e| format!("{}: {e}", path.display()))?;
        let dependencies = manifest.split("\n[").find_map(|section| section.trim_start().strip_prefix("dependencies]"));
        let names = dependencies.into_iter().flat_map(str::lines).filter_map(|line| line.split(['.', ' ', '=']).next());
        open.extend(names.filter(|name| name.starts_with("flow-") && !crates.contains(*name)).map(str::to_owned));
        crates.insert(name);
    }
    let crates = crates.into_iter().map(|name| Path::new("engine").join(name));
    Ok(BESIDES.iter().map(PathBuf::from).chain(crates).collect())
}

pub(crate) fn digest(root: &Path) -> Result<String, Box<dyn Error>> {
    let mut files = BTreeMap::new();
    for source in sources(root)? {
        read(&root.join(&source), &source.to_string_lossy(), &mut files)?;
    }
    let mut hasher = blake3::Hasher::new();
    for (name, bytes) in &files {
        for part in [name.as_bytes(), bytes] {
            hasher.update(&(part.len() as u64).to_le_bytes()).update(part);
        }
    }
    Ok(hasher.finalize().to_hex().to_string())
}

/// The files at a path, tests aside, by their names from the root.
fn read(path: &Path, name: &str, files: &mut BTreeMap<String, Vec<u8>>) -> Result<(), Box<dyn Error>> {
    if path.is_dir() {
        for entry in fs::read_dir(path)? {
            let file = entry?.file_name();
            let file = file.to_string_lossy();
            if !file.starts_with('.') && !["tests", "benches"].contains(&&*file) {
                read(&path.join(&*file), &format!("{name}/{file}"), files)?;
            }
        }
    } else {
        let mut bytes = fs::read(path).map_err(|e| format!("{}: {e}", path.display()))?;
        bytes.retain(|&byte| byte != b'\r');
        files.insert(name.replace('\\', "/"), bytes);
    }
    Ok(())
}
