//! Finds the workflow for a command that names no file.

use std::collections::BTreeSet;
use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};

use flow_core::{Diagnostic, Source, parse_with};
use flow_exec::text;

use crate::error::CliError;

/// A file must show within this many bytes that it is a workflow.
const HEAD: u64 = 64 << 10;
/// Longer files are not searched for includes.
const LONGEST: u64 = 1 << 20;

/// The hint if there is no workflow.
const NONE: &str = "name one, or write a small one with `flow init`";

/// The only workflow in `folder`, as a path relative to it.
pub(crate) fn only(folder: &Path) -> Option<PathBuf> {
    match workflows(folder, "").as_mut_slice() {
        [one] => Some(std::mem::take(one)),
        _ => None,
    }
}

/// The only workflow in `folder`, else the last run's, else the only one in `folder/workflows`. The
/// path is relative to `folder`, except for the last run's.
pub(crate) fn choose(folder: &Path, last: impl FnOnce() -> Option<PathBuf>) -> Result<PathBuf, CliError> {
    if let Some(found) = only(folder).or_else(last) {
        return Ok(found);
    }
    let mut here = workflows(folder, "");
    here.extend(workflows(folder, "workflows"));
    let which = CliError::usage("which workflow? no file was given");
    match here.as_mut_slice() {
        [one] => Ok(std::mem::take(one)),
        [] => Err(which.hint(NONE)),
        several => {
            let names: Vec<String> = several.iter().map(|name| name.display().to_string()).collect();
            Err(which.hint(format!("found {}", names.join(", "))))
        }
    }
}

/// The workflows in a folder below `root`, by name. A file that another one includes does not
/// count.
fn workflows(root: &Path, below: &str) -> Vec<PathBuf> {
    let entries = fs::read_dir(root.join(below)).into_iter().flatten().flatten();
    let names = entries.map(|entry| Path::new(below).join(entry.file_name()));
    let mut found: Vec<(PathBuf, bool)> = names
        .filter(|name| is_yaml(name))
        .filter_map(|name| {
            let head = head(&root.join(&name))?;
            has_key(&head, b"flow").then(|| (name, has_key(&head, b"include")))
        })
        .collect();
    found.sort();
    if found.len() > 1 {
        let including: Vec<&Path> =
            found.iter().filter(|(_, includes)| *includes).map(|(name, _)| name.as_path()).collect();
        let parts: BTreeSet<PathBuf> = including.into_iter().flat_map(|name| included(root, name)).collect();
        // Files that include each other in a cycle all remain, so that opening one reports the
        // cycle.
        if found.iter().any(|(name, _)| !parts.contains(name)) {
            found.retain(|(name, _)| !parts.contains(name));
        }
    }
    found.into_iter().map(|(name, _)| name).collect()
}

/// As the shell's `*.yaml` and `*.yml`: without hidden files.
fn is_yaml(name: &Path) -> bool {
    let hidden = name.file_name().is_none_or(|name| name.as_encoded_bytes().starts_with(b"."));
    !hidden && name.extension().is_some_and(|extension| extension == "yaml" || extension == "yml")
}

/// The beginning of a regular file.
fn head(path: &Path) -> Option<Vec<u8>> {
    let mut head = Vec::new();
    text::open_regular(path).ok()?.take(HEAD).read_to_end(&mut head).ok()?;
    Some(head)
}

/// Whether a line without indentation begins with the key. A file with a mistake also counts.
fn has_key(text: &[u8], key: &[u8]) -> bool {
    let text = text.strip_prefix(b"\xef\xbb\xbf").unwrap_or(text);
    text.split(|byte| *byte == b'\n').any(|line| {
        let line = line.strip_prefix(b"{").unwrap_or(line);
        let (quote, line) = match line {
            [quote @ (b'"' | b'\''), rest @ ..] => (std::slice::from_ref(quote), rest),
            _ => (&[][..], line),
        };
        let rest = line.strip_prefix(key).and_then(|rest| rest.strip_prefix(quote));
        rest.is_some_and(|rest| rest.trim_ascii_start().starts_with(b":"))
    })
}

