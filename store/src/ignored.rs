//! Decides which files of an input folder are ignored: those that editors, file managers and interpreters leave
//! anywhere, and those that `.flowignore` names.

use std::{
    collections::BTreeSet,
    fs, io, iter,
    os::unix::ffi::OsStrExt,
    path::{Path, PathBuf},
};

use flow_core::reason::{Fault, FileFault, StoreAction};
use ignore::{
    Match,
    gitignore::{Gitignore, GitignoreBuilder},
};

use crate::stamp::Stamp;
use flow_runs::{Result, StoreError};

/// Patterns as in a `.gitignore`; `!` includes a path again, even one of the fixed list.
const FLOWIGNORE: &str = ".flowignore";

/// Ignored paths to report: all but `.flowignore` itself, because its author knows that it is ignored.
pub(crate) fn to_report(paths: &[PathBuf]) -> impl Iterator<Item = &PathBuf> {
    paths.iter().filter(|path| !path.ends_with(FLOWIGNORE))
}

/// The rules for one input folder.
pub(crate) struct IgnoreRules {
    folder: PathBuf,
    /// The patterns of each `.flowignore`, the nearest first, with the path from its folder to the input folder.
    patterns: Vec<(PathBuf, Gitignore)>,
    /// The places where such a file is or could be, with its stamp.
    pub(crate) places: Vec<(PathBuf, Option<Stamp>)>,
    /// Paths in the folder that are named as inputs themselves.
    named: Vec<PathBuf>,
}

impl IgnoreRules {
    /// Reads the files in the folder itself, and those from `root` down to it.
    ///
    /// # Errors
    /// One of them cannot be read, or has an invalid pattern.
    pub(crate) fn of(folder: &Path, root: Option<&Path>, named: &BTreeSet<PathBuf>) -> Result<IgnoreRules> {
        let real = real(folder).map_err(StoreError::io(StoreAction::Find, folder))?;
        let below_root = |above: &&Path| root.is_some_and(|root| above.starts_with(root));
        let (mut patterns, mut places) = (Vec::new(), Vec::new());
        for place in iter::once(&*real).chain(real.ancestors().skip(1).take_while(below_root)) {
            let path = place.join(FLOWIGNORE);
            let Some(meta) = fs::metadata(&path).ok().filter(fs::Metadata::is_file) else {
                places.push((path, None));
                continue;
            };
            let text = fs::read(&path).map_err(StoreError::io(StoreAction::Read, &path))?;
            let way = real.strip_prefix(place).unwrap_or(Path::new("")).to_owned();
            patterns.push((way, read(&path, &String::from_utf8_lossy(&text))?));
            places.push((path, Some(Stamp::of(&meta))));
        }
        let named = named.iter().filter_map(|path| path.strip_prefix(folder).ok());
        let named = named.filter(|path| !path.as_os_str().is_empty()).map(Path::to_owned).collect();
        Ok(IgnoreRules { folder: folder.to_owned(), patterns, places, named })
    }

    /// True if this path in the folder is ignored.
    pub(crate) fn covers(&self, path: &Path, is_folder: bool) -> bool {
        self.decides(path, is_folder) && !self.named.iter().any(|named| named.starts_with(path))
    }

    fn decides(&self, path: &Path, is_folder: bool) -> bool {
        let name = path.file_name().unwrap_or_default().as_bytes();
        if name == FLOWIGNORE.as_bytes() {
            return true;
        }
        for (way, patterns) in &self.patterns {
            match patterns.matched(way.join(path), is_folder) {
                Match::Ignore(_) => return true,
                Match::Whitelist(_) => return false,
                Match::None => {}
            }
        }
        is_left_behind(name) || (name == VIM_PROBE && !is_folder && self.is_empty(path))
    }

    /// True if the file is empty, or gone by now.
    fn is_empty(&self, path: &Path) -> bool {
        fs::symlink_metadata(self.folder.join(path)).map_or(true, |meta| meta.is_file() && meta.len() == 0)
    }
}

/// Resolves links except in the last part of the path, because a link's target does not affect the rules.
fn real(folder: &Path) -> io::Result<PathBuf> {
    match (folder.parent(), folder.file_name()) {
        (Some(above), Some(name)) => Ok(fs::canonicalize(above)?.join(name)),
        _ => fs::canonicalize(folder),
    }
}

