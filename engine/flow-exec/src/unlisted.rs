//! Finds a file that a program misses and that exists in the project, but not in its work folder. Guesses from its
//! output; starts nothing.

use std::path::Path;

use crate::paths::relative;

/// Messages of programs about a missing file, or about a search upwards that found nothing.
const MISSES: [&str; 11] = [
    "No such file",
    "no such file",
    "can't open",
    "cannot open",
    "Cannot open",
    "not found",
    "ould not find",
    "does not exist",
    "No module named",
    "not a git repository",
    "parent director",
];

/// The file or folder that the last lines of a log miss, if it is in `beside`, the folder of the workflow, or in `root`,
/// and not in `work`; relative to `beside`.
pub(crate) fn unlisted(lines: &[String], work: &Path, beside: &Path, root: &Path) -> Option<String> {
    let misses = |line: &&String| MISSES.iter().any(|words| line.contains(words));
    lines.iter().rev().filter(misses).find_map(|line| {
        let module = line.contains("No module named");
        let words = line.split(|c: char| c.is_whitespace() || "'\"`‘’“”,;:()[]=".contains(c));
        words.filter(|word| !word.is_empty()).find_map(|word| {
            let paths = match Path::new(word).strip_prefix(work) {
                Ok(inside) => vec![inside.to_string_lossy().into_owned()],
                // A module, or the outermost package that contains it.
                Err(_) if module => {
                    let package = word.split('.').next().unwrap_or(word);
                    vec![format!("{}.py", word.replace('.', "/")), package.to_owned()]
                }
                Err(_) => vec![word.trim_start_matches("./").to_owned()],
            };
            paths.into_iter().filter(|path| leads_down(path)).find_map(|path| {
                let is_missing = work.join(&path).try_exists().is_ok_and(|is_there| !is_there);
                let folder = [beside, root].into_iter().find(|folder| is_missing && folder.join(&path).exists())?;
                Some(relative(beside, &folder.join(&path)))
            })
        })
    })
}

fn leads_down(path: &str) -> bool {
    !path.is_empty() && !path.starts_with('/') && path.split('/').all(|part| !matches!(part, "" | "." | ".."))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_beside_the_workflow_is_found_in_what_programs_print() {
        let dir = tempfile::tempdir().unwrap();
        let (beside, work) = (dir.path(), dir.path().join(".flow/runs/1/work"));
        std::fs::create_dir_all(&work).unwrap();
        for file in ["notes.txt", "train.py", "utils.py"] {
            std::fs::write(beside.join(file), "").unwrap();
        }
        std::fs::write(work.join("train.py"), "").unwrap();
        let found = |line: String| unlisted(&[line, "Exit 1".into()], &work, beside, beside);
        assert_eq!(found("cat: notes.txt: No such file or directory".into()), Some("notes.txt".into()));
        let python = format!("python3: can't open file '{}/utils.py': [Errno 2] No such file", work.display());
        assert_eq!(found(python), Some("utils.py".into()));
        assert_eq!(found("ModuleNotFoundError: No module named 'utils'".into()), Some("utils.py".into()));
        std::fs::create_dir_all(beside.join("net/layers")).unwrap();
        std::fs::write(beside.join("net/layers/conv.py"), "").unwrap();
        for (module, path) in [("net", "net"), ("net.layers", "net"), ("net.layers.conv", "net/layers/conv.py")] {
            assert_eq!(found(format!("ModuleNotFoundError: No module named '{module}'")), Some(path.into()));
        }
        assert_eq!(found("cat: train.py: No such file or directory".into()), None, "it is there");
        assert_eq!(found("cat: other.txt: No such file or directory".into()), None, "it is nowhere");
        assert_eq!(found("notes.txt: all is well".into()), None);
    }
    #[test]
    fn the_marker_of_a_search_upwards_is_found_at_the_root() {
        let dir = tempfile::tempdir().unwrap();
        let (root, beside, work) = (dir.path(), dir.path().join("workflows"), dir.path().join("cache/work"));
        for folder in [&beside, &work, &root.join(".git")] {
            std::fs::create_dir_all(folder).unwrap();
        }
        for file in [".project-root", "pyproject.toml", "setup.cfg", "Cargo.toml"] {
            std::fs::write(root.join(file), "").unwrap();
        }
        let cases = [
            ("FileNotFoundError: Project root directory not found. Indicators: ['.project-root']", ".project-root"),
            ("fatal: not a git repository (or any of the parent directories): .git", ".git"),
            ("error: No `pyproject.toml` found in current directory or any parent directory", "pyproject.toml"),
            ("Could not find the project configuration file 'pyproject.toml' in /tmp/x.", "pyproject.toml"),
            ("error: could not find `Cargo.toml` in `/tmp/x` or any parent directory", "Cargo.toml"),
        ];
        for (line, marker) in cases {
            let at = |beside: &Path| unlisted(&[line.to_owned()], &work, beside, root);
            assert_eq!(at(&beside), Some(format!("../{marker}")), "{line}");
            assert_eq!(at(root).as_deref(), Some(marker), "{line}");
        }
        std::fs::write(work.join("setup.cfg"), "").unwrap();
        for line in ["could not find setup.cfg", "could not find . or ..", "could not find it"] {
            assert_eq!(unlisted(&[line.to_owned()], &work, &beside, root), None, "{line}");
        }
    }
}
