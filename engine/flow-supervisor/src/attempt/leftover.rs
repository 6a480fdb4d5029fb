//! Finds files that a program left in its work folder under unexpected names. Only looks.

use std::{
    collections::BTreeSet,
    path::{Path, PathBuf},
};

use flow_core::edits;
use walkdir::{DirEntry, WalkDir};

/// Limits of entries and depth in a work folder.
const MOST_ENTRIES: usize = 10_000;
const DEEPEST: usize = 6;

/// The files of a work folder, except for those at or below a `known` path (inputs and outputs). Files with names most
/// similar to `missing` come first.
pub fn leftover(work: &Path, known: &BTreeSet<PathBuf>, missing: &str) -> Vec<String> {
    let below = |entry: &DirEntry| entry.path().strip_prefix(work).unwrap_or(entry.path()).to_owned();
    let walk = WalkDir::new(work).min_depth(1).max_depth(DEEPEST).sort_by_file_name().into_iter();
    let entries = walk.filter_entry(|entry| !known.contains(&below(entry))).take(MOST_ENTRIES).flatten();
    let files = entries.filter(|entry| entry.file_type().is_file());
    let mut files: Vec<String> = files.map(|entry| below(&entry).to_string_lossy().into_owned()).collect();
    files.sort_by_cached_key(|file| distance(file, missing));
    files
}

/// Distance of two paths. A file of the same name in another folder is close, and so is one in a folder of that name.
fn distance(file: &str, missing: &str) -> usize {
    let name = |path: &str| Path::new(path).file_name().unwrap_or_default().to_string_lossy().into_owned();
    let folders = Path::new(file).ancestors().skip(1).map(|folder| folder.to_string_lossy().into_owned());
    let below = folders.filter(|folder| !folder.is_empty()).map(|folder| edits(&folder, missing) + 1);
    below.chain([edits(file, missing), edits(&name(file), &name(missing)) + 1]).min().unwrap_or(usize::MAX)
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn what_is_named_most_like_the_missing_file_comes_first() {
        let dir = tempfile::tempdir().unwrap();
        let work = dir.path();
        for file in
            ["data/x.pt", "in/prepare/a.pt", "z.log", "modle.pt", "ckpt/model.pt", "other/deep/a_very_long_name.txt"]
        {
            let path = work.join(file);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, "").unwrap();
        }
        std::os::unix::fs::symlink("/nowhere", work.join("link.pt")).unwrap();
        let known = ["data", "in/prepare"].map(PathBuf::from).into();
        let found = leftover(work, &known, "model.pt");
        assert_eq!(found, ["ckpt/model.pt", "modle.pt", "z.log", "other/deep/a_very_long_name.txt"]);
        fs::create_dir_all(work.join("outs/a")).unwrap();
        fs::write(work.join("outs/a/1.txt"), "").unwrap();
        assert_eq!(leftover(work, &known, "out")[0], "outs/a/1.txt");
        assert_eq!(leftover(&work.join("gone"), &known, "model.pt"), Vec::<String>::new());
    }
}