/// The files that a file includes, directly or not, without itself.
fn included(root: &Path, name: &Path) -> Vec<PathBuf> {
    let path = name.to_string_lossy().into_owned();
    let Ok(text) = text::read(&root.join(name), LONGEST) else { return Vec::new() };
    let mut all = Vec::new();
    // Mistakes in the file are reported when it is opened.
    drop(parse_with(&Source { path, text }, &mut |path| {
        all.push(PathBuf::from(path));
        text::read(&root.join(path), LONGEST).map_err(|e| Diagnostic::new(e.to_string()))
    }));
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    const FLOW: &str = "flow: 1\nsteps: {a: {run: 'true'}}\n";

    /// The choice if the last run was of `../last.yaml`, or the error.
    fn chosen(files: &[(&str, &str)], last: Option<&str>) -> String {
        let folder = tempfile::tempdir().expect("a folder");
        for (name, text) in files {
            let path = folder.path().join(name);
            fs::create_dir_all(path.parent().expect("a folder")).expect("a folder");
            fs::write(path, text).expect("a file");
        }
        match choose(folder.path(), || last.map(PathBuf::from)) {
            Ok(file) => file.display().to_string(),
            Err(CliError::Usage { hint, .. }) => hint.unwrap_or_default(),
            Err(_) => "another error".to_owned(),
        }
    }

    #[test]
    fn the_only_workflow_of_the_folder_goes_before_the_last_run() {
        let part = "flow: 1\nsteps: {b: {run: 'true'}}\n";
        let including = |what: &str| format!("flow: 1\ninclude: {what}\nsteps: {{a: {{run: 'true'}}}}\n");
        let (one, list, chain) = (including("b.yaml"), including("[b.yaml, c.yml]"), including("parts/x.yaml"));
        let (round, own) = (including("a.yaml"), including("a.yaml"));
        let up = including("../c.yml");
        let long = format!("# {}\n{FLOW}", "licence ".repeat(2000));
        let last = "../last.yaml";
        let cases: &[(&[(&str, &str)], &str)] = &[
            (&[("a.yaml", FLOW)], "a.yaml"),
            (&[("a.yml", FLOW)], "a.yml"),
            (&[("a.yaml", FLOW), ("b.yaml", FLOW)], last),
            (&[], last),
            // Others in other folders.
            (&[("a.yaml", FLOW), ("workflows/b.yaml", FLOW), ("workflows/c.yaml", FLOW)], "a.yaml"),
            (&[("a.yaml", FLOW), ("sub/b.yaml", FLOW)], "a.yaml"),
            (&[("workflows/b.yaml", FLOW)], last),
            (&[("sub/b.yaml", FLOW)], last),
            // Files that are not workflows.
            (&[("a.yaml", FLOW), ("config.yaml", "lr: 1\nmodel:\n  flow: 1\n")], "a.yaml"),
            (&[("a.yaml", FLOW), ("b.yaml", "workflow: 1\nflows: 2\nflow_rate: 3\n# flow: 1\n")], "a.yaml"),
            (&[("a.yaml", FLOW), ("b.yaml", ""), ("c.txt", FLOW), ("d.yaml.bak", FLOW), ("e.yaml~", FLOW)], "a.yaml"),
            (&[("a.yaml", FLOW), (".b.yaml", FLOW), ("c.yaml/d", FLOW)], "a.yaml"),
            (&[("config.yaml", "lr: 1\n")], last),
            // Other spellings, and one with a mistake.
            (&[("a.yaml", "\u{feff}flow: 1\r\nsteps: {}\r\n")], "a.yaml"),
            (&[("a.yaml", "name: x\n\"flow\": 1\n")], "a.yaml"),
            (&[("a.yaml", "'flow' : 1\n")], "a.yaml"),
            (&[("a.yaml", "{\"flow\": 1, \"steps\": {}}")], "a.yaml"),
            (&[("a.yaml", "flow: 1\nsteps: [")], "a.yaml"),
            (&[("a.yaml", &long)], "a.yaml"),
            // Included by the only one.
            (&[("a.yaml", &one), ("b.yaml", part)], "a.yaml"),
            (&[("a.yaml", &list), ("b.yaml", part), ("c.yml", part)], "a.yaml"),
            (&[("a.yaml", &chain), ("parts/x.yaml", &up), ("c.yml", part)], "a.yaml"),
            (&[("a.yaml", &one), ("b.yaml", part), ("c.yml", FLOW)], last),
            (&[("a.yaml", &own)], "a.yaml"),
            (&[("a.yaml", &one), ("b.yaml", &round)], last),
            (&[("a.yaml", &one)], "a.yaml"),
        ];
        for (files, expected) in cases {
            assert_eq!(chosen(files, Some(last)), *expected, "{files:?}");
        }
    }

    #[test]
    fn without_a_last_run_the_only_one_counts_and_several_are_named() {
        let cases: &[(&[(&str, &str)], &str)] = &[
            (&[("a.yaml", FLOW)], "a.yaml"),
            (&[("workflows/b.yaml", FLOW)], "workflows/b.yaml"),
            (&[("b.yaml", FLOW), ("a.yaml", FLOW)], "found a.yaml, b.yaml"),
            (
                &[("b.yaml", FLOW), ("a.yaml", FLOW), ("workflows/c.yaml", FLOW)],
                "found a.yaml, b.yaml, workflows/c.yaml",
            ),
            (
                &[
                    ("workflows/a.yaml", FLOW),
                    ("workflows/b.yaml", "flow: 1\ninclude: parts.yaml\n"),
                    ("workflows/parts.yaml", FLOW),
                ],
                "found workflows/a.yaml, workflows/b.yaml",
            ),
            (&[], "name one, or write a small one with `flow init`"),
        ];
        for (files, expected) in cases {
            assert_eq!(chosen(files, None), *expected, "{files:?}");
        }
    }
}
