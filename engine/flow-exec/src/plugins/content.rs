//! The digest of a plugin's content: BLAKE3 over its `plugin.yaml`, which determines the command and its variables, and
//! over all files that its globs match, by sorted relative names. No modification time, no absolute path.
//!
//! A link counts as its target. Files that tools leave behind are not content: `.git`, `__pycache__`, and folders
//! marked as caches (`CACHEDIR.TAG`, like cargo's `target`).

use std::{
    collections::BTreeMap,
    fs::File,
    path::{Path, PathBuf},
};

use flow_core::Digest;
use globset::{GlobBuilder, GlobMatcher};
use walkdir::{DirEntry, WalkDir};

use super::FILE;
use crate::paths::normal;

pub(super) fn digest(folder: &Path, globs: &[String]) -> Result<Digest, String> {
    let mut files = BTreeMap::from([(FILE.to_owned(), folder.join(FILE))]);
    for glob in globs {
        find(folder, glob, &mut files).map_err(|what| format!("content: `{glob}`: {what}"))?;
    }
    let mut hasher = blake3::Hasher::new();
    for (name, path) in &files {
        let mut file = blake3::Hasher::new();
        File::open(path)
            .and_then(|f| file.update_reader(f).map(drop))
            .map_err(|e| format!("content: {}: {e}", path.display()))?;
        hasher.update(&(name.len() as u64).to_le_bytes());
        hasher.update(name.as_bytes());
        hasher.update(file.finalize().as_bytes());
    }
    Ok(Digest(*hasher.finalize().as_bytes()))
}

/// Adds the files that a glob matches, by their names relative to the plugin's folder.
fn find(folder: &Path, glob: &str, files: &mut BTreeMap<String, PathBuf>) -> Result<(), String> {
    if Path::new(glob).is_absolute() {
        return Err("expected a path relative to the plugin's folder".into());
    }
    let (fixed, pattern) = split(glob);
    let base = normal(&folder.join(&fixed));
    let before = files.len();
    let mut add = |path: &Path, name: &str| -> Result<(), String> {
        let text = path.to_str().and(Some(name)).ok_or_else(|| format!("{} is not UTF-8", path.display()))?;
        files.insert(text.to_owned(), path.to_owned());
        Ok(())
    };
    let Some(pattern) = pattern else {
        return match base.metadata() {
            Ok(meta) if meta.is_file() => add(&base, &fixed),
            Ok(_) => Err(format!("it is a folder; `{}/**` means all of it", glob.trim_end_matches('/'))),
            Err(e) => Err(format!("{}: {e}", base.display())),
        };
    };
    let matcher = matcher(&pattern)?;
    if !base.is_dir() {
        return Err(format!("it matches no file, because {} is not a folder", base.display()));
    }
    let walk = WalkDir::new(&base).follow_links(true).into_iter().filter_entry(|e| e.depth() == 0 || is_content(e));
    for entry in walk {
        let entry = entry.map_err(|e| e.to_string())?;
        let Ok(relative) = entry.path().strip_prefix(&base) else { continue };
        if entry.file_type().is_file() && matcher.is_match(relative) {
            let relative = relative.to_str().ok_or_else(|| format!("{} is not UTF-8", entry.path().display()))?;
            let name = if fixed.is_empty() { relative.to_owned() } else { format!("{fixed}/{relative}") };
            add(entry.path(), &name)?;
        }
    }
    // Files that another glob has already found count as matches.
    if files.len() == before && !files.keys().any(|name| in_base(name, &fixed).is_some_and(|r| matcher.is_match(r))) {
        return Err("it matches no file".into());
    }
    Ok(())
}

fn in_base<'a>(name: &'a str, fixed: &str) -> Option<&'a str> {
    if fixed.is_empty() { Some(name) } else { name.strip_prefix(fixed)?.strip_prefix('/') }
}

fn matcher(pattern: &str) -> Result<GlobMatcher, String> {
    let glob = GlobBuilder::new(pattern).literal_separator(true).build().map_err(|e| e.kind().to_string())?;
    Ok(glob.compile_matcher())
}

/// The leading folders without special characters, and the rest, if any. Only the fixed part may contain `..`.
fn split(glob: &str) -> (String, Option<String>) {
    let special = |part: &&str| part.contains(['*', '?', '[', '{']);
    let parts: Vec<&str> = glob.split('/').filter(|part| !part.is_empty() && *part != ".").collect();
    match parts.iter().position(special) {
        Some(at) => (parts[..at].join("/"), Some(parts[at..].join("/"))),
        None => (parts.join("/"), None),
    }
}

fn is_content(entry: &DirEntry) -> bool {
    let name = entry.file_name();
    if !entry.file_type().is_dir() {
        return name != ".git";
    }
    name != ".git" && name != "__pycache__" && !entry.path().join("CACHEDIR.TAG").is_file()
}