fn read(path: &Path, text: &str) -> Result<Gitignore> {
    let malformed = |detail: Fault| StoreError::Malformed { path: path.to_owned(), detail: Box::new(detail) };
    // The tested paths are already relative.
    let mut patterns = GitignoreBuilder::new("");
    for (line, pattern) in iter::zip(1.., text.lines()) {
        patterns
            .add_line(None, pattern)
            .map_err(|e| malformed(FileFault::BadPattern { line, message: e.to_string() }.into()))?;
    }
    patterns.build().map_err(|e| malformed(e.to_string().into()))
}

/// Vim creates an empty file of this name to test whether it may write.
const VIM_PROBE: &[u8] = b"4913";

/// Names of files that no author writes: swap files and backups of editors, files of file managers and Python, and
/// files removed on NFS while they were open.
fn is_left_behind(name: &[u8]) -> bool {
    const NAMES: [&[u8]; 3] = [b".DS_Store", b"__pycache__", b".ipynb_checkpoints"];
    const ENDS: [&[u8]; 4] = [b"~", b".pyc", b"___jb_tmp___", b"___jb_old___"];
    let silly = |rest: &[u8]| !rest.is_empty() && rest.iter().all(u8::is_ascii_hexdigit);
    NAMES.contains(&name)
        || ENDS.iter().any(|end| name.ends_with(end))
        || is_swap(name)
        || name.starts_with(b".#")
        || (name.len() > 2 && name.starts_with(b"#") && name.ends_with(b"#"))
        || name.strip_prefix(b".nfs").is_some_and(silly)
}

/// `.train.py.swp`, and Vim's alternatives when that name exists or is tested: `.swo`, `.swx`, `.swpx`.
fn is_swap(name: &[u8]) -> bool {
    let end = name.iter().rposition(|byte| *byte == b'.').map(|dot| name.split_at(dot + 1));
    end.is_some_and(|(stem, end)| {
        let letters = end == b"swpx" || matches!(end, [b's', b'w', last] if last.is_ascii_lowercase());
        letters && stem.starts_with(b".")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_editors_are_known_and_others_are_not() {
        for yes in [
            ".DS_Store",
            "__pycache__",
            ".ipynb_checkpoints",
            "train.py~",
            "a.pyc",
            ".train.py.swp",
            ".swp",
            ".a.swx",
            ".a.swpx",
            "#train.py#",
            ".#train.py",
            ".nfs000000000123abcd",
            "a.py___jb_tmp___",
        ] {
            assert!(is_left_behind(yes.as_bytes()), "{yes}");
        }
        for no in ["train.py", "a.swp", ".a.sw", ".nfs", ".nfsrc", "#", "##", "#a", "DS_Store", "4913", "pyc", ".swift"]
        {
            assert!(!is_left_behind(no.as_bytes()), "{no}");
        }
    }

    #[test]
    fn the_nearest_file_decides_and_a_named_path_counts() {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().canonicalize().unwrap();
        let data = root.join("lab/data");
        fs::create_dir_all(&data).unwrap();
        let ignored = |named: &[&str]| {
            let named = named.iter().map(|name| data.join(name)).collect();
            IgnoreRules::of(&data, Some(&root), &named)
        };
        let plain = ignored(&[]).unwrap();
        assert_eq!(plain.places.len(), 3, "they could come to be");
        assert!(plain.covers(Path::new("cat/.DS_Store"), false) && !plain.covers(Path::new("cat/7.jpg"), false));
        fs::write(data.join("4913"), "").unwrap();
        assert!(plain.covers(Path::new("4913"), false) && !plain.covers(Path::new("4913"), true));
        fs::write(data.join("4913"), "x").unwrap();
        assert!(!plain.covers(Path::new("4913"), false));

        fs::write(root.join(".flowignore"), "# logs\n*.log\n/lab/data/raw/\n").unwrap();
        fs::write(data.join(".flowignore"), "!keep.log\n!__pycache__\ntmp*\n").unwrap();
        let both = ignored(&["tmp.bin", "tmp/sub/a"]).unwrap();
        for (path, is_folder, covered) in [
            ("a.log", false, true),
            ("sub/a.log", false, true),
            ("keep.log", false, false),
            ("raw", true, true),
            ("sub/raw", true, false),
            ("__pycache__", true, false),
            ("tmp2", false, true),
            ("tmp.bin", false, false),
            ("tmp", true, false),
            (".flowignore", false, true),
        ] {
            assert_eq!(both.covers(Path::new(path), is_folder), covered, "{path}");
        }
        fs::write(data.join(".flowignore"), "ok\n[z-a]\n").unwrap();
        let error = ignored(&[]).err().unwrap().to_string();
        assert!(error.contains("lab/data/.flowignore") && error.contains("line 2"), "{error}");
    }
}
