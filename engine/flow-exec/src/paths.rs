//! Paths as text, and without links.

use std::{
    fs,
    path::{Component, Path, PathBuf},
};

/// Removes `.` and `..` from the text of a path, without the file system.
pub(crate) fn normal(path: &Path) -> PathBuf {
    let mut out = PathBuf::new();
    for part in path.components() {
        match part {
            Component::ParentDir => drop(out.pop()),
            Component::CurDir => {}
            other => out.push(other),
        }
    }
    out
}

/// The real path of a file or folder that need not exist.
pub(crate) fn real(path: &Path) -> PathBuf {
    let known = path.ancestors().find_map(|above| Some((above, fs::canonicalize(above).ok()?)));
    let Some((above, known)) = known else { return path.to_owned() };
    match path.strip_prefix(above) {
        // `join` would end the path of a file with a slash.
        Ok(below) if below.as_os_str().is_empty() => known,
        Ok(below) => known.join(below),
        Err(_) => path.to_owned(),
    }
}

/// A path relative to a folder.
pub(crate) fn relative(folder: &Path, path: &Path) -> String {
    let common = folder.components().zip(path.components()).take_while(|(one, other)| one == other).count();
    let up = folder.components().skip(common).map(|_| Component::ParentDir);
    let relative: PathBuf = up.chain(path.components().skip(common)).collect();
    if relative.as_os_str().is_empty() { ".".to_owned() } else { relative.display().to_string() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_relative_to_a_folder_may_lead_up() {
        let way = |folder: &str, path: &str| relative(Path::new(folder), Path::new(path));
        assert_eq!(way("/lab", "/lab/reports/feb08.md"), "reports/feb08.md");
        assert_eq!(way("/lab/docs", "/lab/reports/feb08.md"), "../reports/feb08.md");
        assert_eq!(way("/lab", "/lab"), ".");
    }

    #[test]
    fn the_dots_of_a_path_are_removed() {
        assert_eq!(normal(Path::new("/lab/workflows/../reports/./a.md")), Path::new("/lab/reports/a.md"));
    }
}
